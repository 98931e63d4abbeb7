#include "bench/loops.h"

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef float V4 __attribute__((vector_size(16)));
typedef float V8 __attribute__((vector_size(32)));
typedef float V16 __attribute__((vector_size(64)));

#define UNROLL _Pragma("GCC unroll 32")
#define FUSED(s, a, b) ((s) + (a) * (b))
#define PAIRS(s, a, b) ((V16)_mm512_dpbf16_ps((__m512)(s), (__m512bh)(a), (__m512bh)(b)))

/* ---- C += A * B: panels of ROWS rows of A, and of two vectors of B, both [depth][rows or columns] ---- */

#define BARE(name, target_isa, V, ROWS, MADD)                                                      \
    __attribute__((target(target_isa))) static void name(const float *a, const float *b, float *c) \
    {                                                                                              \
        enum { LANES = sizeof(V) / sizeof(float), COLS = 2 * LANES };                              \
        for (int i = 0; i < BARE_ROWS; i += ROWS, a += ROWS * BARE_DEPTH)                          \
            for (int j = 0; j < BARE_COLS; j += COLS, c += ROWS * COLS) {                          \
                const V *bv = (const V *)(b + (size_t)j * BARE_DEPTH);                             \
                V s[ROWS][2], *cv = (V *)c;                                                        \
                UNROLL for (int r = 0; r < 2 * ROWS; r++) s[r / 2][r % 2] = cv[r];                 \
                for (int k = 0; k < BARE_DEPTH; k++) {                                             \
                    V b0 = bv[2 * k], b1 = bv[2 * k + 1];                                          \
                    UNROLL for (int r = 0; r < ROWS; r++)                                          \
                    {                                                                              \
                        V x = a[k * ROWS + r] - (V){0};                                            \
                        s[r][0] = MADD(s[r][0], x, b0);                                            \
                        s[r][1] = MADD(s[r][1], x, b1);                                            \
                    }                                                                              \
                }                                                                                  \
                UNROLL for (int r = 0; r < 2 * ROWS; r++) cv[r] = s[r / 2][r % 2];                 \
            }                                                                                      \
    }

BARE(bare_generic, "sse2", V4, 4, FUSED)
BARE(bare_avx2, "avx2,fma", V8, 6, FUSED)
BARE(bare_avx512, "avx512f", V16, 12, FUSED)
BARE(bare_avx512bf16, "avx512f,avx512bf16", V16, 12, PAIRS)

/* ---- AMX: four tiles of C, tiles of 16 rows of 16 elements one after the other in memory ---- */

enum { TILE = 16, TILE_ELEMENTS = TILE * TILE, TILE_STRIDE = TILE * sizeof(float) };

/* GCC 12 believes that AMX's instructions read no memory, or only the first bytes of it, and leaves out the stores. */
#define IN_MEMORY(p) __asm__ volatile("" : : "r"(p) : "memory")

static void tile_setup(void)
{
    syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */);
}

__attribute__((target("amx-tile"))) static void tile_begin(void)
{
    struct {
        unsigned char palette, start, zero[14];
        unsigned short bytes[16];
        unsigned char rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = TILE_STRIDE;
        config.rows[i] = TILE;
    }
    IN_MEMORY(&config);
    _tile_loadconfig(&config);
}

__attribute__((target("amx-tile,amx-bf16"))) static void bare_amx(const float *a, const float *b, float *c)
{
    enum { PANEL = TILE * BARE_DEPTH };
    tile_begin();
    for (int i = 0; i < BARE_ROWS; i += 2 * TILE, a += 2 * PANEL)
        for (int j = 0; j < BARE_COLS; j += 2 * TILE, c += 4 * TILE_ELEMENTS) {
            const float *bp = b + (size_t)j * BARE_DEPTH;
            _tile_loadd(0, c, TILE_STRIDE);
            _tile_loadd(1, c + TILE_ELEMENTS, TILE_STRIDE);
            _tile_loadd(2, c + 2 * TILE_ELEMENTS, TILE_STRIDE);
            _tile_loadd(3, c + 3 * TILE_ELEMENTS, TILE_STRIDE);
            for (int k = 0; k < PANEL; k += TILE_ELEMENTS) {
                _tile_loadd(4, a + k, TILE_STRIDE);
                _tile_loadd(5, a + PANEL + k, TILE_STRIDE);
                _tile_loadd(6, bp + k, TILE_STRIDE);
                _tile_loadd(7, bp + PANEL + k, TILE_STRIDE);
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, c, TILE_STRIDE);
            _tile_stored(1, c + TILE_ELEMENTS, TILE_STRIDE);
            _tile_stored(2, c + 2 * TILE_ELEMENTS, TILE_STRIDE);
            _tile_stored(3, c + 3 * TILE_ELEMENTS, TILE_STRIDE);
        }
    _tile_release();
}

__attribute__((target("amx-tile,amx-bf16"))) static double registers_amx(float *random, long trips)
{
    tile_begin();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, random, TILE_STRIDE);
    _tile_loadd(5, random + TILE_ELEMENTS, TILE_STRIDE);
    _tile_loadd(6, random + 2 * TILE_ELEMENTS, TILE_STRIDE);
    _tile_loadd(7, random + 3 * TILE_ELEMENTS, TILE_STRIDE);
    for (long t = 0; t < trips; t++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return (double)trips * 4 * TILE * TILE_ELEMENTS * 4;
}

/* ---- multiply-adds in registers: independent chains ---- */

enum { CHAINS = 12 };

#define KEEP(v) __asm__ volatile("" : "+x"(v)) /* the compiler cannot tell what it is */
#define REGISTERS(name, target_isa, V, MADD, FLOPS)                                   \
    __attribute__((target(target_isa))) static double name(float *random, long trips) \
    {                                                                                 \
        V s[CHAINS], a = ((V *)random)[0], b = ((V *)random)[1];                      \
        UNROLL for (int i = 0; i < CHAINS; i++) s[i] = ((V *)random)[2 + i];          \
        for (long t = 0; t < trips; t++) {                                            \
            UNROLL for (int i = 0; i < CHAINS; i++) s[i] = MADD(s[i], a, b);          \
            KEEP(a);                                                                  \
        }                                                                             \
        UNROLL for (int i = 0; i < CHAINS; i++) KEEP(s[i]);                           \
        return (double)trips * CHAINS * (sizeof(V) / sizeof(float)) * (FLOPS);        \
    }

REGISTERS(registers_generic, "sse2", V4, FUSED, 2)
REGISTERS(registers_avx2, "avx2,fma", V8, FUSED, 2)
REGISTERS(registers_avx512, "avx512f", V16, FUSED, 2)
REGISTERS(registers_avx512bf16, "avx512f,avx512bf16", V16, PAIRS, 4)

const Arithmetic arithmetics[] = {
    {"generic", "SSE2", 0, 2, bare_generic, registers_generic, NULL},
    {"avx2", "FMA", 0, 2, bare_avx2, registers_avx2, NULL},
    {"avx512", "FMA", 0, 2, bare_avx512, registers_avx512, NULL},
    {"avx512widen", "FMA", 0, 2, bare_avx512, registers_avx512, NULL},
    {"avx512bf16", "VDPBF16PS", 1, 4, bare_avx512bf16, registers_avx512bf16, NULL},
    {"amx", "TDPBF16PS", 1, 4, bare_amx, registers_amx, tile_setup},
    {NULL, NULL, 0, 0, NULL, NULL, NULL},
};

/* ---- memory ---- */

/* Reading, four streams at once keep more misses in flight than one, or, on some machines, get in each other's way; writing they
 * always do. */
#define STREAMS(name, target_isa, V)                                                                      \
    __attribute__((target(target_isa))) static void read_##name(const void *from, size_t bytes, int four) \
    {                                                                                                     \
        const V *p = from;                                                                                \
        size_t n = bytes / sizeof(V) / 4, apart = four ? n : 1, step = four ? 1 : 4;                      \
        V s[4] = {{0}};                                                                                   \
        for (size_t i = 0; i < n; i++)                                                                    \
            UNROLL for (size_t j = 0; j < 4; j++) s[j] += p[i * step + j * apart];                        \
        UNROLL for (size_t j = 0; j < 4; j++) KEEP(s[j]);                                                 \
    }                                                                                                     \
    __attribute__((target(target_isa))) static void update_##name(void *at, size_t bytes)                 \
    {                                                                                                     \
        V *p = at;                                                                                        \
        for (size_t i = 0; i < bytes / sizeof(V); i++)                                                    \
            p[i] = -p[i];                                                                                 \
    }

STREAMS(plain, "sse2", V4)
STREAMS(avx2, "avx2", V8)
STREAMS(avx512, "avx512f", V16)

void loop_read(const void *from, size_t bytes, int four)
{
    if (__builtin_cpu_supports("avx512f"))
        read_avx512(from, bytes, four);
    else if (__builtin_cpu_supports("avx2"))
        read_avx2(from, bytes, four);
    else
        read_plain(from, bytes, four);
}

void loop_update(void *at, size_t bytes)
{
    if (__builtin_cpu_supports("avx512f"))
        update_avx512(at, bytes);
    else if (__builtin_cpu_supports("avx2"))
        update_avx2(at, bytes);
    else
        update_plain(at, bytes);
}

void loop_copy(void *to, const void *from, size_t bytes)
{
    const V4 *in = from;
    V4 *out = to;
    for (size_t i = 0; i < bytes / sizeof(V4); i++)
        _mm_stream_ps((float *)(out + i), in[i]);
    _mm_sfence();
}
