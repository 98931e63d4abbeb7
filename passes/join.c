/* Which neighbouring axes some equations only use as one (join.h). */
#include "passes/join.h"

#include "passes/cluster.h"

enum { UNSEEN = NONE - 1 };

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
    const Kernel *k = j->k;
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
    Kernel *k = j->k;
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
    const Kernel *k = j->k;
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
    const Expr *x = x_at(j->k, e);
    ExprId at[MAX_RANK];
    uint32_t n = x->nargs;
    for (uint32_t a = 0; a < n; a++)
        at[a] = x_arg(j->k, e, a);
    look_at_subscripts(j, x->sym, at, n);
}

static void look(Join *j, ExprId e)
{
    const Kernel *k = j->k;
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

/* Only what one reduction binds, or none, is joined. */
static void part_at(Join *j, ExprId reduce)
{
    const Kernel *k = j->k;
    for (uint32_t b = 0; b < x_at(k, reduce)->nbound; b++) {
        IndexId i = x_bound(k, reduce, b);
        if (!x_binds(k, reduce, j->before[i]))
            j->before[i] = NONE;
        if (!x_binds(k, reduce, j->after[i]))
            j->after[i] = NONE;
    }
}

static void look_at_member(Join *j, const Equation *q)
{
    Kernel *k = j->k;
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
static void look_at_rowblock(Join *j, const Cluster *c)
{
    stands(j, NONE, c->row, NONE);
    for (uint32_t o = 0; o < c->nouter; o++)
        stands(j, NONE, c->outer[o], NONE);
}

/* ---- what can be joined ---- */

/* The index that i is a row of, or NONE. */
IndexId join_inner(const Join *j, IndexId i)
{
    IndexId in = j->after[i];
    return in < j->n && j->before[in] == i ? in : (IndexId)NONE;
}

int join_is_outermost(const Join *j, IndexId i)
{
    return j->before[i] >= j->n || join_inner(j, j->before[i]) != i;
}

IndexId *join_by_index(const Join *j, IndexId fill)
{
    IndexId *at = arena_array(j->k->module->scratch, IndexId, j->n + 1);
    for (uint32_t i = 0; i < j->n; i++)
        at[i] = fill;
    return at;
}

Join join_of(Kernel *k, const Equation *q, uint32_t n, const Cluster *c)
{
    Join j = {.k = k, .n = k->indices.len};
    j.before = join_by_index(&j, UNSEEN);
    j.after = join_by_index(&j, UNSEEN);
    j.seen = arena_alloc(k->module->scratch, k->exprs.len);
    for (uint32_t m = 0; m < n; m++)
        look_at_member(&j, &q[m]);
    if (c && c->kind == CLUSTER_ROWBLOCK)
        look_at_rowblock(&j, c);
    for (uint32_t r = 0; r < j.reductions.len; r++)
        part_at(&j, j.reductions.at[r]);
    return j;
}

uint32_t join_in_sums(Kernel *k, const Equation *q)
{
    ArenaMark mark = arena_mark(k->module->scratch);
    Join j = join_of(k, q, 1, NULL);
    uint32_t n = 0;
    for (uint32_t r = 0; r < j.reductions.len; r++)
        for (uint32_t b = 0; b < x_at(k, j.reductions.at[r])->nbound; b++)
            n += join_inner(&j, x_bound(k, j.reductions.at[r], b)) != NONE;
    arena_release(k->module->scratch, mark);
    return n;
}
