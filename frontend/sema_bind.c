/* Binding: over which axis each index of an equation ranges. See Note [Two walks] in sema.h. */
#include "frontend/sema.h"

int var_find(const KernelSema *c, Name name, uint32_t *var)
{
    for (uint32_t i = c->scope.len; i-- > 0;) {
        *var = c->scope.at[i];
        if (c->vars.at[*var].name == name)
            return 1;
    }
    return 0;
}

void scope_push(KernelSema *c, uint32_t var) { vec_push(c->m->arena, &c->scope, var); }

void scope_leave(KernelSema *c, uint32_t length) { c->scope.len = length; }

/* The index that stands alone as this subscript, or NONE. */
static uint32_t plain_var(const KernelSema *c, const AstExpr *e)
{
    uint32_t var;
    return e->kind == AST_NAME && var_find(c, e->name.name, &var) ? var : (uint32_t)NONE;
}

/* ---- one index, one axis ---- */

static int disagree(KernelSema *c, const Var *v, Axis axis, Loc loc, Name by, const char *help)
{
    int rows = v->axis.group != axis.group;
    if (!help)
        help =
            rows ? fit_by_route
                 : arena_printf(c->m->arena, "use another index where the extent is %s", axis_text(c, axis));
    sema_error(c, rows ? DIAG_index_rows : DIAG_index_extents, loc, help,
               "%s ranges over %s%s%s, but over %s here (%s)", v->name, axis_text(c, v->axis),
               v->known_by ? " in " : "", v->known_by ? v->known_by : "", axis_text(c, axis), by);
    diag_label(c->m->diags, v->known_at, "here it ranges over %s", axis_text(c, v->axis));
    return 0;
}

int bind_axis(KernelSema *c, uint32_t var, Axis axis, Loc loc, Name by)
{
    Var *v = &c->vars.at[var];
    if (v->known)
        return axis_same(c->m, v->axis, axis) ? 1 : disagree(c, v, axis, loc, by, NULL);
    v->known = 1;
    v->axis = axis;
    v->known_at = loc;
    v->known_by = by;
    return 1;
}

static int index_name_ok(KernelSema *c, AstName name)
{
    uint32_t id;
    int scalar = symbol_get(c, name.name, SYMBOL_TENSOR, &id) && c->k->tensors.at[id].rank == 0;
    int dim = namemap_get(&c->c->dims, name.name) != NAME_ABSENT;
    if (!scalar && !dim && namemap_get(&c->c->groups, name.name) == NAME_ABSENT)
        return 1;
    const char *what = scalar ? "scalar" : dim ? "dimension" : "group";
    sema_error(c, DIAG_index_shadows, name.loc, "choose another name for the index",
               "an index cannot be called %s: that is a %s", name.name, what);
    return 0;
}

static int new_var(KernelSema *c, AstName name, int on_left, uint32_t *var)
{
    if (!index_name_ok(c, name))
        return 0;
    if (c->vars.len == UINT16_MAX) {
        sema_error(c, DIAG_program_size, name.loc, "split the equation", "more than %d indices", UINT16_MAX);
        return 0;
    }
    *var = c->vars.len;
    vec_push(c->m->arena, &c->vars,
             (Var){.name = name.name,
                   .loc = name.loc,
                   .on_left = on_left,
                   .near = NONE,
                   .beside = NONE,
                   .id = NONE});
    return 1;
}

int bind_extent(KernelSema *c, uint32_t var, const AstExpr *extent)
{
    Axis axis;
    if (!sema_axis(c->c, extent, &axis)) {
        c->failed = 1;
        return 0;
    }
    return bind_axis(c, var, axis, extent->loc, "its own extent");
}

/* ---- the left side ---- */

/* Names in a computed left-hand subscript are free indices, bound by their use. */
static int bind_scatter_names(KernelSema *c, const AstExpr *e)
{
    uint32_t id;
    if (e->kind == AST_NAME && !var_find(c, e->name.name, &id)) {
        int number = (symbol_get(c, e->name.name, SYMBOL_TENSOR, &id) && c->k->tensors.at[id].rank == 0) ||
                     namemap_get(&c->c->dims, e->name.name) != NAME_ABSENT;
        if (!number) {
            if (!new_var(c, e->name, 1, &id))
                return 0;
            scope_push(c, id);
        }
    }
    if (e->kind == AST_REDUCE)
        return sema_error(c, DIAG_left_index, e->loc, "define it as a local above",
                          "a reduction cannot stand in a left-hand subscript") != NONE;
    for (uint32_t i = 0; i < e->nargs; i++)
        if (!bind_scatter_names(c, e->args[i]))
            return 0;
    return 1;
}

static int refuse_left(KernelSema *c, const AstEquation *q, const AstSubscript *s)
{
    sema_error(c, DIAG_left_index, s->value->loc,
               q->kind == EQ_ADD ? "write a plain index or a constant"
                                 : "write a plain index, and the condition as sum(... where i == ...)",
               "a left-hand subscript is an index or a constant");
    return 0;
}

static int bind_left_subscript(KernelSema *c, const AstEquation *q, const AstSubscript *s, const Axis *axis)
{
    AstExpr *e = s->value;
    uint32_t var;
    if (e->kind == AST_INT)
        return q->kind == EQ_TOP ? refuse_left(c, q, s) : 1;
    if (e->kind != AST_NAME)
        return q->kind == EQ_ADD ? bind_scatter_names(c, e) : refuse_left(c, q, s);
    if (!index_name_ok(c, e->name))
        return 0;
    if (var_find(c, e->name.name, &var)) {
        sema_error(c, DIAG_index_repeats, e->loc, "use another index and compare them: if(i == j, ..., 0)",
                   "%s stands twice on the left", e->name.name);
        return 0;
    }
    if (!new_var(c, e->name, 1, &var))
        return 0;
    scope_push(c, var);
    if (s->extent && !bind_extent(c, var, s->extent))
        return 0;
    return axis ? bind_axis(c, var, *axis, e->loc, q->lhs->name.name) : 1;
}

int bind_left(KernelSema *c, const AstEquation *q, const AstLhs *lhs, const Axis *axes)
{
    /* plain indices first, so that a computed subscript may use one that stands after it */
    for (int plain = 1; plain >= 0; plain--)
        for (uint32_t i = 0; lhs->subscripts && i < lhs->subscripts->list.len; i++) {
            const AstSubscript *s = &lhs->subscripts->list.at[i];
            int is_plain = s->value->kind == AST_NAME || s->value->kind == AST_INT;
            if (is_plain == plain && !bind_left_subscript(c, q, s, axes ? &axes[i] : NULL))
                return 0;
        }
    for (uint32_t i = 0; lhs->subscripts && i < lhs->subscripts->list.len; i++) {
        AstExpr *e = lhs->subscripts->list.at[i].value;
        if (e->kind != AST_NAME && e->kind != AST_INT && !bind_right(c, e))
            return 0;
    }
    return 1;
}

/* ---- the right side ---- */

/* An index of i + 1, j - i, ... may well range over this axis, which is said if nothing tells its extent. */
static void note_near(KernelSema *c, const AstExpr *e, Extent extent)
{
    uint32_t var = plain_var(c, e);
    if (var != NONE && c->vars.at[var].near == NONE)
        c->vars.at[var].near = extent;
    if (e->kind == AST_OP && (e->op == OP_add || e->op == OP_sub))
        for (uint32_t i = 0; i < (e->op == OP_sub ? 1 : e->nargs); i++)
            note_near(c, e->args[i], extent);
}

static int disagree_by_order(KernelSema *c, const Var *v, const AstExpr *e, Axis axis, Name of)
{
    const AstExpr *a, *b;
    if (!find_swap(c, v->name, &a, &b))
        return 0;
    disagree(c, v, axis, e->loc, of,
             arena_printf(c->m->arena, "exchange %s and %s", a->name.name, b->name.name));
    diag_edit(c->m->diags, a->loc, b->name.name);
    diag_edit(c->m->diags, b->loc, a->name.name);
    return 1;
}

static void disagree_by_kind(KernelSema *c, const Var *v, const AstExpr *e, Axis axis, Name of)
{
    Loc at = e->loc;
    IndexFit fit = fit_index(c, v, axis, &at);
    disagree(c, v, axis, e->loc, of, fit.help);
    if (fit.text)
        diag_edit(c->m->diags, at, fit.text);
}

static int bind_plain(KernelSema *c, uint32_t var, const AstExpr *e, Axis axis, Name of)
{
    Var *v = &c->vars.at[var];
    if (v->known && !axis_same(c->m, v->axis, axis)) {
        if (!disagree_by_order(c, v, e, axis, of))
            disagree_by_kind(c, v, e, axis, of);
        return 0;
    }
    if (!v->known)
        v->use = e;
    return bind_axis(c, var, axis, e->loc, of);
}

static int bind_subscript(KernelSema *c, AstExpr *e, Axis axis, Name of)
{
    uint32_t var = plain_var(c, e);
    if (var != NONE)
        return bind_plain(c, var, e, axis, of);
    if (axis.group == NONE)
        note_near(c, e, axis.extent);
    return bind_right(c, e);
}

static int bind_access(KernelSema *c, AstExpr *e)
{
    TensorId t = sema_find_tensor(c, e->name);
    if (t == NONE || !sema_readable(c, t, e->loc))
        return 0;
    uint32_t rank = c->k->tensors.at[t].rank;
    if (rank != e->nargs) {
        sema_error(c, DIAG_rank, e->loc,
                   arena_printf(c->m->arena, "write %s", count_text(c->m->arena, rank, "subscript")),
                   "%s has %s, but %s here", e->name.name, count_text(c->m->arena, rank, "axis"),
                   count_text(c->m->arena, e->nargs, "subscript"));
        return 0;
    }
    for (uint32_t i = 0; i < e->nargs; i++)
        if (!bind_subscript(c, e->args[i], c->k->tensors.at[t].axes[i], e->name.name))
            return 0;
    return 1;
}

static int bind_map(KernelSema *c, AstExpr *e)
{
    MapField f = sema_find_map(c, e);
    RouteId r = f == MAP_FIELDS ? (RouteId)NONE : sema_find_route(c, e->name);
    if (r == NONE || !sema_route_ready(c, r, e->loc))
        return 0;
    Route route = c->k->routes.at[r];
    Axis rows = {c->m->groups.at[route.group].rows, route.group};
    Axis dense[2] = {{route.tokens, NONE}, {route.choices, NONE}};
    for (uint32_t i = 0; i < e->nargs; i++)
        if (!bind_subscript(c, e->args[i], f == MAP_ROW ? dense[i] : rows, e->name.name))
            return 0;
    return 1;
}

static void add_hint(KernelSema *c, Hint h) { vec_push(c->m->arena, &c->hints, h); }

static int bind_group(KernelSema *c, AstExpr *e)
{
    uint32_t var = plain_var(c, e->args[0]);
    if (var == NONE)
        return bind_right(c, e->args[0]);
    add_hint(c, (Hint){.kind = HINT_ROW, .var = var, .other = NONE, .loc = e->loc});
    return 1;
}

static void hint_equal(KernelSema *c, const AstExpr *a, const AstExpr *b)
{
    uint32_t var = plain_var(c, a);
    uint32_t row =
        b->kind == AST_GROUP ? plain_var(c, b->args[0]) : (uint32_t)NONE; /* while it is in scope */
    if (var != NONE && (b->kind == AST_GROUP || b->kind == AST_MAP))
        add_hint(c, (Hint){.kind = HINT_EQUAL, .var = var, .e = b, .other = row, .loc = a->loc});
}

/* Two indices that are compared probably go over the same. */
static void note_beside(KernelSema *c, const AstExpr *e)
{
    uint32_t a = plain_var(c, e->args[0]), b = plain_var(c, e->args[1]);
    if (a == NONE || b == NONE)
        return;
    c->vars.at[a].beside = b;
    c->vars.at[b].beside = a;
}

int bind_one(KernelSema *c, AstBind *bind)
{
    uint32_t var;
    if (var_find(c, bind->index.name, &var)) {
        int left = c->vars.at[var].on_left;
        sema_error(c, left ? DIAG_reduced_on_left : DIAG_index_reused, bind->index.loc,
                   arena_printf(c->m->arena, "use another index, such as %s2", bind->index.name),
                   left ? "%s stands on the left, so nothing can be reduced over it"
                        : "%s is already bound by the reduction around this one",
                   bind->index.name);
        return 0;
    }
    if (!new_var(c, bind->index, 0, &var))
        return 0;
    bind->var = var;
    if (bind->extent && !bind_extent(c, var, bind->extent))
        return 0;
    if (!bind->in)
        return 1;
    if (!bind_right(c, bind->in))
        return 0;
    add_hint(c, (Hint){HINT_IN, var, bind->in, plain_var(c, bind->in), bind->index.loc});
    return 1;
}

static int bind_reduce(KernelSema *c, AstExpr *e)
{
    uint32_t outside = c->scope.len;
    if (e->binds->list.len > MAX_RANK) {
        sema_error(c, DIAG_too_many_axes, e->loc, "nest two reductions",
                   "a reduction over more than %d indices", MAX_RANK);
        return 0;
    }
    for (uint32_t i = 0; i < e->binds->list.len; i++) {
        if (!bind_one(c, &e->binds->list.at[i]))
            return 0;
        c->vars.at[e->binds->list.at[i].var].term = e;
        scope_push(c, e->binds->list.at[i].var);
    }
    for (uint32_t i = 0; i < e->nargs; i++)
        if (!bind_right(c, e->args[i]))
            return 0;
    scope_leave(c, outside);
    return 1;
}

/* x(t, h) of a tensor: refused later, with indices that are known. */
static int is_access_meant(const KernelSema *c, const AstExpr *e)
{
    uint32_t id;
    int function =
        namemap_get(&c->c->functions, e->name.name) != NAME_ABSENT || scalar_find(e->name.name) != OP_COUNT;
    return !function && symbol_get(c, e->name.name, SYMBOL_TENSOR, &id);
}

int bind_right(KernelSema *c, AstExpr *e)
{
    switch (e->kind) {
    case AST_BAD: c->failed = 1; return 0;
    case AST_INT:
    case AST_FLOAT:
    case AST_NAME: return 1; /* as a number it tells no axis */
    case AST_ACCESS: return bind_access(c, e);
    case AST_MAP: return bind_map(c, e);
    case AST_GROUP: return bind_group(c, e);
    case AST_REDUCE: return bind_reduce(c, e);
    case AST_OP:
        if (e->op == OP_eq) {
            hint_equal(c, e->args[0], e->args[1]);
            hint_equal(c, e->args[1], e->args[0]);
        }
        if (scalar_table[e->op].kind == SK_COMPARE)
            note_beside(c, e);
        break;
    case AST_CALL:
        if (is_access_meant(c, e))
            return bind_access(c, e);
    case AST_IF: break;
    }
    for (uint32_t i = 0; i < e->nargs; i++)
        if (!bind_right(c, e->args[i]))
            return 0;
    return 1;
}

/* ---- what the hints tell ---- */

static Axis rows_of(const KernelSema *c, GroupId g) { return (Axis){c->m->groups.at[g].rows, g}; }

/* The only group whose number of runs is this extent (any extent when `of` is NONE); when there are several,
 * the only one that the kernel has a route of. NONE when that does not decide. */
static GroupId only_group(const KernelSema *c, Extent of)
{
    GroupId found[2] = {NONE, NONE};
    uint32_t count[2] = {0, 0};
    for (GroupId g = 0; g < c->m->groups.len; g++) {
        if (of != NONE && !ext_same(c->m, c->m->groups.at[g].groups, of))
            continue;
        int routed = ir_group_route(c->k, g) != NONE;
        found[0] = g;
        count[0]++;
        found[1] = routed ? g : found[1];
        count[1] += routed ? 1 : 0;
    }
    return count[0] == 1 ? found[0] : count[1] == 1 ? found[1] : (GroupId)NONE;
}

static void follow_in(KernelSema *c, const Hint *h)
{
    Var *row = &c->vars.at[h->var];
    Var *group = h->other == NONE ? NULL : &c->vars.at[h->other];
    if (row->known && row->axis.group != NONE && group && !group->known)
        bind_axis(c, h->other, (Axis){c->m->groups.at[row->axis.group].groups, NONE}, h->loc, "as a group");
    if (row->known || (group && !group->known))
        return;
    GroupId g = only_group(c, group ? group->axis.extent : (Extent)NONE);
    if (g != NONE)
        bind_axis(c, h->var, rows_of(c, g), h->loc, c->m->groups.at[g].name);
}

/* `e == @r`, `t == rt.token(r)`, ...: tried last, for equations whose index has no other use. */
static void follow_equal(KernelSema *c, const Hint *h)
{
    if (c->vars.at[h->var].known)
        return;
    uint32_t id;
    if (h->e->kind == AST_MAP && symbol_get(c, h->e->name.name, SYMBOL_ROUTE, &id)) {
        const Route *r = &c->k->routes.at[id];
        const char *field = h->e->field.name;
        Axis axis = *field == 't'   ? (Axis){r->tokens, NONE}
                    : *field == 's' ? (Axis){r->choices, NONE}
                                    : rows_of(c, r->group);
        bind_axis(c, h->var, axis, h->loc, h->e->name.name);
    }
    const Var *row = h->other == NONE ? NULL : &c->vars.at[h->other];
    if (row && row->known && row->axis.group != NONE)
        bind_axis(c, h->var, (Axis){c->m->groups.at[row->axis.group].groups, NONE}, h->loc, "as a group");
}

/* Neither the row nor the group of `r in e` is known, but there is one group only. */
static void follow_only_group(KernelSema *c)
{
    GroupId g = only_group(c, NONE);
    for (uint32_t i = 0; g != NONE && i < c->hints.len && !c->failed; i++)
        if (c->hints.at[i].kind == HINT_IN && !c->vars.at[c->hints.at[i].var].known)
            bind_axis(c, c->hints.at[i].var, rows_of(c, g), c->hints.at[i].loc, c->m->groups.at[g].name);
}

static uint32_t known_count(const KernelSema *c)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < c->vars.len; i++)
        known += c->vars.at[i].known ? 1 : 0;
    return known;
}

static void follow_kind(KernelSema *c, int kind)
{
    for (uint32_t before = UINT32_MAX; before != known_count(c) && !c->failed;) {
        before = known_count(c);
        for (uint32_t i = 0; i < c->hints.len && !c->failed; i++) {
            const Hint *h = &c->hints.at[i];
            if (kind == HINT_IN && h->kind == HINT_IN)
                follow_in(c, h);
            if (kind == HINT_EQUAL && h->kind == HINT_EQUAL)
                follow_equal(c, h);
            GroupId g = kind == HINT_ROW && h->kind == HINT_ROW ? only_group(c, NONE) : (GroupId)NONE;
            if (g != NONE && !c->vars.at[h->var].known)
                bind_axis(c, h->var, rows_of(c, g), h->loc, c->m->groups.at[g].name);
        }
    }
}

int bind_end(KernelSema *c)
{
    follow_kind(c, HINT_IN);
    follow_kind(c, HINT_ROW);
    follow_kind(c, HINT_IN);
    follow_kind(c, HINT_EQUAL);
    follow_kind(c, HINT_IN);
    follow_only_group(c);
    follow_kind(c, HINT_IN);
    for (uint32_t i = 0; i < c->vars.len && !c->failed; i++) {
        Var *v = &c->vars.at[i];
        if (!v->known)
            return refuse_extent(c, v);
        if (v->axis.group != NONE && !sema_rows(c, v->axis.group, v->loc))
            return 0;
        v->id = ir_index(c->k, v->name, v->loc, v->axis);
    }
    return !c->failed;
}
