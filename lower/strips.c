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
 * Any other sum over columns, a maximum, or a choice of the K largest keeps the group from strips: the forward of attention, and
 * its backward where it sums over a row again (a backward for which the forward's result is saved does not). */
#include "lower/rowblock.h"

#include "passes/cluster.h"
#include "passes/schedule.h"

typedef struct StripColumns {
    Lower *l;
    const RowBlockLaunch *s;
    uint8_t *linked;             /* by tensor: it has the strips' columns */
    uint8_t *late;               /* by tensor: it is complete behind the strips only */
    IndexId column[CLUSTER_MAX]; /* by member: the variable of the columns on its left, or NONE */
    RowBlockPhase phase[CLUSTER_MAX];
    uint32_t nsums[CLUSTER_MAX]; /* sums over columns */
    Extent extent;
    ExprId when; /* members in strips compute something for a column */
    IndexId any; /* the column's variable there */
} StripColumns;

/* ---- the columns ---- */

/* The axis of t that is neither an outer variable's nor the row's, if there is one such axis; else NONE. */
static uint32_t column_axis(const StripColumns *c, TensorId t)
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

static int has_free(const Kernel *k, const Equation *q, IndexId i)
{
    for (uint32_t a = 0; a < q->nindex; a++)
        if (x_plain_index(k, q->index[a]) == i)
            return 1;
    return 0;
}

/* The variable at the columns of a load; NONE: an element that is computed. */
static IndexId column_of(const StripColumns *c, ExprId load)
{
    return x_plain_index(c->l->k, x_arg(c->l->k, load, column_axis(c, x_at(c->l->k, load)->sym)));
}

static int is_linked(const StripColumns *c, ExprId load)
{
    return x_at(c->l->k, load)->kind == X_LOAD && c->linked[x_at(c->l->k, load)->sym];
}

/* A tensor that shares the variable has the columns, too. 0: it has them in no one place. */
static int link(StripColumns *c, TensorId t, uint32_t at, int *more)
{
    if (c->linked[t])
        return 1;
    c->linked[t] = (uint8_t)(*more = 1);
    return column_axis(c, t) == at;
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
    *column = c->linked[q->lhs] ? x_plain_index(k, q->index[column_axis(c, q->lhs)]) : (IndexId)NONE;
    each_below (n, k, q->rhs, EVERYWHERE) {
        if (!is_linked(c, *n))
            continue;
        IndexId i = column_of(c, *n);
        if (i == NONE || q->kind == EQ_TOP || (*column != NONE && *column != i))
            return 0;
        if (has_free(k, q, i))
            *column = i;
    }
    return 1;
}

/* Is the reduction a sum over the columns of one strip after the other? */
static int is_sum_over(const StripColumns *c, ExprId reduce, IndexId i)
{
    const Kernel *k = c->l->k;
    const Expr *x = x_at(k, reduce);
    return x->op == RED_SUM && x->type != TY_INT && x->nbound == 1 && x_bound(k, reduce, 0) == i &&
           !query_has_reduce(k, x_arg(k, reduce, 0)) &&
           (x_condition(k, reduce) == NONE || !query_has_reduce(k, x_condition(k, reduce)));
}

/* Of a member without the columns on its left: its sums over columns, each of which links what it reads. */
static int count_sums(StripColumns *c, const Equation *q, uint32_t *count, int *more)
{
    Kernel *k = c->l->k;
    ExprId reds[REDUCE_MAX];
    uint32_t n = query_reductions(k, q->rhs, reds, REDUCE_MAX);
    *count = 0;
    for (uint32_t r = 0; r < n && r < REDUCE_MAX; r++) {
        IndexId i = NONE;
        each_below (e, k, reds[r], EVERYWHERE)
            if (is_linked(c, *e)) {
                i = column_of(c, *e);
                if (!is_sum_over(c, reds[r], i))
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
        return count_sums(c, q, &c->nsums[at], more) && (has_row || !c->nsums[at]);
    if (k->tensors.at[q->lhs].placed && !link(c, q->lhs, column_axis(c, q->lhs), more))
        return 0;
    return link_loads(c, q->rhs, c->column[at], more);
}

/* All members, again and again, until no further tensor has the columns. */
static int take_members(StripColumns *c)
{
    for (int more = 1; more;) {
        more = 0;
        for (uint32_t q = 0; q < c->s->m->n; q++)
            if (c->s->m->at[q].along || !take_member(c, q, &more))
                return 0;
    }
    return 1;
}

/* ---- the order ---- */

static int is_inside(const StripColumns *c, uint32_t q) { return c->column[q] != NONE || c->nsums[q] > 0; }

static int reads_late(const StripColumns *c, const Equation *q)
{
    const Kernel *k = c->l->k;
    each_below (n, k, q->rhs, EVERYWHERE)
        if (x_at(k, *n)->kind == X_LOAD && c->late[x_at(k, *n)->sym])
            return 1;
    return 0;
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
        int late = reads_late(c, &m->at[q]), sums = c->nsums[q] > 0;
        if (late && is_inside(c, q))
            return 0;
        c->phase[q] = late || sums ? BEHIND_STRIPS : c->column[q] != NONE ? IN_STRIPS : BEFORE_STRIPS;
        if (c->phase[q] == BEFORE_STRIPS)
            continue;
        c->late[m->at[q].lhs] = !c->linked[m->at[q].lhs];
        if (m->at[q].ids != NONE)
            c->late[m->at[q].ids] = 1;
    }
    for (uint32_t q = 0; q < m->n; q++)
        for (uint32_t p = 0; p < q; p++)
            if (overtakes(c, p, q))
                return 0;
    return 1;
}

/* ---- loops ---- */

/* The variable of a sum over columns, or NONE. */
static IndexId sum_column(const StripColumns *c, ExprId reduce)
{
    each_below (e, c->l->k, reduce, EVERYWHERE)
        if (is_linked(c, *e))
            return column_of(c, *e);
    return NONE;
}

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
        if (sum_column(c, reds[r]) != NONE && !lower_factor(c->l, reds[r], by->row, by->lane, &product))
            return 0;
    return 1;
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

static int has_loops(const StripColumns *c)
{
    for (uint32_t at = 0; at < c->s->m->n; at++) {
        const Equation *q = &c->s->m->at[at];
        IndexId column = c->column[at];
        if (column == NONE                       ? c->nsums[at] && !multiplies(c, q)
            : lower_has_row(c->l->k, c->s->c, q) ? probe(c, *q, c->s->c->row)->lane != column
                                                 : !carries(c, q, column))
            return 0;
    }
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

static int has_conjunct(const ExprId *all, uint32_t n, ExprId e)
{
    for (uint32_t i = 0; i < n; i++)
        if (all[i] == e)
            return 1;
    return 0;
}

/* Do two conditions say the same, in whatever order? */
static int say_the_same(Kernel *k, ExprId a, ExprId b)
{
    ExprId x[CONJUNCT_MAX], y[CONJUNCT_MAX];
    uint32_t n = x_conjuncts(k, a, x, CONJUNCT_MAX);
    if (n != x_conjuncts(k, b, y, CONJUNCT_MAX))
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!has_conjunct(y, n, x[i]) || !has_conjunct(x, n, y[i]))
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

/* Members in strips all leave out the same columns: then a strip is one for all of them. */
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
            IndexId column = sum_column(c, reds[r]);
            if (column != NONE && !add_condition(c, at, reds[r], column))
                return 0;
        }
    }
    return 1;
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
        if (c->linked[t] && !ext_same(k->module, c->extent, k->tensors.at[t].axes[column_axis(c, t)].extent))
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
static StripColumns *columns_of(Lower *l, const RowBlockLaunch *s, TensorId t)
{
    Arena *a = l->k->module->arena;
    StripColumns *c = arena_new_of(a, StripColumns);
    *c = (StripColumns){.l = l, .s = s};
    c->linked = arena_alloc(a, l->k->tensors.len);
    c->late = arena_alloc(a, l->k->tensors.len);
    uint32_t axis = column_axis(c, t);
    if (axis == NONE)
        return NULL;
    c->extent = l->k->tensors.at[t].axes[axis].extent;
    c->linked[t] = 1;
    return take_members(c) && adds_up(c) && same_extents(c) && find_phases(c) && have_one_range(c) &&
                   has_loops(c)
               ? c
               : NULL;
}

/* Those that most is kept of. */
static StripColumns *find_columns(Lower *l, const RowBlockLaunch *s)
{
    StripColumns *best = NULL;
    uint8_t *seen = arena_alloc(l->k->module->arena, l->k->tensors.len);
    for (uint32_t q = 0; q < s->m->n; q++) {
        TensorId t = s->m->at[q].lhs;
        StripColumns *c = seen[t] ? NULL : columns_of(l, s, t);
        if (!c)
            continue;
        for (TensorId i = 0; i < l->k->tensors.len; i++)
            seen[i] |= c->linked[i];
        if (!best || bytes_of(c) > bytes_of(best))
            best = c;
    }
    return best;
}

/* ---- members ---- */

static void put(RowBlockLaunch *s, Members *m, Equation q, RowBlockPhase phase, IndexId column)
{
    s->phase[m->n] = phase;
    s->column[m->n] = column;
    m->at[m->n++] = q;
}

/* What adds up the strips' terms of one sum of q: f32, of the left-hand variables. */
static TensorId sums_of(Lower *l, const Equation *q, uint32_t placed, Equation *add)
{
    Kernel *k = l->k;
    const Tensor *of = &k->tensors.at[q->lhs];
    Tensor t = {.name = ir_fresh_name(k, "sums"),
                .original = of->original ? of->original : of->name,
                .loc = q->loc,
                .elem = EL_F32,
                .role = ROLE_LOCAL,
                .placed = placed,
                .route = NONE};
    add->nindex = 0;
    for (uint32_t a = 0; a < q->nindex; a++) {
        IndexId i = x_plain_index(k, q->index[a]);
        if (i == NONE || lower_is_zero(l, i))
            continue;
        t.axes[t.rank++] = (Axis){lower_length(l, i), NONE};
        add->index[add->nindex++] = q->index[a];
    }
    return ir_tensor(k, t);
}

/* Sums over columns, apart from their member; what is left of it, or 0: nothing is. */
static int take_sums(RowBlockLaunch *s, const StripColumns *c, Members *m, Equation *q)
{
    Lower *l = c->l;
    Kernel *k = l->k;
    ExprId reds[REDUCE_MAX];
    uint32_t n = query_reductions(k, q->rhs, reds, REDUCE_MAX);
    for (uint32_t r = 0; r < n; r++) {
        IndexId column = sum_column(c, reds[r]);
        if (column == NONE)
            continue;
        Equation add = *q;
        add.kind = EQ_ADD;
        add.rhs = reds[r];
        int own = q->kind == EQ_ASSIGN && q->rhs == reds[r] && k->tensors.at[q->lhs].placed &&
                  k->tensors.at[q->lhs].elem == EL_F32;
        if (!own)
            add.lhs = sums_of(l, q, q->cluster + 1, &add);
        s->is_sum[m->n] = 1;
        put(s, m, add, IN_STRIPS, column);
        if (own)
            return 0;
        schedule_fused(k, q->lhs, add.lhs);
        q->rhs = x_replace(k, q->rhs, reds[r], x_load(k, q->loc, add.lhs, add.index));
    }
    return 1;
}

static uint32_t count_all(const StripColumns *c)
{
    uint32_t n = 0;
    for (uint32_t q = 0; q < c->s->m->n; q++)
        n += 1 + c->nsums[q];
    return n;
}

/* The members in the order in which they are computed, sums over columns apart. */
static void split_members(RowBlockLaunch *s, const StripColumns *c)
{
    const Members *from = s->m;
    Members *m = arena_new_of(c->l->k->module->arena, Members);
    Equation rest[CLUSTER_MAX];
    uint32_t nrest = 0;
    for (uint32_t q = 0; q < from->n; q++)
        if (c->phase[q] == BEFORE_STRIPS)
            put(s, m, from->at[q], BEFORE_STRIPS, NONE);
    for (uint32_t q = 0; q < from->n; q++) {
        Equation left = from->at[q];
        if (c->phase[q] == IN_STRIPS)
            put(s, m, left, IN_STRIPS, c->column[q]);
        else if (c->phase[q] == BEHIND_STRIPS && (!c->nsums[q] || take_sums(s, c, m, &left)))
            rest[nrest++] = left;
    }
    for (uint32_t q = 0; q < nrest; q++)
        put(s, m, rest[q], BEHIND_STRIPS, NONE);
    s->m = m;
}

void rowblock_strips(Lower *l, RowBlockLaunch *s)
{
    Kernel *k = l->k;
    if (!s->may_strip || s->rows == 1 || pass_traits(l->c)->packs_all)
        return;
    const StripColumns *c = find_columns(l, s);
    if (!c || count_all(c) > CLUSTER_MAX)
        return;
    s->strip = schedule_columns(l->c, k, s->c->row);
    if (!s->strip)
        return;
    s->columns = c->extent;
    s->when = c->when;
    s->strip_column = c->any;
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (c->linked[t])
            vec_push(k->module->arena, &s->narrow, ((StripTensor){t, column_axis(c, t)}));
    split_members(s, c);
}
