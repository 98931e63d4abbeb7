/* Row-block groups that go in strips of columns.
 *
 * Note [Strips]. What a thread keeps of a row-block group is a block of rows x all columns. Where no member has to see a whole row
 * before another one goes on, the columns of a block go in strips: all members for the first strip, then for the next one, and a
 * thread keeps a block of rows x a strip, which stays in the second cache however many columns there are.
 *   The columns are those of the tensors that are kept (d_s[b, n, i, j]: j), of all that share a variable with them. A member is
 *   before     it looks at no such tensor,
 *   inside     it has the column on its left, or is carried over the rows and has the column as a place, or is the sum below,
 *   behind     it waits for a sum over columns.
 * A sum over columns that is a block product is taken out of its member and added up from strip to strip, in ascending order of
 * the columns and from whole lines on, so no bit depends on strips:
 * before:  d_q[b, i, n, d] = bf16((sum(j where j <= i) d_s[b, n, i, j] * k[b, j, n, d]) * c)
 * after:   sums[b, i, n, d] = 0   strips of j { ... sums[b, i, n, d] += sum(j where j <= i, of the strip) d_s * k }
 *          d_q[b, i, n, d] = bf16(sums[b, i, n, d] * c)
 * An element at a computed column is a sum of one term: Note [Picked elements] in strip_members.c.
 * Any other reduction over columns keeps the group from strips, such as a backward's that sums over a row again (one for which the
 * forward's result is saved does not), but for a maximum under shift: Note [Running maximum] in strip_members.c. */
#include "lower/strips.h"

#include "passes/cluster.h"
#include "passes/schedule.h"

/* When a tensor is complete that is no strip's. */
typedef enum StripLate { LATE_NOT, LATE_BEHIND, LATE_RUNNING } StripLate;

/* ---- the columns ---- */

uint32_t strip_column_axis(const StripColumns *c, TensorId t)
{
    const Kernel *k = c->l->k;
    const Equation *q = c->s->m->at, *end = q + c->s->m->n;
    uint32_t axis = NONE;
    while (q < end && q->lhs != t)
        q++;
    if (!k->tensors.at[t].placed || q == end || q->kind != EQ_ASSIGN)
        return NONE;
    for (uint32_t a = 0; a < q->nindex; a++) {
        IndexId i = x_plain_index(k, q->index[a]);
        if (i != NONE && (i == c->s->c->row || lower_is_outer(c->s->c, i)))
            continue;
        if (i == NONE || axis != NONE || lower_is_zero(c->l, i) || lower_is_row(c->l, i) ||
            !ext_same(k->module, lower_length(c->l, i), k->indices.at[i].axis.extent))
            return NONE;
        axis = a;
    }
    return axis;
}

/* The variable at the columns of a load; NONE: an element that is computed. */
static IndexId column_of(const StripColumns *c, ExprId load)
{
    return x_plain_index(c->l->k, x_arg(c->l->k, load, strip_column_axis(c, x_at(c->l->k, load)->sym)));
}

static int is_linked(const StripColumns *c, ExprId load)
{
    return x_at(c->l->k, load)->kind == X_LOAD && c->linked[x_at(c->l->k, load)->sym];
}

/* A tensor that shares the variable has the columns, too. 0: it has them in no one place. */
static int link(StripColumns *c, TensorId t, uint32_t at, int *more)
{
    if (strip_column_axis(c, t) != at || at == NONE)
        return 0;
    if (!c->linked[t])
        c->linked[t] = (uint8_t)(*more = 1);
    return 1;
}

/* Links what equation q reads below e at variable i. */
static int link_loads(StripColumns *c, ExprId e, IndexId i, int *more)
{
    const Kernel *k = c->l->k;
    each_below (n, k, e, EVERYWHERE)
        for (uint32_t a = 0; x_at(k, *n)->kind == X_LOAD && a < x_at(k, *n)->nargs; a++)
            if (k->tensors.at[x_at(k, *n)->sym].placed && x_uses_index(k, x_arg(k, *n, a), i) &&
                !link(c, x_at(k, *n)->sym, a, more))
                return 0;
    return 1;
}

/* The columns as a variable on the left of member q; NONE: it has none. 0: they stand there and elsewhere, or an element is
 * computed. */
static int find_column(const StripColumns *c, const Equation *q, IndexId *column)
{
    const Kernel *k = c->l->k;
    *column = c->linked[q->lhs] ? x_plain_index(k, q->index[strip_column_axis(c, q->lhs)]) : (IndexId)NONE;
    each_below (n, k, q->rhs, EVERYWHERE) {
        if (!is_linked(c, *n))
            continue;
        IndexId i = column_of(c, *n);
        if (i == NONE || q->kind == EQ_TOP || (*column != NONE && *column != i))
            return 0;
        if (query_on_left(k, q, i) >= 0)
            *column = i;
    }
    return 1;
}

/* Does the reduction go over the columns of one strip after the other? */
static int is_over(const StripColumns *c, ExprId reduce, IndexId i)
{
    const Kernel *k = c->l->k;
    const Expr *x = x_at(k, reduce);
    return x->type != TY_INT && x->nbound == 1 && x_bound(k, reduce, 0) == i &&
           !query_has_reduce(k, x_arg(k, reduce, 0)) &&
           (x_condition(k, reduce) == NONE || !query_has_reduce(k, x_condition(k, reduce)));
}

/* Is it a sum, or the only maximum, which is all that its member computes? */
static int takes_strips(StripColumns *c, uint32_t at, ExprId reduce)
{
    const Kernel *k = c->l->k;
    const Equation *q = &c->s->m->at[at];
    if (x_at(k, reduce)->op == RED_SUM)
        return 1;
    if (!c->online || x_at(k, reduce)->op != RED_MAX || q->kind != EQ_ASSIGN || q->rhs != reduce ||
        (c->maximum != NONE && c->maximum != at))
        return 0;
    for (uint32_t a = 0; a < q->nindex; a++)
        if (x_plain_index(k, q->index[a]) == NONE || lower_is_zero(c->l, x_plain_index(k, q->index[a])))
            return 0;
    c->maximum = at;
    return 1;
}

/* Of a member without the columns on its left: its sums over columns, each of which links what it reads. */
static int count_sums(StripColumns *c, uint32_t at, int *more)
{
    Kernel *k = c->l->k;
    const Equation *q = &c->s->m->at[at];
    uint32_t *count = &c->nsums[at];
    ExprId reds[REDUCE_MAX];
    uint32_t n = query_reductions(k, q->rhs, reds, REDUCE_MAX);
    *count = 0;
    for (uint32_t r = 0; r < n && r < REDUCE_MAX; r++) {
        IndexId i = NONE;
        each_below (e, k, reds[r], EVERYWHERE)
            if (is_linked(c, *e)) {
                i = column_of(c, *e);
                if (!is_over(c, reds[r], i) || !takes_strips(c, at, reds[r]))
                    return 0;
            }
        *count += i != NONE;
        if (i != NONE && !link_loads(c, reds[r], i, more))
            return 0;
    }
    return 1;
}

/* What member q has to do with the columns. 0: nothing that goes in strips. */
static int take_member(StripColumns *c, uint32_t at, int *more)
{
    const Kernel *k = c->l->k;
    const Equation *q = &c->s->m->at[at];
    int has_row = lower_has_row(k, c->s->c, q);
    if (!find_column(c, q, &c->column[at]))
        return 0;
    if (c->column[at] == NONE)
        return count_sums(c, at, more) && (has_row || !c->nsums[at]);
    if (k->tensors.at[q->lhs].placed && !link(c, q->lhs, strip_column_axis(c, q->lhs), more))
        return 0;
    return link_loads(c, q->rhs, c->column[at], more);
}

/* All members, again and again, until no further tensor has the columns. */
static int take_members(StripColumns *c)
{
    for (int more = 1; more;) {
        more = 0;
        for (uint32_t q = 0; q < c->s->m->n; q++)
            if ((c->s->m->at[q].along && !c->online) || !take_member(c, q, &more))
                return 0;
    }
    return 1;
}

/* ---- the order ---- */

IndexId strip_sum_column(const StripColumns *c, ExprId reduce)
{
    each_below (e, c->l->k, reduce, EVERYWHERE)
        if (is_linked(c, *e))
            return column_of(c, *e);
    return NONE;
}

static StripLate how_late(const StripColumns *c, ExprId e)
{
    const Expr *x = x_at(c->l->k, e);
    return x->kind == X_LOAD ? (StripLate)c->late[x->sym] : LATE_NOT;
}

/* Does e wait for what is complete behind the strips? In strips shift(m) is of the maximum so far. */
static int waits(const StripColumns *c, ExprId e, int inside)
{
    const Kernel *k = c->l->k;
    if (how_late(c, e))
        return 1;
    each_below (n, k, e, EVERYWHERE)
        for (uint32_t a = 0; a < x_at(k, *n)->nargs; a++) {
            StripLate late = how_late(c, x_arg(k, *n, a));
            if (late == LATE_BEHIND || (late == LATE_RUNNING && !(inside && x_is_op(k, *n, OP_shift))))
                return 1;
        }
    return 0;
}

/* Does what member q computes in strips wait for what is behind them? What is made of its sums may. */
static int waits_inside(const StripColumns *c, uint32_t q)
{
    ExprId reds[REDUCE_MAX], rhs = c->s->m->at[q].rhs;
    if (c->column[q] != NONE)
        return waits(c, rhs, 1);
    uint32_t n = c->nsums[q] ? query_reductions(c->l->k, rhs, reds, REDUCE_MAX) : 0;
    for (uint32_t r = 0; r < n; r++)
        if (strip_sum_column(c, reds[r]) != NONE && waits(c, reds[r], 1))
            return 1;
    return 0;
}

/* What a reduction passes on its way stands beside it. */
static int stays_along(const StripColumns *c, uint32_t q)
{
    return !c->s->m->at[q].along || (c->column[q] != NONE && c->nsums[q + 1] == 1);
}

/* Does the later member q write what p reads or writes, though it does not stay behind it? */
static int overtakes(const StripColumns *c, uint32_t p, uint32_t q)
{
    const Kernel *k = c->l->k;
    const Equation *first = &c->s->m->at[p], *then = &c->s->m->at[q];
    if (c->phase[p] < c->phase[q] || (c->phase[p] == c->phase[q] && c->phase[p] != IN_STRIPS))
        return 0;
    return first->lhs == then->lhs || x_loads(k, first->rhs, then->lhs) ||
           (then->ids != NONE && x_loads(k, first->rhs, then->ids));
}

static int find_phases(StripColumns *c)
{
    const Members *m = c->s->m;
    for (uint32_t q = 0; q < m->n; q++) {
        if (waits_inside(c, q) || !stays_along(c, q))
            return 0;
        c->phase[q] = c->column[q] != NONE                       ? IN_STRIPS
                      : c->nsums[q] || waits(c, m->at[q].rhs, 0) ? BEHIND_STRIPS
                                                                 : BEFORE_STRIPS;
        if (c->phase[q] == BEFORE_STRIPS)
            continue;
        c->late[m->at[q].lhs] = c->linked[m->at[q].lhs] ? LATE_NOT
                                : q == c->maximum       ? LATE_RUNNING
                                                        : LATE_BEHIND;
        if (m->at[q].ids != NONE)
            c->late[m->at[q].ids] = LATE_BEHIND;
    }
    for (uint32_t q = 0; q < m->n; q++)
        for (uint32_t p = 0; p < q; p++)
            if (overtakes(c, p, q))
                return 0;
    return 1;
}

/* ---- loops ---- */

static const Blocking *probe(const StripColumns *c, Equation q, IndexId row)
{
    Members one = {.at = {q}, .n = 1};
    lower_unify(c->l, &one);
    return lower_decide(c->l, &one, q.lhs, c->s->c, row);
}

/* Its sums over columns are block products of the rows. */
static int multiplies(const StripColumns *c, const Equation *q)
{
    Kernel *k = c->l->k;
    ExprId reds[REDUCE_MAX];
    LowerProduct product;
    const Blocking *by = probe(c, *q, c->s->c->row);
    uint32_t n = query_reductions(k, q->rhs, reds, REDUCE_MAX);
    if (by->row != c->s->c->row)
        return 0;
    for (uint32_t r = 0; r < n; r++)
        if (strip_sum_column(c, reds[r]) != NONE && !lower_factor(c->l, reds[r], by->row, by->lane, &product))
            return 0;
    return 1;
}

/* With a running maximum sums may be any, row by row. */
static int goes_by_row(const StripColumns *c, const Equation *q)
{
    return c->online && probe(c, *q, c->s->c->row)->row == NONE;
}

/* The columns are places of the sums: their rows, or the lanes of sums one by one. */
static int carries(const StripColumns *c, const Equation *q, IndexId column)
{
    Equation sums = *q;
    if (query_reductions(c->l->k, q->rhs, &sums.rhs, 1) != 1)
        return 0;
    sums.kind = EQ_ADD;
    sums.nindex = 0;
    for (uint32_t a = 0; a < q->nindex; a++) {
        IndexId i = x_plain_index(c->l->k, q->index[a]);
        if (i == NONE || !lower_is_outer(c->s->c, i))
            sums.index[sums.nindex++] = q->index[a];
    }
    const Blocking *by = probe(c, sums, NONE);
    return by->row == column || (by->row == NONE && by->lane == column);
}

/* Do its loops have a strip's part? */
static int goes_in_strips(const StripColumns *c, uint32_t at)
{
    const Equation *q = &c->s->m->at[at];
    IndexId column = c->column[at];
    if (column == NONE)
        return !c->nsums[at] || multiplies(c, q) || goes_by_row(c, q);
    if (!lower_has_row(c->l->k, c->s->c, q))
        return carries(c, q, column);
    return q->along || probe(c, *q, c->s->c->row)->lane == column;
}

static int has_loops(const StripColumns *c)
{
    for (uint32_t at = 0; at < c->s->m->n; at++)
        if (!goes_in_strips(c, at))
            return 0;
    return 1;
}

/* ---- conditions ---- */

/* Which columns a member computes or adds up: the condition with variable `as` for the column's. */
static ExprId condition_of(const StripColumns *c, uint32_t at, ExprId reduce, IndexId column, IndexId as)
{
    Kernel *k = c->l->k;
    const Equation *q = &c->s->m->at[at];
    ExprId to = x_index(k, q->loc, as), when = NONE;
    if (reduce != NONE)
        when = x_condition(k, reduce);
    else if (k->tensors.at[q->lhs].placed)
        when = cluster_needed(k, q->lhs);
    return when == NONE ? when : x_substitute(k, when, &column, &to, 1);
}

/* Do two conditions say the same, in whatever order? */
static int say_the_same(Kernel *k, ExprId a, ExprId b)
{
    ExprId x[CONJUNCT_MAX], y[CONJUNCT_MAX];
    uint32_t n = x_conjuncts(k, a, x, CONJUNCT_MAX);
    if (n != x_conjuncts(k, b, y, CONJUNCT_MAX))
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!x_is_among(y, n, x[i]) || !x_is_among(x, n, y[i]))
            return 0;
    return 1;
}

static int add_condition(StripColumns *c, uint32_t at, ExprId reduce, IndexId column)
{
    int first = c->any == NONE;
    if (first)
        c->any = column;
    ExprId when = condition_of(c, at, reduce, column, c->any);
    if (first)
        c->when = when;
    return say_the_same(c->l->k, c->when, when);
}

/* Members in strips all leave out the same columns: then a strip is one for all of them. (Which column is picked says its loop.) */
static int have_one_range(StripColumns *c)
{
    Kernel *k = c->l->k;
    ExprId reds[REDUCE_MAX];
    c->any = NONE;
    for (uint32_t at = 0; at < c->s->m->n; at++) {
        const Equation *q = &c->s->m->at[at];
        int by_row = lower_has_row(k, c->s->c, q);
        uint32_t n = query_reductions(k, q->rhs, reds, REDUCE_MAX);
        if (c->column[at] != NONE && !add_condition(c, at, by_row ? (ExprId)NONE : reds[0], c->column[at]))
            return 0;
        for (uint32_t r = 0; c->nsums[at] && r < n; r++) {
            IndexId column = strip_sum_column(c, reds[r]);
            if (column != NONE && !strip_is_pick(k, reds[r]) && !add_condition(c, at, reds[r], column))
                return 0;
        }
    }
    return 1;
}

/* ---- a running maximum ---- */

int strip_moves(const StripColumns *c, Shift s)
{
    return c->maximum != NONE && s.of != NONE && x_loads(c->l->k, s.of, c->s->m->at[c->maximum].lhs);
}

/* Can what moves with the maximum be moved to the next one? Sums of exp(s - shift(m)), and what a strip alone reads. */
static int can_move(const StripColumns *c, uint32_t at)
{
    Kernel *k = c->l->k;
    const Equation *q = &c->s->m->at[at];
    ShiftFault fault = {.of = NONE};
    ExprId reds[REDUCE_MAX];
    if (c->column[at] != NONE)
        return c->linked[q->lhs] || !strip_moves(c, ir_shift_of(k, q->rhs, c->shifts, &fault));
    uint32_t n = c->nsums[at] ? query_reductions(k, q->rhs, reds, REDUCE_MAX) : 0;
    for (uint32_t r = 0; r < n; r++) {
        Shift s = ir_shift_of(k, reds[r], c->shifts, &fault);
        if (strip_sum_column(c, reds[r]) != NONE && strip_moves(c, s) &&
            (x_at(k, s.of)->kind != X_LOAD || s.times != -1 || s.plus))
            return 0;
    }
    return 1;
}

static int all_move(StripColumns *c)
{
    ShiftFault fault;
    if (!c->online)
        return 1;
    if (c->maximum == NONE)
        return 0;
    c->shifts = ir_shifts(c->l->k, c->l->k->module->arena, &fault);
    for (uint32_t q = 0; q < c->s->m->n && !fault.why; q++)
        if (!can_move(c, q))
            return 0;
    return !fault.why;
}

/* ---- which columns ---- */

/* Bytes of a row that are kept for each column. */
static int64_t bytes_of(const StripColumns *c)
{
    int64_t bytes = 0;
    for (TensorId t = 0; t < c->l->k->tensors.len; t++)
        bytes += c->linked[t] ? (int64_t)elem_bytes(c->l->k->tensors.at[t].elem) : 0;
    return bytes;
}

static int same_extents(StripColumns *c)
{
    const Kernel *k = c->l->k;
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (c->linked[t] &&
            !ext_same(k->module, c->extent, k->tensors.at[t].axes[strip_column_axis(c, t)].extent))
            return 0;
    return 1;
}

/* Does some member add up what the strips compute? Else there is nothing that a strip would stay in the cache for. */
static int adds_up(const StripColumns *c)
{
    for (uint32_t q = 0; q < c->s->m->n; q++)
        if (c->nsums[q] || (c->column[q] != NONE && !lower_has_row(c->l->k, c->s->c, &c->s->m->at[q])))
            return 1;
    return 0;
}

/* The columns of tensor t, or NULL. */
static StripColumns *columns_of(Lower *l, const RowBlockLaunch *s, TensorId t, int online)
{
    Arena *a = l->k->module->arena;
    StripColumns *c = arena_new_of(a, StripColumns);
    *c = (StripColumns){.l = l, .s = s, .online = online, .maximum = NONE};
    c->linked = arena_alloc(a, l->k->tensors.len);
    c->late = arena_alloc(a, l->k->tensors.len);
    uint32_t axis = strip_column_axis(c, t);
    if (axis == NONE)
        return NULL;
    c->extent = l->k->tensors.at[t].axes[axis].extent;
    c->linked[t] = 1;
    return take_members(c) && adds_up(c) && same_extents(c) && find_phases(c) && all_move(c) &&
                   have_one_range(c) && has_loops(c)
               ? c
               : NULL;
}

/* Those that most is kept of. */
static StripColumns *find_columns(Lower *l, const RowBlockLaunch *s, int online)
{
    StripColumns *best = NULL;
    uint8_t *seen = arena_alloc(l->k->module->arena, l->k->tensors.len);
    for (uint32_t q = 0; q < s->m->n; q++) {
        TensorId t = s->m->at[q].lhs;
        StripColumns *c = seen[t] ? NULL : columns_of(l, s, t, online);
        if (!c)
            continue;
        for (TensorId i = 0; i < l->k->tensors.len; i++)
            seen[i] |= c->linked[i];
        if (!best || bytes_of(c) > bytes_of(best))
            best = c;
    }
    return best;
}

/* How they are found: without a running maximum unless more can be left out with one. */
static StripColumns *choose_columns(Lower *l, const RowBlockLaunch *s)
{
    StripColumns *plain = find_columns(l, s, 0), *online = find_columns(l, s, 1);
    return plain && (!online || bytes_of(plain) >= bytes_of(online)) ? plain : online;
}

void rowblock_strips(Lower *l, RowBlockLaunch *s)
{
    Kernel *k = l->k;
    if (!s->may_strip || s->rows == 1 || pass_traits(l->c)->packs_all)
        return;
    const Members *whole = s->m;
    s->m = strip_picks(&(StripColumns){.l = l, .s = s});
    const StripColumns *c = choose_columns(l, s);
    int64_t width = !c                                           ? 0
                    : !c->online                                 ? schedule_columns(l->c, k, s->c->row)
                    : schedule_keeps_running(l->c, k, s->c->row) ? RUNNING_COLUMNS
                                                                 : 0;
    if (!width || !strip_members_fit(c)) {
        s->m = whole;
        return;
    }
    if (s->c->nouter == 0 && !s->c->carries && cpu_can(l->cpu, CPU_TILES)) {
        k->clusters.at[s->m->at[0].cluster].usual_rows = SHARED_ROWS;
        s->rows = schedule_rowblock_rows(l->c, k, s->c);
    }
    s->strip = width;
    s->columns = c->extent;
    s->when = c->when;
    s->strip_column = c->any;
    s->from_multiple = c->online;
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (c->linked[t])
            vec_push(k->module->arena, &s->narrow, ((StripTensor){t, strip_column_axis(c, t)}));
    strip_members(s, c);
}
