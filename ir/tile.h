/* The tile level: a kernel as a program for a machine.
 *
 * A TileProgram is a list of launches; a launch is a tree of statements on buffers. Buffers are the tensors of
 * the kernel: parameters (gm), work space (work: one for the call; thread: one for each thread) and registers
 * (reg). The fields of a route are buffers too: rt.start, rt.count (i64), rt.slot_of, rt.row_of (i32).
 * Expressions are those of ir.h without X_REDUCE, X_TOKEN, X_SLOT, X_ROW, X_GROUP; X_INDEX is a loop variable.
 *
 * Note [Lanes]. In a `vector` loop of step W the variable stands for W neighbouring values at once (the last
 * trip may be partial: its missing lanes do nothing). Everything that depends on it has lanes; the rest is
 * computed once. A load or store whose last subscript is the variable plus something without lanes moves
 * contiguous memory. A register buffer with `lanes` W keeps one value per lane, across trips and nested loops;
 * x_lanes() folds them. Vector loops do not nest. Loop bounds have no lanes.
 *
 * Note [Unroll]. An `unroll` loop has constant bounds and is expanded, so that subscripts of register buffers
 * are constants. It encloses only what is to be repeated: `unroll u { acc[u] += a[r + u, k] * b[k, f] }`.
 *
 * Note [Parallel]. `parallel` and `owned` loops stand at the top of a launch, directly nested with nothing
 * between them, and bounds that do not depend on each other: one flat space of items handed to threads. No two
 * items of a parallel loop store to the same element. Under `owned` the owner's variable is a plain subscript of
 * every store, so that data-dependent subscripts beside it cannot meet. A launch without them runs on one thread.
 * `threads()` is how many threads run the call: items may be as long as it says, where no bit depends on their length.
 * Nothing is read before it was written (Note [Written], tile_verify_flow.c), nor in the launch in which another item
 * writes it (Note [Meeting items], tile_verify_race.c): that needs a launch of its own. */
/* Note [Settings]. What a schedule says of a launch as a whole stands behind its name, as far as it is not the usual:
 *     launch y writes past ahead 16 threads 2 { ...
 * (ir/schedule.def). No value depends on it. */
/* Note [Bands]. Items are handed out in order, the last loop running fastest: all columns of a block of rows, then those of
 * the next one. What works at the same time then reads one block of rows and many blocks of columns. With
 *     parallel b in 0..n band 8 { parallel v in 0..F by 256 { ...
 * eight values of b, a band, go together: for the first v all of them, then for the next v; every other band takes the v
 * backwards, which are still in the cache. `band 8 of blocks` goes over a list of blocks, and bands end where a run of one
 * group's blocks does: a list of four columns, the third and fourth of which are the number of the run's first block and how
 * many it has. */
/* Note [Block products]. pack copies a box of an expression into a panel, a buffer with layout lines or pairs (Note
 * [Layouts] in tensor.h), or row-major:
 *     pack xs[0, 0] = x[idiv(rt.slot_of[r], K), h] for r in r0..r1, h in slab..s1
 * The subscripts are the place of the box's first element; of a panel with one axis the box is one row. The element (r, h) goes to xs[0 + r - r0, 0 + h - slab],
 * converted as a store converts; each is evaluated once, and nothing outside the box. Of a panel in lines or pairs the
 * elements after the box up to the next whole line in k are set to zero, and those up to the next multiple of 32 in rows
 * or columns may be written (with anything).
 *     product part[0, 0] += xs[0, 0] * ws[0, 0] rows r1 - r0 cols v1 - v0 depth s1 - slab init slab == 0
 * part[i, j] += the sum over k of xs[i, k] * ws[k, j], k ascending, in f32: one chain for each element, that begins at its
 * old value, or where the condition after `init` holds at zero: then `part` is not read, and written even if the depth
 * is zero or less. (AMX: chains of 32 k at a time, see backend/emit_amx.c.) `part` is f32, row-major. In thread space and
 * in layout sums its elements up to the next multiple of 32 in rows and columns may be written, with anything, so that its
 * extents are multiples of 32; elsewhere, as in a gradient of the caller's, nothing beside the block is touched. The left
 * operand has layout lines, f32 or bf16. Or it is in rows, beside a panel of its type, and the depth is whole lines: rows of an input
 * in f32, of which no others are read; or of a thread's own bf16 memory, a multiple of 32 of them, where the target can
 * (CPU_LEFT_ROWS): then rows up to the next multiple of 32 are read, whatever they hold. The
 * right one has layout pairs, f32 or bf16, or it is row-major memory, of which depth
 * x columns elements are read, where the target can (rows_read of machines/cpu.def, which also has the types that a target
 * multiplies); `transposed` after it says that it stands there as ws[j, k], and `apart 1` that an axis stands between the two, as in
 * a cache ws[j, head, k]: of an input only. Subscripts of panels and sums in k begin at a whole
 * line, of rows and columns at a multiple of 32; from `depth` up to the next whole line both operands are zero.
 * Each (target, types) product is one function of the module that loops over fragments; statements call it. */
/* Note [Plans]. A plan is a tile program for an NPU, made by pass_plan. It has the same statements; what differs is where
 * buffers are. A pack is a move, done by the unit of the path from the space of what it reads to that of what it writes
 * (unit.def); it reads one buffer, element for element or with a cast. A product reads L0A and L0B and adds into L0C: the
 * cube. A vector loop that stores to UB is done by the vector unit; all other stores, and launches without on-chip
 * buffers, by the scalar unit, on global memory. A `split` loop goes over the vector cores beside a cube core: what stands in
 * it runs on them. Items of a launch are handed out to cores in turn.
 * Units work side by side: each does its own statements in order, whatever the others do. They wait for each other by flags:
 *     set mte2 -> mte1 left[slot]        wait mte2 -> mte1 left[slot]
 * The second unit waits until the first one is done with what it was given before its `set`. There is a flag for each pair
 * of units, buffer and slot, which is the first subscript of the buffer; `set` and `wait` alternate. Flags towards a unit
 * that writes the buffer begin set: every slot is free; but not those from or to the scalar unit, which runs the program.
 * Flags about buffers in memory may go from a cube core to the vector cores beside it, and back: a wait is then over when
 * all of them have set theirs. On-chip buffers stand at fixed places, may lie one above the other, and hold nothing when an
 * item begins.
 *
 * Compiled for the emulator, the work of each statement of a plan is the body of an event: `event loop 17(a, b) { ... }`
 * tells the emulator that statement 17 is a loop from a to b (event.def). */
#ifndef IR_TILE_H
#define IR_TILE_H

#include "ir/ir.h"

typedef enum TileKind {
#define TILE(name, doc, ...) TILE_##name,
#include "ir/tile.def"
    TILE_COUNT
} TileKind;
const char *tile_name(TileKind k);

typedef enum LoopMode {
    LOOP_ORDERED,
    LOOP_PARALLEL,
    LOOP_OWNED,
    LOOP_VECTOR,
    LOOP_UNROLL,
    LOOP_SPLIT,
    LOOP_MODES
} LoopMode;
const char *loop_word(LoopMode mode); /* "for" */

/* Units of an NPU's core, and their paths. */
typedef enum Unit {
#define UNIT(name, doc) UNIT_##name,
#include "ir/unit.def"
    UNIT_COUNT
} Unit;
typedef enum Path {
#define PATH(name, from, to, unit, doc) PATH_##name,
#include "ir/unit.def"
    PATH_COUNT
} Path;
const char *unit_name(Unit u);
const char *path_name(Path p);
Unit path_unit(Path p);

typedef uint32_t StmtId;

typedef struct Stmt {
    uint8_t kind; /* TileKind */
    uint8_t mode; /* for: LoopMode. event: EventKind (event.h) */
    uint8_t add;  /* store: += */
    uint8_t nindex;
    uint8_t transposed; /* product: other is [.., k, column] the other way round, [.., column, k] */
    uint8_t apart;      /* product: axes of other that stand between the two */
    uint8_t unit, other_unit; /* set, wait: who sets, who waits; buffer, and its slot: index[0] or none */
    uint8_t writes; /* launch: a value of KNOB_writes */
    uint8_t full_first; /* blocks: full blocks before the last ones of groups, so that no thread meets a heavy item late */
    StmtId first, next; /* launch, for, if, event: first child; next sibling; NONE ends */
    Loc loc;
    Name name;     /* launch */
    int64_t ahead; /* launch: how many rows ahead one is asked for that several of its loops go over; see KNOB_ahead */
    int64_t threads; /* launch: that work on it, at most; 0: all of the call's */
    IndexId var;   /* for */
    ExprId lo, hi; /* for: lo <= var < hi */
    int64_t step;  /* for; blocks: rows of a block */
    int64_t band;  /* for: values whose items are handed out together, see Note [Bands]; 0: as they come */
    TensorId buffer;        /* store: target. blocks: list i64[n, 2] of (group, first row) or i64[n, 4], see Note [Bands].
                               for: the list whose runs bands stay in, or NONE. bucket: order i32[n]. top: values. */
    TensorId second;        /* blocks: i64[1] number of blocks. bucket: first i64[buckets + 1]. top: ids.
                               route: the choices i32[T, K] */
    ExprId index[MAX_RANK]; /* store; top: subscripts before the k axis (nindex of them) */
    ExprId value;           /* store; if, check: condition; bucket: key; top: the searched value, over var */
    ExprId guard; /* bucket: NONE or the condition of an element to count. product: NONE or when the sums
                               begin at zero */
    ExprId limit;           /* bucket: number of buckets; top: K; check: second number of the text */
    ExprId report;          /* check: first number of the text */
    StmtId planned; /* event: number of a statement of the plan; index, nindex: the values; first: body */
    const char *text;       /* check: printf format with two %lld */
    int status;             /* check: MOE_... of abi.def */
    RouteId route;          /* blocks, route, valid */
    uint8_t nbound;         /* bucket: iteration space, row-major: order[] holds the flat number */
    IndexId bound[MAX_RANK];
    /* pack: bound[0], bound[1] run over from..to and stand for the panel's last two axes; index, nindex: the place of
     * the first element; value. product: buffer[index] is the place of the sums, value and other are X_LOADs of the
     * operands' first elements [.., i, k] and [.., k, j]; size: rows, columns, depth. */
    ExprId from[2], to[2];
    ExprId other, size[3];
} Stmt;
/* top: var, lo, hi are the searched index and its range. */

/* A loop whose turns are items of work of the launch. */
static inline int tile_is_flat(const Stmt *s)
{
    return s->kind == TILE_for && (s->mode == LOOP_PARALLEL || s->mode == LOOP_OWNED);
}

enum { TILE_NESTING = 200 }; /* statements inside each other, at most */
enum { RUN_COLUMNS = 4 }; /* of a list of blocks that bands can stay in */

typedef struct TileProgram {
    Vec(Stmt) stmts;
    StmtId first;     /* first launch */
    Extent work;      /* rough number of scalar operations of a call: small calls stay on one thread */
    Vec(uint8_t) fields; /* by route, of those that it has any of: bit f: it reads or writes RouteField f */
} TileProgram;

static inline int tile_uses_field(const TileProgram *p, RouteId r, RouteField f)
{
    return r < p->fields.len && p->fields.at[r] >> f & 1;
}

Stmt tile_stmt(TileKind kind, Loc loc); /* all ids NONE */
StmtId tile_add(Kernel *k, Stmt s);     /* not linked yet */
static inline const Stmt *tile_at(const Kernel *k, StmtId id) { return &k->tiles->stmts.at[id]; }

/* ---- operands and walks (tile_walk.c) ---- */

/* What a field is to its statement: the words of tile.def. */
typedef enum OperandRole {
    OPERAND_VALUE,
    OPERAND_CONDITION,
    OPERAND_INTEGER,
    OPERAND_SUBSCRIPT,
    OPERAND_WRITTEN,
    OPERAND_READ,
    OPERAND_NAMED,
    OPERAND_VARIABLE,
    OPERAND_AXIS,
    OPERAND_ROUTE,
    OPERAND_NUMBER,
    OPERAND_BODY,
    OPERAND_END /* there are no more */
} OperandRole;

typedef struct TileOperand {
    OperandRole role;
    uint32_t id;    /* ExprId, TensorId, IndexId, RouteId or StmtId, as the role says */
    int64_t number; /* NUMBER */
    uint32_t row;   /* the operand's number in the row of tile.def */
    uint32_t n;     /* of a list: which one */
    const Stmt *of;
} TileOperand;
TileOperand tile_operand_first(const Stmt *s);
void tile_operand_next(TileOperand *o);
static inline int tile_operand_is_expr(const TileOperand *o) { return o->role <= OPERAND_SUBSCRIPT; }
static inline int tile_operand_is_buffer(const TileOperand *o)
{
    return o->role >= OPERAND_WRITTEN && o->role <= OPERAND_NAMED;
}
/* The operands that a statement has, in the order of its row; optional ones that are absent are left out:
 *     tile_each_operand (o, s)
 *         if (tile_operand_is_expr(&o)) ... */
#define tile_each_operand(o, s) \
    for (TileOperand o = tile_operand_first(s); o.role != OPERAND_END; tile_operand_next(&o))

int tile_has_body(const Stmt *s);
/* A field that the statement's row does not name and that is not blank, or NULL. */
const char *tile_stray_field(const Stmt *s);

/* The statements of one list. The list of all statements may grow meanwhile. */
#define tile_each(id, k, first) for (StmtId id = (first); id != NONE; id = tile_at(k, id)->next)

typedef struct TileWalk {
    const Kernel *k;
    StmtId id;
    const Stmt *s;  /* of that number; valid until a statement is added */
    uint32_t depth; /* 0: of the list itself */
    uint32_t left;  /* statements at most: a list that is not verified yet may be a ring */
    int skips;
    StmtId up[TILE_NESTING + 1];
} TileWalk;
TileWalk tile_walk_begin(const Kernel *k, StmtId first);
void tile_walk_next(TileWalk *w);
/* The body of this statement is not visited. */
static inline void tile_walk_skip(TileWalk *w) { w->skips = 1; }
/* The statements of a list and all below them, each before its body:
 *     tile_walk (w, k, first)
 *         if (w.s->kind == TILE_store) ... */
#define tile_walk(w, k, first) for (TileWalk w = tile_walk_begin(k, first); w.id != NONE; tile_walk_next(&w))
int tile_contains(const Kernel *k, StmtId first, TileKind kind); /* a statement of the list or below it */

/* ---- moves and units ---- */

ExprId tile_read_by(const Kernel *k,
                    const Stmt *pack); /* the one load that the value of a move is or casts, else NONE */
Path tile_path(const Kernel *k, const Stmt *pack); /* of a move; PATH_COUNT: it is none */
/* Which unit does s by itself; UNIT_COUNT: none (it has a body, or the core's program does it on the way). */
Unit tile_unit(const Kernel *k, const Stmt *s);
int tile_is_vector(const Kernel *k, StmtId first); /* a store of the list or below reads or writes UB */
int tile_is_plan(const Kernel *k); /* it has on-chip buffers */
/* The tensor that stands for a route's field (made on first use, SPACE_GM for parameters, else SPACE_WORK). */
TensorId tile_route_field(Kernel *k, RouteId r, RouteField f);
/* The tensor w.transposed that stands for the transposed matrices of w, which is `packed both` (made on first use):
 * w.transposed[.., y, x] is the same value as w[.., x, y] in another place of memory, and the program that writes one writes the other. */
TensorId tile_transposed(Kernel *k, TensorId w);
TensorId tile_find_transposed(const Kernel *k, TensorId w); /* or NONE */

/* Text of the tile level: dimensions, groups and signature as in .moe, then buffers and launches. */
void tile_print(const Module *m, const Kernel *kernel /* or NULL */, Text *out);
/* Reads it back into an empty module: print(read(text)) == text. Errors go to m->diags; returns 0 on success. */
int tile_read(Module *m, uint32_t file, const char *text, size_t len);
/* NULL when kernel->tiles keeps every invariant of this page, else what is broken and where. */
const char *tile_verify(const Kernel *k, Arena *a);

#endif
