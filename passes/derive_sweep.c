/* derive, second step: the sweep. See Note [Cotangents] and Note [Guards] in derive.h. */
#include "passes/derive.h"

static void sweep_expr(Sweep *s, ExprId root, ExprId d, const EvalSpace *space);

/* ---- spaces ---- */

static EvalSpace space_copy(Sweep *s, const EvalSpace *space)
{
    EvalSpace copy = {0};
    for (uint32_t i = 0; i < space->index.len; i++)
        vec_push(s->arena, &copy.index, space->index.at[i]);
    for (uint32_t i = 0; i < space->guard.len; i++)
        vec_push(s->arena, &copy.guard, space->guard.at[i]);
    return copy;
}

enum { CONDITIONS_MAX = 64 };

static void space_guard(Sweep *s, EvalSpace *space, ExprId condition, int soft)
{
    ExprId list[CONDITIONS_MAX];
    uint32_t n = x_conjuncts(s->k, condition, list, CONDITIONS_MAX);
    for (uint32_t i = 0; i < n; i++)
        vec_push(s->arena, &space->guard, (DeriveGuard){list[i], soft});
}

static void sweep_guarded(Sweep *s, ExprId e, ExprId d, const EvalSpace *space, ExprId condition, int soft)
{
    if (!derive_is_active(s, e))
        return;
    EvalSpace below = space_copy(s, space);
    space_guard(s, &below, condition, soft);
    sweep_expr(s, e, d, &below);
}

/* ---- scalar operations ---- */

static int is_zero(const Kernel *k, ExprId e)
{
    return x_at(k, e)->kind == X_FLOAT && x_at(k, e)->value.f == 0;
}

/* if(c, v, 0) is v where c: gives v and the condition (NONE: everywhere). */
static ExprId without_zeros(Kernel *k, ExprId e, ExprId *where)
{
    *where = NONE;
    if (x_at(k, e)->kind != X_IF)
        return e;
    Loc loc = x_at(k, e)->loc;
    ExprId c = x_arg(k, e, 0), then = x_arg(k, e, 1), otherwise = x_arg(k, e, 2), inner;
    if (is_zero(k, otherwise)) {
        ExprId value = without_zeros(k, then, &inner);
        *where = x_and(k, loc, c, inner);
        return value;
    }
    if (is_zero(k, then)) {
        ExprId value = without_zeros(k, otherwise, &inner);
        *where = x_and(k, loc, x_op1(k, loc, OP_not, c), inner);
        return value;
    }
    ExprId value = without_zeros(k, otherwise, &inner);
    if (inner == NONE)
        return e;
    *where = x_op2(k, loc, OP_or, c, inner);
    return x_if(k, loc, c, then, value);
}

static void sweep_op(Sweep *s, ExprId e, const ExprMap *into, const EvalSpace *space)
{
    Kernel *k = s->k;
    const ScalarRow *row = &scalar_table[x_at(k, e)->op];
    DeriveText v = {x_arg(k, e, 0), row->arity > 1 ? x_arg(k, e, 1) : (ExprId)NONE,
                    e == s->root ? s->root_value : e, x_map_get(into, e)};
    for (uint32_t n = 0; n < row->arity; n++) {
        ExprId arg = x_arg(k, e, n), where;
        if (!derive_is_active(s, arg) || !*row->gradient[n])
            continue;
        ExprId g = without_zeros(k, derive_text(k, x_at(k, e)->loc, row->gradient[n], v), &where);
        if (where == NONE)
            *x_map_at(into, arg) = derive_sum(k, x_map_get(into, arg), g);
        else
            sweep_guarded(s, arg, g, space, where, 1);
    }
}

/* ---- reductions ---- */

/* The reduction's own variables again, so that no cotangent shares one with a value it contains. */
static EvalSpace space_of_reduce(Sweep *s, ExprId e, const EvalSpace *space, ExprId *body)
{
    Kernel *k = s->k;
    IndexId from[UINT8_MAX];
    ExprId to[UINT8_MAX];
    uint32_t n = x_at(k, e)->nbound;
    EvalSpace inner = space_copy(s, space);
    for (uint32_t i = 0; i < n; i++) {
        from[i] = x_bound(k, e, i);
        vec_push(s->arena, &inner.index, derive_index_like(k, from[i]));
        to[i] = x_index(k, x_at(k, e)->loc, inner.index.at[inner.index.len - 1]);
    }
    *body = x_substitute(k, x_arg(k, e, 0), from, to, n);
    space_guard(s, &inner, x_substitute(k, x_condition(k, e), from, to, n), 0);
    return inner;
}

/* The value of max or min that choices compare with: what the equation stored, unless that was saved by
 * another kernel, whose bits need not be those of this one. */
static ExprId choice_value(Sweep *s, const Equation *q, ExprId e)
{
    Kernel *k = s->k;
    if (!derive_adjoint(s, q->lhs)->saved)
        return s->root_value;
    IndexId over[MAX_RANK], from[MAX_RANK];
    Axis axes[MAX_RANK];
    ExprId to[MAX_RANK], here[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(k, q->index[i])->kind == X_INDEX) {
            from[n] = x_at(k, q->index[i])->sym;
            here[n] = q->index[i];
            axes[n] = k->indices.at[from[n]].axis;
            over[n] = derive_index_like(k, from[n]);
            to[n] = x_index(k, q->loc, over[n]);
            n++;
        }
    const char *stem = arena_printf(s->arena, "%s_again", k->tensors.at[q->lhs].name);
    TensorId t = derive_local(s, stem, q->loc, EL_F32, axes, n);
    derive_emit(s, EQ_ASSIGN, q->loc, t, over, x_substitute(k, e, from, to, n));
    return x_load(k, q->loc, t, here);
}

/* A local with the value of the n-th index of the lowest place where the body attains `value`, the earlier
 * indices being `chosen`; -1 where there is none. Returns the load, in terms of the indices of q. */
static ExprId choose_index(Sweep *s, const Equation *q, ExprId e, ExprId value, const ExprId *chosen,
                           uint32_t n)
{
    Kernel *k = s->k;
    Loc loc = x_at(k, e)->loc;
    IndexId from[UINT8_MAX + MAX_RANK], over[MAX_RANK], bound[2][UINT8_MAX];
    Axis axes[MAX_RANK];
    ExprId to[UINT8_MAX + MAX_RANK], here[MAX_RANK], part[2];
    uint32_t rank = 0, nbound = x_at(k, e)->nbound;
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(k, q->index[i])->kind == X_INDEX) {
            here[rank] = q->index[i];
            from[rank] = x_at(k, q->index[i])->sym;
            axes[rank] = k->indices.at[from[rank]].axis;
            over[rank] = derive_index_like(k, from[rank]);
            to[rank] = x_index(k, loc, over[rank]);
            rank++;
        }
    ExprId where = x_op2(k, loc, OP_eq, x_arg(k, e, 0), value);
    where = x_and(k, loc, x_condition(k, e), where);
    for (uint32_t i = 0; i < n; i++)
        where = x_and(k, loc, where, x_op2(k, loc, OP_eq, x_index(k, loc, x_bound(k, e, i)), chosen[i]));
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < nbound; i++) {
            from[rank + i] = x_bound(k, e, i);
            bound[turn][i] = derive_index_like(k, from[rank + i]);
            to[rank + i] = x_index(k, loc, bound[turn][i]);
        }
        ExprId term = turn ? to[rank + n] : x_int(k, loc, 1);
        ExprId condition = x_substitute(k, where, from, to, rank + nbound);
        part[turn] = x_reduce(k, loc, turn ? RED_MIN : RED_SUM, bound[turn], nbound, term, condition);
    }
    const char *stem = arena_printf(s->arena, "%s_at", k->tensors.at[q->lhs].name);
    TensorId t = derive_local(s, stem, loc, EL_I32, axes, rank);
    ExprId any = x_op2(k, loc, OP_gt, part[0], x_int(k, loc, 0));
    ExprId none = x_op1(k, loc, OP_neg, x_int(k, loc, 1));
    derive_emit(s, EQ_ASSIGN, loc, t, over, x_if(k, loc, any, part[1], none));
    return x_load(k, loc, t, here);
}

/* q.lhs = max(j where c) X[..]: the cotangent goes to the lowest j that attains the value. */
static void sweep_choice(Sweep *s, const Equation *q, ExprId e, ExprId d, const EvalSpace *space)
{
    Kernel *k = s->k;
    Loc loc = x_at(k, e)->loc;
    ExprId value = choice_value(s, q, e), chosen[UINT8_MAX], body;
    EvalSpace inner = space_of_reduce(s, e, space, &body);
    for (uint32_t n = 0; n < x_at(k, e)->nbound; n++) {
        chosen[n] = choose_index(s, q, e, value, chosen, n);
        ExprId j = x_index(k, loc, inner.index.at[space->index.len + n]);
        space_guard(s, &inner, x_op2(k, loc, OP_eq, j, chosen[n]), 1);
    }
    sweep_expr(s, body, d, &inner);
}

/* ---- nodes ---- */

static void sweep_load(Sweep *s, ExprId e, ExprId d, const EvalSpace *space)
{
    const Kernel *k = s->k;
    Contribution c = {.space = space_copy(s, space), .cotangent = d};
    for (uint32_t i = 0; i < x_at(k, e)->nargs; i++)
        c.subscript[i] = x_arg(k, e, i);
    vec_push(s->arena, &derive_adjoint(s, x_at(k, e)->sym)->contributions, c);
}

static void sweep_node(Sweep *s, ExprId e, const ExprMap *into, const EvalSpace *space)
{
    Kernel *k = s->k;
    ExprId d = x_map_get(into, e), body;
    switch ((ExprKind)x_at(k, e)->kind) {
    case X_OP: sweep_op(s, e, into, space); break;
    case X_LOAD: sweep_load(s, e, d, space); break;
    case X_IF: {
        ExprId c = x_arg(k, e, 0);
        sweep_guarded(s, x_arg(k, e, 1), d, space, c, 0);
        sweep_guarded(s, x_arg(k, e, 2), d, space, x_op1(k, x_at(k, e)->loc, OP_not, c), 0);
        break;
    }
    case X_REDUCE: {
        if (x_at(k, e)->op != RED_SUM)
            BUG(s->arena, "derive: a max or min of kernel %s is not an equation of its own", k->name);
        EvalSpace inner = space_of_reduce(s, e, space, &body);
        sweep_expr(s, body, d, &inner);
        break;
    }
    case X_FLOAT:
    case X_INT:
    case X_EXTENT:
    case X_INDEX:
    case X_TOKEN:
    case X_SLOT:
    case X_ROW:
    case X_GROUP:
    case X_LANES:
    case X_THREADS: BUG(s->arena, "derive: a gradient reached node kind %d", x_at(k, e)->kind);
    }
}

enum { VISITS_MAX = 20000 };

/* Takes d, the cotangent of root, down to the loads. The list has arguments before their users, so backwards
 * it meets every node after all its uses. */
static void sweep_expr(Sweep *s, ExprId root, ExprId d, const EvalSpace *space)
{
    if (!derive_is_active(s, root))
        return;
    if (++s->visits > VISITS_MAX) {
        if (s->visits == VISITS_MAX + 1)
            diag_add(s->k->module->diags, DIAG_program_size, x_at(s->k, root)->loc,
                     "give nested choices a name",
                     "the derivative of %s has more than %d places under conditions", s->k->derived->kernel,
                     VISITS_MAX);
        return;
    }
    Nodes below = x_below(s->k, root, EVERYWHERE);
    ExprMap into = x_map(s->k, below.n);
    *x_map_at(&into, root) = d;
    for (uint32_t n = below.n; n-- > 0;)
        if (x_map_get(&into, below.at[n]) != NONE)
            sweep_node(s, below.at[n], &into, space);
}

/* ---- equations ---- */

static EvalSpace space_of_equation(Sweep *s, const Equation *q)
{
    Kernel *k = s->k;
    EvalSpace space = {0};
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(k, q->index[i])->kind == X_INDEX)
            vec_push(s->arena, &space.index, x_at(k, q->index[i])->sym);
    const Adjoint *a = derive_adjoint(s, q->lhs);
    for (uint32_t i = 0; i < a->support.len; i++)
        space_guard(s, &space, x_substitute(k, a->support.at[i], a->over, q->index, q->nindex), 0);
    return space;
}

static void sweep_assign(Sweep *s, const Equation *q)
{
    Kernel *k = s->k;
    EvalSpace space = space_of_equation(s, q);
    ExprId d = x_load(k, q->loc, derive_adjoint(s, q->lhs)->cotangent, q->index);
    s->root = q->rhs;
    s->root_value = x_load(k, q->loc, q->lhs, q->index);
    if (x_at(k, q->rhs)->kind == X_REDUCE && x_at(k, q->rhs)->op != RED_SUM && derive_is_active(s, q->rhs))
        sweep_choice(s, q, q->rhs, d, &space);
    else
        sweep_expr(s, q->rhs, d, &space);
    s->root = s->root_value = NONE;
}

/* p[.., k], id[.., k] = top(e) f: f at e gets the cotangent of the k whose id is e. */
static void sweep_top(Sweep *s, const Equation *q)
{
    Kernel *k = s->k;
    EvalSpace space = space_of_equation(s, q);
    ExprId d = x_load(k, q->loc, derive_adjoint(s, q->lhs)->cotangent, q->index);
    IndexId searched = derive_index_like(k, q->bound);
    ExprId e = x_index(k, q->loc, searched);
    vec_push(s->arena, &space.index, searched);
    space_guard(s, &space, x_op2(k, q->loc, OP_eq, x_load(k, q->loc, q->ids, q->index), e), 1);
    sweep_expr(s, x_substitute(k, q->rhs, &q->bound, &e, 1), d, &space);
}

/* Everything that reads t has been swept: its contributions become d_t. */
static void complete(Sweep *s, TensorId t)
{
    Adjoint *a = derive_adjoint(s, t);
    if (a->complete)
        return;
    a->complete = 1;
    a->cotangent = NONE;
    if (!a->active || (a->incoming == NONE && !a->contributions.len))
        return;
    Elem elem = derive_cube_of(s, t);
    if (!a->contributions.len && (elem == EL_F32 || elem == s->k->tensors.at[a->incoming].elem)) {
        a->cotangent = a->incoming;
        return;
    }
    TensorId d = derive_gather(s, t, NONE, elem);
    derive_adjoint(s, t)->cotangent = d;
}

void derive_sweep(Sweep *s, const TensorId *targets, uint32_t ntargets)
{
    for (uint32_t i = s->k->eqs.len; i-- > 0;) {
        Equation q = s->k->eqs.at[i];
        if (q.kind != EQ_ASSIGN && q.kind != EQ_TOP)
            continue;
        complete(s, q.lhs);
        if (derive_adjoint(s, q.lhs)->cotangent == NONE)
            continue;
        if (q.kind == EQ_ASSIGN)
            sweep_assign(s, &q);
        else
            sweep_top(s, &q);
    }
    for (uint32_t i = 0; i < ntargets; i++)
        derive_gather(s, targets[i], derive_adjoint(s, targets[i])->target, EL_F32);
}
