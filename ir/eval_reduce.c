/* Reductions. A float sum is kept in double and rounded once; an empty one is 0. Empty float max and min are
 * -inf and +inf, of integers an error; a NaN among the values makes the result NaN. */
#include "ir/eval.h"

#include <math.h>

typedef struct Total {
    const Node *node;
    int64_t n, whole;       /* terms; integer result */
    double sum, magnitude;  /* float sum, sum |terms| */
    double error;           /* what the terms carry; sums */
    double best, low, high; /* max, min: the value, and the ends of where it may be */
    int doubtful, nan;
} Total;

/* How sure it is that the loops stand at a term. */
typedef enum Belief { BELIEF_NO, BELIEF_DOUBT_NO, BELIEF_DOUBT_YES, BELIEF_YES } Belief;

static void add_int(Total *t, int64_t v, double error, int doubtful)
{
    int first = t->n == 0;
    t->doubtful |= doubtful || error > 0;
    switch ((ReduceKind)t->node->op) {
    case RED_SUM: t->whole = (int64_t)((uint64_t)t->whole + (uint64_t)v); break;
    case RED_MAX: t->whole = first || v > t->whole ? v : t->whole; break;
    case RED_MIN: t->whole = first || v < t->whole ? v : t->whole; break;
    }
    t->n++;
}

/* Both max and min, by comparing sign * value. */
static void add_extreme(Total *t, double v, double error, Belief belief)
{
    double sign = t->node->op == RED_MAX ? 1 : -1;
    if (isnan(v)) {
        t->nan |= belief >= BELIEF_DOUBT_YES;
        return;
    }
    v *= sign;
    if (belief >= BELIEF_DOUBT_YES)
        t->best = fmax(t->best, v);
    t->high = fmax(t->high, v + error);
    if (belief == BELIEF_YES)
        t->low = fmax(t->low, v - error);
}

static void add_float(Total *t, double v, double error, Belief belief)
{
    if (t->node->op != RED_SUM) {
        add_extreme(t, v, error, belief);
        return;
    }
    if (belief >= BELIEF_DOUBT_YES) {
        t->n++;
        t->sum += v;
        t->magnitude += fabs(v);
    }
    t->error += belief == BELIEF_YES ? error : fabs(v) + error;
}

/* All of v are terms. */
static void add_floats(Total *t, const Values *v, uint32_t count)
{
    if (t->node->op != RED_SUM) {
        for (uint32_t i = 0; i < count; i++)
            add_extreme(t, v->at[i], v->exact ? 0 : v->error[i], BELIEF_YES);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        t->sum += v->at[i];
        t->magnitude += fabs(v->at[i]);
    }
    for (uint32_t i = 0; i < count && !v->exact; i++)
        t->error += v->error[i];
    t->n += count;
}

static void add_term(Eval *e, Total *t, Belief belief)
{
    Node *body = t->node->reduce->body;
    Value v = eval_run(e, body);
    if (e->error) {
        if (belief == BELIEF_DOUBT_NO)
            e->error = NULL; /* it was not to be evaluated */
        return;
    }
    if (t->node->type == TY_INT) {
        if (belief >= BELIEF_DOUBT_YES)
            add_int(t, v.n.i, v.error, belief != BELIEF_YES);
        t->doubtful |= belief == BELIEF_DOUBT_NO;
        return;
    }
    add_float(t, v.n.f, v.error, belief);
}

/* ---- loops ---- */

typedef struct NodeList {
    Node *const *at;
    uint32_t len;
} NodeList;

static Belief test(Eval *e, NodeList conditions, Belief belief)
{
    for (uint32_t i = 0; i < conditions.len; i++) {
        Value v = eval_run(e, conditions.at[i]);
        if (e->error) {
            if (belief == BELIEF_DOUBT_NO)
                e->error = NULL;
            return BELIEF_NO;
        }
        if (!v.n.i)
            belief = v.error > 0 ? BELIEF_DOUBT_NO : BELIEF_NO;
        else if (v.error > 0 && belief == BELIEF_YES)
            belief = BELIEF_DOUBT_YES;
        if (belief == BELIEF_NO)
            return belief;
    }
    return belief;
}

typedef struct EvalRange {
    int64_t lo, hi;
} EvalRange;

static void narrow(Eval *e, NodeList bounds, int lower, int64_t shift, EvalRange *r)
{
    for (uint32_t i = 0; i < bounds.len; i++) {
        Value v = eval_run(e, bounds.at[i]);
        int64_t at;
        if (e->error || v.error > 0 || __builtin_add_overflow(v.n.i, shift, &at))
            continue;
        if (lower && at > r->lo)
            r->lo = at;
        if (!lower && at < r->hi)
            r->hi = at;
    }
}

#define LIST(v) ((NodeList){(v).at, (v).len})

static EvalRange row_range(Eval *e, const Loop *l)
{
    const RouteData *r = &e->routes[l->route];
    if (!l->run || r->route->doubtful)
        return (EvalRange){0, l->extent};
    Value g = eval_run(e, l->run);
    if (g.error > 0)
        return (EvalRange){0, l->extent};
    if (g.n.i < 0 || g.n.i >= r->route->groups)
        return (EvalRange){0, 0};
    int64_t start = r->route->start[g.n.i];
    return (EvalRange){start, start + r->route->count[g.n.i]};
}

static EvalRange loop_range(Eval *e, const Loop *l)
{
    if (l->route != NONE)
        return row_range(e, l);
    EvalRange r = {0, l->extent};
    narrow(e, LIST(l->least), 1, 0, &r);
    narrow(e, LIST(l->above), 1, 1, &r);
    narrow(e, LIST(l->most), 0, 1, &r);
    narrow(e, LIST(l->below), 0, 0, &r);
    return r;
}

/* Terms of values that follow each other, which wait to be computed together. */
typedef struct Batch {
    int64_t first;
    uint32_t n;
} Batch;

/* Adds `count` terms from `first` on, where the loop's variable then stands. */
static void add_terms(Eval *e, Total *t, const Loop *l, int64_t first, uint32_t count)
{
    Values v;
    eval_move(e, l, first);
    eval_batch(e, t->node->reduce->body, l, count, &v);
    if (!e->error)
        add_floats(t, &v, count);
}

/* All of a range. */
static void add_range(Eval *e, Total *t, const Loop *l, EvalRange r)
{
    for (int64_t i = r.lo; i < r.hi && !e->error; i += EVAL_BATCH)
        add_terms(e, t, l, i, r.hi - i < EVAL_BATCH ? (uint32_t)(r.hi - i) : EVAL_BATCH);
}

/* Those that wait. */
static void add_batch(Eval *e, Total *t, const Loop *l, Batch *b)
{
    if (b->n)
        add_terms(e, t, l, b->first, b->n);
    b->n = 0;
}

static void put_into_batch(Eval *e, Total *t, const Loop *l, Batch *b, int64_t i)
{
    if (b->n == EVAL_BATCH)
        add_batch(e, t, l, b);
    if (!b->n)
        b->first = i;
    b->n++;
}

/* Moves the loop's variable, unless it is a row that does not exist. */
static Belief move_to(Eval *e, const Loop *l, const int32_t *group_of, int64_t i, Belief belief)
{
    if (group_of && group_of[i] < 0)
        return BELIEF_NO;
    eval_move(e, l, i);
    return l->conditions.len ? test(e, LIST(l->conditions), belief) : belief;
}

static void run_loops(Eval *e, Total *t, uint32_t level, Belief belief)
{
    const Reduce *r = t->node->reduce;
    if (level == r->nloops) {
        add_term(e, t, belief);
        return;
    }
    const Loop *l = &r->loops[level];
    EvalRange range = loop_range(e, l);
    const int32_t *group_of = l->route == NONE ? NULL : e->routes[l->route].group_of;
    if (group_of && e->routes[l->route].route->doubtful && belief == BELIEF_YES)
        belief = BELIEF_DOUBT_YES;
    int batches = r->batch && level + 1 == r->nloops && belief == BELIEF_YES;
    if (batches && !group_of && !l->conditions.len) {
        add_range(e, t, l, range);
        return;
    }
    Batch batch = {0, 0};
    for (int64_t i = range.lo; i < range.hi && !e->error; i++) {
        Belief now = move_to(e, l, group_of, i, belief);
        if (batches && now == BELIEF_YES) {
            put_into_batch(e, t, l, &batch, i);
            continue;
        }
        if (batch.n) {
            add_batch(e, t, l, &batch);
            eval_move(e, l, i);
        }
        if (now != BELIEF_NO && !e->error)
            run_loops(e, t, level + 1, now);
    }
    if (!e->error)
        add_batch(e, t, l, &batch);
}

/* ---- results ---- */

static Value int_total(Eval *e, const Total *t)
{
    if (t->n == 0 && t->node->op != RED_SUM)
        eval_fail(e, "%s of no integers (kernel %s, line %u)", t->node->op == RED_MAX ? "max" : "min",
                  e->k->name, (unsigned)x_at(e->k, t->node->expr)->loc.line);
    return (Value){{.i = t->whole}, t->doubtful};
}

/* A sum of nothing may become 0 * inf or 0 / 0 by what is applied to it (language page, section 5). */
static int may_make_nan(Eval *e, const Reduce *r)
{
    for (uint32_t i = 0; i < r->free.len; i++) {
        const Node *n = r->free.at[i];
        if (n->faults)
            return 1;
        Value v = eval_run(e, r->free.at[i]);
        const double f = n->type == TY_INT ? (double)v.n.i : v.n.f;
        if (f == 0 || !isfinite(f))
            return 1;
    }
    return 0;
}

static Value float_total(Eval *e, const Total *t)
{
    Value v = {{.f = 0}, 0};
    if (t->node->op != RED_SUM) {
        v.n.f = t->nan ? NAN : t->node->op == RED_MAX ? t->best : -t->best;
        if (e->track && !t->nan)
            v.error = fmax(eval_distance(t->high, t->best), eval_distance(t->low, t->best));
        return v;
    }
    v.n.f = e->mode == EVAL_EXACT ? t->sum : elem_round(EL_F32, t->sum);
    if (e->track && isfinite(v.n.f))
        v.error = t->error + (double)(t->n + 2) * (t->node->moves ? 0x1p-23 : 0x1p-24) * t->magnitude;
    else if (e->track && t->node->reduce->free.len)
        v.error = INFINITY; /* of 2 * inf - 1 * inf the language (section 5) makes (2 - 1) * inf */
    if (e->track && t->n == 0 && may_make_nan(e, t->node->reduce))
        v.error = INFINITY;
    if (t->node->reduce->may_add_nan)
        v.error = INFINITY;
    t->node->reduce->terms = t->n;
    t->node->reduce->magnitude = t->magnitude;
    if (e->track && t->magnitude > 0 && v.error < 0x1p-126)
        v.error = 0x1p-126; /* denormals may be flushed */
    return v;
}

Value eval_reduce(Eval *e, Node *n)
{
    Total t = {.node = n, .best = -INFINITY, .low = -INFINITY, .high = -INFINITY};
    Belief belief = test(e, LIST(n->reduce->conditions), BELIEF_YES);
    if (belief != BELIEF_NO)
        run_loops(e, &t, 0, belief);
    if (e->error)
        return (Value){{.i = 0}, 0};
    return n->type == TY_INT ? int_total(e, &t) : float_total(e, &t);
}
