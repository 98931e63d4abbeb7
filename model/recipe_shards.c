/* AdamW, and the optimizer in shards: Note [Shards] of shards.h. */
#include "model/recipe.h"

Call recipe_adamw(Recipe *m, const char *kernel, const AdamwTensors *t, int decays, BufferId factor)
{
    const Arg args[] = {ARG(p, t->master),
                        ARG(m, t->moment1),
                        ARG(v, t->moment2),
                        ARG(g, t->gradient),
                        ARG(factor, factor),
                        ARG(lr, recipe_number(m, "lr", 0)),
                        ARG(b1, recipe_number(m, "beta1", 0)),
                        ARG(b2, recipe_number(m, "beta2", 0)),
                        ARG(eps, recipe_number(m, "adam.eps", 0)),
                        ARG(decay, recipe_number(m, decays ? "decay" : "no.decay", 0)),
                        ARG(k1, recipe_number(m, "k1", 0)),
                        ARG(k2, recipe_number(m, "k2", 0)),
                        ARG(w, t->form)};
    const size_t n = sizeof args / sizeof *args;
    return record_call(m->r, kernel, args, t->form == STEP_NONE ? n - 1 : n);
}

/* ---- shards ---- */

static const char *shard_name(Recipe *m, WeightPool pool, const char *what)
{
    return arena_printf(m->arena, SHARD_NAME, pool_table[pool].name, what);
}

static BufferId placed(Recipe *m, WeightPool pool, BufferId b)
{
    const int64_t rows = m->shards.pools[pool].rows / m->shards.pools[pool].ranks;
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        record_place(m->r, b, a, pool_table[pool].shard[a]);
    return SHAPED(m, b, rows * SHARD_ROW);
}

/* This rank's part of what is kept of the pool's weights. */
static BufferId shard(Recipe *m, WeightPool pool, Owner owner, const char *what)
{
    const int64_t shape[] = {m->shards.pools[pool].rows / m->shards.pools[pool].ranks, SHARD_ROW};
    return placed(m, pool, record_tensor(m->r, owner, shard_name(m, pool, what), MOEC_F32, 0, 2, shape));
}

/* The same part of the gradients, where it is: it gets its name. */
static BufferId gradient_shard(Recipe *m, WeightPool pool, BufferId gradient)
{
    const int64_t shape[] = {m->shards.pools[pool].rows / m->shards.pools[pool].ranks, SHARD_ROW};
    return placed(m, pool, record_part(m->r, shard_name(m, pool, SHARD_GRADIENT), gradient, 0, 2, shape));
}

/* ---- what kernels read of the weights ---- */

static void take_form(Recipe *m, const ModelWeight *w, BufferId rows, ModelForm form)
{
    const BufferId to = recipe_form(m, w, form);
    if (form == MODEL_PACKED)
        record(m->r, "pack_rows", ARG(p, rows), ARG(w, SHAPED(m, to, w->matrices, w->rows, w->columns)));
    else
        record(m->r, "keep_rows", ARG(p, SHAPED(m, rows, model_weight_elements(w))),
               ARG(w, SHAPED(m, to, model_weight_elements(w))));
}

/* The parts of all ranks that share the pool, one behind the other: gathered in the opposite order of the sums. */
static BufferId gathered(Recipe *m, WeightPool pool, BufferId part)
{
    for (uint32_t i = pool_table[pool].axes; i-- > 0;)
        if (record_members(m->r, pool_table[pool].sums[i]) > 1)
            part = record_exchange(m->r, TASK_allgather, pool_table[pool].sums[i], part, 0);
    return part;
}

/* part: what this rank's shard is for kernels. All ranks' parts become the forms of the pool's weights. */
static void spread(Recipe *m, WeightPool pool, BufferId part)
{
    const BufferId all = gathered(m, pool, part);
    for (uint32_t i = 0; i < m->weights.len; i++) {
        const ModelWeight *w = &m->weights.at[i];
        const int64_t shape[] = {w->matrices, w->rows, w->columns};
        if (m->shards.weights[i].pool != pool)
            continue;
        const char *name = arena_printf(m->arena, "spread.%s", w->name);
        const BufferId rows = record_part(m->r, name, all, m->shards.weights[i].first, 3, shape);
        recipe_place_weight(m, rows, w);
        take_form(m, w, rows, model_weight_row(w)->form);
        if (m->c->tied && w->id == MODEL_embed)
            take_form(m, w, rows, MODEL_PACKED);
    }
}

void recipe_shard_setup(Recipe *m, WeightPool pool)
{
    const BufferId masters = shard(m, pool, OWNER_weight, SHARD_MASTERS);
    spread(m, pool, out(record(m->r, "narrow_rows", ARG(p, masters)), "w"));
}

void recipe_shard_update(Recipe *m, WeightPool pool, BufferId gradient, BufferId factor)
{
    const AdamwTensors t = {.master = shard(m, pool, OWNER_weight, SHARD_MASTERS),
                            .moment1 = shard(m, pool, OWNER_optimizer, SHARD_MOMENT1),
                            .moment2 = shard(m, pool, OWNER_optimizer, SHARD_MOMENT2),
                            .gradient = gradient_shard(m, pool, gradient),
                            .form = STEP_NONE};
    spread(m, pool, out(recipe_adamw(m, "adamw_rows", &t, 1, factor), "w"));
}
