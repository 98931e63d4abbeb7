/* Tile text read into a module of its own. One set for each test program. */
#ifndef TESTS_TILE_FIXTURE_H
#define TESTS_TILE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/tile.h"

#define MAYBE __attribute__((unused))

typedef struct Fixture {
    Arena *arena;
    Diags diags;
    Module *module;
} Fixture;

MAYBE static int read_text(Fixture *f, const char *text)
{
    *f = (Fixture){.arena = arena_new()};
    f->diags.arena = f->arena;
    f->module = ir_module(f->arena, &f->diags, "t.moetiles");
    uint32_t file = diag_add_file(&f->diags, "t.moetiles", text, strlen(text));
    return tile_read(f->module, file, text, strlen(text));
}

MAYBE static const char *printed(Fixture *f)
{
    Text out = {.arena = f->arena};
    tile_print(f->module, NULL, &out);
    return text_string(&out);
}

/* A kernel around a body of statements, with what the cases below need. */
MAYBE static const char *wrapped(char *out, size_t size, const char *body)
{
    snprintf(out, size,
             "tiles 1\ndim T\ndim E\ndim H\ngroup R : E rows T\n"
             "kernel f(in x: f32[T, H], in id: i32[T], in rt: route[T, 1 -> R], inout y: f32[T, H], inout h16: "
             "f16[T]) {\n"
             "cost T\nwork g: f32[T, H]\nthread s: f32[H]\nreg acc: f32[4] x 8\nreg one: f32[2]\n%s\n}\n",
             body);
    return out;
}

#endif
