/* Block products whose right operand is read as it lies, row-major: packing it would take longer than few rows of
 * products, and cost memory as much again as reading it.
 *
 * The terms go in parts, each over all columns. Rows that one fragment has are multiplied as the operand is read. Of more, the
 * first fragment makes words of 32 columns in registers and keeps them, a panel in the first cache that the other fragments read.
 * So the operand is read once, row after row, and while a part is multiplied the next one is asked for in the order in which it
 * lies: memory gives long runs faster than short ones, and some CPUs several at once faster than one (Cpu.streams). Rows that are
 * shorter than what is asked for meanwhile, with others between them (the heads of a cache), are asked for as they are read, the
 * same columns of row after row.
 * Loads of the last columns have masks, or where there are none, read a copy. Additions are those of a packed panel, in the same order. */
#include "backend/emit_product.h"

static int64_t part_terms(const EmitProduct *x) { return x->rows_read; }
static int64_t unit_terms(const EmitProduct *x) { return x->left == EL_BF16 ? 2 : 1; }

static int64_t column_bytes(const EmitProduct *x) { return (int64_t)elem_bytes(x->right); }

/* ---- a fragment's vectors ---- */

/* Columns of a load: of pairs all, else those of a vector. */
static uint32_t load_lanes(const EmitProduct *x) { return x->left == EL_BF16 ? LAYOUT_EDGE : x->lanes; }

static V load(EmitProduct *x, V at, V mask)
{
    x->e->width = load_lanes(x);
    V v = emit_load_run(x->e, NONE, x->right, at, mask);
    x->e->width = 0;
    return v;
}

/* Words of two rows: `half` 0 of the first vector of columns, 1 of the second. */
static V words_of(const EmitProduct *x, const V *rows, uint32_t half)
{
    L *l = x->l;
    V lane[LAYOUT_EDGE];
    for (uint32_t i = 0; i < LAYOUT_EDGE; i++)
        lane[i] = l_i32(l, half * x->lanes + i / 2 + i % 2 * LAYOUT_EDGE);
    V words = LLVMBuildShuffleVector(l->b, rows[0], rows[1], LLVMConstVector(lane, LAYOUT_EDGE), "");
    return LLVMBuildBitCast(l->b, words, LLVMVectorType(LLVMBFloatTypeInContext(l->ctx), LAYOUT_EDGE), "");
}

void emit_rows_begin(EmitProduct *x, V b, V unit)
{
    L *l = x->l;
    int pairs = unit_terms(x) == 2;
    uint32_t loads = pairs ? 2 : x->vectors; /* two rows, or the vectors of one */
    V at = l_byte(l, b, l_mul(l, unit, l_mul(l, x->b_panel, l_i64(l, unit_terms(x)))));
    emit_ask_streams(x, unit, unit_terms(x) * LAYOUT_EDGE * column_bytes(x));
    for (uint32_t i = 0; i < loads; i++) {
        V step = pairs ? x->b_panel : l_i64(l, x->lanes * column_bytes(x));
        x->got[i] =
            load(x, i ? l_byte(l, at, l_mul(l, step, l_i64(l, i))) : at, x->copied ? NULL : x->mask[i]);
    }
}

V emit_rows_vector(EmitProduct *x, uint32_t v)
{
    return unit_terms(x) == 2 ? words_of(x, x->got, v) : emit_decode(x->e, x->right, x->got[v]);
}

void emit_rows_keep(EmitProduct *x, V b, V unit)
{
    emit_rows_begin(x, b, unit);
    for (uint32_t v = 0; v < x->vectors; v++)
        emit_keep(x, unit, v, emit_rows_vector(x, v));
}

/* ---- the function ---- */

void emit_rows_masks(EmitProduct *x, V columns, V terms)
{
    L *l = x->l;
    V zero = l_i64(l, 0), one = l_i64(l, 1), right = l_max(l, l_sub(l, columns, l_i64(l, x->lanes)), zero);
    x->e->width = load_lanes(x);
    x->mask[0] = emit_first_lanes(x->e, columns);
    x->mask[1] = emit_first_lanes(
        x->e, unit_terms(x) == 1 ? right : l_select(l, l_icmp(l, LLVMIntSGT, terms, one), columns, zero));
    x->e->width = 0;
}

/* The rows of a part, `columns` columns of each and zeros, one after the other. */
static void copy_rows(EmitProduct *x, V b, V columns, V terms)
{
    L *l = x->l;
    int64_t row = LAYOUT_EDGE * column_bytes(x);
    x->e->width = LAYOUT_EDGE;
    For f = l_for(l, l_i64(l, 0), terms, 1, "row");
    V v = emit_load_first(x->e, x->right, l_byte(l, b, l_mul(l, f.var, x->b_panel)), columns);
    l_store(l, v, l_byte(l, x->copied, l_mul(l, f.var, l_i64(l, row))), LAYOUT_LINE_BYTES);
    l_end_for(l, &f);
    x->e->width = 0;
}

static int is_narrow(const EmitProduct *x) { return emit_product_width(x) < LAYOUT_EDGE; }

/* i1: rows are so few that one fragment has them, of all columns or of as many as it has otherwise. */
static V are_few(const EmitProduct *x)
{
    return is_narrow(x) ? emit_product_few(x)
                        : l_icmp(x->l, LLVMIntSLE, x->nrows, l_i64(x->l, x->heights[0]));
}

/* One fragment for all rows, of as many columns from b on as it has, then of the next ones. */
static void one_fragment(const EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    EmitProduct one = *x;
    V zero = l_i64(l, 0), left = l_min(l, l_sub(l, x->ncols, x->column), l_i64(l, LAYOUT_EDGE));
    For f = l_for(l, zero, left, emit_product_width(x), "column");
    one.column = l_add(l, x->column, f.var);
    one.next = l_select(l, l_icmp(l, LLVMIntEQ, f.var, zero), x->next, b); /* once */
    emit_product_fragment(&one, zero, l_byte(l, c, l_mul(l, f.var, l_i64(l, (int64_t)elem_bytes(EL_F32)))), a,
                          l_byte(l, b, l_mul(l, f.var, l_i64(l, column_bytes(x)))), units);
    l_end_for(l, &f);
}

static void over_few_rows(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    if (!is_narrow(x)) {
        one_fragment(x, c, a, b, units);
        return;
    }
    EmitProduct wide = emit_wide_fragment(x, LAYOUT_EDGE), narrow = *x;
    narrow.heights[0] = x->tail;
    narrow.nheights = 1;
    V fits = emit_fits_wide(x);
    When w = l_when(l, fits);
    one_fragment(&wide, c, a, b, units);
    l_end_when(l, &w);
    When n = l_when(l, l_not(l, fits));
    one_fragment(&narrow, c, a, b, units);
    l_end_when(l, &n);
}

/* A fragment reads and keeps the columns from b on, others go over the rows that are left: of an even number of rows, which may be
 * rounded up, an even one. */
static void over_more_rows(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    EmitProduct first = is_narrow(x) ? emit_wide_fragment(x, FEW_ROWS) : *x;
    V done = emit_product_fragment(&first, l_i64(l, 0), c, a, b, units);
    EmitProduct left = emit_rows_left(x, done, &c, &a);
    When some = l_when(l, l_icmp(l, LLVMIntSGT, left.nrows, l_i64(l, 0)));
    emit_product_rows(&left, c, a, x->kept, units);
    l_end_when(l, &some);
}

typedef void OverRows(EmitProduct *x, V c, V a, V b, V units);

/* The columns of c and b, of which `terms` terms exist. */
static void one_panel(EmitProduct *x, OverRows *over_rows, V c, V a, V b, V terms, V units)
{
    L *l = x->l;
    V columns = l_sub(l, x->ncols, x->column);
    if (cpu_can(x->e->p->cpu, CPU_MASKS)) {
        emit_rows_masks(x, columns, terms);
        over_rows(x, c, a, b, units);
        return;
    }
    EmitProduct panel = *x;
    V cut = l_icmp(l, LLVMIntSLT, columns, l_i64(l, LAYOUT_EDGE));
    When some = l_when(l, cut);
    copy_rows(x, b, columns, terms);
    l_end_when(l, &some);
    panel.b_panel = l_select(l, cut, l_i64(l, LAYOUT_EDGE * column_bytes(x)), x->b_panel);
    over_rows(&panel, c, a, l_select(l, cut, x->copied, b), units);
}

/* Are rows of `run` bytes shorter than what is asked for while 32 columns of a part are multiplied, with others between them? */
static V are_short(const EmitProduct *x, V run, V asked)
{
    return l_and(x->l, l_icmp(x->l, LLVMIntSLT, run, asked), l_icmp(x->l, LLVMIntNE, run, x->b_panel));
}

/* The part of `part` terms that begins at `first`: `terms` of them exist. What is asked for goes on in the next row where
 * it has come to the end of one, in each of Cpu.streams streams of the same number of rows. */
static void over_columns(EmitProduct *x, OverRows *over_rows, V part, V first, V terms)
{
    L *l = x->l;
    V units = l_bin(l, LLVMUDiv, l_add(l, terms, l_i64(l, unit_terms(x) - 1)), l_i64(l, unit_terms(x)));
    V a = emit_unit_at(x, x->a, l_bin(l, LLVMUDiv, first, l_i64(l, unit_terms(x))));
    V b = l_byte(l, x->b, l_mul(l, first, x->b_panel)), run = l_mul(l, x->ncols, l_i64(l, column_bytes(x))),
      next[2];
    next[0] = l_byte(l, b, l_mul(l, part, x->b_panel));
    next[1] = l_byte(l, next[0], run);
    x->stream = l_mul(l, l_bin(l, LLVMUDiv, part, l_i64(l, x->streams)), x->b_panel);
    x->run = (uint32_t)(LAYOUT_EDGE * column_bytes(x));
    V columns = l_i64(l, x->run), asked = l_mul(l, part, l_i64(l, x->run / x->streams));
    V is_short = are_short(x, run, asked);
    x->step = l_select(l, is_short, x->b_panel, columns);
    For f = l_for(l, l_i64(l, 0), x->ncols, LAYOUT_EDGE, "columns");
    LoopCarry c = l_carry(l, &f, next, 2);
    x->next = next[0];
    x->column = f.var;
    one_panel(x, over_rows, l_byte(l, x->c, l_mul(l, f.var, l_i64(l, (int64_t)elem_bytes(EL_F32)))), a,
              l_byte(l, b, l_mul(l, f.var, l_i64(l, column_bytes(x)))), terms, units);
    V at = l_byte(l, next[0], l_select(l, is_short, columns, asked));
    V over = l_icmp(l, LLVMIntUGE, at, next[1]);
    next[0] = l_select(l, over, l_byte(l, at, l_sub(l, x->b_panel, run)), at);
    next[1] = l_select(l, over, l_byte(l, next[1], x->b_panel), next[1]);
    l_carried(l, &f, &c);
}

/* The most terms of a part. Few rows, whose products take no longer than memory, go in short ones: what is asked for soon before it is
 * read comes faster, and several streams are then all in the second cache. */
static V most_terms(const EmitProduct *x, V run)
{
    L *l = x->l;
    V all = l_i64(l, part_terms(x)), edge = l_i64(l, LAYOUT_EDGE);
    if (x->streams > 1)
        return l_select(l, emit_product_streams(x), edge, all);
    V several = l_icmp(l, LLVMIntSLE, x->nrows, l_i64(l, FEW_FRAGMENTS * (int64_t)x->tail));
    V asked = l_i64(l, FEW_TERMS * LAYOUT_EDGE * column_bytes(x));
    V fewest = l_and(l, emit_product_few(x), l_not(l, are_short(x, run, asked)));
    return l_select(l, fewest, l_i64(l, FEW_TERMS), l_select(l, several, edge, all));
}

/* Terms of a part: what is asked for while 32 columns are multiplied is to be no more than a row of the part, unless rows
 * follow each other in memory. */
static V part_of(const EmitProduct *x)
{
    L *l = x->l;
    V run = l_mul(l, x->ncols, l_i64(l, column_bytes(x))), edge = l_i64(l, LAYOUT_EDGE),
      most = most_terms(x, run);
    V fits = l_and(l, l_bin(l, LLVMUDiv, x->ncols, edge), l_i64(l, -LAYOUT_EDGE));
    return l_select(l, l_icmp(l, LLVMIntEQ, run, x->b_panel), most, l_min(l, l_max(l, fits, edge), most));
}

/* All terms; an odd one has a part of its own. */
static void over_parts(EmitProduct *x, OverRows *over_rows, V depth)
{
    L *l = x->l;
    V zero = l_i64(l, 0), one = l_i64(l, 1), part = part_of(x);
    V whole = l_and(l, depth, l_i64(l, -unit_terms(x)));
    V parts = l_mul(l, l_bin(l, LLVMUDiv, l_add(l, whole, l_sub(l, part, one)), part), part);
    V end = l_max(l, l_add(l, parts, l_sub(l, depth, whole)), one); /* without terms too */
    For f = l_for(l, zero, end, 1, "part");
    f.next = part;
    V first = l_min(l, f.var, whole), last = l_icmp(l, LLVMIntSGE, f.var, whole);
    emit_begin_sums(x, f.var);
    over_columns(x, over_rows, part, first, l_min(l, l_sub(l, l_select(l, last, depth, whole), first), part));
    l_end_for(l, &f);
}

/* Without rows there is nothing to do. */
void emit_rows_product(EmitProduct *x, V depth)
{
    L *l = x->l;
    int masks = cpu_can(x->e->p->cpu, CPU_MASKS);
    if (unit_terms(x) == 2 && (x->vectors != 2 || !masks))
        BUG(l->arena, "backend: %s does not read a right operand in rows", x->e->p->cpu->name);
    x->per_word = x->trip = 1; /* it is made in registers for each unit */
    x->copied =
        masks ? NULL : l_slot_bytes(l, (uint64_t)(part_terms(x) * LAYOUT_EDGE * column_bytes(x)), "copied");
    V zero = l_i64(l, 0), few = are_few(x);
    x->ncols = l_select(l, l_icmp(l, LLVMIntSGT, x->nrows, zero), x->ncols, zero);
    depth = l_max(l, depth, zero);
    EmitProduct more = *x;
    more.kept = l_slot_bytes(l, (uint64_t)part_terms(x) * ROW_OF_WORDS, "kept");
    When f = l_when(l, few);
    over_parts(x, over_few_rows, depth);
    l_end_when(l, &f);
    When m = l_when(l, l_not(l, few));
    over_parts(&more, over_more_rows, depth);
    l_end_when(l, &m);
}
