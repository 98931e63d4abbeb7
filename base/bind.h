/* Threads of kernels on cores of their own. */
#ifndef BASE_BIND_H
#define BASE_BIND_H

#include <sched.h>
#include <stdint.h>

/* Binds the threads that OpenMP gives to a team of so many (0: its default), the calling one included, to the cores that this
 * process may use, in their order, behind those of the processes before it: `before` of them have as many threads each. Threads that
 * are made later by the calling one inherit its core: make them before, or say theirs. */
void bind_threads(int threads, int before);
/* The same from the core on where the calling thread is, so that programs that measure beside each other do not meet on the first
 * ones. `before`: the cores that it could use, which sched_setaffinity() gives back to it. 0: nothing was bound, as one thread, or where
 * the environment says where threads go (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY). */
int bind_here(int threads, cpu_set_t *before);
/* The n-th core of a set that is not empty, from its beginning again where it has fewer. */
cpu_set_t bind_core(const cpu_set_t *cores, int n);
/* Which of them the calling thread is on. */
int bind_place(const cpu_set_t *cores);
/* Lets OpenMP take so many threads on the calling one, if it would take fewer: a kernel says how much work space it needs for as many
 * as OpenMP would take. */
void allow_threads(int threads);
/* Of each of so many processes that share the machine; 0, OpenMP's default, where it is one or someone has given each some cores. */
int64_t threads_of_rank(int64_t processes);

#endif
