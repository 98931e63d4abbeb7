/* Proofs about subscripts (ir/range.c). */
#include "ir/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static Module *m;
static Kernel *k;
static DimId dim_h, dim_d, dim_n, dim_k;
static IndexId h, d, i, j;

static const Loc nowhere;

static DimId new_dim(const char *name, int64_t max, int64_t multiple)
{
    vec_push(m->arena, &m->dims, (Dim){name_of(m->names, name), nowhere, -1, max, multiple, 1});
    return m->dims.len - 1;
}

static Axis dense(Extent e) { return (Axis){e, NONE}; }
static Extent dim(DimId which) { return ext_dim(m, which); }
static Extent num(int64_t v) { return ext_const(m, v); }

static IndexId new_index(const char *name, Axis axis)
{
    return ir_index(k, name_of(m->names, name), nowhere, axis);
}

static int setup(void **state)
{
    (void)state;
    Arena *a = arena_new();
    m = ir_module(a, NULL, "test");
    k = ir_kernel(m, name_of(m->names, "k"), nowhere);
    dim_h = new_dim("H", -1, 1);
    dim_d = new_dim("D", -1, 1);
    dim_n = new_dim("N", -1, 1);
    dim_k = new_dim("K", 64, 16);
    h = new_index("h", dense(dim(dim_h)));
    d = new_index("d", dense(dim(dim_d)));
    i = new_index("i", dense(dim(dim_n)));
    j = new_index("j", dense(dim(dim_n)));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(m->arena);
    return 0;
}

static ExprId at(IndexId index) { return x_index(k, nowhere, index); }
static ExprId lit(int64_t v) { return x_int(k, nowhere, v); }
static ExprId op(ScalarOp o, ExprId a, ExprId b) { return x_op2(k, nowhere, o, a, b); }
static ExprId ext(DimId which) { return x_extent(k, nowhere, dim(which)); }
static ExprId both(ExprId a, ExprId b) { return op(OP_and, a, b); }

#define PROVES(result, e, axis, guard) \
    assert_int_equal(ir_prove_range(k, (e), (axis), (guard)), PROOF_##result)

static void own_axis(void **state)
{
    (void)state;
    PROVES(INSIDE, at(i), dense(dim(dim_n)), NONE);
    PROVES(UNKNOWN, at(i), dense(dim(dim_h)), NONE);
    PROVES(INSIDE, at(i), dense(ext_add(m, dim(dim_n), num(1))), NONE);
    PROVES(UNKNOWN, op(OP_sub, at(i), lit(1)), dense(dim(dim_n)), NONE);
    PROVES(UNKNOWN, op(OP_add, at(i), lit(1)), dense(dim(dim_n)), NONE);
    PROVES(INSIDE, op(OP_add, at(i), lit(1)), dense(ext_add(m, dim(dim_n), num(1))), NONE);
    PROVES(INSIDE, op(OP_sub, op(OP_sub, ext(dim_n), at(i)), lit(1)), dense(dim(dim_n)), NONE); /* reversed */
}

static void products(void **state)
{
    (void)state;
    Extent hd = ext_mul(m, dim(dim_h), dim(dim_d));
    ExprId hd_d = op(OP_add, op(OP_mul, at(h), ext(dim_d)), at(d));
    PROVES(INSIDE, hd_d, dense(hd), NONE);
    PROVES(UNKNOWN, op(OP_add, hd_d, lit(1)), dense(hd), NONE);
    PROVES(UNKNOWN, op(OP_add, op(OP_mul, at(h), ext(dim_h)), at(d)), dense(hd), NONE);
    ExprId two_i = op(OP_add, op(OP_mul, lit(2), at(i)), lit(1)); /* 2*i + 1 in 2*N */
    PROVES(INSIDE, two_i, dense(ext_mul(m, num(2), dim(dim_n))), NONE);
    PROVES(UNKNOWN, two_i, dense(ext_sub(m, ext_mul(m, num(2), dim(dim_n)), num(1))), NONE);
    /* a valid convolution: 2*i + j in 2*N + N for j < N */
    PROVES(INSIDE, op(OP_add, op(OP_mul, lit(2), at(i)), at(j)), dense(ext_mul(m, num(3), dim(dim_n))), NONE);
}

static void guards(void **state)
{
    (void)state;
    Axis n = dense(dim(dim_n));
    ExprId before = op(OP_sub, at(i), lit(1)), after = op(OP_add, at(i), lit(1));
    PROVES(INSIDE, before, n, op(OP_ge, at(i), lit(1)));
    PROVES(INSIDE, before, n, op(OP_gt, at(i), lit(0)));
    PROVES(INSIDE, before, n, op(OP_lt, lit(0), at(i)));
    PROVES(INSIDE, before, n, op(OP_ne, at(i), lit(0)));
    PROVES(INSIDE, before, n, x_op1(k, nowhere, OP_not, op(OP_eq, at(i), lit(0))));
    PROVES(UNKNOWN, before, n, op(OP_ge, at(i), lit(0)));
    PROVES(UNKNOWN, before, n, op(OP_or, op(OP_ge, at(i), lit(1)), op(OP_eq, at(j), lit(0))));
    PROVES(INSIDE, after, n, op(OP_lt, after, ext(dim_n)));
    PROVES(INSIDE, after, n, op(OP_lt, at(i), op(OP_sub, ext(dim_n), lit(1))));
    PROVES(UNKNOWN, after, n, op(OP_le, after, ext(dim_n)));
    PROVES(INSIDE, after, n, op(OP_lt, at(i), at(j))); /* i + 1 <= j */
    ExprId diff = op(OP_sub, at(j), at(i));
    PROVES(INSIDE, diff, n, both(op(OP_ge, diff, lit(0)), op(OP_lt, diff, ext(dim_n))));
    PROVES(INSIDE, diff, n, op(OP_le, at(i), at(j)));
    PROVES(UNKNOWN, diff, n, op(OP_ge, at(i), at(j)));
    PROVES(INSIDE, diff, dense(dim(dim_d)), both(op(OP_ge, diff, lit(0)), op(OP_lt, diff, ext(dim_d))));
    PROVES(UNKNOWN, diff, dense(dim(dim_d)), op(OP_lt, diff, ext(dim_d)));
    PROVES(INSIDE, diff, n, op(OP_eq, diff, at(i)));
}

static void choices(void **state)
{
    (void)state;
    Axis n = dense(dim(dim_n));
    ExprId before = op(OP_sub, at(i), lit(1)), after = op(OP_add, at(i), lit(1));
    PROVES(INSIDE, op(OP_max2, before, lit(0)), n, NONE);
    PROVES(UNKNOWN, op(OP_max2, after, lit(0)), n, NONE);
    PROVES(INSIDE, op(OP_min2, after, op(OP_sub, ext(dim_n), lit(1))), n, NONE);
    PROVES(UNKNOWN, op(OP_min2, before, op(OP_sub, ext(dim_n), lit(1))), n, NONE);
    PROVES(INSIDE, x_if(k, nowhere, op(OP_gt, at(i), lit(0)), before, at(i)), n, NONE);
    PROVES(UNKNOWN, x_if(k, nowhere, op(OP_gt, at(i), lit(0)), at(i), before), n, NONE);
    PROVES(INSIDE, x_if(k, nowhere, op(OP_eq, at(i), lit(0)), at(i), before), n, NONE);
}

static void constants(void **state)
{
    (void)state;
    PROVES(INSIDE, lit(2), dense(num(3)), NONE);
    PROVES(OUTSIDE, lit(3), dense(num(3)), NONE);
    PROVES(OUTSIDE, lit(-1), dense(dim(dim_n)), NONE);
    PROVES(OUTSIDE, ext(dim_n), dense(dim(dim_n)), NONE);
    PROVES(OUTSIDE, op(OP_add, at(i), ext(dim_n)), dense(dim(dim_n)), NONE);
    PROVES(OUTSIDE, lit(64), dense(dim(dim_k)), NONE); /* K <= 64 */
    PROVES(UNKNOWN, lit(63), dense(dim(dim_k)), NONE);
    PROVES(UNKNOWN, lit(0), dense(dim(dim_n)), NONE);
    PROVES(INSIDE, lit(0), dense(dim(dim_n)), op(OP_ge, at(i), lit(0))); /* an i exists */
    PROVES(INSIDE, ext(dim_k), dense(num(65)), NONE);
    IndexId kk = new_index("kk", dense(dim(dim_k)));
    PROVES(INSIDE, lit(15), dense(dim(dim_k)), op(OP_ge, at(kk), lit(0))); /* K % 16 and not empty */
    PROVES(UNKNOWN, lit(16), dense(dim(dim_k)), op(OP_ge, at(kk), lit(0)));
    PROVES(INSIDE, at(kk), dense(num(64)), NONE);
    PROVES(UNKNOWN, at(kk), dense(num(63)), NONE);
}

static void data(void **state)
{
    (void)state;
    TensorId id = ir_tensor(k, (Tensor){.name = name_of(m->names, "id"),
                                        .elem = EL_I32,
                                        .rank = 1,
                                        .axes = {dense(dim(dim_n))},
                                        .route = NONE});
    ExprId sub = at(i), load = x_load(k, nowhere, id, &sub);
    Axis v = dense(dim(dim_h));
    ExprId low = op(OP_ge, load, lit(0)), high = op(OP_lt, load, ext(dim_h));
    PROVES(UNKNOWN, load, v, NONE);
    PROVES(UNKNOWN, load, v, low);
    PROVES(UNKNOWN, load, v, high);
    PROVES(INSIDE, load, v, both(low, high));
    PROVES(INSIDE, load, v, op(OP_eq, load, at(h)));
    sub = at(j);
    ExprId other = x_load(k, nowhere, id, &sub);
    PROVES(UNKNOWN, other, v, both(low, high));
}

static void routes(void **state)
{
    (void)state;
    Extent rows = ext_mul(m, dim(dim_n), dim(dim_k));
    vec_push(m->arena, &m->groups,
             (Group){name_of(m->names, "R"), nowhere, dim(dim_h), GROUP_ROWS, rows, rows});
    vec_push(m->arena, &k->routes,
             (Route){name_of(m->names, "rt"), nowhere, ROLE_IN, dim(dim_n), dim(dim_k), 0});
    Axis row_axis = {rows, 0};
    IndexId r = new_index("r", row_axis), kk = new_index("kk", dense(dim(dim_k)));
    PROVES(INSIDE, at(r), row_axis, NONE);
    PROVES(INSIDE, x_token(k, nowhere, 0, at(r)), dense(dim(dim_n)), NONE);
    PROVES(INSIDE, x_slot(k, nowhere, 0, at(r)), dense(dim(dim_k)), NONE);
    PROVES(INSIDE, x_group(k, nowhere, 0, at(r)), dense(dim(dim_h)), NONE);
    PROVES(UNKNOWN, x_token(k, nowhere, 0, at(r)), dense(dim(dim_d)), NONE);
    ExprId row = x_row(k, nowhere, 0, at(i), at(kk));
    PROVES(UNKNOWN, row, row_axis, NONE);
    PROVES(INSIDE, row, row_axis, op(OP_ge, row, lit(0)));
    PROVES(INSIDE, row, row_axis, op(OP_eq, row, at(r)));
    PROVES(UNKNOWN, at(i), row_axis, NONE);
    PROVES(UNKNOWN, op(OP_add, at(r), lit(0)), row_axis, NONE);
    PROVES(INSIDE, at(r), dense(rows), NONE);
}

static void huge(void **state)
{
    (void)state;
    ExprId big = lit(INT64_MAX), sum = op(OP_sub, op(OP_sub, at(i), big), big);
    PROVES(UNKNOWN, op(OP_add, op(OP_add, sum, big), big), dense(dim(dim_n)), NONE);
    uint32_t before = m->extents.len;
    PROVES(UNKNOWN, op(OP_mul, lit(INT64_MAX / 3), op(OP_mul, at(i), lit(1000))), dense(dim(dim_n)), NONE);
    assert_int_equal(m->extents.len, before);
}

/* i doubled sixty times over, each step used twice: 2^60 nodes as a tree. */
static void shared_steps(void **state)
{
    (void)state;
    ExprId e = at(i);
    for (int step = 0; step < 60; step++)
        e = op(OP_sub, op(OP_add, e, e), e);
    PROVES(UNKNOWN, e, dense(dim(dim_n)), NONE);
    assert_int_equal(ir_prove_range(k, e, dense(dim(dim_n)), op(OP_ge, e, lit(0))), PROOF_UNKNOWN);
}

/* Thirty conditions that lead nowhere: a search that ends, and that leaves no memory and no extents behind. */
static void many_facts(void **state)
{
    (void)state;
    ExprId guard = op(OP_ge, at(i), lit(1)), e = op(OP_sub, at(i), op(OP_mul, lit(2), at(j)));
    for (int64_t n = 1; n <= 29; n++)
        guard = both(
            guard, op(OP_ge, op(OP_add, op(OP_mul, lit(n), at(i)), op(OP_mul, lit(30 - n), at(j))), lit(n)));
    size_t bytes = arena_bytes(m->arena);
    uint32_t extents = m->extents.len;
    PROVES(UNKNOWN, e, dense(dim(dim_n)), guard);
    PROVES(INSIDE, op(OP_sub, at(i), lit(1)), dense(dim(dim_n)), guard);
    assert_false(ir_prove_at_least(k, e, at(i), 0, guard));
    assert_int_equal(arena_bytes(m->arena), bytes);
    assert_int_equal(m->extents.len, extents);
    Extent fresh = ext_add(m, dim(dim_h), num(77)); /* the table of extents is as it was */
    assert_int_equal(ext_add(m, num(77), dim(dim_h)), fresh);
    assert_int_equal(fresh, extents + 1);
}

/* The product of twenty dimensions, each at least 1, has a million terms once it is written in what is above 1. */
static void many_factors(void **state)
{
    (void)state;
    Extent product = num(1);
    for (int n = 0; n < 20; n++)
        product = ext_mul(m, product, dim(new_dim("D", -1, 1)));
    IndexId p = new_index("p", dense(product));
    PROVES(UNKNOWN, op(OP_sub, at(p), lit(1)), dense(product), NONE);
    PROVES(UNKNOWN, op(OP_add, at(p), lit(1)), dense(product), NONE);
}

static void affine(void **state)
{
    (void)state;
    Affine f;
    assert_true(x_affine(k, op(OP_sub, op(OP_add, op(OP_mul, at(h), ext(dim_d)), at(d)), lit(3)), &f));
    assert_int_equal(f.n, 2);
    assert_int_equal(f.index[0], h);
    assert_int_equal(f.coef[0], dim(dim_d));
    assert_int_equal(f.index[1], d);
    assert_int_equal(f.coef[1], num(1));
    assert_int_equal(f.constant, num(-3));
    assert_true(x_affine(k, op(OP_sub, at(i), at(i)), &f));
    assert_int_equal(f.n, 0);
    assert_false(x_affine(k, op(OP_mul, at(i), at(j)), &f));
    assert_false(x_affine(k, op(OP_max2, at(i), at(j)), &f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        TEST(own_axis),  TEST(products),     TEST(guards),     TEST(choices),
        TEST(constants), TEST(data),         TEST(routes),     TEST(huge),
        TEST(affine),    TEST(shared_steps), TEST(many_facts), TEST(many_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
