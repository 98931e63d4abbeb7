/* Names: a hash map, the names that C takes, and edit distance; see names.h. */
#include "frontend/names.h"

#include <ctype.h>
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

int name_is_c_word(Name name)
{
    return bsearch(name, words, sizeof words / sizeof *words, sizeof *words, compare) != NULL;
}

/* Names that begin with an underscore belong to the C library as well. */
int name_is_c_function(Name name)
{
    return name[0] == '_' ||
           bsearch(name, functions, sizeof functions / sizeof *functions, sizeof *functions, compare) != NULL;
}

/* ---- what was probably meant ---- */

enum { LONGEST = 40 };

/* Letters to change, add, drop or swap to come from a to b; a capital for a small letter costs nothing here.
 */
static uint32_t edit_distance(const char *a, const char *b)
{
    uint32_t row[3][LONGEST + 1];
    size_t na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST)
        return UINT32_MAX;
    for (uint32_t j = 0; j <= nb; j++)
        row[0][j] = j;
    for (uint32_t i = 1; i <= na; i++) {
        uint32_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (uint32_t j = 1; j <= nb; j++) {
            int same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            uint32_t best = last[j - 1] + (same ? 0 : 1);
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            best = last[j] + 1 < best ? last[j] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[na % 3][nb];
}

Guess guess_new(Name wanted)
{
    /* one letter in three may be wrong; a name of one letter may only differ in case */
    size_t n = strlen(wanted);
    return (Guess){wanted, NULL, n < 2 ? 1 : n < 3 ? 2 : (uint32_t)(n / 3 + 1)};
}

void guess_try(Guess *g, Name candidate)
{
    if (candidate == g->wanted)
        return;
    uint32_t distance = edit_distance(g->wanted, candidate);
    if (distance < g->distance) {
        g->distance = distance;
        g->best = candidate;
    }
}

const char *guess_help(Arena *a, const Guess *g, const char *otherwise)
{
    return g->best ? arena_printf(a, "did you mean `%s`?", g->best) : otherwise;
}

const char *count_text(Arena *a, uint32_t count, const char *thing)
{
    if (count == 1)
        return arena_printf(a, "1 %s", thing);
    return strcmp(thing, "axis") == 0 ? arena_printf(a, "%u axes", count)
                                      : arena_printf(a, "%u %ss", count, thing);
}
