/* `rt = route(id -> R)`: the equation that makes a route. */
#include "frontend/sema.h"

/* The i32[T, K] tensor that a route is made of, or NONE. */
static TensorId find_ids(KernelSema *c, const AstEquation *q)
{
    TensorId id = sema_find_tensor(c, q->ids);
    if (id == NONE || !sema_readable(c, id, q->ids.loc))
        return NONE;
    const Tensor *t = &c->k->tensors.at[id];
    if (t->elem == EL_I32 && t->rank == 2 && t->axes[0].group == NONE && t->axes[1].group == NONE)
        return id;
    return sema_error(c, DIAG_route_ids, q->ids.loc,
                      "give it an i32 tensor of tokens and choices, as top makes it",
                      "%s is %s of %s; a route is made of i32[T, K]", t->name, elem_name(t->elem),
                      count_text(c->m->arena, t->rank, "axis"));
}

static GroupId find_group(KernelSema *c, const AstEquation *q)
{
    uint32_t g = q->group.name ? namemap_get(&c->c->groups, q->group.name) : NAME_ABSENT;
    if (g != NAME_ABSENT)
        return g;
    if (!q->group.name)
        return sema_error(c, DIAG_unknown_group, q->loc,
                          arena_printf(c->m->arena, "write route(%s -> R)", q->ids.name),
                          "the group of the local route %s is not said", q->lhs->name.name);
    Guess guess = guess_new(q->group.name);
    for (uint32_t i = 0; i < c->m->groups.len; i++)
        guess_try(&guess, c->m->groups.at[i].name);
    c->failed |= c->c->broken;
    sema_error(c, DIAG_unknown_group, q->group.loc,
               guess_help(c->m->arena, &guess, "declare it above, as in group R : E rows T*K"),
               "there is no group %s", q->group.name);
    guess_edit(c->m->diags, &guess, q->group.loc);
    return NONE;
}

static void make_local(KernelSema *c, const AstEquation *q, TensorId ids, Route *r)
{
    Name name = q->lhs->name.name;
    const Tensor *t = &c->k->tensors.at[ids];
    uint32_t id;
    if (symbol_get(c, name, SYMBOL_TENSOR, &id) || namemap_get(&c->c->dims, name) != NAME_ABSENT ||
        namemap_get(&c->c->groups, name) != NAME_ABSENT) {
        sema_error(c, DIAG_duplicate_name, q->lhs->loc, "choose another name for the route",
                   "%s is the name of something else", name);
        return;
    }
    *r = (Route){.name = name,
                 .loc = q->lhs->loc,
                 .role = ROLE_LOCAL,
                 .tokens = t->axes[0].extent,
                 .choices = t->axes[1].extent,
                 .group = find_group(c, q)};
    RouteId other = c->failed ? (RouteId)NONE : ir_group_route(c->k, r->group);
    if (other != NONE)
        sema_error(c, DIAG_two_routes, q->lhs->loc,
                   arena_printf(c->m->arena, "use %s", c->k->routes.at[other].name),
                   "%s and %s are both routes of %s", c->k->routes.at[other].name, name,
                   c->m->groups.at[r->group].name);
}

static void sema_parameter(KernelSema *c, const AstEquation *q, TensorId ids, RouteId id)
{
    const Route *r = &c->k->routes.at[id];
    const Tensor *t = &c->k->tensors.at[ids];
    if (r->role == ROLE_IN)
        sema_error(c, DIAG_in_written, q->lhs->loc,
                   arena_printf(c->m->arena, "declare it as out %s", r->name),
                   "the route %s is an in parameter", r->name);
    else if (c->routed.at[id].line)
        sema_error(c, DIAG_defined_twice, q->lhs->loc, "remove one of the two equations",
                   "the route %s is made already, in line %u", r->name, c->routed.at[id].line);
    else if (!ext_same(c->m, r->tokens, t->axes[0].extent) || !ext_same(c->m, r->choices, t->axes[1].extent))
        sema_error(c, DIAG_route_ids, q->ids.loc, "use the tokens and choices of the route's type",
                   "%s is i32[%s, %s], but %s is of %s tokens with %s choices", t->name,
                   axis_text(c, t->axes[0]), axis_text(c, t->axes[1]), r->name,
                   axis_text(c, (Axis){r->tokens, NONE}), axis_text(c, (Axis){r->choices, NONE}));
    else if (q->group.name && find_group(c, q) != r->group)
        sema_error(c, DIAG_two_routes, q->group.loc, arena_printf(c->m->arena, "write route(%s)", t->name),
                   "%s is a route of %s", r->name, c->m->groups.at[r->group].name);
}

void sema_route_equation(KernelSema *c, const AstEquation *a)
{
    Equation q = ir_equation(EQ_ROUTE, a->lhs->loc);
    if (a->lhs->subscripts) {
        sema_error(c, DIAG_rank, a->lhs->loc,
                   arena_printf(c->m->arena, "write %s = route(...)", a->lhs->name.name),
                   "a route has no subscripts");
        return;
    }
    Route r = {0};
    q.ids = find_ids(c, a);
    if (q.ids == NONE)
        return;
    if (symbol_get(c, a->lhs->name.name, SYMBOL_ROUTE, &q.route)) {
        sema_parameter(c, a, q.ids, q.route);
    } else {
        make_local(c, a, q.ids, &r);
        q.route = c->k->routes.len;
    }
    if (c->failed)
        return;
    if (q.route == c->k->routes.len) {
        vec_push(c->m->arena, &c->k->routes, r);
        vec_push(c->m->arena, &c->routed, r.loc);
        symbol_set(c, r.name, SYMBOL_ROUTE, q.route);
    }
    c->routed.at[q.route] = a->lhs->loc;
    vec_push(c->m->arena, &c->k->eqs, q);
}
