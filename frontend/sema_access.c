/* Building accesses: subscripts that stay inside, rows that exist, and route maps. */
#include "frontend/sema.h"

#include "frontend/advice.h"

#include <string.h>

/* ---- rows ---- */

/* An access through rt.row(t, k), which is -1 for a dropped choice: someone must ask first, but only where the guards of the
 * access hold. */
static void need_row(KernelSema *c, Loc loc, ExprId row)
{
    ExprId asked = x_op2(c->k, loc, OP_ge, row, x_int(c->k, loc, 0)), guard = NONE;
    if (x_is_among(c->guards.at, c->guards.len, asked) || x_is_among(c->needs->at, c->needs->len, asked))
        return;
    for (uint32_t i = c->needs_from; i < c->guards.len; i++)
        guard = x_and(c->k, loc, guard, c->guards.at[i]);
    if (guard != NONE)
        asked = x_op2(c->k, loc, OP_or, x_op1(c->k, loc, OP_not, guard), asked);
    if (!x_is_among(c->needs->at, c->needs->len, asked))
        vec_push(c->m->arena, c->needs, asked);
}

/* The group whose rows this expression ranges over, or NONE. */
static GroupId group_of_row(const KernelSema *c, ExprId e)
{
    const Expr *x = x_at(c->k, e);
    if (x->kind == X_INDEX)
        return c->k->indices.at[x->sym].axis.group;
    return x->kind == X_ROW ? c->k->routes.at[x->sym].group : (GroupId)NONE;
}

static int row_ok(KernelSema *c, ExprId e, Loc loc)
{
    if (x_at(c->k, e)->kind == X_ROW)
        need_row(c, loc, e);
    return 1;
}

/* ---- subscripts ---- */

/* Is there a condition on a variable of the subscript? */
static int guarded(const KernelSema *c, const Affine *a)
{
    for (uint32_t g = 0; g < c->guards.len; g++)
        if (x_uses_any(c->k, c->guards.at[g], a->index, a->n))
            return 1;
    return 0;
}

static int refuse_range(KernelSema *c, Name of, Axis axis, ExprId s, Loc loc, Proof proof)
{
    const char *text = sema_text(c, s), *extent = axis_text(c, axis);
    if (proof == PROOF_OUTSIDE)
        sema_error(c, DIAG_index_outside, loc, arena_printf(c->m->arena, "keep it from 0 to %s - 1", extent),
                   "the index %s lies outside the axis of %s, whose extent is %s", text, of, extent);
    else
        sema_error(c, DIAG_index_range, loc,
                   "guard it by an `if` around it, or by the `where` of a reduction",
                   "the index %s may fall outside the axis of %s, whose extent is %s", text, of, extent);
    if (proof != PROOF_OUTSIDE && c->access.line)
        diag_wrap(c->m->diags, c->access,
                  arena_printf(c->m->arena, "if(%s >= 0 and %s < %s, ", text, text, extent), ", 0)");
    return 0;
}

static int range_ok(KernelSema *c, Name of, Axis axis, ExprId s, Loc loc)
{
    Affine form;
    if (x_at(c->k, s)->kind == X_INDEX || !x_affine(c->k, s, &form))
        return 1; /* the first agrees with the axis; the second is checked at run time */
    Proof proof = ir_prove_range(c->k, s, axis, c->guard);
    if (proof == PROOF_INSIDE || guarded(c, &form) || (proof == PROOF_UNKNOWN && form.n == 0))
        return 1;
    if (proof == PROOF_OUTSIDE && c->guards.len)
        return 1; /* what a condition lets nobody read may be outside, though variables cancel: gradients are written so */
    return refuse_range(c, of, axis, s, loc, proof);
}

static void refuse_row_of_other(KernelSema *c, Name of, Axis axis, ExprId s, GroupId group, Loc loc)
{
    IndexFit fit =
        axis.group == NONE ? fit_row(c, sema_text(c, s), group, axis) : fit_other_row(c, s, axis.group);
    sema_error(c, DIAG_index_rows, loc, fit.help ? fit.help : fit_by_route,
               "%s is a row of %s, but %s is over %s here", sema_text(c, s), c->m->groups.at[group].name, of,
               axis_text(c, axis));
    if (fit.text)
        diag_edit(c->m->diags, loc, fit.text);
}

int sema_subscript(KernelSema *c, Name of, Axis axis, ExprId s, Loc loc)
{
    GroupId group = group_of_row(c, s);
    if (axis.group == NONE && (group == NONE || x_at(c->k, s)->kind == X_ROW))
        return range_ok(c, of, axis, s, loc);
    if (axis.group == group)
        return row_ok(c, s, loc);
    if (group == NONE)
        sema_error(c, DIAG_row_subscript, loc,
                   arena_printf(c->m->arena, "write an index over the rows of %s, or rt.row(t, k)",
                                c->m->groups.at[axis.group].name),
                   "%s is over the rows of %s, and %s is not a row", of, c->m->groups.at[axis.group].name,
                   sema_text(c, s));
    else
        refuse_row_of_other(c, of, axis, s, group, loc);
    return 0;
}

static int build_subscripts(KernelSema *c, const AstExpr *e, ExprId *out)
{
    for (uint32_t i = 0; i < e->nargs; i++) {
        out[i] = build_integer(c, e->args[i]);
        if (out[i] == NONE)
            return 0;
    }
    return 1;
}

ExprId build_access(KernelSema *c, const AstExpr *e)
{
    ExprId subscripts[MAX_RANK];
    TensorId t = sema_find_tensor(c, e->name);
    if (t == NONE || !build_subscripts(c, e, subscripts))
        return NONE;
    int inside = 1;
    c->access = build_loc(c, e);
    for (uint32_t i = 0; inside && i < e->nargs; i++)
        inside = sema_subscript(c, e->name.name, c->k->tensors.at[t].axes[i], subscripts[i], e->args[i]->loc);
    c->access = (Loc){0};
    return inside ? x_load(c->k, e->loc, t, subscripts) : (ExprId)NONE;
}

/* ---- route maps ---- */

static const struct {
    const char *name;
    uint32_t nargs;
} map_table[MAP_FIELDS] = {[MAP_TOKEN] = {"token", 1}, [MAP_SLOT] = {"slot", 1}, [MAP_ROW] = {"row", 2}};

/* torch.exp(x[t]), x.sum(1) */
static void refuse_field(KernelSema *c, const AstExpr *e)
{
    const char *field = e->field.name,
               *known = scalar_find(field) == OP_COUNT ? habit_function(field) : field;
    uint32_t id;
    if (symbol_get(c, e->name.name, SYMBOL_TENSOR, &id)) {
        sema_error(c, DIAG_unknown_map, e->field.loc, "write what it is of one element, as in exp(x[t, h])",
                   "%s is a tensor, which has no %s: an equation says how one element is computed",
                   e->name.name, field);
        return;
    }
    const Loc whole = {e->name.loc.file, e->name.loc.line, e->name.loc.col,
                       e->field.loc.col + e->field.loc.len - e->name.loc.col};
    sema_error(c, DIAG_unknown_map, e->field.loc,
               known ? arena_printf(c->m->arena, "write `%s`", known)
                     : "functions are those of `moec ops`, and each `fn` of the file",
               "there is no %s.%s: functions have no module before their name", e->name.name, field);
    if (known && e->name.loc.line == e->field.loc.line && !c->inlined)
        diag_edit(c->m->diags, whole, known);
}

MapField sema_find_map(KernelSema *c, const AstExpr *e)
{
    Guess g = guess_new(e->field.name);
    for (MapField f = 0; f < MAP_FIELDS; f++) {
        if (strcmp(map_table[f].name, e->field.name) != 0) {
            guess_try(&g, map_table[f].name);
            continue;
        }
        if (e->nargs == map_table[f].nargs)
            return f;
        sema_error(c, DIAG_arity, e->loc, f == MAP_ROW ? "give it a token and a slot" : "give it a row",
                   "%s.%s takes %u argument%s, not %u", e->name.name, e->field.name, map_table[f].nargs,
                   map_table[f].nargs == 1 ? "" : "s", e->nargs);
        return MAP_FIELDS;
    }
    if (!g.best && !symbol_get(c, e->name.name, SYMBOL_ROUTE, &(uint32_t){0})) {
        refuse_field(c, e);
        return MAP_FIELDS;
    }
    sema_error(c, DIAG_unknown_map, e->field.loc, guess_help(c->m->arena, &g, "write token, slot or row"),
               "a route has no %s", e->field.name);
    guess_edit(c->m->diags, &g, e->field.loc);
    return MAP_FIELDS;
}

static ExprId refuse_row(KernelSema *c, Loc loc, ExprId e, const char *what)
{
    return sema_error(c, DIAG_not_a_row, loc, "give it an index over rows, or rt.row(t, k)",
                      "%s of %s, which is not a row of a group", what, sema_text(c, e));
}

/* rt.token(r) and rt.slot(r) of another group's row or of no row. */
static int map_row_ok(KernelSema *c, const AstExpr *e, const Route *r, ExprId row)
{
    GroupId group = group_of_row(c, row);
    if (group == NONE)
        return refuse_row(c, e->loc, row, e->field.name) != NONE;
    Axis rows = {c->m->groups.at[r->group].rows, r->group};
    return sema_subscript(c, r->name, rows, row, e->args[0]->loc);
}

/* A token or slot of rt.row: run-time checks are made for tensors only, so here the proof must succeed. */
static int map_place_ok(KernelSema *c, const Route *r, Extent extent, ExprId s, Loc loc)
{
    Axis axis = {extent, NONE};
    if (!sema_subscript(c, r->name, axis, s, loc))
        return 0;
    if (x_at(c->k, s)->kind == X_INDEX || ir_prove_range(c->k, s, axis, c->guard) == PROOF_INSIDE)
        return 1;
    return refuse_range(c, r->name, axis, s, loc, PROOF_UNKNOWN);
}

ExprId build_map(KernelSema *c, const AstExpr *e)
{
    ExprId arg[MAX_RANK];
    MapField f = sema_find_map(c, e);
    RouteId id = f == MAP_FIELDS ? (RouteId)NONE : sema_find_route(c, e->name);
    if (id == NONE || !build_subscripts(c, e, arg))
        return NONE;
    Route r = c->k->routes.at[id];
    if (f != MAP_ROW) {
        if (!map_row_ok(c, e, &r, arg[0]))
            return NONE;
        return f == MAP_TOKEN ? x_token(c->k, e->loc, id, arg[0]) : x_slot(c->k, e->loc, id, arg[0]);
    }
    if (!map_place_ok(c, &r, r.tokens, arg[0], e->args[0]->loc) ||
        !map_place_ok(c, &r, r.choices, arg[1], e->args[1]->loc))
        return NONE;
    return x_row(c->k, e->loc, id, arg[0], arg[1]);
}

ExprId build_group_of(KernelSema *c, Loc loc, ExprId row)
{
    GroupId group = group_of_row(c, row);
    if (group == NONE)
        return refuse_row(c, loc, row, "@");
    if (!sema_rows(c, group, loc) || !row_ok(c, row, loc))
        return NONE;
    return x_group(c->k, loc, ir_group_route(c->k, group), row);
}

ExprId build_group(KernelSema *c, const AstExpr *e)
{
    ExprId row = build_integer(c, e->args[0]);
    return row == NONE ? (ExprId)NONE : build_group_of(c, e->loc, row);
}
