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

static int update(Trainer *t, int64_t from, int64_t to, double weight_decay)
{
    const Config *c = t->config;
    const Model *m = &t->model;
    double step = (double)(t->step + 1);
    float lr = (float)t->lr, b1 = (float)c->beta1, b2 = (float)c->beta2, eps = (float)c->epsilon;
    float decay = (float)weight_decay, k1 = (float)(1 - pow(c->beta1, step)),
          k2 = (float)(1 - pow(c->beta2, step));
    kernels_size(t->kernels, SIZE_P, to - from);
    return CALL(t->kernels, adamw, ARG(p, m->master + from), ARG(m, m->first + from),
                ARG(v, m->second + from), ARG(g, m->gradient + from), ARG(w, m->compute + from),
                ARG(factor, t->buffers.factor[0]), ARG(lr, &lr), ARG(b1, &b1), ARG(b2, &b2), ARG(eps, &eps),
                ARG(decay, &decay), ARG(k1, &k1), ARG(k2, &k2));
}

int optimizer_update(Trainer *t)
{
    const Model *m = &t->model;
    t->lr = learning_rate(t->config, t->step);
    return update(t, 0, m->matrices, t->config->decay) || update(t, m->matrices, m->count, 0);
}
