/* Element formats: how a value lies in memory. bf16 and f16 are widened exactly and rounded to nearest even.
 *
 * No library calls may remain: the conversions of f16 use instructions where the target has them and integers
 * elsewhere. */
#include "backend/emit.h"

/* Half of a vector's 16-bit lanes fill a vector of floats: one permutation puts them into the upper halves of zeros. */
static int fills_vectors(const Emit *e, uint32_t lanes)
{
    return cpu_can(e->p->cpu, CPU_SHUFFLE16) && lanes && lanes % (2 * e->p->cpu->lanes) == 0;
}

static V widen_bf16(Emit *e, V raw)
{
    L *l = e->l;
    uint32_t n = l_width(raw);
    V lane[2 * LANES_MAX];
    if (!fills_vectors(e, n) || cpu_can(&cpu_table[e->p->target], CPU_WIDENS_HALVES))
        return l_bits(l, l_shl(l, l_cast(l, LLVMZExt, raw, l->i32), 16), l->f32);
    for (uint32_t i = 0; i < n; i++) {
        lane[2 * i] = l_i32(l, n);
        lane[2 * i + 1] = l_i32(l, i);
    }
    V zero = LLVMConstNull(LLVMTypeOf(raw));
    V words = LLVMBuildShuffleVector(l->b, raw, zero, LLVMConstVector(lane, 2 * n), "");
    return LLVMBuildBitCast(l->b, words, l_lanes_of(l, l->f32, n), "");
}

static int has_f16(const Emit *e) { return cpu_can(e->p->cpu, CPU_F16); }

/* Normal numbers: shift and re-bias. Subnormal: an integer times 2^-24. Infinity and NaN: the largest
 * exponent. */
static V widen_f16_plain(L *l, V raw)
{
    V h = l_cast(l, LLVMZExt, raw, l->i32);
    Ty t = LLVMTypeOf(h);
    V sign = l_shl(l, l_and(l, h, l_int(t, 0x8000)), 16);
    V size = l_and(l, h, l_int(t, 0x7fff));
    V small = l_fmul(l, l_cast(l, LLVMSIToFP, size, l->f32), l_real(l_like(l, l->f32, h), 0x1p-24));
    V special = l_icmp(l, LLVMIntSGE, size, l_int(t, 0x7c00));
    V bias = l_select(l, special, l_int(t, 224 << 23), l_int(t, 112 << 23));
    V quiet = l_select(l, l_icmp(l, LLVMIntSGT, size, l_int(t, 0x7c00)), l_int(t, 0x400000), l_int(t, 0));
    V large = l_or(l, l_add(l, l_shl(l, size, 13), bias), quiet);
    V is_small = l_icmp(l, LLVMIntSLT, size, l_int(t, 0x400));
    return l_bits(l, l_or(l, sign, l_select(l, is_small, l_bits(l, small, l->i32), large)), l->f32);
}

static V widen_f16(Emit *e, V raw)
{
    L *l = e->l;
    if (!has_f16(e))
        return widen_f16_plain(l, raw);
    return l_cast(l, LLVMFPExt, l_bits(l, raw, l->f16), l->f32);
}

/* Adds half of the last kept place less one, plus that place's bit: rounds to even. NaN would become
 * infinity. */
static V round_bf16_plain(L *l, V value)
{
    V u = l_bits(l, value, l->i32);
    Ty t = LLVMTypeOf(u);
    V odd = l_and(l, l_shr(l, u, 16), l_int(t, 1));
    V rounded = l_add(l, u, l_add(l, odd, l_int(t, 0x7fff)));
    V quiet = l_or(l, u, l_int(t, 0x400000));
    V nan = l_fcmp(l, LLVMRealUNO, value, value);
    return l_cast(l, LLVMTrunc, l_shr(l, l_select(l, nan, quiet, rounded), 16), l->i16);
}

/* The CPU's own rounding, which takes subnormal numbers for zeros. */
static V flush_bf16_native(L *l, V value)
{
    enum { LANES = 16 };
    V rounded = NULL;
    for (uint32_t i = 0; i < l_width(value); i += 2 * LANES) {
        V half[2] = {l_part(l, value, i + LANES, LANES), l_part(l, value, i, LANES)};
        V both = l_intrinsic(l, "llvm.x86.avx512bf16.cvtne2ps2bf16.512", NULL, half, 2);
        both = LLVMBuildBitCast(l->b, both, l_lanes_of(l, l->i16, 2 * LANES), "");
        rounded = rounded ? l_join(l, rounded, both) : both;
    }
    return rounded;
}

/* i1: a lane is subnormal. */
static V any_subnormal(L *l, V value)
{
    enum { LANES = 16, SUBNORMAL = 0x20 };
    V tiny = NULL;
    for (uint32_t i = 0; i < l_width(value); i += LANES) {
        V args[2] = {l_part(l, value, i, LANES), l_i32(l, SUBNORMAL)};
        V found = l_intrinsic(l, "llvm.x86.avx512.fpclass.ps.512", NULL, args, 2);
        tiny = tiny ? l_or(l, tiny, found) : found;
    }
    return l_any(l, tiny);
}

/* Where one is, which is hardly ever, the plain rounding is taken. */
static V round_bf16_native(L *l, V value)
{
    V rounded = flush_bf16_native(l, value);
    Block from = l_here(l);
    When rare = l_when(l, any_subnormal(l, value));
    V plain = round_bf16_plain(l, value);
    Block slow = l_here(l);
    l_end_when(l, &rare);
    return l_phi(l, LLVMTypeOf(rounded), rounded, from, plain, slow);
}

static int rounds_natively(const Emit *e, V value)
{
    return cpu_can(e->p->cpu, CPU_ROUND_BF16) && fills_vectors(e, l_width(value));
}

V emit_round_bf16_hook(Emit *e, V value, V unused)
{
    (void)unused;
    return rounds_natively(e, value) ? round_bf16_native(e->l, value) : round_bf16_plain(e->l, value);
}

/* i16. */
static V round_bf16(Emit *e, V value)
{
    return l_width(value) ? emit_outline(e, "round_bf16", emit_round_bf16_hook, value, NULL)
                          : emit_round_bf16_hook(e, value, NULL);
}

V emit_flush_bf16(Emit *e, V value)
{
    return widen_bf16(e, rounds_natively(e, value) ? flush_bf16_native(e->l, value) : round_bf16(e, value));
}

static V round_f16_plain(L *l, V value)
{
    V u = l_bits(l, value, l->i32);
    Ty t = LLVMTypeOf(u), tf = LLVMTypeOf(value);
    V sign = l_and(l, l_shr(l, u, 16), l_int(t, 0x8000));
    V size = l_and(l, u, l_int(t, 0x7fffffff));
    V odd = l_and(l, l_shr(l, size, 13), l_int(t, 1));
    V normal = l_add(l, l_sub(l, size, l_int(t, 112 << 23)), l_add(l, odd, l_int(t, 0xfff)));
    V half = l_real(tf, 0.5); /* its last place is 2^-24, the subnormal step of f16: the sum rounds */
    V small = l_bits(l, l_fadd(l, l_bits(l, size, l->f32), half), l->i32);
    small = l_sub(l, small, l_bits(l, half, l->i32));
    V result = l_select(l, l_icmp(l, LLVMIntSLT, size, l_int(t, 0x38800000)), small, l_shr(l, normal, 13));
    result = l_select(l, l_icmp(l, LLVMIntSGE, size, l_int(t, 0x477ff000)), l_int(t, 0x7c00), result);
    V nan = l_or(l, l_and(l, l_shr(l, size, 13), l_int(t, 0x3ff)), l_int(t, 0x7e00));
    result = l_select(l, l_icmp(l, LLVMIntSGT, size, l_int(t, 0x7f800000)), nan, result);
    return l_cast(l, LLVMTrunc, l_or(l, sign, result), l->i16);
}

/* i16. */
static V round_f16(Emit *e, V value)
{
    L *l = e->l;
    if (!has_f16(e))
        return round_f16_plain(l, value);
    return l_bits(l, l_cast(l, LLVMFPTrunc, value, l->f16), l->i16);
}

V emit_decode(Emit *e, Elem elem, V raw)
{
    switch (elem) {
    case EL_F32:
    case EL_I64: return raw;
    case EL_BF16: return widen_bf16(e, raw);
    case EL_F16: return widen_f16(e, raw);
    case EL_I32: return l_cast(e->l, LLVMSExt, raw, e->l->i64);
    case EL_COUNT: break;
    }
    BUG(e->l->arena, "backend: element type %d", (int)elem);
}

/* The 16 bits of which a value is the widening, or NULL: they need no rounding. */
static V bf16_bits(L *l, V value)
{
    V shifted = LLVMIsABitCastInst(value) ? LLVMGetOperand(value, 0) : NULL;
    if (shifted && LLVMIsAShuffleVectorInst(shifted) && LLVMIsNull(LLVMGetOperand(shifted, 1)) &&
        l_width(shifted) == 2 * l_width(value))
        return LLVMGetOperand(shifted, 0);
    if (!shifted || !LLVMIsABinaryOperator(shifted) || LLVMGetInstructionOpcode(shifted) != LLVMShl ||
        LLVMGetOperand(shifted, 1) != l_int(LLVMTypeOf(shifted), 16))
        return NULL;
    V wide = LLVMGetOperand(shifted, 0);
    V half = LLVMIsAZExtInst(wide) ? LLVMGetOperand(wide, 0) : NULL;
    return half && LLVMTypeOf(half) == l_like(l, l->i16, half) ? half : NULL;
}

V emit_encode(Emit *e, Elem elem, V value)
{
    switch (elem) {
    case EL_F32: return emit_to_float(e, value);
    case EL_BF16: {
        V bits = bf16_bits(e->l, value);
        return bits ? bits : round_bf16(e, emit_to_float(e, value));
    }
    case EL_F16: return round_f16(e, emit_to_float(e, value));
    case EL_I32: return l_cast(e->l, LLVMTrunc, value, e->l->i32);
    case EL_I64: return value;
    case EL_COUNT: break;
    }
    BUG(e->l->arena, "backend: element type %d", (int)elem);
}

V emit_bf16(Emit *e, V a, V b)
{
    (void)b;
    return widen_bf16(e, round_bf16(e, a));
}

V emit_f16(Emit *e, V a, V b)
{
    (void)b;
    return widen_f16(e, round_f16(e, a));
}
