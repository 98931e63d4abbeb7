/* Packs the weights of packed_ffn.moe once, calls the kernel with them, and shows what a call says to other memory.
 *
 *   moec packed_ffn.moe -o packed.so
 *   cc use_packed.c -I. ./packed.so -lm -o use_packed && ./use_packed
 *
 * One token, one expert, every weight 1: the answer can be computed by hand. */
#include "packed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 1, K = 1, E = 1, H = 16, F = 48, ONE = 0x3f80 /* 1.0 as bf16 */, EIGHTH = 0x3e00 };

/* Memory of `bytes`, at an address that suits the machine's loads best. */
static uint16_t *memory(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p)
        abort();
    return p;
}

int main(void)
{
    static uint16_t ones[E * H * F], x[T * H], y[T * H];
    for (int i = 0; i < E * H * F; i++)
        ones[i] = ONE;
    for (int i = 0; i < T * H; i++)
        x[i] = EIGHTH;
    uint16_t *wg = memory(packed_ffn_wg_pack_bytes(E, H, F)), *wu = memory(packed_ffn_wu_pack_bytes(E, H, F));
    uint16_t *wd = memory(packed_ffn_wd_pack_bytes(E, H, F));
    int status = packed_ffn_wg_pack(E, H, F, ones, wg);
    status = status ? status : packed_ffn_wu_pack(E, H, F, ones, wu);
    status = status ? status : packed_ffn_wd_pack(E, H, F, ones, wd);
    if (status) {
        fprintf(stderr, "packing: %s\n", moe_strerror(status));
        return 1;
    }

    int64_t start[E + 1] = {0, 1}, count[E] = {1};
    int32_t slot_of[1] = {0}, row_of[1] = {0};
    moe_route route = {T, K, E, T * K, start, count, slot_of, row_of};
    float p[1] = {1.0f};
    char message[MOE_MESSAGE_BYTES] = "";
    moe_ctx ctx = {.message = message};
    status = packed_ffn(&ctx, T, K, E, H, F, x, &route, p, wg, wu, wd, y);
    if (status) {
        fprintf(stderr, "%s: %s\n", moe_strerror(status), message);
        return 1;
    }
    union {
        uint32_t bits;
        float f;
    } got = {(uint32_t)y[0] << 16};
    float g = H * 0.125f, expected = g / (1 + expf(-g)) * g * F;
    printf("y[0] = %g, expected %g\n", (double)got.f, (double)expected);
    int wrong = fabsf(got.f - expected) > 0.01f * expected;

    /* Row-major memory, and memory of other sizes, is refused before anything is written. */
    wrong |= packed_ffn(&ctx, T, K, E, H, F, x, &route, p, ones, wu, wd, y) != MOE_PACKED;
    puts(message);
    wrong |= packed_ffn(&ctx, T, K, E, H, F + 16, x, &route, p, wg, wu, wd, y) != MOE_PACKED;
    puts(message);
    free(ctx.work), free(wg), free(wu), free(wd);
    puts(wrong ? "WRONG" : "ok");
    return wrong;
}
