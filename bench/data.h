/* Memory, random numbers and routes of a case. */
#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include <moec/moert.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks that are freed together, and the random numbers that fill them. Zero-initialise. */
typedef struct BenchMemory {
    struct MemoryBlock *last;
    uint64_t random;
} BenchMemory;

/* Zeroed, in huge pages where the system has them. Never NULL: the program ends when there is none. */
void *memory_get(BenchMemory *m, size_t bytes);
void memory_free(BenchMemory *m);
/* What else is given back with it. */
void memory_drop(BenchMemory *m, void (*drop)(void *), void *at);

/* Sizes by name: dimensions of the kernels here are single letters. */
typedef struct BenchSizes {
    int64_t of[26];
} BenchSizes;
#define SIZE(sizes, letter) ((sizes).of[(letter) - 'A'])

int64_t memory_random_below(BenchMemory *m, int64_t n);
/* Random numbers, uniform in (-scale, scale), the same in each run. */
uint16_t *random_bf16(BenchMemory *m, int64_t n, float scale);
float *random_f32(BenchMemory *m, int64_t n, float scale);

static inline float bf16_to_f32(uint16_t bits)
{
    union {
        uint32_t bits;
        float f;
    } u = {(uint32_t)bits << 16};
    return u.f;
}

static inline uint16_t f32_to_bf16(float f)
{
    union {
        float f;
        uint32_t bits;
    } u = {f};
    return (uint16_t)((u.bits + 0x7fff + (u.bits >> 16 & 1)) >> 16);
}

/* T tokens choose K of E experts; popularity falls with rank^-zipf, `empty` experts get nothing. */
moe_route *random_route(BenchMemory *m, int64_t tokens, int64_t choices, int64_t experts, double zipf,
                        int64_t empty);
/* Every expert has `rows` tokens, of one choice each. */
moe_route *even_route(BenchMemory *m, int64_t experts, int64_t rows);

#endif
