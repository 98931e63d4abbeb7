/* `moec bench`: how long a kernel takes, beside the limits of this machine and beside another one. Public interface only. */
#include "command/command.h"
#include "moec/moec.h"

#include "base/bind.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_SEED = COMMAND_LAST,
    KEY_THREADS,
    KEY_AGAINST,

    KEY_AGAINST_SCHEDULE,
    KEY_DRAWN,
    KEY_SECONDS,
    KEY_ROUNDS,
    KEY_FORMAT
};

enum { SIDES = 2, LIMITS = 3, RUNNERS = SIDES + LIMITS, ROUNDS_MOST = 2000, THREADS_MOST = 16 };
static const double confidence = 0.95, spin = 0.03; /* seconds that threads of OpenMP wait for more work */

static const struct argp_option bench_options[] = {
    COMMAND_CALL_OPTIONS,
    {"against", KEY_AGAINST, "FILE[:KERNEL]", 0, "Measure this kernel too, in turn, and print the ratio", 0},
    COMMAND_SCHEDULE_OPTION,
    {"against-schedule", KEY_AGAINST_SCHEDULE, "TEXT|FILE", 0,
     "Measure the same kernel with these schedule blocks too, in turn, and print the ratio", 0},
    {"threads", KEY_THREADS, "N,...", 0, "Thread counts; 0: what OpenMP would take; default 1", 0},
    {"seconds", KEY_SECONDS, "S", 0, "Go on for so long with each thread count; default 2", 0},
    {"rounds", KEY_ROUNDS, "N", 0, "And for so many rounds; default 11", 0},
    {"seed", KEY_SEED, "N", 0, "Of the random data; default 1", 0},
    {"schedule-seed", KEY_DRAWN, "N", 0, "Draw every knob that no schedule fixes from its space", 0},
    {"format", KEY_FORMAT, "FORMAT", 0, "text (default) or json", 0},
    {"target", COMMAND_TARGET, "ISA", 0, "Instruction set, as in `moec --target`", 0},
    COMMAND_TYPE_OPTION,
    {NULL, 'O', "LEVEL", 0, "0: no fusion", 0},
    {0}};

typedef struct BenchCommand {
    moec_context *context;
    moec_work works[SIDES];
    moec_options options[SIDES];
    int nsides, threads[THREADS_MOST], nthreads, json;
    const char *against_schedule;
    moec_patience patience;
    CommandCall call, against; /* the second: only what --against says */
    json_t *results;
} BenchCommand;

/* What is measured with one thread count. */
typedef struct BenchRun {
    moec_case *cases[SIDES];
    moec_prediction model;
    moec_limit *limits[LIMITS];
    moec_runner runners[RUNNERS];
    size_t nrunners, limits_at;
    int threads;
} BenchRun;

/* ---- the command line ---- */

static void take_threads(BenchCommand *c, char *arg, struct argp_state *state)
{
    for (char *word; (word = strsep(&arg, ","));) {
        if (c->nthreads == THREADS_MOST)
            argp_error(state, "--threads takes %d numbers at most", THREADS_MOST);
        c->threads[c->nthreads++] = (int)command_number(state, "--threads", word, 0, 4096);
    }
}

static error_t parse_bench(int key, char *arg, struct argp_state *state)
{
    BenchCommand *c = state->input;
    switch (key) {
    case KEY_AGAINST: command_file(arg, &c->against.path, &c->against.kernel); return 0;
    case COMMAND_SCHEDULE: c->options[0].schedule = command_schedule(state, "--schedule", arg); return 0;
    case KEY_AGAINST_SCHEDULE:
        c->against_schedule = command_schedule(state, "--against-schedule", arg);
        return 0;
    case KEY_THREADS: take_threads(c, arg, state); return 0;
    case KEY_SECONDS:
        c->patience.seconds = (double)command_number(state, "--seconds", arg, 0, 3600);
        return 0;
    case KEY_ROUNDS:
        c->patience.fewest = (size_t)command_number(state, "--rounds", arg, 1, ROUNDS_MOST);
        return 0;
    case KEY_SEED:
        c->works[0].seed = (uint64_t)command_number(state, "--seed", arg, 0, 0x7fffffffffffffff);
        return 0;
    case KEY_DRAWN: c->options[0].schedule_seed = command_seed(state, arg); return 0;
    case KEY_FORMAT:
        c->json = strcmp(arg, "json") == 0;
        if (!c->json && strcmp(arg, "text") != 0)
            argp_error(state, "--format takes text or json, not '%s'", arg);
        return 0;
    case COMMAND_TARGET: c->options[0].target = arg; return 0;
    case COMMAND_TYPE: command_type(state, arg, &c->options[0].types); return 0;
    case 'O': c->options[0].no_optimize = command_number(state, "-O", arg, 0, 3) == 0; return 0;
    default: return command_call(key, arg, state, &c->call);
    }
}

/* The second kernel is called like the first, but for what was said of it. */
static void complete(BenchCommand *c)
{
    c->works[0].path = c->call.path;
    c->works[0].kernel = c->call.kernel;
    c->works[0].sizes = c->call.sizes;
    c->works[0].routing = c->call.routing;
    c->works[1] = c->works[0];
    c->options[1] = c->options[0];
    if (c->against.path) {
        c->works[1].path = c->against.path;
        c->nsides = 2;
    }
    if (c->against.kernel)
        c->works[1].kernel = c->against.kernel;
    if (c->against_schedule) {
        c->options[1].schedule = c->against_schedule;
        c->options[1].schedule_seed = 0;
        c->nsides = 2;
    }
    if (!c->nthreads)
        c->threads[c->nthreads++] = 1;
}

/* ---- measuring ---- */

static moec_runner runner_of(moec_timer *time, void *user)
{
    return (moec_runner){.time = time, .user = user, .samples = calloc(ROUNDS_MOST, sizeof(double))};
}

static void add_limit(BenchRun *r, moec_limit_kind kind, double work)
{
    moec_limit *l = work > 0 ? moec_limit_new(kind, moec_case_target(r->cases[0]), work, -r->threads) : NULL;
    r->limits[kind] = l;
    if (l)
        r->runners[r->nrunners++] = runner_of(moec_limit_time, l);
}

/* A kernel that the model cannot run has times, but no rates. */
static void add_limits(BenchCommand *c, BenchRun *r)
{
    r->limits_at = r->nrunners;
    if (moec_predict(c->context, &c->works[0], &c->options[0], &r->model))
        fprintf(stderr, "moec: no rates: %s", moec_error_text(c->context));
    add_limit(r, MOEC_LIMIT_16BIT, r->model.flops_16bit);
    add_limit(r, MOEC_LIMIT_F32, r->model.flops);
    add_limit(r, MOEC_LIMIT_READ, (double)moec_case_read_bytes(r->cases[0]));
}

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "moec: %s: %s\n", what, why);
    return DRIVER_ERROR;
}

/* Everything in turn, threads on cores of their own: a team that waited would begin on one core. */
static int take_turns(BenchCommand *c, BenchRun *r)
{
    cpu_set_t cores;
    const int bound = bind_here(r->threads, &cores);
    c->patience.pause = r->threads == 1 ? 0 : spin;
    int failed = moec_measure(r->runners, r->nrunners, &c->patience);
    if (bound)
        sched_setaffinity(0, sizeof cores, &cores);
    return failed;
}

static int measure(BenchCommand *c, BenchRun *r)
{
    for (int i = 0; i < c->nsides; i++) {
        c->works[i].threads = -r->threads;
        int status = moec_case_new(c->context, &c->works[i], &c->options[i], &r->cases[i]);
        if (status) {
            fputs(moec_error_text(c->context), stderr);
            return status;
        }
        r->runners[r->nrunners++] = runner_of(moec_case_time, r->cases[i]);
        if (moec_case_time(r->cases[i], 1) <
            0) /* before the model is asked, which would refuse the data, too */
            return fail(moec_case_text(r->cases[i]), moec_case_error(r->cases[i]));
    }
    add_limits(c, r);
    int failed = take_turns(c, r);
    if (failed && failed <= c->nsides)
        return fail(moec_case_text(r->cases[failed - 1]), moec_case_error(r->cases[failed - 1]));
    return failed ? fail("limits of this machine", "cannot be measured") : DRIVER_OK;
}

static void free_run(BenchRun *r)
{
    for (size_t i = 0; i < r->nrunners; i++)
        free(r->runners[i].samples);
    for (int i = 0; i < SIDES; i++)
        moec_case_free(r->cases[i]);
    for (int i = 0; i < LIMITS; i++)
        moec_limit_free(r->limits[i]);
}

/* ---- results ---- */

typedef struct BenchShare {
    double arithmetic, memory; /* of the case's time: what its work takes at least; 0: not known */
} BenchShare;

static double median_of(const moec_runner *r) { return moec_spread_of(r->samples, r->rounds).median; }

static BenchShare share_of(const BenchRun *r)
{
    BenchShare s = {0, 0};
    size_t at = r->limits_at;
    double time = median_of(&r->runners[0]);
    for (int i = 0; i < LIMITS; i++)
        if (r->limits[i])
            *(i == MOEC_LIMIT_READ ? &s.memory : &s.arithmetic) += median_of(&r->runners[at++]) / time;
    return s;
}

static void print_side(const BenchRun *r, int side)
{
    moec_spread s = moec_spread_of(r->runners[side].samples, r->runners[side].rounds);
    double flops = r->model.flops_16bit + r->model.flops, bytes = (double)moec_case_bytes(r->cases[side]);
    printf("%s; %s, %d thread%s\n", moec_case_text(r->cases[side]), moec_case_target(r->cases[side]),
           r->threads, r->threads == 1 ? "" : "s");
    printf("  time   %.4g ms, quartiles %.4g to %.4g, %zu rounds\n", 1e3 * s.median, 1e3 * s.lower,
           1e3 * s.upper, r->runners[side].rounds);
    if (side || flops <= 0)
        return;
    BenchShare share = share_of(r);
    printf("  rate   %.1f GFLOP/s, %.2f GB/s of parameters\n", 1e-9 * flops / s.median,
           1e-9 * bytes / s.median);
    printf("  limit  %.0f %% of the time is needed for arithmetic, %.0f %% to read so many bytes\n",
           100 * share.arithmetic, 100 * share.memory);
    printf("  model  %.4g ms\n", 1e3 * r->model.seconds);
}

static void print_run(const BenchCommand *c, const BenchRun *r)
{
    for (int i = 0; i < c->nsides; i++)
        print_side(r, i);
    if (c->nsides == 1)
        return;
    const moec_runner *a = &r->runners[0], *b = &r->runners[1];
    moec_ratio ratio = moec_compare(b->samples, a->samples, b->rounds, confidence);
    printf("  ratio  the second takes %.3f times as long: %.3f to %.3f with %.0f %% confidence, so %s\n",
           ratio.ratio, ratio.low, ratio.high, 100 * confidence,
           ratio.low > 1    ? "the first is faster"
           : ratio.high < 1 ? "the second is faster"
                            : "neither is faster");
}

static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *side_value(const BenchRun *r, int side)
{
    const moec_runner *a = &r->runners[side];
    moec_spread s = moec_spread_of(a->samples, a->rounds);
    json_t *samples = json_array();
    for (size_t i = 0; i < a->rounds; i++)
        json_array_append_new(samples, real(a->samples[i]));
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:o}", "case", moec_case_text(r->cases[side]), "target",
                     moec_case_target(r->cases[side]), "median", real(s.median), "lower_quartile",
                     real(s.lower), "upper_quartile", real(s.upper), "bytes",
                     (json_int_t)moec_case_bytes(r->cases[side]), "samples", samples);
}

/* Seconds, flops, bytes. */
static void keep_run(BenchCommand *c, const BenchRun *r)
{
    json_t *sides = json_array();
    for (int i = 0; i < c->nsides; i++)
        json_array_append_new(sides, side_value(r, i));
    BenchShare share = share_of(r);
    json_t *v = json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "threads", r->threads, "measured", sides,
                          "flops_16bit", real(r->model.flops_16bit), "flops", real(r->model.flops),
                          "predicted", real(r->model.seconds), "arithmetic_share", real(share.arithmetic),
                          "memory_share", real(share.memory));
    if (c->nsides == 2) {
        moec_ratio ratio =
            moec_compare(r->runners[1].samples, r->runners[0].samples, r->runners[0].rounds, confidence);
        json_object_set_new(v, "ratio",
                            json_pack("{s:o, s:o, s:o, s:f}", "low", real(ratio.low), "median",
                                      real(ratio.ratio), "high", real(ratio.high), "confidence", confidence));
    }
    json_array_append_new(c->results, v);
}

static int bench_threads(BenchCommand *c, int threads)
{
    BenchRun r = {.threads = threads};
    int status = measure(c, &r);
    if (!status && c->json)
        keep_run(c, &r);
    else if (!status)
        print_run(c, &r);
    fflush(stdout);
    free_run(&r);
    return status;
}

static int bench_all(BenchCommand *c)
{
    int status = DRIVER_OK;
    for (int i = 0; i < c->nthreads && !status; i++)
        status = bench_threads(c, c->threads[i]);
    if (c->json && !status) {
        json_dumpf(c->results, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        printf("\n");
    }
    return status;
}

int command_bench(int argc, char **argv)
{
    static const struct argp argp = {
        .options = bench_options,
        .parser = parse_bench,
        .args_doc = "FILE.moe [KERNEL] SIZE=N ... [routing=CLAUSE]",
        .doc = "Measures a kernel on random data: median and quartiles over rounds, in which it, the limits "
               "of this "
               "machine and what it is compared with take turns.",
    };
    BenchCommand c = {.context = moec_context_new(),
                      .works = {{.seed = 1}},
                      .nsides = 1,
                      .patience = {.fewest = 11, .most = ROUNDS_MOST, .seconds = 2},
                      .results = json_array()};
    cli_parse(&argp, argc, argv, &c);
    complete(&c);
    int status = bench_all(&c);
    moec_context_free(c.context);
    json_decref(c.results);
    return status;
}
