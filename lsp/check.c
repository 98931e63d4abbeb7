/* What `moec check` says of an open text, as diagnostics of the protocol; and the edits that its help lines are. */
#include "lsp/server.h"

#include "explain/explain.h"

#include <string.h>

typedef struct CheckJob {
    Document *d;
    json_t *diagnostics, *mends;
} CheckJob;

/* In the protocol's numbers. */
static int severity_of(DiagCode code)
{
    switch (diag_severity(code)) {
    case SEV_ERROR: return 1;
    case SEV_WARNING: return 2;
    case SEV_HINT: break;
    }
    return 4;
}

/* Is it of the text itself? A mistake in a file that it uses is told at its first line. */
static int is_here(const Compilation *c, Loc loc)
{
    return loc.line && loc.file < c->diags.files.len &&
           strcmp(c->diags.files.at[loc.file].path, c->path) == 0;
}

static json_t *range_of(const CheckJob *j, const Compilation *c, Loc loc)
{
    return document_range(j->d->text, j->d->len, is_here(c, loc) ? loc : (Loc){0});
}

static json_t *message_of(const Compilation *c, const Diag *diag)
{
    Text t = {.arena = c->arena};
    if (!is_here(c, diag->loc) && diag->loc.line)
        text_add(&t, "%s:%u: ", c->diags.files.at[diag->loc.file].path, diag->loc.line);
    text_add(&t, "%s%s%s", diag->message, diag->help ? "\nhelp: " : "", diag->help ? diag->help : "");
    return json_string(text_string(&t));
}

static json_t *labels_of(const CheckJob *j, const Compilation *c, const Diag *diag)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < diag->labels.len; i++) {
        const DiagNote *n = &diag->labels.at[i];
        if (is_here(c, n->loc))
            json_array_append_new(list, json_pack("{s:{s:s, s:o}, s:s}", "location", "uri", j->d->uri,
                                                  "range", range_of(j, c, n->loc), "message", n->text));
    }
    return list;
}

/* A code action: all edits of one help line. */
static void add_mend(CheckJob *j, const Compilation *c, const Diag *diag, json_t *diagnostic)
{
    json_t *edits = json_array();
    for (uint32_t i = 0; i < diag->edits.len; i++)
        json_array_append_new(edits, json_pack("{s:o, s:s}", "range", range_of(j, c, diag->edits.at[i].loc),
                                               "newText", diag->edits.at[i].text));
    json_array_append_new(j->mends,
                          json_pack("{s:s, s:s, s:[O], s:b, s:{s:{s:o}}}", "title",
                                    diag->help ? diag->help : "mend it", "kind", "quickfix", "diagnostics",
                                    diagnostic, "isPreferred", 1, "edit", "changes", j->d->uri, edits));
}

static void add_diagnostic(CheckJob *j, const Compilation *c, const Diag *diag)
{
    json_t *diagnostic =
        json_pack("{s:o, s:i, s:s, s:s, s:o, s:o}", "range", range_of(j, c, diag->loc), "severity",
                  severity_of(diag->code), "code", diag_code_name(diag->code), "source", "moec", "message",
                  message_of(c, diag), "relatedInformation", labels_of(j, c, diag));
    if (diag->edits.len && is_here(c, diag->loc))
        add_mend(j, c, diag, diagnostic);
    json_array_append_new(j->diagnostics, diagnostic);
}

static int add_all(Compilation *c, void *user)
{
    for (uint32_t i = 0; i < c->diags.list.len; i++)
        add_diagnostic(user, c, &c->diags.list.at[i]);
    return DRIVER_OK;
}

/* A failure that is no diagnostic: a bug of the compiler, or memory. */
static void add_failure(CheckJob *j, const Compilation *c)
{
    json_array_append_new(j->diagnostics, json_pack("{s:o, s:i, s:s, s:s}", "range",
                                                    document_range(j->d->text, j->d->len, (Loc){0}),
                                                    "severity", 1, "source", "moec", "message", c->errors));
}

json_t *check_document(Document *d)
{
    CheckJob j = {.d = d, .diagnostics = json_array(), .mends = json_array()};
    Compilation *c = compile_new(&compile_defaults);
    if (c) {
        compile_text(c, d->path, d->text, d->len);
        int status = explain_check(c);
        if (status == DRIVER_INTERNAL)
            add_failure(&j, c);
        else
            compile_guard(c, add_all, &j);
    }
    compile_free(c);
    json_decref(d->mends);
    d->mends = j.mends;
    d->is_new = 0;
    return json_pack("{s:s, s:I, s:o}", "uri", d->uri, "version", d->version, "diagnostics", j.diagnostics);
}

/* ---- code actions ---- */

/* Positions in the order of the text. */
static int is_before(const json_t *a, const json_t *b)
{
    json_int_t line[2] = {json_integer_value(json_object_get(a, "line")),
                          json_integer_value(json_object_get(b, "line"))};
    return line[0] != line[1] ? line[0] < line[1]
                              : json_integer_value(json_object_get(a, "character")) <
                                    json_integer_value(json_object_get(b, "character"));
}

static int overlap(const json_t *a, const json_t *b)
{
    return !is_before(json_object_get(a, "end"), json_object_get(b, "start")) &&
           !is_before(json_object_get(b, "end"), json_object_get(a, "start"));
}

json_t *check_mends(const Document *d, const json_t *range)
{
    json_t *found = json_array();
    for (size_t i = 0; i < json_array_size(d->mends); i++) {
        json_t *mend = json_array_get(d->mends, i),
               *of = json_array_get(json_object_get(mend, "diagnostics"), 0);
        if (overlap(json_object_get(of, "range"), range))
            json_array_append(found, mend);
    }
    return found;
}
