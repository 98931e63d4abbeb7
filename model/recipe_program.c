/* Whole programs: forms of weights, an evaluation, gradients, a step of training. */
#include "model/recipe.h"
#include "model/shards.h"

#include <float.h>

static BufferId input(Recipe *m, const char *name, moec_type type)
{
    const int64_t tokens = m->sequences * m->positions;
    return record_tensor(m->r, OWNER_input, arena_printf(m->arena, "%s.%s", m->program, name), type, 0, 1,
                         &tokens);
}

/* The loss of one micro-batch, whose batch a task fetches. */
static BufferId forward(Recipe *m, int micro)
{
    recipe_at(m, -1, micro);
    const BufferId batch[] = {input(m, "ids", MOEC_I32), input(m, "targets", MOEC_I32),
                              input(m, "weights", MOEC_F32)};
    for (int i = 0; i < 3; i++)
        recipe_place_own(m, batch[i]);
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

void recipe_gradients(Recipe *m, int micro_batches)
{
    m->train = 1, m->share = 1.0 / (double)(micro_batches * record_members(m->r, AXIS_dp));
    recipe_train_weights(m);
    for (int i = 0; i < micro_batches; i++) {
        record_seed(m->r, forward(m, i), recipe_number(m, "share", m->share));
        record_backward(m->r);
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

/* The gradients of all ranks' micro-batches, by the tensors that they are in. */
typedef struct SummedGradients {
    BufferId alike, cut, own; /* STEP_NONE: there are none */
} SummedGradients;

static SummedGradients summed_gradients(Recipe *m)
{
    const BufferId alike = recipe_summed(m, AXIS_tp, recipe_all_gradients(m));
    return (SummedGradients){recipe_summed(m, AXIS_dp, alike),
                             recipe_summed(m, AXIS_dp, recipe_cut_gradients(m)),
                             recipe_summed(m, AXIS_edp, recipe_own_gradients(m))};
}

static BufferId gradient_in(Recipe *m, const SummedGradients *g, const ModelWeight *w)
{
    return recipe_gradient_of(m, recipe_is_own(m, w) ? g->own : recipe_is_cut(m, w) ? g->cut : g->alike, w);
}

/* Of what the ranks of an axis have parts of. */
static BufferId squares(Recipe *m, GroupAxis axis, BufferId g)
{
    return g == STEP_NONE ? g : recipe_summed(m, axis, out(record(m->r, "squares", ARG(g, g)), "s"));
}

/* Their norm, in which each weight of the model counts once, and the factor that clips it. */
static BufferId clip(Recipe *m, const SummedGradients *g, BufferId norm)
{
    const BufferId factor = record_tensor(m->r, OWNER_optimizer, "clip.factor", MOEC_F32, 0, 0, NULL);
    const Arg all = ARG(g, g->alike), limit = ARG(limit, recipe_number(m, "clip", 0)), to = ARG(norm, norm),
              by = ARG(factor, factor);
    const BufferId cut = squares(m, AXIS_tp, g->cut), own = squares(m, AXIS_ep, g->own);
    if (cut == STEP_NONE && own == STEP_NONE)
        return out(record(m->r, "clip", all, limit, to, by), "factor");
    const BufferId others = cut == STEP_NONE   ? own
                            : own == STEP_NONE ? cut
                                               : out(record(m->r, "plus", ARG(a, cut), ARG(b, own)), "y");
    return out(record(m->r, "clip_with", all, ARG(others, others), limit, to, by), "factor");
}

static void adamw(Recipe *m, const ModelWeight *w, const SummedGradients *g, BufferId factor)
{
    static const char *const kernels[] = {
        [MODEL_VECTOR] = "adamw", [MODEL_ROWS] = "adamw_rows", [MODEL_PACKED] = "adamw_packed"};
    const ModelForm form = model_weight_row(w)->form;
    const AdamwTensors t = {.master = as_updated(m, recipe_master(m, w), w),
                            .moment1 = moment(m, w, "moment1"),
                            .moment2 = moment(m, w, "moment2"),
                            .gradient = as_updated(m, gradient_in(m, g, w), w),
                            .form = form == MODEL_VECTOR ? (BufferId)STEP_NONE
                                                         : as_updated(m, recipe_form(m, w, form), w)};
    recipe_adamw(m, kernels[form], &t, model_weight_decays(w), factor);
    if (m->c->tied && w->id == MODEL_embed)
        narrow_packed(m, w);
}

/* Vectors, and what no gradient moves, are all ranks' also where they share the rest. */
static void update(Recipe *m, const SummedGradients *g, BufferId factor)
{
    const int shards = recipe_has_shards(m);
    for (uint32_t i = 0; i < m->weights.len; i++) {
        const ModelWeight *w = &m->weights.at[i];
        if (model_weight_has_gradient(w) && (!shards || model_is_vector(w)))
            adamw(m, w, g, factor);
        else if (!model_weight_has_gradient(w) && m->balanced)
            recipe_bias(m, w);
    }
}

void recipe_step(Recipe *m, int micro_batches)
{
    const int shards = recipe_has_shards(m);
    recipe_gradients(m, micro_batches);
    recipe_at(m, -1, -1);
    record_at(m->r, PHASE_optimizer, -1, -1);
    const ShardSums part = shards ? recipe_shard_sums(m) : (ShardSums){STEP_NONE, STEP_NONE};
    const SummedGradients g =
        shards ? (SummedGradients){part.vectors, STEP_NONE, STEP_NONE} : summed_gradients(m);
    const BufferId norm = recipe_scalar(m, "norm"),
                   factor = shards ? recipe_shard_clip(m, &part, norm) : clip(m, &g, norm);
    record_gate(m->r, norm, recipe_number(m, "norm.limit", FLT_MAX)); /* no update by what is not finite */
    update(m, &g, factor);
    if (shards)
        recipe_shard_update(m, &part, factor);
}

/* ---- generation ---- */

void recipe_generation(Recipe *m, int64_t room, int sampled)
{
    const int64_t tokens = m->positions;
    if (record_members(m->r, AXIS_ep) > 1)
        record_refuse(m->r, "generation has all experts on one rank, not over ep");
    const BufferId next = record_tensor(m->r, OWNER_state, arena_printf(m->arena, "%s.next", m->program),
                                        MOEC_I32, 0, 1, &tokens);
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
               ARG(u, input(m, "draws", MOEC_F32)), ARG(next, next));
    else
        record(m->r, "greedy", ARG(s, s), ARG(next, next));
}

/* ---- setup ---- */

void recipe_setup(Recipe *m)
{
    record_at(m->r, PHASE_setup, -1, -1);
    if (recipe_has_shards(m))
        recipe_shard_setup(m);
    for (uint32_t i = 0; i < m->weights.len && !recipe_has_shards(m); i++) {
        const ModelWeight *w = &m->weights.at[i];
        const ModelForm form = model_weight_row(w)->form;
        if (form == MODEL_PACKED || (m->c->tied && w->id == MODEL_embed))
            narrow_packed(m, w);
        if (form == MODEL_ROWS)
            record(m->r, "narrow_rows", ARG(p, as_updated(m, recipe_master(m, w), w)),
                   ARG(w, as_updated(m, recipe_form(m, w, form), w)));
    }
    recipe_tables(m);
}
