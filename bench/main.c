/* moe-bench: see bench.h for the flow, README.md for how to read what it prints. */
#include "bench/limits.h"
#include "bench/ours.h"
#include "bench/peers.h"

#include <argp.h>
#include <fnmatch.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "moe-bench " MOEC_VERSION;

enum {
    KEY_CASE = 0x100,
    KEY_THREADS,
    KEY_ISA,
    KEY_RUNS,
    KEY_TIME,
    KEY_QUICK,
    KEY_NO_PEERS,
    KEY_LIST,
    KEY_CSV,
    KEY_JSON,
    KEY_MARKDOWN
};

static const struct argp_option options[] = {
    {"case", KEY_CASE, "PATTERN,...", 0,
     "only these: a group, a shape, or a pattern of names as of the shell ('*.dw')", 0},
    {"list", KEY_LIST, 0, 0, "names the cases and ends", 0},
    {"threads", KEY_THREADS, "N", 0, "of our kernels, the peers and the limits (1)", 0},
    {"isa", KEY_ISA, "NAME", 0,
     "instruction set of our kernels and the limits (the choice of moec, and the limits of this core)", 0},
    {"quick", KEY_QUICK, 0, 0, "small cases only, few rounds", 0},
    {"runs", KEY_RUNS, "N", 0, "rounds of a case at least (7)", 0},
    {"min-time", KEY_TIME, "SECONDS", 0, "rounds of a case together at least (1)", 0},
    {"no-peers", KEY_NO_PEERS, 0, 0, "only our kernels and the limits", 0},
    {"csv", KEY_CSV, "FILE", 0, "also a line for each runner", 0},
    {"json", KEY_JSON, "FILE", 0, "also all that was measured", 0},
    {"markdown", KEY_MARKDOWN, "FILE", 0, "also tables for documents", 0},
    {0},
};

static double number(struct argp_state *s, const char *option, const char *text, double least, double most)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= least && v <= most))
        argp_error(s, "--%s takes a number from %g to %g, not '%s'", option, least, most, text);
    return v;
}

static error_t parse_option(int key, char *arg, struct argp_state *s)
{
    Options *o = s->input;
    switch (key) {
    case KEY_CASE: o->cases = arg; return 0;
    case KEY_LIST: o->list = true; return 0;
    case KEY_THREADS: o->threads = (int)number(s, "threads", arg, 1, 1024); return 0;
    case KEY_ISA: o->isa = arg; return 0;
    case KEY_QUICK: o->quick = true; return 0;
    case KEY_RUNS: o->runs = (int)number(s, "runs", arg, 1, 1000); return 0;
    case KEY_TIME: o->min_time = number(s, "min-time", arg, 0, 1e6); return 0;
    case KEY_NO_PEERS: o->peers = false; return 0;
    case KEY_CSV: o->csv = arg; return 0;
    case KEY_JSON: o->json = arg; return 0;
    case KEY_MARKDOWN: o->markdown = arg; return 0;
    case ARGP_KEY_ARG: argp_error(s, "'%s' is not an option; cases are chosen with --case", arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- cases ---- */

/* A case is chosen by its group, its shape, or a pattern of its whole name. */
static bool chosen(const char *patterns, const BenchGroup *g, const BenchShape *s, const char *name)
{
    if (!patterns)
        return true;
    char *copy = strdup(patterns), *rest = copy;
    bool found = false;
    for (char *p; copy && (p = strsep(&rest, ","));)
        found = found || !strcmp(p, g->name) || !strcmp(p, s->name) || !fnmatch(p, name, 0);
    free(copy);
    return found;
}

typedef int EachCase(Bench *b, const BenchGroup *g, const BenchShape *s, const Kind *k, const char *name);

static void each_case(Bench *b, EachCase *do_it)
{
    for (const BenchGroup *g = groups; g->name; g++)
        for (const BenchShape *s = g->shapes; s->name; s++)
            for (const Kind *k = g->kinds; k->name; k++) {
                char name[64];
                snprintf(name, sizeof name, "%s.%s.%s", g->name, s->name, k->name);
                if (chosen(b->options.cases, g, s, name) && (s->quick || !b->options.quick))
                    b->failed += do_it(b, g, s, k, name);
            }
}

static int count_case(Bench *b, const BenchGroup *g, const BenchShape *s, const Kind *k, const char *name)
{
    (void)g, (void)s, (void)k, (void)name;
    b->ncases++;
    return 0;
}

static int list_case(Bench *b, const BenchGroup *g, const BenchShape *s, const Kind *k, const char *name)
{
    (void)b, (void)s;
    printf("%-28s %s; %s\n", name, g->about, k->about);
    return 0;
}

static int count_cases(Bench *b)
{
    each_case(b, count_case);
    int n = b->ncases;
    b->ncases = 0;
    return n;
}

static int run(Bench *b)
{
    b->compiler = moec_context_new();
    b->isa = b->compiler ? ours_isa(b) : NULL;
    if (!b->isa)
        return 1;
    omp_set_num_threads(b->options.threads);
    b->cases = memory_get(&b->memory, (size_t)count_cases(b) * sizeof(Case *));
    b->limits = limits_new(b);
    peers_begin(&b->options);
    report_machine(b, stdout);
    report_head(stdout);
    each_case(b, case_run);
    report_end(b, stdout);
    int bad = export(b) || b->failed;
    peers_end();
    return bad;
}

static void finish(Bench *b)
{
    limits_free(b->limits);
    ours_free(b);
    if (b->compiler)
        moec_context_free(b->compiler);
    memory_free(&b->memory);
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse_option,
        NULL,
        "Measures moec's kernels beside the limits of this machine and, when they are installed, beside "
        "oneDNN, OpenBLAS "
        "and PyTorch, all in one run; checks their results on the way.\v"
        "Ends with 1 when a result is wrong. bench/README.md says how to read what is printed.",
        NULL,
        NULL,
        NULL,
    };
    Bench b = {.options = {.threads = 1, .runs = 0, .min_time = -1, .peers = true, .command = argv}};
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &b.options);
    if (b.options.runs == 0)
        b.options.runs = b.options.quick ? 3 : 7;
    if (b.options.min_time < 0)
        b.options.min_time = b.options.quick ? 0.1 : 1;
    if (b.options.list) {
        each_case(&b, list_case);
        return 0;
    }
    if (!count_cases(&b)) {
        fprintf(stderr, "moe-bench: there is no such case; --list names them\n");
        return 1;
    }
    int bad = run(&b);
    finish(&b);
    return bad;
}
