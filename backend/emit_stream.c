/* Stores past the caches.
 *
 * Note [Streams]. Of an output that is larger than the caches nothing is left there for whoever reads it next. But an ordinary
 * store first reads the line that it writes, and what it keeps drives out what is still wanted. So a launch that
 * moves memory, which is to say without products, stores what it only writes past the caches when there is that much of it
 * (caches.stream of the machine's description). Such stores want whole, aligned vectors; the others, ends of rows and what
 * stands elsewhere, go the ordinary way: a test of the address tells, with a mask that no address passes where the buffer is
 * small. They are not ordered with other stores, so the body ends with a fence. */
#include "backend/emit.h"
#include "machines/machines.h"

enum { LEAST_STREAM = 16 /* bytes of a store */ };

/* Addresses that fit have none of these bits; all bits when the buffer is small. */
static V unfit_bits(Emit *e, uint32_t buffer, int64_t bytes)
{
    L *l = e->l;
    V all = emit_bytes(e, buffer), least = l_i64(l, machine_host(l->arena)->caches.stream);
    Block back = l_to_entry(l);
    V bits = l_select(l, l_icmp(l, LLVMIntSGE, all, least), l_i64(l, bytes - 1), l_i64(l, -1));
    l_from_entry(l, back);
    return bits;
}

static int may_stream(const Emit *e, uint32_t buffer)
{
    const Buffer *b = &e->p->buffers.at[buffer];
    return e->launch && !e->launch->has_product && !e->launch->reads[buffer] && layout_is_dense(b->layout) &&
           (b->space == SPACE_GM || b->space == SPACE_WORK);
}

int emit_stream(Emit *e, uint32_t buffer, V at, V raw)
{
    L *l = e->l;
    uint32_t bytes = l_width(raw) * (uint32_t)elem_bytes(e->p->buffers.at[buffer].elem);
    if (!may_stream(e, buffer) || bytes < LEAST_STREAM)
        return 0;
    if (bytes > LAYOUT_LINE_BYTES)
        bytes = LAYOUT_LINE_BYTES;
    V unfit = l_and(l, LLVMBuildPtrToInt(l->b, at, l->i64, ""), unfit_bits(e, buffer, bytes));
    Block past = l_block(l, "past"), kept = l_block(l, "kept"), stored = l_block(l, "stored");
    l_branch(l, l_icmp(l, LLVMIntEQ, unfit, l_i64(l, 0)), past, kept);
    l_enter(l, past);
    emit_alias(e, l_store_past(l, raw, at, bytes), buffer);
    l_goto(l, stored);
    l_enter(l, kept);
    emit_alias(e, l_store(l, raw, at, 0), buffer);
    l_goto(l, stored);
    l_enter(l, stored);
    e->streams = 1;
    return 1;
}

void emit_stream_end(Emit *e)
{
    if (e->streams)
        l_intrinsic(e->l, "llvm.x86.sse.sfence", NULL, NULL, 0);
}
