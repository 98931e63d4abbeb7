/* An index whose extent nothing tells: which one may be meant, or which other index. */
#include "frontend/sema.h"

#include <ctype.h>

/* ---- which extent ---- */

/* The dimension that is called like the index in capitals, as K of k; or NULL. */
static const char *capital_of(const KernelSema *c, Name index)
{
    for (DimId d = 0; d < c->m->dims.len; d++) {
        const char *dim = c->m->dims.at[d].name, *at = index;
        while (*at && *dim == toupper((unsigned char)*at))
            at++, dim++;
        if (!*at && !*dim)
            return c->m->dims.at[d].name;
    }
    return NULL;
}

/* Of the axis where it stands in a sum, of what it is compared with, of the dimension with its name, of an index with its name in
 * an equation above. NULL: it could be any. */
static const char *likely_extent(KernelSema *c, const Var *v)
{
    if (v->near != NONE)
        return axis_text(c, (Axis){v->near, NONE});
    if (v->beside != NONE && c->vars.at[v->beside].known)
        return axis_text(c, c->vars.at[v->beside].axis);
    if (capital_of(c, v->name))
        return capital_of(c, v->name);
    for (uint32_t i = c->k->indices.len; i-- > 0;)
        if (c->k->indices.at[i].name == v->name)
            return axis_text(c, c->k->indices.at[i].axis);
    return NULL;
}

/* "k: K" */
static const char *with_extent(KernelSema *c, const Var *v)
{
    const char *extent = likely_extent(c, v), *any = c->m->dims.len ? c->m->dims.at[0].name : "8";
    return arena_printf(c->m->arena, "%s: %s", v->name, extent ? extent : any);
}

/* Of an index that stands by itself, which names in computed subscripts of `+=` may not. */
static void edit_extent(KernelSema *c, const Var *v)
{
    int computed = v->on_left && c->equation && c->equation->kind == EQ_ADD;
    if (likely_extent(c, v) && !computed)
        diag_edit(c->m->diags, v->loc, with_extent(c, v));
}

/* ---- an index that its term lacks ---- */

static int occurs(const AstExpr *e, Name name)
{
    if (e->kind == AST_NAME && e->name.name == name)
        return 1;
    for (uint32_t i = 0; i < e->nargs; i++)
        if (occurs(e->args[i], name))
            return 1;
    for (uint32_t i = 0; e->binds && i < e->binds->list.len; i++)
        if (e->binds->list.at[i].in && occurs(e->binds->list.at[i].in, name))
            return 1;
    return 0;
}

/* Could the name be an index, and does nothing in the equation bind it? */
static int is_unbound(const KernelSema *c, Name name)
{
    uint32_t id;
    int known = symbol_get(c, name, SYMBOL_TENSOR, &id) || symbol_get(c, name, SYMBOL_ROUTE, &id) ||
                namemap_get(&c->c->dims, name) != NAME_ABSENT ||
                namemap_get(&c->c->groups, name) != NAME_ABSENT;
    for (uint32_t i = 0; !known && i < c->vars.len; i++)
        known = c->vars.at[i].name == name;
    return !known;
}

/* Counts the names that stand as subscripts in e and that nothing binds, the same one once; *found is the last. */
static uint32_t unbound(const KernelSema *c, const AstExpr *e, Name *found)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->nargs; i++) {
        Name name = e->kind == AST_ACCESS && e->args[i]->kind == AST_NAME ? e->args[i]->name.name : NULL;
        if (!name) {
            n += unbound(c, e->args[i], found);
        } else if (name != *found && is_unbound(c, name)) {
            *found = name;
            n++;
        }
    }
    return n;
}

static int refuse_absent(KernelSema *c, const Var *v)
{
    Name other = NULL;
    int one = unbound(c, v->term, &other) == 1;
    const char *help =
        one ? arena_printf(c->m->arena, "go over %s, which stands there and is not bound", other)
            : arena_printf(c->m->arena, "take it out, or write its extent behind it, as in %s",
                           with_extent(c, v));
    sema_error(c, DIAG_no_extent, v->loc, help,
               "nothing tells the extent of %s: it does not occur in the term that it is bound for", v->name);
    if (one)
        diag_edit(c->m->diags, v->loc, other);
    return 0;
}

/* ---- what is said ---- */

static int is_row_of_group(const KernelSema *c, const Var *v)
{
    for (uint32_t i = 0; i < c->hints.len; i++)
        if (c->hints.at[i].kind == HINT_IN && &c->vars.at[c->hints.at[i].var] == v)
            return 1;
    return 0;
}

int refuse_extent(KernelSema *c, const Var *v)
{
    if (c->decl->equations->broken) { /* what would have told it may be what did not parse */
        c->failed = 1;
        return 0;
    }
    if (is_row_of_group(c, v))
        return sema_error(c, DIAG_which_group, v->loc,
                          arena_printf(c->m->arena, "name the rows, as in %s: R in e", v->name),
                          "%s could range over the rows of several groups, or of none", v->name) != NONE;
    if (v->term && !occurs(v->term, v->name))
        return refuse_absent(c, v);
    sema_error(c, DIAG_no_extent, v->loc,
               arena_printf(c->m->arena, "write its extent behind it, as in %s", with_extent(c, v)),
               "nothing tells the extent of %s: it is never a whole subscript", v->name);
    edit_extent(c, v);
    return 0;
}
