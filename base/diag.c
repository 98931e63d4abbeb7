/* Diagnostics: collected in the order found; diag_show.c renders them. See diag.h. */
#include "base/diag.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct CodeRow {
    int number;
    Severity severity;
    const char *name, *title, *page;
} CodeRow;

static const char letter_of[] = {[SEV_ERROR] = 'E', [SEV_WARNING] = 'W', [SEV_HINT] = 'H'};

static const CodeRow code_table[DIAG_COUNT] = {
#define ROW(code, number, severity, title, page) {number, severity, #code, title, page},
#include "base/errors.def"
#undef ROW
};

enum {
    NOTES_LIMIT = 100, /* warnings and hints that are kept */
    AGAIN_LIMIT = 3,   /* other places of one cause that are kept */
};

uint32_t diag_add_file(Diags *d, const char *path, const char *text, size_t len)
{
    SourceFile file = {.path = arena_strdup(d->arena, path), .text = text, .len = len};
    vec_push(d->arena, &d->files, file);
    return d->files.len - 1;
}

/* ---- source lines ---- */

int diag_line(const Diags *d, Loc loc, DiagLine *out)
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

/* ---- what is kept ---- */

/* A name that nothing defines is one cause, however often it is used. */
static Diag *same_cause(Diags *d, DiagCode code, const char *message)
{
    int number = code_table[code].number,
        unknown = (number > 200 && number <= 208) || code == DIAG_unknown_type;
    for (uint32_t i = 0; unknown && i < d->list.len; i++)
        if (d->list.at[i].code == code && strcmp(d->list.at[i].message, message) == 0)
            return &d->list.at[i];
    return NULL;
}

/* What is right at the first place is right at this one: edits of it go on. */
static void again(Diags *d, Diag *diag, Loc loc)
{
    d->open = (uint32_t)(diag - d->list.at) + 1;
    if (diag->labels.len < AGAIN_LIMIT && loc.line)
        vec_push(d->arena, &diag->labels, (DiagNote){loc, "and here"});
}

static int has_room(const Diags *d, int error)
{
    uint32_t distinct = d->errors - d->repeated, errors = distinct < DIAG_LIMIT ? distinct : DIAG_LIMIT;
    return error ? errors < DIAG_LIMIT : d->list.len - errors < NOTES_LIMIT;
}

/* Does a comment in this line say `allow CODE`? */
static int line_allows(DiagLine line, const char *code)
{
    static const char word[] = "allow ";
    size_t len = strlen(code);
    const char *end = line.at + line.len, *comment = memmem(line.at, line.len, "//", 2);
    const char *at = comment ? memmem(comment, (size_t)(end - comment), word, sizeof word - 1) : NULL;
    for (; at && at + len <= end; at++)
        if (memcmp(at, code, len) == 0)
            return 1;
    return 0;
}

/* Does the comment with which a file begins? */
static int head_allows(const Diags *d, uint32_t file, const char *code)
{
    DiagLine line;
    for (Loc loc = {file, 1, 1, 0}; diag_line(d, loc, &line) && line.len > 1 && memcmp(line.at, "//", 2) == 0;
         loc.line++)
        if (line_allows(line, code))
            return 1;
    return 0;
}

static int is_allowed(const Diags *d, DiagCode code, Loc loc)
{
    DiagLine line;
    Loc above = loc;
    const char *name = diag_code_name(code);
    above.line -= 1;
    if (head_allows(d, loc.file, name))
        return 1;
    return (d->allowed && text_lists(d->allowed, name)) ||
           (diag_line(d, loc, &line) && line_allows(line, name)) ||
           (loc.line > 1 && diag_line(d, above, &line) && line_allows(line, name));
}

void diag_add(Diags *d, DiagCode code, Loc loc, const char *help, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *message = arena_vprintf(d->arena, format, args);
    va_end(args);
    int error = diag_severity(code) == SEV_ERROR, room = has_room(d, error);
    if (!error && is_allowed(d, code, loc)) {
        d->open = 0;
        return;
    }
    Diag *before = same_cause(d, code, message);
    d->open = 0;
    d->errors += error ? 1 : 0;
    if (before) {
        d->repeated++;
        again(d, before, loc);
        return;
    }
    if (!room)
        return;
    Diag diag = {.code = code, .loc = loc, .message = message};
    diag.help = help ? arena_strdup(d->arena, help) : NULL;
    vec_push(d->arena, &d->list, diag);
    d->open = d->list.len;
}

void diag_close(Diags *d) { d->open = 0; }

void diag_edit(Diags *d, Loc loc, const char *text)
{
    if (!d->open || loc.line == 0 || loc.len >= LOC_LINES)
        return;
    Diag *diag = &d->list.at[d->open - 1];
    for (uint32_t i = 0; i < diag->edits.len; i++)
        if (strchr(text, '\n') && strcmp(diag->edits.at[i].text, text) == 0)
            return; /* a line of its own serves all places of the cause */
    vec_push(d->arena, &diag->edits, (DiagNote){loc, arena_strdup(d->arena, text)});
    for (uint32_t i = diag->edits.len - 1; i > 0; i--) {
        DiagNote *a = &diag->edits.at[i - 1], *b = &diag->edits.at[i], moved = *a;
        if (a->loc.line < b->loc.line || (a->loc.line == b->loc.line && a->loc.col <= b->loc.col))
            break;
        *a = *b;
        *b = moved;
    }
}

void diag_wrap(Diags *d, Loc loc, const char *before, const char *after)
{
    if (loc.len >= LOC_LINES)
        return;
    diag_edit(d, (Loc){loc.file, loc.line, loc.col, 0}, before);
    diag_edit(d, (Loc){loc.file, loc.line, loc.col + loc.len, 0}, after);
}

void diag_label(Diags *d, Loc loc, const char *format, ...)
{
    if (!d->open || loc.line == 0)
        return;
    va_list args;
    va_start(args, format);
    vec_push(d->arena, &d->list.at[d->open - 1].labels,
             (DiagNote){loc, arena_vprintf(d->arena, format, args)});
    va_end(args);
}

/* ---- codes ---- */

Severity diag_severity(DiagCode code) { return code_table[code].severity; }

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

static int is_warning(const char *word)
{
    for (DiagCode code = 0; code < DIAG_COUNT; code++)
        if (code_table[code].severity != SEV_ERROR && strcmp(diag_code_name(code), word) == 0)
            return 1;
    return 0;
}

int diag_may_allow(const char *list, char *bad, size_t room)
{
    for (size_t n;; list += n + 1) {
        n = strcspn(list, ",");
        snprintf(bad, room, "%.*s", (int)n, list);
        if (!is_warning(bad))
            return 0;
        if (!list[n])
            return 1;
    }
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
