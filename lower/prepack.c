/* Right operands that are packed for all rows.
 *
 * Note [Prepacking]. A product that reads its right operand from rows makes words of it for each block of rows anew, and
 * rows a page or more apart come at half the speed of panels. For few rows that is still the fastest, as the operand is
 * read once; a target that reads no rows packs blocks of it. For many, a launch packs it into work space first. Which of the two it is
 * shows when the kernel is called: so there are two nests, of which one has no rows. The knob `prepack` says from how many rows on; its usual value was
 * measured on an EPYC (Zen 5) with one thread, bf16 and f32, 1024 to 3072 wide: with 256 rows forward products become 3 to
 * 50 % faster, input gradients 10 % slower to 11 % faster; with 1024 rows all become 10 to 45 % faster.
 *   before:  launch y { parallel .. in 0..T by 96 { product sums += left * w[0, v0] } }
 *   after:   launch panels { parallel .. in 0..if(T >= 256, H, 0) by 32 { pack panels[u0, 0] over h, f = w[h, f] } }
 *            launch y { parallel .. in 0..if(T >= 256, T, 0) by 96 { product sums += left * panels[0, v0] } }
 *            launch y { parallel .. in 0..if(T >= 256, 0, T) by 96 { product sums += left * w[0, v0] } }
 * What is more than a little work to compute, as weights are that stand in words, is packed there for many rows, too; for few each block
 * of rows computes it. Bits are the same. Groups go without: panels would double the memory of all their matrices. */
#include "lower/lower.h"

/* Does e vary with nothing but the term and the column? */
static int is_matrix(const Lower *l, const Blocking *by, const LowerProduct *p)
{
    const Kernel *k = l->k;
    each_below (n, k, p->right, EVERYWHERE)
        if (x_at(k, *n)->kind == X_INDEX && x_at(k, *n)->sym != by->lane &&
            x_at(k, *n)->sym != x_bound(k, p->reduce, 0))
            return 0;
    return 1;
}

/* Is the right operand one matrix, of which every element is a term of every row: in rows, or more than a little work to compute? */
static int prepacks(const Lower *l, const Blocking *by, const LowerProduct *p)
{
    const Kernel *k = l->k;
    int computed =
        !pass_traits(l->c)->packs_all && p->right != NONE && query_cost(k, p->right) > OPERAND_COST;
    return (computed || p->rows != DIRECT_NOT) && !lower_is_row(l, by->row) && is_matrix(l, by, p) &&
           x_condition(k, p->reduce) == NONE && x_at(k, p->reduce)->nbound == 1;
}

int lower_may_prepack(const Lower *l, const Blocking *by)
{
    for (uint32_t i = 0; !by->rowblock && i < by->nproducts; i++)
        if (prepacks(l, by, &by->product[i]))
            return 1;
    return 0;
}

ExprId lower_end_if_counted(Lower *l, const Blocking *by, ExprId end)
{
    Loc loc = {0};
    ExprId rows = lower_extent(l, by->row), zero = x_int(l->k, loc, 0);
    ExprId many = x_op2(l->k, loc, OP_ge, rows, x_int(l->k, loc, by->many));
    switch (by->count) {
    case ROWS_ANY: break;
    case ROWS_MANY: return x_if(l->k, loc, many, end, zero);
    case ROWS_FEW: return x_if(l->k, loc, many, zero, end);
    }
    return end;
}

/* The launch that packs p's right operand where rows are many; its panels. An item takes whole rows of memory. */
static TensorId pack(Lower *l, const Blocking *by, const LowerProduct *p)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, p->right)->loc;
    IndexId index[2] = {x_bound(k, p->reduce, 0), by->lane};
    Extent extent[2] = {lower_length(l, index[0]), lower_length(l, index[1])};
    TensorId panels = build_buffer(&l->b, "panels", p->right_elem, SPACE_WORK, 2, extent);
    k->tensors.at[panels].layout = LAYOUT_PAIRS;
    int across = p->rows == DIRECT_ROWS_TRANSPOSED;
    Stmt s = tile_stmt(TILE_pack, loc);
    build_launch(&l->b, loc, "panels");
    for (int i = 0; i < 2; i++) {
        IndexId block = build_index(&l->b, i ? "v0" : "u0");
        ExprId end = lower_extent(l, index[i]);
        int64_t most = i == across ? LAYOUT_EDGE : by->nc;
        build_parallel(&l->b, loc, block, i ? end : lower_end_if_counted(l, by, end), most);
        s.index[i] = s.from[i] = x_index(k, loc, block);
        s.to[i] = x_min(k, x_add(k, s.from[i], most), end);
        s.bound[i] = index[i];
        lower_bind(l, index[i], NONE, NONE);
    }
    s.buffer = panels;
    s.nindex = s.nbound = 2;
    s.value = lower_expr(l, p->right);
    build_put(&l->b, s);
    return panels;
}

LowerProduct *lower_prepack(Lower *l, const Blocking *by)
{
    Kernel *k = l->k;
    LowerProduct *out = arena_array(k->module->arena, LowerProduct, by->nproducts);
    for (uint32_t i = 0; i < by->nproducts; i++) {
        LowerProduct *p = &out[i];
        *p = by->product[i];
        if (!prepacks(l, by, p))
            continue;
        Loc loc = x_at(k, p->right)->loc;
        ExprId at[2] = {x_index(k, loc, x_bound(k, p->reduce, 0)), x_index(k, loc, by->lane)};
        p->right = x_load(k, loc, pack(l, by, p), at);
        p->direct = DIRECT_PANELS;
    }
    return out;
}
