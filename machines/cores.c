/* Where rates are from, for reports: cores.def with its texts, which no compiled code needs. */
#include "machines/machines.h"

#include <string.h>

const RateRow rate_table[] = {
#define RATE(core, isa, gflops, source) {#core, source, ISA_##isa, gflops},
#include "machines/cores.def"
};
const uint32_t rate_count = sizeof rate_table / sizeof *rate_table;

const CoreText core_table[] = {
#define CORE(id, vendor, family, doc) {#id, doc},
#include "machines/cores.def"
};
const uint32_t core_count = sizeof core_table / sizeof *core_table;

static const char *measured(const char *core, Isa isa)
{
    for (uint32_t i = 0; i < rate_count; i++)
        if (cpu_table[rate_table[i].isa].loop == cpu_table[isa].loop && strcmp(rate_table[i].core, core) == 0)
            return rate_table[i].source;
    return "";
}

const char *cpu_rate_source(const CpuRates *rates, Isa isa)
{
    switch (rates->from) {
    case RATES_NONE: return "";
    case RATES_KEPT: return "kept from a probe of this kind of CPU";
    case RATES_TABLE: return measured(rates->core, isa);
    case RATES_PROBE: return "probed now";
    }
    return "";
}
