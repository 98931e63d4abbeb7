#include "trainer/trainer.h"

#include <math.h>

int optimizer_zero(Trainer *t)
{
    float zero = 0;
    kernels_size(t->kernels, SIZE_P, t->model.count);
    return CALL(t->kernels, fill, ARG(x, t->model.gradient), ARG(value, &zero));
}

int optimizer_clip(Trainer *t)
{
    const Buffers *b = &t->buffers;
    float limit = (float)t->config->clip;
    kernels_size(t->kernels, SIZE_C, t->model.count / NORM_ROW);
    kernels_size(t->kernels, SIZE_M, NORM_ROW);
    if (CALL(t->kernels, clip, ARG(g, t->model.gradient), ARG(limit, &limit), ARG(norm, b->norm[0]),
             ARG(factor, b->factor[0])))
        return 1;
    t->norm = *b->norm[0];
    return 0;
}

/* Linear warm-up, then a cosine from --lr down to --lr-end of it. */
static double learning_rate(const Config *c, int64_t step)
{
    if (step < c->warmup)
        return c->lr * (double)(step + 1) / (double)c->warmup;
    double left = c->steps > c->warmup ? (double)(step - c->warmup) / (double)(c->steps - c->warmup) : 0;
    return c->lr * (c->lr_end + (1 - c->lr_end) * 0.5 * (1 + cos(3.141592653589793 * left)));
}

/* What a step down the gradients is, of all weights. */
typedef struct OptimizerStep {
    float lr, b1, b2, eps, decay, k1, k2;
} OptimizerStep;

static int update(Trainer *t, WeightId id, int64_t l, const OptimizerStep *s)
{
    static const KernelId kernels[] = {
        [FORM_NORM] = KERNEL_adamw, [FORM_ROWS] = KERNEL_adamw_rows, [FORM_PACKED] = KERNEL_adamw_packed};
    const Model *m = &t->model;
    const WeightForm form = weight_table[id].form;
    const float none = 0, *decay = form == FORM_NORM ? &none : &s->decay;
    const int64_t at = m->offset[id][l];
    const TrainArg copy = form == FORM_NORM ? (TrainArg){0} : (TrainArg)ARG(w, m->copy[id][l]);
    weight_size(t->kernels, id, &m->sizes);
    return kernels_call(t->kernels, kernels[form],
                        (const TrainArg[]){ARG(p, m->master + at),
                                           ARG(m, m->first + at),
                                           ARG(v, m->second + at),
                                           ARG(g, m->gradient + at),
                                           ARG(factor, t->buffers.factor[0]),
                                           ARG(lr, &s->lr),
                                           ARG(b1, &s->b1),
                                           ARG(b2, &s->b2),
                                           ARG(eps, &s->eps),
                                           ARG(decay, decay),
                                           ARG(k1, &s->k1),
                                           ARG(k2, &s->k2),
                                           copy,
                                           {0}});
}

int optimizer_update(Trainer *t)
{
    const Config *c = t->config;
    double step = (double)(t->step + 1);
    t->lr = learning_rate(c, t->step);
    OptimizerStep s = {(float)t->lr,
                       (float)c->beta1,
                       (float)c->beta2,
                       (float)c->epsilon,
                       (float)c->decay,
                       (float)(1 / (1 - pow(c->beta1, step))),
                       (float)(1 / (1 - pow(c->beta2, step)))};
    for (WeightId id = 0; id < WEIGHT_COUNT; id++)
        for (int64_t l = 0; l < model_layers(&t->model, id); l++)
            if (update(t, id, l, &s))
                return 1;
    return 0;
}
