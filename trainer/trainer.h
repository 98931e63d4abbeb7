/* A training run: programs of a session, and the loop around them. Functions that return int give 0, or 1 with a message
 * printed. */
#ifndef TRAINER_TRAINER_H
#define TRAINER_TRAINER_H

#include "trainer/config.h"
#include "trainer/data.h"
#include "trainer/generate.h"
#include "trainer/loader.h"
#include "trainer/session.h"

typedef struct Trainer {
    const Config *config;
    const TrainData *data;
    Session session;
    Run *setup, *step, *evaluation;
    Generator generator;        /* of the sample at the end */
    Loader *loader;
    Random random;              /* of the batches; the loader's thread uses it */
    int64_t validation_batch;   /* the next one that `evaluation` reads */
    int64_t sequences;          /* of a micro-batch */
    int64_t steps;              /* finished ones */
    float **losses, **balances; /* [micro-batches], [micro-batches x layers with experts]: where the step leaves them */
    int64_t nbalances;
    float *rate, *k1, *k2;      /* where the step reads the learning rate and AdamW's corrections */
    const float *norm_at;
    double loss, balance, norm, lr; /* of the last step */
} Trainer;

/* check: each call of a kernel is compared with the interpreter. */
int trainer_new(Trainer *t, const Config *c, const TrainData *d, int check);
void trainer_free(Trainer *t);
int trainer_step(Trainer *t);
int trainer_validate(Trainer *t, double *loss); /* nat per byte over the fixed batches */

/* check.c: --check. */
int check_run(const Config *c, const TrainData *d);

/* The initial weights: weights.c. The one place where the host writes floating-point values into a tensor: it makes data, normally
 * distributed numbers of the run's seed, the same on every machine and for every thread count. */
void weights_draw(Session *s, uint64_t seed);

/* generate.c: prints text that continues the prompt. */
int sample_text(Trainer *t);

#endif
