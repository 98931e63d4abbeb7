/* Fallbacks that follow from other fields, ranges, and the rules of config.def. */
#include "model/config_own.h"

#include "model/count.h"

#include <stddef.h>
#include <string.h>

static const ConfigRow *row_at(size_t at)
{
    uint32_t i = 0;
    while (config_table[i].at != at)
        i++;
    return &config_table[i];
}

static const char *broken(Arena *a, const char *file, const ModelConfig *c, const ConfigRow *row,
                          const char *rule)
{
    return arena_printf(a, "%s: %s is %s: %s", file, config_name(c->arch, row),
                        config_number(a, model_config_value(c, row)), rule);
}

/* ---- fallbacks ---- */

static void complete_heads(ModelConfig *c)
{
    if (!c->kv_heads)
        c->kv_heads = c->heads;
    if (model_is_latent(c)) {
        c->head_dim = c->nope_dim + c->rope_dim;
        c->qk_norm = 0;
        c->latent_eps = c->latent_eps > 0 ? c->latent_eps : c->eps;
        return;
    }
    if (!c->head_dim && c->hidden % c->heads == 0)
        c->head_dim = c->hidden / c->heads;
    c->q_lora = c->nope_dim = 0;
    c->rope_dim = c->v_dim = c->head_dim;
}

/* Without scaling, the fields of scaling mean nothing. */
static void complete_rope(ModelConfig *c)
{
    for (uint32_t i = 0; c->rope_scaling == ROPE_DEFAULT && i < config_count; i++)
        if (strchr(config_table[i].name, '.'))
            config_set(c, &config_table[i], config_table[i].fallback);
}

static void complete_shared(ModelConfig *c)
{
    if (!c->shared_width)
        c->shared_width = c->shared_experts * c->expert_width;
    else if (!c->shared_experts)
        c->shared_experts = 1;
}

/* ---- ranges and rules ---- */

int config_in_range(const ConfigRow *row, double value) { return value >= row->least && value <= row->most; }

const char *config_range(Arena *a, const ConfigRow *row)
{
    return arena_printf(a, "must be from %s to %s", config_number(a, row->least),
                        config_number(a, row->most));
}

static const char *check_ranges(Arena *a, const char *file, const ModelConfig *c)
{
    for (uint32_t i = 0; i < config_count; i++) {
        const ConfigRow *row = &config_table[i];
        if (config_applies(c, row) && !config_in_range(row, model_config_value(c, row)))
            return broken(a, file, c, row, config_range(a, row));
    }
    return NULL;
}

static const char *check_rules(Arena *a, const char *file, const ModelConfig *c)
{
#define RULE(field, condition, rule) \
    if (!(condition))                \
        return broken(a, file, c, row_at(offsetof(ModelConfig, field)), rule);
#include "model/config.def"
    return NULL;
}

static const char *check_parameters(Arena *a, const char *file, const ModelConfig *c)
{
    ModelCount n = model_count(c);
    if (n.all.total <= MODEL_PARAMETERS_MAX && n.all_mtp.total <= MODEL_PARAMETERS_MAX)
        return NULL;
    return arena_printf(a, "%s: the model has %.3g parameters: at most %.3g are counted without error", file,
                        (double)n.all.total + (double)n.all_mtp.total, (double)MODEL_PARAMETERS_MAX);
}

const char *model_config_check(Arena *a, const char *file, ModelConfig *c)
{
    const char *error = check_ranges(a, file, c);
    if (error)
        return error;
    complete_heads(c);
    complete_rope(c);
    complete_shared(c);
    error = check_rules(a, file, c);
    return error ? error : check_parameters(a, file, c);
}
