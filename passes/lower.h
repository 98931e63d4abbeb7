/* The lowering's own header: what lower.c, lower_plan.c, lower_loop.c, lower_expr.c and lower_sum.c share. */
#ifndef PASSES_LOWER_H
#define PASSES_LOWER_H

#include "passes/passes.h"

/* Row blocks of a route, listed once per kernel and block size. */
typedef struct BlockList {
    RouteId route;
    int64_t rows;
    TensorId list, count;
} BlockList;

/* A counting sort, made once per kernel, key and number of buckets. */
typedef struct Bucket {
    ExprId key, guard;
    Extent buckets;
    uint32_t nbound;
    IndexId bound[MAX_RANK];
    TensorId order, first;
} Bucket;

typedef struct Done {
    ExprId reduce, value;
} Done;

/* The status codes of abi.def, for `check` statements. */
enum {
#define STATUS(name, text) STATUS_##name,
#include "moec/abi.def"
};

enum { OPEN_MAX = 128, FREE_MAX = 4 * MAX_RANK, CONJUNCT_MAX = 64, REDUCE_MAX = 64 };

/* How one equation is laid over loops; made by lower_plan(). */
typedef struct Plan {
    IndexId free[FREE_MAX]; /* index variables of the left-hand side, in order */
    uint32_t nfree;
    IndexId lane;    /* the free index that runs over lanes, or NONE: then each reduction picks its own */
    int64_t width;   /* lanes of `lane` */
    int64_t strip;   /* lanes one item covers */
    IndexId row;     /* the free index whose block of `rows` is unrolled, or NONE */
    int64_t rows;
} Plan;

typedef struct Lower {
    Kernel *k;
    const Cpu *cpu;
    TileProgram *p;
    StmtId parent[OPEN_MAX], last[OPEN_MAX]; /* open statements; last child of each; [0]: the kernel */
    uint32_t depth;
    Vec(ExprId) value; /* by IndexId: what stands for it now; NONE: the loop variable itself */
    Vec(ExprId) group; /* by IndexId of a row: the group it is in; NONE: not known */
    Vec(BlockList) blocks;
    Vec(Bucket) buckets;
    TensorId *group_of; /* by RouteId: i32[rows], made where @ is asked of a row outside a group loop */
    Plan plan;
    IndexId unroll;        /* variable of the open unroll loops, or NONE */
    ExprId lane_first;         /* first lane of the item */
    ExprId row_first, row_end; /* block of plan.row: first row and end of its range */
    Vec(Done) done; /* reductions already in registers */
} Lower;

/* lower_loop.c: statements under the open one. */
StmtId lower_put(Lower *l, Stmt s);
void lower_open(Lower *l, Stmt s);
void lower_close(Lower *l, uint32_t depth); /* back to that depth */
void lower_launch(Lower *l, Loc loc, const char *stem);
void lower_for(Lower *l, Loc loc, LoopMode mode, IndexId var, ExprId lo, ExprId hi, int64_t step);
void lower_if(Lower *l, Loc loc, ExprId condition);
void lower_store(Lower *l, Loc loc, TensorId t, const ExprId *index, ExprId value, int add);
TensorId lower_reg(Lower *l, const char *stem, Elem elem, int64_t count /* 0: one value */, uint32_t lanes);
TensorId lower_buffer(Lower *l, const char *stem, Elem elem, Space space, uint32_t rank, const Extent *extents);
ExprId lower_let(Lower *l, Loc loc, const char *stem, ExprId value); /* an i64 register holding value */
void lower_bind(Lower *l, IndexId i, ExprId value, ExprId group);
IndexId lower_index(Lower *l, const char *stem);

/* lower_expr.c: equation-level expressions in terms of the loops that stand. */
ExprId lower_expr(Lower *l, ExprId e);
ExprId lower_field(Lower *l, RouteId r, RouteField f, ExprId subscript);
ExprId lower_run_start(Lower *l, RouteId r, ExprId group);
ExprId lower_run_end(Lower *l, RouteId r, ExprId group);
ExprId lower_add(Lower *l, ExprId a, int64_t b);
ExprId lower_min(Lower *l, ExprId a, ExprId b);
ExprId lower_max(Lower *l, ExprId a, ExprId b);
RouteId lower_route_of(const Lower *l, IndexId row);

/* lower_plan.c: lanes and row blocks of an equation. */
int lower_varies(const Kernel *k, ExprId e, IndexId i); /* does e vary with i, a row's group taken as fixed? */
typedef enum Stride { STRIDE_NONE, STRIDE_ONE, STRIDE_FAR } Stride;
Stride lower_stride(Kernel *k, ExprId load, IndexId i);
void lower_plan(Lower *l, const Equation *q);
int lower_has_reduce(const Kernel *k, ExprId e);
/* Maximal reductions of e (not inside another), at most max; returns how many. */
uint32_t lower_reductions(const Kernel *k, ExprId e, ExprId *out, uint32_t max);
/* The bound index of `reduce` over which lanes may run, or NONE. */
IndexId lower_reduce_lane(Lower *l, ExprId reduce);

/* lower_sum.c: reductions. */
void lower_prepare(Lower *l, ExprId e); /* launches for counting sorts and group tables that e needs */
/* Emits every reduction of e. Until l->done is cut back, lower_expr(e) reads their registers: of the row the unroll
 * variable stands at where plan.rows > 1. `onto`: NULL, or the += whose right-hand side e is: when e is one float
 * sum its register starts at the old value, and the store replaces; returns whether it did. */
int lower_sums(Lower *l, ExprId e, const Equation *onto);
ExprId lower_value(Lower *l, ExprId e); /* both in one, and cuts back */
/* Is `reduce` a bucketed sum, sum(t where key(t) == v) ...? Fills the sort it needs, which conjunct asks for it, and
 * the conjuncts that the sort makes true (bits, that one included). */
int lower_is_bucket(Lower *l, ExprId reduce, Bucket *sort, uint32_t *conjunct, uint64_t *implied);

#endif
