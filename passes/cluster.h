/* Clusters: which equations one launch computes (Note [Clusters] in ir/equation.h). They are formed between
 * canonicalise and lower, when the equations are final. */
#ifndef PASSES_CLUSTER_H
#define PASSES_CLUSTER_H

#include "passes/passes.h"

/* Finds the row-block groups of k, makes the equations of each neighbours, and marks them: Equation.cluster,
 * Tensor.placed. Equations that are in a cluster already stay alone. Everything that is read afterwards
 * keeps its value. What holds of a row-block group then:
 *   - outer and row variables are the same IndexIds in all members, dense, and nothing else uses them. A
 *     member that is no carrier has each of them once on its left-hand side; a carrier has `outer` there
 *     and one float sum that binds `row`, beside no other reduction.
 *   - What one member writes and another member reads is read at [outer..., row, anything]: blocks of rows
 *     may be computed in any order, one after the other or by different threads when nothing carries.
 *   - A placed tensor is a local with one definition; outer are its first axes, in the order of
 *     Cluster.outer, row is the next one, then come its columns, if any. Every equation that reads it is a
 *     member.
 *   - A carrier's `=` or `+=` is done once, after the last block: what stands around its sum (a cast, a
 *     divisor) is not repeated. Its left-hand tensor is touched by no other member. Carriers stand
 *     anywhere among the members. Without outer variables the sum has a term at each row and place of the
 *     result, and no other variables: it is done in parts.
 *   - Members neither go over rows of groups nor ask a route; no sum among them is a bucketed one. EQ_TOP
 *     may be a member. */
void cluster_rowblocks(Kernel *k, const PassContext *c);

/* Forms the scatters that the schedule asks for; Note [Scatter] in cluster_scatter.c. What cannot be one is reported. */
void cluster_scatters(Kernel *k, const PassContext *c);

/* Where the reader of a scatter reads the product. */
typedef struct Scatter {
    ExprId sum;  /* over the choices of a token, the only reduction around the load */
    ExprId load; /* o[rt.row(t, k), h], the only one */
    ExprId row;  /* its first subscript */
} Scatter;

/* Can the rows of the product be added into the sums of the reader? NULL and *out, or why not. */
const char *cluster_scatter(const Kernel *k, const Equation *product, const Equation *reader, Scatter *out);

/* The condition under which an element of a placed tensor is read at all, over the index variables of its
 * definition; NONE: always. It looks at no memory but scalar parameters. Where it does not hold, the
 * definition need not be computed, and what stands there instead is never seen: blocks of rows x columns
 * in which it holds nowhere can be left out, blocks in which it holds somewhere may be computed whole. It
 * is the part that all readers share, so it may hold where nobody reads. A reader that is placed itself
 * passes on what its own readers need: e[i, j] = exp(s[i, j] - m[i]) asks for s where e is asked for. */
ExprId cluster_needed(Kernel *k, TensorId placed);

#endif
