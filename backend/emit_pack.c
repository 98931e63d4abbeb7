/* pack: a box of an expression goes into a panel. How, see emit_panel.c; what is read as it lies is packed by a
 * function, see emit_pack_run.c. */
#include "backend/emit.h"

/* ---- which axis ---- */

int pack_is_unit(const Kernel *k, ExprId x, IndexId var)
{
    const Expr *n = x_at(k, x);
    if (n->kind == X_INDEX)
        return n->sym == var;
    if (n->kind != X_OP || (n->op != OP_add && n->op != OP_sub))
        return 0;
    ExprId a = x_arg(k, x, 0), b = x_arg(k, x, 1);
    return (pack_is_unit(k, a, var) && !x_uses_index(k, b, var)) ||
           (n->op == OP_add && pack_is_unit(k, b, var) && !x_uses_index(k, a, var));
}

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
    return b->layout == LAYOUT_PAIRS || !pack_is_unit(p->k, x_arg(p->k, load, n->nargs - 1u), var);
}

uint8_t pack_lane_axis(const Plan *p, const Stmt *s)
{
    uint32_t scattered[2] = {0, 0};
    each_below (x, p->k, s->value, EVERYWHERE) {
        for (int i = 0; i < 2 && x_at(p->k, *x)->kind == X_LOAD; i++)
            scattered[i] += (uint32_t)is_scattered(p, *x, s->bound[i]);
    }
    return p->buffers.at[s->buffer].layout == LAYOUT_ROWS || scattered[1] <= scattered[0];
}

uint32_t pack_helpers(const Plan *p, const Stmt *s)
{
    ExprId read = pack_run(p, s);
    int turned = p->buffers.at[s->buffer].layout != LAYOUT_ROWS && !pack_lane_axis(p, s);
    uint32_t transpose = turned ? 1u << HELPER_TRANSPOSE : 0;
    return read == NONE ? transpose : transpose | 1u << (HELPER_PACK + pack_kind(p, s, read));
}

/* ---- the value ---- */

static V evaluate(Pack *x, V first, V other, V tail)
{
    Emit *e = x->e;
    L *l = x->l;
    e->index[x->s->bound[x->axis]] = l_add(l, x->lo[x->axis], first);
    e->index[x->s->bound[!x->axis]] = l_add(l, x->lo[!x->axis], other);
    e->var_lanes = l_add(l, l_splat(l, e->index[e->var], e->width), l_iota(l, l->i64, e->width));
    e->tail = tail;
    V raw = l_splat(l, emit_encode(e, x->elem, emit_value(e, x->s->value)), e->width);
    emit_forget(e, 0);
    e->tail = NULL;
    return raw;
}

static V read_row(Pack *x, V first, V other, V tail)
{
    L *l = x->l;
    V row = l_load(l, l->ptr, l_at(l, l->ptr, x->rows, other), 8);
    V at = l_at(l, emit_memory_type(l, x->source), row, first);
    V raw = emit_load_run(x->e, NONE, x->source, at, tail);
    return x->source == x->elem ? raw : emit_encode(x->e, x->elem, emit_decode(x->e, x->source, raw));
}

V pack_elements(Pack *x, V first, V other, V tail)
{
    return x->s ? evaluate(x, first, other, tail) : read_row(x, first, other, tail);
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
    if (x->layout != LAYOUT_ROWS)
        x->block = l_mul(l, emit_padded(x->e, s->buffer, 0), l_i64(l, bytes));
    emit_forget(x->e, 0);
}

void emit_tile_pack(Emit *e, StmtId id)
{
    const Stmt *s = &e->p->p->stmts.at[id];
    const Buffer *b = &e->p->buffers.at[s->buffer];
    Pack x = {.e = e, .l = e->l, .s = s, .axis = e->p->lane_axis[id]};
    x.buffer = s->buffer;
    x.elem = b->elem;
    x.layout = b->layout;
    pack_init(&x);
    begin_pack(&x);
    ExprId read = pack_run(e->p, s);
    if (read != NONE) {
        emit_pack_run(&x, read);
    } else {
        emit_lanes_over(e, s->bound[x.axis], x.width);
        emit_panel(&x);
        emit_lanes_over(e, NONE, 0);
    }
    e->index[s->bound[0]] = e->index[s->bound[1]] = NULL;
}
