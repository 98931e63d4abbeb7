/* Panels are filled with rows of elements, and zeros: the functions of packs.
 *
 * Rows, and so lanes, go along one axis of the box. A word is what lies side
 * by side in k: one f32 or two elements of 16 bit.
 *   axis 1, lines   a vector is a line of a row: it is stored whole, with zeros after the end
 *   axis 1, pairs   a vector of 32 columns for each k of a word, merged into a row of words of the panel
 *   axis 0          words are transposed: of lines, 16 rows of 16 words in k; of pairs, 16 words in k of 16
 *                   columns.
 *                   Up to SCRATCH_BLOCKS blocks of them wait in the scratch for the transposition. */
#include "backend/emit_pack.h"

enum { BLOCK_BYTES = WORDS * LAYOUT_LINE_BYTES };

void pack_init(Pack *x)
{
    int words = x->layout == LAYOUT_LINES && !x->axis; /* lanes are words of 16 rows */
    x->terms = (uint32_t)layout_terms(x->elem);
    x->width = x->layout == LAYOUT_PAIRS && x->axis ? LAYOUT_EDGE : words ? WORDS : WORDS * x->terms;
}

/* ---- lanes ---- */

/* The elements from `first` of row `row`, as they lie in the panel; `tail`: those that exist, the others are zeros. */
static V elements(Pack *x, V first, V row, V tail)
{
    L *l = x->l;
    V from = l_load(l, l->ptr, l_at(l, l->ptr, x->rows, row), 8);
    V raw = emit_load_run(x->e, NONE, x->source, l_at(l, emit_memory_type(l, x->source), from, first), tail);
    return x->source == x->elem ? raw : emit_encode(x->e, x->elem, emit_decode(x->e, x->source, raw));
}

/* As words: `terms` vectors side by side in k, of which only `valid` are in the box. */
static V words_of(Pack *x, V first, V other, V tail, uint32_t valid)
{
    L *l = x->l;
    V word = NULL;
    for (uint32_t i = 0; i < valid; i++) {
        V v = elements(x, first, l_add(l, other, l_i64(l, i)), tail);
        if (x->terms == 1)
            return l_bits(l, v, l->i32);
        v = l_shl(l, l_cast(l, LLVMZExt, v, l->i32), i ? 16 : 0);
        word = word ? l_or(l, word, v) : v;
    }
    return word;
}

/* Lanes from `first` on; tail NULL: all exist. The last argument is the trip's own. */
typedef void Trip(Pack *x, V first, V tail, V with);

/* Over n elements of the lane axis. A mask costs no instruction, but making it for each trip does. */
static void trips(Pack *x, V n, Trip *trip, V with)
{
    L *l = x->l;
    For f = l_for(l, l_i64(l, 0), l_sub(l, n, l_i64(l, x->width - 1)), x->width, "lanes");
    trip(x, f.var, NULL, with);
    l_end_for(l, &f);
    V whole = l_and(l, n, l_i64(l, -(int64_t)x->width));
    When some = l_when(l, l_icmp(l, LLVMIntSLT, whole, n));
    trip(x, whole, emit_first_lanes(x->e, l_sub(l, n, whole)), with);
    l_end_when(l, &some);
}

static void store_words(Pack *x, V v, V at)
{
    if (x->past)
        l_store_past(x->l, v, at, LAYOUT_LINE_BYTES);
    else
        l_store(x->l, v, at, 2);
}

/* ---- lanes over axis 1 ---- */

/* A line of row x->other. */
static void line_trip(Pack *x, V first, V tail, V with)
{
    L *l = x->l;
    V v = elements(x, first, x->other, tail);
    V block = l_mul(l, LLVMBuildUDiv(l->b, first, l_i64(l, x->width), ""), x->block);
    store_words(x, v, l_byte(l, with, block));
}

static void pack_lines(Pack *x)
{
    L *l = x->l;
    For row = l_for(l, l_i64(l, 0), x->n[0], 1, "row");
    x->other = row.var;
    trips(x, x->n[1], line_trip, l_byte(l, x->at, l_mul(l, row.var, l_i64(l, LAYOUT_LINE_BYTES))));
    l_end_for(l, &row);
}

static V panel_at(Pack *x, V column, V row_of_words)
{
    L *l = x->l;
    return l_byte(l, row_of_words, l_mul(l, LLVMBuildLShr(l->b, column, l_i64(l, 5), ""), x->block));
}

/* 32 columns of the k from x->other on. */
static void whole_word_trip(Pack *x, V first, V tail, V with)
{
    store_words(x, words_of(x, first, x->other, tail, x->terms), panel_at(x, first, with));
}

static void half_word_trip(Pack *x, V first, V tail, V with)
{
    store_words(x, words_of(x, first, x->other, tail, 1), panel_at(x, first, with));
}

static V row_of_words(Pack *x, V k)
{
    L *l = x->l;
    return l_byte(l, x->at, l_mul(l, l_sar(l, k, x->terms == 2), l_i64(l, ROW_OF_WORDS)));
}

/* Rows of words of all panels, from k on up to a whole line. */
static void zero_rows(Pack *x, V k)
{
    L *l = x->l;
    int64_t line = WORDS * x->terms;
    V end = l_round_up(l, x->n[0], line);
    V zeros = LLVMConstNull(LLVMVectorType(l->i32, WORDS));
    For row = l_for(l, k, end, x->terms, "zeros");
    V at = row_of_words(x, row.var);
    For column = l_for(l, l_i64(l, 0), x->n[1], LAYOUT_EDGE, "columns");
    V to = panel_at(x, column.var, at);
    for (int i = 0; i < ROW_OF_WORDS; i += LAYOUT_LINE_BYTES)
        store_words(x, zeros, l_byte(l, to, l_i64(l, i)));
    l_end_for(l, &column);
    l_end_for(l, &row);
}

static void pack_pairs(Pack *x)
{
    L *l = x->l;
    V whole = l_and(l, x->n[0], l_i64(l, -(int64_t)x->terms));
    For k = l_for(l, l_i64(l, 0), whole, x->terms, "k");
    x->other = k.var;
    trips(x, x->n[1], whole_word_trip, row_of_words(x, k.var));
    l_end_for(l, &k);
    if (x->terms == 2) {
        When odd = l_when(l, l_icmp(l, LLVMIntSLT, whole, x->n[0]));
        x->other = whole;
        trips(x, x->n[1], half_word_trip, row_of_words(x, whole));
        l_end_when(l, &odd);
    }
    zero_rows(x, l_round_up(l, x->n[0], x->terms));
}

/* ---- lanes over axis 0 ---- */

/* The place of a block's item (a word or a column) in the scratch. */
static V scratch_at(Pack *x, V first, V item)
{
    L *l = x->l;
    V block = l_mul(l, LLVMBuildUDiv(l->b, first, l_i64(l, x->width), ""), l_i64(l, BLOCK_BYTES));
    return l_byte(l, l_byte(l, x->e->scratch, block), l_mul(l, item, l_i64(l, LAYOUT_LINE_BYTES)));
}

/* Trips of lanes: `first` counts from the chunk, whose begin is x->left. */
static void whole_item_trip(Pack *x, V first, V tail, V with)
{
    V at = l_add(x->l, x->left, first);
    l_store(x->l, words_of(x, at, x->other, tail, x->terms), scratch_at(x, first, with), LAYOUT_LINE_BYTES);
}

static void half_item_trip(Pack *x, V first, V tail, V with)
{
    V at = l_add(x->l, x->left, first);
    l_store(x->l, words_of(x, at, x->other, tail, 1), scratch_at(x, first, with), LAYOUT_LINE_BYTES);
}

static void no_item_trip(Pack *x, V first, V tail, V with)
{
    (void)tail;
    V zeros = LLVMConstNull(LLVMVectorType(x->l->i32, WORDS));
    l_store(x->l, zeros, scratch_at(x, first, with), LAYOUT_LINE_BYTES);
}

/* Of pairs lanes go over k: neighbours are words already. */
static void column_trip(Pack *x, V first, V tail, V with)
{
    L *l = x->l;
    V v = elements(x, l_add(l, x->left, first), x->other, tail);
    l_store(l, LLVMBuildBitCast(l->b, v, LLVMVectorType(l->i32, WORDS), ""), scratch_at(x, first, with),
            LAYOUT_LINE_BYTES);
}

/* The words or columns of n lanes from `first` on. */
static void zero_items(Pack *x, V first, V n)
{
    L *l = x->l;
    For zero = l_for(l, first, l_i64(l, WORDS), 1, "zeros");
    trips(x, n, no_item_trip, zero.var);
    l_end_for(l, &zero);
}

/* The words of a line in k, from `from` of m left, for n rows. */
static void fill_words(Pack *x, V from, V m, V n)
{
    L *l = x->l;
    V whole = l_sar(l, m, x->terms == 2);
    For word = l_for(l, l_i64(l, 0), whole, 1, "word");
    x->other = l_add(l, from, l_mul(l, word.var, l_i64(l, x->terms)));
    trips(x, n, whole_item_trip, word.var);
    l_end_for(l, &word);
    V next = whole;
    if (x->terms == 2) {
        V odd = l_and(l, m, l_i64(l, 1));
        When some = l_when(l, l_icmp(l, LLVMIntNE, odd, l_i64(l, 0)));
        x->other = l_add(l, from, l_mul(l, whole, l_i64(l, 2)));
        trips(x, n, half_item_trip, whole);
        l_end_when(l, &some);
        next = l_add(l, whole, odd);
    }
    zero_items(x, next, n);
}

/* A panel has all its columns: what stood there could be subnormal, and each product of such a number takes a hundred cycles. */
static void fill_columns(Pack *x, V from, V m, V n)
{
    L *l = x->l;
    For column = l_for(l, l_i64(l, 0), m, 1, "column");
    x->other = l_add(l, from, column.var);
    trips(x, n, column_trip, column.var);
    l_end_for(l, &column);
    zero_items(x, m, n);
}

/* Where the transposed block with corner [i, j] of the box goes. */
static V block_at(Pack *x, V i, V j)
{
    L *l = x->l;
    if (x->layout == LAYOUT_PAIRS)
        return l_byte(l, panel_at(x, j, row_of_words(x, i)),
                      l_mul(l, l_and(l, j, l_i64(l, LAYOUT_EDGE - 1)), l_i64(l, LAYOUT_WORD_BYTES)));
    V block = l_mul(l, LLVMBuildUDiv(l->b, j, l_i64(l, WORDS * x->terms), ""), x->block);
    return l_byte(l, l_byte(l, x->at, block), l_mul(l, i, l_i64(l, LAYOUT_LINE_BYTES)));
}

static void pack_transposed(Pack *x)
{
    L *l = x->l;
    int pairs = x->layout == LAYOUT_PAIRS;
    int64_t chunk = SCRATCH_BLOCKS * (int64_t)x->width, group = pairs ? WORDS : WORDS * x->terms;
    if (!x->e->scratch)
        x->e->scratch = l_slot_bytes(l, SCRATCH_BLOCKS * BLOCK_BYTES, "scratch");
    For c = l_for(l, l_i64(l, 0), x->n[0], chunk, "chunk");
    V n = l_min(l, l_sub(l, x->n[0], c.var), l_i64(l, chunk));
    V whole = l_round_up(l, x->n[1], pairs ? LAYOUT_EDGE : group);
    For g = l_for(l, l_i64(l, 0), whole, group, "group");
    V m = l_max(l, l_i64(l, 0), l_min(l, l_sub(l, x->n[1], g.var), l_i64(l, group)));
    x->left = c.var;
    (pairs ? fill_columns : fill_words)(x, g.var, m, n);
    For b = l_for(l, l_i64(l, 0), n, x->width, "block");
    V args[4] = {scratch_at(x, b.var, l_i64(l, 0)), l_i64(l, LAYOUT_LINE_BYTES),
                 block_at(x, l_add(l, c.var, b.var), g.var),
                 l_i64(l, pairs ? ROW_OF_WORDS : LAYOUT_LINE_BYTES)};
    l_call(l, emit_transpose(x->e, x->past), args, 4);
    l_end_for(l, &b);
    l_end_for(l, &g);
    l_end_for(l, &c);
}

static void fill_panel(Pack *x)
{
    switch (x->layout) {
    case LAYOUT_LINES: (x->axis ? pack_lines : pack_transposed)(x); break;
    case LAYOUT_PAIRS: (x->axis ? pack_pairs : pack_transposed)(x); break;
    case LAYOUT_ROWS:
    case LAYOUT_SUMS:
    case LAYOUT_ZN: /* only bodies of events write these */
    case LAYOUT_NZ:
    case LAYOUT_ZZ:
    case LAYOUT_COUNT: break;
    }
}

/* ---- the functions ---- */

static const Elem elems[] = {EL_F32, EL_BF16, EL_F16};
enum { ELEMS = sizeof elems / sizeof *elems };

static uint32_t number_of(Elem elem)
{
    uint32_t at = 0;
    while (elems[at] != elem)
        at++;
    return at;
}

/* What a pack function is for, by its number: all layouts, axes and types, then those that store past the caches. */
typedef struct PackKind {
    Layout layout;
    uint8_t axis;
    Elem source, elem;
    int past;
} PackKind;
enum { ORDINARY_KINDS = 4 * ELEMS * ELEMS, PAST_KINDS = 2 * ELEMS };
_Static_assert(ORDINARY_KINDS + PAST_KINDS == PACK_KINDS, "emit.h counts the kinds");

uint32_t pack_kind(Layout layout, uint8_t axis, Elem source, Elem elem)
{
    return (((layout == LAYOUT_PAIRS) * 2u + !axis) * ELEMS + number_of(source)) * ELEMS + number_of(elem);
}

uint32_t pack_past_kind(uint8_t axis, Elem elem)
{
    return ORDINARY_KINDS + !axis * (uint32_t)ELEMS + number_of(elem);
}

static PackKind kind_of(uint32_t kind)
{
    uint32_t past = kind - ORDINARY_KINDS, shape = kind / ELEMS / ELEMS;
    if (kind >= ORDINARY_KINDS)
        return (PackKind){LAYOUT_PAIRS, past < ELEMS, elems[past % ELEMS], elems[past % ELEMS], 1};
    return (PackKind){shape / 2 ? LAYOUT_PAIRS : LAYOUT_LINES, !(shape % 2), elems[kind / ELEMS % ELEMS],
                      elems[kind % ELEMS], 0};
}

Ty pack_type(L *l)
{
    Ty types[] = {l->ptr, l->i64, l->i64, l->ptr, l->i64};
    return l_fn_type(l, l->none, types, sizeof types / sizeof *types);
}

V pack_helper(const Plan *p, uint32_t kind)
{
    L *l = p->l;
    PackKind is = kind_of(kind);
    const char *name =
        arena_printf(l->arena, "moec.pack.%s.%s%s.%s.%s%s", cpu_table[p->cpu->code].name,
                     is.layout == LAYOUT_PAIRS ? "pairs" : "lines", is.axis ? "" : "_transposed",
                     elem_name(is.source), elem_name(is.elem), is.past ? ".past" : "");
    return l_shared_function(l, name, pack_type(l));
}

void emit_pack_function(Plan *p, uint32_t kind)
{
    L *l = p->l;
    V fn = pack_helper(p, kind);
    PackKind is = kind_of(kind);
    plan_attributes(p, fn);
    l_attribute(l, fn, "noinline");
    l_begin(l, fn);
    Emit e = emit_blank(p);
    Pack x = {.e = &e,
              .l = l,
              .axis = is.axis,
              .source = is.source,
              .elem = is.elem,
              .layout = is.layout,
              .past = is.past};
    x.rows = LLVMGetParam(fn, 0);
    x.n[!x.axis] = LLVMGetParam(fn, 1);
    x.n[x.axis] = LLVMGetParam(fn, 2);
    x.at = LLVMGetParam(fn, 3);
    x.block = LLVMGetParam(fn, 4);
    pack_init(&x);
    e.width = x.width;
    fill_panel(&x);
    LLVMBuildRetVoid(l->b);
}
