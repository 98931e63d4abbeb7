/* How errors go through scalar operations; see Note [Running error] in eval.h. */
#include "ir/eval.h"

#include <math.h>
#include <string.h>

double eval_distance(double x, double y) { return x == y ? 0 : fabs(x - y); }

double eval_rounded_error(Elem e, double v, double error)
{
    double at = elem_round(e, v);
    if (error == 0 || isnan(at))
        return 0;
    return fmax(eval_distance(elem_round(e, v + error), at), eval_distance(elem_round(e, v - error), at));
}

static double apply(ScalarOp op, double a, double b)
{
    return eval_hooks[op](EVAL_EXACT, 0, (Number){.f = a}, (Number){.f = b}).f;
}

/* The error that both ends of the argument's interval give to a monotone function. */
static double ends(ScalarOp op, Value a, double least)
{
    double at = apply(op, a.n.f, 0), low = a.n.f - a.error, high = a.n.f + a.error;
    if (low < least)
        low = least;
    return fmax(eval_distance(apply(op, low, 0), at), eval_distance(apply(op, high, 0), at));
}

/* silu and gelu fall, then rise: `slope` bounds their derivative around the turn. */
static double ends_around(ScalarOp op, Value a, double turn, double slope)
{
    if (a.n.f - a.error > turn + 0.05 || a.n.f + a.error < turn - 0.05)
        return ends(op, a, -INFINITY);
    return slope * a.error;
}

static double corners(ScalarOp op, Value a, Value b)
{
    double at = apply(op, a.n.f, b.n.f), worst = 0;
    for (int corner = 0; corner < 4; corner++) {
        double x = fmax(0, a.n.f + (corner & 1 ? a.error : -a.error));
        double y = b.n.f + (corner & 2 ? b.error : -b.error);
        worst = fmax(worst, eval_distance(apply(op, x, y), at));
    }
    return worst;
}

static double quotient(Value a, Value b, double r)
{
    double least = fabs(b.n.f) - b.error;
    if (a.error == 0 && b.error == 0)
        return 0;
    return least > 0 ? (a.error + fabs(r) * b.error) / least : INFINITY;
}

/* What the operands' errors become. */
static double passed_on(ScalarOp op, Value a, Value b, double exact)
{
    switch (op) {
    case OP_add:
    case OP_sub: return a.error + b.error;
    case OP_mul: return fabs(a.n.f) * b.error + fabs(b.n.f) * a.error + a.error * b.error;
    case OP_div: return quotient(a, b, exact);
    case OP_max2:
    case OP_min2: return fmax(a.error, b.error);
    case OP_neg:
    case OP_abs:
    case OP_relu:
    case OP_f32:
    case OP_stop:
    case OP_shift: return a.error;
    case OP_bf16: return eval_rounded_error(EL_BF16, a.n.f, a.error);
    case OP_f16: return eval_rounded_error(EL_F16, a.n.f, a.error);
    case OP_exp:
    case OP_log:
    case OP_sqrt:
    case OP_rsqrt: return ends(op, a, op == OP_exp ? -INFINITY : 0);
    case OP_tanh:
    case OP_sigmoid:
    case OP_floor: return ends(op, a, -INFINITY);
    case OP_silu: return ends_around(op, a, -1.2785, 1.1);
    case OP_gelu: return ends_around(op, a, -0.752, 1.13);
    case OP_pow: return corners(op, a, b);
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge:
    case OP_eq:
    case OP_ne:
    case OP_and:
    case OP_or:
    case OP_not:
    case OP_i32:
    case OP_idiv:
    case OP_imod:
    case OP_COUNT: break;
    }
    return a.error + b.error;
}

/* The distance between neighbours in f32 around a finite value. */
static double ulp_at(double value)
{
    uint64_t bits;
    double power; /* of two, the largest one that is not above the value */
    memcpy(&bits, &value, sizeof bits);
    bits &= 0x7ff0000000000000u;
    memcpy(&power, &bits, sizeof power);
    return fmax(power, 0x1p-126) * 0x1p-23;
}

/* What the operation adds: the error that its row states, and the reference's own rounding. Of equal operands both sides
 * of an exact or correctly rounded operation find the same, but where a result is inexact a sum may apply it to its terms
 * on one side and to its total on the other (language page, section 5: free factors). */
static double own_error(ScalarOp op, int inexact, double exact, double result)
{
    const ScalarRow *row = &scalar_table[op];
    if (row->kind == SK_CAST || row->ulp == 0 || (row->ulp == 0.5 && !inexact))
        return 0;
    if (!isfinite(result))
        return row->ulp > 0.5 && isfinite(exact) ? INFINITY : 0;
    return (row->ulp + 0.5) * ulp_at(result);
}

double eval_error_again(ScalarOp op, double result)
{
    if (!isfinite(result) || scalar_table[op].kind == SK_COMPARE)
        return 0;
    if (op == OP_bf16) /* one unit in the last place; subnormal numbers may become 0 */
        return fabs(result) * 0x1p-7 + 0x1p-126;
    if (op == OP_f16)
        return fabs(result) * 0x1p-10 + 0x1p-24;
    double flushed = op == OP_exp ? 0x1p-126 : 0; /* what is smaller becomes 0 before it is moved */
    return own_error(op, 1, result, result) + flushed;
}

/* A NaN is in doubt when an operand is, and when it arises here from operands that need not be what they are. */
static double nan_error(Value a, Value b)
{
    int came_in = isnan(a.n.f) || isnan(b.n.f);
    double error = fmax(a.error, b.error);
    return error == INFINITY || (error > 0 && !came_in) ? INFINITY : 0;
}

double eval_error(ScalarOp op, Value a, Value b, double exact, double result)
{
    if (isnan(result))
        return nan_error(a, b);
    double in = a.error > 0 || b.error > 0 ? passed_on(op, a, b, exact) : 0;
    double own = own_error(op, exact != result || in > 0, exact, result);
    return isnan(in) ? INFINITY : in + own;
}

int eval_compare_doubtful(ScalarOp op, Value a, Value b)
{
    double error = a.error + b.error;
    if (error == 0)
        return 0;
    if ((op == OP_eq || op == OP_ne) && a.n.f == b.n.f)
        return 0; /* computed alike: another implementation finds them equal as well */
    return !(eval_distance(a.n.f, b.n.f) > error);
}
