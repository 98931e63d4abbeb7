/* Blocks of 16 x 16 words, transposed in vector registers.
 *
 * W vectors of W words: first within each 128 bits (unpacks of 32, then of 64 bits), then the pieces of
 * 128 bits as a small matrix of their own.
 *
 * Note [Whole lines]. A core has few buffers for lines on their way past the caches, and lines that wait there until their other half
 * comes cost ten times as much (measured on Zen 3, stores of half a line: 36 GB/s where two lines wait, 32 with four, 3 with eight). So
 * what goes past the caches is transposed in columns of squares, whose lines are stored one after the other. What goes into the caches is
 * not: two squares take more registers than there are. */
#include "backend/emit.h"

enum { EDGE = LAYOUT_LINE_BYTES / LAYOUT_WORD_BYTES, PIECE = 4 /* words of 128 bits */ };

/* Words of a and b alternate within each piece: pairs of `words`, from the low or the high half. */
static V unpack(L *l, V a, V b, uint32_t words, uint32_t high)
{
    V lane[EDGE];
    uint32_t w = l_width(a);
    for (uint32_t i = 0; i < w; i++) {
        uint32_t unit = i % PIECE / words,
                 from = i / PIECE * PIECE + (high * PIECE / 2) + unit / 2 * words + i % words;
        lane[i] = l_i32(l, unit % 2 ? w + from : from);
    }
    return LLVMBuildShuffleVector(l->b, a, b, LLVMConstVector(lane, w), "");
}

/* The even or the odd pieces of a, then those of b. */
static V every_other(L *l, V a, V b, uint32_t odd)
{
    V lane[EDGE];
    uint32_t w = l_width(a);
    for (uint32_t i = 0; i < w; i++) /* place i / PIECE of both one after the other, in pieces */
        lane[i] = l_i32(l, (i / PIECE * 2 + odd) * PIECE + i % PIECE);
    return LLVMBuildShuffleVector(l->b, a, b, LLVMConstVector(lane, w), "");
}

/* Each four vectors: piece q of result c of group i is column 4q + c of rows 4i.. */
static void within_pieces(L *l, V *v, uint32_t w)
{
    for (uint32_t i = 0; i < w; i += PIECE) {
        V t[PIECE];
        for (uint32_t j = 0; j < PIECE; j++)
            t[j] = unpack(l, v[i + j / 2 * 2], v[i + j / 2 * 2 + 1], 1, j % 2);
        for (uint32_t c = 0; c < PIECE; c++)
            v[i + c] = unpack(l, t[c / 2], t[2 + c / 2], 2, c % 2);
    }
}

/* A row of a matrix of pieces that is to be transposed: halves are sorted by the parity of their columns until one is
 * left. */
static void transpose_pieces(L *l, V *m, uint32_t n)
{
    V next[PIECE];
    for (uint32_t round = 1; round < n; round *= 2) {
        for (uint32_t i = 0; i < n; i += 2)
            for (uint32_t odd = 0; odd < 2; odd++)
                next[i / 2 + odd * n / 2] = every_other(l, m[i], m[i + 1], odd);
        for (uint32_t i = 0; i < n; i++)
            m[i] = next[i];
    }
}

/* A square of w x w words, or several, one below the other. */
static void transpose_squares(L *l, uint32_t w, uint32_t squares, V from, V step, V to, V stride, int past)
{
    Ty type = LLVMVectorType(l->i32, w);
    V v[EDGE], row[EDGE / PIECE];
    for (uint32_t i = 0; i < squares * w; i++)
        v[i] = l_load(l, type, l_byte(l, from, l_mul(l, step, l_i64(l, i))), 2);
    within_pieces(l, v, squares * w);
    uint32_t n = w / PIECE;
    /* Of a square the vectors c, 4 + c, ... are the rows c, 4 + c, ... of its result. */
    for (uint32_t c = 0; c < PIECE; c++) {
        for (uint32_t i = 0; i < squares * n; i++)
            row[i] = v[i * PIECE + c];
        for (uint32_t square = 0; square < squares; square++)
            transpose_pieces(l, row + square * n, n);
        for (uint32_t i = 0; i < squares * n; i++) {
            uint32_t column = i / squares * PIECE + c, square = i % squares;
            V at = l_byte(l, l_byte(l, to, l_mul(l, stride, l_i64(l, column))),
                          l_i64(l, (int64_t)square * w * LAYOUT_WORD_BYTES));
            V words = row[square * n + i / squares];
            if (past)
                l_store_past(l, words, at, w * LAYOUT_WORD_BYTES);
            else
                l_store(l, words, at, 2);
        }
    }
}

void emit_transpose_words(L *l, V from, V step, V to, V stride)
{
    transpose_squares(l, EDGE, 1, from, step, to, stride, 0);
}

static V function_of(const Plan *p, int past)
{
    L *l = p->l;
    const char *code = cpu_table[p->cpu->code].name;
    const char *name = arena_printf(l->arena, "moec.transpose.%s%s", code, past ? ".past" : "");
    Ty types[4] = {l->ptr, l->i64, l->ptr, l->i64};
    return l_shared_function(l, name, l_fn_type(l, l->none, types, 4));
}

V emit_transpose(Emit *e, int past) { return function_of(e->p, past); }

void emit_transpose_function(Plan *p, int past)
{
    L *l = p->l;
    V fn = function_of(p, past);
    plan_attributes(p, fn);
    l_attribute(l, fn, "noinline");
    l_begin(l, fn);
    uint32_t w = p->cpu->lanes, squares = past ? EDGE / w : 1; /* Note [Whole lines] */
    V step = LLVMGetParam(fn, 1), stride = LLVMGetParam(fn, 3);
    For row = l_for(l, l_i64(l, 0), l_i64(l, EDGE), squares * w, "row");
    For column = l_for(l, l_i64(l, 0), l_i64(l, EDGE), w, "column");
    V from = l_byte(l, LLVMGetParam(fn, 0), l_mul(l, row.var, step));
    V to = l_byte(l, LLVMGetParam(fn, 2), l_mul(l, column.var, stride));
    transpose_squares(l, w, squares, l_byte(l, from, l_shl(l, column.var, 2)), step,
                      l_byte(l, to, l_shl(l, row.var, 2)), stride, past);
    l_end_for(l, &column);
    l_end_for(l, &row);
    LLVMBuildRetVoid(l->b);
}
