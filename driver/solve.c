/* Sizes from shapes, for moec_kernel_call and moec_kernel_solve_dims.
 *
 * Note [Sizes from shapes] Each axis gives an equation `extent == number`. One whose extent has exactly one
 * unknown dimension, in exactly one term and to the first power, solves it; this is repeated until nothing
 * changes and then every equation is checked. So `2*F` gives F, and `T*K` gives T once K is known from
 * elsewhere. */
#include "driver/module.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- extents ---- */

static int term_value(const SigTerm *t, const int64_t *sizes, int64_t *value)
{
    *value = t->coef;
    for (uint32_t d = 0; d < t->ndims; d++)
        if (sizes[t->dims[d]] < 0 || __builtin_mul_overflow(*value, sizes[t->dims[d]], value))
            return 0;
    return 1;
}

int extent_value(const SigExtent *e, const int64_t *sizes, int64_t *value)
{
    *value = 0;
    for (uint32_t i = 0; i < e->nterms; i++) {
        int64_t term;
        if (!term_value(&e->terms[i], sizes, &term) || __builtin_add_overflow(*value, term, value))
            return 0;
    }
    return 1;
}

/* The one unknown of the term, or NONE when it has none or several (a square counts as several). */
static uint32_t sole_unknown(const SigTerm *t, const int64_t *sizes, int *count)
{
    uint32_t found = NONE;
    *count = 0;
    for (uint32_t d = 0; d < t->ndims; d++)
        if (sizes[t->dims[d]] < 0) {
            found = t->dims[d];
            ++*count;
        }
    return *count == 1 ? found : (uint32_t)NONE;
}

/* 1 when it found a dimension, -1 when no size of the only one that is unknown gives this number. */
static int solve(const SigExtent *e, int64_t number, int64_t *sizes)
{
    uint32_t unknown = NONE;
    int64_t factor = 0, rest = number;
    for (uint32_t i = 0; i < e->nterms; i++) {
        int count;
        int64_t term;
        uint32_t u = sole_unknown(&e->terms[i], sizes, &count);
        if (count > 1 || (count == 1 && unknown != NONE))
            return 0;
        if (count == 1) {
            unknown = u;
            sizes[u] = 1;
            int known = term_value(&e->terms[i], sizes, &factor);
            sizes[u] = -1;
            if (!known)
                return 0;
        } else if (!term_value(&e->terms[i], sizes, &term) || __builtin_sub_overflow(rest, term, &rest)) {
            return 0;
        }
    }
    if (unknown == NONE || factor == 0)
        return 0;
    if (rest % factor != 0 || rest / factor < 0)
        return -1;
    sizes[unknown] = rest / factor;
    return 1;
}

/* ---- the equations of one parameter ---- */

uint32_t param_rank(const SigParam *p) { return p->kind == MOEC_ROUTE ? ROUTE_SIZES : p->rank; }

const SigExtent *param_extent(const moec_kernel *k, const SigParam *p, uint32_t axis)
{
    const SigGroup *g = &k->module->signatures.groups[p->group];
    const SigExtent *const route[ROUTE_SIZES] = {&p->tokens, &p->choices, &g->groups, &g->rows};
    return p->kind == MOEC_ROUTE ? route[axis] : &p->shape[axis];
}

typedef int EachSize(const SizeSolver *s, const SigParam *p, uint32_t axis, int64_t number);

/* f for each size that is known of the parameters, until one gives a status. */
static int each_size(const SizeSolver *s, EachSize *f)
{
    const SigKernel *sig = s->k->sig;
    for (uint32_t i = 0; i < sig->nparams; i++)
        for (uint32_t d = 0; s->shapes[i] && d < param_rank(&sig->params[i]); d++) {
            int status = f(s, &sig->params[i], d, s->shapes[i][d]);
            if (status)
                return status;
        }
    return 0;
}

/* Never an error: what stays unknown or does not fit is named afterwards. */
static int solve_size(const SizeSolver *s, const SigParam *p, uint32_t axis, int64_t number)
{
    solve(param_extent(s->k, p, axis), number, s->sizes);
    return 0;
}

static int is_known(const SigExtent *e, const int64_t *sizes)
{
    for (uint32_t i = 0; i < e->nterms; i++)
        for (uint32_t d = 0; d < e->terms[i].ndims; d++)
            if (sizes[e->terms[i].dims[d]] < 0)
                return 0;
    return 1;
}

/* " where G is 5": the dimensions of an extent whose sizes are known. Texts longer than the room are cut. */
static void known_sizes(const SizeSolver *s, const SigExtent *e, char *out, size_t room)
{
    size_t n = 0;
    *out = '\0';
    for (uint32_t i = 0; i < e->nterms; i++)
        for (uint32_t d = 0; d < e->terms[i].ndims; d++) {
            const uint32_t dim = e->terms[i].dims[d];
            if (s->sizes[dim] >= 0 && n < room)
                n += (size_t)snprintf(out + n, room - n, "%s %s is %lld", n ? "," : " where",
                                      s->k->module->signatures.dims[dim].name, (long long)s->sizes[dim]);
        }
}

/* An axis whose extent has one dimension that is not known, and no size of it fits. */
static int refuse_unsolved(const SizeSolver *s, const SigParam *p, const char *what, const SigExtent *e,
                           int64_t number)
{
    const char *name = "";
    char known[160];
    for (uint32_t i = 0; i < e->nterms; i++)
        for (uint32_t d = 0; d < e->terms[i].ndims; d++)
            if (s->sizes[e->terms[i].dims[d]] < 0)
                name = s->k->module->signatures.dims[e->terms[i].dims[d]].name;
    known_sizes(s, e, known, sizeof known);
    return refuse_argument(s->ctx, "%s: '%s' has %lld at %s, but %s is that for no size %s%s",
                           s->k->sig->name, p->name, (long long)number, what, e->text, name, known);
}

static int has_dims(const SigExtent *e)
{
    for (uint32_t i = 0; i < e->nterms; i++)
        if (e->terms[i].ndims)
            return 1;
    return 0;
}

static int check_size(const SizeSolver *s, const SigParam *p, uint32_t axis, int64_t number)
{
    static const char *const route_sizes[ROUTE_SIZES] = {"tokens", "choices", "groups", "rows"};
    const SigExtent *e = param_extent(s->k, p, axis);
    const char *kernel = s->k->sig->name;
    int64_t want;
    int fits = extent_value(e, s->sizes, &want);
    char what[24];
    snprintf(what, sizeof what, "axis %u", axis);
    if (p->kind == MOEC_ROUTE)
        snprintf(what, sizeof what, "%s", route_sizes[axis]);
    if (number >= 0 && !is_known(e, s->sizes) && solve(e, number, s->sizes) < 0)
        return refuse_unsolved(s, p, what, e, number);
    if (fits ? want == number : number >= 0 && !is_known(e, s->sizes))
        return 0;
    if (number < 0)
        return refuse_argument(s->ctx, "%s: '%s' has a negative size at %s", kernel, p->name, what);
    if (!fits)
        return refuse_argument(s->ctx, "%s: '%s' %s is %s, which is too large", kernel, p->name, what,
                               e->text);
    if (!has_dims(e))
        return refuse_argument(s->ctx, "%s: '%s' has %lld at %s, but its type says %lld", kernel, p->name,
                               (long long)number, what, (long long)want);
    return refuse_argument(s->ctx, "%s: '%s' has %lld at %s, but %s is %lld here", kernel, p->name,
                           (long long)number, what, e->text, (long long)want);
}

/* ---- all sizes ---- */

static uint32_t unknown_dims(const SizeSolver *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->k->sig->ndims; i++)
        n += s->sizes[s->k->sig->dims[i]] < 0;
    return n;
}

int solve_sizes(const SizeSolver *s)
{
    for (uint32_t left = unknown_dims(s), before = left + 1; left && left < before;) {
        each_size(s, solve_size);
        before = left;
        left = unknown_dims(s);
    }
    return each_size(s, check_size);
}

void solve_begin(const moec_kernel *k, const int64_t *dims, int64_t *sizes)
{
    const Signatures *s = &k->module->signatures;
    for (uint32_t i = 0; i < s->ndims; i++)
        sizes[i] = s->dims[i].constant;
    for (uint32_t i = 0; dims && i < k->sig->ndims; i++)
        sizes[k->sig->dims[i]] = dims[i] < 0 ? -1 : dims[i];
}

int moec_kernel_solve_dims(const moec_kernel *k, moe_ctx *ctx, const int64_t *const *shapes, int64_t *dims)
{
    if (!k)
        return call_refuse(ctx, MOE_NULL, "there is no kernel");
    if ((!shapes && k->sig->nparams) || !kernel_has_sizes(k, dims))
        return call_refuse(ctx, MOE_NULL,
                           shapes ? "the array of sizes is NULL" : "the array of shapes is NULL");
    int64_t *sizes = calloc(k->module->signatures.ndims + 1, sizeof *sizes);
    if (!sizes)
        return call_refuse(ctx, MOE_MEMORY, "out of memory");
    solve_begin(k, dims, sizes);
    int status = solve_sizes(&(SizeSolver){k, ctx, shapes, sizes});
    for (uint32_t i = 0; i < k->sig->ndims; i++)
        dims[i] = sizes[k->sig->dims[i]];
    free(sizes);
    return status;
}
