/* How far a reduction goes: an index that stands behind the product that it takes, as k in `min(k) x[i, k] + y[k, j]`. */
#include "frontend/sema.h"

static int binds(const AstExpr *e, Name name)
{
    for (uint32_t i = 0; e->binds && i < e->binds->list.len; i++)
        if (e->binds->list.at[i].index.name == name)
            return 1;
    return 0;
}

/* The reduction over the name that goes on up to the end of an operand of e, outside of brackets; or NULL. */
static const AstExpr *open_reduction(const AstExpr *e, Name name)
{
    if (e->closed || (e->kind != AST_REDUCE && e->kind != AST_OP))
        return NULL;
    if (e->kind == AST_REDUCE)
        return binds(e, name) ? e : open_reduction(e->args[0], name);
    for (uint32_t i = e->nargs; i-- > 0;) {
        const AstExpr *found = open_reduction(e->args[i], name);
        if (found)
            return found;
    }
    return NULL;
}

static int names(const AstExpr *e, Name name)
{
    if (e->kind == AST_NAME && e->name.name == name)
        return 1;
    for (uint32_t i = 0; i < e->nargs; i++)
        if (names(e->args[i], name))
            return 1;
    return 0;
}

static int holds(const AstExpr *e, const AstExpr *part)
{
    int found = e == part;
    for (uint32_t i = 0; !found && i < e->nargs; i++)
        found = holds(e->args[i], part);
    return found;
}

/* The outermost operation around `at` whose right side has the name and whose left side the reduction; or NULL. */
static const AstExpr *beyond(const AstExpr *e, const AstExpr *at, const AstExpr **reduction)
{
    Name name = at->name.name;
    if (e->kind == AST_OP && e->nargs == 2 && names(e->args[1], name)) {
        *reduction = open_reduction(e->args[0], name);
        if (*reduction && holds(e, at))
            return e;
    }
    const AstExpr *found = NULL;
    for (uint32_t i = 0; !found && i < e->nargs; i++)
        found = beyond(e->args[i], at, reduction);
    return found;
}

/* The sign at which the reduction ends: of the innermost operation that has it on its left. */
static const char *ending(const AstExpr *e, const AstExpr *reduction)
{
    while (e->args[0]->kind == AST_OP && e->args[0]->nargs == 2 && holds(e->args[0]->args[0], reduction))
        e = e->args[0];
    return scalar_table[e->op].spelling;
}

int sema_is_behind_reduction(KernelSema *c, const AstExpr *e)
{
    static const char *const words[] = {[RED_SUM] = "sum", [RED_MAX] = "max", [RED_MIN] = "min"};
    const AstExpr *reduction = NULL;
    const AstExpr *whole = c->equation && c->equation->rhs ? beyond(c->equation->rhs, e, &reduction) : NULL;
    if (!whole)
        return 0;
    Loc body = reduction->args[0]->loc, end = whole->loc;
    sema_error(c, DIAG_unknown_name, e->loc, "write parentheses around all that it goes over",
               "%s is not bound here: the `%s` over it ends before `%s`", e->name.name, words[reduction->op],
               ending(whole, reduction));
    if (end.len >= LOC_LINES)
        return 1;
    diag_edit(c->m->diags, (Loc){body.file, body.line, body.col, 0}, "(");
    diag_edit(c->m->diags, (Loc){end.file, end.line, end.col + end.len, 0}, ")");
    return 1;
}
