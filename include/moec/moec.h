/* libmoec: compile .moe text, get callable kernels. C11 and C++.
 *
 * No global state; a context may be used by one thread at a time, different contexts by different threads. No call
 * exits or prints. Functions that return int give 0 on success, 1 for an error of the input, 3 for an internal
 * error; the texts are in the context until its next call.
 *
 * A pointer that is NULL where none may be, and a number of a parameter or dimension that does not exist, are errors
 * like others: such a call returns an error or a moe_status, with text if there is a context for it, or what the
 * function gives for "none" (NULL, 0, -1). */
#ifndef MOEC_MOEC_H
#define MOEC_MOEC_H

#include <dlpack/dlpack.h>
#include "moec/moert.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct moec_context moec_context;
typedef struct moec_module moec_module;
typedef struct moec_kernel moec_kernel;

typedef struct moec_options { /* zero-initialise; NULL means all defaults */
    const char *target;    /* instruction sets, comma separated: "host" (default), "all", "avx2,avx512" */
    int no_optimize;       /* 1: no fusion (-O0) */
    int debug;             /* 1: DWARF lines */
    int no_cache;          /* 1: neither read nor write the compile cache */
    const char *cache_dir; /* holds the cache's folder; NULL: $MOEC_CACHE, else $XDG_CACHE_HOME/moec, else ~/.cache/moec */
    int interpret;         /* 1: no machine code: entries are NULL, kernels run by moec_kernel_interpret and _call */
    const char *schedule;  /* .moe text of `schedule` blocks; a kernel that they name keeps none of the file's own */
    const char *machine;   /* whose blocks are taken: a name that `moec machines` lists, or the path of a description; NULL: the host */
    uint64_t schedule_seed; /* draws every knob that no schedule fixes from its space; 0: the usual values */
} moec_options;

moec_context *moec_context_new(void); /* NULL when memory is exhausted */
void moec_context_free(moec_context *c);
/* Errors of the last call: as text for people, as JSON for programs. Never NULL. */
const char *moec_error_text(const moec_context *c);
const char *moec_error_json(const moec_context *c);

/* Compiles for this process. `name` is used in messages and to resolve `use`, NULL: there is none. The module outlives
 * the context. */
int moec_compile_text(moec_context *c, const char *name, const char *text, size_t len, const moec_options *o,
                      moec_module **out);
int moec_compile_file(moec_context *c, const char *path, const moec_options *o, moec_module **out);
void moec_module_free(moec_module *m);
const char *moec_module_manifest(const moec_module *m); /* JSON: kernels, parameters, dimensions, rules */

const moec_kernel *moec_module_kernel(const moec_module *m, const char *name); /* NULL when there is none */

/* What a kernel takes. MOEC_NONE: there is no such parameter. */
typedef enum moec_param_kind { MOEC_NONE = -1, MOEC_TENSOR, MOEC_SCALAR, MOEC_ROUTE } moec_param_kind;
size_t moec_kernel_params(const moec_kernel *k);
size_t moec_kernel_dims(const moec_kernel *k);
const char *moec_kernel_dim_name(const moec_kernel *k, size_t i);
const char *moec_kernel_param_name(const moec_kernel *k, size_t i);
moec_param_kind moec_kernel_param_kind(const moec_kernel *k, size_t i);
/* Elements of parameter i (a tensor or scalar) for given dimensions, -1 on overflow. */
int64_t moec_kernel_param_elements(const moec_kernel *k, size_t i, const int64_t *dims);
/* Bytes of its memory: of a packed tensor those of header and padding too. -1 on overflow. */
int64_t moec_kernel_param_bytes(const moec_kernel *k, size_t i, const int64_t *dims);

/* Packed parameters (language page, section 11). Both return a moe_status: MOE_ARGUMENT when parameter i is not
 * packed, MOE_PACKED when `packed` is not its memory at these dimensions. */
int moec_kernel_param_packed(const moec_kernel *k, size_t i); /* 1: it is */
int moec_kernel_pack(const moec_kernel *k, size_t i, const int64_t *dims, const void *row_major, void *packed);
int moec_kernel_unpack(const moec_kernel *k, size_t i, const int64_t *dims, const void *packed, void *row_major);

/* The C function of the generated header, to be cast to its type; and its uniform form. */
void *moec_kernel_function(const moec_kernel *k);
moe_entry *moec_kernel_entry(const moec_kernel *k);
int64_t moec_kernel_workspace(const moec_kernel *k, const int64_t *dims); /* bytes; -1: out of range */

/* Runs the reference interpreter (language page, section 5) on the arguments of the uniform entry; for modules
 * compiled with options.interpret. Slow, single-threaded. Returns a moe_status, the text is in ctx. */
int moec_kernel_interpret(const moec_kernel *k, moe_ctx *ctx, const int64_t *dims, void *const *args);

/* How far compiled code is from the interpreter. Elements in doubt hang on a choice (of `top`, a comparison) that is
 * within rounding of a tie: either way is right, so they have no bound. */
typedef struct moec_score {
    double worst;      /* the largest difference, in units of its bound */
    int64_t compared;  /* elements of outputs */
    int64_t doubtful;  /* those of them that are in doubt */
    int64_t flipped;   /* those of the doubtful ones that are integers and differ: choices that fell the other way */
} moec_score;

/* Calls compiled code and the interpreter, both on copies of the arguments of the uniform entry, and compares what they
 * write: each element within the error bound that the interpreter carries (language page, section 5). `interpreted` is
 * the same kernel of a module compiled with options.interpret. Adds to *score. Returns 0, or 1 with the first wrong
 * element, or why nothing was compared, as the text of ctx. */
int moec_kernel_check(const moec_kernel *compiled, const moec_kernel *interpreted, moe_ctx *ctx, const int64_t *dims,
                      void *const *args, moec_score *score);

/* One argument of moec_kernel_call. */
typedef struct moec_arg {
    moec_param_kind kind;
    /* MOEC_TENSOR: CPU, the parameter's type and rank, row-major; `out` scalars: rank 0. Of a packed parameter: its
     * shape, no strides or those of row-major memory, and data that points to packed memory. */
    const DLTensor *tensor;
    moe_route *route;       /* MOEC_ROUTE */
    double scalar;          /* MOEC_SCALAR: an `in` scalar, converted */
} moec_arg;

/* Takes the dimensions from the tensors' shapes and the routes, checks them, calls. Returns a moe_status; the text
 * of a refusal is in ctx (which may be NULL). A strided tensor is refused by name. */
int moec_kernel_call(const moec_kernel *k, moe_ctx *ctx, const moec_arg *args, size_t n);

#ifdef __cplusplus
}
#endif
#endif
