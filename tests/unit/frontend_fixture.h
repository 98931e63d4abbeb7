/* Reading .moe text in a test: an arena, its diagnostics and the module, freed together. */
#ifndef TESTS_FRONTEND_FIXTURE_H
#define TESTS_FRONTEND_FIXTURE_H

#include "frontend/frontend.h"

#include <string.h>

typedef struct Reading {
    Arena *arena;
    Diags diags;
    Module *m;
    int failed;
} Reading;

static inline void reading_open(Reading *r, const char *path, const char *text, size_t len)
{
    *r = (Reading){.arena = arena_new()};
    r->diags.arena = r->arena;
    r->m = ir_module(r->arena, &r->diags, path);
    r->failed = frontend_read(r->m, path, text, len);
}

static inline void reading_text(Reading *r, const char *text)
{
    reading_open(r, "test.moe", text, strlen(text));
}

static inline void reading_close(Reading *r) { arena_free(r->arena); }

/* The codes of all errors, in order, with blanks between: "E0101 E0301". */
static inline const char *reading_codes(const Reading *r)
{
    Text out = {.arena = r->arena};
    for (uint32_t i = 0; i < r->diags.list.len; i++)
        if (diag_severity(r->diags.list.at[i].code) == SEV_ERROR)
            text_add(&out, "%s%s", out.len ? " " : "", diag_code_name(r->diags.list.at[i].code));
    return text_string(&out);
}

/* The equations of a kernel, one on each line. */
static inline const char *reading_equations(const Reading *r, const char *kernel)
{
    Text out = {.arena = r->arena};
    const Kernel *k = ir_find_kernel(r->m, name_of(r->m->names, kernel));
    for (uint32_t i = 0; k && i < k->eqs.len; i++) {
        ir_print_equation(k, &k->eqs.at[i], &out);
        text_add(&out, "\n");
    }
    return text_string(&out);
}

#endif
