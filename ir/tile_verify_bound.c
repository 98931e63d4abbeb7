/* Proofs about sizes and places at the tile level.
 *
 * Note [Bounds]. The claim is a sum <= 0. min2, max2 and if are split into their sides: all of them where each may be
 * the value that counts, else one that suffices. A loop variable lies in its range wherever its loop's body runs, so it
 * is replaced by the end that makes the sum larger, and the range is not empty; nor is lo..hi inside `if lo < hi`.
 * c * idiv(x, c) lies in x - c + 1 .. x, and not below 0 if x does not; nor is a product if both of its sides are not.
 * A register whose value is known stands for it (Note [Written] and tile_know). Fields of a route that was checked, and
 * numbers in a list of blocks, are not negative, and start[g] + count[g] is no more than the rows. What is left must be a
 * constant and dimensions, which are never negative. So min2(a + 96, end) - a <= 96 is proved whatever a and end are. */
#include "ir/tile_verify.h"

#include <string.h>

enum { MAX_DEPTH = 24, MAX_STEPS = 20000 };

typedef struct TileTerm BoundTerm;

typedef struct TileBound {
    TileVerifier *v;
    int steps;
} TileBound;

/* ---- sums ---- */

static int same_size(const Monomial *a, const Monomial *b)
{
    return a && b && a->ndims == b->ndims && memcmp(a->dims, b->dims, sizeof *a->dims * a->ndims) == 0;
}

static void drop_term(TileSum *s, uint32_t i) { s->at[i] = s->at[--s->n]; }

static void add_term(TileSum *s, BoundTerm t)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (t.atom == NONE ? same_size(t.size, s->at[i].size) : t.atom == s->at[i].atom) {
            s->lost |= __builtin_add_overflow(s->at[i].coef, t.coef, &s->at[i].coef);
            if (s->at[i].coef == 0)
                drop_term(s, i);
            return;
        }
    if (s->n == TILE_MAX_TERMS)
        s->lost = 1;
    else
        s->at[s->n++] = t;
}

static void add_constant(TileSum *s, int64_t value, int64_t factor)
{
    int64_t product;
    s->lost |= __builtin_mul_overflow(value, factor, &product) ||
               __builtin_add_overflow(s->constant, product, &s->constant);
}

void tile_sum_extent(TileVerifier *v, TileSum *s, Extent e, int64_t factor)
{
    const Module *m = v->k->module;
    const ExtentForm *form = &m->extents.at[m->extents.at[e].folded];
    for (uint32_t i = 0; i < form->nterms; i++) {
        BoundTerm t = {.atom = NONE, .size = &form->terms[i]};
        s->lost |= __builtin_mul_overflow(t.size->coef, factor, &t.coef);
        if (t.size->ndims)
            add_term(s, t);
        else
            add_constant(s, t.coef, 1);
    }
}

/* The constant that e is, once extents and known registers are put in. */
static int is_constant(TileVerifier *v, ExprId e, int64_t *value)
{
    TileSum s = {0};
    tile_sum_expr(v, &s, e, 1);
    *value = s.constant;
    return !s.lost && s.n == 0;
}

/* factor * (a constant times the other side); 0 when neither side is constant. */
static int sum_product(TileVerifier *v, TileSum *s, ExprId e, int64_t factor)
{
    int64_t c;
    for (uint32_t side = 0; side < 2; side++)
        if (is_constant(v, x_arg(v->k, e, side), &c)) {
            s->lost |= __builtin_mul_overflow(c, factor, &c);
            tile_sum_expr(v, s, x_arg(v->k, e, 1 - side), c);
            return 1;
        }
    return 0;
}

/* 0: the operation is an atom. */
static int sum_op(TileVerifier *v, TileSum *s, ExprId e, int64_t factor)
{
    const Kernel *k = v->k;
    if (x_is_op(k, e, OP_mul))
        return sum_product(v, s, e, factor);
    int minus = x_is_op(k, e, OP_sub), neg = x_is_op(k, e, OP_neg);
    if (!minus && !neg && !x_is_op(k, e, OP_add))
        return 0;
    tile_sum_expr(v, s, x_arg(k, e, 0), neg ? -factor : factor);
    tile_sum_expr(v, s, neg ? (ExprId)NONE : x_arg(k, e, 1), minus ? -factor : factor);
    return 1;
}

void tile_sum_expr(TileVerifier *v, TileSum *s, ExprId e, int64_t factor)
{
    if (e == NONE || factor == 0 || s->lost)
        return;
    const Expr *x = x_at(v->k, e);
    if (factor == INT64_MIN)
        s->lost = 1;
    else if (x->kind == X_INT)
        add_constant(s, x->value.i, factor);
    else if (x->kind == X_EXTENT)
        tile_sum_extent(v, s, x->sym, factor);
    else if (x->kind == X_LOAD && v->known[x->sym] != NONE)
        tile_sum_expr(v, s, v->known[x->sym], factor);
    else if (x->kind != X_OP || !sum_op(v, s, e, factor))
        add_term(s, (BoundTerm){factor, e, NULL});
}

/* ---- proofs ---- */

static int prove(TileBound *b, const TileSum *s, int depth);

/* The claim with `by` for the atom of term i, and coef * more added. */
static int prove_with(TileBound *b, const TileSum *s, uint32_t i, ExprId by, int64_t more, int depth)
{
    TileSum rest = *s;
    drop_term(&rest, i);
    tile_sum_expr(b->v, &rest, by, s->at[i].coef);
    add_constant(&rest, more, s->at[i].coef);
    return prove(b, &rest, depth - 1);
}

typedef enum BoundSplit { SPLIT_NONE, SPLIT_ALL, SPLIT_ONE } BoundSplit;

static BoundSplit split_of(const Kernel *k, const BoundTerm *t)
{
    if (t->atom == NONE)
        return SPLIT_NONE;
    int larger = x_is_op(k, t->atom, OP_max2), smaller = x_is_op(k, t->atom, OP_min2);
    if (x_at(k, t->atom)->kind == X_IF)
        return SPLIT_ALL;
    if (!larger && !smaller)
        return SPLIT_NONE;
    return larger == (t->coef > 0) ? SPLIT_ALL : SPLIT_ONE;
}

static int is_stable_range(TileVerifier *v, uint32_t r)
{
    TileRange in = v->ranges.at[r];
    return tile_is_stable(v, in.lo) && tile_is_stable(v, in.hi);
}

ExprId tile_known_value(const TileVerifier *v, ExprId e)
{
    while (x_at(v->k, e)->kind == X_LOAD && v->known[x_at(v->k, e)->sym] != NONE)
        e = v->known[x_at(v->k, e)->sym];
    return e;
}

/* A range from `side` to max2(side, ..) is not empty, so that its end is not `side`. */
static int is_excluded(TileBound *b, ExprId atom, ExprId side)
{
    TileVerifier *v = b->v;
    for (uint32_t r = 0; x_is_op(v->k, atom, OP_max2) && r < v->ranges.len; r++)
        if (tile_known_value(v, v->ranges.at[r].hi) == atom &&
            tile_known_value(v, v->ranges.at[r].lo) == tile_known_value(v, side) && is_stable_range(v, r))
            return 1;
    return 0;
}

static int prove_side(TileBound *b, const TileSum *s, uint32_t i, ExprId side, int depth)
{
    return is_excluded(b, s->at[i].atom, side) || prove_with(b, s, i, side, 0, depth);
}

static int prove_split(TileBound *b, const TileSum *s, uint32_t i, BoundSplit how, int depth)
{
    const Kernel *k = b->v->k;
    ExprId atom = s->at[i].atom;
    uint32_t first = x_at(k, atom)->kind == X_IF; /* after the condition */
    if (how == SPLIT_ONE)
        return prove_with(b, s, i, x_arg(k, atom, first), 0, depth) ||
               prove_with(b, s, i, x_arg(k, atom, first + 1), 0, depth);
    return prove_side(b, s, i, x_arg(k, atom, first), depth) &&
           prove_side(b, s, i, x_arg(k, atom, first + 1), depth);
}

static const TileRange *range_of(const TileVerifier *v, ExprId atom)
{
    for (uint32_t r = v->ranges.len; atom != NONE && x_at(v->k, atom)->kind == X_INDEX && r-- > 0;)
        if (v->ranges.at[r].var == x_at(v->k, atom)->sym)
            return &v->ranges.at[r];
    return NULL;
}

static int prove_range(TileBound *b, const TileSum *s, uint32_t i, int depth)
{
    const TileRange *r = range_of(b->v, s->at[i].atom);
    int up = s->at[i].coef > 0;
    if (!r || !tile_is_stable(b->v, up ? r->hi : r->lo))
        return 0;
    return prove_with(b, s, i, up ? r->hi : r->lo, up ? -1 : 0, depth);
}

/* A range ends behind its first value where it is not empty. */
static int prove_end(TileBound *b, const TileSum *s, uint32_t i, int depth)
{
    TileVerifier *v = b->v;
    for (uint32_t r = 0; s->at[i].coef < 0 && r < v->ranges.len; r++)
        if (tile_known_value(v, v->ranges.at[r].hi) == s->at[i].atom && is_stable_range(v, r) &&
            prove_with(b, s, i, v->ranges.at[r].lo, 1, depth))
            return 1;
    return 0;
}

static int is_positive(TileBound *b, ExprId e, int depth)
{
    TileSum negative = {0};
    tile_sum_expr(b->v, &negative, e, -1);
    return prove(b, &negative, depth);
}

/* x * y and idiv(x, c) are at least 0 where x and y are. */
static int prove_positive(TileBound *b, const TileSum *s, uint32_t i, int depth)
{
    const Kernel *k = b->v->k;
    TileSum rest = *s;
    ExprId e = s->at[i].atom;
    if (s->at[i].coef > 0)
        return 0;
    drop_term(&rest, i);
    return prove(b, &rest, depth - 1) && is_positive(b, x_arg(k, e, 0), depth - 1) &&
           (x_is_op(k, e, OP_idiv) || is_positive(b, x_arg(k, e, 1), depth - 1));
}

static int prove_product(TileBound *b, const TileSum *s, uint32_t i, int depth)
{
    ExprId e = s->at[i].atom;
    return e != NONE && x_is_op(b->v->k, e, OP_mul) && prove_positive(b, s, i, depth);
}

/* c * idiv(x, c), any multiple of it. */
static int prove_quotient(TileBound *b, const TileSum *s, uint32_t i, int depth)
{
    TileVerifier *v = b->v;
    ExprId e = s->at[i].atom;
    int64_t c, coef = s->at[i].coef;
    if (e == NONE || !x_is_op(v->k, e, OP_idiv) || !is_constant(v, x_arg(v->k, e, 1), &c) || c < 1 ||
        coef % c)
        return 0;
    if (prove_positive(b, s, i, depth))
        return 1;
    TileSum rest = *s;
    drop_term(&rest, i);
    tile_sum_expr(v, &rest, x_arg(v->k, e, 0), coef / c);
    add_constant(&rest, coef < 0 ? 1 - c : 0, coef / c);
    return prove(b, &rest, depth - 1);
}

int tile_are_apart(TileVerifier *v, ExprId a, ExprId b, int64_t *by)
{
    TileSum difference = {0};
    tile_sum_expr(v, &difference, a, 1);
    tile_sum_expr(v, &difference, b, -1);
    *by = difference.constant;
    return !difference.lost && !difference.n;
}

RouteField tile_field_of(const TileVerifier *v, ExprId e)
{
    const Expr *x = x_at(v->k, e);
    const Tensor *t = x->kind == X_LOAD ? &v->k->tensors.at[x->sym] : NULL;
    return t && t->route != NONE ? (RouteField)t->field : RF_FIELDS;
}

int tile_is_count_of(TileVerifier *v, ExprId count, ExprId start)
{
    const Kernel *k = v->k;
    int64_t by;
    return tile_field_of(v, count) == RF_count &&
           k->tensors.at[x_at(k, count)->sym].route == k->tensors.at[x_at(k, start)->sym].route &&
           tile_are_apart(v, x_arg(k, count, 0), x_arg(k, start, 0), &by) && by == 0;
}

/* start[g] + count[g] is at most the rows. */
static int prove_group(TileBound *b, const TileSum *s, uint32_t i, int depth)
{
    TileVerifier *v = b->v;
    ExprId start = s->at[i].atom;
    if (start == NONE || s->at[i].coef < 0 || tile_field_of(v, start) != RF_start)
        return 0;
    RouteId route = v->k->tensors.at[x_at(v->k, start)->sym].route;
    for (uint32_t j = 0; j < s->n; j++) {
        if (s->at[j].atom == NONE || s->at[j].coef != s->at[i].coef ||
            !tile_is_count_of(v, s->at[j].atom, start))
            continue;
        TileSum rest = *s;
        drop_term(&rest, i > j ? i : j);
        drop_term(&rest, i > j ? j : i);
        tile_sum_extent(v, &rest, v->k->module->groups.at[v->k->routes.at[route].group].rows, s->at[i].coef);
        return prove(b, &rest, depth - 1);
    }
    return 0;
}

/* What is never negative. */
static int prove_listed(TileBound *b, const TileSum *s, uint32_t i, int depth)
{
    ExprId e = s->at[i].atom;
    if (e == NONE || s->at[i].coef > 0 || x_at(b->v->k, e)->kind != X_LOAD)
        return 0;
    RouteField field = tile_field_of(b->v, e);
    TileSum rest = *s;
    drop_term(&rest, i);
    return (field == RF_start || field == RF_count || b->v->rows[x_at(b->v->k, e)->sym]) &&
           prove(b, &rest, depth - 1);
}

static int only_dimensions(const TileSum *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->at[i].atom != NONE || s->at[i].coef > 0)
            return 0;
    return 1;
}

/* The claim is that lo < hi for a loop around: true where its body runs. */
static int is_nonempty(TileBound *b, const TileSum *s)
{
    for (uint32_t r = 0; r < b->v->ranges.len; r++) {
        TileSum rest = *s;
        tile_sum_expr(b->v, &rest, b->v->ranges.at[r].lo, -1);
        tile_sum_expr(b->v, &rest, b->v->ranges.at[r].hi, 1);
        if (!rest.lost && only_dimensions(&rest) && rest.constant <= 1 && is_stable_range(b->v, r))
            return 1;
    }
    return 0;
}

static int prove(TileBound *b, const TileSum *s, int depth)
{
    if (s->lost || depth == 0 || b->steps++ > MAX_STEPS)
        return 0;
    if (only_dimensions(s) && s->constant <= 0)
        return 1;
    if (is_nonempty(b, s))
        return 1;
    for (uint32_t i = 0; i < s->n; i++)
        if (prove_end(b, s, i, depth))
            return 1;
    for (BoundSplit how = SPLIT_ALL; how <= SPLIT_ONE; how++)
        for (uint32_t i = 0; i < s->n; i++)
            if (split_of(b->v->k, &s->at[i]) == how) {
                int proved = prove_split(b, s, i, how, depth);
                if (proved || how == SPLIT_ALL)
                    return proved;
            }
    for (uint32_t i = 0; i < s->n; i++)
        if (prove_range(b, s, i, depth) || prove_quotient(b, s, i, depth) || prove_product(b, s, i, depth) ||
            prove_group(b, s, i, depth) || prove_listed(b, s, i, depth))
            return 1;
    return 0;
}

int tile_sum_at_most_zero(TileVerifier *v, const TileSum *s)
{
    /* short proofs first: there are fewer of them */
    for (int depth = MAX_DEPTH / 4; depth <= MAX_DEPTH; depth *= 2) {
        TileBound b = {.v = v};
        if (prove(&b, s, depth))
            return 1;
    }
    return 0;
}

/* ---- multiples ---- */

static int is_size_multiple(const Module *m, Extent e, int64_t of)
{
    const ExtentForm *form = &m->extents.at[m->extents.at[e].folded];
    for (uint32_t i = 0; i < form->nterms; i++) {
        int64_t factor = form->terms[i].coef % of;
        for (uint32_t d = 0; d < form->terms[i].ndims; d++)
            factor = factor * (m->dims.at[form->terms[i].dims[d]].multiple % of) % of;
        if (factor)
            return 0;
    }
    return 1;
}

static int is_op_multiple(TileVerifier *v, ExprId e, int64_t of)
{
    const Kernel *k = v->k;
    if (x_is_op(k, e, OP_neg))
        return tile_is_multiple(v, x_arg(k, e, 0), of);
    if (x_is_op(k, e, OP_mul))
        return tile_is_multiple(v, x_arg(k, e, 0), of) || tile_is_multiple(v, x_arg(k, e, 1), of);
    if (x_is_op(k, e, OP_add) || x_is_op(k, e, OP_sub) || x_is_op(k, e, OP_min2) || x_is_op(k, e, OP_max2))
        return tile_is_multiple(v, x_arg(k, e, 0), of) && tile_is_multiple(v, x_arg(k, e, 1), of);
    return 0;
}

int tile_is_multiple(TileVerifier *v, ExprId e, int64_t of)
{
    const Expr *x = x_at(v->k, e);
    const TileRange *r = range_of(v, e);
    if (of == 1)
        return 1;
    if (x->kind == X_INT)
        return x->value.i % of == 0;
    if (x->kind == X_EXTENT)
        return is_size_multiple(v->k->module, x->sym, of);
    if (x->kind == X_LOAD && v->known[x->sym] != NONE)
        return tile_is_multiple(v, v->known[x->sym], of);
    if (r)
        return r->step % of == 0 && tile_is_stable(v, r->lo) && tile_is_multiple(v, r->lo, of);
    if (x->kind == X_IF)
        return tile_is_multiple(v, x_arg(v->k, e, 1), of) && tile_is_multiple(v, x_arg(v->k, e, 2), of);
    return x->kind == X_OP && is_op_multiple(v, e, of);
}
