/* Machines the compiler knows. The front door of machines/.
 *
 * This first form describes the host's instruction sets, a row each in cpu.def; descriptions of whole machines
 * (caches, cube, on-chip buffers) as JSON data come beside it. Passes read every width from here. */
#ifndef MACHINES_MACHINES_H
#define MACHINES_MACHINES_H

#include <stdint.h>

typedef enum Isa {
#define CPU(id, word, lanes, rows, vectors, left_bits, features, doc) ISA_##id,
#include "machines/cpu.def"
    ISA_COUNT
} Isa;

/* Extents of the blocks that a thread works on: a box of sums, and how many terms are packed at a time. */
typedef struct Blocks {
    int64_t rows, cols, depth;
} Blocks;

typedef struct Cpu {
    const char *name;     /* "avx512": the word of MOE_ISA and --target */
    uint32_t lanes;       /* f32 values of one vector register */
    uint32_t rows;        /* fragment of a block product: rows ... */
    uint32_t vectors;     /* ... times vectors of columns */
    uint32_t left_bits;   /* bits of an element of the left panel in a product of 16-bit types: 32 widened, 16 as it is */
    const char *features; /* LLVM feature string */
    const char *doc;
} Cpu;
extern const Cpu cpu_table[ISA_COUNT];

/* What CPUID and XGETBV must show for an instruction set, and what Linux must grant; compiled code tests the same. */
typedef struct CpuNeeds {
    uint32_t xcr0;       /* register states the operating system saves; 0: not even asked */
    uint32_t leaf1_ecx;
    uint32_t leaf7_ebx, leaf7_edx;
    uint32_t leaf7_1_eax;
    uint32_t permission; /* a register state that Linux gives to processes that ask for it; 0: none */
} CpuNeeds;
extern const CpuNeeds cpu_needs[ISA_COUNT];

/* Block extents by default: what the packed operands and the sums need stays in the second cache. */
Blocks machine_blocks(void);

/* arch_prctl(CPU_ASK, permission) is 0 when the state was granted: for all threads, until exec. It is refused where a
 * thread has a small alternative signal stack. */
enum { CPU_ASK_CALL = 158, CPU_ASK = 0x1023 };

int cpu_has(Isa isa); /* CPUID and the operating system (XGETBV, permission) allow it */
Isa cpu_best(void);   /* of the real ones: amx_soft is never the best */
int cpu_find(const char *name, Isa *out); /* 0 when there is no such ISA */

#endif
