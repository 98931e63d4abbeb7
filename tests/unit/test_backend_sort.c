/* Counting sorts, the largest of a row, routes and their row blocks, compiled and run. */
#include "tests/unit/backend_fixture.h"

#include <math.h>

/* ---- bucket ---- */

static const char bucket[] =
    "tiles 1\n"
    "dim N\ndim M\ndim B\n"
    "kernel f(in key: i32[N, M], in use: f32[M], out order: i32[N, M], out start: i32[B + 1]) {\n"
    "    cost N\n"
    "    work first: i64[B + 1]\n"
    "    work sorted: i32[N*M]\n"
    "    launch sort {\n"
    "        bucket sorted, first over n: N, m: M by key[n, m] into B where use[m] > 0\n"
    "    }\n"
    "    launch out {\n"
    "        for n in 0..N { for m in 0..M { order[n, m] = -1 } }\n"
    "        for b in 0..B + 1 { start[b] = first[b] }\n"
    "        for i in 0..first[B] { order[idiv(i, M), imod(i, M)] = sorted[i] }\n"
    "    }\n"
    "}\n";

static void test_bucket(void **state)
{
    (void)state;
    enum { N = 9, M = 7, B = 5 };
    EACH_ISA(isa)
    {
        Compiled c;
        compile(&c, bucket, isa);
        int32_t key[N * M], order[N * M], start[B + 1];
        float use[M];
        for (uint32_t i = 0; i < N * M; i++)
            key[i] = (int32_t)(i * 11 % 8) - 1; /* -1, 5, 6 belong to no bucket */
        for (int m = 0; m < M; m++)
            use[m] = m == 3 ? 0 : 1;
        call_fine(&c, "f", (int64_t[]){N, M, B}, (void *[]){key, use, order, start});
        int at = 0;
        for (int b = 0; b < B; b++) {
            assert_int_equal(start[b], at);
            for (int i = 0; i < N * M; i++)
                if (key[i] == b && use[i % M] > 0)
                    assert_int_equal(order[at++], i);
        }
        assert_int_equal(start[B], at);
        call_fine(&c, "f", (int64_t[]){0, M, B}, (void *[]){key, use, order, start});
        assert_int_equal(start[B], 0);
        call_fine(&c, "f", (int64_t[]){N, M, 0}, (void *[]){key, use, order, start});
        assert_int_equal(start[0], 0);
        done(&c);
    }
}

/* ---- top ---- */

static const char top[] = "tiles 1\n"
                          "dim T\ndim E\ndim K\n"
                          "kernel f(in s: f32[T, E], out p: f32[T, K], out id: i32[T, K]) {\n"
                          "    cost T*E\n"
                          "    launch top {\n"
                          "        parallel t in 0..T {\n"
                          "            top p, id[t] count K over e in 0..E of s[t, e]\n"
                          "        }\n"
                          "    }\n"
                          "}\n";

enum { MANY = 150 }; /* places that are a heap: Note [Top] in backend/emit_sort.c */

/* x stands before y at the lower index. */
static int before(float x, float y) { return isnan(y) || x >= y; }

static void check_top(Compiled *c, const float *s, int e, int k)
{
    float p[MANY];
    int32_t id[MANY];
    call_fine(c, "f", (int64_t[]){1, e, k}, (void *[]){(void *)(uintptr_t)s, p, id});
    for (int i = 0; i < k; i++) {
        assert_true(id[i] >= 0 && id[i] < e);
        assert_memory_equal(&p[i], &s[id[i]], sizeof *p);
        for (int j = 0; j < e; j++) {
            int taken = 0;
            for (int m = 0; m <= i; m++)
                taken |= id[m] == j;
            if (!taken) /* what is left is not better */
                assert_true(j > id[i] ? before(p[i], s[j]) : p[i] > s[j] || (isnan(s[j])));
        }
    }
}

static void test_top(void **state)
{
    (void)state;
    static const float rows[][8] = {{1, 2, 3, 4, 5, 6, 7, 8},
                                    {3, 3, 1, 3, 2, 2, 3, 1},
                                    {NAN, 1, NAN, 2, -INFINITY, INFINITY, 0, -0.0f},
                                    {8, 7, 6, 5, 4, 3, 2, 1}};
    EACH_ISA(isa)
    {
        Compiled c;
        compile(&c, top, isa);
        for (int row = 0; row < 4; row++)
            for (int k = 0; k <= 6; k++)
                check_top(&c, rows[row], 8, k);
        check_top(&c, rows[0], 1, 1);
        float many[MANY];
        for (int i = 0; i < MANY; i++)
            many[i] = i % 13 == 5 ? NAN : (float)(i * 37 % 31);
        for (int k = 63; k <= MANY; k += k < 66 ? 1 : 28)
            check_top(&c, many, MANY, k);
        done(&c);
    }
}

/* ---- routes ---- */

static const char routes[] =
    "tiles 1\n"
    "dim T\ndim K\ndim E\ndim C\n"
    "group R : E rows T*K\n"
    "group S : E capacity C\n"
    "kernel rows(in id: i32[T, K], out rt: route[T, K -> R]) {\n"
    "    cost T*K\n"
    "    fields rt.start, rt.count, rt.slot_of, rt.row_of\n"
    "    launch route { route rt from id }\n"
    "}\n"
    "kernel places(in id: i32[T, K], out rt: route[T, K -> S]) {\n"
    "    cost T*K\n"
    "    fields rt.start, rt.count, rt.slot_of, rt.row_of\n"
    "    launch route { route rt from id }\n"
    "}\n"
    "kernel local(in id: i32[T, K], out n: i32[E]) {\n"
    "    cost T*K\n"
    "    route rt: [T, K -> R]\n"
    "    fields rt.start\n"
    "    launch route { route rt from id }\n"
    "    launch n { for e in 0..E { n[e] = rt.start[e + 1] - rt.start[e] } }\n"
    "}\n"
    "kernel valid_rows(in rt: route[T, K -> R], out n: i32[E]) {\n"
    "    cost T*K\n"
    "    fields rt.start, rt.count, rt.slot_of, rt.row_of\n"
    "    launch valid { valid rt }\n"
    "    launch n { for e in 0..E { n[e] = rt.count[e] } }\n"
    "}\n"
    "kernel valid_places(in rt: route[T, K -> S], out n: i32[E]) {\n"
    "    cost T*K\n"
    "    fields rt.start, rt.count, rt.slot_of, rt.row_of\n"
    "    launch valid { valid rt }\n"
    "    launch n { for e in 0..E { n[e] = rt.count[e] } }\n"
    "}\n"
    "kernel blocks(in rt: route[T, K -> R], out list: i32[T*K + E, 2], out n: i32[1]) {\n"
    "    cost T*K\n"
    "    fields rt.start, rt.count\n"
    "    work at: i64[T*K + E, 2]\n"
    "    work nat: i64[1]\n"
    "    launch valid { valid rt }\n"
    "    launch blocks { blocks at, nat of rt by 3 }\n"
    "    launch n {\n"
    "        n[0] = nat[0]\n"
    "        for b in 0..nat[0] { list[b, 0] = at[b, 0] list[b, 1] = at[b, 1] }\n"
    "    }\n"
    "}\n"
    "kernel runs(in rt: route[T, K -> R], in todo: i32[T*K + E, C], out n: i32[T*K + E, C]) {\n"
    "    cost T*K\n"
    "    fields rt.start, rt.count\n"
    "    work at: i64[T*K + E, 4]\n"
    "    work nat: i64[1]\n"
    "    launch valid { valid rt }\n"
    "    launch blocks { blocks at, nat of rt by 2 }\n"
    "    launch n {\n"
    "        parallel b in 0..nat[0] band 3 of at {\n"
    "            parallel v in 0..C {\n"
    "                check todo[b, v] == 0 else INDEX \"next: %lld, %lld\" (b, v)\n"
    "                n[b, v] = 1\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n"
    "kernel bands(in todo: i32[E, T, C], out n: i32[E, T, C]) {\n"
    "    cost E*T*C\n"
    "    launch n {\n"
    "        parallel e in 0..E {\n"
    "            parallel t in 0..T by 2 band 4 {\n"
    "                parallel v in 0..C {\n"
    "                    check todo[e, t, v] == 0 else INDEX \"next: %lld, %lld\" (t, v)\n"
    "                    n[e, t, v] = 1\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

enum { T = 11, K = 2, E = 4, C = 3, ROWS = T * K };

typedef struct RouteArrays {
    int64_t start[E + 1], count[E];
    int32_t slot_of[ROWS], row_of[T * K];
    moe_route route;
} RouteArrays;

static void init_route(RouteArrays *r, int64_t rows)
{
    memset(r, 0x55, sizeof *r);
    r->route = (moe_route){T, K, E, rows, r->start, r->count, r->slot_of, r->row_of};
}

static void choices(int32_t *id)
{
    for (uint32_t i = 0; i < T * K; i++)
        id[i] = i % 5 == 4 ? -1 : (int32_t)(i * i % 7 % 3) + (i % 4 == 0); /* group 3 gets few, some none */
}

static void reference_route(const int32_t *id, int64_t capacity, RouteArrays *want)
{
    init_route(want, capacity < 0 ? ROWS : E * capacity);
    EvalRoute e = {T, K, E, want->route.rows, want->start, want->count, want->slot_of, want->row_of, 0};
    assert_int_equal(ir_make_route(id, capacity, &e), 0);
}

static void check_route(Compiled *c, const char *kernel, int64_t capacity)
{
    int32_t id[T * K];
    RouteArrays got, want;
    choices(id);
    reference_route(id, capacity, &want);
    init_route(&got, want.route.rows);
    call_fine(c, kernel, (int64_t[]){T, K, E, C}, (void *[]){id, &got.route});
    assert_memory_equal(got.start, want.start, sizeof got.start);
    assert_memory_equal(got.count, want.count, sizeof got.count);
    assert_memory_equal(got.slot_of, want.slot_of, sizeof *got.slot_of * (size_t)want.route.rows);
    assert_memory_equal(got.row_of, want.row_of, sizeof got.row_of);
}

static void check_bad_choice(Compiled *c)
{
    int32_t id[T * K];
    RouteArrays got;
    choices(id);
    id[7] = E;
    init_route(&got, ROWS);
    assert_int_equal(call(c, "rows", (int64_t[]){T, K, E, C}, (void *[]){id, &got.route}), MOE_COMPUTED);
    assert_non_null(strstr(c->message, "choice 4"));
}

static void test_routes(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        Compiled c;
        int32_t id[T * K], n[E];
        compile(&c, routes, isa);
        check_route(&c, "rows", -1);
        check_route(&c, "places", C);
        check_bad_choice(&c);
        choices(id);
        RouteArrays want;
        reference_route(id, -1, &want);
        call_fine(&c, "local", (int64_t[]){T, K, E}, (void *[]){id, n});
        for (int e = 0; e < E; e++)
            assert_int_equal(n[e], want.count[e]);
        done(&c);
    }
}

static int validate(Compiled *c, RouteArrays *r, int64_t capacity)
{
    int32_t n[E];
    const char *kernel = capacity < 0 ? "valid_rows" : "valid_places";
    return call(c, kernel, capacity < 0 ? (int64_t[]){T, K, E} : (int64_t[]){T, K, E, C},
                (void *[]){&r->route, n});
}

/* Each way to break a route, on a fresh copy. */
static void check_broken(Compiled *c, int64_t capacity)
{
    int32_t id[T * K];
    RouteArrays good, r;
    choices(id);
    reference_route(id, capacity, &good);
    assert_int_equal(validate(c, &good, capacity), MOE_OK);
    for (int fault = 0; fault < 9; fault++) {
        r = good;
        r.route = (moe_route){T, K, E, good.route.rows, r.start, r.count, r.slot_of, r.row_of};
        switch (fault) {
        case 0: r.start[0] = 1; break;
        case 1: r.start[2] = r.start[1] - 1; break;
        case 2: r.start[E] = ROWS + 100; break;
        case 3: r.count[1] += 1 + C; break;
        case 4: r.slot_of[0] = T * K; break;
        case 5: r.slot_of[0] = -1; break;
        case 6: r.row_of[0] = ROWS + 100; break;
        case 7: r.row_of[0] = r.row_of[2]; break;
        case 8: r.slot_of[good.route.rows - 1] = 0; break;
        }
        assert_int_equal(validate(c, &r, capacity), MOE_ROUTE);
        assert_non_null(strstr(c->message, "route rt"));
    }
}

static void test_valid(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        Compiled c;
        compile(&c, routes, isa);
        check_broken(&c, -1);
        check_broken(&c, C);
        done(&c);
    }
}

static void test_blocks(void **state)
{
    (void)state;
    EACH_ISA(isa)
    {
        Compiled c;
        int32_t id[T * K], list[ROWS + E][2], n;
        RouteArrays r;
        compile(&c, routes, isa);
        choices(id);
        reference_route(id, -1, &r);
        r.route.slot_of = r.route.row_of = NULL; /* not used */
        call_fine(&c, "blocks", (int64_t[]){T, K, E}, (void *[]){&r.route, list, &n});
        int at = 0;
        for (int e = 0; e < E; e++)
            for (int64_t row = r.start[e]; row < r.start[e] + r.count[e]; row += 3, at++)
                assert_true(list[at][0] == e && list[at][1] == row);
        assert_int_equal(n, at);
        done(&c);
    }
}

/* An item that is still to do fails, and the first one of them says so: done one after the other, all come in order. */
static void next_is(Compiled *c, const char *kernel, const int64_t *dims, void *const *args, int row, int col)
{
    char want[64];
    snprintf(want, sizeof want, "next: %d, %d", row, col);
    assert_int_equal(call(c, kernel, dims, args), MOE_INDEX);
    if (!strstr(c->message, want))
        fail_msg("%s, not %s", c->message, want);
}

/* Rows first, first + by .. in bands: every other one backwards. */
static void check_bands(Compiled *c, const char *kernel, const int64_t *dims, void *const *args,
                        int32_t *todo, int first, int rows, int band, int by)
{
    for (int b = 0; b < rows; b += band)
        for (int v = 0; v < C; v++)
            for (int i = b; i < b + band && i < rows; i++) {
                int row = first + i * by, col = b / band % 2 ? C - 1 - v : v;
                next_is(c, kernel, dims, args, row, col);
                todo[row * C + col] = 0;
            }
}

static void test_bands(void **state)
{
    (void)state;
    Compiled c;
    int32_t id[T * K], todo[E * T * C], n[E * T * C];
    int64_t dims[] = {T, K, E, C}, plain[] = {T, E, C};
    RouteArrays r;
    compile(&c, routes, ISA_generic);
    choices(id);
    reference_route(id, -1, &r);
    memset(todo, 1, sizeof todo);
    int first = 0;
    for (int e = 0; e < E; e++) { /* bands end where a group does */
        int blocks = (int)(r.count[e] + 1) / 2;
        check_bands(&c, "runs", dims, (void *[]){&r.route, todo, n}, todo, first, blocks, 3, 1);
        first += blocks;
    }
    call_fine(&c, "runs", dims, (void *[]){&r.route, todo, n});
    memset(todo, 1, sizeof todo);
    for (int e = 0; e < E; e++)
        check_bands(&c, "bands", plain, (void *[]){todo, n}, todo + e * T * C, 0, (T + 1) / 2, 4, 2);
    done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bucket), cmocka_unit_test(test_top),    cmocka_unit_test(test_routes),
        cmocka_unit_test(test_valid),  cmocka_unit_test(test_blocks), cmocka_unit_test(test_bands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
