/* Verifies what lanes and threads may do at once.
 *
 * Note [Taint]. For each parallel or owned loop of a launch a bit travels from its variable to the loop variables
 * whose bounds depend on it, through registers and thread buffers (by what is stored in them) and through loads of
 * work space and route fields (by their subscripts): those are lists that the kernel made itself or that were
 * checked, and a block number, say, chooses rows through them. A plain parameter does not pass the bit on: nothing
 * is known about its values. A store in a parallel loop needs, in its subscripts, the bit of every loop around it.
 *
 * Note [Meeting items]. Items run in any order, without a barrier. So where a launch writes shared memory that it
 * also reads, or writes in two statements, each flat loop must keep the two accesses apart on some axis: both stay in
 * the loop's own stretch p .. p + step, or both stay in the same lo..hi and lo is read from a list at the loop's
 * variable: the rows of a group from start[g] to start[g] + count[g] at most, those of a block by N, which are N at most of
 * such rows, and the places of a bucket from first[b] to first[b + 1] do not overlap; or lo is p * n, and the range is not
 * longer than n, which is the same for all items. Or no loop has to, because on some axis their subscripts are the same for
 * all items, and differ. Else one of the two belongs into a launch of its own. */
#include "ir/tile_verify.h"

/* ---- lanes ---- */

static int stops_lanes(const Kernel *k, const Expr *x)
{
    (void)k;
    return x->kind == X_LANES;
}

int tile_has_lanes(TileVerifier *v, ExprId e)
{
    const Kernel *k = v->k;
    IndexId var = v->vector == NONE ? (IndexId)NONE : tile_at(k, v->vector)->var;
    tile_collect(v, e, stops_lanes);
    for (uint32_t i = 0; i < v->nodes.len; i++) {
        const Expr *x = x_at(k, v->nodes.at[i]);
        if ((x->kind == X_INDEX && x->sym == var) || (x->kind == X_LOAD && k->tensors.at[x->sym].lanes))
            return 1;
    }
    return 0;
}

static void verify_lane_loads(TileVerifier *v, ExprId e)
{
    const Kernel *k = v->k;
    if (v->vector == NONE)
        return;
    int64_t step = tile_at(k, v->vector)->step;
    tile_collect(v, e, stops_lanes);
    for (uint32_t i = 0; i < v->nodes.len; i++) {
        const Expr *x = x_at(k, v->nodes.at[i]);
        if (x->kind == X_LOAD && k->tensors.at[x->sym].lanes && k->tensors.at[x->sym].lanes != step)
            tile_broken(v, "%s has %u lanes in a vector loop by %lld", k->tensors.at[x->sym].name,
                        k->tensors.at[x->sym].lanes, (long long)step);
    }
}

void tile_verify_lanes(TileVerifier *v, const Stmt *s)
{
    const Tensor *t = &v->k->tensors.at[s->buffer];
    int value = tile_has_lanes(v, s->value), place = 0;
    for (uint32_t i = 0; i < s->nindex; i++)
        place |= tile_has_lanes(v, s->index[i]);
    verify_lane_loads(v, s->value);
    if (t->space == SPACE_REG) {
        if (value && !t->lanes)
            tile_broken(v, "a value with lanes is stored to %s, which has none", t->name);
        if (t->lanes && v->vector != NONE && t->lanes != tile_at(v->k, v->vector)->step)
            tile_broken(v, "%s has %u lanes in a vector loop by %lld", t->name, t->lanes,
                        (long long)tile_at(v->k, v->vector)->step);
    } else if (value && v->vector == NONE) {
        tile_broken(v, "a value with lanes is stored to %s outside a vector loop", t->name);
    } else if (value && !place) {
        tile_broken(v, "every lane stores to the same element of %s", t->name);
    }
}

/* ---- constants after unrolling ---- */

static const Stmt *loop_of(const TileVerifier *v, IndexId i)
{
    for (uint32_t l = v->loops.len; l-- > 0;)
        if (tile_at(v->k, v->loops.at[l])->var == i)
            return tile_at(v->k, v->loops.at[l]);
    return NULL;
}

/* Only these operations occur in subscripts of registers; 0: another one. */
static int constant_op(ScalarOp op, int64_t a, int64_t b, int64_t *out)
{
    if (op == OP_add || op == OP_sub)
        *out = op == OP_add ? a + b : a - b;
    else if (op == OP_mul || op == OP_neg)
        *out = op == OP_mul ? a * b : -a;
    else if (op == OP_idiv)
        *out = b > 0 ? a / b : -1;
    else
        return 0;
    return 1;
}

static int unrolled_op(TileVerifier *v, ExprId e, int64_t *lo, int64_t *hi)
{
    int64_t a[2], b[2] = {0, 0}, all[4];
    const Expr *x = x_at(v->k, e);
    if (!tile_unrolled_range(v, x_arg(v->k, e, 0), &a[0], &a[1]) ||
        (x->nargs > 1 && !tile_unrolled_range(v, x_arg(v->k, e, 1), &b[0], &b[1])))
        return 0;
    for (int i = 0; i < 4; i++) {
        int64_t l = a[i & 1], r = b[i >> 1];
        if (x->op == OP_imod)
            all[i] = i & 1 ? r - 1 : 0; /* from 0 to the divisor - 1 */
        else if (!constant_op((ScalarOp)x->op, l, r, &all[i]))
            return 0;
    }
    *lo = *hi = all[0];
    for (int i = 1; i < 4; i++) {
        *lo = all[i] < *lo ? all[i] : *lo;
        *hi = all[i] > *hi ? all[i] : *hi;
    }
    return *lo > INT32_MIN && *hi < INT32_MAX;
}

int tile_unrolled_range(TileVerifier *v, ExprId e, int64_t *lo, int64_t *hi)
{
    const Expr *x = x_at(v->k, e);
    if (x->kind == X_INT) {
        *lo = *hi = x->value.i;
        return x->value.i > INT32_MIN && x->value.i < INT32_MAX; /* no overflow in unrolled_op */
    }
    if (x->kind == X_EXTENT) {
        int constant = ext_is_const(v->k->module, x->sym, lo);
        *hi = constant ? *lo : 0;
        return constant && *lo > INT32_MIN && *lo < INT32_MAX;
    }
    if (x->kind == X_OP)
        return unrolled_op(v, e, lo, hi);
    const Stmt *loop = x->kind == X_INDEX ? loop_of(v, x->sym) : NULL;
    int64_t ignored;
    if (!loop || loop->mode != LOOP_UNROLL || !tile_unrolled_range(v, loop->lo, lo, &ignored) ||
        !tile_unrolled_range(v, loop->hi, &ignored, hi))
        return 0;
    *hi -= *hi > *lo ? 1 : 0;
    return 1;
}

/* ---- threads ---- */

/* A plain parameter: its values say nothing about who reads them. */
static int stops_taint(const Kernel *k, const Expr *x)
{
    return x->kind == X_LOAD && k->tensors.at[x->sym].space == SPACE_GM &&
           k->tensors.at[x->sym].route == NONE;
}

static uint32_t taint_of(TileVerifier *v, ExprId e)
{
    uint32_t taint = 0;
    if (e == NONE)
        return 0;
    tile_collect(v, e, stops_taint);
    for (uint32_t i = 0; i < v->nodes.len; i++) {
        const Expr *x = x_at(v->k, v->nodes.at[i]);
        if (x->kind == X_INDEX && x->sym < v->k->indices.len)
            taint |= v->index_taint[x->sym];
        else if (x->kind == X_LOAD && x->sym < v->k->tensors.len)
            taint |= v->tensor_taint[x->sym];
    }
    return taint;
}

/* Marks of one round over a launch. */
typedef struct Marking {
    uint32_t loops; /* parallel and owned loops numbered so far */
    int changed;
} Marking;

static void mark(Marking *m, uint32_t *slot, uint32_t taint)
{
    m->changed |= (*slot | taint) != *slot;
    *slot |= taint;
}

static void mark_loop(TileVerifier *v, Marking *m, const Stmt *s)
{
    int flat = tile_is_flat(s);
    uint32_t own = flat ? 1u << (m->loops++ & 31) : 0;
    if (s->var < v->k->indices.len)
        mark(m, &v->index_taint[s->var], own | taint_of(v, s->lo) | taint_of(v, s->hi));
}

/* control: the loops that the conditions around the statement depend on. */
static void mark_written(TileVerifier *v, Marking *m, const Stmt *s, uint32_t control)
{
    const Kernel *k = v->k;
    tile_each_operand (o, s)
        control |= o.role == OPERAND_VALUE ? taint_of(v, o.id) : 0;
    tile_each_operand (o, s)
        if (o.role == OPERAND_WRITTEN && o.id < k->tensors.len && space_is_private(k->tensors.at[o.id].space))
            mark(m, &v->tensor_taint[o.id], control);
}

static void mark_tree(TileVerifier *v, Marking *m, StmtId first)
{
    uint32_t control[TILE_NESTING + 2] = {0}; /* by depth */
    tile_walk (w, v->k, first) {
        control[w.depth + 1] = control[w.depth];
        if (w.s->kind == TILE_for)
            mark_loop(v, m, w.s);
        else if (w.s->kind == TILE_if)
            control[w.depth + 1] |= taint_of(v, w.s->value);
        else
            mark_written(v, m, w.s, control[w.depth]);
    }
}

void tile_mark_launch(TileVerifier *v, StmtId launch)
{
    Marking m = {.changed = 1};
    for (uint32_t i = 0; i < v->k->indices.len; i++)
        v->index_taint[i] = 0;
    for (uint32_t i = 0; i < v->k->tensors.len; i++)
        v->tensor_taint[i] = 0;
    while (m.changed) {
        m = (Marking){0};
        mark_tree(v, &m, tile_at(v->k, launch)->first);
    }
}

/* The owner's bit must reach a subscript through loop variables alone. */
static int stops_at_loads(const Kernel *k, const Expr *x)
{
    (void)k;
    return x->kind == X_LOAD;
}

static uint32_t plain_taint(TileVerifier *v, ExprId e)
{
    uint32_t taint = 0;
    tile_collect(v, e, stops_at_loads);
    for (uint32_t i = 0; i < v->nodes.len; i++)
        if (x_at(v->k, v->nodes.at[i])->kind == X_INDEX)
            taint |= v->index_taint[x_at(v->k, v->nodes.at[i])->sym];
    return taint;
}

void tile_verify_write(TileVerifier *v, TensorId buffer, const ExprId *index, uint32_t nindex)
{
    const Tensor *t = &v->k->tensors.at[buffer];
    uint32_t any = 0, plain = 0;
    if (space_is_private(t->space))
        return;
    for (uint32_t i = 0; i < nindex; i++) {
        any |= taint_of(v, index[i]);
        plain |= plain_taint(v, index[i]);
    }
    /* Under an owner, items that differ in the other parallel variables only still run at once. */
    if ((any & v->parallel) != v->parallel)
        tile_broken(v, "two items of a parallel loop may store to the same element of %s", t->name);
    if ((plain & v->owned) != v->owned)
        tile_broken(v, "the owner's variable is no subscript of %s", t->name);
}

/* ---- accesses of one launch ---- */

static int is_single(const TileBox *box, uint32_t axis)
{
    return axis + 2 < box->n || box->to[axis + 2 - box->n] == NONE;
}

/* += the elements of an axis of the box */
static void sum_length(TileVerifier *v, TileSum *s, const TileBox *box, uint32_t axis)
{
    uint32_t side = axis + 2 - box->n;
    if (is_single(box, axis)) {
        s->constant++;
        return;
    }
    tile_sum_expr(v, s, box->to[side], 1);
    tile_sum_expr(v, s, box->from[side], -1);
}

/* lo <= the axis's elements < hi + more */
static int stays_in(TileVerifier *v, const TileBox *box, uint32_t axis, ExprId lo, ExprId hi, int64_t more)
{
    TileSum below = {0}, above = {.constant = -more};
    tile_sum_expr(v, &below, lo, 1);
    tile_sum_expr(v, &below, box->index[axis], -1);
    tile_sum_expr(v, &above, box->index[axis], 1);
    tile_sum_expr(v, &above, hi, -1);
    sum_length(v, &above, box, axis);
    return tile_sum_at_most_zero(v, &below) && tile_sum_at_most_zero(v, &above);
}

static int64_t edge_of(const TileBox *box, uint32_t axis)
{
    return !box->n || axis + 2 < box->n ? 0 : box->edge[axis + 2 - box->n];
}

static uint32_t own_stretches(TileVerifier *v, const TileBox *box, uint32_t axis)
{
    uint32_t own = 0;
    for (uint32_t r = 0; r < v->ranges.len && v->ranges.at[r].flat; r++) {
        const TileRange *flat = &v->ranges.at[r];
        ExprId p = v->variable[flat->var];
        int64_t edge =
            edge_of(box, axis) > 1 ? edge_of(box, axis) : 1; /* p and p + step are where a block may end */
        if (p != NONE && tile_is_multiple(v, p, edge) && stays_in(v, box, axis, p, p, flat->step))
            own |= v->index_taint[flat->var];
    }
    return own;
}

/* Dimensions and numbers only: the same for all items. */
static int is_common(const Kernel *k, ExprId e)
{
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_INDEX || x_at(k, *n)->kind == X_LOAD)
            return 0;
    return 1;
}

/* The flat loop p of p * n when lo..hi begins there and is not longer than n. */
static uint32_t spaced_by(TileVerifier *v, ExprId start, ExprId lo, ExprId hi)
{
    const Kernel *k = v->k;
    for (uint32_t side = 0; side < 2 && x_is_op(k, start, OP_mul); side++) {
        ExprId p = x_arg(k, start, side), n = x_arg(k, start, 1 - side);
        TileSum longer = {0};
        tile_sum_expr(v, &longer, hi, 1);
        tile_sum_expr(v, &longer, lo, -1);
        tile_sum_expr(v, &longer, n, -1);
        for (uint32_t r = 0; r < v->ranges.len && v->ranges.at[r].flat; r++)
            if (p == v->variable[v->ranges.at[r].var] && is_common(k, n) && tile_sum_at_most_zero(v, &longer))
                return v->index_taint[v->ranges.at[r].var];
    }
    return 0;
}

/* Is e the group that the block whose first row is `first` belongs to, both of one list? */
static int is_group_of_block(TileVerifier *v, ExprId e, ExprId first)
{
    const Kernel *k = v->k;
    int64_t by;
    e = tile_known_value(v, e);
    return x_at(k, e)->kind == X_LOAD && x_at(k, e)->sym == x_at(k, first)->sym && x_at(k, e)->nargs == 2 &&
           x_is_int(k, x_arg(k, e, 1), 0) && tile_are_apart(v, x_arg(k, e, 0), x_arg(k, first, 0), &by) &&
           by == 0;
}

/* start[g] + count[g], less a constant, of the group that `first`, from a route or a list of blocks, begins in? */
static int ends_with_group(TileVerifier *v, ExprId hi, ExprId first)
{
    TileSum end = {0};
    int64_t by;
    tile_sum_expr(v, &end, hi, 1);
    if (end.lost || end.n != 2 || end.constant > 0 || end.at[0].atom == NONE || end.at[1].atom == NONE)
        return 0;
    const Kernel *k = v->k;
    int swap = tile_field_of(v, end.at[0].atom) != RF_start;
    ExprId start = end.at[swap].atom, count = end.at[!swap].atom;
    if (end.at[0].coef != 1 || end.at[1].coef != 1 || tile_field_of(v, start) != RF_start ||
        !tile_is_count_of(v, count, start))
        return 0;
    ExprId group = x_arg(k, start, 0);
    TensorId list = x_at(k, first)->sym, starts = x_at(k, start)->sym;
    if (tile_field_of(v, first) == RF_start)
        return list == starts && tile_are_apart(v, x_arg(k, first, 0), group, &by) && by == 0;
    return v->listed[list] == k->tensors.at[starts].route && is_group_of_block(v, group, first);
}

/* Does no other range of the list from which `first` is read begin before hi? */
static int ends_in_list(TileVerifier *v, ExprId hi, ExprId first)
{
    const Kernel *k = v->k;
    hi = tile_known_value(v, hi);
    if (x_is_op(k, hi, OP_min2))
        return ends_in_list(v, x_arg(k, hi, 0), first) || ends_in_list(v, x_arg(k, hi, 1), first);
    if (tile_field_of(v, first) == RF_start || v->rows[x_at(k, first)->sym])
        return ends_with_group(v, hi, first);
    int64_t by;
    return x_at(k, hi)->kind == X_LOAD && x_at(k, hi)->sym == x_at(k, first)->sym &&
           x_at(k, hi)->nargs == 1 && tile_are_apart(v, x_arg(k, hi, 0), x_arg(k, first, 0), &by) && by == 1;
}

/* Flat loops that choose lo..hi, from a list or by a length; see Note [Meeting items]. */
static uint32_t chosen_by(TileVerifier *v, ExprId lo, ExprId hi)
{
    TileSum start = {0}, longer = {0};
    tile_sum_expr(v, &start, lo, 1);
    ExprId atom = start.n == 1 && !start.lost ? start.at[0].atom : (ExprId)NONE;
    if (atom == NONE || start.constant || start.at[0].coef != 1)
        return 0;
    if (x_at(v->k, atom)->kind != X_LOAD)
        return spaced_by(v, atom, lo, hi);
    longer.constant = -v->rows[x_at(v->k, atom)->sym];
    tile_sum_expr(v, &longer, hi, 1);
    tile_sum_expr(v, &longer, lo, -1);
    int fits = !longer.constant || tile_sum_at_most_zero(v, &longer);
    return fits && ends_in_list(v, hi, atom) ? taint_of(v, lo) : 0;
}

static int takes_block(TileVerifier *v, TileAccess *a, uint32_t axis, ExprId lo, ExprId hi)
{
    if (lo == NONE || hi == NONE)
        return 0;
    a->block[axis] = chosen_by(v, lo, hi);
    if (!a->block[axis] || !stays_in(v, &a->box, axis, lo, hi, 0))
        return 0;
    a->lo[axis] = lo;
    a->hi[axis] = hi;
    return 1;
}

/* 0: e. 1, 2: of a maximum or minimum (op) an operand, else NONE: a loop over a part of a block goes from max2(block's, ..). */
static ExprId end_of_part(TileVerifier *v, ExprId e, ScalarOp op, uint32_t which)
{
    ExprId value = tile_known_value(v, e);
    if (!which)
        return e;
    return x_is_op(v->k, value, op) ? x_arg(v->k, value, which - 1) : (ExprId)NONE;
}

/* Where a box that begins at lo and is hi - lo long ends, or NONE. */
static ExprId end_of_box(const TileVerifier *v, const TileBox *box, uint32_t axis)
{
    ExprId length = is_single(box, axis) ? (ExprId)NONE : box->to[axis + 2 - box->n];
    int goes_to = length != NONE && x_is_op(v->k, length, OP_sub) &&
                  tile_known_value(v, x_arg(v->k, length, 1)) == tile_known_value(v, box->index[axis]);
    return goes_to ? x_arg(v->k, length, 0) : (ExprId)NONE;
}

/* The range that an axis stays in: what the box itself is, or of an ordered loop, which may go over a part of it; the outermost
 * one that a flat loop chooses. */
static void find_block(TileVerifier *v, TileAccess *a, uint32_t axis)
{
    a->lo[axis] = NONE;
    if (edge_of(&a->box, axis) == 1 &&
        takes_block(v, a, axis, a->box.index[axis], end_of_box(v, &a->box, axis)))
        return;
    for (uint32_t r = 0; edge_of(&a->box, axis) <= 1 && r < v->ranges.len; r++) {
        const TileRange *in = &v->ranges.at[r];
        if (in->flat || in->var == NONE || !tile_is_stable(v, in->lo) || !tile_is_stable(v, in->hi))
            continue;
        for (uint32_t way = 0; way < 9; way++)
            if (takes_block(v, a, axis, end_of_part(v, in->lo, OP_max2, way % 3),
                            end_of_part(v, in->hi, OP_min2, way / 3)))
                return;
    }
}

/* On this axis a stays in the block of b, which depends on a loop of `flat`. */
static int in_block_of(TileVerifier *v, const TileAccess *a, const TileAccess *b, uint32_t axis,
                       uint32_t flat)
{
    if (b->lo[axis] == NONE || !(b->block[axis] & flat))
        return 0;
    TileRanges now = v->ranges;
    v->ranges = a->ranges;
    int in = stays_in(v, &a->box, axis, b->lo[axis], b->hi[axis], 0);
    v->ranges = now;
    return in;
}

static int kept_apart(TileVerifier *v, const TileAccess *a, const TileAccess *b, uint32_t flat)
{
    for (uint32_t i = 0; i < a->box.n && i < b->box.n; i++)
        if ((a->own[i] & b->own[i] & flat) || in_block_of(v, a, b, i, flat) || in_block_of(v, b, a, i, flat))
            return 1;
    return 0;
}

/* On this axis each has one element, the same in all items, and they are a constant apart: y[i, 0] and y[j, 1]. */
static int differ(TileVerifier *v, const TileBox *a, const TileBox *b, uint32_t axis)
{
    int64_t by;
    if (!is_single(a, axis) || !is_single(b, axis) || edge_of(a, axis) || edge_of(b, axis) ||
        !is_common(v->k, a->index[axis]) || !is_common(v->k, b->index[axis]))
        return 0;
    return tile_are_apart(v, a->index[axis], b->index[axis], &by) && by != 0;
}

/* Whatever items they are of. */
static int never_meet(TileVerifier *v, const TileBox *a, const TileBox *b)
{
    for (uint32_t i = 0; i < a->n && i < b->n; i++)
        if (differ(v, a, b, i))
            return 1;
    return 0;
}

/* The items of one statement that writes whole blocks. */
static void verify_blocks_apart(TileVerifier *v, const TileAccess *a)
{
    const Kernel *k = v->k;
    for (uint32_t r = 0; r < v->ranges.len && v->ranges.at[r].flat; r++)
        if (!kept_apart(v, a, a, v->index_taint[v->ranges.at[r].var]))
            tile_broken(
                v,
                "two items of parallel loop %s may write to the same element of %s: its blocks are not "
                "known to stay in the loop's own stretch, up to multiples of %d",
                k->indices.at[v->ranges.at[r].var].name, k->tensors.at[a->box.buffer].name, LAYOUT_EDGE);
}

static void verify_pair(TileVerifier *v, const TileAccess *a, const TileAccess *b)
{
    const Kernel *k = v->k;
    const Stmt *other = tile_at(k, b->at);
    if (a->box.buffer != b->box.buffer || (!a->write && !b->write) ||
        (a->at == b->at && a->write == b->write))
        return;
    for (uint32_t r = 0; r < v->ranges.len && v->ranges.at[r].flat; r++)
        if (!kept_apart(v, a, b, v->index_taint[v->ranges.at[r].var]) && !never_meet(v, &a->box, &b->box))
            tile_broken(
                v,
                "it may %s the element of %s that the %s statement of line %u %s in another item of loop "
                "%s: a barrier must stand between them, so a launch of its own",
                a->write ? "write" : "read", k->tensors.at[a->box.buffer].name,
                tile_name((TileKind)other->kind), other->loc.line, b->write ? "writes" : "reads",
                k->indices.at[v->ranges.at[r].var].name);
}

/* A copy that outlives the loops. */
static TileRanges ranges_now(const TileVerifier *v)
{
    TileRanges copy = {0};
    for (uint32_t r = 0; r < v->ranges.len; r++)
        vec_push(v->a, &copy, v->ranges.at[r]);
    return copy;
}

void tile_verify_access(TileVerifier *v, const TileBox *box, int write)
{
    const Tensor *t = &v->k->tensors.at[box->buffer];
    if (!(v->parallel | v->owned) || !v->stores[box->buffer] || space_is_private(t->space))
        return;
    TileAccess a = {.box = *box, .at = v->at, .write = write, .ranges = ranges_now(v)};
    for (uint32_t i = 0; i < box->n; i++) {
        a.own[i] = own_stretches(v, box, i);
        find_block(v, &a, i);
    }
    if (edge_of(box, box->n - 1))
        verify_blocks_apart(v, &a);
    for (uint32_t i = 0; !v->error && i < v->accesses.len; i++)
        verify_pair(v, &a, &v->accesses.at[i]);
    vec_push(v->a, &v->accesses, a);
}
