/* Linear forms of integer expressions: `h*D + d`, `i - 1`, `2*i + j`. */
#include "ir/linear.h"

static int is_zero(const Module *m, Extent e)
{
    int64_t value;
    return ext_is_const(m, e, &value) && value == 0;
}

enum { MAX_TERMS = 256 }; /* of an extent: (A + 1) * (B + 1) * ... has two to the power of its factors */

int linear_small(const Module *m, Extent e)
{
    const ExtentForm *form = &m->extents.at[e];
    if (form->nterms > MAX_TERMS)
        return 0;
    for (uint32_t i = 0; i < form->nterms; i++)
        if (form->terms[i].coef > INT64_MAX / 4 || form->terms[i].coef < -(INT64_MAX / 4))
            return 0;
    return 1;
}

int linear_add_term(Module *m, Linear *l, ExprId atom, Extent coef)
{
    uint32_t at = 0;
    while (at < l->n && l->atom[at] != atom)
        at++;
    if (at == MAX_ATOMS)
        return 0;
    if (at == l->n) {
        l->atom[at] = atom;
        l->coef[at] = coef;
        l->n++;
    } else {
        l->coef[at] = ext_add(m, l->coef[at], coef);
    }
    if (!linear_small(m, coef) || !linear_small(m, l->coef[at]))
        return 0;
    if (is_zero(m, l->coef[at])) {
        l->n--;
        l->atom[at] = l->atom[l->n];
        l->coef[at] = l->coef[l->n];
    }
    return 1;
}

int linear_add(Module *m, Linear *into, const Linear *from, Extent factor)
{
    Extent product = ext_mul(m, from->constant, factor);
    into->constant = ext_add(m, into->constant, product);
    if (!linear_small(m, product) || !linear_small(m, into->constant))
        return 0;
    for (uint32_t i = 0; i < from->n; i++)
        if (!linear_add_term(m, into, from->atom[i], ext_mul(m, from->coef[i], factor)))
            return 0;
    return 1;
}

Linear linear_const(Module *m, int64_t value) { return (Linear){.constant = ext_const(m, value)}; }

/* Shared nodes are walked once for each use; beyond this many an expression is an atom. */
enum { MAX_NODES = 4096 };

static int form_of(Kernel *k, ExprId e, Linear *out, uint32_t *budget);

/* The product of two forms of which one has no atoms; 0 when both have. */
static int product_of(Kernel *k, ExprId a, ExprId b, Linear *out, uint32_t *budget)
{
    Module *m = k->module;
    Linear x, y;
    if (!form_of(k, a, &x, budget) || !form_of(k, b, &y, budget) || (x.n && y.n))
        return 0;
    *out = linear_const(m, 0);
    return x.n ? linear_add(m, out, &x, y.constant) : linear_add(m, out, &y, x.constant);
}

static int operation_of(Kernel *k, ExprId e, Linear *out, uint32_t *budget)
{
    Module *m = k->module;
    Linear b;
    if (x_is_op(k, e, OP_add) || x_is_op(k, e, OP_sub))
        return form_of(k, x_arg(k, e, 0), out, budget) && form_of(k, x_arg(k, e, 1), &b, budget) &&
               linear_add(m, out, &b, ext_const(m, x_is_op(k, e, OP_add) ? 1 : -1));
    if (x_is_op(k, e, OP_neg)) {
        *out = linear_const(m, 0);
        return form_of(k, x_arg(k, e, 0), &b, budget) && linear_add(m, out, &b, ext_const(m, -1));
    }
    if (x_is_op(k, e, OP_mul))
        return product_of(k, x_arg(k, e, 0), x_arg(k, e, 1), out, budget);
    return x_is_op(k, e, OP_stop) && form_of(k, x_arg(k, e, 0), out, budget);
}

/* Everything is linear in itself: what is not affine becomes one atom. 0 when there are too many atoms. */
static int form_of(Kernel *k, ExprId e, Linear *out, uint32_t *budget)
{
    Module *m = k->module;
    const Expr *x = x_at(k, e);
    *out = linear_const(m, 0);
    if (*budget == 0)
        return 0;
    --*budget;
    if (x->kind == X_INT) {
        out->constant = ext_const(m, x->value.i);
        return linear_small(m, out->constant);
    }
    if (x->kind == X_EXTENT) {
        out->constant = linear_folded(m, x->sym);
        return linear_small(m, out->constant);
    }
    if (x->kind == X_OP && operation_of(k, e, out, budget))
        return 1;
    *out = linear_const(m, 0);
    return linear_add_term(m, out, e, ext_const(m, 1));
}

int linear_of(Kernel *k, ExprId e, Linear *out)
{
    uint32_t budget = MAX_NODES;
    return form_of(k, e, out, &budget);
}

int x_affine(Kernel *k, ExprId e, Affine *out)
{
    Linear l;
    if (x_at(k, e)->type != TY_INT || !linear_of(k, e, &l) || l.n > MAX_RANK)
        return 0;
    *out = (Affine){.n = l.n, .constant = l.constant};
    for (uint32_t i = 0; i < l.n; i++) {
        if (x_at(k, l.atom[i])->kind != X_INDEX)
            return 0;
        out->index[i] = x_at(k, l.atom[i])->sym;
        out->coef[i] = l.coef[i];
    }
    return 1;
}

static int is_negative(const Module *m, Extent e)
{
    const ExtentForm *form = &m->extents.at[e];
    return form->nterms && form->terms[0].coef < 0;
}

/* sum + coef * atom, an atom of NONE being 1 */
static ExprId plus_term(Kernel *k, Loc loc, ExprId sum, Extent coef, ExprId atom)
{
    Module *m = k->module;
    int minus = is_negative(m, coef);
    int64_t number;
    if (is_zero(m, coef))
        return sum;
    if (minus)
        coef = ext_mul(m, coef, ext_const(m, -1));
    int is_number = ext_is_const(m, coef, &number);
    ExprId term = is_number ? x_int(k, loc, number) : x_extent(k, loc, coef);
    if (atom != NONE)
        term = is_number && number == 1 ? atom : x_op2(k, loc, OP_mul, term, atom);
    if (sum == NONE)
        return minus ? x_op1(k, loc, OP_neg, term) : term;
    return x_op2(k, loc, minus ? OP_sub : OP_add, sum, term);
}

static ExprId or_zero(Kernel *k, Loc loc, ExprId e) { return e == NONE ? x_int(k, loc, 0) : e; }

/* by * quotient + *rest, of a constant */
static Extent split_constant(Module *m, Extent e, Extent by, Extent *rest)
{
    *rest = ext_const(m, ext_rest(m, e, by));
    Extent quotient = ext_divide(m, ext_sub(m, e, *rest), by);
    if (quotient != NONE)
        return quotient;
    *rest = e;
    return ext_const(m, 0);
}

int x_split(Kernel *k, ExprId e, Extent by, ExprId *quotient, ExprId *rest)
{
    Module *m = k->module;
    Loc loc = x_at(k, e)->loc;
    Linear l;
    Extent over;
    *quotient = *rest = NONE;
    if (!linear_of(k, e, &l))
        return 0;
    for (uint32_t i = 0; i < l.n; i++) {
        Extent part = ext_divide(m, l.coef[i], by);
        ExprId *to = part == NONE ? rest : quotient;
        *to = plus_term(k, loc, *to, part == NONE ? l.coef[i] : part, l.atom[i]);
    }
    Extent part = split_constant(m, l.constant, by, &over);
    *quotient = or_zero(k, loc, plus_term(k, loc, *quotient, part, NONE));
    *rest = or_zero(k, loc, plus_term(k, loc, *rest, over, NONE));
    return 1;
}

int x_solve(Kernel *k, ExprId a, ExprId b, ExprId atom, ExprId *value)
{
    Module *m = k->module;
    Loc loc = x_at(k, a)->loc;
    Linear l, other;
    uint32_t at = 0;
    int64_t coef;
    if (!linear_of(k, a, &l) || !linear_of(k, b, &other) || !linear_add(m, &l, &other, ext_const(m, -1)))
        return 0;
    while (at < l.n && l.atom[at] != atom)
        at++;
    if (at == l.n || !ext_is_const(m, l.coef[at], &coef) || (coef != 1 && coef != -1))
        return 0;
    Extent turn = ext_const(m, -coef);
    ExprId sum = NONE;
    for (uint32_t i = 0; i < l.n; i++)
        if (i != at)
            sum = plus_term(k, loc, sum, ext_mul(m, l.coef[i], turn), l.atom[i]);
    *value = or_zero(k, loc, plus_term(k, loc, sum, ext_mul(m, l.constant, turn), NONE));
    return 1;
}
