/* The public functions about packed parameters. */
#include "driver/module.h"
#include "driver/pack.h"

int moec_kernel_param_packed(const moec_kernel *k, size_t i)
{
    const SigParam *p = kernel_param(k, i);
    return p ? p->packed + (p->packed && p->both) : 0;
}

/* 0 on overflow. */
static int shape_of(const moec_kernel *k, size_t i, const int64_t *dims, PackShape *s)
{
    const SigParam *p = &k->sig->params[i];
    int64_t extents[MAX_RANK];
    if (!call_shape(k, i, dims, extents))
        return 0;
    *s = pack_shape(p->elem, p->both, extents, p->rank);
    return packed_bytes(s) >= 0;
}

int64_t moec_kernel_param_bytes(const moec_kernel *k, size_t i, const int64_t *dims)
{
    int64_t elements = moec_kernel_param_elements(k, i, dims), bytes;
    PackShape s;
    if (moec_kernel_param_packed(k, i))
        return shape_of(k, i, dims, &s) ? packed_bytes(&s) : -1;
    if (elements < 0 || __builtin_mul_overflow(elements, (int64_t)elem_bytes(k->sig->params[i].elem), &bytes))
        return -1;
    return bytes;
}

static int may_pack(const moec_kernel *k, size_t i, const int64_t *dims, const void *packed, const void *rows,
                    PackShape *s)
{
    if (!moec_kernel_param_packed(k, i))
        return k ? MOE_ARGUMENT : MOE_NULL;
    if (!kernel_has_sizes(k, dims))
        return MOE_NULL;
    if (!shape_of(k, i, dims, s))
        return MOE_SIZE;
    return packed && (rows || moec_kernel_param_elements(k, i, dims) == 0) ? MOE_OK : MOE_NULL;
}

int moec_kernel_pack(const moec_kernel *k, size_t i, const int64_t *dims, const void *row_major, void *packed)
{
    PackShape s;
    int status = may_pack(k, i, dims, packed, row_major, &s);
    if (!status)
        pack_rows(&s, row_major, packed);
    return status;
}

int moec_kernel_unpack(const moec_kernel *k, size_t i, const int64_t *dims, const void *packed,
                       void *row_major)
{
    PackShape s;
    int status = may_pack(k, i, dims, packed, row_major, &s);
    if (!status && !pack_fits(&s, packed))
        status = MOE_PACKED;
    if (!status)
        pack_unpack(&s, packed, row_major);
    return status;
}
