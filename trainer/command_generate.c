/* moe-train generate: tokens that continue given ones, or text. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/command.h"
#include "trainer/complain.h"
#include "trainer/kept.h"
#include "trainer/generate.h"

typedef struct GenerateOptions {
    const char *model, *ids, *prompt;
    int64_t length, seed;
    double temperature, timeout;
    int f32, threads;
    RanksAsked asked;
} GenerateOptions;

enum {
    KEY_MODEL = 0x100,
    KEY_IDS,
    KEY_PROMPT,
    KEY_LENGTH,
    KEY_GREEDY,
    KEY_TEMPERATURE,
    KEY_SEED,
    KEY_F32,
    KEY_THREADS,
    KEY_TP,
    KEY_EP,
    KEY_TIMEOUT
};

static const struct argp_option options[] = {
    {"model", KEY_MODEL, "DIR", 0, "config.json and safetensors, as Hugging Face writes them", 0},
    {"prompt", KEY_PROMPT, "TEXT", 0,
     "text to continue, by a model whose vocabulary is the 256 bytes; then text is printed", 0},
    {"ids", KEY_IDS, "1,2,3", 0, "tokens to continue; then tokens are printed", 0},
    {"length", KEY_LENGTH, "N", 0, "tokens to add (24)", 0},
    {"greedy", KEY_GREEDY, 0, 0, "take the most probable token each time (default)", 0},
    {"temperature", KEY_TEMPERATURE, "X", 0, "draw tokens instead, at this temperature", 0},
    {"seed", KEY_SEED, "N", 0, "of the draws (1)", 0},
    {"f32", KEY_F32, 0, 0, "activations and weights in f32, not bf16", 0},
    {"threads", KEY_THREADS, "N", 0, "threads of a kernel; 0 (default): what OpenMP would take", 0},
    {"tp", KEY_TP, "N", 0, "tensor parallel: ranks that share heads and columns (1)", 0},
    {"ep", KEY_EP, "N", 0, "expert parallel: tp x ep ranks share the experts (1)", 0},
    {"comm-timeout", KEY_TIMEOUT, "SECONDS", 0, "how long a rank waits for another one (300)", 0},
    {0},
};

static const char *broken_rule(const GenerateOptions *o)
{
    if (!o->model || (!o->ids && !o->prompt))
        return "--model is needed, and --prompt or --ids";
    if (o->ids && o->prompt)
        return "--prompt and --ids are two beginnings: one of them is continued";
    if (o->prompt && !*o->prompt)
        return "--prompt must not be empty";
    return NULL;
}

static error_t parse_option(int key, char *arg, struct argp_state *s)
{
    GenerateOptions *o = s->input;
    switch (key) {
    case KEY_MODEL: o->model = arg; return 0;
    case KEY_IDS: o->ids = arg; return 0;
    case KEY_PROMPT: o->prompt = arg; return 0;
    case KEY_LENGTH: o->length = option_number(s, "length", arg, 1, 1 << 20); return 0;
    case KEY_GREEDY: o->temperature = 0; return 0;
    case KEY_SEED: o->seed = option_number(s, "seed", arg, 0, INT64_MAX); return 0;
    case KEY_F32: o->f32 = 1; return 0;
    case KEY_THREADS: o->threads = (int)option_number(s, "threads", arg, 0, 4096); return 0;
    case KEY_TP: o->asked.tp = option_number(s, "tp", arg, 1, 1 << 20); return 0;
    case KEY_EP: o->asked.ep = option_number(s, "ep", arg, 1, 1 << 20); return 0;
    case KEY_TIMEOUT: o->timeout = (double)option_number(s, "comm-timeout", arg, 1, 1 << 20); return 0;
    case KEY_TEMPERATURE: o->temperature = option_real(s, "temperature", arg, 0.01, 100); return 0;
    case ARGP_KEY_ARG: argp_error(s, "`%s` is not an option", arg); return 0;
    case ARGP_KEY_END:
        if (broken_rule(o))
            argp_error(s, "%s", broken_rule(o));
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int64_t refuse_length(const GenerateOptions *o, const ModelConfig *model)
{
    complain("--%s and --length %lld are more tokens than max_position_embeddings of --model, %lld",
             o->prompt ? "prompt" : "ids", (long long)o->length, (long long)model->positions);
    return -1;
}

static int64_t read_text(const GenerateOptions *o, const ModelConfig *model, int32_t *ids)
{
    enum { BYTES = 256 };
    const int64_t n = (int64_t)strlen(o->prompt);
    if (model->vocab != BYTES) {
        complain("--prompt: the vocabulary of --model has %lld tokens and is not the %d bytes of text: give "
                 "tokens with --ids",
                 (long long)model->vocab, BYTES);
        return -1;
    }
    if (n > model->positions - o->length)
        return refuse_length(o, model);
    text_tokens(o->prompt, ids);
    return n;
}

static int64_t read_ids(const GenerateOptions *o, const ModelConfig *model, int32_t *ids)
{
    const int64_t room = model->positions - o->length;
    int64_t n = 0;
    for (const char *p = o->ids; n < room;) {
        char *end;
        errno = 0;
        const long long id = strtoll(p, &end, 10);
        if (errno || end == p || id < 0 || id >= model->vocab || (*end && *end != ',')) {
            complain("--ids %s: token %lld must be a whole number from 0 to %lld", o->ids, (long long)n,
                     (long long)model->vocab - 1);
            return -1;
        }
        ids[n++] = (int32_t)id;
        if (!*end)
            return n;
        p = end + 1;
    }
    return refuse_length(o, model);
}

/* What is to be continued; behind it is room for what follows. Returns its length, or -1 with a message printed. */
static int64_t read_prompt(const GenerateOptions *o, const ModelConfig *model, int32_t *ids)
{
    return o->prompt ? read_text(o, model, ids) : read_ids(o, model, ids);
}

static void print_result(const GenerateOptions *o, const int32_t *ids, int64_t prompt, int64_t n)
{
    if (!o->prompt) {
        generator_print_ids(ids, n);
        return;
    }
    fputs(o->prompt, stdout);
    for (int64_t i = prompt; i < n; i++)
        text_print(ids[i]);
    putchar('\n');
}

static int generate(Session *s, Comm *comm, const GenerateOptions *o, int32_t *ids, int64_t prompt)
{
    Generator g = {0};
    Program *forms = session_record_setup(s, s->ranks.members[AXIS_tp]); /* of any positions */
    Run *prepare = NULL;
    const int64_t n = prompt + o->length;
    int bad = !forms || generator_record(&g, s, comm, prompt, n, o->temperature, (uint64_t)o->seed) ||
              session_compile(s) || !(prepare = session_start(s, forms, (BatchSource){0})) ||
              generator_start(&g) || command_weights(s, o->model, kept_slices(s->arena, s, KEPT_MASTERS)) ||
              session_run(prepare) || generator_prompt(&g, ids, &ids[prompt]);
    for (int64_t i = prompt + 1; !bad && i < n; i++)
        bad = generator_step(&g, ids[i - 1], &ids[i]);
    if (!bad && !s->rank)
        print_result(o, ids, prompt, n);
    run_free(prepare);
    generator_free(&g);
    return bad;
}

static int run(const ModelConfig *model, Comm *comm, const GenerateOptions *o, int32_t *ids, int64_t prompt)
{
    Session s;
    int bad = session_open(&s, model, o->f32 ? MOEC_F32 : MOEC_BF16, o->threads, 0);
    if (!bad) {
        session_share(&s, comm_ranks(comm), comm_rank(comm));
        s.run.door = comm_door(comm);
        bad = generate(&s, comm, o, ids, prompt);
    }
    session_close(&s);
    return bad;
}

static Comm *join(Arena *a, const GenerateOptions *o)
{
    const char *error;
    Comm *comm = comm_open(a, &(CommOptions){.asked = o->asked, .timeout = o->timeout}, &error);
    if (comm)
        complain_as(comm_rank(comm));
    else
        complain_alike("%s", error);
    return comm;
}

int command_generate(int argc, char **argv)
{
    static const struct argp argp = {
        options, parse_option, 0, "Continues text or a sequence of tokens.", 0, 0, 0};
    GenerateOptions o = {.length = 24, .seed = 1, .timeout = 300};
    cli_parse(&argp, argc, argv, &o);
    Arena *a = arena_new();
    ModelConfig model;
    if (!a || command_model(a, o.model, &model))
        return 1;
    int32_t *ids = arena_array(a, int32_t, model.positions);
    const int64_t prompt = read_prompt(&o, &model, ids);
    Comm *comm = prompt < 0 ? NULL : join(a, &o);
    const int bad = !comm || run(&model, comm, &o, ids, prompt);
    comm_close(comm, bad);
    arena_free(a);
    return bad;
}
