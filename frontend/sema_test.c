/* test blocks: sizes, routings of each run, tolerance. */
#include "frontend/frontend.h"
#include "frontend/parser.h"
#include "frontend/words.h"

#include <string.h>

typedef struct TestCheck {
    WordReader r;
    Test out;
    TestRun run;    /* being read */
    Loc gradcheck;  /* line 0: there is none */
    int in_routing; /* a further run may follow */
} TestCheck;

/* ---- sizes ---- */

static int size_fits(TestCheck *t, const Dim *d, int64_t value, Loc loc)
{
    Sema *c = t->r.c;
    const char *why =
        d->constant >= 0                ? "is a constant"
        : d->max >= 0 && value > d->max ? arena_printf(c->arena, "is at most %lld", (long long)d->max)
        : value % d->multiple != 0 ? arena_printf(c->arena, "is a multiple of %lld", (long long)d->multiple)
                                   : NULL;
    if (!why)
        return 1;
    diag_add(c->m->diags, DIAG_test_size, loc,
             d->constant >= 0 ? "remove it"
                              : arena_printf(c->arena, "write a size that meets the rule of dim %s", d->name),
             "%s=%lld: the dimension %s %s", d->name, (long long)value, d->name, why);
    return 0;
}

static void size(TestCheck *t)
{
    Loc loc;
    Sema *c = t->r.c;
    Name name = word_name(&t->r, "a dimension", &loc);
    word_expect(&t->r, "=");
    int64_t value =
        t->r.failed ? 0 : word_integer(&t->r, arena_printf(c->arena, "a size of %s, from 0 on", name));
    if (t->r.failed)
        return;
    uint32_t dim = namemap_get(&c->dims, name);
    t->r.failed = 1;
    if (dim == NAME_ABSENT) {
        Guess g = guess_new(name);
        for (uint32_t i = 0; i < c->m->dims.len; i++)
            guess_try(&g, c->m->dims.at[i].name);
        diag_add(c->m->diags, DIAG_unknown_dim, loc,
                 guess_help(c->arena, &g, "name a dimension of the kernel"), "there is no dimension %s",
                 name);
        guess_edit(c->m->diags, &g, loc);
        return;
    }
    for (uint32_t i = 0; i < t->out.sizes.len; i++)
        if (t->out.sizes.at[i].dim == dim) {
            diag_add(c->m->diags, DIAG_test_size, loc, "remove one of them", "%s has two sizes", name);
            return;
        }
    if (!size_fits(t, &c->m->dims.at[dim], value, loc))
        return;
    t->r.failed = 0;
    vec_push(c->arena, &t->out.sizes, (struct TestSize){dim, value});
}

/* The routings of all runs at these sizes. */
static void sema_runs(TestCheck *t, const Kernel *k, Loc loc)
{
    const Module *m = k->module;
    int64_t *sizes = arena_array(m->arena, int64_t, m->dims.len + 1);
    for (DimId d = 0; d < m->dims.len; d++)
        sizes[d] = m->dims.at[d].constant;
    for (uint32_t i = 0; i < t->out.sizes.len; i++)
        sizes[t->out.sizes.at[i].dim] = t->out.sizes.at[i].value;
    for (uint32_t i = 0; i < t->out.runs.len && !t->r.failed; i++) {
        const char *flaw = ir_run_flaw(k, sizes, &t->out.runs.at[i], m->arena);
        if (!flaw)
            continue;
        diag_add(m->diags, DIAG_test_size, loc, "change the sizes, or how many rows the groups have", "%s",
                 flaw);
        t->r.failed = 1;
    }
}

static void sema_all_sizes(TestCheck *t, const Kernel *k, Loc loc)
{
    const Module *m = k->module;
    DimId *dims = arena_array(m->arena, DimId, m->dims.len + 1);
    Text missing = {.arena = m->arena}, sizes = {.arena = m->arena};
    uint32_t n = ir_kernel_dims(k, dims);
    for (uint32_t i = 0; i < n; i++) {
        int given = 0;
        for (uint32_t s = 0; s < t->out.sizes.len; s++)
            given |= t->out.sizes.at[s].dim == dims[i];
        if (given)
            continue;
        Name name = m->dims.at[dims[i]].name;
        text_add(&missing, missing.len ? ", %s" : "%s", name);
        text_add(&sizes, "%s=%lld ", name, (long long)m->dims.at[dims[i]].multiple);
    }
    if (!missing.len)
        return;
    diag_add(m->diags, DIAG_test_size, loc, strchr(missing.at, ',') ? "give each a size" : "give it a size",
             "the test of %s gives no size for %s", k->name, text_string(&missing));
    if (t->r.words->list.len) {
        Loc first = t->r.words->list.at[0].loc;
        first.len = 0;
        diag_edit(m->diags, first, text_string(&sizes));
    }
    t->r.failed = 1;
}

/* ---- routing ---- */

static int is_routing(const WordReader *r)
{
    return word_is(r, "uniform") || word_is(r, "zipf") || word_is(r, "hot") || word_is(r, "empty") ||
           word_is(r, "exact");
}

static void between(TestCheck *t, double value, double low, double high)
{
    if (t->r.failed || (value >= low && value <= high))
        return;
    t->r.at--;
    word_refuse(&t->r, arena_printf(t->r.c->arena, "a number from %g to %g", low, high));
}

static void exact(TestCheck *t, TestRouting *routing)
{
    do
        vec_push(t->r.c->arena, &routing->counts, word_integer(&t->r, "a number of rows, from 0 on"));
    while (!t->r.failed && word_take(&t->r, ","));
}

static void routing(TestCheck *t)
{
    WordReader *r = &t->r;
    TestRouting out = {.kind = ROUTING_UNIFORM};
    if (word_take(r, "uniform")) {
        vec_push(r->c->arena, &t->run.routings, out);
        return;
    }
    if (!is_routing(r)) {
        word_refuse(r, "uniform, zipf(S), hot(N), empty(P%) or exact(n0, n1, ...)");
        return;
    }
    out.kind = word_is(r, "zipf")    ? ROUTING_ZIPF
               : word_is(r, "hot")   ? ROUTING_HOT
               : word_is(r, "empty") ? ROUTING_EMPTY
                                     : ROUTING_EXACT;
    r->at++;
    if (!word_expect(r, "("))
        return;
    if (out.kind == ROUTING_EXACT) {
        exact(t, &out);
    } else {
        out.value = out.kind == ROUTING_HOT ? (double)word_integer(r, "an integer")
                                            : word_number(r, "a number from 0 on");
        between(t, out.value, out.kind == ROUTING_HOT ? 1 : 0, out.kind == ROUTING_EMPTY ? 100 : 1e9);
    }
    if (out.kind == ROUTING_EMPTY && !r->failed)
        word_expect(r, "%");
    if (!r->failed && word_expect(r, ")"))
        vec_push(r->c->arena, &t->run.routings, out);
}

static void run(TestCheck *t)
{
    t->run = (TestRun){0};
    do
        routing(t);
    while (!t->r.failed && word_take(&t->r, ","));
    vec_push(t->r.c->arena, &t->out.runs, t->run);
    t->in_routing = 1;
}

/* ---- clauses ---- */

static void tolerance(TestCheck *t)
{
    t->out.tolerance = word_number(&t->r, "a number");
    if (!t->r.failed && t->out.tolerance <= 0) {
        t->r.at--;
        word_refuse(&t->r, "a number above 0");
    }
}

static void gradcheck(TestCheck *t)
{
    t->out.gradcheck = 1;
    t->gradcheck = t->r.words->list.at[t->r.at - 1].loc;
}

static void item(TestCheck *t)
{
    WordReader *r = &t->r;
    int size_ahead = r->at + 1 < r->words->list.len && *r->words->list.at[r->at + 1].text == '=';
    if (size_ahead)
        size(t);
    else if (word_take(r, "routing"))
        run(t);
    else if (t->in_routing && is_routing(r))
        run(t);
    else if (word_take(r, "tol"))
        tolerance(t);
    else if (word_take(r, "gradcheck"))
        gradcheck(t);
    else
        word_refuse(r, "a size such as T=33, routing, tol or gradcheck");
}

void sema_test(Sema *c, const AstDecl *d)
{
    uint32_t errors = c->m->diags->errors;
    Kernel *k = sema_target(c, d, 1);
    if (c->m->diags->errors != errors || c->broken)
        return;
    TestCheck t = {.r = {.c = c, .words = d->words, .code = DIAG_test_clause}};
    t.out.kernel = d->name.name;
    t.out.loc = d->loc;
    while (!t.r.failed && t.r.at < d->words->list.len) {
        item(&t);
        while (!t.r.failed && (word_take(&t.r, ";") || word_take(&t.r, ",")))
            ;
    }
    if (t.out.runs.len == 0)
        vec_push(c->arena, &t.out.runs, (TestRun){0});
    if (!t.r.failed && k)
        sema_all_sizes(&t, k, d->loc);
    if (!t.r.failed && k)
        sema_runs(&t, k, d->loc);
    if (!t.r.failed && t.out.gradcheck)
        sema_gradcheck(c, d, k, t.gradcheck);
    if (!t.r.failed)
        vec_push(c->arena, &c->m->tests, t.out);
}

/* ---- on a command line ---- */

/* Opens a text that is no file: its words, and a checker that knows the dimensions. */
static int open_words(TestCheck *t, Module *m, const char *text)
{
    Sema *c = arena_new_of(m->arena, Sema);
    *c = (Sema){.m = m, .arena = m->arena};
    c->dims.arena = m->arena;
    for (DimId d = 0; d < m->dims.len; d++)
        namemap_set(&c->dims, m->dims.at[d].name, d);
    *t = (TestCheck){.r = {.c = c, .code = DIAG_test_size, .end = "the end"}};
    t->r.words = parser_read_words(m, diag_add_file(m->diags, "", text, strlen(text)), text);
    t->r.failed = !t->r.words;
    return !t->r.failed;
}

static int more(TestCheck *t) { return !t->r.failed && t->r.at < t->r.words->list.len; }

static void read_sizes(Module *m, const char *text, int64_t *sizes)
{
    TestCheck t;
    if (!open_words(&t, m, text))
        return;
    while (more(&t)) {
        size(&t);
        if (more(&t) && word_take(&t.r, ",") && !more(&t))
            word_refuse(&t.r, "a dimension");
    }
    for (uint32_t i = 0; i < t.out.sizes.len; i++)
        sizes[t.out.sizes.at[i].dim] = t.out.sizes.at[i].value;
}

static void read_routing(Module *m, const char *text, TestRun *out)
{
    TestCheck t;
    if (!open_words(&t, m, text))
        return;
    run(&t);
    if (more(&t))
        word_refuse(&t.r, "`,` and a routing");
    *out = t.run;
}

static const char *dim_names(const Module *m)
{
    Text t = {.arena = m->arena};
    for (DimId d = 0; d < m->dims.len; d++)
        text_add(&t, d ? ", %s" : "%s", m->dims.at[d].name);
    return text_string(&t);
}

/* Diagnostics of a command line have no place in a file: the first one's text stands alone. */
static const char *first_error(Module *m, const Diags *said)
{
    if (!said->errors)
        return NULL;
    const Diag *d = &said->list.at[0];
    return d->code == DIAG_unknown_dim
               ? arena_printf(m->arena, "%s (the file has %s)", d->message, dim_names(m))
               : d->message;
}

const char *frontend_sizes(Module *m, const char *text, int64_t *sizes)
{
    Diags said = {.arena = m->arena}, *kept = m->diags;
    m->diags = &said;
    read_sizes(m, text, sizes);
    m->diags = kept;
    return first_error(m, &said);
}

const char *frontend_routing(Module *m, const char *text, TestRun *run)
{
    Diags said = {.arena = m->arena}, *kept = m->diags;
    m->diags = &said;
    read_routing(m, text, run);
    m->diags = kept;
    const char *error = first_error(m, &said);
    return error ? arena_printf(m->arena, "routing %s: %s", text, error) : NULL;
}
