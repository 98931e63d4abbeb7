/* Block products of one thread against the limit of the vector unit: GFLOP/s with the packing of both
 * operands. usage: product ISA KERNELS.so NAME... */
#include <dlfcn.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "moec/moert.h"

enum { ROWS = 512, COLS = 512, DEPTH = 1024 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the limit: independent chains in registers ---- */

#define EACH_SUM(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
enum { SUMS = 14 };
static const long trips = 3000000;

#define DECLARE(i) s##i = a,
#define STEP(i) s##i = step(s##i, a, b);
#define KEEP(i) __asm__ volatile("" : "+x"(s##i)); /* the compiler cannot tell what it is */
#define LIMIT(name, isa, type, zero)                                                 \
    __attribute__((target(isa), noinline)) static double name(void)                  \
    {                                                                                \
        type a = zero(), b = zero();                                                 \
        __asm__ volatile("" : "+x"(a), "+x"(b));                                     \
        type EACH_SUM(DECLARE) last = a;                                             \
        EACH_SUM(KEEP)                                                               \
        double begin = now();                                                        \
        for (long t = 0; t < trips; t++) {                                           \
            EACH_SUM(STEP)                                                           \
        }                                                                            \
        double seconds = now() - begin;                                              \
        EACH_SUM(KEEP)                                                               \
        (void)last;                                                                  \
        return (double)trips * SUMS * (double)sizeof(type) / 4 * 2 / seconds * 1e-9; \
    }

#define step(s, a, b) _mm_add_ps(_mm_mul_ps(s, a), b)
LIMIT(limit_sse2, "sse2", __m128, _mm_setzero_ps)
#undef step
#define step(s, a, b) _mm256_fmadd_ps(s, a, b)
LIMIT(limit_avx2, "avx2,fma", __m256, _mm256_setzero_ps)
#undef step
#define step(s, a, b) _mm512_fmadd_ps(s, a, b)
LIMIT(limit_avx512, "avx512f", __m512, _mm512_setzero_ps)
#undef step
#define step(s, a, b) _mm512_dpbf16_ps(s, (__m512bh)a, (__m512bh)b)
LIMIT(limit_bf16, "avx512f,avx512bf16", __m512, _mm512_setzero_ps)

static double limit_of(const char *isa, const char *name)
{
    if (!strcmp(isa, "generic"))
        return limit_sse2();
    if (!strcmp(isa, "avx2"))
        return limit_avx2();
    if (!strncmp(isa, "avx512", 6))
        return strncmp(name, "bf16", 4) ? limit_avx512() : 2 * limit_bf16();
    return 0; /* tiles: see the machine's description */
}

/* ---- the products ---- */

static void *numbers(size_t n, int bf16)
{
    void *memory = aligned_alloc(64, n * 4);
    for (size_t i = 0; memory && i < n; i++) {
        float f = (float)rand() / (float)RAND_MAX - 0.5f;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        if (bf16)
            ((uint16_t *)memory)[i] = (uint16_t)(bits >> 16);
        else
            ((float *)memory)[i] = f;
    }
    return memory;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median seconds of a call, or 0. */
static double median(moe_entry *entry, int bf16)
{
    enum { RUNS = 9 };
    moe_ctx ctx = {.threads = 1};
    int64_t dims[] = {COLS, DEPTH};
    void *args[] = {numbers((size_t)ROWS * DEPTH, bf16), numbers((size_t)DEPTH * COLS, bf16),
                    numbers((size_t)ROWS * COLS, 0)};
    double seconds[RUNS];
    int status = args[0] && args[1] && args[2] ? entry(&ctx, dims, args) : 1;
    for (int i = 0; i < RUNS && !status; i++) {
        double begin = now();
        status = entry(&ctx, dims, args);
        seconds[i] = now() - begin;
    }
    for (int i = 0; i < 3; i++)
        free(args[i]);
    free(ctx.work);
    if (status)
        return 0;
    qsort(seconds, RUNS, sizeof *seconds, compare);
    return seconds[RUNS / 2];
}

int main(int argc, char **argv)
{
    void *so = argc > 3 ? dlopen(argv[2], RTLD_NOW) : NULL;
    if (!so) {
        fprintf(stderr, "usage: product ISA KERNELS.so NAME...\n");
        return 1;
    }
    for (int i = 3; i < argc; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s__call", argv[i]);
        moe_entry *entry = (moe_entry *)(uintptr_t)dlsym(so, name);
        double seconds = entry ? median(entry, argv[i][0] != 'f') : 0, limit = limit_of(argv[1], argv[i]);
        if (seconds <= 0) {
            fprintf(stderr, "product: %s does not run here\n", argv[i]);
            return 1;
        }
        double speed = 2.0 * ROWS * COLS * DEPTH / seconds * 1e-9;
        printf("%-10s %-7s %7.1f GFLOP/s", argv[1], argv[i], speed);
        printf(limit > 0 ? " of %6.1f: %3.0f %%\n" : "\n", limit, limit > 0 ? 100 * speed / limit : 0.0);
    }
    return 0;
}
