#include "step/verify_ranks.h"

/* The exchanges of a program in groups of several members. */
typedef struct RankExchanges {
    const Program *program;
    Vec(TaskId) tasks;
} RankExchanges;

typedef struct RankState {
    const RankExchanges *list;
    uint32_t at; /* the exchange that it does, or waits for */
    int waits;   /* its group knows that it is there */
} RankState;

/* A group of an axis: who waits for its next exchange. */
typedef struct RankMeeting {
    int64_t arrived, first; /* first: the rank that came first */
} RankMeeting;

typedef struct RanksVerifier {
    Arena *arena;
    const Ranks *ranks;
    RankState *state;                  /* by rank */
    RankMeeting *meetings[AXIS_COUNT]; /* by group; every rank is in one of each axis */
    Vec(int64_t) ready;                /* ranks that may go on */
    const char *error;
} RanksVerifier;

#define REFUSE_RANKS(v, ...) ((v)->error = (v)->error ? (v)->error : arena_printf((v)->arena, __VA_ARGS__))

/* ---- the exchange that a rank is at ---- */

static int is_done(const RankState *s) { return s->at == s->list->tasks.len; }

static const Task *task_of(const RankState *s)
{
    return &s->list->program->tasks.at[s->list->tasks.at[s->at]];
}

static const char *exchange_text(const RanksVerifier *v, int64_t rank)
{
    const RankState *s = &v->state[rank];
    const Task *t = is_done(s) ? NULL : task_of(s);
    if (!t)
        return arena_printf(v->arena, "rank %lld, at the end", (long long)rank);
    return arena_printf(v->arena, "rank %lld, task %u (%s over %s, layer %d, micro-batch %d)",
                        (long long)rank, s->list->tasks.at[s->at], task_names[t->kind], axis_names[t->axis],
                        t->layer, t->micro);
}

static const StepBuffer *operand(const RankState *s, uint32_t i)
{
    return &s->list->program->buffers.at[task_of(s)->operands.at[i].buffer];
}

/* One type and size. Of rows that travel, one row. */
static int is_alike(const StepBuffer *x, const StepBuffer *y, int of_rows)
{
    int alike = x->type == y->type && x->rank == y->rank;
    for (uint32_t i = of_rows != 0; alike && i < x->rank; i++)
        alike = x->shape[i] == y->shape[i];
    return alike;
}

static void check_alike(RanksVerifier *v, int64_t rank, int64_t first)
{
    const RankState *s = &v->state[rank], *f = &v->state[first];
    const int of_rows = task_of(s)->kind == TASK_alltoallv;
    const uint32_t n = task_of(s)->operands.len;
    int alike = task_of(s)->kind == task_of(f)->kind && n == task_of(f)->operands.len;
    alike = alike && is_alike(operand(s, 0), operand(f, 0), of_rows) &&
            is_alike(operand(s, n - 1), operand(f, n - 1), of_rows);
    if (!alike)
        REFUSE_RANKS(v, "%s meets %s: they differ in kind, type or size", exchange_text(v, rank),
                     exchange_text(v, first));
}

/* ---- steps ---- */

static void go_on(RanksVerifier *v, int64_t rank)
{
    v->state[rank].at++, v->state[rank].waits = 0;
    vec_push(v->arena, &v->ready, rank);
}

/* All of the group, when the last one has come. */
static void meet(RanksVerifier *v, int64_t rank, GroupAxis axis)
{
    RankMeeting *m = &v->meetings[axis][ranks_group(v->ranks, axis, rank)];
    const int64_t members = v->ranks->members[axis];
    m->first = m->arrived ? m->first : rank;
    check_alike(v, rank, m->first);
    if (++m->arrived < members || v->error)
        return;
    m->arrived = 0;
    for (int64_t place = 0; place < members; place++)
        go_on(v, ranks_member(v->ranks, axis, rank, place));
}

/* The rank at the other end of a send or a receive. */
static int64_t other_end(const RanksVerifier *v, int64_t rank)
{
    const Task *t = task_of(&v->state[rank]);
    const int64_t place = ranks_place(v->ranks, t->axis, rank) + t->peer;
    return ranks_member(v->ranks, t->axis, rank, ranks_in_ring(v->ranks->members[t->axis], place));
}

static int is_mail(const Task *t) { return t->kind == TASK_send || t->kind == TASK_recv; }

/* Does the rank that waits at the other end wait for this one? */
static int is_awaited(const RanksVerifier *v, int64_t rank, int64_t other)
{
    const RankState *s = &v->state[rank], *o = &v->state[other];
    return o->waits && task_of(o)->kind == (task_of(s)->kind == TASK_send ? TASK_recv : TASK_send) &&
           task_of(o)->axis == task_of(s)->axis && other_end(v, other) == rank;
}

static void mail(RanksVerifier *v, int64_t rank)
{
    const int64_t other = other_end(v, rank);
    if (!is_awaited(v, rank, other))
        return;
    if (!is_alike(operand(&v->state[rank], 0), operand(&v->state[other], 0), 0)) {
        REFUSE_RANKS(v, "%s meets %s: they differ in type or size", exchange_text(v, rank),
                     exchange_text(v, other));
        return;
    }
    go_on(v, rank), go_on(v, other);
}

static void step(RanksVerifier *v, int64_t rank)
{
    RankState *s = &v->state[rank];
    if (is_done(s) || s->waits)
        return;
    s->waits = 1;
    if (is_mail(task_of(s)))
        mail(v, rank);
    else
        meet(v, rank, task_of(s)->axis);
}

/* The first rank that waits for ever, and one of those that it waits for. */
static void check_finished(RanksVerifier *v)
{
    for (int64_t rank = 0; rank < v->ranks->number && !v->error; rank++) {
        const RankState *s = &v->state[rank];
        if (is_done(s))
            continue;
        int64_t other = rank;
        const GroupAxis axis = task_of(s)->axis;
        for (int64_t place = 0; place < v->ranks->members[axis] && !is_mail(task_of(s)); place++) {
            const int64_t member = ranks_member(v->ranks, axis, rank, place);
            if (is_done(&v->state[member]) || is_mail(task_of(&v->state[member])) ||
                task_of(&v->state[member])->axis != axis)
                other = member;
        }
        other = is_mail(task_of(s)) ? other_end(v, rank) : other;
        REFUSE_RANKS(v, "%s waits for ever: %s", exchange_text(v, rank), exchange_text(v, other));
    }
}

/* ---- the lists ---- */

static const RankExchanges *exchanges_of(RanksVerifier *v, const Program *p)
{
    RankExchanges *list = arena_new_of(v->arena, RankExchanges);
    *list = (RankExchanges){.program = p};
    for (TaskId t = 0; t < p->tasks.len; t++) {
        const Task *task = &p->tasks.at[t];
        if (exchange_rules[task->kind].is_exchange && task_lanes[task->kind] == LANE_net &&
            p->members[task->axis] > 1)
            vec_push(v->arena, &list->tasks, t);
    }
    return list;
}

static void check_members(RanksVerifier *v, int64_t rank, const Program *p)
{
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        if (p->members[a] != 1 && p->members[a] != v->ranks->members[a])
            REFUSE_RANKS(v, "rank %lld: its program has %lld members of %s, and its group %lld",
                         (long long)rank, (long long)p->members[a], axis_names[a],
                         (long long)v->ranks->members[a]);
}

/* Ranks with the program of the rank before share its list. */
static void open_ranks(RanksVerifier *v, const Program *const *programs)
{
    const int64_t n = v->ranks->number;
    v->state = arena_array(v->arena, RankState, n);
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        v->meetings[a] = arena_array(v->arena, RankMeeting, n);
    for (int64_t rank = 0; rank < n && !v->error; rank++) {
        const int same = rank && programs[rank] == programs[rank - 1];
        if (!same)
            check_members(v, rank, programs[rank]);
        v->state[rank].list = same ? v->state[rank - 1].list : exchanges_of(v, programs[rank]);
        vec_push(v->arena, &v->ready, n - 1 - rank);
    }
}

const char *step_verify_ranks(Arena *a, const Ranks *ranks, const Program *const *programs)
{
    RanksVerifier v = {.arena = a, .ranks = ranks};
    open_ranks(&v, programs);
    while (v.ready.len && !v.error)
        step(&v, v.ready.at[--v.ready.len]);
    check_finished(&v);
    return v.error;
}
