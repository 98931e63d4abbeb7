/* Statements of the tile level, compiled for every instruction set of this CPU and run. */
#include "tests/unit/backend_fixture.h"

#include <math.h>

static const int64_t sizes[] = {0, 1, 15, 16, 17, 33, 100};
enum { SIZES = sizeof sizes / sizeof *sizes, GUARD = 8 };

/* ---- pointwise ---- */

static const char pointwise[] =
    "tiles 1\n"
    "dim N\n"
    "kernel f(in x: bf16[N], in s: f32, in z: f32[N], out y: bf16[N], out w: f32[N]) {\n"
    "    cost N\n"
    "    launch y {\n"
    "        parallel b in 0..N by 48 {\n"
    "            vector i in b..min2(b + 48, N) by 16 {\n"
    "                y[i] = bf16(x[i] * s + z[i])\n"
    "                w[i] = x[i] * s + z[i]\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

static void check_pointwise(Compiled *c, int64_t n)
{
    uint16_t x[100 + GUARD], y[100 + GUARD];
    float z[100 + GUARD], w[100 + GUARD], s = 0.37f;
    for (uint32_t i = 0; i < 100 + GUARD; i++) {
        x[i] = to_bf16(small_number(i) * 0.7f);
        z[i] = small_number(i + 7) * 0.01f;
        y[i] = 0x4242;
        w[i] = -7;
    }
    call_fine(c, "f", &n, (void *[]){x, &s, z, y, w});
    for (int64_t i = 0; i < 100 + GUARD; i++) {
        volatile float product = from_bf16(x[i]) * s; /* no contraction */
        volatile float sum = product + z[i];
        assert_int_equal(y[i], i < n ? to_bf16(sum) : 0x4242);
        assert_true(w[i] == (i < n ? sum : -7.0f));
    }
}

static void test_pointwise(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        Compiled c;
        compile(&c, pointwise, isa);
        for (int at = 0; at < SIZES; at++)
            check_pointwise(&c, sizes[at]);
        done(&c);
    }
}

/* ---- a product in registers ---- */

static const char product[] =
    "tiles 1\n"
    "dim T\ndim H\ndim F\n"
    "kernel mm(in x: %s[T, H], in w: %s[H, F], inout y: f32[T, F]) {\n"
    "    cost T*H*F\n"
    "    reg acc: f32[4] x 32\n"
    "    launch y {\n"
    "        parallel f0 in 0..F by 32 {\n"
    "            parallel t0 in 0..T by 4 {\n"
    "                vector f in f0..min2(f0 + 32, F) by 32 {\n"
    "                    unroll u in 0..4 { acc[u] = 0.0 }\n"
    "                    for h in 0..H {\n"
    "                        unroll u in 0..4 { acc[u] += x[min2(t0 + u, T - 1), h] * w[h, f] }\n"
    "                    }\n"
    "                    unroll u in 0..4 { if t0 + u < T { y[t0 + u, f] += acc[u] } }\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

typedef struct Matrix {
    int bf16;
    uint16_t half[40 * 40];
    float full[40 * 40];
} Matrix;

static Matrix matrix(int bf16, uint32_t seed)
{
    Matrix m = {.bf16 = bf16};
    for (uint32_t i = 0; i < 40 * 40; i++) {
        m.full[i] = small_number(i + seed);
        m.half[i] = to_bf16(m.full[i]);
    }
    return m;
}

static void *data_of(Matrix *m) { return m->bf16 ? (void *)m->half : (void *)m->full; }

static void check_product(Compiled *c, int bf16, int64_t t, int64_t h, int64_t f)
{
    Matrix x = matrix(bf16, 1), w = matrix(bf16, 2);
    float y[40 * 40];
    for (uint32_t i = 0; i < 40 * 40; i++)
        y[i] = (float)i;
    call_fine(c, "mm", (int64_t[]){t, h, f}, (void *[]){data_of(&x), data_of(&w), y});
    for (int64_t i = 0; i < 40 * 40; i++) {
        float want = (float)i;
        for (int64_t k = 0; k < h && i < t * f; k++)
            want += x.full[i / f * h + k] * w.full[k * f + i % f];
        assert_true(y[i] == want);
    }
}

static void test_product(void **state)
{
    (void)state;
    EACH_ISA(isa)
    for (int bf16 = 0; bf16 < 2; bf16++) {
        Compiled c;
        char text[2048];
        snprintf(text, sizeof text, product, bf16 ? "bf16" : "f32", bf16 ? "bf16" : "f32");
        compile(&c, text, isa);
        check_product(&c, bf16, 7, 9, 33);
        check_product(&c, bf16, 4, 1, 32);
        check_product(&c, bf16, 1, 40, 5);
        check_product(&c, bf16, 5, 0, 17);
        check_product(&c, bf16, 0, 3, 17);
        done(&c);
    }
}

/* ---- masks, gathers, choices ---- */

static const char masks[] =
    "tiles 1\n"
    "dim N\ndim M\n"
    "kernel f(in x: %s[N], in id: i32[N], in table: %s[M], in flag: i32[M], inout y: f32[N], out z: f32[N],"
    " inout q: %s[N]) {\n"
    "    cost N\n"
    "    launch y {\n"
    "        vector i in 0..N by 16 {\n"
    "            if id[i] >= 0 and x[i] > 0 { y[i] = table[id[i]] + x[i] }\n"
    "            z[i] = if(id[i] >= 0, table[id[i]], if(i + 1 < N, f32(x[min2(i + 1, N - 1)]), 0.5))\n"
    "            if id[i] == 3 and M > 0 { q[i] = x[i] }\n"
    "        }\n"
    "    }\n"
    "    launch q {\n"
    "        vector i in 0..N by 16 {\n"
    "            if i < flag[0] { z[i] += if(M > 3, table[3], 0.0) }\n"
    "        }\n"
    "    }\n"
    "}\n";

typedef struct Halves {
    int half;
    uint16_t h[128];
    float f[128];
} Halves;

static void fill_halves(Halves *v, int half, uint32_t seed)
{
    v->half = half;
    for (uint32_t i = 0; i < 128; i++) {
        v->f[i] = small_number(i + seed);
        v->h[i] = to_bf16(v->f[i]);
    }
}

static void *halves(Halves *v) { return v->half ? (void *)v->h : (void *)v->f; }
static float half_at(const Halves *v, int64_t i) { return v->half ? from_bf16(v->h[i]) : v->f[i]; }

static void check_masks(Compiled *c, int half, int64_t n)
{
    Halves x, table, q;
    int32_t id[128], flag[5] = {21, 0, 0, 0, 0};
    float y[128], z[128];
    fill_halves(&x, half, 3);
    fill_halves(&table, half, 11);
    fill_halves(&q, half, 17);
    Halves before = q;
    for (uint32_t i = 0; i < 128; i++) {
        id[i] = (int32_t)(i * 7 % 6) - 1;
        y[i] = z[i] = 99;
    }
    call_fine(c, "f", (int64_t[]){n, 5}, (void *[]){halves(&x), id, halves(&table), flag, y, z, halves(&q)});
    for (int64_t i = 0; i < 128; i++) {
        float at = id[i] >= 0 ? half_at(&table, id[i]) : i + 1 < n ? half_at(&x, i + 1) : 0.5f;
        at += i < flag[0] ? half_at(&table, 3) : 0;
        int sums = i < n && id[i] >= 0 && half_at(&x, i) > 0;
        assert_true(y[i] == (sums ? half_at(&table, id[i]) + half_at(&x, i) : 99));
        assert_true(z[i] == (i < n ? at : 99));
        assert_true(half_at(&q, i) == (i < n && id[i] == 3 ? half_at(&x, i) : half_at(&before, i)));
    }
}

static void test_masks(void **state)
{
    (void)state;
    EACH_ISA(isa)
    for (int half = 0; half < 2; half++) {
        Compiled c;
        char text[2048];
        const char *type = half ? "bf16" : "f32";
        snprintf(text, sizeof text, masks, type, type, type);
        compile(&c, text, isa);
        for (int at = 0; at < SIZES; at++)
            check_masks(&c, half, sizes[at]);
        done(&c);
    }
}

/* ---- lanes ---- */

static const char lanes[] = "tiles 1\n"
                            "dim N\n"
                            "kernel f(in x: f32[N], in k: i32[N], out y: f32[3], out m: i32[1]) {\n"
                            "    cost N\n"
                            "    reg s: f32 x 16\n"
                            "    reg a: f32 x 16\n"
                            "    reg b: f32 x 16\n"
                            "    reg c: i64 x 16\n"
                            "    launch y {\n"
                            "        s = 0.0\n"
                            "        a = -1000.0\n"
                            "        b = 1000.0\n"
                            "        c = 0\n"
                            "        vector i in 0..N by 16 {\n"
                            "            s += x[i]\n"
                            "            a = max2(a, x[i])\n"
                            "            b = min2(b, x[i])\n"
                            "            c += k[i]\n"
                            "        }\n"
                            "        y[0] = lanes_sum(s)\n"
                            "        y[1] = lanes_max(a)\n"
                            "        y[2] = lanes_min(b)\n"
                            "        m[0] = lanes_sum(c)\n"
                            "    }\n"
                            "}\n";

static void test_lanes(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        Compiled c;
        compile(&c, lanes, isa);
        for (int at = 0; at < SIZES; at++) {
            float x[100], y[3], sum = 0, most = -1000, least = 1000;
            int32_t k[100], m, count = 0;
            for (uint32_t i = 0; i < 100; i++) {
                x[i] = small_number(i + 5);
                k[i] = (int32_t)i * 1000;
            }
            for (int64_t i = 0; i < sizes[at]; i++) {
                sum += x[i];
                most = fmaxf(most, x[i]);
                least = fminf(least, x[i]);
                count += k[i];
            }
            call_fine(&c, "f", &sizes[at], (void *[]){x, k, y, &m});
            assert_true(y[0] == sum && y[1] == most && y[2] == least && m == count);
            if (sizes[at] > 1) {
                x[1] = NAN;
                call_fine(&c, "f", &sizes[at], (void *[]){x, k, y, &m});
                assert_true(isnan(y[0]) && isnan(y[1]) && isnan(y[2]));
            }
        }
        done(&c);
    }
}

/* ---- storing ---- */

static const char scatter[] =
    "tiles 1\n"
    "dim N\ndim M\n"
    "kernel f(in x: f32[N], in id: i32[N], inout y: f32[M], inout z: f32[M, 2], out k: i32[N],"
    " in big: f32) {\n"
    "    cost N\n"
    "    launch y {\n"
    "        for i in 0..N { y[id[i]] += x[i] }\n"
    "        for i in 0..N { z[id[i], 1] = x[i] }\n"
    "        vector i in 0..N by 16 { k[i] = id[i] * i32(big) }\n"
    "    }\n"
    "}\n";

static void test_scatter(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        Compiled c;
        compile(&c, scatter, isa);
        float x[33], y[6] = {0}, z[12] = {0}, wy[6] = {0}, wz[12] = {0}, big = 2.9f;
        int32_t id[33], k[33];
        for (uint32_t i = 0; i < 33; i++) {
            x[i] = small_number(i);
            id[i] = (int32_t)(i * 5 % 6);
            wy[id[i]] += x[i];
            wz[id[i] * 2 + 1] = x[i];
        }
        void *args[] = {x, id, y, z, k, &big};
        call_fine(&c, "f", (int64_t[]){33, 6}, args);
        assert_memory_equal(y, wy, sizeof y);
        assert_memory_equal(z, wz, sizeof z);
        for (int i = 0; i < 33; i++)
            assert_int_equal(k[i], id[i] * 2);
        big = 3e9f; /* saturates to 2^31 - 1: times 1 it fits, times 5 it does not */
        assert_int_equal(call(&c, "f", (int64_t[]){33, 6}, args), MOE_RANGE);
        assert_non_null(strstr(c.message, "does not fit the i32 of k"));
        done(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pointwise), cmocka_unit_test(test_product), cmocka_unit_test(test_masks),
        cmocka_unit_test(test_lanes),     cmocka_unit_test(test_scatter),
    };
    for (Isa isa = 0; isa < ISA_COUNT; isa++)
        if (!cpu_has(isa))
            print_message("not run on this CPU: %s\n", cpu_table[isa].name);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
