/* The files of a model: one, or several with an index. */
#include "model/safetensors.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- files ---- */

static const char *add_file(Arena *a, SafeTensors *s, const char *path)
{
    MappedFile file;
    StoredTensors tensors;
    const char *error = file_map(a, path, &file);
    if (error)
        return error;
    vec_push(a, &s->files, file);
    vec_push(a, &s->names, path);
    error = safetensors_parse(a, path, file.at, file.len, &tensors);
    for (uint32_t i = 0; !error && i < tensors.len; i++) {
        tensors.at[i].file = s->files.len - 1;
        vec_push(a, &s->tensors, tensors.at[i]);
    }
    return error;
}

static int compare_names(const void *a, const void *b)
{
    const StoredTensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Sorts, and refuses a tensor that two files have; one file has no name twice. */
static const char *sort_tensors(Arena *a, SafeTensors *s)
{
    StoredTensors *t = &s->tensors;
    if (t->len)
        qsort(t->at, t->len, sizeof *t->at, compare_names);
    for (uint32_t i = 1; i < t->len; i++)
        if (strcmp(t->at[i - 1].name, t->at[i].name) == 0)
            return arena_printf(a, "%s: tensor %s stands in %s and in %s", s->path, t->at[i].name,
                                s->names.at[t->at[i - 1].file], s->names.at[t->at[i].file]);
    return NULL;
}

const StoredTensor *safetensors_find(const SafeTensors *s, const char *name)
{
    StoredTensor key = {.name = name};
    return s->tensors.len ? bsearch(&key, s->tensors.at, s->tensors.len, sizeof key, compare_names) : NULL;
}

/* ---- index ---- */

typedef struct IndexEntry {
    const char *tensor, *file;
} IndexEntry;

typedef struct IndexReader {
    Arena *a;
    const char *path;
    Vec(IndexEntry) entries;
} IndexReader;

static const char *read_entries(IndexReader *r, const json_t *root)
{
    json_t *map = json_object_get(root, "weight_map"), *value;
    const char *key;
    if (!json_is_object(map))
        return json_refusal(r->a, r->path, "weight_map", map, "must be an object: tensor -> file");
    json_object_foreach(map, key, value)
    {
        const char *file = json_string_value(value);
        if (!file || !*file || strchr(file, '/'))
            return json_refusal(r->a, r->path, arena_printf(r->a, "weight_map.%s", key), value,
                                "must be the name of a file beside the index");
        IndexEntry e = {arena_strdup(r->a, key), arena_strdup(r->a, file)};
        vec_push(r->a, &r->entries, e);
    }
    return NULL;
}

static const char *read_index(IndexReader *r)
{
    MappedFile file;
    json_error_t why;
    const char *error = file_map(r->a, r->path, &file);
    if (error)
        return error;
    json_t *root = json_loadb(file.at ? (const char *)file.at : "", file.len, JSON_REJECT_DUPLICATES, &why);
    file_unmap(&file);
    if (!root)
        return arena_printf(r->a, "%s:%d:%d: %s", r->path, why.line, why.column, why.text);
    error = read_entries(r, root);
    json_decref(root);
    return error;
}

static int compare_entries(const void *a, const void *b)
{
    const IndexEntry *x = a, *y = b;
    return strcmp(x->file, y->file);
}

static const char *beside(Arena *a, const char *path, const char *file)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_printf(a, "%.*s/%s", (int)(slash - path), path, file) : file;
}

static const char *add_files(IndexReader *r, SafeTensors *s)
{
    const char *error = NULL;
    if (r->entries.len)
        qsort(r->entries.at, r->entries.len, sizeof *r->entries.at, compare_entries);
    for (uint32_t i = 0; !error && i < r->entries.len; i++)
        if (i == 0 || strcmp(r->entries.at[i - 1].file, r->entries.at[i].file) != 0)
            error = add_file(r->a, s, beside(r->a, r->path, r->entries.at[i].file));
    return error;
}

/* The index and the files have the same tensors. */
static const char *check_entries(IndexReader *r, const SafeTensors *s)
{
    for (uint32_t i = 0; i < r->entries.len; i++) {
        const IndexEntry *e = &r->entries.at[i];
        const StoredTensor *t = safetensors_find(s, e->tensor);
        if (!t || strcmp(s->names.at[t->file], beside(r->a, r->path, e->file)) != 0)
            return arena_printf(r->a, "%s: tensor %s is not in %s", r->path, e->tensor, e->file);
    }
    if (s->tensors.len == r->entries.len)
        return NULL;
    return arena_printf(r->a, "%s: names %u tensors, and its files have %u", r->path, r->entries.len,
                        s->tensors.len);
}

static const char *open_index(Arena *a, const char *path, SafeTensors *s)
{
    IndexReader r = {.a = a, .path = path};
    const char *error = read_index(&r);
    if (!error)
        error = add_files(&r, s);
    if (!error)
        error = sort_tensors(a, s);
    return error ? error : check_entries(&r, s);
}

/* ---- paths ---- */

/* The file that stands for a folder. */
static const char *model_in(Arena *a, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return path;
    const char *one = arena_printf(a, "%s/model.safetensors", path);
    return stat(one, &st) == 0 ? one : arena_printf(a, "%s/model.safetensors.index.json", path);
}

const char *safetensors_open(Arena *a, const char *path, SafeTensors *out)
{
    *out = (SafeTensors){.path = model_in(a, path)};
    if (text_ends(out->path, ".json"))
        return open_index(a, out->path, out);
    const char *error = add_file(a, out, out->path);
    return error ? error : sort_tensors(a, out);
}

void safetensors_close(SafeTensors *s)
{
    for (uint32_t i = 0; i < s->files.len; i++)
        file_unmap(&s->files.at[i]);
    *s = (SafeTensors){0};
}
