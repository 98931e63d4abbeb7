#include "trainer/state.h"

#include <math.h>
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

static const char *refuse_count(Arena *a, const char *path, const char *name, int64_t value, int64_t most)
{
    return value >= 0 && value <= most ? NULL
                                       : arena_printf(a, "%s: `%s` is %lld, and must be from 0 to %lld", path,
                                                      name, (long long)value, (long long)most);
}

/* What no run can have written: one that went on from it would stop for other reasons, or not stop where it should. */
static const char *refuse_state(Arena *a, const char *path, const TrainState *s)
{
    const char *error = refuse_count(a, path, "steps", s->steps, INT64_MAX);
    if (!error)
        error = refuse_count(a, path, "updates", s->updates, s->steps);
    if (!error)
        error = refuse_count(a, path, "skipped", s->skipped, s->steps - s->updates);
    if (!error)
        error = refuse_count(a, path, "sequences", s->sequences, INT64_MAX);
    if (!error && !(s->norm_mean >= 0 && isfinite(s->norm_mean)))
        error = arena_printf(a, "%s: `norm_mean` is %g, and must be 0 or a positive number", path,
                             (double)s->norm_mean);
    return error;
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
    return error ? error : refuse_state(a, path, s);
}
