/* The places of an output that hold no row. */
#include "lower/lower.h"

/* The places of an output's row axis that hold no row are zero under `=`. */
static void zero_pads(Lower *l, const Equation *q, uint32_t axis)
{
    Kernel *k = l->k;
    IndexId r = x_at(k, q->index[axis])->sym, e = build_index(&l->b, "e");
    const Group g = k->module->groups.at[k->indices.at[r].axis.group];
    RouteId route = lower_route_of(l, r);
    Loc loc = q->loc;
    ExprId first, end;
    build_launch(&l->b, loc, "pads");
    if (g.kind == GROUP_ROWS) {
        first = lower_run_start(l, route, x_extent(k, loc, g.groups));
        end = x_extent(k, loc, g.rows);
    } else {
        ExprId group = x_index(k, loc, e);
        ExprId next = x_op2(k, loc, OP_mul, x_add(l->k, group, 1), x_extent(k, loc, g.size));
        build_parallel(&l->b, loc, e, x_extent(k, loc, g.groups), 1);
        first = lower_run_end(l, route, group);
        end = next;
    }
    build_for(&l->b, loc, LOOP_ORDERED, r, first, end, 1);
    ExprId at[MAX_RANK];
    for (uint32_t i = 0; i < q->nindex; i++) {
        at[i] = q->index[i];
        if (i == axis || x_at(k, at[i])->kind != X_INDEX)
            continue;
        IndexId j = x_at(k, at[i])->sym;
        int last = i + 1 == q->nindex;
        build_for(&l->b, loc, last ? LOOP_VECTOR : LOOP_ORDERED, j, x_int(k, loc, 0), lower_extent(l, j),
                  last ? l->cpu->lanes : 1);
    }
    int integer = elem_type(k->tensors.at[q->lhs].elem) == TY_INT;
    build_store(&l->b, loc, q->lhs, at, integer ? x_int(k, loc, 0) : x_float(k, loc, 0), 0);
}

void lower_pads(Lower *l, const Equation *q)
{
    if (q->kind != EQ_ASSIGN || l->k->tensors.at[q->lhs].role == ROLE_LOCAL)
        return;
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(l->k, q->index[i])->kind == X_INDEX && lower_is_row(l, x_at(l->k, q->index[i])->sym))
            zero_pads(l, q, i);
}
