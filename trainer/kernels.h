/* The compiled kernels and how they are called: by name, arguments by name.
 *
 *     CALL(t->kernels, project_fwd, ARG(x, stream), ARG(o, heads), ARG(w, weight), ARG(y, next))
 *
 * Sizes are set once for the calls that follow; a kernel takes those it mentions. */
#ifndef TRAINER_KERNELS_H
#define TRAINER_KERNELS_H

#include <stdint.h>

#include "moec/moec.h"

typedef enum Size {
#define SOURCE(file)
#define KERNEL(source, kernel)
#define SIZE(name) SIZE_##name,
#include "trainer/kernels.def"
    SIZE_COUNT
} Size;

typedef enum KernelId {
#define SOURCE(file)
#define KERNEL(source, kernel) KERNEL_##kernel,
#define SIZE(name)
#include "trainer/kernels.def"
    KERNEL_COUNT
} KernelId;

/* One argument: the data of a tensor, a moe_route, or the address of a scalar. */
typedef struct TrainArg {
    const char *name;
    const void *at;
} TrainArg;

typedef struct Kernels Kernels;

/* Compiles all sources. NULL when one fails, with its diagnostics printed. check: before each call, compiled code and
 * the compiler's reference interpreter run on copies of its arguments and are compared. */
Kernels *kernels_new(int threads, int check);
void kernels_free(Kernels *k);

void kernels_size(Kernels *k, Size size, int64_t value);
/* Bytes of a parameter's memory at the sizes set, -1 when that is too much. */
int64_t kernels_bytes(const Kernels *k, KernelId id, const char *param);
/* Runs a kernel on the sizes set. Returns 0, or 1 with a message printed (a wrong result of a check is a failure). */
int kernels_call(Kernels *k, KernelId id, const TrainArg *args);
#define ARG(name, at) \
    {                 \
#name, at     \
    }
#define CALL(kernels, kernel, ...) \
    kernels_call((kernels), KERNEL_##kernel, (const TrainArg[]){__VA_ARGS__, {0, 0}})

double kernels_seconds(const Kernels *k); /* spent inside kernels since the last kernels_reset_time */
void kernels_reset_time(Kernels *k);
moec_score kernels_take_score(Kernels *k);  /* of the checks since the last one */
void kernels_print_times(const Kernels *k); /* a line per kernel, the slowest first */
double train_seconds(void);

#endif
