/* Which values move with a shift (Note [Shift] in shift.h): the bounds of these count each rounding twice, since they may be
 * computed with another value in place of the shift's argument and be moved to it later. That they cancel was proved by the
 * checker (ir/shift.c); here the two counts are enough, without what they are of. They are counted apart from it, since the passes that
 * move values go by its counts, and this judges them. */
#include "ir/eval.h"
#include "ir/shift.h"

typedef struct Moving {
    int times, plus;
} Moving;

static const Moving still;

static int is_moving(Moving m) { return m.times || m.plus; }

/* Of all others the checker refuses operands that move. */
static Moving of_op(ScalarOp op, Moving a, Moving b)
{
    const int sign = op == OP_sub || op == OP_div ? -1 : 1;
    if (op == OP_shift)
        return (Moving){0, 1};
    if (op == OP_exp)
        return (Moving){a.plus, 0};
    if (op == OP_log)
        return (Moving){0, a.times};
    if (op == OP_neg)
        return (Moving){a.times, -a.plus};
    if (op == OP_stop || op == OP_f32 || op == OP_bf16 || op == OP_f16)
        return a;
    if (op == OP_add || op == OP_sub)
        return (Moving){a.times ? a.times : b.times, a.plus + sign * b.plus};
    if (op == OP_mul || op == OP_div)
        return (Moving){a.times + sign * b.times, 0};
    if (op == OP_max2 || op == OP_min2)
        return is_moving(a) ? a : b;
    return still;
}

static Moving of_node(const Kernel *k, ExprId e, const Moving *at, const Moving *tensors)
{
    const Expr *x = x_at(k, e);
    Moving first = x->nargs ? at[x_arg(k, e, 0)] : still, second = x->nargs > 1 ? at[x_arg(k, e, 1)] : still;
    if (x->kind == X_OP)
        return of_op((ScalarOp)x->op, first, second);
    if (x->kind == X_LOAD)
        return tensors[x->sym];
    if (x->kind == X_IF)
        return is_moving(second) ? second : at[x_arg(k, e, 2)];
    return x->kind == X_REDUCE ? first : still;
}

uint8_t *eval_moving(const Kernel *k, Arena *a)
{
    if (!ir_has_shift(k))
        return NULL;
    Moving *at = arena_array(a, Moving, k->exprs.len), *tensors = arena_array(a, Moving, k->tensors.len);
    uint8_t *moving = arena_alloc(a, k->exprs.len);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->dead || q->kind == EQ_ROUTE || q->kind == EQ_CHECK)
            continue;
        each_below (e, k, q->rhs, EVERYWHERE) {
            at[*e] = of_node(k, *e, at, tensors);
            moving[*e] |= (uint8_t)is_moving(at[*e]);
        }
        tensors[q->lhs] = at[q->rhs];
    }
    return moving;
}
