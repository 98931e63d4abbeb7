/* Sums of products by blocks.
 *
 * Note [Blocks]. An item is a block of rows times a block of columns (lanes). The last reduced index of a sum goes in slabs:
 * for each, the left operand of the item's rows and the right operand of its columns are packed into the thread's memory,
 * then a block product adds the slab's terms to the item's sums, which stand in a block of thread memory, or where their
 * elements are to stand (lower/home.c). The first slab begins them, where
 * nothing is to be added before it. Sums over the same index under the same condition go together (gate and up): a left
 * operand that they share is packed once. After all slabs the drain computes the rest of the equations, element by element,
 * and stores. A sum's chain of additions is in ascending order of the reduced index whatever the blocks are, so bits do not
 * depend on them. Slabs: lower/slab.c.
 * Conditions become bounds of the reduced index. Where bounds differ from row to row (a causal mask), the terms that only
 * some rows of the item have are added element by element, under their condition; nothing is multiplied by a zero mask.
 * The same loops do what is no product of two matrices. */
#include "lower/lower.h"

/* ---- the item's rows and lanes ---- */

static void open_lanes(Lower *l, Loc loc)
{
    build_for(&l->b, loc, LOOP_VECTOR, l->plan.lane, l->lane_first, l->lane_end, l->plan.width);
    lower_bind(l, l->plan.lane, NONE, NONE);
}

static void open_item_rows(Lower *l, Loc loc)
{
    build_for(&l->b, loc, LOOP_ORDERED, l->item_row, l->item_first, l->item_end, 1);
    lower_bind(l, l->plan.row, x_index(l->k, loc, l->item_row), l->group.at[l->plan.row]);
}

void lower_open_item(Lower *l, Loc loc)
{
    open_item_rows(l, loc);
    open_lanes(l, loc);
}

TensorId lower_sum_at(Lower *l, const Product *p, ExprId row, ExprId lane, ExprId *at)
{
    IndexId index[2] = {l->plan.row, l->plan.lane};
    Binding old[2] = {lower_binding(l, index[0]), lower_binding(l, index[1])};
    if (!p->home) {
        at[0] = x_difference(l->k, row, l->item_first);
        at[1] = x_difference(l->k, lane, l->lane_first);
        return p->partial;
    }
    lower_bind(l, index[0], row, old[0].group);
    lower_bind(l, index[1], lane, old[1].group);
    for (uint32_t a = 0; a < p->home->nindex; a++)
        at[a] = lower_expr(l, p->home->index[a]);
    for (uint32_t i = 0; i < 2; i++)
        lower_bind(l, index[i], old[i].value, old[i].group);
    return lower_place(l, p->home->lhs, at);
}

/* The same of a lane. */
static TensorId element_at(Lower *l, const Product *p, ExprId row, ExprId *at)
{
    return lower_sum_at(l, p, row, x_index(l->k, (Loc){0}, l->plan.lane), at);
}

/* Sums begin at nothing, or at the old values of a +=. */
static void begin(Lower *l, const Product *p)
{
    Loc loc = x_at(l->k, p->reduce)->loc;
    uint32_t depth = l->b.depth;
    ExprId at[MAX_RANK];
    lower_open_item(l, loc);
    ExprId value = lower_first_value(l, p->reduce, p->chain);
    TensorId sums = element_at(l, p, x_index(l->k, loc, l->item_row), at);
    build_store(&l->b, loc, sums, at, value, 0);
    build_close(&l->b, depth);
}

/* A chain's sums hold the old values already. */
static void begin_all(Lower *l, const Together *g)
{
    for (uint32_t n = 0; n < g->n; n++)
        if (!g->p[n].chain)
            begin(l, &g->p[n]);
}

/* ---- element by element ---- */

/* Registers from or to the sums of a block of unrolled rows; both have places for whole blocks. What rows past the end
 * hold is never used. */
static void move_block(Lower *l, const Domain *d, const Product *p, int to_memory)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, d->reduce[0])->loc;
    uint32_t depth = l->b.depth;
    ExprId at[MAX_RANK], index;
    lower_open_rows(l, loc);
    TensorId sums = element_at(l, p, lower_block_row(l), at);
    lower_acc_index(l, d, &index);
    if (to_memory)
        build_store(&l->b, loc, sums, at, x_load(k, loc, d->acc[0], &index), 0);
    else
        build_store(&l->b, loc, d->acc[0], &index, x_load(k, loc, sums, at), 0);
    build_close(&l->b, depth);
}

/* Every row of the part adds its terms from lo to hi. */
static void add_elements(Lower *l, const Product *p, const Walk *outer, ExprId lo, ExprId hi)
{
    Loc loc = x_at(l->k, p->reduce)->loc;
    uint32_t depth = l->b.depth;
    IndexId block = build_index(&l->b, "block");
    Domain *d = arena_new_of(l->k->module->arena, Domain);
    lower_open_domain(l, d, p->reduce, NONE);
    d->acc[0] = build_reg(&l->b, "acc", EL_F32, l->plan.rows, (uint32_t)l->plan.width);
    Walk w = *outer;
    w.d = d;
    l->slab = d->bound[d->nbound - 1];
    l->slab_lo = lo;
    l->slab_hi = hi;
    open_lanes(l, loc);
    build_for(&l->b, loc, LOOP_ORDERED, block, l->part_first, l->part_end, l->plan.rows);
    l->row_first = x_index(l->k, loc, block);
    l->row_end = l->part_end;
    lower_bind(l, l->plan.row, NONE, l->group.at[l->plan.row]);
    move_block(l, d, p, 0);
    lower_walk(l, w);
    move_block(l, d, p, 1);
    build_close(&l->b, depth);
    l->slab = NONE;
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
static Terms run_terms(Lower *l, const Walk *w, IndexId i)
{
    uint32_t conjunct;
    Terms t = {.group = lower_expr(l, lower_run_group(l, w, i, &conjunct)), .mask = NONE};
    t.lo = t.from = lower_run_start(l, lower_route_of(l, i), t.group);
    t.hi = t.to = lower_run_end(l, lower_route_of(l, i), t.group);
    t.blocks = w->pending == (uint64_t)1 << conjunct;
    return t;
}

ExprId lower_whole_lines(Lower *l, ExprId e, int64_t more)
{
    ExprId edge = x_int(l->k, (Loc){0}, LAYOUT_EDGE);
    return x_op2(l->k, (Loc){0}, OP_mul, x_op2(l->k, (Loc){0}, OP_idiv, x_add(l->k, e, more), edge), edge);
}

int lower_starts_line(const Lower *l, ExprId e)
{
    return x_at(l->k, e)->kind == X_INT && x_at(l->k, e)->value.i % LAYOUT_EDGE == 0;
}

/* Do the right operands exist between two terms i, whatever a condition says of those? */
static int stand_between(Lower *l, const Together *g, IndexId i)
{
    Kernel *k = l->k;
    Affine affine;
    for (uint32_t n = 0; n < g->n; n++)
        each_below (x, k, g->p[n].right, EVERYWHERE)
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

/* Where rows differ, blocks take whole lines of terms, counted from the index's zero: which terms of a row are added one
 * by one, and which two or 32 at a time, is then the same however rows are cut into items. The cube of an NPU takes them
 * all, those that a row has not as zeros. */
static Terms terms_of(Lower *l, const Together *g, const Walk *w, Loc loc)
{
    IndexId i = w->d->bound[w->d->nbound - 1];
    if (l->k->indices.at[i].axis.group != NONE)
        return run_terms(l, w, i);
    int64_t rows = l->plan.rows;
    l->plan.rows = 0; /* bounds for all rows of the part */
    l->row_first = l->part_first;
    l->row_end = l->part_end;
    Range r = lower_range(l, w, i);
    l->plan.rows = rows;
    Terms t = {r.lo_min, r.lo_min, r.hi_max, r.hi_max, .group = NONE, .mask = NONE};
    t.blocks = !(w->pending & ~(r.exact | r.inner));
    t.whole = r.inner || t.from == l->stripe_first || lower_starts_line(l, t.from);
    if (r.inner && t.blocks) {
        t.lo = build_let(&l->b, loc, "lo", r.lo_min);
        t.hi = build_let(&l->b, loc, "hi", r.hi_max);
        if (pass_traits(l->c)->masked_terms && g->p[0].left != NONE && stand_between(l, g, i)) {
            t.mask = mask_of(l, w, r.inner);
            t.from = t.lo;
            t.to = t.hi;
            return t;
        }
        ExprId from = x_min(l->k, t.hi, lower_whole_lines(l, r.lo_max, LAYOUT_EDGE - 1));
        t.from = lower_starts_line(l, r.lo_max) ? t.lo : build_let(&l->b, loc, "inner", from);
        ExprId to = x_max(l->k, x_int(l->k, loc, 0), x_min(l->k, r.hi_min, t.hi));
        t.to = build_let(&l->b, loc, "outer", x_max(l->k, t.from, lower_whole_lines(l, to, 0)));
    }
    return t;
}

/* Loops over the reduced indices before the last. Conditions that tell rows apart wait for the terms. */
static void open_outer(Lower *l, Loc loc, Walk *w)
{
    const Domain *d = w->d;
    for (uint32_t b = 0; b + 1 < d->nbound; b++) {
        IndexId i = d->bound[b];
        uint64_t by_row = 0;
        for (uint32_t c = 0; c < d->nconjunct; c++)
            by_row |= (uint64_t)x_uses_index(l->k, d->conjunct[c], l->plan.row) << c;
        w->open |= 1u << b;
        Walk same = *w;
        same.pending &= ~by_row;
        Range r = lower_range(l, &same, i);
        w->pending &= ~r.exact;
        build_for(&l->b, loc, LOOP_ORDERED, i, r.lo_min, r.hi_max, 1);
        lower_bind(l, i, NONE, NONE);
    }
}

static void add_elements_of_all(Lower *l, const Together *g, const Walk *w, ExprId lo, ExprId hi)
{
    for (uint32_t n = 0; lo != hi && n < g->n; n++)
        add_elements(l, &g->p[n], w, lo, hi);
}

/* Terms lo..hi that only some rows of the item have: a fragment's rows at a time have more in common. */
static void add_end(Lower *l, const Together *g, const Walk *w, ExprId lo, ExprId hi)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, g->p[0].reduce)->loc;
    uint32_t depth = l->b.depth;
    if (lo == hi)
        return;
    IndexId part = build_index(&l->b, "part");
    build_if(&l->b, loc, x_op2(k, loc, OP_lt, lo, hi));
    build_for(&l->b, loc, LOOP_ORDERED, part, l->item_first, l->item_end, LAYOUT_EDGE);
    l->part_first = x_index(k, loc, part);
    l->part_end =
        build_let(&l->b, loc, "part_end", x_min(l->k, x_add(l->k, l->part_first, LAYOUT_EDGE), l->item_end));
    Terms t = terms_of(l, g, w, loc);
    ExprId end[4] = {t.lo, t.from, t.to, t.hi};
    for (int i = 0; i < 4; i++)
        end[i] = build_let(&l->b, loc, "end", x_min(l->k, hi, x_max(l->k, end[i], lo)));
    add_elements_of_all(l, g, w, end[0], end[1]);
    lower_slabs(l, g, &(Run){end[1], end[2], t.group, t.mask, 0, t.whole});
    add_elements_of_all(l, g, w, end[2], end[3]);
    build_close(&l->b, depth);
    l->part_first = l->item_first;
    l->part_end = l->item_end;
}

/* Can the first slab of every product begin its sums? */
static int begin_with_slab(const Together *g, const Terms *t)
{
    for (uint32_t n = 0; n < g->n; n++)
        if (g->p[n].chain)
            return 0;
    return g->d->nbound == 1 && t->lo == t->from;
}

static const char no_matrices[] = "a factor varies with rows and columns";
static const char no_bounds[] = "its condition is more than bounds of the reduced index";

static void add_group(Lower *l, const Together *g)
{
    Loc loc = x_at(l->k, g->p[0].reduce)->loc;
    uint32_t depth = l->b.depth;
    Walk w = lower_walk_from(g->d);
    l->part_first = l->item_first;
    l->part_end = l->item_end;
    if (g->d->nbound > 1)
        begin_all(l, g);
    open_outer(l, loc, &w);
    Terms t = terms_of(l, g, &w, loc);
    int blocks = t.blocks && g->p[0].left != NONE, anew = blocks && begin_with_slab(g, &t);
    if (g->d->nbound == 1 && !anew)
        begin_all(l, g);
    for (uint32_t n = 0; n < g->n; n++)
        lower_report(l, &g->p[n], blocks ? NULL : t.blocks ? no_matrices : no_bounds);
    if (blocks) {
        add_end(l, g, &w, t.lo, t.from);
        lower_slabs(l, g, &(Run){t.from, t.to, t.group, t.mask, anew, t.whole});
        add_end(l, g, &w, t.to, t.hi);
    } else {
        add_elements_of_all(l, g, &w, t.lo, t.hi);
    }
    build_close(&l->b, depth);
}

/* ---- an item ---- */

/* The sums of all members, each once; those that are no product of two matrices have no operands. */
uint32_t lower_find_products(Lower *l, const Members *m, Product *out)
{
    uint32_t n = 0;
    ExprId reds[REDUCE_MAX];
    for (uint32_t q = 0; q < m->n; q++) {
        uint32_t found = lower_products(l, m->at[q].rhs, reds, REDUCE_MAX);
        for (uint32_t i = 0; i < found; i++) {
            uint32_t j = 0;
            while (j < n && out[j].reduce != reds[i])
                j++;
            if (j < n || n == REDUCE_MAX)
                continue;
            if (!lower_factor(l, reds[i], l->plan.row, l->plan.lane, &out[n]))
                out[n] = (Product){.reduce = reds[i], .left = NONE, .right = NONE};
            n++;
        }
    }
    return n;
}

/* Do two sums go over the same terms, both or neither in blocks? */
static int go_together(Lower *l, const Domain *d, const Product *a, const Product *b)
{
    return (a->left == NONE) == (b->left == NONE) && lower_joins(l, d, b->reduce);
}

/* Takes the first product that is left and all that go with it from the list; returns how many are left. */
static uint32_t take_group(Lower *l, Product *p, uint32_t n, Together *g)
{
    uint32_t left = 0;
    g->n = 0;
    lower_open_domain(l, g->d, p[0].reduce, NONE);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || go_together(l, g->d, &g->p[0], &p[i]))
            g->p[g->n++] = p[i];
        else
            p[left++] = p[i];
    return left;
}

static void new_sums(Lower *l, Product *p)
{
    int64_t row =
        l->plan.strip + LAYOUT_EDGE; /* rows a power of two apart would share few places of a cache */
    p->partial = build_thread(&l->b, "sums", EL_F32, l->plan.chunk, row, LAYOUT_ROWS);
    if (p->chain)
        begin(l, p);
}

/* A place for the sums of each product, or for all of one chain. */
static void place_sums(Lower *l, const Members *m, Product *p, uint32_t n)
{
    ExprId at[MAX_RANK];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = 0;
        while (first < i && (!p[i].chain || p[first].chain != p[i].chain))
            first++;
        p[i].home = lower_home(l, m, p, i);
        p[i].partial = first < i ? p[first].partial : (TensorId)NONE;
        if (!p[i].home && first == i)
            new_sums(l, &p[i]);
        TensorId sums = element_at(l, &p[i], x_index(l->k, l->equation->loc, l->item_row), at);
        vec_push(l->k->module->arena, &l->done,
                 (Done){p[i].reduce, x_load(l->k, l->equation->loc, sums, at), 0});
    }
}

static void add_all(Lower *l, const Product *all, uint32_t n)
{
    Arena *a = l->k->module->arena;
    Together g = {.p = arena_array(a, Product, n), .d = arena_new_of(a, Domain)};
    Product *p = arena_array(a, Product, n);
    for (uint32_t i = 0; i < n; i++)
        p[i] = all[i];
    while (n > 0) {
        n = take_group(l, p, n, &g);
        add_group(l, &g);
    }
}

/* Are the sums in q's elements all that these are to hold? */
static int is_drained(const Equation *q, const Product *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (p[i].home == q && (p[i].chain == q || p[i].reduce == q->rhs))
            return 1;
    return 0;
}

/* Of a chain the sums are the new values. */
static void drain_member(Lower *l, const Equation *q, const Product *p, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && p[i].chain != q)
        i++;
    l->equation = q;
    if (i == n) {
        lower_sums(l, q->rhs, NULL);
        lower_store_element(l, q, q->kind == EQ_ADD);
        return;
    }
    Equation new = *q;
    new.rhs = p[i].reduce;
    lower_store_element(l, &new, 0);
}

void lower_product(Lower *l, const Members *m)
{
    Product p[REDUCE_MAX];
    uint32_t n = lower_find_products(l, m, p);
    for (uint32_t q = 0; q < m->n; q++)
        lower_find_chain(l, m, q, p, n);
    l->equation = &m->at[m->n - 1];
    l->item_row = build_index(&l->b, "row");
    place_sums(l, m, p, n);
    add_all(l, p, n);
    l->plan.rows = 1;
    uint32_t depth = l->b.depth;
    for (uint32_t q = 0; q < m->n; q++) {
        if (is_drained(&m->at[q], p, n))
            continue;
        if (l->b.depth == depth)
            lower_open_item(l, m->at[0].loc);
        drain_member(l, &m->at[q], p, n);
    }
    for (uint32_t i = 0; i < n; i++)
        if (p[i].partial != NONE)
            build_give_back(&l->b, p[i].partial);
}
