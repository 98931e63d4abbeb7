/* What the files of the recorder share: record.c (calls), record_backward.c (gradients), record_finish.c (kernels' signatures,
 * operands in order), record_place.c, record_exchange.c. */
#ifndef STEP_RECORDER_H
#define STEP_RECORDER_H

#include "step/record.h"

/* A parameter of a call, by name: what a kernel's signature turns into an operand when all kernels are known. */
typedef struct ParamBinding {
    const char *param;
    BufferId buffer;
    int stop; /* no gradient flows this way */
} ParamBinding;

/* A task as it is recorded. Of a backward kernel, `bound` is more than its parameters: all that its forward named. */
typedef struct Draft {
    Vec(ParamBinding) bound;
    Vec(TaskDim) dims;
    const char *name;          /* of the kernel, for messages */
    const moec_kernel *kernel; /* of a forward call; NULL: made by a request, not read yet, or an exchange */
    KernelPair pair;           /* of an active call */
    int active;                /* a gradient flows to some input of it: its kernel is the pair's forward, or it is an exchange */
} Draft;

/* What is known of a buffer's gradient, by the buffer that holds its memory. */
typedef struct Gradient {
    int needed;        /* an input of a backward kernel, or upstream of one */
    int trainable;     /* a weight: `buffer` is where its gradient is summed over all micro-batches */
    uint32_t expected; /* contributions that are still to come from the calls that are walked back */
    uint32_t got;      /* contributions so far; of a weight: see contributions() of record_backward.c */
    BufferId buffer;   /* their sum; STEP_NONE: none yet. Of a weight's gradient: its partial sum, which is owed a reduction */
} Gradient;

/* A task names the buffer; its placement on an axis was stated. */
#define NAMED_BY_TASK 0x80U
#define NAMED_OVER(axis) ((uint8_t)(1U << (axis)))
_Static_assert(AXIS_COUNT <= 7, "a bit for each axis, and one");

struct Recorder {
    Arena *arena;
    KernelSet *kernels;
    Program *program;
    const char *error; /* the first one; NULL: none */
    int train;
    Phase phase;
    int layer, micro;
    const char *module; /* of the forward tasks that follow; NULL: none */
    Vec(Draft) drafts;       /* by TaskId */
    Vec(Gradient) gradients; /* by BufferId */
    Vec(uint8_t) named;      /* by BufferId: whether its placement is settled, NAMED_... */
    Vec(BufferId) extents;   /* by BufferId: record_rows(), or STEP_NONE */
    TaskId walked;           /* record_backward() has walked back over the tasks before this one */
};

Gradient *record_gradient(Recorder *r, BufferId b); /* of the buffer that holds b's memory */
BufferId record_buffer(Recorder *r, StepBuffer b);  /* with bytes; a new name, `b.name` or with .2, .3 ... behind */
/* A buffer for output i of a kernel, named after where the recorder is. */
BufferId record_output(Recorder *r, const moec_kernel *k, const char *name, size_t i, const int64_t *dims);
/* Adds a task that calls `kernel` with what the draft binds. */
TaskId record_task(Recorder *r, StepKernel kernel, Draft d);
/* The buffer that a draft binds to a parameter; STEP_NONE: none. */
BufferId record_bound(const Draft *d, const char *param);

/* ---- placements: record_place.c ---- */

int record_is_shared(const Recorder *r, GroupAxis a); /* its group has several members */
/* Like the weight, but for what was stated to be a partial sum of a whole one: who reads that adds it up. */
void record_place_gradient(Recorder *r, BufferId gradient, BufferId weight);
void record_place_view(Recorder *r, StepBuffer *view, const StepBuffer *of);
/* The outputs of a call, from its inputs and its kernel's equations. */
void record_place_call(Recorder *r, const Draft *d);
/* A kernel with the places of its parameters on an axis, as moec_kernel_place() has them; NULL: all are whole. */
typedef struct PlacedKernel {
    const moec_kernel *kernel;
    GroupAxis axis;
    int *places;
} PlacedKernel;
/* before: the kernel that hands over what the draft does not bind, or NULL. */
PlacedKernel record_place_kernel(Recorder *r, const Draft *d, const moec_kernel *kernel, GroupAxis axis, const PlacedKernel *before);
Placement record_placed(const PlacedKernel *k, const char *param);

/* ---- exchanges: record_exchange.c ---- */

/* The adjoint of exchange t, for the gradient of its result; gives that of its operand, or STEP_NONE (of recv). */
BufferId record_adjoint(Recorder *r, TaskId t, BufferId cotangent);

#endif
