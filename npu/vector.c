/* Work of the vector unit: what is no product goes to the vector cores as far as it can.
 *
 * Note [Stages]. A nest `for row { vector f { stores } }` is cut into tiles of rows and columns that fit UB. For each, what the
 * stores read is moved into UB (boxes, or row by row where a route says which row), the vector unit computes, and the
 * results are moved out. Values that do not vary with f are read by the scalar unit on the way, those that the launch itself
 * computes for each row (a maximum, a sum) are moved in. With two slots the next tile's moves go on meanwhile. In a launch with
 * products the rows are shared out to the vector cores beside the cube core. */
#include "npu/stage.h"

int plan_is_vector(Planner *p, StmtId id)
{
    Stage st = {.p = p};
    if (!stage_open(&st, id))
        return 0;
    for (uint32_t i = 0; i < st.nstores; i++)
        if (!stage_can_store(&st, i))
            return 0;
    return stage_find_moves(&st);
}

/* ---- tiles ---- */

/* Bytes of UB for each element of a tile. */
static int64_t bytes_each(const Stage *st)
{
    int64_t n = 0, copies = st->p->copies[SPACE_UB];
    for (uint32_t i = 0; i < st->nin; i++)
        n += copies * (int64_t)elem_bytes(st->in[i].elem);
    for (uint32_t i = 0; i < st->nstores; i++)
        n += copies * (int64_t)elem_bytes(st->out[i].elem);
    return n;
}

/* As many columns as are moved well, or all of UB when there is one row. */
static void choose_tile(Stage *st)
{
    const Machine *m = st->p->m;
    int64_t most = plan_ub(st->p) / bytes_each(st), step = m->align.fragment;
    st->cols = st->row == NONE ? most / step * step : m->align.block;
    while (st->cols > most && st->cols > step)
        st->cols /= 2;
    if (st->cols > VECTOR_BLOCKS * m->align.block)
        st->cols = VECTOR_BLOCKS * m->align.block;
    if (st->cols < step)
        st->cols = step;
    st->rows = 1;
    while (st->row != NONE && 2 * st->rows * st->cols <= most && st->rows < m->blocks.rows)
        st->rows *= 2;
}

static TensorId take_buffer(Stage *st, const char *stem, const Staged *s)
{
    int64_t rows = s->shape == SHAPE_BOX || s->shape == SHAPE_ROWS ? st->rows : 1, cols = st->cols;
    if (s->shape == SHAPE_VALUES)
        cols = st->rows > st->p->m->align.fragment ? st->rows : st->p->m->align.fragment;
    uint32_t i = plan_chip(st->p, st->vector.loc, stem, SPACE_UB, s->elem, rows, cols, NONE);
    return st->p->chips.at[i].buffer;
}

static void take_buffers(Stage *st)
{
    for (uint32_t i = 0; i < st->nin; i++)
        st->in[i].buffer = take_buffer(st, "in", &st->in[i]);
    for (uint32_t i = 0; i < st->nstores; i++)
        st->out[i].buffer = take_buffer(st, PLAN_OUT, &st->out[i]);
}

/* ---- statements ---- */

static ExprId zero(const Stage *st) { return x_int(st->p->k, (Loc){0}, 0); }

static ExprId minus(Stage *st, ExprId a, ExprId b) { return x_difference(st->p->k, a, b); }

/* The element of a buffer of the tile at the loops' row and column. */
static void place_in_tile(Stage *st, const Staged *s, ExprId *index)
{
    Kernel *k = st->p->k;
    ExprId row = st->row == NONE ? zero(st) : minus(st, x_index(k, (Loc){0}, st->row), st->r0);
    index[0] = st->slot;
    index[1] = s->shape == SHAPE_BOX || s->shape == SHAPE_ROWS ? row : zero(st);
    index[2] = s->shape == SHAPE_VALUES ? row : minus(st, x_index(k, (Loc){0}, st->col), st->f0);
}

static ExprId load_in_tile(Stage *st, const Staged *s)
{
    ExprId index[3];
    place_in_tile(st, s, index);
    return x_load(st->p->k, (Loc){0}, s->buffer, index);
}

static void move_in(Stage *st, const Staged *s)
{
    Planner *p = st->p;
    Kernel *k = p->k;
    Loc loc = st->vector.loc;
    uint32_t depth = p->b.depth;
    int box = s->shape == SHAPE_BOX, values = s->shape == SHAPE_VALUES;
    ExprId row = zero(st);
    if (s->shape == SHAPE_ROWS) {
        build_for(&p->b, loc, LOOP_ORDERED, st->row, st->r0, st->r1, 1);
        row = minus(st, x_index(k, loc, st->row), st->r0);
    }
    Stmt m = plan_box(loc, s->buffer, box ? st->row : build_index(&p->b, "one"), box ? st->r0 : zero(st),
                      box ? st->r1 : x_int(k, loc, 1), values ? st->row : st->col, values ? st->r0 : st->f0,
                      values ? st->r1 : st->f1);
    m.nindex = 3;
    m.index[0] = st->slot;
    m.index[1] = row;
    m.index[2] = zero(st);
    m.value = s->load;
    build_put(&p->b, m);
    build_close(&p->b, depth);
}

static void move_out(Stage *st, const Staged *s)
{
    Planner *p = st->p;
    Kernel *k = p->k;
    Loc loc = st->vector.loc;
    const Stmt *store = &st->stores[s->store];
    uint32_t depth = p->b.depth;
    int rows = s->shape == SHAPE_ROWS, box = s->shape == SHAPE_BOX;
    IndexId from[2] = {st->col, st->row};
    ExprId to[2] = {st->f0, st->r0};
    if (rows)
        build_for(&p->b, loc, LOOP_ORDERED, st->row, st->r0, st->r1, 1);
    IndexId row = build_index(&p->b, "row"), column = build_index(&p->b, "column");
    Stmt m = plan_box(loc, store->buffer, row, zero(st), box ? minus(st, st->r1, st->r0) : x_int(k, loc, 1),
                      column, zero(st), minus(st, st->f1, st->f0));
    ExprId at[3] = {st->slot, rows ? minus(st, x_index(k, loc, st->row), st->r0) : x_index(k, loc, row),
                    x_index(k, loc, column)};
    m.nindex = store->nindex;
    for (uint32_t a = 0; a < store->nindex; a++)
        m.index[a] = x_substitute(k, store->index[a], from, to, box ? 2 : 1);
    m.value = x_load(k, loc, s->buffer, at);
    build_put(&p->b, m);
    build_close(&p->b, depth);
}

static void compute(Stage *st)
{
    Planner *p = st->p;
    Kernel *k = p->k;
    Loc loc = st->vector.loc;
    uint32_t depth = p->b.depth;
    if (st->row != NONE)
        build_for(&p->b, loc, LOOP_ORDERED, st->row, st->r0, st->r1, 1);
    build_for(&p->b, loc, LOOP_VECTOR, st->col, st->f0, st->f1, st->vector.step);
    for (uint32_t s = 0; s < st->nstores; s++) {
        ExprId value = st->values[s], index[3];
        for (uint32_t i = 0; i < s; i++) {
            ExprId stored = x_load(k, loc, st->stores[i].buffer, st->stores[i].index);
            if (stage_stored_before(st, stored, s) == i)
                value = x_replace(k, value, stored, load_in_tile(st, &st->out[i]));
        }
        for (uint32_t i = 0; i < st->nin; i++)
            value = x_replace(k, value, st->in[i].load, load_in_tile(st, &st->in[i]));
        place_in_tile(st, &st->out[s], index);
        build_store(&p->b, st->stores[s].loc, st->out[s].buffer, index, value, 0);
    }
    build_close(&p->b, depth);
}

static void flags(Stage *st, TileKind kind, Unit unit, Unit other, const Staged *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        plan_flag(st->p, st->vector.loc, kind, unit, other, s[i].buffer, st->slot);
}

static void tile(Stage *st)
{
    for (uint32_t i = 0; i < st->nin; i++) {
        flags(st, TILE_wait, UNIT_vector, UNIT_mte2, &st->in[i], 1);
        move_in(st, &st->in[i]);
        flags(st, TILE_set, UNIT_mte2, UNIT_vector, &st->in[i], 1);
    }
    flags(st, TILE_wait, UNIT_mte2, UNIT_vector, st->in, st->nin);
    flags(st, TILE_wait, UNIT_mte3, UNIT_vector, st->out, st->nstores);
    compute(st);
    flags(st, TILE_set, UNIT_vector, UNIT_mte2, st->in, st->nin);
    flags(st, TILE_set, UNIT_vector, UNIT_mte3, st->out, st->nstores);
    for (uint32_t i = 0; i < st->nstores; i++) {
        flags(st, TILE_wait, UNIT_vector, UNIT_mte3, &st->out[i], 1);
        move_out(st, &st->out[i]);
        flags(st, TILE_set, UNIT_mte3, UNIT_vector, &st->out[i], 1);
    }
}

/* A loop over tiles of an axis; its begin and end. */
static void open_tiles(Stage *st, const char *stem, ExprId lo, ExprId hi, int64_t by, ExprId *from,
                       ExprId *to)
{
    Planner *p = st->p;
    Loc loc = st->vector.loc;
    IndexId i = build_index(&p->b, stem);
    build_for(&p->b, loc, LOOP_ORDERED, i, lo, hi, by);
    *from = x_index(p->k, loc, i);
    *to = build_let(&p->b, loc, "end", x_min(p->k, x_add(p->k, *from, by), hi));
}

static ExprId slot_of(Stage *st, ExprId from, ExprId lo, int64_t by)
{
    Kernel *k = st->p->k;
    Loc loc = st->vector.loc;
    int64_t copies = st->p->copies[SPACE_UB];
    if (copies == 1)
        return zero(st);
    ExprId trip = x_op2(k, loc, OP_idiv, minus(st, from, lo), x_int(k, loc, by));
    return build_let(&st->p->b, loc, "slot", x_op2(k, loc, OP_imod, trip, x_int(k, loc, copies)));
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
    Stage st = {.p = p};
    uint32_t depth = p->b.depth;
    stage_open(&st, id);
    stage_find_moves(&st);
    choose_tile(&st);
    take_buffers(&st);
    if (core != NONE && st.row != NONE)
        plan_share(p, st.vector.loc, core, 1, &st.first, &st.last);
    else if (core != NONE) /* of one row a stretch that moves well */
        plan_share(p, st.vector.loc, core, p->m->align.block, &st.lo, &st.hi);
    open_tiles(&st, "f0", st.lo, st.hi, st.cols, &st.f0, &st.f1);
    if (st.row != NONE) {
        open_tiles(&st, "t0", st.first, st.last, st.rows, &st.r0, &st.r1);
        st.slot = slot_of(&st, st.r0, st.first, st.rows);
    } else {
        st.r0 = st.first;
        st.r1 = st.last;
        st.slot = slot_of(&st, st.f0, st.lo, st.cols);
    }
    tile(&st);
    build_close(&p->b, depth);
}

uint32_t plan_vector_reads(Planner *p, StmtId id, TensorId *out, uint32_t max)
{
    Stage st = {.p = p};
    uint32_t n = 0;
    stage_open(&st, id);
    stage_find_moves(&st);
    for (uint32_t i = 0; i < st.nin; i++) {
        TensorId t = x_at(p->k, st.in[i].load)->sym;
        if (plan_is_handed_over(p, t) || st.in[i].shape == SHAPE_VALUES)
            plan_add_buffer(out, &n, max, t);
    }
    return n;
}
