/* Rows with registers in them, beside a cube core: a maximum or a sum of each row (softmax, norms, cross entropy).
 *
 * Note [Rows]. A loop `for row { acc = 0; vector f { acc += ... } z[row] = lanes_sum(acc) }` is shared out to the vector cores,
 * some rows at a time. What the launch has computed for each of these rows is moved into UB, the rows go one after the other
 * in pieces of columns (Note [Lanes apart]), and the results, one for each row, are moved out together. Nothing changes the
 * order in which a row's lanes are added. */
#include "npu/plan.h"

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

static int is_result(const PlanRows *pr, TensorId t)
{
    for (uint32_t i = 0; i < pr->nresults; i++)
        if (pr->result[i].buffer == t)
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
static int note_values(PlanRows *pr, ExprId e, IndexId col)
{
    const Kernel *k = pr->p->k;
    each_below (x, k, e, EVERYWHERE) {
        const Expr *n = x_at(k, *x);
        uint32_t i = 0;
        if (n->kind != X_LOAD || k->tensors.at[n->sym].space == SPACE_REG ||
            (col != NONE && x_uses_index(k, *x, col)) || !plan_is_made(pr->p, n->sym))
            continue;
        while (i < pr->nvalues && pr->value[i] != *x)
            i++;
        if (is_result(pr, n->sym) || i == VALUES_MAX || !plan_is_row_value(k, *x, pr->loop.var) ||
            !may_move(k, e, *x))
            return 0;
        pr->value[i] = *x;
        pr->nvalues += i == pr->nvalues;
    }
    return 1;
}

static int note_values_below(PlanRows *pr, StmtId first, IndexId col)
{
    tile_walk (w, pr->p->k, first)
        if (w.s->value != NONE && !note_values(pr, w.s->value, col))
            return 0;
    return 1;
}

static int note_result(PlanRows *pr, const Stmt *s)
{
    const Kernel *k = pr->p->k;
    const Tensor *t = &k->tensors.at[s->buffer];
    ExprId at = t->space == SPACE_REG ? (ExprId)NONE : x_load(pr->p->k, s->loc, s->buffer, s->index);
    if (at == NONE)
        return 1;
    if (s->add || t->both || t->transposed || pr->nresults == VALUES_MAX || is_result(pr, s->buffer) ||
        !plan_is_row_value(k, at, pr->loop.var))
        return 0;
    pr->result[pr->nresults++] = *s;
    return 1;
}

static int open_rows(PlanRows *pr, StmtId id)
{
    Planner *p = pr->p;
    int vectors = 0;
    pr->loop = plan_at(p, id);
    pr->first = pr->loop.lo;
    pr->last = pr->loop.hi;
    if (pr->loop.kind != TILE_for || pr->loop.mode != LOOP_ORDERED || pr->loop.step != 1)
        return 0;
    tile_each (c, p->k, pr->loop.first) {
        Stmt s = plan_at(p, c);
        int is_store = s.kind == TILE_store, is_vector = plan_is_lanes(p, c);
        if (!(is_store ? note_values(pr, s.value, NONE) && note_result(pr, &s)
                       : is_vector && note_values_below(pr, s.first, s.var)))
            return 0;
        vectors += is_vector;
    }
    return vectors > 0 && pr->nresults > 0; /* else it is a part of a row, which one core computes */
}

int plan_is_rows(Planner *p, StmtId id)
{
    PlanRows pr = {.p = p};
    return p->cube && open_rows(&pr, id);
}

/* ---- statements ---- */

static ExprId zero(const PlanRows *pr) { return x_int(pr->p->k, (Loc){0}, 0); }

static TensorId take(PlanRows *pr, const char *stem, TensorId like)
{
    int64_t n = pr->p->m->align.block;
    Elem elem = pr->p->k->tensors.at[like].elem;
    uint32_t i = plan_chip(pr->p, pr->loop.loc, stem, SPACE_UB, elem, 1, n, NONE);
    return pr->p->chips.at[i].buffer;
}

/* The row's element of a buffer in UB. */
static const ExprId *element(PlanRows *pr, ExprId *at)
{
    at[0] = at[1] = zero(pr);
    at[2] = x_difference(pr->p->k, x_index(pr->p->k, (Loc){0}, pr->loop.var), pr->r0);
    return at;
}

static ExprId on_chip(PlanRows *pr, ExprId e)
{
    Kernel *k = pr->p->k;
    ExprId at[3];
    for (uint32_t i = 0; i < pr->nvalues; i++)
        e = x_replace(k, e, pr->value[i], x_load(k, (Loc){0}, pr->in[i], element(pr, at)));
    return e;
}

static StmtId list_on_chip(PlanRows *pr, StmtId first)
{
    if (first == NONE)
        return NONE;
    Stmt s = plan_at(pr->p, first);
    s.value = s.value == NONE ? s.value : on_chip(pr, s.value);
    s.first = list_on_chip(pr, s.first);
    s.next = list_on_chip(pr, s.next);
    return tile_add(pr->p->k, s);
}

/* A row of values, from or to memory. */
static Stmt new_move(PlanRows *pr, TensorId to, IndexId column, ExprId from, ExprId end)
{
    IndexId one = build_index(&pr->p->b, "one");
    return plan_box(pr->loop.loc, to, one, zero(pr), x_int(pr->p->k, pr->loop.loc, 1), column, from, end);
}

static void move_in(PlanRows *pr, uint32_t i)
{
    Stmt m = new_move(pr, pr->in[i], pr->loop.var, pr->r0, pr->r1);
    m.nindex = 3;
    m.index[0] = m.index[1] = m.index[2] = zero(pr);
    m.value = pr->value[i];
    plan_bring(pr->p, &m, zero(pr));
}

static void move_out(PlanRows *pr, uint32_t i)
{
    Planner *p = pr->p;
    Kernel *k = p->k;
    const Stmt *s = &pr->result[i];
    IndexId column = build_index(&p->b, "column");
    Stmt m = new_move(pr, s->buffer, column, zero(pr), x_difference(p->k, pr->r1, pr->r0));
    ExprId at[3] = {zero(pr), zero(pr), x_index(k, m.loc, column)};
    m.nindex = s->nindex;
    for (uint32_t a = 0; a < s->nindex; a++)
        m.index[a] = x_substitute(k, s->index[a], &pr->loop.var, &pr->r0, 1);
    m.value = x_load(k, m.loc, pr->out[i], at);
    plan_take_away(p, &m, pr->out[i], zero(pr));
}

/* Of UB, so that it is the vector unit's, which does one element. */
static void put_result(PlanRows *pr, const Stmt *s)
{
    Planner *p = pr->p;
    uint32_t depth = p->b.depth, i = 0;
    ExprId at[3];
    while (pr->result[i].buffer != s->buffer)
        i++;
    build_for(&p->b, s->loc, LOOP_ORDERED, build_index(&p->b, "one"), zero(pr), x_int(p->k, s->loc, 1), 1);
    build_store(&p->b, s->loc, pr->out[i], element(pr, at), on_chip(pr, s->value), 0);
    build_close(&p->b, depth);
}

static void put_row(PlanRows *pr)
{
    Planner *p = pr->p;
    ExprId row = x_difference(p->k, x_index(p->k, pr->loop.loc, pr->loop.var), pr->r0);
    tile_each (id, p->k, pr->loop.first) {
        Stmt s = plan_at(p, id);
        if (s.kind == TILE_for) {
            s.first = list_on_chip(pr, s.first);
            plan_lanes(p, tile_add(p->k, s), row);
        } else if (p->k->tensors.at[s.buffer].space == SPACE_REG) {
            s.value = on_chip(pr, s.value);
            build_put(&p->b, s);
        } else {
            put_result(pr, &s);
        }
    }
}

void plan_rows(Planner *p, StmtId id, ExprId core)
{
    PlanRows pr = {.p = p};
    uint32_t depth = p->b.depth;
    open_rows(&pr, id);
    Loc loc = pr.loop.loc;
    for (uint32_t i = 0; i < pr.nvalues; i++)
        pr.in[i] = take(&pr, "in", x_at(p->k, pr.value[i])->sym);
    for (uint32_t i = 0; i < pr.nresults; i++)
        pr.out[i] = take(&pr, PLAN_OUT, pr.result[i].buffer);
    plan_share(p, loc, core, 1, &pr.first, &pr.last);
    IndexId t0 = build_index(&p->b, "t0");
    build_for(&p->b, loc, LOOP_ORDERED, t0, pr.first, pr.last, p->m->align.block);
    pr.r0 = x_index(p->k, loc, t0);
    pr.r1 = build_let(&p->b, loc, "end", x_min(p->k, x_add(p->k, pr.r0, p->m->align.block), pr.last));
    for (uint32_t i = 0; i < pr.nvalues; i++)
        move_in(&pr, i);
    for (uint32_t i = 0; i < pr.nresults; i++)
        plan_flag(p, loc, TILE_wait, UNIT_mte3, UNIT_vector, pr.out[i], zero(&pr));
    uint32_t tile = p->b.depth;
    build_for(&p->b, loc, LOOP_ORDERED, pr.loop.var, pr.r0, pr.r1, 1);
    put_row(&pr);
    build_close(&p->b, tile);
    for (uint32_t i = 0; i < pr.nvalues; i++)
        plan_flag(p, loc, TILE_set, UNIT_vector, UNIT_mte2, pr.in[i], zero(&pr));
    for (uint32_t i = 0; i < pr.nresults; i++)
        move_out(&pr, i);
    build_close(&p->b, depth);
}

/* ---- what it reads ---- */

uint32_t plan_rows_reads(Planner *p, StmtId id, TensorId *out, uint32_t max)
{
    PlanRows pr = {.p = p};
    uint32_t n = 0;
    open_rows(&pr, id);
    for (uint32_t i = 0; i < pr.nvalues; i++)
        plan_add_buffer(out, &n, max, x_at(p->k, pr.value[i])->sym);
    tile_each (c, p->k, pr.loop.first)
        if (plan_at(p, c).kind == TILE_for)
            plan_lanes_reads(p, c, out, &n, max);
    return n;
}
