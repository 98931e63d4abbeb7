#include "model/weights_plan.h"

/* A buffer is f32 in any checkpoint: its steps are smaller than bf16 can tell. */
static StoredType stored_type(const ModelWeight *w, StoredType type)
{
    return model_weight_row(w)->form == MODEL_BUFFER ? STORED_F32 : type;
}

static void add_tensor(Arena *a, PlannedTensors *out, PlannedTensor t, const ModelWeight *w, StoredType type,
                       const char *name)
{
    t.stored.name = name;
    t.stored.type = stored_type(w, type);
    t.stored.rank = model_tensor_shape(w, t.stored.shape);
    t.stored.bytes = (size_t)stored_elements(&t.stored) * stored_type_bytes(t.stored.type);
    vec_push(a, out, t);
}

PlannedTensors plan_tensors(Arena *a, const ModelConfig *c, const ModelWeights *w, StoredType type)
{
    PlannedTensors out = {0};
    for (uint32_t i = 0; i < w->len; i++) {
        const ModelWeight *weight = &w->at[i];
        ModelNames copies = model_tensor_copies(a, c, weight);
        for (int64_t part = 0; part < weight->tensors; part++)
            add_tensor(a, &out, (PlannedTensor){.weight = i, .part = part}, weight, type,
                       model_tensor_name(a, weight, part));
        for (uint32_t j = 0; j < copies.len; j++)
            add_tensor(a, &out, (PlannedTensor){.use = PLANNED_COPY, .weight = i}, weight, type,
                       copies.at[j]);
    }
    return out;
}
