/* Checkpoints: folders DIR/step-00000100 with the model as Hugging Face's `transformers` reads it (f32, so that nothing is lost)
 * and, beside it, the moments, the state of the run and its options. */
#ifndef TRAINER_CHECKPOINT_H
#define TRAINER_CHECKPOINT_H

#include "trainer/kept.h"
#include "trainer/trainer.h"

/* ---- writing ---- */

/* The folder of --save, which one run at a time writes into. */
typedef struct SaveFolder {
    const char *path; /* NULL: nothing is saved */
    int lock;         /* a file descriptor of the first rank */
    int64_t saved;    /* step of the last checkpoint; -1: none */
    int failed;       /* the last one could not be written */
} SaveFolder;

/* Makes the folder, and those that it is in, where there are none. Refuses one that cannot be written, that another run holds, or that has whole checkpoints
 * of later steps than the run is at. Returns 0, or 1 with a message printed. */
int save_open(SaveFolder *f, const Config *c, int first); /* first: this is the first rank, which makes and locks it */
void save_close(SaveFolder *f);
/* Writes a checkpoint and removes those before the last --keep; all ranks call it, and each writes what it keeps. An error of any of
 * them is printed by that rank, and kept in f->failed by all: training goes on, and the checkpoints before are still there. Returns 0,
 * or 1 with a message: the ranks cannot go on. */
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

/* FOLDER/step-00000100. */
const char *checkpoint_path(Arena *a, const char *folder, int64_t step);
/* Those of a folder, by step; whole or not. NULL, or a message. */
const char *checkpoint_list(Arena *a, const char *folder, Checkpoints *out);
/* NULL, or why it cannot be used. */
const char *checkpoint_verify(Arena *a, const char *path);

/* Both moments of each weight, in the order of the weights. */
typedef struct OptimizerTensors {
    uint32_t len;
    StoredTensor *stored; /* name, type, shape */
    WeightSlice *slices;  /* what is here of each */
} OptimizerTensors;
OptimizerTensors checkpoint_optimizer(Arena *a, const Session *s, WeightSlice *(*slices)(Arena *, const Session *, Kept));
/* One file, or the index of several. */
const char *checkpoint_optimizer_path(Arena *a, const char *checkpoint);

#define CHECKPOINT_OPTIONS "options.json"
#define CHECKPOINT_OPTIMIZER "optimizer"
#define CHECKPOINT_STATE "state.safetensors"

#endif
