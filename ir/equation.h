/* Nodes of expressions, equations, and the clusters that one launch computes. */
#ifndef IR_EQUATION_H
#define IR_EQUATION_H

#include "ir/tensor.h"

typedef enum ExprKind {
    X_FLOAT,   /* value.f, TY_F32 */
    X_INT,     /* value.i */
    X_EXTENT,  /* sym: Extent, as an integer */
    X_INDEX,   /* sym: IndexId, as an integer */
    X_OP,      /* op: ScalarOp; args */
    X_LOAD,    /* sym: TensorId; args: one integer expression per axis */
    X_IF,      /* args: condition, then, else: only the chosen side is evaluated */
    X_REDUCE,  /* op: ReduceKind; bound indices; args: body [, condition] */
    X_TOKEN,   /* sym: RouteId; args: row                rt.token(r) */
    X_SLOT,    /* sym: RouteId; args: row                rt.slot(r)  */
    X_ROW,     /* sym: RouteId; args: token, slot        rt.row(t, k): -1 when dropped */
    X_GROUP,   /* sym: RouteId; args: row                @r: the group of a row */
    X_LANES,   /* tile level. op: ReduceKind; args: a value with lanes -> one value */
    X_THREADS, /* tile level: how many threads run the call, for choices that no bit depends on */
} ExprKind;

typedef enum ReduceKind { RED_SUM, RED_MAX, RED_MIN } ReduceKind;

typedef struct Expr {
    uint8_t kind, type, op;
    uint8_t nargs;
    uint8_t nbound;
    uint32_t sym;
    uint32_t args;  /* first of nargs ExprIds in Kernel.links */
    uint32_t bound; /* X_REDUCE: first of nbound IndexIds in Kernel.links */
    uint64_t uses;  /* bit (IndexId % 64) of every index variable below: a quick no for x_uses_index */
    union {
        int64_t i;
        double f;
    } value;
    Loc loc;
} Expr;

typedef enum EqKind {
    EQ_ASSIGN, /* lhs[index] = rhs */
    EQ_ADD,    /* lhs[index] += rhs; lhs is inout */
    EQ_TOP,    /* lhs[.., k], ids[.., k] = top(e) rhs: index binds both; bound: e */
    EQ_ROUTE,  /* route = route(ids): ids is an i32[T, K] tensor */
    EQ_CHECK,  /* run-time check made by pass_checks: 0 <= rhs < extent wherever guard holds */
} EqKind;

/* Note [Clusters]. A cluster is a run of neighbouring equations (same Equation.cluster) that one launch computes; made by
 * pass_cluster, just before the lowering.
 *   epilogue        All members have the very same left-hand index variables and sums: the products of a block are made once,
 *                   then each member's element is computed and stored, in order. A member may read an earlier one at its own
 *                   place.
 *   row-block group Every member iterates over the same row variable `row`, on its left-hand side or in a reduction, and has
 *                   the same `outer` variables on its left. The launch computes all members one row block at a time, in
 *                   order. Locals that are only read inside the group, at [outer..., row, ...], are thread-local (`placed`):
 *                   a thread keeps their block. Members that reduce over `row` (carries) accumulate from block to block:
 *                   then blocks run in order, and only `outer` is parallel, or, without outer variables, parts of the rows;
 *                   other members do not read them.
 *   scatter         Two members: o[r, h] over the rows of a route, a local, and its only reader y[t, h], which reads it in
 *                   one place, a sum over the choices of token t. One block of columns at a time, the rows of o are computed
 *                   and added into the sums of their tokens; then y is. o does not exist in memory. */
enum { CLUSTER_MAX = 64 }; /* equations of one */
typedef enum ClusterKind { CLUSTER_EPILOGUE, CLUSTER_ROWBLOCK, CLUSTER_SCATTER } ClusterKind;
typedef struct Cluster {
    ClusterKind kind;
    IndexId row; /* row-block group */
    uint8_t nouter;
    IndexId outer[MAX_RANK];
    int carries;
    int64_t usual_rows; /* of a block where no schedule says; 0: those of the knob */
} Cluster;

typedef struct Equation {
    EqKind kind;
    uint32_t cluster; /* number in Kernel.clusters, or NONE */
    Loc loc;
    TensorId lhs;          /* NONE for EQ_ROUTE; EQ_CHECK: the tensor whose subscript is checked */
    uint8_t nindex;
    ExprId index[MAX_RANK]; /* X_INDEX (each once), X_INT, or with EQ_ADD any integer expression (a scatter) */
    ExprId rhs;            /* EQ_CHECK: the subscript */
    TensorId ids;          /* EQ_TOP, EQ_ROUTE */
    IndexId bound;         /* EQ_TOP: the index that is searched */
    RouteId route;         /* EQ_ROUTE */
    uint8_t axis;          /* EQ_CHECK: which subscript of lhs */
    ExprId guard;          /* EQ_CHECK: NONE or the condition under which the access happens */
    int at_entry;          /* EQ_CHECK: depends on parameters only, so it stands before the first write */
    int along; /* of a row-block group: the reduction of the next equation passes every element that is read, and stores it */
    int dead;              /* set by passes; ir_compact removes */
} Equation;

#endif
