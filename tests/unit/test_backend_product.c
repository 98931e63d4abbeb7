/* Block products: operands packed into panels from every direction, products of ragged sizes, and what is written
 * beyond them. */
#include "tests/unit/backend_fixture.h"

#include <math.h>

enum { ROWS = 64, COLS = 128, DEPTH = 288, GUARDS = 4, GUARD = 16, IDS = 512 };

/* Element types of the sources and of the panels; `scale` is a factor in the value of the left panel. */
typedef struct Types {
    const char *x, *w, *left, *right;
    const char *value; /* of the left source, %s */
    int scale;
} Types;

static const Types types[] = {
    {"f32", "f32", "f32", "f32", "%s", 1},
    {"bf16", "bf16", "f32", "bf16", "%s", 1},
    {"bf16", "bf16", "bf16", "bf16", "%s", 1}, /* where the target multiplies them */
    {"f32", "bf16", "f32", "bf16", "%s * 2", 2},
    {"f16", "f16", "f32", "f32", "%s", 1},
    {"f32", "f32", "f32", "bf16", "f32(%s) + 0.0", 1},
};

/* Where the operands come from: the sources' subscripts. */
typedef struct Way {
    const char *x_shape, *x, *w_shape, *w;
} Way;

static const Way ways[] = {
    {"M, K", "i, k", "K, N", "k, j"},
    {"K, M", "k, i", "N, K", "j, k"},
    {"M, K", "id[i], k", "K, N", "id[512 + k], j"},
    {"K, M", "id[512 + k], i", "N, K", "id[1024 + j], k"},
    {"M, K", "id[i], id[512 + k]", "K, N", "id[512 + k], id[1024 + j]"},
};
enum { WAYS = sizeof ways / sizeof *ways };

static void add_kernel(char *text, size_t size, const Types *t, const Way *way, int number)
{
    char load[64], value[96], more[2048];
    snprintf(load, sizeof load, "x[%s]", way->x);
    snprintf(value, sizeof value, t->value, load);
    snprintf(
        more, sizeof more,
        "kernel f%d(in x: %s[%s], in w: %s[%s], in id: i32[1536], out y: f32[64, 128], out g: f32[4, 16]) {\n"
        "    cost M*N*K\n"
        "    thread g0: f32[16]\n"
        "    thread xs: %s[64, 288] lines\n"
        "    thread g1: f32[16]\n"
        "    thread ws: %s[288, 128] pairs\n"
        "    thread g2: f32[16]\n"
        "    thread part: f32[64, 128]\n"
        "    thread g3: f32[16]\n"
        "    launch y {\n"
        "        for u in 0..16 { g0[u] = 77.0 g1[u] = 77.0 g2[u] = 77.0 g3[u] = 77.0 }\n"
        "        for a in 0..64 { for b in 0..128 { part[a, b] = if(a < M and b < N, 3.0, 1000.0) } }\n"
        "        pack xs[0, 0] over i in 0..min2(M, 64), k in 0..min2(K, 288) = %s\n"
        "        pack ws[0, 0] over k in 0..min2(K, 288), j in 0..min2(N, 128) = %sw[%s]\n"
        "        product part[0, 0] += xs[0, 0] * ws[0, 0] rows min2(M, 64) cols min2(N, 128) depth min2(K, "
        "288)\n"
        "        for c in 0..64 { for d in 0..128 { y[c, d] = part[c, d] } }\n"
        "        for v in 0..16 { g[0, v] = g0[v] g[1, v] = g1[v] g[2, v] = g2[v] g[3, v] = g3[v] }\n"
        "    }\n"
        "}\n",
        number, t->x, way->x_shape, t->w, way->w_shape, t->left, t->right, value,
        strcmp(t->w, t->right) && !strcmp(t->right, "bf16") ? "bf16(" : "", way->w);
    if (strcmp(t->w, t->right) && !strcmp(t->right, "bf16")) { /* the closing bracket of bf16(...) */
        char *end = strstr(more, "        product");
        memmove(end, end - 1, strlen(end - 1) + 1);
        end[-1] = ')';
    }
    assert_true(strlen(text) + strlen(more) < size);
    strcat(text, more);
}

static void compile_products(Compiled *c, const Types *t, Isa isa)
{
    static char text[1 << 14];
    strcpy(text, "tiles 1\ndim M <= 64\ndim N <= 128\ndim K <= 288\n");
    for (int i = 0; i < WAYS; i++)
        add_kernel(text, sizeof text, t, &ways[i], i);
    compile(c, text, isa);
}

/* ---- one call ---- */

static uint16_t to_f16(float f)
{
    _Float16 h = (_Float16)f;
    uint16_t bits;
    memcpy(&bits, &h, sizeof bits);
    return bits;
}

/* The value of element [a, b] of a source with b's extent n. */
static float source(uint32_t seed, int64_t a, int64_t b, int64_t n)
{
    return small_number(seed + (uint32_t)(a * n + b));
}

static void fill(void *memory, const char *type, uint32_t seed, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float f = small_number(seed + (uint32_t)i);
        if (!strcmp(type, "f32"))
            ((float *)memory)[i] = f;
        else
            ((uint16_t *)memory)[i] = !strcmp(type, "bf16") ? to_bf16(f) : to_f16(f);
    }
}

enum { SEED_X = 5, SEED_W = 100000 };

typedef struct Case {
    int64_t m, n, k;
    int way;
    int32_t id[3 * IDS];
} Case;

static float left_at(const Case *c, int64_t i, int64_t k)
{
    if (c->way >= 2)
        i = c->way == 3 ? i : c->id[i];
    if (c->way >= 3)
        k = c->id[IDS + k];
    return c->way == 1 || c->way == 3 ? source(SEED_X, k, i, c->m) : source(SEED_X, i, k, c->k);
}

static float right_at(const Case *c, int64_t k, int64_t j)
{
    if (c->way >= 3)
        j = c->id[2 * IDS + j];
    if (c->way == 2 || c->way == 4)
        k = c->id[IDS + k];
    return c->way == 1 || c->way == 3 ? source(SEED_W, j, k, c->k) : source(SEED_W, k, j, c->n);
}

static void check_case(const Case *c, const Types *t, const float *y)
{
    static float left[ROWS][DEPTH], right[DEPTH][COLS];
    for (int64_t k = 0; k < c->k; k++) {
        for (int64_t i = 0; i < c->m; i++)
            left[i][k] = left_at(c, i, k) * (float)t->scale;
        for (int64_t j = 0; j < c->n; j++)
            right[k][j] = right_at(c, k, j);
    }
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < COLS; j++) {
            float want = 1000.0f, got = y[i * COLS + j];
            if (i < c->m && j < c->n) {
                want = 3.0f;
                for (int64_t k = 0; k < c->k; k++)
                    want += left[i][k] * right[k][j];
            } else if (i < (c->m + 31) / 32 * 32 && j < (c->n + 31) / 32 * 32) {
                continue; /* may hold anything */
            }
            if (got != want)
                fail_msg("way %d, %s x %s, %d x %d x %d: [%d, %d] is %g, not %g", c->way, t->left, t->right,
                         (int)c->m, (int)c->n, (int)c->k, (int)i, (int)j, (double)got, (double)want);
        }
}

static void run_case(Compiled *compiled, Case *c, const Types *t)
{
    static float x[ROWS * DEPTH], w[DEPTH * COLS], y[ROWS * COLS], g[GUARDS * GUARD];
    char name[8];
    snprintf(name, sizeof name, "f%d", c->way);
    fill(x, t->x, SEED_X, c->m * c->k);
    fill(w, t->w, SEED_W, c->k * c->n);
    int64_t extents[3] = {c->m, c->k, c->n};
    for (int i = 0; i < 3 * IDS; i++)
        c->id[i] = extents[i / IDS] ? (int32_t)(i % IDS * 7 % extents[i / IDS]) : 0;
    call_fine(compiled, name, (int64_t[]){c->m, c->n, c->k}, (void *[]){x, w, c->id, y, g});
    check_case(c, t, y);
    for (int i = 0; i < GUARDS * GUARD; i++)
        assert_true(g[i] == 77.0f);
}

static int multiplies(Isa isa, const Types *t)
{
    return strcmp(t->left, "bf16") != 0 || cpu_table[isa].left_bits == 16;
}

static void test_isa(Isa isa)
{
    static const int64_t rows[] = {0, 1, 5, 12, 13, 33}, cols[] = {1, 16, 31, 32, 33, 100},
                         depths[] = {0, 1, 2, 31, 32, 33, 257};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!multiplies(isa, &types[i]))
            continue;
        Compiled compiled;
        compile_products(&compiled, &types[i], isa);
        for (size_t all = 0; all < 6 * 6 * 7 * WAYS; all++) {
            Case c = {rows[all % 6], cols[all / 6 % 6], depths[all / 36 % 7], (int)(all / (36 * 7)), {0}};
            run_case(&compiled, &c, &types[i]);
        }
        done(&compiled);
    }
}

static void test_products(void **state)
{
    (void)state;
    EACH_ISA(isa)
    test_isa(isa);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
