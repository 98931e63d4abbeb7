/* Expression nodes: hash-consing builders that compute types. */
#include "ir/ir.h"

#include <string.h>

/* What makes a node itself: everything but its place in the source. */
static uint64_t node_hash(const Kernel *k, const Expr *e, const uint32_t *args, const uint32_t *bound)
{
    uint64_t head[3] = {(uint64_t)e->kind | (uint64_t)e->op << 8 | (uint64_t)e->nargs << 16 |
                            (uint64_t)e->nbound << 24 | (uint64_t)e->type << 32,
                        e->sym, (uint64_t)e->value.i};
    uint64_t h = hash_bytes(head, sizeof head, 1);
    (void)k;
    h = hash_bytes(args, sizeof *args * e->nargs, h);
    return hash_bytes(bound, sizeof *bound * e->nbound, h);
}

static int node_same(const Kernel *k, const Expr *a, const Expr *b, const uint32_t *args,
                     const uint32_t *bound)
{
    return a->kind == b->kind && a->type == b->type && a->op == b->op && a->nargs == b->nargs &&
           a->nbound == b->nbound && a->sym == b->sym && a->value.i == b->value.i &&
           (!a->nargs || memcmp(k->links.at + a->args, args, sizeof *args * a->nargs) == 0) &&
           (!a->nbound || memcmp(k->links.at + a->bound, bound, sizeof *bound * a->nbound) == 0);
}

static uint64_t stored_hash(const Kernel *k, const Expr *e)
{
    return node_hash(k, e, k->links.at + e->args, k->links.at + e->bound);
}

static void grow_table(Kernel *k)
{
    uint32_t size = k->cons_size ? k->cons_size * 2 : 256;
    uint32_t *table = arena_array(k->module->arena, uint32_t, size);
    for (ExprId e = 0; e < k->exprs.len; e++) {
        uint32_t at = (uint32_t)stored_hash(k, &k->exprs.at[e]) & (size - 1);
        while (table[at])
            at = (at + 1) & (size - 1);
        table[at] = e + 1;
    }
    k->cons = table;
    k->cons_size = size;
}

static uint32_t push_links(Kernel *k, const uint32_t *ids, uint32_t n)
{
    uint32_t first = k->links.len;
    vec_reserve(k->module->arena, &k->links, first + n);
    if (n)
        memcpy(k->links.at + first, ids, sizeof *ids * n);
    k->links.len = first + n;
    return first;
}

/* The one way a node comes to be. `args` and `bound` must not point into k->links. */
static ExprId node(Kernel *k, Expr e, const ExprId *args, const IndexId *bound)
{
    if (k->exprs.len * 2 >= k->cons_size)
        grow_table(k);
    uint32_t at = (uint32_t)node_hash(k, &e, args, bound) & (k->cons_size - 1);
    for (; k->cons[at]; at = (at + 1) & (k->cons_size - 1))
        if (node_same(k, &k->exprs.at[k->cons[at] - 1], &e, args, bound))
            return k->cons[at] - 1;
    e.uses = e.kind == X_INDEX ? (uint64_t)1 << e.sym % 64 : 0;
    for (uint32_t i = 0; i < e.nargs; i++)
        e.uses |= k->exprs.at[args[i]].uses;
    e.args = push_links(k, args, e.nargs);
    e.bound = push_links(k, bound, e.nbound);
    vec_push(k->module->arena, &k->exprs, e);
    k->cons[at] = k->exprs.len;
    return k->exprs.len - 1;
}

static Type type_of(const Kernel *k, ExprId e) { return (Type)k->exprs.at[e].type; }

ExprId x_float(Kernel *k, Loc loc, double value)
{
    if (value == 0)
        value = 0; /* one zero: -0.0 is written as a negation */
    return node(k, (Expr){.kind = X_FLOAT, .type = TY_F32, .value.f = value, .loc = loc}, NULL, NULL);
}

ExprId x_int(Kernel *k, Loc loc, int64_t value)
{
    return node(k, (Expr){.kind = X_INT, .type = TY_INT, .value.i = value, .loc = loc}, NULL, NULL);
}

ExprId x_extent(Kernel *k, Loc loc, Extent e)
{
    return node(k, (Expr){.kind = X_EXTENT, .type = TY_INT, .sym = e, .loc = loc}, NULL, NULL);
}

ExprId x_index(Kernel *k, Loc loc, IndexId i)
{
    return node(k, (Expr){.kind = X_INDEX, .type = TY_INT, .sym = i, .loc = loc}, NULL, NULL);
}

static Type op_type(const Kernel *k, ScalarOp op, const ExprId *args)
{
    Type a = type_of(k, args[0]);
    switch (scalar_table[op].kind) {
    case SK_ARITH:
        for (uint32_t i = 0; i < scalar_table[op].arity; i++)
            if (type_of(k, args[i]) != TY_INT)
                return TY_F32;
        return TY_INT;
    case SK_FLOAT: return TY_F32;
    case SK_COMPARE:
    case SK_LOGIC: return TY_BOOL;
    case SK_CAST: return op == OP_bf16 ? TY_BF16 : op == OP_f16 ? TY_F16 : op == OP_i32 ? TY_INT : TY_F32;
    case SK_SAME: return a;
    case SK_INDEX: return TY_INT;
    }
    BUG(k->module->arena, "scalar operation %d has no kind", (int)op);
}

static ExprId op_node(Kernel *k, Loc loc, ScalarOp op, const ExprId *args)
{
    Expr e = {.kind = X_OP, .op = (uint8_t)op, .nargs = scalar_table[op].arity, .loc = loc};
    e.type = (uint8_t)op_type(k, op, args);
    return node(k, e, args, NULL);
}

ExprId x_op1(Kernel *k, Loc loc, ScalarOp op, ExprId a)
{
    if (scalar_table[op].arity != 1)
        BUG(k->module->arena, "%s is not unary", scalar_table[op].name);
    return op_node(k, loc, op, &a);
}

ExprId x_as(Kernel *k, ExprId e, Type type)
{
    if (type_of(k, e) == type)
        return e;
    ScalarOp cast = type == TY_BF16 ? OP_bf16 : type == TY_F16 ? OP_f16 : type == TY_INT ? OP_i32 : OP_f32;
    return x_op1(k, x_at(k, e)->loc, cast, e);
}

ExprId x_op2(Kernel *k, Loc loc, ScalarOp op, ExprId a, ExprId b)
{
    if (scalar_table[op].arity != 2)
        BUG(k->module->arena, "%s is not binary", scalar_table[op].name);
    return op_node(k, loc, op, (ExprId[]){a, b});
}

ExprId x_load(Kernel *k, Loc loc, TensorId t, const ExprId *subscripts)
{
    const Tensor *tensor = &k->tensors.at[t];
    Expr e = {.kind = X_LOAD,
              .type = (uint8_t)elem_type(tensor->elem),
              .nargs = tensor->rank,
              .sym = t,
              .loc = loc};
    return node(k, e, subscripts, NULL);
}

/* Integers when both sides are; the common float type when they agree; else f32. */
static Type joined_type(Type a, Type b) { return a == b ? a : TY_F32; }

ExprId x_if(Kernel *k, Loc loc, ExprId condition, ExprId then, ExprId otherwise)
{
    Expr e = {.kind = X_IF, .nargs = 3, .loc = loc};
    e.type = (uint8_t)joined_type(type_of(k, then), type_of(k, otherwise));
    return node(k, e, (ExprId[]){condition, then, otherwise}, NULL);
}

ExprId x_reduce(Kernel *k, Loc loc, ReduceKind kind, const IndexId *bound, uint32_t nbound, ExprId body,
                ExprId condition)
{
    Expr e = {.kind = X_REDUCE,
              .op = (uint8_t)kind,
              .nargs = condition == NONE ? 1 : 2,
              .nbound = (uint8_t)nbound,
              .loc = loc};
    e.type = type_of(k, body) == TY_INT ? TY_INT : TY_F32;
    return node(k, e, (ExprId[]){body, condition}, bound);
}

static ExprId route_node(Kernel *k, Loc loc, ExprKind kind, RouteId r, ExprId a, ExprId b)
{
    Expr e = {.kind = (uint8_t)kind, .type = TY_INT, .nargs = b == NONE ? 1 : 2, .sym = r, .loc = loc};
    return node(k, e, (ExprId[]){a, b}, NULL);
}

ExprId x_token(Kernel *k, Loc loc, RouteId r, ExprId row)
{
    return route_node(k, loc, X_TOKEN, r, row, NONE);
}
ExprId x_slot(Kernel *k, Loc loc, RouteId r, ExprId row) { return route_node(k, loc, X_SLOT, r, row, NONE); }
ExprId x_group(Kernel *k, Loc loc, RouteId r, ExprId row)
{
    return route_node(k, loc, X_GROUP, r, row, NONE);
}

ExprId x_row(Kernel *k, Loc loc, RouteId r, ExprId token, ExprId slot)
{
    return route_node(k, loc, X_ROW, r, token, slot);
}

ExprId x_lanes(Kernel *k, Loc loc, ReduceKind kind, ExprId value)
{
    Expr e = {.kind = X_LANES, .type = k->exprs.at[value].type, .op = (uint8_t)kind, .nargs = 1, .loc = loc};
    return node(k, e, &value, NULL);
}

ExprId x_threads(Kernel *k, Loc loc)
{
    return node(k, (Expr){.kind = X_THREADS, .type = TY_INT, .loc = loc}, NULL, NULL);
}

ExprId x_and(Kernel *k, Loc loc, ExprId a, ExprId b)
{
    if (a == NONE || b == NONE || a == b)
        return a == NONE ? b : a;
    return x_op2(k, loc, OP_and, a, b);
}

ExprId x_with_args(Kernel *k, ExprId id, const ExprId *args)
{
    Expr e = k->exprs.at[id];
    ExprId copy[MAX_RANK + 2];
    IndexId bound[UINT8_MAX];
    memcpy(copy, args, sizeof *args * e.nargs);
    if (e.nbound)
        memcpy(bound, k->links.at + e.bound, sizeof *bound * e.nbound);
    if (e.kind == X_OP)
        e.type = (uint8_t)op_type(k, (ScalarOp)e.op, copy);
    else if (e.kind == X_IF)
        e.type = (uint8_t)joined_type(type_of(k, copy[1]), type_of(k, copy[2]));
    else if (e.kind == X_REDUCE)
        e.type = type_of(k, copy[0]) == TY_INT ? TY_INT : TY_F32;
    return node(k, e, copy, bound);
}

ExprId x_reduce_with(Kernel *k, ExprId reduce, ExprId body, ExprId condition)
{
    Expr e = k->exprs.at[reduce];
    IndexId bound[UINT8_MAX];
    memcpy(bound, k->links.at + e.bound, sizeof *bound * e.nbound);
    return x_reduce(k, e.loc, (ReduceKind)e.op, bound, e.nbound, body, condition);
}

ExprId x_subscript(Kernel *k, ExprId e, Axis axis)
{
    Loc loc = x_at(k, e)->loc;
    IndexId i = x_plain_index(k, e);
    return i == NONE || axis_same(k->module, k->indices.at[i].axis, axis)
               ? e
               : x_op2(k, loc, OP_add, e, x_int(k, loc, 0));
}

int x_is_op(const Kernel *k, ExprId e, ScalarOp op)
{
    return e != NONE && k->exprs.at[e].kind == X_OP && k->exprs.at[e].op == op;
}

ExprId x_unrounded(const Kernel *k, ExprId e, ScalarOp *cast)
{
    int rounded = x_is_op(k, e, OP_bf16) || x_is_op(k, e, OP_f16);
    *cast = rounded ? (ScalarOp)x_at(k, e)->op : OP_COUNT;
    return rounded ? x_arg(k, e, 0) : e;
}

ScalarOp op_turned(ScalarOp op)
{
    return op == OP_lt ? OP_gt : op == OP_le ? OP_ge : op == OP_gt ? OP_lt : op == OP_ge ? OP_le : op;
}

ScalarOp op_negated(ScalarOp op)
{
    static const ScalarOp opposite[][2] = {{OP_lt, OP_ge}, {OP_gt, OP_le}, {OP_eq, OP_ne}};
    for (size_t i = 0; i < sizeof opposite / sizeof *opposite; i++)
        for (int side = 0; side < 2; side++)
            if (op == opposite[i][side])
                return opposite[i][!side];
    return OP_COUNT;
}
