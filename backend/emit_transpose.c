/* Blocks of 16 x 16 words, transposed in vector registers.
 *
 * W vectors of W words: first within each 128 bits (unpacks of 32, then of 64 bits), then the pieces of
 * 128 bits as a small matrix of their own. In loops: all at
 * once would be four times the code. */
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

/* A row of a matrix of pieces that is to be turned: halves are sorted by the parity of their columns until one is
 * left. */
static void turn_pieces(L *l, V *m, uint32_t n)
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

typedef struct Square {
    L *l;
    Ty type; /* w words */
    uint32_t w;
    V from, wait, to, stride; /* wait: for vectors between the two steps */
} Square;

static V vector_at(const Square *x, V base, V number)
{
    return l_byte(x->l, base, l_mul(x->l, number, l_i64(x->l, 4 * (int64_t)x->w)));
}

/* Four rows within their pieces. */
static void turn_rows(const Square *x)
{
    L *l = x->l;
    V v[PIECE];
    For f = l_for(l, l_i64(l, 0), l_i64(l, x->w), PIECE, "rows");
    for (uint32_t i = 0; i < PIECE; i++) {
        V row = l_mul(l, l_add(l, f.var, l_i64(l, i)), l_i64(l, LAYOUT_LINE_BYTES));
        v[i] = l_load(l, x->type, l_byte(l, x->from, row), 4 * x->w);
    }
    within_pieces(l, v, PIECE);
    for (uint32_t i = 0; i < PIECE; i++)
        l_store(l, v[i], vector_at(x, x->wait, l_add(l, f.var, l_i64(l, i))), 4 * x->w);
    l_end_for(l, &f);
}

/* Vectors c, 4 + c, ...: the rows c, 4 + c, ... of the result. */
static void turn_columns(const Square *x)
{
    L *l = x->l;
    V v[PIECE];
    uint32_t n = x->w / PIECE;
    For f = l_for(l, l_i64(l, 0), l_i64(l, PIECE), 1, "columns");
    for (uint32_t i = 0; i < n; i++)
        v[i] = l_load(l, x->type, vector_at(x, x->wait, l_add(l, f.var, l_i64(l, i * PIECE))), 4 * x->w);
    turn_pieces(l, v, n);
    for (uint32_t i = 0; i < n; i++)
        l_store(l, v[i], l_byte(l, x->to, l_mul(l, x->stride, l_add(l, f.var, l_i64(l, i * PIECE)))), 2);
    l_end_for(l, &f);
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
    Square x = {.l = l, .w = p->cpu->lanes, .stride = LLVMGetParam(fn, 2)};
    x.type = LLVMVectorType(l->i32, x.w);
    x.wait = l_slot(l, LLVMArrayType2(x.type, x.w), "wait");
    LLVMSetAlignment(x.wait, LAYOUT_LINE_BYTES);
    For row = l_for(l, l_i64(l, 0), l_i64(l, EDGE), x.w, "row");
    For column = l_for(l, l_i64(l, 0), l_i64(l, EDGE), x.w, "column");
    V above = l_mul(l, row.var, l_i64(l, LAYOUT_LINE_BYTES));
    x.from = l_byte(l, l_byte(l, LLVMGetParam(fn, 0), above), l_shl(l, column.var, 2));
    x.to = l_byte(l, l_byte(l, LLVMGetParam(fn, 1), l_mul(l, column.var, x.stride)), l_shl(l, row.var, 2));
    turn_rows(&x);
    turn_columns(&x);
    l_end_for(l, &column);
    l_end_for(l, &row);
    LLVMBuildRetVoid(l->b);
}
