/* One kernel: its parameters, and the order in which its parts are checked. */
#include "frontend/sema.h"

/* ---- parameters ---- */

static int parameter_name_ok(KernelSema *c, AstName name)
{
    Arena *a = c->m->arena;
    uint32_t id;
    if (symbol_get(c, name.name, SYMBOL_TENSOR, &id) || symbol_get(c, name.name, SYMBOL_ROUTE, &id))
        sema_error(c, DIAG_duplicate_name, name.loc, "give one of them another name",
                   "two parameters are called %s", name.name);
    else if (namemap_get(&c->c->dims, name.name) != NAME_ABSENT ||
             namemap_get(&c->c->groups, name.name) != NAME_ABSENT)
        sema_error(c, DIAG_duplicate_name, name.loc,
                   arena_printf(a, "choose another name, such as %s_", name.name),
                   "%s is the name of a dimension or group", name.name);
    else if (name_is_c_word(name.name))
        sema_error(c, DIAG_reserved_name, name.loc,
                   arena_printf(a, "choose another name, such as `%s`", name_for_c(a, name.name)),
                   "a parameter cannot be called %s: C or C++ takes that name", name.name);
    return !c->failed;
}

static void add_route_parameter(KernelSema *c, const AstParam *p)
{
    const AstType *t = p->type;
    Route r = {.name = p->name.name, .loc = p->name.loc, .role = p->role};
    if (p->role == ROLE_INOUT) {
        sema_error(c, DIAG_inout_route, p->name.loc, "a route is in or out", "the route %s cannot be inout",
                   r.name);
        return;
    }
    r.group = namemap_get(&c->c->groups, t->group.name);
    if (r.group == NAME_ABSENT) {
        Guess g = guess_new(t->group.name);
        for (uint32_t i = 0; i < c->m->groups.len; i++)
            guess_try(&g, c->m->groups.at[i].name);
        const char *help =
            arena_printf(c->m->arena, "declare it above, as in group %s : E rows T*K", t->group.name);
        if (!c->c->broken) {
            sema_error(c, DIAG_unknown_group, t->group.loc, guess_help(c->m->arena, &g, help),
                       "there is no group %s", t->group.name);
            guess_edit(c->m->diags, &g, t->group.loc);
        }
        c->failed = 1;
        return;
    }
    c->failed |= !sema_extent(c->c, t->extents->list.at[0], &r.tokens) ||
                 !sema_extent(c->c, t->extents->list.at[1], &r.choices);
    RouteId other = ir_group_route(c->k, r.group);
    if (!c->failed && other != NONE)
        sema_error(c, DIAG_two_routes, p->name.loc, "give one of them a group of its own",
                   "%s and %s are both routes of %s", c->k->routes.at[other].name, r.name, t->group.name);
    if (c->failed)
        return;
    RouteId id = c->k->routes.len;
    vec_push(c->m->arena, &c->k->routes, r);
    vec_push(c->m->arena, &c->k->params, (Param){PARAM_ROUTE, id});
    vec_push(c->m->arena, &c->routed, p->role == ROLE_IN ? r.loc : (Loc){0});
    symbol_set(c, r.name, SYMBOL_ROUTE, id);
}

/* What panels can hold: Note [Layouts] in tensor.h. */
static void sema_packed(KernelSema *c, const Tensor *t, Loc packed)
{
    Loc word = {packed.file, packed.line, packed.col - 1, packed.len + 1}; /* with the blank before it */
    if (!type_is_float(elem_type(t->elem)))
        sema_error(c, DIAG_packed, packed, "remove `packed`", "%s holds %s: only floats are packed", t->name,
                   elem_name(t->elem));
    else if (t->rank < 2)
        sema_error(c, DIAG_packed, packed, "remove `packed`",
                   "%s has one axis: a packed tensor has at least two", t->name);
    if (c->failed)
        diag_edit(c->m->diags, word, "");
    for (uint32_t i = t->rank - 2u; t->rank >= 2 && i < t->rank && !c->failed; i++)
        if (t->axes[i].group != NONE)
            sema_error(c, DIAG_packed, packed, "leave `packed` out, or move the rows to the front",
                       "%s has %s among its last two axes: those of a packed tensor are dense", t->name,
                       axis_text(c, t->axes[i]));
}

static void add_tensor_parameter(KernelSema *c, const AstParam *p)
{
    const AstType *type = p->type;
    Tensor t = {.name = p->name.name, .loc = p->name.loc, .role = p->role, .route = NONE};
    uint32_t rank = type->extents ? type->extents->list.len : 0;
    c->failed |= !sema_elem(c->c, type->elem, &t.elem);
    if (rank > MAX_RANK)
        sema_error(c, DIAG_too_many_axes, type->loc, "join axes: A*B",
                   "%s has %u axes; at most %d are supported", t.name, rank, MAX_RANK);
    if (c->failed)
        return;
    t.rank = (uint8_t)rank;
    for (uint32_t i = 0; i < rank && !c->failed; i++)
        c->failed = !sema_axis(c->c, type->extents->list.at[i], &t.axes[i]);
    t.layout = type->packed.loc.line ? LAYOUT_PAIRS : LAYOUT_ROWS;
    t.both = type->packed.both != 0;
    if (type->packed.loc.line && !c->failed)
        sema_packed(c, &t, type->packed.loc);
    if (c->failed)
        return;
    TensorId id = ir_tensor(c->k, t);
    vec_push(c->m->arena, &c->k->params, (Param){PARAM_TENSOR, id});
    written_add(c, (Written){.first = t.loc});
    symbol_set(c, t.name, SYMBOL_TENSOR, id);
    namemap_set(&c->typed, t.name, namemap_get(&c->c->types, type->elem.name));
}

static void add_parameter(KernelSema *c, const AstParam *p)
{
    c->failed = 0;
    if (parameter_name_ok(c, p->name)) {
        if (p->type->is_route)
            add_route_parameter(c, p);
        else
            add_tensor_parameter(c, p);
    }
    if (c->failed)
        namemap_set(&c->poison, p->name.name, 1);
}

/* Rows exist only where a route says so: a group that a parameter is over needs one. */
static void sema_row_parameters(KernelSema *c)
{
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        Param p = c->k->params.at[i];
        if (p.kind != PARAM_TENSOR)
            continue;
        const Tensor *t = &c->k->tensors.at[p.id];
        for (uint32_t a = 0; a < t->rank; a++) {
            GroupId g = t->axes[a].group;
            if (g == NONE || ir_group_route(c->k, g) != NONE || c->poison.used || c->decl->equations->broken)
                continue;
            c->failed = 0;
            sema_error(c, DIAG_no_route, t->loc,
                       arena_printf(c->m->arena, "add a parameter: in rt: route[T, K -> %s]",
                                    c->m->groups.at[g].name),
                       "%s is over the rows of %s, but the kernel has no route of that group", t->name,
                       c->m->groups.at[g].name);
            return;
        }
    }
}

/* ---- the kernel ---- */

/* Note [Shift] in ir/shift.h: every shift cancels. */
static void sema_shifts(KernelSema *c)
{
    ShiftFault fault;
    ir_shifts(c->k, c->m->arena, &fault);
    c->failed = 0;
    if (fault.why)
        sema_error(c, DIAG_shift, fault.loc,
                   arena_printf(c->m->arena,
                                "give both sides of a quotient the factor, add it to the logarithm of a sum, "
                                "or write stop(%s)",
                                sema_text(c, fault.of)),
                   "shift(%s) does not cancel: %s", sema_text(c, fault.of), fault.why);
}

static void sema_equations(KernelSema *c)
{
    const AstEquations *list = c->decl->equations;
    sema_ahead_of(c, list);
    for (uint32_t i = 0; i < list->list.len && c->m->diags->errors <= DIAG_LIMIT; i++) {
        if (i == MAX_EQUATIONS || c->k->exprs.len > MAX_NODES) {
            c->failed = 0;
            sema_error(c, DIAG_program_size, list->list.at[i]->loc, "split the kernel",
                       "kernel %s is too large", c->k->name);
            return;
        }
        sema_equation(c, list->list.at[i]);
    }
    sema_all_written(c);
}

void sema_kernel(Sema *module, const AstDecl *d)
{
    Arena *a = module->arena;
    KernelSema *c = arena_new_of(a, KernelSema);
    c->c = module;
    c->m = module->m;
    c->decl = d;
    c->k = ir_kernel(c->m, d->name.name, d->name.loc);
    c->symbols.arena = c->poison.arena = c->ahead_map.arena = c->typed.arena = a;
    c->guard = NONE;
    if (d->params->list.len > MAX_PARAMS) {
        sema_error(c, DIAG_program_size, d->loc, "split the kernel", "kernel %s has more than %d parameters",
                   d->name.name, MAX_PARAMS);
        return;
    }
    for (uint32_t i = 0; i < d->params->list.len; i++)
        add_parameter(c, &d->params->list.at[i]);
    uint32_t errors = c->m->diags->errors;
    sema_equations(c);
    sema_row_parameters(c);
    if (c->m->diags->errors == errors)
        sema_shifts(c);
}
