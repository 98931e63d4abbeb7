/* Block products whose right operand is transposed in row-major memory, its columns as rows: weights in the gradient of
 * what they multiplied.
 *
 * Of 32 columns a part of the terms is transposed into a panel in the first cache, which fragments of all rows then read.
 * While they do, the 32 columns that come next are asked for in the order in which they lie (memory gives long runs faster
 * than short ones), and not while words are transposed, which would wait for them. Of few rows the products take less time than memory:
 * some CPUs lose what they are asked for too fast, and ask for half of it while words are transposed (CPU_ASKS_EVENLY). Short columns with
 * others between them, as keys of a cache with several heads, are asked for all at once. Additions are those of a packed panel, in the
 * same order. */
#include "backend/emit_product.h"

enum { EDGE = LAYOUT_LINE_BYTES / LAYOUT_WORD_BYTES };

typedef struct RowsTransposed {
    EmitProduct *x;
    L *l;
    V words, elements; /* of a column */
    V panel, scratch;  /* a part of 32 columns; 16 columns of 16 words that are not all there */
    uint32_t terms;    /* of a word */
    int evenly;        /* CPU_ASKS_EVENLY */
    V is_short; /* i1: a column is shorter than what is asked for of a stream, and others lie between two of them */
} RowsTransposed;

/* The 16 words from `word` on of the `columns` columns from `from` on. Instead of those that do not exist the last one is
 * read; words that do not exist are zero. */
static V fill_scratch(const RowsTransposed *t, V from, V columns, V word)
{
    L *l = t->l;
    EmitProduct *x = t->x;
    x->e->width = EDGE * t->terms;
    V n = l_sub(l, t->elements, l_mul(l, word, l_i64(l, t->terms)));
    For f = l_for(l, l_i64(l, 0), l_i64(l, EDGE), 1, "column");
    V column = l_min(l, f.var, l_sub(l, columns, l_i64(l, 1)));
    V line = emit_load_first(x->e, x->right, l_byte(l, from, l_mul(l, column, x->b_panel)), n);
    l_store(l, line, l_byte(l, t->scratch, l_mul(l, f.var, l_i64(l, LAYOUT_LINE_BYTES))), LAYOUT_LINE_BYTES);
    l_end_for(l, &f);
    x->e->width = 0;
    return t->scratch;
}

/* 16 words of 16 columns, of which `columns` exist, go into the panel at `to`. */
static void transpose(const RowsTransposed *t, V from, V columns, V word, V to)
{
    L *l = t->l;
    V edge = l_i64(l, EDGE), line = l_i64(l, LAYOUT_LINE_BYTES);
    V there = l_icmp(l, LLVMIntSLE, l_mul(l, l_add(l, word, edge), l_i64(l, t->terms)), t->elements);
    Block whole = l_block(l, "whole"), part = l_block(l, "part"), both = l_block(l, "both");
    l_branch(l, l_and(l, there, l_icmp(l, LLVMIntSGE, columns, edge)), whole, part);
    for (int i = 0; i < 2; i++) {
        l_enter(l, i ? part : whole);
        V at = i ? fill_scratch(t, from, columns, word) : from;
        V args[4] = {at, i ? line : t->x->b_panel, to, l_i64(l, ROW_OF_WORDS)};
        l_call(l, emit_transpose(t->x->e, 0), args, 4);
        l_goto(l, both);
    }
    l_enter(l, both);
}

/* Of the columns from `next` on what is behind as many bytes as come before `word`, in each of the streams. Short ones have been asked
 * for: nothing that is not here already. */
static V asked_for(const RowsTransposed *t, V next, V word, uint32_t streams)
{
    L *l = t->l;
    V run = l_max(l, l_mul(l, t->words, l_i64(l, LAYOUT_WORD_BYTES)), l_i64(l, 1));
    V byte = l_mul(l, l_bin(l, LLVMUDiv, word, l_i64(l, streams)), l_i64(l, ROW_OF_WORDS)),
      row = l_bin(l, LLVMUDiv, byte, run);
    V at = l_byte(l, next, l_add(l, l_mul(l, row, t->x->b_panel), l_sub(l, byte, l_mul(l, row, run))));
    return l_select(l, t->is_short, t->panel, at);
}

/* What multiplies few rows, and asks for what is at `next`. Fewer instructions, by trips of two units, let the CPU ask memory for more
 * at once. */
static EmitProduct few_rows(const RowsTransposed *t, V next)
{
    const EmitProduct *x = t->x;
    EmitProduct few = emit_wide_fragment(x, LAYOUT_EDGE);
    few.trip = FRAGMENT_UNITS;
    few.next = next;
    few.stream = l_mul(t->l, x->b_panel, l_i64(t->l, LAYOUT_EDGE / x->streams));
    few.asks = t->evenly ? LAYOUT_LINE_BYTES : 0;
    return few;
}

/* Behind so many lines of the streams at `next`, a line in turn of each. */
static V behind(const RowsTransposed *t, V next, V lines)
{
    L *l = t->l;
    V each = l_bin(l, LLVMUDiv, lines, l_i64(l, t->x->streams));
    return l_byte(l, next, l_mul(l, each, l_i64(l, LAYOUT_LINE_BYTES)));
}

/* The first half of what few rows ask for: a line for each of 8 words from `word` on, while 16 words of 16 columns are transposed. */
static void ask_evenly(const RowsTransposed *t, V next, V word)
{
    L *l = t->l;
    if (!t->evenly)
        return;
    When here = l_when(l, emit_product_few(t->x));
    EmitProduct few = few_rows(t, behind(t, next, word));
    for (int i = 0; i < EDGE / 2; i++)
        emit_ask_streams(&few, l_i64(l, i), few.asks);
    l_end_when(l, &here);
}

/* The `words` words from `first` on of the columns from b on, of which `columns` exist, go into the panel. */
static void fill_panel(const RowsTransposed *t, V b, V columns, V first, V words, V next)
{
    L *l = t->l;
    For f = l_for(l, l_i64(l, 0), words, EDGE, "words");
    V word = l_add(l, first, f.var), from = l_byte(l, b, l_mul(l, word, l_i64(l, LAYOUT_WORD_BYTES)));
    V to = l_byte(l, t->panel, l_mul(l, f.var, l_i64(l, ROW_OF_WORDS)));
    For half = l_for(l, l_i64(l, 0), l_i64(l, LAYOUT_EDGE), EDGE, "half");
    ask_evenly(t, next, l_add(l, f.var, l_sar(l, half.var, 1)));
    transpose(t, l_byte(l, from, l_mul(l, half.var, t->x->b_panel)), l_sub(l, columns, half.var), word,
              l_byte(l, to, l_mul(l, half.var, l_i64(l, LAYOUT_WORD_BYTES))));
    l_end_for(l, &half);
    l_end_for(l, &f);
}

/* Words of a part. A single fragment's products take less time than memory, which is asked only meanwhile: they come often,
 * in short parts. Of a part that a fragment keeps there are no more units than it can. */
static V part_of(const RowsTransposed *t)
{
    L *l = t->l;
    const EmitProduct *x = t->x;
    V all = l_i64(l, FIRST_CACHE_WORDS), kept = l_min(l, l_i64(l, x->part / x->per_word), all);
    V most = l_select(l, emit_product_keeps(x), kept, all);
    return l_select(l, emit_product_few(x), l_i64(l, ONE_FRAGMENT_WORDS), most);
}

/* So many words of each of the short columns from `next` on. */
static void ask_columns(const RowsTransposed *t, V next, V words)
{
    L *l = t->l;
    When here = l_when(l, t->is_short);
    For column = l_for(l, l_i64(l, 0), l_i64(l, LAYOUT_EDGE), 1, "column");
    For byte = l_for(l, l_i64(l, 0), l_mul(l, words, l_i64(l, LAYOUT_WORD_BYTES)), LAYOUT_LINE_BYTES, "line");
    emit_ask(l, l_byte(l, l_byte(l, next, l_mul(l, column.var, t->x->b_panel)), byte.var));
    l_end_for(l, &byte);
    l_end_for(l, &column);
    l_end_when(l, &here);
}

/* The short parts of a single fragment are not worth calls. */
static void over_rows(const RowsTransposed *t, V c, V a, V b, V units, V next)
{
    EmitProduct *x = t->x;
    L *l = x->l;
    EmitProduct few = few_rows(t, next);
    V are_few = emit_product_few(x);
    When here = l_when(l, are_few);
    emit_product_fragments(&few, l_i64(l, 0), c, a, b, units);
    l_end_when(l, &here);
    When more = l_when(l, l_not(l, are_few));
    emit_product_rows(x, c, a, b, units);
    l_end_when(l, &more);
}

/* All terms for the columns of c and b. */
static void over_parts(const RowsTransposed *t, V c, V b, V columns)
{
    L *l = t->l;
    EmitProduct *x = t->x;
    V per_word = l_i64(l, x->per_word), part = part_of(t);
    V next = l_byte(l, b, l_mul(l, x->b_panel, l_i64(l, LAYOUT_EDGE)));
    For f = l_for(l, l_i64(l, 0), l_max(l, t->words, l_i64(l, 1)), 1, "part"); /* without terms too */
    f.next = part;
    V words = l_min(l, l_sub(l, t->words, f.var), part);
    V in_streams = asked_for(t, next, f.var, x->streams);
    fill_panel(t, b, columns, f.var, words, in_streams);
    ask_columns(t, l_byte(l, next, l_mul(l, f.var, l_i64(l, LAYOUT_WORD_BYTES))), words);
    x->next = asked_for(t, next, f.var, 1);
    V unit = l_mul(l, f.var, per_word);
    emit_begin_sums(x, unit);
    V a = l_byte(l, x->a, l_mul(l, l_sar(l, unit, 4), x->a_block));
    over_rows(t, c, a, t->panel, l_min(l, l_sub(l, x->units, unit), l_mul(l, part, per_word)),
              t->evenly ? behind(t, in_streams, l_round_up(l, words, EDGE)) : in_streams);
    l_end_for(l, &f);
}

/* Without rows there is nothing to do. */
void emit_rows_transposed_product(EmitProduct *x, V depth)
{
    L *l = x->l;
    RowsTransposed t = {.x = x,
                        .l = l,
                        .elements = l_max(l, depth, l_i64(l, 0)),
                        .terms = x->right == EL_BF16 ? 2 : 1,
                        .evenly = cpu_can(x->e->p->cpu, CPU_ASKS_EVENLY)};
    t.words = l_sar(l, l_add(l, t.elements, l_i64(l, t.terms - 1)), t.terms == 2);
    V column = l_mul(l, t.words, l_i64(l, LAYOUT_WORD_BYTES)),
      asked = l_i64(l, (int64_t)ONE_FRAGMENT_WORDS * ROW_OF_WORDS / x->streams);
    t.is_short = l_and(l, l_icmp(l, LLVMIntSLT, column, asked), l_icmp(l, LLVMIntNE, column, x->b_panel));
    t.panel = l_slot_bytes(l, FIRST_CACHE_WORDS * ROW_OF_WORDS, "panel");
    t.scratch = l_slot_bytes(l, EDGE * LAYOUT_LINE_BYTES, "scratch");
    V columns = l_select(l, l_icmp(l, LLVMIntSGT, x->nrows, l_i64(l, 0)), x->ncols, l_i64(l, 0));
    For f = l_for(l, l_i64(l, 0), columns, LAYOUT_EDGE, "columns");
    x->column = f.var;
    over_parts(&t, l_byte(l, x->c, l_mul(l, f.var, l_i64(l, (int64_t)elem_bytes(EL_F32)))),
               l_byte(l, x->b, l_mul(l, f.var, x->b_panel)), l_sub(l, columns, f.var));
    l_end_for(l, &f);
}
