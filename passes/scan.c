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
    Module *m = k->module;
    const Expr *x = x_at(k, c);
    Affine a;
    int64_t coef[2];
    if (x->kind != X_OP || x->nargs != 2 || x_at(k, x_arg(k, c, 0))->type != TY_INT)
        return 0;
    ScalarOp op = (ScalarOp)x->op;
    if ((op != OP_lt && op != OP_le && op != OP_gt && op != OP_ge) ||
        !x_affine(k, x_op2(k, (Loc){0}, OP_sub, x_arg(k, c, 0), x_arg(k, c, 1)), &a) || a.n != 2 ||
        !ext_is_const(m, a.constant, shift) || *shift < -INT32_MAX || *shift > INT32_MAX)
        return 0;
    for (uint32_t i = 0; i < 2; i++)
        if (!ext_is_const(m, a.coef[i], &coef[i]))
            return 0;
    uint32_t at = a.index[0] == j ? 0 : 1;
    if (a.index[at] != j || a.index[1 - at] != t || coef[0] != -coef[1] || (coef[at] != 1 && coef[at] != -1))
        return 0;
    int less = op == OP_lt || op == OP_le, equal = op == OP_le || op == OP_ge;
    *from = less == (coef[at] < 0); /* j - t + s < 0, or turned t - j + s < 0 */
    *shift = (coef[at] > 0 ? -*shift : *shift) + (equal != *from);
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
