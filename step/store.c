/* Persistent buffers by name. */
#include "step/store.h"

#include <sys/mman.h>

typedef struct Stored {
    void *at;
    int64_t bytes;
} Stored;

/* From so many bytes on memory is asked for in pages of 2 MiB: with those of 4 KiB, updates and weight gradients of many
 * experts wait for addresses. */
enum { HUGE_FROM = 4 << 20 };

struct Store {
    Arena *arena; /* of names and the lists */
    Vec(Stored) list;
    NameTable by_name;  /* places in the list */
    Vec(Stored) arenas; /* of programs, each larger than those before */
    int64_t bytes;
};

/* Zeroed memory of the system, at a page; pages that no one touches cost nothing. NULL: there is none. */
static void *map_zeros(int64_t bytes)
{
    void *at = mmap(NULL, (size_t)(bytes ? bytes : 1), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (bytes >= HUGE_FROM)
        madvise(at, (size_t)bytes, MADV_HUGEPAGE); /* no more than a wish */
    return at;
}

static void unmap(void *at, int64_t bytes)
{
    if (at)
        munmap(at, (size_t)(bytes ? bytes : 1));
}

Store *store_new(void)
{
    Arena *a = arena_new();
    if (!a)
        return NULL;
    Store *s = arena_new_of(a, Store);
    *s = (Store){.arena = a};
    return s;
}

void store_free(Store *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->list.len; i++)
        unmap(s->list.at[i].at, s->list.at[i].bytes);
    for (uint32_t i = 0; i < s->arenas.len; i++)
        unmap(s->arenas.at[i].at, s->arenas.at[i].bytes);
    arena_free(s->arena);
}

static const Stored *find(const Store *s, const char *name)
{
    const uint32_t *found = names_find(&s->by_name, name);
    return found ? &s->list.at[*found] : NULL;
}

void *store_at(const Store *s, const char *name)
{
    const Stored *known = find(s, name);
    return known ? known->at : NULL;
}

int64_t store_bytes(const Store *s) { return s->bytes; }

void *store_take(Store *s, const char *name, int64_t bytes, const char **error)
{
    const Stored *known = find(s, name);
    if (known && known->bytes != bytes) {
        *error = arena_printf(s->arena, "buffer %s has %lld bytes in one program and %lld in another", name,
                              (long long)known->bytes, (long long)bytes);
        return NULL;
    }
    if (known)
        return known->at;
    void *at = map_zeros(bytes);
    if (!at) {
        *error = arena_printf(s->arena, "buffer %s: no memory for its %lld bytes", name, (long long)bytes);
        return NULL;
    }
    vec_push(s->arena, &s->list, (Stored){at, bytes});
    names_add(s->arena, &s->by_name, arena_printf(s->arena, "%s", name), s->list.len - 1);
    s->bytes += bytes;
    return at;
}

void *store_arena(Store *s, int64_t bytes)
{
    const Stored *last = s->arenas.len ? &s->arenas.at[s->arenas.len - 1] : NULL;
    if (last && last->bytes >= bytes)
        return last->at;
    void *at = map_zeros(bytes);
    if (at)
        vec_push(s->arena, &s->arenas, (Stored){at, bytes});
    return at;
}
