/* Right operands of a stripe's products that are packed once for many blocks.
 *
 * Note [Kept operands]. Keys and values of a head serve all its rows. Packed for each block of rows anew, as other right operands
 * are, they would take a sixth of attention's time. So a right operand that belongs to a head, which is to say to the outer
 * variables, and that no member computes, is packed for a span of blocks (for all blocks where they go in order): all
 * its terms and columns, as far as the conditions of the sum and of those who read the result ask for them. A member that
 * adds up over the rows has the rows of a block for its terms: its operand is packed for the block, and serves all
 * blocks of sums.
 *   Products read it from whole lines of terms and columns on. Slabs of terms that may begin elsewhere are packed
 * by themselves. */
#include "passes/cluster.h"
#include "lower/lower.h"

/* Does e vary with the two indices and outer variables only? */
static int belongs_to_head(const Lower *l, ExprId e, const IndexId *index)
{
    const Kernel *k = l->k;
    each_below (n, k, e, EVERYWHERE) {
        const Expr *x = x_at(k, *n);
        if (x->kind == X_REDUCE || x->kind == X_TOKEN || x->kind == X_SLOT || x->kind == X_ROW ||
            (x->kind == X_INDEX && x->sym != index[0] && x->sym != index[1] &&
             !lower_is_outer(l->stripe, x->sym) && !lower_is_zero(l, x->sym)))
            return 0;
    }
    return 1;
}

static int has_outer(const Lower *l, ExprId e)
{
    for (uint32_t o = 0; o < l->stripe->nouter; o++)
        if (x_uses_index(l->k, e, l->stripe->outer[o]))
            return 1;
    return 0;
}

static int reads_member(const Kernel *k, const Members *m, ExprId e)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (x_loads(k, e, m->at[i].lhs) || (m->at[i].ids != NONE && x_loads(k, e, m->at[i].ids)))
            return 1;
    return 0;
}

/* A product of two matrices over one index, none of whose rows are a group's. */
static int is_plain(const Lower *l, const Product *p)
{
    const Expr *x = x_at(l->k, p->reduce);
    return p->left != NONE && x->nbound == 1 && !lower_is_row(l, x_bound(l->k, p->reduce, 0)) &&
           !lower_is_row(l, l->plan.lane) &&
           (x_at(l->k, p->right)->kind != X_LOAD ||
            layout_is_dense(l->k->tensors.at[x_at(l->k, p->right)->sym].layout));
}

static Kept kept_of(Lower *l, const Product *p, const Equation *q)
{
    return (Kept){.product = *p, .reader = q->lhs, .index = {x_bound(l->k, p->reduce, 0), l->plan.lane}};
}

static void add(Lower *l, Kept *y, Extent terms)
{
    Kernel *k = l->k;
    Extent extents[2] = {terms, lower_length(l, y->index[1])};
    y->buffer = build_buffer(&l->b, "kept", y->product.right_elem, SPACE_THREAD, 2, extents);
    k->tensors.at[y->buffer].layout = LAYOUT_PAIRS;
    vec_push(k->module->arena, &l->kept, *y);
}

/* The planned equation's products. */
static void find_in(Lower *l, const Members *all, const Members *one)
{
    Kernel *k = l->k;
    const Equation *q = &one->at[0];
    Product p[REDUCE_MAX];
    uint32_t n = l->plan.row == l->stripe->row ? lower_find_products(l, one, p) : 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_plain(l, &p[i]))
            continue;
        Kept y = kept_of(l, &p[i], q);
        IndexId known[2] = {y.index[0], l->stripe->row};
        y.first = x_int(k, q->loc, 0);
        y.when[0] = x_condition(k, p[i].reduce);
        y.when[1] = k->tensors.at[q->lhs].placed ? cluster_needed(k, q->lhs) : (ExprId)NONE;
        if (belongs_to_head(l, p[i].right, y.index) && has_outer(l, p[i].right) &&
            !reads_member(k, all, p[i].right) &&
            (y.when[0] == NONE || belongs_to_head(l, y.when[0], known)) && checks_inside(k, q->rhs))
            add(l, &y, lower_length(l, y.index[0]));
    }
}

void lower_find_kept(Lower *l, const Members *m)
{
    if (pass_traits(l->c)->small_panels)
        return;
    for (uint32_t i = 0; i < m->n; i++) {
        Members one = {.at = {m->at[i]}, .n = 1};
        l->equation = &m->at[i];
        if (m->at[i].kind == EQ_TOP)
            continue;
        lower_unify(l, &one);
        lower_plan(l, &one, l->stripe->row);
        find_in(l, m, &one);
    }
}

/* Where a term stands in it. */
static ExprId place_of(Lower *l, const Kept *y, ExprId term)
{
    return x_is_int(l->k, y->first, 0) ? term : x_difference(l->k, term, y->first);
}

void lower_pack_kept(Lower *l, Loc loc, const Kept *y, const ExprId *from, const ExprId *to)
{
    Stmt s = tile_stmt(TILE_pack, loc);
    s.buffer = y->buffer;
    s.nindex = s.nbound = 2;
    for (uint32_t i = 0; i < 2; i++) {
        lower_bind(l, y->index[i], NONE, NONE);
        s.bound[i] = y->index[i];
        s.from[i] = from[i];
        s.to[i] = to[i];
        s.index[i] = i ? from[i] : place_of(l, y, from[i]);
    }
    s.value = lower_expr(l, y->product.right);
    build_put(&l->b, s);
}

void lower_pack_block(Lower *l, const Members *one, int64_t rows)
{
    Kernel *k = l->k;
    if (pass_traits(l->c)->small_panels)
        return;
    Product p[REDUCE_MAX];
    uint32_t n = lower_find_products(l, one, p);
    for (uint32_t i = 0; i < n; i++) {
        Kept y = is_plain(l, &p[i]) ? kept_of(l, &p[i], &one->at[0]) : (Kept){.reader = NONE};
        if (y.reader == NONE || y.index[0] != l->striped || !belongs_to_head(l, p[i].right, y.index))
            continue;
        Loc loc = one->at[0].loc;
        y.first = l->stripe_first;
        add(l, &y, ext_const(k->module, rows));
        lower_pack_kept(l, loc, &y, (ExprId[]){l->stripe_first, x_int(k, loc, 0)},
                        (ExprId[]){l->stripe_end, lower_extent(l, y.index[1])});
    }
}

ExprId lower_kept_at(Lower *l, const Product *p, ExprId term)
{
    for (uint32_t i = 0; i < l->kept.len; i++) {
        const Kept *y = &l->kept.at[i];
        if (y->product.reduce != p->reduce || y->reader != l->equation->lhs || y->index[1] != l->plan.lane)
            continue;
        term = lower_whole_lines(l, place_of(l, y, term), 0);
        return x_load(l->k, (Loc){0}, y->buffer, (ExprId[]){term, l->lane_first});
    }
    return NONE;
}
