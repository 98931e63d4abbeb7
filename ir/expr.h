/* Expressions: builders, what a node holds, walks and what they find, rewriting, proofs. */
#ifndef IR_EXPR_H
#define IR_EXPR_H

#include "ir/module.h"

/* ---- builders ----
 *
 * Types are computed; operands must already be legal (the frontend has checked them;
 * ir_verify checks again). A builder never folds: that is canonicalise's work. */
ExprId x_float(Kernel *k, Loc loc, double value);
ExprId x_int(Kernel *k, Loc loc, int64_t value);
ExprId x_extent(Kernel *k, Loc loc, Extent e);
ExprId x_index(Kernel *k, Loc loc, IndexId i);
ExprId x_op1(Kernel *k, Loc loc, ScalarOp op, ExprId a);
ExprId x_as(Kernel *k, ExprId e, Type type); /* e itself, or cast; not TY_BOOL */
ExprId x_op2(Kernel *k, Loc loc, ScalarOp op, ExprId a, ExprId b);
ExprId x_load(Kernel *k, Loc loc, TensorId t, const ExprId *subscripts);
ExprId x_if(Kernel *k, Loc loc, ExprId condition, ExprId then, ExprId otherwise);
ExprId x_reduce(Kernel *k, Loc loc, ReduceKind kind, const IndexId *bound, uint32_t nbound, ExprId body,
                ExprId condition /* or NONE */);
ExprId x_token(Kernel *k, Loc loc, RouteId r, ExprId row);
ExprId x_slot(Kernel *k, Loc loc, RouteId r, ExprId row);
ExprId x_row(Kernel *k, Loc loc, RouteId r, ExprId token, ExprId slot);
ExprId x_group(Kernel *k, Loc loc, RouteId r, ExprId row);
ExprId x_lanes(Kernel *k, Loc loc, ReduceKind kind, ExprId value);
ExprId x_threads(Kernel *k, Loc loc);
ExprId x_and(Kernel *k, Loc loc, ExprId a, ExprId b); /* either may be NONE */
/* The same node with other arguments (types recomputed); `args` may equal the old ones. */
ExprId x_with_args(Kernel *k, ExprId e, const ExprId *args);
/* The reduction over the same indices of another body, under another condition or NONE. */
ExprId x_reduce_with(Kernel *k, ExprId reduce, ExprId body, ExprId condition);

/* The returned pointers are valid until the next builder call. */
static inline const Expr *x_at(const Kernel *k, ExprId e) { return &k->exprs.at[e]; }
static inline ExprId x_arg(const Kernel *k, ExprId e, uint32_t n) { return k->links.at[k->exprs.at[e].args + n]; }
int x_binds(const Kernel *k, ExprId e, IndexId i); /* is i one of those that e, a reduction, binds? */
static inline IndexId x_bound(const Kernel *k, ExprId e, uint32_t n) { return k->links.at[k->exprs.at[e].bound + n]; }
static inline int x_is_int(const Kernel *k, ExprId e, int64_t value)
{
    return k->exprs.at[e].kind == X_INT && k->exprs.at[e].value.i == value;
}
/* X_REDUCE's condition or NONE. */
static inline ExprId x_condition(const Kernel *k, ExprId e)
{
    return k->exprs.at[e].nargs > 1 ? x_arg(k, e, 1) : (ExprId)NONE;
}
int x_is_op(const Kernel *k, ExprId e, ScalarOp op);
ExprId x_unrounded(const Kernel *k, ExprId e, ScalarOp *cast); /* e without a cast to 16 bits around it; OP_COUNT: it has none */
/* e as a subscript of that axis. An index alone stands for all of its axis (language page, section 4), so where e is the
 * index of another one the same number is `e + 0`. */
ExprId x_subscript(Kernel *k, ExprId e, Axis axis);
ScalarOp op_turned(ScalarOp op); /* with its sides changed: < gives >; other operations as they are */
ScalarOp op_negated(ScalarOp comparison); /* of integers: < gives >=; OP_COUNT when it is no comparison */

/* ---- walks ----
 *
 * Nodes are shared, so a walk that follows every path can take exponential time: go over this list instead. */
typedef struct Nodes { /* in Module.scratch */
    const ExprId *at; /* each node below e once, arguments before what they are arguments of; e is the last */
    uint32_t n;
} Nodes;
enum { EVERYWHERE = UINT8_MAX };
/* What is below e, e included; not what is below a node of kind `stop` (ExprKind, or EVERYWHERE). */
Nodes x_below(const Kernel *k, ExprId e, uint8_t stop);
/* each_below(n, k, e, EVERYWHERE) { ... *n ... } */
#define each_below(it, k, e, stop)                                                                           \
    for (Nodes it##_list = x_below((k), (e), (stop)); it##_list.n > 0; it##_list.n = 0)                      \
        for (const ExprId *it = it##_list.at; it < it##_list.at + it##_list.n; it++)
int x_contains(const Kernel *k, ExprId e, ExprId node);
/* A map over the nodes of one walk; in Module.scratch. */
typedef struct ExprMap {
    ExprId *key, *value;
    uint32_t mask;
} ExprMap;
ExprMap x_map(const Kernel *k, uint32_t nodes);    /* for at most that many nodes */
ExprId *x_map_at(const ExprMap *m, ExprId e);      /* its place; NONE until it is written */
ExprId x_map_get(const ExprMap *m, ExprId e);      /* NONE when nothing was written */
/* Nodes of e as text, where a shared part is written out at each use; more than `most` counts as one more. e NONE: 0. */
uint32_t x_written_nodes(const Kernel *k, ExprId e, uint32_t most);
int x_uses_index(const Kernel *k, ExprId e, IndexId i);     /* freely: not where a reduction binds it */
int x_uses_any(const Kernel *k, ExprId e, const IndexId *list, uint32_t n); /* one of these */
int x_loads(const Kernel *k, ExprId e, TensorId t);
int x_loads_any(const Kernel *k, ExprId e);
/* Factors of a product as it is written out, where what is shared counts at each use; at most FACTORS_MANY. Beyond that passes
 * take it as one factor: x*x of x*x of ... would take for ever. */
enum { FACTORS_MANY = 100 };
uint32_t x_factors(const Kernel *k, ExprId e);
IndexId x_plain_index(const Kernel *k, ExprId e); /* the index variable that e is, or NONE */
/* Is e i plus or minus something that i does not change? */
int x_is_unit(const Kernel *k, ExprId e, IndexId i);
/* Is the node evaluated whenever root is? Not if it is only on a side of `if`, or behind `and` or `or`: what it reads may
 * not be there then. */
int x_is_asked_for(const Kernel *k, ExprId root, ExprId node);
int x_is_among(const ExprId *list, uint32_t n, ExprId e);
uint32_t x_conjuncts(const Kernel *k, ExprId cond, ExprId *out, uint32_t max); /* flattens `and`, as far as there is room: what is left of it stays one conjunct; NONE -> 0 */
/* Rewrites bottom-up: f gets each node already rebuilt from rewritten arguments and may replace it. Scratch memory that f
 * takes is gone afterwards. */
typedef ExprId (*XRewrite)(Kernel *k, ExprId e, void *user);
ExprId x_rewrite(Kernel *k, ExprId e, XRewrite f, void *user);
ExprId x_replace(Kernel *k, ExprId e, ExprId from, ExprId to); /* node `from` by `to` */
/* from[i] replaced by to[i] (index variables by expressions), simultaneously. */
ExprId x_substitute(Kernel *k, ExprId e, const IndexId *from, const ExprId *to, uint32_t n);
/* A copy of e in kernel `to` (may be another kernel of the module): maps give the new ids. */
typedef struct XMaps {
    const TensorId *tensors;
    const RouteId *routes;
    const IndexId *indices;
} XMaps;
ExprId x_copy(Kernel *to, const Kernel *from, ExprId e, const XMaps *maps);

/* An integer expression as sum of coef[i] * index[i] + constant, coefficients and constant being extents. */
typedef struct Affine {
    uint32_t n;
    IndexId index[MAX_RANK];
    Extent coef[MAX_RANK];
    Extent constant;
} Affine;
int x_affine(Kernel *k, ExprId e, Affine *out); /* 0 when e is not affine */
/* e as by * quotient + rest, with all that `by` is seen to be a factor of in quotient; 0 when e is too long. */
int x_split(Kernel *k, ExprId e, Extent by, ExprId *quotient, ExprId *rest);
/* a == b as atom == *value, where a - b is atom, or minus that, and something linear; 0 where it is not. */
int x_solve(Kernel *k, ExprId a, ExprId b, ExprId atom, ExprId *value);

/* Tries to prove 0 <= e < extent from index ranges, dimension signs and the conjuncts of `guard` (or NONE). */
typedef enum Proof { PROOF_INSIDE, PROOF_UNKNOWN, PROOF_OUTSIDE } Proof;
Proof ir_prove_range(Kernel *k, ExprId e, Axis axis, ExprId guard);
/* Tries to prove a - b >= by from the same facts. */
int ir_prove_at_least(Kernel *k, ExprId a, ExprId b, int64_t by, ExprId guard);
/* The divisor of an idiv or imod, if it is known to be at least 1 wherever e is evaluated; else NONE. */
Extent ir_divisor(Kernel *k, ExprId e);

#endif
