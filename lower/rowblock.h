/* What the files row-block group*.c share: a row-block group as it was decided. Private to lower/. */
#ifndef LOWER_ROWBLOCK_H
#define LOWER_ROWBLOCK_H

#include "lower/lower.h"

/* A sum over the rows of the row-block group: it is carried from block to block, as an equation of its own, sums[...] += reduce. */
typedef struct RowBlockCarry {
    const Equation *q; /* the member that it is of */
    ExprId reduce;
    LocalBuffer place;
    const Blocking *by;
    int is_done; /* by the member before, on the way */
} RowBlockCarry;

typedef struct RowBlockLaunch {
    const Cluster *c;
    const Members *m;
    int64_t rows;              /* that pass through the members together */
    int64_t most, span;        /* rows of a block, at most; of the blocks for which operands are kept */
    Blocking *by[CLUSTER_MAX]; /* by member; NULL: it has not the row on its left, is a choice of top, or is stored along */
    Blocking whole;            /* all rows of a block as one */
    Vec(RowBlockCarry) carries;
    Vec(Hoisted) hoisted;
} RowBlockLaunch;

void rowblock_place(Lower *l, RowBlockLaunch *s);  /* placed tensors and carried sums get their buffers */
void rowblock_decide(Lower *l, RowBlockLaunch *s); /* everything else */
Equation rowblock_carried(const RowBlockCarry *carry);

#endif
