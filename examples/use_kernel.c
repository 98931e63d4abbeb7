/* Calls the kernel of moe_ffn.moe from C: only the generated header and the .so are needed.
 *
 *   moec moe_ffn.moe -o kernel.so
 *   cc use_kernel.c -I. ./kernel.so -lm -o use_kernel && ./use_kernel
 *
 * Three tokens choose two of four experts each; every weight is 1, so the answer can be computed by hand. */
#include "kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 3, K = 2, E = 4, H = 16, F = 32 };

static uint16_t bf16(float value)
{
    union {
        float f;
        uint32_t bits;
    } u = {value};
    return (uint16_t)((u.bits + 0x7fff + (u.bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t bits)
{
    union {
        uint32_t bits;
        float f;
    } u = {(uint32_t)bits << 16};
    return u.f;
}

static uint16_t *filled(size_t n, float value)
{
    uint16_t *p = malloc(n * sizeof *p);
    if (!p)
        abort();
    for (size_t i = 0; i < n; i++)
        p[i] = bf16(value);
    return p;
}

int main(void)
{
    /* Token 0 chose experts 2 and 0, token 1 chose 2 and 3, token 2 chose 0 and 2; rows are sorted by expert.
     * Expert 1 has no rows: that is legal. */
    int64_t start[E + 1] = {0, 2, 2, 5, 6}, count[E] = {2, 0, 3, 1};
    int32_t slot_of[T * K] = {1, 4, 0, 2, 5, 3}, row_of[T * K] = {2, 0, 3, 5, 1, 4};
    moe_route route = {T, K, E, T * K, start, count, slot_of, row_of};
    float p[T * K] = {0.75f, 0.25f, 0.5f, 0.5f, 0.25f, 0.25f}; /* the last token's choices count half */

    uint16_t *x = filled(T * H, 0.125f), *y = filled(T * H, 0.0f);
    uint16_t *wg = filled(E * H * F, 1.0f), *wu = filled(E * H * F, 1.0f), *wd = filled(E * F * H, 1.0f);

    int status = ffn(NULL, T, K, E, H, F, x, &route, p, wg, wu, wd, y);
    if (status) {
        fprintf(stderr, "ffn: %s\n", moe_strerror(status));
        return 1;
    }
    float g = H * 0.125f, act = from_bf16(bf16(g / (1 + expf(-g)) * g)), full = act * F;
    float expected[T] = {full, full, full / 2};
    int wrong = 0;
    for (int t = 0; t < T; t++) {
        printf("token %d: y[0] = %g, expected %g\n", t, (double)from_bf16(y[t * H]), (double)expected[t]);
        for (int h = 0; h < H; h++)
            wrong |= y[t * H + h] != bf16(expected[t]);
    }
    /* A size that breaks a rule is refused before anything is written. */
    status = ffn(NULL, T, K, E, H + 1, F, x, &route, p, wg, wu, wd, y);
    printf("H = %d: %s\n", H + 1, moe_strerror(status));
    wrong |= status != MOE_RULE;

    free(x), free(y), free(wg), free(wu), free(wd);
    puts(wrong ? "WRONG" : "ok");
    return wrong;
}
