/* From safetensors to masters. */
#include "model/weights_plan.h"

#include <string.h>

typedef struct WeightsLoader {
    Arena *a;
    const ModelWeights *weights;
    SafeTensors files;
    PlannedTensors plan;
    const StoredTensor **found; /* of each planned tensor; NULL: there is none */
    Text errors;
    uint32_t nerrors;
} WeightsLoader;

enum { ERRORS_SHOWN = 20 };

static void refuse(WeightsLoader *l, const char *error)
{
    if (l->nerrors++ < ERRORS_SHOWN)
        text_add(&l->errors, "%s%s", l->nerrors > 1 ? "\n" : "", error);
}

/* ---- are they the tensors of this model? ---- */

static void check_tensor(WeightsLoader *l, const PlannedTensor *want, const StoredTensor *t)
{
    const char *file = l->files.names.at[t->file];
    if (t->rank != want->stored.rank || memcmp(t->shape, want->stored.shape, t->rank * sizeof *t->shape) != 0)
        refuse(l, arena_printf(l->a, "%s: tensor %s has shape %s: must be %s", file, t->name,
                               stored_shape_text(l->a, t), stored_shape_text(l->a, &want->stored)));
    else if (t->type > STORED_F16)
        refuse(l, arena_printf(l->a, "%s: tensor %s has type %s: weights are F32, BF16 or F16", file, t->name,
                               stored_type_name(t->type)));
}

static void find_tensors(WeightsLoader *l)
{
    l->found = arena_array(l->a, const StoredTensor *, l->plan.len + 1);
    for (uint32_t i = 0; i < l->plan.len; i++) {
        const PlannedTensor *want = &l->plan.at[i];
        l->found[i] = safetensors_find(&l->files, want->stored.name);
        if (l->found[i])
            check_tensor(l, want, l->found[i]);
        else if (want->use == PLANNED_WEIGHT)
            refuse(l, arena_printf(l->a, "%s: tensor %s is missing: it is %s", l->files.path,
                                   want->stored.name, l->weights->at[want->weight].name));
    }
}

static void find_superfluous(WeightsLoader *l)
{
    char *used = arena_array(l->a, char, l->files.tensors.len + 1);
    for (uint32_t i = 0; i < l->plan.len; i++)
        if (l->found[i])
            used[l->found[i] - l->files.tensors.at] = 1;
    for (uint32_t i = 0; i < l->files.tensors.len; i++) {
        const StoredTensor *t = &l->files.tensors.at[i];
        if (!used[i])
            refuse(l, arena_printf(l->a, "%s: tensor %s is superfluous: the config has no such weight",
                                   l->files.names.at[t->file], t->name));
    }
}

/* A copy stands behind the tensor that it repeats. */
static void check_copies(WeightsLoader *l)
{
    const StoredTensor *original = NULL;
    for (uint32_t i = 0; i < l->plan.len; i++) {
        const StoredTensor *t = l->found[i];
        if (l->plan.at[i].use == PLANNED_WEIGHT)
            original = t;
        else if (t && (t->type != original->type || memcmp(t->at, original->at, t->bytes) != 0))
            refuse(l, arena_printf(l->a, "%s: tensor %s differs from %s: this model has one for both",
                                   l->files.names.at[t->file], t->name, original->name));
    }
}

static const char *errors_of(WeightsLoader *l)
{
    if (l->nerrors > ERRORS_SHOWN)
        text_add(&l->errors, "\nand %u more", l->nerrors - ERRORS_SHOWN);
    return l->nerrors ? text_string(&l->errors) : NULL;
}

static const char *check(WeightsLoader *l)
{
    find_tensors(l);
    find_superfluous(l);
    if (!l->nerrors)
        check_copies(l);
    return errors_of(l);
}

/* ---- elements ---- */

static void read_elements(WeightsLoader *l, const WeightSlice *slices)
{
    for (uint32_t i = 0; i < l->plan.len; i++) {
        const PlannedTensor *want = &l->plan.at[i];
        if (want->use == PLANNED_WEIGHT)
            planned_take(l->found[i], &l->weights->at[want->weight], want, &slices[want->weight]);
    }
}

static void check_elements(WeightsLoader *l, const WeightSlice *slices)
{
    for (uint32_t i = 0; i < l->weights->len; i++) {
        const ModelWeight *w = &l->weights->at[i];
        const int64_t odd = weight_slice_odd(&slices[i]);
        if (odd >= 0)
            refuse(l, arena_printf(
                          l->a, "%s: tensor %s has elements that are not finite: it is %s", l->files.path,
                          model_tensor_name(l->a, w, odd / (planned_rows(w) * w->columns)), w->name));
    }
}

const char *model_weights_take(Arena *a, const char *path, const ModelConfig *c, const ModelWeights *w,
                               const WeightSlice *slices)
{
    if (c->quantized)
        return arena_printf(a, "%s: config.json has a quantization_config: quantised weights are not read",
                            path);
    WeightsLoader l = {
        .a = a, .weights = w, .plan = plan_tensors(a, c, w, STORED_F32), .errors = {.arena = a}};
    const char *error = safetensors_open(a, path, &l.files);
    if (!error)
        error = check(&l);
    if (!error) {
        read_elements(&l, slices);
        check_elements(&l, slices);
        error = errors_of(&l);
    }
    safetensors_close(&l.files);
    return error;
}

const char *model_weights_load(Arena *a, const char *path, const ModelConfig *c, const ModelWeights *w,
                               float *const *masters)
{
    WeightSlice *slices = arena_array(a, WeightSlice, w->len + 1);
    for (uint32_t i = 0; i < w->len; i++)
        slices[i] = weight_slice_whole(&w->at[i], masters[i]);
    return model_weights_take(a, path, c, w, slices);
}
