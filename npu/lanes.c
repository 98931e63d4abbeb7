/* Vector loops with registers in them: sums over an inner loop (unpermute), sums over lanes (norms).
 *
 * Note [Lanes apart]. The vector unit does one operation on many elements, so a loop `vector f { acc = 0; for k { acc += ... }
 * y = acc }` becomes, for as many f as fit UB, each store a vector loop of its own, with loops and conditions outside. Lanes do
 * not know of each other, so nothing changes. A register that only this loop uses becomes a row in UB; one that lives on
 * after it stays what it is, the vector unit's. What a store reads is moved in just before it. */
#include "npu/plan.h"

#include <string.h>

enum { USES_MAX = 32 };

typedef struct PlanLanes {
    Planner *p;
    StmtId id;
    Stmt vector;
    ExprId f0, f1, slot;
    int64_t cols;
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
static int is_in_flight(const PlanLanes *y, TensorId t)
{
    return y->p->writes[t] && !(y->p->cube && y->p->k->tensors.at[t].space == SPACE_THREAD);
}

/* Takes note of what is read with lanes; 0 when the vector unit cannot read it. */
static int note_loads(PlanLanes *y, ExprId e)
{
    const Kernel *k = y->p->k;
    Nodes nodes = x_below(k, e, EVERYWHERE);
    for (const ExprId *x = nodes.at; x < nodes.at + nodes.n; x++) {
        const Expr *n = x_at(k, *x);
        if (n->kind == X_LANES)
            return 0;
        if (n->kind != X_LOAD || k->tensors.at[n->sym].space == SPACE_REG ||
            !x_uses_index(k, *x, y->vector.var))
            continue;
        if (!plan_is_memory(&k->tensors.at[n->sym]) || !plan_is_linear(k, *x, y->vector.var) ||
            is_in_flight(y, n->sym) || !x_is_asked_for(k, e, *x))
            return 0;
        uint32_t i = 0;
        while (i < y->nin && y->load[i] != *x)
            i++;
        if (i == USES_MAX)
            return 0;
        if (i == y->nin)
            y->load[y->nin++] = *x;
    }
    return 1;
}

static int note_register(PlanLanes *y, TensorId t)
{
    uint32_t i = 0;
    while (i < y->nregs && y->reg[i] != t)
        i++;
    if (i < y->nregs)
        return 1;
    int own = plan_count_uses(y->p, y->vector.first, t) == plan_count_uses(y->p, y->p->body, t);
    if (own && (y->p->k->tensors.at[t].elem != EL_F32 || y->p->k->tensors.at[t].rank || i == USES_MAX))
        return 0;
    if (own)
        y->reg[y->nregs++] = t;
    return 1;
}

static int note_store(PlanLanes *y, const Stmt *s)
{
    const Kernel *k = y->p->k;
    const Tensor *t = &k->tensors.at[s->buffer];
    if (!note_loads(y, s->value))
        return 0;
    if (t->space == SPACE_REG)
        return t->lanes ? note_register(y, s->buffer) : !x_uses_index(k, s->value, y->vector.var);
    if (s->add || !plan_is_memory(t) || !s->nindex || t->both || t->transposed || y->nout == USES_MAX ||
        y->p->reads[s->buffer] || !x_is_unit(k, s->index[s->nindex - 1], y->vector.var))
        return 0;
    for (uint32_t a = 0; a + 1 < s->nindex; a++)
        if (x_uses_index(k, s->index[a], y->vector.var))
            return 0;
    y->target[y->nout++] = s->buffer;
    return 1;
}

static int note_list(PlanLanes *y, StmtId first)
{
    const Kernel *k = y->p->k;
    tile_each (id, y->p->k, first) {
        Stmt s = plan_at(y->p, id);
        IndexId var = y->vector.var;
        int ok = s.kind == TILE_store ? note_store(y, &s)
                 : s.kind == TILE_if  ? !x_uses_index(k, s.value, var) && note_list(y, s.first)
                 : s.kind == TILE_for && s.mode == LOOP_ORDERED
                     ? !x_uses_index(k, s.lo, var) && !x_uses_index(k, s.hi, var) && note_list(y, s.first)
                     : 0;
        if (!ok)
            return 0;
    }
    return 1;
}

static int open_lanes(PlanLanes *y)
{
    y->vector = plan_at(y->p, y->id);
    return y->vector.kind == TILE_for && y->vector.mode == LOOP_VECTOR && note_list(y, y->vector.first);
}

int plan_is_lanes(Planner *p, StmtId id)
{
    PlanLanes y = {.p = p, .id = id};
    return open_lanes(&y) && !(p->cube && y.nout);
}

/* ---- places ---- */

static void choose_columns(PlanLanes *y)
{
    const Kernel *k = y->p->k;
    const Machine *m = y->p->m;
    int64_t bytes = 0, copies = y->p->copies[SPACE_UB], step = m->align.fragment;
    for (uint32_t i = 0; i < y->nin; i++)
        bytes += copies * (int64_t)elem_bytes(k->tensors.at[x_at(k, y->load[i])->sym].elem);
    for (uint32_t i = 0; i < y->nout; i++)
        bytes += copies * (int64_t)elem_bytes(k->tensors.at[y->target[i]].elem);
    bytes += y->nregs * copies * (int64_t)elem_bytes(EL_F32);
    if (y->vector.step > step)
        step = y->vector.step; /* a piece begins with lane 0 */
    y->cols = plan_ub(y->p) / (bytes ? bytes : 1) / step * step;
    if (y->cols > VECTOR_BLOCKS * m->align.block)
        y->cols = VECTOR_BLOCKS * m->align.block;
    if (y->cols < step)
        y->cols = step;
}

static TensorId take(PlanLanes *y, const char *stem, Elem elem)
{
    uint32_t i = plan_chip(y->p, y->vector.loc, stem, SPACE_UB, elem, 1, y->cols, NONE);
    return y->p->chips.at[i].buffer;
}

static void take_all(PlanLanes *y)
{
    const Kernel *k = y->p->k;
    for (uint32_t i = 0; i < y->nin; i++)
        y->in[i] = take(y, "in", k->tensors.at[x_at(k, y->load[i])->sym].elem);
    for (uint32_t i = 0; i < y->nout; i++)
        y->out[i] = take(y, PLAN_OUT, k->tensors.at[y->target[i]].elem);
    for (uint32_t i = 0; i < y->nregs; i++)
        y->row[i] = take(y, PLAN_ROW, EL_F32);
}

/* ---- statements ---- */

static ExprId zero(const PlanLanes *y) { return x_int(y->p->k, (Loc){0}, 0); }

static const ExprId *element(PlanLanes *y, ExprId slot, ExprId *index)
{
    index[0] = slot;
    index[1] = zero(y);
    index[2] = x_difference(y->p->k, x_index(y->p->k, (Loc){0}, y->vector.var), y->f0);
    return index;
}

static ExprId in_row(PlanLanes *y, TensorId buffer, ExprId slot)
{
    ExprId index[3];
    return x_load(y->p->k, (Loc){0}, buffer, element(y, slot, index));
}

/* The value with what is moved in, and rows for registers. */
static ExprId on_chip(PlanLanes *y, ExprId value)
{
    Kernel *k = y->p->k;
    for (uint32_t i = 0; i < y->nin; i++)
        value = x_replace(k, value, y->load[i], in_row(y, y->in[i], y->slot));
    for (uint32_t i = 0; i < y->nregs; i++)
        value = x_replace(k, value, x_load(k, (Loc){0}, y->reg[i], NULL), in_row(y, y->row[i], zero(y)));
    return value;
}

static void move_in(PlanLanes *y, uint32_t i)
{
    Loc loc = y->vector.loc;
    IndexId one = build_index(&y->p->b, "one");
    Stmt m = plan_box(loc, y->in[i], one, zero(y), x_int(y->p->k, loc, 1), y->vector.var, y->f0, y->f1);
    m.nindex = 3;
    m.index[0] = y->slot;
    m.index[1] = m.index[2] = zero(y);
    m.value = y->load[i];
    plan_bring(y->p, &m, y->slot);
}

static void move_out(PlanLanes *y, const Stmt *s, TensorId out)
{
    Kernel *k = y->p->k;
    IndexId one = build_index(&y->p->b, "one"), column = build_index(&y->p->b, "column");
    ExprId at[3] = {y->slot, x_index(k, s->loc, one), x_index(k, s->loc, column)};
    Stmt m = plan_box(s->loc, s->buffer, one, zero(y), x_int(k, s->loc, 1), column, zero(y),
                      x_difference(y->p->k, y->f1, y->f0));
    m.nindex = s->nindex;
    for (uint32_t a = 0; a < s->nindex; a++)
        m.index[a] = x_substitute(k, s->index[a], &y->vector.var, &y->f0, 1);
    m.value = x_load(k, s->loc, out, at);
    plan_take_away(y->p, &m, out, y->slot);
}

static void put_store(PlanLanes *y, const Stmt *s)
{
    Planner *p = y->p;
    Kernel *k = p->k;
    const Tensor *t = &k->tensors.at[s->buffer];
    uint32_t depth = p->b.depth, row = 0, out = 0;
    ExprId index[3], value = s->value;
    if (t->space == SPACE_REG && !t->lanes) {
        build_put(&p->b, *s);
        return;
    }
    while (row < y->nregs && y->reg[row] != s->buffer)
        row++;
    while (out < y->nout && y->target[out] != s->buffer)
        out++;
    uint32_t used[USES_MAX], nused = 0;
    for (uint32_t i = 0; i < y->nin; i++)
        if (x_contains(k, value, y->load[i]))
            used[nused++] = i;
    for (uint32_t i = 0; i < nused; i++)
        move_in(y, used[i]);
    if (s->add && row < y->nregs)
        value = x_op2(k, s->loc, OP_add, x_load(k, (Loc){0}, s->buffer, NULL), value);
    if (out < y->nout)
        plan_flag(p, s->loc, TILE_wait, UNIT_mte3, UNIT_vector, y->out[out], y->slot);
    build_for(&p->b, s->loc, LOOP_VECTOR, y->vector.var, y->f0, y->f1, y->vector.step);
    value = on_chip(y, value);
    if (row < y->nregs)
        build_store(&p->b, s->loc, y->row[row], element(y, zero(y), index), value, 0);
    else if (out < y->nout)
        build_store(&p->b, s->loc, y->out[out], element(y, y->slot, index), value, 0);
    else
        build_store(&p->b, s->loc, s->buffer, s->index, value, s->add);
    build_close(&p->b, depth);
    for (uint32_t i = 0; i < nused; i++)
        plan_flag(p, s->loc, TILE_set, UNIT_vector, UNIT_mte2, y->in[used[i]], y->slot);
    if (out < y->nout)
        move_out(y, s, y->out[out]);
}

static void put_list(PlanLanes *y, StmtId first)
{
    Planner *p = y->p;
    tile_each (id, p->k, first) {
        Stmt s = plan_at(p, id);
        uint32_t depth = p->b.depth;
        ExprId slot = y->slot;
        if (s.kind == TILE_store) {
            put_store(y, &s);
            continue;
        }
        build_open(&p->b, s);
        if (s.kind == TILE_for && p->copies[SPACE_UB] > 1) {
            ExprId trip = x_difference(p->k, x_index(p->k, s.loc, s.var), s.lo);
            trip = x_op2(p->k, s.loc, OP_imod, trip, x_int(p->k, s.loc, p->copies[SPACE_UB]));
            y->slot = build_let(&p->b, s.loc, "slot", trip);
        }
        put_list(y, s.first);
        y->slot = slot;
        build_close(&p->b, depth);
    }
}

void plan_lanes_reads(Planner *p, StmtId id, TensorId *out, uint32_t *n, uint32_t max)
{
    PlanLanes y = {.p = p, .id = id};
    open_lanes(&y);
    for (uint32_t i = 0; i < y.nin; i++)
        if (p->k->tensors.at[x_at(p->k, y.load[i])->sym].space == SPACE_THREAD)
            plan_add_buffer(out, n, max, x_at(p->k, y.load[i])->sym);
}

/* Pieces go to the slots in turn, those of the next row too. */
static ExprId slot_of(PlanLanes *y, ExprId row)
{
    Kernel *k = y->p->k;
    Loc loc = y->vector.loc;
    int64_t copies = y->p->copies[SPACE_UB];
    if (row == NONE || copies == 1)
        return zero(y);
    ExprId piece = x_op2(k, loc, OP_idiv, x_difference(y->p->k, y->f0, y->vector.lo), x_int(k, loc, y->cols));
    ExprId trip = x_op2(k, loc, OP_imod, x_op2(k, loc, OP_add, row, piece), x_int(k, loc, copies));
    return build_let(&y->p->b, loc, "slot", trip);
}

void plan_lanes(Planner *p, StmtId id, ExprId row)
{
    PlanLanes y = {.p = p, .id = id};
    uint32_t depth = p->b.depth;
    open_lanes(&y);
    choose_columns(&y);
    take_all(&y);
    IndexId i = build_index(&p->b, "f0");
    build_for(&p->b, y.vector.loc, LOOP_ORDERED, i, y.vector.lo, y.vector.hi, y.cols);
    y.f0 = x_index(p->k, y.vector.loc, i);
    y.f1 = build_let(&p->b, y.vector.loc, "end", x_min(p->k, x_add(p->k, y.f0, y.cols), y.vector.hi));
    y.slot = slot_of(&y, row);
    put_list(&y, y.vector.first);
    build_close(&p->b, depth);
}
