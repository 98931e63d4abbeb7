/* Work of the vector unit: what is no product goes to the vector cores as far as it can.
 *
 * Note [Stages]. A nest `for row { vector f { stores } }` is cut into tiles of rows and columns that fit UB. For each, what the
 * stores read is moved into UB (boxes, or row by row where a route says which row), the vector unit computes, and the
 * results are moved out. Values that do not vary with f are read by the scalar unit on the way, those that the launch itself
 * computes for each row (a maximum, a sum) are moved in. With two slots the next tile's moves go on meanwhile. In a launch with
 * products the rows are shared out to the vector cores beside the cube core. */
#include "npu/stage.h"

#include <string.h>

int plan_is_vector(Planner *p, StmtId id)
{
    Stage g = {.p = p};
    if (!stage_open(&g, id))
        return 0;
    for (uint32_t i = 0; i < g.nstores; i++)
        if (!stage_can_store(&g, i))
            return 0;
    return stage_find_moves(&g);
}

/* ---- tiles ---- */

/* Bytes of UB for each element of a tile. */
static int64_t bytes_each(const Stage *g)
{
    int64_t n = 0, copies = g->p->copies[SPACE_UB];
    for (uint32_t i = 0; i < g->nin; i++)
        n += copies * (int64_t)elem_bytes(g->in[i].elem);
    for (uint32_t i = 0; i < g->nstores; i++)
        n += copies * (int64_t)elem_bytes(g->out[i].elem);
    return n;
}

/* As many columns as are moved well, or all of UB when there is one row. */
static void choose_tile(Stage *g)
{
    const Machine *m = g->p->m;
    int64_t most = plan_ub(g->p) / bytes_each(g), step = m->align.fragment;
    g->cols = g->row == NONE ? most / step * step : m->align.block;
    while (g->cols > most && g->cols > step)
        g->cols /= 2;
    if (g->cols > VECTOR_BLOCKS * m->align.block)
        g->cols = VECTOR_BLOCKS * m->align.block;
    if (g->cols < step)
        g->cols = step;
    g->rows = 1;
    while (g->row != NONE && 2 * g->rows * g->cols <= most && g->rows < m->blocks.rows)
        g->rows *= 2;
}

static TensorId take_buffer(Stage *g, const char *stem, const Staged *s)
{
    int64_t rows = s->shape == SHAPE_BOX || s->shape == SHAPE_ROWS ? g->rows : 1, cols = g->cols;
    if (s->shape == SHAPE_VALUES)
        cols = g->rows > g->p->m->align.fragment ? g->rows : g->p->m->align.fragment;
    uint32_t i = plan_chip(g->p, g->vector.loc, stem, SPACE_UB, s->elem, rows, cols, NONE);
    return g->p->chips.at[i].buffer;
}

static void take_buffers(Stage *g)
{
    for (uint32_t i = 0; i < g->nin; i++)
        g->in[i].buffer = take_buffer(g, "in", &g->in[i]);
    for (uint32_t i = 0; i < g->nstores; i++)
        g->out[i].buffer = take_buffer(g, PLAN_OUT, &g->out[i]);
}

/* ---- statements ---- */

static ExprId zero(const Stage *g) { return x_int(g->p->k, (Loc){0}, 0); }

static ExprId minus(Stage *g, ExprId a, ExprId b) { return x_difference(g->p->k, a, b); }

/* The element of a buffer of the tile at the loops' row and column. */
static void place_in_tile(Stage *g, const Staged *s, ExprId *index)
{
    Kernel *k = g->p->k;
    ExprId row = g->row == NONE ? zero(g) : minus(g, x_index(k, (Loc){0}, g->row), g->r0);
    index[0] = g->slot;
    index[1] = s->shape == SHAPE_BOX || s->shape == SHAPE_ROWS ? row : zero(g);
    index[2] = s->shape == SHAPE_VALUES ? row : minus(g, x_index(k, (Loc){0}, g->col), g->f0);
}

static ExprId load_in_tile(Stage *g, const Staged *s)
{
    ExprId index[3];
    place_in_tile(g, s, index);
    return x_load(g->p->k, (Loc){0}, s->buffer, index);
}

static void move_in(Stage *g, const Staged *s)
{
    Planner *p = g->p;
    Kernel *k = p->k;
    Loc loc = g->vector.loc;
    uint32_t depth = p->b.depth;
    int box = s->shape == SHAPE_BOX, values = s->shape == SHAPE_VALUES;
    ExprId row = zero(g);
    if (s->shape == SHAPE_ROWS) {
        build_for(&p->b, loc, LOOP_ORDERED, g->row, g->r0, g->r1, 1);
        row = minus(g, x_index(k, loc, g->row), g->r0);
    }
    Stmt m = plan_box(loc, s->buffer, box ? g->row : build_index(&p->b, "one"), box ? g->r0 : zero(g),
                      box ? g->r1 : x_int(k, loc, 1), values ? g->row : g->col, values ? g->r0 : g->f0,
                      values ? g->r1 : g->f1);
    m.nindex = 3;
    m.index[0] = g->slot;
    m.index[1] = row;
    m.index[2] = zero(g);
    m.value = s->load;
    build_put(&p->b, m);
    build_close(&p->b, depth);
}

static void move_out(Stage *g, const Staged *s)
{
    Planner *p = g->p;
    Kernel *k = p->k;
    Loc loc = g->vector.loc;
    const Stmt *store = &g->stores[s->store];
    uint32_t depth = p->b.depth;
    int rows = s->shape == SHAPE_ROWS, box = s->shape == SHAPE_BOX;
    IndexId from[2] = {g->col, g->row};
    ExprId to[2] = {g->f0, g->r0};
    if (rows)
        build_for(&p->b, loc, LOOP_ORDERED, g->row, g->r0, g->r1, 1);
    IndexId row = build_index(&p->b, "row"), column = build_index(&p->b, "column");
    Stmt m = plan_box(loc, store->buffer, row, zero(g), box ? minus(g, g->r1, g->r0) : x_int(k, loc, 1),
                      column, zero(g), minus(g, g->f1, g->f0));
    ExprId at[3] = {g->slot, rows ? minus(g, x_index(k, loc, g->row), g->r0) : x_index(k, loc, row),
                    x_index(k, loc, column)};
    m.nindex = store->nindex;
    for (uint32_t a = 0; a < store->nindex; a++)
        m.index[a] = x_substitute(k, store->index[a], from, to, box ? 2 : 1);
    m.value = x_load(k, loc, s->buffer, at);
    build_put(&p->b, m);
    build_close(&p->b, depth);
}

static void compute(Stage *g)
{
    Planner *p = g->p;
    Kernel *k = p->k;
    Loc loc = g->vector.loc;
    uint32_t depth = p->b.depth;
    if (g->row != NONE)
        build_for(&p->b, loc, LOOP_ORDERED, g->row, g->r0, g->r1, 1);
    build_for(&p->b, loc, LOOP_VECTOR, g->col, g->f0, g->f1, g->vector.step);
    for (uint32_t s = 0; s < g->nstores; s++) {
        ExprId value = g->values[s], index[3];
        for (uint32_t i = 0; i < s; i++) {
            ExprId stored = x_load(k, loc, g->stores[i].buffer, g->stores[i].index);
            if (stage_stored_before(g, stored, s) == i)
                value = x_replace(k, value, stored, load_in_tile(g, &g->out[i]));
        }
        for (uint32_t i = 0; i < g->nin; i++)
            value = x_replace(k, value, g->in[i].load, load_in_tile(g, &g->in[i]));
        place_in_tile(g, &g->out[s], index);
        build_store(&p->b, g->stores[s].loc, g->out[s].buffer, index, value, 0);
    }
    build_close(&p->b, depth);
}

static void flags(Stage *g, TileKind kind, Unit unit, Unit other, const Staged *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        plan_flag(g->p, g->vector.loc, kind, unit, other, s[i].buffer, g->slot);
}

static void tile(Stage *g)
{
    for (uint32_t i = 0; i < g->nin; i++) {
        flags(g, TILE_wait, UNIT_vector, UNIT_mte2, &g->in[i], 1);
        move_in(g, &g->in[i]);
        flags(g, TILE_set, UNIT_mte2, UNIT_vector, &g->in[i], 1);
    }
    flags(g, TILE_wait, UNIT_mte2, UNIT_vector, g->in, g->nin);
    flags(g, TILE_wait, UNIT_mte3, UNIT_vector, g->out, g->nstores);
    compute(g);
    flags(g, TILE_set, UNIT_vector, UNIT_mte2, g->in, g->nin);
    flags(g, TILE_set, UNIT_vector, UNIT_mte3, g->out, g->nstores);
    for (uint32_t i = 0; i < g->nstores; i++) {
        flags(g, TILE_wait, UNIT_vector, UNIT_mte3, &g->out[i], 1);
        move_out(g, &g->out[i]);
        flags(g, TILE_set, UNIT_mte3, UNIT_vector, &g->out[i], 1);
    }
}

/* A loop over tiles of an axis; its begin and end. */
static void open_tiles(Stage *g, const char *stem, ExprId lo, ExprId hi, int64_t by, ExprId *from, ExprId *to)
{
    Planner *p = g->p;
    Loc loc = g->vector.loc;
    IndexId i = build_index(&p->b, stem);
    build_for(&p->b, loc, LOOP_ORDERED, i, lo, hi, by);
    *from = x_index(p->k, loc, i);
    *to = build_let(&p->b, loc, "end", x_min(p->k, x_add(p->k, *from, by), hi));
}

static ExprId slot_of(Stage *g, ExprId from, ExprId lo, int64_t by)
{
    Kernel *k = g->p->k;
    Loc loc = g->vector.loc;
    int64_t copies = g->p->copies[SPACE_UB];
    if (copies == 1)
        return zero(g);
    ExprId trip = x_op2(k, loc, OP_idiv, minus(g, from, lo), x_int(k, loc, by));
    return build_let(&g->p->b, loc, "slot", x_op2(k, loc, OP_imod, trip, x_int(k, loc, copies)));
}

void plan_share(Planner *p, Loc loc, ExprId core, int64_t by, ExprId *first, ExprId *last)
{
    Kernel *k = p->k;
    int64_t n = by * p->m->cores.vector / p->m->cores.cube;
    ExprId up = x_add(p->k, x_difference(p->k, *last, *first), n - 1);
    ExprId each = x_op2(k, loc, OP_idiv, up, x_int(k, loc, n));
    if (by > 1)
        each = x_op2(k, loc, OP_mul, each, x_int(k, loc, by));
    each = build_let(&p->b, loc, "each", each);
    ExprId from = x_op2(k, loc, OP_add, *first, x_op2(k, loc, OP_mul, core, each));
    *first =
        build_let(&p->b, loc, "first", x_max(p->k, *first, from)); /* what is checked needs the maximum */
    *last = build_let(&p->b, loc, "last", x_min(p->k, x_op2(k, loc, OP_add, *first, each), *last));
}

void plan_vector(Planner *p, StmtId id, ExprId core)
{
    Stage g = {.p = p};
    uint32_t depth = p->b.depth;
    stage_open(&g, id);
    stage_find_moves(&g);
    choose_tile(&g);
    take_buffers(&g);
    if (core != NONE && g.row != NONE)
        plan_share(p, g.vector.loc, core, 1, &g.first, &g.last);
    else if (core != NONE) /* of one row a stretch that moves well */
        plan_share(p, g.vector.loc, core, p->m->align.block, &g.lo, &g.hi);
    open_tiles(&g, "f0", g.lo, g.hi, g.cols, &g.f0, &g.f1);
    if (g.row != NONE) {
        open_tiles(&g, "t0", g.first, g.last, g.rows, &g.r0, &g.r1);
        g.slot = slot_of(&g, g.r0, g.first, g.rows);
    } else {
        g.r0 = g.first;
        g.r1 = g.last;
        g.slot = slot_of(&g, g.f0, g.lo, g.cols);
    }
    tile(&g);
    build_close(&p->b, depth);
}

uint32_t plan_vector_reads(Planner *p, StmtId id, TensorId *out, uint32_t max)
{
    Stage g = {.p = p};
    uint32_t n = 0;
    stage_open(&g, id);
    stage_find_moves(&g);
    for (uint32_t i = 0; i < g.nin; i++) {
        TensorId t = x_at(p->k, g.in[i].load)->sym;
        if (plan_is_handed_over(p, t) || g.in[i].shape == SHAPE_VALUES)
            plan_add_buffer(out, &n, max, t);
    }
    return n;
}
