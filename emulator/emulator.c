/* Events -> operations: who does what, on which core. */
#include "emulator/emulator_own.h"

#include "emulator/box.h"

#include <stdlib.h>
#include <string.h>

enum { SUBS_MAX = 16 }; /* of a core: itself, and the vector cores beside it */

/* A flag that a unit of `sub` sets. seen: how many of its sets each sub has waited for. */
typedef struct Flag {
    uint32_t core, sub;
    uint8_t unit, other;
    TensorId buffer;
    int64_t slot;
    int64_t sets, seen[SUBS_MAX];
} Flag;
struct Flags {
    Vec(Flag) at;
    uint32_t *table; /* open addressing: number + 1 */
    uint32_t size;
};

/* ---- buffers ---- */

/* What the plan puts there may be more than there is: `check` says so, and nothing is written outside. */
static int64_t bytes_needed(const Emulator *e, Space s)
{
    int64_t most = machine_on_chip(e->machine, s - SPACE_L1)->bytes;
    for (TensorId t = 0; t < e->k->tensors.len; t++) {
        const Tensor *x = &e->k->tensors.at[t];
        Shape shape;
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
    e->work = arena_array(a, Work, k->tiles->stmts.len + 1);
    e->found = arena_array(a, Found, k->tiles->stmts.len + 1);
    e->flags = arena_new_of(a, struct Flags);
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

static Place place_of(const Emulator *e, StmtId first)
{
    Place best = ON_HOST;
    tile_walk (w, e->k, first) {
        const Stmt *s = w.s;
        Place p = s->kind == TILE_product                                                   ? ON_CUBE
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

static void begin_launch(Emulator *e, StmtId launch)
{
    end_launch(e);
    StmtId first = emulator_stmt(e, launch)->first;
    LaunchTrace t = {.launch = launch, .place = place_of(e, first), .ncores = 1};
    if (e->machine->kind == MACHINE_CPU)
        t.place = computes(e, first) ? ON_CORES : ON_HOST;
    if (t.place == ON_CORES)
        t.ncores = (uint32_t)e->machine->cores.cube;
    if (t.place == ON_CUBE)
        t.ncores = (uint32_t)e->machine->cores.cube;
    if (t.place == ON_VECTOR)
        t.ncores = (uint32_t)e->machine->cores.vector;
    e->given = arena_array(e->a, int64_t, t.ncores);
    t.ops = arena_array(e->a, Ops, t.ncores);
    t.items = arena_array(e->a, int64_t, t.ncores);
    vec_push(e->a, &e->trace.launches, t);
    e->launch = launch;
    e->items = 0;
    sample_launch(e);
    *e->flags = (struct Flags){0};
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
static void access_on(Emulator *e, StmtId id, Unit unit, TensorId t, int64_t element, int64_t n, int write)
{
    for (int64_t across = across_of(e, t); n > 0 && across > 0;) {
        int64_t piece = across - element % across < n ? across - element % across : n;
        checker_access(e->check, id, unit, e->sub, t, element, 1, piece, write);
        element += piece;
        n -= piece;
    }
}

static void access(Emulator *e, StmtId id, Unit unit, TensorId t, int64_t element, int64_t rows, int64_t cols,
                   int write)
{
    const Tensor *x = &e->k->tensors.at[t];
    if (!e->check)
        return;
    int64_t across = across_of(e, t);
    if (!space_is_memory(x->space) || !layout_is_dense(x->layout) || across <= 0 ||
        element % across + cols <= across)
        checker_access(e->check, id, unit, e->sub, t, element, rows, cols, write);
    else
        for (int64_t i = 0; i < rows; i++)
            access_on(e, id, unit, t, element + i * across, cols, write);
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

/* What a move reads: a box of the buffer's last two axes, upright or turned, or row by row. */
static void access_box(Emulator *e, StmtId id, Unit unit, TensorId from, const int64_t *v)
{
    int64_t rows = v[4], cols = v[5], down = v[2] - v[1], right = v[3] - v[1], across = across_of(e, from);
    int turned = (cols > 1 && right != 1) || (rows > 1 && down == 1 && across > 1);
    int64_t lines = turned ? cols : rows, n = turned ? rows : cols, step = turned ? right : down;
    if (lines == 1 || step == across) {
        access(e, id, unit, from, v[1], lines, n, 0);
        return;
    }
    for (int64_t i = 0; i < lines; i++)
        access(e, id, unit, from, v[1] + i * step, 1, n, 0);
}

/* A place in global memory. A box may begin before its tensor, where nobody looks at what it read there. */
static uint64_t gm_at(TensorId t, int64_t byte)
{
    return (uint64_t)t << 40 | (uint64_t)(byte > 0 ? byte : 0);
}

static int event_pack(Emulator *e, StmtId id, const int64_t *v)
{
    const Stmt *s = emulator_stmt(e, id);
    Path path = tile_path(e->k, s);
    Unit unit = path_unit(path);
    TensorId from = x_at(e->k, tile_read_by(e->k, s))->sym, to = s->buffer;
    int into_memory = space_is_memory(e->k->tensors.at[to].space);
    int64_t rows = v[4], cols = v[5];
    if (rows <= 0 || cols <= 0)
        return 0;
    Op *op = emulator_op(e, id, unit);
    TensorId memory = into_memory ? to : from;
    int64_t bytes = (int64_t)elem_bytes(e->k->tensors.at[memory].elem);
    op->path = (uint8_t)path;
    if (path == PATH_l1_l0a || path == PATH_l1_l0b) {
        op->a = rows;
        op->b = cols * bytes;
        op->c = op->b;
    } else if (into_memory) {
        op->gm = gm_at(to, v[0] * bytes);
        emulator_runs(op, bytes, rows, cols, across_of(e, to), 1);
    } else {
        op->gm = gm_at(from, v[1] * bytes);
        emulator_runs(op, bytes, rows, cols, v[2] - v[1], v[3] - v[1]);
    }
    op->bytes = (uint8_t)bytes;
    access_box(e, id, unit, from, v);
    access(e, id, unit, to, v[0], rows, cols, 1);
    return 1;
}

/* ---- the cube ---- */

static int event_product(Emulator *e, StmtId id, const int64_t *v)
{
    const Stmt *s = emulator_stmt(e, id);
    TensorId left = x_at(e->k, s->value)->sym, right = x_at(e->k, s->other)->sym;
    if (v[3] <= 0 || v[4] <= 0)
        return 0;
    Op *op = emulator_op(e, id, UNIT_cube);
    op->a = v[3];
    op->b = v[4];
    op->c = v[5] > 0 ? v[5] : 0;
    op->bytes = (uint8_t)elem_bytes(e->k->tensors.at[left].elem);
    if (v[5] > 0) {
        access(e, id, UNIT_cube, left, v[1], v[3], v[5], 0);
        access(e, id, UNIT_cube, right, v[2], v[5], v[4], 0);
    }
    if (!v[6])
        access(e, id, UNIT_cube, s->buffer, v[0], v[3], v[4], 0);
    access(e, id, UNIT_cube, s->buffer, v[0], v[3], v[4], 1);
    return 1;
}

/* ---- flags ---- */

static uint32_t hash_flag(const Flag *f)
{
    uint64_t key[3] = {(uint64_t)f->core << 32 | f->sub,
                       (uint64_t)f->buffer << 16 | (uint64_t)f->unit << 8 | f->other, (uint64_t)f->slot};
    return (uint32_t)hash_bytes(key, sizeof key, 1);
}

static int same_flag(const Flag *a, const Flag *b)
{
    return a->core == b->core && a->sub == b->sub && a->unit == b->unit && a->other == b->other &&
           a->buffer == b->buffer && a->slot == b->slot;
}

static void grow(Emulator *e)
{
    struct Flags *x = e->flags;
    x->size = x->size ? 2 * x->size : 256;
    x->table = arena_array(e->a, uint32_t, x->size);
    for (uint32_t n = 0; n < x->at.len; n++) {
        uint32_t i = hash_flag(&x->at.at[n]) & (x->size - 1);
        while (x->table[i])
            i = (i + 1) & (x->size - 1);
        x->table[i] = n + 1;
    }
}

static Flag *flag_of(Emulator *e, Flag want)
{
    struct Flags *x = e->flags;
    if (2 * x->at.len >= x->size)
        grow(e);
    uint32_t i = hash_flag(&want) & (x->size - 1);
    while (x->table[i] && !same_flag(&x->at.at[x->table[i] - 1], &want))
        i = (i + 1) & (x->size - 1);
    if (!x->table[i]) {
        vec_push(e->a, &x->at, want);
        x->table[i] = x->at.len;
    }
    return &x->at.at[x->table[i] - 1];
}

/* Who fills the buffer: flags towards that unit begin set, but for those of the scalar unit, which runs the program. */
int flag_begins_set(const Kernel *k, const Stmt *s)
{
    Space space = k->tensors.at[s->buffer].space;
    if (s->unit == UNIT_scalar || s->other_unit == UNIT_scalar)
        return 0;
    switch (space) {
    case SPACE_L1: return s->other_unit == UNIT_mte2;
    case SPACE_L0A:
    case SPACE_L0B: return s->other_unit == UNIT_mte1;
    case SPACE_L0C: return s->other_unit == UNIT_cube;
    case SPACE_UB: return s->unit == UNIT_mte3 || s->other_unit == UNIT_mte2;
    case SPACE_GM:
    case SPACE_WORK:
    case SPACE_THREAD: return s->other_unit == UNIT_fix;
    case SPACE_REG:
    case SPACE_COUNT: break;
    }
    return 0;
}

static void note_flag(Emulator *e, StmtId id, const Flag *f, int64_t n)
{
    const Stmt *s = emulator_stmt(e, id);
    int set = s->kind == TILE_set;
    Op *op = emulator_op(e, id, set ? (Unit)s->unit : (Unit)s->other_unit);
    op->other = set ? s->other_unit : s->unit;
    op->a = f ? (f - e->flags->at.at) << 32 | n : 0;
    op->b = !f;
}

/* A wait is over when every set is that this sub has not waited for: those of its own units and of the cube core's; in the cube
 * core, those of all vector cores beside it. */
static void event_wait(Emulator *e, StmtId id, Flag want)
{
    uint32_t found = 0, subs = (uint32_t)(e->machine->cores.vector / e->machine->cores.cube);
    for (uint32_t sub = 0; sub <= subs && sub < SUBS_MAX; sub++) {
        if (e->sub && sub && sub != e->sub)
            continue;
        want.sub = sub;
        Flag *f = flag_of(e, want);
        if (f->seen[e->sub] == f->sets)
            continue;
        f->seen[e->sub] = f->sets;
        note_flag(e, id, f, f->sets - 1);
        found++;
    }
    if (!found) /* a flag that begins set, or a plan that would stand still: checker_flag says so */
        note_flag(e, id, NULL, 0);
}

static int event_flag(Emulator *e, StmtId id, const int64_t *v)
{
    const Stmt *s = emulator_stmt(e, id);
    Flag want = {.core = e->core,
                 .sub = e->sub,
                 .unit = s->unit,
                 .other = s->other_unit,
                 .buffer = s->buffer,
                 .slot = v[0]};
    if (e->check)
        checker_flag(e->check, id, e->sub, v[0]);
    if (s->kind == TILE_wait) {
        event_wait(e, id, want);
        return 0;
    }
    Flag *f = flag_of(e, want);
    note_flag(e, id, f, f->sets++);
    return 0;
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

static int event_loop(Emulator *e, StmtId id, int64_t n, const int64_t *v)
{
    const Stmt *s = emulator_stmt(e, id);
    if (s->mode == LOOP_SPLIT) {
        e->sub = (uint32_t)(v[0] + 1);
        return 1;
    }
    if (n == 4) {
        if (v[2] > 0)
            access(e, id, UNIT_vector, (TensorId)v[0], v[1], 1, v[2], (int)v[3]);
        return 1;
    }
    if (v[1] <= v[0])
        return 0;
    Work *w = &e->work[id];
    if (!w->instructions)
        *w = (Work){1 + nodes_of(e, s->first), tile_is_vector(e->k, s->first) ? UNIT_vector : UNIT_scalar,
                    writes_numbers(e, s->first)};
    Op *op = emulator_op(e, id, w->unit);
    op->kind = op->unit == UNIT_vector ? TILE_for : TILE_store;
    op->a = v[1] - v[0];
    op->b = n == 3 ? v[2] : w->instructions; /* a nest tells how many itself */
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

/* v: how many are to be found, the range, where the first goes. */
static int event_top(Emulator *e, StmtId id, const int64_t *v)
{
    Found *f = &e->found[id];
    TensorId ids = emulator_stmt(e, id)->second;
    int64_t k = v[0];
    if (!e->chooser || k <= 0)
        return 1;
    if (f->left < k) {
        int64_t tokens = (elements_of(e, ids) + k - 1) / k;
        f->at = e->chooser->choose(e->chooser->user, e->k->tensors.at[ids].name, tokens, k, v[2] - v[1]);
        f->left = tokens * k;
    }
    for (int64_t i = 0; i < k; i++)
        ((int32_t *)(uintptr_t)v[3])[i] = (int32_t)v[1] + f->at[i];
    f->at += k;
    f->left -= k;
    return 0;
}

int emulator_event(void *emulator, int64_t statement, int64_t n, const int64_t *values)
{
    Emulator *e = emulator;
    StmtId id = (StmtId)statement;
    TileKind kind = (TileKind)emulator_stmt(e, id)->kind;
    int run = 1;
    if (e->machine->kind == MACHINE_CPU && kind != TILE_launch && kind != TILE_top)
        return core_event(e, id, n, values);
    switch (kind) {
    case TILE_launch: return begin_item(e, id);
    case TILE_pack: run = event_pack(e, id, values); break;
    case TILE_product: run = event_product(e, id, values); break;
    case TILE_set:
    case TILE_wait: run = event_flag(e, id, values); break;
    case TILE_for: return event_loop(e, id, n, values);
    case TILE_top: return event_top(e, id, values);
    case TILE_if:
    case TILE_store:
    case TILE_event:
    case TILE_check:
    case TILE_blocks:
    case TILE_bucket:
    case TILE_route:
    case TILE_valid:
    case TILE_COUNT: break;
    }
    if (e->check && checker_error(e->check))
        return 0; /* who knows what it would write to */
    return run && e->mode != EMULATE_MODEL;
}

/* ---- sums ---- */

int64_t op_cube_steps(const Machine *m, const Op *op)
{
    const Blocks *cube = &m->cube_16bit;
    return (op->a + cube->rows - 1) / cube->rows * ((op->b + cube->cols - 1) / cube->cols) *
           ((op->c + cube->depth - 1) / cube->depth);
}

static void add_op(Counts *c, const Op *op, const Machine *m)
{
    switch ((TileKind)op->kind) {
    case TILE_pack: c->bytes[op->path] += op->a * op->b; break;
    case TILE_product:
        c->products++;
        c->cube_steps += op_cube_steps(m, op);
        break;
    case TILE_set:
    case TILE_wait: c->flags++; break;
    case TILE_for: c->vector_elements += op->a * op->b; break;
    case TILE_store: c->scalar_elements += op->a * op->b; break;
    case TILE_launch:
    case TILE_if:
    case TILE_event:
    case TILE_check:
    case TILE_blocks:
    case TILE_bucket:
    case TILE_top:
    case TILE_route:
    case TILE_valid:
    case TILE_COUNT: break;
    }
}

Counts trace_counts(const Trace *t)
{
    Counts c = {.products = 0};
    for (uint32_t l = 0; l < t->launches.len; l++)
        for (uint32_t core = 0; core < t->launches.at[l].ncores; core++)
            for (uint32_t i = 0; i < t->launches.at[l].ops[core].len; i++)
                add_op(&c, &t->launches.at[l].ops[core].at[i], t->machine);
    return c;
}
