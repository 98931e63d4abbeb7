/* How fast this core multiplies: Note [The right code]. */
#include "machines/cpu_own.h"

#include <string.h>
#include <time.h>

/* Instruction sets with one loop have one rate: each gets that of the first. */
static void share_rates(uint32_t isas, CpuRates *r)
{
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        for (Isa first = 0; first < isa && isas >> isa & 1 && cpu_is_timed(&cpu_table[isa]); first++)
            if (cpu_table[first].loop == cpu_table[isa].loop && r->mflops[first])
                r->mflops[isa] = r->mflops[first];
}

/* ---- the table ---- */

typedef enum Core {
#define CORE(id, vendor, family, doc) CORE_##id,
#include "machines/cores.def"
    CORE_COUNT
} Core;

static const struct CoreRow {
    char vendor[16], name[16];
    uint32_t family;
} cores[CORE_COUNT] = {
#define CORE(id, vendor, family, doc) {vendor, #id, family},
#include "machines/cores.def"
};

static const struct CoreModels {
    Core core;
    uint32_t first, last;
} models[] = {
#define MODELS(core, first, last) {CORE_##core, first, last},
#include "machines/cores.def"
};

static const struct CoreRate {
    Core core;
    Isa isa;
    uint32_t gflops;
} rates[] = {
#define RATE(core, isa, gflops, source) {CORE_##core, ISA_##isa, gflops},
#include "machines/cores.def"
};

static int is_core(const CpuId *id, const struct CoreModels *m)
{
    const struct CoreRow *core = &cores[m->core];
    return memcmp(id->vendor, core->vendor, sizeof id->vendor) == 0 && id->family == core->family &&
           id->model >= m->first && id->model <= m->last;
}

int core_find(const CpuId *id, CpuRates *out)
{
    size_t at = 0;
    while (at < sizeof models / sizeof *models && !is_core(id, &models[at]))
        at++;
    if (at == sizeof models / sizeof *models)
        return 0;
    *out = (CpuRates){.from = RATES_TABLE};
    memcpy(out->core, cores[models[at].core].name, sizeof out->core);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (rates[i].core == models[at].core)
            out->mflops[rates[i].isa] = rates[i].gflops * 1000;
    share_rates(UINT32_MAX, out);
    return 1;
}

/* ---- the stopwatch ---- */

/* A run takes less than 0.1 ms, so that many fit between two turns of a busy neighbour; the loops take turns, so that a clock
 * that changes does so for all. */
enum { PROBE_ROUNDS = 40, PROBE_TRIPS = 4000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double cpu_time_loop(Isa isa, void *user)
{
    (void)user;
    double begin = now();
    double flops = (double)cpu_table[isa].loop(PROBE_TRIPS);
    double seconds = now() - begin;
    return seconds > 0 ? flops / seconds : 0;
}

/* It has a loop, and none of the plainer ones among `isas` has the same. */
static int has_own_loop(Isa isa, uint32_t isas)
{
    for (Isa first = 0; first < isa; first++)
        if (isas >> first & 1 && cpu_table[first].loop == cpu_table[isa].loop)
            return 0;
    return cpu_is_timed(&cpu_table[isa]);
}

void cpu_probe(uint32_t isas, CpuStopwatch *stopwatch, void *user, CpuRates *out)
{
    *out = (CpuRates){.from = RATES_PROBE};
    for (int round = 0; round < PROBE_ROUNDS; round++)
        for (Isa isa = 0; isa < ISA_COUNT; isa++) {
            if (!(isas >> isa & 1) || !has_own_loop(isa, isas))
                continue;
            double mflops = 1e-6 * stopwatch(isa, user);
            if (mflops > out->mflops[isa] && mflops < UINT32_MAX)
                out->mflops[isa] = (uint32_t)mflops;
        }
    share_rates(isas, out);
}

/* ---- all ---- */

void cpu_id(CpuId *out)
{
    memset(out, 0, sizeof *out); /* it is compared byte by byte */
    for (Family f = 0; f < FAMILY_COUNT; f++)
        family_table[f].id(out);
}

void cpu_find_rates(uint32_t isas, CpuRates *out)
{
    CpuId id;
    cpu_id(&id);
    if (!kept_read(&id, out) && !core_find(&id, out))
        cpu_probe(isas, cpu_time_loop, NULL, out);
}
