/* canonicalise: an output whose last axis has two places, each computed in its own way, is two equations, over whose other index lanes
 * go (Note [Pairs] in backend/emit_memory.c), as rotary positions and gates beside their values have them in gradients.
 *
 * Before:  d_x[t, f, i] = if(i == 0, a[t, f], 0) + if(i == 1, b[t, f], 0)
 * After:   d_x[t, f, 0] = a[t, f] + 0     d_x[t, f, 1] = 0 + b[t, f] */
#include "passes/canonicalise.h"

enum { HALVES = 2 };

/* Does e compare i with a number? */
static int asks_for_place(const Kernel *k, ExprId e, IndexId i)
{
    each_below (n, k, e, EVERYWHERE) {
        const Expr *x = x_at(k, *n);
        if (x->kind != X_OP || (x->op != OP_eq && x->op != OP_ne))
            continue;
        for (uint32_t a = 0; a < HALVES; a++)
            if (x_plain_index(k, x_arg(k, *n, a)) == i && x_at(k, x_arg(k, *n, 1 - a))->kind == X_INT)
                return 1;
    }
    return 0;
}

/* The last left-hand index of such an equation, or NONE. */
static IndexId halved_index(const Kernel *k, const Equation *q)
{
    if ((q->kind != EQ_ASSIGN && q->kind != EQ_ADD) || q->nindex < 2 ||
        k->tensors.at[q->lhs].role == ROLE_LOCAL)
        return NONE;
    IndexId i = x_plain_index(k, q->index[q->nindex - 1]);
    int64_t places;
    if (i == NONE || k->indices.at[i].axis.group != NONE ||
        !ext_is_const(k->module, k->indices.at[i].axis.extent, &places) || places != HALVES ||
        !asks_for_place(k, q->rhs, i))
        return NONE;
    for (uint32_t a = 0; a + 1u < q->nindex; a++)
        if (x_uses_index(k, q->index[a], i))
            return NONE;
    return i;
}

void canon_halves(Kernel *k)
{
    Vec(Equation) out = {0};
    for (uint32_t n = 0; n < k->eqs.len; n++) {
        const Equation q = k->eqs.at[n];
        IndexId i = halved_index(k, &q);
        for (int place = 0; place < HALVES && i != NONE; place++) {
            ExprId at = x_int(k, q.loc, place);
            Equation half = q;
            half.index[q.nindex - 1] = at;
            half.rhs = x_substitute(k, q.rhs, &i, &at, 1);
            vec_push(k->module->arena, &out, half);
        }
        if (i == NONE)
            vec_push(k->module->arena, &out, q);
    }
    k->eqs.at = out.at;
    k->eqs.len = out.len;
    k->eqs.cap = out.cap;
}
