/* Stripes: a launch that computes several equations for a block of rows, or for one row, then for the next.
 *
 * Note [Stripes]. The rows of a block pass through all members of the cluster (Note [Clusters] in ir.h) while what they hand
 * on stays in the thread's memory: a placed tensor s[b, n, i, j] is s[i - first row of the block, j] there. Of a placed tensor
 * only those columns are computed that some reader asks for with some row of the block (cluster_needed): what a `where`
 * excludes for all of them is never touched. Members that add up over the rows keep f32 sums from block to block, in the
 * thread's memory too, and are stored after the last one; then blocks run in order, else they are the parallel items.
 * Block products want many rows. Where there is none, row by row is faster: a row is still in the L1 cache when the next
 * member reads it. */
#include "passes/cluster.h"
#include "lower/lower.h"
#include "passes/schedule.h"

int lower_is_outer(const Cluster *c, IndexId i)
{
    for (uint32_t o = 0; o < c->nouter; o++)
        if (c->outer[o] == i)
            return 1;
    return 0;
}

int lower_has_row(const Kernel *k, const Cluster *c, const Equation *q)
{
    for (uint32_t a = 0; a < q->nindex; a++)
        if (x_plain_index(k, q->index[a]) == c->row)
            return 1;
    return 0;
}

/* ---- placed tensors ---- */

/* A thread's buffer for a tensor that q defines as this value, with the axes that are no outer ones. `rows` > 0: it has a
 * row, and that many of it; else it holds f32 sums. Block products may add into it, and touch more than is asked for, if the
 * value can be computed everywhere. */
static Place place(Lower *l, const Cluster *c, const Equation *q, TensorId tensor, ExprId value, int64_t rows)
{
    Kernel *k = l->k;
    const Tensor *t = &k->tensors.at[tensor];
    Extent extents[MAX_RANK] = {0};
    uint32_t n = rows > 0;
    Place p = {.tensor = tensor, .row = NONE};
    for (uint32_t a = 0; a < q->nindex; a++) {
        IndexId i = x_plain_index(k, q->index[a]);
        if (rows > 0 && i == c->row) {
            p.row = a;
            extents[0] = ext_const(k->module, rows);
        } else if (i == NONE || !lower_is_outer(c, i)) {
            p.keep |= 1u << a;
            extents[n++] = t->axes[a].extent;
        }
    }
    p.buffer = build_buffer(&l->b, t->name, rows > 0 ? t->elem : EL_F32, SPACE_THREAD, n, extents);
    if (n == 2 && rows != 1 && k->tensors.at[p.buffer].elem == EL_F32 && checks_inside(k, value))
        k->tensors.at[p.buffer].layout = LAYOUT_SUMS;
    return p;
}

/* ---- columns that are needed ---- */

/* Are all variables of a condition on index i known, but for the row? */
static int is_known(const Lower *l, const Cluster *c, ExprId condition, IndexId i)
{
    each_below (n, l->k, condition, EVERYWHERE) {
        IndexId x = x_at(l->k, *n)->sym;
        if (x_at(l->k, *n)->kind == X_INDEX && x != i && x != c->row && !lower_stands_open(l, x))
            return 0;
    }
    return 1;
}

/* The conjuncts that say something of index i now. */
static void choose_conjuncts(const Lower *l, const Cluster *c, ExprId condition, Domain *d)
{
    ExprId all[CONJUNCT_MAX];
    uint32_t n = x_conjuncts(l->k, condition, all, CONJUNCT_MAX);
    for (uint32_t a = 0; a < n; a++)
        if (is_known(l, c, all[a], d->bound[0]))
            d->conjunct[d->nconjunct++] = all[a];
}

/* What a condition leaves of index i for the rows of the block; whole: from a whole line on. */
static void narrow_to(Lower *l, const Cluster *c, Loc loc, ExprId condition, IndexId i, int whole, ExprId *lo,
                      ExprId *hi)
{
    Kernel *k = l->k;
    Plan saved = l->plan;
    Domain *d = arena_new_of(k->module->arena, Domain);
    *d = (Domain){.nbound = 1, .lane = NONE, .unrolled = 1};
    d->bound[0] = i;
    choose_conjuncts(l, c, condition, d);
    Walk w = lower_walk_from(d);
    w.open = 1;
    l->plan = (Plan){.lane = NONE, .row = c->row, .rows = 0};
    l->row_first = l->stripe_first;
    l->row_end = l->stripe_end;
    lower_bind(l, c->row, NONE, NONE);
    Range r = lower_range(l, &w, i);
    l->plan = saved;
    lower_bind(l, c->row, NONE, NONE);
    *lo = whole && !lower_starts_line(l, r.lo_min) ? lower_whole_lines(l, r.lo_min, 0) : r.lo_min;
    *hi = r.hi_max;
    if (!d->nconjunct)
        return;
    *lo = build_let(&l->b, loc, "lo", *lo);
    *hi = build_let(&l->b, loc, "hi", x_max(l->k, *lo, r.hi_max));
}

/* ---- sums over the rows ---- */

typedef struct Carry {
    const Equation *q;
    ExprId reduce;
    Place place;
} Carry;

typedef Vec(Carry) Carries;

/* The carried sum as an equation of its own: sums[...] += reduce. */
static Equation carried(const Carry *y)
{
    Equation q = *y->q;
    q.kind = EQ_ADD;
    q.lhs = y->place.buffer;
    q.rhs = y->reduce;
    q.nindex = 0;
    for (uint32_t a = 0; a < y->q->nindex; a++)
        if (y->place.keep >> a & 1)
            q.index[q.nindex++] = y->q->index[a];
    return q;
}

/* One row's term of each place: a sum that is no product of matrices needs no loop over rows. */
static int is_term(Lower *l, const Carry *y, const Cluster *c)
{
    const Expr *x = x_at(l->k, y->reduce);
    return l->stripe_first == x_index(l->k, (Loc){0}, c->row) && x->nbound == 1 &&
           x_condition(l->k, y->reduce) == NONE;
}

static Equation term(Lower *l, const Carry *y)
{
    Equation q = carried(y);
    q.rhs = x_arg(l->k, y->reduce, 0);
    return q;
}

/* ---- members with the row on their left ---- */

/* Ordered loops over the indices that are neither outer ones, the row nor the lanes. */
static void open_others(Lower *l, const Cluster *c, Loc loc)
{
    const Plan *p = &l->plan;
    for (uint32_t f = 0; f < p->nfree; f++) {
        IndexId i = p->free[f];
        if (lower_is_outer(c, i) || i == c->row || i == p->row || i == p->lane)
            continue;
        if (lower_is_row(l, i)) {
            lower_open_all_rows(l, loc, i);
            continue;
        }
        lower_bind(l, i, NONE, NONE);
        build_for(&l->b, loc, LOOP_ORDERED, i, x_int(l->k, loc, 0), lower_extent(l, i), 1);
    }
}

/* Blocks of columns between lo and hi, one after the other. */
static void open_strips(Lower *l, Loc loc, ExprId lo, ExprId hi)
{
    IndexId v = build_index(&l->b, "v0");
    build_for(&l->b, loc, LOOP_ORDERED, v, lo, hi, l->plan.strip);
    l->lane_first = x_index(l->k, loc, v);
    l->lane_end = x_min(l->k, x_add(l->k, l->lane_first, l->plan.strip), hi);
}

/* The rows of the block one by one, unless one is open already. */
static void each_row(Lower *l, Loc loc, const Cluster *c)
{
    if (l->stripe_first == x_index(l->k, loc, c->row))
        return;
    lower_bind(l, c->row, NONE, NONE);
    build_for(&l->b, loc, LOOP_ORDERED, c->row, l->stripe_first, l->stripe_end, 1);
}

static void bind_rows(Lower *l, ExprId first, ExprId end)
{
    l->item_first = l->row_first = first;
    l->item_end = l->row_end = end;
}

/* The K largest of each row. */
static void choose(Lower *l, const Equation *q, const Cluster *c)
{
    uint32_t depth = l->b.depth;
    l->plan = (Plan){.lane = NONE, .row = NONE, .rows = 1};
    for (uint32_t a = 0; a + 1u < q->nindex; a++)
        l->plan.free[l->plan.nfree++] = x_plain_index(l->k, q->index[a]);
    each_row(l, q->loc, c);
    open_others(l, c, q->loc);
    lower_put_top(l, q);
    build_close(&l->b, depth);
}

/* Can the planned member's loop over its row add up those terms on the way? */
static int goes_along(Lower *l, const Equation *q, const Cluster *c, const Carry *y)
{
    const Kernel *k = l->k;
    IndexId place = y && is_term(l, y, c) ? x_plain_index(k, term(l, y).index[0]) : (IndexId)NONE;
    return place != NONE && term(l, y).nindex == 1 && l->plan.lane != NONE && l->plan.lane != c->row &&
           l->plan.nfree == 2 && !k->tensors.at[q->lhs].placed && !query_has_reduce(k, q->rhs) &&
           !x_loads(k, y->reduce, q->lhs) &&
           ext_same(k->module, lower_length(l, place), lower_length(l, l->plan.lane));
}

static Equation along(Lower *l, const Carry *y)
{
    Kernel *k = l->k;
    Equation q = term(l, y);
    IndexId place = x_plain_index(k, q.index[0]);
    ExprId lane = x_index(k, q.loc, l->plan.lane);
    q.rhs = x_substitute(k, q.rhs, &place, &lane, 1);
    q.index[0] = lane;
    return q;
}

/* `next`: the sum that follows, or NULL; 1: it was added up as well. */
static int lower_member(Lower *l, const Equation *q, const Cluster *c, const Carry *next)
{
    Kernel *k = l->k;
    uint32_t depth = l->b.depth;
    Members one = {.at = {*q}, .n = 1};
    lower_unify(l, &one);
    lower_plan(l, &one, c->row);
    Plan *p = &l->plan;
    if (p->lane != NONE && lower_is_row(l, p->lane) && p->lane != c->row)
        p->lane = NONE;
    lower_bind(l, c->row, NONE, NONE);
    bind_rows(l, l->stripe_first, l->stripe_end);
    ExprId lo = l->stripe_first, hi = l->stripe_end;
    open_others(l, c, q->loc);
    if (p->lane != NONE && p->lane != c->row) {
        ExprId needed = k->tensors.at[q->lhs].placed ? cluster_needed(k, q->lhs) : (ExprId)NONE;
        narrow_to(l, c, q->loc, needed, p->lane, p->row != NONE && checks_inside(k, q->rhs), &lo, &hi);
        lower_bind(l, p->lane, NONE, NONE);
    }
    l->lane_first = lo;
    l->lane_end = hi;
    if (p->row != NONE)
        open_strips(l, q->loc, lo, hi);
    else if (p->lane != c->row)
        each_row(l, q->loc, c);
    int both = goes_along(l, q, c, next);
    if (both)
        one.at[one.n++] = along(l, next);
    lower_item(l, &one);
    build_close(&l->b, depth);
    return both;
}

/* ---- members that add up over the rows ---- */

static void find_carries(Lower *l, const Cluster *c, const Equation *q, Carries *out)
{
    ExprId reds[REDUCE_MAX];
    uint32_t n = query_reductions(l->k, q->rhs, reds, REDUCE_MAX);
    for (uint32_t i = 0; i < n; i++)
        vec_push(l->k->module->arena, out, (Carry){q, reds[i], place(l, c, q, q->lhs, reds[i], 0)});
}

/* Loops over the places of a carried sum, the last one in lanes. */
static void open_places(Lower *l, const Equation *sums)
{
    Kernel *k = l->k;
    for (uint32_t a = 0; a < sums->nindex; a++) {
        IndexId i = x_plain_index(k, sums->index[a]);
        int last = a + 1 == sums->nindex;
        if (i == NONE)
            continue;
        lower_bind(l, i, NONE, NONE);
        build_for(&l->b, sums->loc, last ? LOOP_VECTOR : LOOP_ORDERED, i, x_int(k, sums->loc, 0),
                  lower_extent(l, i), last ? l->cpu->lanes : 1);
    }
}

static void begin_carry(Lower *l, const Carry *y)
{
    uint32_t depth = l->b.depth;
    Equation sums = carried(y);
    open_places(l, &sums);
    build_store(&l->b, sums.loc, sums.lhs, sums.index, lower_identity(l, y->reduce), 0);
    build_close(&l->b, depth);
}

/* The terms of the block's rows. The sums' own rows, if they make a block product, are those that the condition leaves. */
static void add_carry(Lower *l, const Carry *y, const Cluster *c)
{
    Kernel *k = l->k;
    uint32_t depth = l->b.depth;
    Members one = {.at = {is_term(l, y, c) ? term(l, y) : carried(y)}, .n = 1};
    Loc loc = one.at[0].loc;
    lower_plan(l, &one, NONE);
    Plan *p = &l->plan;
    IndexId row = p->row;
    ExprId lo, hi;
    l->striped = c->row;
    open_others(l, c, loc);
    if (row != NONE) {
        lower_pack_block(l, &one, schedule_stripe_rows(l->c, k, c->row));
        IndexId u = build_index(&l->b, "u0");
        int whole = k->tensors.at[y->place.buffer].layout == LAYOUT_SUMS;
        narrow_to(l, c, loc, x_condition(k, y->reduce), row, whole, &lo, &hi);
        if (whole && hi != lower_extent(l, row))
            hi = build_let(&l->b, loc, "hi",
                           x_min(l->k, lower_extent(l, row), lower_whole_lines(l, hi, LAYOUT_EDGE - 1)));
        build_for(&l->b, loc, LOOP_ORDERED, u, lo, hi, p->chunk);
        ExprId first = x_index(k, loc, u);
        bind_rows(l, first, x_min(l->k, x_add(l->k, first, p->chunk), hi));
        lower_bind(l, row, NONE, NONE);
    }
    if (p->lane != NONE) {
        lower_bind(l, p->lane, NONE, NONE);
        l->lane_first = x_int(k, loc, 0);
        l->lane_end = lower_extent(l, p->lane);
        if (p->strip)
            open_strips(l, loc, l->lane_first, l->lane_end);
    }
    lower_item(l, &one);
    l->striped = NONE;
    build_close(&l->b, depth);
}

/* The member itself, once its sums are complete. */
static void finish_carries(Lower *l, const Equation *q, const Carries *all)
{
    uint32_t depth = l->b.depth;
    Equation sums = *q;
    for (uint32_t i = 0; i < all->len; i++)
        if (all->at[i].q == q)
            sums = carried(&all->at[i]);
    l->plan = (Plan){.lane = NONE, .row = NONE, .rows = 1, .width = l->cpu->lanes};
    if (sums.nindex)
        l->plan.lane = x_plain_index(l->k, sums.index[sums.nindex - 1u]);
    open_places(l, &sums);
    for (uint32_t i = 0; i < all->len; i++) {
        if (all->at[i].q != q)
            continue;
        Equation own = carried(&all->at[i]);
        ExprId value = x_load(l->k, q->loc, own.lhs, own.index);
        vec_push(l->k->module->arena, &l->done, (Done){all->at[i].reduce, value, 0});
    }
    lower_store_element(l, q, q->kind == EQ_ADD);
    l->done.len = 0;
    build_close(&l->b, depth);
}

/* ---- the launch ---- */

static void place_one(Lower *l, const Equation *q, const Cluster *c, TensorId t, int64_t rows)
{
    vec_push(l->k->module->arena, &l->places, place(l, c, q, t, q->rhs, rows));
    l->k->tensors.at[t].space = SPACE_GM; /* no memory of its own */
}

/* What q defines gets its place. The values of top and their numbers have one subscript, so both have one or none. */
static void place_results(Lower *l, const Equation *q, const Cluster *c, int64_t rows)
{
    const Kernel *k = l->k;
    if (!k->tensors.at[q->lhs].placed || (q->ids != NONE && !k->tensors.at[q->ids].placed))
        return;
    place_one(l, q, c, q->lhs, rows);
    if (q->ids != NONE)
        place_one(l, q, c, q->ids, rows);
}

static void prepare(Lower *l, const Members *m, const Cluster *c, int64_t rows, Carries *carries)
{
    for (uint32_t i = 0; i < m->n; i++) {
        const Equation *q = &m->at[i];
        lower_prepare(l, q->rhs);
        lower_pads(l, q);
        place_results(l, q, c, rows);
        if (!lower_has_row(l->k, c, q))
            find_carries(l, c, q, carries);
    }
}

/* Rows that pass through the members together: one where no member has block products or lanes over rows. */
static int64_t rows_together(Lower *l, const Members *m, const Cluster *c)
{
    int many = 0;
    for (uint32_t i = 0; i < m->n && !many; i++) {
        Members one = {.at = {m->at[i]}, .n = 1};
        if (m->at[i].kind == EQ_TOP)
            continue;
        l->equation = &m->at[i];
        lower_plan(l, &one, lower_has_row(l->k, c, &m->at[i]) ? c->row : (IndexId)NONE);
        many = l->plan.row != NONE || l->plan.lane == c->row;
    }
    return many ? schedule_stripe_rows(l->c, l->k, c->row) : 1;
}

/* The block that members see has one row. */
static void open_row(Lower *l, Loc loc, const Cluster *c)
{
    each_row(l, loc, c);
    l->stripe_first = x_index(l->k, loc, c->row);
    l->stripe_end = x_add(l->k, l->stripe_first, 1);
}

/* The rows from `from` to `to`, `by` of them at a time. */
static void open_rows(Lower *l, Loc loc, LoopMode mode, const char *stem, ExprId from, ExprId to, int64_t by)
{
    Kernel *k = l->k;
    IndexId u = build_index(&l->b, stem);
    build_for(&l->b, loc, mode, u, from, to, by);
    ExprId end = x_min(l->k, x_add(l->k, x_index(k, loc, u), by), to);
    l->stripe_first = x_index(k, loc, u);
    l->stripe_end = build_let(&l->b, loc, "end", end);
}

static void pack_kept(Lower *l, const Cluster *c, Loc loc)
{
    for (uint32_t i = 0; i < l->kept.len; i++) {
        const Kept *y = &l->kept.at[i];
        ExprId from[2], to[2];
        for (uint32_t a = 0; a < 2; a++)
            narrow_to(l, c, loc, y->when[a], y->index[a], 1, &from[a], &to[a]);
        lower_pack_kept(l, loc, y, from, to);
    }
}

/* Blocks of rows: parallel, unless they go in order; those of a span in order, if there is something to pack for it. */
static void open_blocks(Lower *l, Loc loc, const Members *m, const Cluster *c, const Parts *parts)
{
    Kernel *k = l->k;
    int64_t rows = schedule_stripe_rows(l->c, k, c->row), span = schedule_machine(l->c, k)->blocks.rows;
    ExprId from = x_int(k, loc, 0), to = lower_extent(l, c->row);
    if (parts) {
        from =
            build_let(&l->b, loc, "first", x_op2(k, loc, OP_mul, x_index(k, loc, c->outer[0]), parts->rows));
        to = build_let(&l->b, loc, "last", x_min(l->k, x_op2(k, loc, OP_add, from, parts->rows), to));
    }
    lower_find_kept(l, m);
    if (l->kept.len && c->carries) {
        l->stripe_first = from = build_let(&l->b, loc, "first", from);
        l->stripe_end = to = build_let(&l->b, loc, "end", to);
    } else if (l->kept.len) {
        open_rows(l, loc, LOOP_PARALLEL, "w0", from, to, span > rows ? span - span % rows : rows);
        from = l->stripe_first;
        to = l->stripe_end;
    }
    pack_kept(l, c, loc);
    open_rows(l, loc, c->carries || l->kept.len ? LOOP_ORDERED : LOOP_PARALLEL, "u0", from, to, rows);
}

/* The sum that the next member goes on with, if that is one. */
static const Carry *next_carry(const Carries *all, const Equation *next)
{
    for (uint32_t i = 0; i < all->len; i++)
        if (all->at[i].q == next)
            return &all->at[i];
    return NULL;
}

static void lower_members(Lower *l, const Members *m, const Cluster *c, const Carries *carries)
{
    const Carry *done = NULL;
    for (uint32_t q = 0; q < m->n; q++) {
        const Carry *next = q + 1 < m->n ? next_carry(carries, &m->at[q + 1]) : NULL;
        l->equation = &m->at[q];
        if (m->at[q].kind == EQ_TOP)
            choose(l, &m->at[q], c);
        else if (lower_has_row(l->k, c, &m->at[q]) && lower_member(l, &m->at[q], c, next))
            done = next;
        for (uint32_t i = 0; i < carries->len; i++)
            if (carries->at[i].q == &m->at[q] && &carries->at[i] != done)
                add_carry(l, &carries->at[i], c);
    }
}

void lower_stripe_of(Lower *l, const Members *m, const Cluster *c, const Parts *parts)
{
    Carries carries = {0};
    Loc loc = m->at[0].loc;
    l->stripe = c;
    int64_t rows = rows_together(l, m, c);
    prepare(l, m, c, rows, &carries);
    build_launch(&l->b, loc, lower_stem(l, &m->at[m->n - 1]));
    for (uint32_t o = 0; o < c->nouter; o++) {
        lower_bind(l, c->outer[o], NONE, NONE);
        build_parallel(&l->b, loc, c->outer[o], parts ? parts->count : lower_extent(l, c->outer[o]), 1);
    }
    for (uint32_t i = 0; i < carries.len; i++)
        begin_carry(l, &carries.at[i]);
    uint32_t depth = l->b.depth;
    open_blocks(l, loc, m, c, parts);
    if (rows == 1)
        open_row(l, loc, c);
    lower_members(l, m, c, &carries);
    build_close(&l->b, depth);
    l->places.len = l->kept.len = 0;
    for (uint32_t q = 0; q < m->n; q++)
        if (!lower_has_row(l->k, c, &m->at[q]))
            finish_carries(l, &m->at[q], &carries);
    l->stripe = NULL;
}

void lower_stripe(Lower *l, const Members *m, const Cluster *c)
{
    if (c->carries && !c->nouter)
        lower_in_parts(l, m, c);
    else
        lower_stripe_of(l, m, c, NULL);
}
