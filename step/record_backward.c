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

/* What is exchanged: its gradient goes the other way, whoever contributes to it. */
static int is_exchange(const Recorder *r, TaskId t)
{
    return exchange_rules[r->program->tasks.at[t].kind].is_exchange;
}

static int receives(Recorder *r, BufferId b)
{
    const Gradient *g = record_gradient(r, b);
    return g->got + g->expected > 0;
}

static int has_cotangent(Recorder *r, const Draft *d)
{
    for (size_t i = 0; i < d->pair.pair.cotangents; i++) {
        const moec_cotangent c = moec_module_cotangent(d->pair.module, d->pair.number, i);
        if (receives(r, record_bound(d, c.output)))
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

static void count_of_call(Recorder *r, Draft *d)
{
    d->active = d->active && has_cotangent(r, d);
    if (!d->active)
        return;
    check_inputs(r, d);
    for (size_t i = 0; i < d->pair.pair.gradients; i++) {
        const moec_gradient g = moec_module_gradient(d->pair.module, d->pair.number, i);
        const BufferId input = wanted_input(r, d, &g);
        if (input != STEP_NONE)
            record_gradient(r, input)->expected++;
    }
}

/* A member that sends cannot know whether the one that receives has a gradient for it, so that both always exchange it. */
static void count_of_exchange(Recorder *r, Draft *d)
{
    const BufferId x = record_bound(d, "x"), y = record_bound(d, "y");
    d->active = d->active && (x == STEP_NONE || y == STEP_NONE || receives(r, y));
    if (d->active && x != STEP_NONE)
        record_gradient(r, x)->expected++;
}

/* Counts what each buffer will receive, from the last call to the first. */
static void count_contributions(Recorder *r, TaskId begin, TaskId end)
{
    for (TaskId t = end; t-- > begin;)
        if (is_exchange(r, t))
            count_of_exchange(r, &r->drafts.at[t]);
        else
            count_of_call(r, &r->drafts.at[t]);
}

/* ---- cotangents ---- */

/* Zeros are whole, parts and partial sums alike, each under a name of its own. */
static BufferId zeros_like(Recorder *r, const StepBuffer *b)
{
    Text name = {.arena = r->arena};
    if (b->rank == 0)
        return record_scalar(r, "zero", b->type, 0);
    text_add(&name, "zeros.%s", step_type_name(b->type));
    for (uint32_t i = 0; i < b->rank; i++)
        text_add(&name, "%c%lld", i ? 'x' : '.', (long long)b->shape[i]);
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        if (b->placed[a] > PLACED_WHOLE)
            text_add(&name, ".%s%d", axis_names[a], b->placed[a] - 1);
    const BufferId zeros = record_tensor(r, OWNER_state, text_string(&name), b->type, 0, b->rank, b->shape);
    for (GroupAxis a = 0; a < AXIS_COUNT && zeros != STEP_NONE; a++)
        if (b->placed[a] > PLACED_WHOLE)
            record_place(r, zeros, a, b->placed[a]);
    return zeros;
}

/* As the recorder's own kernels take it: elements of each of the runs that parts consist of. */
static BufferId as_runs(Recorder *r, BufferId b)
{
    const StepBuffer *buffer = buffer_of(r, b);
    int64_t runs = 1;
    for (int a = 0; a < AXIS_COUNT; a++)
        runs = step_runs(buffer, buffer->placed[a]) > runs ? step_runs(buffer, buffer->placed[a]) : runs;
    return record_reshape(r, b, 2, (const int64_t[]){runs, step_elements(buffer) / runs});
}

/* The sum of several contributions, in the type that the backward kernel reads. */
static BufferId narrowed(Recorder *r, BufferId sum, const StepBuffer *like)
{
    const char *kernel = like->type == MOEC_BF16 ? "to_bf16" : "to_f16";
    StepBuffer narrow = *like;
    narrow.name = arena_printf(r->arena, "%s.narrow", buffer_of(r, sum)->name);
    narrow.owner = OWNER_activation, narrow.packed = 0, narrow.base = STEP_NONE, narrow.offset = 0;
    for (int a = 0; a < AXIS_COUNT; a++)
        narrow.placed[a] =
            step_reshaped(buffer_of(r, sum), buffer_of(r, sum)->placed[a], like->rank, like->shape);
    const BufferId to = record_buffer(r, narrow);
    record(r, kernel, ARG(x, as_runs(r, sum)), ARG(y, as_runs(r, to)));
    return to;
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
    BufferId *passed;                /* by cotangent: whom its buffer was given to; STEP_NONE: nobody yet */
    Placement (*placed)[AXIS_COUNT]; /* by gradient of the pair */
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

/* The cotangent that a gradient which the file passes is. */
static BufferId passed_cotangent(const Backward *b, const moec_gradient *g)
{
    BufferId found = STEP_NONE;
    for (size_t i = 0; i < b->of->pair.pair.cotangents; i++) {
        const moec_cotangent c = moec_module_cotangent(b->of->pair.module, b->of->pair.number, i);
        if (!strcmp(c.output, g->output))
            found = record_bound(&b->draft, c.param);
    }
    return found;
}

static BufferId new_gradient(Recorder *r, BufferId input, moec_type type, const Placement *placed)
{
    StepBuffer like = *buffer_of(r, step_home(r->program, input));
    like.name = arena_printf(r->arena, "d.%s", like.name);
    like.type = type, like.packed = 0, like.owner = OWNER_activation, like.base = STEP_NONE, like.offset = 0;
    for (int a = 0; a < AXIS_COUNT; a++)
        like.placed[a] = step_reshaped(buffer_of(r, input), placed[a], like.rank, like.shape);
    return record_buffer(r, like);
}

/* Where a weight's contributions are added up: its gradient, or beside it where they are partial sums and it is not. */
static BufferId weight_sum(Recorder *r, BufferId input, const Placement *placed)
{
    const BufferId gradient = record_gradient(r, input)->buffer;
    StepBuffer like = *buffer_of(r, gradient);
    int partial = 0;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (placed[a] == PLACED_SUM && like.placed[a] == PLACED_WHOLE)
            like.placed[a] = PLACED_SUM, partial = 1;
    if (partial && !r->gradients.at[gradient].got) {
        like.name = arena_printf(r->arena, "%s.partial", like.name);
        like.base = STEP_NONE, like.offset = 0;
        const BufferId sum = record_buffer(r, like);
        r->gradients.at[gradient].buffer = sum;
    }
    return r->gradients.at[gradient].buffer == STEP_NONE ? gradient : r->gradients.at[gradient].buffer;
}

/* Contributions so far. Several forms of a weight have one gradient, whose own entry counts them. */
static uint32_t *contributions(Recorder *r, BufferId input)
{
    Gradient *known = record_gradient(r, input);
    return known->trainable ? &r->gradients.at[known->buffer].got : &known->got;
}

/* Where a contribution goes; placed: what it is. */
static BufferId sum_of(Recorder *r, BufferId input, const Placement *placed)
{
    const Gradient *known = record_gradient(r, input);
    const BufferId sum = known->trainable ? weight_sum(r, input, placed) : known->buffer;
    const StepBuffer *s = buffer_of(r, sum), *x = buffer_of(r, input);
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        if (step_reshaped(x, placed[a], s->rank, s->shape) != s->placed[a])
            record_refuse(
                r,
                "gradient of %s over %s: one of its readers makes it %s, and %s is %s: let readers that "
                "make it a partial sum read it through a `copy` over %s",
                x->name, axis_names[a], step_placement_text(r->arena, placed[a]), s->name,
                step_placement_text(r->arena, s->placed[a]), axis_names[a]);
    return sum;
}

static WrtMode choose(Recorder *r, Backward *b, const moec_gradient *g, BufferId input,
                      const Placement *placed)
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
    const BufferId made = new_gradient(r, input, alone ? type : MOEC_F32, placed); /* moves the gradients */
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
    b->modes[i] = choose(r, b, &g, input, b->placed[i]);
    const BufferId sum = sum_of(r, input, b->placed[i]);
    ++*contributions(r, input);
    record_gradient(r, input)->expected--;
    if (b->modes[i] == WRT_PASS)
        return;
    const StepBuffer like = *buffer_of(r, input);
    const BufferId target = like.rank ? record_reshape(r, sum, like.rank, like.shape) : sum;
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
    Draft d = {.name = of->name};
    for (uint32_t i = 0; i < of->bound.len; i++)
        vec_push(r->arena, &d.bound, of->bound.at[i]);
    for (uint32_t i = 0; i < of->dims.len; i++)
        vec_push(r->arena, &d.dims, of->dims.at[i]);
    return d;
}

/* Adds a gradient that an exchange made, of x's type, to those of x. */
static void contribute(Recorder *r, BufferId x, BufferId made)
{
    static const char *const first[] = {"keep_f32", "widen_bf16", "widen_f16"}, *const others[] = {"add_f32",
                                                                                                   "add_bf16",
                                                                                                   "add_f16"};
    Gradient *known = record_gradient(r, x);
    const uint32_t got = (*contributions(r, x))++, expected = known->expected--;
    const StepBuffer like = *buffer_of(r, made);
    if (!known->trainable && !got && expected == 1) {
        known->buffer = made;
        return;
    }
    if (!known->trainable && !got) {
        const BufferId sum = new_gradient(r, x, MOEC_F32, like.placed); /* moves the gradients */
        record_gradient(r, x)->buffer = sum;
    }
    const BufferId sum = sum_of(r, x, like.placed);
    if (!r->error)
        record(r, (got ? others : first)[like.type], STOP(x, as_runs(r, made)), STOP(y, as_runs(r, sum)));
}

/* What the gradients are on an axis: the kernels of the pair as its file asks for them say it, because those that are requested
 * differ in types and `+=` only. */
static void place_gradients(Recorder *r, Backward *b, GroupAxis axis)
{
    const KernelPair *p = &b->of->pair;
    const moec_kernel *later = p->pair.later ? kernels_find(r->kernels, p->pair.later) : NULL;
    const PlacedKernel first =
        record_place_kernel(r, &b->draft, kernels_find(r->kernels, p->pair.backward), axis, NULL);
    const PlacedKernel second =
        later && !r->error ? record_place_kernel(r, &b->draft, later, axis, &first) : (PlacedKernel){0};
    for (size_t i = 0; i < p->pair.gradients && !r->error; i++) {
        const moec_gradient g = moec_module_gradient(p->module, p->number, i);
        const Placement made = g.param ? record_placed(g.later ? &second : &first, g.param)
                                       : buffer_of(r, passed_cotangent(b, &g))->placed[axis];
        const BufferId input = record_bound(b->of, g.input);
        const int alike = input != STEP_NONE && buffer_of(r, input)->placed[axis] == PLACED_WHOLE;
        b->placed[i][axis] = made == PLACED_OWN && alike ? (Placement)PLACED_SUM : made; /* Note [Own] */
    }
}

static void walk_back_exchange(Recorder *r, TaskId t)
{
    const Task forward = r->program->tasks.at[t];
    const BufferId x = record_bound(&r->drafts.at[t], "x"), y = record_bound(&r->drafts.at[t], "y");
    record_at(r, PHASE_backward, forward.layer, forward.micro);
    const BufferId made = record_adjoint(r, t, y == STEP_NONE ? STEP_NONE : cotangent_of(r, y));
    if (made != STEP_NONE && !r->error)
        contribute(r, x, made);
}

static void walk_back(Recorder *r, TaskId t)
{
    const Task forward = r->program->tasks.at[t];
    const Draft of = r->drafts.at[t]; /* a copy: recording moves the drafts */
    Backward b = {.of = &of};
    b.modes = arena_array(r->arena, WrtMode, of.pair.pair.gradients + 1);
    b.written = arena_array(r->arena, BufferId, of.pair.pair.gradients + 1);
    b.passed = arena_array(r->arena, BufferId, of.pair.pair.cotangents + 1);
    b.placed = arena_alloc(r->arena, (of.pair.pair.gradients + 1) * sizeof *b.placed);
    record_at(r, PHASE_backward, forward.layer, forward.micro);
    b.draft = copy_bindings(r, &of);
    b.draft.name = of.pair.pair.backward;
    bind_cotangents(r, &b);
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        if (record_is_shared(r, a) && !r->error)
            place_gradients(r, &b, a);
    for (size_t i = 0; !r->error && i < of.pair.pair.gradients; i++)
        bind_gradient(r, &b, i);
    if (r->error)
        return;
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
        if (r->drafts.at[t].active && is_exchange(r, t))
            walk_back_exchange(r, t);
        else if (r->drafts.at[t].active)
            walk_back(r, t);
    r->walked = r->program->tasks.len;
    record_at(r, phase, layer, micro);
}
