/* How values move with `shift`. */
#ifndef IR_SHIFT_H
#define IR_SHIFT_H

#include "ir/expr.h"

/* Note [Shift]. `shift(x)` is x, and promises that any value near x would serve, because it cancels. A pass that computes
 * with another value x + t must know what becomes of every value that depends on it. There are two ways, counted here:
 *     plus    the value moves by plus * t                 shift(x) itself: 1, s - shift(x): -1
 *     times   the value is multiplied by exp(times * t)   exp(s - shift(x)): -1
 * Operations that keep neither form are refused, and so is a result that the caller cannot interpret. The proof is by index
 * patterns: `of` is the argument of shift in the index variables at hand, and a sum over one of its indices is refused. */
typedef struct Shift {
    ExprId of; /* x; NONE: the value does not move */
    int times, plus;
    int zero; /* the literal 0, which scales with anything */
} Shift;

typedef struct ShiftFault {
    Loc loc;
    ExprId of;       /* what does not cancel */
    const char *why; /* "... of it"; NULL: there is no fault */
} ShiftFault;

int ir_has_shift(const Kernel *k);
/* What every tensor of k scales with, by TensorId, in the index variables of the equation that defines it; up to the first
 * fault. */
Shift *ir_shifts(Kernel *k, Arena *a, ShiftFault *fault);
/* The same for an expression of k. */
Shift ir_shift_of(Kernel *k, ExprId e, const Shift *tensors, ShiftFault *fault);

#endif
