/* Warnings of declarations, where there are no errors: names that nothing uses, rules that nothing needs. A file without kernels
 * is there for others, which use what it declares. */
#include "frontend/parser.h"
#include "frontend/sema.h"

#include "moe_parser.h"

/* How often each name stands in the text of a file. */
static NameMap count_names(Sema *c, uint32_t file)
{
    const SourceFile *f = &c->m->diags->files.at[file];
    NameMap count = {.arena = c->arena};
    Parser *scan = parser_trial(c->arena, f->text, f->len);
    ParserToken t;
    while (scanner_next(scan, &t) != MOE_EOF)
        if (t.kind == NAME) {
            Name name = name_of(c->m->names, t.name);
            uint32_t before = namemap_get(&count, name);
            namemap_set(&count, name, before == NAME_ABSENT ? 1 : before + 1);
        }
    scanner_close(scan);
    return count;
}

static void say(Sema *c, Loc loc, const char *what, Name name)
{
    diag_add(c->m->diags, DIAG_unused_name, loc, "remove it, or begin its name with _", "nothing uses %s %s",
             what, name);
}

static void look_at(Sema *c, const NameMap *count, AstName name, const char *what)
{
    if (*name.name != '_' && namemap_get(count, name.name) == 1)
        say(c, name.loc, what, name.name);
}

static void look_at_rule(Sema *c, const AstDecl *d)
{
    if (d->multiple.value <= 1 || d->prefer.value > 0 || d->constant.value >= 0)
        return;
    diag_add(c->m->diags, DIAG_idle_rule, d->multiple.loc,
             "if it is there for speed, say which sizes are fast",
             "`%% %lld` refuses calls, and nothing here needs it: other sizes are padded",
             (long long)d->multiple.value);
    diag_edit(c->m->diags, d->multiple.loc,
              arena_printf(c->arena, "1 prefer %lld", (long long)d->multiple.value));
}

static void declarations(Sema *c, const NameMap *count, uint32_t file)
{
    for (uint32_t i = 0; i < c->decls.len; i++) {
        const AstDecl *d = c->decls.at[i];
        if (d->loc.file != file)
            continue;
        for (uint32_t n = 0; d->kind == DECL_DIM && n < d->names->list.len; n++)
            look_at(c, count, d->names->list.at[n], "the dimension");
        if (d->kind == DECL_DIM)
            look_at_rule(c, d);
        if (d->kind == DECL_GROUP)
            look_at(c, count, d->name, "the group");
        if (d->kind == DECL_FN)
            look_at(c, count, d->name, "the function");
        if (d->kind == DECL_TYPE)
            look_at(c, count, d->name, "the type");
    }
}

/* ---- kernels ---- */

static int is_saved(const Module *m, const Kernel *k, Name local)
{
    for (uint32_t i = 0; i < m->derives.len; i++)
        for (uint32_t s = 0; m->derives.at[i].kernel == k->name && s < m->derives.at[i].save.len; s++)
            if (m->derives.at[i].save.at[s].name == local)
                return 1;
    return 0;
}

static int is_read(const Kernel *k, TensorId t)
{
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->kind == EQ_TOP && (q->lhs == t || q->ids == t))
            return 1; /* it has to be named: top gives values and places */
        int read = q->kind == EQ_ROUTE ? q->ids == t : x_loads(k, q->rhs, t);
        for (uint32_t n = 0; !read && n < q->nindex; n++)
            read = x_loads(k, q->index[n], t);
        if (read)
            return 1;
    }
    return 0;
}

/* Of parameters only scalars: a tensor may be there for its shape. */
static void tensors(Sema *c, const Kernel *k)
{
    for (TensorId t = 0; t < k->tensors.len; t++) {
        const Tensor *x = &k->tensors.at[t];
        int local = x->role == ROLE_LOCAL, scalar = x->role == ROLE_IN && x->rank == 0;
        if ((!local && !scalar) || *x->name == '_' || is_read(k, t) || (local && is_saved(c->m, k, x->name)))
            continue;
        say(c, x->loc, local ? "the local" : "the parameter", x->name);
    }
}

void sema_warn(Sema *c, uint32_t file)
{
    uint32_t kernels = 0;
    for (uint32_t i = 0; i < c->m->kernels.len; i++)
        if (c->m->kernels.at[i]->loc.file == file) {
            tensors(c, c->m->kernels.at[i]);
            kernels++;
        }
    NameMap count = count_names(c, file);
    if (kernels)
        declarations(c, &count, file);
}
