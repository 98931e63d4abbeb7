/* Shared by the files of the tile verifier: the tree and its statements (tile_verify.c), pack and product
 * (tile_verify_block.c), lists (tile_verify_list.c), what threads and lanes may do (tile_verify_race.c), what is written before it is read
 * (tile_verify_flow.c), proofs about sizes (tile_verify_bound.c). Private to ir/. */
#ifndef IR_TILE_VERIFY_H
#define IR_TILE_VERIFY_H

#include "ir/tile.h"

/* A variable in scope with the range it runs over: a loop, a box of pack, top. Or just a range that is not empty here. */
typedef struct TileRange {
    IndexId var; /* or NONE */
    ExprId lo, hi;
    int64_t step;
    int flat; /* a parallel or owned loop */
} TileRange;
typedef Vec(TileRange) TileRanges;

/* What a statement touches: subscripts, and how many elements of the last two axes from there (NONE: one). */
typedef struct TileBox {
    TensorId buffer;
    uint32_t n;
    ExprId index[MAX_RANK];
    ExprId from[2], to[2]; /* to - from elements; NONE for from: 0 */
    int64_t edge[2];       /* a block that is written touches what follows up to a multiple of this; else 0 */
} TileBox;

/* A read or write of shared memory that this launch writes, with what is known of its subscripts. */
typedef struct TileAccess {
    TileBox box;
    StmtId at;
    int write;
    TileRanges ranges;        /* in scope at the access */
    uint32_t own[MAX_RANK];   /* bit of each flat loop in whose own stretch p .. p + step the axis stays */
    ExprId lo[MAX_RANK], hi[MAX_RANK]; /* it stays in lo..hi (NONE: unknown), which depends on .. */
    uint32_t block[MAX_RANK];          /* .. these flat loops */
} TileAccess;

/* The body of an `if`. */
typedef struct TileBranch {
    ExprId condition;
    StmtId next;        /* the statement after it */
    uint8_t *written;   /* by tensor: in front of it; once it has been verified, at its end */
    uint8_t *otherwise; /* what is written if it does not run, as the `if` in front of it does then; or NULL */
} TileBranch;

typedef enum TileRouteState {
    ROUTE_ABSENT,
    ROUTE_READY,
    ROUTE_CHECKED, /* ready from the next launch on */
} TileRouteState;

typedef struct TileVerifier {
    const Kernel *k;
    Arena *a;
    const char *error; /* the first; everything stops */
    StmtId launch, at; /* being looked at */
    uint8_t *seen;     /* by statement: a tree has each once */
    /* Variables in scope and the statements that declare them (a bucket declares several). */
    Vec(IndexId) scope;
    Vec(StmtId) loops;
    StmtId vector;     /* the enclosing vector loop, or NONE */
    /* The nodes last collected. */
    uint32_t *stamp, now;
    Vec(ExprId) nodes;
    Vec(ExprId) stack;
    /* By index and by tensor: which parallel and owned loops of the launch it depends on, a bit each. */
    uint32_t *index_taint, *tensor_taint;
    uint32_t parallel, owned; /* bits of the enclosing loops */
    TileRanges ranges;
    Vec(TileAccess) accesses; /* of this launch */
    /* By tensor: statements of this launch that write it; has it been written. By route: checked or made. */
    uint32_t *stores;
    int64_t *rows;   /* by tensor: a list of blocks of at most that many rows; else 0 */
    RouteId *listed; /* by tensor: the route that these are rows of */
    uint8_t *written, *ready; /* ready: TileRouteState */
    /* By tensor: the value of a register that is stored once in the launch, from its store on to the end of the
     * loop around it; else NONE. `known_now`: those that have one. */
    ExprId *known;
    ExprId *variable; /* by index: the expression that it is, or NONE where none uses it */
    Vec(TensorId) known_now;
    TileBranch last; /* that was verified */
} TileVerifier;

void tile_broken(TileVerifier *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fills v->nodes with the nodes under e, each once, not going below nodes that `prune` holds for (NULL: none). */
void tile_collect(TileVerifier *v, ExprId e, int (*prune)(const Kernel *k, const Expr *x));
/* The value differs from lane to lane. */
int tile_has_lanes(TileVerifier *v, ExprId e);
/* Known once all unroll loops are expanded; its range then. */
int tile_unrolled_range(TileVerifier *v, ExprId e, int64_t *lo, int64_t *hi);

/* Marks what depends on the parallel variables of a launch; to be called before its stores are verified. */
void tile_mark_launch(TileVerifier *v, StmtId launch);
/* The rules of Note [Parallel] and Note [Lanes] for a statement that writes `buffer` at `index`. */
void tile_verify_write(TileVerifier *v, TensorId buffer, const ExprId *index, uint32_t nindex);
void tile_verify_lanes(TileVerifier *v, const Stmt *s);
/* Another access of the launch: no two items may meet at an element that one of them writes. */
void tile_verify_access(TileVerifier *v, const TileBox *box, int write);

/* ---- statements and expressions (tile_verify.c) ---- */

typedef enum TileWant { WANT_INT, WANT_VALUE, WANT_CONDITION } TileWant;

void tile_verify_expr(TileVerifier *v, ExprId e, TileWant want);
void tile_verify_integers(TileVerifier *v, const Stmt *s); /* its bounds, sizes and subscripts */
TileBox tile_box_of(const Kernel *k, ExprId load);
int tile_is_buffer(TileVerifier *v, TensorId t, const char *what);
int tile_fits(Elem elem, const Expr *value); /* a store converts no more than this */
/* A variable of the statement itself; tile_leave() ends those declared after `scope`. */
void tile_declare(TileVerifier *v, IndexId i);
void tile_leave(TileVerifier *v, uint32_t scope);

/* s writes `buffer` at its subscripts (top: and at all places behind them). */
void tile_verify_writing(TileVerifier *v, TensorId buffer, const Stmt *s);

/* A statement of each kind: pack and product in tile_verify_block.c, blocks .. valid in tile_verify_list.c. */
#define TILE(name, doc, ...) void tile_verify_##name(TileVerifier *v, const Stmt *s);
#include "ir/tile.def"

/* ---- layouts (tile_verify_block.c) ---- */

void tile_verify_layouts(TileVerifier *v);

/* ---- written before it is read (tile_verify_flow.c) ---- */

void tile_begin_program(TileVerifier *v);
void tile_begin_launch(TileVerifier *v, StmtId launch);
void tile_end_program(TileVerifier *v);
void tile_verify_read(TileVerifier *v, TensorId t);
void tile_verify_ready(TileVerifier *v, RouteId r);
void tile_written(TileVerifier *v, TensorId t);
/* Around an `if`, s: what it writes in registers and thread space is not taken as written. */
TileBranch tile_enter_condition(TileVerifier *v, const Stmt *s);
void tile_leave_condition(TileVerifier *v, TileBranch branch);
/* The store s was met: remember its value when the register has no other; forget back to `n` values. */
void tile_know(TileVerifier *v, const Stmt *s);
void tile_forget(TileVerifier *v, uint32_t n);

/* ---- proofs (tile_verify_bound.c) ---- */

int tile_are_apart(TileVerifier *v, ExprId a, ExprId b, int64_t *by); /* is a - b a number, whatever they are? */
RouteField tile_field_of(const TileVerifier *v, ExprId e); /* of the route that e is an element of, or RF_FIELDS */
/* Are they elements of a route's start and count, start for certain, of one group? */
int tile_is_count_of(TileVerifier *v, ExprId count, ExprId start);

enum { TILE_MAX_TERMS = 16 };

/* sum of coef * atom + constant; an atom is an integer expression taken as a whole, or a product of dimensions. */
typedef struct TileSum {
    int64_t constant;
    uint32_t n;
    int lost; /* too large to say anything */
    struct TileTerm {
        int64_t coef;
        ExprId atom;          /* NONE: `size` */
        const Monomial *size;
    } at[TILE_MAX_TERMS];
} TileSum;

void tile_sum_expr(TileVerifier *v, TileSum *s, ExprId e, int64_t factor); /* += factor * e; NONE adds nothing */
void tile_sum_extent(TileVerifier *v, TileSum *s, Extent e, int64_t factor);
int tile_sum_at_most_zero(TileVerifier *v, const TileSum *s);
int tile_is_multiple(TileVerifier *v, ExprId e, int64_t of);
/* Every load in e gives the same value at all places of the launch where its registers are in scope. */
int tile_is_stable(TileVerifier *v, ExprId e);
ExprId tile_known_value(const TileVerifier *v, ExprId e); /* of a register what it holds, as far as it is known */

#endif
