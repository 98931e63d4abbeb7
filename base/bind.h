/* Threads of kernels on cores of their own. */
#ifndef BASE_BIND_H
#define BASE_BIND_H

#include <sched.h>
#include <stdint.h>

/* Binds the threads that OpenMP gives to a team of so many (0: its default), the calling one included, to these cores, which it may
 * use, in their order, behind those of the processes before it: `before` of them have as many threads each. Threads that are made
 * later by the calling one inherit its core: make them before, or say theirs. */
void bind_threads(const cpu_set_t *cores, int threads, int before);
/* The n-th core of a set that is not empty, from its beginning again where it has fewer. */
int bind_core(const cpu_set_t *cores, int n);
/* Lets OpenMP take so many threads on the calling one, if it would take fewer: a kernel says how much work space it needs for as many
 * as OpenMP would take. */
void allow_threads(int threads);
/* Of each of so many processes that share the machine; 0, OpenMP's default, where it is one or someone has given each some cores. */
int64_t threads_of_rank(int64_t processes);

#endif
