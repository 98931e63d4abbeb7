/* Conditions of a sum of products that are no bounds.
 *
 * Note [Masked terms]. sum(j where j <= i and doc[j] == doc[i] and mask[j] > 0) e[i, j] * v[j, d] is a product of two matrices
 * but for what it asks of elements. Where that does not hold the left operand is 0, and the right one where it is told without the
 * row. So a term that is left out adds 0 * 0, or 0 * v[j, d], which is not 0 where v is infinite or NaN (language page, section 5).
 *   before:  sum(j where j <= i and doc[j] == doc[i] and mask[j] > 0) e[i, j] * v[j, d]
 *   after:   sum(j where j <= i) if(doc[j] == doc[i] and mask[j] > 0, e[i, j], 0) * if(mask[j] > 0, v[j, d], 0)
 * The blocks of a product may look at more terms than the other conditions leave, so these must not need them. */
#include "passes/passes.h"
#include "passes/query.h"
#include "lower/lower.h"

typedef struct Masking {
    Lower *l;
    const Blocking *by;
} Masking;

/* Does it look at an element that index i picks? */
static int looks_at(const Kernel *k, ExprId condition, IndexId i)
{
    each_below (n, k, condition, EVERYWHERE)
        if (x_at(k, *n)->kind == X_LOAD && query_varies(k, *n, i))
            return 1;
    return 0;
}

/* Are all rows of a block told the same, and that by a bound? */
static int is_bound(const Masking *m, ExprId reduce, ExprId condition)
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

static int is_mask(const Masking *m, ExprId reduce, ExprId condition)
{
    Kernel *k = m->l->k;
    return x_loads_any(k, condition) && !query_has_reduce(k, condition) &&
           !query_varies(k, condition, m->by->lane) && !is_bound(m, reduce, condition) &&
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

static ExprId mask_terms(Kernel *k, ExprId e, void *user)
{
    const Masking *m = user;
    const Expr x = *x_at(k, e);
    LowerProduct p;
    ExprId parts[CONJUNCT_MAX], left = NONE, right = NONE, rest = NONE;
    IndexId bound[UINT8_MAX];
    if (x.kind != X_REDUCE || x.op != RED_SUM || x.type == TY_INT || x_condition(k, e) == NONE ||
        !lower_factor(m->l, e, m->by->row, m->by->lane, &p))
        return e;
    for (uint32_t i = 0, n = x_conjuncts(k, x_condition(k, e), parts, CONJUNCT_MAX); i < n; i++) {
        int is_left = is_mask(m, e, parts[i]), is_right = is_left && !query_varies(k, parts[i], m->by->row);
        left = is_left ? x_and(k, x.loc, left, parts[i]) : left;
        right = is_right ? x_and(k, x.loc, right, parts[i]) : right;
        rest = is_left ? rest : x_and(k, x.loc, rest, parts[i]);
    }
    if (left == NONE ||
        (left != right && !checks_inside(k, masked(k, x_and(k, x.loc, rest, right), p.right))))
        return e; /* the right operand may be there only where the row's mask says so */
    for (uint32_t i = 0; i < x.nbound; i++)
        bound[i] = x_bound(k, e, i);
    ExprId body = x_op2(k, x.loc, OP_mul, masked(k, left, p.left), masked(k, right, p.right));
    return x_reduce(k, x.loc, RED_SUM, bound, x.nbound, body, rest);
}

void lower_mask_terms(Lower *l, Blocking *by)
{
    Masking m = {l, by};
    for (uint32_t q = 0; !pass_traits(l->c)->packs_all && q < by->m.n; q++)
        by->m.at[q].rhs = x_rewrite(l->k, by->m.at[q].rhs, mask_terms, &m);
}
