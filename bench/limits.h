/* What this machine can do, by the plainest loops that reach it. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include "bench/bench.h"

typedef struct Limits Limits;

Limits *limits_new(const char *isa, int threads);
void limits_free(Limits *l);

/* Flops or bytes of one run by so many threads together. 0: not known for this instruction set. */
double limit_work(const Limits *l, Limit limit, int threads);
double limit_seconds(Limits *l, Limit limit, int threads);

/* Multiply-adds in registers, flop/s of one thread; 0: not known. */
double limit_registers(Limits *l, int bf16);
/* Bytes/s that one thread reads again and again from `bytes` of memory. */
double limit_read(Limits *l, size_t bytes);

size_t cache_bytes(int level); /* of this machine, a common value where it does not say */

#endif
