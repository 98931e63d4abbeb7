/* What a run is beside its weights and moments: a few numbers, from which everything that is still to come follows. */
#ifndef TRAINER_STATE_H
#define TRAINER_STATE_H

#include "model/model.h"

typedef struct TrainState {
    int64_t steps;     /* finished ones */
    int64_t updates;   /* of them, those that moved the weights */
    int64_t skipped;   /* in a row up to the last step: steps that did not */
    int64_t sequences; /* read of the training part, in the order that --seed chooses */
    int64_t data;      /* data_fingerprint() of what they were read from */
    float norm_mean;   /* of the gradients, over the updates; the last 50 or so count most */
} TrainState;

/* As safetensors, a number for each field. NULL, or a message. */
const char *state_write(Arena *a, const char *path, const TrainState *s);
const char *state_read(Arena *a, const char *path, TrainState *s);

#endif
