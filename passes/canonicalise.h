/* What canonicalise*.c share. Every rule takes a node whose arguments are canonical and returns what stands
 * for it.
 *
 * Note [Bits]. A rule keeps the bits of every value, with one exception that the language asks for (section
 * 5): the factors and divisors of a sum that do not depend on its indices are applied to its result. So x * 1
 * is x, but x + 0 stays (it turns -0 into 0), and constants are folded only when the f32 result is exact.
 *
 * Note [Accesses]. No rule evaluates an access where it was not evaluated before: a guard may be what keeps
 * it inside its tensor. Conditions are evaluated from left to right, and one that loads keeps its place. */
#ifndef PASSES_CANONICALISE_H
#define PASSES_CANONICALISE_H

#include "passes/passes.h"

ExprId canon_expr(Kernel *k, ExprId e); /* one walk over e, all rules */

void canon_halves(Kernel *k); /* canonicalise_halves.c: outputs of two places */

/* canonicalise_scalar.c */
ExprId canon_op(Kernel *k, ExprId e);
int canon_is_zero(const Kernel *k, ExprId e);

/* canonicalise_condition.c. Lists of conjuncts: what is known to hold is dropped, repeats too. */
enum {
    CONJUNCTS_MAX = 64,
    JOINED_MAX = 32, /* of conditions that become one: later passes add conjuncts of their own */
};
typedef struct Conjuncts {
    ExprId list[CONJUNCTS_MAX];
    uint32_t n;
    int never; /* known not to hold */
} Conjuncts;
Conjuncts canon_conjuncts(Kernel *k, ExprId condition /* or NONE */, ExprId body /* what it guards, or NONE */);
ExprId canon_and(Kernel *k, Loc loc, const ExprId *list, uint32_t n); /* NONE when empty */
int canon_may_join(const Kernel *k, const Conjuncts *c, ExprId condition); /* into one list: JOINED_MAX */
ExprId canon_if(Kernel *k, ExprId e);

/* canonicalise_sum.c, canonicalise_solve.c: X_REDUCE. */
typedef struct Reduction {
    Loc loc;
    ReduceKind kind;
    IndexId bound[UINT8_MAX];
    uint32_t nbound;
    ExprId body;
    Conjuncts where;
} Reduction;
ExprId canon_reduce(Kernel *k, ExprId e);
int canon_solve(Kernel *k, Reduction *r); /* a conjunct that names a bound index removes it; 1 when one did */
int canon_route_inverse(Kernel *k, Reduction *r);
/* Puts `to` for bound indices everywhere, conjunct number `drop` and `drop2` gone (NONE: none), and conjunct `range` (or NONE)
 * before number `at`. */
void canon_substitute(Kernel *k, Reduction *r, const IndexId *from, const ExprId *to, uint32_t n, uint32_t drop,
                      uint32_t drop2, ExprId range, uint32_t at);

/* canonicalise_quotient.c */
ExprId canon_quotient(Kernel *k, ExprId e);             /* idiv, imod */
int canon_solve_quotient(Kernel *k, Reduction *r);      /* conjuncts that speak of one; 1 when one did */
ExprId canon_route_map(Kernel *k, ExprId e); /* X_TOKEN, X_SLOT, X_ROW of their inverses */

/* alpha.c: a name-free form: equal for expressions that differ in the names of index variables only. `free`
 * are the variables that are bound outside, in an order that both sides share. */
ExprId alpha_form(Kernel *k, ExprId e, const IndexId *free, uint32_t nfree);

#endif
