/* A small model of every module, in f32, as programs that run: for tests of recipes and runs. */
#ifndef TESTS_MODEL_FIXTURE_H
#define TESTS_MODEL_FIXTURE_H

#include "model/model.h"
#include "model/recipe.h"
#include "step/memory.h"
#include "step/run.h"
#include "step/text.h"
#include "step/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* Latents, dense and expert layers, sandwich norms, groups of experts, all losses, multi-token prediction. */
static const char fixture_pangu[] =
    "{\"model_type\": \"pangu_ultra_moe\", \"vocab_size\": 23, \"hidden_size\": 24, \"intermediate_size\": 20, "
    "\"moe_intermediate_size\": 12, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_dense_layers\": 1, "
    "\"num_mtp_layers\": 1, \"attention_kv_lora_dim\": 10, \"attention_q_lora_dim\": 12, \"attention_qk_dim\": 6, "
    "\"attention_qk_rope_dim\": 4, \"attention_v_dim\": 6, \"num_routed_experts\": 6, \"num_shared_experts\": 1, "
    "\"num_experts_per_tok\": 2, \"n_group\": 3, \"topk_group\": 2, \"max_position_embeddings\": 32, \"sandwich_norm\": true, "
    "\"router_enable_expert_bias\": true, \"router_aux_loss_coef\": 0.05, \"router_z_loss_coef\": 0.01, "
    "\"aux_loss_scope\": \"sequence\", \"initializer_range\": 0.3}";
/* Shared heads of keys, norms of heads, a tied head, softmax. */
static const char fixture_grouped[] =
    "{\"model_type\": \"moe\", \"vocab_size\": 23, \"hidden_size\": 24, \"moe_intermediate_size\": 12, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"use_qk_norm\": true, \"n_routed_experts\": 4, "
    "\"num_experts_per_tok\": 2, \"max_position_embeddings\": 32, \"router_aux_loss_coef\": 0.05, \"tie_word_embeddings\": true, "
    "\"initializer_range\": 0.3}";

enum { FIXTURE_SEQUENCES = 2, FIXTURE_POSITIONS = 7, FIXTURE_MICRO = 2 };

typedef struct ModelFixture {
    Arena *arena;
    ModelConfig config;
    ModelWeights weights;
    KernelSet *kernels;
    Store *store;
    int64_t batch; /* number of the next one */
    FILE *swap;    /* of programs that store; NULL: not needed so far */
} ModelFixture;

static inline ModelFixture fixture_new(const char *config)
{
    ModelFixture f = {.arena = arena_new(), .kernels = kernels_open("act=f32"), .store = store_new()};
    const char *error = model_config_read(f.arena, "fixture", config, strlen(config), &f.config, NULL);
    if (error)
        fail_msg("%s", error);
    if (recipe_add_sources(f.kernels))
        fail_msg("%s", kernels_error(f.kernels));
    f.weights = model_weights(f.arena, &f.config);
    return f;
}

static inline void fixture_free(ModelFixture *f)
{
    if (f->swap)
        fclose(f->swap);
    store_free(f->store);
    kernels_close(f->kernels);
    arena_free(f->arena);
}

static inline Recipe fixture_recipe(ModelFixture *f, const char *name, int train)
{
    Recorder *r = recorder_new(f->arena, f->kernels, name, train);
    Recipe m = recipe_of(f->arena, r, name, &f->config, MOEC_F32, FIXTURE_SEQUENCES, FIXTURE_POSITIONS);
    m.balanced = 1;
    return m;
}

static inline Program *fixture_finish(Recipe *m)
{
    const char *error;
    Program *p = recorder_finish(m->r, &error);
    if (!p)
        fail_msg("%s", error);
    return p;
}

static inline void fixture_compile(ModelFixture *f)
{
    if (kernels_compile(f->kernels))
        fail_msg("%s", kernels_error(f->kernels));
}

/* The same tokens in every step. */
static inline int fixture_next(void *fixture, void *const *buffers, const int64_t *bytes, uint32_t n)
{
    ModelFixture *f = fixture;
    const int64_t tokens = bytes[0] / 4, first = f->batch++ % FIXTURE_MICRO * 5;
    (void)n;
    for (int64_t i = 0; i < tokens; i++) {
        ((int32_t *)buffers[0])[i] = (int32_t)((first + i * i * 7 + i) % f->config.vocab);
        ((int32_t *)buffers[1])[i] = (int32_t)((first + (i + 1) * (i + 1) * 7 + i + 1) % f->config.vocab);
        ((float *)buffers[2])[i] = 1;
    }
    return 0;
}

/* A run of a program that has places. */
static inline Run *fixture_run(ModelFixture *f, Program *p)
{
    const char *error = step_verify(p, f->kernels);
    if (p->disk_bytes && !f->swap)
        f->swap = tmpfile();
    const RunOptions options = {.threads = 2, .source = {fixture_next, f}, .swap_fd = f->swap ? fileno(f->swap) : 0};
    Run *r = error ? NULL : run_new(p, f->kernels, f->store, &options, &error);
    if (!r)
        fail_msg("%s", error);
    return r;
}

static inline Run *fixture_start(ModelFixture *f, Program *p)
{
    assert_int_equal(kernels_add_work(f->kernels, p), 0);
    memory_place(p);
    return fixture_run(f, p);
}

static inline void fixture_go(Run *r)
{
    if (run_program(r))
        fail_msg("%s", run_error(r));
}

static inline float *fixture_master(const ModelFixture *f, const ModelWeight *w) { return store_at(f->store, w->name); }

static inline void fixture_draw(ModelFixture *f)
{
    Random random = random_new(5);
    for (uint32_t i = 0; i < f->weights.len; i++) {
        const ModelWeight *w = &f->weights.at[i];
        for (int64_t j = 0; j < model_weight_elements(w); j++)
            fixture_master(f, w)[j] = (float)(w->value + w->deviation * random_normal(&random));
    }
}

#endif
