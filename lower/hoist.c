/* Right operands of a row-block group's products that are packed once for many blocks.
 *
 * Note [Hoisted operands]. Keys and values of a head serve all its rows. Packed for each block of rows anew, as other right operands
 * are, they would take a sixth of attention's time. So a right operand that belongs to a head, which is to say to the outer
 * variables, and that no member computes, is packed for a span of blocks (for all blocks where they go in order): all
 * its terms and columns, as far as the conditions of the sum and of those who read the result ask for them. A member that
 * adds up over the rows has the rows of a block for its terms: its operand is packed for the block, and serves all
 * blocks of sums.
 *   Products read it from whole lines of terms and columns on. Slabs of terms that may begin elsewhere are packed
 * by themselves.
 *
 * Note [Few rows]. Where a head has few rows, as one query for each of some heads beside a cache of keys, packing is most of the
 * work. How many there are shows when the kernel is called, so a right operand that can be read where it lies is:
 *   before:  pack kept[0, 0] over d in 0..D, j in 0..S = k[b, n, j, d]
 *            product s[0, 0] += left * kept[0, 0]
 *   after:   pack kept[0, 0] over d in 0..if(G <= 64, 0, D), j in 0..S = k[b, n, j, d]
 *            if G <= 64 { product s[0, 0] += left * k[b, n, 0, 0] transposed }
 *            if G > 64 { product s[0, 0] += left * kept[0, 0] }
 * Bits are the same. */
#include "passes/cluster.h"
#include "lower/lower.h"

/* Does e vary with the two indices and outer variables only? */
static int belongs_to_head(const Lower *l, const Cluster *c, ExprId e, const IndexId *index)
{
    const Kernel *k = l->k;
    each_below (n, k, e, EVERYWHERE) {
        const Expr *x = x_at(k, *n);
        if (x->kind == X_REDUCE || x->kind == X_TOKEN || x->kind == X_SLOT || x->kind == X_ROW ||
            (x->kind == X_INDEX && x->sym != index[0] && x->sym != index[1] && !lower_is_outer(c, x->sym) &&
             !lower_is_zero(l, x->sym)))
            return 0;
    }
    return 1;
}

int lower_has_outer(const Lower *l, const Cluster *c, ExprId e)
{
    for (uint32_t o = 0; o < c->nouter; o++)
        if (x_uses_index(l->k, e, c->outer[o]))
            return 1;
    return 0;
}

static int reads_member(const Kernel *k, const Members *m, ExprId e)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (x_loads(k, e, m->at[i].lhs) || (m->at[i].ids != NONE && x_loads(k, e, m->at[i].ids)))
            return 1;
    return 0;
}

/* A product of two matrices over one index, none of whose rows are a group's, with a right operand that is to be packed. */
static int is_plain(const Lower *l, const Blocking *by, const LowerProduct *p)
{
    const Expr *x = x_at(l->k, p->reduce);
    return p->left != NONE && p->direct == DIRECT_NOT && x->nbound == 1 &&
           !lower_is_row(l, x_bound(l->k, p->reduce, 0)) && !lower_is_row(l, by->lane) &&
           (x_at(l->k, p->right)->kind != X_LOAD ||
            layout_is_dense(l->k->tensors.at[x_at(l->k, p->right)->sym].layout));
}

static Hoisted hoisted_of(const Lower *l, const Blocking *by, const LowerProduct *p)
{
    return (Hoisted){
        .product = *p, .reader = by->m.at[0].lhs, .index = {x_bound(l->k, p->reduce, 0), by->lane}};
}

int lower_hoists(Lower *l, const Members *all, const Blocking *by, uint32_t i, Hoisted *out)
{
    Kernel *k = l->k;
    const Cluster *c = by->rowblock;
    const LowerProduct *p = &by->product[i];
    const Equation *q = &by->m.at[0];
    if (pass_traits(l->c)->small_panels || by->row != c->row || !is_plain(l, by, p))
        return 0;
    *out = hoisted_of(l, by, p);
    IndexId known[2] = {out->index[0], c->row};
    out->first = x_int(k, q->loc, 0);
    out->when[0] = x_condition(k, p->reduce);
    out->when[1] = k->tensors.at[q->lhs].placed ? cluster_needed(k, q->lhs) : (ExprId)NONE;
    return belongs_to_head(l, c, p->right, out->index) && lower_has_outer(l, c, p->right) &&
           !reads_member(k, all, p->right) &&
           (out->when[0] == NONE || belongs_to_head(l, c, out->when[0], known)) && checks_inside(k, q->rhs);
}

ExprId lower_rows_are(Lower *l, const Cluster *c, ScalarOp which)
{
    Loc loc = {0};
    int64_t most = cpu_can(l->cpu, CPU_TILES) ? IN_PLACE_TILE_ROWS : IN_PLACE_ROWS;
    return x_op2(l->k, loc, which, lower_extent(l, c->row), x_int(l->k, loc, most));
}

/* Where a term stands in it. */
static ExprId place_of(Lower *l, const Hoisted *hoisted, ExprId term)
{
    return x_is_int(l->k, hoisted->first, 0) ? term : x_difference(l->k, term, hoisted->first);
}

void lower_hoist(Lower *l, const Hoisted *hoisted, Extent terms)
{
    Kernel *k = l->k;
    Hoisted own = *hoisted;
    Extent extents[2] = {terms, lower_length(l, hoisted->index[1])};
    own.buffer = build_buffer(&l->b, "kept", hoisted->product.right_elem, SPACE_THREAD, 2, extents);
    k->tensors.at[own.buffer].layout = LAYOUT_PAIRS;
    vec_push(k->module->arena, &l->env.hoisted, own);
}

void lower_pack_hoisted(Lower *l, Loc loc, const Hoisted *hoisted, const ExprId *from, const ExprId *to)
{
    Stmt s = tile_stmt(TILE_pack, loc);
    s.buffer = hoisted->buffer;
    s.nindex = s.nbound = 2;
    for (uint32_t i = 0; i < 2; i++) {
        lower_bind(l, hoisted->index[i], NONE, NONE);
        s.bound[i] = hoisted->index[i];
        s.from[i] = from[i];
        s.to[i] = to[i];
        s.index[i] = i ? from[i] : place_of(l, hoisted, from[i]);
    }
    s.value = lower_expr(l, hoisted->product.right);
    build_put(&l->b, s);
}

void lower_pack_block(Lower *l, const Blocking *by, const BlockRows *rows, int64_t most)
{
    Kernel *k = l->k;
    Loc loc = by->m.at[0].loc;
    for (uint32_t i = 0; i < by->nproducts && !pass_traits(l->c)->small_panels; i++) {
        const LowerProduct *p = &by->product[i];
        Hoisted hoisted = is_plain(l, by, p) ? hoisted_of(l, by, p) : (Hoisted){.reader = NONE};
        if (hoisted.reader == NONE || hoisted.index[0] != rows->c->row ||
            !belongs_to_head(l, rows->c, p->right, hoisted.index))
            continue;
        hoisted.first = rows->first;
        lower_hoist(l, &hoisted, ext_const(k->module, most));
        lower_pack_hoisted(l, loc, &l->env.hoisted.at[l->env.hoisted.len - 1],
                           (ExprId[]){rows->first, x_int(k, loc, 0)},
                           (ExprId[]){rows->end, lower_extent(l, hoisted.index[1])});
    }
}

ExprId lower_hoisted_at(Lower *l, const Item *it, const LowerProduct *p, ExprId term)
{
    for (uint32_t i = 0; i < l->env.hoisted.len; i++) {
        const Hoisted *hoisted = &l->env.hoisted.at[i];
        if (hoisted->product.reduce != p->reduce || hoisted->reader != it->by->m.at[0].lhs ||
            hoisted->index[1] != it->by->lane)
            continue;
        term = lower_whole_lines(l, place_of(l, hoisted, term), 0);
        return x_load(l->k, (Loc){0}, hoisted->buffer, (ExprId[]){term, it->lane_first});
    }
    return NONE;
}
