/* The door: files and what they use, from text to a checked module. */
#include "frontend/frontend.h"

#include "frontend/sema.h"
#include "frontend/parser.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct UsedFile {
    const char *identity; /* the path without links and dots, when there is one */
    enum { SOURCE_READING, SOURCE_DONE } state;
} UsedFile;

typedef struct FileReader {
    Sema *c;
    Vec(UsedFile) sources;
    Vec(const char *) chain; /* files that are being read, the outermost first */
} FileReader;

enum { MAX_FILES = 1000, MAX_CHAIN = 100 };

/* ---- files ---- */

/* The content of a file in the arena, or NULL and errno. */
static char *file_text(Arena *a, const char *path, size_t *len)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return NULL;
    if (!S_ISREG(st.st_mode)) { /* a pipe would wait for its writer */
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return NULL;
    }
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    size_t room = st.st_size > FRONTEND_MAX_BYTES ? (size_t)FRONTEND_MAX_BYTES + 1 : (size_t)st.st_size;
    char *text = arena_alloc(a, room + 1);
    *len = fread(text, 1, room, f);
    int failed = ferror(f);
    fclose(f);
    errno = EIO;
    return failed ? NULL : text;
}

static const char *identity_of(Arena *a, const char *path)
{
    char *real = realpath(path, NULL);
    const char *copy = real ? arena_strdup(a, real) : arena_strdup(a, path);
    free(real);
    return copy;
}

const char *frontend_used_path(Arena *a, const char *from, const char *path)
{
    const char *slash = strrchr(from, '/');
    if (*path == '/' || !slash)
        return path;
    return arena_printf(a, "%.*s/%s", (int)(slash - from), from, path);
}

static void read_text(FileReader *r, const char *path, const char *text, size_t len);

static UsedFile *find_source(FileReader *r, const char *identity)
{
    for (uint32_t i = 0; i < r->sources.len; i++)
        if (strcmp(r->sources.at[i].identity, identity) == 0)
            return &r->sources.at[i];
    return NULL;
}

static void refuse_cycle(FileReader *r, const AstDecl *use)
{
    Text chain = {.arena = r->c->arena};
    for (uint32_t i = 0; i < r->chain.len; i++)
        text_add(&chain, "%s -> ", r->chain.at[i]);
    diag_add(r->c->m->diags, DIAG_use_cycle, use->name.loc, "move what both files need into a third one",
             "this file is being read already: %s%s", text_string(&chain), use->name.name);
}

static void read_used(FileReader *r, const char *from, const AstDecl *use)
{
    Arena *a = r->c->arena;
    const char *path = frontend_used_path(a, from, use->name.name), *identity = identity_of(a, path);
    UsedFile *seen = find_source(r, identity);
    if (seen) {
        if (seen->state == SOURCE_READING)
            refuse_cycle(r, use);
        return;
    }
    size_t len = 0;
    char *text = r->chain.len < MAX_CHAIN && r->sources.len < MAX_FILES ? file_text(a, path, &len) : NULL;
    if (!text) {
        const char *why = errno == EINVAL ? "it is not a file" : strerror(errno);
        if (r->chain.len >= MAX_CHAIN || r->sources.len >= MAX_FILES)
            why = "too many files";
        diag_add(r->c->m->diags, DIAG_use_missing, use->name.loc,
                 "write the path of a .moe file, relative to the folder of this one",
                 "cannot read \"%s\": %s", path, why);
        r->c->broken = 1;
        return;
    }
    read_text(r, path, text, len);
}

static void read_text(FileReader *r, const char *path, const char *text, size_t len)
{
    Sema *c = r->c;
    uint32_t at = r->sources.len, depth = r->chain.len;
    vec_push(c->arena, &r->sources, (UsedFile){identity_of(c->arena, path), SOURCE_READING});
    vec_push(c->arena, &r->chain, path);
    AstFile *ast = source_read(c->m, path, TEXT_FILE, &text, &len);
    c->broken |= !ast || ast->broken;
    for (uint32_t i = 0; ast && i < ast->decls.len; i++) {
        const AstDecl *d = ast->decls.at[i];
        if (d->kind == DECL_USE && depth == 0)
            vec_push(c->arena, &c->uses, d->name);
        if (d->kind == DECL_USE)
            read_used(r, path, d);
        else if (d->kind != DECL_TEST || depth == 0) /* the tests of a used file stay its own */
            vec_push(c->arena, &c->decls, d);
    }
    r->sources.at[at].state = SOURCE_DONE;
    r->chain.len = depth;
}

/* The text that the scanner and the diagnostics keep pointers into: it lives as long as the module. One that is too long is not
 * read, and needs no copy. */
static const char *copy_of(Arena *a, const char *text, size_t len)
{
    return len <= FRONTEND_MAX_BYTES ? arena_strndup(a, text, len) : text;
}

/* Blocks of kernels that a later block is about, from `first` on, go. */
static void replace_schedules(Sema *c, uint32_t first)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->decls.len; i++) {
        const AstDecl *d = c->decls.at[i];
        int replaced = 0;
        for (uint32_t n = first; d->kind == DECL_SCHEDULE && i < first && n < c->decls.len; n++)
            replaced |= c->decls.at[n]->kind == DECL_SCHEDULE && c->decls.at[n]->name.name == d->name.name;
        if (!replaced)
            c->decls.at[kept++] = d;
    }
    c->decls.len = kept;
}

/* Blocks of one kind that are given beside the file, under a name of their own; NULL: the word. */
static void read_blocks(Sema *c, const char *blocks, AstDeclKind kind, const char *word, const char *name)
{
    size_t len = strlen(blocks);
    const char *text = copy_of(c->arena, blocks, len);
    const AstFile *ast =
        source_read(c->m, arena_printf(c->arena, "<%s>", name ? name : word), TEXT_BESIDE, &text, &len);
    c->broken |= !ast || ast->broken;
    for (uint32_t i = 0; ast && i < ast->decls.len; i++) {
        const AstDecl *d = ast->decls.at[i];
        if (d->kind == kind) {
            vec_push(c->arena, &c->decls, d);
        } else {
            diag_add(c->m->diags, DIAG_given_block, d->loc, "leave the rest in the program",
                     "what is given as %s beside a program holds `%s` blocks only", word, word);
            c->broken = 1;
        }
    }
}

static void read_extras(Sema *c, FrontendExtras extras)
{
    if (extras.derive)
        read_blocks(c, extras.derive, DECL_DERIVE, "derive", NULL);
    uint32_t first = c->decls.len;
    if (extras.schedule)
        read_blocks(c, extras.schedule, DECL_SCHEDULE, "schedule", extras.schedule_from);
    replace_schedules(c, first);
    if (extras.types)
        sema_take_types(c, extras.types);
}

Sema *sema_read(Module *m, const char *path, const char *text, size_t len, FrontendExtras extras)
{
    Sema *c = arena_new_of(m->arena, Sema);
    *c = (Sema){.m = m, .arena = m->arena};
    c->types.arena = c->dims.arena = c->groups.arena = c->functions.arena = c->kernels.arena =
        c->derived.arena = c->bad.arena = m->arena;
    FileReader r = {.c = c};
    read_text(&r, path, copy_of(m->arena, text, len), len);
    read_extras(c, extras);
    return c;
}

int frontend_read_with(Module *m, const char *path, const char *text, size_t len, FrontendExtras extras)
{
    uint32_t before = m->diags->errors, main = m->diags->files.len;
    Sema *c = sema_read(m, path, text, len, extras);
    sema_declarations(c);
    if (m->diags->errors == before && m->diags->files.len)
        sema_warn(c, main);
    return m->diags->errors != before;
}

int frontend_read(Module *m, const char *path, const char *text, size_t len)
{
    return frontend_read_with(m, path, text, len, (FrontendExtras){0});
}
