/* What the passes decided and why, for `moec explain FILE`. Every function takes NULL for "nobody asks". */
#ifndef PASSES_REPORT_H
#define PASSES_REPORT_H

#include "ir/ir.h"

/* An edge: equation `consumer` reads what `producer` defines. `rule`: the rule of fusion by which the value goes straight into
 * its reader, NULL when it stands in memory. `saved`: bytes of memory traffic that this saves (or would); NONE: not said.
 * `why`: what blocked it, or a remark; may be NULL; `blocker`: where that stands (line 0: no place). Later reports of one
 * edge replace earlier ones. */
typedef struct ReportEdge {
    Name producer, consumer;
    Loc loc; /* of the consumer */
    const char *rule, *why;
    Loc blocker;
    Extent saved;
} ReportEdge;

/* A sum of products, as it was lowered. */
typedef struct ReportProduct {
    Name lhs;
    Loc loc;                  /* of the sum */
    const char *fragment; /* "amx 2x2 of 16x16x32", "avx512 12x2 vectors", "plain loops" or "scan" */
    const char *why;      /* of plain loops: what is in the way; of a scan: what it is; else NULL */
    const char *left, *right; /* packing: "gathered into lines", "pairs, transposed", "as given (packed)" ... */
    int64_t rows, cols, depth; /* blocks; 0: none */
    Extent extent[3];     /* rows, columns, depth of the whole product */
    int is_scan;
    int cube;             /* 16-bit operands of one type */
    GroupId row_group, depth_group; /* group + 1: that many runs of rows, each padded on its own; 0: none */
} ReportProduct;

/* A sum that a nest of loops makes by block products. */
typedef struct ReportOperands {
    Name left, right; /* the tensors that the operands are elements of; NULL: computed */
    Elem left_elem, right_elem; /* as they are multiplied */
    const char *right_from;     /* "packed", "read from rows" ... */
    Name sums;                  /* the tensor in whose elements it is accumulated; NULL: in a block of the thread */
    int64_t sums_terms;         /* if it has no more terms; 0: whatever it has */
} ReportOperands;

/* How a nest of loops is laid out: what is decided before the statements of its launch are made. */
typedef struct ReportNest {
    Name launch;
    const char *kind;              /* "elements", "row-block member", ... */
    Vec(Name) writes;              /* by equation */
    Name row, lane;                /* indices of blocks of rows, and of lanes; NULL: none */
    int64_t rows, part, unrolled;  /* of a block, at most; whose left operands are packed at a time; together elsewhere */
    int even;                      /* blocks have part to rows of them, so that all threads have as many */
    int64_t cols, width;           /* of the lanes' index: columns of an item, lanes; 0: not said */
    int64_t depth;                 /* terms that are packed at a time; 0: there are no block products */
    Vec(ReportOperands) products;
} ReportNest;

/* A knob that a pass asked for. */
typedef enum KnobOrigin { ORIGIN_MACHINE, ORIGIN_RULE, ORIGIN_SCHEDULE, ORIGIN_SEED, ORIGIN_COUNT } KnobOrigin;
const char *origin_name(KnobOrigin o); /* "machine" */
typedef struct ReportKnob {
    Knob knob;
    Name name, reader; /* NULL: of the whole kernel; of no edge */
    Vec(Name) names;   /* what a clause may call it, if that fits the clause; the best first */
    int64_t value;
    KnobOrigin origin;
    const Setting *from; /* ORIGIN_SCHEDULE; ORIGIN_SEED: NULL or the choices it was drawn from */
} ReportKnob;

/* A `fuse` that no clause gives, and that would change what becomes of the edge. */
typedef struct ReportChoice {
    Name producer, consumer;
    int scatter; /* else at prologue or epilogue, as it is read */
} ReportChoice;

typedef struct Report {
    Arena *arena;
    Vec(struct EdgeOf { const Kernel *k; ReportEdge e; }) edges;
    Vec(struct ProductOf { const Kernel *k; ReportProduct p; }) products;
    Vec(struct NestOf { const Kernel *k; ReportNest n; }) nests;
    Vec(struct KnobOf { const Kernel *k; ReportKnob n; }) knobs;
    Vec(struct ChoiceOf { const Kernel *k; ReportChoice c; }) choices;
} Report;

Report *report_new(Arena *a);
void report_edge(Report *r, const Kernel *k, ReportEdge e);
void report_product(Report *r, const Kernel *k, ReportProduct p);
void report_nest(Report *r, const Kernel *k, ReportNest n);
void report_knob(Report *r, const Kernel *k, ReportKnob n); /* each knob of a tensor once: the last report counts */
void report_choice(Report *r, const Kernel *k, ReportChoice c);

/* ---- what there is to report about, whoever reports ---- */

/* A float sum whose terms are products of elements of two tensors or more. */
typedef struct ReportSum {
    const Equation *q; /* the first that has it: equations of one epilogue make their sums once */
    ExprId sum;
    Loc loc;
    GroupId row_group, depth_group; /* as in ReportProduct */
    Elem elem;   /* of both operands, when they are of one 16-bit type: a cube operation; else EL_F32 */
    int is_dot;  /* of its operands one varies with whatever the other does: no product of matrices, nothing to share */
} ReportSum;
/* Is e such a sum? Then *out says all but its equation and groups. */
int report_sum(const Kernel *k, ExprId e, ReportSum *out);
typedef Vec(ReportSum) ReportSums;
ReportSums report_sums(const Kernel *k); /* in the module's arena */
/* Do equations of k read local `producer` of k? The edges of a kernel, in the order of their readers. */
typedef struct ReportPair {
    TensorId producer, consumer;
    Loc loc;
} ReportPair;
typedef Vec(ReportPair) ReportPairs;
ReportPairs report_pairs(const Kernel *k);

#endif
