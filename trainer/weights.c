#include "trainer/trainer.h"

/* Every rank draws all numbers, in one order, and keeps its own. */
static void draw(const WeightSlice *s, Random *random, const ModelWeight *w)
{
    const int64_t n = model_weight_elements(w);
    for (int64_t i = 0; i < n; i++) {
        const double drawn = w->deviation > 0 ? random_normal(random) : 0;
        const int64_t own = weight_part_of(&s->part, i);
        if (own >= s->begin && own < s->end)
            s->at[own - s->begin] = (float)w->value + (float)drawn * (float)w->deviation;
    }
}

void weights_draw(const ModelWeights *all, const WeightSlice *masters, uint64_t seed)
{
    Random random = random_new(seed);
    for (ModelWeightId id = 0; id < MODEL_WEIGHT_COUNT; id++)
        for (uint32_t i = 0; i < all->len; i++)
            if (all->at[i].id == id)
                draw(&masters[i], &random, &all->at[i]);
}
