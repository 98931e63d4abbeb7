/* canonicalise: one form for expressions that mean the same. The rules are in canonicalise_*.c; see Note
 * [Bits] and Note [Accesses] in canonicalise.h. */
#include "passes/canonicalise.h"

/* Subscripts of an access, and of rt.row(t, k), whose rules left an index alone. */
static ExprId canon_subscripts(Kernel *k, ExprId e, const Axis *axes)
{
    ExprId args[MAX_RANK];
    uint32_t n = x_at(k, e)->nargs;
    for (uint32_t a = 0; a < n; a++)
        args[a] = x_subscript(k, x_arg(k, e, a), axes[a]);
    return x_with_args(k, e, args);
}

static ExprId canon_load(Kernel *k, ExprId e)
{
    return canon_subscripts(k, e, k->tensors.at[x_at(k, e)->sym].axes);
}

static ExprId canon_row(Kernel *k, ExprId e)
{
    const Route *r = &k->routes.at[x_at(k, e)->sym];
    return canon_route_map(k, canon_subscripts(k, e, (Axis[]){{r->tokens, NONE}, {r->choices, NONE}}));
}

static ExprId canon_node(Kernel *k, ExprId e, void *user)
{
    (void)user;
    switch ((ExprKind)x_at(k, e)->kind) {
    case X_OP: return canon_op(k, e);
    case X_IF: return canon_if(k, e);
    case X_REDUCE: return canon_reduce(k, e);
    case X_LOAD: return canon_load(k, e);
    case X_ROW: return canon_row(k, e);
    case X_TOKEN:
    case X_SLOT: return canon_route_map(k, e);
    case X_FLOAT:
    case X_INT:
    case X_EXTENT:
    case X_INDEX:
    case X_GROUP:
    case X_LANES:
    case X_THREADS: break;
    }
    return e;
}

ExprId canon_expr(Kernel *k, ExprId e) { return x_rewrite(k, e, canon_node, NULL); }

enum { ROUNDS_MAX = 12 };

/* Every rule makes progress (fewer bound indices, fewer nodes in a sum), so a few rounds reach the end. */
static ExprId settled(Kernel *k, ExprId e)
{
    for (int round = 0; e != NONE && round < ROUNDS_MAX; round++) {
        ExprId next = canon_expr(k, e);
        if (next == e)
            break;
        e = next;
    }
    return e;
}

static void canon_equation(Kernel *k, Equation *q)
{
    Equation c = *q;
    for (uint32_t i = 0; i < c.nindex; i++)
        c.index[i] = x_subscript(k, settled(k, c.index[i]), k->tensors.at[c.lhs].axes[i]);
    c.rhs = settled(k, c.rhs);
    if (c.kind == EQ_ASSIGN && c.rhs != NONE)
        c.rhs = x_as(k, c.rhs, (Type)x_at(k, q->rhs)->type);
    if (c.guard != NONE) {
        Conjuncts guard = canon_conjuncts(k, settled(k, c.guard), NONE);
        c.guard = canon_and(k, c.loc, guard.list, guard.n);
        c.dead = guard.never;
    }
    *q = c;
}

void canonicalise_kernel(Kernel *k)
{
    if (!k->module->derives.len) /* `pass` of what is whole is proved of what is whole */
        canon_halves(k);
    for (uint32_t q = 0; q < k->eqs.len; q++)
        canon_equation(k, &k->eqs.at[q]);
    ir_compact(k);
}

/* Before:  d_x[t, h] = sum(r where rt.token(r) == t) d_xp[r, h]
 * After:   d_x[t, h] = sum(k where rt.row(t, k) >= 0) d_xp[rt.row(t, k), h]
 * Requires nothing. Gives FACT_CANONICAL. */
void pass_canonicalise(Module *m, const PassContext *c)
{
    (void)c;
    for (uint32_t i = 0; i < m->kernels.len; i++)
        canonicalise_kernel(m->kernels.at[i]);
}
