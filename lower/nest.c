/* The launch of equations that define elements: parallel items outside, then the rows and lanes of an item. */
#include "lower/lower.h"
#include "passes/schedule.h"

/* ---- row blocks ---- */

static BlockList *block_list(Lower *l, RouteId route, int64_t rows)
{
    for (uint32_t i = 0; i < l->env.blocks.len; i++)
        if (l->env.blocks.at[i].route == route && l->env.blocks.at[i].rows == rows)
            return &l->env.blocks.at[i];
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
    tile_route_field(k, route, RF_start);
    tile_route_field(k, route, RF_count);
    s.buffer = b.list;
    s.second = b.count;
    s.route = route;
    s.step = rows;
    s.full_first = schedule_heaviest_first(l->c, k) != 0;
    build_put(&l->b, s);
    vec_push(m->arena, &l->env.blocks, b);
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

/* How the items of a launch are handed out, and the variables of their loops. */
typedef struct Nest {
    Blocking *by;
    IndexId row_index;       /* the free row index that walks over blocks, or NONE */
    int64_t block_rows;      /* of them */
    IndexId extra[FREE_MAX]; /* further row indices: ordered loops inside */
    uint32_t nextra;
    /* The free index whose elements go one by one, in strips: a turned one, or any without lanes; or NONE. */
    uint32_t strips;
    int64_t strip;  /* elements of it */
    uint32_t inner; /* the free index that goes over a strip again: Note [Strips that stay]; or NONE */
    int64_t band;   /* blocks of rows that are handed out together, see Note [Bands] in ir/tile.h */
    ExprId rows;    /* NONE: rows of an item are Blocking.item_rows; else row0 counts items of so many */
    IndexId lane0, row0, block, strip0; /* variables of strip and block loops, or NONE */
} Nest;

/* Rows of an item where all have as many, so that each thread has as many items, of each matrix where there are several: not more
 * than a chunk, nor fewer than pay for packing the right operand. */
static ExprId even_rows(Lower *l, const Blocking *by)
{
    Kernel *k = l->k;
    Loc loc = {0};
    ExprId zero = x_int(k, loc, 0), last = x_max(k, x_add(k, lower_extent(l, by->row), -1), zero);
    ExprId team = x_threads(k, loc), most = x_op2(k, loc, OP_mul, team, x_int(k, loc, by->item_rows));
    ExprId items = x_op2(k, loc, OP_mul, team, x_add(k, x_op2(k, loc, OP_idiv, last, most), 1));
    ExprId rows = x_add(k, x_op2(k, loc, OP_idiv, last, items), 1);
    return x_max(k, rows, x_int(k, loc, by->even));
}

/* The unrolled row or the lanes' row is the one that walks over blocks; else the first row index. */
static void decide_row_index(const Lower *l, Nest *n)
{
    const Blocking *by = n->by;
    for (uint32_t f = 0; f < by->nfree; f++) {
        IndexId i = by->free[f];
        if (!lower_is_row(l, i))
            continue;
        int preferred = i == by->row || i == by->lane;
        if (n->row_index == NONE || (preferred && n->row_index != by->row)) {
            if (n->row_index != NONE)
                n->extra[n->nextra++] = n->row_index;
            n->row_index = i;
        } else {
            n->extra[n->nextra++] = i;
        }
    }
    n->block_rows = n->row_index == NONE ? 0 : n->row_index == by->row ? by->item_rows : ROUTED_ROWS;
}

/* Note [Turned]. y[f, t] = x[t, f] has lanes over t, and reads one element of each line. The lines of a few lanes stay in the
 * cache while f goes over what they hold. Those of bf16, which no instruction gathers, are packed into lines of the
 * thread's memory first: pack functions transpose in registers. */
static uint32_t turned(Lower *l, const Blocking *by, const Nest *n)
{
    const Kernel *k = l->k;
    if (by->row != NONE || by->scan != NONE || by->nc || by->lane == NONE || by->lane == n->row_index ||
        pass_traits(l->c)->long_vectors)
        return NONE;
    for (uint32_t q = 0; q < by->m.n; q++)
        each_below (e, k, by->m.at[q].rhs, X_LOAD)
            for (uint32_t f = 0; x_at(k, *e)->kind == X_LOAD && f < by->nfree; f++)
                if (!lower_is_row(l, by->free[f]) && query_stride(l->k, *e, by->lane) == STRIDE_FAR &&
                    query_stride(l->k, *e, by->free[f]) == STRIDE_ONE)
                    return f;
    return NONE;
}

/* Rows of a group are gone over inside an item. */
static int uses_rows(const Lower *l, ExprId e)
{
    each_below (n, l->k, e, EVERYWHERE)
        if (x_at(l->k, *n)->kind == X_INDEX && lower_is_row(l, x_at(l->k, *n)->sym))
            return 1;
    return 0;
}

/* Is it bf16 that is read at [.., lane, .., f], whatever is asked for, and written by nobody here? */
static int is_turned(Lower *l, const Nest *n, const Equation *q, ExprId load)
{
    Kernel *k = l->k;
    const Expr *x = x_at(k, load);
    IndexId f = n->by->free[n->strips], lane = n->by->lane;
    if (x->kind != X_LOAD || x->nargs == 0 ||
        (k->tensors.at[x->sym].elem != EL_BF16 && k->tensors.at[x->sym].elem != EL_F32) ||
        k->tensors.at[x->sym].layout != LAYOUT_ROWS || x_plain_index(k, x_arg(k, load, x->nargs - 1u)) != f ||
        !x_is_asked_for(k, q->rhs, load))
        return 0;
    uint32_t lanes = 0;
    for (uint32_t a = 0; a + 1u < x->nargs; a++) {
        int is_lane = x_plain_index(k, x_arg(k, load, a)) == lane;
        lanes += (uint32_t)is_lane;
        if (!is_lane && (x_uses_index(k, x_arg(k, load, a), lane) || x_uses_index(k, x_arg(k, load, a), f) ||
                         x_loads_any(k, x_arg(k, load, a)) || uses_rows(l, x_arg(k, load, a))))
            return 0;
    }
    for (uint32_t m = 0; m < n->by->m.n; m++)
        if (n->by->m.at[m].lhs == x->sym)
            return 0;
    return lanes == 1;
}

/* block[f - f0, lane - lane0], packed from the load. */
static ExprId pack_turned(Lower *l, Loc loc, const Nest *n, ExprId load)
{
    Kernel *k = l->k;
    IndexId f = n->by->free[n->strips], lane = n->by->lane;
    ExprId first[2] = {x_index(k, loc, n->strip0), x_index(k, loc, n->lane0)}, at[2];
    Stmt s = tile_stmt(TILE_pack, loc);
    Elem elem = k->tensors.at[x_at(k, load)->sym].elem;
    s.buffer = build_thread(&l->b, "turned", elem, n->strip, n->by->nc,
                            elem == EL_F32 ? LAYOUT_PAIRS : LAYOUT_LINES);
    s.nindex = s.nbound = 2;
    s.bound[0] = f;
    s.bound[1] = lane;
    for (int i = 0; i < 2; i++) {
        s.index[i] = x_int(k, loc, 0);
        s.from[i] = first[i];
        s.to[i] = x_min(k, x_add(k, first[i], i ? n->by->nc : n->strip), lower_extent(l, s.bound[i]));
        at[i] = x_op2(k, loc, OP_sub, x_index(k, loc, s.bound[i]), first[i]);
        lower_bind(l, s.bound[i], NONE, NONE);
    }
    s.value = lower_expr(l, load);
    build_put(&l->b, s);
    return x_load(k, loc, s.buffer, at);
}

static void pack_all_turned(Lower *l, Loc loc, const Nest *n)
{
    Kernel *k = l->k;
    Members *m = &n->by->m;
    for (uint32_t q = 0; n->by->nc <= TURNED_PACKED && q < m->n; q++) {
        Nodes below = x_below(k, m->at[q].rhs, EVERYWHERE);
        for (uint32_t i = 0; i < below.n; i++) {
            if (!is_turned(l, n, &m->at[q], below.at[i]))
                continue;
            ExprId packed = pack_turned(l, loc, n, below.at[i]);
            for (uint32_t o = q; o < m->n; o++)
                m->at[o].rhs = x_replace(k, m->at[o].rhs, below.at[i], packed);
        }
    }
}

/* Does the launch pack what it turns? */
static int packs_turned(Lower *l, const Nest *n)
{
    for (uint32_t q = 0; q < n->by->m.n; q++)
        each_below (e, l->k, n->by->m.at[q].rhs, EVERYWHERE)
            if (is_turned(l, n, &n->by->m.at[q], *e))
                return 1;
    return 0;
}

/* Is it the loop over one element after the other, which no other rule places? */
static int is_plain(const Lower *l, const Nest *n, uint32_t f)
{
    const Blocking *by = n->by;
    IndexId i = by->free[f];
    return i != by->lane && i != by->row && i != by->scan && f != n->strips && !lower_is_row(l, i);
}

/* Note [Strips that stay]. What the sums of a strip of y[t, f] = max(h) (x[t, h] + w[h, f]) read, columns of w, is the same for
 * every t. So t goes inside the strip, which stays in the second cache, and not around all of w, which does not. Where something
 * is read that differs with t as well, as of sum(j) x[t + j, f] * w[j, f], whole rows come faster from memory than parts of each. */
static uint32_t inner_of(const Lower *l, const Nest *n)
{
    const Blocking *by = n->by;
    ExprId reds[REDUCE_MAX];
    IndexId across = by->lane != NONE ? by->lane : n->strips != NONE ? by->free[n->strips] : (IndexId)NONE;
    uint32_t last = NONE, sums = 0;
    for (uint32_t f = 0; f < by->nfree; f++)
        if (is_plain(l, n, f))
            last = f;
    if (across == NONE || last == NONE || by->row != NONE || by->scan != NONE || n->row_index != NONE ||
        (by->lane != NONE && n->strips != NONE) || pass_traits(l->c)->long_vectors)
        return NONE;
    for (uint32_t q = 0; q < by->m.n; q++) {
        uint32_t count = query_reductions(l->k, by->m.at[q].rhs, reds, REDUCE_MAX);
        for (uint32_t r = 0; r < count; r++, sums++)
            if (r == REDUCE_MAX || !lower_reads_same(l->k, reds[r], across, by->free[last]))
                return NONE;
    }
    return sums ? last : (uint32_t)NONE;
}

static Nest decide_nest(Lower *l, Blocking *by)
{
    Nest n = {.by = by, .lane0 = NONE, .row0 = NONE, .block = NONE, .strip0 = NONE, .row_index = NONE};
    n.rows = by->even ? even_rows(l, by) : (ExprId)NONE;
    decide_row_index(l, &n);
    n.strips = turned(l, by, &n);
    n.strip = n.strips == NONE ? SCALAR_STRIP : TURNED_ROWS;
    for (uint32_t f = 0; f < by->nfree; f++)
        if (by->lane == NONE && by->scan == NONE && by->free[f] != by->row && !lower_is_row(l, by->free[f]))
            n.strips = f;
    n.inner = inner_of(l, &n);
    if (by->lane != NONE && by->lane != n.row_index) {
        if (pass_traits(l->c)->shared_cache && by->row != NONE && !by->panels)
            n.band = schedule_band(l->c, l->k, by->lhs);
        if (!by->nc)
            by->nc = schedule_strip(l->c, l->k, by->lhs,
                                    n.strips == NONE      ? 0
                                    : packs_turned(l, &n) ? TURNED_PACKED
                                                          : TURNED_STRIP);
    }
    return n;
}

static void open_row_blocks(Lower *l, Loc loc, Nest *n)
{
    const Blocking *by = n->by;
    if (n->rows != NONE) {
        ExprId up = x_op2(l->k, loc, OP_add, x_add(l->k, lower_extent(l, by->row), -1), n->rows);
        ExprId items = x_op2(l->k, loc, OP_idiv, up, n->rows);
        n->row0 = build_index(&l->b, "p");
        build_parallel(&l->b, loc, n->row0, lower_end_if_counted(l, by, items), 1);
    } else if (by->row != NONE && by->row != n->row_index) {
        ExprId end = lower_end_if_counted(l, by, lower_extent(l, by->row));
        n->row0 = build_index(&l->b, "u0");
        build_parallel(&l->b, loc, n->row0, end, by->item_rows);
    }
    if (n->row_index == NONE)
        return;
    const BlockList *b = block_list(l, lower_route_of(l, n->row_index), n->block_rows);
    ExprId zero = x_int(l->k, loc, 0);
    n->block = build_index(&l->b, "b");
    build_parallel(&l->b, loc, n->block, x_load(l->k, loc, b->count, &zero), 1);
}

/* The blocks of rows, over which the last loop goes, are handed out in bands. */
static void set_band(Lower *l, const Nest *n)
{
    Stmt *rows = &l->k->tiles->stmts.at[l->b.parent[l->b.depth]];
    rows->band = n->band;
    if (n->row_index != NONE)
        rows->buffer = block_list(l, lower_route_of(l, n->row_index), n->block_rows)->list;
}

static void open_plain(Lower *l, Loc loc, IndexId i)
{
    lower_bind(l, i, NONE, NONE);
    build_parallel(&l->b, loc, i, lower_extent(l, i), 1);
}

/* The parallel loops: plain indices, then the lanes' strip, then the row block, so that neighbouring items share
 * the strip's operand. */
static void open_parallel(Lower *l, Loc loc, Nest *n)
{
    const Blocking *by = n->by;
    for (uint32_t f = 0; f < by->nfree; f++)
        if (f != n->inner && is_plain(l, n, f))
            open_plain(l, loc, by->free[f]);
    if (n->strips != NONE) {
        n->strip0 = build_index(&l->b, "i0");
        build_parallel(&l->b, loc, n->strip0, lower_extent(l, by->free[n->strips]), n->strip);
    }
    int shared = pass_traits(l->c)->shared_cache; /* then a group's right operand stays there, not all rows */
    if (shared)
        open_row_blocks(l, loc, n);
    if (n->band > 1)
        set_band(l, n);
    if (by->lane != NONE && by->lane != n->row_index) {
        n->lane0 = build_index(&l->b, "v0");
        build_parallel(&l->b, loc, n->lane0, lower_extent(l, by->lane), by->nc);
    }
    if (!shared)
        open_row_blocks(l, loc, n);
    if (n->inner != NONE)
        open_plain(l, loc, by->free[n->inner]);
    if (n->strips != NONE) {
        if (by->lane != NONE)
            pack_all_turned(l, loc, n);
        IndexId i = by->free[n->strips];
        ExprId first = x_index(l->k, loc, n->strip0), end = lower_extent(l, i);
        build_for(&l->b, loc, LOOP_ORDERED, i, first, x_min(l->k, x_add(l->k, first, n->strip), end), 1);
        lower_bind(l, i, NONE, NONE);
    }
}

/* ---- inside an item ---- */

/* Where a block of index i ends; of block products in a register. */
static ExprId end_of(Lower *l, const Nest *n, Loc loc, const char *stem, ExprId next, IndexId i)
{
    ExprId end = x_min(l->k, next, lower_extent(l, i));
    return n->by->row != NONE ? build_let(&l->b, loc, stem, end) : end;
}

/* The item's rows, which are no run of a group. */
static void take_plain_rows(Lower *l, Loc loc, const Nest *n, Item *it)
{
    it->first = x_index(l->k, loc, n->row0);
    if (n->rows != NONE)
        it->first = build_let(&l->b, loc, "u0", x_op2(l->k, loc, OP_mul, it->first, n->rows));
    ExprId next = n->rows == NONE ? x_add(l->k, it->first, n->by->item_rows)
                                  : x_op2(l->k, loc, OP_add, it->first, n->rows);
    it->end = end_of(l, n, loc, "u1", next, n->by->row);
}

static void take_rows(Lower *l, Loc loc, const Nest *n, const RowBlock *b, Item *it)
{
    int run = n->by->row == n->row_index;
    it->first = b->first;
    it->end = b->end;
    if (!run)
        take_plain_rows(l, loc, n, it);
    it->row_first = it->first;
    it->row_end = it->end;
    lower_bind(l, n->by->row, NONE, run ? b->group : (ExprId)NONE);
}

static void take_lanes(Lower *l, Loc loc, const Nest *n, const RowBlock *b, Item *it)
{
    const Blocking *by = n->by;
    int run = by->lane == n->row_index;
    it->lane_first = run ? b->first : x_index(l->k, loc, n->lane0);
    it->lane_end = run ? b->end : end_of(l, n, loc, "v1", x_add(l->k, it->lane_first, by->nc), by->lane);
    lower_bind(l, by->lane, NONE, run ? b->group : (ExprId)NONE);
}

/* The loops inside an item, down to the element (or the lanes and unrolled rows of it). */
static Item open_inner(Lower *l, Loc loc, const Nest *n, const Equation *q)
{
    const Blocking *by = n->by;
    Item it = lower_new_item(by, q);
    RowBlock b = {NONE, NONE, NONE};
    if (n->row_index != NONE)
        b = open_block(l, loc, n->row_index, n->block, n->block_rows);
    for (uint32_t i = 0; i < n->nextra; i++)
        lower_open_all_rows(l, loc, n->extra[i]);
    if (n->row_index != NONE && n->row_index != by->lane && n->row_index != by->row) {
        build_for(&l->b, loc, LOOP_ORDERED, n->row_index, b.first, b.end, 1);
        lower_bind(l, n->row_index, NONE, b.group);
    }
    if (by->row != NONE)
        take_rows(l, loc, n, &b, &it);
    if (by->lane != NONE)
        take_lanes(l, loc, n, &b, &it);
    return it;
}

/* The launch of equations that are laid over loops so. */
static void launch(Lower *l, Blocking *by)
{
    static const char *const kind[] = {"elements", "elements, of many rows", "elements, of few rows"};
    const Equation *last = &by->m.at[by->m.n - 1];
    Loc loc = by->m.at[0].loc;
    Nest n = decide_nest(l, by);
    if (n.row_index != NONE)
        make_block_list(l, lower_route_of(l, n.row_index), n.block_rows);
    lower_report_nest(l, lower_stem(l, last), by->scan == NONE ? kind[by->count] : "scan", by);
    build_launch(&l->b, loc, lower_stem(l, last));
    open_parallel(l, loc, &n);
    Item it = open_inner(l, loc, &n, last);
    lower_item(l, &it);
}

void lower_elements(Lower *l, const Members *original)
{
    Members m = *original;
    TensorId lhs = m.at[m.n - 1].lhs;
    lower_unify(l, &m);
    Members guarded = m;
    lower_take_guards(l, &guarded);
    Blocking *by = lower_decide(l, &guarded, lhs, NULL, NONE);
    if (by->row == NONE || !by->nproducts)
        by = lower_decide(l, &m, lhs, NULL, NONE);
    for (uint32_t q = 0; q < m.n; q++) {
        lower_prepare(l, m.at[q].rhs);
        lower_pads(l, &m.at[q]);
    }
    if (by->many >= 0) {
        LowerProduct *in_rows = by->product;
        by->count = ROWS_MANY;
        by->product = lower_prepack(l, by);
        launch(l, by);
        by->count = ROWS_FEW;
        by->product = in_rows;
    }
    launch(l, by);
}
