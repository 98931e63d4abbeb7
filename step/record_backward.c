/* The backward of what was recorded: Note [Backward] in record.h. */
#include "step/recorder.h"

#include <string.h>

void record_seed(Recorder *r, BufferId loss, BufferId value)
{
    if (r->error)
        return;
    Gradient *g = record_gradient(r, loss);
    if (!g->needed)
        record_refuse(r, "%s: a loss that depends on no weight that is trained",
                      r->program->buffers.at[loss].name);
    if (g->got)
        record_refuse(r, "%s: its gradient is given twice", r->program->buffers.at[loss].name);
    g->got = 1, g->buffer = value;
}

static const StepBuffer *buffer_of(const Recorder *r, BufferId b) { return &r->program->buffers.at[b]; }

/* The input of gradient i of a call's pair, or STEP_NONE where no one wants its gradient. */
static BufferId wanted_input(Recorder *r, const Draft *d, const moec_gradient *g)
{
    for (uint32_t i = 0; i < d->bound.len; i++)
        if (!strcmp(d->bound.at[i].param, g->input) && !d->bound.at[i].stop &&
            record_gradient(r, d->bound.at[i].buffer)->needed)
            return d->bound.at[i].buffer;
    return STEP_NONE;
}

static int has_cotangent(Recorder *r, const Draft *d)
{
    for (size_t i = 0; i < d->pair.pair.cotangents; i++) {
        const moec_cotangent c = moec_module_cotangent(d->pair.module, d->pair.number, i);
        const Gradient *g = record_gradient(r, record_bound(d, c.output));
        if (g->got + g->expected)
            return 1;
    }
    return 0;
}

/* An input that needs a gradient must be one that the pair differentiates. */
static void check_inputs(Recorder *r, const Draft *d)
{
    for (uint32_t i = 0; i < d->bound.len; i++) {
        const ParamBinding *b = &d->bound.at[i];
        const size_t at = moec_kernel_param_index(d->kernel, b->param);
        int found = b->stop || moec_kernel_param_role(d->kernel, at) != MOEC_IN ||
                    !record_gradient(r, b->buffer)->needed;
        for (size_t j = 0; !found && j < d->pair.pair.gradients; j++)
            found = !strcmp(moec_module_gradient(d->pair.module, d->pair.number, j).input, b->param);
        if (!found)
            record_refuse(r, "kernel %s: its input `%s` needs a gradient (%s), but `derive` has no `wrt %s`",
                          d->pair.pair.from, b->param, buffer_of(r, b->buffer)->name, b->param);
    }
}

/* Counts what each buffer will receive, from the last call to the first. */
static void count_contributions(Recorder *r, TaskId begin, TaskId end)
{
    for (TaskId t = end; t-- > begin;) {
        Draft *d = &r->drafts.at[t];
        d->active = d->active && has_cotangent(r, d);
        if (!d->active)
            continue;
        check_inputs(r, d);
        for (size_t i = 0; i < d->pair.pair.gradients; i++) {
            const moec_gradient g = moec_module_gradient(d->pair.module, d->pair.number, i);
            const BufferId input = wanted_input(r, d, &g);
            if (input != STEP_NONE)
                record_gradient(r, input)->expected++;
        }
    }
}

/* ---- cotangents ---- */

static BufferId zeros_like(Recorder *r, const StepBuffer *b)
{
    Text name = {.arena = r->arena};
    if (b->rank == 0)
        return record_scalar(r, "zero", b->type, 0);
    text_add(&name, "zeros.%s", step_type_name(b->type));
    for (uint32_t i = 0; i < b->rank; i++)
        text_add(&name, "%c%lld", i ? 'x' : '.', (long long)b->shape[i]);
    return record_tensor(r, OWNER_state, text_string(&name), b->type, 0, b->rank, b->shape);
}

/* The sum of several contributions, in the type that the backward kernel reads. */
static BufferId narrowed(Recorder *r, BufferId sum, const StepBuffer *like)
{
    const char *kernel = like->type == MOEC_BF16 ? "to_bf16" : "to_f16";
    const int64_t n = step_elements(like);
    const BufferId to =
        record_buffer(r, (StepBuffer){.name = arena_printf(r->arena, "%s.narrow", buffer_of(r, sum)->name),
                                      .type = like->type,
                                      .owner = OWNER_activation,
                                      .rank = 1,
                                      .shape = {n},
                                      .base = STEP_NONE});
    record(r, kernel, ARG(x, record_reshape(r, sum, 1, &n)), ARG(y, to));
    return record_reshape(r, to, like->rank, like->shape);
}

static BufferId cotangent_of(Recorder *r, BufferId output)
{
    const StepBuffer like = *buffer_of(r, output);
    const Gradient *g = record_gradient(r, output);
    if (!g->got)
        return zeros_like(r, &like);
    if (buffer_of(r, g->buffer)->type != like.type)
        return narrowed(r, g->buffer, &like);
    return like.rank ? record_reshape(r, g->buffer, like.rank, like.shape) : g->buffer;
}

/* ---- gradients ---- */

typedef struct Backward {
    Draft draft;       /* of the backward call */
    const Draft *of;   /* the forward one */
    WrtMode *modes;    /* by gradient of the pair */
    BufferId *written; /* gradients that it writes so far */
    size_t nwritten;
    BufferId *passed; /* by cotangent: whom its buffer was given to; STEP_NONE: nobody yet */
} Backward;

static void bind_cotangents(Recorder *r, Backward *b)
{
    for (size_t i = 0; i < b->of->pair.pair.cotangents; i++) {
        const moec_cotangent c = moec_module_cotangent(b->of->pair.module, b->of->pair.number, i);
        const BufferId buffer = cotangent_of(r, record_bound(b->of, c.output));
        vec_push(r->arena, &b->draft.bound, (ParamBinding){c.param, buffer, 0});
        b->passed[i] = STEP_NONE;
    }
}

/* The cotangent that input's gradient shares, or STEP_NONE where it needs memory of its own. */
static BufferId share(Recorder *r, Backward *b, const moec_gradient *g, BufferId input)
{
    const Gradient *known = record_gradient(r, input);
    if (g->mode != MOEC_PASS || known->trainable || known->got ||
        (known->expected > 1 && buffer_of(r, input)->type != MOEC_F32))
        return STEP_NONE;
    for (size_t i = 0; i < b->of->pair.pair.cotangents; i++) {
        const moec_cotangent c = moec_module_cotangent(b->of->pair.module, b->of->pair.number, i);
        const BufferId buffer = record_bound(&b->draft, c.param);
        if (strcmp(c.output, g->output) || b->passed[i] != STEP_NONE || step_persists(r->program, buffer))
            continue;
        b->passed[i] = input;
        return buffer;
    }
    return STEP_NONE;
}

static BufferId new_gradient(Recorder *r, BufferId input, moec_type type)
{
    StepBuffer like = *buffer_of(r, step_home(r->program, input));
    like.name = arena_printf(r->arena, "d.%s", like.name);
    like.type = type, like.packed = 0, like.owner = OWNER_activation, like.base = STEP_NONE, like.offset = 0;
    return record_buffer(r, like);
}

/* Contributions so far. Several forms of a weight have one gradient, whose own entry counts them. */
static uint32_t *contributions(Recorder *r, BufferId input)
{
    Gradient *known = record_gradient(r, input);
    return known->trainable ? &r->gradients.at[known->buffer].got : &known->got;
}

static WrtMode choose(Recorder *r, Backward *b, const moec_gradient *g, BufferId input)
{
    Gradient *known = record_gradient(r, input);
    const uint32_t got = *contributions(r, input);
    const moec_type type = buffer_of(r, input)->type;
    const int alone = got == 0 && known->expected == 1;
    const BufferId shared = share(r, b, g, input);
    if (shared != STEP_NONE) {
        known->buffer = shared;
        return WRT_PASS;
    }
    if (known->trainable || got)
        return got ? WRT_ADD : WRT_WRITE_F32;
    const BufferId made = new_gradient(r, input, alone ? type : MOEC_F32); /* moves the gradients */
    record_gradient(r, input)->buffer = made;
    return alone ? WRT_WRITE : WRT_WRITE_F32;
}

static int is_written(const Recorder *r, const Backward *b, BufferId target)
{
    const StepBuffer *x = buffer_of(r, target);
    for (size_t i = 0; i < b->nwritten; i++) {
        const StepBuffer *y = buffer_of(r, b->written[i]);
        if (step_home(r->program, target) == step_home(r->program, b->written[i]) &&
            x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes)
            return 1;
    }
    return 0;
}

static void bind_gradient(Recorder *r, Backward *b, size_t i)
{
    const moec_gradient g = moec_module_gradient(b->of->pair.module, b->of->pair.number, i);
    const BufferId input = wanted_input(r, b->of, &g);
    b->modes[i] = WRT_SKIP;
    if (input == STEP_NONE)
        return;
    b->modes[i] = choose(r, b, &g, input);
    Gradient *known = record_gradient(r, input);
    ++*contributions(r, input);
    known->expected--;
    if (b->modes[i] == WRT_PASS)
        return;
    const StepBuffer like = *buffer_of(r, input);
    const BufferId target =
        like.rank ? record_reshape(r, known->buffer, like.rank, like.shape) : known->buffer;
    const char *param = arena_printf(r->arena, "d_%s", g.input);
    if (is_written(r, b, target))
        record_refuse(r, "kernel %s: one tensor (%s) is bound to two of its inputs that have gradients",
                      b->of->pair.pair.from, like.name);
    b->written[b->nwritten++] = target;
    vec_push(r->arena, &b->draft.bound, (ParamBinding){param, target, 0});
}

/* A draft of another kernel with what this one binds. */
static Draft copy_bindings(Recorder *r, const Draft *of)
{
    Draft d = {0};
    for (uint32_t i = 0; i < of->bound.len; i++)
        vec_push(r->arena, &d.bound, of->bound.at[i]);
    for (uint32_t i = 0; i < of->dims.len; i++)
        vec_push(r->arena, &d.dims, of->dims.at[i]);
    return d;
}

static void walk_back(Recorder *r, TaskId t)
{
    const Task forward = r->program->tasks.at[t];
    const Draft of = r->drafts.at[t]; /* a copy: recording moves the drafts */
    Backward b = {.of = &of};
    b.modes = arena_array(r->arena, WrtMode, of.pair.pair.gradients + 1);
    b.written = arena_array(r->arena, BufferId, of.pair.pair.gradients + 1);
    b.passed = arena_array(r->arena, BufferId, of.pair.pair.cotangents + 1);
    record_at(r, PHASE_backward, forward.layer, forward.micro);
    b.draft = copy_bindings(r, &of);
    bind_cotangents(r, &b);
    for (size_t i = 0; i < of.pair.pair.gradients; i++)
        bind_gradient(r, &b, i);
    const DeriveRequest made = kernels_request(r->kernels, &of.pair, b.modes);
    record_task(r, (StepKernel){made.source, made.backward, made.text}, b.draft);
    if (made.later) {
        record_at(r, PHASE_weights, forward.layer, forward.micro);
        record_task(r, (StepKernel){made.source, made.later, made.text}, copy_bindings(r, &b.draft));
    }
}

void record_backward(Recorder *r)
{
    const TaskId begin = r->walked, end = r->error ? 0 : r->program->tasks.len;
    const int layer = r->layer, micro = r->micro;
    const Phase phase = r->phase;
    if (!r->error)
        count_contributions(r, begin, end);
    for (TaskId t = end; t-- > begin && !r->error;)
        if (r->drafts.at[t].active)
            walk_back(r, t);
    r->walked = r->program->tasks.len;
    record_at(r, phase, layer, micro);
}
