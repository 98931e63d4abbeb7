/* What a program's exchanges send, on paper: from the sizes of its tensors alone. */
#include "comm/own.h"

/* Rows that travel: as many to each member, of as many as the smaller of the two tensors holds, because the larger one has room for
 * the worst. */
static int64_t row_bytes(const StepBuffer *x, const StepBuffer *y, int64_t members)
{
    return (x->shape[0] < y->shape[0] ? x : y)->bytes / members;
}

/* Bytes that a task sends from one place of its group to another. */
static int64_t sent_bytes(const Program *p, const Task *t, int64_t members, int64_t from, int64_t to)
{
    const StepBuffer *x = &p->buffers.at[t->operands.at[0].buffer],
                     *y = &p->buffers.at[t->operands.at[t->operands.len - 1].buffer];
    const int64_t n = step_elements(x), element = step_type_bytes(x->type);
    switch (t->kind) {
    case TASK_allreduce:
        return element * (n <= COMM_SMALL
                              ? n
                              : comm_part_elements(n, members, to) + comm_part_elements(n, members, from));
    case TASK_allgather: return x->bytes;
    case TASK_reducescatter: return y->bytes;
    case TASK_alltoallv: return row_bytes(x, y, members);
    case TASK_send: return ranks_in_ring(members, from + t->peer) == to ? x->bytes : 0;
    case TASK_recv:
    case TASK_copy:
    case TASK_split:
    case TASK_kernel:
    case TASK_batch:
    case TASK_gate:
    case TASK_store:
    case TASK_load:
    case TASK_COUNT: break;
    }
    return 0;
}

CommTraffic comm_planned(const Program *p, const Ranks *r, int64_t rank, GroupAxis axis)
{
    CommTraffic sum = {0};
    const int64_t place = ranks_place(r, axis, rank);
    for (TaskId i = 0; i < p->tasks.len; i++) {
        const Task *t = &p->tasks.at[i];
        if (!exchange_rules[t->kind].is_exchange || t->axis != axis)
            continue;
        for (int64_t to = 0; to < r->members[axis]; to++) {
            const CommLink link =
                ranks_share_node(r, rank, ranks_member(r, axis, rank, to)) ? LINK_INSIDE : LINK_BETWEEN;
            sum.bytes[link] += to == place ? 0 : sent_bytes(p, t, r->members[axis], place, to);
        }
    }
    return sum;
}

/* ---- memory ---- */

/* Slices of all members, and in front of them what is put together because its parts are not one run each. */
static int64_t scratch_bytes(const Program *p, const Task *t)
{
    const StepBuffer *x = &p->buffers.at[t->operands.at[0].buffer],
                     *y = &p->buffers.at[t->operands.at[t->operands.len - 1].buffer];
    const int64_t members = p->members[t->axis],
                  slices = members * comm_slice(members) * step_type_bytes(x->type);
    switch (t->kind) {
    case TASK_allreduce: return slices;
    case TASK_reducescatter: return slices + (step_runs(y, y->placed[t->axis]) > 1 ? x->bytes : 0);
    case TASK_allgather: return step_runs(x, x->placed[t->axis]) > 1 ? members * x->bytes : 0;
    case TASK_copy:
    case TASK_split:
    case TASK_alltoallv:
    case TASK_send:
    case TASK_recv:
    case TASK_kernel:
    case TASK_batch:
    case TASK_gate:
    case TASK_store:
    case TASK_load:
    case TASK_COUNT: break;
    }
    return 0;
}

int64_t comm_memory(const Program *p)
{
    int64_t most = 0;
    for (TaskId i = 0; i < p->tasks.len; i++) {
        const Task *t = &p->tasks.at[i];
        const int64_t bytes =
            exchange_rules[t->kind].is_exchange && p->members[t->axis] > 1 ? scratch_bytes(p, t) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}
