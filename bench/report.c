/* What is printed: a line for each case as it is done, and tables for programs and documents. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

static const Runner *best_peer(const Case *c)
{
    const Runner *best = NULL;
    for (int i = 1; i < c->nrunners; i++) {
        const Runner *r = &c->runners[i];
        if (r->measured && i != c->limit_compute && i != c->limit_traffic &&
            (!best || quantile(&r->samples, 0.5) < quantile(&best->samples, 0.5)))
            best = r;
    }
    return best;
}

static double share_of(const Case *c, int limit)
{
    return limit < 0 ? 0 : 1 / ratio_of(&c->runners[limit].samples, &c->runners[OURS].samples);
}

void report_head(FILE *out)
{
    fprintf(out, "%-24s %10s %15s %9s %9s  %s\n", "case", "ms", "quartiles", "GFLOP/s", "roofline",
            "best peer");
}

void report_case(const Case *c, FILE *out)
{
    const Runner *ours = &c->runners[OURS], *peer = best_peer(c);
    double median = quantile(&ours->samples, 0.5);
    double compute = share_of(c, c->limit_compute), traffic = share_of(c, c->limit_traffic);
    fprintf(out, "%-24s %10.3f %7.3f-%-7.3f %9.1f %5.0f %% %s", c->name, 1e3 * median,
            1e3 * quantile(&ours->samples, 0.25), 1e3 * quantile(&ours->samples, 0.75),
            1e-9 * c->flops / median, 100 * fmax(compute, traffic), compute > traffic ? "c" : "m");
    if (peer) {
        double ratio = ratio_of(&ours->samples, &peer->samples);
        fprintf(out, "  %5.2f x %s (%s) %.3f ms%s", ratio, peer->who, peer->way,
                1e3 * quantile(&peer->samples, 0.5), c->wanted > ratio ? "  BELOW" : "");
    }
    fprintf(out, "\n");
}
