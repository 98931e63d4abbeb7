/* Safetensors files that several processes fill. */
#include "base/json.h"
#include "model/safetensors.h"

#include <string.h>

/* The first tensor behind the file that begins with `first`. */
static uint32_t end_of(const StoredTensor *tensors, uint32_t first, uint32_t n, uint64_t file_bytes)
{
    uint64_t bytes = tensors[first].bytes;
    uint32_t end = first + 1;
    while (end < n && bytes + tensors[end].bytes <= file_bytes)
        bytes += tensors[end++].bytes;
    return end;
}

static void place_tensors(SafeCut *c, SafeFile *f)
{
    f->header = safetensors_header(c->arena, c->tensors + f->first, f->end - f->first);
    f->bytes = f->header.len;
    for (uint32_t i = f->first; i < f->end; i++) {
        c->places[i] = f->bytes;
        f->bytes += c->tensors[i].bytes;
    }
}

SafeCut safetensors_cut(Arena *a, const char *folder, const char *stem, const StoredTensor *tensors,
                        uint32_t n, uint64_t file_bytes)
{
    SafeCut c = {a, folder, stem, tensors, arena_array(a, uint64_t, n + 1), {0}};
    for (uint32_t first = 0, end; first < n || !c.files.len; first = end) {
        end = first < n ? end_of(tensors, first, n, file_bytes) : n;
        vec_push(a, &c.files, (SafeFile){.first = first, .end = end});
    }
    for (uint32_t i = 0; i < c.files.len; i++) {
        c.files.at[i].name = c.files.len == 1
                                 ? arena_printf(a, "%s.safetensors", stem)
                                 : arena_printf(a, "%s-%05u-of-%05u.safetensors", stem, i + 1, c.files.len);
        place_tensors(&c, &c.files.at[i]);
    }
    return c;
}

static const char *path_of(const SafeCut *c, const SafeFile *f)
{
    return c->folder ? arena_printf(c->arena, "%s/%s", c->folder, f->name) : f->name;
}

static const char *write_index(const SafeCut *c)
{
    uint64_t bytes = 0;
    json_t *map = json_object();
    for (uint32_t i = 0; i < c->files.len; i++)
        for (uint32_t t = c->files.at[i].first; t < c->files.at[i].end; t++) {
            json_object_set_new(map, c->tensors[t].name, json_string(c->files.at[i].name));
            bytes += c->tensors[t].bytes;
        }
    const char *text = json_text(c->arena, json_pack("{s:{s:I}, s:o}", "metadata", "total_size",
                                                     (json_int_t)bytes, "weight_map", map));
    FileWriter f =
        file_create(c->arena, arena_printf(c->arena, "%s/%s.safetensors.index.json", c->folder, c->stem));
    file_append(&f, text, strlen(text));
    file_append(&f, "\n", 1);
    return file_commit(&f);
}

const char *safetensors_make(const SafeCut *c)
{
    const char *error = NULL;
    for (uint32_t i = 0; i < c->files.len && !error; i++) {
        const SafeFile *f = &c->files.at[i];
        error = file_reserve(c->arena, path_of(c, f), f->bytes);
    }
    return !error && c->files.len > 1 ? write_index(c) : error;
}

const char *safetensors_fill(const SafeCut *c, int first, SafeFill *fill, void *self)
{
    const char *error = NULL;
    for (uint32_t i = 0; i < c->files.len && !error; i++) {
        const SafeFile *f = &c->files.at[i];
        FilePatch patch = file_patch(c->arena, path_of(c, f));
        if (first)
            file_put(&patch, 0, f->header.at, f->header.len);
        for (uint32_t t = f->first; t < f->end && !patch.error; t++)
            fill(self, &patch, t, c->places[t]);
        error = file_patched(&patch);
    }
    return error;
}
