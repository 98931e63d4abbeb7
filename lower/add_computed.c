/* Additions onto elements that subscripts compute, in index order: acc[id[t], h] += x[t, h]. A bucketed sum that is added is
 * the same work:
 *   before:  acc[v, h] += sum(t where id[t] == v) x[t, h]
 *   after:   owned v0 in 0..H by 512 { for t in 0..T { v = id[t]   if v >= 0 and v < V {
 *              vector h in v0..v0 + 512 { acc[v, h] += x[t, h] } } } }
 * Each term goes to its element as it comes. So the additions onto an element are those of a sum that begins at its old value,
 * in the order of its terms; nothing is sorted, elements without terms are not touched, and the cost does not grow with V.
 * A bucketed sum that is assigned begins at zeros, if it has no other index: c[v] = sum(t where id[t] == v) x[t]. One thread does it,
 * which takes less time than it would to sort.
 *
 * The plain last subscript is owned in strips, so that threads never meet; every other index is an ordered loop inside. */
#include "lower/lower.h"

/* ---- which equations ---- */

static int is_computed(const Lower *l, const Equation *q)
{
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(l->k, q->index[i])->kind != X_INDEX && x_at(l->k, q->index[i])->kind != X_INT)
            return 1;
    return 0;
}

/* Is it one term for each key, over dense indices? */
static int has_term_for_key(const Lower *l, ExprId reduce, const Bucket *b)
{
    for (uint32_t i = 0; i < b->nbound; i++)
        if (lower_is_row(l, b->bound[i]))
            return 0;
    return b->nbound == x_at(l->k, reduce)->nbound;
}

/* Is there a last index beside v that threads can own, or no other index at all? */
static int can_be_owned(const Lower *l, const Equation *q, IndexId v)
{
    IndexId last = x_plain_index(l->k, q->index[q->nindex - 1u]);
    return q->nindex == 1 || (last != NONE && last != v && !lower_is_row(l, last));
}

/* Do its terms fit its element one by one? Those of f32, and ones that are counted; other integers are added in 64 bits. */
static int fits_element(const Kernel *k, const Equation *q)
{
    const Expr *x = x_at(k, q->rhs);
    Elem elem = k->tensors.at[q->lhs].elem;
    return x->type == TY_INT ? elem == EL_I32 && q->kind == EQ_ASSIGN && x_is_int(k, x_arg(k, q->rhs, 0), 1)
                             : elem == EL_F32;
}

int lower_adds_by_key(const Lower *l, const Equation *q, Bucket *b)
{
    Kernel *k = l->k;
    const Expr *x = q->rhs == NONE ? NULL : x_at(k, q->rhs);
    int begins = q->kind == EQ_ASSIGN && q->nindex == 1;
    return (begins || q->kind == EQ_ADD) && !is_computed(l, q) && x->kind == X_REDUCE && x->op == RED_SUM &&
           fits_element(k, q) && query_bucket(k, q->rhs, b) && has_term_for_key(l, q->rhs, b) &&
           can_be_owned(l, q, b->bucket) && !query_has_reduce(k, x_arg(k, q->rhs, 0)) &&
           !query_has_reduce(k, x_condition(k, q->rhs)) && !x_loads(k, q->rhs, q->lhs);
}

int lower_is_accumulated(const Lower *l, const Equation *q)
{
    Bucket b;
    return (q->kind == EQ_ADD && is_computed(l, q)) || lower_adds_by_key(l, q, &b);
}

/* ---- loops ---- */

/* An element whose target goes through a dropped row adds nothing. */
static void skip_dropped(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    for (uint32_t i = 0; i < q->nindex; i++) {
        each_below (n, k, q->index[i], EVERYWHERE)
            if (x_at(k, *n)->kind == X_ROW)
                build_if(&l->b, q->loc, x_op2(k, q->loc, OP_ge, lower_expr(l, *n), x_int(k, q->loc, 0)));
    }
}

/* The index of q's last subscript, if lanes can go over it: plain, and in no other subscript. */
static IndexId owned_lane(const Lower *l, const Equation *q, IndexId lane)
{
    IndexId last = x_plain_index(l->k, q->index[q->nindex - 1]);
    if (last == NONE || lower_is_row(l, last) || last != lane)
        return NONE;
    for (uint32_t i = 0; i + 1u < q->nindex; i++)
        if (x_uses_index(l->k, q->index[i], last))
            return NONE;
    return last;
}

static Blocking *decide(Lower *l, const Equation *q)
{
    Blocking *by = lower_decide(l, &(Members){.at = {*q}, .n = 1}, q->lhs, NULL, NONE);
    by->row = NONE;
    by->unroll = 1;
    by->lane = owned_lane(l, q, by->lane);
    if (by->lane != NONE) {
        by->width = l->cpu->lanes;
        by->nc = ADDED_STRIP;
    }
    return by;
}

/* The loop over strips of lanes; the first lane of one, or NONE. */
static ExprId open_strips(Lower *l, const Blocking *by, Loc loc)
{
    if (by->lane == NONE)
        return NONE;
    IndexId strip = build_index(&l->b, "v0");
    build_for(&l->b, loc, LOOP_OWNED, strip, x_int(l->k, loc, 0), lower_extent(l, by->lane), by->nc);
    return x_index(l->k, loc, strip);
}

/* Ordered loops over all indices but the lanes and `known`, then the lanes of the strip. */
static void open_others(Lower *l, Item *it, Loc loc, IndexId known, ExprId strip)
{
    const Blocking *by = it->by;
    for (uint32_t f = 0; f < by->nfree; f++)
        if (by->free[f] != by->lane && by->free[f] != known)
            lower_open_index(l, loc, by->free[f]);
    if (by->lane == NONE)
        return;
    lower_bind(l, by->lane, NONE, NONE);
    it->lane_first = strip;
    it->lane_end = x_min(l->k, x_add(l->k, strip, by->nc), lower_extent(l, by->lane));
    build_for(&l->b, loc, LOOP_VECTOR, by->lane, it->lane_first, it->lane_end, by->width);
}

/* ---- the two forms ---- */

static void add_elements(Lower *l, const Equation *q, Item *it, ExprId strip)
{
    open_others(l, it, q->loc, NONE, strip);
    skip_dropped(l, q);
    lower_sums(l, it, q->rhs, NULL);
    lower_store_element(l, q, 1);
}

/* What a sum needs whose terms are not sorted. */
static void prepare_terms(Lower *l, ExprId reduce)
{
    lower_prepare(l, x_arg(l->k, reduce, 0));
    if (x_condition(l->k, reduce) != NONE)
        lower_prepare(l, x_condition(l->k, reduce));
}

/* All elements of a vector. A count may not pass what they hold. */
static void begin_at_zeros(Lower *l, const Equation *q, const Bucket *b)
{
    Kernel *k = l->k;
    Loc loc = q->loc;
    int counts = k->tensors.at[q->lhs].elem == EL_I32;
    if (counts)
        lower_check_flat(l, lower_bucket_elements(l, b));
    uint32_t depth = l->b.depth;
    IndexId i = x_plain_index(k, q->index[0]), v = build_index(&l->b, k->indices.at[i].name);
    build_for(&l->b, loc, LOOP_VECTOR, v, x_int(k, loc, 0), lower_extent(l, i), l->cpu->lanes);
    build_store(&l->b, loc, q->lhs, (ExprId[]){x_index(k, loc, v)},
                counts ? x_int(k, loc, 0) : x_float(k, loc, 0), 0);
    build_close(&l->b, depth);
}

/* The terms in order; the key of each is the index that it is compared with. */
static void add_terms(Lower *l, const Equation *q, Item *it, ExprId strip, const Bucket *b)
{
    Kernel *k = l->k;
    Equation term = *q;
    const Domain *d = lower_domain(l, q->rhs);
    for (uint32_t i = 0; i < b->nbound; i++)
        lower_open_index(l, q->loc, b->bound[i]);
    ExprId guard = lower_key_guard(l, b);
    if (guard != NONE)
        build_if(&l->b, q->loc, guard);
    ExprId key = build_let(&l->b, q->loc, k->indices.at[b->bucket].name, lower_expr(l, b->key));
    build_if(&l->b, q->loc,
             x_and(k, q->loc, x_op2(k, q->loc, OP_ge, key, x_int(k, q->loc, 0)),
                   x_op2(k, q->loc, OP_lt, key, x_extent(k, q->loc, b->buckets))));
    lower_bind(l, b->bucket, key, NONE);
    open_others(l, it, q->loc, b->bucket, strip);
    for (uint32_t c = 0; c < d->nconjunct; c++)
        if (!(b->implied >> c & 1))
            build_if(&l->b, q->loc, lower_expr(l, d->conjunct[c]));
    term.rhs = d->body[0];
    lower_store_element(l, &term, 1);
    lower_bind(l, b->bucket, NONE, NONE);
}

void lower_add_computed(Lower *l, const Equation *q)
{
    Bucket b;
    int by_key = lower_adds_by_key(l, q, &b);
    const Blocking *by = decide(l, q);
    Item it = lower_new_item(by, q);
    for (uint32_t i = 0; i < q->nindex; i++)
        lower_prepare(l, q->index[i]);
    if (by_key)
        prepare_terms(l, q->rhs);
    else
        lower_prepare(l, q->rhs);
    lower_report_nest(l, lower_stem(l, q), by_key ? "accumulation by key" : "accumulation", by);
    build_launch(&l->b, q->loc, lower_stem(l, q));
    if (q->kind == EQ_ASSIGN)
        begin_at_zeros(l, q, &b);
    ExprId strip = open_strips(l, by, q->loc);
    if (by_key)
        add_terms(l, q, &it, strip, &b);
    else
        add_elements(l, q, &it, strip);
    l->env.done.len = 0;
}
