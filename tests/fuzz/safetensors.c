/* A file of tensors. Promise: tensors that are accepted lie one behind the other and fill the file, so that every element can be
 * read; written again, the file has the same tensors. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "model/model.h"

static const unsigned char *read_all(const StoredTensor *t, const unsigned char *end)
{
    float value;
    if (t->at != end || t->bytes != (size_t)stored_elements(t) * stored_type_bytes(t->type))
        fuzz_fail("tensor %s is not where the one before it ends", t->name);
    for (int64_t i = 0; t->type <= STORED_F16 && i < stored_elements(t); i++) {
        unsigned char back[4];
        stored_read(t, i, 1, &value);
        stored_convert(t->type, &value, 1, back);
        if (value == value &&
            memcmp(back, t->at + (size_t)i * stored_type_bytes(t->type), stored_type_bytes(t->type)) != 0)
            fuzz_fail("element %lld of %s reads back differently", (long long)i, t->name);
    }
    return end + t->bytes;
}

/* The entries that a header made of these tensors would hold. */
static void header_again(Arena *a, const StoredTensors *tensors)
{
    StoredTensors again;
    Text t = safetensors_header(a, tensors->at, tensors->len);
    size_t data = 0;
    for (uint32_t i = 0; i < tensors->len; i++)
        data += tensors->at[i].bytes;
    for (; data; data--)
        text_add_bytes(&t, "", 1);
    const char *error = safetensors_parse(a, "again", (const unsigned char *)t.at, t.len, &again);
    if (error || again.len != tensors->len)
        fuzz_fail("written again: %s", error ? error : "another number of tensors");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    StoredTensors tensors;
    fuzz_begin();
    FuzzText f = fuzz_text();
    if (!safetensors_parse(f.arena, "f", data, size, &tensors)) {
        const unsigned char *end = tensors.len ? tensors.at[0].at : NULL;
        for (uint32_t i = 0; i < tensors.len; i++)
            end = read_all(&tensors.at[i], end);
        if (tensors.len && end != data + size)
            fuzz_fail("bytes behind the last tensor");
        header_again(f.arena, &tensors);
    }
    fuzz_free(&f);
    fuzz_end();
    return 0;
}
