/* Choices that a schedule block, or else the machine, makes for a kernel. */
#ifndef PASSES_SCHEDULE_H
#define PASSES_SCHEDULE_H

#include "passes/passes.h"

/* Block extents of the product that defines `lhs`. */
Blocks schedule_blocks(const PassContext *c, const Kernel *k, TensorId lhs);
/* May the value of local `producer` go into its reader `consumer` by this rule of fusion? (`store xp` says no.) */
int schedule_fuses(const PassContext *c, const Kernel *k, Name producer, Name consumer);

#endif
