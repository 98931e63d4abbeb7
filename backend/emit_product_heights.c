/* Fragments of a product's rows: which extents and heights they have, and all of them one below the other. */
#include "backend/emit_product.h"

static EmitFragment *const fragments[ISA_COUNT] = {
#define CPU(id, family, word, lanes, rows, vectors, part, unroll, terms, rows_read, streams, row_streams, \
            f32, code, fragment, ...)                                                                     \
    emit_##fragment##_fragment,
#include "machines/cpu.def"
};

EmitFragment *emit_fragment_of(Isa target, Elem left)
{
    return left == EL_BF16 ? fragments[target] : emit_vector_fragment;
}

int emit_multiplies_tiles(const EmitProduct *x)
{
    return emit_fragment_of(x->e->p->isa, x->left) == emit_tile_fragment;
}

int emit_calls_panel_function(Isa target, Elem left)
{
    return emit_fragment_of(target, left) == emit_vector_fragment;
}

void emit_no_fragment(EmitProduct *x, uint32_t rows, V c, V a, V b, V units)
{
    (void)rows, (void)c, (void)a, (void)b, (void)units;
    BUG(x->l->arena, "backend: %s does not multiply bf16 by bf16", x->e->p->cpu->name);
}

/* Tiles multiply bf16 only: for f32 the registers of another instruction set are used. */
static void choose_extents(EmitProduct *x)
{
    const Cpu *own = &cpu_table[x->e->p->isa], *cpu = x->left == EL_F32 ? &cpu_table[own->f32] : own;
    int rows = x->in_rows || x->transposed;
    x->lanes = cpu->lanes;
    x->rows = cpu->rows;
    x->vectors = cpu->vectors;
    x->part = cpu->part;
    x->unroll = cpu->unroll;
    x->rows_read = cpu->rows_read;
    x->panels = rows ? 1 : cpu->streams;
    x->streams = rows ? cpu->row_streams : 1;
    x->wide = cpu_can(cpu, CPU_WIDE);
    x->keeps = x->left == EL_F32 && x->right == EL_BF16 && (x->wide || cpu_can(cpu, CPU_WIDENS_ONCE));
}

uint32_t emit_product_width(const EmitProduct *x) { return x->lanes * x->vectors; }

/* Of one or two rows of a panel a fragment of four would waste most of its work; where the panel is in memory, fewer
 * instructions also let the CPU ask for more of it at once. */
static void choose_heights(EmitProduct *x)
{
    x->tail = cpu_tail(x->rows);
    x->heights[x->nheights++] = x->rows;
    if (x->tail < x->rows)
        x->heights[x->nheights++] = x->tail;
    if (x->left_in_rows)
        x->heights[x->nheights++] = 1;
    else if (x->tail > FEW_ROWS && !x->in_rows && emit_calls_panel_function(x->e->p->target, x->left))
        x->heights[x->nheights++] = FEW_ROWS;
}

void emit_choose_fragment(EmitProduct *x)
{
    choose_extents(x);
    choose_heights(x);
}

V emit_product_few(const EmitProduct *x) { return l_icmp(x->l, LLVMIntSLE, x->nrows, l_i64(x->l, x->tail)); }

V emit_product_streams(const EmitProduct *x)
{
    return l_icmp(x->l, LLVMIntSLE, x->nrows, l_i64(x->l, FEW_FRAGMENTS * (int64_t)x->rows));
}

/* i1: rows are so many that fragments are to have all columns of a panel, too (CPU_WIDE). */
V emit_product_many(const EmitProduct *x)
{
    L *l = x->l;
    if (!x->wide)
        return l_int(l->i1, 0);
    return l_icmp(l, LLVMIntSGE, x->nrows, l_i64(l, cpu_wide_rows(x->rows, x->keeps)));
}

V emit_product_keeps(const EmitProduct *x)
{
    return x->keeps && x->wide ? emit_product_many(x) : l_int(x->l->i1, x->keeps);
}

/* Which has a height for each number of rows. */
#define CPU(id, family, word, lanes, rows, vectors, ...)                          \
    _Static_assert((lanes) * (vectors) >= LAYOUT_EDGE ||                          \
                       (lanes) * (vectors) * (rows) / LAYOUT_EDGE <= HEIGHTS_MAX, \
                   #id ": a wide fragment has more heights than HEIGHTS_MAX");
#include "machines/cpu.def"

/* As many sums as the registers of other fragments hold. */
EmitProduct emit_wide_fragment(const EmitProduct *x, uint32_t most)
{
    EmitProduct wide = *x;
    if (emit_product_width(x) == LAYOUT_EDGE) {
        wide.heights[0] = x->tail;
        wide.nheights = 1;
        return wide;
    }
    wide.vectors = LAYOUT_EDGE / x->lanes;
    wide.rows = x->rows * x->vectors / wide.vectors;
    wide.nheights = 0;
    for (uint32_t height = wide.rows < most ? wide.rows : most; height > 0; height--)
        wide.heights[wide.nheights++] = height;
    return wide;
}

V emit_fits_wide(const EmitProduct *x)
{
    L *l = x->l;
    return l_icmp(l, LLVMIntSLE, x->nrows, l_i64(l, emit_wide_fragment(x, LAYOUT_EDGE).heights[0]));
}

/* size[0] x size[1] sums, one by one. */
static void copy_sums(L *l, V to, V to_row, V from, V from_row, const V *size)
{
    For i = l_for(l, l_i64(l, 0), size[0], 1, "row");
    V to_at = l_byte(l, to, l_mul(l, i.var, to_row)), from_at = l_byte(l, from, l_mul(l, i.var, from_row));
    For j = l_for(l, l_i64(l, 0), size[1], 1, "column");
    l_store(l, l_load(l, l->f32, l_at(l, l->f32, from_at, j.var), 4), l_at(l, l->f32, to_at, j.var), 4);
    l_end_for(l, &j);
    l_end_for(l, &i);
}

/* The i-th height is taken where that many rows are left at least: fewer are a whole fragment of the next one. Of a left operand in
 * rows no row is read that is not there. */
static int64_t least_rows(const EmitProduct *x, uint32_t i)
{
    if (i + 1 == x->nheights)
        return 0;
    if (x->left_in_rows)
        return x->heights[i];
    uint32_t next = x->heights[i + 1];
    return (x->heights[i] - 1) / next * next + 1;
}

/* Is the i-th height taken where so many rows are left? Four are two and two, not three and one. */
static V takes_height(const EmitProduct *x, uint32_t i, V left)
{
    L *l = x->l;
    V enough = l_icmp(l, LLVMIntSGE, left, l_i64(l, least_rows(x, i)));
    int three = x->heights[i] == 3 && x->heights[i + 1] == 2;
    return three ? l_and(l, enough, l_icmp(l, LLVMIntNE, left, l_i64(l, 4))) : enough;
}

static V choose_height(const EmitProduct *x, V left)
{
    L *l = x->l;
    V height = l_i64(l, x->heights[x->nheights - 1]);
    for (uint32_t i = x->nheights - 1; i-- > 0;)
        height = l_select(l, takes_height(x, i, left), l_i64(l, x->heights[i]), height);
    return height;
}

/* The fragment of the height that is chosen. */
static void one_height(EmitProduct *x, V left, V c, V a, V b, V units)
{
    L *l = x->l;
    Block done = l_block(l, "done");
    EmitFragment *fragment = emit_fragment_of(x->e->p->isa, x->left);
    for (uint32_t i = 0; i < x->nheights; i++) {
        Block next = i + 1 < x->nheights ? l_block(l, "lower") : NULL;
        if (next) {
            Block fits = l_block(l, "fits");
            l_branch(l, takes_height(x, i, left), fits, next);
            l_enter(l, fits);
        }
        fragment(x, x->heights[i], c, a, b, units);
        l_goto(l, done);
        if (next)
            l_enter(l, next);
    }
    l_enter(l, done);
}

V emit_product_fragment(EmitProduct *x, V row, V c, V a, V b, V units)
{
    L *l = x->l;
    V left[2] = {l_sub(l, x->nrows, row), l_sub(l, x->ncols, x->column)};
    V height = choose_height(x, left[0]), width = l_i64(l, emit_product_width(x));
    V cut = l_or(l, l_icmp(l, LLVMIntSLT, left[0], height), l_icmp(l, LLVMIntSLT, left[1], width));
    V size[2] = {l_min(l, left[0], height), l_min(l, left[1], width)}, own_row = l_i64(l, ROW_OF_WORDS);
    V at = l_byte(l, c, l_mul(l, row, x->c_row)), c_row = x->c_row;
    cut = l_and(l, cut, x->exact);
    When before = l_when(l, cut);
    copy_sums(l, x->own, own_row, at, c_row, size);
    l_end_when(l, &before);
    x->c_row = l_select(l, cut, own_row, c_row);
    x->from_row = l_select(l, x->init, l_i64(l, 0), x->c_row);
    a = l_byte(l, a, l_mul(l, row, x->a_row));
    one_height(x, left[0], l_select(l, cut, x->own, at), a, b, units);
    x->c_row = c_row;
    When after = l_when(l, cut);
    copy_sums(l, at, c_row, x->own, own_row, size);
    l_end_when(l, &after);
    return height;
}

void emit_product_fragments(EmitProduct *x, V row, V c, V a, V b, V units)
{
    L *l = x->l;
    V share = x->share;
    For f = l_for(l, row, x->nrows, 1, "rows");
    if (share)
        x->share = l_byte(l, share, l_mul(l, f.var, x->share_row));
    f.next = emit_product_fragment(x, f.var, c, a, b, units);
    x->share = share;
    l_end_for(l, &f);
}

void emit_begin_sums(EmitProduct *x, V unit)
{
    L *l = x->l;
    x->init = l_and(l, x->begin, l_icmp(l, LLVMIntEQ, unit, l_i64(l, 0)));
}

EmitProduct emit_rows_left(const EmitProduct *x, V done, V *c, V *a)
{
    L *l = x->l;
    EmitProduct left = *x;
    if (x->kept) {
        left.in_rows = 0;
        left.right = x->left;
        left.per_word = left.trip = 1;
    }
    left.kept = left.next = NULL;
    left.nrows = l_sub(l, x->nrows, done);
    *c = l_byte(l, *c, l_mul(l, done, x->c_row));
    *a = l_byte(l, *a, l_mul(l, done, x->a_row));
    return left;
}

/* The terms are rounded up to what a fragment takes at once: the panels are zero there. */
V emit_product_units(const EmitProduct *x, V depth)
{
    L *l = x->l;
    depth = l_max(l, depth, l_i64(l, 0));
    V units = x->left == EL_BF16 ? l_sar(l, l_add(l, depth, l_i64(l, 1)), 1) : depth;
    return l_round_up(
        l, units, emit_fragment_of(x->e->p->isa, x->left) == emit_vector_fragment ? FRAGMENT_UNITS : WORDS);
}
