/* The weights of a model as buffers of a program: masters, the forms that kernels read, gradients. */
#include "model/recipe.h"

enum { GRADIENT_STEP = 32 /* elements: gradients begin at whole cache lines */ };

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

BufferId recipe_master(Recipe *m, const ModelWeight *w)
{
    const int64_t shape[] = {w->matrices, w->rows, w->columns};
    return record_tensor(m->r, OWNER_weight, w->name, MOEC_F32, 0, 3, shape);
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
    const int64_t shape[] = {w->matrices, w->rows, w->columns};
    const int packed = form == MODEL_PACKED;
    if (form < MODEL_ROWS)
        return as_read(m, recipe_master(m, w), w);
    const char *name = arena_printf(m->arena, "%s.%s", w->name, packed ? "packed" : "rows");
    return as_read(m, record_tensor(m->r, OWNER_weight, name, m->act, packed ? 2 : 0, 3, shape), w);
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

static int64_t gradient_elements(const Recipe *m)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < m->weights.len; i++)
        n += model_weight_has_gradient(&m->weights.at[i])
                 ? round_up(model_weight_elements(&m->weights.at[i]), GRADIENT_STEP)
                 : 0;
    return round_up(n, RECIPE_ROW);
}

BufferId recipe_all_gradients(Recipe *m)
{
    const int64_t shape[] = {gradient_elements(m) / RECIPE_ROW, RECIPE_ROW};
    const BufferId all = record_tensor(m->r, OWNER_gradient, "gradients", MOEC_F32, 0, 2, shape);
    record_place(m->r, all, AXIS_dp, PLACED_SUM);
    return all;
}

BufferId recipe_gradient_of(Recipe *m, BufferId all, const ModelWeight *w)
{
    const int64_t shape[] = {w->matrices, w->rows, w->columns};
    const int own = all == recipe_all_gradients(m);
    const char *name = arena_printf(m->arena, "gradient.%s%s", w->name, own ? "" : ".sum");
    const BufferId known = record_find(m->r, name);
    if (known != STEP_NONE)
        return known;
    int64_t at = 0;
    for (const ModelWeight *before = m->weights.at; before < w; before++)
        at += model_weight_has_gradient(before) ? round_up(model_weight_elements(before), GRADIENT_STEP) : 0;
    return record_part(m->r, name, all, at, 3, shape);
}

BufferId recipe_gradient(Recipe *m, const ModelWeight *w)
{
    return recipe_gradient_of(m, recipe_all_gradients(m), w);
}

void recipe_train_weights(Recipe *m)
{
    for (uint32_t i = 0; i < m->weights.len; i++) {
        const ModelWeight *w = &m->weights.at[i];
        if (!model_weight_has_gradient(w))
            continue;
        record_trainable(m->r, recipe_form(m, w, model_weight_row(w)->form), recipe_gradient(m, w));
        if (m->c->tied && w->id == MODEL_embed)
            record_trainable(m->r, recipe_form(m, w, MODEL_PACKED), recipe_gradient(m, w));
    }
}
