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
    const char *tuned_for; /* what calls will be like: "T=2048,H=1024,routing=zipf(1.2)". A schedule that was tuned for that is taken, where
                              neither the file nor `schedule` gives one (docs/tuning.md). NULL: none is looked for */
    int tuned_threads;     /* and on how many threads; 0: 1 */
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
/* Bytes, for as many threads as OpenMP would take. -1: a call refuses the dimensions (negative, too large, against their rules), the
 * work space would be out of range, or there is no code. */
int64_t moec_kernel_workspace(const moec_kernel *k, const int64_t *dims);

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
    int64_t wrong;     /* elements beyond their bound, and routes; */
    int64_t mischosen; /* of them integers: choices that differ, and no tie explains it */
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

/* ---- measuring (docs/tuning.md) ----
 *
 * What is measured is a case: a kernel at sizes, on random data. Of the options all count but interpret, no_cache and
 * cache_dir: code of cases is not cached. */
typedef struct moec_work { /* zero-initialise */
    const char *path;    /* the .moe file; with a text: its name in messages, and where `use` looks */
    const char *text;    /* NULL: that of the file */
    const char *kernel;  /* NULL: the file's first */
    const char *sizes;   /* "T=2048, H=1024": each dimension that the kernel takes */
    const char *routing; /* "zipf(1.2), empty(40%)", in the words of a `test` block; NULL: uniform */
    uint64_t seed;       /* of data and routes: the same seed, the same case */
    int threads;         /* as in moe_ctx */
} moec_work;

typedef struct moec_case moec_case;

/* Compiles the kernel and makes its arguments. Belongs to the process that makes it, even if that was forked; a process whose
 * parent has started threads of OpenMP hangs in its first call. Returns as moec_compile_file() does. */
int moec_case_new(moec_context *c, const moec_work *w, const moec_options *o, moec_case **out);
void moec_case_free(moec_case *k);
const char *moec_case_text(const moec_case *k);   /* "ffn T=2048 K=2, zipf(1.2)"; NULL: there is no case */
const char *moec_case_target(const moec_case *k); /* the instruction set of its code, "avx512"; NULL likewise */
/* Of all parameters that a call reads or writes, `inout` twice; of what is packed both ways the copies that are read, and of elements at
 * computed places no more than there are places; -1: no case. */
int64_t moec_case_bytes(const moec_case *k);
int64_t moec_case_read_bytes(const moec_case *k); /* of those that it reads; -1 likewise */
/* Calls the kernel so often, and returns the seconds of all calls together; below 0: a call failed, or there is no case. A
 * moec_timer. On one thread these are seconds in which the thread had a core: what other programs take does not count. */
double moec_case_time(void *k, int calls);
/* Why the last call failed, "" if it did not. Never NULL. */
const char *moec_case_error(const moec_case *k);
/* Compares compiled code with the interpreter as moec_kernel_check() does, at sizes that are smaller where the interpreter
 * would take more than about a second; *sizes (may be NULL) says which. Returns 0, or 1 with moec_case_error(). */
int moec_case_check(moec_case *k, moec_score *score, const char **sizes);
/* A hash of the bits of all results of one call on the case's data, 32 digits: cases whose code computes the same bits have the
 * same. NULL: the call failed. */
const char *moec_case_digest(moec_case *k);

/* What the machine's model says of a case; it runs no kernel. options.machine: NULL: this CPU. */
typedef struct moec_prediction {
    double seconds;
    double flops_16bit, flops; /* operations of a call: of products of 16-bit operands; and of others */
} moec_prediction;
int moec_predict(moec_context *c, const moec_work *w, const moec_options *o, moec_prediction *out);

/* Seconds that so many calls took together; below 0: they failed. */
typedef double moec_timer(void *user, int calls);

/* Something that is timed. Zero-initialise what moec_measure() fills in. */
typedef struct moec_runner {
    moec_timer *time;
    void *user;
    int left_out;    /* 1: it takes no part in the rounds */
    double *samples; /* seconds of one call in each round: the caller's room for moec_patience.most numbers */
    /* filled in: */
    size_t rounds;
    double first;    /* seconds of a call before the rounds; 0: not tried yet */
    int calls;       /* of one sample: about 5 ms */
} moec_runner;

/* How long to go on: `fewest` rounds and `seconds`, but no more than `most` rounds nor 4 * `seconds` (then at least 3 rounds). */
typedef struct moec_patience {
    size_t fewest, most;
    double seconds;
    double pause; /* seconds before each sample, so that threads of others stop spinning */
} moec_patience;

/* Calls each runner that was not tried twice, to warm up and to see how many calls make a sample. Returns 0, or 1 + the number of
 * the first runner that failed. */
int moec_warm_up(moec_runner *r, size_t n, const moec_patience *p);
/* Likewise; then the runners take turns, round after round and each round in another order, so that a machine that drifts drifts
 * for all of them, and none always follows the same one. */
int moec_measure(moec_runner *r, size_t n, const moec_patience *p);

/* Of samples or ratios. n 0: all are NaN. */
typedef struct moec_spread {
    double least, lower, median, upper, most; /* with quartiles */
} moec_spread;
moec_spread moec_spread_of(const double *values, size_t n);
/* How many times as long a takes as b, from n rounds in which they took turns: the median of the ratios, and the interval
 * in which the true median is with at least this confidence (0.95), whatever the noise looks like: order statistics of the
 * ratios, by the binomial distribution of their signs. With few rounds there is none: low is 0, high infinite. */
typedef struct moec_ratio {
    double low, ratio, high;
} moec_ratio;
moec_ratio moec_compare(const double *a, const double *b, size_t n, double confidence);

/* Limits of this machine, as things that are timed beside a case: how long its work takes at least. */
typedef struct moec_limit moec_limit;
typedef enum moec_limit_kind {
    MOEC_LIMIT_16BIT, /* flops by multiply-adds of 16-bit operands in registers */
    MOEC_LIMIT_F32,   /* flops by multiply-adds of f32 in registers */
    MOEC_LIMIT_READ   /* bytes read from memory */
} moec_limit_kind;
/* work: flops or bytes. threads: 0: one for each core; below 0: -threads. At most 256. NULL: there is no such loop for the
 * instruction set (NULL: that of this CPU), or no memory. */
moec_limit *moec_limit_new(moec_limit_kind kind, const char *target, double work, int threads);
void moec_limit_free(moec_limit *l);
double moec_limit_time(void *l, int calls); /* a moec_timer */

/* ---- the space of schedules ---- */

/* JSON with the kernel's knobs: clauses with their legal values, the present one first, without those of more threads than
 * w->threads says. Lives until the context's next call. w->sizes is not looked at. */
int moec_space(moec_context *c, const moec_work *w, const moec_options *o, const char **json);
/* A hash of what is decided with these options: schedules that come to the same program have the same. 33 characters. Fails
 * when the kernel does not fit the machine. w->sizes is not looked at. */
int moec_decide(moec_context *c, const moec_work *w, const moec_options *o, char *digest);

/* ---- records of what was tuned ----
 *
 * A database in the file that $MOE_TUNED names, else tuned.db in the folder of the compile cache. MOE_TUNED=off: none is read. */
typedef enum moec_record_state {
    MOEC_TRIED,  /* it was measured, and did not win */
    MOEC_BEST,   /* it won against the default */
    MOEC_KEPT,   /* the default, which nothing beat: schedule is "" */
    MOEC_FAILED, /* it crashed, hung, or a call failed */
    MOEC_WRONG   /* its results are not what they should be */
} moec_record_state;

typedef struct moec_record { /* texts: "" where there is none; numbers: NaN where they are not known */
    int64_t id;
    const char *content, *kernel;           /* a hash of the program; the kernel's name */
    const char *target, *machine, *build;   /* instruction set; kind of CPU, or the machine whose model judged; compiler's build */
    const char *sizes, *routing;            /* "T=2048 K=2", "zipf(1.2)" */
    const char *schedule, *why;             /* why: of those that failed */
    int threads;
    moec_record_state state;
    double seconds, default_seconds;        /* medians of a call */
    double ratio, low, high;                /* as moec_ratio: of its time to the default's */
    double predicted;                       /* seconds, by the model */
    int64_t rounds, made;                   /* made: seconds since 1970 */
} moec_record;

typedef struct moec_records moec_records;
/* path NULL: see above. write: it is made when it is missing. Returns as moec_compile_file() does; an error also if there is no file to
 * read, or it is of another version. */
int moec_records_open(moec_context *c, const char *path, int write, moec_records **out);
void moec_records_close(moec_records *r);
/* The path that NULL stands for, whether there is such a file or not; NULL: there is none. Lives until the context's next call. */
const char *moec_records_default(moec_context *c);
const char *moec_records_path(const moec_records *r); /* NULL: there are none */
/* These return 0, or 1 with moec_records_error(). id is not looked at, and texts that are NULL are "". */
int moec_records_add(moec_records *r, const moec_record *record);
/* Calls f with each, in the order in which they were made, until it returns 1. Texts live until then. */
int moec_records_each(moec_records *r, int (*f)(void *user, const moec_record *record), void *user);
/* Removes those made before that time, and those of other builds than `build` (NULL: of none); *removed (may be NULL) says how many. */
int moec_records_prune(moec_records *r, const char *build, int64_t before, int64_t *removed);
const char *moec_records_error(const moec_records *r); /* never NULL */
/* What names a case in records: content, kernel, target, machine, build, sizes, routing, threads; the rest is zero. Texts live until the
 * context's next call. */
int moec_records_name(moec_context *c, const moec_work *w, const moec_options *o, moec_record *out);

#ifdef __cplusplus
}
#endif
#endif
