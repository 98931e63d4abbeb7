#include "step/disk.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "step/run.h"

struct Disk {
    int fd;
    const DiskJob *jobs;
    uint32_t n, posted, done; /* jobs; of this run */
    int stop, failed;
    char error[160];
    double waited;
    DiskSpan *spans; /* by job */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
};

/* ---- one job ---- */

static int fail(Disk *d, const DiskJob *j, const char *why)
{
    snprintf(d->error, sizeof d->error, "the swap file, %lld bytes at %lld, cannot be %s: %s",
             (long long)j->bytes, (long long)j->offset, j->is_load ? "read" : "written", why);
    return 1;
}

/* All of it, in as many calls as the system wants. */
static int move(Disk *d, const DiskJob *j)
{
    char *at = j->memory;
    for (int64_t left = j->bytes, offset = j->offset; left > 0;) {
        const ssize_t n =
            j->is_load ? pread(d->fd, at, (size_t)left, offset) : pwrite(d->fd, at, (size_t)left, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(d, j, strerror(errno));
        if (n == 0)
            return fail(d, j, j->is_load ? "it ends before" : "nothing more is taken");
        at += n, left -= n, offset += n;
    }
    return 0;
}

/* ---- the thread ---- */

static void *work(void *disk)
{
    Disk *d = disk;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        if (d->done < d->posted && !d->failed) {
            const uint32_t job = d->done;
            pthread_mutex_unlock(&d->lock);
            d->spans[job].begin = clock_seconds();
            const int failed = move(d, &d->jobs[job]);
            d->spans[job].end = clock_seconds();
            pthread_mutex_lock(&d->lock);
            d->failed = failed;
            d->done += !failed;
            pthread_cond_broadcast(&d->changed);
        } else if (d->stop) {
            break;
        } else {
            pthread_cond_wait(&d->changed, &d->lock);
        }
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

Disk *disk_new(int fd, const DiskJob *jobs, uint32_t n)
{
    Disk *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->fd = fd, d->jobs = jobs, d->n = n;
    d->spans = calloc(n, sizeof *d->spans);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    if (d->spans && !pthread_create(&d->thread, NULL, work, d))
        return d;
    free(d->spans), free(d);
    return NULL;
}

void disk_free(Disk *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = 1;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->changed);
    free(d->spans), free(d);
}

/* ---- the other side ---- */

void disk_begin(Disk *d)
{
    disk_finish(d);
    pthread_mutex_lock(&d->lock);
    d->posted = d->done = 0;
    pthread_mutex_unlock(&d->lock);
}

void disk_post(Disk *d)
{
    pthread_mutex_lock(&d->lock);
    d->posted += d->posted < d->n;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

int disk_wait(Disk *d, uint32_t done)
{
    const double begin = clock_seconds();
    pthread_mutex_lock(&d->lock);
    while (d->done < done && !d->failed)
        pthread_cond_wait(&d->changed, &d->lock);
    const int failed = d->failed;
    pthread_mutex_unlock(&d->lock);
    d->waited += clock_seconds() - begin;
    return failed;
}

int disk_finish(Disk *d) { return disk_wait(d, d->posted); }

const char *disk_error(const Disk *d) { return d->error; }

double disk_waited(const Disk *d) { return d->waited; }

DiskSpan disk_span(const Disk *d, uint32_t job) { return d->spans[job]; }

uint32_t disk_posted(const Disk *d) { return d->posted; }
