/* Inside machines/: how a computer of each family is asked whether it has an instruction set, what it is, and how fast it
 * multiplies. Declared from the rows. */
#ifndef MACHINES_CPU_OWN_H
#define MACHINES_CPU_OWN_H

#include "machines/machines.h"

#define FAMILY(id, triple, cpu, doc)         \
    int cpu_has_##id(const CpuNeeds *needs); \
    void cpu_id_##id(CpuId *out);
#define CPU(id, family, word, lanes, rows, vectors, part, unroll, terms, rows_read, streams, row_streams, f32, code, fragment, loop, ...) \
    CpuLoop cpu_loop_##loop;
#include "machines/cpu.def"
#define cpu_loop_none NULL

/* The file with kept rates, whole or not at all: another compiler, another CPU or a damaged byte makes it no file. */
typedef struct KeptRates {
    char magic[8];
    CpuId id;
    uint32_t mflops[ISA_COUNT];
    uint32_t check; /* of all bytes before */
} KeptRates;

void kept_fill(const CpuId *id, const CpuRates *rates, KeptRates *out);
/* NAME of the file in the cache's folder: CPUs that share a home each have their own. */
void kept_name(const CpuId *id, char name[32]);
int kept_read(const CpuId *id, CpuRates *out);

int core_find(const CpuId *id, CpuRates *out); /* rates of cores.def */

#endif
