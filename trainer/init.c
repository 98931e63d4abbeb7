/* The initial weights. This is the one place where the host writes floating-point values into a tensor: it
 * makes data, normally distributed numbers of the run's seed, the same on every machine and for every thread
 * count. All arithmetic on them (scaling, rounding to bf16) is done by kernels. */
#include "trainer/trainer.h"

static void sample_normal(Random *random, float *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        at[i] = (float)random_normal(random);
}

static int init_matrix(Trainer *t, Random *random, WeightId id, float *at)
{
    int64_t n = weight_elements(id, &t->model.sizes);
    float factor = (float)weight_shape(id, &t->model.sizes).deviation;
    sample_normal(random, at, n);
    return CALL(t->kernels, scale, ARG(x, at), ARG(factor, &factor));
}

static int init_norm(Trainer *t, float *at)
{
    float one = 1;
    return CALL(t->kernels, fill, ARG(x, at), ARG(value, &one));
}

static int init_weight(Trainer *t, Random *random, WeightId id, int64_t l)
{
    Model *m = &t->model;
    float *at = m->master + m->offset[id][l];
    weight_size(t->kernels, id, &m->sizes);
    switch (weight_table[id].form) {
    case FORM_NORM: return init_norm(t, at);
    case FORM_ROWS:
        return init_matrix(t, random, id, at) ||
               CALL(t->kernels, narrow_rows, ARG(p, at), ARG(w, m->copy[id][l]));
    case FORM_PACKED:
        return init_matrix(t, random, id, at) ||
               CALL(t->kernels, narrow_packed, ARG(p, at), ARG(w, m->copy[id][l]));
    }
    return 1;
}

int init_weights(Trainer *t)
{
    Random random = random_new((uint64_t)t->config->seed);
    for (WeightId id = 0; id < WEIGHT_COUNT; id++)
        for (int64_t l = 0; l < model_layers(&t->model, id); l++)
            if (init_weight(t, &random, id, l))
                return 1;
    return 0;
}
