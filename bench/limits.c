#include "bench/limits.h"
#include "bench/loops.h"
#include "bench/ours.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAM_BYTES = 256 << 20 }; /* far more than caches hold */
enum { LOOPS_MAX = 8 };

struct Limits {
    BenchMemory memory;
    double arithmetic[LOOPS_MAX],
        registers[LOOPS_MAX]; /* rates of arithmetics[]: bare loops, and in registers */
    int count;                /* of those that this CPU runs */
    const char *core;         /* the instruction set of the last of them */
    char *from, *to;          /* streams */
    int four;                 /* memory is read fastest by four streams at once, else by one */
    double figures[FIGURE_COUNT];
};

size_t l2_bytes(void)
{
    long known = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return known > 0 ? (size_t)known : 1 << 20;
}

/* ---- arithmetic: the bare loop, on each thread with operands of its own ---- */

typedef struct LimitPanels {
    float *a, *b, *c;
} LimitPanels;

typedef struct Bare {
    const Arithmetic *arithmetic;
    int threads;
    double calls; /* of the loop by each thread, for the work of the case */
    LimitPanels panels[];
} Bare;

static const double bare_products = (double)BARE_ROWS * BARE_COLS * BARE_DEPTH;

static float *numbers(BenchMemory *m, int64_t elements, int bf16)
{
    return bf16 ? (float *)random_bf16(m, 2 * elements, 1) : random_f32(m, elements, 1);
}

static Bare *bare_new(BenchMemory *m, const Arithmetic *a, int threads, double flops)
{
    Bare *b = memory_get(m, sizeof *b + (size_t)threads * sizeof *b->panels);
    *b = (Bare){a, threads, flops / (bare_products * a->step_flops) / threads};
    for (int t = 0; t < threads; t++)
        b->panels[t] = (LimitPanels){numbers(m, BARE_ROWS * BARE_DEPTH, a->bf16),
                                     numbers(m, BARE_COLS * BARE_DEPTH, a->bf16),
                                     random_f32(m, BARE_ROWS * BARE_COLS, 1)};
    return b;
}

static double call_bare(const Bare *b, int calls)
{
    double begin = bench_seconds();
#pragma omp parallel num_threads(b->threads)
    {
        const LimitPanels *p = &b->panels[omp_get_thread_num()];
        if (b->arithmetic->setup)
            b->arithmetic->setup();
        for (int i = 0; i < calls; i++)
            b->arithmetic->bare(p->a, p->b, p->c);
    }
    return bench_seconds() - begin;
}

/* Some calls stand for as many as the case's work takes: 10 ms of them, after one that a core takes to come back from the
 * process of a peer. */
static double bare_time(void *self, int calls)
{
    enum { WARM = 8, CALLS = 80 };
    Bare *b = self;
    call_bare(b, WARM);
    return call_bare(b, CALLS) * b->calls / CALLS * calls;
}

/* ---- memory ---- */

typedef struct Stream {
    struct Limits *limits;
    Limit limit;
    int threads;
    size_t bytes; /* of a stream in one run */
    double runs;  /* for the work of the case */
} Stream;

static void stream_part(const Stream *s, int thread)
{
    size_t part = s->bytes / (size_t)s->threads / 64 * 64, at = (size_t)thread * part;
    char *from = s->limits->from + at, *to = s->limits->to + at;
    if (thread == s->threads - 1)
        part = s->bytes - at;
    if (s->limit == LIMIT_READ)
        loop_read(from, part, s->limits->four);
    else if (s->limit == LIMIT_COPY)
        memcpy(to, from, part);
    else
        loop_update(from, part);
}

static double stream_time(void *self, int calls)
{
    const Stream *s = self;
    double begin = bench_seconds();
#pragma omp parallel num_threads(s->threads)
    stream_part(s, omp_get_thread_num());
    return (bench_seconds() - begin) * s->runs * calls;
}

static Stream stream_new(struct Limits *l, Limit limit, int threads, double bytes)
{
    double per_byte = limit == LIMIT_READ ? 1 : 2, stream = bytes / per_byte;
    size_t part = stream < (double)STREAM_BYTES ? (size_t)stream : STREAM_BYTES;
    return (Stream){l, limit, threads, part, stream / (double)part};
}

static Stream *stream_copy(BenchMemory *m, Stream s) { return memcpy(memory_get(m, sizeof s), &s, sizeof s); }

/* ---- what bounds a case ---- */

/* The fastest loop among those of the instruction set and plainer ones; NULL: not known. */
static const Arithmetic *fastest(const struct Limits *l, const char *isa, int bf16)
{
    int best = -1, last = 0;
    for (int i = 0; i < l->count && !last; i++) {
        last = !strcmp(arithmetics[i].isa, isa);
        if (arithmetics[i].bf16 <= bf16 && (best < 0 || l->arithmetic[i] > l->arithmetic[best]))
            best = i;
    }
    return best < 0 ? NULL : &arithmetics[best];
}

/* The instruction set whose loops bound a case: that of the core, unless another one was asked for. */
static const char *bounded_by(const Case *c)
{
    return c->isa == c->bench->isa && !c->bench->forced ? c->bench->limits->core : c->isa;
}

void limits_add(Case *c, int threads)
{
    static const char *const names[] = {"f32", "bf16", "read", "memcpy", "update"};
    const Arithmetic *a = fastest(c->bench->limits, bounded_by(c), c->compute == LIMIT_BF16);
    if (a && c->flops > 0)
        case_runner(c, COMPUTE, threads, "limit",
                    c->compute == LIMIT_BF16 && !a->bf16 ? "fma" : names[c->compute], bare_time,
                    bare_new(&c->memory, a, threads, c->flops));
    if (c->bytes > 0)
        case_runner(c, TRAFFIC, threads, "limit", names[c->traffic], stream_time,
                    stream_copy(&c->memory, stream_new(c->bench->limits, c->traffic, threads, c->bytes)));
}

/* ---- figures of the machine: the best of some runs ---- */

enum { FIGURE_RUNS = 5 };

static double arithmetic_rate(const Arithmetic *a, bool in_registers)
{
    BenchMemory memory = {0};
    double best = 0;
    Bare *bare = bare_new(&memory, a, 1, 1);
    for (int i = 0; i < FIGURE_RUNS; i++) {
        if (a->setup)
            a->setup();
        double begin = bench_seconds(), flops = in_registers ? a->registers(bare->panels->b, 50000) : 1;
        double rate = in_registers ? flops / (bench_seconds() - begin) : 1 / bare_time(bare, 1);
        best = fmax(best, rate);
    }
    memory_free(&memory);
    return best;
}

static double stream_rate(struct Limits *l, Limit limit)
{
    double bytes = (limit == LIMIT_READ ? 1 : 2) * (double)STREAM_BYTES, best = 0;
    Stream s = stream_new(l, limit, 1, bytes);
    for (int i = 0; i < FIGURE_RUNS; i++)
        best = fmax(best, bytes / stream_time(&s, 1));
    return best;
}

static void choose_streams(struct Limits *l)
{
    double rates[2];
    for (l->four = 0; l->four < 2; l->four++)
        rates[l->four] = stream_rate(l, LIMIT_READ);
    l->four = rates[1] > rates[0];
}

/* Again and again the same bytes, which a cache holds. */
static double cache_rate(const struct Limits *l, size_t bytes)
{
    size_t times = STREAM_BYTES / bytes;
    double best = 0;
    for (int i = 0; i < FIGURE_RUNS; i++) {
        double begin = bench_seconds();
        for (size_t t = 0; t < times; t++)
            loop_read(l->from, bytes, 1);
        best = fmax(best, (double)(times * bytes) / (bench_seconds() - begin));
    }
    return best;
}

static double copy_rate(const struct Limits *l)
{
    double best = 0;
    for (int i = 0; i < FIGURE_RUNS; i++) {
        double begin = bench_seconds();
        loop_copy(l->to, l->from, STREAM_BYTES);
        best = fmax(best, 2 * (double)STREAM_BYTES / (bench_seconds() - begin));
    }
    return best;
}

static double figure(struct Limits *l, BenchFigure f)
{
    const Arithmetic *f32 = fastest(l, l->core, 0), *bf16 = fastest(l, l->core, 1);
    switch (f) {
    case FIGURE_F32: return l->arithmetic[f32 - arithmetics];
    case FIGURE_F32_REGISTERS: return l->registers[f32 - arithmetics];
    case FIGURE_BF16: return l->arithmetic[bf16 - arithmetics];
    case FIGURE_BF16_REGISTERS: return l->registers[bf16 - arithmetics];
    case FIGURE_L2: return cache_rate(l, l2_bytes() / 2);
    case FIGURE_L3: return cache_rate(l, 8 * l2_bytes());
    case FIGURE_READ: return stream_rate(l, LIMIT_READ);
    case FIGURE_MEMCPY: return stream_rate(l, LIMIT_COPY);
    case FIGURE_STREAM: return copy_rate(l);
    case FIGURE_UPDATE: return stream_rate(l, LIMIT_UPDATE);
    case FIGURE_COUNT: break;
    }
    return 0;
}

double limits_figure(const struct Limits *l, BenchFigure f) { return l->figures[f]; }

const char *limits_loop(const struct Limits *l, int bf16) { return fastest(l, l->core, bf16)->word; }

static void time_loops(struct Limits *l, Bench *b)
{
    l->core = arithmetics[0].isa;
    for (const Arithmetic *a = arithmetics; a->isa && (a == arithmetics || ours_has(b, a->isa)); a++) {
        l->arithmetic[l->count] = arithmetic_rate(a, false);
        l->registers[l->count++] = arithmetic_rate(a, true);
        l->core = a->isa;
        if (b->forced && !strcmp(a->isa, b->isa))
            break;
    }
}

struct Limits *limits_new(Bench *b)
{
    struct Limits *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    time_loops(l, b);
    l->from = memory_get(&l->memory, STREAM_BYTES);
    l->to = memory_get(&l->memory, STREAM_BYTES);
    choose_streams(l);
    for (BenchFigure f = 0; f < FIGURE_COUNT; f++)
        l->figures[f] = figure(l, f);
    return l;
}

void limits_free(struct Limits *l)
{
    if (l)
        memory_free(&l->memory);
    free(l);
}
