/* Derived kernels: their inputs, and gradients against finite differences in f64.
 *
 * A random linear functional L of the float outputs makes a number of a kernel; its coefficients are the cotangents
 * of the backward. Differences are taken along single elements and along random directions, at several step widths,
 * one of which must agree: a step may fall on a kink of relu, max or top. */
#include "testing/parts.h"

#include <math.h>
#include <string.h>

uint32_t test_param_named(const Kernel *k, const char *name)
{
    for (uint32_t i = 0; i < k->params.len; i++) {
        const Tensor *t = test_tensor(k, i);
        if (strcmp(t ? t->name : k->routes.at[k->params.at[i].id].name, name) == 0)
            return i;
    }
    return NONE;
}

static const char *param_name(const Kernel *k, uint32_t i)
{
    const Tensor *t = test_tensor(k, i);
    return t ? t->name : k->routes.at[k->params.at[i].id].name;
}

static int is_input(const Kernel *k, uint32_t i)
{
    const Tensor *t = test_tensor(k, i);
    return (t ? t->role : k->routes.at[k->params.at[i].id].role) == ROLE_IN;
}

/* What has the same name among the origin's inputs. */
static void take_inputs(TestCase *derived, const TestCase *origin, TestValue *given)
{
    for (uint32_t i = 0; i < derived->k->params.len; i++) {
        uint32_t from = test_param_named(origin->k, param_name(derived->k, i));
        if (from != NONE && is_input(origin->k, from) && is_input(derived->k, i))
            given[i] = origin->values[from];
    }
}

/* The backward's other inputs that are outputs of the forward. */
static const char *take_saved(TestCase *derived, const TestCase *origin, const Derive *d, EvalMode mode,
                              TestValue *given)
{
    TestCase forward = *origin;
    forward.k = ir_find_kernel(origin->k->module, d->forward);
    if (!forward.k)
        return "the forward kernel does not exist";
    const char *error = test_fill_derived(&forward, origin, d, mode);
    if (error)
        return error;
    TestReference ran = test_reference(&forward, mode, 0);
    for (uint32_t i = 0; !ran.error && i < derived->k->params.len; i++) {
        uint32_t from = test_param_named(forward.k, param_name(derived->k, i));
        if (from == NONE || is_input(forward.k, from) || !is_input(derived->k, i))
            continue;
        given[i] = forward.values[from];
        if (test_tensor(forward.k, from))
            given[i].data = ran.data[from];
        else
            given[i].route = ran.routes[from];
    }
    return ran.error;
}

/* A backward kernel that has run. */
typedef struct GradRun {
    TestCase c;
    TestReference r;
} GradRun;

static const char *run_backward(GradRun *run, const TestCase *origin, const Derive *d, EvalMode mode)
{
    run->c = *origin;
    run->c.k = ir_find_kernel(origin->k->module, d->backward);
    if (!run->c.k)
        return "the backward kernel does not exist";
    const char *error = test_fill_derived(&run->c, origin, d, mode);
    if (error)
        return error;
    run->r = test_reference(&run->c, mode, 0);
    return run->r.error;
}

/* Inputs of the second backward kernel: those of the first, under the same names, and what the first handed over. */
static const char *fill_later(TestCase *later, const GradRun *backward)
{
    TestValue *given = arena_array(later->arena, TestValue, later->k->params.len + 1);
    for (uint32_t i = 0; i < later->k->params.len; i++) {
        uint32_t from = test_param_named(backward->c.k, param_name(later->k, i));
        if (from == NONE || !is_input(later->k, i))
            continue;
        given[i] = backward->c.values[from];
        if (!is_input(backward->c.k, from))
            given[i].data = backward->r.data[from];
    }
    later->given = given;
    return test_fill(later);
}

const char *test_fill_derived(TestCase *derived, const TestCase *origin, const Derive *d, EvalMode mode)
{
    if (derived->k->name == d->later) {
        GradRun backward;
        const char *error = run_backward(&backward, origin, d, mode);
        return error ? error : fill_later(derived, &backward);
    }
    TestValue *given = arena_array(derived->arena, TestValue, derived->k->params.len + 1);
    const char *error = NULL;
    take_inputs(derived, origin, given);
    if (derived->k->name == d->backward)
        error = take_saved(derived, origin, d, mode, given);
    derived->given = given;
    return error ? error : test_fill(derived);
}

/* ---- finite differences ---- */

static const double gradient_tolerance = 1e-6;

typedef struct Probe {
    const TestCase *origin;
    const TestCase *backward;
    Arena *arena;
    uint32_t param;         /* of the origin */
    const double *gradient; /* of that parameter */
    double *direction;
    int64_t count;
} Probe;

/* L: pad rows have a NaN cotangent and count for nothing. */
static int functional(const Probe *p, double *value)
{
    TestCase c = *p->origin;
    c.arena = arena_new();
    if (!c.arena)
        return 0;
    TestReference r = test_reference(&c, EVAL_EXACT, 0);
    *value = 0;
    for (uint32_t i = 0; !r.error && i < c.k->params.len; i++) {
        const Tensor *t = test_tensor(c.k, i);
        if (!t || t->role != ROLE_OUT || t->elem == EL_I32)
            continue;
        uint32_t from = test_param_named(p->backward->k, arena_printf(c.arena, "d_%s", t->name));
        const double *cotangent = from == NONE ? NULL : p->backward->values[from].data;
        for (int64_t n = 0; cotangent && n < c.values[i].count; n++)
            *value += isnan(cotangent[n]) ? 0 : cotangent[n] * r.data[i][n];
    }
    int ok = !r.error;
    arena_free(c.arena);
    return ok;
}

/* (L(x + h u) - L(x - h u)) / 2h */
static double difference(const Probe *p, double h)
{
    double *x = p->origin->values[p->param].data, at[2] = {NAN, NAN};
    double *kept = arena_array(p->arena, double, p->count + 1);
    memcpy(kept, x, sizeof *kept * (size_t)p->count);
    for (int side = 0; side < 2; side++) {
        for (int64_t n = 0; n < p->count; n++)
            x[n] = p->direction[n] != 0 ? kept[n] + (side ? -h : h) * p->direction[n] : kept[n];
        if (!functional(p, &at[side]))
            at[side] = NAN;
    }
    memcpy(x, kept, sizeof *kept * (size_t)p->count);
    return (at[0] - at[1]) / (2 * h);
}

/* Relative error; the floor stands for what differences of L cannot resolve. The usual step width is tried first. */
static double probe_error(const Probe *p, double level, double *got, double *want)
{
    static const double widths[] = {1e-5, 1e-4, 1e-6, 1e-7};
    double dot = 0, best = INFINITY;
    for (int64_t n = 0; n < p->count; n++)
        dot += p->direction[n] != 0 ? p->direction[n] * p->gradient[n] : 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths && best > gradient_tolerance; i++) {
        double fd = difference(p, widths[i]),
               error = fabs(fd - dot) / (fabs(fd) + fabs(dot) + 1e-3 * (1 + fabs(level)));
        if (error < best) {
            best = error;
            *want = fd;
        }
    }
    *got = dot;
    return best;
}

static void choose_direction(Probe *p, TestCase *c, int whole)
{
    const double *x = p->origin->values[p->param].data;
    memset(p->direction, 0, sizeof *p->direction * (size_t)p->count);
    if (whole) {
        for (int64_t n = 0; n < p->count; n++)
            p->direction[n] = isnan(x[n]) ? 0 : random_normal(&c->random);
        return;
    }
    int64_t n = random_below(&c->random, p->count);
    p->direction[n] = isnan(x[n]) ? 0 : 1;
}

enum { PROBES = 6, WHOLE_PROBES = 2 };

static const char *check_wrt(Probe *p, TestCase *c, double level, double *worst)
{
    const char *bad = NULL;
    p->direction = arena_array(p->arena, double, p->count + 1);
    for (int n = 0; n < PROBES && p->count > 0; n++) {
        double got = NAN, want = NAN;
        choose_direction(p, c, n < WHOLE_PROBES);
        double error = probe_error(p, level, &got, &want);
        *worst = error > *worst ? error : *worst;
        if (!(error <= gradient_tolerance) && !bad)
            bad = arena_printf(p->arena, "d_%s along a %s: got %.9g, finite differences give %.9g",
                               test_tensor(p->origin->k, p->param)->name,
                               n < WHOLE_PROBES ? "random direction" : "single element", got, want);
    }
    return bad;
}

/* The gradient of one target: what the kernel that makes it left, or of `pass` the cotangent itself. */
static const double *gradient_of(const GradRun *run, const struct PairGradient *g, const char *passed,
                                 int64_t count)
{
    uint32_t at = test_param_named(run->c.k, passed ? passed : g->param);
    double *gradient = arena_array(run->c.arena, double, count + 1);
    if (at == NONE)
        return NULL;
    for (int64_t n = 0; n < count; n++)
        gradient[n] = passed ? run->c.values[at].data[n]
                             : run->r.data[at][n] - (g->mode == GRAD_ADD ? run->c.values[at].data[n] : 0);
    return gradient;
}

static const char *check_all(TestCase *origin, const GradRun *run /* backward, later */,
                             const DerivedPair *pair, double *worst)
{
    Probe p = {.origin = origin, .backward = &run[0].c, .arena = origin->arena};
    double level;
    const char *bad = NULL;
    if (!functional(&p, &level) || !isfinite(level))
        return "the outputs are not finite";
    for (uint32_t w = 0; !bad && w < pair->gradients.len; w++) {
        const struct PairGradient *g = &pair->gradients.at[w];
        const char *passed = g->mode == GRAD_PASS ? arena_printf(p.arena, "d_%s", g->output) : NULL;
        p.param = test_param_named(origin->k, g->input);
        if (p.param == NONE)
            return arena_printf(p.arena, "there is no parameter %s", g->input);
        p.count = origin->values[p.param].count;
        p.gradient = gradient_of(&run[g->later && !passed], g, passed, p.count);
        if (!p.gradient)
            return arena_printf(p.arena, "there is no parameter d_%s", g->input);
        bad = check_wrt(&p, origin, level, worst);
    }
    return bad;
}

const char *test_gradient(TestCase *origin, const Derive *d, double *worst)
{
    GradRun run[2]; /* backward, later */
    const Module *m = origin->k->module;
    *worst = 0;
    const char *error = run_backward(&run[0], origin, d, EVAL_EXACT);
    if (!error && d->later) {
        run[1].c = *origin;
        run[1].c.k = ir_find_kernel(m, d->later);
        error = fill_later(&run[1].c, &run[0]);
        if (!error)
            run[1].r = test_reference(&run[1].c, EVAL_EXACT, 0);
        error = error ? error : run[1].r.error;
    }
    return error ? error : check_all(origin, run, ir_find_pair(m, d->forward), worst);
}
