/* fuse: a local that its readers can just as well compute goes into them.
 *
 * requires: checks explicit, canonical     gives: fewer locals in memory
 * before:  xp[r, h] = x[rt.token(r), h]
 *          g[r, f] = sum(h) xp[r, h] * w[@r, h, f]
 * after:   g[r, f] = sum(h) x[rt.token(r), h] * w[@r, h, f]
 *
 * Three rules, each for a local with one defining equation; bits never change, since a local of its own type is read:
 *   copy       only moves an element (a gather, a transpose, f32 of one): into every reader
 *   pointwise  no reduction: where every reader asks for each element once, and there is one reader or little work
 *   epilogue   with reductions: where one pointwise reader over the same indices asks for it once */
#include "passes/lower.h"

enum { LITTLE_WORK = 6, SUMS_IN_ONE = 4 };

typedef enum Rule { RULE_NONE, RULE_COPY, RULE_POINTWISE, RULE_EPILOGUE } Rule;

typedef struct Producer {
    Kernel *k;
    uint32_t at; /* its equation */
    TensorId local;
    Rule rule;
} Producer;

/* Only an element is moved: a load, f32 of one, stop. */
static int is_copy(const Kernel *k, ExprId e)
{
    while (x_at(k, e)->kind == X_OP && (x_at(k, e)->op == OP_f32 || x_at(k, e)->op == OP_stop))
        e = x_arg(k, e, 0);
    return x_at(k, e)->kind == X_LOAD;
}

static uint32_t work(const Kernel *k, ExprId e)
{
    uint8_t *seen = x_reachable(k, e, EVERYWHERE);
    uint32_t cost = 0;
    for (ExprId n = 0; n <= e; n++)
        if (seen[n] && x_at(k, n)->kind == X_OP)
            cost += scalar_table[x_at(k, n)->op].cost;
    return cost;
}

static int plain_lhs(const Kernel *k, const Equation *q)
{
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(k, q->index[i])->kind != X_INDEX)
            return 0;
    return 1;
}

static Rule rule_of(const Kernel *k, const Equation *q)
{
    if (is_copy(k, q->rhs))
        return RULE_COPY;
    if (elem_type(k->tensors.at[q->lhs].elem) == TY_INT)
        return RULE_NONE; /* storing an integer checks its range */
    return lower_has_reduce(k, q->rhs) ? RULE_EPILOGUE : RULE_POINTWISE;
}

/* Every expression of an equation: its subscripts, right-hand side and guard. */
static uint32_t parts_of(const Equation *q, ExprId *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->nindex; i++)
        out[n++] = q->index[i];
    if (q->rhs != NONE)
        out[n++] = q->rhs;
    if (q->guard != NONE)
        out[n++] = q->guard;
    return n;
}

/* Is an index variable around `node` of the equation: on the left, or bound by a reduction over it? */
static uint32_t indices_around(const Kernel *k, const Equation *q, ExprId root, ExprId node)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->nindex; i++)
        n += x_at(k, q->index[i])->kind == X_INDEX;
    n += q->kind == EQ_TOP;
    uint8_t *seen = x_reachable(k, root, EVERYWHERE);
    for (ExprId e = node + 1; e <= root; e++)
        if (seen[e] && x_at(k, e)->kind == X_REDUCE && x_reachable(k, e, EVERYWHERE)[node])
            n += x_at(k, e)->nbound;
    return n;
}

/* Does the load ask with distinct plain indices, all that are around it? */
static int asks_once(const Kernel *k, const Equation *q, ExprId root, ExprId load)
{
    uint32_t n = x_at(k, load)->nargs;
    for (uint32_t a = 0; a < n; a++) {
        if (x_at(k, x_arg(k, load, a))->kind != X_INDEX)
            return 0;
        for (uint32_t b = 0; b < a; b++)
            if (x_arg(k, load, a) == x_arg(k, load, b))
                return 0;
    }
    return indices_around(k, q, root, load) == n;
}

/* The reader's left-hand side is the producer's, in order, and the load stands outside every reduction. */
static int same_element(const Kernel *k, const Equation *reader, ExprId load)
{
    if (reader->kind != EQ_ASSIGN && reader->kind != EQ_ADD)
        return 0;
    uint32_t n = x_at(k, load)->nargs;
    uint8_t *outside = x_reachable(k, reader->rhs, X_REDUCE);
    for (ExprId e = load + 1; e <= reader->rhs; e++)
        if (outside[e] && x_at(k, e)->kind == X_REDUCE && x_reachable(k, e, EVERYWHERE)[load])
            return 0;
    if (reader->nindex != n)
        return 0;
    for (uint32_t a = 0; a < n; a++)
        if (reader->index[a] != x_arg(k, load, a))
            return 0;
    return 1;
}

/* Would the producer's value be another one at equation `at`, because something it reads is written in between? */
static int is_stale(const Producer *p, uint32_t at)
{
    const Kernel *k = p->k;
    for (uint32_t i = p->at + 1; i <= at; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->kind != EQ_CHECK && q->lhs != NONE && i < at && x_loads(k, k->eqs.at[p->at].rhs, q->lhs))
            return 1;
        if (i == at && q->kind != EQ_CHECK && q->lhs != NONE && k->tensors.at[q->lhs].role == ROLE_INOUT &&
            x_loads(k, k->eqs.at[p->at].rhs, q->lhs))
            return 1;
    }
    return 0;
}

static int load_fits(const Producer *p, const Equation *q, ExprId root, ExprId load)
{
    switch (p->rule) {
    case RULE_NONE: return 0;
    case RULE_COPY: return 1;
    case RULE_POINTWISE: return asks_once(p->k, q, root, load);
    case RULE_EPILOGUE: return root == q->rhs && same_element(p->k, q, load);
    }
    return 0;
}

/* Does every reader allow it? */
static int fits(const Producer *p)
{
    const Kernel *k = p->k;
    uint32_t uses = 0;
    ExprId sums[REDUCE_MAX];
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        ExprId parts[MAX_RANK + 2];
        if (i == p->at || q->dead)
            continue;
        if (q->ids == p->local || q->lhs == p->local)
            return 0;
        for (uint32_t n = parts_of(q, parts); n-- > 0;) {
            uint8_t *seen = x_reachable(k, parts[n], EVERYWHERE);
            for (ExprId e = 0; e <= parts[n]; e++) {
                if (!seen[e] || x_at(k, e)->kind != X_LOAD || x_at(k, e)->sym != p->local)
                    continue;
                uses++;
                if (i < p->at || is_stale(p, i) || !load_fits(p, q, parts[n], e))
                    return 0;
            }
        }
        if (p->rule == RULE_EPILOGUE && x_loads(k, q->rhs, p->local) &&
            lower_reductions(k, q->rhs, sums, REDUCE_MAX) +
                    lower_reductions(k, k->eqs.at[p->at].rhs, sums, REDUCE_MAX) > SUMS_IN_ONE)
            return 0;
    }
    return p->rule == RULE_COPY || uses == 1 ||
           (p->rule == RULE_POINTWISE && work(k, k->eqs.at[p->at].rhs) <= LITTLE_WORK);
}

static ExprId put_in(Kernel *k, ExprId e, void *user)
{
    const Producer *p = user;
    if (x_at(k, e)->kind != X_LOAD || x_at(k, e)->sym != p->local)
        return e;
    const Equation *q = &k->eqs.at[p->at];
    IndexId from[MAX_RANK];
    ExprId to[MAX_RANK];
    for (uint32_t i = 0; i < q->nindex; i++) {
        from[i] = x_at(k, q->index[i])->sym;
        to[i] = x_arg(k, e, i);
    }
    return x_substitute(k, q->rhs, from, to, q->nindex);
}

static void inline_into_readers(Producer *p)
{
    Kernel *k = p->k;
    for (uint32_t i = p->at + 1; i < k->eqs.len; i++) {
        Equation q = k->eqs.at[i];
        for (uint32_t n = 0; n < q.nindex; n++)
            q.index[n] = x_rewrite(k, q.index[n], put_in, p);
        q.rhs = x_rewrite(k, q.rhs, put_in, p);
        q.guard = x_rewrite(k, q.guard, put_in, p);
        k->eqs.at[i] = q;
    }
    k->eqs.at[p->at].dead = 1;
}

static void fuse_kernel(Kernel *k)
{
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->kind != EQ_ASSIGN || k->tensors.at[q->lhs].role != ROLE_LOCAL || !plain_lhs(k, q))
            continue;
        Producer p = {.k = k, .at = i, .local = q->lhs, .rule = rule_of(k, q)};
        if (fits(&p))
            inline_into_readers(&p);
    }
    ir_compact(k);
}

void pass_fuse(Module *m, const PassContext *c)
{
    (void)c;
    for (uint32_t i = 0; i < m->kernels.len; i++)
        fuse_kernel(m->kernels.at[i]);
}
