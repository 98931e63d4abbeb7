/* What the front end accepts and what it makes of it: structure is compared as printed equations. */
#include "frontend_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static const char dims[] = "moe 1\n"
                           "dim T\ndim K <= 64\ndim E\ndim H, F : % 16 prefer 256\ndim B, S, D, N, V\n"
                           "group R : E rows T*K\ngroup C : E capacity 4*T\n"
                           "fn silu(x) = x / (1 + exp(-x))\n";

/* The kernels of the language page. */
static const char page[] =
    "kernel ffn(in x: bf16[T, H], in rt: route[T, K -> R], in p: f32[T, K],\n"
    "           in wg, wu: bf16[E, H, F], in wd: bf16[E, F, H], out y: bf16[T, H]) {\n"
    "  xp[r, h] = x[rt.token(r), h]                          // permute\n"
    "  g[r, f]  = sum(h) xp[r, h] * wg[@r, h, f]\n"
    "  u[r, f]  = sum(h) xp[r, h] * wu[@r, h, f]\n"
    "  a[r, f]  = bf16(silu(g[r, f]) * u[r, f])\n"
    "  o[r, h]  = sum(f) a[r, f] * wd[@r, f, h]\n"
    "  y[t, h]  = bf16(sum(k) p[t, k] * o[rt.row(t, k), h])\n"
    "}\n"
    "derive (ffn_fwd, ffn_bwd) from ffn\n"
    "  wrt x, p, wg +=, wu +=, wd +=         // += : added\n"
    "  save g as bf16, u as bf16\n"
    "test ffn { T=33 K=2 E=5 H=64 F=48; routing zipf(1.2), empty(40%); hot(2); gradcheck }\n"
    "schedule ffn {\n"
    "  tile g, u : M = ?{32, 64, 128} N = ?{128, 256} K = 256\n"
    "  fuse xp -> g, u at prologue\n"
    "  store o\n"
    "  strip a : lanes = 4096\n"
    "  fuse g, u -> a at epilogue\n"
    "  copies l1 = 2, l0a = 2, l0b = 2\n"
    "  order groups heaviest_first\n"
    "}\n"
    "kernel rmsnorm(in x: bf16[T, H], in w: f32[H], out y: bf16[T, H]) {\n"
    "  s[t]    = rsqrt(sum(h) x[t, h] * x[t, h] / H + 0.00001)\n"
    "  y[t, h] = bf16(x[t, h] * s[t] * w[h])\n"
    "}\n"
    "kernel router(in x: bf16[T, H], in w: bf16[H, E], out p: f32[T, K], out id: i32[T, K], out rt: route[T, "
    "K -> R]) {\n"
    "  s[t, e] = sum(h) x[t, h] * w[h, e]\n"
    "  m[t]    = max(e) s[t, e]\n"
    "  q[t, e] = exp(s[t, e] - stop(m[t]))\n"
    "  c[t, e] = q[t, e] / (sum(e2) q[t, e2])\n"
    "  p[t, k], id[t, k] = top(e) c[t, e]\n"
    "  rt = route(id)\n"
    "}\n"
    "kernel attention(in q, k, v: bf16[B, S, N, D], out o: bf16[B, S, N, D]) {      // causal\n"
    "  s[b, n, i, j] = sum(d) q[b, i, n, d] * k[b, j, n, d] / sqrt(D)\n"
    "  m[b, n, i]    = max(j where j <= i) s[b, n, i, j]\n"
    "  e[b, n, i, j] = exp(s[b, n, i, j] - stop(m[b, n, i]))\n"
    "  z[b, n, i]    = sum(j where j <= i) e[b, n, i, j]\n"
    "  o[b, i, n, d] = bf16((sum(j where j <= i) bf16(e[b, n, i, j]) * v[b, j, n, d]) / z[b, n, i])\n"
    "}\n"
    "kernel xent(in x: bf16[T, H], in w: bf16[V, H], in y: i32[T], out loss: f32[T]) {\n"
    "  s[t, v] = sum(h) x[t, h] * w[v, h]\n"
    "  m[t]    = max(v) s[t, v]\n"
    "  z[t]    = sum(v) exp(s[t, v] - stop(m[t]))\n"
    "  loss[t] = log(z[t]) + stop(m[t]) - s[t, y[t]]\n"
    "}\n"
    "kernel adamw(inout p, m, v: f32[N], in g: f32[N], out w: bf16[N], in lr, b1, b2, eps, wd, c1, c2: f32) "
    "{\n"
    "  m[n] = b1 * m[n] + (1 - b1) * g[n]\n"
    "  v[n] = b2 * v[n] + (1 - b2) * g[n] * g[n]\n"
    "  p[n] = p[n] - lr * (m[n] / c1 / (sqrt(v[n] / c2) + eps) + wd * p[n])\n"
    "  w[n] = bf16(p[n])\n"
    "}\n";

static void open_good(Reading *r, const char *kernels)
{
    char text[16384];
    assert_true((size_t)snprintf(text, sizeof text, "%s%s", dims, kernels) < sizeof text);
    reading_text(r, text);
    if (r->failed)
        fail_msg("refused:\n%s", diag_text(&r->diags, r->arena));
    for (uint32_t i = 0; i < r->m->kernels.len; i++) {
        const char *broken = ir_verify(r->m->kernels.at[i], r->arena);
        if (broken)
            fail_msg("%s", broken);
    }
}

/* Printing what was read, reading that, and printing it again gives the same text. */
static void assert_stable(const Reading *r)
{
    Text first = {.arena = r->arena}, second = first;
    ir_print(r->m, NULL, &first);
    Reading again;
    reading_text(&again, text_string(&first));
    if (again.failed)
        fail_msg("refused when read again:\n%s\n%s", diag_text(&again.diags, again.arena),
                 text_string(&first));
    ir_print(again.m, NULL, &second);
    assert_string_equal(text_string(&first), text_string(&second));
    reading_close(&again);
}

static void reads_page(void **state)
{
    (void)state;
    Reading r;
    open_good(&r, page);
    assert_int_equal(r.m->kernels.len, 6);
    assert_int_equal(r.m->dims.len, 10);
    assert_int_equal(r.m->groups.len, 2);
    assert_string_equal(reading_equations(&r, "ffn"),
                        "xp[r, h] = x[rt.token(r), h]\n"
                        "g[r, f] = sum(h) xp[r, h] * wg[@r, h, f]\n"
                        "u[r, f] = sum(h) xp[r, h] * wu[@r, h, f]\n"
                        "a[r, f] = bf16(g[r, f] / (1 + exp(-g[r, f])) * u[r, f])\n"
                        "o[r, h] = sum(f) a[r, f] * wd[@r, f, h]\n"
                        "y[t, h] = bf16(sum(k where rt.row(t, k) >= 0) p[t, k] * o[rt.row(t, k), h])\n");
    assert_stable(&r);
    reading_close(&r);
}

/* As many axes as a tensor may have, of a parameter and of a local. */
static void reads_eight_axes(void **state)
{
    (void)state;
    Reading r;
    open_good(&r, "kernel f(in x: f32[T, 2, 2, 2, 2, 2, 2, 2], out y: f32[T, 2, 2, 2, 2, 2, 2, 2]) {\n"
                  "  l[t, a, b, c, d, e, f, g] = exp(x[t, a, b, c, d, e, f, g])\n"
                  "  y[t, a, b, c, d, e, f, g] = l[t, a, b, c, d, e, f, g] * 2\n}\n");
    assert_stable(&r);
    reading_close(&r);
}

/* Modes of targets and two backward kernels; words of the clauses are names where a name is wanted. */
static void reads_requests_with_modes(void **state)
{
    (void)state;
    Reading r;
    open_good(&r, "kernel then(in as, pass, wrt, save: f32[T], out y: f32[T]) {\n"
                  "  from[t] = as[t] + pass[t] * wrt[t]\n  y[t] = from[t] * save[t]\n}\n"
                  "derive (save, from, cotangents) from then\n"
                  "  wrt as as f32, pass pass then wrt +=, save\n  save from as bf16 cotangents f32\n"
                  "derive (a, b) from then wrt save cotangents f32\n");
    const Derive *d = &r.m->derives.at[0];
    assert_string_equal(d->forward, "save");
    assert_string_equal(d->later, "cotangents");
    assert_string_equal(d->kernel, "then");
    static const struct DeriveWrt want[] = {{"as", {0}, GRAD_WRITE_F32, 0},
                                            {"pass", {0}, GRAD_PASS, 0},
                                            {"wrt", {0}, GRAD_ADD, 1},
                                            {"save", {0}, GRAD_WRITE, 1}};
    assert_int_equal(d->wrt.len, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(d->wrt.at[i].name, want[i].name);
        assert_int_equal(d->wrt.at[i].mode, want[i].mode);
        assert_int_equal(d->wrt.at[i].later, want[i].later);
    }
    assert_string_equal(d->save.at[0].name, "from");
    assert_true(d->cotangents_f32);
    assert_null(r.m->derives.at[1].later);
    assert_true(r.m->derives.at[1].cotangents_f32);
    Text text = {.arena = r.m->arena};
    ir_print(r.m, NULL, &text);
    assert_non_null(strstr(text_string(&text),
                           "derive (save, from, cotangents) from then wrt as as f32, pass pass then wrt +=, "
                           "save save from as bf16 cotangents f32\n"));
    reading_close(&r);
}

static void reads_requests(void **state)
{
    (void)state;
    Reading r;
    open_good(&r, page);
    const Derive *d = &r.m->derives.at[0];
    assert_string_equal(d->forward, "ffn_fwd");
    assert_int_equal(d->wrt.len, 5);
    assert_int_equal(d->wrt.at[1].mode, GRAD_WRITE);
    assert_int_equal(d->wrt.at[4].mode, GRAD_ADD);
    assert_int_equal(d->save.len, 2);
    assert_int_equal(d->save.at[1].elem, EL_BF16);
    assert_false(d->cotangents_f32);
    const Test *t = &r.m->tests.at[0];
    assert_int_equal(t->sizes.len, 5);
    assert_int_equal(t->runs.len, 2);
    assert_int_equal(t->runs.at[0].routings.len, 2);
    assert_int_equal(t->runs.at[0].routings.at[1].kind, ROUTING_EMPTY);
    assert_true(t->runs.at[0].routings.at[1].value == 40);
    assert_int_equal(t->runs.at[1].routings.at[0].kind, ROUTING_HOT);
    assert_true(t->gradcheck);
    const Schedule *s = &r.m->schedules.at[0];
    assert_int_equal(s->clauses.len, 7);
    Text text = {.arena = r.m->arena};
    for (uint32_t i = 0; i < s->clauses.len; i++)
        ir_print_clause(NULL, &s->clauses.at[i], &text);
    assert_string_equal(text_string(&text), "  tile g, u : M = ?{32, 64, 128} N = ?{128, 256} K = 256\n"
                                            "  fuse xp -> g, u at prologue\n"
                                            "  store o\n"
                                            "  strip a : lanes = 4096\n"
                                            "  fuse g, u -> a at epilogue\n"
                                            "  copies l1 = 2, l0a = 2, l0b = 2\n"
                                            "  order groups heaviest_first\n");
    reading_close(&r);
}

/* ---- one construct each: kernel text -> equations ---- */

typedef struct Sample {
    const char *params, *equations, *printed;
} Sample;

#define ROUTED "in rt: route[T, K -> R], "

static const Sample samples[] = {
    /* precedence: a reduction takes the product that follows it */
    {"in a, b: f32[N], in c: f32, out y: f32", "y = c * sum(n) a[n] * b[n] + c",
     "y = c * sum(n) a[n] * b[n] + c\n"},
    {"in a, b: f32[N], in c: f32, out y: f32", "y = c / (sum(n) a[n]) * c", "y = c / (sum(n) a[n]) * c\n"},
    {"in a: f32[N], out y: f32", "y = - -sum(n) - a[n] / 2", "y = --sum(n) -a[n] / 2\n"},
    {"in a: f32[N], out y: f32[N]", "y[n] = if(not a[n] > 1 and a[n] < 2 or n == 0, 1, a[n])",
     "y[n] = if(not a[n] > 1.0 and a[n] < 2.0 or n == 0, 1.0, a[n])\n"},
    /* statement ends */
    {"in a: f32[N], out y: f32[N]", "s = 2\n t = s; y[n]\n =\n a\n[n] *\n s * t\n",
     "s = 2\nt = s\ny[n] = a[n] * s * t\n"},
    /* soft words are names */
    {"in rows, tile: f32[N], out save: f32[N]", "prefer[wrt] = rows[wrt] * tile[wrt]\n save[as] = prefer[as]",
     "prefer[wrt] = rows[wrt] * tile[wrt]\nsave[as] = prefer[as]\n"},
    /* rows: `in`, dropped rows, groups of rows */
    {ROUTED "in x: bf16[R, H], in d: bf16[R, F], inout w: f32[E, H, F]",
     "w[e, h, f] += sum(r in e) x[r, h] * d[r, f]", "w[e, h, f] += sum(r where @r == e) x[r, h] * d[r, f]\n"},
    {ROUTED "out n: i32[E]", "n[e] = sum(r in e) 1", "n[e] = sum(r: R where @r == e) 1\n"},
    {ROUTED "out n: i32[E]", "n[e] = sum(r where @r == e) 1", "n[e] = sum(r: R where @r == e) 1\n"},
    {ROUTED "in o: bf16[R], out y: bf16[T, K]", "y[t, k] = o[rt.row(t, k)]",
     "y[t, k] = bf16(if(rt.row(t, k) >= 0, o[rt.row(t, k)], 0.0))\n"},
    {ROUTED "in o: f32[R], out y: f32[T, K]", "y[t, k] = 1 + (if(rt.row(t, k) >= 0, o[rt.row(t, k)], 2))",
     "y[t, k] = 1 + if(rt.row(t, k) >= 0, o[rt.row(t, k)], 2.0)\n"},
    {ROUTED "out g: i32[T, K]", "g[t, k] = @rt.row(t, k)",
     "g[t, k] = if(rt.row(t, k) >= 0, @rt.row(t, k), 0)\n"},
    {ROUTED "in o: f32[R], out y: f32[T]", "y[t] = max(k where o[rt.row(t, k)] > 0) o[rt.row(t, k)]",
     "y[t] = max(k where rt.row(t, k) >= 0 and o[rt.row(t, k)] > 0.0) o[rt.row(t, k)]\n"},
    {ROUTED "in o: f32[R], out y: f32[T]", "y[t] = sum(k where rt.row(t, k) >= 0 and k > 0) o[rt.row(t, k)]",
     "y[t] = sum(k where rt.row(t, k) >= 0 and k > 0) o[rt.row(t, k)]\n"},
    /* routes and top */
    {"in s: f32[T, E], in x: f32[T], out y: f32[T]",
     "p[t, k: K], id[t, k] = top(e) s[t, e]\n q = route(id -> C)\n xp[r] = x[q.token(r)] * (q.slot(r) + 1)\n"
     " y[t] = sum(k) p[t, k] * xp[q.row(t, k)]",
     "p[t, k: K], id[t, k] = top(e) s[t, e]\nq = route(id -> C)\nxp[r] = x[q.token(r)] * (q.slot(r) + 1)\n"
     "y[t] = sum(k where q.row(t, k) >= 0) p[t, k] * xp[q.row(t, k)]\n"},
    /* gathers, scatters, bucketed sums */
    {"in w: f32[V, N], in id: i32[T], out y: f32[T, N]", "y[t, n] = w[id[t], n]", "y[t, n] = w[id[t], n]\n"},
    {"in d: f32[T, N], in id: i32[T], inout w: f32[V, N]", "w[id[t], n] += d[t, n]",
     "w[id[t], n] += d[t, n]\n"},
    {"in id: i32[T], out n: i32[V]", "n[v] = sum(t where id[t] == v) 1",
     "n[v] = sum(t where id[t] == v) 1\n"},
    /* affine subscripts under guards */
    {"in x: f32[T, N*D], out y: f32[T, N, D]", "y[t, n, d] = x[t, n*D + d]",
     "y[t, n, d] = x[t, n * D + d]\n"},
    {"in x: f32[T], in w: f32[N], out y: f32[T]", "y[t] = sum(n where t >= n) w[n] * x[t - n]",
     "y[t] = sum(n where t >= n) w[n] * x[t - n]\n"},
    {"in x: f32[T], in id: i32[T], out y: f32[T]",
     "y[t] = x[t] + (sum(u: T where u >= 1 and id[u - 1] == t or u < 1 or id[u - 1] > 2) 1)",
     "y[t] = x[t] + sum(u: T where u >= 1 and id[u - 1] == t or u < 1 or id[u - 1] > 2) 1\n"},
    {"in x: f32[T], out y: f32", "y = x[0] + x[T - 1]", "y = x[0] + x[T - 1]\n"},
    /* constants on the left */
    {"in x: f32[T], out y: f32[T, 2]", "y[t, 1] = x[t]\n y[t, 0] = 0", "y[t, 1] = x[t]\ny[t, 0] = 0.0\n"},
    {"in x: f32[T], out y: f32[T]", "a[0, t] = x[t]\n a[1, t] = 2\n y[t] = sum(i) a[i, t]",
     "a[0, t] = x[t]\na[1, t: T] = 2.0\ny[t] = sum(i) a[i, t]\n"},
    /* types */
    {"in x: bf16[T], in n: i32[T], out y: bf16[T], out z: f32[T]",
     "c[t] = x[t]\n y[t] = stop(c[t])\n z[t] = n[t] + 1",
     "c[t] = x[t]\ny[t] = stop(c[t])\nz[t] = f32(n[t] + 1)\n"},
    {"in x: f32[T], out n: i32[T]", "n[t] = i32(x[t]) + (max(u) i32(x[u])) * T",
     "n[t] = i32(x[t]) + (max(u) i32(x[u])) * T\n"},
    /* an index and a tensor may share a name where the text stays clear */
    {"in k: f32[K], out y: f32[K]", "y[k] = k[k] * k", "y[k2] = k[k2] * k2\n"},
};

static void reads_samples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char text[2048];
        Reading r;
        snprintf(text, sizeof text, "kernel f(%s) {\n %s\n}\n", samples[i].params, samples[i].equations);
        open_good(&r, text);
        assert_string_equal(reading_equations(&r, "f"), samples[i].printed);
        assert_stable(&r);
        reading_close(&r);
    }
}

static void local_types(void **state)
{
    (void)state;
    Reading r;
    open_good(&r, "kernel f(in x: bf16[T], in n: i32[T], out y: f32[T]) {\n"
                  "a[t] = x[t]\n b[t] = n[t] * 2\n c[t] = x[t] * 2\n d[t] = f16(c[t])\n s = 3\n y[t] = a[t] "
                  "+ b[t] + d[t]\n}");
    static const struct {
        const char *name;
        Elem elem;
    } locals[] = {{"a", EL_BF16}, {"b", EL_I32}, {"c", EL_F32}, {"d", EL_F16}, {"s", EL_I32}};
    const Kernel *k = ir_find_kernel(r.m, name_of(r.m->names, "f"));
    for (size_t i = 0; i < sizeof locals / sizeof *locals; i++)
        assert_int_equal(k->tensors.at[ir_find_tensor(k, name_of(r.m->names, locals[i].name))].elem,
                         locals[i].elem);
    reading_close(&r);
}

/* f20(x) has 2^20 calls when each is put in anew, and 20 nodes when equal ones are shared. */
static void functions_are_shared(void **state)
{
    (void)state;
    Text text = {.arena = arena_new()};
    text_add(&text, "%sfn f0(x) = exp(x)\n", dims);
    for (int i = 1; i <= 40; i++)
        text_add(&text, "fn g%d(x) = %s%d(x) * %s%d(x)\n", i, i == 1 ? "f" : "g", i - 1, i == 1 ? "f" : "g",
                 i - 1);
    text_add(&text, "kernel f(in x: f32[T], out y: f32[T]) { y[t] = g40(x[t]) }\n");
    Reading r;
    reading_text(&r, text_string(&text));
    assert_false(r.failed);
    assert_true(r.m->kernels.at[0]->exprs.len < 60);
    reading_close(&r);
    arena_free(text.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_page),           cmocka_unit_test(reads_eight_axes),
        cmocka_unit_test(reads_requests),       cmocka_unit_test(reads_requests_with_modes),
        cmocka_unit_test(reads_samples),        cmocka_unit_test(local_types),
        cmocka_unit_test(functions_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
