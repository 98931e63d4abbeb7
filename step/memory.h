/* The memory pass: lifetimes of buffers and their places in the arena. */
#ifndef STEP_MEMORY_H
#define STEP_MEMORY_H

#include "step/step.h"

/* Sets first and last of every buffer: the tasks between which its memory holds something that is needed. */
void memory_lifetimes(Program *p);

/* Gives each buffer of the arena a place, and each of the swap file, so that no two that are alive at one time overlap. The largest are placed first,
 * each into the lowest gap that is free while it lives. Sets arena_bytes and disk_bytes. */
void memory_place(Program *p);

typedef struct MemoryPeak {
    int64_t bytes; /* the largest sum of buffers of the arena that are alive during one task */
    TaskId task;
} MemoryPeak;
MemoryPeak memory_peak(const Program *p);

/* The sums of buffers of one owner that are alive during each task, by task; of the arena. */
const int64_t *memory_live(const Program *p, Owner owner);

/* Bytes of the arena that a run touches: pages that nobody touches cost nothing. Of tensors with room for as many rows as may come to
 * this rank those are touched that come when all ranks get as many as they send. */
int64_t memory_touched(const Program *p);

/* Bytes of persistent buffers of one owner. */
int64_t memory_owned(const Program *p, Owner owner);

/* The map as a page of HTML: address x task, a rectangle for each buffer. */
void memory_map(const Program *p, Text *html);

#endif
