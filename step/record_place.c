/* Placements while a program is recorded: what callers state, what the equations of kernels make of it. Note [Placements] of
 * step.h. Axes whose group has one member are not looked at: everything is whole there. */
#include "step/recorder.h"

#include <limits.h>

static StepBuffer *buffer_of(const Recorder *r, BufferId b) { return &r->program->buffers.at[b]; }

int record_is_shared(const Recorder *r, GroupAxis a) { return r->program->members[a] > 1; }

int64_t record_members(const Recorder *r, GroupAxis axis) { return r->program->members[axis]; }

void record_group(Recorder *r, GroupAxis axis, int64_t members)
{
    if (members < 1 || r->program->buffers.len)
        record_refuse(r, "group %s of %lld: give groups of at least one rank before any buffer",
                      axis_names[axis], (long long)members);
    else
        r->program->members[axis] = members;
}

void record_place(Recorder *r, BufferId b, GroupAxis axis, Placement placement)
{
    if (r->error || !record_is_shared(r, axis))
        return;
    StepBuffer *buffer = buffer_of(r, b), *home = buffer_of(r, step_home(r->program, b));
    const int dims = buffer->kind == MOEC_ROUTE ? 1 : (int)buffer->rank;
    if (placement < PLACED_OWN || placement == PLACED_MIXED || placement > dims)
        record_refuse(r, "buffer %s over %s: %s is no placement of its %d dimensions", buffer->name,
                      axis_names[axis], step_placement_text(r->arena, placement), dims);
    if ((r->named.at[b] & NAMED_BY_TASK) && buffer->placed[axis] != placement)
        record_refuse(r,
                      "buffer %s over %s: recorded as %s and placed as %s; place it before the first task "
                      "that names it",
                      buffer->name, axis_names[axis], step_placement_text(r->arena, buffer->placed[axis]),
                      step_placement_text(r->arena, placement));
    buffer->placed[axis] = placement;
    r->named.at[b] |= NAMED_OVER(axis);
    if (home != buffer && !(home->placed[axis] == PLACED_OWN && placement > PLACED_WHOLE) &&
        home->placed[axis] != step_reshaped(buffer, placement, home->rank, home->shape))
        home->placed[axis] = PLACED_MIXED;
}

void record_place_gradient(Recorder *r, BufferId gradient, BufferId weight)
{
    for (GroupAxis a = 0; a < AXIS_COUNT; a++) {
        const StepBuffer *g = buffer_of(r, gradient), *w = buffer_of(r, weight);
        const Placement like = step_reshaped(w, w->placed[a], g->rank, g->shape);
        if (record_is_shared(r, a) && !(g->placed[a] == PLACED_SUM && like == PLACED_WHOLE))
            record_place(r, gradient, a, like);
    }
}

/* A view of a tensor in parts is in parts too; a part of one is nothing that a placement could say. */
void record_place_view(Recorder *r, StepBuffer *view, const StepBuffer *of)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        const int whole = view->bytes == of->bytes || of->placed[a] <= PLACED_WHOLE;
        view->placed[a] = step_reshaped(of, of->placed[a], view->rank, view->shape);
        if (of->placed[a] > PLACED_WHOLE && (!whole || view->placed[a] == PLACED_MIXED))
            record_refuse(r, "buffer %s over %s: a view of %s, which is %s, that takes the parts apart",
                          view->name, axis_names[a], of->name, step_placement_text(r->arena, of->placed[a]));
        if (of->placed[a] == PLACED_MIXED)
            view->placed[a] = PLACED_WHOLE;
    }
}

/* ---- calls ---- */

_Static_assert((int)MOEC_WHOLE == (int)PLACED_WHOLE - 1, "a dimension is one more here");
enum { PLACE_OF_OWN = INT_MAX }; /* of parameters; the equations are not asked about it */
static int to_public(Placement p)
{
    return p == PLACED_SUM ? MOEC_SUM : p == PLACED_OWN ? PLACE_OF_OWN : p - 1;
}
static Placement from_public(int place)
{
    return place == MOEC_SUM       ? (Placement)PLACED_SUM
           : place == PLACE_OF_OWN ? (Placement)PLACED_OWN
                                   : PLACED_PART(place);
}

/* What is bound and not whole. */
static const char *placed_words(const Recorder *r, const Draft *d, GroupAxis axis)
{
    Text t = {.arena = r->arena};
    for (uint32_t i = 0; i < d->bound.len; i++) {
        const StepBuffer *b = buffer_of(r, d->bound.at[i].buffer);
        if (b->placed[axis])
            text_add(&t, "%s`%s` = %s is %s", t.len ? ", " : "", d->bound.at[i].param, b->name,
                     step_placement_text(r->arena, b->placed[axis]));
    }
    return t.len ? text_string(&t) : "all it takes is whole";
}

/* The place of what is bound to parameter i of kernel k, or of what `before` wrote there. An `inout` that is not bound is a
 * gradient without a buffer: what the kernel adds decides. */
static int place_of_input(Recorder *r, const Draft *d, const PlacedKernel *k, size_t i,
                          const PlacedKernel *before)
{
    const char *param = moec_kernel_param_name(k->kernel, i);
    const BufferId b = record_bound(d, param);
    if (moec_kernel_param_role(k->kernel, i) == MOEC_OUT)
        return MOEC_WHOLE;
    if (b == STEP_NONE && moec_kernel_param_role(k->kernel, i) == MOEC_INOUT)
        return MOEC_ANY;
    if (b == STEP_NONE)
        return to_public(record_placed(before, param));
    if (buffer_of(r, b)->placed[k->axis] == PLACED_MIXED)
        record_refuse(r,
                      "kernel %s over %s: `%s` is %s, whose views are placed apart: call it for each of them",
                      d->name, axis_names[k->axis], param, buffer_of(r, b)->name);
    return to_public(buffer_of(r, b)->placed[k->axis]);
}

static int reads_own(const PlacedKernel *k, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (k->places[i] == PLACE_OF_OWN)
            return 1;
    return 0;
}

/* What a kernel may have there beside each member's own; an `inout` that is a partial sum is a gradient. */
static int fits_own(const PlacedKernel *k, size_t i)
{
    const moec_role role = moec_kernel_param_role(k->kernel, i);
    const int place = k->places[i];
    return role == MOEC_OUT || place == PLACE_OF_OWN || (role == MOEC_IN && place == MOEC_WHOLE) ||
           (role == MOEC_INOUT && (place == MOEC_ANY || place == MOEC_SUM));
}

/* Note [Own]: what it makes is the member's own, whatever its equations are. */
static void place_own(Recorder *r, const Draft *d, const PlacedKernel *k, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!fits_own(k, i))
            record_refuse(r,
                          "task %u, kernel %s over %s: `%s` does not go with each member's own (%s): sum "
                          "these up by allreduce before it",
                          r->program->tasks.len, d->name, axis_names[k->axis],
                          moec_kernel_param_name(k->kernel, i), placed_words(r, d, k->axis));
        if (moec_kernel_param_role(k->kernel, i) != MOEC_IN)
            k->places[i] = PLACE_OF_OWN;
    }
}

PlacedKernel record_place_kernel(Recorder *r, const Draft *d, const moec_kernel *kernel, GroupAxis axis,
                                 const PlacedKernel *before)
{
    char why[MOE_MESSAGE_BYTES] = "";
    moe_ctx ctx = {.message = why};
    PlacedKernel k = {kernel, axis, NULL};
    if (!record_is_shared(r, axis) || r->error)
        return k;
    const size_t n = moec_kernel_params(kernel);
    k.places = arena_array(r->arena, int, n + 1);
    for (size_t i = 0; i < n; i++)
        k.places[i] = place_of_input(r, d, &k, i, before);
    if (reads_own(&k, n)) {
        place_own(r, d, &k, n);
        return k;
    }
    if (!r->error && moec_kernel_place(kernel, &ctx, k.places))
        record_refuse(r,
                      "task %u, kernel %s over %s: %s (%s): exchange what it takes before it (allgather, "
                      "allreduce, reducescatter), or place what goes together alike",
                      r->program->tasks.len, d->name, axis_names[axis], why, placed_words(r, d, axis));
    return k;
}

Placement record_placed(const PlacedKernel *k, const char *param)
{
    const size_t i = k && k->places ? moec_kernel_param_index(k->kernel, param) : (size_t)-1;
    return i == (size_t)-1 ? PLACED_WHOLE : from_public(k->places[i]);
}

/* An output that the caller gave has the placement that was stated, or takes it from here. */
static void place_output(Recorder *r, const Draft *d, const char *param, BufferId b, GroupAxis axis,
                         Placement placement)
{
    StepBuffer *buffer = buffer_of(r, b);
    if (!(r->named.at[b] & (NAMED_BY_TASK | NAMED_OVER(axis))) && buffer->base == STEP_NONE)
        buffer->placed[axis] = placement;
    else if (buffer->placed[axis] != placement)
        record_refuse(r,
                      "task %u, kernel %s over %s: `%s` becomes %s, but %s is %s: exchange it behind the "
                      "kernel, or place it so",
                      r->program->tasks.len, d->name, axis_names[axis], param,
                      step_placement_text(r->arena, placement), buffer->name,
                      step_placement_text(r->arena, buffer->placed[axis]));
}

void record_place_call(Recorder *r, const Draft *d)
{
    for (GroupAxis a = 0; a < AXIS_COUNT && !r->error; a++) {
        const PlacedKernel k = record_place_kernel(r, d, d->kernel, a, NULL);
        for (size_t i = 0; k.places && i < moec_kernel_params(d->kernel) && !r->error; i++) {
            const char *param = moec_kernel_param_name(d->kernel, i);
            if (moec_kernel_param_role(d->kernel, i) == MOEC_OUT)
                place_output(r, d, param, record_bound(d, param), a, from_public(k.places[i]));
        }
    }
}
