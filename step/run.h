/* Runs programs: persistent memory shared by name, an arena for the rest, a list of calls that is bound once.
 *
 * run_program() walks the list: it does not allocate, format or look anything up by name. */
#ifndef STEP_RUN_H
#define STEP_RUN_H

#include "step/kernels.h"

/* Persistent buffers of all programs, by name. Memory that no one has written is zero. */
typedef struct Store Store;
Store *store_new(void); /* NULL when memory is exhausted */
void store_free(Store *s);
/* Of a buffer that a bound program names; NULL: none does. Scalars: a float or int32_t. */
void *store_at(const Store *s, const char *name);
int64_t store_bytes(const Store *s); /* of all buffers */

/* Fills the buffers of a `batch` task, in its order. Returns 0, or 1 with a message printed. */
typedef struct BatchSource {
    int (*next)(void *self, void *const *buffers, const int64_t *bytes, uint32_t n);
    void *self;
} BatchSource;

/* Does an exchange of a group with several members: buffers are the task's operands, in its order. Returns 0, or 1 when it
 * failed; `why`, where there is one, then tells why. Groups of one need none. */
typedef struct ExchangeDoor {
    int (*exchange)(void *self, const Program *p, const Task *t, void *const *buffers);
    void *self;
    const char *(*why)(void *self);
} ExchangeDoor;

typedef struct Run Run;
typedef struct RunOptions {
    int threads; /* as moe_ctx_new() takes them */
    int yields;  /* it takes fewer while other work makes that faster: step/team.h */
    int check;   /* before each call, compiled code and interpreter run on copies of its arguments and are compared */
    BatchSource source;
    ExchangeDoor door;
    int swap_fd; /* a file with room for the program's disk_bytes; it stays the caller's. 0: none */
} RunOptions;

/* Gives a verified, placed program memory and code. Runs of one store take turns: their arenas are the same memory. NULL with
 * *error (static, or in the program's arena). */
Run *run_new(Program *p, KernelSet *k, Store *s, const RunOptions *o, const char **error);
void run_free(Run *r);

/* Runs all tasks. Returns 0, or 1 with run_error(), which is empty when the source of batches has said why. */
int run_program(Run *r);
const char *run_error(const Run *r);
int run_was_gated(const Run *r); /* the last run ended at a `gate`, before the tasks behind it */
/* Memory of a buffer of the program, views too; of the arena's it holds something only while a task runs. NULL: there is none. */
void *run_at(Run *r, const char *name);

/* Told of each task when it has run, and from when to when by clock_seconds(); of those of the lane `disk` at the end of the run. */
typedef struct RunWatch {
    void (*ran)(void *self, TaskId t, double begin, double end);
    void *self;
} RunWatch;
void run_watch(Run *r, RunWatch w); /* from the next run on; without `ran` nobody is told */

const Program *run_of(const Run *r);
double run_task_seconds(const Run *r, TaskId t); /* of a kernel, in the last run */
double run_kernel_seconds(const Run *r); /* inside kernels, since the run was made */
moec_score run_take_score(Run *r); /* of the checks since the last one */
void run_add_score(moec_score *sum, const moec_score *s);
/* A line for each kernel with elements that are wrong, or in doubt. */
void run_print_doubts(const Run *r);
/* A line per kernel, the slowest first. */
void run_print_times(const Run *r);
int64_t run_arena_bytes(const Run *r);

#endif
