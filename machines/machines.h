/* Machines the compiler knows. The front door of machines/.
 *
 * This first form describes the host's instruction sets, a row each in cpu.def; descriptions of whole machines
 * (caches, cube, on-chip buffers) as JSON data come beside it. Passes read every width from here. */
#ifndef MACHINES_MACHINES_H
#define MACHINES_MACHINES_H

#include <stdint.h>

typedef enum Isa {
#define CPU(name, lanes, rows, vectors, blocks, depth, features, doc) ISA_##name,
#include "machines/cpu.def"
    ISA_COUNT
} Isa;

typedef struct Cpu {
    const char *name;     /* "avx512": the word of MOE_ISA and --target */
    uint32_t lanes;       /* f32 values of one vector register */
    uint32_t rows;        /* register block of a sum of products: rows ... */
    uint32_t vectors;     /* ... times vectors of columns */
    uint32_t blocks;      /* register blocks, one below the other, that share a packed operand */
    uint32_t depth;       /* terms of a sum that are packed at a time: the copies stay in the first two caches */
    const char *features; /* LLVM feature string */
    const char *doc;
} Cpu;
extern const Cpu cpu_table[ISA_COUNT];

/* What CPUID and XGETBV must show for an instruction set; compiled code tests the same bits. */
typedef struct CpuNeeds {
    uint32_t xcr0;       /* register states the operating system saves; 0: not even asked */
    uint32_t leaf1_ecx;
    uint32_t leaf7_ebx, leaf7_edx;
} CpuNeeds;
extern const CpuNeeds cpu_needs[ISA_COUNT];

int cpu_has(Isa isa);                    /* CPUID and the operating system (XGETBV) allow it */
Isa cpu_best(void);
int cpu_find(const char *name, Isa *out); /* 0 when there is no such ISA */

#endif
