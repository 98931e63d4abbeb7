/* Checkpoints: folders DIR/step-00000100 with the model as Hugging Face's `transformers` reads it (f32, so that nothing is lost)
 * and, beside it, the moments, the state of the run and its options. */
#ifndef TRAINER_CHECKPOINT_H
#define TRAINER_CHECKPOINT_H

#include "trainer/whole.h"

/* ---- writing ---- */

/* The folder of --save, which one run at a time writes into. */
typedef struct SaveFolder {
    const char *path; /* NULL: nothing is saved, or another rank writes */
    int asked;        /* for checkpoints */
    int lock;         /* a file descriptor */
    int64_t saved;    /* step of the last checkpoint; -1: none */
    int failed;       /* the last one could not be written */
} SaveFolder;

/* Makes the folder where there is none. Refuses one that cannot be written, that another run holds, or that has whole checkpoints
 * of later steps than the run is at. Returns 0, or 1 with a message printed. */
int save_open(SaveFolder *f, const Config *c, int writes); /* writes: this rank does */
void save_close(SaveFolder *f);
/* Writes a checkpoint and removes those before the last --keep; all ranks call it. An error is printed, and kept in f->failed:
 * training goes on, and the checkpoints before are still there. Returns 0, or 1 with a message: the ranks cannot go on. */
int save_now(SaveFolder *f, Trainer *t);

/* ---- reading ---- */

/* With --resume: finds the checkpoint, sets c->checkpoint and takes the options that were not given from it. Checkpoints that are
 * not whole are passed over and named. Returns 0, or 1 with a message printed. */
int resume_find(Config *c);
/* Is the model of the options, where they name one, that of the checkpoint? */
int resume_check_model(const Config *c);
/* Weights, moments and state of c->checkpoint. */
int resume_load(Trainer *t);

/* ---- both ---- */

typedef struct Checkpoint {
    int64_t step;
    const char *path;
} Checkpoint;
typedef Vec(Checkpoint) Checkpoints;

/* Those of a folder, by step; whole or not. NULL, or a message. */
const char *checkpoint_list(Arena *a, const char *folder, Checkpoints *out);
/* NULL, or why it cannot be used. */
const char *checkpoint_verify(Arena *a, const char *path);

/* Both moments of each weight, in the order of the weights. */
typedef struct OptimizerTensor {
    StoredTensor stored; /* name, type, shape */
    void *at;
} OptimizerTensor;
typedef Vec(OptimizerTensor) OptimizerTensors;
OptimizerTensors checkpoint_optimizer(Arena *a, const Whole *first, const Whole *second);

#define CHECKPOINT_OPTIONS "options.json"
#define CHECKPOINT_OPTIMIZER "optimizer.safetensors"
#define CHECKPOINT_STATE "state.safetensors"

#endif
