/* The masters and moments that this rank keeps: Notes [Pools] and [Shards] of model/shards.h. */
#ifndef TRAINER_KEPT_H
#define TRAINER_KEPT_H

#include "trainer/session.h"

typedef enum Kept { KEPT_MASTERS, KEPT_MOMENT1, KEPT_MOMENT2, KEPT_COUNT } Kept;

/* By weight of the session, in arena a: where programs read it. at is NULL where a weight has none of that kind. */
WeightSlice *kept_slices(Arena *a, const Session *s, Kept kept);
/* The same of what this rank saves: of what all ranks have alike, the first one does. */
WeightSlice *kept_saved(Arena *a, const Session *s, Kept kept);

#endif
