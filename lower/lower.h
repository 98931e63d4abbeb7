/* What the files of lower/ share. Private to lower/: others see pass_lower() alone. */
#ifndef LOWER_LOWER_H
#define LOWER_LOWER_H

#include "ir/tile_build.h"
#include "passes/passes.h"
#include "passes/query.h"

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

/* A sum as a block product: see lower/factor.c. */
typedef struct Product {
    ExprId reduce;
    ExprId left, right; /* factors: free of the lanes, free of the row */
    Elem left_elem, right_elem;
    const Equation *chain; /* the += whose old values the sums begin at, or NULL */
    const Equation *home; /* in whose element the sum stands, or NULL: in `partial` */
    TensorId partial;     /* f32[rows of an item, columns of an item], thread memory */
} Product;

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

/* How equations are laid over loops; made by lower_plan(). */
typedef struct Plan {
    IndexId free[FREE_MAX]; /* index variables of the left-hand side, in order */
    uint32_t nfree;
    IndexId lane;    /* the free index that runs over lanes, or NONE: then each reduction picks its own */
    int64_t width;   /* lanes of `lane` */
    int64_t strip;   /* lanes one item covers; 0: as many as the schedule says */
    IndexId row;     /* of block products: the free index that the left operand varies with, or NONE; of panels their rows */
    int panels;      /* an item's elements go into panels of packed tensors (lower/panel.c); there are no products */
    int in_place;    /* products add to the elements themselves (lower/home.c) */
    int64_t rows;    /* rows that are unrolled where a sum is not a block product, else 1; 0: bounds of all rows are asked */
    int64_t chunk;   /* rows of one item, at most */
    int64_t part;    /* of those, rows whose left operands are packed at a time */
    int even;        /* items have part to chunk rows, so that all threads have as many items */
    int64_t depth;   /* terms that are packed at a time */
} Plan;

/* Where a stripe keeps a placed tensor: [row - stripe_first, other axes...]. */
typedef struct Place {
    TensorId tensor, buffer;
    uint32_t row;  /* the row's axis */
    uint32_t keep; /* bits of the axes that the buffer has */
} Place;

/* A right operand that stands packed while several blocks read it: see lower/kept.c. */
typedef struct Kept {
    Product product;  /* that reads it */
    TensorId reader;  /* what the product's equation defines */
    IndexId index[2]; /* its terms and columns ... */
    ExprId when[2];   /* ... that are needed, or NONE: all of them */
    ExprId first;     /* its first term */
    TensorId buffer;  /* [terms, columns] */
} Kept;

/* Axes that one loop goes over: see lower/join.c. */
typedef struct Joined {
    IndexId last;
    Extent length;
} Joined;

typedef struct Lower {
    Kernel *k;
    const PassContext *c;
    const Cpu *cpu;
    TileBuild b;
    Vec(ExprId) value; /* by IndexId: what stands for it now; NONE: the loop variable itself */
    Vec(ExprId) group; /* by IndexId of a row: the group it is in; NONE: not known */
    Vec(BlockList) blocks;
    Vec(Sort) sorts;
    TensorId *group_of; /* by RouteId: i32[rows], made where @ is asked of a row outside a group loop */
    Plan plan;
    const Equation *equation; /* being lowered, for reports */
    IndexId unroll;        /* variable of the open unroll loops, or NONE */
    ExprId lane_first, lane_end; /* lanes of the item */
    ExprId item_first, item_end; /* rows of the item */
    IndexId item_row;            /* the variable of loops over them, one by one */
    ExprId part_first, part_end; /* those rows of the item that are being added up */
    ExprId row_first, row_end; /* block of plan.row: first row and end of its range */
    Vec(Joined) joined; /* of the launch */
    Vec(IndexId) zeros; /* indices that are always 0 */
    Vec(Place) places;
    Vec(Kept) kept;
    ExprId stripe_first, stripe_end; /* rows of a stripe's block */
    const Cluster *stripe;     /* that is being lowered, or NULL */
    IndexId striped;           /* a reduced index that goes over the rows of a stripe's block only, or NONE */
    IndexId slab;              /* a reduced index that goes over a part of its range only, or NONE */
    ExprId slab_lo, slab_hi;   /* the slab that is open */
    uint32_t scope; /* of done: guarded ones before it belong to a reduction outside */
    Vec(Done) done; /* reductions already in registers */
} Lower;

/* lower/loop.c: statements under the open one. */
ExprId lower_open_groups(Lower *l, Loc loc, IndexId r); /* a loop over the groups of a row index; the group */
void lower_open_all_rows(Lower *l, Loc loc, IndexId r); /* every row of every group */
void lower_store_element(Lower *l, const Equation *q, int add);
const char *lower_stem(const Lower *l, const Equation *q); /* names its launch */
/* The buffer that stands for tensor t now; its subscripts are turned into the buffer's. */
TensorId lower_place(Lower *l, TensorId t, ExprId *at);
ExprId lower_extent(Lower *l, IndexId i);
int lower_is_row(const Lower *l, IndexId i);
typedef struct Binding {
    ExprId value, group; /* NONE: the index itself; not known */
} Binding;
Binding lower_binding(const Lower *l, IndexId i);
void lower_bind(Lower *l, IndexId i, ExprId value, ExprId group);

/* lower/expr.c: equation-level expressions in terms of the loops that stand. */
ExprId lower_expr(Lower *l, ExprId e);
ExprId lower_field(Lower *l, RouteId r, RouteField f, ExprId subscript);
ExprId lower_run_start(Lower *l, RouteId r, ExprId group);
ExprId lower_run_end(Lower *l, RouteId r, ExprId group);
RouteId lower_route_of(const Lower *l, IndexId row);

/* lower/join.c: neighbouring axes of the launch's equations, which belong to cluster c or NULL, become one. */
void lower_join(Lower *l, Members *m, const Cluster *c);
Extent lower_length(const Lower *l, IndexId i); /* how many values i takes */
int lower_is_zero(const Lower *l, IndexId i);   /* always 0: it stands for a joined index */

/* lower/plan.c: lanes and row blocks of an equation. */
/* `row`: the only index that may become plan.row, or NONE: any. */
void lower_plan(Lower *l, const Members *m, IndexId row);
/* The bound index of `reduce` over which lanes may run, or NONE. */
IndexId lower_reduce_lane(Lower *l, ExprId reduce);

/* ---- reductions; see Note [Domains] in lower/sum.c ---- */

typedef struct Domain {
    ExprId reduce[REDUCE_MAX]; /* [0] leads: the loops run over its indices */
    ExprId body[REDUCE_MAX];
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

/* Where the walk through a domain's indices stands. */
typedef struct Walk {
    const Domain *d;
    uint32_t open;    /* bits of d->bound whose loops are open */
    uint64_t pending; /* bits of d->conjunct still to be tested */
} Walk;

/* lo <= index < hi for every unrolled row, and the parts that only some rows share. */
typedef struct Range {
    ExprId lo_min, lo_max, hi_min, hi_max;
    uint64_t exact; /* conjuncts that the bounds make true */
    uint64_t inner; /* those true between lo_max and hi_min only */
} Range;

/* lower/bound.c: what conditions say of an index before its loop opens. */
Range lower_range(Lower *l, const Walk *w, IndexId i);
/* The group whose run a row index goes over, from a pending conjunct `@r == e` (its number in *conjunct); else NONE. */
ExprId lower_run_group(Lower *l, const Walk *w, IndexId r, uint32_t *conjunct);

/* lower/walk.c: the loops of a domain around its terms. */
void lower_walk(Lower *l, Walk w);
int lower_stands_open(const Lower *l, IndexId i); /* as the variable of a loop */
Walk lower_walk_from(const Domain *d); /* nothing open, every conjunct pending */
void lower_open_rows(Lower *l, Loc loc); /* the loop over unrolled rows; binds the row, kept inside its range */
ExprId lower_block_row(Lower *l);        /* that row as it is, past the end in the last block */
ExprId lower_identity(Lower *l, ExprId reduce);
const ExprId *lower_acc_index(Lower *l, const Domain *d, ExprId *one);

/* lower/factor.c: is the body of `reduce` a product of two operands, for these rows and lanes? */
int lower_factor(Lower *l, ExprId reduce, IndexId row, IndexId lane, Product *out);

/* lower/slab.c */
/* Sums that go together, with the operands that are packed for them. */
typedef struct Together {
    Product *p;
    uint32_t n;
    Domain *d; /* of the first */
} Together;
/* Terms of the last reduced index that go in slabs. */
typedef struct Run {
    ExprId lo, hi, group; /* group: of the index's row space, or NONE */
    ExprId mask;          /* NONE, or the condition of a row's terms: the others count as zeros */
    int anew;             /* the sums begin with them */
    int whole;            /* lo is at a whole line */
} Run;
void lower_slabs(Lower *l, const Together *g, const Run *r);

/* Does the right operand lie in memory as a product reads it: in rows, or packed? Of a tensor `packed both` it may be the
 * turned one; rows are its columns then. */
typedef enum Given { GIVEN_NOT, GIVEN_ROWS, GIVEN_ROWS_TURNED, GIVEN_AS_IS, GIVEN_TURNED } Given;
Given lower_given(Lower *l, const Product *p);

/* lower/report.c: a sum that goes in blocks, or why it does not. */
void lower_report(Lower *l, const Product *p, const char *why);

/* lower/product.c: the products of a planned item, then everything else of its equations. See Note [Blocks]. */
void lower_product(Lower *l, const Members *m);
uint32_t lower_find_products(Lower *l, const Members *m, Product *out); /* at most REDUCE_MAX */
TensorId lower_sum_at(Lower *l, const Product *p, ExprId row, ExprId lane, ExprId *at); /* where a sum stands */
/* e, not negative, plus `more` down to a multiple of the terms that any target adds in one go. */
ExprId lower_whole_lines(Lower *l, ExprId e, int64_t more);
int lower_starts_line(const Lower *l, ExprId e); /* is it such a multiple, and a constant? */

/* lower/kept.c: Note [Kept operands]. */
void lower_find_kept(Lower *l, const Members *m); /* of the stripe's members, still to be packed */
void lower_pack_kept(Lower *l, Loc loc, const Kept *y, const ExprId *from, const ExprId *to);
/* Packs what the planned carrier reads of the stripe's block of `rows` rows. */
void lower_pack_block(Lower *l, const Members *one, int64_t rows);
/* The product's right operand from `term`, a whole line, and the first lane on, if it stands packed; else NONE. */
ExprId lower_kept_at(Lower *l, const Product *p, ExprId term);

/* lower/home.c: acc += P + Q onto f32 memory is one chain of additions that begins at the old value and takes the terms of
 * all: the products are marked as the member's. Each is its own and stands once. */
void lower_find_chain(Lower *l, const Members *m, uint32_t self, Product *p, uint32_t n);
/* The member whose elements are to be the place of p[i]'s sums: it alone reads them, and no other sum stands there yet. */
const Equation *lower_home(Lower *l, const Members *m, const Product *p, uint32_t i);
int lower_in_place(Lower *l, const Members *m); /* are all sums to stand in the caller's memory, for the plan's rows and lanes? */

void lower_open_item(Lower *l, Loc loc); /* the loops over the item's rows and lanes */

/* lower/panel.c: how packed tensors are written. */
IndexId lower_panel_row(Lower *l, const Members *m); /* the index that runs over rows of panels, or NONE: element by element */
void lower_panels(Lower *l, const Members *m);       /* a planned item */

/* lower/nest.c */
/* A launch of its own for equations with the same left-hand indices. */
void lower_elements(Lower *l, const Members *m);
/* Inside an item: their sums and stores, lanes from lane_first to lane_end, rows from item_first to item_end. */
void lower_item(Lower *l, const Members *m);
void lower_pads(Lower *l, const Equation *q); /* zeros where an output's row axis holds no row */

/* lower.c: the choice of top under the loops that stand. */
void lower_put_top(Lower *l, const Equation *q);

int lower_is_outer(const Cluster *c, IndexId i); /* one of the stripe's outer variables, which stand as parallel loops */
/* lower/stripe.c: block of rows after block of rows. */
void lower_stripe(Lower *l, const Members *m, const Cluster *c);
int lower_has_row(const Kernel *k, const Cluster *c, const Equation *q); /* on its left-hand side */
/* Rows of the stripe that one item goes over, and how many items that makes. */
typedef struct Parts {
    ExprId rows, count;
} Parts;
void lower_stripe_of(Lower *l, const Members *m, const Cluster *c, const Parts *parts); /* parts: NULL: all rows */

/* lower/parts.c: Note [Parts]. */
void lower_in_parts(Lower *l, const Members *m, const Cluster *c);

/* lower/scatter.c: a product whose rows are added into the sums of their tokens as they are computed. */
void lower_scatter_rows(Lower *l, const Equation *product, const Equation *reader);

/* lower/sum.c: domains. */
void lower_open_domain(Lower *l, Domain *d, ExprId reduce, ExprId guard);
/* What a register begins with: nothing, or the old element of the += that chains. */
ExprId lower_first_value(Lower *l, ExprId reduce, const Equation *onto);
int lower_joins(Lower *l, const Domain *d, ExprId reduce);
/* Right-hand sides with the reductions that join another one running over that one's indices. */
void lower_unify(Lower *l, Members *m);
/* Is q a += of one float sum onto f32? Then the sum starts at the old value, and the store replaces. */
int lower_chains(Lower *l, const Equation *q);
/* The float sums of e that are asked for always and hold no other: what lower/product.c can take. */
uint32_t lower_products(Lower *l, ExprId e, ExprId *out, uint32_t max);
void lower_prepare(Lower *l, ExprId e); /* launches for counting sorts and group tables that e needs */
const Sort *lower_sort(const Lower *l, const Bucket *of); /* that was made for it, or NULL */
/* Emits every reduction of e that is not done. Until l->done is cut back, lower_expr(e) reads their registers.
 * `onto`: NULL, or the += that chains and whose right-hand side e is. */
void lower_sums(Lower *l, ExprId e, const Equation *onto);
ExprId lower_value(Lower *l, ExprId e); /* both in one, and cuts back */

#endif
