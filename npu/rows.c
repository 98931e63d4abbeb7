/* Rows with registers in them, beside a cube core: a maximum or a sum of each row (softmax, norms, cross entropy).
 *
 * Note [Rows]. A loop `for row { acc = 0; vector f { acc += ... } z[row] = lanes_sum(acc) }` is shared out to the vector cores,
 * some rows at a time. What the launch has computed for each of these rows is moved into UB, the rows go one after the other
 * in pieces of columns (Note [Lanes apart]), and the results, one for each row, are moved out together. Nothing changes the
 * order in which a row's lanes are added. */
#include "npu/plan.h"

#include <string.h>

enum { VALUES_MAX = 12 };

typedef struct PlanRows {
    Planner *p;
    Stmt loop;
    ExprId first, last, r0, r1; /* rows of this core; of these, at a time */
    ExprId value[VALUES_MAX];   /* loads of one value for each row; where in UB */
    TensorId in[VALUES_MAX];
    uint32_t nvalues;
    Stmt result[VALUES_MAX]; /* stores of one value for each row */
    TensorId out[VALUES_MAX];
    uint32_t nresults;
} PlanRows;

/* ---- can it be done ---- */

static int is_result(const PlanRows *y, TensorId t)
{
    for (uint32_t i = 0; i < y->nresults; i++)
        if (y->result[i].buffer == t)
            return 1;
    return 0;
}

/* What is moved is moved whether it is asked for or not, so it must be there. */
static int may_move(const Kernel *k, ExprId root, ExprId load)
{
    const Expr *x = x_at(k, load);
    return x_is_asked_for(k, root, load) ||
           (x->nargs == 1 && plan_is_own_row(k, &k->tensors.at[x->sym], x_arg(k, load, 0)));
}

/* Values that do not vary with the columns (col: NONE where there are none). */
static int note_values(PlanRows *y, ExprId e, IndexId col)
{
    const Kernel *k = y->p->k;
    each_below (x, k, e, EVERYWHERE) {
        const Expr *n = x_at(k, *x);
        uint32_t i = 0;
        if (n->kind != X_LOAD || k->tensors.at[n->sym].space == SPACE_REG ||
            (col != NONE && x_uses_index(k, *x, col)) || !plan_is_made(y->p, n->sym))
            continue;
        while (i < y->nvalues && y->value[i] != *x)
            i++;
        if (is_result(y, n->sym) || i == VALUES_MAX || !plan_is_row_value(k, *x, y->loop.var) ||
            !may_move(k, e, *x))
            return 0;
        y->value[i] = *x;
        y->nvalues += i == y->nvalues;
    }
    return 1;
}

static int note_values_below(PlanRows *y, StmtId first, IndexId col)
{
    tile_walk (w, y->p->k, first)
        if (w.s->value != NONE && !note_values(y, w.s->value, col))
            return 0;
    return 1;
}

static int note_result(PlanRows *y, const Stmt *s)
{
    const Kernel *k = y->p->k;
    const Tensor *t = &k->tensors.at[s->buffer];
    ExprId at = t->space == SPACE_REG ? (ExprId)NONE : x_load(y->p->k, s->loc, s->buffer, s->index);
    if (at == NONE)
        return 1;
    if (s->add || t->both || t->transposed || y->nresults == VALUES_MAX || is_result(y, s->buffer) ||
        !plan_is_row_value(k, at, y->loop.var))
        return 0;
    y->result[y->nresults++] = *s;
    return 1;
}

static int open_rows(PlanRows *y, StmtId id)
{
    Planner *p = y->p;
    int vectors = 0;
    y->loop = plan_at(p, id);
    y->first = y->loop.lo;
    y->last = y->loop.hi;
    if (y->loop.kind != TILE_for || y->loop.mode != LOOP_ORDERED || y->loop.step != 1)
        return 0;
    tile_each (c, p->k, y->loop.first) {
        Stmt s = plan_at(p, c);
        int is_store = s.kind == TILE_store, is_vector = plan_is_lanes(p, c);
        if (!(is_store ? note_values(y, s.value, NONE) && note_result(y, &s)
                       : is_vector && note_values_below(y, s.first, s.var)))
            return 0;
        vectors += is_vector;
    }
    return vectors > 0;
}

int plan_is_rows(Planner *p, StmtId id)
{
    PlanRows y = {.p = p};
    return p->cube && open_rows(&y, id);
}

/* ---- statements ---- */

static ExprId zero(const PlanRows *y) { return x_int(y->p->k, (Loc){0}, 0); }

static TensorId take(PlanRows *y, const char *stem, TensorId like)
{
    int64_t n = y->p->m->align.block;
    Elem elem = y->p->k->tensors.at[like].elem;
    uint32_t i = plan_chip(y->p, y->loop.loc, stem, SPACE_UB, elem, 1, n, NONE);
    return y->p->chips.at[i].buffer;
}

/* The row's element of a buffer in UB. */
static const ExprId *element(PlanRows *y, ExprId *at)
{
    at[0] = at[1] = zero(y);
    at[2] = x_difference(y->p->k, x_index(y->p->k, (Loc){0}, y->loop.var), y->r0);
    return at;
}

static ExprId on_chip(PlanRows *y, ExprId e)
{
    Kernel *k = y->p->k;
    ExprId at[3];
    for (uint32_t i = 0; i < y->nvalues; i++)
        e = x_replace(k, e, y->value[i], x_load(k, (Loc){0}, y->in[i], element(y, at)));
    return e;
}

static StmtId list_on_chip(PlanRows *y, StmtId first)
{
    if (first == NONE)
        return NONE;
    Stmt s = plan_at(y->p, first);
    s.value = s.value == NONE ? s.value : on_chip(y, s.value);
    s.first = list_on_chip(y, s.first);
    s.next = list_on_chip(y, s.next);
    return tile_add(y->p->k, s);
}

/* A row of values, from or to memory. */
static Stmt new_move(PlanRows *y, TensorId to, IndexId column, ExprId from, ExprId end)
{
    IndexId one = build_index(&y->p->b, "one");
    return plan_box(y->loop.loc, to, one, zero(y), x_int(y->p->k, y->loop.loc, 1), column, from, end);
}

static void move_in(PlanRows *y, uint32_t i)
{
    Stmt m = new_move(y, y->in[i], y->loop.var, y->r0, y->r1);
    m.nindex = 3;
    m.index[0] = m.index[1] = m.index[2] = zero(y);
    m.value = y->value[i];
    plan_bring(y->p, &m, zero(y));
}

static void move_out(PlanRows *y, uint32_t i)
{
    Planner *p = y->p;
    Kernel *k = p->k;
    const Stmt *s = &y->result[i];
    IndexId column = build_index(&p->b, "column");
    Stmt m = new_move(y, s->buffer, column, zero(y), x_difference(p->k, y->r1, y->r0));
    ExprId at[3] = {zero(y), zero(y), x_index(k, m.loc, column)};
    m.nindex = s->nindex;
    for (uint32_t a = 0; a < s->nindex; a++)
        m.index[a] = x_substitute(k, s->index[a], &y->loop.var, &y->r0, 1);
    m.value = x_load(k, m.loc, y->out[i], at);
    plan_take_away(p, &m, y->out[i], zero(y));
}

/* Of UB, so that it is the vector unit's, which does one element. */
static void put_result(PlanRows *y, const Stmt *s)
{
    Planner *p = y->p;
    uint32_t depth = p->b.depth, i = 0;
    ExprId at[3];
    while (y->result[i].buffer != s->buffer)
        i++;
    build_for(&p->b, s->loc, LOOP_ORDERED, build_index(&p->b, "one"), zero(y), x_int(p->k, s->loc, 1), 1);
    build_store(&p->b, s->loc, y->out[i], element(y, at), on_chip(y, s->value), 0);
    build_close(&p->b, depth);
}

static void put_row(PlanRows *y)
{
    Planner *p = y->p;
    ExprId row = x_difference(p->k, x_index(p->k, y->loop.loc, y->loop.var), y->r0);
    tile_each (id, p->k, y->loop.first) {
        Stmt s = plan_at(p, id);
        if (s.kind == TILE_for) {
            s.first = list_on_chip(y, s.first);
            plan_lanes(p, tile_add(p->k, s), row);
        } else if (p->k->tensors.at[s.buffer].space == SPACE_REG) {
            s.value = on_chip(y, s.value);
            build_put(&p->b, s);
        } else {
            put_result(y, &s);
        }
    }
}

void plan_rows(Planner *p, StmtId id, ExprId core)
{
    PlanRows y = {.p = p};
    uint32_t depth = p->b.depth;
    open_rows(&y, id);
    Loc loc = y.loop.loc;
    for (uint32_t i = 0; i < y.nvalues; i++)
        y.in[i] = take(&y, "in", x_at(p->k, y.value[i])->sym);
    for (uint32_t i = 0; i < y.nresults; i++)
        y.out[i] = take(&y, PLAN_OUT, y.result[i].buffer);
    plan_share(p, loc, core, 1, &y.first, &y.last);
    IndexId t0 = build_index(&p->b, "t0");
    build_for(&p->b, loc, LOOP_ORDERED, t0, y.first, y.last, p->m->align.block);
    y.r0 = x_index(p->k, loc, t0);
    y.r1 = build_let(&p->b, loc, "end", x_min(p->k, x_add(p->k, y.r0, p->m->align.block), y.last));
    for (uint32_t i = 0; i < y.nvalues; i++)
        move_in(&y, i);
    for (uint32_t i = 0; i < y.nresults; i++)
        plan_flag(p, loc, TILE_wait, UNIT_mte3, UNIT_vector, y.out[i], zero(&y));
    uint32_t tile = p->b.depth;
    build_for(&p->b, loc, LOOP_ORDERED, y.loop.var, y.r0, y.r1, 1);
    put_row(&y);
    build_close(&p->b, tile);
    for (uint32_t i = 0; i < y.nvalues; i++)
        plan_flag(p, loc, TILE_set, UNIT_vector, UNIT_mte2, y.in[i], zero(&y));
    for (uint32_t i = 0; i < y.nresults; i++)
        move_out(&y, i);
    build_close(&p->b, depth);
}

/* ---- what it reads ---- */

uint32_t plan_rows_reads(Planner *p, StmtId id, TensorId *out, uint32_t max)
{
    PlanRows y = {.p = p};
    uint32_t n = 0;
    open_rows(&y, id);
    for (uint32_t i = 0; i < y.nvalues; i++)
        plan_add_buffer(out, &n, max, x_at(p->k, y.value[i])->sym);
    tile_each (c, p->k, y.loop.first)
        if (plan_at(p, c).kind == TILE_for)
            plan_lanes_reads(p, c, out, &n, max);
    return n;
}
