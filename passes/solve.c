/* What a comparison says of an index: bounds of loops, and what follows from row to row, are read off it. */
#include "passes/query.h"

/* The affine form without index i, times sign, as an expression. */
static ExprId rest_of(Kernel *k, const Affine *a, IndexId i, int64_t sign)
{
    Module *m = k->module;
    Extent s = ext_const(m, sign);
    ExprId sum = x_extent(k, (Loc){0}, ext_mul(m, a->constant, s));
    for (uint32_t n = 0; n < a->n; n++) {
        if (a->index[n] == i)
            continue;
        ExprId coef = x_extent(k, (Loc){0}, ext_mul(m, a->coef[n], s));
        sum = x_op2(k, (Loc){0}, OP_add, sum,
                    x_op2(k, (Loc){0}, OP_mul, coef, x_index(k, (Loc){0}, a->index[n])));
    }
    return sum;
}

int query_solve(Kernel *k, ExprId c, IndexId i, int64_t *each, ScalarOp *op, ExprId *other)
{
    const Expr *x = x_at(k, c);
    if (x->kind != X_OP || (x->op != OP_eq && op_turned((ScalarOp)x->op) == (ScalarOp)x->op))
        return 0;
    *each = 1;
    *op = (ScalarOp)x->op;
    ExprId a = x_arg(k, c, 0), b = x_arg(k, c, 1);
    for (int side = 0; side < 2; side++, *op = op_turned(*op)) {
        ExprId one = side ? b : a, two = side ? a : b;
        if (x_at(k, one)->kind == X_INDEX && x_at(k, one)->sym == i && !x_uses_index(k, two, i)) {
            *other = two;
            return 1;
        }
    }
    Affine form;
    int64_t coef;
    if (x_at(k, a)->type != TY_INT || x_at(k, b)->type != TY_INT ||
        !x_affine(k, x_op2(k, (Loc){0}, OP_sub, a, b), &form))
        return 0;
    for (uint32_t n = 0; n < form.n; n++)
        if (form.index[n] == i && ext_is_const(k->module, form.coef[n], &coef) && coef && coef > INT32_MIN &&
            coef <= INT32_MAX) {
            *each = coef > 0 ? coef : -coef;
            *op = coef > 0 ? *op : op_turned(*op);
            *other = rest_of(k, &form, i, coef > 0 ? -1 : 1);
            return 1;
        }
    return 0;
}
