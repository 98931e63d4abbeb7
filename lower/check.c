/* What a call checks: subscripts, routes, sizes. And the building of routes, which checks their choices. */
#include "lower/lower.h"

/* Every place the guard and subscript of a check vary over. */
static void open_domain_of(Lower *l, Loc loc, ExprId e)
{
    Kernel *k = l->k;
    uint8_t *bound = arena_alloc(k->module->arena, k->indices.len + 1);
    each_below (n, k, e, EVERYWHERE)
        for (uint32_t b = 0; b < x_at(k, *n)->nbound; b++)
            bound[x_bound(k, *n, b)] = 1;
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_INDEX && !bound[x_at(k, *n)->sym])
            lower_open_index(l, loc, x_at(k, *n)->sym);
}

static void check_inside(Lower *l, Loc loc, ExprId value, int64_t lo, ExprId end, int at_entry,
                         const char *what)
{
    Kernel *k = l->k;
    Stmt s = tile_stmt(TILE_check, loc);
    s.value = x_and(k, loc, x_op2(k, loc, OP_ge, value, x_int(k, loc, lo)), x_op2(k, loc, OP_lt, value, end));
    s.report = value;
    s.limit = end;
    s.status = at_entry ? STATUS_INDEX : STATUS_COMPUTED;
    s.text = what;
    build_put(&l->b, s);
}

void lower_check(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    const Tensor t = k->tensors.at[q->lhs];
    Loc loc = q->loc;
    Item it = lower_new_item(&lower_by_element, q);
    ExprId all = q->guard == NONE ? q->rhs : x_if(k, loc, q->guard, q->rhs, x_int(k, loc, 0));
    lower_prepare(l, all);
    build_launch(&l->b, loc, "check");
    open_domain_of(l, loc, all);
    ExprId parts[CONJUNCT_MAX];
    uint32_t n = x_conjuncts(k, q->guard, parts, CONJUNCT_MAX);
    for (uint32_t c = 0; c < n; c++)
        build_if(&l->b, loc, lower_value(l, &it, parts[c]));
    const char *what =
        arena_printf(k->module->arena, "%s: index %%lld is outside axis %u of %s, whose extent is %%lld",
                     k->name, q->axis, t.name);
    check_inside(l, loc, lower_value(l, &it, q->rhs), 0, x_extent(k, loc, t.axes[q->axis].extent),
                 q->at_entry, what);
}

void lower_validate_routes(Lower *l)
{
    Kernel *k = l->k;
    for (RouteId r = 0; r < k->routes.len; r++) {
        if (k->routes.at[r].role != ROLE_IN)
            continue;
        build_launch(&l->b, k->routes.at[r].loc, "valid");
        Stmt s = tile_stmt(TILE_valid, k->routes.at[r].loc);
        tile_route_field(k, r, RF_start);
        tile_route_field(k, r, RF_count);
        s.route = r;
        build_put(&l->b, s);
    }
}

/* Whether `top` finds enough to choose from is up to the sizes, so it is known before anything is written. */
void lower_validate_tops(Lower *l)
{
    Kernel *k = l->k;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->kind != EQ_TOP)
            continue;
        build_launch(&l->b, q->loc, "valid");
        Stmt s = tile_stmt(TILE_check, q->loc);
        s.report = lower_extent(l, x_at(k, q->index[q->nindex - 1u])->sym);
        s.limit = lower_extent(l, q->bound);
        s.value = x_op2(k, q->loc, OP_le, s.report, s.limit);
        s.status = STATUS_SIZE;
        s.text = arena_printf(k->module->arena, "%s: top takes %%lld of only %%lld values", k->name);
        build_put(&l->b, s);
    }
}

static int is_input(const Kernel *k, TensorId t) { return k->tensors.at[t].role == ROLE_IN; }

void lower_route(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    Module *m = k->module;
    Loc loc = q->loc;
    const Route r = k->routes.at[q->route];
    for (RouteField f = 0; f < RF_FIELDS; f++)
        tile_route_field(k, q->route, f);
    IndexId t = build_index(&l->b, "t"), s = build_index(&l->b, "k");
    ExprId at[2] = {x_index(k, loc, t), x_index(k, loc, s)};
    build_launch(&l->b, loc, "check");
    build_for(&l->b, loc, LOOP_ORDERED, t, x_int(k, loc, 0), x_extent(k, loc, r.tokens), 1);
    build_for(&l->b, loc, LOOP_ORDERED, s, x_int(k, loc, 0), x_extent(k, loc, r.choices), 1);
    const char *what = arena_printf(
        m->arena, "%s: route %s: a choice of %s is %%lld, which is neither -1 nor an expert below %%lld",
        k->name, r.name, k->tensors.at[q->ids].name);
    check_inside(l, loc, x_load(k, loc, q->ids, at), -1, x_extent(k, loc, m->groups.at[r.group].groups),
                 is_input(k, q->ids), what);
    build_launch(&l->b, loc, lower_stem(l, q));
    Stmt b = tile_stmt(TILE_route, loc);
    b.route = q->route;
    b.second = q->ids;
    build_put(&l->b, b);
}
