/* Vector loops with registers in them: sums over an inner loop (unpermute), sums over lanes (norms).
 *
 * Note [Lanes apart]. The vector unit does one operation on many elements, so a loop `vector f { acc = 0; for k { acc += ... }
 * y = acc }` becomes, for as many f as fit UB, each store a vector loop of its own, with loops and conditions outside. Lanes do
 * not know of each other, so nothing changes. A register that only this loop uses becomes a row in UB; one that lives on
 * after it stays what it is, the vector unit's: its lanes meet in each step of f, so no loop may stand inside, whose trips would go
 * first. What a store reads is moved in just before it. */
#include "npu/plan.h"

enum { USES_MAX = 32 };

typedef struct PlanLanes {
    Planner *p;
    StmtId id;
    Stmt vector;
    ExprId f0, f1, slot;
    int64_t cols;
    int inner; /* how many loops of the list stand around the store that is looked at */
    TensorId reg[USES_MAX], row[USES_MAX]; /* registers that became rows in UB */
    uint32_t nregs;
    ExprId load[USES_MAX]; /* that are moved in; where to */
    TensorId in[USES_MAX];
    uint32_t nin;
    TensorId target[USES_MAX], out[USES_MAX];
    uint32_t nout;
} PlanLanes;

/* ---- can it be done ---- */

/* Does this launch write the buffer, and nobody tells mte2 when? */
static int is_in_flight(const PlanLanes *pl, TensorId t)
{
    return pl->p->writes[t] && !(pl->p->cube && pl->p->k->tensors.at[t].space == SPACE_THREAD);
}

/* Takes note of what is read with lanes; 0 when the vector unit cannot read it. */
static int note_loads(PlanLanes *pl, ExprId e)
{
    const Kernel *k = pl->p->k;
    Nodes nodes = x_below(k, e, EVERYWHERE);
    for (const ExprId *x = nodes.at; x < nodes.at + nodes.n; x++) {
        const Expr *n = x_at(k, *x);
        if (n->kind == X_LANES)
            return 0;
        if (n->kind != X_LOAD || k->tensors.at[n->sym].space == SPACE_REG ||
            !x_uses_index(k, *x, pl->vector.var))
            continue;
        if (!plan_is_memory(&k->tensors.at[n->sym]) || !plan_is_linear(k, *x, pl->vector.var) ||
            is_in_flight(pl, n->sym) || !x_is_asked_for(k, e, *x))
            return 0;
        uint32_t i = 0;
        while (i < pl->nin && pl->load[i] != *x)
            i++;
        if (i == USES_MAX)
            return 0;
        if (i == pl->nin)
            pl->load[pl->nin++] = *x;
    }
    return 1;
}

static int note_register(PlanLanes *pl, TensorId t)
{
    uint32_t i = 0;
    while (i < pl->nregs && pl->reg[i] != t)
        i++;
    if (i < pl->nregs)
        return 1;
    int own = plan_count_uses(pl->p, pl->vector.first, t) == plan_count_uses(pl->p, pl->p->body, t);
    if (own ? pl->p->k->tensors.at[t].elem != EL_F32 || pl->p->k->tensors.at[t].rank || i == USES_MAX
            : pl->inner)
        return 0;
    if (own)
        pl->reg[pl->nregs++] = t;
    return 1;
}

static int note_store(PlanLanes *pl, const Stmt *s)
{
    const Kernel *k = pl->p->k;
    const Tensor *t = &k->tensors.at[s->buffer];
    if (!note_loads(pl, s->value))
        return 0;
    if (t->space == SPACE_REG)
        return t->lanes ? note_register(pl, s->buffer) : !x_uses_index(k, s->value, pl->vector.var);
    if (s->add || !plan_is_memory(t) || !s->nindex || t->both || t->transposed || pl->nout == USES_MAX ||
        pl->p->reads[s->buffer] || !x_is_unit(k, s->index[s->nindex - 1], pl->vector.var))
        return 0;
    for (uint32_t a = 0; a + 1 < s->nindex; a++)
        if (x_uses_index(k, s->index[a], pl->vector.var))
            return 0;
    pl->target[pl->nout++] = s->buffer;
    return 1;
}

static int note_list(PlanLanes *pl, StmtId first);

static int note_inner_loop(PlanLanes *pl, const Stmt *s)
{
    const Kernel *k = pl->p->k;
    IndexId var = pl->vector.var;
    if (s->mode != LOOP_ORDERED || x_uses_index(k, s->lo, var) || x_uses_index(k, s->hi, var))
        return 0;
    pl->inner++;
    int ok = note_list(pl, s->first);
    pl->inner--;
    return ok;
}

static int note_list(PlanLanes *pl, StmtId first)
{
    const Kernel *k = pl->p->k;
    tile_each (id, pl->p->k, first) {
        Stmt s = plan_at(pl->p, id);
        IndexId var = pl->vector.var;
        int ok = s.kind == TILE_store ? note_store(pl, &s)
                 : s.kind == TILE_if  ? !x_uses_index(k, s.value, var) && note_list(pl, s.first)
                 : s.kind == TILE_for ? note_inner_loop(pl, &s)
                                      : 0;
        if (!ok)
            return 0;
    }
    return 1;
}

static int open_lanes(PlanLanes *pl)
{
    pl->vector = plan_at(pl->p, pl->id);
    return pl->vector.kind == TILE_for && pl->vector.mode == LOOP_VECTOR && note_list(pl, pl->vector.first);
}

int plan_is_lanes(Planner *p, StmtId id)
{
    PlanLanes pl = {.p = p, .id = id};
    return open_lanes(&pl) && !(p->cube && pl.nout);
}

/* ---- places ---- */

static void choose_columns(PlanLanes *pl)
{
    const Kernel *k = pl->p->k;
    const Machine *m = pl->p->m;
    int64_t bytes = 0, copies = pl->p->copies[SPACE_UB], step = m->align.fragment;
    for (uint32_t i = 0; i < pl->nin; i++)
        bytes += copies * (int64_t)elem_bytes(k->tensors.at[x_at(k, pl->load[i])->sym].elem);
    for (uint32_t i = 0; i < pl->nout; i++)
        bytes += copies * (int64_t)elem_bytes(k->tensors.at[pl->target[i]].elem);
    bytes += pl->nregs * copies * (int64_t)elem_bytes(EL_F32);
    if (pl->vector.step > step)
        step = pl->vector.step; /* a piece begins with lane 0 */
    pl->cols = plan_ub(pl->p) / (bytes ? bytes : 1) / step * step;
    if (pl->cols > VECTOR_BLOCKS * m->align.block)
        pl->cols = VECTOR_BLOCKS * m->align.block;
    if (pl->cols < step)
        pl->cols = step;
}

static TensorId take(PlanLanes *pl, const char *stem, Elem elem)
{
    uint32_t i = plan_chip(pl->p, pl->vector.loc, stem, SPACE_UB, elem, 1, pl->cols, NONE);
    return pl->p->chips.at[i].buffer;
}

static void take_all(PlanLanes *pl)
{
    const Kernel *k = pl->p->k;
    for (uint32_t i = 0; i < pl->nin; i++)
        pl->in[i] = take(pl, "in", k->tensors.at[x_at(k, pl->load[i])->sym].elem);
    for (uint32_t i = 0; i < pl->nout; i++)
        pl->out[i] = take(pl, PLAN_OUT, k->tensors.at[pl->target[i]].elem);
    for (uint32_t i = 0; i < pl->nregs; i++)
        pl->row[i] = take(pl, PLAN_ROW, EL_F32);
}

/* ---- statements ---- */

static ExprId zero(const PlanLanes *pl) { return x_int(pl->p->k, (Loc){0}, 0); }

static const ExprId *element(PlanLanes *pl, ExprId slot, ExprId *index)
{
    index[0] = slot;
    index[1] = zero(pl);
    index[2] = x_difference(pl->p->k, x_index(pl->p->k, (Loc){0}, pl->vector.var), pl->f0);
    return index;
}

static ExprId in_row(PlanLanes *pl, TensorId buffer, ExprId slot)
{
    ExprId index[3];
    return x_load(pl->p->k, (Loc){0}, buffer, element(pl, slot, index));
}

/* The value with what is moved in, and rows for registers. */
static ExprId on_chip(PlanLanes *pl, ExprId value)
{
    Kernel *k = pl->p->k;
    for (uint32_t i = 0; i < pl->nin; i++)
        value = x_replace(k, value, pl->load[i], in_row(pl, pl->in[i], pl->slot));
    for (uint32_t i = 0; i < pl->nregs; i++)
        value = x_replace(k, value, x_load(k, (Loc){0}, pl->reg[i], NULL), in_row(pl, pl->row[i], zero(pl)));
    return value;
}

static void move_in(PlanLanes *pl, uint32_t i)
{
    Loc loc = pl->vector.loc;
    IndexId one = build_index(&pl->p->b, "one");
    Stmt m = plan_box(loc, pl->in[i], one, zero(pl), x_int(pl->p->k, loc, 1), pl->vector.var, pl->f0, pl->f1);
    m.nindex = 3;
    m.index[0] = pl->slot;
    m.index[1] = m.index[2] = zero(pl);
    m.value = pl->load[i];
    plan_bring(pl->p, &m, pl->slot);
}

static void move_out(PlanLanes *pl, const Stmt *s, TensorId out)
{
    Kernel *k = pl->p->k;
    IndexId one = build_index(&pl->p->b, "one"), column = build_index(&pl->p->b, "column");
    ExprId at[3] = {pl->slot, x_index(k, s->loc, one), x_index(k, s->loc, column)};
    Stmt m = plan_box(s->loc, s->buffer, one, zero(pl), x_int(k, s->loc, 1), column, zero(pl),
                      x_difference(pl->p->k, pl->f1, pl->f0));
    m.nindex = s->nindex;
    for (uint32_t a = 0; a < s->nindex; a++)
        m.index[a] = x_substitute(k, s->index[a], &pl->vector.var, &pl->f0, 1);
    m.value = x_load(k, s->loc, out, at);
    plan_take_away(pl->p, &m, out, pl->slot);
}

static void put_store(PlanLanes *pl, const Stmt *s)
{
    Planner *p = pl->p;
    Kernel *k = p->k;
    const Tensor *t = &k->tensors.at[s->buffer];
    uint32_t depth = p->b.depth, row = 0, out = 0;
    ExprId index[3], value = s->value;
    if (t->space == SPACE_REG && !t->lanes) {
        build_put(&p->b, *s);
        return;
    }
    while (row < pl->nregs && pl->reg[row] != s->buffer)
        row++;
    while (out < pl->nout && pl->target[out] != s->buffer)
        out++;
    uint32_t used[USES_MAX], nused = 0;
    for (uint32_t i = 0; i < pl->nin; i++)
        if (x_contains(k, value, pl->load[i]))
            used[nused++] = i;
    for (uint32_t i = 0; i < nused; i++)
        move_in(pl, used[i]);
    if (s->add && row < pl->nregs)
        value = x_op2(k, s->loc, OP_add, x_load(k, (Loc){0}, s->buffer, NULL), value);
    if (out < pl->nout)
        plan_flag(p, s->loc, TILE_wait, UNIT_mte3, UNIT_vector, pl->out[out], pl->slot);
    build_for(&p->b, s->loc, LOOP_VECTOR, pl->vector.var, pl->f0, pl->f1, pl->vector.step);
    value = on_chip(pl, value);
    if (row < pl->nregs)
        build_store(&p->b, s->loc, pl->row[row], element(pl, zero(pl), index), value, 0);
    else if (out < pl->nout)
        build_store(&p->b, s->loc, pl->out[out], element(pl, pl->slot, index), value, 0);
    else
        build_store(&p->b, s->loc, s->buffer, s->index, value, s->add);
    build_close(&p->b, depth);
    for (uint32_t i = 0; i < nused; i++)
        plan_flag(p, s->loc, TILE_set, UNIT_vector, UNIT_mte2, pl->in[used[i]], pl->slot);
    if (out < pl->nout)
        move_out(pl, s, pl->out[out]);
}

static void put_list(PlanLanes *pl, StmtId first)
{
    Planner *p = pl->p;
    tile_each (id, p->k, first) {
        Stmt s = plan_at(p, id);
        uint32_t depth = p->b.depth;
        ExprId slot = pl->slot;
        if (s.kind == TILE_store) {
            put_store(pl, &s);
            continue;
        }
        build_open(&p->b, s);
        if (s.kind == TILE_for && p->copies[SPACE_UB] > 1) {
            ExprId trip = x_difference(p->k, x_index(p->k, s.loc, s.var), s.lo);
            trip = x_op2(p->k, s.loc, OP_imod, trip, x_int(p->k, s.loc, p->copies[SPACE_UB]));
            pl->slot = build_let(&p->b, s.loc, "slot", trip);
        }
        put_list(pl, s.first);
        pl->slot = slot;
        build_close(&p->b, depth);
    }
}

void plan_lanes_reads(Planner *p, StmtId id, TensorId *out, uint32_t *n, uint32_t max)
{
    PlanLanes pl = {.p = p, .id = id};
    open_lanes(&pl);
    for (uint32_t i = 0; i < pl.nin; i++)
        if (p->k->tensors.at[x_at(p->k, pl.load[i])->sym].space == SPACE_THREAD)
            plan_add_buffer(out, n, max, x_at(p->k, pl.load[i])->sym);
}

/* Pieces go to the slots in turn, those of the next row too. */
static ExprId slot_of(PlanLanes *pl, ExprId row)
{
    Kernel *k = pl->p->k;
    Loc loc = pl->vector.loc;
    int64_t copies = pl->p->copies[SPACE_UB];
    if (row == NONE || copies == 1)
        return zero(pl);
    ExprId piece =
        x_op2(k, loc, OP_idiv, x_difference(pl->p->k, pl->f0, pl->vector.lo), x_int(k, loc, pl->cols));
    ExprId trip = x_op2(k, loc, OP_imod, x_op2(k, loc, OP_add, row, piece), x_int(k, loc, copies));
    return build_let(&pl->p->b, loc, "slot", trip);
}

void plan_lanes(Planner *p, StmtId id, ExprId row)
{
    PlanLanes pl = {.p = p, .id = id};
    uint32_t depth = p->b.depth;
    open_lanes(&pl);
    choose_columns(&pl);
    take_all(&pl);
    IndexId i = build_index(&p->b, "f0");
    build_for(&p->b, pl.vector.loc, LOOP_ORDERED, i, pl.vector.lo, pl.vector.hi, pl.cols);
    pl.f0 = x_index(p->k, pl.vector.loc, i);
    pl.f1 = build_let(&p->b, pl.vector.loc, "end", x_min(p->k, x_add(p->k, pl.f0, pl.cols), pl.vector.hi));
    pl.slot = slot_of(&pl, row);
    put_list(&pl, pl.vector.first);
    build_close(&p->b, depth);
}
