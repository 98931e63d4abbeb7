/* Whole programs: forms of weights, an evaluation, gradients, a step of training. */
#include "model/recipe.h"

#include <float.h>

static BufferId input(Recipe *m, const char *name, moec_type type)
{
    const int64_t tokens = m->sequences * m->positions;
    const BufferId b = record_tensor(m->r, OWNER_input, arena_printf(m->arena, "%s.%s", m->program, name),
                                     type, 0, 1, &tokens);
    recipe_place_own(m, b);
    return b;
}

/* The loss of one micro-batch, whose batch a task fetches. */
static BufferId forward(Recipe *m, int micro)
{
    recipe_at(m, -1, micro);
    const BufferId batch[] = {input(m, "ids", MOEC_I32), input(m, "targets", MOEC_I32),
                              input(m, "weights", MOEC_F32)};
    record_batch(m->r, batch, (const char *const[]){"ids", "targets", "weights"}, 3);
    BufferId x = recipe_embed(m, batch[0]);
    for (int l = 0; l < m->c->layers; l++) {
        recipe_at(m, l, micro);
        x = recipe_layer(m, x);
    }
    recipe_at(m, -1, micro);
    if (m->logits)
        recipe_keep_logits(m, x);
    if (m->balanced)
        recipe_mtp(m, x, batch[1], batch[2]);
    return recipe_loss(m, "loss", x, MODEL_final_gain, batch[1], batch[2]);
}

void recipe_evaluation(Recipe *m, int micro_batches)
{
    for (int i = 0; i < micro_batches; i++)
        forward(m, i);
}

/* Each micro-batch has tasks of its own, as many as the first one. */
static int fit(Recipe *m, int micro_batches)
{
    const int64_t tasks = record_tasks(m->r), most = STEP_MAX_TASKS / tasks;
    if (micro_batches > most)
        record_refuse(m->r,
                      "%d micro-batches of %lld tasks each: a program has at most %d tasks, which are %lld "
                      "micro-batches",
                      micro_batches, (long long)tasks, STEP_MAX_TASKS, (long long)most);
    return micro_batches <= most;
}

void recipe_gradients(Recipe *m, int micro_batches)
{
    m->train = 1, m->share = 1.0 / (double)(micro_batches * record_members(m->r, AXIS_dp));
    recipe_train_weights(m);
    for (int i = 0; i < micro_batches; i++) {
        record_seed(m->r, forward(m, i), recipe_number(m, "share", m->share));
        record_backward(m->r);
        if (!i && !fit(m, micro_batches))
            return;
    }
    record_reduce_gradients(m->r);
}

/* ---- the optimizer ---- */

/* Weights that are packed are updated as matrices, others as a row of elements. */
static BufferId as_updated(Recipe *m, BufferId b, const ModelWeight *w)
{
    if (model_weight_row(w)->form == MODEL_PACKED)
        return SHAPED(m, b, w->matrices, w->rows, w->columns);
    return SHAPED(m, b, model_weight_elements(w));
}

static BufferId moment(Recipe *m, const ModelWeight *w, const char *which)
{
    const char *name = arena_printf(m->arena, "%s.%s", which, w->name);
    return as_updated(m, recipe_tensor(m, OWNER_optimizer, name, MOEC_F32, 0, w), w);
}

static void narrow_packed(Recipe *m, const ModelWeight *w)
{
    const BufferId master = recipe_master(m, w), form = recipe_form(m, w, MODEL_PACKED);
    record(m->r, "narrow_packed", ARG(p, master), ARG(w, SHAPED(m, form, w->matrices, w->rows, w->columns)));
}

/* Of all ranks' micro-batches, by pool: the sums, or this rank's shard of them. STEP_NONE: the pool is empty. */
typedef struct PoolSums {
    BufferId at[POOL_COUNT];
} PoolSums;

static BufferId summed(Recipe *m, WeightPool pool)
{
    const TaskKind kind = model_is_sharded(&m->shards, pool) ? TASK_reducescatter : TASK_allreduce;
    BufferId g = recipe_pool(m, pool);
    for (uint32_t i = 0; i < pool_table[pool].axes; i++)
        if (record_members(m->r, pool_table[pool].sums[i]) > 1)
            g = record_exchange(m->r, kind, pool_table[pool].sums[i], g, 0);
    return g;
}

/* Of all ranks together: first of those that share the pool, then of those that have other parts of its weights. */
static BufferId squares(Recipe *m, WeightPool pool, BufferId g)
{
    BufferId s = out(record(m->r, "squares", ARG(g, g)), "s");
    for (uint32_t i = 0; i < pool_table[pool].axes; i++)
        s = recipe_summed(m, pool_table[pool].sums[i], s);
    return recipe_summed(m, pool_table[pool].holders, s);
}

static BufferId plus(Recipe *m, BufferId sum, BufferId s)
{
    return sum == STEP_NONE ? s : out(record(m->r, "plus", ARG(a, sum), ARG(b, s)), "y");
}

/* Their norm, in which each weight of the model counts once, and the factor that clips it. */
static BufferId clip(Recipe *m, const PoolSums *g, BufferId norm)
{
    const BufferId factor = record_tensor(m->r, OWNER_optimizer, "clip.factor", MOEC_F32, 0, 0, NULL);
    const Arg limit = ARG(limit, recipe_number(m, "clip", 0)), to = ARG(norm, norm), by = ARG(factor, factor);
    BufferId others = STEP_NONE;
    if (g->at[POOL_VECTORS] == STEP_NONE) /* one rank */
        return out(record(m->r, "clip", ARG(g, g->at[POOL_ALIKE]), limit, to, by), "factor");
    for (WeightPool p = POOL_ALIKE; p < POOL_COUNT; p++)
        if (g->at[p] != STEP_NONE)
            others = plus(m, others, squares(m, p, g->at[p]));
    const Arg vectors = ARG(g, g->at[POOL_VECTORS]);
    return out(record(m->r, "clip_with", vectors, ARG(others, others), limit, to, by), "factor");
}

/* gradients: the sums of its pool. */
static void adamw(Recipe *m, const ModelWeight *w, BufferId gradients, BufferId factor)
{
    static const char *const kernels[] = {
        [MODEL_VECTOR] = "adamw", [MODEL_ROWS] = "adamw_rows", [MODEL_PACKED] = "adamw_packed"};
    const ModelForm form = model_weight_row(w)->form;
    const AdamwTensors t = {.master = as_updated(m, recipe_master(m, w), w),
                            .moment1 = moment(m, w, "moment1"),
                            .moment2 = moment(m, w, "moment2"),
                            .gradient = as_updated(m, recipe_gradient_of(m, gradients, w), w),
                            .form = form == MODEL_VECTOR ? (BufferId)STEP_NONE
                                                         : as_updated(m, recipe_form(m, w, form), w)};
    recipe_adamw(m, kernels[form], &t, model_weight_decays(w), factor);
    if (m->c->tied && w->id == MODEL_embed)
        narrow_packed(m, w);
}

static void update(Recipe *m, const PoolSums *g, BufferId factor)
{
    for (uint32_t i = 0; i < m->weights.len; i++) {
        const WeightPool pool = m->shards.weights[i].pool;
        if (pool == POOL_NONE && m->balanced)
            recipe_bias(m, &m->weights.at[i]);
        else if (pool != POOL_NONE && !model_is_sharded(&m->shards, pool))
            adamw(m, &m->weights.at[i], g->at[pool], factor);
    }
    for (WeightPool p = 0; p < POOL_COUNT; p++)
        if (model_is_sharded(&m->shards, p) && g->at[p] != STEP_NONE)
            recipe_shard_update(m, p, g->at[p], factor);
}

void recipe_step(Recipe *m, int micro_batches)
{
    PoolSums g;
    recipe_gradients(m, micro_batches);
    recipe_at(m, -1, -1);
    record_at(m->r, PHASE_optimizer, -1, -1);
    for (WeightPool p = 0; p < POOL_COUNT; p++)
        g.at[p] = summed(m, p);
    const BufferId norm = recipe_scalar(m, "norm"), factor = clip(m, &g, norm);
    record_gate(m->r, norm, recipe_number(m, "norm.limit", FLT_MAX)); /* no update by what is not finite */
    update(m, &g, factor);
}

/* ---- generation ---- */

void recipe_generation(Recipe *m, int64_t room, int sampled)
{
    const int64_t rows = recipe_rows(m);
    const BufferId next = record_tensor(m->r, OWNER_state, arena_printf(m->arena, "%s.next", m->program),
                                        MOEC_I32, 0, 1, &rows);
    m->cached = room, m->offset = record_scalar(m->r, "position", MOEC_I32, 0);
    recipe_tables(m);
    BufferId x = recipe_embed(m, input(m, "ids", MOEC_I32));
    for (int l = 0; l < m->c->layers; l++) {
        recipe_at(m, l, -1);
        x = recipe_layer(m, x);
    }
    recipe_at(m, -1, -1);
    const BufferId s = recipe_logits(m, x);
    if (sampled)
        record(m->r, "sample", ARG(s, s), ARG(temperature, recipe_number(m, "temperature", 1)),
               ARG(u, recipe_split(m, input(m, "draws", MOEC_F32))), ARG(next, next));
    else
        record(m->r, "greedy", ARG(s, s), ARG(next, next));
}

/* ---- setup ---- */

static void make_forms(Recipe *m, const ModelWeight *w)
{
    const ModelForm form = model_weight_row(w)->form;
    if (form == MODEL_PACKED || (m->c->tied && w->id == MODEL_embed))
        narrow_packed(m, w);
    if (form == MODEL_ROWS)
        record(m->r, "narrow_rows", ARG(p, as_updated(m, recipe_master(m, w), w)),
               ARG(w, as_updated(m, recipe_form(m, w, form), w)));
}

void recipe_setup(Recipe *m)
{
    record_at(m->r, PHASE_setup, -1, -1);
    for (WeightPool p = 0; p < POOL_COUNT; p++)
        if (model_is_sharded(&m->shards, p) && m->shards.pools[p].rows)
            recipe_shard_setup(m, p);
    for (uint32_t i = 0; i < m->weights.len; i++)
        if (!model_is_sharded(&m->shards, m->shards.weights[i].pool))
            make_forms(m, &m->weights.at[i]);
    recipe_tables(m);
}
