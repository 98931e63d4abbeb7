/* The K largest of each row. */
#include "lower/lower.h"

#include <string.h>

void lower_put_top(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    uint32_t last = q->nindex - 1u;
    ExprId at[MAX_RANK];
    Stmt s = tile_stmt(TILE_top, q->loc);
    lower_bind(l, x_at(k, q->index[last])->sym, NONE, NONE);
    lower_bind(l, q->bound, NONE, NONE);
    for (uint32_t i = 0; i < q->nindex; i++)
        at[i] = lower_expr(l, q->index[i]);
    memcpy(s.index, at, sizeof at);
    s.second = lower_place(l, q->ids, at);
    s.buffer = lower_place(l, q->lhs, s.index);
    s.nindex = (uint8_t)(k->tensors.at[s.buffer].rank - 1u);
    s.index[s.nindex] = NONE;
    s.var = q->bound;
    s.lo = x_int(k, q->loc, 0);
    s.hi = lower_extent(l, q->bound);
    s.value = lower_expr(l, q->rhs);
    s.limit = lower_extent(l, x_at(k, q->index[last])->sym);
    build_put(&l->b, s);
}

void lower_top(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    Loc loc = q->loc;
    uint32_t prefix = q->nindex - 1u;
    lower_prepare(l, q->rhs);
    build_launch(&l->b, loc, lower_stem(l, q));
    for (uint32_t i = 0; i < prefix; i++) {
        IndexId f = x_at(k, q->index[i])->sym;
        if (lower_is_row(l, f))
            continue;
        lower_bind(l, f, NONE, NONE);
        build_parallel(&l->b, loc, f, lower_extent(l, f), 1);
    }
    for (uint32_t i = 0; i < prefix; i++)
        if (lower_is_row(l, x_at(k, q->index[i])->sym))
            lower_open_all_rows(l, loc, x_at(k, q->index[i])->sym);
    lower_put_top(l, q);
}
