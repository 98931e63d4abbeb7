/* Where the sums of block products stand.
 *
 * before:  w[e, h, f] += sum(r in e) x[rt.token(r), h] * y[r, f]
 * after:   product w[e, u0, v0] += left[0, 0] * right[0, 0] ...
 *
 * A product adds to memory, so a sum can stand in the element that it is for, and nothing is copied. In stripes these are
 * elements of matrices of layout `sums`, whatever is done with them afterwards; elsewhere those of f32 tensors, if all that
 * the launch does is to add sums onto such elements. Other sums have a block of their own (lower/product.c), which the drain
 * reads. */
#include "lower/lower.h"

#include <string.h>

/* Leaves of an addition tree, counted along every path; more than `limit` is enough to know. */
static uint32_t leaves_of(const Kernel *k, ExprId e, uint32_t limit)
{
    if (!x_is_op(k, e, OP_add))
        return 1;
    uint32_t n = leaves_of(k, x_arg(k, e, 0), limit);
    return n > limit ? n : n + leaves_of(k, x_arg(k, e, 1), limit - n);
}

/* The product of the list that computes e, or NULL. */
static Product *product_of(Product *p, uint32_t n, ExprId e)
{
    for (uint32_t i = 0; i < n; i++)
        if (p[i].reduce == e)
            return &p[i];
    return NULL;
}

/* Does a member but `self` ask for this sum too? */
static int is_shared(const Kernel *k, const Members *m, uint32_t self, ExprId sum)
{
    for (uint32_t q = 0; q < m->n; q++)
        if (q != self && x_contains(k, m->at[q].rhs, sum))
            return 1;
    return 0;
}

void lower_find_chain(Lower *l, const Members *m, uint32_t self, Product *p, uint32_t n)
{
    const Kernel *k = l->k;
    const Equation *q = &m->at[self];
    uint32_t sums = 0;
    if (pass_traits(l->c)->zero_sums)
        return;
    if (q->kind != EQ_ADD || k->tensors.at[q->lhs].elem != EL_F32)
        return;
    each_below (x, k, q->rhs, X_REDUCE) {
        if (x_is_op(k, *x, OP_add))
            continue;
        if (!product_of(p, n, *x) || is_shared(k, m, self, *x))
            return;
        sums++;
    }
    if (leaves_of(k, q->rhs, sums) != sums)
        return;
    each_below (x, k, q->rhs, X_REDUCE)
        if (x_at(k, *x)->kind == X_REDUCE)
            product_of(p, n, *x)->chain = q;
}

/* Are the elements of q's rows and lanes in a matrix of sums? */
static int holds_sums(Lower *l, const Equation *q)
{
    const Kernel *k = l->k;
    ExprId at[MAX_RANK];
    memcpy(at, q->index, sizeof at);
    const Tensor *t = &k->tensors.at[lower_place(l, q->lhs, at)];
    return t->layout == LAYOUT_SUMS && t->rank == 2 && x_uses_index(k, at[0], l->plan.row) &&
           x_at(k, at[1])->kind == X_INDEX && x_at(k, at[1])->sym == l->plan.lane;
}

/* Has a sum all of its index's terms, or those of a group's run: are there none that only some rows have? */
static int is_whole(const Kernel *k, ExprId sum)
{
    ExprId c = x_condition(k, sum);
    return c == NONE || query_is_run(k, c);
}

/* Are q's elements f32 in rows that rows and lanes of the launch run along? */
static int lies_in_rows(Lower *l, const Equation *q)
{
    const Tensor *t = &l->k->tensors.at[q->lhs];
    uint32_t n = q->nindex;
    if (t->elem != EL_F32 || t->layout != LAYOUT_ROWS || n < 2 || lower_is_row(l, l->plan.row))
        return 0;
    for (uint32_t a = 0; a < n; a++) {
        const Expr *x = x_at(l->k, q->index[a]);
        if (x->kind != X_INDEX || lower_is_zero(l, x->sym) || (a + 2 == n) != (x->sym == l->plan.row) ||
            (a + 1 == n) != (x->sym == l->plan.lane))
            return 0;
    }
    return 1;
}

/* Does no member but q write its elements, and none ask for old ones? */
static int is_alone(const Kernel *k, const Members *m, const Equation *q)
{
    for (uint32_t i = 0; i < m->n; i++)
        if ((&m->at[i] != q && m->at[i].lhs == q->lhs) || x_loads(k, m->at[i].rhs, q->lhs))
            return 0;
    return 1;
}

int lower_in_place(Lower *l, const Members *m)
{
    Product p[REDUCE_MAX];
    uint32_t n = lower_find_products(l, m, p);
    for (uint32_t q = 0; q < m->n; q++) {
        lower_find_chain(l, m, q, p, n);
        if (!is_alone(l->k, m, &m->at[q]) || !lies_in_rows(l, &m->at[q]))
            return 0;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!p[i].chain || p[i].left == NONE || !is_whole(l->k, p[i].reduce))
            return 0;
    return 1;
}

const Equation *lower_home(Lower *l, const Members *m, const Product *p, uint32_t i)
{
    const Kernel *k = l->k;
    uint32_t q = 0;
    while (!x_contains(k, m->at[q].rhs, p[i].reduce))
        q++;
    if (l->plan.in_place)
        return &m->at[q];
    for (uint32_t j = 0; j < i; j++)
        if (p[j].home == &m->at[q] && !p[j].chain)
            return NULL;
    int owns = p[i].chain || (m->at[q].kind == EQ_ASSIGN && !is_shared(k, m, q, p[i].reduce));
    return owns && holds_sums(l, &m->at[q]) ? &m->at[q] : NULL;
}
