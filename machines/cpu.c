/* What this CPU can run: CPUID for the instructions, XGETBV for the registers the kernel of the OS saves. */
#include "machines/machines.h"

#include <cpuid.h>
#include <string.h>

const Cpu cpu_table[ISA_COUNT] = {
#define CPU(name, lanes, rows, vectors, features, doc) {#name, lanes, rows, vectors, features, doc},
#include "machines/cpu.def"
};

static uint64_t xgetbv(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return ((uint64_t)high << 32) | low;
}

enum { XCR_YMM = 0x6, XCR_ZMM = 0xe6, XCR_TILE = 0x60000 };

static int bits(uint32_t value, uint32_t mask) { return (value & mask) == mask; }

int cpu_has(Isa isa)
{
    uint32_t a, b = 0, c = 0, d = 0, b7 = 0, c7 = 0, d7 = 0, dummy;
    if (!__get_cpuid(1, &a, &dummy, &c, &d))
        return isa == ISA_generic;
    uint64_t xcr = bits(c, bit_OSXSAVE) ? xgetbv() : 0;
    __get_cpuid_count(7, 0, &a, &b7, &c7, &d7);
    (void)b;
    (void)c7;
    int avx2 = (xcr & XCR_YMM) == XCR_YMM && bits(c, bit_AVX | bit_FMA | bit_F16C | bit_MOVBE) &&
               bits(b7, bit_AVX2 | bit_BMI | bit_BMI2);
    int avx512 = avx2 && (xcr & XCR_ZMM) == XCR_ZMM &&
                 bits(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL | bit_AVX512CD);
    switch (isa) {
    case ISA_generic: return 1;
    case ISA_avx2: return avx2;
    case ISA_avx512: return avx512;
    case ISA_amx: return avx512 && (xcr & XCR_TILE) == XCR_TILE && bits(d7, (1u << 24) | (1u << 22));
    case ISA_COUNT: break;
    }
    return 0;
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
    for (Isa isa = ISA_generic; isa < ISA_COUNT; isa++)
        if (strcmp(cpu_table[isa].name, name) == 0) {
            *out = isa;
            return 1;
        }
    return 0;
}
