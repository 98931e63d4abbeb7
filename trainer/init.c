/* The initial weights. This is the one place where the host writes floating-point values into a tensor: it
 * makes data, normally distributed numbers of the run's seed, the same on every machine and for every thread
 * count. All arithmetic on them (scaling, rounding to bf16) is done by kernels. */
#include "trainer/trainer.h"

static void draw_normal(Random *random, float *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        at[i] = (float)random_normal(random);
}

static int init_matrix(Trainer *t, Random *random, WeightId id, float *at)
{
    int64_t n = weight_elements(id, &t->model.sizes);
    float factor = (float)weight_deviation(id, &t->model.sizes);
    draw_normal(random, at, n);
    kernels_size(t->kernels, SIZE_P, n);
    return CALL(t->kernels, scale, ARG(x, at), ARG(factor, &factor));
}

static int init_gain(Trainer *t, WeightId id, float *at)
{
    float one = 1;
    kernels_size(t->kernels, SIZE_P, weight_elements(id, &t->model.sizes));
    return CALL(t->kernels, fill, ARG(x, at), ARG(value, &one));
}

int init_weights(Trainer *t)
{
    Random random = random_new((uint64_t)t->config->seed);
    Model *m = &t->model;
    for (WeightId id = 0; id < WEIGHT_COUNT; id++)
        for (int64_t l = 0; l < model_layers(m, id); l++) {
            float *at = m->master + m->offset[id][l];
            if (weight_table[id].is_matrix ? init_matrix(t, &random, id, at) : init_gain(t, id, at))
                return 1;
        }
    kernels_size(t->kernels, SIZE_P, m->count);
    return CALL(t->kernels, narrow, ARG(x, m->master), ARG(y, m->compute));
}
