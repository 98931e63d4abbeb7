/* The makers of cases, one file for each sort of work; groups.c says which shapes they are for. Each has variants. */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include "bench/bench.h"

/* case_product.c: a ProductKind and flags. A shape with one expert is a plain product. */
enum { PRODUCT_KIND = 3, PRODUCT_PACKED = 4, PRODUCT_F32 = 8 };
int make_product(Case *c);

/* case_block.c: the expert block, its forward, and forward and backward. */
enum { BLOCK_FORWARD, BLOCK_STEP };
int make_block(Case *c);

/* case_rows.c: what moves memory. */
enum { ROWS_PERMUTE, ROWS_UNPERMUTE, ROWS_RMSNORM, ROWS_RMSNORM_BWD, ROWS_ROTARY, ROWS_ADAMW, ROWS_ADAMW_PACKED };
int make_rows(Case *c);

/* case_attention.c: T positions, K heads of width H, a window of F for the flag. */
enum { ATTENTION_FORWARD, ATTENTION_STEP, ATTENTION_WINDOW = 2 };
int make_attention(Case *c);

#endif
