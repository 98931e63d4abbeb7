/* Every access of a plan, held against what was written and who knows of it: Note [Vector clocks]. */
#include "emulator/check_own.h"

#include <string.h>

/* ---- begin of the call, of a launch, of an item ---- */

/* NULL: not on the chip. */
static const OnChip *chip_space(const Machine *m, Space s)
{
    return space_is_on_chip(s) ? machine_on_chip(m, s - SPACE_L1) : NULL;
}

static void check_buffer(Checker *c, TensorId id, const BoxShape *s)
{
    const Tensor *t = &c->k->tensors.at[id];
    const OnChip *space = chip_space(c->machine, t->space);
    if (!space)
        return;
    int64_t bytes = s->matrices * s->stride;
    if (t->at < 0 || bytes > space->bytes - t->at)
        check_fail(c, "%s takes the bytes %lld..%lld of %s, which has %lld", t->name, (long long)t->at,
                   (long long)(t->at + bytes), space_name(t->space), (long long)space->bytes);
    else if (t->at % space->align)
        check_fail(c, "%s begins at byte %lld of %s, which asks for multiples of %lld", t->name,
                   (long long)t->at, space_name(t->space), (long long)space->align);
}

static void poison(Checker *c, Space s, int64_t bytes)
{
    if (chip_space(c->machine, s) && c->on_chip && c->on_chip[s])
        memset(c->on_chip[s], 0xff, (size_t)bytes); /* floats that are none */
}

Checker *checker_new(Arena *a, const Machine *machine, const Kernel *k, const int64_t *dims,
                     void *const *on_chip)
{
    Checker *c = arena_new_of(a, Checker);
    int64_t beside = machine->cores.cube ? machine->cores.vector / machine->cores.cube : 0;
    *c = (Checker){.arena = a, .k = k, .machine = machine, .dims = dims, .launch = NONE, .on_chip = on_chip};
    c->subs = 1 + (uint32_t)beside;
    c->threads = c->subs * UNIT_COUNT;
    c->dirty = arena_array(a, int64_t, SPACE_COUNT);
    c->flag_of = arena_array(a, uint32_t, k->tiles->stmts.len);
    c->loose = arena_array(a, uint8_t, k->tensors.len);
    c->masked = arena_array(a, uint8_t, k->tiles->stmts.len + 1);
    c->shared = arena_array(a, Pages, k->tensors.len);
    BoxShape *shapes = arena_array(a, BoxShape, k->tensors.len);
    c->shapes = shapes;
    for (Space s = 0; s < SPACE_COUNT; s++)
        if (chip_space(machine, s))
            poison(c, s, chip_space(machine, s)->bytes);
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (box_shape(k, t, dims, &shapes[t]))
            check_buffer(c, t, &shapes[t]);
        else
            check_fail(c, "%s is too large", k->tensors.at[t].name);
    return c;
}

static CheckCore *new_core(Checker *c)
{
    CheckCore *core = arena_new_of(c->arena, CheckCore);
    core->knows = arena_array(c->arena, uint32_t, c->threads * c->threads);
    core->on_chip = arena_array(c->arena, Pages, c->subs * SPACE_COUNT);
    core->own = arena_array(c->arena, Pages, c->k->tensors.len);
    for (uint32_t t = 0; t < c->threads; t++)
        core->knows[t * c->threads + t] = 1;
    return core;
}

/* All that was done is over, and known to all. */
static void join_all(const Checker *c, CheckCore *core)
{
    uint32_t n = c->threads;
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t u = 0; u < n; u++)
            if (t != u)
                core->knows[t * n + u] = core->knows[u * n + u];
    for (uint32_t t = 0; t < n; t++)
        core->knows[t * n + t]++;
}

void checker_launch(Checker *c, StmtId launch, uint32_t ncores)
{
    if (c->error)
        return;
    checker_end(c);
    c->launch = launch;
    c->first = c->nitems + 1;
    c->nlaunches++;
    while (c->cores.len < ncores)
        vec_push(c->arena, &c->cores, new_core(c));
    for (uint32_t i = 0; i < c->cores.len; i++)
        join_all(c, c->cores.at[i]);
    check_find_flags(c);
}

void checker_item(Checker *c, uint32_t core, int64_t item)
{
    if (c->error)
        return;
    checker_end(c);
    c->core = core;
    c->item = item;
    check_core(c)->item = ++c->nitems;
    for (Space s = 0; s < SPACE_COUNT; s++) {
        poison(c, s, c->dirty[s]);
        c->dirty[s] = 0;
    }
}

void checker_end(Checker *c)
{
    if (!c->error && c->launch != NONE && c->core < c->cores.len)
        check_flags_rest(c);
}

/* ---- accesses ---- */

static int known(const CheckAccess *a, Mark m) { return m.clock <= a->knows[m.thread]; }

static Problem read_cell(Checker *c, const CheckAccess *a, Cell *cell, Other *other)
{
    *other = (Other){.mark = cell->write, .buffer = cell->buffer};
    if (!a->loose && cell->item != check_core(c)->item)
        return UNWRITTEN;
    if (!a->loose && cell->buffer != a->buffer)
        return OVERWRITTEN;
    if (!known(a, cell->write))
        return RACE_WITH_WRITE;
    if (!cell->reads && !known(a, cell->read)) {
        cell->reads = arena_array(c->arena, Mark, c->threads);
        cell->reads[cell->read.thread] = cell->read;
    }
    if (cell->reads)
        cell->reads[a->thread] = a->mark;
    cell->read = a->mark;
    return FINE;
}

static Problem write_cell(Checker *c, const CheckAccess *a, Cell *cell, Other *other)
{
    *other = (Other){.mark = cell->write, .buffer = cell->buffer};
    if (!known(a, cell->write))
        return RACE_WITH_WRITE;
    other->mark = cell->read;
    if (!known(a, cell->read))
        return RACE_WITH_READ;
    for (uint32_t t = 0; cell->reads && t < c->threads; t++) {
        other->mark = cell->reads[t];
        if (!known(a, other->mark))
            return RACE_WITH_READ;
    }
    if (cell->reads)
        memset(cell->reads, 0, sizeof(Mark) * c->threads);
    cell->write = a->mark;
    cell->read = (Mark){0};
    cell->item = check_core(c)->item;
    cell->buffer = a->buffer;
    return FINE;
}

static Problem touch(Checker *c, const CheckAccess *a, Cell *cell, Other *other)
{
    Problem p = a->shared ? check_items(c, a, cell, other) : FINE;
    return p ? p : a->write ? write_cell(c, a, cell, other) : read_cell(c, a, cell, other);
}

static void split(Checker *c, Cell *cell)
{
    Cell *parts = arena_array(c->arena, Cell, PARTS);
    for (uint32_t i = 0; i < PARTS; i++) {
        parts[i] = *cell;
        if (!cell->reads)
            continue;
        parts[i].reads = arena_array(c->arena, Mark, c->threads);
        memcpy(parts[i].reads, cell->reads, sizeof(Mark) * c->threads);
    }
    cell->parts = parts;
}

/* What is known of the memory that an access is to. */
static Pages *shadow(Checker *c, const CheckAccess *a)
{
    Space space = c->k->tensors.at[a->buffer].space;
    uint32_t sub = space == SPACE_UB ? a->thread / UNIT_COUNT : 0;
    if (a->shared)
        return &c->shared[a->buffer];
    return chip_space(c->machine, space) ? &check_core(c)->on_chip[sub * SPACE_COUNT + space]
                                         : &check_core(c)->own[a->buffer];
}

static Cell *cell_of(Checker *c, Pages *pages, int64_t cell)
{
    while (pages->len <= cell / PAGE_CELLS)
        vec_push(c->arena, pages, NULL);
    Cell **page = &pages->at[cell / PAGE_CELLS];
    if (!*page)
        *page = arena_array(c->arena, Cell, PAGE_CELLS);
    return &(*page)[cell % PAGE_CELLS];
}

/* Of the bytes at..end; *at: where the problem is. */
static Problem touch_run(Checker *c, const CheckAccess *a, int64_t *at, int64_t end, Other *other)
{
    Problem p = FINE;
    Pages *pages = shadow(c, a);
    while (!p && *at < end) {
        Cell *cell = cell_of(c, pages, *at / CELL_BYTES);
        int64_t next = (*at / CELL_BYTES + 1) * CELL_BYTES;
        if (!cell->parts && (*at % CELL_BYTES || next > end))
            split(c, cell);
        if (!cell->parts) {
            p = touch(c, a, cell, other);
            *at = p ? *at : next;
        }
        while (cell->parts && !p && *at < end && *at < next) {
            p = touch(c, a, &cell->parts[*at % CELL_BYTES / PART_BYTES], other);
            *at += p ? 0 : PART_BYTES;
        }
    }
    return p;
}

/* ---- what is wrong with one ---- */

static void explain(Checker *c, const CheckAccess *a, Problem p, int64_t byte, const Other *other)
{
    const Tensor *t = &c->k->tensors.at[a->buffer];
    Box at = box_find(&a->shape, &a->box, byte);
    const char *element = check_element_text(c, a->buffer, &at), *does = a->write ? "writes" : "reads";
    const char *unit = check_thread_text(c, a->thread), *here = check_stmt_text(c, a->stmt);
    const char *there = other->mark.clock ? check_stmt_text(c, other->mark.stmt) : "";
    const char *where = a->shared ? element
                                  : arena_printf(c->arena, "%s (byte %lld of %s)", element,
                                                 (long long)(byte + t->at), space_name(t->space));
    switch (p) {
    case FINE: break;
    case UNWRITTEN:
        check_fail(c, "read before write: %s reads %s in %s, and nothing in this item has written it", unit,
                   where, here);
        break;
    case OVERWRITTEN:
        check_fail(c, "overlap: %s reads %s in %s, where %s has written %s", unit, where, here, there,
                   c->k->tensors.at[other->buffer].name);
        break;
    case RACE_WITH_WRITE:
    case RACE_WITH_READ:
        check_fail(
            c, "race: %s %s %s in %s, and no chain of set and wait tells it that %s is done with %s in %s",
            unit, does, where, here, check_thread_text(c, other->mark.thread),
            p == RACE_WITH_READ ? "reading" : "writing", there);
        break;
    case MEETS_WRITE:
    case MEETS_READ:
        check_fail(
            c, "items meet: %s %s %s in %s, and item %lld %s it in %s; items of one launch run in any order",
            unit, does, where, here, (long long)(other->item - c->first),
            p == MEETS_READ ? "reads" : "writes", there);
        break;
    }
}

static int refuse_place(Checker *c, const CheckAccess *a)
{
    const BoxShape *s = &a->shape;
    const Box *b = &a->box;
    const char *does = a->write ? "writes" : "reads";
    if (box_is_inside(s, b))
        return 0;
    check_fail(c,
               "overflow: %s %s rows %lld..%lld, columns %lld..%lld at slot %lld of %s, which has %lld of "
               "%lld x %lld",
               check_stmt_text(c, a->stmt), does, (long long)b->i, (long long)(b->i + b->rows),
               (long long)b->j, (long long)(b->j + b->cols), (long long)b->matrix,
               c->k->tensors.at[a->buffer].name, (long long)s->matrices, (long long)s->x, (long long)s->y);
    return 1;
}

/* A unit moves and computes whole lines of a space; a single element may stand anywhere. */
static int refuse_alignment(Checker *c, const CheckAccess *a)
{
    const Tensor *t = &c->k->tensors.at[a->buffer];
    const BoxShape *s = &a->shape;
    const OnChip *space = chip_space(c->machine, t->space);
    if (!space || a->box.rows * a->box.cols == 1)
        return 0;
    int64_t first = t->at + box_place(s, a->box.matrix, a->box.i, a->box.j);
    int64_t apart = layout_is_dense(s->layout) && a->box.rows > 1 ? box_place(s, 0, 1, 0) : 0;
    if (first % space->align == 0 && apart % space->align == 0)
        return 0;
    check_fail(
        c, "misaligned: %s %s %s at byte %lld of %s, rows %lld bytes apart; %s asks for multiples of %lld",
        check_stmt_text(c, a->stmt), a->write ? "writes" : "reads", check_element_text(c, a->buffer, &a->box),
        (long long)first, space_name(t->space), (long long)apart, space_name(t->space),
        (long long)space->align);
    return 1;
}

/* NULL: it is not watched. */
static CheckAccess *begin_access(Checker *c, const UnitAccess *u, CheckAccess *out)
{
    const Tensor *t = &c->k->tensors.at[u->buffer];
    int shared = space_is_shared(t->space);
    if (c->error || (!shared && t->space != SPACE_THREAD && !chip_space(c->machine, t->space)))
        return NULL;
    if (u->sub >= c->subs) {
        check_fail(c, "%s runs on vector core %u; beside a cube core there are %u",
                   check_stmt_text(c, u->stmt), u->sub - 1, c->subs - 1);
        return NULL;
    }
    *out = (CheckAccess){.stmt = u->stmt,
                         .buffer = u->buffer,
                         .write = u->write,
                         .loose = shared || c->loose[u->buffer] || (!u->write && check_is_masked(c, u->stmt)),
                         .shared = shared,
                         .shape = c->shapes[u->buffer],
                         .thread = check_thread(u->sub, u->unit)};
    out->knows = check_core(c)->knows + (size_t)out->thread * c->threads;
    out->mark = (Mark){out->knows[out->thread], out->thread, u->stmt};
    return out;
}

static void touch_box(Checker *c, const CheckAccess *a)
{
    const Tensor *t = &c->k->tensors.at[a->buffer];
    box_runs(&a->shape, &a->box, c->arena, &c->runs);
    for (uint32_t i = 0; i < c->runs.len; i++) {
        int64_t at = t->at + c->runs.at[i].at, end = at + c->runs.at[i].bytes;
        Other other;
        Problem p = touch_run(c, a, &at, end, &other);
        if (p) {
            explain(c, a, p, at - t->at, &other);
            return;
        }
        if (a->write && end > c->dirty[t->space])
            c->dirty[t->space] = end;
    }
}

static void refuse_outside(Checker *c, const UnitAccess *u)
{
    const BoxShape *s = &c->shapes[u->buffer];
    int64_t end = u->element + (u->rows - 1) * s->y + u->cols, all = s->matrices * s->x * s->y;
    if (u->element < 0 || end > all)
        check_fail(c, "overflow: %s %s the elements %lld..%lld of %s, which has %lld",
                   check_stmt_text(c, u->stmt), u->write ? "writes" : "reads", (long long)u->element,
                   (long long)end, c->k->tensors.at[u->buffer].name, (long long)all);
}

/* Rows of what all cores see. What is moved and only looked at behind conditions may be anybody's. */
static void touch_rows(Checker *c, CheckAccess *a, const UnitAccess *u)
{
    int64_t bytes = (int64_t)elem_bytes(a->shape.elem);
    if (!layout_is_dense(a->shape.layout) || (!a->write && check_is_masked(c, a->stmt)))
        return;
    for (int64_t i = 0; i < u->rows && !c->error; i++) {
        int64_t at = (u->element + i * a->shape.y) * bytes, end = at + u->cols * bytes;
        Other other;
        Problem p = touch_run(c, a, &at, end, &other);
        a->box = box_at(&a->shape, at / bytes, 1, 1);
        if (p)
            explain(c, a, p, box_place(&a->shape, a->box.matrix, a->box.i, a->box.j), &other);
    }
}

void checker_access(Checker *c, UnitAccess u)
{
    CheckAccess a;
    Space space = c->k->tensors.at[u.buffer].space;
    if (u.rows <= 0 || u.cols <= 0)
        return;
    if (space_is_shared(space))
        refuse_outside(c, &u);
    if (!begin_access(c, &u, &a))
        return;
    if (a.shared) {
        touch_rows(c, &a, &u);
        return;
    }
    a.box = box_at(&a.shape, u.element, u.rows, u.cols);
    if (space == SPACE_THREAD && u.rows > 1 && a.shape.x < u.rows &&
        a.shape.matrices > 1) { /* a row of each */
        int64_t rows = u.rows;
        u.rows = 1;
        for (int64_t i = 0; i < rows; i++, u.element += a.shape.y)
            checker_access(c, u);
        return;
    }
    if (space == SPACE_THREAD && u.rows == 1 && !box_is_inside(&a.shape, &a.box))
        box_flatten(&a.shape, &a.box);
    if (!refuse_place(c, &a) && !refuse_alignment(c, &a))
        touch_box(c, &a);
}

/* ---- loops of the scalar unit ---- */

static void touch_whole(Checker *c, StmtId loop, uint32_t sub, TensorId buffer, int write)
{
    const BoxShape *s = &c->shapes[buffer];
    const UnitAccess u = {.stmt = loop, .unit = UNIT_scalar, .sub = sub, .buffer = buffer, .write = write};
    CheckAccess a;
    if (c->k->tensors.at[buffer].space != SPACE_THREAD || !begin_access(c, &u, &a))
        return;
    a.loose = 1;
    for (int64_t m = 0; m < s->matrices && !c->error; m++) {
        a.box = (Box){m, 0, 0, s->x, s->y};
        touch_box(c, &a);
    }
}

static void touch_loads(Checker *c, StmtId loop, uint32_t sub, ExprId e)
{
    each_below (it, c->k, e, EVERYWHERE)
        if (x_at(c->k, *it)->kind == X_LOAD)
            touch_whole(c, loop, sub, x_at(c->k, *it)->sym, 0);
}

static void touch_list(Checker *c, StmtId loop, uint32_t sub, StmtId first)
{
    tile_walk (w, c->k, first)
        tile_each_operand (o, w.s)
            if (tile_operand_is_expr(&o))
                touch_loads(c, loop, sub, o.id);
            else if (o.role == OPERAND_WRITTEN)
                touch_whole(c, loop, sub, o.id, 1);
}

void checker_loop(Checker *c, StmtId loop, uint32_t sub)
{
    if (c->flags.len) /* else it is the only unit */
        touch_list(c, loop, sub, c->k->tiles->stmts.at[loop].first);
}
