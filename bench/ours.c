#include "bench/ours.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 32 };

/* The texts, made from the .moe files by the build. */
#define SOURCES(X) X(products)
#define DECLARE(name)                  \
    extern const char source_##name[]; \
    extern const size_t source_##name##_len;
SOURCES(DECLARE)

static const struct Source {
    const char *name, *text;
    const size_t *len;
} sources[] = {
#define ROW(name) {#name, source_##name, &source_##name##_len},
    SOURCES(ROW)};

typedef struct Module {
    struct Module *before;
    const struct Source *source;
    moec_module *module;
} Module;

struct Call {
    Case *of;
    const moec_kernel *kernel;
    moe_entry *entry;
    moe_ctx *ctx;
    int64_t dims[26];
    void *args[MAX_ARGS];
    Role roles[MAX_ARGS];
    int64_t bytes[MAX_ARGS];
    size_t nargs;
};

/* ---- compiling ---- */

static int compile(Bench *b, const struct Source *s, const char *isa, moec_module **out)
{
    const moec_options options = {.target = isa};
    return moec_compile_text(b->compiler, s->name, s->text, *s->len, &options, out);
}

static moec_module *module_of(Case *c, const char *name)
{
    Bench *b = c->bench;
    for (Module *m = b->modules; m; m = m->before)
        if (!strcmp(m->source->name, name))
            return m->module;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (strcmp(sources[i].name, name))
            continue;
        Module *m = calloc(1, sizeof *m);
        if (!m)
            abort();
        *m = (Module){b->modules, &sources[i], NULL};
        b->modules = m;
        if (compile(b, m->source, b->isa, &m->module))
            case_failed(c, "%s.moe does not compile\n%s", name, moec_error_text(b->compiler));
        return m->module;
    }
    case_failed(c, "there is no %s.moe", name);
    return NULL;
}

void ours_free(Bench *b)
{
    for (Module *m = b->modules; m;) {
        Module *before = m->before;
        if (m->module)
            moec_module_free(m->module);
        free(m);
        m = before;
    }
    b->modules = NULL;
}

const char *ours_isa(Bench *b)
{
    static const char *const best_first[] = {"amx", "avx512bf16", "avx512", "avx2", "generic"};
    const char *asked = b->options.isa ? b->options.isa : getenv("MOE_ISA");
    if (asked && *asked)
        return asked;
    for (size_t i = 0; i < sizeof best_first / sizeof *best_first; i++) {
        moec_module *m = NULL;
        int failed = compile(b, &sources[0], best_first[i], &m);
        if (m)
            moec_module_free(m);
        if (!failed)
            return best_first[i];
    }
    fprintf(stderr, "moe-bench: nothing compiles here\n%s", moec_error_text(b->compiler));
    return NULL;
}

/* ---- binding ---- */

static const Arg *arg_find(const Arg *args, const char *name)
{
    for (; args->name; args++)
        if (!strcmp(args->name, name))
            return args;
    return NULL;
}

/* Its own memory for a weight that the kernel wants packed. */
static void *packed(Case *c, Call *call, size_t i, void *row_major)
{
    void *out = memory_get(&c->memory, (size_t)call->bytes[i]);
    int status = moec_kernel_pack(call->kernel, i, call->dims, row_major, out);
    if (!status)
        return out;
    case_failed(c, "packing %s: %s", moec_kernel_param_name(call->kernel, i), moe_status_text(status));
    return NULL;
}

static int bind_arg(Case *c, Call *call, size_t i, const Arg *args)
{
    const char *name = moec_kernel_param_name(call->kernel, i);
    const Arg *a = arg_find(args, name);
    if (!a)
        return case_failed(c, "no argument for parameter %s", name);
    if (moec_kernel_param_kind(call->kernel, i) == MOEC_TENSOR)
        call->bytes[i] = moec_kernel_param_bytes(call->kernel, i, call->dims);
    call->roles[i] = a->role;
    call->args[i] = a->role == ROLE_PACK ? packed(c, call, i, a->at) : a->at;
    return call->args[i] ? 0 : 1;
}

static void drop_context(void *self) { moe_ctx_free(((Call *)self)->ctx); }

Call *ours_bind(Case *c, const char *source, const char *kernel, const Arg *args, int threads)
{
    moec_module *m = module_of(c, source);
    const moec_kernel *k = m ? moec_module_kernel(m, kernel) : NULL;
    if (!k || moec_kernel_params(k) > MAX_ARGS) {
        case_failed(c, "%s.moe has no kernel %s", source, kernel);
        return NULL;
    }
    Call *call = memory_get(&c->memory, sizeof *call);
    *call = (Call){.of = c,
                   .kernel = k,
                   .entry = moec_kernel_entry(k),
                   .ctx = moe_ctx_new(threads),
                   .nargs = moec_kernel_params(k)};
    memory_drop(&c->memory, drop_context, call);
    for (size_t i = 0; i < moec_kernel_dims(k); i++)
        call->dims[i] = SIZE(c->sizes, moec_kernel_dim_name(k, i)[0]);
    for (size_t i = 0; i < call->nargs; i++)
        if (bind_arg(c, call, i, args))
            return NULL;
    return call;
}

/* ---- calling ---- */

static int call_once(Call *call)
{
    int status = call->entry(call->ctx, call->dims, call->args);
    return status ? case_failed(call->of, "%s: %s", moe_status_text(status), moe_ctx_message(call->ctx)) : 0;
}

double ours_time(void *self, int calls)
{
    Call *call = self;
    double begin = seconds_now();
    for (int i = 0; i < calls; i++)
        if (call_once(call))
            return -1;
    return seconds_now() - begin;
}

/* Every written argument from or to a copy. */
static void exchange(const Call *call, void **copies, bool restore)
{
    for (size_t i = 0; i < call->nargs; i++)
        if (call->roles[i] == ROLE_OUT)
            memcpy(restore ? call->args[i] : copies[i], restore ? copies[i] : call->args[i],
                   (size_t)call->bytes[i]);
}

static bool same(const Call *call, void *const *copies)
{
    for (size_t i = 0; i < call->nargs; i++)
        if (call->roles[i] == ROLE_OUT && memcmp(call->args[i], copies[i], (size_t)call->bytes[i]))
            return false;
    return true;
}

int ours_prove(Case *c, Call *call)
{
    Memory scratch = {0};
    void *before[MAX_ARGS], *after[MAX_ARGS];
    int32_t threads = call->ctx->threads;
    for (size_t i = 0; i < call->nargs; i++) {
        before[i] = memory_get(&scratch, (size_t)call->bytes[i]);
        after[i] = memory_get(&scratch, (size_t)call->bytes[i]);
    }
    exchange(call, before, false);
    call->ctx->threads = 2;
    int bad = call_once(call);
    exchange(call, after, false);
    exchange(call, before, true);
    call->ctx->threads = 1;
    bad = bad || call_once(call);
    if (!bad && !same(call, after))
        bad = case_failed(c, "one thread and two compute different bits");
    call->ctx->threads = threads;
    memory_free(&scratch);
    return bad;
}
