/* The scalar operations as the interpreter computes them: in double, rounded to f32 once (double rounding is
 * harmless for + - * / and sqrt of f32 operands). In EVAL_EXACT nothing is rounded. Integers wrap at 64 bits.
 */
#include "ir/eval.h"

#include <math.h>
#include <string.h>

const ScalarHook eval_hooks[OP_COUNT] = {
#define SCALAR(name, ...) eval_##name,
#include "ir/scalar.def"
};

/* ---- rounding ---- */

static double round_bf16(double value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(f))
        return NAN;
    bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000u;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static double round_f16(double value)
{
    double f = (double)(float)value;
    if (!isfinite(f) || f == 0)
        return f;
    int exponent;
    frexp(f, &exponent);
    int ulp = (exponent - 1 < -14 ? -14 : exponent - 1) - 10;
    double rounded = ldexp(nearbyint(ldexp(f, -ulp)), ulp);
    return fabs(rounded) > 65504 ? copysign(INFINITY, f) : rounded;
}

double elem_round(Elem e, double value)
{
    switch (e) {
    case EL_F32: return (double)(float)value;
    case EL_BF16: return round_bf16(value);
    case EL_F16: return round_f16(value);
    case EL_I32:
    case EL_I64:
    case EL_COUNT: break;
    }
    return value;
}

static double r32(EvalMode mode, double value) { return mode == EVAL_EXACT ? value : (double)(float)value; }

double eval_float_of_int(EvalMode mode, int64_t value)
{
    return mode == EVAL_EXACT ? (double)value : (double)(float)value;
}

static Number of_float(double f) { return (Number){.f = f}; }
static Number of_int(int64_t i) { return (Number){.i = i}; }

/* ---- arithmetic ---- */

#define MAYBE __attribute__((unused)) /* hooks share one signature */
#define HOOK(name) Number eval_##name(EvalMode mode MAYBE, int ints MAYBE, Number a, Number b MAYBE)

HOOK(add) { return ints ? of_int((int64_t)((uint64_t)a.i + (uint64_t)b.i)) : of_float(r32(mode, a.f + b.f)); }

HOOK(sub) { return ints ? of_int((int64_t)((uint64_t)a.i - (uint64_t)b.i)) : of_float(r32(mode, a.f - b.f)); }

HOOK(mul) { return ints ? of_int((int64_t)((uint64_t)a.i * (uint64_t)b.i)) : of_float(r32(mode, a.f * b.f)); }

HOOK(div) { return of_float(r32(mode, a.f / b.f)); }

HOOK(neg) { return ints ? of_int((int64_t)(0 - (uint64_t)a.i)) : of_float(-a.f); }

HOOK(abs)
{
    if (ints)
        return of_int(a.i < 0 ? (int64_t)(0 - (uint64_t)a.i) : a.i);
    return of_float(fabs(a.f));
}

HOOK(max2)
{
    if (ints)
        return a.i >= b.i ? a : b;
    return isnan(a.f) || isnan(b.f) ? of_float(NAN) : a.f >= b.f ? a : b;
}

HOOK(min2)
{
    if (ints)
        return a.i <= b.i ? a : b;
    return isnan(a.f) || isnan(b.f) ? of_float(NAN) : a.f <= b.f ? a : b;
}

static int64_t remainder_of(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }

/* Rounded down; a divisor below 1 counts as 1. */
HOOK(idiv) { return of_int(b.i > 1 ? a.i / b.i - (a.i % b.i < 0) : a.i); }

HOOK(imod) { return of_int(b.i > 1 ? remainder_of(a.i, b.i) : 0); }

/* ---- conditions ---- */

/* clang-format off */
#define COMPARE(name, sign)                                                                                  \
    HOOK(name) { return of_int(ints ? a.i sign b.i : a.f sign b.f); }
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)
COMPARE(eq, ==)
COMPARE(ne, !=)

HOOK(and) { return of_int(a.i && b.i); }

HOOK(or) { return of_int(a.i || b.i); }

HOOK(not) { return of_int(!a.i); }
/* clang-format on */

/* ---- casts ---- */

static Number cast(EvalMode mode, int ints, Number a, Elem to)
{
    double value = ints ? eval_float_of_int(mode, a.i) : a.f;
    return of_float(mode == EVAL_EXACT ? value : elem_round(to, value));
}

HOOK(f32) { return cast(mode, ints, a, EL_F32); }

HOOK(bf16) { return cast(mode, ints, a, EL_BF16); }

HOOK(f16) { return cast(mode, ints, a, EL_F16); }

HOOK(i32)
{
    if (ints)
        return of_int(a.i < INT32_MIN ? INT32_MIN : a.i > INT32_MAX ? INT32_MAX : a.i);
    if (isnan(a.f))
        return of_int(0);
    return of_int(a.f <= INT32_MIN ? INT32_MIN : a.f >= INT32_MAX ? INT32_MAX : (int64_t)a.f);
}

HOOK(stop) { return a; }

HOOK(shift) { return a; }

/* ---- functions ---- */

static double without_subnormal(double v) { return v < 0x1p-126 ? 0 : v; }

#define FUNCTION(name, formula)              \
    HOOK(name)                               \
    {                                        \
        double x = a.f;                      \
        return of_float(r32(mode, formula)); \
    }
FUNCTION(exp, without_subnormal(exp(x)))
FUNCTION(log, log(x))
FUNCTION(sqrt, sqrt(x))
FUNCTION(rsqrt, 1 / sqrt(x))
FUNCTION(tanh, tanh(x))
FUNCTION(sigmoid, 1 / (1 + exp(-x)))
FUNCTION(silu, x / (1 + exp(-x)))
/* the tanh form, without the cancellation of 1 + tanh far on the left */
FUNCTION(gelu, x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))))
FUNCTION(relu, isnan(x) ? x : x > 0 ? x : 0)
FUNCTION(floor, floor(x))

HOOK(pow) { return of_float(a.f < 0 ? NAN : r32(mode, pow(a.f, b.f))); }

double scalar_eval(ScalarOp op, EvalMode mode, Type operand_type, double a, double b)
{
    int ints = operand_type == TY_INT || operand_type == TY_BOOL;
    ScalarKind kind = scalar_table[op].kind;
    if (kind == SK_FLOAT && ints) {
        a = eval_float_of_int(mode, (int64_t)a);
        b = eval_float_of_int(mode, (int64_t)b);
        ints = 0;
    }
    Number x = ints ? of_int((int64_t)a) : of_float(a), y = ints ? of_int((int64_t)b) : of_float(b);
    Number r = eval_hooks[op](mode, ints, x, y);
    int int_result = kind == SK_COMPARE || kind == SK_LOGIC || kind == SK_INDEX || op == OP_i32 ||
                     (ints && (kind == SK_ARITH || kind == SK_SAME));
    return int_result ? (double)r.i : r.f;
}
