/* Epilogue clusters: which equations one loop over elements may compute (Note [Clusters] in ir/equation.h). */
#ifndef PASSES_EPILOGUE_H
#define PASSES_EPILOGUE_H

#include "passes/order.h"
#include "passes/passes.h"
#include "passes/query.h"

enum { EPILOGUE_MAX = 20 };

/* The left-hand index variables of q, in order; returns how many, or -1: q cannot be in an epilogue. */
int epilogue_space(const Kernel *k, const Equation *q, IndexId *out /* MAX_RANK places */);
/* Do two equations run over elements of the same axes? */
int epilogue_same_space(const Kernel *k, const Equation *a, const Equation *b);
/* Gives the members, which have the same space, the very same left-hand variables: those of the first, or new
 * ones where some member has these for another purpose. */
void epilogue_rename(Kernel *k, const uint32_t *members, uint32_t n);
/* May these equations, which have the very same left-hand variables, be one epilogue? Their places ascend. NULL,
 * or why not. */
const char *epilogue_blocks(const EquationOrder *o, const uint32_t *members, uint32_t n);
/* Is the sum, of equation q, one of products of which several elements share each factor? */
int epilogue_is_product(const Kernel *k, const Equation *q, ExprId sum);
/* Are there such products among their sums, and others? Where these are another unit's work (sums_apart), that would go over them one
 * by one beside a product. */
int epilogue_mixes(const Kernel *k, const PassContext *c, const uint32_t *members, uint32_t n);
/* Forms the epilogue clusters of k, from equations without a cluster. */
void epilogue_clusters(Kernel *k, const PassContext *c);

/* Bytes of a tensor. */
Extent epilogue_bytes(Kernel *k, TensorId t);

#endif
