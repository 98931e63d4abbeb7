/* The weights of a model as buffers of a program: masters, the forms that kernels read, gradients. */
#include "model/recipe.h"
#include "model/shards.h"

enum { GRADIENT_STEP = 32 /* elements: gradients begin at whole cache lines */ };

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

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

/* Where tp or ep cut weights too, each rank still updates all that it has. */
int recipe_has_shards(const Recipe *m)
{
    return record_members(m->r, AXIS_dp) > 1 && record_members(m->r, AXIS_tp) == 1 &&
           record_members(m->r, AXIS_ep) == 1;
}

/* With shards: first those of vectors. */
static BufferId shard_gradients(Recipe *m)
{
    const ModelShards s = model_shards(&m->weights, record_members(m->r, AXIS_dp));
    const int64_t shape[] = {s.vector_rows + s.rows, SHARD_ROW};
    const BufferId all = record_tensor(m->r, OWNER_gradient, "gradients", MOEC_F32, 0, 2, shape);
    record_place(m->r, all, AXIS_dp, PLACED_SUM);
    record_place(m->r, all, AXIS_edp, PLACED_SUM);
    return all;
}

static int64_t shard_place(const Recipe *m, const ModelWeight *w)
{
    const ModelShards s = model_shards(&m->weights, record_members(m->r, AXIS_dp));
    return model_shards_place(&m->weights, w) + (model_is_vector(w) ? 0 : s.vector_rows * SHARD_ROW);
}

/* Gradients that are summed over the same ranks are one tensor. */
typedef enum GradientPool { POOL_ALIKE, POOL_CUT, POOL_OWN } GradientPool;

static GradientPool pool_of(const Recipe *m, const ModelWeight *w)
{
    return recipe_is_own(m, w) ? POOL_OWN : recipe_is_cut(m, w) ? POOL_CUT : POOL_ALIKE;
}

/* Room of the weights before `end` whose gradients are in the pool. */
static int64_t pool_elements(const Recipe *m, GradientPool pool, const ModelWeight *end)
{
    int64_t n = 0;
    for (const ModelWeight *w = m->weights.at; w < end; w++)
        n += model_weight_has_gradient(w) && pool_of(m, w) == pool
                 ? round_up(model_weight_elements(w), GRADIENT_STEP)
                 : 0;
    return n;
}

static const Placement pool_places[][AXIS_COUNT] = {
    [POOL_ALIKE] =
        {[AXIS_tp] = PLACED_SUM, [AXIS_ep] = PLACED_SUM, [AXIS_dp] = PLACED_SUM, [AXIS_edp] = PLACED_SUM},
    [POOL_CUT] =
        {[AXIS_tp] = PLACED_OWN, [AXIS_ep] = PLACED_OWN, [AXIS_dp] = PLACED_SUM, [AXIS_edp] = PLACED_SUM},
    [POOL_OWN] = {
        [AXIS_tp] = PLACED_OWN, [AXIS_ep] = PLACED_OWN, [AXIS_dp] = PLACED_OWN, [AXIS_edp] = PLACED_SUM}};

static BufferId pool(Recipe *m, GradientPool pool)
{
    static const char *const names[] = {
        [POOL_ALIKE] = "gradients", [POOL_CUT] = "gradients.cut", [POOL_OWN] = "gradients.own"};
    const int64_t elements = round_up(pool_elements(m, pool, m->weights.at + m->weights.len), RECIPE_ROW),
                  shape[] = {elements / RECIPE_ROW, RECIPE_ROW};
    if (!elements || recipe_has_shards(m))
        return elements ? shard_gradients(m) : STEP_NONE;
    const BufferId b = record_tensor(m->r, OWNER_gradient, names[pool], MOEC_F32, 0, 2, shape);
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        record_place(m->r, b, a, pool_places[pool][a]);
    return b;
}

BufferId recipe_all_gradients(Recipe *m) { return pool(m, POOL_ALIKE); }
BufferId recipe_cut_gradients(Recipe *m) { return pool(m, POOL_CUT); }
BufferId recipe_own_gradients(Recipe *m) { return pool(m, POOL_OWN); }

BufferId recipe_gradient_of(Recipe *m, BufferId all, const ModelWeight *w)
{
    const int64_t shape[] = {w->matrices, w->rows, w->columns};
    const char *name =
        arena_printf(m->arena, "gradient.%s%s", w->name, all == pool(m, pool_of(m, w)) ? "" : ".sum");
    const BufferId known = record_find(m->r, name);
    if (known != STEP_NONE)
        return known;
    const int64_t at = recipe_has_shards(m) ? shard_place(m, w) : pool_elements(m, pool_of(m, w), w);
    const BufferId b = record_part(m->r, name, all, at, 3, shape);
    recipe_place_weight(m, b, w);
    return b;
}

BufferId recipe_gradient(Recipe *m, const ModelWeight *w)
{
    return recipe_gradient_of(m, pool(m, pool_of(m, w)), w);
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
