/* The end of a recording: the signatures of all kernels are read, and bindings by name become operands in order. */
#include "step/recorder.h"

#include <string.h>

static const TaskDim *dim_of(const Draft *d, const char *name)
{
    for (uint32_t i = 0; i < d->dims.len; i++)
        if (!strcmp(d->dims.at[i].name, name))
            return &d->dims.at[i];
    return NULL;
}

/* In the order of the kernel; a backward kernel has some of its forward's. */
static int64_t *order_dims(Recorder *r, Task *t, const Draft *d, const moec_kernel *k)
{
    const size_t n = moec_kernel_dims(k);
    int64_t *sizes = arena_array(r->arena, int64_t, n + 1);
    for (size_t i = 0; i < n; i++) {
        const TaskDim *dim = dim_of(d, moec_kernel_dim_name(k, i));
        if (!dim) {
            record_refuse(r, "kernel %s: its forward has no dimension %s",
                          r->program->kernels.at[t->kernel].name, moec_kernel_dim_name(k, i));
            return sizes;
        }
        vec_push(r->arena, &t->dims, *dim);
        sizes[i] = dim->size;
    }
    return sizes;
}

/* Only of plain tensors may a kernel do without the memory. */
static int needs_memory(const moec_kernel *k, size_t i)
{
    return moec_kernel_param_read(k, i) || moec_kernel_param_kind(k, i) != MOEC_TENSOR ||
           moec_kernel_param_packed(k, i);
}

static OperandUse use_of(const moec_kernel *k, size_t i)
{
    switch (moec_kernel_param_role(k, i)) {
    case MOEC_IN: return needs_memory(k, i) ? USE_READ : USE_SHAPE;
    case MOEC_OUT: return USE_WRITE;
    case MOEC_INOUT: return USE_UPDATE;
    }
    return USE_READ;
}

/* What a kernel's parameter says of its buffer: the bytes of packed memory, and that types fit. */
static void check_operand(Recorder *r, const Task *t, const moec_kernel *k, size_t i, BufferId b,
                          const int64_t *sizes)
{
    StepBuffer *buffer = &r->program->buffers.at[b];
    const char *kernel = r->program->kernels.at[t->kernel].name, *param = moec_kernel_param_name(k, i);
    const moec_param_kind kind = moec_kernel_param_kind(k, i);
    if (kind == MOEC_ROUTE || buffer->kind == MOEC_ROUTE) {
        if (kind != buffer->kind)
            record_refuse(r, "kernel %s: `%s` and %s are not both routes", kernel, param, buffer->name);
        return;
    }
    if (moec_kernel_param_type(k, i) != buffer->type)
        record_refuse(r, "kernel %s: `%s` is %s, %s is %s", kernel, param,
                      step_type_name(moec_kernel_param_type(k, i)), buffer->name,
                      step_type_name(buffer->type));
    const int packed = moec_kernel_param_packed(k, i);
    if (packed > buffer->packed || (!packed && buffer->packed))
        record_refuse(r, "kernel %s: `%s` and %s are not packed in the same way", kernel, param,
                      buffer->name);
    if (packed && packed == buffer->packed) {
        buffer->bytes = moec_kernel_param_bytes(k, i, sizes);
        StepBuffer *home = &r->program->buffers.at[step_home(r->program, b)];
        home->bytes = buffer->bytes > home->bytes ? buffer->bytes : home->bytes;
    }
}

/* What the first of two backward kernels hands to the second: a buffer that both bind. */
static BufferId hand_over(Recorder *r, TaskId t, const moec_kernel *k, size_t i, const int64_t *sizes)
{
    const Task *task = &r->program->tasks.at[t];
    record_at(r, task->phase, task->layer, task->micro);
    const BufferId made = record_output(r, k, r->program->kernels.at[task->kernel].name, i, sizes);
    for (GroupAxis a = 0; a < AXIS_COUNT; a++) {
        const PlacedKernel placed = record_place_kernel(r, &r->drafts.at[t], k, a, NULL);
        r->program->buffers.at[made].placed[a] = record_placed(&placed, moec_kernel_param_name(k, i));
    }
    vec_push(r->arena, &r->drafts.at[t + 1].bound, (ParamBinding){moec_kernel_param_name(k, i), made, 0});
    return made;
}

static void order_operands(Recorder *r, TaskId t, const moec_kernel *k, const int64_t *sizes)
{
    for (size_t i = 0; i < moec_kernel_params(k) && !r->error; i++) {
        const char *param = moec_kernel_param_name(k, i);
        BufferId b = record_bound(&r->drafts.at[t], param);
        if (b == STEP_NONE && moec_kernel_param_role(k, i) == MOEC_OUT &&
            r->program->tasks.at[t].phase == PHASE_backward)
            b = hand_over(r, t, k, i, sizes);
        if (b == STEP_NONE) {
            record_refuse(r, "kernel %s: nothing is bound to `%s`",
                          r->program->kernels.at[r->program->tasks.at[t].kernel].name, param);
            return;
        }
        Task *task = &r->program->tasks.at[t];
        check_operand(r, task, k, i, b, sizes);
        vec_push(r->arena, &task->operands, (Operand){param, b, use_of(k, i)});
    }
}

static void finish_task(Recorder *r, TaskId t)
{
    Task *task = &r->program->tasks.at[t];
    if (task->kind != TASK_kernel)
        return;
    const StepKernel *called = &r->program->kernels.at[task->kernel];
    const moec_kernel *k = kernels_find(r->kernels, called->name);
    if (!k) {
        record_refuse(r, "`%s` made no kernel %s", called->derive ? called->derive : called->source,
                      called->name);
        return;
    }
    kernels_use(r->kernels, called->name);
    const int64_t *sizes = order_dims(r, task, &r->drafts.at[t], k);
    order_operands(r, t, k, sizes);
}

/* Only a kernel that takes all of packed memory knows its size. Views have the bytes of their base. */
static void finish_packed(Recorder *r)
{
    Program *p = r->program;
    for (uint32_t b = 0; b < p->buffers.len; b++) {
        StepBuffer *buffer = &p->buffers.at[b];
        if (buffer->packed && buffer->base == STEP_NONE && !buffer->bytes)
            record_refuse(r, "buffer %s: no kernel takes it as `packed%s`, so its size is not known",
                          buffer->name, buffer->packed == 2 ? " both" : "");
        if (buffer->packed && buffer->base != STEP_NONE)
            buffer->bytes = p->buffers.at[buffer->base].bytes;
    }
}

/* No one added up a partial sum beside a weight's gradient, or nothing depends on the weight. */
static void check_owed(Recorder *r)
{
    for (BufferId w = 0; w < r->gradients.len; w++) {
        const Gradient *g = &r->gradients.at[w];
        if (!g->trainable)
            continue;
        const char *name = r->program->buffers.at[g->buffer].name;
        if (r->gradients.at[g->buffer].buffer != STEP_NONE)
            record_refuse(r, "%s: it is a partial sum, which record_reduce_gradients() must add up", name);
        if (!r->gradients.at[g->buffer].got)
            record_refuse(r, "%s: no task adds to it, because none of the loss reads the weight", name);
    }
}

Program *recorder_finish(Recorder *r, const char **error)
{
    check_owed(r);
    if (!r->error && kernels_read(r->kernels))
        record_refuse(r, "%s", kernels_error(r->kernels));
    for (TaskId t = 0; t < r->program->tasks.len && !r->error; t++)
        finish_task(r, t);
    finish_packed(r);
    *error = r->error;
    return r->error ? NULL : r->program;
}
