/* Block products whose right operand lies in rows, or transposed, its columns as rows, for fragments that do not read rows: tiles,
 * and vectors of four.
 *
 * Of 32 columns a part of the terms is packed into a panel in the first cache, which fragments of all rows then read. What is
 * packed next is asked for: all parts of two panels before the next two, for 128 bytes of each row come as fast from memory as
 * whole rows, and 64 do not. Rows are asked for while rows are packed here; of a transposed operand, which another function
 * packs, tiles ask for all parts of a panel. Additions are those of a packed panel, in the same order. */
#include "backend/emit_pack.h"
#include "backend/emit_product.h"

typedef struct RowsPacked {
    EmitProduct *x;
    L *l;
    V pack, panel;
    int64_t elem;        /* bytes of an element in rows */
    int64_t terms;       /* of a word */
    int64_t part, group; /* terms of a part, columns whose parts come before those of others */
    V term_bytes, part_bytes, group_bytes; /* to the next term, part and group */
    V depth, ncols;
    int by_units; /* rows are packed here, and what is packed next is asked for meanwhile, else by the function `pack` */
} RowsPacked;

/* Words of two rows, in the order in which tiles want them, and zeros up to a whole line. */
static void fill_by_units(const RowsPacked *t, V b, V terms, V columns)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    V whole = l_sar(l, terms, 1), one = l_i64(l, 1), units = emit_product_units(x, terms);
    emit_rows_masks(x, columns, l_i64(l, t->terms));
    For u = l_for(l, l_i64(l, 0), whole, 1, "unit");
    emit_rows_keep(x, b, u.var);
    l_end_for(l, &u);
    V odd = l_and(l, terms, one);
    When last = l_when(l, l_icmp(l, LLVMIntNE, odd, l_i64(l, 0)));
    emit_rows_masks(x, columns, one);
    emit_rows_keep(x, b, whole);
    l_end_when(l, &last);
    V zeros = l_real(LLVMVectorType(l->f32, x->lanes), 0.0);
    For z = l_for(l, l_add(l, whole, odd), units, 1, "zeros");
    for (uint32_t v = 0; v < x->vectors; v++)
        emit_keep(x, z.var, v, zeros);
    l_end_for(l, &z);
}

/* `terms` terms of `columns` columns from b on. */
static void fill_panel(const RowsPacked *t, V b, V terms, V columns)
{
    L *l = t->l;
    if (t->by_units) {
        fill_by_units(t, b, terms, columns);
        return;
    }
    V rows = t->x->transposed ? columns : terms, run = t->x->transposed ? terms : columns;
    V step = l_i64(l, PACK_ROWS / t->terms * ROW_OF_WORDS); /* columns are no more than come at a time */
    V args[8] = {t->pack, b, t->x->b_panel, rows, run, t->panel, l_i64(l, 0), step};
    l_call(l, t->x->e->p->shared->strided, args, 8);
}

/* What is packed after this part of the group at b: its panels share it, in rows each half of them. */
static V packed_next(const RowsPacked *t, V b, V first, V terms, V in_group)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    V more = l_icmp(l, LLVMIntSLT, l_add(l, first, l_i64(l, t->part)), t->depth);
    V back = l_mul(l, first, t->term_bytes);
    V next = l_byte(l, b, l_select(l, more, t->part_bytes, l_sub(l, t->group_bytes, back)));
    V half = l_mul(l, l_sar(l, terms, 1), x->b_panel), second = l_icmp(l, LLVMIntSGT, in_group, l_i64(l, 0));
    return l_byte(l, next, l_select(l, second, half, l_i64(l, 0)));
}

static void one_panel(const RowsPacked *t, V group, V in_group, V first)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    V column = x->column = l_add(l, group, in_group), left = l_sub(l, t->ncols, column);
    V terms = l_min(l, l_sub(l, t->depth, first), l_i64(l, t->part));
    V begin = l_byte(l, x->b, l_mul(l, first, t->term_bytes));
    V of_group = l_byte(l, begin, l_mul(l, l_bin(l, LLVMUDiv, group, l_i64(l, t->group)), t->group_bytes));
    V b = x->transposed ? of_group : l_byte(l, of_group, l_mul(l, in_group, l_i64(l, t->elem)));
    x->next = packed_next(t, of_group, first, terms, in_group);
    fill_panel(t, b, terms, l_min(l, left, l_i64(l, LAYOUT_EDGE)));
    V right = l_mul(l, column, l_i64(l, (int64_t)elem_bytes(EL_F32)));
    V line = l_bin(l, LLVMUDiv, first, l_i64(l, WORDS * t->terms));
    x->below = l_sub(l, l_mul(l, x->nrows, x->c_row), right);
    emit_begin_sums(x, first);
    emit_product_rows(x, l_byte(l, x->c, right), l_byte(l, x->a, l_mul(l, line, x->a_block)), t->panel,
                      emit_product_units(x, terms));
}

/* ---- few rows ---- */

/* Note [Few rows of tiles]. Of 16 rows the sums of 64 columns are four tiles, which stay in registers while a step of 32 terms is
 * packed, the step before is multiplied, and steps after it are asked for, so that memory never waits. (With parts, which are
 * packed and then multiplied, it waits for half of the time.) Where there are more rows the panels of a part are kept, and the
 * others follow, 16 at a time. Whole steps of whole pairs of panels go this way, the rest in parts.
 *
 * Memory is asked for 128 bytes of a row at a time: in rows the 64 columns of a step, of a transposed operand two steps of a
 * column, for half of the columns each time (64 bytes of all take 1.2 times as long). */
enum { STRIP_ROWS = 64, STRIP_COLUMNS = 2 * LAYOUT_EDGE, STEP_WORDS = TILE_STEP / 2 * ROW_OF_WORDS };

/* The columns at b, in steps of terms, and where they are packed: two panels, each with as many steps as `mask` has. */
typedef struct TileStrip {
    V b, steps;
    V step_bytes, bytes; /* to the next step; to the strip behind */
    V mask;              /* of the step's number: its place in the panel */
    int64_t panel;       /* bytes */
} TileStrip;

/* Where a later step is: behind the last one those of the next strip. */
static V later_step(L *l, const TileStrip *s, V step)
{
    V beyond = l_sub(l, step, s->steps), more = l_icmp(l, LLVMIntSLT, beyond, l_i64(l, 0));
    V bytes = l_mul(l, l_select(l, more, step, beyond), s->step_bytes);
    return l_byte(l, s->b, l_select(l, more, bytes, l_add(l, bytes, s->bytes)));
}

/* The two panels' words of the step at b. */
static void pack_rows_step(const RowsPacked *t, const TileStrip *s, V step, V b, V to)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    x->mask[0] = x->mask[1] = NULL;
    V next = later_step(l, s, l_add(l, step, l_i64(l, 1)));
    V half = l_mul(l, x->b_panel, l_i64(l, TILE_STEP / 2));
    For u = l_for(l, l_i64(l, 0), l_i64(l, TILE_STEP / 2), 1, "unit");
    for (int panel = 0; panel < 2; panel++) {
        V columns = l_byte(l, b, l_i64(l, panel * LAYOUT_EDGE * t->elem));
        x->kept = l_byte(l, to, l_i64(l, panel * s->panel));
        x->next = panel ? l_byte(l, next, half) : next; /* of a row for each unit */
        emit_rows_keep(x, columns, u.var);
    }
    l_end_for(l, &u);
}

static void pack_transposed_step(const RowsPacked *t, const TileStrip *s, V step, V b, V to)
{
    const EmitProduct *x = t->x;
    L *l = t->l;
    V even = l_and(l, step, l_i64(l, -2)), half = l_mul(l, l_sub(l, step, even), l_i64(l, LAYOUT_EDGE));
    V next = l_byte(l, later_step(l, s, l_add(l, even, l_i64(l, 2))), l_mul(l, half, x->b_panel));
    For f = l_for(l, l_i64(l, 0), l_i64(l, STRIP_COLUMNS), WORDS, "columns");
    V column = l_mul(l, f.var, x->b_panel), asked = l_byte(l, next, l_sar(l, column, 1));
    for (int i = 0; i < WORDS / 2; i++, asked = l_byte(l, asked, x->b_panel))
        for (int line = 0; line < 2; line++)
            emit_ask_near(l, l_byte(l, asked, l_i64(l, line * LAYOUT_LINE_BYTES)));
    V panel = l_mul(l, l_sar(l, f.var, 5), l_i64(l, s->panel));
    V word = l_shl(l, l_and(l, f.var, l_i64(l, LAYOUT_EDGE - 1)), 2);
    emit_transpose_words(l, l_byte(l, b, column), x->b_panel, l_byte(l, l_byte(l, to, panel), word),
                         l_i64(l, ROW_OF_WORDS));
    l_end_for(l, &f);
}

static V pack_step(const RowsPacked *t, const TileStrip *s, V step)
{
    L *l = t->l;
    V to = l_byte(l, t->panel, l_mul(l, l_and(l, step, s->mask), l_i64(l, STEP_WORDS)));
    V b = l_byte(l, s->b, l_mul(l, step, s->step_bytes));
    (t->x->transposed ? pack_transposed_step : pack_rows_step)(t, s, step, b, to);
    return to;
}

/* Of the steps in [first, end) the first rows. */
static void first_rows(const RowsPacked *t, const TileStrip *s, V first, V end, V c, V a)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    enum { A = TILE_STRIP, PLACE, CARRIED };
    V now[CARRIED] = {[A] = a}, one = l_i64(l, 1);
    emit_tile_strip_begin(x, c, now);
    now[PLACE] = pack_step(t, s, first);
    For f = l_for(l, first, l_sub(l, end, one), 1, "steps");
    LoopCarry carry = l_carry(l, &f, now, CARRIED);
    V place = pack_step(t, s, l_add(l, f.var, one));
    emit_tile_strip_step(x, now[A], now[PLACE], s->panel, now);
    now[A] = l_byte(l, now[A], x->a_block);
    now[PLACE] = place;
    l_carried(l, &f, &carry);
    emit_tile_strip_step(x, now[A], now[PLACE], s->panel, now);
    emit_tile_strip_end(x, c, now);
}

/* The others, which find the panels packed. */
static void other_rows(const RowsPacked *t, const TileStrip *s, V steps, V c, V a)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    enum { A = TILE_STRIP, PLACE, CARRIED };
    For r = l_for(l, l_i64(l, TILE_FEW_ROWS), x->nrows, TILE_FEW_ROWS, "rows");
    V sums = l_byte(l, c, l_mul(l, x->c_row, r.var));
    V now[CARRIED] = {[A] = l_byte(l, a, l_mul(l, x->a_row, r.var)), [PLACE] = t->panel};
    emit_tile_strip_begin(x, sums, now);
    For f = l_for(l, l_i64(l, 0), steps, 1, "steps");
    LoopCarry carry = l_carry(l, &f, now, CARRIED);
    emit_tile_strip_step(x, now[A], now[PLACE], s->panel, now);
    now[A] = l_byte(l, now[A], x->a_block);
    now[PLACE] = l_byte(l, now[PLACE], l_i64(l, STEP_WORDS));
    l_carried(l, &f, &carry);
    emit_tile_strip_end(x, sums, now);
    l_end_for(l, &r);
}

static void one_strip(const RowsPacked *t, V column, V steps, V few)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    V zero = l_i64(l, 0), part = l_i64(l, t->part / TILE_STEP);
    V c = l_byte(l, x->c, l_mul(l, column, l_i64(l, (int64_t)elem_bytes(EL_F32))));
    V column_bytes = x->transposed ? x->b_panel : l_i64(l, t->elem);
    TileStrip s = {.b = l_byte(l, x->b, l_mul(l, column, column_bytes)),
                   .steps = steps,
                   .step_bytes = l_mul(l, t->term_bytes, l_i64(l, TILE_STEP)),
                   .bytes = l_mul(l, column_bytes, l_i64(l, STRIP_COLUMNS)),
                   .mask = l_select(l, few, l_i64(l, 1), l_sub(l, part, l_i64(l, 1))),
                   .panel = x->part * (int64_t)ROW_OF_WORDS};
    For f = l_for(l, zero, steps, 1, "part");
    f.next = l_select(l, few, steps, part);
    V end = l_min(l, steps, l_add(l, f.var, f.next)), a = l_byte(l, x->a, l_mul(l, f.var, x->a_block));
    emit_begin_sums(x, f.var);
    first_rows(t, &s, f.var, end, c, a);
    other_rows(t, &s, l_sub(l, end, f.var), c, a);
    l_end_for(l, &f);
}

/* Where rows are not many: the columns and the terms that are done. */
static void few_rows(RowsPacked *t, V *columns, V *terms)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    V zero = l_i64(l, 0), steps = l_sar(l, t->depth, 5);
    V few = l_icmp(l, LLVMIntSLE, x->nrows, l_i64(l, TILE_FEW_ROWS));
    V fits = l_and(l, l_icmp(l, LLVMIntSLE, x->nrows, l_i64(l, STRIP_ROWS)), l_not(l, x->exact));
    fits = l_and(l, fits, l_icmp(l, LLVMIntSGT, steps, zero));
    *columns = l_select(l, fits, l_and(l, t->ncols, l_i64(l, -STRIP_COLUMNS)), zero);
    *terms = l_shl(l, steps, 5);
    For g = l_for(l, zero, *columns, STRIP_COLUMNS, "strip");
    one_strip(t, g.var, steps, few);
    l_end_for(l, &g);
}

int emit_packs_units(const Cpu *cpu, Elem left, int transposed)
{
    return !transposed && left == EL_BF16 && cpu_can(cpu, CPU_MASKS);
}

/* Without rows there is nothing to do. */
void emit_rows_packed_product(EmitProduct *x, V depth)
{
    L *l = x->l;
    V zero = l_i64(l, 0), some = l_icmp(l, LLVMIntSGT, x->nrows, zero);
    RowsPacked t = {.x = x, .l = l, .elem = (int64_t)elem_bytes(x->right), .depth = l_max(l, depth, zero)};
    t.terms = layout_terms(x->left);
    t.part = x->part * t.terms;
    t.group = x->transposed ? LAYOUT_EDGE : 2 * LAYOUT_EDGE;
    t.ncols = l_select(l, some, x->ncols, zero);
    t.term_bytes = x->transposed ? l_i64(l, t.elem) : x->b_panel;
    t.part_bytes = l_mul(l, t.term_bytes, l_i64(l, t.part));
    t.group_bytes = x->transposed ? l_mul(l, x->b_panel, l_i64(l, t.group)) : l_i64(l, t.group * t.elem);
    t.panel = l_slot_bytes(l, 2 * (uint64_t)x->part * ROW_OF_WORDS, "panel");
    t.by_units = emit_packs_units(x->e->p->cpu, x->left, x->transposed);
    if (t.by_units) { /* of each unit 128 bytes of a later row are asked for */
        x->kept = t.panel;
        x->far = l_int(l->i1, 0);
        x->streams = x->part;
        x->stream = x->b_panel;
    } else {
        t.pack = pack_helper(x->e->p, pack_kind(LAYOUT_PAIRS, !x->transposed, x->right, x->left));
    }
    x->right = x->left;
    x->per_word = x->trip = 1;
    V done = zero, done_terms = zero, kept = x->kept;
    if (cpu_can(x->e->p->cpu, CPU_TILES))
        few_rows(&t, &done, &done_terms);
    x->kept = kept;
    For g = l_for(l, zero, t.ncols, t.group, "group");
    V end = l_min(l, l_sub(l, t.ncols, g.var), l_i64(l, t.group));
    V begin = l_select(l, l_icmp(l, LLVMIntSLT, g.var, done), done_terms, zero);
    For first = l_for(l, begin, l_max(l, t.depth, l_i64(l, 1)), t.part, "part"); /* without terms too */
    For c = l_for(l, zero, end, LAYOUT_EDGE, "columns");
    one_panel(&t, g.var, c.var, first.var);
    l_end_for(l, &c);
    l_end_for(l, &first);
    l_end_for(l, &g);
}
