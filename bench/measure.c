/* Runners of a case take turns, round after round, so that a machine that drifts drifts for all of them. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ROUNDS = 1000, FEWEST_ROUNDS = 3, PATIENCE = 4 /* times min_time */, SPIN_NANOSECONDS = 30000000 };
static const double sample_seconds = 0.005, long_call = 0.25, hopeless = 2;

double bench_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- figures ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile_of(const double *values, int n, double q)
{
    double sorted[MAX_ROUNDS];
    if (!n)
        return NAN;
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    double place = q * (n - 1), below = floor(place);
    size_t i = (size_t)below, j = i + 1 < (size_t)n ? i + 1 : i;
    return sorted[i] + (place - below) * (sorted[j] - sorted[i]);
}

double quantile(const BenchRunner *r, double q) { return quantile_of(r->samples, r->rounds, q); }

double ratio_of(const BenchRunner *a, const BenchRunner *b)
{
    double ratios[MAX_ROUNDS];
    int n = a->rounds < b->rounds ? a->rounds : b->rounds;
    for (int i = 0; i < n; i++)
        ratios[i] = b->samples[i] / a->samples[i];
    return quantile_of(ratios, n, 0.5);
}

/* ---- before the rounds ---- */

/* Threads of libraries spin for a while after their last work. */
static void let_threads_sleep(const Case *c)
{
    if (c->threads > 1)
        nanosleep(&(struct timespec){.tv_nsec = SPIN_NANOSECONDS}, NULL);
}

/* One call to warm up, and one to see how long it takes. */
static int try(const Case *c, BenchRunner *r)
{
    let_threads_sleep(c);
    r->first = r->time(r->self, 1);
    if (r->first >= 0 && r->first < long_call)
        r->first = r->time(r->self, 1);
    if (r->first < 0)
        return case_failed(c, "%s (%s) failed", r->who, r->way);
    r->calls = r->first < sample_seconds ? (int)(sample_seconds / fmax(r->first, 1e-8)) + 1 : 1;
    return 0;
}

static bool is_best_way(const Case *c, const BenchRunner *r)
{
    for (int i = 0; i < c->nrunners; i++) {
        const BenchRunner *other = &c->runners[i];
        if (other->part == PEER && !strcmp(other->who, r->who) &&
            (other->first < r->first || (other->first == r->first && other < r)))
            return false;
    }
    return true;
}

/* Of each peer its best way, and no peer that is hopelessly behind the best. */
static void choose(Case *c)
{
    double best = INFINITY;
    for (int i = 0; i < c->nrunners; i++)
        if (c->runners[i].part == PEER)
            best = fmin(best, c->runners[i].first);
    for (int i = 0; i < c->nrunners; i++) {
        BenchRunner *r = &c->runners[i];
        r->measured = r->part != PEER || (r->first <= hopeless * best && is_best_way(c, r));
    }
}

/* ---- rounds ---- */

static int take_sample(const Case *c, BenchRunner *r)
{
    let_threads_sleep(c);
    bool small = r->first < sample_seconds; /* feels what the others left in the caches */
    double seconds = small && r->time(r->self, 1) < 0 ? -1 : r->time(r->self, r->calls);
    if (seconds < 0)
        return case_failed(c, "%s (%s) failed", r->who, r->way);
    r->samples[r->rounds++] = seconds / r->calls;
    return 0;
}

static bool enough(const Options *o, int rounds, double spent)
{
    if (rounds >= MAX_ROUNDS)
        return true;
    return rounds >= o->runs ? spent >= o->min_time
                             : rounds >= FEWEST_ROUNDS && spent >= PATIENCE * o->min_time;
}

int measure(Case *c)
{
    for (int i = 0; i < c->nrunners; i++)
        if (try(c, &c->runners[i]))
            return 1;
    choose(c);
    for (int i = 0; i < c->nrunners; i++)
        c->runners[i].samples = memory_get(&c->bench->memory, MAX_ROUNDS * sizeof(double));
    double begin = bench_seconds();
    for (int round = 0; !enough(&c->bench->options, round, bench_seconds() - begin); round++)
        for (int i = 0; i < c->nrunners; i++)
            if (c->runners[i].measured && take_sample(c, &c->runners[i]))
                return 1;
    return 0;
}
