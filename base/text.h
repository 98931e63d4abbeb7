/* Text: a growing string in an arena, for printers; and interned names. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/vec.h"

typedef struct Text {
    Arena *arena;
    char *at; /* always ends with '\0' once something was added */
    size_t len, cap;
} Text;

void text_add(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_bytes(Text *t, const char *bytes, size_t length);
void text_add_html(Text *t, const char *bytes, size_t length); /* as text of a page or of an attribute */
const char *text_string(Text *t); /* "" when empty */
/* As a terminal may show it: bad bytes and control characters become `?`, but for those of `but`. Returns the characters added. */
size_t text_add_shown(Text *t, const char *bytes, size_t length, const char *but);
const char *text_shown(Arena *a, const char *text, const char *but);

/* Bytes of the well-formed UTF-8 character at `at` (at most `left`), 0 when the bytes are not one. */
size_t text_character(const char *at, size_t left);

/* Is the word one of a list with commas between them? */
int text_lists(const char *list, const char *word);

/* Does it end so, with something before that? */
int text_ends(const char *text, const char *ending);

/* An interned string: two names are equal exactly when their pointers are. */
typedef const char *Name;
typedef struct Names Names;

Names *names_new(Arena *a);
Name name_of(Names *n, const char *text);
Name name_of_bytes(Names *n, const char *text, size_t length);

#endif
