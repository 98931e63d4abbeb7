/* Integers of lanes in 32 bits.
 *
 * Note [Narrow lanes]. Integers have 64 bits. Of lanes half as many fit a register, and CPUs turn them into floats slowly. Where
 * all that a float is made of fits 32 bits whatever elements hold, as a nibble of a word, imod(idiv(w, 256), 16) - 8, it is
 * computed again in 32 bits, and LLVM drops the rest. What is not recognised stays as it is. */
#include "backend/emit.h"

enum { NARROW_NODES = 64 }; /* operations that are looked at, one that is used twice twice */

/* Lanes of 32 bits, and between which values they are; lanes NULL: they may not fit. */
typedef struct Narrow {
    V lanes;
    int64_t lo, hi;
    V from, bits; /* lanes are `from` shifted right by so many bits, the same for all; or NULL */
} Narrow;

static Narrow narrow(L *l, V v, int *nodes);

static Narrow fitting(V lanes, int64_t lo, int64_t hi)
{
    int fits = lo >= INT32_MIN && hi <= INT32_MAX;
    return (Narrow){fits ? lanes : NULL, lo, hi, NULL, NULL};
}

static Narrow word(L *l, V lanes) { return (Narrow){lanes, INT32_MIN, INT32_MAX, lanes, l_i32(l, 0)}; }

static Narrow moved(L *l, V from, V bits, int64_t lo, int64_t hi)
{
    return (Narrow){LLVMBuildAShr(l->b, from, l_splat(l, bits, l_width(from)), ""), lo, hi, from, bits};
}

static Narrow narrow_sum(L *l, V v, int *nodes)
{
    int adds = LLVMGetInstructionOpcode(v) == LLVMAdd;
    Narrow a = narrow(l, LLVMGetOperand(v, 0), nodes), b = narrow(l, LLVMGetOperand(v, 1), nodes);
    if (!a.lanes || !b.lanes)
        return (Narrow){0};
    return adds ? fitting(l_add(l, a.lanes, b.lanes), a.lo + b.lo, a.hi + b.hi)
                : fitting(l_sub(l, a.lanes, b.lanes), a.lo - b.hi, a.hi - b.lo);
}

/* By 2^bits, rounded down. */
static Narrow narrow_quotient(L *l, V v, int *nodes)
{
    int64_t bits;
    if (!l_constant_lanes(l, LLVMGetOperand(v, 1), &bits) || bits > 31)
        return (Narrow){0};
    Narrow a = narrow(l, LLVMGetOperand(v, 0), nodes);
    return a.lanes ? moved(l, a.lanes, l_i32(l, (int32_t)bits), a.lo >> bits, a.hi >> bits) : a;
}

/* Of what does not fit, too, the low bits are these. */
static Narrow narrow_mask(L *l, V v, int *nodes)
{
    int64_t mask;
    if (!l_constant_lanes(l, LLVMGetOperand(v, 1), &mask) || mask < 0 || mask > INT32_MAX)
        return (Narrow){0};
    V from = LLVMGetOperand(v, 0);
    Narrow a = narrow(l, from, nodes);
    V low = a.lanes ? a.lanes : l_cast(l, LLVMTrunc, from, l->i32);
    return fitting(l_and(l, low, l_int(LLVMTypeOf(low), mask)), 0, mask);
}

/* Of two shifts of one word, the same for all lanes, the number of bits is chosen. */
static Narrow narrow_choice(L *l, V v, int *nodes)
{
    V which = LLVMGetOperand(v, 0);
    Narrow a = narrow(l, LLVMGetOperand(v, 1), nodes), b = narrow(l, LLVMGetOperand(v, 2), nodes);
    if (!a.lanes || !b.lanes)
        return (Narrow){0};
    int64_t lo = a.lo < b.lo ? a.lo : b.lo, hi = a.hi > b.hi ? a.hi : b.hi;
    if (a.from && a.from == b.from && !l_width(which))
        return moved(l, a.from, l_select(l, which, a.bits, b.bits), lo, hi);
    return fitting(l_select(l, which, a.lanes, b.lanes), lo, hi);
}

static Narrow narrow(L *l, V v, int *nodes)
{
    int64_t value;
    if (l_constant_lanes(l, v, &value))
        return fitting(l_int(LLVMVectorType(l->i32, l_width(v)), value), value, value);
    if (!LLVMIsAInstruction(v) || --*nodes < 0)
        return (Narrow){0};
    LLVMOpcode op = LLVMGetInstructionOpcode(v);
    if (op == LLVMSExt && LLVMGetElementType(LLVMTypeOf(LLVMGetOperand(v, 0))) == l->i32)
        return word(l, LLVMGetOperand(v, 0));
    return op == LLVMAdd || op == LLVMSub ? narrow_sum(l, v, nodes)
           : op == LLVMAShr               ? narrow_quotient(l, v, nodes)
           : op == LLVMAnd                ? narrow_mask(l, v, nodes)
           : op == LLVMSelect             ? narrow_choice(l, v, nodes)
                                          : (Narrow){0};
}

V emit_narrow(L *l, V v)
{
    int nodes = NARROW_NODES;
    Narrow n = l_width(v) && LLVMGetElementType(LLVMTypeOf(v)) == l->i64 ? narrow(l, v, &nodes) : (Narrow){0};
    return n.lanes ? n.lanes : v;
}
