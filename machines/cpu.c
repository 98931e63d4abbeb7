/* What this CPU can run: CPUID for the instructions, XGETBV for the registers that the operating system saves, and its
 * permission to use those of AMX. */
#include "machines/machines.h"

#include <cpuid.h>
#include <string.h>
#include <unistd.h>

const Cpu cpu_table[ISA_COUNT] = {
#define CPU(id, word, lanes, rows, vectors, part, left_bits, rows_read, features, doc) \
    {word, lanes, rows, vectors, part, left_bits, rows_read, features, doc},
#include "machines/cpu.def"
};

static uint64_t xgetbv(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

enum { XCR_YMM = 0x6, XCR_ZMM = 0xe6, XCR_TILE = 0x60000, STATE_TILE_DATA = 18 };
enum { AVX2_ECX = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C | bit_MOVBE | bit_POPCNT };
enum { AVX2_EBX = bit_AVX2 | bit_BMI | bit_BMI2 };
#define AVX512_EBX (AVX2_EBX | bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL | bit_AVX512CD)
#define AVX512_BF16 (1u << 5)
#define AMX_EDX (1u << 24 | 1u << 22) /* AMX-TILE, AMX-BF16 */

/* One for each row: a set that is not told what it needs would run anywhere. */
#define NEEDS_amx_soft 0
#define NEEDS_generic 0
#define NEEDS_avx2 XCR_YMM, AVX2_ECX, AVX2_EBX, 0, 0, 0
#define NEEDS_avx512 XCR_ZMM, AVX2_ECX, AVX512_EBX, 0, 0, 0
#define NEEDS_avx512bf16 XCR_ZMM, AVX2_ECX, AVX512_EBX, 0, AVX512_BF16, 0
#define NEEDS_amx XCR_ZMM | XCR_TILE, AVX2_ECX, AVX512_EBX, AMX_EDX, AVX512_BF16, STATE_TILE_DATA

const CpuNeeds cpu_needs[ISA_COUNT] = {
#define CPU(id, ...) {NEEDS_##id},
#include "machines/cpu.def"
};

static int granted(uint32_t state) { return !state || syscall(CPU_ASK_CALL, CPU_ASK, state) == 0; }

static int bits(uint32_t value, uint32_t mask) { return (value & mask) == mask; }

int cpu_has(Isa isa)
{
    const CpuNeeds *need = &cpu_needs[isa];
    uint32_t a, b, c = 0, d, b7 = 0, c7, d7 = 0, a71 = 0;
    if (!need->xcr0)
        return 1;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bits(c, need->leaf1_ecx))
        return 0;
    __get_cpuid_count(7, 0, &a, &b7, &c7, &d7);
    if (a >= 1)
        __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    return bits(a71, need->leaf7_1_eax) && bits(b7, need->leaf7_ebx) && bits(d7, need->leaf7_edx) &&
           bits((uint32_t)xgetbv(), need->xcr0) && granted(need->permission);
}

Isa cpu_best(void)
{
    Isa best = ISA_generic;
    for (Isa isa = ISA_generic; isa < ISA_COUNT; isa++)
        if (cpu_has(isa))
            best = isa;
    return best;
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
