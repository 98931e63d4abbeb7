/* Masters and moments as whole tensors, wherever the ranks keep them. Functions that return int give 0, or 1 with a message printed.
 *
 * Ranks of ep have some of the experts each, those of tp some of the heads and columns, and where only dp is shared, each rank
 * has a shard of all weights but vectors: Note [Shards] of model/shards.h. */
#ifndef TRAINER_WHOLE_H
#define TRAINER_WHOLE_H

#include "trainer/trainer.h"

typedef enum Kept { KEPT_MASTERS, KEPT_MOMENT1, KEPT_MOMENT2 } Kept;

typedef struct Whole {
    const Trainer *t;
    Kept kept;
    float *memory;        /* of weights that ranks share; NULL: there are none */
    int64_t elements;
    float **at;           /* by weight of the session: its elements; NULL: it has none of that kind */
} Whole;

/* What all ranks have alike is where programs read it; what they share is zeros here until it is filled. */
int whole_open(Whole *w, const Trainer *t, Kept kept);
void whole_keep(const Whole *w);   /* this rank's parts become what is here */
int whole_collect(const Whole *w); /* the parts of all ranks come to the first one; every rank calls it */
void whole_close(Whole *w);

#endif
