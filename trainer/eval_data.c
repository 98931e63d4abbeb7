/* moe-train eval --data: the loss of a model on text or files of tokens, each token once. */
#include "trainer/eval.h"

#include <stdio.h>

#include "trainer/checkpoint.h"
#include "trainer/command.h"
#include "trainer/complain.h"
#include "trainer/data.h"

enum { MOST_TOKENS = 8192 /* of a batch */, MOST_POSITIONS = 4096 /* where nothing says another number */ };

/* The windows of a part, batch by batch. */
typedef struct WindowReader {
    const TokenPart *part;
    const Config *config;
    int64_t each, next; /* sequences of a batch; the first of the next one */
    int64_t counted;    /* targets of the last batch that count; -1: it could not be read */
} WindowReader;

static int next_batch(void *reader, void *const *buffers, const int64_t *bytes, uint32_t n)
{
    WindowReader *r = reader;
    (void)bytes, (void)n;
    r->counted = batch_all(r->part, r->config, r->next, r->each, buffers[0], buffers[1], buffers[2]);
    r->next += r->each;
    return r->counted < 0;
}

typedef struct Mean {
    double sum;
    int64_t tokens;
} Mean;

static int run_batches(Session *s, Run *run, WindowReader *r, Mean *all)
{
    const int64_t windows = batch_all_windows(r->part, r->config->sequence);
    const float *loss = session_number(s, "loss.m0");
    while (r->next < windows) {
        if (session_run(run))
            return 1;
        all->sum += (double)*loss * (double)r->counted;
        all->tokens += r->counted;
    }
    return 0;
}

static int eval_windows(Session *s, const EvalOptions *o, WindowReader *r, Mean *all)
{
    const int64_t sequence = r->config->sequence;
    Recording recording = session_record(s, "eval", 0, r->each, sequence);
    recipe_evaluation(&recording.recipe, 1);
    Program *p = session_finish(s, &recording), *forms = p ? session_record_setup(s, sequence) : NULL;
    if (!forms || session_compile(s))
        return 1;
    Run *prepare = session_start(s, forms, (BatchSource){0}), *run = NULL;
    const int bad = !prepare || !(run = session_start(s, p, (BatchSource){next_batch, r})) ||
                    command_weights(s, o->model, kept_slices(s->arena, s, KEPT_MASTERS)) ||
                    session_run(prepare) || run_batches(s, run, r, all);
    run_free(prepare);
    run_free(run);
    return bad;
}

static void print_answer(const TrainData *d, const Config *c, const Mean *all)
{
    json_t *answer = json_object();
    if (c->validation <= 0)
        json_object_set_new(answer, d->is_text ? "files" : "documents",
                            json_integer(d->is_text ? (json_int_t)d->files : d->documents));
    json_object_set_new(answer, "tokens", json_integer(all->tokens));
    json_object_set_new(answer, "sequence", json_integer(c->sequence));
    json_object_set_new(answer, "loss", json_number(all->sum / (double)all->tokens));
    json_dumpf(answer, stdout, JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(answer);
}

static int eval_part(const EvalOptions *o, const TrainData *d, const Config *c)
{
    WindowReader r = {.part = c->validation > 0 ? &d->valid : &d->train, .config = c};
    const int64_t windows = batch_all_windows(r.part, c->sequence),
                  fit = c->sequence < MOST_TOKENS ? MOST_TOKENS / c->sequence : 1;
    r.each = fit < windows ? fit : windows;
    Session s;
    Mean all = {0};
    const int bad = session_open(&s, &c->model_config, o->f32 ? MOEC_F32 : MOEC_BF16, o->threads, 0) ||
                    eval_windows(&s, o, &r, &all);
    session_close(&s);
    if (!bad)
        print_answer(d, c, &all);
    return bad;
}

/* Of the run that saved the model, if it is a checkpoint. */
static int64_t trained_sequence(Arena *a, const char *model)
{
    const char *error;
    json_t *options = json_file(a, arena_printf(a, "%s/" CHECKPOINT_OPTIONS, model), &error);
    const int64_t sequence = options ? json_integer_value(json_object_get(options, "sequence")) : 0;
    json_decref(options);
    return sequence > 0 ? sequence : MOST_POSITIONS;
}

static int64_t sequence_of(const EvalOptions *o, const ModelConfig *m)
{
    const int64_t trained = o->sequence ? o->sequence : trained_sequence(o->arena, o->model);
    return o->sequence || trained < m->positions ? trained : m->positions;
}

static const char *broken_rule(const EvalOptions *o, const Config *c)
{
    if (!data_is_tokens(o->data.at[0]) && c->model_config.vocab < 256)
        return "--data is text: vocab_size of --model must be at least 256";
    return sequence_rule(c->sequence, &c->model_config);
}

int eval_data(const EvalOptions *o, const ModelConfig *model)
{
    Config c = config_default();
    TrainData d;
    c.model_config = *model, c.sequence = sequence_of(o, model), c.validation = o->validation;
    c.data_limit = o->data_limit > 0 ? o->data_limit : c.data_limit;
    for (uint32_t i = 0; i < o->data.len; i++)
        vec_push(c.arena, &c.data, o->data.at[i]);
    const char *rule = broken_rule(o, &c);
    int bad = rule ? complain("%s", rule) : data_read(&d, &c);
    if (!bad) {
        bad = eval_part(o, &d, &c);
        data_free(&d);
    }
    config_free(&c);
    return bad;
}
