/* Placements of kernels' results (ir/place.h): every kernel of a model's modules, cut along every dimension that it can be, is run
 * by two processes on their parts, and their results together are those of one run. */
#include "model/recipe.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { RANKS = 2, MAX_PARAMS = 32 };

#define SOURCE(name)                   \
    extern const char source_##name[]; \
    extern const size_t source_##name##_len;
#include "model/sources.def"

typedef struct Module {
    moec_context *context;
    moec_module *module;
} Module;

static Module compile(const char *name, const char *text, size_t len)
{
    Module m = {.context = moec_context_new()};
    const moec_options o = {.interpret = 1, .types = strstr(text, "type act") ? "act=f32" : NULL};
    if (moec_compile_text(m.context, name, text, len, &o, &m.module))
        fail_msg("%s", moec_error_text(m.context));
    return m;
}

static void release(Module *m)
{
    moec_module_free(m->module);
    moec_context_free(m->context);
}

/* ---- one tensor, whole and as the processes have it ---- */

typedef struct Tensor {
    int place;
    int64_t whole[MOEC_MAX_RANK], part[MOEC_MAX_RANK];
    void *all;       /* of one run: row-major, elements of 4 bytes */
    void *of[RANKS]; /* of each process */
} Tensor;

typedef struct Case {
    const moec_kernel *k;
    size_t params;
    int64_t dims[32], cut[32]; /* of one run, and of each process */
    int places[MAX_PARAMS];
    Tensor t[MAX_PARAMS];
    Arena *arena;
    Random random;
} Case;

static int64_t elements(const int64_t *shape, int rank)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    return n;
}

static uint32_t draw(Case *c, size_t i)
{
    const float f = (float)random_normal(&c->random);
    uint32_t bits = (uint32_t)random_below(&c->random, 2);
    if (moec_kernel_param_type(c->k, i) == MOEC_F32)
        memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Copies between a whole tensor and process p's part of its axis. */
static void move_part(Tensor *t, int rank, int p, int to_whole)
{
    const int64_t outer = elements(t->whole, t->place), rows = t->part[t->place],
                  inner = elements(t->whole + t->place + 1, rank - t->place - 1), bytes = rows * inner * 4;
    for (int64_t o = 0; o < outer; o++) {
        char *whole = (char *)t->all + (o * RANKS + p) * bytes, *part = (char *)t->of[p] + o * bytes;
        memcpy(to_whole ? whole : part, to_whole ? part : whole, (size_t)bytes);
    }
}

static void add_up(const Tensor *t, int64_t n, float *sum)
{
    for (int64_t j = 0; j < n; j++) {
        sum[j] = 0;
        for (int p = 0; p < RANKS; p++)
            sum[j] += ((float *)t->of[p])[j];
    }
}

static void fill(Case *c, size_t i)
{
    Tensor *t = &c->t[i];
    const int rank = moec_kernel_param_rank(c->k, i);
    const int64_t n = elements(t->whole, rank);
    for (int64_t j = 0; j < n; j++)
        ((uint32_t *)t->all)[j] = draw(c, i);
    for (int p = 0; p < RANKS; p++) {
        if (t->place >= 0)
            move_part(t, rank, p, 0);
        else
            memcpy(t->of[p], t->all, (size_t)n * 4);
        for (int64_t j = 0; t->place == MOEC_SUM && j < n; j++)
            ((uint32_t *)t->of[p])[j] = draw(c, i);
    }
    if (t->place == MOEC_SUM)
        add_up(t, n, t->all);
}

static void make_tensor(Case *c, size_t i)
{
    Tensor *t = &c->t[i];
    t->place = c->places[i];
    moec_kernel_param_shape(c->k, i, c->dims, t->whole);
    moec_kernel_param_shape(c->k, i, c->cut, t->part);
    const int64_t n = elements(t->whole, moec_kernel_param_rank(c->k, i));
    t->all = arena_array(c->arena, float, n + 1);
    for (int p = 0; p < RANKS; p++)
        t->of[p] = arena_array(c->arena, float, n + 1);
    if (moec_kernel_param_role(c->k, i) != MOEC_OUT)
        fill(c, i);
}

/* ---- runs ---- */

/* process RANKS: the one run. */
static int run(Case *c, int process)
{
    const int64_t *dims = process == RANKS ? c->dims : c->cut;
    void *args[MAX_PARAMS], *row_major[MAX_PARAMS];
    char message[MOE_MESSAGE_BYTES] = "";
    moe_ctx ctx = {.message = message};
    for (size_t i = 0; i < c->params; i++) {
        args[i] = row_major[i] = process == RANKS ? c->t[i].all : c->t[i].of[process];
        if (!moec_kernel_param_packed(c->k, i))
            continue;
        const int64_t bytes = moec_kernel_param_bytes(c->k, i, dims);
        args[i] = arena_alloc(c->arena, (size_t)bytes);
        if (moec_kernel_pack(c->k, i, dims, row_major[i], args[i]))
            return 1;
    }
    const int status = moec_kernel_interpret(c->k, &ctx, dims, args);
    for (size_t i = 0; i < c->params && !status; i++)
        if (moec_kernel_param_packed(c->k, i))
            moec_kernel_unpack(c->k, i, dims, args[i], row_major[i]);
    return status;
}

static void compare(const Case *c, const char *where, const float *got, const float *wanted, int64_t n)
{
    double largest = 1e-3;
    for (int64_t j = 0; j < n; j++)
        largest = isfinite(wanted[j]) ? fmax(largest, fabs((double)wanted[j])) : largest;
    for (int64_t j = 0; j < n; j++)
        if (isfinite(wanted[j]) && !(fabs((double)got[j] - (double)wanted[j]) <= 1e-4 * largest))
            fail_msg("%s [%lld]: together %g, in one run %g", where, (long long)j, (double)got[j],
                     (double)wanted[j]);
    (void)c;
}

static void check_output(Case *c, size_t i, const char *where)
{
    Tensor *t = &c->t[i];
    const int rank = moec_kernel_param_rank(c->k, i);
    const int64_t n = elements(t->whole, rank);
    void *wanted = t->all, *together = arena_array(c->arena, float, n + 1);
    t->all = together;
    if (t->place == MOEC_SUM)
        add_up(t, n, together);
    else if (t->place == MOEC_WHOLE)
        memcpy(together, t->of[RANKS - 1], (size_t)n * 4);
    for (int p = 0; p < RANKS && t->place >= 0; p++)
        move_part(t, rank, p, 1);
    if (moec_kernel_param_type(c->k, i) == MOEC_F32)
        compare(c, where, together, wanted, n);
    else
        assert_memory_equal(together, wanted, (size_t)n * 4);
}

/* Whether the kernel was run; its values may be ones that it refuses. */
static int check_runs(Case *c, const char *kernel, const char *dim)
{
    for (size_t i = 0; i < c->params; i++)
        make_tensor(c, i);
    for (int p = 0; p <= RANKS; p++)
        if (run(c, p))
            return 0;
    for (size_t i = 0; i < c->params; i++)
        if (moec_kernel_param_role(c->k, i) != MOEC_IN)
            check_output(c, i,
                         arena_printf(c->arena, "%s cut along %s: `%s`", kernel, dim,
                                      moec_kernel_param_name(c->k, i)));
    return 1;
}

/* ---- all kernels, all dimensions ---- */

/* The axis of a parameter along the dimension, from two shapes; MOEC_WHOLE: none. */
static int axis_along(const Case *c, size_t i)
{
    int64_t whole[MOEC_MAX_RANK], part[MOEC_MAX_RANK];
    moec_kernel_param_shape(c->k, i, c->dims, whole);
    moec_kernel_param_shape(c->k, i, c->cut, part);
    for (int a = 0; a < moec_kernel_param_rank(c->k, i); a++)
        if (whole[a] != part[a])
            return a;
    return MOEC_WHOLE;
}

static int has_routes(const Case *c)
{
    for (size_t i = 0; i < c->params; i++)
        if (moec_kernel_param_kind(c->k, i) == MOEC_ROUTE)
            return 1;
    return 0;
}

/* Sizes are small, so that two ids are in range everywhere; the dimensions in `cut` are cut. */
static Case new_case(Arena *a, const moec_kernel *k, const char *cut, uint64_t seed)
{
    Case c = {.k = k, .params = moec_kernel_params(k), .arena = a, .random = random_new(seed)};
    for (size_t i = 0; i < moec_kernel_dims(k); i++) {
        const int is_cut =
            strstr(arena_printf(a, " %s ", cut), arena_printf(a, " %s ", moec_kernel_dim_name(k, i))) != NULL;
        c.dims[i] = is_cut ? 4 : 2;
        c.cut[i] = c.dims[i] / (is_cut ? RANKS : 1);
    }
    return c;
}

/* Gives the places of the inputs; of an `inout` that is not cut what is added decides. */
static int place(Case *c)
{
    int parts = 0;
    for (size_t i = 0; i < c->params; i++) {
        const moec_role role = moec_kernel_param_role(c->k, i);
        c->places[i] = role == MOEC_OUT ? MOEC_WHOLE : axis_along(c, i);
        parts |= c->places[i] >= 0;
        if (c->places[i] == MOEC_WHOLE && role == MOEC_INOUT)
            c->places[i] = MOEC_ANY;
    }
    return parts && !moec_kernel_place(c->k, NULL, c->places);
}

typedef struct Tally {
    int placed, refused, compared;
} Tally;

static void check_kernel(const moec_kernel *k, const char *name, Tally *tally)
{
    for (size_t d = 0; d < moec_kernel_dims(k); d++) {
        Arena *a = arena_new();
        Case c = new_case(a, k, moec_kernel_dim_name(k, d), 7 + d);
        const int good = place(&c);
        tally->placed += good, tally->refused += !good;
        if (good && !has_routes(&c))
            tally->compared += check_runs(&c, name, moec_kernel_dim_name(k, d));
        arena_free(a);
    }
}

static void check_module(const char *name, const char *text, size_t len, Tally *tally)
{
    Module m = compile(name, text, len);
    json_t *manifest = json_loads(moec_module_manifest(m.module), 0, NULL), *kernel;
    size_t i;
    json_array_foreach(json_object_get(manifest, "kernels"), i, kernel)
    {
        const char *kernel_name = json_string_value(json_object_get(kernel, "name"));
        check_kernel(moec_module_kernel(m.module, kernel_name), kernel_name, tally);
    }
    json_decref(manifest);
    release(&m);
}

static void parts_together_are_the_whole(void **state)
{
    (void)state;
    Tally tally = {0};
#define SOURCE(name) check_module(#name ".moe", source_##name, source_##name##_len, &tally);
#include "model/sources.def"
    if (tally.compared < 150 || tally.refused < 200)
        fail_msg("%d placed, %d refused, %d compared", tally.placed, tally.refused, tally.compared);
}

/* ---- chosen placements ---- */

static const char chosen[] =
    "moe 1\n"
    "dim T, K, H, F, G, E, M\n"
    "group R : E rows T*K\n"
    "kernel two(in x: f32[T, H], in a: f32[H, F], in b: f32[H, G], out y: f32[T, F], out z: f32[T, G]) {\n"
    "  y[t, f] = sum(h) x[t, h] * a[h, f]\n  z[t, g] = sum(h) x[t, h] * b[h, g]\n}\n"
    "derive (two_fwd, two_bwd) from two wrt x, a +=, b +=\n"
    "kernel experts(in id: i32[T, K], in x: f32[T, H], in w: f32[E, H, F], in p: f32[T, K], out y: f32[T, "
    "F]) {\n"
    "  rt = route(id -> R)\n  o[r, f] = sum(h) x[rt.token(r), h] * w[@r, h, f]\n"
    "  a[r, f] = silu(o[r, f])\n  y[t, f] = sum(k) p[t, k] * a[rt.row(t, k), f]\n}\n"
    "derive (experts_fwd, experts_bwd) from experts wrt x, w +=, p\n"
    "kernel linear(in x, y: f32[T], in a: f32, out z: f32[T], out u: f32) {\n"
    "  z[t] = if(a > 0, 2.0 * x[t] / a - y[t], 0.0)\n  u = sum(t) z[t]\n}\n"
    "kernel norm(in x: f32[T], in n: f32, out y: f32) { y = sqrt((sum(t) x[t] * x[t]) / n) }\n"
    "kernel square(in x: f32[T], out y: f32) { y = sum(t) x[t] * x[t] }\n"
    "kernel mean(in x: f32[T], out y: f32) { y = (sum(t) x[t]) / T }\n"
    "kernel first(in x: f32[T], out y: f32[T]) { y[t] = x[0] + x[t] }\n"
    "kernel upto(in x: f32[T], in n: i32, out y: f32[T]) { y[t] = if(t < n, x[t], 0.0) }\n"
    "kernel outer(in x: f32[T], out y: f32[T, T]) { y[t, u] = x[t] * x[u] }\n"
    "kernel most(in x: f32[T], out y: f32) { y = max(t) x[t] }\n"
    "kernel best(in x: f32[T], out y: f32[K], out n: i32[K]) { y[k: K], n[k] = top(t) x[t] }\n"
    "kernel plus(in x: f32[T], in y: f32, out z: f32) { z = y + sum(t) x[t] }\n"
    "kernel into(in id: i32[T], in x: f32[T], inout y: f32[E]) { y[id[t]] += x[t] }\n"
    "kernel from(in id: i32[T], in y: f32[E], out x: f32[T]) { x[t] = y[id[t]] }\n"
    "kernel other(in id: i32[T], in y: f32[T], out x: f32[T]) { x[t] = y[id[t]] }\n"
    "kernel pairs(in x: f32[T], out y: f32) { y = sum(t, u: T) x[t] }\n"
    "kernel ends(in x: f32[T+1], in z: f32[T], out y: f32[T]) { y[t] = z[t] + x[t + 0] }\n"
    "kernel bests(in x: f32[M], in w: f32[K], out y: f32[K], out n: i32[K]) {\n"
    "  b[k: K], n[k] = top(m) x[m]\n  y[k] = b[k] * w[k]\n}\n"
    "kernel pick(in id: i32[T], in y: f32[M], out x: f32[T]) { x[t] = sum(m where id[t] == m) y[m] }\n";

/* Places of parameters: `x=0 y=sum`; those that are not named are whole. */
static int place_in(const char *list, const char *param)
{
    char key[32];
    snprintf(key, sizeof key, " %s=", param);
    const char *at = strstr(list, key);
    if (!at)
        return MOEC_WHOLE;
    at += strlen(key);
    return !strncmp(at, "sum", 3) ? MOEC_SUM : !strncmp(at, "any", 3) ? MOEC_ANY : atoi(at);
}

/* words: places of what is written, or of the refusal. */
static void expect(const Module *m, const char *kernel, const char *cut, const char *in, const char *words)
{
    Arena *a = arena_new();
    char why[MOE_MESSAGE_BYTES] = "";
    moe_ctx ctx = {.message = why};
    Case c = new_case(a, moec_module_kernel(m->module, kernel), cut, 3);
    for (size_t i = 0; i < c.params; i++)
        c.places[i] = place_in(in, moec_kernel_param_name(c.k, i));
    if (moec_kernel_place(c.k, &ctx, c.places)) {
        if (!strstr(why, words))
            fail_msg("%s: `%s` does not say `%s`", kernel, why, words);
        arena_free(a);
        return;
    }
    for (size_t i = 0; i < c.params; i++)
        if (moec_kernel_param_role(c.k, i) != MOEC_IN &&
            c.places[i] != place_in(words, moec_kernel_param_name(c.k, i)))
            fail_msg("%s: `%s` has place %d", kernel, moec_kernel_param_name(c.k, i), c.places[i]);
    assert_true(has_routes(&c) || check_runs(&c, kernel, cut));
    arena_free(a);
}

static void chosen_placements(void **state)
{
    (void)state;
    Module m = compile("chosen.moe", chosen, strlen(chosen));
    /* columns of two matrices at once: what reads both adds partial sums */
    expect(&m, "two", "F G", " a=1 b=1", " y=1 z=1");
    expect(&m, "two_bwd", "F G", " a=1 b=1 d_y=1 d_z=1 d_a=any d_b=any", " d_x=sum d_a=1 d_b=1");
    expect(&m, "two_bwd", "F", " a=1 d_y=1 d_a=any d_b=any", "it adds");
    /* routes of the tokens that a process has */
    expect(&m, "experts", "T", " id=0 x=0 p=0", " y=0");
    expect(&m, "experts_bwd", "T", " id=0 x=0 p=0 d_y=0 o=0 d_w=any", " d_x=0 d_p=0 d_w=sum");
    expect(&m, "experts", "K", " id=1 p=1", "parts of its tokens");
    expect(&m, "experts", "E", " w=0", "parts of its tokens");
    /* partial sums in, partial sums out, where all is linear in them */
    expect(&m, "linear", "", " x=sum y=sum", " z=sum u=sum");
    expect(&m, "linear", "T", " x=0 y=0", " z=0 u=sum");
    expect(&m, "linear", "", " x=sum", "it adds a partial sum to a whole value");
    expect(&m, "linear", "", " x=sum y=sum a=sum", "not linear");
    /* each parameter counts once in a norm */
    expect(&m, "square", "", " x=sum", "not linear in a partial sum");
    expect(&m, "square", "T", " x=0", " y=sum");
    expect(&m, "square", "", "", "");
    expect(&m, "norm", "T", " x=0", "not linear in a partial sum");
    /* what a process does not have */
    expect(&m, "mean", "T", " x=0", "it uses T as a number");
    expect(&m, "first", "T", " x=0", "another process may have");
    expect(&m, "upto", "T", " x=0", "the number of an element along T");
    expect(&m, "outer", "T", " x=0", "along T");
    expect(&m, "most", "T", " x=0", "maximum or minimum over T");
    expect(&m, "best", "T", " x=0", "a top over T");
    expect(&m, "pairs", "T", " x=0", "it reduces twice over T");
    expect(&m, "ends", "T", " x=0 z=0", "goes over T + 1, which parts along T do not divide");
    expect(&m, "bests", "K", " w=0", "it takes as many as K");
    expect(&m, "plus", "T", " x=0", "it adds a whole value to a partial sum");
    expect(&m, "into", "T", " id=0 x=0 y=any", " y=sum");
    expect(&m, "into", "T", " id=0 x=0 y=sum", " y=sum");
    expect(&m, "into", "T", " id=0 x=0", "the tensor is whole, the value a partial sum");
    expect(&m, "from", "T", " id=0", " x=0");
    expect(&m, "other", "T", " id=0 y=0", "another process may have");
    expect(&m, "pick", "M", " y=0", "the number of an element along M");
    /* parameters that contradict each other */
    expect(&m, "linear", "T", " x=0", "`y` is whole, but its axis 0 is along T");
    expect(&m, "linear", "T", " x=1", "`x` has no axis 1");
    release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_together_are_the_whole),
        cmocka_unit_test(chosen_placements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
