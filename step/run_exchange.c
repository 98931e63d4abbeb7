/* Exchanges. In a group of one each gives what it takes; several members need a door, and without one the program is refused when
 * it is bound. */
#include "step/runner.h"

#include <string.h>

static int64_t message_bytes(const Run *r, const BoundTask *b)
{
    return r->program->buffers.at[b->task->operands.at[0].buffer].bytes;
}

void run_bind_exchange(Run *r, BoundTask *b)
{
    const Task *t = b->task;
    const TaskId number = (TaskId)(t - r->program->tasks.at);
    if (r->program->members[t->axis] != 1) {
        if (!r->options.door.exchange)
            REFUSE_RUN(r, "task %u (%s over %s): its group has %lld ranks, and this program runs on one",
                       number, task_names[t->kind], axis_names[t->axis],
                       (long long)r->program->members[t->axis]);
        return;
    }
    if (t->kind == TASK_send)
        b->mail = arena_alloc(r->arena, (size_t)message_bytes(r, b) + 1);
    if (t->kind == TASK_recv)
        b->mail = r->tasks.at[step_send_of(r->program, number)].mail;
}

/* The operands are x, sent, received, y. */
static int exchange_rows(Run *r, const BoundTask *b)
{
    const StepBuffer *x = &r->program->buffers.at[b->task->operands.at[0].buffer],
                     *y = &r->program->buffers.at[b->task->operands.at[3].buffer];
    const int64_t sent = *(const int32_t *)b->args[1], received = *(const int32_t *)b->args[2];
    const int64_t row = x->shape[0] ? x->bytes / x->shape[0] : 0;
    if (sent != received || sent < 0 || sent > x->shape[0] || sent > y->shape[0])
        return run_fail(r, b,
                        "the numbers of rows that are sent and received differ, or are beyond the tensors'");
    memcpy(b->args[3], b->args[0], (size_t)(sent * row));
    memset((char *)b->args[3] + sent * row, 0, (size_t)(y->bytes - sent * row));
    return 0;
}

int run_exchange(Run *r, const BoundTask *b)
{
    const ExchangeDoor *door = &r->options.door;
    if (r->program->members[b->task->axis] != 1)
        return door->exchange(door->self, r->program, b->task, b->args)
                   ? run_fail(r, b, door->why ? door->why(door->self) : "the exchange failed")
                   : 0;
    switch (b->task->kind) {
    case TASK_alltoallv: return exchange_rows(r, b);
    case TASK_send: memcpy(b->mail, b->args[0], (size_t)message_bytes(r, b)); return 0;
    case TASK_recv: memcpy(b->args[0], b->mail, (size_t)message_bytes(r, b)); return 0;
    case TASK_copy:
    case TASK_split:
    case TASK_allreduce:
    case TASK_allgather:
    case TASK_reducescatter: memcpy(b->args[1], b->args[0], (size_t)message_bytes(r, b)); return 0;
    case TASK_kernel:
    case TASK_batch:
    case TASK_gate:
    case TASK_store:
    case TASK_load:
    case TASK_COUNT: break;
    }
    return 0;
}
