/* The machine that compiles and runs: its description, and what it says about itself. */
#include "machines/cpu_own.h"
#include "machines/probe.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

const HeuristicRow heuristic_table[] = {
#define HEURISTIC(name, value, unit, doc, source) {#name, unit, doc, source, value},
#include "machines/heuristics.def"
};
const uint32_t heuristic_count = sizeof heuristic_table / sizeof *heuristic_table;

const MachineText *machine_find(const char *name)
{
    for (uint32_t i = 0; i < machine_text_count; i++)
        if (strcmp(machine_texts[i].name, name) == 0)
            return &machine_texts[i];
    return NULL;
}

const Machine *machine_host(Arena *a)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static Machine host;
    static int ready;
    pthread_mutex_lock(&lock);
    int have = ready;
    pthread_mutex_unlock(&lock);
    if (have)
        return &host;
    Description
        d; /* outside the lock: reading may escape. Two threads may both read, the first one's stays */
    const MachineText *t = machine_find("host");
    const char *error = machine_read(a, "host.json", (const char *)t->json, t->len, &d);
    if (error)
        BUG(a, "%s", error);
    pthread_mutex_lock(&lock);
    if (!ready)
        host = d.machine;
    ready = 1;
    pthread_mutex_unlock(&lock);
    return &host;
}

/* ---- what this computer says ---- */

static int64_t said(int name)
{
    long value = sysconf(name);
    return value > 0 ? value : 0;
}

int64_t probe_none(void) { return 0; }
int64_t probe_l1(void) { return said(_SC_LEVEL1_DCACHE_SIZE); }
int64_t probe_l2(void) { return said(_SC_LEVEL2_CACHE_SIZE); }
int64_t probe_l3(void) { return said(_SC_LEVEL3_CACHE_SIZE); }

/* Those that this process may run on. */
int64_t probe_cores(void) { return cores_of_process(); }

int64_t machine_probe(const FigureRow *row) { return row->probe(); }

/* ---- its rates ---- */

static CpuRates host_rates;

static void find_rates(void)
{
    uint32_t isas = cpu_choices();
    if (cpu_needs_rates(isas))
        cpu_find_rates(isas, &host_rates);
}

const CpuRates *cpu_rates(void)
{
    static pthread_once_t found = PTHREAD_ONCE_INIT;
    pthread_once(&found, find_rates);
    return &host_rates;
}

const char *cpu_core(void)
{
    CpuId id;
    CpuRates rates;
    cpu_id(&id);
    if (!core_find(&id, &rates))
        return "";
    for (uint32_t i = 0; i < core_count; i++)
        if (strcmp(core_table[i].name, rates.core) == 0)
            return core_table[i].name;
    return "";
}

int64_t machine_here(const Figure *f, const char **source)
{
    for (uint32_t i = 0; i < f->on.len; i++)
        if (strcmp(f->on.at[i].name, cpu_core()) == 0) {
            *source = f->on.at[i].source;
            return f->on.at[i].value;
        }
    return f->probed ? machine_probe(f->row) : 0;
}

Isa cpu_best(void) { return cpu_fastest(cpu_choices(), cpu_rates()); }
