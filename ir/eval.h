/* The reference interpreter's inside: values with their error bounds, nodes, the state of a run. Private to
 * ir/.
 *
 * Note [Running error]. With bounds asked for, every value carries `error`: how far another correct
 * implementation of the numeric contract may be from it. Parameters carry 0; a sum of n terms adds (n + 2) *
 * 2^-24 * sum |terms|, an inexact operation one rounding of either side, a function its stated ulps, and each
 * passes on what its operands carry. A cast asks what both ends of the interval round to, so a value that is
 * nowhere near a rounding boundary comes out with error 0. Integers and conditions carry 0 or 1: 1 says that
 * a nearby value of a float would have changed them (a near tie of `top`, a comparison inside the error), and
 * whatever they choose is in doubt. What moves with a shift (Note [Shift] in shift.h) may be computed with another value than
 * the shift's argument, and be moved to it later: each of its roundings, that of a cast too, counts twice. */
#ifndef IR_EVAL_H
#define IR_EVAL_H

#include "ir/ir.h"

typedef union Number {
    double f;
    int64_t i;
} Number;

typedef struct Value {
    Number n;
    double error;
} Value;

/* ---- scalars (eval_scalar.c, eval_error.c) ---- */

/* `ints`: the operands are integers (or conditions), else floats. */
typedef Number (*ScalarHook)(EvalMode mode, int ints, Number a, Number b);
#define SCALAR(name, ...) Number eval_##name(EvalMode mode, int ints, Number a, Number b);
#include "ir/scalar.def"
extern const ScalarHook eval_hooks[OP_COUNT];

double eval_float_of_int(EvalMode mode, int64_t value);
/* The error of a float result; exact: the result before its rounding. */
double eval_error(ScalarOp op, Value a, Value b, double exact, double result);
/* What the operation's roundings add once more where the result moves with a shift. */
double eval_error_again(ScalarOp op, double result);
uint8_t *eval_moving(const Kernel *k, Arena *a); /* eval_shift.c: by ExprId: does it move with a shift? NULL: none does */
int eval_compare_doubtful(ScalarOp op, Value a, Value b);
/* |x - y|, 0 for equal infinities. */
double eval_distance(double x, double y);
/* What an interval [v - error, v + error] becomes when it is rounded to e. */
double eval_rounded_error(Elem e, double v, double error);

/* ---- nodes ---- */

typedef struct Node Node;

/* One subscript: a loop variable known to be inside, or a node whose value is checked. */
typedef struct Subscript {
    const int64_t *index; /* NULL: take the node */
    Node *node;
    int64_t extent, stride;
    const int32_t *group_of; /* row axis: group of each row, -1 where no row exists; else NULL */
} Subscript;

typedef struct EvalAccess {
    TensorId tensor;
    uint8_t rank;
    Subscript subscripts[MAX_RANK];
} EvalAccess;

/* A loop over one index variable, and what narrows it. */
typedef struct Loop {
    IndexId index;
    uint8_t local; /* the equation's number of this variable: Eval.epoch */
    int64_t extent;
    RouteId route;           /* rows: the route that says which exist; else NONE */
    Node *run;               /* rows: only those of this group, or NULL */
    Vec(Node *) least, most; /* dense: least <= index <= most */
    Vec(Node *) below;       /* index < below */
    Vec(Node *) above;       /* above < index */
    Vec(Node *) conditions;  /* tested once the variable has its value */
} Loop;

typedef struct Reduce {
    uint32_t nloops;
    Loop *loops;
    Vec(Node *) conditions; /* free of the bound variables: tested once */
    Node *body;
    Vec(Node *) free; /* of a float sum whose term is a product or quotient: its parts that no loop moves */
    int may_add_nan; /* of a float sum: for a term that is left out */
    int batch;       /* terms of the innermost loop may be computed many at a time */
    int64_t terms;   /* of a float sum, when it was computed last; */
    double magnitude; /* sum |terms| of them */
} Reduce;

typedef enum NodeKind {
    NODE_NUMBER,
    NODE_INDEX,
    NODE_OP,
    NODE_ALL,
    NODE_ANY,
    NODE_LOAD,
    NODE_IF,
    NODE_REDUCE,
    NODE_TOKEN,
    NODE_SLOT,
    NODE_ROW,
    NODE_GROUP
} NodeKind;

struct Node {
    uint8_t kind, op, type, nargs;
    uint8_t memo;   /* keeps its value while no variable of `deps` moves */
    uint8_t ints;   /* OP: operands stay integers */
    uint8_t lifted; /* bit i: operand i is an integer that this node takes as a float */
    uint8_t faults; /* may fail: an index in it is checked while running */
    uint8_t moves;  /* with a shift */
    ExprId expr;
    uint64_t
        deps; /* bits: the equation's numbers of the variables it uses; bit 63 stands for all further ones */
    uint64_t stamp; /* memo: Eval.clock when `value` was computed */
    Value value;    /* NUMBER, memo */
    Node **args;
    const int64_t *index;
    uint32_t sym; /* route */
    EvalAccess *access;
    Reduce *reduce;
    ScalarHook hook;
};

/* ---- a run ---- */

typedef struct TensorData {
    double *at;
    double *error; /* NULL: all 0 */
    int64_t extent[MAX_RANK], stride[MAX_RANK], size;
} TensorData;

typedef struct RouteData {
    EvalRoute *route;
    int32_t *group_of; /* by row: its group, or -1 */
} RouteData;

enum { MANY_INDICES = 63 };

typedef struct Eval {
    const Kernel *k;
    const Module *m;
    EvalMode mode;
    int track; /* errors are wanted */
    Arena *arena, *scratch;
    const char *error; /* the run's first error text */
    int64_t *dims;
    TensorData *tensors;
    RouteData *routes;
    int64_t *index; /* by IndexId: the value now */
    uint64_t clock;
    uint64_t epoch[MANY_INDICES + 1]; /* by local number: the clock when it last moved */
    /* of the equation at hand */
    Node **nodes;   /* by ExprId */
    const uint8_t *moving; /* by ExprId, or NULL: eval_moving() */
    uint8_t *local; /* by IndexId: number + 1, or 0 */
    uint32_t nlocal;
    uint32_t depth;
} Eval;

/* Notes the first error of the run. */
void eval_fail(Eval *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* eval_build.c: forget the last equation; the node of an expression; an access with its subscripts; a loop.
 */
void eval_start_equation(Eval *e);
Node *eval_node(Eval *e, ExprId x, int inner);
EvalAccess *eval_access(Eval *e, TensorId t, const ExprId *subscripts, uint32_t n, int inner);
Loop eval_loop(Eval *e, IndexId i);
int64_t eval_extent(Eval *e, Extent x);

/* eval_run.c */
Value eval_run(Eval *e, Node *n);
/* The element's place; -1 after an error. *doubtful is set when a subscript is in doubt. */
int64_t eval_place(Eval *e, const EvalAccess *a, int *doubtful);
static inline void eval_move(Eval *e, const Loop *l, int64_t value)
{
    e->index[l->index] = value;
    e->epoch[l->local] = ++e->clock;
}
/* Takes an integer as a float; doubt becomes an unbounded error. */
Value eval_lift(const Eval *e, Value v);

/* The operation of a node of floats, integers or conditions; of its operands' values. */
Value eval_op(Eval *e, const Node *n, Value a, Value b);

/* eval_batch.c: can a term be computed for many values of the loop's variable at a time? Then v becomes the values of n at `count`
 * of them, from where the variable stands on, unless there is an error. */
enum { EVAL_BATCH = 64 };
typedef struct Values {
    double at[EVAL_BATCH], error[EVAL_BATCH];
    int exact; /* all errors are 0, and need not be written */
} Values;
int eval_can_batch(const Node *n, const Loop *l);
void eval_batch(Eval *e, Node *n, const Loop *l, uint32_t count, Values *v);

/* eval_reduce.c */
Value eval_reduce(Eval *e, Node *n);

/* eval_route.c */
const char *eval_route_fault(Eval *e, RouteId r); /* NULL when every field keeps the rules of a route */
int32_t *eval_group_of(Eval *e, RouteId r);             /* RouteData.group_of from start and count */
void eval_make_route(Eval *e, const Equation *q);
void eval_top(Eval *e, const Equation *q);

/* eval_equation.c */
void eval_equation(Eval *e, const Equation *q);
void eval_store(Eval *e, TensorId t, int64_t place, Value v, Type type);

#endif
