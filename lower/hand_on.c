/* Row-block members that hand their sums on.
 *
 * Note [Sums handed on]. What a member computes from the sums of its block product goes over the block in the thread's memory once
 * more. Where only one other member reads it, element by element, that one computes it on its way.
 *   before:  d_e[i, j] = (sum(d) dy[i, d] * v[j, d]) + d_z[i]     d_s[i, j] = bf16(d_e[i, j] * e[i, j])
 *   after:   d_e[i, j] = sum(d) dy[i, d] * v[j, d]                d_s[i, j] = bf16((d_e[i, j] + d_z[i]) * e[i, j])
 * The sums are f32 in memory as in registers, so no bit changes. */
#include "lower/rowblock.h"

/* Is it stored by itself, at index variables that differ? */
static int is_plain(const Kernel *k, const Equation *q)
{
    if (q->kind != EQ_ASSIGN || q->along || q->ids != NONE)
        return 0;
    for (uint32_t a = 0; a < q->nindex; a++)
        for (uint32_t b = 0; b <= a; b++) {
            IndexId i = x_plain_index(k, q->index[a]);
            if (i == NONE || (b < a && i == x_plain_index(k, q->index[b])))
                return 0;
        }
    return 1;
}

/* The sum that member q could hand on, from which it computes something; or NONE. */
static ExprId sum_of(Lower *l, const Members *m, const Cluster *c, uint32_t q)
{
    Kernel *k = l->k;
    const Equation *e = &m->at[q];
    const Tensor *t = &k->tensors.at[e->lhs];
    ExprId sum[REDUCE_MAX];
    Members one = {.at = {*e}, .n = 1};
    if (!is_plain(k, e) || (q + 1 < m->n && m->at[q + 1].along) || !t->placed || t->elem != EL_F32 ||
        !lower_has_row(k, c, e) || query_reductions(k, e->rhs, sum, REDUCE_MAX) != 1 || sum[0] == e->rhs ||
        x_at(k, sum[0])->op != RED_SUM || !checks_inside(k, sum[0]))
        return NONE;
    return lower_decide(l, &one, e->lhs, c, c->row)->nproducts ? sum[0] : (ExprId)NONE;
}

/* The one load of t in the members, in an equation that goes over the same variables element by element; or NONE. */
static ExprId only_load(const Lower *l, const Members *m, TensorId t, uint32_t *reader)
{
    const Kernel *k = l->k;
    ExprId found = NONE;
    for (uint32_t q = 0; q < m->n; q++)
        each_below (x, k, m->at[q].rhs, EVERYWHERE) {
            if (x_at(k, *x)->kind != X_LOAD || x_at(k, *x)->sym != t)
                continue;
            if (found != NONE)
                return NONE;
            found = *x;
            *reader = q;
        }
    const Equation *by = found == NONE ? NULL : &m->at[*reader];
    if (!by || !is_plain(k, by) || query_has_reduce(k, by->rhs) || by->nindex != x_at(k, found)->nargs)
        return NONE;
    for (uint32_t a = 0; a < by->nindex; a++)
        if (x_plain_index(k, x_arg(k, found, a)) != x_plain_index(k, by->index[a]))
            return NONE;
    return found;
}

static void hand_on(Kernel *k, Equation *from, Equation *to, ExprId sum, ExprId load)
{
    IndexId old[MAX_RANK];
    ExprId new[MAX_RANK];
    for (uint32_t a = 0; a < from->nindex; a++) {
        old[a] = x_plain_index(k, from->index[a]);
        new[a] = x_arg(k, load, a);
    }
    ExprId rest = x_replace(k, from->rhs, sum, x_load(k, from->loc, from->lhs, from->index));
    to->rhs = x_replace(k, to->rhs, load, x_substitute(k, rest, old, new, from->nindex));
    from->rhs = sum;
}

const Members *rowblock_hand_on(Lower *l, const Members *m, const Cluster *c)
{
    Members *to = arena_new_of(l->k->module->arena, Members);
    *to = *m;
    for (uint32_t q = 0; q < to->n; q++) {
        uint32_t reader = 0;
        ExprId sum = sum_of(l, to, c, q),
               load = sum == NONE ? (ExprId)NONE : only_load(l, to, to->at[q].lhs, &reader);
        if (load != NONE)
            hand_on(l->k, &to->at[q], &to->at[reader], sum, load);
    }
    return to;
}
