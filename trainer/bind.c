#include "trainer/bind.h"

#include <omp.h>
#include <sched.h>

/* The n-th core of a set, from its beginning again where it has fewer. */
static int core_of(const cpu_set_t *cores, int n)
{
    int core = -1;
    for (int left = n % CPU_COUNT(cores); left >= 0; left--)
        do
            core++;
        while (!CPU_ISSET((size_t)core, cores));
    return core;
}

void bind_threads(int threads)
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) || !CPU_COUNT(&cores))
        return;
#pragma omp parallel num_threads(threads > 0 ? threads : omp_get_max_threads())
    {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)core_of(&cores, omp_get_thread_num()), &one);
        sched_setaffinity(0, sizeof one, &one);
    }
}
