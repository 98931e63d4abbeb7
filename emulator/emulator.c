/* Events -> operations: who does what, on which core. */
#include "emulator/emulator_own.h"

#include "emulator/box.h"

#include <stdlib.h>

/* ---- buffers ---- */

/* What the plan puts there may be more than there is: `check` says so, and nothing is written outside. */
static int64_t bytes_needed(const Emulator *e, Space s)
{
    int64_t most = machine_on_chip(e->machine, s - SPACE_L1)->bytes;
    for (TensorId t = 0; t < e->k->tensors.len; t++) {
        const Tensor *x = &e->k->tensors.at[t];
        BoxShape shape;
        if (x->space == s && box_shape(e->k, t, e->dims, &shape) &&
            x->at + shape.matrices * shape.stride > most)
            most = x->at + shape.matrices * shape.stride;
    }
    return most;
}

Emulator *emulator_new(Arena *a, const Machine *machine, Isa isa, const Kernel *k, const int64_t *dims,
                       EmulateMode mode, const Chooser *chooser)
{
    Emulator *e = arena_new_of(a, Emulator);
    *e = (Emulator){
        .a = a, .machine = machine, .k = k, .dims = dims, .mode = mode, .launch = NONE, .chooser = chooser};
    e->trace = (Trace){.arena = a, .machine = machine, .cpu = &cpu_table[isa], .k = k, .dims = dims};
    e->work = arena_array(a, LoopWork, k->tiles->stmts.len + 1);
    e->found = arena_array(a, Found, k->tiles->stmts.len + 1);
    for (Space s = SPACE_L1; s < SPACE_COUNT && machine->kind == MACHINE_NPU; s++)
        if (!(e->on_chip[s] = calloc(1, (size_t)bytes_needed(e, s) + 64)))
            BUG(a, "emulator: out of memory");
    if (mode == EMULATE_CHECK)
        e->check = checker_new(a, machine, k, dims, e->on_chip);
    return e;
}

void emulator_free(Emulator *e)
{
    for (Space s = SPACE_L1; e && s < SPACE_COUNT; s++)
        free(e->on_chip[s]);
}

const char *emulator_error(const Emulator *e)
{
    if (!e->check)
        return NULL;
    checker_end(e->check);
    return checker_error(e->check);
}

void *emulator_on_chip(void *emulator, int64_t space) { return ((Emulator *)emulator)->on_chip[space]; }

/* ---- launches and items ---- */

static CoreKind place_of(const Emulator *e, StmtId first)
{
    CoreKind best = ON_HOST;
    tile_walk (w, e->k, first) {
        const Stmt *s = w.s;
        CoreKind p = s->kind == TILE_product                                                   ? ON_CUBE
                     : s->kind == TILE_pack && tile_path(e->k, s) < PATH_COUNT                 ? ON_VECTOR
                     : s->kind == TILE_store && e->k->tensors.at[s->buffer].space != SPACE_REG ? ON_SCALAR
                                                                                               : ON_HOST;
        best = p > best ? p : best;
    }
    return best;
}

/* Does code for a CPU compute floats there, or move them? */
static int computes(const Emulator *e, StmtId first)
{
    tile_walk (w, e->k, first)
        if (w.s->kind == TILE_product || w.s->kind == TILE_pack ||
            (w.s->kind == TILE_store && elem_type(e->k->tensors.at[w.s->buffer].elem) != TY_INT))
            return 1;
    return 0;
}

static LaunchTrace *current(Emulator *e) { return &e->trace.launches.at[e->trace.launches.len - 1]; }

/* A launch on an NPU starts no more cores than it has items, which the host knows. */
static void end_launch(Emulator *e)
{
    LaunchTrace *t = e->trace.launches.len ? current(e) : NULL;
    if (t)
        sample_end(e);
    if (t && t->place != ON_CORES && e->items < t->ncores)
        t->ncores = (uint32_t)e->items;
}

const Trace *emulator_trace(Emulator *e)
{
    end_launch(e);
    return &e->trace;
}

static uint32_t cores_of(const Emulator *e, CoreKind place, const Stmt *launch)
{
    const uint32_t cube = (uint32_t)e->machine->cores.cube;
    switch (place) {
    case ON_SCALAR:
    case ON_HOST: break;
    case ON_VECTOR: return (uint32_t)e->machine->cores.vector;
    case ON_CUBE: return cube;
    case ON_CORES: return launch->threads && launch->threads < cube ? (uint32_t)launch->threads : cube;
    }
    return 1;
}

static void begin_launch(Emulator *e, StmtId launch)
{
    end_launch(e);
    const Stmt *s = emulator_stmt(e, launch);
    LaunchTrace t = {.launch = launch, .place = place_of(e, s->first)};
    if (e->machine->kind == MACHINE_CPU)
        t.place = computes(e, s->first) ? ON_CORES : ON_HOST;
    t.ncores = cores_of(e, t.place, s);
    e->given = arena_array(e->a, int64_t, t.ncores);
    e->past = arena_array(e->a, uint8_t, e->k->tensors.len + 1);
    t.ops = arena_array(e->a, Ops, t.ncores);
    t.items = arena_array(e->a, int64_t, t.ncores);
    vec_push(e->a, &e->trace.launches, t);
    e->launch = launch;
    e->items = 0;
    sample_launch(e);
    flags_begin(e);
    if (e->check)
        checker_launch(e->check, launch, t.ncores);
}

/* A core of a CPU takes an item when it is free: the one that has had the least to do. */
static uint32_t free_core(const Emulator *e, uint32_t ncores)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < ncores; c++)
        best = e->given[c] < e->given[best] ? c : best;
    return best;
}

/* Items go to the cores of an NPU in turn. Does this one run? */
static int begin_item(Emulator *e, StmtId launch)
{
    if (e->launch != launch)
        begin_launch(e, launch);
    LaunchTrace *t = current(e);
    e->core = t->place == ON_CORES ? free_core(e, t->ncores) : (uint32_t)(e->items % t->ncores);
    e->sub = 0;
    t->items[e->core]++;
    if (e->check)
        checker_item(e->check, e->core, e->items);
    int looks = sample_item(e);
    e->items++;
    return looks;
}

Op *emulator_op(Emulator *e, StmtId id, Unit unit)
{
    Op op = {.kind = emulator_stmt(e, id)->kind,
             .unit = (uint8_t)unit,
             .path = PATH_COUNT,
             .sub = (uint8_t)e->sub,
             .stmt = id};
    return sample_op(e, op);
}

/* ---- moves ---- */

static int64_t across_of(const Emulator *e, TensorId t)
{
    const Tensor *x = &e->k->tensors.at[t];
    int64_t n = 1;
    if (x->rank)
        ext_eval(e->k->module, x->axes[x->rank - 1].extent, e->dims, &n);
    return n;
}

/* Axes of memory that are used as one: a run goes on in the next row. */
static void access_on(Emulator *e, UnitAccess row, int64_t across)
{
    for (int64_t n = row.cols; n > 0; n -= row.cols, row.element += row.cols) {
        int64_t left = across - row.element % across;
        row.cols = left < n ? left : n;
        checker_access(e->check, row);
    }
}

/* By a unit of the core that runs. */
static void access(Emulator *e, UnitAccess u)
{
    const Tensor *x = &e->k->tensors.at[u.buffer];
    if (!e->check)
        return;
    u.sub = e->sub;
    int64_t across = across_of(e, u.buffer), rows = u.rows;
    if (!space_is_memory(x->space) || !layout_is_dense(x->layout) || across <= 0 ||
        u.element % across + u.cols <= across) {
        checker_access(e->check, u);
        return;
    }
    u.rows = 1;
    for (int64_t i = 0; i < rows; i++, u.element += across)
        access_on(e, u, across);
}

void emulator_runs(Op *op, int64_t bytes, int64_t rows, int64_t cols, int64_t down, int64_t right)
{
    if (right == 1 || cols == 1) {
        int whole = down == cols && right == 1;
        op->a = whole ? 1 : rows;
        op->b = (whole ? rows * cols : cols) * bytes;
        op->c = whole ? 0 : down * bytes;
    } else if (down == 1 || rows == 1) {
        op->a = cols;
        op->b = rows * bytes;
        op->c = right * bytes;
    } else {
        op->a = rows * cols;
        op->b = bytes;
        op->c = right * bytes;
    }
}

/* What a move reads: a box of the buffer's last two axes, upright or transposed, row by row, or, where the elements of neither
 * axis lie beside each other, one by one. */
static void access_box(Emulator *e, StmtId id, Unit unit, TensorId from, const MoveEvent *v)
{
    int64_t down = v->below - v->from, right = v->beside - v->from, across = across_of(e, from);
    int transposed = (v->cols > 1 && right != 1) || (v->rows > 1 && down == 1 && across > 1);
    int64_t lines = transposed ? v->cols : v->rows, n = transposed ? v->rows : v->cols,
            step = transposed ? right : down, apart = transposed ? down : right;
    UnitAccess u = {.stmt = id, .unit = unit, .buffer = from, .element = v->from, .rows = 1, .cols = n};
    if (n > 1 && apart != 1) {
        u.cols = 1;
        for (int64_t i = 0; i < lines; i++)
            for (int64_t j = 0; j < n; j++) {
                u.element = v->from + i * step + j * apart;
                access(e, u);
            }
        return;
    }
    if (lines == 1 || step == across) {
        u.rows = lines;
        access(e, u);
        return;
    }
    for (int64_t i = 0; i < lines; i++, u.element += step)
        access(e, u);
}

/* A place in global memory. A box may begin before its tensor, where nobody looks at what it read there. */
static uint64_t gm_at(TensorId t, int64_t byte)
{
    return (uint64_t)t << 40 | (uint64_t)(byte > 0 ? byte : 0);
}

/* The runs that a move goes over on the side of global memory; of a move from L1 to L0 the rows of the box. */
static void note_runs(const Emulator *e, Op *op, const Stmt *s, TensorId from, const MoveEvent *v)
{
    int into_memory = space_is_memory(e->k->tensors.at[s->buffer].space);
    int64_t bytes = (int64_t)elem_bytes(e->k->tensors.at[into_memory ? s->buffer : from].elem);
    op->bytes = (uint8_t)bytes;
    if (op->path == PATH_l1_l0a || op->path == PATH_l1_l0b) {
        op->a = v->rows;
        op->b = v->cols * bytes;
        op->c = op->b;
    } else if (into_memory) {
        op->gm = gm_at(s->buffer, v->to * bytes);
        emulator_runs(op, bytes, v->rows, v->cols, across_of(e, s->buffer), 1);
    } else {
        op->gm = gm_at(from, v->from * bytes);
        emulator_runs(op, bytes, v->rows, v->cols, v->below - v->from, v->beside - v->from);
    }
}

static int event_move(Emulator *e, StmtId id, const MoveEvent *v)
{
    const Stmt *s = emulator_stmt(e, id);
    Path path = tile_path(e->k, s);
    Unit unit = path_unit(path);
    TensorId from = x_at(e->k, tile_read_by(e->k, s))->sym;
    if (v->rows <= 0 || v->cols <= 0)
        return 0;
    Op *op = emulator_op(e, id, unit);
    op->path = (uint8_t)path;
    note_runs(e, op, s, from, v);
    access_box(e, id, unit, from, v);
    access(e, (UnitAccess){id, unit, 0, s->buffer, 1, v->to, v->rows, v->cols});
    return 1;
}

/* ---- the cube ---- */

static int event_multiply(Emulator *e, StmtId id, const MultiplyEvent *v)
{
    const Stmt *s = emulator_stmt(e, id);
    TensorId left = x_at(e->k, s->value)->sym, right = x_at(e->k, s->other)->sym;
    if (v->rows <= 0 || v->cols <= 0)
        return 0;
    Op *op = emulator_op(e, id, UNIT_cube);
    op->a = v->rows;
    op->b = v->cols;
    op->c = v->depth > 0 ? v->depth : 0;
    op->bytes = (uint8_t)elem_bytes(e->k->tensors.at[left].elem);
    UnitAccess sums = {id, UNIT_cube, 0, s->buffer, 0, v->sums, v->rows, v->cols};
    if (v->depth > 0) {
        access(e, (UnitAccess){id, UNIT_cube, 0, left, 0, v->left, v->rows, v->depth});
        access(e, (UnitAccess){id, UNIT_cube, 0, right, 0, v->right, v->depth, v->cols});
    }
    if (!v->init)
        access(e, sums);
    sums.write = 1;
    access(e, sums);
    return 1;
}

/* ---- vector and scalar loops ---- */

static uint32_t nodes_of(const Emulator *e, StmtId first)
{
    uint32_t n = 0;
    tile_walk (w, e->k, first) {
        n += w.s->kind == TILE_store;
        if (w.s->value != NONE)
            each_below (x, e->k, w.s->value, EVERYWHERE)
                n += x_at(e->k, *x)->kind == X_OP && x_at(e->k, *x)->type != TY_INT;
    }
    return n;
}

static int writes_numbers(const Emulator *e, StmtId first)
{
    tile_walk (w, e->k, first)
        if (w.s->kind == TILE_store ? elem_type(e->k->tensors.at[w.s->buffer].elem) == TY_INT
                                    : !tile_has_body(w.s))
            return 1;
    return 0;
}

static int event_split(Emulator *e, const SplitEvent *v)
{
    e->sub = (uint32_t)(v->core + 1);
    return 1;
}

static int event_touch(Emulator *e, StmtId id, const TouchEvent *v)
{
    if (v->count > 0)
        access(e, (UnitAccess){id, UNIT_vector, 0, (TensorId)v->buffer, (int)v->written, v->element, 1,
                               v->count});
    return 1;
}

static const LoopWork *work_of(Emulator *e, StmtId loop)
{
    StmtId first = emulator_stmt(e, loop)->first;
    LoopWork *w = &e->work[loop];
    if (!w->instructions)
        *w = (LoopWork){1 + nodes_of(e, first), tile_is_vector(e->k, first) ? UNIT_vector : UNIT_scalar,
                        writes_numbers(e, first)};
    return w;
}

/* work: the instructions of a trip, or -1: those of the loop's statements. */
static int event_loop(Emulator *e, StmtId id, int64_t trips, int64_t work)
{
    if (trips <= 0)
        return 0;
    const LoopWork *w = work_of(e, id);
    Op *op = emulator_op(e, id, w->unit);
    op->kind = op->unit == UNIT_vector ? TILE_for : TILE_store;
    op->a = trips;
    op->b = work >= 0 ? work : w->instructions;
    if (e->check && op->unit == UNIT_scalar)
        checker_loop(e->check, id, e->sub);
    return w->numbers || e->mode != EMULATE_MODEL;
}

/* ---- choices ---- */

static int64_t elements_of(const Emulator *e, TensorId t)
{
    int64_t n = 1, extent;
    const Tensor *x = &e->k->tensors.at[t];
    for (uint32_t i = 0; i < x->rank; i++)
        n *= ext_eval(e->k->module, x->axes[i].extent, e->dims, &extent) ? extent : 0;
    return n;
}

static int event_choose(Emulator *e, StmtId id, const ChooseEvent *v)
{
    Found *f = &e->found[id];
    TensorId ids = emulator_stmt(e, id)->second;
    int64_t k = v->count;
    if (!e->chooser || k <= 0)
        return 1;
    if (f->left < k) {
        int64_t tokens = (elements_of(e, ids) + k - 1) / k;
        f->at = e->chooser->choose(e->chooser->user, e->k->tensors.at[ids].name, tokens, k, v->hi - v->lo);
        f->left = tokens * k;
    }
    for (int64_t i = 0; i < k; i++)
        ((int32_t *)(uintptr_t)v->chosen)[i] = (int32_t)v->lo + f->at[i];
    f->at += k;
    f->left -= k;
    return 0;
}

/* The unit has done its part as far as the model goes: do the data follow? */
static int is_done_too(const Emulator *e)
{
    int broken = e->check && checker_error(e->check); /* who knows what it would write to */
    return !broken && e->mode != EMULATE_MODEL;
}

int emulator_event(void *emulator, int64_t kind, int64_t statement, const int64_t *values)
{
    Emulator *e = emulator;
    StmtId id = (StmtId)statement;
    const void *v = values; /* the struct of the event's kind */
    switch ((EventKind)kind) {
    case EVENT_item: return begin_item(e, id);
    case EVENT_split: return event_split(e, v);
    case EVENT_flag: emulator_flag(e, id, v); return 0;
    case EVENT_move: return event_move(e, id, v) && is_done_too(e);
    case EVENT_multiply: return event_multiply(e, id, v) && is_done_too(e);
    case EVENT_loop: {
        const LoopEvent *loop = v;
        return event_loop(e, id, loop->hi - loop->lo, -1);
    }
    case EVENT_nest: {
        const NestEvent *nest = v;
        return event_loop(e, id, nest->hi - nest->lo, nest->work);
    }
    case EVENT_touch: return event_touch(e, id, v);
    case EVENT_access: core_access(e, id, v); return 0;
    case EVENT_pack: core_pack(e, id, v); return 0;
    case EVENT_product: core_product(e, id, v); return 0;
    case EVENT_store: core_store(e, id, v); return 0;
    case EVENT_choose: return event_choose(e, id, v);
    case EVENT_COUNT: break;
    }
    BUG(e->a, "emulator: there is no event %lld", (long long)kind);
}

int64_t op_cube_steps(const Machine *m, const Op *op)
{
    const Blocks *cube = &m->cube_16bit;
    return (op->a + cube->rows - 1) / cube->rows * ((op->b + cube->cols - 1) / cube->cols) *
           ((op->c + cube->depth - 1) / cube->depth);
}
