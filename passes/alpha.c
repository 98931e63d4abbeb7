/* Expressions without the names of their index variables. A bound variable is replaced by one of a fixed row,
 * chosen by how many reductions are below it; so equal reductions become equal nodes, whatever their
 * variables were. */
#include "passes/canonicalise.h"

/* The n-th stand-in over an axis; stand-ins are known by their name, which no text can contain. */
static IndexId stand_in(Kernel *k, const char *row, uint32_t n, Axis axis)
{
    Module *m = k->module;
    Name name = name_of(m->names, arena_printf(m->arena, "%s%u", row, n));
    for (IndexId i = 0; i < k->indices.len; i++) {
        const Index *x = &k->indices.at[i];
        if (x->name == name && x->axis.group == axis.group && ext_same(m, x->axis.extent, axis.extent))
            return i;
    }
    return ir_index(k, name, (Loc){0}, axis);
}

static ExprId renamed_reduce(Kernel *k, ExprId e, const ExprId *args, uint32_t level)
{
    Expr x = *x_at(k, e);
    IndexId from[UINT8_MAX], bound[UINT8_MAX];
    ExprId to[UINT8_MAX], parts[2] = {args[0], x.nargs > 1 ? args[1] : (ExprId)NONE};
    for (uint32_t i = 0; i < x.nbound; i++) {
        from[i] = x_bound(k, e, i);
        bound[i] = stand_in(k, "#", level + i, k->indices.at[from[i]].axis);
        to[i] = x_index(k, x.loc, bound[i]);
    }
    for (uint32_t i = 0; i < 2; i++)
        parts[i] = x_substitute(k, parts[i], from, to, x.nbound);
    return x_reduce(k, x.loc, (ReduceKind)x.op, bound, x.nbound, parts[0], parts[1]);
}

static ExprId without_bound_names(Kernel *k, ExprId root)
{
    uint8_t *seen = x_reachable(k, root, EVERYWHERE);
    ExprId *to = arena_array(k->module->arena, ExprId, root + 1);
    uint32_t *level = arena_array(k->module->arena, uint32_t, root + 1);
    for (ExprId e = 0; e <= root; e++) {
        if (!seen[e])
            continue;
        ExprId args[MAX_RANK + 2];
        int changed = 0;
        for (uint32_t i = 0; i < x_at(k, e)->nargs; i++) {
            ExprId arg = x_arg(k, e, i);
            args[i] = to[arg];
            changed |= args[i] != arg;
            level[e] = level[arg] > level[e] ? level[arg] : level[e];
        }
        to[e] = changed ? x_with_args(k, e, args) : e;
        if (x_at(k, e)->kind == X_REDUCE) {
            to[e] = renamed_reduce(k, e, args, level[e]);
            level[e] += x_at(k, e)->nbound;
        }
    }
    return to[root];
}

ExprId alpha_form(Kernel *k, ExprId e, const IndexId *free, uint32_t nfree)
{
    ExprId to[UINT8_MAX];
    for (uint32_t i = 0; i < nfree; i++)
        to[i] = x_index(k, (Loc){0}, stand_in(k, "$", i, k->indices.at[free[i]].axis));
    return without_bound_names(k, x_substitute(k, e, free, to, nfree));
}
