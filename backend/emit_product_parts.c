/* A block of products whose right operand is panels: panels, in parts of their depth. */
#include "backend/emit_product.h"

enum { STRIP_FRAGMENTS = 2, TILE_AHEAD = 4096 };

/* Units of a part, which a fragment leaves in the first cache, so that what streams through is read once; beside tiles it has room, as
 * lines pass it by. Few rows take all, where they do not go over panels in turn. */
static V part_of(const EmitProduct *x)
{
    L *l = x->l;
    uint32_t least = emit_multiplies_tiles(x) || x->part < FIRST_CACHE_WORDS ? x->part : FIRST_CACHE_WORDS;
    V words = l_select(l, emit_product_streams(x), l_i64(l, least), l_i64(l, x->part));
    V part = l_mul(l, words, l_select(l, emit_product_keeps(x), l_i64(l, 1), l_i64(l, x->per_word)));
    if (emit_multiplies_tiles(x) || x->panels > 1)
        return part;
    return l_select(l, emit_product_few(x), l_max(l, x->units, part), part);
}

/* Bytes from what is multiplied to what is asked for: of several fragments of tiles the next panel, else what fits the first cache; of a
 * run that comes by itself, what comes next. */
static V ahead_of(const EmitProduct *x)
{
    L *l = x->l;
    V far = l_i64(l, FIRST_CACHE_WORDS * ROW_OF_WORDS);
    if (emit_multiplies_tiles(x))
        return l_select(l, l_icmp(l, LLVMIntSGT, x->nrows, l_i64(l, x->rows)), x->b_panel,
                        l_i64(l, TILE_AHEAD));
    if (x->panels > 1 || cpu_can(x->e->p->cpu, CPU_ASKS_FAR))
        return far;
    return l_select(l, emit_product_few(x), l_i64(l, FEW_AHEAD), far);
}

/* The words from unit `from` on of the panel of the columns from `column` on. */
static V words_at(const EmitProduct *x, V column, V from)
{
    L *l = x->l;
    V b = l_byte(l, x->b, l_mul(l, l_sar(l, column, 5), x->b_panel));
    return l_byte(l, b, l_mul(l, from, l_i64(l, ROW_OF_WORDS / (int64_t)x->per_word)));
}

/* The units in [from, ..) of a part for the panel of the columns from x->column on. */
static void one_panel(EmitProduct *x, V from, V units)
{
    L *l = x->l;
    V right = l_mul(l, x->column, l_i64(l, (int64_t)elem_bytes(EL_F32)));
    V b = words_at(x, x->column, from);
    x->next = l_byte(l, b, ahead_of(x));
    x->below = l_sub(l, l_mul(l, x->nrows, x->c_row), right);
    emit_product_rows(x, l_byte(l, x->c, right), l_byte(l, x->a, l_mul(l, l_sar(l, from, 4), x->a_block)), b,
                      units);
}

/* Fragments of `rows` rows in the panels of the columns in [from, to), up to unit `end`: a trip of each in turn. */
static void in_turn(EmitProduct *x, uint32_t rows, V from, V to, V end)
{
    L *l = x->l;
    V trip = l_i64(l, x->unroll);
    For f = l_for(l, l_i64(l, 0), end, x->unroll, "trip");
    emit_begin_sums(x, f.var);
    x->from_row = l_select(l, x->init, l_i64(l, 0), x->c_row);
    V a = emit_unit_at(x, x->a, f.var);
    For g = l_for(l, from, to, LAYOUT_EDGE, "panel");
    V c = l_byte(l, x->c, l_mul(l, g.var, l_i64(l, (int64_t)elem_bytes(EL_F32))));
    x->next = words_at(x, g.var, l_add(l, f.var, trip));
    emit_vector_fragment(x, rows, c, a, words_at(x, g.var, f.var), trip);
    l_end_for(l, &g);
    l_end_for(l, &f);
}

/* Of these memory gives most where a little is read of each of several panels at a time, which calls would make slow. Returns the
 * units that are done, whole lines. */
static V one_fragment(const EmitProduct *x, V from, V to)
{
    L *l = x->l;
    EmitProduct wide = emit_wide_fragment(x, LAYOUT_EDGE);
    V whole = l_icmp(l, LLVMIntEQ, l_and(l, to, l_i64(l, LAYOUT_EDGE - 1)), l_i64(l, 0));
    V fits = l_and(l, emit_fits_wide(x), l_or(l, whole, l_not(l, x->exact)));
    V done = l_select(l, fits, l_and(l, x->units, l_i64(l, -WORDS)), l_i64(l, 0));
    for (uint32_t i = 0; i < wide.nheights; i++) {
        When so = l_when(l, l_icmp(l, LLVMIntEQ, x->nrows, l_i64(l, wide.heights[i])));
        in_turn(&wide, wide.heights[i], from, to, done);
        l_end_when(l, &so);
    }
    return done;
}

/* All terms from unit `first` on for the columns in [from, to): part after part, each of all panels. */
static void over_parts(EmitProduct *x, V first, V from, V to)
{
    L *l = x->l;
    V part = part_of(x);
    For f = l_for(l, first, l_max(l, x->units, l_i64(l, 1)), 1, "part"); /* without terms too */
    f.next = part;
    emit_begin_sums(x, f.var);
    V units = l_min(l, l_sub(l, x->units, f.var), part);
    For g = l_for(l, from, to, LAYOUT_EDGE, "panel");
    x->column = g.var;
    one_panel(x, f.var, units);
    l_end_for(l, &g);
    l_end_for(l, &f);
}

/* Columns that are gone over together: of few rows of tiles all, of one fragment those of as many panels as come in turn. */
static V step_of(const EmitProduct *x)
{
    L *l = x->l;
    V edge = l_i64(l, LAYOUT_EDGE);
    if (emit_multiplies_tiles(x))
        return l_select(l, emit_product_few(x), l_max(l, x->ncols, edge), edge);
    return l_select(l, emit_fits_wide(x), l_i64(l, LAYOUT_EDGE * (int64_t)x->panels), edge);
}

static void over_columns(EmitProduct *x)
{
    L *l = x->l;
    V step = step_of(x);
    For f = l_for(l, l_i64(l, 0), x->ncols, 1, "columns");
    f.next = step;
    V to = l_min(l, x->ncols, l_add(l, f.var, step));
    over_parts(x, x->panels > 1 ? one_fragment(x, f.var, to) : l_i64(l, 0), f.var, to);
    l_end_for(l, &f);
}

/* Do few terms go a way of their own? */
static int has_strips(const EmitProduct *x)
{
    return emit_multiplies_tiles(x) || cpu_can(x->e->p->cpu, CPU_STRIPS);
}

static V are_few_terms(const EmitProduct *x)
{
    L *l = x->l;
    if (emit_multiplies_tiles(x))
        return l_icmp(l, LLVMIntSLE, x->units, l_i64(l, x->part / 2));
    V few = l_and(l, x->exact, l_icmp(l, LLVMIntSLE, x->units, l_i64(l, STRIP_TERMS)));
    return l_and(l, few, l_icmp(l, LLVMIntSGE, x->ncols, l_i64(l, STRIP_WIDTH)));
}

/* Of sums in memory that few terms are added to, a few rows at a time: what memory gives are long runs of few rows. */
static void over_strips(EmitProduct *x)
{
    L *l = x->l;
    EmitProduct strip = *x;
    V rows = l_select(l, are_few_terms(x), l_i64(l, STRIP_FRAGMENTS * (int64_t)x->rows),
                      l_max(l, x->nrows, l_i64(l, 1)));
    For f = l_for(l, l_i64(l, 0), x->nrows, 1, "strip");
    f.next = rows;
    strip.nrows = l_min(l, rows, l_sub(l, x->nrows, f.var));
    strip.c = l_byte(l, x->c, l_mul(l, f.var, x->c_row));
    strip.a = l_byte(l, x->a, l_mul(l, f.var, x->a_row));
    over_columns(&strip);
    l_end_for(l, &f);
}

void emit_panels_product(EmitProduct *x)
{
    if (has_strips(x))
        over_strips(x);
    else
        over_columns(x);
}
