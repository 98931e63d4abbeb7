/* Numbers by name: a hash table with free places, of a size that is a power of two. Zero-initialised it is empty. */
#ifndef STEP_NAMES_H
#define STEP_NAMES_H

#include "base/base.h"

typedef struct NameEntry {
    const char *name; /* NULL: a free place */
    uint32_t number;
} NameEntry;

typedef struct NameTable {
    Vec(NameEntry) at;
    uint32_t used;
} NameTable;

void names_add(Arena *a, NameTable *t, const char *name, uint32_t number); /* a new name, which lives as long as the table */
const uint32_t *names_find(const NameTable *t, const char *name);          /* NULL: it is not there */

#endif
