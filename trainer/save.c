/* Writing checkpoints. */
#include "trainer/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/complain.h"
#include "trainer/job.h"

/* ---- the folder ---- */

static const char *lock(Arena *a, SaveFolder *f)
{
    if (mkdir(f->path, 0777) != 0 && errno != EEXIST)
        return arena_printf(a, "cannot be made: %s", strerror(errno));
    f->lock = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->lock < 0 || faccessat(f->lock, ".", W_OK, 0) != 0)
        return arena_printf(a, "cannot be written: %s", strerror(errno));
    return flock(f->lock, LOCK_EX | LOCK_NB) == 0 ? NULL : "another moe-train saves there";
}

/* A run may replace a checkpoint that is not whole, and no other. */
static const char *check_later(Arena *a, const SaveFolder *f, int64_t step)
{
    Checkpoints known = {0};
    const char *error = checkpoint_list(a, f->path, &known);
    for (uint32_t i = known.len; i-- > 0 && known.at[i].step > step && !error;)
        if (!checkpoint_verify(a, known.at[i].path))
            error = arena_printf(
                a,
                "has %s, and this run is at step %lld: go on from there with --resume, or save into "
                "another folder",
                strrchr(known.at[i].path, '/') + 1, (long long)step);
    return error;
}

/* What a run that was killed had begun. */
static void remove_begun(Arena *a, const SaveFolder *f)
{
    DIR *d = opendir(f->path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        const size_t n = strlen(e->d_name);
        if (n > 4 && !strncmp(e->d_name, "step-", 5) && !strcmp(e->d_name + n - 4, ".tmp"))
            folder_remove(a, arena_printf(a, "%s/%.*s", f->path, (int)n - 4, e->d_name));
    }
    if (d)
        closedir(d);
}

int save_open(SaveFolder *f, const Config *c, int writes)
{
    *f = (SaveFolder){
        .path = writes ? c->save : NULL, .lock = -1, .asked = c->save != NULL, .saved = c->checkpoint_step};
    if (!f->path)
        return 0;
    const char *error = lock(c->arena, f);
    if (!error)
        error = check_later(c->arena, f, c->checkpoint ? c->checkpoint_step : 0);
    if (error)
        return complain("--save %s: %s", f->path, error);
    remove_begun(c->arena, f);
    return 0;
}

void save_close(SaveFolder *f)
{
    if (f->path && f->lock >= 0)
        close(f->lock);
}

/* ---- the files ---- */

/* What the ranks keep, all of it. */
typedef struct SavedTensors {
    Whole masters, first, second;
} SavedTensors;

static const char *save_weights(Arena *a, const Trainer *t, const Whole *masters, const char *folder)
{
    const Session *s = &t->session;
    return model_weights_save(a, folder, &s->model, &s->weights, (const float *const *)masters->at,
                              STORED_F32, (uint64_t)(t->config->file_limit * 0x1p20));
}

static const char *save_optimizer(Arena *a, const SavedTensors *kept, const char *path)
{
    const OptimizerTensors all = checkpoint_optimizer(a, &kept->first, &kept->second);
    StoredTensor *tensors = arena_array(a, StoredTensor, all.len + 1);
    for (uint32_t i = 0; i < all.len; i++)
        tensors[i] = all.at[i].stored;
    SafeWriter w = safetensors_create(a, path, tensors, all.len);
    for (uint32_t i = 0; i < all.len; i++)
        safetensors_append(&w, all.at[i].at, all.at[i].stored.bytes);
    return safetensors_commit(&w);
}

static const char *save_options(Arena *a, const Config *c, const char *path)
{
    const char *text = json_text(a, config_json(c));
    FileWriter w = file_create(a, path);
    file_append(&w, text, strlen(text));
    file_append(&w, "\n", 1);
    return file_commit(&w);
}

static const char *save_files(Arena *a, const Trainer *t, const SavedTensors *kept, const char *folder)
{
    const char *error = save_weights(a, t, &kept->masters, folder);
    if (!error)
        error = save_optimizer(a, kept, arena_printf(a, "%s/" CHECKPOINT_OPTIMIZER, folder));
    if (!error)
        error = state_write(a, arena_printf(a, "%s/" CHECKPOINT_STATE, folder), &t->state);
    return error ? error : save_options(a, t->config, arena_printf(a, "%s/" CHECKPOINT_OPTIONS, folder));
}

/* ---- all of it ---- */

static const char *save(Arena *a, const Trainer *t, const SavedTensors *kept, const char *path)
{
    const char *aside, *error = folder_begin(a, path, &aside);
    if (!error)
        error = save_files(a, t, kept, aside);
    if (!error)
        return folder_commit(a, path);
    folder_discard(a, path); /* gives a full disk its room back */
    return error;
}

/* Of the checkpoints up to this one, all but the last ones. */
static const char *remove_old(Arena *a, const SaveFolder *f, const Trainer *t)
{
    Checkpoints known = {0};
    const char *error = checkpoint_list(a, f->path, &known);
    uint32_t n = 0;
    while (n < known.len && known.at[n].step <= t->state.steps)
        n++;
    for (uint32_t i = 0; (int64_t)i < (int64_t)n - t->config->keep && !error; i++)
        error = folder_remove(a, known.at[i].path);
    return error;
}

/* The rank that writes: an error is its own affair. */
static void write_checkpoint(SaveFolder *f, const Trainer *t, const SavedTensors *kept)
{
    Arena *a = arena_new();
    if (!a)
        return;
    const char *error =
        save(a, t, kept, arena_printf(a, "%s/step-%08lld", f->path, (long long)t->state.steps));
    f->failed = error != NULL;
    if (!error)
        error = remove_old(a, f, t);
    if (error)
        complain("checkpoint of step %lld: %s", (long long)t->state.steps, error);
    arena_free(a);
}

static int collect(const SavedTensors *k)
{
    return whole_collect(&k->masters) || whole_collect(&k->first) || whole_collect(&k->second);
}

int save_now(SaveFolder *f, Trainer *t)
{
    SavedTensors k = {0};
    int bad = whole_open(&k.masters, t, KEPT_MASTERS) || whole_open(&k.first, t, KEPT_MOMENT1) ||
              whole_open(&k.second, t, KEPT_MOMENT2) || collect(&k);
    if (!bad && f->path)
        write_checkpoint(f, t, &k);
    whole_close(&k.masters), whole_close(&k.first), whole_close(&k.second);
    if (bad || job_first(t, "a checkpoint", &f->failed))
        return 1;
    f->saved = f->failed ? f->saved : t->state.steps;
    return 0;
}
