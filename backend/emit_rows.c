/* Block products whose right operand is read as it lies, row-major: packing it would take longer than few rows of
 * products, and cost memory as much again as reading it.
 *
 * The terms go in parts, each over all columns. Of 32 columns the first fragment of rows makes words in registers and
 * keeps them, a panel in the first cache that the other fragments read. So the operand is read once, row after row, and
 * while a part is multiplied the next one is asked for in the order in which it lies: memory gives long runs faster than
 * short ones. Additions are those of a packed panel, in the same order. */
#include "backend/emit.h"

static int64_t part_terms(const EmitProduct *x) { return x->e->p->cpu->rows_read; }
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

/* Asks for as much of the next part as a unit is. */
static void ask(const EmitProduct *x, V unit)
{
    L *l = x->l;
    int64_t bytes = unit_terms(x) * LAYOUT_EDGE * column_bytes(x);
    V at = l_byte(l, x->next, l_mul(l, unit, l_i64(l, bytes)));
    for (int64_t line = 0; line < bytes; line += LAYOUT_LINE_BYTES)
        emit_ask(l, l_byte(l, at, l_i64(l, line)));
}

static V kept_at(const EmitProduct *x, V unit)
{
    return l_byte(x->l, x->kept, l_mul(x->l, unit, l_i64(x->l, ROW_OF_WORDS)));
}

void emit_rows_vectors(EmitProduct *x, V b, V unit, V *right)
{
    L *l = x->l;
    V at = l_byte(l, b, l_mul(l, unit, l_mul(l, x->b_panel, l_i64(l, unit_terms(x))))), to = kept_at(x, unit),
      got[2];
    ask(x, unit);
    for (uint32_t i = 0; i < 2; i++) { /* two rows, or two vectors of one */
        V step = unit_terms(x) == 2 ? x->b_panel : l_i64(l, x->lanes * column_bytes(x));
        got[i] = load(x, i ? l_byte(l, at, step) : at, x->mask[i]);
    }
    for (uint32_t v = 0; v < 2; v++) {
        right[v] = unit_terms(x) == 2 ? words_of(x, got, v) : emit_decode(x->e, x->right, got[v]);
        l_store(l, right[v], l_byte(l, to, l_i64(l, (int64_t)v * LAYOUT_LINE_BYTES)), LAYOUT_LINE_BYTES);
    }
}

/* ---- the function ---- */

/* Of the two loads of a unit, `columns` columns being left and `terms` terms. */
static void make_masks(EmitProduct *x, V columns, V terms)
{
    L *l = x->l;
    V zero = l_i64(l, 0), one = l_i64(l, 1), right = l_max(l, l_sub(l, columns, l_i64(l, x->lanes)), zero);
    x->e->width = load_lanes(x);
    x->mask[0] = emit_first_lanes(x->e, columns);
    x->mask[1] = emit_first_lanes(
        x->e, unit_terms(x) == 1 ? right : l_select(l, l_icmp(l, LLVMIntSGT, terms, one), columns, zero));
    x->e->width = 0;
}

/* A fragment that fits the rows reads and keeps the columns from b on, others go over the rows that are left. */
static void over_rows(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    EmitProduct rest = *x;
    V done = emit_product_fragment(x, l_i64(l, 0), c, a, b, units);
    rest.in_rows = 0;
    rest.right = rest.left;
    rest.nrows = l_sub(l, x->nrows, done);
    When some = l_when(l, l_icmp(l, LLVMIntSGT, rest.nrows, l_i64(l, 0)));
    emit_product_rows(&rest, l_byte(l, c, l_mul(l, done, x->c_row)),
                      l_byte(l, a, l_mul(l, done, l_i64(l, LAYOUT_LINE_BYTES))), x->kept, units);
    l_end_when(l, &some);
}

/* The part of `part` terms that begins at `first`: `terms` of them exist. What is asked for goes on in the next row where
 * it has come to the end of one. */
static void over_columns(EmitProduct *x, V part, V first, V terms)
{
    L *l = x->l;
    int64_t words = WORDS * unit_terms(x);
    V units = l_bin(l, LLVMUDiv, l_add(l, terms, l_i64(l, unit_terms(x) - 1)), l_i64(l, unit_terms(x)));
    V line = l_mul(l, l_bin(l, LLVMUDiv, first, l_i64(l, words)), x->a_block);
    V a = l_byte(
        l, l_byte(l, x->a, line),
        l_mul(l, l_bin(l, LLVMURem, first, l_i64(l, words)), l_i64(l, LAYOUT_WORD_BYTES / unit_terms(x))));
    V b = l_byte(l, x->b, l_mul(l, first, x->b_panel)), run = l_mul(l, x->ncols, l_i64(l, column_bytes(x))),
      next[2];
    next[0] = l_byte(l, b, l_mul(l, part, x->b_panel));
    next[1] = l_byte(l, next[0], run);
    For f = l_for(l, l_i64(l, 0), x->ncols, LAYOUT_EDGE, "columns");
    LoopCarry c = l_carry(l, &f, next, 2);
    x->next = next[0];
    x->column = f.var;
    make_masks(x, l_sub(l, x->ncols, f.var), terms);
    over_rows(x, l_byte(l, x->c, l_mul(l, f.var, l_i64(l, (int64_t)elem_bytes(EL_F32)))), a,
              l_byte(l, b, l_mul(l, f.var, l_i64(l, column_bytes(x)))), units);
    V at = l_byte(l, next[0], l_mul(l, part, l_i64(l, LAYOUT_EDGE * column_bytes(x))));
    V over = l_icmp(l, LLVMIntUGE, at, next[1]);
    next[0] = l_select(l, over, l_byte(l, at, l_sub(l, x->b_panel, run)), at);
    next[1] = l_select(l, over, l_byte(l, next[1], x->b_panel), next[1]);
    l_carried(l, &f, &c);
}

/* Terms of a part: what is asked for while 32 columns are multiplied is to be no more than a row of the part, unless rows
 * follow each other in memory. */
static V part_of(const EmitProduct *x)
{
    L *l = x->l;
    V run = l_mul(l, x->ncols, l_i64(l, column_bytes(x))), edge = l_i64(l, LAYOUT_EDGE),
      most = l_i64(l, part_terms(x));
    V fits = l_and(l, l_bin(l, LLVMUDiv, x->ncols, edge), l_i64(l, -LAYOUT_EDGE));
    return l_select(l, l_icmp(l, LLVMIntEQ, run, x->b_panel), most, l_max(l, l_min(l, fits, most), edge));
}

/* An odd term has a part of its own. Without rows there is nothing to do. */
void emit_rows_product(EmitProduct *x, V depth)
{
    L *l = x->l;
    if (x->lanes * x->vectors != LAYOUT_EDGE || x->vectors != 2 || !cpu_can(x->e->p->cpu, CPU_MASKS))
        BUG(l->arena, "backend: %s does not read a right operand in rows", x->e->p->cpu->name);
    x->per_word = x->trip = 1; /* it is made in registers for each unit */
    x->kept = l_slot(l, LLVMArrayType2(l->i8, (uint64_t)part_terms(x) * ROW_OF_WORDS), "kept");
    LLVMSetAlignment(x->kept, LAYOUT_LINE_BYTES);
    V zero = l_i64(l, 0), one = l_i64(l, 1), part = part_of(x);
    x->ncols = l_select(l, l_icmp(l, LLVMIntSGT, x->nrows, zero), x->ncols, zero);
    depth = l_max(l, depth, zero);
    V whole = l_and(l, depth, l_i64(l, -unit_terms(x)));
    V parts = l_mul(l, l_bin(l, LLVMUDiv, l_add(l, whole, l_sub(l, part, one)), part), part);
    V end = l_max(l, l_add(l, parts, l_sub(l, depth, whole)), one); /* without terms too */
    For f = l_for(l, zero, end, 1, "part");
    f.next = part;
    V first = l_min(l, f.var, whole), last = l_icmp(l, LLVMIntSGE, f.var, whole);
    emit_begin_sums(x, f.var);
    over_columns(x, part, first, l_min(l, l_sub(l, l_select(l, last, depth, whole), first), part));
    l_end_for(l, &f);
}
