/* A thread that makes batches ahead of the step that reads them, in the order in which one thread would. */
#ifndef TRAINER_LOADER_H
#define TRAINER_LOADER_H

#include <stdint.h>

typedef struct Loader Loader;

/* Makes batch number `number` (0, 1, ...): ids and targets, each of `elements` int32. Called by the loader's thread only. Returns 0,
 * or 1 with a message printed. */
typedef struct BatchMaker {
    int (*make)(void *self, int64_t number, int32_t *ids, int32_t *targets);
    void *self;
    int64_t elements;
} BatchMaker;

Loader *loader_new(const BatchMaker *maker); /* NULL when memory or threads are exhausted */
void loader_free(Loader *l);

/* Copies the next batch. It waits only if the thread is behind. Returns 0, or 1 when that batch could not be made. */
int loader_next(Loader *l, int32_t *ids, int32_t *targets);

#endif
