/* Diagnostics: collected in the order found, then rendered as text or JSON; see diag.h. */
#include "base/diag.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct CodeRow {
    int number;
    Severity severity;
    const char *name, *title, *page;
} CodeRow;

static const char letter_of[] = {[SEV_ERROR] = 'E', [SEV_WARNING] = 'W', [SEV_HINT] = 'H'};
static const char *const word_of[] = {[SEV_ERROR] = "error", [SEV_WARNING] = "warning", [SEV_HINT] = "hint"};

static const CodeRow code_table[DIAG_COUNT] = {
#define ROW(code, number, severity, title, page) {number, severity, #code, title, page},
#include "base/errors.def"
#undef ROW
};

enum {
    NOTES_LIMIT = 100, /* warnings and hints that are kept */
    LINE_SHOWN = 160,  /* columns of a source line that are shown */
    LINE_BEFORE = 60,  /* of them before the caret when the line is longer */
};

uint32_t diag_add_file(Diags *d, const char *path, const char *text, size_t len)
{
    SourceFile file = {.path = arena_strndup(d->arena, path, strlen(path)), .text = text, .len = len};
    vec_push(d->arena, &d->files, file);
    return d->files.len - 1;
}

void diag_add(Diags *d, DiagCode code, Loc loc, const char *help, const char *format, ...)
{
    int error = code_table[code].severity == SEV_ERROR;
    uint32_t kept_errors = d->errors < DIAG_LIMIT ? d->errors : DIAG_LIMIT;
    d->errors += error ? 1 : 0;
    if (error ? kept_errors == DIAG_LIMIT : d->list.len - kept_errors >= NOTES_LIMIT)
        return;
    va_list args;
    va_start(args, format);
    Diag diag = {.code = code, .loc = loc, .message = arena_vprintf(d->arena, format, args)};
    va_end(args);
    diag.help = help ? arena_strndup(d->arena, help, strlen(help)) : NULL;
    vec_push(d->arena, &d->list, diag);
}

const char *diag_title(DiagCode code) { return code_table[code].title; }

const char *diag_code_name(DiagCode code)
{
    static _Thread_local char names[4][16]; /* a few at a time, so that one printf may use two */
    static _Thread_local unsigned next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof names[0], "%c%04d", letter_of[code_table[code].severity],
             code_table[code].number % 100000);
    return name;
}

const char *diag_page(const char *code_name)
{
    static _Thread_local char page[2048];
    const char *digits = code_name + (isalpha((unsigned char)*code_name) ? 1 : 0);
    char *end;
    long number = strtol(digits, &end, 10);
    if (!isdigit((unsigned char)*digits) || *end)
        return NULL;
    for (DiagCode code = 0; code < DIAG_COUNT; code++) {
        if (code_table[code].number != number)
            continue;
        snprintf(page, sizeof page, "%s: %s\n\n%s", diag_code_name(code), code_table[code].title,
                 code_table[code].page);
        return page;
    }
    return NULL;
}

/* ---- text that is safe to show ---- */

/* Adds `length` bytes, bad bytes and control characters as `?`, and returns the columns they take.
 * A tab is one column here: the caret's line repeats it. */
static size_t add_shown(Text *out, const char *bytes, size_t length)
{
    size_t columns = 0;
    for (size_t i = 0; i < length; columns++) {
        size_t n = text_character(bytes + i, length - i);
        int control = n == 1 && ((unsigned char)bytes[i] < 0x20 || bytes[i] == 0x7f) && bytes[i] != '\t';
        if (n == 0 || control)
            text_add_bytes(out, "?", 1);
        else
            text_add_bytes(out, bytes + i, n);
        i += n ? n : 1;
    }
    return columns;
}

static const char *shown(Arena *a, const char *text)
{
    Text t = {.arena = a};
    add_shown(&t, text, strlen(text));
    return text_string(&t);
}

/* ---- rendering ---- */

typedef struct DiagLine {
    const char *at;
    size_t len;
} DiagLine;

static int find_line(const Diags *d, Loc loc, DiagLine *out)
{
    if (loc.line == 0 || loc.file >= d->files.len || !d->files.at[loc.file].text)
        return 0;
    const char *at = d->files.at[loc.file].text, *end = at + d->files.at[loc.file].len;
    for (uint32_t line = 1; line < loc.line; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline)
            return 0;
        at = newline + 1;
    }
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    *out = (DiagLine){at, (size_t)((newline ? newline : end) - at)};
    if (out->len && at[out->len - 1] == '\r')
        out->len--;
    return 1;
}

/* Moves `at` to the start of the character it stands in. */
static size_t character_start(DiagLine line, size_t at)
{
    while (at > 0 && at < line.len && ((unsigned char)line.at[at] & 0xc0) == 0x80)
        at--;
    return at;
}

/* The source line and below it the caret with the range: `    y[t] = x[u]` / `             ^~`. */
static void add_line(Text *out, DiagLine line, Loc loc)
{
    size_t column = loc.col ? loc.col - 1 : 0;
    column = column < line.len ? column : line.len;
    size_t from =
        line.len > LINE_SHOWN && column > LINE_BEFORE ? character_start(line, column - LINE_BEFORE) : 0;
    size_t shown_bytes = line.len - from > LINE_SHOWN ? LINE_SHOWN : line.len - from;
    shown_bytes = character_start(line, from + shown_bytes) - from;
    size_t end = column + (loc.len ? loc.len : 1);
    end = end < from + shown_bytes ? end : from + shown_bytes;
    text_add(out, "    ");
    add_shown(out, line.at + from, shown_bytes);
    text_add(out, "\n    ");
    Text before = {.arena = out->arena};
    size_t blanks = add_shown(&before, line.at + from, column - from);
    const char *b = text_string(&before);
    for (size_t i = 0; i < blanks; b += text_character(b, 4), i++)
        text_add_bytes(out, *b == '\t' ? "\t" : " ", 1);
    text_add(out, "^");
    Text under = {.arena = out->arena};
    for (size_t n = end > column ? add_shown(&under, line.at + column, end - column) : 0; n > 1; n--)
        text_add(out, "~");
    text_add(out, "\n");
}

static void add_diag(const Diags *d, const Diag *diag, Text *out)
{
    if (diag->loc.file < d->files.len) {
        text_add(out, "%s:", shown(out->arena, d->files.at[diag->loc.file].path));
        if (diag->loc.line)
            text_add(out, "%u:%u:", diag->loc.line, diag->loc.col);
        text_add(out, " ");
    }
    text_add(out, "%s[%s]: %s\n", word_of[code_table[diag->code].severity], diag_code_name(diag->code),
             shown(out->arena, diag->message));
    DiagLine line;
    if (find_line(d, diag->loc, &line))
        add_line(out, line, diag->loc);
    if (diag->help)
        text_add(out, "help: %s\n", shown(out->arena, diag->help));
}

const char *diag_text(const Diags *d, Arena *a)
{
    Text out = {.arena = a};
    for (uint32_t i = 0; i < d->list.len; i++)
        add_diag(d, &d->list.at[i], &out);
    if (d->errors > DIAG_LIMIT)
        text_add(&out, "and %u more errors\n", d->errors - DIAG_LIMIT);
    return text_string(&out);
}

/* ---- JSON ---- */

static json_t *diag_object(const Diags *d, const Diag *diag, Arena *a)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "code", diag_code_name(diag->code), "severity",
                          word_of[code_table[diag->code].severity], "title", diag_title(diag->code),
                          "message", shown(a, diag->message));
    if (o && diag->loc.file < d->files.len)
        json_object_set_new(o, "file", json_string(shown(a, d->files.at[diag->loc.file].path)));
    if (o && diag->loc.line) {
        json_object_set_new(o, "line", json_integer(diag->loc.line));
        json_object_set_new(o, "column", json_integer(diag->loc.col));
        json_object_set_new(o, "length", json_integer(diag->loc.len));
    }
    if (o && diag->help)
        json_object_set_new(o, "help", json_string(shown(a, diag->help)));
    return o;
}

const char *diag_json(const Diags *d, Arena *a)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < d->list.len; i++)
        json_array_append_new(list, diag_object(d, &d->list.at[i], a));
    json_t *root = json_pack("{s:i, s:o}", "errors", (int)d->errors, "diagnostics", list);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text)
        arena_escape(a, ESCAPE_MEMORY, "no memory for the list of errors");
    const char *copy = arena_strndup(a, text, strlen(text));
    free(text);
    return copy;
}
