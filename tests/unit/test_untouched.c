/* A bucketed sum that is added touches the elements that have terms, and no others: the rest of the tensor may be memory
 * that nobody may read. */
#include "moec/moec.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char PROGRAM[] =
    "moe 1\n"
    "dim T, V, H\n"
    "kernel embed(in id: i32[T], in w: bf16[V, H], out x: f32[T, H]) {\n  x[t, h] = f32(w[id[t], h])\n}\n"
    "derive (embed_fwd, embed_bwd) from embed wrt w +=\n";

enum { T = 6, V = 1000, STRIPS = 3 };

typedef struct Rows {
    float *row[V]; /* [H] */
    int64_t H;     /* a whole number of pages each */
} Rows;

/* Rows of -0; those whose numbers are not in `id` cannot be read. */
static Rows some_rows(const int32_t *id)
{
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE) * STRIPS;
    float *all = mmap(NULL, V * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    Rows r = {.H = (int64_t)(bytes / sizeof(float))};
    for (int v = 0; v < V; v++)
        r.row[v] = all + v * r.H;
    for (int t = 0; t < T; t++)
        if (id[t] >= 0 && id[t] < V)
            assert_int_equal(mprotect(r.row[id[t]], bytes, PROT_READ | PROT_WRITE), 0);
    for (int t = 0; t < T; t++)
        for (int64_t h = 0; h < r.H && id[t] >= 0 && id[t] < V; h++)
            r.row[id[t]][h] = -0.0F;
    return r;
}

static void rows_without_terms_are_not_touched(void **state)
{
    (void)state;
    int32_t id[T] = {999, 3, -1, 3, 0, V};
    Rows r = some_rows(id);
    moec_context *c = moec_context_new();
    moec_module *m = NULL;
    assert_int_equal(moec_compile_text(c, "untouched.moe", PROGRAM, strlen(PROGRAM), NULL, &m), 0);
    static float d_x[T * 64 * 1024];
    for (int64_t i = 0; i < T * r.H; i++)
        d_x[i] = (float)(i / r.H + 1);
    moe_ctx *ctx = moe_ctx_new(2);
    const int64_t dims[] = {T, V, r.H};
    void *args[] = {id, NULL /* only its shape is asked for */, d_x, r.row[0]};
    assert_int_equal(moec_kernel_entry(moec_module_kernel(m, "embed_bwd"))(ctx, dims, args), MOE_OK);
    for (int64_t h = 0; h < r.H; h++)
        assert_true(r.row[999][h] == 1 && r.row[3][h] == 2 + 4 && r.row[0][h] == 5);
    moe_ctx_free(ctx);
    moec_module_free(m);
    moec_context_free(c);
    munmap(r.row[0], V * (size_t)r.H * sizeof(float));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_without_terms_are_not_touched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
