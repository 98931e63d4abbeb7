/* For the tests of backend/: tile text -> plug-in -> callable kernels, for every instruction set of this CPU.
 */
#ifndef TESTS_BACKEND_FIXTURE_H
#define TESTS_BACKEND_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "backend/backend.h"
#include "moec/moert.h"

typedef struct Compiled {
    Arena *arena;
    Diags diags;
    Module *module;
    BackendJit *jit;
    char message[MOE_MESSAGE_BYTES];
    moe_ctx ctx;
} Compiled;

static const BackendApi *backend(void)
{
    static const BackendApi *api;
    if (api)
        return api;
    void *plugin = dlopen(MOEC_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (!plugin)
        fail_msg("%s", dlerror());
    BackendEntry *entry = (BackendEntry *)(uintptr_t)dlsym(plugin, "backend_entry");
    assert_non_null(entry);
    unsetenv("MOE_ISA"); /* each test names its instruction set */
    return api = entry();
}

static void read_tiles(Compiled *c, const char *text)
{
    *c = (Compiled){.arena = arena_new()};
    c->diags.arena = c->arena;
    c->module = ir_module(c->arena, &c->diags, "t.tiles");
    uint32_t file = diag_add_file(&c->diags, "t.tiles", text, strlen(text));
    if (tile_read(c->module, file, text, strlen(text)))
        fail_msg("%s", diag_text(&c->diags, c->arena));
    for (uint32_t i = 0; i < c->module->kernels.len; i++) {
        const char *broken = tile_verify(c->module->kernels.at[i], c->arena);
        if (broken)
            fail_msg("%s", broken);
    }
    c->ctx.message = c->message;
    c->ctx.threads = 1;
}

static void compile(Compiled *c, const char *text, Isa isa)
{
    BackendOptions options = {.level = 2};
    const char *object;
    size_t len;
    read_tiles(c, text);
    BackendInput input = {c->module, isa};
    const char *error = backend()->emit(&input, 1, &options, OUTPUT_OBJECT, c->arena, &object, &len);
    if (!error)
        error = backend()->jit_load(object, len, 0, c->arena, &c->jit);
    if (error)
        fail_msg("%s", error);
}

static void done(Compiled *c)
{
    backend()->jit_free(c->jit);
    free(c->ctx.work);
    arena_free(c->arena);
}

static int call(Compiled *c, const char *kernel, const int64_t *dims, void *const *args)
{
    char name[64];
    snprintf(name, sizeof name, "%s__call", kernel);
    moe_entry *entry = (moe_entry *)(uintptr_t)backend()->jit_symbol(c->jit, name);
    if (!entry)
        fail_msg("there is no %s", name);
    c->message[0] = '\0';
    return entry(&c->ctx, dims, args);
}

static void call_fine(Compiled *c, const char *kernel, const int64_t *dims, void *const *args)
{
    int status = call(c, kernel, dims, args);
    if (status)
        fail_msg("status %d: %s", status, c->message);
}

#define EACH_ISA(isa)                         \
    for (Isa isa = 0; isa < ISA_COUNT; isa++) \
        if (cpu_has(isa))

static inline uint16_t to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float from_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Whole numbers in -8..7: their sums of products are exact. */
static inline float small_number(uint32_t i) { return (float)((int)(i * 2654435761u >> 28) - 8); }

#endif
