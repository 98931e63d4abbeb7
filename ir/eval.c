/* The reference interpreter: what a kernel means. Sizes and routes are checked, then the equations run in
 * order, one element after another, each access checked. Slow and plain; everything faster is compared with
 * it. */
#include "ir/eval.h"

#include <math.h>
#include <string.h>

enum { MAX_ELEMENTS_LOG2 = 31 };
static const int64_t MAX_ELEMENTS = (int64_t)1 << MAX_ELEMENTS_LOG2;

/* ---- sizes ---- */

static void check_dim(Eval *e, DimId id, int64_t value)
{
    const Dim *d = &e->m->dims.at[id];
    if (value < 0)
        eval_fail(e, "dimension %s is %lld, negative", d->name, (long long)value);
    else if (d->max >= 0 && value > d->max)
        eval_fail(e, "dimension %s is %lld, above its limit %lld", d->name, (long long)value,
                  (long long)d->max);
    else if (d->multiple > 1 && value % d->multiple)
        eval_fail(e, "dimension %s is %lld, not a multiple of %lld", d->name, (long long)value,
                  (long long)d->multiple);
}

static void take_dims(Eval *e, const int64_t *dims)
{
    DimId *passed = arena_array(e->scratch, DimId, e->m->dims.len + 1);
    e->dims = arena_array(e->scratch, int64_t, e->m->dims.len + 1);
    for (DimId d = 0; d < e->m->dims.len; d++)
        e->dims[d] = e->m->dims.at[d].constant >= 0 ? e->m->dims.at[d].constant : dims[d];
    uint32_t n = ir_kernel_dims(e->k, passed);
    for (uint32_t i = 0; i < n; i++)
        check_dim(e, passed[i], dims[passed[i]]);
}

/* ---- tensors ---- */

static void measure(Eval *e, TensorId id)
{
    const Tensor *t = &e->k->tensors.at[id];
    TensorData *d = &e->tensors[id];
    d->size = 1;
    for (uint32_t i = t->rank; i-- > 0;) {
        d->extent[i] = eval_extent(e, t->axes[i].extent);
        d->stride[i] = d->size;
        if (d->extent[i] < 0)
            eval_fail(e, "axis %u of %s has extent %lld", i, t->name, (long long)d->extent[i]);
        else if (__builtin_mul_overflow(d->size, d->extent[i], &d->size) || d->size > MAX_ELEMENTS)
            eval_fail(e, "tensor %s has more than 2^%d elements", t->name, MAX_ELEMENTS_LOG2);
        if (e->error)
            return;
    }
}

static int is_defined(const Kernel *k, TensorId t)
{
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (!q->dead && q->kind != EQ_ROUTE && q->kind != EQ_CHECK &&
            (q->lhs == t || (q->kind == EQ_TOP && q->ids == t)))
            return 1;
    }
    return 0;
}

/* What no equation has written yet is NaN, so that reading it shows. */
static void poison(const Tensor *t, TensorData *d)
{
    for (int64_t i = 0; i < d->size; i++)
        d->at[i] = elem_type(t->elem) == TY_INT ? 0 : NAN;
}

static void make_tensor(Eval *e, TensorId id, double *data)
{
    const Tensor *t = &e->k->tensors.at[id];
    TensorData *d = &e->tensors[id];
    measure(e, id);
    if (e->error)
        return;
    d->at = data ? data : arena_array(e->scratch, double, d->size + 1);
    if (t->role == ROLE_LOCAL || t->role == ROLE_OUT)
        poison(t, d);
    if (e->track && t->role != ROLE_IN)
        d->error = arena_array(e->scratch, double, d->size + 1);
}

/* ---- routes ---- */

static void check_route_size(Eval *e, RouteId id, const char *field, int64_t is, Extent want)
{
    int64_t value = eval_extent(e, want);
    if (is != value)
        eval_fail(e, "route %s has %s %lld, not %lld", e->k->routes.at[id].name, field, (long long)is,
                  (long long)value);
}

static void check_route_sizes(Eval *e, RouteId id)
{
    const Route *r = &e->k->routes.at[id];
    const EvalRoute *d = e->routes[id].route;
    const Group *g = &e->m->groups.at[r->group];
    check_route_size(e, id, "tokens", d->tokens, r->tokens);
    check_route_size(e, id, "choices", d->choices, r->choices);
    check_route_size(e, id, "groups", d->groups, g->groups);
    check_route_size(e, id, "rows", d->rows, g->rows);
    int64_t slots;
    if (__builtin_mul_overflow(d->tokens, d->choices, &slots) || slots > INT32_MAX || d->rows > INT32_MAX)
        eval_fail(e, "route %s has more than 2^31 - 1 rows or choices", r->name);
    if (!d->start || !d->count)
        eval_fail(e, "route %s has no start or count", r->name);
}

static EvalRoute *local_route(Eval *e, RouteId id)
{
    const Route *r = &e->k->routes.at[id];
    const Group *g = &e->m->groups.at[r->group];
    EvalRoute *d = arena_new_of(e->scratch, EvalRoute);
    int64_t slots;
    *d = (EvalRoute){.tokens = eval_extent(e, r->tokens),
                     .choices = eval_extent(e, r->choices),
                     .groups = eval_extent(e, g->groups),
                     .rows = eval_extent(e, g->rows)};
    if (e->error || d->tokens < 0 || d->choices < 0 || d->groups < 0 || d->rows < 0 ||
        __builtin_mul_overflow(d->tokens, d->choices, &slots) || slots > INT32_MAX || d->rows > INT32_MAX ||
        d->groups > INT32_MAX) {
        eval_fail(e, "route %s has sizes that are negative or above 2^31 - 1", r->name);
        return d;
    }
    d->start = arena_array(e->scratch, int64_t, d->groups + 1);
    d->count = arena_array(e->scratch, int64_t, d->groups + 1);
    d->slot_of = arena_array(e->scratch, int32_t, d->rows + 1);
    d->row_of = arena_array(e->scratch, int32_t, slots + 1);
    return d;
}

static void take_route(Eval *e, RouteId id, EvalRoute *given)
{
    const Route *r = &e->k->routes.at[id];
    RouteData *d = &e->routes[id];
    d->route = given;
    if (!given) {
        eval_fail(e, "route %s is missing", r->name);
        return;
    }
    check_route_sizes(e, id);
    if (e->error || r->role != ROLE_IN)
        return;
    const char *fault = eval_route_fault(e, id);
    if (fault)
        eval_fail(e, "route %s: %s", r->name, fault);
    else
        d->group_of = eval_group_of(e, id);
}

/* ---- the run ---- */

static void take_args(Eval *e, EvalArg *args)
{
    const Kernel *k = e->k;
    for (uint32_t i = 0; i < k->params.len && !e->error; i++) {
        Param p = k->params.at[i];
        if (p.kind == PARAM_ROUTE)
            take_route(e, p.id, args[i].route);
        else if (!args[i].data)
            eval_fail(e, "parameter %s is missing", k->tensors.at[p.id].name);
        else
            make_tensor(e, p.id, args[i].data);
    }
    for (TensorId t = 0; t < k->tensors.len && !e->error; t++)
        if (k->tensors.at[t].role == ROLE_LOCAL && is_defined(k, t))
            make_tensor(e, t, NULL);
    for (RouteId r = 0; r < k->routes.len && !e->error; r++)
        if (k->routes.at[r].role == ROLE_LOCAL)
            e->routes[r].route = local_route(e, r);
}

static void give_bounds(const Eval *e, double *const *bounds)
{
    for (uint32_t i = 0; bounds && i < e->k->params.len; i++) {
        Param p = e->k->params.at[i];
        if (p.kind == PARAM_ROUTE || !bounds[i])
            continue;
        const TensorData *d = &e->tensors[p.id];
        size_t bytes = sizeof(double) * (size_t)d->size;
        if (!d->error)
            memset(bounds[i], 0, bytes);
        for (int64_t j = 0; d->error && j < d->size; j++) /* an integer in doubt may be any */
            bounds[i][j] = e->k->tensors.at[p.id].elem == EL_I32 && d->error[j] > 0 ? INFINITY : d->error[j];
    }
}

static void run(Eval *e, const int64_t *dims, EvalArg *args, double *const *bounds)
{
    const Kernel *k = e->k;
    e->tensors = arena_array(e->scratch, TensorData, k->tensors.len + 1);
    e->routes = arena_array(e->scratch, RouteData, k->routes.len + 1);
    e->index = arena_array(e->scratch, int64_t, k->indices.len + 1);
    e->nodes = arena_array(e->scratch, Node *, k->exprs.len + 1);
    e->local = arena_array(e->scratch, uint8_t, k->indices.len + 1);
    e->moving = e->track ? eval_moving(k, e->scratch) : NULL;
    take_dims(e, dims);
    if (!e->error)
        take_args(e, args);
    for (uint32_t i = 0; i < k->eqs.len && !e->error; i++)
        if (!k->eqs.at[i].dead)
            eval_equation(e, &k->eqs.at[i]);
    if (!e->error)
        give_bounds(e, bounds);
}

const char *ir_eval(const Kernel *k, EvalMode mode, const int64_t *dims, EvalArg *args, double *const *bounds,
                    Arena *a)
{
    jmp_buf landing;
    Arena *scratch = arena_new();
    if (!scratch)
        return "not enough memory to interpret the kernel";
    Eval *e = arena_new_of(scratch, Eval);
    *e = (Eval){.k = k,
                .m = k->module,
                .mode = mode,
                .track = bounds && mode == EVAL_REFERENCE,
                .arena = a,
                .scratch = scratch,
                .clock = 1};
    const char *error = NULL;
    arena_set_landing(scratch, &landing);
    if (setjmp(landing) == 0) {
        run(e, dims, args, bounds);
        error = e->error;
    } else {
        error = arena_printf(a, "not enough memory to interpret kernel %s", k->name);
    }
    arena_free(scratch);
    return error;
}
