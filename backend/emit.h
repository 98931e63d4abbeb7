/* What the emit_*.c files share: a kernel's plan, a function's emission state, and who emits what. */
/* Note [Layers]. A file calls files of its own row and of the rows above it, which tests/calls.py checks:
 *     l, emit_multiple, emit_narrow: LLVM in short words; what is a multiple of what; what fits 32 bits
 *     family_x86, target, jit, jit_names, object, made, made_bytes: what LLVM makes of a module
 *     plan, emit_lanes, emit_frame, emit_debug: questions to a plan, masks, what a function computes once, lines
 *     emit_scalar, emit_quotient, emit_math, emit_number: scalar operations and element formats
 *     emit_expr, emit_memory, emit_stream: expressions, loads and stores
 *     emit_transpose, emit_pack_function: functions that fill panels
 *     emit_product, emit_product_parts, emit_product_panel, emit_product_heights, emit_fragment, emit_amx, emit_rows, emit_rows_transposed, emit_rows_packed: functions that multiply
 *     emit_stmt, emit_event, emit_pack, emit_pack_run, emit_sort, emit_route: statements, which run others through Plan.hooks
 *     emit_hooks, emit_launch, emit_shared: launches as functions
 *     emit_packed, emit_precondition, emit_space, emit_entry, emit_tvm, emit_export: the functions that callers know
 *     plan_key, emit_plan, emit_helper: they make the plan, and ask statements what they will need; helpers by number
 *     backend: the front door
 *     make_helpers: the program of Note [Made helpers] */
#ifndef BACKEND_EMIT_H
#define BACKEND_EMIT_H

#include "backend/l.h"

typedef struct Debug Debug;
typedef struct Emit Emit;
typedef void EmitTile(Emit *e, StmtId s); /* emits a statement */

/* abi.def as names: STATUS_..., and the fields of moe_ctx and moe_route. */
enum {
#define STATUS(name, text) STATUS_##name,
#include "moec/abi.def"
};
enum {
#define CTX(field, ctype, llvm, doc) CTX_##field,
#include "moec/abi.def"
};
enum {
#define ROUTE(field, ctype, llvm, doc) ROUTE_##field,
#include "moec/abi.def"
};

/* Functions that a compiled module has once; see emit_shared.c. */
typedef struct Shared {
    V refuse;  /* i32 (ptr ctx, i32 status, ptr format, i64, i64): fills the context, returns the status */
    V overlap; /* i64 (ptr ranges, i64 n): 0, or 1 + first * n + second */
    V items;   /* void (ptr data, ptr body, ptr map, i64 items, ptr counter, i64 thread, i64 threads): takes
                  chunks */
    V null;    /* i64 (ptr ranges, i64 n): 0, or 1 + the first that is NULL and not empty */
    V fail;    /* void (ptr data, i64 item, i32 check, i64, i64): keeps the failure of the lowest item */
    V select;  /* i32 (): 1 + the instruction set that runs on this CPU; negative: none */
    V forced;  /* ptr: the word of MOE_ISA, for messages */
    V log;     /* ptr: who is told of calls, NULL: nobody; see Note [Log of calls] in runtime/log.h */
    V process; /* i32: the process that loaded the module, 0: not known; see Note [Forked] in emit_entry.c */
    V snprintf;
    V nowhere;         /* zeros that a load of inactive lanes may read */
    V strided;         /* void (ptr pack, ptr first, i64 stride, i64 rows, i64 n, ptr to, i64 block, i64 step): packs
                          rows that stand `stride` bytes apart, PACK_ROWS at a time; `to` advances by step */
    Ty range;          /* {ptr first, i64 bytes, i64 written} */
    Ty route, context; /* abi.def */
} Shared;


/* A buffer of the tile program: a tensor, or a field of a local route that no expression reads. */
typedef struct Buffer {
    const char *name;
    Elem elem;
    Space space;
    Role role;
    uint8_t rank;
    Axis axes[MAX_RANK];
    Layout layout;
    uint32_t lanes;
    RouteId route;
    uint8_t field;
    uint8_t plus; /* elements beyond the axes */
    uint8_t used;
    uint8_t by_value;                /* an `in` scalar */
    int64_t place;                   /* on-chip: Tensor.at */
    uint32_t at;                     /* byte in the call's data: its address, or its value */
    StmtId asked;                    /* in the function being emitted: the loop that asks for rows ahead */
    StmtId home;                     /* reg: the one vector loop that uses it; NONE: none or several */
    V base, *regs, stride[MAX_RANK]; /* in the function being emitted */
    V padded[2], matrix;             /* likewise: extents of the last two axes with their padding, their product */
} Buffer;

enum { PARALLEL_MAX = 16 };

/* What a launch reads of the call's data: a dimension or a buffer. */
typedef struct Slot {
    int is_dim;
    uint32_t id;
} Slot;

typedef struct Launch {
    StmtId stmt, body;
    uint32_t nloops;
    StmtId loops[PARALLEL_MAX]; /* one flat space of items */
    int has_product, has_lanes; /* lanes: registers that keep them */
    Vec(Slot) slots;
    uint8_t *reads;      /* by TensorId: it loads from this buffer */
    StmtId *once, *again; /* by TensorId: the first vector loop that does, and the last one if there are several, or NONE */
    uint32_t check_base; /* its first check in Plan.checks */
    uint64_t weight;     /* rough size of its code */
    Text key;            /* Note [One body] in plan_key.c */
    const char *body_name;
} Launch;

typedef struct CheckText {
    int status;
    const char *format;
} CheckText;

/* One kernel for one instruction set. Made without LLVM, then copied for each part that emits of it. */
typedef struct Plan {
    const Module *m;
    const Kernel *k;
    const TileProgram *p;
    Isa target, isa; /* what is compiled for, and what all but block products are generated for */
    const Cpu *cpu;  /* of isa */
    EmitTile *const *hooks; /* by TileKind */
    Vec(Buffer) buffers; /* the tensors, by TensorId, and behind them hidden route fields */
    DimId *dims;
    uint32_t ndims;
    uint32_t *dim_at; /* by DimId: byte in the call's data */
    uint32_t data_bytes;
    Vec(Launch) launches;
    Vec(CheckText) checks;
    uint32_t *check_of; /* by StmtId: its first check, counted from the launch's */
    uint8_t *lane_axis; /* by StmtId: pack_lane_axis() */
    uint64_t helpers; /* bit h: helper h is called, see Note [Helpers] */
    /* of the part */
    L *l;
    Shared *shared;
    Debug *debug; /* NULL without -g */
} Plan;

/* Note [Call data]. One block on the caller's stack is all that threads share: the failure, the number of
 * threads, a cache line with a counter for each launch, and 8 bytes for each dimension and buffer: its
 * address, or the value of an `in` scalar. Thread buffers: the address of thread 0's. These are byte offsets.
 */
enum {
    DATA_LOCK = 0,
    DATA_FAILED = 4, /* 1 + the number of the check that failed, 0: none */
    DATA_ITEM = 8,
    DATA_A = 16,
    DATA_B = 24,
    DATA_THREADS = 32,
    DATA_PRODUCTS = 40, /* the target's functions of block products, by product_kind() */
    DATA_THREAD_BYTES = 48, /* Note [Work space] in emit_space.c */
    DATA_COUNTERS = 64
};

/* A function being emitted. */
struct Emit {
    Plan *p;
    L *l;
    const Kernel *k;
    V data, item, thread;
    const Launch *launch; /* whose body this is, or NULL */
    V map;                /* of the launch: i32 check base, then the byte in the data of each slot */
    LLVMMetadataRef *scopes, *others; /* by slot */
    Block failed;
    V *dim, *extent, *real_dim, *real; /* by DimId and Extent, as i64 and f64: computed in the entry block */
    V *index;                          /* by IndexId: the loop variable (of a vector loop: that of lane 0) */
    /* Note [Masks]. In the last trip of a vector loop `tail` tells the lanes that exist: at least one does.
     * Under a condition with lanes `cond` tells those where it holds: perhaps none. NULL: all. */
    IndexId var;
    uint32_t width; /* lanes of the open vector loop, 0: none */
    StmtId loop;
    IndexId around; /* of the innermost ordered loop, NONE outside of all */
    V var_lanes, tail, cond;
    int lane0;       /* the vector variable stands for lane 0's value: addresses of contiguous memory */
    uint8_t *form;   /* by ExprId, Form + 1 in the open vector loop */
    uint8_t *unsafe; /* by ExprId: 1 safe to evaluate anywhere, 2 not */
    V *memo[2];      /* by ExprId, with lane0 off and on */
    Vec(uint32_t) log;
    int unrolled; /* open unroll loops: see emit_outline() */
    V scratch;    /* emit_pack.c, emit_pack_function.c: what waits, or NULL */
    V rows;       /* emit_pack_run.c: addresses, or NULL */
    int streams;  /* some store went past the caches */
};

/* plan.c: questions that every layer may ask. */
uint32_t plan_field(const Plan *p, RouteId r, RouteField f); /* buffer, or NONE */
void plan_add_check(Plan *p, Arena *a, int status, const char *format);
void plan_attributes(const Plan *p, V fn); /* of functions for its instruction set */
int plan_needs_space(const Buffer *b);
/* Block products do nearly all of its work: what stands beside them is to be generated fast. */
int launch_is_products(const Launch *launch);
/* It looks at a route in whole numbers only: little work, and the same code for every instruction set. */
int launch_is_route(const Plan *p, const Launch *launch);

/* emit_plan.c, plan_key.c */
Plan *plan_new(Arena *a, const Module *m, const Kernel *k, Isa target, int debug);
Plan *plan_copy(const Plan *p, L *l, Shared *shared, Debug *debug);
void plan_add_route_checks(Plan *p, Arena *a, const Stmt *s); /* emit_route.c */
int plan_store_may_fail(const Plan *p, const Stmt *s);        /* emit_stmt.c: a value that may not fit i32 */
void plan_key(Plan *p, Arena *a, Launch *launch, int debug);

/* emit_lanes.c */
V emit_mask(Emit *e);                /* tail and cond, NULL: all */
V emit_first_lanes(Emit *e, V left); /* a mask of that many */
/* From here on `var` has so many lanes; NONE: there are no lanes. */
void emit_lanes_over(Emit *e, IndexId var, uint32_t width);
void emit_lanes_from(Emit *e, V first); /* what var is in them */

/* emit_frame.c: what a function computes once. */
Emit emit_blank(Plan *p); /* of a function that knows no buffers, loops and lanes (yet) */
Emit *emit_new(Plan *p, V fn, V data);
V emit_dim(Emit *e, DimId d);
V emit_extent(Emit *e, Extent x);
V emit_base(Emit *e, uint32_t buffer);
V emit_stride(Emit *e, uint32_t buffer, uint32_t axis); /* in elements; not of a layout's last two axes */
V emit_padded(Emit *e, uint32_t buffer, uint32_t axis); /* 0, 1: of a layout's last two axes */
int layout_terms(Elem elem);                            /* elements of a word: neighbours in k */
V emit_elements(Emit *e, uint32_t buffer);
V emit_bytes(Emit *e, uint32_t buffer); /* rounded up to whole cache lines */
V emit_register(Emit *e, uint32_t buffer, const int64_t *index, uint32_t n);
Ty emit_memory_type(L *l, Elem elem);
Ty emit_value_type(L *l, Elem elem);

/* emit_expr.c */
typedef enum Form { FORM_UNIFORM, FORM_UNIT /* vector variable plus uniform */, FORM_LANES } Form;
V emit_value(Emit *e, ExprId x);
V emit_float(Emit *e, ExprId x);
V emit_bool(Emit *e, ExprId x);
Form emit_form(Emit *e, ExprId x);
int emit_unsafe(Emit *e, ExprId x);
int emit_multiple(Emit *e, ExprId x, int64_t n); /* lane 0's value is known to be a multiple of n */
V emit_narrow(L *l, V v); /* lanes that fit 32 bits, in 32 bits; others as they are */
V emit_to_float(Emit *e, V v);
void emit_forget(Emit *e, uint32_t mark); /* drops remembered values back to log length `mark` */
V emit_fold_lanes(Emit *e, ReduceKind kind, V v);

/* emit_memory.c */
V emit_load(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n);
void emit_store(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n, V value);
/* += where every lane has its own address: lane after lane. 0: it is no such place, nothing was emitted. */
int emit_add_each(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n, ExprId value);
/* One element at a computed flat position, no masks: for sorts. */
V emit_get(Emit *e, uint32_t buffer, V position);
void emit_put(Emit *e, uint32_t buffer, V position, V value);
V emit_position(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n); /* of subscripts without lanes */
void emit_alias(Emit *e, V access, uint32_t buffer);
V emit_address(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n); /* of subscripts without lanes */
/* Contiguous lanes; mask NULL: all, else loads give zeros for the others; buffer NONE: unknown. */
V emit_load_run(Emit *e, uint32_t buffer, Elem elem, V at, V mask);
V emit_load_first(Emit *e, Elem elem, V at, V n); /* the first n of the lanes, zeros for the others */
void emit_store_run(Emit *e, uint32_t buffer, V at, V raw, V mask);

void emit_store_kept(Emit *e, uint32_t buffer, V at, V raw, V mask); /* the same into the caches, with a mask if it may have one */

/* emit_stream.c: Note [Streams]. 0: nothing was emitted, the ordinary store remains to be made. */
int emit_stream(Emit *e, uint32_t buffer, V at, V raw, V mask);
/* i1, known in the whole function: the launch stores whole lines to the buffer past the caches. The caller is to do so. */
V emit_streams_lines(Emit *e, uint32_t buffer);
void emit_stream_end(Emit *e); /* before a body returns */
void emit_ask(L *l, V at);     /* the line of memory will be wanted in the second cache */
void emit_ask_near(L *l, V at); /* and this one in the first */
/* So many lines from `at` on will be wanted in the second cache, none of them behind the byte at[last]. */
void emit_ask_lines(L *l, V at, V last, int64_t lines);
/* Note [Ahead], beside a load of contiguous lanes from `at`. */
void emit_ahead(Emit *e, uint32_t buffer, const ExprId *index, uint32_t n, V at);

/* emit_number.c: element formats. Values are f32, i64 or conditions; bf16 and f16 are f32 values. */
V emit_decode(Emit *e, Elem elem, V raw);
V emit_encode(Emit *e, Elem elem, V value);
V emit_flush_bf16(Emit *e, V value); /* the same, widened; what is subnormal may become 0 */
V emit_round_bf16_hook(Emit *e, V value, V unused);

/* emit_scalar.c, emit_math.c: one hook per row of scalar.def, declared from the rows. */
typedef V EmitScalar(Emit *e, V a, V b);
#define SCALAR(name, spelling, arity, kind, cost, ulp, ga, gb, doc) EmitScalar emit_##name;
#include "ir/scalar.def"
V emit_scalar(Emit *e, ScalarOp op, V a, V b);
/* hook(a, b), by a call of a function of its own when it would be repeated by an unroll loop: what stands
 * there is little work beside the loop before it, and code costs time to generate. */
V emit_outline(Emit *e, const char *name, EmitScalar *hook, V a, V b);
V emit_fma(Emit *e, V a, V b, V c); /* fused where the target has it, else a product and a sum */
int emit_has_fma(const Emit *e);

/* emit_stmt.c, emit_event.c, emit_pack.c, emit_product.c, emit_route.c, emit_sort.c: one hook per row of tile.def;
 * emit_hooks.c: the table of them, which plans have. */
#define TILE(name, doc, ...) EmitTile emit_tile_##name;
#include "ir/tile.def"
extern EmitTile *const emit_hooks[TILE_COUNT];
void emit_body(Emit *e, StmtId first);
void emit_here(Emit *e, Loc loc); /* the source line of what follows */
/* Unless ok (may have lanes: then a and b may too) the launch fails with that check, counted from the
 * launch's first. */
void emit_check(Emit *e, V ok, uint32_t check, V a, V b);

/* Note [Helpers]. Functions that launches call for most of their work, each generated once for an instruction
 * set, in whatever part of the object: block products by types, what they all do with a panel, packs of rows by layouts and
 * types, and the transposition of a block of words, into the caches or past them; and what packs whole matrices of elements of
 * 2 or 4 bytes, the same for all. Their numbers in this order. */
enum { PRODUCT_KINDS = 14, PANEL_KINDS = 4, PACK_KINDS = 42, HELPER_PANEL = PRODUCT_KINDS };
enum { HELPER_PACK = HELPER_PANEL + PANEL_KINDS, HELPER_TRANSPOSE = HELPER_PACK + PACK_KINDS };
enum { HELPER_PACKED = HELPER_TRANSPOSE + 2, HELPERS = HELPER_PACKED + 2 };
_Static_assert(HELPERS <= 64, "a plan has a bit for each helper");

/* emit_helper.c */
void emit_helper(Plan *p, uint32_t helper);
/* What it is generated for once: products for the target, others for its code or (ISA_COUNT) for all. */
Isa helper_owner(Isa target, uint32_t helper);
int helper_exists(Isa target, uint32_t helper); /* may a program for the target call it? */

/* emit_product.c: block products, one function for each pair of element types and way in which the right operand lies. */
uint64_t product_helpers(const Plan *p, const Stmt *product); /* what it calls, a bit for each */
int product_exists(Isa target, uint32_t helper);             /* of products and panels: may one for the target call it? */
void emit_product_function(Plan *p, uint32_t kind);
void emit_panel_function(Plan *p, uint32_t kind);
/* The table that DATA_PRODUCTS points at: what tells targets apart that share code. After the functions, the bytes from what a loop
 * reads to what it asks for. */
V emit_products(Plan *p);
enum { TARGET_AHEAD = PRODUCT_KINDS, TARGET_ENTRIES, RUN_AHEAD = 2048 };

/* Bytes of a panel's row; words of a line. */
enum { ROW_OF_WORDS = LAYOUT_EDGE * LAYOUT_WORD_BYTES, WORDS = LAYOUT_LINE_BYTES / LAYOUT_WORD_BYTES };

/* emit_transpose.c: void (ptr from, i64 step, ptr to, i64 stride): 16 rows of 16 words that stand `step` bytes apart go to
 * 16 rows that stand `stride` bytes apart, as columns; `past` the caches or not. */
V emit_transpose(Emit *e, int past);
void emit_transpose_words(L *l, V from, V step, V to, V stride); /* the same in place of a call, into the caches */
void emit_transpose_function(Plan *p, int past);

/* emit_launch.c: i1 (ptr data, ptr map, i64 begin, i64 end, i64 thread), a launch's body: true when a check
 * failed; and void (ptr data, i64 thread, i1 team) that runs all launches in order. */
V emit_launch_body(Plan *p, const Launch *launch);
V emit_phases(Plan *p);
V emit_data_at(Emit *e, uint32_t byte);

/* emit_entry.c: int NAME.isa(ctx, dims..., params..., ptr products); and i64 NAME.isa.workspace(dims..., threads):
 * bytes, -1 when a dimension is none that a call accepts, or the work space is out of range. */
typedef struct Bodies {
    V entry, workspace;
} Bodies;
Bodies emit_entry(Plan *p);

/* emit_space.c: Note [Work space]. In bytes. */
typedef struct WorkSpace {
    V *at; /* by buffer: from the first shared byte, or from the first byte of a thread's region */
    V shared, thread;
} WorkSpace;
WorkSpace emit_work_space(Emit *e);

/* emit_precondition.c. A gate is where a call is refused: require() leaves to it unless ok. */
typedef struct Gate {
    Block refuse;
    V status, format, a, b;
} Gate;
Gate gate_open(Emit *e);
void gate_require(Emit *e, Gate *g, V ok, int status, const char *format, V a, V b);
void emit_preconditions(Emit *e, Gate *g, const V *params);
V emit_dims_fit(Emit *e);               /* i1: a call accepts the dimensions, each by itself */
V emit_extent_f64(Emit *e, Extent x); /* for tests against limits: cannot overflow */
/* i1: every axis and the whole are within limits; true when an earlier buffer (that needs work space) has the
 * shape. */
V emit_fits(Emit *e, uint32_t buffer, int only_space);
/* The C function's parameters: context, dimensions, parameters. */
unsigned emit_parameters(const Plan *p, Ty *out);

/* emit_shared.c */
void shared_emit(L *l, Shared *s, const BackendInput *inputs, uint32_t n, int unforced);
V emit_process_id(L *l); /* i32: of the process that runs this */

/* emit_export.c: the exported names, which select a body by instruction set. is_object: they go into a .so, which has one for
 * tvm-ffi too. */
void emit_exports(const Shared *s, Plan *const *plans, const Bodies *bodies, uint32_t n /* of one kernel */, int is_object);

/* emit_tvm.c; call: NAME__call */
void emit_tvm(const Plan *p, V call);

/* emit_debug.c */
Debug *debug_new(L *l, const Module *m);
void debug_function(Debug *d, V fn, const char *name, Loc loc);
void debug_line(Debug *d, Loc loc);
void debug_finish(Debug *d);

#endif
