/* The verifier: a good kernel passes; each broken invariant is found and named. */
#include "tests/unit/ir_fixture.h"

#include <string.h>

static Axis n, c;
static TensorId a, id, y;
static ExprId i, j, ai;

static void declare(void)
{
    n = dense(new_dim("N"));
    c = dense(new_dim("C"));
    a = tensor("a", ROLE_IN, EL_F32, 1, n, n);
    id = tensor("id", ROLE_IN, EL_I32, 1, n, n);
    y = tensor("y", ROLE_OUT, EL_F32, 1, n, n);
    i = new_index("i", n);
    j = new_index("j", c);
    ai = load(a, i, NONE);
}

static void finds(const char *what)
{
    const char *fault = ir_verify(k, arena);
    assert_non_null(fault);
    if (!strstr(fault, what))
        fail_msg("\"%s\" does not say \"%s\"", fault, what);
}

static void good(void **state)
{
    (void)state;
    declare();
    define(EQ_ASSIGN, y, 1, i, NONE, op(OP_add, ai, load(a, load(id, i, NONE), NONE)));
    assert_null(ir_verify(k, arena));
    k->eqs.at[0].dead = 1;
    finds("y is not fully written");
}

static void indices(void **state)
{
    (void)state;
    declare();
    define(EQ_ASSIGN, y, 1, i, NONE, op(OP_add, ai, j));
    finds("index j is not bound here");
    k->eqs.at[0].rhs = reduce(RED_SUM, i, ai, NONE);
    finds("a reduction binds i, which the left side binds");
    k->eqs.at[0].rhs = reduce(RED_SUM, j, op(OP_mul, reduce(RED_SUM, j, j, NONE), ai), NONE);
    finds("a reduction binds j, which is bound in it already");
    k->eqs.at[0].rhs = load(a, j, NONE);
    finds("index j and the axis of a differ in extent");
    k->eqs.at[0].rhs = load(a, ai, NONE);
    finds("a subscript of a is of type f32");
    k->eqs.at[0].rhs = ai;
    k->eqs.at[0].index[0] = op(OP_add, i, lit(0));
    finds("neither an index nor a constant");
}

static void types(void **state)
{
    (void)state;
    declare();
    define(EQ_ASSIGN, y, 1, i, NONE, op(OP_add, ai, ai));
    k->exprs.at[k->eqs.at[0].rhs].type = TY_BF16;
    finds("add has type bf16, not f32");
    k->eqs.at[0].rhs = op(OP_lt, ai, ai);
    finds("a value of type condition is stored to y");
    k->eqs.at[0].rhs = op1(OP_exp, op(OP_lt, ai, ai));
    finds("exp on a value of type condition");
    k->eqs.at[0].rhs = x_if(k, nowhere, ai, ai, ai);
    finds("the condition of an if has type f32");
    k->eqs.at[0].rhs = op1(OP_not, ai);
    finds("not on a value of type f32");
    k->tensors.at[y].elem = EL_BF16;
    k->eqs.at[0].rhs = ai;
    finds("a value of type f32 is stored to y, which is bf16");
    k->tensors.at[y].elem = EL_F32;
    k->eqs.at[0].rhs = op(OP_idiv, i, ai);
    finds("idiv on a value of type f32");
}

static void definitions(void **state)
{
    (void)state;
    declare();
    TensorId s = tensor("s", ROLE_LOCAL, EL_F32, 1, n, n);
    define(EQ_ASSIGN, y, 1, i, NONE, load(s, i, NONE));
    finds("s is read before its definition");
    k->eqs.at[0].rhs = load(y, i, NONE);
    finds("y is read before its definition");
    k->eqs.at[0].rhs = ai;
    define(EQ_ASSIGN, y, 1, i, NONE, ai);
    finds("y is written twice");
    k->eqs.at[1].lhs = a;
    finds("in parameter a is written");
    k->eqs.at[1].lhs = s;
    k->eqs.at[1].kind = EQ_ADD;
    finds("+= on s, which is not inout");
    k->eqs.at[1].lhs = 99;
    finds("an equation defines no tensor");
}

static void slices(void **state)
{
    (void)state;
    declare();
    TensorId z = tensor("z", ROLE_OUT, EL_F32, 2, n, dense(ext_const(m, 2)));
    define(EQ_ASSIGN, y, 1, i, NONE, ai);
    define(EQ_ASSIGN, z, 2, i, lit(0), ai);
    finds("z is not fully written");
    define(EQ_ASSIGN, z, 2, i, lit(1), ai);
    assert_null(ir_verify(k, arena));
    k->eqs.at[2].index[1] = lit(0);
    finds("z is written twice");
    k->eqs.at[2].index[1] = lit(2);
    finds("constant subscript 2 of z is outside");
}

static void inout(void **state)
{
    (void)state;
    declare();
    k->tensors.at[y].role = ROLE_INOUT;
    define(EQ_ASSIGN, y, 1, i, NONE, op(OP_add, ai, load(y, i, NONE)));
    assert_null(ir_verify(k, arena));
    k->eqs.at[0].rhs = load(y, lit(0), NONE);
    finds("another element of y is read while it is written");
    k->eqs.at[0].kind = EQ_ADD;
    k->eqs.at[0].rhs = ai;
    k->eqs.at[0].index[0] = load(id, i, NONE);
    assert_null(ir_verify(k, arena));
}

static void groups(void **state)
{
    (void)state;
    declare();
    Extent e = new_dim("E");
    Axis rows = new_group("R", e, n.extent, c.extent);
    TensorId o = tensor("o", ROLE_OUT, EL_F32, 1, rows, rows);
    ExprId r = new_index("r", rows), flat = new_index("q", dense(rows.extent));
    define(EQ_ASSIGN, y, 1, i, NONE, ai);
    define(EQ_ASSIGN, o, 1, r, NONE, load(a, x_token(k, nowhere, 0, r), NONE));
    assert_null(ir_verify(k, arena));
    k->eqs.at[1].index[0] = flat;
    k->eqs.at[1].rhs = num(1);
    finds("index q and the axis of o are of different row spaces");
    k->eqs.at[1].index[0] = r;
    k->eqs.at[1].rhs = load(a, x_token(k, nowhere, 0, flat), NONE);
    finds("different row spaces");
    k->eqs.at[1].rhs = load(a, x_row(k, nowhere, 0, lit(0), j), NONE);
    finds("index j is not bound here");
    k->routes.at[0].role = ROLE_LOCAL;
    k->params.len = 3;
    k->eqs.at[1].rhs = num(1);
    finds("index r is over the rows of rt before it is defined");
    k->routes.at[0].group = 7;
    finds("a route is not whole");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(good), TEST(indices), TEST(types), TEST(definitions), TEST(slices), TEST(inout), TEST(groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
