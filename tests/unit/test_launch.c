/* What a call costs: no allocation once a context has its work space, and the time where there is nothing to do, by the
 * .so, by the JIT's entry and by moec_kernel_call. */
#include "allocations.h"
#include "moec/moec.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- a kernel with its arguments ---- */

enum { DIMS = 8, PARAMS = 16, TOKENS = 4, CHOICES = 2, EXPERTS = 2, WIDTH = 16, BYTES = 1 << 12 };

typedef struct Work {
    const moec_kernel *k;
    moe_ctx *ctx;
    int64_t dims[DIMS];
    void *args[PARAMS];
    moe_route *route;
    _Alignas(64) unsigned char memory[PARAMS][BYTES];
} Work;

static int64_t size_of(const char *dim)
{
    return strcmp(dim, "T") == 0   ? TOKENS
           : strcmp(dim, "K") == 0 ? CHOICES
           : strcmp(dim, "E") == 0 ? EXPERTS
                                   : WIDTH;
}

/* Row r is choice r % K of token r / K; the first half of them is expert 0's. */
static moe_route *new_route(void)
{
    enum { ROWS = TOKENS * CHOICES };
    moe_route *r = moe_route_new(TOKENS, CHOICES, EXPERTS, ROWS);
    assert_non_null(r);
    for (int e = 0; e < EXPERTS; e++) {
        r->count[e] = ROWS / EXPERTS;
        r->start[e + 1] = r->start[e] + r->count[e];
    }
    for (int row = 0; row < ROWS; row++)
        r->slot_of[row] = r->row_of[row] = row;
    return r;
}

static void open_work(Work *w, moec_module *m, const char *kernel, int threads)
{
    memset(w, 0, sizeof *w);
    w->k = moec_module_kernel(m, kernel);
    w->ctx = moe_ctx_new(threads);
    w->route = new_route();
    assert_true(w->k && w->ctx && moec_kernel_dims(w->k) <= DIMS && moec_kernel_params(w->k) <= PARAMS);
    for (size_t d = 0; d < moec_kernel_dims(w->k); d++)
        w->dims[d] = size_of(moec_kernel_dim_name(w->k, d));
    for (size_t i = 0; i < moec_kernel_params(w->k); i++) {
        int is_route = moec_kernel_param_kind(w->k, i) == MOEC_ROUTE;
        assert_true(is_route || moec_kernel_param_bytes(w->k, i, w->dims) <= BYTES);
        w->args[i] = is_route ? (void *)w->route : w->memory[i];
    }
}

static void close_work(Work *w)
{
    moe_route_free(w->route);
    moe_ctx_free(w->ctx);
}

/* ---- ways to call ---- */

typedef int Way(Work *w, const void *with);

static int by_entry(Work *w, const void *with)
{
    moe_entry *entry;
    memcpy(&entry, with, sizeof entry);
    return entry(w->ctx, w->dims, w->args);
}

static int by_arguments(Work *w, const void *with)
{
    return moec_kernel_call(w->k, w->ctx, with, moec_kernel_params(w->k));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* Calls allocate nothing. What they take is the best of many rounds, which a busy machine leaves alone; bench/ compares it. */
static void expect_cheap(Work *w, Way *way, const void *with, const char *name)
{
    enum { ROUNDS = 400, CALLS = 10 };
    double best = 1e9;
    assert_int_equal(way(w, with), MOE_OK);
    long before = allocations;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now();
        for (int i = 0; i < CALLS; i++)
            way(w, with);
        double each = (now() - begin) / CALLS;
        best = each < best ? each : best;
    }
    assert_int_equal(allocations - before, 0);
    print_message("%-24s %.2f us\n", name, best);
}

static void *open_library(const char *file, char *path)
{
    char command[512];
    const char *build = getenv("MOEC_BUILD");
    strcpy(path, "/tmp/moec-test-XXXXXX.so");
    int fd = mkstemps(path, 3);
    assert_true(fd >= 0 && close(fd) == 0);
    snprintf(command, sizeof command, "%s/bin/moec --no-cache %s -o %s", build ? build : "build", file, path);
    assert_int_equal(system(command), 0);
    void *so = dlopen(path, RTLD_NOW);
    assert_non_null(so);
    return so;
}

static void close_library(void *so, char *path)
{
    dlclose(so);
    remove(path);
    memcpy(strrchr(path, '.'), ".h", 3);
    remove(path);
}

static void check_file(const char *file, const char *kernel)
{
    char path[64], symbol[64], name[64];
    moec_context *c = moec_context_new();
    moec_module *m;
    moec_options o = {.no_cache = 1};
    assert_int_equal(moec_compile_file(c, file, &o, &m), 0);
    void *so = open_library(file, path);
    snprintf(symbol, sizeof symbol, "%s__call", kernel);
    static Work w;
    for (int threads = 1; threads <= 2; threads++) { /* two are not worth it here */
        open_work(&w, m, kernel, threads);
        void *from_so = dlsym(so, symbol);
        moe_entry *jit = moec_kernel_entry(w.k);
        snprintf(name, sizeof name, "%s, .so", kernel);
        expect_cheap(&w, by_entry, &from_so, name);
        snprintf(name, sizeof name, "%s, JIT", kernel);
        expect_cheap(&w, by_entry, &jit, name);
        close_work(&w);
    }
    close_library(so, path);
    moec_module_free(m);
    moec_context_free(c);
}

static void kernels_are_launched_fast(void **state)
{
    (void)state;
    check_file("examples/rmsnorm.moe", "rmsnorm");
    check_file("examples/rmsnorm.moe", "rmsnorm_bwd");
    check_file("examples/adamw.moe", "adamw");
    check_file("examples/moe_ffn.moe", "ffn");
}

#define TENSOR(data_, code_, bits_, ...)                                                      \
    &(DLTensor)                                                                               \
    {                                                                                         \
        .data = (data_), .device = {kDLCPU, 0}, .ndim = sizeof((int64_t[]){__VA_ARGS__}) / 8, \
        .dtype = {(code_), (bits_), 1}, .shape = (int64_t[])                                  \
        {                                                                                     \
            __VA_ARGS__                                                                       \
        }                                                                                     \
    }

static void arguments_are_read_fast(void **state)
{
    (void)state;
    moec_context *c = moec_context_new();
    moec_module *m;
    moec_options o = {.no_cache = 1};
    assert_int_equal(moec_compile_file(c, "examples/rmsnorm.moe", &o, &m), 0);
    static Work w;
    open_work(&w, m, "rmsnorm", 1);
    moec_arg args[] = {{.tensor = TENSOR(w.args[0], kDLBfloat, 16, TOKENS, WIDTH)},
                       {.tensor = TENSOR(w.args[1], kDLFloat, 32, WIDTH)},
                       {.tensor = TENSOR(w.args[2], kDLBfloat, 16, TOKENS, WIDTH)}};
    expect_cheap(&w, by_arguments, args, "rmsnorm, moec_kernel_call");
    close_work(&w);
    moec_module_free(m);
    moec_context_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_launched_fast),
        cmocka_unit_test(arguments_are_read_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
