/* Questions about equations: what a sum is, what varies with what. Every pass and the lowering ask here, so that each
 * concept is recognised in one place. Nothing here changes the kernel. */
#ifndef PASSES_QUERY_H
#define PASSES_QUERY_H

#include "ir/ir.h"

enum {
    CONJUNCT_MAX = 64, /* conjuncts of a condition that are looked at one by one */
    REDUCE_MAX = 64    /* reductions of one equation */
};

int query_varies(const Kernel *k, ExprId e, IndexId i); /* does e vary with i, a row's group taken as fixed? */
typedef enum Stride { STRIDE_NONE, STRIDE_ONE, STRIDE_FAR } Stride;
Stride query_stride(Kernel *k, ExprId load, IndexId i); /* how far the element moves in memory when i moves by one */

/* Is index variable i on the left-hand side? Its place, or -1. */
int query_on_left(const Kernel *k, const Equation *q, IndexId i);
int query_has_reduce(const Kernel *k, ExprId e);
int query_reads_computed(const Kernel *k, ExprId e); /* an element whose place is more than variables: it may be there under a guard only */
/* Maximal reductions of e (not inside another), at most max; returns how many. */
uint32_t query_reductions(const Kernel *k, ExprId e, ExprId *out, uint32_t max);
int query_is_implied(const Kernel *k, ExprId all, ExprId among); /* is each conjunct of `all` one of `among`? */
/* Is comparison c, `==` included, of the form `each * i op other`, each >= 1 and `other` free of i? In solve.c. */
int query_solve(Kernel *k, ExprId c, IndexId i, int64_t *each, ScalarOp *op, ExprId *other);
int query_is_run(const Kernel *k, ExprId conjunct); /* `@r == e` or `e == @r`: the rows of one group */

/* A bucketed sum, sum(t where key(t) == v) ...: a counting sort by the key finds the terms of each v. */
typedef struct Bucket {
    ExprId key, guard; /* over the bound indices; guard: NONE or the condition of an element to sort */
    IndexId bucket;    /* v */
    Extent buckets;    /* how many values it takes */
    uint32_t nbound;
    IndexId bound[MAX_RANK]; /* what is sorted */
    uint32_t conjunct;       /* number of the conjunct `key == v` */
    uint64_t implied;        /* bits of the conjuncts that the sort makes true, that one included */
} Bucket;
int query_bucket(Kernel *k, ExprId reduce, Bucket *out); /* is it one? */
int query_is_bucketed(const Kernel *k, ExprId reduce);

/* How a sum goes on along index t: Note [Scans] in scan.c. In row t comes the term j = t + first, where j has it. */
typedef struct ScanStep {
    uint32_t conjunct, bound; /* numbers of the condition that says so, and of j */
    int64_t first;
    int has_all; /* j has as many values as t */
    int before;  /* terms may come before the first row */
    int down;    /* the row before is t + 1 */
} ScanStep;
int query_scan_step(Kernel *k, ExprId reduce, IndexId t, ScanStep *out);
/* Do all sums of e, of which there are some, go on along t in the same direction? */
int query_is_scan(Kernel *k, ExprId e, IndexId t, int *down);
IndexId query_scan_index(Kernel *k, const Equation *q); /* the left-hand index along which its sums go on, or NONE */

/* Is e a float sum of a product, no bucketed one, without sums inside: what a block product computes? */
int query_is_product_sum(const Kernel *k, ExprId e);
/* Is node e of root evaluated exactly once wherever root is: outside reductions, whatever conditions hold? */
int query_is_sure(const Kernel *k, ExprId root, ExprId e);
/* Is `load`, in equation `reader`, all that anybody reads of its tensor? */
int query_is_only_load(const Kernel *k, uint32_t reader, ExprId load);
/* The work of computing e once: cycles, roughly (ir/scalar.def). Subscripts that pick a row, all but the last one, count nothing:
 * they are computed once for a row. */
uint32_t query_cost(const Kernel *k, ExprId e);
/* Does it take numbers out of words that elements hold, as weights of four bits are? Then memory would hold more than it reads. */
int query_unpacks(const Kernel *k, ExprId e);
/* May an integer max or min below e be over nothing, which ends the call? */
int query_may_lack_value(const Kernel *k, ExprId e);
/* checks.c: can e be computed where nobody asks for it: is every access below it inside its tensor by what e itself says, and does no
 * integer max or min end the call? */
int checks_inside(Kernel *k, ExprId e);

#endif
