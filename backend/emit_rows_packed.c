/* Block products whose right operand lies in rows, or transposed, its columns as rows, for fragments that do not read rows: tiles,
 * and vectors of four.
 *
 * Of 32 columns a part of the terms is packed into a panel in the first cache, which fragments of all rows then read. What is
 * packed next is asked for: all parts of two panels before the next two, for 128 bytes of each row come as fast from memory as
 * whole rows, and 64 do not. Rows are asked for while rows are packed here; of a transposed operand, which another function
 * packs, tiles ask for all parts of a panel. Additions are those of a packed panel, in the same order. */
#include "backend/emit.h"

typedef struct RowsPacked {
    EmitProduct *x;
    L *l;
    V pack, panel;
    int64_t elem;              /* bytes of an element in rows */
    int64_t terms;             /* of a word */
    int64_t part, group;       /* terms of a part, columns whose parts come before those of others */
    V term_bytes, part_bytes, group_bytes; /* to the next term, part and group */
    V depth, ncols;
    int by_units; /* rows are packed here, and what is packed next is asked for meanwhile, else by the function `pack` */
} RowsPacked;

static void one_unit(const RowsPacked *t, V b, V unit)
{
    V right[LAYOUT_EDGE];
    emit_rows_vectors(t->x, b, unit, right);
}

/* Words of two rows, in the order in which tiles want them, and zeros up to a whole line. */
static void fill_by_units(const RowsPacked *t, V b, V terms, V columns)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    V whole = l_sar(l, terms, 1), one = l_i64(l, 1), units = emit_product_units(x, terms);
    emit_rows_masks(x, columns, l_i64(l, t->terms));
    For u = l_for(l, l_i64(l, 0), whole, 1, "unit");
    one_unit(t, b, u.var);
    l_end_for(l, &u);
    V odd = l_and(l, terms, one);
    When last = l_when(l, l_icmp(l, LLVMIntNE, odd, l_i64(l, 0)));
    emit_rows_masks(x, columns, one);
    one_unit(t, b, whole);
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

/* Note [Few rows of tiles]. Of at most 16 rows the sums of 64 columns are four tiles, which stay in registers however many terms
 * there are: a step of 32 terms is packed while the step before is multiplied, and the step after is asked for, so that memory never
 * waits. (With parts, which are packed and then multiplied, it waits for half of the time.) Whole steps of whole pairs of panels
 * go this way, the rest in parts. */
enum { STRIP_COLUMNS = 2 * LAYOUT_EDGE, STEP_WORDS = TILE_STEP / 2 * ROW_OF_WORDS, STEPS_AHEAD = 1 };

/* The two panels' words of the step at b; `next`: what will be packed some steps later. */
static void pack_rows_step(const RowsPacked *t, V b, V next, V to)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    x->mask[0] = x->mask[1] = NULL;
    V half = l_mul(l, x->b_panel, l_i64(l, TILE_STEP / 2));
    For u = l_for(l, l_i64(l, 0), l_i64(l, TILE_STEP / 2), 1, "unit");
    for (int panel = 0; panel < 2; panel++) {
        V right[LAYOUT_EDGE], columns = l_byte(l, b, l_i64(l, panel * LAYOUT_EDGE * t->elem));
        x->kept = l_byte(l, to, l_i64(l, panel * STEP_WORDS));
        x->next = panel ? l_byte(l, next, half) : next; /* 128 bytes of a row for each unit */
        emit_rows_vectors(x, columns, u.var, right);
    }
    l_end_for(l, &u);
}

static void pack_transposed_step(const RowsPacked *t, V b, V next, V to)
{
    const EmitProduct *x = t->x;
    L *l = t->l;
    For s = l_for(l, l_i64(l, 0), l_i64(l, STRIP_COLUMNS), WORDS, "columns");
    V column = l_mul(l, s.var, x->b_panel), asked = l_byte(l, next, column);
    for (int i = 0; i < WORDS; i++, asked = l_byte(l, asked, x->b_panel))
        emit_ask_near(l, asked);
    V panel = l_mul(l, l_sar(l, s.var, 5), l_i64(l, STEP_WORDS));
    V word = l_shl(l, l_and(l, s.var, l_i64(l, LAYOUT_EDGE - 1)), 2);
    emit_transpose_words(l, l_byte(l, b, column), x->b_panel, l_byte(l, l_byte(l, to, panel), word),
                         l_i64(l, ROW_OF_WORDS));
    l_end_for(l, &s);
}

/* Packs step s of the columns at b into the place that takes turns with another. */
static V pack_step(const RowsPacked *t, V b, V steps, V s)
{
    L *l = t->l;
    V later = l_add(l, s, l_i64(l, STEPS_AHEAD)), step_bytes = l_mul(l, t->term_bytes, l_i64(l, TILE_STEP));
    V to = l_byte(l, t->panel, l_mul(l, l_and(l, s, l_i64(l, 1)), l_i64(l, 2 * STEP_WORDS)));
    V more = l_icmp(l, LLVMIntSLT, later, steps);
    V strip_bytes = l_mul(l, l_i64(l, STRIP_COLUMNS), t->x->transposed ? t->x->b_panel : l_i64(l, t->elem));
    V next = l_byte(l, b, l_select(l, more, l_mul(l, later, step_bytes), strip_bytes));
    b = l_byte(l, b, l_mul(l, s, step_bytes));
    (t->x->transposed ? pack_transposed_step : pack_rows_step)(t, b, next, to);
    return to;
}

static void one_strip(const RowsPacked *t, V column, V steps)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    enum { A = TILE_STRIP, PLACE, CARRIED };
    V now[CARRIED] = {[A] = x->a}, zero = l_i64(l, 0), last = l_sub(l, steps, l_i64(l, 1));
    V c = l_byte(l, x->c, l_mul(l, column, l_i64(l, (int64_t)elem_bytes(EL_F32))));
    V b = l_byte(l, x->b, l_mul(l, column, x->transposed ? x->b_panel : l_i64(l, t->elem)));
    emit_begin_sums(x, zero);
    emit_tile_strip_begin(x, c, now);
    now[PLACE] = pack_step(t, b, steps, zero);
    For s = l_for(l, zero, last, 1, "steps");
    LoopCarry carry = l_carry(l, &s, now, CARRIED);
    V place = pack_step(t, b, steps, l_add(l, s.var, l_i64(l, 1)));
    emit_tile_strip_step(x, now[A], now[PLACE], now);
    now[A] = l_byte(l, now[A], x->a_block);
    now[PLACE] = place;
    l_carried(l, &s, &carry);
    emit_tile_strip_step(x, now[A], now[PLACE], now);
    emit_tile_strip_end(x, c, now);
}

/* Where rows are few: the columns and the terms that are done. */
static void few_rows(RowsPacked *t, V *columns, V *terms)
{
    EmitProduct *x = t->x;
    L *l = t->l;
    V zero = l_i64(l, 0), few = l_icmp(l, LLVMIntSLE, x->nrows, l_i64(l, TILE_FEW_ROWS));
    V steps = l_sar(l, t->depth, 5), some = l_icmp(l, LLVMIntSGT, steps, zero);
    few = l_and(l, l_and(l, few, some), l_not(l, x->exact));
    *columns = l_select(l, few, l_and(l, t->ncols, l_i64(l, -STRIP_COLUMNS)), zero);
    *terms = l_shl(l, steps, 5);
    For g = l_for(l, zero, *columns, STRIP_COLUMNS, "strip");
    one_strip(t, g.var, steps);
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
    t.panel = l_slot_bytes(l, (uint64_t)x->part * ROW_OF_WORDS, "panel");
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
