/* canonicalise: reductions. Conditions and factors that are free of the reduced indices go outside. */
#include "passes/canonicalise.h"

#include <string.h>

static Reduction reduction_of(Kernel *k, ExprId e)
{
    Reduction r = {.loc = x_at(k, e)->loc, .kind = (ReduceKind)x_at(k, e)->op, .nbound = x_at(k, e)->nbound};
    for (uint32_t i = 0; i < r.nbound; i++)
        r.bound[i] = x_bound(k, e, i);
    r.body = x_arg(k, e, 0);
    r.where = canon_conjuncts(k, x_condition(k, e), r.body);
    return r;
}

static int is_free(const Kernel *k, const Reduction *r, ExprId e)
{
    return !x_uses_any(k, e, r->bound, r->nbound);
}

static ExprId zero(Kernel *k, Loc loc, Type type)
{
    return type == TY_INT ? x_int(k, loc, 0) : x_float(k, loc, 0);
}

/* ---- conditions ---- */

/* sum(i where c) if(d, v, 0) is sum(i where c and d) v. */
static int body_guard(Kernel *k, Reduction *r)
{
    if (r->kind != RED_SUM || x_at(k, r->body)->kind != X_IF || !canon_is_zero(k, x_arg(k, r->body, 2)) ||
        !canon_may_join(k, &r->where, x_arg(k, r->body, 0)))
        return 0;
    ExprId where = canon_and(k, r->loc, r->where.list, r->where.n);
    ExprId term = x_arg(k, r->body, 1);
    r->where = canon_conjuncts(k, x_and(k, r->loc, where, x_arg(k, r->body, 0)), term);
    r->body = term;
    return 1;
}

/* Takes conditions free of the bound indices out, unless one that stays may guard what they load. */
static ExprId take_free_conditions(Kernel *k, Reduction *r)
{
    ExprId outside = NONE;
    Conjuncts inside = {.n = 0, .never = r->where.never};
    for (uint32_t i = 0; i < r->where.n; i++) {
        ExprId c = r->where.list[i];
        if (is_free(k, r, c) && (inside.n == 0 || !x_loads_any(k, c)))
            outside = x_and(k, r->loc, outside, c);
        else
            inside.list[inside.n++] = c;
    }
    r->where = inside;
    return outside;
}

/* ---- factors ---- */

typedef struct CanonFactors {
    const Reduction *r;
    ExprId list[CONJUNCTS_MAX];
    int divides[CONJUNCTS_MAX];
    uint32_t n;
    int negative;
} CanonFactors;

static int is_inside(Kernel *k, ExprId load)
{
    Expr x = *x_at(k, load);
    for (uint32_t a = 0; a < x.nargs; a++)
        if (ir_prove_range(k, x_arg(k, load, a), k->tensors.at[x.sym].axes[a], NONE) != PROOF_INSIDE)
            return 0;
    return 1;
}

/* An access may leave the conditions of its sum only when it is inside without them. */
static int may_leave(Kernel *k, const Reduction *r, ExprId e)
{
    if (r->where.n == 0)
        return 1;
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_LOAD && !is_inside(k, *n))
            return 0;
    return 1;
}

static int takes(Kernel *k, CanonFactors *f, ExprId e, int divides)
{
    if (f->n == CONJUNCTS_MAX || !is_free(k, f->r, e) || !may_leave(k, f->r, e))
        return 0;
    f->list[f->n] = e;
    f->divides[f->n++] = divides;
    return 1;
}

/* The term without its free factors and divisors, which go to f; NONE: nothing is left of it. */
static ExprId strip(Kernel *k, CanonFactors *f, ExprId e)
{
    Loc loc = x_at(k, e)->loc;
    int is_product = type_is_float((Type)x_at(k, e)->type);
    if (is_product && x_is_op(k, e, OP_neg)) {
        f->negative = !f->negative;
        return strip(k, f, x_arg(k, e, 0));
    }
    if (is_product && (x_is_op(k, e, OP_mul) || x_is_op(k, e, OP_div))) {
        ExprId a = x_arg(k, e, 0), b = x_arg(k, e, 1);
        int divides = x_is_op(k, e, OP_div);
        ExprId left = strip(k, f, a);
        ExprId right = divides ? takes(k, f, b, 1) ? (ExprId)NONE : b : strip(k, f, b);
        if (left == a && right == b)
            return e;
        if (right == NONE)
            return left;
        if (left == NONE && !divides)
            return right;
        return x_op2(k, loc, divides ? OP_div : OP_mul, left == NONE ? x_float(k, loc, 1) : left, right);
    }
    return x_at(k, e)->kind == X_FLOAT && x_at(k, e)->value.f == 1 ? e : takes(k, f, e, 0) ? (ExprId)NONE : e;
}

static ExprId build(Kernel *k, const Reduction *r)
{
    ExprId where = canon_and(k, r->loc, r->where.list, r->where.n);
    return x_reduce(k, r->loc, r->kind, r->bound, r->nbound, r->body, where);
}

static ExprId with_factors_outside(Kernel *k, Reduction *r)
{
    CanonFactors f = {.r = r};
    if (r->kind != RED_SUM || !type_is_float((Type)x_at(k, r->body)->type) ||
        x_factors(k, r->body) == FACTORS_MANY)
        return build(k, r);
    ExprId rest = strip(k, &f, r->body);
    if (f.n == 0 && !f.negative)
        return build(k, r);
    r->body = rest == NONE ? x_float(k, r->loc, 1) : rest;
    ExprId e = build(k, r);
    for (uint32_t i = 0; i < f.n; i++)
        e = x_op2(k, r->loc, f.divides[i] ? OP_div : OP_mul, e, f.list[i]);
    return f.negative ? x_op1(k, r->loc, OP_neg, e) : e;
}

/* A sum does not look at some of its indices: as many equal terms as they have values. Rows are counted, not
 * known. */
static ExprId take_idle_indices(Kernel *k, Reduction *r)
{
    Extent times = NONE;
    uint32_t kept = 0;
    ExprId where = canon_and(k, r->loc, r->where.list, r->where.n);
    for (uint32_t i = 0; i < r->nbound; i++) {
        Axis axis = k->indices.at[r->bound[i]].axis;
        if (axis.group != NONE || x_uses_index(k, r->body, r->bound[i]) ||
            x_uses_index(k, where, r->bound[i]))
            r->bound[kept++] = r->bound[i];
        else
            times = times == NONE ? axis.extent : ext_mul(k->module, times, axis.extent);
    }
    r->nbound = kept;
    return times == NONE ? (ExprId)NONE : x_extent(k, r->loc, times);
}

/* Loads of the term that walk along memory when this index moves. */
static uint32_t along(const Kernel *k, ExprId e, IndexId i)
{
    uint32_t n = 0;
    each_below (x, k, e, X_LOAD) {
        uint32_t rank = x_at(k, *x)->nargs;
        if (x_at(k, *x)->kind != X_LOAD || rank == 0)
            continue;
        const Expr *last = x_at(k, x_arg(k, *x, rank - 1));
        n += last->kind == X_INDEX && last->sym == i;
    }
    return n;
}

/* Is c a comparison of numbers of indices, some of them from outside: a bound of what it says of the others? */
static int is_bound(const Kernel *k, const Reduction *r, ExprId c)
{
    int outside = 0;
    if (!x_is_op(k, c, OP_lt) && !x_is_op(k, c, OP_le) && !x_is_op(k, c, OP_gt) && !x_is_op(k, c, OP_ge))
        return 0;
    each_below (n, k, c, EVERYWHERE) {
        ExprKind kind = (ExprKind)x_at(k, *n)->kind;
        if (kind != X_INDEX && kind != X_INT && kind != X_EXTENT && kind != X_OP)
            return 0;
        outside |= kind == X_INDEX && is_free(k, r, *n);
    }
    return outside;
}

static int is_bounded(const Kernel *k, const Reduction *r, IndexId i)
{
    for (uint32_t c = 0; c < r->where.n; c++)
        if (x_uses_index(k, r->where.list[c], i) && is_bound(k, r, r->where.list[c]))
            return 1;
    return 0;
}

/* Is i a better last index than j? The innermost loop, from which block products take their terms, is one whose terms are bounded
 * by an index outside, as in a causal mask; of a sum without conditions the one that walks along most operands: over neighbours. */
static int is_better_last(const Kernel *k, const Reduction *r, IndexId i, IndexId j)
{
    int bounded = is_bounded(k, r, i) - is_bounded(k, r, j);
    return bounded ? bounded > 0 : !r->where.n && along(k, r->body, i) > along(k, r->body, j);
}

/* Of the indices of a float sum. */
static void order_indices(const Kernel *k, Reduction *r)
{
    uint32_t best = r->nbound - 1;
    if (!type_is_float((Type)x_at(k, r->body)->type))
        return;
    for (uint32_t i = 0; i < r->nbound; i++)
        if (k->indices.at[r->bound[i]].axis.group != NONE)
            return;
    for (uint32_t i = 0; i < r->nbound; i++)
        if (is_better_last(k, r, r->bound[i], r->bound[best]))
            best = i;
    IndexId last = r->bound[best];
    memmove(&r->bound[best], &r->bound[best + 1], sizeof *r->bound * (r->nbound - 1 - best));
    r->bound[r->nbound - 1] = last;
}

/* ---- the reduction ---- */

ExprId canon_reduce(Kernel *k, ExprId e)
{
    Reduction r = reduction_of(k, e);
    Type type = (Type)x_at(k, e)->type;
    while (body_guard(k, &r) || canon_route_inverse(k, &r) || canon_solve(k, &r) ||
           canon_solve_quotient(k, &r))
        ;
    if (r.kind != RED_SUM)
        return x_as(k, build(k, &r), type);
    if (r.where.never)
        return x_as(k, zero(k, r.loc, type), type);
    ExprId times = take_idle_indices(k, &r);
    ExprId outside = take_free_conditions(k, &r);
    if (r.nbound)
        order_indices(k, &r);
    ExprId value = r.nbound ? with_factors_outside(k, &r) : r.body;
    if (times != NONE)
        value = x_op2(k, r.loc, OP_mul, value, x_as(k, times, type));
    if (outside != NONE)
        value = x_if(k, r.loc, outside, value, zero(k, r.loc, type));
    return x_as(k, value, type);
}
