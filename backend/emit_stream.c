/* What a launch without products asks of memory, which is what it waits for: stores past the caches, and rows ahead.
 *
 * Note [Streams]. Of an output that is larger than the caches nothing is left there for whoever reads it next. But an ordinary
 * store first reads the line that it writes, and what it keeps drives out what is still wanted. So a launch that
 * moves memory stores what it only writes past the caches when there is that much of it (caches.stream of the machine's
 * description). Such stores want whole, aligned vectors; the others, ends of rows and what
 * stands elsewhere, go the ordinary way: a test of the address tells, with a mask that no address passes where the buffer is
 * small. They are not ordered with other stores, so the body ends with a fence.
 * Weights and their gradients are many tensors that take turns: each is read again when all others have been written. So less
 * counts as much (caches.stream_weights): of what a product leaves in memory of the caller's, which for few rows waits for
 * memory; and of packed tensors that an update writes beside its masters, of what the launch goes over in all. Panels consist
 * of whole lines; their pack functions exist twice.
 *
 * Note [Ahead]. Where several loops go over the same row of something large, of a norm's input say, the first one waits for
 * memory, and memory waits while the others compute. What the CPU fetches by itself ends with a page, and of two rows in a page it
 * fetches what lies between them. So where rows are at least half a page apart, the last of the loops asks for a row that will be
 * wanted a few rows later: KNOB_ahead of ir/schedule.def, 8 unless a schedule gives it (measured on an EPYC (Zen 4) with one thread,
 * against none: the backward of RMSNorm over 8192 x 2048 bf16 takes 3.79 instead of 5.01 ms). And where a core does not foresee
 * enough (CPU_ASKS_RUNS), every other loop over something that is larger than the second cache asks for what it reads RUN_AHEAD on,
 * and no rows are asked for (measured on an Emerald Rapids with one thread: with the next row RMSNorm takes 0.86 to 1.10 of the time,
 * with 2 to 32 rows 0.95 to 1.13; its backward 0.85 to 1.2, and from 32768 x 2048 bf16 on 1.2 to 1.4).
 *   A sum of columns goes over rows inside its lanes, and each row is on another page: it asks for the columns of a later row,
 * likewise so many rows on (measured there: sums of columns of 4096 x 4096 bf16 take 0.71 of the time, of the product of two of
 * 4096 x 8192 0.54; of what is smaller than caches.stream up to 1.7).
 *   So does a loop over rows with something else between them, as over the positions of a cache [B, S, heads, D] for one head. Short rows
 * count together: it takes some 4 KiB on their way to keep memory busy (measured there, one query for each of 32 heads beside 4096
 * keys, heads of 128: f32 takes 0.76 of the time, bf16 0.57, with 8 rows of 256 bytes 0.67 and with 32 again 0.57; with 8 heads, whose
 * rows are 2 KiB apart, bf16 0.46). */
#include "backend/emit.h"
#include "backend/family.h"
#include "machines/machines.h"

enum { SHORT_ROW = 512 };

static void prefetch(L *l, V at, int32_t locality)
{
    V args[4] = {at, l_i32(l, 0), l_i32(l, locality), l_i32(l, 1)};
    l_intrinsic(l, "llvm.prefetch", l->ptr, args, 4);
}

void emit_ask(L *l, V at) { prefetch(l, at, 2); }
void emit_ask_near(L *l, V at) { prefetch(l, at, 3); }

void emit_ask_lines(L *l, V at, V last, int64_t lines)
{
    for (int64_t line = 0; line < lines; line++)
        emit_ask(l, l_byte(l, at, l_min(l, l_i64(l, line * LAYOUT_LINE_BYTES), last)));
}

static const Stmt *settings(const Emit *e) { return &e->p->p->stmts.at[e->launch->stmt]; }

/* One of two values, known in the whole function: the first where the buffer has so many bytes. */
static V if_large(Emit *e, uint32_t buffer, int64_t least, V large, V small)
{
    L *l = e->l;
    V all = emit_bytes(e, buffer);
    Block back = l_to_entry(l);
    V v = l_select(l, l_icmp(l, LLVMIntSGE, all, l_i64(l, least)), large, small);
    l_from_entry(l, back);
    return v;
}

/* From so many bytes on nothing of an output is left in the caches. */
static int64_t stream_bytes(const Emit *e)
{
    const Machine *m = machine_host(e->l->arena);
    return e->launch->has_product ? m->caches.stream_weights : m->caches.stream;
}

static int may_stream(const Emit *e, uint32_t buffer)
{
    const Buffer *b = &e->p->buffers.at[buffer];
    return e->launch && !e->launch->reads[buffer] && layout_is_dense(b->layout) &&
           (b->space == SPACE_GM || (b->space == SPACE_WORK && !e->launch->has_product));
}

/* Beside products every trip has a mask, to be less code (emit_stmt.c); elsewhere only the last one has. */
static V is_whole(L *l, V mask)
{
    Ty bits = LLVMIntTypeInContext(l->ctx, l_width(mask));
    return l_icmp(l, LLVMIntEQ, LLVMBuildBitCast(l->b, mask, bits, ""), LLVMConstAllOnes(bits));
}

int emit_stream(Emit *e, uint32_t buffer, V at, V raw, V mask)
{
    L *l = e->l;
    uint32_t bytes = l_width(raw) * (uint32_t)elem_bytes(e->p->buffers.at[buffer].elem);
    if (!may_stream(e, buffer) || settings(e)->writes == WRITES_KEPT || bytes < STREAM_BYTES ||
        (mask && !e->launch->has_product))
        return 0;
    if (bytes > LAYOUT_LINE_BYTES)
        bytes = LAYOUT_LINE_BYTES;
    V bits = l_i64(l, bytes - 1);
    if (settings(e)->writes == WRITES_BY_SIZE)
        bits = if_large(e, buffer, stream_bytes(e), bits, l_i64(l, -1));
    V unfit = l_and(l, LLVMBuildPtrToInt(l->b, at, l->i64, ""), bits);
    V fits = l_icmp(l, LLVMIntEQ, unfit, l_i64(l, 0));
    Block past = l_block(l, "past"), kept = l_block(l, "kept"), stored = l_block(l, "stored");
    l_branch(l, mask ? l_and(l, fits, is_whole(l, mask)) : fits, past, kept);
    l_enter(l, past);
    emit_alias(e, l_store_past(l, raw, at, bytes), buffer);
    l_goto(l, stored);
    l_enter(l, kept);
    emit_store_kept(e, buffer, at, raw, mask);
    l_goto(l, stored);
    l_enter(l, stored);
    e->streams = 1;
    return 1;
}

/* Bytes of all that the launch goes over, known in the whole function. */
static V launch_bytes(Emit *e)
{
    L *l = e->l;
    V all = l_i64(l, 0);
    for (uint32_t i = 0; i < e->launch->slots.len; i++) {
        const Slot *s = &e->launch->slots.at[i];
        if (s->is_dim || e->p->buffers.at[s->id].by_value || e->p->buffers.at[s->id].space != SPACE_GM)
            continue;
        V bytes = emit_bytes(e, s->id);
        Block back = l_to_entry(l);
        all = l_add(l, all, bytes);
        l_from_entry(l, back);
    }
    return all;
}

V emit_streams_lines(Emit *e, uint32_t buffer)
{
    L *l = e->l;
    if (!e->launch || e->launch->has_product || settings(e)->writes == WRITES_KEPT)
        return LLVMConstNull(l->i1);
    e->streams = 1;
    int always = settings(e)->writes == WRITES_PAST;
    V base = emit_base(e, buffer), all = always ? NULL : launch_bytes(e),
      least = l_i64(l, machine_host(l->arena)->caches.stream_weights);
    Block back = l_to_entry(l);
    V unfit = l_and(l, LLVMBuildPtrToInt(l->b, base, l->i64, ""), l_i64(l, LAYOUT_LINE_BYTES - 1));
    V streams = l_icmp(l, LLVMIntEQ, unfit, l_i64(l, 0));
    if (!always)
        streams = l_and(l, l_icmp(l, LLVMIntSGE, all, least), streams);
    l_from_entry(l, back);
    return streams;
}

void emit_stream_end(Emit *e)
{
    if (e->streams)
        family_hooks[e->l->family].fence(e->l);
}

/* Does the code run on a CPU that does not foresee enough? */
static int may_ask_runs(const Plan *p)
{
    int asks = 0;
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        asks |= cpu_table[isa].code == p->isa && cpu_can(&cpu_table[isa], CPU_ASKS_RUNS);
    return asks;
}

/* How far the target asks in runs, known in the whole function: targets share code. */
static V target_ahead(Emit *e)
{
    L *l = e->l;
    Block back = l_to_entry(l);
    V table = l_load(l, l->ptr, emit_data_at(e, DATA_PRODUCTS), 8);
    V far = l_load(l, l->i64, l_at(l, l->ptr, table, l_i64(l, TARGET_AHEAD)), 8);
    l_from_entry(l, back);
    return far;
}

/* How many rows ahead: none where loops ask in runs. */
static V rows_ahead(Emit *e)
{
    L *l = e->l;
    V rows = l_i64(l, settings(e)->ahead);
    if (!may_ask_runs(e->p))
        return rows;
    V far = target_ahead(e);
    Block back = l_to_entry(l);
    rows = l_select(l, l_icmp(l, LLVMIntEQ, far, l_i64(l, 0)), rows, l_i64(l, 0));
    l_from_entry(l, back);
    return rows;
}

/* The bytes that lie between a row and the one to ask for, so many rows of SHORT_ROW bytes or more on: none where it is no use, so
 * that the row itself is asked for. */
static V bytes_ahead(Emit *e, uint32_t buffer, uint32_t axis, V rows)
{
    L *l = e->l;
    const Buffer *b = &e->p->buffers.at[buffer];
    V stride = emit_stride(e, buffer, axis), row = emit_stride(e, buffer, b->rank - 2);
    V bytes = l_i64(l, (int64_t)elem_bytes(b->elem));
    Block back = l_to_entry(l);
    V length = l_max(l, l_mul(l, row, bytes), l_i64(l, 1)), apart = l_mul(l, stride, bytes);
    V each = l_max(l, LLVMBuildUDiv(l->b, l_i64(l, SHORT_ROW), length, ""), l_i64(l, 1));
    V far = l_select(l, l_icmp(l, LLVMIntSGE, apart, l_i64(l, machine_host(l->arena)->core.page / 2)),
                     l_mul(l, l_mul(l, apart, rows), each), l_i64(l, 0));
    l_from_entry(l, back);
    return if_large(e, buffer, stream_bytes(e), far, l_i64(l, 0));
}

static V run_ahead(Emit *e, uint32_t buffer)
{
    return if_large(e, buffer, machine_host(e->l->arena)->caches.l2, target_ahead(e), l_i64(e->l, 0));
}

/* The axis over which the loop inside the lanes goes: that of a sum's terms; or NONE. */
static uint32_t axis_of_terms(const Emit *e, const ExprId *index, uint32_t n)
{
    tile_each (id, e->k, tile_at(e->k, e->loop)->first) {
        const Stmt *s = tile_at(e->k, id);
        for (uint32_t a = 0; s->kind == TILE_for && s->mode == LOOP_ORDERED && a + 1 < n; a++) {
            ExprId first = x_at(e->k, index[a])->kind == X_OP ? x_arg(e->k, index[a], 0) : index[a];
            if (x_at(e->k, first)->kind == X_INDEX && x_at(e->k, first)->sym == s->var)
                return a;
        }
    }
    return NONE;
}

/* The axis over which the loop around goes, where another one lies between it and the row; or NONE. */
static uint32_t axis_around(const Emit *e, const ExprId *index, uint32_t n)
{
    for (uint32_t a = 0; a + 2 < n; a++)
        if (e->around != NONE && x_at(e->k, index[a])->kind == X_INDEX &&
            x_at(e->k, index[a])->sym == e->around)
            return a;
    return NONE;
}

/* Bytes to the row ahead, where this is the last of several loops over a row; else those in the run. NULL: nothing is asked for. */
static V far_ahead(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n)
{
    if (e->launch->again[buffer] != e->loop)
        return may_ask_runs(e->p) && e->p->buffers.at[buffer].space == SPACE_GM ? run_ahead(e, buffer) : NULL;
    int rows = settings(e)->ahead && n >= 2 && x_at(e->k, index[n - 2])->kind == X_INDEX;
    return rows ? bytes_ahead(e, buffer, n - 2, rows_ahead(e)) : NULL;
}

void emit_ahead(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n, V at)
{
    L *l = e->l;
    Buffer *b = &e->p->buffers.at[buffer];
    if (!e->launch || e->launch->has_product || e->loop == NONE || b->asked == e->loop ||
        !layout_is_dense(b->layout))
        return;
    int asks = b->space == SPACE_GM && settings(e)->ahead;
    uint32_t axis = asks ? axis_of_terms(e, index, n) : (uint32_t)NONE;
    if (asks && axis == NONE)
        axis = axis_around(e, index, n);
    V far = axis != NONE ? bytes_ahead(e, buffer, axis, l_i64(l, settings(e)->ahead))
            : e->tail    ? NULL
                         : far_ahead(e, buffer, index, n);
    if (!far)
        return;
    b->asked = e->loop;
    V first = l_byte(l, at, far);
    for (uint32_t byte = 0; byte < e->width * elem_bytes(b->elem); byte += LAYOUT_LINE_BYTES)
        (e->launch->again[buffer] == e->loop ? emit_ask : emit_ask_near)(l, l_byte(l, first, l_i64(l, byte)));
}
