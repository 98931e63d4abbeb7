/* Arena: chunks that double in size, bump allocation inside; see arena.h. */
#include "base/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Note [Poison]. The address sanitizer knows malloc's blocks, not what an arena cuts them into. So there each allocation
 * is followed by bytes that nobody may touch, nor may anybody touch what was released, or the old memory of a vector that
 * grew: pointers into it miss what is written into the new one. */
#ifdef __SANITIZE_ADDRESS__
#define MOEC_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOEC_POISON 1
#endif
#endif
#ifdef MOEC_POISON
#include <sanitizer/asan_interface.h>
enum { GAP = 16 };
static void poison(void *at, size_t bytes)
{
    void *volatile hidden = at; /* gcc takes the call for a read of what nobody has written */
    __asan_poison_memory_region(hidden, bytes);
}
static void unpoison(void *at, size_t bytes) { __asan_unpoison_memory_region(at, bytes); }
#else
enum { GAP = 0 };
static void poison(void *at, size_t bytes) { (void)at, (void)bytes; }
static void unpoison(void *at, size_t bytes) { (void)at, (void)bytes; }
#endif

typedef struct ArenaChunk {
    struct ArenaChunk *next;
    size_t size, used;
} Chunk;

struct Arena {
    Chunk *head;
    Arena *parent,
        *scratch; /* either may be NULL; of a scratch arena the total and the rest are its parent's */
    size_t total, limit;
    jmp_buf *landing;
    Escape escaped;
    char message[512];
};

enum { FIRST_CHUNK = 1 << 16, ALIGN = 16, HEADER = (sizeof(Chunk) + ALIGN - 1) & ~(size_t)(ALIGN - 1) };

Arena *arena_new(void)
{
    Arena *a = calloc(1, sizeof *a);
    if (a)
        a->limit = (size_t)2 << 30;
    return a;
}

void arena_free(Arena *a)
{
    if (!a)
        return;
    arena_free(a->scratch);
    arena_release(a, (ArenaMark){0});
    free(a);
}

Arena *arena_scratch(Arena *a)
{
    if (!a->scratch)
        a->scratch = calloc(1, sizeof *a);
    if (!a->scratch)
        arena_escape(a, ESCAPE_MEMORY, "%zu bytes cannot be allocated", sizeof *a);
    a->scratch->parent = a;
    return a->scratch;
}

/* The arena that counts the bytes, and knows the limit and the landing place. */
static Arena *root_of(Arena *a) { return a->parent ? a->parent : a; }

ArenaMark arena_mark(const Arena *a) { return (ArenaMark){a->head, a->head ? a->head->used : 0}; }

void arena_release(Arena *a, ArenaMark mark)
{
    while (a->head != mark.chunk) {
        Chunk *c = a->head;
        a->head = c->next;
        root_of(a)->total -= c->size;
        free(c);
    }
    if (!a->head)
        return;
    char *released = (char *)a->head + HEADER + mark.used;
    unpoison(released, a->head->used - mark.used);
#ifndef NDEBUG /* whoever still looks at it is to see */
    memset(released, 0xa5, a->head->used - mark.used);
#endif
    poison(released, a->head->used - mark.used);
    a->head->used = mark.used;
}

void arena_set_limit(Arena *a, size_t bytes) { a->limit = bytes; }
void arena_set_landing(Arena *a, jmp_buf *landing) { a->landing = landing; }
Escape arena_escaped(const Arena *a) { return a->escaped; }
const char *arena_message(const Arena *a) { return a->message; }
size_t arena_bytes(const Arena *a) { return a->total; }

_Noreturn void arena_escape(Arena *a, Escape kind, const char *format, ...)
{
    va_list args;
    a = root_of(a);
    va_start(args, format);
    vsnprintf(a->message, sizeof a->message, format, args);
    va_end(args);
    a->escaped = kind;
    if (a->landing)
        longjmp(*a->landing, 1);
    fprintf(stderr, "moec: %s: %s\n", kind == ESCAPE_BUG ? "internal error" : "out of memory", a->message);
    abort();
}

static void add_chunk(Arena *a, size_t bytes)
{
    size_t size = a->head ? a->head->size * 2 : FIRST_CHUNK;
    if (size > (size_t)1 << 24)
        size = (size_t)1 << 24;
    if (size < bytes)
        size = bytes;
    Arena *root = root_of(a);
    if (root->total > root->limit || size > root->limit - root->total)
        arena_escape(a, ESCAPE_MEMORY,
                     "more than %zu MiB of memory are needed, for the program and what is made from it",
                     root->limit >> 20);
    Chunk *c = malloc(HEADER + size);
    if (!c)
        arena_escape(a, ESCAPE_MEMORY, "%zu bytes cannot be allocated", size);
    *c = (Chunk){.next = a->head, .size = size};
    poison((char *)c + HEADER, size);
    a->head = c;
    root->total += size;
}

void *arena_alloc(Arena *a, size_t bytes)
{
    if (bytes > root_of(a)->limit)
        arena_escape(a, ESCAPE_MEMORY, "%zu bytes asked for at once", bytes);
    size_t room = ((bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1)) + GAP;
    if (!a->head || a->head->size - a->head->used < room)
        add_chunk(a, room);
    char *at = (char *)a->head + HEADER + a->head->used;
    a->head->used += room;
    unpoison(at, bytes);
    return memset(at, 0, bytes);
}

void *arena_grow(Arena *a, void *old, size_t old_bytes, size_t new_bytes)
{
    void *fresh = arena_alloc(a, new_bytes);
    if (old_bytes) {
        memcpy(fresh, old, old_bytes);
        poison(old, old_bytes);
    }
    return fresh;
}

void arena_regain(void *old, size_t old_bytes) { unpoison(old, old_bytes); }

char *arena_strndup(Arena *a, const char *text, size_t length)
{
    char *copy = arena_alloc(a, length + 1);
    if (length)
        memcpy(copy, text, length);
    return copy;
}

char *arena_strdup(Arena *a, const char *text) { return arena_strndup(a, text, strlen(text)); }

char *arena_vprintf(Arena *a, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0)
        BUG(a, "bad format \"%s\"", format);
    char *text = arena_alloc(a, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, args);
    return text;
}

char *arena_printf(Arena *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = arena_vprintf(a, format, args);
    va_end(args);
    return text;
}
