#include "trainer/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *checkpoint_path(Arena *a, const char *folder, int64_t step)
{
    return arena_printf(a, "%s/step-%08lld", folder, (long long)step);
}

/* step-00000100: its number; -1: another name. */
static int64_t step_of(const char *name)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    const long long step = strtoll(name + 5, &end, 10);
    return *end ? -1 : step;
}

static int by_step(const void *a, const void *b)
{
    const Checkpoint *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

const char *checkpoint_list(Arena *a, const char *folder, Checkpoints *out)
{
    DIR *d = opendir(folder);
    if (!d)
        return arena_printf(a, "%s: cannot be read: %s", folder, strerror(errno));
    for (const struct dirent *e; (e = readdir(d));)
        if (step_of(e->d_name) >= 0)
            vec_push(a, out, (Checkpoint){step_of(e->d_name), arena_printf(a, "%s/%s", folder, e->d_name)});
    closedir(d);
    if (out->len)
        qsort(out->at, out->len, sizeof *out->at, by_step);
    return NULL;
}

const char *checkpoint_optimizer_path(Arena *a, const char *checkpoint)
{
    const char *one = arena_printf(a, "%s/" CHECKPOINT_OPTIMIZER ".safetensors", checkpoint),
               *index = arena_printf(a, "%s.index.json", one);
    return access(index, F_OK) == 0 ? index : one;
}

const char *checkpoint_verify(Arena *a, const char *path)
{
    const char *const needed[] = {
        arena_printf(a, "%s/config.json", path), arena_printf(a, "%s/" CHECKPOINT_OPTIONS, path),
        checkpoint_optimizer_path(a, path), arena_printf(a, "%s/" CHECKPOINT_STATE, path)};
    const char *error = folder_verify(a, path);
    for (size_t i = 0; i < sizeof needed / sizeof *needed && !error; i++)
        if (access(needed[i], R_OK) != 0)
            error = arena_printf(a, "%s: cannot be read: %s", needed[i], strerror(errno));
    return error;
}

static void add_moment(Arena *a, OptimizerTensors *out, const ModelWeight *w, const char *which,
                       const WeightSlice *slice)
{
    StoredTensor *t = &out->stored[out->len];
    *t = (StoredTensor){.name = arena_printf(a, "%s.%s", which, w->name),
                        .type = STORED_F32,
                        .rank = 3,
                        .shape = {w->matrices, w->rows, w->columns}};
    t->bytes = (size_t)stored_elements(t) * stored_type_bytes(t->type);
    out->slices[out->len++] = *slice;
}

OptimizerTensors checkpoint_optimizer(Arena *a, const Session *s,
                                      WeightSlice *(*slices)(Arena *, const Session *, Kept))
{
    const ModelWeights *all = &s->weights;
    const WeightSlice *first = slices(a, s, KEPT_MOMENT1), *second = slices(a, s, KEPT_MOMENT2);
    OptimizerTensors out = {.stored = arena_array(a, StoredTensor, 2 * all->len + 1),
                            .slices = arena_array(a, WeightSlice, 2 * all->len + 1)};
    for (uint32_t i = 0; i < all->len; i++)
        if (model_weight_has_gradient(&all->at[i])) {
            add_moment(a, &out, &all->at[i], "moment1", &first[i]);
            add_moment(a, &out, &all->at[i], "moment2", &second[i]);
        }
    return out;
}
