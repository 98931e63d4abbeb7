/* x86: CPUID for the instructions, XGETBV for the registers that the operating system saves, and its permission to use those
 * of AMX. */
#include "machines/cpu_own.h"

#include <cpuid.h>
#include <string.h>
#include <unistd.h>

static uint32_t xgetbv(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int granted(uint32_t state) { return !state || syscall(CPU_ASK_CALL, CPU_ASK, state) == 0; }

static int bits(uint32_t value, uint32_t mask) { return (value & mask) == mask; }

int cpu_has_x86(const CpuNeeds *need)
{
    uint32_t a, b, c = 0, d, b7 = 0, c7, d7 = 0, a71 = 0;
    if (!need->leaf1_ecx)
        return 1;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bits(c, need->leaf1_ecx))
        return 0;
    __get_cpuid_count(7, 0, &a, &b7, &c7, &d7);
    if (a >= 1)
        __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    return bits(a71, need->leaf7_1_eax) && bits(b7, need->leaf7_ebx) && bits(d7, need->leaf7_edx) &&
           (!need->xcr0 || bits(xgetbv(), need->xcr0)) && granted(need->permission);
}

/* The features that rows ask for, granted or not. */
static void read_features(uint32_t out[3])
{
    uint32_t a, b, c, d;
    if (__get_cpuid_count(7, 0, &a, &out[0], &c, &out[1]) && a >= 1)
        __get_cpuid_count(7, 1, &out[2], &b, &c, &d);
}

void cpu_id_x86(CpuId *out)
{
    uint32_t a, b = 0, c = 0, d = 0;
    __get_cpuid(0, &a, &b, &c, &d);
    memcpy(out->vendor, (uint32_t[]){b, d, c}, sizeof out->vendor);
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return;
    uint32_t family = a >> 8 & 15, wide = family == 15 || family == 6;
    out->family = family == 15 ? family + (a >> 20 & 255) : family;
    out->model = (a >> 4 & 15) | (wide ? a >> 12 & 240 : 0);
    out->stepping = a & 15;
    read_features(out->features);
}
