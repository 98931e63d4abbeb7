/* The printer: minimal parentheses, names, extents that nothing else tells, numbers that read back. */
#include "tests/unit/ir_fixture.h"

#include <stdlib.h>

static Axis n, c;
static TensorId a, b;
static ExprId i, j, ai, bij;

static void declare(void)
{
    n = dense(new_dim("N"));
    c = dense(new_dim("C"));
    a = tensor("a", ROLE_IN, EL_F32, 1, n, n);
    b = tensor("b", ROLE_IN, EL_F32, 2, n, c);
    i = new_index("i", n);
    j = new_index("j", c);
    ai = load(a, i, NONE);
    bij = load(b, i, j);
}

static const char *text(ExprId e)
{
    Text out = {.arena = arena};
    ir_print_expr(k, e, &out);
    return text_string(&out);
}

#define PRINTS(e, expected) assert_string_equal(text(e), expected)

static void operators(void **state)
{
    (void)state;
    declare();
    ExprId x = ai, y = num(2), z = num(0.5);
    PRINTS(op(OP_add, op(OP_add, x, y), z), "a[i] + 2.0 + 0.5");
    PRINTS(op(OP_add, x, op(OP_add, y, z)), "a[i] + (2.0 + 0.5)");
    PRINTS(op(OP_sub, x, op(OP_sub, y, z)), "a[i] - (2.0 - 0.5)");
    PRINTS(op(OP_mul, op(OP_add, x, y), z), "(a[i] + 2.0) * 0.5");
    PRINTS(op(OP_div, op(OP_mul, x, y), z), "a[i] * 2.0 / 0.5");
    PRINTS(op(OP_mul, x, op(OP_div, y, z)), "a[i] * (2.0 / 0.5)");
    PRINTS(op1(OP_neg, op(OP_mul, x, y)), "-(a[i] * 2.0)");
    PRINTS(op(OP_mul, op1(OP_neg, x), y), "-a[i] * 2.0");
    PRINTS(op(OP_sub, x, op1(OP_neg, y)), "a[i] - -2.0");
    PRINTS(op(OP_mul, x, num(-2)), "a[i] * -2.0");
    PRINTS(op1(OP_exp, op1(OP_neg, op(OP_max2, x, y))), "exp(-max2(a[i], 2.0))");
    PRINTS(x_if(k, nowhere, op(OP_gt, x, y), x, z), "if(a[i] > 2.0, a[i], 0.5)");
}

static void conditions(void **state)
{
    (void)state;
    declare();
    ExprId p = op(OP_lt, i, lit(3)), q = op(OP_ge, op(OP_add, i, lit(1)), j), r = op(OP_ne, ai, num(0));
    PRINTS(op(OP_and, op(OP_and, p, q), r), "i < 3 and i + 1 >= j and a[i] != 0.0");
    PRINTS(op(OP_and, p, op(OP_or, q, r)), "i < 3 and (i + 1 >= j or a[i] != 0.0)");
    PRINTS(op(OP_or, op(OP_and, p, q), r), "i < 3 and i + 1 >= j or a[i] != 0.0");
    PRINTS(op1(OP_not, op(OP_and, p, q)), "not (i < 3 and i + 1 >= j)");
    PRINTS(op(OP_and, op1(OP_not, p), q), "not i < 3 and i + 1 >= j");
}

static void reductions(void **state)
{
    (void)state;
    declare();
    ExprId s = reduce(RED_SUM, j, bij, NONE), x = num(3);
    PRINTS(s, "sum(j) b[i, j]");
    PRINTS(op(OP_add, op(OP_mul, x, s), x), "3.0 * sum(j) b[i, j] + 3.0");
    PRINTS(op(OP_mul, s, x), "(sum(j) b[i, j]) * 3.0");
    PRINTS(op(OP_mul, op(OP_mul, x, s), x), "3.0 * (sum(j) b[i, j]) * 3.0");
    PRINTS(op(OP_mul, op1(OP_neg, s), x), "-(sum(j) b[i, j]) * 3.0");
    PRINTS(op(OP_mul, x, op1(OP_neg, s)), "3.0 * -sum(j) b[i, j]");
    PRINTS(op(OP_sub, s, s), "sum(j) b[i, j] - sum(j) b[i, j]");
    PRINTS(op(OP_sub, x, op(OP_sub, s, x)), "3.0 - (sum(j) b[i, j] - 3.0)");
    PRINTS(op(OP_gt, s, x), "sum(j) b[i, j] > 3.0");
    PRINTS(reduce(RED_SUM, j, op(OP_mul, bij, x), NONE), "sum(j) b[i, j] * 3.0");
    PRINTS(reduce(RED_SUM, j, op(OP_add, bij, x), NONE), "sum(j) (b[i, j] + 3.0)");
    PRINTS(reduce(RED_MAX, j, bij, op(OP_lt, j, lit(4))), "max(j where j < 4) b[i, j]");
    PRINTS(op1(OP_sqrt, op(OP_div, s, x)), "sqrt((sum(j) b[i, j]) / 3.0)");
    ExprId l = new_index("j", c), bil = load(b, i, l);
    PRINTS(reduce(RED_SUM, l, op(OP_mul, bil, reduce(RED_MAX, j, op(OP_mul, bij, bil), NONE)), NONE),
           "sum(j) b[i, j] * max(j2) b[i, j2] * b[i, j]");
}

/* An index whose uses tell nothing brings its extent; one that clashes takes another name. */
static void bindings(void **state)
{
    (void)state;
    declare();
    ExprId shifted = load(b, op(OP_sub, i, lit(1)), j);
    PRINTS(reduce(RED_SUM, i, shifted, op(OP_ge, i, lit(1))), "sum(i: N where i >= 1) b[i - 1, j]");
    PRINTS(reduce(RED_SUM, i, op(OP_mul, shifted, ai), NONE), "sum(i) b[i - 1, j] * a[i]");
    PRINTS(reduce(RED_SUM, j, lit(1), NONE), "sum(j: C) 1");
    ExprId bad = new_index("a", n), dim = new_index("N", n), two = new_index("x2", n);
    PRINTS(reduce(RED_SUM, bad, load(a, bad, NONE), NONE), "sum(a2) a[a2]");
    PRINTS(reduce(RED_SUM, dim, load(a, dim, NONE), NONE), "sum(N2) a[N2]");
    ExprId x2 = new_index("x2", n);
    PRINTS(reduce(RED_SUM, two, op(OP_mul, load(a, two, NONE), reduce(RED_SUM, x2, load(a, x2, NONE), NONE)),
                  NONE),
           "sum(x2) a[x2] * sum(x3) a[x3]");
    Extent wide = ext_add(m, ext_mul(m, ext_const(m, 2), n.extent), ext_const(m, -1));
    PRINTS(op(OP_lt, i, x_extent(k, nowhere, wide)), "i < 2 * N - 1");
    PRINTS(op(OP_mul, i, x_extent(k, nowhere, wide)), "i * (2 * N - 1)");
    PRINTS(op(OP_sub, i, x_extent(k, nowhere, ext_mul(m, n.extent, c.extent))), "i - N * C");
    PRINTS(op(OP_div, i, x_extent(k, nowhere, ext_mul(m, n.extent, c.extent))), "i / (N * C)");
}

static void route_maps(void **state)
{
    (void)state;
    declare();
    Extent e = new_dim("E");
    Axis rows = new_group("R", e, n.extent, c.extent);
    TensorId o = tensor("o", ROLE_IN, EL_BF16, 1, rows, rows);
    ExprId r = new_index("r", rows), row = x_row(k, nowhere, 0, i, j), g = new_index("g", dense(e));
    PRINTS(load(a, x_token(k, nowhere, 0, r), NONE), "a[rt.token(r)]");
    PRINTS(reduce(RED_SUM, j, load(o, row, NONE), op(OP_ge, row, lit(0))),
           "sum(j where rt.row(i, j) >= 0) o[rt.row(i, j)]");
    PRINTS(reduce(RED_SUM, r, load(o, r, NONE), op(OP_eq, x_group(k, nowhere, 0, r), g)),
           "sum(r where @r == g) o[r]");
    PRINTS(reduce(RED_SUM, r, lit(1), op(OP_eq, x_group(k, nowhere, 0, r), g)), "sum(r: R where @r == g) 1");
    PRINTS(x_group(k, nowhere, 0, row), "@rt.row(i, j)");
    PRINTS(reduce(RED_SUM, r, x_slot(k, nowhere, 0, r), NONE), "sum(r) rt.slot(r)");
}

static void numbers(void **state)
{
    (void)state;
    PRINTS(num(0.00001), "0.00001");
    PRINTS(num(1), "1.0");
    PRINTS(num(-0.5), "-0.5");
    PRINTS(num(1e-20), "1e-20");
    PRINTS(num(1.5e300), "1.5e+300");
    PRINTS(num(123456789), "123456789.0");
    PRINTS(num(0.7978845608028654), "0.7978845608028654");
    const double values[] = {1.0 / 3, 0x1p-1074, 1.7976931348623157e308, 0.1,
                             5e-8,    1e15,      123456.789e10,          (double)0.1f};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        assert_true(strtod(text(num(values[v])), NULL) == values[v]);
    PRINTS(lit(-7), "-7");
    PRINTS(lit(INT64_MIN), "(-9223372036854775807 - 1)");
    PRINTS(op(OP_sub, lit(1), lit(-1)), "1 - -1");
}

static void whole_kernel(void **state)
{
    (void)state;
    declare();
    new_dim("Unused");
    m->dims.at[1] = (Dim){m->dims.at[1].name, nowhere, -1, 64, 16, 256};
    TensorId y = tensor("y", ROLE_OUT, EL_BF16, 1, n, n), s = tensor("s", ROLE_LOCAL, EL_F32, 1, n, n);
    TensorId u = tensor("u", ROLE_LOCAL, EL_F32, 1, n, n);
    ExprId l = new_index("l", n), o = new_index("o", n);
    define(EQ_ASSIGN, s, 1, i, NONE, reduce(RED_SUM, j, bij, NONE));
    define(EQ_ASSIGN, u, 1, o, NONE, o);
    define(EQ_ASSIGN, y, 1, l, NONE, op1(OP_bf16, op(OP_add, load(s, l, NONE), load(u, l, NONE))));
    Text out = {.arena = arena};
    ir_print(m, k, &out);
    assert_string_equal(text_string(&out), "moe 1\n\n"
                                           "dim N\n"
                                           "dim C <= 64 : % 16 prefer 256\n\n"
                                           "kernel kern(in a: f32[N], in b: f32[N, C], out y: bf16[N]) {\n"
                                           "  s[i] = sum(j) b[i, j]\n"
                                           "  u[o: N] = f32(o)\n"
                                           "  y[l] = bf16(s[l] + u[l])\n"
                                           "}\n");
    assert_null(ir_verify(k, arena));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(operators),  TEST(conditions), TEST(reductions),   TEST(bindings),
        TEST(route_maps), TEST(numbers),    TEST(whole_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
