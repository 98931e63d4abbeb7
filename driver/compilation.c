/* The life of a compilation, and the landing place that each of its steps runs under. */
#include "driver/driver.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- life ---- */

Compilation *compile_new(const CompileOptions *o)
{
    Compilation *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->arena = arena_new();
    if (!c->arena) {
        free(c);
        return NULL;
    }
    c->options = o ? *o : compile_defaults;
    c->diags.arena = c->tuned.arena = c->times.arena = c->arena;
    c->diags.color = c->options.color;
    c->diags.allowed = c->options.allow;
    c->path = "<none>";
    c->turn = -1;
    c->product = PRODUCT_TILES; /* what runs all passes */
    c->errors = "";
    c->errors_json = "{\"errors\": 0, \"diagnostics\": []}";
    return c;
}

void compile_free(Compilation *c)
{
    if (!c)
        return;
    plugin_load_end(&c->load);
    arena_free(c->arena);
    free(c);
}

/* ---- errors ---- */

static Loc nowhere(void) { return (Loc){0}; }

int compile_fail(Compilation *c, DiagCode code, const char *text)
{
    diag_add(&c->diags, code, nowhere(), NULL, "%s", text);
    return DRIVER_ERROR;
}

/* What an escape leaves: no list of diagnostics can be trusted, so the one text stands alone. */
static int landed(Compilation *c)
{
    int bug = arena_escaped(c->arena) == ESCAPE_BUG;
    const char *message = arena_message(c->arena);
    snprintf(c->failure, sizeof c->failure, "%.300s: %s: %.600s\n", c->path, bug ? "internal error" : "error",
             message);
    diag_json_failure(bug ? "internal" : "error", message, c->failure_json, sizeof c->failure_json);
    c->errors = c->failure;
    c->errors_json = c->failure_json;
    return bug ? DRIVER_INTERNAL : DRIVER_ERROR;
}

static int report(Compilation *c, void *user)
{
    (void)user;
    c->errors = diag_text(&c->diags, c->arena);
    c->errors_json = diag_json(&c->diags, c->arena);
    return DRIVER_OK;
}

static int guard_once(Compilation *c, int (*f)(Compilation *c, void *user), void *user)
{
    jmp_buf landing;
    if (setjmp(landing)) {
        arena_set_landing(c->arena, NULL);
        return landed(c);
    }
    arena_set_landing(c->arena, &landing);
    int status = f(c, user);
    arena_set_landing(c->arena, NULL);
    return status;
}

int compile_guard(Compilation *c, int (*f)(Compilation *c, void *user), void *user)
{
    int status = guard_once(c, f, user);
    if (arena_escaped(c->arena) == ESCAPE_NONE) {
        int reported = guard_once(c, report, NULL);
        if (reported)
            status = reported;
    }
    cache_end_turn(&c->turn);
    return status;
}
