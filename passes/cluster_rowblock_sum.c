/* Row-block groups: a sum that several members hold becomes a placed tensor, so that it is computed once.
 *
 * before:  o[b, i, n, d] = bf16((sum(j) p[b, n, i, j] * v[b, j, n, d]) / z[b, n, i])
 *          r[b, i, n, d] = (sum(j) p[b, n, i, j] * v[b, j, n, d]) / z[b, n, i]
 * after:   sum[b, n, i, d] = sum(j) p[b, n, i, j] * v[b, j, n, d]
 *          o[b, i, n, d] = bf16(sum[b, n, i, d] / z[b, n, i])
 *          r[b, i, n, d] = sum[b, n, i, d] / z[b, n, i]
 *
 * Outside row-block groups members of one epilogue share such sums. In a row-block group their block is in the thread's memory. */
#include "passes/cluster_rowblock.h"

#include "passes/canonicalise.h"
#include "passes/query.h"
#include "passes/schedule.h"

/* A sum of one member, over the variables that it uses: outer, row, columns in the order of the left side. */
typedef struct Held {
    uint32_t at;
    ExprId sum, form;
    uint32_t n;
    IndexId over[MAX_RANK];
} Held;

typedef struct HeldList {
    Vec(Held) list;
} HeldList;

static int is_key(const Cluster *c, IndexId i)
{
    for (uint32_t n = 0; n < c->nouter; n++)
        if (c->outer[n] == i)
            return 1;
    return c->row == i;
}

/* The variables, or 0: the row is reduced, or the sum may not be computed for all elements. */
static int find_variables(Kernel *k, const Cluster *c, const Equation *q, Held *h)
{
    if (query_on_left(k, q, c->row) < 0 || !checks_inside(k, h->sum))
        return 0;
    for (h->n = 0; h->n < c->nouter; h->n++)
        h->over[h->n] = c->outer[h->n];
    h->over[h->n++] = c->row;
    for (uint32_t i = 0; i < q->nindex; i++) {
        IndexId column = x_plain_index(k, q->index[i]);
        if (column != NONE && !is_key(c, column) && x_uses_index(k, h->sum, column))
            h->over[h->n++] = column;
    }
    return 1;
}

static HeldList held_sums(Kernel *k, uint32_t cluster)
{
    HeldList found = {0};
    for (uint32_t at = 0; at < k->eqs.len; at++) {
        const Equation q = k->eqs.at[at];
        ExprId sums[REDUCE_MAX];
        if (q.cluster != cluster || q.kind != EQ_ASSIGN)
            continue;
        uint32_t n = query_reductions(k, q.rhs, sums, REDUCE_MAX);
        for (uint32_t i = 0; i < n && i < REDUCE_MAX; i++) {
            Held h = {.at = at, .sum = sums[i]};
            if (!rowblock_is_product(k, h.sum) || !find_variables(k, &k->clusters.at[cluster], &q, &h))
                continue;
            h.form = alpha_form(k, h.sum, h.over, h.n);
            vec_push(k->module->scratch, &found.list, h);
        }
    }
    return found;
}

/* The same value, also when no member in between writes what it reads? a is not behind b. */
static int is_same(const Kernel *k, const Held *a, const Held *b)
{
    for (uint32_t at = a->at; at < b->at; at++)
        if (x_loads(k, a->sum, k->eqs.at[at].lhs))
            return 0;
    return a->form == b->form;
}

/* ---- one of them ---- */

static TensorId sum_tensor(Kernel *k, uint32_t cluster, const Held *h)
{
    Loc loc = x_at(k, h->sum)->loc;
    Tensor t = {.name = ir_fresh_name(k, "sums"),
                .loc = loc,
                .elem = EL_F32,
                .role = ROLE_LOCAL,
                .rank = (uint8_t)h->n,
                .placed = cluster + 1,
                .route = NONE};
    for (uint32_t i = 0; i < h->n; i++)
        t.axes[i] = k->indices.at[h->over[i]].axis;
    return ir_tensor(k, t);
}

static void insert(Kernel *k, uint32_t at, Equation q)
{
    vec_push(k->module->arena, &k->eqs, q);
    for (uint32_t i = k->eqs.len - 1; i > at; i--)
        k->eqs.at[i] = k->eqs.at[i - 1];
    k->eqs.at[at] = q;
}

static void subscripts(Kernel *k, const Held *h, ExprId *out)
{
    for (uint32_t i = 0; i < h->n; i++)
        out[i] = x_index(k, x_at(k, h->sum)->loc, h->over[i]);
}

/* All sums of the list with the form of its entry `first` are read from a tensor. */
static void lift(Kernel *k, uint32_t cluster, const HeldList *held, uint32_t first)
{
    const Held *h = &held->list.at[first];
    Equation q = ir_equation(EQ_ASSIGN, x_at(k, h->sum)->loc);
    q.cluster = cluster;
    q.lhs = sum_tensor(k, cluster, h);
    q.nindex = (uint8_t)h->n;
    q.rhs = h->sum;
    subscripts(k, h, q.index);
    for (uint32_t i = first; i < held->list.len; i++) {
        const Held *other = &held->list.at[i];
        ExprId at[MAX_RANK];
        if (!is_same(k, h, other))
            continue;
        subscripts(k, other, at);
        ExprId load = x_load(k, q.loc, q.lhs, at);
        k->eqs.at[other->at].rhs = x_replace(k, k->eqs.at[other->at].rhs, other->sum, load);
        schedule_fused(k, k->eqs.at[other->at].lhs, q.lhs);
    }
    insert(k, h->at, q);
}

static uint32_t count_members(const Kernel *k, uint32_t cluster)
{
    uint32_t n = 0;
    for (uint32_t at = 0; at < k->eqs.len; at++)
        n += k->eqs.at[at].cluster == cluster;
    return n;
}

static int lift_one(Kernel *k, uint32_t cluster)
{
    HeldList held = held_sums(k, cluster);
    for (uint32_t i = 0; i < held.list.len; i++)
        for (uint32_t j = i + 1; j < held.list.len; j++)
            if (held.list.at[i].at != held.list.at[j].at && is_same(k, &held.list.at[i], &held.list.at[j])) {
                lift(k, cluster, &held, i);
                return 1;
            }
    return 0;
}

void rowblock_share_sums(Kernel *k, uint32_t cluster)
{
    for (uint32_t n = count_members(k, cluster); n < CLUSTER_MAX && lift_one(k, cluster); n++)
        ;
}
