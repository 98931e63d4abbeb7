/* An index that stands on an axis over which it does not range: what the route has for it there, as `rt.token(r)` of a row. */
#include "frontend/sema.h"

const char fit_by_route[] = "go from one to the other with token, slot or row of the route";

/* The route that tells about rows of the group, if it is made already; NULL: there is none. */
static const Route *route_of(const KernelSema *c, GroupId g, RouteId *id)
{
    *id = ir_group_route(c->k, g);
    if (*id == NONE || (c->k->routes.at[*id].role != ROLE_IN && !c->routed.at[*id].line))
        return NULL;
    return &c->k->routes.at[*id];
}

static IndexFit no_fit(void) { return (IndexFit){NULL, NULL}; }

IndexFit fit_row(const KernelSema *c, const char *row, GroupId group, Axis axis)
{
    RouteId id;
    const Route *r = route_of(c, group, &id);
    if (!r || axis.group != NONE)
        return no_fit();
    int run = ext_same(c->m, axis.extent, c->m->groups.at[group].groups),
        token = ext_same(c->m, axis.extent, r->tokens), slot = ext_same(c->m, axis.extent, r->choices);
    if (run + token + slot != 1)
        return no_fit();
    if (run)
        return (IndexFit){arena_printf(c->m->arena, "@%s", row), "take the group of the row"};
    return token ? (IndexFit){arena_printf(c->m->arena, "%s.token(%s)", r->name, row),
                              "take the token of the row"}
                 : (IndexFit){arena_printf(c->m->arena, "%s.slot(%s)", r->name, row),
                              "take the slot of the row"};
}

/* The only index in scope that ranges over this extent, or NULL. */
static Name only_index_over(const KernelSema *c, Extent extent)
{
    Name found = NULL;
    for (uint32_t i = 0; i < c->scope.len; i++) {
        const Var *v = &c->vars.at[c->scope.at[i]];
        if (!v->known || v->axis.group != NONE || !ext_same(c->m, v->axis.extent, extent))
            continue;
        if (found)
            return NULL;
        found = v->name;
    }
    return found;
}

/* A token, or a slot, where a row belongs: it needs the other one beside it. */
static IndexFit fit_place(const KernelSema *c, const Var *v, GroupId group)
{
    RouteId id;
    const Route *r = route_of(c, group, &id);
    int token = r && ext_same(c->m, v->axis.extent, r->tokens),
        slot = r && ext_same(c->m, v->axis.extent, r->choices);
    Name other = token == slot ? NULL : only_index_over(c, token ? r->choices : r->tokens);
    if (!other)
        return no_fit();
    return (IndexFit){arena_printf(c->m->arena, "%s.row(%s, %s)", r->name, token ? v->name : other,
                                   token ? other : v->name),
                      "take the row of the token and its slot"};
}

IndexFit fit_index(const KernelSema *c, const Var *v, Axis axis, Loc *at)
{
    if (axis.group == v->axis.group)
        return no_fit();
    if (axis.group == NONE)
        return fit_row(c, v->name, v->axis.group, axis);
    IndexFit fit = v->axis.group == NONE ? fit_place(c, v, axis.group) : no_fit();
    if (fit.text || v->axis.group != NONE || !v->use)
        return fit;
    *at = v->use->loc; /* it is the row, and the place before was the wrong one */
    return fit_row(c, v->name, axis.group, v->axis);
}

IndexFit fit_other_row(KernelSema *c, ExprId row, GroupId group)
{
    RouteId id;
    const Expr *x = x_at(c->k, row);
    const Route *to = route_of(c, group, &id), *from = x->kind == X_ROW ? &c->k->routes.at[x->sym] : NULL;
    if (!to || !from || !ext_same(c->m, to->tokens, from->tokens) ||
        !ext_same(c->m, to->choices, from->choices))
        return no_fit();
    ExprId other = x_row(c->k, x->loc, id, x_arg(c->k, row, 0), x_arg(c->k, row, 1));
    return (IndexFit){sema_text(c, other), "take the row of the other route"};
}
