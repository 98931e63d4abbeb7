#include "model/shards.h"

#include <string.h>

enum { STEP = 32 /* elements: each weight begins at whole cache lines */ };

#define OVER_ALL(p)                                                         \
    {                                                                       \
        [AXIS_tp] = (p), [AXIS_ep] = (p), [AXIS_dp] = (p), [AXIS_edp] = (p) \
    }
#define OVER(tp, ep, dp, edp)                                                    \
    {                                                                            \
        [AXIS_tp] = (tp), [AXIS_ep] = (ep), [AXIS_dp] = (dp), [AXIS_edp] = (edp) \
    }

/* A part over a group is each member's own over the groups in it, and so is a part of what is each member's own already. */
const PoolRow pool_table[POOL_COUNT] = {
    [POOL_VECTORS] = {"vectors",
                      "gradients.vectors",
                      {AXIS_tp, AXIS_dp},
                      2,
                      AXIS_pp,
                      OVER_ALL(PLACED_SUM),
                      OVER_ALL(PLACED_WHOLE)},
    [POOL_ALIKE] = {"alike",
                    "gradients",
                    {AXIS_tp, AXIS_dp},
                    2,
                    AXIS_pp,
                    OVER_ALL(PLACED_SUM),
                    OVER(PLACED_PART(0), PLACED_OWN, PLACED_PART(0), PLACED_OWN)},
    [POOL_CUT] = {"cut",
                  "gradients.cut",
                  {AXIS_dp},
                  1,
                  AXIS_tp,
                  OVER(PLACED_OWN, PLACED_OWN, PLACED_SUM, PLACED_SUM),
                  OVER(PLACED_OWN, PLACED_OWN, PLACED_PART(0), PLACED_OWN)},
    [POOL_OWN] = {"own",
                  "gradients.own",
                  {AXIS_edp},
                  1,
                  AXIS_ep,
                  OVER(PLACED_OWN, PLACED_OWN, PLACED_OWN, PLACED_SUM),
                  OVER(PLACED_OWN, PLACED_OWN, PLACED_OWN, PLACED_PART(0))},
};

/* ---- parts ---- */

/* Heads and columns of what enters a block, rows of what ends it. One matrix is [1, rows, columns], so that parts of its rows are parts
 * of the first dimension too. */
static const Placement cuts[MODEL_WEIGHT_COUNT] = {
    [MODEL_wq] = PLACED_PART(2),   [MODEL_wk] = PLACED_PART(2),    [MODEL_wv] = PLACED_PART(2),
    [MODEL_wq_b] = PLACED_PART(2), [MODEL_wkv_b] = PLACED_PART(2), [MODEL_dg] = PLACED_PART(2),
    [MODEL_du] = PLACED_PART(2),   [MODEL_wo] = PLACED_PART(0),    [MODEL_dd] = PLACED_PART(0)};

Placement model_weight_cut(ModelWeightId id) { return cuts[id]; }

/* Part `place` of `parts` of n elements. */
static WeightPart part_of(int64_t n, int64_t parts, int64_t place)
{
    return (WeightPart){n / parts, n / parts * place, n / parts, n};
}

WeightPart model_weight_part(const Ranks *r, int64_t rank, const ModelWeight *w)
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

/* ---- pools ---- */

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* One rank has one pool. */
static WeightPool pool_of(const ModelWeight *w, const int64_t *members)
{
    if (!model_weight_has_gradient(w))
        return POOL_NONE;
    if (model_weight_row(w)->module == MODULE_EXPERTS && members[AXIS_ep] > 1)
        return POOL_OWN;
    if (cuts[w->id] != PLACED_WHOLE && members[AXIS_tp] > 1)
        return POOL_CUT;
    return model_weight_row(w)->form == MODEL_VECTOR && members[AXIS_tp] * members[AXIS_dp] > 1 ? POOL_VECTORS
                                                                                                : POOL_ALIKE;
}

static int64_t product(const PoolRow *row, const int64_t *members)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < row->axes; i++)
        n *= members[row->sums[i]];
    return n;
}

ModelShards model_shards(Arena *a, const ModelWeights *all, const int64_t members[AXIS_COUNT])
{
    ModelShards s = {.weights = arena_array(a, struct ShardedWeight, all->len + 1)};
    int64_t elements[POOL_COUNT] = {0};
    memcpy(s.members, members, sizeof s.members);
    for (uint32_t i = 0; i < all->len; i++) {
        const ModelWeight *w = &all->at[i];
        const WeightPool p = pool_of(w, members);
        s.weights[i] = (struct ShardedWeight){p, p == POOL_NONE ? 0 : elements[p]};
        if (p != POOL_NONE)
            elements[p] += round_up(model_weight_elements(w) / members[pool_table[p].holders], STEP);
    }
    for (WeightPool p = 0; p < POOL_COUNT; p++) {
        s.pools[p].ranks = p == POOL_VECTORS ? 1 : product(&pool_table[p], members);
        s.pools[p].rows = round_up(elements[p], SHARD_ROW * s.pools[p].ranks) / SHARD_ROW;
    }
    return s;
}

/* ---- shards ---- */

/* Which part of the pool a rank has: parts of the first axis are cut by the second one. */
static int64_t shard_number(const PoolRow *row, const Ranks *r, int64_t rank)
{
    int64_t number = 0;
    for (uint32_t i = 0; i < row->axes; i++)
        number = number * r->members[row->sums[i]] + ranks_place(r, row->sums[i], rank);
    return number;
}

static int64_t within(int64_t n, int64_t most) { return n < 0 ? 0 : n > most ? most : n; }

WeightShard model_weight_shard(const ModelShards *s, const Ranks *r, int64_t rank, const ModelWeight *w,
                               uint32_t i)
{
    WeightShard shard = {.part = model_weight_part(r, rank, w), .shard = POOL_NONE};
    const WeightPool p = s->weights[i].pool;
    shard.end = shard.part.elements;
    if (!model_is_sharded(s, p))
        return shard;
    const int64_t each = s->pools[p].rows / s->pools[p].ranks * SHARD_ROW,
                  begin = shard_number(&pool_table[p], r, rank) * each, first = s->weights[i].first;
    shard.begin = within(begin - first, shard.part.elements);
    shard.end = within(begin + each - first, shard.part.elements);
    shard.at = within(first - begin, each), shard.shard = p;
    return shard;
}
