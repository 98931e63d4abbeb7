/* The recorder: makes a program out of calls that name kernels and tensors.
 *
 *     Call c = record(r, "router", ARG(x, x), ARG(norm_weight, gain), ARG(w, router), SIZE(K, 8));
 *     Call e = record(r, "experts", ARG(x, x), ARG(n, out(c, "n")), ARG(rt, out(c, "rt")), ...);
 *     return out(e, "y");
 *
 * Nobody writes shapes: a kernel's dimensions follow from the tensors that it takes, those that do not are given with
 * SIZE, and what it writes gets a buffer of the shape and type that the kernel says. Errors stick: after the first one,
 * calls do nothing, and recorder_finish() reports it.
 *
 * Note [Backward]. record_backward() walks back over the calls since the last one. A call whose kernel has a pair
 * (`derive` in its file) was recorded as the pair's forward, so the saved values are there. Its backward gets a mode for each
 * input that needs a gradient, by the number of contributions that input receives: one alone is written in the input's own
 * type; of several, the first is written as f32 and the others are added; the sum is narrowed once, before the backward of
 * the call that made the tensor reads it. Weights count over all micro-batches. Where the pair says `pass`, the gradient is
 * the cotangent itself: both share a buffer. A cotangent that no one contributed to is a constant zero. */
#ifndef STEP_RECORD_H
#define STEP_RECORD_H

#include "step/kernels.h"

typedef struct Recorder Recorder;

/* arena: of the program. train: record forward kernels that save what backward ones read. */
Recorder *recorder_new(Arena *arena, KernelSet *kernels, const char *name, int train);
/* The program, or NULL with *error (in the arena). */
Program *recorder_finish(Recorder *r, const char **error);

/* Where the calls that follow belong: -1 for none. Buffers made by them are called
 * <kernel>.<param>.L<layer>.m<micro>. */
void record_at(Recorder *r, Phase phase, int layer, int micro);
/* The part of a layer that the calls that follow belong to, until the next record_at(): what passes are told to drop or to store.
 * The name is kept. NULL: none. */
void record_module(Recorder *r, const char *module);

/* Buffers that are there before any task. A name that is known gives the buffer of that name, which must have the same type
 * and shape. */
BufferId record_tensor(Recorder *r, Owner owner, const char *name, moec_type type, int packed, uint32_t rank,
                       const int64_t *shape);
/* A number that kernels take by value. The host may change it between runs; `value` is the first one. */
BufferId record_scalar(Recorder *r, const char *name, moec_type type, double value);
BufferId record_find(const Recorder *r, const char *name); /* STEP_NONE: there is none */
/* Makes this the error of the recording, if it is the first one. Gives STEP_NONE. */
BufferId record_refuse(Recorder *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same memory as another shape with as many elements; or `count` elements of it from `first` on. */
BufferId record_reshape(Recorder *r, BufferId b, uint32_t rank, const int64_t *shape);
BufferId record_part(Recorder *r, const char *name, BufferId b, int64_t first, uint32_t rank, const int64_t *shape);

/* ---- groups of ranks: Note [Placements] of step.h ----
 * Of the group of an axis; before any buffer. A group that is not given has one member, and what is said of it has no effect. */
void record_group(Recorder *r, GroupAxis axis, int64_t members);
int64_t record_members(const Recorder *r, GroupAxis axis);
uint32_t record_tasks(const Recorder *r); /* that it has recorded */
/* What the members have of a buffer: whole, unless it is said here, before a task names the buffer, or a kernel's equations say
 * what an output is. The shape is that of this rank's part. */
void record_place(Recorder *r, BufferId b, GroupAxis axis, Placement placement);
/* copy, allreduce, allgather, reducescatter or split of x. dim: of the last two, the dimension of the parts; RECORD_OWN: they are rows
 * that each member goes on with as its own (Note [Own]), as allgather takes them. */
enum { RECORD_OWN = UINT32_MAX };
BufferId record_exchange(Recorder *r, TaskKind kind, GroupAxis axis, BufferId x, uint32_t dim);
void record_sum(Recorder *r, GroupAxis axis, BufferId x, BufferId into); /* an allreduce into a tensor that no task has written yet */
/* x[rows, ...] sorted by member, sent and received: i32[members], the rows to each and from each. Gives a tensor of at most `rows`
 * rows; those behind the ones received are zero. */
BufferId record_alltoallv(Recorder *r, GroupAxis axis, BufferId x, BufferId sent, BufferId received, int64_t rows);
/* peer: places behind this rank in the group (which is a ring), below 0 before it. y: a tensor that no task has written yet. */
/* Readers of b go over as many rows as `extent` says: behind these alltoallv leaves nothing, not zeros. Of its result, said at once. */
void record_rows(Recorder *r, BufferId b, BufferId extent);
void record_send(Recorder *r, GroupAxis axis, int peer, BufferId x);
void record_recv(Recorder *r, GroupAxis axis, int peer, BufferId y);

/* Gradients: `gradient` is where the gradient of `weight` is summed over all micro-batches; without it, nothing upstream of
 * a weight gets one. The first contribution of the program writes it. Where the weight is whole, it may be placed as a partial sum,
 * which its readers then add up; else record_reduce_gradients() does. */
void record_trainable(Recorder *r, BufferId weight, BufferId gradient);

typedef struct Arg {
    const char *name; /* of a parameter or dimension */
    enum { ARG_BUFFER, ARG_STOP, ARG_SIZE, ARG_EXTENT } kind; /* ARG_STOP: no gradient flows that way */
    BufferId buffer;
    int64_t size; /* of an extent: its bound */
} Arg;
#define ARG(param, id) ((Arg){#param, ARG_BUFFER, (id), 0})
#define STOP(param, id) ((Arg){#param, ARG_STOP, (id), 0})
#define SIZE(dim, n) ((Arg){#dim, ARG_SIZE, 0, (n)})
#define EXTENT(dim, id, bound) ((Arg){#dim, ARG_EXTENT, (id), (bound)})

/* A call: what it wrote can be asked for by the parameter's name. */
typedef struct Call {
    Recorder *recorder;
    uint32_t number;
} Call;
Call record_call(Recorder *r, const char *kernel, const Arg *args, size_t n);
#define record(r, kernel, ...)                                                                               \
    record_call((r), (kernel), (const Arg[]){__VA_ARGS__}, sizeof((const Arg[]){__VA_ARGS__}) / sizeof(Arg))
BufferId out(Call c, const char *param);

/* A task `batch`: fills the buffers, in the order in which the loader knows them. */
void record_batch(Recorder *r, const BufferId *buffers, const char *const *roles, uint32_t n);

/* A task `gate`: the run ends here unless x, an f32 that a kernel has written, is at most the scalar `limit`. */
void record_gate(Recorder *r, BufferId x, BufferId limit);

/* The gradient of a scalar output (a loss) is the number `value`, a scalar buffer. Then the backward of all calls since the
 * last record_backward(). */
void record_seed(Recorder *r, BufferId loss, BufferId value);
void record_backward(Recorder *r);
/* After the last micro-batch's backward: the gradient of a weight that ranks have alike and read with parts of other tensors is a
 * partial sum, collected beside the weight's gradient. Adds the partial sums up. */
void record_reduce_gradients(Recorder *r);

#endif
