/* store and load: jobs of the lane `disk`, and which of them each task waits for. */
#include "step/runner.h"

/* Bytes of the arena. */
typedef struct ArenaRange {
    int64_t lo, hi;
} ArenaRange;

static int in_file(const Run *r, BufferId b) { return r->program->buffers.at[b].owner == OWNER_disk; }

static ArenaRange range_of(const Run *r, BufferId b)
{
    const StepBuffer *buffer = &r->program->buffers.at[b],
                     *home = &r->program->buffers.at[step_home(r->program, b)];
    const int64_t lo = home->place + buffer->offset;
    return home->place < 0 || in_file(r, b) ? (ArenaRange){0, 0} : (ArenaRange){lo, lo + buffer->bytes};
}

static int overlap(ArenaRange a, ArenaRange b) { return a.lo < b.hi && b.lo < a.hi; }

void run_bind_disk(Run *r, const BoundTask *b)
{
    const Operand *x = &b->task->operands.at[0], *y = &b->task->operands.at[1];
    const int is_load = b->task->kind == TASK_load;
    const BufferId memory = is_load ? y->buffer : x->buffer, file = is_load ? x->buffer : y->buffer;
    if (r->options.swap_fd <= 0)
        REFUSE_RUN(r, "the program stores buffers in a file, and there is none");
    vec_push(r->arena, &r->jobs,
             (DiskJob){r->memory + r->program->buffers.at[memory].place, r->program->buffers.at[memory].bytes,
                       r->program->buffers.at[file].place, is_load});
    vec_push(r->arena, &r->job_tasks, (TaskId)(b->task - r->program->tasks.at));
}

/* Does the task touch what the job moves? Of what is only read, by both, it may. */
static int waits_for(const Run *r, const Task *t, uint32_t job)
{
    const Task *moves = &r->program->tasks.at[r->job_tasks.at[job]];
    const int is_load = moves->kind == TASK_load;
    const ArenaRange moved = range_of(r, moves->operands.at[is_load].buffer);
    each_operand(t, o) if (o->use != USE_SHAPE && (is_load || use_writes(o->use)) &&
                           overlap(moved, range_of(r, o->buffer))) return 1;
    return t->work != STEP_NONE && overlap(moved, range_of(r, t->work));
}

/* How many jobs must be done before the task: the lane does them in order, and its own tasks wait for none. */
uint32_t run_jobs_before(const Run *r, const Task *t)
{
    if (task_lanes[t->kind] == LANE_disk)
        return 0;
    for (uint32_t job = r->jobs.len; job-- > 0;)
        if (waits_for(r, t, job))
            return job + 1;
    return 0;
}

static int post(Run *r, const BoundTask *b)
{
    (void)b;
    disk_post(r->disk);
    return 0;
}

int run_task_store(Run *r, const BoundTask *b) { return post(r, b); }
int run_task_load(Run *r, const BoundTask *b) { return post(r, b); }
