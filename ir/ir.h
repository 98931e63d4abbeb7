/* What a program is. The front door of ir/.
 *
 * A Module holds dimensions, groups and kernels. A Kernel is a list of equations (equation level); the
 * lowering adds a tree of tile statements (tile level, ir/tile.h). Both levels share tensors, indices and
 * expressions; they differ in what stands around the expressions.
 *
 * Expressions are small hash-consed nodes in the kernel's arrays: two expressions of a kernel are equal
 * exactly when their ExprIds are. Index variables are unique per kernel, so scoping needs no environment.
 *
 * The text form of the equation level is the .moe language itself: ir_print() writes it, frontend/ reads it.
 *
 * Note [Sugar that the frontend removes], so that no pass meets it:
 *   sum(r in e) t             -> sum(r where @r == e) t
 *   an access through a row that may be dropped, rt.row(t, k): the nearest reduction gets the conjunct
 *                                `rt.row(t, k) >= 0`; with none, the equation's value is if(row >= 0, value, 0)
 *   fn calls                  -> inlined (arguments are shared nodes)
 *   wp = pack(w), wt = pack_t(w) -> wp[a, b] = w[a, b], wt[b, a] = w[a, b]
 *   factors free of the reduced indices are moved out of a `sum` by canonicalise (language page, section 5) */
#ifndef IR_IR_H
#define IR_IR_H

#include "base/base.h"

typedef uint32_t DimId, GroupId, Extent, IndexId, TensorId, RouteId, ExprId;
enum { NONE = UINT32_MAX };

/* ---- types ---- */

typedef enum Elem { EL_F32, EL_BF16, EL_F16, EL_I32, EL_I64 /* locals only */, EL_COUNT } Elem;

/* The type of an expression. i32 elements are TY_INT (64-bit) as soon as they are read. */
typedef enum Type { TY_INT, TY_BOOL, TY_F32, TY_BF16, TY_F16 } Type;

const char *elem_name(Elem e);   /* "f32" */
size_t elem_bytes(Elem e);
Type elem_type(Elem e);          /* the type of reading one element */
static inline int type_is_float(Type t) { return t >= TY_F32; }
const char *type_name(Type t);   /* "integer", "condition", "f32" ... for messages */

typedef enum ScalarKind { SK_ARITH, SK_FLOAT, SK_COMPARE, SK_LOGIC, SK_CAST, SK_SAME, SK_INDEX } ScalarKind;

typedef enum ScalarOp {
#define SCALAR(name, spelling, arity, kind, cost, ulp, ga, gb, doc) OP_##name,
#include "ir/scalar.def"
    OP_COUNT
} ScalarOp;

typedef struct ScalarRow {
    const char *name, *spelling;
    uint8_t arity;
    ScalarKind kind;
    uint8_t cost;
    double ulp;
    const char *gradient[2];
    const char *doc;
} ScalarRow;
extern const ScalarRow scalar_table[OP_COUNT];
ScalarOp scalar_find(const char *function_name); /* a callable function or cast; OP_COUNT when there is none */

/* ---- dimensions, extents, groups ---- */

typedef struct Dim {
    Name name;
    Loc loc;
    int64_t constant; /* -1: known at call time */
    int64_t max;      /* -1: none */
    int64_t multiple; /* `% N`; 1: none */
    int64_t prefer;   /* 1: none */
} Dim;

/* An extent is a polynomial over dimensions with integer coefficients, interned: `2*F`, `T*K`, `E+1`. */
typedef struct Monomial {
    int64_t coef;
    uint32_t ndims;
    const DimId *dims; /* ascending, repeated for powers */
} Monomial;

typedef struct ExtentForm {
    const Monomial *terms; /* canonical order; no zero coefficient; a constant has ndims 0 */
    uint32_t nterms;
    Extent folded;         /* the same with constant dimensions put in */
} ExtentForm;

typedef enum GroupKind { GROUP_ROWS, GROUP_CAPACITY } GroupKind;

typedef struct Group {
    Name name;
    Loc loc;
    Extent groups;  /* E, number of runs */
    GroupKind kind;
    Extent size;    /* as written: rows: upper bound of all rows; capacity: places of each run */
    Extent rows;    /* extent of the row space: size, or groups * size */
} Group;

/* ---- kernels ---- */

/* One axis of a tensor or index variable: dense 0..extent-1, or the rows of a group. */
typedef struct Axis {
    Extent extent; /* for rows: the group's `rows` */
    GroupId group; /* NONE: dense */
} Axis;

typedef struct Index {
    Name name; /* unique among live indices of the kernel when printed; see ir_fresh_name */
    Loc loc;
    Axis axis;
} Index;

typedef enum Role { ROLE_IN, ROLE_OUT, ROLE_INOUT, ROLE_LOCAL } Role;
const char *role_name(Role r); /* "in" */

/* Where a tensor lives. The equation level knows SPACE_GM only. */
typedef enum Space {
    SPACE_GM,     /* a parameter: the caller's memory */
    SPACE_WORK,   /* work space shared by all threads of a call */
    SPACE_THREAD, /* work space of one thread */
    SPACE_REG,    /* registers: constant extents, subscripts constant after unrolling */
    SPACE_L1, /* on the chip of an NPU, at a fixed place (Tensor.at), one for each core: blocks of both operands, */
    SPACE_L0A, /* left operands, */
    SPACE_L0B, /* right operands */
    SPACE_L0C, /* and sums of the cube; */
    SPACE_UB,  /* what the vector unit reads and writes */
    SPACE_COUNT,
} Space;
const char *space_name(Space s);                                         /* "work"; of SPACE_GM "" */
static inline int space_is_memory(Space s) { return s <= SPACE_THREAD; } /* global memory of an NPU */
static inline int space_is_on_chip(Space s) { return s >= SPACE_L1; }
static inline int space_is_private(Space s)
{
    return s >= SPACE_THREAD;
} /* each item of a launch has its own */

enum { MAX_RANK = 8 };

/* Note [Layouts]. How the last two axes [x, y] of a tensor lie in memory; subscripts are the same in all layouts.
 *   rows   row-major.
 *   sums   row-major, of f32: what block products add into.
 *   lines  the left operand A[row, k] of a block product: [y / L][x][L], L elements being one cache line (64 bytes).
 *   pairs  the right operand B[k, column]: panels of 32 columns, [y / 32][x / P][32][P], P elements being one 32-bit
 *          word: two k of a 16-bit type lie side by side, as the matrix instructions of all targets want them.
 *   zN, nZ, zZ   what an NPU's matrix unit reads and writes: fractals of 16 x 16 elements, N: fractals below each other
 *          first, Z: beside each other first; n: elements below each other first, z: beside each other first. Blocks of
 *          operands and sums are zN, left operands zZ, right ones nZ.
 * All but the first are allocated for extents rounded up: rows and columns to 32, k to whole lines. What lies beyond the
 * extent in k is zero; beyond it in rows and columns it is never looked at. Callers keep memory in layout pairs: a change
 * of it is a change of MOE_PACKED_LAYOUT (include/moec/abi.def). Of a tensor `packed both` its panels are followed by those
 * of the turned matrices, so that a sum over y finds pairs of y: at the tile level they are a tensor of their own (see
 * tile_turned), and every store goes to both. */
typedef enum Layout {
    LAYOUT_ROWS,
    LAYOUT_SUMS,
    LAYOUT_LINES,
    LAYOUT_PAIRS,
    LAYOUT_ZN,
    LAYOUT_NZ,
    LAYOUT_ZZ,
    LAYOUT_COUNT
} Layout;
enum { LAYOUT_FRACTAL = 16, LAYOUT_EDGE = 32, LAYOUT_LINE_BYTES = 64, LAYOUT_WORD_BYTES = 4 };
const char *layout_name(Layout y); /* "rows" */
static inline int layout_is_dense(Layout y) { return y <= LAYOUT_SUMS; } /* row-major */
static inline int layout_is_fractal(Layout y) { return y >= LAYOUT_ZN; }
/* True if a write to this accumulator may overrun to the next multiple of 32 in rows and columns: the buffer is padded. */
static inline int sums_have_room(Space space, Layout y) { return space == SPACE_THREAD || y == LAYOUT_SUMS; }
/* Of a matrix [x, y], x and y being its extents: the elements that it takes, and the place of element [i, j]. */
int64_t layout_elements(Layout layout, Elem e, int64_t x, int64_t y);
int64_t layout_place(Layout layout, Elem e, int64_t x, int64_t y, int64_t i, int64_t j);

typedef struct Tensor {
    Name name;
    Name original; /* NULL, or its name in the kernel that this one is derived from: schedules know it by that too */
    Loc loc;
    Elem elem;
    Role role;
    uint8_t rank;
    Axis axes[MAX_RANK];
    uint32_t placed; /* cluster + 1 of the row-block group whose threads keep it (Note [Clusters]); 0: in work space or gm */
    Layout layout; /* parameters: `packed` is LAYOUT_PAIRS; locals: the lowering's choice */
    uint8_t both;  /* `packed both`: the panels of the turned matrices [.., y, x] stand behind those of [.., x, y] */
    /* tile level */
    Space space;
    int64_t at;      /* on-chip spaces: its first byte */
    uint32_t lanes;  /* SPACE_REG: values per element, one for each lane; 0: scalar */
    RouteId route;   /* this tensor is a field of a route: see RouteField; else NONE */
    uint8_t field;
    uint32_t turned; /* 1 + the tensor `packed both` whose turned matrices these are: see tile_turned(); else 0 */
} Tensor;

typedef struct Route {
    Name name;
    Loc loc;
    Role role;
    Extent tokens, choices;
    GroupId group;
} Route;

/* The arrays of a route. */
typedef enum RouteField {
#define ROUTE(...)
#define ROUTE_ARRAY(field, ctype, doc) RF_##field,
#include "moec/abi.def"
    RF_FIELDS
} RouteField;

typedef struct Param {
    enum { PARAM_TENSOR, PARAM_ROUTE } kind;
    uint32_t id; /* TensorId or RouteId */
} Param;

/* ---- expressions ---- */

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

/* ---- equations ---- */

typedef enum EqKind {
    EQ_ASSIGN, /* lhs[index] = rhs */
    EQ_ADD,    /* lhs[index] += rhs; lhs is inout */
    EQ_TOP,    /* lhs[.., k], ids[.., k] = top(e) rhs: index binds both; bound: e */
    EQ_ROUTE,  /* route = route(ids): ids is an i32[T, K] tensor */
    EQ_CHECK,  /* run-time check made by pass_checks: 0 <= rhs < extent wherever guard holds */
} EqKind;

/* Note [Clusters]. A cluster is a run of neighbouring equations (same Equation.cluster) that one launch computes; made by
 * pass_cluster, just before the lowering.
 *   epilogue   All members have the very same left-hand index variables and sums: the products of a block are made once, then
 *           each member's element is computed and stored, in order. A member may read an earlier one at its own place.
 *   row-block group  Every member goes over the same row variable `row`, on its left-hand side or in a reduction, and has the same
 *           `outer` variables on its left. For a block of rows after the other all members are computed in order. Locals
 *           that are only read inside the row-block group, at [outer..., row, ...], are `placed`: a thread keeps their block. Members
 *           that reduce over `row` (carries) add up from block to block: then blocks run in order, and only `outer` is
 *           parallel, or, without outer variables, parts of the rows; other members do not read them.
 *   scatter Two members: o[r, h] over the rows of a route, a local, and its only reader y[t, h], which reads it in one
 *           place, a sum over the choices of token t. For a block of columns after the other the rows of o are computed,
 *           and added into the sums of their tokens at once; then y is. o does not exist in memory. */
enum { CLUSTER_MAX = 64 }; /* equations of one */
typedef enum ClusterKind { CLUSTER_EPILOGUE, CLUSTER_ROWBLOCK, CLUSTER_SCATTER } ClusterKind;
typedef struct Cluster {
    ClusterKind kind;
    IndexId row; /* row-block group */
    uint8_t nouter;
    IndexId outer[MAX_RANK];
    int carries;
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
    int dead;              /* set by passes; ir_compact removes */
} Equation;

/* ---- module ---- */

typedef struct Derive {
    Name forward, backward, kernel;
    Loc loc;
    Vec(struct DeriveWrt { Name name; Loc loc; int accumulate; }) wrt;
    Vec(struct DeriveSave { Name name; Loc loc; Elem elem; }) save;
    int cotangents_f32;
} Derive;

/* Schedules: ir/schedule.def has a row for each knob. */
typedef enum Knob {
#define KNOB(id, clause, word, scope, lo, hi, step, words, keeps, source, otherwise, doc) KNOB_##id,
#include "ir/schedule.def"
    KNOB_COUNT
} Knob;

/* What a knob is about, and so the form of its clause. */
typedef enum KnobScope {
    SCOPE_PRODUCT,   /* tile g, u : M = 64 N = 128     tensors that sums define */
    SCOPE_POINTWISE, /* strip a : lanes = 4096         tensors defined without one */
    SCOPE_INDEX,     /* row-block group i : rows = 64           index variables */
    SCOPE_EDGE,      /* fuse xp -> g, u at prologue        who reads what */
    SCOPE_TENSOR,    /* store xp */
    SCOPE_KERNEL,    /* order groups heaviest_first */
    SCOPE_SPACE,     /* copies l1 = 2, l0a = 2 */
} KnobScope;
typedef enum KnobSource { SOURCE_MACHINE, SOURCE_RULE, SOURCE_NONE /* no machine that runs here reads it */ } KnobSource;

typedef struct KnobRow {
    const char *clause, *word;
    KnobScope scope;
    int64_t lo, hi, step;
    const char *words; /* names of the values 0, 1 ..., with blanks between; "": they are numbers */
    int64_t keeps;     /* values up to this one keep bits */
    KnobSource source;
    int64_t otherwise;
    const char *doc;
} KnobRow;
extern const KnobRow knob_table[KNOB_COUNT];

/* One knob of a clause. Several values, written ?{a, b}: a knob of the tuner's space, of which the first compiles. */
typedef struct Setting {
    Knob knob;
    Loc loc;
    Vec(int64_t) values;
} Setting;

typedef struct ScheduleName {
    Name name;
    Loc loc;
} ScheduleName;

typedef struct Clause {
    Vec(ScheduleName) names, readers; /* readers: of `fuse names -> readers` */
    Vec(Setting) settings;            /* at least one; all of one word `clause` */
} Clause;

typedef struct Schedule {
    Name kernel;
    Loc loc;
    Vec(Clause) clauses;
} Schedule;

/* Values of a knob's space, ascending: one and one and a half times the powers of two of the smallest. Returns how many. */
enum { KNOB_SPACE_MAX = 64 };
uint32_t knob_space(Knob knob, int64_t *values /* KNOB_SPACE_MAX places */);
void knob_put_value(Knob knob, int64_t value, Text *out); /* 64, heaviest_first */
int knob_keeps_bits(Knob knob, int64_t value);
enum { AT_PROLOGUE, AT_EPILOGUE, AT_SCATTER }; /* the words of KNOB_fuse */

typedef struct TestRouting {
    enum { ROUTING_UNIFORM, ROUTING_ZIPF, ROUTING_HOT, ROUTING_EMPTY, ROUTING_EXACT } kind;
    double value;          /* zipf exponent, empty percent, number of hot experts */
    Vec(int64_t) counts;   /* exact */
} TestRouting;

typedef struct TestRun {
    Vec(TestRouting) routings; /* combined; empty: uniform */
} TestRun;

typedef struct Test {
    Name kernel;
    Loc loc;
    Vec(struct TestSize { DimId dim; int64_t value; }) sizes;
    Vec(TestRun) runs; /* at least one */
    double tolerance;  /* 0: the numeric contract's */
    int gradcheck;
} Test;

typedef struct Module Module;

typedef struct Kernel {
    Module *module;
    Name name;
    Loc loc;
    Vec(Param) params; /* in the order written */
    Vec(Tensor) tensors;
    Vec(Route) routes;
    Vec(Index) indices;
    Vec(Expr) exprs;
    Vec(uint32_t) links; /* argument and bound lists of expressions */
    Vec(Equation) eqs;
    Vec(Cluster) clusters;
    Vec(struct Moved { TensorId from; TensorId to; }) moved; /* sums of `from` now stand in the equation of `to` */
    struct WalkState *walk;   /* ir/walk.c */
    struct FreshNames *fresh; /* ir/fresh.c */
    uint32_t *cons; /* hash-cons table: ExprId + 1 */
    uint32_t cons_size, cons_used;
    const Derive *derived; /* this kernel is the forward or backward of ... , or NULL */
    struct TileProgram *tiles; /* NULL until lowered; ir/tile.h */
} Kernel;

struct Module {
    Arena *arena;
    Arena *scratch; /* lists and maps of walks: until the end of the pass, or of the query that marked it */
    Names *names;
    Diags *diags;
    const char *path;
    Vec(Dim) dims;
    Vec(Group) groups;
    Vec(ExtentForm) extents;
    uint32_t *extent_table; /* a hash table of Extent + 1 */
    uint32_t extent_slots;
    Vec(Kernel *) kernels;
    Vec(Derive) derives;
    Vec(Schedule) schedules;
    Vec(Test) tests;
};

Module *ir_module(Arena *a, Diags *diags, const char *path);

/* Extents. All return interned ids of the module; overflow of a coefficient saturates and fails the verifier. */
Extent ext_const(Module *m, int64_t value);
Extent ext_dim(Module *m, DimId dim);
Extent ext_add(Module *m, Extent a, Extent b);
Extent ext_sub(Module *m, Extent a, Extent b);
Extent ext_mul(Module *m, Extent a, Extent b);
int ext_same(const Module *m, Extent a, Extent b);               /* equal once constants are put in */
int ext_is_const(const Module *m, Extent e, int64_t *value);
int ext_eval(const Module *m, Extent e, const int64_t *dims, int64_t *value); /* 0 on overflow; dims by DimId */
void ext_print(const Module *m, Extent e, Text *out);
int axis_same(const Module *m, Axis a, Axis b);
void axis_print(const Module *m, Axis a, Text *out); /* the extent, or the group of its rows */

/* Dimensions that a call passes: those that its parameters, locals, routes, groups or expressions mention, not
 * constant, ascending. */
uint32_t ir_kernel_dims(const Kernel *k, DimId *out /* module->dims.len places */);

uint32_t ir_tensor_dims(const Kernel *k, TensorId t, DimId *out); /* of those, what this tensor's axes mention */

/* Kernels. */
Kernel *ir_kernel(Module *m, Name name, Loc loc); /* added to the module */
Kernel *ir_find_kernel(const Module *m, Name name);
TensorId ir_tensor(Kernel *k, Tensor t);
TensorId ir_find_tensor(const Kernel *k, Name name);
RouteId ir_find_route(const Kernel *k, Name name);
RouteId ir_group_route(const Kernel *k, GroupId g);  /* the kernel's one route of a group, or NONE */
IndexId ir_index(Kernel *k, Name name, Loc loc, Axis axis);
int ir_is_declared(const Module *m, Name name); /* a dimension or a group has it */
Name ir_fresh_name(Kernel *k, const char *stem);     /* unused by tensors, routes, indices, dims, groups */
void ir_rename(Kernel *k, TensorId t, Name name);

/* Expression builders. Types are computed; operands must already be legal (the frontend has checked them;
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

/* The returned pointers are valid until the next builder call. */
static inline const Expr *x_at(const Kernel *k, ExprId e) { return &k->exprs.at[e]; }
static inline ExprId x_arg(const Kernel *k, ExprId e, uint32_t n) { return k->links.at[k->exprs.at[e].args + n]; }
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
/* e as a subscript of that axis. An index alone stands for all of its axis (language page, section 4), so where e is the
 * index of another one the same number is `e + 0`. */
ExprId x_subscript(Kernel *k, ExprId e, Axis axis);
ScalarOp op_negated(ScalarOp comparison); /* of integers: < gives >=; OP_COUNT when it is no comparison */

/* Walks. Nodes are shared, so a walk that follows every path can take exponential time: go over this list instead. */
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
uint32_t x_conjuncts(const Kernel *k, ExprId cond, ExprId *out, uint32_t max); /* flattens `and`; NONE -> 0 */
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

/* Tries to prove 0 <= e < extent from index ranges, dimension signs and the conjuncts of `guard` (or NONE). */
typedef enum Proof { PROOF_INSIDE, PROOF_UNKNOWN, PROOF_OUTSIDE } Proof;
Proof ir_prove_range(Kernel *k, ExprId e, Axis axis, ExprId guard);
/* Tries to prove a - b >= by from the same facts. */
int ir_prove_at_least(Kernel *k, ExprId a, ExprId b, int64_t by, ExprId guard);

/* Equations. */
Equation ir_equation(EqKind kind, Loc loc); /* all ids NONE */
void ir_compact(Kernel *k);                 /* drops dead equations */

/* The text form: a complete .moe file that compiles to the same module. `kernel` NULL: all. */
void ir_print(const Module *m, const Kernel *kernel, Text *out);
/* Text writes what is shared at each use, so that functions of functions may be too long for it. Reports such kernels and
 * returns 0. */
enum { PRINTED_MAX = 1 << 20 }; /* operations of a kernel: some 10 MB */
int ir_is_printable(const Module *m);
void ir_print_expr(const Kernel *k, ExprId e, Text *out);
void ir_print_equation(const Kernel *k, const Equation *q, Text *out);

/* As text; only what k still has: passes drop locals and edges. k NULL: everything. */
void ir_print_clause(const Kernel *k, const Clause *c, Text *out);
/* How equations of `reader` load `producer`: bits. */
enum { EDGE_PROLOGUE = 1 /* inside a sum */, EDGE_EPILOGUE = 2 /* outside one */, EDGE_SCATTER = 4 /* in a sum, through a row */ };
int ir_edge(const Kernel *k, Name producer, Name reader);
/* May a clause of the knob name it: a tensor or an index of k? */
int ir_knob_fits(const Kernel *k, Knob knob, Name name);
int ir_fuse_fits(const Kernel *k, Name producer, Name reader, int64_t at);
/* Reports names of s that k does not define or that do not fit their clause. Returns 0 when there are none. */
int ir_check_schedule(const Kernel *k, const Schedule *s);

/* Every fact of the module once, for hashing: equal digests compile to equal code. Tests and places are left out. */
void ir_digest(const Module *m, Text *out);

/* NULL when the kernel keeps every invariant of this page, else what is broken and where. */
const char *ir_verify(const Kernel *k, Arena *a);

/* ---- the reference interpreter ---- */

typedef enum EvalMode {
    EVAL_REFERENCE, /* f32 scalar arithmetic, casts round, sums in f64 rounded to f32 once */
    EVAL_EXACT,     /* everything in f64, casts do nothing: for finite differences */
} EvalMode;

typedef struct EvalRoute { /* like moe_route, owned by the caller */
    int64_t tokens, choices, groups, rows;
    int64_t *start, *count;
    int32_t *slot_of, *row_of;
    int doubtful; /* of an output: made from choices that a nearby float would change */
} EvalRoute;

typedef struct EvalArg {
    double *data;     /* tensor: row-major, one double per element, whatever its type (a scalar: one) */
    EvalRoute *route; /* route */
} EvalArg;

/* Runs the equations of k. dims by DimId of the module (constants ignored); args by parameter.
 * Returns NULL or the error text (out-of-range index with tensor and value, bad size, ...), in arena a.
 * bounds, when not NULL, by parameter: receives per element of float outputs the allowed |difference| of
 * the numeric contract (language page, section 5), or NULL entries. Of i32 outputs: 0, or INFINITY where a nearby
 * float decides (a near tie of top, say). A NaN result allows a NaN only. Nothing is written back on an error's
 * behalf: outputs are then unspecified. */
const char *ir_eval(const Kernel *k, EvalMode mode, const int64_t *dims, EvalArg *args, double *const *bounds,
                    Arena *a);
/* Rounds a double to an element type (nearest even; i32 not). */
double elem_round(Elem e, double value);
/* One scalar operation on values, as the interpreter computes it. */
double scalar_eval(ScalarOp op, EvalMode mode, Type operand_type, double a, double b);

/* Makes the route of ids (row-major [T, K], -1: dropped) into `out`, whose arrays the caller gives.
 * capacity: places per group, or -1. Returns 0, or 1 + position of a value outside -1..groups-1, or -1 when the
 * rows do not fit out->rows, or -2 without memory. slot_of and row_of may be NULL. */
int64_t ir_make_route(const int32_t *ids, int64_t capacity, EvalRoute *out);
/* NULL, or why the kernel cannot be run so at these sizes (by DimId; -1: not known, then nothing is said). */
const char *ir_run_flaw(const Kernel *k, const int64_t *sizes, const TestRun *run, Arena *a);

#endif
