#include "trainer/trainer.h"

#include <math.h>
#include <string.h>

#include "base/bind.h"
#include "trainer/checkpoint.h"
#include "trainer/choices.h"
#include "trainer/complain.h"
#include "trainer/guard.h"
#include "trainer/job.h"
#include "trainer/kept.h"
#include "trainer/trace.h"

/* ---- batches ---- */

static int make_batch(void *trainer, int64_t number, int32_t *ids, int32_t *targets)
{
    const Trainer *t = trainer;
    const int64_t part = number * t->copies + t->copy; /* of the sequences of all ranks */
    return batch_train(t->data, t->config, t->first_sequence + part * t->sequences, t->sequences, ids,
                       targets);
}

/* Every target counts. */
static void fill_weights(float *weights, int64_t bytes)
{
    for (int64_t i = 0; i < bytes / (int64_t)sizeof *weights; i++)
        weights[i] = 1;
}

static int next_train(void *trainer, void *const *buffers, const int64_t *bytes, uint32_t n)
{
    Trainer *t = trainer;
    (void)n;
    fill_weights(buffers[2], bytes[2]);
    return loader_next(t->loader, buffers[0], buffers[1]);
}

static int next_validation(void *trainer, void *const *buffers, const int64_t *bytes, uint32_t n)
{
    Trainer *t = trainer;
    (void)n;
    fill_weights(buffers[2], bytes[2]);
    const int64_t part = t->validation_batch++ * t->copies + t->copy;
    return batch_validation(t->data, t->config, part * t->sequences, t->sequences, buffers[0], buffers[1]);
}

/* ---- programs ---- */

static Program *record_step(Trainer *t)
{
    const char *const choices[PASS_COUNT] = {
#define PASS(name, doc) [PASS_##name] = t->config->name,
#include "step/passes.def"
    };
    Recording r = session_record(&t->session, "train", 1, t->sequences, t->config->sequence);
    r.recipe.balanced = 1, r.recipe.row_factor = t->config->row_factor;
    r.recipe.loads = t->config->load_every > 0;
    r.recipe.choices = t->config->choices != NULL, r.recipe.given = t->config->choices_from != NULL;
    recipe_step(&r.recipe, (int)t->config->micro_batches);
    Program *p = session_finish(&t->session, &r);
    return p && !session_passes(p, choices) ? p : NULL;
}

static Program *record_evaluation(Trainer *t)
{
    Recording r = session_record(&t->session, "validation", 0, t->sequences, t->config->sequence);
    r.recipe.row_factor = t->config->row_factor;
    recipe_evaluation(&r.recipe, 1);
    return session_finish(&t->session, &r);
}

/* Prompts longer than half of a sequence are read from their end. */
static int record_sample(Trainer *t)
{
    const Config *c = t->config;
    const int64_t half = c->sequence / 2;
    if (!c->sample)
        return 0;
    return sample_prompt(t) ||
           generator_record(&t->generator, &t->session, t->comm, t->prompt_len < half ? t->prompt_len : half,
                            c->sequence, c->temperature, (uint64_t)c->seed + 2);
}

static int record_programs(Trainer *t)
{
    return !(t->setup_program = session_record_setup(&t->session, t->config->sequence)) ||
           !(t->program = record_step(t)) || !(t->evaluation_program = record_evaluation(t)) ||
           record_sample(t);
}

static int start(Trainer *t)
{
    Session *s = &t->session;
    if (session_compile(s))
        return 1;
    /* The step has the largest arena, so it comes first and the others share it. */
    t->step = session_start(s, t->program, (BatchSource){next_train, t});
    t->setup = t->step ? session_start(s, t->setup_program, (BatchSource){0}) : NULL;
    t->evaluation =
        t->setup ? session_start(s, t->evaluation_program, (BatchSource){next_validation, t}) : NULL;
    return !t->evaluation || (t->config->sample && generator_start(&t->generator));
}

/* ---- what is logged ---- */

static void find_metric(Trainer *t, LayerMetric *metric)
{
    const int64_t parts = t->config->micro_batches, layers = t->session.model.layers;
    metric->at = arena_array(t->session.arena, const float *, parts *layers);
    for (int64_t m = 0; m < parts; m++)
        for (int64_t l = 0; l < layers; l++)
            if (!model_is_dense(&t->session.model, l))
                metric->at[metric->n++] =
                    session_at(&t->session, "%s.L%lld.m%lld", metric->name, (long long)l, (long long)m);
}

static void find_results(Trainer *t)
{
    static const char *const names[] = {
        [METRIC_BALANCE] = "balance", [METRIC_DROPPED] = "dropped", [METRIC_IMBALANCE] = "imbalance"};
    t->losses = arena_array(t->session.arena, const float *, t->config->micro_batches);
    for (int64_t m = 0; m < t->config->micro_batches; m++)
        t->losses[m] = session_at(&t->session, "loss.m%lld", (long long)m);
    for (int i = 0; i < METRIC_COUNT; i++) {
        t->metrics[i].name = names[i];
        find_metric(t, &t->metrics[i]);
    }
    t->load.name = "load";
    if (t->config->load_every) {
        find_metric(t, &t->load);
        t->loads = arena_array(t->session.arena, double, t->load.n * t->session.model.experts);
    }
}

static void set_numbers(Trainer *t)
{
    const Config *c = t->config;
    const Session *s = &t->session;
    t->rate = session_number(s, "lr"), t->k1 = session_number(s, "k1"), t->k2 = session_number(s, "k2");
    t->norm_at = session_number(s, "norm"), t->norm_limit = session_number(s, "norm.limit");
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"beta1", c->beta1},
                   {"beta2", c->beta2},
                   {"adam.eps", c->epsilon},
                   {"decay", c->decay},
                   {"clip", c->clip}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *session_number(s, numbers[i].name) = (float)numbers[i].value;
}

/* Weights, moments and what the loader begins with. */
static int take_weights(Trainer *t)
{
    const Session *s = &t->session;
    if (t->config->checkpoint)
        return resume_load(t);
    weights_draw(&s->weights, kept_slices(s->arena, s, KEPT_MASTERS), (uint64_t)t->config->seed);
    return 0;
}

static int start_loader(Trainer *t)
{
    t->first_sequence = t->state.sequences;
    t->loader = loader_new(&(BatchMaker){make_batch, t, t->sequences * t->config->sequence});
    return t->loader ? 0 : complain("no thread for the loader");
}

int trainer_begin(Trainer *t)
{
    if (start(t) || job_agree(t) || choices_open(t) || take_weights(t) || start_loader(t))
        return 1;
    if (t->config->bind)
        bind_threads((int)t->config->threads, (int)(comm_rank(t->comm) % comm_ranks(t->comm)->per_node));
    find_results(t);
    set_numbers(t);
    if (session_run(t->setup))
        return 1;
    comm_count_anew(t->comm); /* steps only */
    return 0;
}

/* Its place among the ranks: which sequences it takes, with whom it exchanges. */
static void join(Trainer *t, Comm *comm)
{
    const Ranks *r = comm_ranks(comm);
    t->comm = comm;
    t->copies = r->members[AXIS_dp], t->copy = ranks_place(r, AXIS_dp, comm_rank(comm));
    t->sequences = t->config->batch / (t->config->micro_batches * t->copies);
    session_share(&t->session, r, comm_rank(comm));
    t->session.run.door = comm_door(comm);
}

int trainer_new(Trainer *t, const Config *c, const TrainData *d, Comm *comm, int check)
{
    *t = (Trainer){.config = c, .data = d};
    t->state.data = data_fingerprint(d);
    if (session_open(&t->session, &c->model_config, c->f32 ? MOEC_F32 : MOEC_BF16, (int)c->threads, check))
        return 1;
    t->session.swap_folder = c->swap_folder;
    t->session.run.yields = !c->bind;
    join(t, comm);
    if (record_programs(t))
        return 1;
    if (c->tune && !check)
        tune_run(t);
    return trainer_begin(t);
}

void trainer_free(Trainer *t)
{
    trace_close(t), choices_close(t);
    loader_free(t->loader);
    generator_free(&t->generator);
    run_free(t->setup);
    run_free(t->step);
    run_free(t->evaluation);
    session_close(&t->session);
}

/* ---- the loop ---- */

/* Linear warm-up, then a cosine from --lr down to --lr-end of it. */
static double learning_rate(const Config *c, int64_t step)
{
    if (step < c->warmup)
        return c->lr * (double)(step + 1) / (double)c->warmup;
    double left = c->steps > c->warmup ? (double)(step - c->warmup) / (double)(c->steps - c->warmup) : 0;
    return c->lr * (c->lr_end + (1 - c->lr_end) * 0.5 * (1 + cos(3.141592653589793 * left)));
}

static double mean(const float *const *at, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += *at[i];
    return n ? sum / (double)n : 0;
}

/* All micro-batches of all ranks together. */
static int count_loads(Trainer *t)
{
    const int64_t layers = t->load.n / t->config->micro_batches, experts = t->session.model.experts;
    if (!t->config->load_every || t->state.steps % t->config->load_every)
        return 0;
    memset(t->loads, 0, (size_t)(layers * experts) * sizeof *t->loads);
    for (int64_t i = 0; i < t->load.n; i++)
        for (int64_t e = 0; e < experts; e++)
            t->loads[i % layers * experts + e] += (double)t->load.at[i][e];
    return job_sum(t, "the load of experts", t->loads, layers * experts);
}

int trainer_step(Trainer *t)
{
    const Config *c = t->config;
    t->lr = learning_rate(c, t->state.steps);
    *t->rate = (float)t->lr;
    *t->k1 = (float)(1 / (1 - pow(c->beta1, (double)(t->state.updates + 1))));
    *t->k2 = (float)(1 / (1 - pow(c->beta2, (double)(t->state.updates + 1))));
    *t->norm_limit = guard_limit(t);
    trace_begins(t);
    if (choices_read(t) || session_run(t->step) || choices_write(t))
        return 1;
    t->loss = mean(t->losses, c->micro_batches);
    for (int i = 0; i < METRIC_COUNT; i++)
        t->metrics[i].mean = mean(t->metrics[i].at, t->metrics[i].n);
    t->norm = *t->norm_at;
    return job_share(t) || guard_step(t) || count_loads(t) || trace_ends(t);
}

int trainer_validate(Trainer *t, double *loss)
{
    double sum = 0;
    const float *one = session_number(&t->session, "loss.m0");
    const int64_t runs = t->config->validation_batches * t->config->micro_batches;
    t->validation_batch = 0;
    for (int64_t i = 0; i < runs; i++) {
        if (session_run(t->evaluation))
            return 1;
        sum += *one;
    }
    *loss = sum / (double)runs;
    return job_mean(t, "a validation", loss);
}
