/* The reference interpreter: scalars, routes, and kernels made by hand. */
#include "tests/unit/ir_fixture.h"

#include <math.h>
#include <string.h>

#include "ir/eval.h"

static const char *run(EvalMode mode, const int64_t *dims, EvalArg *args, double *const *bounds)
{
    const char *fault = ir_verify(k, arena);
    assert_null(fault);
    return ir_eval(k, mode, dims, args, bounds, arena);
}

/* ---- scalars ---- */

static double f(ScalarOp o, double a, double b) { return scalar_eval(o, EVAL_REFERENCE, TY_F32, a, b); }

static void scalars(void **state)
{
    (void)state;
    assert_true(f(OP_add, 1, 0x1p-25) == 1);
    assert_true(scalar_eval(OP_add, EVAL_EXACT, TY_F32, 1, 0x1p-25) > 1);
    assert_true(f(OP_div, 1, 3) == (double)(1.0f / 3.0f));
    assert_true(scalar_eval(OP_div, EVAL_REFERENCE, TY_INT, 1, 2) == 0.5);
    assert_true(isnan(f(OP_max2, NAN, 1)) && isnan(f(OP_min2, 1, NAN)));
    assert_true(f(OP_max2, 2, 3) == 3 && f(OP_min2, 2, 3) == 2);
    assert_true(isnan(f(OP_pow, -1, 2)) && f(OP_pow, 2, 3) == 8);
    assert_true(f(OP_i32, 2.9, 0) == 2 && f(OP_i32, -2.9, 0) == -2 && f(OP_i32, NAN, 0) == 0);
    assert_true(f(OP_i32, 1e20, 0) == 2147483647.0 && f(OP_i32, -1e20, 0) == -2147483648.0);
    assert_true(f(OP_floor, -0.5, 0) == -1 && f(OP_relu, -3, 0) == 0 && isnan(f(OP_relu, NAN, 0)));
    assert_true(fabs(f(OP_gelu, 1, 0) - 0.841192) < 1e-6 && fabs(f(OP_silu, 1, 0) - 0.731059) < 1e-6);
    assert_true(scalar_eval(OP_lt, EVAL_REFERENCE, TY_F32, 1, NAN) == 0);
    assert_true(scalar_eval(OP_ne, EVAL_REFERENCE, TY_F32, 1, NAN) == 1);
    assert_true(scalar_eval(OP_mul, EVAL_REFERENCE, TY_INT, 3, -4) == -12);
}

static void rounding(void **state)
{
    (void)state;
    assert_true(elem_round(EL_BF16, 1 + 0x1p-8) == 1);              /* tie to even */
    assert_true(elem_round(EL_BF16, 1 + 3 * 0x1p-8) == 1 + 0x1p-6); /* tie to even, up */
    assert_true(elem_round(EL_BF16, 1 + 0x1p-8 + 0x1p-20) == 1 + 0x1p-7);
    assert_true(elem_round(EL_BF16, 1 + 0x1p-8 + 0x1p-40) == 1); /* f32 first */
    assert_true(elem_round(EL_BF16, 3.4e38) == INFINITY && isnan(elem_round(EL_BF16, NAN)));
    assert_true(elem_round(EL_F16, 65504) == 65504 && elem_round(EL_F16, 65519) == 65504);
    assert_true(elem_round(EL_F16, 65520) == INFINITY && elem_round(EL_F16, -1e9) == -INFINITY);
    assert_true(elem_round(EL_F16, 0x1p-24) == 0x1p-24 && elem_round(EL_F16, 0x1p-25) == 0);
    assert_true(elem_round(EL_F16, 0x1.8p-25) == 0x1p-24 && elem_round(EL_F16, 1 + 0x1p-11) == 1);
    assert_true(elem_round(EL_F32, 0.1) == (double)0.1f);
}

/* ---- routes ---- */

static void golden_route(void **state)
{
    (void)state;
    const int32_t ids[8] = {2, 0, 1, 2, 0, 3, 2, 1};
    int64_t start[5], count[4];
    int32_t slot_of[8], row_of[8];
    EvalRoute r = {4, 2, 4, 8, start, count, slot_of, row_of, 0};
    assert_int_equal(ir_make_route(ids, -1, &r), 0);
    const int32_t sorted_first[8] = {1, 4, 2, 7, 0, 3, 6, 5}, sorted_indices[8] = {4, 0, 2, 5, 1, 7, 6, 3};
    const int32_t source_token[8] = {0, 2, 1, 3, 0, 1, 3, 2};
    const int64_t rows[4] = {2, 2, 3, 1}, cumulative[4] = {2, 4, 7, 8};
    assert_memory_equal(slot_of, sorted_first, sizeof slot_of);
    assert_memory_equal(row_of, sorted_indices, sizeof row_of);
    assert_memory_equal(count, rows, sizeof count);
    assert_memory_equal(start + 1, cumulative, sizeof cumulative);
    assert_int_equal(start[0], 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(slot_of[i] / 2, source_token[i]);
}

static void dropped_route(void **state)
{
    (void)state;
    const int32_t ids[6] = {1, -1, 1, 0, 1, 1};
    int64_t start[4], count[3];
    int32_t slot_of[6], row_of[6];
    EvalRoute r = {3, 2, 3, 6, start, count, slot_of, row_of, 0};
    assert_int_equal(ir_make_route(ids, 2, &r),
                     0); /* two places each: the first two choices of group 1 stay */
    assert_memory_equal(start, ((int64_t[]){0, 2, 4, 6}), sizeof start);
    assert_memory_equal(count, ((int64_t[]){1, 2, 0}), sizeof count);
    assert_memory_equal(slot_of, ((int32_t[]){3, -1, 0, 2, -1, -1}), sizeof slot_of);
    assert_memory_equal(row_of, ((int32_t[]){2, -1, 3, 0, -1, -1}), sizeof row_of);
    assert_int_equal(ir_make_route((int32_t[]){0, 0, 0, 3, 0, 0}, -1, &r), 4);
    assert_int_equal(ir_make_route((int32_t[]){0, 0, -2, 0, 0, 0}, -1, &r), 3);
    r.rows = 5;
    assert_int_equal(ir_make_route((int32_t[]){0, 0, 0, 0, 0, 0}, -1, &r), -1);
}

/* ---- kernels ---- */

/* y[i] = sum(j) a[i, j] * a[i, j] */
static void sum_of_products(void **state)
{
    (void)state;
    Axis n = dense(new_dim("N")), c = dense(new_dim("C"));
    TensorId a = tensor("a", ROLE_IN, EL_F32, 2, n, c), y = tensor("y", ROLE_OUT, EL_F32, 1, n, n);
    ExprId i = new_index("i", n), j = new_index("j", c), aij = load(a, i, j);
    define(EQ_ASSIGN, y, 1, i, NONE, reduce(RED_SUM, j, op(OP_mul, aij, aij), NONE));
    double data[6] = {1, 2, 3, 0.1f, 0, -1}, out[2], bound[2];
    int64_t dims[2] = {2, 3};
    EvalArg args[2] = {{.data = data}, {.data = out}};
    double *bounds[2] = {NULL, bound};
    assert_null(run(EVAL_REFERENCE, dims, args, bounds));
    assert_true(out[0] == 14 && out[1] == (double)(float)((double)(0.1f * 0.1f) + 1));
    assert_true(bound[0] >= 5 * 0x1p-24 * 14 && bound[0] < 8 * 0x1p-24 * 14);
    dims[1] = 0;
    assert_null(run(EVAL_REFERENCE, dims, args, bounds));
    assert_true(out[0] == 0 && out[1] == 0 && bound[0] == 0);
}

static void empty_extremes(void **state)
{
    (void)state;
    Axis n = dense(new_dim("N"));
    TensorId a = tensor("a", ROLE_IN, EL_F32, 1, n, n), id = tensor("id", ROLE_IN, EL_I32, 1, n, n);
    TensorId y = tensor("y", ROLE_OUT, EL_F32, 0, n, n), z = tensor("z", ROLE_OUT, EL_F32, 0, n, n);
    ExprId i = new_index("i", n), j = new_index("j", n), l = new_index("l", n);
    define(EQ_ASSIGN, y, 0, NONE, NONE, reduce(RED_MAX, i, load(a, i, NONE), NONE));
    define(EQ_ASSIGN, z, 0, NONE, NONE, reduce(RED_MIN, j, load(a, j, NONE), NONE));
    double data[3] = {3, NAN, 1}, ids[3] = {3, 1, 2}, mx, mn, im;
    int64_t dims[1] = {0};
    EvalArg args[5] = {{.data = data}, {.data = ids}, {.data = &mx}, {.data = &mn}, {.data = &im}};
    assert_null(run(EVAL_REFERENCE, dims, args, NULL));
    assert_true(mx == -INFINITY && mn == INFINITY);
    dims[0] = 3;
    assert_null(run(EVAL_REFERENCE, dims, args, NULL));
    assert_true(isnan(mx) && isnan(mn));
    TensorId w = tensor("w", ROLE_OUT, EL_I32, 0, n, n);
    define(EQ_ASSIGN, w, 0, NONE, NONE, reduce(RED_MAX, l, load(id, l, NONE), NONE));
    assert_null(run(EVAL_REFERENCE, dims, args, NULL));
    assert_true(im == 3);
    dims[0] = 0;
    assert_non_null(strstr(run(EVAL_REFERENCE, dims, args, NULL), "max of no integers"));
}

/* y[i] = if(i > 0, a[i - 1], 0) */
static void guarded_access(void **state)
{
    (void)state;
    Axis n = dense(new_dim("N"));
    TensorId a = tensor("a", ROLE_IN, EL_F32, 1, n, n), y = tensor("y", ROLE_OUT, EL_F32, 1, n, n);
    ExprId i = new_index("i", n), before = op(OP_sub, i, lit(1));
    ExprId value = load(a, before, NONE), zero = num(0);
    define(EQ_ASSIGN, y, 1, i, NONE, x_if(k, nowhere, op(OP_gt, i, lit(0)), value, zero));
    double data[3] = {1, 2, 3}, out[3];
    int64_t dims[1] = {3};
    EvalArg args[2] = {{.data = data}, {.data = out}};
    assert_null(run(EVAL_REFERENCE, dims, args, NULL));
    assert_true(out[0] == 0 && out[1] == 1 && out[2] == 2);
    k->eqs.at[0].rhs = value;
    assert_string_equal(run(EVAL_REFERENCE, dims, args, NULL),
                        "index -1 is outside axis 0 of a, whose extent is 3");
}

/* The interpreter's stack has an end: the front end refuses such sums, a pass could make them. */
static void deep_sum(void **state)
{
    (void)state;
    Axis n = dense(new_dim("N"));
    TensorId a = tensor("a", ROLE_IN, EL_F32, 1, n, n), y = tensor("y", ROLE_OUT, EL_F32, 1, n, n);
    ExprId i = new_index("i", n), value = load(a, i, NONE);
    for (int terms = 1; terms < 4001; terms++)
        value = op(OP_add, value, load(a, i, NONE));
    define(EQ_ASSIGN, y, 1, i, NONE, value);
    double data[2] = {1, 2}, out[2];
    int64_t dims[1] = {2};
    EvalArg args[2] = {{.data = data}, {.data = out}};
    const char *says = run(EVAL_REFERENCE, dims, args, NULL);
    assert_true(says && strstr(says, "is nested too deeply"));
    k->eqs.at[0].rhs = x_arg(k, x_arg(k, value, 0), 0);
    assert_null(run(EVAL_REFERENCE, dims, args, NULL));
    assert_true(out[0] == 3999 && out[1] == 7998);
}

/* y[v] = sum(t where id[t] == v) x[t]; h[id[t]] += x[t]: the same numbers */
static void bucket_and_scatter(void **state)
{
    (void)state;
    Axis t_axis = dense(new_dim("T")), v_axis = dense(new_dim("V"));
    TensorId id = tensor("id", ROLE_IN, EL_I32, 1, t_axis, t_axis),
             x = tensor("x", ROLE_IN, EL_F32, 1, t_axis, t_axis);
    TensorId y = tensor("y", ROLE_OUT, EL_F32, 1, v_axis, v_axis),
             h = tensor("h", ROLE_INOUT, EL_F32, 1, v_axis, v_axis);
    ExprId t = new_index("t", t_axis), v = new_index("v", v_axis), u = new_index("u", t_axis);
    define(EQ_ASSIGN, y, 1, v, NONE, reduce(RED_SUM, t, load(x, t, NONE), op(OP_eq, load(id, t, NONE), v)));
    define(EQ_ADD, h, 1, load(id, u, NONE), NONE, load(x, u, NONE));
    double ids[5] = {2, 0, 2, 2, 1}, xs[5] = {1, 2, 4, 8, 16}, ys[4], hs[4] = {100, 0, 0, 7};
    int64_t dims[2] = {5, 4};
    EvalArg args[4] = {{.data = ids}, {.data = xs}, {.data = ys}, {.data = hs}};
    assert_null(run(EVAL_REFERENCE, dims, args, NULL));
    assert_memory_equal(ys, ((double[]){2, 16, 13, 0}), sizeof ys);
    assert_memory_equal(hs, ((double[]){102, 16, 13, 7}), sizeof hs);
    ids[3] = 4;
    assert_string_equal(run(EVAL_REFERENCE, dims, args, NULL),
                        "index 4 is outside axis 0 of h, whose extent is 4");
}

/* y[v] += sum(t where id[t] == v) x[t] leaves the bits of an element without terms. */
static void sum_of_nothing(void **state)
{
    (void)state;
    Axis t_axis = dense(new_dim("T")), v_axis = dense(new_dim("V"));
    TensorId id = tensor("id", ROLE_IN, EL_I32, 1, t_axis, t_axis),
             x = tensor("x", ROLE_IN, EL_F32, 1, t_axis, t_axis),
             y = tensor("y", ROLE_INOUT, EL_F32, 1, v_axis, v_axis);
    ExprId t = new_index("t", t_axis), v = new_index("v", v_axis);
    define(EQ_ADD, y, 1, v, NONE, reduce(RED_SUM, t, load(x, t, NONE), op(OP_eq, load(id, t, NONE), v)));
    double ids[1] = {1}, xs[1] = {0}, ys[2] = {-0.0, -0.0};
    EvalArg args[3] = {{.data = ids}, {.data = xs}, {.data = ys}};
    assert_null(run(EVAL_REFERENCE, (int64_t[]){1, 2}, args, NULL));
    assert_memory_equal(ys, ((double[]){-0.0, 0}), sizeof ys);
}

/* m[i] = max(j where j <= i) a[j] : the range is narrowed, the result is not */
static void causal(void **state)
{
    (void)state;
    Axis n = dense(new_dim("N"));
    TensorId a = tensor("a", ROLE_IN, EL_F32, 1, n, n), y = tensor("y", ROLE_OUT, EL_F32, 1, n, n);
    ExprId i = new_index("i", n), j = new_index("j", n);
    define(EQ_ASSIGN, y, 1, i, NONE, reduce(RED_SUM, j, load(a, j, NONE), op(OP_lt, i, j)));
    double data[4] = {1, 2, 4, 8}, out[4];
    int64_t dims[1] = {4};
    EvalArg args[2] = {{.data = data}, {.data = out}};
    assert_null(run(EVAL_REFERENCE, dims, args, NULL));
    assert_memory_equal(out, ((double[]){14, 12, 8, 0}), sizeof out);
    k->eqs.at[0].rhs = reduce(RED_SUM, j, load(a, j, NONE), op(OP_ge, i, j));
    assert_null(run(EVAL_REFERENCE, dims, args, NULL));
    assert_memory_equal(out, ((double[]){1, 3, 7, 15}), sizeof out);
}

static void top_of_row(void **state)
{
    (void)state;
    Axis e_axis = dense(new_dim("E")), k_axis = dense(new_dim("K"));
    TensorId s = tensor("s", ROLE_IN, EL_F32, 1, e_axis, e_axis);
    TensorId p = tensor("p", ROLE_OUT, EL_F32, 1, k_axis, k_axis),
             id = tensor("id", ROLE_OUT, EL_I32, 1, k_axis, k_axis);
    ExprId e = new_index("e", e_axis), place = new_index("k", k_axis);
    Equation q = ir_equation(EQ_TOP, nowhere);
    q.lhs = p;
    q.ids = id;
    q.nindex = 1;
    q.index[0] = place;
    q.bound = x_at(k, e)->sym;
    q.rhs = op(OP_mul, load(s, e, NONE), num((double)(float)0.1));
    vec_push(arena, &k->eqs, q);
    double data[5] = {1, NAN, 3, 1, 3}, ps[6], ids[6], pb[6], ib[6];
    int64_t dims[2] = {5, 4};
    EvalArg args[3] = {{.data = data}, {.data = ps}, {.data = ids}};
    double *bounds[3] = {NULL, pb, ib};
    assert_null(run(EVAL_REFERENCE, dims, args, bounds));
    assert_memory_equal(ids, ((double[]){2, 4, 0, 3}), sizeof(double[4]));
    assert_true(ps[0] == ps[1] && ps[2] == ps[3] && ps[0] > ps[2]);
    assert_true(ib[0] == INFINITY &&
                ib[1] == INFINITY);        /* rounded to the same, maybe by one implementation only */
    assert_true(ib[2] == 0 && ib[3] == 0); /* exact values that are equal are no near tie */
    data[4] = nextafterf(3, 4);
    assert_null(run(EVAL_REFERENCE, dims, args, bounds));
    assert_true(ids[0] == 4 && ib[0] == INFINITY && ib[1] == INFINITY && ib[2] == 0);
    dims[1] = 6;
    assert_non_null(strstr(run(EVAL_REFERENCE, dims, args, NULL), "top takes 6 of 5"));
}

/* Of functions: their own roundings only where operands are exact, and what their slope makes of an operand's error. */
static void bounds_of_functions(void **state)
{
    (void)state;
    static const ScalarOp ops[] = {OP_exp,     OP_log,  OP_sqrt, OP_rsqrt, OP_tanh,
                                   OP_sigmoid, OP_silu, OP_gelu, OP_pow};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        Value a = {.n.f = 1.5}, b = {.n.f = 3};
        double at = scalar_eval(ops[i], EVAL_EXACT, TY_F32, 1.5, 3), own = eval_error(ops[i], a, b, at, at);
        double moved = fabs(scalar_eval(ops[i], EVAL_EXACT, TY_F32, 1.51, 3) - at);
        assert_true(own >= 0 && own < 16 * 0x1p-23 * at);
        a.error = 0.01;
        double passed = eval_error(ops[i], a, b, at, at);
        assert_true(passed >= moved && passed < 1.2 * moved + own);
    }
}

/* A cast forgets an error that is far from a rounding boundary, and keeps one ulp of it when it is near. */
static void bounds_of_casts(void **state)
{
    (void)state;
    Axis n = dense(new_dim("N"));
    TensorId a = tensor("a", ROLE_IN, EL_F32, 1, n, n), y = tensor("y", ROLE_OUT, EL_BF16, 1, n, n);
    ExprId i = new_index("i", n);
    define(EQ_ASSIGN, y, 1, i, NONE, op1(OP_bf16, op1(OP_exp, load(a, i, NONE))));
    double data[2] = {1, log(1 + 0x1p-8)}, out[2], bound[2];
    data[1] = (double)(float)data[1];
    int64_t dims[1] = {2};
    EvalArg args[2] = {{.data = data}, {.data = out}};
    double *bounds[2] = {NULL, bound};
    assert_null(run(EVAL_REFERENCE, dims, args, bounds));
    assert_true(out[0] == 2.71875 && bound[0] == 0);
    assert_true(bound[1] == 0x1p-7);
    assert_null(run(EVAL_EXACT, dims, args, NULL));
    assert_true(out[0] == exp(1));
}

/* What moves with a shift counts its roundings twice, a cast's too; what moved and cancelled does not. */
static void bounds_of_shifts(void **state)
{
    (void)state;
    Axis n = dense(new_dim("N"));
    TensorId a = tensor("a", ROLE_IN, EL_F32, 1, n, n), y = tensor("y", ROLE_OUT, EL_F32, 1, n, n);
    TensorId z = tensor("z", ROLE_OUT, EL_F32, 1, n, n), q = tensor("q", ROLE_OUT, EL_F32, 1, n, n);
    ExprId i = new_index("i", n), x = load(a, i, NONE);
    ExprId moved = op1(OP_bf16, op1(OP_exp, op(OP_sub, x_float(k, nowhere, 0.75), op1(OP_shift, x))));
    ExprId fixed = op1(OP_bf16, op1(OP_exp, op(OP_sub, x_float(k, nowhere, 0.75), op1(OP_stop, x))));
    define(EQ_ASSIGN, y, 1, i, NONE, moved);
    define(EQ_ASSIGN, z, 1, i, NONE, fixed);
    define(EQ_ASSIGN, q, 1, i, NONE, op(OP_div, moved, moved));
    double data[1] = {0.25}, out[3], bound[3][1];
    int64_t dims[1] = {1};
    EvalArg args[4] = {{.data = data}, {.data = &out[0]}, {.data = &out[1]}, {.data = &out[2]}};
    double *bounds[4] = {NULL, bound[0], bound[1], bound[2]};
    assert_null(run(EVAL_REFERENCE, dims, args, bounds));
    assert_true(out[0] == out[1] && out[2] == 1);
    assert_true(bound[1][0] == 0);
    assert_true(bound[0][0] >= 0x1p-7 * out[0] && bound[0][0] < 0x1p-6 * out[0]);
    assert_true(bound[2][0] >= 0x1p-7);
}

static void sizes(void **state)
{
    (void)state;
    Axis n = dense(new_dim("N"));
    m->dims.at[0].multiple = 16;
    m->dims.at[0].max = 64;
    TensorId a = tensor("a", ROLE_IN, EL_F32, 1, n, n), y = tensor("y", ROLE_OUT, EL_I32, 1, n, n);
    ExprId i = new_index("i", n);
    define(EQ_ASSIGN, y, 1, i, NONE, op(OP_mul, i, lit(1000000000)));
    (void)a;
    double data[64], out[64];
    EvalArg args[2] = {{.data = data}, {.data = out}};
    assert_string_equal(run(EVAL_REFERENCE, (int64_t[]){20}, args, NULL),
                        "dimension N is 20, not a multiple of 16");
    assert_string_equal(run(EVAL_REFERENCE, (int64_t[]){-16}, args, NULL), "dimension N is -16, negative");
    assert_string_equal(run(EVAL_REFERENCE, (int64_t[]){80}, args, NULL),
                        "dimension N is 80, above its limit 64");
    assert_string_equal(run(EVAL_REFERENCE, (int64_t[]){16}, args, NULL),
                        "value 3000000000 does not fit i32 tensor y");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(scalars),
        TEST(rounding),
        TEST(golden_route),
        TEST(dropped_route),
        TEST(sum_of_products),
        TEST(empty_extremes),
        TEST(guarded_access),
        TEST(deep_sum),
        TEST(bucket_and_scatter),
        TEST(sum_of_nothing),
        TEST(causal),
        TEST(top_of_row),
        TEST(bounds_of_functions),
        TEST(bounds_of_casts),
        TEST(bounds_of_shifts),
        TEST(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
