#include "trainer/state.h"

#include <string.h>

static const struct StateField {
    const char *name;
    StoredType type;
    size_t at;
} fields[] = {
    {"steps", STORED_I64, offsetof(TrainState, steps)},
    {"updates", STORED_I64, offsetof(TrainState, updates)},
    {"skipped", STORED_I64, offsetof(TrainState, skipped)},
    {"sequences", STORED_I64, offsetof(TrainState, sequences)},
    {"data", STORED_I64, offsetof(TrainState, data)},
    {"norm_mean", STORED_F32, offsetof(TrainState, norm_mean)},
};
enum { FIELDS = sizeof fields / sizeof *fields };

const char *state_write(Arena *a, const char *path, const TrainState *s)
{
    StoredTensor tensors[FIELDS] = {0};
    for (int i = 0; i < FIELDS; i++)
        tensors[i] = (StoredTensor){.name = fields[i].name, .type = fields[i].type};
    SafeWriter w = safetensors_create(a, path, tensors, FIELDS);
    for (int i = 0; i < FIELDS; i++)
        safetensors_append(&w, (const char *)s + fields[i].at, stored_type_bytes(fields[i].type));
    return safetensors_commit(&w);
}

const char *state_read(Arena *a, const char *path, TrainState *s)
{
    SafeTensors file;
    const char *error = safetensors_open(a, path, &file);
    for (int i = 0; i < FIELDS && !error; i++) {
        const StoredTensor *t = safetensors_find(&file, fields[i].name);
        if (!t || t->type != fields[i].type || t->rank)
            error = arena_printf(a, "%s: needs a number `%s`, %s", path, fields[i].name,
                                 stored_type_name(fields[i].type));
        else
            memcpy((char *)s + fields[i].at, t->at, t->bytes);
    }
    safetensors_close(&file);
    return error;
}
