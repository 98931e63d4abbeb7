/* Attention: grouped heads or latents, over the sequence itself or over caches; rotary positions. */
#include "model/recipe.h"

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

void recipe_tables(Recipe *m)
{
    const ModelRope rope = model_rope(m->c);
    const Arg base = ARG(base, recipe_number(m, "rope.base", rope.base)),
              low = ARG(low, recipe_number(m, "rope.low", rope.low)),
              high = ARG(high, recipe_number(m, "rope.high", rope.high)),
              size = ARG(size, recipe_number(m, "rope.size", rope.size)),
              factor = ARG(factor, recipe_number(m, "rope.factor", rope.factor));
    if (rotates_halves(m->c))
        record(m->r, "rotary_table", base, factor, low, high, size, HALVES, OFFSET);
    else
        record(m->r, "rotary_part_table", base, factor, low, high, size, PARTS, OFFSET);
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

static BufferId score_scale(Recipe *m) { return recipe_number(m, "score.scale", model_rope(m->c).score); }

static BufferId attend(Recipe *m, BufferId q, BufferId k, BufferId v)
{
    record_module(m->r, "attention");
    return out(
        record(m->r, "attention", ARG(q, q), ARG(k, k), ARG(v, v), ARG(scale, score_scale(m)), SIZE(O, 0)),
        "o");
}

/* The cache of this layer with what this run adds: x is [B, S, width]. over_tp: how x and the cache are placed. */
static BufferId cached(Recipe *m, const char *name, BufferId x, int64_t width, Placement over_tp)
{
    const int64_t B = m->sequences, shape[] = {B, m->cached, width};
    const BufferId cache = record_tensor(m->r, OWNER_state, recipe_label(m, name), m->act, 0, 3, shape);
    recipe_place_own(m, cache);
    record_place(m->r, cache, AXIS_tp, over_tp);
    record(m->r, "cache_write", ARG(x, SHAPED(m, x, B, m->positions, width)), ARG(cache, cache), OFFSET);
    return cache;
}

/* ---- grouped heads ---- */

static BufferId head_norm(Recipe *m, BufferId x, int64_t heads, ModelWeightId gain)
{
    const int64_t T = m->sequences * m->positions, D = m->c->rope_dim;
    if (!m->c->qk_norm)
        return x;
    record_module(m->r, "norms");
    return out(record(m->r, "head_norm", ARG(x, SHAPED(m, x, T, heads, D)), ARG(gain, recipe_weight(m, gain)),
                      ARG(eps, recipe_number(m, "eps", m->c->eps))),
               "y");
}

typedef struct Projected {
    BufferId q, k, v; /* [B, S, heads, D], [B, S, kv_heads, D], [B, S, kv_heads, v_dim]; q and k rotated */
} Projected;

/* Queries, keys and values; over tp of the heads of this rank, from the normed rows of all. */
static Call products(Recipe *m, BufferId x)
{
    const Arg gain = ARG(gain, recipe_weight(m, MODEL_attn_gain)),
              eps = ARG(eps, recipe_number(m, "eps", m->c->eps)), wq = ARG(wq, recipe_weight(m, MODEL_wq)),
              wk = ARG(wk, recipe_weight(m, MODEL_wk)), wv = ARG(wv, recipe_weight(m, MODEL_wv));
    if (record_members(m->r, AXIS_tp) == 1)
        return record(m->r, "qkv", ARG(x, x), gain, eps, wq, wk, wv);
    const BufferId n = out(record(m->r, "norm", ARG(x, x), gain, eps), "n");
    return record(m->r, "qkv_of", ARG(n, recipe_gather(m, n)), wq, wk, wv);
}

static Projected project(Recipe *m, BufferId x)
{
    const ModelConfig *c = m->c;
    record_module(m->r, "qkv");
    const Call made = products(m, x);
    const BufferId q = head_norm(m, out(made, "q"), c->heads, MODEL_q_gain);
    const BufferId k = head_norm(m, out(made, "k"), c->kv_heads, MODEL_k_gain);
    record_module(m->r, "qkv");
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

/* Positions that begin a text attend to each other only. */
static int reads_cache(const Recipe *m) { return m->cached && m->continues; }

static BufferId grouped_attention(Recipe *m, BufferId x)
{
    const ModelConfig *c = m->c;
    const int64_t B = m->sequences, S = m->positions, M = c->kv_heads, X = c->heads / M, D = c->rope_dim,
                  U = c->v_dim;
    const Projected p = project(m, x);
    const BufferId k = m->cached ? cached(m, "keys", p.k, M * D, PLACED_OWN) : STEP_NONE,
                   v = m->cached ? cached(m, "values", p.v, M * U, PLACED_OWN) : STEP_NONE;
    if (!reads_cache(m))
        return attend(m, p.q, shared_heads(m, p.k, D), shared_heads(m, p.v, U));
    return out(record(m->r, "attention_cached", ARG(q, SHAPED(m, p.q, B, S, M, X, D)),
                      ARG(k, SHAPED(m, k, B, m->cached, M, D)), ARG(v, SHAPED(m, v, B, m->cached, M, U)),
                      ARG(scale, score_scale(m)), OFFSET),
               "o");
}

/* ---- latents ---- */

static BufferId latent_eps(Recipe *m) { return recipe_number(m, "latent.eps", m->c->latent_eps); }

typedef struct Latents {
    BufferId q;   /* [B, S, heads, nope + rope], rotated */
    BufferId ckv; /* [T, J + rope]: the latent of keys and values, and the key that is to be rotated */
} Latents;

static Latents latents(Recipe *m, BufferId x)
{
    const ModelConfig *c = m->c;
    const BufferId eps = recipe_number(m, "eps", c->eps);
    record_module(m->r, "latents");
    const Call down =
        record(m->r, "mla_down", ARG(x, x), ARG(gain, recipe_weight(m, MODEL_attn_gain)), ARG(eps, eps),
               ARG(wq, recipe_weight(m, c->q_lora ? MODEL_wq_a : MODEL_wq)),
               ARG(wkv, recipe_weight(m, MODEL_wkv_a)), SIZE(J, c->kv_lora), SIZE(P, c->rope_dim / 2));
    record_module(m->r, "mla");
    BufferId q = recipe_gather(m, out(down, "cq"));
    if (c->q_lora)
        q = out(record(m->r, "mla_queries", ARG(cq, q), ARG(gain, recipe_weight(m, MODEL_q_a_gain)),
                       ARG(eps, latent_eps(m)), ARG(w, recipe_weight(m, MODEL_wq_b))),
                "q");
    return (Latents){rotate(m, q, c->heads), recipe_gather(m, out(down, "ckv"))};
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

/* The cache of latents with those of this run. */
static BufferId latent_cache(Recipe *m, const Latents *l)
{
    const ModelConfig *c = m->c;
    const int64_t width = c->kv_lora + c->rope_dim;
    const BufferId kept =
        out(record(m->r, "mla_latent", ARG(ckv, SHAPED(m, l->ckv, m->sequences, m->positions, width)),
                   ARG(gain, recipe_weight(m, MODEL_kv_a_gain)), ARG(eps, latent_eps(m)), PARTS,
                   SIZE(J, c->kv_lora)),
            "kept");
    return cached(m, "latents", kept, width, PLACED_WHOLE);
}

/* Queries go into the space of the cached latents, so keys and values are never expanded. */
static BufferId latent_attention(Recipe *m, BufferId x)
{
    const ModelConfig *c = m->c;
    const Latents l = latents(m, x);
    const BufferId cache = m->cached ? latent_cache(m, &l) : STEP_NONE;
    if (!reads_cache(m))
        return expanded_attention(m, &l);
    return out(record(m->r, "mla_cached", ARG(q, l.q), ARG(cache, cache),
                      ARG(w, recipe_weight(m, MODEL_wkv_b)), ARG(scale, score_scale(m)), OFFSET,
                      SIZE(Q, c->nope_dim), SIZE(U, c->v_dim), SIZE(P, c->rope_dim / 2), SIZE(J, c->kv_lora)),
               "o");
}

BufferId recipe_attention(Recipe *m, BufferId x)
{
    const ModelConfig *c = m->c;
    const BufferId heads = model_is_latent(c) ? latent_attention(m, x) : grouped_attention(m, x);
    const BufferId o = SHAPED(m, heads, m->sequences * m->positions, c->heads * c->v_dim),
                   w = recipe_weight(m, MODEL_wo);
    record_module(m->r, "project");
    if (!c->sandwich_norm && record_members(m->r, AXIS_tp) == 1)
        return out(record(m->r, "project", ARG(x, x), ARG(o, o), ARG(w, w)), "y");
    const BufferId branch = out(record(m->r, "project_branch", ARG(o, o), ARG(w, w)), "y");
    return recipe_leave(m, x, recipe_scatter(m, branch), MODEL_attn_post_gain);
}
