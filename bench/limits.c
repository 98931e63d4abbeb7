#include "bench/limits.h"
#include "bench/loops.h"

#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

enum { BARE_CALLS = 8 };

/* What one thread multiplies. */
typedef struct Panels {
    float *a, *b, *c;
} Panels;

struct Limits {
    Memory memory;
    const Arithmetic *arithmetic[2]; /* f32, bf16 */
    Panels *panels[2];               /* [threads] */
    size_t stream_bytes;
    char *from, *to;
};

size_t cache_bytes(int level)
{
    long known = sysconf(level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
    return known > 0 ? (size_t)known : level == 2 ? 1 << 20 : 32 << 20;
}

static float *numbers(Memory *m, int64_t elements, int bf16)
{
    return bf16 ? (float *)random_bf16(m, 2 * elements, 1) : random_f32(m, elements, 1);
}

static Panels panels_new(Memory *m, int bf16)
{
    return (Panels){numbers(m, BARE_ROWS * BARE_DEPTH, bf16), numbers(m, BARE_COLS * BARE_DEPTH, bf16),
                    random_f32(m, BARE_ROWS * BARE_COLS, 1)};
}

Limits *limits_new(const char *isa, int threads)
{
    Limits *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const Arithmetic *a = l->arithmetic[bf16] = arithmetic_find(isa, bf16);
        l->panels[bf16] = memory_get(&l->memory, (size_t)threads * sizeof(Panels));
        for (int t = 0; a && t < threads; t++)
            l->panels[bf16][t] = panels_new(&l->memory, a->bf16);
    }
    l->stream_bytes = 4 * cache_bytes(3);
    l->from = memory_get(&l->memory, l->stream_bytes);
    l->to = memory_get(&l->memory, l->stream_bytes);
    return l;
}

void limits_free(Limits *l)
{
    memory_free(&l->memory);
    free(l);
}

static double bare_flops(const Arithmetic *a)
{
    return a ? BARE_CALLS * a->step_flops * BARE_ROWS * BARE_COLS * BARE_DEPTH : 0;
}

double limit_work(const Limits *l, Limit limit, int threads)
{
    switch (limit) {
    case LIMIT_F32: return threads * bare_flops(l->arithmetic[0]);
    case LIMIT_BF16: return threads * bare_flops(l->arithmetic[1]);
    case LIMIT_READ: return (double)l->stream_bytes;
    case LIMIT_COPY:
    case LIMIT_UPDATE: return 2 * (double)l->stream_bytes;
    case LIMIT_NONE:
    case LIMIT_COUNT: break;
    }
    return 0;
}

static void bare(const Arithmetic *a, const Panels *p)
{
    if (a->setup)
        a->setup();
    for (int i = 0; i < BARE_CALLS; i++)
        a->bare(p->a, p->b, p->c);
}

static void part(Limits *l, Limit limit, int thread, int threads)
{
    size_t bytes = l->stream_bytes / (size_t)threads, at = (size_t)thread * bytes;
    switch (limit) {
    case LIMIT_F32: bare(l->arithmetic[0], &l->panels[0][thread]); break;
    case LIMIT_BF16: bare(l->arithmetic[1], &l->panels[1][thread]); break;
    case LIMIT_READ: loop_read(l->from + at, bytes); break;
    case LIMIT_COPY: loop_copy(l->to + at, l->from + at, bytes); break;
    case LIMIT_UPDATE: loop_update(l->to + at, bytes); break;
    case LIMIT_NONE:
    case LIMIT_COUNT: break;
    }
}

double limit_seconds(Limits *l, Limit limit, int threads)
{
    double begin = seconds_now();
#pragma omp parallel num_threads(threads)
    part(l, limit, omp_get_thread_num(), threads);
    return seconds_now() - begin;
}

/* ---- for the head of the report: the best of some runs ---- */

enum { FIGURE_RUNS = 9 };

double limit_registers(Limits *l, int bf16)
{
    const Arithmetic *a = l->arithmetic[bf16];
    double best = 0;
    for (int i = 0; a && i < FIGURE_RUNS; i++) {
        if (a->setup)
            a->setup();
        double begin = seconds_now(), flops = a->registers(l->panels[bf16]->b, 50000);
        double rate = flops / (seconds_now() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

double limit_read(Limits *l, size_t bytes)
{
    double best = 0;
    for (int i = 0; i < FIGURE_RUNS; i++) {
        size_t times = l->stream_bytes / bytes;
        double begin = seconds_now();
        for (size_t t = 0; t < times; t++)
            loop_read(l->from, bytes);
        double rate = (double)(times * bytes) / (seconds_now() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}
