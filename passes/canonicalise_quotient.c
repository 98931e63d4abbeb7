/* canonicalise: quotients and remainders. idiv(b*x + y, b) is x and imod(b*x + y, b) is y where 0 <= y < b, and what
 * conditions say of a quotient they say of what is divided, so that sums go over their terms only:
 *
 *   sum(i where idiv(i, b) == e) f(i)                      sum(i where i >= b*e and i < b*e + b) f(i)
 *   sum(i where idiv(i, b) == j) f(i)                      sum(s: b) f(b*j + s)               i: b*n, an index j: n
 *   sum(i where imod(i, b) == j) f(i)                      sum(s: n) f(b*s + j)               i: b*n, j in 0..b-1
 *   sum(i where imod(i + c, b) == j) f(i)                  f(imod(j - c, b))                  i: b, j in 0..b-1
 *   sum(i where idiv(i, b) == j and imod(i, b) == l) f(i)  f(b*j + l)                         l in 0..b-1 */
#include "passes/canonicalise.h"

/* ---- operations ---- */

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static int64_t remainder_of(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }

static int constant_of(const Kernel *k, ExprId e, int64_t *value)
{
    int negative = x_is_op(k, e, OP_neg);
    if (negative)
        e = x_arg(k, e, 0);
    if (x_at(k, e)->kind != X_INT)
        return 0;
    *value = negative ? -x_at(k, e)->value.i : x_at(k, e)->value.i;
    return 1;
}

static ExprId constant(Kernel *k, Loc loc, int64_t value)
{
    return value < 0 ? x_op1(k, loc, OP_neg, x_int(k, loc, -value)) : x_int(k, loc, value);
}

/* The divisor as an extent, of whatever sign; or NONE. */
static Extent divisor_extent(Kernel *k, ExprId e)
{
    Affine form;
    return x_affine(k, x_arg(k, e, 1), &form) && form.n == 0 ? form.constant : (Extent)NONE;
}

ExprId canon_quotient(Kernel *k, ExprId e)
{
    Loc loc = x_at(k, e)->loc;
    int is_idiv = x_is_op(k, e, OP_idiv);
    ExprId a = x_arg(k, e, 0), quotient, rest;
    Extent by = divisor_extent(k, e);
    int64_t value, number;
    if (by == NONE)
        return e;
    if (ext_is_const(k->module, by, &number)) {
        if (number == 1)
            return is_idiv ? a : x_int(k, loc, 0);
        if (number > 1 && constant_of(k, a, &value) && value > INT64_MIN)
            return constant(k, loc, is_idiv ? floor_divide(value, number) : remainder_of(value, number));
        if (number < 1)
            return e;
    }
    if (!x_split(k, a, by, &quotient, &rest) ||
        ir_prove_range(k, rest, (Axis){by, NONE}, NONE) != PROOF_INSIDE)
        return e;
    return is_idiv ? quotient : rest;
}

/* ---- conditions of sums ---- */

/* An index of the sum, not of rows, that a uses with a number as its coefficient and b does not; or NONE. */
static IndexId moving(Kernel *k, const Reduction *r, ExprId a, ExprId b)
{
    Affine form;
    int64_t coef;
    if (!x_affine(k, a, &form))
        return NONE;
    for (uint32_t n = 0; n < form.n; n++)
        for (uint32_t i = 0; i < r->nbound; i++)
            if (form.index[n] == r->bound[i] && k->indices.at[r->bound[i]].axis.group == NONE &&
                ext_is_const(k->module, form.coef[n], &coef) && !x_uses_index(k, b, r->bound[i]))
                return r->bound[i];
    return NONE;
}

static ExprId index_node(const Kernel *k, ExprId e, IndexId i)
{
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_INDEX && x_at(k, *n)->sym == i)
            return *n;
    return NONE;
}

/* The side of comparison c that is `op` of what moves with the sum, in terms of what does not, *other; or NONE. */
static ExprId quotient_side(Kernel *k, const Reduction *r, ExprId c, ScalarOp op, uint32_t side,
                            ExprId *other)
{
    const Expr *x = x_at(k, c);
    if (x->kind != X_OP || scalar_table[x->op].kind != SK_COMPARE || x->op == OP_ne)
        return NONE;
    ExprId q = x_arg(k, c, side);
    *other = x_arg(k, c, 1 - side);
    if (!x_is_op(k, q, op) || divisor_extent(k, q) == NONE || x_at(k, *other)->type != TY_INT)
        return NONE;
    return moving(k, r, x_arg(k, q, 0), *other) == NONE ? (ExprId)NONE : q;
}

/* The divisor as it counts: 1 where it is below. */
static ExprId counted_divisor(Kernel *k, ExprId quotient)
{
    ExprId by = x_arg(k, quotient, 1);
    return ir_divisor(k, quotient) != NONE
               ? by
               : x_op2(k, x_at(k, by)->loc, OP_max2, by, x_int(k, x_at(k, by)->loc, 1));
}

static void replace_conjuncts(Kernel *k, Reduction *r, uint32_t at, uint32_t also, ExprId by)
{
    ExprId where = NONE;
    for (uint32_t i = 0; i < r->where.n; i++)
        if (i != also)
            where = x_and(k, r->loc, where, i == at ? by : r->where.list[i]);
    int never = r->where.never;
    r->where = canon_conjuncts(k, canon_expr(k, where), r->body);
    r->where.never |= never;
}

/* 0 <= e < by */
static ExprId within(Kernel *k, Loc loc, ExprId e, ExprId by)
{
    return x_and(k, loc, x_op2(k, loc, OP_ge, e, x_int(k, loc, 0)), x_op2(k, loc, OP_lt, e, by));
}

/* idiv(n, b) == x and imod(n, b) == y   ->   n == b*x + y and 0 <= y < b */
static int solve_both(Kernel *k, Reduction *r, uint32_t c, ExprId quotient, ExprId x)
{
    Loc loc = r->loc;
    for (uint32_t d = 0; d < r->where.n; d++)
        for (uint32_t side = 0; side < 2; side++) {
            ExprId y, rest = quotient_side(k, r, r->where.list[d], OP_imod, side, &y);
            if (rest == NONE || !x_is_op(k, r->where.list[d], OP_eq) ||
                x_arg(k, rest, 0) != x_arg(k, quotient, 0) || x_arg(k, rest, 1) != x_arg(k, quotient, 1) ||
                x_loads_any(k, x) != x_loads_any(k, y))
                continue;
            ExprId by = counted_divisor(k, quotient);
            ExprId value = x_op2(k, loc, OP_add, x_op2(k, loc, OP_mul, by, x), y);
            ExprId equal = x_op2(k, loc, OP_eq, x_arg(k, quotient, 0), value);
            replace_conjuncts(k, r, c > d ? c : d, c > d ? d : c,
                              x_and(k, loc, within(k, loc, y, by), equal));
            return 1;
        }
    return 0;
}

/* idiv(n, b) op x, of n. */
static ExprId bounds_of(Kernel *k, Loc loc, ScalarOp op, ExprId quotient, ExprId x)
{
    ExprId n = x_arg(k, quotient, 0), by = counted_divisor(k, quotient);
    ExprId first = x_op2(k, loc, OP_mul, by, x), end = x_op2(k, loc, OP_add, first, by);
    if (op == OP_eq)
        return x_and(k, loc, x_op2(k, loc, OP_ge, n, first), x_op2(k, loc, OP_lt, n, end));
    ScalarOp bound = op == OP_lt || op == OP_le ? OP_lt : OP_ge;
    return x_op2(k, loc, bound, n, op == OP_lt || op == OP_ge ? first : end);
}

/* Conjunct c goes: bound index i is `to`, of s in its place, in a range that is a conjunct (or NONE). */
static void replace_index(Kernel *k, Reduction *r, IndexId i, IndexId s, ExprId to, uint32_t c, ExprId range)
{
    for (uint32_t n = 0; n < r->nbound; n++)
        if (r->bound[n] == i)
            r->bound[n] = s;
    canon_substitute(k, r, &i, &to, 1, c, NONE, range, 0);
}

/* imod(i, b) == y   ->   i is b*s + y, of a new index s */
static int solve_rest(Kernel *k, Reduction *r, uint32_t c, ExprId rest, ExprId y)
{
    Module *m = k->module;
    Loc loc = r->loc;
    const Expr *x = x_at(k, x_arg(k, rest, 0));
    Extent by = divisor_extent(k, rest), count;
    if (x->kind != X_INDEX || by == NONE || x_loads_any(k, y))
        return 0;
    IndexId i = x->sym, s;
    Axis axis = k->indices.at[i].axis;
    ExprId b = x_arg(k, rest, 1), range = within(k, loc, y, b);
    count = ext_divide(m, axis.extent, by);
    s = ir_index(k, k->indices.at[i].name, loc, (Axis){count == NONE ? axis.extent : count, NONE});
    if (count == NONE) { /* as many as there are; where y is inside, b is at least 1 */
        ExprId more = x_op2(k, loc, OP_sub,
                            x_extent(k, loc, ext_add(m, axis.extent, ext_sub(m, by, ext_const(m, 1)))), y);
        if (ir_prove_range(k, y, (Axis){by, NONE}, NONE) != PROOF_INSIDE)
            return 0;
        range =
            x_and(k, loc, range, x_op2(k, loc, OP_lt, x_index(k, loc, s), x_op2(k, loc, OP_idiv, more, b)));
    }
    ExprId to = x_op2(k, loc, OP_add, x_op2(k, loc, OP_mul, b, x_index(k, loc, s)), y);
    replace_index(k, r, i, s, to, c, range);
    return 1;
}

/* idiv(i, b) == j   ->   i is b*j + s, of a new index s: b. Lanes of j that share a loop would each wait for the terms of
 * all others. (Where j is computed, the terms stay a range of i, which products take.) */
static int solve_whole(Kernel *k, Reduction *r, uint32_t c, ExprId quotient, ExprId j)
{
    Loc loc = r->loc;
    ExprId n = x_arg(k, quotient, 0);
    Extent by = ir_divisor(k, quotient);
    if (x_at(k, n)->kind != X_INDEX || x_at(k, j)->kind != X_INDEX || by == NONE)
        return 0;
    IndexId i = x_at(k, n)->sym, s = ir_index(k, k->indices.at[i].name, loc, (Axis){by, NONE});
    Extent extent = k->indices.at[i].axis.extent;
    ExprId to = x_op2(k, loc, OP_add, x_op2(k, loc, OP_mul, x_arg(k, quotient, 1), j), x_index(k, loc, s));
    ExprId range = NONE;
    if (ir_prove_range(k, to, (Axis){extent, NONE}, NONE) != PROOF_INSIDE)
        range = x_op2(k, loc, OP_lt, to, x_extent(k, loc, extent));
    replace_index(k, r, i, s, to, c, range);
    return 1;
}

/* imod(i + c, b) == y   ->   i == imod(y - c, b), for i in 0..b-1 */
static int solve_turn(Kernel *k, Reduction *r, uint32_t c, ExprId rest, ExprId y)
{
    Extent by = divisor_extent(k, rest);
    ExprId n = x_arg(k, rest, 0), i = index_node(k, n, moving(k, r, n, y)), value;
    if (i == NONE || by == NONE || !ext_same(k->module, k->indices.at[x_at(k, i)->sym].axis.extent, by) ||
        !x_solve(k, n, y, i, &value) || x_uses_index(k, value, x_at(k, i)->sym))
        return 0;
    value = x_op2(k, r->loc, OP_imod, value, x_arg(k, rest, 1));
    ExprId equal = x_op2(k, r->loc, OP_eq, i, value);
    replace_conjuncts(k, r, c, NONE, x_and(k, r->loc, within(k, r->loc, y, x_arg(k, rest, 1)), equal));
    return 1;
}

/* b*x + y == e, y in 0..b-1   ->   x == idiv(e, b) and y == imod(e, b) */
static ExprId split_sides(Kernel *k, Loc loc, ExprId quotient, ExprId side, ExprId e)
{
    Extent by = ir_divisor(k, quotient);
    ExprId x, y, b = x_arg(k, quotient, 1);
    if (by == NONE || !x_split(k, side, by, &x, &y) || x_is_int(k, x, 0) ||
        ir_prove_range(k, y, (Axis){by, NONE}, NONE) != PROOF_INSIDE)
        return NONE;
    return x_and(k, loc, x_op2(k, loc, OP_eq, x, x_op2(k, loc, OP_idiv, e, b)),
                 x_op2(k, loc, OP_eq, y, x_op2(k, loc, OP_imod, e, b)));
}

/* What `side` == e says of a quotient that is a part of it and moves with the sum; or NONE. */
static ExprId said_of_part(Kernel *k, const Reduction *r, ExprId side, ExprId e)
{
    ExprId value, made = NONE;
    Nodes below = x_below(k, side, EVERYWHERE);
    for (uint32_t n = 0; n < below.n && made == NONE; n++) {
        ExprId q = below.at[n];
        IndexId i = x_is_op(k, q, OP_idiv) || x_is_op(k, q, OP_imod) ? moving(k, r, x_arg(k, q, 0), e)
                                                                     : (IndexId)NONE;
        if (i == NONE || q == side)
            continue;
        if (x_solve(k, side, e, q, &value) && !x_uses_index(k, value, i))
            made = x_op2(k, r->loc, OP_eq, q, value);
        else if (x_is_op(k, q, OP_idiv))
            made = split_sides(k, r->loc, q, side, e);
    }
    return made;
}

static int solve_part(Kernel *k, Reduction *r)
{
    for (uint32_t c = 0; c < r->where.n; c++)
        for (uint32_t side = 0; side < 2 && x_is_op(k, r->where.list[c], OP_eq); side++) {
            ExprId a = x_arg(k, r->where.list[c], side), b = x_arg(k, r->where.list[c], 1 - side);
            ExprId made = x_at(k, a)->type == TY_INT && x_at(k, b)->type == TY_INT ? said_of_part(k, r, a, b)
                                                                                   : (ExprId)NONE;
            if (made == NONE)
                continue;
            replace_conjuncts(k, r, c, NONE, made);
            return 1;
        }
    return 0;
}

/* Not before gradients are made, which are simple of a condition that names a quotient. */
int canon_solve_quotient(Kernel *k, Reduction *r)
{
    if (k->module->derives.len)
        return 0;
    if (solve_part(k, r))
        return 1;
    for (int rests = 0; rests < 2; rests++)
        for (uint32_t c = 0; c < r->where.n; c++)
            for (uint32_t side = 0; side < 2; side++) {
                ExprId x, e = r->where.list[c];
                ScalarOp op = (ScalarOp)x_at(k, e)->op;
                ExprId q = quotient_side(k, r, e, rests ? OP_imod : OP_idiv, side, &x);
                if (q == NONE || (rests && op != OP_eq))
                    continue;
                if (rests ? solve_turn(k, r, c, q, x) || solve_rest(k, r, c, q, x)
                          : op == OP_eq && (solve_both(k, r, c, q, x) || solve_whole(k, r, c, q, x)))
                    return 1;
                if (rests)
                    continue;
                replace_conjuncts(k, r, c, NONE, bounds_of(k, r->loc, side ? op_turned(op) : op, q, x));
                return 1;
            }
    return 0;
}
