/* Every public function of moec.h and moert.h with NULL for each pointer, numbers that are out of range, and wrong counts:
 * an error, never a crash. */
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
    "kernel f(in x: f32[T, H], in s: f32, in rt: route[T, K -> R], in w: bf16[E, H] packed,\n"
    "         out y: f32[T, H]) {\n"
    "  y[t, h] = x[t, h] * s + sum(k, e where rt.row(t, k) >= 0) w[e, h]\n"
    "}\n";

enum {
    DIMS = 4,
    PARAMS = 5,
    X = 0,
    S = 1,
    RT = 2,
    W = 3,
    T = 2,
    K = 1,
    E = 3,
    H = 4,
    PACKED_BYTES = 64 + 32 * 32 * 2
};
static const int64_t sizes[DIMS] = {T, K, E, H};

typedef struct Case {
    moec_context *context;
    moec_module *module;
    const moec_kernel *k;
    moe_ctx *ctx;
    moe_route *route;
    float x[T * H], s, y[T * H];
    uint16_t rows[E * H], packed[PACKED_BYTES / 2];
    void *args[PARAMS];
} Case;

static int open_case(void **state, int interpret)
{
    static Case c;
    moec_options o = {.no_cache = 1, .interpret = interpret};
    memset(&c, 0, sizeof c);
    c.context = moec_context_new();
    c.ctx = moe_ctx_new(1);
    c.route = moe_route_new(T, K, E, T * K);
    assert_true(c.context && c.ctx && c.route);
    if (moec_compile_text(c.context, "bounds.moe", PROGRAM, strlen(PROGRAM), &o, &c.module))
        print_error("%s", moec_error_text(c.context));
    c.k = moec_module_kernel(c.module, "f");
    assert_non_null(c.k);
    c.route->start[1] = c.route->start[2] = c.route->start[3] = c.route->count[0] = T * K;
    c.route->slot_of[1] = c.route->row_of[1] = 1;
    void *args[PARAMS] = {c.x, &c.s, c.route, c.packed, c.y};
    memcpy(c.args, args, sizeof args);
    assert_int_equal(moec_kernel_pack(c.k, W, sizes, c.rows, c.packed), MOE_OK);
    *state = &c;
    return 0;
}

static int set_up(void **state) { return open_case(state, 0); }
static int set_up_interpreted(void **state) { return open_case(state, 1); }

static int tear_down(void **state)
{
    Case *c = *state;
    moe_route_free(c->route);
    moe_ctx_free(c->ctx);
    moec_module_free(c->module);
    moec_context_free(c->context);
    return 0;
}

/* The call was refused with this status, and says why. */
static void refused(Case *c, int got, int status, const char *words)
{
    assert_int_equal(got, status);
    assert_int_equal(c->ctx->status, status);
    if (!strstr(moe_ctx_message(c->ctx), words))
        fail_msg("'%s' does not say '%s'", moe_ctx_message(c->ctx), words);
    c->ctx->status = MOE_OK;
    c->ctx->message[0] = '\0';
}

/* ---- compiling ---- */

static void failed(const Case *c, int status, const char *words)
{
    assert_int_equal(status, 1);
    if (!strstr(moec_error_text(c->context), words) || !strstr(moec_error_json(c->context), words))
        fail_msg("'%s' does not say '%s'", moec_error_text(c->context), words);
}

static void compiling_needs_a_context_a_text_and_a_place(void **state)
{
    const Case *c = *state;
    moec_module *m = c->module;
    moec_context_free(NULL);
    moec_module_free(NULL);
    assert_non_null(strstr(moec_error_text(NULL), "no context"));
    assert_non_null(strstr(moec_error_json(NULL), "no context"));
    assert_int_equal(moec_compile_text(NULL, "a", "moe 1", 5, NULL, &m), 1);
    assert_null(m);
    assert_int_equal(moec_compile_text(NULL, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(moec_compile_file(NULL, "a.moe", NULL, &m), 1);
    assert_int_equal(moec_compile_file(NULL, NULL, NULL, NULL), 1);
    failed(c, moec_compile_text(c->context, "a", NULL, 5, NULL, &m), "text is NULL");
    failed(c, moec_compile_text(c->context, "a", "moe 1", 5, NULL, NULL), "out is NULL");
    failed(c, moec_compile_file(c->context, NULL, NULL, &m), "path is NULL");
    failed(c, moec_compile_file(c->context, "a.moe", NULL, NULL), "out is NULL");
    failed(c, moec_compile_file(c->context, "", NULL, &m), "cannot be read");
    failed(c, moec_compile_text(c->context, NULL, NULL, 0, NULL, &m), "moe 1"); /* an empty text */
    failed(c, moec_compile_text(c->context, NULL, "moe 1\nkernel", 12, NULL, &m), "<text>");
    assert_null(m);
}

/* ---- what a kernel takes ---- */

static void what_does_not_exist_has_no_properties(void **state)
{
    const Case *c = *state;
    int64_t shape[MOEC_MAX_RANK];
    static const size_t beyond[] = {PARAMS, PARAMS + 1, 1u << 31, SIZE_MAX / 2, SIZE_MAX};
    assert_null(moec_module_manifest(NULL));
    assert_null(moec_module_kernel(NULL, "f"));
    assert_null(moec_module_kernel(c->module, NULL));
    assert_null(moec_module_kernel(c->module, ""));
    assert_int_equal(moec_kernel_params(NULL), 0);
    assert_int_equal(moec_kernel_dims(NULL), 0);
    assert_null(moec_kernel_function(NULL));
    assert_true(moec_kernel_entry(NULL) == NULL);
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
        for (int with = 0; with < 2; with++) {
            const moec_kernel *k = with ? c->k : NULL;
            size_t n = with ? beyond[i] : i;
            assert_null(moec_kernel_dim_name(k, n));
            assert_null(moec_kernel_param_name(k, n));
            assert_int_equal(moec_kernel_param_kind(k, n), MOEC_NONE);
            assert_int_equal(moec_kernel_param_elements(k, n, sizes), -1);
            assert_int_equal(moec_kernel_param_bytes(k, n, sizes), -1);
            assert_int_equal(moec_kernel_param_packed(k, n), 0);
            assert_int_equal(moec_kernel_param_role(k, n), MOEC_IN);
            assert_int_equal(moec_kernel_param_type(k, n), MOEC_F32);
            assert_int_equal(moec_kernel_param_read(k, n), 0);
            assert_int_equal(moec_kernel_param_rank(k, n), -1);
            assert_int_equal(moec_kernel_param_shape(k, n, sizes, shape), 1);
        }
    assert_string_equal(moec_kernel_param_name(c->k, PARAMS - 1), "y");
    assert_string_equal(moec_kernel_dim_name(c->k, DIMS - 1), "H");
    assert_null(moec_kernel_dim_name(c->k, DIMS));
    assert_true(moec_kernel_param_index(NULL, "x") == (size_t)-1);
    assert_true(moec_kernel_param_index(c->k, NULL) == (size_t)-1);
    assert_int_equal(moec_kernel_param_shape(c->k, X, sizes, NULL), 1);
}

static void pairs_that_do_not_exist_are_empty(void **state)
{
    const Case *c = *state;
    const moec_module *modules[] = {NULL, c->module};
    for (int i = 0; i < 2; i++) {
        const moec_module *m = modules[i];
        assert_int_equal(moec_module_pairs(m), 0);
        assert_null(moec_module_pair(m, 0).from);
        assert_null(moec_module_saved(m, SIZE_MAX, 0).local);
        assert_null(moec_module_cotangent(m, 0, SIZE_MAX).output);
        assert_null(moec_module_gradient(m, 0, 0).input);
        assert_null(moec_module_handed(m, 0, 0));
    }
}

static void solving_needs_shapes_and_a_place(void **state)
{
    Case *c = *state;
    const int64_t *none[PARAMS] = {NULL}, lowest[] = {INT64_MIN, INT64_MIN};
    const int64_t *shapes[PARAMS] = {lowest};
    int64_t dims[DIMS] = {-1, -1, INT64_MIN, -1};
    refused(c, moec_kernel_solve_dims(NULL, c->ctx, none, dims), MOE_NULL, "no kernel");
    refused(c, moec_kernel_solve_dims(c->k, c->ctx, NULL, dims), MOE_NULL, "array of shapes");
    refused(c, moec_kernel_solve_dims(c->k, c->ctx, none, NULL), MOE_NULL, "array of sizes");
    assert_int_equal(moec_kernel_solve_dims(NULL, NULL, NULL, NULL), MOE_NULL);
    assert_int_equal(moec_kernel_solve_dims(c->k, NULL, none, dims), MOE_OK);
    for (int i = 0; i < DIMS; i++)
        assert_int_equal(dims[i], -1);
    refused(c, moec_kernel_solve_dims(c->k, c->ctx, shapes, dims), MOE_ARGUMENT, "negative size");
}

static void placing_needs_places_and_equations(void **state)
{
    Case *c = *state;
    int places[PARAMS], whole = MOEC_WHOLE;
    for (int i = 0; i < PARAMS; i++)
        places[i] = MOEC_WHOLE;
    refused(c, moec_kernel_place(NULL, c->ctx, places), MOE_NULL, "no kernel");
    refused(c, moec_kernel_place(c->k, c->ctx, NULL), MOE_NULL, "no places");
    refused(c, moec_kernel_place(c->k, c->ctx, places), MOE_ARGUMENT, "without the option to interpret it");
    assert_int_equal(moec_kernel_place(NULL, NULL, &whole), MOE_NULL);
}

static void places_out_of_range_are_refused(void **state)
{
    Case *c = *state;
    for (int bad = -9; bad < 9; bad += 3) {
        int places[PARAMS];
        for (int i = 0; i < PARAMS; i++)
            places[i] = bad;
        if (bad < MOEC_ANY || bad >= 0)
            assert_int_equal(moec_kernel_place(c->k, NULL, places), MOE_ARGUMENT);
    }
}

static void sizes_out_of_range_have_no_elements(void **state)
{
    const Case *c = *state;
    static const int64_t negative[DIMS] = {-1, -1, -1, -1}, lowest[DIMS] = {INT64_MIN, 1, INT64_MIN, 1},
                         largest[DIMS] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    int64_t shape[MOEC_MAX_RANK];
    const int64_t *bad[] = {NULL, negative, lowest, largest};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(moec_kernel_param_elements(c->k, X, bad[i]), -1);
        assert_int_equal(moec_kernel_param_bytes(c->k, X, bad[i]), -1);
        assert_int_equal(moec_kernel_param_elements(c->k, W, bad[i]), -1);
        assert_int_equal(moec_kernel_param_shape(c->k, W, bad[i], shape), 1);
        assert_int_equal(moec_kernel_param_shape(c->k, RT, bad[i], shape), 1);
        assert_int_equal(moec_kernel_param_bytes(c->k, W, bad[i]), -1);
        assert_int_equal(moec_kernel_workspace(c->k, bad[i]), -1);
        assert_int_equal(moec_kernel_workspace(NULL, bad[i]), -1);
    }
    assert_int_equal(moec_kernel_workspace(NULL, sizes), -1);
    assert_int_equal(moec_kernel_param_elements(c->k, RT, sizes), -1); /* a route has none */
    assert_int_equal(moec_kernel_param_elements(c->k, S, sizes), 1);
    assert_int_equal(moec_kernel_param_elements(c->k, X, sizes), T * H);
}

static void packing_needs_a_packed_parameter_and_memory(void **state)
{
    Case *c = *state;
    assert_int_equal(moec_kernel_pack(NULL, W, sizes, c->rows, c->packed), MOE_NULL);
    assert_int_equal(moec_kernel_pack(c->k, X, sizes, c->rows, c->packed), MOE_ARGUMENT);
    assert_int_equal(moec_kernel_pack(c->k, PARAMS, sizes, c->rows, c->packed), MOE_ARGUMENT);
    assert_int_equal(moec_kernel_pack(c->k, W, NULL, c->rows, c->packed), MOE_NULL);
    assert_int_equal(moec_kernel_pack(c->k, W, sizes, NULL, c->packed), MOE_NULL);
    assert_int_equal(moec_kernel_pack(c->k, W, sizes, c->rows, NULL), MOE_NULL);
    assert_int_equal(moec_kernel_pack(c->k, W, (int64_t[]){T, K, -1, H}, c->rows, c->packed), MOE_SIZE);
    assert_int_equal(moec_kernel_unpack(NULL, W, sizes, c->packed, c->rows), MOE_NULL);
    assert_int_equal(moec_kernel_unpack(c->k, X, sizes, c->packed, c->rows), MOE_ARGUMENT);
    assert_int_equal(moec_kernel_unpack(c->k, SIZE_MAX, sizes, c->packed, c->rows), MOE_ARGUMENT);
    assert_int_equal(moec_kernel_unpack(c->k, W, NULL, c->packed, c->rows), MOE_NULL);
    assert_int_equal(moec_kernel_unpack(c->k, W, sizes, NULL, c->rows), MOE_NULL);
    assert_int_equal(moec_kernel_unpack(c->k, W, sizes, c->packed, NULL), MOE_NULL);
}

/* ---- calls ---- */

#define TENSOR(data_, code_, bits_, ...)                                                      \
    &(DLTensor)                                                                               \
    {                                                                                         \
        .data = (data_), .device = {kDLCPU, 0}, .ndim = sizeof((int64_t[]){__VA_ARGS__}) / 8, \
        .dtype = {(code_), (bits_), 1}, .shape = (int64_t[])                                  \
        {                                                                                     \
            __VA_ARGS__                                                                       \
        }                                                                                     \
    }

static void calls_check_every_argument(void **state)
{
    Case *c = *state;
    const moec_arg good[PARAMS] = {
        {.tensor = TENSOR(c->x, kDLFloat, 32, T, H)}, {.kind = MOEC_SCALAR},
        {.kind = MOEC_ROUTE, .route = c->route},      {.tensor = TENSOR(c->packed, kDLBfloat, 16, E, H)},
        {.tensor = TENSOR(c->y, kDLFloat, 32, T, H)},
    };
    assert_int_equal(moec_kernel_call(c->k, c->ctx, good, PARAMS), MOE_OK);
    refused(c, moec_kernel_call(NULL, c->ctx, good, PARAMS), MOE_NULL, "no kernel");
    refused(c, moec_kernel_call(c->k, c->ctx, NULL, PARAMS), MOE_NULL, "array of arguments");
    refused(c, moec_kernel_call(c->k, c->ctx, NULL, 0), MOE_ARGUMENT, "takes 5 arguments, but 0");
    refused(c, moec_kernel_call(c->k, c->ctx, good, PARAMS - 1), MOE_ARGUMENT, "takes 5 arguments, but 4");
    refused(c, moec_kernel_call(c->k, c->ctx, good, SIZE_MAX), MOE_ARGUMENT, "takes 5 arguments");
    assert_int_equal(moec_kernel_call(NULL, NULL, NULL, 0), MOE_NULL);
    assert_int_equal(moec_kernel_call(c->k, NULL, NULL, PARAMS), MOE_NULL);
    for (int i = 0; i < PARAMS; i++) {
        moec_arg args[PARAMS];
        memcpy(args, good, sizeof good);
        args[i] = (moec_arg){.kind = (moec_param_kind)99};
        refused(c, moec_kernel_call(c->k, c->ctx, args, PARAMS), MOE_ARGUMENT, "of no kind");
        args[i].kind = MOEC_NONE;
        refused(c, moec_kernel_call(c->k, c->ctx, args, PARAMS), MOE_ARGUMENT, "of no kind");
        args[i].kind = good[i].kind;
        if (i != S)
            refused(c, moec_kernel_call(c->k, c->ctx, args, PARAMS), MOE_ARGUMENT, "has no");
    }
    DLTensor t = *good[X].tensor;
    moec_arg args[PARAMS];
    memcpy(args, good, sizeof good);
    args[X].tensor = &t;
    t.shape = NULL;
    refused(c, moec_kernel_call(c->k, c->ctx, args, PARAMS), MOE_ARGUMENT, "'x'");
    t = *good[X].tensor, t.ndim = -1;
    refused(c, moec_kernel_call(c->k, c->ctx, args, PARAMS), MOE_ARGUMENT, "'x' has 2 axes");
    t = *good[X].tensor, t.data = NULL;
    refused(c, moec_kernel_call(c->k, c->ctx, args, PARAMS), MOE_NULL, "x");
}

typedef int Run(const Case *c, const int64_t *dims, void *const *args);

static int by_entry(const Case *c, const int64_t *dims, void *const *args)
{
    return moec_kernel_entry(c->k)(c->ctx, dims, args);
}

static int by_interpreter(const Case *c, const int64_t *dims, void *const *args)
{
    return moec_kernel_interpret(c->k, c->ctx, dims, args);
}

static void uniform_calls_check_every_pointer(Case *c, Run *run)
{
    static const char *const names[PARAMS] = {"x", "s", "rt", "w", "y"};
    assert_int_equal(run(c, sizes, c->args), MOE_OK);
    refused(c, run(c, NULL, c->args), MOE_NULL, "array of sizes");
    refused(c, run(c, sizes, NULL), MOE_NULL, "array of arguments");
    refused(c, run(c, (int64_t[]){-1, K, E, H}, c->args), MOE_SIZE, "");
    refused(c, run(c, (int64_t[]){T, K, E, INT64_MAX}, c->args), MOE_SIZE, "");
    for (int i = 0; i < PARAMS; i++) {
        void *args[PARAMS];
        memcpy(args, c->args, sizeof args);
        args[i] = NULL;
        refused(c, run(c, sizes, args), MOE_NULL, names[i]);
    }
}

static void entries_check_every_pointer(void **state)
{
    Case *c = *state;
    uniform_calls_check_every_pointer(c, by_entry);
    assert_int_equal(moec_kernel_entry(c->k)(NULL, NULL, NULL), MOE_NULL);
    refused(c, moec_kernel_interpret(c->k, c->ctx, sizes, c->args), MOE_ARGUMENT, "without the option");
    int64_t **const arrays[] = {&c->route->start, &c->route->count};
    for (int i = 0; i < 2; i++) {
        int64_t *array = *arrays[i];
        *arrays[i] = NULL;
        refused(c, by_entry(c, sizes, c->args), MOE_NULL, "rt");
        *arrays[i] = array;
    }
    int32_t *row_of = c->route->row_of;
    c->route->row_of = NULL;
    refused(c, by_entry(c, sizes, c->args), MOE_NULL, "rt");
    c->route->row_of = row_of;
}

static void the_interpreter_checks_every_pointer(void **state)
{
    Case *c = *state;
    uniform_calls_check_every_pointer(c, by_interpreter);
    refused(c, moec_kernel_interpret(NULL, c->ctx, sizes, c->args), MOE_NULL, "no kernel");
    assert_int_equal(moec_kernel_interpret(NULL, NULL, NULL, NULL), MOE_NULL);
    assert_int_equal(moec_kernel_interpret(c->k, NULL, NULL, NULL), MOE_NULL);
    assert_null(moec_kernel_function(c->k));
    assert_true(moec_kernel_entry(c->k) == NULL);
}

static void checks_take_two_of_one_kernel(void **state)
{
    Case *c = *state;
    static const char other[] = "moe 1\ndim T\nkernel f(in x: f32[T], out y: f32[T]) { y[t] = x[t] }\n";
    moec_options o = {.interpret = 1};
    moec_module *m, *unlike;
    moec_score score = {0};
    assert_int_equal(moec_compile_text(c->context, "bounds.moe", PROGRAM, strlen(PROGRAM), &o, &m), 0);
    assert_int_equal(moec_compile_text(c->context, "other.moe", other, strlen(other), &o, &unlike), 0);
    const moec_kernel *k = moec_module_kernel(m, "f");
    void *args[PARAMS];
    memcpy(args, c->args, sizeof args);
    const struct {
        const moec_kernel *compiled, *interpreted;
        const int64_t *dims;
        void *const *args;
        const char *words;
    } wrong[] = {
        {NULL, k, sizes, args, "a compiled kernel"},
        {c->k, NULL, sizes, args, "a compiled kernel"},
        {c->k, c->k, sizes, args, "a compiled kernel"},
        {k, k, sizes, args, "a compiled kernel"},
        {c->k, moec_module_kernel(unlike, "f"), sizes, args, "one program"},
        {c->k, k, NULL, args, "array of sizes"},
        {c->k, k, sizes, NULL, "array of arguments"},
        {c->k, k, (int64_t[]){-1, K, E, H}, args, ""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(moec_kernel_check(wrong[i].compiled, wrong[i].interpreted, c->ctx, wrong[i].dims,
                                           wrong[i].args, &score),
                         1);
        if (!strstr(moe_ctx_message(c->ctx), wrong[i].words))
            fail_msg("'%s' does not say '%s'", moe_ctx_message(c->ctx), wrong[i].words);
    }
    for (int i = 0; i < PARAMS; i++) {
        args[i] = NULL;
        assert_int_equal(moec_kernel_check(c->k, k, c->ctx, sizes, args, &score), 1);
        args[i] = c->args[i];
    }
    assert_int_equal(score.compared, 0);
    assert_int_equal(moec_kernel_check(c->k, k, NULL, sizes, args, NULL), 0);
    assert_int_equal(moec_kernel_check(c->k, k, c->ctx, sizes, args, &score), 0);
    assert_int_equal(score.compared, T * H);
    moec_module_free(m);
    moec_module_free(unlike);
}

/* y[n] = s0 + s1 + ..., of so many scalars */
static moec_module *sum_of_scalars(const Case *c, int scalars)
{
    char text[1 << 14], *at = text;
    moec_options o = {.no_cache = 1};
    moec_module *m = NULL;
    at += sprintf(at, "moe 1\ndim N\nkernel f(out y: f32[N]");
    for (int i = 0; i < scalars; i++)
        at += sprintf(at, ", in s%d: f32", i);
    at += sprintf(at, ") {\n  y[n] = s0");
    for (int i = 1; i < scalars; i++)
        at += sprintf(at, "%s+ s%d", i % 8 ? " " : "\n    ", i);
    sprintf(at, "\n}\n");
    assert_int_equal(moec_compile_text(c->context, "many.moe", text, strlen(text), &o, &m), 0);
    return m;
}

static void calls_take_many_parameters(void **state)
{
    enum { MOST = 200 };
    Case *c = *state;
    static const int numbers[] = {20, 63, 64, 100, 130, MOST};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        moec_module *m = sum_of_scalars(c, numbers[i]);
        float y[2] = {-7, -7};
        DLTensor t = {
            .data = y, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = (int64_t[]){2}};
        moec_arg args[1 + MOST] = {{.kind = MOEC_TENSOR, .tensor = &t}};
        for (int s = 0; s < numbers[i]; s++)
            args[1 + s] = (moec_arg){.kind = MOEC_SCALAR, .scalar = s};
        assert_int_equal(moec_kernel_call(moec_module_kernel(m, "f"), c->ctx, args, 1 + (size_t)numbers[i]),
                         MOE_OK);
        assert_float_equal(y[0], (float)(numbers[i] * (numbers[i] - 1) / 2), 0);
        assert_float_equal(y[1], y[0], 0);
        moec_module_free(m);
    }
}

/* ---- moert ---- */

static void contexts_and_routes(void **state)
{
    (void)state;
    static const int64_t bad[][4] = {{-1, 1, 1, 1},
                                     {1, -1, 1, 1},
                                     {1, 1, -1, 1},
                                     {1, 1, 1, -1},
                                     {INT64_MAX, INT64_MAX, 1, 1},
                                     {INT32_MAX, 2, 1, 1},
                                     {1, 1, INT64_MAX, 1},
                                     {1, 1, 1, INT64_MAX},
                                     {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_null(moe_route_new(bad[i][0], bad[i][1], bad[i][2], bad[i][3]));
    const int32_t ids[] = {0, -1, 1, INT32_MAX};
    static const int64_t of_ids[][4] = {
        {-1, 1, 2, -1},       {1, -1, 2, -1}, {2, 1, -1, -1},       {2, 1, 2, -2},
        {2, 2, 2, -1},        {3, 1, 1, -1},  {2, 1, 2, INT64_MAX}, {INT64_MAX, INT64_MAX, 2, -1},
        {INT64_MIN, 1, 2, -1}};
    for (size_t i = 0; i < sizeof of_ids / sizeof *of_ids; i++)
        assert_null(moe_route_from_ids(ids, of_ids[i][0], of_ids[i][1], of_ids[i][2], of_ids[i][3]));
    assert_null(moe_route_from_ids(NULL, 2, 1, 2, -1));
    moe_route *empty = moe_route_new(0, 0, 0, 0);
    assert_non_null(empty);
    moe_route_free(empty);
    moe_route_free(NULL);
    moe_ctx_free(NULL);
    moe_ctx bare = {.threads = 1};
    assert_string_equal(moe_ctx_message(NULL), "");
    assert_string_equal(moe_ctx_message(&bare), "");
    static const int unknown[] = {-1, MOE_PACKED + 1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_string_equal(moe_status_text(unknown[i]), "not a status");
        assert_string_equal(moe_strerror(unknown[i]), "not a status");
    }
    static const int threads[] = {0, -1, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        moe_ctx_free(moe_ctx_new(threads[i]));
}

/* ---- all of them ---- */

/* The functions that the two headers declare are called in this file too, those of cases, timing and records in two others. */
static void every_public_function_is_called_here(void **state)
{
    (void)state;
    static const char command[] =
        "sed '/^typedef/d; s,//.*,,; s,/\\*.*\\*/,,' include/moec/moec.h include/moec/moert.h | "
        "grep -o '\\bmoec\\?_[a-z_]*(' | sort -u | while read f; do grep -qF \"$f\" "
        "tests/unit/test_api_bounds.c "
        "tests/unit/test_case.c tests/unit/test_records.c || echo \"$f\"; done | grep .";
    assert_int_not_equal(system(command), 0);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(compiling_needs_a_context_a_text_and_a_place),
        CASE(what_does_not_exist_has_no_properties),
        CASE(sizes_out_of_range_have_no_elements),
        CASE(pairs_that_do_not_exist_are_empty),
        CASE(solving_needs_shapes_and_a_place),
        CASE(placing_needs_places_and_equations),
        CASE(packing_needs_a_packed_parameter_and_memory),
        CASE(calls_check_every_argument),
        CASE(entries_check_every_pointer),
        CASE(checks_take_two_of_one_kernel),
        CASE(calls_take_many_parameters),
        cmocka_unit_test_setup_teardown(sizes_out_of_range_have_no_elements, set_up_interpreted, tear_down),
        cmocka_unit_test_setup_teardown(calls_check_every_argument, set_up_interpreted, tear_down),
        cmocka_unit_test_setup_teardown(places_out_of_range_are_refused, set_up_interpreted, tear_down),
        cmocka_unit_test_setup_teardown(the_interpreter_checks_every_pointer, set_up_interpreted, tear_down),
        cmocka_unit_test(contexts_and_routes),
        cmocka_unit_test(every_public_function_is_called_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
