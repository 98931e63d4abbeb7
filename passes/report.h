/* What the passes decided and why, for `moec explain FILE`. Every function takes NULL for "nobody asks". */
#ifndef PASSES_REPORT_H
#define PASSES_REPORT_H

#include "ir/ir.h"

typedef struct Report Report;

/* An edge: equation `consumer` reads what `producer` defines. `rule`: the rule of fusion by which the value goes straight into
 * its reader, NULL when it stands in memory. `saved`: bytes of memory traffic that this saves (or would). `why`: what
 * blocked it, or a remark; may be NULL. Later reports of one edge replace earlier ones. */
typedef struct ReportEdge {
    Name producer, consumer;
    Loc loc; /* of the consumer */
    const char *rule, *why;
    Extent saved;
} ReportEdge;
void report_edge(Report *r, const Kernel *k, ReportEdge e);

/* A sum of products, as it was lowered. */
typedef struct ReportProduct {
    Name lhs;
    Loc loc;
    const char *fragment; /* "amx 2x2 of 16x16x32", "avx512 12x2 vectors", or "plain loops" */
    const char *why;      /* of plain loops: what is in the way; else NULL */
    const char *left, *right; /* packing: "gathered into lines", "pairs, transposed", "as given (packed)" ... */
    int64_t rows, cols, depth; /* blocks */
    Extent extent[3];     /* rows, columns, depth of the whole product */
    int cube;             /* 16-bit operands of one type */
} ReportProduct;
void report_product(Report *r, const Kernel *k, ReportProduct p);

#endif
