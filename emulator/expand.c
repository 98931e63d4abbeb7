/* A plan -> code for the emulator: each statement of the plan stands in an event that tells of it, and what it does with
 * data follows as plain loops and stores (Note [Plans] in ir/tile.h). Statements of the plan keep their numbers. Tiles for a
 * CPU: emulator/expand_core.c. */
#include "emulator/expand.h"

#include <string.h>

static ExprId zero(const Expander *ex) { return x_int(ex->k, (Loc){0}, 0); }

static int64_t lanes(const Expander *ex) { return ex->cpu->lanes; }

/* Its body follows. */
static void open_event(Expander *ex, EventKind kind, StmtId id, const void *exprs)
{
    Stmt s = tile_stmt(TILE_event, expand_at(ex, id).loc);
    s.mode = (uint8_t)kind;
    s.planned = id;
    s.nindex = (uint8_t)event_exprs(kind);
    memcpy(s.index, exprs, s.nindex * sizeof *s.index);
    build_open(&ex->b, s);
}

void expand_tell(Expander *ex, EventKind kind, StmtId id, const void *exprs)
{
    uint32_t depth = ex->b.depth;
    open_event(ex, kind, id, exprs);
    build_close(&ex->b, depth);
}

/* The place of an element in row-major order, whatever the layout. */
static ExprId number_of(const Expander *ex, TensorId t, const ExprId *index)
{
    Kernel *k = ex->k;
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

ExprId expand_number_of_load(const Expander *ex, ExprId load, const IndexId *from, const ExprId *to,
                             uint32_t n)
{
    ExprId index[MAX_RANK];
    for (uint32_t i = 0; i < x_at(ex->k, load)->nargs; i++)
        index[i] = x_substitute(ex->k, x_arg(ex->k, load, i), from, to, n);
    return number_of(ex, x_at(ex->k, load)->sym, index);
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
static ExprId neighbour(Expander *ex, const Stmt *pack, ExprId read, uint32_t axis, ExprId first)
{
    ExprId next[2] = {pack->from[0], pack->from[1]};
    next[axis] = x_add(ex->k, pack->from[axis], 1);
    return expand_looks_up(ex->k, read, pack->bound[axis])
               ? first
               : expand_number_of_load(ex, read, pack->bound, next, 2);
}

static void expand_pack(Expander *ex, StmtId id)
{
    Kernel *k = ex->k;
    Stmt s = expand_at(ex, id);
    Loc loc = s.loc;
    uint32_t depth = ex->b.depth, n = s.nindex;
    ExprId read = tile_read_by(k, &s);
    MoveExprs move = {.to = number_of(ex, s.buffer, s.index)};
    move.from = expand_number_of_load(ex, read, s.bound, s.from, 2);
    move.below = neighbour(ex, &s, read, 0, move.from);
    move.rows = x_difference(ex->k, s.to[0], s.from[0]);
    move.beside = neighbour(ex, &s, read, 1, move.from);
    move.cols = x_difference(ex->k, s.to[1], s.from[1]);
    open_event(ex, EVENT_move, id, &move);
    for (uint32_t a = 0; a < 2; a++) {
        build_for(&ex->b, loc, a ? LOOP_VECTOR : LOOP_ORDERED, s.bound[a], s.from[a], s.to[a],
                  a ? lanes(ex) : 1);
        ExprId step = x_difference(ex->k, x_index(k, loc, s.bound[a]), s.from[a]);
        if (n + a < 2) /* a row of a panel with one axis */
            continue;
        s.index[n - 2 + a] = x_offset(ex->k, s.index[n - 2 + a], step);
    }
    build_store(&ex->b, loc, s.buffer, s.index, s.value, 0);
    build_close(&ex->b, depth);
}

/* ---- products ---- */

static ExprId moved(Expander *ex, TensorId t, const ExprId *index, uint32_t n, ExprId i, ExprId j)
{
    ExprId at_index[MAX_RANK], by[2] = {i, j};
    memcpy(at_index, index, n * sizeof *index);
    for (uint32_t a = 0; a < 2; a++)
        at_index[n - 2 + a] = x_offset(ex->k, index[n - 2 + a], by[a]);
    return x_load(ex->k, (Loc){0}, t, at_index);
}

static ExprId moved_load(Expander *ex, ExprId load, ExprId i, ExprId j)
{
    ExprId index[MAX_RANK];
    uint32_t n = x_at(ex->k, load)->nargs;
    for (uint32_t a = 0; a < n; a++)
        index[a] = x_arg(ex->k, load, a);
    return moved(ex, x_at(ex->k, load)->sym, index, n, i, j);
}

/* Rows, columns in lanes, terms ascending: each sum is one chain. */
static void expand_product(Expander *ex, StmtId id)
{
    Kernel *k = ex->k;
    Stmt s = expand_at(ex, id);
    Loc loc = s.loc;
    uint32_t depth = ex->b.depth;
    IndexId var[3] = {build_index(&ex->b, "i"), build_index(&ex->b, "j"), build_index(&ex->b, "k")};
    ExprId i[3], init = s.guard;
    MultiplyExprs event = {.sums = number_of(ex, s.buffer, s.index),
                           .left = expand_number_of_load(ex, s.value, NULL, NULL, 0),
                           .right = expand_number_of_load(ex, s.other, NULL, NULL, 0),
                           .rows = s.size[0],
                           .cols = s.size[1],
                           .depth = s.size[2]};
    event.init = init == NONE ? zero(ex) : x_if(k, loc, init, x_int(k, loc, 1), zero(ex));
    if (ex->sum == NONE)
        ex->sum = build_reg(&ex->b, "sum", EL_F32, 0, (uint32_t)lanes(ex));
    for (uint32_t a = 0; a < 3; a++)
        i[a] = x_index(k, loc, var[a]);
    open_event(ex, EVENT_multiply, id, &event);
    build_for(&ex->b, loc, LOOP_ORDERED, var[0], zero(ex), s.size[0], 1);
    build_for(&ex->b, loc, LOOP_VECTOR, var[1], zero(ex), s.size[1], lanes(ex));
    ExprId old = moved(ex, s.buffer, s.index, s.nindex, i[0], i[1]), sum = x_load(k, loc, ex->sum, NULL);
    build_store(&ex->b, loc, ex->sum, NULL, init == NONE ? old : x_if(k, loc, init, x_float(k, loc, 0), old),
                0);
    uint32_t inner = ex->b.depth;
    build_for(&ex->b, loc, LOOP_ORDERED, var[2], zero(ex), s.size[2], 1);
    ExprId a = moved_load(ex, s.value, i[0], i[2]), b = moved_load(ex, s.other, i[2], i[1]);
    build_store(&ex->b, loc, ex->sum, NULL, x_op2(k, loc, OP_mul, a, b), 1);
    build_close(&ex->b, inner);
    ExprId index[MAX_RANK];
    for (uint32_t n = 0; n < s.nindex; n++)
        index[n] = x_arg(k, old, n);
    build_store(&ex->b, loc, s.buffer, index, sum, 0);
    build_close(&ex->b, depth);
}

/* ---- loops ---- */

int expand_is_plain(const Expander *ex, StmtId first)
{
    tile_walk (w, ex->k, first)
        if (w.s->kind != TILE_store && w.s->kind != TILE_for && w.s->kind != TILE_if)
            return 0;
    return 1;
}

/* Is the list a loop's work on elements: does it store numbers, not only for the program's own use, and nothing else? */
static int is_work(const Expander *ex, StmtId first)
{
    tile_each (id, ex->k, first) {
        const Tensor *t =
            expand_at(ex, id).kind == TILE_store ? &ex->k->tensors.at[expand_at(ex, id).buffer] : NULL;
        if (t && (t->space != SPACE_REG || t->elem != EL_I64))
            return expand_is_plain(ex, first);
    }
    return 0;
}

/* One access of a vector loop: all its lanes, from the first on, or one element for all. */
static void tell_touch(Expander *ex, StmtId id, TensorId buffer, ExprId number, int lanes, int write)
{
    Stmt s = expand_at(ex, id);
    Kernel *k = ex->k;
    if (ex->k->tensors.at[buffer].space == SPACE_REG)
        return;
    TouchExprs touch = {.buffer = x_int(k, s.loc, buffer),
                        .element = number,
                        .count = lanes ? x_difference(ex->k, s.hi, s.lo) : x_int(k, s.loc, 1),
                        .written = x_int(k, s.loc, write)};
    expand_tell(ex, EVENT_touch, id, &touch);
}

static void touch_loads(Expander *ex, StmtId id, ExprId e)
{
    Stmt s = expand_at(ex, id);
    if (e == NONE)
        return;
    Nodes nodes = x_below(ex->k, e, EVERYWHERE);
    ExprId *loads = arena_array(ex->k->module->arena, ExprId, nodes.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < nodes.n; i++)
        if (x_at(ex->k, nodes.at[i])->kind == X_LOAD &&
            space_is_on_chip(ex->k->tensors.at[x_at(ex->k, nodes.at[i])->sym].space))
            loads[n++] = nodes.at[i];
    for (uint32_t i = 0; i < n; i++)
        tell_touch(ex, id, x_at(ex->k, loads[i])->sym, expand_number_of_load(ex, loads[i], &s.var, &s.lo, 1),
                   x_uses_index(ex->k, loads[i], s.var), 0);
}

static void touch_all(Expander *ex, StmtId loop, StmtId first)
{
    Stmt l = expand_at(ex, loop);
    tile_walk (w, ex->k, first) {
        Stmt s = *w.s;
        touch_loads(ex, loop, s.value);
        if (s.kind == TILE_store && space_is_on_chip(ex->k->tensors.at[s.buffer].space)) {
            ExprId index[MAX_RANK];
            for (uint32_t i = 0; i < s.nindex; i++)
                index[i] = x_substitute(ex->k, s.index[i], &l.var, &l.lo, 1);
            tell_touch(ex, loop, s.buffer, number_of(ex, s.buffer, index), 1, 1);
        }
    }
}

static void expand_list(Expander *ex, StmtId first);
static void expand_body(Expander *ex, StmtId id);

static int has_vector_loop(const Expander *ex, StmtId first)
{
    tile_walk (w, ex->k, first)
        if (w.s->kind == TILE_for && w.s->mode == LOOP_VECTOR)
            return 1;
    return 0;
}

/* Can the number of trips be told when the loops around begin? */
static int is_told_before(const Expander *ex, ExprId e)
{
    each_below (n, ex->k, e, EVERYWHERE)
        if (x_at(ex->k, *n)->kind == X_LOAD && ex->k->tensors.at[x_at(ex->k, *n)->sym].space != SPACE_REG)
            return 0;
    return 1;
}

static int is_countable(const Expander *ex, StmtId first)
{
    tile_walk (w, ex->k, first)
        if ((w.s->kind == TILE_store && elem_type(ex->k->tensors.at[w.s->buffer].elem) == TY_INT) ||
            (w.s->kind == TILE_for && (!is_told_before(ex, w.s->lo) || !is_told_before(ex, w.s->hi))))
            return 0;
    return 1;
}

/* Loops in loops of the scalar unit, down to single elements. */
static int is_scalar_nest(const Expander *ex, const Stmt *s)
{
    return tile_contains(ex->k, s->first, TILE_for) && expand_is_plain(ex, s->first) &&
           tile_contains(ex->k, s->first, TILE_store) && is_countable(ex, s->first) &&
           !tile_is_vector(ex->k, s->first) && !has_vector_loop(ex, s->first);
}

/* How often the loop goes round. */
static ExprId trips_of(Expander *ex, const Stmt *s)
{
    ExprId up = x_add(ex->k, x_difference(ex->k, s->hi, s->lo), s->step - 1);
    ExprId n = s->step > 1 ? x_op2(ex->k, s->loc, OP_idiv, up, x_int(ex->k, s->loc, s->step)) : up;
    return x_op2(ex->k, s->loc, OP_max2, n, zero(ex));
}

static int64_t instructions_of(const Expander *ex, const Stmt *s)
{
    int64_t n = s->kind == TILE_store;
    if (s->value != NONE)
        each_below (e, ex->k, s->value, EVERYWHERE)
            n += x_at(ex->k, *e)->kind == X_OP && x_at(ex->k, *e)->type != TY_INT;
    return n;
}

/* e where the loop is half way. */
static ExprId half_way(Expander *ex, const Stmt *s, ExprId e)
{
    Kernel *k = ex->k;
    ExprId half = x_op2(k, s->loc, OP_idiv, x_difference(ex->k, s->hi, s->lo), x_int(k, s->loc, 2));
    ExprId middle = x_offset(ex->k, s->lo, half);
    return x_substitute(k, e, &s->var, &middle, 1);
}

/* Instructions of one trip. Conditions hold; inner loops are as long as half way through the outer ones. */
static ExprId trip_work(Expander *ex, StmtId first)
{
    ExprId sum = zero(ex);
    tile_each (id, ex->k, first) {
        Stmt s = expand_at(ex, id);
        ExprId body = s.first == NONE ? zero(ex) : trip_work(ex, s.first);
        if (s.kind == TILE_for)
            body = x_op2(ex->k, s.loc, OP_mul, trips_of(ex, &s), half_way(ex, &s, body));
        sum = x_add(ex->k, x_offset(ex->k, sum, body), instructions_of(ex, &s));
    }
    return sum;
}

static void expand_nest(Expander *ex, StmtId id)
{
    Stmt s = expand_at(ex, id);
    uint32_t depth = ex->b.depth;
    NestExprs nest = {s.lo, s.hi, .work = half_way(ex, &s, trip_work(ex, s.first))};
    open_event(ex, EVENT_nest, id, &nest);
    build_copy(&ex->b, id);
    build_close(&ex->b, depth);
}

/* A loop of one unit: the vector unit's if it stores to UB. Loops over elements in it tell of themselves. */
static void expand_work(Expander *ex, StmtId id)
{
    Stmt s = expand_at(ex, id);
    uint32_t depth = ex->b.depth;
    int vector = tile_is_vector(ex->k, s.first);
    LoopExprs loop = {s.lo, s.hi};
    if (has_vector_loop(ex, s.first)) {
        expand_tell(ex, EVENT_loop, id, &loop);
        expand_body(ex, id);
        return;
    }
    open_event(ex, EVENT_loop, id, &loop);
    if (vector)
        touch_all(ex, id, s.first);
    build_copy(&ex->b, id);
    build_close(&ex->b, depth);
}

void expand_top(Expander *ex, StmtId id)
{
    Stmt s = expand_at(ex, id);
    uint32_t depth = ex->b.depth;
    ChooseExprs choose = {.count = s.limit, s.lo, s.hi};
    open_event(ex, EVENT_choose, id, &choose);
    build_copy(&ex->b, id);
    build_close(&ex->b, depth);
}

static void expand_split(Expander *ex, StmtId id)
{
    Stmt s = expand_at(ex, id);
    uint32_t depth = ex->b.depth;
    SplitExprs begin = {.core = x_index(ex->k, s.loc, s.var)}, end = {.core = x_int(ex->k, s.loc, -1)};
    build_open(&ex->b, s);
    expand_tell(ex, EVENT_split, id, &begin);
    expand_list(ex, s.first);
    build_close(&ex->b, depth);
    expand_tell(ex, EVENT_split, id, &end);
}

static void expand_body(Expander *ex, StmtId id)
{
    Stmt s = expand_at(ex, id);
    uint32_t depth = ex->b.depth;
    build_open(&ex->b, s);
    expand_list(ex, s.first);
    build_close(&ex->b, depth);
}

static void expand(Expander *ex, StmtId id)
{
    Stmt s = expand_at(ex, id);
    FlagExprs flag = {.slot = s.nindex ? s.index[0] : zero(ex)};
    int is_plan = s.kind == TILE_pack && tile_path(ex->k, &s) < PATH_COUNT;
    int is_inner = s.kind == TILE_for && s.mode != LOOP_PARALLEL && s.mode != LOOP_OWNED;
    if (is_plan)
        expand_pack(ex, id);
    else if (s.kind == TILE_product)
        expand_product(ex, id);
    else if (s.kind == TILE_set || s.kind == TILE_wait)
        expand_tell(ex, EVENT_flag, id, &flag);
    else if (s.kind == TILE_top)
        expand_top(ex, id);
    else if (s.kind == TILE_for && s.mode == LOOP_SPLIT)
        expand_split(ex, id);
    else if (is_inner && is_scalar_nest(ex, &s))
        expand_nest(ex, id);
    else if (is_inner && is_work(ex, s.first))
        expand_work(ex, id);
    else if (tile_has_body(&s))
        expand_body(ex, id);
    else
        build_copy(&ex->b, id);
}

static void expand_list(Expander *ex, StmtId first)
{
    tile_each (id, ex->k, first)
        expand(ex, id);
}

static void expand_items(Expander *ex, StmtId launch, StmtId first)
{
    Stmt s = first == NONE ? tile_stmt(TILE_check, (Loc){0}) : expand_at(ex, first);
    if (tile_is_flat(&s)) {
        build_open(&ex->b, s);
        expand_items(ex, launch, s.first);
        return;
    }
    open_event(ex, EVENT_item, launch,
               &(ItemExprs){}); /* an item that the model does not look at does nothing */
    if (ex->of_npu)
        expand_list(ex, first);
    tile_each (id, ex->k, ex->of_npu ? (StmtId)NONE : first)
        expand_for_core(ex, id);
}

void emulator_expand(Kernel *k, const Machine *machine, Isa isa)
{
    Expander ex = {.b = build_begin(k), .k = k, .cpu = &cpu_table[isa], .sum = NONE};
    StmtId first = k->tiles->first;
    ex.of_npu = machine && machine->kind == MACHINE_NPU;
    k->tiles->first = NONE;
    tile_each (id, ex.k, first) {
        Stmt s = expand_at(&ex, id);
        build_close(&ex.b, 0);
        build_open(&ex.b, s);
        expand_items(&ex, id, s.first);
    }
}
