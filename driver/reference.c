/* The modules that the reference interpreter runs; see Note [Reference]. */
#include "driver/reference.h"

#include "frontend/frontend.h"

#include <string.h>

/* What is printed must read: text that does not is a fault of the compiler. */
static Module *read_printed(const Compilation *c)
{
    Arena *a = c->arena;
    Diags *diags = arena_new_of(a, Diags);
    diags->arena = a;
    Text text = {.arena = a};
    ir_print(c->module, NULL, &text);
    Module *m = ir_module(a, diags, arena_printf(a, "%s, derived", c->path));
    if (frontend_read(m, m->path, text_string(&text), text.len))
        BUG(a, "the derived program does not read back: %s", diag_text(diags, a));
    return m;
}

/* Sizes are passed by DimId. */
static void check_dims(const Compilation *c, const Module *m)
{
    uint32_t same = 0;
    while (same < m->dims.len && same < c->module->dims.len &&
           strcmp(m->dims.at[same].name, c->module->dims.at[same].name) == 0)
        same++;
    if (same < c->module->dims.len || same < m->dims.len)
        BUG(c->arena, "dimension %u of the program is not where it was", same);
}

static int has_derived(const Module *m)
{
    for (uint32_t i = 0; i < m->kernels.len; i++)
        if (m->kernels.at[i]->derived)
            return 1;
    return 0;
}

int reference_make(Compilation *c, Reference *out)
{
    int status = compile_reread(c, &out->program);
    if (status)
        return status;
    if (!has_derived(c->module)) {
        out->derived = out->program;
    } else if (ir_is_printable(c->module)) {
        out->derived = read_printed(c);
    } else {
        return DRIVER_ERROR;
    }
    check_dims(c, out->program);
    check_dims(c, out->derived);
    return DRIVER_OK;
}

Kernel *reference_of(const Reference *r, const Kernel *k)
{
    const Module *m = k->derived ? r->derived : r->program;
    return ir_find_kernel(m, name_of(m->names, k->name));
}
