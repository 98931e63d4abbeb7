/* pack and product at the tile level: what their verifier accepts and refuses, and their text. */
#include "tests/unit/tile_fixture.h"

/* A grouped product, g[r, f] = sum(h) x[token(r), h] * w[@r, h, f], and a launch that reads all of g. */
static const char program[] =
    "tiles 1\n"
    "\n"
    "dim T\n"
    "dim K\n"
    "dim E\n"
    "dim H\n"
    "dim F\n"
    "group R : E rows T*K\n"
    "\n"
    "kernel up(in x: bf16[T, H], in rt: route[T, K -> R], in w: bf16[E, H, F], in p: bf16[E, H, F] pairs, "
    "out y: f32[R, F]) {\n"
    "    cost T*K*H*F\n"
    "    fields rt.start, rt.count, rt.slot_of\n"
    "    work blocks: i64[T*K + E, 2]\n"
    "    work nblocks: i64[1]\n"
    "    work g: f32[R, F]\n"
    "    work wp: bf16[E, H, F] pairs\n"
    "    reg e: i64\n"
    "    reg r0: i64\n"
    "    reg r1: i64\n"
    "    thread xs: bf16[96, 256] lines\n"
    "    thread ws: bf16[256, 64] pairs\n"
    "    thread part: f32[96, 64]\n"
    "    launch valid @1 {\n"
    "        valid rt\n"
    "    }\n"
    "    launch blocks @1 {\n"
    "        blocks blocks, nblocks of rt by 96\n"
    "    }\n"
    "    launch wp @2 {\n"
    "        parallel i in 0..E {\n"
    "            parallel f0 in 0..F by 64 {\n"
    "                pack wp[i, 0, f0] over h in 0..H, f in f0..min2(f0 + 64, F) = w[i, h, f]\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    launch g @3 {\n"
    "        parallel v in 0..F by 64 {\n"
    "            parallel b in 0..nblocks[0] {\n"
    "                e = blocks[b, 0]\n"
    "                r0 = blocks[b, 1]\n"
    "                r1 = min2(r0 + 96, rt.start[e] + rt.count[e])\n"
    "                for i in 0..96 {\n"
    "                    vector f in 0..64 by 16 {\n"
    "                        part[i, f] = 0.0\n"
    "                    }\n"
    "                }\n"
    "                for s in 0..H by 256 @4 {\n"
    "                    pack xs[0, 0] over r in r0..r1, h in s..min2(s + 256, H) = x[idiv(rt.slot_of[r], "
    "K), h]\n"
    "                    pack ws[0, 0] over h in s..min2(s + 256, H), f in v..min2(v + 64, F) = w[e, h, f] "
    "@5\n"
    "                    product part[0, 0] += xs[0, 0] * ws[0, 0] rows r1 - r0 cols min2(v + 64, F) - v "
    "depth min2(s + 256, H) - s\n"
    "                    product part[0, 0] += xs[0, 0] * wp[e, s, v] rows r1 - r0 cols min2(v + 64, F) - v "
    "depth min2(s + 256, H) - s\n"
    "                    product part[0, 0] += xs[0, 0] * p[e, s, v] rows r1 - r0 cols min2(v + 64, F) - v "
    "depth min2(s + 256, H) - s\n"
    "                }\n"
    "                for r in r0..r1 {\n"
    "                    vector f in v..min2(v + 64, F) by 16 {\n"
    "                        g[r, f] = part[r - r0, f - v]\n"
    "                    }\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    launch y @6 {\n"
    "        parallel v in 0..F by 64 {\n"
    "            parallel b in 0..nblocks[0] {\n"
    "                e = blocks[b, 0]\n"
    "                r0 = blocks[b, 1]\n"
    "                r1 = min2(r0 + 96, rt.start[e] + rt.count[e])\n"
    "                for r in r0..r1 {\n"
    "                    vector f in v..min2(v + 64, F) by 16 {\n"
    "                        y[r, f] = g[r, F - 1 - f]\n"
    "                    }\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

typedef struct Edit {
    const char *from, *to; /* the first `from` becomes `to`; what follows it up to `until` goes too */
    const char *until;
    const char *says; /* NULL: accepted */
} Edit;

static const char *edited(Fixture *f, const char *text, const Edit *e)
{
    const char *at = strstr(text, e->from), *end = at ? at + strlen(e->from) : NULL;
    if (at && e->until)
        end = strstr(end, e->until);
    if (!at || !end)
        fail_msg("the program has no %s", e->from);
    return arena_printf(f->arena, "%.*s%s%s", (int)(at - text), text, e->to, end);
}

static void verify_edit(const char *text, const Edit *e)
{
    Fixture source = {.arena = arena_new()}, f;
    const char *now = edited(&source, text, e);
    if (read_text(&f, now))
        fail_msg("%s\n does not read: %s", e->to, diag_text(&f.diags, f.arena));
    const char *broken = tile_verify(f.module->kernels.at[0], f.arena);
    if (!broken != !e->says || (broken && !strstr(broken, e->says)))
        fail_msg("%s ==> %s\n wanted: %s\n got: %s", e->from, e->to, e->says ? e->says : "(accepted)",
                 broken ? broken : "(accepted)");
    arena_free(f.arena);
    arena_free(source.arena);
}

static void verify_edits(const char *text, const Edit *edits, size_t n)
{
    for (size_t i = 0; i < n; i++)
        verify_edit(text, &edits[i]);
}

#define VERIFY_EDITS(edits) verify_edits(program, (edits), sizeof(edits) / sizeof *(edits))

static void test_types_and_layouts(void **state)
{
    (void)state;
    static const Edit edits[] = {
        {"", "", NULL, NULL},
        {"thread xs: bf16", "thread xs: f32", NULL, NULL},
        {"ws: bf16[256, 64] pairs", "ws: f32[256, 64] pairs", NULL, "xs is bf16 and ws is f32: no target"},
        {"xs: bf16[96, 256] lines", "xs: bf16[96, 256] pairs", NULL,
         "the left operand xs has layout pairs; it must be"},
        {"xs: bf16[96, 256] lines", "xs: bf16[96, 256]", NULL,
         "the left operand xs is in rows and its terms, min2(s + 256, H) - s, are not known to be whole "
         "lines"},
        {"ws: bf16[256, 64] pairs", "ws: bf16[256, 64] lines", NULL, "the right operand ws has layout lines"},
        {"xs: bf16[96, 256] lines", "xs: f16[96, 256] lines", NULL, "is for f32 and bf16, not for f16"},
        {"in p: bf16", "in p: f16", NULL, "xs is bf16 and p is f16: no target"},
        {"part: f32[96, 64]", "part: bf16[96, 64]", NULL, "the sums part are bf16"},
        {"part: f32[96, 64]", "part: f32[96, 64] sums", NULL, NULL},
        {"part: f32[96, 64]", "part: f32[95, 64] sums", NULL, "is not known to fit 0..95"},
        {"ws: bf16[256, 64] pairs", "ws: bf16[256, 64] sums", NULL, "layout sums, which is for f32"},
        {"part: f32[96, 64]", "part: f32[96, 64] lines", NULL, "they must be f32, row-major"},
        {"part: f32[96, 64]", "part: f32[96, 72]", NULL,
         "axis 1 of the sums part is no constant multiple of 32"},
        {"part: f32[96, 64]", "part: f32[T, 64]", NULL,
         "axis 0 of the sums part is no constant multiple of 32"},
        {"out y: f32[R, F]", "out y: f32[R, F] pairs", NULL, NULL},
        {"= w[e, h, f] @5", "= f32(w[e, h, f]) @5", NULL, "of type f32 is packed into ws, which is bf16"},
        {"= w[e, h, f] @5", "= ws[0, 0] @5", NULL, "read before a statement of this launch writes it"},
    };
    VERIFY_EDITS(edits);
}

/* A left operand that is rows of the thread's memory. */
static void test_left_rows(void **state)
{
    (void)state;
    static const char rows[] =
        "tiles 1\n"
        "\n"
        "dim T\n"
        "dim F\n"
        "\n"
        "kernel left(in x: bf16[T, 64], in w: bf16[64, F], out y: f32[T, F]) {\n"
        "    cost T*F\n"
        "    thread rows: bf16[64, 96]\n"
        "    thread ws: bf16[64, 32] pairs\n"
        "    thread part: f32[64, 32]\n"
        "    launch y @1 {\n"
        "        parallel t in 0..T by 64 {\n"
        "            for i in 0..64 {\n"
        "                vector h in 0..64 by 16 {\n"
        "                    rows[i, h] = bf16(1.0)\n"
        "                }\n"
        "            }\n"
        "            for v in 0..F by 32 {\n"
        "                pack ws[0, 0] over h in 0..64, f in v..min2(v + 32, F) = w[h, f]\n"
        "                product part[0, 0] += rows[0, 0] * ws[0, 0] rows min2(t + 64, T) - t cols min2(v + "
        "32, F) - v "
        "depth 64 init 0 == 0\n"
        "                for i in t..min2(t + 64, T) {\n"
        "                    vector f in v..min2(v + 32, F) by 16 {\n"
        "                        y[i, f] = part[i - t, f - v]\n"
        "                    }\n"
        "                }\n"
        "            }\n"
        "        }\n"
        "    }\n"
        "}\n";
    static const Edit edits[] = {
        {"", "", NULL, NULL},
        {"rows[0, 0]", "rows[0, 32]", NULL, NULL},
        {"rows[0, 0]", "rows[8, 0]", NULL, "subscript 8 of rows is not known to be a multiple of 32"},
        {"rows[0, 0]", "rows[32, 0]", NULL, "a block at 32 of axis 0 of rows"},
        {"depth 64", "depth 48", NULL, "its terms, 48, are not known to be whole lines"},
        {"rows: bf16[64, 96]", "rows: bf16[65, 96]", NULL, "with a multiple of 32 rows"},
        {"rows: bf16[64, 96]", "rows: f32[64, 96]", NULL, "no bf16 memory of a thread"},
        {"rows[0, 0]", "x[0, 0]", NULL, "no bf16 memory of a thread"},
    };
    verify_edits(rows, edits, sizeof edits / sizeof *edits);
}

/* A left operand that is rows of an input. */
static void test_left_input(void **state)
{
    (void)state;
    static const char rows[] = "tiles 1\n"
                               "\n"
                               "dim T\n"
                               "dim H\n"
                               "dim F\n"
                               "\n"
                               "kernel left(in x: f32[T, H], in w: f32[H, F], out y: f32[T, F]) {\n"
                               "    cost T*H*F\n"
                               "    work ws: f32[H, F] pairs\n"
                               "    launch ws @1 {\n"
                               "        parallel u in 0..H by 32 {\n"
                               "            pack ws[u, 0] over h in u..min2(u + 32, H), f in 0..F = w[h, f]\n"
                               "        }\n"
                               "    }\n"
                               "    launch y @1 {\n"
                               "        parallel t in 0..T by 32 {\n"
                               "            product y[t, 0] += x[t, 0] * ws[0, 0] rows min2(t + 32, T) - t "
                               "cols F depth idiv(H, 32) * 32 init 0 == 0\n"
                               "        }\n"
                               "    }\n"
                               "}\n";
    static const Edit edits[] = {
        {"", "", NULL, NULL},
        {"idiv(H, 32) * 32", "if(F <= 256, idiv(H, 32) * 32, 0)", NULL, NULL},
        {"idiv(H, 32) * 32", "H", NULL, "its terms, H, are not known to be whole lines"},
        {"idiv(H, 32) * 32", "if(F <= 256, H, 0)", NULL, "are not known to be whole lines"},
        {"in x: f32[T, H]", "inout x: f32[T, H]", NULL, "is no f32 input"},
        {"in x: f32[T, H]", "in x: f16[T, H]", NULL, "is no f32 input"},
        {"in w: f32[H, F]",
         "in w: bf16[H, F], out y: f32[T, F]) {\n    cost T*H*F\n    work ws: bf16[H, F] pairs",
         "\n    launch ws", "is in rows, but ws is no panel of its type"},
        {"* ws[0, 0]", "* w[0, 0]", NULL, "is in rows, but w is no panel of its type"},
    };
    verify_edits(rows, edits, sizeof edits / sizeof *edits);
}

/* A right operand that is rows of memory, with an axis between its two, and a box that may be empty. */
static void test_axes_apart(void **state)
{
    (void)state;
    static const char apart[] =
        "tiles 1\n"
        "\n"
        "dim T\n"
        "dim N\n"
        "dim F\n"
        "\n"
        "kernel apart(in x: bf16[T, 64], in w: bf16[64, N, F], in p: bf16[64, F] pairs, inout z: bf16[64, N, "
        "F], out y: f32[T, F]) {\n"
        "    cost T*F\n"
        "    thread xs: bf16[64, 64] lines\n"
        "    thread part: f32[64, 32]\n"
        "    launch y @1 {\n"
        "        parallel t in 0..T by 64 {\n"
        "            for v in 0..F by 32 {\n"
        "                pack xs[0, 0] over i in t..if(T < 8, t, min2(t + 64, T)), h in 0..64 = x[i, h]\n"
        "                product part[0, 0] += xs[0, 0] * w[0, 1, v] apart 1 rows min2(t + 64, T) - t cols "
        "min2(v + 32, F) - v depth 64 init 0 == 0\n"
        "                for i in t..min2(t + 64, T) {\n"
        "                    vector f in v..min2(v + 32, F) by 16 {\n"
        "                        y[i, f] = part[i - t, f - v]\n"
        "                    }\n"
        "                }\n"
        "            }\n"
        "        }\n"
        "    }\n"
        "}\n";
    static const Edit edits[] = {
        {"", "", NULL, NULL},
        {"v] apart 1", "v] transposed apart 1", NULL, NULL},
        {"w[0, 1, v] apart 1", "z[0, 1, v] apart 1", NULL,
         "the axes of the right operand z stand apart, and it is no input"},
        {"v] apart 1", "v] apart 2", NULL, "no matrix in memory"},
        {"w[0, 1, v] apart 1", "p[0, v] apart 1", NULL, "it must be rows"},
        {"if(T < 8, t, ", "if(T < 8, t + 65, ", NULL, "is not known to fit 0..64"},
        {"min2(t + 64, T)), h", "min2(t + 65, T)), h", NULL, "is not known to fit 0..64"},
    };
    verify_edits(apart, edits, sizeof edits / sizeof *edits);
}

static void test_places(void **state)
{
    (void)state;
    static const Edit edits[] = {
        {"pack xs[0, 0]", "pack xs[0, 8]", NULL, "subscript 8 of xs is not known to be a multiple of 32"},
        {"pack ws[0, 0]", "pack ws[0, 16]", NULL, "subscript 16 of ws is not known to be a multiple of 32"},
        {"pack ws[0, 0]", "pack ws[16, 0]", NULL, "subscript 16 of ws is not known to be a multiple of 32"},
        {"* ws[0, 0]", "* ws[0, 8]", NULL, "subscript 8 of ws is not known"},
        {"product part[0, 0]", "product part[0, 16]", NULL, "subscript 16 of part is not known"},
        {"wp[e, s, v]", "wp[e, s, r0]", NULL, "subscript r0 of wp is not known to be a multiple of 32"},
        {"for s in 0..H by 256", "for s in 8..H by 256", NULL, "subscript s of wp is not known"},
        {"wp[i, 0, f0]", "wp[i, 0]", NULL, "has 3 axes and 2 subscripts"},
        {"pack ws[0, 0]", "pack w[0, 0, 0]", NULL, "the panel w is an input"},
        {"xs[0, 0] * ws", "xs[e - e, 0] * ws", NULL, NULL},
        {"xs[0, 0] * ws", "xs[e, 0] * ws", NULL, "a block at e of axis 0 of xs"},
        {"pack xs[0, 0]", "pack xs[-32, 0]", NULL, "a block at -32 of axis 0 of xs"},
    };
    VERIFY_EDITS(edits);
}

static void test_boxes(void **state)
{
    (void)state;
    static const Edit edits[] = {
        {"r in r0..r1, h", "r in r0..r1 + 1, h", NULL, "is not known to fit 0..96"},
        {"r1 = min2(r0 + 96,", "r1 = min2(r0 + 128,", NULL,
         "a block at 0 of axis 0 of xs, r1 - r0 elements long"},
        {"r1 = min2(r0 + 96,", "r1 = min2(r0 + 64,", NULL, NULL},
        {"h in s..min2(s + 256, H) = x", "h in s..H = x", NULL,
         "axis 1 of xs, H - s elements long, is not known"},
        {"thread ws: bf16[256, 64]", "thread ws: bf16[128, 64]", NULL, "axis 0 of ws"},
        {"rows r1 - r0 cols", "rows 128 cols", NULL, "a block at 0 of axis 0 of part, 128 elements"},
        {"depth min2(s + 256, H) - s", "depth 256", NULL, NULL},
        {"depth min2(s + 256, H) - s\n                    product part[0, 0] += xs[0, 0] * p",
         "depth 256\n                    product part[0, 0] += xs[0, 0] * p", NULL, "axis 1 of wp"},
        {"wp[e, s, v] rows r1 - r0 cols min2(v + 64, F) - v", "wp[e, s, v] rows r1 - r0 cols 64", NULL,
         "axis 2 of wp"},
        {"f in f0..min2(f0 + 64, F) = w[i", "f in f0..f0 + 64 = w[i", NULL, "axis 2 of wp"},
        {"over r in r0..r1, h in s", "over r in r0..r1, h in r", NULL, "variable r is used outside its loop"},
        {"rows r1 - r0 cols", "rows xs[0, 0] cols", NULL, NULL},
    };
    verify_edits(program, edits, sizeof edits / sizeof *edits - 1); /* the last one is for the reader */
    Fixture source = {.arena = arena_new()}, f;
    assert_int_equal(read_text(&f, edited(&source, program, &edits[sizeof edits / sizeof *edits - 1])), 1);
    arena_free(f.arena);
    arena_free(source.arena);
}

/* What `if lo < hi` says of lo..hi holds in its body, and nowhere else. */
static const char guarded[] =
    "tiles 1\n"
    "\n"
    "dim H\n"
    "\n"
    "kernel copy(in w: bf16[H, 32], in n: i32[1], out y: f32[1]) {\n"
    "    cost H\n"
    "    thread kept: bf16[H, 32] pairs\n"
    "    reg end: i64\n"
    "    launch y @1 {\n"
    "        end = min2(H, n[0])\n"
    "        if 0 < end {\n"
    "            for s in min2(end, 8)..end by 512 {\n"
    "                pack kept[idiv(s, 32) * 32, 0] over h in s..min2(s + 512, end), f in 0..32 = w[h, f]\n"
    "            }\n"
    "        }\n"
    "        y[0] = 0.0\n"
    "    }\n"
    "}\n";

static void test_conditions(void **state)
{
    (void)state;
    static const char says[] = "a block at idiv(s, 32) * 32 of axis 0 of kept";
    static const Edit edits[] = {
        {"", "", NULL, NULL},
        {"if 0 < end {", "if 0 < end { for i in 0..4 { y[0] = 1.0 }", NULL, NULL},
        {"if 0 < end", "if end < 8", NULL, says},
        {"if 0 < end", "if 0 <= end", NULL, says},
        {"if 0 < end {", "if 0 < end { y[0] = 1.0 } if end < 8 {", NULL, says},
        {"min2(end, 8)..end", "min2(end - 1, 8)..end", NULL, NULL},
        {"min2(end, 8)..end", "min2(end - 2, 8)..end", NULL, says},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
        verify_edit(guarded, &edits[i]);
}

static void test_where_they_stand(void **state)
{
    (void)state;
    static const Edit edits[] = {
        {"part[i, f] = 0.0", "pack xs[0, 0] over r in 0..1, h in 0..1 = x[0, 0]", NULL,
         "must not stand in a vector loop"},
        {"for i in 0..96 {",
         "unroll j in 0..2 { pack xs[0, 0] over r in 0..1, h in 0..1 = x[0, 0] } for i in 0..96 {", NULL,
         "must not stand in an unroll loop"},
    };
    VERIFY_EDITS(edits);
}

/* Taking away what fills a buffer; taking away a barrier. */
static void test_deletions(void **state)
{
    (void)state;
    static const Edit edits[] = {
        {"pack xs", "", "pack ws", "xs is read before a statement of this launch writes it"},
        {"pack ws", "", "product", "ws is read before a statement of this launch writes it"},
        {"pack wp", "", "}", "wp is read before any statement writes it"},
        {"part[i, f] = 0.0", "", "}", "part is read before a statement of this launch writes it"},
        {"valid rt", "", "}", "route rt is read before an earlier launch checks it"},
        {"    }\n    launch blocks @1 {", "", NULL, "before the end of the launch that checks it"},
        {"blocks blocks, nblocks of rt by 96", "", "}", "nblocks is read before any statement writes it"},
        {"r0 = blocks[b, 1]", "", "r1", "r0 is read before"},
        {"g[r, f] = part[r - r0, f - v]", "", "}", "g is read before any statement writes it"},
        {"y[r, f] = g[r, F - 1 - f]", "", "}", "nothing has written its output y"},
        {"launch y", "", "parallel", "expected"},
    };
    verify_edits(program, edits, sizeof edits / sizeof *edits - 1);
}

/* The body of launch y goes behind that of launch g. */
static const Edit merge = {"            }\n        }\n    }\n    launch y", "", "for r in r0..r1", NULL};

static void test_barrier(void **state)
{
    (void)state;
    Fixture source = {.arena = arena_new()};
    const char *merged = edited(&source, program, &merge);
    static const Edit edits[] = {
        {"", "", NULL,
         "it may read the element of g that the store statement of line 3 writes in another item of loop v"},
        {"g[r, F - 1 - f]", "g[r, f]", NULL, NULL},
        {"g[r, F - 1 - f]", "g[min2(r, r1 + -1), f]", NULL, NULL},
        {"g[r, F - 1 - f]", "g[min2(r + 1, r1 + -1), f]", NULL, NULL},
        {"g[r, F - 1 - f]", "g[r + 1, f]", NULL, "in another item of loop b"},
        {"g[r, F - 1 - f]", "g[0, f]", NULL, "in another item of loop b"},
        {"g[r, F - 1 - f]", "g[r, min2(f + 64, F - 1)]", NULL, "in another item of loop v"},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
        verify_edit(merged, &edits[i]);
    static const Edit overlap = {"by 96\n", "by 64\n", NULL,
                                 "in another item of loop b"}; /* blocks of r0..r0 + 96 */
    verify_edit(edited(&source, merged, &edits[1]), &overlap);
    /* Blocks of an expert have the same first row, and a condition is no loop over rows of its own. */
    static const Edit loop = {"for r in r0..r1", "if rt.start[e] < T*K", NULL, NULL},
                      write = {"g[r, f] = part[r - r0, ", "g[rt.start[e], f] = part[0, ", NULL, NULL},
                      read = {"y[r, f] = g[r, F - 1 - f]", "y[rt.start[e], f] = g[rt.start[e], f]", NULL,
                              "in another item of loop b"};
    const char *first = edited(&source, edited(&source, merged, &loop), &loop);
    verify_edit(edited(&source, first, &write), &read);
    arena_free(source.arena);
}

/* Panels and sums in work space. */
static void test_shared_blocks(void **state)
{
    (void)state;
    static const Edit edits[] = {
        {"wp[i, 0, f0]", "wp[0, 0, f0]", NULL,
         "two items of parallel loop i may write to the same element of wp"},
        {"parallel f0 in 0..F by 64", "parallel f0 in 0..F by 32", NULL, "two items of parallel loop f0"},
        {"parallel f0 in 0..F by 64", "parallel f0 in 0..F by 128", NULL, NULL},
        {"parallel f0 in 0..F by 64", "for f0 in 0..F by 32", NULL, NULL},
        {"thread part: f32[96, 64]", "work part: f32[96, 64]", NULL, "two items of a parallel loop"},
    };
    VERIFY_EDITS(edits);
}

/* Sums of a group's rows in their elements. */
#define PRODUCT "product part[0, 0] += xs[0, 0] * ws[0, 0] rows r1 - r0 cols min2(v + 64, F) - v"
#define IN_ROWS(place, rows) \
    "product g[" place ", v] += xs[0, 0] * ws[0, 0] rows " rows " cols min2(v + 64, F) - v"

static void test_rows_of_groups(void **state)
{
    (void)state;
    static const Edit edits[] = {
        {PRODUCT, IN_ROWS("r0", "r1 - r0"), NULL, "g is read before any statement writes it"},
        {"for i in 0..96 {",
         "for r in r0..r1 { vector f in v..min2(v + 64, F) by 16 { g[r, f] = 0.0 } } for i in 0..96 {", NULL,
         NULL},
    };
    static const Edit rows[] = {
        {PRODUCT, IN_ROWS("r0", "r1 - r0"), NULL, NULL},
        {PRODUCT, IN_ROWS("r0", "r1 - r0 + 1"), NULL, "is not known to fit 0..T*K"},
        {PRODUCT, IN_ROWS("r0 + 1", "r1 - r0"), NULL, "is not known to fit 0..T*K"},
        {PRODUCT, IN_ROWS("r0 - 1", "r1 - r0"), NULL, "is not known to fit 0..T*K"},
        {PRODUCT, IN_ROWS("r0", "min2(r0 + 96, rt.start[e] + rt.count[0]) - r0"), NULL,
         "is not known to fit 0..T*K"},
        {PRODUCT, IN_ROWS("r0", "min2(r0 + 96, T*K) - r0"), NULL, "two items of parallel loop b"},
        {PRODUCT, IN_ROWS("rt.start[e]", "min2(rt.count[e], 96)"), NULL, "two items of parallel loop b"},
    };
    Fixture source = {.arena = arena_new()};
    verify_edits(program, edits, 2);
    const char *zeroed = edited(&source, program, &edits[1]);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        verify_edit(zeroed, &rows[i]);
    arena_free(source.arena);
}

/* ---- text ---- */

static void test_text(void **state)
{
    (void)state;
    Fixture f;
    assert_int_equal(read_text(&f, program), 0);
    assert_string_equal(printed(&f), program);
    arena_free(f.arena);
}

static void test_bad_text(void **state)
{
    (void)state;
    static const Edit edits[] = {
        {"over r in", "r in", NULL, ""},
        {"r0..r1, h in", "r0..r1 h in", NULL, ""},
        {"r in r0..r1, ", "", NULL, ""},
        {"= x[idiv", "+= x[idiv", NULL, ""},
        {"+= xs[0, 0]", "= xs[0, 0]", NULL, ""},
        {"xs[0, 0] * ws[0, 0]", "xs[0, 0]", NULL, ""},
        {"* ws[0, 0]", "* 2", NULL, ""},
        {"* ws[0, 0]", "* (ws[0, 0])", NULL, ""},
        {"rows r1 - r0", "", NULL, ""},
        {"cols min2", "columns min2", NULL, ""},
        {"rows r1", "rows 0.5 + r1", NULL, ""},
        {"pack xs[0, 0]", "pack no[0, 0]", NULL, ""},
        {"[96, 256] lines", "[96, 256] line", NULL, ""},
        {"reg e: i64", "reg e: i64 pairs", NULL, ""},
        {"xs[0, 0] * ws", "xs[0] * ws", NULL, ""},
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        Fixture source = {.arena = arena_new()}, f;
        if (!read_text(&f, edited(&source, program, &edits[i])))
            fail_msg("accepted: %s ==> %s", edits[i].from, edits[i].to);
        assert_int_equal(f.diags.errors, 1);
        arena_free(f.arena);
        arena_free(source.arena);
    }
}

/* Damaged text never crashes: each position of the launch with the products loses or gains something. What still reads
 * must verify or be refused, and print. */
static void survive(const char *text)
{
    Fixture f;
    if (!read_text(&f, text)) {
        (void)tile_verify(f.module->kernels.at[0], f.arena);
        assert_non_null(printed(&f));
    }
    arena_free(f.arena);
}

static void test_damage(void **state)
{
    (void)state;
    static const char *const pieces[] = {"",  "0",     "r1",       ", ",    "..", "[",
                                         "]", "pack ", "product ", "lines", "-"};
    const char *from = strstr(program, "thread xs"), *to = strstr(program, "launch y");
    size_t step = 3, piece = 0;
    Arena *arena = arena_new();
    for (const char *at = from; at < to; at += step, piece++) {
        for (size_t cut = 0; cut < 4; cut += 3) {
            const char *in = pieces[piece % (sizeof pieces / sizeof *pieces)];
            survive(arena_printf(arena, "%.*s%s%s", (int)(at - program), program, in, at + cut));
        }
    }
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_and_layouts),
        cmocka_unit_test(test_left_rows),
        cmocka_unit_test(test_left_input),
        cmocka_unit_test(test_axes_apart),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_where_they_stand),
        cmocka_unit_test(test_deletions),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_shared_blocks),
        cmocka_unit_test(test_rows_of_groups),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
