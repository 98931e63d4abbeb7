/* Walks over expressions. Nodes are shared, so every walk visits each node once: with a map over node ids. */
#include "ir/ir.h"

#include <string.h>

/* Children have smaller ids than their parents, so one sweep down the ids reaches everything. */
uint8_t *x_reachable(const Kernel *k, ExprId e, uint8_t stop)
{
    uint8_t *seen = arena_alloc(k->module->arena, (size_t)e + 1);
    seen[e] = 1;
    for (ExprId i = e + 1; i-- > 0;)
        if (seen[i] && x_at(k, i)->kind != stop)
            for (uint32_t a = 0; a < x_at(k, i)->nargs; a++)
                seen[x_arg(k, i, a)] = 1;
    return seen;
}

enum { SEARCH_STEPS = 1000 };

/* Follows the nodes whose bit is set; 1 found, 0 not there, -1 too many steps (ids that share a bit). */
static int search_index(const Kernel *k, ExprId e, IndexId index, int *steps)
{
    const Expr *x = x_at(k, e);
    if (!(x->uses >> index % 64 & 1))
        return 0;
    if (x->kind == X_INDEX)
        return x->sym == index;
    if (++*steps > SEARCH_STEPS)
        return -1;
    for (uint32_t a = 0; a < x->nargs; a++) {
        int found = search_index(k, x_arg(k, e, a), index, steps);
        if (found)
            return found;
    }
    return 0;
}

int x_uses_index(const Kernel *k, ExprId e, IndexId index)
{
    int steps = 0;
    int found = e == NONE ? 0 : search_index(k, e, index, &steps);
    if (found >= 0)
        return found;
    uint8_t *seen = x_reachable(k, e, EVERYWHERE);
    for (ExprId i = 0; i <= e; i++)
        if (seen[i] && x_at(k, i)->kind == X_INDEX && x_at(k, i)->sym == index)
            return 1;
    return 0; /* index variables are unique per kernel: a bound one never occurs outside its reduction */
}

int x_loads(const Kernel *k, ExprId e, TensorId t)
{
    if (e == NONE)
        return 0;
    uint8_t *seen = x_reachable(k, e, EVERYWHERE);
    for (ExprId i = 0; i <= e; i++)
        if (seen[i] && x_at(k, i)->kind == X_LOAD && x_at(k, i)->sym == t)
            return 1;
    return 0;
}

uint32_t x_conjuncts(const Kernel *k, ExprId cond, ExprId *out, uint32_t max)
{
    ExprId stack[64];
    uint32_t depth = 0, n = 0;
    if (cond != NONE)
        stack[depth++] = cond;
    while (depth) {
        ExprId e = stack[--depth];
        if (x_is_op(k, e, OP_and) && depth + 2 <= 64) {
            stack[depth++] = x_arg(k, e, 1);
            stack[depth++] = x_arg(k, e, 0);
        } else if (n < max) {
            out[n++] = e;
        } else {
            BUG(k->module->arena, "a condition of kernel %s has more than %u conjuncts", k->name, max);
        }
    }
    return n;
}

ExprId x_rewrite(Kernel *k, ExprId root, XRewrite f, void *user)
{
    if (root == NONE)
        return NONE;
    uint8_t *seen = x_reachable(k, root, EVERYWHERE);
    ExprId *to = arena_array(k->module->arena, ExprId, (size_t)root + 1);
    for (ExprId e = 0; e <= root; e++) {
        if (!seen[e])
            continue;
        ExprId args[MAX_RANK + 2], fresh = e;
        uint32_t n = x_at(k, e)->nargs;
        int changed = 0;
        for (uint32_t i = 0; i < n; i++) {
            args[i] = to[x_arg(k, e, i)];
            changed |= args[i] != x_arg(k, e, i);
        }
        if (changed)
            fresh = x_with_args(k, e, args);
        to[e] = f(k, fresh, user);
    }
    return to[root];
}

typedef struct Substitution {
    const IndexId *from;
    const ExprId *to;
    uint32_t n;
} Substitution;

static ExprId substitute(Kernel *k, ExprId e, void *user)
{
    const Substitution *s = user;
    const Expr *x = x_at(k, e);
    if (x->kind == X_INDEX)
        for (uint32_t i = 0; i < s->n; i++)
            if (x->sym == s->from[i])
                return s->to[i];
    return e;
}

ExprId x_substitute(Kernel *k, ExprId e, const IndexId *from, const ExprId *to, uint32_t n)
{
    uint64_t uses = 0;
    for (uint32_t i = 0; i < n; i++)
        uses |= (uint64_t)1 << from[i] % 64;
    if (e == NONE || !(x_at(k, e)->uses & uses))
        return e;
    return x_rewrite(k, e, substitute, &(Substitution){from, to, n});
}

static uint32_t copied_symbol(const Expr *x, const XMaps *maps)
{
    switch ((ExprKind)x->kind) {
    case X_LOAD: return maps->tensors[x->sym];
    case X_INDEX: return maps->indices[x->sym];
    case X_TOKEN:
    case X_SLOT:
    case X_ROW:
    case X_GROUP: return maps->routes[x->sym];
    case X_FLOAT:
    case X_INT:
    case X_EXTENT:
    case X_OP:
    case X_IF:
    case X_REDUCE:
    case X_LANES: break;
    }
    return x->sym;
}

static ExprId copy_node(Kernel *to, const Kernel *from, ExprId e, const ExprId *args, const XMaps *maps)
{
    Expr x = *x_at(from, e);
    uint32_t sym = copied_symbol(&x, maps);
    IndexId bound[UINT8_MAX];
    for (uint32_t i = 0; i < x.nbound; i++)
        bound[i] = maps->indices[x_bound(from, e, i)];
    switch ((ExprKind)x.kind) {
    case X_FLOAT: return x_float(to, x.loc, x.value.f);
    case X_INT: return x_int(to, x.loc, x.value.i);
    case X_EXTENT: return x_extent(to, x.loc, sym);
    case X_INDEX: return x_index(to, x.loc, sym);
    case X_OP:
        return x.nargs == 1 ? x_op1(to, x.loc, (ScalarOp)x.op, args[0])
                            : x_op2(to, x.loc, (ScalarOp)x.op, args[0], args[1]);
    case X_LOAD: return x_load(to, x.loc, sym, args);
    case X_IF: return x_if(to, x.loc, args[0], args[1], args[2]);
    case X_REDUCE:
        return x_reduce(to, x.loc, (ReduceKind)x.op, bound, x.nbound, args[0], x.nargs > 1 ? args[1] : (ExprId)NONE);
    case X_TOKEN: return x_token(to, x.loc, sym, args[0]);
    case X_SLOT: return x_slot(to, x.loc, sym, args[0]);
    case X_ROW: return x_row(to, x.loc, sym, args[0], args[1]);
    case X_GROUP: return x_group(to, x.loc, sym, args[0]);
    case X_LANES: return x_lanes(to, x.loc, (ReduceKind)x.op, args[0]);
    }
    BUG(to->module->arena, "expression kind %d cannot be copied", x.kind);
}

ExprId x_copy(Kernel *to, const Kernel *from, ExprId root, const XMaps *maps)
{
    if (root == NONE)
        return NONE;
    uint8_t *seen = x_reachable(from, root, EVERYWHERE);
    ExprId *fresh = arena_array(to->module->arena, ExprId, (size_t)root + 1);
    for (ExprId e = 0; e <= root; e++) {
        if (!seen[e])
            continue;
        ExprId args[MAX_RANK + 2];
        for (uint32_t i = 0; i < x_at(from, e)->nargs; i++)
            args[i] = fresh[x_arg(from, e, i)];
        fresh[e] = copy_node(to, from, e, args, maps);
    }
    return fresh[root];
}
