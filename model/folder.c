#include "model/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HASH_DIGITS = sizeof((FolderHash *)0)->hex - 1 };
static const char sums_name[] = "XXH128SUMS";

const char *folder_aside(Arena *a, const char *path) { return arena_printf(a, "%s.tmp", path); }

static const char *in(Arena *a, const char *folder, const char *name)
{
    return arena_printf(a, "%s/%s", folder, name);
}

static const char *cannot(Arena *a, const char *path, const char *what)
{
    return arena_printf(a, "%s: cannot be %s: %s", path, what, strerror(errno));
}

/* ---- what is in a folder ---- */

static int is_file(const struct dirent *e) { return strcmp(e->d_name, ".") && strcmp(e->d_name, ".."); }

/* In their order. */
static const char *list(Arena *a, const char *folder, FileNames *out)
{
    struct dirent **entries;
    const int n = scandir(folder, &entries, is_file, alphasort);
    if (n < 0)
        return cannot(a, folder, "read");
    for (int i = 0; i < n; i++) {
        vec_push(a, out, arena_printf(a, "%s", entries[i]->d_name));
        free(entries[i]);
    }
    free(entries);
    return NULL;
}

/* ---- making and removing ---- */

static const char *remove_files(Arena *a, const char *folder)
{
    FileNames names = {0};
    const char *error = list(a, folder, &names);
    for (uint32_t i = 0; i < names.len && !error; i++)
        if (unlink(in(a, folder, names.at[i])) != 0)
            error = cannot(a, in(a, folder, names.at[i]), "removed");
    return error || rmdir(folder) == 0 ? error : cannot(a, folder, "removed");
}

static int exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static const char *remove_begun(Arena *a, const char *path)
{
    const char *aside = folder_aside(a, path);
    return exists(aside) ? remove_files(a, aside) : NULL;
}

void folder_discard(Arena *a, const char *path) { (void)remove_begun(a, path); }

/* Another name first: what is removed halfway must not look whole. */
const char *folder_remove(Arena *a, const char *path)
{
    const char *aside = folder_aside(a, path), *error = remove_begun(a, path);
    if (error || !exists(path))
        return error;
    return rename(path, aside) == 0 ? remove_files(a, aside) : cannot(a, path, "removed");
}

const char *folder_begin(Arena *a, const char *path, const char **aside)
{
    const char *error = remove_begun(a, path);
    *aside = folder_aside(a, path);
    return error || mkdir(*aside, 0777) == 0 ? error : cannot(a, *aside, "made");
}

/* ---- checksums ---- */

static const char *hash_of(Arena *a, const char *path, char hash[HASH_DIGITS + 1])
{
    const int reason = hash_file(path, hash);
    return reason ? arena_printf(a, "%s: cannot be read: %s", path, strerror(reason)) : NULL;
}

const char *folder_sums(Arena *a, const char *path, uint32_t first, uint32_t step, FolderSums *out)
{
    const char *aside = folder_aside(a, path), *error = list(a, aside, &out->names);
    out->hashes = arena_array(a, FolderHash, out->names.len + 1);
    for (uint32_t i = first; i < out->names.len && !error; i += step)
        error = hash_of(a, in(a, aside, out->names.at[i]), out->hashes[i].hex);
    return error;
}

static const char *write_sums(Arena *a, const char *folder, const FolderSums *s)
{
    FileWriter w = file_create(a, in(a, folder, sums_name));
    for (uint32_t i = 0; i < s->names.len; i++) {
        const char *line = arena_printf(a, "%s  %s\n", s->hashes[i].hex, s->names.at[i]);
        file_append(&w, line, strlen(line));
    }
    return file_commit(&w);
}

/* An older folder of that path makes room, and is removed when the new one is there. */
const char *folder_commit(Arena *a, const char *path, const FolderSums *sums)
{
    const char *aside = folder_aside(a, path), *older = arena_printf(a, "%s.old.tmp", path);
    const char *error = write_sums(a, aside, sums);
    if (!error && exists(older))
        error = remove_files(a, older);
    if (!error && exists(path) && rename(path, older) != 0)
        error = cannot(a, path, "replaced");
    if (!error && rename(aside, path) != 0)
        error = cannot(a, path, "made");
    if (!error && (errno = file_sync_name(a, path)) != 0)
        error = cannot(a, path, "written");
    return !error && exists(older) ? remove_files(a, older) : error;
}

/* HASH  NAME; gives the name, or NULL when the line is another one. */
static const char *verify_line(Arena *a, const char *folder, const char *line, size_t len, const char **error)
{
    char hash[HASH_DIGITS + 1];
    if (len <= HASH_DIGITS + 2 || memcmp(line + HASH_DIGITS, "  ", 2) != 0 || memchr(line, '/', len)) {
        *error =
            arena_printf(a, "%s: a line is no checksum with the name of a file", in(a, folder, sums_name));
        return NULL;
    }
    const char *name = arena_strndup(a, line + HASH_DIGITS + 2, len - HASH_DIGITS - 2),
               *path = in(a, folder, name);
    *error = hash_of(a, path, hash);
    if (!*error && memcmp(hash, line, HASH_DIGITS) != 0)
        *error = arena_printf(a, "%s: its content is not what was written: the checksum differs", path);
    return name;
}

static int is_listed(const FileNames *names, const char *name)
{
    for (uint32_t i = 0; i < names->len; i++)
        if (!strcmp(names->at[i], name))
            return 1;
    return 0;
}

const char *folder_verify(Arena *a, const char *path)
{
    MappedFile sums;
    FileNames names = {0}, files = {0};
    const char *error = file_map(a, in(a, path, sums_name), &sums);
    const char *at = (const char *)sums.at, *end = at ? at + sums.len : at;
    for (const char *next; at < end && !error; at = next) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        next = line_end ? line_end + 1 : end;
        vec_push(a, &names, verify_line(a, path, at, (size_t)((line_end ? line_end : end) - at), &error));
    }
    file_unmap(&sums);
    error = error ? error : list(a, path, &files);
    for (uint32_t i = 0; i < files.len && !error; i++)
        if (strcmp(files.at[i], sums_name) != 0 && !is_listed(&names, files.at[i]))
            error = arena_printf(a, "%s: has no checksum in %s", in(a, path, files.at[i]), sums_name);
    return error;
}
