/* What is decided about a row-block group (Note [Row blocks] in rowblock.c): how many rows pass through its members together, where placed
 * tensors and carried sums are, how each member is laid over loops, and which operands are kept packed. */
#include "lower/rowblock.h"
#include "passes/cluster.h"
#include "passes/schedule.h"

int lower_has_row(const Kernel *k, const Cluster *c, const Equation *q)
{
    return query_on_left(k, q, c->row) >= 0;
}

/* ---- placed tensors ---- */

/* The axis of t of which a strip is kept, or NONE. */
static uint32_t strip_axis(const RowBlockLaunch *s, TensorId t)
{
    for (uint32_t i = 0; i < s->narrow.len; i++)
        if (s->narrow.at[i].tensor == t)
            return s->narrow.at[i].axis;
    return NONE;
}

/* A thread's buffer for a tensor that q defines as this value, with the axes that are no outer ones. `rows` > 0: it has a
 * row, and that many of it; else it holds f32 sums. Block products may add into it, and touch more than is asked for, if the
 * value can be computed everywhere. */
static LocalBuffer place(Lower *l, const RowBlockLaunch *s, const Equation *q, TensorId tensor, ExprId value,
                         int64_t rows)
{
    Kernel *k = l->k;
    const Cluster *c = s->c;
    const Tensor *t = &k->tensors.at[tensor];
    Extent extents[MAX_RANK] = {0};
    uint32_t n = rows > 0;
    LocalBuffer p = {.tensor = tensor, .row = NONE, .column = strip_axis(s, tensor)};
    for (uint32_t a = 0; a < q->nindex; a++) {
        IndexId i = x_plain_index(k, q->index[a]);
        if (rows > 0 && i == c->row) {
            p.row = a;
            extents[0] = ext_const(k->module, rows);
        } else if (i == NONE || !lower_is_outer(c, i)) {
            p.keep |= 1u << a;
            extents[n++] = a == p.column ? ext_const(k->module, s->strip + LAYOUT_EDGE) : t->axes[a].extent;
        }
    }
    p.buffer = build_buffer(&l->b, t->name, rows > 0 ? t->elem : EL_F32, SPACE_THREAD, n, extents);
    if (n == 2 && rows != 1 && k->tensors.at[p.buffer].elem == EL_F32 && checks_inside(k, value))
        k->tensors.at[p.buffer].layout = LAYOUT_SUMS;
    return p;
}

static void place_one(Lower *l, const RowBlockLaunch *s, const Equation *q, TensorId t)
{
    if (lower_place_of(l, t))
        return;
    vec_push(l->k->module->arena, &l->env.places, place(l, s, q, t, q->rhs, s->rows));
    l->k->tensors.at[t].space = SPACE_GM; /* no memory of its own */
}

/* What q defines gets its place. The values of top and their numbers have one subscript, so both have one or none. */
static void place_results(Lower *l, const RowBlockLaunch *s, const Equation *q)
{
    const Kernel *k = l->k;
    if (!k->tensors.at[q->lhs].placed || (q->ids != NONE && !k->tensors.at[q->ids].placed))
        return;
    place_one(l, s, q, q->lhs);
    if (q->ids != NONE)
        place_one(l, s, q, q->ids);
}

/* ---- sums over the rows ---- */

Equation rowblock_carried(const RowBlockCarry *carry)
{
    Equation q = *carry->q;
    q.kind = EQ_ADD;
    q.lhs = carry->place.buffer;
    q.rhs = carry->reduce;
    q.nindex = 0;
    for (uint32_t a = 0; a < carry->q->nindex; a++)
        if (carry->place.keep >> a & 1)
            q.index[q.nindex++] = carry->q->index[a];
    return q;
}

/* With one row: a sum over the rows needs no loop over them. */
static int is_term(const Lower *l, const RowBlockLaunch *s, const RowBlockCarry *carry)
{
    return s->rows == 1 && x_at(l->k, carry->reduce)->nbound == 1;
}

/* One row's term of each place; 0 where the row is none of the sum's. */
static Equation term(const Lower *l, const RowBlockCarry *carry)
{
    Equation q = rowblock_carried(carry);
    const ExprId condition = x_condition(l->k, carry->reduce), body = x_arg(l->k, carry->reduce, 0);
    q.rhs = condition == NONE ? body : x_if(l->k, q.loc, condition, body, x_float(l->k, q.loc, 0));
    return q;
}

static void find_carries(Lower *l, RowBlockLaunch *s, const Equation *q)
{
    ExprId reds[REDUCE_MAX];
    uint32_t n = query_reductions(l->k, q->rhs, reds, REDUCE_MAX);
    for (uint32_t i = 0; i < n; i++)
        vec_push(l->k->module->arena, &s->carries,
                 (RowBlockCarry){.q = q, .reduce = reds[i], .place = place(l, s, q, q->lhs, reds[i], 0)});
}

static void decide_carry(Lower *l, const RowBlockLaunch *s, RowBlockCarry *carry)
{
    Members one = {.at = {is_term(l, s, carry) ? term(l, carry) : rowblock_carried(carry)}, .n = 1};
    carry->by = lower_decide(l, &one, carry->q->lhs, s->c, NONE);
}

/* ---- members with the row on their left ---- */

/* Can the loop over the row of a member add up those terms on the way? */
static int goes_along(const Lower *l, const RowBlockLaunch *s, const Blocking *by, const RowBlockCarry *carry)
{
    const Kernel *k = l->k;
    const Equation *q = &by->m.at[0];
    if (!is_term(l, s, carry) || x_condition(k, carry->reduce) != NONE)
        return 0;
    Equation one = term(l, carry);
    IndexId place = x_plain_index(k, one.index[0]);
    return place != NONE && one.nindex == 1 && by->lane != NONE && by->lane != s->c->row && by->nfree == 2 &&
           !k->tensors.at[q->lhs].placed && !query_has_reduce(k, q->rhs) &&
           !x_loads(k, carry->reduce, q->lhs) &&
           ext_same(k->module, lower_length(l, place), lower_length(l, by->lane));
}

static Equation along(Lower *l, const Blocking *by, const RowBlockCarry *carry)
{
    Kernel *k = l->k;
    Equation q = term(l, carry);
    IndexId place = x_plain_index(k, q.index[0]);
    ExprId lane = x_index(k, q.loc, by->lane);
    q.rhs = x_substitute(k, q.rhs, &place, &lane, 1);
    q.index[0] = lane;
    return q;
}

/* The sum that the member after q goes on with, if that is one. */
static RowBlockCarry *next_carry(const RowBlockLaunch *s, uint32_t q)
{
    for (uint32_t i = 0; q + 1 < s->m->n && i < s->carries.len; i++)
        if (s->carries.at[i].q == &s->m->at[q + 1])
            return &s->carries.at[i];
    return NULL;
}

static Blocking *decide_member(Lower *l, const RowBlockLaunch *s, uint32_t q)
{
    Members one = {.at = {s->m->at[q]}, .n = 1};
    RowBlockCarry *next = next_carry(s, q);
    lower_unify(l, &one);
    Blocking *by = lower_decide(l, &one, one.at[0].lhs, s->c, s->c->row);
    if (by->lane != NONE && lower_is_row(l, by->lane) && by->lane != s->c->row)
        by->lane = NONE;
    if (next && goes_along(l, s, by, next)) {
        by->m.at[by->m.n++] = along(l, by, next);
        next->is_done = 1;
    }
    return by;
}

static void find_hoisted(Lower *l, RowBlockLaunch *s, const Blocking *by)
{
    Hoisted hoisted;
    for (uint32_t i = 0; i < by->nproducts; i++) {
        by->product[i].hoisted = lower_hoists(l, s->m, by, i, &hoisted);
        if (by->product[i].hoisted)
            vec_push(l->k->module->arena, &s->hoisted, hoisted);
    }
}

static void report(Lower *l, const RowBlockLaunch *s)
{
    const char *launch = lower_stem(l, &s->m->at[s->m->n - 1]);
    for (uint32_t q = 0; q < s->m->n; q++)
        if (s->by[q])
            lower_report_nest(l, launch, "row-block member", s->by[q]);
    for (uint32_t i = 0; i < s->carries.len; i++)
        if (!s->carries.at[i].is_done)
            lower_report_nest(l, launch, "sum over the row blocks", s->carries.at[i].by);
}

/* ---- the row-block group ---- */

/* Rows that pass through the members together: one where no member has block products or lanes over rows. */
static int64_t rows_together(Lower *l, const Members *m, const Cluster *c)
{
    int many = 0;
    for (uint32_t i = 0; i < m->n && !many; i++) {
        Members one = {.at = {m->at[i]}, .n = 1};
        if (m->at[i].kind == EQ_TOP)
            continue;
        int has_row = lower_has_row(l->k, c, &m->at[i]);
        if (m->at[i].along)
            continue;
        const Blocking *by = lower_decide(l, &one, m->at[i].lhs, c, has_row ? c->row : (IndexId)NONE);
        many = by->row != NONE || by->lane == c->row;
    }
    return many ? schedule_rowblock_rows(l->c, l->k, c) : 1;
}

void rowblock_place(Lower *l, RowBlockLaunch *s)
{
    l->k->clusters.at[s->m->at[0].cluster].usual_rows = 0; /* of another target */
    s->rows = rows_together(l, s->m, s->c);
    rowblock_strips(l, s);
    for (uint32_t i = 0; i < s->m->n; i++)
        if (s->is_sum[i]) /* before others that write its sums */
            place_results(l, s, &s->m->at[i]);
    for (uint32_t i = 0; i < s->m->n; i++) {
        place_results(l, s, &s->m->at[i]);
        if (!lower_has_row(l->k, s->c, &s->m->at[i]))
            find_carries(l, s, &s->m->at[i]);
    }
}

/* Rows of a span, at least: whole blocks. 0: there are no spans. */
static int64_t span_of(const Lower *l, const RowBlockLaunch *s)
{
    if (!s->hoisted.len || s->c->carries)
        return 0;
    int64_t rows = schedule_span(l->c, l->k, s->c->row);
    return rows > s->most ? rows - rows % s->most : s->most;
}

void rowblock_decide(Lower *l, RowBlockLaunch *s)
{
    int by_blocks = s->rows > 1 || pass_traits(l->c)->long_vectors;
    s->most = by_blocks ? schedule_rowblock_rows(l->c, l->k, s->c) : 1;
    s->whole = (Blocking){.lane = NONE, .scan = NONE, .row = s->c->row, .rowblock = s->c};
    for (uint32_t q = 0; q < s->m->n; q++) {
        if (s->m->at[q].kind == EQ_TOP || s->m->at[q].along || !lower_has_row(l->k, s->c, &s->m->at[q]))
            continue;
        s->by[q] = decide_member(l, s, q);
        s->by[q]->along = q && s->m->at[q - 1].along ? &s->m->at[q - 1] : NULL;
    }
    for (uint32_t q = 0; q < s->m->n; q++)
        if (s->by[q])
            find_hoisted(l, s, s->by[q]);
    s->span = span_of(l, s);
    for (uint32_t i = 0; i < s->carries.len; i++)
        if (!s->carries.at[i].is_done)
            decide_carry(l, s, &s->carries.at[i]);
    report(l, s);
}
