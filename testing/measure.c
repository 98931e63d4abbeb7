/* Timing, the same for `moec bench`, the tuner and moe-bench: runners take turns. And what the samples say. */
#include "base/base.h"
#include "moec/moec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FEWEST_ROUNDS = 3, PATIENCE = 4 /* times seconds */ };
static const double sample_seconds = 0.005, long_call = 0.25;

static void rest(double seconds)
{
    double whole = floor(seconds);
    if (seconds > 0)
        nanosleep(&(struct timespec){(time_t)whole, (long)(1e9 * (seconds - whole))}, NULL);
}

/* ---- before the rounds ---- */

/* One call to warm up, and one to see how long it takes. */
static int try(moec_runner *r, const moec_patience *p)
{
    rest(p->pause);
    r->first = r->time(r->user, 1);
    if (r->first >= 0 && r->first < long_call)
        r->first = r->time(r->user, 1);
    r->calls = r->first < sample_seconds ? (int)(sample_seconds / fmax(r->first, 1e-8)) + 1 : 1;
    return r->first < 0;
}

int moec_warm_up(moec_runner *r, size_t n, const moec_patience *p)
{
    if (n && (!r || !p))
        return 1;
    for (size_t i = 0; i < n; i++)
        if (!r[i].time || (r[i].first <= 0 && try(&r[i], p)))
            return (int)i + 1;
    return 0;
}

/* ---- rounds ---- */

/* A short call feels what the others left in the caches, so it is repeated once unseen. */
static int take_sample(moec_runner *r, const moec_patience *p)
{
    rest(p->pause);
    int cold = r->first < sample_seconds && r->time(r->user, 1) < 0;
    double seconds = cold ? -1 : r->time(r->user, r->calls);
    if (seconds < 0)
        return 1;
    r->samples[r->rounds++] = seconds / r->calls;
    return 0;
}

static int is_enough(const moec_patience *p, size_t rounds, double spent)
{
    if (rounds >= p->most)
        return 1;
    return rounds >= p->fewest ? spent >= p->seconds
                               : rounds >= FEWEST_ROUNDS && spent >= PATIENCE * p->seconds;
}

/* Each round has an order of its own: behind one that leaves nothing in the caches a call of some milliseconds takes 3 to 5 %
 * longer (Zen 3), which would always meet the same runner. */
static void shuffle(size_t *order, size_t n, Random *random)
{
    for (size_t i = n; i > 1; i--) {
        size_t other = (size_t)random_below(random, (int64_t)i), was = order[other];
        order[other] = order[i - 1];
        order[i - 1] = was;
    }
}

static int take_turns(moec_runner *r, size_t n, const moec_patience *p, const size_t *order)
{
    for (size_t turn = 0; turn < n; turn++) {
        size_t i = order[turn];
        if (!r[i].left_out && (!r[i].samples || take_sample(&r[i], p)))
            return (int)i + 1;
    }
    return 0;
}

int moec_measure(moec_runner *r, size_t n, const moec_patience *p)
{
    int failed = moec_warm_up(r, n, p);
    double begin = clock_seconds();
    if (failed || !n)
        return failed;
    size_t *order = malloc(n * sizeof *order);
    if (!order)
        return 1;
    for (size_t i = 0; i < n; i++) {
        r[i].rounds = 0;
        order[i] = i;
    }
    Random random = random_new(n);
    for (size_t round = 0; !failed && !is_enough(p, round, clock_seconds() - begin); round++) {
        shuffle(order, n, &random);
        failed = take_turns(r, n, p, order);
    }
    free(order);
    return failed;
}

/* ---- what samples say ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* NULL: there are none, or there is no memory. */
static double *sorted(const double *values, size_t n)
{
    double *out = values && n ? malloc(n * sizeof *out) : NULL;
    if (!out)
        return NULL;
    memcpy(out, values, n * sizeof *out);
    qsort(out, n, sizeof *out, compare);
    return out;
}

static double quantile(const double *values, size_t n, double q)
{
    double place = q * (double)(n - 1), below = floor(place);
    size_t i = (size_t)below, j = i + 1 < n ? i + 1 : i;
    return values[i] + (place - below) * (values[j] - values[i]);
}

moec_spread moec_spread_of(const double *values, size_t n)
{
    double *s = sorted(values, n);
    moec_spread out = {NAN, NAN, NAN, NAN, NAN};
    if (s)
        out = (moec_spread){s[0], quantile(s, n, 0.25), quantile(s, n, 0.5), quantile(s, n, 0.75), s[n - 1]};
    free(s);
    return out;
}

/* Each true ratio is above or below the median with equal chance, so how many of n are below has a binomial distribution: the
 * j-th smallest and the j-th largest hold the median between them but for 2 * P(fewer than j below). The largest j, from 1,
 * that leaves enough confidence; 0: none does. */
static size_t rank_of_bound(size_t n, double confidence)
{
    double below = 0, term = exp(-(double)n * log(2));
    size_t j = 0;
    for (size_t i = 0; i < n / 2; i++) {
        below += term;
        if (2 * below > 1 - confidence)
            break;
        j = i + 1;
        term *= (double)(n - i) / (double)(i + 1);
    }
    return j;
}

moec_ratio moec_compare(const double *a, const double *b, size_t n, double confidence)
{
    moec_ratio out = {0, NAN, INFINITY};
    double *ratios = a && b && n ? malloc(n * sizeof *ratios) : NULL;
    for (size_t i = 0; ratios && i < n; i++)
        ratios[i] = a[i] / b[i];
    double *s = sorted(ratios, ratios ? n : 0);
    if (s) {
        size_t j = rank_of_bound(n, confidence);
        out.ratio = quantile(s, n, 0.5);
        out.low = j ? s[j - 1] : 0;
        out.high = j ? s[n - j] : INFINITY;
    }
    free(s);
    free(ratios);
    return out;
}
