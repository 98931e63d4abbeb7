/* Runners of a case take turns, round after round, so that a machine that drifts drifts for all of them: moec_measure(). */
#include "bench/bench.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { MAX_ROUNDS = 1000 };
static const double hopeless = 2,
                    spin = 0.03; /* seconds for which threads of libraries spin after their last work */

double bench_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

moec_spread bench_spread(const BenchRunner *r) { return moec_spread_of(r->samples, (size_t)r->rounds); }

double ratio_of(const BenchRunner *a, const BenchRunner *b)
{
    int n = a->rounds < b->rounds ? a->rounds : b->rounds;
    return moec_compare(b->samples, a->samples, (size_t)n, 0).ratio;
}

/* ---- who takes part ---- */

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

/* Of each peer its best way, and no peer that is hopelessly behind the best or cannot do it. */
static void choose(Case *c)
{
    double best = INFINITY;
    for (int i = 0; i < c->nrunners; i++)
        if (c->runners[i].part == PEER)
            best = fmin(best, c->runners[i].first);
    for (int i = 0; i < c->nrunners; i++) {
        BenchRunner *r = &c->runners[i];
        r->measured =
            r->part != PEER || (isfinite(r->first) && r->first <= hopeless * best && is_best_way(c, r));
    }
}

/* ---- rounds ---- */

static int complain(const Case *c, int failed)
{
    const BenchRunner *r = &c->runners[failed - 1];
    return case_failed(c, "%s (%s) failed", r->who, r->way);
}

/* Tries every runner. A way of a peer that this CPU cannot do is left out: oneDNN tells only when it is called. Returns 0, or 1 +
 * the number of the first of the others that failed. */
static int warm_up(const Case *c, moec_runner *runs, size_t n, const moec_patience *patience)
{
    int failed;
    while ((failed = moec_warm_up(runs, n, patience)) && c->runners[failed - 1].part == PEER)
        runs[failed - 1].first = INFINITY;
    return failed;
}

int measure(Case *c)
{
    const Options *o = &c->bench->options;
    moec_runner runs[MAX_RUNNERS] = {{0}};
    size_t n = (size_t)c->nrunners;
    moec_patience patience = {.fewest = (size_t)o->runs,
                              .most = MAX_ROUNDS,
                              .seconds = o->min_time,
                              .pause = c->threads > 1 ? spin : 0};
    for (size_t i = 0; i < n; i++) {
        BenchRunner *r = &c->runners[i];
        r->samples = memory_get(&c->bench->memory, MAX_ROUNDS * sizeof(double));
        runs[i] = (moec_runner){.time = r->time, .user = r->self, .samples = r->samples};
    }
    int failed = warm_up(c, runs, n, &patience);
    if (failed)
        return complain(c, failed);
    for (size_t i = 0; i < n; i++)
        c->runners[i].first = runs[i].first;
    choose(c);
    for (size_t i = 0; i < n; i++)
        runs[i].left_out = !c->runners[i].measured;
    failed = moec_measure(runs, n, &patience);
    for (size_t i = 0; i < n; i++)
        c->runners[i].rounds = (int)runs[i].rounds;
    return failed ? complain(c, failed) : 0;
}
