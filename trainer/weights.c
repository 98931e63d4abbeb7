#include "trainer/trainer.h"

static void draw(float *at, Random *random, const ModelWeight *w)
{
    const int64_t n = model_weight_elements(w);
    for (int64_t i = 0; i < n; i++)
        at[i] = w->deviation > 0 ? (float)w->value + (float)random_normal(random) * (float)w->deviation
                                 : (float)w->value;
}

void weights_draw(const ModelWeights *all, float *const *masters, uint64_t seed)
{
    Random random = random_new(seed);
    for (ModelWeightId id = 0; id < MODEL_WEIGHT_COUNT; id++)
        for (uint32_t i = 0; i < all->len; i++)
            if (all->at[i].id == id)
                draw(masters[i], &random, &all->at[i]);
}
