/* A row-block group as it was decided: what rowblock*.c, strip*.c and hand_on.c share. */
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

/* When a member is computed: Note [Strips] in strips.c. */
typedef enum RowBlockPhase { BEFORE_STRIPS, IN_STRIPS, BEHIND_STRIPS } RowBlockPhase;
/* A tensor of which a strip is kept, and the axis of its columns. */
typedef struct StripTensor {
    TensorId tensor;
    uint32_t axis;
} StripTensor;

typedef struct RowBlockLaunch {
    const Cluster *c;
    const Members *m;          /* in the order in which they are computed */
    int64_t rows;              /* that pass through the members together */
    int64_t most, span;        /* rows of a block, at most; of the blocks for which operands are kept */
    Blocking *by[CLUSTER_MAX]; /* by member; NULL: it has not the row on its left, is a choice of top, or is stored along */
    Blocking whole;            /* all rows of a block as one */
    Vec(RowBlockCarry) carries;
    Vec(Hoisted) hoisted;
    int may_strip;                   /* blocks are not those of parts of the rows */
    int64_t strip;                   /* columns of a strip; 0: there are no strips */
    Extent columns;                  /* all of them */
    ExprId when;                     /* the condition of a column under which members compute anything, or NONE ... */
    IndexId strip_column;            /* ... and its variable there */
    RowBlockPhase phase[CLUSTER_MAX]; /* by member; without strips all are before them */
    IndexId column[CLUSTER_MAX];     /* by member in strips: the variable that goes over the strip */
    uint8_t is_sum[CLUSTER_MAX];     /* by member in strips: it is a sum over them that was taken out of another member */
    Vec(StripTensor) narrow;
    Vec(Equation) begin;  /* computed before the first strip */
    int from_multiple;    /* strips begin at multiples of their width */
} RowBlockLaunch;

const Members *rowblock_hand_on(Lower *l, const Members *m, const Cluster *c); /* Note [Sums handed on] in hand_on.c */
void rowblock_strips(Lower *l, RowBlockLaunch *s); /* strips.c: strips of columns, if members allow them */
void rowblock_place(Lower *l, RowBlockLaunch *s);  /* placed tensors and carried sums get their buffers */
void rowblock_decide(Lower *l, RowBlockLaunch *s); /* everything else */
Equation rowblock_carried(const RowBlockCarry *carry);

#endif
