#include "trainer/trainer.h"

static void draw(Session *s, Random *random, const ModelWeight *w)
{
    float *at = session_at(s, "%s", w->name);
    const int64_t n = model_weight_elements(w);
    for (int64_t i = 0; i < n; i++)
        at[i] = w->deviation > 0 ? (float)w->value + (float)random_normal(random) * (float)w->deviation
                                 : (float)w->value;
}

void weights_draw(Session *s, uint64_t seed)
{
    Random random = random_new(seed);
    for (ModelWeightId id = 0; id < MODEL_WEIGHT_COUNT; id++)
        for (uint32_t i = 0; i < s->weights.len; i++)
            if (s->weights.at[i].id == id)
                draw(s, &random, &s->weights.at[i]);
}
