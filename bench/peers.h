/* The peers that are there, seen from moe-bench. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include "bench/bench.h"

/* Opens them, or not; prints a line for each. */
void peers_begin(Bench *b, FILE *out);
void peers_end(void);

/* Adds every way of every peer to do it. */
void peers_product(Case *c, const Product *p);

#endif
