/* Names: a hash map, the names that C takes; see names.h. */
#include "frontend/names.h"

#include <stdlib.h>
#include <string.h>

/* ---- the map: open addressing on the pointers of interned names ---- */

static uint32_t slot_of(const NameMap *map, Name name)
{
    uint32_t at = (uint32_t)(((uint64_t)(uintptr_t)name * 0x9e3779b97f4a7c15u) >> 32) & (map->size - 1);
    while (map->key[at] && map->key[at] != name)
        at = (at + 1) & (map->size - 1);
    return at;
}

uint32_t namemap_get(const NameMap *map, Name name)
{
    if (map->size == 0)
        return NAME_ABSENT;
    uint32_t at = slot_of(map, name);
    return map->key[at] ? map->value[at] : NAME_ABSENT;
}

static void grow(NameMap *map)
{
    NameMap old = *map;
    map->size = old.size ? old.size * 2 : 32;
    map->key = arena_array(map->arena, Name, map->size);
    map->value = arena_array(map->arena, uint32_t, map->size);
    for (uint32_t i = 0; i < old.size; i++) {
        if (!old.key[i])
            continue;
        uint32_t at = slot_of(map, old.key[i]);
        map->key[at] = old.key[i];
        map->value[at] = old.value[i];
    }
}

void namemap_set(NameMap *map, Name name, uint32_t value)
{
    if (map->used * 2 >= map->size)
        grow(map);
    uint32_t at = slot_of(map, name);
    map->used += map->key[at] ? 0 : 1;
    map->key[at] = name;
    map->value[at] = value;
}

/* ---- names that C takes ---- */

static const char *const words[] = {
#define WORD(name) name,
#include "frontend/c_names.def"
#undef WORD
};

static const char *const functions[] = {
#define FUNCTION(name) name,
#include "frontend/c_names.def"
#undef FUNCTION
};

static int compare(const void *a, const void *b) { return strcmp(a, *(const char *const *)b); }

static int begins(Name name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* Names that begin with two underscores belong to C; MOE_ and MOEC_ begin the header's macros. */
int name_is_c_word(Name name)
{
    return begins(name, "__") || begins(name, "MOE_") || begins(name, "MOEC_") ||
           bsearch(name, words, sizeof words / sizeof *words, sizeof *words, compare) != NULL;
}

/* Names that begin with an underscore belong to the C library as well. */
int name_is_c_function(Name name)
{
    return name[0] == '_' ||
           bsearch(name, functions, sizeof functions / sizeof *functions, sizeof *functions, compare) != NULL;
}

const char *name_for_c(Arena *a, Name word)
{
    if (word[0] == '_')
        return arena_printf(a, "my%s", word);
    return begins(word, "MOE") ? arena_printf(a, "my_%s", word) : arena_printf(a, "%s_", word);
}

int name_is_of_library(Name name)
{
    return begins(name, "moec_") || begins(name, "omp_") || begins(name, "GOMP_");
}

const char *count_text(Arena *a, uint32_t count, const char *thing)
{
    if (count == 1)
        return arena_printf(a, "1 %s", thing);
    return strcmp(thing, "axis") == 0 ? arena_printf(a, "%u axes", count)
                                      : arena_printf(a, "%u %ss", count, thing);
}
