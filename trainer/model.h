/* The model's memory: masters, gradients and moments of all parameters in flat buffers, the bf16 copies that kernels read one
 * by one, and the buffers of a step. Everything is allocated once. */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include "moec/moert.h"
#include "trainer/config.h"
#include "trainer/kernels.h"

enum { VOCABULARY = 256, NORM_ROW = 1024 /* gradients are summed in rows of so many */ };

/* Sizes of the model and of its micro-batch, named as in the kernels. */
typedef struct ModelSizes {
    int64_t B, S, T, H, N, D, A, K, E, F, G, V, L;
} ModelSizes;

typedef enum WeightId {
#define WEIGHT(name, scope, form, matrices, rows, columns, deviation) WEIGHT_##name,
#include "trainer/weights.def"
    WEIGHT_COUNT
} WeightId;

typedef struct Model {
    ModelSizes sizes;
    int64_t count;                 /* elements of each buffer below, a multiple of NORM_ROW */
    int64_t parameters;            /* those that are not padding */
    int64_t active;                /* those that one token uses */
    float *master;                 /* [count] */
    float *gradient;               /* [count] summed over the micro-batches */
    float *first, *second;         /* [count] AdamW's moments */
    int64_t *offset[WEIGHT_COUNT]; /* [L] or [1]: where a weight begins in these */
    uint16_t **copy[WEIGHT_COUNT]; /* [L] or [1]: of the master, in the weight's form; none of a norm */
} Model;

typedef enum WeightForm { FORM_NORM, FORM_ROWS, FORM_PACKED } WeightForm;

typedef struct WeightRow {
    const char *name;
    int per_layer;
    WeightForm form;
} WeightRow;
extern const WeightRow weight_table[WEIGHT_COUNT];

/* One weight (of one layer), and the deviation of its initial values. */
typedef struct WeightShape {
    int64_t matrices, rows, columns;
    double deviation;
} WeightShape;
WeightShape weight_shape(WeightId id, const ModelSizes *sizes);
int64_t weight_elements(WeightId id, const ModelSizes *sizes);
void weight_size(Kernels *k, WeightId id, const ModelSizes *sizes); /* P, X, Y and Z of the kernels of optimizer.moe */

ModelSizes model_sizes(const Config *c);
/* Refuses a model that cannot fit into this machine's memory, before any of it is touched. */
int model_check_memory(const ModelSizes *sizes);
int model_new(Model *m, const Config *c, Kernels *k); /* 0, or 1 with a message printed */
void model_free(Model *m);

static inline int64_t model_layers(const Model *m, WeightId id)
{
    return weight_table[id].per_layer ? m->sizes.L : 1;
}

typedef struct Buffers {
#define BUFFER(name, scope, type, elements, doc) type **name; /* [L] or [1] */
#include "trainer/buffers.def"
    moe_route **route; /* [L] */
    int64_t layers;
} Buffers;

int buffers_new(Buffers *b, const ModelSizes *sizes); /* 0, or 1 with a message printed */
void buffers_free(Buffers *b);

#endif
