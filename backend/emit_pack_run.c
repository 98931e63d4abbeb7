/* pack of memory as it lies: rows of elements that are contiguous along an axis of the box, converted at most to the
 * panel's type. The statement hands the address of each row's first element to a function that is generated once for
 * the layout and types: vectors of every width and their tails are what takes long to generate. Rows that stand
 * evenly need only the first one's address; those that are gathered have their addresses computed, a few at a
 * time. */
#include "backend/emit_pack.h"

static int keeps_value(const Expr *n, Elem source, Elem panel)
{
    if (n->kind != X_OP)
        return 0;
    return n->op == OP_f32 || (n->op == OP_bf16 && (source == EL_BF16 || panel == EL_BF16)) ||
           (n->op == OP_f16 && source == EL_F16);
}

/* 1 when the elements of the load along `var` are contiguous and begin at an address that var does not change. */
static int is_run(const Plan *p, ExprId load, IndexId var)
{
    const Expr *n = x_at(p->k, load);
    const Buffer *b = &p->buffers.at[n->sym];
    if (!n->nargs || !layout_is_dense(b->layout) || b->space == SPACE_REG || b->by_value)
        return 0;
    for (uint32_t i = 0; i + 1 < n->nargs; i++)
        if (x_uses_index(p->k, x_arg(p->k, load, i), var))
            return 0;
    return x_is_unit(p->k, x_arg(p->k, load, n->nargs - 1u), var);
}

ExprId pack_run(const Plan *p, const Stmt *s)
{
    const Buffer *panel = &p->buffers.at[s->buffer];
    ExprId x = s->value;
    while (x_at(p->k, x)->kind == X_OP && x_at(p->k, x)->nargs == 1)
        x = x_arg(p->k, x, 0);
    if (x_at(p->k, x)->kind != X_LOAD || layout_is_dense(panel->layout))
        return NONE;
    Elem source = p->buffers.at[x_at(p->k, x)->sym].elem;
    if (source == EL_I32 || source == EL_I64)
        return NONE;
    for (ExprId y = s->value; y != x; y = x_arg(p->k, y, 0))
        if (!keeps_value(x_at(p->k, y), source, panel->elem))
            return NONE;
    return is_run(p, x, s->bound[pack_lane_axis(p, s)]) ? x : (ExprId)NONE;
}

/* The program's own packed tensors go past the caches, where there is enough of them. */
static int may_stream(const Plan *p, const Stmt *s, Elem source)
{
    const Buffer *b = &p->buffers.at[s->buffer];
    return b->space == SPACE_GM && b->layout == LAYOUT_PAIRS && source == b->elem;
}

uint64_t pack_run_helpers(const Plan *p, const Stmt *s, Elem source)
{
    const Buffer *b = &p->buffers.at[s->buffer];
    uint8_t axis = pack_lane_axis(p, s), past = (uint8_t)may_stream(p, s, source);
    return (uint64_t)!axis << HELPER_TRANSPOSE | (uint64_t)(!axis && past) << (HELPER_TRANSPOSE + 1) |
           (uint64_t)1 << (HELPER_PACK + pack_kind(b->layout, axis, source, b->elem)) |
           (uint64_t)past << (HELPER_PACK + pack_past_kind(axis, b->elem));
}

/* The function for the statement's rows of such elements. */
static V function_for(Pack *x, Elem source)
{
    V fn = pack_helper(x->e->p, pack_kind(x->layout, x->axis, source, x->elem));
    if (!may_stream(x->e->p, x->s, source))
        return fn;
    V past = pack_helper(x->e->p, pack_past_kind(x->axis, x->elem));
    return l_select(x->l, emit_streams_lines(x->e, x->s->buffer), past, fn);
}

/* ---- the statement ---- */

V pack_bytes(const Pack *x, uint8_t axis, V n)
{
    L *l = x->l;
    int lines = x->layout == LAYOUT_LINES, is_k = lines ? axis == 1 : axis == 0;
    int64_t terms = x->terms;
    if (lines ? !is_k : is_k)
        return lines ? l_mul(l, n, l_i64(l, LAYOUT_LINE_BYTES)) : l_mul(l, n, l_i64(l, ROW_OF_WORDS / terms));
    return l_mul(l, l_bin(l, LLVMUDiv, n, l_i64(l, lines ? WORDS * terms : LAYOUT_EDGE)), x->block);
}

/* The rows stand evenly: elements from one to the next, else NULL. */
static V stride_of(const Pack *x, ExprId read)
{
    const Kernel *k = x->e->k;
    const Expr *n = x_at(k, read);
    IndexId row = x->s->bound[!x->axis];
    V stride = l_i64(x->l, 0);
    for (uint32_t i = 0; i < n->nargs; i++) {
        ExprId at = x_arg(k, read, i);
        if (emit_unsafe(x->e, at)) /* nothing is evaluated for an empty box */
            return NULL;
        if (!x_uses_index(k, at, row))
            continue;
        if (i + 1 == n->nargs || !x_is_unit(k, at, row))
            return NULL;
        stride = l_add(x->l, stride, emit_stride(x->e, n->sym, i));
    }
    return stride;
}

static V row_at(Pack *x, ExprId read, V row)
{
    Emit *e = x->e;
    const Expr *n = x_at(e->k, read);
    ExprId index[MAX_RANK];
    for (uint32_t i = 0; i < n->nargs; i++)
        index[i] = x_arg(e->k, read, i);
    e->index[x->s->bound[x->axis]] = x->lo[x->axis];
    e->index[x->s->bound[!x->axis]] = l_add(x->l, x->lo[!x->axis], row);
    V at = emit_address(e, n->sym, index, n->nargs);
    emit_forget(e, 0);
    return at;
}

enum { LINES_ASKED = 4 }; /* the CPU foresees the others */

/* The beginning of a row of n elements that stands anywhere is asked for while its address is computed. */
static void ask_row(const Pack *x, V at, V n, Elem elem)
{
    L *l = x->l;
    V last = l_mul(l, l_sub(l, n, l_i64(l, 1)), l_i64(l, (int64_t)elem_bytes(elem)));
    emit_ask_lines(l, at, last, LINES_ASKED);
}

static void pack_gathered(Pack *x, ExprId read, Elem elem, V fn)
{
    L *l = x->l;
    V table = x->e->rows, rows = x->n[!x->axis], n = x->n[x->axis];
    if (!table)
        table = x->e->rows = l_slot(l, LLVMArrayType2(l->ptr, PACK_ROWS), "rows");
    rows = l_select(l, l_icmp(l, LLVMIntSGT, n, l_i64(l, 0)), rows, l_i64(l, 0));
    For chunk = l_for(l, l_i64(l, 0), rows, PACK_ROWS, "chunk");
    V count = l_min(l, l_sub(l, rows, chunk.var), l_i64(l, PACK_ROWS));
    For row = l_for(l, l_i64(l, 0), count, 1, "row");
    V at = row_at(x, read, l_add(l, chunk.var, row.var));
    l_store(l, at, l_at(l, l->ptr, table, row.var), 8);
    ask_row(x, at, n, elem);
    l_end_for(l, &row);
    V args[5] = {table, count, n, l_byte(l, x->at, pack_bytes(x, !x->axis, chunk.var)), x->block};
    l_call_at(l, pack_type(l), fn, args, 5);
    l_end_for(l, &chunk);
}

void emit_pack_run(Pack *x, ExprId read)
{
    L *l = x->l;
    Elem elem = x->e->p->buffers.at[x_at(x->e->k, read)->sym].elem;
    V fn = function_for(x, elem), stride = stride_of(x, read);
    if (!stride) {
        pack_gathered(x, read, elem, fn);
        return;
    }
    V args[8] = {fn,
                 row_at(x, read, l_i64(l, 0)),
                 l_mul(l, stride, l_i64(l, (int64_t)elem_bytes(elem))),
                 x->n[!x->axis],
                 x->n[x->axis],
                 x->at,
                 x->block,
                 pack_bytes(x, !x->axis, l_i64(l, PACK_ROWS))};
    l_call(l, x->e->p->shared->strided, args, 8);
}
