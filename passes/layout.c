/* layout: a transposed copy where a product would read across memory.
 *
 * requires: canonical equations     gives: products whose lanes are contiguous
 * before:  s[i, j] = sum(d) q[i, d] * k[j, d]
 * after:   kt[d, j] = k[j, d]
 *          s[i, j] = sum(d) q[i, d] * kt[d, j]
 *
 * Lanes run over the last left-hand index (j). An operand that has it elsewhere than last is copied once with that axis
 * moved to the end, when the copy pays: some other left-hand index (i) reads the whole operand again. */
#include "passes/lower.h"

typedef struct Copy {
    TensorId of, copy;
    uint8_t axis;
} Copy;

typedef struct Turn {
    Kernel *k;
    Vec(Equation) out;
    Vec(Copy) copies;
    const Equation *q;
    IndexId lane;
    ExprId reduce; /* the reduction that is being looked at */
} Turn;

/* Some left-hand index that this load does not vary with, and another operand does, without the lanes. */
static int is_reused(Turn *y, ExprId load)
{
    Kernel *k = y->k;
    ExprId body = x_arg(k, y->reduce, 0);
    for (uint32_t i = 0; i < y->q->nindex; i++) {
        const Expr *x = x_at(k, y->q->index[i]);
        if (x->kind != X_INDEX || x->sym == y->lane || lower_varies(k, load, x->sym))
            continue;
        each_below (n, k, body, EVERYWHERE)
            if (x_at(k, *n)->kind == X_LOAD && *n != load && lower_varies(k, *n, x->sym) &&
                !lower_varies(k, *n, y->lane))
                return 1;
    }
    return 0;
}

/* The axis of a load that is exactly the lanes' index and not the last, all others free of it; else -1. */
static int lane_axis(const Turn *y, ExprId load)
{
    const Kernel *k = y->k;
    int axis = -1;
    uint32_t n = x_at(k, load)->nargs;
    for (uint32_t a = 0; a < n; a++) {
        if (!lower_varies(k, x_arg(k, load, a), y->lane))
            continue;
        if (axis >= 0 || a + 1 == n || x_at(k, x_arg(k, load, a))->kind != X_INDEX)
            return -1;
        axis = (int)a;
    }
    return axis;
}

static TensorId copy_of(Turn *y, TensorId of, uint8_t axis, Loc loc)
{
    Kernel *k = y->k;
    for (uint32_t i = 0; i < y->copies.len; i++)
        if (y->copies.at[i].of == of && y->copies.at[i].axis == axis)
            return y->copies.at[i].copy;
    Module *m = k->module;
    Tensor t = k->tensors.at[of];
    uint32_t rank = t.rank;
    ExprId from[MAX_RANK];
    Equation q = ir_equation(EQ_ASSIGN, loc);
    for (uint32_t a = 0; a < rank; a++)
        from[a] = x_index(k, loc, ir_index(k, ir_fresh_name(k, "i"), loc, k->tensors.at[of].axes[a]));
    for (uint32_t a = 0, to = 0; a < rank; a++) {
        uint32_t source = a + 1 == rank ? axis : to == axis ? ++to : to;
        to += a + 1 < rank;
        t.axes[a] = k->tensors.at[of].axes[source];
        q.index[a] = from[source];
    }
    t.role = ROLE_LOCAL;
    t.layout = LAYOUT_ROWS;
    t.name = ir_fresh_name(k, arena_printf(m->arena, "%s_t", t.name));
    q.nindex = (uint8_t)rank;
    q.lhs = ir_tensor(k, t);
    q.rhs = x_load(k, loc, of, from);
    vec_push(m->arena, &y->out, q);
    vec_push(m->arena, &y->copies, (Copy){of, q.lhs, axis});
    return q.lhs;
}

static ExprId turn(Kernel *k, ExprId e, void *user)
{
    Turn *y = user;
    int axis = x_at(k, e)->kind == X_LOAD ? lane_axis(y, e) : -1;
    if (axis < 0 || !is_reused(y, e))
        return e;
    Loc loc = x_at(k, e)->loc;
    TensorId copy = copy_of(y, x_at(k, e)->sym, (uint8_t)axis, loc);
    ExprId args[MAX_RANK];
    uint32_t n = x_at(k, e)->nargs, to = 0;
    for (uint32_t a = 0; a < n; a++)
        if (a != (uint32_t)axis)
            args[to++] = x_arg(k, e, a);
    args[to] = x_arg(k, e, (uint32_t)axis);
    return x_load(k, loc, copy, args);
}

static ExprId turn_reduce(Kernel *k, ExprId e, void *user)
{
    Turn *y = user;
    if (x_at(k, e)->kind != X_REDUCE || x_at(k, e)->op != RED_SUM)
        return e;
    y->reduce = e;
    ExprId args[2];
    for (uint32_t a = 0; a < x_at(k, e)->nargs; a++)
        args[a] = x_arg(k, e, a);
    args[0] = x_rewrite(k, args[0], turn, y);
    return x_with_args(k, e, args);
}

/* Copies of a tensor that this equation writes are stale afterwards. */
static void forget(Turn *y, const Equation *q)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < y->copies.len; i++)
        if (y->copies.at[i].of != q->lhs && y->copies.at[i].of != q->ids)
            y->copies.at[kept++] = y->copies.at[i];
    y->copies.len = kept;
}

static void layout_kernel(Kernel *k)
{
    Turn y = {.k = k};
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        Equation q = k->eqs.at[i];
        const Expr *last = q.nindex ? x_at(k, q.index[q.nindex - 1]) : NULL;
        if ((q.kind == EQ_ASSIGN || q.kind == EQ_ADD) && last && last->kind == X_INDEX) {
            y.q = &q;
            y.lane = last->sym;
            q.rhs = x_rewrite(k, q.rhs, turn_reduce, &y);
        }
        vec_push(k->module->arena, &y.out, q);
        forget(&y, &q);
    }
    k->eqs.at = y.out.at;
    k->eqs.len = y.out.len;
    k->eqs.cap = y.out.cap;
}

void pass_layout(Module *m, const PassContext *c)
{
    (void)c;
    for (uint32_t i = 0; i < m->kernels.len; i++)
        layout_kernel(m->kernels.at[i]);
}
