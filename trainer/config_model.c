/* The model that the options describe. */
#include "trainer/config.h"

#include <stdio.h>
#include <stdlib.h>

#include "trainer/command.h"

/* Of --layers, --width and the options beside them. */
static ModelConfig of_options(const Config *c)
{
    return (ModelConfig){.arch = ARCH_moe,
                         .vocab = 256,
                         .hidden = c->width,
                         .layers = c->layers,
                         .positions = c->sequence,
                         .eps = 1e-5,
                         .heads = c->heads,
                         .rope_theta = c->rotary_base,
                         .rope_factor = 1,
                         .rope_beta_fast = 32,
                         .rope_beta_slow = 1,
                         .experts = c->experts,
                         .top_k = c->top_k,
                         .expert_width = c->expert_width,
                         .shared_experts = 1,
                         .shared_width = c->shared_width,
                         .groups = 1,
                         .group_limit = 1,
                         .renormalise = 1,
                         .routed_scale = 1,
                         .aux_coeff = c->balance,
                         .aux_scope = AUX_MICRO_BATCH,
                         .initializer = INIT_FAN_IN,
                         .init_range = 0.02};
}

/* Rules between the model and the run. Returns the broken one, or NULL. */
static const char *broken_rule(const Config *c)
{
    if (c->model_config.vocab < 256)
        return "--model: training is on bytes, so vocab_size must be at least 256";
    if (c->sequence > c->model_config.positions)
        return "--sequence is larger than max_position_embeddings of --model";
    return NULL;
}

/* Leaves the process with status 1 when it is wrong. */
void config_read_model(Config *c)
{
    Arena *a = arena_new();
    if (!a || (c->model && command_model(a, c->model, &c->model_config)))
        exit(1);
    if (!c->model) {
        c->model_config = of_options(c);
        const char *error = model_config_check(a, "the options of the model", &c->model_config);
        if (error) {
            fprintf(stderr, "moe-train: %s\n", error);
            exit(1);
        }
    }
    arena_free(a);
    const char *rule = broken_rule(c);
    if (rule) {
        fprintf(stderr, "moe-train: %s\n", rule);
        exit(1);
    }
}
