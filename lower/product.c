/* Sums of products by blocks.
 *
 * Note [Blocks]. An item is a block of rows times a block of columns (lanes). The last reduced index of a sum goes in slabs:
 * for each, the left operand of the item's rows and the right operand of its columns are packed into the thread's memory,
 * then a block product adds the slab's terms to the item's sums, which stand in a block of thread memory, or where their
 * elements are to stand (lower/accumulator.c). The first slab begins them, where
 * nothing is to be added before it. Sums over the same index under the same condition go together (gate and up): a left
 * operand that they share is packed once. After all slabs the epilogue computes the rest of the equations, element by element,
 * and stores. A sum's chain of additions is in ascending order of the reduced index whatever the blocks are, so bits do not
 * depend on them. Slabs: lower/slab.c.
 * Conditions become bounds of the reduced index, or zeros in the operands where they are none (terms.c). Where bounds differ from
 * row to row (a causal mask), the terms that only some rows of the item have are added element by element, under their condition;
 * the cube of an NPU multiplies them all, those that a row does not have as zeros. The loops over elements do what is no product
 * of two matrices, too. */
#include "lower/lower.h"

static void begin_all(Lower *l, const Item *it, const Together *g)
{
    for (uint32_t n = 0; n < g->n; n++)
        if (!g->s[n].joins)
            lower_begin(l, it, &g->s[n]);
}

/* ---- element by element ---- */

/* Registers from or to the sums of a block of unrolled rows; both have places for whole blocks. What rows past the end
 * hold is never used. */
static void move_block(Lower *l, const Item *it, const Domain *d, const Sum *s, int to_memory)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, d->reduce[0])->loc;
    uint32_t depth = l->b.depth;
    ExprId at[MAX_RANK], index;
    lower_open_rows(l, it, loc);
    TensorId sums = lower_element_at(l, it, s, lower_block_row(l, it), at);
    lower_acc_index(l, d, &index);
    if (to_memory)
        build_store(&l->b, loc, sums, at, x_load(k, loc, d->acc[0], &index), 0);
    else
        build_store(&l->b, loc, d->acc[0], &index, x_load(k, loc, sums, at), 0);
    build_close(&l->b, depth);
}

/* Every row of the part adds its terms from lo to hi. */
static void add_elements(Lower *l, const Item *part, const Sum *s, const Walk *outer, ExprId lo, ExprId hi)
{
    Item it = *part;
    const Blocking *by = it.by;
    Loc loc = x_at(l->k, s->p->reduce)->loc;
    uint32_t depth = l->b.depth;
    IndexId block = build_index(&l->b, "block");
    Domain *d = lower_open_domain(l, &it, s->p->reduce, NONE);
    d->acc[0] = build_reg(&l->b, "acc", EL_F32, it.unroll, (uint32_t)by->width);
    Walk w = *outer;
    w.d = d;
    lower_narrow(l, d->bound[d->nbound - 1], lo, hi);
    lower_open_lanes(l, &it, loc);
    build_for(&l->b, loc, LOOP_ORDERED, block, it.part_first, it.part_end, it.unroll);
    it.row_first = x_index(l->k, loc, block);
    it.row_end = it.part_end;
    lower_bind(l, by->row, NONE, l->env.group.at[by->row]);
    move_block(l, &it, d, s, 0);
    l->env.lined = d->bound[d->nbound - 1];
    lower_walk(l, &it, w);
    l->env.lined = NONE;
    move_block(l, &it, d, s, 1);
    build_close(&l->b, depth);
    lower_widen(l);
}

/* ---- ranges ---- */

/* Where every row of the part has terms: from..to; where only some have: before and behind it, to lo and hi. */
typedef struct Terms {
    ExprId lo, from, to, hi, group;
    ExprId mask; /* NONE, or which of them a row has: blocks have others as zeros */
    int blocks;  /* the bounds are all that the condition says */
    int whole;   /* `from` is at a whole line of terms, or no term follows it */
} Terms;

/* The rows of a group's run; only a further condition could tell them apart. */
static Terms run_terms(Lower *l, const Item *it, const Walk *w, IndexId i)
{
    uint32_t conjunct;
    Terms t = {.group = lower_expr(l, lower_run_group(l, it->by->lane, w, i, &conjunct)), .mask = NONE};
    t.lo = t.from = lower_run_start(l, lower_route_of(l, i), t.group);
    t.hi = t.to = lower_run_end(l, lower_route_of(l, i), t.group);
    t.blocks = w->pending == (uint64_t)1 << conjunct;
    return t;
}

/* Do the right operands exist between two terms i, whatever a condition says of those? */
static int stand_between(Lower *l, const Together *g, IndexId i)
{
    Kernel *k = l->k;
    Affine affine;
    for (uint32_t n = 0; n < g->n; n++)
        each_below (x, k, g->s[n].p->right, EVERYWHERE)
            for (uint32_t a = 0; x_at(k, *x)->kind == X_LOAD && a < x_at(k, *x)->nargs; a++)
                if (query_varies(k, x_arg(k, *x, a), i) && !x_affine(k, x_arg(k, *x, a), &affine))
                    return 0;
    return 1;
}

static ExprId mask_of(Lower *l, const Walk *w, uint64_t conjuncts)
{
    ExprId mask = NONE;
    for (uint32_t c = 0; c < w->d->nconjunct; c++)
        if (w->pending & conjuncts & (uint64_t)1 << c)
            mask = x_and(l->k, (Loc){0}, mask, w->d->conjunct[c]);
    return mask;
}

/* Does e begin a line of the reduced index? A row block's first row does where blocks are whole lines. */
static int starts_line(const Lower *l, const Item *it, ExprId e)
{
    return lower_starts_line(l, e) || (it->rowblock && it->rowblock->from_line && e == it->rowblock->first);
}

/* Do the terms of all rows end together, at the end of a line or of all terms? */
static int ends_line(const Item *it, const Range *r)
{
    return r->hi_min == r->hi_max && (!it->rowblock || it->rowblock->from_line);
}

/* Does a block that ends with the term before hi find zeros behind it? A panel that is given has all terms of its axis. */
static int ends_in_zeros(Lower *l, const Together *g, IndexId i, ExprId hi)
{
    int given = 0;
    for (uint32_t n = 0; n < g->n; n++)
        given |= g->s[n].p->direct == DIRECT_PANELS || g->s[n].p->direct == DIRECT_PANELS_TRANSPOSED;
    return !given || lower_starts_line(l, hi) || hi == lower_extent(l, i);
}

/* Rows whose bounds differ: blocks take whole lines of terms, counted from the index's zero. Which terms of a row are added one
 * by one, and which two or 32 at a time, is then the same however rows are cut into items, and however many there are: r->lo_max
 * and hi_min are of whole parts of rows. The cube of an NPU takes all terms, those that a row has not as zeros. */
static void split_terms(Lower *l, const Item *it, const Together *g, const Walk *w, const Range *r, Loc loc,
                        Terms *t)
{
    IndexId i = w->d->bound[w->d->nbound - 1];
    t->lo = build_let(&l->b, loc, "lo", r->lo_min);
    int all = x_at(l->k, r->hi_max)->kind == X_EXTENT; /* another bound may leave no terms, or fewer */
    const Narrowed *some = it->rowblock ? lower_narrowed(l, i) : NULL;
    int of_block =
        some && some->lo == it->rowblock->first; /* the terms are its rows, of which there are some */
    ExprId first = of_block ? some->lo : x_int(l->k, loc, 0);
    t->hi = build_let(&l->b, loc, "hi", all ? r->hi_max : x_max(l->k, first, r->hi_max));
    if (pass_traits(l->c)->masked_terms && g->s[0].p->left != NONE && stand_between(l, g, i)) {
        t->mask = mask_of(l, w, r->inner);
        t->from = t->lo;
        t->to = t->hi;
        return;
    }
    ExprId from = x_min(l->k, t->hi, lower_whole_lines(l, r->lo_max, LAYOUT_EDGE - 1));
    t->from = starts_line(l, it, r->lo_max) ? t->lo : build_let(&l->b, loc, "inner", from);
    ExprId to = x_max(l->k, x_int(l->k, loc, 0), x_min(l->k, r->hi_min, t->hi));
    t->to = ends_line(it, r)
                ? t->hi
                : build_let(&l->b, loc, "outer", x_max(l->k, t->from, lower_whole_lines(l, to, 0)));
}

/* Bounds for all rows of the part: of those that are there, and where all have terms as if the last ones were as many as others. */
static Range range_of(Lower *l, const Item *it, const Walk *w, IndexId i)
{
    Item whole = *it;
    whole.unroll = 0;
    whole.row_first = it->part_first;
    whole.row_end = it->part_end;
    Range r = lower_range(l, &whole, w, i);
    ExprId rows = x_op2(l->k, (Loc){0}, OP_sub, it->part_end, it->part_first);
    rows = lower_whole_lines(l, rows, LAYOUT_EDGE - 1);
    whole.row_end = x_op2(l->k, (Loc){0}, OP_add, it->part_first, rows);
    Range full = lower_range(l, &whole, w, i);
    r.lo_max = full.lo_max;
    r.hi_min = full.hi_min;
    return r;
}

static Terms terms_of(Lower *l, const Item *it, const Together *g, const Walk *w, Loc loc)
{
    IndexId i = w->d->bound[w->d->nbound - 1];
    if (l->k->indices.at[i].axis.group != NONE)
        return run_terms(l, it, w, i);
    Range r = range_of(l, it, w, i);
    Terms t = {r.lo_min, r.lo_min, r.hi_max, r.hi_max, .group = NONE, .mask = NONE};
    t.blocks = !(w->pending & ~(r.exact | r.inner));
    t.whole = r.inner || (it->rowblock && t.from == it->rowblock->first) || lower_starts_line(l, t.from);
    if (r.inner && t.blocks)
        split_terms(l, it, g, w, &r, loc, &t);
    if (t.mask == NONE && t.blocks && t.to == t.hi && !ends_in_zeros(l, g, i, t.hi))
        t.to = build_let(&l->b, loc, "outer", x_max(l->k, t.from, lower_whole_lines(l, t.hi, 0)));
    return t;
}

/* Loops over the reduced indices before the last. Conditions that tell rows apart wait for the terms. */
static void open_outer(Lower *l, const Item *it, Loc loc, Walk *w)
{
    const Domain *d = w->d;
    for (uint32_t b = 0; b + 1 < d->nbound; b++) {
        IndexId i = d->bound[b];
        uint64_t by_row = 0;
        for (uint32_t c = 0; c < d->nconjunct; c++)
            by_row |= (uint64_t)x_uses_index(l->k, d->conjunct[c], it->by->row) << c;
        w->open |= 1u << b;
        Walk same = *w;
        same.pending &= ~by_row;
        Range r = lower_range(l, it, &same, i);
        w->pending &= ~r.exact;
        build_for(&l->b, loc, LOOP_ORDERED, i, r.lo_min, r.hi_max, 1);
        lower_bind(l, i, NONE, NONE);
    }
}

static void add_elements_of_all(Lower *l, const Item *it, const Together *g, const Walk *w, ExprId lo,
                                ExprId hi)
{
    for (uint32_t n = 0; lo != hi && n < g->n; n++)
        add_elements(l, it, &g->s[n], w, lo, hi);
}

/* Terms lo..hi that only some rows of the item have: a fragment's rows at a time have more in common. */
static void add_end(Lower *l, const Item *item, const Together *g, const Walk *w, ExprId lo, ExprId hi)
{
    Kernel *k = l->k;
    Item it = *item;
    Loc loc = x_at(k, g->s[0].p->reduce)->loc;
    uint32_t depth = l->b.depth;
    if (lo == hi)
        return;
    IndexId part = build_index(&l->b, "part");
    build_if(&l->b, loc, x_op2(k, loc, OP_lt, lo, hi));
    build_for(&l->b, loc, LOOP_ORDERED, part, it.first, it.end, LAYOUT_EDGE);
    it.part_first = x_index(k, loc, part);
    it.part_end = build_let(&l->b, loc, "part_end", x_min(k, x_add(k, it.part_first, LAYOUT_EDGE), it.end));
    Terms t = terms_of(l, &it, g, w, loc);
    const ExprId bound[4] = {t.lo, t.from, t.to, t.hi};
    ExprId end[4];
    for (int i = 0; i < 4; i++)
        end[i] = i && bound[i] == bound[i - 1]
                     ? end[i - 1]
                     : build_let(&l->b, loc, "end", x_min(k, hi, x_max(k, bound[i], lo)));
    add_elements_of_all(l, &it, g, w, end[0], end[1]);
    lower_slabs(l, &it, g, &(SlabRun){end[1], end[2], t.group, t.mask, 0, t.whole, 0, NONE});
    add_elements_of_all(l, &it, g, w, end[2], end[3]);
    build_close(&l->b, depth);
}

/* Can the first slab of the products that begin sums do that? */
static int begin_with_slab(const Together *g, const Terms *t)
{
    int begins = 0;
    for (uint32_t n = 0; n < g->n; n++)
        begins |= !g->s[n].joins;
    return begins && g->d->nbound == 1 && t->lo == t->from;
}

static const char no_matrices[] = "a factor varies with rows and columns";
static const char no_bounds[] = "its condition is more than bounds of the reduced index";

static void add_group(Lower *l, const Item *it, const Together *g)
{
    Loc loc = x_at(l->k, g->s[0].p->reduce)->loc;
    uint32_t depth = l->b.depth;
    Walk w = lower_walk_from(g->d);
    if (g->d->nbound > 1)
        begin_all(l, it, g);
    open_outer(l, it, loc, &w);
    Terms t = terms_of(l, it, g, &w, loc);
    int blocks = t.blocks && g->s[0].p->left != NONE, init = blocks && begin_with_slab(g, &t);
    if (g->d->nbound == 1 && !init)
        begin_all(l, it, g);
    for (uint32_t n = 0; n < g->n; n++)
        lower_report(l, it, g->s[n].p, blocks ? NULL : t.blocks ? no_matrices : no_bounds);
    if (blocks) {
        add_end(l, it, g, &w, t.lo, t.from);
        lower_slabs(l, it, g, &(SlabRun){t.from, t.to, t.group, t.mask, init, t.whole, t.to != t.hi, NONE});
        add_end(l, it, g, &w, t.to, t.hi);
    } else {
        add_elements_of_all(l, it, g, &w, t.lo, t.hi);
    }
    build_close(&l->b, depth);
}

/* ---- an item ---- */

/* Do two sums go over the same terms, both or neither in blocks? */
static int go_together(Lower *l, const Item *it, const Domain *d, const LowerProduct *a,
                       const LowerProduct *b)
{
    return (a->left == NONE) == (b->left == NONE) && lower_joins(l, it, d, b->reduce);
}

/* One sum of a chain after the other, each over all slabs: the order of additions does not depend on the blocks. */
static int has_chain_of(const Together *g, const LowerProduct *p)
{
    for (uint32_t n = 0; n < g->n; n++)
        if (p->chain && g->s[n].p->chain == p->chain)
            return 1;
    return 0;
}

/* Takes the first sum that is left and all that go with it from the list; returns how many are left. */
static uint32_t take_group(Lower *l, const Item *it, Sum *s, uint32_t n, Together *g)
{
    uint32_t left = 0;
    g->n = 0;
    g->d = lower_open_domain(l, it, s[0].p->reduce, NONE);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || (!has_chain_of(g, s[i].p) && go_together(l, it, g->d, g->s[0].p, s[i].p)))
            g->s[g->n++] = s[i];
        else
            s[left++] = s[i];
    return left;
}

static void new_sums(Lower *l, const Item *it, Sum *s)
{
    int64_t row = it->by->nc + LAYOUT_EDGE; /* rows a power of two apart would share few places of a cache */
    s->partial = build_thread(&l->b, "sums", EL_F32, it->by->item_rows, row, LAYOUT_ROWS);
    if (s->joins)
        lower_begin(l, it, s);
}

/* A place for the sums of each product, or for all of one chain. */
static void place_sums(Lower *l, const Item *it, Sum *s)
{
    Loc loc = it->equation->loc;
    ExprId at[MAX_RANK];
    for (uint32_t i = 0; i < it->by->nproducts; i++) {
        const LowerProduct *p = &it->by->product[i];
        uint32_t first = 0;
        while (first < i && (!p->chain || s[first].p->chain != p->chain))
            first++;
        s[i] = (Sum){p, first < i ? s[first].partial : (TensorId)NONE, p->chain && p->chain->kind == EQ_ADD};
        if ((it->in_block || !p->accumulator) && first == i)
            new_sums(l, it, &s[i]);
        TensorId sums = lower_element_at(l, it, &s[i], x_index(l->k, loc, it->row_var), at);
        vec_push(l->k->module->arena, &l->env.done, (Done){p->reduce, x_load(l->k, loc, sums, at), 0});
    }
}

/* What else adds to the place of s joins now. */
static void join_others(const Sum *s, Sum *others, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        others[i].joins |= s->p->chain && others[i].p->chain == s->p->chain;
}

static void add_all(Lower *l, const Item *it, const Sum *all, uint32_t n)
{
    Arena *a = l->k->module->arena;
    Together g = {.s = arena_array(a, Sum, n)};
    Sum *left = arena_array(a, Sum, n);
    for (uint32_t i = 0; i < n; i++)
        left[i] = all[i];
    while (n > 0) {
        n = take_group(l, it, left, n, &g);
        for (uint32_t i = 0; i < g.n; i++)
            join_others(&g.s[i], left, n);
        add_group(l, it, &g);
    }
}

/* Of a chain the sums are the new values. */
static void finish_member(Lower *l, const Item *item, const Equation *q)
{
    const Blocking *by = item->by;
    Item it = *item;
    uint32_t i = 0;
    while (i < by->nproducts && by->product[i].chain != q)
        i++;
    it.equation = q;
    if (i == by->nproducts) {
        lower_sums(l, &it, q->rhs, NULL);
        lower_store_element(l, q, q->kind == EQ_ADD);
        return;
    }
    Equation new = *q;
    new.rhs = by->product[i].reduce;
    lower_store_element(l, &new, 0);
}

static void add_and_store(Lower *l, const Item *item)
{
    const Blocking *by = item->by;
    const Members *m = &by->m;
    Sum *s = arena_array(l->k->module->arena, Sum, by->nproducts);
    Item it = *item;
    it.equation = &m->at[m->n - 1];
    it.row_var = build_index(&l->b, "row");
    it.part_first = it.first;
    it.part_end = it.end;
    place_sums(l, &it, s);
    add_all(l, &it, s, by->nproducts);
    it.unroll = 1;
    uint32_t depth = l->b.depth;
    for (uint32_t q = 0; q < m->n; q++) {
        if (!it.in_block && lower_is_complete(by, &m->at[q]))
            continue;
        if (l->b.depth == depth)
            lower_open_item(l, &it, m->at[0].loc);
        finish_member(l, &it, &m->at[q]);
    }
    for (uint32_t i = 0; i < by->nproducts; i++)
        if (s[i].partial != NONE)
            build_give_back(&l->b, s[i].partial);
}

/* The most terms that a sum with an accumulator has, of the index that goes in slabs. */
static ExprId most_terms(Lower *l, const Blocking *by)
{
    ExprId most = NONE;
    IndexId last = NONE;
    for (uint32_t i = 0; i < by->nproducts; i++) {
        const LowerProduct *p = &by->product[i];
        IndexId bound = x_bound(l->k, p->reduce, x_at(l->k, p->reduce)->nbound - 1u);
        if (!p->accumulator || bound == last)
            continue;
        most = most == NONE ? lower_extent(l, bound) : x_max(l->k, most, lower_extent(l, bound));
        last = bound;
    }
    return most;
}

static void in_block(Lower *l, const Item *item)
{
    Item it = *item;
    it.in_block = 1;
    add_and_store(l, &it);
}

/* Note [Few terms]. Sums of rows of groups stand in their elements where the terms are few, else in a block. Groups have few rows
 * each, beside which the weights of all stream through: sums that are read again meanwhile would wait for memory. */
static void by_number_of_terms(Lower *l, const Item *it)
{
    ExprId most = x_int(l->k, it->by->m.at[0].loc, GROUP_SUM_TERMS);
    lower_either(l, it, OP_le, most_terms(l, it->by), most, add_and_store, in_block);
}

void lower_product(Lower *l, const Item *item)
{
    (item->by->in_place_few ? by_number_of_terms : add_and_store)(l, item);
}
