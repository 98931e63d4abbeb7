/* Scalar operations that are a few instructions: one hook per row of ir/scalar.def. Functions: emit_math.c.
 *
 * Pointwise f32 arithmetic equals the interpreter's bit for bit: no contraction, no reassociation (but in exp(a - shift(b)),
 * emit_expr.c). */
#include "backend/emit.h"

#include <math.h>

static EmitScalar *const hooks[OP_COUNT] = {
#define SCALAR(name, spelling, arity, kind, cost, ulp, ga, gb, doc) emit_##name,
#include "ir/scalar.def"
};

V emit_to_float(Emit *e, V v)
{
    if (!l_is_int(v))
        return v;
    return l_cast(e->l, l_is_bool(v) ? LLVMUIToFP : LLVMSIToFP, emit_narrow(e->l, v), e->l->f32);
}

V emit_scalar(Emit *e, ScalarOp op, V a, V b)
{
    ScalarKind kind = scalar_table[op].kind;
    int mixed = b && l_is_int(a) != l_is_int(b);
    if (kind == SK_FLOAT || (kind == SK_CAST && op != OP_i32) ||
        (mixed && (kind == SK_ARITH || kind == SK_COMPARE))) {
        a = emit_to_float(e, a);
        b = b ? emit_to_float(e, b) : NULL;
    }
    if (b)
        l_match(e->l, &a, &b);
    return scalar_table[op].cost >= OUTLINE_COST ? emit_outline(e, scalar_table[op].name, hooks[op], a, b)
                                                 : hooks[op](e, a, b);
}

/* The body of an outlined function, emitted in the middle of another. */
static void fill_outline(Emit *e, V fn, EmitScalar *hook, int two)
{
    L *l = e->l;
    Emit inner = emit_blank(e->p);
    Aside outer = l_begin_aside(l, fn);
    LLVMBuildRet(l->b, hook(&inner, LLVMGetParam(fn, 0), two ? LLVMGetParam(fn, 1) : NULL));
    l_end_aside(l, &outer);
}

V emit_outline(Emit *e, const char *name, EmitScalar *hook, V a, V b)
{
    L *l = e->l;
    if (!e->unrolled)
        return hook(e, a, b);
    name = arena_printf(l->arena, "moec.%s.%s.%u", e->p->cpu->name, name, l_width(a));
    V fn = LLVMGetNamedFunction(l->mod, name), args[2] = {a, b};
    if (!fn) {
        Ty types[2] = {LLVMTypeOf(a), b ? LLVMTypeOf(b) : NULL};
        Ty result = hook == emit_round_bf16_hook ? l_like(l, l->i16, a) : l_like(l, l->f32, a);
        fn = LLVMAddFunction(l->mod, name, l_fn_type(l, result, types, b ? 2 : 1));
        LLVMSetLinkage(fn, LLVMInternalLinkage);
        plan_attributes(e->p, fn);
        l_attribute(l, fn, "noinline");
        l_pure(l, fn);
        fill_outline(e, fn, hook, b != NULL);
    }
    return l_call(l, fn, args, b ? 2 : 1);
}

static V either(Emit *e, V a, V b, LLVMOpcode of_int, LLVMOpcode of_float)
{
    return l_bin(e->l, l_is_int(a) ? of_int : of_float, a, b);
}

V emit_add(Emit *e, V a, V b) { return either(e, a, b, LLVMAdd, LLVMFAdd); }
V emit_sub(Emit *e, V a, V b) { return either(e, a, b, LLVMSub, LLVMFSub); }
V emit_mul(Emit *e, V a, V b) { return either(e, a, b, LLVMMul, LLVMFMul); }
V emit_div(Emit *e, V a, V b) { return l_fdiv(e->l, a, b); }

V emit_neg(Emit *e, V a, V b)
{
    (void)b;
    return l_is_int(a) ? LLVMBuildNeg(e->l->b, a, "") : LLVMBuildFNeg(e->l->b, a, "");
}

static V compare(Emit *e, V a, V b, LLVMIntPredicate of_int, LLVMRealPredicate of_float)
{
    return l_is_int(a) ? l_icmp(e->l, of_int, a, b) : l_fcmp(e->l, of_float, a, b);
}

V emit_lt(Emit *e, V a, V b) { return compare(e, a, b, LLVMIntSLT, LLVMRealOLT); }
V emit_le(Emit *e, V a, V b) { return compare(e, a, b, LLVMIntSLE, LLVMRealOLE); }
V emit_gt(Emit *e, V a, V b) { return compare(e, a, b, LLVMIntSGT, LLVMRealOGT); }
V emit_ge(Emit *e, V a, V b) { return compare(e, a, b, LLVMIntSGE, LLVMRealOGE); }
V emit_eq(Emit *e, V a, V b) { return compare(e, a, b, LLVMIntEQ, LLVMRealOEQ); }
V emit_ne(Emit *e, V a, V b) { return compare(e, a, b, LLVMIntNE, LLVMRealUNE); }
V emit_and(Emit *e, V a, V b) { return l_and(e->l, a, b); }
V emit_or(Emit *e, V a, V b) { return l_or(e->l, a, b); }

V emit_not(Emit *e, V a, V b)
{
    (void)b;
    return l_not(e->l, a);
}

V emit_f32(Emit *e, V a, V b)
{
    (void)e;
    (void)b;
    return a;
}

V emit_stop(Emit *e, V a, V b)
{
    (void)e;
    (void)b;
    return a;
}

V emit_shift(Emit *e, V a, V b)
{
    (void)e;
    (void)b;
    return a;
}

V emit_i32(Emit *e, V a, V b)
{
    (void)b;
    L *l = e->l;
    if (l_is_int(a))
        return l_max(l, l_min(l, a, l_int(LLVMTypeOf(a), INT32_MAX)), l_int(LLVMTypeOf(a), INT32_MIN));
    V narrow = l_intrinsic2(l, "llvm.fptosi.sat", l_like(l, l->i32, a), LLVMTypeOf(a), &a, 1);
    return l_cast(l, LLVMSExt, narrow, l->i64);
}

V emit_sqrt(Emit *e, V a, V b)
{
    (void)b;
    return l_intrinsic(e->l, "llvm.sqrt", LLVMTypeOf(a), &a, 1);
}

V emit_rsqrt(Emit *e, V a, V b) { return l_fdiv(e->l, l_real(LLVMTypeOf(a), 1.0), emit_sqrt(e, a, b)); }

V emit_abs(Emit *e, V a, V b)
{
    (void)b;
    L *l = e->l;
    if (l_is_int(a))
        return l_max(l, a, LLVMBuildNeg(l->b, a, ""));
    return l_intrinsic(l, "llvm.fabs", LLVMTypeOf(a), &a, 1);
}

/* b where it is better, else a, also where one is NaN: an instruction of x86. */
static V better_of(L *l, V a, V b, LLVMRealPredicate better)
{
    return l_select(l, l_fcmp(l, better, b, a), b, a);
}

/* b where it is better or NaN, else a, which may be NaN. Of several vectors two at a time are looked at for NaN, which is
 * hardly ever there. */
static V extreme(Emit *e, V a, V b, LLVMIntPredicate of_int, LLVMRealPredicate better)
{
    L *l = e->l;
    if (l_is_int(a))
        return l_select(l, l_icmp(l, of_int, a, b), a, b);
    V best = better_of(l, a, b, better);
    uint32_t half = l_width(b) / 2;
    if (!cpu_can(e->p->cpu, CPU_MASKS) || half < e->p->cpu->lanes || LLVMIsConstant(b))
        return l_select(l, l_fcmp(l, LLVMRealUNO, b, b), b, best);
    V low = l_part(l, b, 0, half), high = l_part(l, b, half, half);
    Block from = l_here(l);
    When rare = l_when(l, l_any(l, l_fcmp(l, LLVMRealUNO, low, high)));
    V chosen = l_select(l, l_fcmp(l, LLVMRealUNO, b, b), b, best);
    Block slow = l_here(l);
    l_end_when(l, &rare);
    return l_phi(l, LLVMTypeOf(best), best, from, chosen, slow);
}

V emit_max2(Emit *e, V a, V b) { return extreme(e, a, b, LLVMIntSGE, LLVMRealOGT); }
V emit_min2(Emit *e, V a, V b) { return extreme(e, a, b, LLVMIntSLE, LLVMRealOLT); }

V emit_relu(Emit *e, V a, V b)
{
    (void)b;
    V zero = l_real(LLVMTypeOf(a), 0.0);
    return l_select(e->l, l_fcmp(e->l, LLVMRealOLE, a, zero), zero, a);
}

/* Where no instruction rounds: beyond 2^23 every f32 is whole, below i32 holds it. */
V emit_floor(Emit *e, V a, V b)
{
    (void)b;
    L *l = e->l;
    Ty t = LLVMTypeOf(a);
    if (cpu_can(e->p->cpu, CPU_ROUNDING))
        return l_intrinsic(l, "llvm.floor", t, &a, 1);
    V size = emit_abs(e, a, NULL);
    V small = l_fcmp(l, LLVMRealOLT, size, l_real(t, 0x1p23));
    V safe = l_select(l, small, a, l_real(t, 0.0));
    V cut = l_cast(l, LLVMSIToFP, l_cast(l, LLVMFPToSI, safe, l->i32), l->f32);
    V down = l_fsub(l, cut, l_select(l, l_fcmp(l, LLVMRealOGT, cut, safe), l_real(t, 1.0), l_real(t, 0.0)));
    V sign = l_and(l, l_bits(l, a, l->i32), l_int(l_like(l, l->i32, a), INT32_MIN));
    down = l_bits(l, l_or(l, l_bits(l, down, l->i32), sign), l->f32); /* -0 stays -0 */
    return l_select(l, small, down, a);
}

/* ---- folding lanes ---- */

static V fold_pair(Emit *e, ReduceKind kind, V a, V b)
{
    int floats = !l_is_int(a);
    switch (kind) {
    case RED_SUM: return emit_add(e, a, b);
    case RED_MAX: return floats ? better_of(e->l, a, b, LLVMRealOGT) : emit_max2(e, a, b);
    case RED_MIN: return floats ? better_of(e->l, a, b, LLVMRealOLT) : emit_min2(e, a, b);
    }
    BUG(e->l->arena, "backend: reduction %d", (int)kind);
}

/* NaN where a lane of v is: choices between pairs may lose it. */
static V fold_nan(Emit *e, ReduceKind kind, V v, V result)
{
    L *l = e->l;
    uint32_t half = l_width(v) / 2;
    if (kind == RED_SUM || l_is_int(v) || !half)
        return result;
    V found = l_any(l, l_fcmp(l, LLVMRealUNO, l_part(l, v, 0, half), l_part(l, v, half, half)));
    return l_select(l, found, l_real(l->f32, NAN), result);
}

/* Upper half onto lower half until one is left: the order is fixed, whatever the instruction set offers. */
V emit_fold_lanes(Emit *e, ReduceKind kind, V v)
{
    L *l = e->l;
    V all = v;
    for (uint32_t w = l_width(v); w > 1; w /= 2) {
        if (w % 2 || w > LANES_MAX)
            BUG(l->arena, "backend: %u lanes cannot be folded", w);
        v = fold_pair(e, kind, l_part(l, v, 0, w / 2), l_part(l, v, w / 2, w / 2));
    }
    return l_width(all) ? fold_nan(e, kind, all, l_lane(l, v, l_i32(l, 0))) : v;
}
