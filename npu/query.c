/* Questions about the tiles that are being planned. */
#include "npu/plan.h"

int plan_is_in(const TensorId *list, uint32_t n, TensorId t)
{
    uint32_t i = 0;
    while (i < n && list[i] != t)
        i++;
    return i < n;
}

Stmt plan_at(const Planner *p, StmtId id) { return p->k->tiles->stmts.at[id]; }

uint32_t plan_count_uses(const Planner *p, StmtId first, TensorId t)
{
    uint32_t n = 0;
    tile_walk (w, p->k, first)
        tile_each_operand (o, w.s)
            n += tile_operand_is_buffer(&o) ? o.id == t : tile_operand_is_expr(&o) && x_loads(p->k, o.id, t);
    return n;
}

void plan_add_buffer(TensorId *list, uint32_t *n, uint32_t max, TensorId t)
{
    if (!plan_is_in(list, *n, t) && *n < max)
        list[(*n)++] = t;
}

int plan_is_own_row(const Kernel *k, const Tensor *t, ExprId subscript)
{
    return t->space == SPACE_THREAD && x_is_op(k, subscript, OP_sub) &&
           x_at(k, x_arg(k, subscript, 0))->kind == X_INDEX &&
           x_at(k, x_arg(k, subscript, 1))->kind == X_INDEX;
}

int plan_is_row_value(const Kernel *k, ExprId load, IndexId row)
{
    uint32_t n = x_at(k, load)->nargs;
    if (row == NONE || !n || !plan_is_memory(&k->tensors.at[x_at(k, load)->sym]) ||
        !x_is_unit(k, x_arg(k, load, n - 1), row))
        return 0;
    for (uint32_t a = 0; a + 1 < n; a++)
        if (x_uses_index(k, x_arg(k, load, a), row))
            return 0;
    return 1;
}
