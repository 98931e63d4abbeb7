/* From masters to safetensors. */
#include "model/weights_plan.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct WeightsSaver {
    Arena *a;
    const ModelWeights *weights;
    const WeightSlice *slices;
    PlannedTensors plan;
    SafeCut cut;
} WeightsSaver;

/* Of the tensors of a model, copies if they are wanted, and where `values` is given those that have some. */
static PlannedTensors choose_tensors(Arena *a, const ModelConfig *c, const ModelWeights *w, StoredType type,
                                     int copies, const float *const *values)
{
    PlannedTensors all = plan_tensors(a, c, w, type), out = {0};
    for (uint32_t i = 0; i < all.len; i++)
        if ((copies || all.at[i].use == PLANNED_WEIGHT) && (!values || values[all.at[i].weight]))
            vec_push(a, &out, all.at[i]);
    return out;
}

static StoredTensor *tensors_of(Arena *a, const PlannedTensors *plan)
{
    StoredTensor *tensors = arena_array(a, StoredTensor, plan->len + 1);
    for (uint32_t i = 0; i < plan->len; i++)
        tensors[i] = plan->at[i].stored;
    return tensors;
}

/* Where embedding and head are one, nobody repeats them. */
static WeightsSaver saver_of(Arena *a, const char *folder, const ModelConfig *c, const ModelWeights *w,
                             StoredType type, uint64_t file_bytes)
{
    WeightsSaver s = {.a = a, .weights = w, .plan = choose_tensors(a, c, w, type, !c->tied, NULL)};
    s.cut = safetensors_cut(a, folder, "model", tensors_of(a, &s.plan), s.plan.len, file_bytes);
    return s;
}

static const char *write_config(Arena *a, const char *folder, const ModelConfig *c)
{
    Text t = {.arena = a};
    model_config_write(c, &t);
    FileWriter f = file_create(a, arena_printf(a, "%s/config.json", folder));
    file_append(&f, t.at, t.len);
    return file_commit(&f);
}

const char *model_weights_make(Arena *a, const char *folder, const ModelConfig *c, const ModelWeights *w,
                               StoredType type, uint64_t file_bytes)
{
    const WeightsSaver s = saver_of(a, folder, c, w, type, file_bytes);
    const char *error = safetensors_make(&s.cut);
    return error ? error : write_config(a, folder, c);
}

static void put_tensor(void *saver, FilePatch *f, uint32_t tensor, uint64_t at)
{
    const WeightsSaver *s = saver;
    const PlannedTensor *t = &s->plan.at[tensor];
    planned_put(s->a, f, at, &s->weights->at[t->weight], t, &s->slices[t->weight]);
}

const char *model_weights_put(Arena *a, const char *folder, const ModelConfig *c, const ModelWeights *w,
                              int first, const WeightSlice *slices, StoredType type, uint64_t file_bytes)
{
    WeightsSaver s = saver_of(a, folder, c, w, type, file_bytes);
    s.slices = slices;
    return safetensors_fill(&s.cut, first, put_tensor, &s);
}

/* ---- of one process ---- */

static const WeightSlice *whole_slices(Arena *a, const ModelWeights *w, const float *const *values)
{
    WeightSlice *slices = arena_array(a, WeightSlice, w->len + 1);
    for (uint32_t i = 0; i < w->len; i++)
        slices[i] = weight_slice_whole(&w->at[i], (float *)(uintptr_t)values[i]); /* only read */
    return slices;
}

const char *model_weights_save(Arena *a, const char *folder, const ModelConfig *c, const ModelWeights *w,
                               const float *const *masters, StoredType type, uint64_t file_bytes)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return arena_printf(a, "%s: cannot be made: %s", folder, strerror(errno));
    const char *error = model_weights_make(a, folder, c, w, type, file_bytes);
    return error ? error
                 : model_weights_put(a, folder, c, w, 1, whole_slices(a, w, masters), type, file_bytes);
}

const char *model_weights_write(Arena *a, const char *path, const ModelConfig *c, const ModelWeights *w,
                                const float *const *values, StoredType type)
{
    const char *beside = arena_printf(a, "%s.tmp", path);
    WeightsSaver s = {.a = a, .weights = w, .slices = whole_slices(a, w, values)};
    s.plan = choose_tensors(a, c, w, type, 0, values);
    s.cut = safetensors_cut(a, NULL, beside, tensors_of(a, &s.plan), s.plan.len, UINT64_MAX);
    s.cut.files.at[0].name = beside;
    const char *error = safetensors_make(&s.cut);
    if (!error)
        error = safetensors_fill(&s.cut, 1, put_tensor, &s);
    if (!error)
        return file_rename(a, beside, path);
    unlink(beside);
    return error;
}
