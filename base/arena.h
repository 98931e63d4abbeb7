/* Arena: memory that lives and dies together.
 *
 * The compiler allocates from one arena per compilation and frees nothing before its end, but for the scratch
 * arena beneath it, which holds what one pass or one query needs. Running out
 * of memory and finding a bug inside the compiler both leave through arena_escape(): the public API
 * sets the landing place, so the library never exits and no caller in between checks for NULL. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef enum Escape { ESCAPE_NONE, ESCAPE_MEMORY, ESCAPE_BUG } Escape;

typedef struct Arena Arena;

/* Sets the landing place of this arena's escapes: `jmp_buf env; if (setjmp(env)) ...` in the caller. */
void arena_set_landing(Arena *a, jmp_buf *landing);

Arena *arena_new(void); /* NULL when memory is exhausted */
void arena_free(Arena *a);

/* Zeroed memory aligned to 16 bytes; never NULL. Beyond the arena's limit (default 2 GiB): ESCAPE_MEMORY. */
void arena_set_limit(Arena *a, size_t bytes);
void *arena_alloc(Arena *a, size_t bytes);
void *arena_grow(Arena *a, void *old, size_t old_bytes, size_t new_bytes);
char *arena_strndup(Arena *a, const char *text, size_t length);
char *arena_strdup(Arena *a, const char *text);
char *arena_printf(Arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *format, va_list args);
size_t arena_bytes(const Arena *a); /* with its scratch arenas */

/* The arena beneath `a` for what is needed for a short time. It counts toward the limit of `a`, lands where `a`
 * lands, and is freed with it. */
Arena *arena_scratch(Arena *a);

/* arena_release() takes back all that was allocated since the mark. Marks are released in reverse order. */
typedef struct ArenaMark {
    struct ArenaChunk *chunk;
    size_t used;
} ArenaMark;
ArenaMark arena_mark(const Arena *a);
void arena_release(Arena *a, ArenaMark mark);
/* The old memory of arena_grow() is nobody's, until the new one is released and somebody goes back to it. */
void arena_regain(void *old, size_t old_bytes);

/* Leaves to the landing place (aborts when there is none), with a text for arena_message(). */
_Noreturn void arena_escape(Arena *a, Escape kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
Escape arena_escaped(const Arena *a);
const char *arena_message(const Arena *a);

/* A broken invariant of the compiler itself: never the user's fault, exit code 3. */
#define BUG(arena, ...) arena_escape((arena), ESCAPE_BUG, __VA_ARGS__)

#define arena_new_of(arena, type) ((type *)arena_alloc((arena), sizeof(type)))
#define arena_array(arena, type, count) ((type *)arena_alloc((arena), sizeof(type) * (size_t)(count)))

#endif
