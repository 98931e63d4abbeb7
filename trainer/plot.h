/* Drawings of a log. */
#ifndef TRAINER_PLOT_H
#define TRAINER_PLOT_H

#include "base/json.h"

/* Gives each line to `take`, one that is no JSON as NULL. Returns how many of these there are, or -1 with a message printed. */
int64_t plot_read(const char *path, void (*take)(void *self, const json_t *event), void *self);

/* Maps of the experts' load over the steps, one for each of the layers: `0,3` or `all`. Returns 0, or 1 with a message printed. */
int plot_load(Arena *a, const char *log, const char *layers, const char *out);

#endif
