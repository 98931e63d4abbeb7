/* The cases of the public interface: a kernel with random arguments, to be called, timed and compared; and what the model of a
 * machine says of one. */
#include "testing/parts.h"
#include "driver/module.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct moec_case {
    TestOptions o;
    TestFile file;
    TestCase made;
    TestArguments args;
    moe_ctx *ctx;
    moe_entry *entry;
    const char *text, *check_sizes;
    moec_score *score; /* of the check that runs; may be NULL */
    int64_t bytes, read;
    char digest[33], error[1024];
};

/* ---- from what the interface takes to what the engine takes ---- */

static TestOptions options_of(const moec_work *w, const moec_options *o)
{
    TestOptions t = {.kernel = w->kernel,
                     .text = w->text,
                     .sizes = w->sizes,
                     .routing = w->routing,
                     .seed = w->seed,
                     .threads = w->threads,
                     .every_size = 1};
    if (o) {
        t.target = o->target;
        t.types = o->types;
        t.schedule = o->schedule;
        t.derive = o->derive;
        t.schedule_seed = o->schedule_seed;
        t.machine = o->machine;
        t.no_optimize = o->no_optimize;
    }
    return t;
}

static const char *path_of(const moec_work *w) { return w->path ? w->path : "<text>"; }

/* The engine prints its errors: into memory here. */
typedef struct Printed {
    FILE *to;
    char *text;
    size_t len;
} Printed;

static int begin_call(moec_context *c, const moec_work *w, const moec_options *o, const void *out, Printed *p)
{
    int status = api_begin_work(c, w, o, out, "out");
    *p = (Printed){.to = NULL};
    if (status)
        return status;
    p->to = open_memstream(&p->text, &p->len);
    return p->to ? DRIVER_OK : api_fail(c, DRIVER_ERROR, "out of memory\n");
}

static int end_call(moec_context *c, int status, Printed *p)
{
    if (p->to && fclose(p->to) == 0 && status)
        status = api_fail(c, status, p->text);
    free(p->text);
    return status;
}

/* ---- a case ---- */

static const char *describe(const moec_case *k)
{
    const Module *m = k->made.k->module;
    Text t = {.arena = k->made.arena};
    DimId *passed = arena_array(t.arena, DimId, m->dims.len + 1);
    text_add(&t, "%s", k->made.k->name);
    for (uint32_t d = 0, n = ir_kernel_dims(k->made.k, passed); d < n; d++)
        text_add(&t, " %s=%lld", m->dims.at[passed[d]].name, (long long)k->made.dims[passed[d]]);
    if (k->made.k->routes.len)
        text_add(&t, ", %s", k->file.run.routings.len ? test_routing_text(&k->file.run, t.arena) : "uniform");
    return text_string(&t);
}

static void count_bytes(moec_case *k)
{
    for (uint32_t i = 0; i < k->made.k->params.len; i++) {
        const TestTouched touched = test_touched(&k->made, i, (int64_t)k->args.bytes[i]);
        k->bytes += touched.read + touched.written;
        k->read += touched.read;
    }
}

/* Memory is only taken when it is written, so the system would end the process instead of saying so. */
static const char *check_memory(const moec_case *k, Arena *a)
{
    const double has = computer_memory();
    double takes = 0;
    for (uint32_t i = 0; i < k->made.k->params.len; i++)
        takes += (double)k->args.bytes[i];
    return takes <= has ? NULL
                        : arena_printf(a, "the parameters of %s take %.1f GiB, and this machine has %.1f",
                                       k->text, takes / 0x1p30, has / 0x1p30);
}

static const char *make_call(TestFile *file, void *user)
{
    moec_case *k = user;
    Arena *a = file->c->module->arena;
    k->made = test_new_case(file, a, file->k, file->dims, &file->run);
    k->text = describe(k);
    k->ctx = moe_ctx_new(file->o->threads);
    if (!k->ctx)
        return "out of memory";
    const char *error = test_entry(&file->jit, file->k, a, &k->entry);
    if (!error)
        error = test_arguments(&k->made, &k->args);
    if (!error)
        error = check_memory(k, a);
    if (error)
        return error;
    count_bytes(k);
    test_arguments_fill(&k->args);
    code_claim(&file->jit);
    return NULL;
}

int moec_case_new(moec_context *c, const moec_work *w, const moec_options *o, moec_case **out)
{
    Printed p;
    if (out)
        *out = NULL;
    int status = begin_call(c, w, o, out, &p);
    if (status)
        return status;
    moec_case *k = calloc(1, sizeof *k);
    if (!k) {
        fprintf(p.to, "out of memory\n");
        return end_call(c, DRIVER_ERROR, &p);
    }
    k->o = options_of(w, o);
    k->file = (TestFile){.o = &k->o, .out = p.to, .errors = p.to};
    status = test_load(&k->file, path_of(w), CODE_OF_KERNEL);
    if (!status)
        status = test_guard(&k->file, make_call, k);
    if (status) {
        moec_case_free(k);
        k = NULL;
    } else {
        k->file.out = k->file.errors = NULL;
    }
    *out = k;
    return end_call(c, status, &p);
}

void moec_case_free(moec_case *k)
{
    if (!k)
        return;
    test_arguments_free(&k->args);
    moe_ctx_free(k->ctx);
    test_unload(&k->file);
    free(k);
}

const char *moec_case_text(const moec_case *k) { return k ? k->text : NULL; }
const char *moec_case_target(const moec_case *k)
{
    return k ? cpu_table[k->file.for_jit->isas.at[0]].name : NULL;
}
int64_t moec_case_bytes(const moec_case *k) { return k ? k->bytes : -1; }
int64_t moec_case_read_bytes(const moec_case *k) { return k ? k->read : -1; }
const char *moec_case_error(const moec_case *k) { return k ? k->error : "there is no case"; }

/* ---- calls ---- */

static int fail(moec_case *k, const char *text)
{
    snprintf(k->error, sizeof k->error, "%s", text);
    return 1;
}

static int call(moec_case *k)
{
    int status = k->entry(k->ctx, k->args.dims, k->args.at);
    if (status)
        return fail(k, moe_ctx_message(k->ctx));
    k->error[0] = '\0';
    return 0;
}

double moec_case_time(void *user, int calls)
{
    moec_case *k = user;
    if (!k)
        return -1;
    double begin = clock_of_threads(abs(k->o.threads));
    for (int i = 0; i < calls; i++)
        if (call(k))
            return -1;
    return clock_of_threads(abs(k->o.threads)) - begin;
}

static int run_guarded(moec_case *k, Arena *a, int (*run)(moec_case *k, Arena *a))
{
    jmp_buf landing;
    Arena *const kept = k->file.c->arena;
    if (setjmp(landing))
        return fail(k, *arena_message(a) ? arena_message(a) : arena_message(kept));
    arena_set_landing(a, &landing);
    arena_set_landing(kept, &landing);
    return run(k, a);
}

/* Under a landing place; with memory of its own, that goes afterwards. */
static int run_with_memory(moec_case *k, int (*run)(moec_case *k, Arena *a))
{
    Arena *a = arena_new();
    int bad = a ? run_guarded(k, a, run) : fail(k, "out of memory");
    arena_set_landing(k->file.c->arena, NULL);
    arena_free(a);
    return bad;
}

static void hash_route(const moe_route *r, Text *t)
{
    text_add_bytes(t, (const char *)r->count, sizeof *r->count * (size_t)r->groups);
    text_add_bytes(t, (const char *)r->slot_of, sizeof *r->slot_of * (size_t)r->rows);
}

static int hash_results(moec_case *k, Arena *a)
{
    Text all = {.arena = a};
    char one[33];
    k->made.random = random_new(k->o.seed);
    test_arguments_fill(&k->args);
    if (call(k))
        return 1;
    for (uint32_t i = 0; i < k->made.k->params.len; i++) {
        const Tensor *t = test_tensor(k->made.k, i);
        if (!t && k->made.k->routes.at[k->made.k->params.at[i].id].role != ROLE_IN)
            hash_route(&k->args.routes[i], &all);
        if (!t || t->role == ROLE_IN)
            continue;
        hash_hex(k->args.at[i], k->args.bytes[i], one);
        text_add(&all, "%s\n", one);
    }
    hash_hex(text_string(&all), all.len, k->digest);
    return 0;
}

const char *moec_case_digest(moec_case *k)
{
    return k && !run_with_memory(k, hash_results) ? k->digest : NULL;
}

/* ---- the check ---- */

/* Terms that the interpreter may add up: it takes about a second for them. */
static const double CHECK_TERMS = 4e6;

/* Terms at these sizes, too many rather than too few: every element is a sum over the largest dimension. */
static double terms_of(const Kernel *k, const int64_t *dims)
{
    const Module *m = k->module;
    double elements = 0, largest = 1;
    DimId passed[64];
    uint32_t n = m->dims.len <= 64 ? ir_kernel_dims(k, passed) : 0;
    TestCase at = {.k = k, .dims = dims};
    for (uint32_t d = 0; d < n; d++)
        largest = (double)dims[passed[d]] > largest ? (double)dims[passed[d]] : largest;
    for (uint32_t i = 0; i < k->tensors.len; i++)
        if (k->tensors.at[i].role != ROLE_IN)
            elements += (double)test_elements(&at, &k->tensors.at[i]);
    return elements * largest;
}

/* Halves the largest size that can be halved. 0: none can. */
static int halve(const Kernel *k, int64_t *dims)
{
    const Module *m = k->module;
    DimId *passed = arena_array(m->arena, DimId, m->dims.len + 1), largest = NONE;
    int64_t to = 0;
    for (uint32_t d = 0, n = ir_kernel_dims(k, passed); d < n; d++) {
        const Dim *dim = &m->dims.at[passed[d]];
        int64_t half = dims[passed[d]] / 2 / dim->multiple * dim->multiple;
        if (half >= 1 && (largest == NONE || dims[passed[d]] > dims[largest])) {
            largest = passed[d];
            to = half;
        }
    }
    if (largest != NONE)
        dims[largest] = to;
    return largest != NONE;
}

/* In the kernel's arena, once. */
static int64_t *smaller_sizes(moec_case *k)
{
    const Kernel *ir = k->made.k;
    int64_t *dims = arena_array(ir->module->arena, int64_t, ir->module->dims.len + 1);
    memcpy(dims, k->made.dims, sizeof *dims * ir->module->dims.len);
    while (terms_of(ir, dims) > CHECK_TERMS && halve(ir, dims))
        ;
    return dims;
}

static int check_case(moec_case *k, Arena *a)
{
    TestReference want;
    TestScore score = {0};
    int64_t *dims = smaller_sizes(k);
    const char *bad = ir_run_flaw(k->made.k, dims, &k->file.run, a);
    TestRun even = {0};
    TestCase c = test_new_case(&k->file, a, k->made.k, dims, bad ? &even : &k->file.run);
    k->check_sizes = describe(&(moec_case){.made = {.arena = k->made.arena, .k = k->made.k, .dims = dims},
                                           .file = {.run = *c.run}});
    bad = test_find_inputs(&c, 1, &want);
    if (!bad) {
        TestTarget target = {.code = &k->file.jit, .threads = k->o.threads};
        TestResult got = test_call(&c, &target);
        bad = test_compare(&c, &want, &got, 0, &score);
    }
    if (k->score)
        test_add_score(k->score, &score);
    return bad ? fail(k, bad) : 0;
}

int moec_case_check(moec_case *k, moec_score *score, const char **sizes)
{
    if (!k)
        return 1;
    k->error[0] = '\0';
    k->score = score;
    int bad = run_with_memory(k, check_case);
    if (sizes)
        *sizes = k->check_sizes;
    return bad;
}

/* ---- predictions ---- */

static const char *predict(TestFile *file, void *user)
{
    moec_prediction *p = user;
    TestModelled m;
    TestCase made = test_new_case(file, file->c->module->arena, file->k, file->dims, &file->run);
    const char *error = test_model(file, &made, &m);
    if (error)
        return error;
    const Simulated *s = m.simulated;
    *p = (moec_prediction){.seconds = 1e-6 * simulated_us(s->trace, s->cycles)};
    for (uint32_t i = 0; i < s->trace->launches.len; i++) {
        p->flops_16bit += (double)s->launches[i].flops[FLOPS_16BIT];
        p->flops += (double)s->launches[i].flops[FLOPS_OTHER];
    }
    return NULL;
}

int moec_predict(moec_context *c, const moec_work *w, const moec_options *o, moec_prediction *out)
{
    Printed p;
    int status = begin_call(c, w, o, out, &p);
    if (status)
        return status;
    TestOptions t = options_of(w, o);
    TestFile file = {.o = &t, .out = p.to, .errors = p.to};
    t.machine = t.machine ? t.machine : "host";
    t.threads = abs(t.threads);
    t.emulate = EMULATE_MODEL;
    status = test_load(&file, path_of(w), CODE_OF_KERNEL);
    if (!status)
        status = test_guard(&file, predict, out);
    test_unload(&file);
    return end_call(c, status, &p);
}

/* ---- decisions ---- */

int moec_decide(moec_context *c, const moec_work *w, const moec_options *o, char *digest)
{
    Bytes tiles;
    int status = api_begin_work(c, w, o, digest, "digest");
    if (status)
        return status;
    Compilation *own = api_compilation(c);
    own->options.kernels = w->kernel;
    own->terse = 1;
    status = api_read_work(c, w);
    if (!status)
        status = compile_product(own, PRODUCT_TILES, &tiles);
    if (!status)
        hash_hex(tiles.at, tiles.len, digest);
    return status;
}
