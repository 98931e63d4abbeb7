/* cse: locals that hold the same values become one. Two definitions are the same when they differ only in the
 * names of their index variables and nothing wrote to an inout that they read in between. */
#include "passes/canonicalise.h"

typedef struct CseKnown {
    ExprId form; /* of the right-hand side, over stand-ins for the left-hand indices */
    TensorId tensor;
} CseKnown;

typedef struct Cse {
    Kernel *k;
    TensorId *same; /* by TensorId: the tensor that holds its values */
    Vec(CseKnown) known;
} Cse;

static ExprId replace_load(Kernel *k, ExprId e, void *user)
{
    const Cse *c = user;
    const Expr x = *x_at(k, e);
    if (x.kind != X_LOAD || c->same[x.sym] == x.sym)
        return e;
    ExprId subscripts[MAX_RANK];
    for (uint32_t i = 0; i < x.nargs; i++)
        subscripts[i] = x_arg(k, e, i);
    return x_load(k, x.loc, c->same[x.sym], subscripts);
}

static void replace_loads(Cse *c, Equation *q)
{
    Equation r = *q;
    for (uint32_t i = 0; i < r.nindex; i++)
        r.index[i] = x_rewrite(c->k, r.index[i], replace_load, c);
    r.rhs = x_rewrite(c->k, r.rhs, replace_load, c);
    r.guard = x_rewrite(c->k, r.guard, replace_load, c);
    if (r.kind == EQ_ROUTE)
        r.ids = c->same[r.ids];
    *q = r;
}

/* A local defined whole by this equation, with its indices; 0 for everything else. */
static int defines_local(const Cse *c, const Equation *q, IndexId *over)
{
    const Kernel *k = c->k;
    if (q->kind != EQ_ASSIGN || k->tensors.at[q->lhs].role != ROLE_LOCAL)
        return 0;
    for (uint32_t i = 0; i < q->nindex; i++) {
        if (x_at(k, q->index[i])->kind != X_INDEX)
            return 0;
        over[i] = x_at(k, q->index[i])->sym;
    }
    return 1;
}

static int same_shape(const Kernel *k, TensorId a, TensorId b)
{
    const Tensor *x = &k->tensors.at[a], *y = &k->tensors.at[b];
    if (x->elem != y->elem || x->rank != y->rank)
        return 0;
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->axes[i].group != y->axes[i].group ||
            !ext_same(k->module, x->axes[i].extent, y->axes[i].extent))
            return 0;
    return 1;
}

/* After a write, what was computed from the old values is no longer what its text says. */
static void forget(Cse *c, TensorId written)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->known.len; i++)
        if (!x_loads(c->k, c->known.at[i].form, written))
            c->known.at[kept++] = c->known.at[i];
    c->known.len = kept;
}

static void merge_local(Cse *c, Equation *q, const IndexId *over)
{
    CseKnown fresh = {alpha_form(c->k, q->rhs, over, q->nindex), q->lhs};
    for (uint32_t i = 0; i < c->known.len; i++)
        if (c->known.at[i].form == fresh.form && same_shape(c->k, c->known.at[i].tensor, q->lhs)) {
            c->same[q->lhs] = c->known.at[i].tensor;
            q->dead = 1;
            return;
        }
    vec_push(c->k->module->arena, &c->known, fresh);
}

void cse_kernel(Kernel *k)
{
    Cse c = {.k = k, .same = arena_array(k->module->arena, TensorId, k->tensors.len + 1)};
    for (TensorId t = 0; t < k->tensors.len; t++)
        c.same[t] = t;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        Equation q = k->eqs.at[i];
        IndexId over[MAX_RANK];
        replace_loads(&c, &q);
        if (defines_local(&c, &q, over))
            merge_local(&c, &q, over);
        else if (q.kind != EQ_CHECK && q.lhs != NONE)
            forget(&c, q.lhs);
        k->eqs.at[i] = q;
    }
    ir_compact(k);
}

/* Before:  a[t] = exp(x[t])   b[i] = exp(x[i])   y[t] = a[t] + b[t]
 * After:   a[t] = exp(x[t])                      y[t] = a[t] + a[t]
 * Requires nothing (finds more after canonicalise). */
void pass_cse(Module *m, const PassContext *c)
{
    (void)c;
    for (uint32_t i = 0; i < m->kernels.len; i++)
        cse_kernel(m->kernels.at[i]);
}
