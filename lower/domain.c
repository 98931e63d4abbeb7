/* Domains: reductions that share a loop nest (Note [Domains] in reduce.c), and the index over which its lanes run. */
#include "lower/lower.h"

void lower_tally(Kernel *k, ExprId e, IndexId i, Tally *t)
{
    each_below (n, k, e, X_LOAD) {
        ExprKind kind = (ExprKind)x_at(k, *n)->kind;
        if (kind == X_LOAD) {
            Stride stride = query_stride(k, *n, i);
            t->none += stride == STRIDE_NONE;
            t->one += stride == STRIDE_ONE;
            t->far += stride == STRIDE_FAR;
        } else if (kind == X_TOKEN || kind == X_SLOT || kind == X_ROW) {
            t->far += (uint32_t)query_varies(k, *n, i);
        }
    }
}

IndexId lower_reduce_lane(Lower *l, ExprId reduce)
{
    Kernel *k = l->k;
    if (query_has_reduce(k, x_arg(k, reduce, 0)) || x_at(k, reduce)->type == TY_INT)
        return NONE;
    if (query_has_reduce(k, x_condition(k, reduce)) || query_is_bucketed(k, reduce))
        return NONE;
    for (uint32_t b = x_at(k, reduce)->nbound; b-- > 0;) {
        Tally t = {0};
        lower_tally(k, x_arg(k, reduce, 0), x_bound(k, reduce, b), &t);
        if (t.one > 0 && t.far == 0 && !lower_is_below(l, x_bound(k, reduce, b), l->cpu->lanes))
            return x_bound(k, reduce, b);
    }
    return NONE;
}

/* 1 / sqrt of an extent: positive, and infinite only where the extent is 0. */
static int is_scale(const Kernel *k, ExprId e)
{
    return x_is_op(k, e, OP_rsqrt) && x_at(k, x_arg(k, e, 0))->kind == X_EXTENT;
}

/* What multiplies every term of a maximum is positive and multiplies the maximum instead: products round monotonically,
 * so these are the same bits. */
void lower_domain_add(Lower *l, Domain *d, ExprId reduce)
{
    Kernel *k = l->k;
    ExprId body = x_arg(k, reduce, 0), factor = NONE;
    int extreme = x_at(k, reduce)->op != RED_SUM;
    if (extreme && x_is_op(k, body, OP_mul) && is_scale(k, x_arg(k, body, 1))) {
        factor = x_arg(k, body, 1);
        body = x_arg(k, body, 0);
    }
    d->reduce[d->n] = reduce;
    d->body[d->n] = body;
    d->factor[d->n++] = factor;
}

Domain *lower_domain(Lower *l, ExprId reduce)
{
    Kernel *k = l->k;
    Domain *d = arena_new_of(k->module->arena, Domain);
    *d = (Domain){.guard = NONE, .lane = NONE};
    lower_domain_add(l, d, reduce);
    d->nbound = x_at(k, reduce)->nbound;
    if (d->nbound > MAX_RANK * 2)
        BUG(k->module->arena, "lower: a reduction of kernel %s runs over %u indices", k->name, d->nbound);
    for (uint32_t i = 0; i < d->nbound; i++)
        d->bound[i] = x_bound(k, reduce, i);
    d->nconjunct = x_conjuncts(k, x_condition(k, reduce), d->conjunct, CONJUNCT_MAX);
    return d;
}

Domain *lower_open_domain(Lower *l, const Item *it, ExprId reduce, ExprId guard)
{
    Domain *d = lower_domain(l, reduce);
    d->guard = guard;
    d->unrolled = it->unroll > 1;
    if (it->by->lane == NONE) {
        d->lane = lower_reduce_lane(l, reduce);
        d->width = (int64_t)l->cpu->lanes * SUM_VECTORS;
    }
    return d;
}

/* Same indices, same condition, same lanes. */
int lower_joins(Lower *l, const Item *it, const Domain *d, ExprId reduce)
{
    Kernel *k = l->k;
    if (x_at(k, reduce)->nbound != d->nbound || x_condition(k, reduce) != x_condition(k, d->reduce[0]))
        return 0;
    for (uint32_t i = 0; i < d->nbound; i++)
        if (x_bound(k, reduce, i) != d->bound[i])
            return 0;
    return it->by->lane != NONE || lower_reduce_lane(l, reduce) == d->lane;
}

/* ---- reductions over equal indices ---- */

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
