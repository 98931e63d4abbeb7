/* How the ranks of dp share the optimizer (ZeRO-1).
 *
 * Note [Shards]. All gradients are one tensor of rows: first those of vectors, then those of all other weights, whose rows are a multiple
 * of the ranks. Of the latter each rank has a part of the masters and moments, its shard: it gets the sum of the ranks' gradients for
 * that part only, updates it, and what kernels read of the weights comes back from all, in the type in which they read it. A shard
 * begins and ends anywhere in a weight. Vectors are few and are read in f32: all ranks have them whole and update them alike. */
#ifndef MODEL_SHARDS_H
#define MODEL_SHARDS_H

#include "model/weights.h"

enum { SHARD_ROW = 1024 };

/* Their names in programs, f32[rows / ranks, SHARD_ROW]. */
#define SHARD_MASTERS "shard.masters"
#define SHARD_MOMENT1 "shard.moment1"
#define SHARD_MOMENT2 "shard.moment2"

typedef struct ModelShards {
    int64_t ranks;
    int64_t vector_rows, rows; /* of all vectors; of all the other weights with gradients */
} ModelShards;
ModelShards model_shards(const ModelWeights *all, int64_t ranks);

static inline int model_is_vector(const ModelWeight *w) { return model_weight_row(w)->form == MODEL_VECTOR; }
/* The first element of a weight with a gradient, among the vectors or among the others. */
int64_t model_shards_place(const ModelWeights *all, const ModelWeight *w);

#endif
