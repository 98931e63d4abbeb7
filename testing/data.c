/* Random inputs of a kernel, and elements as bytes. */
#include "testing/parts.h"

#include <math.h>

int64_t test_extent_value(const TestCase *c, Extent e)
{
    int64_t value;
    return ext_eval(c->k->module, e, c->dims, &value) && value >= 0 ? value : -1;
}

const Tensor *test_tensor(const Kernel *k, uint32_t param)
{
    Param p = k->params.at[param];
    return p.kind == PARAM_TENSOR ? &k->tensors.at[p.id] : NULL;
}

int64_t test_elements(const TestCase *c, const Tensor *t)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t extent = test_extent_value(c, t->axes[i].extent);
        if (extent < 0 || __builtin_mul_overflow(count, extent, &count))
            return -1;
    }
    return count;
}

/* ---- integers ---- */

/* What the kernel does with an i32 parameter decides which values make sense. */
typedef struct TestRange {
    int64_t lo, end;
    RouteId choices; /* it is what this route is made of */
} TestRange;

static int is_load_of(const Kernel *k, ExprId e, TensorId t)
{
    return e != NONE && x_at(k, e)->kind == X_LOAD && x_at(k, e)->sym == t;
}

static void narrow(TestRange *r, int64_t lo, int64_t end)
{
    r->lo = lo > r->lo ? lo : r->lo;
    r->end = end < r->end ? end : r->end;
}

static void narrow_by_subscript(const TestCase *c, TestRange *r, TensorId t, TensorId base, uint32_t axis,
                                ExprId subscript)
{
    int64_t extent = test_extent_value(c, c->k->tensors.at[base].axes[axis].extent);
    if (is_load_of(c->k, subscript, t))
        narrow(r, 0, extent);
    else if (x_loads(c->k, subscript, t))
        narrow(r, 0, extent / c->shrink);
}

/* id[t] == v, and i < length[b]: a little outside the range of the index is legal, and worth a try. */
static void narrow_by_key(const TestCase *c, TestRange *r, TensorId t, ExprId e)
{
    for (uint32_t side = 0; side < 2; side++) {
        ExprId other = x_arg(c->k, e, 1 - side);
        if (is_load_of(c->k, x_arg(c->k, e, side), t) && x_at(c->k, other)->kind == X_INDEX)
            narrow(r, -1, test_extent_value(c, c->k->indices.at[x_at(c->k, other)->sym].axis.extent) + 1);
    }
}

static void narrow_by_equation(const TestCase *c, TestRange *r, TensorId t, const Equation *q)
{
    if (q->kind == EQ_ROUTE && q->ids == t)
        r->choices = q->route;
    for (uint32_t i = 0; q->lhs != NONE && i < q->nindex; i++)
        narrow_by_subscript(c, r, t, q->lhs, i, q->index[i]);
}

static TestRange range_of(const TestCase *c, TensorId t)
{
    const Kernel *k = c->k;
    TestRange r = {INT32_MIN, INT32_MAX, NONE};
    for (ExprId e = 0; e < k->exprs.len; e++) {
        const Expr *x = x_at(k, e);
        for (uint32_t i = 0; x->kind == X_LOAD && i < x->nargs; i++)
            narrow_by_subscript(c, &r, t, x->sym, i, x_arg(k, e, i));
        if (x->kind == X_OP && scalar_table[x->op].kind == SK_COMPARE)
            narrow_by_key(c, &r, t, e);
    }
    for (uint32_t i = 0; i < k->eqs.len; i++)
        narrow_by_equation(c, &r, t, &k->eqs.at[i]);
    if (r.lo == INT32_MIN)
        r.lo = r.end == INT32_MAX ? -5 : 0;
    if (r.end == INT32_MAX)
        r.end = 6;
    r.end = r.end / c->shrink > r.lo ? r.end / c->shrink : r.lo + 1;
    return r;
}

static void fill_integers(TestCase *c, TensorId t, double *data, int64_t count)
{
    TestRange r = range_of(c, t);
    if (r.choices != NONE) {
        const Route *route = &c->k->routes.at[r.choices];
        test_choices(c, test_extent_value(c, route->tokens), test_extent_value(c, route->choices),
                     test_extent_value(c, c->k->module->groups.at[route->group].groups), data);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        data[i] = (double)(r.lo + random_below(&c->random, r.end - r.lo));
}

/* ---- floats ---- */

void test_random(TestCase *c, const Tensor *t, double *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double value = c->positive ? 0.1 + random_unit(&c->random) : random_normal(&c->random);
        data[i] = c->unrounded ? value : elem_round(t->elem, value);
    }
}

static int row_exists(const EvalRoute *route, int64_t row)
{
    for (int64_t e = 0; e < route->groups; e++)
        if (row >= route->start[e] && row < route->start[e] + route->count[e])
            return 1;
    return 0;
}

/* Rows that do not exist hold NaN: whoever reads one is found out. */
static void spoil_pad_rows(TestCase *c, const Tensor *t, uint32_t axis, const EvalRoute *route, double *data)
{
    int64_t before = 1, rows = test_extent_value(c, t->axes[axis].extent), after = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        *(i < axis ? &before : &after) *= i == axis ? 1 : test_extent_value(c, t->axes[i].extent);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t b = 0; b < before && !row_exists(route, row); b++)
            for (int64_t a = 0; a < after; a++)
                data[(b * rows + row) * after + a] = t->elem == EL_I32 ? INT32_MIN : (double)NAN;
}

static const EvalRoute *given_route(const TestCase *c, GroupId g)
{
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        Param p = c->k->params.at[i];
        const Route *r = p.kind == PARAM_ROUTE ? &c->k->routes.at[p.id] : NULL;
        if (r && r->group == g && r->role == ROLE_IN)
            return &c->values[i].route;
    }
    return NULL;
}

static void fill_tensor(TestCase *c, uint32_t param)
{
    const Tensor *t = test_tensor(c->k, param);
    TestValue *v = &c->values[param];
    if (t->role == ROLE_OUT) {
        for (int64_t i = 0; i < v->count; i++)
            v->data[i] = t->elem == EL_I32 ? -1 : (double)NAN;
        return;
    }
    if (t->elem == EL_I32)
        fill_integers(c, c->k->params.at[param].id, v->data, v->count);
    else
        test_random(c, t, v->data, v->count);
    for (uint32_t axis = 0; axis < t->rank; axis++) {
        const EvalRoute *route = t->axes[axis].group == NONE ? NULL : given_route(c, t->axes[axis].group);
        if (route)
            spoil_pad_rows(c, t, axis, route, v->data);
    }
}

enum { ELEMENTS_MAX = 1 << 26 }; /* of a parameter: 512 MiB as doubles */

/* count: -1 where it is no number of 64 bits. */
static const char *too_many(const TestCase *c, const char *name, int64_t count)
{
    const Module *m = c->k->module;
    Text out = {.arena = c->arena};
    DimId *dims = arena_array(c->arena, DimId, m->dims.len + 1);
    uint32_t n = ir_kernel_dims(c->k, dims);
    if (count < 0)
        text_add(&out, "%s has too many elements", name);
    else
        text_add(&out, "%s has %lld elements", name, (long long)count);
    for (uint32_t d = 0; d < n; d++)
        text_add(&out, "%s%s=%lld", d ? " " : " at ", m->dims.at[dims[d]].name, (long long)c->dims[dims[d]]);
    text_add(&out, "; random data is made for at most %d of a parameter", ELEMENTS_MAX);
    return text_string(&out);
}

const char *test_fill(TestCase *c)
{
    const Kernel *k = c->k;
    c->values = arena_array(c->arena, TestValue, k->params.len + 1);
    for (uint32_t i = 0; i < k->params.len; i++) {
        const Tensor *t = test_tensor(k, i);
        const Route *r = t ? NULL : &k->routes.at[k->params.at[i].id];
        if (c->given && (c->given[i].data || c->given[i].route.start)) {
            c->values[i] = c->given[i];
            continue;
        }
        if (r)
            c->values[i].route = r->role == ROLE_IN ? test_route(c, r) : test_route_room(c, r);
        c->values[i].count = t ? test_elements(c, t) : c->values[i].route.rows;
        if (c->values[i].count < 0 || c->values[i].count > ELEMENTS_MAX)
            return too_many(c, t ? t->name : r->name, c->values[i].count);
        if (t)
            c->values[i].data = arena_array(c->arena, double, c->values[i].count + 1);
    }
    for (uint32_t i = 0; i < k->params.len; i++)
        if (test_tensor(k, i) && !(c->given && c->given[i].data))
            fill_tensor(c, i);
    return NULL;
}
