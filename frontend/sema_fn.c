/* The bodies of functions, each checked once where it is declared: names, number of arguments, no way back to
 * itself. Types are found out where a function is put in (sema_call.c), since its arguments have none
 * before. */
#include "frontend/sema.h"

enum {
    MAX_WAY = AST_MAX_HEIGHT + 500
}; /* through bodies and the functions they call: recursion of this file */

typedef struct FnSema {
    Sema *c;
    const AstDecl *fn;
    uint32_t depth; /* of the way so far */
} FnSema;

static int refuse(FnSema *f, DiagCode code, const AstExpr *e, const char *help, const char *what, Name name)
{
    diag_add(f->c->m->diags, code, e->loc, help, "%s%s%s", what, name ? " " : "", name ? name : "");
    return 0;
}

static int is_parameter(const AstDecl *fn, Name name)
{
    for (uint32_t i = 0; i < fn->names->list.len; i++)
        if (fn->names->list.at[i].name == name)
            return 1;
    return 0;
}

static int name_ok(FnSema *f, const AstExpr *e)
{
    Sema *c = f->c;
    if (is_parameter(f->fn, e->name.name) || namemap_get(&c->dims, e->name.name) != NAME_ABSENT || c->broken)
        return 1;
    Guess g = guess_new(e->name.name);
    for (uint32_t i = 0; i < f->fn->names->list.len; i++)
        guess_try(&g, f->fn->names->list.at[i].name);
    const char *help = arena_printf(c->arena, "make it a parameter of %s", f->fn->name.name);
    return refuse(f, DIAG_unknown_name, e, guess_help(c->arena, &g, help),
                  "there is no parameter or dimension", e->name.name);
}

static int sema_body(FnSema *f, uint32_t fn);

static int arity_ok(FnSema *f, const AstExpr *e, uint32_t wanted)
{
    if (e->nargs == wanted)
        return 1;
    diag_add(
        f->c->m->diags, DIAG_arity, e->loc,
        arena_printf(f->c->arena, "give %s %s", e->name.name, count_text(f->c->arena, wanted, "argument")),
        "%s takes %s, not %u", e->name.name, count_text(f->c->arena, wanted, "argument"), e->nargs);
    return 0;
}

static int call_ok(FnSema *f, const AstExpr *e)
{
    Sema *c = f->c;
    uint32_t fn = namemap_get(&c->functions, e->name.name);
    if (fn != NAME_ABSENT)
        return arity_ok(f, e, c->fns.at[fn].decl->names->list.len) && sema_body(f, fn);
    ScalarOp op = scalar_find(e->name.name);
    if (op != OP_COUNT)
        return arity_ok(f, e, scalar_table[op].arity);
    if (c->broken)
        return 0;
    Guess g = guess_new(e->name.name);
    for (uint32_t i = 0; i < c->fns.len; i++)
        guess_try(&g, c->fns.at[i].decl->name.name);
    for (ScalarOp o = 0; o < OP_COUNT; o++)
        if (scalar_find(scalar_table[o].spelling) == o)
            guess_try(&g, scalar_table[o].spelling);
    const char *help = arena_printf(c->arena, "declare it: fn %s(x) = ...", e->name.name);
    return refuse(f, DIAG_unknown_function, e, guess_help(c->arena, &g, help), "there is no function",
                  e->name.name);
}

static int body_ok(FnSema *f, const AstExpr *e)
{
    const char *help = "pass its value as an argument";
    switch (e->kind) {
    case AST_BAD: return 0;
    case AST_INT:
    case AST_FLOAT: return 1;
    case AST_NAME: return name_ok(f, e);
    case AST_ACCESS:
        return refuse(f, DIAG_fn_body, e, help, "a function cannot read the tensor", e->name.name);
    case AST_MAP: return refuse(f, DIAG_fn_body, e, help, "a function cannot use the route", e->name.name);
    case AST_GROUP: return refuse(f, DIAG_fn_body, e, help, "a function cannot use @", NULL);
    case AST_REDUCE: return refuse(f, DIAG_fn_body, e, help, "a function cannot reduce", NULL);
    case AST_CALL:
        if (!call_ok(f, e))
            return 0;
        break;
    case AST_OP:
    case AST_IF: break;
    }
    int good = 1;
    f->depth++;
    for (uint32_t i = 0; good && i < e->nargs; i++)
        good = body_ok(f, e->args[i]);
    f->depth--;
    return good;
}

static int parameters_ok(Sema *c, const AstDecl *fn)
{
    if (fn->names->list.len > MAX_PARAMS) {
        diag_add(c->m->diags, DIAG_program_size, fn->loc, "take fewer parameters",
                 "fn %s has more than %d parameters", fn->name.name, MAX_PARAMS);
        return 0;
    }
    NameMap seen = {.arena = c->arena};
    for (uint32_t i = 0; i < fn->names->list.len; i++) {
        AstName name = fn->names->list.at[i];
        if (namemap_get(&seen, name.name) != NAME_ABSENT) {
            diag_add(c->m->diags, DIAG_duplicate_name, name.loc, "give one of them another name",
                     "fn %s has two parameters %s", fn->name.name, name.name);
            return 0;
        }
        namemap_set(&seen, name.name, i);
    }
    return 1;
}

/* The body of a function that is called, or of the one that is checked; f stays at its caller. */
static int sema_body(FnSema *f, uint32_t fn)
{
    Fn *at = &f->c->fns.at[fn];
    if (at->state == FN_GOOD || at->state == FN_BAD)
        return at->state == FN_GOOD;
    if (at->state == FN_CHECKING || f->depth >= MAX_WAY) {
        diag_add(f->c->m->diags, at->state == FN_CHECKING ? DIAG_fn_recursive : DIAG_nesting, f->fn->loc,
                 "write it without calling itself",
                 at->state == FN_CHECKING ? "fn %s leads back to itself"
                                          : "fn %s calls too many others in a chain",
                 at->decl->name.name);
        return 0;
    }
    at->state = FN_CHECKING;
    FnSema inner = {f->c, at->decl, f->depth + 1};
    int good = parameters_ok(f->c, at->decl) && body_ok(&inner, at->decl->body);
    f->c->fns.at[fn].state = good ? FN_GOOD : FN_BAD;
    if (good)
        sema_type_fn(f->c, &f->c->fns.at[fn]);
    return good;
}

void sema_function(Sema *c, uint32_t fn)
{
    FnSema f = {c, c->fns.at[fn].decl, 0};
    sema_body(&f, fn);
}
