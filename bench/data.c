#include "bench/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- memory ---- */

enum { HUGE_PAGE = 2 << 20 };

typedef struct MemoryBlock {
    struct MemoryBlock *before;
    void *start;
    void (*drop)(void *);
} MemoryBlock;

void memory_drop(BenchMemory *m, void (*drop)(void *), void *at)
{
    MemoryBlock *block = malloc(sizeof *block);
    if (!block)
        abort();
    *block = (MemoryBlock){m->last, at, drop};
    m->last = block;
}

void *memory_get(BenchMemory *m, size_t bytes)
{
    size_t align = bytes < HUGE_PAGE ? 64 : HUGE_PAGE, room = (bytes + align) / align * align;
    void *start = aligned_alloc(align, room);
    if (!start) {
        fprintf(stderr, "moe-bench: there is no memory for %zu MB\n", bytes >> 20);
        exit(1);
    }
    if (align == HUGE_PAGE)
        madvise(start, room, MADV_HUGEPAGE); /* no more than a wish */
    memory_drop(m, free, start);
    return memset(start, 0, room);
}

void memory_free(BenchMemory *m)
{
    for (MemoryBlock *block = m->last; block;) {
        MemoryBlock *before = block->before;
        block->drop(block->start);
        free(block);
        block = before;
    }
    m->last = NULL;
}

/* ---- random numbers ---- */

static uint64_t random_next(BenchMemory *m)
{
    uint64_t s = m->random ? m->random : 0x9e3779b97f4a7c15;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return m->random = s;
}

int64_t memory_random_below(BenchMemory *m, int64_t n) { return (int64_t)(random_next(m) % (uint64_t)n); }

/* In (0, 1). */
static double random_unit(BenchMemory *m) { return ((double)(random_next(m) >> 11) + 0.5) * 0x1p-53; }

float *random_f32(BenchMemory *m, int64_t n, float scale)
{
    float *out = memory_get(m, (size_t)n * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[i] = scale * ((float)(int32_t)(random_next(m) >> 32) * 0x1p-31f);
    return out;
}

uint16_t *random_bf16(BenchMemory *m, int64_t n, float scale)
{
    uint16_t *out = memory_get(m, (size_t)n * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[i] = f32_to_bf16(scale * ((float)(int32_t)(random_next(m) >> 32) * 0x1p-31f));
    return out;
}

/* ---- routes ---- */

static moe_route *route_of(BenchMemory *m, const int32_t *expert, int64_t tokens, int64_t choices,
                           int64_t experts)
{
    int64_t rows = tokens * choices;
    moe_route *r = memory_get(m, sizeof *r);
    *r = (moe_route){tokens,
                     choices,
                     experts,
                     rows,
                     memory_get(m, (size_t)(experts + 1) * sizeof(int64_t)),
                     memory_get(m, (size_t)experts * sizeof(int64_t)),
                     memory_get(m, (size_t)rows * sizeof(int32_t)),
                     memory_get(m, (size_t)rows * sizeof(int32_t))};
    for (int64_t i = 0; i < rows; i++)
        r->count[expert[i]]++;
    for (int64_t e = 0; e < experts; e++)
        r->start[e + 1] = r->start[e] + r->count[e];
    memset(r->count, 0, (size_t)experts * sizeof *r->count);
    for (int32_t i = 0; i < rows; i++) {
        int64_t row = r->start[expert[i]] + r->count[expert[i]]++;
        r->slot_of[row] = i;
        r->row_of[i] = (int32_t)row;
    }
    return r;
}

/* The expert that is chosen next: the largest log(popularity) + Gumbel noise, which draws without putting back. */
static void choose(BenchMemory *m, const double *popularity, double *score, int64_t experts, int64_t choices,
                   int32_t *out)
{
    for (int64_t e = 0; e < experts; e++)
        score[e] = popularity[e] - log(-log(random_unit(m)));
    for (int64_t k = 0; k < choices; k++) {
        int32_t best = 0;
        for (int32_t e = 1; e < experts; e++)
            if (score[e] > score[best])
                best = e;
        score[best] = -INFINITY;
        out[k] = best;
    }
}

moe_route *random_route(BenchMemory *m, int64_t tokens, int64_t choices, int64_t experts, double zipf,
                        int64_t empty)
{
    double *popularity = memory_get(m, (size_t)experts * sizeof *popularity);
    double *score = memory_get(m, (size_t)experts * sizeof *score);
    int32_t *expert = memory_get(m, (size_t)(tokens * choices) * sizeof *expert);
    for (int64_t e = 0; e < experts; e++)
        popularity[e] = e < experts - empty ? -zipf * log((double)(e + 1)) : -1e9;
    for (int64_t e = experts - 1; e > 0; e--) { /* popular ones and empty ones stand anywhere */
        int64_t other = memory_random_below(m, e + 1);
        double p = popularity[e];
        popularity[e] = popularity[other];
        popularity[other] = p;
    }
    for (int64_t t = 0; t < tokens; t++)
        choose(m, popularity, score, experts, choices, expert + t * choices);
    return route_of(m, expert, tokens, choices, experts);
}

moe_route *even_route(BenchMemory *m, int64_t experts, int64_t rows)
{
    int32_t *expert = memory_get(m, (size_t)(experts * rows) * sizeof *expert);
    for (int64_t i = 0; i < experts * rows; i++)
        expert[i] = (int32_t)(i % experts);
    return route_of(m, expert, experts * rows, 1, experts);
}
