/* A training run, and the steps of its flow in the order they happen:
 * next batch -> strategy.before -> forward -> loss -> backward -> strategy.reduce -> clip -> optimizer
 * -> strategy.after -> log. Functions that return int give 0, or 1 with a message printed. */
#ifndef TRAINER_TRAINER_H
#define TRAINER_TRAINER_H

#include "trainer/data.h"
#include "trainer/kernels.h"
#include "trainer/model.h"

typedef struct Trainer Trainer;

/* How a step is shared out. One row of strategy.def each; strategy_single.c is the one to copy. */
typedef struct Strategy {
    const char *name;
    int (*before)(Trainer *t); /* the batch is there, nothing is computed */
    int (*reduce)(Trainer *t); /* the gradients of this process are summed */
    int (*after)(Trainer *t);  /* the weights are new */
} Strategy;
const Strategy *strategy_find(const char *name); /* NULL when there is none */

struct Trainer {
    const Config *config;
    const TrainData *data;
    const Strategy *strategy;
    Kernels *kernels;
    Model model;
    Buffers buffers;
    Random random; /* of the batches */
    int64_t step;  /* finished ones */
    /* of the last step */
    double loss, balance, norm, lr;
};

/* trainer.c. check: as for kernels_new. */
int trainer_new(Trainer *t, const Config *c, const TrainData *d, int check);
void trainer_free(Trainer *t);

/* step.c */
int step_run(Trainer *t);
int step_validate(Trainer *t, double *loss); /* nat per byte over the fixed batches */

/* init.c: the initial weights. */
int init_weights(Trainer *t);

/* forward.c: from buffers.ids, and targets, of `sequences` sequences of `positions`. */
int forward_layers(Trainer *t, int64_t sequences, int64_t positions);
int forward_loss(Trainer *t);

/* backward.c: adds the gradients of share * (loss + balance losses) of the last forward to model.gradient. */
int backward(Trainer *t, float share);

/* optimizer.c */
int optimizer_zero(Trainer *t); /* gradients */
int optimizer_clip(Trainer *t); /* t->norm, and the factor that optimizer_update applies */
int optimizer_update(Trainer *t);

/* sample.c: prints text that continues the prompt. */
int sample_text(Trainer *t);

/* check.c: --check. */
int check_run(const Config *c, const TrainData *d);

/* Places of a weight of one layer (0 for those that stand once). */
static inline const uint16_t *weight_bf16(const Trainer *t, WeightId id, int64_t layer)
{
    return t->model.copy[id][layer];
}
static inline const float *weight_f32(const Trainer *t, WeightId id, int64_t layer)
{
    return t->model.master + t->model.offset[id][layer];
}
static inline float *weight_gradient(const Trainer *t, WeightId id, int64_t layer)
{
    return t->model.gradient + t->model.offset[id][layer];
}

#endif
