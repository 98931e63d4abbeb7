/* Our kernels: compiled from the .moe texts of this folder through the public interface, and called with arguments by name. */
#ifndef BENCH_OURS_H
#define BENCH_OURS_H

#include "bench/bench.h"

typedef enum BenchRole { ROLE_IN, ROLE_OUT, ROLE_INOUT } BenchRole;

typedef struct BenchArg {
    const char *name;
    void *at; /* a tensor, a route, or where a scalar stands */
    BenchRole role;
} BenchArg;
#define IN(name, at)                           \
    {                                          \
        name, (void *)(uintptr_t)(at), ROLE_IN \
    }
#define OUT(name, at)      \
    {                      \
        name, at, ROLE_OUT \
    }
#define INOUT(name, at)      \
    {                        \
        name, at, ROLE_INOUT \
    }

typedef struct BenchCall BenchCall;

/* A kernel of SOURCE.moe bound to the case's sizes and these arguments, on the case's threads; it lives as long as the case.
 * NULL: it complained. `args` goes up to a row without a name, and may have more than the kernel takes. An argument NULL
 * gets memory of its own. */
BenchCall *ours_bind(Case *c, const char *source, const char *kernel, const BenchArg *args);
/* The same on so many threads. */
BenchCall *ours_on(Case *c, const BenchCall *call, int threads);
/* Makes one of two that are called one after the other. */
void ours_then(BenchCall *first, BenchCall *then);
TimeCalls ours_time;
void *ours_arg(const BenchCall *call, const char *name);
/* Weights packed both ways, from row-major ones [E, rows, cols]; NULL: it complained. */
void *ours_pack(Case *c, const void *row_major, bool bf16, int64_t E, int64_t rows, int64_t cols);
/* Bytes, with another value for one size. */
double ours_workspace(const BenchCall *call, char size, int64_t value);

/* Calls it on two threads and on one and compares the bits of what it writes, which is the result of one call
 * afterwards. 1: it complained. */
int ours_prove(BenchCall *call);

/* The instruction set that was asked for, or the choice of the library; NULL: it complained. */
const char *ours_isa(Bench *b);
/* This CPU runs it. */
bool ours_has(Bench *b, const char *isa);
void ours_free(Bench *b);

#endif
