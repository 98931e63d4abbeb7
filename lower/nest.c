/* The loops of an equation that defines elements: parallel items outside, then the rows and lanes of an item; and the
 * places of an output that hold no row. */
#include "lower/lower.h"
#include "passes/schedule.h"

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
    Extent one = ext_const(m, 1), columns = ext_const(m, pass_traits(l->c)->shared_cache ? RUN_COLUMNS : 2);
    Extent most[2] = {ext_add(m, g->rows, g->groups), columns};
    BlockList b = {.route = route, .rows = rows};
    b.list = build_buffer(&l->b, "blocks", EL_I64, SPACE_WORK, 2, most);
    b.count = build_buffer(&l->b, "nblocks", EL_I64, SPACE_WORK, 1, &one);
    Loc loc = k->routes.at[route].loc;
    build_launch(&l->b, loc, "blocks");
    Stmt s = tile_stmt(TILE_blocks, loc);
    tile_route_field(k, route, RF_START);
    tile_route_field(k, route, RF_COUNT);
    s.buffer = b.list;
    s.second = b.count;
    s.route = route;
    s.step = rows;
    s.full_first = schedule_heaviest_first(l->c, k) != 0;
    build_put(&l->b, s);
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
    out.group = build_let(&l->b, loc, "e", x_load(k, loc, b->list, at));
    at[1] = x_int(k, loc, 1);
    out.first = build_let(&l->b, loc, "r0", x_load(k, loc, b->list, at));
    ExprId end = x_min(l->k, x_add(l->k, out.first, rows), lower_run_end(l, route, out.group));
    out.end = build_let(&l->b, loc, "r1", end);
    return out;
}

/* ---- the loops of an equation ---- */

typedef struct Nest {
    IndexId lane0, row0, block, scalar0; /* variables of strip and block loops, or NONE */
    IndexId row_index;                   /* the free row index that walks over blocks, or NONE */
    int64_t block_rows;
    IndexId extra[FREE_MAX]; /* further row indices: ordered loops inside */
    uint32_t nextra;
    ExprId rows; /* NONE: rows of an item are Plan.chunk; else row0 counts items of so many */
} Nest;

/* Rows of an item where all have as many, so that each thread has as many items: not more than a chunk, nor fewer than a
 * part. */
static ExprId even_rows(Lower *l)
{
    Kernel *k = l->k;
    Loc loc = {0};
    ExprId zero = x_int(k, loc, 0), last = x_max(l->k, x_add(l->k, lower_extent(l, l->plan.row), -1), zero);
    ExprId team = x_threads(k, loc), most = x_op2(k, loc, OP_mul, team, x_int(k, loc, l->plan.chunk));
    ExprId items = x_op2(k, loc, OP_mul, team, x_add(l->k, x_op2(k, loc, OP_idiv, last, most), 1));
    ExprId rows = x_add(l->k, x_op2(k, loc, OP_idiv, last, items), 1);
    return x_max(l->k, rows, x_int(k, loc, l->plan.part));
}

static Nest plan_nest(Lower *l)
{
    const Plan *p = &l->plan;
    Nest n = {.lane0 = NONE, .row0 = NONE, .block = NONE, .scalar0 = NONE, .row_index = NONE};
    n.rows = p->even ? even_rows(l) : (ExprId)NONE;
    for (uint32_t f = 0; f < p->nfree; f++) {
        if (!lower_is_row(l, p->free[f]))
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
    n.block_rows = n.row_index == NONE ? 0 : n.row_index == p->row ? p->chunk : ROUTED_ROWS;
    return n;
}

static void open_row_blocks(Lower *l, Loc loc, Nest *n)
{
    const Plan *p = &l->plan;
    if (n->rows != NONE) {
        ExprId up = x_op2(l->k, loc, OP_add, x_add(l->k, lower_extent(l, p->row), -1), n->rows);
        build_parallel(&l->b, loc, n->row0 = build_index(&l->b, "p"), x_op2(l->k, loc, OP_idiv, up, n->rows),
                       1);
    } else if (p->row != NONE && p->row != n->row_index) {
        build_parallel(&l->b, loc, n->row0 = build_index(&l->b, "u0"), lower_extent(l, p->row), p->chunk);
    }
    if (n->row_index == NONE)
        return;
    const BlockList *b = block_list(l, lower_route_of(l, n->row_index), n->block_rows);
    ExprId zero = x_int(l->k, loc, 0);
    build_parallel(&l->b, loc, n->block = build_index(&l->b, "b"), x_load(l->k, loc, b->count, &zero), 1);
}

/* The blocks of rows, over which the last loop goes, are handed out in bands. */
static void set_band(Lower *l, const Nest *n)
{
    Stmt *rows = &l->k->tiles->stmts.at[l->b.parent[l->b.depth]];
    int64_t band = schedule_band(l->c, l->k, l->equation->lhs);
    rows->band = band > 1 ? band : 0;
    if (band > 1 && n->row_index != NONE)
        rows->buffer = block_list(l, lower_route_of(l, n->row_index), n->block_rows)->list;
}

/* The parallel loops: plain indices, then the lanes' strip, then the row block, so that neighbouring items share
 * the strip's operand. */
static void open_parallel(Lower *l, Loc loc, Nest *n)
{
    Plan *p = &l->plan;
    uint32_t scalar = NONE; /* without lanes the last plain index goes in strips */
    for (uint32_t f = 0; f < p->nfree; f++)
        if (p->lane == NONE && !lower_is_row(l, p->free[f]))
            scalar = f;
    for (uint32_t f = 0; f < p->nfree; f++)
        if (p->free[f] != p->lane && p->free[f] != p->row && f != scalar && !lower_is_row(l, p->free[f])) {
            lower_bind(l, p->free[f], NONE, NONE);
            build_parallel(&l->b, loc, p->free[f], lower_extent(l, p->free[f]), 1);
        }
    if (scalar != NONE)
        build_parallel(&l->b, loc, n->scalar0 = build_index(&l->b, "i0"), lower_extent(l, p->free[scalar]),
                       SCALAR_STRIP);
    int shared = pass_traits(l->c)->shared_cache; /* then a group's right operand stays there, not all rows */
    if (shared)
        open_row_blocks(l, loc, n);
    if (p->lane != NONE && p->lane != n->row_index) {
        if (shared && p->row != NONE && !p->panels)
            set_band(l, n);
        p->strip = p->strip ? p->strip : schedule_strip(l->c, l->k, l->equation->lhs);
        build_parallel(&l->b, loc, n->lane0 = build_index(&l->b, "v0"), lower_extent(l, p->lane), p->strip);
    }
    if (!shared)
        open_row_blocks(l, loc, n);
    if (scalar != NONE) {
        ExprId first = x_index(l->k, loc, n->scalar0), end = lower_extent(l, p->free[scalar]);
        build_for(&l->b, loc, LOOP_ORDERED, p->free[scalar], first,
                  x_min(l->k, x_add(l->k, first, SCALAR_STRIP), end), 1);
        lower_bind(l, p->free[scalar], NONE, NONE);
    }
}

/* Where a block of index i ends; of block products in a register. */
static ExprId end_of(Lower *l, Loc loc, const char *stem, ExprId next, IndexId i)
{
    ExprId end = x_min(l->k, next, lower_extent(l, i));
    return l->plan.row != NONE ? build_let(&l->b, loc, stem, end) : end;
}

/* The item's rows, which are no run of a group. */
static void open_plain_rows(Lower *l, Loc loc, const Nest *n)
{
    Plan *p = &l->plan;
    ExprId first = x_index(l->k, loc, n->row0);
    if (n->rows != NONE)
        first = build_let(&l->b, loc, "u0", x_op2(l->k, loc, OP_mul, first, n->rows));
    ExprId next = n->rows == NONE ? x_add(l->k, first, p->chunk) : x_op2(l->k, loc, OP_add, first, n->rows);
    l->item_first = first;
    l->item_end = end_of(l, loc, "u1", next, p->row);
}

/* The loops inside an item, down to the element (or the lanes and unrolled rows of it). */
static void open_inner(Lower *l, Loc loc, const Nest *n)
{
    Plan *p = &l->plan;
    RowBlock b = {NONE, NONE, NONE};
    if (n->row_index != NONE)
        b = open_block(l, loc, n->row_index, n->block, n->block_rows);
    for (uint32_t i = 0; i < n->nextra; i++)
        lower_open_all_rows(l, loc, n->extra[i]);
    if (n->row_index != NONE && n->row_index != p->lane && n->row_index != p->row) {
        build_for(&l->b, loc, LOOP_ORDERED, n->row_index, b.first, b.end, 1);
        lower_bind(l, n->row_index, NONE, b.group);
    }
    if (p->row != NONE) {
        int rows = p->row == n->row_index;
        l->item_first = b.first;
        l->item_end = b.end;
        if (!rows)
            open_plain_rows(l, loc, n);
        l->row_first = l->item_first;
        l->row_end = l->item_end;
        lower_bind(l, p->row, NONE, rows ? b.group : (ExprId)NONE);
    }
    if (p->lane == NONE)
        return;
    int rows = p->lane == n->row_index;
    l->lane_first = rows ? b.first : x_index(l->k, loc, n->lane0);
    l->lane_end = rows ? b.end : end_of(l, loc, "v1", x_add(l->k, l->lane_first, p->strip), p->lane);
    lower_bind(l, p->lane, NONE, rows ? b.group : (ExprId)NONE);
}

static void open_lanes(Lower *l, Loc loc)
{
    if (l->plan.lane != NONE)
        build_for(&l->b, loc, LOOP_VECTOR, l->plan.lane, l->lane_first, l->lane_end, l->plan.width);
}

/* ---- pad rows ---- */

/* The places of an output's row axis that hold no row are zero under `=`. */
static void zero_pads(Lower *l, const Equation *q, uint32_t axis)
{
    Kernel *k = l->k;
    IndexId r = x_at(k, q->index[axis])->sym, e = build_index(&l->b, "e");
    const Group g = k->module->groups.at[k->indices.at[r].axis.group];
    RouteId route = lower_route_of(l, r);
    Loc loc = q->loc;
    ExprId first, end;
    build_launch(&l->b, loc, "pads");
    if (g.kind == GROUP_ROWS) {
        first = lower_run_start(l, route, x_extent(k, loc, g.groups));
        end = x_extent(k, loc, g.rows);
    } else {
        ExprId group = x_index(k, loc, e);
        ExprId next = x_op2(k, loc, OP_mul, x_add(l->k, group, 1), x_extent(k, loc, g.size));
        build_parallel(&l->b, loc, e, x_extent(k, loc, g.groups), 1);
        first = lower_run_end(l, route, group);
        end = next;
    }
    build_for(&l->b, loc, LOOP_ORDERED, r, first, end, 1);
    ExprId at[MAX_RANK];
    for (uint32_t i = 0; i < q->nindex; i++) {
        at[i] = q->index[i];
        if (i == axis || x_at(k, at[i])->kind != X_INDEX)
            continue;
        IndexId j = x_at(k, at[i])->sym;
        int last = i + 1 == q->nindex;
        build_for(&l->b, loc, last ? LOOP_VECTOR : LOOP_ORDERED, j, x_int(k, loc, 0), lower_extent(l, j),
                  last ? l->cpu->lanes : 1);
    }
    int integer = elem_type(k->tensors.at[q->lhs].elem) == TY_INT;
    build_store(&l->b, loc, q->lhs, at, integer ? x_int(k, loc, 0) : x_float(k, loc, 0), 0);
}

void lower_pads(Lower *l, const Equation *q)
{
    if (q->kind != EQ_ASSIGN || l->k->tensors.at[q->lhs].role == ROLE_LOCAL)
        return;
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(l->k, q->index[i])->kind == X_INDEX && lower_is_row(l, x_at(l->k, q->index[i])->sym))
            zero_pads(l, q, i);
}

/* ---- elements ---- */

void lower_item(Lower *l, const Members *m)
{
    if (l->plan.panels) {
        lower_panels(l, m);
    } else if (l->plan.row != NONE) {
        lower_product(l, m);
    } else {
        int chains = m->n == 1 && lower_chains(l, &m->at[0]);
        open_lanes(l, m->at[0].loc);
        for (uint32_t q = 0; q < m->n; q++) {
            l->equation = &m->at[q];
            lower_sums(l, m->at[q].rhs, chains ? &m->at[q] : NULL);
            lower_store_element(l, &m->at[q], m->at[q].kind == EQ_ADD && !chains);
        }
    }
    l->done.len = 0;
}

void lower_elements(Lower *l, const Members *original)
{
    Members m = *original;
    l->equation = &original->at[original->n - 1];
    lower_unify(l, &m);
    lower_plan(l, &m, NONE);
    for (uint32_t q = 0; q < m.n; q++) {
        lower_prepare(l, m.at[q].rhs);
        lower_pads(l, &m.at[q]);
    }
    Nest n = plan_nest(l);
    if (n.row_index != NONE)
        make_block_list(l, lower_route_of(l, n.row_index), n.block_rows);
    build_launch(&l->b, m.at[0].loc, lower_stem(l, &m.at[m.n - 1]));
    open_parallel(l, m.at[0].loc, &n);
    open_inner(l, m.at[0].loc, &n);
    lower_item(l, &m);
}
