/* A loop over slabs: blocks of operands go to L1, parts of them to L0A and L0B, the cube adds up in L0C, and after the loop
 * the sums go to the core's memory. */
#include "npu/plan.h"

#include <stdlib.h>
#include <string.h>

/* The sums of one product of the loop. */
typedef struct Sums {
    Stmt product;  /* the first that adds to them */
    uint32_t chip; /* in L0C */
} Sums;

struct PlannedLoop {
    StmtId loop;
    int64_t bytes; /* of its sums */
};

/* A register of the trip, where the trip stands twice. */
typedef struct Again {
    ExprId from, to;
} Again;

typedef struct Slabs {
    Planner *p;
    const Stmt *loop;
    Sums sums[REDUCE_MAX];
    uint32_t nsums;
    Vec(Again) again;
} Slabs;

static Chip *chip_at(const Slabs *sl, uint32_t i) { return &sl->p->chips.at[i]; }

static ExprId zero(const Slabs *sl) { return x_int(sl->p->k, (Loc){0}, 0); }

/* ---- operands ---- */

static TensorId panel_of(const Slabs *sl, ExprId operand) { return x_at(sl->p->k, operand)->sym; }

/* Is what the loop packs into the panel bf16 as it is? */
static int is_narrow(const Slabs *sl, TensorId panel)
{
    const Kernel *k = sl->p->k;
    tile_each (id, sl->p->k, sl->loop->first) {
        Stmt s = plan_at(sl->p, id);
        if (s.kind == TILE_pack && s.buffer == panel && x_at(k, s.value)->type != TY_BF16)
            return 0;
    }
    return 1;
}

/* Both operands of a product have one type: bf16 if all that they meet is. */
static Elem elem_of(const Slabs *sl, TensorId panel)
{
    const Kernel *k = sl->p->k;
    int narrow = is_narrow(sl, panel);
    tile_each (id, sl->p->k, sl->loop->first) {
        Stmt s = plan_at(sl->p, id);
        if (s.kind == TILE_product && panel_of(sl, s.value) == panel)
            narrow &= is_narrow(sl, x_at(k, s.other)->sym);
        if (s.kind == TILE_product && panel_of(sl, s.other) == panel)
            narrow &= is_narrow(sl, x_at(k, s.value)->sym);
    }
    return narrow ? EL_BF16 : EL_F32;
}

static int64_t extent_of(const Slabs *sl, TensorId t, uint32_t axis)
{
    int64_t n = 0;
    ext_is_const(sl->p->k->module, sl->p->k->tensors.at[t].axes[axis].extent, &n);
    return n;
}

/* Units move whole pieces of rows: a block lies in L1 as it lies in memory, and is transposed on its way to L0. */
static uint32_t is_transposed(const Slabs *sl, TensorId panel)
{
    uint32_t transposed = 0;
    tile_each (id, sl->p->k, sl->loop->first) {
        Stmt s = plan_at(sl->p, id);
        if (s.kind != TILE_pack || s.buffer != panel)
            continue;
        if (!plan_is_transposed(sl->p->k, &s))
            return 0;
        transposed = 1;
    }
    return transposed;
}

/* The block in L1 that stands for a panel of the thread. */
static Chip *block_of(Slabs *sl, TensorId panel, Loc loc)
{
    Planner *p = sl->p;
    for (uint32_t i = 0; i < p->chips.len; i++)
        if (p->chips.at[i].panel == panel && p->chips.at[i].taken)
            return &p->chips.at[i];
    const Tensor *t = &p->k->tensors.at[panel];
    const char *stem = t->layout == LAYOUT_LINES ? "left" : "right";
    uint32_t transposed = is_transposed(sl, panel);
    int64_t x = extent_of(sl, panel, transposed), n = extent_of(sl, panel, !transposed);
    uint32_t i = plan_chip(p, loc, stem, SPACE_L1, elem_of(sl, panel), x, n, panel);
    p->chips.at[i].transposed = transposed != 0;
    return &p->chips.at[i];
}

/* Which slot the next pack fills: one after the other, from trip to trip. */
static ExprId next_slot(Slabs *sl, const Chip *c)
{
    Kernel *k = sl->p->k;
    const Stmt *loop = sl->loop;
    if (c->copies == 1)
        return zero(sl);
    ExprId trip = x_index(k, loop->loc, loop->var);
    if (!x_is_int(k, loop->lo, 0))
        trip = x_op2(k, loop->loc, OP_sub, trip, loop->lo);
    if (loop->step > 1)
        trip = x_op2(k, loop->loc, OP_idiv, trip, x_int(k, loop->loc, loop->step));
    if (c->packs % c->copies == 0)
        return x_int(k, loop->loc, c->packed % c->copies);
    if (c->packs > 1)
        trip = x_op2(k, loop->loc, OP_mul, trip, x_int(k, loop->loc, c->packs));
    if (c->packed)
        trip = x_op2(k, loop->loc, OP_add, trip, x_int(k, loop->loc, c->packed));
    return x_op2(k, loop->loc, OP_imod, trip, x_int(k, loop->loc, c->copies));
}

static void name_slot(Slabs *sl, const Stmt *pack)
{
    Chip *c = block_of(sl, pack->buffer, pack->loc);
    c->slot = next_slot(sl, c);
    if (x_at(sl->p->k, c->slot)->kind != X_INT)
        c->slot = build_let(&sl->p->b, pack->loc, "slot", c->slot);
    c->packed++;
    c->arrived = 0;
}

static void fill(Slabs *sl, const Stmt *pack)
{
    Planner *p = sl->p;
    name_slot(sl, pack);
    Chip now = *block_of(sl, pack->buffer, pack->loc);
    plan_flag(p, pack->loc, TILE_wait, UNIT_mte1, UNIT_mte2, now.buffer, now.slot);
    plan_move(p, pack, &now, now.slot);
    plan_flag(p, pack->loc, TILE_set, UNIT_mte2, UNIT_mte1, now.buffer, now.slot);
}

/* ---- products ---- */

/* Terms that are in L0 at a time: as the machine says, as long as that fits. */
static int64_t depth_of(const Slabs *sl, int64_t rows, int64_t cols, int64_t depth, Elem elem)
{
    const Planner *p = sl->p;
    const Machine *m = p->m;
    int64_t n = p->terms, bytes = (int64_t)elem_bytes(elem);
    while (n > depth)
        n /= 2;
    while (n > m->align.fragment && (rows * n * bytes * p->copies[SPACE_L0A] > m->l0a.bytes ||
                                     cols * n * bytes * p->copies[SPACE_L0B] > m->l0b.bytes))
        n /= 2;
    return n;
}

/* As it is where the trip stands for the second time. */
static ExprId again(const Slabs *sl, ExprId e)
{
    for (uint32_t i = 0; i < sl->again.len; i++)
        e = x_replace(sl->p->k, e, sl->again.at[i].from, sl->again.at[i].to);
    return e;
}

/* Places of both operands' parts in L0, and their terms. */
typedef struct InL0 {
    uint32_t a, b;
    int64_t terms;
} InL0;

static InL0 take_parts(Slabs *sl, const Stmt *s)
{
    TensorId left = panel_of(sl, s->value), right = panel_of(sl, s->other);
    int64_t rows = extent_of(sl, left, 0), cols = extent_of(sl, right, 1);
    Elem elem = elem_of(sl, left);
    InL0 parts = {.terms = depth_of(sl, rows, cols, extent_of(sl, left, 1), elem)};
    parts.a = plan_chip(sl->p, s->loc, "a", SPACE_L0A, elem, rows, parts.terms, NONE);
    parts.b = plan_chip(sl->p, s->loc, "b", SPACE_L0B, elem, parts.terms, cols, NONE);
    return parts;
}

/* Moves a part of an operand's block: terms from..to. */
static void feed(Slabs *sl, const Stmt *s, uint32_t side, uint32_t chip, ExprId slot, ExprId from, ExprId to)
{
    Planner *p = sl->p;
    Kernel *k = p->k;
    ExprId operand = side ? s->other : s->value;
    uint32_t n = x_at(k, operand)->nargs, terms = side ? 0 : 1;
    const Chip *block = block_of(sl, panel_of(sl, operand), s->loc);
    TensorId part = chip_at(sl, chip)->buffer;
    ExprId at[3] = {block->slot};
    Stmt move = tile_stmt(TILE_pack, s->loc);
    move.buffer = part;
    move.nindex = 3;
    move.index[0] = slot;
    move.index[1] = move.index[2] = zero(sl);
    move.nbound = 2;
    for (uint32_t a = 0; a < 2; a++) {
        move.bound[a] = build_index(&p->b, a == terms ? "term" : side ? "column" : "row");
        move.from[a] = a == terms ? from : zero(sl);
        move.to[a] = a == terms ? to : s->size[side];
        at[block->transposed ? 2 - a : 1 + a] =
            x_offset(p->k, x_arg(k, operand, n - 2 + a), x_index(k, s->loc, move.bound[a]));
    }
    move.value = x_load(k, s->loc, block->buffer, at);
    plan_flag(p, s->loc, TILE_wait, UNIT_cube, UNIT_mte1, part, slot);
    build_put(&p->b, move);
    plan_flag(p, s->loc, TILE_set, UNIT_mte1, UNIT_cube, part, slot);
}

static ExprId at_slot(Slabs *sl, uint32_t chip, ExprId slot)
{
    ExprId at[3] = {slot, zero(sl), zero(sl)};
    return x_load(sl->p->k, (Loc){0}, chip_at(sl, chip)->buffer, at);
}

static uint32_t sums_of(const Slabs *sl, const Stmt *s)
{
    uint32_t i = 0;
    while (i < sl->nsums && (sl->sums[i].product.buffer != s->buffer ||
                             memcmp(sl->sums[i].product.index, s->index, s->nindex * sizeof *s->index) != 0))
        i++;
    return i;
}

/* Waits for both blocks, unless an earlier product of the trip has. */
static void arrive(Slabs *sl, const Stmt *s)
{
    for (uint32_t side = 0; side < 2; side++) {
        Chip *c = block_of(sl, panel_of(sl, side ? s->other : s->value), s->loc);
        if (!c->arrived)
            plan_flag(sl->p, s->loc, TILE_wait, UNIT_mte2, UNIT_mte1, c->buffer, c->slot);
        c->arrived = 1;
    }
}

/* Is the panel read again before it is packed again? */
static int is_read_after(const Slabs *sl, StmtId product, TensorId panel)
{
    tile_each (id, sl->p->k, plan_at(sl->p, product).next) {
        Stmt s = plan_at(sl->p, id);
        if (s.kind == TILE_pack && s.buffer == panel)
            return 0;
        if (s.kind == TILE_product && (panel_of(sl, s.value) == panel || panel_of(sl, s.other) == panel))
            return 1;
    }
    return 0;
}

static void leave(Slabs *sl, StmtId product, const Stmt *s)
{
    for (uint32_t side = 0; side < 2; side++) {
        TensorId panel = panel_of(sl, side ? s->other : s->value);
        Chip *c = block_of(sl, panel, s->loc);
        if (!is_read_after(sl, product, panel))
            plan_flag(sl->p, s->loc, TILE_set, UNIT_mte1, UNIT_mte2, c->buffer, c->slot);
    }
}

/* Which of the copies in L0 has the terms from `from` on: parts of so many terms take turns. */
static ExprId slot_of(Slabs *sl, Loc loc, ExprId from, int64_t terms)
{
    Planner *p = sl->p;
    Kernel *k = p->k;
    int64_t slots = p->copies[SPACE_L0A] < p->copies[SPACE_L0B] ? p->copies[SPACE_L0A] : p->copies[SPACE_L0B];
    if (slots <= 1)
        return zero(sl);
    ExprId part = x_op2(k, loc, OP_idiv, from, x_int(k, loc, terms));
    return build_let(&p->b, loc, "slot", x_op2(k, loc, OP_imod, part, x_int(k, loc, slots)));
}

/* The cube's part of the product s: the terms in [from, to) of the slot, of which the first of all begin the sums. */
static void multiply_part(Slabs *sl, const Stmt *s, const InL0 *parts, ExprId slot, ExprId from, ExprId to)
{
    Planner *p = sl->p;
    Kernel *k = p->k;
    Loc loc = s->loc;
    TensorId a = chip_at(sl, parts->a)->buffer, b = chip_at(sl, parts->b)->buffer;
    plan_flag(p, loc, TILE_wait, UNIT_mte1, UNIT_cube, a, slot);
    plan_flag(p, loc, TILE_wait, UNIT_mte1, UNIT_cube, b, slot);
    Stmt step = tile_stmt(TILE_product, loc);
    step.buffer = chip_at(sl, sl->sums[sums_of(sl, s)].chip)->buffer;
    step.nindex = 3;
    step.index[0] = step.index[1] = step.index[2] = zero(sl);
    step.value = at_slot(sl, parts->a, slot);
    step.other = at_slot(sl, parts->b, slot);
    step.size[0] = s->size[0];
    step.size[1] = s->size[1];
    step.size[2] = x_op2(k, loc, OP_sub, to, from);
    ExprId first = x_op2(k, loc, OP_eq, x_index(k, loc, sl->loop->var), sl->loop->lo);
    step.guard = x_and(k, loc, first, x_op2(k, loc, OP_eq, from, zero(sl)));
    build_put(&p->b, step);
    plan_flag(p, loc, TILE_set, UNIT_cube, UNIT_mte1, a, slot);
    plan_flag(p, loc, TILE_set, UNIT_cube, UNIT_mte1, b, slot);
}

/* The terms of a product go through L0 in parts: moved there by one unit while the cube multiplies those before. */
static void multiply(Slabs *sl, StmtId id)
{
    Planner *p = sl->p;
    Kernel *k = p->k;
    Stmt s = plan_at(p, id);
    s.value = again(sl, s.value);
    s.other = again(sl, s.other);
    for (uint32_t i = 0; i < 3; i++)
        s.size[i] = again(sl, s.size[i]);
    Loc loc = s.loc;
    uint32_t depth = p->b.depth;
    arrive(sl, &s);
    InL0 parts = take_parts(sl, &s);
    IndexId var = build_index(&p->b, "term");
    build_for(&p->b, loc, LOOP_ORDERED, var, zero(sl), x_max(k, s.size[2], x_int(k, loc, 1)), parts.terms);
    ExprId from = x_index(k, loc, var);
    ExprId to = build_let(&p->b, loc, "end", x_min(k, x_add(k, from, parts.terms), s.size[2]));
    ExprId slot = slot_of(sl, loc, from, parts.terms);
    feed(sl, &s, 0, parts.a, slot, from, to);
    feed(sl, &s, 1, parts.b, slot, from, to);
    multiply_part(sl, &s, &parts, slot, from, to);
    build_close(&p->b, depth);
    chip_at(sl, parts.a)->taken = chip_at(sl, parts.b)->taken = 0;
    leave(sl, id, &s);
}

/* ---- sums ---- */

/* L0C -> the core's memory. */
static Stmt to_core(Slabs *sl, const Stmt *product, TensorId chip)
{
    Stmt move = plan_flush_l0c(sl->p, product->loc, chip, product->size[0], product->size[1]);
    move.buffer = product->buffer;
    move.nindex = product->nindex;
    memcpy(move.index, product->index, sizeof move.index);
    return move;
}

static void flush(Slabs *sl, const Sums *sum)
{
    Planner *p = sl->p;
    Loc loc = sum->product.loc;
    TensorId chip = chip_at(sl, sum->chip)->buffer, sums = sum->product.buffer;
    int stored = p->stored[sums] != NONE, flushed = p->flushed[sums];
    plan_flag(p, loc, TILE_set, UNIT_cube, UNIT_fix, chip, NONE);
    plan_flag(p, loc, TILE_wait, UNIT_cube, UNIT_fix, chip, NONE);
    if (flushed)
        plan_flag(p, loc, TILE_wait, UNIT_mte2, UNIT_fix, sums, NONE);
    else if (!stored)
        plan_after(p, loc, UNIT_scalar, UNIT_fix, sums);
    build_put(&p->b, stored ? plan_store(p, p->stored[sums], chip) : to_core(sl, &sum->product, chip));
    plan_flag(p, loc, TILE_set, UNIT_fix, UNIT_cube, chip, NONE);
    if (!flushed && !stored)
        plan_after(p, loc, UNIT_fix, UNIT_scalar, sums);
}

/* ---- the loop ---- */

/* Takes places for the loop's blocks and sums. */
static void take(Slabs *sl)
{
    Planner *p = sl->p;
    tile_each (id, p->k, sl->loop->first) {
        Stmt s = plan_at(p, id);
        if (s.kind == TILE_pack)
            block_of(sl, s.buffer, s.loc)->packs++;
        if (s.kind != TILE_product || sums_of(sl, &s) < sl->nsums)
            continue;
        int64_t rows = extent_of(sl, panel_of(sl, s.value), 0),
                cols = extent_of(sl, panel_of(sl, s.other), 1);
        sl->sums[sl->nsums++] = (Sums){s, plan_chip(p, s.loc, "c", SPACE_L0C, EL_F32, rows, cols, NONE)};
    }
}

static int64_t sums_bytes(const Slabs *sl)
{
    int64_t n = 0;
    tile_each (id, sl->p->k, sl->loop->first) {
        Stmt s = plan_at(sl->p, id);
        if (s.kind == TILE_product)
            n += extent_of(sl, panel_of(sl, s.value), 0) * extent_of(sl, panel_of(sl, s.other), 1);
    }
    return n;
}

/* The largest first: smaller ones find a place that is there. */
static int compare_loops(const void *a, const void *b)
{
    const struct PlannedLoop *x = a, *sl = b;
    return x->bytes != sl->bytes ? (x->bytes < sl->bytes ? 1 : -1)
           : x->loop < sl->loop  ? -1
                                 : x->loop > sl->loop;
}

static void reserve(Planner *p, StmtId id)
{
    Stmt loop = plan_at(p, id);
    Slabs sl = {.p = p, .loop = &loop};
    take(&sl);
    tile_each (s, p->k, loop.first)
        if (plan_at(p, s).kind == TILE_product) {
            Stmt product = plan_at(p, s);
            InL0 parts = take_parts(&sl, &product);
            p->chips.at[parts.a].taken = p->chips.at[parts.b].taken = 0;
        }
    plan_give_back(p, 0);
}

void plan_reserve(Planner *p, const StmtId *loops, uint32_t n)
{
    struct PlannedLoop *sorted = arena_array(p->k->module->arena, struct PlannedLoop, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        Stmt loop = plan_at(p, loops[i]);
        sorted[i] = (struct PlannedLoop){loops[i], sums_bytes(&(Slabs){.p = p, .loop = &loop})};
    }
    qsort(sorted, n, sizeof *sorted, compare_loops);
    for (uint32_t i = 0; i < n; i++)
        reserve(p, sorted[i].loop);
}

static int is_let(const Planner *p, const Stmt *s)
{
    return s->kind == TILE_store && !s->nindex && !s->add && p->k->tensors.at[s->buffer].space == SPACE_REG;
}

/* Is there a free slot for each block of the next trip while this one is multiplied? */
static int has_room_ahead(Slabs *sl)
{
    tile_each (id, sl->p->k, sl->loop->first) {
        Stmt s = plan_at(sl->p, id);
        if (s.kind == TILE_pack) {
            const Chip *c = block_of(sl, s.buffer, s.loc);
            if (c->packs >= c->copies)
                return 0;
        } else if (s.kind != TILE_product && !is_let(sl->p, &s))
            return 0;
    }
    return 1;
}

enum { LOAD = 1, MULTIPLY = 2 };

static void put_again(Slabs *sl, const Stmt *let)
{
    Planner *p = sl->p;
    ExprId from = x_load(p->k, let->loc, let->buffer, NULL);
    ExprId to = build_let(&p->b, let->loc, p->k->tensors.at[let->buffer].name, again(sl, let->value));
    vec_push(p->k->module->arena, &sl->again, ((Again){from, to}));
}

/* What a trip loads and what it multiplies, or one of both. */
static void put_trip(Slabs *sl, int what)
{
    Planner *p = sl->p;
    tile_each (id, p->k, sl->loop->first) {
        Stmt s = plan_at(p, id);
        if (s.kind == TILE_pack && what & LOAD)
            fill(sl, &s);
        else if (s.kind == TILE_pack)
            name_slot(sl, &s);
        else if (s.kind == TILE_product && what & MULTIPLY)
            multiply(sl, id);
        else if (s.kind != TILE_product && what & LOAD && plan_is_work(p, id))
            id = plan_work(p, id);
        else if (s.kind != TILE_product && what & LOAD)
            build_copy(&p->b, id);
        else if (s.kind != TILE_product)
            put_again(sl, &s);
    }
}

static void put_loop(Slabs *sl, ExprId from, ExprId to, int what)
{
    Planner *p = sl->p;
    uint32_t depth = p->b.depth;
    build_for(&p->b, sl->loop->loc, LOOP_ORDERED, sl->loop->var, from, to, sl->loop->step);
    put_trip(sl, what);
    build_close(&p->b, depth);
}

/* Each trip loads for the next one before it multiplies: the queue of mte1 may be too short for all of a trip, and what
 * stands behind it in the program would wait. */
static void put_ahead(Slabs *sl)
{
    Planner *p = sl->p;
    const Stmt *loop = sl->loop;
    uint32_t depth = p->b.depth;
    IndexId var = build_index(&p->b, "ahead");
    ExprId ahead = x_index(p->k, loop->loc, var);
    build_for(&p->b, loop->loc, LOOP_ORDERED, var, loop->lo, x_add(p->k, loop->hi, loop->step), loop->step);
    put_loop(sl, ahead, x_min(p->k, x_add(p->k, ahead, loop->step), loop->hi), LOAD);
    for (uint32_t i = 0; i < p->chips.len; i++)
        p->chips.at[i].packed = 0;
    ExprId before = x_op2(p->k, loop->loc, OP_sub, ahead, x_int(p->k, loop->loc, loop->step));
    put_loop(sl, x_max(p->k, before, loop->lo), x_min(p->k, ahead, loop->hi), MULTIPLY);
    build_close(&p->b, depth);
}

void plan_slabs(Planner *p, const Stmt *loop)
{
    Slabs sl = {.p = p, .loop = loop};
    take(&sl);
    for (uint32_t i = 0; i < sl.nsums; i++)
        plan_flag(p, sl.sums[i].product.loc, TILE_wait, UNIT_fix, UNIT_cube,
                  chip_at(&sl, sl.sums[i].chip)->buffer, NONE);
    if (has_room_ahead(&sl))
        put_ahead(&sl);
    else
        put_loop(&sl, loop->lo, loop->hi, LOAD | MULTIPLY);
    for (uint32_t i = 0; i < sl.nsums; i++)
        flush(&sl, &sl.sums[i]);
    plan_give_back(p, 0);
}
