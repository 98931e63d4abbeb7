/* SPDX-License-Identifier: Apache-2.0 */
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
    const char *types;     /* element types instead of those of `type` declarations, comma separated: "act=f32" */
    const char *derive;    /* .moe text of `derive` blocks, besides those of the file */
    const char *kernels;   /* comma separated: code is made of these only, of the others there is the signature; NULL: of all */
    int jit_names;         /* 1: perf (by /tmp/perf-PID.map) and gdb know the functions of JIT code; so they do if $MOEC_JIT_NAMES is 1 */
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
const char *moec_module_manifest(const moec_module *m); /* JSON: kernels, parameters, dimensions, rules, pairs */

const moec_kernel *moec_module_kernel(const moec_module *m, const char *name); /* NULL when there is none */

/* What a kernel takes. MOEC_NONE: there is no such parameter. */
typedef enum moec_param_kind { MOEC_NONE = -1, MOEC_TENSOR, MOEC_SCALAR, MOEC_ROUTE } moec_param_kind;
size_t moec_kernel_params(const moec_kernel *k);
size_t moec_kernel_dims(const moec_kernel *k);
const char *moec_kernel_dim_name(const moec_kernel *k, size_t i);
const char *moec_kernel_param_name(const moec_kernel *k, size_t i);
moec_param_kind moec_kernel_param_kind(const moec_kernel *k, size_t i);
size_t moec_kernel_param_index(const moec_kernel *k, const char *name); /* (size_t)-1: there is none */

typedef enum moec_role { MOEC_IN, MOEC_OUT, MOEC_INOUT } moec_role;
typedef enum moec_type { MOEC_F32, MOEC_BF16, MOEC_F16, MOEC_I32 } moec_type;
enum { MOEC_MAX_RANK = 8 };
moec_role moec_kernel_param_role(const moec_kernel *k, size_t i);
moec_type moec_kernel_param_type(const moec_kernel *k, size_t i); /* of a tensor or scalar */
int moec_kernel_param_rank(const moec_kernel *k, size_t i);       /* of a scalar 0, of a route 4; -1: there is none */
/* The rank extents of parameter i for given dimensions; of a route: tokens, choices, groups, rows. Returns 0, or 1 when
 * there is no such parameter or on overflow. */
int moec_kernel_param_shape(const moec_kernel *k, size_t i, const int64_t *dims, int64_t *shape);
/* Does the kernel read a value that the caller gives it in parameter i? 0 for an `out`, and for an `in` of which only the
 * shape matters, as of many inputs of a backward kernel: the pointer to such a tensor may be NULL, and its memory may be
 * that of an `out`. */
int moec_kernel_param_read(const moec_kernel *k, size_t i);
/* Finds dimensions. shapes[i] has the extents of parameter i, as moec_kernel_param_shape gives them; NULL: they are not
 * known. dims[] has on entry the dimensions that are known, below 0 for others, and afterwards also those that the shapes
 * determine. Returns a moe_status: MOE_ARGUMENT when the shapes contradict each other or dims; the text is in ctx (which
 * may be NULL). */
int moec_kernel_solve_dims(const moec_kernel *k, moe_ctx *ctx, const int64_t *const *shapes, int64_t *dims);

/* Elements of parameter i (a tensor or scalar) for given dimensions, -1 on overflow. */
int64_t moec_kernel_param_elements(const moec_kernel *k, size_t i, const int64_t *dims);
/* Bytes of its memory: of a packed tensor those of header and padding too. -1 on overflow. */
int64_t moec_kernel_param_bytes(const moec_kernel *k, size_t i, const int64_t *dims);

/* A group of processes that each call the kernel, with tensors of their own. The place of a parameter says what theirs are
 * together: all have the same; each has a part of axis 0, 1 ..., one behind the other (of a route: of its tokens, 0); or the sum of
 * theirs is meant. */
enum {
    MOEC_WHOLE = -1,
    MOEC_SUM = -2,
    MOEC_ANY = -3 /* of an `inout`: unknown before the call, what the call adds decides */
};
/* places[] by parameter: on entry those of `in` and `inout`, afterwards of all, so that the results together are those of one
 * call with all parts, but for rounding. Follows from the equations, so it needs a module that was compiled with
 * options.interpret. MOE_ARGUMENT when no placement of the results is right; the text in ctx (which may be NULL) says which
 * equation is in the way. */
int moec_kernel_place(const moec_kernel *k, moe_ctx *ctx, int *places);

/* Packed parameters (language page, section 11). Both return a moe_status: MOE_ARGUMENT when parameter i is not
 * packed, MOE_PACKED when `packed` is not its memory at these dimensions. */
int moec_kernel_param_packed(const moec_kernel *k, size_t i); /* 1: it is; 2: it is `packed both` */
int moec_kernel_pack(const moec_kernel *k, size_t i, const int64_t *dims, const void *row_major, void *packed);
int moec_kernel_unpack(const moec_kernel *k, size_t i, const int64_t *dims, const void *packed, void *row_major);

/* What each `derive` of the program made: a pair of kernels, or three where the second backward kernel, `later`, stands
 * alone. All other `in` parameters of a backward kernel are those of the forward under the same names. An element that
 * does not exist is all NULL and 0. */
typedef enum moec_mode {
    MOEC_WRITE,     /* the gradient has its input's type: summed in f32, rounded once */
    MOEC_WRITE_F32, /* it is f32 and not rounded */
    MOEC_ADD,       /* it is f32 and added to */
    MOEC_PASS       /* it is the cotangent of one output, unchanged: there is no parameter for it */
} moec_mode;
typedef struct moec_pair {
    const char *from, *forward, *backward, *later;  /* kernels; later NULL: there is one backward kernel */
    size_t saved, cotangents, gradients, handed;    /* how many of each */
} moec_pair;
typedef struct moec_saved {
    const char *local, *param; /* param: an `out` of the forward, an `in` of the backward kernels */
    const char *type;          /* as `derive` says it: maybe the name of a `type` */
} moec_saved;
typedef struct moec_cotangent {
    const char *output, *param; /* of the program's kernel, and an `in` of the backward kernels */
} moec_cotangent;
typedef struct moec_gradient {
    const char *input;  /* of the program's kernel */
    const char *param;  /* `out` or `inout` of a backward kernel; NULL of MOEC_PASS */
    const char *output; /* of MOEC_PASS: whose cotangent it is; else NULL */
    moec_mode mode;
    int later;          /* 1: the kernel `later` makes it */
} moec_gradient;
size_t moec_module_pairs(const moec_module *m);
moec_pair moec_module_pair(const moec_module *m, size_t pair);
moec_saved moec_module_saved(const moec_module *m, size_t pair, size_t i);
moec_cotangent moec_module_cotangent(const moec_module *m, size_t pair, size_t i);
moec_gradient moec_module_gradient(const moec_module *m, size_t pair, size_t i);
/* A parameter that `backward` writes and `later` reads. NULL: there is none. */
const char *moec_module_handed(const moec_module *m, size_t pair, size_t i);

/* The C function of the generated header, to be cast to its type; and its uniform form. NULL: options.kernels does not
 * name the kernel, or the module is one to interpret. */
void *moec_kernel_function(const moec_kernel *k);
moe_entry *moec_kernel_entry(const moec_kernel *k);
int64_t moec_kernel_workspace(const moec_kernel *k, const int64_t *dims); /* bytes, for as many threads as OpenMP would take; -1: out of range, or no code */

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
