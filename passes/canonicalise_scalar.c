/* canonicalise: scalar operations. */
#include "passes/canonicalise.h"

#include <math.h>

static Type type_of(const Kernel *k, ExprId e) { return (Type)x_at(k, e)->type; }

static int is_float(const Kernel *k, ExprId e, double value)
{
    return x_at(k, e)->kind == X_FLOAT && x_at(k, e)->value.f == value;
}

int canon_is_zero(const Kernel *k, ExprId e) { return is_float(k, e, 0) || x_is_int(k, e, 0); }

/* ---- integers ---- */

static int fold_integers(ScalarOp op, int64_t a, int64_t b, int64_t *out)
{
    if (op == OP_add)
        return !__builtin_add_overflow(a, b, out);
    if (op == OP_sub || op == OP_neg)
        return !__builtin_sub_overflow(op == OP_neg ? 0 : a, op == OP_neg ? a : b, out);
    if (op == OP_mul)
        return !__builtin_mul_overflow(a, b, out);
    if (op != OP_max2 && op != OP_min2)
        return 0;
    *out = (a > b) == (op == OP_max2) ? a : b;
    return 1;
}

/* Non-negative: the text form writes a negative integer as a negation, so -3 stays neg(3). */
static int integer_value(const Kernel *k, ExprId e, int64_t *value)
{
    if (x_is_op(k, e, OP_neg) && x_at(k, x_arg(k, e, 0))->kind == X_INT) {
        *value = -x_at(k, x_arg(k, e, 0))->value.i;
        return 1;
    }
    *value = x_at(k, e)->value.i;
    return x_at(k, e)->kind == X_INT;
}

static ExprId integer_constant(Kernel *k, Loc loc, int64_t value)
{
    return value < 0 ? x_op1(k, loc, OP_neg, x_int(k, loc, -value)) : x_int(k, loc, value);
}

static ExprId integer_identity(Kernel *k, ExprId e, ScalarOp op, ExprId a, ExprId b)
{
    if ((op == OP_add || op == OP_sub) && x_is_int(k, b, 0))
        return a;
    if (op == OP_add && x_is_int(k, a, 0))
        return b;
    if (op == OP_mul && x_is_int(k, b, 1))
        return a;
    if (op == OP_mul && x_is_int(k, a, 1))
        return b;
    if (op == OP_sub && a == b)
        return x_int(k, x_at(k, e)->loc, 0);
    return e;
}

/* x + c + d, x + c - d and so on: the constants meet. */
static ExprId join_constants(Kernel *k, ExprId e, ScalarOp op, ExprId a, int64_t c)
{
    int64_t inner, sum;
    if ((!x_is_op(k, a, OP_add) && !x_is_op(k, a, OP_sub)) || !integer_value(k, x_arg(k, a, 1), &inner) ||
        inner < 0)
        return e;
    Loc loc = x_at(k, e)->loc;
    if (x_is_op(k, a, OP_sub))
        inner = -inner;
    if (op == OP_add ? __builtin_add_overflow(inner, c, &sum) : __builtin_sub_overflow(inner, c, &sum))
        return e;
    ExprId x = x_arg(k, a, 0);
    if (sum == 0)
        return x;
    return sum < 0 ? x_op2(k, loc, OP_sub, x, x_int(k, loc, -sum))
                   : x_op2(k, loc, OP_add, x, x_int(k, loc, sum));
}

static ExprId canon_integer(Kernel *k, ExprId e)
{
    ScalarOp op = (ScalarOp)x_at(k, e)->op;
    ExprId a = x_arg(k, e, 0), b = x_at(k, e)->nargs > 1 ? x_arg(k, e, 1) : a;
    int64_t va, vb, folded;
    int ca = integer_value(k, a, &va), cb = integer_value(k, b, &vb);
    if (ca && cb && !(op == OP_neg && va > 0) && fold_integers(op, va, vb, &folded) && folded != INT64_MIN)
        return integer_constant(k, x_at(k, e)->loc, folded);
    if (op == OP_neg && x_is_op(k, a, OP_neg))
        return x_arg(k, a, 0);
    ExprId same = integer_identity(k, e, op, a, b);
    if (same != e || !cb || (op != OP_add && op != OP_sub))
        return same;
    return join_constants(k, e, op, a, vb);
}

/* ---- floats ---- */

/* Exact in f32, in double arithmetic too: nothing is rounded by folding. By 0 it is infinity or NaN, for which there is no literal. */
static ExprId fold_floats(Kernel *k, ExprId e)
{
    ScalarOp op = (ScalarOp)x_at(k, e)->op;
    double v[2] = {0, 0}, result;
    for (uint32_t i = 0; i < x_at(k, e)->nargs; i++) {
        const Expr *x = x_at(k, x_arg(k, e, i));
        if (x->kind != X_FLOAT && x->kind != X_INT)
            return e;
        v[i] = x->kind == X_FLOAT ? x->value.f : (double)x->value.i;
        if ((double)(float)v[i] != v[i])
            return e;
    }
    if (op == OP_add)
        result = v[0] + v[1];
    else if (op == OP_sub)
        result = v[0] - v[1];
    else if (op == OP_mul)
        result = v[0] * v[1];
    else if (op == OP_div && v[1] != 0 && v[0] / v[1] * v[1] == v[0])
        result = v[0] / v[1];
    else if (op == OP_div && v[1] == 0 && v[0] >= 0)
        return x_float(k, x_at(k, e)->loc, v[0] > 0 ? (double)INFINITY : (double)NAN);
    else
        return e;
    int exact = (double)(float)result == result && isfinite(result) && result > 0;
    return exact ? x_float(k, x_at(k, e)->loc, result) : e;
}

/* (-a) * b and (-a) / b to -(a * b): a sign costs no rounding wherever it stands. */
static ExprId sign_out(Kernel *k, ExprId e, ScalarOp op, ExprId a, ExprId b)
{
    Loc loc = x_at(k, e)->loc;
    if (x_is_op(k, a, OP_neg))
        return x_op1(k, loc, OP_neg, x_op2(k, loc, op, x_arg(k, a, 0), b));
    if (x_is_op(k, b, OP_neg))
        return x_op1(k, loc, OP_neg, x_op2(k, loc, op, a, x_arg(k, b, 0)));
    return e;
}

static int is_one(const Kernel *k, ExprId e) { return is_float(k, e, 1) || x_is_int(k, e, 1); }

static ExprId canon_product(Kernel *k, ExprId e, ScalarOp op, ExprId a, ExprId b)
{
    if (is_one(k, b))
        return x_as(k, a, TY_F32);
    if (op == OP_mul && is_one(k, a))
        return x_as(k, b, TY_F32);
    return sign_out(k, e, op, a, b);
}

static int is_negated_float(const Kernel *k, ExprId e)
{
    return x_is_op(k, e, OP_neg) && type_is_float(type_of(k, e));
}

static ExprId canon_sum(Kernel *k, ExprId e, ExprId a, ExprId b)
{
    Loc loc = x_at(k, e)->loc;
    if (a == b)
        return x_op2(k, loc, OP_mul, x_float(k, loc, 2), a);
    if (is_negated_float(k, b))
        return x_op2(k, loc, OP_sub, a, x_arg(k, b, 0));
    if (is_negated_float(k, a))
        return x_op2(k, loc, OP_sub, b, x_arg(k, a, 0));
    return e;
}

static ExprId canon_difference(Kernel *k, ExprId e, ExprId a, ExprId b)
{
    Loc loc = x_at(k, e)->loc;
    if (x_is_op(k, b, OP_neg))
        return x_op2(k, loc, OP_add, a, x_arg(k, b, 0));
    if (x_is_op(k, a, OP_neg) && x_arg(k, a, 0) == b)
        return x_op1(k, loc, OP_neg, x_op2(k, loc, OP_mul, x_float(k, loc, 2), b));
    return canon_is_zero(k, b) ? x_as(k, a, TY_F32) : e;
}

static ExprId canon_float(Kernel *k, ExprId e)
{
    ScalarOp op = (ScalarOp)x_at(k, e)->op;
    ExprId a = x_arg(k, e, 0), b = x_at(k, e)->nargs > 1 ? x_arg(k, e, 1) : a;
    ExprId folded = fold_floats(k, e);
    if (folded != e)
        return folded;
    if (op == OP_mul || op == OP_div)
        return canon_product(k, e, op, a, b);
    if (op == OP_add)
        return canon_sum(k, e, a, b);
    if (op == OP_sub)
        return canon_difference(k, e, a, b);
    return op == OP_neg && x_is_op(k, a, OP_neg) ? x_as(k, x_arg(k, a, 0), TY_F32) : e;
}

/* ---- casts and logic ---- */

static ExprId canon_cast(Kernel *k, ExprId e)
{
    ScalarOp op = (ScalarOp)x_at(k, e)->op;
    ExprId a = x_arg(k, e, 0);
    Type to = type_of(k, e);
    if (op == OP_i32)
        return e; /* saturates, also an integer */
    if (type_of(k, a) == to)
        return a;
    if (x_is_op(k, a, OP_f32) && type_of(k, x_arg(k, a, 0)) == to)
        return x_arg(k, a, 0);
    if (op == OP_f32 && x_at(k, a)->kind == X_INT &&
        (double)(float)x_at(k, a)->value.i == (double)x_at(k, a)->value.i)
        return x_float(k, x_at(k, e)->loc, (double)x_at(k, a)->value.i);
    return e;
}

/* Only comparisons of integers turn around: not(a < b) holds for a NaN. */
static ExprId canon_not(Kernel *k, ExprId e)
{
    ExprId a = x_arg(k, e, 0);
    if (x_is_op(k, a, OP_not))
        return x_arg(k, a, 0);
    if (x_at(k, a)->kind != X_OP || op_negated((ScalarOp)x_at(k, a)->op) == OP_COUNT)
        return e;
    ExprId l = x_arg(k, a, 0), r = x_arg(k, a, 1);
    if (type_of(k, l) != TY_INT || type_of(k, r) != TY_INT)
        return e;
    return x_op2(k, x_at(k, e)->loc, op_negated((ScalarOp)x_at(k, a)->op), l, r);
}

ExprId canon_op(Kernel *k, ExprId e)
{
    ScalarOp op = (ScalarOp)x_at(k, e)->op;
    switch (scalar_table[op].kind) {
    case SK_ARITH: return type_of(k, e) == TY_INT ? canon_integer(k, e) : canon_float(k, e);
    case SK_FLOAT: return canon_float(k, e);
    case SK_CAST: return canon_cast(k, e);
    case SK_LOGIC: return op == OP_not ? canon_not(k, e) : e;
    case SK_INDEX: return canon_quotient(k, e);
    case SK_COMPARE:
    case SK_SAME: break;
    }
    return e;
}
