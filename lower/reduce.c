/* Reductions: registers, loops over the reduced indices, terms.
 *
 * Note [Domains]. Reductions of one equation that run over the same indices under the same condition (gate and up of
 * an expert, say) share one loop nest: a Domain. Its conditions become loop bounds where they are comparisons of the
 * index with something the loops outside know, runs of rows for `@r == e`, a walk over one bucket of a counting sort
 * for `key(t) == v`, and tests otherwise. Where a bound varies with the unrolled row, the loop is cut in three: only
 * the ends test, the middle, common to all rows, does not. */
#include "lower/lower.h"

static void declare(Lower *l, const Item *it, Domain *d, uint32_t n)
{
    const Expr *x = x_at(l->k, d->reduce[n]);
    int64_t lanes = d->lane != NONE ? d->width : it->by->lane != NONE ? it->by->width : 0;
    d->acc[n] = build_reg(&l->b, "acc", x->type == TY_INT ? EL_I64 : EL_F32, d->unrolled ? it->unroll : 0,
                          (uint32_t)lanes);
}

ExprId lower_first_value(Lower *l, ExprId reduce, const Equation *onto)
{
    ExprId at[MAX_RANK];
    if (!onto)
        return lower_identity(l, reduce);
    for (uint32_t i = 0; i < onto->nindex; i++)
        at[i] = lower_expr(l, onto->index[i]);
    TensorId t = lower_place(l, onto->lhs, at);
    return x_load(l->k, x_at(l->k, reduce)->loc, t, at);
}

/* An integer max or min without terms has no value. */
static void check_terms(Lower *l, const Domain *d, uint32_t n)
{
    Expr x = *x_at(l->k, d->reduce[n]);
    if (x.op == RED_SUM || x.type != TY_INT)
        return;
    Stmt s = tile_stmt(TILE_check, x.loc);
    s.value =
        x_op2(l->k, x.loc, OP_ne, x_load(l->k, x.loc, d->acc[n], NULL), lower_identity(l, d->reduce[n]));
    s.report = x_int(l->k, x.loc, 0);
    s.status = STATUS_RANGE;
    s.text = arena_printf(l->k->module->arena,
                          "%s: an integer %s over nothing has no value (%%lld terms, %%lld needed)",
                          l->k->name, x.op == RED_MAX ? "max" : "min");
    s.limit = x_int(l->k, x.loc, 1);
    build_put(&l->b, s);
}

void lower_begin_domain(Lower *l, const Item *it, Domain *d, const Equation *onto)
{
    for (uint32_t n = 0; n < d->n; n++) {
        Loc loc = x_at(l->k, d->reduce[n])->loc;
        uint32_t depth = l->b.depth;
        ExprId index;
        declare(l, it, d, n);
        if (d->unrolled)
            lower_open_rows(l, it, loc);
        lower_acc_index(l, d, &index);
        build_store(&l->b, loc, d->acc[n], &index, lower_first_value(l, d->reduce[n], onto), 0);
        build_close(&l->b, depth);
    }
}

void lower_finish_domain(Lower *l, const Domain *d)
{
    for (uint32_t n = 0; n < d->n; n++) {
        Loc loc = x_at(l->k, d->reduce[n])->loc;
        ReduceKind kind = (ReduceKind)x_at(l->k, d->reduce[n])->op;
        ExprId index, value;
        lower_acc_index(l, d, &index);
        value = x_load(l->k, loc, d->acc[n], &index);
        if (d->lane != NONE)
            value = x_lanes(l->k, loc, kind, value);
        if (d->factor[n] != NONE)
            value = x_op2(l->k, loc, OP_mul, value, lower_expr(l, d->factor[n]));
        vec_push(l->k->module->arena, &l->env.done, (Done){d->reduce[n], value, d->guard != NONE});
    }
}

static void report_plain(Lower *l, const Item *it, const Domain *d)
{
    const char *why = it->by->row == NONE ? "no two left-hand indices vary with one operand each"
                                          : "it stands inside another sum, or runs over a bucket";
    for (uint32_t n = 0; n < d->n; n++)
        lower_report(l, it, &(LowerProduct){.reduce = d->reduce[n]},
                     lower_is_anywhere(l, &(Wanted){d->reduce[n], d->guard})
                         ? why
                         : "only the condition that it stands under keeps it inside its tensors");
}

static void emit_domain(Lower *l, const Item *it, Domain *d, const Equation *onto)
{
    uint32_t depth = l->b.depth;
    report_plain(l, it, d);
    lower_begin_domain(l, it, d, onto);
    if (d->guard != NONE) {
        ExprId guard = lower_expr(l, d->guard);
        build_if(&l->b, x_at(l->k, d->reduce[0])->loc, guard);
    }
    uint32_t scope = l->env.scope;
    l->env.scope = l->env.done.len;
    lower_walk(l, it, lower_walk_from(d));
    l->env.scope = scope;
    for (uint32_t n = 0; n < d->n; n++)
        check_terms(l, d, n);
    build_close(&l->b, depth);
    lower_finish_domain(l, d);
}

int lower_chains(Lower *l, const Item *it, const Equation *q)
{
    const Expr *x = x_at(l->k, q->rhs);
    return q->kind == EQ_ADD && l->k->tensors.at[q->lhs].elem == EL_F32 && x->kind == X_REDUCE &&
           x->op == RED_SUM && x->type != TY_INT &&
           (it->by->lane != NONE || lower_reduce_lane(l, q->rhs) == NONE);
}

/* What one expression asks for, and how far each reduction is: its guard's reductions come before it. */
typedef struct Order {
    WantedList found;
    enum { WAITS, OPEN, MADE } * state;
    const Equation *onto;
} Order;

static uint32_t place_of(const Order *o, ExprId reduce)
{
    uint32_t i = 0;
    while (i < o->found.len && o->found.at[i].reduce != reduce)
        i++;
    return i;
}

/* The error ends the compilation; until then the sum is one without condition. */
static void refuse_circle(const Lower *l, ExprId reduce)
{
    diag_add(l->k->module->diags, DIAG_sum_circle, x_at(l->k, reduce)->loc, "give one of them a name",
             "in kernel %s, whether this reduction is computed depends on one that depends on this one",
             l->k->name);
}

static void make(Lower *l, const Item *it, Order *o, uint32_t i)
{
    ExprId reds[REDUCE_MAX], guard = o->found.at[i].guard;
    if (o->state[i] != WAITS)
        return;
    o->state[i] = OPEN;
    uint32_t n = guard == NONE ? 0 : query_reductions(l->k, guard, reds, REDUCE_MAX);
    for (uint32_t r = 0; r < n && r < REDUCE_MAX; r++) {
        uint32_t before = place_of(o, reds[r]);
        if (before < o->found.len && o->state[before] == OPEN) {
            refuse_circle(l, o->found.at[i].reduce);
            guard = NONE;
            break;
        }
        if (before < o->found.len)
            make(l, it, o, before);
    }
    Domain *d = lower_open_domain(l, it, o->found.at[i].reduce, guard);
    o->state[i] = MADE;
    for (uint32_t j = o->found.len; j-- > 0 && d->n < REDUCE_MAX;) {
        ExprId other = o->found.at[j].reduce;
        if (o->state[j] != WAITS || o->found.at[j].guard != guard || !lower_joins(l, it, d, other))
            continue;
        lower_domain_add(l, d, other);
        o->state[j] = MADE;
    }
    emit_domain(l, it, d, o->onto);
}

void lower_sums(Lower *l, const Item *it, ExprId e, const Equation *onto)
{
    Order o = {.found = lower_wanted(l, e), .onto = onto};
    o.state = arena_alloc(l->k->module->arena, sizeof *o.state * o.found.len);
    for (uint32_t i = o.found.len; i-- > 0;)
        make(l, it, &o, i);
}

ExprId lower_value(Lower *l, const Item *it, ExprId e)
{
    uint32_t mark = l->env.done.len;
    lower_sums(l, it, e, NULL);
    ExprId value = lower_expr(l, e);
    l->env.done.len = mark;
    return value;
}
