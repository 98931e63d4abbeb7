/* One equation: its loops, and the stores. */
#include "ir/eval.h"

#include <math.h>

void eval_store(Eval *e, TensorId t, int64_t place, Value v, Type type)
{
    TensorData *d = &e->tensors[t];
    Elem elem = e->k->tensors.at[t].elem;
    if (e->error || place < 0)
        return;
    if (elem == EL_I32) {
        if (v.n.i < INT32_MIN || v.n.i > INT32_MAX)
            eval_fail(e, "value %lld does not fit i32 tensor %s", (long long)v.n.i, e->k->tensors.at[t].name);
        d->at[place] = (double)v.n.i;
    } else if (elem == EL_I64) {
        d->at[place] = v.n.f; /* the bits: a double may not have the number */
    } else {
        if (type == TY_INT)
            v = eval_lift(e, v);
        d->at[place] = e->mode == EVAL_EXACT ? v.n.f : elem_round(elem, v.n.f);
        if (v.error > 0 && elem != EL_F32)
            v.error = eval_rounded_error(elem, v.n.f, v.error);
    }
    if (d->error)
        d->error[place] = v.error;
}

typedef struct Assignment {
    const Equation *q;
    EvalAccess *lhs;
    Node *value;
    uint32_t nloops;
    Loop loops[MAX_RANK * 2];
    Node **sums; /* of the right side, where that is a sum of sums */
    uint32_t nsums;
} Assignment;

/* The sums of an addition tree of nothing else. */
static void find_sums(const Eval *e, Assignment *a)
{
    const Kernel *k = e->k;
    Nodes below = x_below(k, a->q->rhs, X_REDUCE);
    a->sums = arena_array(e->scratch, Node *, below.n);
    for (uint32_t i = 0; i < below.n; i++) {
        const Expr *x = x_at(k, below.at[i]);
        if (x->kind == X_REDUCE && x->op == RED_SUM) {
            a->sums[a->nsums++] = e->nodes[below.at[i]];
        } else if (!x_is_op(k, below.at[i], OP_add)) {
            a->nsums = 0;
            return;
        }
    }
}

static int64_t count_terms(const Assignment *a)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < a->nsums; i++)
        n += a->sums[i]->reduce->terms;
    return n;
}

/* What the value's sums add when they are one chain of additions, that begins at the old value of a +=. Of one sum its own terms
 * count already. */
static double chain_error(const Assignment *a, double old)
{
    double others = 0;
    for (uint32_t i = 0; a->nsums > 1 && i < a->nsums; i++)
        others += a->sums[i]->reduce->magnitude;
    return (double)count_terms(a) * 0x1p-24 * (fabs(old) + others);
}

/* The old element plus the value, as the hooks add. */
static Value added(Eval *e, const Assignment *a, int64_t place, Value v)
{
    const TensorData *d = &e->tensors[a->q->lhs];
    Value old = {{.f = d->at[place]}, d->error ? d->error[place] : 0}, sum;
    if (e->k->tensors.at[a->q->lhs].elem == EL_I32) {
        old.n.i = (int64_t)old.n.f;
        return (Value){eval_add(e->mode, 1, old.n, v.n), old.error > 0 || v.error > 0};
    }
    if (a->value->type == TY_INT)
        v = eval_lift(e, v);
    sum = (Value){eval_add(e->mode, 0, old.n, v.n), 0};
    if (e->track)
        sum.error = eval_error(OP_add, old, v, old.n.f + v.n.f, sum.n.f);
    if (e->track)
        sum.error += chain_error(a, old.n.f);
    return sum;
}

/* A sum without terms leaves an element to which it is added as it is, also a zero with a sign. */
static int adds_nothing(const Eval *e, const Assignment *a, Value v)
{
    const Expr *x = x_at(e->k, a->q->rhs);
    int is_sum = x->kind == X_REDUCE && x->op == RED_SUM && x->type != TY_INT;
    return a->q->kind == EQ_ADD && is_sum && count_terms(a) == 0 && v.error == 0;
}

/* hole: the element belongs to a row that does not exist; it becomes 0 under `=` and stays under `+=`. */
static void run_element(Eval *e, const Assignment *a, int hole)
{
    int doubtful = 0;
    Type type = (Type)a->value->type;
    if (hole && a->q->kind == EQ_ADD)
        return;
    int64_t place = eval_place(e, a->lhs, &doubtful);
    if (hole) {
        eval_store(e, a->q->lhs, place, (Value){{.i = 0}, 0}, type);
        return;
    }
    Value v = eval_run(e, a->value);
    if (e->error || adds_nothing(e, a, v))
        return;
    if (a->q->kind == EQ_ASSIGN && e->track && e->k->tensors.at[a->q->lhs].elem == EL_F32)
        v.error += chain_error(a, 0);
    if (a->q->kind == EQ_ADD) {
        v = added(e, a, place, v);
        type = type == TY_INT && e->k->tensors.at[a->q->lhs].elem == EL_I32 ? TY_INT : TY_F32;
    }
    if (doubtful && e->track) /* a scatter whose targets are in doubt */
        v.error = INFINITY;
    eval_store(e, a->q->lhs, place, v, type);
}

static void run_loops(Eval *e, const Assignment *a, uint32_t level, int hole)
{
    if (level == a->nloops) {
        run_element(e, a, hole);
        return;
    }
    const Loop *l = &a->loops[level];
    const int32_t *group_of = l->route == NONE ? NULL : e->routes[l->route].group_of;
    for (int64_t i = 0; i < l->extent && !e->error; i++) {
        eval_move(e, l, i);
        run_loops(e, a, level + 1, hole || (group_of && group_of[i] < 0));
    }
}

/* The index variables of the left side in the order written: also those inside a scatter's subscripts. */
static void add_loops(Eval *e, Assignment *a, ExprId x, uint8_t *seen)
{
    const Expr *n = x_at(e->k, x);
    if (seen[x])
        return;
    seen[x] = 1;
    if (n->kind == X_INDEX) {
        for (uint32_t i = 0; i < a->nloops; i++)
            if (a->loops[i].index == n->sym)
                return;
        if (a->nloops < MAX_RANK * 2)
            a->loops[a->nloops++] = eval_loop(e, n->sym);
        else
            eval_fail(e, "the left side of an equation has too many index variables");
        return;
    }
    for (uint32_t i = 0; i < n->nargs && n->kind != X_REDUCE; i++)
        add_loops(e, a, x_arg(e->k, x, i), seen);
}

static void assign(Eval *e, const Equation *q)
{
    Assignment a = {.q = q};
    uint8_t *seen = arena_array(e->scratch, uint8_t, e->k->exprs.len);
    for (uint32_t i = 0; i < q->nindex; i++)
        add_loops(e, &a, q->index[i], seen);
    int inner = a.nloops ? a.loops[a.nloops - 1].local : -1;
    if (e->error)
        return;
    a.lhs = eval_access(e, q->lhs, q->index, q->nindex, inner);
    a.value = eval_node(e, q->rhs, inner);
    if (e->error)
        return;
    find_sums(e, &a);
    run_loops(e, &a, 0, 0);
}

void eval_equation(Eval *e, const Equation *q)
{
    eval_start_equation(e);
    switch (q->kind) {
    case EQ_ASSIGN:
    case EQ_ADD: assign(e, q); break;
    case EQ_TOP: eval_top(e, q); break;
    case EQ_ROUTE: eval_make_route(e, q); break;
    case EQ_CHECK: break; /* every access is checked here anyway */
    }
}
