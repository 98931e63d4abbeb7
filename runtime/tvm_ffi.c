/* `__tvm_ffi_NAME`: a kernel by the C calling convention of tvm-ffi, which passes tensors as DLPack has them. Compiled into an object
 * of its own that the back end merges into each .so, with one stub for each kernel that brings the table of its parameters
 * (backend/emit_tvm.c). It depends on libc only: libtvm_ffi is asked to keep the text of an error where the process has it.
 *
 * Arguments are the parameters in their order: tensors on the CPU, dense and row-major; a packed one as a tensor of its bytes; `in`
 * scalars as numbers; a route as four tensors, start [E+1] and count [E] of i64, slot_of [rows] and row_of [T, K] of i32. Dimensions
 * come from shapes; those that no shape gives are integers in front. */
#include "moec/moec.h"
#include "moec/moert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* tvm/ffi/c_api.h: TVMFFIAny, and the indices of the types that may be arguments. */
typedef struct TvmAny {
    int32_t type;
    uint32_t padding;
    union {
        int64_t integer;
        double real;
        void *pointer;
    } value;
} TvmAny;

enum {
    TVM_NONE = 0,
    TVM_INT = 1,
    TVM_BOOL = 2,
    TVM_FLOAT = 3,
    TVM_DLTENSOR = 7,
    TVM_TENSOR = 70,
    TVM_HEADER = 24
};

/* libtvm_ffi may be loaded after the .so, so it is looked for when there is an error. (glibc before 2.34 has dlsym() in libdl.) */
__attribute__((weak)) void *dlsym(void *where, const char *name);
typedef void TvmRaise(const char *kind, const char *message);

static void raise_error(const char *kind, const char *message)
{
    TvmRaise *raise = dlsym ? (TvmRaise *)(uintptr_t)dlsym(NULL, "TVMFFIErrorSetRaisedFromCStr") : NULL;
    if (raise)
        raise(kind, message);
}

/* The table of a kernel, as emit_tvm.c writes it: dims, params; for each dimension whether it is an argument; for each parameter
 * its kind and element type, the number of its axes, and for each axis the terms of its extent: coefficient, number of dimensions,
 * and these. A route has four axes: T, K, E and its rows. */
enum TvmKind { TVM_KIND_TENSOR, TVM_KIND_PACKED, TVM_KIND_SCALAR, TVM_KIND_ROUTE };
enum TvmElem { TVM_F32, TVM_BF16, TVM_F16, TVM_I32, TVM_I64 };

typedef struct TvmCall {
    const int64_t *table, *at; /* behind what was read */
    const char *kernel, *name; /* of the parameter at hand */
    const TvmAny *args;
    int32_t nargs, next;
    int64_t *dims; /* -1: not known yet */
    int failed;
} TvmCall;

static int fail(TvmCall *c, const char *kind, const char *format, ...)
{
    char text[MOE_MESSAGE_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!c->failed)
        raise_error(kind, text);
    c->failed = 1;
    return 0;
}

static const char *next_text(const char *text) { return text + strlen(text) + 1; }

/* ---- extents ---- */

/* Takes an extent: when it is one dimension that is not known, that becomes `size`. *known: all of its dimensions are. */
static int64_t take_extent(TvmCall *c, int64_t size, int *known)
{
    int64_t terms = *c->at++, sum = 0;
    *known = 1;
    for (int64_t t = 0; t < terms; t++) {
        int64_t product = *c->at++, n = *c->at++;
        for (int64_t d = 0; d < n; d++) {
            int64_t *dim = &c->dims[*c->at++];
            if (*dim < 0 && terms == 1 && n == 1 && product == 1)
                *dim = size;
            *known &= *dim >= 0;
            product *= *dim;
        }
        sum += product;
    }
    return sum;
}

static void check_extent(TvmCall *c, int64_t size, int axis)
{
    int known;
    int64_t want = take_extent(c, size, &known);
    if (known && want != size)
        fail(c, "ValueError", "%s: axis %d of %s is %lld, but other arguments make it %lld", c->kernel, axis,
             c->name, (long long)size, (long long)want);
}

/* ---- tensors ---- */

static const DLTensor *take_tensor(TvmCall *c, const char *part)
{
    const TvmAny *a = c->next < c->nargs ? &c->args[c->next++] : NULL;
    const DLTensor *t = NULL;
    if (a && a->type == TVM_DLTENSOR)
        t = a->value.pointer;
    else if (a && a->type == TVM_TENSOR)
        t = (const DLTensor *)((const char *)a->value.pointer + TVM_HEADER);
    if (!t) {
        fail(c, "TypeError", "%s: %s%s is not a tensor", c->kernel, c->name, part);
        return NULL;
    }
    if (t->device.device_type != kDLCPU)
        fail(c, "ValueError", "%s: %s%s is not on the CPU", c->kernel, c->name, part);
    int64_t stride = 1;
    for (int i = t->ndim; t->strides && i-- > 0; stride *= t->shape[i])
        if (t->shape[i] > 1 && t->strides[i] != stride) {
            fail(c, "ValueError", "%s: %s%s is not dense and row-major", c->kernel, c->name, part);
            return NULL;
        }
    return t;
}

static int has_type(const DLTensor *t, int64_t elem)
{
    static const DLDataType types[] = {[TVM_F32] = {kDLFloat, 32, 1},
                                       [TVM_BF16] = {kDLBfloat, 16, 1},
                                       [TVM_F16] = {kDLFloat, 16, 1},
                                       [TVM_I32] = {kDLInt, 32, 1},
                                       [TVM_I64] = {kDLInt, 64, 1}};
    return t->dtype.code == types[elem].code && t->dtype.bits == types[elem].bits && t->dtype.lanes == 1;
}

static void *data_of(const DLTensor *t) { return (char *)t->data + t->byte_offset; }

static void skip_extents(TvmCall *c, int64_t axes)
{
    int known;
    while (axes-- > 0)
        take_extent(c, -1, &known);
}

/* A tensor of this type with `axes` axes, whose extents come next in the table; NULL: refused. */
static void *take_data(TvmCall *c, const char *part, int64_t elem, int64_t axes)
{
    const DLTensor *t = take_tensor(c, part);
    if (t && !has_type(t, elem))
        fail(c, "TypeError", "%s: %s%s has another element type", c->kernel, c->name, part);
    if (t && t->ndim != axes)
        fail(c, "ValueError", "%s: %s%s has %d axes, not %d", c->kernel, c->name, part, t->ndim, (int)axes);
    for (int i = 0; i < axes; i++)
        if (c->failed)
            skip_extents(c, 1);
        else
            check_extent(c, t->shape[i], i);
    return c->failed ? NULL : data_of(t);
}

/* ---- scalars ---- */

static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void *take_scalar(TvmCall *c, int64_t elem, double *room)
{
    const TvmAny *a = c->next < c->nargs ? &c->args[c->next++] : NULL;
    int integer = a && (a->type == TVM_INT || a->type == TVM_BOOL);
    if (!integer && !(a && a->type == TVM_FLOAT && elem != TVM_I32)) {
        fail(c, "TypeError", "%s: %s is not a number%s", c->kernel, c->name,
             elem == TVM_I32 ? " without a fraction" : "");
        return NULL;
    }
    const double value = integer ? (double)a->value.integer : a->value.real;
    const float single = (float)value;
    const uint16_t half = to_bf16(single);
    const int32_t whole = integer ? (int32_t)a->value.integer : 0;
    if (elem == TVM_I32)
        memcpy(room, &whole, sizeof whole);
    else if (elem == TVM_BF16)
        memcpy(room, &half, sizeof half);
    else
        memcpy(room, &single, sizeof single);
    if (elem == TVM_F16)
        fail(c, "TypeError", "%s: %s is an f16, which cannot be given as a number", c->kernel, c->name);
    return room;
}

/* ---- routes ---- */

/* Four tensors in the order of abi.def; extents stand in the table as T, K, E, rows. */
static void *take_route(TvmCall *c, moe_route *r)
{
    const DLTensor *start = take_tensor(c, ".start"), *count = take_tensor(c, ".count");
    const DLTensor *slot_of = take_tensor(c, ".slot_of"), *row_of = take_tensor(c, ".row_of");
    if (!c->failed && !(has_type(start, TVM_I64) && has_type(count, TVM_I64) && has_type(slot_of, TVM_I32) &&
                        has_type(row_of, TVM_I32)))
        fail(c, "TypeError", "%s: %s is start and count of int64, slot_of and row_of of int32", c->kernel,
             c->name);
    if (!c->failed && (start->ndim != 1 || count->ndim != 1 || slot_of->ndim != 1 || row_of->ndim != 2 ||
                       start->shape[0] != count->shape[0] + 1))
        fail(c, "ValueError", "%s: %s is start [E+1], count [E], slot_of [rows], row_of [T, K]", c->kernel,
             c->name);
    if (c->failed) {
        skip_extents(c, 4);
        return NULL;
    }
    *r = (moe_route){.tokens = row_of->shape[0],
                     .choices = row_of->shape[1],
                     .groups = count->shape[0],
                     .rows = slot_of->shape[0],
                     .start = data_of(start),
                     .count = data_of(count),
                     .slot_of = data_of(slot_of),
                     .row_of = data_of(row_of)};
    const int64_t sizes[4] = {r->tokens, r->choices, r->groups, r->rows};
    for (int i = 0; i < 4; i++)
        check_extent(c, sizes[i], i);
    return r;
}

/* ---- the call ---- */

static void *take_argument(TvmCall *c, moe_route *route, double *scalar)
{
    const int64_t kind = *c->at++, elem = *c->at++, axes = *c->at++;
    if (kind == TVM_KIND_ROUTE)
        return take_route(c, route);
    if (kind == TVM_KIND_SCALAR)
        return take_scalar(c, elem, scalar);
    if (kind == TVM_KIND_TENSOR)
        return take_data(c, "", elem, axes);
    const DLTensor *packed = take_tensor(c, "");
    skip_extents(c, axes);
    return packed ? data_of(packed) : NULL;
}

static void take_dims(TvmCall *c, int64_t ndims)
{
    for (int64_t d = 0; d < ndims; d++) {
        const TvmAny *a = *c->at++ && c->next < c->nargs ? &c->args[c->next] : NULL;
        c->dims[d] = -1;
        if (a && a->type == TVM_INT)
            c->dims[d] = c->args[c->next++].value.integer;
        else if (c->at[-1])
            fail(c, "TypeError", "%s: the size %s, which no shape gives, is an integer in front", c->kernel,
                 c->name);
        c->name = next_text(c->name);
    }
}

/* Extents that were met before their dimensions were known are checked now. */
static void check_again(TvmCall *c, int64_t ndims)
{
    for (int64_t d = 0; d < ndims; d++)
        if (c->dims[d] < 0)
            fail(c, "ValueError", "%s: no argument gives all sizes", c->kernel);
}

__attribute__((visibility("hidden"))) int moec_tvm_call(const int64_t *table, const char *names,
                                                        moe_entry *entry, const TvmAny *args, int32_t nargs,
                                                        TvmAny *result)
{
    const int64_t ndims = table[0], nparams = table[1];
    int64_t dims[ndims + 1];
    void *given[nparams + 1];
    moe_route routes[nparams + 1];
    double scalars[nparams + 1];
    char message[MOE_MESSAGE_BYTES] = "";
    TvmCall c = {.table = table,
                 .at = table + 2,
                 .kernel = names,
                 .name = next_text(names),
                 .args = args,
                 .nargs = nargs,
                 .dims = dims};
    take_dims(&c, ndims);
    const int64_t *first = c.at;
    const char *first_name = c.name;
    const int32_t first_arg = c.next;
    for (int pass = 0; pass < 2; pass++) { /* the second one knows all dimensions */
        c.at = first;
        c.name = first_name;
        c.next = first_arg;
        for (int64_t i = 0; i < nparams; i++, c.name = next_text(c.name))
            given[i] = take_argument(&c, &routes[i], &scalars[i]);
    }
    if (c.next != nargs && !c.failed)
        fail(&c, "TypeError", "%s: %d arguments are given, it takes %d", c.kernel, nargs, c.next);
    check_again(&c, ndims);
    *result = (TvmAny){.type = TVM_NONE};
    if (c.failed)
        return -1;
    moe_ctx ctx = {.message = message};
    const int status = entry(&ctx, dims, given);
    free(ctx.work_bytes >= 0 ? ctx.work : NULL);
    return status == MOE_OK || !fail(&c, "RuntimeError", "%s", message) ? -(status != MOE_OK) : 0;
}
