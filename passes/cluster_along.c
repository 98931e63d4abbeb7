/* Row-block groups: what a pass over the columns of a row does on its way.
 *
 * Note [Along]. Between two products of attention each score is looked at several times: it is scaled, compared, shifted,
 * exponentiated, added up and packed. Each time it comes from the second cache and goes back there, which takes longer than
 * the arithmetic. Three rewritings leave two passes over the columns of a row, one up to the maximum and one behind it. No
 * value changes.
 *   bare sums   s = sum * c where c does not vary with the column: the tensor holds the sum, and its readers multiply.
 *   along       e = f(s), whose elements the reduction of the next member passes (z = sum(j where ...) e[i, j]) between
 *               bounds, and no reader asks for others: the reduction computes each element, and e is stored on its way (Equation.along).
 *   narrowed    such an e whose readers all round it to bf16 (or f16) is kept in that type.
 *
 * before:  s = (sum(d) q * k) * c    m = max(j) s    e = exp(s - m)          z = sum(j) e               bf16(e) * v
 * after:   s = sum(d) q * k          m = max(j) s*c  eh = bf16(exp(s*c - m)) z = sum(j) exp(s*c - m)    eh * v */
#include "passes/cluster_rowblock.h"

#include "passes/query.h"

typedef struct Along {
    Kernel *k;
    uint32_t cluster;
} Along;

static const Cluster *cluster_of(const Along *a) { return &a->k->clusters.at[a->cluster]; }

static int is_member(const Along *a, uint32_t at)
{
    return at < a->k->eqs.len && a->k->eqs.at[at].cluster == a->cluster;
}

/* Does e vary with the group's outer variables and row at most? */
static int is_of_row(const Along *a, ExprId e)
{
    const Cluster *c = cluster_of(a);
    each_below (n, a->k, e, EVERYWHERE) {
        const Expr *x = x_at(a->k, *n);
        int known = x->kind == X_INDEX && x->sym == c->row;
        for (uint32_t o = 0; o < c->nouter; o++)
            known |= x->kind == X_INDEX && x->sym == c->outer[o];
        if (x->kind == X_REDUCE || (x->kind == X_INDEX && !known) ||
            (x->kind == X_LOAD && a->k->tensors.at[x->sym].role != ROLE_IN))
            return 0;
    }
    return 1;
}

/* Is the load of t at the group's own row? */
static int is_own_row(const Along *a, ExprId load)
{
    const Cluster *c = cluster_of(a);
    for (uint32_t o = 0; o < c->nouter; o++)
        if (x_plain_index(a->k, x_arg(a->k, load, o)) != c->outer[o])
            return 0;
    return x_plain_index(a->k, x_arg(a->k, load, c->nouter)) == c->row;
}

/* A matrix of f32 that the threads keep: the rows of a block, and columns of which this is the variable; else NONE. */
static IndexId column_of(const Along *a, uint32_t at)
{
    const Kernel *k = a->k;
    const Equation *q = &k->eqs.at[at];
    uint32_t last = cluster_of(a)->nouter + 1u;
    if (!is_member(a, at) || q->kind != EQ_ASSIGN || q->nindex != last + 1 ||
        k->tensors.at[q->lhs].placed != a->cluster + 1 || k->tensors.at[q->lhs].elem == EL_I32)
        return NONE;
    return x_plain_index(k, q->index[last]);
}

/* ---- bare sums ---- */

/* The factor that is left to the readers; NONE: the right-hand side is no such product. */
static ExprId scale_of(const Along *a, ExprId rhs, ExprId *sum)
{
    for (uint32_t n = 0; x_is_op(a->k, rhs, OP_mul) && n < 2; n++) {
        *sum = x_arg(a->k, rhs, n);
        if (rowblock_is_product(a->k, *sum) && is_of_row(a, x_arg(a->k, rhs, 1 - n)))
            return x_arg(a->k, rhs, 1 - n);
    }
    return NONE;
}

/* Readers multiply where they look at one row: not where a product packs the tensor as it is. */
static int may_scale(const Along *a, const Equation *q, TensorId t)
{
    if (q->rhs == NONE)
        return 1;
    each_below (n, a->k, q->rhs, EVERYWHERE) {
        const Expr *x = x_at(a->k, *n);
        if ((x->kind == X_LOAD && x->sym == t && !is_own_row(a, *n)) ||
            (x->kind == X_REDUCE && rowblock_is_product(a->k, *n) && x_loads(a->k, *n, t)))
            return 0;
    }
    return 1;
}

typedef struct Scaled {
    TensorId tensor;
    ExprId by;
} Scaled;

static ExprId scale_load(Kernel *k, ExprId e, void *user)
{
    const Scaled *s = user;
    const Expr *x = x_at(k, e);
    return x->kind == X_LOAD && x->sym == s->tensor ? x_op2(k, x->loc, OP_mul, e, s->by) : e;
}

static void leave_bare(const Along *a, uint32_t at)
{
    Kernel *k = a->k;
    ExprId sum;
    Scaled s = {.tensor = k->eqs.at[at].lhs};
    if (column_of(a, at) == NONE || k->tensors.at[s.tensor].elem != EL_F32)
        return;
    s.by = scale_of(a, k->eqs.at[at].rhs, &sum);
    for (uint32_t i = 0; s.by != NONE && i < k->eqs.len; i++)
        if (!may_scale(a, &k->eqs.at[i], s.tensor))
            return;
    if (s.by == NONE)
        return;
    k->eqs.at[at].rhs = sum;
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (is_member(a, i))
            k->eqs.at[i].rhs = x_rewrite(k, k->eqs.at[i].rhs, scale_load, &s);
}

/* ---- along ---- */

/* The reduction of the next member that passes the elements of q, whose column is `column`; NONE: none does. */
static ExprId passing(const Along *a, uint32_t at, IndexId column)
{
    Kernel *k = a->k;
    const Equation *z = &k->eqs.at[at + 1];
    ExprId reduce;
    if (!is_member(a, at + 1) || z->kind != EQ_ASSIGN || z->nindex != cluster_of(a)->nouter + 1 ||
        query_on_left(k, z, cluster_of(a)->row) < 0 || query_reductions(k, z->rhs, &reduce, 1) != 1)
        return NONE;
    const Expr *x = x_at(k, reduce);
    if (x->nbound != 1 || x->type == TY_INT || query_has_reduce(k, x_arg(k, reduce, 0)) ||
        !query_is_sure(k, z->rhs, reduce) ||
        !axis_same(k->module, k->indices.at[x_bound(k, reduce, 0)].axis, k->indices.at[column].axis))
        return NONE;
    return reduce;
}

/* Does a load that uses the column have it as its last subscript, and nowhere else? */
static int lies_by_column(const Kernel *k, ExprId load, IndexId column)
{
    uint32_t n = x_at(k, load)->nargs;
    for (uint32_t a = 0; a + 1 < n; a++)
        if (x_uses_index(k, x_arg(k, load, a), column))
            return 0;
    return !n || !x_uses_index(k, load, column) || x_plain_index(k, x_arg(k, load, n - 1)) == column;
}

/* Is e computed a row at a time, with lanes over its columns? What lies in memory by columns decides that; without such a tensor
 * lanes may go over the rows. */
static int has_lanes(const Along *a, ExprId e, IndexId column)
{
    const Kernel *k = a->k;
    int by_column = 0;
    if (query_has_reduce(k, e))
        return 0;
    each_below (n, k, e, EVERYWHERE) {
        const Expr *x = x_at(k, *n);
        if (x->kind == X_LOAD && !lies_by_column(k, *n, column))
            return 0;
        by_column |= x->kind == X_LOAD && x->nargs && x_uses_index(k, *n, column);
        if (x->kind == X_TOKEN || x->kind == X_SLOT || x->kind == X_ROW || x->kind == X_GROUP)
            return 0;
    }
    return by_column;
}

/* Does the reduction pass all elements of t that are read? */
static int passes_all(const Along *a, ExprId condition, TensorId t)
{
    return query_is_implied(a->k, condition, cluster_needed(a->k, t));
}

/* Is it a bound of a loop over the column? */
static int is_bound(Kernel *k, ExprId e, IndexId column)
{
    ScalarOp op;
    ExprId end;
    int64_t each;
    Affine form;
    return query_solve(k, e, column, &each, &op, &end) && each == 1 && op != OP_eq && x_affine(k, end, &form);
}

/* Under other conditions an element is stored or not as its values say, and nothing proves that what is read was stored. */
static int are_bounds(Kernel *k, ExprId condition, IndexId column)
{
    ExprId each[CONJUNCT_MAX];
    const uint32_t n = condition == NONE ? 0 : x_conjuncts(k, condition, each, CONJUNCT_MAX);
    for (uint32_t i = 0; i < n; i++)
        if (!is_bound(k, each[i], column))
            return 0;
    return 1;
}

static int is_all_own(const Along *a, ExprId e, TensorId t)
{
    each_below (n, a->k, e, EVERYWHERE)
        if (x_at(a->k, *n)->kind == X_LOAD && x_at(a->k, *n)->sym == t && !is_own_row(a, *n))
            return 0;
    return 1;
}

typedef struct Defined {
    TensorId tensor;
    ExprId value;
} Defined;

static ExprId put_value(Kernel *k, ExprId e, void *user)
{
    const Defined *d = user;
    return x_at(k, e)->kind == X_LOAD && x_at(k, e)->sym == d->tensor ? d->value : e;
}

/* The reduction of the next member computes the elements of this one. */
static int store_along(const Along *a, uint32_t at)
{
    Kernel *k = a->k;
    IndexId column = column_of(a, at);
    ExprId reduce = column == NONE ? (ExprId)NONE : passing(a, at, column);
    const Equation q = k->eqs.at[at];
    if (reduce == NONE || !has_lanes(a, q.rhs, column))
        return 0;
    IndexId bound = x_bound(k, reduce, 0);
    ExprId here = x_index(k, q.loc, column), there = x_index(k, q.loc, bound);
    ExprId condition = x_condition(k, reduce), body = x_arg(k, reduce, 0);
    if (condition != NONE)
        condition = x_substitute(k, condition, &bound, &here, 1);
    ExprId value = x_substitute(k, q.rhs, &column, &there, 1);
    ScalarOp cast; /* to the type in which it is stored */
    int loads = x_loads(k, body, q.lhs);
    if ((loads ? !is_all_own(a, body, q.lhs) || k->tensors.at[q.lhs].elem != EL_F32
               : !x_contains(k, body, x_unrounded(k, value, &cast))) ||
        !has_lanes(a, x_substitute(k, body, &bound, &here, 1), column) || !passes_all(a, condition, q.lhs) ||
        !are_bounds(k, condition, column))
        return 0;
    k->eqs.at[at + 1].rhs = x_rewrite(k, k->eqs.at[at + 1].rhs, put_value, &(Defined){q.lhs, value});
    k->eqs.at[at].along = 1;
    return 1;
}

/* ---- narrowed ---- */

/* The cast around every load of t; OP_COUNT: there is none, or they differ. */
static ScalarOp cast_of(const Along *a, TensorId t)
{
    const Kernel *k = a->k;
    ScalarOp all = OP_COUNT;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        if (!is_member(a, i))
            continue;
        each_below (n, k, k->eqs.at[i].rhs, EVERYWHERE)
            for (uint32_t arg = 0; arg < x_at(k, *n)->nargs; arg++) {
                const Expr *load = x_at(k, x_arg(k, *n, arg));
                if (load->kind != X_LOAD || load->sym != t)
                    continue;
                ScalarOp cast;
                x_unrounded(k, *n, &cast);
                if (cast == OP_COUNT || (all != OP_COUNT && all != cast))
                    return OP_COUNT;
                all = cast;
            }
    }
    return all;
}

typedef struct Narrowing {
    TensorId from, to;
    ScalarOp cast;
} Narrowing;

static ExprId narrow_load(Kernel *k, ExprId e, void *user)
{
    const Narrowing *r = user;
    ExprId subscripts[MAX_RANK];
    if (!x_is_op(k, e, r->cast) || x_at(k, x_arg(k, e, 0))->kind != X_LOAD ||
        x_at(k, x_arg(k, e, 0))->sym != r->from)
        return e;
    ExprId load = x_arg(k, e, 0);
    for (uint32_t i = 0; i < x_at(k, load)->nargs; i++)
        subscripts[i] = x_arg(k, load, i);
    return x_load(k, x_at(k, load)->loc, r->to, subscripts);
}

static void narrow(const Along *a, uint32_t at)
{
    Kernel *k = a->k;
    Narrowing r = {.from = k->eqs.at[at].lhs};
    r.cast = cast_of(a, r.from);
    if (r.cast == OP_COUNT || k->tensors.at[r.from].elem != EL_F32)
        return;
    Tensor t = k->tensors.at[r.from];
    t.elem = r.cast == OP_bf16 ? EL_BF16 : EL_F16;
    t.name = ir_fresh_name(k, arena_printf(k->module->arena, "%s_%s", t.name, elem_name(t.elem)));
    r.to = ir_tensor(k, t);
    k->tensors.at[r.from].placed = 0;
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (is_member(a, i))
            k->eqs.at[i].rhs = x_rewrite(k, k->eqs.at[i].rhs, narrow_load, &r);
    k->eqs.at[at].lhs = r.to;
    k->eqs.at[at].rhs = x_op1(k, k->eqs.at[at].loc, r.cast, k->eqs.at[at].rhs);
}

void cluster_along(Kernel *k, const PassContext *c, uint32_t cluster)
{
    Along a = {k, cluster};
    if (pass_traits(c)->long_vectors)
        return;
    ArenaMark mark = arena_mark(k->module->scratch);
    for (uint32_t at = 0; at < k->eqs.len; at++)
        leave_bare(&a, at);
    for (uint32_t at = 0; at + 1 < k->eqs.len; at++)
        if (store_along(&a, at))
            narrow(&a, at);
    arena_release(k->module->scratch, mark);
}
