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
#include "lower/lower.h"
#include "passes/join.h"

typedef struct Joining {
    Lower *l;
    Join beside;
    IndexId *zero; /* by index: what takes its place, or NONE */
} Joining;

/* ---- joining ---- */

/* The index of that extent that is always 0: one for all, so that equal accesses stay equal. */
static IndexId zero_of(Lower *l, Axis axis)
{
    const Kernel *k = l->k;
    for (uint32_t z = 0; z < l->env.zeros.len; z++)
        if (ext_same(k->module, k->indices.at[l->env.zeros.at[z]].axis.extent, axis.extent))
            return l->env.zeros.at[z];
    IndexId z = ir_index(l->k, ir_fresh_name(l->k, "zero"), (Loc){0}, axis);
    lower_bind(l, z, x_int(l->k, (Loc){0}, 0), NONE);
    vec_push(k->module->arena, &l->env.zeros, z);
    return z;
}

static int join_from(Joining *j, IndexId first)
{
    Lower *l = j->l;
    Module *m = l->k->module;
    IndexId last = first;
    Extent length = l->k->indices.at[first].axis.extent;
    for (IndexId in = join_inner(&j->beside, first); in != NONE; in = join_inner(&j->beside, in)) {
        j->zero[last] = zero_of(l, l->k->indices.at[last].axis);
        length = ext_mul(m, length, l->k->indices.at[in].axis.extent);
        last = in;
    }
    if (last != first)
        vec_push(m->arena, &l->env.joined, (Joined){last, length});
    return last != first;
}

/* ---- rewriting ---- */

static ExprId without_bound(Kernel *k, const Joining *j, ExprId e)
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
    const Joining *j = user;
    const Expr *x = x_at(k, e);
    switch ((ExprKind)x->kind) {
    case X_INDEX:
        return x->sym < j->beside.n && j->zero[x->sym] != NONE ? x_index(k, x->loc, j->zero[x->sym]) : e;
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

static ExprId put_subscript(Kernel *k, const Joining *j, ExprId e)
{
    const Expr *x = x_at(k, e);
    return x->kind == X_INDEX && j->zero[x->sym] != NONE ? x_int(k, x->loc, 0)
                                                         : x_rewrite(k, e, put, (void *)j);
}

static void rewrite(Joining *j, Equation *q)
{
    Kernel *k = j->l->k;
    for (uint32_t a = 0; a < q->nindex; a++)
        q->index[a] = put_subscript(k, j, q->index[a]);
    q->rhs = x_rewrite(k, q->rhs, put, j);
}

void lower_join(Lower *l, Members *m, const Cluster *c)
{
    l->env.joined.len = 0;
    if (m->at[0].kind == EQ_CHECK || m->at[0].kind == EQ_ROUTE)
        return;
    ArenaMark mark = arena_mark(l->k->module->scratch);
    Joining j = {.l = l, .beside = join_of(l->k, m->at, m->n, c)};
    int joined = 0;
    j.zero = join_by_index(&j.beside, NONE);
    for (IndexId i = 0; i < j.beside.n; i++)
        if (join_is_outermost(&j.beside, i))
            joined |= join_from(&j, i);
    for (uint32_t q = 0; joined && q < m->n; q++)
        rewrite(&j, &m->at[q]);
    arena_release(l->k->module->scratch, mark);
}
