/* lower: equations become launches, loops and statements on buffers (ir/tile.h).
 *
 * requires: checks explicit, sums split (passes/split.c)     gives: Kernel.tiles
 * before:  y[t, f] = bf16(sum(h) x[t, h] * w[h, f])
 * after:   launch y { parallel f0 in 0..F by 256 { parallel t0 in 0..T by 128 { sums = 0
 *            for slab in 0..H by 256 { pack left over t, h = x[t, h]  pack right over h, f = w[h, f]
 *                                      product sums += left * right }
 *            for t in .. { vector f in .. { y[t, f] = bf16(sums[t - t0, f - f0]) } } } } }
 *
 * One launch per equation or cluster of them (and one for what it needs before: lower/prepare.c). All free indices
 * but the lanes' and the block's rows are parallel loops; a row index is a walk over the route's row blocks. */
#include "lower/lower.h"

#include <string.h>

static void lower_equation(Lower *l, const Members *m)
{
    const Equation *q = &m->at[0];
    switch (q->kind) {
    case EQ_ASSIGN:
    case EQ_ADD:
        if (lower_is_accumulated(l, q))
            lower_add_computed(l, q);
        else
            lower_elements(l, m);
        return;
    case EQ_TOP: lower_top(l, q); return;
    case EQ_ROUTE: lower_route(l, q); return;
    case EQ_CHECK: lower_check(l, q); return;
    }
}

/* ---- kernels ---- */

/* How many values the indices of expressions take together; `stop` X_GROUP: a row under `@` counts as its group. */
static Extent times_of(Kernel *k, const ExprId *e, uint32_t n, uint8_t stop)
{
    Module *m = k->module;
    Extent times = ext_const(m, 1);
    uint8_t *counted = arena_alloc(m->arena, k->indices.len + 1);
    for (uint32_t i = 0; i < n; i++) {
        each_below (below, k, e[i], stop) {
            const Expr *x = x_at(k, *below);
            if (x->kind == X_GROUP && stop == X_GROUP)
                times = ext_mul(m, times, m->groups.at[k->routes.at[x->sym].group].groups);
            if (x->kind == X_INDEX && !counted[x->sym]++)
                times = ext_mul(m, times, k->indices.at[x->sym].axis.extent);
        }
    }
    return times;
}

/* Of a sum by key that is added: each term is read and added to its element. */
static Extent work_by_key(Kernel *k, const Equation *q, const Bucket *b)
{
    ExprId at[MAX_RANK + 2] = {x_arg(k, q->rhs, 0), b->key};
    uint32_t n = 2;
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_plain_index(k, q->index[i]) != b->bucket)
            at[n++] = q->index[i];
    return ext_mul(k->module, times_of(k, at, n, EVERYWHERE), ext_const(k->module, 2 * TOUCH_WORK));
}

/* Rough operations of an equation. Terms of sums are cheap, many being added at a time; memory is not. */
static Extent work_of(const Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    Module *m = k->module;
    ExprId at[MAX_RANK + 1];
    Bucket b;
    if (q->rhs == NONE)
        return ext_mul(m, k->routes.at[q->route].tokens, k->routes.at[q->route].choices);
    if (lower_adds_by_key(l, q, &b))
        return work_by_key(k, q, &b);
    int scan = !pass_traits(l->c)->long_vectors && query_scan_index(k, q) != NONE; /* a term for each row */
    memcpy(at, q->index, sizeof *at * q->nindex);
    Extent touched = times_of(k, at, q->nindex, EVERYWHERE), terms = ext_const(m, 0);
    each_below (n, k, q->rhs, EVERYWHERE) {
        at[q->nindex] = *n;
        if (x_at(k, *n)->kind == X_LOAD)
            touched = ext_add(m, touched, times_of(k, n, 1, X_GROUP));
        if (x_at(k, *n)->kind == X_REDUCE && !scan)
            terms = ext_add(m, terms, times_of(k, at, q->nindex + 1u, EVERYWHERE));
    }
    return ext_add(m, terms, ext_mul(m, touched, ext_const(m, TOUCH_WORK)));
}

/* The cluster that begins with equation `first`, or that equation alone. */
static Members take_members(Lower *l, uint32_t first)
{
    Kernel *k = l->k;
    Members m = {.n = 0};
    uint32_t cluster = k->eqs.at[first].cluster;
    do {
        if (m.n == CLUSTER_MAX)
            BUG(l->k->module->arena, "lower: a cluster of kernel %s has more than %d equations", k->name,
                CLUSTER_MAX);
        Equation q = k->eqs.at[first + m.n];
        k->tiles->work = ext_add(k->module, k->tiles->work, work_of(l, &q));
        m.at[m.n++] = q;
    } while (cluster != NONE && first + m.n < k->eqs.len && k->eqs.at[first + m.n].cluster == cluster);
    return m;
}

static void lower_cluster(Lower *l, const Members *m, const Cluster *c)
{
    switch (c->kind) {
    case CLUSTER_EPILOGUE: lower_elements(l, m); return;
    case CLUSTER_ROWBLOCK:
        if (c->carries && !c->nouter)
            lower_in_parts(l, m, c);
        else
            lower_rowblock(l, m, c, NULL);
        return;
    case CLUSTER_SCATTER: lower_scatter_rows(l, &m->at[0], &m->at[1]); return;
    }
}

/* Locals that an equation still defines stand in work space, until a cluster keeps them elsewhere. */
static void give_spaces(Kernel *k)
{
    for (TensorId t = 0; t < k->tensors.len; t++) {
        k->tensors.at[t].space = SPACE_GM;
        k->tensors.at[t].route = NONE;
    }
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        TensorId made[2] = {k->eqs.at[i].lhs, k->eqs.at[i].ids};
        for (int n = 0; n < 2; n++)
            if (made[n] != NONE && k->eqs.at[i].kind != EQ_CHECK && k->tensors.at[made[n]].role == ROLE_LOCAL)
                k->tensors.at[made[n]].space = SPACE_WORK;
    }
}

static void lower_kernel(Kernel *k, const PassContext *c)
{
    Arena *a = k->module->arena;
    k->tiles = arena_new_of(a, TileProgram);
    k->tiles->first = NONE;
    k->tiles->work = ext_const(k->module, 0);
    Lower *l = arena_new_of(a, Lower);
    l->k = k;
    l->c = c;
    l->cpu = &cpu_table[c->isa];
    l->b = build_begin(k);
    l->env.strip = l->env.lined = NONE;
    give_spaces(k);
    l->unroll = build_index(&l->b, "u");
    lower_validate_routes(l);
    lower_validate_tops(l);
    for (uint32_t i = 0; i < k->eqs.len;) {
        Members m = take_members(l, i);
        i += m.n;
        const Cluster *cluster = m.n == 1 ? NULL : &k->clusters.at[m.at[0].cluster];
        lower_join(l, &m, cluster);
        StmtId made = k->tiles->stmts.len;
        if (cluster)
            lower_cluster(l, &m, cluster);
        else
            lower_equation(l, &m);
        lower_settings(l, &m, made);
    }
}

void pass_lower(Module *m, const PassContext *c)
{
    for (uint32_t i = 0; i < m->kernels.len; i++)
        lower_kernel(m->kernels.at[i], c);
}
