/* Questions about equations and expressions (query.h). */
#include "passes/query.h"

int query_varies(const Kernel *k, ExprId e, IndexId i)
{
    each_below (n, k, e, X_GROUP)
        if (x_at(k, *n)->kind == X_INDEX && x_at(k, *n)->sym == i)
            return 1;
    return 0;
}

Stride query_stride(Kernel *k, ExprId load, IndexId i)
{
    uint32_t n = x_at(k, load)->nargs;
    if (n == 0 || !query_varies(k, load, i))
        return STRIDE_NONE;
    for (uint32_t a = 0; a + 1 < n; a++)
        if (query_varies(k, x_arg(k, load, a), i))
            return STRIDE_FAR;
    Affine form;
    if (!x_affine(k, x_arg(k, load, n - 1), &form))
        return STRIDE_FAR;
    int64_t coef = 0;
    for (uint32_t t = 0; t < form.n; t++)
        if (form.index[t] == i && !ext_is_const(k->module, form.coef[t], &coef))
            return STRIDE_FAR;
    return coef == 1 ? STRIDE_ONE : STRIDE_FAR;
}

int query_on_left(const Kernel *k, const Equation *q, IndexId v)
{
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_plain_index(k, q->index[i]) == v)
            return (int)i;
    return -1;
}

int query_reads_computed(const Kernel *k, ExprId e)
{
    each_below (n, k, e, EVERYWHERE) {
        const Expr *x = x_at(k, *n);
        for (uint32_t a = 0; x->kind == X_LOAD && a < x->nargs; a++)
            if (x_plain_index(k, x_arg(k, *n, a)) == NONE)
                return 1;
    }
    return 0;
}

int query_has_reduce(const Kernel *k, ExprId e)
{
    ExprId one;
    return e != NONE && query_reductions(k, e, &one, 0) > 0;
}

uint32_t query_reductions(const Kernel *k, ExprId e, ExprId *out, uint32_t max)
{
    uint32_t n = 0;
    each_below (i, k, e, X_REDUCE)
        if (x_at(k, *i)->kind == X_REDUCE && n++ < max)
            out[n - 1] = *i;
    return n;
}

int query_is_implied(const Kernel *k, ExprId all, ExprId among)
{
    ExprId list[CONJUNCT_MAX], known[CONJUNCT_MAX];
    uint32_t n = x_conjuncts(k, all, list, CONJUNCT_MAX), nknown = x_conjuncts(k, among, known, CONJUNCT_MAX);
    for (uint32_t i = 0; i < n; i++)
        if (!x_is_among(known, nknown, list[i]))
            return 0;
    return 1;
}

int query_is_run(const Kernel *k, ExprId c)
{
    return x_is_op(k, c, OP_eq) &&
           (x_at(k, x_arg(k, c, 0))->kind == X_GROUP || x_at(k, x_arg(k, c, 1))->kind == X_GROUP);
}

/* ---- bucketed sums ---- */

/* Uses e only indices of `bound`? `used` gets their bits. */
static int only_bound(const Kernel *k, ExprId e, const IndexId *bound, uint32_t nbound, uint32_t *used)
{
    *used = 0;
    each_below (n, k, e, EVERYWHERE) {
        if (x_at(k, *n)->kind == X_REDUCE)
            return 0;
        if (x_at(k, *n)->kind != X_INDEX)
            continue;
        uint32_t b = 0;
        while (b < nbound && bound[b] != x_at(k, *n)->sym)
            b++;
        if (b == nbound)
            return 0;
        *used |= 1u << b;
    }
    return 1;
}

/* Could computing e leave a tensor unless other conditions hold? Then it may not run ahead of them. */
static int needs_guard(const Kernel *k, ExprId e)
{
    each_below (n, k, e, EVERYWHERE) {
        if (x_at(k, *n)->kind < X_LOAD)
            continue;
        for (uint32_t a = 0; x_at(k, *n)->kind == X_LOAD && a < x_at(k, *n)->nargs; a++)
            if (x_at(k, x_arg(k, *n, a))->kind != X_INDEX)
                return 1;
        if (x_at(k, *n)->kind == X_ROW || x_at(k, *n)->kind == X_TOKEN || x_at(k, *n)->kind == X_SLOT)
            if (x_at(k, x_arg(k, *n, 0))->kind != X_INDEX)
                return 1;
    }
    return 0;
}

typedef struct Key {
    ExprId key;
    IndexId bucket;
    uint32_t used; /* bits of the bound indices in the key */
} Key;

/* Is conjunct c `key == v`, the key over bound indices only, v a dense index from outside? */
static int key_of(const Kernel *k, ExprId c, const IndexId *bound, uint32_t nbound, Key *out)
{
    if (!x_is_op(k, c, OP_eq))
        return 0;
    for (uint32_t side = 0; side < 2; side++) {
        const Expr *v = x_at(k, x_arg(k, c, 1 - side));
        out->key = x_arg(k, c, side);
        if (v->kind != X_INDEX || k->indices.at[v->sym].axis.group != NONE ||
            x_at(k, out->key)->kind == X_GROUP || x_at(k, out->key)->type != TY_INT)
            continue;
        out->bucket = v->sym;
        uint32_t b = 0;
        while (b < nbound && bound[b] != v->sym)
            b++;
        if (b == nbound && only_bound(k, out->key, bound, nbound, &out->used) && out->used)
            return 1;
    }
    return 0;
}

/* Conjuncts over the key's indices alone go into the sort; `others` says whether some do not. */
static ExprId sort_guard(Kernel *k, const ExprId *parts, uint32_t n, uint32_t conjunct, const IndexId *bound,
                         uint32_t nbound, uint32_t used, uint64_t *implied, int *others)
{
    ExprId guard = NONE;
    *others = 0;
    for (uint32_t c = 0; c < n; c++) {
        uint32_t own;
        if (c == conjunct)
            continue;
        if (only_bound(k, parts[c], bound, nbound, &own) && !(own & ~used)) {
            guard = x_and(k, (Loc){0}, guard, parts[c]);
            *implied |= (uint64_t)1 << c;
        } else {
            *others = 1;
        }
    }
    return guard;
}

int query_bucket(Kernel *k, ExprId reduce, Bucket *out)
{
    ExprId parts[CONJUNCT_MAX];
    IndexId bound[MAX_RANK];
    uint32_t nbound = x_at(k, reduce)->nbound,
             n = x_conjuncts(k, x_condition(k, reduce), parts, CONJUNCT_MAX);
    if (nbound > MAX_RANK)
        return 0;
    for (uint32_t i = 0; i < nbound; i++)
        bound[i] = x_bound(k, reduce, i);
    for (uint32_t c = 0; c < n; c++) {
        Key key;
        int others;
        if (!key_of(k, parts[c], bound, nbound, &key))
            continue;
        *out = (Bucket){.key = key.key,
                        .bucket = key.bucket,
                        .buckets = k->indices.at[key.bucket].axis.extent,
                        .conjunct = c,
                        .implied = (uint64_t)1 << c};
        out->guard = sort_guard(k, parts, n, c, bound, nbound, key.used, &out->implied, &others);
        if (others && needs_guard(k, key.key))
            continue;
        for (uint32_t i = 0; i < nbound; i++)
            if (key.used >> i & 1)
                out->bound[out->nbound++] = bound[i];
        return 1;
    }
    return 0;
}

int query_is_bucketed(const Kernel *k, ExprId reduce)
{
    Bucket sort;
    return query_bucket((Kernel *)k, reduce, &sort);
}

/* ---- sums and what stands in them ---- */

int query_is_product_sum(const Kernel *k, ExprId e)
{
    const Expr *x = x_at(k, e);
    return x->kind == X_REDUCE && x->op == RED_SUM && type_is_float((Type)x->type) &&
           x_is_op(k, x_arg(k, e, 0), OP_mul) && !query_has_reduce(k, x_arg(k, e, 0)) &&
           !query_has_reduce(k, x_condition(k, e)) && !query_is_bucketed(k, e);
}

/* Is argument a of e evaluated whenever e is? */
static int is_sure(const Kernel *k, ExprId e, uint32_t a)
{
    const Expr *x = x_at(k, e);
    return x->kind != X_REDUCE &&
           (a == 0 || (x->kind != X_IF && !x_is_op(k, e, OP_and) && !x_is_op(k, e, OP_or)));
}

int query_is_sure(const Kernel *k, ExprId root, ExprId node)
{
    Nodes below = x_below(k, root, EVERYWHERE);
    ExprMap sure = x_map(k, below.n);
    *x_map_at(&sure, root) = root;
    for (uint32_t n = below.n; n-- > 0;) {
        ExprId e = below.at[n];
        if (x_at(k, e)->kind == X_REDUCE && e != node && x_contains(k, e, node))
            return 0;
        for (uint32_t a = 0; x_map_get(&sure, e) != NONE && a < x_at(k, e)->nargs; a++)
            if (is_sure(k, e, a))
                *x_map_at(&sure, x_arg(k, e, a)) = x_arg(k, e, a);
    }
    return x_map_get(&sure, node) != NONE;
}

int query_may_lack_value(const Kernel *k, ExprId e)
{
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_REDUCE && x_at(k, *n)->type == TY_INT && x_at(k, *n)->op != RED_SUM)
            return 1;
    return 0;
}

static uint32_t cost_of_ops(const Kernel *k, ExprId e, uint8_t stop)
{
    uint32_t cost = 0;
    each_below (n, k, e, stop)
        if (x_at(k, *n)->kind == X_OP)
            cost += scalar_table[x_at(k, *n)->op].cost;
    return cost;
}

uint32_t query_cost(const Kernel *k, ExprId e)
{
    uint32_t cost = cost_of_ops(k, e, X_LOAD);
    each_below (n, k, e, X_LOAD)
        if (x_at(k, *n)->kind == X_LOAD && x_at(k, *n)->nargs)
            cost += cost_of_ops(k, x_arg(k, *n, x_at(k, *n)->nargs - 1u), EVERYWHERE);
    return cost;
}

int query_unpacks(const Kernel *k, ExprId e)
{
    each_below (n, k, e, X_LOAD)
        if ((x_is_op(k, *n, OP_idiv) || x_is_op(k, *n, OP_imod)) && x_loads_any(k, x_arg(k, *n, 0)))
            return 1;
    return 0;
}

int query_is_only_load(const Kernel *k, uint32_t reader, ExprId load)
{
    TensorId t = x_at(k, load)->sym;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->ids == t)
            return 0;
        for (uint32_t s = 0; s < q->nindex; s++)
            if (x_loads(k, q->index[s], t))
                return 0;
        if (q->rhs == NONE || !x_loads(k, q->rhs, t))
            continue;
        each_below (n, k, q->rhs, EVERYWHERE)
            if (x_at(k, *n)->kind == X_LOAD && x_at(k, *n)->sym == t && (i != reader || *n != load))
                return 0;
    }
    return 1;
}
