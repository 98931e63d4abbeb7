/* How the results of a kernel are spread over processes that each call it on a part.
 *
 * Note [Placements]. A group of processes calls a kernel, each with tensors of its own; the place of a tensor says what they are
 * together. WHOLE: all have the same. An axis: each has a part of that axis, one behind the other. SUM: the sum of theirs is
 * meant. Parts are along one dimension of the kernel, D, and then every axis along D is in parts. The equations decide what
 * follows: what is computed for each element along D is in parts too; a sum over D is a partial sum; what is linear in a partial
 * sum is one; everything else needs what no process has, and is refused: a maximum over D, another function of a partial sum, D
 * as a number, the number of an element along D. Rows of a route whose tokens are in parts are those of the process's tokens;
 * rows have no order that an equation could tell. Casts round each process's term: sums hold but for rounding. */
#ifndef IR_PLACE_H
#define IR_PLACE_H

#include "ir/module.h"

enum {
    PLACE_WHOLE = -1, /* above: the axis that is in parts; of a route 0, its tokens */
    PLACE_SUM = -2,
    PLACE_ANY = -3 /* of an `inout` on entry: what is added decides */
};

/* places[] by parameter: on entry those of `in` and `inout`, on return those of all. Returns NULL, or why there is no placement,
 * in arena a. k is as the frontend made it. */
const char *ir_place(const Kernel *k, int *places, Arena *a);

#endif
