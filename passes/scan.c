/* Note [Scans]. The terms of y[t, d] = sum(j where j <= t) x[j, d] are those of the row before and one more. So the sum
 * can go on from row to row, and T rows cost T terms, not T * T / 2 (lower/scan.c). The same of max and min of floats, and
 * of what is behind t, `where j >= t`, as in gradients: then t goes down. Nothing but this one condition may vary with t. Where the
 * first row has several terms, as of `where j <= t + 2`, they are added before it.
 *
 * A row-block group would compute each of its rows anew, so that a scan is none of its members, unless its
 * values, which stand in memory then, take more than what it reads. */
#include "passes/query.h"

/* Is c of the form j < t + shift, or j >= t + shift (`from`)? */
static int follows(Kernel *k, ExprId c, IndexId j, IndexId t, int64_t *shift, int *from)
{
    ScalarOp op;
    ExprId end;
    Affine a;
    int64_t each, coef;
    if (!query_solve(k, c, j, &each, &op, &end) || each != 1 || op == OP_eq || !x_affine(k, end, &a) ||
        a.n != 1 || a.index[0] != t || !ext_is_const(k->module, a.coef[0], &coef) || coef != 1 ||
        !ext_is_const(k->module, a.constant, shift) || *shift < -INT32_MAX || *shift > INT32_MAX)
        return 0;
    *from = op == OP_gt || op == OP_ge;
    *shift += op == OP_gt || op == OP_le;
    return 1;
}

/* In each row just one term comes; more may come before the first row. */
static int steps(Kernel *k, ExprId reduce, ExprId c, IndexId t, ScanStep *out)
{
    for (out->bound = 0; out->bound < x_at(k, reduce)->nbound; out->bound++) {
        IndexId j = x_bound(k, reduce, out->bound);
        int64_t shift;
        if (k->indices.at[j].axis.group != NONE || !follows(k, c, j, t, &shift, &out->down))
            continue;
        out->first = out->down ? shift : shift - 1;
        out->has_all = ext_same(k->module, k->indices.at[t].axis.extent, k->indices.at[j].axis.extent);
        out->before = out->down ? out->first < 0 || !out->has_all : out->first > 0;
        return !out->before || !query_is_bucketed(k, reduce);
    }
    return 0;
}

int query_scan_step(Kernel *k, ExprId reduce, IndexId t, ScanStep *out)
{
    ExprId c[CONJUNCT_MAX];
    const Expr *x = x_at(k, reduce);
    if (x->type == TY_INT && x->op != RED_SUM)
        return 0; /* it must not be asked for where it has no terms */
    uint32_t found = 0, n = x_conjuncts(k, x_condition(k, reduce), c, CONJUNCT_MAX);
    if (k->indices.at[t].axis.group != NONE || n == CONJUNCT_MAX || x_uses_index(k, x_arg(k, reduce, 0), t))
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (x_uses_index(k, c[i], t)) {
            out->conjunct = i;
            found++;
        }
    return found == 1 && steps(k, reduce, c[out->conjunct], t, out);
}

int query_is_scan(Kernel *k, ExprId e, IndexId t, int *down)
{
    ExprId sums[REDUCE_MAX];
    uint32_t n = query_reductions(k, e, sums, REDUCE_MAX);
    ScanStep s;
    if (n > REDUCE_MAX)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!query_scan_step(k, sums[i], t, &s) || (i && s.down != *down) ||
            !(query_is_sure(k, e, sums[i]) || checks_inside(k, sums[i])))
            return 0;
        *down = s.down;
    }
    return n > 0;
}

IndexId query_scan_index(Kernel *k, const Equation *q)
{
    int down;
    if (!query_has_reduce(k, q->rhs))
        return NONE;
    for (uint32_t i = 0; i < q->nindex; i++) {
        IndexId t = x_plain_index(k, q->index[i]);
        if (t != NONE && query_is_scan(k, q->rhs, t, &down))
            return t;
    }
    return NONE;
}
