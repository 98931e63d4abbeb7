/* Looking names up, and what may be a name. */
#ifndef FRONTEND_NAMES_H
#define FRONTEND_NAMES_H

#include "base/base.h"

/* Interned name -> number, so that long files stay linear. */
typedef struct NameMap {
    Arena *arena;
    Name *key;
    uint32_t *value;
    uint32_t size, used;
} NameMap;

enum { NAME_ABSENT = UINT32_MAX };
uint32_t namemap_get(const NameMap *map, Name name); /* NAME_ABSENT when there is none */
void namemap_set(NameMap *map, Name name, uint32_t value);

/* Whether C or C++ takes this name: as a word, and (for kernels) as a function of the C library. */
int name_is_c_word(Name name);
const char *name_for_c(Arena *a, Name word); /* one like it that is none */
int name_is_c_function(Name name);
int name_is_of_library(Name name); /* of what a .so has inside or calls */

/* "1 axis", "2 axes", "3 subscripts". */
const char *count_text(Arena *a, uint32_t count, const char *thing);

#endif
