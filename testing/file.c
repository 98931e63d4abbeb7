/* What `moec test` does: the list of runs, each one guarded, each one reported. */
#include "testing/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A kernel as written, with its inputs and what it makes of them: what it is judged by, and all that is derived from it. */
typedef struct TestOrigin {
    Arena *arena;
    const Kernel *k;
    int is_found;
    TestCase c;
    TestReference r;
    const char *error;
} TestOrigin;

/* One line of the report: a kernel at sizes and routings. */
typedef struct TestJob {
    TestFile *file;
    const Kernel *k;
    const int64_t *dims;
    const TestRun *run;
    const Derive *derive; /* k is its backward or forward; NULL */
    TestOrigin *origin;   /* of k, or of what k is derived from */
    double tolerance;
    int gradcheck;
    int is_swept; /* sizes that nobody asked for: nothing to compare is no failure */
    Arena *arena;
    const char *bad, *note;
    TestScore score;
} TestJob;

/* ---- one run ---- */

static int has_nan(const TestCase *c, const TestReference *r)
{
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        const Tensor *t = test_tensor(c->k, i);
        for (int64_t n = 0; t && t->role == ROLE_OUT && n < c->values[i].count; n++)
            if (isnan(r->data[i][n]))
                return 1;
    }
    return 0;
}

TestCase test_new_case(const TestFile *file, Arena *a, const Kernel *k, const int64_t *dims,
                       const TestRun *run)
{
    const char *where = run ? test_routing_text(run, a) : "";
    uint64_t seed = file->o->seed ^ hash_bytes(k->name, strlen(k->name), hash_bytes(where, strlen(where), 7));
    return (TestCase){.arena = a,
                      .k = k,
                      .reference = &file->reference,
                      .dims = dims,
                      .run = run,
                      .random = random_new(seed),
                      .shrink = 1};
}

static TestCase new_case(const TestJob *j, const Kernel *k)
{
    return test_new_case(j->file, j->arena, k, j->dims, j->run);
}

/* Random inputs that the kernel accepts: fewer index values when it refuses them, positive floats when it makes NaN
 * of the others. What it still refuses is compared all the same: compiled code must refuse it too. */
const char *test_find_inputs(TestCase *c, int with_bounds, TestReference *r)
{
    for (int attempt = 0; attempt < 6; attempt++) {
        const char *error = test_fill(c);
        if (error)
            return error;
        *r = test_reference(c, EVAL_REFERENCE, with_bounds);
        if (r->error)
            c->shrink *= 2;
        else if (!c->positive && has_nan(c, r))
            c->positive = 1;
        else
            break;
    }
    return NULL;
}

static const char *named(Arena *a, const char *what, const char *bad)
{
    return bad ? arena_printf(a, "%s: %s", what, bad) : NULL;
}

/* Does the plan compute what the program says? */
static const char *compare_emulated(TestJob *j, const TestCase *c, const TestReference *r)
{
    const TestFile *file = j->file;
    Emulation emulation = {file->for_jit, &file->jit, NULL};
    TestTarget target = {.code = &file->jit, .threads = 1, .emulation = &emulation, .mode = file->o->emulate};
    TestResult got = test_call(c, &target);
    const char *bad = named(j->arena, "plan", test_compare(c, r, &got, j->tolerance, &j->score));
    if (bad || file->o->tiles)
        return bad;
    TestTarget unplanned = {.code = &file->so, .threads = 1};
    TestResult plain = test_call(c, &unplanned);
    return named(j->arena, "plan and what it was made of", test_same(c, &got, &plain));
}

/* Code that was loaded, called twice. `first`: what the first call left. */
static const char *compare_code(TestJob *j, const TestCase *c, const TestReference *r, const Loaded *code,
                                TestResult *first)
{
    TestTarget one = {.code = code, .threads = 1}, two = {.code = code, .threads = -2, .strict = 1};
    *first = test_call(c, &one);
    const char *bad = named(j->arena, "JIT", test_compare(c, r, first, j->tolerance, &j->score));
    TestResult second = test_call(c, &two);
    return bad ? bad
               : named(j->arena, "1 thread, and 2 threads in a dirty work space",
                       test_same(c, first, &second));
}

static const char *compare_targets(TestJob *j, const TestCase *c, const TestReference *r)
{
    const TestFile *file = j->file;
    if (file->o->emulate)
        return compare_emulated(j, c, r);
    TestTarget so = {.code = &file->so, .threads = 1};
    TestResult first;
    const char *bad = compare_code(j, c, r, &file->jit, &first);
    if (!bad && file->has_so) {
        TestResult third = test_call(c, &so);
        bad = named(j->arena, "JIT and .so", test_same(c, &first, &third));
    }
    for (uint32_t i = 0; i < file->other_count && !bad; i++)
        bad = named(j->arena, file->others[i].name, compare_code(j, c, r, &file->others[i].code, &first));
    if (r->error)
        j->note = arena_printf(j->arena, "refused by all: %s", r->error);
    return bad;
}

/* Found once for all jobs about it. */
static const TestOrigin *find_origin(TestJob *j)
{
    TestOrigin *o = j->origin;
    if (!o->is_found) {
        o->c = test_new_case(j->file, o->arena, o->k, j->dims, j->run);
        o->error = test_find_inputs(&o->c, 1, &o->r);
        o->is_found = 1;
    }
    return o;
}

static const char *run_plain(TestJob *j)
{
    const TestOrigin *o = find_origin(j);
    TestCase c = o->c;
    c.arena = j->arena;
    return o->error ? o->error : compare_targets(j, &c, &o->r);
}

/* A forward computes what its origin does: the outputs of both are judged by the kernel as written. */
static void take_outputs_of_origin(const TestCase *c, const TestOrigin *o, TestReference *r)
{
    for (uint32_t i = 0; i < o->k->params.len; i++) {
        const Tensor *t = test_tensor(o->k, i);
        uint32_t to = t && t->role == ROLE_OUT ? test_param_named(c->k, t->name) : (uint32_t)NONE;
        if (to == NONE || test_tensor(c->k, to)->role != ROLE_OUT)
            continue;
        r->data[to] = o->r.data[i];
        r->bounds[to] = o->r.bounds[i];
    }
}

/* A derived kernel gets the inputs of its origin. */
static const char *run_derived(TestJob *j)
{
    const TestOrigin *o = find_origin(j);
    if (o->error)
        return o->error;
    if (o->r.error) {
        j->note = arena_printf(j->arena, "left out: %s", o->r.error);
        return NULL;
    }
    TestCase origin = o->c, c = new_case(j, j->k);
    origin.arena = j->arena;
    c.positive = origin.positive;
    const char *error = test_fill_derived(&c, &origin, j->derive, EVAL_REFERENCE);
    if (error)
        return error;
    TestReference r = test_reference(&c, EVAL_REFERENCE, 1);
    if (j->derive->forward == c.k->name && !r.error)
        take_outputs_of_origin(&c, o, &r);
    return compare_targets(j, &c, &r);
}

static const char *run_gradient(TestJob *j)
{
    TestCase origin = new_case(j, j->origin->k);
    TestReference r;
    origin.unrounded = 1;
    const char *error = test_find_inputs(&origin, 0, &r);
    if (error)
        return error;
    if (r.error) {
        j->note = arena_printf(j->arena, "left out: %s", r.error);
        return NULL;
    }
    return test_gradient(&origin, j->derive, &j->score.worst);
}

static void set_landing(const TestJob *j, jmp_buf *landing)
{
    arena_set_landing(j->arena, landing);
    arena_set_landing(j->origin->arena, landing);
    arena_set_landing(j->file->c->arena, landing);
}

static const char *run_guarded(TestJob *j)
{
    jmp_buf landing;
    if (setjmp(landing)) {
        const Arena *arenas[] = {j->arena, j->origin->arena, j->file->c->arena};
        uint32_t at = 0;
        set_landing(j, NULL);
        while (at < 2 && !*arena_message(arenas[at]))
            at++;
        return arena_message(arenas[at]);
    }
    set_landing(j, &landing);
    const char *bad = j->gradcheck ? run_gradient(j) : j->derive ? run_derived(j) : run_plain(j);
    set_landing(j, NULL);
    return bad;
}

static void report(const TestJob *j)
{
    const TestFile *file = j->file;
    const Module *m = file->c->module;
    if (file->o->quiet && !j->bad)
        return;
    DimId *dims = calloc(m->dims.len + 1, sizeof *dims); /* the arena may have no more */
    fprintf(file->out, "%s", j->k->name);
    for (uint32_t d = 0, n = dims ? ir_kernel_dims(j->k, dims) : 0; d < n; d++)
        fprintf(file->out, " %s=%lld", m->dims.at[dims[d]].name, (long long)j->dims[dims[d]]);
    if (j->run && j->run->routings.len)
        fprintf(file->out, "  %s", test_routing_text(j->run, j->arena));
    fprintf(file->out, j->gradcheck ? "  gradient error %.2g" : "  error %.2g of bound", j->score.worst);
    fprintf(file->out, "  %s", j->bad ? "FAILED" : "ok");
    if (j->score.doubt + j->score.nan)
        fprintf(file->out, "  (%lld of %lld elements not compared: %lld in doubt, %lld NaN)",
                (long long)(j->score.doubt + j->score.nan), (long long)j->score.elements,
                (long long)j->score.doubt, (long long)j->score.nan);
    if (j->bad || j->note)
        fprintf(file->out, "\n    %s", j->bad ? j->bad : j->note);
    fprintf(file->out, "\n");
    fflush(file->out);
    free(dims);
}

/* NULL, or why the run proves nothing. */
static const char *empty_proof(const TestScore *s)
{
    return s->elements > 0 && s->doubt + s->nan == s->elements
               ? "no element could be compared: each is NaN, or its value hangs on a rounding"
               : NULL;
}

static void no_memory(TestFile *file, const Kernel *k)
{
    file->runs++;
    file->failed++;
    fprintf(file->out, "%s  FAILED\n    out of memory\n", k->name);
}

static void run_job(TestFile *file, TestJob j)
{
    j.file = file;
    j.arena = arena_new();
    if (!j.arena) {
        no_memory(file, j.k);
        return;
    }
    j.bad = run_guarded(&j);
    if (!j.bad)
        *(j.is_swept ? &j.note : &j.bad) = empty_proof(&j.score);
    file->runs++;
    file->failed += j.bad != NULL;
    report(&j);
    arena_free(j.arena);
}

static void run_with_origin(TestFile *file, TestJob j)
{
    const Module *m = file->c->module;
    TestJob plain = j;
    plain.gradcheck = 0;
    run_job(file, plain);
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        const Derive *d = m->kernels.at[i]->derived;
        if (!d || d->kernel != j.k->name)
            continue;
        TestJob derived = j;
        derived.k = m->kernels.at[i];
        derived.derive = d;
        derived.gradcheck = 0;
        run_job(file, derived);
        derived.gradcheck = j.gradcheck && d->backward == derived.k->name;
        if (derived.gradcheck)
            run_job(file, derived);
    }
}

/* A kernel, and the kernels derived from it, at one set of sizes. */
static void run_kernel(TestFile *file, TestJob j)
{
    TestOrigin origin = {.arena = arena_new(), .k = j.k};
    if (!origin.arena) {
        no_memory(file, j.k);
        return;
    }
    j.origin = &origin;
    run_with_origin(file, j);
    arena_free(origin.arena);
}

/* ---- sizes ---- */

/* The nearest legal size of a dimension at or above `wanted`, if its maximum allows; zero stays zero. */
static int64_t legal_size(const Dim *d, int64_t wanted)
{
    if (d->constant >= 0)
        return d->constant;
    int64_t size = (wanted + d->multiple - 1) / d->multiple * d->multiple;
    if (d->max >= 0 && size > d->max)
        size = d->max / d->multiple * d->multiple;
    return size;
}

int64_t *test_default_sizes(const Module *m, Arena *a)
{
    static const int64_t sizes[] = {5, 3, 6, 4, 7};
    int64_t *dims = arena_array(a, int64_t, m->dims.len + 1);
    for (DimId d = 0; d < m->dims.len; d++)
        dims[d] = legal_size(&m->dims.at[d], sizes[d % 5]);
    return dims;
}

static int wanted(const TestFile *file, const Kernel *k)
{
    return !file->o->kernel || strcmp(file->o->kernel, k->name) == 0;
}

static void run_test(TestFile *file, const Test *t)
{
    const Module *m = file->c->module;
    const Kernel *k = ir_find_kernel(m, t->kernel);
    if (!k || !wanted(file, k))
        return;
    int64_t *dims = test_default_sizes(m, file->c->arena);
    for (uint32_t i = 0; i < t->sizes.len; i++)
        dims[t->sizes.at[i].dim] = t->sizes.at[i].value;
    for (uint32_t i = 0; i < t->runs.len; i++)
        run_kernel(file, (TestJob){.k = k,
                                   .dims = dims,
                                   .run = &t->runs.at[i],
                                   .tolerance = t->tolerance,
                                   .gradcheck = t->gradcheck && !file->o->no_gradcheck});
}

/* Each dimension of the kernel at every awkward size while the others stay small; then all small and all zero. */
static void sweep_kernel(TestFile *file, const Kernel *k, const TestRun *run)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 13, 15, 16, 17, 31, 33, 67};
    const Module *m = file->c->module;
    DimId *passed = arena_array(file->c->arena, DimId, m->dims.len + 1);
    uint32_t n = ir_kernel_dims(k, passed);
    for (uint32_t d = 0; d < n; d++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int64_t *dims = test_default_sizes(m, file->c->arena);
            for (uint32_t other = 0; other < n; other++)
                dims[passed[other]] = legal_size(&m->dims.at[passed[other]], 3);
            dims[passed[d]] = legal_size(&m->dims.at[passed[d]], sizes[s]);
            run_kernel(file, (TestJob){.k = k, .dims = dims, .run = run, .is_swept = 1});
        }
    for (int64_t all = 0; all < 3; all++) {
        int64_t *dims = test_default_sizes(m, file->c->arena);
        for (uint32_t d = 0; d < n; d++)
            dims[passed[d]] = legal_size(&m->dims.at[passed[d]], all);
        run_kernel(file, (TestJob){.k = k, .dims = dims, .run = run, .is_swept = 1});
    }
}

static int has_test(const Module *m, const Kernel *k)
{
    for (uint32_t i = 0; i < m->tests.len; i++)
        if (m->tests.at[i].kernel == k->name)
            return 1;
    return 0;
}

static void run_all(TestFile *file)
{
    const Module *m = file->c->module;
    TestRun zipf = {0};
    vec_push(file->c->arena, &zipf.routings, (TestRouting){.kind = ROUTING_ZIPF, .value = 1.2});
    for (uint32_t i = 0; i < m->tests.len; i++)
        run_test(file, &m->tests.at[i]);
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        const Kernel *k = m->kernels.at[i];
        if (!wanted(file, k) || k->derived)
            continue;
        if (!has_test(m, k))
            run_kernel(file, (TestJob){.k = k, .dims = test_default_sizes(m, file->c->arena), .run = &zipf});
        if (file->o->sweep)
            sweep_kernel(file, k, &zipf);
    }
}

/* Nothing ran of a kernel that was asked for: there is none, or derive made it. */
static void say_untested(const TestFile *file, const char *path)
{
    const Module *m = file->c->module;
    const char *name = file->o->kernel;
    if (ir_find_kernel(m, name_of(m->names, name)))
        fprintf(file->out,
                "%s: error: '%s' is derived: kernels are tested with the one that they are derived from\n",
                path, name);
    else
        fprintf(file->out, "%s: error: %s\n", path, ir_no_kernel(m, name, m->arena));
}

int test_file(const char *path, const TestOptions *o, FILE *out)
{
    TestFile file = {.o = o, .out = out, .errors = out};
    int status = test_load(&file, path, CODE_ALL);
    if (!status) {
        run_all(&file);
        if (o->kernel && !file.runs)
            say_untested(&file, path);
        else
            fprintf(out, "%s: %u runs, %u failed\n", path, file.runs, file.failed);
        status = file.failed || (o->kernel && !file.runs) ? DRIVER_ERROR : DRIVER_OK;
    }
    test_unload(&file);
    return status;
}
