/* The cycle model: when each operation of a trace begins and ends on the machine.
 *
 * Note [Cycle model]. A core is a program and units. The program, run by the scalar unit, gives operations to the units in
 * its order, a few cycles each; a unit does what it was given in order, and the program waits when a unit has enough
 * before it. A wait holds its unit until the set that it is about: until the setting unit is done with all it was given
 * before. An operation holds its unit while data flow, bytes by rate or steps of the cube, and is done a latency later;
 * the next one need not wait for that. Vector cores beside a cube core have programs and units of their own.
 *
 * A core of a CPU has one unit, which does everything in order: products, packs and loops (core.h). What an operation reads
 * and writes comes while it computes, so that it takes the longer of both; but for what nobody has asked for ahead, which it
 * waits for. Bytes come from the core's own cache, from the one that all cores share, or from memory, each at its rate. A line is read before
 * something is stored in it, unless that goes past the caches, by size or as the schedule says (KNOB_writes). Where rows
 * are not asked for ahead (KNOB_ahead), nor in runs (CPU_ASKS_RUNS), each waits for memory; how far ahead makes no difference.
 *
 * Global memory and the cache before it are shared by all cores: memory.h. Items of a launch are given to cores as they stand
 * in the trace, so that a last wave of few items is what it is. A launch begins when the one before is over, and the launch
 * overhead after that. What runs on the host of an NPU is not timed, nor checks, routes and sorts on a CPU.
 *
 * It is a model: its figures are those of the machine's description, some of them estimates, and nothing is fitted case by
 * case. accuracy.def is how far it is from published times (bench/published.py), SIMULATE_CPU_ERROR from schedules that were
 * measured on a CPU (bench/schedules.py). */
#ifndef EMULATOR_SIMULATE_H
#define EMULATOR_SIMULATE_H

#include "emulator/emulator.h"

/* Percent: the largest error among measured schedules of grouped products, which all took longer. */
enum { SIMULATE_CPU_ERROR = 55 };

/* When an operation held its unit, in cycles of the core's clock from the begin of the call. */
typedef struct Span {
    int64_t from, to;
} Span;

/* What a launch spends its time on, beside a unit. */
enum { BOUND_MEMORY = UNIT_COUNT, BOUND_LAUNCH, BOUND_COUNT };

typedef enum FlopKind { FLOPS_16BIT /* products of 16-bit operands */, FLOPS_OTHER, FLOPS_COUNT } FlopKind;

typedef struct SimulatedLaunch {
    int64_t begin, end;         /* the overhead stands before `begin` */
    Span **spans;               /* by core, operation */
    int64_t *cycles;            /* by core: until its last operation is done */
    int64_t bytes[PATH_COUNT];  /* by path */
    int64_t memory_bytes;       /* of those, moved between L2 and global memory */
    int64_t own_bytes, shared_bytes; /* of a CPU: read and written; what of it its second cache does not have */
    int64_t cube_steps;         /* of Machine.cube_16bit */
    int64_t flops[FLOPS_COUNT]; /* operations on floats; of an NPU those of products only */
    int64_t busy[UNIT_COUNT];   /* cycles, of all units of a kind together */
    int64_t nunits[UNIT_COUNT]; /* how many of them have done something */
    double share[BOUND_COUNT];  /* of the time from the launch before to `end`: of the busiest core's unit */
    int bound;                  /* the greatest share: a Unit or BOUND_... */
} SimulatedLaunch;

typedef struct Simulated {
    const Trace *trace;
    SimulatedLaunch *launches; /* as in the trace */
    int64_t cycles;
} Simulated;

Simulated *simulate(Arena *a, const Trace *trace);
double simulated_us(const Trace *t, int64_t cycles);
/* "cube", "global memory"; of a CPU what its core does: "products", "packs", "loops". NULL: the machine has no such unit. */
const char *bound_name(const Machine *m, int bound);

#endif
