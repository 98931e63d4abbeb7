/* Slabs of a block product: operands are packed for some terms at a time, then multiplied (Note [Blocks] in
 * lower_product.c). */
#include "passes/lower.h"

typedef struct Slab {
    IndexId index;
    ExprId lo, hi, group; /* of the index's row space, or NONE */
    ExprId anew;          /* NONE or when the sums begin */
} Slab;

/* The box that stands for an operand's rows or columns, and its terms. */
static void pack(Lower *l, Loc loc, TensorId panel, ExprId value, const Slab *s, int left)
{
    Kernel *k = l->k;
    IndexId along = left ? l->plan.row : l->plan.lane;
    Binding row = lower_binding(l, along);
    lower_bind(l, s->index, NONE, s->group);
    lower_bind(l, along, NONE, row.group);
    Stmt b = tile_stmt(TILE_pack, loc);
    b.buffer = panel;
    b.nindex = b.nbound = 2;
    b.index[0] = b.index[1] = x_int(k, loc, 0);
    b.bound[!left] = along;
    b.bound[left] = s->index;
    b.from[!left] = left ? l->part_first : l->lane_first;
    b.to[!left] = left ? l->part_end : l->lane_end;
    b.from[left] = s->lo;
    b.to[left] = s->hi;
    b.value = lower_expr(l, value);
    lower_put(l, b);
}

/* sums += left * right, the operands given by their first elements. */
static void multiply(Lower *l, const Product *p, ExprId left, ExprId right, const Slab *s)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, p->reduce)->loc;
    Stmt b = tile_stmt(TILE_product, loc);
    b.buffer = p->partial;
    b.nindex = 2;
    b.index[0] = b.index[1] = x_int(k, loc, 0);
    if (l->part_first != l->item_first)
        b.index[0] = x_op2(k, loc, OP_sub, l->part_first, l->item_first);
    b.value = left;
    b.other = right;
    b.guard = s->anew;
    b.size[0] = x_op2(k, loc, OP_sub, l->part_end, l->part_first);
    b.size[1] = x_op2(k, loc, OP_sub, l->lane_end, l->lane_first);
    b.size[2] = x_op2(k, loc, OP_sub, s->hi, s->lo);
    lower_put(l, b);
}

/* Is the right operand a tensor that lies in memory as a product reads it, with slabs that begin at whole lines? */
static int is_packed(Lower *l, const Product *p, const Slab *s, ExprId lo)
{
    Kernel *k = l->k;
    const Expr *x = x_at(k, p->right);
    if (x->kind != X_LOAD || k->tensors.at[x->sym].layout != LAYOUT_PAIRS ||
        k->tensors.at[x->sym].elem != p->right_elem || !x_is_int(k, lo, 0))
        return 0;
    for (uint32_t a = 0; a + 2 < x->nargs; a++)
        if (lower_varies(k, x_arg(k, p->right, a), s->index) ||
            lower_varies(k, x_arg(k, p->right, a), l->plan.lane))
            return 0;
    const Expr *depth = x_at(k, x_arg(k, p->right, x->nargs - 2u)),
               *lane = x_at(k, x_arg(k, p->right, x->nargs - 1u));
    return depth->kind == X_INDEX && depth->sym == s->index && lane->kind == X_INDEX &&
           lane->sym == l->plan.lane;
}

/* The first element of the slab in a packed operand. */
static ExprId packed_at(Lower *l, const Product *p, const Slab *s)
{
    ExprId e, first[2] = {s->lo, l->lane_first};
    IndexId from[2] = {s->index, l->plan.lane};
    lower_bind(l, from[0], first[0], NONE);
    lower_bind(l, from[1], first[1], NONE);
    e = lower_expr(l, p->right);
    lower_bind(l, from[1], NONE, NONE);
    return e;
}

static ExprId origin(Lower *l, TensorId panel)
{
    ExprId zero[2] = {x_int(l->k, (Loc){0}, 0), x_int(l->k, (Loc){0}, 0)};
    return x_load(l->k, (Loc){0}, panel, zero);
}

/* The terms of one slab. Products that share a left operand find it packed; a right panel serves one product. */
static void add_slab(Lower *l, const Together *g, const Slab *s, ExprId lo)
{
    Loc loc = x_at(l->k, g->p[0].reduce)->loc;
    const Plan *y = &l->plan;
    TensorId left[REDUCE_MAX], right;
    for (uint32_t n = 0; n < g->n; n++) {
        const Product *p = &g->p[n];
        uint32_t same = 0;
        while (same < n && (g->p[same].left != p->left || g->p[same].left_elem != p->left_elem))
            same++;
        left[n] =
            same < n ? left[same] : lower_thread(l, "left", p->left_elem, y->chunk, y->depth, LAYOUT_LINES);
        if (same == n)
            pack(l, loc, left[n], p->left, s, 1);
        if (is_packed(l, p, s, lo)) {
            multiply(l, p, origin(l, left[n]), packed_at(l, p, s), s);
            continue;
        }
        right = lower_thread(l, "right", p->right_elem, y->depth, y->strip, LAYOUT_PAIRS);
        pack(l, loc, right, p->right, s, 0);
        multiply(l, p, origin(l, left[n]), origin(l, right), s);
        lower_give_back(l, right);
    }
    for (uint32_t n = 0; n < g->n; n++)
        lower_give_back(l, left[n]);
}

/* Sums that begin anew need a first slab, of nothing if there is nothing. */
void lower_slabs(Lower *l, const Together *g, ExprId lo, ExprId hi, ExprId group, int anew)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, g->p[0].reduce)->loc;
    uint32_t depth = l->depth;
    IndexId first = lower_index(l, "slab");
    ExprId end = anew ? lower_max(l, hi, lower_add(l, lo, 1)) : hi;
    lower_for(l, loc, LOOP_ORDERED, first, lo, end, l->plan.depth);
    Slab s = {.index = g->d->bound[g->d->nbound - 1], .lo = x_index(k, loc, first), .group = group};
    s.anew = anew ? x_op2(k, loc, OP_eq, s.lo, lo) : (ExprId)NONE;
    s.hi = lower_let(l, loc, "end", lower_min(l, lower_add(l, s.lo, l->plan.depth), hi));
    add_slab(l, g, &s, lo);
    lower_close(l, depth);
}
