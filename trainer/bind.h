/* Threads of kernels on cores of their own. */
#ifndef TRAINER_BIND_H
#define TRAINER_BIND_H

#include <stdint.h>

/* Binds the threads that OpenMP gives to a team of so many (0: its default), the calling one included, to the cores that this
 * process may use, in their order, behind those of the processes before it: `before` of them have as many threads each. Threads that
 * are made later by the calling one inherit its core: make them before. */
void bind_threads(int threads, int before);
/* Lets OpenMP take so many threads on the calling one, if it would take fewer: a kernel says how much work space it needs for as many
 * as OpenMP would take. */
void allow_threads(int threads);
/* Of each of so many processes that share the machine; 0, OpenMP's default, where it is one or someone has given each some cores. */
int64_t threads_of_rank(int64_t processes);

#endif
