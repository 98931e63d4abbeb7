/* Results for programs (JSON, CSV) and for documents (Markdown). */
#include "bench/limits.h"
#include "bench/peers.h"

#include <errno.h>
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

static void runner_json(const BenchRunner *r, FILE *out)
{
    fprintf(out, "{\"who\": \"%s\", \"way\": \"%s\", \"threads\": %d, \"first\": %.9g, \"seconds\": [",
            r->who, r->way, r->threads, r->first);
    for (int i = 0; i < r->rounds; i++)
        fprintf(out, "%s%.9g", i ? ", " : "", r->samples[i]);
    fprintf(out, "]}");
}

static void case_json(const Case *c, FILE *out)
{
    Verdict v = verdict_of(c);
    fprintf(out,
            "{\"case\": \"%s\", \"isa\": \"%s\", \"threads\": %d, \"flops\": %.9g, \"bytes\": %.9g, "
            "\"workspace\": %.9g, ",
            c->name, c->isa, c->threads, c->flops, c->bytes, c->workspace);
    fprintf(out, "\"median\": %.9g, \"limit\": \"%s\", \"share\": %.4g, \"peer\": \"%s\", \"ratio\": %.4g, ",
            v.seconds, v.limit ? v.limit->way : "", v.share, v.peer ? v.peer->who : "", v.ratio);
    fprintf(out, "\"gain\": %.4g, \"limit_gain\": %.4g, \"below\": %s,\n \"runners\": [", v.gain,
            v.limit_gain, v.below ? "true" : "false");
    for (int i = 0; i < c->nrunners; i++) {
        fprintf(out, "%s\n  ", i ? "," : "");
        runner_json(&c->runners[i], out);
    }
    fprintf(out, "]}");
}

static void write_json(const Bench *b, FILE *out)
{
    fprintf(out, "{\"isa\": \"%s\", \"threads\": %d, \"failed\": %d, \"cases\": [", b->isa,
            b->options.threads, b->failed);
    for (int i = 0; i < b->ncases; i++) {
        fprintf(out, "%s\n", i ? "," : "");
        case_json(b->cases[i], out);
    }
    fprintf(out, "]}\n");
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
