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

/* By buffer: a task goes on from what it holds. Others are made anew by each step. */
static char *updated_buffers(Arena *a, const Program *p)
{
    char *updated = arena_array(a, char, p->buffers.len + 1);
    for (TaskId t = 0; t < p->tasks.len; t++)
        each_operand(&p->tasks.at[t], o) if (o->use == USE_UPDATE) updated[step_home(p, o->buffer)] = 1;
    return updated;
}

OptimizerTensors checkpoint_optimizer(Arena *a, const Trainer *t)
{
    OptimizerTensors out = {0};
    const char *updated = updated_buffers(a, t->program);
    for (BufferId i = 0; i < t->program->buffers.len; i++) {
        const StepBuffer *b = &t->program->buffers.at[i];
        if (b->owner != OWNER_optimizer || !updated[i])
            continue;
        OptimizerTensor o = {{.name = b->name, .type = STORED_F32, .rank = b->rank},
                             session_at(&t->session, "%s", b->name)};
        memcpy(o.stored.shape, b->shape, b->rank * sizeof *b->shape);
        o.stored.bytes = (size_t)stored_elements(&o.stored) * stored_type_bytes(o.stored.type);
        vec_push(a, &out, o);
    }
    return out;
}
