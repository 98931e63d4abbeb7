/* A training run: programs of a session, and the loop around them. Functions that return int give 0, or 1 with a message
 * printed. */
#ifndef TRAINER_TRAINER_H
#define TRAINER_TRAINER_H

#include "comm/comm.h"
#include "trainer/config.h"
#include "trainer/data.h"
#include "trainer/generate.h"
#include "trainer/loader.h"
#include "trainer/session.h"
#include "trainer/state.h"

/* What each layer with experts tells of a micro-batch (model/recipe.h), and its mean over layers and micro-batches. */
typedef struct LayerMetric {
    const char *name;
    const float **at; /* where the step leaves the values */
    int64_t n;
    double mean;
} LayerMetric;
enum { METRIC_BALANCE, METRIC_DROPPED, METRIC_IMBALANCE, METRIC_COUNT };

typedef struct Trainer {
    const Config *config;
    const TrainData *data;
    Comm *comm;                 /* the ranks of the run */
    int64_t copies, copy;       /* ranks with sequences of their own (dp), and this one's place among them */
    int stop;                   /* a signal that has asked one of the ranks to stop; 0: none */
    double *shared;             /* what they tell each other: job.c */
    Session session;
    Program *program;           /* of `step` */
    Program *setup_program, *evaluation_program;
    Run *setup, *step, *evaluation;
    Generator generator;        /* of the sample at the end */
    int32_t *sample;            /* [prompt_len + --sample] */
    int64_t prompt_len;
    Loader *loader;
    struct StepChoices *choices; /* of --choices and --choices-from; NULL: there are none */
    struct StepTrace *trace;    /* of --trace; NULL: there is none */
    int64_t validation_batch;   /* the next one that `evaluation` reads */
    int64_t sequences;          /* of a micro-batch */
    TrainState state;
    int64_t first_sequence;     /* of the batches that the loader makes */
    const float **losses;       /* [micro-batches]: where the step leaves them */
    LayerMetric metrics[METRIC_COUNT];
    LayerMetric load;           /* with --load-every: by micro-batch and layer f32[experts], this rank's tokens that chose each one */
    double *loads;              /* [layers with experts, experts]: of the last step that was a multiple, those of all ranks */
    float *rate, *k1, *k2;      /* where the step reads the learning rate and AdamW's corrections */
    const float *norm_at;
    float *norm_limit;     /* where the step reads what ends it before the update */
    double loss, norm, lr; /* of the last step */
} Trainer;

/* At the beginning, or where the checkpoint of the options is. check: each call of a kernel is compared with the interpreter. */
int trainer_new(Trainer *t, const Config *c, const TrainData *d, Comm *comm, int check);
/* What trainer_new() does behind the recording of programs: code, memory, weights, the loader. */
int trainer_begin(Trainer *t);
void trainer_free(Trainer *t);
int trainer_step(Trainer *t);
int trainer_validate(Trainer *t, double *loss); /* nat per byte over the fixed batches */

/* tune.c: --tune, between the recording of programs and trainer_begin(). What it cannot do it says, and leaves as it is. */
void tune_run(Trainer *t);

/* check.c: --check. */
int check_run(const Config *c, const TrainData *d, Comm *comm);

/* The initial weights: weights.c. The one place where the host writes floating-point values into a tensor: it makes data, normally
 * distributed numbers of the run's seed, the same on every machine and for every thread count. */
void weights_draw(const ModelWeights *all, const WeightSlice *masters, uint64_t seed);

/* generate.c: reads what the sample at the end continues, --prompt or the first tokens of the validation part; and prints it with what
 * the model makes of it, as text or as a line of JSON with tokens. */
int sample_prompt(Trainer *t);
int sample_print(Trainer *t);

#endif
