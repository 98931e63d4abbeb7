/* Which equations may change places: what each reads, writes and guards. */
#ifndef PASSES_ORDER_H
#define PASSES_ORDER_H

#include "ir/ir.h"

/* Sets of tensors (bits from 0) and routes (bits after the tensors). */
typedef struct Effects {
    uint64_t *reads, *writes;
    uint64_t *guards; /* EQ_CHECK: the tensor whose subscript it checks */
} Effects;

typedef struct EquationOrder {
    Kernel *k;
    uint32_t words;
    Effects *of; /* by equation */
} EquationOrder;

/* Of all equations of k, in Module.scratch. Adding tensors or equations to the kernel makes it useless. */
EquationOrder order_of(Kernel *k);
/* Again for equation `at`, which has been rewritten. */
void order_refresh(EquationOrder *o, uint32_t at);
int order_reads(const EquationOrder *o, uint32_t at, TensorId t);
/* Does equation `at` write something that equation `reader` reads? */
int order_writes_into(const EquationOrder *o, uint32_t at, uint32_t reader);
/* Do two equations access a tensor in common? */
int order_shares(const EquationOrder *o, uint32_t a, uint32_t b);

/* Can the equations at the places members[0] < members[1] < ... become neighbours, every value staying what
 * it was? What stands between them goes before or after all of them, a cluster as a whole. Among themselves
 * they keep their order. Returns NONE, or the place of a member that waits for something that itself waits
 * for an earlier member. */
uint32_t order_blocks(const EquationOrder *o, const uint32_t *members, uint32_t n);
/* Makes them neighbours and returns the place of the first. order_blocks() has said NONE. Updates o. */
uint32_t order_gather(EquationOrder *o, const uint32_t *members, uint32_t n);

#endif
