/* The fragment of a block product in vector registers: rows x vectors of sums, a broadcast term of the
 * left operand times vectors of the right one. */
#include "backend/emit_product.h"
#include "backend/family.h"

enum { FRAGMENT_MAX = 64, LINES_AT_ONCE = 8, ROW_AHEAD = 2 * LAYOUT_LINE_BYTES };

typedef struct MicroTile {
    EmitProduct *x;
    uint32_t rows;
    V ask; /* sums that a loop over units asks for, lines_asked() in a trip; NULL: for none */
    int pinned; /* units are kept apart, and no word stays in a register from one to the next: sums take nearly all */
    V sum[FRAGMENT_MAX]; /* [rows][vectors] */
    V word[VECTORS_MAX]; /* of the right panel, as i32 */
} MicroTile;

static V address_of_sum(const MicroTile *f, V c, V c_row, uint32_t row, uint32_t vector)
{
    L *l = f->x->l;
    V at = l_byte(l, c, l_mul(l, c_row, l_i64(l, row)));
    return l_byte(l, at, l_i64(l, (int64_t)vector * f->x->lanes * 4));
}

/* The right operand's vector for one unit: the words, or of bf16 pairs and an f32 term one half of them,
 * widened. */
static V right_vector(const MicroTile *f, uint32_t vector, uint32_t unit)
{
    L *l = f->x->l;
    V word = f->word[vector];
    if (f->x->left == EL_BF16)
        return LLVMBuildBitCast(l->b, word,
                                LLVMVectorType(LLVMBFloatTypeInContext(l->ctx), 2 * l_width(word)), "");
    if (f->x->right == EL_BF16)
        word = unit % 2 ? l_and(l, word, l_int(l->i32, -65536)) : l_shl(l, word, 16);
    return l_bits(l, word, l->f32);
}

static V add_products(const MicroTile *f, V left, V right, V sum)
{
    L *l = f->x->l;
    if (f->x->left != EL_BF16)
        return emit_fma(f->x->e, left, right, sum);
    left = LLVMBuildBitCast(l->b, l_splat(l, left, f->x->lanes), LLVMTypeOf(right), "");
    V args[3] = {sum, left, right};
    return l_intrinsic(l, "llvm.x86.avx512bf16.dpbf16ps.512", NULL, args, 3);
}

/* Lines of a row of sums. */
static uint32_t row_lines(const MicroTile *f)
{
    uint32_t bytes = emit_product_width(f->x) * (uint32_t)elem_bytes(EL_F32);
    return bytes < LAYOUT_LINE_BYTES ? 1 : bytes / LAYOUT_LINE_BYTES;
}

static V line_of(const MicroTile *f, V at, V line)
{
    L *l = f->x->l;
    V in_row = l_i64(l, row_lines(f)), row = l_mul(l, l_bin(l, LLVMUDiv, line, in_row), f->x->c_row);
    V byte = l_mul(l, l_bin(l, LLVMURem, line, in_row), l_i64(l, LAYOUT_LINE_BYTES));
    return l_byte(l, l_byte(l, at, row), byte);
}

static void ask_line(const MicroTile *f, V at, V line) { emit_ask(f->x->l, line_of(f, at, line)); }

void emit_ask_streams(const EmitProduct *x, V i, int64_t bytes)
{
    L *l = x->l;
    V streams = l_i64(l, x->streams), stream = l_mul(l, l_bin(l, LLVMURem, i, streams), x->stream);
    int64_t run = x->step ? x->run : bytes;
    V step = x->step ? x->step : l_i64(l, run);
    V first = l_mul(l, l_bin(l, LLVMUDiv, i, streams), l_i64(l, bytes / run)),
      at = l_byte(l, x->next, stream);
    for (int64_t byte = 0; byte < bytes; byte += LAYOUT_LINE_BYTES) {
        V row = l_mul(l, l_add(l, first, l_i64(l, byte / run)), step);
        emit_ask(l, l_byte(l, l_byte(l, at, row), l_i64(l, byte % run)));
    }
}

void emit_keep(const EmitProduct *x, V unit, uint32_t vector, V v)
{
    L *l = x->l;
    V at = l_byte(l, x->kept, l_mul(l, unit, l_i64(l, ROW_OF_WORDS)));
    uint32_t bytes = x->lanes * LAYOUT_WORD_BYTES;
    l_store(l, v, l_byte(l, at, l_i64(l, vector * (int64_t)bytes)), bytes);
}

typedef struct UnitAt {
    uint32_t unit; /* of the trip */
    V at;          /* of all, counted */
    V a;           /* the trip's first terms of the left operand */
    V b;           /* and words of the panel; of a right operand in rows the first row */
} UnitAt;

/* What lies ahead of a panel's unit is asked for: a panel in memory then costs no time beside its products, or all that memory
 * gives. */
static void begin_unit(const MicroTile *f, const UnitAt *u)
{
    EmitProduct *x = f->x;
    L *l = x->l;
    uint32_t bytes = x->asks ? x->asks : emit_product_width(x) * LAYOUT_WORD_BYTES;
    if (x->in_rows)
        emit_rows_begin(x, u->b, u->at);
    else if (x->next && u->unit % x->per_word == 0)
        emit_ask_streams(x, l_bin(l, LLVMUDiv, u->at, l_i64(l, x->per_word)), bytes);
}

static V panel_vector(MicroTile *f, const UnitAt *u, uint32_t v)
{
    const EmitProduct *x = f->x;
    L *l = x->l;
    uint32_t byte = u->unit / x->per_word * ROW_OF_WORDS + v * x->lanes * LAYOUT_WORD_BYTES;
    if (u->unit % x->per_word == 0 || f->pinned)
        f->word[v] = l_load(l, LLVMVectorType(l->i32, x->lanes), l_byte(l, u->b, l_i64(l, byte)), 4);
    return right_vector(f, v, u->unit);
}

static V right_of(MicroTile *f, const UnitAt *u, uint32_t v)
{
    EmitProduct *x = f->x;
    V right = x->in_rows ? emit_rows_vector(x, v) : panel_vector(f, u, v);
    if (x->kept)
        emit_keep(x, u->at, v, right);
    return right;
}

static V left_of(const MicroTile *f, const UnitAt *u, uint32_t row)
{
    L *l = f->x->l;
    V in_row = l_i64(l, u->unit * LAYOUT_WORD_BYTES);
    V at = l_byte(l, u->a, l_add(l, l_mul(l, f->x->a_row, l_i64(l, row)), in_row));
    return l_load(l, f->x->left == EL_BF16 ? l->i32 : l->f32, at, 4);
}

/* Adds the products of the unit's terms. Whichever are fewer stay in registers, rows' terms or the panel's vectors, while the others
 * come one after the other. */
static void add_unit(MicroTile *f, const UnitAt *u)
{
    uint32_t rows = f->rows, vectors = f->x->vectors;
    int rows_stay = f->x->rows < vectors;
    uint32_t nstay = rows_stay ? rows : vectors, ncome = rows_stay ? vectors : rows;
    V stay[FRAGMENT_MAX];
    begin_unit(f, u);
    for (uint32_t i = 0; i < nstay; i++)
        stay[i] = rows_stay ? left_of(f, u, i) : right_of(f, u, i);
    for (uint32_t i = 0; i < ncome; i++) {
        V comes = rows_stay ? right_of(f, u, i) : left_of(f, u, i);
        for (uint32_t j = 0; j < nstay; j++) {
            V left = rows_stay ? stay[j] : comes, right = rows_stay ? comes : stay[j];
            V *sum = &f->sum[rows_stay ? j * vectors + i : i * vectors + j];
            *sum = add_products(f, left, right, *sum);
        }
    }
}

/* The lines of the next units are asked for: they are a whole block of rows away, which the CPU does not foresee; nor does it as many
 * rows as a fragment has. */
static void ask_lines(const MicroTile *f, V a)
{
    L *l = f->x->l;
    V next = l_byte(l, a, f->x->left_in_rows ? l_i64(l, ROW_AHEAD) : f->x->a_block);
    for (uint32_t r = 0; r < f->rows; r++)
        emit_ask_near(l, l_byte(l, next, l_mul(l, f->x->a_row, l_i64(l, r))));
}

/* A trip's lines of what the fragments of all rows ask for together (CPU_WIDE). */
static void ask_share(const MicroTile *f, V trip)
{
    L *l = f->x->l;
    V at = l_byte(l, f->x->share, l_mul(l, trip, f->x->share_step)), line = l_i64(l, LAYOUT_LINE_BYTES);
    emit_ask(l, at);
    When more = l_when(l, l_icmp(l, LLVMIntSGT, f->x->share_step, line));
    for (uint32_t i = 1; i < SHARED_LINES; i++)
        emit_ask(l, l_byte(l, at, l_i64(l, i * LAYOUT_LINE_BYTES)));
    l_end_when(l, &more);
}

/* Lines of sums that a trip of so many units asks for. */
static uint32_t lines_asked(uint32_t trip) { return trip < 4 ? trip : trip / 4 * 3; }

V emit_unit_at(const EmitProduct *x, V a, V unit)
{
    L *l = x->l;
    if (x->left_in_rows)
        return l_byte(l, a, l_shl(l, unit, 2));
    V line = l_byte(l, a, l_mul(l, l_sar(l, unit, 4), x->a_block));
    return l_byte(l, line, l_shl(l, l_and(l, unit, l_i64(l, 15)), 2));
}

/* The units in [from, to), `trip` of them at a time, which are in one line. */
static void over_units(MicroTile *f, V a, V b, V from, V to, uint32_t trip)
{
    EmitProduct *x = f->x;
    L *l = x->l;
    For k = l_for(l, from, to, trip, "terms");
    LoopCarry sums = l_carry(l, &k, f->sum, f->rows * x->vectors);
    V left = emit_unit_at(f->x, a, k.var);
    V words = l_byte(l, b, l_mul(l, k.var, l_i64(l, ROW_OF_WORDS / (int64_t)x->per_word)));
    V nth = l_bin(l, LLVMUDiv, k.var, l_i64(l, trip)), asked = l_mul(l, nth, l_i64(l, lines_asked(trip)));
    f->pinned = trip > x->trip;
    if (f->pinned && (x->left_in_rows || !cpu_can(x->e->p->cpu, CPU_FORESEES_LINES)))
        ask_lines(f, left);
    if (x->share && f->pinned)
        ask_share(f, nth);
    for (uint32_t unit = 0; unit < trip; unit++) {
        if (f->ask && unit < lines_asked(trip))
            ask_line(f, f->ask, l_add(l, asked, l_i64(l, unit)));
        if (unit && f->pinned)
            family_hooks[l->family].pin(l, f->sum, f->rows * x->vectors);
        UnitAt u = {unit, l_add(l, k.var, l_i64(l, unit)), left, x->in_rows ? b : words};
        add_unit(f, &u);
    }
    l_carried(l, &k, &sums);
}

static uint32_t longest_trip(const EmitProduct *x) { return x->unroll > x->trip ? x->unroll : x->trip; }

/* Asks for the sums of the fragment that stands x->coming bytes on; 0: for none. Many lines at once would wait for each other: of
 * a fragment with enough units, its first trips ask for some each. Returns how many units that took. */
static V ask_coming(MicroTile *f, V c, V a, V b, V units)
{
    EmitProduct *x = f->x;
    L *l = x->l;
    uint32_t lines = f->rows * row_lines(f), trip = longest_trip(x), in_trip = lines_asked(trip);
    int many = lines > LINES_AT_ONCE && lines % in_trip == 0;
    V took = l_i64(l, lines / in_trip * trip);
    V at = l_byte(l, c, x->coming), zero = l_i64(l, 0), apart = zero;
    V some = l_icmp(l, LLVMIntNE, x->coming, zero);
    if (many)
        apart = l_select(l, l_and(l, some, l_icmp(l, LLVMIntSGE, units, took)), took, zero);
    When w = l_when(l, l_and(l, some, l_icmp(l, LLVMIntEQ, apart, zero)));
    for (uint32_t i = 0; i < lines; i++)
        ask_line(f, at, l_i64(l, i));
    l_end_when(l, &w);
    if (many) {
        f->ask = at;
        over_units(f, a, b, zero, apart, trip);
        f->ask = NULL;
    }
    return apart;
}

/* Of a part that ends soon the sums of the rows FRAGMENTS_BELOW fragments on, which were asked for long ago but may have left the
 * caches. */
static void ask_below(const MicroTile *f, V c, V units)
{
    EmitProduct *x = f->x;
    L *l = x->l;
    V soon = l_icmp(l, LLVMIntSLT, units, l_i64(l, x->part));
    When w = l_when(l, l_and(l, soon, l_icmp(l, LLVMIntNE, x->coming, l_i64(l, 0))));
    V at = l_byte(l, c, l_mul(l, x->c_row, l_i64(l, FRAGMENTS_BELOW * (int64_t)f->rows)));
    for (uint32_t i = 0; i < f->rows * row_lines(f); i++)
        emit_ask_near(l, line_of(f, at, l_i64(l, i)));
    l_end_when(l, &w);
}

void emit_vector_fragment(EmitProduct *x, uint32_t rows, V c, V a, V b, V units)
{
    L *l = x->l;
    MicroTile f = {.x = x, .rows = rows};
    if (rows * x->vectors > FRAGMENT_MAX || x->vectors > VECTORS_MAX ||
        emit_product_width(x) * LAYOUT_WORD_BYTES > ZERO_BYTES)
        BUG(l->arena, "backend: a fragment of %u rows of %u vectors", rows, x->vectors);
    Ty type = LLVMVectorType(l->f32, x->lanes);
    V from = l_select(l, x->init, x->zeros, c);
    for (uint32_t i = 0; i < rows * x->vectors; i++)
        f.sum[i] = l_load(l, type, address_of_sum(&f, from, x->from_row, i / x->vectors, i % x->vectors), 4);
    if (x->share && x->coming)
        ask_below(&f, c, units);
    V done = x->coming ? ask_coming(&f, c, a, b, units) : l_i64(l, 0);
    uint32_t trip = longest_trip(x);
    if (trip > x->trip) {
        V whole = l_and(l, units, l_i64(l, -(int64_t)trip));
        over_units(&f, a, b, done, whole, trip);
        done = l_max(l, done, whole);
    }
    over_units(&f, a, b, done, units, x->trip);
    for (uint32_t i = 0; i < rows * x->vectors; i++)
        l_store(l, f.sum[i], address_of_sum(&f, c, x->c_row, i / x->vectors, i % x->vectors), 4);
}
