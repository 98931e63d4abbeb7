/* Writing checkpoints. */
#include "trainer/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "trainer/complain.h"
#include "trainer/job.h"

/* ---- the folder ---- */

static const char *lock(Arena *a, SaveFolder *f)
{
    const int reason = file_make_folder(a, f->path, 0777);
    if (reason)
        return arena_printf(a, "cannot be made: %s", strerror(reason));
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

int save_open(SaveFolder *f, const Config *c, int first)
{
    *f = (SaveFolder){.path = c->save, .lock = -1, .saved = c->checkpoint_step};
    if (!f->path || !first)
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
    if (f->lock >= 0)
        close(f->lock);
}

/* ---- the files ----
 * The first rank makes them with room for all, each rank puts in what it keeps and has it on the disk, and when all have done so the
 * folder gets its name. Each step of these ends for all ranks before the next one begins. */

typedef struct Saving {
    Arena *arena;
    SaveFolder *folder;
    const Trainer *t;
    const char *path, *aside; /* of the checkpoint; of its files until it is whole */
    uint64_t file_bytes;
    FolderSums sums;
} Saving;

static int is_first(const Saving *s) { return !s->t->session.rank; }

static SafeCut optimizer_files(const Saving *s, const OptimizerTensors *all)
{
    return safetensors_cut(s->arena, s->aside, CHECKPOINT_OPTIMIZER, all->stored, all->len, s->file_bytes);
}

static const char *make_optimizer(const Saving *s)
{
    const OptimizerTensors moments = checkpoint_optimizer(s->arena, &s->t->session, kept_saved);
    const SafeCut files = optimizer_files(s, &moments);
    return safetensors_make(&files);
}

static const char *save_options(Arena *a, const Config *c, const char *path)
{
    const char *text = json_text(a, config_json_saved(c));
    FileWriter w = file_create(a, path);
    file_append(&w, text, strlen(text));
    file_append(&w, "\n", 1);
    return file_commit(&w);
}

/* By the first rank, as finish(). */
static const char *begin(Saving *s)
{
    const Session *session = &s->t->session;
    if (!is_first(s))
        return NULL;
    const char *aside, *error = folder_begin(s->arena, s->path, &aside);
    if (!error)
        error = model_weights_make(s->arena, s->aside, &session->model, &session->weights, STORED_F32,
                                   s->file_bytes);
    if (!error)
        error = make_optimizer(s);
    if (!error)
        error = state_write(s->arena, arena_printf(s->arena, "%s/" CHECKPOINT_STATE, s->aside), &s->t->state);
    return error ? error
                 : save_options(s->arena, s->t->config,
                                arena_printf(s->arena, "%s/" CHECKPOINT_OPTIONS, s->aside));
}

static void put_moment(void *moments, FilePatch *f, uint32_t tensor, uint64_t at)
{
    const OptimizerTensors *all = moments;
    weight_slice_put(f, at, STORED_F32, &all->slices[tensor]);
}

static const char *put(Saving *s)
{
    const Session *session = &s->t->session;
    OptimizerTensors moments = checkpoint_optimizer(s->arena, &s->t->session, kept_saved);
    const SafeCut files = optimizer_files(s, &moments);
    const char *error =
        model_weights_put(s->arena, s->aside, &session->model, &session->weights, is_first(s),
                          kept_saved(s->arena, session, KEPT_MASTERS), STORED_F32, s->file_bytes);
    return error ? error : safetensors_fill(&files, is_first(s), put_moment, &moments);
}

/* Each rank reads some of the files. */
static const char *sum_up(Saving *s)
{
    return folder_sums(s->arena, s->path, (uint32_t)s->t->session.rank, (uint32_t)s->t->session.ranks.number,
                       &s->sums);
}

/* Of the checkpoints up to this one, all but the last ones. */
static const char *remove_old(const Saving *s)
{
    Checkpoints known = {0};
    const char *error = checkpoint_list(s->arena, s->folder->path, &known);
    uint32_t n = 0;
    while (n < known.len && known.at[n].step <= s->t->state.steps)
        n++;
    for (uint32_t i = 0; (int64_t)i < (int64_t)n - s->t->config->keep && !error; i++)
        error = folder_remove(s->arena, known.at[i].path);
    return error;
}

static const char *finish(Saving *s)
{
    return is_first(s) ? folder_commit(s->arena, s->path, &s->sums) : NULL;
}

/* ---- all of it ---- */

/* Has a rank an error of its own? Then the checkpoint failed for all. 1 with a message: the ranks cannot go on. */
static int share(Saving *s, Trainer *t, const char *error)
{
    if (error)
        complain("checkpoint of step %lld: %s", (long long)t->state.steps, error);
    double failed = error != NULL;
    const int bad = job_most(t, "a checkpoint", &failed);
    s->folder->failed = failed > 0;
    return bad;
}

static int run_steps(Saving *s, Trainer *t)
{
    static const char *(*const steps[])(Saving *) = {begin, put, sum_up};
    int bad = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !bad && (!i || !s->folder->failed); i++)
        bad = share(s, t, steps[i](s));
    if (!bad && !s->folder->failed)
        bad = job_sums(t, s->arena, &s->sums) || share(s, t, finish(s));
    return bad;
}

int save_now(SaveFolder *f, Trainer *t)
{
    Arena *a = arena_new();
    if (!a)
        return complain("no memory to save a checkpoint");
    const char *path = checkpoint_path(a, f->path, t->state.steps);
    Saving s = {.arena = a,
                .folder = f,
                .t = t,
                .path = path,
                .aside = folder_aside(a, path),
                .file_bytes = (uint64_t)(t->config->file_limit * 0x1p20)};
    const int bad = run_steps(&s, t);
    if (f->failed && is_first(&s))
        folder_discard(a, path); /* gives a full disk its room back */
    const char *error = !bad && !f->failed && is_first(&s) ? remove_old(&s) : NULL;
    if (error)
        complain("checkpoint of step %lld: %s", (long long)t->state.steps, error);
    f->saved = f->failed ? f->saved : t->state.steps;
    arena_free(a);
    return bad;
}
