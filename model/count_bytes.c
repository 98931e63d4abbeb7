/* Bytes of weights and of what stands between forward and backward. */
#include "model/count.h"

/* ---- weights ---- */

static double copy_bytes(const ModelWeight *w, int act_bytes)
{
    double n = (double)model_weight_elements(w);
    switch (model_weight_row(w)->form) {
    case MODEL_VECTOR:
    case MODEL_BUFFER: return 0; /* the master is read */
    case MODEL_ROWS: return n * act_bytes;
    case MODEL_PACKED: return n * act_bytes * 2;
    }
    return 0;
}

static void add_layer(const ModelConfig *c, int64_t layer, int act_bytes, ModelBytes *b)
{
    ModelWeight w;
    for (ModelWeightId id = 0; id < MODEL_WEIGHT_COUNT; id++) {
        if (!model_weight(c, id, layer, &w))
            continue;
        double f32 = 4 * (double)model_weight_elements(&w);
        b->masters += f32;
        b->gradients += model_weight_has_gradient(&w) ? f32 : 0;
        b->copies += copy_bytes(&w, act_bytes);
    }
}

/* ---- activations, for one token: f32 and act elements ---- */

typedef struct SavedElements {
    double f32, act;
} SavedElements;

/* Residual stream and normed input of a block; behind it, with sandwich norm, its result. */
static SavedElements saved_norms(const ModelConfig *c)
{
    double h = (double)c->hidden;
    return (SavedElements){h + 1 + (c->sandwich_norm ? 1 : 0), h + (c->sandwich_norm ? h : 0)};
}

/* Latents, and they normed; then queries, keys and values of all heads, the result twice, and two sums of a row. */
static SavedElements saved_attention(const ModelConfig *c)
{
    double heads = (double)c->heads, d = (double)c->head_dim, v = (double)c->v_dim;
    double latents = model_is_latent(c) ? (double)(2 * c->q_lora + 2 * c->kv_lora + c->rope_dim) : 0;
    return (SavedElements){2 * heads + (model_is_latent(c) ? 2 : 0), latents + heads * (2 * d + 3 * v)};
}

/* Both inputs of the product behind silu. Routed experts also keep all scores, and a weight, a number and a row of each choice. */
static SavedElements saved_ffn(const ModelConfig *c, int64_t layer)
{
    if (model_is_dense(c, layer))
        return (SavedElements){0, 2 * (double)c->dense_width};
    double k = (double)c->top_k;
    return (SavedElements){(double)c->experts + 5 * k,
                           2 * (k * (double)c->expert_width + (double)c->shared_width)};
}

static double layer_activations(const ModelConfig *c, int64_t layer, int act_bytes)
{
    SavedElements n = saved_norms(c), a = saved_attention(c), f = saved_ffn(c, layer);
    return 4 * (2 * n.f32 + a.f32 + f.f32) + act_bytes * (2 * n.act + a.act + f.act);
}

/* Normed input and exponentials of the logits. */
static double head_activations(const ModelConfig *c, int act_bytes)
{
    return 4 * (double)(c->hidden + c->vocab + 2) + act_bytes * (double)c->hidden;
}

/* What enters a module: embedding and hidden state, and they normed. */
static double join_activations(const ModelConfig *c, int act_bytes)
{
    return 2 * (double)c->hidden * (4 + act_bytes) + 8;
}

static double cache_bytes(const ModelConfig *c, int act_bytes)
{
    int64_t layer = model_is_latent(c) ? c->kv_lora + c->rope_dim : c->kv_heads * (c->head_dim + c->v_dim);
    return (double)(layer * c->layers) * act_bytes;
}

ModelBytes model_bytes(const ModelConfig *c, int act_bytes)
{
    ModelBytes b = {.cache = cache_bytes(c, act_bytes)};
    for (int64_t layer = -1; layer < c->layers + c->mtp; layer++) {
        add_layer(c, layer, act_bytes, &b);
        if (layer >= 0)
            b.activations += layer_activations(c, layer, act_bytes);
    }
    b.moments = 2 * b.gradients;
    b.activations += (double)(1 + c->mtp) * head_activations(c, act_bytes);
    b.activations += (double)c->mtp * join_activations(c, act_bytes);
    return b;
}
