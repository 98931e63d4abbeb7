/* What the files of the verifier share: verify.c (memory, tasks), verify_call.c (calls of kernels),
 * verify_place.c (placements, exchanges). */
#ifndef STEP_VERIFIER_H
#define STEP_VERIFIER_H

#include "step/verify.h"

/* Of a buffer with memory of its own, while the tasks are walked. */
typedef struct Interval {
    int64_t lo, hi;
} Interval;

typedef struct Touched {
    Vec(Interval) bytes; /* that tasks have written so far, disjoint, in no order */
    TaskId first, last;  /* the tasks that touch it */
} Touched;

typedef struct StepVerifier {
    Program *p;
    const KernelSet *kernels;
    Touched *written; /* by BufferId */
    const char *error;
} StepVerifier;

#define REFUSE(v, ...) ((v)->error = (v)->error ? (v)->error : arena_printf((v)->p->arena, __VA_ARGS__))

const char *verify_task_text(const Program *p, TaskId t); /* "task 7 (kernel norm_fwd, layer 0, micro-batch 1)" */
void verify_groups(StepVerifier *v);
void verify_placements(StepVerifier *v, const StepBuffer *b);
void verify_mixed(StepVerifier *v, TaskId t);
void verify_call(StepVerifier *v, TaskId t);
void verify_kernel_placements(StepVerifier *v, TaskId t);
void verify_exchange(StepVerifier *v, TaskId t);
void verify_mail(StepVerifier *v);

#endif
