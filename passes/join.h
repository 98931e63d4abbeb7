/* Which neighbouring axes a launch uses as one only: `sum(n, d) x[t, n, d] * w[n, d, f]` iterates over N*D elements. What is
 * done with it: Note [Joined axes] in lower/join.c. */
#ifndef PASSES_JOIN_H
#define PASSES_JOIN_H

#include "ir/ir.h"

typedef struct Join {
    Kernel *k;
    IndexId *before, *after; /* by index: its neighbour in every access; NONE: it has none, or not always the same */
    uint8_t *seen;           /* by expression */
    uint32_t n;              /* indices */
    Vec(ExprId) reductions;
} Join;

/* Of n equations, which belong to cluster c or NULL. Lives in Module.scratch. */
Join join_of(Kernel *k, const Equation *q, uint32_t n, const Cluster *c);
IndexId join_inner(const Join *j, IndexId i); /* the index that i is a row of, or NONE */
int join_is_outermost(const Join *j, IndexId i);
IndexId *join_by_index(const Join *j, IndexId fill); /* an array with a place for each index */

/* How many reduced indices of q joining takes away. */
uint32_t join_in_sums(Kernel *k, const Equation *q);

#endif
