/* Packed tensors that are written element by element.
 *
 * Single elements of a panel stand apart, and those of transposed matrices far apart. So the values of an item, a block of rows
 * and lanes, are stored row-major in the thread's memory first, then packed from there: into panels, of a tensor that is
 * `packed both` into those of the transposed matrices too, and with the zeros that end the rows. Everything else that the
 * equations write is stored on the way: an optimizer goes over memory once.
 *   before:  w[h, f] = bf16(p[h, f])                     w: bf16[H, F] packed both
 *   after:   for h in u0..u1 { vector f in v0..v1 { block[h - u0, f - v0] = bf16(p[h, f]) } }
 *            pack w[u0, v0] over h in u0..u1, f in v0..v1 = block[h - u0, f - v0]
 *            pack w.transposed[v0, u0] over f in v0..v1, h in u0..u1 = block[h - u0, f - v0] */
#include "lower/lower.h"

static int is_packed(const Lower *l, TensorId t) { return l->k->tensors.at[t].layout == LAYOUT_PAIRS; }

/* Does a member read what q writes, here or as it was? */
static int is_read(const Lower *l, const Members *m, TensorId t)
{
    for (uint32_t q = 0; q < m->n; q++)
        if (x_loads(l->k, m->at[q].rhs, t))
            return 1;
    return 0;
}

/* The variable of subscript `axis`, when it goes over a whole dense axis. */
static IndexId variable(const Lower *l, const Equation *q, uint32_t axis)
{
    const Expr *x = x_at(l->k, q->index[axis]);
    return x->kind == X_INDEX && !lower_is_row(l, x->sym) ? x->sym : (IndexId)NONE;
}

IndexId lower_panel_row(const Lower *l, const Members *m)
{
    IndexId row = NONE;
    for (uint32_t i = 0; i < m->n; i++) {
        const Equation *q = &m->at[i];
        if (!is_packed(l, q->lhs))
            continue;
        IndexId down = variable(l, q, q->nindex - 2u), across = variable(l, q, q->nindex - 1u);
        int same = row == NONE || down == row;
        if (q->kind != EQ_ASSIGN || down == NONE || across == NONE || !same || is_read(l, m, q->lhs) ||
            across != variable(l, &m->at[0], m->at[0].nindex - 1u))
            return NONE;
        row = down;
    }
    return row;
}

/* block[row - first, lane - lane_first] */
static const ExprId *block_at(Lower *l, const Item *it, ExprId row, ExprId *at)
{
    Kernel *k = l->k;
    at[0] = x_op2(k, (Loc){0}, OP_sub, row, it->first);
    at[1] = x_op2(k, (Loc){0}, OP_sub, x_index(k, (Loc){0}, it->by->lane), it->lane_first);
    return at;
}

/* The item's values of q as a box of panels of `to`: of the tensor that q defines, or of its transposed matrices. */
static void pack(Lower *l, const Item *it, const Equation *q, TensorId to, ExprId value, int transposed)
{
    Stmt s = tile_stmt(TILE_pack, q->loc);
    s.buffer = to;
    s.nindex = q->nindex;
    for (uint32_t i = 0; i + 2 < q->nindex; i++)
        s.index[i] = lower_expr(l, q->index[i]);
    s.index[s.nindex - 2 + transposed] = it->first;
    s.index[s.nindex - 1 - transposed] = it->lane_first;
    s.nbound = 2;
    s.bound[transposed] = it->by->row;
    s.bound[!transposed] = it->by->lane;
    s.from[transposed] = it->first;
    s.to[transposed] = it->end;
    s.from[!transposed] = it->lane_first;
    s.to[!transposed] = it->lane_end;
    s.value = value;
    build_put(&l->b, s);
}

/* q's element is one of a tensor that the item leaves alone: it is packed from there. */
static int is_copy(const Lower *l, const Members *m, const Equation *q)
{
    const Expr *x = x_at(l->k, q->rhs);
    int written = 0;
    for (uint32_t i = 0; i < m->n; i++)
        written |= m->at[i].lhs == x->sym;
    return x->kind == X_LOAD && !written;
}

/* The element that q defines at the row and lane of a box, from a block where the item stored it. */
static ExprId store_block(Lower *l, const Item *it, const Equation *q)
{
    Kernel *k = l->k;
    ExprId at[2];
    TensorId block =
        build_thread(&l->b, "block", k->tensors.at[q->lhs].elem, it->by->item_rows,
                     it->by->nc + LAYOUT_EDGE /* rows begin in different sets of a cache */, LAYOUT_ROWS);
    ExprId value = lower_expr(l, q->rhs);
    build_store(&l->b, q->loc, block, block_at(l, it, x_index(k, q->loc, it->row_var), at), value, 0);
    return x_load(k, q->loc, block, block_at(l, it, x_index(k, q->loc, it->by->row), at));
}

/* Everything that an item does element by element; leaves what stands in blocks. */
static void store_elements(Lower *l, const Item *item, const Members *m, ExprId *in_block)
{
    uint32_t depth = l->b.depth;
    Item it = *item;
    it.row_var = build_index(&l->b, "row");
    lower_open_item(l, &it, m->at[0].loc);
    for (uint32_t i = 0; i < m->n; i++)
        if (!is_packed(l, m->at[i].lhs))
            lower_store_element(l, &m->at[i], m->at[i].kind == EQ_ADD);
        else if (!is_copy(l, m, &m->at[i]))
            in_block[i] = store_block(l, &it, &m->at[i]);
    build_close(&l->b, depth);
}

void lower_panels(Lower *l, const Item *it)
{
    const Members *m = &it->by->m;
    ExprId in_block[CLUSTER_MAX];
    uint32_t copies = 0;
    for (uint32_t i = 0; i < m->n; i++)
        copies += is_packed(l, m->at[i].lhs) && is_copy(l, m, &m->at[i]);
    if (copies < m->n)
        store_elements(l, it, m, in_block);
    lower_bind(l, it->by->row, NONE, NONE);
    lower_bind(l, it->by->lane, NONE, NONE);
    for (uint32_t i = 0; i < m->n; i++) {
        const Equation *q = &m->at[i];
        if (!is_packed(l, q->lhs))
            continue;
        ExprId value = is_copy(l, m, q) ? lower_expr(l, q->rhs) : in_block[i];
        pack(l, it, q, q->lhs, value, 0);
        if (l->k->tensors.at[q->lhs].both)
            pack(l, it, q, tile_transposed(l->k, q->lhs), value, 1);
    }
}
