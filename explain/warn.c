/* What `moec check` warns of beside the front end: decisions of the compiler that make a kernel slow. */
#include "explain/explain.h"

enum { SHORT_SUM = 8 };

/* A kernel and those that are derived from it share their equations: each place is warned of once. */
static int is_said(const Explain *e, DiagCode code, Loc loc)
{
    const Diags *d = &e->c->diags;
    for (uint32_t i = 0; i < d->list.len; i++) {
        const Diag *old = &d->list.at[i];
        if (old->code == code && old->loc.file == loc.file && old->loc.line == loc.line &&
            old->loc.col == loc.col)
            return 1;
    }
    return 0;
}

/* ---- sums ---- */

/* Terms of a sum that are known and few cost little, however they are added; and a matrix times one vector is read once. */
static int is_cheap(const Explain *e, const ExplainProduct *p)
{
    int64_t terms, rows;
    return (ext_is_const(e->m, p->p.extent[2], &terms) && terms <= SHORT_SUM) ||
           (ext_is_const(e->m, p->p.extent[0], &rows) && rows == 1);
}

static void warn_sums(Explain *e, const Explained *x)
{
    for (uint32_t i = 0; i < x->products.len; i++) {
        const ExplainProduct *p = &x->products.at[i];
        if (!p->reported || p->p.rows || p->p.is_scan || p->is_dot || is_cheap(e, p) ||
            is_said(e, DIAG_plain_loops, p->p.loc))
            continue;
        diag_add(&e->c->diags, DIAG_plain_loops, p->p.loc,
                 "`moec explain W1003` says which sums become block products",
                 "the sum of %s in kernel %s is made by plain loops: %s", p->p.lhs, x->k->name,
                 p->p.why ? p->p.why : "");
    }
}

/* ---- edges ---- */

/* The highest power of the dimension in an extent. */
static uint32_t power_of(const Module *m, Extent x, DimId d)
{
    const ExtentForm *f = &m->extents.at[x];
    uint32_t most = 0;
    for (uint32_t t = 0; t < f->nterms; t++) {
        uint32_t power = 0;
        for (uint32_t i = 0; i < f->terms[t].ndims; i++)
            power += f->terms[t].dims[i] == d;
        most = power > most ? power : most;
    }
    return most;
}

static uint32_t tensor_power(const Module *m, const Tensor *t, DimId d)
{
    uint32_t power = 0;
    for (uint32_t a = 0; a < t->rank; a++)
        power += power_of(m, t->axes[a].extent, d);
    return power;
}

static uint32_t parameters_power(const Kernel *k, DimId d)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < k->params.len; i++)
        if (k->params.at[i].kind == PARAM_TENSOR) {
            uint32_t power = tensor_power(k->module, &k->tensors.at[k->params.at[i].id], d);
            most = power > most ? power : most;
        }
    return most;
}

static int is_asked_for(const Explained *x, Name tensor)
{
    for (uint32_t i = 0; i < x->knobs.len; i++)
        if (x->knobs.at[i].knob == KNOB_store && x->knobs.at[i].name == tensor)
            return 1;
    return 0;
}

/* The dimension with whose square, or more, a stored local grows, and faster than everything that the caller gives; or NONE. */
static DimId outgrows(const Explain *e, const Explained *x, Name local)
{
    TensorId t = ir_find_tensor(x->k, local);
    for (DimId d = 0; t != NONE && d < e->m->dims.len; d++) {
        uint32_t power = tensor_power(e->m, &x->k->tensors.at[t], d);
        if (power > 1 && power > parameters_power(x->k, d))
            return d;
    }
    return NONE;
}

static void warn_edges(Explain *e, const Explained *x)
{
    for (uint32_t i = 0; i < x->edges.len; i++) {
        const ExplainEdge *edge = &x->edges.at[i];
        DimId d = edge->state == STATE_STORED ? outgrows(e, x, edge->e.producer) : (DimId)NONE;
        Loc loc = d == NONE ? (Loc){0} : x->k->tensors.at[ir_find_tensor(x->k, edge->e.producer)].loc;
        if (d == NONE || is_asked_for(x, edge->e.producer) || is_said(e, DIAG_stored_edge, loc))
            continue;
        diag_add(&e->c->diags, DIAG_stored_edge, loc, "say `store` in a schedule if this is meant",
                 "%s of kernel %s is stored, and grows with the square of %s, faster than all parameters: %s",
                 edge->e.producer, x->k->name, e->m->dims.at[d].name,
                 edge->e.why ? edge->e.why : "no rule of fusion applies");
    }
}

static void warn(Explain *e)
{
    for (uint32_t i = 0; i < e->kernels.len; i++) {
        warn_sums(e, &e->kernels.at[i]);
        warn_edges(e, &e->kernels.at[i]);
    }
}

static int check(Compilation *c, void *user)
{
    (void)user;
    Explain e = {.c = c};
    int status = compile_prepare(c);
    if (status || c->isas.n != 1)
        return status;
    int64_t *sizes = arena_array(c->arena, int64_t, c->module->dims.len + 1);
    for (DimId d = 0; d < c->module->dims.len; d++)
        sizes[d] = c->module->dims.at[d].constant;
    e.sizes = sizes;
    status = explain_make(&e) || explain_collect(&e, NULL);
    if (!status)
        warn(&e);
    return status ? status : compile_passed(c);
}

int explain_check(Compilation *c) { return compile_guard(c, check, NULL); }
