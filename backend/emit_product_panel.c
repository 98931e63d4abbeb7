/* All rows of a product for the columns of one panel: Note [Panel function] in emit_product.c. */
#include "backend/emit_product.h"

/* Parameters: of the block's first element in these columns the sums and the bytes to their next row; the same of lines; the
 * panel; units, rows, columns that are left; how far the sums below the block are, which are asked for; what else is; whether sums
 * begin at zero; whether nothing beside the block may be written. */
V emit_panel_declared(const Plan *p, Elem left, Elem right)
{
    L *l = p->l;
    Ty types[] = {l->ptr, l->i64, l->ptr, l->i64, l->ptr, l->i64,
                  l->i64, l->i64, l->i64, l->ptr, l->i1,  l->i1};
    const char *name = arena_printf(l->arena, "moec.panel.%s.%s%s", cpu_table[p->target].name,
                                    elem_name(left), elem_name(right));
    return l_shared_function(l, name, l_fn_type(l, l->none, types, sizeof types / sizeof *types));
}

/* While a fragment is computed, the sums of its rows in the next columns are asked for: early enough for memory, however few
 * the terms are. In the last columns those of the first ones below the block, where the next part of an item's rows is. */
static V coming(const EmitProduct *x)
{
    L *l = x->l;
    int64_t width = emit_product_width(x), bytes = (int64_t)elem_bytes(EL_F32);
    V last = l_icmp(l, LLVMIntSGE, l_add(l, x->column, l_i64(l, width)), x->ncols), none = l_i64(l, 0);
    V at =
        l_select(l, last, l_sub(l, x->below, l_mul(l, x->column, l_i64(l, bytes))), l_i64(l, width * bytes));
    return l_select(l, l_icmp(l, LLVMIntEQ, x->below, none), none, at);
}

/* The rows of whole fragments first. */
static void over_tiles(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    int64_t height = x->rows;
    V left = l_sub(l, x->ncols, x->column), whole = l_and(l, x->nrows, l_i64(l, -height));
    whole = l_select(l, x->exact, whole, l_round_up(l, x->nrows, height));
    V fits = l_or(l, l_not(l, x->exact), l_icmp(l, LLVMIntSGE, left, l_i64(l, emit_product_width(x))));
    whole = l_select(l, fits, whole, l_i64(l, 0));
    x->coming = coming(x);
    emit_tile_rows(x, whole, c, a, b, units);
    emit_product_fragments(x, whole, c, a, b, units);
}

static void over_rows_from(EmitProduct *x, V column, V c, V a, V b, V units)
{
    L *l = x->l;
    x->column = column;
    x->coming = coming(x);
    emit_product_fragments(x, l_i64(l, 0),
                           l_byte(l, c, l_mul(l, column, l_i64(l, (int64_t)elem_bytes(EL_F32)))), a,
                           l_byte(l, b, l_mul(l, column, l_i64(l, LAYOUT_WORD_BYTES))), units);
}

/* What x asks for is shared out: each trip of the others' fragments asks for the lines of its rows, and the first fragment for what it
 * reads anyhow. Where that would be too many lines, the first one asks for all. */
static void share_out(const EmitProduct *x, EmitProduct *first, EmitProduct *others, V b, V units)
{
    L *l = x->l;
    V zero = l_i64(l, 0), rows = l_max(l, l_sub(l, x->nrows, l_i64(l, x->rows)), l_i64(l, 1));
    V row = l_bin(l, LLVMUDiv, l_i64(l, (int64_t)x->unroll * ROW_OF_WORDS / x->per_word), rows);
    V step = l_mul(l, row, l_i64(l, x->rows)), trips = l_bin(l, LLVMUDiv, units, l_i64(l, x->unroll));
    V few = l_icmp(l, LLVMIntSLE, step, l_i64(l, SHARED_LINES * LAYOUT_LINE_BYTES));
    first->next = l_select(l, few, b, x->next);
    others->share = l_select(l, few, x->next, b);
    others->share_step = l_select(l, few, step, zero);
    others->share_row = l_select(l, few, l_mul(l, row, trips), zero);
}

/* The first fragment reads the panel, which may come from memory, and keeps its vectors as they are multiplied, in f32, for the others:
 * of a part, which has so many units. */
static void over_rows_after_first(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    x->column = l_i64(l, 0);
    x->coming = coming(x);
    EmitProduct first = *x, others = *x;
    first.nheights = 1;
    if (x->keeps)
        first.kept = others.kept = l_slot_bytes(l, (uint64_t)x->part * ROW_OF_WORDS, "kept");
    if (x->wide && x->next)
        share_out(x, &first, &others, b, units);
    V done = emit_product_fragment(&first, l_i64(l, 0), c, a, b, units);
    EmitProduct left = emit_rows_left(&others, done, &c, &a);
    emit_product_fragments(&left, l_i64(l, 0), c, a, others.kept ? others.kept : b, units);
}

static void over_whole_rows(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    V zero = l_i64(l, 0);
    if (!x->keeps) {
        over_rows_from(x, zero, c, a, b, units);
        return;
    }
    V several = l_icmp(l, LLVMIntSGT, x->nrows, l_i64(l, x->rows));
    When keeping = l_when(l, several);
    over_rows_after_first(x, c, a, b, units);
    l_end_when(l, &keeping);
    When once = l_when(l, l_not(l, several));
    over_rows_from(x, zero, c, a, b, units);
    l_end_when(l, &once);
}

/* Of the columns that are left half of a panel's vectors, if they are no more: as few columns as experts of a small model have, or
 * classes, would else take the time of all. */
static void over_whole_panel(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    V few = l_icmp(l, LLVMIntSLE, x->ncols, l_i64(l, LAYOUT_EDGE / 2));
    When whole = l_when(l, l_not(l, few));
    over_whole_rows(x, c, a, b, units);
    l_end_when(l, &whole);
    When half = l_when(l, few);
    EmitProduct narrow = *x;
    narrow.vectors /= 2;
    over_rows_from(&narrow, l_i64(l, 0), c, a, b, units);
    l_end_when(l, &half);
}

/* All columns of a panel. Fragments that are narrower go over them one group after the other, but those of few rows have all (where they
 * do not go over panels in turn): what comes from memory is read in one run. So have those of many rows, where they are faster
 * (CPU_WIDE). */
void emit_product_panel(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    V zero = l_i64(l, 0);
    if (emit_product_width(x) == LAYOUT_EDGE) {
        over_whole_panel(x, c, a, b, units);
        return;
    }
    EmitProduct wide = emit_wide_fragment(x, LAYOUT_EDGE);
    V few = x->panels > 1 ? l_int(l->i1, 0) : emit_product_few(x), many = emit_product_many(x),
      next = x->next;
    When w = l_when(l, few);
    over_rows_from(&wide, zero, c, a, b, units);
    l_end_when(l, &w);
    if (x->wide) {
        many = l_and(l, many, l_icmp(l, LLVMIntSGT, x->ncols, l_i64(l, emit_product_width(x))));
        When m = l_when(l, many);
        over_rows_after_first(&wide, c, a, b, units);
        l_end_when(l, &m);
    }
    V columns = l_min(l, x->ncols, l_i64(l, LAYOUT_EDGE));
    columns = l_select(l, l_or(l, few, many), zero, columns);
    V share = l_mul(l, units, l_i64(l, emit_product_width(x) * LAYOUT_WORD_BYTES / x->per_word));
    For f = l_for(l, zero, columns, emit_product_width(x), "columns");
    if (next)
        x->next =
            l_byte(l, next, l_mul(l, share, l_bin(l, LLVMUDiv, f.var, l_i64(l, emit_product_width(x)))));
    over_rows_from(x, f.var, c, a, b, units);
    l_end_for(l, &f);
}

void emit_product_rows(EmitProduct *x, V c, V a, V b, V units)
{
    L *l = x->l;
    if (emit_multiplies_tiles(x)) {
        over_tiles(x, c, a, b, units);
        return;
    }
    if (!emit_calls_panel_function(x->e->p->target, x->left)) {
        emit_product_fragments(x, l_i64(l, 0), c, a, b, units);
        return;
    }
    if (x->left_in_rows) {
        EmitProduct panel = *x;
        panel.ncols = l_sub(l, x->ncols, x->column);
        panel.next = NULL;
        emit_product_panel(&panel, c, a, b, units);
        return;
    }
    V fn = emit_panel_declared(x->e->p, x->left, x->right), left = l_sub(l, x->ncols, x->column);
    V below = x->below ? x->below : l_i64(l, 0), next = x->next ? x->next : b;
    V args[] = {c, x->c_row, a, x->a_block, b, units, x->nrows, left, below, next, x->init, x->exact};
    l_call(l, fn, args, sizeof args / sizeof *args);
}
