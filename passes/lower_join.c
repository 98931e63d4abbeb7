/* Neighbouring axes that a launch only uses as one become one.
 *
 * before:  y[t, f] = sum(n, d) x[t, n, d] * w[n, d, f]
 * after:   y[t, f] = sum(d) x[t, 0, d] * w[0, d, f], d running over 0..N*D
 *
 * Note [Joined axes]. In row-major memory the element [n, d] is also [0, n*D + d]. So where n and d stand side by side in
 * every access of a launch, and nowhere else, n stays at 0 and d runs on through all rows: no pass, statement or hook that
 * comes later sees two axes. Blocks, slabs, strips and lanes then go over N*D elements instead of D, and the order of
 * additions is that of d inside n. An affine subscript n*D + d says the same and needs no second axis.
 * In expressions the index of extent N that is always 0 stands in the place of n, so that [n, d] is inside its tensor for
 * all who ask; lower_length() tells how far d runs. */
#include "passes/cluster.h"
#include "passes/lower.h"

enum { UNSEEN = NONE - 1 };

typedef struct Join {
    Lower *l;
    IndexId *before,
        *after;    /* by index: what stands beside it everywhere; NONE: nothing, or not always the same */
    IndexId *zero; /* by index: what takes its place, or NONE */
    uint8_t *seen; /* by expression */
    uint32_t n;    /* indices */
    Vec(ExprId) reductions;
} Join;

Extent lower_length(const Lower *l, IndexId i)
{
    for (uint32_t n = 0; n < l->joined.len; n++)
        if (l->joined.at[n].last == i)
            return l->joined.at[n].length;
    return l->k->indices.at[i].axis.extent;
}

int lower_is_zero(const Lower *l, IndexId i)
{
    for (uint32_t z = 0; z < l->zeros.len; z++)
        if (l->zeros.at[z] == i)
            return 1;
    return 0;
}

/* ---- who stands beside whom ---- */

static void meet(IndexId *beside, IndexId i)
{
    *beside = *beside == UNSEEN || *beside == i ? i : (IndexId)NONE;
}

static void stands(Join *j, IndexId before, IndexId i, IndexId after)
{
    meet(&j->before[i], before);
    meet(&j->after[i], after);
}

static void alone(Join *j, ExprId e)
{
    const Kernel *k = j->l->k;
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_INDEX)
            stands(j, NONE, x_at(k, *n)->sym, NONE);
}

static int is_dense(const Kernel *k, IndexId i) { return k->indices.at[i].axis.group == NONE; }

static IndexId dense_index(const Kernel *k, ExprId e)
{
    const Expr *x = x_at(k, e);
    return x->kind == X_INDEX && is_dense(k, x->sym) ? x->sym : (IndexId)NONE;
}

/* Does one step of the axis before `axis` go as far as all of i's steps on it? */
static int is_row_of(const Kernel *k, const Tensor *t, uint32_t axis, IndexId i)
{
    int row_major = t->layout == LAYOUT_ROWS || axis + 2u < t->rank;
    return row_major && ext_same(k->module, t->axes[axis].extent, k->indices.at[i].axis.extent);
}

static void look(Join *j, ExprId e);

/* The term of f whose steps go as far as all steps of term n, or, `inside`, the other way round. */
static IndexId term_beside(const Kernel *k, const Affine *f, uint32_t n, int inside)
{
    for (uint32_t m = 0; m < f->n; m++) {
        uint32_t in = inside ? m : n, out = inside ? n : m;
        Extent all = ext_mul(k->module, f->coef[in], k->indices.at[f->index[in]].axis.extent);
        if (m != n && is_dense(k, f->index[n]) && is_dense(k, f->index[m]) &&
            ext_same(k->module, f->coef[out], all))
            return f->index[m];
    }
    return NONE;
}

static void look_at_form(Join *j, ExprId e)
{
    Kernel *k = j->l->k;
    Affine f;
    if (!x_affine(k, e, &f)) {
        look(j, e);
        return;
    }
    for (uint32_t n = 0; n < f.n; n++)
        stands(j, term_beside(k, &f, n, 0), f.index[n], term_beside(k, &f, n, 1));
}

static void look_at_subscripts(Join *j, TensorId tensor, const ExprId *at, uint32_t n)
{
    const Kernel *k = j->l->k;
    const Tensor t = k->tensors.at[tensor];
    IndexId before = NONE;
    for (uint32_t a = 0; a < n; a++) {
        IndexId i = dense_index(k, at[a]), after = a + 1 < n ? dense_index(k, at[a + 1]) : (IndexId)NONE;
        if (i == NONE)
            look_at_form(j, at[a]);
        if (after != NONE && !is_row_of(k, &t, a + 1, after))
            after = NONE;
        if (i != NONE)
            stands(j, before, i, after);
        before = after == NONE ? (IndexId)NONE : i;
    }
}

static void look_at_load(Join *j, ExprId e)
{
    const Expr *x = x_at(j->l->k, e);
    ExprId at[MAX_RANK];
    uint32_t n = x->nargs;
    for (uint32_t a = 0; a < n; a++)
        at[a] = x_arg(j->l->k, e, a);
    look_at_subscripts(j, x->sym, at, n);
}

static void look(Join *j, ExprId e)
{
    const Kernel *k = j->l->k;
    const Expr x = *x_at(k, e);
    if (j->seen[e])
        return;
    j->seen[e] = 1;
    if (x.kind == X_LOAD) {
        look_at_load(j, e);
        return;
    }
    if (x.kind == X_INDEX)
        alone(j, e);
    if (x.kind == X_REDUCE)
        vec_push(k->module->scratch, &j->reductions, e);
    for (uint32_t a = 0; a < x.nargs; a++) {
        if (x.kind == X_REDUCE && a == 1)
            alone(j, x_arg(k, e, a)); /* conditions become bounds of loops */
        else
            look(j, x_arg(k, e, a));
    }
}

static int binds(const Kernel *k, ExprId reduce, IndexId i)
{
    for (uint32_t b = 0; b < x_at(k, reduce)->nbound; b++)
        if (x_bound(k, reduce, b) == i)
            return 1;
    return 0;
}

/* Only what one reduction binds, or none, is joined. */
static void part_at(Join *j, ExprId reduce)
{
    const Kernel *k = j->l->k;
    for (uint32_t b = 0; b < x_at(k, reduce)->nbound; b++) {
        IndexId i = x_bound(k, reduce, b);
        if (!binds(k, reduce, j->before[i]))
            j->before[i] = NONE;
        if (!binds(k, reduce, j->after[i]))
            j->after[i] = NONE;
    }
}

static void look_at_member(Join *j, const Equation *q)
{
    Kernel *k = j->l->k;
    if (q->kind == EQ_TOP) {
        alone(j, q->rhs);
        for (uint32_t a = 0; a < q->nindex; a++)
            alone(j, q->index[a]);
        return;
    }
    look_at_subscripts(j, q->lhs, q->index, q->nindex);
    look(j, q->rhs);
    ExprId needed = k->tensors.at[q->lhs].placed ? cluster_needed(k, q->lhs) : (ExprId)NONE;
    if (needed != NONE)
        alone(j, needed);
}

/* Its row and its outer indices stand as loops around all members. */
static void look_at_stripe(Join *j, const Cluster *c)
{
    stands(j, NONE, c->row, NONE);
    for (uint32_t o = 0; o < c->nouter; o++)
        stands(j, NONE, c->outer[o], NONE);
}

/* ---- joining ---- */

/* The index of that extent that is always 0: one for all, so that equal accesses stay equal. */
static IndexId zero_of(Lower *l, Axis axis)
{
    const Kernel *k = l->k;
    for (uint32_t z = 0; z < l->zeros.len; z++)
        if (ext_same(k->module, k->indices.at[l->zeros.at[z]].axis.extent, axis.extent))
            return l->zeros.at[z];
    IndexId z = ir_index(l->k, ir_fresh_name(l->k, "zero"), (Loc){0}, axis);
    lower_bind(l, z, x_int(l->k, (Loc){0}, 0), NONE);
    vec_push(k->module->arena, &l->zeros, z);
    return z;
}

/* The index that i is a row of, or NONE. */
static IndexId inner(const Join *j, IndexId i)
{
    IndexId in = j->after[i];
    return in < j->n && j->before[in] == i ? in : (IndexId)NONE;
}

static int is_outermost(const Join *j, IndexId i)
{
    return j->before[i] >= j->n || inner(j, j->before[i]) != i;
}

static int join_from(Join *j, IndexId first)
{
    Lower *l = j->l;
    Module *m = l->k->module;
    IndexId last = first;
    Extent length = l->k->indices.at[first].axis.extent;
    for (IndexId in = inner(j, first); in != NONE; in = inner(j, in)) {
        j->zero[last] = zero_of(l, l->k->indices.at[last].axis);
        length = ext_mul(m, length, l->k->indices.at[in].axis.extent);
        last = in;
    }
    if (last != first)
        vec_push(m->arena, &l->joined, (Joined){last, length});
    return last != first;
}

/* ---- rewriting ---- */

static ExprId without_bound(Kernel *k, const Join *j, ExprId e)
{
    const Expr x = *x_at(k, e);
    IndexId bound[UINT8_MAX];
    uint32_t n = 0;
    for (uint32_t b = 0; b < x.nbound; b++)
        if (j->zero[x_bound(k, e, b)] == NONE)
            bound[n++] = x_bound(k, e, b);
    return n == x.nbound ? e
                         : x_reduce(k, x.loc, (ReduceKind)x.op, bound, n, x_arg(k, e, 0), x_condition(k, e));
}

/* zero * c + i is i. */
static ExprId folded(Kernel *k, const Lower *l, ExprId e)
{
    if (x_at(k, e)->type != TY_INT || x_at(k, e)->nargs != 2)
        return e;
    for (uint32_t a = 0; a < 2; a++) {
        const Expr *x = x_at(k, x_arg(k, e, a));
        if (x_is_op(k, e, OP_mul) && x->kind == X_INDEX && lower_is_zero(l, x->sym))
            return x_int(k, (Loc){0}, 0);
        if (x_is_op(k, e, OP_add) && x_is_int(k, x_arg(k, e, a), 0))
            return x_arg(k, e, 1 - a);
    }
    return e;
}

static ExprId put(Kernel *k, ExprId e, void *user)
{
    const Join *j = user;
    const Expr *x = x_at(k, e);
    switch ((ExprKind)x->kind) {
    case X_INDEX: return x->sym < j->n && j->zero[x->sym] != NONE ? x_index(k, x->loc, j->zero[x->sym]) : e;
    case X_REDUCE: return without_bound(k, j, e);
    case X_OP: return folded(k, j->l, e);
    case X_FLOAT:
    case X_INT:
    case X_EXTENT:
    case X_LOAD:
    case X_IF:
    case X_TOKEN:
    case X_SLOT:
    case X_ROW:
    case X_GROUP:
    case X_LANES:
    case X_THREADS: break;
    }
    return e;
}

static void rewrite(Join *j, Equation *q)
{
    Kernel *k = j->l->k;
    for (uint32_t a = 0; a < q->nindex; a++) {
        IndexId i = dense_index(k, q->index[a]);
        q->index[a] =
            i != NONE && j->zero[i] != NONE ? x_int(k, q->loc, 0) : x_rewrite(k, q->index[a], put, j);
    }
    q->rhs = x_rewrite(k, q->rhs, put, j);
}

/* ---- what is joined at all ---- */

static IndexId *by_index(const Join *j, IndexId fill)
{
    IndexId *at = arena_array(j->l->k->module->scratch, IndexId, j->n + 1);
    for (uint32_t i = 0; i < j->n; i++)
        at[i] = fill;
    return at;
}

static Join look_at_all(Lower *l, const Members *m, const Cluster *c)
{
    const Kernel *k = l->k;
    Join j = {.l = l, .n = k->indices.len};
    j.before = by_index(&j, UNSEEN);
    j.after = by_index(&j, UNSEEN);
    j.zero = by_index(&j, NONE);
    j.seen = arena_alloc(k->module->scratch, k->exprs.len);
    for (uint32_t q = 0; q < m->n; q++)
        look_at_member(&j, &m->at[q]);
    if (c && c->kind == CLUSTER_STRIPE)
        look_at_stripe(&j, c);
    for (uint32_t r = 0; r < j.reductions.len; r++)
        part_at(&j, j.reductions.at[r]);
    return j;
}

uint32_t lower_joined_in_sums(Kernel *k, const Equation *q)
{
    Lower l = {.k = k};
    ArenaMark mark = arena_mark(k->module->scratch);
    Join j = look_at_all(&l, &(Members){.at = {*q}, .n = 1}, NULL);
    uint32_t n = 0;
    for (uint32_t r = 0; r < j.reductions.len; r++)
        for (uint32_t b = 0; b < x_at(k, j.reductions.at[r])->nbound; b++)
            n += inner(&j, x_bound(k, j.reductions.at[r], b)) != NONE;
    arena_release(k->module->scratch, mark);
    return n;
}

void lower_join(Lower *l, Members *m, const Cluster *c)
{
    l->joined.len = 0;
    if (m->at[0].kind == EQ_CHECK || m->at[0].kind == EQ_ROUTE)
        return;
    ArenaMark mark = arena_mark(l->k->module->scratch);
    Join j = look_at_all(l, m, c);
    int joined = 0;
    for (IndexId i = 0; i < j.n; i++)
        if (is_outermost(&j, i))
            joined |= join_from(&j, i);
    for (uint32_t q = 0; joined && q < m->n; q++)
        rewrite(&j, &m->at[q]);
    arena_release(l->k->module->scratch, mark);
}
