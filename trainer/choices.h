/* --choices and --choices-from: which experts the tokens choose, in a file that does not depend on the ranks. So a run on several ranks
 * can go by the choices of one rank, and what it would have chosen can be compared with them: where only rounding differs, so do only
 * choices between scores that are as good as equal.
 *
 * The file has a ChoicesHead, and then for each step from the training's first one on, for each layer with experts, i32[tokens, K], the
 * choices, and f32[tokens, E], the scores. Tokens are in the order of the data. Functions that return int give 0, or 1 with a message
 * printed. */
#ifndef TRAINER_CHOICES_H
#define TRAINER_CHOICES_H

#include "trainer/trainer.h"

typedef struct ChoicesHead {
    char magic[8]; /* "MCHOICE1" */
    int64_t layers, tokens, chosen, experts; /* with experts; of a step, on all ranks; K; E */
    int64_t zeros[3];
} ChoicesHead;

/* Between the start of the programs and the first step; all ranks call it. */
int choices_open(Trainer *t);
void choices_close(Trainer *t);
int choices_read(Trainer *t);  /* of the next step, before it runs */
int choices_write(Trainer *t); /* behind the run, before the step counts */

#endif
