#include "trainer/trainer.h"

#include <stdlib.h>

static void set_sizes(Trainer *t)
{
    const ModelSizes *s = &t->model.sizes;
    Kernels *k = t->kernels;
    kernels_size(k, SIZE_H, s->H);
    kernels_size(k, SIZE_N, s->N);
    kernels_size(k, SIZE_D, s->D);
    kernels_size(k, SIZE_A, s->A);
    kernels_size(k, SIZE_K, s->K);
    kernels_size(k, SIZE_E, s->E);
    kernels_size(k, SIZE_F, s->F);
    kernels_size(k, SIZE_G, s->G);
    kernels_size(k, SIZE_V, s->V);
}

static int make_rotary_table(Trainer *t)
{
    const Buffers *b = &t->buffers;
    float base = (float)t->config->rotary_base;
    kernels_size(t->kernels, SIZE_S, t->model.sizes.S);
    return CALL(t->kernels, rotary_table, ARG(base, &base), ARG(c, b->cosine[0]), ARG(s, b->sine[0]));
}

int trainer_new(Trainer *t, const Config *c, const TrainData *d, int check)
{
    *t = (Trainer){.config = c, .data = d, .strategy = strategy_find(c->strategy)};
    if (!t->strategy) {
        fprintf(stderr, "moe-train: --strategy %s: there is no such strategy\n", c->strategy);
        return 1;
    }
    const ModelSizes sizes = model_sizes(c);
    if (model_check_memory(&sizes))
        return 1;
    t->random = random_new((uint64_t)c->seed + 1);
    t->kernels = kernels_new((int)c->threads, check);
    if (!t->kernels || model_new(&t->model, c, t->kernels) || buffers_new(&t->buffers, &t->model.sizes))
        return 1;
    set_sizes(t);
    return make_rotary_table(t) || init_weights(t);
}

void trainer_free(Trainer *t)
{
    buffers_free(&t->buffers);
    model_free(&t->model);
    kernels_free(t->kernels);
}
