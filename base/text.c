/* Text and interned names; see text.h. */
#include "base/text.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

void text_add_bytes(Text *t, const char *bytes, size_t length)
{
    if (t->len + length + 1 > t->cap) {
        size_t cap = t->cap ? t->cap : 256;
        while (cap < t->len + length + 1)
            cap *= 2;
        t->at = arena_grow(t->arena, t->at, t->len, cap);
        t->cap = cap;
    }
    memcpy(t->at + t->len, bytes, length);
    t->len += length;
    t->at[t->len] = '\0';
}

void text_add(Text *t, const char *format, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof small)
        text_add_bytes(t, small, (size_t)length);
    else if (length >= 0)
        text_add_bytes(t, arena_vprintf(t->arena, format, again), (size_t)length);
    va_end(again);
}

void text_add_html(Text *t, const char *bytes, size_t length)
{
    static const char *const coded[256] = {['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;"};
    for (size_t i = 0; i < length; i++) {
        const char *code = coded[(unsigned char)bytes[i]];
        text_add_bytes(t, code ? code : bytes + i, code ? strlen(code) : 1);
    }
}

const char *text_string(Text *t) { return t->at ? t->at : ""; }

int text_lists(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && memcmp(at, word, n) == 0)
            return 1;
    return 0;
}

int text_ends(const char *text, const char *ending)
{
    const size_t n = strlen(text), m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

size_t text_character(const char *at, size_t left)
{
    const unsigned char *c = (const unsigned char *)at;
    size_t n = left == 0   ? 0
               : *c < 0x80 ? 1
               : *c < 0xc2 ? 0
               : *c < 0xe0 ? 2
               : *c < 0xf0 ? 3
               : *c < 0xf5 ? 4
                           : 0;
    if (n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    /* longer than needed, a surrogate, or beyond U+10FFFF */
    int bad = n > 1 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
                        (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f));
    return bad ? 0 : n;
}

struct Names {
    Arena *arena;
    Name *slot; /* open addressing, a power of two of slots, at most half full */
    uint32_t used, size;
};

Names *names_new(Arena *a)
{
    Names *n = arena_new_of(a, Names);
    *n = (Names){.arena = a, .size = 256, .slot = arena_array(a, Name, 256)};
    return n;
}

static uint32_t find(const Names *n, const char *text, size_t length)
{
    uint32_t at = (uint32_t)hash_bytes(text, length, 0) & (n->size - 1);
    while (n->slot[at] && (strncmp(n->slot[at], text, length) != 0 || n->slot[at][length] != '\0'))
        at = (at + 1) & (n->size - 1);
    return at;
}

static void rehash(Names *n)
{
    Names old = *n;
    n->size *= 2;
    n->slot = arena_array(n->arena, Name, n->size);
    for (uint32_t i = 0; i < old.size; i++)
        if (old.slot[i])
            n->slot[find(n, old.slot[i], strlen(old.slot[i]))] = old.slot[i];
}

Name name_of_bytes(Names *n, const char *text, size_t length)
{
    if (n->used * 2 >= n->size)
        rehash(n);
    uint32_t at = find(n, text, length);
    if (!n->slot[at]) {
        n->slot[at] = arena_strndup(n->arena, text, length);
        n->used++;
    }
    return n->slot[at];
}

Name name_of(Names *n, const char *text) { return name_of_bytes(n, text, strlen(text)); }

size_t text_add_shown(Text *t, const char *bytes, size_t length, const char *but)
{
    size_t count = 0;
    for (size_t i = 0; i < length; count++) {
        const size_t n = text_character(bytes + i, length - i);
        const int control =
            n == 1 && ((unsigned char)bytes[i] < 0x20 || bytes[i] == 0x7f) && !strchr(but, bytes[i]);
        if (n == 0 || control)
            text_add_bytes(t, "?", 1);
        else
            text_add_bytes(t, bytes + i, n);
        i += n ? n : 1;
    }
    return count;
}

const char *text_shown(Arena *a, const char *text, const char *but)
{
    Text t = {.arena = a};
    text_add_shown(&t, text, strlen(text), but);
    return text_string(&t);
}
