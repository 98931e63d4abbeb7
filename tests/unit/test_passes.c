/* canonicalise, cse, dce, checks and the pipeline's runner: each rule by the text before and after it. */
#include "gradient.h"

#define DECLARATIONS "moe 1\ndim T\ndim K <= 64\ndim E, H, F, V, S\ngroup R : E rows T*K\n"

/* The equations of `kernel f(signature) { body }` after the passes, as text. */
static void expect_after(const char *stop, const char *signature, const char *body, const char *expected)
{
    char text[2048];
    snprintf(text, sizeof text, DECLARATIONS "kernel f(%s) {\n%s\n}\n", signature, body);
    Program p = program_read(text);
    program_passes(&p, stop);
    if (p.diags->errors)
        fail_msg("%s", diag_text(p.diags, p.arena));
    const Kernel *k = program_kernel(&p, "f");
    Text got = {.arena = p.arena};
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        ir_print_equation(k, &k->eqs.at[i], &got);
        text_add(&got, "\n");
    }
    char line[2048];
    snprintf(line, sizeof line, "%s\n", expected);
    if (strcmp(text_string(&got), line) != 0)
        fail_msg("%s\nexpected\n%s\ngot\n%s", body, line, text_string(&got));
    program_free(&p);
}

typedef struct Rule {
    const char *signature, *before, *after;
} Rule;

static void expect_rules(const char *stop, const Rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++)
        expect_after(stop, rules[i].signature, rules[i].before, rules[i].after);
}
#define EXPECT_RULES(stop, rules) expect_rules(stop, rules, sizeof(rules) / sizeof *(rules))

static void scalars(void **state)
{
    (void)state;
    static const Rule rules[] = {
        {"in x: f32[T], out y: f32[T]", "y[t] = x[t] * 1 + 0.5 * 2", "y[t] = x[t] + 1.0"},
        {"in x: f32[T], out y: f32[T]", "y[t] = x[t] + 0", "y[t] = x[t] + 0"},
        {"in x: f32[T], out y: f32[T]", "y[t] = x[t] - 0", "y[t] = x[t]"},
        {"in x: f32[T], out y: f32[T]", "y[t] = 0.1 * 3 * x[t]", "y[t] = 0.1 * 3 * x[t]"},
        {"in x: f32[T], out y: f32[T]", "y[t] = -(-x[t]) / 1", "y[t] = x[t]"},
        {"in x: f32[T], out y: f32[T]", "y[t] = x[t] + -(x[t] * 2)", "y[t] = x[t] - x[t] * 2"},
        {"in x: f32[T], out y: f32[T]", "y[t] = f32(f32(x[t]))", "y[t] = x[t]"},
        {"in x: bf16[T], out y: bf16[T]", "y[t] = bf16(f32(x[t]))", "y[t] = x[t]"},
        {"in x: f32[T], out y: f32[T]", "y[t] = x[t + 2 - 1 - 1]", "y[t] = x[t]"},
        {"out y: f32[T]", "y[t] = t * 2 - -0", "y[t] = f32(t * 2)"},
        {"in x: f32[T], out y: f32[T]", "y[t] = if(t > 0, x[t], -0)", "y[t] = if(t > 0, x[t], 0.0)"},
    };
    EXPECT_RULES("canonicalise", rules);
}

static void conditions(void **state)
{
    (void)state;
    static const Rule rules[] = {
        {"in x: f32[T], out y: f32[T]", "y[t] = if(t >= 0, x[t], 1)", "y[t] = x[t]"},
        {"in x: f32[T], out y: f32[T]", "y[t] = if(t < 0 and x[t] > 0, x[t], 1.0)", "y[t] = 1.0"},
        {"in x: f32[T], out y: f32[T]", "y[t] = if(x[t] > 0 and t > 1 and t > 0 and t < T, x[t], 1.0)",
         "y[t] = if(t > 1 and x[t] > 0.0, x[t], 1.0)"},
        {"in x: f32[T], out y: f32[T]", "y[t] = if(not (t > 1), x[t], 1.0)", "y[t] = if(t <= 1, x[t], 1.0)"},
        {"in x: f32[T], out y: f32[T]", "y[t] = if(not (x[t] > 1), x[t], 1.0)",
         "y[t] = if(not x[t] > 1.0, x[t], 1.0)"},
        {"in x: f32[T], out y: f32[T]", "y[t] = if(t > 1, if(x[t] > 0, x[t], 0.0), 0.0)",
         "y[t] = if(t > 1 and x[t] > 0.0, x[t], 0.0)"},
    };
    EXPECT_RULES("canonicalise", rules);
}

static void sums(void **state)
{
    (void)state;
    static const Rule rules[] = {
        {"in x: f32[T, H], out y: f32[T]", "y[t] = sum(h) x[t, h] * 0.3 / H",
         "y[t] = (sum(h) x[t, h]) * 0.3 / H"},
        {"in x: f32[T, H], in p: f32[T], out y: f32[T]", "y[t] = sum(h) -(p[t] * x[t, h])",
         "y[t] = -((sum(h) x[t, h]) * p[t])"},
        {"in x: f32[T, H], in p: f32[T], out y: f32[T]", "y[t] = max(h) p[t] * x[t, h]",
         "y[t] = max(h) p[t] * x[t, h]"},
        {"in x: f32[T, H], out y: f32[T]", "y[t] = sum(h where t > 0) x[t, h]",
         "y[t] = if(t > 0, sum(h) x[t, h], 0.0)"},
        {"in x: f32[T, H], out y: f32[T]", "y[t] = sum(h) if(x[t, h] > 0, x[t, h], 0)",
         "y[t] = sum(h where x[t, h] > 0.0) x[t, h]"},
        {"in x: f32[T], out y: f32[T]", "y[t] = sum(i where i == t and x[i] > 0) x[i]",
         "y[t] = if(x[t] > 0.0, x[t], 0.0)"},
        {"in x: f32[V], in id: i32[T], out y: f32[T]", "y[t] = sum(v where id[t] == v) x[v]",
         "y[t] = if(id[t] >= 0 and id[t] < V, x[id[t]], 0.0)"},
        {"in x: f32[S], in w: f32[T], out y: f32[S]", "y[i] = sum(j, t where j == i + t) x[j] * w[t]",
         "y[i] = sum(t where i + t < S) x[i + t] * w[t]"},
        {"in x: f32[T], out y: f32[T]", "y[t] = sum(h: H) x[t]", "y[t] = x[t] * f32(H)"},
        {"in x: f32[T, H], out y: f32[T]", "y[t] = sum(h, e: E) x[t, h]", "y[t] = (sum(h) x[t, h]) * f32(E)"},
        {"in x: f32[T], in id: i32[T], out y: f32[V]", "y[v] = sum(t where id[t] == v) x[t]",
         "y[v] = sum(t where id[t] == v) x[t]"},
    };
    EXPECT_RULES("canonicalise", rules);
}

static void routes(void **state)
{
    (void)state;
    static const Rule rules[] = {
        {"in x: f32[R], in rt: route[T, K -> R], out y: f32[T]", "y[t] = sum(r where rt.token(r) == t) x[r]",
         "y[t] = sum(k where rt.row(t, k) >= 0) x[rt.row(t, k)]"},
        {"in x: f32[R], in rt: route[T, K -> R], out y: f32[T, K]",
         "y[t, k] = sum(r where rt.token(r) == t and k == rt.slot(r)) x[r]",
         "y[t, k] = if(rt.row(t, k) >= 0, x[rt.row(t, k)], 0.0)"},
        {"in x: f32[T, K], in rt: route[T, K -> R], out y: f32[R]",
         "y[r] = sum(t, k where rt.row(t, k) == r) x[t, k]", "y[r] = x[rt.token(r), rt.slot(r)]"},
        {"in x: f32[R], in rt: route[T, K -> R], out y: f32[E]", "y[e] = sum(r in e) x[r]",
         "y[e] = sum(r where @r == e) x[r]"},
    };
    EXPECT_RULES("canonicalise", rules);
}

/* An access stays behind the condition that keeps it inside. */
static void guards_stay(void **state)
{
    (void)state;
    static const Rule rules[] = {
        {"in x: f32[T], in w: f32[K], out y: f32[T]", "y[t] = sum(k where t - k >= 1) x[t - 1] * w[k]",
         "y[t] = sum(k where t - k >= 1) x[t - 1] * w[k]"},
        {"in x: f32[T], in c: i32[K], in v: f32[V], in w: f32[K], out y: f32[T]",
         "y[t] = sum(k where c[k] >= 0) v[0] * w[k] * x[t]",
         "y[t] = (sum(k where c[k] >= 0) v[0] * w[k]) * x[t]"},
        /* v[c[t]] is read where s was, behind the conditions on c[t] */
        {"in x: f32[S], in c: i32[T], in v: i32[V], out y: f32[T]",
         "y[t] = sum(s where c[t] >= 0 and c[t] < V and s == v[c[t]]) x[s]",
         "y[t] = if(c[t] >= 0 and c[t] < V and v[c[t]] >= 0 and v[c[t]] < S, x[v[c[t]]], 0.0)"},
        /* x[s] > 0 would read x[id[t]] ahead of the bounds of id[t] */
        {"in x: f32[S], in id: i32[T], out y: f32[T]", "y[t] = sum(s where x[s] > 0 and s == id[t]) x[s]",
         "y[t] = sum(s where x[s] > 0.0 and s == id[t]) x[s]"},
    };
    EXPECT_RULES("canonicalise", rules);
}

static void equal_locals(void **state)
{
    (void)state;
    static const Rule rules[] = {
        {"in x: f32[T], out y: f32[T]", "a[t] = exp(x[t])\nb[i] = exp(x[i])\ny[t] = a[t] + b[t]",
         "a[t] = exp(x[t])\ny[t] = a[t] + a[t]"},
        {"in x: f32[T, H], out y: f32[T]",
         "a[t] = sum(h) x[t, h]\nb[s] = sum(i) x[s, i]\nc[t] = a[t] * 2\nd[t] = b[t] * 2\ny[t] = c[t] + d[t]",
         "a[t] = sum(h) x[t, h]\nc[t] = a[t] * 2\ny[t] = c[t] + c[t]"},
        {"in x: f32[T, T], out y: f32[T, T]",
         "a[s, t] = x[s, t] * 2\nb[s, t] = x[t, s] * 2\ny[s, t] = a[s, t] + b[s, t]",
         "a[s, t] = x[s, t] * 2\nb[s, t] = x[t, s] * 2\ny[s, t] = a[s, t] + b[s, t]"},
        {"inout x: f32[T], out y: f32[T]",
         "a[t] = x[t] * 2\nx[t] = a[t]\nb[t] = x[t] * 2\ny[t] = a[t] + b[t]",
         "a[t] = x[t] * 2\nx[t] = a[t]\nb[t] = x[t] * 2\ny[t] = a[t] + b[t]"},
    };
    EXPECT_RULES("cse", rules);
}

static void unread_locals(void **state)
{
    (void)state;
    static const Rule rules[] = {
        {"in x: f32[T], out y: f32[T]", "a[t] = exp(x[t])\nb[t] = a[t] * 3\ny[t] = x[t] * 2",
         "y[t] = x[t] * 2"},
        {"in x: f32[T, E], out y: f32[T, K]", "y[t, k], id[t, k] = top(e) x[t, e]\nrt = route(id -> R)",
         "y[t, k], id[t, k] = top(e) x[t, e]"},
        /* nothing names the route, but the rows are its rows */
        {"in x: f32[T, E], out y: f32[E]",
         "p[t, k: K], id[t, k] = top(e) x[t, e]\nrt = route(id -> R)\n"
         "a[r: R] = 2.0\ny[e] = sum(r in e) a[r]",
         "p[t, k: K], id[t, k] = top(e) x[t, e]\nrt = route(id -> R)\na[r: R] = 2.0\ny[e] = sum(r where @r "
         "== e) a[r]"},
    };
    EXPECT_RULES("dce", rules);
}

static void run_time_checks(void **state)
{
    (void)state;
    static const Rule rules[] = {
        {"in x: f32[V], in id: i32[T], out y: f32[T]", "y[t] = x[id[t]]",
         "// check at entry x axis 0: 0 <= id[t] < V\ny[t] = x[id[t]]"},
        {"in x: f32[V], in id: i32[T], out y: f32[T]", "y[t] = if(id[t] >= 0, x[id[t]], 0.0)",
         "// check at entry x axis 0: 0 <= id[t] < V where id[t] >= 0\ny[t] = if(id[t] >= 0, x[id[t]], 0.0)"},
        {"in x: f32[V], in id: i32[T], out y: f32[T]", "y[t] = if(id[t] >= 0 and id[t] < V, x[id[t]], 0.0)",
         "y[t] = if(id[t] >= 0 and id[t] < V, x[id[t]], 0.0)"},
        {"in x: f32[V], in z: f32[T], out y: f32[T]", "i[t] = i32(z[t])\ny[t] = x[i[t]] * x[i[t]]",
         "i[t] = i32(z[t])\n// check x axis 0: 0 <= i[t] < V\ny[t] = x[i[t]] * x[i[t]]"},
        {"in x: f32[V], in id: i32[T], out y: f32[T], out z: f32[T]", "y[t] = x[id[t]]\nz[i] = x[id[i]] * 2",
         "// check at entry x axis 0: 0 <= id[t] < V\ny[t] = x[id[t]]\nz[i] = x[id[i]] * 2"},
        {"in id: i32[T], inout y: f32[V]", "y[id[t]] += 1.0",
         "// check at entry y axis 0: 0 <= id[t] < V\ny[id[t]] += 1.0"},
        {"in x: f32[V], out y: f32", "y = x[2]", "// check at entry x axis 0: 0 <= 2 < V\ny = x[2]"},
    };
    EXPECT_RULES("checks", rules);
}

/* ---- the runner ---- */

static void runner(void **state)
{
    (void)state;
    const char *text =
        DECLARATIONS "kernel f(in x: f32[T], out y: f32[T]) { a[t] = x[t] * 1\n y[t] = a[t] + 1 }\n";
    Program p = program_read(text);
    DumpList dump = {0};
    Text times = {.arena = p.arena};
    PipelineOptions o = {.stop_after = "dce",
                         .dump = "cse,dce",
                         .dump_out = &dump,
                         .time_passes = 1,
                         .time_out = &times,
                         .verify_each = 1,
                         .limit = -1};
    assert_int_equal(pipeline_run(p.m, &o), 0);
    assert_int_equal(dump.len, 2);
    assert_string_equal(dump.at[0].pass->name, "cse");
    assert_string_equal(dump.at[1].pass->name, "dce");
    assert_non_null(strstr(dump.at[1].text, "kernel f("));
    assert_non_null(strstr(text_string(&times), "canonicalise"));
    assert_null(strstr(text_string(&times), "checks"));
    program_free(&p);

    p = program_read(text);
    o = (PipelineOptions){.limit = 0};
    assert_int_equal(pipeline_run(p.m, &o), 0);
    Text untouched = {.arena = p.arena};
    ir_print(p.m, NULL, &untouched);
    assert_non_null(strstr(text_string(&untouched), "x[t] * 1"));
    program_free(&p);
}

static void table(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < pass_count; i++) {
        assert_ptr_equal(pass_find(pass_table[i].name), &pass_table[i]);
        assert_non_null(pass_table[i].run);
    }
    assert_null(pass_find("no such pass"));
}

/* A pass that breaks an invariant is named, with the kernel and the node. */
static void broken_invariant(void **state)
{
    (void)state;
    Program p = program_read(DECLARATIONS "kernel f(in x: f32[T], out y: f32[T]) { y[t] = x[t] }\n");
    jmp_buf landing;
    if (setjmp(landing) == 0) {
        arena_set_landing(p.arena, &landing);
        p.m->kernels.at[0]->eqs.len = 0; /* nothing writes y any more */
        program_passes(&p, "unread");
        fail_msg("a kernel without its output passed the verifier");
    }
    assert_int_equal(arena_escaped(p.arena), ESCAPE_BUG);
    assert_non_null(strstr(arena_message(p.arena), "unread"));
    assert_non_null(strstr(arena_message(p.arena), "y"));
    program_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars),       cmocka_unit_test(conditions),       cmocka_unit_test(sums),
        cmocka_unit_test(routes),        cmocka_unit_test(guards_stay),      cmocka_unit_test(equal_locals),
        cmocka_unit_test(unread_locals), cmocka_unit_test(run_time_checks),  cmocka_unit_test(runner),
        cmocka_unit_test(table),         cmocka_unit_test(broken_invariant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
