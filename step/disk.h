/* The lane `disk`: a thread that moves buffers between memory and a file, one job after the other, while kernels run.
 *
 * Jobs are known beforehand; in each run they are posted in order. One that fails stops the lane: all later waits fail. */
#ifndef STEP_DISK_H
#define STEP_DISK_H

#include <stdint.h>

typedef struct DiskJob {
    void *memory;
    int64_t bytes, offset; /* in the file */
    int is_load;           /* from the file; else into it */
} DiskJob;

typedef struct Disk Disk;
/* fd: of a file that can be read and written at any place; it stays the caller's. jobs: live as long as the lane. NULL: there is
 * no memory or no thread for it. */
Disk *disk_new(int fd, const DiskJob *jobs, uint32_t n);
void disk_free(Disk *d); /* waits for what was posted */

void disk_begin(Disk *d);                /* a run: no job is posted, no job is done */
void disk_post(Disk *d);                 /* the next job; does not wait */
int disk_wait(Disk *d, uint32_t done);   /* until so many jobs of this run are done. Returns 0, or 1: one failed */
int disk_finish(Disk *d);                /* the same, for all that were posted */
/* Of the job that failed: what happened; "" where none did. */
const char *disk_error(const Disk *d);
double disk_waited(const Disk *d); /* seconds in disk_wait() so far */
/* When a job of this run was done, by clock_seconds(). Of jobs that disk_wait() has waited for. */
typedef struct DiskSpan {
    double begin, end;
} DiskSpan;
DiskSpan disk_span(const Disk *d, uint32_t job);
uint32_t disk_posted(const Disk *d); /* in this run */

#endif
