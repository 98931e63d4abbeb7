/* Finds scatters: a product over rows of a route whose rows are added into the sums of their tokens as they are
 * computed (Note [Clusters] in ir/equation.h). Only where the schedule says `fuse o -> y at scatter`.
 *
 * requires: final equations     gives: Kernel.clusters, Equation.cluster; members adjoin
 * before:  o[r, h] = sum(f) a[r, f] * wd[@r, f, h]
 *          y[t, h] = bf16(sum(k where rt.row(t, k) >= 0) p[t, k] * o[rt.row(t, k), h])
 * after:   // scatter: o into y
 *          the same
 *
 * Note [Scatter]. The sum over a token's choices is turned around: it gets one term from each row of the token, and a
 * dropped choice has no row. So a walk over all rows, each once, meets every term: p[rt.token(r), rt.slot(r)] * o[r, h].
 * Rows go in ascending order, group after group, whatever the blocks of the product are. So the order of a token's
 * additions is that of its groups instead of its choices, and bits depend on nothing else that a schedule chooses.
 * What is gained: o is neither written nor read. What it costs: a thread keeps T x block of columns f32 sums, and only
 * blocks of columns are parallel. */
#include "passes/cluster.h"
#include "passes/epilogue.h"
#include "passes/query.h"
#include "passes/schedule.h"

/* ---- shape ---- */

static int is_plain_matrix(const Kernel *k, const Equation *q)
{
    return q->nindex == 2 && x_at(k, q->index[0])->kind == X_INDEX && x_at(k, q->index[1])->kind == X_INDEX &&
           k->indices.at[x_at(k, q->index[1])->sym].axis.group == NONE;
}

static int has_rows(const Kernel *k, const Equation *q)
{
    return k->indices.at[x_at(k, q->index[0])->sym].axis.group != NONE;
}

static int is_product(const Kernel *k, const Equation *q)
{
    each_below (n, k, q->rhs, EVERYWHERE)
        if (query_is_product_sum(k, *n))
            return 1;
    return 0;
}

/* Is c, which may be NONE, the condition that `row` exists, and no more? */
static int is_row_guard(const Kernel *k, ExprId c, ExprId row)
{
    return c != NONE && x_is_op(k, c, OP_ge) && x_arg(k, c, 0) == row && x_is_int(k, x_arg(k, c, 1), 0);
}

/* The only load of tensor t below e; NONE: there is none, or more than one. */
static ExprId only_load(const Kernel *k, ExprId e, TensorId t)
{
    ExprId load = NONE;
    each_below (n, k, e, EVERYWHERE) {
        if (x_at(k, *n)->kind != X_LOAD || x_at(k, *n)->sym != t)
            continue;
        if (load != NONE)
            return NONE;
        load = *n;
    }
    return load;
}

/* The only reduction below e that contains the node; NONE: there is none, or more than one. */
static ExprId only_reduction(const Kernel *k, ExprId e, ExprId node)
{
    ExprId found = NONE;
    each_below (n, k, e, EVERYWHERE) {
        if (x_at(k, *n)->kind != X_REDUCE || !x_contains(k, *n, node))
            continue;
        if (found != NONE)
            return NONE;
        found = *n;
    }
    return found;
}

/* Is the load at [rt.row(t, k), h], t and h being the reader's indices? */
static int is_at_row(const Kernel *k, const Equation *reader, ExprId load)
{
    ExprId row = x_arg(k, load, 0);
    return x_at(k, row)->kind == X_ROW && x_arg(k, row, 0) == reader->index[0] &&
           x_at(k, x_arg(k, row, 1))->kind == X_INDEX && x_arg(k, load, 1) == reader->index[1];
}

static int is_over_choices(const Kernel *k, ExprId sum, ExprId row)
{
    const Expr *x = x_at(k, sum);
    return x->op == RED_SUM && x->type == TY_F32 && x->nbound == 1 &&
           x_bound(k, sum, 0) == x_at(k, x_arg(k, row, 1))->sym;
}

const char *cluster_scatter(const Kernel *k, const Equation *product, const Equation *reader, Scatter *out)
{
    if (product->kind != EQ_ASSIGN || !is_plain_matrix(k, product) || !has_rows(k, product))
        return "it is not a matrix of rows of a group by columns";
    if (!is_product(k, product))
        return "no sum of products defines it";
    if ((reader->kind != EQ_ASSIGN && reader->kind != EQ_ADD) || !is_plain_matrix(k, reader) ||
        has_rows(k, reader))
        return "its reader is not a matrix of tokens by columns";
    out->load = only_load(k, reader->rhs, product->lhs);
    if (out->load == NONE || !is_at_row(k, reader, out->load))
        return "its reader reads it elsewhere than at [rt.row(t, k), h], t and h being its own";
    out->row = x_arg(k, out->load, 0);
    out->sum = only_reduction(k, reader->rhs, out->load);
    if (out->sum == NONE || !is_over_choices(k, out->sum, out->row))
        return "its reader reads it in another reduction than one sum over the choices of a token";
    if (!is_row_guard(k, x_condition(k, out->sum), out->row))
        return "the sum that reads it leaves rows out";
    if (query_has_reduce(k, x_arg(k, out->sum, 0)))
        return "another reduction stands in the sum that reads it";
    if (!query_is_sure(k, reader->rhs, out->sum))
        return "the sum that reads it is asked for under a condition";
    if (x_loads(k, product->rhs, reader->lhs) || x_loads(k, out->sum, reader->lhs))
        return "its reader writes what it is computed from";
    return NULL;
}

/* ---- places ---- */

/* NULL, or who else defines or reads the local of equation `at`. */
static const char *shared_with(const EquationOrder *o, uint32_t at, uint32_t reader)
{
    const Kernel *k = o->k;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->dead || i == at || i == reader)
            continue;
        if (q->lhs == k->eqs.at[at].lhs && q->kind != EQ_CHECK)
            return "it is defined in parts";
        if (order_reads(o, i, k->eqs.at[at].lhs))
            return "another equation reads it too";
    }
    return NULL;
}

static void report(Kernel *k, const PassContext *c, const Equation *product, const Equation *reader,
                   const char *why)
{
    ReportEdge e = {.producer = k->tensors.at[product->lhs].name,
                    .consumer = k->tensors.at[reader->lhs].name,
                    .loc = reader->loc,
                    .rule = why ? NULL : "scatter"};
    if (!c->report)
        return;
    Extent bytes = epilogue_bytes(k, product->lhs);
    e.saved = ext_add(k->module, bytes, bytes); /* written and read */
    e.why = why ? arena_printf(k->module->arena, "at scatter: %s", why) : NULL;
    report_edge(c->report, k, e);
}

/* NULL, or why the two equations are no scatter. */
static const char *blocks(const EquationOrder *o, uint32_t at, uint32_t reader)
{
    Kernel *k = o->k;
    const uint32_t members[2] = {at, reader};
    Scatter s;
    const char *why = cluster_scatter(k, &k->eqs.at[at], &k->eqs.at[reader], &s);
    if (!why)
        why = shared_with(o, at, reader);
    if (!why && order_blocks(o, members, 2) != NONE)
        why = "its reader waits for what needs it first";
    return why;
}

static void form(EquationOrder *o, uint32_t at, uint32_t reader)
{
    Kernel *k = o->k;
    const uint32_t members[2] = {at, reader};
    uint32_t first = order_gather(o, members, 2);
    k->eqs.at[first].cluster = k->eqs.at[first + 1].cluster = k->clusters.len;
    vec_push(k->module->arena, &k->clusters, (Cluster){.kind = CLUSTER_SCATTER, .row = NONE});
}

/* An equation without a cluster that defines a tensor. */
static int may_join(const Kernel *k, uint32_t i)
{
    const Equation *q = &k->eqs.at[i];
    return !q->dead && q->cluster == NONE && (q->kind == EQ_ASSIGN || q->kind == EQ_ADD);
}

/* The first reader, after the local's definition `at`, that the schedule wants it scattered into. */
static uint32_t wanted_reader(const EquationOrder *o, const PassContext *c, uint32_t at)
{
    const Kernel *k = o->k;
    TensorId local = k->eqs.at[at].lhs;
    for (uint32_t i = at + 1; i < k->eqs.len; i++) {
        if (!may_join(k, i) || !order_reads(o, i, local))
            continue;
        Name from = k->tensors.at[local].name, to = k->tensors.at[k->eqs.at[i].lhs].name;
        if (schedule_fuses(c, k, from, to) == FUSE_SCATTER)
            return i;
        if (c->report && !blocks(o, at, i))
            report_choice(c->report, k, (ReportChoice){from, to, 1});
    }
    return NONE;
}

void cluster_scatters(Kernel *k, const PassContext *c)
{
    EquationOrder o = order_of(k);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        if (!may_join(k, i) || k->tensors.at[k->eqs.at[i].lhs].role != ROLE_LOCAL)
            continue;
        uint32_t reader = wanted_reader(&o, c, i);
        if (reader == NONE)
            continue;
        const Equation product = k->eqs.at[i], sums = k->eqs.at[reader]; /* they may move */
        const char *why = blocks(&o, i, reader);
        if (!why)
            form(&o, i, reader);
        report(k, c, &product, &sums, why);
        i -= !why; /* another equation may stand there now */
    }
}
