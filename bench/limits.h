/* What this machine can do, by the plainest loops that reach it (loops.h). */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include "bench/bench.h"

/* Measures the figures of the machine too: the loops of its core, or of a forced instruction set and plainer ones. */
struct Limits *limits_new(Bench *b);
const char *limits_loop(const struct Limits *l, int bf16); /* the instruction of the fastest loop */
void limits_free(struct Limits *l);

/* Adds the limits of a case as runners, as if they did its flops and its bytes. */
void limits_add(Case *c, int threads);

/* Of one thread: flop/s or bytes/s, 0 where nothing is known. */
typedef enum BenchFigure {
    FIGURE_F32,
    FIGURE_F32_REGISTERS,
    FIGURE_BF16,
    FIGURE_BF16_REGISTERS,
    FIGURE_L2,
    FIGURE_L3, /* or whatever holds eight times what L2 holds */
    FIGURE_READ,
    FIGURE_MEMCPY,
    FIGURE_STREAM, /* a copy that leaves out the caches */
    FIGURE_UPDATE,
    FIGURE_COUNT
} BenchFigure;
double limits_figure(const struct Limits *l, BenchFigure f);

size_t l2_bytes(void); /* of this machine, a common value where it does not say */

#endif
