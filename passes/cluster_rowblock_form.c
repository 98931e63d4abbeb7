/* Row-block groups: the equations are rewritten so that all members speak of the same outer and row variables, and
 * what a thread keeps has its axes in one order. */
#include "passes/cluster_rowblock.h"

#include "passes/query.h"

#include <string.h>

/* ---- one name for each variable ---- */

typedef struct Rename {
    const IndexId *from, *to;
    uint32_t n;
} Rename;

static IndexId renamed(const Rename *r, IndexId i)
{
    for (uint32_t n = 0; n < r->n; n++)
        if (r->from[n] == i)
            return r->to[n];
    return i;
}

/* Bound variables too, unlike x_substitute(). */
static ExprId rename_node(Kernel *k, ExprId e, void *user)
{
    const Rename *r = user;
    const Expr x = *x_at(k, e);
    if (x.kind == X_INDEX && renamed(r, x.sym) != x.sym)
        return x_index(k, x.loc, renamed(r, x.sym));
    if (x.kind != X_REDUCE)
        return e;
    IndexId bound[UINT8_MAX];
    int changed = 0;
    for (uint32_t b = 0; b < x.nbound; b++) {
        bound[b] = renamed(r, x_bound(k, e, b));
        changed |= bound[b] != x_bound(k, e, b);
    }
    return changed ? x_reduce(k, x.loc, (ReduceKind)x.op, bound, x.nbound, x_arg(k, e, 0), x_condition(k, e))
                   : e;
}

static void rename_member(const RowBlockGroup *s, uint32_t at, const IndexId *to)
{
    Kernel *k = s->f->k;
    Equation q = k->eqs.at[at];
    Rename r = {s->member[at].key, to, s->nkeys};
    for (uint32_t i = 0; i < q.nindex; i++)
        q.index[i] = x_rewrite(k, q.index[i], rename_node, &r);
    q.rhs = x_rewrite(k, q.rhs, rename_node, &r);
    q.cluster = k->clusters.len;
    k->eqs.at[at] = q;
}

/* ---- one order of axes ---- */

typedef struct AxisOrder {
    TensorId tensor;
    uint32_t rank;
    uint8_t source[MAX_RANK]; /* new axis i is the old axis source[i] */
} AxisOrder;

static AxisOrder axis_order_of(const RowBlockGroup *s, TensorId t)
{
    AxisOrder order = {.tensor = t};
    uint32_t rank = s->f->k->tensors.at[t].rank;
    for (uint32_t i = 0; i < s->nkeys; i++)
        for (uint8_t a = 0; a < rank; a++)
            if (s->key_of[t][a] == i)
                order.source[order.rank++] = a;
    for (uint8_t a = 0; a < rank; a++)
        if (s->key_of[t][a] == AXIS_FREE)
            order.source[order.rank++] = a;
    return order;
}

static int axes_move(const AxisOrder *t)
{
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->source[i] != i)
            return 1;
    return 0;
}

static ExprId permute_load(Kernel *k, ExprId e, void *user)
{
    const AxisOrder *t = user;
    ExprId subscripts[MAX_RANK];
    if (x_at(k, e)->kind != X_LOAD || x_at(k, e)->sym != t->tensor)
        return e;
    for (uint32_t i = 0; i < t->rank; i++)
        subscripts[i] = x_arg(k, e, t->source[i]);
    return x_load(k, x_at(k, e)->loc, t->tensor, subscripts);
}

static void permute_equation(Kernel *k, uint32_t at, const AxisOrder *t)
{
    Equation q = k->eqs.at[at];
    const Equation old = q;
    if (q.lhs == t->tensor && q.kind == EQ_CHECK)
        for (uint8_t i = 0; i < t->rank; i++)
            q.axis = old.axis == t->source[i] ? i : q.axis;
    if (q.lhs == t->tensor && q.kind == EQ_ASSIGN)
        for (uint32_t i = 0; i < t->rank; i++)
            q.index[i] = old.index[t->source[i]];
    q.rhs = x_rewrite(k, q.rhs, permute_load, (void *)t);
    k->eqs.at[at] = q;
}

static void permute_tensor(Kernel *k, const AxisOrder *t)
{
    const Tensor old = k->tensors.at[t->tensor];
    for (uint32_t i = 0; i < t->rank; i++)
        k->tensors.at[t->tensor].axes[i] = old.axes[t->source[i]];
    for (uint32_t at = 0; at < k->eqs.len; at++)
        permute_equation(k, at, t);
}

/* ---- the cluster ---- */

static void place_tensors(const RowBlockGroup *s)
{
    Kernel *k = s->f->k;
    for (TensorId t = 0; t < k->tensors.len; t++) {
        if (!rowblock_is_placed(s, t))
            continue;
        k->tensors.at[t].placed = k->clusters.len + 1;
        AxisOrder order = axis_order_of(s, t);
        if (axes_move(&order))
            permute_tensor(k, &order);
    }
}

void rowblock_form(const RowBlockGroup *s)
{
    Kernel *k = s->f->k;
    Arena *a = k->module->arena;
    EquationOrder order = s->f->order;
    Cluster c = {.kind = CLUSTER_ROWBLOCK, .nouter = (uint8_t)(s->nkeys - 1)};
    const uint32_t *members = s->at, n = s->n;
    IndexId to[MAX_RANK];
    for (uint32_t i = 0; i < s->nkeys; i++) {
        Index like = k->indices.at[s->member[members[0]].key[i]];
        to[i] = ir_index(k, like.name, like.loc, like.axis);
    }
    memcpy(c.outer, to, sizeof *to * c.nouter);
    c.row = to[c.nouter];
    place_tensors(s);
    for (uint32_t m = 0; m < n; m++) {
        rename_member(s, members[m], to);
        c.carries |= s->member[members[m]].part == PART_CARRIER;
    }
    vec_push(a, &k->clusters, c);
    order_gather(&order, members, n);
}

/* ---- terms ---- */

static int loads_column(const Kernel *k, const Equation *q, TensorId t, uint32_t axis)
{
    if (q->rhs == NONE || q->kind == EQ_CHECK)
        return 0;
    each_below (n, k, q->rhs, EVERYWHERE)
        if (x_at(k, *n)->kind == X_LOAD && x_at(k, *n)->sym == t) {
            IndexId column = x_plain_index(k, x_arg(k, *n, axis));
            if (column != NONE && query_on_left(k, q, column) < 0)
                return 1;
        }
    return 0;
}

static int is_among(const IndexId *list, uint32_t n, IndexId i)
{
    for (uint32_t at = 0; at < n; at++)
        if (list[at] == i)
            return 1;
    return 0;
}

/* Is this one element of a row of a local that some equation reduces over its columns? `over`: the
 * variables of the row, which are distinct: s[i, i, 0] is an element of no row. */
static int is_of_wide(const Kernel *k, ExprId load, IndexId *over, uint32_t *n)
{
    TensorId t = x_at(k, load)->sym;
    uint32_t rank = x_at(k, load)->nargs, column = 0;
    *n = 0;
    for (uint32_t a = 0; a < rank; a++) {
        IndexId i = x_plain_index(k, x_arg(k, load, a));
        if (i == NONE)
            column = a;
        else if (!is_among(over, *n, i))
            over[(*n)++] = i;
    }
    if (k->tensors.at[t].role != ROLE_LOCAL || *n == 0 || *n + 1 != rank)
        return 0;
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (loads_column(k, &k->eqs.at[i], t, column))
            return 1;
    return 0;
}

static int uses_only(const Kernel *k, ExprId e, const IndexId *over, uint32_t n)
{
    each_below (x, k, e, EVERYWHERE) {
        IndexId i = x_at(k, *x)->sym;
        if (x_at(k, *x)->kind == X_REDUCE)
            return 0;
        if (x_at(k, *x)->kind == X_INDEX && (!is_among(over, n, i) || k->indices.at[i].axis.group != NONE))
            return 0;
    }
    return 1;
}

/* Is the body evaluated for every value of the sum's variable anyway? */
static int is_unconditional(const Kernel *k, ExprId root, ExprId sum)
{
    each_below (n, k, root, EVERYWHERE)
        if (x_at(k, *n)->kind == X_IF)
            return 0;
    return x_condition(k, sum) == NONE;
}

/* A sum over rows whose terms look at single elements of them; `over`: the variables of a row. */
static ExprId sum_of_rows(Kernel *k, const Equation *q, IndexId *over, uint32_t *n)
{
    each_below (e, k, q->rhs, EVERYWHERE) {
        if (x_at(k, *e)->kind != X_REDUCE || x_at(k, *e)->op != RED_SUM || x_at(k, *e)->type == TY_INT)
            continue;
        ExprId body = x_arg(k, *e, 0);
        each_below (l, k, body, EVERYWHERE)
            if (x_at(k, *l)->kind == X_LOAD && is_of_wide(k, *l, over, n) && uses_only(k, body, over, *n) &&
                x_at(k, *e)->nbound == 1 && x_uses_index(k, *l, x_bound(k, *e, 0)) &&
                (is_unconditional(k, q->rhs, *e) || checks_inside(k, body)))
                return *e;
    }
    return NONE;
}

/* loss = sum(t) log(z[t]) - s[t, y[t]]   becomes   row[t] = log(z[t]) - s[t, y[t]]   loss = sum(t) row[t] */
static Equation take_terms(Kernel *k, Equation *q, ExprId sum, const IndexId *over, uint32_t n)
{
    Loc loc = x_at(k, sum)->loc;
    Equation rows = ir_equation(EQ_ASSIGN, loc);
    Tensor t = {.name = ir_fresh_name(k, "row"),
                .loc = loc,
                .elem = EL_F32,
                .role = ROLE_LOCAL,
                .rank = (uint8_t)n,
                .route = NONE};
    ExprId parts[2] = {NONE, x_condition(k, sum)};
    for (uint32_t i = 0; i < n; i++) {
        t.axes[i] = k->indices.at[over[i]].axis;
        rows.index[i] = x_index(k, loc, over[i]);
    }
    rows.nindex = (uint8_t)n;
    rows.lhs = ir_tensor(k, t);
    rows.rhs = x_arg(k, sum, 0);
    parts[0] = x_load(k, loc, rows.lhs, rows.index);
    q->rhs = x_replace(k, q->rhs, sum, x_with_args(k, sum, parts));
    return rows;
}

void rowblock_split_terms(Kernel *k)
{
    Vec(Equation) out = {0};
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        Equation q = k->eqs.at[i];
        IndexId over[MAX_RANK];
        uint32_t n;
        ExprId sum = q.kind == EQ_ASSIGN || q.kind == EQ_ADD ? sum_of_rows(k, &q, over, &n) : (ExprId)NONE;
        if (sum != NONE)
            vec_push(k->module->arena, &out, take_terms(k, &q, sum, over, n));
        vec_push(k->module->arena, &out, q);
    }
    k->eqs.at = out.at;
    k->eqs.len = out.len;
    k->eqs.cap = out.cap;
}
