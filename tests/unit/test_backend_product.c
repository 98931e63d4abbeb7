/* Block products: operands packed into panels from every direction, products of ragged sizes, and what is
 * written beyond them. */
#include "tests/unit/backend_fixture.h"

#include <math.h>
#include <sys/mman.h>

enum { ROWS = 64, COLS = 128, DEPTH = 288, GUARDS = 4, GUARD = 16, IDS = 512, ALONE_COLS = 100 };

/* Element types of the sources and of the panels, and the operands as expressions of what is loaded, which
 * is by `more` less: without the zeros after their end, panels would hold that there. */
typedef struct Types {
    const char *x, *w, *left, *right;
    const char *of_x, *of_w;
    int more;
} Types;

enum { PAIRS = 2 };
static const Types types[] = {
    {"f32", "f32", "f32", "f32", "%s + 1", "%s + 1", 1},
    {"bf16", "bf16", "f32", "bf16", "%s", "%s", 0},
    [PAIRS] = {"bf16", "bf16", "bf16", "bf16", "%s", "%s", 0}, /* where the target multiplies them */
    {"bf16", "bf16", "bf16", "bf16", "bf16(%s + 1)", "bf16(%s + 1)", 1},
    {"f16", "f16", "f32", "f32", "%s", "%s", 0},
    {"f32", "f32", "f32", "bf16", "%s + 1", "bf16(%s + 1)", 1},
    {"f32", "f32", "f32", "f32", "%s", "%s", 0},
};

/* Where the operands come from: the sources' subscripts. */
typedef struct Way {
    const char *x_shape, *x, *w_shape, *w;
    const char *given; /* the right operand that is read as it lies, or NULL */
} Way;

static const Way ways[] = {
    {"M, K", "i, k", "K, N", "k, j", NULL},
    {"K, M", "k, i", "N, K", "j, k", NULL},
    {"M, K", "id[i], k", "K, N", "id[512 + k], j", NULL},
    {"K, M", "id[512 + k], i", "N, K", "id[1024 + j], k", NULL},
    {"M, K", "id[i], id[512 + k]", "K, N", "id[512 + k], id[1024 + j]", NULL},
};
enum { WAYS = sizeof ways / sizeof *ways };
static const Way given[] = {{"M, K", "i, k", "K, N", "k, j", "w[0, 0]"},
                            {"K, M", "k, i", "N, K", "j, k", "w[0, 0] transposed"}};

static void add_kernel(char *text, size_t size, const Types *t, const Way *way, int number)
{
    char load[64], left[96], right[96], more[2048];
    snprintf(load, sizeof load, "x[%s]", way->x);
    snprintf(left, sizeof left, t->of_x, load);
    snprintf(load, sizeof load, "w[%s]", way->w);
    snprintf(right, sizeof right, t->of_w, load);
    int a = strcmp(t->left, "f32") ? 32 : 16, b = strcmp(t->right, "f32") ? 32 : 16; /* elements of a line */
    snprintf(
        more, sizeof more,
        "kernel f%d(in x: %s[%s], in w: %s[%s], in id: i32[1536], out y: f32[64, 128], out g: f32[4, 16], "
        "out z: f32[2]) {\n"
        "    cost M*N*K\n"
        "    thread g0: f32[16]\n"
        "    thread xs: %s[33, 257] lines\n"
        "    thread g1: f32[16]\n"
        "    thread ws: %s[257, 100] pairs\n"
        "    thread g2: f32[16]\n"
        "    thread part: f32[64, 128]\n"
        "    thread g3: f32[16]\n"
        "    launch y {\n"
        "        for u in 0..16 { g0[u] = 77.0 g1[u] = 77.0 g2[u] = 77.0 g3[u] = 77.0 }\n"
        "        for a in 0..64 { for b in 0..128 { part[a, b] = if(a < M and b < N, 3.0, 1000.0) } }\n"
        "        pack xs[0, 0] over i in 0..min2(M, 33), k in 0..min2(K, 257) = %s\n"
        "        pack ws[0, 0] over k in 0..min2(K, 257), j in 0..min2(N, 100) = %s\n"
        "        product part[0, 0] += xs[0, 0] * %s\n"
        "            rows min2(M, 33) cols min2(N, 100) depth min2(K, 257)\n"
        "        for c in 0..64 { for d in 0..128 { y[c, d] = part[c, d] } }\n"
        "        z[0] = 0.0\n"
        "        z[1] = 0.0\n"
        "        for r in 0..min2(M, 33) {\n"
        "            for q in K..min2(idiv(K + %d, %d) * %d, 257) { z[0] = max2(z[0], abs(f32(xs[r, q]))) }\n"
        "        }\n"
        "        for p in K..min2(idiv(K + %d, %d) * %d, 257) {\n"
        "            for n in 0..min2(N, 100) { z[1] = max2(z[1], abs(f32(ws[p, n]))) }\n"
        "        }\n"
        "        for v in 0..16 { g[0, v] = g0[v] g[1, v] = g1[v] g[2, v] = g2[v] g[3, v] = g3[v] }\n"
        "    }\n"
        "}\n",
        number, t->x, way->x_shape, t->w, way->w_shape, t->left, t->right, left, right,
        way->given ? way->given : "ws[0, 0]", a - 1, a, a, b - 1, b, b);
    assert_true(strlen(text) + strlen(more) < size);
    strcat(text, more);
}

/* As the right operand lies in memory, without the pack's conversions. */
static int reads_rows(Isa isa, const Types *t)
{
    return cpu_table[isa].rows_read && !strcmp(t->w, t->right) && !strcmp(t->of_w, "%s");
}

static void compile_products(Compiled *c, const Types *t, Isa isa, int nways)
{
    static char text[1 << 14];
    strcpy(text, "tiles 1\ndim M <= 64\ndim N <= 128\ndim K <= 288\n");
    for (int i = 0; i < nways; i++)
        add_kernel(text, sizeof text, t, &ways[i], i);
    if (reads_rows(isa, t))
        for (int i = 0; i < 2; i++)
            add_kernel(text, sizeof text, t, &given[i], WAYS + i);
    compile(c, text, isa);
}

/* ---- one call ---- */

/* Of whole numbers below 2048. */
static uint16_t to_f16(float f)
{
    int exponent;
    float m = frexpf(fabsf(f), &exponent);
    int bits = m > 0 ? (exponent + 14) << 10 | ((int)(m * 2048) & 1023) : 0;
    return (uint16_t)(bits | (f < 0 ? 0x8000 : 0));
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
    int rows;
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
            left[i][k] = left_at(c, i, k) + (float)t->more;
        for (int64_t j = 0; j < c->n; j++)
            right[k][j] = right_at(c, k, j) + (float)t->more;
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
                fail_msg("way %d%s, %s x %s, %d x %d x %d: [%d, %d] is %g, not %g", c->way,
                         c->rows ? " in rows" : "", t->left, t->right, (int)c->m, (int)c->n, (int)c->k,
                         (int)i, (int)j, (double)got, (double)want);
        }
}

/* Memory for the right operand: what comes after it cannot be read. */
static void *right_memory(size_t bytes)
{
    enum { PAGES = 1 << 18, GUARD_PAGES = 1 << 16 };
    static char *memory;
    if (!memory) {
        memory = mmap(NULL, PAGES + GUARD_PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(memory != MAP_FAILED && mprotect(memory + PAGES, GUARD_PAGES, PROT_NONE) == 0);
    }
    assert_true(bytes <= PAGES);
    return memory + PAGES - bytes;
}

static void run_case(Compiled *compiled, Case *c, const Types *t)
{
    static float x[ROWS * DEPTH], y[ROWS * COLS], g[GUARDS * GUARD], z[2];
    void *w = right_memory((size_t)(c->k * c->n) * (strcmp(t->w, "f32") ? 2 : sizeof(float)));
    char name[8];
    snprintf(name, sizeof name, "f%d", c->way + (c->rows ? WAYS : 0));
    fill(x, t->x, SEED_X, c->m * c->k);
    fill(w, t->w, SEED_W, c->k * c->n);
    int64_t extents[3] = {c->m, c->k, c->n};
    for (int i = 0; i < 3 * IDS; i++)
        c->id[i] = extents[i / IDS] ? (int32_t)(i % IDS * 7 % extents[i / IDS]) : 0;
    call_fine(compiled, name, (int64_t[]){c->m, c->n, c->k}, (void *[]){x, w, c->id, y, g, z});
    check_case(c, t, y);
    for (int i = 0; i < GUARDS * GUARD; i++)
        assert_true(g[i] == 77.0f);
    assert_true(z[0] == 0 && z[1] == 0); /* from the end of k to that of its line */
}

static int multiplies(Isa isa, const Types *t)
{
    return strcmp(t->left, "bf16") != 0 || cpu_table[isa].terms > 1;
}

static void test_isa(Isa isa)
{
    static const int64_t rows[] = {0, 1, 5, 12, 13, 33}, cols[] = {1, 16, 31, 32, 33, 100},
                         depths[] = {0, 1, 2, 31, 32, 33, 257};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        int pairs = cpu_table[isa].terms > 1; /* what else they multiply, others do the same way */
        if (pairs != !strcmp(types[i].left, "bf16"))
            continue;
        Compiled compiled;
        compile_products(&compiled, &types[i], isa, WAYS);
        for (size_t all = 0; all < 6 * 6 * 7 * WAYS; all++) {
            Case c = {rows[all % 6], cols[all / 6 % 6], depths[all / 36 % 7], (int)(all / (36 * 7)), 0, {0}};
            if (c.way < 2 || all % 5 == 0) /* gathers: some of the sizes */
                run_case(&compiled, &c, &types[i]);
            c.rows = c.way < 2 && reads_rows(isa, &types[i]);
            if (c.rows)
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

/* ---- one chain for each element ---- */

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* Numbers of many sizes, as `type`. */
static void fill_random(void *memory, const char *type, uint32_t seed, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float f = ldexpf((float)(int32_t)next_random(&seed), -31 - (int)(next_random(&seed) % 12));
        if (!strcmp(type, "f32"))
            ((float *)memory)[i] = f;
        else
            ((uint16_t *)memory)[i] = to_bf16(f);
    }
}

static void same_rows(const float *a, const float *b, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++)
        assert_memory_equal(&a[r * COLS], &b[r * COLS], sizeof *a * ALONE_COLS);
}

/* However many rows stand beside an element, and wherever the right operand is read, its bits are the same. */
static void test_alone(void **state)
{
    (void)state;
    enum { M = 33, N = ALONE_COLS, K = 257 };
    static const int64_t rows[] = {1, 5, 12, 33};
    static float x[ROWS * DEPTH], w[DEPTH * COLS], all[ROWS * COLS], part[ROWS * COLS],
        transposed[ROWS * COLS], g[GUARDS * GUARD], z[2];
    static int32_t id[3 * IDS];
    EACH_ISA(isa)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        if (!multiplies(isa, &types[t]) || (t > PAIRS && !reads_rows(isa, &types[t])))
            continue;
        Compiled c;
        compile_products(&c, &types[t], isa, 2);
        fill_random(x, types[t].x, 7, M * K);
        fill_random(w, types[t].w, 11, K * N);
        call_fine(&c, "f0", (int64_t[]){M, N, K}, (void *[]){x, w, id, all, g, z});
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            int64_t size[] = {rows[i], N, K};
            call_fine(&c, "f0", size, (void *[]){x, w, id, part, g, z});
            same_rows(all, part, rows[i]);
            if (!reads_rows(isa, &types[t]))
                continue;
            call_fine(&c, "f5", size, (void *[]){x, w, id, part, g, z});
            same_rows(all, part, rows[i]);
            call_fine(&c, "f1", size, (void *[]){x, w, id, transposed, g, z});
            call_fine(&c, "f6", size, (void *[]){x, w, id, part, g, z});
            same_rows(transposed, part, rows[i]);
        }
        done(&c);
    }
}

/* ---- sums in the caller's memory ---- */

static void compile_in_place(Compiled *c, const char *elem, Isa isa)
{
    char text[1024];
    snprintf(text, sizeof text,
             "tiles 1\n"
             "dim M <= 33\n"
             "dim N <= 100\n"
             "dim K <= 64\n"
             "kernel f(in x: %s[M, K], in w: %s[K, N], inout y: f32[40, 108]) {\n"
             "    cost M*N*K\n"
             "    thread xs: %s[33, 64] lines\n"
             "    thread ws: %s[64, 100] pairs\n"
             "    launch y {\n"
             "        pack xs[0, 0] over i in 0..min2(M, 33), k in 0..min2(K, 64) = x[i, k]\n"
             "        pack ws[0, 0] over k in 0..min2(K, 64), j in 0..min2(N, 100) = w[k, j]\n"
             "        product y[2, 3] += xs[0, 0] * ws[0, 0] rows min2(M, 33) cols min2(N, 100) depth "
             "min2(K, 64)\n"
             "    }\n"
             "}\n",
             elem, elem, elem, elem);
    compile(c, text, isa);
}

/* Nothing beside the block is touched, and its old values are begun with. */
static void check_in_place(Compiled *c, const Types *t, const int64_t *size)
{
    enum { BEFORE = 2, LEFT = 3, WIDE = 108 };
    static float x[33 * 64], w[64 * 100], y[40 * WIDE];
    for (int i = 0; i < 40 * WIDE; i++)
        y[i] = 3;
    fill(x, t->x, SEED_X, size[0] * size[2]);
    fill(w, t->w, SEED_W, size[2] * size[1]);
    call_fine(c, "f", size, (void *[]){x, w, y});
    for (int64_t i = 0; i < 40; i++)
        for (int64_t j = 0; j < WIDE; j++) {
            int64_t row = i - BEFORE, column = j - LEFT;
            float want = 3;
            int inside = row >= 0 && row < size[0] && column >= 0 && column < size[1];
            for (int64_t k = 0; inside && k < size[2]; k++)
                want += source(SEED_X, row, k, size[2]) * source(SEED_W, k, column, size[1]);
            assert_true(y[i * WIDE + j] == want);
        }
}

static void test_in_place(void **state)
{
    (void)state;
    static const int64_t rows[] = {0, 1, 3, 12, 14, 32, 33}, cols[] = {0, 1, 15, 31, 32, 33, 64, 100};
    EACH_ISA(isa)
    for (int t = 0; t <= PAIRS; t += PAIRS) {
        if (!multiplies(isa, &types[t]))
            continue;
        Compiled c;
        compile_in_place(&c, types[t].left, isa);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (size_t j = 0; j < sizeof cols / sizeof *cols; j++)
                check_in_place(&c, &types[t], (int64_t[]){rows[i], cols[j], 33});
        done(&c);
    }
}

/* ---- the sums of AMX ---- */

static float flush(float f) { return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f; }

/* TDPBF16PS: 32 terms, the even and the odd ones each in a sum of their own. */
static float tile_sum(float sum, const uint16_t *left, const uint16_t *right, int64_t stride)
{
    float half[2] = {0, 0};
    for (int k = 0; k < 32; k++) {
        float a = flush(from_bf16(left[k])), b = flush(from_bf16(right[k * stride]));
        half[k % 2] = flush(fmaf(a, b, half[k % 2]));
    }
    return flush(flush(sum) + flush(half[0] + half[1]));
}

static void test_amx_sums(void **state)
{
    (void)state;
    enum { M = 20, N = 40, K = 64 };
    static uint16_t x[M * K], w[K * N];
    static float y[ROWS * COLS], g[GUARDS * GUARD], z[2];
    static int32_t id[3 * IDS];
    Compiled c;
    compile_products(&c, &types[PAIRS], ISA_amx_soft, 1);
    fill_random(x, "bf16", 3, M * K);
    fill_random(w, "bf16", 5, K * N);
    x[3] = 0x0001; /* below the normal numbers */
    w[7] = 0x8003;
    call_fine(&c, "f0", (int64_t[]){M, N, K}, (void *[]){x, w, id, y, g, z});
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 3.0f;
            for (int k = 0; k < K; k += 32)
                sum = tile_sum(sum, &x[i * K + k], &w[k * N + j], N);
            assert_true(sum == y[i * COLS + j]);
        }
    done(&c);
}

/* ---- ordinary loads and stores of layouts ---- */

/* A vector loop writes the left operand of the second product, straight into lines; pairs are read and
 * written element by element, and in runs of columns where they begin at a multiple of the lanes. */
static const char chained[] =
    "tiles 1\n"
    "dim M <= 64\n"
    "kernel f(in x: f32[M, 64], in w: f32[64, 96], in v: f32[96, 40], out y: f32[64, 40], out z: f32[96, "
    "40],\n"
    "         out h: f32[64, 96]) {\n"
    "    cost M\n"
    "    thread xs: f32[64, 64] lines\n"
    "    thread ws: f32[64, 96] pairs\n"
    "    thread hs: ELEM[2, 64, 96] lines\n"
    "    thread vs: ELEM[2, 96, 40] pairs\n"
    "    thread part: f32[64, 96]\n"
    "    thread sums: f32[64, 64]\n"
    "    launch y {\n"
    "        for a in 0..64 { for b in 0..96 { part[a, b] = 7.0 } }\n"
    "        for c in 0..64 { for d in 0..64 { sums[c, d] = 0.0 } }\n"
    "        pack xs[0, 0] over i in 0..min2(M, 64), k in 0..64 = x[i, k]\n"
    "        pack ws[0, 0] over k2 in 0..64, j in 0..96 = w[k2, j]\n"
    "        product part[0, 0] += xs[0, 0] * ws[0, 0] rows min2(M, 64) cols 96 depth 64 init M >= 0\n"
    "        for r0 in 0..M by 32 {\n"
    "            for r in r0..min2(r0 + 32, M) {\n"
    "                for f0 in 0..48 by 16 {\n"
    "                    vector f in f0..f0 + 16 by LANES { hs[1, r, f] = CAST(relu(part[r, f])) }\n"
    "                }\n"
    "                for f2 in 48..53 { hs[1, r, f2] = CAST(relu(part[r, f2])) }\n"
    "                vector f3 in 53..96 by LANES { hs[1, r, f3] = CAST(relu(part[r, f3])) }\n"
    "            }\n"
    "        }\n"
    "        for k3 in 0..96 { for j3 in 0..3 { vs[1, k3, j3] = CAST(v[k3, j3]) } }\n"
    "        for k4 in 0..96 { vector j4 in 3..19 by 8 { vs[1, k4, j4] = CAST(v[k4, j4]) } }\n"
    "        for k5 in 0..96 { vector j5 in 16..40 by 8 { vs[1, k5, j5] = CAST(v[k5, j5]) } }\n"
    "        product sums[0, 0] += hs[1, 0, 0] * vs[1, 0, 0] rows min2(M, 64) cols 40 depth 96\n"
    "        for o in 0..M { vector q in 0..40 by 8 { y[o, q] = sums[o, q] } }\n"
    "        for s in 0..96 { vector t in 0..40 by 8 { z[s, t] = f32(vs[1, s, t]) } }\n"
    "        for u in 0..96 { vector e in 0..M by 8 { h[e, u] = f32(hs[1, e, u]) } }\n"
    "    }\n"
    "}\n";

/* chained with a type and a number of lanes put in. */
static const char *chained_text(Arena *a, const char *elem, int lanes)
{
    const char *cast = strcmp(elem, "bf16") ? "f32" : "bf16";
    Text t = {.arena = a};
    for (const char *c = chained; *c;) {
        if (!strncmp(c, "ELEM", 4))
            text_add(&t, "%s", elem);
        else if (!strncmp(c, "CAST", 4))
            text_add(&t, "%s", cast);
        else if (!strncmp(c, "LANES", 5))
            text_add(&t, "%d", lanes);
        else
            text_add(&t, "%c", *c);
        c += !strncmp(c, "ELEM", 4) || !strncmp(c, "CAST", 4) ? 4 : !strncmp(c, "LANES", 5) ? 5 : 1;
    }
    return text_string(&t);
}

static void check_chained(Isa isa, const char *elem, int lanes, int64_t m)
{
    static float x[64 * 64], w[64 * 96], v[96 * 40], y[64 * 40], z[96 * 40], h[64 * 96];
    Arena *a = arena_new();
    Compiled c;
    compile(&c, chained_text(a, elem, lanes), isa);
    for (uint32_t i = 0; i < 64 * 96; i++) { /* sums below 2^8, so that bf16 holds them */
        x[i % (64 * 64)] = (float)(i * 2654435761u >> 31);
        w[i] = (float)((int)(i * 2246822519u >> 30) - 2);
        v[i % (96 * 40)] = small_number(i % (96 * 40));
    }
    call_fine(&c, "f", &m, (void *[]){x, w, v, y, z, h});
    assert_memory_equal(v, z, sizeof v);
    for (int64_t i = 0; i < m; i++) {
        float hidden[96], want;
        for (int j = 0; j < 96; j++) {
            hidden[j] = 0;
            for (int k = 0; k < 64; k++)
                hidden[j] += x[i * 64 + k] * w[k * 96 + j];
            hidden[j] = hidden[j] > 0 ? hidden[j] : 0;
            assert_true(hidden[j] == h[i * 96 + j]);
        }
        for (int j = 0; j < 40; j++) {
            want = 0;
            for (int k = 0; k < 96; k++)
                want += hidden[k] * v[k * 40 + j];
            assert_true(want == y[i * 40 + j]);
        }
    }
    done(&c);
    arena_free(a);
}

static void test_layouts(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        check_chained(isa, "f32", 16, 33);
        check_chained(isa, "f32", 8, 5);
        check_chained(isa, "f32", 4, 64);
        if (cpu_table[isa].terms > 1) {
            check_chained(isa, "bf16", 16, 33);
            check_chained(isa, "bf16", 4, 12);
        }
    }
}

/* ---- objects ---- */

/* Every product function is there once in an object of several parts; and each level generates tiles. */
static void test_objects(void **state)
{
    (void)state;
    static char text[1 << 14];
    strcpy(text, "tiles 1\ndim M <= 64\ndim N <= 128\ndim K <= 288\n");
    for (int i = 0; i < WAYS; i++)
        add_kernel(text, sizeof text, &types[i % 2], &ways[i], i);
    Compiled compiled;
    read_tiles(&compiled, text);
    for (int level = 0; level <= 2; level += 2) {
        BackendInput inputs[] = {
            {compiled.module, ISA_generic}, {compiled.module, ISA_avx2}, {compiled.module, ISA_amx}};
        BackendOptions options = {.level = level};
        const char *object;
        size_t len;
        const char *error =
            backend()->emit(inputs, 3, &options, OUTPUT_OBJECT, compiled.arena, &object, &len);
        if (!error)
            error = backend()->jit_load(object, len, 0, compiled.arena, &compiled.jit);
        if (error)
            fail_msg("%s", error);
        for (int i = 0; i < WAYS; i++) {
            Case c = {33, 100, 257, i, 0, {0}};
            run_case(&compiled, &c, &types[i % 2]);
        }
        backend()->jit_free(compiled.jit);
    }
    compiled.jit = NULL;
    free(compiled.ctx.work);
    arena_free(compiled.arena);
}

static void test_tiles_at_every_level(void **state)
{
    (void)state;
    Compiled compiled;
    static char text[1 << 13];
    strcpy(text, "tiles 1\ndim M <= 64\ndim N <= 128\ndim K <= 288\n");
    add_kernel(text, sizeof text, &types[PAIRS], &ways[0], 0);
    read_tiles(&compiled, text);
    for (int level = 0; level < 4; level++) {
        BackendInput input = {compiled.module, ISA_amx};
        BackendOptions options = {.level = level};
        const char *assembly;
        size_t len;
        assert_null(backend()->emit(&input, 1, &options, OUTPUT_ASM, compiled.arena, &assembly, &len));
        assembly = arena_strndup(compiled.arena, assembly, len);
        const char *configured = strstr(assembly, "ldtilecfg");
        assert_non_null(configured);
        assert_null(strstr(configured + 1, "ldtilecfg"));
    }
    arena_free(compiled.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_amx_sums),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_tiles_at_every_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
