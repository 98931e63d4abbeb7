/* The interpreter on kernels of the language page: against the same computation written out in C, and, where
 * nothing is rounded on purpose, the exact mode against the bounds of the reference mode. */
#include "frontend/frontend.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static Arena *arena;
static Module *m;

static int setup(void **state)
{
    (void)state;
    arena = arena_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static const Kernel *compile(const char *text)
{
    Diags *d = arena_new_of(arena, Diags);
    d->arena = arena;
    m = ir_module(arena, d, "test.moe");
    if (frontend_read(m, "test.moe", text, strlen(text)))
        fail_msg("%s", diag_text(d, arena));
    const char *fault = ir_verify(m->kernels.at[0], arena);
    if (fault)
        fail_msg("%s", fault);
    return m->kernels.at[0];
}

static double *filled(Random *r, int64_t n, Elem e)
{
    double *at = arena_array(arena, double, n + 1);
    for (int64_t i = 0; i < n; i++)
        at[i] = elem_round(e, random_normal(r));
    return at;
}

static double *empty(int64_t n) { return arena_array(arena, double, n + 1); }

static void runs(const Kernel *k, EvalMode mode, const int64_t *dims, EvalArg *args, double *const *bounds)
{
    const char *error = ir_eval(k, mode, dims, args, bounds, arena);
    if (error)
        fail_msg("%s", error);
}

static EvalRoute *new_route(int64_t t, int64_t k, int64_t e, int64_t rows)
{
    EvalRoute *r = arena_new_of(arena, EvalRoute);
    *r = (EvalRoute){t,
                     k,
                     e,
                     rows,
                     arena_array(arena, int64_t, e + 1),
                     arena_array(arena, int64_t, e + 1),
                     arena_array(arena, int32_t, rows + 1),
                     arena_array(arena, int32_t, t * k + 1),
                     0};
    return r;
}

/* ---- the routed experts ---- */

static const char ffn_text[] = "moe 1\ndim T\ndim K <= 64\ndim E\ndim H, F\ngroup R : E %s\n"
                               "fn silu(x) = x / (1 + exp(-x))\n"
                               "kernel ffn(in x: f32[T, H], in rt: route[T, K -> R], in p: f32[T, K],\n"
                               "           in wg, wu: f32[E, H, F], in wd: f32[E, F, H], out y: f32[T, H],\n"
                               "           out a: f32[R, F]) {\n"
                               "  xp[r, h] = x[rt.token(r), h]\n"
                               "  g[r, f]  = sum(h) xp[r, h] * wg[@r, h, f]\n"
                               "  u[r, f]  = sum(h) xp[r, h] * wu[@r, h, f]\n"
                               "  a[r, f]  = silu(g[r, f]) * u[r, f]\n"
                               "  o[r, h]  = sum(f) a[r, f] * wd[@r, f, h]\n"
                               "  y[t, h]  = sum(k) p[t, k] * o[rt.row(t, k), h]\n"
                               "}\n";
enum { T = 7, K = 3, E = 5, H = 6, F = 4 };

/* y of one token through one expert, without any route. */
static void expert(const double *x, const double *wg, const double *wu, const double *wd, double p, double *y)
{
    for (int f = 0; f < F; f++) {
        double g = 0, u = 0;
        for (int h = 0; h < H; h++) {
            g += x[h] * wg[h * F + f];
            u += x[h] * wu[h * F + f];
        }
        for (int h = 0; h < H; h++)
            y[h] += p * (g / (1 + exp(-g)) * u) * wd[f * H + h];
    }
}

static void check_ffn(const char *group, int64_t capacity, int64_t rows)
{
    const Kernel *k = compile(arena_printf(arena, ffn_text, group));
    Random rnd = random_new(7);
    int32_t ids[T * K];
    for (int i = 0; i < T * K; i++) /* expert 3 gets nothing, some choices are dropped */
        ids[i] = (int32_t[]){0, 1, 4, 2, -1, 1, 1}[random_below(&rnd, 7)];
    EvalRoute *rt = new_route(T, K, E, rows);
    assert_int_equal(ir_make_route(ids, capacity, rt), 0);
    double *x = filled(&rnd, T * H, EL_F32), *p = filled(&rnd, T * K, EL_F32),
           *wg = filled(&rnd, E * H * F, EL_F32);
    double *wu = filled(&rnd, E * H * F, EL_F32), *wd = filled(&rnd, E * F * H, EL_F32), *y = empty(T * H);
    double *a = empty(rows * F), *bound = empty(T * H);
    EvalArg args[] = {{.data = x},  {.route = rt}, {.data = p}, {.data = wg},
                      {.data = wu}, {.data = wd},  {.data = y}, {.data = a}};
    double want[T * H] = {0};
    for (int t = 0; t < T; t++)
        for (int s = 0; s < K; s++)
            if (rt->row_of[t * K + s] >= 0) {
                int32_t e = ids[t * K + s];
                expert(x + t * H, wg + e * H * F, wu + e * H * F, wd + e * F * H, p[t * K + s], want + t * H);
            }
    const int64_t dims[] = {T, K, E, H, F};
    runs(k, EVAL_EXACT, dims, args, NULL);
    for (int i = 0; i < T * H; i++)
        assert_true(fabs(y[i] - want[i]) <= 1e-12 * (1 + fabs(want[i])));
    runs(k, EVAL_REFERENCE, dims, args, (double *[]){NULL, NULL, NULL, NULL, NULL, NULL, bound, NULL});
    for (int i = 0; i < T * H; i++) {
        assert_true(fabs(y[i] - want[i]) <= bound[i]);
        assert_true(bound[i] < 1e-3);
    }
    for (int64_t r = 0; r < rows * F; r++)
        assert_true(rt->slot_of[r / F] >= 0 ? a[r] != 0 : a[r] == 0); /* pad rows of an output are zero */
}

static void ffn_dropless(void **state)
{
    (void)state;
    check_ffn("rows T*K", -1, T * K);
}

static void ffn_capacity(void **state)
{
    (void)state;
    check_ffn("capacity 4", 4, E * 4);
}

static void broken_routes(void **state)
{
    (void)state;
    const Kernel *k = compile(arena_printf(arena, ffn_text, "rows T*K"));
    Random rnd = random_new(1);
    int32_t ids[T * K] = {0};
    EvalRoute *rt = new_route(T, K, E, T * K);
    assert_int_equal(ir_make_route(ids, -1, rt), 0);
    double *w = filled(&rnd, E * H * F + T * H, EL_F32), *out = empty(T * K * (F + H));
    EvalArg args[] = {{.data = w}, {.route = rt}, {.data = w},   {.data = w},
                      {.data = w}, {.data = w},   {.data = out}, {.data = out + T * H}};
    const int64_t dims[] = {T, K, E, H, F};
    runs(k, EVAL_REFERENCE, dims, args, NULL);
    rt->row_of[3] = T * K;
    assert_string_equal(ir_eval(k, EVAL_REFERENCE, dims, args, NULL, arena),
                        "route rt: slot_of[3] is 3, but row_of[3] is 21");
    rt->row_of[3] = 3;
    rt->count[0]--;
    assert_non_null(
        strstr(ir_eval(k, EVAL_REFERENCE, dims, args, NULL, arena), "count[0] is 20 in a run of 21"));
    rt->count[0]++;
    rt->tokens = 8;
    assert_string_equal(ir_eval(k, EVAL_REFERENCE, dims, args, NULL, arena), "route rt has tokens 8, not 7");
}

/* ---- other patterns ---- */

/* Attention, causal: reductions narrowed by a condition, stop, nested products; f32, so that exact is in
 * bounds. */
static void attention(void **state)
{
    (void)state;
    const Kernel *k =
        compile("moe 1\ndim B, S, N, D\n"
                "kernel attention(in q, k, v: f32[B, S, N, D], out o: f32[B, S, N, D]) {\n"
                "  s[b, n, i, j] = sum(d) q[b, i, n, d] * k[b, j, n, d] / sqrt(D)\n"
                "  m[b, n, i]    = max(j where j <= i) s[b, n, i, j]\n"
                "  e[b, n, i, j] = exp(s[b, n, i, j] - stop(m[b, n, i]))\n"
                "  z[b, n, i]    = sum(j where j <= i) e[b, n, i, j]\n"
                "  o[b, i, n, d] = (sum(j where j <= i) e[b, n, i, j] * v[b, j, n, d]) / z[b, n, i]\n"
                "}\n");
    enum { S = 5, D = 3, SIZE = 2 * S * 2 * D };
    Random rnd = random_new(3);
    double *q = filled(&rnd, SIZE, EL_F32), *kk = filled(&rnd, SIZE, EL_F32), *v = filled(&rnd, SIZE, EL_F32);
    double *o = empty(SIZE), *exact = empty(SIZE), *bound = empty(SIZE);
    EvalArg args[] = {{.data = q}, {.data = kk}, {.data = v}, {.data = o}};
    const int64_t dims[] = {2, S, 2, D};
    runs(k, EVAL_REFERENCE, dims, args, (double *[]){NULL, NULL, NULL, bound});
    args[3].data = exact;
    runs(k, EVAL_EXACT, dims, args, NULL);
    for (int i = 0; i < SIZE; i++) {
        assert_true(fabs(o[i] - exact[i]) <= bound[i]);
        assert_true(bound[i] < 1e-4);
    }
    for (int d = 0; d < D; d++) /* the first position sees itself only */
        assert_true(fabs(exact[d] - v[d]) < 1e-12);
}

/* A local route made from top, its rows read back; ids -1 cannot occur, so every token sees its K largest. */
static void route_of_top(void **state)
{
    (void)state;
    const Kernel *k = compile("moe 1\ndim T, E\ndim K <= 64\ngroup R : E rows T*K\n"
                              "kernel pick(in s: f32[T, E], out y: f32[T], out n: i32[E]) {\n"
                              "  p[t, k: K], id[t, k] = top(e) s[t, e]\n"
                              "  rt = route(id -> R)\n"
                              "  w[r] = s[rt.token(r), @r] * 2\n"
                              "  y[t] = sum(k) w[rt.row(t, k)]\n"
                              "  n[e] = sum(r in e) 1\n"
                              "}\n");
    double s[] = {1, 5, 3, 2, 8, 8, 7, 9}, y[2], n[4];
    EvalArg args[] = {{.data = s}, {.data = y}, {.data = n}};
    runs(k, EVAL_REFERENCE, (int64_t[]){2, 4, 2}, args, NULL);
    assert_memory_equal(y, ((double[]){16, 34}), sizeof y);
    assert_memory_equal(n, ((double[]){1, 1, 1, 1}), sizeof n);
}

/* A definition of fifty shared steps would be 2^50 nodes as a tree. */
static void shared_nodes(void **state)
{
    (void)state;
    Text text = {.arena = arena};
    text_add(&text, "moe 1\ndim N\nfn step0(x) = x * 0.5 + x * 0.5\n");
    for (int i = 1; i < 50; i++)
        text_add(&text, "fn step%d(x) = step%d(x) * 0.25 + step%d(x) * 0.75\n", i, i - 1, i - 1);
    text_add(&text, "kernel deep(in x: f32[N], out y: f32[N]) { y[n] = step49(x[n]) }\n");
    const Kernel *k = compile(text_string(&text));
    double x[] = {1, -3}, y[2];
    EvalArg args[] = {{.data = x}, {.data = y}};
    runs(k, EVAL_REFERENCE, (int64_t[]){2}, args, NULL);
    assert_true(y[0] == 1 && y[1] == -3);
}

/* A sum that is the same for every element is computed once; each of them adds it nevertheless. */
static void one_sum_for_all(void **state)
{
    (void)state;
    const Kernel *k = compile("moe 1\ndim N, H\nkernel all(in x: f32[H], inout y, z: f32[N]) {\n"
                              "  y[n] += sum(h) x[h]\n  z[n] += (sum(h: H) 0.25) + (sum(h) x[h])\n}\n");
    for (int h = 0; h <= 3; h += 3) {
        double x[] = {1, 2, 4}, y[] = {1, 2}, z[] = {1, 2};
        EvalArg args[] = {{.data = x}, {.data = y}, {.data = z}};
        runs(k, EVAL_REFERENCE, (int64_t[]){2, h}, args, NULL);
        assert_true(y[0] == (h ? 8 : 1) && y[1] == (h ? 9 : 2));
        assert_true(z[0] == (h ? 8.75 : 1) && z[1] == (h ? 9.75 : 2));
    }
}

/* A condition on the elements i guards the accesses of those after it: in a sum, and in an `if`. */
static const char *run_guarded(const char *first, const char *second, double *y, double *z)
{
    const Kernel *k =
        compile(arena_printf(arena,
                             "moe 1\ndim N\n"
                             "kernel edges(in x: f32[N], in id: i32[N], out y: f32, out z: f32[N]) {\n"
                             "  y = sum(i where %s and %s) x[i]\n"
                             "  z[i] = if(%s and %s, x[i], 0)\n"
                             "}\n",
                             first, second, first, second));
    double x[] = {1, 2, -4, 8}, id[] = {-1, 0, 1, 2};
    EvalArg args[] = {{.data = x}, {.data = id}, {.data = y}, {.data = z}};
    return ir_eval(k, EVAL_REFERENCE, (int64_t[]){4}, args, NULL, arena);
}

/* Only a condition that reads no tensor counts before those to its left. */
static void guards_in_the_order_of_text(void **state)
{
    (void)state;
    static const char outside[] = "index -1 is outside axis 0 of x, whose extent is 4",
                      access[] = "x[id[i]] > 0";
    double y, z[4];
    assert_null(run_guarded("id[i] >= 0", access, &y, z));
    assert_true(y == -2);
    assert_memory_equal(z, ((double[]){0, 2, -4, 0}), sizeof z);
    assert_null(run_guarded(access, "i > 0", &y, z));
    assert_true(y == -2);
    assert_string_equal(run_guarded(access, "id[i] >= 0", &y, z), outside);
    assert_string_equal(run_guarded(access, "id[i] == i - 1", &y, z), outside);
    assert_string_equal(run_guarded(access, "i < id[i]", &y, z), outside);
}

/* The loop over i is not cut short by a condition after one that may fail there. */
static void no_range_skips_an_access(void **state)
{
    (void)state;
    const Kernel *k = compile("moe 1\ndim N\n"
                              "kernel cut(in x: f32[N], in id: i32[N], in n: i32[N], out y: f32[N]) {\n"
                              "  y[j] = sum(i where x[id[i]] > 0 and i < n[j]) x[i]\n"
                              "}\n");
    double x[] = {1, 2}, id[] = {0, 2}, n[] = {1, 1}, y[2];
    EvalArg args[] = {{.data = x}, {.data = id}, {.data = n}, {.data = y}};
    assert_string_equal(ir_eval(k, EVAL_REFERENCE, (int64_t[]){2}, args, NULL, arena),
                        "index 2 is outside axis 0 of x, whose extent is 2");
    id[1] = 1;
    runs(k, EVAL_REFERENCE, (int64_t[]){2}, args, NULL);
    assert_true(y[0] == 1 && y[1] == 1);
}

/* Conditions on floats that carry an error: the bound covers the other choice. */
static void doubtful_choice(void **state)
{
    (void)state;
    const Kernel *k = compile("moe 1\ndim N\n"
                              "kernel choose(in x: f32[N], out y: f32, out z: f32) {\n"
                              "  s = sum(n) x[n]\n"
                              "  y = if(s > 1, 100.0, 50.0)\n"
                              "  z = if(s > 7, 100.0, 50.0)\n"
                              "}\n");
    double x[] = {0.5, 0.25, 0.25}, y, z, by, bz;
    EvalArg args[] = {{.data = x}, {.data = &y}, {.data = &z}};
    runs(k, EVAL_REFERENCE, (int64_t[]){3}, args, (double *[]){NULL, &by, &bz});
    assert_true(y == 50 && by == 50 && z == 50 && bz == 0);
}

/* Two chained products; %s is a place for a fault. */
static const char chain_text[] =
    "moe 1\ndim M, N, C\n"
    "kernel chain(in x: bf16[M, N], in w: bf16[N, C], in v: bf16[C, N], out y: bf16[M, N]) {\n"
    "  h[m, c] = sum(n%s) x[m, n] * w[n, c]\n"
    "  a[m, c] = %s(h[m, c] * sigmoid(h[m, c]))\n"
    "  y[m, n] = bf16(sum(c) a[m, c] * v[c, n])\n"
    "}\n";

static double *run_chain(const char *where, const char *cast, double *const *bounds)
{
    enum { M = 5, N = 67, C = 48 };
    Random rnd = random_new(11);
    double *x = filled(&rnd, M * N, EL_BF16), *w = filled(&rnd, N * C, EL_BF16),
           *v = filled(&rnd, C * N, EL_BF16);
    double *y = empty(M * N);
    EvalArg args[] = {{.data = x}, {.data = w}, {.data = v}, {.data = y}};
    runs(compile(arena_printf(arena, chain_text, where, cast)), EVAL_REFERENCE, (int64_t[]){M, N, C}, args,
         bounds);
    return y;
}

/* How many of the 335 elements are outside what the bounds allow. */
static int outside(const double *y, const double *other, const double *bound)
{
    int n = 0;
    for (int i = 0; i < 5 * 67; i++)
        n += !(fabs(y[i] - other[i]) <= bound[i]);
    return n;
}

/* The bounds are tight enough to show a forgotten last term, a dropped cast, a truncating one. */
static void faults_exceed_bounds(void **state)
{
    (void)state;
    double *bound = empty(5 * 67), *bounds[] = {NULL, NULL, NULL, bound};
    double *y = run_chain("", "bf16", bounds);
    assert_int_equal(outside(y, run_chain("", "bf16", NULL), bound), 0);
    assert_true(outside(y, run_chain(" where n < N - 1", "bf16", NULL), bound) > 200);
    assert_true(outside(y, run_chain(" where n > 0", "bf16", NULL), bound) > 200);
    assert_true(outside(y, run_chain("", "f32", NULL), bound) > 50);
    assert_true(outside(y, run_chain("", "f16", NULL), bound) > 50);
}

/* A sum whose terms are computed many at a time, and the same one by one, since an `if` is: values and bounds. Conditions leave out
 * some terms, a longer stretch than a batch, and the last one. */
static void batches_are_their_terms(void **state)
{
    enum { ROWS = 3, TERMS = 300 };
    (void)state;
    const Kernel *k =
        compile("moe 1\ndim T, H\n"
                "kernel k(in x: f32[T, H], in w: f32[H, T], in keep: i32[H], out a, b: f32[T]) {\n"
                "  a[t] = sum(h where keep[h] > 0) exp(x[t, h]) * w[h, t] / 3\n"
                "  b[t] = sum(h where keep[h] > 0) if(h >= 0, exp(x[t, h]) * w[h, t] / 3, 0)\n"
                "}\n");
    Random r = random_new(1);
    double *x = filled(&r, ROWS * TERMS, EL_F32), *w = filled(&r, ROWS * TERMS, EL_F32), *keep = empty(TERMS),
           *a = empty(ROWS), *b = empty(ROWS), *a_bound = empty(ROWS), *b_bound = empty(ROWS);
    for (int h = 0; h < TERMS; h++)
        keep[h] = h < 7 || (h > 80 && h < 180) || (h > 250 && h % 3 && h < TERMS - 1);
    int64_t dims[2] = {ROWS, TERMS};
    EvalArg args[5] = {{.data = x}, {.data = w}, {.data = keep}, {.data = a}, {.data = b}};
    double *bounds[5] = {NULL, NULL, NULL, a_bound, b_bound};
    runs(k, EVAL_REFERENCE, dims, args, bounds);
    for (int t = 0; t < ROWS; t++) {
        double sum = 0;
        for (int h = 0; h < TERMS; h++)
            sum += keep[h] != 0 ? exp(x[t * TERMS + h]) * w[h * ROWS + t] / 3 : 0;
        assert_true(fabs(a[t] - sum) <= 1e-4 && a[t] != 0);
        assert_true(a[t] == b[t] && a_bound[t] == b_bound[t] && a_bound[t] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
        TEST(ffn_dropless),
        TEST(ffn_capacity),
        TEST(broken_routes),
        TEST(attention),
        TEST(route_of_top),
        TEST(shared_nodes),
        TEST(one_sum_for_all),
        TEST(guards_in_the_order_of_text),
        TEST(no_range_skips_an_access),
        TEST(doubtful_choice),
        TEST(faults_exceed_bounds),
        TEST(batches_are_their_terms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
