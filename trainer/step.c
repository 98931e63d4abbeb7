#include "trainer/trainer.h"

#include <math.h>

/* Mean over the layers of the balance losses of the last forward. */
static double read_balance(const Buffers *b)
{
    double sum = 0;
    for (int64_t l = 0; l < b->layers; l++)
        sum += *b->balance[l];
    return sum / (double)b->layers;
}

static int run_micro_batch(Trainer *t, double share)
{
    const Buffers *b = &t->buffers;
    const ModelSizes *s = &t->model.sizes;
    data_train_batch(t->data, &t->random, s->B, s->S, b->ids[0], b->targets[0]);
    if (forward_layers(t, s->B, s->S) || forward_loss(t) || backward(t, (float)share))
        return 1;
    t->loss += share * *b->loss[0];
    t->balance += share * read_balance(b);
    return 0;
}

static int check_finite(const Trainer *t)
{
    if (isfinite(t->loss) && isfinite(t->norm))
        return 0;
    fprintf(
        stderr,
        "moe-train: step %lld: the loss is %g and the norm of the gradients %g: training has diverged; try a "
        "smaller --lr or a longer --warmup\n",
        (long long)t->step + 1, t->loss, fabs(t->norm)); /* fabs: a NaN without its sign */
    return 1;
}

int step_run(Trainer *t)
{
    int64_t parts = t->config->micro_batches;
    t->loss = t->balance = 0;
    if (t->strategy->before(t) || optimizer_zero(t))
        return 1;
    for (int64_t i = 0; i < parts; i++)
        if (run_micro_batch(t, 1.0 / (double)parts))
            return 1;
    if (t->strategy->reduce(t) || optimizer_clip(t) || check_finite(t) || optimizer_update(t) ||
        t->strategy->after(t))
        return 1;
    t->step++;
    return 0;
}

int step_validate(Trainer *t, double *loss)
{
    const Buffers *b = &t->buffers;
    const ModelSizes *s = &t->model.sizes;
    double sum = 0;
    for (int64_t i = 0; i < t->config->validation_batches; i++) {
        data_validation_batch(t->data, t->config, i, b->ids[0], b->targets[0]);
        if (forward_layers(t, s->B, s->S) || forward_loss(t))
            return 1;
        sum += *b->loss[0];
    }
    *loss = sum / (double)t->config->validation_batches;
    return 0;
}
