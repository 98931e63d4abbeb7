/* Scatters: a launch that computes a product over rows and adds each row into the sums of its token (Note [Scatter] in
 * cluster_scatter.c).
 *
 * before:  o[r, h] = sum(f) a[r, f] * wd[@r, f, h]     y[t, h] = bf16(sum(k where ...) p[t, k] * o[rt.row(t, k), h])
 * after:   launch y { owned v0 in 0..H by 256 {
 *            sums[t, h - v0] = 0 for all t
 *            for e in 0..E { for r0 in rows of e by 512 { .. the product of the block ..
 *              for row in r0..r1 { vector h { sums[token of row, h - v0] = .. + p[..] * product[row - r0, h - v0] } } } }
 *            y[t, h] = bf16(sums[t, h - v0]) for all t } } */
#include "lower/lower.h"
#include "passes/cluster.h"
#include "passes/schedule.h"

/* An owner's columns: all tokens' sums of them, in thread memory. */
typedef struct Strip {
    Scatter s;
    const Equation *product, *reader;
    TensorId sums; /* f32[tokens, columns] */
    IndexId var;   /* the owner's variable: the first column */
    int64_t cols;
    ExprId first, end;
    Blocking *rows, *tokens; /* the product's rows; the reader, its sums being there */
} Strip;

static ExprId loaded(Lower *l, const Strip *y, ExprId token, ExprId column)
{
    Kernel *k = l->k;
    ExprId at[2] = {token, x_op2(k, y->reader->loc, OP_sub, column, y->first)};
    return x_load(k, y->reader->loc, y->sums, at);
}

/* ---- the two equations ---- */

/* The sum's term in terms of a row: token, choice and column are the row's. */
typedef struct OverRows {
    IndexId from[3]; /* token, choice, column of the reader */
    ExprId to[3];
    ExprId row_from, row_to;   /* rt.row(token, choice) of the row is the row itself */
    ExprId load_from, load_to; /* the product's element is its value */
} OverRows;

static ExprId put_row(Kernel *k, ExprId e, void *user)
{
    const OverRows *o = user;
    for (int i = 0; i < 3; i++)
        if (x_at(k, e)->kind == X_INDEX && x_at(k, e)->sym == o->from[i])
            return o->to[i];
    return e == o->row_from ? o->row_to : e == o->load_from ? o->load_to : e;
}

static ExprId term_of(Lower *l, const Strip *y)
{
    Kernel *k = l->k;
    Loc loc = y->reader->loc;
    RouteId route = x_at(k, y->s.row)->sym;
    OverRows o = {.row_to = y->product->index[0], .load_to = y->product->rhs};
    o.from[0] = x_plain_index(k, y->reader->index[0]);
    o.from[1] = x_bound(k, y->s.sum, 0);
    o.from[2] = x_plain_index(k, y->reader->index[1]);
    o.to[0] = x_token(k, loc, route, o.row_to);
    o.to[1] = x_slot(k, loc, route, o.row_to);
    o.to[2] = y->product->index[1];
    o.row_from = x_row(k, loc, route, o.to[0], o.to[1]);
    o.load_from = x_load(k, loc, y->product->lhs, y->product->index);
    return x_rewrite(k, x_arg(k, y->s.sum, 0), put_row, &o);
}

/* sums[rt.token(r), h - v0] = sums[rt.token(r), h - v0] + term. As `=`, since a += would let the product's chain of
 * additions begin at the old value, and two rows of a block may be of one token. */
static Equation add_row(Lower *l, const Strip *y)
{
    Kernel *k = l->k;
    Equation q = *y->product;
    ExprId token = x_token(k, q.loc, x_at(k, y->s.row)->sym, q.index[0]);
    ExprId old = loaded(l, y, token, q.index[1]);
    q.lhs = y->sums;
    q.rhs = x_op2(k, q.loc, OP_add, old, term_of(l, y));
    q.index[0] = x_arg(k, old, 0);
    q.index[1] = x_arg(k, old, 1);
    return q;
}

/* The reader, its sum being there. */
static Equation finish(Lower *l, const Strip *y)
{
    Equation q = *y->reader;
    q.rhs = x_replace(l->k, q.rhs, y->s.sum, loaded(l, y, q.index[0], q.index[1]));
    return q;
}

/* ---- loops ---- */

/* The owner's columns, in lanes or one by one. */
static void open_columns(Lower *l, const Strip *y, Loc loc, IndexId column, Item *it)
{
    lower_bind(l, column, NONE, NONE);
    it->lane_first = y->first;
    it->lane_end = y->end;
    if (it->by->lane != column)
        build_for(&l->b, loc, LOOP_ORDERED, column, y->first, y->end, 1);
}

/* Blocks of rows first..end: they become the item's rows. */
static void open_blocks(Lower *l, Loc loc, ExprId first, ExprId end, Item *it)
{
    IndexId u = build_index(&l->b, "r0");
    build_for(&l->b, loc, LOOP_ORDERED, u, first, end, it->by->item_rows);
    it->first = it->row_first = x_index(l->k, loc, u);
    ExprId last = x_min(l->k, x_add(l->k, it->first, it->by->item_rows), end);
    it->end = it->row_end = build_let(&l->b, loc, "r1", last);
}

/* The rows of every group, in order; in blocks where they make block products. */
static void open_rows(Lower *l, Loc loc, IndexId r, Item *it)
{
    if (it->by->row != r) {
        lower_open_all_rows(l, loc, r);
        return;
    }
    RouteId route = lower_route_of(l, r);
    ExprId group = lower_open_groups(l, loc, r);
    open_blocks(l, loc, lower_run_start(l, route, group), lower_run_end(l, route, group), it);
    lower_bind(l, r, NONE, group);
}

static void open_tokens(Lower *l, Loc loc, IndexId t, Item *it)
{
    ExprId zero = x_int(l->k, loc, 0);
    lower_bind(l, t, NONE, NONE);
    if (it->by->row == t)
        open_blocks(l, loc, zero, lower_extent(l, t), it);
    else
        build_for(&l->b, loc, LOOP_ORDERED, t, zero, lower_extent(l, t), 1);
}

static void zero_sums(Lower *l, const Strip *y)
{
    uint32_t depth = l->b.depth;
    Loc loc = y->reader->loc;
    IndexId t = x_plain_index(l->k, y->reader->index[0]), h = x_plain_index(l->k, y->reader->index[1]);
    ExprId sum = loaded(l, y, y->reader->index[0], y->reader->index[1]);
    ExprId at[2] = {x_arg(l->k, sum, 0), x_arg(l->k, sum, 1)};
    Item it = lower_new_item(&lower_by_element, y->reader);
    open_tokens(l, loc, t, &it);
    lower_bind(l, h, NONE, NONE);
    build_for(&l->b, loc, LOOP_VECTOR, h, y->first, y->end, l->cpu->lanes);
    build_store(&l->b, loc, y->sums, at, x_float(l->k, loc, 0), 0);
    build_close(&l->b, depth);
}

static void add_rows(Lower *l, const Strip *y)
{
    uint32_t depth = l->b.depth;
    Item it = lower_new_item(y->rows, y->product);
    open_rows(l, y->product->loc, x_plain_index(l->k, y->product->index[0]), &it);
    open_columns(l, y, y->product->loc, x_plain_index(l->k, y->product->index[1]), &it);
    lower_item(l, &it);
    build_close(&l->b, depth);
}

static void store_tokens(Lower *l, const Strip *y)
{
    const Equation *q = &y->tokens->m.at[0];
    Item it = lower_new_item(y->tokens, q);
    open_tokens(l, q->loc, x_plain_index(l->k, q->index[0]), &it);
    open_columns(l, y, q->loc, x_plain_index(l->k, q->index[1]), &it);
    lower_item(l, &it);
}

/* ---- the launch ---- */

/* The product is laid over loops as it would be alone; what it stores is the sums. */
static Blocking *decide_rows(Lower *l, const Strip *y)
{
    Members one = {.at = {*y->product}, .n = 1};
    Equation term = add_row(l, y);
    one.at[0].rhs = term.rhs;
    Blocking *by = lower_decide(l, &one, y->product->lhs, NULL, x_plain_index(l->k, y->product->index[0]));
    by->m.at[0] = term;
    by->nc = y->cols;
    return by;
}

static Blocking *decide_tokens(Lower *l, const Strip *y)
{
    Members one = {.at = {finish(l, y)}, .n = 1};
    lower_unify(l, &one);
    Blocking *by = lower_decide(l, &one, y->reader->lhs, NULL, x_plain_index(l->k, one.at[0].index[0]));
    by->nc = y->cols;
    return by;
}

static Strip decide(Lower *l, const Equation *product, const Equation *reader)
{
    Kernel *k = l->k;
    Strip y = {.product = product, .reader = reader};
    const char *why = cluster_scatter(k, product, reader, &y.s);
    if (why)
        BUG(k->module->arena, "lower: a scatter of kernel %s: %s", k->name, why);
    y.cols = schedule_cols(l->c, k, product->lhs, schedule_machine(l->c, k)->align.block);
    y.var = build_index(&l->b, "v0");
    y.first = x_index(k, reader->loc, y.var);
    Extent extents[2] = {k->tensors.at[reader->lhs].axes[0].extent, ext_const(k->module, y.cols)};
    y.sums = build_buffer(&l->b, k->tensors.at[product->lhs].name, EL_F32, SPACE_THREAD, 2, extents);
    k->tensors.at[product->lhs].space = SPACE_GM; /* it is not stored */
    y.rows = decide_rows(l, &y);
    y.tokens = decide_tokens(l, &y);
    return y;
}

void lower_scatter_rows(Lower *l, const Equation *product, const Equation *reader)
{
    Kernel *k = l->k;
    Loc loc = reader->loc;
    Strip y = decide(l, product, reader);
    lower_prepare(l, y.rows->m.at[0].rhs);
    lower_prepare(l, y.tokens->m.at[0].rhs);
    lower_report_nest(l, lower_stem(l, reader), "scatter, rows", y.rows);
    lower_report_nest(l, lower_stem(l, reader), "scatter, tokens", y.tokens);
    build_launch(&l->b, loc, lower_stem(l, reader));
    IndexId column = x_plain_index(k, reader->index[1]);
    build_for(&l->b, loc, LOOP_OWNED, y.var, x_int(k, loc, 0), lower_extent(l, column), y.cols);
    ExprId end = x_min(k, x_add(k, y.first, y.cols), lower_extent(l, column));
    y.end = build_let(&l->b, loc, "v1", end);
    zero_sums(l, &y);
    add_rows(l, &y);
    store_tokens(l, &y);
}
