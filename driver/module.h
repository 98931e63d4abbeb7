/* The insides of a compiled module, for the files of the public API. */
#ifndef DRIVER_MODULE_H
#define DRIVER_MODULE_H

#include "driver/driver.h"
#include "driver/reference.h"
#include "driver/signature.h"

typedef int64_t WorkspaceEntry(const int64_t *dims);

struct moec_kernel {
    const moec_module *module;
    const SigKernel *sig;
    void *function;
    moe_entry *entry;
    WorkspaceEntry *workspace;
    const Kernel *ir; /* of a module that is only interpreted, which has no function, entry or workspace */
};

struct moec_module {
    Compilation *own; /* its arena holds the signatures */
    Loaded loaded;
    Reference reference; /* of a module that is only interpreted: what runs */
    const char *manifest;
    Signatures signatures;
    moec_kernel *kernels;
};

/* Parameter i, NULL if there is no such one. */
static inline const SigParam *kernel_param(const moec_kernel *k, size_t i)
{
    return k && i < k->sig->nparams ? &k->sig->params[i] : NULL;
}

/* Sizes were given, or none are needed. */
static inline int kernel_has_sizes(const moec_kernel *k, const int64_t *dims) { return dims || !k->sig->ndims; }

/* ---- call.c ---- */

/* The extents of parameter i (MAX_RANK places); 0 if it is no tensor or scalar, on overflow or without memory. */
int call_shape(const moec_kernel *k, size_t i, const int64_t *dims, int64_t *shape);
/* Fills the context, which may be NULL, and returns the status. */
int call_refuse(moe_ctx *ctx, int status, const char *text);
/* NULL, or which argument of a uniform call is missing. */
const char *call_missing(const moec_kernel *k, const int64_t *dims, void *const *args);

#endif
