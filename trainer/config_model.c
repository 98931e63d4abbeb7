/* The model that the options describe. */
#include "trainer/config.h"

#include <stdlib.h>

#include "trainer/checkpoint.h"
#include "trainer/command.h"
#include "trainer/complain.h"

/* Of --layers, --width and the options beside them. */
static ModelConfig of_options(const Config *c)
{
    ModelConfig m = model_config_new(ARCH_moe);
    m.vocab = c->vocab;
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
    if (c->model_config.vocab < 256 && !data_is_tokens(c->data.at[0]))
        return "--data is text: vocab_size must be at least 256";
    return sequence_rule(c->sequence, &c->model_config);
}

static void leave(const char *why)
{
    complain_alike("%s", why);
    exit(CLI_USAGE);
}

/* The file that describes the model; NULL: the options do. A checkpoint has one, unless the command line names another. */
static const char *model_file(const Config *c)
{
    return c->checkpoint && c->source[OPTION_model] <= FROM_CHECKPOINT ? c->checkpoint : c->model;
}

void config_read_model(Config *c)
{
    const char *file = model_file(c);
    if (file && command_model(c->arena, file, &c->model_config))
        exit(1);
    if (!file) {
        c->model_config = of_options(c);
        const char *error = model_config_check(c->arena, "the options of the model", &c->model_config);
        if (error)
            leave(error);
    }
    if (c->checkpoint && file != c->checkpoint && resume_check_model(c))
        exit(1);
    const char *rule = broken_rule(c);
    if (rule)
        leave(rule);
}
