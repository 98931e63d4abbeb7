/* Our kernels: compiled from the .moe texts of this folder through the public interface, and called with arguments by name. */
#ifndef BENCH_OURS_H
#define BENCH_OURS_H

#include "bench/bench.h"

typedef enum Role { ROLE_IN, ROLE_OUT, ROLE_PACK } Role;

typedef struct Arg {
    const char *name;
    void *at; /* a tensor, a route, or where a scalar stands */
    Role role;
} Arg;
#define IN(name, at)                           \
    {                                          \
        name, (void *)(uintptr_t)(at), ROLE_IN \
    }
#define OUT(name, at)      \
    {                      \
        name, at, ROLE_OUT \
    } /* or inout */
#define PACK(name, at)      \
    {                       \
        name, at, ROLE_PACK \
    } /* row-major weights, of which the kernel gets a packed copy */

typedef struct Call Call;

/* A kernel bound to the case's sizes and these arguments; lives as long as the case. NULL: it complained. `args` ends with
 * a row without a name, and may have more than the kernel takes. */
Call *ours_bind(Case *c, const char *source, const char *kernel, const Arg *args, int threads);
TimeCalls ours_time;

/* Calls it on one thread and on two and compares the bits of what it writes, which holds the result of one call
 * afterwards. 1: it complained. */
int ours_prove(Case *c, Call *call);

/* The best instruction set that this CPU runs and that the option allows; NULL: it complained. */
const char *ours_isa(Bench *b);
void ours_free(Bench *b);

#endif
