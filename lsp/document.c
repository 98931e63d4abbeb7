/* Open texts, and their places: the protocol counts lines from 0 and columns in units of UTF-16, the compiler both from 1 and in
 * bytes. */
#include "lsp/server.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- URIs ---- */

static const char scheme[] = "file://";

static int hex_digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

/* The path of a file's URI, of another one itself. */
static char *path_of(const char *uri)
{
    if (strncmp(uri, scheme, strlen(scheme)) != 0)
        return strdup(uri);
    char *path = strdup(uri + strlen(scheme)), *to = path;
    for (const char *at = path; path && *at; at++, to++) {
        int is_coded = *at == '%' && isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2]);
        *to = is_coded ? (char)(hex_digit(at[1]) * 16 + hex_digit(at[2])) : *at;
        at += is_coded ? 2 : 0;
    }
    if (path)
        *to = '\0';
    return path;
}

char *document_uri(const char *path)
{
    if (*path != '/')
        return strdup(path);
    char *uri = malloc(strlen(scheme) + 3 * strlen(path) + 1);
    if (!uri)
        return NULL;
    char *to = uri + sprintf(uri, "%s", scheme);
    for (; *path; path++) {
        int is_plain = isalnum((unsigned char)*path) || strchr("/-._~", *path);
        to += sprintf(to, is_plain ? "%c" : "%%%02X", (unsigned char)*path);
    }
    return uri;
}

/* ---- documents ---- */

void document_set_text(Document *d, const char *text, size_t len)
{
    char *copy = malloc(len + 1);
    if (!copy)
        return;
    memcpy(copy, text, len);
    copy[len] = '\0';
    free(d->text);
    d->text = copy;
    d->len = len;
    d->is_new = 1;
}

Document *document_new(const char *uri)
{
    Document *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->uri = strdup(uri);
    d->path = path_of(uri);
    document_set_text(d, "", 0);
    if (d->uri && d->path && d->text)
        return d;
    document_free(d);
    return NULL;
}

void document_free(Document *d)
{
    if (!d)
        return;
    json_decref(d->mends);
    free(d->uri);
    free(d->path);
    free(d->text);
    free(d);
}

/* ---- places ---- */

/* A line of text, and places in it: columns of bytes from 1 as in Loc, and of UTF-16 from 0 as in the protocol. */
static DiagLine line_at(const char *text, size_t len, uint32_t line)
{
    const char *at = text, *end = text + len;
    for (; line > 1; line--) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline)
            return (DiagLine){end, 0};
        at = newline + 1;
    }
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return (DiagLine){at, (size_t)((newline ? newline : end) - at)};
}

/* Bytes of the character, and its units of UTF-16. */
static size_t character(DiagLine line, size_t at, uint32_t *units)
{
    size_t n = text_character(line.at + at, line.len - at);
    *units = n == 4 ? 2 : 1;
    return n ? n : 1;
}

static uint32_t utf16_of(DiagLine line, uint32_t col)
{
    uint32_t units, all = 0;
    for (size_t at = 0; at < line.len && at + 1 < col; all += units)
        at += character(line, at, &units);
    return all;
}

static uint32_t col_of(DiagLine line, uint32_t utf16)
{
    uint32_t units, all = 0;
    size_t at = 0;
    for (; at < line.len && all < utf16; all += units)
        at += character(line, at, &units);
    return (uint32_t)at + 1;
}

static json_t *position(DiagLine line, uint32_t number, uint32_t col)
{
    return json_pack("{s:i, s:i}", "line", (int)number - 1, "character", (int)utf16_of(line, col));
}

json_t *document_range(const char *text, size_t len, Loc loc)
{
    const uint32_t number = loc.line ? loc.line : 1, col = loc.line ? loc.col : 1;
    DiagLine line = line_at(text, len, number);
    uint32_t end = loc.len >= LOC_LINES ? (uint32_t)line.len + 1 : col + (loc.line ? loc.len : 0);
    return json_pack("{s:o, s:o}", "start", position(line, number, col), "end", position(line, number, end));
}

Loc document_place(const Document *d, const json_t *value)
{
    json_int_t line = json_integer_value(json_object_get(value, "line"));
    json_int_t units = json_integer_value(json_object_get(value, "character"));
    if (!json_is_object(value) || line < 0 || line >= UINT32_MAX || units < 0 || units >= UINT32_MAX)
        return (Loc){0};
    uint32_t number = (uint32_t)line + 1;
    return (Loc){.line = number, .col = col_of(line_at(d->text, d->len, number), (uint32_t)units)};
}
