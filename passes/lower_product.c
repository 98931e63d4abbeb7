/* Sums of products with packed operands.
 *
 * Note [Slabs]. An item is a strip of lanes times a chunk of rows (several unrolled blocks). The last reduced index goes
 * in slabs: for each, the operands that are read again and again are copied next to each other into the thread's
 * memory (an operand that has the lanes last: a strip of it, shared by all rows of the chunk; one that has the row
 * last: the chunk's rows of it, shared by the strip), then every block of rows adds the slab's terms. The partial sums
 * stand in thread memory between slabs; a sum's chain of additions is the same as without, so its bits are.
 * Without the copies a row of a wide matrix is a cache line here and there, and a stride that is a power of two
 * leaves most of the cache unused. The products of an equation (gate and up) are made one after the other, each with
 * all registers; then everything else of the equation stands once, in a loop over the item's rows. */
#include "passes/lower.h"

/* Does subscript e name a place that is sure to exist, whatever row of the chunk and whatever conditions? */
static int is_sure(const Kernel *k, ExprId e)
{
    const Expr *x = x_at(k, e);
    if (x->kind == X_INDEX || x->kind == X_INT)
        return 1;
    return (x->kind == X_GROUP || x->kind == X_TOKEN || x->kind == X_SLOT) &&
           x_at(k, x_arg(k, e, 0))->kind == X_INDEX;
}

/* May the load be copied along `along` (its last subscript), not varying with `other`, over the reduced index? */
static int packs(const Lower *l, ExprId load, IndexId along, IndexId other, IndexId reduced)
{
    const Kernel *k = l->k;
    uint32_t n = x_at(k, load)->nargs;
    if (n == 0 || x_at(k, load)->type == TY_INT || lower_varies(k, load, other) ||
        !lower_varies(k, load, reduced))
        return 0;
    for (uint32_t a = 0; a < n; a++) {
        ExprId sub = x_arg(k, load, a);
        int is_along = x_at(k, sub)->kind == X_INDEX && x_at(k, sub)->sym == along;
        if (!is_sure(k, sub) || is_along != (a + 1 == n) || (!is_along && lower_varies(k, sub, along)))
            return 0;
    }
    return 1;
}

static void add_packed(Lower *l, ExprId load, IndexId along)
{
    const Plan *p = &l->plan;
    Module *m = l->k->module;
    for (uint32_t i = 0; i < l->packed.len; i++)
        if (l->packed.at[i].load == load)
            return;
    Extent block[2] = {ext_const(m, 256), ext_const(m, along == p->lane ? p->width : p->chunk)};
    /* a row's operand meets every lane: widened once, it is broadcast straight from memory */
    Elem elem = along == p->row ? EL_F32 : l->k->tensors.at[x_at(l->k, load)->sym].elem;
    TensorId copy = lower_buffer(l, "panel", elem, SPACE_THREAD, 2, block);
    vec_push(m->arena, &l->packed, (Packed){load, copy, along});
}

/* The loads of a product that are worth a copy. */
static void find_packed(Lower *l, const Domain *d)
{
    const Plan *p = &l->plan;
    l->packed.len = 0;
    IndexId slab = d->bound[d->nbound - 1];
    int dense = l->k->indices.at[p->row].axis.group == NONE;
    each_below (e, l->k, d->body[0], X_LOAD) {
        if (x_at(l->k, *e)->kind != X_LOAD)
            continue;
        if (packs(l, *e, p->lane, p->row, slab))
            add_packed(l, *e, p->lane);
        else if (dense && packs(l, *e, p->row, p->lane, slab))
            add_packed(l, *e, p->row);
    }
}

/* The copy of one slab of an operand. Its index variable along the block runs over lanes here. */
static void pack(Lower *l, Loc loc, const Packed *p, ExprId group)
{
    Kernel *k = l->k;
    uint32_t depth = l->depth;
    int by_lane = p->along == l->plan.lane;
    ExprId first = by_lane ? l->lane_first : l->item_first, end = by_lane ? l->lane_end : l->item_end;
    ExprId own = l->group.at[p->along];
    lower_for(l, loc, LOOP_ORDERED, l->slab, l->slab_lo, l->slab_hi, 1);
    lower_bind(l, l->slab, NONE, group);
    lower_for(l, loc, LOOP_VECTOR, p->along, first, end,
              by_lane ? l->plan.width : (int64_t)l->cpu->lanes * 2);
    lower_bind(l, p->along, NONE, own);
    ExprId at[2] = {x_op2(k, loc, OP_sub, x_index(k, loc, l->slab), l->slab_lo),
                    x_op2(k, loc, OP_sub, x_index(k, loc, p->along), first)};
    uint32_t packed = l->packed.len;
    l->packed.len = 0; /* read the operand itself */
    ExprId value = lower_expr(l, p->load);
    l->packed.len = packed;
    if (!by_lane)
        value = x_op1(k, loc, OP_f32, value);
    lower_store(l, loc, p->copy, at, value, 0);
    lower_close(l, depth);
}

static void open_lanes(Lower *l, Loc loc)
{
    lower_for(l, loc, LOOP_VECTOR, l->plan.lane, l->lane_first, l->lane_end, l->plan.width);
    lower_bind(l, l->plan.lane, NONE, NONE);
}

/* partial[row - item_first, lane - lane_first] */
static const ExprId *partial_at(Lower *l, ExprId row, ExprId *at)
{
    Kernel *k = l->k;
    at[0] = x_op2(k, (Loc){0}, OP_sub, row, l->item_first);
    at[1] = x_op2(k, (Loc){0}, OP_sub, x_index(k, (Loc){0}, l->plan.lane), l->lane_first);
    return at;
}

static void open_item_rows(Lower *l, Loc loc)
{
    lower_for(l, loc, LOOP_ORDERED, l->item_row, l->item_first, l->item_end, 1);
    lower_bind(l, l->plan.row, x_index(l->k, loc, l->item_row), l->group.at[l->plan.row]);
}

/* Partial sums begin at nothing, or at the old values of a +=. Those of the last block's rows past the end begin too,
 * at the last row's: their sums are never used, but what is left in memory may be slow to compute with. */
static void begin(Lower *l, const Domain *d, TensorId partial, const Equation *onto)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, d->reduce[0])->loc;
    uint32_t depth = l->depth;
    int64_t rows = l->plan.rows;
    ExprId at[2], row = x_index(k, loc, l->item_row), size = x_int(k, loc, rows);
    ExprId count = lower_add(l, x_op2(k, loc, OP_sub, l->item_end, l->item_first), rows - 1);
    ExprId whole = x_op2(k, loc, OP_mul, x_op2(k, loc, OP_idiv, count, size), size);
    open_lanes(l, loc);
    lower_for(l, loc, LOOP_ORDERED, l->item_row, l->item_first, x_op2(k, loc, OP_add, l->item_first, whole),
              1);
    lower_bind(l, l->plan.row, lower_min(l, row, lower_add(l, l->item_end, -1)), l->group.at[l->plan.row]);
    ExprId value = lower_first_value(l, d->reduce[0], onto);
    lower_store(l, loc, partial, partial_at(l, row, at), value, 0);
    lower_close(l, depth);
}

/* Registers from or to the partial sums of a block; both have places for whole blocks. */
static void move_block(Lower *l, const Domain *d, TensorId partial, int to_memory)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, d->reduce[0])->loc;
    uint32_t depth = l->depth;
    ExprId at[2], index;
    lower_open_rows(l, loc);
    partial_at(l, lower_block_row(l), at);
    lower_acc_index(l, d, &index);
    if (to_memory)
        lower_store(l, loc, partial, at, x_load(k, loc, d->acc[0], &index), 0);
    else
        lower_store(l, loc, d->acc[0], &index, x_load(k, loc, partial, at), 0);
    lower_close(l, depth);
}

/* Every block of the chunk adds the terms of the open slab. */
static void add_slab(Lower *l, Walk w, const Domain *d, TensorId partial)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, d->reduce[0])->loc;
    uint32_t depth = l->depth;
    IndexId block = lower_index(l, "block");
    open_lanes(l, loc);
    lower_for(l, loc, LOOP_ORDERED, block, l->item_first, l->item_end, l->plan.rows);
    l->row_first = x_index(k, loc, block);
    l->row_end = l->item_end;
    lower_bind(l, l->plan.row, NONE, l->group.at[l->plan.row]);
    move_block(l, d, partial, 0);
    lower_walk(l, w);
    move_block(l, d, partial, 1);
    lower_close(l, depth);
}

/* The whole range of the index that goes in slabs: the run of a group, or the axis. */
static ExprId slab_range(Lower *l, const Walk *w, ExprId *lo, ExprId *hi)
{
    Kernel *k = l->k;
    IndexId i = w->d->bound[w->d->nbound - 1];
    uint32_t conjunct;
    *lo = x_int(k, (Loc){0}, 0);
    *hi = x_extent(k, (Loc){0}, k->indices.at[i].axis.extent);
    if (k->indices.at[i].axis.group == NONE)
        return NONE;
    ExprId group = lower_expr(l, lower_run_group(l, w, i, &conjunct));
    *lo = lower_run_start(l, lower_route_of(l, i), group);
    *hi = lower_run_end(l, lower_route_of(l, i), group);
    return group;
}

/* Loops over the reduced indices before the last. Conditions that tell rows apart wait for the terms. */
static void open_outer(Lower *l, Loc loc, Walk *w)
{
    const Domain *d = w->d;
    for (uint32_t b = 0; b + 1 < d->nbound; b++) {
        IndexId i = d->bound[b];
        uint64_t by_row = 0;
        for (uint32_t c = 0; c < d->nconjunct; c++)
            by_row |= (uint64_t)x_uses_index(l->k, d->conjunct[c], l->plan.row) << c;
        w->open |= 1u << b;
        Walk same = *w;
        same.pending &= ~by_row;
        Range r = lower_range(l, &same, i);
        w->pending &= ~r.exact;
        lower_for(l, loc, LOOP_ORDERED, i, r.lo_min, r.hi_max, 1);
        lower_bind(l, i, NONE, NONE);
    }
}

/* One sum of the item's rows and lanes; its value is in l->done afterwards. */
static void one_product(Lower *l, ExprId reduce, const Equation *onto)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, reduce)->loc;
    Domain *d = arena_new_of(k->module->arena, Domain);
    Extent block[2] = {ext_const(k->module, l->plan.chunk), ext_const(k->module, l->plan.width)};
    uint32_t depth = l->depth;
    lower_open_domain(l, d, reduce, NONE);
    d->acc[0] = lower_reg(l, "acc", EL_F32, l->plan.rows, (uint32_t)l->plan.width);
    TensorId partial = lower_buffer(l, "partial", EL_F32, SPACE_THREAD, 2, block);
    begin(l, d, partial, onto);
    find_packed(l, d);
    Walk w = lower_walk_from(d);
    open_outer(l, loc, &w);
    ExprId lo, hi, group = slab_range(l, &w, &lo, &hi);
    IndexId s = lower_index(l, "slab");
    lower_for(l, loc, LOOP_ORDERED, s, lo, hi, 256);
    l->slab = d->bound[d->nbound - 1];
    l->slab_lo = x_index(k, loc, s);
    l->slab_hi = lower_min(l, lower_add(l, l->slab_lo, 256), hi);
    for (uint32_t i = 0; i < l->packed.len; i++)
        pack(l, loc, &l->packed.at[i], group);
    add_slab(l, w, d, partial);
    lower_close(l, depth);
    l->slab = NONE;
    l->packed.len = 0;
    ExprId at[2];
    partial_at(l, x_index(k, loc, l->item_row), at);
    vec_push(k->module->arena, &l->done, (Done){reduce, x_load(k, loc, partial, at), 0});
}

void lower_product(Lower *l, const Equation *q)
{
    ExprId reds[REDUCE_MAX];
    uint32_t n = lower_products(l, q->rhs, reds, REDUCE_MAX);
    int chains = lower_chains(l, q);
    l->item_row = lower_index(l, "row");
    for (uint32_t i = 0; i < n; i++)
        one_product(l, reds[i], chains ? q : NULL);
    l->plan.rows = 1;
    open_lanes(l, q->loc);
    open_item_rows(l, q->loc);
    lower_sums(l, q->rhs, NULL);
    lower_store_element(l, q, q->kind == EQ_ADD && !chains);
}
