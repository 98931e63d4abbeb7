/* moe-train analyse: what the experts of a trained model do on domains of text. */
#include <argp.h>
#include <string.h>

#include "trainer/analysis.h"
#include "trainer/command.h"
#include "trainer/complain.h"
#include "trainer/kept.h"
#include "trainer/data.h"

typedef struct AnalyseOptions {
    const char *model, *out, *draw;
    int64_t sequences, sequence;
    int f32, threads;
    Analysis analysis; /* its domains */
} AnalyseOptions;

enum {
    KEY_MODEL = 0x100,
    KEY_DOMAIN,
    KEY_SEQUENCES,
    KEY_SEQUENCE,
    KEY_OUT,
    KEY_DRAW,
    KEY_F32,
    KEY_THREADS,
    MOST_TOKENS = 2048 /* of a batch */
};

static const struct argp_option options[] = {
    {"model", KEY_MODEL, "DIR", 0, "config.json and safetensors, such as a checkpoint", 0},
    {"domain", KEY_DOMAIN, "NAME=PATH", 0,
     "text or tokens, as --data of training; may be repeated, and is to be compared with others", 0},
    {"sequences", KEY_SEQUENCES, "N", 0, "sequences of each domain, spread over it (32)", 0},
    {"sequence", KEY_SEQUENCE, "N", 0, "positions of a sequence (256, at most the model's)", 0},
    {"out", KEY_OUT, "DIR", 0, "write shares.csv, pairs.csv, strengths.csv and layers.csv into this folder",
     0},
    {"draw", KEY_DRAW, "svg|png", 0, "and experts.svg or .png, by gnuplot", 0},
    {"f32", KEY_F32, 0, 0, "activations and weights in f32, not bf16", 0},
    {"threads", KEY_THREADS, "N", 0, "threads of a kernel; 0 (default): what OpenMP would take", 0},
    {0},
};

static void add_domain(AnalyseOptions *o, struct argp_state *s, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1] || strcspn(text, ",\"\n") < (size_t)(equals - text))
        argp_error(s, "--domain takes NAME=PATH, a name without commas, not `%s`", text);
    Arena *a = o->analysis.arena;
    const char *name = arena_strndup(a, text, (size_t)(equals - text));
    for (uint32_t i = 0; i < o->analysis.domains.len; i++)
        if (strcmp(o->analysis.domains.at[i].name, name) == 0)
            argp_error(s, "there are two domains `%s`", name);
    vec_push(a, &o->analysis.domains, (AnalysisDomain){.name = name, .path = equals + 1});
}

static error_t parse_option(int key, char *arg, struct argp_state *s)
{
    AnalyseOptions *o = s->input;
    switch (key) {
    case KEY_MODEL: o->model = arg; return 0;
    case KEY_DOMAIN: add_domain(o, s, arg); return 0;
    case KEY_SEQUENCES: o->sequences = option_number(s, "sequences", arg, 1, 1 << 24); return 0;
    case KEY_SEQUENCE: o->sequence = option_number(s, "sequence", arg, 2, 65536); return 0;
    case KEY_OUT: o->out = arg; return 0;
    case KEY_DRAW:
        if (strcmp(arg, "svg") && strcmp(arg, "png"))
            argp_error(s, "--draw takes `svg` or `png`, not `%s`", arg);
        o->draw = arg;
        return 0;
    case KEY_F32: o->f32 = 1; return 0;
    case KEY_THREADS: o->threads = (int)option_number(s, "threads", arg, 0, 4096); return 0;
    case ARGP_KEY_ARG: argp_error(s, "`%s` is not an option", arg); return 0;
    case ARGP_KEY_END:
        if (!o->model || !o->analysis.domains.len)
            argp_error(s, "--model and at least one --domain are needed");
        if (o->draw && !o->out)
            argp_error(s, "--draw needs the folder of --out");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- batches ---- */

typedef struct DomainReader {
    TrainData data;
    Config config;
    int64_t each, next; /* sequences of a batch; the first of the next one */
} DomainReader;

static int next_batch(void *reader, void *const *buffers, const int64_t *bytes, uint32_t n)
{
    DomainReader *r = reader;
    float *weights = buffers[2];
    (void)n;
    for (int64_t i = 0; i < bytes[2] / (int64_t)sizeof *weights; i++)
        weights[i] = 1;
    r->next += r->each;
    return batch_train(&r->data, &r->config, r->next - r->each, r->each, buffers[0], buffers[1]);
}

/* ---- the run ---- */

static int analyse_domain(Analysis *a, AnalysisDomain *d, const Session *s, Run *run, DomainReader *r,
                          int64_t sequences)
{
    r->config.data.len = 0, r->next = 0;
    vec_push(a->arena, &r->config.data, d->path);
    if (data_read(&r->data, &r->config))
        return complain("domain %s cannot be analysed", d->name);
    int bad = 0;
    while (!bad && r->next < sequences) {
        bad = session_run(run);
        if (!bad)
            analysis_add(a, d, s, r->each * r->config.sequence);
    }
    data_free(&r->data);
    return bad;
}

static int analyse(Session *s, AnalyseOptions *o, DomainReader *r)
{
    Recording recording = session_record(s, "analyse", 0, r->each, o->sequence);
    recording.recipe.watched = 1;
    recipe_evaluation(&recording.recipe, 1);
    Program *p = session_finish(s, &recording), *forms = p ? session_record_setup(s, o->sequence) : NULL;
    if (!forms || session_compile(s))
        return 1;
    Run *prepare = session_start(s, forms, (BatchSource){0}), *run = NULL;
    int bad = !prepare || !(run = session_start(s, p, (BatchSource){next_batch, r})) ||
              command_weights(s, o->model, kept_slices(s->arena, s, KEPT_MASTERS)) || session_run(prepare);
    for (uint32_t i = 0; i < o->analysis.domains.len && !bad; i++)
        bad = analyse_domain(&o->analysis, &o->analysis.domains.at[i], s, run, r, o->sequences);
    run_free(prepare);
    run_free(run);
    return bad;
}

static int write_results(const AnalyseOptions *o)
{
    analysis_print(&o->analysis);
    return (o->out && analysis_write(&o->analysis, o->out)) ||
           (o->draw && analysis_draw(&o->analysis, o->out, o->draw));
}

static int run_model(AnalyseOptions *o, const ModelConfig *model)
{
    DomainReader r = {.config = config_default()};
    Session s;
    if (!o->sequence)
        o->sequence = model->positions < 256 ? model->positions : 256;
    const char *rule = sequence_rule(o->sequence, model);
    if (rule)
        return complain("%s", rule);
    r.each = o->sequence < MOST_TOKENS ? MOST_TOKENS / o->sequence : 1;
    r.each = r.each < o->sequences ? r.each : o->sequences;
    r.config.sequence = o->sequence, r.config.model_config = *model;
    analysis_begin(&o->analysis, model);
    if (!o->analysis.nlayers)
        return complain("%s: the model has no experts", o->model);
    const int bad =
        session_open(&s, model, o->f32 ? MOEC_F32 : MOEC_BF16, o->threads, 0) || analyse(&s, o, &r);
    session_close(&s);
    config_free(&r.config);
    return bad || write_results(o);
}

int command_analyse(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse_option,
        0,
        "Counts what the experts of a model do: load, specialisation by domain, pairs, routed and shared "
        "part.\v"
        "For each layer: the load of the most loaded expert and the deviation of the loads, over the mean "
        "load; front bias, the mean number of a chosen "
        "expert over that of an even choice, less 1; specialisation, how far the domains' shares are from "
        "those of all, from 0 to "
        "1; the two experts that tokens choose together most often; and the routed part of the experts' "
        "result, by norms.",
        0,
        0,
        0};
    AnalyseOptions o = {.sequences = 32, .analysis = {.arena = arena_new()}};
    ModelConfig model;
    if (!o.analysis.arena)
        return complain("out of memory");
    cli_parse(&argp, argc, argv, &o);
    const int bad = command_model(o.analysis.arena, o.model, &model) || run_model(&o, &model);
    arena_free(o.analysis.arena);
    return bad;
}
