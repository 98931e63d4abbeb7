/* Attention: grouped heads or latents, over the sequence itself or over caches; rotary positions. */
#include "model/recipe.h"

#include <math.h>

/* Where the first position of the run lies. */
#define OFFSET (m->cached ? EXTENT(O, m->offset, m->cached) : SIZE(O, 0))

/* ---- rotary positions ----
 * Halves of whole heads are rotated against each other by a kernel of their own; else parts of heads, whose pairs are SPAN apart. */

static int rotates_halves(const ModelConfig *c) { return !c->nope_dim && !c->rope_interleave; }

/* Tables of positions from the first one on are made once, by recipe_setup(), others by the program that reads them. */
static BufferId table(Recipe *m, const char *name)
{
    const ModelConfig *c = m->c;
    const int64_t width = rotates_halves(c) ? c->rope_dim / 2 : c->nope_dim + c->rope_dim,
                  shape[] = {m->positions, width};
    const char *full =
        arena_printf(m->arena, "rope.%s.%s%lld", name, m->cached ? "cached" : "", (long long)m->positions);
    return record_tensor(m->r, OWNER_state, full, MOEC_F32, 0, 2, shape);
}

#define HALVES ARG(c, table(m, "cosine")), ARG(s, table(m, "sine"))
#define PARTS                                                                                     \
    ARG(c, table(m, "cosine")), ARG(behind, table(m, "behind")), ARG(before, table(m, "before")), \
        SIZE(Q, m->c->nope_dim), SIZE(P, m->c->rope_dim / 2),                                     \
        SIZE(SPAN, m->c->rope_interleave ? 1 : m->c->rope_dim / 2)

/* yarn's factor of a scale m. */
static double mscale(double factor, double m) { return factor > 1 ? 0.1 * m * log(factor) + 1 : 1; }

/* The pair whose angle turns `turns` times over the sequence of the first training. */
static double pair_of_turns(const ModelConfig *c, double turns)
{
    const double pi = 3.14159265358979323846;
    return (double)c->rope_dim * log((double)c->rope_original / (turns * 2 * pi)) / (2 * log(c->rope_theta));
}

static double table_size(const ModelConfig *c)
{
    if (c->rope_scaling != ROPE_YARN)
        return 1;
    if (c->rope_attention > 0)
        return c->rope_attention;
    if (c->rope_mscale > 0 && c->rope_mscale_all > 0)
        return mscale(c->rope_factor, c->rope_mscale) / mscale(c->rope_factor, c->rope_mscale_all);
    return mscale(c->rope_factor, 1);
}

void recipe_tables(Recipe *m)
{
    const ModelConfig *c = m->c;
    const int yarn = c->rope_scaling == ROPE_YARN;
    const double low = yarn ? fmax(floor(pair_of_turns(c, c->rope_beta_fast)), 0) : -2;
    const double high = yarn ? fmin(ceil(pair_of_turns(c, c->rope_beta_slow)), (double)c->rope_dim - 1) : -1;
    const double factor = c->rope_scaling == ROPE_DEFAULT ? 1 : c->rope_factor;
    const Arg numbers[] = {ARG(base, recipe_number(m, "rope.base", c->rope_theta)),
                           ARG(factor, recipe_number(m, "rope.factor", factor)),
                           ARG(low, recipe_number(m, "rope.low", low)),
                           ARG(high, recipe_number(m, "rope.high", high)),
                           ARG(size, recipe_number(m, "rope.size", table_size(c)))};
    if (rotates_halves(c))
        record(m->r, "rotary_table", numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], HALVES,
               OFFSET);
    else
        record(m->r, "rotary_part_table", numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], PARTS,
               OFFSET);
}

/* x: heads of nope + rope elements for each token -> [B, S, heads, nope + rope], rotated. */
static BufferId rotate(Recipe *m, BufferId x, int64_t heads)
{
    const int64_t B = m->sequences, S = m->positions, D = m->c->nope_dim + m->c->rope_dim;
    if (!rotates_halves(m->c))
        return out(record(m->r, "rotary_part", ARG(x, SHAPED(m, x, B, S, heads, D)), PARTS), "y");
    return SHAPED(m, out(record(m->r, "rotary", ARG(x, SHAPED(m, x, B, S, heads, 2, D / 2)), HALVES), "y"), B,
                  S, heads, D);
}

/* ---- attention itself ---- */

/* 1 / sqrt(width of a head), times the square of yarn's mscale where it is of all dimensions. */
static BufferId score_scale(Recipe *m)
{
    const ModelConfig *c = m->c;
    double scale = 1 / sqrt((double)(c->nope_dim + c->rope_dim));
    if (c->rope_scaling != ROPE_DEFAULT && c->rope_mscale_all > 0)
        scale *= mscale(c->rope_factor, c->rope_mscale_all) * mscale(c->rope_factor, c->rope_mscale_all);
    return recipe_number(m, "score.scale", scale);
}

static BufferId attend(Recipe *m, BufferId q, BufferId k, BufferId v)
{
    return out(
        record(m->r, "attention", ARG(q, q), ARG(k, k), ARG(v, v), ARG(scale, score_scale(m)), SIZE(O, 0)),
        "o");
}

/* The cache of this layer with what this run adds: x is [B, S, width]. */
static BufferId cached(Recipe *m, const char *name, BufferId x, int64_t width)
{
    const int64_t B = m->sequences, shape[] = {B, m->cached, width};
    const BufferId cache = record_tensor(m->r, OWNER_state, recipe_label(m, name), m->act, 0, 3, shape);
    record(m->r, "cache_write", ARG(x, SHAPED(m, x, B, m->positions, width)), ARG(cache, cache), OFFSET);
    return cache;
}

/* ---- grouped heads ---- */

static BufferId head_norm(Recipe *m, BufferId x, int64_t heads, ModelWeightId gain)
{
    const int64_t T = m->sequences * m->positions, D = m->c->rope_dim;
    if (!m->c->qk_norm)
        return x;
    return out(record(m->r, "head_norm", ARG(x, SHAPED(m, x, T, heads, D)), ARG(gain, recipe_weight(m, gain)),
                      ARG(eps, recipe_number(m, "eps", m->c->eps))),
               "y");
}

typedef struct Projected {
    BufferId q, k, v; /* [B, S, heads, D], [B, S, kv_heads, D], [B, S, kv_heads, v_dim]; q and k rotated */
} Projected;

static Projected project(Recipe *m, BufferId x)
{
    const ModelConfig *c = m->c;
    const Call made = record(m->r, "qkv", ARG(x, x), ARG(gain, recipe_weight(m, MODEL_attn_gain)),
                             ARG(eps, recipe_number(m, "eps", c->eps)), ARG(wq, recipe_weight(m, MODEL_wq)),
                             ARG(wk, recipe_weight(m, MODEL_wk)), ARG(wv, recipe_weight(m, MODEL_wv)));
    const BufferId q = head_norm(m, out(made, "q"), c->heads, MODEL_q_gain);
    const BufferId k = head_norm(m, out(made, "k"), c->kv_heads, MODEL_k_gain);
    return (Projected){rotate(m, q, c->heads), rotate(m, k, c->kv_heads),
                       SHAPED(m, out(made, "v"), m->sequences, m->positions, c->kv_heads, c->v_dim)};
}

/* Heads of keys or values for all heads of queries: [B, S, kv_heads, D] -> [B, S, heads, D]. */
static BufferId shared_heads(Recipe *m, BufferId x, int64_t D)
{
    const ModelConfig *c = m->c;
    const int64_t B = m->sequences, S = m->positions, each = c->heads / c->kv_heads;
    if (each == 1)
        return x;
    x = SHAPED(m, x, B * S, c->kv_heads, D);
    return SHAPED(m, out(record(m->r, "repeat_heads", ARG(x, x), SIZE(X, each)), "y"), B, S, c->heads, D);
}

static BufferId grouped_attention(Recipe *m, BufferId x)
{
    const ModelConfig *c = m->c;
    const int64_t B = m->sequences, S = m->positions, M = c->kv_heads, X = c->heads / M, D = c->rope_dim,
                  U = c->v_dim;
    const Projected p = project(m, x);
    if (!m->cached)
        return attend(m, p.q, shared_heads(m, p.k, D), shared_heads(m, p.v, U));
    const BufferId k = cached(m, "keys", p.k, M * D), v = cached(m, "values", p.v, M * U);
    return out(record(m->r, "attention_cached", ARG(q, SHAPED(m, p.q, B, S, M, X, D)),
                      ARG(k, SHAPED(m, k, B, m->cached, M, D)), ARG(v, SHAPED(m, v, B, m->cached, M, U)),
                      ARG(scale, score_scale(m)), OFFSET),
               "o");
}

/* ---- latents ---- */

/* The norms of DeepSeek-V3's latents do not take the eps of its config. */
static BufferId latent_eps(Recipe *m)
{
    if (m->c->arch == ARCH_deepseek_v3)
        return recipe_number(m, "latent.eps", 1e-6);
    return recipe_number(m, "eps", m->c->eps);
}

typedef struct Latents {
    BufferId q;   /* [B, S, heads, nope + rope], rotated */
    BufferId ckv; /* [T, J + rope]: the latent of keys and values, and the key that is to be rotated */
} Latents;

static Latents latents(Recipe *m, BufferId x)
{
    const ModelConfig *c = m->c;
    const BufferId eps = recipe_number(m, "eps", c->eps);
    const Call down =
        record(m->r, "mla_down", ARG(x, x), ARG(gain, recipe_weight(m, MODEL_attn_gain)), ARG(eps, eps),
               ARG(wq, recipe_weight(m, c->q_lora ? MODEL_wq_a : MODEL_wq)),
               ARG(wkv, recipe_weight(m, MODEL_wkv_a)), SIZE(J, c->kv_lora), SIZE(P, c->rope_dim / 2));
    BufferId q = out(down, "cq");
    if (c->q_lora)
        q = out(record(m->r, "mla_queries", ARG(cq, q), ARG(gain, recipe_weight(m, MODEL_q_a_gain)),
                       ARG(eps, latent_eps(m)), ARG(w, recipe_weight(m, MODEL_wq_b))),
                "q");
    return (Latents){rotate(m, q, c->heads), out(down, "ckv")};
}

/* Keys and values of all heads from the latent: attention over the sequence itself. */
static BufferId expanded_attention(Recipe *m, const Latents *l)
{
    const ModelConfig *c = m->c;
    const int64_t B = m->sequences, S = m->positions;
    const BufferId kv =
        out(record(m->r, "mla_keys_values", ARG(ckv, l->ckv), ARG(gain, recipe_weight(m, MODEL_kv_a_gain)),
                   ARG(eps, latent_eps(m)), ARG(w, recipe_weight(m, MODEL_wkv_b)), SIZE(P, c->rope_dim / 2)),
            "kv");
    const Call made =
        record(m->r, "mla_expand", ARG(kv, SHAPED(m, kv, B, S, c->heads, c->nope_dim + c->v_dim)),
               ARG(ckv, SHAPED(m, l->ckv, B, S, c->kv_lora + c->rope_dim)), PARTS, SIZE(U, c->v_dim),
               SIZE(J, c->kv_lora));
    return attend(m, l->q, out(made, "k"), out(made, "v"));
}

/* The cache keeps latents; queries go into their space, so keys and values are never expanded. */
static BufferId latent_attention_cached(Recipe *m, const Latents *l)
{
    const ModelConfig *c = m->c;
    const int64_t width = c->kv_lora + c->rope_dim;
    const BufferId kept =
        out(record(m->r, "mla_latent", ARG(ckv, SHAPED(m, l->ckv, m->sequences, m->positions, width)),
                   ARG(gain, recipe_weight(m, MODEL_kv_a_gain)), ARG(eps, latent_eps(m)), PARTS,
                   SIZE(J, c->kv_lora)),
            "kept");
    return out(record(m->r, "mla_cached", ARG(q, l->q), ARG(cache, cached(m, "latents", kept, width)),
                      ARG(w, recipe_weight(m, MODEL_wkv_b)), ARG(scale, score_scale(m)), OFFSET,
                      SIZE(Q, c->nope_dim), SIZE(U, c->v_dim), SIZE(P, c->rope_dim / 2), SIZE(J, c->kv_lora)),
               "o");
}

static BufferId latent_attention(Recipe *m, BufferId x)
{
    const Latents l = latents(m, x);
    return m->cached ? latent_attention_cached(m, &l) : expanded_attention(m, &l);
}

BufferId recipe_attention(Recipe *m, BufferId x)
{
    const ModelConfig *c = m->c;
    const BufferId heads = model_is_latent(c) ? latent_attention(m, x) : grouped_attention(m, x);
    const BufferId o = SHAPED(m, heads, m->sequences * m->positions, c->heads * c->v_dim),
                   w = recipe_weight(m, MODEL_wo);
    if (c->sandwich_norm)
        return recipe_add(m, x, out(record(m->r, "project_branch", ARG(o, o), ARG(w, w)), "y"),
                          MODEL_attn_post_gain);
    return out(record(m->r, "project", ARG(x, x), ARG(o, o), ARG(w, w)), "y");
}
