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
    Nodes below = x_below(k, root, EVERYWHERE);
    ExprMap to = x_map(k, below.n), level = x_map(k, below.n);
    for (uint32_t n = 0; n < below.n; n++) {
        ExprId e = below.at[n], args[MAX_RANK + 2], fresh = e;
        uint32_t nargs = x_at(k, e)->nargs, depth = 0;
        int changed = 0;
        for (uint32_t i = 0; i < nargs; i++) {
            ExprId arg = x_arg(k, e, i);
            uint32_t below_arg = x_map_get(&level, arg);
            args[i] = x_map_get(&to, arg);
            changed |= args[i] != arg;
            depth = below_arg > depth ? below_arg : depth;
        }
        if (changed)
            fresh = x_with_args(k, e, args);
        if (x_at(k, e)->kind == X_REDUCE) {
            fresh = renamed_reduce(k, e, args, depth);
            depth += x_at(k, e)->nbound;
        }
        *x_map_at(&to, e) = fresh;
        *x_map_at(&level, e) = depth;
    }
    return x_map_get(&to, root);
}

ExprId alpha_form(Kernel *k, ExprId e, const IndexId *free, uint32_t nfree)
{
    ExprId to[UINT8_MAX];
    for (uint32_t i = 0; i < nfree; i++)
        to[i] = x_index(k, (Loc){0}, stand_in(k, "$", i, k->indices.at[free[i]].axis));
    return without_bound_names(k, x_substitute(k, e, free, to, nfree));
}
