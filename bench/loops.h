/* The loops behind the limits, one function for each kind of arithmetic.
 *
 * A *bare loop* is the inner part of a matrix product with nothing around it: C += A * B with a panel of A in L1 and B
 * in L2. A *register loop* only multiplies and adds. Both work on random data: zeros run faster. */
#ifndef BENCH_LOOPS_H
#define BENCH_LOOPS_H

#include <stddef.h>

/* Extents of the bare loop: B, of 4-byte elements (bf16: pairs along the depth), fills half of a common L2. */
enum { BARE_ROWS = 96, BARE_COLS = 512, BARE_DEPTH = 128 };

typedef struct Arithmetic {
    const char *isa;
    const char *word;  /* the instruction */
    int bf16;          /* else f32 */
    double step_flops; /* of one element of A with one of B: 2 for f32, 4 for a pair of bf16 */
    void (*bare)(const float *a, const float *b, float *c);
    double (*registers)(float *random, long trips); /* flops that it did */
    void (*setup)(void);                            /* of the thread, or NULL */
} Arithmetic;

/* The loops from the plainest instruction set up, to one without a name. Operands of bf16 may also be widened, so that those of f32
 * count for both. */
extern const Arithmetic arithmetics[];

/* One stream, or four at once: on some CPUs the one is faster, on others the other. */
void loop_read(const void *from, size_t bytes, int four);
void loop_update(void *at, size_t bytes);
void loop_copy(void *to, const void *from, size_t bytes);

#endif
