/* Reverse mode on equations: what derive.c (requests and signatures), derive_text.c (derivatives of scalar
 * operations), derive_normalise.c (a forward fit for the sweep), derive_sweep.c (the sweep), derive_gather.c
 * (where a cotangent lands), derive_pass.c (targets that are a cotangent unchanged), derive_reassociate.c (one
 * product for two) and derive_split.c (two backward kernels for one) share, with the builders of derive_build.c.
 *
 * Note [Cotangents]. The forward is swept backwards, equation by equation. Inside an equation, cotangents run
 * from the root of the right-hand side to its loads; a load X[f(i)] reached in the space of indices i under
 * guards g leaves one Contribution: d_X[j] gets sum(i where g and f(i) == j) cotangent. When the last
 * equation that reads X is done, its contributions become one equation for d_X. Nothing here knows a pattern:
 * a permute, an unpermute or the weight gradient of a grouped product are what this rule leaves, after
 * canonicalise, of their loads.
 *
 * Note [Guards]. A cotangent exists only where its value was used, and nothing is multiplied by a zero mask:
 * the conditions met on the way to a load (`where`, `if`) become conditions of the contribution. Those that
 * do not depend on a summed index restrict d_X itself; together they are the *support* of d_X, which the
 * equation that defines X puts on everything it passes on. Guards that come from derivative texts and from
 * the choices of max
 * (`soft`) restrict their own contribution only: the value was used there, its derivative is 0. */
#ifndef PASSES_DERIVE_H
#define PASSES_DERIVE_H

#include "passes/passes.h"

typedef struct DeriveGuard {
    ExprId condition;
    int soft;
} DeriveGuard;

/* Where an expression is evaluated: for all values of the indices that meet the guards, in order. */
typedef struct EvalSpace {
    Vec(IndexId) index;
    Vec(DeriveGuard) guard;
} EvalSpace;

typedef struct Contribution {
    EvalSpace space;
    ExprId subscript[MAX_RANK];
    ExprId cotangent;
} Contribution;

/* What the sweep knows of a tensor. */
typedef struct Adjoint {
    int active;        /* depends on a target in a differentiable way */
    int saved;         /* a parameter of the backward kernel; its defining equations are gone */
    TensorId incoming; /* d_OUT, or NONE */
    TensorId target;   /* d_A of `wrt A`, or NONE */
    GradMode mode;     /* of the target */
    int complete;
    TensorId cotangent; /* d_X once complete; NONE: nothing reached it */
    Vec(Contribution) contributions;
    /* Support of the cotangent, over `over`: conditions, all of which hold where it exists. */
    IndexId over[MAX_RANK];
    Vec(ExprId) support;
} Adjoint;

typedef struct Sweep {
    Kernel *k;
    Arena *arena;
    Vec(Adjoint) tensors; /* by TensorId */
    Vec(uint8_t) active;  /* by ExprId: 0 not known yet, 1 no, 2 yes */
    int cotangents_f32;
    uint32_t visits; /* spaces opened, to stop what would not end */
    /* The equation being swept: reading its left-hand side gives the value of its root. */
    ExprId root, root_value;
} Sweep;

Adjoint *derive_adjoint(Sweep *s, TensorId t);
int derive_is_active(Sweep *s, ExprId e); /* does a gradient pass from e to a target? */

/* derive_text.c: one gradient text of ir/scalar.def over the given expressions; NONE for "". */
typedef struct DeriveText {
    ExprId a, b, r, d;
} DeriveText;
ExprId derive_text(Kernel *k, Loc loc, const char *text, DeriveText v);
int derive_text_names(const char *text, char name); /* how often it names a, b, r or d */

/* derive_normalise.c: rewrites the forward equations of s->k so that the sweep meets only reductions that it can
 * turn around cheaply; see Note [Normal form]. Sets `active` of the locals it makes. */
void derive_normalise(Sweep *s);
/* The element type of a product that the cube computes and whose backward it can compute too, where the cotangent of t enters only
 * such a one, or EL_F32. */
Elem derive_cube_of(Sweep *s, TensorId t);

/* derive_sweep.c: emits the equations of all cotangents, the targets' last, in the given order. */
void derive_sweep(Sweep *s, const TensorId *targets, uint32_t ntargets);

/* derive_gather.c: emits the equation of X's cotangent from its contributions and gives the tensor it
 * defines: `into`, or a new local of element type `elem` (of the value's own, narrower type when the value
 * has one). */
TensorId derive_gather(Sweep *s, TensorId x, TensorId into, Elem elem);

/* derive_pass.c: the output whose cotangent the local `target` is, unchanged: same type, same indices. The equation of
 * target is then dead. NONE: it is not so, and `wrt` is told. */
TensorId derive_prove_pass(Sweep *s, TensorId target, const struct DeriveWrt *wrt);

/* derive_reassociate.c: takes a product out of the backward kernel where another one, put together in another order, has
 * its terms already; see Note [Shared products]. */
void derive_reassociate(Kernel *k);

/* derive_split.c: takes the parameters `later` and what only they need out of the backward kernel s->k, and makes them
 * the kernel of the name s->k->derived->later. What s->k hands over to it becomes `out` parameters of s->k, whose names
 * are added to `pair`. See Note [Two kernels]. */
typedef struct DeriveLater {
    const TensorId *params; /* of s->k */
    uint32_t n;
} DeriveLater;
void derive_split(Sweep *s, DeriveLater later, DerivedPair *pair);

/* derive.c: kernels from kernels. */
/* A new kernel with the tensors, routes and indices of `from` under the same ids; no parameters and no equations yet. */
Kernel *derive_kernel_like(const Kernel *from, Name name, const Derive *d);
/* Those that are not dead. A tensor may have another type in `to`. */
void derive_copy_equations(const Kernel *from, Kernel *to);
void derive_add_param(Kernel *k, Param p);
/* An `out` parameter with t's name and values in another element type; the local gets a second name. */
void derive_add_rounded(Sweep *s, TensorId t, Elem elem);

/* derive_build.c: small builders. Every new equation has index variables of its own. */
IndexId derive_index_like(Kernel *k, IndexId i);
void derive_over(Sweep *s, TensorId t,
                 IndexId *over); /* an index for each axis of t, named as its equations do */
TensorId derive_local(Sweep *s, const char *stem, Loc loc, Elem elem, const Axis *axes, uint32_t rank);
void derive_emit(Sweep *s, EqKind kind, Loc loc, TensorId lhs, const IndexId *over, ExprId rhs);
ExprId derive_cast(Kernel *k, ExprId e, Elem elem); /* e as that element type */
ExprId derive_sum(Kernel *k, ExprId a, ExprId b);   /* either may be NONE */
ExprId derive_load(Kernel *k, TensorId t, const IndexId *over);

#endif
