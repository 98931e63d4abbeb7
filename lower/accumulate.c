/* Additions onto elements that subscripts compute: acc[id[t], h] += x[t, h] adds in index order. The plain last subscript is
 * owned in strips, so that threads never meet; every other index is an ordered loop inside. */
#include "lower/lower.h"

int lower_is_accumulated(const Lower *l, const Equation *q)
{
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(l->k, q->index[i])->kind != X_INDEX && x_at(l->k, q->index[i])->kind != X_INT)
            return 1;
    return 0;
}

/* An element whose target goes through a dropped row adds nothing. */
static void skip_dropped(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    for (uint32_t i = 0; i < q->nindex; i++) {
        each_below (n, k, q->index[i], EVERYWHERE)
            if (x_at(k, *n)->kind == X_ROW)
                build_if(&l->b, q->loc, x_op2(k, q->loc, OP_ge, lower_expr(l, *n), x_int(k, q->loc, 0)));
    }
}

/* The index of q's last subscript, if lanes can go over it: plain, and in no other subscript. */
static IndexId owned_lane(const Lower *l, const Equation *q, IndexId lane)
{
    IndexId last = x_plain_index(l->k, q->index[q->nindex - 1]);
    if (last == NONE || lower_is_row(l, last) || last != lane)
        return NONE;
    for (uint32_t i = 0; i + 1u < q->nindex; i++)
        if (x_uses_index(l->k, q->index[i], last))
            return NONE;
    return last;
}

static Blocking *decide(Lower *l, const Equation *q)
{
    Blocking *by = lower_decide(l, &(Members){.at = {*q}, .n = 1}, q->lhs, NULL, NONE);
    by->row = NONE;
    by->unroll = 1;
    by->lane = owned_lane(l, q, by->lane);
    if (by->lane != NONE)
        by->nc = by->width = l->cpu->lanes;
    return by;
}

/* Ordered loops over all indices but the lanes. */
static void open_others(Lower *l, const Blocking *by, Loc loc)
{
    for (uint32_t f = 0; f < by->nfree; f++)
        if (by->free[f] != by->lane)
            lower_open_index(l, loc, by->free[f]);
}

void lower_accumulate(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    const Blocking *by = decide(l, q);
    Item it = {.by = by, .equation = q, .unroll = by->unroll};
    for (uint32_t i = 0; i < q->nindex; i++)
        lower_prepare(l, q->index[i]);
    lower_prepare(l, q->rhs);
    lower_report_nest(l, lower_stem(l, q), "accumulation", by);
    build_launch(&l->b, q->loc, lower_stem(l, q));
    IndexId strip = NONE;
    if (by->lane != NONE) {
        strip = build_index(&l->b, "v0");
        build_for(&l->b, q->loc, LOOP_OWNED, strip, x_int(k, q->loc, 0), lower_extent(l, by->lane), by->nc);
    }
    open_others(l, by, q->loc);
    if (by->lane != NONE) {
        ExprId first = x_index(k, q->loc, strip);
        lower_bind(l, by->lane, NONE, NONE);
        build_for(&l->b, q->loc, LOOP_VECTOR, by->lane, first,
                  x_min(k, x_add(k, first, by->nc), lower_extent(l, by->lane)), by->width);
    }
    skip_dropped(l, q);
    lower_sums(l, &it, q->rhs, NULL);
    lower_store_element(l, q, 1);
    l->env.done.len = 0;
}
