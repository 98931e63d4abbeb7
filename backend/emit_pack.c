/* pack: a box of an expression goes into a panel, in the end by a function that is given rows: of memory as it lies
 * (emit_pack_run.c), or of values that are computed. Lanes, and so rows, go over the axis of the box in which most of
 * what is read is contiguous. */
#include "backend/emit_pack.h"

/* ---- which axis ---- */

/* Lanes over var read this one by one. */
static int is_scattered(const Plan *p, ExprId load, IndexId var)
{
    const Expr *n = x_at(p->k, load);
    const Buffer *b = &p->buffers.at[n->sym];
    int used = 0;
    for (uint32_t i = 0; i < n->nargs; i++)
        used |= x_uses_index(p->k, x_arg(p->k, load, i), var) && i + 1 < n->nargs;
    if (used || !n->nargs || !x_uses_index(p->k, x_arg(p->k, load, n->nargs - 1u), var))
        return used;
    return b->layout == LAYOUT_PAIRS || !x_is_unit(p->k, x_arg(p->k, load, n->nargs - 1u), var);
}

uint8_t pack_lane_axis(const Plan *p, const Stmt *s)
{
    uint32_t scattered[2] = {0, 0};
    each_below (x, p->k, s->value, EVERYWHERE) {
        for (int i = 0; i < 2 && x_at(p->k, *x)->kind == X_LOAD; i++)
            scattered[i] += (uint32_t)is_scattered(p, *x, s->bound[i]);
    }
    return layout_is_dense(p->buffers.at[s->buffer].layout) || scattered[1] <= scattered[0];
}

uint64_t pack_helpers(const Plan *p, const Stmt *s)
{
    const Buffer *b = &p->buffers.at[s->buffer];
    if (layout_is_dense(b->layout))
        return 0;
    ExprId read = pack_run(p, s);
    Elem source = read == NONE ? b->elem : p->buffers.at[x_at(p->k, read)->sym].elem;
    return pack_run_helpers(p, s, source);
}

/* ---- values row after row ---- */

typedef struct PackRows {
    Emit *e;
    L *l;
    const Pack *x;
    uint32_t width;
    V row, column; /* of the box: the index of the other axis, and the first of the lane axis */
    V to;          /* where the row's elements from column on go */
    uint32_t buffer;
} PackRows;

/* The elements from column + first on; `tail`: those that exist. */
static void put_lanes(PackRows *r, V first, V tail)
{
    Emit *e = r->e;
    L *l = r->l;
    const Pack *x = r->x;
    e->index[x->s->bound[x->axis]] = l_add(l, x->lo[x->axis], l_add(l, r->column, first));
    e->index[x->s->bound[!x->axis]] = l_add(l, x->lo[!x->axis], r->row);
    if (e->width)
        e->var_lanes = l_add(l, l_splat(l, e->index[e->var], e->width), l_iota(l, l->i64, e->width));
    e->tail = tail;
    V raw = l_splat(l, emit_encode(e, x->elem, emit_value(e, x->s->value)), e->width);
    emit_forget(e, 0);
    e->tail = NULL;
    V at = l_at(l, emit_memory_type(l, x->elem), r->to, first);
    if (tail && r->buffer != NONE)
        emit_store_run(e, r->buffer, at, raw, tail);
    else
        emit_alias(e, l_store(l, raw, at, 0), r->buffer);
}

/* n elements: whole vectors, and what fills none under a mask, or where masks cost something one by one. */
static void put_row(PackRows *r, V n)
{
    Emit *e = r->e;
    L *l = r->l;
    V whole = l_and(l, n, l_i64(l, -(int64_t)r->width));
    int masked = cpu_can(e->p->cpu, CPU_MASKS);
    emit_lanes_over(e, r->x->s->bound[r->x->axis], r->width);
    For f = l_for(l, l_i64(l, 0), whole, r->width, "lanes");
    put_lanes(r, f.var, NULL);
    l_end_for(l, &f);
    if (masked) {
        When rest = l_when(l, l_icmp(l, LLVMIntSLT, whole, n));
        put_lanes(r, whole, emit_first_lanes(e, l_sub(l, n, whole)));
        l_end_when(l, &rest);
    }
    emit_lanes_over(e, NONE, 0);
    if (masked)
        return;
    f = l_for(l, whole, n, 1, "lane");
    put_lanes(r, f.var, NULL);
    l_end_for(l, &f);
}

static void pack_rows(Pack *x)
{
    L *l = x->l;
    PackRows r = {
        .e = x->e, .l = l, .x = x, .width = x->width, .column = l_i64(l, 0), .buffer = x->s->buffer};
    V stride = emit_stride(x->e, x->s->buffer, x->s->nindex - 2u);
    For row = l_for(l, l_i64(l, 0), x->n[0], 1, "row");
    r.row = row.var;
    r.to = l_at(l, emit_memory_type(l, x->elem), x->at, l_mul(l, row.var, stride));
    put_row(&r, x->n[1]);
    l_end_for(l, &row);
}

/* Values that are computed are written down as rows, some at a time, that a function packs. */
static void pack_block(Pack *x, PackRows *r, V rows, V columns, V to)
{
    L *l = x->l;
    V first = r->row, pitch = l_i64(l, PACK_BLOCK_COLUMNS * (int64_t)elem_bytes(x->elem));
    For row = l_for(l, l_i64(l, 0), rows, 1, "row");
    r->row = l_add(l, first, row.var);
    r->to = l_byte(l, x->e->scratch, l_mul(l, row.var, pitch));
    put_row(r, columns);
    l_end_for(l, &row);
    V fn = pack_helper(x->e->p, pack_kind(x->layout, x->axis, x->elem, x->elem));
    V args[8] = {fn, x->e->scratch, pitch, rows, columns, to, x->block, l_i64(l, 0)};
    l_call(l, x->e->p->shared->strided, args, 8);
}

static void pack_computed(Pack *x)
{
    L *l = x->l;
    PackRows r = {.e = x->e, .l = l, .x = x, .width = x->width, .buffer = NONE};
    if (!x->e->scratch)
        x->e->scratch = l_slot_bytes(l, PACK_BLOCK_ROWS * PACK_BLOCK_COLUMNS * elem_bytes(EL_F32), "scratch");
    For i = l_for(l, l_i64(l, 0), x->n[!x->axis], PACK_BLOCK_ROWS, "rows");
    V rows = l_min(l, l_sub(l, x->n[!x->axis], i.var), l_i64(l, PACK_BLOCK_ROWS));
    For j = l_for(l, l_i64(l, 0), x->n[x->axis], PACK_BLOCK_COLUMNS, "columns");
    V columns = l_min(l, l_sub(l, x->n[x->axis], j.var), l_i64(l, PACK_BLOCK_COLUMNS));
    r.row = i.var;
    r.column = j.var;
    V to = l_byte(l, l_byte(l, x->at, pack_bytes(x, !x->axis, i.var)), pack_bytes(x, x->axis, j.var));
    pack_block(x, &r, rows, columns, to);
    l_end_for(l, &j);
    l_end_for(l, &i);
}

/* ---- the statement ---- */

static void begin_pack(Pack *x)
{
    L *l = x->l;
    const Stmt *s = x->s;
    if (x->e->width)
        BUG(l->arena, "backend: kernel %s packs in a vector loop", x->e->k->name);
    for (int i = 0; i < 2; i++) {
        x->lo[i] = emit_value(x->e, s->from[i]);
        x->n[i] = l_max(l, l_sub(l, emit_value(x->e, s->to[i]), x->lo[i]), l_i64(l, 0));
    }
    x->at = emit_address(x->e, s->buffer, s->index, s->nindex);
    int64_t bytes =
        x->layout == LAYOUT_LINES ? LAYOUT_LINE_BYTES : LAYOUT_EDGE * (int64_t)elem_bytes(x->elem);
    if (!layout_is_dense(x->layout))
        x->block = l_mul(l, emit_padded(x->e, s->buffer, 0), l_i64(l, bytes));
    emit_forget(x->e, 0);
}

/* The heights of fragments of several rows are multiples of it, or divide it. */
enum { LEAST_ROWS = 4 };

/* A fragment multiplies the rows behind the last one, too: what stood there could be subnormal, and each product of such a number takes
 * a hundred cycles. (Products of bf16 take it for 0.) */
static void zero_rows_behind(Pack *x)
{
    L *l = x->l;
    V first = x->n[0], end = l_round_up(l, first, LEAST_ROWS);
    V zeros = LLVMConstNull(LLVMVectorType(l->i32, WORDS));
    For block = l_for(l, l_i64(l, 0), x->n[1], WORDS, "blocks");
    V at = l_byte(l, x->at, l_mul(l, l_sar(l, block.var, 4), x->block));
    For row = l_for(l, first, end, 1, "zeros");
    l_store(l, zeros, l_byte(l, at, l_mul(l, row.var, l_i64(l, LAYOUT_LINE_BYTES))), LAYOUT_WORD_BYTES);
    l_end_for(l, &row);
    l_end_for(l, &block);
}

/* Is it a left operand of f32 from the first row of a thread's block on? */
static int has_rows_behind(const Plan *p, const Stmt *s)
{
    const Buffer *b = &p->buffers.at[s->buffer];
    const Expr *row = x_at(p->k, s->index[0]);
    return b->layout == LAYOUT_LINES && b->elem == EL_F32 && b->space == SPACE_THREAD && row->kind == X_INT &&
           row->value.i == 0;
}

void emit_tile_pack(Emit *e, StmtId id)
{
    const Stmt *s = &e->p->p->stmts.at[id];
    const Buffer *b = &e->p->buffers.at[s->buffer];
    Pack x = {.e = e, .l = e->l, .s = s, .axis = e->p->lane_axis[id], .elem = b->elem, .layout = b->layout};
    pack_init(&x);
    begin_pack(&x);
    ExprId read = pack_run(e->p, s);
    if (layout_is_dense(x.layout))
        pack_rows(&x);
    else if (read == NONE)
        pack_computed(&x);
    else
        emit_pack_run(&x, read);
    if (has_rows_behind(e->p, s))
        zero_rows_behind(&x);
    e->index[s->bound[0]] = e->index[s->bound[1]] = NULL;
}
