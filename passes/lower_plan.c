/* The plan of an equation: which index runs over lanes, which rows are unrolled.
 *
 * Note [Lanes and rows]. Lanes want contiguous memory: the last left-hand index when the loads inside reductions
 * are contiguous in it (or do not vary), else, per reduction, a reduced index that is contiguous; else none. Rows
 * are unrolled where that saves loads: a sum has an operand that varies with the lanes but not with the row, so one
 * vector of it serves a whole block of rows. Rows of one group share `@r`, so `w[@r, h, f]` counts as not varying
 * with r. Neither choice changes the bits of an element: its own chain of additions is the same. */
#include "passes/lower.h"

int lower_varies(const Kernel *k, ExprId e, IndexId i)
{
    each_below (n, k, e, X_GROUP)
        if (x_at(k, *n)->kind == X_INDEX && x_at(k, *n)->sym == i)
            return 1;
    return 0;
}

Stride lower_stride(Kernel *k, ExprId load, IndexId i)
{
    uint32_t n = x_at(k, load)->nargs;
    if (n == 0 || !lower_varies(k, load, i))
        return STRIDE_NONE;
    for (uint32_t a = 0; a + 1 < n; a++)
        if (lower_varies(k, x_arg(k, load, a), i))
            return STRIDE_FAR;
    Affine form;
    if (!x_affine(k, x_arg(k, load, n - 1), &form))
        return STRIDE_FAR;
    int64_t coef = 0;
    for (uint32_t t = 0; t < form.n; t++)
        if (form.index[t] == i && !ext_is_const(k->module, form.coef[t], &coef))
            return STRIDE_FAR;
    return coef == 1 ? STRIDE_ONE : STRIDE_FAR;
}

int lower_has_reduce(const Kernel *k, ExprId e)
{
    ExprId one;
    return e != NONE && lower_reductions(k, e, &one, 0) > 0;
}

uint32_t lower_reductions(const Kernel *k, ExprId e, ExprId *out, uint32_t max)
{
    uint32_t n = 0;
    each_below (i, k, e, X_REDUCE)
        if (x_at(k, *i)->kind == X_REDUCE && n++ < max)
            out[n - 1] = *i;
    return n;
}

/* What the loads below e do when i moves. */
typedef struct Tally {
    uint32_t none, one, far;
} Tally;

static void tally(Kernel *k, ExprId e, IndexId i, Tally *t)
{
    each_below (n, k, e, X_LOAD) {
        ExprKind kind = (ExprKind)x_at(k, *n)->kind;
        if (kind == X_LOAD) {
            Stride stride = lower_stride(k, *n, i);
            t->none += stride == STRIDE_NONE;
            t->one += stride == STRIDE_ONE;
            t->far += stride == STRIDE_FAR;
        } else if (kind == X_TOKEN || kind == X_SLOT || kind == X_ROW) {
            t->far += (uint32_t)lower_varies(k, *n, i);
        }
    }
}

IndexId lower_reduce_lane(Lower *l, ExprId reduce)
{
    Kernel *k = l->k;
    if (lower_has_reduce(k, x_arg(k, reduce, 0)) || x_at(k, reduce)->type == TY_INT)
        return NONE;
    Bucket sort;
    uint32_t conjunct;
    uint64_t implied;
    if (lower_has_reduce(k, x_condition(k, reduce)) || lower_is_bucket(l, reduce, &sort, &conjunct, &implied))
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

/* Is conjunct c `@r == e` or `e == @r`? */
static int is_run(const Kernel *k, ExprId c)
{
    return x_is_op(k, c, OP_eq) &&
           (x_at(k, x_arg(k, c, 0))->kind == X_GROUP || x_at(k, x_arg(k, c, 1))->kind == X_GROUP);
}

/* A free index that picks a bucket or a group's run sets the bounds of a loop: neither lanes nor rows. */
static int picks_run(Lower *l, const ExprId *reds, uint32_t nreds, IndexId i)
{
    for (uint32_t r = 0; r < nreds; r++) {
        ExprId parts[CONJUNCT_MAX];
        uint32_t n = x_conjuncts(l->k, x_condition(l->k, reds[r]), parts, CONJUNCT_MAX), conjunct = NONE;
        Bucket sort;
        uint64_t implied;
        lower_is_bucket(l, reds[r], &sort, &conjunct, &implied);
        for (uint32_t c = 0; c < n; c++)
            if ((c == conjunct || is_run(l->k, parts[c])) && x_uses_index(l->k, parts[c], i))
                return 1;
    }
    return 0;
}

/* Lanes on the last left-hand index? */
static IndexId free_lane(Lower *l, const Equation *q, const ExprId *reds, uint32_t nreds)
{
    Kernel *k = l->k;
    const Expr *last = q->nindex ? x_at(k, q->index[q->nindex - 1]) : NULL;
    if (!last || last->kind != X_INDEX)
        return NONE;
    IndexId i = last->sym;
    if (picks_run(l, reds, nreds, i))
        return NONE;
    Tally in_sums = {0};
    int other = 0;
    for (uint32_t r = 0; r < nreds; r++) {
        tally(k, reds[r], i, &in_sums);
        other |= lower_reduce_lane(l, reds[r]) != NONE;
    }
    return in_sums.far > 0 && other ? (IndexId)NONE : i;
}

/* Loads of a sum that vary with the lanes; of them, those that do not vary with the row; and whether some
 * load varies with the row only. */
static void operands(Kernel *k, ExprId e, IndexId lane, IndexId row, uint32_t *shared, uint32_t *own)
{
    each_below (n, k, e, X_LOAD) {
        if (x_at(k, *n)->kind != X_LOAD)
            continue;
        int by_lane = lower_varies(k, *n, lane), by_row = lower_varies(k, *n, row);
        *shared += by_lane && !by_row;
        *own += by_row && !by_lane;
    }
}

/* The row that most products of the equation would share an operand over. */
static IndexId unrolled_row(Lower *l, const Equation *q)
{
    const Plan *p = &l->plan;
    ExprId reds[REDUCE_MAX];
    if (p->lane == NONE || l->k->indices.at[p->lane].axis.group != NONE)
        return NONE; /* a strip of lanes is as wide as the registers, a run of rows is not */
    uint32_t nreds = lower_products(l, q->rhs, reds, REDUCE_MAX);
    for (uint32_t f = p->nfree; f-- > 0;) {
        uint32_t shared = 0, own = 0;
        if (p->free[f] == p->lane || picks_run(l, reds, nreds, p->free[f]))
            continue;
        for (uint32_t r = 0; r < nreds; r++)
            operands(l->k, x_arg(l->k, reds[r], 0), p->lane, p->free[f], &shared, &own);
        if (shared > 0 && own > 0)
            return p->free[f];
    }
    return NONE;
}

enum { POINTWISE_STRIP = 2048 };

void lower_plan(Lower *l, const Equation *q)
{
    Plan *p = &l->plan;
    ExprId reds[REDUCE_MAX];
    uint32_t nreds = lower_reductions(l->k, q->rhs, reds, REDUCE_MAX);
    if (nreds > REDUCE_MAX)
        BUG(l->k->module->arena, "lower: more than %d reductions in one equation of %s", REDUCE_MAX,
            l->k->name);
    *p = (Plan){.lane = NONE, .row = NONE, .rows = 1, .chunk = 1};
    for (uint32_t i = 0; i < q->nindex; i++)
        collect_free(l->k, q->index[i], p);
    p->lane = free_lane(l, q, reds, nreds);
    p->row = unrolled_row(l, q);
    if (p->row != NONE) {
        p->rows = l->cpu->rows;
        p->chunk = p->rows * 8;
        p->width = (int64_t)l->cpu->lanes * l->cpu->vectors;
        p->strip = p->width;
    } else if (p->lane != NONE) {
        p->width = nreds ? (int64_t)l->cpu->lanes * l->cpu->vectors : (int64_t)l->cpu->lanes;
        p->strip = nreds ? p->width * 4 : POINTWISE_STRIP;
    }
}
