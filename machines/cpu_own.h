/* Inside machines/: how a computer of each family is asked whether it has an instruction set. Declared from the rows. */
#ifndef MACHINES_CPU_OWN_H
#define MACHINES_CPU_OWN_H

#include "machines/machines.h"

#define FAMILY(id, triple, cpu, doc) int cpu_has_##id(const CpuNeeds *needs);
#include "machines/cpu.def"

#endif
