#include "model/weights.h"

#include <math.h>
#include <string.h>

const char *const model_module_titles[MODULE_COUNT] = {
#define MODULE(id, title) title,
#include "model/weights.def"
};

const ModelWeightRow model_weight_table[MODEL_WEIGHT_COUNT] = {
#define WEIGHT(id, scope, module, when, form, start, matrices, rows, columns, tensor, doc) \
    {#id, doc, SCOPE_##scope, MODULE_##module, MODEL_##form, START_##start},
#include "model/weights.def"
};

/* ---- start ---- */

static double gain_at(double c, int64_t layers) { return c > 0 ? c / sqrt((double)layers) : 1; }

static double start_value(const ModelConfig *c, ModelStart start)
{
    switch (start) {
    case START_ONE: return 1;
    case START_ATTENTION: return gain_at(c->attention_gain, c->layers);
    case START_MLP: return gain_at(c->mlp_gain, c->layers);
    case START_ZERO:
    case START_EMBEDDING:
    case START_HEAD:
    case START_IN:
    case START_OUT: return 0;
    }
    return 0;
}

static double embedding_deviation(const ModelConfig *c)
{
    if (c->embedding_range > 0)
        return c->embedding_range;
    return c->initializer == INIT_NORMAL ? c->init_range : 0.5;
}

/* By the reduced axis, of `rows` elements. */
static double fan_in_deviation(const ModelConfig *c, ModelStart start, int64_t rows)
{
    if (start == START_HEAD)
        return c->init_range;
    return 1 / sqrt((double)rows * (start == START_OUT ? 2.0 * (double)c->layers : 1));
}

static double matrix_deviation(const ModelConfig *c, ModelStart start, int64_t rows)
{
    switch (c->initializer) {
    case INIT_NORMAL: return c->init_range;
    case INIT_TINY: return sqrt(1 / (2.0 * (double)c->hidden * (double)c->layers));
    case INIT_FAN_IN: return fan_in_deviation(c, start, rows);
    }
    return 0;
}

static double start_deviation(const ModelConfig *c, ModelStart start, int64_t rows)
{
    switch (start) {
    case START_ONE:
    case START_ATTENTION:
    case START_MLP:
    case START_ZERO: return 0;
    case START_EMBEDDING: return embedding_deviation(c);
    case START_HEAD:
    case START_IN:
    case START_OUT: return matrix_deviation(c, start, rows);
    }
    return 0;
}

/* ---- weights ---- */

static int is_in_scope(const ModelConfig *c, ModelScope scope, int64_t layer)
{
    switch (scope) {
    case SCOPE_ONCE: return layer < 0;
    case SCOPE_LAYER: return layer >= 0;
    case SCOPE_MTP: return layer >= c->layers;
    }
    return 0;
}

/* Shape and tensor of a row; 0: there is no such weight. */
static int describe(const ModelConfig *c, ModelWeightId id, int64_t l, ModelWeight *w)
{
    const int64_t V = c->vocab, H = c->hidden, D = c->head_dim, A = c->heads * D, K = c->kv_heads * D;
    const int64_t O = c->heads * c->v_dim, I = c->q_lora, J = c->kv_lora, R = c->rope_dim;
    const int64_t B = c->heads * (c->nope_dim + c->v_dim), G = c->dense_width, E = c->experts;
    const int64_t F = c->expert_width, S = c->shared_width;
    switch (id) {
#define WEIGHT(id, scope, module, when, form, start, m, r, n, t, doc) \
    case MODEL_##id:                                                  \
        w->matrices = (m), w->rows = (r), w->columns = (n);           \
        w->tensor = (t);                                              \
        return (when) != 0;
#include "model/weights.def"
    case MODEL_WEIGHT_COUNT: return 0;
    }
    return 0;
}

int model_weight(const ModelConfig *c, ModelWeightId id, int64_t layer, ModelWeight *out)
{
    const ModelWeightRow *row = &model_weight_table[id];
    *out = (ModelWeight){.id = id, .layer = layer};
    if (!is_in_scope(c, row->scope, layer) || !describe(c, id, layer, out))
        return 0;
    out->tensors = strchr(out->tensor, '#') ? out->matrices : 1;
    out->value = start_value(c, row->start);
    out->deviation = start_deviation(c, row->start, out->matrices / out->tensors * out->rows);
    return 1;
}

static void add_weights(Arena *a, const ModelConfig *c, int64_t layer, ModelWeightId from, ModelWeightId to,
                        ModelWeights *out)
{
    ModelWeight w;
    for (ModelWeightId id = from; id < to; id++)
        if (model_weight(c, id, layer, &w)) {
            const char *name = model_weight_table[id].name;
            w.name = layer < 0 ? name : arena_printf(a, "L%lld.%s", (long long)layer, name);
            vec_push(a, out, w);
        }
}

ModelWeights model_weights(Arena *a, const ModelConfig *c)
{
    ModelWeights out = {0};
    add_weights(a, c, -1, 0, MODEL_final_gain, &out);
    for (int64_t l = 0; l < c->layers + c->mtp; l++)
        add_weights(a, c, l, 0, MODEL_WEIGHT_COUNT, &out);
    add_weights(a, c, -1, MODEL_final_gain, MODEL_WEIGHT_COUNT, &out);
    return out;
}

const ModelWeight *model_weights_find(const ModelWeights *all, ModelWeightId id, int64_t layer)
{
    for (uint32_t i = 0; i < all->len; i++)
        if (all->at[i].id == id && all->at[i].layer == layer)
            return &all->at[i];
    return NULL;
}

/* ---- tensors ---- */

const char *model_tensor_name(Arena *a, const ModelWeight *w, int64_t i)
{
    const char *mark = strchr(w->tensor, '#');
    const char *layer = w->layer < 0 ? "" : arena_printf(a, "model.layers.%lld.", (long long)w->layer);
    if (!mark)
        return arena_printf(a, "%s%s", layer, w->tensor);
    return arena_printf(a, "%s%.*s%lld%s", layer, (int)(mark - w->tensor), w->tensor, (long long)i, mark + 1);
}

uint32_t model_tensor_shape(const ModelWeight *w, int64_t shape[2])
{
    switch (model_weight_row(w)->form) {
    case MODEL_VECTOR:
    case MODEL_BUFFER: shape[0] = w->columns; return 1;
    case MODEL_ROWS: shape[0] = w->rows, shape[1] = w->columns; return 2;
    case MODEL_PACKED: shape[0] = w->columns, shape[1] = w->matrices / w->tensors * w->rows; return 2;
    }
    return 0;
}

static void add_copies(Arena *a, const ModelConfig *c, const char *name, ModelNames *out)
{
    for (int64_t i = 0; i < c->mtp; i++)
        vec_push(a, out, arena_printf(a, "model.layers.%lld.%s", (long long)(c->layers + i), name));
}

ModelNames model_tensor_copies(Arena *a, const ModelConfig *c, const ModelWeight *w)
{
    ModelNames out = {0};
    if (w->id == MODEL_embed)
        add_copies(a, c, "embed_tokens.weight", &out);
    if (w->id == MODEL_head || (w->id == MODEL_embed && c->tied))
        add_copies(a, c, "shared_head.head.weight", &out);
    if (w->id == MODEL_embed && c->tied)
        vec_push(a, &out, "lm_head.weight");
    return out;
}
