/* x86: the loops that are timed, sums of products of bf16 in registers: by FMA of what was widened, by pairs, by tiles.
 * Operands are not zero, with which tiles run faster. */
#include "machines/cpu_own.h"

#include <immintrin.h>

enum { CHAINS = 20 };     /* more than latency times rate of any core, and they fit 32 registers */
enum { FEW_CHAINS = 12 }; /* likewise of those that have 16 */

#define UNROLL _Pragma("GCC unroll 20")
#define KEEP(v) __asm__ volatile("" : "+x"(v)) /* the compiler cannot tell what it is */

uint64_t cpu_loop_add(uint32_t trips)
{
    __m128 s[FEW_CHAINS], a = _mm_set1_ps(1.25f), b = _mm_set1_ps(0.75f);
    UNROLL for (int i = 0; i < FEW_CHAINS; i++) s[i] = _mm_set1_ps((float)i);
    for (uint32_t t = 0; t < trips; t++) {
        UNROLL for (int i = 0; i < FEW_CHAINS; i++)
        {
            __m128 product = a;
            KEEP(product);
            s[i] = _mm_add_ps(s[i], _mm_mul_ps(product, b));
        }
    }
    UNROLL for (int i = 0; i < FEW_CHAINS; i++) KEEP(s[i]);
    return (uint64_t)trips * FEW_CHAINS * 4 * 2;
}

__attribute__((target("avx2,fma"))) uint64_t cpu_loop_fma8(uint32_t trips)
{
    __m256 s[FEW_CHAINS], a = _mm256_set1_ps(1.25f), b = _mm256_set1_ps(0.75f);
    UNROLL for (int i = 0; i < FEW_CHAINS; i++) s[i] = _mm256_set1_ps((float)i);
    for (uint32_t t = 0; t < trips; t++) {
        UNROLL for (int i = 0; i < FEW_CHAINS; i++) s[i] = _mm256_fmadd_ps(a, b, s[i]);
        KEEP(a);
    }
    UNROLL for (int i = 0; i < FEW_CHAINS; i++) KEEP(s[i]);
    return (uint64_t)trips * FEW_CHAINS * 8 * 2;
}

__attribute__((target("avx512f"))) uint64_t cpu_loop_fma(uint32_t trips)
{
    __m512 s[CHAINS], a = _mm512_set1_ps(1.25f), b = _mm512_set1_ps(0.75f);
    UNROLL for (int i = 0; i < CHAINS; i++) s[i] = _mm512_set1_ps((float)i);
    for (uint32_t t = 0; t < trips; t++) {
        UNROLL for (int i = 0; i < CHAINS; i++) s[i] = _mm512_fmadd_ps(a, b, s[i]);
        KEEP(a);
    }
    UNROLL for (int i = 0; i < CHAINS; i++) KEEP(s[i]);
    return (uint64_t)trips * CHAINS * 16 * 2;
}

__attribute__((target("avx512f,avx512bf16"))) uint64_t cpu_loop_dot(uint32_t trips)
{
    __m512 s[CHAINS];
    __m512bh a = (__m512bh)_mm512_set1_epi16(0x3fa0),
             b = (__m512bh)_mm512_set1_epi16(0x3f40); /* 1.25, 0.75 */
    UNROLL for (int i = 0; i < CHAINS; i++) s[i] = _mm512_set1_ps((float)i);
    for (uint32_t t = 0; t < trips; t++) {
        UNROLL for (int i = 0; i < CHAINS; i++) s[i] = _mm512_dpbf16_ps(s[i], a, b);
        KEEP(a);
    }
    UNROLL for (int i = 0; i < CHAINS; i++) KEEP(s[i]);
    return (uint64_t)trips * CHAINS * 16 * 4;
}

enum { TILE = 16, TILE_BYTES = 64 }; /* rows, and bytes of a row */

/* GCC 12 believes that AMX's instructions read no memory, or only the first bytes of it, and leaves out the stores. */
#define IN_MEMORY(p) __asm__ volatile("" : : "r"(p) : "memory")

__attribute__((target("amx-tile"))) static void tile_begin(void)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = TILE_BYTES;
        config.rows[i] = TILE;
    }
    IN_MEMORY(&config);
    _tile_loadconfig(&config);
}

/* A tile's product takes so much longer than a vector's that an eighth of the trips take as long. */
__attribute__((target("amx-tile,amx-bf16"))) uint64_t cpu_loop_tile(uint32_t trips)
{
    uint16_t ones[TILE * TILE_BYTES / 2];
    for (uint16_t i = 0; i < TILE * TILE_BYTES / 2; i++)
        ones[i] = (uint16_t)(0x3f80 | (i * 37 & 0x7f)); /* 1 to 2 */
    trips /= 8;
    IN_MEMORY(ones);
    tile_begin();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, ones, TILE_BYTES);
    _tile_loadd(5, ones, TILE_BYTES);
    _tile_loadd(6, ones, TILE_BYTES);
    _tile_loadd(7, ones, TILE_BYTES);
    for (uint32_t t = 0; t < trips; t++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return (uint64_t)trips * 4 * TILE * TILE * (TILE_BYTES / 2) * 2;
}
