/* split: what an equation computes more often than it needs becomes a local of its own.
 *
 * requires: canonical equations     gives: reductions that vary with every index around them; products whose operands
 *                                          are memory; top over memory
 * before:  c[t, e] = q[t, e] / (sum(e2) q[t, e2])          o[i, d] = sum(j) bf16(exp(s[i, j])) * v[j, d]
 * after:   z[t] = sum(e2) q[t, e2]                         p[i, j] = bf16(exp(s[i, j]))
 *          c[t, e] = q[t, e] / z[t]                        o[i, d] = sum(j) p[i, j] * v[j, d]
 *
 * On machines where it is another unit's work a sum beside a product of matrices moves too (epilogue_mixes()).
 *
 * before:  y[t, h] = (sum(j) a[t, j] * w[j, h]) + (sum(k) o[rt.row(t, k), h])
 * after:   part[t, h] = sum(k) o[rt.row(t, k), h]
 *          y[t, h] = (sum(j) a[t, j] * w[j, h]) + part[t, h]
 *
 * A part that stands under a condition moves only when it is safe to compute it everywhere: when no subscript in it
 * relies on the condition. */
#include "passes/epilogue.h"
#include "passes/query.h"
#include "passes/schedule.h"

enum { SCOPE_MAX = 64 };

typedef struct Scope {
    IndexId index[SCOPE_MAX];
    uint32_t n;
} Scope;

/* An expression that became a local, and the load that takes its place. */
typedef struct SplitOff {
    ExprId from, load;
} SplitOff;

typedef struct Split {
    Kernel *k;
    const PassContext *c;
    uint32_t at;       /* the equation that is being split; new ones go before it */
    Vec(Equation) out; /* the new list */
    Vec(SplitOff) made;
} Split;

static void scope_add(Scope *s, IndexId i)
{
    for (uint32_t n = 0; n < s->n; n++)
        if (s->index[n] == i)
            return;
    if (s->n < SCOPE_MAX)
        s->index[s->n++] = i;
}

/* Index variables that e uses and does not bind. */
static Scope free_of(const Kernel *k, ExprId e)
{
    Scope out = {.n = 0};
    Arena *scratch = k->module->scratch;
    ArenaMark mark = arena_mark(scratch);
    uint8_t *bound = arena_array(scratch, uint8_t, k->indices.len + 1);
    each_below (n, k, e, EVERYWHERE)
        for (uint32_t b = 0; b < x_at(k, *n)->nbound; b++)
            bound[x_bound(k, *n, b)] = 1;
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_INDEX && !bound[x_at(k, *n)->sym])
            scope_add(&out, x_at(k, *n)->sym);
    arena_release(scratch, mark);
    return out;
}

static int all_dense_or_routed(const Kernel *k, const Scope *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        GroupId g = k->indices.at[s->index[i]].axis.group;
        if (g != NONE && ir_group_route(k, g) == NONE)
            return 0;
    }
    return 1;
}

static Elem elem_of(Type t)
{
    switch (t) {
    case TY_BF16: return EL_BF16;
    case TY_F16: return EL_F16;
    case TY_INT: return EL_I64; /* no range is asked of what is moved */
    case TY_BOOL:
    case TY_F32: break;
    }
    return EL_F32;
}

/* Defines a local over `over` with value e, before the current equation; returns the load that stands for e. */
static ExprId move_out(Split *s, ExprId e, const Scope *over, const char *stem)
{
    Kernel *k = s->k;
    for (uint32_t i = 0; i < s->made.len; i++)
        if (s->made.at[i].from == e)
            return s->made.at[i].load;
    Loc loc = x_at(k, e)->loc;
    Equation q = ir_equation(EQ_ASSIGN, loc);
    Tensor t = {.name = ir_fresh_name(k, stem),
                .loc = loc,
                .role = ROLE_LOCAL,
                .rank = (uint8_t)over->n,
                .route = NONE};
    t.elem = elem_of((Type)x_at(k, e)->type);
    for (uint32_t i = 0; i < over->n; i++) {
        t.axes[i] = k->indices.at[over->index[i]].axis;
        q.index[i] = x_index(k, loc, over->index[i]);
    }
    q.nindex = (uint8_t)over->n;
    q.lhs = ir_tensor(k, t);
    q.rhs = e;
    schedule_fused(k, k->eqs.at[s->at].lhs, q.lhs);
    vec_push(k->module->arena, &s->out, q);
    ExprId load = x_load(k, loc, q.lhs, q.index);
    vec_push(k->module->arena, &s->made, (SplitOff){e, load});
    return load;
}

/* Is e worth a place in memory when a product packs it for each block of columns? */
static int is_work(const Split *s, ExprId e)
{
    const Kernel *k = s->k;
    const Expr *x = x_at(k, e);
    if (x->type == TY_INT || x->type == TY_BOOL)
        return 0;
    return query_has_reduce(k, e) || query_cost(k, e) > schedule_operand_cost(s->c, k, e);
}

/* Where an expression stands. What is shared there is visited once: `done` by guarded, and the factors of a sum's products,
 * map nodes to what they became. */
typedef struct SplitAround {
    Scope scope;
    int guarded;
    ExprMap done[2], factors;
} SplitAround;

static void begin_visits(const Kernel *k, SplitAround *around, ExprId root)
{
    uint32_t n = x_below(k, root, EVERYWHERE).n;
    for (int guarded = 0; guarded < 2; guarded++)
        around->done[guarded] = x_map(k, n);
    around->factors = x_map(k, n);
}

static ExprId visit(Split *s, ExprId e, const SplitAround *around);

/* Is argument a of e evaluated only sometimes? */
static int is_side(const Kernel *k, ExprId e, uint32_t a)
{
    return a > 0 && (x_at(k, e)->kind == X_IF || x_is_op(k, e, OP_and) || x_is_op(k, e, OP_or));
}

/* Should e, standing in `around`, be a local? Fewer indices than around it, and it fits a tensor. */
static int moves(Split *s, ExprId e, const SplitAround *around, Scope *over)
{
    Kernel *k = s->k;
    *over = free_of(k, e);
    return over->n < around->scope.n && over->n <= MAX_RANK && all_dense_or_routed(k, over) &&
           x_at(k, e)->type != TY_INT && (!around->guarded || checks_inside(k, e));
}

static ExprId operand(Split *s, ExprId e, const SplitAround *around)
{
    Kernel *k = s->k;
    Scope over;
    ExprId before = x_map_get(&around->factors, e);
    if (before != NONE)
        return before;
    if (x_is_op(k, e, OP_mul)) {
        ExprId args[2] = {operand(s, x_arg(k, e, 0), around), operand(s, x_arg(k, e, 1), around)};
        return *x_map_at(&around->factors, e) = x_with_args(k, e, args);
    }
    if (x_at(k, e)->kind != X_REDUCE && is_work(s, e) && moves(s, e, around, &over))
        return move_out(s, visit(s, e, around), &over, "part");
    return visit(s, e, around);
}

static int is_sum_of_products(const Kernel *k, ExprId e)
{
    return x_at(k, e)->op == RED_SUM && x_is_op(k, x_arg(k, e, 0), OP_mul);
}

/* ---- sums over the rows of a token ---- */

/* The row that is the whole condition of a sum, rt.row(t, k) >= 0 with k one of its indices; else NONE. */
static ExprId row_of_condition(const Kernel *k, ExprId reduce)
{
    ExprId c = x_condition(k, reduce);
    if (c == NONE || !x_is_op(k, c, OP_ge) || !x_is_int(k, x_arg(k, c, 1), 0) ||
        x_at(k, x_arg(k, c, 0))->kind != X_ROW)
        return NONE;
    ExprId slot = x_arg(k, x_arg(k, c, 0), 1);
    for (uint32_t b = 0; b < x_at(k, reduce)->nbound; b++)
        if (x_at(k, slot)->kind == X_INDEX && x_at(k, slot)->sym == x_bound(k, reduce, b))
            return x_arg(k, c, 0);
    return NONE;
}

/* sum(k, f where rt.row(t, k) >= 0) d[rt.row(t, k), f] * w[@rt.row(t, k), h, f] is a product over rows, whose rows are then
 * added for each token: part[r, h] = sum(f) d[r, f] * w[@r, h, f], sum(k where ...) part[rt.row(t, k), h]. Returns the
 * latter, or NONE where the term looks at the token or the choice in another way too, or relies on a condition. */
static ExprId by_rows(Split *s, ExprId e, const SplitAround *around)
{
    Kernel *k = s->k;
    const Expr x = *x_at(k, e);
    int product = is_sum_of_products(k, e) && type_is_float((Type)x.type) && x.nbound > 1;
    ExprId row = product ? row_of_condition(k, e) : (ExprId)NONE;
    if (row == NONE)
        return NONE;
    IndexId slot = x_at(k, x_arg(k, row, 1))->sym, bound[UINT8_MAX], token;
    uint32_t n = 0;
    for (uint32_t b = 0; b < x.nbound; b++)
        if (x_bound(k, e, b) != slot)
            bound[n++] = x_bound(k, e, b);
    GroupId g = k->routes.at[x_at(k, row)->sym].group;
    Axis axis = {k->module->groups.at[g].rows, g};
    IndexId r = ir_index(k, ir_fresh_name(k, "r"), x.loc, axis);
    ExprId body = x_replace(k, x_arg(k, e, 0), row, x_index(k, x.loc, r));
    token = x_plain_index(k, x_arg(k, row, 0));
    if (token == NONE || x_uses_index(k, body, slot) || x_uses_index(k, body, token) ||
        !x_uses_index(k, body, r))
        return NONE;
    ExprId inner = x_reduce(k, x.loc, RED_SUM, bound, n, body, NONE);
    if (around->guarded && !checks_inside(k, inner))
        return NONE;
    Scope over = {.index = {r}, .n = 1}, rest = free_of(k, inner);
    for (uint32_t i = 0; i < rest.n; i++)
        scope_add(&over, rest.index[i]);
    if (over.n > MAX_RANK)
        return NONE;
    ExprId load = x_substitute(k, move_out(s, inner, &over, "part"), &r, &row, 1);
    return x_reduce(k, x.loc, RED_SUM, &slot, 1, load, x_condition(k, e));
}

static ExprId visit_reduce(Split *s, ExprId e, const SplitAround *around)
{
    ExprId turned = by_rows(s, e, around);
    if (turned != NONE)
        return turned;
    Kernel *k = s->k;
    SplitAround in = *around;
    Scope over;
    ExprId args[2];
    uint32_t nargs = x_at(k, e)->nargs;
    for (uint32_t b = 0; b < x_at(k, e)->nbound; b++)
        scope_add(&in.scope, x_bound(k, e, b));
    begin_visits(k, &in, e);
    if (nargs > 1)
        args[1] = visit(s, x_arg(k, e, 1), &in);
    in.guarded |= nargs > 1;
    args[0] = is_sum_of_products(k, e) ? operand(s, x_arg(k, e, 0), &in) : visit(s, x_arg(k, e, 0), &in);
    e = x_with_args(k, e, args);
    return moves(s, e, around, &over) ? move_out(s, e, &over, "part") : e;
}

static ExprId visit_arguments(Split *s, ExprId e, const SplitAround *around)
{
    Kernel *k = s->k;
    ExprId args[MAX_RANK + 2];
    uint32_t n = x_at(k, e)->nargs;
    for (uint32_t a = 0; a < n; a++) {
        SplitAround in = *around;
        in.guarded |= is_side(k, e, a);
        args[a] = visit(s, x_arg(k, e, a), &in);
    }
    return x_with_args(k, e, args);
}

static ExprId visit(Split *s, ExprId e, const SplitAround *around)
{
    if (!query_has_reduce(s->k, e))
        return e;
    const ExprMap *done = &around->done[around->guarded];
    ExprId before = x_map_get(done, e);
    if (before != NONE)
        return before;
    int reduces = x_at(s->k, e)->kind == X_REDUCE;
    ExprId visited = reduces ? visit_reduce(s, e, around) : visit_arguments(s, e, around);
    *x_map_at(done, e) = visited;
    return visited;
}

/* An equation keeps few enough reductions to hold them in registers. */
static ExprId limit_sums(Split *s, ExprId e, const SplitAround *around)
{
    ExprId reds[REDUCE_MAX];
    uint32_t n = query_reductions(s->k, e, reds, REDUCE_MAX);
    if (n <= SUMS_TOGETHER || around->scope.n > MAX_RANK)
        return e;
    ExprId args[MAX_RANK + 2];
    for (uint32_t a = 0; a < x_at(s->k, e)->nargs; a++) {
        ExprId arg = x_arg(s->k, e, a);
        Scope over = free_of(s->k, arg);
        int heavy = query_has_reduce(s->k, arg) && x_at(s->k, arg)->type != TY_BOOL && over.n <= MAX_RANK &&
                    (!is_side(s->k, e, a) || checks_inside(s->k, arg));
        args[a] = heavy ? move_out(s, limit_sums(s, arg, around), &over, "part") : arg;
    }
    return x_with_args(s->k, e, args);
}

/* top searches memory, [prefix.., searched], or computes its integers where it stands. */
static void split_top(Split *s, Equation *q)
{
    Kernel *k = s->k;
    const Expr *x = x_at(k, q->rhs);
    int plain = x->kind == X_LOAD;
    if (x->type == TY_INT && !query_has_reduce(k, q->rhs))
        return;
    for (uint32_t a = 0; plain && a < x_at(k, q->rhs)->nargs; a++)
        plain = x_at(k, x_arg(k, q->rhs, a))->kind == X_INDEX;
    if (plain)
        return;
    Scope over = {.n = 0};
    for (uint32_t i = 0; i + 1 < q->nindex; i++)
        scope_add(&over, x_at(k, q->index[i])->sym);
    scope_add(&over, q->bound);
    ExprId load = move_out(s, q->rhs, &over, "scores");
    q->rhs = load;
}

/* What has moved for one place serves all, also those where it would have been guarded. */
static ExprId put_moved(Kernel *k, ExprId e, void *user)
{
    const Split *s = user;
    (void)k;
    for (uint32_t i = 0; i < s->made.len; i++)
        if (s->made.at[i].from == e)
            return s->made.at[i].load;
    return e;
}

/* What stands beside products of matrices that are not to be with it (epilogue_mixes()). */
static ExprId part_sums(Split *s, const Equation *q)
{
    Kernel *k = s->k;
    ExprId sums[REDUCE_MAX], e = q->rhs;
    uint32_t n = query_reductions(k, e, sums, REDUCE_MAX);
    for (uint32_t i = 0; i < n && i < REDUCE_MAX; i++) {
        Scope over = free_of(k, sums[i]);
        if (!epilogue_is_product(k, q, sums[i]) && over.n <= MAX_RANK && all_dense_or_routed(k, &over) &&
            x_at(k, sums[i])->type != TY_INT && query_is_sure(k, q->rhs, sums[i]))
            e = x_replace(k, e, sums[i], move_out(s, sums[i], &over, "part"));
    }
    return e;
}

static void split_equation(Split *s, Equation q)
{
    Kernel *k = s->k;
    SplitAround around = {.scope = {.n = 0}};
    s->made.len = 0;
    if (q.kind == EQ_TOP) {
        split_top(s, &q);
    } else if (q.kind == EQ_ASSIGN || q.kind == EQ_ADD) {
        for (uint32_t i = 0; i < q.nindex; i++) {
            Scope own = free_of(k, q.index[i]);
            for (uint32_t n = 0; n < own.n; n++)
                scope_add(&around.scope, own.index[n]);
        }
        if (epilogue_mixes(k, s->c, &s->at, 1))
            q.rhs = part_sums(s, &q);
        begin_visits(k, &around, q.rhs);
        q.rhs = limit_sums(s, visit(s, q.rhs, &around), &around);
        q.rhs = x_rewrite(k, q.rhs, put_moved, s);
    }
    vec_push(k->module->arena, &s->out, q);
}

/* Moved parts may hold parts themselves: again until nothing moves. */
static int split_kernel(Kernel *k, const PassContext *c)
{
    Split s = {.k = k, .c = c};
    for (s.at = 0; s.at < k->eqs.len; s.at++)
        split_equation(&s, k->eqs.at[s.at]);
    int changed = s.out.len != k->eqs.len;
    k->eqs.at = s.out.at;
    k->eqs.len = s.out.len;
    k->eqs.cap = s.out.cap;
    return changed;
}

enum { ROUNDS_MAX = 8 };

void pass_split(Module *m, const PassContext *c)
{
    for (uint32_t i = 0; i < m->kernels.len; i++)
        for (int round = 0; round < ROUNDS_MAX && split_kernel(m->kernels.at[i], c); round++)
            ;
}
