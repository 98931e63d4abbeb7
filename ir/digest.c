/* The digest of a module: every fact of the equation level once, in time and length that grow with the nodes and not
 * with the text (which writes a shared part out at each use). What names cached content is a hash of it. */
#include "ir/ir.h"

#include <inttypes.h>

typedef struct Digest {
    const Kernel *k;
    Text *out;
    uint32_t *number; /* by ExprId: 1 + place in the digest */
    uint32_t n;
} Digest;

static void put_extent(const Module *m, Extent e, Text *out)
{
    text_add(out, " ");
    ext_print(m, e, out);
}

static void put_node(Digest *d, ExprId e)
{
    const Expr *x = x_at(d->k, e);
    text_add(d->out, "%d %d %d %" PRIx64, x->kind, x->type, x->op, (uint64_t)x->value.i);
    if (x->kind == X_EXTENT)
        put_extent(d->k->module, x->sym, d->out);
    else
        text_add(d->out, " %u", x->sym);
    for (uint32_t i = 0; i < x->nargs; i++)
        text_add(d->out, " %u", d->number[x_arg(d->k, e, i)]);
    for (uint32_t i = 0; i < x->nbound; i++)
        text_add(d->out, " i%u", x_bound(d->k, e, i));
    text_add(d->out, "\n");
    d->number[e] = ++d->n;
}

static uint32_t put_expr(Digest *d, ExprId e)
{
    if (e == NONE)
        return 0;
    each_below (n, d->k, e, EVERYWHERE)
        if (!d->number[*n])
            put_node(d, *n);
    return d->number[e];
}

static void put_equation(Digest *d, const Equation *q)
{
    uint32_t index[MAX_RANK], rhs = put_expr(d, q->rhs), guard = put_expr(d, q->guard);
    for (uint32_t i = 0; i < q->nindex; i++)
        index[i] = put_expr(d, q->index[i]);
    text_add(d->out, "= %d %u %u %u %u %u %u %u", (int)q->kind, q->lhs, rhs, guard, q->ids, q->bound,
             q->route, q->axis);
    for (uint32_t i = 0; i < q->nindex; i++)
        text_add(d->out, " %u", index[i]);
    text_add(d->out, "\n");
}

static void put_axis(const Module *m, Axis a, Text *out)
{
    put_extent(m, a.extent, out);
    text_add(out, " %u", a.group);
}

static void put_kernel(const Kernel *k, Text *out)
{
    const Module *m = k->module;
    Digest d = {.k = k, .out = out, .number = arena_array(m->arena, uint32_t, k->exprs.len + 1)};
    text_add(out, "kernel %s\n", k->name);
    for (uint32_t i = 0; i < k->params.len; i++)
        text_add(out, "%d %u\n", (int)k->params.at[i].kind, k->params.at[i].id);
    for (TensorId t = 0; t < k->tensors.len; t++) {
        const Tensor *x = &k->tensors.at[t];
        text_add(out, "%s %d %d %d %d", x->name, (int)x->elem, (int)x->role, (int)x->layout, (int)x->both);
        for (uint32_t a = 0; a < x->rank; a++)
            put_axis(m, x->axes[a], out);
        text_add(out, "\n");
    }
    for (RouteId r = 0; r < k->routes.len; r++) {
        const Route *x = &k->routes.at[r];
        text_add(out, "%s %d %u", x->name, (int)x->role, x->group);
        put_extent(m, x->tokens, out);
        put_extent(m, x->choices, out);
        text_add(out, "\n");
    }
    for (IndexId i = 0; i < k->indices.len; i++) {
        text_add(out, "%s", k->indices.at[i].name);
        put_axis(m, k->indices.at[i].axis, out);
        text_add(out, "\n");
    }
    for (uint32_t i = 0; i < k->eqs.len; i++)
        put_equation(&d, &k->eqs.at[i]);
}

static void put_derive(const Derive *d, Text *out)
{
    text_add(out, "derive %s %s %s %s %d", d->forward, d->backward, d->later ? d->later : "-", d->kernel,
             d->cotangents_f32);
    for (uint32_t i = 0; i < d->wrt.len; i++)
        text_add(out, " %s %d %d", d->wrt.at[i].name, (int)d->wrt.at[i].mode, d->wrt.at[i].later);
    for (uint32_t i = 0; i < d->save.len; i++)
        text_add(out, " save %s %d %s", d->save.at[i].name, (int)d->save.at[i].elem,
                 d->save.at[i].in ? d->save.at[i].in : "-");
    text_add(out, "\n");
}

void ir_digest(const Module *m, Text *out)
{
    for (uint32_t i = 0; i < m->types.len; i++)
        text_add(out, "type %s %d\n", m->types.at[i].name, (int)m->types.at[i].elem);
    for (DimId i = 0; i < m->dims.len; i++) {
        const Dim *d = &m->dims.at[i];
        text_add(out, "dim %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", d->name, d->constant,
                 d->max, d->multiple, d->prefer);
    }
    for (GroupId i = 0; i < m->groups.len; i++) {
        const Group *g = &m->groups.at[i];
        text_add(out, "group %s %d", g->name, (int)g->kind);
        put_extent(m, g->groups, out);
        put_extent(m, g->size, out);
        text_add(out, "\n");
    }
    for (uint32_t i = 0; i < m->kernels.len; i++)
        put_kernel(m->kernels.at[i], out);
    for (uint32_t i = 0; i < m->derives.len; i++)
        put_derive(&m->derives.at[i], out);
    for (uint32_t i = 0; i < m->schedules.len; i++) {
        text_add(out, "schedule %s\n", m->schedules.at[i].kernel);
        for (uint32_t c = 0; c < m->schedules.at[i].clauses.len; c++)
            ir_print_clause(NULL, &m->schedules.at[i].clauses.at[c], out);
    }
}
