/* The insides of a compiled module, for the files of the public API. */
#ifndef DRIVER_MODULE_H
#define DRIVER_MODULE_H

#include "driver/driver.h"
#include "driver/reference.h"
#include "driver/signature.h"

typedef int64_t WorkspaceEntry(const int64_t *dims);
/* A call with the arguments of the uniform entry. */
typedef int KernelRun(const moec_kernel *k, moe_ctx *ctx, const int64_t *dims, void *const *args);

struct moec_kernel {
    const moec_module *module;
    const SigKernel *sig;
    void *function;
    moe_entry *entry;
    WorkspaceEntry *workspace;
    KernelRun *run;   /* compiled code or the interpreter; NULL: there is no code */
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

/* ---- api.c ---- */

/* moec_compile_text() with any options of a compilation. */
int module_compile(moec_context *c, const CompileOptions *o, int interpret, const char *name, Bytes text,
                   moec_module **out);
/* Begins a call of the API: c->last is new, with these options. `missing` names an argument that is NULL and must not be;
 * NULL: all are there. A DriverStatus. */
int api_begin(moec_context *c, const moec_options *o, const char *missing);
Compilation *api_compilation(moec_context *c); /* the one that api_begin() made */
/* The same of a call about `w`, whose result goes to `out`, an argument of this name; then reads w's text or file. */
int api_begin_work(moec_context *c, const moec_work *w, const moec_options *o, const void *out, const char *name);
int api_read_work(moec_context *c, const moec_work *w);
/* The call failed with this text, which is printed already; returns status. */
int api_fail(moec_context *c, int status, const char *text);

/* ---- call.c ---- */

/* Both fill the context, which may be NULL, and return the status, the second one MOE_ARGUMENT. */
int call_refuse(moe_ctx *ctx, int status, const char *text);
int refuse_argument(moe_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* run of compiled code. */
int call_entry(const moec_kernel *k, moe_ctx *ctx, const int64_t *dims, void *const *args);
/* moec_kernel_call; dims[] has sizes that are known beside the tensors' shapes, below 0 for others (NULL: none is). */
int call_tensors(const moec_kernel *k, moe_ctx *ctx, const moec_arg *args, size_t n, const int64_t *dims);
/* Is the tensor one that parameter i takes, but for its sizes? */
int call_check_tensor(const moec_kernel *k, moe_ctx *ctx, uint32_t i, const DLTensor *t);
int call_is_dense(const DLTensor *t);
/* NULL, or which argument of a uniform call is missing. */
const char *call_missing(const moec_kernel *k, const int64_t *dims, void *const *args);

/* ---- solve.c ---- */

enum { ROUTE_SIZES = 4 }; /* tokens, choices, groups, rows: what moe_route begins with */

/* What is known of a call's sizes. */
typedef struct SizeSolver {
    const moec_kernel *k;
    moe_ctx *ctx;                 /* or NULL */
    const int64_t *const *shapes; /* by parameter: its extents, of a route its sizes; NULL: not known */
    int64_t *sizes;               /* by dimension of the module; -1: not known */
} SizeSolver;

uint32_t param_rank(const SigParam *p);
const SigExtent *param_extent(const moec_kernel *k, const SigParam *p, uint32_t axis);
int extent_value(const SigExtent *e, const int64_t *sizes, int64_t *value); /* 0: a size is not known, or overflow */
/* sizes[], by dimension of the module: constants, and the kernel's dims[] where they are not negative (NULL: none). */
void solve_begin(const moec_kernel *k, const int64_t *dims, int64_t *sizes);
/* Fills in all sizes that the shapes determine; refuses shapes that contradict them or each other. */
int solve_sizes(const SizeSolver *s);

/* ---- api_params.c ---- */

/* The extents of parameter i (MAX_RANK places); 0 if there is no such one, on overflow or without memory. */
int call_shape(const moec_kernel *k, size_t i, const int64_t *dims, int64_t *shape);

#endif
