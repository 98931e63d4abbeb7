/* See l.h. */
#include "backend/l.h"

#include <string.h>

void l_init(L *l, Arena *arena, LLVMContextRef ctx, LLVMModuleRef mod)
{
    *l = (L){.arena = arena, .ctx = ctx, .mod = mod};
    l->b = LLVMCreateBuilderInContext(ctx);
    l->i1 = LLVMInt1TypeInContext(ctx);
    l->i8 = LLVMInt8TypeInContext(ctx);
    l->i16 = LLVMInt16TypeInContext(ctx);
    l->i32 = LLVMInt32TypeInContext(ctx);
    l->i64 = LLVMInt64TypeInContext(ctx);
    l->f16 = LLVMHalfTypeInContext(ctx);
    l->f32 = LLVMFloatTypeInContext(ctx);
    l->f64 = LLVMDoubleTypeInContext(ctx);
    l->ptr = LLVMPointerTypeInContext(ctx, 0);
    l->md_past = LLVMGetMDKindIDInContext(ctx, "nontemporal", 11);
    l->md_scope = LLVMGetMDKindIDInContext(ctx, "alias.scope", 11);
    l->md_others = LLVMGetMDKindIDInContext(ctx, "noalias", 7);
    l->none = LLVMVoidTypeInContext(ctx);
}

static Ty scalar_of(Ty t) { return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t; }

static uint32_t width_of(Ty t) { return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetVectorSize(t) : 0; }

uint32_t l_width(V v) { return width_of(LLVMTypeOf(v)); }

Ty l_lanes_of(L *l, Ty scalar, uint32_t lanes)
{
    (void)l;
    return lanes ? LLVMVectorType(scalar, lanes) : scalar;
}

Ty l_like(L *l, Ty scalar, V shape) { return l_lanes_of(l, scalar, l_width(shape)); }

int l_is_int(V v) { return LLVMGetTypeKind(scalar_of(LLVMTypeOf(v))) == LLVMIntegerTypeKind; }

int l_is_bool(V v) { return l_is_int(v) && LLVMGetIntTypeWidth(scalar_of(LLVMTypeOf(v))) == 1; }

static V repeated(V c, uint32_t lanes)
{
    V all[LANES_MAX];
    for (uint32_t i = 0; i < lanes; i++)
        all[i] = c;
    return lanes ? LLVMConstVector(all, lanes) : c;
}

V l_int(Ty type, int64_t value)
{
    return repeated(LLVMConstInt(scalar_of(type), (unsigned long long)value, 1), width_of(type));
}

V l_real(Ty type, double value) { return repeated(LLVMConstReal(scalar_of(type), value), width_of(type)); }

V l_i64(L *l, int64_t value) { return l_int(l->i64, value); }
V l_i32(L *l, int64_t value) { return l_int(l->i32, value); }
V l_true(L *l) { return l_int(l->i1, 1); }
V l_false(L *l) { return l_int(l->i1, 0); }
V l_f32(L *l, double value) { return l_real(l->f32, value); }

static V private_constant(L *l, V value, const char *name)
{
    V global = LLVMAddGlobal(l->mod, LLVMTypeOf(value), name);
    LLVMSetInitializer(global, value);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetGlobalConstant(global, 1);
    return global;
}

V l_bytes(L *l, const char *bytes, size_t n)
{
    V global = private_constant(l, LLVMConstStringInContext2(l->ctx, bytes, n, 0), "text");
    LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
    return global;
}

V l_text(L *l, const char *text) { return l_bytes(l, text, strlen(text)); }

V l_table(L *l, Ty type, V *all, size_t n, const char *name)
{
    return private_constant(l, LLVMConstArray2(type, all, n), name);
}

V l_iota(L *l, Ty scalar, uint32_t lanes)
{
    V all[LANES_MAX];
    for (uint32_t i = 0; i < lanes; i++)
        all[i] = LLVMConstInt(scalar, i, 0);
    (void)l;
    return LLVMConstVector(all, lanes);
}

int l_constant(V v, int64_t *value)
{
    if (!LLVMIsAConstantInt(v))
        return 0;
    *value = LLVMConstIntGetSExtValue(v);
    return 1;
}

/* ---- operations ---- */

static V spread(L *l, V v, uint32_t lanes)
{
    Ty type = LLVMVectorType(LLVMTypeOf(v), lanes);
    V one = LLVMBuildInsertElement(l->b, LLVMGetPoison(type), v, l_i32(l, 0), "");
    return LLVMBuildShuffleVector(l->b, one, LLVMGetPoison(type),
                                  LLVMConstNull(LLVMVectorType(l->i32, lanes)), "");
}

/* The i16 behind a widened bf16: float(i32(h) << 16), or NULL. */
static V bf16_source(V v)
{
    V shifted = LLVMIsABitCastInst(v) ? LLVMGetOperand(v, 0) : NULL;
    if (!shifted || !LLVMIsABinaryOperator(shifted) || LLVMGetInstructionOpcode(shifted) != LLVMShl)
        return NULL;
    V wide = LLVMGetOperand(shifted, 0);
    V half = LLVMIsAZExtInst(wide) ? LLVMGetOperand(wide, 0) : NULL;
    return half && LLVMGetIntTypeWidth(LLVMTypeOf(half)) == 16 ? half : NULL;
}

V l_splat(L *l, V v, uint32_t lanes)
{
    if (!lanes || l_width(v))
        return v;
    if (LLVMIsConstant(v))
        return repeated(v, lanes);
    V half = l->words ? bf16_source(v) : NULL;
    if (!half)
        return spread(l, v, lanes);
    /* broadcast the 16 bits, straight from memory, and widen in the lanes: the scalar never visits a scalar
     * register */
    V words = LLVMBuildBitCast(l->b, spread(l, half, 2 * lanes), LLVMVectorType(l->i32, lanes), "");
    return l_bits(l, l_shl(l, words, 16), l->f32);
}

void l_match(L *l, V *a, V *b)
{
    uint32_t wa = l_width(*a), wb = l_width(*b);
    if (wa && wb && wa != wb)
        BUG(l->arena, "backend: values of %u and %u lanes meet", wa, wb);
    *a = l_splat(l, *a, wb);
    *b = l_splat(l, *b, wa);
}

V l_bin(L *l, LLVMOpcode op, V a, V b)
{
    l_match(l, &a, &b);
    return LLVMBuildBinOp(l->b, op, a, b, "");
}

V l_add(L *l, V a, V b) { return l_bin(l, LLVMAdd, a, b); }
V l_sub(L *l, V a, V b) { return l_bin(l, LLVMSub, a, b); }
V l_mul(L *l, V a, V b) { return l_bin(l, LLVMMul, a, b); }
V l_and(L *l, V a, V b) { return l_bin(l, LLVMAnd, a, b); }
V l_or(L *l, V a, V b) { return l_bin(l, LLVMOr, a, b); }
V l_not(L *l, V a) { return LLVMBuildNot(l->b, a, ""); }
V l_shl(L *l, V a, int bits) { return l_bin(l, LLVMShl, a, l_int(LLVMTypeOf(a), bits)); }
V l_shr(L *l, V a, int bits) { return l_bin(l, LLVMLShr, a, l_int(LLVMTypeOf(a), bits)); }
V l_sar(L *l, V a, int bits) { return l_bin(l, LLVMAShr, a, l_int(LLVMTypeOf(a), bits)); }
V l_fadd(L *l, V a, V b) { return l_bin(l, LLVMFAdd, a, b); }
V l_fsub(L *l, V a, V b) { return l_bin(l, LLVMFSub, a, b); }
V l_fmul(L *l, V a, V b) { return l_bin(l, LLVMFMul, a, b); }
V l_fdiv(L *l, V a, V b) { return l_bin(l, LLVMFDiv, a, b); }

V l_icmp(L *l, LLVMIntPredicate p, V a, V b)
{
    l_match(l, &a, &b);
    return LLVMBuildICmp(l->b, p, a, b, "");
}

V l_fcmp(L *l, LLVMRealPredicate p, V a, V b)
{
    l_match(l, &a, &b);
    return LLVMBuildFCmp(l->b, p, a, b, "");
}

V l_select(L *l, V c, V a, V b)
{
    int64_t known;
    if (l_constant(c, &known))
        return known ? a : b;
    l_match(l, &a, &b);
    if (l_width(c)) {
        a = l_splat(l, a, l_width(c));
        b = l_splat(l, b, l_width(c));
    }
    return LLVMBuildSelect(l->b, c, a, b, "");
}

V l_min(L *l, V a, V b) { return l_select(l, l_icmp(l, LLVMIntSLT, a, b), a, b); }
V l_round_up(L *l, V v, int64_t to) { return l_and(l, l_add(l, v, l_i64(l, to - 1)), l_i64(l, -to)); }
V l_max(L *l, V a, V b) { return l_select(l, l_icmp(l, LLVMIntSGT, a, b), a, b); }

V l_cast(L *l, LLVMOpcode op, V v, Ty scalar) { return LLVMBuildCast(l->b, op, v, l_like(l, scalar, v), ""); }

V l_bits(L *l, V v, Ty scalar) { return l_cast(l, LLVMBitCast, v, scalar); }

V l_lane(L *l, V v, V index) { return LLVMBuildExtractElement(l->b, v, index, ""); }

int l_constant_lanes(L *l, V v, int64_t *value)
{
    if (!l_width(v))
        return l_constant(v, value);
    return LLVMIsConstant(v) && l_constant(l_lane(l, v, l_i32(l, 0)), value) &&
           v == l_splat(l, l_i64(l, *value), l_width(v));
}

V l_lane_bits(L *l, V mask)
{
    return LLVMBuildBitCast(l->b, mask, LLVMIntTypeInContext(l->ctx, l_width(mask)), "");
}

/* Lanes of a and b, one behind the other; behind both of them anything. */
static V shuffled(L *l, V a, V b, uint32_t from, uint32_t n)
{
    V lane[2 * LANES_MAX];
    for (uint32_t i = 0; i < n; i++)
        lane[i] = from + i < 2 * l_width(a) ? l_i32(l, from + i) : LLVMGetPoison(l->i32);
    return LLVMBuildShuffleVector(l->b, a, b, LLVMConstVector(lane, n), "");
}

V l_part(L *l, V v, uint32_t from, uint32_t n)
{
    return shuffled(l, v, LLVMGetPoison(LLVMTypeOf(v)), from, n);
}

V l_join(L *l, V a, V b)
{
    uint32_t n = l_width(a), m = l_width(b);
    return shuffled(l, a, n == m ? b : l_part(l, b, 0, n), 0, n + m);
}

V l_any(L *l, V mask)
{
    if (!l_width(mask))
        return mask;
    V bits = l_lane_bits(l, mask);
    return l_icmp(l, LLVMIntNE, bits, l_int(LLVMTypeOf(bits), 0));
}

/* ---- memory ---- */

static unsigned own_align(Ty t)
{
    Ty s = scalar_of(t);
    LLVMTypeKind kind = LLVMGetTypeKind(s);
    if (kind == LLVMIntegerTypeKind)
        return LLVMGetIntTypeWidth(s) < 8 ? 1 : LLVMGetIntTypeWidth(s) / 8;
    return kind == LLVMHalfTypeKind ? 2 : kind == LLVMFloatTypeKind ? 4 : 8;
}

V l_load(L *l, Ty type, V ptr, unsigned align)
{
    V v = LLVMBuildLoad2(l->b, type, ptr, "");
    LLVMSetAlignment(v, align ? align : own_align(type));
    return v;
}

V l_store(L *l, V v, V ptr, unsigned align)
{
    V s = LLVMBuildStore(l->b, v, ptr);
    LLVMSetAlignment(s, align ? align : own_align(LLVMTypeOf(v)));
    return s;
}

V l_store_past(L *l, V v, V ptr, unsigned align)
{
    V s = l_store(l, v, ptr, align);
    LLVMMetadataRef one = LLVMValueAsMetadata(l_i32(l, 1));
    LLVMSetMetadata(s, l->md_past, LLVMMetadataAsValue(l->ctx, LLVMMDNodeInContext2(l->ctx, &one, 1)));
    return s;
}

V l_at(L *l, Ty elem, V ptr, V index) { return LLVMBuildInBoundsGEP2(l->b, elem, ptr, &index, 1, ""); }

V l_field(L *l, Ty type, V ptr, unsigned field) { return LLVMBuildStructGEP2(l->b, type, ptr, field, ""); }

V l_slot(L *l, Ty type, const char *name)
{
    Block back = l_here(l);
    V first = LLVMGetFirstInstruction(l->entry);
    if (first)
        LLVMPositionBuilderBefore(l->b, first);
    else
        l_enter(l, l->entry);
    V slot = LLVMBuildAlloca(l->b, type, name);
    l_enter(l, back);
    return slot;
}

V l_slot_bytes(L *l, uint64_t bytes, const char *name)
{
    V slot = l_slot(l, LLVMArrayType2(l->i8, bytes), name);
    LLVMSetAlignment(slot, LAYOUT_LINE_BYTES);
    return slot;
}

V l_byte(L *l, V ptr, V offset) { return l_at(l, l->i8, ptr, offset); }

/* ---- calls ---- */

V l_declare(L *l, const char *name, Ty type)
{
    V fn = LLVMGetNamedFunction(l->mod, name);
    return fn ? fn : LLVMAddFunction(l->mod, name, type);
}

V l_call(L *l, V fn, const V *args, unsigned n)
{
    return l_call_at(l, LLVMGlobalGetValueType(fn), fn, args, n);
}

V l_call_at(L *l, Ty type, V address, const V *args, unsigned n)
{
    return LLVMBuildCall2(l->b, type, address, (V *)(uintptr_t)args, n, "");
}

V l_intrinsic2(L *l, const char *name, Ty a, Ty b, const V *args, unsigned n)
{
    Ty types[2] = {a, b};
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    V fn = LLVMGetIntrinsicDeclaration(l->mod, id, types, a ? b ? 2 : 1 : 0);
    return l_call(l, fn, args, n);
}

V l_intrinsic(L *l, const char *name, Ty overload, const V *args, unsigned n)
{
    return l_intrinsic2(l, name, overload, NULL, args, n);
}

Ty l_fn_type(L *l, Ty result, const Ty *params, unsigned n)
{
    (void)l;
    return LLVMFunctionType(result, (Ty *)(uintptr_t)params, n, 0);
}

void l_shared(L *l, V fn_or_global)
{
    LLVMSetLinkage(fn_or_global, l->split ? LLVMExternalLinkage : LLVMInternalLinkage);
    LLVMSetVisibility(fn_or_global, l->split ? LLVMHiddenVisibility : LLVMDefaultVisibility);
}

V l_shared_function(L *l, const char *name, Ty type)
{
    V fn = l_declare(l, name, type);
    l_shared(l, fn);
    return fn;
}

void l_attribute(L *l, V fn, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, (unsigned)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(l->ctx, kind, 0));
}

void l_pure(L *l, V fn)
{
    l_attribute(l, fn, "memory"); /* none */
    l_attribute(l, fn, "willreturn");
}

void l_plain(L *l, V fn)
{
    l_attribute(l, fn, "nounwind");
    l_attribute_text(l, fn, "target-cpu", family_table[l->family].cpu);
}

void l_quick(L *l, V fn)
{
    l_attribute(l, fn, "optnone");
    l_attribute(l, fn, "noinline");
}

void l_quick_later(L *l, V fn) { vec_push(l->arena, &l->later, fn); }

void l_optimized(L *l)
{
    for (uint32_t i = 0; i < l->later.len; i++)
        l_quick(l, l->later.at[i]);
}

void l_attribute_text(L *l, V fn, const char *name, const char *value)
{
    LLVMAttributeRef a =
        LLVMCreateStringAttribute(l->ctx, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(fn, (unsigned)LLVMAttributeFunctionIndex, a);
}

/* ---- blocks ---- */

Block l_block(L *l, const char *name) { return LLVMAppendBasicBlockInContext(l->ctx, l->fn, name); }

void l_enter(L *l, Block b) { LLVMPositionBuilderAtEnd(l->b, b); }

void l_goto(L *l, Block to) { LLVMBuildBr(l->b, to); }

void l_branch(L *l, V condition, Block then, Block otherwise)
{
    LLVMBuildCondBr(l->b, condition, then, otherwise);
}

Block l_here(L *l) { return LLVMGetInsertBlock(l->b); }

V l_phi(L *l, Ty type, V a, Block from_a, V b, Block from_b)
{
    V phi = LLVMBuildPhi(l->b, type, "");
    LLVMAddIncoming(phi, &a, &from_a, 1);
    if (b)
        LLVMAddIncoming(phi, &b, &from_b, 1);
    return phi;
}

Block l_to_entry(L *l)
{
    Block back = l_here(l);
    LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->entry));
    return back;
}

void l_from_entry(L *l, Block back) { l_enter(l, back); }

void l_begin(L *l, V fn)
{
    l->fn = fn;
    l->entry = l_block(l, "entry");
    Block first = l_block(l, "first");
    l_enter(l, l->entry);
    l_goto(l, first);
    l_enter(l, first);
}

Aside l_begin_aside(L *l, V fn)
{
    Aside a = {l->fn, l->entry, l_here(l), LLVMGetCurrentDebugLocation2(l->b)};
    LLVMSetCurrentDebugLocation2(l->b, NULL);
    l_begin(l, fn);
    return a;
}

void l_end_aside(L *l, const Aside *a)
{
    l->fn = a->fn;
    l->entry = a->entry;
    l_enter(l, a->here);
    LLVMSetCurrentDebugLocation2(l->b, a->line);
}

/* The same value, of which LLVM does not know that it is: users of a loop's variable are looked at again and again
 * (induction variables, strength reduction), a tenth of all code generation. */
static V hidden(L *l, V v)
{
    V args[2] = {v, l_i64(l, 0)};
    return l_intrinsic(l, "llvm.expect", l->i64, args, 2);
}

For l_for(L *l, V lo, V hi, int64_t step, const char *name)
{
    For f = {.body = l_block(l, name), .exit = l_block(l, "done"), .hi = hi, .outside = l_here(l)};
    Block before = l_block(l, "before");
    l_branch(l, l_icmp(l, LLVMIntSLT, lo, hi), before, f.exit);
    l_enter(l, before);
    l_goto(l, f.body);
    l_enter(l, f.body);
    f.phi = l_phi(l, l->i64, lo, before, NULL, NULL);
    f.var = l->hides ? hidden(l, f.phi) : f.phi;
    f.next = l_i64(l, step);
    return f;
}

void l_end_for(L *l, For *f)
{
    V next = LLVMBuildNSWAdd(l->b, f->var, f->next, "");
    Block latch = l_here(l);
    LLVMAddIncoming(f->phi, &next, &latch, 1);
    l_branch(l, l_icmp(l, LLVMIntSLT, next, f->hi), f->body, f->exit);
    l_enter(l, f->exit);
}

EachLane l_each_lane(L *l, V mask)
{
    V bits = l_lane_bits(l, mask);
    if (LLVMGetIntTypeWidth(LLVMTypeOf(bits)) < 64)
        bits = LLVMBuildZExt(l->b, bits, l->i64, "");
    Ty word = LLVMTypeOf(bits); /* more than 64 bits where there are more lanes */
    EachLane x = {.body = l_block(l, "lanes"), .done = l_block(l, "done")};
    Block before = l_here(l);
    l_branch(l, l_icmp(l, LLVMIntNE, bits, l_int(word, 0)), x.body, x.done);
    l_enter(l, x.body);
    x.left = l_phi(l, word, bits, before, NULL, NULL);
    V args[2] = {x.left, l_true(l)};
    V lane = l_intrinsic(l, "llvm.cttz", word, args, 2);
    x.lane = LLVMBuildTruncOrBitCast(l->b, lane, l->i64, "");
    return x;
}

void l_end_lanes(L *l, EachLane *x)
{
    Ty word = LLVMTypeOf(x->left);
    V next = l_and(l, x->left, l_sub(l, x->left, l_int(word, 1)));
    Block latch = l_here(l);
    LLVMAddIncoming(x->left, &next, &latch, 1);
    l_branch(l, l_icmp(l, LLVMIntNE, next, l_int(word, 0)), x->body, x->done);
    l_enter(l, x->done);
}

LoopCarry l_carry(L *l, const For *f, V *values, uint32_t n)
{
    LoopCarry c = {values, arena_array(l->arena, V, n), arena_array(l->arena, V, n), n};
    Block before = LLVMGetIncomingBlock(f->phi, 0);
    for (uint32_t i = 0; i < n; i++) {
        c.first[i] = values[i];
        c.phi[i] = values[i] = l_phi(l, LLVMTypeOf(values[i]), values[i], before, NULL, NULL);
    }
    return c;
}

void l_carried(L *l, For *f, LoopCarry *c)
{
    Block latch = l_here(l);
    for (uint32_t i = 0; i < c->n; i++)
        LLVMAddIncoming(c->phi[i], &c->now[i], &latch, 1);
    l_end_for(l, f);
    for (uint32_t i = 0; i < c->n; i++)
        c->now[i] = l_phi(l, LLVMTypeOf(c->phi[i]), c->first[i], f->outside, c->now[i], latch);
}

When l_when(L *l, V condition)
{
    Block then = l_block(l, "then");
    When w = {l_block(l, "fi")};
    l_branch(l, condition, then, w.exit);
    l_enter(l, then);
    return w;
}

void l_end_when(L *l, When *w)
{
    l_goto(l, w->exit);
    l_enter(l, w->exit);
}
