/* A safetensors file, written from its header on. */
#include "model/safetensors.h"

#include "base/json.h"

enum { LENGTH_BYTES = 8 };

static uint64_t stored_bytes(const StoredTensor *t)
{
    return (uint64_t)stored_elements(t) * stored_type_bytes(t->type);
}

static json_t *entry_of(const StoredTensor *t, uint64_t begin, uint64_t end)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < t->rank; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", stored_type_name(t->type), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

/* Elements begin at a multiple of 8 bytes, so that who maps the file can read them in place. */
static void pad(Text *header)
{
    while (header->len % 8)
        text_add(header, " ");
}

Text safetensors_header(Arena *a, const StoredTensor *tensors, uint32_t n)
{
    Text t = {.arena = a};
    uint64_t end = 0;
    text_add_bytes(&t, "\0\0\0\0\0\0\0", LENGTH_BYTES);
    json_t *header =
        json_pack("{s:{s:s}}", "__metadata__", "format", "pt"); /* `transformers` asks for a format */
    for (uint32_t i = 0; i < n; i++) {
        uint64_t begin = end;
        end += stored_bytes(&tensors[i]);
        json_object_set_new(header, tensors[i].name, entry_of(&tensors[i], begin, end));
    }
    text_add(&t, "%s", json_line(a, header));
    pad(&t);
    for (int i = 0; i < LENGTH_BYTES; i++)
        t.at[i] = (char)((t.len - LENGTH_BYTES) >> 8 * i);
    return t;
}

SafeWriter safetensors_create(Arena *a, const char *path, const StoredTensor *tensors, uint32_t n)
{
    SafeWriter w = {.file = file_create(a, path)};
    Text header = safetensors_header(a, tensors, n);
    for (uint32_t i = 0; i < n; i++)
        w.left += stored_bytes(&tensors[i]);
    file_append(&w.file, header.at, header.len);
    return w;
}

void safetensors_append(SafeWriter *w, const void *bytes, size_t len)
{
    if (len > w->left && !w->file.error)
        w->file.error = arena_printf(w->file.arena, "%s: more elements than its header says", w->file.path);
    file_append(&w->file, bytes, len);
    w->left -= len > w->left ? w->left : len;
}

const char *safetensors_commit(SafeWriter *w)
{
    if (w->left && !w->file.error)
        w->file.error = arena_printf(w->file.arena, "%s: fewer elements than its header says", w->file.path);
    return file_commit(&w->file);
}

void safetensors_drop(SafeWriter *w) { file_drop(&w->file); }
