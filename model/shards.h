/* What each rank has of the weights of a model, and how the ranks that have the same share the optimizer (ZeRO-1).
 *
 * Note [Pools]. Gradients that the same ranks add up are one tensor of rows, a pool: those of vectors, those of other weights that all
 * ranks have alike, those of heads and columns that tp cuts, and those of experts, of which each rank of ep has some.
 *
 * Note [Shards]. The ranks that add up a pool share its masters and moments: each has a part of the rows, its shard. It gets the sum of
 * the gradients for its shard only and updates it, and what kernels read of the weights comes back from all, in the type in which they
 * read it. So all ranks share what they have alike, those of dp share the heads and columns of their place in tp, and those of edp
 * share their experts. A shard begins and ends anywhere in a weight: then all shards of a pool have one size, whatever the shapes of
 * weights, and the update, which goes over elements, needs no more. Vectors are few and are read in f32: all ranks have them whole and
 * update them alike. */
#ifndef MODEL_SHARDS_H
#define MODEL_SHARDS_H

#include "model/weights.h"
#include "step/ranks.h"

enum { SHARD_ROW = 1024 /* elements */ };

typedef enum WeightPool { POOL_VECTORS, POOL_ALIKE, POOL_CUT, POOL_OWN, POOL_COUNT, POOL_NONE = POOL_COUNT } WeightPool;

typedef struct PoolRow {
    const char *name, *gradients;  /* words in the names of its shards; of the tensor of its gradients */
    GroupAxis sums[2];             /* the axes whose ranks add the gradients up, one after the other */
    uint32_t axes;                 /* of them */
    GroupAxis holders;             /* the axis whose ranks have other parts of its weights; pp, which cuts none: there is none */
    Placement gradient[AXIS_COUNT], shard[AXIS_COUNT];
} PoolRow;
extern const PoolRow pool_table[POOL_COUNT];

/* Of one rank: all have as much. */
typedef struct ModelShards {
    int64_t members[AXIS_COUNT];
    struct {
        int64_t rows, ranks; /* of all gradients, SHARD_ROW elements each; that share them: 1: nobody does, and there are no shards */
    } pools[POOL_COUNT];
    struct ShardedWeight {
        WeightPool pool; /* POOL_NONE: it has no gradient */
        int64_t first;   /* of its elements among those of the pool */
    } *weights;
} ModelShards;
/* all: of the whole model. members: of this rank's groups, as Ranks.members. */
ModelShards model_shards(Arena *a, const ModelWeights *all, const int64_t members[AXIS_COUNT]);
static inline int model_is_sharded(const ModelShards *s, WeightPool p) { return p != POOL_NONE && s->pools[p].ranks > 1; }

/* How tp cuts a weight, if there are several ranks of tp: whole, or in parts. */
Placement model_weight_cut(ModelWeightId id);

/* What a rank has of a whole weight: runs of `run` elements, one in each `stride`, the first of them at `first`. */
typedef struct WeightPart {
    int64_t elements, first, run, stride;
} WeightPart;
WeightPart model_weight_part(const Ranks *r, int64_t rank, const ModelWeight *w);
/* Number i of its elements among those of the whole weight. */
static inline int64_t weight_part_at(const WeightPart *p, int64_t i) { return p->first + i / p->run * p->stride + i % p->run; }
/* The number among its elements of number i of the whole weight; -1: it is none of them. */
static inline int64_t weight_part_of(const WeightPart *p, int64_t i)
{
    const int64_t in = i - p->first, run = in / p->stride, at = in % p->stride;
    return in < 0 || at >= p->run ? -1 : run * p->run + at;
}

/* The masters and moments that a rank keeps of a weight: elements begin to end - 1 of its part. */
typedef struct WeightShard {
    WeightPart part;
    int64_t begin, end;
    int64_t at;   /* the first of them in the shard of the pool; without shards they are a tensor of their own */
    WeightPool shard; /* POOL_NONE: without shards */
} WeightShard;
/* w: number i of the whole model's weights. */
WeightShard model_weight_shard(const ModelShards *s, const Ranks *r, int64_t rank, const ModelWeight *w, uint32_t i);

/* Names in programs: f32[rows / ranks, SHARD_ROW] is "shard.<name of the pool>.<what>". */
#define SHARD_NAME "shard.%s.%s"
#define SHARD_MASTERS "masters"
#define SHARD_MOMENT1 "moment1"
#define SHARD_MOMENT2 "moment2"
#define SHARD_GRADIENT "gradient" /* of all ranks, in the program of a step */

#endif
