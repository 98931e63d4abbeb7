#include "model/shards.h"

enum { STEP = 32 /* elements: each weight begins at whole cache lines */ };

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Elements of the vectors, or of the others, before weight `end` of the list. */
static int64_t elements_before(const ModelWeights *all, int vectors, const ModelWeight *end)
{
    int64_t n = 0;
    for (const ModelWeight *w = all->at; w < end; w++)
        if (model_weight_has_gradient(w) && model_is_vector(w) == vectors)
            n += round_up(model_weight_elements(w), STEP);
    return n;
}

ModelShards model_shards(const ModelWeights *all, int64_t ranks)
{
    const ModelWeight *end = all->at + all->len;
    return (ModelShards){.ranks = ranks,
                         .vector_rows = round_up(elements_before(all, 1, end), SHARD_ROW) / SHARD_ROW,
                         .rows = round_up(elements_before(all, 0, end), SHARD_ROW * ranks) / SHARD_ROW};
}

int64_t model_shards_place(const ModelWeights *all, const ModelWeight *w)
{
    return elements_before(all, model_is_vector(w), w);
}
