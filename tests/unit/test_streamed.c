/* Large packed tensors are stored past the caches, in whole lines, when their memory begins a line, and as usual when it does
 * not: byte for byte the same. */
#include "moec/moec.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const char PROGRAM[] =
    "moe 1\n"
    "dim E, H, F\n"
    "kernel update(inout p: f32[E, H, F], out w: bf16[E, H, F] packed both, out v: f32[E, H, F] packed both) "
    "{\n"
    "  p[e, h, f] = p[e, h, f] + 1\n  w[e, h, f] = bf16(p[e, h, f])\n  v[e, h, f] = p[e, h, f]\n"
    "}\n";

enum { E = 2, H = 709, F = 523, BYTES = 4 * E * H * F, LINE = 64 };

typedef struct Packed {
    char *at;
    size_t bytes;
} Packed;

static Packed some_memory(const moec_kernel *k, const char *name, size_t shift)
{
    const int64_t dims[] = {E, H, F};
    Packed m = {.bytes = (size_t)moec_kernel_param_bytes(k, moec_kernel_param_index(k, name), dims)};
    size_t room = (m.bytes + shift + LINE - 1) / LINE * LINE;
    m.at = aligned_alloc(LINE, room);
    assert_non_null(m.at);
    memset(m.at, 0, room);
    m.at += shift;
    return m;
}

static void bytes_do_not_depend_on_the_way(void **state)
{
    (void)state;
    moec_context *c = moec_context_new();
    moec_module *m = NULL;
    assert_int_equal(moec_compile_text(c, "streamed.moe", PROGRAM, strlen(PROGRAM), NULL, &m), 0);
    const moec_kernel *k = moec_module_kernel(m, "update");
    Packed w[2], v[2];
    for (size_t i = 0; i < 2; i++) {
        float *p = malloc(BYTES);
        for (int n = 0; n < E * H * F; n++)
            p[n] = (float)(n % 251) - 1;
        w[i] = some_memory(k, "w", 2 * i), v[i] = some_memory(k, "v", 4 * i);
        void *args[] = {p, w[i].at, v[i].at};
        moe_ctx *ctx = moe_ctx_new(2);
        assert_int_equal(moec_kernel_entry(k)(ctx, (int64_t[]){E, H, F}, args), MOE_OK);
        moe_ctx_free(ctx);
        free(p);
    }
    assert_true(w[0].bytes + v[0].bytes > 4 << 20); /* caches.stream_panels */
    assert_memory_equal(w[0].at, w[1].at, w[0].bytes);
    assert_memory_equal(v[0].at, v[1].at, v[0].bytes);
    static float rows[E * H * F];
    assert_int_equal(
        moec_kernel_unpack(k, moec_kernel_param_index(k, "v"), (int64_t[]){E, H, F}, v[0].at, rows), MOE_OK);
    for (int n = 0; n < E * H * F; n++)
        assert_true(rows[n] == (float)(n % 251));
    for (size_t i = 0; i < 2; i++)
        free(w[i].at - 2 * i), free(v[i].at - 4 * i);
    moec_module_free(m);
    moec_context_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_do_not_depend_on_the_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
