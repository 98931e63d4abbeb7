/* Note [Sums in rank order]: the sums themselves. */
#include "comm/own.h"

static void add_f32(float *y, const float *const *parts, int64_t members, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float sum = parts[0][i];
        for (int64_t m = 1; m < members; m++)
            sum += parts[m][i];
        y[i] = sum;
    }
}

static void add_bf16(uint16_t *y, const uint16_t *const *parts, int64_t members, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float sum = f32_of_bf16(parts[0][i]);
        for (int64_t m = 1; m < members; m++)
            sum += f32_of_bf16(parts[m][i]);
        y[i] = bf16_of_f32(sum);
    }
}

static void add_i32(int32_t *y, const int32_t *const *parts, int64_t members, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int64_t m = 0; m < members; m++)
            sum += parts[m][i];
        y[i] = (int32_t)sum;
    }
}

int comm_add(moec_type type, void *y, const void *const *parts, int64_t members, int64_t n)
{
    switch (type) {
    case MOEC_F32: add_f32(y, (const float *const *)parts, members, n); return 0;
    case MOEC_BF16: add_bf16(y, (const uint16_t *const *)parts, members, n); return 0;
    case MOEC_I32: add_i32(y, (const int32_t *const *)parts, members, n); return 0;
    case MOEC_F16: break;
    }
    return 1;
}
