/* Limits of this machine as runners: bare loops, which take turns with the case that they bound. */
#include "machines/machines.h"
#include "moec/moec.h"

#include "base/bind.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    READ_BYTES = 1 << 28 /* beyond the caches */,
    ARITHMETIC_TRIPS = 20000,
    TEAM_TRIPS = 20 * ARITHMETIC_TRIPS, /* to start a thread takes as long as the few trips */
    THREADS_MOST = 256
};

/* What a thread does, and what it counts: flops or bytes. */
typedef struct LimitPart {
    const struct moec_limit *limit;
    const uint64_t *from;
    double done;
    uint64_t sum; /* so that reading is not left out */
} LimitPart;

struct moec_limit {
    moec_limit_kind kind;
    CpuLoop *loop;
    double work;
    int threads;
    cpu_set_t cores; /* of its threads; none: the system chooses */
    uint64_t *stream;
    LimitPart parts[THREADS_MOST];
};

/* The loop of the instruction set whose multiply-adds are of that kind. */
static CpuLoop *loop_of(moec_limit_kind kind, const char *target)
{
    Isa isa = cpu_best();
    if (target && !cpu_find(target, &isa))
        return NULL;
    if (!cpu_has(isa))
        return NULL;
    return cpu_table[kind == MOEC_LIMIT_F32 ? cpu_table[isa].f32 : isa].loop;
}

static int threads_of(int wanted)
{
    const long n = wanted ? labs(wanted) : computer_cores();
    return n < THREADS_MOST ? (int)n : THREADS_MOST;
}

moec_limit *moec_limit_new(moec_limit_kind kind, const char *target, double work, int threads)
{
    moec_limit *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    *l = (moec_limit){.kind = kind, .work = work, .threads = threads_of(threads)};
    if (sched_getaffinity(0, sizeof l->cores, &l->cores))
        CPU_ZERO(&l->cores);
    if (kind == MOEC_LIMIT_READ)
        l->stream = aligned_alloc(4096, READ_BYTES);
    else
        l->loop = loop_of(kind, target);
    if (l->stream)
        memset(l->stream, 1, READ_BYTES); /* pages of zeros are one page */
    if (!l->stream && !l->loop) {
        free(l);
        return NULL;
    }
    return l;
}

void moec_limit_free(moec_limit *l)
{
    if (l)
        free(l->stream);
    free(l);
}

/* Four streams in turn, each asked for ahead: a core reads them faster than one (on an Emerald Rapids 15 to 17 GB/s, one 9 to 14). */
static uint64_t sum_of(const uint64_t *at, size_t words)
{
    enum { STREAMS = 4, LANES = 8, AHEAD = 128 };
    uint64_t sums[STREAMS][LANES] = {{0}}, sum = 0;
    size_t each = words / STREAMS;
    for (size_t i = 0; i + LANES <= each; i += LANES)
        for (size_t s = 0; s < STREAMS; s++) {
            const uint64_t *line = at + s * each + i;
            __builtin_prefetch(line + AHEAD);
            for (size_t lane = 0; lane < LANES; lane++)
                sums[s][lane] += line[lane];
        }
    for (size_t i = 0; i < STREAMS * LANES; i++)
        sum += sums[i / LANES][i % LANES];
    return sum;
}

static size_t words_each(const moec_limit *l) { return READ_BYTES / sizeof *l->stream / (size_t)l->threads; }

static void *do_part(void *user)
{
    LimitPart *p = user;
    const moec_limit *l = p->limit;
    if (l->stream) {
        p->sum = sum_of(p->from, words_each(l));
        p->done = (double)(words_each(l) * sizeof *l->stream);
    } else {
        p->done = (double)l->loop(l->threads == 1 ? ARITHMETIC_TRIPS : TEAM_TRIPS);
    }
    return p;
}

/* A thread on a core of its own: one that has just begun stays for a while where it was made, beside the one that made it. */
static int start_part(moec_limit *l, int thread, pthread_t *out)
{
    pthread_attr_t on;
    if (pthread_attr_init(&on))
        return 0;
    if (CPU_COUNT(&l->cores)) {
        const cpu_set_t one = bind_core(&l->cores, bind_place(&l->cores) + thread);
        pthread_attr_setaffinity_np(&on, sizeof one, &one);
    }
    int failed = pthread_create(out, &on, do_part, &l->parts[thread]);
    pthread_attr_destroy(&on);
    return !failed;
}

/* Flops or bytes by second, of all threads together; 0: a thread could not be started. */
static double rate(moec_limit *l)
{
    pthread_t threads[THREADS_MOST];
    double done = 0, begin = clock_of_threads(l->threads);
    int n = 1, whole = 1;
    for (int i = 0; i < l->threads; i++)
        l->parts[i] = (LimitPart){l, l->stream ? l->stream + (size_t)i * words_each(l) : NULL, 0, 0};
    while (n < l->threads && whole)
        whole = start_part(l, n, &threads[n]) && ++n;
    do_part(&l->parts[0]);
    for (int i = 1; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++)
        done += l->parts[i].done;
    return whole ? done / (clock_of_threads(l->threads) - begin) : 0;
}

double moec_limit_time(void *user, int calls)
{
    moec_limit *l = user;
    double by_second = l ? rate(l) : 0;
    return by_second > 0 ? calls * l->work / by_second : -1;
}
