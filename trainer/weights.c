#include "trainer/trainer.h"

/* Ranks draw all numbers, so that each part is that of the whole weight. */
static void draw(Session *s, Random *random, const ModelWeight *w)
{
    float *at = session_at(s, "%s", w->name);
    const Ranks one = ranks_one();
    const WeightPart part = recipe_part(s->ranks ? s->ranks : &one, s->rank, w);
    const int64_t n = model_weight_elements(w);
    for (int64_t i = 0, own = 0; i < n; i++) {
        const float drawn = w->deviation > 0
                                ? (float)w->value + (float)random_normal(random) * (float)w->deviation
                                : (float)w->value;
        if (own < part.elements && i == weight_part_at(&part, own))
            at[own++] = drawn;
    }
}

void weights_draw(Session *s, uint64_t seed)
{
    Random random = random_new(seed);
    for (ModelWeightId id = 0; id < MODEL_WEIGHT_COUNT; id++)
        for (uint32_t i = 0; i < s->weights.len; i++)
            if (s->weights.at[i].id == id)
                draw(s, &random, &s->weights.at[i]);
}
