/* Going on from a checkpoint. */
#include "trainer/checkpoint.h"

#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "trainer/command.h"
#include "trainer/complain.h"

/* ---- which one ---- */

/* The newest whole one of a folder, into *path; NULL where there is none. */
static const char *newest(Arena *a, const char *folder, const char **path)
{
    Checkpoints known = {0};
    const char *error = checkpoint_list(a, folder, &known);
    *path = NULL;
    for (uint32_t i = known.len; i-- > 0 && !error && !*path;) {
        const char *why = checkpoint_verify(a, known.at[i].path);
        if (why)
            complain("--resume passes over %s: %s", known.at[i].path, why);
        else
            *path = known.at[i].path;
    }
    if (!error && !*path && known.len)
        error = arena_printf(a, "%s: none of its checkpoints is whole", folder);
    return error;
}

static int is_checkpoint(Arena *a, const char *path)
{
    return access(arena_printf(a, "%s/" CHECKPOINT_STATE, path), F_OK) == 0;
}

/* `--save DIR --resume`, also with the same folder named twice, begins where there is none yet. */
static int may_begin(const Config *c) { return !*c->resume || (c->save && !strcmp(c->resume, c->save)); }

/* A folder was named to go on from, and there is nothing. */
static const char *nothing_there(Arena *a, const char *path, const char *why)
{
    return arena_printf(a, "%s: %s; `--save %s --resume` begins where there is no checkpoint yet", path, why,
                        path);
}

static const char *find(Config *c)
{
    Arena *a = c->arena;
    const char *path = *c->resume ? c->resume : c->save;
    if (is_checkpoint(a, path)) {
        c->checkpoint = path;
        return checkpoint_verify(a, path);
    }
    if (access(path, F_OK) != 0)
        return may_begin(c) ? NULL
                            : nothing_there(a, path, arena_printf(a, "cannot be read: %s", strerror(errno)));
    const char *error = newest(a, path, &c->checkpoint);
    if (!error && !c->checkpoint && !may_begin(c))
        error = nothing_there(a, path, "has no checkpoint");
    return error;
}

/* Beside the checkpoint, so that a copy of a run goes on in the copy. One with another name may be a copy beside checkpoints of the
 * original, which must not be replaced. */
static const char *save_beside(Config *c)
{
    const char *name = basename(arena_printf(c->arena, "%s", c->checkpoint)),
               *own = checkpoint_path(c->arena, "", c->checkpoint_step) + 1;
    if (strcmp(name, own) != 0)
        return arena_printf(c->arena, "%s is not called %s: --save must say where the run goes on",
                            c->checkpoint, own);
    c->save = dirname(arena_printf(c->arena, "%s", c->checkpoint));
    return NULL;
}

/* Options that were not given. */
static const char *take_options(Config *c)
{
    TrainState state;
    const char *error =
        config_apply(c, arena_printf(c->arena, "%s/" CHECKPOINT_OPTIONS, c->checkpoint), FROM_CHECKPOINT);
    if (!error)
        error = state_read(c->arena, arena_printf(c->arena, "%s/" CHECKPOINT_STATE, c->checkpoint), &state);
    if (error)
        return error;
    c->checkpoint_step = state.steps;
    return c->source[OPTION_save] <= FROM_CHECKPOINT ? save_beside(c) : NULL;
}

int resume_find(Config *c)
{
    const char *error = *c->resume || c->save ? find(c) : "without a folder it needs that of --save";
    if (!error && c->checkpoint)
        error = take_options(c);
    return error ? complain_alike("--resume: %s", error) : 0;
}

int resume_check_model(const Config *c)
{
    ModelConfig saved;
    if (command_model(c->arena, c->checkpoint, &saved))
        return 1;
    if (saved.arch != c->model_config.arch)
        return complain_alike("--model is of another model_type than the checkpoint %s", c->checkpoint);
    for (uint32_t i = 0; i < config_count; i++) {
        const ConfigRow *row = &config_table[i];
        const double now = model_config_value(&c->model_config, row), then = model_config_value(&saved, row);
        if (fabs(now - then) > 0)
            return complain_alike(
                "the model's %s is %g, and the checkpoint %s has %g: a resumed run must keep it", row->name,
                now, c->checkpoint, then);
    }
    return 0;
}

/* ---- what it holds ---- */

static const char *load_moments(Arena *a, const OptimizerTensors *all, const char *path)
{
    SafeTensors file;
    const char *error = safetensors_open(a, path, &file);
    for (uint32_t i = 0; i < all->len && !error; i++) {
        const StoredTensor *want = &all->stored[i], *have = safetensors_find(&file, want->name);
        if (!have || have->type != want->type || have->rank != want->rank ||
            memcmp(have->shape, want->shape, want->rank * sizeof *want->shape) != 0)
            error = arena_printf(a, "%s: needs a tensor %s, %s %s", path, want->name,
                                 stored_type_name(want->type), stored_shape_text(a, want));
        else
            weight_slice_take(have, &all->slices[i]);
        if (!error && weight_slice_odd(&all->slices[i]) >= 0)
            error = arena_printf(a, "%s: tensor %s has elements that are not finite", path, want->name);
    }
    if (!error && file.tensors.len != all->len)
        error = arena_printf(a, "%s: has %u tensors, and this model's optimizer %u", path, file.tensors.len,
                             all->len);
    safetensors_close(&file);
    return error;
}

static int load_optimizer(Arena *a, Trainer *t)
{
    const OptimizerTensors all = checkpoint_optimizer(a, &t->session, kept_slices);
    const char *error = load_moments(a, &all, checkpoint_optimizer_path(a, t->config->checkpoint));
    return error ? complain_alike("--resume: %s", error) : 0;
}

static const char *load_state(Arena *a, Trainer *t, const char *path)
{
    const int64_t data = t->state.data;
    const char *error = state_read(a, path, &t->state);
    if (!error && t->state.data != data)
        error =
            "the data are not those that the checkpoint was trained on: --data must name the same, unchanged";
    return error;
}

int resume_load(Trainer *t)
{
    Arena *a = t->session.arena;
    const char *from = t->config->checkpoint;
    if (command_weights(&t->session, from, kept_slices(a, &t->session, KEPT_MASTERS)) || load_optimizer(a, t))
        return 1;
    const char *error = load_state(a, t, arena_printf(a, "%s/" CHECKPOINT_STATE, from));
    return error ? complain_alike("--resume: %s", error) : 0;
}
