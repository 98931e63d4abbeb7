/* What `moec test` does: the list of runs, each one guarded, each one reported. */
#include "driver/check_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One line of the report: a kernel at sizes and routings. */
typedef struct Job {
    Check *check;
    const Kernel *k;
    const int64_t *dims;
    const TestRun *run;
    const Derive *derive; /* k is its backward or forward; NULL */
    const Kernel *origin; /* of a derived kernel */
    double tolerance;
    int gradcheck;
    Arena *arena;
    const char *bad, *note;
    CheckScore score;
} Job;

/* ---- one run ---- */

static int has_nan(const CheckCase *c, const CheckReference *r)
{
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        const Tensor *t = check_tensor(c->k, i);
        for (int64_t n = 0; t && t->role == ROLE_OUT && n < c->values[i].count; n++)
            if (isnan(r->data[i][n]))
                return 1;
    }
    return 0;
}

CheckCase check_new_case(const Check *check, Arena *a, const Kernel *k, const int64_t *dims,
                         const TestRun *run)
{
    const char *where = run ? check_routing_text(run, a) : "";
    uint64_t seed =
        check->o->seed ^ hash_bytes(k->name, strlen(k->name), hash_bytes(where, strlen(where), 7));
    return (CheckCase){.arena = a,
                       .k = k,
                       .reference = &check->reference,
                       .dims = dims,
                       .run = run,
                       .random = random_new(seed),
                       .shrink = 1};
}

static CheckCase new_case(const Job *j, const Kernel *k)
{
    return check_new_case(j->check, j->arena, k, j->dims, j->run);
}

/* Random inputs that the kernel accepts: fewer index values when it refuses them, positive floats when it makes NaN
 * of the others. What it still refuses is compared all the same: compiled code must refuse it too. */
const char *check_find_inputs(CheckCase *c, int with_bounds, CheckReference *r)
{
    for (int attempt = 0; attempt < 6; attempt++) {
        const char *error = check_fill(c);
        if (error)
            return error;
        *r = check_reference(c, EVAL_REFERENCE, with_bounds);
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
static const char *compare_emulated(Job *j, const CheckCase *c, const CheckReference *r)
{
    const Check *check = j->check;
    Emulation emulation = {check->for_jit, &check->jit, NULL};
    CheckTarget target = {.code = &check->jit,
                          .threads = 1,
                          .emulation = &emulation,
                          .mode = (EmulateMode)(check->o->emulate - 1)};
    CheckResult got = check_call(c, &target);
    const char *bad = named(j->arena, "plan", check_compare(c, r, &got, j->tolerance, &j->score));
    if (bad || check->o->tiles)
        return bad;
    CheckTarget unplanned = {.code = &check->so, .threads = 1};
    CheckResult plain = check_call(c, &unplanned);
    return named(j->arena, "plan and what it was made of", check_same(c, &got, &plain));
}

static const char *compare_targets(Job *j, const CheckCase *c, const CheckReference *r)
{
    const Check *check = j->check;
    if (check->o->emulate)
        return compare_emulated(j, c, r);
    CheckTarget one = {.code = &check->jit, .threads = 1},
                two = {.code = &check->jit, .threads = -2, .dirty = 1},
                so = {.code = &check->so, .threads = 1};
    CheckResult first = check_call(c, &one);
    const char *bad = named(j->arena, "JIT", check_compare(c, r, &first, j->tolerance, &j->score));
    CheckResult second = check_call(c, &two);
    if (!bad)
        bad =
            named(j->arena, "1 thread, and 2 threads in a dirty work space", check_same(c, &first, &second));
    if (!bad && check->has_so) {
        CheckResult third = check_call(c, &so);
        bad = named(j->arena, "JIT and .so", check_same(c, &first, &third));
    }
    if (r->error)
        j->note = arena_printf(j->arena, "refused by all: %s", r->error);
    return bad;
}

static const char *run_plain(Job *j)
{
    CheckCase c = new_case(j, j->k);
    CheckReference r;
    const char *error = check_find_inputs(&c, 1, &r);
    return error ? error : compare_targets(j, &c, &r);
}

/* A forward computes what its origin does: the outputs of both are judged by the kernel as written. */
static void take_outputs_of_origin(const CheckCase *c, const CheckCase *origin, CheckReference *r)
{
    CheckReference written = check_reference(origin, EVAL_REFERENCE, 1);
    for (uint32_t i = 0; !written.error && i < origin->k->params.len; i++) {
        const Tensor *t = check_tensor(origin->k, i);
        uint32_t to = t && t->role == ROLE_OUT ? check_param_named(c->k, t->name) : (uint32_t)NONE;
        if (to == NONE || check_tensor(c->k, to)->role != ROLE_OUT)
            continue;
        r->data[to] = written.data[i];
        r->bounds[to] = written.bounds[i];
    }
}

/* The origin's inputs are found first: a derived kernel gets the same ones. */
static const char *run_derived(Job *j)
{
    CheckCase origin = new_case(j, j->origin), c = new_case(j, j->k);
    CheckReference r;
    const char *error = check_find_inputs(&origin, 0, &r);
    if (error)
        return error;
    if (r.error) {
        j->note = arena_printf(j->arena, "left out: %s", r.error);
        return NULL;
    }
    c.positive = origin.positive;
    error = check_fill_derived(&c, &origin, j->derive, EVAL_REFERENCE);
    if (error)
        return error;
    r = check_reference(&c, EVAL_REFERENCE, 1);
    if (j->derive->forward == c.k->name && !r.error)
        take_outputs_of_origin(&c, &origin, &r);
    return compare_targets(j, &c, &r);
}

static const char *run_gradient(Job *j)
{
    CheckCase origin = new_case(j, j->origin);
    CheckReference r;
    origin.unrounded = 1;
    const char *error = check_find_inputs(&origin, 0, &r);
    if (error)
        return error;
    if (r.error) {
        j->note = arena_printf(j->arena, "left out: %s", r.error);
        return NULL;
    }
    return check_gradient(&origin, j->derive, &j->score.worst);
}

static const char *run_guarded(Job *j)
{
    jmp_buf landing;
    if (setjmp(landing)) {
        arena_set_landing(j->arena, NULL);
        arena_set_landing(j->check->c->arena, NULL);
        const char *text = arena_message(j->arena);
        return text && *text ? text : arena_message(j->check->c->arena);
    }
    arena_set_landing(j->arena, &landing);
    arena_set_landing(j->check->c->arena, &landing);
    const char *bad = j->gradcheck ? run_gradient(j) : j->derive ? run_derived(j) : run_plain(j);
    arena_set_landing(j->arena, NULL);
    arena_set_landing(j->check->c->arena, NULL);
    return bad;
}

static void report(const Job *j)
{
    const Check *check = j->check;
    const Module *m = check->c->module;
    DimId *dims = calloc(m->dims.len + 1, sizeof *dims);
    if (check->o->quiet && !j->bad) {
        free(dims);
        return;
    }
    fprintf(check->out, "%s", j->k->name);
    for (uint32_t d = 0, n = dims ? ir_kernel_dims(j->k, dims) : 0; d < n; d++)
        fprintf(check->out, " %s=%lld", m->dims.at[dims[d]].name, (long long)j->dims[dims[d]]);
    if (j->run && j->run->routings.len)
        fprintf(check->out, "  %s", check_routing_text(j->run, j->arena));
    fprintf(check->out, j->gradcheck ? "  gradient error %.2g" : "  error %.2g of bound", j->score.worst);
    fprintf(check->out, "  %s", j->bad ? "FAILED" : "ok");
    if (j->score.doubt + j->score.nan)
        fprintf(check->out, "  (%lld of %lld elements not compared: %lld in doubt, %lld NaN)",
                (long long)(j->score.doubt + j->score.nan), (long long)j->score.elements,
                (long long)j->score.doubt, (long long)j->score.nan);
    if (j->bad || j->note)
        fprintf(check->out, "\n    %s", j->bad ? j->bad : j->note);
    fprintf(check->out, "\n");
    fflush(check->out);
    free(dims);
}

/* NULL, or why the run proves nothing. */
static const char *empty_proof(const CheckScore *s)
{
    return s->elements > 0 && s->doubt + s->nan == s->elements
               ? "no element could be compared: each is NaN, or its value hangs on a rounding"
               : NULL;
}

static void run_job(Check *check, Job j)
{
    j.check = check;
    j.arena = arena_new();
    if (!j.arena)
        return;
    j.bad = run_guarded(&j);
    if (!j.bad)
        j.bad = empty_proof(&j.score);
    check->runs++;
    check->failed += j.bad != NULL;
    report(&j);
    arena_free(j.arena);
}

/* A kernel, and the kernels derived from it, at one set of sizes. */
static void run_kernel(Check *check, Job j)
{
    const Module *m = check->c->module;
    run_job(check, (Job){.k = j.k, .dims = j.dims, .run = j.run, .tolerance = j.tolerance});
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        const Derive *d = m->kernels.at[i]->derived;
        if (!d || d->kernel != j.k->name)
            continue;
        Job derived = j;
        derived.k = m->kernels.at[i];
        derived.origin = j.k;
        derived.derive = d;
        derived.gradcheck = 0;
        run_job(check, derived);
        derived.gradcheck = j.gradcheck && d->backward == derived.k->name;
        if (derived.gradcheck)
            run_job(check, derived);
    }
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

int64_t *check_default_sizes(const Module *m, Arena *a)
{
    static const int64_t sizes[] = {5, 3, 6, 4, 7};
    int64_t *dims = arena_array(a, int64_t, m->dims.len + 1);
    for (DimId d = 0; d < m->dims.len; d++)
        dims[d] = legal_size(&m->dims.at[d], sizes[d % 5]);
    return dims;
}

static int wanted(const Check *check, const Kernel *k)
{
    return !check->o->kernel || strcmp(check->o->kernel, k->name) == 0;
}

static void run_test(Check *check, const Test *t)
{
    const Module *m = check->c->module;
    const Kernel *k = ir_find_kernel(m, t->kernel);
    if (!k || !wanted(check, k))
        return;
    int64_t *dims = check_default_sizes(m, check->c->arena);
    for (uint32_t i = 0; i < t->sizes.len; i++)
        dims[t->sizes.at[i].dim] = t->sizes.at[i].value;
    for (uint32_t i = 0; i < t->runs.len; i++)
        run_kernel(check, (Job){.k = k,
                                .dims = dims,
                                .run = &t->runs.at[i],
                                .tolerance = t->tolerance,
                                .gradcheck = t->gradcheck});
}

/* Each dimension of the kernel at every awkward size while the others stay small; then all small and all zero. */
static void sweep_kernel(Check *check, const Kernel *k, const TestRun *run)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 13, 15, 16, 17, 31, 33, 67};
    const Module *m = check->c->module;
    DimId *passed = arena_array(check->c->arena, DimId, m->dims.len + 1);
    uint32_t n = ir_kernel_dims(k, passed);
    for (uint32_t d = 0; d < n; d++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int64_t *dims = check_default_sizes(m, check->c->arena);
            for (uint32_t other = 0; other < n; other++)
                dims[passed[other]] = legal_size(&m->dims.at[passed[other]], 3);
            dims[passed[d]] = legal_size(&m->dims.at[passed[d]], sizes[s]);
            run_kernel(check, (Job){.k = k, .dims = dims, .run = run});
        }
    for (int64_t all = 0; all < 3; all++) {
        int64_t *dims = check_default_sizes(m, check->c->arena);
        for (uint32_t d = 0; d < n; d++)
            dims[passed[d]] = legal_size(&m->dims.at[passed[d]], all);
        run_kernel(check, (Job){.k = k, .dims = dims, .run = run});
    }
}

static int has_test(const Module *m, const Kernel *k)
{
    for (uint32_t i = 0; i < m->tests.len; i++)
        if (m->tests.at[i].kernel == k->name)
            return 1;
    return 0;
}

static void run_all(Check *check)
{
    const Module *m = check->c->module;
    TestRun zipf = {0};
    vec_push(check->c->arena, &zipf.routings, (TestRouting){.kind = ROUTING_ZIPF, .value = 1.2});
    for (uint32_t i = 0; i < m->tests.len; i++)
        run_test(check, &m->tests.at[i]);
    for (uint32_t i = 0; i < m->kernels.len; i++) {
        const Kernel *k = m->kernels.at[i];
        if (!wanted(check, k) || k->derived)
            continue;
        if (!has_test(m, k))
            run_kernel(check, (Job){.k = k, .dims = check_default_sizes(m, check->c->arena), .run = &zipf});
        if (check->o->sweep)
            sweep_kernel(check, k, &zipf);
    }
}

int check_tests(const char *path, const CheckOptions *o, FILE *out)
{
    Check check = {.o = o, .out = out};
    int status = check_load(&check, path, CODE_ALL);
    if (!status) {
        run_all(&check);
        fprintf(out, "%s: %u runs, %u failed\n", path, check.runs, check.failed);
        if (o->kernel && !check.runs)
            fprintf(out, "error: %s has no kernel '%s' to test; derived ones are tested with their origin\n",
                    path, o->kernel);
        status = check.failed || (o->kernel && !check.runs) ? DRIVER_ERROR : DRIVER_OK;
    }
    check_unload(&check);
    return status;
}
