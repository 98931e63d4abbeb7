/* Results for programs (JSON, CSV) and for documents (Markdown). */
#include "bench/limits.h"
#include "bench/peers.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

static void runner_csv(const Case *c, const BenchRunner *r, FILE *out)
{
    fprintf(out, "%s,%s,\"%s\",%d,%d,%.9g,%.9g,%.9g,%.9g,%.9g\n", c->name, r->who, r->way, r->threads,
            r->rounds, bench_spread(r).median, bench_spread(r).lower, bench_spread(r).upper,
            bench_spread(r).least, bench_spread(r).most);
}

static void write_csv(const Bench *b, FILE *out)
{
    fprintf(out, "case,who,way,threads,rounds,median,lower_quartile,upper_quartile,min,max\n");
    for (int i = 0; i < b->ncases; i++)
        for (int j = 0; j < b->cases[i]->nrunners; j++)
            if (b->cases[i]->runners[j].measured)
                runner_csv(b->cases[i], &b->cases[i]->runners[j], out);
}

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *runner_json(const BenchRunner *r)
{
    json_t *samples = json_array();
    for (int i = 0; i < r->rounds; i++)
        json_array_append_new(samples, number(r->samples[i]));
    return json_pack("{s:s, s:s, s:i, s:o, s:o}", "who", r->who, "way", r->way, "threads", r->threads,
                     "first", number(r->first), "seconds", samples);
}

static json_t *case_json(const Case *c)
{
    Verdict v = verdict_of(c);
    json_t *runners = json_array();
    for (int i = 0; i < c->nrunners; i++)
        json_array_append_new(runners, runner_json(&c->runners[i]));
    return json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:s, s:o, s:s, s:o, s:o, s:o, s:b, s:o}", "case",
                     c->name, "isa", c->isa, "threads", c->threads, "flops", number(c->flops), "bytes",
                     number(c->bytes), "workspace", number(c->workspace), "median", number(v.seconds),
                     "limit", v.limit ? v.limit->way : "", "share", number(v.share), "peer",
                     v.peer ? v.peer->who : "", "ratio", number(v.ratio), "gain", number(v.gain),
                     "limit_gain", number(v.limit_gain), "below", v.below, "runners", runners);
}

static void write_json(const Bench *b, FILE *out)
{
    json_t *cases = json_array();
    for (int i = 0; i < b->ncases; i++)
        json_array_append_new(cases, case_json(b->cases[i]));
    json_t *all = json_pack("{s:s, s:i, s:i, s:o}", "isa", b->isa, "threads", b->options.threads, "failed",
                            b->failed, "cases", cases);
    if (!all || json_dumpf(all, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) || fputs("\n", out) == EOF)
        fprintf(stderr, "moe-bench: the results cannot be written as JSON\n");
    json_decref(all);
}

/* ---- Markdown: a table for each group ---- */

static void row_markdown(const Case *c, FILE *out)
{
    Verdict v = verdict_of(c);
    fprintf(out, "| %s | %.4g | %.4g %s | ", c->name + strlen(c->group->name) + 1, 1e3 * v.seconds,
            1e-9 * v.rate, v.unit);
    if (c->kind->gain)
        fprintf(out, "gain %.2f of %.2f | ", v.gain, v.limit_gain);
    else if (v.limit)
        fprintf(out, "%.0f %% %s | ", 100 * v.share, v.limit->way);
    else
        fprintf(out, "| ");
    if (v.peer)
        fprintf(out, "%.2f x %s (%s)", v.ratio, v.peer->who, v.peer->way);
    fprintf(out, " | %s |\n", v.below ? "below" : "");
}

static void group_markdown(const Bench *b, const BenchGroup *g, FILE *out)
{
    int rows = 0;
    for (int i = 0; i < b->ncases; i++) {
        if (b->cases[i]->group != g)
            continue;
        if (!rows++)
            fprintf(out,
                    "\n### %s: %s\n\n| case | ms | rate | of the limit | best peer | asked "
                    "|\n|---|---|---|---|---|---|\n",
                    g->name, g->about);
        row_markdown(b->cases[i], out);
    }
}

static void write_markdown(const Bench *b, FILE *out)
{
    fprintf(out, "```text\n$");
    for (char **word = b->options.command; *word; word++)
        fprintf(out, " %s", *word);
    fprintf(out, "\n");
    report_machine(b, out);
    fprintf(out, "```\n");
    for (const BenchGroup *g = groups; g->name; g++)
        group_markdown(b, g, out);
    fprintf(out, "\n```text");
    report_end(b, out);
    fprintf(out, "```\n");
}

static int write_to(const Bench *b, const char *path, void (*write)(const Bench *, FILE *))
{
    if (!path)
        return 0;
    FILE *f = fopen(path, "w");
    if (f)
        write(b, f);
    int failed = !f || ferror(f);
    if ((f && fclose(f)) || failed) {
        fprintf(stderr, "moe-bench: %s: %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}

int export(const Bench *b)
{
    int failed = write_to(b, b->options.csv, write_csv);
    failed |= write_to(b, b->options.json, write_json);
    return failed | write_to(b, b->options.markdown, write_markdown);
}
