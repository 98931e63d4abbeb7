/* The weights of a model as buffers of a program: masters, the forms that kernels read, gradients. */
#include "model/recipe.h"

/* ---- forms ---- */

BufferId recipe_tensor(Recipe *m, Owner owner, const char *name, moec_type type, int packed,
                       const ModelWeight *w)
{
    const int64_t shape[] = {w->matrices, w->rows, w->columns};
    const BufferId b = record_tensor(m->r, owner, name, type, packed, 3, shape);
    recipe_place_weight(m, b, w);
    return b;
}

BufferId recipe_master(Recipe *m, const ModelWeight *w)
{
    return recipe_tensor(m, OWNER_weight, w->name, MOEC_F32, 0, w);
}

/* The shape in which kernels take it: a vector, a matrix, or several matrices. */
static BufferId as_read(Recipe *m, BufferId b, const ModelWeight *w)
{
    if (model_weight_row(w)->form < MODEL_ROWS)
        return SHAPED(m, b, w->columns);
    if (model_weight_row(w)->module == MODULE_EXPERTS || w->matrices > 1)
        return SHAPED(m, b, w->matrices, w->rows, w->columns);
    return SHAPED(m, b, w->rows, w->columns);
}

BufferId recipe_form(Recipe *m, const ModelWeight *w, ModelForm form)
{
    const int packed = form == MODEL_PACKED;
    if (form < MODEL_ROWS)
        return as_read(m, recipe_master(m, w), w);
    const char *name = arena_printf(m->arena, "%s.%s", w->name, packed ? "packed" : "rows");
    return as_read(m, recipe_tensor(m, OWNER_weight, name, m->act, packed ? 2 : 0, w), w);
}

static const ModelWeight *find(const Recipe *m, ModelWeightId id)
{
    return model_weights_find(&m->weights, id, model_weight_table[id].scope == SCOPE_ONCE ? -1 : m->layer);
}

int recipe_has(const Recipe *m, ModelWeightId id) { return find(m, id) != NULL; }

BufferId recipe_weight(Recipe *m, ModelWeightId id)
{
    const ModelWeight *w = find(m, id);
    if (!w)
        return record_refuse(m->r, "this model has no weight %s in layer %d", model_weight_table[id].name,
                             m->layer);
    return recipe_form(m, w, model_weight_table[id].form);
}

/* ---- gradients ---- */

static const struct ShardedWeight *sharded(const Recipe *m, const ModelWeight *w)
{
    return &m->shards.weights[w - m->weights.at];
}

BufferId recipe_pool(Recipe *m, WeightPool pool)
{
    const int64_t shape[] = {m->shards.pools[pool].rows, SHARD_ROW};
    if (!shape[0])
        return STEP_NONE;
    const BufferId b = record_tensor(m->r, OWNER_gradient, pool_table[pool].gradients, MOEC_F32, 0, 2, shape);
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        record_place(m->r, b, a, pool_table[pool].gradient[a]);
    return b;
}

BufferId recipe_gradient_of(Recipe *m, BufferId all, const ModelWeight *w)
{
    const int64_t shape[] = {w->matrices, w->rows, w->columns};
    const int summed = all != recipe_pool(m, sharded(m, w)->pool);
    const char *name = arena_printf(m->arena, "gradient.%s%s", w->name, summed ? ".sum" : "");
    const BufferId known = record_find(m->r, name);
    if (known != STEP_NONE)
        return known;
    const BufferId b = record_part(m->r, name, all, sharded(m, w)->first, 3, shape);
    recipe_place_weight(m, b, w);
    return b;
}

/* Like the master, a part of recipe_pool(). */
static BufferId gradient_of(Recipe *m, const ModelWeight *w)
{
    return recipe_gradient_of(m, recipe_pool(m, sharded(m, w)->pool), w);
}

void recipe_train_weights(Recipe *m)
{
    for (uint32_t i = 0; i < m->weights.len; i++) {
        const ModelWeight *w = &m->weights.at[i];
        if (!model_weight_has_gradient(w))
            continue;
        const BufferId gradient = gradient_of(m, w);
        if (w->layer >= m->c->layers && !m->balanced)
            continue; /* the loss of the next token alone says nothing of later ones: 0 */
        record_trainable(m->r, recipe_form(m, w, model_weight_row(w)->form), gradient);
        if (m->c->tied && w->id == MODEL_embed)
            record_trainable(m->r, recipe_form(m, w, MODEL_PACKED), gradient);
    }
}
