/* `moec tune`: looks for a faster schedule of a kernel. */
#include "command/command.h"
#include "tuner/tuner.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_SIZES = COMMAND_LAST,
    KEY_ROUTING,
    KEY_BUDGET,
    KEY_BY,
    KEY_KEEP_BITS,
    KEY_THREADS,
    KEY_STRATEGY,
    KEY_SEED,
    KEY_LIST,
    KEY_DB,
    KEY_NO_DB
};

static const struct argp_option tune_options[] = {
    {"sizes", KEY_SIZES, "T=2048,...", 0, "Sizes of dimensions; may be given several times", 0},
    {"routing", KEY_ROUTING, "CLAUSE,...", 0,
     "How rows fall to groups, each a case of its own: uniform, zipf(1.2), zipf(1.2)+empty(40%), file:COUNTS",
     0},
    {"budget", KEY_BUDGET, "60s", 0, "Time for all cases together: 90s, 10m, 2h; default 60s", 0},
    {"by", KEY_BY, "time|npu:NAME", 0, "Judge by the clock (default), or by the model of a machine", 0},
    {"keep-bits", KEY_KEEP_BITS, NULL, 0, "Only schedules that change no bit of a result", 0},
    {"threads", KEY_THREADS, "N,...", 0, "Thread counts, each a case of its own; default 1", 0},
    {"strategy", KEY_STRATEGY, "NAME", 0, "halving (default), random, exhaustive, evolutionary, model", 0},
    {"seed", KEY_SEED, "N", 0, "Of data and of what is drawn; default 1", 0},
    {"list-space", KEY_LIST, NULL, 0, "Only print what could be tried, and why some of it is not", 0},
    {"db", KEY_DB, "FILE", 0, "Where records are kept; default: $MOE_TUNED, or beside the compile cache", 0},
    {"no-db", KEY_NO_DB, NULL, 0, "Keep no records", 0},
    {"target", COMMAND_TARGET, "ISA", 0, "Instruction set, as in `moec --target`", 0},
    COMMAND_TYPE_OPTION,
    {0}};

typedef struct TuneCommand {
    TuneOptions options;
    CommandCall call; /* sizes given as arguments are one case more */
} TuneCommand;

/* ---- the command line ---- */

static double seconds_of(struct argp_state *state, const char *text)
{
    char *end;
    double seconds = strtod(text, &end);
    const char *unit = strchr("smh", *end) ? end : NULL;
    if (end == text || !unit || (*end && end[1]) || !(seconds > 0 && seconds < 1e6))
        argp_error(state, "--budget takes a time as 90s, 10m or 2h, not '%s'", text);
    return seconds * (*end == 'm' ? 60 : *end == 'h' ? 3600 : 1);
}

/* Words with commas between them, but for those inside ( ). */
static char *next_word(char **at)
{
    char *word = *at;
    int depth = 0;
    if (!word)
        return NULL;
    for (; **at && (**at != ',' || depth); ++*at)
        depth += (**at == '(') - (**at == ')');
    if (**at)
        *(*at)++ = '\0';
    else
        *at = NULL;
    return word;
}

static void take_routings(TuneOptions *o, char *arg, struct argp_state *state)
{
    for (char *word; (word = next_word(&arg));) {
        if (o->nroutings == TUNE_CASES)
            argp_error(state, "--routing takes %d at most", TUNE_CASES);
        o->routings[o->nroutings++] = word;
    }
}

static void take_threads(TuneOptions *o, char *arg, struct argp_state *state)
{
    for (char *word; (word = next_word(&arg));) {
        if (o->nthreads == TUNE_CASES)
            argp_error(state, "--threads takes %d at most", TUNE_CASES);
        o->threads[o->nthreads++] = (int)command_number(state, "--threads", word, 1, 4096);
    }
}

static void take_sizes(TuneOptions *o, const char *arg, struct argp_state *state)
{
    if (o->nsizes == TUNE_CASES)
        argp_error(state, "--sizes may be given %d times at most", TUNE_CASES);
    o->sizes[o->nsizes++] = arg;
}

static void take_judge(TuneOptions *o, const char *arg, struct argp_state *state)
{
    static const char npu[] = "npu:";
    if (strncmp(arg, npu, strlen(npu)) == 0)
        o->machine = arg + strlen(npu);
    else if (strcmp(arg, "time") != 0)
        argp_error(state, "--by takes time or npu:NAME, not '%s'", arg);
}

static void complete(TuneCommand *c, struct argp_state *state)
{
    TuneOptions *o = &c->options;
    o->work.path = c->call.path;
    o->work.kernel = c->call.kernel;
    if (c->call.sizes)
        take_sizes(o, c->call.sizes, state);
    if (o->records && o->no_records)
        argp_error(state, "--db and --no-db are not for one command");
    command_target(state, o->options.target, o->machine);
    if (!o->nsizes && !o->list_space)
        argp_error(state, "no sizes: T=2048 ...");
    o->nsizes += !o->nsizes;
    o->nroutings += !o->nroutings;
    if (!o->nthreads)
        o->threads[o->nthreads++] = 1;
}

static error_t parse_tune(int key, char *arg, struct argp_state *state)
{
    static const char routing[] = "routing=";
    TuneCommand *c = state->input;
    TuneOptions *o = &c->options;
    switch (key) {
    case KEY_SIZES: take_sizes(o, arg, state); return 0;
    case KEY_ROUTING: take_routings(o, arg, state); return 0;
    case KEY_BUDGET: o->budget = seconds_of(state, arg); return 0;
    case KEY_BY: take_judge(o, arg, state); return 0;
    case KEY_KEEP_BITS: o->keep_bits = 1; return 0;
    case KEY_THREADS: take_threads(o, arg, state); return 0;
    case KEY_STRATEGY:
        if (!strategy_find(arg))
            argp_error(state, "--strategy: '%s' is none; `moec tune --help` lists them", arg);
        o->strategy = arg;
        return 0;
    case KEY_SEED:
        o->seed = o->work.seed = (uint64_t)command_number(state, "--seed", arg, 0, 0x7fffffffffffffff);
        return 0;
    case KEY_DB: o->records = arg; return 0;
    case KEY_NO_DB: o->no_records = 1; return 0;
    case KEY_LIST: o->list_space = 1; return 0;
    case COMMAND_TARGET: o->options.target = arg; return 0;
    case COMMAND_TYPE: command_type(state, arg, &o->options.types); return 0;
    case ARGP_KEY_ARG:
        if (strncmp(arg, routing, strlen(routing)) != 0)
            return command_call(key, arg, state, &c->call);
        take_routings(o, arg + strlen(routing), state);
        return 0;
    case ARGP_KEY_END: {
        error_t error = command_call(key, arg, state, &c->call);
        complete(c, state);
        return error;
    }
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_tune(int argc, char **argv)
{
    static const struct argp argp = {
        .options = tune_options,
        .parser = parse_tune,
        .args_doc = "FILE.moe [KERNEL] SIZE=N ... [routing=CLAUSE,...]",
        .doc = "Looks for a schedule that makes a kernel faster than the compiler's own choices: at these "
               "sizes and "
               "routings, beside the default all the time. Says so when there is none.",
    };
    TuneCommand c = {.options = {.work = {.seed = 1},
                                 .seed = 1,
                                 .budget = 60,
                                 .strategy = "halving",
                                 .progress = isatty(STDERR_FILENO)}};
    cli_parse(&argp, argc, argv, &c);
    c.options.stop =
        command_stop("\nmoec: the best so far once more beside the default; Ctrl-C again ends at once\n");
    return tune(&c.options, stdout) ? DRIVER_ERROR : DRIVER_OK;
}
