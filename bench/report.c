/* What is printed while measuring: a line for each case, and at the end what was asked for. */
#include "bench/limits.h"
#include "bench/peers.h"

#include <string.h>
#include <time.h>

static void print_model(FILE *out)
{
    char line[256], *model = NULL;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && !model && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10))
            model = strchr(line, ':') + 2;
    fprintf(out, "%.*s", model ? (int)strcspn(model, "\n") : 11, model ? model : "unknown CPU");
    if (f)
        fclose(f);
}

static void print_limits(const struct Limits *l, FILE *out)
{
    double at[FIGURE_COUNT];
    for (BenchFigure f = 0; f < FIGURE_COUNT; f++)
        at[f] = 1e-9 * limits_figure(l, f);
    fprintf(out, "limits   bare loop bf16 %.0f by %s, f32 %.0f GFLOP/s by %s (in registers %.0f, %.0f)\n",
            at[FIGURE_BF16], limits_loop(l, 1), at[FIGURE_F32], limits_loop(l, 0), at[FIGURE_BF16_REGISTERS],
            at[FIGURE_F32_REGISTERS]);
    fprintf(out,
            "         GB/s: read %.0f (L2 %.0f, L3 %.0f), memcpy %.0f, streaming copy %.0f, update %.0f\n",
            at[FIGURE_READ], at[FIGURE_L2], at[FIGURE_L3], at[FIGURE_MEMCPY], at[FIGURE_STREAM],
            at[FIGURE_UPDATE]);
}

void report_machine(const Bench *b, FILE *out)
{
    char date[32];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&now));
    fprintf(out, "machine  ");
    print_model(out);
    fprintf(out, ", L2 of %zu KB; %s, %d thread%s; %s\n", l2_bytes() >> 10, b->isa, b->options.threads,
            b->options.threads > 1 ? "s" : "", date);
    print_limits(b->limits, out);
    peers_print(b, out);
}

void report_head(FILE *out)
{
    fprintf(out, "\n%-28s %10s %18s %15s %14s  %s\n", "case", "ms", "quartiles", "rate", "of the limit",
            "best peer");
}

void report_case(const Case *c, FILE *out)
{
    Verdict v = verdict_of(c);
    fprintf(out, "%-28s %10.4g %8.4g - %-8.4g %7.1f %-7s", c->name, 1e3 * v.seconds,
            1e3 * bench_spread(v.ours).lower, 1e3 * bench_spread(v.ours).upper, 1e-9 * v.rate, v.unit);
    if (c->kind->gain)
        fprintf(out, " gain %.2f of %.2f", v.gain, v.limit_gain);
    else if (v.limit)
        fprintf(out, " %4.0f %% %-7s", 100 * v.share, v.limit->way);
    if (v.peer)
        fprintf(out, "  %5.2f x %s (%s)", v.ratio, v.peer->who, v.peer->way);
    fprintf(out, "%s\n", v.below ? "  BELOW" : "");
    fflush(out);
}

static int print_mean(const Bench *b, const BenchGroup *g, const Kind *k, FILE *out)
{
    double mean = mean_ratio(b, g, k);
    if (mean <= 0 || k->mean <= 0)
        return 0;
    fprintf(out, "%s.*.%s: %.2f times the best peer in the geometric mean, %.2f asked%s\n", g->name, k->name,
            mean, k->mean, mean < k->mean ? "  BELOW" : "");
    return mean < k->mean;
}

void report_end(const Bench *b, FILE *out)
{
    int below = 0;
    fprintf(out, "\n");
    for (const BenchGroup *g = groups; g->name; g++)
        for (const Kind *k = g->kinds; k->name; k++)
            below += print_mean(b, g, k, out);
    for (int i = 0; i < b->ncases; i++)
        below += verdict_of(b->cases[i]).below;
    fprintf(out, "%d cases measured, %d failed, %d figures below what is asked\n", b->ncases, b->failed,
            below);
}
