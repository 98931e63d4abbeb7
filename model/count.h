/* How much a model is: parameters, floating-point operations and bytes, from its config alone. */
#ifndef MODEL_COUNT_H
#define MODEL_COUNT_H

#include "model/weights.h"

typedef struct ModelParameters {
    int64_t total;
    int64_t active; /* those that one token is multiplied with: of the routed experts, the chosen ones */
} ModelParameters;

typedef struct ModelCount {
    ModelParameters module[MODULE_COUNT]; /* without multi-token prediction */
    ModelParameters mtp[MODULE_COUNT];    /* of its modules; embedding and head are the model's */
    ModelParameters all, all_mtp;         /* sums of these; a tied head counts once, under the embedding */
    ModelParameters dense_layer, expert_layer; /* one of them; 0 where the model has none */
} ModelCount;

ModelCount model_count(const ModelConfig *c);
int64_t model_vocabulary(const ModelConfig *c); /* parameters of the embedding, and of the head */

/* Operations of the forward pass for one token, 2 for each multiplication with an addition: the products with weights, and
 * attention's scores and results over a sequence of S positions, all of them (not causal) or half (causal). */
typedef struct ModelFlops {
    double dense_layer, expert_layer, head;
    double mtp;      /* one module: its layer, its projection, and the head again */
    double forward;  /* the whole model */
    double training; /* forward and backward: three times forward */
} ModelFlops;
ModelFlops model_flops(const ModelConfig *c, int64_t positions, int causal);

/* Bytes. f32 masters, gradients and moments; copies that kernels read: `act_bytes` an element, twice where they are packed both
 * ways. Activations: those that the backward kernels of model/ read, when nothing is recomputed; sums over the layers. */
typedef struct ModelBytes {
    double masters, copies, gradients, moments;
    double activations; /* for each token of a micro-batch */
    double cache;       /* for each position of a sequence that is decoded: latents, or keys and values */
} ModelBytes;
ModelBytes model_bytes(const ModelConfig *c, int act_bytes);

/* Four digits and a unit: "2.661 TiB". */
const char *model_bytes_text(Arena *a, double bytes);

/* Tables of all of it, for people. */
void model_count_print(const ModelConfig *c, int64_t positions, Text *out);

#endif
