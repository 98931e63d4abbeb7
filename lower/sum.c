/* Reductions: registers, loops over the reduced indices, terms.
 *
 * Note [Domains]. Reductions of one equation that run over the same indices under the same condition (gate and up of
 * an expert, say) share one loop nest: a Domain. Its conditions become loop bounds where they are comparisons of the
 * index with something the loops outside know, runs of rows for `@r == e`, a walk over one bucket of a counting sort
 * for `key(t) == v`, and tests otherwise. Where a bound varies with the unrolled row, the loop is cut in three: only
 * the ends test, the middle, common to all rows, does not. */
#include "lower/lower.h"

static void declare(Lower *l, Domain *d, uint32_t n)
{
    const Expr *x = x_at(l->k, d->reduce[n]);
    int64_t lanes = d->lane != NONE ? d->width : l->plan.lane != NONE ? l->plan.width : 0;
    d->acc[n] = build_reg(&l->b, "acc", x->type == TY_INT ? EL_I64 : EL_F32, 0, (uint32_t)lanes);
}

ExprId lower_first_value(Lower *l, ExprId reduce, const Equation *onto)
{
    ExprId at[MAX_RANK];
    if (!onto)
        return lower_identity(l, reduce);
    for (uint32_t i = 0; i < onto->nindex; i++)
        at[i] = lower_expr(l, onto->index[i]);
    return x_load(l->k, x_at(l->k, reduce)->loc, onto->lhs, at);
}

/* An integer max or min without terms has no value. */
static void check_terms(Lower *l, const Domain *d, uint32_t n)
{
    Expr x = *x_at(l->k, d->reduce[n]);
    if (x.op == RED_SUM || x.type != TY_INT)
        return;
    Stmt s = tile_stmt(TILE_check, x.loc);
    s.value =
        x_op2(l->k, x.loc, OP_ne, x_load(l->k, x.loc, d->acc[n], NULL), lower_identity(l, d->reduce[n]));
    s.report = x_int(l->k, x.loc, 0);
    s.status = STATUS_RANGE;
    s.text = arena_printf(l->k->module->arena,
                          "%s: an integer %s over nothing has no value (%%lld terms, %%lld needed)",
                          l->k->name, x.op == RED_MAX ? "max" : "min");
    s.limit = x_int(l->k, x.loc, 1);
    build_put(&l->b, s);
}

/* What stands for the reduction from now on. */
static void finish(Lower *l, const Domain *d)
{
    for (uint32_t n = 0; n < d->n; n++) {
        Loc loc = x_at(l->k, d->reduce[n])->loc;
        ReduceKind kind = (ReduceKind)x_at(l->k, d->reduce[n])->op;
        ExprId value = x_load(l->k, loc, d->acc[n], NULL);
        if (d->lane != NONE)
            value = x_lanes(l->k, loc, kind, value);
        vec_push(l->k->module->arena, &l->done, (Done){d->reduce[n], value, d->guard != NONE});
    }
}

static void report_plain(Lower *l, const Domain *d)
{
    const char *why = d->guard != NONE      ? "it is computed under a condition"
                      : l->plan.row == NONE ? "no two left-hand indices vary with one operand each"
                                            : "it stands inside another sum, or runs over a bucket";
    for (uint32_t n = 0; n < d->n; n++)
        lower_report(l, &(Product){.reduce = d->reduce[n]}, why);
}

static void emit_domain(Lower *l, Domain *d, const Equation *onto)
{
    uint32_t depth = l->b.depth;
    report_plain(l, d);
    for (uint32_t n = 0; n < d->n; n++) {
        declare(l, d, n);
        ExprId first = lower_first_value(l, d->reduce[n], onto);
        build_store(&l->b, x_at(l->k, d->reduce[n])->loc, d->acc[n], NULL, first, 0);
    }
    if (d->guard != NONE) {
        ExprId guard = lower_expr(l, d->guard);
        build_if(&l->b, x_at(l->k, d->reduce[0])->loc, guard);
    }
    uint32_t scope = l->scope;
    l->scope = l->done.len;
    lower_walk(l, lower_walk_from(d));
    l->scope = scope;
    for (uint32_t n = 0; n < d->n; n++)
        check_terms(l, d, n);
    build_close(&l->b, depth);
    finish(l, d);
}

/* Same indices, same condition, same lanes. */
int lower_joins(Lower *l, const Domain *d, ExprId reduce)
{
    Kernel *k = l->k;
    if (x_at(k, reduce)->nbound != d->nbound || x_condition(k, reduce) != x_condition(k, d->reduce[0]))
        return 0;
    for (uint32_t i = 0; i < d->nbound; i++)
        if (x_bound(k, reduce, i) != d->bound[i])
            return 0;
    return l->plan.lane != NONE || lower_reduce_lane(l, reduce) == d->lane;
}

/* `reduce` over the indices of `leader`, or itself when the axes or the conditions differ. */
static ExprId over_indices_of(Lower *l, ExprId reduce, ExprId leader)
{
    Kernel *k = l->k;
    IndexId old[UINT8_MAX], bound[UINT8_MAX];
    ExprId fresh[UINT8_MAX], cond = x_condition(k, reduce);
    uint32_t n = x_at(k, reduce)->nbound;
    if (n != x_at(k, leader)->nbound)
        return reduce;
    for (uint32_t i = 0; i < n; i++) {
        old[i] = x_bound(k, reduce, i);
        bound[i] = x_bound(k, leader, i);
        fresh[i] = x_index(k, (Loc){0}, bound[i]);
        if (k->indices.at[old[i]].axis.group != k->indices.at[bound[i]].axis.group ||
            !ext_same(k->module, lower_length(l, old[i]), lower_length(l, bound[i])))
            return reduce;
    }
    if (cond != NONE)
        cond = x_substitute(k, cond, old, fresh, n);
    if (cond != x_condition(k, leader))
        return reduce;
    Expr x = *x_at(k, reduce);
    ExprId body = x_substitute(k, x_arg(k, reduce, 0), old, fresh, n);
    return x_reduce(k, x.loc, (ReduceKind)x.op, bound, n, body, cond);
}

typedef struct Unified {
    Lower *l;
    ExprId from[REDUCE_MAX], to[REDUCE_MAX];
    uint32_t n;
} Unified;

static ExprId put_unified(Kernel *k, ExprId e, void *user)
{
    const Unified *u = user;
    (void)k;
    for (uint32_t i = 0; i < u->n; i++)
        if (u->from[i] == e)
            return u->to[i];
    return e;
}

void lower_unify(Lower *l, Members *m)
{
    Unified u = {.l = l};
    for (uint32_t q = 0; q < m->n; q++) {
        uint32_t found = query_reductions(l->k, m->at[q].rhs, u.from + u.n, REDUCE_MAX - u.n);
        if (found > REDUCE_MAX - u.n)
            return;
        u.n += found;
    }
    for (uint32_t i = 0; i < u.n; i++) {
        u.to[i] = u.from[i];
        for (uint32_t j = 0; j < i && u.to[i] == u.from[i]; j++)
            u.to[i] = over_indices_of(l, u.from[i], u.to[j]);
    }
    for (uint32_t q = 0; q < m->n; q++)
        m->at[q].rhs = x_rewrite(l->k, m->at[q].rhs, put_unified, &u);
}

void lower_open_domain(Lower *l, Domain *d, ExprId reduce, ExprId guard)
{
    Kernel *k = l->k;
    *d = (Domain){.n = 1, .guard = guard, .lane = NONE};
    d->reduce[0] = reduce;
    d->body[0] = x_arg(k, reduce, 0);
    d->nbound = x_at(k, reduce)->nbound;
    if (d->nbound > MAX_RANK * 2)
        BUG(k->module->arena, "lower: a reduction of kernel %s runs over %u indices", k->name, d->nbound);
    for (uint32_t i = 0; i < d->nbound; i++)
        d->bound[i] = x_bound(k, reduce, i);
    d->nconjunct = x_conjuncts(k, x_condition(k, reduce), d->conjunct, CONJUNCT_MAX);
    d->unrolled = l->plan.rows > 1;
    if (l->plan.lane == NONE) {
        d->lane = lower_reduce_lane(l, reduce);
        d->width = (int64_t)l->cpu->lanes * SUM_VECTORS;
    }
}

/* ---- where a reduction is wanted ---- */

typedef struct Wanted {
    ExprId reduce, guard;
} Wanted;

typedef Vec(Wanted) WantedList;

enum { WAYS_MAX = 20 };

/* The ways to a node, each with its condition (NONE: always); a way that another one covers is left out. */
typedef struct Guard {
    Vec(ExprId) ways;
} Guard;

/* Guards grow to the right, so what a guard was made from stands on its left spine. */
static int narrows(const Kernel *k, ExprId when, ExprId from)
{
    while (when != from && x_is_op(k, when, OP_and))
        when = x_arg(k, when, 0);
    return when == from;
}

static int covers(const Kernel *k, ExprId way, ExprId other)
{
    return way == NONE || (other != NONE && narrows(k, other, way));
}

static void meet(Lower *l, Guard *g, ExprId way)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->ways.len; i++)
        if (covers(l->k, g->ways.at[i], way))
            return;
    for (uint32_t i = 0; i < g->ways.len; i++)
        if (!covers(l->k, way, g->ways.at[i]))
            g->ways.at[kept++] = g->ways.at[i];
    g->ways.len = kept;
    vec_push(l->k->module->arena, &g->ways, way);
}

static ExprId any_way(Lower *l, const Guard *g)
{
    ExprId when = g->ways.at[0];
    for (uint32_t i = 1; i < g->ways.len; i++)
        when = x_op2(l->k, (Loc){0}, OP_or, when, g->ways.at[i]);
    return when;
}

static void join_ways(Lower *l, Guard *g)
{
    ExprId when = any_way(l, g);
    g->ways.len = 0;
    meet(l, g, when);
}

/* Where argument a of e is evaluated at all: a side of `if`, what stands behind `and` or `or`. */
static ExprId side_guard(Lower *l, ExprId e, uint32_t a, ExprId guard)
{
    Kernel *k = l->k;
    int choice = x_at(k, e)->kind == X_IF, either = x_is_op(k, e, OP_or);
    if (a == 0 || !(choice || either || x_is_op(k, e, OP_and)))
        return guard;
    ExprId first = x_arg(k, e, 0);
    return x_and(k, (Loc){0}, guard, either || a == 2 ? x_op1(k, (Loc){0}, OP_not, first) : first);
}

/* A value that was computed under a condition says nothing inside another reduction, where the condition was not
 * asked for. */
static int is_done(const Lower *l, ExprId reduce)
{
    for (uint32_t i = 0; i < l->done.len; i++)
        if (l->done.at[i].reduce == reduce && (i >= l->scope || !l->done.at[i].guarded))
            return 1;
    return 0;
}

/* The condition `when` of e, without e. Where the condition asks for e, another way has asked for it already, so that the
 * value does not matter; else it is not looked at. */
static ExprId without(Lower *l, ExprId when, ExprId e)
{
    Kernel *k = l->k;
    if (when == NONE || !x_contains(k, when, e))
        return when;
    if (checks_inside(k, e))
        return NONE;
    Loc loc = x_at(k, e)->loc;
    return x_replace(k, when, e, x_at(k, e)->type == TY_INT ? x_int(k, loc, 0) : x_float(k, loc, 0));
}

/* The maximal reductions below root that are still to be done, each with the condition under which its value is
 * asked for. Nodes go from the root down, so a node's ways are known before they are handed on. */
static WantedList wanted(Lower *l, ExprId root)
{
    Kernel *k = l->k;
    Arena *arena = k->module->arena;
    Nodes below = x_below(k, root, X_REDUCE);
    ExprMap place = x_map(k, below.n);
    uint8_t *has = arena_alloc(arena, below.n);
    Guard *guard = arena_array(arena, Guard, below.n);
    WantedList found = {0};
    for (uint32_t i = 0; i < below.n; i++) {
        *x_map_at(&place, below.at[i]) = i;
        int leaf = x_at(k, below.at[i])->kind == X_REDUCE;
        has[i] = leaf && !is_done(l, below.at[i]);
        for (uint32_t a = 0; !leaf && a < x_at(k, below.at[i])->nargs; a++)
            has[i] |= has[x_map_get(&place, x_arg(k, below.at[i], a))];
    }
    meet(l, &guard[below.n - 1], NONE);
    for (uint32_t i = below.n; i-- > 0;) {
        ExprId e = below.at[i];
        if (!has[i])
            continue;
        if (guard[i].ways.len > WAYS_MAX)
            join_ways(l, &guard[i]);
        if (x_at(k, e)->kind == X_REDUCE) {
            ExprId when = without(l, any_way(l, &guard[i]), e);
            vec_push(arena, &found, (Wanted){e, when});
            continue;
        }
        for (uint32_t a = 0; a < x_at(k, e)->nargs; a++)
            for (uint32_t w = 0; has[x_map_get(&place, x_arg(k, e, a))] && w < guard[i].ways.len; w++)
                meet(l, &guard[x_map_get(&place, x_arg(k, e, a))], side_guard(l, e, a, guard[i].ways.at[w]));
    }
    return found;
}

/* One float sum without sums inside, by loops that know their bounds before they open. */
static int is_product(Lower *l, ExprId e)
{
    const Kernel *k = l->k;
    uint32_t n = x_at(k, e)->nbound;
    if (x_at(k, e)->op != RED_SUM || x_at(k, e)->type == TY_INT || query_has_reduce(k, x_arg(k, e, 0)) ||
        query_has_reduce(k, x_condition(k, e)) || query_is_bucketed(k, e))
        return 0;
    for (uint32_t b = 0; b + 1 < n; b++)
        if (k->indices.at[x_bound(k, e, b)].axis.group != NONE)
            return 0;
    if (k->indices.at[x_bound(k, e, n - 1)].axis.group == NONE)
        return 1;
    Domain *d = arena_new_of(k->module->arena, Domain);
    lower_open_domain(l, d, e, NONE);
    Walk w = lower_walk_from(d);
    uint32_t conjunct;
    return lower_run_group(l, &w, x_bound(k, e, n - 1), &conjunct) != NONE;
}

uint32_t lower_products(Lower *l, ExprId e, ExprId *out, uint32_t max)
{
    WantedList found = wanted(l, e);
    uint32_t n = 0;
    for (uint32_t i = found.len; i-- > 0 && n < max;)
        if (found.at[i].guard == NONE && is_product(l, found.at[i].reduce))
            out[n++] = found.at[i].reduce;
    return n;
}

int lower_chains(Lower *l, const Equation *q)
{
    const Expr *x = x_at(l->k, q->rhs);
    return q->kind == EQ_ADD && l->k->tensors.at[q->lhs].elem == EL_F32 && x->kind == X_REDUCE &&
           x->op == RED_SUM && x->type != TY_INT &&
           (l->plan.lane != NONE || lower_reduce_lane(l, q->rhs) == NONE);
}

/* What one expression asks for, and how far each reduction is: its guard's reductions come before it. */
typedef struct Order {
    WantedList found;
    enum { WAITS, OPEN, MADE } * state;
    const Equation *onto;
} Order;

static uint32_t place_of(const Order *o, ExprId reduce)
{
    uint32_t i = 0;
    while (i < o->found.len && o->found.at[i].reduce != reduce)
        i++;
    return i;
}

/* The error ends the compilation; until then the sum is one without condition. */
static void refuse_circle(const Lower *l, ExprId reduce)
{
    diag_add(l->k->module->diags, DIAG_sum_circle, x_at(l->k, reduce)->loc, "give one of them a name",
             "in kernel %s, whether this reduction is computed depends on one that depends on this one",
             l->k->name);
}

static void make(Lower *l, Order *o, uint32_t i)
{
    ExprId reds[REDUCE_MAX], guard = o->found.at[i].guard;
    if (o->state[i] != WAITS)
        return;
    o->state[i] = OPEN;
    uint32_t n = guard == NONE ? 0 : query_reductions(l->k, guard, reds, REDUCE_MAX);
    for (uint32_t r = 0; r < n && r < REDUCE_MAX; r++) {
        uint32_t before = place_of(o, reds[r]);
        if (before < o->found.len && o->state[before] == OPEN) {
            refuse_circle(l, o->found.at[i].reduce);
            guard = NONE;
            break;
        }
        if (before < o->found.len)
            make(l, o, before);
    }
    Domain *d = arena_new_of(l->k->module->arena, Domain);
    lower_open_domain(l, d, o->found.at[i].reduce, guard);
    o->state[i] = MADE;
    for (uint32_t j = o->found.len; j-- > 0 && d->n < REDUCE_MAX;) {
        ExprId other = o->found.at[j].reduce;
        if (o->state[j] != WAITS || o->found.at[j].guard != guard || !lower_joins(l, d, other))
            continue;
        d->reduce[d->n] = other;
        d->body[d->n++] = x_arg(l->k, other, 0);
        o->state[j] = MADE;
    }
    emit_domain(l, d, o->onto);
}

void lower_sums(Lower *l, ExprId e, const Equation *onto)
{
    Order o = {.found = wanted(l, e), .onto = onto};
    o.state = arena_alloc(l->k->module->arena, sizeof *o.state * o.found.len);
    for (uint32_t i = o.found.len; i-- > 0;)
        make(l, &o, i);
}

ExprId lower_value(Lower *l, ExprId e)
{
    uint32_t mark = l->done.len;
    lower_sums(l, e, NULL);
    ExprId value = lower_expr(l, e);
    l->done.len = mark;
    return value;
}
