/* What `moec run` does: one kernel, once, on random data. */
#include "testing/parts.h"
#include "frontend/frontend.h"

#include <math.h>
#include <string.h>

static void print_values(FILE *out, const char *name, Elem e, const unsigned char *bytes, int64_t count)
{
    double low = INFINITY, high = -INFINITY, sum = 0;
    char hash[33];
    for (int64_t n = 0; n < count; n++) {
        double v = element_read(e, bytes + (size_t)n * elem_bytes(e));
        low = v < low ? v : low;
        high = v > high ? v : high;
        sum += v;
    }
    hash_hex(bytes, (size_t)count * elem_bytes(e), hash);
    fprintf(out, "%s: %lld %s, ", name, (long long)count, elem_name(e));
    if (count)
        fprintf(out, "from %.6g to %.6g, mean %.6g, ", low, high, sum / (double)count);
    fprintf(out, "hash %.16s:", hash);
    for (int64_t n = 0; n < count && n < 6; n++)
        fprintf(out, " %.6g", element_read(e, bytes + (size_t)n * elem_bytes(e)));
    fprintf(out, count > 6 ? " ...\n" : "\n");
}

static unsigned char *encoded(const TestCase *c, const Tensor *t, const double *data, int64_t count)
{
    size_t size = elem_bytes(t->elem);
    unsigned char *bytes = arena_alloc(c->arena, size * (size_t)count + 1);
    for (int64_t n = 0; n < count; n++)
        element_write(t->elem, data[n], bytes + (size_t)n * size);
    return bytes;
}

static void print_outputs(FILE *out, const TestCase *c, unsigned char *const *bytes, const EvalRoute *routes)
{
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        const Tensor *t = test_tensor(c->k, i);
        const Route *r = t ? NULL : &c->k->routes.at[c->k->params.at[i].id];
        if (t && t->role != ROLE_IN)
            print_values(out, t->name, t->elem, bytes[i], c->values[i].count);
        else if (r && r->role != ROLE_IN)
            print_values(out, arena_printf(c->arena, "%s.count", r->name), EL_I64,
                         (const unsigned char *)routes[i].count, routes[i].groups);
    }
}

static const char *run_interpreter(const TestFile *file, const TestCase *c, const TestReference *r)
{
    unsigned char **bytes = arena_array(c->arena, unsigned char *, c->k->params.len + 1);
    for (uint32_t i = 0; !r->error && i < c->k->params.len; i++)
        if (test_tensor(c->k, i))
            bytes[i] = encoded(c, test_tensor(c->k, i), r->data[i], c->values[i].count);
    if (!r->error)
        print_outputs(file->out, c, bytes, r->routes);
    return r->error ? arena_printf(c->arena, "%s: %s", c->k->name, r->error) : NULL;
}

/* ---- compiled code ---- */

static int made_nan(const TestCase *c, const TestResult *got)
{
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        const Tensor *t = test_tensor(c->k, i);
        for (int64_t n = 0; t && t->role != ROLE_IN && t->elem != EL_I32 && n < c->values[i].count; n++)
            if (isnan(element_read(t->elem, got->bytes[i] + (size_t)n * elem_bytes(t->elem))))
                return 1;
    }
    return 0;
}

/* As test_find_inputs(), but by what compiled code says to them: the interpreter takes minutes where that takes milliseconds. */
static const char *call_with_inputs(TestCase *c, const TestTarget *target, TestResult *got)
{
    for (int attempt = 0; attempt < 6; attempt++) {
        const char *error = test_fill(c);
        if (error)
            return error;
        *got = test_call(c, target);
        if (got->failure)
            return got->failure;
        if (got->status)
            c->shrink *= 2;
        else if (!c->positive && made_nan(c, got))
            c->positive = 1;
        else
            break;
    }
    return got->status ? got->message : NULL;
}

enum { TIMED_CALLS = 5 };

/* The best of some calls, each with arguments of its own: an inout would grow. */
static void print_time(const TestFile *file, const TestCase *c, const TestTarget *target, double best)
{
    for (int i = 1; i < TIMED_CALLS; i++) {
        double seconds = test_call(c, target).seconds;
        best = seconds < best ? seconds : best;
    }
    fprintf(file->out,
            best < 1e-3 ? "time: %.3g ms, the best of %d calls\n" : "time: %.3f ms, the best of %d calls\n",
            1e3 * best, TIMED_CALLS);
}

static void print_result(const TestFile *file, const TestCase *c, const TestResult *got)
{
    EvalRoute *routes = arena_array(c->arena, EvalRoute, c->k->params.len + 1);
    for (uint32_t i = 0; i < c->k->params.len; i++)
        routes[i] = (EvalRoute){.groups = got->routes[i].groups, .count = got->routes[i].count};
    print_outputs(file->out, c, got->bytes, routes);
}

static const char *run_compiled(const TestFile *file, TestCase *c)
{
    TestTarget target = {.code = &file->jit, .threads = -file->o->threads};
    TestResult got;
    const char *error = call_with_inputs(c, &target, &got);
    if (error)
        return error;
    print_result(file, c, &got);
    if (!file->o->no_time)
        print_time(file, c, &target, got.seconds);
    return NULL;
}

/* The results of an edited program are also compared with the interpreter's. */
static const char *run_tiles(const TestFile *file, const TestCase *c, const TestReference *want)
{
    TestTarget target = {.code = &file->jit, .threads = -file->o->threads};
    TestResult got = test_call(c, &target);
    TestScore score = {0};
    if (got.failure || got.status)
        return got.failure ? got.failure : got.message;
    print_result(file, c, &got);
    return test_compare(c, want, &got, 0, &score);
}

static const Kernel *chosen_kernel(const TestFile *file)
{
    const Module *m = file->c->module;
    for (uint32_t i = 0; i < m->kernels.len; i++)
        if (!file->o->kernel || strcmp(file->o->kernel, m->kernels.at[i]->name) == 0)
            return m->kernels.at[i];
    return NULL;
}

static int64_t *no_sizes(const Module *m)
{
    int64_t *dims = arena_array(m->arena, int64_t, m->dims.len + 1);
    for (DimId d = 0; d < m->dims.len; d++)
        dims[d] = m->dims.at[d].constant;
    return dims;
}

/* NULL, or the dimensions that have no size. */
static const char *missing_sizes(const TestFile *file)
{
    const Module *m = file->c->module;
    DimId *passed = arena_array(m->arena, DimId, m->dims.len + 1);
    Text t = {.arena = m->arena};
    for (uint32_t d = 0, n = ir_kernel_dims(file->k, passed); d < n; d++)
        if (file->dims[passed[d]] < 0)
            text_add(&t, "%s%s", t.len ? ", " : "", m->dims.at[passed[d]].name);
    if (!t.len)
        return NULL;
    text_add(&t, " of kernel %s: no size is given, as in T=2048", file->k->name);
    return text_string(&t);
}

/* NULL or an error text. */
static const char *take_run(TestFile *file, void *user)
{
    (void)user;
    Module *m = file->c->module;
    file->k = chosen_kernel(file);
    file->dims = file->o->every_size ? no_sizes(m) : test_default_sizes(m, m->arena);
    file->run = (TestRun){0};
    if (!file->k)
        return ir_no_kernel(m, file->o->kernel, m->arena);
    const char *error = file->o->sizes ? frontend_sizes(m, file->o->sizes, file->dims) : NULL;
    if (!error)
        error = missing_sizes(file);
    if (!error && file->o->routing && !file->k->routes.len)
        error = arena_printf(m->arena, "kernel %s has no route: routing=%s would have no effect",
                             file->k->name, file->o->routing);
    if (!error && file->o->routing)
        error = frontend_routing(m, file->o->routing, &file->run);
    return error ? error : ir_run_flaw(file->k, file->dims, &file->run, m->arena);
}

int test_take_run(TestFile *file) { return test_guard(file, take_run, NULL); }

static const char *run_once(TestFile *file, void *user)
{
    (void)user;
    TestReference r;
    TestCase c = test_new_case(file, file->c->module->arena, file->k, file->dims, &file->run);
    if (!file->o->interpret && !file->o->tiles)
        return run_compiled(file, &c);
    const char *error = test_find_inputs(&c, file->o->tiles != NULL, &r);
    if (error)
        return error;
    return file->o->interpret ? run_interpreter(file, &c, &r) : run_tiles(file, &c, &r);
}

int test_once(const char *path, const TestOptions *o, FILE *out)
{
    TestFile file = {.o = o, .out = out, .errors = stderr};
    int status = test_load(&file, path, o->interpret ? CODE_NONE : CODE_OF_KERNEL);
    if (!status)
        status = test_guard(&file, run_once, NULL);
    test_unload(&file);
    return status;
}
