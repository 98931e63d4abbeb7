/* Routings of tests and command lines: whether they fit a kernel at given sizes. */
#include "ir/ir.h"

typedef struct RouteSizes {
    int64_t slots, groups, rows;
} RouteSizes;

/* 0: some of its dimensions are not known. Of an extent that does not fit 64 bits: -1. */
static int known_extent(const Module *m, Extent e, const int64_t *sizes, int64_t *value)
{
    const ExtentForm *f = &m->extents.at[m->extents.at[e].folded];
    for (uint32_t i = 0; i < f->nterms; i++)
        for (uint32_t d = 0; d < f->terms[i].ndims; d++)
            if (sizes[f->terms[i].dims[d]] < 0)
                return 0;
    if (!ext_eval(m, e, sizes, value))
        *value = -1;
    return 1;
}

static int known_sizes(const Kernel *k, const Route *r, const int64_t *sizes, RouteSizes *out)
{
    const Module *m = k->module;
    const Group *g = &m->groups.at[r->group];
    int64_t choices;
    if (!known_extent(m, r->tokens, sizes, &out->slots) || !known_extent(m, r->choices, sizes, &choices) ||
        !known_extent(m, g->groups, sizes, &out->groups) || !known_extent(m, g->rows, sizes, &out->rows))
        return 0;
    if (out->slots < 0 || choices < 0 || __builtin_mul_overflow(out->slots, choices, &out->slots))
        out->slots = -1;
    return 1;
}

static const char *exact_flaw(const Kernel *k, const Route *r, const RouteSizes *s, const TestRouting *exact,
                              Arena *a)
{
    const Group *g = &k->module->groups.at[r->group];
    int64_t sum = 0, most = g->kind == GROUP_CAPACITY || s->slots < s->rows ? s->slots : s->rows;
    if (exact->counts.len > s->groups)
        return arena_printf(a, "exact(...) has numbers for %u groups; %s has %lld", exact->counts.len,
                            g->name, (long long)s->groups);
    for (uint32_t i = 0; i < exact->counts.len; i++) {
        if (exact->counts.at[i] > most - sum)
            return arena_printf(a, "the numbers of exact(...) add up to more than the %lld rows of %s",
                                (long long)most, g->name);
        sum += exact->counts.at[i];
    }
    return NULL;
}

const char *ir_run_flaw(const Kernel *k, const int64_t *sizes, const TestRun *run, Arena *a)
{
    for (uint32_t r = 0; r < k->routes.len; r++) {
        const Route *route = &k->routes.at[r];
        RouteSizes s;
        if (!known_sizes(k, route, sizes, &s))
            continue;
        if (s.slots < 0 || s.groups < 0 || s.rows < 0)
            return arena_printf(a, "the sizes of route %s do not fit 64 bits", route->name);
        for (uint32_t i = 0; i < run->routings.len; i++) {
            const TestRouting *routing = &run->routings.at[i];
            const char *flaw = routing->kind == ROUTING_EXACT ? exact_flaw(k, route, &s, routing, a) : NULL;
            if (flaw)
                return flaw;
        }
    }
    return NULL;
}
