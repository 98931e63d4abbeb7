/* dce: drops equations that define what nothing reads.
 *
 * This file is written to be copied for a new pass:
 *   1. copy it to passes/NAME.c, rename the functions, keep the order: rules, walk, pass;
 *   2. add a row to passes/passes.def: PASS(NAME, level, needs, gives, breaks, doc);
 *   3. add PASS_NAME to the order in driver/pipeline.c;
 *   4. add tests/golden/NAME.moe, which shows a kernel before and after; results are compared by tests/differential/.
 * A pass works on each kernel alone, changes equations in place, marks the ones it drops `dead` and lets
 * ir_compact() remove them. It reports nothing to the user: what it meets has been checked. */
#include "passes/passes.h"

/* What an equation that stays needs of the ones before it. */
typedef struct Live {
    const Kernel *k;
    const uint8_t *given; /* NULL, or by TensorId: need not be computed */
    uint8_t *tensors;     /* by TensorId: something that stays reads it */
    uint8_t *routes;      /* by RouteId */
} Live;

/* The rows of a group are those of its route, so whoever runs over rows needs the route. */
static void need_axis(Live *l, Axis axis)
{
    RouteId r = axis.group == NONE ? (RouteId)NONE : ir_group_route(l->k, axis.group);
    if (r != NONE)
        l->routes[r] = 1;
}

static void need_expr(Live *l, ExprId root)
{
    if (root == NONE)
        return;
    each_below (e, l->k, root, EVERYWHERE) {
        const Expr *x = x_at(l->k, *e);
        if (x->kind == X_LOAD)
            l->tensors[x->sym] = 1;
        else if (x->kind == X_INDEX)
            need_axis(l, l->k->indices.at[x->sym].axis);
        else if (x->kind == X_TOKEN || x->kind == X_SLOT || x->kind == X_ROW || x->kind == X_GROUP)
            l->routes[x->sym] = 1;
        for (uint32_t b = 0; b < x->nbound; b++)
            need_axis(l, l->k->indices.at[x_bound(l->k, *e, b)].axis);
    }
}

static void need_equation(Live *l, const Equation *q)
{
    for (uint32_t i = 0; i < q->nindex; i++)
        need_expr(l, q->index[i]);
    need_expr(l, q->rhs);
    need_expr(l, q->guard);
    if (q->kind == EQ_ROUTE)
        l->tensors[q->ids] = 1;
}

static int tensor_stays(const Live *l, TensorId t)
{
    return l->k->tensors.at[t].role != ROLE_LOCAL || (l->tensors[t] && !(l->given && l->given[t]));
}

/* Parameters stay, and so do checks: they are effects, an error that the caller would see. */
static int equation_stays(const Live *l, const Equation *q)
{
    if (q->dead)
        return 0;
    switch (q->kind) {
    case EQ_ASSIGN:
    case EQ_ADD: return tensor_stays(l, q->lhs);
    case EQ_TOP: return tensor_stays(l, q->lhs) || tensor_stays(l, q->ids);
    case EQ_ROUTE: return l->k->routes.at[q->route].role != ROLE_LOCAL || l->routes[q->route];
    case EQ_CHECK: return 1;
    }
    BUG(l->k->module->arena, "dce: equation kind %d", (int)q->kind);
}

/* A parameter over rows needs its route even where nothing runs over them: a kernel has the routes of its
 * groups. */
static void need_params(Live *l)
{
    const Kernel *k = l->k;
    for (uint32_t i = 0; i < k->params.len; i++)
        for (uint32_t a = 0;
             k->params.at[i].kind == PARAM_TENSOR && a < k->tensors.at[k->params.at[i].id].rank; a++)
            need_axis(l, k->tensors.at[k->params.at[i].id].axes[a]);
}

/* Backwards: when an equation is met, everything that may read it has been seen. */
LiveEquations dce_live(const Kernel *k, const uint8_t *given)
{
    Arena *a = k->module->arena;
    Live l = {k, given, arena_array(a, uint8_t, k->tensors.len + 1),
              arena_array(a, uint8_t, k->routes.len + 1)};
    LiveEquations out = {arena_array(a, uint8_t, k->eqs.len + 1), l.tensors};
    need_params(&l);
    for (uint32_t i = k->eqs.len; i-- > 0;) {
        out.equations[i] = (uint8_t)equation_stays(&l, &k->eqs.at[i]);
        if (out.equations[i])
            need_equation(&l, &k->eqs.at[i]);
    }
    return out;
}

void dce_kernel(Kernel *k)
{
    LiveEquations live = dce_live(k, NULL);
    for (uint32_t i = 0; i < k->eqs.len; i++)
        k->eqs.at[i].dead |= !live.equations[i];
    ir_compact(k);
}

/* Before:  a[t] = exp(x[t])      After:  y[t] = x[t] * 2
 *          y[t] = x[t] * 2
 * Requires nothing, gives nothing, breaks nothing. */
void pass_dce(Module *m, const PassContext *c)
{
    (void)c;
    for (uint32_t i = 0; i < m->kernels.len; i++)
        dce_kernel(m->kernels.at[i]);
}
