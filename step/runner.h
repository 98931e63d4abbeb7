/* What the files of runs share: run.c (memory, code, the list of calls), run_exchange.c. */
#ifndef STEP_RUNNER_H
#define STEP_RUNNER_H

#include "step/disk.h"
#include "step/run.h"
#include "step/store.h"
#include "step/team.h"

/* A dimension that is read again before each call. */
typedef struct Refresh {
    int64_t *dim;
    const int32_t *value;
    int64_t bound;
} Refresh;

/* A task with its pointers. */
typedef struct BoundTask {
    const Task *task;
    moe_entry *entry;
    const moec_kernel *code, *interpreted;
    int64_t *dims;
    void **args; /* of the kernel; of a batch its buffers */
    Vec(Refresh) refresh;
    void *work;
    int64_t work_bytes;
    void *mail; /* of send and recv: what is on its way */
    uint32_t jobs_before; /* of the lane `disk`: it runs when so many are done */
} BoundTask;

typedef struct KernelTime {
    double seconds;
    uint64_t calls;
    moec_score score; /* with RunOptions.check */
} KernelTime;

struct Run {
    Program *program;
    KernelSet *kernels;
    Store *store;
    RunOptions options;
    RunWatch watch;
    Arena *arena;
    char *memory; /* of the arena's buffers, which the runs of the store share */
    moe_ctx *ctx;
    Team team; /* with RunOptions.yields */
    moe_route *routes; /* by BufferId */
    KernelTime *times; /* by kernel of the program */
    double *spent;     /* by task: seconds of the last call of its kernel */
    Vec(BoundTask) tasks;
    Vec(DiskJob) jobs;
    Vec(TaskId) job_tasks; /* which of them each is */
    Disk *disk;            /* NULL: there are no jobs */
    double seconds;
    moec_score score;
    int gated; /* the last run ended at a gate */
    const char *error;
    char text[MOE_MESSAGE_BYTES + 256]; /* of a failure while running */
};

#define REFUSE_RUN(r, ...) ((r)->error = (r)->error ? (r)->error : arena_printf((r)->arena, __VA_ARGS__))

int run_fail(Run *r, const BoundTask *b, const char *why); /* returns 1 */
void run_bind_exchange(Run *r, BoundTask *b);
int run_exchange(Run *r, const BoundTask *b);
void run_bind_disk(Run *r, const BoundTask *b);
uint32_t run_jobs_before(const Run *r, const Task *t);
int run_task_store(Run *r, const BoundTask *b);
int run_task_load(Run *r, const BoundTask *b);

#endif
