/* Slabs of a block product: operands are packed for some terms at a time, then multiplied (Note [Blocks] in
 * lower/product.c). */
#include "lower/lower.h"
#include "passes/schedule.h"

typedef struct Slab {
    const Run *run;
    IndexId index;
    ExprId lo, hi;
    ExprId anew; /* NONE or when the sums begin */
} Slab;

/* The left operand, zero where a row has no term. */
static ExprId masked(Kernel *k, ExprId value, ExprId mask)
{
    Expr x = *x_at(k, value);
    if (mask == NONE)
        return value;
    if (x.kind == X_OP && scalar_table[x.op].kind == SK_CAST)
        return x_op1(k, x.loc, (ScalarOp)x.op, masked(k, x_arg(k, value, 0), mask));
    value = x_if(k, x.loc, mask, value, x_float(k, x.loc, 0));
    return x.type == TY_BF16  ? x_op1(k, x.loc, OP_bf16, value)
           : x.type == TY_F16 ? x_op1(k, x.loc, OP_f16, value)
                              : value;
}

/* Does what is read lie along the first axis of the box? */
static int lies_along(const Kernel *k, ExprId e, IndexId first)
{
    each_below (x, k, e, EVERYWHERE) {
        uint32_t n = x_at(k, *x)->nargs;
        if (x_at(k, *x)->kind == X_LOAD && n && x_is_unit(k, x_arg(k, *x, n - 1), first))
            return 1;
    }
    return 0;
}

/* Moves do not compute: the box of an NPU's operand is computed into memory first, and then moved. elem: as it is
 * multiplied; size: of the panel. */
static void compute(Lower *l, Stmt *pack, const int64_t size[2], Elem elem)
{
    Kernel *k = l->k;
    Loc loc = pack->loc;
    const Expr *x = x_at(k, pack->value);
    uint32_t depth = l->b.depth, turned = (uint32_t)lies_along(k, pack->value, pack->bound[0]);
    if (x->kind == X_LOAD && k->tensors.at[x->sym].elem == elem)
        return;
    ExprId at[2];
    TensorId rows = build_thread(&l->b, "rows", elem, size[turned], size[!turned], LAYOUT_ROWS);
    for (uint32_t a = 0; a < 2; a++) {
        uint32_t b = a ^ turned;
        build_for(&l->b, loc, a ? LOOP_VECTOR : LOOP_ORDERED, pack->bound[b], pack->from[b], pack->to[b],
                  a ? l->cpu->lanes : 1);
        at[a] = x_difference(l->k, x_index(k, loc, pack->bound[b]), pack->from[b]);
    }
    build_store(&l->b, loc, rows, at, pack->value, 0);
    build_close(&l->b, depth);
    pack->value = x_load(k, loc, rows, at);
    build_give_back(&l->b, rows);
}

/* The type of both operands where they must be the same: bf16 if both are. */
static Elem elem_of(const Lower *l, const Together *g, ExprId left)
{
    for (uint32_t n = 0; n < g->n; n++)
        if (g->p[n].left == left &&
            (x_at(l->k, left)->type != TY_BF16 || x_at(l->k, g->p[n].right)->type != TY_BF16))
            return EL_F32;
    return EL_BF16;
}

/* The type of a panel: the operand's own one, or f32 where both must have the same type (elem_of). */
static Elem panel_elem(const Lower *l, Elem own, Elem multiplied)
{
    return pass_traits(l->c)->same_types && multiplied == EL_F32 ? EL_F32 : own;
}

/* The box that stands for an operand's rows or columns, and its terms. */
static void pack(Lower *l, Loc loc, TensorId panel, ExprId value, const Slab *s, Elem elem, int left)
{
    Kernel *k = l->k;
    IndexId along = left ? l->plan.row : l->plan.lane;
    Binding row = lower_binding(l, along);
    lower_bind(l, s->index, NONE, s->run->group);
    lower_bind(l, along, NONE, row.group);
    Stmt b = tile_stmt(TILE_pack, loc);
    b.buffer = panel;
    b.nindex = b.nbound = 2;
    b.index[0] = b.index[1] = x_int(k, loc, 0);
    b.bound[!left] = along;
    b.bound[left] = s->index;
    b.from[!left] = left ? l->part_first : l->lane_first;
    b.to[!left] = left ? l->part_end : l->lane_end;
    b.from[left] = s->lo;
    b.to[left] = s->hi;
    b.value = lower_expr(l, left ? masked(k, value, s->run->mask) : value);
    if (pass_traits(l->c)->plain_packs)
        compute(l, &b,
                left ? (int64_t[2]){l->plan.part, l->plan.depth} : (int64_t[2]){l->plan.depth, l->plan.strip},
                elem);
    build_put(&l->b, b);
}

/* sums += left * right, the operands given by their first elements; `turned`: the right one's rows are columns. */
static void multiply(Lower *l, const Product *p, ExprId left, ExprId right, int turned, const Slab *s)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, p->reduce)->loc;
    Stmt b = tile_stmt(TILE_product, loc);
    b.buffer = lower_sum_at(l, p, l->part_first, l->lane_first, b.index);
    b.nindex = k->tensors.at[b.buffer].rank;
    b.value = left;
    b.other = right;
    b.turned = (uint8_t)turned;
    b.guard = s->anew;
    b.size[0] = x_op2(k, loc, OP_sub, l->part_end, l->part_first);
    b.size[1] = x_op2(k, loc, OP_sub, l->lane_end, l->lane_first);
    b.size[2] = x_op2(k, loc, OP_sub, s->hi, s->lo);
    build_put(&l->b, b);
}

/* The last two subscripts of a load are i and j. */
static int ends_in(const Kernel *k, ExprId load, IndexId i, IndexId j)
{
    uint32_t n = x_at(k, load)->nargs;
    const Expr *x = x_at(k, x_arg(k, load, n - 2)), *y = x_at(k, x_arg(k, load, n - 1));
    return x->kind == X_INDEX && x->sym == i && y->kind == X_INDEX && y->sym == j;
}

/* Memory in rows. Of a head it is packed for all blocks of rows (Note [Kept operands]), and where sums stand in memory for
 * all terms of a slab, which are too many to be read for each few rows again. */
static int is_rows(const Lower *l, const Tensor *t)
{
    return t->layout == LAYOUT_ROWS && l->cpu->rows_read && !l->stripe && !l->plan.in_place &&
           t->space != SPACE_REG;
}

Given lower_given(Lower *l, const Product *p)
{
    Kernel *k = l->k;
    const Expr *x = x_at(k, p->right);
    IndexId depth = x_bound(k, p->reduce, x_at(k, p->reduce)->nbound - 1u), lane = l->plan.lane;
    const Tensor *t = x->kind == X_LOAD && x->nargs > 1 ? &k->tensors.at[x->sym] : NULL;
    if (pass_traits(l->c)->packs_all)
        return GIVEN_NOT;
    if (!t || t->elem != p->right_elem || (t->layout != LAYOUT_PAIRS && !is_rows(l, t)))
        return GIVEN_NOT;
    for (uint32_t a = 0; a + 2 < x->nargs; a++)
        if (query_varies(k, x_arg(k, p->right, a), depth) || query_varies(k, x_arg(k, p->right, a), lane))
            return GIVEN_NOT;
    int rows = t->layout == LAYOUT_ROWS;
    if (ends_in(k, p->right, lane, depth))
        return rows ? GIVEN_ROWS_TURNED : t->both ? GIVEN_TURNED : GIVEN_NOT;
    return !ends_in(k, p->right, depth, lane) ? GIVEN_NOT : rows ? GIVEN_ROWS : GIVEN_AS_IS;
}

/* The first element of the slab in a right operand that is given, from the slab's first term on; else NONE. */
static ExprId given_at(Lower *l, const Product *p, const Slab *s)
{
    Kernel *k = l->k;
    Given given = lower_given(l, p);
    if (given == GIVEN_NOT ||
        (given > GIVEN_ROWS_TURNED && !x_is_int(k, s->run->lo, 0))) /* panels begin at whole lines */
        return s->run->whole ? lower_kept_at(l, p, s->lo) : (ExprId)NONE;
    ExprId at[MAX_RANK], first[2] = {s->lo, l->lane_first};
    IndexId from[2] = {s->index, l->plan.lane};
    lower_bind(l, from[0], first[0], s->run->group);
    lower_bind(l, from[1], first[1], NONE);
    ExprId e = lower_expr(l, p->right);
    lower_bind(l, from[1], NONE, NONE);
    if (given != GIVEN_TURNED)
        return e;
    uint32_t n = x_at(k, e)->nargs;
    for (uint32_t a = 0; a < n; a++)
        at[a] = x_arg(k, e, a + 2 < n ? a : 2 * n - 3 - a);
    return x_load(k, x_at(k, e)->loc, tile_turned(k, x_at(k, e)->sym), at);
}

static ExprId origin(Lower *l, TensorId panel)
{
    ExprId zero[2] = {x_int(l->k, (Loc){0}, 0), x_int(l->k, (Loc){0}, 0)};
    return x_load(l->k, (Loc){0}, panel, zero);
}

/* The first element of the product's right operand, packed into a panel of its own unless it is given. */
static ExprId right_of(Lower *l, const Product *p, const Slab *s, Elem elem, TensorId *panel)
{
    ExprId given = given_at(l, p, s);
    *panel = NONE;
    if (given != NONE)
        return given;
    *panel = build_thread(&l->b, "right", panel_elem(l, p->right_elem, elem), l->plan.depth, l->plan.strip,
                          LAYOUT_PAIRS);
    pack(l, x_at(l->k, p->reduce)->loc, *panel, p->right, s, elem, 0);
    return origin(l, *panel);
}

static TensorId pack_left(Lower *l, Loc loc, const Product *p, const Slab *s, Elem elem)
{
    TensorId panel = build_thread(&l->b, "left", panel_elem(l, p->left_elem, elem), l->plan.part,
                                  l->plan.depth, LAYOUT_LINES);
    pack(l, loc, panel, p->left, s, elem, 1);
    return panel;
}

/* Rows that are too many for their left operand to stay in a cache go in parts. */
static void open_parts(Lower *l, Loc loc)
{
    if (l->plan.part == l->plan.chunk)
        return;
    IndexId part = build_index(&l->b, "part");
    build_for(&l->b, loc, LOOP_ORDERED, part, l->item_first, l->item_end, l->plan.part);
    l->part_first = x_index(l->k, loc, part);
    ExprId end = x_min(l->k, x_add(l->k, l->part_first, l->plan.part), l->item_end);
    l->part_end = build_let(&l->b, loc, "part_end", end);
}

/* The terms of one slab. Products that share a left operand find it packed; a right panel serves one product. */
static void add_slab(Lower *l, const Together *g, const Slab *s)
{
    Loc loc = x_at(l->k, g->p[0].reduce)->loc;
    uint32_t depth = l->b.depth;
    TensorId left[REDUCE_MAX], panel[REDUCE_MAX];
    ExprId right[REDUCE_MAX], rows[2] = {l->part_first, l->part_end};
    for (uint32_t n = 0; n < g->n; n++)
        right[n] = right_of(l, &g->p[n], s, elem_of(l, g, g->p[n].left), &panel[n]);
    open_parts(l, loc);
    for (uint32_t n = 0; n < g->n; n++) {
        const Product *p = &g->p[n];
        uint32_t same = 0;
        while (same < n && (g->p[same].left != p->left || g->p[same].left_elem != p->left_elem))
            same++;
        left[n] = same < n ? left[same] : pack_left(l, loc, p, s, elem_of(l, g, p->left));
        int turned = panel[n] == NONE && lower_given(l, p) == GIVEN_ROWS_TURNED;
        multiply(l, p, origin(l, left[n]), right[n], turned, s);
    }
    build_close(&l->b, depth);
    l->part_first = rows[0];
    l->part_end = rows[1];
    for (uint32_t n = 0; n < g->n; n++) {
        build_give_back(&l->b, left[n]);
        if (panel[n] != NONE)
            build_give_back(&l->b, panel[n]);
    }
}

/* Note [K shuffle]. Cores that work on one block of rows read the same left operand at the same time. With `order terms
 * shuffled` each block of columns begins at another slab, and goes on with the first one after the last:
 *     terms = (slab / 256 + v0 / 256) mod slabs * 256
 * The order of an element's additions then depends on its column, but neither on the core nor on its row, which a route
 * chooses: a token's result must not depend on other tokens. */
static ExprId shuffled(Lower *l, Loc loc, const Run *r, ExprId slab, ExprId end)
{
    Kernel *k = l->k;
    ExprId depth = x_int(k, loc, l->plan.depth);
    ExprId up = x_add(l->k, x_difference(l->k, end, r->lo), l->plan.depth - 1);
    ExprId slabs = x_op2(k, loc, OP_idiv, up, depth);
    ExprId trip = x_op2(k, loc, OP_idiv, x_difference(l->k, slab, r->lo), depth);
    ExprId column = x_op2(k, loc, OP_idiv, l->lane_first, x_int(k, loc, l->plan.strip));
    ExprId turn = x_op2(k, loc, OP_imod, x_offset(l->k, trip, column), slabs);
    return build_let(&l->b, loc, "terms", x_offset(l->k, r->lo, x_op2(k, loc, OP_mul, turn, depth)));
}

static int is_shuffled(const Lower *l)
{
    return pass_traits(l->c)->shared_cache && !l->stripe && !lower_is_row(l, l->plan.lane) &&
           schedule_shuffles(l->c, l->k);
}

/* Sums that begin anew need a first slab, of nothing if there is nothing. */
static void add_slabs(Lower *l, const Together *g, const Run *r)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, g->p[0].reduce)->loc;
    uint32_t depth = l->b.depth;
    IndexId first = build_index(&l->b, "slab");
    ExprId end = r->anew ? x_max(l->k, r->hi, x_add(l->k, r->lo, 1)) : r->hi;
    build_for(&l->b, loc, LOOP_ORDERED, first, r->lo, end, l->plan.depth);
    Slab s = {.run = r, .index = g->d->bound[g->d->nbound - 1], .lo = x_index(k, loc, first)};
    s.anew = r->anew ? x_op2(k, loc, OP_eq, s.lo, r->lo) : (ExprId)NONE;
    if (is_shuffled(l))
        s.lo = shuffled(l, loc, r, s.lo, end);
    s.hi = build_let(&l->b, loc, "end", x_min(l->k, x_add(l->k, s.lo, l->plan.depth), r->hi));
    add_slab(l, g, &s);
    build_close(&l->b, depth);
}

/* sums += new, for the part's rows and lanes; both stand in memory. */
static void add_new(Lower *l, const Product *p, const Product *new)
{
    Loc loc = x_at(l->k, p->reduce)->loc;
    uint32_t depth = l->b.depth;
    ExprId at[MAX_RANK], from[MAX_RANK];
    IndexId row = build_index(&l->b, "row");
    Binding lane = lower_binding(l, l->plan.lane);
    build_for(&l->b, loc, LOOP_ORDERED, row, l->part_first, l->part_end, 1);
    build_for(&l->b, loc, LOOP_VECTOR, l->plan.lane, l->lane_first, l->lane_end, l->plan.width);
    lower_bind(l, l->plan.lane, NONE, lane.group);
    ExprId i = x_index(l->k, loc, row), j = x_index(l->k, loc, l->plan.lane);
    TensorId to = lower_sum_at(l, p, i, j, at), sums = lower_sum_at(l, new, i, j, from);
    build_store(&l->b, loc, to, at, x_load(l->k, loc, sums, from), 1);
    lower_bind(l, l->plan.lane, lane.value, lane.group);
    build_close(&l->b, depth);
}

/* Where sums can only begin at zero (trait zero_sums): makes them in a block of their own, then adds it. */
static void add_apart(Lower *l, const Together *g, const Run *r)
{
    Together apart = {.p = arena_array(l->k->module->arena, Product, g->n), .n = g->n, .d = g->d};
    Run anew = *r;
    anew.anew = 1;
    for (uint32_t n = 0; n < g->n; n++) {
        apart.p[n] = g->p[n];
        apart.p[n].home = NULL;
        apart.p[n].partial = build_thread(&l->b, "new", EL_F32, l->plan.chunk, l->plan.strip, LAYOUT_ROWS);
    }
    add_slabs(l, &apart, &anew);
    for (uint32_t n = 0; n < g->n; n++)
        add_new(l, &g->p[n], &apart.p[n]);
    for (uint32_t n = 0; n < g->n; n++)
        build_give_back(&l->b, apart.p[n].partial);
}

void lower_slabs(Lower *l, const Together *g, const Run *r)
{
    (pass_traits(l->c)->zero_sums && !r->anew ? add_apart : add_slabs)(l, g, r);
}
