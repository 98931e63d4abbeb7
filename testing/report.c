/* What `moec report` does: one kernel's plan, on memory that is only pretended, through the emulator and the cycle model. */
#include "testing/parts.h"
#include "driver/pack.h"
#include "emulator/report.h"

#include <string.h>
#include <sys/mman.h>

/* Only what the program takes its numbers from (routes, i32) is filled; the rest is address space that reads as zero. */
typedef struct Pretended {
    void *at;
    size_t bytes;
} Pretended;

/* What `top` finds, drawn by the routing. */
typedef struct Drawn {
    Name ids;
    const int32_t *at;
    int64_t n;
} Drawn;

typedef struct ReportCall {
    TestCase *c;
    Vec(Drawn) drawn;
    Pretended *memory; /* by parameter */
    void **args;
    moe_route *routes;
    int64_t *dims;
} ReportCall;

static const size_t MEMORY_MAX = (size_t)1 << 42; /* bytes of a parameter */

/* SIZE_MAX: more than MEMORY_MAX, how much does not matter. */
static size_t bytes_of(const TestCase *c, const Tensor *t)
{
    int64_t extents[MAX_RANK], n = test_elements(c, t);
    if (n < 0 || (size_t)n > MEMORY_MAX)
        return SIZE_MAX;
    if (t->layout != LAYOUT_PAIRS)
        return (size_t)n * elem_bytes(t->elem);
    for (uint32_t i = 0; i < t->rank; i++)
        extents[i] = test_extent_value(c, t->axes[i].extent);
    PackShape s = pack_shape(t->elem, t->both, extents, t->rank);
    return (size_t)packed_bytes(&s);
}

static const char *pretend(ReportCall *call, uint32_t i)
{
    const TestCase *c = call->c;
    const Tensor *t = test_tensor(c->k, i);
    size_t bytes = bytes_of(c, t);
    if (bytes > MEMORY_MAX)
        return arena_printf(c->arena, "%s takes more than %zu bytes at these sizes", t->name, MEMORY_MAX);
    void *at =
        mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return arena_printf(c->arena, "%s has %zu bytes: there is no address space for it", t->name, bytes);
    call->memory[i] = (Pretended){at, bytes + 1};
    call->args[i] = at;
    if (t->layout == LAYOUT_PAIRS && t->role != ROLE_OUT) {
        int64_t extents[MAX_RANK];
        for (uint32_t axis = 0; axis < t->rank; axis++)
            extents[axis] = test_extent_value(c, t->axes[axis].extent);
        PackShape s = pack_shape(t->elem, t->both, extents, t->rank);
        pack_begin(&s, at);
    }
    for (int64_t n = 0; t->elem == EL_I32 && n < c->values[i].count; n++)
        element_write(t->elem, c->values[i].data[n], (unsigned char *)at + (size_t)n * 4);
    return NULL;
}

static void give_route(ReportCall *call, uint32_t i)
{
    const EvalRoute *r = &call->c->values[i].route;
    call->routes[i] =
        (moe_route){r->tokens, r->choices, r->groups, r->rows, r->start, r->count, r->slot_of, r->row_of};
    call->args[i] = &call->routes[i];
}

/* Floats are given without data, so that test_fill leaves them alone. */
static const char *fill(TestCase *c)
{
    static double nothing;
    TestValue *given = arena_array(c->arena, TestValue, c->k->params.len + 1);
    for (uint32_t i = 0; i < c->k->params.len; i++) {
        const Tensor *t = test_tensor(c->k, i);
        if (t && t->elem != EL_I32)
            given[i].data = &nothing;
    }
    c->given = given;
    return test_fill(c);
}

static const int32_t *as_i32(const TestCase *c, const double *values, int64_t n)
{
    int32_t *out = arena_array(c->arena, int32_t, n + 1);
    for (int64_t i = 0; i < n; i++)
        out[i] = (int32_t)values[i];
    return out;
}

static const int32_t *choose(void *user, Name ids, int64_t tokens, int64_t k, int64_t n)
{
    ReportCall *call = user;
    TestCase *c = call->c;
    double *choices = arena_array(c->arena, double, tokens *k + 1);
    test_choices(c, tokens, k, n, choices);
    Drawn d = {ids, as_i32(c, choices, tokens * k), tokens * k};
    vec_push(c->arena, &call->drawn, d);
    return d.at;
}

static const char *new_call(ReportCall *call, TestCase *c)
{
    uint32_t n = c->k->params.len;
    const char *error = NULL;
    DimId *passed = arena_array(c->arena, DimId, c->k->module->dims.len + 1);
    *call = (ReportCall){.c = c,
                         .memory = arena_array(c->arena, Pretended, n + 1),
                         .args = arena_array(c->arena, void *, n + 1),
                         .routes = arena_array(c->arena, moe_route, n + 1),
                         .dims = arena_array(c->arena, int64_t, c->k->module->dims.len + 1)};
    uint32_t ndims = ir_kernel_dims(c->k, passed);
    for (uint32_t d = 0; d < ndims; d++)
        call->dims[d] = c->dims[passed[d]];
    for (uint32_t i = 0; i < n && !error; i++) {
        if (test_tensor(c->k, i))
            error = pretend(call, i);
        else
            give_route(call, i);
    }
    return error;
}

static void end_call(ReportCall *call)
{
    for (uint32_t i = 0; call->c && i < call->c->k->params.len; i++)
        if (call->memory[i].at)
            munmap(call->memory[i].at, call->memory[i].bytes);
}

/* ---- the report ---- */

static const char *sizes_text(const TestFile *file, const TestCase *c)
{
    Text t = {.arena = c->arena};
    DimId *passed = arena_array(c->arena, DimId, c->k->module->dims.len + 1);
    uint32_t n = ir_kernel_dims(c->k, passed);
    for (uint32_t d = 0; d < n; d++)
        text_add(&t, d ? ", %s=%lld" : "%s=%lld", c->k->module->dims.at[passed[d]].name,
                 (long long)c->dims[passed[d]]);
    if (file->o->routing)
        text_add(&t, ", routing %s", test_routing_text(c->run, c->arena));
    return text_string(&t);
}

static int has_top(const Kernel *k)
{
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (k->eqs.at[i].kind == EQ_TOP)
            return 1;
    return 0;
}

/* What route r, which the kernel makes, is made of, or NULL. */
static const int32_t *choices_of(const ReportCall *call, RouteId r, int64_t slots)
{
    const TestCase *c = call->c;
    const Kernel *k = c->k;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->kind != EQ_ROUTE || q->route != r)
            continue;
        for (uint32_t d = 0; d < call->drawn.len; d++) {
            const Drawn *drawn = &call->drawn.at[d];
            if (strcmp(drawn->ids, k->tensors.at[q->ids].name) == 0 && drawn->n == slots)
                return drawn->at;
        }
        for (uint32_t p = 0; p < k->params.len; p++)
            if (test_tensor(k, p) == &k->tensors.at[q->ids] && c->values[p].count == slots)
                return as_i32(c, c->values[p].data, slots);
    }
    return NULL;
}

/* Is there a route r in the call? Then *out is how rows fall to its groups. */
static int find_route(const ReportCall *call, RouteId r, EvalRoute *out)
{
    TestCase *c = call->c;
    const Route *route = &c->k->routes.at[r];
    for (uint32_t i = 0; i < c->k->params.len; i++)
        if (route->role == ROLE_IN && !test_tensor(c->k, i) && c->k->params.at[i].id == r) {
            *out = c->values[i].route;
            return 1;
        }
    *out = test_route_room(c, route);
    const int32_t *choices = out->rows < 0 ? NULL : choices_of(call, r, out->tokens * out->choices);
    const Group *g = &c->k->module->groups.at[route->group];
    if (choices)
        ir_make_route(choices, g->kind == GROUP_CAPACITY ? test_extent_value(c, g->size) : -1, out);
    return choices != NULL;
}

/* How evenly rows fall to groups. */
static void put_groups(const ReportCall *call, Text *out)
{
    const TestCase *c = call->c;
    EvalRoute r;
    for (RouteId i = 0, begun = 0; i < c->k->routes.len; i++) {
        if (!find_route(call, i, &r))
            continue;
        Spread s = spread_of(r.count, (uint32_t)r.groups);
        int64_t largest = 0;
        while (largest + 1 < r.groups && r.count[largest] < s.most)
            largest++;
        if (!begun++)
            text_add(out, "\n%-28s %6s  %27s  %9s  %s\n", "balance over groups", "groups",
                     "rows least/mean/most", "most/mean", "most: group");
        text_add(out, "%-28s %6lld  %8lld/%9.1f/%8lld  %9.2f  %lld\n", c->k->routes.at[i].name,
                 (long long)r.groups, (long long)s.least, s.mean, (long long)s.most,
                 s.mean > 0 ? (double)s.most / s.mean : 1, (long long)largest);
    }
}

/* The trace of a large call, sampled (emulator/sample.c), and what the model knows of caches. */
static const size_t TRACE_BYTES = (size_t)4 << 30;

typedef struct ReportWork {
    TestFile *file;
    const char *trace, *html;
} ReportWork;

static const char *add_file(Output *files, const char *path, const Simulated *s,
                            void (*write)(const Simulated *, Text *))
{
    Text t = {.arena = files->arena};
    if (!path)
        return NULL;
    write(s, &t);
    return output_add(files, path, (Bytes){t.at, t.len}, 0);
}

static const char *write_report(const ReportWork *w, const ReportCall *call, const Trace *trace)
{
    const TestCase *c = call->c;
    const Simulated *s = simulate(c->arena, trace);
    Output files = {.arena = c->arena};
    Text out = {.arena = c->arena};
    const char *error = add_file(&files, w->trace, s, report_trace);
    if (!error)
        error = add_file(&files, w->html, s, report_html);
    if (!error)
        error = output_commit(&files);
    if (error)
        return error;
    text_add(&out, "%s\n", sizes_text(w->file, c));
    report_text(s, &out);
    put_groups(call, &out);
    if (has_top(c->k))
        text_add(&out, "\nthere are no data: what `top` chooses is drawn by the routing\n");
    fprintf(w->file->out, "%s", text_string(&out));
    return NULL;
}

static const char *run_model(const ReportWork *w, TestCase *c)
{
    const TestFile *file = w->file;
    const char *symbol = arena_printf(c->arena, "%s__call", c->k->name);
    moe_entry *entry = (moe_entry *)(uintptr_t)code_symbol(&file->jit, symbol);
    moe_ctx *ctx = moe_ctx_new(1);
    ReportCall call = {0};
    EmulatedCall emulated = {0};
    Chooser chooser = {choose, &call};
    Emulation emulation = {file->for_jit, &file->jit, &chooser};
    const char *error =
        entry && ctx ? new_call(&call, c) : arena_printf(c->arena, "has no symbol %s", symbol);
    if (!error)
        error = emulate_call(&emulation, c->k->name, c->dims, entry, ctx, call.dims, call.args, c->arena,
                             EMULATE_MODEL, &emulated);
    if (!error && emulated.status)
        error = arena_printf(c->arena, "%s", moe_ctx_message(ctx));
    end_call(&call);
    moe_ctx_free(ctx);
    return error ? error : write_report(w, &call, emulated.trace);
}

/* The code is made for what the description says; the model may know what this CPU says of itself. */
static const char *ask_machine(const TestFile *file, Arena *a)
{
    Description *d = arena_new_of(a, Description);
    const char *error = machine_open(a, file->o->machine, d);
    if (error)
        return error;
    machine_ask(d);
    if (file->o->threads && d->machine.kind == MACHINE_CPU)
        d->machine.cores.cube = d->machine.cores.vector = file->o->threads;
    file->for_jit->machine = &d->machine;
    return NULL;
}

static const char *report_once(const ReportWork *w)
{
    const TestFile *file = w->file;
    Arena *a = file->c->module->arena;
    const char *error = ask_machine(file, a);
    if (error)
        return error;
    arena_set_limit(a, TRACE_BYTES);
    TestCase c = test_new_case(file, a, file->k, file->dims, &file->run);
    error = fill(&c);
    return error ? error : run_model(w, &c);
}

static int report_guarded(Compilation *c, void *user)
{
    const ReportWork *w = user;
    const char *error = report_once(w);
    (void)c;
    if (error)
        fprintf(w->file->out, "error: %s\n", error);
    return error ? DRIVER_ERROR : DRIVER_OK;
}

int test_report(const char *path, const TestOptions *o, const char *trace, const char *html, FILE *out)
{
    TestFile file = {.o = o, .out = out};
    ReportWork work = {&file, trace, html};
    int status = test_load(&file, path, CODE_OF_KERNEL);
    if (!status) {
        status = compile_guard(file.c, report_guarded, &work);
        fprintf(out, "%s", file.c->errors);
    }
    test_unload(&file);
    return status;
}
