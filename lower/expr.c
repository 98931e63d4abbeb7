/* Equation-level expressions in terms of the loops that stand: index variables become what they are bound to,
 * route maps become loads of the route's fields, reductions the registers that hold them. */
#include "lower/lower.h"

static ExprId load1(Lower *l, TensorId t, ExprId subscript) { return x_load(l->k, (Loc){0}, t, &subscript); }

ExprId lower_field(Lower *l, RouteId r, RouteField f, ExprId subscript)
{
    return load1(l, tile_route_field(l->k, r, f), subscript);
}

ExprId lower_run_start(Lower *l, RouteId r, ExprId group) { return lower_field(l, r, RF_start, group); }

ExprId lower_run_end(Lower *l, RouteId r, ExprId group)
{
    return x_op2(l->k, (Loc){0}, OP_add, lower_run_start(l, r, group), lower_field(l, r, RF_count, group));
}

static ExprId translate(Lower *l, ExprId e, ExprMap *memo);

static ExprId index_now(Lower *l, IndexId i)
{
    ExprId bound = i < l->env.value.len ? l->env.value.at[i] : (ExprId)NONE;
    return bound == NONE ? x_index(l->k, (Loc){0}, i) : bound;
}

/* token = slot_of / K, slot = slot_of % K; row_of[token * K + slot]. */
static ExprId route_map(Lower *l, ExprId e, ExprMap *memo)
{
    Kernel *k = l->k;
    Expr x = *x_at(k, e);
    ExprId choices = x_extent(k, x.loc, k->routes.at[x.sym].choices);
    ExprId first = translate(l, x_arg(k, e, 0), memo);
    if (x.kind == X_ROW) {
        ExprId slot = translate(l, x_arg(k, e, 1), memo);
        ExprId flat = x_op2(k, x.loc, OP_add, x_op2(k, x.loc, OP_mul, first, choices), slot);
        return lower_field(l, x.sym, RF_row_of, flat);
    }
    ExprId flat = lower_field(l, x.sym, RF_slot_of, first);
    return x_op2(k, x.loc, x.kind == X_TOKEN ? OP_idiv : OP_imod, flat, choices);
}

static ExprId group_of(Lower *l, ExprId e, ExprMap *memo)
{
    const Expr *row = x_at(l->k, x_arg(l->k, e, 0));
    if (row->kind == X_INDEX && row->sym < l->env.group.len && l->env.group.at[row->sym] != NONE)
        return l->env.group.at[row->sym];
    RouteId r = x_at(l->k, e)->sym;
    if (!l->env.group_of || l->env.group_of[r] == NONE)
        BUG(l->k->module->arena, "lower: no group table for @ in kernel %s", l->k->name);
    return load1(l, l->env.group_of[r], translate(l, x_arg(l->k, e, 0), memo));
}

/* Only the chosen side of an `if` may touch memory, so each conjunct guards the next one too. */
static ExprId choose(Lower *l, ExprId e, ExprMap *memo)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, e)->loc;
    ExprId parts[CONJUNCT_MAX];
    uint32_t n = x_conjuncts(k, x_arg(k, e, 0), parts, CONJUNCT_MAX);
    ExprId otherwise = translate(l, x_arg(k, e, 2), memo);
    ExprId value = translate(l, x_arg(k, e, 1), memo);
    while (n-- > 0)
        value = x_if(k, loc, translate(l, parts[n], memo), value, otherwise);
    return value;
}

static ExprId reduced(Lower *l, ExprId e)
{
    for (uint32_t i = l->env.done.len; i-- > 0;)
        if (l->env.done.at[i].reduce == e)
            return l->env.done.at[i].value;
    BUG(l->k->module->arena, "lower: a reduction of kernel %s has no value", l->k->name);
}

static ExprId rebuild(Lower *l, ExprId e, ExprMap *memo)
{
    ExprId args[MAX_RANK + 2];
    uint32_t n = x_at(l->k, e)->nargs;
    for (uint32_t i = 0; i < n; i++)
        args[i] = translate(l, x_arg(l->k, e, i), memo);
    if (x_at(l->k, e)->kind == X_LOAD) {
        TensorId t = lower_place(l, x_at(l->k, e)->sym, args);
        return x_load(l->k, x_at(l->k, e)->loc, t, args);
    }
    return n ? x_with_args(l->k, e, args) : e;
}

ExprId lower_left_load(const Kernel *k, ExprId left, ScalarOp *cast)
{
    ExprId load = x_unrounded(k, left, cast);
    return x_at(k, load)->kind == X_LOAD ? load : (ExprId)NONE;
}

TensorId lower_lines_along(const Lower *l, ExprId load, ScalarOp cast, IndexId along)
{
    const Kernel *k = l->k;
    const LocalBuffer *p = load == NONE ? NULL : lower_place_of(l, x_at(k, load)->sym);
    if (!p || p->cast != cast || x_plain_index(k, x_arg(k, load, x_at(k, load)->nargs - 1u)) != along)
        return NONE;
    return p->lines;
}

/* A term of a product's left operand from the lines that have it as it is multiplied (Note [Left lines] in rowblock_decide.c), so that
 * it is not rounded for every block of columns again; else NONE. */
static ExprId from_lines(Lower *l, ExprId e, ExprMap *memo)
{
    const Kernel *k = l->k;
    ScalarOp cast;
    if (l->env.lined == NONE)
        return NONE;
    ExprId load = lower_left_load(k, e, &cast);
    TensorId lines = lower_lines_along(l, load, cast, l->env.lined);
    if (lines == NONE)
        return NONE;
    ExprId placed = rebuild(l, load, memo);
    return x_load(l->k, x_at(k, load)->loc, lines, (ExprId[]){x_arg(k, placed, 0), x_arg(k, placed, 1)});
}

static ExprId translate_node(Lower *l, ExprId e, ExprMap *memo)
{
    switch ((ExprKind)x_at(l->k, e)->kind) {
    case X_INDEX: return index_now(l, x_at(l->k, e)->sym);
    case X_TOKEN:
    case X_SLOT:
    case X_ROW: return route_map(l, e, memo);
    case X_GROUP: return group_of(l, e, memo);
    case X_REDUCE: return reduced(l, e);
    case X_IF: return choose(l, e, memo);
    case X_FLOAT:
    case X_INT:
    case X_EXTENT:
    case X_OP:
    case X_LOAD:
    case X_LANES:
    case X_THREADS: break;
    }
    return rebuild(l, e, memo);
}

static ExprId translate(Lower *l, ExprId e, ExprMap *memo)
{
    ExprId value = x_map_get(memo, e);
    if (value == NONE) {
        value = from_lines(l, e, memo);
        if (value == NONE)
            value = translate_node(l, e, memo);
        *x_map_at(memo, e) = value;
    }
    return value;
}

ExprId lower_expr(Lower *l, ExprId e)
{
    ExprMap memo = x_map(l->k, x_below(l->k, e, EVERYWHERE).n);
    return translate(l, e, &memo);
}
