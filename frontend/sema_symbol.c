/* What a kernel's names stand for, and how a mistake in a statement is reported. */
#include "frontend/sema.h"

#include <strings.h>

ExprId sema_error(KernelSema *c, DiagCode code, Loc loc, const char *help, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag_close(c->m->diags);
    if (!c->failed)
        diag_add(c->m->diags, code, loc, help, "%s", arena_vprintf(c->m->arena, format, args));
    va_end(args);
    c->failed = 1;
    return NONE;
}

const char *sema_text(KernelSema *c, ExprId e)
{
    Text t = {.arena = c->m->arena};
    ir_print_expr(c->k, e, &t);
    return text_string(&t);
}

const char *axis_text(const KernelSema *c, Axis a)
{
    if (a.group != NONE)
        return arena_printf(c->m->arena, "the rows of %s", c->m->groups.at[a.group].name);
    Text t = {.arena = c->m->arena};
    ext_print(c->m, a.extent, &t);
    return text_string(&t);
}

/* ---- symbols ---- */

int symbol_get(const KernelSema *c, Name name, SymbolKind kind, uint32_t *id)
{
    uint32_t value = namemap_get(&c->symbols, name);
    if (value == NAME_ABSENT || (value & 1) != (uint32_t)kind)
        return 0;
    *id = value >> 1;
    return 1;
}

void symbol_set(KernelSema *c, Name name, SymbolKind kind, uint32_t id)
{
    namemap_set(&c->symbols, name, id << 1 | (uint32_t)kind);
}

const Ahead *sema_ahead(const KernelSema *c, Name name)
{
    uint32_t at = namemap_get(&c->ahead_map, name);
    return at == NAME_ABSENT ? NULL : &c->ahead.at[at];
}

Guess sema_guess(KernelSema *c, Name wanted, int tensors, int scope)
{
    Guess g = guess_new(wanted);
    for (uint32_t t = 0; tensors && t < c->k->tensors.len; t++)
        guess_try(&g, c->k->tensors.at[t].name);
    for (uint32_t i = 0; scope && i < c->scope.len; i++)
        guess_try(&g, c->vars.at[c->scope.at[i]].name);
    for (uint32_t i = 0; scope && i < c->m->dims.len; i++)
        if (strcasecmp(c->m->dims.at[i].name, wanted) != 0) /* h is the index over H, not a slip for it */
            guess_try(&g, c->m->dims.at[i].name);
    return g;
}

int sema_is_recurrence(KernelSema *c, AstName name)
{
    if (!c->equation || c->equation->lhs->name.name != name.name)
        return 0;
    sema_error(c, DIAG_recurrence, name.loc,
               "a running sum is a sum up to the index, as in sum(j where j <= i) x[j]; else write a kernel "
               "for one step, whose "
               "state is inout",
               "%s is read in the equation that defines it: there are no recurrences", name.name);
    diag_label(c->m->diags, c->equation->lhs->loc, "it is defined here");
    return 1;
}

static int unknown_is_known(KernelSema *c, AstName name)
{
    if (namemap_get(&c->poison, name.name) != NAME_ABSENT || c->decl->equations->broken || c->c->broken)
        c->failed = 1;
    else if (sema_is_recurrence(c, name))
        return 1;
    else if (sema_ahead(c, name.name))
        sema_error(c, DIAG_used_before, name.loc, "move the equation that defines it above this one",
                   "%s is used before it is defined", name.name);
    return c->failed;
}

TensorId sema_find_tensor(KernelSema *c, AstName name)
{
    uint32_t id;
    if (symbol_get(c, name.name, SYMBOL_TENSOR, &id))
        return id;
    if (symbol_get(c, name.name, SYMBOL_ROUTE, &id))
        return sema_error(c, DIAG_route_value, name.loc,
                          arena_printf(c->m->arena, "use %s.token(r), %s.slot(r) or %s.row(t, k)", name.name,
                                       name.name, name.name),
                          "%s is a route, not a tensor", name.name);
    if (unknown_is_known(c, name))
        return NONE;
    Guess g = sema_guess(c, name.name, 1, 0);
    const char *help =
        arena_printf(c->m->arena, "declare it as a parameter, such as in %s: f32[T]", name.name);
    sema_error(c, DIAG_unknown_tensor, name.loc, guess_help(c->m->arena, &g, help),
               "the kernel has no tensor %s", name.name);
    guess_edit(c->m->diags, &g, name.loc);
    return NONE;
}

RouteId sema_find_route(KernelSema *c, AstName name)
{
    uint32_t id;
    if (symbol_get(c, name.name, SYMBOL_ROUTE, &id))
        return id;
    if (unknown_is_known(c, name))
        return NONE;
    Guess g = guess_new(name.name);
    for (uint32_t r = 0; r < c->k->routes.len; r++)
        guess_try(&g, c->k->routes.at[r].name);
    const char *help =
        arena_printf(c->m->arena, "declare it as a parameter, such as in %s: route[T, K -> R]", name.name);
    sema_error(c, DIAG_unknown_route, name.loc, guess_help(c->m->arena, &g, help),
               "the kernel has no route %s", name.name);
    guess_edit(c->m->diags, &g, name.loc);
    return NONE;
}
