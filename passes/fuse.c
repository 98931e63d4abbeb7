/* fuse: a local that its readers can just as well compute goes into them.
 *
 * requires: checks explicit, canonical     gives: fewer locals in memory
 * before:  xp[r, h] = x[rt.token(r), h]
 *          g[r, f] = sum(h) xp[r, h] * w[@r, h, f]
 * after:   g[r, f] = sum(h) x[rt.token(r), h] * w[@r, h, f]
 *
 * Two rules, each for a local with one defining equation; bits never change, since a local of its own type is read:
 *   copy       only moves an element (a gather, a transpose, f32 of one): into every reader
 *   pointwise  no reduction: where every reader asks for each element once, and there is one reader or little work
 * A product stays an equation of its own: forward and backward kernels then share its code (backend/plan_key.c), and
 * code generation is nearly all of a compilation. What stands behind a product in memory costs one pass over it. */
#include "passes/lower.h"

enum { LITTLE_WORK = 6, NODES_IN_ONE = 256 };

typedef enum Rule { RULE_NONE, RULE_COPY, RULE_POINTWISE } Rule;

typedef struct TensorList {
    Vec(TensorId) list;
} TensorList;

typedef struct Producer {
    Kernel *k;
    TensorList *reads; /* by equation: what it loads, each tensor once */
    uint32_t at;       /* its equation */
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
    uint32_t cost = 0;
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_OP)
            cost += scalar_table[x_at(k, *n)->op].cost;
    return cost;
}

/* Nodes of e as text, where a shared part is written out at each use; saturates. */
static uint32_t written_nodes(const Kernel *k, ExprId e)
{
    Nodes below = x_below(k, e, EVERYWHERE);
    uint32_t *size = arena_array(k->module->arena, uint32_t, below.n);
    for (uint32_t i = 0; i < below.n; i++) {
        size[i] = 1;
        for (uint32_t a = 0; a < x_at(k, below.at[i])->nargs; a++)
            for (uint32_t j = i; j-- > 0;)
                if (below.at[j] == x_arg(k, below.at[i], a)) {
                    size[i] = size[i] > NODES_IN_ONE ? size[i] : size[i] + size[j];
                    break;
                }
        if (size[i] > NODES_IN_ONE)
            return size[i];
    }
    return size[below.n - 1];
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
    return lower_has_reduce(k, q->rhs) ? RULE_NONE : RULE_POINTWISE;
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
    each_below (e, k, root, EVERYWHERE)
        if (x_at(k, *e)->kind == X_REDUCE && x_contains(k, *e, node))
            n += x_at(k, *e)->nbound;
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

static int reads(const Producer *p, uint32_t at, TensorId t)
{
    for (uint32_t i = 0; i < p->reads[at].list.len; i++)
        if (p->reads[at].list.at[i] == t)
            return 1;
    return 0;
}

/* Would the producer's value be another one at equation `at`, because something it reads is written before? The
 * reader itself counts when it writes in place. */
static int is_stale(const Producer *p, uint32_t at)
{
    const Kernel *k = p->k;
    for (uint32_t r = 0; r < p->reads[p->at].list.len; r++) {
        TensorId t = p->reads[p->at].list.at[r];
        if (k->tensors.at[t].role == ROLE_IN || k->tensors.at[t].role == ROLE_LOCAL)
            continue;
        for (uint32_t i = p->at + 1; i <= at; i++)
            if (k->eqs.at[i].kind != EQ_CHECK && k->eqs.at[i].lhs == t)
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
    }
    return 0;
}

/* Loads of the local in equation i, counted; -1 when one of them does not allow it. */
static int fitting_loads(const Producer *p, uint32_t i)
{
    const Kernel *k = p->k;
    const Equation *q = &k->eqs.at[i];
    ExprId parts[MAX_RANK + 2];
    int uses = 0;
    if (q->ids == p->local || i < p->at || is_stale(p, i))
        return -1;
    for (uint32_t n = parts_of(q, parts); n-- > 0;)
        each_below (e, k, parts[n], EVERYWHERE) {
            if (x_at(k, *e)->kind != X_LOAD || x_at(k, *e)->sym != p->local)
                continue;
            if (!load_fits(p, q, parts[n], *e))
                return -1;
            uses++;
        }
    return uses;
}

/* Does every reader allow it? */
static int fits(const Producer *p)
{
    const Kernel *k = p->k;
    int uses = 0;
    if (p->rule != RULE_COPY && written_nodes(k, k->eqs.at[p->at].rhs) > NODES_IN_ONE)
        return 0;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (i == p->at || q->dead)
            continue;
        if (q->lhs == p->local)
            return 0;
        int more = reads(p, i, p->local) ? fitting_loads(p, i) : 0;
        if (more < 0)
            return 0;
        uses += more;
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

static void list_reads(Kernel *k, uint32_t at, TensorList *out)
{
    const Equation *q = &k->eqs.at[at];
    ExprId parts[MAX_RANK + 2];
    out->list.len = 0;
    Producer self = {.k = k, .reads = out};
    if (q->ids != NONE)
        vec_push(k->module->arena, &out->list, q->ids);
    for (uint32_t n = parts_of(q, parts); n-- > 0;)
        each_below (e, k, parts[n], EVERYWHERE)
            if (x_at(k, *e)->kind == X_LOAD && !reads(&self, 0, x_at(k, *e)->sym))
                vec_push(k->module->arena, &out->list, x_at(k, *e)->sym);
}

static void inline_into_readers(Producer *p)
{
    Kernel *k = p->k;
    for (uint32_t i = p->at + 1; i < k->eqs.len; i++) {
        Equation q = k->eqs.at[i];
        if (!reads(p, i, p->local))
            continue;
        for (uint32_t n = 0; n < q.nindex; n++)
            q.index[n] = x_rewrite(k, q.index[n], put_in, p);
        q.rhs = x_rewrite(k, q.rhs, put_in, p);
        q.guard = x_rewrite(k, q.guard, put_in, p);
        k->eqs.at[i] = q;
        list_reads(k, i, &p->reads[i]);
    }
    k->eqs.at[p->at].dead = 1;
}

static void fuse_kernel(Kernel *k)
{
    TensorList *lists = arena_array(k->module->arena, TensorList, k->eqs.len + 1);
    for (uint32_t i = 0; i < k->eqs.len; i++)
        list_reads(k, i, &lists[i]);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->kind != EQ_ASSIGN || k->tensors.at[q->lhs].role != ROLE_LOCAL || !plain_lhs(k, q))
            continue;
        Producer p = {.k = k, .reads = lists, .at = i, .local = q->lhs, .rule = rule_of(k, q)};
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
