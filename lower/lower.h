/* What the files of lower/ share. Private to lower/: others see pass_lower() alone. */
#ifndef LOWER_LOWER_H
#define LOWER_LOWER_H

#include "ir/tile_build.h"
#include "passes/passes.h"
#include "passes/query.h"

/* ---- what is decided ----
 *
 * Everything about a launch is decided before any of its statements is made (decide.c): then the values below are constant,
 * and `moec explain --decisions` prints them. */

/* The status codes of abi.def, for `check` statements. */
enum {
#define STATUS(name, text) STATUS_##name,
#include "moec/abi.def"
};

enum { FREE_MAX = 4 * MAX_RANK };

/* Equations with the same left-hand indices that one nest of loops computes. */
typedef struct Members {
    Equation at[CLUSTER_MAX];
    uint32_t n;
} Members;

/* How a product reads its right operand: packed for it, or directly from memory in rows or in panels. Of a tensor `packed
 * both` that may be the transposed copy; of rows that are transposed, rows are columns. */
typedef enum Direct { DIRECT_NOT, DIRECT_ROWS, DIRECT_ROWS_TRANSPOSED, DIRECT_PANELS, DIRECT_PANELS_TRANSPOSED } Direct;

static inline int direct_is_in_rows(Direct d) { return d == DIRECT_ROWS || d == DIRECT_ROWS_TRANSPOSED; }

/* A sum as a block product: operand.c. */
typedef struct LowerProduct {
    ExprId reduce;
    ExprId left, right; /* factors: free of the lanes, free of the row; NONE: it is no product of two matrices */
    Elem left_elem, right_elem;
    Direct direct;
    uint32_t apart;              /* axes between the two of a right operand that is read in rows */
    Direct rows;                 /* how the right operand is stored in rows that may be packed for many rows first; or DIRECT_NOT */
    Direct few;                  /* how a right operand that is packed is read where rows are few: Notes [Few rows], [Groups of many rows]; or DIRECT_NOT */
    int hoisted;                 /* the right operand is packed once for many blocks: hoist.c */
    const Equation *chain;       /* the member whose sums are one: Note [Chains] in accumulator.c; or NULL */
    const Equation *accumulator; /* in whose element the sum is accumulated, or NULL: in a block of thread memory */
} LowerProduct;

/* Of which numbers of rows a launch is: Note [Prepacking]. */
typedef enum RowCount { ROWS_ANY, ROWS_MANY, ROWS_FEW } RowCount;

/* How equations are laid over loops. */
typedef struct Blocking {
    Members m;               /* reductions over equal indices have the same index variables */
    TensorId lhs;            /* whose schedule clauses count */
    const Cluster *rowblock; /* to which the equations belong, or NULL */
    IndexId free[FREE_MAX];  /* index variables of the left-hand side, in order */
    uint32_t nfree;
    IndexId lane;      /* the free index that runs over lanes, or NONE: then each reduction picks its own */
    int64_t width;     /* lanes of `lane` */
    int64_t rest;      /* lanes where no more than so many columns are left, or 0: as many as ever */
    int64_t nc;        /* columns of one item: values of `lane` */
    IndexId row;       /* of block products: the free index that the left operand varies with; of panels their rows; without
                        * products: Note [Rows together] in decide.c; or NONE */
    RowCount count;    /* other numbers of rows are another launch's ... */
    int64_t many;      /* ... where some right operand is packed for so many or more; -1: none is */
    int64_t item_rows; /* rows of one item, at most */
    int64_t mc;        /* of those, rows whose left operands are packed at a time */
    IndexId scan;      /* the free index along which sums go on: Note [Scans]; or NONE */
    int64_t even;      /* items have so many to item_rows rows, so that all threads have as many items; 0: item_rows */
    int64_t kc;        /* terms that are packed at a time ... */
    int64_t few_depth; /* ... by items of one part, which read right operands in place: Note [Groups of many rows]; 0: they do not */
    int64_t unroll;    /* rows that are unrolled where a sum is not a block product but has rows, else 1 */
    int panels;        /* an item's elements go into panels of packed tensors (panel.c); there are no products */
    int in_place;      /* products add to the elements themselves (accumulator.c) */
    int in_place_few;  /* products that have accumulators use them only where terms are few: Note [Few terms] in product.c */
    const Equation *along; /* whose elements the reduction passes and stores, or NULL; passes/cluster_along.c */
    LowerProduct *product; /* of block products: the sums of all members, each once */
    uint32_t nproducts;
} Blocking;

/* ---- what stands for what ---- */

/* Row blocks of a route, listed once per kernel and block size. */
typedef struct BlockList {
    RouteId route;
    int64_t rows;
    TensorId list, count;
} BlockList;

/* A counting sort, made once per kernel, key and number of buckets. */
typedef struct Sort {
    Bucket of;
    TensorId order, first;
} Sort;

typedef struct Done {
    ExprId reduce, value;
    int guarded; /* computed only where some condition held */
} Done;

/* Where a row-block group keeps a thread-local tensor: [row - Env.placed_from, other axes...]. */
typedef struct LocalBuffer {
    TensorId tensor, buffer;
    uint32_t row;    /* the row's axis */
    uint32_t column; /* the axis of which it has a strip that begins at Env.strip, or NONE */
    uint32_t keep;   /* bits of the axes that the buffer has */
    TensorId lines;  /* its elements once more, in lines, or NONE: Note [Left lines] in rowblock_decide.c ... */
    ScalarOp cast;   /* ... rounded so; OP_COUNT: as they are */
} LocalBuffer;

/* A right operand that is kept packed while several blocks read it: hoist.c. */
typedef struct Hoisted {
    LowerProduct product; /* that reads it */
    TensorId reader;      /* what the product's equation defines */
    IndexId index[2];     /* its terms and columns ... */
    ExprId when[2];       /* ... that are needed, or NONE: all of them */
    ExprId first;         /* its first term */
    TensorId buffer;      /* [terms, columns] */
} Hoisted;

/* Axes that one loop goes over: join.c. */
typedef struct Joined {
    IndexId last;
    Extent length;
} Joined;

/* A reduced index that goes over a part of its range only. */
typedef struct Narrowed {
    IndexId index;
    ExprId lo, hi;
} Narrowed;

/* What stands for the names of the equations at this point of the program. */
typedef struct Env {
    Vec(ExprId) value;      /* by IndexId: what stands for it; NONE: the loop variable itself */
    Vec(ExprId) group;      /* by IndexId of a row: the group it is in; NONE: not known */
    Vec(Joined) joined;     /* of the launch */
    Vec(IndexId) zeros;     /* indices that are always 0 */
    Vec(Narrowed) narrowed; /* the last one of an index counts */
    Vec(LocalBuffer) places;
    ExprId placed_from;     /* the row at which thread-local tensors begin */
    ExprId strip;           /* the first column of the strip that is being computed, a whole line; NONE: there are no strips */
    IndexId lined;          /* where terms over it are added one by one, they are read from lines, if there are some; or NONE */
    Vec(Hoisted) hoisted;
    Vec(Done) done; /* reductions already in registers */
    uint32_t scope; /* of done: guarded ones before it belong to a reduction outside */
    Vec(BlockList) blocks; /* made for the kernel: block lists, sorts, group tables */
    Vec(Sort) sorts;
    TensorId *group_of; /* by RouteId: i32[rows], made where @ is asked of a row outside a group loop */
} Env;

typedef struct Lower {
    Kernel *k;
    const PassContext *c;
    const Cpu *cpu;
    IndexId unroll; /* variable of the unroll loops */
    TileBuild b;
    Env env;
} Lower;

/* ---- what is being emitted ---- */

/* The block of rows of a row-block group that is being computed. */
typedef struct BlockRows {
    const Cluster *c;
    ExprId first, end;
    int from_line; /* `first` begins a line of LAYOUT_EDGE rows, counted from row 0 */
} BlockRows;

/* The part of a nest that is being emitted. It is handed down by value: a function that goes over less makes an Item of its
 * own. What it has not (yet), lanes or rows, is NONE. */
typedef struct Item {
    const Blocking *by;
    const Equation *equation;    /* that reports name */
    ExprId lane_first, lane_end; /* its lanes */
    ExprId first, end;           /* its rows */
    IndexId row_var;             /* the variable of loops over them, one by one */
    ExprId part_first, part_end; /* those of its rows that are being added up */
    ExprId row_first, row_end;   /* the block of unrolled rows: its first, and the end of their range */
    int64_t unroll;              /* rows that are unrolled; 0: the whole range is one block */
    int in_block;                /* no sum stands where its accumulator says: Note [Few terms] in product.c */
    const BlockRows *rowblock;   /* NULL: not in a row-block group */
} Item;
Item lower_new_item(const Blocking *by, const Equation *q); /* item.c; without lanes and rows */
/* Makes the item in one way where `a op b` holds when it runs, in the other where it does not. */
typedef void ItemWay(Lower *l, const Item *it);
void lower_either(Lower *l, const Item *it, ScalarOp op, ExprId a, ExprId b, ItemWay *way, ItemWay *other);

/* ---- env.c ---- */

typedef struct Binding {
    ExprId value, group; /* NONE: the index itself; not known */
} Binding;
Binding lower_binding(const Lower *l, IndexId i);
void lower_bind(Lower *l, IndexId i, ExprId value, ExprId group);
/* Until lower_widen(), index i goes from lo to hi only. */
void lower_narrow(Lower *l, IndexId i, ExprId lo, ExprId hi);
void lower_widen(Lower *l);
const Narrowed *lower_narrowed(const Lower *l, IndexId i); /* or NULL */
/* The buffer that stands for tensor t now; its subscripts are turned into the buffer's. */
TensorId lower_place(Lower *l, TensorId t, ExprId *at);
const LocalBuffer *lower_place_of(const Lower *l, TensorId t); /* NULL: it is where the program has it */
Extent lower_length(const Lower *l, IndexId i); /* how many values i takes */
ExprId lower_extent(Lower *l, IndexId i);       /* the same as an expression */
int lower_is_below(const Lower *l, IndexId i, int64_t n); /* has i fewer than n values, whatever the call? */
int lower_is_zero(const Lower *l, IndexId i);   /* always 0: it stands for a joined index */
int lower_is_row(const Lower *l, IndexId i);
RouteId lower_route_of(const Lower *l, IndexId row);
int lower_is_outer(const Cluster *c, IndexId i); /* one of the row-block group's outer variables, which are parallel loops */
int lower_stands_open(const Lower *l, IndexId i); /* as the variable of a loop */

/* ---- expr.c: equation-level expressions in terms of the loops that are open ---- */

ExprId lower_expr(Lower *l, ExprId e);
/* The load that a left operand is, or NONE; *cast: how it is rounded, OP_COUNT: not at all. */
ExprId lower_left_load(const Kernel *k, ExprId left, ScalarOp *cast);
/* The lines that have the elements of such a load, rounded by the cast, along its last index; or NONE: Note [Left lines] in
 * rowblock_decide.c. */
TensorId lower_lines_along(const Lower *l, ExprId load, ScalarOp cast, IndexId along);
ExprId lower_field(Lower *l, RouteId r, RouteField f, ExprId subscript);
ExprId lower_run_start(Lower *l, RouteId r, ExprId group);
ExprId lower_run_end(Lower *l, RouteId r, ExprId group);

/* ---- loop.c ---- */

ExprId lower_open_groups(Lower *l, Loc loc, IndexId r); /* a loop over the groups of a row index; the group */
void lower_open_all_rows(Lower *l, Loc loc, IndexId r); /* every row of every group */
void lower_open_index(Lower *l, Loc loc, IndexId i);    /* an ordered loop over all that i stands for */
void lower_store_element(Lower *l, const Equation *q, int add);
const char *lower_stem(const Lower *l, const Equation *q); /* names its launch */

/* ---- join.c ---- */

/* Neighbouring axes of the launch's equations, which belong to cluster c or NULL, become one. */
void lower_join(Lower *l, Members *m, const Cluster *c);

/* ---- prepare.c, pads.c: launches of their own before that of an equation ---- */

void lower_prepare(Lower *l, ExprId e);                   /* counting sorts and group tables that e needs */
const Sort *lower_sort(const Lower *l, const Bucket *of); /* that was made for it, or NULL */
Extent lower_bucket_elements(Lower *l, const Bucket *b);  /* that it runs over */
void lower_check_flat(Lower *l, Extent elements);         /* a sum by key runs over no more than numbers of 32 bits */
ExprId lower_key_guard(Lower *l, const Bucket *b); /* where an element has a key that counts; NONE: everywhere */
void lower_pads(Lower *l, const Equation *q);             /* zeros where an output's row axis holds no row */

/* ---- domain.c: reductions that share a loop nest; Note [Domains] in reduce.c ---- */

typedef struct Domain {
    ExprId reduce[REDUCE_MAX]; /* [0] leads: the loops run over its indices */
    ExprId body[REDUCE_MAX];
    ExprId factor[REDUCE_MAX]; /* of every term, which the result is multiplied with instead; or NONE */
    TensorId acc[REDUCE_MAX];
    uint32_t n;
    ExprId guard; /* NONE, or where the reductions are wanted at all */
    uint32_t nbound;
    IndexId bound[MAX_RANK * 2];
    ExprId conjunct[CONJUNCT_MAX];
    uint32_t nconjunct;
    IndexId lane; /* a reduced index that runs over lanes, or NONE */
    int64_t width;
    int unrolled;
} Domain;

Domain *lower_domain(Lower *l, ExprId reduce); /* its indices and conditions */
void lower_domain_add(Lower *l, Domain *d, ExprId reduce);
Domain *lower_open_domain(Lower *l, const Item *it, ExprId reduce, ExprId guard); /* and its lanes and rows */
int lower_joins(Lower *l, const Item *it, const Domain *d, ExprId reduce);
/* The bound index of `reduce` over which lanes may run, or NONE. */
IndexId lower_reduce_lane(Lower *l, ExprId reduce);
/* What the loads below e do when i moves. */
typedef struct Tally {
    uint32_t none, one, far;
} Tally;
void lower_tally(Kernel *k, ExprId e, IndexId i, Tally *t);
/* Right-hand sides with the reductions that join another one running over that one's indices. */
void lower_unify(Lower *l, Members *m);

/* ---- bound.c: what conditions say of an index before its loop opens ---- */

/* How far the walk through a domain's indices is. */
typedef struct Walk {
    const Domain *d;
    uint32_t open;    /* bits of d->bound whose loops are open */
    uint64_t pending; /* bits of d->conjunct still to be tested */
} Walk;
Walk lower_walk_from(const Domain *d); /* nothing open, every conjunct pending */

/* lo <= index < hi for every unrolled row, and the parts that only some rows share. */
typedef struct Range {
    ExprId lo_min, lo_max, hi_min, hi_max;
    uint64_t exact; /* conjuncts that the bounds make true */
    uint64_t inner; /* those true between lo_max and hi_min only */
} Range;
Range lower_range(Lower *l, const Item *it, const Walk *w, IndexId i);
/* The group whose run a row index goes over, from a pending conjunct `@r == e` (its number in *conjunct); else NONE. */
ExprId lower_run_group(Lower *l, IndexId lane, const Walk *w, IndexId r, uint32_t *conjunct);
/* e, not negative, plus `more` down to a multiple of the terms that any target adds in one go. */
ExprId lower_whole_lines(Lower *l, ExprId e, int64_t more);
int lower_starts_line(const Lower *l, ExprId e); /* is it such a multiple, and a constant or a strip's first? */

/* ---- guard.c ---- */

typedef struct Wanted {
    ExprId reduce, guard; /* the condition under which it is asked for; NONE: always */
} Wanted;
typedef Vec(Wanted) WantedList;
WantedList lower_wanted(Lower *l, ExprId root); /* the maximal reductions below root that are still to be done */
int lower_is_anywhere(Lower *l, const Wanted *w); /* may it be computed where nobody asks for it? */
/* Sums of products that only the condition which they stand under keeps inside their tensors get that condition for their own, so that
 * they may be computed anywhere: `if(t >= 1, sum(h where t >= 1) x[t - 1, h] * w[h, f], 0)`. terms.c makes it zeros. */
void lower_take_guards(Lower *l, Members *m);
/* The float sums of e that may be computed anywhere and hold no other: what product.c can take. lane: NONE: not known yet. */
uint32_t lower_products(Lower *l, IndexId lane, ExprId e, ExprId *out, uint32_t max);

/* ---- decide.c, and what it asks ---- */

/* How a launch, or a part of it, computes the members, whose clauses are those of lhs. rowblock: the group to which they
 * belong, or NULL. row: the only index that may become Blocking.row, or NONE: any. */
Blocking *lower_decide(Lower *l, const Members *m, TensorId lhs, const Cluster *rowblock, IndexId row);
extern const Blocking lower_by_element; /* neither lanes nor rows */
int lower_reads_same(const Kernel *k, ExprId sum, IndexId across, IndexId i); /* along `across`, for every i, term by term? */
/* operand.c: is the body of `reduce` a product of two operands, for these rows and lanes? */
int lower_factor(Lower *l, ExprId reduce, IndexId row, IndexId lane, LowerProduct *out);
void lower_arrange_terms(Lower *l, Blocking *by); /* terms.c: of its products; conditions that are no bounds become zeros */
Direct lower_direct(const Lower *l, const Blocking *by, LowerProduct *p); /* where its right operand can be read; p->apart */
/* Has the right operand as many columns or terms as there are rows, as where positions see each other? Of few rows there is little to
 * pack then: Note [Few rows] in hoist.c. */
int lower_is_as_long(Lower *l, const Blocking *by, const LowerProduct *p);
/* accumulator.c */
void lower_find_chains(const Lower *l, Blocking *by); /* Note [Chains] */
/* The member whose elements are to be the place of product i: it alone reads them, and no other sum is there yet. Or NULL. */
const Equation *lower_accumulator(const Lower *l, const Blocking *by, uint32_t i);
int lower_in_place(const Lower *l, const Blocking *by); /* are all sums to be in the caller's memory? */
/* Are the sums in q's elements all that these are to hold? Then nothing stores them. */
int lower_is_complete(const Blocking *by, const Equation *q);
/* panel.c: the index that runs over rows of panels, or NONE: packed tensors are written element by element. */
IndexId lower_panel_row(const Lower *l, const Members *m);

/* ---- reduce.c, walk.c: reductions that are no block product ---- */

/* Emits every reduction of e that is not done. Until Env.done is cut back, lower_expr(e) reads their registers.
 * `onto`: NULL, or the += that chains and whose right-hand side e is. */
void lower_sums(Lower *l, const Item *it, ExprId e, const Equation *onto);
ExprId lower_value(Lower *l, const Item *it, ExprId e); /* both in one, and cuts back */
/* Is q a += of one float sum onto f32? Then the sum starts at the old value, and the store replaces. */
int lower_chains(Lower *l, const Item *it, const Equation *q);
/* What a register begins with: nothing, or the old element of the += that chains. */
ExprId lower_first_value(Lower *l, ExprId reduce, const Equation *onto);
void lower_begin_domain(Lower *l, const Item *it, Domain *d, const Equation *onto); /* registers, and what they begin with */
void lower_finish_domain(Lower *l, const Domain *d); /* from now on registers stand for its reductions */
void lower_walk(Lower *l, const Item *it, Walk w); /* the loops of a domain around its terms */
void lower_open_rows(Lower *l, const Item *it, Loc loc); /* the loop over unrolled rows; binds the row, kept in its range */
ExprId lower_block_row(Lower *l, const Item *it);        /* that row as it is, past the end in the last block */
ExprId lower_identity(Lower *l, ExprId reduce);
const ExprId *lower_acc_index(Lower *l, const Domain *d, ExprId *one);

/* ---- scan.c ---- */

IndexId lower_scan_index(Lower *l, const Blocking *by); /* the index along which all sums of its members go on, or NONE */
void lower_scan(Lower *l, const Item *it, const Members *m); /* all their rows, for the lanes that are open */

/* ---- report.c ---- */

/* What was decided about the loops of a launch. */
void lower_report_nest(Lower *l, const char *launch, const char *kind, const Blocking *by);
/* A sum that goes in blocks, or why it does not. */
void lower_report(Lower *l, const Item *it, const LowerProduct *p, const char *why);

/* ---- product_sums.c: where the sums of block products are accumulated ---- */

typedef struct Sum {
    const LowerProduct *p;
    TensorId partial; /* f32[rows of an item, columns of an item], thread memory; NONE: in p->accumulator */
    int joins;        /* adds to what is there: the old values of its chain, or other sums: Note [Chains] */
} Sum;
TensorId lower_sum_at(Lower *l, const Item *it, const Sum *s, ExprId row, ExprId lane, ExprId *at);
TensorId lower_element_at(Lower *l, const Item *it, const Sum *s, ExprId row, ExprId *at); /* of a lane */
void lower_begin(Lower *l, const Item *it, const Sum *s); /* at nothing, or at the old values of a += */
void lower_open_lanes(Lower *l, const Item *it, Loc loc);
void lower_open_item(Lower *l, const Item *it, Loc loc); /* the loops over the item's rows and lanes */

/* ---- hoist.c: Note [Hoisted operands] ---- */

int lower_has_outer(const Lower *l, const Cluster *c, ExprId e); /* does e vary with an outer variable? */
/* Is the right operand of product i of a row-block group's member hoisted? `all`: the members of the row-block group. */
int lower_hoists(Lower *l, const Members *all, const Blocking *by, uint32_t i, Hoisted *out);
void lower_hoist(Lower *l, const Hoisted *hoisted, Extent terms); /* gives it a buffer, until Env.hoisted is cut back */
void lower_pack_hoisted(Lower *l, Loc loc, const Hoisted *hoisted, const ExprId *from, const ExprId *to);
/* Packs what a sum over the rows reads of a block of rows, `most` of them. */
void lower_pack_block(Lower *l, const Blocking *by, const BlockRows *rows, int64_t most);
ExprId lower_rows_are(Lower *l, const Cluster *c, ScalarOp which); /* few by OP_le, many by OP_gt: Note [Few rows] */
/* The product's right operand from `term`, a whole line, and the first lane on, if it is kept; else NONE. */
ExprId lower_hoisted_at(Lower *l, const Item *it, const LowerProduct *p, ExprId term);

/* ---- prepack.c: Note [Prepacking] ---- */

int lower_may_prepack(const Lower *l, const Blocking *by);
/* The launches that pack there, to be made for ROWS_MANY; the products that read their panels. */
LowerProduct *lower_prepack(Lower *l, const Blocking *by);
/* `end` where there are as many rows as the launch is for, else 0. */
ExprId lower_end_if_counted(Lower *l, const Blocking *by, ExprId end);

/* ---- slab.c ---- */

/* Sums that go together, with the operands that are packed for them. */
typedef struct Together {
    Sum *s;
    uint32_t n;
    Domain *d; /* of the first */
} Together;
/* Terms of the last reduced index that go in slabs. */
typedef struct SlabRun {
    ExprId lo, hi, group; /* group: of the index's row space, or NONE */
    ExprId mask;          /* NONE, or the condition of a row's terms: the others count as zeros */
    int init;             /* the sums begin with them */
    int whole;            /* lo is at a whole line */
    int ends;             /* hi is so many terms behind it that lines are full */
    ExprId done;          /* NONE, or how many of the first ones are added already */
} SlabRun;
void lower_slabs(Lower *l, const Item *it, const Together *g, const SlabRun *r);

/* ---- item.c, product.c, panel.c: the members of an item ---- */

void lower_item(Lower *l, const Item *it);    /* their sums and stores, whichever way was decided */
void lower_product(Lower *l, const Item *it); /* by blocks, Note [Blocks] */
void lower_panels(Lower *l, const Item *it);  /* packed tensors */

/* ---- a launch each: nest.c, rowblock.c, parts.c, scatter.c, add_computed.c, top.c, check.c ---- */

void lower_elements(Lower *l, const Members *m); /* equations with the same left-hand indices */
void lower_settings(Lower *l, const Members *m, StmtId made); /* launch.c: of the launches from this statement on */
/* Rows of the row-block group that one item goes over, and how many items that makes. */
typedef struct Parts {
    ExprId rows, count;
} Parts;
void lower_rowblock(Lower *l, const Members *m, const Cluster *c, const Parts *parts); /* parts: NULL: all rows */
int lower_has_row(const Kernel *k, const Cluster *c, const Equation *q); /* on its left-hand side */
void lower_in_parts(Lower *l, const Members *m, const Cluster *c);       /* a row-block group, Note [Parts] */
/* A product whose rows are added into the sums of their tokens as they are computed. */
void lower_scatter_rows(Lower *l, const Equation *product, const Equation *reader);
void lower_add_computed(Lower *l, const Equation *q);
/* A += onto elements that its subscripts compute, or of a bucketed sum whose terms go to their elements one by one. */
int lower_is_accumulated(const Lower *l, const Equation *q);
int lower_adds_by_key(const Lower *l, const Equation *q, Bucket *b); /* is it of the second form? */
void lower_top(Lower *l, const Equation *q);
void lower_put_top(Lower *l, const Equation *q); /* the choice under the loops that are open */
void lower_check(Lower *l, const Equation *q);
void lower_route(Lower *l, const Equation *q);
void lower_validate_routes(Lower *l);
void lower_validate_tops(Lower *l);

#endif
