/* Building expressions: names, operators, choices, reductions, with their types and the guards they stand
 * under.
 *
 * Note [Guards]. An expression is evaluated only where the conditions of the `where`s and `if`s around it
 * hold, and the right side of an `and` only where the left side holds. Proofs about subscripts use these, and
 * a row that may be dropped is asked for (`rt.row(t, k) >= 0`) by the nearest reduction unless one of them
 * asks already: before its `where` for what that reads, behind it for the term, and only where the `if`s around the
 * access hold. */
#include "frontend/advice.h"
#include "frontend/sema.h"

Type expr_type(const KernelSema *c, ExprId e) { return (Type)x_at(c->k, e)->type; }

/* Nodes of a function's body are placed where it is called. */
Loc build_loc(const KernelSema *c, const AstExpr *e) { return c->inlined ? c->call_loc : e->loc; }

ExprId build_float(KernelSema *c, ExprId e)
{
    const Expr *x = x_at(c->k, e);
    if (x->type != TY_INT)
        return e;
    return x->kind == X_INT ? x_float(c->k, x->loc, (double)(float)x->value.i)
                            : x_op1(c->k, x->loc, OP_f32, e);
}

/* ---- guards ---- */

static void guard_push(KernelSema *c, ExprId condition)
{
    ExprId list[MAX_CONDITIONS + MAX_DROPPED];
    uint32_t n = x_is_op(c->k, condition, OP_and)
                     ? x_conjuncts(c->k, condition, list, MAX_CONDITIONS + MAX_DROPPED)
                     : 1;
    if (n == 1)
        list[0] = condition;
    for (uint32_t i = 0; i < n; i++)
        vec_push(c->m->arena, &c->guards, list[i]);
    c->guard = x_and(c->k, x_at(c->k, condition)->loc, c->guard, condition);
}

static void guard_leave(KernelSema *c, uint32_t length, ExprId guard)
{
    c->guards.len = length;
    c->guard = guard;
}

/* first[0] and first[1] ... and the conjuncts of rest, each once, leaning left as the text does. */
ExprId build_conjunction(KernelSema *c, Loc loc, const ExprIds *first, ExprId rest)
{
    ExprId list[MAX_CONDITIONS + MAX_DROPPED], all = NONE;
    uint32_t n = x_conjuncts(c->k, rest, list, MAX_CONDITIONS + MAX_DROPPED);
    for (uint32_t i = 0; i < first->len; i++)
        all = x_and(c->k, loc, all, first->at[i]);
    for (uint32_t i = 0; i < n; i++)
        all = x_and(c->k, loc, all, list[i]);
    return all;
}

static uint32_t conjunct_count(const AstExpr *e)
{
    uint32_t n = 1;
    for (; e->kind == AST_OP && e->op == OP_and; e = e->args[0])
        n += conjunct_count(e->args[1]);
    return n;
}

static ExprId build_condition(KernelSema *c, const AstExpr *e)
{
    if (conjunct_count(e) > MAX_CONDITIONS)
        return sema_error(c, DIAG_too_many_axes, e->loc, "compute a part of it in a local of its own",
                          "more than %d conditions are joined by `and`", MAX_CONDITIONS);
    ExprId x = build_expr(c, e);
    if (x == NONE || expr_type(c, x) == TY_BOOL)
        return x;
    sema_error(c, DIAG_not_condition, build_loc(c, e), "compare it", "%s is a number, not a condition",
               sema_text(c, x));
    diag_wrap(c->m->diags, build_loc(c, e), "", " != 0");
    return NONE;
}

ExprId sema_condition(KernelSema *c, const AstExpr *e, const char *text, const char *wanted)
{
    sema_error(c, DIAG_condition_value, build_loc(c, e), "choose two numbers by it",
               "%s is a condition, not %s", text, wanted);
    diag_wrap(c->m->diags, build_loc(c, e), "if(", ", 1, 0)");
    return NONE;
}

static ExprId build_number(KernelSema *c, const AstExpr *e)
{
    ExprId x = build_expr(c, e);
    return x != NONE && expr_type(c, x) == TY_BOOL ? sema_condition(c, e, sema_text(c, x), "a number") : x;
}

ExprId build_integer(KernelSema *c, const AstExpr *e)
{
    ExprId x = build_expr(c, e);
    if (x == NONE || expr_type(c, x) == TY_INT)
        return x;
    const char *text = sema_text(c, x);
    if (expr_type(c, x) == TY_BOOL)
        return sema_condition(c, e, text, "a subscript");
    const char *whole = sema_quotient(c, x);
    sema_error(c, DIAG_float_index, build_loc(c, e),
               whole ? "divide integers by idiv, which rounds down"
                     : "make an integer of it, which truncates",
               "%s is %s, but a subscript is an integer", text, type_name(expr_type(c, x)));
    sema_edit_integer(c, build_loc(c, e), whole);
    return NONE;
}

/* ---- names ---- */

static ExprId build_argument(KernelSema *c, const AstExpr *e)
{
    const AstNames *names = c->inlined->fn->names;
    for (uint32_t i = 0; i < names->list.len; i++)
        if (names->list.at[i].name == e->name.name)
            return c->inlined->values[i];
    uint32_t dim = namemap_get(&c->c->dims, e->name.name);
    if (dim == NAME_ABSENT) { /* sema_fn.c has said so, or the file is broken */
        c->failed = 1;
        return NONE;
    }
    return x_extent(c->k, c->call_loc, ext_dim(c->m, dim));
}

/* A sum over the name, where it can go around all of the right side. */
static void propose_sum(KernelSema *c, Name name)
{
    const AstExpr *all = c->equation ? c->equation->rhs : NULL;
    int product =
        all && (all->kind == AST_ACCESS || (all->kind == AST_OP && (all->op == OP_mul || all->op == OP_div)));
    if (product)
        diag_wrap(c->m->diags, all->loc, arena_printf(c->m->arena, "sum(%s) ", name), "");
}

static ExprId refuse_name(KernelSema *c, const AstExpr *e)
{
    Name name = e->name.name;
    const Ahead *ahead = sema_ahead(c, name);
    c->failed |= namemap_get(&c->poison, name) != NAME_ABSENT || c->decl->equations->broken || c->c->broken;
    if (ahead && sema_is_recurrence(c, e->name))
        return NONE;
    if (ahead)
        return sema_error(c, DIAG_used_before, e->loc, "move the equation that defines it above this one",
                          "%s is used before it is defined", name);
    if (sema_is_behind_reduction(c, e))
        return NONE;
    if (habit_value(name))
        return sema_error(c, DIAG_unknown_name, e->loc, habit_value(name), "there is no %s here", name);
    Guess g = sema_guess(c, name, 0, 1);
    sema_error(
        c, DIAG_unknown_name, e->loc,
        guess_help(c->m->arena, &g, "an index is bound by the left side or by a reduction, such as a sum"),
        "%s is no index that is bound here, no scalar and no dimension", name);
    guess_edit(c->m->diags, &g, e->loc);
    if (!g.best)
        propose_sum(c, name);
    return NONE;
}

/* Those of the left side, when there are as many. */
static void propose_subscripts(KernelSema *c, Loc name, uint32_t rank)
{
    const AstSubscripts *left = c->equation ? c->equation->lhs->subscripts : NULL;
    Text t = {.arena = c->m->arena};
    for (uint32_t i = 0; left && left->list.len == rank && i < rank; i++)
        if (left->list.at[i].value->kind == AST_NAME)
            text_add(&t, "%s%s", i ? ", " : "[", left->list.at[i].value->name.name);
        else
            return;
    if (t.len)
        diag_wrap(c->m->diags, name, "", arena_printf(c->m->arena, "%s]", text_string(&t)));
}

static ExprId build_name(KernelSema *c, const AstExpr *e)
{
    Name name = e->name.name;
    uint32_t id;
    if (c->inlined)
        return build_argument(c, e);
    if (var_find(c, name, &id))
        return x_index(c->k, e->loc, c->vars.at[id].id);
    if (symbol_get(c, name, SYMBOL_TENSOR, &id)) {
        if (c->k->tensors.at[id].rank == 0)
            return sema_readable(c, id, e->loc) ? x_load(c->k, e->loc, id, NULL) : (ExprId)NONE;
        sema_error(c, DIAG_tensor_value, e->loc, "give it a subscript for each axis",
                   "%s is a tensor of %s: an expression takes one element", name,
                   count_text(c->m->arena, c->k->tensors.at[id].rank, "axis"));
        propose_subscripts(c, e->loc, c->k->tensors.at[id].rank);
        return NONE;
    }
    if (symbol_get(c, name, SYMBOL_ROUTE, &id))
        return sema_error(c, DIAG_route_value, e->loc, arena_printf(c->m->arena, "write %s.row(t, k)", name),
                          "%s is a route, not a number", name);
    uint32_t dim = namemap_get(&c->c->dims, name);
    return dim != NAME_ABSENT ? x_extent(c->k, e->loc, ext_dim(c->m, dim)) : refuse_name(c, e);
}

/* ---- operators ---- */

/* `and`, `or`: the right side is evaluated only where the left one holds, or does not. */
static ExprId build_junction(KernelSema *c, const AstExpr *e)
{
    uint32_t outside = c->guards.len;
    ExprId guard = c->guard, a = build_condition(c, e->args[0]), b;
    if (a == NONE)
        return NONE;
    guard_push(c, e->op == OP_and ? a : x_op1(c->k, build_loc(c, e), OP_not, a));
    b = build_condition(c, e->args[1]);
    guard_leave(c, outside, guard);
    return b == NONE ? (ExprId)NONE : x_op2(c->k, build_loc(c, e), (ScalarOp)e->op, a, b);
}

static ExprId build_op(KernelSema *c, const AstExpr *e)
{
    ScalarOp op = (ScalarOp)e->op;
    ExprId arg[2] = {NONE, NONE};
    if (op == OP_and || op == OP_or)
        return build_junction(c, e);
    for (uint32_t i = 0; i < e->nargs; i++) {
        arg[i] =
            scalar_table[op].kind == SK_LOGIC ? build_condition(c, e->args[i]) : build_number(c, e->args[i]);
        if (arg[i] == NONE)
            return NONE;
    }
    int floats = e->nargs == 2 && (expr_type(c, arg[0]) != TY_INT || expr_type(c, arg[1]) != TY_INT);
    for (uint32_t i = 0; floats && scalar_table[op].kind == SK_COMPARE && i < 2; i++)
        arg[i] = build_float(c, arg[i]);
    Loc loc = build_loc(c, e);
    return e->nargs == 1 ? x_op1(c->k, loc, op, arg[0]) : x_op2(c->k, loc, op, arg[0], arg[1]);
}

static ExprId build_side(KernelSema *c, const AstExpr *e, ExprId condition)
{
    uint32_t outside = c->guards.len;
    ExprId guard = c->guard;
    guard_push(c, condition);
    ExprId side = build_number(c, e);
    guard_leave(c, outside, guard);
    return side;
}

static ExprId build_if(KernelSema *c, const AstExpr *e)
{
    Loc loc = build_loc(c, e);
    ExprId condition = build_condition(c, e->args[0]);
    ExprId then = condition == NONE ? (ExprId)NONE : build_side(c, e->args[1], condition);
    ExprId otherwise =
        then == NONE ? (ExprId)NONE : build_side(c, e->args[2], x_op1(c->k, loc, OP_not, condition));
    if (otherwise == NONE)
        return NONE;
    if (expr_type(c, then) != TY_INT || expr_type(c, otherwise) != TY_INT) {
        then = build_float(c, then);
        otherwise = build_float(c, otherwise);
    }
    return x_if(c->k, loc, condition, then, otherwise);
}

/* ---- reductions ---- */

/* `r in e` is the condition @r == e. */
static ExprId build_in(KernelSema *c, const AstBind *b)
{
    ExprId e = build_integer(c, b->in), row = x_index(c->k, b->index.loc, c->vars.at[b->var].id);
    if (e == NONE)
        return NONE;
    ExprId group = build_group_of(c, b->index.loc, row);
    return group == NONE ? (ExprId)NONE : x_op2(c->k, b->index.loc, OP_eq, group, e);
}

/* The condition that stands in the text; its `in`s guard the rest of it. */
static int build_where(KernelSema *c, const AstExpr *e, ExprId *out)
{
    *out = NONE;
    for (uint32_t i = 0; i < e->binds->list.len; i++) {
        const AstBind *b = &e->binds->list.at[i];
        ExprId in = b->in ? build_in(c, b) : (ExprId)NONE;
        if (c->failed)
            return 0;
        if (in != NONE)
            guard_push(c, in);
        *out = x_and(c->k, e->loc, *out, in);
    }
    ExprId where = e->condition ? build_condition(c, e->condition) : (ExprId)NONE;
    if (where != NONE)
        guard_push(c, where);
    *out = x_and(c->k, e->loc, *out, where);
    return !c->failed;
}

static ExprId build_reduce(KernelSema *c, const AstExpr *e)
{
    ExprIds needs = {0}, *outer_needs = c->needs;
    uint32_t guards = c->guards.len, scope = c->scope.len, nbound = e->binds->list.len;
    uint32_t outer_from = c->needs_from;
    ExprId guard = c->guard, condition, body = NONE;
    IndexId bound[MAX_RANK];
    c->needs = &needs;
    c->needs_from = c->guards.len;
    for (uint32_t i = 0; i < nbound; i++) {
        bound[i] = c->vars.at[e->binds->list.at[i].var].id;
        scope_push(c, e->binds->list.at[i].var);
    }
    int good = build_where(c, e, &condition);
    condition = good ? build_conjunction(c, e->loc, &needs, condition) : (ExprId)NONE;
    uint32_t before = needs.len;
    c->needs_from = c->guards.len;
    if (good)
        body = build_number(c, e->args[0]);
    c->needs = outer_needs;
    c->needs_from = outer_from;
    guard_leave(c, guards, guard);
    scope_leave(c, scope);
    if (body == NONE)
        return NONE;
    if (needs.len > MAX_DROPPED)
        return sema_error(c, DIAG_too_many_axes, e->loc, "read some of them in a local of its own",
                          "more than %d rows that may be dropped are used in one reduction", MAX_DROPPED);
    for (uint32_t i = before; i < needs.len; i++)
        condition = x_and(c->k, e->loc, condition, needs.at[i]);
    return x_reduce(c->k, e->loc, (ReduceKind)e->op, bound, nbound, body, condition);
}

/* ---- all ---- */

static ExprId build_kind(KernelSema *c, const AstExpr *e)
{
    switch (e->kind) {
    case AST_BAD: c->failed = 1; return NONE;
    case AST_INT: return x_int(c->k, build_loc(c, e), e->integer);
    case AST_FLOAT: return x_float(c->k, build_loc(c, e), e->real);
    case AST_NAME: return build_name(c, e);
    case AST_ACCESS: return build_access(c, e);
    case AST_CALL: return build_call(c, e);
    case AST_MAP: return build_map(c, e);
    case AST_GROUP: return build_group(c, e);
    case AST_OP: return build_op(c, e);
    case AST_IF: return build_if(c, e);
    case AST_REDUCE: return build_reduce(c, e);
    }
    BUG(c->m->arena, "an AST node of kind %d in kernel %s", (int)e->kind, c->k->name);
}

/* How deep the nodes made since the last call are: arguments have smaller ids than what uses them. */
static uint32_t height_of(KernelSema *c, ExprId e)
{
    while (c->heights.len < c->k->exprs.len) {
        ExprId next = c->heights.len;
        uint32_t height = 0;
        for (uint32_t i = 0; i < x_at(c->k, next)->nargs; i++) {
            uint32_t h = c->heights.at[x_arg(c->k, next, i)];
            height = h > height ? h : height;
        }
        vec_push(c->m->arena, &c->heights, (uint16_t)(height < UINT16_MAX ? height + 1 : height));
    }
    return c->heights.at[e];
}

ExprId build_expr(KernelSema *c, const AstExpr *e)
{
    if (c->failed)
        return NONE;
    if (c->depth >= AST_MAX_HEIGHT + 100)
        return sema_error(c, DIAG_nesting, build_loc(c, e),
                          "give a part of it a name of its own in an equation above",
                          "this expression is too deep with its functions put in");
    c->depth++;
    ExprId x = build_kind(c, e);
    c->depth--;
    if (x == NONE)
        return NONE;
    if (height_of(c, x) > AST_MAX_HEIGHT + 100)
        return sema_error(
            c, DIAG_nesting, build_loc(c, e), "give a part of it a name of its own in an equation above",
            "this expression is more than %d operations deep with its functions put in", AST_MAX_HEIGHT);
    if (c->k->exprs.len > MAX_NODES)
        return sema_error(c, DIAG_program_size, build_loc(c, e), "give parts of it names of their own",
                          "kernel %s has more than %d operations with its functions put in", c->k->name,
                          MAX_NODES);
    return x;
}
