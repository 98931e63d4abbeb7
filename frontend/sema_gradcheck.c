/* `gradcheck` in a test block: there are gradients to check, because something is derived from the kernel. */
#include "frontend/sema.h"

#include <string.h>

static int is_derived_from(const Sema *c, Name kernel)
{
    for (uint32_t i = 0; i < c->decls.len; i++)
        if (c->decls.at[i]->kind == DECL_DERIVE && c->decls.at[i]->name.name == kernel)
            return 1;
    return 0;
}

/* The kernel from which derive makes this one, or NULL. */
static Name origin_of(const Module *m, Name kernel)
{
    for (uint32_t i = 0; i < m->derives.len; i++) {
        const Derive *d = &m->derives.at[i];
        if (d->forward == kernel || d->backward == kernel || d->later == kernel)
            return d->kernel;
    }
    return NULL;
}

/* ---- the derive line ---- */

/* "x, w": the inputs that have gradients; NULL: the kernel cannot be derived, or has none. */
static const char *wrt_of(const Sema *c, const Kernel *k)
{
    Text t = {.arena = c->arena};
    int floats = 0;
    for (uint32_t i = 0; i < k->params.len; i++) {
        if (k->params.at[i].kind != PARAM_TENSOR)
            continue;
        const Tensor *x = &k->tensors.at[k->params.at[i].id];
        if (x->role == ROLE_INOUT)
            return NULL;
        if (x->role == ROLE_IN && x->elem != EL_I32)
            text_add(&t, t.len ? ", %s" : "%s", x->name);
        floats |= x->role == ROLE_OUT && x->elem != EL_I32;
    }
    return floats && t.len ? text_string(&t) : NULL;
}

static int is_free(const Sema *c, const char *name)
{
    Name known = name_of(c->m->names, name);
    return namemap_get(&c->kernels, known) == NAME_ABSENT && namemap_get(&c->derived, known) == NAME_ABSENT;
}

static const char *derive_line(const Sema *c, const Kernel *k)
{
    const char *wrt = wrt_of(c, k), *forward = arena_printf(c->arena, "%s_fwd", k->name),
               *backward = arena_printf(c->arena, "%s_bwd", k->name);
    if (!wrt || !is_free(c, forward) || !is_free(c, backward))
        return NULL;
    return arena_printf(c->arena, "derive (%s, %s) from %s wrt %s\n", forward, backward, k->name, wrt);
}

static int begins_with_test(const Sema *c, Loc loc)
{
    static const char word[] = "test ";
    DiagLine line;
    return diag_line(c->m->diags, loc, &line) && line.len >= sizeof word - 1 &&
           memcmp(line.at, word, sizeof word - 1) == 0;
}

/* ---- the check ---- */

static const char *help(const Sema *c, Name origin, const char *line)
{
    if (origin)
        return arena_printf(c->arena, "write it in a test of %s", origin);
    return line ? "derive gradients, or take gradcheck out" : "take gradcheck out, or derive gradients";
}

void sema_gradcheck(Sema *c, const AstDecl *test, const Kernel *k, Loc loc)
{
    if (is_derived_from(c, test->name.name))
        return;
    Name origin = origin_of(c->m, test->name.name);
    const char *line = k && !origin ? derive_line(c, k) : NULL;
    diag_add(c->m->diags, DIAG_gradcheck_nothing, loc, help(c, origin, line),
             "nothing is derived from %s: there is no gradient to check", test->name.name);
    const Loc above = {test->loc.file, test->loc.line, 1, 0};
    if (line && begins_with_test(c, above))
        diag_edit(c->m->diags, above, line);
}
