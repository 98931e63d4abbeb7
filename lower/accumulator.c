/* Where the sums of block products stand.
 *
 * before:  w[e, h, f] += sum(r in e) x[rt.token(r), h] * y[r, f]
 * after:   product w[e, u0, v0] += left[0, 0] * right[0, 0] ...
 *
 * A product adds to memory, so a sum can stand in the element that it is for, and nothing is copied. In row-block groups these are
 * elements of matrices of layout `sums`, whatever is done with them afterwards; elsewhere those of f32 tensors: if all that
 * the launch does is to add sums onto such elements (its blocks are then those of sums in memory), or if an element is a sum
 * or a chain of them and nothing else, and in rows of groups if the terms are few. Other sums have a block of their own
 * (lower/product.c), which the epilogue reads.
 *
 * Note [Chains]. In f32 `acc += P + Q` is one chain of additions that begins at the old value and takes the terms of all sums, and
 * `y = P + Q` one that begins at nothing: one place holds the sums of all. Whichever is added up first begins it, and the others
 * join (lower/product.c). */
#include "lower/lower.h"

/* Leaves of an addition tree, counted along every path; more than `limit` is enough to know. */
static uint32_t leaves_of(const Kernel *k, ExprId e, uint32_t limit)
{
    if (!x_is_op(k, e, OP_add))
        return 1;
    uint32_t n = leaves_of(k, x_arg(k, e, 0), limit);
    return n > limit ? n : n + leaves_of(k, x_arg(k, e, 1), limit - n);
}

/* The product that computes e, or NULL. */
static LowerProduct *product_of(const Blocking *by, ExprId e)
{
    for (uint32_t i = 0; i < by->nproducts; i++)
        if (by->product[i].reduce == e)
            return &by->product[i];
    return NULL;
}

/* Does a member but q ask for this sum too? */
static int is_shared(const Kernel *k, const Members *m, const Equation *q, ExprId sum)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (&m->at[i] != q && x_contains(k, m->at[i].rhs, sum))
            return 1;
    return 0;
}

/* Is q one chain? The products, each of which is its own and stands once, are marked as the member's. */
static void find_chain(const Lower *l, Blocking *by, const Equation *q)
{
    const Kernel *k = l->k;
    uint32_t sums = 0;
    if (pass_traits(l->c)->zero_sums)
        return;
    if (k->tensors.at[q->lhs].elem != EL_F32)
        return;
    each_below (x, k, q->rhs, X_REDUCE) {
        if (x_is_op(k, *x, OP_add))
            continue;
        if (!product_of(by, *x) || is_shared(k, &by->m, q, *x))
            return;
        sums++;
    }
    if (leaves_of(k, q->rhs, sums) != sums || (q->kind != EQ_ADD && sums < 2))
        return;
    each_below (x, k, q->rhs, X_REDUCE)
        if (x_at(k, *x)->kind == X_REDUCE)
            product_of(by, *x)->chain = q;
}

void lower_find_chains(const Lower *l, Blocking *by)
{
    for (uint32_t q = 0; q < by->m.n; q++)
        find_chain(l, by, &by->m.at[q]);
}

/* Are the elements of q's rows and lanes in a matrix of sums? */
static int holds_sums(const Lower *l, const Blocking *by, const Equation *q)
{
    const Kernel *k = l->k;
    const LocalBuffer *p = lower_place_of(l, q->lhs);
    const Tensor *t = &k->tensors.at[p ? p->buffer : q->lhs];
    if (t->layout != LAYOUT_SUMS || t->rank != 2)
        return 0;
    uint32_t row = p ? p->row : 0, lane = 1;
    for (uint32_t a = 0; p && a < q->nindex; a++)
        if (p->keep >> a & 1)
            lane = a;
    return x_uses_index(k, q->index[row], by->row) && x_plain_index(k, q->index[lane]) == by->lane;
}

/* Has a sum all of its index's terms, or those of a group's run: are there none that only some rows have? */
static int is_whole(const Kernel *k, ExprId sum)
{
    ExprId c = x_condition(k, sum);
    return c == NONE || query_is_run(k, c);
}

/* Are q's elements f32 in rows that rows and lanes of the launch run along? */
static int lies_in_rows(const Lower *l, const Blocking *by, const Equation *q)
{
    const Tensor *t = &l->k->tensors.at[q->lhs];
    uint32_t n = q->nindex;
    if (t->elem != EL_F32 || t->layout != LAYOUT_ROWS || n < 2)
        return 0;
    for (uint32_t a = 0; a < n; a++) {
        const Expr *x = x_at(l->k, q->index[a]);
        if (x->kind != X_INDEX || lower_is_zero(l, x->sym) || (a + 2 == n) != (x->sym == by->row) ||
            (a + 1 == n) != (x->sym == by->lane))
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

int lower_in_place(const Lower *l, const Blocking *by)
{
    if (lower_is_row(l, by->row))
        return 0;
    for (uint32_t q = 0; q < by->m.n; q++)
        if (!is_alone(l->k, &by->m, &by->m.at[q]) || !lies_in_rows(l, by, &by->m.at[q]))
            return 0;
    for (uint32_t i = 0; i < by->nproducts; i++)
        if (!by->product[i].chain || by->product[i].left == NONE || !is_whole(l->k, by->product[i].reduce))
            return 0;
    return 1;
}

/* Is an element of q the sum of p, or those of its chain, all of them by blocks? */
static int is_of_blocks(const Lower *l, const Blocking *by, const Equation *q, const LowerProduct *p)
{
    if (q->rhs != p->reduce && (p->chain != q || q->kind == EQ_ADD))
        return 0;
    for (uint32_t i = 0; i < by->nproducts; i++) {
        const LowerProduct *other = &by->product[i];
        int adds = other == p || (p->chain && other->chain == p->chain);
        if (adds && (other->left == NONE || !is_whole(l->k, other->reduce)))
            return 0;
    }
    return 1;
}

/* Is that all that an element of q is, in the caller's memory or in work space? */
static int is_sum_alone(const Lower *l, const Blocking *by, const Equation *q, const LowerProduct *p)
{
    return !by->rowblock && !pass_traits(l->c)->zero_sums && is_of_blocks(l, by, q, p) &&
           is_alone(l->k, &by->m, q) && lies_in_rows(l, by, q);
}

const Equation *lower_accumulator(const Lower *l, const Blocking *by, uint32_t i)
{
    const Kernel *k = l->k;
    const LowerProduct *p = &by->product[i];
    const Equation *q = by->m.at;
    while (!x_contains(k, q->rhs, p->reduce))
        q++;
    if (by->in_place)
        return q;
    for (uint32_t j = 0; j < i; j++)
        if (by->product[j].accumulator == q && !by->product[j].chain)
            return NULL;
    int owns = p->chain || (q->kind == EQ_ASSIGN && !is_shared(k, &by->m, q, p->reduce));
    return owns && (holds_sums(l, by, q) || is_sum_alone(l, by, q, p)) ? q : NULL;
}

int lower_is_complete(const Blocking *by, const Equation *q)
{
    for (uint32_t i = 0; i < by->nproducts; i++) {
        const LowerProduct *p = &by->product[i];
        if (p->accumulator == q && (p->chain == q || p->reduce == q->rhs))
            return 1;
    }
    return 0;
}
