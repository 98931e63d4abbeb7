/* What run.c needs of the store beside run.h. */
#ifndef STEP_STORE_H
#define STEP_STORE_H

#include "step/run.h"

/* The buffer of that name, made of zeros when it is new. NULL with *error: it has another size, or there is no memory. */
void *store_take(Store *s, const char *name, int64_t bytes, const char **error);

/* Memory for the arena of a program: runs of one store take turns in it. NULL: there is none. */
void *store_arena(Store *s, int64_t bytes);

#endif
