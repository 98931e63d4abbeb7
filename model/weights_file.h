/* Weights between Hugging Face checkpoints and f32 masters in our shapes: matrices are transposed on the way. */
#ifndef MODEL_WEIGHTS_FILE_H
#define MODEL_WEIGHTS_FILE_H

#include "model/safetensors.h"
#include "model/shards.h"

/* What a process has of a weight, or of what is kept beside it: elements begin to end - 1 of its part, at `at`; NULL: none. */
typedef struct WeightSlice {
    WeightPart part;
    int64_t begin, end;
    float *at;
} WeightSlice;
WeightSlice weight_slice_whole(const ModelWeight *w, float *at);
/* Between a slice and a tensor of all elements in our order; `place`: of the tensor in the file. */
void weight_slice_put(FilePatch *f, uint64_t place, StoredType type, const WeightSlice *s);
void weight_slice_take(const StoredTensor *t, const WeightSlice *s);
/* The first element of the weight that is here and not finite; -1: there is none. */
int64_t weight_slice_odd(const WeightSlice *s);

/* Reads the weights of a model from a folder, index or file of safetensors (F32, BF16 or F16). masters[i] gets the elements of
 * w->at[i]; where it is NULL, nothing is read but the tensors are checked. Returns NULL, or a line for every tensor that is
 * missing, superfluous or of another shape or type (at most 20); then no master was written. */
const char *model_weights_load(Arena *a, const char *path, const ModelConfig *c, const ModelWeights *w, float *const *masters);
/* The same of slices, by weight: of the others nothing is read. */
const char *model_weights_take(Arena *a, const char *path, const ModelConfig *c, const ModelWeights *w, const WeightSlice *slices);

/* Writes the same tensors, rounded to `type` (buffers stay F32), and config.json into a folder that is there. Files have at most
 * `file_bytes` bytes of elements, or one tensor; if there are several, an index names them. The first process makes the files, which
 * hold zeros; then each puts in what it has, and of an element that several have one puts it. They are the model when all have done so. */
const char *model_weights_make(Arena *a, const char *folder, const ModelConfig *c, const ModelWeights *w, StoredType type, uint64_t file_bytes);
const char *model_weights_put(Arena *a, const char *folder, const ModelConfig *c, const ModelWeights *w, int first, const WeightSlice *slices,
                              StoredType type, uint64_t file_bytes);
/* Both, of one process that has all of it. */
const char *model_weights_save(Arena *a, const char *folder, const ModelConfig *c, const ModelWeights *w,
                               const float *const *masters, StoredType type, uint64_t file_bytes);

/* Writes one file alone, which appears when it is whole: the tensors of those weights whose values[i] is not NULL, such as gradients. */
const char *model_weights_write(Arena *a, const char *path, const ModelConfig *c, const ModelWeights *w,
                                const float *const *values, StoredType type);

#endif
