/* x86: CPUID for the instructions, XGETBV for the registers that the operating system saves, and its permission to use those
 * of AMX. */
#include "machines/cpu_own.h"

#include <cpuid.h>
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
