#include "trainer/loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 4 }; /* batches that are ready or being made */

struct Loader {
    BatchMaker maker;
    int32_t *memory;     /* [AHEAD, 2, elements] */
    int64_t made, taken; /* batches so far */
    int stop, failed;    /* no batch is made any more */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
};

static int32_t *slot(const Loader *l, int64_t number)
{
    return l->memory + number % AHEAD * 2 * l->maker.elements;
}

static void *work(void *loader)
{
    Loader *l = loader;
    pthread_mutex_lock(&l->lock);
    while (!l->stop && !l->failed) {
        if (l->made == l->taken + AHEAD) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        int32_t *at = slot(l, l->made);
        pthread_mutex_unlock(&l->lock);
        const int bad = l->maker.make(l->maker.self, l->made, at, at + l->maker.elements);
        pthread_mutex_lock(&l->lock);
        l->failed = bad;
        l->made += !bad;
        pthread_cond_signal(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

Loader *loader_new(const BatchMaker *maker)
{
    Loader *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->maker = *maker;
    l->memory = calloc((size_t)maker->elements, 2 * AHEAD * sizeof *l->memory);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (l->memory && !pthread_create(&l->thread, NULL, work, l))
        return l;
    free(l->memory);
    free(l);
    return NULL;
}

void loader_free(Loader *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = 1;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    free(l->memory);
    free(l);
}

int loader_next(Loader *l, int32_t *ids, int32_t *targets)
{
    pthread_mutex_lock(&l->lock);
    while (l->made == l->taken && !l->failed)
        pthread_cond_wait(&l->changed, &l->lock);
    const int none = l->made == l->taken;
    pthread_mutex_unlock(&l->lock);
    if (none)
        return 1;
    const int32_t *at = slot(l, l->taken);
    memcpy(ids, at, (size_t)l->maker.elements * sizeof *ids);
    memcpy(targets, at + l->maker.elements, (size_t)l->maker.elements * sizeof *targets);
    pthread_mutex_lock(&l->lock);
    l->taken++;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return 0;
}
