/* Which of several instruction sets is to run: Note [The right code]. */
#include "machines/cpu_own.h"

#include <stdlib.h>

static Isa highest(uint32_t isas)
{
    Isa isa = ISA_COUNT - 1;
    while (isa > 0 && !(isas >> isa & 1))
        isa--;
    return isa;
}

/* Another one of them gains so much that this one is given up. */
static int is_beaten(Isa isa, uint32_t isas, const CpuRates *rates)
{
    uint64_t wanted = (uint64_t)rates->mflops[isa] * RATE_GAIN, best = 0;
    for (Isa other = 0; other < ISA_COUNT; other++)
        if (isas >> other & 1 && rates->mflops[other] > best)
            best = rates->mflops[other];
    return best * 100 >= wanted;
}

Isa cpu_fastest(uint32_t isas, const CpuRates *rates)
{
    Isa last = highest(isas), isa = last;
    if (!rates->mflops[last])
        return last; /* nothing is known of it but CPUID's word */
    while (isa > 0 && (!(isas >> isa & 1) || is_beaten(isa, isas, rates)))
        isa--;
    return isa;
}

int cpu_needs_rates(uint32_t isas)
{
    int timed = 0;
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        timed += isas >> isa & 1 && cpu_is_timed(&cpu_table[isa]);
    return timed > 1 && cpu_is_timed(&cpu_table[highest(isas)]);
}

/* What compiled code calls; the name is in backend/emit_shared.c too. It must not depend on the process: each .so has its own. */
int32_t moec_choose(uint32_t isas, const char **forced)
{
    CpuRates rates = {.from = RATES_NONE};
    const char *word = forced ? getenv("MOE_ISA") : NULL;
    uint32_t can = 0;
    Isa isa;
    for (isa = 0; isa < ISA_COUNT; isa++)
        if (isas >> isa & 1 && cpu_has(isa))
            can |= 1u << isa;
    if (word && *word) {
        *forced = word;
        return cpu_find(word, &isa) && can >> isa & 1 ? (int32_t)isa : CHOICE_FORCED;
    }
    if (!can)
        return CHOICE_NONE;
    if (cpu_needs_rates(can))
        cpu_find_rates(can, &rates);
    return (int32_t)cpu_fastest(can, &rates);
}
