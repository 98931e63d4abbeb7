/* moe-bench: see bench.h for the flow, README.md for how to read what it prints. */
#include "bench/limits.h"
#include "bench/ours.h"
#include "bench/peers.h"

#include <argp.h>
#include <errno.h>
#include <fnmatch.h>
#include <omp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *argp_program_version = "moe-bench " MOEC_VERSION;

enum { KEY_CASE = 0x100, KEY_THREADS, KEY_ISA, KEY_RUNS, KEY_TIME, KEY_QUICK, KEY_NO_PEERS, KEY_LIST };

static const struct argp_option options[] = {
    {"case", KEY_CASE, "PATTERN,...", 0,
     "only these: a group, a shape, or a pattern of names as of the shell (A.*)", 0},
    {"list", KEY_LIST, 0, 0, "names the cases and ends", 0},
    {"threads", KEY_THREADS, "N", 0, "of our kernels, the peers and the limits (1)", 0},
    {"isa", KEY_ISA, "NAME", 0, "instruction set of our kernels and the limits (the best of this CPU)", 0},
    {"quick", KEY_QUICK, 0, 0, "small cases only, few rounds", 0},
    {"runs", KEY_RUNS, "N", 0, "rounds of a case at least (7)", 0},
    {"min-time", KEY_TIME, "SECONDS", 0, "rounds of a case together at least (1)", 0},
    {"no-peers", KEY_NO_PEERS, 0, 0, "only our kernels and the limits", 0},
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
    case ARGP_KEY_ARG: argp_error(s, "'%s' is not an option; cases are chosen with --case", arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- cases ---- */

void case_runner(Case *c, const char *who, const char *way, TimeCalls *time, void *self)
{
    if (c->nrunners == MAX_RUNNERS)
        abort();
    c->runners[c->nrunners++] = (Runner){.who = who, .way = way, .time = time, .self = self};
}

int case_failed(Case *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "moe-bench: %s: ", c->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    return 1;
}

typedef struct LimitRunner {
    Limits *limits;
    Limit limit;
    int threads;
    double share; /* the case's flops or bytes, of those of a run */
} LimitRunner;

/* As if the limit did the work of the case. */
static double limit_time(void *self, int calls)
{
    LimitRunner *r = self;
    double seconds = 0;
    for (int i = 0; i < calls; i++)
        seconds += limit_seconds(r->limits, r->limit, r->threads) * r->share;
    return seconds;
}

/* Its place among the runners, or -1: the limit is not known. */
static int add_limit(Case *c, Limits *l, Limit limit, double work)
{
    static const char *const names[] = {"", "f32", "bf16", "read", "copy", "update"};
    int threads = c->bench->options.threads;
    double of_run = limit_work(l, limit, threads);
    if (of_run <= 0 || work <= 0)
        return -1;
    LimitRunner *r = memory_get(&c->memory, sizeof *r);
    *r = (LimitRunner){l, limit, threads, work / of_run};
    case_runner(c, "limit", names[limit], limit_time, r);
    return c->nrunners - 1;
}

static int run_case(Bench *b, Limits *l, const Group *g, const Shape *s, const Kind *k, const char *name)
{
    Case c = {.bench = b,
              .group = g,
              .wanted = k->wanted,
              .wanted_share = k->wanted_share,
              .limit_compute = -1,
              .limit_traffic = -1};
    snprintf(c.name, sizeof c.name, "%s", name);
    SIZE(c.sizes, 'E') = s->E;
    SIZE(c.sizes, 'T') = s->T;
    SIZE(c.sizes, 'K') = s->K;
    SIZE(c.sizes, 'H') = s->H;
    SIZE(c.sizes, 'F') = s->F;
    int bad = k->make(&c, s, k);
    if (!bad) {
        c.limit_compute = add_limit(&c, l, c.compute, c.flops);
        c.limit_traffic = add_limit(&c, l, c.traffic, c.bytes);
        bad = measure(&c);
    }
    if (!bad)
        report_case(&c, stdout);
    fflush(stdout);
    memory_free(&c.memory);
    return bad;
}

/* A case is chosen by its group, its shape, or a pattern of its whole name. */
static bool chosen(const char *patterns, const Group *g, const Shape *s, const char *name)
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

typedef int EachCase(Bench *b, Limits *l, const Group *g, const Shape *s, const Kind *k, const char *name);

static void each_case(Bench *b, Limits *l, EachCase *do_it)
{
    for (int i = 0; groups[i]; i++)
        for (const Shape *s = groups[i]->shapes; s->name; s++)
            for (const Kind *k = groups[i]->kinds; k->name; k++) {
                char name[64];
                snprintf(name, sizeof name, "%s.%s.%s", groups[i]->name, s->name, k->name);
                if (!chosen(b->options.cases, groups[i], s, name) || (b->options.quick && !s->quick))
                    continue;
                b->cases++;
                b->failed += do_it(b, l, groups[i], s, k, name);
            }
}

static int list_case(Bench *b, Limits *l, const Group *g, const Shape *s, const Kind *k, const char *name)
{
    (void)b, (void)l, (void)s;
    printf("%-28s %s; %s\n", name, g->about, k->about);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse_option,
        NULL,
        "Measures moec's kernels beside the limits of this machine and, when they are installed, "
        "beside oneDNN, OpenBLAS and PyTorch, all in one run; checks their results on the way.\v"
        "bench/README.md says how to read what is printed.",
        NULL,
        NULL,
        NULL};
    Bench b = {.options = {.threads = 1, .runs = 0, .min_time = -1, .peers = true}};
    argp_parse(&argp, argc, argv, 0, NULL, &b.options);
    if (b.options.runs == 0)
        b.options.runs = b.options.quick ? 3 : 7;
    if (b.options.min_time < 0)
        b.options.min_time = b.options.quick ? 0.1 : 1;
    if (b.options.list) {
        each_case(&b, NULL, list_case);
        return 0;
    }
    b.compiler = moec_context_new();
    b.isa = b.compiler ? ours_isa(&b) : NULL;
    if (!b.isa)
        return 1;
    omp_set_num_threads(b.options.threads);
    Limits *l = limits_new(b.isa, b.options.threads);
    printf("isa     %s, threads %d\n", b.isa, b.options.threads);
    peers_begin(&b, stdout);
    report_head(stdout);
    each_case(&b, l, run_case);
    limits_free(l);
    ours_free(&b);
    peers_end();
    moec_context_free(b.compiler);
    if (!b.cases)
        fprintf(stderr, "moe-bench: no such case; --list names them\n");
    return b.failed || !b.cases;
}
