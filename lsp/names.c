/* What stands at a place of an open text: hover, definition, references; and what the text declares. Each answer reads the text anew,
 * which takes milliseconds. */
#include "lsp/server.h"

#include "frontend/frontend.h"

#include <stdlib.h>
#include <string.h>

/* One request. */
typedef struct NamesJob {
    Document *d;
    Loc place;
    json_t *answer;
    /* of the text */
    Compilation *c;
    Module *m; /* whose diags have the files */
    Outline *outline;
    const OutlineName *name; /* at the place, or NULL */
} NamesJob;

/* ---- names and places ---- */

static const OutlineName *declaration(const NamesJob *j, const OutlineName *n)
{
    return n->declared == NONE ? NULL : &j->outline->names.at[n->declared];
}

static const OutlineName *name_at(const NamesJob *j)
{
    for (uint32_t i = 0; i < j->outline->names.len; i++) {
        const OutlineName *n = &j->outline->names.at[i];
        if (n->loc.file == 0 && n->loc.line == j->place.line && n->loc.col <= j->place.col &&
            j->place.col <= n->loc.col + n->loc.len)
            return n;
    }
    return NULL;
}

static json_t *location(const NamesJob *j, const char *path, Loc loc)
{
    const SourceFile *f = &j->m->diags->files.at[loc.file];
    char *uri = loc.file == 0 ? strdup(j->d->uri) : document_uri(path);
    json_t *l = json_pack("{s:s, s:o}", "uri", uri ? uri : "", "range", document_range(f->text, f->len, loc));
    free(uri);
    return l;
}

/* ---- hover ---- */

static void put_type(const Kernel *k, const Tensor *t, Text *out)
{
    text_add(out, "%s", elem_name(t->elem));
    for (uint32_t i = 0; i < t->rank; i++) {
        text_add(out, i ? ", " : "[");
        axis_print(k->module, t->axes[i], out);
    }
    text_add(out, "%s%s", t->rank ? "]" : "",
             t->layout == LAYOUT_PAIRS ? t->both ? " packed both" : " packed" : "");
}

static void put_tensor(const Kernel *k, const Tensor *t, Text *out)
{
    text_add(out,
             t->role == ROLE_LOCAL ? "%s%s: " : "%s %s: ", t->role == ROLE_LOCAL ? "" : role_name(t->role),
             t->name);
    put_type(k, t, out);
}

static void put_route(const Kernel *k, const Route *r, Text *out)
{
    text_add(out, r->role == ROLE_LOCAL ? "%s%s: route[" : "%s %s: route[",
             r->role == ROLE_LOCAL ? "" : role_name(r->role), r->name);
    ext_print(k->module, r->tokens, out);
    text_add(out, ", ");
    ext_print(k->module, r->choices, out);
    text_add(out, " -> %s]", k->module->groups.at[r->group].name);
}

static void put_kernel(const Kernel *k, Text *out)
{
    text_add(out, "kernel %s(", k->name);
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param p = k->params.at[i];
        text_add(out, i ? ",\n  " : "");
        if (p.kind == PARAM_ROUTE)
            put_route(k, &k->routes.at[p.id], out);
        else
            put_tensor(k, &k->tensors.at[p.id], out);
    }
    text_add(out, ")");
}

/* The module as it was read; with `derive` also what it asks to derive. NULL: there is none. */
static const Kernel *read_kernel(const NamesJob *j, Name name, int derive)
{
    compile_read(j->c, derive);
    const Module *m = j->c->module;
    return m && name ? ir_find_kernel(m, name_of(m->names, name)) : NULL;
}

static void put_index(const NamesJob *j, const Kernel *k, Text *out)
{
    Loc at = declaration(j, j->name)->loc;
    for (uint32_t i = 0; k && i < k->indices.len; i++) {
        const Index *x = &k->indices.at[i];
        if (x->loc.line == at.line && x->loc.col == at.col && x->loc.file == at.file) {
            text_add(out, x->axis.group == NONE ? "%s: 0 .. " : "%s: rows of ", x->name);
            axis_print(k->module, x->axis, out);
            text_add(out, x->axis.group == NONE ? " - 1" : "");
            return;
        }
    }
    text_add(out, "%s", j->name->name);
}

/* A parameter or local; of a kernel with mistakes it may be missing. */
static void put_variable(const NamesJob *j, const Kernel *k, Text *out)
{
    Name name = k ? name_of(k->module->names, j->name->name) : NULL;
    TensorId t = name ? ir_find_tensor(k, name) : NONE;
    RouteId r = name ? ir_find_route(k, name) : NONE;
    if (t != NONE)
        put_tensor(k, &k->tensors.at[t], out);
    else if (r != NONE)
        put_route(k, &k->routes.at[r], out);
}

static void put_line(const NamesJob *j, Text *out)
{
    DiagLine line;
    if (!diag_line(j->m->diags, declaration(j, j->name)->loc, &line))
        return;
    while (line.len && (*line.at == ' ' || *line.at == '\t'))
        line.at++, line.len--;
    text_add_bytes(out, line.at, line.len);
}

/* A function of the language. */
static void put_word(const NamesJob *j, Text *code, Text *said)
{
    for (ScalarOp op = 0; op < OP_COUNT; op++) {
        const ScalarRow *row = &scalar_table[op];
        if (strcmp(row->spelling, j->name->name) != 0)
            continue;
        text_add(code, row->arity == 2 ? "%s(a, b)" : "%s(a)", row->spelling);
        text_add(said, "%s", row->doc);
        return;
    }
}

static void describe(const NamesJob *j, Text *code, Text *said)
{
    const OutlineName *n = j->name, *d = declaration(j, n);
    Name kernel = d ? d->kernel : NULL;
    const Kernel *k;
    switch (n->kind) {
    case OUTLINE_TYPE:
    case OUTLINE_DIM:
    case OUTLINE_GROUP:
    case OUTLINE_FN: put_line(j, code); break;
    case OUTLINE_KERNEL:
        k = read_kernel(j, n->name, 0);
        k = k ? k : read_kernel(j, n->name, 1);
        if (k)
            put_kernel(k, code);
        if (k && k->derived)
            text_add(said, "derived from `%s`", k->derived->kernel);
        break;
    case OUTLINE_PARAM:
    case OUTLINE_LOCAL:
        put_variable(j, read_kernel(j, kernel, 0), code);
        text_add(said, "%s of kernel `%s`", n->kind == OUTLINE_PARAM ? "parameter" : "local", kernel);
        break;
    case OUTLINE_INDEX:
        put_index(j, read_kernel(j, kernel, 0), code);
        text_add(said, "index");
        break;
    case OUTLINE_WORD: put_word(j, code, said); break;
    case OUTLINE_FILE: break;
    }
}

static void hover(NamesJob *j)
{
    Text code = {.arena = j->c->arena}, said = {.arena = j->c->arena}, all = {.arena = j->c->arena};
    if (!j->name)
        return;
    describe(j, &code, &said);
    if (code.len)
        text_add(&all, "```moe\n%s\n```\n%s", text_string(&code), text_string(&said));
    if (all.len)
        j->answer =
            json_pack("{s:{s:s, s:s}, s:o}", "contents", "kind", "markdown", "value", text_string(&all),
                      "range", document_range(j->d->text, j->d->len, j->name->loc));
}

/* ---- definition, references ---- */

static void definition(NamesJob *j)
{
    const OutlineName *d = j->name ? declaration(j, j->name) : NULL;
    if (d)
        j->answer = location(j, j->m->diags->files.at[d->loc.file].path, d->loc);
    if (!j->name || j->name->kind != OUTLINE_FILE)
        return;
    char *uri = document_uri(frontend_used_path(j->c->arena, j->d->path, j->name->name));
    j->answer = json_pack("{s:s, s:o}", "uri", uri ? uri : "", "range", document_range("", 0, (Loc){0}));
    free(uri);
}

static void references(NamesJob *j)
{
    if (!j->name || j->name->declared == NONE)
        return;
    j->answer = json_array();
    for (uint32_t i = 0; i < j->outline->names.len; i++) {
        const OutlineName *n = &j->outline->names.at[i];
        if (n->declared == j->name->declared)
            json_array_append_new(j->answer, location(j, j->m->diags->files.at[n->loc.file].path, n->loc));
    }
}

/* ---- symbols ---- */

/* SymbolKind of the protocol; 0: not listed. */
static int symbol_kind(OutlineKind kind)
{
    switch (kind) {
    case OUTLINE_TYPE: return 26;
    case OUTLINE_DIM: return 14;
    case OUTLINE_GROUP: return 10;
    case OUTLINE_FN:
    case OUTLINE_KERNEL: return 12;
    case OUTLINE_PARAM:
    case OUTLINE_LOCAL: return 13;
    case OUTLINE_INDEX:
    case OUTLINE_FILE:
    case OUTLINE_WORD: break;
    }
    return 0;
}

/* Those that are declared in the text and belong to `kernel` (NULL: to none). */
static json_t *symbols_of(const NamesJob *j, Name kernel)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < j->outline->names.len; i++) {
        const OutlineName *n = &j->outline->names.at[i];
        int kind = symbol_kind(n->kind);
        if (n->declared != i || n->loc.file != 0 || n->kernel != kernel || !kind)
            continue;
        json_t *range = document_range(j->d->text, j->d->len, n->loc);
        json_t *symbol = json_pack("{s:s, s:i, s:O, s:o}", "name", n->name, "kind", kind, "range", range,
                                   "selectionRange", range);
        if (n->kind == OUTLINE_KERNEL)
            json_object_set_new(symbol, "children", symbols_of(j, n->name));
        json_array_append_new(list, symbol);
    }
    return list;
}

static void symbols(NamesJob *j) { j->answer = symbols_of(j, NULL); }

/* ---- requests ---- */

typedef struct NamesRequest {
    NamesJob job;
    void (*answer)(NamesJob *j);
} NamesRequest;

static int outline_and_answer(Compilation *c, void *user)
{
    NamesRequest *r = user;
    NamesJob *j = &r->job;
    Diags *diags = arena_new_of(c->arena, Diags); /* the outline's mistakes are check_document()'s to tell */
    diags->arena = c->arena;
    j->m = ir_module(c->arena, diags, j->d->path);
    j->outline = frontend_outline(j->m, j->d->path, j->d->text, j->d->len);
    j->name = j->place.line ? name_at(j) : NULL;
    r->answer(j);
    return DRIVER_OK;
}

static json_t *ask(Document *d, Loc place, void (*answer)(NamesJob *j))
{
    NamesRequest r = {.job = {.d = d, .place = place}, .answer = answer};
    Compilation *c = r.job.c = compile_new(&compile_defaults);
    if (!c)
        return json_null();
    compile_text(c, d->path, d->text, d->len);
    compile_guard(c, outline_and_answer, &r);
    compile_free(c);
    return r.job.answer ? r.job.answer : json_null();
}

json_t *names_hover(Document *d, const json_t *position)
{
    return ask(d, document_place(d, position), hover);
}

json_t *names_definition(Document *d, const json_t *position)
{
    return ask(d, document_place(d, position), definition);
}

json_t *names_references(Document *d, const json_t *position)
{
    return ask(d, document_place(d, position), references);
}

json_t *names_symbols(Document *d) { return ask(d, (Loc){0}, symbols); }

/* ---- formatting ---- */

typedef struct FormatJob {
    Document *d;
    json_t *edits;
} FormatJob;

static int format(Compilation *c, void *user)
{
    FormatJob *f = user;
    const char *text =
        frontend_format(ir_module(c->arena, &c->diags, c->path), c->path, f->d->text, f->d->len);
    int lines = 0;
    for (size_t i = 0; i < f->d->len; i++)
        lines += f->d->text[i] == '\n';
    if (text)
        f->edits = json_pack("[{s:{s:{s:i, s:i}, s:{s:i, s:i}}, s:s}]", "range", "start", "line", 0,
                             "character", 0, "end", "line", lines + 1, "character", 0, "newText", text);
    return DRIVER_OK;
}

json_t *names_formatting(Document *d)
{
    FormatJob f = {.d = d};
    Compilation *c = compile_new(&compile_defaults);
    if (c) {
        compile_text(c, d->path, d->text, d->len);
        compile_guard(c, format, &f);
    }
    compile_free(c);
    return f.edits ? f.edits : json_null();
}
