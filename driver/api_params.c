/* The public functions about the parameters of a kernel, and about their shapes at given sizes. */
#include "driver/module.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)MOEC_F32 == (int)EL_F32 && (int)MOEC_BF16 == (int)EL_BF16 &&
                   (int)MOEC_F16 == (int)EL_F16 && (int)MOEC_I32 == (int)EL_I32,
               "moec_type is Elem");
_Static_assert((int)MOEC_IN == (int)ROLE_IN && (int)MOEC_OUT == (int)ROLE_OUT &&
                   (int)MOEC_INOUT == (int)ROLE_INOUT,
               "moec_role is Role");
_Static_assert((int)MOEC_MAX_RANK == (int)MAX_RANK && (int)ROUTE_SIZES <= (int)MAX_RANK,
               "room for every shape");
_Static_assert(offsetof(moe_route, rows) == 3 * sizeof(int64_t), "the sizes of a route are an array");

size_t moec_kernel_params(const moec_kernel *k) { return k ? k->sig->nparams : 0; }
size_t moec_kernel_dims(const moec_kernel *k) { return k ? k->sig->ndims : 0; }

const char *moec_kernel_dim_name(const moec_kernel *k, size_t i)
{
    return i < moec_kernel_dims(k) ? k->module->signatures.dims[k->sig->dims[i]].name : NULL;
}

const char *moec_kernel_param_name(const moec_kernel *k, size_t i)
{
    const SigParam *p = kernel_param(k, i);
    return p ? p->name : NULL;
}

moec_param_kind moec_kernel_param_kind(const moec_kernel *k, size_t i)
{
    const SigParam *p = kernel_param(k, i);
    return p ? p->kind : MOEC_NONE;
}

size_t moec_kernel_param_index(const moec_kernel *k, const char *name)
{
    for (size_t i = 0; name && i < moec_kernel_params(k); i++)
        if (strcmp(k->sig->params[i].name, name) == 0)
            return i;
    return (size_t)-1;
}

moec_role moec_kernel_param_role(const moec_kernel *k, size_t i)
{
    const SigParam *p = kernel_param(k, i);
    return p ? (moec_role)p->role : MOEC_IN;
}

moec_type moec_kernel_param_type(const moec_kernel *k, size_t i)
{
    const SigParam *p = kernel_param(k, i);
    return p ? (moec_type)p->elem : MOEC_F32;
}

int moec_kernel_param_read(const moec_kernel *k, size_t i)
{
    const SigParam *p = kernel_param(k, i);
    return p && p->role != ROLE_OUT && !p->unread;
}

int moec_kernel_param_rank(const moec_kernel *k, size_t i)
{
    const SigParam *p = kernel_param(k, i);
    return p ? (int)param_rank(p) : -1;
}

/* ---- at given sizes ---- */

/* Are these the extents of memory, all of them and their product? */
static int is_shape(const SigParam *p, const int64_t *shape)
{
    int64_t all = 1;
    for (uint32_t d = 0; d < param_rank(p); d++)
        if (shape[d] < 0 || (p->kind != MOEC_ROUTE && __builtin_mul_overflow(all, shape[d], &all)))
            return 0;
    return 1;
}

int call_shape(const moec_kernel *k, size_t i, const int64_t *dims, int64_t *shape)
{
    const SigParam *p = kernel_param(k, i);
    if (!p || !kernel_has_sizes(k, dims))
        return 0;
    int64_t *sizes = calloc(k->module->signatures.ndims + 1, sizeof *sizes);
    int good = sizes != NULL;
    if (good)
        solve_begin(k, dims, sizes);
    for (uint32_t d = 0; good && d < param_rank(p); d++)
        good = extent_value(param_extent(k, p, d), sizes, &shape[d]);
    free(sizes);
    return good && is_shape(p, shape);
}

int moec_kernel_param_shape(const moec_kernel *k, size_t i, const int64_t *dims, int64_t *shape)
{
    return !shape || !call_shape(k, i, dims, shape);
}

int64_t moec_kernel_param_elements(const moec_kernel *k, size_t i, const int64_t *dims)
{
    int64_t shape[MAX_RANK], elements = 1;
    if (moec_kernel_param_kind(k, i) == MOEC_ROUTE || !call_shape(k, i, dims, shape))
        return -1;
    for (uint32_t d = 0; d < k->sig->params[i].rank; d++)
        elements *= shape[d];
    return elements;
}
