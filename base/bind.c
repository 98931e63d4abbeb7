#include "base/bind.h"

#include "base/computer.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>

/* libgomp's entry points: linking them would load the library before openmp_set_up(). */
typedef struct Binder {
    void (*run)(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
    int (*thread)(void);
    int first; /* core of the first thread, counted in the set */
    const cpu_set_t *cores;
} Binder;

cpu_set_t bind_core(const cpu_set_t *cores, int n)
{
    cpu_set_t one;
    int core = -1;
    for (int left = n % CPU_COUNT(cores); left >= 0; left--)
        do
            core++;
        while (!CPU_ISSET((size_t)core, cores));
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    return one;
}

int bind_place(const cpu_set_t *cores)
{
    const int here = sched_getcpu();
    int place = 0;
    for (int core = 0; core < here; core++)
        place += CPU_ISSET((size_t)core, cores) != 0;
    return place;
}

static void bind_thread(void *data)
{
    const Binder *t = data;
    const cpu_set_t one = bind_core(t->cores, t->first + t->thread());
    sched_setaffinity(0, sizeof one, &one);
}

static void *openmp_library(void) { return dlopen("libgomp.so.1", RTLD_NOW | RTLD_NODELETE); }

static int bind_team(const cpu_set_t *cores, int first, int threads)
{
    Binder t = {.first = first, .cores = cores};
    void *openmp = openmp_library();
    if (!openmp || !CPU_COUNT(cores))
        return 0;
    *(void **)&t.run = dlsym(openmp, "GOMP_parallel");
    *(void **)&t.thread = dlsym(openmp, "omp_get_thread_num");
    if (!t.run || !t.thread)
        return 0;
    t.run(bind_thread, &t, threads > 0 ? (unsigned)threads : 0, 0);
    return 1;
}

void bind_threads(int threads, int before)
{
    cpu_set_t cores;
    if (!sched_getaffinity(0, sizeof cores, &cores))
        bind_team(&cores, before * threads, threads);
}

/* Was OpenMP told to? Then the calling thread has a place, in which there is no room for the others. */
static int is_bound(void)
{
    return getenv("OMP_PROC_BIND") || getenv("OMP_PLACES") || getenv("GOMP_CPU_AFFINITY");
}

int bind_here(int threads, cpu_set_t *before)
{
    return threads != 1 && !is_bound() && !sched_getaffinity(0, sizeof *before, before) &&
           bind_team(before, bind_place(before), threads);
}

void allow_threads(int threads)
{
    int (*most)(void);
    void (*set)(int);
    void *openmp = threads > 0 ? openmp_library() : NULL;
    if (!openmp)
        return;
    *(void **)&most = dlsym(openmp, "omp_get_max_threads");
    *(void **)&set = dlsym(openmp, "omp_set_num_threads");
    if (most && set && most() < threads)
        set(threads);
}

int64_t threads_of_rank(int64_t processes)
{
    cpu_set_t own;
    const int64_t cores = computer_cores();
    if (processes < 2 || sched_getaffinity(0, sizeof own, &own) || CPU_COUNT(&own) < cores)
        return 0;
    return cores > processes ? cores / processes : 1;
}
