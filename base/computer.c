#include "base/computer.h"

#include <sched.h>
#include <unistd.h>

int computer_cores(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 1 ? (int)cores : 1;
}

int cores_of_process(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? computer_cores() : CPU_COUNT(&set);
}

double computer_memory(void) { return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE); }
