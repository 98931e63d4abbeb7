/* Blocks of 16 x 16 words, transposed in vector registers.
 *
 * W vectors of W words: first within each 128 bits (unpacks of 32, then of 64 bits), then the pieces of
 * 128 bits as a small matrix of their own. */
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

/* v[c], v[4 + c], ...: a matrix of pieces; halves are sorted by the parity of their columns until one is
 * left. */
static void pieces(L *l, V *v, uint32_t w)
{
    for (uint32_t c = 0; c < PIECE && w > PIECE; c++) {
        uint32_t n = w / PIECE;
        V m[PIECE], next[PIECE];
        for (uint32_t i = 0; i < n; i++)
            m[i] = v[i * PIECE + c];
        for (uint32_t round = 1; round < n; round *= 2) {
            for (uint32_t i = 0; i < n; i += 2)
                for (uint32_t odd = 0; odd < 2; odd++)
                    next[i / 2 + odd * n / 2] = every_other(l, m[i], m[i + 1], odd);
            for (uint32_t i = 0; i < n; i++)
                m[i] = next[i];
        }
        for (uint32_t i = 0; i < n; i++)
            v[i * PIECE + c] = m[i];
    }
}

/* The w x w words at row `row` and word `column`. */
static void transpose_square(L *l, V from, V to, V stride, uint32_t row, uint32_t column, uint32_t w)
{
    V v[EDGE];
    Ty type = LLVMVectorType(l->i32, w);
    for (uint32_t i = 0; i < w; i++)
        v[i] = l_load(l, type, l_byte(l, from, l_i64(l, (row + i) * LAYOUT_LINE_BYTES + column * 4)), 4 * w);
    within_pieces(l, v, w);
    pieces(l, v, w);
    for (uint32_t i = 0; i < w; i++) {
        V at = l_byte(l, to, l_mul(l, stride, l_i64(l, column + i)));
        l_store(l, v[i], l_byte(l, at, l_i64(l, row * 4)), 2);
    }
}

static V function_of(const Plan *p)
{
    L *l = p->l;
    const char *name = arena_printf(l->arena, "moec.transpose.%s", p->cpu->name);
    V fn = LLVMGetNamedFunction(l->mod, name);
    if (fn)
        return fn;
    Ty types[3] = {l->ptr, l->ptr, l->i64};
    fn = LLVMAddFunction(l->mod, name, l_fn_type(l, l->none, types, 3));
    l_shared(l, fn);
    return fn;
}

V emit_transpose(Emit *e) { return function_of(e->p); }

void emit_transpose_function(Plan *p)
{
    L *l = p->l;
    V fn = function_of(p);
    plan_attributes(p, fn);
    l_attribute(l, fn, "noinline");
    l_begin(l, fn);
    uint32_t w = p->cpu->lanes;
    for (uint32_t row = 0; row < EDGE; row += w)
        for (uint32_t column = 0; column < EDGE; column += w)
            transpose_square(l, LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 2), row, column,
                             w);
    LLVMBuildRetVoid(l->b);
}
