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

/* Has a place an axis for this subscript: is it no outer variable, which has its value? */
static int has_axis(const Kernel *k, const Cluster *c, ExprId subscript)
{
    IndexId i = x_plain_index(k, subscript);
    return i == NONE || !lower_is_outer(c, i);
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
    LocalBuffer p = {.tensor = tensor, .row = NONE, .column = strip_axis(s, tensor), .lines = NONE};
    for (uint32_t a = 0; a < q->nindex; a++) {
        if (rows > 0 && x_plain_index(k, q->index[a]) == c->row) {
            p.row = a;
            extents[0] = ext_const(k->module, rows);
        } else if (has_axis(k, c, q->index[a])) {
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

/* Is a sum of q over the rows and another index a block product, once outer variables have their values? */
static int carries_product(Lower *l, const Cluster *c, const Equation *q)
{
    Kernel *k = l->k;
    ExprId reds[REDUCE_MAX];
    Members one = {.at = {*q}, .n = 1};
    Equation *sum = &one.at[0];
    sum->kind = EQ_ADD;
    sum->nindex = 0;
    for (uint32_t a = 0; a < q->nindex; a++)
        if (has_axis(k, c, q->index[a]))
            sum->index[sum->nindex++] = q->index[a];
    uint32_t n = query_reductions(k, q->rhs, reds, REDUCE_MAX);
    for (uint32_t i = 0; i < n; i++) {
        sum->rhs = reds[i];
        if (x_at(k, reds[i])->nbound > 1 && lower_decide(l, &one, q->lhs, c, NONE)->row != NONE)
            return 1;
    }
    return 0;
}

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
        many = by->row != NONE || by->lane == c->row || (!has_row && carries_product(l, c, &m->at[i]));
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

/* ---- left operands that are made in lines ---- */

/* Note [Left lines]. A placed tensor that is a product's left operand, with the block's rows, is stored as the product reads it: in
 * lines, in the type that is multiplied. Otherwise a pass of its own would pack it. Where others read a strip of it, too, the strip is
 * stored both ways; whole rows are not, as both would not fit the second cache.
 *   before:  e[i - u0, j - strip] = bf16(..)    pack left[0, 0] over i, j = e[..]    product sums += left[0, 0] * v[..]
 *   after:   e[i - u0, j - strip] = bf16(..)    product sums += e[0, lo - strip] * v[..]
 * Lanes store whole lines if they go over the terms and begin where a line does. A sum that adds up in its element is never stored, so
 * it has no lines beside it. Targets that read rows of bf16 need no lines. Where
 * there may be few rows, they are packed as ever: the lines of a row are 4 KiB apart, so they compete for one place of the first cache
 * (with lines decoding takes 1.06 to 1.16 times as long). */

/* Do conditions say of the terms at most where they end? Those of a window begin in the middle of a line. */
static int only_end(const Kernel *k, ExprId reduce, IndexId term)
{
    ExprId c[CONJUNCT_MAX];
    uint32_t n = x_conjuncts(k, x_condition(k, reduce), c, CONJUNCT_MAX);
    for (uint32_t i = 0; i < n; i++) {
        int less = x_is_op(k, c[i], OP_lt) || x_is_op(k, c[i], OP_le);
        if (x_uses_index(k, c[i], term) && !(less && x_plain_index(k, x_arg(k, c[i], 0)) == term &&
                                             !x_uses_index(k, x_arg(k, c[i], 1), term)))
            return 0;
    }
    return n < CONJUNCT_MAX;
}

/* How members and sums over the rows read a tensor: as left operands with the block's rows, which are all multiplied in one type and
 * rounded to it in one way, or otherwise. */
typedef struct Reads {
    uint32_t left, others; /* how many of each */
    Elem elem;
    ScalarOp cast;  /* OP_COUNT: they are not rounded */
    int from_first; /* no left operand begins behind the first column */
} Reads;

/* The product whose left operand is this load, and how the load is rounded; or NULL. */
static const LowerProduct *product_of(const Kernel *k, const Blocking *by, ExprId load, ScalarOp *cast)
{
    for (uint32_t i = 0; i < by->nproducts; i++)
        if (by->product[i].left != NONE && lower_left_load(k, by->product[i].left, cast) == load)
            return &by->product[i];
    return NULL;
}

/* Does the product read it by the block's rows and with its terms as the last subscript, where rows are many (Note [Few rows] in
 * hoist.c)? */
static int reads_lines(Lower *l, const RowBlockLaunch *s, const Blocking *by, const LowerProduct *p,
                       ExprId load, IndexId term)
{
    const Kernel *k = l->k;
    uint32_t n = x_at(k, load)->nargs;
    return by->row == s->c->row && n > 1 && x_plain_index(k, x_arg(k, load, n - 1)) == term &&
           (s->c->carries || lower_is_as_long(l, by, p));
}

static void count_load(Lower *l, const RowBlockLaunch *s, const Blocking *by, ExprId load, Reads *r)
{
    const Kernel *k = l->k;
    ScalarOp cast;
    const LowerProduct *p = product_of(k, by, load, &cast);
    IndexId term = p ? x_bound(k, p->reduce, x_at(k, p->reduce)->nbound - 1u) : (IndexId)NONE;
    if (!p || !reads_lines(l, s, by, p, load, term) ||
        (r->left && (r->elem != p->left_elem || r->cast != cast))) {
        r->others++;
        return;
    }
    r->left++;
    r->elem = p->left_elem;
    r->cast = cast;
    r->from_first &= only_end(k, p->reduce, term);
}

static Reads reads_of(Lower *l, const RowBlockLaunch *s, TensorId t)
{
    Reads r = {.cast = OP_COUNT, .from_first = 1};
    for (uint32_t i = 0; i < s->m->n + s->carries.len; i++) {
        const Blocking *by = i < s->m->n ? s->by[i] : s->carries.at[i - s->m->n].by;
        for (uint32_t q = 0; by && q < by->m.n; q++)
            each_below (x, l->k, by->m.at[q].rhs, X_LOAD)
                if (x_at(l->k, *x)->kind == X_LOAD && x_at(l->k, *x)->sym == t)
                    count_load(l, s, by, *x, &r);
        r.others += i < s->m->n && !by && x_loads(l->k, s->m->at[i].rhs, t);
    }
    return r;
}

/* Is q stored by lanes over its last index? What a sum stores on its way has the lanes of its terms. */
static int has_lanes_last(const Lower *l, const Blocking *by, const Equation *q)
{
    IndexId last = x_plain_index(l->k, q->index[q->nindex - 1u]);
    return q->along || (by && by->lane != NONE && by->lane == last);
}

static void decide_lines_of(Lower *l, const RowBlockLaunch *s, uint32_t q, LocalBuffer *p)
{
    Kernel *k = l->k;
    Tensor *t = &k->tensors.at[p->buffer];
    const Equation *e = &s->m->at[q];
    if (t->rank != 2 || p->row == NONE || p->row + 1 >= e->nindex || e->kind != EQ_ASSIGN ||
        !has_lanes_last(l, s->by[q], e))
        return;
    Reads r = reads_of(l, s, e->lhs);
    int type_fits = r.elem == EL_F32 || (r.elem == t->elem && r.cast == OP_COUNT);
    if (!r.left || !type_fits || (r.elem == EL_BF16 && cpu_can(l->cpu, CPU_LEFT_ROWS)))
        return;
    int adds = s->by[q] && s->by[q]->row != NONE; /* products add up where it is stored, in rows */
    if (!adds && !r.others && r.cast == OP_COUNT && r.from_first && layout_is_dense(t->layout)) {
        t->elem = r.elem;
        t->layout = LAYOUT_LINES;
    } else if (p->column != NONE && !e->along && checks_inside(k, e->rhs) &&
               !(adds && lower_is_complete(s->by[q], s->by[q]->m.at))) {
        Extent extents[2] = {t->axes[0].extent, t->axes[1].extent};
        p->cast = r.cast;
        p->lines = build_buffer(&l->b, t->name, r.elem, SPACE_THREAD, 2, extents);
        k->tensors.at[p->lines].layout = LAYOUT_LINES;
    }
}

static void decide_left_lines(Lower *l, const RowBlockLaunch *s)
{
    for (uint32_t q = 0; q < s->m->n; q++)
        for (uint32_t i = 0; i < l->env.places.len; i++)
            if (l->env.places.at[i].tensor == s->m->at[q].lhs)
                decide_lines_of(l, s, q, &l->env.places.at[i]);
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
    if (s->rows > 1 && !pass_traits(l->c)->packs_all)
        decide_left_lines(l, s);
    report(l, s);
}
