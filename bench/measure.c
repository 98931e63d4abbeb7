/* Runners of a case take turns, round after round, so that a machine that drifts drifts for all of them. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ROUNDS = 1000, FEWEST_ROUNDS = 3, PATIENCE = 8 /* times min_time */ };
static const double sample_seconds = 0.005, long_call = 0.25, hopeless = 2;

double seconds_now(void)
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

double quantile(const Samples *s, double q) { return quantile_of(s->at, s->n, q); }

double ratio_of(const Samples *a, const Samples *b)
{
    double ratios[MAX_ROUNDS];
    int n = a->n < b->n ? a->n : b->n;
    for (int i = 0; i < n; i++)
        ratios[i] = b->at[i] / a->at[i];
    return quantile_of(ratios, n, 0.5);
}

/* ---- rounds ---- */

/* One call to warm up, and one to see how long it takes. */
static int try(Case *c, Runner *r)
{
    r->first = r->time(r->self, 1);
    if (r->first >= 0 && r->first < long_call)
        r->first = r->time(r->self, 1);
    if (r->first < 0)
        return case_failed(c, "%s (%s) failed", r->who, r->way);
    r->calls = r->first < sample_seconds ? (int)(sample_seconds / fmax(r->first, 1e-8)) + 1 : 1;
    return 0;
}

static bool is_peer(const Case *c, int i)
{
    return i != OURS && i != c->limit_compute && i != c->limit_traffic;
}

/* Of each peer its best way, and no peer that is hopelessly behind the best. */
static void choose_peers(Case *c)
{
    double best = INFINITY;
    for (int i = 0; i < c->nrunners; i++)
        if (is_peer(c, i))
            best = fmin(best, c->runners[i].first);
    for (int i = 0; i < c->nrunners; i++) {
        Runner *r = &c->runners[i];
        r->measured = !is_peer(c, i) || r->first <= hopeless * best;
        for (int j = 0; is_peer(c, i) && j < c->nrunners; j++)
            if (j != i && is_peer(c, j) && !strcmp(c->runners[j].who, r->who) &&
                c->runners[j].first < r->first)
                r->measured = false;
    }
}

static int take_sample(Case *c, Runner *r)
{
    if (r->first < sample_seconds && r->time(r->self, 1) < 0) /* what the others left in the caches */
        return case_failed(c, "%s (%s) failed", r->who, r->way);
    double seconds = r->time(r->self, r->calls);
    if (seconds < 0)
        return case_failed(c, "%s (%s) failed", r->who, r->way);
    r->samples.at[r->samples.n++] = seconds / r->calls;
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
    choose_peers(c);
    for (int i = 0; i < c->nrunners; i++)
        c->runners[i].samples.at = memory_get(&c->memory, MAX_ROUNDS * sizeof(double));
    double begin = seconds_now();
    for (int round = 0; !enough(&c->bench->options, round, seconds_now() - begin); round++)
        for (int i = 0; i < c->nrunners; i++)
            if (c->runners[i].measured && take_sample(c, &c->runners[i]))
                return 1;
    return 0;
}
