/* Gradients of a .moe text against finite differences, in the interpreter's exact mode. For the tests of
 * derive. */
#ifndef TESTS_UNIT_GRADIENT_H
#define TESTS_UNIT_GRADIENT_H

#include "frontend/frontend.h"
#include "driver/pipeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct Program {
    Arena *arena;
    Module *m;
    Diags *diags;
} Program;

static inline Program program_read(const char *text)
{
    Program p = {.arena = arena_new()};
    p.diags = arena_new_of(p.arena, Diags);
    p.diags->arena = p.arena;
    p.m = ir_module(p.arena, p.diags, "test.moe");
    frontend_read(p.m, "test.moe", text, strlen(text));
    return p;
}

static inline void program_passes(Program *p, const char *stop_after)
{
    PipelineOptions o = {.stop_after = stop_after, .verify_each = 1, .limit = -1};
    if (!p->diags->errors)
        pipeline_run(p->m, &o);
}

static inline void program_free(Program *p) { arena_free(p->arena); }

static inline const Kernel *program_kernel(const Program *p, const char *name)
{
    return ir_find_kernel(p->m, name_of(p->m->names, name));
}

/* ---- arguments ---- */

typedef struct Size {
    const char *dim;
    int64_t value;
} Size;

typedef struct Call {
    const Kernel *k;
    int64_t *dims;
    EvalArg *args;
    int64_t *elements; /* by parameter; 0 for routes */
    Arena *arena;
} Call;

static inline int64_t extent_value(const Call *c, Extent e)
{
    int64_t v = 0;
    assert_true(ext_eval(c->k->module, e, c->dims, &v));
    return v;
}

static inline EvalRoute *route_new(const Call *c, const Route *r)
{
    EvalRoute *e = arena_new_of(c->arena, EvalRoute);
    const Group *g = &c->k->module->groups.at[r->group];
    e->tokens = extent_value(c, r->tokens);
    e->choices = extent_value(c, r->choices);
    e->groups = extent_value(c, g->groups);
    e->rows = extent_value(c, g->rows);
    e->start = arena_array(c->arena, int64_t, e->groups + 1);
    e->count = arena_array(c->arena, int64_t, e->groups + 1);
    e->slot_of = arena_array(c->arena, int32_t, e->rows + 1);
    e->row_of = arena_array(c->arena, int32_t, e->tokens * e->choices + 1);
    return e;
}

static inline void route_fill(const Call *c, const Route *r, EvalRoute *e, Random *random)
{
    const Group *g = &c->k->module->groups.at[r->group];
    int64_t n = e->tokens * e->choices;
    int32_t *ids = arena_array(c->arena, int32_t, n + 1);
    for (int64_t i = 0; i < n; i++)
        ids[i] = random_below(random, 6) == 0 ? -1 : (int32_t)random_below(random, e->groups);
    int64_t capacity = g->kind == GROUP_CAPACITY ? extent_value(c, g->size) : -1;
    assert_int_equal(ir_make_route(ids, capacity, e), 0);
}

/* Random inputs; i32 ones are below `below`. Outputs are zero. Inout are random too. */
static inline Call call_new(Arena *a, const Kernel *k, const Size *sizes, int64_t below, uint64_t seed)
{
    Module *m = k->module;
    Call c = {.k = k, .arena = a, .dims = arena_array(a, int64_t, m->dims.len + 1)};
    for (DimId d = 0; d < m->dims.len; d++) {
        c.dims[d] = m->dims.at[d].constant >= 0 ? m->dims.at[d].constant : 3;
        for (const Size *s = sizes; s && s->dim; s++)
            if (strcmp(s->dim, m->dims.at[d].name) == 0)
                c.dims[d] = s->value;
    }
    c.args = arena_array(a, EvalArg, k->params.len + 1);
    c.elements = arena_array(a, int64_t, k->params.len + 1);
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param p = k->params.at[i];
        if (p.kind == PARAM_ROUTE) {
            const Route *r = &k->routes.at[p.id];
            Random random = random_new(seed * 1000 + hash_bytes(r->name, strlen(r->name), 7));
            c.args[i].route = route_new(&c, r);
            if (r->role == ROLE_IN)
                route_fill(&c, r, c.args[i].route, &random);
            continue;
        }
        const Tensor *t = &k->tensors.at[p.id];
        Random random = random_new(seed * 1000 + hash_bytes(t->name, strlen(t->name), 7));
        c.elements[i] = 1;
        for (uint32_t x = 0; x < t->rank; x++)
            c.elements[i] *= extent_value(&c, t->axes[x].extent);
        c.args[i].data = arena_array(a, double, c.elements[i] + 1);
        for (int64_t n = 0; n < c.elements[i] && t->role != ROLE_OUT; n++)
            c.args[i].data[n] = t->elem == EL_I32 ? (double)random_below(&random, below)
                                                  : elem_round(t->elem, random_normal(&random));
    }
    return c;
}

static inline int call_param(const Call *c, const char *name)
{
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        Param p = c->k->params.at[i];
        Name n = p.kind == PARAM_ROUTE ? c->k->routes.at[p.id].name : c->k->tensors.at[p.id].name;
        if (strcmp(n, name) == 0)
            return (int)i;
    }
    return -1;
}

/* Arguments of the same name are shared: forward, backward and both modules see one set of data. */
static inline void call_share(Call *to, const Call *from)
{
    for (uint32_t i = 0; i < to->k->params.len; i++) {
        Param p = to->k->params.at[i];
        Name n = p.kind == PARAM_ROUTE ? to->k->routes.at[p.id].name : to->k->tensors.at[p.id].name;
        int at = call_param(from, n);
        if (at >= 0)
            to->args[i] = from->args[at];
    }
}

static inline void call_run(Call *c, EvalMode mode)
{
    const char *error = ir_eval(c->k, mode, c->dims, c->args, NULL, c->arena);
    if (error) {
        Text t = {.arena = c->arena};
        ir_print(c->k->module, c->k, &t);
        fail_msg("%s: %s\n%s", c->k->name, error, text_string(&t));
    }
}

/* ---- the check ---- */

typedef struct GradientCheck {
    const Size *sizes; /* ends with a NULL name; NULL: all 3 */
    int64_t below;     /* i32 inputs are 0..below-1 */
    uint64_t seed;
    double tolerance;
    int kinks; /* out: directions skipped because the function is not smooth there */
} GradientCheck;

/* sum of cotangent * output of one exact forward run. */
static inline double loss(Call *f, const Call *b)
{
    double sum = 0;
    call_run(f, EVAL_EXACT);
    for (uint32_t i = 0; i < f->k->params.len; i++) {
        Param p = f->k->params.at[i];
        if (p.kind == PARAM_ROUTE || f->k->tensors.at[p.id].role != ROLE_OUT)
            continue;
        char name[64];
        snprintf(name, sizeof name, "d_%s", f->k->tensors.at[p.id].name);
        int d = call_param(b, name);
        for (int64_t n = 0; d >= 0 && n < f->elements[i]; n++)
            sum += f->args[i].data[n] * b->args[d].data[n];
    }
    return sum;
}

/* The derivative of the loss along `direction` in the data of one parameter, from either side. */
typedef struct Slope {
    double left, right;
} Slope;

/* centre: the loss where the parameter is. */
static inline Slope slope_at(Call *f, const Call *b, int param, const double *direction, double centre, double h)
{
    double *x = f->args[param].data, side[2];
    int64_t n = f->elements[param];
    double *saved = arena_array(f->arena, double, n + 1);
    memcpy(saved, x, sizeof *x * (size_t)n);
    for (int s = 0; s < 2; s++) {
        for (int64_t i = 0; i < n; i++)
            x[i] = saved[i] + (s ? h : -h) * direction[i];
        side[s] = loss(f, b);
    }
    memcpy(x, saved, sizeof *x * (size_t)n);
    return (Slope){(centre - side[0]) / h, (side[1] - centre) / h};
}

static inline double slope_mean(Slope s) { return (s.left + s.right) / 2; }
static inline double slope_gap(Slope s) { return fabs(s.right - s.left); }

/* Is the loss smooth between the ends of the two steps? A kink beside the point makes their means differ. On the point
 * (two values that are equal, one of which max or min takes) it leaves the means alike, but the slopes of the two sides
 * stay apart, whereas those of a smooth function come together as the step shrinks. */
static inline int is_smooth(Slope coarse, Slope fine, double size)
{
    return fabs(slope_mean(coarse) - slope_mean(fine)) <= 1e-4 * size &&
           (slope_gap(fine) <= 1e-4 * size || slope_gap(fine) <= 0.5 * slope_gap(coarse));
}

static inline void check_direction(GradientCheck *g, Call *f, const Call *b, const struct DeriveWrt *w,
                                   const double *gradient, const double *direction, double centre,
                                   const char *what)
{
    int param = call_param(f, w->name);
    double along = 0, size = 1;
    for (int64_t i = 0; i < f->elements[param]; i++) {
        along += gradient[i] * direction[i];
        size += fabs(gradient[i] * direction[i]);
    }
    Slope coarse = slope_at(f, b, param, direction, centre, 1e-4),
          fine = slope_at(f, b, param, direction, centre, 1e-5);
    if (!is_smooth(coarse, fine, size)) { /* or not a number */
        g->kinks++;
        return;
    }
    if (!(fabs(along - slope_mean(fine)) <= g->tolerance * size)) {
        Text t = {.arena = f->arena};
        ir_print(b->k->module, NULL, &t);
        fail_msg("d_%s %s: derive %.9g, finite difference %.9g (%.9g)\n%s", w->name, what, along,
                 slope_mean(fine), slope_mean(coarse), text_string(&t));
    }
}

/* Every target: a few single elements and a few directions through all of them. */
static inline void check_target(GradientCheck *g, Call *f, const Call *b, const struct DeriveWrt *w,
                                const double *gradient, Random *random)
{
    int param = call_param(f, w->name);
    int64_t n = f->elements[param];
    double *direction = arena_array(f->arena, double, n + 1), centre = loss(f, b);
    for (int turn = 0; turn < 3; turn++) {
        for (int64_t i = 0; i < n; i++)
            direction[i] = random_normal(random);
        check_direction(g, f, b, w, gradient, direction, centre, "along a direction");
    }
    for (int turn = 0; turn < 4 && n; turn++) {
        char what[32];
        int64_t at = random_below(random, n);
        memset(direction, 0, sizeof *direction * (size_t)n);
        direction[at] = 1;
        snprintf(what, sizeof what, "[element %lld]", (long long)at);
        check_direction(g, f, b, w, gradient, direction, centre, what);
    }
}

/* The derive of module p whose kernel is `name`: backward against finite differences of forward. */
static inline void check_gradients(GradientCheck *g, const Program *p, const char *forward,
                                   const char *backward)
{
    const Kernel *fk = program_kernel(p, forward), *bk = program_kernel(p, backward);
    assert_non_null(fk);
    assert_non_null(bk);
    Call f = call_new(p->arena, fk, g->sizes, g->below, g->seed);
    Call b = call_new(p->arena, bk, g->sizes, g->below, g->seed);
    call_share(&b, &f);
    call_run(&f, EVAL_EXACT);
    const Derive *d = bk->derived;
    double **before = arena_array(p->arena, double *, d->wrt.len + 1);
    for (uint32_t i = 0; i < d->wrt.len; i++) {
        char name[64];
        snprintf(name, sizeof name, "d_%s", d->wrt.at[i].name);
        int at = call_param(&b, name);
        assert_true(at >= 0);
        before[i] = arena_array(p->arena, double, b.elements[at] + 1);
        memcpy(before[i], b.args[at].data, sizeof(double) * (size_t)b.elements[at]);
    }
    call_run(&b, EVAL_EXACT);
    Random random = random_new(g->seed + 77);
    for (uint32_t i = 0; i < d->wrt.len; i++) {
        char name[64];
        snprintf(name, sizeof name, "d_%s", d->wrt.at[i].name);
        int at = call_param(&b, name);
        double *gradient = arena_array(p->arena, double, b.elements[at] + 1);
        for (int64_t n = 0; n < b.elements[at]; n++)
            gradient[n] = b.args[at].data[n] - (d->wrt.at[i].mode == GRAD_ADD ? before[i][n] : 0);
        check_target(g, &f, &b, &d->wrt.at[i], gradient, &random);
    }
}

/* ---- the printed text ---- */

/* What is printed of a kernel reads back, and computes the same bits from the same arguments. */
static inline void check_round_trip(const Program *p, const char *kernel, const GradientCheck *g)
{
    const Kernel *k = program_kernel(p, kernel);
    Text t = {.arena = p->arena};
    ir_print(p->m, k, &t);
    Program again = program_read(text_string(&t));
    if (again.diags->errors)
        fail_msg("the printed text does not compile\n%s\n%s", text_string(&t),
                 diag_text(again.diags, again.arena));
    Call one = call_new(p->arena, k, g->sizes, g->below, g->seed);
    Call two = call_new(again.arena, program_kernel(&again, kernel), g->sizes, g->below, g->seed);
    call_run(&one, EVAL_REFERENCE);
    call_run(&two, EVAL_REFERENCE);
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param param = k->params.at[i];
        for (int64_t n = 0; param.kind == PARAM_TENSOR && n < one.elements[i]; n++)
            if (memcmp(&one.args[i].data[n], &two.args[i].data[n], sizeof(double)) != 0 &&
                !(isnan(one.args[i].data[n]) && isnan(two.args[i].data[n])))
                fail_msg("%s of %s, element %lld: %.9g, but %.9g after printing and reading\n%s",
                         k->tensors.at[param.id].name, kernel, (long long)n, one.args[i].data[n],
                         two.args[i].data[n], text_string(&t));
    }
    program_free(&again);
}

#endif
