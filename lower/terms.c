/* How a sum of products goes over its terms before its operands are looked at: the last index, which slabs and panels go along, and
 * conditions that are no bounds of it.
 *
 * Note [Last index]. A panel of three terms is not worth packing. The last index of sum(c, r, s) x[b, c, i + r, j + s] * w[f, c, r, s],
 * where r and s are below 3, is therefore c.
 *
 * Note [Masked terms]. sum(j where j <= i and doc[j] == doc[i] and mask[j] > 0) e[i, j] * v[j, d] is a product of two matrices
 * but for what it asks of elements. Where that does not hold the left operand is 0, and the right one where it is told without the
 * row. So a term that is left out adds 0 * 0, or 0 * v[j, d], which is not 0 where v is infinite or NaN (language page, section 5).
 *   before:  sum(j where j <= i and doc[j] == doc[i] and mask[j] > 0) e[i, j] * v[j, d]
 *   after:   sum(j where j <= i) if(doc[j] == doc[i] and mask[j] > 0, e[i, j], 0) * if(mask[j] > 0, v[j, d], 0)
 * The blocks of a product may look at more terms than the other conditions leave, so these must not need them.
 * A condition of the row, or of the column, and an index before the last is such a mask, too, as where a convolution goes beyond the edge:
 *   before:  sum(s, c where j + s >= 1) x[j + s - 1, c] * w[s, c, f]
 *   after:   sum(s, c) if(j + s >= 1, x[j + s - 1, c], 0) * w[s, c, f] */
#include "passes/passes.h"
#include "passes/query.h"
#include "lower/lower.h"

typedef struct Arranged {
    Lower *l;
    const Blocking *by;
} Arranged;

/* Does it look at an element that index i picks? */
static int looks_at(const Kernel *k, ExprId condition, IndexId i)
{
    each_below (n, k, condition, EVERYWHERE)
        if (x_at(k, *n)->kind == X_LOAD && query_varies(k, *n, i))
            return 1;
    return 0;
}

/* Are all rows of a block told the same, and that by a bound? */
static int is_bound(const Arranged *m, ExprId reduce, ExprId condition)
{
    const Kernel *k = m->l->k;
    int varies = 0;
    if (x_is_op(k, condition, OP_or))
        return 0;
    for (uint32_t b = 0; b < x_at(k, reduce)->nbound; b++) {
        IndexId i = x_bound(k, reduce, b);
        if (looks_at(k, condition, i))
            return 0;
        varies |= query_varies(k, condition, i);
    }
    return varies && !looks_at(k, condition, m->by->row);
}

/* `id[t] == v`: a sum by keys takes its terms for each v from a list. */
static int is_key(const Kernel *k, ExprId condition)
{
    return x_is_op(k, condition, OP_eq) &&
           x_loads_any(k, x_arg(k, condition, 0)) != x_loads_any(k, x_arg(k, condition, 1)) &&
           (x_at(k, x_arg(k, condition, 0))->kind == X_INDEX ||
            x_at(k, x_arg(k, condition, 1))->kind == X_INDEX);
}

static IndexId last_index(const Kernel *k, ExprId reduce)
{
    return x_bound(k, reduce, x_at(k, reduce)->nbound - 1u);
}

/* Does it tell rows, or columns, by an index before the last, so that no bound of the last one says the same? */
static int is_of_outer(const Arranged *m, ExprId reduce, ExprId condition)
{
    const Kernel *k = m->l->k;
    return query_varies(k, condition, m->by->row) != query_varies(k, condition, m->by->lane) &&
           !query_varies(k, condition, last_index(k, reduce));
}

static int is_mask(const Arranged *m, ExprId reduce, ExprId condition)
{
    Kernel *k = m->l->k;
    if (query_has_reduce(k, condition))
        return 0;
    if (!x_loads_any(k, condition))
        return is_of_outer(m, reduce, condition);
    return !query_varies(k, condition, m->by->lane) && !is_bound(m, reduce, condition) &&
           !is_key(k, condition) && checks_inside(k, condition);
}

static ExprId masked(Kernel *k, ExprId mask, ExprId operand)
{
    Loc loc = x_at(k, operand)->loc;
    Type type = (Type)x_at(k, operand)->type;
    ExprId zero = x_float(k, loc, 0);
    if (mask == NONE)
        return operand;
    if (type == TY_BF16 || type == TY_F16)
        zero = x_op1(k, loc, type == TY_BF16 ? OP_bf16 : OP_f16, zero);
    return x_if(k, loc, mask, operand, zero);
}

/* Is the operand there wherever its own mask and the conditions that stay say so, whatever the other one's mask says? */
static int stands_without(Kernel *k, ExprId rest, ExprId mask, ExprId operand)
{
    return checks_inside(k, masked(k, x_and(k, x_at(k, operand)->loc, rest, mask), operand));
}

static ExprId mask_terms(Kernel *k, ExprId e, void *user)
{
    const Arranged *m = user;
    const Expr x = *x_at(k, e);
    LowerProduct p;
    ExprId parts[CONJUNCT_MAX], left = NONE, right = NONE, rest = NONE;
    if (x.kind != X_REDUCE || x.op != RED_SUM || x.type == TY_INT || x_condition(k, e) == NONE ||
        !lower_factor(m->l, e, m->by->row, m->by->lane, &p))
        return e;
    for (uint32_t i = 0, n = x_conjuncts(k, x_condition(k, e), parts, CONJUNCT_MAX); i < n; i++) {
        int is = is_mask(m, e, parts[i]);
        left = is && !query_varies(k, parts[i], m->by->lane) ? x_and(k, x.loc, left, parts[i]) : left;
        right = is && !query_varies(k, parts[i], m->by->row) ? x_and(k, x.loc, right, parts[i]) : right;
        rest = is ? rest : x_and(k, x.loc, rest, parts[i]);
    }
    if (rest == x_condition(k, e) || (left != right && (!stands_without(k, rest, left, p.left) ||
                                                        !stands_without(k, rest, right, p.right))))
        return e;
    ExprId body = x_op2(k, x.loc, OP_mul, masked(k, left, p.left), masked(k, right, p.right));
    return x_reduce_with(k, e, body, rest);
}

/* The index that goes last: the last one, unless it is short. Else of the others one along which memory is read, or any that is not short. */
static uint32_t place_of_last(Lower *l, ExprId reduce)
{
    Kernel *k = l->k;
    uint32_t n = x_at(k, reduce)->nbound, at = n - 1;
    if (!lower_is_below(l, x_bound(k, reduce, at), LAYOUT_EDGE))
        return at;
    for (uint32_t b = 0; b < n; b++) {
        Tally t = {0};
        lower_tally(k, x_arg(k, reduce, 0), x_bound(k, reduce, b), &t);
        if (!lower_is_below(l, x_bound(k, reduce, b), LAYOUT_EDGE) && (at == n - 1 || t.one > 0))
            at = b;
    }
    return at;
}

static ExprId order_terms(Kernel *k, ExprId e, void *user)
{
    const Arranged *m = user;
    const Expr x = *x_at(k, e);
    LowerProduct p;
    IndexId bound[UINT8_MAX];
    if (x.kind != X_REDUCE || x.op != RED_SUM || x.type == TY_INT ||
        !lower_factor(m->l, e, m->by->row, m->by->lane, &p))
        return e;
    uint32_t last = place_of_last(m->l, e), n = 0;
    for (uint32_t i = 0; i < x.nbound; i++)
        if (i != last)
            bound[n++] = x_bound(k, e, i);
    bound[n] = x_bound(k, e, last);
    return last == n ? e : x_reduce(k, x.loc, RED_SUM, bound, x.nbound, x_arg(k, e, 0), x_condition(k, e));
}

void lower_arrange_terms(Lower *l, Blocking *by)
{
    Arranged m = {l, by};
    for (uint32_t q = 0; q < by->m.n; q++) {
        by->m.at[q].rhs = x_rewrite(l->k, by->m.at[q].rhs, order_terms, &m);
        if (!pass_traits(l->c)->packs_all)
            by->m.at[q].rhs = x_rewrite(l->k, by->m.at[q].rhs, mask_terms, &m);
    }
}
