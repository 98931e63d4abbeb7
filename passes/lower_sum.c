/* Reductions: registers, loops over the reduced indices, terms.
 *
 * Note [Domains]. Reductions of one equation that run over the same indices under the same condition (gate and up of
 * an expert, say) share one loop nest: a Domain. Its conditions become loop bounds where they are comparisons of the
 * index with something the loops outside know, runs of rows for `@r == e`, a walk over one bucket of a counting sort
 * for `key(t) == v`, and tests otherwise. Where a bound varies with the unrolled row, the loop is cut in three: only
 * the ends test, the middle, common to all rows, does not. */
#include "passes/lower.h"

#include <math.h>

typedef struct Domain {
    ExprId reduce[REDUCE_MAX]; /* [0] leads: the loops run over its indices */
    ExprId body[REDUCE_MAX];   /* in terms of the leader's indices */
    TensorId acc[REDUCE_MAX];
    uint32_t n;
    ExprId guard; /* NONE, or where the reductions are wanted at all */
    uint32_t nbound;
    IndexId bound[MAX_RANK * 2];
    ExprId conjunct[CONJUNCT_MAX];
    uint32_t nconjunct;
    IndexId lane; /* a reduced index that runs over lanes, or NONE */
    int64_t width;
    int unrolled;
} Domain;

/* Where the walk through a domain's indices stands. */
typedef struct Walk {
    const Domain *d;
    uint32_t open;    /* bits of d->bound whose loops are open */
    uint64_t pending; /* bits of d->conjunct still to be tested */
} Walk;

static void walk(Lower *l, Walk w);

/* ---- terms ---- */

static ExprId identity(Lower *l, ExprId reduce)
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

/* Opens the loop over unrolled rows and binds the row, kept inside its range. */
static void open_rows(Lower *l, Loc loc)
{
    Kernel *k = l->k;
    lower_for(l, loc, LOOP_UNROLL, l->unroll, x_int(k, loc, 0), x_int(k, loc, l->plan.rows), 1);
    ExprId row = x_op2(k, loc, OP_add, l->row_first, x_index(k, loc, l->unroll));
    IndexId i = l->plan.row;
    lower_bind(l, i, lower_min(l, row, lower_add(l, l->row_end, -1)), l->group.at[i]);
}

static const ExprId *acc_index(Lower *l, const Domain *d, ExprId *one)
{
    *one = d->unrolled ? x_index(l->k, (Loc){0}, l->unroll) : (ExprId)NONE;
    return one;
}

static void add_term(Lower *l, const Domain *d, uint32_t n)
{
    ExprId index, term = lower_value(l, d->body[n]);
    Expr x = *x_at(l->k, d->reduce[n]);
    acc_index(l, d, &index);
    if (x.op == RED_SUM) {
        lower_store(l, x.loc, d->acc[n], &index, term, 1);
        return;
    }
    ExprId old = x_load(l->k, x.loc, d->acc[n], &index);
    ExprId best = x_op2(l->k, x.loc, x.op == RED_MAX ? OP_max2 : OP_min2, old, term);
    lower_store(l, x.loc, d->acc[n], &index, best, 0);
}

/* Tests stand inside each other, so that one conjunct guards the accesses of the next. */
static void terms(Lower *l, Walk w)
{
    uint32_t depth = l->depth;
    Loc loc = x_at(l->k, w.d->reduce[0])->loc;
    if (w.d->unrolled)
        open_rows(l, loc);
    for (uint32_t c = 0; c < w.d->nconjunct; c++)
        if (w.pending >> c & 1)
            lower_if(l, loc, lower_value(l, w.d->conjunct[c]));
    for (uint32_t n = 0; n < w.d->n; n++)
        add_term(l, w.d, n);
    lower_close(l, depth);
}

/* ---- bounds ---- */

/* What a conjunct says of index i: i >= at (lower), i < at (upper), both for `==`. */
typedef struct Bound {
    ExprId at; /* equation level, free of i */
    int lower, upper;
} Bound;

static ScalarOp flip(ScalarOp op)
{
    return op == OP_lt ? OP_gt : op == OP_le ? OP_ge : op == OP_gt ? OP_lt : op == OP_ge ? OP_le : op;
}

/* The affine form without index i, times sign, as an expression. */
static ExprId rest_of(Lower *l, const Affine *a, IndexId i, int64_t sign)
{
    Kernel *k = l->k;
    Module *m = k->module;
    Extent s = ext_const(m, sign);
    ExprId sum = x_extent(k, (Loc){0}, ext_mul(m, a->constant, s));
    for (uint32_t n = 0; n < a->n; n++) {
        if (a->index[n] == i)
            continue;
        ExprId coef = x_extent(k, (Loc){0}, ext_mul(m, a->coef[n], s));
        sum = x_op2(k, (Loc){0}, OP_add, sum, x_op2(k, (Loc){0}, OP_mul, coef, x_index(k, (Loc){0}, a->index[n])));
    }
    return sum;
}

/* c as `i op other`; 0 when it is not of that form. */
static int solve(Lower *l, ExprId c, IndexId i, ScalarOp *op, ExprId *other)
{
    Kernel *k = l->k;
    const Expr *x = x_at(k, c);
    if (x->kind != X_OP || (x->op != OP_eq && flip((ScalarOp)x->op) == (ScalarOp)x->op))
        return 0;
    *op = (ScalarOp)x->op;
    ExprId a = x_arg(k, c, 0), b = x_arg(k, c, 1);
    for (int side = 0; side < 2; side++, *op = flip(*op)) {
        ExprId one = side ? b : a, two = side ? a : b;
        if (x_at(k, one)->kind == X_INDEX && x_at(k, one)->sym == i && !x_uses_index(k, two, i)) {
            *other = two;
            return 1;
        }
    }
    Affine form;
    int64_t coef;
    if (x_at(k, a)->type != TY_INT || x_at(k, b)->type != TY_INT || !x_affine(k, x_op2(k, (Loc){0}, OP_sub, a, b), &form))
        return 0;
    for (uint32_t n = 0; n < form.n; n++)
        if (form.index[n] == i && ext_is_const(k->module, form.coef[n], &coef) && (coef == 1 || coef == -1)) {
            *op = coef == 1 ? *op : flip(*op);
            *other = rest_of(l, &form, i, -coef);
            return 1;
        }
    return 0;
}

/* May `e` be computed where loop `i` of the walk opens: known there, the same for all lanes, always in memory? */
static int known_outside(Lower *l, const Walk *w, ExprId e)
{
    Kernel *k = l->k;
    each_below(n, k, e, EVERYWHERE) {
        ExprKind kind = (ExprKind)x_at(k, *n)->kind;
        if (kind == X_REDUCE || kind == X_IF || kind == X_ROW || kind == X_TOKEN || kind == X_SLOT)
            return 0;
        if (kind == X_INDEX && (x_at(k, *n)->sym == l->plan.lane || x_at(k, *n)->sym == w->d->lane))
            return 0;
        for (uint32_t b = 0; kind == X_INDEX && b < w->d->nbound; b++)
            if (x_at(k, *n)->sym == w->d->bound[b] && !(w->open >> b & 1))
                return 0;
        for (uint32_t a = 0; kind == X_LOAD && a < x_at(k, *n)->nargs; a++)
            if (x_at(k, x_arg(k, *n, a))->kind != X_INDEX)
                return 0; /* a gather may be in range only under the other conjuncts */
    }
    return x_at(k, e)->type == TY_INT;
}

static int bound_of(Lower *l, const Walk *w, ExprId c, IndexId i, Bound *out)
{
    ScalarOp op;
    ExprId other;
    if (!solve(l, c, i, &op, &other) || !known_outside(l, w, other))
        return 0;
    *out = (Bound){.at = other, .lower = op == OP_gt || op == OP_ge || op == OP_eq,
                   .upper = op == OP_lt || op == OP_le || op == OP_eq};
    if (op == OP_gt)
        out->at = lower_add(l, other, 1);
    return op == OP_eq || out->lower || out->upper;
}

/* lo <= index < hi for every unrolled row, and the parts that only some rows share. */
typedef struct Range {
    ExprId lo_min, lo_max, hi_min, hi_max;
    uint64_t exact; /* conjuncts that the bounds make true */
    uint64_t inner; /* those true between lo_max and hi_min only */
} Range;

static ExprId at_row(Lower *l, ExprId e, ExprId row)
{
    IndexId i = l->plan.row;
    lower_bind(l, i, row, l->group.at[i]);
    return lower_expr(l, e);
}

static void narrow(Lower *l, const Walk *w, const Bound *b, uint64_t bit, int upper_is_le, Range *r)
{
    int by_row = w->d->unrolled && x_uses_index(l->k, b->at, l->plan.row);
    ExprId first, last;
    if (by_row) {
        ExprId end = lower_min(l, lower_add(l, l->row_first, l->plan.rows), l->row_end);
        first = at_row(l, b->at, l->row_first);
        last = at_row(l, b->at, lower_add(l, end, -1));
        r->inner |= bit;
    } else {
        first = last = lower_expr(l, b->at);
        r->exact |= bit;
    }
    ExprId low = lower_min(l, first, last), high = lower_max(l, first, last);
    if (b->lower) {
        r->lo_min = lower_max(l, r->lo_min, low);
        r->lo_max = lower_max(l, r->lo_max, high);
    }
    if (b->upper) {
        r->hi_min = lower_min(l, r->hi_min, lower_add(l, low, upper_is_le));
        r->hi_max = lower_min(l, r->hi_max, lower_add(l, high, upper_is_le));
    }
}

static Range range_of(Lower *l, const Walk *w, IndexId i)
{
    Kernel *k = l->k;
    ExprId zero = x_int(k, (Loc){0}, 0), end = x_extent(k, (Loc){0}, k->indices.at[i].axis.extent);
    Range r = {zero, zero, end, end, 0, 0};
    for (uint32_t c = 0; c < w->d->nconjunct; c++) {
        Bound b;
        ScalarOp op;
        ExprId other;
        if (!(w->pending >> c & 1) || !bound_of(l, w, w->d->conjunct[c], i, &b))
            continue;
        solve(l, w->d->conjunct[c], i, &op, &other);
        narrow(l, w, &b, (uint64_t)1 << c, op == OP_le || op == OP_eq, &r);
    }
    return r;
}

/* ---- loops ---- */

static Loc walk_loc(Lower *l, const Walk *w) { return x_at(l->k, w->d->reduce[0])->loc; }

static void dense_loop(Lower *l, Walk w, IndexId i, ExprId lo, ExprId hi)
{
    uint32_t depth = l->depth;
    int vector = i == w.d->lane;
    lower_for(l, walk_loc(l, &w), vector ? LOOP_VECTOR : LOOP_ORDERED, i, lo, hi, vector ? w.d->width : 1);
    lower_bind(l, i, NONE, NONE);
    walk(l, w);
    lower_close(l, depth);
}

static void dense_loops(Lower *l, Walk w, IndexId i)
{
    Range r = range_of(l, &w, i);
    Walk ends = w, middle = w;
    ends.pending &= ~r.exact;
    middle.pending &= ~(r.exact | r.inner);
    if (!r.inner) {
        dense_loop(l, middle, i, r.lo_min, r.hi_max);
        return;
    }
    Loc loc = walk_loc(l, &w);
    ExprId a = r.lo_min, b = r.hi_max;
    if (r.lo_max != r.lo_min) {
        a = lower_let(l, loc, "inner", lower_min(l, r.lo_max, r.hi_max));
        dense_loop(l, ends, i, r.lo_min, a);
    }
    if (r.hi_min != r.hi_max) {
        b = lower_let(l, loc, "outer", lower_max(l, a, lower_min(l, r.hi_min, r.hi_max)));
        dense_loop(l, middle, i, a, b);
        dense_loop(l, ends, i, b, r.hi_max);
    } else {
        dense_loop(l, middle, i, a, b);
    }
}

static void run_loop(Lower *l, Walk w, IndexId r, ExprId group)
{
    uint32_t depth = l->depth;
    RouteId route = lower_route_of(l, r);
    int vector = r == w.d->lane;
    lower_for(l, walk_loc(l, &w), vector ? LOOP_VECTOR : LOOP_ORDERED, r, lower_run_start(l, route, group),
              lower_run_end(l, route, group), vector ? w.d->width : 1);
    lower_bind(l, r, NONE, group);
    walk(l, w);
    lower_close(l, depth);
}

/* The side of `@r == e` that is not @r, when it is known and the same for all lanes; else NONE. */
static ExprId run_group(Lower *l, const Walk *w, ExprId c, IndexId r)
{
    Kernel *k = l->k;
    if (!x_is_op(k, c, OP_eq))
        return NONE;
    for (uint32_t side = 0; side < 2; side++) {
        const Expr *x = x_at(k, x_arg(k, c, side));
        if (x->kind != X_GROUP || x_at(k, x_arg(k, x_arg(k, c, side), 0))->kind != X_INDEX ||
            x_at(k, x_arg(k, x_arg(k, c, side), 0))->sym != r)
            continue;
        ExprId other = x_arg(k, c, 1 - side);
        /* only a plain index is sure to be a group's number */
        if (x_at(k, other)->kind == X_INDEX && known_outside(l, w, other))
            return other;
    }
    return NONE;
}

static void row_loops(Lower *l, Walk w, IndexId r)
{
    for (uint32_t c = 0; c < w.d->nconjunct; c++) {
        ExprId group = w.pending >> c & 1 ? run_group(l, &w, w.d->conjunct[c], r) : (ExprId)NONE;
        if (group != NONE) {
            w.pending &= ~((uint64_t)1 << c);
            run_loop(l, w, r, lower_expr(l, group));
            return;
        }
    }
    uint32_t depth = l->depth;
    IndexId e = lower_index(l, "e");
    Extent groups = l->k->module->groups.at[l->k->indices.at[r].axis.group].groups;
    Loc loc = walk_loc(l, &w);
    lower_for(l, loc, LOOP_ORDERED, e, x_int(l->k, loc, 0), x_extent(l->k, loc, groups), 1);
    run_loop(l, w, r, x_index(l->k, loc, e));
    lower_close(l, depth);
}

static Bucket *made_bucket(Lower *l, const Bucket *sort)
{
    for (uint32_t i = 0; i < l->buckets.len; i++) {
        Bucket *b = &l->buckets.at[i];
        if (b->key == sort->key && b->guard == sort->guard && ext_same(l->k->module, b->buckets, sort->buckets))
            return b;
    }
    return NULL;
}

/* The elements of one bucket, in order; their indices are taken apart again from the flat number. */
static void bucket_loop(Lower *l, Walk w, const Bucket *sort, ExprId bucket)
{
    Kernel *k = l->k;
    uint32_t depth = l->depth;
    Loc loc = walk_loc(l, &w);
    const Bucket *made = made_bucket(l, sort);
    if (!made)
        BUG(k->module->arena, "lower: a counting sort of kernel %s was not prepared", k->name);
    IndexId p = lower_index(l, "p");
    ExprId at = x_index(k, loc, p), v = lower_expr(l, bucket), next = lower_add(l, v, 1);
    lower_for(l, loc, LOOP_ORDERED, p, x_load(k, loc, made->first, &v), x_load(k, loc, made->first, &next), 1);
    ExprId flat = lower_let(l, loc, "flat", x_load(k, loc, made->order, &at));
    for (uint32_t i = made->nbound; i-- > 0;) {
        ExprId extent = x_extent(k, loc, k->indices.at[made->bound[i]].axis.extent);
        ExprId own = i == 0 ? flat : x_op2(k, loc, OP_imod, flat, extent);
        lower_bind(l, made->bound[i], lower_let(l, loc, k->indices.at[made->bound[i]].name, own), NONE);
        flat = i == 0 ? flat : x_op2(k, loc, OP_idiv, flat, extent);
    }
    for (uint32_t b = 0; b < w.d->nbound; b++)
        for (uint32_t i = 0; i < made->nbound; i++)
            if (w.d->bound[b] == made->bound[i])
                w.open |= 1u << b;
    walk(l, w);
    lower_close(l, depth);
}

static int try_bucket(Lower *l, Walk w)
{
    Bucket sort;
    uint32_t conjunct;
    uint64_t implied;
    if (w.open || !lower_is_bucket(l, w.d->reduce[0], &sort, &conjunct, &implied))
        return 0;
    ExprId c = w.d->conjunct[conjunct];
    ExprId bucket = x_arg(l->k, c, x_arg(l->k, c, 0) == sort.key ? 1 : 0);
    if (x_uses_index(l->k, bucket, l->plan.lane))
        return 0;
    w.pending &= ~implied;
    bucket_loop(l, w, &sort, bucket);
    return 1;
}

static void walk(Lower *l, Walk w)
{
    if (try_bucket(l, w))
        return;
    for (uint32_t b = 0; b < w.d->nbound; b++) {
        if (w.open >> b & 1)
            continue;
        IndexId i = w.d->bound[b];
        w.open |= 1u << b;
        if (l->k->indices.at[i].axis.group != NONE)
            row_loops(l, w, i);
        else
            dense_loops(l, w, i);
        return;
    }
    terms(l, w);
}

/* ---- domains ---- */

static void declare(Lower *l, Domain *d, uint32_t n)
{
    const Expr *x = x_at(l->k, d->reduce[n]);
    int64_t lanes = d->lane != NONE ? d->width : l->plan.lane != NONE ? l->plan.width : 0;
    d->acc[n] = lower_reg(l, "acc", x->type == TY_INT ? EL_I64 : EL_F32, d->unrolled ? l->plan.rows : 0,
                          (uint32_t)lanes);
}

static void start(Lower *l, const Domain *d, const Equation *onto)
{
    uint32_t depth = l->depth;
    Loc loc = x_at(l->k, d->reduce[0])->loc;
    if (d->unrolled)
        open_rows(l, loc);
    for (uint32_t n = 0; n < d->n; n++) {
        ExprId index, value = identity(l, d->reduce[n]), at[MAX_RANK];
        acc_index(l, d, &index);
        if (onto) {
            for (uint32_t i = 0; i < onto->nindex; i++)
                at[i] = lower_expr(l, onto->index[i]);
            value = x_load(l->k, loc, onto->lhs, at);
        }
        lower_store(l, loc, d->acc[n], &index, value, 0);
    }
    lower_close(l, depth);
}

/* An integer max or min without terms has no value. */
static void check_terms(Lower *l, const Domain *d, uint32_t n)
{
    Expr x = *x_at(l->k, d->reduce[n]);
    if (x.op == RED_SUM || x.type != TY_INT)
        return;
    Stmt s = tile_stmt(TILE_check, x.loc);
    ExprId zero = x_int(l->k, x.loc, 0);
    s.value = x_op2(l->k, x.loc, OP_ne, x_load(l->k, x.loc, d->acc[n], NULL), identity(l, d->reduce[n]));
    s.report = s.limit = zero;
    s.status = STATUS_RANGE;
    s.text = arena_printf(l->k->module->arena, "%s: an integer %s over nothing has no value (%%lld terms, %%lld needed)",
                          l->k->name, x.op == RED_MAX ? "max" : "min");
    s.limit = x_int(l->k, x.loc, 1);
    lower_put(l, s);
}

/* What stands for the reduction from now on. */
static void finish(Lower *l, const Domain *d)
{
    for (uint32_t n = 0; n < d->n; n++) {
        Loc loc = x_at(l->k, d->reduce[n])->loc;
        ReduceKind kind = (ReduceKind)x_at(l->k, d->reduce[n])->op;
        ExprId index;
        acc_index(l, d, &index);
        ExprId value = x_load(l->k, loc, d->acc[n], &index);
        if (d->lane != NONE)
            value = x_lanes(l->k, loc, kind, value);
        vec_push(l->k->module->arena, &l->done, (Done){d->reduce[n], value});
    }
}

static void emit_domain(Lower *l, Domain *d, const Equation *onto)
{
    uint32_t depth = l->depth;
    for (uint32_t n = 0; n < d->n; n++)
        declare(l, d, n);
    start(l, d, onto);
    if (d->guard != NONE)
        lower_if(l, x_at(l->k, d->reduce[0])->loc, lower_value(l, d->guard));
    Walk w = {.d = d, .pending = d->nconjunct == 64 ? ~(uint64_t)0 : ((uint64_t)1 << d->nconjunct) - 1};
    walk(l, w);
    for (uint32_t n = 0; n < d->n; n++)
        check_terms(l, d, n);
    lower_close(l, depth);
    finish(l, d);
}

/* `e` with b's bound indices put in place of a's. */
static ExprId renamed(Lower *l, ExprId e, ExprId from, ExprId to)
{
    IndexId old[MAX_RANK * 2];
    ExprId fresh[MAX_RANK * 2];
    uint32_t n = x_at(l->k, from)->nbound;
    for (uint32_t i = 0; i < n; i++) {
        old[i] = x_bound(l->k, from, i);
        fresh[i] = x_index(l->k, (Loc){0}, x_bound(l->k, to, i));
    }
    return e == NONE ? (ExprId)NONE : x_substitute(l->k, e, old, fresh, n);
}

static int joins(Lower *l, const Domain *d, ExprId reduce)
{
    Kernel *k = l->k;
    const Expr *a = x_at(k, d->reduce[0]), *b = x_at(k, reduce);
    if (a->nbound != b->nbound)
        return 0;
    for (uint32_t i = 0; i < a->nbound; i++) {
        Axis x = k->indices.at[x_bound(k, d->reduce[0], i)].axis, y = k->indices.at[x_bound(k, reduce, i)].axis;
        if (x.group != y.group || !ext_same(k->module, x.extent, y.extent))
            return 0;
        if ((x_bound(k, d->reduce[0], i) == d->lane) != (x_bound(k, reduce, i) == lower_reduce_lane(l, reduce)) &&
            l->plan.lane == NONE)
            return 0;
    }
    return renamed(l, x_condition(k, reduce), reduce, d->reduce[0]) == x_condition(k, d->reduce[0]);
}

static void open_domain(Lower *l, Domain *d, ExprId reduce, ExprId guard)
{
    Kernel *k = l->k;
    *d = (Domain){.n = 1, .guard = guard, .lane = NONE};
    d->reduce[0] = reduce;
    d->body[0] = x_arg(k, reduce, 0);
    d->nbound = x_at(k, reduce)->nbound;
    if (d->nbound > MAX_RANK * 2)
        BUG(k->module->arena, "lower: a reduction of kernel %s runs over %u indices", k->name, d->nbound);
    for (uint32_t i = 0; i < d->nbound; i++)
        d->bound[i] = x_bound(k, reduce, i);
    d->nconjunct = x_conjuncts(k, x_condition(k, reduce), d->conjunct, CONJUNCT_MAX);
    d->unrolled = l->plan.rows > 1;
    if (l->plan.lane == NONE) {
        d->lane = lower_reduce_lane(l, reduce);
        d->width = (int64_t)l->cpu->lanes * 4;
    }
}

/* ---- where a reduction is wanted ---- */

typedef struct Wanted {
    ExprId reduce, guard;
} Wanted;

typedef struct Search {
    uint8_t *has; /* by ExprId: has a reduction below */
    Vec(Wanted) found;
    Vec(Wanted) seen; /* (node, guard) already visited */
} Search;

static void note(Lower *l, Search *s, ExprId reduce, ExprId guard)
{
    for (uint32_t i = 0; i < s->found.len; i++) {
        Wanted *w = &s->found.at[i];
        if (w->reduce != reduce)
            continue;
        if (w->guard != guard)
            w->guard = w->guard == NONE || guard == NONE ? (ExprId)NONE
                                                         : x_op2(l->k, (Loc){0}, OP_or, w->guard, guard);
        return;
    }
    vec_push(l->k->module->arena, &s->found, (Wanted){reduce, guard});
}

/* Where argument a of e is evaluated at all: a side of `if`, what stands behind `and` or `or`. */
static ExprId side_guard(Lower *l, ExprId e, uint32_t a, ExprId guard)
{
    Kernel *k = l->k;
    int choice = x_at(k, e)->kind == X_IF, either = x_is_op(k, e, OP_or);
    if (a == 0 || !(choice || either || x_is_op(k, e, OP_and)))
        return guard;
    ExprId first = x_arg(k, e, 0);
    return x_and(k, (Loc){0}, guard, either || a == 2 ? x_op1(k, (Loc){0}, OP_not, first) : first);
}

static void search(Lower *l, Search *s, ExprId e, ExprId guard)
{
    Kernel *k = l->k;
    if (!s->has[e])
        return;
    if (x_at(k, e)->kind == X_REDUCE) {
        note(l, s, e, guard);
        return;
    }
    for (uint32_t i = 0; i < s->seen.len; i++)
        if (s->seen.at[i].reduce == e && s->seen.at[i].guard == guard)
            return;
    vec_push(k->module->arena, &s->seen, (Wanted){e, guard});
    for (uint32_t a = 0; a < x_at(k, e)->nargs; a++)
        search(l, s, x_arg(k, e, a), s->has[x_arg(k, e, a)] ? side_guard(l, e, a, guard) : guard);
}

static Search wanted(Lower *l, ExprId e)
{
    Search s = {.has = arena_alloc(l->k->module->arena, (size_t)e + 1)};
    for (ExprId i = 0; i <= e; i++) {
        s.has[i] = x_at(l->k, i)->kind == X_REDUCE;
        for (uint32_t a = 0; a < x_at(l->k, i)->nargs; a++)
            s.has[i] |= s.has[x_arg(l->k, i, a)];
    }
    search(l, &s, e, NONE);
    return s;
}

int lower_sums(Lower *l, ExprId e, const Equation *onto)
{
    Search s = wanted(l, e);
    int starts = onto && l->k->tensors.at[onto->lhs].elem == EL_F32 && x_at(l->k, e)->kind == X_REDUCE && x_at(l->k, e)->op == RED_SUM &&
                 x_at(l->k, e)->type != TY_INT && (l->plan.lane != NONE || lower_reduce_lane(l, e) == NONE);
    Domain *d = arena_new_of(l->k->module->arena, Domain);
    for (uint32_t i = 0; i < s.found.len; i++) {
        if (s.found.at[i].reduce == NONE)
            continue;
        open_domain(l, d, s.found.at[i].reduce, s.found.at[i].guard);
        for (uint32_t j = i + 1; j < s.found.len && d->n < REDUCE_MAX; j++) {
            ExprId other = s.found.at[j].reduce;
            if (other == NONE || s.found.at[j].guard != d->guard || !joins(l, d, other))
                continue;
            d->reduce[d->n] = other;
            d->body[d->n++] = renamed(l, x_arg(l->k, other, 0), other, d->reduce[0]);
            s.found.at[j].reduce = NONE;
        }
        emit_domain(l, d, starts ? onto : NULL);
    }
    return starts;
}

ExprId lower_value(Lower *l, ExprId e)
{
    uint32_t mark = l->done.len;
    lower_sums(l, e, NULL);
    ExprId value = lower_expr(l, e);
    l->done.len = mark;
    return value;
}
