/* What explain makes of the reports of passes: products, their padding, knobs, hints; as text and as JSON. */
#include "base/json.h"
#include "explain/explain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char program[] =
    "moe 1\n"
    "dim T, K, E\n"
    "dim H : % 16 prefer 256\n"
    "dim F : % 16 prefer 256 = 272\n"
    "group R : E rows T*K\n"
    "kernel f(in x: bf16[R, H], in rt: route[T, K -> R], in w: bf16[E, H, F], out y: bf16[R, F]) {\n"
    "  g[r, f] = sum(h) x[r, h] * w[@r, h, f]\n"
    "  y[r, f] = bf16(gelu(g[r, f]))\n"
    "}\n"
    "schedule f { tile g : M = 64 copies ub = 2 }\n";

typedef struct Case {
    Compilation *c;
    Explain e;
    int64_t sizes[8];
} Case;

static Extent of(Module *m, const char *name)
{
    for (DimId d = 0; d < m->dims.len; d++)
        if (strcmp(m->dims.at[d].name, name) == 0)
            return ext_dim(m, d);
    return ext_const(m, 1);
}

/* The product that defines y, as a lowering would report it. */
static ReportProduct product(Module *m)
{
    return (ReportProduct){.lhs = name_of(m->names, "y"),
                           .loc = {0, 7, 13, 3},
                           .fragment = "12x2 vectors",
                           .left = "lines",
                           .right = "pairs, panels of 32",
                           .rows = 64,
                           .cols = 256,
                           .depth = 256,
                           .extent = {m->groups.at[0].rows, of(m, "F"), of(m, "H")},
                           .cube = 1,
                           .row_group = 1};
}

/* T, K, E, H; F is a constant. */
static int make(Compilation *c, void *user)
{
    Case *t = user;
    int status = compile_prepare(c);
    t->e = (Explain){.c = c, .sizes = t->sizes};
    if (status)
        return status;
    status = explain_make(&t->e);
    if (status)
        return status;
    c->report->products.len = 0; /* of this machine's lowering */
    report_product(c->report, t->e.m->kernels.at[0], product(t->e.m));
    return explain_collect(&t->e, "f");
}

static Case open_case(const char *target, int64_t rows, int64_t groups, int64_t depth)
{
    Case t = {.sizes = {rows, rows < 0 ? -1 : 1, groups, depth, 272}};
    CompileOptions o = compile_defaults;
    o.target = target;
    t.c = compile_new(&o);
    compile_text(t.c, "f.moe", program, strlen(program));
    return t;
}

static void run(Case *t)
{
    int status = compile_guard(t->c, make, t);
    if (status)
        fail_msg("%s", t->c->errors);
    t->e.sizes = t->sizes;
}

static const ExplainProduct *first(const Case *t)
{
    assert_int_equal(t->e.kernels.len, 1);
    assert_int_equal(t->e.kernels.at[0].products.len, 1);
    return &t->e.kernels.at[0].products.at[0];
}

static void test_units(void **state)
{
    (void)state;
    int64_t units[3];
    static const struct {
        Isa isa;
        int cube;
        int64_t units[3];
    } rows[] = {
        {ISA_generic, 1, {4, 8, 1}},      {ISA_avx2, 1, {2, 16, 1}},       {ISA_avx512, 1, {4, 32, 1}},
        {ISA_avx512widen, 1, {4, 32, 1}}, {ISA_avx512bf16, 1, {4, 32, 2}}, {ISA_amx, 1, {32, 32, 32}},
        {ISA_amx_soft, 1, {32, 32, 32}},  {ISA_amx, 0, {4, 32, 1}},        {ISA_amx_soft, 0, {4, 8, 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Compilation c = {.machine = NULL};
        explain_units(&(Explain){.c = &c, .isa = rows[i].isa}, rows[i].cube, units);
        for (int n = 0; n < 3; n++)
            assert_int_equal(units[n], rows[i].units[n]);
    }
}

/* 100 rows over 8 groups: four of 13 and four of 12 rows go in 32 each; 272 columns in 288, 48 terms in 64. */
static void test_padding(void **state)
{
    (void)state;
    Case t = open_case("amx-soft", 100, 8, 48);
    run(&t);
    const ExplainProduct *p = first(&t);
    assert_true(p->reported);
    assert_int_equal(p->elem, EL_BF16);
    assert_true(fabs(p->padding - (1 - 100.0 * 272 * 48 / (256.0 * 288 * 64))) < 1e-12);
    compile_free(t.c);
}

/* The same rows, all in one group. */
static void test_exact_rows(void **state)
{
    (void)state;
    Case t = open_case("amx-soft", 100, 8, 64);
    TestRouting rows = {.kind = ROUTING_EXACT};
    Arena *a = arena_new();
    vec_push(a, &rows.counts, 0);
    vec_push(a, &rows.counts, 100);
    run(&t);
    t.e.rows = &rows;
    t.e.kernels.len = 0;
    assert_int_equal(explain_collect(&t.e, NULL), DRIVER_OK);
    assert_true(fabs(first(&t)->padding - (1 - 100.0 * 272 / (128.0 * 288))) < 1e-12);
    arena_free(a);
    compile_free(t.c);
}

static void test_text(void **state)
{
    (void)state;
    Case t = open_case("generic", -1, -1, -1);
    run(&t);
    assert_true(first(&t)->padding < 0);
    Text out = {.arena = t.c->arena};
    explain_text(&t.e, &out);
    static const char *const lines[] = {
        "kernel f for generic\n",
        "    g -> y  fused: epilogue  saves 8*T*K*F bytes\n",
        "    y, line 7, bf16 x bf16: 12x2 vectors\n"
        "      blocks 64 x 256 x 256; left lines; right pairs, panels of 32\n"
        "      padding rows T*K in E groups, each to 4, columns 272 to 8\n",
        "copies ub = 2",
        "not used on this machine\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text_string(&out), lines[i]))
            fail_msg("no `%s` in\n%s", lines[i], text_string(&out));
    compile_free(t.c);
}

static void test_json(void **state)
{
    (void)state;
    Case t = open_case("generic", 64, 2, 256);
    run(&t);
    explain_hints(&t.e);
    json_error_t error;
    json_t *all = json_loads(explain_json(&t.e), 0, &error);
    assert_non_null(all);
    json_t *kernel = json_array_get(json_object_get(all, "kernels"), 0);
    json_t *p = json_array_get(json_object_get(kernel, "products"), 0);
    assert_string_equal(json_string_value(json_object_get(p, "operands")), "bf16");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(p, "blocks"), 0)), 64);
    assert_true(fabs(json_real_value(json_object_get(p, "padding"))) < 1e-12);
    assert_int_equal(json_array_size(json_object_get(all, "hints")), 1);
    json_decref(all);
    compile_free(t.c);
}

/* F = 272 misses 256: 5.6 % on AMX, whose fragments are 32 wide; H = 512 does not. */
static void test_hint(void **state)
{
    (void)state;
    Case t = open_case("amx-soft", 64, 2, 512);
    run(&t);
    explain_hints(&t.e);
    assert_int_equal(t.c->diags.list.len, 1);
    const char *text = diag_text(&t.c->diags, t.c->arena);
    assert_non_null(strstr(
        text, "f.moe:4:5: hint[H1001]: F = 272 misses `prefer 256`: as the columns of y in kernel f, 5.6 %"));
    assert_non_null(strstr(text, "help: 512 would fill whole blocks"));
    compile_free(t.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units), cmocka_unit_test(test_padding), cmocka_unit_test(test_exact_rows),
        cmocka_unit_test(test_text),  cmocka_unit_test(test_json),    cmocka_unit_test(test_hint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
