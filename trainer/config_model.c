/* The model that the options describe. */
#include "trainer/config.h"

#include <stdio.h>
#include <stdlib.h>

#include "trainer/command.h"

/* Of --layers, --width and the options beside them. */
static ModelConfig of_options(const Config *c)
{
    ModelConfig m = model_config_new(ARCH_moe);
    m.vocab = 256;
    m.hidden = c->width;
    m.layers = c->layers;
    m.positions = c->sequence;
    m.eps = 1e-5;
    m.heads = c->heads;
    m.rope_theta = c->rotary_base;
    m.experts = c->experts;
    m.top_k = c->top_k;
    m.expert_width = c->expert_width;
    m.shared_experts = 1;
    m.shared_width = c->shared_width;
    m.aux_coeff = c->balance;
    m.initializer = INIT_FAN_IN;
    return m;
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

/* Leaves the process when it is wrong. */
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
            exit(CLI_USAGE);
        }
    }
    arena_free(a);
    const char *rule = broken_rule(c);
    if (rule) {
        fprintf(stderr, "moe-train: %s\n", rule);
        exit(CLI_USAGE);
    }
}
