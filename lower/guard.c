/* Where the reductions of an expression are asked for: the condition under which each has a value. */
#include "lower/lower.h"

enum { WAYS_MAX = 20 };

/* The ways to a node, each with its condition (NONE: always); a way that another one covers is left out. */
typedef struct Guard {
    Vec(ExprId) ways;
} Guard;

enum { COMPARED_MAX = 12 };

/* The conjuncts of a condition; 0: too many to compare them one by one. */
static uint32_t few_conjuncts(const Kernel *k, ExprId when, ExprId out[COMPARED_MAX])
{
    ExprId left[COMPARED_MAX + 1] = {when};
    uint32_t n = 0, waiting = 1;
    while (waiting && n < COMPARED_MAX) {
        ExprId e = left[--waiting];
        if (!x_is_op(k, e, OP_and)) {
            out[n++] = e;
        } else if (n + waiting + 2 <= COMPARED_MAX) {
            left[waiting++] = x_arg(k, e, 1);
            left[waiting++] = x_arg(k, e, 0);
        } else {
            return 0;
        }
    }
    return waiting ? 0 : n;
}

static int has_all_conjuncts(const Kernel *k, ExprId when, ExprId from)
{
    ExprId all[COMPARED_MAX], some[COMPARED_MAX];
    uint32_t nall = few_conjuncts(k, when, all), nsome = few_conjuncts(k, from, some);
    for (uint32_t i = 0; i < nsome; i++)
        if (!x_is_among(all, nall, some[i]))
            return 0;
    return nsome > 0;
}

/* Does `when` hold only where `from` does? Guards grow to the right, so what a guard was made from stands on its left spine; one
 * that another way leads to may have the same conjuncts in another order. */
static int narrows(const Kernel *k, ExprId when, ExprId from)
{
    ExprId spine = when;
    while (spine != from && x_is_op(k, spine, OP_and))
        spine = x_arg(k, spine, 0);
    return spine == from || has_all_conjuncts(k, when, from);
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
    for (uint32_t i = 0; i < l->env.done.len; i++)
        if (l->env.done.at[i].reduce == reduce && (i >= l->env.scope || !l->env.done.at[i].guarded))
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

/* Nodes go from the root down, so a node's ways are known before they are handed on. */
WantedList lower_wanted(Lower *l, ExprId root)
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
static int is_product(Lower *l, IndexId lane, ExprId e)
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
    Walk w = lower_walk_from(lower_domain(l, e));
    uint32_t conjunct;
    return lower_run_group(l, lane, &w, x_bound(k, e, n - 1), &conjunct) != NONE;
}

int lower_is_anywhere(Lower *l, const Wanted *w)
{
    return w->guard == NONE || checks_inside(l->k, w->reduce);
}

uint32_t lower_products(Lower *l, IndexId lane, ExprId e, ExprId *out, uint32_t max)
{
    WantedList found = lower_wanted(l, e);
    uint32_t n = 0;
    for (uint32_t i = found.len; i-- > 0 && n < max;)
        if (lower_is_anywhere(l, &found.at[i]) && is_product(l, lane, found.at[i].reduce))
            out[n++] = found.at[i].reduce;
    return n;
}

void lower_take_guards(Lower *l, Members *m)
{
    Kernel *k = l->k;
    for (uint32_t q = 0; !pass_traits(l->c)->packs_all && q < m->n; q++) {
        WantedList found = lower_wanted(l, m->at[q].rhs);
        for (uint32_t i = 0; i < found.len; i++) {
            const Wanted *w = &found.at[i];
            if (lower_is_anywhere(l, w) || query_has_reduce(k, w->guard) || !is_product(l, NONE, w->reduce))
                continue;
            ExprId condition = x_and(k, (Loc){0}, w->guard, x_condition(k, w->reduce));
            ExprId own = x_reduce_with(k, w->reduce, x_arg(k, w->reduce, 0), condition);
            if (checks_inside(k, own))
                m->at[q].rhs = x_replace(k, m->at[q].rhs, w->reduce, own);
        }
    }
}
