/* What stands for the names of the equations: indices, tensors, reductions (Env). */
#include "lower/lower.h"

void lower_bind(Lower *l, IndexId i, ExprId value, ExprId group)
{
    while (l->env.value.len <= i) {
        vec_push(l->k->module->arena, &l->env.value, NONE);
        vec_push(l->k->module->arena, &l->env.group, NONE);
    }
    l->env.value.at[i] = value;
    l->env.group.at[i] = group;
}

Binding lower_binding(const Lower *l, IndexId i)
{
    return i < l->env.value.len ? (Binding){l->env.value.at[i], l->env.group.at[i]} : (Binding){NONE, NONE};
}

const LocalBuffer *lower_place_of(const Lower *l, TensorId t)
{
    for (uint32_t i = 0; i < l->env.places.len; i++)
        if (l->env.places.at[i].tensor == t)
            return &l->env.places.at[i];
    return NULL;
}

TensorId lower_place(Lower *l, TensorId t, ExprId *at)
{
    const LocalBuffer *p = lower_place_of(l, t);
    ExprId from[MAX_RANK];
    uint32_t n = 0;
    if (!p)
        return t;
    from[0] = x_difference(l->k, at[p->row], l->env.placed_from);
    for (uint32_t a = 0; a < l->k->tensors.at[t].rank; a++)
        if (p->keep >> a & 1)
            from[++n] = a == p->column ? x_difference(l->k, at[a], l->env.strip) : at[a];
    for (uint32_t a = 0; a <= n; a++)
        at[a] = from[a];
    return p->buffer;
}

Extent lower_length(const Lower *l, IndexId i)
{
    for (uint32_t n = 0; n < l->env.joined.len; n++)
        if (l->env.joined.at[n].last == i)
            return l->env.joined.at[n].length;
    return l->k->indices.at[i].axis.extent;
}

int lower_is_below(const Lower *l, IndexId i, int64_t n)
{
    return ext_is_below(l->k->module, lower_length(l, i), n);
}

int lower_is_zero(const Lower *l, IndexId i)
{
    for (uint32_t z = 0; z < l->env.zeros.len; z++)
        if (l->env.zeros.at[z] == i)
            return 1;
    return 0;
}

ExprId lower_extent(Lower *l, IndexId i) { return x_extent(l->k, (Loc){0}, lower_length(l, i)); }

int lower_is_row(const Lower *l, IndexId i) { return l->k->indices.at[i].axis.group != NONE; }

RouteId lower_route_of(const Lower *l, IndexId row)
{
    return ir_group_route(l->k, l->k->indices.at[row].axis.group);
}

int lower_stands_open(const Lower *l, IndexId i)
{
    for (uint32_t d = 1; d <= l->b.depth; d++)
        if (l->k->tiles->stmts.at[l->b.parent[d]].kind == TILE_for &&
            l->k->tiles->stmts.at[l->b.parent[d]].var == i)
            return 1;
    return 0;
}

void lower_narrow(Lower *l, IndexId i, ExprId lo, ExprId hi)
{
    vec_push(l->k->module->arena, &l->env.narrowed, (Narrowed){i, lo, hi});
}

void lower_widen(Lower *l) { l->env.narrowed.len--; }

const Narrowed *lower_narrowed(const Lower *l, IndexId i)
{
    for (uint32_t n = l->env.narrowed.len; n-- > 0;)
        if (l->env.narrowed.at[n].index == i)
            return &l->env.narrowed.at[n];
    return NULL;
}

int lower_is_outer(const Cluster *c, IndexId i)
{
    for (uint32_t o = 0; o < c->nouter; o++)
        if (c->outer[o] == i)
            return 1;
    return 0;
}
