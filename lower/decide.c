/* How equations are laid over loops: which index runs over lanes, which rows make block products, in which blocks; which sums
 * are products, and where those are accumulated (accumulator.c). Nothing is emitted here.
 *
 * Note [Lanes and rows]. A sum whose body is a product of something that varies with a row and something that varies with
 * the last left-hand index is a product of two matrices: it goes in blocks of those rows and columns (lower/product.c).
 * Rows of one group share `@r`, so `w[@r, h, f]` counts as not varying with r. Otherwise lanes want contiguous memory: the
 * last left-hand index when the loads inside reductions are contiguous in it (or do not vary), else, per reduction, a
 * reduced index that is contiguous; else none. */
#include "lower/lower.h"
#include "passes/schedule.h"

/* The reductions of all members, those inside others left out. */
typedef struct Reductions {
    ExprId at[REDUCE_MAX];
    uint32_t n;
} Reductions;

const Blocking lower_by_element = {.lane = NONE, .row = NONE, .scan = NONE, .unroll = 1};

/* Left-hand indices, each once, those inside a scattered subscript included. */
static void add_free(const Kernel *k, Blocking *by, IndexId i)
{
    for (uint32_t f = 0; f < by->nfree; f++)
        if (by->free[f] == i)
            return;
    if (by->nfree == FREE_MAX)
        BUG(k->module->arena, "lower: more than %d index variables on the left in kernel %s", FREE_MAX,
            k->name);
    by->free[by->nfree++] = i;
}

static void collect_free(Kernel *k, ExprId e, Blocking *by)
{
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_INDEX)
            add_free(k, by, x_at(k, *n)->sym);
}

/* A free index that picks a bucket or a group's run sets the bounds of a loop: neither lanes nor rows. */
static int picks_run(Lower *l, const Reductions *reds, IndexId i)
{
    for (uint32_t r = 0; r < reds->n; r++) {
        ExprId parts[CONJUNCT_MAX];
        uint32_t n = x_conjuncts(l->k, x_condition(l->k, reds->at[r]), parts, CONJUNCT_MAX);
        Bucket sort = {.conjunct = NONE};
        query_bucket(l->k, reds->at[r], &sort);
        for (uint32_t c = 0; c < n; c++)
            if ((c == sort.conjunct || query_is_run(l->k, parts[c])) && x_uses_index(l->k, parts[c], i))
                return 1;
    }
    return 0;
}

/* The last left-hand index, where lanes run if they run over one at all: not over one that stands as a loop outside, nor along
 * which sums go on. */
static IndexId last_index(const Lower *l, const Blocking *by)
{
    const Equation *q = &by->m.at[0];
    const Expr *last = q->nindex ? x_at(l->k, q->index[q->nindex - 1]) : NULL;
    if (!last || last->kind != X_INDEX || last->sym == by->scan ||
        (by->rowblock && lower_is_outer(by->rowblock, last->sym)))
        return NONE;
    return last->sym;
}

/* The index before a last subscript that is 0 or 1 of two, where instructions with masks take every second element; else NONE. */
static IndexId index_of_pairs(const Lower *l, const Blocking *by)
{
    const Kernel *k = l->k;
    const Equation *q = &by->m.at[0];
    const Tensor *t = &k->tensors.at[q->lhs];
    int64_t extent;
    if (by->rowblock || q->nindex < 2 || x_at(k, q->index[q->nindex - 1])->kind != X_INT ||
        t->layout != LAYOUT_ROWS || !ext_is_const(k->module, t->axes[q->nindex - 1].extent, &extent) ||
        extent != 2 || !cpu_can(l->cpu, CPU_MASKS))
        return NONE;
    return x_plain_index(k, q->index[q->nindex - 2]);
}

/* Lanes on the last left-hand index? */
static IndexId free_lane(Lower *l, const Blocking *by, const Reductions *reds)
{
    IndexId i = last_index(l, by);
    Tally in_sums = {0};
    int other = 0;
    if (i == NONE && reds->n == 0)
        i = index_of_pairs(l, by);
    if (i == NONE || picks_run(l, reds, i))
        return NONE;
    for (uint32_t r = 0; r < reds->n; r++) {
        lower_tally(l->k, reds->at[r], i, &in_sums);
        other |= lower_reduce_lane(l, reds->at[r]) != NONE;
    }
    return in_sums.far > 0 && other ? (IndexId)NONE : i;
}

/* The sums of all members that block products can compute; `lane`: as far as it is known. */
static Reductions sums_of(Lower *l, const Blocking *by, IndexId lane)
{
    Reductions sums = {.n = 0};
    for (uint32_t q = 0; q < by->m.n; q++)
        sums.n += lower_products(l, lane, by->m.at[q].rhs, sums.at + sums.n, REDUCE_MAX - sums.n);
    return sums;
}

/* The left-hand index, the last if there are several, that makes some sum of the equations a product of two matrices. */
static IndexId product_row(Lower *l, const Blocking *by, IndexId lane, IndexId only)
{
    LowerProduct product;
    if (lane == NONE || lower_is_row(l, lane))
        return NONE; /* columns go in whole fragments, a run of rows has any length */
    Reductions sums = sums_of(l, by, NONE);
    if (picks_run(l, &sums, lane))
        return NONE;
    for (uint32_t f = by->nfree; f-- > 0;) {
        IndexId i = by->free[f];
        if (i == lane || (by->rowblock && lower_is_outer(by->rowblock, i)) || (only != NONE && i != only) ||
            picks_run(l, &sums, i))
            continue;
        for (uint32_t r = 0; r < sums.n; r++)
            if (lower_factor(l, sums.at[r], i, lane, &product))
                return i;
    }
    return NONE;
}

/* Rows and lanes of products. A last index of few values fills no lanes: then another one is taken if it makes a product of more rows,
 * as of a convolution's weights [f, c, 3, 3]; its elements are stored one by one. */
static void decide_matrix(Lower *l, Blocking *by, IndexId only)
{
    IndexId last = last_index(l, by);
    by->lane = last;
    by->row = product_row(l, by, last, only);
    if (last == NONE || only != NONE || by->rowblock || pass_traits(l->c)->packs_all ||
        !lower_is_below(l, last, LAYOUT_EDGE))
        return;
    for (uint32_t f = by->nfree; f-- > 0;) {
        IndexId lane = by->free[f];
        if (lower_is_row(l, lane) || lower_is_below(l, lane, LAYOUT_EDGE))
            continue;
        IndexId row = product_row(l, by, lane, NONE);
        if (row == NONE || lower_is_below(l, row, LAYOUT_EDGE))
            continue;
        by->lane = lane;
        by->row = row;
        return;
    }
}

/* The sums of all members, each once; those that are no product of two matrices have no operands. */
static void find_products(Lower *l, Blocking *by)
{
    Reductions sums = sums_of(l, by, by->lane);
    by->product = arena_array(l->k->module->arena, LowerProduct, sums.n);
    for (uint32_t i = 0; i < sums.n; i++) {
        uint32_t j = 0;
        while (j < by->nproducts && by->product[j].reduce != sums.at[i])
            j++;
        if (j < by->nproducts)
            continue;
        LowerProduct *p = &by->product[by->nproducts++];
        if (!lower_factor(l, sums.at[i], by->row, by->lane, p))
            *p = (LowerProduct){.reduce = sums.at[i], .left = NONE, .right = NONE};
    }
}

/* Does each row have what lanes go over for itself, whatever it reads it by? */
static int reads_apart(const Kernel *k, ExprId sum, const Blocking *by)
{
    each_below (e, k, sum, EVERYWHERE)
        if (x_at(k, *e)->kind == X_LOAD && x_uses_index(k, *e, by->lane) && !x_uses_index(k, *e, by->row))
            return 0;
    return 1;
}

/* Nothing is read once for several rows by a sum like that of a token's results, sum(k) o[rt.row(t, k), h]: it is computed with the
 * element that asks for it, row after row, not first for a block of rows, which would go over their lines column by column. */
static void leave_elements(const Lower *l, Blocking *by)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < by->nproducts; i++) {
        const LowerProduct *p = &by->product[i];
        if (p->left != NONE || p->chain || pass_traits(l->c)->packs_all || !reads_apart(l->k, p->reduce, by))
            by->product[n++] = *p;
    }
    by->nproducts = n;
}

/* Do neither groups nor other indices make many items? */
static int is_alone(const Lower *l, const Blocking *by)
{
    return by->nfree == 2 && !lower_is_row(l, by->row);
}

/* Are its rows those of a row-block group's block? */
static int is_of_block(const Blocking *by) { return by->rowblock && by->row == by->rowblock->row; }

/* Is it a product of a row-block group, of a head's rows? */
static int is_of_head(const Lower *l, const Blocking *by)
{
    return is_of_block(by) && by->rowblock->nouter && !pass_traits(l->c)->small_panels;
}

/* Does it add up over the rows of a row-block group's block? */
static int is_over_block(const Blocking *by)
{
    return by->rowblock && by->rowblock->row != NONE && !is_of_block(by);
}

/* The block that suits. */
static Blocks usual_blocks(const Lower *l, const Blocking *by)
{
    uint32_t products = 0;
    int given = 1, rows = 0, wide = 0;
    for (uint32_t i = 0; i < by->nproducts; i++) {
        const LowerProduct *p = &by->product[i];
        if (p->left == NONE)
            continue;
        given &= p->direct != DIRECT_NOT;
        rows |= direct_is_in_rows(p->direct);
        wide |= x_at(l->k, p->left)->type != TY_BF16 || x_at(l->k, p->right)->type != TY_BF16;
        products++;
    }
    int alone = is_alone(l, by);
    BlocksOf of = by->in_place ? BLOCKS_IN_PLACE : BLOCKS_OTHER;
    if (given)
        of = rows && !alone ? BLOCKS_GIVEN_GROUPS : BLOCKS_GIVEN;
    if (by->few_depth)
        of = BLOCKS_GIVEN_GROUPS;
    Blocks usual = schedule_usual(l->c, l->k, of, alone, products);
    if (wide && pass_traits(l->c)->small_panels)
        usual.depth /= 2;
    if (is_of_head(l, by)) {
        usual.depth = usual.depth < HEAD_DEPTH ? usual.depth : HEAD_DEPTH;
        usual.cols = usual.cols < HEAD_COLUMNS ? usual.cols : HEAD_COLUMNS;
    }
    if (is_over_block(by) && cpu_can(l->cpu, CPU_WIDENS_ONCE))
        usual.rows = usual.rows < HEAD_ROWS ? usual.rows : HEAD_ROWS;
    return usual;
}

static Reductions all_reductions(const Lower *l, const Members *m)
{
    Reductions all = {.n = 0};
    for (uint32_t q = 0; q < m->n; q++) {
        all.n += query_reductions(l->k, m->at[q].rhs, all.at + all.n, REDUCE_MAX - all.n);
        if (all.n > REDUCE_MAX)
            BUG(l->k->module->arena, "lower: more than %d reductions in one launch of %s", REDUCE_MAX,
                l->k->name);
    }
    return all;
}

/* An item's elements go into panels: rows and lanes are theirs. */
static void decide_panels(const Lower *l, Blocking *by)
{
    by->panels = 1;
    by->lane = last_index(l, by);
    by->item_rows = LAYOUT_EDGE;
}

/* How operands are multiplied: bf16 as the target does it, or in f32, which is what its plainer instruction sets do. */
static void decide_types(Lower *l, Blocking *by)
{
    int native = 0;
    for (uint32_t i = 0; i < by->nproducts; i++)
        native |= by->product[i].left != NONE && by->product[i].left_elem == EL_BF16;
    if (!native || pass_traits(l->c)->packs_all || !schedule_multiplies_f32(l->c, l->k, by->lhs))
        return;
    for (uint32_t i = 0; i < by->nproducts; i++)
        by->product[i].left_elem = EL_F32;
}

/* Where the sums are added up. `any`: every index might have been the row. */
static void decide_accumulators(Lower *l, Blocking *by, int any)
{
    int found = 0;
    by->in_place = any && !by->rowblock && lower_in_place(l, by);
    for (uint32_t i = 0; i < by->nproducts; i++) {
        by->product[i].accumulator = lower_accumulator(l, by, i);
        found |= by->product[i].accumulator != NULL;
    }
    by->in_place_few = found && !by->rowblock && lower_is_row(l, by->row);
    if (!found || pass_traits(l->c)->packs_all || !schedule_sums_in_block(l->c, l->k, by->lhs))
        return;
    by->in_place = by->in_place_few = 0;
    for (uint32_t i = 0; i < by->nproducts; i++)
        by->product[i].accumulator = NULL;
}

/* Has a row-block group one block only, whatever the sizes of the call? */
static int is_one_block(Lower *l, const Cluster *c)
{
    int64_t rows = schedule_rowblock_rows(l->c, l->k, c);
    return lower_is_below(l, c->row, rows + 1);
}

/* Is a right operand in rows read where it lies unless the schedule says otherwise? It is packed for all terms of a slab where
 * sums stand in memory, which are too many to be read for each few rows again; and in a row-block group where one panel serves
 * several blocks: of a head all of them (Note [Hoisted operands]), of a sum over the rows all blocks of sums. */
static int usually_direct(Lower *l, const Blocking *by, const LowerProduct *p)
{
    const Cluster *c = by->rowblock;
    return !by->in_place &&
           (!c || (by->row == c->row && (!lower_has_outer(l, c, p->right) || is_one_block(l, c))));
}

int lower_is_as_long(Lower *l, const Blocking *by, const LowerProduct *p)
{
    Extent rows = lower_length(l, by->row), terms = lower_length(l, x_bound(l->k, p->reduce, 0));
    return ext_same(l->k->module, rows, lower_length(l, by->lane)) || ext_same(l->k->module, rows, terms);
}

/* Is it a product of a route's rows, none of whose right operands is computed? */
static int is_of_groups(const Lower *l, const Blocking *by)
{
    int given = 1;
    for (uint32_t i = 0; i < by->nproducts; i++)
        given &= by->product[i].left == NONE || by->product[i].direct != DIRECT_NOT;
    return given && !by->rowblock && !by->in_place && lower_is_row(l, by->row);
}

static Blocks group_blocks(const Lower *l, BlocksOf of) { return schedule_usual(l->c, l->k, of, 0, 1); }

/* Does a right operand that is packed serve all blocks of a row-block group, which may be few, or many rows of a group (Note [Groups
 * of many rows])? */
static int usually_by_rows(Lower *l, const Blocking *by, const LowerProduct *p, int groups)
{
    if (groups)
        return p->direct == DIRECT_ROWS &&
               group_blocks(l, BLOCKS_GROUP_PANELS).rows > group_blocks(l, BLOCKS_GIVEN_GROUPS).rows;
    return is_of_block(by) && !lower_is_as_long(l, by, p);
}

/* A target that does not read rows packs them, but for many rows all at once (Note [Prepacking]) where others read in place. */
static void decide_direct(Lower *l, Blocking *by)
{
    int open = 0, usual = 1, by_rows = 0;
    for (uint32_t i = 0; i < by->nproducts; i++) {
        LowerProduct *p = &by->product[i];
        p->direct = p->left == NONE ? DIRECT_NOT : lower_direct(l, by, p);
    }
    int groups = is_of_groups(l, by);
    for (uint32_t i = 0; i < by->nproducts; i++) {
        const LowerProduct *p = &by->product[i];
        if (!direct_is_in_rows(p->direct))
            continue;
        open = 1;
        usual &= usually_direct(l, by, p);
        by_rows |= usually_by_rows(l, by, p, groups);
    }
    RightFrom from = by_rows && (groups || !usual) ? RIGHT_BY_ROWS : usual ? RIGHT_IN_PLACE : RIGHT_IN_PANELS;
    if (open && l->cpu->rows_read)
        from = schedule_right(l->c, l->k, by->lhs, from);
    int packs = from != RIGHT_IN_PLACE;
    for (uint32_t i = 0; i < by->nproducts; i++) {
        LowerProduct *p = &by->product[i];
        if (!direct_is_in_rows(p->direct))
            continue;
        p->rows = packs ? DIRECT_NOT : p->direct;
        p->few = from == RIGHT_BY_ROWS && l->cpu->rows_read ? p->direct : DIRECT_NOT;
        if (packs || !l->cpu->rows_read)
            p->direct = DIRECT_NOT;
        if (groups && p->few)
            by->few_depth = group_blocks(l, BLOCKS_GIVEN_GROUPS).depth;
    }
    by->many = lower_may_prepack(l, by) ? schedule_prepack(l->c, l->k, by->lhs) : -1;
}

/* Of the rows of an item, those whose left operands are packed at a time. Parts are whole fragments, which write no other part's
 * rows; in a block of sums they are what all targets have whole fragments of. */
static int64_t part_rows(const Lower *l, const Blocking *by, int64_t usual)
{
    if (pass_traits(l->c)->packs_all)
        return by->item_rows;
    int64_t fragment = by->in_place ? (int64_t)cpu_tail(l->cpu->rows) : LAYOUT_EDGE;
    int64_t part = (schedule_part(l->c, l->k, by->lhs, usual) + fragment - 1) / fragment * fragment;
    return part < by->item_rows ? part : by->item_rows;
}

/* Rows that an item of weight gradients has at least, where the number of threads says how many it has; 0: a block has its size. Of
 * several matrices threads take one each, so few rows need not be cut for them. */
static int64_t least_rows(const Lower *l, const Blocking *by)
{
    if (!by->in_place || by->mc >= by->item_rows)
        return 0;
    if (is_alone(l, by))
        return by->mc < EVEN_ROWS ? by->mc : EVEN_ROWS;
    return !lower_is_row(l, by->row) && by->item_rows > EVEN_MATRIX_ROWS ? EVEN_MATRIX_ROWS : 0;
}

/* Note [Groups of many rows]. What is read in rows costs more than what is packed, for each block of rows again: groups of many
 * rows pack a panel for each item, which has more rows, others read their right operand where it lies. Which it is shows when the
 * kernel is called:
 *   before:  product sums[0, 0] += left * w[e, v1, v0]
 *   after:   if r1 - r0 <= 192 { product sums[0, 0] += left * w[e, v1, v0] }
 *            if r1 - r0 > 192 { pack right[0, 0] over h in slab..end, f in v0..v1 = w[e, h, f]
 *                               for part in r0..r1 by 192 { product sums[part - r0, 0] += left * right[0, 0] } }
 * Bits are the same. */
static Blocks blocks_of_many(const Lower *l, Blocks few)
{
    Blocks many = group_blocks(l, BLOCKS_GROUP_PANELS);
    return (Blocks){.rows = many.rows, .cols = few.cols, .depth = many.depth, .part_rows = few.rows};
}

/* Sums go in blocks of by->row and the last index. `any`: every index might have been the row. */
static void decide_products(Lower *l, Blocking *by, int any)
{
    const PassContext *c = l->c;
    lower_arrange_terms(l, by);
    find_products(l, by);
    decide_types(l, by);
    lower_find_chains(l, by);
    leave_elements(l, by);
    decide_accumulators(l, by, any);
    decide_direct(l, by);
    Blocks usual = usual_blocks(l, by);
    if (by->few_depth)
        usual = blocks_of_many(l, usual);
    by->unroll = UNROLLED_ROWS;
    by->item_rows = is_of_block(by) ? schedule_rowblock_rows(c, l->k, by->rowblock)
                                    : schedule_rows(c, l->k, by->lhs, usual.rows);
    by->nc = schedule_cols(c, l->k, by->lhs, usual.cols);
    by->kc = schedule_depth(c, l->k, by->lhs, usual.depth);
    by->mc = part_rows(l, by, usual.part_rows ? usual.part_rows : by->item_rows);
    by->even = least_rows(l, by);
}

/* Is an element's place said by another one, or by a route? */
static int is_picked(const Kernel *k, ExprId load)
{
    for (uint32_t a = 0; a < x_at(k, load)->nargs; a++)
        each_below (n, k, x_arg(k, load, a), EVERYWHERE) {
            ExprKind kind = (ExprKind)x_at(k, *n)->kind;
            if (kind == X_LOAD || kind == X_TOKEN || kind == X_SLOT || kind == X_ROW || kind == X_GROUP)
                return 1;
        }
    return 0;
}

/* A sum that adds what memory holds, a row of lanes after the other? Rows that are picked are few, and asked for each by itself. */
static int adds_rows(Lower *l, const Blocking *by, const Reductions *reds)
{
    Kernel *k = l->k;
    if (reds->n != 1 || by->m.n != 1 || by->lane == NONE || x_at(k, reds->at[0])->type == TY_INT ||
        k->tensors.at[by->lhs].layout != LAYOUT_ROWS)
        return 0;
    ExprId when = x_condition(k, reds->at[0]);
    if (when != NONE && (x_uses_index(k, when, by->lane) || x_loads_any(k, when)))
        return 0;
    int64_t terms;
    if (ext_is_const(k->module, k->indices.at[x_bound(k, reds->at[0], 0)].axis.extent, &terms) &&
        terms < ADDED_TERMS)
        return 0;
    Tally loads = {0};
    int work = 0;
    lower_tally(k, reds->at[0], by->lane, &loads);
    each_below (n, k, x_arg(k, reds->at[0], 0), EVERYWHERE) {
        const Expr *x = x_at(k, *n);
        if (type_is_float((Type)x->type))
            work += x->kind == X_OP ? scalar_table[x->op].cost : x->kind == X_IF ? ADDED_WORK : 0;
        if (x->kind == X_LOAD && (k->tensors.at[x->sym].layout != LAYOUT_ROWS || is_picked(k, *n)))
            return 0;
    }
    return loads.one > 0 && loads.far == 0 && work < ADDED_WORK;
}

int lower_reads_same(const Kernel *k, ExprId sum, IndexId across, IndexId i)
{
    int found = 0;
    each_below (e, k, sum, EVERYWHERE) {
        const Expr *x = x_at(k, *e);
        if (x->kind == X_REDUCE && x_condition(k, *e) != NONE && x_uses_index(k, x_condition(k, *e), i))
            return 0;
        if (x->kind != X_LOAD || !x_uses_index(k, *e, across))
            continue;
        if (x_uses_index(k, *e, i))
            return 0;
        found = 1;
    }
    return found;
}

/* Are the reductions of e, but for those inside others, of floats and computed wherever e is? */
static int are_sure(const Kernel *k, ExprId e, const Reductions *reds)
{
    for (uint32_t r = 0; r < reds->n; r++)
        if (x_at(k, reds->at[r])->type == TY_INT || !query_is_sure(k, e, reds->at[r]))
            return 0;
    return 1;
}

/* Of the only sum of an equation: is it computed always, and what stands inside it, if that is a sum, for each of its terms? */
static int is_sure(const Kernel *k, const Equation *q, const Reductions *sum)
{
    ExprId body = x_arg(k, sum->at[0], 0), condition = x_condition(k, sum->at[0]);
    Reductions in = {.n = 0};
    in.n = query_reductions(k, body, in.at, REDUCE_MAX);
    for (uint32_t r = 0; r < in.n; r++)
        if (r == REDUCE_MAX || query_has_reduce(k, x_arg(k, in.at[r], 0)) ||
            (x_condition(k, in.at[r]) != NONE && query_has_reduce(k, x_condition(k, in.at[r]))))
            return 0;
    return are_sure(k, q->rhs, sum) && are_sure(k, body, &in) && (!in.n || condition == NONE) &&
           (condition == NONE || !query_has_reduce(k, condition));
}

/* Note [Rows together]. Of y[t, f] = max(h) (x[t, h] + w[h, f]) a few t go together: what is read of w serves all of them. They are an
 * item's rows, as those of a product are. The additions of each are those that it has alone. */
static IndexId rows_together(Lower *l, const Blocking *by, const Reductions *reds)
{
    const Kernel *k = l->k;
    const Equation *q = &by->m.at[0];
    if (by->m.n != 1 || reds->n != 1 || by->rowblock || by->scan != NONE || q->kind != EQ_ASSIGN ||
        by->along || by->nfree < 2 || k->tensors.at[q->lhs].layout != LAYOUT_ROWS || !is_sure(k, q, reds))
        return NONE;
    for (uint32_t f = 0; f < by->nfree; f++)
        if (lower_is_row(l, by->free[f]))
            return NONE;
    IndexId last = by->free[by->nfree - 1], before = by->free[by->nfree - 2];
    IndexId across = by->lane != NONE ? by->lane : last, row = across == last ? before : last;
    return lower_reads_same(k, reds->at[0], across, row) ? row : (IndexId)NONE;
}

static void decide_loops(Lower *l, Blocking *by, const Reductions *reds)
{
    int is_long = pass_traits(l->c)->long_vectors;
    by->lane = free_lane(l, by, reds);
    if (is_long || !reds->n) {
        by->nc = reds->n ? schedule_machine(l->c, l->k)->align.block * VECTOR_BLOCKS : 0;
    } else if (adds_rows(l, by, reds)) {
        by->nc = by->width = (int64_t)l->cpu->lanes * ADDED_VECTORS;
        by->rest = by->width / 2; /* of 20000 rows of 16 the sums take half of the time so */
    } else {
        by->nc = by->width * SUM_STEPS;
    }
    if (!is_long)
        by->row = rows_together(l, by, reds);
    if (by->row != NONE)
        by->item_rows = by->unroll = UNROLLED_ROWS;
}

Blocking *lower_decide(Lower *l, const Members *m, TensorId lhs, const Cluster *rowblock, IndexId row)
{
    Blocking *by = arena_new_of(l->k->module->arena, Blocking);
    Reductions reds = all_reductions(l, m);
    *by = (Blocking){.m = *m,
                     .lhs = lhs,
                     .rowblock = rowblock,
                     .lane = NONE,
                     .scan = NONE,
                     .unroll = 1,
                     .item_rows = 1,
                     .many = -1};
    for (uint32_t i = 0; i < m->at[0].nindex; i++)
        collect_free(l->k, m->at[0].index[i], by);
    by->width = (int64_t)l->cpu->lanes * (reds.n ? l->cpu->vectors : POINTWISE_VECTORS);
    by->row = reds.n || row != NONE || rowblock ? (IndexId)NONE : lower_panel_row(l, m);
    if (by->row != NONE) {
        decide_panels(l, by);
        return by;
    }
    if (!rowblock)
        by->scan = lower_scan_index(l, by);
    if (by->scan == NONE)
        decide_matrix(l, by, row);
    if (by->row != NONE) {
        decide_products(l, by, row == NONE);
    } else {
        by->lane = NONE;
        decide_loops(l, by, &reds);
    }
    return by;
}
