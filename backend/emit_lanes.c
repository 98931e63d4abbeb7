/* Lanes of the open vector loop, and their masks: Note [Masks] in emit.h. */
#include "backend/emit.h"

#include <string.h>

V emit_mask(Emit *e)
{
    if (!e->tail || !e->cond)
        return e->tail ? e->tail : e->cond;
    return l_and(e->l, e->tail, e->cond);
}

void emit_lanes_over(Emit *e, IndexId var, uint32_t width)
{
    e->var = var;
    e->width = width;
    e->tail = NULL;
    e->loop = NONE;
    memset(e->form, 0, e->k->exprs.len);
}

void emit_lanes_from(Emit *e, V first)
{
    e->index[e->var] = first;
    e->var_lanes = l_add(e->l, l_splat(e->l, first, e->width), l_iota(e->l, e->l->i64, e->width));
}

enum { MASK_LANES_MAX = 32 }; /* whose bits are made in an i64, which cannot be shifted by its width */

V emit_first_lanes(Emit *e, V left)
{
    L *l = e->l;
    if (!cpu_can(e->p->cpu, CPU_MASKS) || e->width > MASK_LANES_MAX)
        return l_icmp(l, LLVMIntSLT, l_iota(l, l->i32, e->width), l_cast(l, LLVMTrunc, left, l->i32));
    V one = l_i64(l, 1), bit = LLVMBuildShl(l->b, one, l_min(l, left, l_i64(l, e->width)), "");
    V bits = LLVMBuildTrunc(l->b, l_sub(l, bit, one), LLVMIntTypeInContext(l->ctx, e->width), "");
    return LLVMBuildBitCast(l->b, bits, LLVMVectorType(l->i1, e->width), "");
}
