/* One safetensors file: from bytes to tensors, each rule of the format checked. */
#include "model/safetensors.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };
static const uint64_t HEADER_MAX = 100000000; /* of the format */

static const struct {
    const char *name;
    size_t bytes;
} types[STORED_TYPES] = {
    [STORED_F32] = {"F32", 4}, [STORED_BF16] = {"BF16", 2}, [STORED_F16] = {"F16", 2},
    [STORED_I32] = {"I32", 4}, [STORED_I64] = {"I64", 8},
};

const char *stored_type_name(StoredType type) { return types[type].name; }

size_t stored_type_bytes(StoredType type) { return types[type].bytes; }

int64_t stored_elements(const StoredTensor *t)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

const char *stored_shape_text(Arena *a, const StoredTensor *t)
{
    Text text = {.arena = a};
    text_add(&text, "[");
    for (uint32_t i = 0; i < t->rank; i++)
        text_add(&text, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    text_add(&text, "]");
    return text_string(&text);
}

typedef struct HeaderReader {
    Arena *a;
    const char *file;
    const unsigned char *data; /* behind the header */
    uint64_t data_bytes;
    StoredTensors *out;
    const char *error; /* the first one */
} HeaderReader;

/* FILE: tensor NAME */
static const char *tensor_of(HeaderReader *r, const char *name)
{
    json_t *text = json_string(name); /* printable, whatever it holds */
    const char *tensor = arena_printf(r->a, "%s: tensor %s", r->file, json_excerpt(r->a, text));
    json_decref(text);
    return tensor;
}

/* FILE: tensor NAME: FIELD is VALUE: RULE. Returns 0, like every reader below that refuses. */
static int refuse(HeaderReader *r, const char *name, const char *field, const json_t *value, const char *rule)
{
    r->error = json_refusal(r->a, tensor_of(r, name), field, value, rule);
    return 0;
}

/* ---- one tensor ---- */

static int read_type(HeaderReader *r, const char *name, const json_t *value, StoredType *out)
{
    for (int i = 0; json_is_string(value) && i < STORED_TYPES; i++)
        if (strcmp(json_string_value(value), types[i].name) == 0)
            return *out = (StoredType)i, 1;
    return refuse(r, name, "dtype", value, "must be one of: F32, BF16, F16, I32, I64");
}

/* A whole number from 0 on; -1: it is none. */
static int64_t whole(const json_t *value) { return json_is_integer(value) ? json_integer_value(value) : -1; }

static int read_shape(HeaderReader *r, const char *name, const json_t *value, StoredTensor *t)
{
    int64_t elements = 1;
    if (!json_is_array(value) || json_array_size(value) > STORED_MAX_RANK)
        return refuse(r, name, "shape", value, "must be a list of at most 8 extents");
    t->rank = (uint32_t)json_array_size(value);
    for (uint32_t i = 0; i < t->rank; i++) {
        t->shape[i] = whole(json_array_get(value, i));
        if (t->shape[i] < 0)
            return refuse(r, name, "shape", value, "extents must be whole numbers from 0 on");
        if (__builtin_mul_overflow(elements, t->shape[i], &elements))
            return refuse(r, name, "shape", value, "the number of elements must fit 64 bits");
    }
    if (__builtin_mul_overflow((uint64_t)elements, types[t->type].bytes, &t->bytes))
        return refuse(r, name, "shape", value, "the number of bytes must fit 64 bits");
    return 1;
}

static int read_place(HeaderReader *r, const char *name, const json_t *value, StoredTensor *t)
{
    int64_t begin = whole(json_array_get(value, 0)), end = whole(json_array_get(value, 1));
    if (json_array_size(value) != 2 || begin < 0 || end < begin)
        return refuse(r, name, "data_offsets", value, "must be begin and end");
    if ((uint64_t)end > r->data_bytes)
        return refuse(
            r, name, "data_offsets", value,
            arena_printf(r->a, "must be inside the %" PRIu64 " bytes behind the header", r->data_bytes));
    if ((uint64_t)(end - begin) != t->bytes)
        return refuse(r, name, "data_offsets", value,
                      arena_printf(r->a, "must be %zu bytes, because %s has shape %s", t->bytes,
                                   types[t->type].name, stored_shape_text(r->a, t)));
    t->at = r->data + begin;
    return 1;
}

static int read_tensor(HeaderReader *r, const char *name, json_t *value)
{
    StoredTensor t = {.name = arena_strdup(r->a, name)};
    if (!json_is_object(value))
        return refuse(r, name, "entry", value, "must be an object with dtype, shape and data_offsets");
    if (!read_type(r, name, json_object_get(value, "dtype"), &t.type) ||
        !read_shape(r, name, json_object_get(value, "shape"), &t) ||
        !read_place(r, name, json_object_get(value, "data_offsets"), &t))
        return 0;
    vec_push(r->a, r->out, t);
    return 1;
}

/* ---- all of them ---- */

static int read_metadata(HeaderReader *r, json_t *object)
{
    const char *key;
    json_t *value;
    int texts = json_is_object(object);
    json_object_foreach(object, key, value) /* none where it is no object */
    {
        texts = texts && json_is_string(value);
    }
    if (!texts)
        r->error = json_refusal(r->a, r->file, "__metadata__", object, "must be an object of texts");
    return texts;
}

static int read_header(HeaderReader *r, json_t *root)
{
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        int metadata = strcmp(key, "__metadata__") == 0;
        if (!(metadata ? read_metadata(r, value) : read_tensor(r, key, value)))
            return 0;
    }
    return 1;
}

/* By place; tensors without elements come before the one that begins where they are. */
static int compare_places(const void *a, const void *b)
{
    const StoredTensor *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int check_places(HeaderReader *r)
{
    const unsigned char *end = r->data;
    if (r->out->len)
        qsort(r->out->at, r->out->len, sizeof *r->out->at, compare_places);
    for (uint32_t i = 0; i < r->out->len; i++) {
        const StoredTensor *t = &r->out->at[i];
        if (t->at != end) {
            r->error = arena_printf(r->a, "%s: begins at byte %td: the one before it ends at %td",
                                    tensor_of(r, t->name), t->at - r->data, end - r->data);
            return 0;
        }
        end += t->bytes;
    }
    uint64_t rest = r->data_bytes - (uint64_t)(end - r->data);
    if (rest)
        r->error = arena_printf(r->a, "%s: the last %" PRIu64 " bytes belong to no tensor", r->file, rest);
    return rest == 0;
}

/* The header's length; 0 after an error. */
static uint64_t header_length(HeaderReader *r, const unsigned char *bytes, size_t len)
{
    uint64_t n = 0;
    for (int i = LENGTH_BYTES - 1; len >= LENGTH_BYTES && i >= 0; i--)
        n = n << 8 | bytes[i];
    if (len < LENGTH_BYTES)
        r->error = arena_printf(r->a, "%s: has %zu bytes: a header's length takes 8", r->file, len);
    else if (n > HEADER_MAX || n > len - LENGTH_BYTES)
        r->error = arena_printf(
            r->a, "%s: the header has %" PRIu64 " bytes: at most %" PRIu64 ", and not beyond the end",
            r->file, n, HEADER_MAX);
    else if (n == 0 || bytes[LENGTH_BYTES] != '{')
        r->error = arena_printf(r->a, "%s: the header must begin with {", r->file);
    return r->error ? 0 : n;
}

const char *safetensors_parse(Arena *a, const char *file, const unsigned char *bytes, size_t len,
                              StoredTensors *out)
{
    json_error_t why;
    HeaderReader r = {.a = a, .file = file, .out = out};
    *out = (StoredTensors){0};
    uint64_t header = header_length(&r, bytes, len);
    if (r.error)
        return r.error;
    r.data = bytes + LENGTH_BYTES + header;
    r.data_bytes = len - LENGTH_BYTES - header;
    json_t *root = json_loadb((const char *)bytes + LENGTH_BYTES, header, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return arena_printf(a, "%s: header:%d:%d: %s", file, why.line, why.column, why.text);
    if (read_header(&r, root))
        check_places(&r);
    json_decref(root);
    return r.error;
}
