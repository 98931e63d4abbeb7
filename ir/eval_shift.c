/* Which values move with a shift (Note [Shift] in shift.h): the bounds of these count each rounding twice, since they may be
 * computed with another value in place of the shift's argument and be moved to it later. That they cancel was proved by the
 * checker; here the two counts are enough, without what they are of. */
#include "ir/eval.h"

typedef struct Moving {
    int times, plus;
} Moving;

static const Moving still;

static int is_moving(Moving m) { return m.times || m.plus; }

static Moving of_op(const Expr *x, Moving a, Moving b)
{
    switch ((ScalarOp)x->op) {
    case OP_shift: return (Moving){0, 1};
    case OP_exp: return (Moving){a.plus, 0};
    case OP_log: return (Moving){0, a.times};
    case OP_neg: return (Moving){a.times, -a.plus};
    case OP_stop:
    case OP_f32:
    case OP_bf16:
    case OP_f16: return a;
    case OP_add: return (Moving){a.times ? a.times : b.times, a.plus + b.plus};
    case OP_sub: return (Moving){a.times ? a.times : b.times, a.plus - b.plus};
    case OP_mul: return (Moving){a.times + b.times, 0};
    case OP_div: return (Moving){a.times - b.times, 0};
    case OP_max2:
    case OP_min2: return is_moving(a) ? a : b;
    case OP_floor:
    case OP_abs:
    case OP_relu:
    case OP_sqrt:
    case OP_rsqrt:
    case OP_tanh:
    case OP_sigmoid:
    case OP_silu:
    case OP_gelu:
    case OP_pow:
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge:
    case OP_eq:
    case OP_ne:
    case OP_and:
    case OP_or:
    case OP_not:
    case OP_i32:
    case OP_idiv:
    case OP_imod:
    case OP_COUNT: break;
    }
    return still;
}

static Moving of_node(const Kernel *k, ExprId e, const Moving *at, const Moving *tensors)
{
    const Expr *x = x_at(k, e);
    Moving first = x->nargs ? at[x_arg(k, e, 0)] : still, second = x->nargs > 1 ? at[x_arg(k, e, 1)] : still;
    if (x->kind == X_OP)
        return of_op(x, first, second);
    if (x->kind == X_LOAD)
        return tensors[x->sym];
    if (x->kind == X_IF)
        return is_moving(second) ? second : at[x_arg(k, e, 2)];
    return x->kind == X_REDUCE ? first : still;
}

static int has_shift(const Kernel *k)
{
    for (ExprId e = 0; e < k->exprs.len; e++)
        if (x_is_op(k, e, OP_shift))
            return 1;
    return 0;
}

uint8_t *eval_moving(const Kernel *k, Arena *a)
{
    if (!has_shift(k))
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
