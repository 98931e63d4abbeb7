/* The plan of an equation: which index runs over lanes, which rows make block products.
 *
 * Note [Lanes and rows]. A sum whose body is a product of something that varies with a row and something that varies with
 * the last left-hand index is a product of two matrices: it goes in blocks of those rows and columns (lower/product.c).
 * Rows of one group share `@r`, so `w[@r, h, f]` counts as not varying with r. Otherwise lanes want contiguous memory: the
 * last left-hand index when the loads inside reductions are contiguous in it (or do not vary), else, per reduction, a
 * reduced index that is contiguous; else none. */
#include "lower/lower.h"
#include "passes/schedule.h"

/* What the loads below e do when i moves. */
typedef struct Tally {
    uint32_t none, one, far;
} Tally;

static void tally(Kernel *k, ExprId e, IndexId i, Tally *t)
{
    each_below (n, k, e, X_LOAD) {
        ExprKind kind = (ExprKind)x_at(k, *n)->kind;
        if (kind == X_LOAD) {
            Stride stride = query_stride(k, *n, i);
            t->none += stride == STRIDE_NONE;
            t->one += stride == STRIDE_ONE;
            t->far += stride == STRIDE_FAR;
        } else if (kind == X_TOKEN || kind == X_SLOT || kind == X_ROW) {
            t->far += (uint32_t)query_varies(k, *n, i);
        }
    }
}

IndexId lower_reduce_lane(Lower *l, ExprId reduce)
{
    Kernel *k = l->k;
    if (query_has_reduce(k, x_arg(k, reduce, 0)) || x_at(k, reduce)->type == TY_INT)
        return NONE;
    if (query_has_reduce(k, x_condition(k, reduce)) || query_is_bucketed(k, reduce))
        return NONE;
    for (uint32_t b = x_at(k, reduce)->nbound; b-- > 0;) {
        Tally t = {0};
        tally(k, x_arg(k, reduce, 0), x_bound(k, reduce, b), &t);
        if (t.one > 0 && t.far == 0)
            return x_bound(k, reduce, b);
    }
    return NONE;
}

/* Left-hand indices, each once, those inside a scattered subscript included. */
static void add_free(const Kernel *k, Plan *p, IndexId i)
{
    for (uint32_t f = 0; f < p->nfree; f++)
        if (p->free[f] == i)
            return;
    if (p->nfree == FREE_MAX)
        BUG(k->module->arena, "lower: more than %d index variables on the left in kernel %s", FREE_MAX,
            k->name);
    p->free[p->nfree++] = i;
}

static void collect_free(Kernel *k, ExprId e, Plan *p)
{
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_INDEX)
            add_free(k, p, x_at(k, *n)->sym);
}

/* A free index that picks a bucket or a group's run sets the bounds of a loop: neither lanes nor rows. */
static int picks_run(Lower *l, const ExprId *reds, uint32_t nreds, IndexId i)
{
    for (uint32_t r = 0; r < nreds; r++) {
        ExprId parts[CONJUNCT_MAX];
        uint32_t n = x_conjuncts(l->k, x_condition(l->k, reds[r]), parts, CONJUNCT_MAX);
        Bucket sort = {.conjunct = NONE};
        query_bucket(l->k, reds[r], &sort);
        for (uint32_t c = 0; c < n; c++)
            if ((c == sort.conjunct || query_is_run(l->k, parts[c])) && x_uses_index(l->k, parts[c], i))
                return 1;
    }
    return 0;
}

/* The last left-hand index, where lanes run if they run over one at all: not over one that stands as a loop outside. */
static IndexId last_index(const Lower *l, const Equation *q)
{
    const Expr *last = q->nindex ? x_at(l->k, q->index[q->nindex - 1]) : NULL;
    if (!last || last->kind != X_INDEX || (l->stripe && lower_is_outer(l->stripe, last->sym)))
        return NONE;
    return last->sym;
}

/* Lanes on the last left-hand index? */
static IndexId free_lane(Lower *l, const Equation *q, const ExprId *reds, uint32_t nreds)
{
    IndexId i = last_index(l, q);
    Tally in_sums = {0};
    int other = 0;
    if (i == NONE || picks_run(l, reds, nreds, i))
        return NONE;
    for (uint32_t r = 0; r < nreds; r++) {
        tally(l->k, reds[r], i, &in_sums);
        other |= lower_reduce_lane(l, reds[r]) != NONE;
    }
    return in_sums.far > 0 && other ? (IndexId)NONE : i;
}

/* The left-hand index, the last if there are several, that makes some sum of the equation a product of two matrices. */
static IndexId product_row(Lower *l, const Members *m, IndexId lane, IndexId only)
{
    const Plan *p = &l->plan;
    ExprId reds[REDUCE_MAX];
    Product product;
    if (lane == NONE || l->k->indices.at[lane].axis.group != NONE)
        return NONE; /* columns go in whole fragments, a run of rows has any length */
    uint32_t nreds = 0;
    for (uint32_t q = 0; q < m->n; q++)
        nreds += lower_products(l, m->at[q].rhs, reds + nreds, REDUCE_MAX - nreds);
    if (picks_run(l, reds, nreds, lane))
        return NONE;
    for (uint32_t f = p->nfree; f-- > 0;) {
        if (p->free[f] == lane || (l->stripe && lower_is_outer(l->stripe, p->free[f])) ||
            (only != NONE && p->free[f] != only) || picks_run(l, reds, nreds, p->free[f]))
            continue;
        for (uint32_t r = 0; r < nreds; r++)
            if (lower_factor(l, reds[r], p->free[f], lane, &product))
                return p->free[f];
    }
    return NONE;
}

/* How many different products the plan's block has, whether the right operands of all are given, and whether some operand has
 * 32 bits. */
static uint32_t count_products(Lower *l, const Members *m, int *given, int *wide)
{
    ExprId reds[REDUCE_MAX];
    uint32_t nreds = 0, n = 0;
    Product product;
    *given = 1;
    *wide = 0;
    for (uint32_t q = 0; q < m->n; q++)
        nreds += lower_products(l, m->at[q].rhs, reds + nreds, REDUCE_MAX - nreds);
    for (uint32_t r = 0; r < nreds; r++) {
        uint32_t first = 0;
        while (reds[first] != reds[r])
            first++;
        if (first < r || !lower_factor(l, reds[r], l->plan.row, l->plan.lane, &product))
            continue;
        *given &= lower_given(l, &product) != GIVEN_NOT;
        *wide |= x_at(l->k, product.left)->type != TY_BF16 || x_at(l->k, product.right)->type != TY_BF16;
        n++;
    }
    return n;
}

/* Do neither groups nor other indices make many items? */
static int is_alone(const Lower *l) { return l->plan.nfree == 2 && !lower_is_row(l, l->plan.row); }

/* The block that suits. */
static Blocks usual_blocks(Lower *l, const Members *m)
{
    const Plan *p = &l->plan;
    int given, wide;
    uint32_t products = count_products(l, m, &given, &wide);
    BlocksOf of = given ? BLOCKS_GIVEN : p->in_place ? BLOCKS_IN_PLACE : BLOCKS_OTHER;
    Blocks usual = schedule_usual(l->c, l->k, of, is_alone(l), products);
    if (wide && pass_traits(l->c)->small_panels)
        usual.depth /= 2;
    return usual;
}

static uint32_t all_reductions(Lower *l, const Members *m, ExprId *reds)
{
    uint32_t n = 0;
    for (uint32_t q = 0; q < m->n; q++) {
        n += query_reductions(l->k, m->at[q].rhs, reds + n, REDUCE_MAX - n);
        if (n > REDUCE_MAX)
            BUG(l->k->module->arena, "lower: more than %d reductions in one launch of %s", REDUCE_MAX,
                l->k->name);
    }
    return n;
}

void lower_plan(Lower *l, const Members *m, IndexId row)
{
    Plan *p = &l->plan;
    const Equation *q = &m->at[0];
    ExprId reds[REDUCE_MAX];
    uint32_t nreds = all_reductions(l, m, reds);
    *p = (Plan){.lane = NONE, .row = NONE, .rows = 1, .chunk = 1};
    for (uint32_t i = 0; i < q->nindex; i++)
        collect_free(l->k, q->index[i], p);
    p->width = (int64_t)l->cpu->lanes * (nreds ? l->cpu->vectors : POINTWISE_VECTORS);
    p->row = nreds || row != NONE || l->stripe ? (IndexId)NONE : lower_panel_row(l, m);
    if (p->row != NONE) {
        p->panels = 1;
        p->lane = last_index(l, q);
        p->chunk = LAYOUT_EDGE;
        return;
    }
    p->row = product_row(l, m, last_index(l, q), row);
    if (p->row != NONE) {
        TensorId lhs = l->equation->lhs;
        p->lane = last_index(l, q);
        p->in_place = row == NONE && !l->stripe && lower_in_place(l, m);
        Blocks usual = usual_blocks(l, m);
        p->rows = UNROLLED_ROWS;
        p->chunk = l->stripe && p->row == l->stripe->row ? schedule_stripe_rows(l->c, l->k, p->row)
                                                         : schedule_rows(l->c, l->k, lhs, usual.rows);
        p->part = usual.part_rows && usual.part_rows < p->chunk ? usual.part_rows : p->chunk;
        p->even = is_alone(l) && p->part < p->chunk;
        p->strip = schedule_cols(l->c, l->k, lhs, usual.cols);
        p->depth = schedule_depth(l->c, l->k, lhs, usual.depth);
        return;
    }
    p->lane = free_lane(l, q, reds, nreds);
    p->strip = !nreds                            ? 0
               : pass_traits(l->c)->long_vectors ? schedule_machine(l->c, l->k)->align.block * VECTOR_BLOCKS
                                                 : p->width * SUM_STEPS;
}
