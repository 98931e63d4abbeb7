/* A model that programs run on: its kernels, its weights, the memory that programs share. Functions that return int give 0, or 1
 * with a message printed. */
#ifndef TRAINER_SESSION_H
#define TRAINER_SESSION_H

#include "model/model.h"
#include "model/recipe.h"
#include "step/passes.h"
#include "step/ranks.h"
#include "step/run.h"

typedef struct Session {
    Arena *arena;
    ModelConfig model;
    moec_type act;
    RunOptions run; /* of the runs that are started */
    KernelSet *kernels;
    Store *store;
    ModelWeights weights;
    double compile_seconds;
    const char *swap_folder; /* NULL: TMPDIR, or /var/tmp */
    Ranks ranks;             /* that share the programs, through run.door */
    int64_t rank;            /* this one's number */
    ModelShards shards;      /* what each of them keeps of the weights */
} Session;

/* check: as RunOptions.check. */
int session_open(Session *s, const ModelConfig *model, moec_type act, int threads, int check);
void session_close(Session *s);
/* This process is that rank of those that share the session's programs; before any is recorded. Without it, it is alone. */
void session_share(Session *s, const Ranks *ranks, int64_t rank);

/* A recorder of one of the session's programs, of all its ranks together, and the recipe that speaks to it. */
typedef struct Recording {
    Recorder *recorder;
    Recipe recipe;
} Recording;
Recording session_record(Session *s, const char *name, int train, int64_t sequences, int64_t positions);
Program *session_finish(Session *s, const Recording *r); /* NULL with a message printed */
/* Passes over a finished program: step_passes(). */
int session_passes(Program *p, const char *const choices[PASS_COUNT]);
/* The program that makes what the others read of weights and positions. Of all ranks together. */
Program *session_record_setup(Session *s, int64_t positions);

/* Code for all programs that were finished: before the first session_start(). */
int session_compile(Session *s);
/* Work space, places, verification. */
int session_place(Session *s, Program *p);
/* That, and memory and pointers. NULL with a message printed, also where the machine has too little memory. */
Run *session_start(Session *s, Program *p, BatchSource source);
int session_run(Run *r);

/* Memory of a buffer that a started program names. */
void *session_at(const Session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
float *session_number(const Session *s, const char *name); /* a scalar; a place of no use where no program has it */

#endif
