/* Kernels and modules: the arrays that everything else numbers. */
#ifndef IR_MODULE_H
#define IR_MODULE_H

#include "ir/equation.h"
#include "ir/schedule.h"

/* How a gradient leaves a backward kernel. */
typedef enum GradMode {
    GRAD_WRITE,     /* d_A has A's type: summed in f32, rounded once */
    GRAD_WRITE_F32, /* d_A is f32, not rounded */
    GRAD_ADD,       /* d_A is f32, added to */
    GRAD_PASS       /* d_A is the cotangent of one output, unchanged: no parameter */
} GradMode;

/* A request. later: the second backward kernel, which makes the targets that say so; or NULL. */
typedef struct Derive {
    Name forward, backward, later, kernel;
    Loc loc;
    Vec(struct DeriveWrt { Name name; Loc loc; GradMode mode; int later; }) wrt;
    /* in: the output whose value it is, or NULL */
    Vec(struct DeriveSave { Name name; Loc loc; Elem elem; Name type; /* as written */ Name in; }) save;
    int cotangents_f32;
} Derive;

/* What one request of `derive` made: its kernels, and which of their parameters are what. All other `in` parameters of a
 * backward kernel are parameters of the forward under the same names. */
typedef struct DerivedPair {
    Name from, forward, backward, later; /* later: the second backward kernel, or NULL */
    Vec(struct PairSaved { Name local; Name param; Name type; }) saved; /* param: `out` of the forward, `in` of the backward */
    Vec(struct PairCotangent { Name output; Name param; }) cotangents;
    /* param is NULL of GRAD_PASS, and output NULL of all others; later: `later` makes it */
    Vec(struct PairGradient { Name input; Name param; Name output; GradMode mode; int later; }) gradients;
    Vec(Name) handed; /* parameters: `out` of `backward`, `in` of `later` */
} DerivedPair;

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
    uint32_t cons_size;
    const Derive *derived; /* this kernel is the forward or backward of ... , or NULL */
    struct TileProgram *tiles; /* NULL until lowered; ir/tile.h */
} Kernel;

struct Module {
    Arena *arena;
    Arena *scratch; /* lists and maps of walks: until the end of the pass, or of the query that marked it */
    Names *names;
    Diags *diags;
    const char *path;
    Vec(TypeParam) types;
    Vec(Dim) dims;
    Vec(Group) groups;
    Vec(ExtentForm) extents;
    uint32_t *extent_table; /* a hash table of Extent + 1 */
    uint32_t extent_slots;
    Vec(Kernel *) kernels;
    Vec(Kernel *) interfaces; /* kernels that are described only: no code of them is wanted (pass interface) */
    Vec(Derive) derives;
    Vec(DerivedPair) pairs; /* of requests that have run, in their order */
    Vec(Schedule) schedules;
    Vec(Test) tests;
};

Module *ir_module(Arena *a, Diags *diags, const char *path);

/* ---- extents ----
 *
 * All return interned ids of the module; overflow of a coefficient saturates and fails the verifier. */
Extent ext_const(Module *m, int64_t value);
Extent ext_dim(Module *m, DimId dim);
Extent ext_add(Module *m, Extent a, Extent b);
Extent ext_sub(Module *m, Extent a, Extent b);
Extent ext_mul(Module *m, Extent a, Extent b);
int64_t ext_rest(const Module *m, Extent e, Extent by); /* of the constant in e: what a number leaves of it, of 0 .. by - 1; else all of it */
Extent ext_divide(Module *m, Extent e, Extent by); /* NONE: by is no factor of e that can be seen */
int ext_same(const Module *m, Extent a, Extent b);               /* equal once constants are put in */
int ext_is_const(const Module *m, Extent e, int64_t *value);
int ext_is_below(const Module *m, Extent e, int64_t n); /* smaller than n, whatever the call: by the largest values of its dimensions */
int ext_eval(const Module *m, Extent e, const int64_t *dims, int64_t *value); /* 0 on overflow; dims by DimId */
void ext_print(const Module *m, Extent e, Text *out);
int axis_same(const Module *m, Axis a, Axis b);
void axis_print(const Module *m, Axis a, Text *out); /* the extent, or the group of its rows */

/* Dimensions that a call passes: those that its parameters, locals, routes, groups or expressions mention, not
 * constant, ascending. */
uint32_t ir_kernel_dims(const Kernel *k, DimId *out /* module->dims.len places */);

uint32_t ir_tensor_dims(const Kernel *k, TensorId t, DimId *out); /* of those, what this tensor's axes mention */

/* ---- kernels ---- */

Kernel *ir_kernel(Module *m, Name name, Loc loc); /* added to the module */
Kernel *ir_find_kernel(const Module *m, Name name);
const char *ir_no_kernel(const Module *m, const char *name, Arena *a); /* the error text: a program lacks it */
const DerivedPair *ir_find_pair(const Module *m, Name forward); /* NULL: derive made none of that name */
TensorId ir_tensor(Kernel *k, Tensor t);
TensorId ir_find_tensor(const Kernel *k, Name name);
RouteId ir_find_route(const Kernel *k, Name name);
RouteId ir_group_route(const Kernel *k, GroupId g);  /* the kernel's one route of a group, or NONE */
IndexId ir_index(Kernel *k, Name name, Loc loc, Axis axis);
int ir_is_declared(const Module *m, Name name); /* a dimension or a group has it */
Name ir_fresh_name(Kernel *k, const char *stem);     /* unused by tensors, routes, indices, dims, groups */
void ir_rename(Kernel *k, TensorId t, Name name);


Equation ir_equation(EqKind kind, Loc loc); /* all ids NONE */
void ir_compact(Kernel *k);                 /* drops dead equations */

#endif
