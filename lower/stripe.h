/* What the files stripe*.c share: a stripe as it was decided. Private to lower/. */
#ifndef LOWER_STRIPE_H
#define LOWER_STRIPE_H

#include "lower/lower.h"

/* A sum over the rows of the stripe: it is carried from block to block, as an equation of its own, sums[...] += reduce. */
typedef struct Carry {
    const Equation *q; /* the member that it is of */
    ExprId reduce;
    Place place;
    const Blocking *by;
    int is_done; /* by the member before, on the way */
} Carry;

typedef struct StripeLaunch {
    const Cluster *c;
    const Members *m;
    int64_t rows;              /* that pass through the members together */
    int64_t most, span;        /* rows of a block, at most; of the blocks for which operands are kept */
    Blocking *by[CLUSTER_MAX]; /* by member; NULL: it has not the row on its left, or is a choice of top */
    Blocking whole;            /* all rows of a block as one */
    Vec(Carry) carries;
    Vec(Kept) kept;
} StripeLaunch;

void stripe_place(Lower *l, StripeLaunch *s);  /* placed tensors and carried sums get their buffers */
void stripe_decide(Lower *l, StripeLaunch *s); /* everything else */
Equation stripe_carried(const Carry *carry);

#endif
