/* What ranks share of a model, and how the stream of tokens passes between them. */
#include "model/recipe.h"

/* ---- weights ---- */

int recipe_is_own(const Recipe *m, const ModelWeight *w)
{
    return model_weight_row(w)->module == MODULE_EXPERTS && record_members(m->r, AXIS_ep) > 1;
}

/* What tp cuts of a weight: heads and columns of what enters a block, rows of what ends it. One matrix is [1, rows, columns], so that
 * parts of its rows are parts of the first dimension too. */
static const Placement cuts[MODEL_WEIGHT_COUNT] = {
    [MODEL_wq] = PLACED_PART(2),   [MODEL_wk] = PLACED_PART(2),    [MODEL_wv] = PLACED_PART(2),
    [MODEL_wq_b] = PLACED_PART(2), [MODEL_wkv_b] = PLACED_PART(2), [MODEL_dg] = PLACED_PART(2),
    [MODEL_du] = PLACED_PART(2),   [MODEL_wo] = PLACED_PART(0),    [MODEL_dd] = PLACED_PART(0)};

static Placement cut_of(const Recipe *m, ModelWeightId id)
{
    return record_members(m->r, AXIS_tp) > 1 ? cuts[id] : (Placement)PLACED_WHOLE;
}

int recipe_is_cut(const Recipe *m, const ModelWeight *w) { return cut_of(m, w->id) != PLACED_WHOLE; }

/* Part `place` of `parts` of n elements. */
static WeightPart part_of(int64_t n, int64_t parts, int64_t place)
{
    return (WeightPart){n / parts, n / parts * place, n / parts, n};
}

WeightPart recipe_part(const Ranks *r, int64_t rank, const ModelWeight *w)
{
    const int64_t n = model_weight_elements(w), tp = r->members[AXIS_tp],
                  place = ranks_place(r, AXIS_tp, rank);
    if (model_weight_row(w)->module == MODULE_EXPERTS)
        return part_of(n, r->members[AXIS_ep], ranks_place(r, AXIS_ep, rank));
    if (cuts[w->id] == PLACED_PART(0))
        return part_of(n, tp, place);
    if (cuts[w->id] == PLACED_PART(2))
        return (WeightPart){n / tp, w->columns / tp * place, w->columns / tp, w->columns};
    return part_of(n, 1, 0);
}

/* Ranks of edp have the same experts, ranks of dp the same heads and columns. */
void recipe_place_weight(Recipe *m, BufferId b, const ModelWeight *w)
{
    const int own = recipe_is_own(m, w), cut = recipe_is_cut(m, w);
    if (own || cut)
        record_place(m->r, b, AXIS_ep, PLACED_OWN);
    if (own)
        record_place(m->r, b, AXIS_dp, PLACED_OWN);
    if (own)
        record_place(m->r, b, AXIS_tp, PLACED_OWN);
    if (cut)
        record_place(m->r, b, AXIS_tp, cut_of(m, w->id));
}

static void refuse_unless_divided(Recipe *m, const char *what, int64_t n, GroupAxis axis)
{
    const int64_t ranks = record_members(m->r, axis);
    if (n % ranks)
        record_refuse(
            m->r,
            "%lld %s over %s of %lld ranks: each rank has as many whole ones, so the ranks must divide them",
            (long long)n, what, axis_names[axis], (long long)ranks);
}

/* Of a model with fewer heads and narrower dense networks, all shapes are those of a rank of tp. */
static void share_heads(Recipe *m)
{
    const int64_t ranks = record_members(m->r, AXIS_tp);
    ModelConfig *c = arena_new_of(m->arena, ModelConfig);
    *c = *m->c;
    refuse_unless_divided(m, "heads", c->heads, AXIS_tp);
    refuse_unless_divided(m, "heads of keys", c->kv_heads, AXIS_tp);
    refuse_unless_divided(m, "columns of dense networks", c->dense_width, AXIS_tp);
    refuse_unless_divided(m, "tokens of a micro-batch", m->sequences * m->positions, AXIS_tp);
    if (model_is_latent(c) && !c->q_lora)
        record_refuse(m->r, "latent attention without a latent of queries is on one rank, not over tp");
    c->heads /= ranks, c->kv_heads /= ranks, c->dense_width /= ranks;
    m->c = c;
}

void recipe_share(Recipe *m)
{
    const int64_t ranks = record_members(m->r, AXIS_ep);
    if (record_members(m->r, AXIS_tp) > 1)
        share_heads(m);
    m->weights = model_weights(m->arena, m->c);
    refuse_unless_divided(m, "routed experts", m->c->experts, AXIS_ep);
    for (uint32_t i = 0; i < m->weights.len; i++)
        if (recipe_is_own(m, &m->weights.at[i]))
            m->weights.at[i].matrices /= ranks;
}

/* ---- the stream ---- */

void recipe_place_own(Recipe *m, BufferId b)
{
    record_place(m->r, b, AXIS_dp, PLACED_OWN);
    record_place(m->r, b, AXIS_ep, PLACED_OWN);
    record_place(m->r, b, AXIS_edp, PLACED_OWN);
}

int64_t recipe_rows(const Recipe *m) { return m->sequences * m->positions / record_members(m->r, AXIS_tp); }

static BufferId over_tp(Recipe *m, TaskKind kind, BufferId x)
{
    return record_members(m->r, AXIS_tp) > 1 ? record_exchange(m->r, kind, AXIS_tp, x, RECORD_OWN) : x;
}

BufferId recipe_gather(Recipe *m, BufferId x) { return over_tp(m, TASK_allgather, x); }

BufferId recipe_scatter(Recipe *m, BufferId x) { return over_tp(m, TASK_reducescatter, x); }

BufferId recipe_split(Recipe *m, BufferId x) { return over_tp(m, TASK_split, x); }

BufferId recipe_summed(Recipe *m, GroupAxis axis, BufferId x)
{
    return x != STEP_NONE && record_members(m->r, axis) > 1
               ? record_exchange(m->r, TASK_allreduce, axis, x, 0)
               : x;
}
