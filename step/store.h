/* What run.c needs of the store beside run.h. */
#ifndef STEP_STORE_H
#define STEP_STORE_H

#include "step/run.h"

/* The buffer of that name, made of zeros when it is new. NULL with *error: it has another size, or there is no memory. */
void *store_take(Store *s, const char *name, int64_t bytes, const char **error);

/* Memory for the arena of a program: runs of one store take turns in it. NULL: there is none. */
void *store_arena(Store *s, int64_t bytes);

/* Zeroed memory of the system, at a page; pages that no one touches cost nothing. NULL: there is none. */
void *memory_map_zeros(int64_t bytes);
void memory_unmap(void *at, int64_t bytes);

#endif
