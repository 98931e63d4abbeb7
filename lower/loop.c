/* Building blocks of the lowering: statements under the open one, loops, buffers, bindings. */
#include "lower/lower.h"

const char *lower_stem(const Lower *l, const Equation *q)
{
    if (q->kind == EQ_CHECK)
        return "check";
    return q->kind == EQ_ROUTE ? l->k->routes.at[q->route].name : l->k->tensors.at[q->lhs].name;
}

/* A loop over the groups of a row index; the group. */
ExprId lower_open_groups(Lower *l, Loc loc, IndexId r)
{
    IndexId e = build_index(&l->b, "e");
    Extent groups = l->k->module->groups.at[l->k->indices.at[r].axis.group].groups;
    build_for(&l->b, loc, LOOP_ORDERED, e, x_int(l->k, loc, 0), x_extent(l->k, loc, groups), 1);
    return x_index(l->k, loc, e);
}

/* Every row of every group, for a second row index. */
void lower_open_all_rows(Lower *l, Loc loc, IndexId r)
{
    RouteId route = lower_route_of(l, r);
    ExprId group = lower_open_groups(l, loc, r);
    build_for(&l->b, loc, LOOP_ORDERED, r, lower_run_start(l, route, group), lower_run_end(l, route, group),
              1);
    lower_bind(l, r, NONE, group);
}

void lower_open_index(Lower *l, Loc loc, IndexId i)
{
    if (lower_is_row(l, i)) {
        lower_open_all_rows(l, loc, i);
        return;
    }
    lower_bind(l, i, NONE, NONE);
    build_for(&l->b, loc, LOOP_ORDERED, i, x_int(l->k, loc, 0), lower_extent(l, i), 1);
}

void lower_store_element(Lower *l, const Equation *q, int add)
{
    ExprId at[MAX_RANK];
    for (uint32_t i = 0; i < q->nindex; i++)
        at[i] = lower_expr(l, q->index[i]);
    ExprId value = lower_expr(l, q->rhs);
    TensorId placed = lower_place(l, q->lhs, at);
    build_store(&l->b, q->loc, placed, at, value, add);
    const LocalBuffer *p = lower_place_of(l, q->lhs);
    if (!p || p->lines == NONE)
        return;
    ExprId stored = x_load(l->k, q->loc, placed, at);
    build_store(&l->b, q->loc, p->lines, at,
                p->cast == OP_COUNT ? stored : x_op1(l->k, q->loc, p->cast, stored), 0);
}
