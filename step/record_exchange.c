/* Exchanges between the ranks of a group, and what takes gradients back through them. */
#include "step/recorder.h"

#include <string.h>

static StepBuffer *buffer_of(const Recorder *r, BufferId b) { return &r->program->buffers.at[b]; }

/* Is the operand or result placed as the row of task.def says? */
static int fits(Exchanged rule, Placement p)
{
    switch (rule) {
    case EXCHANGED_WHOLE: return p == PLACED_WHOLE;
    case EXCHANGED_SUM: return p == PLACED_SUM || p == PLACED_OWN;
    case EXCHANGED_PART: return p > PLACED_WHOLE || p == PLACED_OWN;
    case EXCHANGED_ROWS: return p == PLACED_PART(0) || p == PLACED_OWN;
    case EXCHANGED_SAME: return p != PLACED_MIXED;
    case EXCHANGED_NOTHING: return 0;
    }
    return 0;
}

static const char *const taken_words[] = {[EXCHANGED_WHOLE] = "a whole tensor",
                                          [EXCHANGED_SUM] = "a partial sum",
                                          [EXCHANGED_PART] = "parts",
                                          [EXCHANGED_ROWS] = "rows of each member's own, or parts of rows",
                                          [EXCHANGED_SAME] = "any tensor"};
static const char *const mend_words[] = {
    [EXCHANGED_WHOLE] = "make it whole by allgather or allreduce, or leave the exchange out",
    [EXCHANGED_SUM] = "where it is whole, copy sums its gradients; where it is in parts, use allgather",
    [EXCHANGED_PART] =
        "where it is a partial sum, use reducescatter or allreduce; what is whole needs no exchange",
    [EXCHANGED_ROWS] = "what is whole needs no exchange of rows",
    [EXCHANGED_SAME] = ""};

static void check_operand(Recorder *r, TaskKind kind, GroupAxis axis, BufferId x)
{
    const StepBuffer *b = buffer_of(r, x);
    const Exchanged takes = exchange_rules[kind].takes;
    if (b->kind != MOEC_TENSOR || b->packed)
        record_refuse(r, "task %u, %s over %s: %s is no plain tensor, and only those are exchanged",
                      r->program->tasks.len, task_names[kind], axis_names[axis], b->name);
    if (record_is_shared(r, axis) && !fits(takes, b->placed[axis]))
        record_refuse(r, "task %u, %s over %s: it takes %s, and %s is %s: %s", r->program->tasks.len,
                      task_names[kind], axis_names[axis], taken_words[takes], b->name,
                      step_placement_text(r->arena, b->placed[axis]), mend_words[takes]);
}

/* The result is placed as the operand on all other axes. */
static StepBuffer result_like(Recorder *r, TaskKind kind, GroupAxis axis, const StepBuffer *x)
{
    StepBuffer y = *x;
    y.name = arena_printf(r->arena, "%s.%s", x->name, task_names[kind]);
    y.owner = OWNER_activation, y.base = STEP_NONE, y.offset = 0;
    if (exchange_rules[kind].gives == EXCHANGED_WHOLE)
        step_place_result(r->program, kind, axis, PLACED_WHOLE, y.placed);
    return y;
}

static Task exchange_of(const Recorder *r, TaskKind kind, GroupAxis axis, int peer)
{
    return (Task){.kind = kind,
                  .phase = r->phase,
                  .layer = r->layer,
                  .micro = r->micro,
                  .kernel = STEP_NONE,
                  .axis = axis,
                  .peer = peer,
                  .work = STEP_NONE};
}

static void add_operand(Recorder *r, Task *t, Draft *d, const char *role, BufferId b, OperandUse use)
{
    vec_push(r->arena, &t->operands, (Operand){role, b, use});
    vec_push(r->arena, &d->bound, (ParamBinding){role, b, 0});
    r->named.at[b] |= NAMED_BY_TASK;
}

static int is_float(const Recorder *r, BufferId b) { return buffer_of(r, b)->type != MOEC_I32; }

/* A gradient that x needs flows back from y; either may be missing. */
static void add_exchange(Recorder *r, Task t, Draft d, BufferId x, BufferId y)
{
    d.name = task_names[t.kind];
    if (x != STEP_NONE)
        d.active = r->train && is_float(r, x) && record_gradient(r, x)->needed;
    else
        d.active = r->train && is_float(r, y); /* the rank that sends it knows what is upstream */
    if (y != STEP_NONE && d.active)
        record_gradient(r, y)->needed = 1;
    vec_push(r->arena, &r->program->tasks, t);
    vec_push(r->arena, &r->drafts, d);
}

/* The dimension of the parts: of what is placed so, or as record_exchange() takes it. */
static Placement part_of(uint32_t dim)
{
    return dim == RECORD_OWN ? (Placement)PLACED_OWN : PLACED_PART(dim);
}
static uint32_t dim_of(Placement p) { return p == PLACED_OWN ? RECORD_OWN : (uint32_t)(p - 1); }

/* Places whose number of elements the exchange changes: a dimension of members' parts. */
static void resize(Recorder *r, TaskKind kind, GroupAxis axis, StepBuffer *y, uint32_t given)
{
    const int64_t members = r->program->members[axis];
    const uint32_t dim = given == RECORD_OWN ? 0 : given;
    if (kind == TASK_allgather)
        y->shape[dim] *= members;
    if (kind != TASK_reducescatter && kind != TASK_split)
        return;
    if (dim >= y->rank || y->shape[dim] % members)
        record_refuse(r, "task %u, %s over %s: %s has no dimension %u of %lld equal parts",
                      r->program->tasks.len, task_names[kind], axis_names[axis], y->name, dim,
                      (long long)members);
    else
        y->shape[dim] /= members, step_place_result(r->program, kind, axis, part_of(given), y->placed);
}

/* into: where the result goes; STEP_NONE: a new buffer. */
static BufferId exchange(Recorder *r, TaskKind kind, GroupAxis axis, BufferId x, uint32_t dim, BufferId into)
{
    if (r->error || x == STEP_NONE)
        return STEP_NONE;
    check_operand(r, kind, axis, x);
    StepBuffer y = result_like(r, kind, axis, buffer_of(r, x));
    if (!r->error && record_is_shared(r, axis))
        resize(r, kind, axis, &y, kind == TASK_allgather ? dim_of(buffer_of(r, x)->placed[axis]) : dim);
    if (r->error)
        return STEP_NONE;
    const BufferId to = into == STEP_NONE ? record_buffer(r, y) : into;
    if (!(r->named.at[to] & NAMED_BY_TASK) && buffer_of(r, to)->base == STEP_NONE)
        memcpy(buffer_of(r, to)->placed, y.placed, sizeof y.placed);
    Task t = exchange_of(r, kind, axis, 0);
    Draft d = {0};
    add_operand(r, &t, &d, "x", x, USE_READ);
    add_operand(r, &t, &d, "y", to, USE_WRITE);
    add_exchange(r, t, d, x, to);
    return to;
}

BufferId record_exchange(Recorder *r, TaskKind kind, GroupAxis axis, BufferId x, uint32_t dim)
{
    if (!exchange_rules[kind].is_exchange || kind == TASK_alltoallv || kind == TASK_send || kind == TASK_recv)
        return record_refuse(r, "a task %s is not recorded by record_exchange()", task_names[kind]);
    return exchange(r, kind, axis, x, dim, STEP_NONE);
}

void record_sum(Recorder *r, GroupAxis axis, BufferId x, BufferId into)
{
    exchange(r, TASK_allreduce, axis, x, 0, into);
}

static void check_counts(Recorder *r, GroupAxis axis, BufferId counts)
{
    const StepBuffer *b = buffer_of(r, counts);
    if (b->type != MOEC_I32 || b->rank != 1 || b->shape[0] != r->program->members[axis])
        record_refuse(r, "task %u, alltoallv over %s: %s is not i32[%lld], a number of rows for each member",
                      r->program->tasks.len, axis_names[axis], b->name, (long long)r->program->members[axis]);
}

BufferId record_alltoallv(Recorder *r, GroupAxis axis, BufferId x, BufferId sent, BufferId received,
                          int64_t rows)
{
    if (r->error || x == STEP_NONE)
        return STEP_NONE;
    check_operand(r, TASK_alltoallv, axis, x);
    check_counts(r, axis, sent);
    check_counts(r, axis, received);
    StepBuffer like = result_like(r, TASK_alltoallv, axis, buffer_of(r, x));
    if (!like.rank)
        record_refuse(r, "task %u, alltoallv over %s: %s has no rows", r->program->tasks.len,
                      axis_names[axis], buffer_of(r, x)->name);
    if (r->error)
        return STEP_NONE;
    like.shape[0] = rows;
    const BufferId y = record_buffer(r, like);
    Task t = exchange_of(r, TASK_alltoallv, axis, 0);
    Draft d = {0};
    add_operand(r, &t, &d, "x", x, USE_READ);
    add_operand(r, &t, &d, "sent", sent, USE_READ);
    add_operand(r, &t, &d, "received", received, USE_READ);
    add_operand(r, &t, &d, "y", y, USE_WRITE);
    add_exchange(r, t, d, x, y);
    return y;
}

void record_rows(Recorder *r, BufferId b, BufferId extent)
{
    if (r->error || b == STEP_NONE)
        return;
    r->extents.at[b] = extent;
    Task *last = &r->program->tasks.at[r->program->tasks.len - 1];
    if (last->kind == TASK_alltoallv && last->operands.at[3].buffer == b)
        vec_push(r->arena, &last->dims, (TaskDim){"rows", buffer_of(r, b)->shape[0], extent});
}

void record_send(Recorder *r, GroupAxis axis, int peer, BufferId x)
{
    if (r->error || x == STEP_NONE)
        return;
    check_operand(r, TASK_send, axis, x);
    Task t = exchange_of(r, TASK_send, axis, peer);
    Draft d = {0};
    add_operand(r, &t, &d, "x", x, USE_READ);
    add_exchange(r, t, d, x, STEP_NONE);
}

void record_recv(Recorder *r, GroupAxis axis, int peer, BufferId y)
{
    if (r->error || y == STEP_NONE)
        return;
    Task t = exchange_of(r, TASK_recv, axis, peer);
    Draft d = {0};
    add_operand(r, &t, &d, "y", y, USE_WRITE);
    add_exchange(r, t, d, STEP_NONE, y);
}

/* ---- backward ---- */

/* The gradient of what was sent comes back from the same member. */
static BufferId received_back(Recorder *r, const Task *t, BufferId x)
{
    StepBuffer like = *buffer_of(r, x);
    like.name = arena_printf(r->arena, "d.%s", like.name);
    like.owner = OWNER_activation, like.base = STEP_NONE, like.offset = 0;
    const BufferId d = record_buffer(r, like);
    record_recv(r, t->axis, t->peer, d);
    return d;
}

BufferId record_adjoint(Recorder *r, TaskId number, BufferId cotangent)
{
    const Task t = r->program->tasks.at[number];
    const Draft *d = &r->drafts.at[number];
    const BufferId x = record_bound(d, "x"), sent = record_bound(d, "sent"),
                   received = record_bound(d, "received");
    if (t.kind == TASK_send)
        return received_back(r, &t, x);
    if (t.kind == TASK_alltoallv) {
        const BufferId back =
            record_alltoallv(r, t.axis, cotangent, received, sent, buffer_of(r, x)->shape[0]);
        if (r->extents.at[x] != STEP_NONE)
            record_rows(r, back, r->extents.at[x]);
        return back;
    }
    if (t.kind != TASK_recv)
        return record_exchange(r, exchange_rules[t.kind].adjoint, t.axis, cotangent,
                               dim_of(buffer_of(r, x)->placed[t.axis]));
    record_send(r, t.axis, t.peer, cotangent);
    return STEP_NONE;
}

/* ---- gradients of weights ---- */

/* The axis to add up over next, the larger groups first; AXIS_COUNT: the placements are the same. */
static GroupAxis next_sum(const Placement *from, const Placement *to)
{
    static const GroupAxis order[] = {AXIS_tp, AXIS_cp, AXIS_dp, AXIS_ep, AXIS_edp, AXIS_pp};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (from[order[i]] != to[order[i]])
            return order[i];
    return AXIS_COUNT;
}

/* Sums over one axis after the other; the last result is the weight's gradient. */
static void reduce(Recorder *r, BufferId partial, BufferId gradient)
{
    Placement placed[AXIS_COUNT];
    for (GroupAxis a; !r->error && partial != gradient;) {
        a = next_sum(buffer_of(r, partial)->placed, buffer_of(r, gradient)->placed);
        memcpy(placed, buffer_of(r, partial)->placed, sizeof placed);
        step_place_result(r->program, TASK_allreduce, a, PLACED_WHOLE, placed);
        const int last = next_sum(placed, buffer_of(r, gradient)->placed) == AXIS_COUNT;
        partial = exchange(r, TASK_allreduce, a, partial, 0, last ? gradient : STEP_NONE);
    }
}

void record_reduce_gradients(Recorder *r)
{
    for (BufferId w = 0; w < r->gradients.len && !r->error; w++) {
        if (!r->gradients.at[w].trainable)
            continue;
        const BufferId gradient = r->gradients.at[w].buffer, partial = r->gradients.at[gradient].buffer;
        r->gradients.at[gradient].buffer = STEP_NONE;
        if (partial != STEP_NONE)
            reduce(r, partial, gradient);
    }
}
