/* The public compiler API: contexts, modules, kernels. */
#include "driver/driver.h"
#include "driver/interpret.h"
#include "driver/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct moec_context {
    Compilation *last; /* keeps the texts of the last call's errors */
    int exhausted;     /* there was no memory even for that */
};

moec_context *moec_context_new(void) { return calloc(1, sizeof(moec_context)); }

void moec_context_free(moec_context *c)
{
    if (!c)
        return;
    compile_free(c->last);
    free(c);
}

const char *moec_error_text(const moec_context *c)
{
    if (!c)
        return "there is no context\n";
    return c->last ? c->last->errors : c->exhausted ? "out of memory\n" : "";
}

const char *moec_error_json(const moec_context *c)
{
    static const char *const none = "{\"errors\": 0, \"diagnostics\": []}";
    static const char *const exhausted =
        "{\"errors\": 1, \"diagnostics\": [{\"severity\": \"error\", \"message\": \"out of memory\"}]}";
    static const char *const missing =
        "{\"errors\": 1, \"diagnostics\": [{\"severity\": \"error\", \"message\": \"there is no context\"}]}";
    if (!c)
        return missing;
    return c->last ? c->last->errors_json : c->exhausted ? exhausted : none;
}

/* ---- modules ---- */

static int find_code(const moec_module *m, moec_kernel *k)
{
    k->function = code_symbol(&m->loaded, k->sig->name);
    k->entry = (moe_entry *)(uintptr_t)code_symbol(&m->loaded, k->sig->entry);
    k->workspace = (WorkspaceEntry *)(uintptr_t)code_symbol(&m->loaded, k->sig->workspace);
    k->run = call_entry;
    return k->function && k->entry && k->workspace;
}

/* What needs the arena, run under a landing place of the compilation; the module has an arena of its own. */
static int describe(Compilation *c, void *user)
{
    moec_module *m = user;
    const char *manifest = code_symbol(&m->loaded, "moec_manifest"), *error = "the module has no manifest";
    if (manifest)
        error = signature_read(manifest, c->arena, &m->signatures);
    if (error)
        return compile_fail(c, DIAG_driver_backend, error);
    m->manifest = manifest;
    m->kernels = arena_array(c->arena, moec_kernel, m->signatures.nkernels + 1);
    for (uint32_t i = 0; i < m->signatures.nkernels; i++) {
        const SigKernel *sig = &m->signatures.kernels[i];
        m->kernels[i] = (moec_kernel){.module = m, .sig = sig};
        if (sig->entry && !find_code(m, &m->kernels[i]))
            return compile_fail(c, DIAG_driver_backend,
                                arena_printf(c->arena, "kernel '%s' has no code", sig->name));
    }
    return DRIVER_OK;
}

/* The signatures live in the compilation's arena, so a module keeps its own compilation: one that has only
 * described it, not the one that compiled it, whose memory goes with the next call. */
static moec_module *module_new(Compilation *errors, Loaded *loaded)
{
    moec_module *m = calloc(1, sizeof *m);
    Compilation *own = m ? compile_new(NULL) : NULL;
    if (!own) {
        free(m);
        code_unload(loaded);
        return NULL;
    }
    m->own = own;
    m->loaded = *loaded;
    int status = compile_guard(own, describe, m);
    if (!status)
        return m;
    snprintf(errors->failure, sizeof errors->failure, "%s", own->errors);
    errors->errors = errors->failure;
    moec_module_free(m);
    return NULL;
}

void moec_module_free(moec_module *m)
{
    if (!m)
        return;
    code_unload(&m->loaded);
    compile_free(m->own);
    free(m);
}

const char *moec_module_manifest(const moec_module *m) { return m ? m->manifest : NULL; }

const moec_kernel *moec_module_kernel(const moec_module *m, const char *name)
{
    for (uint32_t i = 0; m && name && i < m->signatures.nkernels; i++)
        if (strcmp(m->kernels[i].sig->name, name) == 0)
            return &m->kernels[i];
    return NULL;
}

/* ---- compiling ---- */

static CompileOptions options_of(const moec_options *o)
{
    CompileOptions options = compile_defaults;
    if (!o)
        return options;
    options.target = o->target;
    options.level = o->no_optimize ? 0 : 2;
    options.debug = o->debug;
    options.no_cache = o->no_cache;
    options.cache_dir = o->cache_dir;
    options.schedule = o->schedule;
    options.machine = o->machine;
    options.schedule_seed = o->schedule_seed;
    options.types = o->types;
    options.derive = o->derive;
    options.kernels = o->interpret ? NULL : o->kernels;
    options.jit_names = o->jit_names;
    options.tuned_for = o->tuned_for;
    options.tuned_threads = o->tuned_threads;
    return options;
}

static Compilation *start(moec_context *c, const CompileOptions *o)
{
    compile_free(c->last);
    c->last = compile_new(o);
    c->exhausted = !c->last;
    return c->last;
}

static int finish(moec_context *c, int interpret, moec_module **out)
{
    Loaded loaded;
    if (interpret) {
        int failed = interpret_module(c->last, out);
        c->last = failed ? c->last : NULL; /* the module's now */
        return failed;
    }
    int status = code_load(c->last, &loaded);
    if (status)
        return status;
    *out = module_new(c->last, &loaded);
    return *out ? DRIVER_OK : DRIVER_INTERNAL;
}

static int say_missing(Compilation *c, void *name)
{
    return compile_fail(c, DIAG_driver_argument, arena_printf(c->arena, "%s is NULL", (const char *)name));
}

int api_begin(moec_context *c, const moec_options *o, const char *missing)
{
    const CompileOptions options = options_of(o);
    if (!c || !start(c, &options))
        return DRIVER_ERROR;
    return missing ? compile_guard(c->last, say_missing, (void *)(uintptr_t)missing) : DRIVER_OK;
}

Compilation *api_compilation(moec_context *c) { return c->last; }

int api_begin_work(moec_context *c, const moec_work *w, const moec_options *o, const void *out,
                   const char *name)
{
    return api_begin(c, o, !w || (!w->path && !w->text) ? "work" : !out ? name : NULL);
}

int api_read_work(moec_context *c, const moec_work *w)
{
    if (!w->text)
        return compile_open(c->last, w->path);
    compile_text(c->last, w->path, w->text, strlen(w->text));
    return DRIVER_OK;
}

typedef struct ApiFailure {
    const char *said, *text;
} ApiFailure;

static int copy_failure(Compilation *c, void *user)
{
    ApiFailure *f = user;
    f->text = arena_strdup(c->arena, f->said);
    return DRIVER_OK;
}

int api_fail(moec_context *c, int status, const char *text)
{
    ApiFailure f = {.said = text};
    if (!compile_guard(c->last, copy_failure, &f)) {
        diag_json_failure("error", text, c->last->failure_json, sizeof c->last->failure_json);
        c->last->errors = f.text;
        c->last->errors_json = c->last->failure_json;
    }
    return status;
}

int moec_compile_text(moec_context *c, const char *name, const char *text, size_t len, const moec_options *o,
                      moec_module **out)
{
    if (out)
        *out = NULL;
    int status = api_begin(c, o, !text && len ? "text" : !out ? "out" : NULL);
    if (status)
        return status;
    compile_text(c->last, name, text ? text : "", len);
    return finish(c, o && o->interpret, out);
}

int module_compile(moec_context *c, const CompileOptions *o, int interpret, const char *name, Bytes text,
                   moec_module **out)
{
    *out = NULL;
    if (!start(c, o))
        return DRIVER_ERROR;
    compile_text(c->last, name, text.at, text.len);
    return finish(c, interpret, out);
}

int moec_compile_file(moec_context *c, const char *path, const moec_options *o, moec_module **out)
{
    if (out)
        *out = NULL;
    int status = api_begin(c, o, !path ? "path" : !out ? "out" : NULL);
    if (!status)
        status = compile_open(c->last, path);
    return status ? status : finish(c, o && o->interpret, out);
}

/* ---- kernels ---- */

void *moec_kernel_function(const moec_kernel *k) { return k ? k->function : NULL; }
moe_entry *moec_kernel_entry(const moec_kernel *k) { return k ? k->entry : NULL; }

static int has_shapes(const moec_kernel *k, const int64_t *dims)
{
    int64_t shape[MAX_RANK];
    for (uint32_t i = 0; i < k->sig->ndims; i++)
        if (dims[i] < 0)
            return 0;
    for (uint32_t i = 0; i < k->sig->nparams; i++)
        if (!call_shape(k, i, dims, shape))
            return 0;
    return 1;
}

int64_t moec_kernel_workspace(const moec_kernel *k, const int64_t *dims)
{
    if (!k || !kernel_has_sizes(k, dims) || (!k->workspace && !k->ir))
        return -1;
    if (k->workspace)
        return k->workspace(dims);
    return has_shapes(k, dims) ? 0 : -1; /* the interpreter needs none */
}
