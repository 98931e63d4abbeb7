/* epilogue clusters: which equations become one epilogue.
 *
 * Each equation without a cluster begins one and takes in what follows it and has to do with it, by one of
 * four rules:
 *   sum    both hold the same sum of products: it is computed once
 *   factor sums of theirs have a factor in common: it is packed once
 *   chain  one reads what the other wrote, at its own place: it comes from the cache, or from a register
 *   load   both read the same element of a tensor: it is read once */
#include "passes/canonicalise.h"
#include "passes/epilogue.h"
#include "passes/query.h"

typedef struct Epilogue {
    Kernel *k;
    const PassContext *c;
    EquationOrder *o;
    uint32_t member[EPILOGUE_MAX + 1], n; /* places, ascending */
} Epilogue;

/* ---- who can be a member ---- */

/* Every reduction is a sum of products that no condition stands around. */
static int only_products(const Kernel *k, const Equation *q)
{
    ExprId sums[REDUCE_MAX];
    uint32_t n = query_reductions(k, q->rhs, sums, REDUCE_MAX);
    if (n > REDUCE_MAX)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!query_is_product_sum(k, sums[i]) || !query_is_sure(k, q->rhs, sums[i]))
            return 0;
    return 1;
}

static int can_be_member(const Kernel *k, const Equation *q)
{
    IndexId vars[MAX_RANK];
    return q->cluster == NONE && epilogue_space(k, q, vars) > 0 && only_products(k, q);
}

/* ---- who belongs together ---- */

/* Does the load name each of the n variables? */
static int names_all(const Kernel *k, ExprId load, const IndexId *vars, int n)
{
    int found = 0;
    for (uint32_t a = 0; a < x_at(k, load)->nargs; a++)
        for (int v = 0; v < n; v++)
            found +=
                x_at(k, x_arg(k, load, a))->kind == X_INDEX && x_at(k, x_arg(k, load, a))->sym == vars[v];
    return found == n;
}

static int shares_node(const Kernel *k, const Equation *a, const Equation *b)
{
    IndexId vars[MAX_RANK];
    int n = epilogue_space(k, a, vars);
    each_below (e, k, b->rhs, X_REDUCE) {
        int is_sum = query_is_product_sum(k, *e);
        int is_load = x_at(k, *e)->kind == X_LOAD && names_all(k, *e, vars, n);
        if ((is_sum || is_load) && x_contains(k, a->rhs, *e))
            return 1;
    }
    return 0;
}

/* The factors of a sum of products, without the names of its variables. */
static void factors_of(Kernel *k, const Equation *q, ExprId sum, ExprId *out)
{
    IndexId vars[2 * MAX_RANK];
    uint32_t n = (uint32_t)epilogue_space(k, q, vars), nbound = x_at(k, sum)->nbound;
    for (uint32_t b = 0; b < nbound && n < 2 * MAX_RANK; b++)
        vars[n++] = x_bound(k, sum, b);
    for (uint32_t side = 0; side < 2; side++)
        out[side] = alpha_form(k, x_arg(k, x_arg(k, sum, 0), side), vars, n);
}

/* Do two sums, one of each, have a factor in common? */
static int shares_factor(Kernel *k, const Equation *a, const Equation *b)
{
    ExprId x[REDUCE_MAX], y[REDUCE_MAX], p[2], q[2];
    uint32_t nx = query_reductions(k, a->rhs, x, REDUCE_MAX), ny = query_reductions(k, b->rhs, y, REDUCE_MAX);
    for (uint32_t i = 0; i < nx; i++)
        for (uint32_t j = 0; j < ny; j++) {
            factors_of(k, a, x[i], p);
            factors_of(k, b, y[j], q);
            if (p[0] == q[0] || p[0] == q[1] || p[1] == q[0] || p[1] == q[1])
                return 1;
        }
    return 0;
}

static int chains(const Kernel *k, const Equation *a, const Equation *b)
{
    return x_loads(k, b->rhs, a->lhs) || x_loads(k, a->rhs, b->lhs);
}

static uint32_t count_sums(const Epilogue *d)
{
    const Kernel *k = d->k;
    ExprId all[REDUCE_MAX], some[REDUCE_MAX];
    uint32_t n = 0;
    for (uint32_t m = 0; m < d->n; m++) {
        uint32_t more = query_reductions(k, k->eqs.at[d->member[m]].rhs, some, REDUCE_MAX);
        for (uint32_t i = 0; i < more; i++) {
            uint32_t at = 0;
            while (at < n && all[at] != some[i])
                at++;
            if (at == n && n < REDUCE_MAX)
                all[n++] = some[i];
        }
    }
    return n;
}

/* ---- equal sums ---- */

/* Sums of the epilogue and their forms without the names of bound variables. */
typedef struct EpilogueKnown {
    IndexId vars[MAX_RANK];
    uint32_t nvars, n;
    ExprId sum[REDUCE_MAX], form[REDUCE_MAX];
} EpilogueKnown;

static ExprId known_sum(Kernel *k, ExprId e, void *user)
{
    EpilogueKnown *w = user;
    if (!query_is_product_sum(k, e))
        return e;
    ExprId form = alpha_form(k, e, w->vars, w->nvars);
    for (uint32_t i = 0; i < w->n; i++)
        if (w->form[i] == form)
            return w->sum[i];
    if (w->n < REDUCE_MAX) {
        w->sum[w->n] = e;
        w->form[w->n++] = form;
    }
    return e;
}

/* Sums that differ in the names of their bound variables only become one expression. */
static void unite_sums(Epilogue *d)
{
    Kernel *k = d->k;
    EpilogueKnown known = {.n = 0};
    known.nvars = (uint32_t)epilogue_space(k, &k->eqs.at[d->member[0]], known.vars);
    for (uint32_t m = 0; m < d->n; m++) {
        ExprId rhs = x_rewrite(k, k->eqs.at[d->member[m]].rhs, known_sum, &known);
        k->eqs.at[d->member[m]].rhs = rhs;
    }
}

/* ---- growing ---- */

static void insert(Epilogue *d, uint32_t at)
{
    uint32_t i = d->n++;
    for (; i > 0 && d->member[i - 1] > at; i--)
        d->member[i] = d->member[i - 1];
    d->member[i] = at;
}

static int belongs(const Epilogue *d, uint32_t at)
{
    Kernel *k = d->k;
    const Equation q = k->eqs.at[at];
    for (uint32_t m = 0; m < d->n; m++) {
        const Equation other = k->eqs.at[d->member[m]];
        if (d->member[m] != at &&
            (shares_node(k, &other, &q) || chains(k, &other, &q) || shares_factor(k, &other, &q)))
            return 1;
    }
    return 0;
}

/* Takes equation `at` in if that is legal and worth it. */
static int take(Epilogue *d, uint32_t at)
{
    Kernel *k = d->k;
    Epilogue with = *d;
    Equation before[EPILOGUE_MAX + 1];
    insert(&with, at);
    if (order_blocks(d->o, with.member, with.n) != NONE) /* the quick part of epilogue_blocks() */
        return 0;
    for (uint32_t m = 0; m < with.n; m++)
        before[m] = k->eqs.at[with.member[m]];
    uint32_t sums = count_sums(d);
    epilogue_rename(k, with.member, with.n);
    unite_sums(&with);
    uint32_t more = count_sums(&with);
    if ((more <= sums || more <= EPILOGUE_SUMS) && belongs(&with, at) &&
        !epilogue_mixes(k, d->c, with.member, with.n) && !epilogue_blocks(d->o, with.member, with.n)) {
        *d = with;
        return 1;
    }
    for (uint32_t m = 0; m < with.n; m++)
        k->eqs.at[with.member[m]] = before[m];
    return 0;
}

static int is_member(const Epilogue *d, uint32_t at)
{
    for (uint32_t m = 0; m < d->n; m++)
        if (d->member[m] == at)
            return 1;
    return 0;
}

static int shares(const Epilogue *d, uint32_t at)
{
    for (uint32_t m = 0; m < d->n; m++)
        if (order_shares(d->o, d->member[m], at))
            return 1;
    return 0;
}

static int grow(Epilogue *d)
{
    const Kernel *k = d->k;
    uint32_t first = d->member[0],
             end = first + EPILOGUE_WINDOW < k->eqs.len ? first + EPILOGUE_WINDOW : k->eqs.len;
    for (uint32_t i = first + 1; i < end && d->n < EPILOGUE_MAX; i++)
        if (!is_member(d, i) && shares(d, i) && can_be_member(k, &k->eqs.at[i]) &&
            epilogue_same_space(k, &k->eqs.at[first], &k->eqs.at[i]) && take(d, i))
            return 1;
    return 0;
}

/* ---- clusters ---- */

static void report_chains(Kernel *k, const PassContext *c, uint32_t first, uint32_t n)
{
    for (uint32_t a = first; a < first + n; a++)
        for (uint32_t b = a + 1; b < first + n; b++) {
            TensorId t = k->eqs.at[a].lhs, u = k->eqs.at[b].lhs;
            if (t == u || !x_loads(k, k->eqs.at[b].rhs, t))
                continue;
            ReportEdge e = {.producer = k->tensors.at[t].name, .consumer = k->tensors.at[u].name};
            e.loc = k->eqs.at[b].loc;
            e.rule = "one epilogue";
            e.saved = epilogue_bytes(k, t);
            report_edge(c->report, k, e);
        }
}

static void close_epilogue(Epilogue *d)
{
    Kernel *k = d->k;
    uint32_t first = order_gather(d->o, d->member, d->n), number = k->clusters.len;
    vec_push(k->module->arena, &k->clusters, (Cluster){.kind = CLUSTER_EPILOGUE, .row = NONE});
    for (uint32_t m = 0; m < d->n; m++)
        k->eqs.at[first + m].cluster = number;
    if (d->c->report)
        report_chains(k, d->c, first, d->n);
}

void epilogue_clusters(Kernel *k, const PassContext *c)
{
    EquationOrder o = order_of(k);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        Epilogue d = {.k = k, .c = c, .o = &o, .member = {i}, .n = 1};
        if (!can_be_member(k, &k->eqs.at[i]))
            continue;
        while (grow(&d))
            ;
        if (d.n > 1) {
            close_epilogue(&d);
            i--; /* another equation may stand there now */
        }
    }
}
