#include "step/recorder.h"

#include <string.h>

BufferId record_refuse(Recorder *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    r->error = r->error ? r->error : arena_vprintf(r->arena, format, args);
    va_end(args);
    return STEP_NONE;
}

uint32_t record_tasks(const Recorder *r) { return r->program->tasks.len; }

BufferId record_find(const Recorder *r, const char *name) { return step_find(r->program, name); }

Recorder *recorder_new(Arena *arena, KernelSet *kernels, const char *name, int train)
{
    Recorder *r = arena_new_of(arena, Recorder);
    *r = (Recorder){.arena = arena, .kernels = kernels, .program = step_new(arena, name), .train = train};
    record_at(r, PHASE_forward, -1, -1);
    return r;
}

void record_at(Recorder *r, Phase phase, int layer, int micro)
{
    r->phase = phase, r->layer = layer, r->micro = micro, r->module = NULL;
}

void record_module(Recorder *r, const char *module) { r->module = module; }

/* ---- buffers ---- */

static StepBuffer *buffer(Recorder *r, BufferId b) { return &r->program->buffers.at[b]; }

/* Bytes of its memory; of packed memory 0: record_finish.c. */
static int64_t plain_bytes(const StepBuffer *b)
{
    int64_t n = b->packed ? 0 : step_elements(b);
    if (b->kind == MOEC_ROUTE)
        return step_route_bytes(b->shape);
    return n < 0 || __builtin_mul_overflow(n, step_type_bytes(b->type), &n) ? -1 : n;
}

static const char *free_name(Recorder *r, const char *name)
{
    const char *tried = name;
    for (int n = 2; step_find(r->program, tried) != STEP_NONE; n++)
        tried = arena_printf(r->arena, "%s.%d", name, n);
    return tried;
}

BufferId record_buffer(Recorder *r, StepBuffer b)
{
    b.name = free_name(r, b.name);
    b.bytes = plain_bytes(&b);
    if (b.bytes < 0) {
        record_refuse(r, "buffer %s: more bytes than fit 64 bits", b.name);
        b.bytes = 0;
    }
    vec_push(r->arena, &r->gradients, (Gradient){.buffer = STEP_NONE});
    vec_push(r->arena, &r->named, 0);
    vec_push(r->arena, &r->extents, STEP_NONE);
    return step_add(r->program, b);
}

static int same_shape(const StepBuffer *b, moec_type type, uint32_t rank, const int64_t *shape)
{
    return b->type == type && b->rank == rank && (!rank || !memcmp(b->shape, shape, rank * sizeof *shape));
}

BufferId record_tensor(Recorder *r, Owner owner, const char *name, moec_type type, int packed, uint32_t rank,
                       const int64_t *shape)
{
    BufferId known = step_find(r->program, name);
    if (known != STEP_NONE &&
        !(same_shape(buffer(r, known), type, rank, shape) && buffer(r, known)->packed == packed))
        record_refuse(r, "buffer %s: recorded twice, with other types or shapes", name);
    if (known != STEP_NONE || rank > MOEC_MAX_RANK)
        return known;
    StepBuffer b = {.name = arena_printf(r->arena, "%s", name),
                    .type = type,
                    .packed = packed,
                    .owner = owner,
                    .rank = rank,
                    .base = STEP_NONE};
    if (rank)
        memcpy(b.shape, shape, rank * sizeof *shape);
    return record_buffer(r, b);
}

BufferId record_scalar(Recorder *r, const char *name, moec_type type, double value)
{
    BufferId known = step_find(r->program, name);
    if (known != STEP_NONE && (buffer(r, known)->type != type || buffer(r, known)->value != value))
        return record_refuse(r, "scalar %s: recorded with %g, and with %g", name, buffer(r, known)->value,
                             value);
    if (known != STEP_NONE)
        return known;
    return record_buffer(r, (StepBuffer){.name = arena_printf(r->arena, "%s", name),
                                         .kind = MOEC_SCALAR,
                                         .type = type,
                                         .owner = OWNER_scalar,
                                         .base = STEP_NONE,
                                         .value = value});
}

static BufferId new_view(Recorder *r, const char *name, BufferId of, int64_t offset, uint32_t rank,
                         const int64_t *shape)
{
    const StepBuffer *b = buffer(r, of);
    StepBuffer view = *b;
    view.name = name;
    view.base = step_home(r->program, of);
    view.offset = b->offset + offset;
    view.rank = rank;
    memset(view.shape, 0, sizeof view.shape);
    memcpy(view.shape, shape, rank * sizeof *shape);
    if (plain_bytes(&view) < 0 ||
        (!b->packed && view.offset + plain_bytes(&view) > buffer(r, view.base)->bytes))
        record_refuse(r, "buffer %s: a view larger than its base %s", name, buffer(r, view.base)->name);
    view.bytes = b->packed ? b->bytes : plain_bytes(&view);
    record_place_view(r, &view, b);
    return record_buffer(r, view);
}

BufferId record_reshape(Recorder *r, BufferId b, uint32_t rank, const int64_t *shape)
{
    if (r->error || b == STEP_NONE)
        return STEP_NONE;
    if (same_shape(buffer(r, b), buffer(r, b)->type, rank, shape))
        return b;
    Text name = {.arena = r->arena};
    text_add(&name, "%s", buffer(r, b)->name);
    for (uint32_t i = 0; i < rank; i++)
        text_add(&name, "%c%lld", i ? 'x' : '~', (long long)shape[i]);
    BufferId known = step_find(r->program, text_string(&name));
    return known != STEP_NONE ? known : new_view(r, text_string(&name), b, 0, rank, shape);
}

BufferId record_part(Recorder *r, const char *name, BufferId b, int64_t first, uint32_t rank,
                     const int64_t *shape)
{
    if (r->error || b == STEP_NONE)
        return STEP_NONE;
    return new_view(r, arena_printf(r->arena, "%s", name), b, first * step_type_bytes(buffer(r, b)->type),
                    rank, shape);
}

Gradient *record_gradient(Recorder *r, BufferId b) { return &r->gradients.at[step_home(r->program, b)]; }

void record_trainable(Recorder *r, BufferId weight, BufferId gradient)
{
    if (r->error)
        return;
    *record_gradient(r, weight) = (Gradient){.needed = 1, .trainable = 1, .buffer = gradient};
    record_place_gradient(r, gradient, weight);
}

/* ---- calls ---- */

BufferId record_bound(const Draft *d, const char *param)
{
    for (uint32_t i = 0; i < d->bound.len; i++)
        if (!strcmp(d->bound.at[i].param, param))
            return d->bound.at[i].buffer;
    return STEP_NONE;
}

TaskId record_task(Recorder *r, StepKernel kernel, Draft d)
{
    Task t = {
        .kind = TASK_kernel, .phase = r->phase, .layer = r->layer, .micro = r->micro, .work = STEP_NONE};
    t.module = r->module;
    t.kernel = step_add_kernel(r->program, kernel);
    for (uint32_t i = 0; i < d.bound.len; i++)
        r->named.at[d.bound.at[i].buffer] |= NAMED_BY_TASK;
    vec_push(r->arena, &r->program->tasks, t);
    vec_push(r->arena, &r->drafts, d);
    return r->program->tasks.len - 1;
}

static const char *label(Recorder *r, const char *kernel, const char *param)
{
    Text t = {.arena = r->arena};
    text_add(&t, "%s.%s", kernel, param);
    if (r->layer >= 0)
        text_add(&t, ".L%d", r->layer);
    if (r->micro >= 0)
        text_add(&t, ".m%d", r->micro);
    return text_string(&t);
}

static void bind_buffer(Recorder *r, Draft *d, const char *kernel, const Arg *arg)
{
    if (moec_kernel_param_index(d->kernel, arg->name) == (size_t)-1)
        record_refuse(r, "kernel %s has no parameter `%s`", kernel, arg->name);
    vec_push(r->arena, &d->bound, (ParamBinding){arg->name, arg->buffer, arg->kind == ARG_STOP});
}

/* A caller may give the sizes of all variants of a module: others are not looked at. */
static void bind_size(Draft *d, const Arg *arg, int64_t *dims)
{
    for (uint32_t i = 0; i < d->dims.len; i++)
        if (!strcmp(d->dims.at[i].name, arg->name)) {
            dims[i] = arg->size;
            d->dims.at[i].extent = arg->kind == ARG_EXTENT ? arg->buffer : STEP_NONE;
        }
}

/* The arguments by name, and the sizes that they give. */
static void bind(Recorder *r, Draft *d, const char *kernel, const Arg *args, size_t n, int64_t *dims)
{
    for (size_t i = 0; i < moec_kernel_dims(d->kernel); i++) {
        dims[i] = -1;
        vec_push(r->arena, &d->dims, (TaskDim){moec_kernel_dim_name(d->kernel, i), -1, STEP_NONE});
    }
    for (size_t j = 0; j < n; j++)
        if (args[j].kind == ARG_BUFFER || args[j].kind == ARG_STOP)
            bind_buffer(r, d, kernel, &args[j]);
        else
            bind_size(d, &args[j], dims);
}

/* The dimensions from the shapes of what is bound. */
static const int64_t **shapes_of(Recorder *r, const Draft *d, const char *kernel)
{
    const size_t n = moec_kernel_params(d->kernel);
    const int64_t **shapes = arena_array(r->arena, const int64_t *, n + 1);
    for (size_t i = 0; i < n; i++) {
        const char *param = moec_kernel_param_name(d->kernel, i);
        const BufferId b = record_bound(d, param);
        if (b == STEP_NONE)
            continue;
        if ((int)buffer(r, b)->rank != moec_kernel_param_rank(d->kernel, i))
            record_refuse(r, "kernel %s: `%s` has %d axes, %s has %u", kernel, param,
                          moec_kernel_param_rank(d->kernel, i), buffer(r, b)->name, buffer(r, b)->rank);
        shapes[i] = buffer(r, b)->shape;
    }
    return shapes;
}

static void solve(Recorder *r, Draft *d, const char *kernel, int64_t *dims)
{
    char why[MOE_MESSAGE_BYTES] = "";
    moe_ctx ctx = {.message = why};
    const int64_t **shapes = shapes_of(r, d, kernel);
    if (!r->error && moec_kernel_solve_dims(d->kernel, &ctx, shapes, dims))
        record_refuse(r, "kernel %s: %s", kernel, why);
    for (uint32_t i = 0; i < d->dims.len; i++) {
        if (dims[i] < 0)
            record_refuse(r, "kernel %s: no tensor gives dimension %s; add SIZE(%s, ...)", kernel,
                          d->dims.at[i].name, d->dims.at[i].name);
        d->dims.at[i].size = dims[i];
    }
}

BufferId record_output(Recorder *r, const moec_kernel *k, const char *name, size_t i, const int64_t *dims)
{
    const char *param = moec_kernel_param_name(k, i);
    StepBuffer b = {.name = label(r, name, param),
                    .kind = moec_kernel_param_kind(k, i),
                    .owner = OWNER_activation,
                    .rank = (uint32_t)moec_kernel_param_rank(k, i),
                    .base = STEP_NONE};
    if (b.kind == MOEC_TENSOR)
        b.type = moec_kernel_param_type(k, i), b.packed = moec_kernel_param_packed(k, i);
    if (moec_kernel_param_shape(k, i, dims, b.shape))
        record_refuse(r, "kernel %s: `%s` has too many elements", name, param);
    return record_buffer(r, b);
}

static void bind_outputs(Recorder *r, Draft *d, const char *name, const int64_t *dims)
{
    for (size_t i = 0; i < moec_kernel_params(d->kernel); i++) {
        const char *param = moec_kernel_param_name(d->kernel, i);
        if (record_bound(d, param) != STEP_NONE)
            continue;
        if (moec_kernel_param_role(d->kernel, i) == MOEC_OUT)
            vec_push(r->arena, &d->bound,
                     (ParamBinding){param, record_output(r, d->kernel, name, i, dims), 0});
        else
            record_refuse(r, "kernel %s: nothing is given for its parameter `%s`", name, param);
    }
}

/* Does a gradient flow to some input? */
static int flows(Recorder *r, const moec_kernel *k, const Arg *args, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (args[i].kind == ARG_BUFFER && record_gradient(r, args[i].buffer)->needed &&
            moec_kernel_param_role(k, moec_kernel_param_index(k, args[i].name)) == MOEC_IN)
            return 1;
    return 0;
}

static int is_float_output(const moec_kernel *k, size_t i)
{
    return moec_kernel_param_role(k, i) == MOEC_OUT && moec_kernel_param_kind(k, i) != MOEC_ROUTE &&
           moec_kernel_param_type(k, i) != MOEC_I32;
}

static void mark_outputs(Recorder *r, const Draft *d)
{
    for (uint32_t i = 0; i < d->bound.len; i++)
        if (is_float_output(d->kernel, moec_kernel_param_index(d->kernel, d->bound.at[i].param)))
            record_gradient(r, d->bound.at[i].buffer)->needed = 1;
}

/* The kernel that is called: where a gradient flows, the forward that saves what its backward reads. */
static const char *choose_kernel(Recorder *r, Draft *d, const char *name, const Arg *args, size_t n)
{
    const moec_kernel *plain = kernels_find(r->kernels, name);
    if (!plain)
        record_refuse(r, "there is no kernel %s", name);
    d->active = plain && r->train && flows(r, plain, args, n);
    if (!d->active)
        return name;
    if (!kernels_pair(r->kernels, name, &d->pair)) {
        record_refuse(r, "kernel %s: a gradient flows through it, but its file has no `derive` block for it",
                      name);
        return name;
    }
    return d->pair.pair.forward;
}

static void record_checked(Recorder *r, const char *name, const Arg *args, size_t n)
{
    Draft d = {.name = name};
    const char *called = choose_kernel(r, &d, name, args, n);
    if (r->error)
        return;
    d.kernel = kernels_find(r->kernels, called);
    int64_t *dims = arena_array(r->arena, int64_t, moec_kernel_dims(d.kernel) + 1);
    bind(r, &d, name, args, n, dims);
    if (!r->error)
        solve(r, &d, name, dims);
    if (!r->error)
        bind_outputs(r, &d, name, dims);
    if (!r->error)
        record_place_call(r, &d);
    if (r->error)
        return;
    if (d.active)
        mark_outputs(r, &d);
    record_task(r, (StepKernel){kernels_source(r->kernels, called), called, NULL}, d);
}

Call record_call(Recorder *r, const char *kernel, const Arg *args, size_t n)
{
    if (!r->error)
        record_checked(r, kernel, args, n);
    return (Call){r, r->drafts.len - 1};
}

BufferId out(Call c, const char *param)
{
    Recorder *r = c.recorder;
    BufferId b = r->error ? STEP_NONE : record_bound(&r->drafts.at[c.number], param);
    if (b == STEP_NONE)
        record_refuse(r, "a call's kernel has no parameter `%s`", param);
    return b;
}

/* A task that the host does, on whole buffers. */
static void record_host_task(Recorder *r, TaskKind kind, const Operand *operands, uint32_t n)
{
    Task t = {.kind = kind,
              .phase = r->phase,
              .layer = -1,
              .micro = r->micro,
              .kernel = STEP_NONE,
              .work = STEP_NONE};
    for (uint32_t i = 0; i < n; i++)
        vec_push(r->arena, &t.operands, operands[i]);
    for (uint32_t i = 0; i < n && !r->error; i++)
        r->named.at[operands[i].buffer] |= NAMED_BY_TASK;
    vec_push(r->arena, &r->program->tasks, t);
    vec_push(r->arena, &r->drafts, (Draft){0});
}

void record_batch(Recorder *r, const BufferId *buffers, const char *const *roles, uint32_t n)
{
    Operand *filled = arena_array(r->arena, Operand, n);
    for (uint32_t i = 0; i < n; i++)
        filled[i] = (Operand){roles[i], buffers[i], USE_WRITE};
    record_host_task(r, TASK_batch, filled, n);
}

void record_gate(Recorder *r, BufferId x, BufferId limit)
{
    record_host_task(r, TASK_gate, (Operand[]){{"x", x, USE_READ}, {"limit", limit, USE_READ}}, 2);
}
