#include "trainer/kept.h"

static const char *const words[] = {
    [KEPT_MASTERS] = SHARD_MASTERS, [KEPT_MOMENT1] = SHARD_MOMENT1, [KEPT_MOMENT2] = SHARD_MOMENT2};
static const char *const prefixes[] = {
    [KEPT_MASTERS] = "", [KEPT_MOMENT1] = "moment1.", [KEPT_MOMENT2] = "moment2."};

/* Where the first element of it is. */
static float *place_of(const Session *s, Kept kept, const ModelWeight *w, const WeightShard *shard)
{
    if (shard->shard == POOL_NONE)
        return session_at(s, "%s%s", prefixes[kept], w->name);
    float *at = session_at(s, SHARD_NAME, pool_table[shard->shard].name, words[kept]);
    return at ? at + shard->at : NULL;
}

WeightSlice *kept_slices(Arena *a, const Session *s, Kept kept)
{
    WeightSlice *slices = arena_array(a, WeightSlice, s->weights.len + 1);
    for (uint32_t i = 0; i < s->weights.len; i++) {
        const ModelWeight *w = &s->weights.at[i];
        const WeightShard shard = model_weight_shard(&s->shards, &s->ranks, s->rank, w, i);
        slices[i] = (WeightSlice){shard.part, shard.begin, shard.end, place_of(s, kept, w, &shard)};
    }
    return slices;
}

WeightSlice *kept_saved(Arena *a, const Session *s, Kept kept)
{
    WeightSlice *slices = kept_slices(a, s, kept);
    for (uint32_t i = 0; i < s->weights.len && s->rank; i++)
        if (s->shards.weights[i].pool == POOL_VECTORS || s->shards.weights[i].pool == POOL_NONE)
            slices[i].at = NULL;
    return slices;
}
