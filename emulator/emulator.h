/* What an NPU does with a plan, on a CPU. The front door of emulator/.
 *
 * A plan is a tile program for an NPU: its buffers stand in on-chip spaces, and what moves between them, multiplies or
 * waits is a statement of its own (Note [Plans] in ir/tile.h). Compiled code runs the plan item after item; before each
 * statement it tells the emulator, which notes an operation of the unit that would do it. Three modes:
 *   run    the statements also do their work on the data;
 *   check  likewise, and every access is held against what the units have agreed on (check.h);
 *   model  nothing is done with the data: only what the cycle model needs is noted, so that sizes may be any.
 * The operations are the same in all of them: what is counted while a plan runs is what the model times.
 *
 * Code for a CPU runs in mode model only; what its operations are stands in core.h. */
#ifndef EMULATOR_EMULATOR_H
#define EMULATOR_EMULATOR_H

#include "ir/tile.h"
#include "machines/machines.h"

typedef enum EmulateMode { EMULATE_NOTHING, EMULATE_RUN, EMULATE_CHECK, EMULATE_MODEL } EmulateMode;

/* ---- the trace: what every core did, in the order of its program; of mode model ---- */

/* An operation of one unit. What a, b and c are depends on the kind:
 *   pack           a move of `a` runs of `b` contiguous bytes on the side of global memory (L1 to L0: rows of the box), which
 *                  begin `c` bytes apart; gm: the first of them, TensorId << 40 | byte (L1 to L0: 0)
 *   product        rows, columns and depth; bytes: of an element of the operands
 *   for            a vector loop: `a` elements, `b` instructions for each
 *   store          work of the scalar unit: `a` elements, `b` instructions for each
 *   set, wait      a: flag << 32 | which of its sets, the same number for a set and the waits that it ends; b: 1 for a wait
 *                  for nothing, of a flag that begins set. What waits for several vector cores is several waits */
typedef struct Op {
    uint8_t kind;  /* TileKind */
    uint8_t unit;  /* that does it */
    uint8_t other; /* set: the unit that waits; wait: the one that sets */
    uint8_t path;  /* pack: Path, else PATH_COUNT */
    uint8_t sub;   /* 0: the cube core; n: the n-th vector core beside it. In launches on vector cores: 0 */
    uint8_t bytes;
    StmtId stmt;
    int64_t a, b, c;
    uint64_t gm;
} Op;
typedef Vec(Op) Ops;

/* What the items of a launch run on. */
typedef enum CoreKind {
    ON_HOST /* checks, routes, sorts */,
    ON_SCALAR,
    ON_VECTOR,
    ON_CUBE /* and vector cores beside it */,
    ON_CORES /* of a CPU */
} CoreKind;

typedef struct LaunchTrace {
    StmtId launch;
    CoreKind place;
    uint32_t ncores; /* that are started: cube cores, vector cores, those of a CPU, or 1 */
    Ops *ops;        /* by core */
    int64_t *items;  /* by core: how many it was given */
    /* Note [Sampling] in sample.c: how many items' operations there are, and what these stand for; 0: all. */
    int64_t looked_at;
    double time_scale, work_scale;
} LaunchTrace;

static inline int64_t launch_items(const LaunchTrace *l)
{
    int64_t n = 0;
    for (uint32_t c = 0; c < l->ncores; c++)
        n += l->items[c];
    return n;
}

static inline int launch_is_sampled(const LaunchTrace *l) { return l->time_scale > 1 || l->work_scale > 1; }

typedef struct Trace {
    Arena *arena;
    const Machine *machine;
    const Cpu *cpu;      /* of a CPU: whose instructions it runs */
    const Kernel *k;     /* the plan, for names and lines */
    const int64_t *dims; /* by DimId */
    Vec(LaunchTrace) launches;
} Trace;

/* ---- running a plan ---- */

/* expand.c: k->tiles, a plan for an NPU or tiles for a CPU (NULL: the host), become in place code that tells emulator_event() of every
 * statement; it is compiled for `isa`. */
void emulator_expand(Kernel *k, const Machine *machine, Isa isa);

/* Where there are no data: what each `top` finds that writes to `ids`, k numbers below n for each token, one token after the
 * other. */
typedef struct Chooser {
    const int32_t *(*choose)(void *user, Name ids, int64_t tokens, int64_t k, int64_t n);
    void *user;
} Chooser;

typedef struct Emulator Emulator;
/* k: a plan in its compiled form, see emulator/expand.c, or code for a CPU that has the instructions of `isa`. Everything is
 * allocated in a. chooser: of mode model, else NULL. */
Emulator *emulator_new(Arena *a, const Machine *machine, Isa isa, const Kernel *k, const int64_t *dims,
                       EmulateMode mode, const Chooser *chooser);
void emulator_free(Emulator *e); /* the on-chip buffers */
/* What BackendListener of backend/backend.h calls. */
int emulator_event(void *emulator, int64_t kind /* EventKind */, int64_t statement, const int64_t *values);
void *emulator_on_chip(void *emulator, int64_t space);
const Trace *emulator_trace(Emulator *e);
/* check: the first thing that is wrong, in terms of the program, or NULL. */
const char *emulator_error(const Emulator *e);

/* The 16 x 16 x 16 multiply-adds (Machine.cube_16bit) that a product of the cube takes, edges rounded up. */
int64_t op_cube_steps(const Machine *m, const Op *op);

#endif
