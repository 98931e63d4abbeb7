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

/* Multiplies in registers; how many operations of float it did. */
typedef uint64_t CpuLoop(uint32_t trips);

/* A row of cpu.def, which says what each column means. */
typedef struct Cpu {
    const char *name;   /* "avx512": the word of MOE_ISA and --target */
    Family family;
    uint32_t lanes;     /* f32 values of one vector register */
    uint32_t rows;      /* fragment of a block product: rows ... */
    uint32_t vectors;   /* ... times vectors of columns */
    uint32_t part;      /* words of a right panel that a fragment goes over at a time */
    uint32_t unroll;    /* units that a fragment multiplies in a trip of its loop; 0: those of a word */
    uint32_t terms;     /* of a product of bf16 that one instruction adds to each sum; 1: operands are widened to f32 */
    uint32_t rows_read; /* terms of a right operand in rows that a product goes over at a time; 0: it is packed first */
    uint32_t streams;     /* panels that few rows read in turn; 1: one after the other */
    uint32_t row_streams; /* the same of parts of rows */
    Isa f32;            /* whose fragment multiplies f32 */
    Isa code;           /* whose code it shares where nothing is multiplied */
    CpuLoop *loop;      /* its products of bf16 in registers; or NULL */
    uint32_t traits;    /* bits of CpuTrait */
    CpuNeeds needs;
    const char *features; /* LLVM feature string */
    const char *doc;
} Cpu;
extern const Cpu cpu_table[ISA_COUNT];

static inline int cpu_can(const Cpu *cpu, CpuTrait trait) { return cpu->traits >> trait & 1; }

/* Is its loop timed, to choose between it and others? */
static inline int cpu_is_timed(const Cpu *cpu) { return cpu->loop && cpu_can(cpu, CPU_TIMED); }

/* The rows of the last fragments but for one or two rows, of which a whole fragment would waste most: a power of two, and at
 * least 4, because fewer leave a core without work between two multiply-adds of one sum. */
static inline uint32_t cpu_tail(uint32_t rows)
{
    uint32_t tail = rows & -rows;
    return tail < 4 && rows > 4 ? 4 : tail;
}

/* From so many rows on fragments have all columns of a panel, by CPU_WIDE: of one whose bf16 they widen, and of others. */
static inline uint32_t cpu_wide_rows(uint32_t rows, int widens) { return widens ? WIDE_ROWS : cpu_tail(rows) + 1; }

typedef struct CpuTraitRow {
    const char *name, *doc;
} CpuTraitRow;
extern const CpuTraitRow cpu_trait_table[CPU_TRAITS];

/* A kind of CPU: what it says of itself, which rates depend on. */
typedef struct CpuId {
    char vendor[12];
    uint32_t family, model, stepping;
    uint32_t features[3];
} CpuId;

typedef struct FamilyRow {
    const char *name, *triple, *cpu, *doc; /* triple, cpu: LLVM's */
    int (*has)(const CpuNeeds *needs);     /* does this computer show them? */
    void (*id)(CpuId *out);                /* what this computer is, where it is of the family */
} FamilyRow;
extern const FamilyRow family_table[FAMILY_COUNT];

/* arch_prctl(CPU_ASK, permission) is 0 when the state was granted: for all threads, until exec. It is refused where a
 * thread has a small alternative signal stack. */
enum { CPU_ASK_CALL = 158, CPU_ASK = 0x1023 };

int cpu_has(Isa isa);       /* this computer's CPU and its operating system allow it */
uint32_t cpu_choices(void); /* those that this computer has, as bits 1 << isa: without those that are chosen by name only */
Isa cpu_best(void);         /* the fastest of them, and ... */
Isa cpu_plainest(void);     /* ... the first one */
int cpu_find(const char *name, Isa *out); /* 0 when there is no such ISA */

/* ---- the right code ---- */

/* Note [The right code]. What runs is CPUID's word, what is fast is the stopwatch's. Two instruction sets differ in the loop that
 * multiplies bf16: FMA of operands that were widened to f32, VDPBF16PS, TDPBF16PS. (f32 and f16 are multiplied by FMA in each.)
 * A CPU that has the instruction may be slower with it: VDPBF16PS does twice the work of FMA on Zen 4, half of it on Golden Cove.
 * So of those that the CPU has the highest row of cpu.def is taken that no other one beats by RATE_GAIN.
 *
 * Rates come from the first of three that has them: a file that was kept in the folder of the compile cache, the table cores.def,
 * and a probe of a few milliseconds, which the compiler keeps in that file. Busy neighbours make single runs slower, never
 * faster, so the best of many short ones counts; a ratio near 1 changes nothing.
 *
 * libmoec and every .so contain the same functions: the sources listed as `chooser` in CMakeLists.txt are also compiled to an
 * object of their own, which the back end merges into each object that it makes. Its entry is moec_choose(). They depend on libc
 * only, and on no state of the process.
 *
 * A choice among instruction sets is a choice among results: bits differ between them, within the numeric contract. */
typedef enum RatesFrom { RATES_NONE, RATES_KEPT, RATES_TABLE, RATES_PROBE } RatesFrom;

typedef struct CpuRates {
    uint32_t mflops[ISA_COUNT]; /* products of bf16 of one thread; 0: not known */
    RatesFrom from;
    char core[16]; /* RATES_TABLE: the row of cores.def */
} CpuRates;

/* cores.def. */
typedef struct CoreText {
    const char *name, *doc;
} CoreText;
typedef struct RateRow {
    const char *core, *source;
    Isa isa;
    uint32_t gflops;
} RateRow;
extern const CoreText core_table[];
extern const RateRow rate_table[];
extern const uint32_t core_count, rate_count;

/* Of some instruction sets, bits 1 << isa that this CPU has: the one to take. Decides by its arguments only. */
Isa cpu_fastest(uint32_t isas, const CpuRates *rates);
int cpu_needs_rates(uint32_t isas); /* 0: cpu_fastest() takes the highest, whatever the rates */

/* Of one run of an instruction set's loop: operations per second. */
typedef double CpuStopwatch(Isa isa, void *user);
double cpu_time_loop(Isa isa, void *user);
void cpu_probe(uint32_t isas, CpuStopwatch *stopwatch, void *user, CpuRates *out); /* of those that have a loop */

void cpu_id(CpuId *out);
void cpu_find_rates(uint32_t isas, CpuRates *out); /* kept, of the table, or probed for `isas` */
const CpuRates *cpu_rates(void);                   /* of all choices, found once for each process */
const char *cpu_core(void);                        /* this computer's row of cores.def, "" when it has none */
int cpu_keep_rates(const char *directory, const CpuRates *rates); /* in the folder of the compile cache; 0: not written */
const char *cpu_rate_source(const CpuRates *rates, Isa isa);      /* where the figure is from */

/* The folder that the environment names for caches, "" when none or off; what is cached stands in CPU_CACHE_OWN there. */
enum { CPU_PATH = 4096 };
#define CPU_CACHE_OWN "moec-cache"
void cpu_cache_folder(char *out, size_t size);

/* Of some instruction sets the one to run here; CHOICE_NONE: the CPU lacks all, CHOICE_FORCED: MOE_ISA names none that runs, and
 * *forced becomes its word. forced NULL: MOE_ISA does not count. */
enum { CHOICE_NONE = -1, CHOICE_FORCED = -2 };
int32_t moec_choose(uint32_t isas, const char **forced);

/* The same and what it calls, as an object for the linker. */
extern const unsigned char chooser_object[];
extern const size_t chooser_object_len;

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
    int64_t plain_rows; /* instead of `rows`, of a product that is alone: neither grouped nor one of many */
    int64_t part_rows;
} Blocks;

/* Of all products, of those that read their right operand in place, of those of groups that do so in rows, and where groups of
 * many rows do not; of those whose sums stand in the caller's memory, and of the ones among these that are alone. */
typedef struct ProductBlocks {
    Blocks blocks, given_blocks, group_blocks, group_panel_blocks, place_blocks, plain_place_blocks;
} ProductBlocks;

typedef struct OnChip {
    int64_t bytes, align;
} OnChip;

/* The figures of a machine, plain values; figures.def has the meaning and the unit of each. Those of a section that the
 * description does not have are 0.
 *
 * Note [Same machine, same code]. What decides about code comes from the description, which is part of the compiler (so
 * the compile cache's key, which holds the compiler's build, covers it), never from the computer that happens to
 * compile: two computers compile the same bytes for one list of instruction sets. What the host is asked for
 * (machine_probe) and what was measured on its core (machine_here) go into reports only; tests/literals.sh keeps both out of
 * passes/ and backend/. */
typedef struct Machine {
    char name[32];
    MachineKind kind;
    Blocks cube_16bit;
    struct {
        int64_t fragment, block, line;
    } align;
    union {
        struct {
            Blocks blocks, given_blocks, group_blocks, group_panel_blocks, place_blocks, plain_place_blocks;
        };
        ProductBlocks usual;
    };
    ProductBlocks of_isa[ISA_COUNT]; /* the same, and what is said of an instruction set */
    Blocks l0_blocks;
    struct {
        int64_t cube, vector;
    } cores;
    struct {
        int64_t l1, l2, stream, stream_weights;
    } caches;
    struct {
        int64_t add, chain, tile, store, copy, transpose, loop, call, launch, l2, l3, memory, across, runs, page;
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

/* The first divides bytes * second^power. */
typedef struct DividesRow {
    uint32_t row, of; /* of figure_table */
    int bytes, power;
} DividesRow;
extern const DividesRow divides_table[];
extern const uint32_t divides_count;

/* A figure of figures.def is at most 2 to the power of `bits`; others at most 2^50. */
typedef struct MostRow {
    uint32_t row; /* of figure_table */
    int bits;
} MostRow;
extern const MostRow most_table[];
extern const uint32_t most_count;

typedef struct SectionRow {
    const char *name;
    unsigned kinds; /* MachineKinds that must have it */
    const char *doc;
} SectionRow;
extern const SectionRow section_table[];
extern const uint32_t section_count;

/* The same figure, measured on a core of cores.def, or with an instruction set. */
typedef struct NamedFigure {
    const char *name, *source;
    int64_t value;
} NamedFigure;
typedef Vec(NamedFigure) NamedFigures;

typedef struct Figure {
    const FigureRow *row;
    int64_t value;
    const char *source; /* where the value is from: text or address */
    int probed;         /* the value is a fall-back for what the host says */
    NamedFigures on;    /* on other cores */
    NamedFigures with;  /* of blocks: with other instruction sets */
} Figure;

/* A whole description: the figures as a Machine, and each with its source in the order of figures.def. */
typedef struct Description {
    Machine machine;
    const char *doc;
    Vec(Figure) figures;
} Description;

/* Reads a description and checks it: NULL, or an error that names file, key, value and rule. Texts live in `a`. */
const char *machine_read(Arena *a, const char *file, const char *text, size_t len, Description *out);

/* What this computer says about a figure, or what was measured on its core; 0: nothing. For reports only: Note [Same machine, same
 * code]. *source becomes that of a measured one. */
int64_t machine_here(const Figure *f, const char **source);

/* Figures become what machine_here() says, where it does. For reports only. */
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
