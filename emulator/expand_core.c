/* Tiles for a CPU -> events for the cycle model: what each statement would read and write, then how much it has to do.
 *
 * before:  product sums[0, 0] += left[0, 0] * w[e, slab, v0] rows r1 - r0 cols v1 - v0 depth end - slab
 * after:   event 12(left, ...) {}  event 12(w, ...) {}  event 12(sums, ...) {}  event 12(r1 - r0, v1 - v0, end - slab) {}
 *
 * Nothing is done with data. A loop of lanes, and an innermost one, stands for all of its trips: its variable is replaced by
 * its first value, and what its statements read and write are runs of as many elements. What the program takes its own
 * numbers from stays: loops around, conditions, integers. */
#include "emulator/expand.h"

/* An innermost loop, or the statement alone: count 1. */
typedef struct Trips {
    IndexId var; /* or NONE */
    ExprId first, count;
} Trips;

static ExprId one(const Expander *ex) { return x_int(ex->k, (Loc){0}, 1); }

static int is_number(const Expander *ex, TensorId t)
{
    return elem_type(ex->k->tensors.at[t].elem) == TY_INT;
}

/* ---- what is read and written ---- */

static int is_memory(const Expander *ex, ExprId load)
{
    return ex->k->tensors.at[x_at(ex->k, load)->sym].space != SPACE_REG;
}

/* rows x cols elements; at: the numbers of the first one, and of those below and beside it. */
static void touch(Expander *ex, StmtId id, TensorId buffer, const ExprId at[3], ExprId rows, ExprId cols,
                  int write)
{
    AccessExprs access = {.buffer = x_int(ex->k, (Loc){0}, buffer),
                          .element = at[0],
                          .below = at[1],
                          .beside = at[2],
                          .rows = rows,
                          .cols = cols,
                          .written = x_int(ex->k, (Loc){0}, write)};
    expand_tell(ex, EVENT_access, id, &access);
}

/* Number of the load's element, and of those that are next along two indices. */
static void numbers_of(Expander *ex, ExprId load, const IndexId var[2], const ExprId from[2], ExprId at[3])
{
    at[0] = expand_number_of_load(ex, load, var, from, 2);
    for (uint32_t a = 0; a < 2; a++) {
        ExprId next[2] = {from[0], from[1]};
        next[a] = x_add(ex->k, from[a], 1);
        at[1 + a] =
            expand_looks_up(ex->k, load, var[a]) ? at[0] : expand_number_of_load(ex, load, var, next, 2);
    }
}

static int looks_up(const Kernel *k, ExprId load)
{
    each_below (n, k, load, EVERYWHERE)
        if (x_at(k, *n)->kind == X_LOAD && *n != load)
            return 1;
    return 0;
}

/* The loads of memory in an expression, but for those that stand where other loads say, behind a condition. */
static uint32_t loads_of(Expander *ex, ExprId e, ExprId **out)
{
    Nodes nodes = x_below(ex->k, e, EVERYWHERE);
    ExprId *loads = arena_array(ex->k->module->arena, ExprId, nodes.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < nodes.n; i++)
        if (x_at(ex->k, nodes.at[i])->kind == X_LOAD && is_memory(ex, nodes.at[i]) &&
            (x_is_asked_for(ex->k, e, nodes.at[i]) || !looks_up(ex->k, nodes.at[i])))
            loads[n++] = nodes.at[i];
    *out = loads;
    return n;
}

static void touch_box(Expander *ex, StmtId id, ExprId value, ExprId rows, ExprId cols)
{
    Stmt s = expand_at(ex, id);
    ExprId *loads, at[3];
    uint32_t n = loads_of(ex, value, &loads);
    for (uint32_t i = 0; i < n; i++) {
        TensorId t = x_at(ex->k, loads[i])->sym;
        if (is_number(ex, t))
            continue;
        numbers_of(ex, loads[i], s.bound, s.from, at);
        touch(ex, id, t, at, rows, cols, 0);
    }
}

/* rows x cols elements from a load's on, in rows of its buffer. */
static void touch_operand(Expander *ex, StmtId id, ExprId load, ExprId rows, ExprId cols, int write)
{
    ExprId n = expand_number_of_load(ex, load, NULL, NULL, 0), at[3] = {n, n, x_add(ex->k, n, 1)};
    touch(ex, id, x_at(ex->k, load)->sym, at, rows, cols, write);
}

/* ---- statements ---- */

static void expand_pack(Expander *ex, StmtId id)
{
    Stmt s = expand_at(ex, id);
    PackExprs size = {.rows = x_difference(ex->k, s.to[0], s.from[0]),
                      .cols = x_difference(ex->k, s.to[1], s.from[1])};
    uint32_t depth = ex->b.depth;
    build_if(&ex->b, s.loc,
             x_op2(ex->k, s.loc, OP_lt, s.from[0], s.to[0])); /* else there may be nothing to look up */
    touch_box(ex, id, s.value, size.rows, size.cols);
    touch_operand(ex, id, x_load(ex->k, s.loc, s.buffer, s.index), size.rows, size.cols, 1);
    expand_tell(ex, EVENT_pack, id, &size);
    build_close(&ex->b, depth);
}

static void expand_product(Expander *ex, StmtId id)
{
    Stmt s = expand_at(ex, id);
    touch_operand(ex, id, s.value, s.size[0], s.size[2], 0);
    touch_operand(ex, id, s.other, s.transposed ? s.size[1] : s.size[2], s.transposed ? s.size[2] : s.size[1],
                  0);
    touch_operand(ex, id, x_load(ex->k, s.loc, s.buffer, s.index), s.size[0], s.size[1], 1);
    expand_tell(ex, EVENT_product, id, &(ProductExprs){s.size[0], s.size[1], s.size[2]});
}

/* The expression at the loop's first trip. */
static ExprId at_first(Expander *ex, const Trips *t, ExprId e)
{
    return t->var == NONE || e == NONE ? e : x_substitute(ex->k, e, &t->var, &t->first, 1);
}

/* As many elements as trips, or one. */
static void touch_load(Expander *ex, StmtId id, const Trips *t, ExprId load, int write)
{
    ExprId next = t->var == NONE ? NONE : x_add(ex->k, t->first, 1), at[3];
    if (t->var == NONE || !x_uses_index(ex->k, load, t->var)) {
        touch_operand(ex, id, load, one(ex), one(ex), write);
        return;
    }
    at[0] = at[1] = at[2] = expand_number_of_load(ex, load, &t->var, &t->first, 1);
    if (!expand_looks_up(ex->k, load, t->var))
        at[2] = expand_number_of_load(ex, load, &t->var, &next, 1);
    touch(ex, id, x_at(ex->k, load)->sym, at, one(ex), t->count, write);
}

static void expand_store(Expander *ex, StmtId id, const Trips *t)
{
    Stmt s = expand_at(ex, id);
    ExprId *loads;
    uint32_t n = loads_of(ex, s.value, &loads);
    for (uint32_t i = 0; i < n; i++)
        touch_load(ex, id, t, loads[i], 0);
    if (ex->k->tensors.at[s.buffer].space != SPACE_REG)
        touch_load(ex, id, t, x_load(ex->k, s.loc, s.buffer, s.index), 1);
    expand_tell(ex, EVENT_store, id, &(StoreExprs){.trips = t->count});
}

/* Is a condition about numbers that are there? Data are not: then it holds. */
static int is_known(const Expander *ex, ExprId e)
{
    each_below (n, ex->k, e, EVERYWHERE)
        if (x_at(ex->k, *n)->kind == X_LANES ||
            (x_at(ex->k, *n)->kind == X_LOAD && !is_number(ex, x_at(ex->k, *n)->sym)))
            return 0;
    return 1;
}

static void expand_trips(Expander *ex, StmtId first, const Trips *t)
{
    tile_each (id, ex->k, first) {
        Stmt s = expand_at(ex, id);
        uint32_t depth = ex->b.depth;
        if (s.kind == TILE_store) {
            expand_store(ex, id, t);
            continue;
        }
        if (s.kind == TILE_for || is_known(ex, s.value)) {
            s.lo = at_first(ex, t, s.lo);
            s.hi = at_first(ex, t, s.hi);
            s.value = at_first(ex, t, s.value);
            build_open(&ex->b, s);
        }
        expand_trips(ex, s.first, t);
        build_close(&ex->b, depth);
    }
}

static int writes_numbers(const Expander *ex, StmtId first)
{
    tile_walk (w, ex->k, first)
        if (w.s->kind == TILE_store && is_number(ex, w.s->buffer))
            return 1;
    return 0;
}

/* Of lanes also if what it stores stands in loops of its own. */
static int stands_for_trips(const Expander *ex, const Stmt *s)
{
    if (s->kind != TILE_for || !expand_is_plain(ex, s->first) || writes_numbers(ex, s->first))
        return 0;
    int innermost = s->mode == LOOP_ORDERED && s->step == 1 && !tile_contains(ex->k, s->first, TILE_for);
    return tile_contains(ex->k, s->first, TILE_store) && (s->mode == LOOP_VECTOR || innermost);
}

void expand_for_core(Expander *ex, StmtId id)
{
    Stmt s = expand_at(ex, id);
    uint32_t depth = ex->b.depth;
    Trips alone = {.var = NONE, .count = one(ex)};
    if (s.kind == TILE_pack)
        expand_pack(ex, id);
    else if (s.kind == TILE_product)
        expand_product(ex, id);
    else if (s.kind == TILE_top)
        expand_top(ex, id);
    else if (stands_for_trips(ex, &s)) {
        Trips t = {s.var, s.lo, x_difference(ex->k, s.hi, s.lo)};
        build_if(&ex->b, s.loc, x_op2(ex->k, s.loc, OP_lt, s.lo, s.hi));
        expand_trips(ex, s.first, &t);
        build_close(&ex->b, depth);
    } else if (tile_has_body(&s) && s.mode != LOOP_VECTOR) {
        if (s.kind != TILE_if || is_known(ex, s.value))
            build_open(&ex->b, s);
        tile_each (inner, ex->k, s.first)
            expand_for_core(ex, inner);
        build_close(&ex->b, depth);
    } else if (s.kind == TILE_store && !is_number(ex, s.buffer) &&
               ex->k->tensors.at[s.buffer].space != SPACE_REG)
        expand_store(ex, id, &alone);
    else
        build_copy(&ex->b, id);
}
