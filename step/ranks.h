/* Which ranks share what: the groups of all axes, from the sizes that a user gives and the number of ranks. Pure arithmetic: a plan
 * of thousands of ranks costs nothing.
 *
 * Note [Order of ranks]. Ranks are numbered with tp innermost, then cp, dp and pp: rank = ((pp * DP + dp) * CP + cp) * TP + tp. So the
 * members of a tp group are neighbours, which share a node first. Experts are shared in another way by the same ranks of a stage:
 * tp extends ep, that is, a group of axis ep has TP * EP neighbours, each with whole experts, where the user's EP counts ranks with
 * tokens of their own; ranks at the same place of different groups of axis ep hold the same experts and are a group of axis edp:
 *
 *     8 ranks, --tp 2 --ep 2        rank   0 1 2 3 4 5 6 7
 *                                   tp     0 1 0 1 0 1 0 1
 *                                   dp     0 0 1 1 2 2 3 3
 *                                   ep     0 1 2 3 0 1 2 3
 *                                   edp    0 0 0 0 1 1 1 1
 *
 * On each axis a group is a run of ranks with a fixed distance, its stride. */
#ifndef STEP_RANKS_H
#define STEP_RANKS_H

#include "step/step.h"

typedef struct Ranks {
    int64_t number;             /* of ranks */
    int64_t per_node;           /* ranks 0 to per_node - 1 share node 0, and so on */
    int64_t members[AXIS_COUNT]; /* of each group of the axis: Program.members; of ep TP * EP */
    int64_t stride[AXIS_COUNT]; /* between the numbers of neighbours in a group */
} Ranks;

/* What a user asks for. 0: left out; dp then follows from the number of ranks, the others are 1, and all ranks share a node. */
typedef struct RanksAsked {
    int64_t tp, ep, dp, per_node;
} RanksAsked;

Ranks ranks_one(void);
/* NULL with *out, or the rule that is broken (in the arena). */
const char *ranks_plan(Arena *a, int64_t number, const RanksAsked *asked, Ranks *out);

int64_t ranks_place(const Ranks *r, GroupAxis axis, int64_t rank);                 /* in its group, from 0 */
int64_t ranks_member(const Ranks *r, GroupAxis axis, int64_t rank, int64_t place); /* the rank at that place of rank's group */
int64_t ranks_group(const Ranks *r, GroupAxis axis, int64_t rank);                 /* number of its group, from 0 */
/* The place in a group, which is a ring, that `place` means: it may be behind the last one, or below 0. */
static inline int64_t ranks_in_ring(int64_t members, int64_t place) { return (place % members + members) % members; }
int64_t ranks_node(const Ranks *r, int64_t rank);
int ranks_share_node(const Ranks *r, int64_t a, int64_t b);

void ranks_print(const Ranks *r, Text *t);                        /* "8 ranks on 2 nodes: tp 2, ep 4 = tp 2 x --ep 2, dp 4, edp 2" */
const char *ranks_text(Arena *a, const Ranks *r, int64_t rank); /* "rank 5 of 8: tp 1/2, ep 1/4, dp 2/4, edp 1/2" */

#endif
