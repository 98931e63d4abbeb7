/* What a program that records calls asks the public API: what kernels take, at which sizes, what is compiled, and with
 * which memory they work. */
#include "moec/moec.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PROGRAM[] =
    "moe 1\n"
    "dim T, K, E, H\n"
    "group R : E rows T*K\n"
    "kernel f(in x: bf16[T, H], in w: bf16[H, E] packed both, in b: f32[E], in s: f32,\n"
    "         out y: f32[T, E]) {\n"
    "  u[t, e] = sum(h) x[t, h] * w[h, e]\n  y[t, e] = b[e] + s * silu(u[t, e])\n"
    "}\n"
    "derive (f_fwd, f_bwd) from f wrt x, w += save u as f32\n"
    "kernel g(in rt: route[T, K -> R], inout n: i32[2*E], out c: f32[R]) {\n"
    "  c[r] = 1.0\n"
    "  n[i] += 1\n"
    "}\n"
    "kernel add(in a, b: f32[T], out y: f32[T]) { y[t] = a[t] + b[t] }\n"
    "derive (add_fwd, add_bwd) from add wrt a\n"
    "kernel unused(in id: i32[T, K], out y: f32[T]) {\n  rt = route(id -> R)\n  y[t] = 1\n}\n"
    "kernel never(in id: i32[T, K], out y: f32[T]) {\n  rt = route(id -> R)\n  u[r: R] = 1.0\n"
    "  y[t] = 1 + sum(k where t > T) u[rt.row(t, k)]\n}\n";

enum { T = 2, K = 1, E = 3, H = 4 };

typedef struct Api {
    moec_context *context;
    moec_module *module;
    moe_ctx *ctx;
} Api;

static moec_module *compile(moec_context *c, const moec_options *o)
{
    moec_module *m = NULL;
    if (moec_compile_text(c, "program.moe", PROGRAM, strlen(PROGRAM), o, &m))
        print_error("%s", moec_error_text(c));
    assert_non_null(m);
    return m;
}

static void refused_to_compile(moec_context *c, const moec_options *o, const char *words)
{
    moec_module *m = NULL;
    assert_int_equal(moec_compile_text(c, "program.moe", PROGRAM, strlen(PROGRAM), o, &m), 1);
    assert_null(m);
    if (!strstr(moec_error_text(c), words))
        fail_msg("'%s' does not say '%s'", moec_error_text(c), words);
}

static int set_up(void **state)
{
    static Api api;
    moec_options o = {.no_cache = 1};
    api.context = moec_context_new();
    api.ctx = moe_ctx_new(2);
    assert_true(api.context && api.ctx);
    api.module = compile(api.context, &o);
    *state = &api;
    return 0;
}

static int tear_down(void **state)
{
    Api *api = *state;
    moe_ctx_free(api->ctx);
    moec_module_free(api->module);
    moec_context_free(api->context);
    return 0;
}

static void says(const Api *api, const char *words)
{
    if (!strstr(moe_ctx_message(api->ctx), words))
        fail_msg("'%s' does not say '%s'", moe_ctx_message(api->ctx), words);
}

/* ---- what a kernel takes ---- */

typedef struct Expected {
    const char *name;
    moec_role role;
    moec_type type;
    int rank, packed, read;
    int64_t shape[4];
} Expected;

static void expect_params(const moec_kernel *k, const Expected *want, size_t n, const int64_t *dims)
{
    assert_non_null(k);
    assert_int_equal(moec_kernel_params(k), n);
    for (size_t i = 0; i < n; i++) {
        int64_t shape[MOEC_MAX_RANK];
        assert_int_equal(moec_kernel_param_index(k, want[i].name), i);
        assert_int_equal(moec_kernel_param_role(k, i), want[i].role);
        assert_int_equal(moec_kernel_param_type(k, i), want[i].type);
        assert_int_equal(moec_kernel_param_packed(k, i), want[i].packed);
        assert_int_equal(moec_kernel_param_read(k, i), want[i].read);
        assert_int_equal(moec_kernel_param_rank(k, i), want[i].rank);
        assert_int_equal(moec_kernel_param_shape(k, i, dims, shape), 0);
        for (int d = 0; d < want[i].rank; d++)
            assert_int_equal(shape[d], want[i].shape[d]);
    }
    assert_true(moec_kernel_param_index(k, "nothing") == (size_t)-1);
}

static void expect_all_params(const moec_module *m)
{
    static const Expected f[] = {{"x", MOEC_IN, MOEC_BF16, 2, 0, 1, {T, H}},
                                 {"w", MOEC_IN, MOEC_BF16, 2, 2, 1, {H, E}},
                                 {"b", MOEC_IN, MOEC_F32, 1, 0, 1, {E}},
                                 {"s", MOEC_IN, MOEC_F32, 0, 0, 1, {0}},
                                 {"y", MOEC_OUT, MOEC_F32, 2, 0, 0, {T, E}}};
    static const Expected g[] = {{"rt", MOEC_IN, MOEC_F32, 4, 0, 1, {T, K, E, T * K}},
                                 {"n", MOEC_INOUT, MOEC_I32, 1, 0, 1, {2 * E}},
                                 {"c", MOEC_OUT, MOEC_F32, 1, 0, 0, {T * K}}};
    static const Expected bwd[] = {{"a", MOEC_IN, MOEC_F32, 1, 0, 0, {T}},
                                   {"b", MOEC_IN, MOEC_F32, 1, 0, 0, {T}},
                                   {"d_y", MOEC_IN, MOEC_F32, 1, 0, 1, {T}},
                                   {"d_a", MOEC_OUT, MOEC_F32, 1, 0, 0, {T}}};
    expect_params(moec_module_kernel(m, "f"), f, 5, (int64_t[]){T, E, H});
    expect_params(moec_module_kernel(m, "g"), g, 3, (int64_t[]){T, K, E});
    expect_params(moec_module_kernel(m, "add_bwd"), bwd, 4, (int64_t[]){T});
}

static void a_kernel_tells_what_it_takes(void **state)
{
    const Api *api = *state;
    moec_options interpreted = {.interpret = 1};
    expect_all_params(api->module);
    moec_module *m = compile(api->context, &interpreted);
    expect_all_params(m);
    moec_module_free(m);
    int64_t shape[MOEC_MAX_RANK];
    const moec_kernel *g = moec_module_kernel(api->module, "g");
    assert_int_equal(moec_kernel_param_shape(g, 1, (int64_t[]){1, 1, INT64_MAX}, shape), 1);
    assert_int_equal(moec_kernel_param_elements(g, 0, (int64_t[]){T, K, E}), -1);
}

/* A parameter that is not read may be missing, or be the memory of an output. */
static void calls_without_what_they_do_not_read(const moec_module *m, moe_ctx *ctx)
{
    const moec_kernel *k = moec_module_kernel(m, "add_bwd");
    float d_y[T] = {3, 5}, d_a[T] = {0};
    DLTensor none = {.device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = (int64_t[]){T}};
    DLTensor a = none, in = none, out = none;
    a.data = d_a, in.data = d_y, out.data = d_a;
    moec_arg args[] = {{.kind = MOEC_TENSOR, .tensor = &a},
                       {.kind = MOEC_TENSOR, .tensor = &none},
                       {.kind = MOEC_TENSOR, .tensor = &in},
                       {.kind = MOEC_TENSOR, .tensor = &out}};
    assert_int_equal(moec_kernel_call(k, ctx, args, 4), MOE_OK);
    assert_true(d_a[0] == 3 && d_a[1] == 5);
    args[2].tensor = &none;
    assert_int_equal(moec_kernel_call(k, ctx, args, 4), MOE_NULL);
}

/* The text reads id, under a condition that is never true: what passes prove of that changes no signature, and whoever
 * runs the text as it stands gets the values. */
static void reads_what_the_text_reads(const moec_module *m, moe_ctx *ctx)
{
    const moec_kernel *k = moec_module_kernel(m, "never");
    int64_t dims[] = {1, 1, 0}; /* T, K, and no expert */
    int32_t id = -1;
    float y = 0;
    void *args[] = {&id, &y};
    assert_int_equal(moec_kernel_param_read(k, 0), 1);
    moe_entry *entry = moec_kernel_entry(k);
    assert_int_equal(entry ? entry(ctx, dims, args) : moec_kernel_interpret(k, ctx, dims, args), MOE_OK);
    assert_float_equal(y, 1, 0);
}

/* No output depends on id, so no one asks whether what would stand in it are experts. */
static void refuses_nothing_unread(const moec_module *m, moe_ctx *ctx)
{
    const moec_kernel *k = moec_module_kernel(m, "unused");
    int64_t dims[] = {1, 1, 0}; /* T, K, and no expert */
    float y = 0;
    void *args[] = {NULL, &y};
    assert_int_equal(moec_kernel_param_read(k, 0), 0);
    moe_entry *entry = moec_kernel_entry(k);
    assert_int_equal(entry ? entry(ctx, dims, args) : moec_kernel_interpret(k, ctx, dims, args), MOE_OK);
    assert_float_equal(y, 1, 0);
}

static void what_is_not_read_may_be_missing(void **state)
{
    const Api *api = *state;
    moec_options interpreted = {.interpret = 1};
    moec_module *m = compile(api->context, &interpreted);
    calls_without_what_they_do_not_read(api->module, api->ctx);
    calls_without_what_they_do_not_read(m, api->ctx);
    refuses_nothing_unread(api->module, api->ctx);
    refuses_nothing_unread(m, api->ctx);
    reads_what_the_text_reads(api->module, api->ctx);
    reads_what_the_text_reads(m, api->ctx);
    moec_module_free(m);
}

/* ---- pairs ---- */

static void expect_pairs(const moec_module *m)
{
    assert_int_equal(moec_module_pairs(m), 2);
    moec_pair f = moec_module_pair(m, 0), add = moec_module_pair(m, 1);
    assert_string_equal(f.from, "f");
    assert_string_equal(f.forward, "f_fwd");
    assert_string_equal(f.backward, "f_bwd");
    assert_null(f.later);
    assert_true(f.saved == 1 && f.cotangents == 1 && f.gradients == 2 && f.handed == 0);
    assert_string_equal(moec_module_saved(m, 0, 0).local, "u");
    assert_string_equal(moec_module_saved(m, 0, 0).param, "u");
    assert_string_equal(moec_module_cotangent(m, 0, 0).output, "y");
    assert_string_equal(moec_module_cotangent(m, 0, 0).param, "d_y");
    moec_gradient x = moec_module_gradient(m, 0, 0), w = moec_module_gradient(m, 0, 1);
    assert_string_equal(x.input, "x");
    assert_string_equal(x.param, "d_x");
    assert_true(!x.output && x.mode == MOEC_WRITE && !x.later);
    assert_string_equal(w.param, "d_w");
    assert_true(w.mode == MOEC_ADD);
    assert_null(moec_module_gradient(m, 0, 2).input);
    assert_string_equal(add.from, "add");
    assert_int_equal(add.saved, 0);
}

static void a_module_tells_what_derive_made(void **state)
{
    const Api *api = *state;
    moec_options interpreted = {.interpret = 1};
    expect_pairs(api->module);
    moec_module *m = compile(api->context, &interpreted);
    expect_pairs(m);
    moec_module_free(m);
}

/* Two backward kernels, a gradient that is passed, and cotangents that are handed over. */
static const char TWO_BACKWARDS[] =
    "moe 1\n"
    "dim T, H, F\n"
    "kernel f(in x: bf16[T, H], in r: f32[T, F], in wg, wu: bf16[H, F], out y: f32[T, F]) {\n"
    "  g[t, f] = sum(h) x[t, h] * wg[h, f]\n"
    "  u[t, f] = sum(h) x[t, h] * wu[h, f]\n"
    "  y[t, f] = r[t, f] + silu(g[t, f]) * u[t, f]\n"
    "}\n"
    "derive (f_fwd, f_dx, f_dw) from f wrt x as f32, r pass then wg +=, wu +=\n";

static void expect_gradient(moec_gradient g, const char *input, const char *param, moec_mode mode, int later)
{
    assert_string_equal(g.input, input);
    assert_true(g.mode == mode && g.later == later);
    assert_string_equal(param ? g.param : g.output, param ? param : "y");
    assert_true(!g.param == !param && !g.output == !!param);
}

static void two_backward_kernels_are_told_apart(void **state)
{
    const Api *api = *state;
    moec_options o = {.no_cache = 1, .kernels = "f_dw"};
    moec_module *m;
    assert_int_equal(moec_compile_text(api->context, "two.moe", TWO_BACKWARDS, strlen(TWO_BACKWARDS), &o, &m),
                     0);
    moec_pair p = moec_module_pair(m, 0);
    assert_string_equal(p.backward, "f_dx");
    assert_string_equal(p.later, "f_dw");
    assert_int_equal(p.gradients, 4);
    expect_gradient(moec_module_gradient(m, 0, 0), "x", "d_x", MOEC_WRITE_F32, 0);
    expect_gradient(moec_module_gradient(m, 0, 1), "r", NULL, MOEC_PASS, 0);
    expect_gradient(moec_module_gradient(m, 0, 2), "wg", "d_wg", MOEC_ADD, 1);
    expect_gradient(moec_module_gradient(m, 0, 3), "wu", "d_wu", MOEC_ADD, 1);
    assert_int_equal(p.handed, 2);
    for (size_t i = 0; i < p.handed; i++) {
        const char *name = moec_module_handed(m, 0, i);
        const moec_kernel *first = moec_module_kernel(m, p.backward), *later = moec_module_kernel(m, p.later);
        size_t out = moec_kernel_param_index(first, name), in = moec_kernel_param_index(later, name);
        assert_int_equal(moec_kernel_param_role(first, out), MOEC_OUT);
        assert_int_equal(moec_kernel_param_role(later, in), MOEC_IN);
        assert_int_equal(moec_kernel_param_type(first, out), moec_kernel_param_type(later, in));
        assert_int_equal(moec_kernel_param_read(later, in), 1);
    }
    assert_null(moec_module_handed(m, 0, p.handed));
    moec_module_free(m);
}

/* ---- sizes ---- */

static void dims_are_solved_from_shapes(void **state)
{
    const Api *api = *state;
    const moec_kernel *k = moec_module_kernel(api->module, "f");
    const int64_t x[] = {T, H}, w[] = {H, E}, wrong[] = {H + 1, E}, negative[] = {-1, E};
    const int64_t *shapes[5] = {x};
    int64_t dims[] = {-1, -1, -1};
    assert_int_equal(moec_kernel_solve_dims(k, api->ctx, shapes, dims), MOE_OK);
    assert_true(dims[0] == T && dims[1] == -1 && dims[2] == H);
    shapes[1] = w;
    assert_int_equal(moec_kernel_solve_dims(k, api->ctx, shapes, dims), MOE_OK);
    assert_true(dims[0] == T && dims[1] == E && dims[2] == H);
    dims[1] = E + 1;
    assert_int_equal(moec_kernel_solve_dims(k, api->ctx, shapes, dims), MOE_ARGUMENT);
    says(api, "'w' has 3 at axis 1, but E is 4 here");
    dims[1] = -1, shapes[1] = wrong;
    assert_int_equal(moec_kernel_solve_dims(k, api->ctx, shapes, dims), MOE_ARGUMENT);
    says(api, "'w' has 5 at axis 0, but H is 4 here");
    dims[2] = -1, shapes[0] = NULL, shapes[1] = negative;
    assert_int_equal(moec_kernel_solve_dims(k, NULL, shapes, dims), MOE_ARGUMENT);
    assert_int_equal(moec_kernel_solve_dims(k, api->ctx, shapes, dims), MOE_ARGUMENT);
    says(api, "'w' has a negative size at axis 0");
}

static void routes_determine_dims(void **state)
{
    const Api *api = *state;
    const moec_kernel *k = moec_module_kernel(api->module, "g");
    const int64_t route[] = {T, K, E, T * K}, rows[] = {T, K, E, T + 1}, n[] = {2 * E}, odd[] = {5};
    const int64_t *shapes[3] = {route};
    int64_t dims[] = {-1, -1, -1};
    assert_int_equal(moec_kernel_solve_dims(k, api->ctx, shapes, dims), MOE_OK);
    assert_true(dims[0] == T && dims[1] == K && dims[2] == E);
    shapes[0] = NULL, shapes[1] = n, dims[2] = -1;
    assert_int_equal(moec_kernel_solve_dims(k, api->ctx, shapes, dims), MOE_OK);
    assert_int_equal(dims[2], E);
    shapes[1] = odd;
    assert_int_equal(moec_kernel_solve_dims(k, api->ctx, shapes, dims), MOE_ARGUMENT);
    says(api, "2*E is 6");
    shapes[1] = NULL, shapes[0] = rows;
    assert_int_equal(moec_kernel_solve_dims(k, api->ctx, shapes, dims), MOE_ARGUMENT);
    says(api, "'rt' has 3 at rows, but T*K is 2 here");
}

/* ---- options ---- */

static void derive_is_given_beside_a_program(void **state)
{
    const Api *api = *state;
    char directory[] = "/tmp/moec-test-XXXXXX", command[64];
    assert_non_null(mkdtemp(directory));
    for (int round = 0; round < 3; round++) { /* the third one is from the cache */
        moec_options o = {.cache_dir = directory,
                          .derive = round ? "derive (h_fwd, h_bwd) from f wrt x +=" : NULL};
        moec_module *m = compile(api->context, &o);
        const moec_kernel *k = moec_module_kernel(m, "h_bwd");
        assert_int_equal(k != NULL, round > 0);
        assert_non_null(moec_module_kernel(m, "f_bwd"));
        if (k) {
            assert_int_equal(moec_kernel_param_role(k, moec_kernel_param_index(k, "d_x")), MOEC_INOUT);
            assert_true(moec_kernel_param_index(k, "d_w") == (size_t)-1);
        }
        moec_module_free(m);
    }
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    refused_to_compile(api->context, &(moec_options){.derive = "derive (h_fwd, h_bwd) from f wrt q"},
                       "<derive>:1:34: ");
    refused_to_compile(api->context, &(moec_options){.derive = "dim Q"}, "`derive` blocks only");
    refused_to_compile(api->context, &(moec_options){.derive = "derive (f_fwd, h) from f wrt x"}, "f_fwd");
}

static void only_wanted_kernels_become_code(void **state)
{
    const Api *api = *state;
    char directory[] = "/tmp/moec-test-XXXXXX", command[64];
    assert_non_null(mkdtemp(directory));
    for (int round = 0; round < 2; round++) {
        moec_options o = {.cache_dir = directory, .kernels = "add_bwd,g"};
        moec_module *m = compile(api->context, &o);
        const moec_kernel *add = moec_module_kernel(m, "add"), *wanted = moec_module_kernel(m, "add_bwd");
        assert_true(add && wanted && moec_module_kernel(m, "f") && moec_module_kernel(m, "g"));
        assert_true(moec_kernel_entry(wanted) && moec_kernel_function(wanted));
        assert_true(!moec_kernel_entry(add) && !moec_kernel_function(add));
        assert_int_equal(moec_kernel_workspace(add, (int64_t[]){T}), -1);
        expect_all_params(m);
        expect_pairs(m);
        calls_without_what_they_do_not_read(m, api->ctx);
        moec_arg args[3] = {{.kind = MOEC_TENSOR}};
        assert_int_equal(moec_kernel_call(add, api->ctx, args, 3), MOE_ARGUMENT);
        says(api, "add has no code");
        moec_module_free(m);
    }
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    refused_to_compile(api->context, &(moec_options){.no_cache = 1, .kernels = "g,ad"},
                       "there is no kernel 'ad'");
    moec_module *m = compile(api->context, &(moec_options){.interpret = 1, .kernels = "g"});
    calls_without_what_they_do_not_read(m, api->ctx);
    moec_module_free(m);
    m = compile(api->context, &(moec_options){.no_cache = 1, .kernels = ""});
    expect_all_params(m);
    moec_module_free(m);
}

/* ---- work space ---- */

static void *const UNTOUCHED = (void *)0x40;

static void a_caller_may_lend_work_space(void **state)
{
    const Api *api = *state;
    const moec_kernel *k = moec_module_kernel(api->module, "f");
    const int64_t dims[] = {64, 96, 64};
    int64_t bytes = moec_kernel_workspace(k, dims);
    uint16_t *x = calloc(64 * 64, 2), *w = aligned_alloc(64, (size_t)moec_kernel_param_bytes(k, 1, dims)),
             *rows = calloc(64 * 96, 2);
    float b[96], s = 1, *y = calloc(64 * 96, 4);
    for (int i = 0; i < 96; i++)
        b[i] = (float)i;
    assert_int_equal(moec_kernel_pack(k, 1, dims, rows, w), MOE_OK);
    void *args[] = {x, w, b, &s, y};
    assert_true(bytes > 64);
    size_t room = (size_t)(bytes + 63) / 64 * 64;
    char *memory = aligned_alloc(64, room + 64);
    memset(memory, 0x5a, room + 64);
    moe_ctx lent = {.work = memory, .work_bytes = -bytes, .message = api->ctx->message};
    assert_int_equal(moec_kernel_entry(k)(&lent, dims, args), MOE_OK);
    assert_true(lent.work == memory && lent.work_bytes == -bytes);
    assert_true(y[95] == 95 && memory[0] != 0x5a && memory[room] == 0x5a);

    lent.work_bytes = -64; /* the call may need less than bytes, which is for all threads */
    assert_int_equal(moec_kernel_entry(k)(&lent, dims, args), MOE_MEMORY);
    says(api, "bytes of work space are needed, the context lends");
    lent.work_bytes = -bytes, lent.work = memory + 32;
    assert_int_equal(moec_kernel_entry(k)(&lent, dims, args), MOE_MEMORY);
    says(api, "not aligned to 64 bytes");
    lent.work = NULL;
    assert_int_equal(moec_kernel_entry(k)(&lent, dims, args), MOE_MEMORY);
    free(memory), free(x), free(w), free(rows), free(y);
    moe_ctx *ctx = moe_ctx_new(1);
    ctx->work = UNTOUCHED, ctx->work_bytes = -1;
    moe_ctx_free(ctx); /* frees no memory of the caller's */
}

/* Blocks of one product are gone when the next one begins: threads need as much as the launch that needs most. */
static void launches_share_the_memory_of_threads(void **state)
{
    static const char text[] = "moe 1\n"
                               "dim T, H, F\n"
                               "kernel f32s(in x: f32[T, H], in y: f32[T, F], out w: f32[H, F]) {\n"
                               "  w[h, f] = sum(t) x[t, h] * y[t, f]\n"
                               "}\n"
                               "kernel halves(in a: bf16[T, H], in b: bf16[T, F], out v: f32[H, F]) {\n"
                               "  v[h, f] = sum(t) a[t, h] * b[t, f]\n"
                               "}\n"
                               "kernel both(in x: f32[T, H], in y: f32[T, F], in a: bf16[T, H],\n"
                               "            in b: bf16[T, F], out w: f32[H, F], out v: f32[H, F]) {\n"
                               "  w[h, f] = sum(t) x[t, h] * y[t, f]\n"
                               "  v[h, f] = sum(t) a[t, h] * b[t, f]\n"
                               "}\n";
    const Api *api = *state;
    moec_module *m;
    assert_int_equal(moec_compile_text(api->context, "both", text, sizeof text - 1, NULL, &m), MOE_OK);
    const int64_t sizes[] = {256, 512, 768};
    int64_t f32s = moec_kernel_workspace(moec_module_kernel(m, "f32s"), sizes),
            halves = moec_kernel_workspace(moec_module_kernel(m, "halves"), sizes),
            both = moec_kernel_workspace(moec_module_kernel(m, "both"), sizes);
    assert_true(f32s > 0 && halves > 0);
    assert_in_range(both, f32s > halves ? f32s : halves, f32s + halves - 64);
    moec_module_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_tells_what_it_takes),
        cmocka_unit_test(what_is_not_read_may_be_missing),
        cmocka_unit_test(a_module_tells_what_derive_made),
        cmocka_unit_test(two_backward_kernels_are_told_apart),
        cmocka_unit_test(dims_are_solved_from_shapes),
        cmocka_unit_test(routes_determine_dims),
        cmocka_unit_test(derive_is_given_beside_a_program),
        cmocka_unit_test(only_wanted_kernels_become_code),
        cmocka_unit_test(a_caller_may_lend_work_space),
        cmocka_unit_test(launches_share_the_memory_of_threads),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
