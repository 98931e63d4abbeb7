/* Slabs of a block product: operands are packed for some terms at a time, then multiplied (Note [Blocks] in
 * lower/product.c). */
#include "lower/lower.h"
#include "passes/schedule.h"

typedef struct Slab {
    const SlabRun *run;
    IndexId index;
    ExprId lo, hi;
    ExprId init; /* NONE or when the sums begin */
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
    uint32_t depth = l->b.depth, transposed = (uint32_t)lies_along(k, pack->value, pack->bound[0]);
    if (x->kind == X_LOAD && k->tensors.at[x->sym].elem == elem)
        return;
    ExprId at[2];
    TensorId rows = build_thread(&l->b, "rows", elem, size[transposed], size[!transposed], LAYOUT_ROWS);
    for (uint32_t a = 0; a < 2; a++) {
        uint32_t b = a ^ transposed;
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
        if (g->s[n].p->left == left &&
            (x_at(l->k, left)->type != TY_BF16 || x_at(l->k, g->s[n].p->right)->type != TY_BF16))
            return EL_F32;
    return EL_BF16;
}

/* The type of a panel: the operand's own one, or f32 where both must have the same type (elem_of). */
static Elem panel_elem(const Lower *l, Elem own, Elem multiplied)
{
    return pass_traits(l->c)->same_types && multiplied == EL_F32 ? EL_F32 : own;
}

/* The box that stands for an operand's rows or columns, and its terms. */
static void pack(Lower *l, const Item *it, Loc loc, TensorId panel, ExprId value, const Slab *s, Elem elem,
                 int left)
{
    Kernel *k = l->k;
    IndexId along = left ? it->by->row : it->by->lane;
    Binding row = lower_binding(l, along);
    lower_bind(l, s->index, NONE, s->run->group);
    lower_bind(l, along, NONE, row.group);
    Stmt b = tile_stmt(TILE_pack, loc);
    b.buffer = panel;
    b.nindex = b.nbound = 2;
    b.index[0] = b.index[1] = x_int(k, loc, 0);
    b.bound[!left] = along;
    b.bound[left] = s->index;
    b.from[!left] = left ? it->part_first : it->lane_first;
    b.to[!left] = left ? it->part_end : it->lane_end;
    b.from[left] = s->lo;
    b.to[left] = s->hi;
    b.value = lower_expr(l, left ? masked(k, value, s->run->mask) : value);
    if (pass_traits(l->c)->plain_packs)
        compute(l, &b, left ? (int64_t[2]){it->by->mc, it->by->kc} : (int64_t[2]){it->by->kc, it->by->nc},
                elem);
    build_put(&l->b, b);
}

/* sums += left * right, so many terms, the operands given by their first elements; in_rows: the right one is no panel. */
static void multiply(Lower *l, const Item *it, const Sum *sum, ExprId left, ExprId right, int in_rows,
                     const Slab *s, ExprId terms)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, sum->p->reduce)->loc;
    Stmt b = tile_stmt(TILE_product, loc);
    b.buffer = lower_sum_at(l, it, sum, it->part_first, it->lane_first, b.index);
    b.nindex = k->tensors.at[b.buffer].rank;
    b.value = left;
    b.other = right;
    b.transposed = in_rows && sum->p->direct == DIRECT_ROWS_TRANSPOSED;
    b.apart = in_rows ? (uint8_t)sum->p->apart : 0;
    b.guard = sum->joins ? (ExprId)NONE : s->init;
    b.size[0] = x_op2(k, loc, OP_sub, it->part_end, it->part_first);
    b.size[1] = x_op2(k, loc, OP_sub, it->lane_end, it->lane_first);
    b.size[2] = terms;
    build_put(&l->b, b);
}

/* The first element of the slab in a right operand that is given, from the slab's first term on; else NONE. */
static ExprId direct_at(Lower *l, const Item *it, const LowerProduct *p, const Slab *s)
{
    Kernel *k = l->k;
    Direct given = p->direct;
    if (given == DIRECT_NOT ||
        (given > DIRECT_ROWS_TRANSPOSED && !x_is_int(k, s->run->lo, 0))) /* panels begin at whole lines */
        return s->run->whole ? lower_hoisted_at(l, it, p, s->lo) : (ExprId)NONE;
    ExprId at[MAX_RANK], first[2] = {s->lo, it->lane_first};
    IndexId from[2] = {s->index, it->by->lane};
    lower_bind(l, from[0], first[0], s->run->group);
    lower_bind(l, from[1], first[1], NONE);
    ExprId e = lower_expr(l, p->right);
    lower_bind(l, from[1], NONE, NONE);
    if (given != DIRECT_PANELS_TRANSPOSED)
        return e;
    uint32_t n = x_at(k, e)->nargs;
    for (uint32_t a = 0; a < n; a++)
        at[a] = x_arg(k, e, a + 2 < n ? a : 2 * n - 3 - a);
    return x_load(k, x_at(k, e)->loc, tile_transposed(k, x_at(k, e)->sym), at);
}

/* The slab's first element in a left operand that is a load. */
static ExprId left_at(Lower *l, const Item *it, ExprId load, const Slab *s)
{
    Binding row = lower_binding(l, it->by->row);
    lower_bind(l, s->index, s->lo, s->run->group);
    lower_bind(l, it->by->row, it->part_first, row.group);
    ExprId first = lower_expr(l, load);
    lower_bind(l, it->by->row, row.value, row.group);
    return first;
}

/* The first element of the slab in a left operand that is rows of the thread's memory and read as it lies, else NONE. */
static ExprId left_in_rows(Lower *l, const Item *it, const LowerProduct *p, const Slab *s)
{
    const Kernel *k = l->k;
    const Expr *x = x_at(k, p->left);
    const LocalBuffer *place = x->kind == X_LOAD ? lower_place_of(l, x->sym) : NULL;
    int64_t rows;
    if (!place || p->left_elem != EL_BF16)
        return NONE;
    const Tensor *t = &k->tensors.at[place->buffer];
    if (t->elem != EL_BF16 || t->layout != LAYOUT_ROWS || t->rank != 2 ||
        !ext_is_const(k->module, t->axes[0].extent, &rows) || rows % LAYOUT_EDGE ||
        x_plain_index(k, x_arg(k, p->left, place->row)) != it->by->row ||
        x_plain_index(k, x_arg(k, p->left, x->nargs - 1u)) != s->index)
        return NONE;
    return left_at(l, it, p->left, s);
}

static int is_lines(const Kernel *k, TensorId t) { return k->tensors.at[t].layout == LAYOUT_LINES; }

/* The buffer that has the elements of a left operand, a load that may be rounded, in lines of its terms; or NONE. */
static TensorId lines_of(const Lower *l, const Item *it, ExprId load, ScalarOp cast, const Slab *s)
{
    const Kernel *k = l->k;
    const LocalBuffer *place = load == NONE ? NULL : lower_place_of(l, x_at(k, load)->sym);
    if (!place)
        return NONE;
    if (cast == OP_COUNT && is_lines(k, place->buffer))
        return place->buffer;
    if (place->row == NONE || x_plain_index(k, x_arg(k, load, place->row)) != it->by->row)
        return NONE;
    return lower_lines_along(l, load, cast, s->index);
}

/* The same of one that is in lines already: Note [Left lines] in rowblock_decide.c. */
static ExprId left_in_lines(Lower *l, const Item *it, const LowerProduct *p, const Slab *s)
{
    Kernel *k = l->k;
    ScalarOp cast;
    ExprId load = lower_left_load(k, p->left, &cast);
    TensorId lines = lines_of(l, it, load, cast, s);
    if (lines == NONE)
        return NONE;
    ExprId first = left_at(l, it, load, s);
    ExprId term = lower_whole_lines(l, x_max(k, x_int(k, (Loc){0}, 0), x_arg(k, first, 1)), 0);
    return x_load(k, x_at(k, first)->loc, lines, (ExprId[]){x_arg(k, first, 0), term});
}

/* No more terms than lines have from this element on. */
static ExprId within_lines(Lower *l, ExprId left, ExprId terms)
{
    Kernel *k = l->k;
    Extent all = k->tensors.at[x_at(k, left)->sym].axes[1].extent;
    return x_min(k, terms, x_op2(k, (Loc){0}, OP_sub, x_extent(k, (Loc){0}, all), x_arg(k, left, 1)));
}

static ExprId origin(Lower *l, TensorId panel)
{
    ExprId zero[2] = {x_int(l->k, (Loc){0}, 0), x_int(l->k, (Loc){0}, 0)};
    return x_load(l->k, (Loc){0}, panel, zero);
}

/* The first element of the product's right operand, packed into a panel of its own unless it is given. */
static ExprId right_of(Lower *l, const Item *it, const LowerProduct *p, const Slab *s, Elem elem,
                       TensorId *panel)
{
    ExprId given = direct_at(l, it, p, s);
    *panel = NONE;
    if (given != NONE)
        return given;
    *panel = build_thread(&l->b, "right", panel_elem(l, p->right_elem, elem), it->by->kc, it->by->nc,
                          LAYOUT_PAIRS);
    pack(l, it, x_at(l->k, p->reduce)->loc, *panel, p->right, s, elem, 0);
    return origin(l, *panel);
}

static TensorId pack_left(Lower *l, const Item *it, Loc loc, const LowerProduct *p, const Slab *s, Elem elem)
{
    TensorId panel =
        build_thread(&l->b, "left", panel_elem(l, p->left_elem, elem), it->by->mc, it->by->kc, LAYOUT_LINES);
    pack(l, it, loc, panel, p->left, s, elem, 1);
    return panel;
}

/* Rows that are too many for their left operand to stay in a cache go in parts. What is a part already has no more rows: a line
 * (add_end in lower/product.c). */
static void open_parts(Lower *l, Item *it, Loc loc)
{
    const Blocking *by = it->by;
    if (by->mc == by->item_rows || it->part_first != it->first)
        return;
    IndexId part = build_index(&l->b, "part");
    build_for(&l->b, loc, LOOP_ORDERED, part, it->first, it->end, by->mc);
    it->part_first = x_index(l->k, loc, part);
    ExprId end = x_min(l->k, x_add(l->k, it->part_first, by->mc), it->end);
    it->part_end = build_let(&l->b, loc, "part_end", end);
}

/* The terms of one slab. Products that share a left operand find it packed; a right panel serves one product. */
static void add_slab(Lower *l, const Item *item, const Together *g, const Slab *s)
{
    Loc loc = x_at(l->k, g->s[0].p->reduce)->loc;
    Item it = *item;
    uint32_t depth = l->b.depth;
    TensorId left[REDUCE_MAX], panel[REDUCE_MAX];
    ExprId right[REDUCE_MAX];
    for (uint32_t n = 0; n < g->n; n++)
        right[n] = right_of(l, &it, g->s[n].p, s, elem_of(l, g, g->s[n].p->left), &panel[n]);
    open_parts(l, &it, loc);
    for (uint32_t n = 0; n < g->n; n++) {
        const LowerProduct *p = g->s[n].p;
        uint32_t same = 0;
        while (same < n && (g->s[same].p->left != p->left || g->s[same].p->left_elem != p->left_elem))
            same++;
        left[n] = same < n ? left[same] : pack_left(l, &it, loc, p, s, elem_of(l, g, p->left));
        int in_rows = panel[n] == NONE && direct_is_in_rows(p->direct);
        ExprId terms = x_op2(l->k, loc, OP_sub, s->hi, s->lo);
        multiply(l, &it, &g->s[n], origin(l, left[n]), right[n], in_rows, s, terms);
    }
    build_close(&l->b, depth);
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
static ExprId shuffled(Lower *l, const Item *it, Loc loc, const SlabRun *r, ExprId slab, ExprId end)
{
    Kernel *k = l->k;
    ExprId depth = x_int(k, loc, it->by->kc);
    ExprId up = x_add(l->k, x_difference(l->k, end, r->lo), it->by->kc - 1);
    ExprId slabs = x_op2(k, loc, OP_idiv, up, depth);
    ExprId trip = x_op2(k, loc, OP_idiv, x_difference(l->k, slab, r->lo), depth);
    ExprId column = x_op2(k, loc, OP_idiv, it->lane_first, x_int(k, loc, it->by->nc));
    ExprId turn = x_op2(k, loc, OP_imod, x_offset(l->k, trip, column), slabs);
    return build_let(&l->b, loc, "terms", x_offset(l->k, r->lo, x_op2(k, loc, OP_mul, turn, depth)));
}

static int is_shuffled(const Lower *l, const Item *it)
{
    return pass_traits(l->c)->shared_cache && !it->rowblock && !lower_is_row(l, it->by->lane) &&
           schedule_shuffles(l->c, l->k);
}

/* Sums that begin at zero need a first slab, of nothing if there is nothing. */
static void add_slabs(Lower *l, const Item *it, const Together *g, const SlabRun *r)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, g->s[0].p->reduce)->loc;
    uint32_t depth = l->b.depth;
    IndexId first = build_index(&l->b, "slab");
    ExprId end = r->init ? x_max(l->k, r->hi, x_add(l->k, r->lo, 1)) : r->hi;
    ExprId from = r->done == NONE ? r->lo : x_offset(k, r->lo, r->done);
    build_for(&l->b, loc, LOOP_ORDERED, first, from, end, it->by->kc);
    Slab s = {.run = r, .index = g->d->bound[g->d->nbound - 1], .lo = x_index(k, loc, first)};
    s.init = r->init ? x_op2(k, loc, OP_eq, s.lo, r->lo) : (ExprId)NONE;
    if (is_shuffled(l, it))
        s.lo = shuffled(l, it, loc, r, s.lo, end);
    s.hi = build_let(&l->b, loc, "end", x_min(l->k, x_add(l->k, s.lo, it->by->kc), r->hi));
    add_slab(l, it, g, &s);
    build_close(&l->b, depth);
}

/* sums += new, for the part's rows and lanes; both stand in memory. */
static void add_new(Lower *l, const Item *it, const Sum *s, const Sum *new)
{
    Loc loc = x_at(l->k, s->p->reduce)->loc;
    uint32_t depth = l->b.depth;
    ExprId at[MAX_RANK], from[MAX_RANK];
    IndexId row = build_index(&l->b, "row");
    Binding lane = lower_binding(l, it->by->lane);
    build_for(&l->b, loc, LOOP_ORDERED, row, it->part_first, it->part_end, 1);
    build_for(&l->b, loc, LOOP_VECTOR, it->by->lane, it->lane_first, it->lane_end, it->by->width);
    lower_bind(l, it->by->lane, NONE, lane.group);
    ExprId i = x_index(l->k, loc, row), j = x_index(l->k, loc, it->by->lane);
    TensorId to = lower_sum_at(l, it, s, i, j, at), sums = lower_sum_at(l, it, new, i, j, from);
    build_store(&l->b, loc, to, at, x_load(l->k, loc, sums, from), 1);
    lower_bind(l, it->by->lane, lane.value, lane.group);
    build_close(&l->b, depth);
}

/* Where sums can only begin at zero (trait zero_sums): makes them in a block of their own, then adds it. */
static void add_apart(Lower *l, const Item *it, const Together *g, const SlabRun *r)
{
    Together apart = {.s = arena_array(l->k->module->arena, Sum, g->n), .n = g->n, .d = g->d};
    SlabRun from_zero = *r;
    from_zero.init = 1;
    for (uint32_t n = 0; n < g->n; n++)
        apart.s[n] =
            (Sum){.p = g->s[n].p,
                  .partial = build_thread(&l->b, "new", EL_F32, it->by->item_rows, it->by->nc, LAYOUT_ROWS)};
    add_slabs(l, it, &apart, &from_zero);
    for (uint32_t n = 0; n < g->n; n++)
        add_new(l, it, &g->s[n], &apart.s[n]);
    for (uint32_t n = 0; n < g->n; n++)
        build_give_back(&l->b, apart.s[n].partial);
}

/* The first element of the slab in a left operand that needs no pack, else NONE. */
typedef ExprId LeftAt(Lower *l, const Item *it, const LowerProduct *p, const Slab *s);

/* All terms of a run as one slab whose operands are read where they are. */
typedef struct InPlace {
    Slab slab;
    ExprId left[REDUCE_MAX], right[REDUCE_MAX]; /* first elements, of each sum */
} InPlace;

/* 0: some must be packed. */
static int find_in_place(Lower *l, const Item *it, const Together *g, const SlabRun *r, LeftAt *left_of,
                         InPlace *out)
{
    ExprId zero = x_int(l->k, x_at(l->k, g->s[0].p->reduce)->loc, 0);
    Slab *s = &out->slab;
    if (!r->whole || r->mask != NONE)
        return 0;
    *s = (Slab){.run = r, .index = g->d->bound[g->d->nbound - 1], .lo = r->lo};
    s->init = r->init ? x_op2(l->k, x_at(l->k, zero)->loc, OP_eq, zero, zero) : (ExprId)NONE;
    for (uint32_t n = 0; n < g->n; n++) {
        const LowerProduct *p = g->s[n].p;
        out->left[n] = left_of(l, it, p, s);
        out->right[n] =
            out->left[n] == NONE || direct_is_in_rows(p->direct) ? (ExprId)NONE : direct_at(l, it, p, s);
        if (out->right[n] == NONE)
            return 0;
    }
    return 1;
}

static void multiply_in_place(Lower *l, const Item *it, const Together *g, const InPlace *x, ExprId terms)
{
    for (uint32_t n = 0; n < g->n; n++)
        multiply(l, it, &g->s[n], x->left[n], x->right[n], 0, &x->slab, terms);
}

/* Lines of the thread, or all its rows. */
static ExprId left_of_thread(Lower *l, const Item *it, const LowerProduct *p, const Slab *s)
{
    int all = it->part_first == it->first && it->part_end == it->end && cpu_can(l->cpu, CPU_LEFT_ROWS);
    ExprId lines = left_in_lines(l, it, p, s);
    return lines == NONE && all ? left_in_rows(l, it, p, s) : lines;
}

/* Whole lines of terms of all rows whose operands are all read where they are: nothing is packed, so they need no slabs. What is
 * left of the run; all of it where some operand must be packed. */
static SlabRun add_in_place(Lower *l, const Item *it, const Together *g, const SlabRun *r)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, g->s[0].p->reduce)->loc;
    SlabRun rest = *r;
    InPlace x;
    if (!find_in_place(l, it, g, r, left_of_thread, &x))
        return rest;
    ExprId terms = x_max(k, x_int(k, loc, 0), x_difference(k, r->hi, r->lo));
    for (uint32_t n = 0; n < g->n; n++)
        terms = is_lines(k, x_at(k, x.left[n])->sym) ? within_lines(l, x.left[n], terms) : terms;
    terms = lower_whole_lines(l, terms, 0);
    terms = build_let(&l->b, loc, "terms", terms);
    multiply_in_place(l, it, g, &x, terms);
    rest.lo = r->ends ? r->hi : x_offset(k, r->lo, terms);
    rest.init = 0;
    return rest;
}

/* Rows of an input, in f32, beside a panel of f32. */
static ExprId left_of_input(Lower *l, const Item *it, const LowerProduct *p, const Slab *s)
{
    const Kernel *k = l->k;
    const Expr *x = x_at(k, p->left);
    if (x->kind != X_LOAD || x->nargs < 2 || p->left_elem != EL_F32 || p->right_elem != EL_F32)
        return NONE;
    const Tensor *t = &k->tensors.at[x->sym];
    if (t->role != ROLE_IN || t->elem != EL_F32 || t->layout != LAYOUT_ROWS ||
        x_plain_index(k, x_arg(k, p->left, x->nargs - 2u)) != it->by->row ||
        x_plain_index(k, x_arg(k, p->left, x->nargs - 1u)) != s->index)
        return NONE;
    for (uint32_t a = 0; a + 2 < x->nargs; a++)
        if (x_uses_index(k, x_arg(k, p->left, a), it->by->row) ||
            x_uses_index(k, x_arg(k, p->left, a), s->index))
            return NONE;
    return left_at(l, it, p->left, s);
}

/* Note [Few columns]. A left operand in f32 that serves few columns is read where it lies: to pack it takes longer than the
 * products, as of a router's, and memory waits meanwhile. Whole lines of terms, beside panels; how many that are (`done`): none
 * of more columns, whose panels then go over packed lines. */
static SlabRun add_few_columns(Lower *l, const Item *it, const Together *g, const SlabRun *r)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, g->s[0].p->reduce)->loc;
    ExprId zero = x_int(k, loc, 0);
    SlabRun rest = *r;
    InPlace x;
    if (pass_traits(l->c)->packs_all || lower_is_row(l, it->by->lane) ||
        !find_in_place(l, it, g, r, left_of_input, &x))
        return rest;
    ExprId terms = lower_whole_lines(l, x_max(k, zero, x_difference(k, r->hi, r->lo)), 0);
    ExprId all = x_extent(k, loc, k->indices.at[it->by->lane].axis.extent);
    ExprId few = x_op2(k, loc, OP_le, all, x_int(k, loc, LEFT_IN_PLACE_COLUMNS));
    rest.done = build_let(&l->b, loc, "done", x_if(k, loc, few, terms, zero));
    uint32_t depth = l->b.depth;
    build_if(&l->b, loc, x_op2(k, loc, OP_gt, rest.done, zero));
    multiply_in_place(l, it, g, &x, rest.done);
    build_close(&l->b, depth);
    return rest;
}

static void add_run(Lower *l, const Item *it, const Together *g, const SlabRun *r)
{
    SlabRun rest = add_in_place(l, it, g, r);
    if (rest.lo == r->lo)
        rest = add_few_columns(l, it, g, r);
    if (rest.lo != rest.hi)
        (pass_traits(l->c)->zero_sums && !r->init ? add_apart : add_slabs)(l, it, g, &rest);
}

/* Is the right operand read otherwise where rows are few? Notes [Few rows] in lower/hoist.c, [Groups of many rows] in decide.c. */
static int asks_for_rows(const Item *it, const LowerProduct *p)
{
    return p->few != DIRECT_NOT && (p->hoisted || it->by->few_depth);
}

static int some_asks(const Item *it, const Together *g)
{
    for (uint32_t n = 0; n < g->n; n++)
        if (asks_for_rows(it, g->s[n].p))
            return 1;
    return 0;
}

/* Has the item few rows, or (OP_gt) many? */
static ExprId rows_are(Lower *l, const Item *it, ScalarOp which)
{
    if (it->by->rowblock)
        return lower_rows_are(l, it->by->rowblock, which);
    return x_op2(l->k, (Loc){0}, which, x_op2(l->k, (Loc){0}, OP_sub, it->end, it->first),
                 x_int(l->k, (Loc){0}, it->by->mc));
}

/* The products where they are. */
static Together when_few(const Lower *l, const Item *it, const Together *g)
{
    Together few = *g;
    few.s = arena_array(l->k->module->arena, Sum, g->n);
    for (uint32_t n = 0; n < g->n; n++) {
        LowerProduct *p = arena_new_of(l->k->module->arena, LowerProduct);
        *p = *g->s[n].p;
        if (asks_for_rows(it, p))
            p->direct = p->few;
        few.s[n] = g->s[n];
        few.s[n].p = p;
    }
    return few;
}

void lower_slabs(Lower *l, const Item *it, const Together *g, const SlabRun *r)
{
    uint32_t depth = l->b.depth;
    Loc loc = x_at(l->k, g->s[0].p->reduce)->loc;
    if (!some_asks(it, g)) {
        add_run(l, it, g, r);
        return;
    }
    Together few = when_few(l, it, g);
    Blocking by = *it->by;
    Item other = *it;
    by.kc = by.few_depth ? by.few_depth : by.kc;
    other.by = &by;
    build_if(&l->b, loc, rows_are(l, it, OP_le));
    add_run(l, &other, &few, r);
    build_close(&l->b, depth);
    build_if(&l->b, loc, rows_are(l, it, OP_gt));
    add_run(l, it, g, r);
    build_close(&l->b, depth);
}
