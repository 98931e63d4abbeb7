#include "model/rope.h"

#include <math.h>

/* YaRN's growth of a factor with the length of sequences. */
static double growth(double factor, double weight)
{
    return factor <= 1 ? 1 : 0.1 * weight * log(factor) + 1;
}

/* The pair, as a real number, that turns so many times over the sequences of the first training. */
static double pair_with_turns(const ModelConfig *c, double turns)
{
    static const double tau = 6.283185307179586;
    return (double)c->rope_dim * log((double)c->rope_original / (turns * tau)) / (2 * log(c->rope_theta));
}

static double table_size(const ModelConfig *c)
{
    if (c->rope_attention > 0)
        return c->rope_attention;
    if (c->rope_mscale > 0 && c->rope_mscale_all > 0)
        return growth(c->rope_factor, c->rope_mscale) / growth(c->rope_factor, c->rope_mscale_all);
    return growth(c->rope_factor, 1);
}

static void set_scaling(const ModelConfig *c, ModelRope *r)
{
    switch (c->rope_scaling) {
    case ROPE_DEFAULT: break;
    case ROPE_LINEAR: /* all pairs */
        r->factor = c->rope_factor;
        r->low = -2, r->high = -1;
        break;
    case ROPE_YARN:
        r->factor = c->rope_factor;
        r->low = fmax(floor(pair_with_turns(c, c->rope_beta_fast)), 0);
        r->high = fmin(ceil(pair_with_turns(c, c->rope_beta_slow)), (double)(c->rope_dim - 1));
        r->size = table_size(c);
        break;
    }
}

/* Scores of latent attention grow with the length, too. */
static double score_scale(const ModelConfig *c)
{
    int grows = model_is_latent(c) && c->rope_scaling != ROPE_DEFAULT && c->rope_mscale_all > 0;
    double m = grows ? growth(c->rope_factor, c->rope_mscale_all) : 1;
    return m * m / sqrt((double)c->head_dim);
}

ModelRope model_rope(const ModelConfig *c)
{
    ModelRope r = {.base = c->rope_theta, .factor = 1, .high = 1, .size = 1, .score = score_scale(c)};
    set_scaling(c, &r);
    return r;
}
