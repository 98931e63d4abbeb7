#include "step/passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "step/same.h"

const char *const pass_names[PASS_COUNT] = {
#define PASS(name, doc) #name,
#include "step/passes.def"
};

static void (*const hooks[PASS_COUNT])(Program *, const ModuleChoice *) = {
#define PASS(name, doc) step_pass_##name,
#include "step/passes.def"
};

/* ---- choices ---- */

/* A layer's number, from which *at moves on; -1: there is none. */
static int64_t read_layer(const char **at)
{
    char *end;
    errno = 0;
    const long long n = strtoll(*at, &end, 10);
    if (end == *at || **at == '-' || **at == '+' || errno || n > INT32_MAX)
        return -1;
    *at = end;
    return n;
}

/* "", ":3" or ":0-3". Returns 0 when it is none of them. */
static int read_layers(const char *at, ModuleRange *r)
{
    r->first = 0, r->last = INT32_MAX;
    if (!*at)
        return 1;
    at++;
    r->first = r->last = read_layer(&at);
    if (*at == '-') {
        at++;
        r->last = read_layer(&at);
    }
    return !*at && r->first >= 0 && r->last >= r->first;
}

const char *module_choice_read(Arena *a, const char *text, ModuleChoice *out)
{
    *out = (ModuleChoice){0};
    for (const char *at = text; *at;) {
        const size_t n = strcspn(at, ",");
        const char *range = arena_strndup(a, at, n);
        ModuleRange r = {.module = arena_strndup(a, range, strcspn(range, ":"))};
        if (!*r.module || !read_layers(range + strlen(r.module), &r))
            return arena_printf(
                a, "`%s` is no module, with or without layers: it looks like mla, mla:3 or mla:0-3", range);
        if (!strcmp(r.module, "all"))
            r.module = NULL;
        vec_push(a, &out->ranges, r);
        at += n + (at[n] == ',');
    }
    return NULL;
}

static int in_range(const ModuleRange *r, const Task *t)
{
    return t->phase == PHASE_forward && t->module && t->layer >= r->first && t->layer <= r->last &&
           (!r->module || !strcmp(r->module, t->module));
}

int module_is_chosen(const ModuleChoice *c, const Task *t)
{
    for (uint32_t i = 0; i < c->ranges.len; i++)
        if (in_range(&c->ranges.at[i], t))
            return 1;
    return 0;
}

static int is_listed(const Program *p, TaskId t)
{
    for (TaskId u = 0; u < t; u++)
        if (p->tasks.at[u].module && !strcmp(p->tasks.at[u].module, p->tasks.at[t].module))
            return 1;
    return 0;
}

static const char *list_modules(const Program *p)
{
    Text t = {.arena = p->arena};
    for (TaskId i = 0; i < p->tasks.len; i++)
        if (p->tasks.at[i].module && !is_listed(p, i))
            text_add(&t, "%s%s", t.len ? ", " : "", p->tasks.at[i].module);
    return text_string(&t);
}

/* A range that names no task is a mistake. */
static const char *check_ranges(const Program *p, const ModuleChoice *c)
{
    for (uint32_t i = 0; i < c->ranges.len; i++) {
        const ModuleRange *r = &c->ranges.at[i];
        int found = 0;
        for (TaskId t = 0; t < p->tasks.len && !found; t++)
            found = in_range(r, &p->tasks.at[t]);
        if (!found)
            return arena_printf(p->arena, "`%s`: no task belongs to it in these layers; the modules are %s",
                                r->module ? r->module : "all", list_modules(p));
    }
    return NULL;
}

/* ---- running ---- */

static const char *run_pass(Program *p, StepPass pass, const char *choice)
{
    ModuleChoice c;
    const char *error = module_choice_read(p->arena, choice, &c);
    if (!error)
        error = check_ranges(p, &c);
    if (error)
        return arena_printf(p->arena, "--%s: %s", pass_names[pass], error);
    const Program before = step_kept(p);
    hooks[pass](p, &c);
    error = step_same(&before, p);
    return error ? arena_printf(p->arena, "pass %s: %s", pass_names[pass], error) : NULL;
}

const char *step_passes(Program *p, const char *const choices[PASS_COUNT])
{
    const char *error = NULL;
    for (StepPass pass = 0; pass < PASS_COUNT && !error; pass++)
        if (choices[pass])
            error = run_pass(p, pass, choices[pass]);
    return error;
}
