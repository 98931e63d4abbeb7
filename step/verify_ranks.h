/* The programs of all ranks together. */
#ifndef STEP_VERIFY_RANKS_H
#define STEP_VERIFY_RANKS_H

#include "step/ranks.h"

/* Runs the exchanges of all ranks against each other, without data: that
 * - all members of a group come to the same exchanges in the same order, of one kind, type and size;
 * - each send meets its receive, of one type and size;
 * - all of them finish. A send waits for its receive and no task chooses, so one run that finishes stands for all timings.
 * programs: by rank; each has passed step_verify(), many ranks may have the same one. Returns NULL, or the first error with rank, task
 * and group, in arena a. Takes ranks x exchanges steps. */
const char *step_verify_ranks(Arena *a, const Ranks *ranks, const Program *const *programs);

#endif
