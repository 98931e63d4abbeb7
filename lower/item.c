/* Inside an item: the sums of its equations and their stores, by block products, by panels or element by element. */
#include "lower/lower.h"

Item lower_new_item(const Blocking *by, const Equation *q)
{
    return (Item){.by = by,
                  .equation = q,
                  .lane_first = NONE,
                  .lane_end = NONE,
                  .first = NONE,
                  .end = NONE,
                  .row_var = NONE,
                  .part_first = NONE,
                  .part_end = NONE,
                  .row_first = NONE,
                  .row_end = NONE,
                  .unroll = by->unroll};
}

static void open_lanes(Lower *l, const Item *it, Loc loc)
{
    if (it->by->lane != NONE)
        build_for(&l->b, loc, LOOP_VECTOR, it->by->lane, it->lane_first, it->lane_end, it->by->width);
}

static void lower_lanes(Lower *l, const Item *item)
{
    const Members *m = &item->by->m;
    int chains = m->n == 1 && lower_chains(l, item, &m->at[0]);
    Item it = *item;
    open_lanes(l, item, m->at[0].loc);
    if (it.by->scan != NONE) {
        lower_scan(l, item, m);
        return;
    }
    for (uint32_t q = 0; q < m->n; q++) {
        it.equation = &m->at[q];
        lower_sums(l, &it, m->at[q].rhs, chains ? &m->at[q] : NULL);
        lower_store_element(l, &m->at[q], m->at[q].kind == EQ_ADD && !chains);
    }
}

void lower_either(Lower *l, const Item *it, ScalarOp op, ExprId a, ExprId b, ItemWay *way, ItemWay *other)
{
    Loc loc = it->by->m.at[0].loc;
    uint32_t depth = l->b.depth;
    build_if(&l->b, loc, x_op2(l->k, loc, op, a, b));
    way(l, it);
    build_close(&l->b, depth);
    l->env.done.len = 0;
    build_if(&l->b, loc, x_op2(l->k, loc, op_negated(op), a, b));
    other(l, it);
    build_close(&l->b, depth);
    l->env.done.len = 0;
}

/* The last columns, where no more than `rest` are left. */
static void lower_rest(Lower *l, const Item *item)
{
    Blocking by = *item->by;
    Item it = *item;
    by.width = by.rest;
    it.by = &by;
    it.lane_end = x_min(l->k, x_add(l->k, it.lane_first, by.rest), item->lane_end);
    lower_lanes(l, &it);
}

static void lower_each(Lower *l, const Item *it)
{
    if (it->by->rest)
        lower_either(l, it, OP_lt, x_add(l->k, it->lane_first, it->by->rest), it->lane_end, lower_lanes,
                     lower_rest);
    else
        lower_lanes(l, it);
}

/* All rows of a whole item at once, of fewer columns. */
static void lower_rows_at_once(Lower *l, const Item *item)
{
    const Equation *q = &item->by->m.at[0];
    Blocking by = *item->by;
    Item it = *item;
    by.width = (int64_t)l->cpu->lanes * l->cpu->vectors;
    it.by = &by;
    it.row_first = it.first;
    it.row_end = it.end;
    open_lanes(l, &it, q->loc);
    lower_sums(l, &it, q->rhs, NULL);
    lower_open_rows(l, &it, q->loc);
    lower_store_element(l, q, 0);
}

static void lower_rows_one_by_one(Lower *l, const Item *item)
{
    Blocking by = *item->by;
    Item it = *item;
    it.unroll = by.unroll = 1;
    it.by = &by;
    build_for(&l->b, by.m.at[0].loc, LOOP_ORDERED, by.row, it.first, it.end, 1);
    lower_bind(l, by.row, NONE, NONE);
    by.row = NONE;
    lower_each(l, &it);
}

/* Note [Rows together] in decide.c: the last rows, or the only ones, may be fewer. */
static void lower_together(Lower *l, const Item *it)
{
    lower_either(l, it, OP_lt, x_add(l->k, it->first, it->unroll - 1), it->end, lower_rows_at_once,
                 lower_rows_one_by_one);
}

void lower_item(Lower *l, const Item *it)
{
    if (it->by->panels)
        lower_panels(l, it);
    else if (it->by->row != NONE && !it->by->nproducts)
        lower_together(l, it);
    else if (it->by->row != NONE)
        lower_product(l, it);
    else
        lower_each(l, it);
    l->env.done.len = 0;
}
