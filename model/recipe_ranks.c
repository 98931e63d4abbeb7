/* What ranks share of a model, and how the stream of tokens passes between them. */
#include "model/recipe.h"

/* ---- weights ---- */

static WeightPool pool_of(const Recipe *m, const ModelWeight *w)
{
    return m->shards.weights[w - m->weights.at].pool;
}

/* The ranks of ep each have another part of it. */
static int is_own(const Recipe *m, const ModelWeight *w) { return pool_of(m, w) == POOL_OWN; }

/* Ranks of edp have the same experts, ranks of dp the same heads and columns. With caches no gradient tells what a sum over heads is, so a
 * rank's heads are its own there: `mla_cached` finds the columns of a head by a number, which equations of parts do not have. */
void recipe_place_weight(Recipe *m, BufferId b, const ModelWeight *w)
{
    const int own = is_own(m, w), cut = pool_of(m, w) == POOL_CUT;
    if (own || cut)
        record_place(m->r, b, AXIS_ep, PLACED_OWN);
    if (own)
        record_place(m->r, b, AXIS_dp, PLACED_OWN);
    if (own)
        record_place(m->r, b, AXIS_tp, PLACED_OWN);
    if (cut)
        record_place(m->r, b, AXIS_tp, m->cached ? (Placement)PLACED_OWN : model_weight_cut(w->id));
}

/* What each rank has of n; refused, and n, where they cannot have as many. */
static int64_t part(Recipe *m, const char *what, int64_t n, GroupAxis axis)
{
    const int64_t ranks = record_members(m->r, axis);
    if (n % ranks == 0)
        return n / ranks;
    record_refuse(
        m->r,
        "%lld %s over %s of %lld ranks: each rank has as many whole ones, so the ranks must divide them",
        (long long)n, what, axis_names[axis], (long long)ranks);
    return n;
}

/* The rows of a matrix whose columns ranks share: of a single one, columns are rows, and the parts are not told apart. */
static void refuse_single(Recipe *m, const char *what, int64_t n)
{
    if (n == 1)
        record_refuse(m->r, "%s is 1 over tp of %lld ranks: must be at least 2 there", what,
                      (long long)record_members(m->r, AXIS_tp));
}

/* Of a model with fewer heads and narrower dense networks, all shapes are those of a rank of tp. */
static void share_heads(Recipe *m)
{
    ModelConfig *c = arena_new_of(m->arena, ModelConfig);
    *c = *m->c;
    c->heads = part(m, "heads", c->heads, AXIS_tp);
    c->kv_heads = part(m, "heads of keys", c->kv_heads, AXIS_tp);
    c->dense_width = part(m, "columns of dense networks", c->dense_width, AXIS_tp);
    part(m, "tokens of a micro-batch", m->sequences * m->positions, AXIS_tp);
    refuse_single(m, "hidden_size", c->hidden);
    refuse_single(m, "kv_lora_rank", c->kv_lora);
    refuse_single(m, "q_lora_rank", c->q_lora);
    if (model_is_latent(c) && !c->q_lora)
        record_refuse(m->r, "latent attention without a latent of queries is on one rank, not over tp");
    m->c = c;
}

void recipe_share(Recipe *m)
{
    int64_t members[AXIS_COUNT];
    for (GroupAxis a = 0; a < AXIS_COUNT; a++)
        members[a] = record_members(m->r, a);
    m->shards = model_shards(m->arena, &m->weights, members);
    if (record_members(m->r, AXIS_tp) > 1)
        share_heads(m);
    m->weights = model_weights(m->arena, m->c);
    const int64_t experts = part(m, "routed experts", m->c->experts, AXIS_ep);
    for (uint32_t i = 0; i < m->weights.len; i++)
        if (is_own(m, &m->weights.at[i]))
            m->weights.at[i].matrices = experts;
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
