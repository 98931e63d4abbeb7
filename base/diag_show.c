/* Diagnostics as text for people and as JSON for programs; see diag.h. */
#include "base/diag.h"
#include "base/json.h"

#include <string.h>

static const char *const word_of[] = {[SEV_ERROR] = "error", [SEV_WARNING] = "warning", [SEV_HINT] = "hint"};

/* ---- text that is safe to show ---- */

/* Adds `length` bytes, bad bytes and control characters as `?`, and returns the columns they take.
 * A tab is one column here: the caret's line repeats it. */
static size_t add_shown(Text *out, const char *bytes, size_t length)
{
    return text_add_shown(out, bytes, length, "\t");
}

static const char *shown(Arena *a, const char *text) { return text_shown(a, text, "\t"); }

/* ---- colours: of a terminal, by its own palette ---- */

typedef enum Paint { PAINT_ERROR, PAINT_WARNING, PAINT_HINT, PAINT_MARK, PAINT_NOTE, PAINT_STRONG } Paint;

static const Paint paint_of[] = {
    [SEV_ERROR] = PAINT_ERROR, [SEV_WARNING] = PAINT_WARNING, [SEV_HINT] = PAINT_HINT};

static const char *begin(const Diags *d, Paint paint)
{
    static const char *const codes[] = {
        [PAINT_ERROR] = "\033[1;31m", [PAINT_WARNING] = "\033[1;35m", [PAINT_HINT] = "\033[1;36m",
        [PAINT_MARK] = "\033[1;32m",  [PAINT_NOTE] = "\033[34m",      [PAINT_STRONG] = "\033[1m"};
    return d->color ? codes[paint] : "";
}

static const char *end(const Diags *d) { return d->color ? "\033[0m" : ""; }

/* ---- source lines ---- */

enum {
    LINE_SHOWN = 160, /* columns of a source line that are shown */
    LINE_BEFORE = 60, /* of them before the caret when the line is longer */
};

/* Moves `at` to the start of the character it stands in. */
static size_t character_start(DiagLine line, size_t at)
{
    while (at > 0 && at < line.len && ((unsigned char)line.at[at] & 0xc0) == 0x80)
        at--;
    return at;
}

/* The source line and below it the caret with the range: `    y[t] = x[u]` / `             ^~`. */
static void add_line(const Diags *d, Text *out, DiagLine line, Loc loc)
{
    size_t column = loc.col ? loc.col - 1 : 0;
    column = column < line.len ? column : line.len;
    size_t from =
        line.len > LINE_SHOWN && column > LINE_BEFORE ? character_start(line, column - LINE_BEFORE) : 0;
    size_t shown_bytes = line.len - from > LINE_SHOWN ? LINE_SHOWN : line.len - from;
    shown_bytes = character_start(line, from + shown_bytes) - from;
    size_t last = column + (loc.len ? loc.len : 1);
    last = last < from + shown_bytes ? last : from + shown_bytes;
    text_add(out, "    ");
    add_shown(out, line.at + from, shown_bytes);
    text_add(out, "\n    ");
    Text before = {.arena = out->arena};
    size_t blanks = add_shown(&before, line.at + from, column - from);
    const char *b = text_string(&before);
    for (size_t i = 0; i < blanks; b += text_character(b, 4), i++)
        text_add_bytes(out, *b == '\t' ? "\t" : " ", 1);
    text_add(out, "%s^", begin(d, PAINT_MARK));
    Text under = {.arena = out->arena};
    for (size_t n = last > column ? add_shown(&under, line.at + column, last - column) : 0; n > 1; n--)
        text_add(out, "~");
    text_add(out, "%s\n", end(d));
}

/* ---- one diagnostic ---- */

static void add_place(const Diags *d, Loc loc, Text *out)
{
    if (loc.file >= d->files.len)
        return;
    text_add(out, "%s:", shown(out->arena, d->files.at[loc.file].path));
    if (loc.line)
        text_add(out, "%u:%u:", loc.line, loc.col);
    text_add(out, " ");
}

static void add_label(const Diags *d, const DiagNote *label, Text *out)
{
    DiagLine line;
    add_place(d, label->loc, out);
    text_add(out, "%snote:%s %s\n", begin(d, PAINT_NOTE), end(d), shown(out->arena, label->text));
    if (diag_line(d, label->loc, &line) && line.len)
        add_line(d, out, line, label->loc);
}

/* The line of edits[from] with the edits in it, coloured; returns the first edit of another line. */
static uint32_t add_edited(const Diags *d, const Diag *diag, uint32_t from, Text *out)
{
    DiagLine line;
    Loc first = diag->edits.at[from].loc;
    size_t at = 0;
    if (!diag_line(d, first, &line))
        return from + 1;
    text_add(out, "    ");
    for (; from < diag->edits.len && diag->edits.at[from].loc.line == first.line; from++) {
        const DiagNote *edit = &diag->edits.at[from];
        size_t column = edit->loc.col - 1 < line.len ? edit->loc.col - 1 : line.len;
        add_shown(out, line.at + at, column > at ? column - at : 0);
        text_add(out, "%s", begin(d, PAINT_MARK));
        for (const char *text = edit->text; *text;
             text += strcspn(text, "\n") + (strchr(text, '\n') != NULL)) {
            add_shown(out, text, strcspn(text, "\n"));
            text_add(out, strchr(text, '\n') && (column < line.len || strchr(text, '\n')[1]) ? "\n    " : "");
        }
        text_add(out, "%s", end(d));
        at = column + edit->loc.len;
    }
    add_shown(out, line.at + at, at < line.len ? line.len - at : 0);
    text_add(out, "\n");
    return from;
}

static void add_diag(const Diags *d, const Diag *diag, Text *out)
{
    Severity severity = diag_severity(diag->code);
    DiagLine line;
    add_place(d, diag->loc, out);
    text_add(out, "%s%s[%s]:%s %s%s%s\n", begin(d, paint_of[severity]), word_of[severity],
             diag_code_name(diag->code), end(d), begin(d, PAINT_STRONG), shown(out->arena, diag->message),
             end(d));
    if (diag_line(d, diag->loc, &line))
        add_line(d, out, line, diag->loc);
    for (uint32_t i = 0; i < diag->labels.len; i++)
        add_label(d, &diag->labels.at[i], out);
    if (diag->help)
        text_add(out, "%shelp:%s %s\n", begin(d, PAINT_HINT), end(d), shown(out->arena, diag->help));
    for (uint32_t i = 0; i < diag->edits.len;)
        i = add_edited(d, diag, i, out);
}

const char *diag_text(const Diags *d, Arena *a)
{
    Text out = {.arena = a};
    for (uint32_t i = 0; i < d->list.len; i++)
        add_diag(d, &d->list.at[i], &out);
    if (d->errors - d->repeated > DIAG_LIMIT)
        text_add(&out, "and %u more errors\n", d->errors - d->repeated - DIAG_LIMIT);
    return text_string(&out);
}

/* ---- JSON ---- */

static void put_place(const Diags *d, Loc loc, json_t *o, Arena *a)
{
    DiagLine line;
    if (loc.file < d->files.len)
        json_object_set_new(o, "file", json_string(shown(a, d->files.at[loc.file].path)));
    if (!loc.line)
        return;
    int whole = loc.len >= LOC_LINES && diag_line(d, loc, &line) && line.len >= loc.col;
    json_object_set_new(o, "line", json_integer(loc.line));
    json_object_set_new(o, "column", json_integer(loc.col));
    json_object_set_new(o, "length", json_integer(whole ? (json_int_t)(line.len - loc.col + 1) : loc.len));
}

static json_t *notes_array(const Diags *d, const DiagNote *notes, uint32_t count, Arena *a)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        json_t *o = json_pack("{s:s}", "text", notes[i].text);
        put_place(d, notes[i].loc, o, a);
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *diag_object(const Diags *d, const Diag *diag, Arena *a)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "code", diag_code_name(diag->code), "severity",
                          word_of[diag_severity(diag->code)], "title", diag_title(diag->code), "message",
                          shown(a, diag->message));
    put_place(d, diag->loc, o, a);
    if (diag->help)
        json_object_set_new(o, "help", json_string(shown(a, diag->help)));
    if (diag->edits.len)
        json_object_set_new(o, "edits", notes_array(d, diag->edits.at, diag->edits.len, a));
    if (diag->labels.len)
        json_object_set_new(o, "labels", notes_array(d, diag->labels.at, diag->labels.len, a));
    return o;
}

const char *diag_json(const Diags *d, Arena *a)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < d->list.len; i++)
        json_array_append_new(list, diag_object(d, &d->list.at[i], a));
    return json_text(a, json_pack("{s:i, s:o}", "errors", (int)d->errors, "diagnostics", list));
}

void diag_json_failure(const char *severity, const char *message, char *to, size_t size)
{
    static const char none[] = "{\"errors\": 1, \"diagnostics\": []}"; /* without memory */
    char plain[512];
    size_t n = 0;
    for (; message[n] && n < sizeof plain - 1; n++) /* whatever text the message repeats */
        plain[n] = (unsigned char)message[n] < ' ' || (unsigned char)message[n] > '~' ? '?' : message[n];
    plain[n] = '\0';
    json_t *v = json_pack("{s:i, s:[{s:s, s:s}]}", "errors", 1, "diagnostics", "severity", severity,
                          "message", plain);
    size_t len = v ? json_dumpb(v, to, size - 1, 0) : 0;
    json_decref(v);
    if (len && len < size)
        to[len] = '\0';
    else
        snprintf(to, size, "%s", none);
}
