/* Inside model/: the tensors of a checkpoint in the order in which they are written. */
#ifndef MODEL_WEIGHTS_PLAN_H
#define MODEL_WEIGHTS_PLAN_H

#include "model/weights_file.h"

typedef enum PlannedUse {
    PLANNED_WEIGHT,
    PLANNED_COPY, /* the same elements again, which a file may have or not */
} PlannedUse;

typedef struct PlannedTensor {
    StoredTensor stored; /* name, type and shape */
    PlannedUse use;
    uint32_t weight;     /* index into the list of weights */
    int64_t part;        /* which of its tensors */
} PlannedTensor;
typedef Vec(PlannedTensor) PlannedTensors;

PlannedTensors plan_tensors(Arena *a, const ModelConfig *c, const ModelWeights *w, StoredType type);

/* Extents of a tensor of weight w that is transposed: theirs is [columns, rows]. */
static inline int64_t planned_rows(const ModelWeight *w) { return w->matrices / w->tensors * w->rows; }
static inline int planned_is_transposed(const ModelWeight *w) { return model_weight_row(w)->form == MODEL_PACKED; }

/* Between a tensor of a file and what is here of its weight. at: the place of the tensor in the file. */
void planned_put(Arena *a, FilePatch *f, uint64_t at, const ModelWeight *w, const PlannedTensor *t, const WeightSlice *s);
void planned_take(const StoredTensor *from, const ModelWeight *w, const PlannedTensor *t, const WeightSlice *s);

/* Edge of the square blocks that transposition goes by: two of f32 fit the first-level cache. */
enum { TRANSPOSE_BLOCK = 64 };

#endif
