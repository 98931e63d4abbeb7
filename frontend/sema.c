/* The order in which a module is checked: what is named first, then kernels, then what names kernels. */
#include "frontend/sema.h"

static void each(Sema *c, AstDeclKind kind, void (*check)(Sema *c, const AstDecl *d))
{
    for (uint32_t i = 0; i < c->decls.len; i++)
        if (c->decls.at[i]->kind == kind && c->m->diags->errors <= DIAG_LIMIT) {
            c->declaration = c->decls.at[i];
            check(c, c->declaration);
        }
}

static void read_kernel(Sema *c, const AstDecl *d)
{
    if (sema_too_many(c, d->loc, c->m->kernels.len, "kernels"))
        return;
    int good = sema_kernel_name(c, d->name);
    uint32_t id = c->m->kernels.len, errors = c->m->diags->errors;
    sema_kernel(c, d);
    if (c->m->diags->errors != errors)
        namemap_set(&c->bad, d->name.name, id);
    if (good)
        namemap_set(&c->kernels, d->name.name, id);
}

static void add_function(Sema *c, const AstDecl *d) { sema_add_function(c, d); }

void sema_declarations(Sema *c)
{
    each(c, DECL_TYPE, sema_type);
    sema_types_used(c);
    each(c, DECL_DIM, sema_dim);
    each(c, DECL_GROUP, sema_group);
    each(c, DECL_FN, add_function);
    for (uint32_t i = 0; i < c->fns.len && c->m->diags->errors <= DIAG_LIMIT; i++)
        sema_function(c, i);
    each(c, DECL_KERNEL, read_kernel);
    each(c, DECL_DERIVE, sema_derive);
    each(c, DECL_SCHEDULE, sema_schedule);
    each(c, DECL_TEST, sema_test);
    sema_exports(c);
}
