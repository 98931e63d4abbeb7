/* The walk of a domain: a loop for each reduced index, the outermost first, and the terms inside. */
#include "lower/lower.h"

#include <math.h>

/* ---- terms ---- */

ExprId lower_identity(Lower *l, ExprId reduce)
{
    const Expr *x = x_at(l->k, reduce);
    Loc loc = x->loc;
    int integer = x->type == TY_INT;
    switch ((ReduceKind)x->op) {
    case RED_SUM: return integer ? x_int(l->k, loc, 0) : x_float(l->k, loc, 0);
    case RED_MAX: return integer ? x_int(l->k, loc, INT64_MIN) : x_float(l->k, loc, -INFINITY);
    case RED_MIN: return integer ? x_int(l->k, loc, INT64_MAX) : x_float(l->k, loc, INFINITY);
    }
    BUG(l->k->module->arena, "lower: unknown reduction in kernel %s", l->k->name);
}

ExprId lower_block_row(Lower *l, const Item *it)
{
    return x_op2(l->k, (Loc){0}, OP_add, it->row_first, x_index(l->k, (Loc){0}, l->unroll));
}

void lower_open_rows(Lower *l, const Item *it, Loc loc)
{
    Kernel *k = l->k;
    build_for(&l->b, loc, LOOP_UNROLL, l->unroll, x_int(k, loc, 0), x_int(k, loc, it->unroll), 1);
    IndexId i = it->by->row;
    lower_bind(l, i, x_min(l->k, lower_block_row(l, it), x_add(l->k, it->row_end, -1)), l->env.group.at[i]);
}

const ExprId *lower_acc_index(Lower *l, const Domain *d, ExprId *one)
{
    *one = d->unrolled ? x_index(l->k, (Loc){0}, l->unroll) : (ExprId)NONE;
    return one;
}

static void add_term(Lower *l, const Item *it, const Domain *d, uint32_t n)
{
    ExprId index, term = lower_value(l, it, d->body[n]);
    Expr x = *x_at(l->k, d->reduce[n]);
    lower_acc_index(l, d, &index);
    if (x.op == RED_SUM) {
        build_store(&l->b, x.loc, d->acc[n], &index, term, 1);
        return;
    }
    ExprId old = x_load(l->k, x.loc, d->acc[n], &index);
    ExprId best = x_op2(l->k, x.loc, x.op == RED_MAX ? OP_max2 : OP_min2, old, term);
    build_store(&l->b, x.loc, d->acc[n], &index, best, 0);
}

/* The element of another equation at the place of the reduction's term. */
static void store_along(Lower *l, const Equation *q, const Domain *d)
{
    IndexId column = x_plain_index(l->k, q->index[q->nindex - 1]);
    lower_bind(l, column, lower_expr(l, x_index(l->k, q->loc, d->bound[0])), NONE);
    lower_store_element(l, q, 0);
    lower_bind(l, column, NONE, NONE);
}

/* Tests stand inside each other, so that one conjunct guards the accesses of the next. */
static void terms(Lower *l, const Item *it, Walk w)
{
    uint32_t depth = l->b.depth, mark = l->env.done.len;
    Loc loc = x_at(l->k, w.d->reduce[0])->loc;
    if (w.d->unrolled) {
        for (uint32_t n = 0; n < w.d->n; n++)
            lower_sums(l, it, w.d->body[n], NULL); /* of all rows */
        lower_open_rows(l, it, loc);
    }
    for (uint32_t c = 0; c < w.d->nconjunct; c++)
        if (w.pending >> c & 1)
            build_if(&l->b, loc, lower_value(l, it, w.d->conjunct[c]));
    for (uint32_t n = 0; n < w.d->n; n++)
        add_term(l, it, w.d, n);
    if (it->by->along)
        store_along(l, it->by->along, w.d);
    build_close(&l->b, depth);
    l->env.done.len = mark;
}

/* ---- loops ---- */

static Loc walk_loc(Lower *l, const Walk *w) { return x_at(l->k, w->d->reduce[0])->loc; }

/* The loop over a reduced index around the rest of the walk. An equal reduction may stand outside, over the same
 * index: then the loop has a variable of its own, and the index means the outer one again afterwards. */
static void index_loop(Lower *l, const Item *it, Walk w, IndexId i, ExprId lo, ExprId hi, ExprId group)
{
    uint32_t depth = l->b.depth;
    int vector = i == w.d->lane, again = lower_stands_open(l, i);
    IndexId var = again ? build_index(&l->b, l->k->indices.at[i].name) : i;
    Binding outer = lower_binding(l, i);
    build_for(&l->b, walk_loc(l, &w), vector ? LOOP_VECTOR : LOOP_ORDERED, var, lo, hi,
              vector ? w.d->width : 1);
    lower_bind(l, i, again ? x_index(l->k, (Loc){0}, var) : (ExprId)NONE, group);
    lower_walk(l, it, w);
    build_close(&l->b, depth);
    lower_bind(l, i, outer.value, outer.group);
}

static void dense_loops(Lower *l, const Item *it, Walk w, IndexId i)
{
    Range r = lower_range(l, it, &w, i);
    Walk ends = w, middle = w;
    ends.pending &= ~r.exact;
    middle.pending &= ~(r.exact | r.inner);
    if (!r.inner) {
        index_loop(l, it, middle, i, r.lo_min, r.hi_max, NONE);
        return;
    }
    Loc loc = walk_loc(l, &w);
    ExprId a = r.lo_min, b = r.hi_max;
    if (r.lo_max != r.lo_min) {
        a = build_let(&l->b, loc, "inner", x_max(l->k, r.lo_min, x_min(l->k, r.lo_max, r.hi_max)));
        index_loop(l, it, ends, i, r.lo_min, a, NONE);
    }
    if (r.hi_min != r.hi_max) {
        b = build_let(&l->b, loc, "outer", x_max(l->k, a, x_min(l->k, r.hi_min, r.hi_max)));
        index_loop(l, it, middle, i, a, b, NONE);
        index_loop(l, it, ends, i, b, r.hi_max, NONE);
    } else {
        index_loop(l, it, middle, i, a, b, NONE);
    }
}

static void run_loop(Lower *l, const Item *it, Walk w, IndexId r, ExprId group)
{
    RouteId route = lower_route_of(l, r);
    const Narrowed *n = lower_narrowed(l, r);
    ExprId first = n ? n->lo : lower_run_start(l, route, group),
           end = n ? n->hi : lower_run_end(l, route, group);
    index_loop(l, it, w, r, first, end, group);
}

static void row_loops(Lower *l, const Item *it, Walk w, IndexId r)
{
    uint32_t conjunct;
    ExprId one = lower_run_group(l, it->by->lane, &w, r, &conjunct);
    if (one != NONE) {
        w.pending &= ~((uint64_t)1 << conjunct);
        run_loop(l, it, w, r, lower_expr(l, one));
        return;
    }
    uint32_t depth = l->b.depth;
    IndexId e = build_index(&l->b, "e");
    Extent groups = l->k->module->groups.at[l->k->indices.at[r].axis.group].groups;
    Loc loc = walk_loc(l, &w);
    build_for(&l->b, loc, LOOP_ORDERED, e, x_int(l->k, loc, 0), x_extent(l->k, loc, groups), 1);
    run_loop(l, it, w, r, x_index(l->k, loc, e));
    build_close(&l->b, depth);
}

/* The elements of one bucket, in order; their indices are taken apart again from the flat number. */
static void bucket_loop(Lower *l, const Item *it, Walk w, const Bucket *b, ExprId bucket)
{
    Kernel *k = l->k;
    uint32_t depth = l->b.depth;
    Loc loc = walk_loc(l, &w);
    const Sort *sort = lower_sort(l, b);
    if (!sort)
        BUG(k->module->arena, "lower: a counting sort of kernel %s was not prepared", k->name);
    IndexId p = build_index(&l->b, "p");
    ExprId at = x_index(k, loc, p), v = lower_expr(l, bucket), next = x_add(l->k, v, 1);
    build_for(&l->b, loc, LOOP_ORDERED, p, x_load(k, loc, sort->first, &v),
              x_load(k, loc, sort->first, &next), 1);
    ExprId flat = build_let(&l->b, loc, "flat", x_load(k, loc, sort->order, &at));
    Binding outer[MAX_RANK];
    for (uint32_t i = b->nbound; i-- > 0;) {
        outer[i] = lower_binding(l, b->bound[i]);
        ExprId extent = lower_extent(l, b->bound[i]);
        ExprId own = i == 0 ? flat : x_op2(k, loc, OP_imod, flat, extent);
        lower_bind(l, b->bound[i], build_let(&l->b, loc, k->indices.at[b->bound[i]].name, own), NONE);
        flat = i == 0 ? flat : x_op2(k, loc, OP_idiv, flat, extent);
    }
    for (uint32_t n = 0; n < w.d->nbound; n++)
        for (uint32_t i = 0; i < b->nbound; i++)
            if (w.d->bound[n] == b->bound[i])
                w.open |= 1u << n;
    lower_walk(l, it, w);
    build_close(&l->b, depth);
    for (uint32_t i = 0; i < b->nbound; i++)
        lower_bind(l, b->bound[i], outer[i].value, outer[i].group);
}

static int try_bucket(Lower *l, const Item *it, Walk w)
{
    Bucket b;
    if (w.open || !query_bucket(l->k, w.d->reduce[0], &b))
        return 0;
    ExprId c = w.d->conjunct[b.conjunct];
    ExprId bucket = x_arg(l->k, c, x_arg(l->k, c, 0) == b.key ? 1 : 0);
    if (x_uses_index(l->k, bucket, it->by->lane))
        return 0;
    w.pending &= ~b.implied;
    bucket_loop(l, it, w, &b, bucket);
    return 1;
}

void lower_walk(Lower *l, const Item *it, Walk w)
{
    if (try_bucket(l, it, w))
        return;
    for (uint32_t b = 0; b < w.d->nbound; b++) {
        if (w.open >> b & 1)
            continue;
        IndexId i = w.d->bound[b];
        w.open |= 1u << b;
        if (l->k->indices.at[i].axis.group != NONE)
            row_loops(l, it, w, i);
        else
            dense_loops(l, it, w, i);
        return;
    }
    terms(l, it, w);
}
