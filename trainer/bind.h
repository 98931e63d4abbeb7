/* Threads of kernels on cores of their own. */
#ifndef TRAINER_BIND_H
#define TRAINER_BIND_H

/* Binds the threads that OpenMP gives to a team of so many (0: its default), the calling one included, to the cores that this
 * process may use, in their order. Threads that are made later by the calling one inherit its core: make them before. */
void bind_threads(int threads);

#endif
