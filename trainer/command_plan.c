/* moe-train plan: what a model is and what a step of it needs, on paper. Nothing of its size is allocated. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "model/model.h"
#include "step/memory.h"
#include "step/text.h"
#include "trainer/command.h"
#include "trainer/complain.h"
#include "trainer/plan.h"

enum {
    KEY_MODEL = 0x100,
    KEY_SEQUENCE,
    KEY_SEQUENCES,
    KEY_MICRO,
    KEY_F32,
    KEY_THREADS,
    KEY_EMIT,
    KEY_MAP,
    KEY_BYTES,
    KEY_MEASURE,
    KEY_MEMORY,
    KEY_FOLDER,
    KEY_RANKS,
    KEY_TP,
    KEY_EP,
    KEY_DP,
    KEY_NODE,
    KEY_ROWS,
    KEY_PASS
};

static const struct argp_option options[] = {
    {"model", KEY_MODEL, "FILE", 0, "a Hugging Face config.json, or its folder", 0},
    {"sequence", KEY_SEQUENCE, "N", 0,
     "positions of a sequence, at most the model's (4096, or the model's where these are fewer)", 0},
    {"sequences", KEY_SEQUENCES, "N", 0, "sequences of a micro-batch (1)", 0},
    {"micro-batches", KEY_MICRO, "N", 0, "micro-batches of a step (1)", 0},
    {"ranks", KEY_RANKS, "N", 0,
     "ranks that share the step (1): all of them are verified, and what one sends is counted", 0},
    {"tp", KEY_TP, "N", 0, "tensor parallel: ranks that share heads and columns (1)", 0},
    {"ep", KEY_EP, "N", 0, "expert parallel: tp x ep ranks share the experts (1)", 0},
    {"dp", KEY_DP, "N", 0, "data parallel: ranks with micro-batches of their own (ranks / tp)", 0},
    {"ranks-per-node", KEY_NODE, "N", 0, "ranks that share a node (all)", 0},
    {"row-factor", KEY_ROWS, "X", 0,
     "room for rows of other ranks, as a multiple of the mean; 0 (default): for all that may come", 0},
    {"f32", KEY_F32, 0, 0, "activations and weights in f32, not bf16", 0},
    {"emit", KEY_EMIT, "step", 0, "print the program of a step instead", 0},
    {"map", KEY_MAP, "FILE", 0, "write the map of its memory, address by task, as HTML", 0},
    {"bytes", KEY_BYTES, "FILE", 0, "write the bytes alive during each task, as CSV", 0},
    {"measure", KEY_MEASURE, 0, 0,
     "run a few steps with few of the layers here, and print what each choice of a module costs and saves",
     0},
    {"memory", KEY_MEMORY, "BYTES", 0,
     "choose modules, with measured prices, so that a step takes at most 4G, 500M ...", 0},
    {"swap-folder", KEY_FOLDER, "DIR", 0,
     "where the swap file lies when it is measured (TMPDIR, or /var/tmp)", 0},
    {"threads", KEY_THREADS, "N", 0, "threads of a kernel that is measured; 0: what OpenMP would take", 0},
#define PASS(name, doc) {#name, KEY_PASS + PASS_##name, "MODULES", 0, doc ": mla:0-3,swiglu or all", 0},
#include "step/passes.def"
    {0},
};

/* "4G", "1.5G", "500M", "64K", bytes; -1: none of them. */
static int64_t bytes_of(const char *text)
{
    static const char units[] = "KMGT";
    char *end;
    double n = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit)
        n *= (double)(1LL << (10 * (unit - units + 1)));
    return end == text || (*end && (!unit || end[1])) || !(n >= 1 && n < 0x1p60) ? -1 : (int64_t)n;
}

static error_t parse_option(int key, char *arg, struct argp_state *s)
{
    PlanOptions *o = s->input;
    switch (key) {
    case KEY_MODEL: o->model = arg; return 0;
    case KEY_SEQUENCE: o->sequence = option_number(s, "sequence", arg, 1, 1 << 24); return 0;
    case KEY_SEQUENCES: o->sequences = option_number(s, "sequences", arg, 1, 1 << 24); return 0;
    case KEY_MICRO: o->micro_batches = option_number(s, "micro-batches", arg, 1, 1 << 24); return 0;
    case KEY_THREADS: o->threads = option_number(s, "threads", arg, 0, 4096); return 0;
    case KEY_RANKS: o->ranks = option_number(s, "ranks", arg, 1, 1 << 20); return 0;
    case KEY_TP: o->asked.tp = option_number(s, "tp", arg, 1, 1 << 20); return 0;
    case KEY_EP: o->asked.ep = option_number(s, "ep", arg, 1, 1 << 20); return 0;
    case KEY_DP: o->asked.dp = option_number(s, "dp", arg, 1, 1 << 20); return 0;
    case KEY_NODE: o->asked.per_node = option_number(s, "ranks-per-node", arg, 1, 1 << 20); return 0;
    case KEY_ROWS:
        o->row_factor = option_real(s, "row-factor", arg, 0, 1e6);
        if (row_factor_rule(o->row_factor))
            argp_error(s, "%s", row_factor_rule(o->row_factor));
        return 0;
    case KEY_F32: o->f32 = 1; return 0;
    case KEY_MAP: o->map = arg; return 0;
    case KEY_FOLDER: o->swap_folder = arg; return 0;
    case KEY_BYTES: o->bytes = arg; return 0;
    case KEY_MEASURE: o->measure = 1; return 0;
    case KEY_MEMORY:
        o->memory = bytes_of(arg), o->measure = 1;
        if (o->memory < 0)
            argp_error(s, "--memory takes bytes, as 4G or 500M, not `%s`", arg);
        return 0;
    case KEY_EMIT:
        if (strcmp(arg, "step"))
            argp_error(s, "--emit takes `step`, not `%s`", arg);
        o->emit = 1;
        return 0;
#define PASS(name, doc)                \
    case KEY_PASS + PASS_##name:       \
        o->choices[PASS_##name] = arg; \
        return 0;
#include "step/passes.def"
    case ARGP_KEY_ARG: argp_error(s, "`%s` is not an option", arg); return 0;
    case ARGP_KEY_END:
        if (!o->model)
            argp_error(s, "--model is missing");
        if (o->ranks > 1 && o->measure)
            argp_error(s, "--measure and --memory run the steps of one rank, not of %lld",
                       (long long)o->ranks);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

Program *plan_record(Session *s, const PlanOptions *o)
{
    Recording r = session_record(s, "train", 1, o->sequences, o->sequence);
    r.recipe.balanced = 1, r.recipe.row_factor = o->row_factor;
    recipe_step(&r.recipe, (int)o->micro_batches);
    return session_finish(s, &r);
}

/* MiB of a rank's process beside what a step needs, its list of tasks, the text of --data and a checkpoint that is written: the
 * compiler, its code, MPI. Measured: docs/training.md. */
enum { PROGRAM_MIB = 155 };

static const char *bytes_text(Arena *a, int64_t bytes) { return model_bytes_text(a, (double)bytes); }

static void print_resident(const Program *p)
{
    const int64_t touched = memory_touched(p), exchanges = comm_memory(p);
    const int64_t program = ((int64_t)PROGRAM_MIB << 20) + (int64_t)arena_bytes(p->arena);
    int64_t sum = touched + exchanges + program;
    for (Owner owner = 0; owner < OWNER_COUNT; owner++)
        sum += owner_persists[owner] ? memory_owned(p, owner) : 0;
    printf("  %-12s %14s in each rank: %s of the arena are touched; exchanges take %s, the program %s\n",
           "resident", bytes_text(p->arena, sum), bytes_text(p->arena, touched),
           bytes_text(p->arena, exchanges), bytes_text(p->arena, program));
}

static void print_memory(const Program *p)
{
    const MemoryPeak peak = memory_peak(p);
    printf("\nprogram of a step: %u tasks on %u buffers\n", p->tasks.len, p->buffers.len);
    for (Owner owner = 0; owner < OWNER_COUNT; owner++)
        if (owner_persists[owner])
            printf("  %-12s %14s\n", owner_names[owner], bytes_text(p->arena, memory_owned(p, owner)));
    printf("  %-12s %14s, the largest sum of live buffers %s (task %u, layer %d)\n", "arena",
           bytes_text(p->arena, p->arena_bytes), bytes_text(p->arena, peak.bytes), peak.task,
           p->tasks.at[peak.task].layer);
    print_resident(p);
    if (p->disk_bytes)
        printf("  %-12s %14s\n", "swap file", bytes_text(p->arena, p->disk_bytes));
}

/* What stands on paper has no clock. */
static void print_no_time(const Program *p)
{
    printf("  %-12s not planned: %s\n", "time",
           p->members[AXIS_tp] > 1 || p->members[AXIS_dp] > 1
               ? "no network is modelled, and --measure runs the steps of one rank"
               : "--measure takes it from a few of the layers, which run here");
}

static void print_less(Arena *a, const char *what, int64_t before, int64_t after)
{
    printf("  %s: %s of %s (%.1f %% less)\n", what, bytes_text(a, after), bytes_text(a, before),
           before ? 100 - 100 * (double)after / (double)before : 0);
}

/* What the passes of this plan give, against the program without them. */
static void print_passes(const Program *recorded, const Program *p, const PlanOptions *o,
                         const Prices *prices)
{
    const PlanCost before = plan_cost(recorded, prices), after = plan_cost(p, prices);
    printf("\npasses:");
    for (StepPass pass = 0; pass < PASS_COUNT; pass++)
        if (o->choices[pass])
            printf(" --%s %s", pass_names[pass], o->choices[pass]);
    printf("\n");
    print_less(p->arena, "largest sum of live buffers", before.peak, after.peak);
    print_less(p->arena, "  of it without work space, at most", before.kept, after.kept);
    if (prices)
        printf("  time of a step: %.1f ms, without passes %.1f ms (%.1f %% more)\n", 1e3 * after.seconds,
               1e3 * before.seconds, 100 * (after.seconds / before.seconds - 1));
}

static int write_map(const Program *p, const char *path)
{
    Text html = {.arena = p->arena};
    memory_map(p, &html);
    FILE *f = fopen(path, "w");
    if (f && fwrite(text_string(&html), 1, html.len, f) == html.len && !fclose(f))
        return 0;
    return complain("--map %s: %s", path, strerror(errno));
}

static int has_passes(const PlanOptions *o)
{
    for (StepPass pass = 0; pass < PASS_COUNT; pass++)
        if (o->choices[pass])
            return 1;
    return 0;
}

static void print_tables(Session *s, const Program *recorded, const Program *p, const PlanOptions *o,
                         const Prices *prices)
{
    static const char *const none[PASS_COUNT];
    const Program *plain = plan_passes(s, s->arena, recorded, none);
    print_memory(p);
    if (!prices)
        print_no_time(p);
    if (prices && !o->memory)
        plan_print_choices(s, recorded, prices);
    if (plain && has_passes(o))
        print_passes(plain, p, o, prices);
    if (prices || has_passes(o))
        plan_print_bytes(p);
}

static int plan(Session *s, PlanOptions *o)
{
    Prices noted = {.arena = s->arena}, *prices = o->measure ? &noted : NULL;
    const Program *recorded = plan_record(s, o);
    if (!recorded || session_compile(s) || (prices && plan_measure(&s->model, o, recorded, prices)) ||
        (o->memory && plan_choose(s, recorded, prices, o)))
        return 1;
    Program *p = plan_passes(s, s->arena, recorded, o->choices);
    if (!p || session_place(s, p))
        return 1;
    Text t = {.arena = s->arena};
    if (o->emit)
        step_print(p, &t);
    else
        model_count_print(&s->model, o->sequence, &t);
    fputs(text_string(&t), stdout);
    if (!o->emit)
        print_tables(s, recorded, p, o, prices);
    return (!o->emit && s->ranks.number > 1 && plan_print_ranks(s, p)) || (o->map && write_map(p, o->map)) ||
           (o->bytes && plan_write_bytes(p, prices, o->bytes));
}

static int plan_model(Arena *a, PlanOptions *o)
{
    ModelConfig model;
    Ranks ranks;
    Session s;
    if (command_model(a, o->model, &model))
        return 1;
    if (!o->sequence)
        o->sequence = model.positions < 4096 ? model.positions : 4096;
    const char *rule = sequence_rule(o->sequence, &model);
    if (rule) {
        complain("%s", rule);
        return CLI_USAGE;
    }
    if (plan_ranks(a, o, &ranks))
        return 1;
    int bad = session_open(&s, &model, o->f32 ? MOEC_F32 : MOEC_BF16, 0, 0);
    if (!bad)
        session_share(&s, &ranks, 0);
    bad = bad || plan(&s, o);
    session_close(&s);
    return bad;
}

int command_plan(int argc, char **argv)
{
    static const struct argp argp = {options,
                                     parse_option,
                                     0,
                                     "Counts parameters, operations and bytes of a model, and plans the "
                                     "memory of a step without allocating it. The time of a step is measured "
                                     "(--measure), not planned.",
                                     0,
                                     0,
                                     0};
    PlanOptions o = {.sequences = 1, .micro_batches = 1, .ranks = 1};
    cli_parse(&argp, argc, argv, &o);
    Arena *a = arena_new();
    const int bad = a ? plan_model(a, &o) : 1;
    arena_free(a);
    return bad;
}
