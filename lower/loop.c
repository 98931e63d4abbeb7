/* Building blocks of the lowering: statements under the open one, loops, buffers, bindings. */
#include "lower/lower.h"

static void set(Lower *l, IndexId i, ExprId value, ExprId group)
{
    while (l->value.len <= i) {
        vec_push(l->k->module->arena, &l->value, NONE);
        vec_push(l->k->module->arena, &l->group, NONE);
    }
    l->value.at[i] = value;
    l->group.at[i] = group;
}

void lower_bind(Lower *l, IndexId i, ExprId value, ExprId group) { set(l, i, value, group); }

Binding lower_binding(const Lower *l, IndexId i)
{
    return i < l->value.len ? (Binding){l->value.at[i], l->group.at[i]} : (Binding){NONE, NONE};
}

const char *lower_stem(const Lower *l, const Equation *q)
{
    if (q->kind == EQ_CHECK)
        return "check";
    return q->kind == EQ_ROUTE ? l->k->routes.at[q->route].name : l->k->tensors.at[q->lhs].name;
}

ExprId lower_extent(Lower *l, IndexId i) { return x_extent(l->k, (Loc){0}, lower_length(l, i)); }

int lower_is_row(const Lower *l, IndexId i) { return l->k->indices.at[i].axis.group != NONE; }

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

TensorId lower_place(Lower *l, TensorId t, ExprId *at)
{
    for (uint32_t i = 0; i < l->places.len; i++) {
        const Place *p = &l->places.at[i];
        uint32_t n = 0;
        if (p->tensor != t)
            continue;
        ExprId row = x_difference(l->k, at[p->row], l->stripe_first), from[MAX_RANK];
        for (uint32_t a = 0; a < l->k->tensors.at[t].rank; a++)
            if (p->keep >> a & 1)
                from[++n] = at[a];
        from[0] = row;
        for (uint32_t a = 0; a <= n; a++)
            at[a] = from[a];
        return p->buffer;
    }
    return t;
}

void lower_store_element(Lower *l, const Equation *q, int add)
{
    ExprId at[MAX_RANK];
    for (uint32_t i = 0; i < q->nindex; i++)
        at[i] = lower_expr(l, q->index[i]);
    ExprId value = lower_expr(l, q->rhs);
    TensorId placed = lower_place(l, q->lhs, at);
    build_store(&l->b, q->loc, placed, at, value, add);
}
