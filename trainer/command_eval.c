/* moe-train eval: the loss of a model on given tokens, and on request its gradients; eval_data.c has that on --data. */
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "trainer/command.h"
#include "trainer/complain.h"
#include "trainer/eval.h"
#include "trainer/kept.h"

/* The tokens of a file: each sequence has one more than its positions. */
typedef struct EvalTokens {
    const int32_t *ids; /* [sequences, positions + 1] */
    int64_t sequences, positions;
    int64_t each; /* sequences of a micro-batch */
    int64_t next; /* the first sequence of the next one */
} EvalTokens;

enum {
    KEY_MODEL = 0x100,
    KEY_TOKENS,
    KEY_DATA,
    KEY_SEQUENCE,
    KEY_VALIDATION,
    KEY_LIMIT,
    KEY_GRADIENTS,
    KEY_LOGITS,
    KEY_WHOLE,
    KEY_F32,
    KEY_THREADS,
    MOST_TOKENS = 8192 /* of a micro-batch */
};

static const struct argp_option options[] = {
    {"model", KEY_MODEL, "DIR", 0, "config.json and safetensors, as Hugging Face writes them", 0},
    {"data", KEY_DATA, "PATH", 0,
     "a file or folder of text, or PREFIX of files of tokens, as --data of training; may be repeated", 0},
    {"sequence", KEY_SEQUENCE, "N", 0,
     "positions of a window of --data (those of the run that saved the model, else 4096; at most the "
     "model's)",
     0},
    {"validation", KEY_VALIDATION, "X", 0,
     "only what training with this share keeps for validation; 0 (default): all of --data", 0},
    {"data-limit", KEY_LIMIT, "MIB", 0, "read at most so much text (64)", 0},
    {"tokens", KEY_TOKENS, "FILE", 0,
     "instead of --data: safetensors with `ids`, I32 [sequences, positions + 1]", 0},
    {"gradients", KEY_GRADIENTS, "FILE", 0,
     "write the gradients of the loss as safetensors, under the weights' names", 0},
    {"logits", KEY_LOGITS, "FILE", 0,
     "write `logits`, F32 [sequences, positions, vocabulary], as safetensors", 0},
    {"whole-loss", KEY_WHOLE, 0, 0,
     "the loss that training goes down: with the balance and z losses and multi-token prediction, as the "
     "config weighs them",
     0},
    {"f32", KEY_F32, 0, 0, "activations and weights in f32, not bf16", 0},
    {"threads", KEY_THREADS, "N", 0, "threads of a kernel; 0 (default): what OpenMP would take", 0},
    {0},
};

static const char *broken_rule(const EvalOptions *o)
{
    if (!o->model || (!o->tokens && !o->data.len))
        return "--model is needed, and --data or --tokens";
    if (o->tokens && o->data.len)
        return "--data and --tokens are two sources: one of them is evaluated";
    if (o->data.len && (o->gradients || o->logits || o->whole))
        return "--gradients, --logits and --whole-loss are of the sequences of --tokens, not of --data";
    if (o->tokens && (o->sequence || o->validation > 0 || o->data_limit > 0))
        return "--sequence, --validation and --data-limit have no effect without --data";
    if (o->logits && o->gradients && strcmp(o->logits, o->gradients) == 0)
        return "--logits and --gradients are one file";
    return NULL;
}

static error_t parse_option(int key, char *arg, struct argp_state *s)
{
    EvalOptions *o = s->input;
    switch (key) {
    case KEY_MODEL: o->model = arg; return 0;
    case KEY_TOKENS: o->tokens = arg; return 0;
    case KEY_DATA: vec_push(o->arena, &o->data, arg); return 0;
    case KEY_SEQUENCE: o->sequence = option_number(s, "sequence", arg, 2, 65536); return 0;
    case KEY_VALIDATION: o->validation = option_real(s, "validation", arg, 0, 0.9); return 0;
    case KEY_LIMIT: o->data_limit = option_real(s, "data-limit", arg, 0.001, 1e6); return 0;
    case KEY_GRADIENTS: o->gradients = arg; return 0;
    case KEY_LOGITS: o->logits = arg; return 0;
    case KEY_WHOLE: o->whole = 1; return 0;
    case KEY_F32: o->f32 = 1; return 0;
    case KEY_THREADS: o->threads = (int)option_number(s, "threads", arg, 0, 4096); return 0;
    case ARGP_KEY_ARG: argp_error(s, "`%s` is not an option", arg); return 0;
    case ARGP_KEY_END:
        if (broken_rule(o))
            argp_error(s, "%s", broken_rule(o));
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Copies `ids`, so that the file can be closed. */
static int read_tokens(Arena *a, const char *path, const ModelConfig *model, EvalTokens *out)
{
    SafeTensors file;
    const char *error = safetensors_open(a, path, &file);
    if (error)
        error =
            arena_printf(a,
                         "--tokens %s; it takes safetensors with `ids`, I32 [sequences, positions + 1]: text "
                         "and files of tokens are given with --data",
                         error);
    const StoredTensor *t = error ? NULL : safetensors_find(&file, "ids");
    if (!error && (!t || t->type != STORED_I32 || t->rank != 2 || t->shape[0] < 1 || t->shape[1] < 2))
        error = arena_printf(
            a, "%s: needs a tensor `ids`, I32 [sequences, positions + 1] with both at least 1", path);
    if (!error && t->shape[1] - 1 > model->positions)
        error =
            arena_printf(a, "%s: sequences of %lld positions, and max_position_embeddings of --model is %lld",
                         path, (long long)t->shape[1] - 1, (long long)model->positions);
    if (!error) {
        int32_t *ids = arena_alloc(a, t->bytes);
        memcpy(ids, t->at, t->bytes);
        *out = (EvalTokens){.ids = ids, .sequences = t->shape[0], .positions = t->shape[1] - 1};
        for (int64_t i = 0; i < stored_elements(t) && !error; i++)
            if (ids[i] < 0 || ids[i] >= model->vocab)
                error = arena_printf(a, "%s: ids[%lld, %lld] is %d: must be from 0 to %lld", path,
                                     (long long)(i / t->shape[1]), (long long)(i % t->shape[1]), ids[i],
                                     (long long)model->vocab - 1);
    }
    safetensors_close(&file);
    return error ? complain("%s", error) : 0;
}

static int next_batch(void *tokens, void *const *buffers, const int64_t *bytes, uint32_t n)
{
    EvalTokens *t = tokens;
    int32_t *ids = buffers[0], *targets = buffers[1];
    float *weights = buffers[2];
    (void)bytes, (void)n;
    for (int64_t b = 0; b < t->each; b++, t->next++)
        for (int64_t i = 0; i < t->positions; i++) {
            const int32_t *at = t->ids + t->next * (t->positions + 1) + i;
            *ids++ = at[0], *targets++ = at[1], *weights++ = 1;
        }
    return 0;
}

/* The most sequences that divide all of them and have few enough tokens. */
static int64_t micro_batch(const EvalTokens *t)
{
    int64_t each = t->sequences;
    while (each > 1 && (t->sequences % each || each * t->positions > MOST_TOKENS))
        each--;
    return each;
}

static int write_gradients(Session *s, Run *run, const char *path)
{
    const float **values = arena_array(s->arena, const float *, s->weights.len + 1);
    for (uint32_t i = 0; i < s->weights.len; i++)
        values[i] = run_at(run, arena_printf(s->arena, "gradient.%s", s->weights.at[i].name));
    const char *error = model_weights_write(s->arena, path, &s->model, &s->weights, values, STORED_F32);
    return error ? complain("%s", error) : 0;
}

static int write_logits(Session *s, const EvalTokens *t, const char *path)
{
    const StoredTensor all = {.name = "logits",
                              .type = STORED_F32,
                              .rank = 3,
                              .shape = {t->sequences, t->positions, s->model.vocab}};
    SafeWriter w = safetensors_create(s->arena, path, &all, 1);
    for (int64_t i = 0; i < t->sequences / t->each; i++)
        safetensors_append(&w, session_at(s, "logits.m%lld", (long long)i),
                           (size_t)(t->each * t->positions * s->model.vocab) * sizeof(float));
    const char *error = safetensors_commit(&w);
    return error ? complain("%s", error) : 0;
}

/* ---- the answer ---- */

/* The mean over the micro-batches of what each layer tells of itself; NAN where it tells nothing. */
static double part_of(const Session *s, const char *name, int64_t layer, int64_t micro_batches)
{
    double sum = 0;
    for (int64_t i = 0; i < micro_batches; i++) {
        const float *at = session_at(s, "%s.L%lld.m%lld", name, (long long)layer, (long long)i);
        sum += at ? *at : NAN;
    }
    return sum / (double)micro_batches;
}

/* Of each layer that has it, into the answer. Returns their sum. */
static double add_part(json_t *answer, const Session *s, const char *name, int64_t micro_batches)
{
    double sum = 0;
    json_t *values = json_array();
    for (int64_t l = 0; l < s->model.layers + s->model.mtp; l++) {
        const double value = part_of(s, name, l, micro_batches);
        if (isnan(value))
            continue;
        json_array_append_new(values, json_number(value));
        sum += value;
    }
    json_object_set_new(answer, name, values);
    return sum;
}

static double add_parts(json_t *answer, const Session *s, int64_t n)
{
    const ModelConfig *c = &s->model;
    double sum = c->aux_coeff * add_part(answer, s, "balance", n) + c->z_coeff * add_part(answer, s, "z", n);
    sum += c->mtp_coeff * add_part(answer, s, "mtp", n) / (double)(c->mtp ? c->mtp : 1);
    if (c->capacity_factor > 0)
        add_part(answer, s, "dropped", n);
    return sum;
}

static void print_answer(const Session *s, const EvalOptions *o, const EvalTokens *t)
{
    const int64_t n = t->sequences / t->each;
    json_t *answer = json_object();
    double loss = 0;
    for (int64_t i = 0; i < n; i++)
        loss += *(const float *)session_at(s, "loss.m%lld", (long long)i) / (double)n;
    json_object_set_new(answer, "tokens", json_integer(t->sequences * t->positions));
    if (o->whole)
        json_object_set_new(answer, "total", json_number(loss + add_parts(answer, s, n)));
    json_object_set_new(answer, "loss", json_number(loss));
    json_dumpf(answer, stdout, JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(answer);
}

static Program *record_eval(Session *s, const EvalOptions *o, const EvalTokens *t)
{
    Recording r = session_record(s, "eval", o->gradients != NULL, t->each, t->positions);
    r.recipe.balanced = o->whole;
    r.recipe.logits = o->logits != NULL;
    if (o->gradients)
        recipe_gradients(&r.recipe, (int)(t->sequences / t->each));
    else
        recipe_evaluation(&r.recipe, (int)(t->sequences / t->each));
    return session_finish(s, &r);
}

static int eval(Session *s, const EvalOptions *o, EvalTokens *t)
{
    Program *forms = session_record_setup(s, t->positions), *p = forms ? record_eval(s, o, t) : NULL;
    if (!p || session_compile(s))
        return 1;
    Run *prepare = session_start(s, forms, (BatchSource){0}), *run = NULL;
    int bad = !prepare || !(run = session_start(s, p, (BatchSource){next_batch, t})) ||
              command_weights(s, o->model, kept_slices(s->arena, s, KEPT_MASTERS)) || session_run(prepare) ||
              session_run(run) || (o->gradients && write_gradients(s, run, o->gradients)) ||
              (o->logits && write_logits(s, t, o->logits));
    if (!bad)
        print_answer(s, o, t);
    run_free(prepare);
    run_free(run);
    return bad;
}

static int eval_file(const EvalOptions *o, const ModelConfig *model)
{
    EvalTokens t = {0};
    if (read_tokens(o->arena, o->tokens, model, &t))
        return 1;
    t.each = micro_batch(&t);
    Session s;
    const int bad = session_open(&s, model, o->f32 ? MOEC_F32 : MOEC_BF16, o->threads, 0) || eval(&s, o, &t);
    session_close(&s);
    return bad;
}

int command_eval(int argc, char **argv)
{
    static const struct argp argp = {
        options, parse_option, 0, "Computes the mean cross entropy, in nat per token.", 0, 0, 0};
    EvalOptions o = {.arena = arena_new()};
    ModelConfig model;
    if (!o.arena)
        return complain("out of memory");
    cli_parse(&argp, argc, argv, &o);
    const int bad = command_model(o.arena, o.model, &model) ||
                    (o.data.len ? eval_data(&o, &model) : eval_file(&o, &model));
    arena_free(o.arena);
    return bad;
}
