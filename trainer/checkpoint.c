#include "trainer/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

const char *checkpoint_verify(Arena *a, const char *path)
{
    static const char *const needed[] = {"config.json", CHECKPOINT_OPTIONS, CHECKPOINT_OPTIMIZER,
                                         CHECKPOINT_STATE};
    const char *error = folder_verify(a, path);
    for (size_t i = 0; i < sizeof needed / sizeof *needed && !error; i++)
        if (access(arena_printf(a, "%s/%s", path, needed[i]), R_OK) != 0)
            error = arena_printf(a, "%s/%s: cannot be read: %s", path, needed[i], strerror(errno));
    return error;
}

static void add_moment(Arena *a, OptimizerTensors *out, const ModelWeight *w, const char *which, float *at)
{
    OptimizerTensor o = {{.name = arena_printf(a, "%s.%s", which, w->name),
                          .type = STORED_F32,
                          .rank = 3,
                          .shape = {w->matrices, w->rows, w->columns}},
                         at};
    o.stored.bytes = (size_t)stored_elements(&o.stored) * stored_type_bytes(o.stored.type);
    vec_push(a, out, o);
}

OptimizerTensors checkpoint_optimizer(Arena *a, const Whole *first, const Whole *second)
{
    const ModelWeights *all = &first->t->session.weights;
    OptimizerTensors out = {0};
    for (uint32_t i = 0; i < all->len; i++)
        if (model_weight_has_gradient(&all->at[i])) {
            add_moment(a, &out, &all->at[i], "moment1", first->at[i]);
            add_moment(a, &out, &all->at[i], "moment2", second->at[i]);
        }
    return out;
}
