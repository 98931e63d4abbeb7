/* A core of a CPU: see core.h. What a product, a pack and a loop take is what the code of backend/ does: fragments of sums in
 * registers, lines copied or words transposed, instructions for each vector. */
#include "emulator/core.h"

#include "emulator/box.h"
#include "emulator/emulator_own.h"
#include "emulator/memory.h"

static int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; } /* whole ones */
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Bytes of 16 x 16 words. */
enum { CORE_TRANSPOSE_BYTES = 16 * LAYOUT_LINE_BYTES };

/* ---- events ---- */

static Unit unit_of(const Stmt *s)
{
    return s->kind == TILE_product ? UNIT_cube : s->kind == TILE_pack ? UNIT_mte2 : UNIT_vector;
}

/* Panels of 32 columns, or lines of 64 bytes: as many as the box goes over. */
static void runs_in_panels(Op *op, const BoxShape *s, const Box *b)
{
    int64_t bytes = (int64_t)elem_bytes(s->elem);
    int64_t edge = s->layout == LAYOUT_LINES ? LAYOUT_LINE_BYTES / bytes : LAYOUT_EDGE;
    op->a = parts(b->cols, edge);
    op->b = b->rows * edge * bytes;
    op->c = box_place(s, 0, 0, edge);
}

/* rows x cols elements of a buffer from its element `number` on; below and beside each other they stand `down` and `right`
 * apart, or 0 where only memory says: then rows stand for it. */
typedef struct CoreAccess {
    TensorId buffer;
    int64_t number, rows, cols, down, right;
    AccessForm form;
} CoreAccess;

static void note_box(Emulator *e, StmtId id, const BoxShape *s, const CoreAccess *x)
{
    Box b = box_at(s, most(x->number, 0), x->rows, x->cols);
    if (x->rows <= 0 || x->cols <= 0)
        return;
    Op *op = emulator_op(e, id, unit_of(emulator_stmt(e, id)));
    op->kind = TILE_event;
    op->other = (uint8_t)x->form;
    op->gm = (uint64_t)x->buffer << 40 | (uint64_t)box_place(s, b.matrix, b.i, b.j);
    if (layout_is_dense(s->layout))
        emulator_runs(op, (int64_t)elem_bytes(s->elem), x->rows, x->cols, x->down ? x->down : s->y,
                      x->right ? x->right : s->y);
    else
        runs_in_panels(op, s, &b);
}

/* A product of an operand in rows asks for its next part while it goes over this one: for as many bytes of each row as a part
 * has words of 32 columns, and for whole parts. Where rows or the depth are shorter it asks for others (emit_rows.c). */
static int64_t rows_in_time(const Emulator *e, const BoxShape *s, const CoreAccess *x)
{
    int64_t part = e->trace.cpu->rows_read, run = x->cols * (int64_t)elem_bytes(s->elem);
    int64_t asked = LAYOUT_EDGE * LAYOUT_LINE_BYTES;
    return x->cols == s->y ? x->rows * least(x->rows, part) / part : x->rows * least(run, asked) / asked;
}

static int is_right_in_rows(const Emulator *e, const Stmt *s, const BoxShape *shape, TensorId t)
{
    return s->kind == TILE_product && !s->transposed && x_at(e->k, s->other)->sym == t &&
           layout_is_dense(shape->layout);
}

static int reads(const Emulator *e, StmtId first, TensorId t)
{
    tile_walk (w, e->k, first) {
        if (w.s->kind == TILE_store && w.s->add && w.s->buffer == t)
            return 1;
        tile_each_operand (o, w.s)
            if (tile_operand_is_expr(&o))
                each_below (n, e->k, o.id, EVERYWHERE)
                    if (x_at(e->k, *n)->kind == X_LOAD && x_at(e->k, *n)->sym == t)
                        return 1;
    }
    return 0;
}

/* Is it the launch's to store past the caches, and large enough or asked for? Note [Streams] in backend/emit_stream.c. */
static int is_past(const Emulator *e, TensorId t, const BoxShape *s)
{
    const Stmt *launch = emulator_stmt(e, e->launch);
    const Tensor *x = &e->k->tensors.at[t];
    int has_product = tile_contains(e->k, launch->first, TILE_product);
    int64_t least = has_product ? e->machine->caches.stream_weights : e->machine->caches.stream;
    int may = x->space == SPACE_GM || (x->space == SPACE_WORK && !has_product);
    if (!may || launch->writes == WRITES_KEPT || !layout_is_dense(x->layout) || reads(e, launch->first, t))
        return 0;
    return launch->writes == WRITES_PAST || s->matrices * s->stride >= least;
}

static int goes_past(Emulator *e, TensorId t, const BoxShape *s)
{
    if (!e->past[t])
        e->past[t] = (uint8_t)(1 + is_past(e, t, s));
    return e->past[t] == 2;
}

void core_access(Emulator *e, StmtId id, const AccessEvent *v)
{
    CoreAccess x = {.buffer = (TensorId)v->buffer,
                    .number = v->element,
                    .rows = v->rows,
                    .cols = v->cols,
                    .down = v->below - v->element,
                    .right = v->beside - v->element,
                    .form = v->written ? ACCESS_WRITE : ACCESS_READ};
    const Stmt *stmt = emulator_stmt(e, id);
    BoxShape s;
    if (!box_shape(e->k, x.buffer, e->dims, &s) || !s.x || !s.y)
        return;
    if (x.form == ACCESS_READ)
        e->transposed = x.down == 1 && x.right != 1;
    else if (stmt->kind == TILE_store && goes_past(e, x.buffer, &s))
        x.form = ACCESS_PAST;
    else if (stmt->kind == TILE_product && e->k->tensors.at[x.buffer].space == SPACE_THREAD)
        x.form = ACCESS_SUMS;
    if (x.form == ACCESS_READ && e->transposed && stmt->kind == TILE_pack)
        x.form = ACCESS_ACROSS;
    else if (x.form == ACCESS_READ && emulator_stmt(e, e->launch)->ahead == 0 && /* KNOB_ahead */
             !cpu_can(e->trace.cpu, CPU_ASKS_RUNS))
        x.form = ACCESS_UNASKED;
    if (is_right_in_rows(e, stmt, &s, x.buffer) && x.form == ACCESS_READ) {
        CoreAccess late = x;
        x.rows = rows_in_time(e, &s, &x);
        late.rows -= x.rows;
        late.number += x.rows * s.y;
        late.form = ACCESS_LATE;
        note_box(e, id, &s, &late);
    }
    note_box(e, id, &s, &x);
}

static RightForm form_of(const Emulator *e, const Stmt *s)
{
    const Tensor *right = &e->k->tensors.at[x_at(e->k, s->other)->sym];
    return s->transposed ? RIGHT_TRANSPOSED : layout_is_dense(right->layout) ? RIGHT_ROWS : RIGHT_PANELS;
}

static Elem elem_of(const Emulator *e, ExprId load) { return e->k->tensors.at[x_at(e->k, load)->sym].elem; }

void core_product(Emulator *e, StmtId id, const ProductEvent *v)
{
    const Stmt *s = emulator_stmt(e, id);
    BoxShape right;
    if (v->rows <= 0 || v->cols <= 0)
        return;
    Op *op = emulator_op(e, id, UNIT_cube);
    op->a = v->rows;
    op->b = v->cols;
    op->c = most(v->depth, 0);
    op->bytes = (uint8_t)elem_bytes(elem_of(e, s->value));
    op->other = (uint8_t)form_of(e, s);
    if (op->other != RIGHT_PANELS && box_shape(e->k, x_at(e->k, s->other)->sym, e->dims, &right))
        op->gm = (uint64_t)right.y;
    e->given[e->core] += op->a * op->b * op->c;
}

void core_pack(Emulator *e, StmtId id, const PackEvent *v)
{
    const Stmt *s = emulator_stmt(e, id);
    if (v->rows <= 0 || v->cols <= 0)
        return;
    Op *op = emulator_op(e, id, UNIT_mte2);
    op->a = v->rows;
    op->b = v->cols;
    op->c = e->transposed;
    op->bytes = (uint8_t)elem_bytes(e->k->tensors.at[s->buffer].elem);
    e->given[e->core] += op->a * op->b;
}

static uint32_t instructions_of(const Emulator *e, StmtId id)
{
    uint32_t n = 1;
    each_below (x, e->k, emulator_stmt(e, id)->value, EVERYWHERE)
        n += x_at(e->k, *x)->kind == X_OP && x_at(e->k, *x)->type != TY_INT;
    return n;
}

void core_store(Emulator *e, StmtId id, const StoreEvent *v)
{
    LoopWork *w = &e->work[id];
    if (v->trips <= 0)
        return;
    if (!w->instructions)
        w->instructions = instructions_of(e, id);
    Op *op = emulator_op(e, id, UNIT_vector);
    op->a = v->trips;
    op->b = w->instructions;
    e->given[e->core] += op->a * op->b;
}

/* ---- products ---- */

/* Registers of sums: rows x cols of them, and the terms that one instruction adds to each. */
typedef struct CoreFragment {
    int64_t rows, cols, terms;
} CoreFragment;

/* Sums that multiply-adds fill in a cycle, in bytes: two instructions at most. */
static int64_t rate_of(const Trace *t) { return least(t->machine->core.add, 2 * (int64_t)t->cpu->lanes * 4); }

static int has_tiles(const Trace *t, const Op *op)
{
    return op->bytes == 2 && t->cpu->rows % t->machine->cube_16bit.rows == 0;
}

static CoreFragment fragment_of(const Trace *t, const Op *op)
{
    const Cpu *c = &cpu_table[t->cpu->f32];
    return (CoreFragment){c->rows, c->vectors * c->lanes, op->bytes == 2 ? 2 : 1};
}

/* Steps of the depth for which a fragment keeps its sums. Of an operand in rows what is asked for ahead must be no more than a
 * row, and few rows ask for short parts where Cpu.streams are read: emit_rows.c. */
static int64_t part_of(const Trace *t, const Op *op, const CoreFragment *f)
{
    int few = op->a <= FEW_FRAGMENTS * f->rows;
    int64_t part = t->cpu->part, terms = few && t->cpu->streams > 1 ? LAYOUT_EDGE : t->cpu->rows_read,
            fits = op->b / LAYOUT_EDGE / LAYOUT_EDGE * LAYOUT_EDGE;
    switch ((RightForm)op->other) {
    case RIGHT_PANELS: return few ? least(part, FIRST_CACHE_WORDS) : part;
    case RIGHT_TRANSPOSED: return FIRST_CACHE_WORDS;
    case RIGHT_ROWS: break;
    }
    return (op->b == (int64_t)op->gm ? terms : most(least(fits, terms), LAYOUT_EDGE)) / f->terms;
}

/* A fragment of some rows: its multiply-adds, and its sums' way from and to a cache once for each part. */
static int64_t fragment_cycles(const Trace *t, const CoreFragment *f, int64_t rows, int64_t steps,
                               int64_t nparts)
{
    int64_t bytes = rows * f->cols * 4;
    return most(parts(bytes, rate_of(t)), t->machine->core.chain) * steps +
           nparts * (parts(bytes, t->machine->core.store) + t->machine->core.loop);
}

/* What the first fragment of each 32 columns does for the others: it makes a panel in the first cache. */
static int64_t panel_cycles(const Machine *m, const Op *op, const CoreFragment *f, int64_t steps)
{
    switch ((RightForm)op->other) {
    case RIGHT_PANELS: break;
    case RIGHT_ROWS: return steps * parts(f->cols * 4, m->core.store);
    case RIGHT_TRANSPOSED: return parts(steps * f->cols * 4, CORE_TRANSPOSE_BYTES) * m->core.transpose;
    }
    return 0;
}

/* Of `bytes` that a product goes over again and again, `again` bytes in all: cycles that fragments wait for the last cache. */
static int64_t again_cycles(const Machine *m, int64_t bytes, int64_t again)
{
    int64_t sure = memory_sure(m), range = most(m->caches.l2 - sure, 1), gone = least(bytes - sure, range);
    return gone > 0 ? (int64_t)((double)gone / (double)range * (double)again) / m->core.l3 : 0;
}

/* Panels read all of the left operand; parts of a right one in rows that part of it, and all sums, which they write too. */
static int64_t reuse_cycles(const Trace *t, const Op *op, int64_t panels, int64_t part, int64_t nparts)
{
    int64_t left = op->a * op->c * op->bytes, sums = op->a * op->b * 4;
    int64_t at_once = op->other == RIGHT_ROWS ? op->a * least(part, op->c) * op->bytes : left;
    int64_t cycles = again_cycles(t->machine, at_once, (panels - 1) * left);
    return op->other == RIGHT_ROWS ? cycles + again_cycles(t->machine, at_once + sums, 2 * nparts * sums)
                                   : cycles;
}

static int64_t product_cycles(const Trace *t, const Op *op)
{
    CoreFragment f = fragment_of(t, op);
    int64_t steps = parts(op->c, f.terms), part = part_of(t, op, &f), nparts = most(parts(steps, part), 1);
    int64_t tail = cpu_tail((uint32_t)f.rows), whole = op->a / f.rows, tails = parts(op->a % f.rows, tail);
    int64_t panels = parts(op->b, f.cols);
    int64_t panel = whole * fragment_cycles(t, &f, f.rows, steps, nparts) +
                    tails * fragment_cycles(t, &f, tail, steps, nparts) +
                    panel_cycles(t->machine, op, &f, steps);
    return panels * panel + reuse_cycles(t, op, panels, part * f.terms, nparts);
}

int64_t core_product_cycles(const Trace *t, const Op *op)
{
    if (has_tiles(t, op))
        return op_cube_steps(t->machine, op) * t->machine->core.tile;
    return parts(op->a * op->b * parts(op->c, fragment_of(t, op).terms) * 4, rate_of(t));
}

/* Of tiles. Sums come from the second cache and go there, once for each part: writing a line takes as long as reading three
 * (measured on an Emerald Rapids Xeon: 64 lines are loaded in 27 ns and stored in 89). */
static int64_t tile_cycles(const Trace *t, const Op *op)
{
    const Machine *m = t->machine;
    const CoreFragment f = {t->cpu->rows, LAYOUT_EDGE, 2};
    int64_t words = parts(op->c, f.terms), panels = parts(op->b, f.cols),
            fragments = panels * parts(op->a, f.rows);
    int64_t sums = parts(4 * f.rows * f.cols * 4, m->core.l2) + m->core.loop;
    return core_product_cycles(t, op) + fragments * most(parts(words, t->cpu->part), 1) * sums +
           panels * panel_cycles(m, op, &f, words);
}

/* ---- what an operation takes ---- */

static int64_t pack_cycles(const Machine *m, const Op *op)
{
    int64_t bytes = op->a * op->b * op->bytes;
    return op->c ? parts(bytes, CORE_TRANSPOSE_BYTES) * m->core.transpose
                 : parts(bytes, m->core.copy) + op->a * m->core.loop;
}

int64_t core_cycles(const Trace *t, const Op *op)
{
    const Machine *m = t->machine;
    switch ((Unit)op->unit) {
    case UNIT_cube: return m->core.call + (has_tiles(t, op) ? tile_cycles(t, op) : product_cycles(t, op));
    case UNIT_mte2: return m->core.call + pack_cycles(m, op);
    case UNIT_vector: return m->core.loop + op->b * parts(op->a * 4, rate_of(t));
    case UNIT_scalar:
    case UNIT_mte1:
    case UNIT_fix:
    case UNIT_mte3:
    case UNIT_COUNT: break;
    }
    return 0;
}

int64_t core_flops(const Trace *t)
{
    const Blocks *tile = &t->machine->cube_16bit;
    if (t->cpu->rows % tile->rows == 0)
        return 2 * tile->rows * tile->cols * tile->depth / t->machine->core.tile;
    return 2 * rate_of(t) / 4 * (t->cpu->terms > 1 ? 2 : 1);
}
