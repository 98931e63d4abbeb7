/* lower: equations become launches, loops and statements on buffers (ir/tile.h).
 *
 * requires: checks explicit, sums split (passes/split.c), classes known     gives: Kernel.tiles
 * before:  y[t, f] = bf16(sum(h) x[t, h] * w[h, f])
 * after:   launch y { parallel f0 in 0..F by 32 { parallel t0 in 0..T by 96 {
 *            for slab in 0..H by 256 { .. for h in .. { unroll u { acc[u] += x[..t + u.., h] * panel[h - slab, f - f0] } } .. }
 *            vector f in .. { for t in t0..min2(t0 + 96, T) { y[t, f] = bf16(partial[t - t0, f - f0]) } } } } }
 *
 * One launch per equation (and one for what it needs before: lower_prepare.c). All free indices but the lanes' and
 * the unrolled row's are parallel loops; a row index is a walk over the route's row blocks. */
#include "passes/lower.h"

enum { ROW_BLOCK = 64, SCALAR_STRIP = 64 };

static const char *stem_of(const Lower *l, const Equation *q)
{
    if (q->kind == EQ_CHECK)
        return "check";
    return q->kind == EQ_ROUTE ? l->k->routes.at[q->route].name : l->k->tensors.at[q->lhs].name;
}

static ExprId extent_of(Lower *l, IndexId i)
{
    return x_extent(l->k, (Loc){0}, l->k->indices.at[i].axis.extent);
}

static int is_row(const Lower *l, IndexId i) { return l->k->indices.at[i].axis.group != NONE; }

/* ---- row blocks ---- */

static BlockList *block_list(Lower *l, RouteId route, int64_t rows)
{
    for (uint32_t i = 0; i < l->blocks.len; i++)
        if (l->blocks.at[i].route == route && l->blocks.at[i].rows == rows)
            return &l->blocks.at[i];
    return NULL;
}

/* A block per started group and per `rows` rows: at most groups + rows / by of them. */
static void make_block_list(Lower *l, RouteId route, int64_t rows)
{
    Kernel *k = l->k;
    Module *m = k->module;
    if (block_list(l, route, rows))
        return;
    const Group *g = &m->groups.at[k->routes.at[route].group];
    Extent most[2] = {ext_add(m, g->rows, g->groups), ext_const(m, 2)}, one = ext_const(m, 1);
    BlockList b = {.route = route, .rows = rows};
    b.list = lower_buffer(l, "blocks", EL_I64, SPACE_WORK, 2, most);
    b.count = lower_buffer(l, "nblocks", EL_I64, SPACE_WORK, 1, &one);
    Loc loc = k->routes.at[route].loc;
    lower_launch(l, loc, "blocks");
    Stmt s = tile_stmt(TILE_blocks, loc);
    tile_route_field(k, route, RF_START);
    tile_route_field(k, route, RF_COUNT);
    s.buffer = b.list;
    s.second = b.count;
    s.route = route;
    s.step = rows;
    lower_put(l, s);
    vec_push(m->arena, &l->blocks, b);
}

/* Rows of one item: first, end and group in registers. */
typedef struct RowBlock {
    ExprId first, end, group;
} RowBlock;

static RowBlock open_block(Lower *l, Loc loc, IndexId r, IndexId block, int64_t rows)
{
    Kernel *k = l->k;
    RouteId route = lower_route_of(l, r);
    const BlockList *b = block_list(l, route, rows);
    ExprId at[2] = {x_index(k, loc, block), x_int(k, loc, 0)};
    RowBlock out;
    out.group = lower_let(l, loc, "e", x_load(k, loc, b->list, at));
    at[1] = x_int(k, loc, 1);
    out.first = lower_let(l, loc, "r0", x_load(k, loc, b->list, at));
    ExprId end = lower_min(l, lower_add(l, out.first, rows), lower_run_end(l, route, out.group));
    out.end = lower_let(l, loc, "r1", end);
    return out;
}

/* ---- the loops of an equation ---- */

typedef struct Nest {
    IndexId lane0, row0, block, scalar0; /* variables of strip and block loops, or NONE */
    IndexId row_index;                   /* the free row index that walks over blocks, or NONE */
    int64_t block_rows;
    IndexId extra[FREE_MAX];             /* further row indices: ordered loops inside */
    uint32_t nextra;
} Nest;

static void parallel(Lower *l, Loc loc, IndexId var, ExprId hi, int64_t step)
{
    lower_for(l, loc, LOOP_PARALLEL, var, x_int(l->k, loc, 0), hi, step);
}

static Nest plan_nest(Lower *l)
{
    const Plan *p = &l->plan;
    Nest n = {.lane0 = NONE, .row0 = NONE, .block = NONE, .scalar0 = NONE, .row_index = NONE};
    for (uint32_t f = 0; f < p->nfree; f++) {
        if (!is_row(l, p->free[f]))
            continue;
        /* the unrolled row or the lanes' row is the one that walks over blocks; else the first */
        int preferred = p->free[f] == p->row || p->free[f] == p->lane;
        if (n.row_index == NONE || (preferred && n.row_index != p->row)) {
            if (n.row_index != NONE)
                n.extra[n.nextra++] = n.row_index;
            n.row_index = p->free[f];
        } else {
            n.extra[n.nextra++] = p->free[f];
        }
    }
    n.block_rows = n.row_index == NONE ? 0 : n.row_index == p->row ? p->chunk : ROW_BLOCK;
    return n;
}

/* The parallel loops: plain indices, then the lanes' strip, then the row block, so that neighbouring items share
 * the strip's operand. */
static void open_parallel(Lower *l, Loc loc, Nest *n)
{
    const Plan *p = &l->plan;
    uint32_t scalar = NONE; /* without lanes the last plain index goes in strips */
    for (uint32_t f = 0; f < p->nfree; f++)
        if (p->lane == NONE && !is_row(l, p->free[f]))
            scalar = f;
    for (uint32_t f = 0; f < p->nfree; f++)
        if (p->free[f] != p->lane && p->free[f] != p->row && f != scalar && !is_row(l, p->free[f])) {
            lower_bind(l, p->free[f], NONE, NONE);
            parallel(l, loc, p->free[f], extent_of(l, p->free[f]), 1);
        }
    if (scalar != NONE)
        parallel(l, loc, n->scalar0 = lower_index(l, "i0"), extent_of(l, p->free[scalar]), SCALAR_STRIP);
    if (p->lane != NONE && p->lane != n->row_index)
        parallel(l, loc, n->lane0 = lower_index(l, "v0"), extent_of(l, p->lane), p->strip);
    if (p->row != NONE && p->row != n->row_index)
        parallel(l, loc, n->row0 = lower_index(l, "u0"), extent_of(l, p->row), p->chunk);
    if (n->row_index != NONE) {
        const BlockList *b = block_list(l, lower_route_of(l, n->row_index), n->block_rows);
        ExprId zero = x_int(l->k, loc, 0);
        parallel(l, loc, n->block = lower_index(l, "b"), x_load(l->k, loc, b->count, &zero), 1);
    }
    if (scalar != NONE) {
        ExprId first = x_index(l->k, loc, n->scalar0), end = extent_of(l, p->free[scalar]);
        lower_for(l, loc, LOOP_ORDERED, p->free[scalar], first, lower_min(l, lower_add(l, first, SCALAR_STRIP), end), 1);
        lower_bind(l, p->free[scalar], NONE, NONE);
    }
}

/* Every row of every group, for a second row index. */
static void open_all_rows(Lower *l, Loc loc, IndexId r)
{
    Kernel *k = l->k;
    RouteId route = lower_route_of(l, r);
    IndexId e = lower_index(l, "e");
    ExprId group = x_index(k, loc, e);
    Extent groups = k->module->groups.at[k->indices.at[r].axis.group].groups;
    lower_for(l, loc, LOOP_ORDERED, e, x_int(k, loc, 0), x_extent(k, loc, groups), 1);
    lower_for(l, loc, LOOP_ORDERED, r, lower_run_start(l, route, group), lower_run_end(l, route, group), 1);
    lower_bind(l, r, NONE, group);
}

/* The loops inside an item, down to the element (or the lanes and unrolled rows of it). */
static void open_inner(Lower *l, Loc loc, const Nest *n)
{
    Plan *p = &l->plan;
    RowBlock b = {NONE, NONE, NONE};
    if (n->row_index != NONE)
        b = open_block(l, loc, n->row_index, n->block, n->block_rows);
    for (uint32_t i = 0; i < n->nextra; i++)
        open_all_rows(l, loc, n->extra[i]);
    if (n->row_index != NONE && n->row_index != p->lane && n->row_index != p->row) {
        lower_for(l, loc, LOOP_ORDERED, n->row_index, b.first, b.end, 1);
        lower_bind(l, n->row_index, NONE, b.group);
    }
    if (p->row != NONE) {
        int rows = p->row == n->row_index;
        l->item_first = rows ? b.first : x_index(l->k, loc, n->row0);
        l->item_end = rows ? b.end : lower_min(l, lower_add(l, l->item_first, p->chunk), extent_of(l, p->row));
        l->row_first = l->item_first;
        l->row_end = l->item_end;
        lower_bind(l, p->row, NONE, rows ? b.group : (ExprId)NONE);
    }
    if (p->lane == NONE)
        return;
    int rows = p->lane == n->row_index;
    l->lane_first = rows ? b.first : x_index(l->k, loc, n->lane0);
    l->lane_end = rows ? b.end : lower_min(l, lower_add(l, l->lane_first, p->strip), extent_of(l, p->lane));
    lower_bind(l, p->lane, NONE, rows ? b.group : (ExprId)NONE);
}

static void open_lanes(Lower *l, Loc loc)
{
    if (l->plan.lane != NONE)
        lower_for(l, loc, LOOP_VECTOR, l->plan.lane, l->lane_first, l->lane_end, l->plan.width);
}

void lower_store_element(Lower *l, const Equation *q, int add)
{
    ExprId at[MAX_RANK];
    for (uint32_t i = 0; i < q->nindex; i++)
        at[i] = lower_expr(l, q->index[i]);
    lower_store(l, q->loc, q->lhs, at, lower_expr(l, q->rhs), add);
}

/* ---- pad rows ---- */

/* The places of an output's row axis that hold no row are zero under `=`. */
static void zero_pads(Lower *l, const Equation *q, uint32_t axis)
{
    Kernel *k = l->k;
    IndexId r = x_at(k, q->index[axis])->sym, e = lower_index(l, "e");
    const Group g = k->module->groups.at[k->indices.at[r].axis.group];
    RouteId route = lower_route_of(l, r);
    Loc loc = q->loc;
    ExprId first, end;
    lower_launch(l, loc, "pads");
    if (g.kind == GROUP_ROWS) {
        first = lower_run_start(l, route, x_extent(k, loc, g.groups));
        end = x_extent(k, loc, g.rows);
    } else {
        ExprId group = x_index(k, loc, e);
        ExprId next = x_op2(k, loc, OP_mul, lower_add(l, group, 1), x_extent(k, loc, g.size));
        parallel(l, loc, e, x_extent(k, loc, g.groups), 1);
        first = lower_run_end(l, route, group);
        end = next;
    }
    lower_for(l, loc, LOOP_ORDERED, r, first, end, 1);
    lower_bind(l, r, NONE, NONE);
    ExprId at[MAX_RANK];
    for (uint32_t i = 0; i < q->nindex; i++) {
        at[i] = q->index[i];
        if (i == axis || x_at(k, at[i])->kind != X_INDEX)
            continue;
        IndexId j = x_at(k, at[i])->sym;
        int last = i + 1 == q->nindex;
        lower_for(l, loc, last ? LOOP_VECTOR : LOOP_ORDERED, j, x_int(k, loc, 0), extent_of(l, j),
                  last ? l->cpu->lanes : 1);
        lower_bind(l, j, NONE, NONE);
    }
    int integer = elem_type(k->tensors.at[q->lhs].elem) == TY_INT;
    lower_store(l, loc, q->lhs, at, integer ? x_int(k, loc, 0) : x_float(k, loc, 0), 0);
}

static void pads_of(Lower *l, const Equation *q)
{
    if (q->kind != EQ_ASSIGN || l->k->tensors.at[q->lhs].role == ROLE_LOCAL)
        return;
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(l->k, q->index[i])->kind == X_INDEX && is_row(l, x_at(l->k, q->index[i])->sym))
            zero_pads(l, q, i);
}

/* ---- equations ---- */

static void lower_elements(Lower *l, const Equation *original)
{
    Equation unified = *original, *q = &unified;
    unified.rhs = lower_unify(l, original->rhs);
    lower_plan(l, q);
    lower_prepare(l, q->rhs);
    pads_of(l, q);
    Nest n = plan_nest(l);
    if (n.row_index != NONE)
        make_block_list(l, lower_route_of(l, n.row_index), n.block_rows);
    lower_launch(l, q->loc, stem_of(l, q));
    open_parallel(l, q->loc, &n);
    open_inner(l, q->loc, &n);
    if (l->plan.row != NONE) {
        lower_product(l, q);
    } else {
        int chains = lower_chains(l, q);
        open_lanes(l, q->loc);
        lower_sums(l, q->rhs, chains ? q : NULL);
        lower_store_element(l, q, q->kind == EQ_ADD && !chains);
    }
    l->done.len = 0;
}

static int is_scatter(const Lower *l, const Equation *q)
{
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(l->k, q->index[i])->kind != X_INDEX && x_at(l->k, q->index[i])->kind != X_INT)
            return 1;
    return 0;
}

/* An element whose target goes through a dropped row adds nothing. */
static void skip_dropped(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    for (uint32_t i = 0; i < q->nindex; i++) {
        each_below(n, k, q->index[i], EVERYWHERE)
            if (x_at(k, *n)->kind == X_ROW)
                lower_if(l, q->loc, x_op2(k, q->loc, OP_ge, lower_expr(l, *n), x_int(k, q->loc, 0)));
    }
}

/* acc[id[t], h] += x[t, h]: adds in index order. The plain last subscript is owned in strips, so that threads never
 * meet; every other index is an ordered loop inside. */
static void lower_scatter(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    Plan *p = &l->plan;
    lower_plan(l, q);
    for (uint32_t i = 0; i < q->nindex; i++)
        lower_prepare(l, q->index[i]);
    lower_prepare(l, q->rhs);
    p->row = NONE;
    p->rows = 1;
    const Expr *last = x_at(k, q->index[q->nindex - 1]);
    p->lane = last->kind == X_INDEX && !is_row(l, last->sym) && p->lane == last->sym ? last->sym : (IndexId)NONE;
    for (uint32_t i = 0; p->lane != NONE && i + 1 < q->nindex; i++)
        if (x_uses_index(k, q->index[i], p->lane))
            p->lane = NONE;
    lower_launch(l, q->loc, stem_of(l, q));
    IndexId strip = NONE;
    if (p->lane != NONE) {
        strip = lower_index(l, "v0");
        p->strip = p->width = l->cpu->lanes;
        lower_for(l, q->loc, LOOP_OWNED, strip, x_int(k, q->loc, 0), extent_of(l, p->lane), p->strip);
    }
    for (uint32_t f = 0; f < p->nfree; f++) {
        if (p->free[f] == p->lane)
            continue;
        if (is_row(l, p->free[f])) {
            open_all_rows(l, q->loc, p->free[f]);
            continue;
        }
        lower_bind(l, p->free[f], NONE, NONE);
        lower_for(l, q->loc, LOOP_ORDERED, p->free[f], x_int(k, q->loc, 0), extent_of(l, p->free[f]), 1);
    }
    if (p->lane != NONE) {
        ExprId first = x_index(k, q->loc, strip);
        lower_bind(l, p->lane, NONE, NONE);
        lower_for(l, q->loc, LOOP_VECTOR, p->lane, first,
                  lower_min(l, lower_add(l, first, p->strip), extent_of(l, p->lane)), p->width);
    }
    skip_dropped(l, q);
    lower_sums(l, q->rhs, NULL);
    lower_store_element(l, q, 1);
    l->done.len = 0;
}

/* Every place the guard and subscript of a check vary over. */
static void open_domain_of(Lower *l, Loc loc, ExprId e)
{
    Kernel *k = l->k;
    uint8_t *bound = arena_alloc(k->module->arena, k->indices.len + 1);
    each_below(n, k, e, EVERYWHERE)
        for (uint32_t b = 0; b < x_at(k, *n)->nbound; b++)
            bound[x_bound(k, *n, b)] = 1;
    each_below(n, k, e, EVERYWHERE) {
        if (x_at(k, *n)->kind != X_INDEX || bound[x_at(k, *n)->sym])
            continue;
        IndexId i = x_at(k, *n)->sym;
        if (is_row(l, i)) {
            open_all_rows(l, loc, i);
            continue;
        }
        lower_bind(l, i, NONE, NONE);
        lower_for(l, loc, LOOP_ORDERED, i, x_int(k, loc, 0), extent_of(l, i), 1);
    }
}

static void check_inside(Lower *l, Loc loc, ExprId value, int64_t lo, ExprId end, int at_entry, const char *what)
{
    Kernel *k = l->k;
    Stmt s = tile_stmt(TILE_check, loc);
    s.value = x_and(k, loc, x_op2(k, loc, OP_ge, value, x_int(k, loc, lo)), x_op2(k, loc, OP_lt, value, end));
    s.report = value;
    s.limit = end;
    s.status = at_entry ? STATUS_INDEX : STATUS_COMPUTED;
    s.text = what;
    lower_put(l, s);
}

static void lower_check(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    const Tensor *t = &k->tensors.at[q->lhs];
    Loc loc = q->loc;
    l->plan = (Plan){.lane = NONE, .row = NONE, .rows = 1};
    ExprId all = q->guard == NONE ? q->rhs : x_if(k, loc, q->guard, q->rhs, x_int(k, loc, 0));
    lower_prepare(l, all);
    lower_launch(l, loc, "check");
    open_domain_of(l, loc, all);
    ExprId parts[CONJUNCT_MAX];
    uint32_t n = x_conjuncts(k, q->guard, parts, CONJUNCT_MAX);
    for (uint32_t c = 0; c < n; c++)
        lower_if(l, loc, lower_value(l, parts[c]));
    const char *what = arena_printf(k->module->arena, "%s: subscript %u of %s is %%lld, its extent is %%lld", k->name,
                                    q->axis + 1u, t->name);
    check_inside(l, loc, lower_value(l, q->rhs), 0, x_extent(k, loc, t->axes[q->axis].extent), q->at_entry, what);
}

static void lower_top(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    Loc loc = q->loc;
    uint32_t prefix = q->nindex - 1u;
    IndexId slot = x_at(k, q->index[prefix])->sym;
    l->plan = (Plan){.lane = NONE, .row = NONE, .rows = 1};
    lower_prepare(l, q->rhs);
    lower_launch(l, loc, stem_of(l, q));
    Stmt enough = tile_stmt(TILE_check, loc);
    enough.report = extent_of(l, slot);
    enough.limit = extent_of(l, q->bound);
    enough.value = x_op2(k, loc, OP_le, enough.report, enough.limit);
    enough.status = STATUS_SIZE;
    enough.text = arena_printf(k->module->arena, "%s: top takes %%lld of only %%lld values", k->name);
    lower_put(l, enough);
    lower_launch(l, loc, stem_of(l, q));
    for (uint32_t i = 0; i < prefix; i++) {
        IndexId f = x_at(k, q->index[i])->sym;
        if (is_row(l, f))
            continue;
        lower_bind(l, f, NONE, NONE);
        parallel(l, loc, f, extent_of(l, f), 1);
    }
    for (uint32_t i = 0; i < prefix; i++)
        if (is_row(l, x_at(k, q->index[i])->sym))
            open_all_rows(l, loc, x_at(k, q->index[i])->sym);
    lower_bind(l, q->bound, NONE, NONE);
    Stmt s = tile_stmt(TILE_top, loc);
    s.buffer = q->lhs;
    s.second = q->ids;
    s.nindex = (uint8_t)prefix;
    for (uint32_t i = 0; i < prefix; i++)
        s.index[i] = lower_expr(l, q->index[i]);
    s.var = q->bound;
    s.lo = x_int(k, loc, 0);
    s.hi = extent_of(l, q->bound);
    s.value = lower_expr(l, q->rhs);
    s.limit = extent_of(l, slot);
    lower_put(l, s);
}

static int is_input(const Kernel *k, TensorId t) { return k->tensors.at[t].role == ROLE_IN; }

static void lower_route(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    Module *m = k->module;
    Loc loc = q->loc;
    const Route r = k->routes.at[q->route];
    for (RouteField f = 0; f < RF_FIELDS; f++)
        tile_route_field(k, q->route, f);
    IndexId t = lower_index(l, "t"), s = lower_index(l, "k");
    ExprId at[2] = {x_index(k, loc, t), x_index(k, loc, s)};
    lower_launch(l, loc, "check");
    lower_for(l, loc, LOOP_ORDERED, t, x_int(k, loc, 0), x_extent(k, loc, r.tokens), 1);
    lower_for(l, loc, LOOP_ORDERED, s, x_int(k, loc, 0), x_extent(k, loc, r.choices), 1);
    const char *what = arena_printf(m->arena, "%s: route %s: choice %%lld of %s is outside -1..%%lld-1", k->name, r.name,
                                    k->tensors.at[q->ids].name);
    check_inside(l, loc, x_load(k, loc, q->ids, at), -1, x_extent(k, loc, m->groups.at[r.group].groups),
                 is_input(k, q->ids), what);
    lower_launch(l, loc, stem_of(l, q));
    Stmt b = tile_stmt(TILE_route, loc);
    b.route = q->route;
    b.second = q->ids;
    lower_put(l, b);
}

static void lower_equation(Lower *l, const Equation *q)
{
    switch (q->kind) {
    case EQ_ASSIGN: lower_elements(l, q); return;
    case EQ_ADD:
        if (is_scatter(l, q))
            lower_scatter(l, q);
        else
            lower_elements(l, q);
        return;
    case EQ_TOP: lower_top(l, q); return;
    case EQ_ROUTE: lower_route(l, q); return;
    case EQ_CHECK: lower_check(l, q); return;
    }
}

/* ---- kernels ---- */

/* Rough operations of an equation: every index it runs over, a group's run counted once. */
static Extent work_of(Kernel *k, const Equation *q)
{
    Module *m = k->module;
    Extent work = ext_const(m, 1);
    if (q->rhs == NONE)
        return ext_mul(m, k->routes.at[q->route].tokens, k->routes.at[q->route].choices);
    uint8_t *counted = arena_alloc(m->arena, k->indices.len + 1);
    for (uint32_t pass = 0; pass <= q->nindex; pass++) {
        ExprId e = pass < q->nindex ? q->index[pass] : q->rhs;
        each_below(n, k, e, EVERYWHERE)
            if (x_at(k, *n)->kind == X_INDEX && !counted[x_at(k, *n)->sym]) {
                counted[x_at(k, *n)->sym] = 1;
                work = ext_mul(m, work, k->indices.at[x_at(k, *n)->sym].axis.extent);
            }
    }
    return work;
}

static void validate_routes(Lower *l)
{
    Kernel *k = l->k;
    for (RouteId r = 0; r < k->routes.len; r++) {
        if (k->routes.at[r].role != ROLE_IN)
            continue;
        lower_launch(l, k->routes.at[r].loc, "valid");
        Stmt s = tile_stmt(TILE_valid, k->routes.at[r].loc);
        tile_route_field(k, r, RF_START);
        tile_route_field(k, r, RF_COUNT);
        s.route = r;
        lower_put(l, s);
    }
}

static void lower_kernel(Kernel *k, const PassContext *c)
{
    Arena *a = k->module->arena;
    k->tiles = arena_new_of(a, TileProgram);
    k->tiles->first = NONE;
    k->tiles->work = ext_const(k->module, 0);
    Lower *l = arena_new_of(a, Lower);
    l->k = k;
    l->cpu = &cpu_table[c->isa];
    l->p = k->tiles;
    l->parent[0] = l->last[0] = NONE;
    for (TensorId t = 0; t < k->tensors.len; t++) {
        k->tensors.at[t].space = k->tensors.at[t].role == ROLE_LOCAL ? SPACE_WORK : SPACE_GM;
        k->tensors.at[t].route = NONE;
    }
    l->unroll = lower_index(l, "u");
    l->slab = NONE;
    validate_routes(l);
    uint32_t n = k->eqs.len;
    for (uint32_t i = 0; i < n; i++) {
        Equation q = k->eqs.at[i];
        k->tiles->work = ext_add(k->module, k->tiles->work, work_of(k, &q));
        lower_equation(l, &q);
    }
}

void pass_lower(Module *m, const PassContext *c)
{
    for (uint32_t i = 0; i < m->kernels.len; i++)
        lower_kernel(m->kernels.at[i], c);
}
