/* Large packed tensors and results of products are stored past the caches where their memory begins a line, and as usual where
 * it does not: with the same values. */
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
    "}\n"
    "kernel outer(in a: f32[E, H], in b: f32[H, F], out y: f32[E, F]) {\n"
    "  y[e, f] = relu(sum(h) a[e, h] * b[h, f])\n"
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

static int set_up(void **state)
{
    static moec_module *m;
    moec_context *c = moec_context_new();
    assert_int_equal(moec_compile_text(c, "streamed.moe", PROGRAM, strlen(PROGRAM), NULL, &m), 0);
    moec_context_free(c);
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    moec_module_free(*state);
    return 0;
}

/* Element [k, column] of a matrix of `rows` in panels: language page, section 11. */
static int64_t place(int64_t rows, int64_t k, int64_t column, int64_t terms)
{
    int64_t line = 16 * terms, padded = (rows + line - 1) / line * line;
    return (column / 32 * padded + k / terms * terms) * 32 + column % 32 * terms + k % terms;
}

static int64_t matrix(int64_t rows, int64_t columns, int64_t terms)
{
    return place(rows, 0, (columns + 31) / 32 * 32, terms);
}

static float element(const char *panels, int64_t at, int64_t terms)
{
    float value;
    if (terms == 1) {
        memcpy(&value, panels + 4 * at, 4);
        return value;
    }
    uint32_t bits = 0;
    memcpy((char *)&bits + 2, panels + 2 * at, 2);
    memcpy(&value, &bits, 4);
    return value;
}

/* What lies between the columns of a matrix and the end of their panel may be anything. */
static void expect_values(const char *packed, int64_t terms)
{
    const char *panels = packed + LINE;
    int64_t one = matrix(H, F, terms), other = matrix(F, H, terms);
    for (int64_t n = 0; n < E * H * F; n++) {
        int64_t e = n / (H * F), h = n / F % H, f = n % F;
        float want = (float)(n % 251);
        assert_true(element(panels, e * one + place(H, h, f, terms), terms) == want);
        assert_true(element(panels, E * one + e * other + place(F, f, h, terms), terms) == want);
    }
}

static void panels_do_not_depend_on_their_place(void **state)
{
    const moec_kernel *k = moec_module_kernel(*state, "update");
    for (size_t shift = 0; shift < 2; shift++) {
        float *p = malloc(BYTES);
        for (int n = 0; n < E * H * F; n++)
            p[n] = (float)(n % 251) - 1;
        Packed w = some_memory(k, "w", 2 * shift), v = some_memory(k, "v", 4 * shift);
        assert_true(w.bytes + v.bytes > 4 << 20); /* caches.stream_weights */
        moe_ctx *ctx = moe_ctx_new(2);
        void *args[] = {p, w.at, v.at};
        assert_int_equal(moec_kernel_entry(k)(ctx, (int64_t[]){E, H, F}, args), MOE_OK);
        moe_ctx_free(ctx);
        expect_values(w.at, 2);
        expect_values(v.at, 1);
        free(p), free(w.at - 2 * shift), free(v.at - 4 * shift);
    }
}

/* Rows end within a vector, and the second result begins within a line. */
static void results_do_not_depend_on_their_place(void **state)
{
    enum { ROWS = 1099, TERMS = 2, COLUMNS = 1021 };
    const moec_kernel *k = moec_module_kernel(*state, "outer");
    static float a[ROWS * TERMS], b[TERMS * COLUMNS], y[2 * ROWS * COLUMNS + LINE];
    for (int i = 0; i < ROWS * TERMS; i++)
        a[i] = (float)(i % 13) - 3;
    for (int i = 0; i < TERMS * COLUMNS; i++)
        b[i] = (float)(i % 7);
    float *first = (float *)(((uintptr_t)y + LINE - 1) / LINE * LINE), *second = first + ROWS * COLUMNS;
    assert_true(ROWS * COLUMNS * sizeof *y > 4 << 20 && (uintptr_t)second % LINE); /* caches.stream_weights */
    for (int i = 0; i < 2; i++) {
        moe_ctx *ctx = moe_ctx_new(1 + i);
        void *args[] = {a, b, i ? second : first};
        assert_int_equal(moec_kernel_entry(k)(ctx, (int64_t[]){ROWS, TERMS, COLUMNS}, args), MOE_OK);
        moe_ctx_free(ctx);
    }
    assert_memory_equal(first, second, ROWS * COLUMNS * sizeof *y);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int row = i / COLUMNS, f = i % COLUMNS;
        float sum = a[row * TERMS] * b[f] + a[row * TERMS + 1] * b[COLUMNS + f];
        assert_true(first[i] == (sum > 0 ? sum : 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_do_not_depend_on_their_place),
        cmocka_unit_test(results_do_not_depend_on_their_place),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
