/* derive: every scalar function and every kernel of the language page against finite differences; the rules
 * one by one; what it refuses. */
#include "gradient.h"

static GradientCheck plain(uint64_t seed)
{
    return (GradientCheck){.below = 3, .seed = seed, .tolerance = 1e-6};
}

/* Reads, derives, checks gradients and the printed backward. Returns the kinks met. */
static int check_text(const char *text, const char *kernel, GradientCheck g)
{
    char forward[64], backward[64];
    snprintf(forward, sizeof forward, "%s_fwd", kernel);
    snprintf(backward, sizeof backward, "%s_bwd", kernel);
    Program p = program_read(text);
    program_passes(&p, "dce");
    if (p.diags->errors)
        fail_msg("%s", diag_text(p.diags, p.arena));
    check_gradients(&g, &p, forward, backward);
    check_round_trip(&p, forward, &g);
    check_round_trip(&p, backward, &g);
    program_free(&p);
    return g.kinks;
}

/* ---- scalar functions ---- */

/* An argument inside every function's domain and away from its kinks. */
static void scalar_text(char *text, size_t size, const ScalarRow *row)
{
    const char *a = "(0.5 + 1.5 * sigmoid(x[n]))", *b = "(2.5 + sigmoid(w[n]))";
    char call[128];
    if (row->arity == 1)
        snprintf(call, sizeof call, "%s(%s)", row->spelling, a);
    else if (row->kind == SK_FLOAT && row->spelling[0] != '/')
        snprintf(call, sizeof call, "%s(%s, %s)", row->spelling, a, b);
    else if (row->spelling[0] >= 'a')
        snprintf(call, sizeof call, "%s(%s, %s)", row->spelling, a, b);
    else
        snprintf(call, sizeof call, "%s %s %s", a, row->spelling, b);
    snprintf(text, size,
             "moe 1\ndim N\nkernel f(in x, w: f32[N], out y: f32[N]) {\n  y[n] = x[n] * w[n] + %s%s%s\n}\n"
             "derive (f_fwd, f_bwd) from f wrt x, w\n",
             row->kind == SK_CAST ? "f32(" : "", call, row->kind == SK_CAST ? ")" : "");
}

static void every_scalar_function(void **state)
{
    (void)state;
    for (ScalarOp op = 0; op < OP_COUNT; op++) {
        const ScalarRow *row = &scalar_table[op];
        char text[512];
        if (row->kind == SK_COMPARE || row->kind == SK_LOGIC || row->kind == SK_INDEX)
            continue;
        scalar_text(text, sizeof text, row);
        if (row->kind == SK_SAME || strcmp(row->name, "floor") == 0 || strcmp(row->name, "i32") == 0)
            continue; /* no gradient: see none_passes */
        assert_int_equal(check_text(text, "f", plain(op + 1)), 0);
    }
}

static void negative_arguments(void **state)
{
    (void)state;
    const char *const functions[] = {"tanh", "sigmoid", "silu", "gelu", "relu", "abs", "exp", "floor", "-"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "moe 1\ndim N\nkernel f(in x: f32[N], out y: f32[N]) { y[n] = x[n] * x[n] + %s(3 * x[n]) }\n"
                 "derive (f_fwd, f_bwd) from f wrt x\n",
                 functions[i]);
        assert_int_equal(check_text(text, "f", plain(i)), 0);
    }
}

/* ---- the kernels of the language page ---- */

#define DECLARATIONS                                                                        \
    "moe 1\ndim T\ndim K <= 64\ndim E\ndim H, F\ndim B, S, N, D, V\ngroup R : E rows T*K\n" \
    "fn silu(x) = x / (1 + exp(-x))\n"

static const char ffn[] =
    DECLARATIONS "kernel ffn(in x: bf16[T, H], in rt: route[T, K -> R], in p: f32[T, K],\n"
                 "           in wg, wu: bf16[E, H, F], in wd: bf16[E, F, H], out y: bf16[T, H]) {\n"
                 "  xp[r, h] = x[rt.token(r), h]\n"
                 "  g[r, f]  = sum(h) xp[r, h] * wg[@r, h, f]\n"
                 "  u[r, f]  = sum(h) xp[r, h] * wu[@r, h, f]\n"
                 "  a[r, f]  = bf16(silu(g[r, f]) * u[r, f])\n"
                 "  o[r, h]  = sum(f) a[r, f] * wd[@r, f, h]\n"
                 "  y[t, h]  = bf16(sum(k) p[t, k] * o[rt.row(t, k), h])\n"
                 "}\n";

static const Size ffn_sizes[] = {{"T", 5}, {"K", 2}, {"E", 3}, {"H", 4}, {"F", 3}, {NULL, 0}};

static void routed_experts(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "derive (ffn_fwd, ffn_bwd) from ffn wrt x, p, wg +=, wu +=, wd += save g as bf16, u as bf16\n",
        "derive (ffn_fwd, ffn_bwd) from ffn wrt x, p, wg, wu, wd\n",
        "derive (ffn_fwd, ffn_bwd) from ffn wrt wd +=, x save xp as bf16, a as bf16, o as f32, y as bf16\n",
        "derive (ffn_fwd, ffn_bwd) from ffn wrt x, wg save g as f32, u as f32 cotangents f32\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s", ffn, requests[i]);
        GradientCheck g = plain(i + 1);
        g.sizes = ffn_sizes;
        assert_int_equal(check_text(text, "ffn", g), 0);
    }
}

/* What Module.pairs tells of a request. */
static void pair_of_request(void **state)
{
    (void)state;
    char text[2048];
    snprintf(text, sizeof text, "%s%s", ffn,
             "derive (ffn_fwd, ffn_bwd) from ffn wrt x, wg += save g as bf16, y as bf16\n");
    Program p = program_read(text);
    program_passes(&p, "derive");
    assert_int_equal(p.m->pairs.len, 1);
    const DerivedPair *pair = &p.m->pairs.at[0];
    assert_string_equal(pair->from, "ffn");
    assert_string_equal(pair->forward, "ffn_fwd");
    assert_string_equal(pair->backward, "ffn_bwd");
    assert_null(pair->later);
    assert_int_equal(pair->saved.len, 2);
    assert_string_equal(pair->saved.at[1].local, "y");
    assert_string_equal(pair->saved.at[1].param, "y");
    assert_int_equal(pair->cotangents.len, 1);
    assert_string_equal(pair->cotangents.at[0].output, "y");
    assert_string_equal(pair->cotangents.at[0].param, "d_y");
    assert_int_equal(pair->gradients.len, 2);
    assert_string_equal(pair->gradients.at[0].input, "x");
    assert_string_equal(pair->gradients.at[0].param, "d_x");
    assert_int_equal(pair->gradients.at[0].mode, GRAD_WRITE);
    assert_int_equal(pair->gradients.at[1].mode, GRAD_ADD);
    assert_int_equal(pair->handed.len, 0);
    program_free(&p);
}

/* The backward of the page's example is made of the products that the cube computes, in its type. */
static void routed_experts_shape(void **state)
{
    (void)state;
    char text[2048];
    snprintf(text, sizeof text, "%s%s", ffn,
             "derive (ffn_fwd, ffn_bwd) from ffn wrt x, p, wg +=, wu +=, wd += save g as bf16, u as bf16\n");
    Program p = program_read(text);
    program_passes(&p, "dce");
    assert_int_equal(p.diags->errors, 0);
    Text t = {.arena = p.arena};
    ir_print(p.m, program_kernel(&p, "ffn_bwd"), &t);
    static const char *const lines[] = {
        "d_o[r, h] = bf16(d_y[rt.token(r), h] * p[rt.token(r), rt.slot(r)])",
        "d_a_sum[r, f] = sum(h) d_y[rt.token(r), h] * wd[@r, f, h]",
        "d_a[r, f] = d_a_sum[r, f] * p[rt.token(r), rt.slot(r)]",
        "d_xp[r, h] = sum(f) d_u[r, f] * wu[@r, h, f] + sum(f) d_g[r, f] * wg[@r, h, f]",
        "sum(k where rt.row(t, k) >= 0) d_xp[rt.row(t, k), h]",
        "d_p[t, k] = if(rt.row(t, k) >= 0, sum(f) a[rt.row(t, k), f] * d_a_sum[rt.row(t, k), f], 0.0)",
        "d_wg[e, h, f] += sum(r where @r == e) d_g[r, f] * xp[r, h]",
        "d_wd[e, f, h] += sum(r where @r == e) d_o[r, h] * a[r, f]",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text_string(&t), lines[i]))
            fail_msg("no line `%s` in\n%s", lines[i], text_string(&t));
    program_free(&p);
}

static void norm(void **state)
{
    (void)state;
    const char *text =
        DECLARATIONS "kernel rmsnorm(in x: bf16[T, H], in w: f32[H], out y: bf16[T, H]) {\n"
                     "  s[t]    = rsqrt(sum(h) x[t, h] * x[t, h] / H + 0.00001)\n"
                     "  y[t, h] = bf16(x[t, h] * s[t] * w[h])\n"
                     "}\n"
                     "derive (rmsnorm_fwd, rmsnorm_bwd) from rmsnorm wrt x, w += save s as f32\n";
    assert_int_equal(check_text(text, "rmsnorm", plain(3)), 0);
}

#define ROUTER                                                                                 \
    DECLARATIONS                                                                               \
    "kernel router(in x: bf16[T, H], in w: bf16[H, E], out p: f32[T, K], out id: i32[T, K],\n" \
    "              out rt: route[T, K -> R]) {\n"                                              \
    "  s[t, e] = sum(h) x[t, h] * w[h, e]\n"                                                   \
    "  m[t]    = max(e) s[t, e]\n"                                                             \
    "  q[t, e] = exp(s[t, e] - stop(m[t]))\n"                                                  \
    "  c[t, e] = q[t, e] / (sum(e2) q[t, e2])\n"                                               \
    "  p[t, k], id[t, k] = top(e) c[t, e]\n"                                                   \
    "  rt = route(id)\n"                                                                       \
    "}\n"

static void router(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "derive (router_fwd, router_bwd) from router wrt x, w +=\n",
        "derive (router_fwd, router_bwd) from router wrt x, w save s as f32, id as i32\n",
        "derive (router_fwd, router_bwd) from router wrt x, w save p as f32\n",
        "derive (router_fwd, router_bwd) from router wrt x, w save id as i32, c as f32, p as f32\n",
    };
    static const Size sizes[] = {{"T", 5}, {"K", 2}, {"E", 4}, {"H", 3}, {NULL, 0}};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s", ROUTER, requests[i]);
        GradientCheck g = plain(i + 1);
        g.sizes = sizes;
        assert_int_equal(check_text(text, "router", g), 0);
    }
}

/* One kernel that routes and computes: rows, choices and route are recomputed or saved. */
static void router_and_experts(void **state)
{
    (void)state;
    const char *kernel = DECLARATIONS
        "kernel layer(in x: f32[T, H], in w: f32[H, E], in v: f32[E, H, F], out y: f32[T, F]) {\n"
        "  s[t, e] = sum(h) x[t, h] * w[h, e]\n"
        "  p[t, k: K], id[t, k] = top(e) s[t, e]\n"
        "  rt = route(id -> R)\n"
        "  o[r, f] = sum(h) x[rt.token(r), h] * v[@r, h, f]\n"
        "  y[t, f] = sum(k) sigmoid(p[t, k]) * o[rt.row(t, k), f]\n"
        "}\n";
    static const char *const requests[] = {
        "derive (layer_fwd, layer_bwd) from layer wrt x, w, v\n",
        "derive (layer_fwd, layer_bwd) from layer wrt x, v save id as i32\n",
        "derive (layer_fwd, layer_bwd) from layer wrt x, w save o as f32, p as f32\n",
    };
    static const Size sizes[] = {{"T", 5}, {"K", 2}, {"E", 4}, {"H", 3}, {"F", 2}, {NULL, 0}};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s", kernel, requests[i]);
        GradientCheck g = plain(i + 1);
        g.sizes = sizes;
        assert_int_equal(check_text(text, "layer", g), 0);
    }
}

static void attention(void **state)
{
    (void)state;
    const char *text = DECLARATIONS
        "kernel attention(in q, k, v: bf16[B, S, N, D], out o: bf16[B, S, N, D]) {\n"
        "  s[b, n, i, j] = sum(d) q[b, i, n, d] * k[b, j, n, d] / sqrt(D)\n"
        "  m[b, n, i]    = max(j where j <= i) s[b, n, i, j]\n"
        "  e[b, n, i, j] = exp(s[b, n, i, j] - stop(m[b, n, i]))\n"
        "  z[b, n, i]    = sum(j where j <= i) e[b, n, i, j]\n"
        "  o[b, i, n, d] = bf16((sum(j where j <= i) bf16(e[b, n, i, j]) * v[b, j, n, d]) / z[b, n, i])\n"
        "}\n"
        "derive (attention_fwd, attention_bwd) from attention wrt q, k, v save m as f32, z as f32\n";
    static const Size sizes[] = {{"B", 2}, {"S", 4}, {"N", 2}, {"D", 3}, {NULL, 0}};
    GradientCheck g = plain(4);
    g.sizes = sizes;
    assert_int_equal(check_text(text, "attention", g), 0);
}

static void cross_entropy(void **state)
{
    (void)state;
    const char *text =
        DECLARATIONS "kernel xent(in x: bf16[T, H], in w: bf16[V, H], in y: i32[T], out loss: f32[T]) {\n"
                     "  s[t, v] = sum(h) x[t, h] * w[v, h]\n"
                     "  m[t]    = max(v) s[t, v]\n"
                     "  z[t]    = sum(v) exp(s[t, v] - stop(m[t]))\n"
                     "  loss[t] = log(z[t]) + stop(m[t]) - s[t, y[t]]\n"
                     "}\n"
                     "derive (xent_fwd, xent_bwd) from xent wrt x, w +=\n";
    static const Size sizes[] = {{"T", 4}, {"V", 5}, {"H", 3}, {NULL, 0}};
    GradientCheck g = plain(5);
    g.sizes = sizes;
    g.below = 5;
    assert_int_equal(check_text(text, "xent", g), 0);
}

/* ---- rules ---- */

static void small_kernels(void **state)
{
    (void)state;
    static const struct {
        const char *signature, *body, *wrt;
    } kernels[] = {
        /* gathers, diagonals, constants, shifts */
        {"in x: f32[V, H], in id: i32[T], out y: f32[T, H]", "y[t, h] = x[id[t], h] * x[id[t], h]", "x"},
        {"in x: f32[T, T], out y: f32[T]", "y[t] = x[t, t] * x[t, t]", "x"},
        {"in x: f32[T, 2], out y: f32[T]", "y[t] = x[t, 0] * x[t, 1]", "x"},
        {"in x: f32[S], out y: f32[S]", "y[i] = x[i] * if(i >= 1, x[i - 1], 0.5)", "x"},
        {"in x: f32[S], in w: f32[D], out y: f32[S]", "y[i] = sum(j where i + j < S) x[i + j] * w[j]",
         "x, w"},
        {"in x: f32[S], out y: f32[S]", "y[i] = x[S - 1 - i] * x[i]", "x"},
        {"in x: f32[2 * S], out y: f32[S]", "y[i] = x[2 * i] * x[2 * i + 1]", "x"},
        {"in x: f32[S * D], out y: f32[S, D]", "y[i, d] = sin2(x[i * D + d])", "x"},
        {"in x: f32[T], out y: f32[T, 2]", "y[t, 0] = x[t] * x[t]  y[t, 1] = exp(x[t])", "x"},
        {"in x: f32[T], out y: f32", "y = sum(t) x[t] * x[t]", "x"},
        {"in x: f32, out y: f32[T]", "y[t] = x * x * t", "x"},
        /* max, min, several indices, empty ranges */
        {"in x: f32[T, H], out y: f32[T]", "y[t] = max(h) x[t, h]", "x"},
        {"in x: f32[T, H], out y: f32", "y = max(t, h) x[t, h]", "x"},
        {"in x: f32[T, H], out y: f32[T]", "y[t] = exp(min(h where h <= t) x[t, h] * x[t, h])", "x"},
        {"in x: f32[S, S], out y: f32[S]", "y[i] = tanh(max(j where j < i) x[i, j])", "x"},
        {"in x: f32[T, H], out y: f32[T]", "m[t] = max(h) x[t, h]  y[t] = m[t] * x[t, 0]", "x"},
        /* nested reductions, reductions that others share, products of sums */
        {"in x: f32[T, H], in w: f32[H, E], out y: f32[T]",
         "y[t] = log(sum(e) exp(sum(h) x[t, h] * w[h, e]))", "x, w"},
        {"in x: f32[T, H], out y: f32[T, H]", "y[t, h] = x[t, h] / sqrt(sum(j) x[t, j] * x[t, j] + 1)", "x"},
        {"in x: f32[T, H], in w: f32[H], out y: f32[T]", "y[t] = (sum(h) x[t, h] * w[h]) * sum(h) w[h]",
         "x, w"},
        {"in x: bf16[T, H], in w: bf16[H, E], out y: f32[T, E]", "y[t, e] = tanh(sum(h) x[t, h] * w[h, e])",
         "x, w"},
        {"in x: f32[T], out y: f32[T, H]", "y[t, h] = sum(t2) x[t2]", "x"},
        /* guards */
        {"in x: f32[T, H], out y: f32[T]", "y[t] = sum(h where x[t, h] > 0) log(x[t, h])", "x"},
        {"in x: f32[T], out y: f32[T]", "y[t] = if(x[t] > 0, sqrt(x[t]), x[t] * x[t])", "x"},
        {"in x: f32[T], out y: f32[T]", "a[t] = if(x[t] > 0, log(x[t]), 0)  y[t] = a[t] * 2", "x"},
        {"in x: f32[T], in c: i32[T], out y: f32[T]",
         "y[t] = if(c[t] == 0 or c[t] == 2, relu(x[t]), abs(x[t]))", "x"},
        /* an output that is read again, a target used by two equations */
        {"in x: f32[T], out y: f32[T], out z: f32", "y[t] = x[t] * x[t]  z = sum(t) y[t] * x[t]", "x"},
        {"in x: f16[T], in w: f16[T], out y: f16[T]", "y[t] = f16(x[t] * w[t] + f16(sigmoid(x[t])))", "x, w"},
        /* routes */
        {"in x: f32[T, H], in rt: route[T, K -> R], out y: f32[R, H]",
         "y[r, h] = x[rt.token(r), h] * rt.slot(r)", "x"},
        {"in x: f32[R, H], in rt: route[T, K -> R], out y: f32[T, H]", "y[t, h] = sum(k) x[rt.row(t, k), h]",
         "x"},
        {"in x: f32[R, H], in rt: route[T, K -> R], out y: f32[T, K, H]", "y[t, k, h] = x[rt.row(t, k), h]",
         "x"},
        {"in x: f32[R], in rt: route[T, K -> R], out y: f32[E]", "y[e] = sum(r in e) x[r] * x[r]", "x"},
        {"in x: f32[E, H], in rt: route[T, K -> R], out y: f32[R, H]", "y[r, h] = x[@r, h]", "x"},
        {"in x: f32[C], in rt: route[T, K -> C], out y: f32[T]", "y[t] = sum(k) exp(x[rt.row(t, k)])", "x"},
        {"in x: f32[T, E], out y: f32[T, K]",
         "p[t, k: K], id[t, k] = top(e) x[t, e] * x[t, e]  y[t, k] = p[t, k] * x[t, id[t, k]]", "x"},
    };
    static const Size sizes[] = {{"T", 4}, {"K", 2}, {"E", 3}, {"H", 4},
                                 {"V", 5}, {"S", 5}, {"D", 3}, {NULL, 0}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 DECLARATIONS "group C : E capacity 2\nfn sin2(x) = x * tanh(x)\nkernel f(%s) {\n  %s\n}\n"
                              "derive (f_fwd, f_bwd) from f wrt %s\n",
                 kernels[i].signature, kernels[i].body, kernels[i].wrt);
        GradientCheck g = plain(i + 1);
        g.sizes = sizes;
        assert_int_equal(check_text(text, "f", g), 0);
    }
}

static Call run_backward(Program *p, const double *x, int64_t n)
{
    program_passes(p, "dce");
    if (p->diags->errors)
        fail_msg("%s", diag_text(p->diags, p->arena));
    Call b = call_new(p->arena, program_kernel(p, "f_bwd"), (Size[]){{"T", n}, {NULL, 0}}, 1, 1);
    for (int64_t i = 0; i < n; i++) {
        b.args[call_param(&b, "x")].data[i] = x[i];
        b.args[call_param(&b, "d_y")].data[i] = 1;
    }
    call_run(&b, EVAL_REFERENCE);
    return b;
}

/* Where a value was not used no derivative is computed: the log of a negative number leaves no NaN behind. */
static void no_zero_masks(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "y[t] = if(x[t] > 0, log(x[t]), 0)",
        "a[t] = log(x[t])  y[t] = if(x[t] > 0, a[t], 0)",
        "a[t] = 1 / x[t]  b[t] = log(a[t])  y[t] = sum(i where i == t and x[i] > 0) b[i]",
        "y[t] = sqrt(relu(x[t]) + x[t] * 0 + 1)",
    };
    const double x[] = {-1, 0, 2, -0.0};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) { %s }\nderive (f_fwd, f_bwd) from f "
                 "wrt x\n",
                 bodies[i]);
        Program p = program_read(text);
        Call b = run_backward(&p, x, 4);
        for (int64_t n = 0; n < 4; n++)
            assert_true(isfinite(b.args[call_param(&b, "d_x")].data[n]));
        program_free(&p);
    }
}

/* At ties max passes its gradient to the lowest index, relu and abs have derivative 0 at 0. */
static void ties(void **state)
{
    (void)state;
    Program p = program_read("moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) {\n"
                             "  y[t] = (max(i) x[i]) + 10 * relu(x[t]) + 10 * abs(x[t]) }\n"
                             "derive (f_fwd, f_bwd) from f wrt x\n");
    const double x[] = {0, -1, 2, 2};
    Call b = run_backward(&p, x, 4);
    const double *d = b.args[call_param(&b, "d_x")].data;
    assert_true(d[0] == 0 && d[1] == -10 && d[2] == 24 && d[3] == 20);
    program_free(&p);
}

/* Saving changes no bit of the forward. */
static void forward_bits(void **state)
{
    (void)state;
    char text[2048];
    snprintf(text, sizeof text, "%s%s", ffn,
             "derive (ffn_fwd, ffn_bwd) from ffn wrt x save g as bf16, u as f32, xp as bf16\n");
    Program p = program_read(text);
    program_passes(&p, "dce");
    assert_int_equal(p.diags->errors, 0);
    Call k = call_new(p.arena, program_kernel(&p, "ffn"), ffn_sizes, 3, 9);
    Call f = call_new(p.arena, program_kernel(&p, "ffn_fwd"), ffn_sizes, 3, 9);
    call_run(&k, EVAL_REFERENCE);
    call_run(&f, EVAL_REFERENCE);
    int y = call_param(&k, "y");
    assert_int_equal(y, call_param(&f, "y"));
    assert_memory_equal(k.args[y].data, f.args[y].data, sizeof(double) * (size_t)k.elements[y]);
    assert_int_equal(call_param(&f, "g"), y + 1);
    assert_int_equal(call_param(&f, "u"), y + 2);
    assert_int_equal(call_param(&f, "xp"), y + 3);
    program_free(&p);
}

/* Signature of the backward: inputs, saved values, cotangents of outputs, gradients in the order asked for.
 */
static void signature(void **state)
{
    (void)state;
    char text[2048];
    snprintf(text, sizeof text, "%s%s", ffn,
             "derive (ffn_fwd, ffn_bwd) from ffn wrt wd +=, x save u as bf16, y as bf16, g as f32\n");
    Program p = program_read(text);
    program_passes(&p, "derive");
    assert_int_equal(p.diags->errors, 0);
    const Kernel *b = program_kernel(&p, "ffn_bwd");
    static const char *const names[] = {"x", "rt", "p", "wg",  "wu",   "wd",
                                        "u", "y",  "g", "d_y", "d_wd", "d_x"};
    assert_int_equal(b->params.len, sizeof names / sizeof *names);
    Call c = call_new(p.arena, b, ffn_sizes, 3, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(call_param(&c, names[i]), i);
    const Tensor *d_wd = &b->tensors.at[b->params.at[10].id], *d_x = &b->tensors.at[b->params.at[11].id];
    assert_true(d_wd->role == ROLE_INOUT && d_wd->elem == EL_F32);
    assert_true(d_x->role == ROLE_OUT && d_x->elem == EL_BF16);
    program_free(&p);
}

static void check_params(const Kernel *k, const char *const *names, uint32_t n)
{
    Call c = call_new(k->module->arena, k, ffn_sizes, 3, 1);
    assert_int_equal(k->params.len, n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(call_param(&c, names[i]), i);
}

/* Two backward kernels: the same inputs, then gradients and what is handed over, or the other way round. */
static void signature_of_two(void **state)
{
    (void)state;
    char text[2048];
    snprintf(text, sizeof text, "%s%s", ffn,
             "derive (ffn_fwd, ffn_dx, ffn_dw) from ffn wrt x, p as f32 then wg +=, wd save g as bf16, u as "
             "bf16\n");
    Program p = program_read(text);
    program_passes(&p, "derive");
    assert_int_equal(p.diags->errors, 0);
    static const char *const first[] = {"x", "rt", "p",   "wg",  "wu",  "wd",
                                        "g", "u",  "d_y", "d_x", "d_p", "d_g"};
    static const char *const later[] = {"x", "rt", "p",   "wg",  "wu",   "wd",
                                        "g", "u",  "d_y", "d_g", "d_wg", "d_wd"};
    const Kernel *dx = program_kernel(&p, "ffn_dx"), *dw = program_kernel(&p, "ffn_dw");
    check_params(dx, first, sizeof first / sizeof *first);
    check_params(dw, later, sizeof later / sizeof *later);
    const Tensor *given = &dx->tensors.at[dx->params.at[11].id],
                 *taken = &dw->tensors.at[dw->params.at[9].id];
    assert_true(given->role == ROLE_OUT && given->elem == EL_BF16);
    assert_true(taken->role == ROLE_IN && taken->elem == EL_BF16);
    const DerivedPair *pair = ir_find_pair(p.m, program_kernel(&p, "ffn_fwd")->name);
    assert_string_equal(pair->later, "ffn_dw");
    assert_int_equal(pair->handed.len, 1);
    assert_string_equal(pair->handed.at[0], "d_g");
    assert_int_equal(pair->gradients.at[1].mode, GRAD_WRITE_F32);
    assert_false(pair->gradients.at[1].later);
    assert_true(pair->gradients.at[3].later);
    program_free(&p);
}

static void pass_of_one_output(void **state)
{
    (void)state;
    Program p = program_read(
        "moe 1\ndim T\nkernel f(in x, w: f32[T], out y, z: f32[T]) { y[t] = w[t] * 2 z[t] = x[t] + w[t] }\n"
        "derive (f_fwd, f_bwd) from f wrt w, x pass\n");
    program_passes(&p, "derive");
    assert_int_equal(p.diags->errors, 0);
    const struct PairGradient *x = &p.m->pairs.at[0].gradients.at[1];
    assert_string_equal(x->input, "x");
    assert_string_equal(x->output, "z");
    assert_null(x->param);
    assert_int_equal(x->mode, GRAD_PASS);
    assert_int_equal(program_kernel(&p, "f_bwd")->params.len, 5);
    program_free(&p);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *kernel, *request, *code;
    } cases[] = {
        {"in x: f32[T], out y: f32[T]) { y[t] = x[t] }", "wrt y", "E0602"},
        {"in x: f32[T], out y: f32[T]) { y[t] = x[t] }", "wrt q", "E0602"},
        {"in x: f32[T], in i: i32[T], out y: f32[T]) { y[t] = x[t] * i[t] }", "wrt i", "E0601"},
        {"in x: f32[T], inout s: f32[T], out y: f32[T]) { y[t] = x[t] s[t] += x[t] }", "wrt x", "E0604"},
        {"in x: f32[T], out y: f32[T]) { y[t] = x[t] }", "wrt x save q as f32", "E0605"},
        {"in x: f32[T], out y: i32[T]) { y[t] = i32(x[t]) }", "wrt x", "E0607"},
        {"in x, w: f32[T], out y: f32[T]) { y[t] = x[t] * stop(w[t]) }", "wrt x, w", "E0608"},
        {"in x, w: f32[T], out y: f32[T]) { y[t] = if(w[t] > 0, x[t], floor(w[t])) }", "wrt w", "E0608"},
        {"in x, w: f32[T], out y: f32[T]) { y[t] = x[t] * w[t] }", "wrt x, w pass", "E0609"},
        {"in x: f32[T], out y: f32[T]) { y[t] = if(t > 0, x[t], 0) }", "wrt x pass", "E0609"},
        {"in x: f32[T], out y: f32) { y = sum(t) x[t] }", "wrt x pass", "E0609"},
        {"in x: f32[T], in w: f32[T, T], out y: f32[T]) { y[t] = x[t] + (sum(u) w[t, u] * x[u]) }",
         "wrt w, x pass", "E0609"},
        {"in x, w: f32[T], out y: f32[T]) { y[t] = x[t] + stop(w[t]) }", "wrt x, w pass", "E0608"},
        {"in x, d_y: f32[T], out y: f32[T]) { y[t] = x[t] * d_y[t] }", "wrt x", "E0209"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, "moe 1\ndim T\nkernel f(%s\nderive (f_fwd, f_bwd) from f %s\n",
                 cases[i].kernel, cases[i].request);
        Program p = program_read(text);
        program_passes(&p, "derive");
        if (p.diags->errors != 1 || strcmp(diag_code_name(p.diags->list.at[0].code), cases[i].code) != 0)
            fail_msg("%s expected for\n%s\n%s", cases[i].code, text, diag_text(p.diags, p.arena));
        program_free(&p);
    }
}

/* Choices inside choices: linear, not one sweep for every path. */
static void nested_choices(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "leaky(leaky(leaky(leaky(leaky(leaky(leaky(leaky(leaky(leaky(leaky(leaky(leaky(leaky(leaky(leaky("
        "x[t] + 0.1)))))))))))))))) + x[t]",
        "either(either(either(either(either(either(either(either(either(either(either(either(either(either("
        "x[t], c[t]), c[t]), c[t]), c[t]), c[t]), c[t]), c[t]), c[t]), c[t]), c[t]), c[t]), c[t]), c[t]), "
        "c[t])",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "moe 1\ndim T\nfn leaky(x) = if(x > 0, x, 0.9 * x)\nfn either(x, c) = if(c > 0.2, tanh(x), "
                 "1.1 * x)\n"
                 "kernel f(in x: f32[T], in c: f32[T], out y: f32[T]) { y[t] = %s }\n"
                 "derive (f_fwd, f_bwd) from f wrt x\n",
                 bodies[i]);
        GradientCheck g = plain(1);
        Program p = program_read(text);
        program_passes(&p, "dce");
        assert_int_equal(p.diags->errors, 0);
        check_gradients(&g, &p, "f_fwd",
                        "f_bwd"); /* the forward as text would be as long as its paths are many */
        check_round_trip(&p, "f_bwd", &g);
        assert_true(program_kernel(&p, "f_bwd")->eqs.len < 80);
        assert_true(arena_bytes(p.arena) < 64 << 20);
        program_free(&p);
    }
}

/* Locals that have the names of cotangents step aside. */
static void names_step_aside(void **state)
{
    (void)state;
    const char *text = "moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) {\n"
                       "  d_x[t] = x[t] * x[t]  d_y[t] = exp(d_x[t])  y[t] = d_y[t] + d_x[t] }\n"
                       "derive (f_fwd, f_bwd) from f wrt x\n";
    assert_int_equal(check_text(text, "f", plain(1)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_function),
        cmocka_unit_test(negative_arguments),
        cmocka_unit_test(small_kernels),
        cmocka_unit_test(routed_experts),
        cmocka_unit_test(pair_of_request),
        cmocka_unit_test(routed_experts_shape),
        cmocka_unit_test(norm),
        cmocka_unit_test(router),
        cmocka_unit_test(router_and_experts),
        cmocka_unit_test(attention),
        cmocka_unit_test(cross_entropy),
        cmocka_unit_test(no_zero_masks),
        cmocka_unit_test(ties),
        cmocka_unit_test(forward_bits),
        cmocka_unit_test(signature),
        cmocka_unit_test(signature_of_two),
        cmocka_unit_test(pass_of_one_output),
        cmocka_unit_test(refusals),
        cmocka_unit_test(names_step_aside),
        cmocka_unit_test(nested_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
