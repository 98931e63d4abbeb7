/* The weights of a model: shapes, how they start, and the Hugging Face tensors that hold them (weights.def). */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "model/config.h"

typedef enum ModelModule {
#define MODULE(id, title) MODULE_##id,
#include "model/weights.def"
    MODULE_COUNT
} ModelModule;

typedef enum ModelWeightId {
#define WEIGHT(id, ...) MODEL_##id,
#include "model/weights.def"
    MODEL_WEIGHT_COUNT
} ModelWeightId;

typedef enum ModelScope { SCOPE_ONCE, SCOPE_LAYER, SCOPE_MTP } ModelScope;
typedef enum ModelForm { MODEL_VECTOR, MODEL_BUFFER, MODEL_ROWS, MODEL_PACKED } ModelForm;
typedef enum ModelStart { START_ONE, START_ATTENTION, START_MLP, START_ZERO, START_EMBEDDING, START_HEAD, START_IN, START_OUT } ModelStart;

typedef struct ModelWeightRow {
    const char *name, *doc;
    ModelScope scope;
    ModelModule module;
    ModelForm form;
    ModelStart start;
} ModelWeightRow;
extern const ModelWeightRow model_weight_table[MODEL_WEIGHT_COUNT];
extern const char *const model_module_titles[MODULE_COUNT];

/* One weight of one layer. Before training each element is value + deviation x a normal random number. */
typedef struct ModelWeight {
    ModelWeightId id;
    int64_t layer;     /* -1: of no layer; from config->layers on: of multi-token prediction */
    const char *name;  /* ours: "embed", "L3.wg" */
    int64_t matrices, rows, columns;
    int64_t tensors;   /* theirs: 1, or one for each matrix */
    const char *tensor; /* theirs, as in weights.def */
    double value, deviation;
} ModelWeight;
typedef Vec(ModelWeight) ModelWeights;

static inline int64_t model_weight_elements(const ModelWeight *w) { return w->matrices * w->rows * w->columns; }
static inline const ModelWeightRow *model_weight_row(const ModelWeight *w) { return &model_weight_table[w->id]; }
static inline int model_weight_decays(const ModelWeight *w) { return model_weight_row(w)->form >= MODEL_ROWS; }
static inline int model_weight_has_gradient(const ModelWeight *w) { return model_weight_row(w)->form != MODEL_BUFFER; }

/* One weight without its name; 0: the model, or this layer of it, has none. */
int model_weight(const ModelConfig *c, ModelWeightId id, int64_t layer, ModelWeight *out);

/* All of them in the order of the model: embedding, layers, last norm and head. */
ModelWeights model_weights(Arena *a, const ModelConfig *c);

/* The weight `id` of a layer (-1: of none) in the list; NULL: the model has none. */
const ModelWeight *model_weights_find(const ModelWeights *all, ModelWeightId id, int64_t layer);

/* The Hugging Face tensor number i < w->tensors of a weight: its name, and its shape; returns its rank. */
const char *model_tensor_name(Arena *a, const ModelWeight *w, int64_t i);
uint32_t model_tensor_shape(const ModelWeight *w, int64_t shape[2]);

/* Other names under which a checkpoint may hold the same elements again: the embedding and the head of each module of
 * multi-token prediction, and the head where it is the embedding. */
ModelNames model_tensor_copies(Arena *a, const ModelConfig *c, const ModelWeight *w);

#endif
