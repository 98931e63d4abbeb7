/* The public compiler API, linked with libmoec as a user would. */
#include "moec/moec.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char PROGRAM[] =
    "moe 1\n"
    "dim T, H\n"
    "dim N = 3\n"
    "dim K, E\n"
    "group R : E rows T*K\n"
    "kernel scale(in x: f32[T, H], in s: f32, in n: i32, out y: f32[T, H]) {\n"
    "  y[t, h] = x[t, h] * s + n\n"
    "}\n"
    "kernel halves(in a: bf16[2*H], in s: bf16, out y: bf16[2*H], out z: f32) {\n"
    "  y[i] = bf16(a[i] * s)\n"
    "  z = sum(i) y[i] * 1.0\n"
    "}\n"
    "kernel fixed(in x: i32[N, T], out y: i32[T, N]) { y[t, n] = x[n, t] * 2 }\n"
    "kernel square(in x: f32[T*T], out y: f32[T*T]) { y[i] = x[i] }\n"
    "kernel rows(in x: f32[T, H], in rt: route[T, K -> R], out y: f32[T, H]) {\n"
    "  y[t, h] = sum(k) x[rt.token(rt.row(t, k)), h]\n"
    "}\n"
    "kernel mul(in x: f32[T, H], in w: bf16[H, E] packed, out y: f32[T, E]) {\n"
    "  y[t, e] = sum(h) x[t, h] * w[h, e]\n"
    "}\n"
    "kernel store(in w: f32[E, H], out p: f16[E, H] packed, out q: bf16[E, H] packed) {\n"
    "  p[e, h] = f16(w[e, h])\n"
    "  q[e, h] = bf16(w[e, h])\n"
    "}\n"
    "kernel mul_t(in y: f32[T, E], in w: bf16[H, E] packed both, out x: f32[T, H]) {\n"
    "  x[t, h] = sum(e) y[t, e] * w[h, e]\n"
    "}\n"
    "kernel halve(inout w: bf16[H, E] packed) { w[h, e] = bf16(0.5 * w[h, e]) }\n";

typedef struct Api {
    moec_context *context;
    moec_module *module;
    moe_ctx *ctx;
} Api;

static int set_up(void **state)
{
    static Api api;
    moec_options o = {.no_cache = 1};
    api.context = moec_context_new();
    assert_non_null(api.context);
    assert_string_equal(moec_error_text(api.context), "");
    if (moec_compile_text(api.context, "program.moe", PROGRAM, strlen(PROGRAM), &o, &api.module))
        print_error("%s", moec_error_text(api.context));
    assert_non_null(api.module);
    api.ctx = moe_ctx_new(2);
    assert_non_null(api.ctx);
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

static moec_arg tensor(DLTensor *t) { return (moec_arg){.kind = MOEC_TENSOR, .tensor = t}; }
static moec_arg scalar(double v) { return (moec_arg){.kind = MOEC_SCALAR, .scalar = v}; }

#define TENSOR(data_, code_, bits_, ...)                                                      \
    {                                                                                         \
        .data = (data_), .device = {kDLCPU, 0}, .ndim = sizeof((int64_t[]){__VA_ARGS__}) / 8, \
        .dtype = {(code_), (bits_), 1}, .shape = (int64_t[])                                  \
        {                                                                                     \
            __VA_ARGS__                                                                       \
        }                                                                                     \
    }

static void expect_refusal(Api *api, const moec_kernel *k, const moec_arg *args, size_t n, const char *words)
{
    assert_int_equal(moec_kernel_call(k, api->ctx, args, n), MOE_ARGUMENT);
    assert_int_equal(api->ctx->status, MOE_ARGUMENT);
    if (!strstr(moe_ctx_message(api->ctx), words))
        fail_msg("'%s' does not say '%s'", moe_ctx_message(api->ctx), words);
    assert_int_equal(moec_kernel_call(k, NULL, args, n), MOE_ARGUMENT);
}

static void sizes_come_from_shapes(void **state)
{
    Api *api = *state;
    const moec_kernel *k = moec_module_kernel(api->module, "scale");
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    DLTensor tx = TENSOR(x, kDLFloat, 32, 2, 3), ty = TENSOR(y, kDLFloat, 32, 2, 3);
    moec_arg args[] = {tensor(&tx), scalar(0.5), scalar(7), tensor(&ty)};
    assert_int_equal(moec_kernel_call(k, api->ctx, args, 4), MOE_OK);
    for (int i = 0; i < 6; i++)
        assert_float_equal(y[i], x[i] * 0.5f + 7, 0);
    tx.byte_offset = 12; /* the second row */
    tx.shape = ty.shape = (int64_t[]){1, 3};
    assert_int_equal(moec_kernel_call(k, NULL, args, 4), MOE_OK);
    assert_float_equal(y[0], 9, 0);
}

static void extents_are_solved(void **state)
{
    Api *api = *state;
    uint16_t a[4] = {0x3f80, 0x4000, 0x4040, 0x4080}, y[4]; /* 1 2 3 4 */
    float z;
    DLTensor ta = TENSOR(a, kDLBfloat, 16, 4), ty = TENSOR(y, kDLBfloat, 16, 4);
    DLTensor tz = {.data = &z, .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1}};
    moec_arg args[] = {tensor(&ta), scalar(2), tensor(&ty), tensor(&tz)};
    const moec_kernel *k = moec_module_kernel(api->module, "halves");
    assert_int_equal(moec_kernel_call(k, api->ctx, args, 4), MOE_OK);
    assert_int_equal(y[0], 0x4000);
    assert_int_equal(y[3], 0x4100);
    assert_float_equal(z, 20, 0);
    ta.shape = (int64_t[]){3};
    expect_refusal(api, k, args, 4, "'a' has 3 at axis 0, but 2*H is 4");

    int32_t i[6] = {1, 2, 3, 4, 5, 6}, o[6];
    DLTensor ti = TENSOR(i, kDLInt, 32, 3, 2), to = TENSOR(o, kDLInt, 32, 2, 3);
    moec_arg fixed[] = {tensor(&ti), tensor(&to)};
    assert_int_equal(moec_kernel_call(moec_module_kernel(api->module, "fixed"), api->ctx, fixed, 2), MOE_OK);
    assert_int_equal(o[1], 6);
    ti.shape = to.shape = (int64_t[]){2, 3};
    expect_refusal(api, moec_module_kernel(api->module, "fixed"), fixed, 2, "N is 3");

    float s[4] = {0};
    DLTensor ts = TENSOR(s, kDLFloat, 32, 4);
    moec_arg square[] = {tensor(&ts), tensor(&ts)};
    expect_refusal(api, moec_module_kernel(api->module, "square"), square, 2, "T cannot be found");
}

static void wrong_tensors_are_refused_by_name(void **state)
{
    Api *api = *state;
    const moec_kernel *k = moec_module_kernel(api->module, "scale");
    float x[6] = {0}, y[6];
    DLTensor good = TENSOR(x, kDLFloat, 32, 2, 3), ty = TENSOR(y, kDLFloat, 32, 2, 3), t = good;
    moec_arg args[] = {tensor(&t), scalar(1), scalar(1), tensor(&ty)};
    t.strides = (int64_t[]){1, 2};
    expect_refusal(api, k, args, 4, "'x' is strided");
    t.strides = (int64_t[]){3, 1};
    assert_int_equal(moec_kernel_call(k, api->ctx, args, 4), MOE_OK);
    t = good, t.dtype.bits = 64;
    expect_refusal(api, k, args, 4, "'x' is f32");
    t = good, t.device.device_type = kDLCUDA;
    expect_refusal(api, k, args, 4, "'x' is not in CPU memory");
    t = good, t.ndim = 1;
    expect_refusal(api, k, args, 4, "'x' has 2 axes");
    t = good, t.byte_offset = 2;
    expect_refusal(api, k, args, 4, "'x' has a byte offset");
    t = good, t.shape = (int64_t[]){2, -1};
    expect_refusal(api, k, args, 4, "negative");
    t = good, t.shape = NULL;
    expect_refusal(api, k, args, 4, "'x' has a tensor without a shape");
    t = good, t.shape = (int64_t[]){2, 4};
    expect_refusal(api, k, args, 4, "'y' has 3 at axis 1, but H is 4");
    t = good, args[2].scalar = 0.5;
    expect_refusal(api, k, args, 4, "'n' is i32");
    args[2] = tensor(&t);
    expect_refusal(api, k, args, 4, "'n' is a scalar, but the argument is a tensor");
    expect_refusal(api, k, args, 3, "takes 4 arguments");
    args[2] = scalar(1), args[0].tensor = NULL;
    expect_refusal(api, k, args, 4, "'x' has no tensor");
    args[0] = tensor(&t), t.data = NULL;
    assert_int_equal(moec_kernel_call(k, api->ctx, args, 4), MOE_NULL);
}

static void route_sizes_are_checked(void **state)
{
    Api *api = *state;
    const moec_kernel *k = moec_module_kernel(api->module, "rows");
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    DLTensor tx = TENSOR(x, kDLFloat, 32, 2, 2), ty = TENSOR(y, kDLFloat, 32, 2, 2);
    moe_route *r = moe_route_new(2, 1, 2, 2);
    assert_non_null(r);
    r->start[1] = r->start[2] = 2;
    r->count[0] = 2;
    r->slot_of[1] = r->row_of[1] = 1;
    moec_arg args[] = {tensor(&tx), {.kind = MOEC_ROUTE, .route = r}, tensor(&ty)};
    assert_int_equal(moec_kernel_call(k, api->ctx, args, 3), MOE_OK);
    assert_memory_equal(x, y, sizeof x);
    r->rows = 3;
    expect_refusal(api, k, args, 3, "'rt' has 3 at rows, but T*K is 2");
    r->rows = 2, r->tokens = 5;
    expect_refusal(api, k, args, 3, "'rt'");
    r->tokens = 2;
    args[1].route = NULL;
    expect_refusal(api, k, args, 3, "'rt' has no route");
    moe_route_free(r);
}

static void a_module_describes_itself(void **state)
{
    Api *api = *state;
    const moec_kernel *k = moec_module_kernel(api->module, "halves");
    assert_null(moec_module_kernel(api->module, "nothing"));
    assert_non_null(strstr(moec_module_manifest(api->module), "\"2*H\""));
    assert_int_equal(moec_kernel_params(k), 4);
    assert_int_equal(moec_kernel_dims(k), 1);
    assert_string_equal(moec_kernel_dim_name(k, 0), "H");
    assert_string_equal(moec_kernel_param_name(k, 1), "s");
    assert_int_equal(moec_kernel_param_kind(k, 1), MOEC_SCALAR);
    assert_int_equal(moec_kernel_param_kind(k, 3), MOEC_TENSOR);
    assert_int_equal(moec_kernel_param_elements(k, 0, (int64_t[]){21}), 42);
    assert_int_equal(moec_kernel_param_elements(k, 0, (int64_t[]){INT64_MAX}), -1);
    assert_true(moec_kernel_workspace(k, (int64_t[]){21}) >= 0);
    int (*scale)(moe_ctx *, int64_t, int64_t, const float *, float, int32_t, float *);
    *(void **)&scale = moec_kernel_function(moec_module_kernel(api->module, "scale"));
    float x = 2, y = 0;
    assert_int_equal(scale(NULL, 1, 1, &x, 3, 4, &y), MOE_OK);
    assert_float_equal(y, 10, 0);
}

/* ---- packed parameters ---- */

enum { PT = 2, PH = 3, PE = 4, PACKED_BYTES = 64 + 32 * 32 * 2 };

static int call_or_interpret(const moec_kernel *k, moe_ctx *ctx, const int64_t *dims, void *const *args)
{
    moe_entry *entry = moec_kernel_entry(k);
    return entry ? entry(ctx, dims, args) : moec_kernel_interpret(k, ctx, dims, args);
}

/* mul(x, w, y) at T=2 H=3 E=4 on this memory of w. */
static int multiply(const moec_kernel *k, moe_ctx *ctx, void *w, float *y)
{
    float x[PT * PH] = {1, 2, 3, 4, 5, 6};
    DLTensor tx = TENSOR(x, kDLFloat, 32, PT, PH), ty = TENSOR(y, kDLFloat, 32, PT, PE);
    DLTensor tw = TENSOR(w, kDLBfloat, 16, PH, PE);
    moec_arg args[] = {tensor(&tx), tensor(&tw), tensor(&ty)};
    return moec_kernel_call(k, ctx, args, 3);
}

static void expect_packed_refusal(const moec_kernel *k, moe_ctx *ctx, void *w, const char *words)
{
    float y[PT * PE] = {-7};
    assert_int_equal(multiply(k, ctx, w, y), MOE_PACKED);
    if (!strstr(moe_ctx_message(ctx), words))
        fail_msg("'%s' does not say '%s'", moe_ctx_message(ctx), words);
    assert_float_equal(y[0], -7, 0);
}

static void packed_memory_is_checked_by(const moec_module *m, moe_ctx *ctx)
{
    const moec_kernel *k = moec_module_kernel(m, "mul");
    uint16_t rows[PH * PE], packed[PACKED_BYTES / 2], wide[64 + 64 * 32], back[PH * PE], other[PH * PE];
    int64_t dims[] = {PT, PH, PE}, wider[] = {PT, PH + 1, PE};
    for (int i = 0; i < PH * PE; i++)
        rows[i] = i % 2 ? 0x3f80 : 0x4000; /* 1 and 2 */
    assert_int_equal(moec_kernel_param_packed(k, 0), 0);
    assert_int_equal(moec_kernel_param_packed(k, 1), 1);
    assert_int_equal(moec_kernel_param_bytes(k, 0, dims), PT * PH * 4);
    assert_int_equal(moec_kernel_param_bytes(k, 1, dims), PACKED_BYTES);
    assert_int_equal(moec_kernel_pack(k, 0, dims, rows, packed), MOE_ARGUMENT);
    assert_int_equal(moec_kernel_pack(k, 1, dims, NULL, packed), MOE_NULL);
    assert_int_equal(moec_kernel_pack(k, 1, (int64_t[]){1, INT64_MAX, 1}, rows, packed), MOE_SIZE);
    assert_int_equal(moec_kernel_pack(k, 1, dims, rows, packed), MOE_OK);
    assert_int_equal(moec_kernel_unpack(k, 1, wider, packed, other), MOE_PACKED);
    assert_int_equal(moec_kernel_unpack(k, 1, dims, packed, back), MOE_OK);
    assert_memory_equal(rows, back, sizeof rows);

    float y[PT * PE];
    assert_int_equal(multiply(k, ctx, packed, y), MOE_OK);
    assert_float_equal(y[0], 12, 0);
    assert_float_equal(y[7], 15, 0);

    memset(wide, 0x3f, sizeof wide);
    expect_packed_refusal(k, ctx, wide,
                          "parameter w has layout 0x3f3f3f3f3f3f3f3f, this kernel reads 0x6d6f65");
    packed[0]++; /* the next element type */
    expect_packed_refusal(k, ctx, packed, "parameter w has layout 0x6d6f657061636b12");
    assert_int_equal(moec_kernel_pack(k, 1, wider, wide, packed), MOE_OK);
    expect_packed_refusal(k, ctx, packed, "w was packed with 4 rows, the call's dimensions make it 3");
    assert_int_equal(moec_kernel_pack(k, 1, (int64_t[]){PT, PH, PE - 1}, wide, packed), MOE_OK);
    expect_packed_refusal(k, ctx, packed, "w was packed with 3 columns");
    assert_int_equal(multiply(k, ctx, NULL, y), MOE_NULL);
}

/* Memory packed both ways: who reads one way takes it, who would write one way or reads the other does not take less. */
static void both_ways_are_checked_by(const moec_module *m, moe_ctx *ctx)
{
    const moec_kernel *k = moec_module_kernel(m, "mul_t"), *one = moec_module_kernel(m, "mul"),
                      *halve = moec_module_kernel(m, "halve");
    uint16_t rows[PH * PE], back[PH * PE], both[PACKED_BYTES], packed[PACKED_BYTES / 2];
    int64_t dims[] = {PT, PH, PE};
    float y[PT * PE] = {1, 0, 0, 0, 0, 0, 0, 1}, x[PT * PH];
    void *args[] = {y, both, x}, *wrong[] = {y, packed, x}, *in_place[] = {both};
    for (int i = 0; i < PH * PE; i++)
        rows[i] = (uint16_t)(0x3f80 + i); /* 1 + i/128 */
    assert_int_equal(moec_kernel_param_bytes(k, 1, dims), 2 * PACKED_BYTES - 64);
    assert_int_equal(moec_kernel_pack(k, 1, dims, rows, both), MOE_OK);
    assert_int_equal(moec_kernel_unpack(k, 1, dims, both, back), MOE_OK);
    assert_memory_equal(rows, back, sizeof rows);
    assert_int_equal(call_or_interpret(k, ctx, dims, args), MOE_OK);
    for (int h = 0; h < PH; h++) {
        assert_float_equal(x[h], 1 + (float)(h * PE) / 128, 0);
        assert_float_equal(x[PH + h], 1 + (float)(h * PE + PE - 1) / 128, 0);
    }
    assert_int_equal(multiply(one, ctx, both, y), MOE_OK);
    assert_int_equal(moec_kernel_pack(one, 1, dims, rows, packed), MOE_OK);
    assert_int_equal(call_or_interpret(k, ctx, dims, wrong), MOE_PACKED);
    assert_int_equal(call_or_interpret(halve, ctx, dims + 1, in_place), MOE_PACKED);
}

static void packed_memory_is_checked(void **state)
{
    Api *api = *state;
    moec_options interpret = {.interpret = 1};
    moec_module *m;
    packed_memory_is_checked_by(api->module, api->ctx);
    both_ways_are_checked_by(api->module, api->ctx);
    assert_int_equal(moec_compile_text(api->context, "program.moe", PROGRAM, strlen(PROGRAM), &interpret, &m),
                     0);
    packed_memory_is_checked_by(m, api->ctx);
    both_ways_are_checked_by(m, api->ctx);
    moec_module_free(m);
}

/* What one kernel writes another one reads, whatever the memory held before; overlap counts header and padding. */
static void packed_outputs_are_whole(void **state)
{
    Api *api = *state;
    const moec_kernel *store = moec_module_kernel(api->module, "store"),
                      *k = moec_module_kernel(api->module, "mul");
    float w[PH * PE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, y[PT * PE];
    static unsigned char p[2 * PACKED_BYTES], q[PACKED_BYTES];
    int64_t dims[] = {PE, PH}; /* of store: H=PE E=PH */
    void *args[] = {w, p, q}, *shifted[] = {w, p, p + PACKED_BYTES - 2};
    memset(p, 0xff, sizeof p);
    memset(q, 0xff, sizeof q);
    assert_int_equal(moec_kernel_entry(store)(api->ctx, dims, shifted), MOE_OVERLAP);
    assert_int_equal(p[0], 0xff);
    assert_int_equal(moec_kernel_entry(store)(api->ctx, dims, args), MOE_OK);
    assert_int_equal(multiply(k, api->ctx, q, y), MOE_OK);
    assert_float_equal(y[0], 1 * 1 + 2 * 5 + 3 * 9, 0);
    expect_packed_refusal(k, api->ctx, p, "has layout 0x6d6f657061636b12");
}

/* ---- checks ---- */

static const moec_kernel *larger(Api *api, const char *subscript, int interpret, moec_module **m)
{
    moec_options o = {.no_cache = 1, .interpret = interpret};
    char text[300];
    int len = snprintf(text, sizeof text,
                       "moe 1\ndim T\ndim K = 1\ndim E = 2\ngroup R : E rows T*K\n"
                       "kernel larger(in x: f32[T, E], out id: i32[T, K], out rt: route[T, K -> R]) {\n"
                       "  best[t, k: K], id[t, k] = top(e: E) exp(x[t, %s])\n"
                       "  rt = route(id)\n}\n",
                       subscript);
    assert_int_equal(moec_compile_text(api->context, "larger.moe", text, (size_t)len, &o, m), 0);
    return moec_module_kernel(*m, "larger");
}

/* `mirrored` means something else: its interpreter contradicts the compiled kernel, unless both ways are right. */
static void a_check_tells_ties_from_wrong_numbers(void **state)
{
    Api *api = *state;
    moec_module *m[3];
    const moec_kernel *compiled = larger(api, "e", 0, &m[0]), *same = larger(api, "e", 1, &m[1]),
                      *mirrored = larger(api, "1 - e", 1, &m[2]);
    float x[2] = {1, 2};
    int32_t id = 7;
    moe_route *rt = moe_route_new(1, 1, 2, 1);
    void *args[] = {x, &id, rt};
    moec_score score = {0};
    assert_int_equal(moec_kernel_check(compiled, same, api->ctx, (int64_t[]){1}, args, &score), 0);
    assert_int_equal(score.compared, 1);
    assert_int_equal(score.doubtful, 0);
    assert_int_equal(moec_kernel_check(compiled, mirrored, api->ctx, (int64_t[]){1}, args, &score), 1);
    assert_string_equal(moe_ctx_message(api->ctx),
                        "id[0, 0]: got 1, want 0: another choice, which no tie within rounding explains");
    assert_int_equal(score.wrong, 2); /* it, and the route that it makes */
    assert_int_equal(score.mischosen, 1);
    x[1] = 1 + 0x1p-22f; /* three roundings of exp away, and so many are allowed: both orders are right */
    assert_int_equal(moec_kernel_check(compiled, mirrored, api->ctx, (int64_t[]){1}, args, &score), 0);
    assert_int_equal(score.doubtful, 1);
    assert_int_equal(score.flipped, 1);
    assert_int_equal(score.wrong, 2); /* those before */
    assert_int_equal(id, 7);
    assert_int_equal(moec_kernel_check(same, same, api->ctx, (int64_t[]){1}, args, &score), 1);
    assert_non_null(strstr(moe_ctx_message(api->ctx), "takes a compiled kernel and an interpreted one"));
    moe_route_free(rt);
    for (int i = 0; i < 3; i++)
        moec_module_free(m[i]);
}

static void errors_are_text_and_data(void **state)
{
    Api *api = *state;
    moec_module *m;
    static const char wrong[] = "moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) { y[t] = z[t] }\n";
    assert_int_equal(moec_compile_text(api->context, "wrong.moe", wrong, strlen(wrong), NULL, &m), 1);
    assert_null(m);
    assert_non_null(strstr(moec_error_text(api->context), "wrong.moe:3:"));
    assert_non_null(strstr(moec_error_json(api->context), "\"line\""));
    assert_int_equal(moec_compile_file(api->context, "/no/such/file.moe", NULL, &m), 1);
    assert_non_null(strstr(moec_error_text(api->context), "/no/such/file.moe"));
    moec_options o = {.target = "z80"};
    assert_int_equal(moec_compile_text(api->context, NULL, PROGRAM, strlen(PROGRAM), &o, &m), 1);
    assert_non_null(strstr(moec_error_text(api->context), "z80"));
}

/* ---- the cache, and threads ---- */

static double use(moec_module *m)
{
    float x = 2, y = 0;
    DLTensor tx = TENSOR(&x, kDLFloat, 32, 1, 1), ty = TENSOR(&y, kDLFloat, 32, 1, 1);
    moec_arg args[] = {tensor(&tx), scalar(3), scalar(1), tensor(&ty)};
    return moec_kernel_call(moec_module_kernel(m, "scale"), NULL, args, 4) ? -1 : (double)y;
}

static void remove_directory(const char *directory)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

/* Capacity groups may have more rows than there are choices, or fewer. */
/* The bytes that a call of `mul` needs when it is compiled with this schedule; -1: it is refused. */
static int64_t work_with(moec_context *c, const char *schedule)
{
    moec_module *m;
    moec_options o = {.no_cache = 1, .target = "generic", .schedule = schedule};
    int64_t dims[5] = {64, 256, 3, 2, 256};
    if (moec_compile_text(c, "program.moe", PROGRAM, strlen(PROGRAM), &o, &m))
        return -1;
    int64_t bytes = moec_kernel_workspace(moec_module_kernel(m, "mul"), dims);
    moec_module_free(m);
    return bytes;
}

static void a_schedule_is_given_beside_a_program(void **state)
{
    (void)state;
    moec_context *c = moec_context_new();
    int64_t small = work_with(c, "schedule mul { tile y : M = 32 N = 32 K = 32 }");
    assert_in_range(small, 1, work_with(c, NULL) - 1);
    assert_int_equal(work_with(c, "schedule mul { tile y : M = 31 }"), -1);
    assert_non_null(strstr(moec_error_text(c), "<schedule>:1:29: "));
    assert_non_null(strstr(moec_error_text(c), "\n    schedule mul { tile y : M = 31 }\n"));
    assert_int_equal(work_with(c, "\xef\xbb\xbf// beside\nschedule mul { tile y : M = 32\n"), -1);
    assert_non_null(strstr(moec_error_text(c), "<schedule>:2:14: error[E0101]: this `{` has no `}`\n"));
    assert_int_equal(work_with(c, "schedule mul { tile y : M 32 }"), -1);
    assert_non_null(
        strstr(moec_error_text(c), "help: write `=` here\n    schedule mul { tile y : M = 32 }\n"));
    assert_int_equal(work_with(c, "dim Q"), -1);
    assert_non_null(strstr(moec_error_text(c), "`schedule` blocks only"));
    moec_context_free(c);
}

static void types_are_given_beside_a_program(void **state)
{
    static const char text[] =
        "moe 1 type act = bf16 dim N kernel f(in x: act[N], out y: act[N]) { y[n] = act(x[n] / 3) }";
    float x[4] = {1, 2, 3, 4}, y[4];
    const int64_t dims[1] = {4};
    moec_module *m;
    moec_options o = {.no_cache = 1, .types = "act=f32"};
    (void)state;
    moec_context *c = moec_context_new();
    assert_int_equal(moec_compile_text(c, "program.moe", text, strlen(text), &o, &m), 0);
    const char *types = strstr(moec_module_manifest(m), "\"types\": [");
    assert_non_null(types);
    assert_non_null(strstr(types, "\"name\": \"act\""));
    assert_non_null(strstr(types, "\"type\": \"f32\""));
    const moec_kernel *f = moec_module_kernel(m, "f");
    assert_int_equal(moec_kernel_param_bytes(f, 0, dims), sizeof x);
    assert_int_equal(moec_kernel_entry(f)(NULL, dims, (void *[]){x, y}), 0);
    assert_true(y[0] == 1.0f / 3);
    moec_module_free(m);
    o.types = "f32";
    assert_int_equal(moec_compile_text(c, "program.moe", text, strlen(text), &o, &m), 1);
    assert_non_null(strstr(moec_error_text(c), "--type f32: error[E0960]"));
    moec_context_free(c);
}

static void a_route_has_room_for_its_sizes(void **state)
{
    static const int64_t sizes[][4] = {{2, 1, 4, 4000}, {500, 4, 2, 2}, {0, 0, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t *n = sizes[i];
        moe_route *r = moe_route_new(n[0], n[1], n[2], n[3]);
        assert_non_null(r);
        assert_true(malloc_usable_size(r->start) >= (size_t)(n[2] + 1) * sizeof *r->start);
        assert_true(malloc_usable_size(r->count) >= (size_t)n[2] * sizeof *r->count);
        assert_true(malloc_usable_size(r->slot_of) >= (size_t)n[3] * sizeof *r->slot_of);
        assert_true(malloc_usable_size(r->row_of) >= (size_t)(n[0] * n[1]) * sizeof *r->row_of);
        moe_route_free(r);
    }
}

static void a_cached_kernel_works_and_outlives_its_context(void **state)
{
    (void)state;
    char directory[] = "/tmp/moec-test-XXXXXX";
    assert_non_null(mkdtemp(directory));
    moec_options o = {.cache_dir = directory};
    moec_module *m[3];
    for (int i = 0; i < 3; i++) { /* compiled, then from the cache */
        moec_context *c = moec_context_new();
        assert_int_equal(moec_compile_text(c, "p.moe", PROGRAM, strlen(PROGRAM), &o, &m[i]), 0);
        moec_context_free(c);
        assert_float_equal(use(m[i]), 7, 0);
    }
    assert_string_equal(moec_module_manifest(m[0]), moec_module_manifest(m[1]));
    moec_module_free(m[1]);
    assert_float_equal(use(m[2]), 7, 0);
    moec_module_free(m[0]);
    moec_module_free(m[2]);
    remove_directory(directory);
}

/* The pool's threads still wait in the OpenMP library when the only user of it goes. */
static void threads_survive_the_end_of_a_module(void **state)
{
    (void)state;
    char directory[] = "/tmp/moec-test-XXXXXX";
    enum { N = 1 << 20 };
    assert_non_null(mkdtemp(directory));
    float *x = calloc(N, sizeof *x);
    assert_non_null(x);
    DLTensor tx = TENSOR(x, kDLFloat, 32, N / 16, 16), ty = tx;
    ty.data = malloc(N * sizeof *x);
    moec_arg args[] = {tensor(&tx), scalar(3), scalar(1), tensor(&ty)};
    moe_ctx *ctx = moe_ctx_new(3);
    for (int i = 0; i < 3; i++) {
        moec_options o = {.cache_dir = directory};
        moec_context *c = moec_context_new();
        moec_module *m;
        assert_int_equal(moec_compile_text(c, "p.moe", PROGRAM, strlen(PROGRAM), &o, &m), 0);
        assert_int_equal(moec_kernel_call(moec_module_kernel(m, "scale"), ctx, args, 4), MOE_OK);
        moec_module_free(m);
        moec_context_free(c);
        usleep(5000);
    }
    moe_ctx_free(ctx);
    free(ty.data);
    free(x);
    remove_directory(directory);
}

static void *compile_in_thread(void *user)
{
    const char *directory = user;
    intptr_t good = 1;
    for (int round = 0; round < 4; round++) {
        moec_options o = {.cache_dir = directory, .no_cache = round == 3};
        moec_context *c = moec_context_new();
        moec_module *m = NULL;
        good =
            good && c && moec_compile_text(c, "p.moe", PROGRAM, strlen(PROGRAM), &o, &m) == 0 && use(m) == 7;
        moec_module_free(m);
        good = good && moec_compile_text(c, "p.moe", "moe 1 kernel", 12, &o, &m) == 1;
        moec_context_free(c);
    }
    return (void *)good;
}

static void contexts_of_threads_do_not_meet(void **state)
{
    (void)state;
    char directory[] = "/tmp/moec-test-XXXXXX";
    pthread_t threads[3];
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_in_thread, directory), 0);
    for (int i = 0; i < 3; i++) {
        void *good;
        assert_int_equal(pthread_join(threads[i], &good), 0);
        assert_non_null(good);
    }
    remove_directory(directory);
}

/* ---- lifetimes ---- */

/* Pieces of executable memory that the process has. */
static int code_mappings(void)
{
    char line[512];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const char *rights = strchr(line, ' ');
        n += rights && strncmp(rights, " r-x", 4) == 0;
    }
    fclose(f);
    return n;
}

static void compile_and_free(const Api *api, int times)
{
    moec_options o = {.no_cache = 1};
    for (int i = 0; i < times; i++) {
        moec_module *m = NULL;
        moec_compile_text(api->context, "program.moe", PROGRAM, strlen(PROGRAM), &o, &m);
        assert_non_null(m);
        moec_module_free(m);
    }
}

static void a_freed_module_leaves_no_code(void **state)
{
    compile_and_free(*state, 1); /* loads what the compiler loads once */
    int before = code_mappings();
    compile_and_free(*state, 4);
    assert_int_equal(code_mappings(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_come_from_shapes),
        cmocka_unit_test(extents_are_solved),
        cmocka_unit_test(wrong_tensors_are_refused_by_name),
        cmocka_unit_test(route_sizes_are_checked),
        cmocka_unit_test(a_module_describes_itself),
        cmocka_unit_test(packed_memory_is_checked),
        cmocka_unit_test(packed_outputs_are_whole),
        cmocka_unit_test(a_freed_module_leaves_no_code),
        cmocka_unit_test(a_check_tells_ties_from_wrong_numbers),
        cmocka_unit_test(errors_are_text_and_data),
        cmocka_unit_test(a_route_has_room_for_its_sizes),
        cmocka_unit_test(a_schedule_is_given_beside_a_program),
        cmocka_unit_test(types_are_given_beside_a_program),
        cmocka_unit_test(a_cached_kernel_works_and_outlives_its_context),
        cmocka_unit_test(threads_survive_the_end_of_a_module),
        cmocka_unit_test(contexts_of_threads_do_not_meet),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
