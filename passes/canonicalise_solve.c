/* canonicalise: conditions that name a reduced index by a value remove it: sum(i where i == e and c) f(i) is
 * f(e) where e is in range and c(e) holds. Route maps have inverses, so they name indices too:
 *
 *   sum(r where rt.token(r) == t) f(r)                         sum(k where rt.row(t, k) >= 0) f(rt.row(t, k))
 *   sum(r where rt.token(r) == t and rt.slot(r) == k) f(r)     if(rt.row(t, k) >= 0, f(rt.row(t, k)), 0)
 *   sum(t, k where rt.row(t, k) == r) f(t, k)                  f(rt.token(r), rt.slot(r))
 *
 * A max or min keeps its last index: an empty one is infinite, which no expression says. */
#include "passes/canonicalise.h"

static int bound_at(const Reduction *r, IndexId i)
{
    for (uint32_t b = 0; b < r->nbound; b++)
        if (r->bound[b] == i)
            return (int)b;
    return -1;
}

/* The bound index that e is, or NONE. */
static IndexId bound_index(const Kernel *k, const Reduction *r, ExprId e)
{
    const Expr *x = x_at(k, e);
    return x->kind == X_INDEX && bound_at(r, x->sym) >= 0 ? x->sym : (IndexId)NONE;
}

static int can_remove(const Reduction *r, uint32_t n) { return r->kind == RED_SUM || r->nbound > n; }

static void remove_bound(Reduction *r, IndexId i)
{
    uint32_t at = (uint32_t)bound_at(r, i);
    r->nbound--;
    for (; at < r->nbound; at++)
        r->bound[at] = r->bound[at + 1];
}

void canon_substitute(Kernel *k, Reduction *r, const IndexId *from, const ExprId *to, uint32_t n,
                      uint32_t drop, uint32_t drop2, ExprId range, uint32_t at)
{
    ExprId where = at == 0 ? range : (ExprId)NONE;
    for (uint32_t i = 0; i < r->where.n; i++) {
        if (i && i == at)
            where = x_and(k, r->loc, where, range);
        if (i != drop && i != drop2)
            where = x_and(k, r->loc, where, x_substitute(k, r->where.list[i], from, to, n));
    }
    int never = r->where.never;
    r->body = canon_expr(k, x_substitute(k, r->body, from, to, n));
    if (where != NONE)
        where = canon_expr(k, where);
    r->where = canon_conjuncts(k, where, r->body);
    r->where.never |= never;
}

/* ---- i == e ---- */

/* What holds whether there is a term or not. (That a bound index has a value says that its axis is not empty, which is just
 * what its value must not take for granted.) */
static ExprId holds_outside(Kernel *k, const Reduction *r)
{
    ExprId all = NONE;
    for (uint32_t i = 0; i < r->where.n; i++)
        if (!x_uses_any(k, r->where.list[i], r->bound, r->nbound))
            all = x_and(k, r->loc, all, r->where.list[i]);
    return all;
}

/* The condition under which e is a value of index i; 0 when that cannot be said. */
static int value_range(Kernel *k, Reduction *r, IndexId i, ExprId e, ExprId *range)
{
    Axis axis = k->indices.at[i].axis;
    *range = NONE;
    if (x_at(k, e)->kind == X_INDEX &&
        !ext_same(k->module, k->indices.at[x_at(k, e)->sym].axis.extent, axis.extent))
        return 0; /* an index alone as a subscript ranges over that axis */
    if (axis.group != NONE) {
        const Expr *x = x_at(k, e);
        if (x->kind == X_INDEX)
            return k->indices.at[x->sym].axis.group == axis.group;
        if (x->kind != X_ROW || k->routes.at[x->sym].group != axis.group)
            return 0;
        *range = x_op2(k, r->loc, OP_ge, e, x_int(k, r->loc, 0));
        return 1;
    }
    ExprId low = x_op2(k, r->loc, OP_ge, e, x_int(k, r->loc, 0));
    ExprId high = x_op2(k, r->loc, OP_lt, e, x_extent(k, r->loc, axis.extent));
    int inside = ir_prove_range(k, e, axis, holds_outside(k, r)) == PROOF_INSIDE;
    *range = inside ? low /* goes, if it guards nothing */ : x_and(k, r->loc, low, high);
    return 1;
}

/* Where the value e is first computed. One that loads may need the conjuncts before number `at` to be inside,
 * so it cannot go into them. NONE: nowhere. */
static uint32_t range_place(const Kernel *k, const Reduction *r, IndexId i, ExprId e, uint32_t at)
{
    if (!x_loads_any(k, e))
        return 0;
    for (uint32_t c = 0; c < at; c++)
        if (x_uses_index(k, r->where.list[c], i))
            return NONE;
    return at;
}

int canon_solve(Kernel *k, Reduction *r)
{
    for (uint32_t c = 0; c < r->where.n && can_remove(r, 1); c++)
        for (uint32_t side = 0; side < 2; side++) {
            if (!x_is_op(k, r->where.list[c], OP_eq))
                continue;
            ExprId e = x_arg(k, r->where.list[c], 1 - side), range;
            IndexId i = bound_index(k, r, x_arg(k, r->where.list[c], side));
            if (i == NONE || x_uses_index(k, e, i) || !value_range(k, r, i, e, &range))
                continue;
            uint32_t place = range_place(k, r, i, e, c);
            if (place == NONE)
                continue;
            remove_bound(r, i);
            canon_substitute(k, r, &i, &e, 1, c, NONE, range, place);
            return 1;
        }
    return 0;
}

/* ---- routes ---- */

ExprId canon_route_map(Kernel *k, ExprId e)
{
    const Expr *x = x_at(k, e);
    ExprId a = x_arg(k, e, 0);
    if (x->kind == X_ROW) {
        ExprId b = x_arg(k, e, 1);
        int inverse = x_at(k, a)->kind == X_TOKEN && x_at(k, b)->kind == X_SLOT &&
                      x_at(k, a)->sym == x->sym && x_at(k, b)->sym == x->sym &&
                      x_arg(k, a, 0) == x_arg(k, b, 0);
        return inverse ? x_arg(k, a, 0) : e;
    }
    if (x_at(k, a)->kind != X_ROW || x_at(k, a)->sym != x->sym)
        return e;
    return x_arg(k, a, x->kind == X_TOKEN ? 0 : 1);
}

/* Looks for `map(r) == e` with r bound, e free of r and in 0..extent-1; gives e and the conjunct's number. */
static int find_map(Kernel *k, const Reduction *r, ExprKind map, IndexId row, RouteId route, Extent extent,
                    ExprId *e, uint32_t *at)
{
    for (uint32_t c = 0; c < r->where.n; c++)
        for (uint32_t side = 0; side < 2; side++) {
            if (!x_is_op(k, r->where.list[c], OP_eq))
                continue;
            ExprId m = x_arg(k, r->where.list[c], side);
            *e = x_arg(k, r->where.list[c], 1 - side);
            const Expr *x = x_at(k, m);
            if (x->kind != map || x->sym != route || x_at(k, x_arg(k, m, 0))->kind != X_INDEX ||
                x_at(k, x_arg(k, m, 0))->sym != row || x_uses_index(k, *e, row))
                continue;
            if (x_loads_any(k, *e) || ir_prove_range(k, *e, (Axis){extent, NONE}, NONE) != PROOF_INSIDE)
                continue;
            *at = c;
            return 1;
        }
    return 0;
}

/* r by its token, its slot or both. */
static int solve_row(Kernel *k, Reduction *r, uint32_t b)
{
    IndexId row = r->bound[b];
    GroupId group = k->indices.at[row].axis.group;
    RouteId route = group == NONE ? (RouteId)NONE : ir_group_route(k, group);
    if (route == NONE)
        return 0;
    Extent tokens = k->routes.at[route].tokens, choices = k->routes.at[route].choices;
    ExprId token = NONE, slot = NONE;
    uint32_t token_at = NONE, slot_at = NONE;
    if (!find_map(k, r, X_TOKEN, row, route, tokens, &token, &token_at))
        token_at = NONE;
    if (!find_map(k, r, X_SLOT, row, route, choices, &slot, &slot_at))
        slot_at = NONE;
    if (token_at == NONE && slot_at == NONE)
        return 0;
    int both = token_at != NONE && slot_at != NONE;
    if (both && !can_remove(r, 1))
        return 0;
    Loc loc = r->loc;
    if (both) {
        remove_bound(r, row);
    } else {
        Name name = name_of(k->module->names, token_at == NONE ? "t" : "k");
        r->bound[b] = ir_index(k, name, loc, (Axis){token_at == NONE ? tokens : choices, NONE});
        ExprId fresh = x_index(k, loc, r->bound[b]);
        if (token_at == NONE)
            token = fresh;
        else
            slot = fresh;
    }
    ExprId to = x_row(k, loc, route, token, slot);
    canon_substitute(k, r, &row, &to, 1, token_at, slot_at, x_op2(k, loc, OP_ge, to, x_int(k, loc, 0)), 0);
    return 1;
}

/* A bound index that ranges over all tokens (choices) of the route. */
static IndexId bound_over(const Kernel *k, const Reduction *r, ExprId e, Extent extent)
{
    IndexId i = bound_index(k, r, e);
    int fits = i != NONE && k->indices.at[i].axis.group == NONE &&
               ext_same(k->module, k->indices.at[i].axis.extent, extent);
    return fits ? i : (IndexId)NONE;
}

/* t, k or both by the row they lead to. */
static int solve_choice(Kernel *k, Reduction *r, uint32_t c, ExprId map, ExprId row)
{
    const Expr *x = x_at(k, map);
    if (x->kind != X_ROW || x_at(k, row)->kind != X_INDEX)
        return 0;
    RouteId route = x->sym;
    IndexId at = x_at(k, row)->sym;
    if (k->indices.at[at].axis.group != k->routes.at[route].group)
        return 0;
    IndexId t = bound_over(k, r, x_arg(k, map, 0), k->routes.at[route].tokens);
    IndexId s = bound_over(k, r, x_arg(k, map, 1), k->routes.at[route].choices);
    uint32_t n = (uint32_t)(t != NONE) + (uint32_t)(s != NONE);
    if (n == 0 || t == s || !can_remove(r, n))
        return 0;
    if ((t != NONE && x_uses_index(k, x_arg(k, map, 1), t)) ||
        (s != NONE && x_uses_index(k, x_arg(k, map, 0), s)))
        return 0;
    Loc loc = r->loc;
    ExprId token = x_token(k, loc, route, row), slot = x_slot(k, loc, route, row), first = NONE, to[2];
    IndexId from[2];
    n = 0;
    if (t != NONE) {
        from[n] = t;
        to[n++] = token;
        remove_bound(r, t);
    } else {
        first = x_op2(k, loc, OP_eq, token, x_arg(k, map, 0));
    }
    if (s != NONE) {
        from[n] = s;
        to[n++] = slot;
        remove_bound(r, s);
    } else {
        first = x_op2(k, loc, OP_eq, slot, x_arg(k, map, 1));
    }
    canon_substitute(k, r, from, to, n, c, NONE, first, 0);
    return 1;
}

int canon_route_inverse(Kernel *k, Reduction *r)
{
    for (uint32_t b = 0; b < r->nbound; b++)
        if (solve_row(k, r, b))
            return 1;
    for (uint32_t c = 0; c < r->where.n; c++) {
        ExprId e = r->where.list[c];
        if (x_is_op(k, e, OP_eq) && (solve_choice(k, r, c, x_arg(k, e, 0), x_arg(k, e, 1)) ||
                                     solve_choice(k, r, c, x_arg(k, e, 1), x_arg(k, e, 0))))
            return 1;
    }
    return 0;
}
