/* What the vector unit of one core can do: independent chains of multiply-add in registers, GFLOP/s.
 * Built and loaded by kernel.py. */
#include <immintrin.h>
#include <time.h>

#define EACH_SUM(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
enum { SUMS = 14 };
static const long trips = 4000000;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#define DECLARE(i) s##i = a,
#define STEP(i) s##i = step(s##i, a, b);
#define KEEP(i) __asm__ volatile("" : "+x"(s##i)); /* the compiler cannot tell what it is */
#define LIMIT(name, isa, type, set, flops)                      \
    __attribute__((target(isa))) double name(void)              \
    {                                                           \
        type a = set(0.75f), b = set(-1.25f);                   \
        __asm__ volatile("" : "+x"(a), "+x"(b));                \
        type EACH_SUM(DECLARE) unused = a;                      \
        EACH_SUM(KEEP)                                          \
        double begin = now();                                   \
        for (long t = 0; t < trips; t++) {                      \
            EACH_SUM(STEP)                                      \
        }                                                       \
        double seconds = now() - begin;                         \
        EACH_SUM(KEEP)                                          \
        (void)unused;                                           \
        return (double)trips * SUMS * (flops) / seconds * 1e-9; \
    }

#define step(s, a, b) _mm_add_ps(_mm_mul_ps(a, b), s)
LIMIT(limit_xmm, "sse2", __m128, _mm_set1_ps, 8)
#undef step
#define step(s, a, b) _mm256_fmadd_ps(a, b, s)
LIMIT(limit_ymm, "avx2,fma", __m256, _mm256_set1_ps, 16)
#undef step
#define step(s, a, b) _mm512_fmadd_ps(a, b, s)
LIMIT(limit_zmm, "avx512f", __m512, _mm512_set1_ps, 32)
#undef step
#define step(s, a, b) _mm512_dpbf16_ps(s, (__m512bh)a, (__m512bh)b)
LIMIT(limit_bf16_pairs, "avx512f,avx512bf16", __m512, _mm512_set1_ps, 64)
