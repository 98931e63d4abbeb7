/* Steps whose gradients must not become an update: the task `gate` of the step's program stops behind their norm. */
#ifndef TRAINER_GUARD_H
#define TRAINER_GUARD_H

#include "trainer/trainer.h"

/* The highest norm of the next step's gradients that is no spike. */
float guard_limit(const Trainer *t);
/* After a step: counts it. Returns 0 to go on, or 1 with a message printed that names step, sequences and tensor. */
int guard_step(Trainer *t);

#endif
