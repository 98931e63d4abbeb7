#include "step/names.h"

#include <string.h>

/* Where the name is, or would be: the table has free places. */
static NameEntry *place_of(const NameTable *t, const char *name)
{
    const uint32_t mask = t->at.len - 1;
    uint32_t i = (uint32_t)hash_bytes(name, strlen(name), 0) & mask;
    while (t->at.at[i].name && strcmp(t->at.at[i].name, name))
        i = (i + 1) & mask;
    return &t->at.at[i];
}

static void grow(Arena *a, NameTable *t)
{
    const NameTable old = *t;
    t->at.len = 0, t->at.cap = 0;
    vec_reserve(a, &t->at, old.at.len ? 2 * old.at.len : 64);
    t->at.len = t->at.cap; /* of zeros */
    for (uint32_t i = 0; i < old.at.len; i++)
        if (old.at.at[i].name)
            *place_of(t, old.at.at[i].name) = old.at.at[i];
}

void names_add(Arena *a, NameTable *t, const char *name, uint32_t number)
{
    if (2 * ++t->used > t->at.len)
        grow(a, t);
    *place_of(t, name) = (NameEntry){name, number};
}

const uint32_t *names_find(const NameTable *t, const char *name)
{
    const NameEntry *found = t->at.len ? place_of(t, name) : NULL;
    return found && found->name ? &found->number : NULL;
}
