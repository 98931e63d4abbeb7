/* idiv and imod: quotients rounded down, of a divisor that counts as 1 where it is less.
 *
 * Note [Quotients of lanes]. No instruction divides lanes of 64-bit integers. (a + 0.5) / b is no closer to a whole number than
 * 0.5 / b, and the roundings of f64 to 1 / b and to the product move it by less than that where |a| < 2^50: rounded down it is
 * the quotient, exactly, and 1 / b is computed once outside of the loop. Where a lane holds more, lanes are divided one by
 * one: indices never do. */
#include "backend/emit.h"

enum {
    WIDE_BITS = 50,  /* |a| below 2^50: by Note [Quotients of lanes] */
    NARROW_BITS = 30 /* where only lanes of 32 bits become f64 */
};

/* The quotient from what is rounded towards zero. */
static V rounded_down(Emit *e, V a, V b, V toward_zero)
{
    L *l = e->l;
    V rest = l_sub(l, a, l_mul(l, toward_zero, b));
    V below = l_icmp(l, LLVMIntSLT, rest, l_int(LLVMTypeOf(a), 0));
    return l_add(l, toward_zero, l_cast(l, LLVMSExt, below, l->i64));
}

static V divided(Emit *e, V a, V b) { return rounded_down(e, a, b, l_bin(e->l, LLVMSDiv, a, b)); }

/* x is not beyond the integers that it becomes. */
static V floor_f64(Emit *e, V x, int narrow)
{
    L *l = e->l;
    Ty t = LLVMTypeOf(x), to = narrow ? l->i32 : l->i64;
    if (cpu_can(e->p->cpu, CPU_ROUNDING))
        return l_cast(l, LLVMFPToSI, l_intrinsic(l, "llvm.floor", t, &x, 1), to);
    V cut = l_cast(l, LLVMFPToSI, x, to);
    V over = l_fcmp(l, LLVMRealOGT, l_cast(l, LLVMSIToFP, cut, l->f64), x);
    return l_add(l, cut, l_cast(l, LLVMSExt, over, to));
}

/* Of lanes from -2^bits to 2^bits - 1; any b. */
static V by_f64(Emit *e, V a, V b, int narrow)
{
    L *l = e->l;
    Ty t = LLVMTypeOf(a);
    if (narrow) { /* every divisor from 2^30 on gives 0 or -1 */
        a = l_cast(l, LLVMTrunc, a, l->i32);
        b = l_cast(l, LLVMTrunc, l_min(l, b, l_int(t, (int64_t)1 << NARROW_BITS)), l->i32);
    }
    V x = l_cast(l, LLVMSIToFP, a, l->f64), y = l_cast(l, LLVMSIToFP, b, l->f64);
    V part = l_fdiv(l, l_real(LLVMTypeOf(y), 1), y);
    V q = floor_f64(e, l_fmul(l, l_fadd(l, x, l_real(LLVMTypeOf(x), 0.5)), part), narrow);
    return narrow ? l_cast(l, LLVMSExt, q, l->i64) : q;
}

static V quotient_lanes(Emit *e, V a, V b)
{
    L *l = e->l;
    Ty t = LLVMTypeOf(a);
    int narrow = !cpu_can(e->p->cpu, CPU_INT64_FLOAT), bits = narrow ? NARROW_BITS : WIDE_BITS;
    V from_least = l_add(l, a, l_int(t, (int64_t)1 << bits));
    V large = l_icmp(l, LLVMIntUGE, from_least, l_int(t, (int64_t)2 << bits));
    V quick = by_f64(e, a, b, narrow);
    Block from = l_here(l);
    When rare = l_when(l, l_any(l, large));
    V slow = divided(e, a, b);
    Block end = l_here(l);
    l_end_when(l, &rare);
    return l_phi(l, t, quick, from, slow, end);
}

/* b is 2^bits? */
static int is_power(Emit *e, V b, int *bits)
{
    int64_t value;
    if (!l_constant_lanes(e->l, b, &value) || value < 1 || (value & (value - 1)))
        return 0;
    *bits = __builtin_ctzll((uint64_t)value);
    return 1;
}

static V at_least_one(Emit *e, V b) { return l_max(e->l, b, l_int(LLVMTypeOf(b), 1)); }

V emit_idiv(Emit *e, V a, V b)
{
    int bits;
    b = at_least_one(e, b);
    if (is_power(e, b, &bits))
        return l_sar(e->l, a, bits);
    return l_width(a) ? quotient_lanes(e, a, b) : divided(e, a, b);
}

V emit_imod(Emit *e, V a, V b)
{
    int bits;
    b = at_least_one(e, b);
    if (is_power(e, b, &bits))
        return l_and(e->l, a, l_int(LLVMTypeOf(a), ((int64_t)1 << bits) - 1));
    return l_sub(e->l, a, l_mul(e->l, emit_idiv(e, a, b), b));
}
