/* moe-train plan: what a model is and what a step of it needs, on paper. Nothing of its size is allocated. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "step/memory.h"
#include "step/text.h"
#include "step/verify.h"
#include "trainer/command.h"

typedef struct PlanOptions {
    const char *model, *map;
    const char *choices[PASS_COUNT];
    int64_t sequence, sequences, micro_batches;
    int f32, emit;
} PlanOptions;

enum { KEY_MODEL = 0x100, KEY_SEQUENCE, KEY_SEQUENCES, KEY_MICRO, KEY_F32, KEY_EMIT, KEY_MAP, KEY_PASS };

static const struct argp_option options[] = {
    {"model", KEY_MODEL, "FILE", 0, "a Hugging Face config.json, or its folder", 0},
    {"sequence", KEY_SEQUENCE, "N", 0, "positions of a sequence (4096, at most the model's)", 0},
    {"sequences", KEY_SEQUENCES, "N", 0, "sequences of a micro-batch (1)", 0},
    {"micro-batches", KEY_MICRO, "N", 0, "micro-batches of a step (1)", 0},
    {"f32", KEY_F32, 0, 0, "activations and weights in f32, not bf16", 0},
    {"emit", KEY_EMIT, "step", 0, "print the program of a step instead", 0},
    {"map", KEY_MAP, "FILE", 0, "write the map of its memory, address by task, as HTML", 0},
#define PASS(name, doc) {#name, KEY_PASS + PASS_##name, "MODULES", 0, doc, 0},
#include "step/passes.def"
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *s)
{
    PlanOptions *o = s->input;
    switch (key) {
    case KEY_MODEL: o->model = arg; return 0;
    case KEY_SEQUENCE: o->sequence = option_number(s, "sequence", arg, 1, 1 << 24); return 0;
    case KEY_SEQUENCES: o->sequences = option_number(s, "sequences", arg, 1, 1 << 24); return 0;
    case KEY_MICRO: o->micro_batches = option_number(s, "micro-batches", arg, 1, 1 << 24); return 0;
    case KEY_F32: o->f32 = 1; return 0;
    case KEY_MAP: o->map = arg; return 0;
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
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static Program *record_step(Session *s, const PlanOptions *o)
{
    Recording r = session_record(s, "train", 1, o->sequences, o->sequence);
    r.recipe.balanced = 1;
    recipe_step(&r.recipe, (int)o->micro_batches);
    Program *p = session_finish(s, &r);
    return p && !session_passes(p, o->choices) ? p : NULL;
}

static void print_memory(const Program *p)
{
    const MemoryPeak peak = memory_peak(p);
    printf("\nprogram of a step: %u tasks on %u buffers\n", p->tasks.len, p->buffers.len);
    for (Owner owner = 0; owner < OWNER_COUNT; owner++)
        if (owner_persists[owner])
            printf("  %-12s %12.1f MiB\n", owner_names[owner], (double)memory_owned(p, owner) / 0x1p20);
    printf("  %-12s %12.1f MiB, the largest sum of live buffers %.1f MiB (task %u, layer %d)\n", "arena",
           (double)p->arena_bytes / 0x1p20, (double)peak.bytes / 0x1p20, peak.task,
           p->tasks.at[peak.task].layer);
}

static int write_map(const Program *p, const char *path)
{
    Text html = {.arena = p->arena};
    memory_map(p, &html);
    FILE *f = fopen(path, "w");
    if (f && fwrite(text_string(&html), 1, html.len, f) == html.len && !fclose(f))
        return 0;
    fprintf(stderr, "moe-train: --map %s: %s\n", path, strerror(errno));
    return 1;
}

static int plan(Session *s, const PlanOptions *o)
{
    Program *p = record_step(s, o);
    if (!p || session_compile(s) || session_place(s, p))
        return 1;
    Text t = {.arena = s->arena};
    if (o->emit)
        step_print(p, &t);
    else
        model_count_print(&s->model, o->sequence, &t);
    fputs(text_string(&t), stdout);
    if (!o->emit)
        print_memory(p);
    return o->map ? write_map(p, o->map) : 0;
}

int command_plan(int argc, char **argv)
{
    static const struct argp argp = {
        options, parse_option, 0, "Counts a model and plans the memory of a step, without either.", 0, 0, 0};
    PlanOptions o = {.sequences = 1, .micro_batches = 1};
    cli_parse(&argp, argc, argv, &o);
    Arena *a = arena_new();
    ModelConfig model;
    if (!a || command_model(a, o.model, &model))
        return 1;
    if (!o.sequence)
        o.sequence = model.positions < 4096 ? model.positions : 4096;
    Session s;
    const int bad = session_open(&s, &model, o.f32 ? MOEC_F32 : MOEC_BF16, 0, 0) || plan(&s, &o);
    session_close(&s);
    arena_free(a);
    return bad;
}
