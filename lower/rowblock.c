/* Row-block groups: a launch that computes several equations for a block of rows, or for one row, then for the next.
 *
 * Note [Row blocks]. The rows of a block pass through all members of the cluster (Note [Clusters] in ir/equation.h) while what they hand
 * on stays in the thread's memory: a placed tensor s[b, n, i, j] is s[i - first row of the block, j] there. Of a placed tensor
 * only those columns are computed that some reader asks for with some row of the block (cluster_needed): what a `where`
 * excludes for all of them is never touched. Members that add up over the rows keep f32 sums from block to block, in the
 * thread's memory too, and are stored after the last one; then blocks run in order, else they are the parallel items.
 * Block products want many rows. Where there is none, row by row is faster: a row is still in the L1 cache when the next
 * member reads it. */
#include "lower/rowblock.h"
#include "passes/cluster.h"

static Item item_of(const Blocking *by, const Equation *q, const BlockRows *rows)
{
    Item it = lower_new_item(by, q);
    it.first = it.row_first = rows->first;
    it.end = it.row_end = rows->end;
    it.rowblock = rows;
    return it;
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
static void narrow_to(Lower *l, const RowBlockLaunch *s, const BlockRows *rows, Loc loc, ExprId condition,
                      IndexId i, int whole, ExprId *lo, ExprId *hi)
{
    Kernel *k = l->k;
    Item it = item_of(&s->whole, NULL, rows);
    Domain *d = arena_new_of(k->module->arena, Domain);
    *d = (Domain){.nbound = 1, .lane = NONE, .unrolled = 1};
    d->bound[0] = i;
    choose_conjuncts(l, s->c, condition, d);
    Walk w = lower_walk_from(d);
    w.open = 1;
    lower_bind(l, s->c->row, NONE, NONE);
    Range r = lower_range(l, &it, &w, i);
    lower_bind(l, s->c->row, NONE, NONE);
    *lo = whole && !lower_starts_line(l, r.lo_min) ? lower_whole_lines(l, r.lo_min, 0) : r.lo_min;
    *hi = r.hi_max;
    if (!d->nconjunct)
        return;
    *lo = build_let(&l->b, loc, "lo", *lo);
    *hi = build_let(&l->b, loc, "hi", x_max(k, *lo, r.hi_max));
}

/* ---- members with the row on their left ---- */

/* Ordered loops over the indices that are neither outer ones, the row nor the lanes. */
static void open_others(Lower *l, const Cluster *c, const Blocking *by, Loc loc)
{
    for (uint32_t f = 0; f < by->nfree; f++) {
        IndexId i = by->free[f];
        if (!lower_is_outer(c, i) && i != c->row && i != by->row && i != by->lane)
            lower_open_index(l, loc, i);
    }
}

/* Blocks of the item's columns, one after the other. */
static void open_columns(Lower *l, Loc loc, Item *it)
{
    IndexId v = build_index(&l->b, "v0");
    ExprId hi = it->lane_end;
    build_for(&l->b, loc, LOOP_ORDERED, v, it->lane_first, hi, it->by->nc);
    it->lane_first = x_index(l->k, loc, v);
    it->lane_end = x_min(l->k, x_add(l->k, it->lane_first, it->by->nc), hi);
}

/* The rows of the block one by one, unless one is open already. */
static void each_row(Lower *l, Loc loc, const BlockRows *rows)
{
    IndexId row = rows->c->row;
    if (rows->first == x_index(l->k, loc, row))
        return;
    lower_bind(l, row, NONE, NONE);
    build_for(&l->b, loc, LOOP_ORDERED, row, rows->first, rows->end, 1);
}

/* The K largest of each row. */
static void choose(Lower *l, const Equation *q, const BlockRows *rows)
{
    uint32_t depth = l->b.depth;
    Blocking by = {.lane = NONE, .row = NONE};
    for (uint32_t a = 0; a + 1u < q->nindex; a++)
        by.free[by.nfree++] = x_plain_index(l->k, q->index[a]);
    each_row(l, q->loc, rows);
    open_others(l, rows->c, &by, q->loc);
    lower_put_top(l, q);
    build_close(&l->b, depth);
}

/* The columns of the strip that is being computed. */
typedef struct StripNow {
    ExprId first, end;
} StripNow;

/* Of first..end those of the strip. */
static void keep_strip(Lower *l, const StripNow *now, ExprId *first, ExprId *end)
{
    *first = x_max(l->k, *first, now->first);
    *end = x_min(l->k, *end, now->end);
}

/* now: NULL: all columns at once. */
static void lower_member(Lower *l, const RowBlockLaunch *s, const BlockRows *rows, uint32_t member,
                         const StripNow *now)
{
    Kernel *k = l->k;
    const Blocking *by = s->by[member];
    const Equation *q = &by->m.at[0];
    uint32_t depth = l->b.depth;
    Item it = item_of(by, q, rows);
    lower_bind(l, s->c->row, NONE, NONE);
    it.lane_first = rows->first;
    it.lane_end = rows->end;
    open_others(l, s->c, by, q->loc);
    if (by->lane != NONE && by->lane != s->c->row) {
        ExprId needed = k->tensors.at[q->lhs].placed ? cluster_needed(k, q->lhs) : (ExprId)NONE;
        const LocalBuffer *place = lower_place_of(l, q->lhs);
        int whole = by->row != NONE || (place && place->lines != NONE);
        narrow_to(l, s, rows, q->loc, needed, by->lane, whole && checks_inside(k, q->rhs), &it.lane_first,
                  &it.lane_end);
        if (now && by->lane == s->column[member])
            keep_strip(l, now, &it.lane_first, &it.lane_end);
        lower_bind(l, by->lane, NONE, NONE);
    }
    if (by->row != NONE)
        open_columns(l, q->loc, &it);
    else if (by->lane != s->c->row)
        each_row(l, q->loc, rows);
    lower_item(l, &it);
    build_close(&l->b, depth);
}

/* ---- members that add up over the rows ---- */

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

static void begin_carry(Lower *l, const RowBlockCarry *carry)
{
    uint32_t depth = l->b.depth;
    Equation sums = rowblock_carried(carry);
    open_places(l, &sums);
    build_store(&l->b, sums.loc, sums.lhs, sums.index, lower_identity(l, carry->reduce), 0);
    build_close(&l->b, depth);
}

/* The sums' own rows, if they make a block product, are those that the condition leaves. */
static void open_sum_rows(Lower *l, const RowBlockLaunch *s, const BlockRows *rows,
                          const RowBlockCarry *carry, const StripNow *now, Item *it)
{
    Kernel *k = l->k;
    const Blocking *by = it->by;
    Loc loc = it->equation->loc;
    int whole = k->tensors.at[carry->place.buffer].layout == LAYOUT_SUMS;
    ExprId lo, hi;
    if (!now)
        lower_pack_block(l, by, rows, s->most);
    IndexId u = build_index(&l->b, "u0");
    narrow_to(l, s, rows, loc, x_condition(k, carry->reduce), by->row, whole, &lo, &hi);
    if (whole && hi != lower_extent(l, by->row))
        hi = build_let(&l->b, loc, "hi",
                       x_min(k, lower_extent(l, by->row), lower_whole_lines(l, hi, LAYOUT_EDGE - 1)));
    if (now)
        keep_strip(l, now, &lo, &hi);
    build_for(&l->b, loc, LOOP_ORDERED, u, lo, hi, by->item_rows);
    it->first = it->row_first = x_index(k, loc, u);
    it->end = it->row_end = x_min(k, x_add(k, it->first, by->item_rows), hi);
    lower_bind(l, by->row, NONE, NONE);
}

/* The terms of the block's rows. */
static void add_carry(Lower *l, const RowBlockLaunch *s, const BlockRows *rows, const RowBlockCarry *carry,
                      const StripNow *now)
{
    const Blocking *by = carry->by;
    uint32_t depth = l->b.depth;
    Item it = item_of(by, &by->m.at[0], rows);
    Loc loc = by->m.at[0].loc;
    lower_narrow(l, s->c->row, rows->first, rows->end);
    open_others(l, s->c, by, loc);
    if (by->row != NONE)
        open_sum_rows(l, s, rows, carry, now, &it);
    if (by->lane != NONE) {
        lower_bind(l, by->lane, NONE, NONE);
        it.lane_first = x_int(l->k, loc, 0);
        it.lane_end = lower_extent(l, by->lane);
        if (now && by->row == NONE)
            keep_strip(l, now, &it.lane_first, &it.lane_end);
        if (by->nc)
            open_columns(l, loc, &it);
    }
    lower_item(l, &it);
    lower_widen(l);
    build_close(&l->b, depth);
}

/* The member itself, once its sums are complete. */
static void finish_carries(Lower *l, const RowBlockLaunch *s, const Equation *q)
{
    uint32_t depth = l->b.depth;
    Equation sums = *q;
    for (uint32_t i = 0; i < s->carries.len; i++)
        if (s->carries.at[i].q == q)
            sums = rowblock_carried(&s->carries.at[i]);
    open_places(l, &sums);
    for (uint32_t i = 0; i < s->carries.len; i++) {
        if (s->carries.at[i].q != q)
            continue;
        Equation own = rowblock_carried(&s->carries.at[i]);
        ExprId value = x_load(l->k, q->loc, own.lhs, own.index);
        vec_push(l->k->module->arena, &l->env.done, (Done){s->carries.at[i].reduce, value, 0});
    }
    lower_store_element(l, q, q->kind == EQ_ADD);
    l->env.done.len = 0;
    build_close(&l->b, depth);
}

/* ---- the launch ---- */

/* The block that members see has one row. */
static BlockRows open_row(Lower *l, Loc loc, const BlockRows *block)
{
    each_row(l, loc, block);
    ExprId row = x_index(l->k, loc, block->c->row);
    return (BlockRows){block->c, row, x_add(l->k, row, 1), 0};
}

/* Those of the rows, `by` of them at a time; a block of one row is no loop of its own. */
static BlockRows open_rows(Lower *l, Loc loc, LoopMode mode, const BlockRows *all, int64_t by)
{
    Kernel *k = l->k;
    int single = by == 1;
    IndexId u = single ? all->c->row : build_index(&l->b, "u0");
    if (single)
        lower_bind(l, u, NONE, NONE);
    build_for(&l->b, loc, mode, u, all->first, all->end, by);
    ExprId first = x_index(k, loc, u), end = x_add(k, first, by);
    if (!single)
        end = build_let(&l->b, loc, "end", x_min(k, end, all->end));
    return (BlockRows){all->c, first, end, all->from_line && by % LAYOUT_EDGE == 0};
}

static void pack_hoisted(Lower *l, const RowBlockLaunch *s, const BlockRows *rows, Loc loc)
{
    for (uint32_t i = 0; i < l->env.hoisted.len; i++) {
        const Hoisted *hoisted = &l->env.hoisted.at[i];
        ExprId from[2], to[2];
        for (uint32_t a = 0; a < 2; a++)
            narrow_to(l, s, rows, loc, hoisted->when[a], hoisted->index[a], 1, &from[a], &to[a]);
        if (hoisted->product.few != DIRECT_NOT)
            to[0] = x_if(l->k, loc, lower_rows_are(l, s->c, OP_le), from[0], to[0]);
        lower_pack_hoisted(l, loc, hoisted, from, to);
    }
}

/* All rows of the launch, or those of the part that the first outer variable counts. */
static BlockRows rows_of(Lower *l, const RowBlockLaunch *s, Loc loc, const Parts *parts)
{
    Kernel *k = l->k;
    BlockRows all = {s->c, x_int(k, loc, 0), lower_extent(l, s->c->row), 1}; /* parts are whole lines, too */
    if (!parts)
        return all;
    ExprId first = x_op2(k, loc, OP_mul, x_index(k, loc, s->c->outer[0]), parts->rows);
    all.first = build_let(&l->b, loc, "first", first);
    all.end = build_let(&l->b, loc, "last", x_min(k, x_op2(k, loc, OP_add, all.first, parts->rows), all.end));
    return all;
}

/* Rows of a span, whole blocks: as many as leave each thread some spans, since what is packed for one serves all its
 * blocks. */
static ExprId span_rows(Lower *l, const RowBlockLaunch *s, Loc loc)
{
    Kernel *k = l->k;
    Extent rows = lower_length(l, s->c->row); /* of the launch */
    for (uint32_t o = 0; o < s->c->nouter; o++)
        rows = ext_mul(k->module, rows, lower_length(l, s->c->outer[o]));
    ExprId parts = x_op2(k, loc, OP_mul, x_threads(k, loc), x_int(k, loc, SPANS_EACH * s->most));
    ExprId blocks = x_op2(k, loc, OP_idiv, x_extent(k, loc, rows), parts);
    return x_max(k, x_op2(k, loc, OP_mul, blocks, x_int(k, loc, s->most)), x_int(k, loc, s->span));
}

/* Rows of a block whose right operands serve all blocks: as many as leave each thread a block. */
static ExprId even_rows(Lower *l, const RowBlockLaunch *s, Loc loc)
{
    Kernel *k = l->k;
    ExprId last = x_max(k, x_add(k, lower_extent(l, s->c->row), -1), x_int(k, loc, 0));
    ExprId each = x_add(k, x_op2(k, loc, OP_idiv, last, x_threads(k, loc)), 1);
    ExprId least = x_int(k, loc, knob_table[KNOB_rowblock].otherwise), most = x_int(k, loc, s->most);
    return x_min(k, x_max(k, lower_whole_lines(l, each, LAYOUT_EDGE - 1), least), most);
}

/* Those of the rows that one span has; spans are parallel. */
static BlockRows open_span(Lower *l, Loc loc, const RowBlockLaunch *s, const BlockRows *all, ExprId rows)
{
    Kernel *k = l->k;
    ExprId up = x_op2(k, loc, OP_add, x_add(k, all->end, -1), rows);
    IndexId p = build_index(&l->b, "p");
    build_parallel(&l->b, loc, p, x_op2(k, loc, OP_idiv, up, rows), 1);
    ExprId first = build_let(&l->b, loc, "w0", x_op2(k, loc, OP_mul, x_index(k, loc, p), rows));
    ExprId end = x_min(k, x_op2(k, loc, OP_add, first, rows), all->end);
    return (BlockRows){all->c, first, build_let(&l->b, loc, "w1", end),
                       all->from_line && s->most % LAYOUT_EDGE == 0};
}

/* Blocks of rows: parallel, unless they go in order; those of a span in order, if there is something to pack for it. */
static BlockRows open_blocks(Lower *l, const RowBlockLaunch *s, Loc loc, const Parts *parts)
{
    BlockRows rows = rows_of(l, s, loc, parts);
    for (uint32_t i = 0; i < s->hoisted.len; i++)
        lower_hoist(l, &s->hoisted.at[i], lower_length(l, s->hoisted.at[i].index[0]));
    if (s->hoisted.len && s->c->carries) {
        rows.first = build_let(&l->b, loc, "first", rows.first);
        rows.end = build_let(&l->b, loc, "end", rows.end);
    } else if (s->hoisted.len) {
        rows = open_span(l, loc, s, &rows, span_rows(l, s, loc));
    } else if (s->c->usual_rows && !s->c->carries) {
        return open_span(l, loc, s, &rows, even_rows(l, s, loc));
    }
    pack_hoisted(l, s, &rows, loc);
    return open_rows(l, loc, s->c->carries || s->hoisted.len ? LOOP_ORDERED : LOOP_PARALLEL, &rows, s->most);
}

static void lower_one(Lower *l, const RowBlockLaunch *s, const BlockRows *rows, uint32_t q,
                      const StripNow *now)
{
    if (s->m->at[q].kind == EQ_TOP)
        choose(l, &s->m->at[q], rows);
    else if (s->by[q])
        lower_member(l, s, rows, q, now);
    for (uint32_t i = 0; i < s->carries.len; i++)
        if (s->carries.at[i].q == &s->m->at[q] && !s->carries.at[i].is_done)
            add_carry(l, s, rows, &s->carries.at[i], now);
}

/* ---- strips of columns ---- */

/* For each row and place of its left side. */
static void lower_begin_strips(Lower *l, const RowBlockLaunch *s, const BlockRows *rows, const Equation *q)
{
    uint32_t depth = l->b.depth;
    each_row(l, q->loc, rows);
    for (uint32_t a = 0; a < q->nindex; a++) {
        IndexId i = x_plain_index(l->k, q->index[a]);
        int last = a + 1 == q->nindex;
        if (i == s->c->row || lower_is_outer(s->c, i))
            continue;
        lower_bind(l, i, NONE, NONE);
        build_for(&l->b, q->loc, last ? LOOP_VECTOR : LOOP_ORDERED, i, x_int(l->k, q->loc, 0),
                  lower_extent(l, i), last ? l->cpu->lanes : 1);
    }
    lower_store_element(l, q, 0);
    build_close(&l->b, depth);
}

/* Before the first strip: sums over columns begin, and what sums over the rows read of the block is packed. */
static void begin_strips(Lower *l, const RowBlockLaunch *s, const BlockRows *rows)
{
    for (uint32_t i = 0; i < s->begin.len; i++)
        lower_begin_strips(l, s, rows, &s->begin.at[i]);
    for (uint32_t q = 0; q < s->m->n; q++) {
        if (s->phase[q] != IN_STRIPS)
            continue;
        for (uint32_t i = 0; i < s->carries.len; i++)
            if (s->carries.at[i].q == &s->m->at[q] && s->carries.at[i].by->row != NONE)
                lower_pack_block(l, s->carries.at[i].by, rows, s->most);
    }
}

/* The terms of a sum over columns that the strip has. */
static void add_strip_sums(Lower *l, const RowBlockLaunch *s, const BlockRows *rows, uint32_t q,
                           const StripNow *now)
{
    lower_narrow(l, s->column[q], now->first, now->end);
    lower_member(l, s, rows, q, NULL);
    lower_widen(l);
}

static void lower_strips(Lower *l, const RowBlockLaunch *s, const BlockRows *rows)
{
    Kernel *k = l->k;
    Loc loc = s->m->at[0].loc;
    uint32_t depth = l->b.depth;
    ExprId lo, hi;
    begin_strips(l, s, rows);
    narrow_to(l, s, rows, loc, s->when, s->strip_column, 1, &lo, &hi);
    ExprId width = x_int(k, loc, s->strip);
    if (s->from_multiple && !x_is_int(k, lo, 0))
        lo = x_op2(k, loc, OP_mul, x_op2(k, loc, OP_idiv, lo, width), width);
    IndexId v = build_index(&l->b, "strip");
    build_for(&l->b, loc, LOOP_ORDERED, v, lo, hi, s->strip);
    StripNow now = {.first = x_index(k, loc, v)};
    ExprId end = x_min(k, x_extent(k, loc, s->columns), x_add(k, now.first, s->strip));
    now.end = build_let(&l->b, loc, "strip_end", end);
    l->env.strip = now.first;
    for (uint32_t q = 0; q < s->m->n; q++) {
        if (s->phase[q] != IN_STRIPS)
            continue;
        if (s->is_sum[q])
            add_strip_sums(l, s, rows, q, &now);
        else
            lower_one(l, s, rows, q, &now);
    }
    l->env.strip = NONE;
    build_close(&l->b, depth);
}

static void lower_members(Lower *l, const RowBlockLaunch *s, const BlockRows *rows)
{
    for (uint32_t q = 0; q < s->m->n; q++)
        if (s->phase[q] == BEFORE_STRIPS)
            lower_one(l, s, rows, q, NULL);
    if (s->strip)
        lower_strips(l, s, rows);
    for (uint32_t q = 0; q < s->m->n; q++)
        if (s->phase[q] == BEHIND_STRIPS)
            lower_one(l, s, rows, q, NULL);
}

void lower_rowblock(Lower *l, const Members *m, const Cluster *c, const Parts *parts)
{
    RowBlockLaunch *s = arena_new_of(l->k->module->arena, RowBlockLaunch);
    Loc loc = m->at[0].loc;
    *s = (RowBlockLaunch){.c = c, .m = m, .may_strip = !parts};
    for (uint32_t i = 0; i < m->n; i++) {
        lower_prepare(l, m->at[i].rhs);
        lower_pads(l, &m->at[i]);
    }
    s->m = m = rowblock_hand_on(l, m, c);
    rowblock_place(l, s);
    rowblock_decide(l, s);
    build_launch(&l->b, loc, lower_stem(l, &m->at[m->n - 1]));
    for (uint32_t o = 0; o < c->nouter; o++) {
        lower_bind(l, c->outer[o], NONE, NONE);
        build_parallel(&l->b, loc, c->outer[o], parts ? parts->count : lower_extent(l, c->outer[o]), 1);
    }
    for (uint32_t i = 0; i < s->carries.len; i++)
        begin_carry(l, &s->carries.at[i]);
    uint32_t depth = l->b.depth;
    BlockRows rows = open_blocks(l, s, loc, parts);
    if (s->rows == 1)
        rows = open_row(l, loc, &rows);
    l->env.placed_from = rows.first;
    lower_members(l, s, &rows);
    build_close(&l->b, depth);
    l->env.places.len = l->env.hoisted.len = 0;
    for (uint32_t q = 0; q < s->m->n; q++)
        if (!lower_has_row(l->k, c, &s->m->at[q]))
            finish_carries(l, s, &s->m->at[q]);
}
