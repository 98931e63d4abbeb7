#include "model/count.h"

/* ---- parameters ---- */

static void add(ModelParameters *to, ModelParameters from)
{
    to->total += from.total;
    to->active += from.active;
}

/* Of one weight; the correction bias is no parameter, because no gradient moves it. */
static ModelParameters weight_parameters(const ModelConfig *c, const ModelWeight *w)
{
    if (!model_weight_has_gradient(w))
        return (ModelParameters){0};
    int64_t n = model_weight_elements(w);
    int64_t active = model_weight_row(w)->module == MODULE_EXPERTS ? n / c->experts * c->top_k : n;
    return (ModelParameters){n, active};
}

/* Of one layer, or (-1) of none. */
static void count_layer(const ModelConfig *c, int64_t layer, ModelParameters module[MODULE_COUNT])
{
    ModelWeight w;
    for (ModelWeightId id = 0; id < MODEL_WEIGHT_COUNT; id++)
        if (model_weight(c, id, layer, &w))
            add(&module[model_weight_table[id].module], weight_parameters(c, &w));
}

static ModelParameters sum(const ModelParameters module[MODULE_COUNT])
{
    ModelParameters all = {0};
    for (int i = 0; i < MODULE_COUNT; i++)
        add(&all, module[i]);
    return all;
}

static ModelParameters layer_parameters(const ModelConfig *c, int64_t layer)
{
    ModelParameters module[MODULE_COUNT] = {0};
    count_layer(c, layer, module);
    return sum(module);
}

ModelCount model_count(const ModelConfig *c)
{
    ModelCount n = {0};
    for (int64_t layer = -1; layer < c->layers; layer++)
        count_layer(c, layer, n.module);
    for (int64_t layer = c->layers; layer < c->layers + c->mtp; layer++)
        count_layer(c, layer, n.mtp);
    n.all = sum(n.module);
    n.all_mtp = sum(n.mtp);
    if (model_is_dense(c, 0))
        n.dense_layer = layer_parameters(c, 0);
    if (!model_is_dense(c, c->layers - 1))
        n.expert_layer = layer_parameters(c, c->layers - 1);
    return n;
}

int64_t model_vocabulary(const ModelConfig *c) { return c->vocab * c->hidden; }

/* ---- operations ---- */

/* Products with the matrices of a layer. */
static double product_flops(const ModelConfig *c, int64_t layer)
{
    ModelWeight w;
    double flops = 0;
    for (ModelWeightId id = 0; id < MODEL_WEIGHT_COUNT; id++)
        if (model_weight(c, id, layer, &w) && model_weight_table[id].form == MODEL_PACKED)
            flops += 2 * (double)weight_parameters(c, &w).active;
    return flops;
}

static double attention_flops(const ModelConfig *c, int64_t positions, int causal)
{
    double full = 2 * (double)positions * (double)c->heads * (double)(c->nope_dim + c->rope_dim + c->v_dim);
    return causal ? full / 2 : full;
}

ModelFlops model_flops(const ModelConfig *c, int64_t positions, int causal)
{
    double attention = attention_flops(c, positions, causal);
    double experts = c->experts ? (double)(c->layers - c->dense_layers) : 0;
    ModelFlops f = {.head = 2 * (double)model_vocabulary(c)};
    if (model_is_dense(c, 0))
        f.dense_layer = product_flops(c, 0) + attention;
    if (!model_is_dense(c, c->layers - 1))
        f.expert_layer = product_flops(c, c->layers - 1) + attention;
    if (c->mtp)
        f.mtp = product_flops(c, c->layers) + attention + f.head;
    f.forward = ((double)c->layers - experts) * f.dense_layer + experts * f.expert_layer + f.head +
                (double)c->mtp * f.mtp;
    f.training = 3 * f.forward;
    return f;
}
