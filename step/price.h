/* Prices of tasks: the seconds that their kernels took in runs on this machine. */
#ifndef STEP_PRICE_H
#define STEP_PRICE_H

#include "step/run.h"

typedef struct Prices {
    Arena *arena;
    double seconds_per_byte; /* that a step takes longer for each byte stored or loaded */
    Vec(struct Price) list;
} Prices;

/* Adds what the tasks of the last run took. A price is of a kernel at its dimensions; programs of other sessions may ask for it,
 * because what `derive` was asked for counts, not the name that it gave. */
void prices_note(Prices *s, const Run *r);
/* The lower quartile in seconds, in proportion to the product of the dimensions where the kernel ran at others only; 0 of a batch and an exchange. Below 0: no run had such a task. */
double price_of(const Prices *s, const Program *p, const Task *t);
/* Of all tasks. Below 0: one of them has no price. */
double prices_sum(const Prices *s, const Program *p);

#endif
