/* What strips.c and strip_members.c share: the columns of a row-block group's strips. Private to lower/. */
#ifndef LOWER_STRIPS_H
#define LOWER_STRIPS_H

#include "lower/rowblock.h"

typedef struct StripColumns {
    Lower *l;
    const RowBlockLaunch *s;
    uint8_t *linked;             /* by tensor: it has the strips' columns */
    uint8_t *late;               /* by tensor: StripLate */
    IndexId column[CLUSTER_MAX]; /* by member: the variable of the columns on its left, or NONE */
    RowBlockPhase phase[CLUSTER_MAX];
    uint32_t nsums[CLUSTER_MAX]; /* sums over columns, and the maximum */
    Extent extent;
    ExprId when;      /* members in strips compute something for a column */
    IndexId any;      /* the column's variable there */
    int online;       /* a maximum may be kept as strips go by: Note [Running maximum] in strip_members.c */
    uint32_t maximum; /* the member that it is, or NONE */
    const Shift *shifts;
} StripColumns;

/* The axis of t that is neither an outer variable's nor the row's, if there is one such axis; else NONE. */
uint32_t strip_column_axis(const StripColumns *c, TensorId t);
/* The members with sums for picked elements. */
const Members *strip_picks(const StripColumns *c);
int strip_is_pick(const Kernel *k, ExprId reduce);
/* The variable of a sum over columns, or NONE. */
IndexId strip_sum_column(const StripColumns *c, ExprId reduce);
/* Does a value move with shift(the running maximum)? */
int strip_moves(const StripColumns *c, Shift s);
int strip_members_fit(const StripColumns *c); /* are they not too many? */
/* The members in the order in which they are computed, sums over columns apart. */
void strip_members(RowBlockLaunch *s, const StripColumns *c);

#endif
