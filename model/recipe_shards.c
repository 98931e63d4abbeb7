/* AdamW, and the optimizer in shards: Note [Shards] of shards.h. */
#include "model/recipe.h"
#include "model/shards.h"

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

static ModelShards shards_of(const Recipe *m)
{
    return model_shards(&m->weights, record_members(m->r, AXIS_dp));
}

static BufferId flat(Recipe *m, BufferId rows)
{
    const ModelShards s = shards_of(m);
    return SHAPED(m, rows, s.rows / s.ranks * SHARD_ROW);
}

/* This rank's part of what is kept of all weights but vectors. */
static BufferId shard(Recipe *m, Owner owner, const char *name)
{
    const ModelShards s = shards_of(m);
    const int64_t shape[] = {s.rows / s.ranks, SHARD_ROW};
    const BufferId b = record_tensor(m->r, owner, name, MOEC_F32, 0, 2, shape);
    record_place(m->r, b, AXIS_dp, PLACED_PART(0));
    return flat(m, b);
}

/* ---- gradients ---- */

ShardSums recipe_shard_sums(Recipe *m)
{
    const ModelShards s = shards_of(m);
    const BufferId all = recipe_all_gradients(m);
    const int64_t first[] = {s.vector_rows, SHARD_ROW}, rest[] = {s.rows, SHARD_ROW};
    const BufferId vectors = record_part(m->r, "gradients.vectors", all, 0, 2, first),
                   others = record_part(m->r, "gradients.others", all, s.vector_rows * SHARD_ROW, 2, rest);
    return (ShardSums){record_exchange(m->r, TASK_allreduce, AXIS_dp, vectors, 0),
                       record_exchange(m->r, TASK_reducescatter, AXIS_dp, others, 0)};
}

/* Squares of each row come from all ranks, so that their sum has one order. */
BufferId recipe_shard_clip(Recipe *m, const ShardSums *g, BufferId norm)
{
    const BufferId part = out(record(m->r, "row_squares", ARG(g, g->part)), "q"),
                   rows = record_exchange(m->r, TASK_allgather, AXIS_dp, part, 0),
                   factor = record_tensor(m->r, OWNER_optimizer, "clip.factor", MOEC_F32, 0, 0, NULL);
    record(m->r, "clip_rows", ARG(g, g->vectors), ARG(q, rows), ARG(limit, recipe_number(m, "clip", 0)),
           ARG(norm, norm), ARG(factor, factor));
    return factor;
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

/* part: what this rank's shard is for kernels. All ranks' parts become the forms of all weights. */
static void spread(Recipe *m, BufferId part)
{
    const BufferId all = record_exchange(m->r, TASK_allgather, AXIS_dp, part, 0);
    for (uint32_t i = 0; i < m->weights.len; i++) {
        const ModelWeight *w = &m->weights.at[i];
        const int64_t shape[] = {w->matrices, w->rows, w->columns};
        if (!model_weight_has_gradient(w) || model_is_vector(w))
            continue;
        const char *name = arena_printf(m->arena, "spread.%s", w->name);
        const BufferId rows = record_part(m->r, name, all, model_shards_place(&m->weights, w), 3, shape);
        take_form(m, w, rows, model_weight_row(w)->form);
        if (m->c->tied && w->id == MODEL_embed)
            take_form(m, w, rows, MODEL_PACKED);
    }
}

void recipe_shard_setup(Recipe *m)
{
    spread(m, out(record(m->r, "narrow_rows", ARG(p, shard(m, OWNER_weight, SHARD_MASTERS))), "w"));
}

void recipe_shard_update(Recipe *m, const ShardSums *g, BufferId factor)
{
    const AdamwTensors t = {.master = shard(m, OWNER_weight, SHARD_MASTERS),
                            .moment1 = shard(m, OWNER_optimizer, SHARD_MOMENT1),
                            .moment2 = shard(m, OWNER_optimizer, SHARD_MOMENT2),
                            .gradient = flat(m, g->part),
                            .form = STEP_NONE};
    spread(m, out(recipe_adamw(m, "adamw_rows", &t, 1, factor), "w"));
}
