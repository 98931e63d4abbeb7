/* A plan -> code for the emulator: each statement of the plan stands in an event that tells of it, and what it does with
 * data follows as plain loops and stores (Note [Plans] in ir/tile.h). Statements of the plan keep their numbers. Tiles for a
 * CPU: emulator/expand_core.c. */
#include "emulator/expand.h"

#include <string.h>

static Stmt at(const Expander *x, StmtId id) { return expand_at(x, id); }

static ExprId zero(const Expander *x) { return x_int(x->k, (Loc){0}, 0); }

static int64_t lanes(const Expander *x) { return x->cpu->lanes; }

void expand_open_event(Expander *x, EventKind kind, StmtId id, const void *exprs)
{
    Stmt s = tile_stmt(TILE_event, at(x, id).loc);
    s.mode = (uint8_t)kind;
    s.planned = id;
    s.nindex = (uint8_t)event_exprs(kind);
    memcpy(s.index, exprs, s.nindex * sizeof *s.index);
    build_open(&x->b, s);
}

void expand_tell(Expander *x, EventKind kind, StmtId id, const void *exprs)
{
    uint32_t depth = x->b.depth;
    expand_open_event(x, kind, id, exprs);
    build_close(&x->b, depth);
}

ExprId expand_number(const Expander *x, TensorId t, const ExprId *index)
{
    Kernel *k = x->k;
    Loc loc = {0};
    ExprId n = NONE;
    for (uint32_t i = 0; i < k->tensors.at[t].rank; i++) {
        if (n != NONE && !x_is_int(k, n, 0))
            n = x_op2(k, loc, OP_mul, n, x_extent(k, loc, k->tensors.at[t].axes[i].extent));
        n = n == NONE || x_is_int(k, n, 0) ? index[i]
            : x_is_int(k, index[i], 0)     ? n
                                           : x_op2(k, loc, OP_add, n, index[i]);
    }
    return n == NONE ? x_int(k, loc, 0) : n;
}

ExprId expand_number_of_load(const Expander *x, ExprId load, const IndexId *from, const ExprId *to,
                             uint32_t n)
{
    ExprId index[MAX_RANK];
    for (uint32_t i = 0; i < x_at(x->k, load)->nargs; i++)
        index[i] = x_substitute(x->k, x_arg(x->k, load, i), from, to, n);
    return expand_number(x, x_at(x->k, load)->sym, index);
}

int expand_looks_up(const Kernel *k, ExprId e, IndexId i)
{
    each_below (n, k, e, EVERYWHERE)
        if (x_at(k, *n)->kind == X_LOAD && *n != e && x_uses_index(k, *n, i))
            return 1;
    return 0;
}

/* ---- moves ---- */

/* The number of the element that a box reads next to its first one along an axis, or `first` where a table says which. */
static ExprId neighbour(Expander *x, const Stmt *pack, ExprId read, uint32_t axis, ExprId first)
{
    ExprId next[2] = {pack->from[0], pack->from[1]};
    next[axis] = x_add(x->k, pack->from[axis], 1);
    return expand_looks_up(x->k, read, pack->bound[axis])
               ? first
               : expand_number_of_load(x, read, pack->bound, next, 2);
}

static void expand_pack(Expander *x, StmtId id)
{
    Kernel *k = x->k;
    Stmt s = at(x, id);
    Loc loc = s.loc;
    uint32_t depth = x->b.depth, n = s.nindex;
    ExprId read = tile_read_by(k, &s);
    MoveExprs move = {.to = expand_number(x, s.buffer, s.index)};
    move.from = expand_number_of_load(x, read, s.bound, s.from, 2);
    move.below = neighbour(x, &s, read, 0, move.from);
    move.rows = x_difference(x->k, s.to[0], s.from[0]);
    move.beside = neighbour(x, &s, read, 1, move.from);
    move.cols = x_difference(x->k, s.to[1], s.from[1]);
    expand_open_event(x, EVENT_move, id, &move);
    for (uint32_t a = 0; a < 2; a++) {
        build_for(&x->b, loc, a ? LOOP_VECTOR : LOOP_ORDERED, s.bound[a], s.from[a], s.to[a],
                  a ? lanes(x) : 1);
        ExprId step = x_difference(x->k, x_index(k, loc, s.bound[a]), s.from[a]);
        if (n + a < 2) /* a row of a panel with one axis */
            continue;
        s.index[n - 2 + a] = x_offset(x->k, s.index[n - 2 + a], step);
    }
    build_store(&x->b, loc, s.buffer, s.index, s.value, 0);
    build_close(&x->b, depth);
}

/* ---- products ---- */

static ExprId moved(Expander *x, TensorId t, const ExprId *index, uint32_t n, ExprId i, ExprId j)
{
    ExprId at_index[MAX_RANK], by[2] = {i, j};
    memcpy(at_index, index, n * sizeof *index);
    for (uint32_t a = 0; a < 2; a++)
        at_index[n - 2 + a] = x_offset(x->k, index[n - 2 + a], by[a]);
    return x_load(x->k, (Loc){0}, t, at_index);
}

static ExprId moved_load(Expander *x, ExprId load, ExprId i, ExprId j)
{
    ExprId index[MAX_RANK];
    uint32_t n = x_at(x->k, load)->nargs;
    for (uint32_t a = 0; a < n; a++)
        index[a] = x_arg(x->k, load, a);
    return moved(x, x_at(x->k, load)->sym, index, n, i, j);
}

/* Rows, columns in lanes, terms ascending: each sum is one chain. */
static void expand_product(Expander *x, StmtId id)
{
    Kernel *k = x->k;
    Stmt s = at(x, id);
    Loc loc = s.loc;
    uint32_t depth = x->b.depth;
    IndexId var[3] = {build_index(&x->b, "i"), build_index(&x->b, "j"), build_index(&x->b, "k")};
    ExprId i[3], init = s.guard;
    MultiplyExprs event = {.sums = expand_number(x, s.buffer, s.index),
                           .left = expand_number_of_load(x, s.value, NULL, NULL, 0),
                           .right = expand_number_of_load(x, s.other, NULL, NULL, 0),
                           .rows = s.size[0],
                           .cols = s.size[1],
                           .depth = s.size[2]};
    event.init = init == NONE ? zero(x) : x_if(k, loc, init, x_int(k, loc, 1), zero(x));
    if (x->sum == NONE)
        x->sum = build_reg(&x->b, "sum", EL_F32, 0, (uint32_t)lanes(x));
    for (uint32_t a = 0; a < 3; a++)
        i[a] = x_index(k, loc, var[a]);
    expand_open_event(x, EVENT_multiply, id, &event);
    build_for(&x->b, loc, LOOP_ORDERED, var[0], zero(x), s.size[0], 1);
    build_for(&x->b, loc, LOOP_VECTOR, var[1], zero(x), s.size[1], lanes(x));
    ExprId old = moved(x, s.buffer, s.index, s.nindex, i[0], i[1]), sum = x_load(k, loc, x->sum, NULL);
    build_store(&x->b, loc, x->sum, NULL, init == NONE ? old : x_if(k, loc, init, x_float(k, loc, 0), old),
                0);
    uint32_t inner = x->b.depth;
    build_for(&x->b, loc, LOOP_ORDERED, var[2], zero(x), s.size[2], 1);
    ExprId a = moved_load(x, s.value, i[0], i[2]), b = moved_load(x, s.other, i[2], i[1]);
    build_store(&x->b, loc, x->sum, NULL, x_op2(k, loc, OP_mul, a, b), 1);
    build_close(&x->b, inner);
    ExprId index[MAX_RANK];
    for (uint32_t n = 0; n < s.nindex; n++)
        index[n] = x_arg(k, old, n);
    build_store(&x->b, loc, s.buffer, index, sum, 0);
    build_close(&x->b, depth);
}

/* ---- loops ---- */

int expand_is_plain(const Expander *x, StmtId first)
{
    tile_walk (w, x->k, first)
        if (w.s->kind != TILE_store && w.s->kind != TILE_for && w.s->kind != TILE_if)
            return 0;
    return 1;
}

int expand_is_work(const Expander *x, StmtId first)
{
    tile_each (id, x->k, first) {
        const Tensor *t = at(x, id).kind == TILE_store ? &x->k->tensors.at[at(x, id).buffer] : NULL;
        if (t && (t->space != SPACE_REG || t->elem != EL_I64))
            return expand_is_plain(x, first);
    }
    return 0;
}

/* One access of a vector loop: all its lanes, from the first on, or one element for all. */
static void tell_touch(Expander *x, StmtId id, TensorId buffer, ExprId number, int lanes, int write)
{
    Stmt s = at(x, id);
    Kernel *k = x->k;
    if (x->k->tensors.at[buffer].space == SPACE_REG)
        return;
    TouchExprs touch = {.buffer = x_int(k, s.loc, buffer),
                        .element = number,
                        .count = lanes ? x_difference(x->k, s.hi, s.lo) : x_int(k, s.loc, 1),
                        .written = x_int(k, s.loc, write)};
    expand_tell(x, EVENT_touch, id, &touch);
}

static void touch_loads(Expander *x, StmtId id, ExprId e)
{
    Stmt s = at(x, id);
    if (e == NONE)
        return;
    Nodes nodes = x_below(x->k, e, EVERYWHERE);
    ExprId *loads = arena_array(x->k->module->arena, ExprId, nodes.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < nodes.n; i++)
        if (x_at(x->k, nodes.at[i])->kind == X_LOAD &&
            space_is_on_chip(x->k->tensors.at[x_at(x->k, nodes.at[i])->sym].space))
            loads[n++] = nodes.at[i];
    for (uint32_t i = 0; i < n; i++)
        tell_touch(x, id, x_at(x->k, loads[i])->sym, expand_number_of_load(x, loads[i], &s.var, &s.lo, 1),
                   x_uses_index(x->k, loads[i], s.var), 0);
}

static void touch_all(Expander *x, StmtId loop, StmtId first)
{
    Stmt l = at(x, loop);
    tile_walk (w, x->k, first) {
        Stmt s = *w.s;
        touch_loads(x, loop, s.value);
        if (s.kind == TILE_store && space_is_on_chip(x->k->tensors.at[s.buffer].space)) {
            ExprId index[MAX_RANK];
            for (uint32_t i = 0; i < s.nindex; i++)
                index[i] = x_substitute(x->k, s.index[i], &l.var, &l.lo, 1);
            tell_touch(x, loop, s.buffer, expand_number(x, s.buffer, index), 1, 1);
        }
    }
}

static void expand_list(Expander *x, StmtId first);
static void expand_body(Expander *x, StmtId id);

static int has_vector_loop(const Expander *x, StmtId first)
{
    tile_walk (w, x->k, first)
        if (w.s->kind == TILE_for && w.s->mode == LOOP_VECTOR)
            return 1;
    return 0;
}

/* Can the number of trips be told when the loops around begin? */
static int is_told_before(const Expander *x, ExprId e)
{
    each_below (n, x->k, e, EVERYWHERE)
        if (x_at(x->k, *n)->kind == X_LOAD && x->k->tensors.at[x_at(x->k, *n)->sym].space != SPACE_REG)
            return 0;
    return 1;
}

static int is_countable(const Expander *x, StmtId first)
{
    tile_walk (w, x->k, first)
        if ((w.s->kind == TILE_store && elem_type(x->k->tensors.at[w.s->buffer].elem) == TY_INT) ||
            (w.s->kind == TILE_for && (!is_told_before(x, w.s->lo) || !is_told_before(x, w.s->hi))))
            return 0;
    return 1;
}

/* Loops in loops of the scalar unit, down to single elements. */
static int is_scalar_nest(const Expander *x, const Stmt *s)
{
    return tile_contains(x->k, s->first, TILE_for) && expand_is_plain(x, s->first) &&
           tile_contains(x->k, s->first, TILE_store) && is_countable(x, s->first) &&
           !tile_is_vector(x->k, s->first) && !has_vector_loop(x, s->first);
}

/* How often the loop goes round. */
static ExprId trips_of(Expander *x, const Stmt *s)
{
    ExprId up = x_add(x->k, x_difference(x->k, s->hi, s->lo), s->step - 1);
    ExprId n = s->step > 1 ? x_op2(x->k, s->loc, OP_idiv, up, x_int(x->k, s->loc, s->step)) : up;
    return x_op2(x->k, s->loc, OP_max2, n, zero(x));
}

static int64_t instructions_of(const Expander *x, const Stmt *s)
{
    int64_t n = s->kind == TILE_store;
    if (s->value != NONE)
        each_below (e, x->k, s->value, EVERYWHERE)
            n += x_at(x->k, *e)->kind == X_OP && x_at(x->k, *e)->type != TY_INT;
    return n;
}

/* e where the loop is half way. */
static ExprId half_way(Expander *x, const Stmt *s, ExprId e)
{
    Kernel *k = x->k;
    ExprId half = x_op2(k, s->loc, OP_idiv, x_difference(x->k, s->hi, s->lo), x_int(k, s->loc, 2));
    ExprId middle = x_offset(x->k, s->lo, half);
    return x_substitute(k, e, &s->var, &middle, 1);
}

/* Instructions of one trip. Conditions hold; inner loops are as long as half way through the outer ones. */
static ExprId trip_work(Expander *x, StmtId first)
{
    ExprId sum = zero(x);
    tile_each (id, x->k, first) {
        Stmt s = at(x, id);
        ExprId body = s.first == NONE ? zero(x) : trip_work(x, s.first);
        if (s.kind == TILE_for)
            body = x_op2(x->k, s.loc, OP_mul, trips_of(x, &s), half_way(x, &s, body));
        sum = x_add(x->k, x_offset(x->k, sum, body), instructions_of(x, &s));
    }
    return sum;
}

static void expand_nest(Expander *x, StmtId id)
{
    Stmt s = at(x, id);
    uint32_t depth = x->b.depth;
    NestExprs nest = {s.lo, s.hi, .work = half_way(x, &s, trip_work(x, s.first))};
    expand_open_event(x, EVENT_nest, id, &nest);
    build_copy(&x->b, id);
    build_close(&x->b, depth);
}

/* A loop of one unit: the vector unit's if it stores to UB. Loops over elements in it tell of themselves. */
static void expand_work(Expander *x, StmtId id)
{
    Stmt s = at(x, id);
    uint32_t depth = x->b.depth;
    int vector = tile_is_vector(x->k, s.first);
    LoopExprs loop = {s.lo, s.hi};
    if (has_vector_loop(x, s.first)) {
        expand_tell(x, EVENT_loop, id, &loop);
        expand_body(x, id);
        return;
    }
    expand_open_event(x, EVENT_loop, id, &loop);
    if (vector)
        touch_all(x, id, s.first);
    build_copy(&x->b, id);
    build_close(&x->b, depth);
}

void expand_top(Expander *x, StmtId id)
{
    Stmt s = at(x, id);
    uint32_t depth = x->b.depth;
    ChooseExprs choose = {.count = s.limit, s.lo, s.hi};
    expand_open_event(x, EVENT_choose, id, &choose);
    build_copy(&x->b, id);
    build_close(&x->b, depth);
}

static void expand_split(Expander *x, StmtId id)
{
    Stmt s = at(x, id);
    uint32_t depth = x->b.depth;
    SplitExprs begin = {.core = x_index(x->k, s.loc, s.var)}, end = {.core = x_int(x->k, s.loc, -1)};
    build_open(&x->b, s);
    expand_tell(x, EVENT_split, id, &begin);
    expand_list(x, s.first);
    build_close(&x->b, depth);
    expand_tell(x, EVENT_split, id, &end);
}

static void expand_body(Expander *x, StmtId id)
{
    Stmt s = at(x, id);
    uint32_t depth = x->b.depth;
    build_open(&x->b, s);
    expand_list(x, s.first);
    build_close(&x->b, depth);
}

static void expand(Expander *x, StmtId id)
{
    Stmt s = at(x, id);
    FlagExprs flag = {.slot = s.nindex ? s.index[0] : zero(x)};
    int is_plan = s.kind == TILE_pack && tile_path(x->k, &s) < PATH_COUNT;
    int is_inner = s.kind == TILE_for && s.mode != LOOP_PARALLEL && s.mode != LOOP_OWNED;
    if (is_plan)
        expand_pack(x, id);
    else if (s.kind == TILE_product)
        expand_product(x, id);
    else if (s.kind == TILE_set || s.kind == TILE_wait)
        expand_tell(x, EVENT_flag, id, &flag);
    else if (s.kind == TILE_top)
        expand_top(x, id);
    else if (s.kind == TILE_for && s.mode == LOOP_SPLIT)
        expand_split(x, id);
    else if (is_inner && is_scalar_nest(x, &s))
        expand_nest(x, id);
    else if (is_inner && expand_is_work(x, s.first))
        expand_work(x, id);
    else if (tile_has_body(&s))
        expand_body(x, id);
    else
        build_copy(&x->b, id);
}

static void expand_list(Expander *x, StmtId first)
{
    tile_each (id, x->k, first)
        expand(x, id);
}

static void expand_items(Expander *x, StmtId launch, StmtId first)
{
    Stmt s = first == NONE ? tile_stmt(TILE_check, (Loc){0}) : at(x, first);
    if (s.kind == TILE_for && (s.mode == LOOP_PARALLEL || s.mode == LOOP_OWNED)) {
        build_open(&x->b, s);
        expand_items(x, launch, s.first);
        return;
    }
    expand_open_event(x, EVENT_item, launch,
                      &(ItemExprs){}); /* an item that the model does not look at does nothing */
    if (x->of_npu)
        expand_list(x, first);
    tile_each (id, x->k, x->of_npu ? (StmtId)NONE : first)
        expand_for_core(x, id);
}

void emulator_expand(Kernel *k, const Machine *machine, Isa isa)
{
    Expander x = {.b = build_begin(k), .k = k, .cpu = &cpu_table[isa], .sum = NONE};
    StmtId first = k->tiles->first;
    x.of_npu = machine && machine->kind == MACHINE_NPU;
    k->tiles->first = NONE;
    tile_each (id, x.k, first) {
        Stmt s = at(&x, id);
        build_close(&x.b, 0);
        build_open(&x.b, s);
        expand_items(&x, id, s.first);
    }
}
