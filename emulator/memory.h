/* Global memory and the cache in front of it, shared by all cores; of a CPU also the second cache of each core, which what it
 * reads and writes meets first. Private to emulator/.
 *
 * The cache keeps lines of Machine.align.line bytes, in sectors that come one by one. A line stays until as many others as
 * the cache holds have come since it was last used: least recently used, up to the order of uses meanwhile. A sector that
 * is written goes to memory once while its line stays; a CPU reads it first, unless it writes past the caches. Of a core's own
 * cache a part is sure (memory_sure): a line stays until some number between that and all of its lines have come.
 *
 * Memory moves Machine.memory.gm_rate in each span of time, for whoever comes first. A run of bytes costs it a jump, and
 * another one for each end inside a line, because parts of lines are moved apart. */
#ifndef EMULATOR_MEMORY_H
#define EMULATOR_MEMORY_H

#include "emulator/emulator.h"

enum { MEMORY_SPAN = 512 }; /* cycles whose bandwidth is given away together */

typedef struct Memory Memory;
Memory *memory_new(Arena *a, const Machine *machine);
/* Bytes of a core's own cache that may come before anything goes. Its sets fill unevenly, because pages of memory lie at random:
 * measured on an Emerald Rapids Xeon, of left operands that a product reads again and again, a quarter of the second cache stays;
 * 1 MiB of 2 cost 0.3 of what all reads from the last cache would, 1.5 MiB 0.6, 2 MiB 1.0. */
static inline int64_t memory_sure(const Machine *m) { return m->caches.l2 / 4; }
int64_t memory_per_span(const Machine *machine); /* bytes, at least 1 */
void memory_launch(Memory *m, int64_t begin); /* nothing moves before that cycle; the cache stays as it is */

/* Global memory's side of a move: `runs` runs of `bytes`, `apart` bytes from begin to begin, of a place of its own. */
typedef struct MemoryRun {
    uint64_t place; /* TensorId << 40 | byte, and the core where each has its own */
    int64_t runs, bytes, apart;
    int write, past; /* past: of a CPU, a write that reads no line first and leaves none in the caches */
    int64_t rate, alone; /* bytes per cycle to or from the cache; from memory, when no other core moves anything */
    uint32_t core;       /* whose own cache is met first, */
    int64_t own_rate;    /* bytes per cycle from there; 0: it has none */
} MemoryRun;

typedef struct Flow {
    int64_t end;   /* when the last byte has been asked for */
    int64_t alone; /* cycles that it would take if no other core moved anything */
    int64_t bytes; /* between cache and memory */
    int64_t shared; /* between own cache and the shared one: those, and what was there */
    int64_t taken; /* of memory's bandwidth: those, and the jumps */
} Flow;
Flow memory_move(Memory *m, int64_t at, const MemoryRun *run); /* from cycle `at` on */

#endif
