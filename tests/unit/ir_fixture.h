/* A module with one empty kernel, and short names for building it by hand. One set for each test program. */
#ifndef TESTS_IR_FIXTURE_H
#define TESTS_IR_FIXTURE_H

#include "ir/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define MAYBE __attribute__((unused))

static const Loc nowhere;
static Arena *arena;
static Module *m;
static Kernel *k;

static int setup(void **state)
{
    (void)state;
    arena = arena_new();
    m = ir_module(arena, NULL, "test");
    k = ir_kernel(m, name_of(m->names, "kern"), nowhere);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

MAYBE static Extent new_dim(const char *name)
{
    vec_push(arena, &m->dims, (Dim){name_of(m->names, name), nowhere, -1, -1, 1, 1});
    return ext_dim(m, m->dims.len - 1);
}

MAYBE static Axis dense(Extent e) { return (Axis){e, NONE}; }

/* A group over e runs with at most `rows` rows, and its route parameter rt[t, c -> group]. */
MAYBE static Axis new_group(const char *name, Extent e, Extent t, Extent c)
{
    Extent rows = ext_mul(m, t, c);
    GroupId g = m->groups.len;
    Param p = {PARAM_ROUTE, k->routes.len};
    vec_push(arena, &m->groups, (Group){name_of(m->names, name), nowhere, e, GROUP_ROWS, rows, rows});
    vec_push(arena, &k->routes, (Route){name_of(m->names, "rt"), nowhere, ROLE_IN, t, c, g});
    vec_push(arena, &k->params, p);
    return (Axis){rows, g};
}

/* A tensor; a parameter unless it is a local. Axes beyond the rank are ignored. */
MAYBE static TensorId tensor(const char *name, Role role, Elem elem, uint8_t rank, Axis a, Axis b)
{
    TensorId t = ir_tensor(k, (Tensor){.name = name_of(m->names, name),
                                       .elem = elem,
                                       .role = role,
                                       .rank = rank,
                                       .axes = {a, b},
                                       .route = NONE});
    if (role != ROLE_LOCAL) {
        Param p = {PARAM_TENSOR, t};
        vec_push(arena, &k->params, p);
    }
    return t;
}

MAYBE static ExprId new_index(const char *name, Axis axis)
{
    return x_index(k, nowhere, ir_index(k, name_of(m->names, name), nowhere, axis));
}

MAYBE static ExprId load(TensorId t, ExprId a, ExprId b) { return x_load(k, nowhere, t, (ExprId[]){a, b}); }
MAYBE static ExprId op(ScalarOp o, ExprId a, ExprId b) { return x_op2(k, nowhere, o, a, b); }
MAYBE static ExprId op1(ScalarOp o, ExprId a) { return x_op1(k, nowhere, o, a); }
MAYBE static ExprId lit(int64_t v) { return x_int(k, nowhere, v); }
MAYBE static ExprId num(double v) { return x_float(k, nowhere, v); }

MAYBE static ExprId reduce(ReduceKind kind, ExprId index, ExprId body, ExprId condition)
{
    IndexId i = x_at(k, index)->sym;
    return x_reduce(k, nowhere, kind, &i, 1, body, condition);
}

MAYBE static void define(EqKind kind, TensorId t, uint8_t n, ExprId a, ExprId b, ExprId value)
{
    Equation q = ir_equation(kind, nowhere);
    q.lhs = t;
    q.nindex = n;
    q.index[0] = a;
    q.index[1] = b;
    q.rhs = value;
    vec_push(arena, &k->eqs, q);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

#endif
