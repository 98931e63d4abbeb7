#include "trainer/bind.h"

#include <dlfcn.h>
#include <sched.h>

/* libgomp's entry points: linking them would load the library before openmp_set_up(). */
typedef struct Team {
    void (*run)(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
    int (*thread)(void);
    cpu_set_t cores;
} Team;

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

static void bind_thread(void *data)
{
    const Team *t = data;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)core_of(&t->cores, t->thread()), &one);
    sched_setaffinity(0, sizeof one, &one);
}

void bind_threads(int threads)
{
    Team t;
    void *openmp = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NODELETE);
    if (!openmp || sched_getaffinity(0, sizeof t.cores, &t.cores) || !CPU_COUNT(&t.cores))
        return;
    *(void **)&t.run = dlsym(openmp, "GOMP_parallel");
    *(void **)&t.thread = dlsym(openmp, "omp_get_thread_num");
    if (t.run && t.thread)
        t.run(bind_thread, &t, threads > 0 ? (unsigned)threads : 0, 0);
}
