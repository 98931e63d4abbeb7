/* moec_kernel_call: DLPack tensors in, sizes solved from their shapes, everything checked by name. */
#include "driver/element.h"
#include "driver/module.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct DriverCall {
    const moec_kernel *k;
    moe_ctx *ctx;
    const moec_arg *args;
    const int64_t *dims;    /* by dimension of the kernel: sizes that are given; NULL: none */
    int64_t *sizes;         /* by dimension of the module; -1: not known yet */
    int64_t *passed;        /* by dimension of the kernel */
    const int64_t **shapes; /* by parameter: of a tensor its own, of a route its sizes, else NULL */
    void **pointers;        /* by parameter: what the uniform entry takes */
    uint64_t *values;       /* by parameter: room for a scalar */
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

int refuse_argument(moe_ctx *ctx, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (ctx && ctx->message)
        vsnprintf(ctx->message, MOE_MESSAGE_BYTES, format, args);
    if (ctx)
        ctx->status = MOE_ARGUMENT;
    va_end(args);
    return MOE_ARGUMENT;
}

/* ---- tensors ---- */

static int has_type(const DLTensor *t, Elem e)
{
    int code = e == EL_BF16 ? kDLBfloat : e == EL_I32 || e == EL_I64 ? kDLInt : kDLFloat;
    return t->dtype.code == code && t->dtype.bits == 8 * elem_bytes(e) && t->dtype.lanes == 1;
}

/* A type of DLPack as the language writes it. */
static void put_type(DLDataType t, char *out, size_t room)
{
    static const char *const kinds[] = {[kDLInt] = "i",     [kDLUInt] = "u",          [kDLFloat] = "f",
                                        [kDLBfloat] = "bf", [kDLComplex] = "complex", [DLPACK_BOOL] = "bool"};
    const char *kind = t.code < sizeof kinds / sizeof *kinds ? kinds[t.code] : NULL;
    if (t.lanes != 1)
        snprintf(out, room, "vectors of %d lanes", t.lanes);
    else if (!kind)
        snprintf(out, room, "a type of %d bits that is not known here", t.bits);
    else if (t.code == DLPACK_BOOL)
        snprintf(out, room, "%s", kind);
    else
        snprintf(out, room, "%s%d", kind, t.bits);
}

/* Row-major: strides of axes of one element (or of an empty tensor) do not matter. */
int call_is_dense(const DLTensor *t)
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

int call_check_tensor(const moec_kernel *k, moe_ctx *ctx, uint32_t i, const DLTensor *t)
{
    const SigParam *p = &k->sig->params[i];
    const char *kernel = k->sig->name;
    if (!t)
        return refuse_argument(ctx, "%s: '%s' has no tensor", kernel, p->name);
    if (t->device.device_type != kDLCPU)
        return refuse_argument(ctx, "%s: '%s' is not in CPU memory (device type %d)", kernel, p->name,
                               (int)t->device.device_type);
    char type[64];
    if (!has_type(t, p->elem)) {
        put_type(t->dtype, type, sizeof type);
        return refuse_argument(ctx, "%s: '%s' is %s, but its tensor is %s", kernel, p->name,
                               elem_name(p->elem), type);
    }
    if (t->ndim < 0 || (uint32_t)t->ndim != p->rank)
        return refuse_argument(ctx, "%s: '%s' has %u axes, but its tensor has %d", kernel, p->name, p->rank,
                               t->ndim);
    if (p->rank && !t->shape)
        return refuse_argument(ctx, "%s: '%s' has a tensor without a shape (NULL)", kernel, p->name);
    for (uint32_t d = 0; d < p->rank; d++)
        if (t->shape[d] < 0)
            return refuse_argument(ctx, "%s: '%s' has a negative size at axis %u", kernel, p->name, d);
    if (!call_is_dense(t))
        return refuse_argument(ctx,
                               "%s: '%s' is strided; only dense row-major tensors are taken "
                               "(numpy.ascontiguousarray, .contiguous())",
                               kernel, p->name);
    if (t->byte_offset % elem_bytes(p->elem))
        return refuse_argument(ctx, "%s: '%s' has a byte offset of %llu, which splits an element", kernel,
                               p->name, (unsigned long long)t->byte_offset);
    return 0;
}

static int take_tensor(DriverCall *c, uint32_t i)
{
    const DLTensor *t = c->args[i].tensor;
    int status = call_check_tensor(c->k, c->ctx, i, t);
    if (status)
        return status;
    c->shapes[i] = t->shape;
    c->pointers[i] = t->data ? (char *)t->data + t->byte_offset : NULL;
    return 0;
}

/* ---- scalars ---- */

static int set_scalar(DriverCall *c, uint32_t i)
{
    const SigParam *p = &c->k->sig->params[i];
    double v = c->args[i].scalar;
    c->shapes[i] = NULL;
    c->pointers[i] = &c->values[i];
    if (p->elem == EL_I32 && (!(v >= INT32_MIN && v <= INT32_MAX) || v != floor(v)))
        return refuse_argument(c->ctx, "%s: '%s' is i32, but its value is %.17g", c->k->sig->name, p->name,
                               v);
    element_write(p->elem, p->elem == EL_I32 ? v : elem_round(p->elem, v), c->pointers[i]);
    return 0;
}

/* ---- the call ---- */

static int check_argument(DriverCall *c, uint32_t i)
{
    static const char *const kinds[] = {"a tensor", "a scalar", "a route"};
    const SigParam *p = &c->k->sig->params[i];
    if (c->args[i].kind != p->kind)
        return refuse_argument(
            c->ctx, "%s: '%s' is %s, but the argument is %s", c->k->sig->name, p->name, kinds[p->kind],
            (unsigned)c->args[i].kind <= MOEC_ROUTE ? kinds[c->args[i].kind] : "of no kind");
    switch (p->kind) {
    case MOEC_TENSOR: return take_tensor(c, i);
    case MOEC_SCALAR: return set_scalar(c, i);
    case MOEC_ROUTE:
        if (!c->args[i].route)
            return refuse_argument(c->ctx, "%s: '%s' has no route", c->k->sig->name, p->name);
        c->pointers[i] = c->args[i].route;
        c->shapes[i] = &c->args[i].route->tokens; /* and the three behind it */
        return 0;
    case MOEC_NONE: break;
    }
    return MOE_ARGUMENT;
}

static int find_sizes(DriverCall *c)
{
    const SigKernel *sig = c->k->sig;
    solve_begin(c->k, c->dims, c->sizes);
    int status = solve_sizes(&(SizeSolver){c->k, c->ctx, c->shapes, c->sizes});
    for (uint32_t i = 0; i < sig->ndims && !status; i++) {
        const char *name = c->k->module->signatures.dims[sig->dims[i]].name;
        if (c->sizes[sig->dims[i]] < 0)
            return refuse_argument(c->ctx,
                                   "%s: the size %s cannot be found from the arguments' shapes, and none is "
                                   "given (from Python: %s=...)",
                                   sig->name, name, name);
    }
    return status;
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
    return c->k->run(c->k, c->ctx, c->passed, c->pointers);
}

int call_entry(const moec_kernel *k, moe_ctx *ctx, const int64_t *dims, void *const *args)
{
    return k->entry(ctx, dims, args);
}

enum { ROOM = 128 }; /* words: a call of a kernel that needs no more allocates nothing */

int call_tensors(const moec_kernel *k, moe_ctx *ctx, const moec_arg *args, size_t n, const int64_t *dims)
{
    if (!k)
        return call_refuse(ctx, MOE_NULL, "there is no kernel");
    if (!k->run)
        return refuse_argument(ctx, "%s has no code: the option `kernels` does not name it", k->sig->name);
    uint32_t ndims = k->module->signatures.ndims, nparams = k->sig->nparams;
    DriverCall c = {.k = k, .ctx = ctx, .args = args, .dims = dims};
    if (n != nparams)
        return refuse_argument(ctx, "%s takes %u arguments, but %zu were given", k->sig->name, nparams, n);
    if (n && !args)
        return call_refuse(ctx, MOE_NULL, "the array of arguments is NULL");
    /* One block: values and sizes are 8 bytes each, then the pointers. */
    uint64_t room[ROOM], *block = room;
    size_t words = 3 * (size_t)nparams + 2 * (size_t)ndims;
    if (words > ROOM && !(block = calloc(words, sizeof *block)))
        return MOE_MEMORY;
    c.values = block;
    c.sizes = (int64_t *)(void *)(c.values + nparams);
    c.passed = c.sizes + ndims;
    c.pointers = (void **)(void *)(c.passed + ndims);
    c.shapes = (const int64_t **)(void *)(c.pointers + nparams);
    int status = call(&c);
    if (block != room)
        free(block);
    return status;
}

int moec_kernel_call(const moec_kernel *k, moe_ctx *ctx, const moec_arg *args, size_t n)
{
    return call_tensors(k, ctx, args, n, NULL);
}
