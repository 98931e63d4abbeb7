#include "trainer/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_PARAMS = 48 };

typedef enum SourceId {
#define SOURCE(file) SOURCE_##file,
#define KERNEL(source, kernel)
#define SIZE(name)
#include "trainer/kernels.def"
    SOURCE_COUNT
} SourceId;

/* The texts, made from the .moe files by the build. */
#define SOURCE(file)                   \
    extern const char source_##file[]; \
    extern const size_t source_##file##_len;
#define KERNEL(source, kernel)
#define SIZE(name)
#include "trainer/kernels.def"

static const char *const source_names[] = {
#define SOURCE(file) #file ".moe",
#define KERNEL(source, kernel)
#define SIZE(name)
#include "trainer/kernels.def"
};

static const struct KernelRow {
    SourceId source;
    const char *name;
} kernel_rows[] = {
#define SOURCE(file)
#define KERNEL(source, kernel) {SOURCE_##source, #kernel},
#define SIZE(name)
#include "trainer/kernels.def"
};

static const char *const size_names[] = {
#define SOURCE(file)
#define KERNEL(source, kernel)
#define SIZE(name) #name,
#include "trainer/kernels.def"
};

typedef struct TrainKernel {
    const moec_kernel *kernel;
    const moec_kernel *interpreted; /* NULL: calls are not checked */
    moe_entry *entry;
    size_t nparams, ndims;
    const char *params[MAX_PARAMS];
    Size dims[SIZE_COUNT];
    double seconds;
    uint64_t calls;
} TrainKernel;

struct Kernels {
    moec_context *compiler;
    moec_module *modules[SOURCE_COUNT];
    moec_module *interpreted[SOURCE_COUNT]; /* NULL: calls are not checked */
    moe_ctx *ctx;
    moec_score score;
    int64_t sizes[SIZE_COUNT];
    TrainKernel kernels[KERNEL_COUNT];
    double seconds;
};

double train_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compile(const Kernels *k, SourceId id, int interpret, moec_module **out)
{
    static const struct {
        const char *text;
        const size_t *len;
    } sources[] = {
#define SOURCE(file) {source_##file, &source_##file##_len},
#define KERNEL(source, kernel)
#define SIZE(name)
#include "trainer/kernels.def"
    };
    const moec_options options = {.interpret = interpret};
    if (!moec_compile_text(k->compiler, source_names[id], sources[id].text, *sources[id].len, &options, out))
        return 0;
    fprintf(stderr, "moe-train: a kernel does not compile\n%s\n", moec_error_text(k->compiler));
    return 1;
}

static int find_size(const char *name, Size *out)
{
    for (int i = 0; i < SIZE_COUNT; i++)
        if (!strcmp(name, size_names[i])) {
            *out = (Size)i;
            return 0;
        }
    fprintf(stderr, "moe-train: kernels.def has no row for dimension `%s`\n", name);
    return 1;
}

static int look_up(Kernels *ks, KernelId id)
{
    TrainKernel *k = &ks->kernels[id];
    const struct KernelRow *row = &kernel_rows[id];
    k->kernel = moec_module_kernel(ks->modules[row->source], row->name);
    k->nparams = k->kernel ? moec_kernel_params(k->kernel) : 0;
    k->ndims = k->kernel ? moec_kernel_dims(k->kernel) : 0;
    if (!k->kernel || k->nparams > MAX_PARAMS || k->ndims > SIZE_COUNT) {
        fprintf(stderr, "moe-train: %s has no usable kernel `%s`\n", source_names[row->source], row->name);
        return 1;
    }
    k->entry = moec_kernel_entry(k->kernel);
    if (ks->interpreted[row->source])
        k->interpreted = moec_module_kernel(ks->interpreted[row->source], row->name);
    for (size_t i = 0; i < k->nparams; i++)
        k->params[i] = moec_kernel_param_name(k->kernel, i);
    for (size_t i = 0; i < k->ndims; i++)
        if (find_size(moec_kernel_dim_name(k->kernel, i), &k->dims[i]))
            return 1;
    return 0;
}

static int load(Kernels *k, int threads, int check)
{
    k->compiler = moec_context_new();
    k->ctx = moe_ctx_new(threads);
    if (!k->compiler || !k->ctx) {
        fprintf(stderr, "moe-train: out of memory\n");
        return 1;
    }
    for (int i = 0; i < SOURCE_COUNT; i++)
        if (compile(k, (SourceId)i, 0, &k->modules[i]) ||
            (check && compile(k, (SourceId)i, 1, &k->interpreted[i])))
            return 1;
    for (int i = 0; i < KERNEL_COUNT; i++)
        if (look_up(k, (KernelId)i))
            return 1;
    return 0;
}

Kernels *kernels_new(int threads, int check)
{
    Kernels *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    if (load(k, threads, check)) {
        kernels_free(k);
        return NULL;
    }
    return k;
}

void kernels_free(Kernels *k)
{
    if (!k)
        return;
    for (int i = 0; i < SOURCE_COUNT; i++) {
        moec_module_free(k->modules[i]);
        moec_module_free(k->interpreted[i]);
    }
    if (k->ctx)
        moe_ctx_free(k->ctx);
    if (k->compiler)
        moec_context_free(k->compiler);
    free(k);
}

void kernels_size(Kernels *k, Size size, int64_t value) { k->sizes[size] = value; }

static void sizes_of(const Kernels *ks, const TrainKernel *k, int64_t *dims /* SIZE_COUNT places */)
{
    for (size_t i = 0; i < k->ndims; i++)
        dims[i] = ks->sizes[k->dims[i]];
}

int64_t kernels_bytes(const Kernels *ks, KernelId id, const char *param)
{
    const TrainKernel *k = &ks->kernels[id];
    int64_t dims[SIZE_COUNT];
    size_t i = 0;
    sizes_of(ks, k, dims);
    while (strcmp(k->params[i], param))
        i++;
    return moec_kernel_param_bytes(k->kernel, i, dims);
}

/* The argument of each parameter; callers write them in the kernel's order, so the first guess mostly holds.
 */
static int bind_args(const TrainKernel *k, const TrainArg *args, void **out)
{
    size_t n = 0;
    while (args[n].name)
        n++;
    for (size_t i = 0; i < k->nparams; i++) {
        size_t j = i < n && !strcmp(args[i].name, k->params[i]) ? i : 0;
        while (j < n && strcmp(args[j].name, k->params[i]))
            j++;
        if (j == n)
            return (int)i;
        out[i] = (void *)(uintptr_t)args[j].at; /* `in` parameters are not written */
    }
    return n == k->nparams ? -1 : (int)k->nparams;
}

static int refuse_args(const TrainKernel *k, KernelId id, int missing)
{
    fprintf(stderr, "moe-train: %s: %s `%s`\n", kernel_rows[id].name,
            (size_t)missing < k->nparams ? "no argument for parameter" : "too many arguments for",
            (size_t)missing < k->nparams ? k->params[missing] : kernel_rows[id].name);
    return 1;
}

int kernels_call(Kernels *ks, KernelId id, const TrainArg *args)
{
    TrainKernel *k = &ks->kernels[id];
    void *data[MAX_PARAMS];
    int64_t dims[SIZE_COUNT];
    int missing = bind_args(k, args, data);
    if (missing >= 0)
        return refuse_args(k, id, missing);
    sizes_of(ks, k, dims);
    if (k->interpreted && moec_kernel_check(k->kernel, k->interpreted, ks->ctx, dims, data, &ks->score)) {
        fprintf(stderr, "moe-train: kernel %s DIFFERS from its interpreter: %s\n", kernel_rows[id].name,
                moe_ctx_message(ks->ctx));
        return 1;
    }
    double begin = train_seconds();
    int status = k->entry(ks->ctx, dims, data);
    double spent = train_seconds() - begin;
    k->seconds += spent;
    k->calls++;
    ks->seconds += spent;
    if (!status)
        return 0;
    fprintf(stderr, "moe-train: kernel %s failed: %s\n", kernel_rows[id].name, moe_ctx_message(ks->ctx));
    return 1;
}

double kernels_seconds(const Kernels *k) { return k->seconds; }

void kernels_reset_time(Kernels *k)
{
    k->seconds = 0;
    for (int i = 0; i < KERNEL_COUNT; i++) {
        k->kernels[i].seconds = 0;
        k->kernels[i].calls = 0;
    }
}

moec_score kernels_take_score(Kernels *k)
{
    moec_score score = k->score;
    k->score = (moec_score){0};
    return score;
}

static int slowest_first(const void *a, const void *b)
{
    const TrainKernel *x = *(TrainKernel *const *)a, *y = *(TrainKernel *const *)b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

void kernels_print_times(const Kernels *ks)
{
    const TrainKernel *order[KERNEL_COUNT];
    for (int i = 0; i < KERNEL_COUNT; i++)
        order[i] = &ks->kernels[i];
    qsort(order, KERNEL_COUNT, sizeof *order, slowest_first);
    printf("%-16s %8s %10s %10s %7s\n", "kernel", "calls", "seconds", "ms/call", "share");
    for (int i = 0; i < KERNEL_COUNT; i++) {
        const TrainKernel *k = order[i];
        if (k->calls)
            printf("%-16s %8llu %10.3f %10.3f %6.1f%%\n", kernel_rows[k - ks->kernels].name,
                   (unsigned long long)k->calls, k->seconds, 1e3 * k->seconds / (double)k->calls,
                   100 * k->seconds / ks->seconds);
    }
}
