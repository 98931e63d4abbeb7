/* The names that a compiled module exports: those of its kernels and what is made from them. */
#include "frontend/sema.h"

typedef struct Exports {
    Sema *c;
    NameMap owners; /* exported name -> place in kernels */
    Vec(AstName) kernels;
} Exports;

static void add(Exports *x, const char *format, const char *kernel, const char *param)
{
    Sema *c = x->c;
    Name name = name_of(c->m->names, arena_printf(c->arena, format, kernel, param));
    uint32_t other = namemap_get(&x->owners, name), id = x->kernels.len - 1;
    if (other == NAME_ABSENT) {
        namemap_set(&x->owners, name, id);
        return;
    }
    diag_add(c->m->diags, DIAG_duplicate_name, x->kernels.at[id].loc, "give one of the kernels another name",
             "kernels %s and %s both have a C function %s", x->kernels.at[other].name, kernel, name);
}

static void add_kernel(Exports *x, AstName kernel)
{
    vec_push(x->c->arena, &x->kernels, kernel);
    add(x, "%s%s", kernel.name, "");
    add(x, "%s_workspace%s", kernel.name, "");
    add(x, "%s__call%s", kernel.name, "");
    add(x, "%s__workspace%s", kernel.name, "");
}

static void add_packed(Exports *x, const Kernel *k, const char *kernel)
{
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param p = k->params.at[i];
        if (p.kind != PARAM_TENSOR || k->tensors.at[p.id].layout != LAYOUT_PAIRS)
            continue;
        add(x, "%s_%s_pack", kernel, k->tensors.at[p.id].name);
        add(x, "%s_%s_pack_bytes", kernel, k->tensors.at[p.id].name);
    }
}

void sema_exports(Sema *c)
{
    Exports x = {.c = c, .owners = {.arena = c->arena}};
    if (c->m->diags->errors)
        return;
    for (uint32_t i = 0; i < c->m->kernels.len; i++) {
        const Kernel *k = c->m->kernels.at[i];
        add_kernel(&x, (AstName){k->name, k->loc});
        add_packed(&x, k, k->name);
    }
    for (uint32_t i = 0; i < c->m->derives.len; i++) {
        const Derive *d = &c->m->derives.at[i];
        const Name made[] = {d->forward, d->backward, d->later};
        for (uint32_t n = 0; n < 3 && made[n]; n++) {
            add_kernel(&x, (AstName){made[n], d->loc});
            add_packed(&x, ir_find_kernel(c->m, d->kernel), made[n]);
        }
    }
}
