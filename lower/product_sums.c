/* Where the sums of block products are accumulated, and how they begin. */
#include "lower/lower.h"

void lower_open_lanes(Lower *l, const Item *it, Loc loc)
{
    build_for(&l->b, loc, LOOP_VECTOR, it->by->lane, it->lane_first, it->lane_end, it->by->width);
    lower_bind(l, it->by->lane, NONE, NONE);
}

static void open_item_rows(Lower *l, const Item *it, Loc loc)
{
    build_for(&l->b, loc, LOOP_ORDERED, it->row_var, it->first, it->end, 1);
    lower_bind(l, it->by->row, x_index(l->k, loc, it->row_var), l->env.group.at[it->by->row]);
}

void lower_open_item(Lower *l, const Item *it, Loc loc)
{
    open_item_rows(l, it, loc);
    lower_open_lanes(l, it, loc);
}

TensorId lower_sum_at(Lower *l, const Item *it, const Sum *s, ExprId row, ExprId lane, ExprId *at)
{
    IndexId index[2] = {it->by->row, it->by->lane};
    Binding old[2] = {lower_binding(l, index[0]), lower_binding(l, index[1])};
    if (s->partial != NONE) {
        at[0] = x_difference(l->k, row, it->first);
        at[1] = x_difference(l->k, lane, it->lane_first);
        return s->partial;
    }
    lower_bind(l, index[0], row, old[0].group);
    lower_bind(l, index[1], lane, old[1].group);
    for (uint32_t a = 0; a < s->p->accumulator->nindex; a++)
        at[a] = lower_expr(l, s->p->accumulator->index[a]);
    for (uint32_t i = 0; i < 2; i++)
        lower_bind(l, index[i], old[i].value, old[i].group);
    return lower_place(l, s->p->accumulator->lhs, at);
}

/* The same of a lane. */
TensorId lower_element_at(Lower *l, const Item *it, const Sum *s, ExprId row, ExprId *at)
{
    return lower_sum_at(l, it, s, row, x_index(l->k, (Loc){0}, it->by->lane), at);
}

/* Sums begin at nothing, or at the old values of a +=. */
void lower_begin(Lower *l, const Item *it, const Sum *s)
{
    Loc loc = x_at(l->k, s->p->reduce)->loc;
    uint32_t depth = l->b.depth;
    ExprId at[MAX_RANK];
    lower_open_item(l, it, loc);
    ExprId value = lower_first_value(l, s->p->reduce, s->joins ? s->p->chain : NULL);
    TensorId sums = lower_element_at(l, it, s, x_index(l->k, loc, it->row_var), at);
    build_store(&l->b, loc, sums, at, value, 0);
    build_close(&l->b, depth);
}
