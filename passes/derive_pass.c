/* derive, `wrt x pass`: is d_x the cotangent of one output, element for element? Then the caller need not copy it: a
 * residual y[t, h] = x[t, h] + f[t, h] has d_x = d_y. What is asked is the equation that the sweep made for d_x, with
 * locals that are copies looked through: no pattern of the forward kernel is recognised. */
#include "passes/canonicalise.h"
#include "passes/derive.h"

/* The only equation of t, if its left-hand side is plain variables; or NULL. */
static const Equation *definition_of(const Kernel *k, TensorId t)
{
    const Equation *found = NULL;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->lhs != t)
            continue;
        if (found || q->kind != EQ_ASSIGN)
            return NULL;
        found = q;
        for (uint32_t n = 0; n < q->nindex; n++)
            if (x_at(k, q->index[n])->kind != X_INDEX)
                return NULL;
    }
    return found;
}

/* e, or what the local that it loads is defined as there. */
static ExprId look_through(Kernel *k, ExprId e)
{
    IndexId from[MAX_RANK];
    ExprId to[MAX_RANK];
    for (;;) {
        e = canon_expr(k, e);
        const Equation *q = x_at(k, e)->kind == X_LOAD ? definition_of(k, x_at(k, e)->sym) : NULL;
        if (!q)
            return e;
        for (uint32_t i = 0; i < q->nindex; i++) {
            from[i] = x_at(k, q->index[i])->sym;
            to[i] = x_arg(k, e, i);
        }
        e = x_substitute(k, q->rhs, from, to, q->nindex);
    }
}

static TensorId output_of(Sweep *s, TensorId incoming)
{
    for (TensorId t = 0; t < s->tensors.len; t++)
        if (s->tensors.at[t].incoming == incoming)
            return t;
    return NONE;
}

/* The output whose cotangent e is at exactly the indices of q, or NONE. */
static TensorId passed(Sweep *s, const Equation *q, ExprId e)
{
    const Kernel *k = s->k;
    if (x_at(k, e)->kind != X_LOAD || x_at(k, e)->nargs != q->nindex)
        return NONE;
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_arg(k, e, i) != q->index[i])
            return NONE;
    return output_of(s, x_at(k, e)->sym);
}

enum { SHOWN_MAX = 200 }; /* operations */

static void refuse(const Sweep *s, const Equation *q, const struct DeriveWrt *wrt)
{
    Kernel *k = s->k;
    Equation shown = *q;
    Text text = {.arena = s->arena};
    shown.rhs = canon_expr(k, q->rhs);
    if (x_written_nodes(k, shown.rhs, SHOWN_MAX) <= SHOWN_MAX)
        ir_print_equation(k, &shown, &text);
    else
        text_add(&text, "it has more than %d operations", SHOWN_MAX);
    diag_add(k->module->diags, DIAG_derive_pass, wrt->loc, "take `pass` out, or say `+=` or `as f32` instead",
             "the gradient of `%s` is not the cotangent of one output, unchanged: %s", wrt->name,
             text_string(&text));
}

TensorId derive_prove_pass(Sweep *s, TensorId target, const struct DeriveWrt *wrt)
{
    Kernel *k = s->k;
    const Equation *q = definition_of(k, target);
    if (!q)
        BUG(s->arena, "derive: no equation for d_%s of kernel %s", wrt->name, k->name);
    const Equation made = *q;
    TensorId output = passed(s, &made, look_through(k, made.rhs));
    if (output == NONE)
        refuse(s, &made, wrt);
    for (uint32_t i = 0; i < k->eqs.len; i++)
        k->eqs.at[i].dead |= k->eqs.at[i].lhs == target;
    ir_compact(k);
    return output;
}
