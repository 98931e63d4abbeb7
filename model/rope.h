/* Rotary positions of a model as the numbers that kernels take (rope.moe, attention.moe). */
#ifndef MODEL_ROPE_H
#define MODEL_ROPE_H

#include "model/config.h"

/* Position i turns pair p by i * base^(-p / pairs), divided by `factor` as far as a ramp says that is 0 up to pair `low` and 1
 * from pair `high` on. Sines and cosines are multiplied by `size`, scores by `score`. */
typedef struct ModelRope {
    double base, factor, low, high, size, score;
} ModelRope;

ModelRope model_rope(const ModelConfig *c);

#endif
