/* Sums that the fixpipe stores itself: it turns fractals into rows, and converts them. Where all that becomes of a
 * product's sums is
 *     for row in r0..r1 { vector f in f0..f1 { y[row, f] = bf16(sums[row - r0, f - f0]) } }
 * they go from L0C to y, and need neither the core's memory nor a vector core. */
#include "npu/plan.h"

typedef struct Copied {
    Stmt row, col, store;
    ExprId read;
} Copied;

/* The only statement of a loop's body. */
static int only(const Planner *p, const Stmt *loop, Stmt *out)
{
    if (loop->first == NONE || plan_at(p, loop->first).next != NONE)
        return 0;
    *out = plan_at(p, loop->first);
    return 1;
}

/* e is var - lo. */
static int counts_from(const Kernel *k, ExprId e, IndexId var, ExprId lo)
{
    if (x_is_int(k, lo, 0))
        return x_plain_index(k, e) == var;
    return x_is_op(k, e, OP_sub) && x_plain_index(k, x_arg(k, e, 0)) == var && x_arg(k, e, 1) == lo;
}

static int is_plain(const Planner *p, StmtId nest, Copied *c)
{
    const Kernel *k = p->k;
    c->row = plan_at(p, nest);
    if (c->row.kind != TILE_for || c->row.mode != LOOP_ORDERED || c->row.step != 1 ||
        !only(p, &c->row, &c->col) || c->col.kind != TILE_for || c->col.mode != LOOP_VECTOR ||
        !only(p, &c->col, &c->store) || c->store.kind != TILE_store || c->store.add || c->store.nindex < 2)
        return 0;
    IndexId at[2] = {c->row.var, c->col.var};
    ExprId lo[2] = {c->row.lo, c->col.lo};
    c->read = tile_read_by(k, &c->store);
    if (c->read == NONE || x_at(k, c->read)->nargs != 2 ||
        k->tensors.at[x_at(k, c->read)->sym].space != SPACE_THREAD)
        return 0;
    for (uint32_t a = 0; a < 2; a++)
        if (!counts_from(k, x_arg(k, c->read, a), at[a], lo[a]) ||
            x_plain_index(k, c->store.index[c->store.nindex - 2 + a]) != at[a])
            return 0;
    for (uint32_t i = 0; i + 2 < c->store.nindex; i++)
        if (x_uses_index(k, c->store.index[i], at[0]) || x_uses_index(k, c->store.index[i], at[1]))
            return 0;
    const Tensor *t = &k->tensors.at[c->store.buffer];
    return plan_is_memory(t) && t->space != SPACE_THREAD && !t->both && !t->transposed &&
           !p->reads[c->store.buffer];
}

/* Products of the list's slab loops that begin these sums. */
static uint32_t count_products(const Planner *p, StmtId first, TensorId sums)
{
    uint32_t n = 0;
    tile_each (loop, p->k, first)
        tile_each (id, p->k, plan_at(p, loop).first)
            n += plan_at(p, id).kind == TILE_product && plan_at(p, id).buffer == sums;
    return n;
}

void plan_mark_stored(Planner *p, StmtId first)
{
    tile_each (id, p->k, first) {
        Copied c;
        plan_mark_stored(p, plan_at(p, id).first);
        if (!is_plain(p, id, &c))
            continue;
        TensorId sums = x_at(p->k, c.read)->sym;
        if (count_products(p, first, sums) == 1 && plan_count_uses(p, p->body, sums) == 2 &&
            plan_count_uses(p, p->body, c.store.buffer) == 1)
            p->stored[sums] = id;
    }
}

int plan_is_stored(const Planner *p, StmtId id)
{
    Copied c;
    return is_plain(p, id, &c) && p->stored[x_at(p->k, c.read)->sym] == id;
}

Stmt plan_store(Planner *p, StmtId nest, TensorId chip)
{
    Kernel *k = p->k;
    Copied c;
    is_plain(p, nest, &c);
    const Stmt *s = &c.store;
    IndexId at[2] = {c.row.var, c.col.var};
    ExprId lo[2] = {c.row.lo, c.col.lo};
    Stmt move = plan_flush_l0c(p, s->loc, chip, x_difference(p->k, c.row.hi, lo[0]),
                               x_difference(p->k, c.col.hi, lo[1]));
    move.buffer = s->buffer;
    move.nindex = s->nindex;
    for (uint32_t i = 0; i < s->nindex; i++)
        move.index[i] = x_substitute(k, s->index[i], at, lo, 2);
    if (s->value != c.read)
        move.value = x_op1(k, s->loc, x_at(k, s->value)->op, move.value);
    return move;
}
