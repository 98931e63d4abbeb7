/* The makers of cases, one file for each kind of work; groups.c says which shapes they are for. */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include "bench/bench.h"

/* case_product.c: variant is a ProductKind and flags. */
enum { PRODUCT_KIND = 3, PRODUCT_PACKED = 4, PRODUCT_F32 = 8 };
int make_product(Case *c, const Shape *s, const Kind *k);

#endif
