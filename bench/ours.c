#include "bench/ours.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 32 };

/* The texts, made from the .moe files by the build. */
#define SOURCES(X) X(products) X(block) X(rows) X(attention)
#define DECLARE(name)                  \
    extern const char source_##name[]; \
    extern const size_t source_##name##_len;
SOURCES(DECLARE)

static const struct BenchSource {
    const char *name, *text;
    const size_t *len;
} sources[] = {
#define ROW(name) {#name, source_##name, &source_##name##_len},
    SOURCES(ROW)};

typedef struct BenchModule {
    struct BenchModule *before;
    const struct BenchSource *source;
    const char *isa;
    moec_module *module;
} BenchModule;

struct BenchCall {
    Case *of;
    struct BenchCall *then; /* called after it, or NULL */
    const moec_kernel *kernel;
    moe_entry *entry;
    moe_ctx *ctx;
    int64_t dims[26];
    void *args[MAX_ARGS];
    BenchRole roles[MAX_ARGS];
    int64_t bytes[MAX_ARGS];
    size_t nargs;
};

/* ---- compiling ---- */

static int compile(Bench *b, const struct BenchSource *s, const char *isa, moec_module **out)
{
    const moec_options options = {.target = isa};
    return moec_compile_text(b->compiler, s->name, s->text, *s->len, &options, out);
}

static const struct BenchSource *source_find(const char *name)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (!strcmp(sources[i].name, name))
            return &sources[i];
    abort();
}

static moec_module *module_of(Case *c, const char *name)
{
    Bench *b = c->bench;
    for (BenchModule *m = b->modules; m; m = m->before)
        if (!strcmp(m->source->name, name) && !strcmp(m->isa, c->isa))
            return m->module;
    BenchModule *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    *m = (BenchModule){b->modules, source_find(name), c->isa, NULL};
    b->modules = m;
    if (compile(b, m->source, m->isa, &m->module))
        case_failed(c, "%s.moe does not compile\n%s", name, moec_error_text(b->compiler));
    return m->module;
}

void ours_free(Bench *b)
{
    for (BenchModule *m = b->modules; m;) {
        BenchModule *before = m->before;
        if (m->module)
            moec_module_free(m->module);
        free(m);
        m = before;
    }
    b->modules = NULL;
}

/* A module for the instruction set, NULL: of the library's choice; NULL when this CPU lacks it. */
static moec_module *nothing(Bench *b, const char *isa)
{
    static const char text[] = "moe 1\ndim N\nkernel nothing(out y: f32[N]) { y[n] = 0 }\n";
    const moec_options options = {.target = isa};
    moec_module *m = NULL;
    return moec_compile_text(b->compiler, "nothing", text, sizeof text - 1, &options, &m) ? NULL : m;
}

bool ours_has(Bench *b, const char *isa)
{
    moec_module *m = nothing(b, isa);
    bool has = m != NULL;
    moec_module_free(m);
    return has;
}

/* The instruction set that the library chose: the manifest tells, `"isas": ["avx512"]`. */
static const char *ours_choice(Bench *b)
{
    moec_module *m = nothing(b, NULL);
    const char *at = m ? strstr(moec_module_manifest(m), "\"isas\"") : NULL;
    at = at ? strchr(at, '[') : NULL;
    at = at ? strchr(at, '"') : NULL;
    size_t len = at ? strcspn(at + 1, "\"") : 0;
    char *isa = len ? memory_get(&b->memory, len + 1) : NULL;
    if (isa)
        memcpy(isa, at + 1, len);
    moec_module_free(m);
    return isa;
}

const char *ours_isa(Bench *b)
{
    const char *asked = b->options.isa ? b->options.isa : getenv("MOE_ISA");
    b->forced = asked && *asked;
    const char *isa = !b->forced ? ours_choice(b) : ours_has(b, asked) ? asked : NULL;
    if (!isa)
        fprintf(stderr, "moe-bench: nothing can be compiled\n%s", moec_error_text(b->compiler));
    return isa;
}

/* ---- binding ---- */

static const BenchArg *arg_find(const BenchArg *args, const char *name)
{
    for (; args->name; args++)
        if (!strcmp(args->name, name))
            return args;
    return NULL;
}

static int bind_arg(Case *c, BenchCall *call, size_t i, const BenchArg *args)
{
    const char *name = moec_kernel_param_name(call->kernel, i);
    const BenchArg *a = arg_find(args, name);
    if (!a)
        return case_failed(c, "no argument for parameter %s", name);
    if (moec_kernel_param_kind(call->kernel, i) == MOEC_TENSOR)
        call->bytes[i] = moec_kernel_param_bytes(call->kernel, i, call->dims);
    call->roles[i] = a->role;
    call->args[i] = a->at ? a->at : memory_get(&c->memory, (size_t)call->bytes[i]);
    return 0;
}

static void drop_context(void *self) { moe_ctx_free(((BenchCall *)self)->ctx); }

static BenchCall *call_new(Case *c, const moec_kernel *k)
{
    BenchCall *call = memory_get(&c->memory, sizeof *call);
    *call = (BenchCall){.of = c, .kernel = k, .entry = moec_kernel_entry(k), .nargs = moec_kernel_params(k)};
    call->ctx = moe_ctx_new(c->threads);
    memory_drop(&c->memory, drop_context, call);
    for (size_t i = 0; i < moec_kernel_dims(k); i++)
        call->dims[i] = SIZE(c->sizes, moec_kernel_dim_name(k, i)[0]);
    return call;
}

BenchCall *ours_bind(Case *c, const char *source, const char *kernel, const BenchArg *args)
{
    moec_module *m = module_of(c, source);
    const moec_kernel *k = m ? moec_module_kernel(m, kernel) : NULL;
    if (!k || moec_kernel_params(k) > MAX_ARGS) {
        case_failed(c, "there is no kernel %s in %s.moe", kernel, source);
        return NULL;
    }
    BenchCall *call = call_new(c, k);
    for (size_t i = 0; i < call->nargs; i++)
        if (bind_arg(c, call, i, args))
            return NULL;
    return call;
}

BenchCall *ours_on(Case *c, const BenchCall *call, int threads)
{
    BenchCall *copy = call_new(c, call->kernel);
    moe_ctx *ctx = copy->ctx;
    *copy = *call;
    copy->ctx = ctx;
    ctx->threads = threads;
    copy->then = call->then ? ours_on(c, call->then, threads) : NULL;
    return copy;
}

void ours_then(BenchCall *first, BenchCall *then) { first->then = then; }

void *ours_arg(const BenchCall *call, const char *name)
{
    for (size_t i = 0; i < call->nargs; i++)
        if (!strcmp(moec_kernel_param_name(call->kernel, i), name))
            return call->args[i];
    abort();
}

double ours_workspace(const BenchCall *call, char size, int64_t value)
{
    int64_t dims[26];
    for (size_t i = 0; i < moec_kernel_dims(call->kernel); i++)
        dims[i] = moec_kernel_dim_name(call->kernel, i)[0] == size ? value : call->dims[i];
    return (double)moec_kernel_workspace(call->kernel, dims);
}

/* ---- calling ---- */

static int call_once(BenchCall *call)
{
    for (; call; call = call->then) {
        int status = call->entry(call->ctx, call->dims, call->args);
        if (status)
            return case_failed(call->of, "%s: %s", moe_status_text(status), moe_ctx_message(call->ctx));
    }
    return 0;
}

double ours_time(void *self, int calls)
{
    double begin = bench_seconds();
    for (int i = 0; i < calls; i++)
        if (call_once(self))
            return -1;
    return bench_seconds() - begin;
}

void *ours_pack(Case *c, const void *row_major, bool bf16, int64_t E, int64_t rows, int64_t cols)
{
    BenchSizes sizes = c->sizes;
    SIZE(c->sizes, 'E') = E;
    SIZE(c->sizes, 'H') = rows;
    SIZE(c->sizes, 'F') = cols;
    const BenchArg args[] = {IN("w", row_major), OUT("p", NULL), {0}};
    BenchCall *call = ours_bind(c, "products", bf16 ? "pack" : "f32_pack", args);
    c->sizes = sizes;
    return call && !call_once(call) ? ours_arg(call, "p") : NULL;
}

/* ---- the same bits on any number of threads ---- */

static bool is_written(const BenchCall *call, size_t i)
{
    return call->roles[i] == ROLE_OUT || call->roles[i] == ROLE_INOUT;
}

/* Of what it wrote. */
static uint64_t digest(const BenchCall *call)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < call->nargs; i++) {
        const char *at = call->args[i];
        for (int64_t b = 0; is_written(call, i) && b < call->bytes[i]; b += 8) {
            uint64_t word = 0;
            memcpy(&word, at + b, (size_t)(call->bytes[i] - b < 8 ? call->bytes[i] - b : 8));
            h = (h ^ word) * 0x9e3779b97f4a7c15;
        }
    }
    return h;
}

/* What it will write, before it: copies of what it reads too, NaN in the rest. */
static void prepare(BenchCall *call, BenchMemory *m, void **copies, bool restore)
{
    for (size_t i = 0; i < call->nargs; i++) {
        size_t bytes = (size_t)call->bytes[i];
        if (call->roles[i] == ROLE_OUT)
            memset(call->args[i], 0xff, bytes);
        if (call->roles[i] == ROLE_INOUT && !restore)
            copies[i] = memcpy(memory_get(m, bytes), call->args[i], bytes);
        if (call->roles[i] == ROLE_INOUT && restore)
            memcpy(call->args[i], copies[i], bytes);
    }
}

int ours_prove(BenchCall *call)
{
    BenchMemory scratch = {0};
    void *copies[MAX_ARGS];
    int32_t threads = call->ctx->threads;
    call->of->workspace = fmax(call->of->workspace, ours_workspace(call, 0, 0));
    prepare(call, &scratch, copies, false);
    call->ctx->threads = 2;
    int bad = call_once(call);
    uint64_t on_two = digest(call);
    prepare(call, &scratch, copies, true);
    call->ctx->threads = 1;
    bad = bad || call_once(call);
    if (!bad && digest(call) != on_two)
        bad = case_failed(call->of, "WRONG: one thread and two compute different bits");
    call->ctx->threads = threads;
    memory_free(&scratch);
    return bad;
}
