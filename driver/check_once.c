/* What `moec run` does: one kernel, once, on random data. */
#include "driver/check_parts.h"
#include "frontend/frontend.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
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

static unsigned char *encoded(const CheckCase *c, const Tensor *t, const double *data, int64_t count)
{
    size_t size = elem_bytes(t->elem);
    unsigned char *bytes = arena_alloc(c->arena, size * (size_t)count + 1);
    for (int64_t n = 0; n < count; n++)
        element_write(t->elem, data[n], bytes + (size_t)n * size);
    return bytes;
}

static void print_outputs(FILE *out, const CheckCase *c, unsigned char *const *bytes, const EvalRoute *routes)
{
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        const Tensor *t = check_tensor(c->k, i);
        const Route *r = t ? NULL : &c->k->routes.at[c->k->params.at[i].id];
        if (t && t->role != ROLE_IN)
            print_values(out, t->name, t->elem, bytes[i], c->values[i].count);
        else if (r && r->role != ROLE_IN)
            print_values(out, arena_printf(c->arena, "%s.count", r->name), EL_I64,
                         (const unsigned char *)routes[i].count, routes[i].groups);
    }
}

static const char *run_interpreter(const Check *check, const CheckCase *c, const CheckReference *r)
{
    unsigned char **bytes = arena_array(c->arena, unsigned char *, c->k->params.len + 1);
    for (uint32_t i = 0; !r->error && i < c->k->params.len; i++)
        if (check_tensor(c->k, i))
            bytes[i] = encoded(c, check_tensor(c->k, i), r->data[i], c->values[i].count);
    if (!r->error)
        print_outputs(check->out, c, bytes, r->routes);
    return r->error;
}

/* With --tiles the results of the edited program are also compared with the interpreter's. */
static const char *run_compiled(const Check *check, const CheckCase *c, const CheckReference *want)
{
    CheckTarget target = {.code = &check->jit, .threads = -check->o->threads};
    CheckResult got = check_call(c, &target);
    CheckScore score = {0};
    EvalRoute *routes = arena_array(c->arena, EvalRoute, c->k->params.len + 1);
    if (got.failure || got.status)
        return got.failure ? got.failure : got.message;
    for (uint32_t i = 0; i < c->k->params.len; i++)
        routes[i] = (EvalRoute){.groups = got.routes[i].groups, .count = got.routes[i].count};
    print_outputs(check->out, c, got.bytes, routes);
    return check->o->tiles ? check_compare(c, want, &got, 0, &score) : NULL;
}

/* "T=33 K=2" of all arguments. */
static const char *joined_sizes(const Check *check, Arena *a)
{
    Text t = {.arena = a};
    for (uint32_t i = 0; i < check->o->nsizes; i++)
        text_add(&t, i ? " %s" : "%s", check->o->sizes[i]);
    return text_string(&t);
}

static const Kernel *chosen_kernel(const Check *check)
{
    const Module *m = check->c->module;
    for (uint32_t i = 0; i < m->kernels.len; i++)
        if (!check->o->kernel || strcmp(check->o->kernel, m->kernels.at[i]->name) == 0)
            return m->kernels.at[i];
    return NULL;
}

/* NULL or an error text. */
static const char *take_run(Check *check)
{
    Module *m = check->c->module;
    check->k = chosen_kernel(check);
    check->dims = check_default_sizes(m, m->arena);
    check->run = (TestRun){0};
    if (!check->k)
        return arena_printf(m->arena, "the file has no kernel '%s'",
                            check->o->kernel ? check->o->kernel : "");
    const char *error = frontend_sizes(m, joined_sizes(check, m->arena), check->dims);
    if (!error && check->o->routing)
        error = frontend_routing(m, check->o->routing, &check->run);
    return error ? error : ir_run_flaw(check->k, check->dims, &check->run, m->arena);
}

static int take_run_guarded(Compilation *c, void *user)
{
    Check *check = user;
    const char *error = take_run(check);
    (void)c;
    if (error)
        fprintf(check->out, "error: %s\n", error);
    return error ? DRIVER_ERROR : DRIVER_OK;
}

int check_take_run(Check *check) { return compile_guard(check->c, take_run_guarded, check); }

static const char *run_once(Check *check)
{
    CheckReference r;
    CheckCase c = check_new_case(check, check->c->module->arena, check->k, check->dims, &check->run);
    const char *error = check_find_inputs(&c, check->o->tiles != NULL, &r);
    if (error)
        return error;
    return check->o->interpret ? run_interpreter(check, &c, &r) : run_compiled(check, &c, &r);
}

static int run_guarded(Compilation *c, void *user)
{
    Check *check = user;
    const char *error = run_once(check);
    (void)c;
    if (error)
        fprintf(check->out, "error: %s\n", error);
    return error ? DRIVER_ERROR : DRIVER_OK;
}

int check_run(const char *path, const CheckOptions *o, FILE *out)
{
    Check check = {.o = o, .out = out};
    int status = check_load(&check, path, o->interpret ? CODE_NONE : CODE_OF_KERNEL);
    if (!status) {
        status = compile_guard(check.c, run_guarded, &check);
        if (status == DRIVER_INTERNAL)
            fprintf(out, "%s", check.c->errors);
    }
    check_unload(&check);
    return status;
}
