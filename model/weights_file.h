/* Weights between Hugging Face checkpoints and f32 masters in our shapes: matrices are transposed on the way. */
#ifndef MODEL_WEIGHTS_FILE_H
#define MODEL_WEIGHTS_FILE_H

#include "model/safetensors.h"
#include "model/weights.h"

/* Reads the weights of a model from a folder, index or file of safetensors (F32, BF16 or F16). masters[i] gets the elements of
 * w->at[i]; where it is NULL, nothing is read but the tensors are checked. Returns NULL, or a line for every tensor that is
 * missing, superfluous or of another shape or type (at most 20); then no master was written. */
const char *model_weights_load(Arena *a, const char *path, const ModelConfig *c, const ModelWeights *w, float *const *masters);

/* Writes the same tensors, rounded to `type` (buffers stay F32), and config.json, which comes last, into a folder that is made
 * where there is none. Files have at most `file_bytes` bytes of elements, or one tensor; if there are several, an index names
 * them. Each file appears when it is whole; the folder should be a new one, because files of an older model stay in it. */
const char *model_weights_save(Arena *a, const char *folder, const ModelConfig *c, const ModelWeights *w,
                               const float *const *masters, StoredType type, uint64_t file_bytes);

/* Writes one file alone: the tensors of those weights whose values[i] is not NULL, such as gradients. */
const char *model_weights_write(Arena *a, const char *path, const ModelConfig *c, const ModelWeights *w,
                                const float *const *values, StoredType type);

#endif
