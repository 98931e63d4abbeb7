/* Do two programs compute the same? The judge of passes, which shares no code with them. */
#ifndef STEP_SAME_H
#define STEP_SAME_H

#include "step/step.h"

/* The program as it is now. A pass makes a new list of tasks, but adds to the list of buffers, which may move. */
Program step_kept(const Program *p);
/* Values are terms: what a task writes is its kernel with the terms that it reads. Two programs are the same if all memory that
 * persists holds equal terms at the end; then it holds equal bits too, because a kernel's results depend on what it reads only.
 * Buffers are told by their names. NULL, or what differs, in b's arena. Terms are compared by hashes of 64 bits. */
const char *step_same(const Program *a, const Program *b);

#endif
