/* Packs become moves: by whole boxes where subscripts are linear, row by row where a route says which row, by way of global
 * memory where the value is computed. */
#include "npu/plan.h"

/* Is e a sum of things that i does not change, and of i times such things? */
static int is_linear(const Kernel *k, ExprId e, IndexId i)
{
    const Expr *x = x_at(k, e);
    if (!x_uses_index(k, e, i) || x->kind == X_INDEX)
        return 1;
    if (x->kind != X_OP)
        return 0;
    if (x->op == OP_add || x->op == OP_sub)
        return is_linear(k, x_arg(k, e, 0), i) && is_linear(k, x_arg(k, e, 1), i);
    if (x->op == OP_mul)
        return (!x_uses_index(k, x_arg(k, e, 0), i) && is_linear(k, x_arg(k, e, 1), i)) ||
               (!x_uses_index(k, x_arg(k, e, 1), i) && is_linear(k, x_arg(k, e, 0), i));
    return 0;
}

int plan_is_linear(const Kernel *k, ExprId load, IndexId i)
{
    for (uint32_t a = 0; a < x_at(k, load)->nargs; a++)
        if (!is_linear(k, x_arg(k, load, a), i))
            return 0;
    return 1;
}

static int is_move(const Kernel *k, const Stmt *s)
{
    const Expr *x = x_at(k, s->value);
    return x->kind == X_LOAD && k->tensors.at[x->sym].rank && k->tensors.at[x->sym].space != SPACE_REG &&
           k->tensors.at[x->sym].elem == k->tensors.at[s->buffer].elem &&
           plan_is_linear(k, s->value, s->bound[1]); /* single columns would not be aligned */
}

int plan_is_transposed(const Kernel *k, const Stmt *s)
{
    const Expr *x = x_at(k, s->value);
    ExprId last = x->kind == X_LOAD && x->nargs ? x_arg(k, s->value, x->nargs - 1u) : (ExprId)NONE;
    return last != NONE && layout_is_dense(k->tensors.at[x->sym].layout) && x_is_unit(k, last, s->bound[0]) &&
           !x_uses_index(k, last, s->bound[1]);
}

/* What the scalar unit of the core has written is there before it is moved, and moved before it writes again. */
static void move_box(Planner *p, const Stmt *s)
{
    const Expr *x = x_at(p->k, s->value);
    TensorId from = x->sym;
    int told = plan_is_handed_over(p, from);
    if (told)
        plan_after(p, s->loc, UNIT_scalar, UNIT_mte2, from);
    build_put(&p->b, *s);
    if (told)
        plan_after(p, s->loc, UNIT_mte2, UNIT_scalar, from);
}

/* One move for each row, whose subscripts are not linear. */
static void move_lines(Planner *p, const Stmt *s)
{
    Kernel *k = p->k;
    Loc loc = s->loc;
    uint32_t depth = p->b.depth;
    Stmt one = *s;
    ExprId line = x_index(k, loc, s->bound[0]);
    build_for(&p->b, loc, LOOP_ORDERED, s->bound[0], s->from[0], s->to[0], 1);
    one.bound[0] = build_index(&p->b, "one");
    one.from[0] = x_int(k, loc, 0);
    one.to[0] = x_int(k, loc, 1);
    uint32_t row = s->nindex - 2u;
    one.index[row] = x_offset(p->k, s->index[row], x_op2(k, loc, OP_sub, line, s->from[0]));
    move_box(p, &one);
    build_close(&p->b, depth);
}

/* The scalar unit writes the box into memory of the core, as rows. */
static void move_computed(Planner *p, const Stmt *s, const Chip *to)
{
    Kernel *k = p->k;
    Loc loc = s->loc;
    uint32_t depth = p->b.depth;
    TensorId rows = build_thread(&p->b, "rows", k->tensors.at[to->buffer].elem, to->x, to->y, LAYOUT_ROWS);
    ExprId at[2], index[2];
    IndexId i[2] = {s->bound[0], s->bound[1]};
    for (uint32_t a = 0; a < 2; a++) {
        build_for(&p->b, loc, a ? LOOP_VECTOR : LOOP_ORDERED, i[a], s->from[a], s->to[a],
                  a ? p->cpu->lanes : 1);
        index[a] = x_op2(k, loc, OP_sub, x_index(k, loc, i[a]), s->from[a]);
    }
    build_store(&p->b, loc, rows, index, s->value, 0);
    build_close(&p->b, depth);
    Stmt move = *s;
    for (uint32_t a = 0; a < 2; a++) {
        move.bound[a] = build_index(&p->b, a ? "column" : "row");
        at[a] = x_index(k, loc, move.bound[a]);
        move.to[a] = x_op2(k, loc, OP_sub, s->to[a], s->from[a]);
        move.from[a] = x_int(k, loc, 0);
    }
    move.value = x_load(k, loc, rows, at);
    move_box(p, &move);
    build_give_back(&p->b, rows);
}

static void transpose(Stmt *s)
{
    Stmt old = *s;
    for (uint32_t a = 0; a < 2; a++) {
        s->bound[a] = old.bound[!a];
        s->from[a] = old.from[!a];
        s->to[a] = old.to[!a];
        s->index[1 + a] = old.index[2 - a];
    }
}

void plan_move(Planner *p, const Stmt *pack, const Chip *to, ExprId slot)
{
    Kernel *k = p->k;
    Stmt s = *pack;
    s.buffer = to->buffer;
    s.nindex = 3;
    s.index[0] = slot;
    s.index[1] = pack->index[pack->nindex - 2];
    s.index[2] = pack->index[pack->nindex - 1];
    if (to->transposed) /* the matrix lies there as in memory */
        transpose(&s);
    if (!is_move(k, &s))
        move_computed(p, &s, to);
    else if (!plan_is_linear(k, s.value, s.bound[0]))
        move_lines(p, &s);
    else
        move_box(p, &s);
}

/* ---- vector work ---- */

Stmt plan_box(Loc loc, TensorId to, IndexId row, ExprId r0, ExprId r1, IndexId column, ExprId c0, ExprId c1)
{
    Stmt m = tile_stmt(TILE_pack, loc);
    m.buffer = to;
    m.nbound = 2;
    m.bound[0] = row;
    m.from[0] = r0;
    m.to[0] = r1;
    m.bound[1] = column;
    m.from[1] = c0;
    m.to[1] = c1;
    return m;
}

Stmt plan_flush_l0c(Planner *p, Loc loc, TensorId chip, ExprId rows, ExprId cols)
{
    Kernel *k = p->k;
    ExprId zero = x_int(k, loc, 0);
    IndexId row = build_index(&p->b, "row"), column = build_index(&p->b, "column");
    ExprId at[3] = {zero, x_index(k, loc, row), x_index(k, loc, column)};
    Stmt move = plan_box(loc, NONE, row, zero, rows, column, zero, cols);
    move.value = x_load(k, loc, chip, at);
    return move;
}

void plan_bring(Planner *p, const Stmt *m, ExprId slot)
{
    plan_flag(p, m->loc, TILE_wait, UNIT_vector, UNIT_mte2, m->buffer, slot);
    build_put(&p->b, *m);
    plan_flag(p, m->loc, TILE_set, UNIT_mte2, UNIT_vector, m->buffer, slot);
    plan_flag(p, m->loc, TILE_wait, UNIT_mte2, UNIT_vector, m->buffer, slot);
}

void plan_take_away(Planner *p, const Stmt *m, TensorId from, ExprId slot)
{
    plan_flag(p, m->loc, TILE_set, UNIT_vector, UNIT_mte3, from, slot);
    plan_flag(p, m->loc, TILE_wait, UNIT_vector, UNIT_mte3, from, slot);
    build_put(&p->b, *m);
    plan_flag(p, m->loc, TILE_set, UNIT_mte3, UNIT_vector, from, slot);
}
