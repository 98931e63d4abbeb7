/* Products of bf16 by AMX tiles, and the same in plain code.
 *
 * A tile product takes 32 terms at a time: for each element the sum of the even terms and that of the odd
 * ones, each from zero and each term added with one rounding, and then the element plus the sum of the
 * two. Numbers below the normal range count as zero, in operands and results. */
#include "backend/emit_product.h"

enum { TILE_ROWS = 16, TILE_BYTES = 64, TILE_UNITS = 16, TILES = 2 };

/* ---- AMX ---- */

static V load_by(L *l, const char *intrinsic, V at, V stride)
{
    Ty i16 = l->i16;
    V args[4] = {l_int(i16, TILE_ROWS), l_int(i16, TILE_BYTES), at, stride};
    return l_intrinsic(l, intrinsic, NULL, args, 4);
}

static V tile_load(L *l, V at, V stride) { return load_by(l, "llvm.x86.tileloadd64.internal", at, stride); }

/* Of what is read once: it passes the first cache by. */
static V tile_stream(L *l, V at, V stride)
{
    return load_by(l, "llvm.x86.tileloaddt164.internal", at, stride);
}

static void tile_store(L *l, V at, V stride, V tile)
{
    Ty i16 = l->i16;
    V args[5] = {l_int(i16, TILE_ROWS), l_int(i16, TILE_BYTES), at, stride, tile};
    l_intrinsic(l, "llvm.x86.tilestored64.internal", NULL, args, 5);
}

static V tile_zero(L *l)
{
    V args[2] = {l_int(l->i16, TILE_ROWS), l_int(l->i16, TILE_BYTES)};
    return l_intrinsic(l, "llvm.x86.tilezero.internal", NULL, args, 2);
}

static V tile_product(L *l, V sum, V left, V right)
{
    Ty i16 = l->i16;
    V args[6] = {l_int(i16, TILE_ROWS), l_int(i16, TILE_BYTES), l_int(i16, TILE_BYTES), sum, left, right};
    return l_intrinsic(l, "llvm.x86.tdpbf16ps.internal", NULL, args, 6);
}

static V tile_of_sums(L *l, V c, V c_row, int i)
{
    V row = l_mul(l, c_row, l_i64(l, i / TILES * TILE_ROWS));
    return l_byte(l, l_byte(l, c, row), l_i64(l, i % TILES * TILE_BYTES));
}

/* 2 x 2 tiles of sums: 4 loads for 4 products. The panel stays in the first cache, lines pass it by. What comes next is asked
 * for as terms go by: in each step some rows of the sums that come next, those below or, where terms are few and sums may come
 * from memory, in the next columns; and where the right operand may be there, of 32 lines of x->next those that fall to this
 * fragment. (Of many lines that are asked for at once a CPU forgets half.)
 *
 * Note [Few registers]. Whatever a loop loads from the stack waits for stores of sums before it, which are in so many places that
 * their low bits are alike: so a loop has few values, and no counter. */
enum { STEP_BYTES = TILE_UNITS * ROW_OF_WORDS, CHUNK_BYTES = 256, CHUNKS = STEP_BYTES / CHUNK_BYTES };
enum { TILE_FRAGMENT_ROWS = TILES * TILE_ROWS };
typedef struct TileFragment {
    EmitProduct *x;
    V b, units;
    V c, a;             /* its sums and lines */
    int init;           /* the sums begin at zero */
    int alone;          /* there are no other rows: lines stay in the first cache, the panel passes it by */
    V sums, sum_rows;   /* those that come next, and how many rows of them a step asks for */
    V chunk, chunk_end; /* what is asked for of each step from x->next on */
} TileFragment;

/* A step's lines of what comes next go in chunks of four: of a transposed operand two columns' lines of a part. */
static V chunk_at(const EmitProduct *x, V step, V chunk)
{
    L *l = x->l;
    V bytes = l_i64(l, CHUNK_BYTES);
    if (!x->transposed)
        return l_byte(l, step, l_mul(l, chunk, bytes));
    V column = l_mul(l, l_sar(l, chunk, 2), x->b_panel);
    return l_byte(l, l_byte(l, step, column), l_mul(l, l_and(l, chunk, l_i64(l, 3)), bytes));
}

static V next_step(const EmitProduct *x, V step)
{
    L *l = x->l;
    return l_byte(l, step, x->transposed ? l_shl(l, x->b_panel, 1) : l_i64(l, STEP_BYTES));
}

static void ask_next(const TileFragment *f, V step, V *sums)
{
    EmitProduct *x = f->x;
    L *l = x->l;
    For pair = l_for(l, l_i64(l, 0), f->sum_rows, 2, "sums");
    LoopCarry carry = l_carry(l, &pair, sums, 1);
    for (int r = 0; r < 2; r++, *sums = l_byte(l, *sums, x->c_row))
        for (int i = 0; i < TILES; i++)
            emit_ask_near(l, l_byte(l, *sums, l_i64(l, i * TILE_BYTES)));
    l_carried(l, &pair, &carry);
    For chunk = l_for(l, f->chunk, f->chunk_end, 1, "ask");
    for (int byte = 0; byte < CHUNK_BYTES; byte += LAYOUT_LINE_BYTES)
        emit_ask(l, l_byte(l, chunk_at(x, step, chunk.var), l_i64(l, byte)));
    l_end_for(l, &chunk);
}

static void tile_step(const TileFragment *f, V a, V b, V *sum)
{
    L *l = f->x->l;
    V left[TILES], right[TILES], line = f->x->a_row;
    for (int i = 0; i < TILES; i++) {
        V lines = l_byte(l, a, l_mul(l, line, l_i64(l, i * TILE_ROWS)));
        V words = l_byte(l, b, l_i64(l, i * TILE_BYTES));
        left[i] = f->alone ? tile_load(l, lines, line) : tile_stream(l, lines, line);
        right[i] = (f->alone ? tile_stream : tile_load)(l, words, l_i64(l, ROW_OF_WORDS));
    }
    for (int i = 0; i < TILES * TILES; i++)
        sum[i] = tile_product(l, sum[i], left[i / TILES], right[i % TILES]);
}

static void tile_fragment(const TileFragment *f)
{
    EmitProduct *x = f->x;
    L *l = x->l;
    enum { SUMS = TILES * TILES, A = SUMS, ASKED, NEXT, CARRIED };
    V now[CARRIED] = {[A] = f->a, [ASKED] = f->sums, [NEXT] = x->next};
    for (int i = 0; i < SUMS; i++)
        now[i] = f->init ? tile_zero(l) : tile_load(l, tile_of_sums(l, f->c, x->c_row, i), x->c_row);
    V first = LLVMBuildPtrToInt(l->b, f->b, l->i64, "");
    For at =
        l_for(l, first, l_add(l, first, l_mul(l, f->units, l_i64(l, ROW_OF_WORDS))), STEP_BYTES, "terms");
    LoopCarry carry = l_carry(l, &at, now, CARRIED);
    V b = LLVMBuildIntToPtr(l->b, at.var, l->ptr, "");
    ask_next(f, now[NEXT], &now[ASKED]);
    tile_step(f, now[A], b, now);
    now[A] = l_byte(l, now[A], x->a_block);
    now[NEXT] = next_step(x, now[NEXT]);
    l_carried(l, &at, &carry);
    for (int i = 0; i < SUMS; i++)
        tile_store(l, tile_of_sums(l, f->c, x->c_row, i), x->c_row, now[i]);
}

/* Fragments below each other, that many rows. */
static void tile_rows(const TileFragment *top, V rows)
{
    EmitProduct *x = top->x;
    L *l = x->l;
    enum { C, A, CHUNK, CARRIED };
    V height = l_i64(l, TILE_FRAGMENT_ROWS), zero = l_i64(l, 0), now[CARRIED] = {top->c, top->a, zero};
    V down = l_mul(l, x->c_row, height), below = l_select(l, l_icmp(l, LLVMIntSGT, rows, height), down, zero);
    V fragments = l_bin(l, LLVMUDiv, rows, height), one = l_i64(l, 1);
    V steps = l_max(l, l_sar(l, top->units, 4), one), most = l_i64(l, TILE_FRAGMENT_ROWS / 2);
    V few = l_icmp(l, LLVMIntSLT, steps, most), sums = l_select(l, few, x->coming, below);
    V sum_rows = l_bin(l, LLVMUDiv, l_sub(l, l_add(l, height, steps), one), steps);
    sum_rows = l_select(l, l_and(l, few, l_not(l, x->exact)), zero, sum_rows);
    V share = l_bin(l, LLVMUDiv, l_sub(l, l_add(l, l_i64(l, CHUNKS), fragments), one), fragments);
    share = l_select(l, x->far, share, zero);
    For r = l_for(l, zero, rows, TILE_FRAGMENT_ROWS, "rows");
    LoopCarry carry = l_carry(l, &r, now, CARRIED);
    TileFragment f = *top;
    f.c = now[C];
    f.a = now[A];
    f.sums = l_byte(l, f.c, sums);
    f.sum_rows = sum_rows;
    f.chunk = now[CHUNK];
    f.chunk_end = l_add(l, f.chunk, share);
    tile_fragment(&f);
    now[C] = l_byte(l, now[C], down);
    now[A] = l_byte(l, now[A], l_mul(l, x->a_row, height));
    now[CHUNK] = l_and(l, f.chunk_end, l_i64(l, CHUNKS - 1));
    l_carried(l, &r, &carry);
}

void emit_tile_rows(EmitProduct *x, V rows, V c, V a, V b, V units)
{
    L *l = x->l;
    TileFragment top = {.x = x, .b = b, .units = units, .c = c, .a = a};
    V height = l_i64(l, TILE_FRAGMENT_ROWS), more = l_icmp(l, LLVMIntSGT, rows, height);
    V one = l_icmp(l, LLVMIntEQ, rows, height);
    for (int way = 0; way < 4; way++) {
        top.init = way & 1;
        top.alone = way >> 1;
        V init = top.init ? x->init : l_not(l, x->init);
        When w = l_when(l, l_and(l, top.alone ? one : more, init));
        tile_rows(&top, top.alone ? height : rows);
        l_end_when(l, &w);
    }
}

void emit_tile_fragment(EmitProduct *x, uint32_t rows, V c, V a, V b, V units)
{
    L *l = x->l;
    if (rows != TILE_FRAGMENT_ROWS || emit_product_width(x) != LAYOUT_EDGE)
        BUG(l->arena, "backend: a fragment of tiles of %u rows", rows);
    emit_tile_rows(x, l_i64(l, rows), c, a, b, units);
}

static void clear(EmitProduct *x, uint32_t rows, V c, int64_t bytes)
{
    L *l = x->l;
    V nothing = l_real(LLVMVectorType(l->f32, x->lanes), 0.0);
    For r = l_for(l, l_i64(l, 0), l_i64(l, rows), 1, "row");
    For v = l_for(l, l_i64(l, 0), l_i64(l, x->vectors * bytes), bytes, "vector");
    l_store(l, nothing, l_byte(l, l_byte(l, c, l_mul(l, r.var, x->c_row)), v.var), 4);
    l_end_for(l, &v);
    l_end_for(l, &r);
}

/* ---- few rows ---- */

static V strip_sums(EmitProduct *x, V c, int tile) { return l_byte(x->l, c, l_i64(x->l, tile * TILE_BYTES)); }

void emit_tile_strip_begin(EmitProduct *x, V c, V *sum)
{
    L *l = x->l;
    When at_zero = l_when(l, x->init);
    for (int panel = 0; panel < TILE_STRIP / TILES; panel++)
        clear(x, TILE_FEW_ROWS, strip_sums(x, c, panel * TILES), (int64_t)x->lanes * LAYOUT_WORD_BYTES);
    l_end_when(l, &at_zero);
    for (int i = 0; i < TILE_STRIP; i++)
        sum[i] = tile_load(l, strip_sums(x, c, i), x->c_row);
}

void emit_tile_strip_step(EmitProduct *x, V a, V panel, int64_t other, V *sum)
{
    L *l = x->l;
    V left = tile_load(l, a, x->a_row);
    for (int i = 0; i < TILE_STRIP; i++) {
        V words = l_byte(l, panel, l_i64(l, i / TILES * other + i % TILES * TILE_BYTES));
        sum[i] = tile_product(l, sum[i], left, tile_load(l, words, l_i64(l, ROW_OF_WORDS)));
    }
}

void emit_tile_strip_end(EmitProduct *x, V c, V *sum)
{
    for (int i = 0; i < TILE_STRIP; i++)
        tile_store(x->l, strip_sums(x, c, i), x->c_row, sum[i]);
}

/* ---- plain code ---- */

/* Zero, with the sign, for what is below the normal numbers. */
static V flushed(L *l, V v)
{
    V bits = l_bits(l, v, l->i32);
    Ty t = LLVMTypeOf(bits);
    V small = l_icmp(l, LLVMIntEQ, l_and(l, bits, l_int(t, 0x7f800000)), l_int(t, 0));
    return l_bits(l, l_select(l, small, l_and(l, bits, l_int(t, INT32_MIN)), bits), l->f32);
}

static V half_of(L *l, V word, int odd)
{
    V bits = odd ? l_and(l, word, l_int(LLVMTypeOf(word), -65536)) : l_shl(l, word, 16);
    return flushed(l, l_bits(l, bits, l->f32));
}

/* The product of two bf16 is exact in f32, so a product and a sum round once, like a fused one: but for
 * products outside the range of f32. */
static V add_flushed(L *l, V sum, V left, V right)
{
    return flushed(l, l_fadd(l, sum, l_fmul(l, left, right)));
}

/* One row of one vector of sums: 32 terms. */
static void soft_step(EmitProduct *x, V c, V a, V b)
{
    L *l = x->l;
    Ty type = LLVMVectorType(l->f32, x->lanes), words = LLVMVectorType(l->i32, x->lanes);
    V sum[2] = {l_real(type, 0.0), l_real(type, 0.0)};
    For k = l_for(l, l_i64(l, 0), l_i64(l, TILE_UNITS), 1, "pair");
    LoopCarry sums = l_carry(l, &k, sum, 2);
    V left = l_splat(l, l_load(l, l->i32, l_byte(l, a, l_shl(l, k.var, 2)), 4), x->lanes);
    V right = l_load(l, words, l_byte(l, b, l_mul(l, k.var, l_i64(l, ROW_OF_WORDS))), 4);
    for (int odd = 0; odd < 2; odd++)
        sum[odd] = add_flushed(l, sum[odd], half_of(l, left, odd), half_of(l, right, odd));
    l_carried(l, &k, &sums);
    V old = flushed(l, l_load(l, type, c, 4));
    V both = flushed(l, l_fadd(l, sum[0], sum[1]));
    l_store(l, flushed(l, l_fadd(l, old, both)), c, 4);
}

void emit_soft_fragment(EmitProduct *x, uint32_t rows, V c, V a, V b, V units)
{
    L *l = x->l;
    int64_t bytes = (int64_t)x->lanes * LAYOUT_WORD_BYTES;
    When at_zero = l_when(l, x->init);
    clear(x, rows, c, bytes);
    l_end_when(l, &at_zero);
    For k = l_for(l, l_i64(l, 0), units, TILE_UNITS, "terms");
    V from = l_byte(l, a, l_mul(l, l_sar(l, k.var, 4), x->a_block));
    V words = l_byte(l, b, l_mul(l, k.var, l_i64(l, ROW_OF_WORDS)));
    For r = l_for(l, l_i64(l, 0), l_i64(l, rows), 1, "row");
    V sums = l_byte(l, c, l_mul(l, r.var, x->c_row));
    V line = l_byte(l, from, l_mul(l, r.var, x->a_row));
    For v = l_for(l, l_i64(l, 0), l_i64(l, x->vectors * bytes), bytes, "vector");
    soft_step(x, l_byte(l, sums, v.var), line, l_byte(l, words, v.var));
    l_end_for(l, &v);
    l_end_for(l, &r);
    l_end_for(l, &k);
}
