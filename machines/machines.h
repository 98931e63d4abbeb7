/* Machines the compiler knows. The front door of machines/.
 *
 * The instruction sets of CPUs are rows of cpu.def: lanes, register fragments, LLVM features. Whole machines (matrix
 * unit, alignments, capacities, default blocks) are descriptions in JSON, one file each, of the rows in figures.def.
 * Passes read every width and extent from here. */
#ifndef MACHINES_MACHINES_H
#define MACHINES_MACHINES_H

#include "base/base.h"

/* ---- heuristics ---- */

/* Figures of no machine that decide about code: rows of heuristics.def, which says what each one does and where it is from. */
enum {
#define HEURISTIC(name, value, unit, doc, source) name = (value),
#include "machines/heuristics.def"
};

typedef struct HeuristicRow {
    const char *name, *unit, *doc, *source;
    int64_t value;
} HeuristicRow;
extern const HeuristicRow heuristic_table[];
extern const uint32_t heuristic_count;

/* ---- instruction sets ---- */

typedef enum Isa {
#define CPU(id, ...) ISA_##id,
#include "machines/cpu.def"
    ISA_COUNT
} Isa;

/* CPUs whose code one object can hold. */
typedef enum Family {
#define FAMILY(id, triple, cpu, doc) FAMILY_##id,
#include "machines/cpu.def"
    FAMILY_COUNT
} Family;

/* What generated code asks of an instruction set: see cpu_can(). */
typedef enum CpuTrait {
#define CPU_TRAIT(id, doc) CPU_##id,
#include "machines/cpu.def"
    CPU_TRAITS
} CpuTrait;

/* What the CPU must show for an instruction set, and what the operating system must grant; compiled code tests the same.
 * The fields are those of x86: CPUID, XGETBV. */
typedef struct CpuNeeds {
    uint32_t xcr0;       /* register states the operating system saves; if any, leaf1_ecx has OSXSAVE */
    uint32_t leaf1_ecx;  /* 0: the CPU is not even asked */
    uint32_t leaf7_ebx, leaf7_edx;
    uint32_t leaf7_1_eax;
    uint32_t permission; /* a register state that Linux gives to processes that ask for it; 0: none */
} CpuNeeds;

/* A row of cpu.def, which says what each column means. */
typedef struct Cpu {
    const char *name;   /* "avx512": the word of MOE_ISA and --target */
    Family family;
    uint32_t lanes;     /* f32 values of one vector register */
    uint32_t rows;      /* fragment of a block product: rows ... */
    uint32_t vectors;   /* ... times vectors of columns */
    uint32_t part;      /* words of a right panel that a fragment goes over at a time */
    uint32_t terms;     /* of a product of bf16 that one instruction adds to each sum; 1: operands are widened to f32 */
    uint32_t rows_read; /* terms of a right operand in rows that a product goes over at a time; 0: it is packed first */
    Isa f32;            /* whose fragment multiplies f32 */
    Isa code;           /* whose code it shares where nothing is multiplied */
    uint32_t traits;    /* bits of CpuTrait */
    CpuNeeds needs;
    const char *features; /* LLVM feature string */
    const char *doc;
} Cpu;
extern const Cpu cpu_table[ISA_COUNT];

static inline int cpu_can(const Cpu *cpu, CpuTrait trait) { return cpu->traits >> trait & 1; }

typedef struct CpuTraitRow {
    const char *name, *doc;
} CpuTraitRow;
extern const CpuTraitRow cpu_trait_table[CPU_TRAITS];

typedef struct FamilyRow {
    const char *name, *triple, *cpu, *doc; /* triple, cpu: LLVM's */
    int (*has)(const CpuNeeds *needs);     /* does this computer show them? */
} FamilyRow;
extern const FamilyRow family_table[FAMILY_COUNT];

/* arch_prctl(CPU_ASK, permission) is 0 when the state was granted: for all threads, until exec. It is refused where a
 * thread has a small alternative signal stack. */
enum { CPU_ASK_CALL = 158, CPU_ASK = 0x1023 };

int cpu_has(Isa isa);   /* this computer's CPU and its operating system allow it */
Isa cpu_best(void);     /* that this computer has, and ... */
Isa cpu_plainest(void); /* ... the first one: of those that are not chosen by name only */
int cpu_find(const char *name, Isa *out); /* 0 when there is no such ISA */

/* ---- whole machines ---- */

typedef enum MachineKind { MACHINE_CPU = 1, MACHINE_NPU = 2 } MachineKind;

/* What passes ask of a kind of machine: the rows TRAIT of figures.def. */
typedef struct Traits {
#define TRAIT(id, cpu, npu, doc) int id;
#include "machines/figures.def"
} Traits;
const Traits *machine_traits(MachineKind kind);

typedef struct TraitRow {
    const char *name, *doc;
    int cpu, npu;
} TraitRow;
extern const TraitRow trait_table[];
extern const uint32_t trait_count;

/* Extents of a product, or of a part of one: rows and columns of sums, and terms of each sum. */
typedef struct Blocks {
    int64_t rows, cols, depth;
    int64_t plain_rows; /* rows that belong to no group */
    int64_t part_rows;
} Blocks;

typedef struct OnChip {
    int64_t bytes, align;
} OnChip;

/* The figures of a machine, plain values; figures.def has the meaning and the unit of each. Those of a section that the
 * description does not have are 0.
 *
 * Note [Same machine, same code]. What decides about code comes from the description, which is part of the compiler (so
 * the compile cache's key, which holds the compiler's build, covers it), never from the computer that happens to
 * compile: two computers compile the same bytes for one list of instruction sets. What the host is asked for
 * (machine_probe) goes into reports only; tests/literals.sh keeps it out of passes/ and backend/. */
typedef struct Machine {
    char name[32];
    MachineKind kind;
    Blocks cube_16bit;
    struct {
        int64_t fragment, block, line;
    } align;
    Blocks blocks, given_blocks, place_blocks, l0_blocks;
    struct {
        int64_t cube, vector;
    } cores;
    struct {
        int64_t l1, l2, stream;
    } caches;
    struct {
        int64_t add, chain, tile, store, copy, transpose, loop, call, launch, l2, l3, memory, runs, page;
    } core;
    OnChip l1, l0a, l0b, l0c, ub;
    struct {
        int64_t core;
    } clock;
    struct {
        int64_t gm, gm_rate, l2, sector, jump, latency;
    } memory;
    struct {
        int64_t gm_read, gm_write, l2_read, l2_write, l1_l0a, l1_l0b, ub_gm, ub_l2, gm_alone, vector;
    } rates;
    struct {
        int64_t launch, start, issue, queue, move, flag, cross, mte1, fix, cube, cube_32bit, vector, scalar;
    } costs;
} Machine;

/* The n-th on-chip buffer, in the order of spaces: l1, l0a, l0b, l0c, ub. */
static inline const OnChip *machine_on_chip(const Machine *m, uint32_t n)
{
    const OnChip *const all[] = {&m->l1, &m->l0a, &m->l0b, &m->l0c, &m->ub};
    return all[n];
}

/* The CPU that compiles and runs: host.json, read once per process. Registers and lanes: cpu_table. */
const Machine *machine_host(Arena *a);

/* A row of figures.def. */
typedef struct FigureRow {
    const char *section, *key, *unit, *doc;
    size_t at;              /* of its value in Machine */
    int64_t (*probe)(void); /* asks this computer: 0 when it does not say */
} FigureRow;
extern const FigureRow figure_table[];
extern const uint32_t figure_count;

/* A rule of figures.def: the first is a multiple of the second. */
typedef struct MultipleRow {
    uint32_t row, of; /* of figure_table */
} MultipleRow;
extern const MultipleRow multiple_table[];
extern const uint32_t multiple_count;

typedef struct SectionRow {
    const char *name;
    unsigned kinds; /* MachineKinds that must have it */
    const char *doc;
} SectionRow;
extern const SectionRow section_table[];
extern const uint32_t section_count;

typedef struct Figure {
    const FigureRow *row;
    int64_t value;
    const char *source; /* where the value is from: text or address */
    int probed;         /* the value is a fall-back for what the host says */
} Figure;

/* A whole description: the figures as a Machine, and each with its source in the order of figures.def. */
typedef struct Description {
    Machine machine;
    const char *doc;
    Vec(Figure) figures;
} Description;

/* Reads a description and checks it: NULL, or an error that names file, key, value and rule. Texts live in `a`. */
const char *machine_read(Arena *a, const char *file, const char *text, size_t len, Description *out);

/* Figures that are probed become what this computer says. For reports only: Note [Same machine, same code]. */
void machine_ask(Description *d);

/* The descriptions that are part of the compiler. */
typedef struct MachineText {
    const char *name;
    const unsigned char *json;
    size_t len;
} MachineText;
extern const MachineText machine_texts[];
extern const uint32_t machine_text_count;
const MachineText *machine_find(const char *name); /* NULL when there is none */

/* What this computer says about a figure; 0 when it does not. For reports only: Note [Same machine, same code]. */
int64_t machine_probe(const FigureRow *row);

#endif
