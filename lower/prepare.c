/* What an equation needs before its loops: counting sorts, lists of row blocks, group tables. Each is a launch of
 * its own, made once per kernel. */
#include "lower/lower.h"

/* Row indices of a sort run over all places of the row space; those that hold no row are left out. */
static ExprId rows_exist(Lower *l, const Bucket *b)
{
    Kernel *k = l->k;
    ExprId guard = NONE;
    for (uint32_t i = 0; i < b->nbound; i++)
        if (k->indices.at[b->bound[i]].axis.group != NONE) {
            ExprId slot =
                lower_field(l, lower_route_of(l, b->bound[i]), RF_slot_of, x_index(k, (Loc){0}, b->bound[i]));
            guard = x_and(k, (Loc){0}, guard, x_op2(k, (Loc){0}, OP_ge, slot, x_int(k, (Loc){0}, 0)));
        }
    return guard;
}

Extent lower_bucket_elements(Lower *l, const Bucket *b)
{
    Extent elements = ext_const(l->k->module, 1);
    for (uint32_t i = 0; i < b->nbound; i++)
        elements = ext_mul(l->k->module, elements, lower_length(l, b->bound[i]));
    return elements;
}

/* Flat numbers are 32-bit. */
void lower_check_flat(Lower *l, Extent elements)
{
    Kernel *k = l->k;
    Stmt s = tile_stmt(TILE_check, (Loc){0});
    s.report = x_extent(k, (Loc){0}, elements);
    s.limit = x_int(k, (Loc){0}, INT32_MAX);
    s.value = x_op2(k, (Loc){0}, OP_le, s.report, s.limit);
    s.status = STATUS_SIZE;
    s.text =
        arena_printf(k->module->arena, "%s: a sum by key runs over %%lld elements, more than %%lld", k->name);
    build_put(&l->b, s);
}

/* group_of[r] = e for every row of every run. */
static void make_group_table(Lower *l, RouteId route)
{
    Kernel *k = l->k;
    const Group *g = &k->module->groups.at[k->routes.at[route].group];
    Extent rows = g->rows, groups = g->groups;
    if (!l->env.group_of) {
        l->env.group_of = arena_array(k->module->arena, TensorId, k->routes.len);
        for (RouteId r = 0; r < k->routes.len; r++)
            l->env.group_of[r] = NONE;
    }
    if (l->env.group_of[route] != NONE)
        return;
    l->env.group_of[route] = build_buffer(&l->b, "group_of", EL_I32, SPACE_WORK, 1, &rows);
    Loc loc = k->routes.at[route].loc;
    IndexId e = build_index(&l->b, "e"), r = build_index(&l->b, "r");
    ExprId group = x_index(k, loc, e), row = x_index(k, loc, r);
    build_launch(&l->b, loc, "group_of");
    build_for(&l->b, loc, LOOP_PARALLEL, e, x_int(k, loc, 0), x_extent(k, loc, groups), 1);
    build_for(&l->b, loc, LOOP_ORDERED, r, lower_run_start(l, route, group), lower_run_end(l, route, group),
              1);
    build_store(&l->b, loc, l->env.group_of[route], &row, group, 0);
}

/* @ of a row that runs over a sort has no loop to tell its group. */
static void need_group_tables(Lower *l, ExprId e)
{
    if (e == NONE)
        return;
    each_below (n, l->k, e, EVERYWHERE)
        if (x_at(l->k, *n)->kind == X_GROUP)
            make_group_table(l, x_at(l->k, *n)->sym);
}

/* ---- keys that are not asked for everywhere ----
 *
 * A sort computes the conditions and keys of all elements, also of those that nobody asks for: because of an `if` or `where`
 * around the sum, or since there are no buckets. There a subscript may be outside. Such an element is in no bucket. */

static ExprId either(Kernel *k, ExprId a, ExprId b)
{
    return a == NONE || b == NONE ? (ExprId)NONE : x_op2(k, (Loc){0}, OP_or, a, b);
}

static ExprId negated(Kernel *k, ExprId c) { return x_op1(k, (Loc){0}, OP_not, c); }

/* That place s of the axis exists, unless `known` says so. */
static ExprId place_exists(Kernel *k, ExprId s, Axis axis, ExprId known)
{
    if (x_at(k, s)->kind == X_INDEX || ir_prove_range(k, s, axis, known) == PROOF_INSIDE)
        return NONE;
    ExprId end = x_extent(k, (Loc){0}, axis.extent);
    return x_and(k, (Loc){0}, x_op2(k, (Loc){0}, OP_ge, s, x_int(k, (Loc){0}, 0)),
                 x_op2(k, (Loc){0}, OP_lt, s, end));
}

/* The axis that argument a of node e is a place of; 0: none. */
static int axis_of(const Kernel *k, ExprId e, uint32_t a, Axis *axis)
{
    const Expr *x = x_at(k, e);
    if (x->kind == X_LOAD) {
        *axis = k->tensors.at[x->sym].axes[a];
        return 1;
    }
    if (x->kind != X_ROW && x->kind != X_TOKEN && x->kind != X_SLOT && x->kind != X_GROUP)
        return 0;
    const Route *r = &k->routes.at[x->sym];
    axis->group = x->kind == X_ROW ? (GroupId)NONE : r->group;
    axis->extent = x->kind != X_ROW ? k->module->groups.at[r->group].rows : a == 0 ? r->tokens : r->choices;
    return 1;
}

/* What must hold so that e, which may be NONE, can be computed, beside `known`; NONE: nothing. */
static ExprId can_compute(Kernel *k, ExprId e, ExprId known)
{
    if (e == NONE)
        return NONE;
    const Expr *x = x_at(k, e);
    Loc loc = {0};
    if (x->kind == X_IF || x_is_op(k, e, OP_and) || x_is_op(k, e, OP_or)) {
        ExprId c = x_arg(k, e, 0), not_c = negated(k, c), sides[2] = {c, not_c};
        ExprId all = can_compute(k, c, known);
        for (uint32_t a = 1; a < x_at(k, e)->nargs; a++) {
            uint32_t side = x_is_op(k, e, OP_or) || a == 2;
            ExprId then = can_compute(k, x_arg(k, e, a), x_and(k, loc, known, sides[side]));
            all = x_and(k, loc, all, either(k, sides[!side], then));
        }
        return all;
    }
    ExprId all = NONE;
    Axis axis;
    for (uint32_t a = 0; a < x_at(k, e)->nargs; a++) {
        ExprId s = x_arg(k, e, a);
        all = x_and(k, loc, all, can_compute(k, s, known));
        if (axis_of(k, e, a, &axis))
            all = x_and(k, loc, all, place_exists(k, s, axis, known));
    }
    return all;
}

ExprId lower_key_guard(Lower *l, const Bucket *b)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, b->key)->loc;
    ExprId guard = x_and(k, loc, can_compute(k, b->guard, NONE), b->guard);
    guard = x_and(k, loc, guard, can_compute(k, b->key, b->guard));
    return guard == NONE ? (ExprId)NONE : lower_expr(l, guard);
}

const Sort *lower_sort(const Lower *l, const Bucket *of)
{
    for (uint32_t i = 0; i < l->env.sorts.len; i++) {
        const Bucket *b = &l->env.sorts.at[i].of;
        if (b->key == of->key && b->guard == of->guard && ext_same(l->k->module, b->buckets, of->buckets))
            return &l->env.sorts.at[i];
    }
    return NULL;
}

static void make_sort(Lower *l, Bucket b)
{
    Sort sort = {.of = b};
    need_group_tables(l, b.key);
    need_group_tables(l, b.guard);
    Kernel *k = l->k;
    Module *m = k->module;
    Extent elements = lower_bucket_elements(l, &b), firsts = ext_add(m, b.buckets, ext_const(m, 1));
    for (uint32_t i = 0; i < b.nbound; i++)
        lower_bind(l, b.bound[i], NONE, NONE);
    sort.order = build_buffer(&l->b, "order", EL_I32, SPACE_WORK, 1, &elements);
    sort.first = build_buffer(&l->b, "first", EL_I64, SPACE_WORK, 1, &firsts);
    Loc loc = x_at(k, b.key)->loc;
    build_launch(&l->b, loc, "bucket");
    lower_check_flat(l, elements);
    Stmt s = tile_stmt(TILE_bucket, loc);
    s.buffer = sort.order;
    s.second = sort.first;
    s.guard = x_and(k, loc, rows_exist(l, &b), lower_key_guard(l, &b));
    s.value = lower_expr(l, b.key);
    s.limit = x_extent(k, loc, b.buckets);
    s.nbound = (uint8_t)b.nbound;
    for (uint32_t i = 0; i < b.nbound; i++)
        s.bound[i] = b.bound[i];
    build_put(&l->b, s);
    vec_push(m->arena, &l->env.sorts, sort);
}

/* Is the group of this row known from the loop it stands in? Rows of a counting sort have left their group. */
static int in_group_loop(Lower *l, ExprId row)
{
    if (x_at(l->k, row)->kind != X_INDEX)
        return 0;
    for (uint32_t i = 0; i < l->env.sorts.len; i++)
        for (uint32_t b = 0; b < l->env.sorts.at[i].of.nbound; b++)
            if (l->env.sorts.at[i].of.bound[b] == x_at(l->k, row)->sym)
                return 0;
    return 1;
}

void lower_prepare(Lower *l, ExprId e)
{
    Kernel *k = l->k;
    each_below (n, k, e, EVERYWHERE) {
        Bucket b;
        if (x_at(k, *n)->kind == X_REDUCE && query_bucket(k, *n, &b) && !lower_sort(l, &b))
            make_sort(l, b);
    }
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_GROUP && !in_group_loop(l, x_arg(k, *n, 0)))
            make_group_table(l, x_at(k, *n)->sym);
}
