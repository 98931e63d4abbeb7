/* Note [Shift] in shift.h: proves that what `shift` stands for cancels. */
#include "ir/shift.h"

static const Shift still = {.of = NONE};

typedef struct ShiftWalk {
    Kernel *k;
    const Shift *tensors;
    ShiftFault *fault;
    Shift *at; /* by place in the list of nodes */
    ExprMap place;
} ShiftWalk;

static Shift refuse(const ShiftWalk *w, ExprId e, ExprId of, const char *why)
{
    if (!w->fault->why)
        *w->fault = (ShiftFault){x_at(w->k, e)->loc, of, why};
    return still;
}

static Shift moving(ExprId of, int times, int plus)
{
    return times || plus ? (Shift){of, times, plus, 0} : still;
}

static int is_still(Shift a) { return a.of == NONE; }

static Shift arg(const ShiftWalk *w, ExprId e, uint32_t n)
{
    return w->at[x_map_get(&w->place, x_arg(w->k, e, n))];
}

/* The one that moves, if they do not move with different shifts. */
static int one_of(const ShiftWalk *w, ExprId e, Shift a, Shift b, ExprId *of)
{
    *of = is_still(a) ? b.of : a.of;
    if (is_still(a) || is_still(b) || a.of == b.of)
        return 1;
    refuse(w, e, a.of, "it meets another shift");
    return 0;
}

/* ---- operations ---- */

/* A sum keeps what both sides are multiplied by, or adds up how far they move. */
static Shift of_sum(const ShiftWalk *w, ExprId e, Shift a, Shift b, int sign)
{
    ExprId of;
    if (!one_of(w, e, a, b, &of))
        return still;
    if (a.zero || b.zero)
        return a.zero && b.times ? b : a.times ? a : moving(of, 0, a.plus + sign * b.plus);
    if (a.times != b.times)
        return refuse(w, e, of, "a value that scales with it is added to one that does not");
    if (a.times && (a.plus || b.plus))
        return refuse(w, e, of, "a value that scales with it is added to one that moves with it");
    return moving(of, a.times, a.plus + sign * b.plus);
}

static Shift of_product(const ShiftWalk *w, ExprId e, Shift a, Shift b, int sign)
{
    ExprId of;
    if (a.zero || (b.zero && sign > 0))
        return (Shift){NONE, 0, 0, 1};
    if (!one_of(w, e, a, b, &of))
        return still;
    if (a.plus || b.plus)
        return refuse(w, e, of, "a value that moves with it is multiplied or divided");
    return moving(of, a.times + sign * b.times, 0);
}

/* Sides that are compared, or of which one is chosen: they move alike. */
static Shift of_alike(const ShiftWalk *w, ExprId e, Shift a, Shift b)
{
    ExprId of;
    if (a.zero && !b.plus)
        return b;
    if (b.zero && !a.plus)
        return a;
    if (!one_of(w, e, a, b, &of))
        return still;
    if (a.times != b.times || a.plus != b.plus)
        return refuse(w, e, of, "a value that moves with it stands beside one that does not");
    return moving(of, a.times, a.plus);
}

static Shift of_function(const ShiftWalk *w, ExprId e)
{
    for (uint32_t n = 0; n < x_at(w->k, e)->nargs; n++)
        if (!is_still(arg(w, e, n)))
            return refuse(w, e, arg(w, e, n).of, "a function is applied to a value that moves with it");
    return still;
}

static Shift of_one(const ShiftWalk *w, ExprId e, ScalarOp op)
{
    Shift a = arg(w, e, 0);
    if (op == OP_neg)
        return moving(a.of, a.times, -a.plus);
    if (op == OP_stop || op == OP_f32 || ((op == OP_bf16 || op == OP_f16) && !a.plus))
        return a;
    if (op == OP_exp && !a.times)
        return moving(a.of, a.plus, 0);
    if (op == OP_log && !a.plus)
        return moving(a.of, 0, a.times);
    if (op == OP_shift && is_still(a))
        return (Shift){x_arg(w->k, e, 0), 0, 1, 0};
    return of_function(w, e);
}

static Shift of_two(const ShiftWalk *w, ExprId e, ScalarOp op)
{
    Shift a = arg(w, e, 0), b = arg(w, e, 1);
    if (op == OP_add || op == OP_sub)
        return of_sum(w, e, a, b, op == OP_add ? 1 : -1);
    if (op == OP_mul || op == OP_div)
        return of_product(w, e, a, b, op == OP_mul ? 1 : -1);
    if (op == OP_max2 || op == OP_min2)
        return of_alike(w, e, a, b);
    if (scalar_table[op].kind != SK_COMPARE)
        return of_function(w, e);
    of_alike(w, e, a, b);
    return still;
}

/* ---- other nodes ---- */

static Shift of_reduction(const ShiftWalk *w, ExprId e)
{
    const Expr *x = x_at(w->k, e);
    Shift body = arg(w, e, 0);
    for (uint32_t i = 0; i < x->nbound && !is_still(body); i++)
        if (x_uses_index(w->k, body.of, x_bound(w->k, e, i)))
            return refuse(w, e, body.of, "the reduction takes together values of different shifts");
    if (x->op == RED_SUM && body.plus)
        return refuse(w, e, body.of, "a value that moves with it is summed");
    return body;
}

/* The equation that defines t, which moves: it is the only one. */
static const Equation *definition(const Kernel *k, TensorId t)
{
    uint32_t i = 0;
    while (k->eqs.at[i].lhs != t || k->eqs.at[i].kind != EQ_ASSIGN)
        i++;
    return &k->eqs.at[i];
}

/* A tensor's element, in the variables of the reader. */
static Shift of_load(const ShiftWalk *w, ExprId e)
{
    Kernel *k = w->k;
    Shift s = w->tensors[x_at(k, e)->sym];
    if (is_still(s))
        return still;
    const Equation *q = definition(k, x_at(k, e)->sym);
    IndexId from[MAX_RANK];
    ExprId to[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t a = 0; a < q->nindex; a++) {
        from[n] = x_plain_index(k, q->index[a]);
        to[n] = x_arg(k, e, a);
        n += from[n] != NONE;
    }
    s.of = x_substitute(k, s.of, from, to, n);
    return s;
}

static Shift of_node(const ShiftWalk *w, ExprId e)
{
    const Expr *x = x_at(w->k, e);
    switch ((ExprKind)x->kind) {
    case X_FLOAT: return (Shift){NONE, 0, 0, x->value.f == 0};
    case X_INT: return (Shift){NONE, 0, 0, x->value.i == 0};
    case X_OP: return x->nargs == 1 ? of_one(w, e, (ScalarOp)x->op) : of_two(w, e, (ScalarOp)x->op);
    case X_LOAD: return of_load(w, e);
    case X_IF: return of_alike(w, e, arg(w, e, 1), arg(w, e, 2));
    case X_REDUCE: return of_reduction(w, e);
    case X_EXTENT:
    case X_INDEX:
    case X_TOKEN:
    case X_SLOT:
    case X_ROW:
    case X_GROUP:
    case X_LANES:
    case X_THREADS: break;
    }
    return still;
}

Shift ir_shift_of(Kernel *k, ExprId e, const Shift *tensors, ShiftFault *fault)
{
    ArenaMark mark = arena_mark(k->module->scratch);
    Nodes below = x_below(k, e, EVERYWHERE);
    ShiftWalk w = {k, tensors, fault, arena_array(k->module->scratch, Shift, below.n), x_map(k, below.n)};
    for (uint32_t i = 0; i < below.n; i++) {
        *x_map_at(&w.place, below.at[i]) = i;
        w.at[i] = of_node(&w, below.at[i]);
    }
    Shift all = w.at[below.n - 1];
    arena_release(k->module->scratch, mark);
    return all;
}

/* ---- a kernel ---- */

int ir_has_shift(const Kernel *k)
{
    for (ExprId e = 0; e < k->exprs.len; e++)
        if (x_is_op(k, e, OP_shift))
            return 1;
    return 0;
}

/* Is every element that `of` reads one that the caller of k has too? */
static int is_known(const Kernel *k, ExprId of)
{
    each_below (n, k, of, EVERYWHERE)
        if (x_at(k, *n)->kind == X_LOAD && k->tensors.at[x_at(k, *n)->sym].role == ROLE_LOCAL)
            return 0;
    return 1;
}

/* A caller that has x knows what an output that scales with shift(x) means: what it means with x. */
static int may_keep(const Kernel *k, const Equation *q, const Shift *tensors, Shift s)
{
    const Tensor *t = &k->tensors.at[q->lhs];
    if (is_still(s)) /* nor does what other equations made of it */
        return is_still(tensors[q->lhs]);
    return q->kind == EQ_ASSIGN && definition(k, q->lhs) == q && is_still(tensors[q->lhs]) &&
           t->role != ROLE_INOUT && (t->role == ROLE_LOCAL || is_known(k, s.of));
}

Shift *ir_shifts(Kernel *k, Arena *a, ShiftFault *fault)
{
    Shift *tensors = arena_array(a, Shift, k->tensors.len + 1);
    *fault = (ShiftFault){.of = NONE};
    for (TensorId t = 0; t < k->tensors.len; t++)
        tensors[t] = still;
    for (uint32_t i = 0, n = ir_has_shift(k) ? k->eqs.len : 0; i < n && !fault->why; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->kind == EQ_ROUTE || q->kind == EQ_CHECK)
            continue;
        Shift s = ir_shift_of(k, q->rhs, tensors, fault);
        q = &k->eqs.at[i];
        if (!fault->why && !may_keep(k, q, tensors, s))
            *fault = (ShiftFault){q->loc, is_still(s) ? tensors[q->lhs].of : s.of,
                                  "what the kernel keeps moves with it"};
        if (q->kind == EQ_ASSIGN)
            tensors[q->lhs] = s;
    }
    return tensors;
}
