/* Schedules: what clauses are refused, what they print as, what passes are told, what is reported. */
#include "driver/pipeline.h"
#include "frontend/frontend.h"
#include "passes/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char program[] =
    "moe 1\n"
    "dim T, H, F\n"
    "kernel f(in x: bf16[T, H], in w: bf16[H, F], out y: bf16[T, F], out z: f32[T]) {\n"
    "  g[t, f] = sum(h) x[t, h] * w[h, f]\n"
    "  a[t, f] = gelu(g[t, f])\n"
    "  y[t, f] = bf16(a[t, f] + g[t, f])\n"
    "  z[t] = sum(f) a[t, f]\n"
    "}\n"
    "derive (f_fwd, f_bwd) from f wrt x, w save g as bf16\n";

typedef struct Read {
    Arena *arena;
    Diags diags;
    Module *m;
} Read;

/* The program with a block for kernel `name`, derived too. */
static Read read_with(const char *name, const char *clauses)
{
    Read r = {.arena = arena_new()};
    r.diags.arena = r.arena;
    const char *text = arena_printf(r.arena, "%sschedule %s {\n%s}\n", program, name, clauses);
    Diags *d = arena_new_of(r.arena, Diags);
    *d = r.diags;
    r.m = ir_module(r.arena, d, "f.moe");
    PassContext c = {.isa = ISA_generic, .optimize = 1};
    if (!frontend_read(r.m, "f.moe", text, strlen(text))) {
        pass_derive(r.m, &c);
        pass_checks(r.m, &c);
    }
    r.diags = *d;
    return r;
}

static Kernel *kernel(const Read *r, const char *name)
{
    return ir_find_kernel(r->m, name_of(r->m->names, name));
}

static TensorId tensor(const Read *r, const Kernel *k, const char *name)
{
    return ir_find_tensor(k, name_of(r->m->names, name));
}

/* ---- clauses ---- */

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *kernel, *clause, *code, *words;
    } bad[] = {
        {"f", "tile g : M = 0", "E0705", "M = 32"},
        {"f", "tile g : M = 33", "E0705", "M = 32"},
        {"f", "tile g : M = 64 N = 8192", "E0705", "N = 4096"},
        {"f", "tile g : K = ?{32, 48}", "E0705", "not 48"},
        {"f", "tile g : P = 32", "E0701",
         "multiply, sums, right, prepack =, M =, N =, K =, part = or band ="},
        {"f", "tile g : band = 65", "E0705", "band = 64"},
        {"f", "tile g : M", "E0701", "`=`"},
        {"f", "tile g : M = heaviest", "E0701", "an integer"},
        {"f", "tile g :", "E0701", "multiply, sums, right, prepack =, M =, N =, K =, part = or band ="},
        {"f", "tile q : M = 32", "E0702", "name one of g, a, y, z"},
        {"f", "tile x : M = 32", "E0702", "defines no x"},
        {"f", "tile a : M = 32", "E0706", "no sum defines a"},
        {"f", "tile g : M = 32 tile g : M = 64", "E0707", "`M` of g twice"},
        {"f", "tile g, g : M = 32", "E0707", "`M` of g twice"},
        {"f", "strip g : lanes = 64", "E0706", "a reduction defines g"},
        {"f", "strip a : lanes = 65", "E0705", "32 to 65536 in steps of 32"},
        {"f", "rowblock q : rows = 64", "E0702", "name one of t, f"},
        {"f", "rowblock h : rows = 64", "E0702", "index h on its left"},
        {"f", "rowblock t : rows = 1", "E0705", "rows = 32"},
        {"f", "fuse g -> z at epilogue", "E0706", "z does not read g"},
        {"f", "fuse g -> a at prologue", "E0706", "put it there: `at epilogue`"},
        {"f", "fuse a -> z at epilogue", "E0706", "inside its sum only"},
        {"f", "fuse a -> z at scatter", "E0706", "z reads a nowhere in a sum at rt.row"},
        {"f", "fuse g -> q at prologue", "E0702", "no q"},
        {"f", "fuse g -> a at once", "E0701", "`prologue`, `epilogue` or `scatter`"},
        {"f", "fuse g -> a", "E0701", "at"},
        {"f", "store g fuse g -> a at epilogue", "E0707", "both stores and fuses g"},
        {"f", "store g, g", "E0707", "`store` of g twice"},
        {"f", "copies l1 = 9", "E0705", "1 to 8"},
        {"f", "copies l9 = 2", "E0701", "l1 =, l0a =, l0b =, l0c = or ub ="},
        {"f", "order groups ascending", "E0701", "`heaviest_first` or `as_given`"},
        {"f", "order rows", "E0701", "groups"},
        {"f", "unroll g", "E0701", "tile, fuse, store"},
        {"f", "tile g : right rows", "E0701", "`in_panels`, `in_place` or `by_rows`"},
        {"f", "tile g : multiply in_f32 multiply natively", "E0707", "`multiply` of g twice"},
        {"f", "tile a : sums in_block", "E0706", "no sum defines a"},
        {"f", "rowblock t : rows = 64 span = 16", "E0705", "span = 32"},
        {"f", "rowblock t : lines = 64", "E0701", "rows =, span =, columns = or softmax"},
        {"f", "launch a : writes never", "E0701", "`by_size`, `past` or `kept`"},
        {"f", "launch a : ahead = 65", "E0705", "ahead = 64"},
        {"f", "launch a : rows = 65", "E0701", "writes, ahead = or threads ="},
        {"f", "launch q : threads = 1", "E0702", "name one of g, a, y, z"},
        {"f_bwd", "tile g : M = 32", "E0702", "kernel f_bwd defines no g"},
        {"f_bwd", "tile d_x : M = 33", "E0705", "M = 32"},
        {"f_fwd", "tile a : M = 32", "E0706", "no sum defines a"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Read r = read_with(bad[i].kernel, bad[i].clause);
        const char *text = diag_text(&r.diags, r.arena);
        if (r.diags.errors != 1 || !strstr(text, bad[i].code) || !strstr(text, bad[i].words) ||
            !strstr(text, "f.moe:11:"))
            fail_msg("%s { %s }: %s with `%s` expected, not\n%s", bad[i].kernel, bad[i].clause, bad[i].code,
                     bad[i].words, text);
        arena_free(r.arena);
    }
}

static void test_size_of_block(void **state)
{
    (void)state;
    Text t = {.arena = arena_new()};
    for (int i = 0; i < 40; i++)
        for (int n = 0; n < 40; n++)
            text_add(&t, "%s x%d", n ? "," : i ? " store" : "store", 40 * i + n);
    Read r = read_with("f_fwd", text_string(&t));
    assert_non_null(strstr(diag_text(&r.diags, r.arena), "E0904"));
    arena_free(r.arena);
    arena_free(t.arena);
}

static const char clauses[] =
    "  tile g : multiply in_f32 right ?{in_place, in_panels} M = ?{64, 96} N = 128 part = 32\n"
    "  tile z : M = 32\n"
    "  fuse g -> a, y at epilogue\n"
    "  store a\n"
    "  strip a, y : lanes = 4096\n"
    "  rowblock t : rows = 128 span = 512 columns = 96\n"
    "  launch a, y : writes ?{past, kept} ahead = 0 threads = 2\n"
    "  order groups ?{as_given, heaviest_first}\n"
    "  copies l1 = 2, ub = ?{1, 2}\n";

/* Printed as written, for the kernel; what a derived kernel still has, for that. */
static void test_printed(void **state)
{
    (void)state;
    Read r = read_with("f", clauses);
    Text t = {.arena = r.arena};
    assert_int_equal(r.diags.errors, 0);
    ir_print(r.m, NULL, &t);
    assert_non_null(strstr(text_string(&t), arena_printf(r.arena, "\nschedule f {\n%s}\n", clauses)));
    assert_non_null(strstr(text_string(&t), "\nschedule f_fwd {\n  tile g_f32 : multiply in_f32 right"));
    const char *backward = strstr(text_string(&t), "\nschedule f_bwd {\n");
    assert_non_null(backward);
    assert_non_null(strstr(backward, "  rowblock t : rows = 128 span = 512 columns = 96\n"));
    assert_null(strstr(backward, "tile g"));
    arena_free(r.arena);
}

/* Every fact of a block is in the digest, which names cached code. */
static void test_digest(void **state)
{
    (void)state;
    Read one = read_with("f", "tile g : M = 64"), two = read_with("f", "tile g : M = 96");
    Text a = {.arena = one.arena}, b = {.arena = two.arena};
    ir_digest(one.m, &a);
    ir_digest(two.m, &b);
    assert_string_not_equal(text_string(&a), text_string(&b));
    arena_free(one.arena);
    arena_free(two.arena);
}

/* ---- questions ---- */

static Blocks blocks(const PassContext *c, const Kernel *k, TensorId lhs)
{
    Blocks usual = schedule_usual(c, k, BLOCKS_OTHER, 0, 1);
    return (Blocks){.rows = schedule_rows(c, k, lhs, usual.rows),
                    .cols = schedule_cols(c, k, lhs, usual.cols),
                    .depth = schedule_depth(c, k, lhs, usual.depth)};
}

static const PassContext plain = {.isa = ISA_generic, .optimize = 1};

/* The index of the tensor's rows. */
static IndexId row_of(const Read *r, const Kernel *k, const char *name)
{
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (k->eqs.at[i].lhs == tensor(r, k, name))
            return x_plain_index(k, k->eqs.at[i].index[0]);
    return NONE;
}

static void test_answers(void **state)
{
    (void)state;
    Read r = read_with("f", clauses);
    Kernel *k = kernel(&r, "f");
    Blocks g = blocks(&plain, k, tensor(&r, k, "g"));
    Blocks usual = blocks(&plain, k, tensor(&r, k, "y"));
    assert_int_equal(g.rows, 64);
    assert_int_equal(g.cols, 128);
    assert_int_equal(g.depth, usual.depth);
    assert_int_not_equal(usual.rows, 64);
    assert_int_equal(blocks(&plain, k, tensor(&r, k, "z")).rows, 32);
    Name ga[] = {name_of(r.m->names, "g"), name_of(r.m->names, "a"), name_of(r.m->names, "z")};
    assert_int_equal(schedule_fuses(&plain, k, ga[0], ga[1]), FUSE_WANTED);
    assert_int_equal(schedule_fuses(&plain, k, ga[1], ga[2]), FUSE_NEVER);
    assert_int_equal(schedule_fuses(&plain, k, ga[2], ga[1]), FUSE_MAY);
    assert_int_equal(schedule_strip(&plain, k, tensor(&r, k, "y"), 0), 4096);
    assert_int_equal(schedule_strip(&plain, k, tensor(&r, k, "z"), 0), 2048);
    assert_int_equal(schedule_rowblock_rows(&plain, k, &(Cluster){.row = NONE}), 128);
    assert_int_equal(schedule_heaviest_first(&plain, k), 0);
    assert_true(schedule_multiplies_f32(&plain, k, tensor(&r, k, "g")));
    assert_false(schedule_multiplies_f32(&plain, k, tensor(&r, k, "z")));
    assert_int_equal(schedule_right(&plain, k, tensor(&r, k, "g"), RIGHT_IN_PANELS), RIGHT_IN_PLACE);
    assert_int_equal(schedule_right(&plain, k, tensor(&r, k, "z"), RIGHT_BY_ROWS), RIGHT_BY_ROWS);
    assert_false(schedule_sums_in_block(&plain, k, tensor(&r, k, "g")));
    assert_int_equal(schedule_part(&plain, k, tensor(&r, k, "g"), 256), 32);
    assert_int_equal(schedule_span(&plain, k, row_of(&r, k, "y")), 512);
    assert_int_equal(schedule_columns(&plain, k, row_of(&r, k, "y")), 96);
    assert_int_equal(schedule_writes(&plain, k, tensor(&r, k, "y")), WRITES_PAST);
    assert_int_equal(schedule_ahead(&plain, k, tensor(&r, k, "y")), 0);
    assert_int_equal(schedule_ahead(&plain, k, tensor(&r, k, "z")), 8);
    assert_int_equal(schedule_threads(&plain, k, tensor(&r, k, "a")), 2);
    arena_free(r.arena);
}

/* The block of f holds for f_fwd; a block of f_fwd itself counts before it. */
static void test_derived(void **state)
{
    (void)state;
    Read r = read_with("f", "tile g : M = 64 N = 64\n}\nschedule f_fwd { tile g : M = 96\n");
    assert_int_equal(r.diags.errors, 0);
    Kernel *k = kernel(&r, "f_fwd");
    Blocks b = blocks(&plain, k, tensor(&r, k, "g_f32"));
    assert_int_equal(b.rows, 96);
    assert_int_equal(b.cols, 64);
    arena_free(r.arena);
}

/* g's sum goes into a, which goes into y, a part of which becomes a local of its own. */
static void test_moved(void **state)
{
    (void)state;
    Read r = read_with("f", "tile g : M = 64\n");
    Kernel *k = kernel(&r, "f");
    TensorId g = tensor(&r, k, "g"), a = tensor(&r, k, "a"), y = tensor(&r, k, "y"), z = tensor(&r, k, "z");
    schedule_fused(k, g, a);
    schedule_fused(k, a, y);
    schedule_fused(k, y, z);
    schedule_fused(k, z, y);
    assert_int_equal(blocks(&plain, k, y).rows, 64);
    assert_int_equal(blocks(&plain, k, z).rows, 64);
    assert_int_not_equal(blocks(&plain, k, z).cols, 64);
    arena_free(r.arena);
}

/* The same through the passes: g's sum stands in a and y when the lowering asks. */
static void test_through_passes(void **state)
{
    (void)state;
    Read r = read_with("f", "tile g : M = 64\n");
    PipelineOptions o = {.context = plain, .below = LEVEL_TILES, .limit = -1};
    assert_int_equal(pipeline_run(r.m, &o), 0);
    Kernel *k = kernel(&r, "f");
    assert_int_equal(blocks(&plain, k, tensor(&r, k, "y")).rows, 64);
    arena_free(r.arena);
}

/* What is given for any member of a cluster holds for its launch. */
static void test_launch(void **state)
{
    (void)state;
    Read r = read_with("f", "launch a : threads = 3");
    Kernel *k = kernel(&r, "f");
    assert_int_equal(schedule_threads(&plain, k, tensor(&r, k, "z")), 0);
    for (uint32_t i = 0; i < k->eqs.len; i++)
        k->eqs.at[i].cluster = k->clusters.len;
    vec_push(r.arena, &k->clusters, (Cluster){.kind = CLUSTER_ROWBLOCK});
    assert_int_equal(schedule_threads(&plain, k, tensor(&r, k, "z")), 3);
    assert_int_equal(schedule_strip(&plain, k, tensor(&r, k, "y"), 0), 2048);
    arena_free(r.arena);
}

/* A seed draws legal values that keep bits, the same for the same question; what a block fixes stays. */
static void test_seed(void **state)
{
    (void)state;
    Read r = read_with("f", "tile g : M = 64 N = ?{96, 160}\n");
    Kernel *k = kernel(&r, "f");
    uint32_t seen = 0, fused = 0;
    for (uint64_t seed = 1; seed <= 64; seed++) {
        PassContext c = {.isa = ISA_generic, .optimize = 1, .schedule_seed = seed};
        Blocks b = blocks(&c, k, tensor(&r, k, "g"));
        assert_int_equal(b.rows, 64);
        assert_true(b.cols == 96 || b.cols == 160);
        assert_true(b.depth >= 32 && b.depth <= 1024 && b.depth % 32 == 0);
        assert_int_equal(blocks(&c, k, tensor(&r, k, "g")).depth, b.depth);
        seen |= b.cols == 96 ? 1 : 2;
        assert_false(schedule_multiplies_f32(&c, k, tensor(&r, k, "g")));
        assert_false(schedule_shuffles(&c, k));
        fused += schedule_fuses(&c, k, name_of(r.m->names, "g"), name_of(r.m->names, "a")) == FUSE_MAY;
    }
    assert_int_equal(seen, 3);
    assert_in_range(fused, 16, 48);
    arena_free(r.arena);
}

static void test_spaces(void **state)
{
    (void)state;
    for (Knob n = 0; n < KNOB_COUNT; n++) {
        const KnobRow *row = &knob_table[n];
        int64_t values[KNOB_SPACE_MAX];
        uint32_t count = knob_space(n, values);
        assert_in_range(count, 1, KNOB_SPACE_MAX);
        for (uint32_t i = 0; i < count; i++)
            assert_true(values[i] >= row->lo && values[i] <= row->hi &&
                        (values[i] - row->lo) % row->step == 0 && (i == 0 || values[i] > values[i - 1]));
        assert_true(row->source == SOURCE_MACHINE ||
                    (row->otherwise >= row->lo && row->otherwise <= row->hi) || row->scope == SCOPE_TENSOR);
    }
}

static void test_bits(void **state)
{
    (void)state;
    for (Knob n = 0; n < KNOB_COUNT; n++)
        assert_int_equal(knob_keeps_bits(n, knob_table[n].hi), n != KNOB_fuse && n != KNOB_store &&
                                                                   n != KNOB_terms && n != KNOB_multiply &&
                                                                   n != KNOB_softmax);
    assert_false(knob_keeps_bits(KNOB_fuse, AT_PROLOGUE) || knob_keeps_bits(KNOB_fuse, AT_EPILOGUE));
}

/* ---- reports ---- */

static void test_reports(void **state)
{
    (void)state;
    Read r = read_with("f", "tile g : M = 64\n");
    Kernel *k = kernel(&r, "f");
    Name g = name_of(r.m->names, "g"), a = name_of(r.m->names, "a");
    PassContext c = plain;
    c.report = report_new(r.arena);
    report_edge(NULL, k, (ReportEdge){.producer = g});
    report_edge(c.report, k, (ReportEdge){.producer = g, .consumer = a, .why = "first"});
    report_edge(c.report, k, (ReportEdge){.producer = g, .consumer = a, .rule = "pointwise"});
    assert_int_equal(c.report->edges.len, 1);
    assert_string_equal(c.report->edges.at[0].e.rule, "pointwise");
    blocks(&c, k, tensor(&r, k, "g"));
    blocks(&c, k, tensor(&r, k, "g"));
    assert_int_equal(c.report->knobs.len, 3);
    assert_int_equal(c.report->knobs.at[0].n.value, 64);
    assert_int_equal(c.report->knobs.at[0].n.origin, ORIGIN_SCHEDULE);
    assert_int_equal(c.report->knobs.at[0].n.from->loc.line, 11);
    assert_int_equal(c.report->knobs.at[1].n.origin, ORIGIN_MACHINE);
    arena_free(r.arena);
}

static void test_sums(void **state)
{
    (void)state;
    Read r = read_with("f", "");
    ReportSums sums = report_sums(kernel(&r, "f"));
    assert_int_equal(sums.len, 1);
    assert_int_equal(sums.at[0].elem, EL_BF16);
    assert_false(sums.at[0].is_dot);
    ReportPairs pairs = report_pairs(kernel(&r, "f"));
    assert_int_equal(pairs.len, 4); /* g -> a, a -> y, g -> y, a -> z */
    arena_free(r.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused), cmocka_unit_test(test_size_of_block),
        cmocka_unit_test(test_printed), cmocka_unit_test(test_digest),
        cmocka_unit_test(test_answers), cmocka_unit_test(test_derived),
        cmocka_unit_test(test_moved),   cmocka_unit_test(test_seed),
        cmocka_unit_test(test_spaces),  cmocka_unit_test(test_bits),
        cmocka_unit_test(test_launch),  cmocka_unit_test(test_through_passes),
        cmocka_unit_test(test_reports), cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
