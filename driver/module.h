/* The insides of a compiled module, for the files of the public API. */
#ifndef DRIVER_MODULE_H
#define DRIVER_MODULE_H

#include "driver/driver.h"
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
    const char *manifest;
    Signatures signatures;
    moec_kernel *kernels;
};

/* ---- call.c ---- */

/* The extents of parameter i, a tensor (MAX_RANK places); 0 on overflow or without memory. */
int call_shape(const moec_kernel *k, size_t i, const int64_t *dims, int64_t *shape);

#endif
