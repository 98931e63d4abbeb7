/* Elementary functions as vector code: no library calls, the same bits in every lane and in scalar code.
 *
 * Polynomials interpolate at Chebyshev nodes. The ulp beside each function is the largest error met by
 * tests/unit/test_backend_math.c against libm in double. */
#include "backend/emit.h"

#include <math.h>

int emit_has_fma(const Emit *e) { return cpu_can(e->p->cpu, CPU_FMA); }

V emit_fma(Emit *e, V a, V b, V c)
{
    L *l = e->l;
    l_match(l, &a, &b);
    l_match(l, &a, &c);
    l_match(l, &a, &b);
    if (!emit_has_fma(e))
        return l_fadd(l, l_fmul(l, a, b), c);
    V args[3] = {a, b, c};
    return l_intrinsic(l, "llvm.fma", LLVMTypeOf(a), args, 3);
}

/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1). */
static V polynomial(Emit *e, V x, const double *c, int n)
{
    V sum = l_real(LLVMTypeOf(x), c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        sum = emit_fma(e, sum, x, l_real(LLVMTypeOf(x), c[i]));
    return sum;
}

/* Note [Exponentials]. e^x = 2^n e^r, where n is x / ln 2 rounded to a whole number, or to a sixteenth where a register
 * holds sixteen f32: 2 to the power of the part behind the point is then looked up, and so small an r takes two coefficients
 * for five. Adding 1.5 * 2^23, or a sixteenth of it, rounds, and leaves n in the lowest bits. */
typedef struct Exponent {
    int part_bits; /* of n behind the point: 0, or 4 where CPU_LOOKUP */
    int any;       /* x may be anything: where n is no number near x / ln 2, e^r is only kept about 1 */
    V shifted;     /* n + magic */
    double magic;
} Exponent;

enum { TABLE = 16 };

/* 2^(i/16) for the lowest bits i of every lane. */
static V look_up(L *l, V index)
{
    uint32_t width = l_width(index);
    V powers[TABLE], result = NULL;
    for (int i = 0; i < TABLE; i++)
        powers[i] = l_f32(l, exp2(i / (double)TABLE));
    if (!width)
        index = l_splat(l, index, TABLE);
    for (uint32_t i = 0; i == 0 || i < width; i += TABLE) {
        V args[2] = {LLVMConstVector(powers, TABLE), l_part(l, index, i, TABLE)};
        V part = l_intrinsic(l, "llvm.x86.avx512.permvar.sf.512", NULL, args, 2);
        result = result ? l_join(l, result, part) : part;
    }
    return width ? l_part(l, result, 0, width) : l_lane(l, result, l_i32(l, 0));
}

/* e^r by its first terms, and what follows times the rest. */
static V near_one(Emit *e, V r, const double *c, int n)
{
    return emit_fma(e, l_fmul(e->l, r, r), polynomial(e, r, c, n), r);
}

/* An instruction of AVX-512 with two operands, sixteen lanes at a time; after them what is special to it. Where the
 * condition `live` is false the result is 0; NULL: nowhere. */
static V by_vectors(L *l, const char *name, V a, V b, const int *immediate, V live)
{
    enum { LANES = 16, ROUND_AS_USUAL = 4 };
    V result = NULL;
    for (uint32_t i = 0; i < l_width(a); i += LANES) {
        V args[6] = {l_part(l, a, i, LANES), l_part(l, b, i, LANES)};
        uint32_t n = 2;
        if (immediate)
            args[n++] = l_i32(l, *immediate);
        args[n++] = l_real(LLVMTypeOf(args[0]), 0.0);
        args[n++] = live ? l_lane_bits(l, l_part(l, live, i, LANES)) : l_int(l->i16, -1);
        args[n++] = l_i32(l, ROUND_AS_USUAL);
        V part = l_intrinsic(l, name, NULL, args, n);
        result = result ? l_join(l, result, part) : part;
    }
    return result;
}

/* r where it is smaller than a half, whatever its sign, else -1/2, also for NaN. */
static V near_zero(L *l, V r)
{
    static const int smaller = 6;
    return by_vectors(l, "llvm.x86.avx512.mask.range.ps.512", r, l_real(LLVMTypeOf(r), -0.5), &smaller, NULL);
}

/* e^(x + low) as a number about 1 times 2^(*n rounded down), low far below x or NULL; x in -120..89, or n->any. Of other x it is
 * anything, of NaN it is NaN. */
static V exponential_rest(Emit *e, V x, V low, Exponent *n)
{
    static const double whole[] = {0.5, 0.16666576666119928, 0.04166655421298415, 0.008363232883682618,
                                   0.0013926250831497611};
    static const double sixteenth[] = {0.50001619, 0.16666666666666666};
    L *l = e->l;
    Ty t = LLVMTypeOf(x);
    n->magic = ldexp(12582912.0, -n->part_bits);
    n->shifted = emit_fma(e, x, l_real(t, 1.4426950408889634), l_real(t, n->magic));
    V rounded = l_fsub(l, n->shifted, l_real(t, n->magic));
    V r = emit_fma(e, rounded, l_real(t, -0.69140625), x);
    r = emit_fma(e, rounded, l_real(t, -0.0017409305599453094), r);
    if (low)
        r = l_fadd(l, r, low);
    if (n->any)
        r = near_zero(l, r);
    if (!n->part_bits)
        return l_fadd(l, near_one(e, r, whole, 5), l_real(t, 1.0));
    V power = look_up(l, l_bits(l, n->shifted, l->i32));
    return emit_fma(e, power, near_one(e, r, sixteenth, 2), power);
}

/* The same as *p * *scale, both of them normal numbers, of x in -120..0 or NaN. */
static void exponential_parts(Emit *e, V x, V low, V *p, V *scale)
{
    L *l = e->l;
    Exponent n = {0};
    V rest = exponential_rest(e, x, low, &n), bits = l_bits(l, n.shifted, l->i32);
    V whole = l_sub(l, bits, l_bits(l, l_real(LLVMTypeOf(x), n.magic), l->i32));
    V both = l_add(l, whole, l_int(LLVMTypeOf(whole), 2 * 127)); /* the exponents of both, as f32 has them */
    V first = l_shr(l, both, 1);
    *p = l_fmul(l, rest, l_bits(l, l_shl(l, first, 23), l->f32));
    *scale = l_bits(l, l_shl(l, l_sub(l, both, first), 23), l->f32);
}

/* x * 2^n, n rounded down, rounded once, by an instruction of AVX-512; infinite and NaN n are what they are for e^n. */
static V scale_by(L *l, V x, V n, V live)
{
    return by_vectors(l, "llvm.x86.avx512.mask.scalef.ps.512", x, n, NULL, live);
}

static int can_scale(const Emit *e, V x)
{
    return cpu_can(e->p->cpu, CPU_SCALE) && l_width(x) && l_width(x) % e->p->cpu->lanes == 0;
}

/* e^(x + low) as *p * 2^*n, *n not rounded, for any x. */
static void exponential_native(Emit *e, V x, V low, int part_bits, V *p, V *n)
{
    L *l = e->l;
    Exponent to = {.part_bits = part_bits, .any = 1};
    *p = exponential_rest(e, x, low, &to);
    *n = l_fsub(l, to.shifted, l_real(LLVMTypeOf(x), to.magic));
}

/* Subnormal results are 0: the CPU takes a hundred cycles to make one (language page, section 5). Others are normal numbers, so that n
 * can be added to the exponent, or infinite; what is NaN or beyond the range is not computed. */
static V exponential(Emit *e, V x)
{
    L *l = e->l;
    Ty t = LLVMTypeOf(x);
    V live = l_fcmp(l, LLVMRealUGE, x, l_real(t, -87.33654));
    Exponent n = {.part_bits = cpu_can(e->p->cpu, CPU_LOOKUP) ? 4 : 0};
    if (can_scale(e, x)) {
        V p, scale;
        exponential_native(e, x, NULL, n.part_bits, &p, &scale);
        return scale_by(l, p, scale, live);
    }
    V p = l_bits(l, exponential_rest(e, x, NULL, &n), l->i32);
    V power = l_shl(l, l_sar(l, l_bits(l, n.shifted, l->i32), n.part_bits), 23);
    V result = l_select(l, live, l_bits(l, l_add(l, p, power), l->f32), l_real(t, 0.0));
    V over = l_fcmp(l, LLVMRealUGT, x, l_real(t, 88.72283172607422));
    return l_select(l, over, l_fadd(l, x, l_real(t, INFINITY)), result);
}

/* 1.1 ulp */
V emit_exp(Emit *e, V a, V b)
{
    (void)b;
    return exponential(e, a);
}

/* a = m * 2^n with m in [sqrt(1/2), sqrt(2)); f = m - 1, s = f / (2 + f):
 * log(1 + f) = f - f^2/2 + s (f^2/2 + s^2 P(s^2)). 0.8 ulp. */
V emit_log(Emit *e, V a, V b)
{
    static const double c[] = {0.6666666655430007, 0.40000122000846017, 0.28550802551295174,
                               0.23330964090255224};
    (void)b;
    L *l = e->l;
    Ty t = LLVMTypeOf(a), ti = l_like(l, l->i32, a);
    V tiny = l_fcmp(l, LLVMRealOLT, a, l_real(t, 0x1p-126));
    V x = l_select(l, tiny, l_fmul(l, a, l_real(t, 0x1p24)), a);
    V u = l_sub(l, l_bits(l, x, l->i32), l_int(ti, 0x3f3504f3));
    V n = l_sub(l, l_sar(l, u, 23), l_select(l, tiny, l_int(ti, 24), l_int(ti, 0)));
    V m = l_add(l, l_and(l, u, l_int(ti, 0x7fffff)), l_int(ti, 0x3f3504f3));
    V f = l_fsub(l, l_bits(l, m, l->f32), l_real(t, 1.0));
    V s = l_fdiv(l, f, l_fadd(l, f, l_real(t, 2.0)));
    V z = l_fmul(l, s, s);
    V half = l_fmul(l, l_fmul(l, f, f), l_real(t, 0.5));
    V nf = l_cast(l, LLVMSIToFP, n, l->f32);
    V tail = emit_fma(e, s, emit_fma(e, z, polynomial(e, z, c, 4), half),
                      l_fmul(l, nf, l_real(t, 0.0017409305599453094)));
    V result = emit_fma(e, nf, l_real(t, 0.69140625), l_fsub(l, f, l_fsub(l, half, tail)));
    V infinity = l_real(t, (double)__builtin_inf());
    result = l_select(l, l_fcmp(l, LLVMRealOEQ, a, infinity), infinity, result);
    result =
        l_select(l, l_fcmp(l, LLVMRealOEQ, a, l_real(t, 0.0)), l_real(t, -(double)__builtin_inf()), result);
    V bad = l_fcmp(l, LLVMRealULT, a, l_real(t, 0.0));
    return l_select(l, bad, l_real(t, (double)__builtin_nan("")), result);
}

static V with_sign_of(L *l, V size, V sign)
{
    V mask = l_int(l_like(l, l->i32, size), INT32_MIN);
    V bits = l_and(l, l_bits(l, sign, l->i32), mask);
    return l_bits(l, l_or(l, l_bits(l, size, l->i32), bits), l->f32);
}

/* Below 0.625 an odd polynomial, above 1 - 2 / (e^2|a| + 1). 1.2 ulp. */
V emit_tanh(Emit *e, V a, V b)
{
    static const double c[] = {-0.3333333317123967, 0.1333330342038623,    -0.053959227261772755,
                               0.02176865580262618, -0.008343085215936718, 0.0022917704735522326};
    L *l = e->l;
    Ty t = LLVMTypeOf(a);
    V x = emit_abs(e, a, b);
    V z = l_fmul(l, x, x);
    V small = emit_fma(e, l_fmul(l, x, z), polynomial(e, z, c, 6), x);
    V ex = exponential(e, l_fadd(l, x, x));
    V large = l_fsub(l, l_real(t, 1.0), l_fdiv(l, l_real(t, 2.0), l_fadd(l, ex, l_real(t, 1.0))));
    return with_sign_of(l, l_select(l, l_fcmp(l, LLVMRealOLT, x, l_real(t, 0.625)), small, large), a);
}

/* 1 + p * scale for the sum, and one of two factors of the quotient; errors add up, so p has no part of a table. */
static V logistic_by_parts(Emit *e, V x, V low, V negative, V factor)
{
    L *l = e->l;
    Ty t = LLVMTypeOf(x);
    V one = l_real(t, 1.0), far = l_fcmp(l, LLVMRealOLT, x, l_real(t, -120.0)), p, scale;
    exponential_parts(e, l_select(l, far, l_real(t, -120.0), x), low, &p, &scale);
    scale = l_select(l, far, l_real(t, 0.0), scale);
    V below = l_fadd(l, l_fmul(l, p, scale), one);
    V above = l_fmul(l, factor, l_select(l, negative, p, one));
    return l_fmul(l, l_fdiv(l, above, below), l_select(l, negative, scale, one));
}

static V logistic_native(Emit *e, V x, V low, V negative, V factor)
{
    L *l = e->l;
    Ty t = LLVMTypeOf(x);
    V one = l_real(t, 1.0), p, n;
    exponential_native(e, x, low, 0, &p, &n);
    V below = l_fadd(l, scale_by(l, p, n, NULL), one);
    V above = l_fmul(l, factor, l_select(l, negative, p, one));
    return scale_by(l, l_fdiv(l, above, below), l_select(l, negative, n, l_real(t, 0.0)), NULL);
}

/* factor / (1 + e^-(a + low)) without overflow: with w = e^-|a|, a >= 0: factor / (1 + w), a < 0: factor * w
 * / (1 + w). There w's power of two comes last, so that a subnormal w costs the product no precision. */
static V logistic(Emit *e, V a, V low, V factor)
{
    L *l = e->l;
    V bits = l_bits(l, a, l->i32), negative = l_icmp(l, LLVMIntSLT, bits, l_int(LLVMTypeOf(bits), 0));
    V x = LLVMBuildFNeg(l->b, emit_abs(e, a, NULL), "");
    if (low)
        low = l_select(l, negative, low, LLVMBuildFNeg(l->b, low, ""));
    return (can_scale(e, a) ? logistic_native : logistic_by_parts)(e, x, low, negative, factor);
}

/* 2.1 ulp */
V emit_sigmoid(Emit *e, V a, V b)
{
    (void)b;
    return logistic(e, a, NULL, l_real(LLVMTypeOf(a), 1.0));
}

/* 2.7 ulp */
V emit_silu(Emit *e, V a, V b)
{
    (void)b;
    return logistic(e, a, NULL, a);
}

/* 2 u of gelu, a * (1.5957691216057308 + 0.07135481627260025 a^2), as a number and what is missing. */
static void gelu_argument(Emit *e, V a, V *high, V *low)
{
    L *l = e->l;
    V d = l_cast(l, LLVMFPExt, a, l->f64);
    Ty t = LLVMTypeOf(d);
    V cubic =
        l_fadd(l, l_fmul(l, l_fmul(l, d, d), l_real(t, 0.07135481627260025)), l_real(t, 1.5957691216057308));
    V u = l_fmul(l, d, cubic);
    *high = l_cast(l, LLVMFPTrunc, u, l->f32);
    *low = l_cast(l, LLVMFPTrunc, l_fsub(l, u, l_cast(l, LLVMFPExt, *high, l->f64)), l->f32);
}

/* The same in f32, where an fma gives the error of a product. Each coefficient is a number of few bits and a rest, so that
 * `sum - first` is exact. */
static void gelu_argument_by_fma(Emit *e, V a, V *high, V *low)
{
    L *l = e->l;
    Ty t = LLVMTypeOf(a);
    V third = l_real(t, 0.07135481387376785), third_rest = l_real(t, 2.3988324e-9);
    V first = l_real(t, 1.59375), first_rest = l_real(t, 0.0020191216057308);
    V square = l_fmul(l, a, a), square_rest = emit_fma(e, a, a, LLVMBuildFNeg(l->b, square, ""));
    V sum = emit_fma(e, square, third, first);
    V sum_rest = emit_fma(e, square, third, l_fsub(l, first, sum));
    V rest =
        emit_fma(e, square_rest, third, l_fadd(l, emit_fma(e, square, third_rest, first_rest), sum_rest));
    *high = l_fmul(l, a, sum);
    *low = emit_fma(e, a, rest, emit_fma(e, a, sum, LLVMBuildFNeg(l->b, *high, "")));
}

/* (1 + tanh(u)) / 2 = sigmoid(2 u), which does not cancel for negative a. An error of the last f32 place of 2 u grows with
 * u, so what is missing there counts. 2.2 ulp. */
V emit_gelu(Emit *e, V a, V b)
{
    (void)b;
    L *l = e->l;
    V high, low;
    (emit_has_fma(e) ? gelu_argument_by_fma : gelu_argument)(e, a, &high, &low);
    V finite = l_fcmp(l, LLVMRealOLT, emit_abs(e, high, NULL), l_real(LLVMTypeOf(a), 200.0));
    low = l_select(l, finite, low, l_real(LLVMTypeOf(a), 0.0));
    return logistic(e, high, low, a);
}

/* ---- pow, in f64 ---- */

/* log2 of a positive f32, relative error below 2^-40. */
static V log2_wide(Emit *e, V a)
{
    static const double c[] = {2.0,
                               0.666666666666667,
                               0.3999999999989924,
                               0.2857142862609592,
                               0.22222211115141333,
                               0.1818289055685574,
                               0.1533167402581507,
                               0.14617037594292834};
    L *l = e->l;
    V x = l_cast(l, LLVMFPExt, a, l->f64); /* never subnormal */
    Ty t = LLVMTypeOf(x), ti = l_like(l, l->i64, x);
    V u = l_sub(l, l_bits(l, x, l->i64), l_int(ti, 0x3fe6a09e667f3bcd));
    V n = l_cast(l, LLVMTrunc, l_sar(l, u, 52), l->i32);
    V m = l_bits(l, l_add(l, l_and(l, u, l_int(ti, 0xfffffffffffff)), l_int(ti, 0x3fe6a09e667f3bcd)), l->f64);
    V s = l_fdiv(l, l_fsub(l, m, l_real(t, 1.0)), l_fadd(l, m, l_real(t, 1.0)));
    V log = l_fmul(l, s, polynomial(e, l_fmul(l, s, s), c, 8));
    return l_fadd(l, l_fmul(l, log, l_real(t, 1.4426950408889634)), l_cast(l, LLVMSIToFP, n, l->f64));
}

/* 2^y in f64 rounded once to f32. */
static V exp2_wide(Emit *e, V y)
{
    static const double c[] = {1.0,
                               0.6931471805568075,
                               0.24022650695888328,
                               0.055504109065657,
                               0.0096181291354023,
                               0.0013333478154201467,
                               0.0001540347496519024,
                               1.530380284962428e-05,
                               1.3250876278904456e-06};
    L *l = e->l;
    Ty t = LLVMTypeOf(y);
    y = l_select(l, l_fcmp(l, LLVMRealOGT, y, l_real(t, 140.0)), l_real(t, 140.0), y);
    y = l_select(l, l_fcmp(l, LLVMRealOLT, y, l_real(t, -160.0)), l_real(t, -160.0), y);
    V magic = l_real(t, 0x1.8p52);
    V shifted = l_fadd(l, y, magic);
    V p = polynomial(e, l_fsub(l, y, l_fsub(l, shifted, magic)), c, 9);
    V scale = l_bits(l, l_shl(l, l_add(l, l_bits(l, shifted, l->i64), l_int(l_like(l, l->i64, y), 1023)), 52),
                     l->f64);
    return l_cast(l, LLVMFPTrunc, l_fmul(l, p, scale), l->f32);
}

/* 0.51 ulp; -0 counts as 0. */
V emit_pow(Emit *e, V a, V b)
{
    L *l = e->l;
    Ty t = LLVMTypeOf(a);
    V zero = l_real(t, 0.0), one = l_real(t, 1.0), infinity = l_real(t, (double)__builtin_inf());
    V regular = l_fmul(l, log2_wide(e, a), l_cast(l, LLVMFPExt, b, l->f64));
    V result = exp2_wide(e, regular);
    V b_up = l_fcmp(l, LLVMRealOGT, b, zero);
    result = l_select(l, l_fcmp(l, LLVMRealOEQ, a, zero), l_select(l, b_up, zero, infinity), result);
    result = l_select(l, l_fcmp(l, LLVMRealOEQ, a, infinity), l_select(l, b_up, infinity, zero), result);
    V nan = l_real(t, (double)__builtin_nan(""));
    result = l_select(l, l_fcmp(l, LLVMRealUNO, a, b), nan, result);
    V is_one = l_or(l, l_fcmp(l, LLVMRealOEQ, a, one), l_fcmp(l, LLVMRealOEQ, b, zero));
    result = l_select(l, is_one, one, result);
    return l_select(l, l_fcmp(l, LLVMRealOLT, a, zero), nan, result);
}
