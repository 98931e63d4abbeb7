/* classify: names what each equation is, from its index pattern alone.
 *
 * requires: canonical equations     gives: Equation.class_
 * before:  d_w[e, h, f] += sum(r where @r == e) x[r, h] * d[r, f]
 * after:   the same, known as gmm_add
 *
 * Reports and schedules speak of these classes; no pass decides correctness by them. */
#include "passes/lower.h"

/* Which route maps stand in subscripts below e? Bits by ExprKind. */
static uint32_t maps_below(const Kernel *k, ExprId e)
{
    uint32_t maps = 0;
    each_below (n, k, e, EVERYWHERE)
        maps |= 1u << x_at(k, *n)->kind;
    return maps;
}

static int has(uint32_t maps, ExprKind kind) { return maps >> kind & 1; }

/* A sum of a product of two or more loads, none of which varies with everything: each is read again and again. */
static int is_product(const Kernel *k, const Equation *q, ExprId sum)
{
    ExprId body = x_arg(k, sum, 0);
    if (x_at(k, sum)->op != RED_SUM || !x_is_op(k, body, OP_mul))
        return 0;
    uint32_t partial = 0;
    each_below (n, k, body, EVERYWHERE) {
        int all = 1;
        if (x_at(k, *n)->kind != X_LOAD || x_at(k, *n)->type == TY_INT)
            continue;
        for (uint32_t i = 0; i < q->nindex; i++)
            if (x_at(k, q->index[i])->kind == X_INDEX)
                all &= lower_varies(k, *n, x_at(k, q->index[i])->sym);
        partial += !all;
    }
    return partial >= 2;
}

static int runs_over_group(const Kernel *k, ExprId sum)
{
    ExprId parts[CONJUNCT_MAX];
    uint32_t n = x_conjuncts(k, x_condition(k, sum), parts, CONJUNCT_MAX);
    for (uint32_t c = 0; c < n; c++)
        if (x_is_op(k, parts[c], OP_eq) && has(maps_below(k, parts[c]), X_GROUP))
            return 1;
    return 0;
}

static EqClass class_of(const Kernel *k, const Equation *q)
{
    ExprId sum;
    if (q->kind == EQ_TOP || q->kind == EQ_ROUTE || q->kind == EQ_CHECK)
        return q->kind == EQ_TOP ? CLASS_TOP : q->kind == EQ_ROUTE ? CLASS_ROUTE : CLASS_CHECK;
    uint32_t maps = maps_below(k, q->rhs);
    if (lower_reductions(k, q->rhs, &sum, 1) == 0)
        return has(maps, X_TOKEN) ? CLASS_PERMUTE : CLASS_POINTWISE;
    if (runs_over_group(k, sum))
        return q->kind == EQ_ADD ? CLASS_GMM_ADD : CLASS_GMM;
    if (lower_is_bucketed(k, sum))
        return CLASS_BUCKET;
    if (has(maps, X_ROW))
        return CLASS_UNPERMUTE;
    if (is_product(k, q, sum))
        return has(maps, X_GROUP) ? CLASS_GMM : CLASS_MATMUL;
    return CLASS_REDUCE;
}

void pass_classify(Module *m, const PassContext *c)
{
    (void)c;
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        Kernel *k = m->kernels.at[i];
        for (uint32_t n = 0; n < k->eqs.len; n++)
            k->eqs.at[n].class_ = class_of(k, &k->eqs.at[n]);
    }
}
