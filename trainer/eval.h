/* What the files of `moe-train eval` share. */
#ifndef TRAINER_EVAL_H
#define TRAINER_EVAL_H

#include "trainer/session.h"

typedef struct EvalOptions {
    Arena *arena;
    const char *model, *tokens, *gradients, *logits;
    Vec(const char *) data; /* as --data of training; none with --tokens */
    int64_t sequence;       /* positions of a window of it; 0: not said */
    double validation;      /* the share whose validation part is evaluated; 0: all */
    double data_limit;      /* MiB; 0: not said */
    int f32, threads, whole;
} EvalOptions;

/* The loss on all windows of --data. Returns 0, or 1 with a message printed. */
int eval_data(const EvalOptions *o, const ModelConfig *model);

#endif
