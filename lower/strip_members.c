/* The members of a row-block group that goes in strips of columns (Note [Strips] in strips.c): which sums over columns are taken
 * out of them, and what is computed for each strip.
 *
 * Note [Running maximum]. Softmax needs the maximum m of a row before its first exponential, so a row would have to be there as a
 * whole. Where the program says shift(m), any value near m serves, and every value that depends on it scales with it in a way that is
 * known (Note [Shift] in ir/shift.h). Then strips keep the maximum so far, and what has been added up moves to the next one:
 * before:  m[i] = max(j) s[i, j]   e[i, j] = exp(s[i, j] - shift(m[i]))   z[i] = sum(j) e[i, j]   o[i, d] = (sum(j) e[i, j] * v[j, d]) / z[i]
 * after:   top[i] = -inf   zs[i] = 0   os[i, d] = 0
 *          strips of j { s[i, j] = ...
 *            next[i] = max2(top[i], max(j of the strip) s[i, j])   move[i] = exp(top[i] - next[i])   top[i] = next[i]
 *            zs[i] = zs[i] * move[i]   os[i, d] = os[i, d] * move[i]
 *            e[i, j] = exp(s[i, j] - shift(top[i]))   zs[i] += sum(j of the strip) e   os[i, d] += sum(j of the strip) e * v }
 *          m[i] = top[i]   z[i] = zs[i]   o[i, d] = os[i, d] / z[i]
 * This is known as online softmax. Nothing moves where the maximum stays (times 1), and before a row has a maximum nothing counts:
 * terms of -inf - -inf are dropped (move[i] = -1). Strips begin at multiples of their width, so that a row's bits depend on nothing
 * but the row.
 *
 * Note [Picked elements]. The loss of a token takes one score of its row, at a column that is computed:
 * before:  loss[t] = log(z[t]) + shift(m[t]) - s[t, y[t]]
 * after:   loss[t] = log(z[t]) + shift(m[t]) - sum(v where v == y[t]) s[t, v]
 * The loop over v has one step, in one of the strips. */
#include "lower/strips.h"

#include "passes/schedule.h"

#include <math.h>

/* ---- picked elements ---- */

typedef struct StripPick {
    const StripColumns *c;
    ExprId root; /* of the member */
} StripPick;

/* What the column is computed of is there wherever the member is. */
static ExprId pick(Kernel *k, ExprId e, void *user)
{
    const StripPick *p = user;
    const Expr x = *x_at(k, e);
    uint32_t axis = x.kind == X_LOAD ? strip_column_axis(p->c, x.sym) : (uint32_t)NONE;
    ExprId at = axis == NONE ? (ExprId)NONE : x_arg(k, e, axis), subscripts[MAX_RANK];
    if (at == NONE || x_plain_index(k, at) != NONE || !x_is_asked_for(k, p->root, e) ||
        query_has_reduce(k, at) || query_reads_computed(k, at))
        return e;
    IndexId column = ir_index(k, "v", x.loc, k->tensors.at[x.sym].axes[axis]);
    for (uint32_t a = 0; a < x.nargs; a++)
        subscripts[a] = a == axis ? x_index(k, x.loc, column) : x_arg(k, e, a);
    ExprId here = x_op2(k, x.loc, OP_eq, x_index(k, x.loc, column), at);
    return x_reduce(k, x.loc, RED_SUM, &column, 1, x_load(k, x.loc, x.sym, subscripts), here);
}

int strip_is_pick(const Kernel *k, ExprId reduce)
{
    ExprId when = x_condition(k, reduce);
    return when != NONE && x_is_op(k, when, OP_eq) &&
           x_plain_index(k, x_arg(k, when, 0)) == x_bound(k, reduce, 0);
}

const Members *strip_picks(const StripColumns *c)
{
    Kernel *k = c->l->k;
    Members *to = arena_new_of(k->module->arena, Members);
    *to = *c->s->m;
    for (uint32_t q = 0; q < to->n; q++) {
        StripPick p = {c, to->at[q].rhs};
        if (to->at[q].kind == EQ_ASSIGN)
            to->at[q].rhs = x_rewrite(k, p.root, pick, &p);
    }
    return to;
}

/* ---- what is taken out ---- */

/* A sum over columns, or the maximum, apart from its member. */
typedef struct StripSum {
    uint32_t member;
    ExprId reduce;
    IndexId column;
    Equation add;  /* sums += reduce */
    int is_member; /* the sum is all that the member is, and stands in its tensor */
    int moves;     /* with the running maximum */
} StripSum;

typedef struct StripMembers {
    RowBlockLaunch *s;
    const StripColumns *c;
    Members *m;
    Vec(StripSum) sums;
    TensorId top; /* the running maximum, or NONE */
} StripMembers;

static void put(StripMembers *to, Equation q, RowBlockPhase phase, IndexId column)
{
    to->s->phase[to->m->n] = phase;
    to->s->column[to->m->n] = column;
    to->m->at[to->m->n++] = q;
}

/* One that has only the columns of the strip, of which this is the variable. */
static void put_narrow(StripMembers *to, Equation q, IndexId column)
{
    to->s->is_sum[to->m->n] = 1;
    put(to, q, IN_STRIPS, column);
}

/* Computed before the first strip. */
static void begin(StripMembers *to, const Equation *q, double value)
{
    Kernel *k = to->c->l->k;
    Equation first = *q;
    first.kind = EQ_ASSIGN;
    first.rhs = x_float(k, q->loc, value);
    vec_push(k->module->arena, &to->s->begin, first);
}

/* ---- places ---- */

/* A value of q's left-hand variables, f32, in the thread's memory: to's left side. */
static void new_place(Lower *l, const Equation *q, const char *name, Equation *to)
{
    Kernel *k = l->k;
    const Tensor *of = &k->tensors.at[q->lhs];
    Tensor t = {.name = ir_fresh_name(k, name),
                .original = of->original ? of->original : of->name,
                .loc = q->loc,
                .elem = EL_F32,
                .role = ROLE_LOCAL,
                .placed = q->cluster + 1,
                .route = NONE};
    to->nindex = 0;
    for (uint32_t a = 0; a < q->nindex; a++) {
        IndexId i = x_plain_index(k, q->index[a]);
        if (i == NONE || lower_is_zero(l, i))
            continue;
        t.axes[t.rank++] = (Axis){lower_length(l, i), NONE};
        to->index[to->nindex++] = q->index[a];
    }
    to->lhs = ir_tensor(k, t);
}

static ExprId element(Kernel *k, const Equation *q) { return x_load(k, q->loc, q->lhs, q->index); }

/* ---- sums ---- */

static StripSum new_sum(const StripMembers *to, uint32_t member, ExprId reduce)
{
    Lower *l = to->c->l;
    Kernel *k = l->k;
    const Equation *q = &to->c->s->m->at[member];
    ShiftFault fault = {.of = NONE};
    StripSum sum = {.member = member, .reduce = reduce, .column = strip_sum_column(to->c, reduce), .add = *q};
    sum.add.kind = EQ_ADD;
    sum.add.rhs = reduce;
    sum.moves = to->c->online && strip_moves(to->c, ir_shift_of(k, reduce, to->c->shifts, &fault));
    sum.is_member = q->kind == EQ_ASSIGN && q->rhs == reduce && k->tensors.at[q->lhs].placed &&
                    k->tensors.at[q->lhs].elem == EL_F32;
    if (!sum.is_member) {
        new_place(l, q, "sums", &sum.add);
        schedule_fused(k, q->lhs, sum.add.lhs);
    }
    return sum;
}

static void find_sums(StripMembers *to)
{
    const StripColumns *c = to->c;
    ExprId reds[REDUCE_MAX];
    for (uint32_t q = 0; q < c->s->m->n; q++) {
        uint32_t n = c->nsums[q] && q != c->maximum
                         ? query_reductions(c->l->k, c->s->m->at[q].rhs, reds, REDUCE_MAX)
                         : 0;
        for (uint32_t r = 0; r < n; r++)
            if (strip_sum_column(c, reds[r]) != NONE)
                vec_push(c->l->k->module->arena, &to->sums, new_sum(to, q, reds[r]));
    }
    for (uint32_t i = 0; i < to->sums.len; i++)
        begin(to, &to->sums.at[i].add, 0);
}

/* ---- the running maximum ---- */

typedef struct StripTop {
    TensorId from, to;
} StripTop;

static ExprId put_top(Kernel *k, ExprId e, void *user)
{
    const StripTop *top = user;
    ExprId subscripts[MAX_RANK];
    const Expr *x = x_at(k, e);
    if (x->kind != X_LOAD || x->sym != top->from)
        return e;
    for (uint32_t a = 0; a < x->nargs; a++)
        subscripts[a] = x_arg(k, e, a);
    return x_load(k, x->loc, top->to, subscripts);
}

/* e with the maximum so far. */
static ExprId so_far(const StripMembers *to, ExprId e)
{
    if (to->top == NONE)
        return e;
    StripTop top = {to->c->s->m->at[to->c->maximum].lhs, to->top};
    return x_rewrite(to->c->l->k, e, put_top, &top);
}

/* move = exp(top - next), 1 where the maximum stays, -1 where there was none. */
static Equation move_of(Kernel *k, const Equation *top, const Equation *next, Equation move)
{
    Loc loc = top->loc;
    ExprId from = element(k, top), to = element(k, next);
    ExprId factor = x_op1(k, loc, OP_exp, x_op2(k, loc, OP_sub, from, to));
    ExprId none = x_op2(k, loc, OP_eq, from, x_float(k, loc, -INFINITY));
    factor = x_if(k, loc, none, x_float(k, loc, -1), factor);
    move.rhs = x_if(k, loc, x_op2(k, loc, OP_eq, from, to), x_float(k, loc, 1), factor);
    return move;
}

/* What has been added up moves to the next maximum. */
static void put_moved(StripMembers *to, const StripSum *sum, const Equation *move)
{
    Kernel *k = to->c->l->k;
    Equation q = sum->add;
    Loc loc = q.loc;
    ExprId by = element(k, move), old = element(k, &q);
    q.kind = EQ_ASSIGN;
    q.rhs = x_if(k, loc, x_op2(k, loc, OP_lt, by, x_float(k, loc, 0)), x_float(k, loc, 0),
                 x_op2(k, loc, OP_mul, old, by));
    put(to, q, IN_STRIPS, NONE);
}

static void put_maximum(StripMembers *to)
{
    const StripColumns *c = to->c;
    Lower *l = c->l;
    Kernel *k = l->k;
    const Equation *q = &c->s->m->at[c->maximum];
    Equation top = *q, next = *q, move = *q;
    new_place(l, q, "top", &top);
    new_place(l, q, "next", &next);
    new_place(l, q, "move", &move);
    to->top = top.lhs;
    begin(to, &top, -INFINITY);
    next.rhs = x_op2(k, q->loc, OP_max2, element(k, &top), q->rhs);
    put_narrow(to, next, strip_sum_column(c, q->rhs));
    put(to, move_of(k, &top, &next, move), IN_STRIPS, NONE);
    top.rhs = element(k, &next);
    put(to, top, IN_STRIPS, NONE);
    for (uint32_t i = 0; i < to->sums.len; i++)
        if (to->sums.at[i].moves)
            put_moved(to, &to->sums.at[i], &move);
}

/* ---- all members ---- */

static void put_inside(StripMembers *to, uint32_t member)
{
    const StripColumns *c = to->c;
    Equation q = c->s->m->at[member];
    if (member == c->maximum) {
        put_maximum(to);
    } else if (c->column[member] != NONE) {
        q.rhs = so_far(to, q.rhs);
        put(to, q, IN_STRIPS, c->column[member]);
    }
    for (uint32_t i = 0; i < to->sums.len; i++) {
        StripSum sum = to->sums.at[i];
        if (sum.member != member)
            continue;
        sum.add.rhs = so_far(to, sum.add.rhs);
        put_narrow(to, sum.add, sum.column);
    }
}

/* What is left of a member: its sums and the maximum are there. */
static void put_behind(StripMembers *to, uint32_t member)
{
    Kernel *k = to->c->l->k;
    Equation q = to->c->s->m->at[member];
    for (uint32_t i = 0; i < to->sums.len; i++) {
        const StripSum *sum = &to->sums.at[i];
        if (sum->member == member && sum->is_member)
            return;
        if (sum->member == member)
            q.rhs = x_replace(k, q.rhs, sum->reduce, element(k, &sum->add));
    }
    if (member == to->c->maximum)
        q.rhs = x_load(k, q.loc, to->top, q.index);
    put(to, q, BEHIND_STRIPS, NONE);
}

int strip_members_fit(const StripColumns *c)
{
    uint32_t n = 3; /* the maximum's own */
    for (uint32_t q = 0; q < c->s->m->n; q++)
        n += 1 + 2 * c->nsums[q];
    return n <= CLUSTER_MAX;
}

void strip_members(RowBlockLaunch *s, const StripColumns *c)
{
    const Members *from = s->m;
    StripMembers to = {.s = s, .c = c, .m = arena_new_of(c->l->k->module->arena, Members), .top = NONE};
    find_sums(&to);
    for (uint32_t q = 0; q < from->n; q++)
        if (c->phase[q] == BEFORE_STRIPS)
            put(&to, from->at[q], BEFORE_STRIPS, NONE);
    for (uint32_t q = 0; q < from->n; q++)
        if (c->phase[q] == IN_STRIPS || c->nsums[q])
            put_inside(&to, q);
    for (uint32_t q = 0; q < from->n; q++)
        if (c->phase[q] == BEHIND_STRIPS)
            put_behind(&to, q);
    s->m = to.m;
}
