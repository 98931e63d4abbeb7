/* What the conditions of a reduction say of an index before its loop opens: bounds, and the group of a row. */
#include "lower/lower.h"

/* What a conjunct says of index i: each * i >= at (lower), each * i < at + more (upper), both for `==`. */
typedef struct Bound {
    ExprId at; /* equation level, free of i */
    int64_t each;
    int lower, upper, more;
} Bound;

/* May `e` be computed where loop `i` of the walk opens: known there, the same for all lanes, always in memory? */
static int known_outside(Lower *l, IndexId lane, const Walk *w, ExprId e)
{
    Kernel *k = l->k;
    each_below (n, k, e, EVERYWHERE) {
        ExprKind kind = (ExprKind)x_at(k, *n)->kind;
        if (kind == X_REDUCE || kind == X_IF || kind == X_ROW || kind == X_TOKEN || kind == X_SLOT)
            return 0;
        if (kind == X_INDEX && (x_at(k, *n)->sym == lane || x_at(k, *n)->sym == w->d->lane))
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
    int64_t each;
    if (!query_solve(l->k, c, i, &each, &op, &other) || !known_outside(l, NONE, w, other))
        return 0;
    *out = (Bound){.at = op == OP_gt ? x_add(l->k, other, 1) : other,
                   .each = each,
                   .lower = op == OP_gt || op == OP_ge || op == OP_eq,
                   .upper = op == OP_lt || op == OP_le || op == OP_eq,
                   .more = op == OP_le || op == OP_eq};
    return out->lower || out->upper;
}

/* Is e smallest and largest at the ends of any range of index i? */
static int is_monotone(Kernel *k, ExprId e, IndexId i)
{
    static const ScalarOp kept[] = {OP_neg,  OP_add,  OP_sub, OP_mul,
                                    OP_max2, OP_min2, OP_idiv}; /* if one argument moves */
    Affine form;
    if (!x_uses_index(k, e, i) || x_affine(k, e, &form))
        return 1;
    uint32_t op = 0, moving = 0, n = x_at(k, e)->nargs;
    while (op < sizeof kept / sizeof *kept && !x_is_op(k, e, kept[op]))
        op++;
    for (uint32_t a = 0; a < n; a++)
        moving += (uint32_t)x_uses_index(k, x_arg(k, e, a), i);
    if (op == sizeof kept / sizeof *kept || moving != 1)
        return 0;
    return is_monotone(k, x_arg(k, e, n > 1 && x_uses_index(k, x_arg(k, e, 1), i)), i);
}

static ExprId at_row(Lower *l, const Item *it, ExprId e, ExprId row)
{
    IndexId i = it->by->row;
    lower_bind(l, i, row, l->env.group.at[i]);
    return lower_expr(l, e);
}

static ExprId at_lane(Lower *l, IndexId lane, ExprId e, ExprId at)
{
    lower_bind(l, lane, at, NONE);
    ExprId there = lower_expr(l, e);
    lower_bind(l, lane, NONE, NONE);
    return there;
}

/* The lanes of an item share a loop by what the first and the last of them say, if they are some of all. */
static int lanes_tell(const Lower *l, const Item *it, const Walk *w, const Bound *b)
{
    IndexId lane = it->by->lane;
    return lane == NONE || !x_uses_index(l->k, b->at, lane) ||
           (it->lane_first != NONE && !x_is_int(l->k, it->lane_first, 0) && !lower_is_row(l, lane) &&
            !w->d->unrolled && is_monotone(l->k, b->at, lane));
}

/* Several rows share a loop by what the first and the last of them say. */
static int ends_tell(const Lower *l, const Item *it, const Walk *w, const Bound *b)
{
    return !w->d->unrolled || it->unroll == 1 || it->by->row == NONE || is_monotone(l->k, b->at, it->by->row);
}

/* The first i >= 0 with each * i >= e. */
static ExprId first_of(Lower *l, int64_t each, ExprId e)
{
    Kernel *k = l->k;
    if (each == 1)
        return e;
    ExprId from = x_max(k, e, x_int(k, (Loc){0}, 0)); /* a quotient is of no negative number */
    return x_op2(k, (Loc){0}, OP_idiv, x_add(k, from, each - 1), x_int(k, (Loc){0}, each));
}

static void narrow(Lower *l, const Item *it, const Walk *w, const Bound *b, uint64_t bit, Range *r)
{
    int by_row = w->d->unrolled && x_uses_index(l->k, b->at, it->by->row);
    IndexId lane = it->by->lane;
    ExprId first, last;
    if (lane != NONE && x_uses_index(l->k, b->at, lane)) {
        first = at_lane(l, lane, b->at, it->lane_first);
        last = at_lane(l, lane, b->at, x_add(l->k, it->lane_end, -1));
        r->inner |= bit;
    } else if (by_row) {
        int all = it->unroll == 0;
        ExprId end = all ? it->row_end : x_min(l->k, x_add(l->k, it->row_first, it->unroll), it->row_end);
        first = at_row(l, it, b->at, it->row_first);
        last = at_row(l, it, b->at, x_add(l->k, end, -1));
        r->inner |= bit;
    } else {
        first = last = lower_expr(l, b->at);
        r->exact |= bit;
    }
    ExprId low = x_min(l->k, first, last), high = x_max(l->k, first, last);
    if (b->lower) {
        r->lo_min = x_max(l->k, r->lo_min, first_of(l, b->each, low));
        r->lo_max = x_max(l->k, r->lo_max, first_of(l, b->each, high));
    }
    if (b->upper) {
        r->hi_min = x_min(l->k, r->hi_min, first_of(l, b->each, x_add(l->k, low, b->more)));
        r->hi_max = x_min(l->k, r->hi_max, first_of(l, b->each, x_add(l->k, high, b->more)));
    }
}

Range lower_range(Lower *l, const Item *it, const Walk *w, IndexId i)
{
    Kernel *k = l->k;
    ExprId zero = x_int(k, (Loc){0}, 0), end = lower_extent(l, i);
    Range r = {zero, zero, end, end, 0, 0};
    const Narrowed *n = lower_narrowed(l, i);
    if (n)
        r = (Range){n->lo, n->lo, n->hi, n->hi, 0, 0};
    for (uint32_t c = 0; c < w->d->nconjunct; c++) {
        Bound b;
        ExprId conjunct = w->d->conjunct[c];
        if (!(w->pending >> c & 1) || !bound_of(l, w, conjunct, i, &b) || !lanes_tell(l, it, w, &b) ||
            !ends_tell(l, it, w, &b))
            continue;
        narrow(l, it, w, &b, (uint64_t)1 << c, &r);
    }
    return r;
}

/* The side of `@r == e` that is not @r, when it is known, the same for all lanes, and the number of a group; else NONE. */
static ExprId group_side(Lower *l, IndexId lane, const Walk *w, ExprId c, IndexId r)
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
        GroupId group = k->indices.at[r].axis.group;
        Axis numbers = {k->module->groups.at[group].groups, NONE};
        if (x_at(k, other)->kind == X_INDEX && known_outside(l, lane, w, other) &&
            ir_prove_range(k, other, numbers, NONE) == PROOF_INSIDE)
            return other;
    }
    return NONE;
}

ExprId lower_run_group(Lower *l, IndexId lane, const Walk *w, IndexId r, uint32_t *conjunct)
{
    for (uint32_t c = 0; c < w->d->nconjunct; c++) {
        ExprId group = w->pending >> c & 1 ? group_side(l, lane, w, w->d->conjunct[c], r) : (ExprId)NONE;
        *conjunct = c;
        if (group != NONE)
            return group;
    }
    return NONE;
}

Walk lower_walk_from(const Domain *d)
{
    return (Walk){.d = d,
                  .pending = d->nconjunct == CONJUNCT_MAX ? ~(uint64_t)0 : ((uint64_t)1 << d->nconjunct) - 1};
}

ExprId lower_whole_lines(Lower *l, ExprId e, int64_t more)
{
    ExprId edge = x_int(l->k, (Loc){0}, LAYOUT_EDGE);
    return x_op2(l->k, (Loc){0}, OP_mul, x_op2(l->k, (Loc){0}, OP_idiv, x_add(l->k, e, more), edge), edge);
}

int lower_starts_line(const Lower *l, ExprId e)
{
    return e == l->env.strip || (x_at(l->k, e)->kind == X_INT && x_at(l->k, e)->value.i % LAYOUT_EDGE == 0);
}
