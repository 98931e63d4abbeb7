/* What `moec report` does: one kernel's plan, on memory that is only pretended, through the emulator and the cycle model. */
#include "testing/parts.h"
#include "emulator/report.h"

#include <string.h>

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

static const int32_t *as_i32(const TestCase *c, const double *values, int64_t n)
{
    int32_t *out = arena_array(c->arena, int32_t, n + 1);
    for (int64_t i = 0; i < n; i++)
        out[i] = (int32_t)values[i];
    return out;
}

/* What route r, which the kernel makes, is made of, or NULL. */
static const int32_t *choices_of(const TestModelled *call, RouteId r, int64_t slots)
{
    const TestCase *c = call->args.c;
    const Kernel *k = c->k;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->kind != EQ_ROUTE || q->route != r)
            continue;
        for (uint32_t d = 0; d < call->drawn.len; d++) {
            const TestDrawn *drawn = &call->drawn.at[d];
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
static int find_route(const TestModelled *call, RouteId r, EvalRoute *out)
{
    TestCase *c = call->args.c;
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
static void put_groups(const TestModelled *call, Text *out)
{
    const TestCase *c = call->args.c;
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

/* Where the report goes besides. */
typedef struct ReportFiles {
    const char *trace, *html;
} ReportFiles;

static const char *add_file(Output *files, const char *path, const Simulated *s,
                            void (*write)(const Simulated *, Text *))
{
    Text t = {.arena = files->arena};
    if (!path)
        return NULL;
    write(s, &t);
    return output_add(files, path, (Bytes){t.at, t.len}, 0);
}

static const char *write_report(const TestFile *file, const ReportFiles *w, const TestModelled *call)
{
    const TestCase *c = call->args.c;
    const Simulated *s = call->simulated;
    Output files = {.arena = c->arena};
    Text out = {.arena = c->arena};
    const char *error = add_file(&files, w->trace, s, report_trace);
    if (!error)
        error = add_file(&files, w->html, s, report_html);
    if (!error)
        error = output_commit(&files);
    if (error)
        return error;
    text_add(&out, "%s\n", sizes_text(file, c));
    report_text(s, &out);
    put_groups(call, &out);
    if (has_top(c->k))
        text_add(&out, "\nthere are no data: what `top` chooses is drawn by the routing\n");
    fprintf(file->out, "%s", text_string(&out));
    return NULL;
}

static const char *report_once(TestFile *file, void *user)
{
    TestModelled call;
    TestCase c = test_new_case(file, file->c->module->arena, file->k, file->dims, &file->run);
    const char *error = test_model(file, &c, &call);
    return error ? error : write_report(file, user, &call);
}

int test_report(const char *path, const TestOptions *o, const char *trace, const char *html, FILE *out)
{
    TestFile file = {.o = o, .out = out, .errors = stderr};
    int status = test_load(&file, path, CODE_OF_KERNEL);
    if (!status)
        status = test_guard(&file, report_once, &(ReportFiles){trace, html});
    if (!status)
        fprintf(stderr, "%s", file.c->errors); /* warnings */
    test_unload(&file);
    return status;
}
