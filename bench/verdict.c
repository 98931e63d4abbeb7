/* What the samples of a case say. */
#include "bench/bench.h"

#include <math.h>

static const BenchRunner *find(const Case *c, BenchPart part, int threads)
{
    for (int i = 0; i < c->nrunners; i++)
        if (c->runners[i].part == part && c->runners[i].threads == threads && c->runners[i].measured)
            return &c->runners[i];
    return NULL;
}

static const BenchRunner *best_peer(const Case *c)
{
    const BenchRunner *best = NULL;
    for (int i = 0; i < c->nrunners; i++) {
        const BenchRunner *r = &c->runners[i];
        if (r->part == PEER && r->measured && (!best || bench_spread(r).median < bench_spread(best).median))
            best = r;
    }
    return best;
}

/* The limit that allows least. */
static const BenchRunner *nearest_limit(const Case *c)
{
    const BenchRunner *compute = find(c, COMPUTE, c->threads), *traffic = find(c, TRAFFIC, c->threads);
    if (!compute || !traffic)
        return compute ? compute : traffic;
    return bench_spread(compute).median > bench_spread(traffic).median ? compute : traffic;
}

static bool is_below(const Kind *k, const Verdict *v)
{
    return (v->peer && v->ratio < k->ratio) || (v->limit && v->share < k->share) ||
           (k->seconds > 0 && v->seconds > k->seconds);
}

Verdict verdict_of(const Case *c)
{
    Verdict v = {.ours = find(c, OURS, c->threads), .peer = best_peer(c), .limit = nearest_limit(c)};
    bool memory = c->flops <= 0 || (v.limit && v.limit->part == TRAFFIC);
    v.seconds = bench_spread(v.ours).median;
    v.rate = (memory ? c->bytes : c->flops) / v.seconds;
    v.unit = memory ? "GB/s" : "GFLOP/s";
    if (v.peer)
        v.ratio = ratio_of(v.ours, v.peer);
    if (v.limit)
        v.share = ratio_of(v.ours, v.limit);
    if (c->kind->gain) {
        v.gain = ratio_of(v.ours, find(c, OURS, 1));
        if (v.limit)
            v.limit_gain = ratio_of(v.limit, find(c, v.limit->part, 1));
        v.share = v.gain / v.limit_gain;
    }
    v.below = is_below(c->kind, &v);
    return v;
}

double mean_ratio(const Bench *b, const BenchGroup *g, const Kind *k)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < b->ncases; i++) {
        const Case *c = b->cases[i];
        if (c->group != g || c->kind != k)
            continue;
        Verdict v = verdict_of(c);
        if (v.peer) {
            sum += log(v.ratio);
            n++;
        }
    }
    return n > 1 ? exp(sum / n) : 0;
}
