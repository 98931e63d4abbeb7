/* The tables of cpu.def, and which instruction sets this computer has. */
#include "machines/cpu_own.h"

#include <cpuid.h>
#include <stdatomic.h>
#include <string.h>

/* What rows of x86 need. */
enum { XCR_YMM = 0x6, XCR_ZMM = 0xe6, XCR_TILE = 0x60000, STATE_TILE_DATA = 18 };
enum { AVX2_ECX = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C | bit_MOVBE | bit_POPCNT };
enum { AVX2_EBX = bit_AVX2 | bit_BMI | bit_BMI2 };
#define AVX512_EBX (AVX2_EBX | bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL | bit_AVX512CD)
#define AVX512_BF16 (1u << 5)
#define AMX_EDX (1u << 24 | 1u << 22) /* AMX-TILE, AMX-BF16 */

#define CAN(trait) 1u << CPU_##trait
#define NEEDS(...) __VA_ARGS__

const Cpu cpu_table[ISA_COUNT] = {
#define CPU(id, family, word, lanes, rows, vectors, part, unroll, terms, rows_read, streams, row_streams,    \
            f32, code, fragment, loop, traits, needs, features, doc)                                         \
    {word,    FAMILY_##family, lanes,     rows,       vectors,         part,   unroll,  terms,    rows_read, \
     streams, row_streams,     ISA_##f32, ISA_##code, cpu_loop_##loop, traits, {needs}, features, doc},
#include "machines/cpu.def"
};

const CpuTraitRow cpu_trait_table[CPU_TRAITS] = {
#define CPU_TRAIT(id, doc) {#id, doc},
#include "machines/cpu.def"
};

const FamilyRow family_table[FAMILY_COUNT] = {
#define FAMILY(id, triple, cpu, doc) {#id, triple, cpu, doc, cpu_has_##id, cpu_id_##id},
#include "machines/cpu.def"
};

/* The answers are kept: asking takes tens of microseconds where a host must be asked. */
int cpu_has(Isa isa)
{
    static _Atomic uint64_t kept; /* bit 2 isa: it was asked, bit 2 isa + 1: it has it */
    const uint64_t asked = (uint64_t)1 << 2 * isa, yes = asked << 1;
    if (!(atomic_load(&kept) & asked))
        atomic_fetch_or(&kept,
                        asked | (family_table[cpu_table[isa].family].has(&cpu_table[isa].needs) ? yes : 0));
    return (atomic_load(&kept) & yes) != 0;
}

uint32_t cpu_choices(void)
{
    uint32_t isas = 0;
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        if (!cpu_can(&cpu_table[isa], CPU_BY_NAME) && cpu_has(isa))
            isas |= 1u << isa;
    return isas;
}

Isa cpu_plainest(void)
{
    uint32_t isas = cpu_choices();
    Isa isa = 0;
    while (isa + 1 < ISA_COUNT && !(isas >> isa & 1))
        isa++;
    return isa;
}

int cpu_find(const char *name, Isa *out)
{
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        if (strcmp(cpu_table[isa].name, name) == 0) {
            *out = isa;
            return 1;
        }
    return 0;
}
