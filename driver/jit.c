/* Code in this process. On a cache hit the cached .so is opened and no LLVM is loaded; on a miss the object
 * goes to the JIT at once, and a .so of it is left in the cache for the next process. */
#include "driver/log.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *code_open_library(const char *path, Arena *a, Loaded *out)
{
    dlopen("libgomp.so.1",
           RTLD_LAZY | RTLD_NODELETE); /* see Note [Pool]; the kernel itself says when it is missing */
    *out = (Loaded){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (out->library) {
        log_calls_of(out);
        return NULL;
    }
    const char *why = dlerror();
    return arena_printf(a, "%s: cannot be loaded: %s", path, why ? why : "no reason given");
}

void *code_symbol(const Loaded *l, const char *name)
{
    return l->jit ? l->api->jit_symbol(l->jit, name) : dlsym(l->library, name);
}

void code_unload(Loaded *l)
{
    if (l->jit)
        l->api->jit_free(l->jit);
    if (l->library)
        dlclose(l->library);
    *l = (Loaded){.library = NULL};
}

/* A missing linker or a full disk only costs the next process its cached kernel. */
static void leave_for_next_process(Compilation *c, Bytes object)
{
    Bytes so;
    if (c->cache && !link_shared(object, c->options.soname, c->arena, &so))
        cache_store(c->cache, c->key, so, c->header, c->arena);
}

/* Are perf and gdb to know the functions? Of a .so from the cache they do. */
static int wants_names(const Compilation *c)
{
    const char *asked = secure_getenv("MOEC_JIT_NAMES");
    return c->options.jit_names || (asked && *asked && strcmp(asked, "0") != 0);
}

static int load(Compilation *c, void *user)
{
    Loaded *out = user;
    CacheEntry entry;
    Bytes object;
    c->product = PRODUCT_OBJECT;
    int status = compile_prepare(c);
    if (status)
        return status;
    const int of_all = c->isas.n == 1;
    const char *error = compile_is_npu(c) ? NULL : target_for_this_cpu(&c->isas, c->arena);
    if (error)
        return compile_fail(c, DIAG_driver_target, error);
    if (compile_cached(c, &entry) && !code_open_library(entry.path, c->arena, out))
        return DRIVER_OK;
    status = compile_emit(c, PRODUCT_OBJECT, &object);
    if (status)
        return status;
    if (of_all)
        c->object = object;
    out->api = plugin_open(c->arena, &error);
    if (out->api)
        error = out->api->jit_load(object.at, object.len, wants_names(c), c->arena, &out->jit);
    if (error)
        return compile_fail(c, DIAG_driver_backend, error);
    log_calls_of(out);
    leave_for_next_process(c, object);
    return DRIVER_OK;
}

static int32_t loader;

__attribute__((constructor)) static void remember_process(void) { loader = getpid(); }

/* A module's threads belong to the process that loaded this library, even if the module itself is loaded after a fork. */
static void set_process(const Loaded *l, int32_t process)
{
    int32_t *at = code_symbol(l, "moec_process");
    if (at)
        *at = process;
}

void code_claim(const Loaded *l) { set_process(l, getpid()); }

int code_load(Compilation *c, Loaded *out)
{
    *out = (Loaded){.library = NULL};
    int status = compile_guard(c, load, out);
    if (status)
        code_unload(out);
    else
        set_process(out, loader);
    return status;
}
