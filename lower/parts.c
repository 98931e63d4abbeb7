/* Row-block groups that add up over their rows and have no outer variables.
 *
 * Note [Parts]. Sums over the rows go from block to block, so blocks must go in order, and without outer variables nothing
 * would be left to do in parallel. There the rows are cut into parts, as many as their number says, each with sums of its
 * own; the next launch adds those up:
 *   parts[p, h] = sum(t in part p) d_y[t, h] * x[t, h]        d_w[h] += sum(p) parts[p, h]
 * The part stands for the outer variable. */
#include "lower/lower.h"

#include <string.h>

static Parts parts_of(Lower *l, IndexId row)
{
    Kernel *k = l->k;
    Loc loc = {0};
    ExprId all = lower_extent(l, row),
           more = x_op2(k, loc, OP_idiv, all, x_int(k, loc, PARTS_MOST * PART_ROWS));
    Parts p = {.rows = x_op2(k, loc, OP_mul, x_add(l->k, more, 1), x_int(k, loc, PART_ROWS))};
    p.count = x_op2(k, loc, OP_idiv, x_add(l->k, x_op2(k, loc, OP_add, all, p.rows), -1), p.rows);
    return p;
}

/* parts[part, ...] = the sum of q, whose elements are each part's. */
static Equation part_of(Lower *l, const Equation *q, IndexId part)
{
    Kernel *k = l->k;
    const Tensor *t = &k->tensors.at[q->lhs];
    Equation own = *q;
    Extent extents[MAX_RANK] = {ext_const(k->module, PARTS_MOST)};
    own.index[0] = x_index(k, q->loc, part);
    for (uint32_t i = 0; i < q->nindex; i++) {
        extents[i + 1] = t->axes[i].extent;
        own.index[i + 1] = q->index[i];
    }
    own.nindex++;
    own.kind = EQ_ASSIGN;
    own.lhs = build_buffer(&l->b, "parts", EL_F32, SPACE_WORK, own.nindex, extents);
    query_reductions(k, q->rhs, &own.rhs, 1);
    return own;
}

/* q with the sum of the parts for its own. */
static void add_parts(Lower *l, const Equation *q, const Equation *own, const Parts *p)
{
    Kernel *k = l->k;
    Members one = {.at = {*q}, .n = 1};
    ExprId at[MAX_RANK];
    IndexId part = ir_index(k, ir_fresh_name(k, "p"), q->loc, k->tensors.at[own->lhs].axes[0]);
    memcpy(at, own->index, sizeof at);
    at[0] = x_index(k, q->loc, part);
    ExprId sum = x_reduce(k, q->loc, RED_SUM, &part, 1, x_load(k, q->loc, own->lhs, at),
                          x_op2(k, q->loc, OP_lt, at[0], p->count));
    one.at[0].rhs = x_replace(k, q->rhs, own->rhs, sum);
    lower_elements(l, &one);
}

void lower_in_parts(Lower *l, const Members *m, const Cluster *c)
{
    Cluster parted = *c;
    Members own = *m;
    Parts parts = parts_of(l, c->row);
    parted.outer[parted.nouter++] = build_index(&l->b, "p");
    for (uint32_t q = 0; q < m->n; q++)
        if (!lower_has_row(l->k, c, &m->at[q]))
            own.at[q] = part_of(l, &m->at[q], parted.outer[0]);
    lower_rowblock(l, &own, &parted, &parts);
    for (uint32_t q = 0; q < m->n; q++)
        if (!lower_has_row(l->k, c, &m->at[q]))
            add_parts(l, &m->at[q], &own.at[q], &parts);
}
