/* moec_kernel_call: DLPack tensors in, sizes solved from their shapes, everything checked by name.
 *
 * Note [Sizes from shapes] Each axis gives an equation `extent == number`. One whose extent has exactly one
 * unknown dimension, in exactly one term and to the first power, solves it; this is repeated until nothing
 * changes and then every equation is checked. So `2*F` gives F, and `T*K` gives T once K is known from
 * elsewhere. */
#include "driver/element.h"
#include "driver/module.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct DriverCall {
    const moec_kernel *k;
    moe_ctx *ctx;
    const moec_arg *args;
    int64_t *sizes;   /* by dimension of the module; -1: not known yet */
    int64_t *passed;  /* by dimension of the kernel */
    void **pointers;  /* by parameter: what the uniform entry takes */
    uint64_t *values; /* by parameter: room for a scalar */
} DriverCall;

int call_refuse(moe_ctx *ctx, int status, const char *text)
{
    if (ctx)
        ctx->status = status;
    if (ctx && ctx->message)
        snprintf(ctx->message, MOE_MESSAGE_BYTES, "%s", text);
    return status;
}

const char *call_missing(const moec_kernel *k, const int64_t *dims, void *const *args)
{
    if (!k)
        return "there is no kernel";
    if (!kernel_has_sizes(k, dims))
        return "the array of sizes is NULL";
    return args || !k->sig->nparams ? NULL : "the array of arguments is NULL";
}

static int __attribute__((format(printf, 2, 3))) refuse(const DriverCall *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (c->ctx && c->ctx->message)
        vsnprintf(c->ctx->message, MOE_MESSAGE_BYTES, format, args);
    if (c->ctx)
        c->ctx->status = MOE_ARGUMENT;
    va_end(args);
    return MOE_ARGUMENT;
}

/* ---- extents ---- */

static int eval_term(const SigTerm *t, const int64_t *sizes, int64_t *value)
{
    *value = t->coef;
    for (uint32_t d = 0; d < t->ndims; d++)
        if (sizes[t->dims[d]] < 0 || __builtin_mul_overflow(*value, sizes[t->dims[d]], value))
            return 0;
    return 1;
}

static int eval_extent(const SigExtent *e, const int64_t *sizes, int64_t *value)
{
    *value = 0;
    for (uint32_t i = 0; i < e->nterms; i++) {
        int64_t term;
        if (!eval_term(&e->terms[i], sizes, &term) || __builtin_add_overflow(*value, term, value))
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

/* 1 when it found a dimension. */
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
            int known = eval_term(&e->terms[i], sizes, &factor);
            sizes[u] = -1;
            if (!known)
                return 0;
        } else if (!eval_term(&e->terms[i], sizes, &term) || __builtin_sub_overflow(rest, term, &rest)) {
            return 0;
        }
    }
    if (unknown == NONE || factor == 0 || rest % factor != 0 || rest / factor < 0)
        return 0;
    sizes[unknown] = rest / factor;
    return 1;
}

/* ---- the equations of one argument ---- */

/* axis: of a tensor; of a route its size of that number: */
static const char *const route_sizes[] = {"tokens", "choices", "groups", "rows"};
typedef int (*EachSize)(DriverCall *c, const SigParam *p, const SigExtent *e, int64_t number, uint32_t axis);

static int each_size(DriverCall *c, uint32_t i, EachSize f)
{
    const SigParam *p = &c->k->sig->params[i];
    const SigGroup *g = &c->k->module->signatures.groups[p->group];
    const moe_route *r = c->args[i].route;
    int status = 0;
    if (p->kind == MOEC_ROUTE) {
        (void)((status = f(c, p, &p->tokens, r->tokens, 0)) ||
               (status = f(c, p, &p->choices, r->choices, 1)) ||
               (status = f(c, p, &g->groups, r->groups, 2)) || (status = f(c, p, &g->rows, r->rows, 3)));
        return status;
    }
    for (uint32_t d = 0; p->kind == MOEC_TENSOR && d < p->rank && !status; d++)
        status = f(c, p, &p->shape[d], c->args[i].tensor->shape[d], d);
    return status;
}

/* Never an error: what stays unknown or does not fit is named afterwards. */
static int solve_size(DriverCall *c, const SigParam *p, const SigExtent *e, int64_t number, uint32_t axis)
{
    (void)p;
    (void)axis;
    solve(e, number, c->sizes);
    return 0;
}

static int check_size(DriverCall *c, const SigParam *p, const SigExtent *e, int64_t number, uint32_t axis)
{
    int64_t want;
    const char *kernel = c->k->sig->name;
    int known = eval_extent(e, c->sizes, &want);
    if (known && want == number)
        return 0;
    char what[24];
    snprintf(what, sizeof what, "axis %u", axis);
    if (p->kind == MOEC_ROUTE)
        snprintf(what, sizeof what, "%s", route_sizes[axis]);
    if (!known)
        return refuse(c, "%s: '%s' %s is %s, which is too large", kernel, p->name, what, e->text);
    return refuse(c, "%s: '%s' has %lld at %s, but %s is %lld here", kernel, p->name, (long long)number, what,
                  e->text, (long long)want);
}

static uint32_t unknown_dims(const DriverCall *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->k->sig->ndims; i++)
        n += c->sizes[c->k->sig->dims[i]] < 0;
    return n;
}

static int find_sizes(DriverCall *c)
{
    const Signatures *s = &c->k->module->signatures;
    for (uint32_t i = 0; i < s->ndims; i++)
        c->sizes[i] = s->dims[i].constant;
    for (uint32_t left = unknown_dims(c), before = left + 1; left && left < before;) {
        for (uint32_t i = 0; i < c->k->sig->nparams; i++)
            each_size(c, i, solve_size);
        before = left;
        left = unknown_dims(c);
    }
    for (uint32_t i = 0; i < c->k->sig->ndims; i++)
        if (c->sizes[c->k->sig->dims[i]] < 0)
            return refuse(c, "%s: the size %s cannot be found from the arguments' shapes", c->k->sig->name,
                          s->dims[c->k->sig->dims[i]].name);
    for (uint32_t i = 0; i < c->k->sig->nparams; i++) {
        int status = each_size(c, i, check_size);
        if (status)
            return status;
    }
    return 0;
}

/* ---- tensors ---- */

static int has_type(const DLTensor *t, Elem e)
{
    int code = e == EL_BF16 ? kDLBfloat : e == EL_I32 || e == EL_I64 ? kDLInt : kDLFloat;
    return t->dtype.code == code && t->dtype.bits == 8 * elem_bytes(e) && t->dtype.lanes == 1;
}

/* Row-major: strides of axes of one element (or of an empty tensor) do not matter. */
static int is_dense(const DLTensor *t)
{
    int64_t expected = 1;
    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] == 0)
            return 1;
    for (int d = t->ndim; t->strides && d-- > 0;) {
        if (t->shape[d] != 1 && t->strides[d] != expected)
            return 0;
        if (__builtin_mul_overflow(expected, t->shape[d], &expected))
            return 0;
    }
    return 1;
}

static int check_tensor(DriverCall *c, uint32_t i)
{
    const SigParam *p = &c->k->sig->params[i];
    const DLTensor *t = c->args[i].tensor;
    const char *kernel = c->k->sig->name;
    if (!t)
        return refuse(c, "%s: '%s' has no tensor", kernel, p->name);
    if (t->device.device_type != kDLCPU)
        return refuse(c, "%s: '%s' is not in CPU memory (device type %d)", kernel, p->name,
                      (int)t->device.device_type);
    if (!has_type(t, p->elem))
        return refuse(c, "%s: '%s' is %s, but its tensor has type code %d of %d bits and %d lanes", kernel,
                      p->name, elem_name(p->elem), t->dtype.code, t->dtype.bits, t->dtype.lanes);
    if (t->ndim < 0 || (uint32_t)t->ndim != p->rank)
        return refuse(c, "%s: '%s' has %u axes, but its tensor has %d", kernel, p->name, p->rank, t->ndim);
    for (uint32_t d = 0; d < p->rank; d++)
        if (!t->shape || t->shape[d] < 0)
            return refuse(c, "%s: '%s' has a negative size at axis %u", kernel, p->name, d);
    if (!is_dense(t))
        return refuse(c, "%s: '%s' is strided; only dense row-major tensors are taken", kernel, p->name);
    if (t->byte_offset % elem_bytes(p->elem))
        return refuse(c, "%s: '%s' has a byte offset of %llu, which splits an element", kernel, p->name,
                      (unsigned long long)t->byte_offset);
    c->pointers[i] = t->data ? (char *)t->data + t->byte_offset : NULL;
    return 0;
}

/* ---- scalars ---- */

static int set_scalar(DriverCall *c, uint32_t i)
{
    const SigParam *p = &c->k->sig->params[i];
    double v = c->args[i].scalar;
    c->pointers[i] = &c->values[i];
    if (p->elem == EL_I32 && (!(v >= INT32_MIN && v <= INT32_MAX) || v != floor(v)))
        return refuse(c, "%s: '%s' is i32, but its value is %.17g", c->k->sig->name, p->name, v);
    element_write(p->elem, p->elem == EL_I32 ? v : elem_round(p->elem, v), c->pointers[i]);
    return 0;
}

/* ---- the call ---- */

static int check_argument(DriverCall *c, uint32_t i)
{
    static const char *const kinds[] = {"a tensor", "a scalar", "a route"};
    const SigParam *p = &c->k->sig->params[i];
    if (c->args[i].kind != p->kind)
        return refuse(c, "%s: '%s' is %s, but the argument is %s", c->k->sig->name, p->name, kinds[p->kind],
                      (unsigned)c->args[i].kind <= MOEC_ROUTE ? kinds[c->args[i].kind] : "of no kind");
    switch (p->kind) {
    case MOEC_TENSOR: return check_tensor(c, i);
    case MOEC_SCALAR: return set_scalar(c, i);
    case MOEC_ROUTE:
        c->pointers[i] = c->args[i].route;
        return c->args[i].route ? 0 : refuse(c, "%s: '%s' has no route", c->k->sig->name, p->name);
    case MOEC_NONE: break;
    }
    return MOE_ARGUMENT;
}

static int call(DriverCall *c)
{
    const SigKernel *sig = c->k->sig;
    for (uint32_t i = 0; i < sig->nparams; i++) {
        int status = check_argument(c, i);
        if (status)
            return status;
    }
    int status = find_sizes(c);
    if (status)
        return status;
    for (uint32_t i = 0; i < sig->ndims; i++)
        c->passed[i] = c->sizes[sig->dims[i]];
    return c->k->ir ? moec_kernel_interpret(c->k, c->ctx, c->passed, c->pointers)
                    : c->k->entry(c->ctx, c->passed, c->pointers);
}

enum { ROOM = 128 }; /* words: a call of a kernel that needs no more allocates nothing */

int moec_kernel_call(const moec_kernel *k, moe_ctx *ctx, const moec_arg *args, size_t n)
{
    if (!k)
        return call_refuse(ctx, MOE_NULL, "there is no kernel");
    uint32_t ndims = k->module->signatures.ndims, nparams = k->sig->nparams;
    DriverCall c = {.k = k, .ctx = ctx, .args = args};
    if (n != nparams)
        return refuse(&c, "%s takes %u arguments, but %zu were given", k->sig->name, nparams, n);
    if (n && !args)
        return call_refuse(ctx, MOE_NULL, "the array of arguments is NULL");
    /* One block: values and sizes are 8 bytes each, then the pointers. */
    uint64_t room[ROOM], *block = room;
    size_t words = 2 * ((size_t)nparams + ndims);
    if (words > ROOM && !(block = calloc(words, sizeof *block)))
        return MOE_MEMORY;
    c.values = block;
    c.sizes = (int64_t *)(void *)(c.values + nparams);
    c.passed = c.sizes + ndims;
    c.pointers = (void **)(void *)(c.passed + ndims);
    int status = call(&c);
    if (block != room)
        free(block);
    return status;
}

/* ---- parameters at given sizes ---- */

int call_shape(const moec_kernel *k, size_t i, const int64_t *dims, int64_t *shape)
{
    const SigParam *p = kernel_param(k, i);
    if (!p || p->kind == MOEC_ROUTE || !kernel_has_sizes(k, dims))
        return 0;
    const Signatures *s = &k->module->signatures;
    int64_t *sizes = calloc(s->ndims + 1, sizeof *sizes), all = 1;
    int good = sizes != NULL;
    for (uint32_t d = 0; good && d < s->ndims; d++)
        sizes[d] = s->dims[d].constant;
    for (uint32_t d = 0; good && d < k->sig->ndims; d++)
        sizes[k->sig->dims[d]] = dims[d];
    for (uint32_t d = 0; good && d < p->rank; d++)
        good = eval_extent(&p->shape[d], sizes, &shape[d]) && shape[d] >= 0 &&
               !__builtin_mul_overflow(all, shape[d], &all);
    free(sizes);
    return good;
}

int64_t moec_kernel_param_elements(const moec_kernel *k, size_t i, const int64_t *dims)
{
    int64_t shape[MAX_RANK], elements = 1;
    if (!call_shape(k, i, dims, shape))
        return -1;
    for (uint32_t d = 0; d < k->sig->params[i].rank; d++)
        elements *= shape[d];
    return elements;
}
