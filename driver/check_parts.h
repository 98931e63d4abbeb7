/* Shared by the files of the test engine: data (check_data.c, check_route.c), calls and comparison (check_run.c),
 * gradients (check_grad.c), compiling (check_load.c), `moec test` (check.c), `moec run` (check_once.c). Private to
 * driver/. */
#ifndef DRIVER_CHECK_PARTS_H
#define DRIVER_CHECK_PARTS_H

#include "driver/check.h"
#include "driver/element.h"
#include "driver/driver.h"
#include "driver/emulate.h"
#include "driver/reference.h"
#include "moec/moert.h"

/* One file under test. */
typedef struct Check {
    const CheckOptions *o;
    FILE *out;
    Compilation *c;                /* read and derived: signatures, tests */
    Reference reference;           /* what the interpreter runs */
    Compilation *for_jit, *for_so; /* own what the code below needs */
    Loaded jit, so;
    int has_so;
    unsigned runs, failed;
    /* of `moec run` and `moec report`: see check_take_run() */
    const Kernel *k;
    int64_t *dims; /* by DimId */
    TestRun run;
} Check;

/* One parameter of a call: a tensor as doubles that its element type can hold, or a route. */
typedef struct CheckValue {
    double *data;
    int64_t count; /* elements */
    EvalRoute route;
} CheckValue;

/* A kernel, its sizes and what goes in. values: by parameter. Everything lives in the arena of the case. */
typedef struct CheckCase {
    Arena *arena;
    const Kernel *k;
    const Reference *reference;
    const int64_t *dims; /* by DimId */
    const TestRun *run;  /* routings; NULL: uniform */
    Random random;
    int positive;   /* floats are positive: for kernels that take roots and logarithms */
    int unrounded;  /* floats as drawn, so that no two of a 16-bit type are equal: for finite differences */
    int64_t shrink; /* i32 parameters stay below their extent / shrink; at least 1 */
    const CheckValue *given; /* NULL, or by parameter: what is not random (data or route set) */
    CheckValue *values;
} CheckCase;

/* Where compiled code comes from, and how it is called. */
typedef struct CheckTarget {
    const Loaded *code;
    int threads;                /* as in moe_ctx */
    int dirty;                  /* call a second time with the work space full of NaN */
    const Emulation *emulation; /* NULL, or code is a plan's, which is run in this mode */
    EmulateMode mode;
} CheckTarget;

/* What a call left behind. by parameter: the typed bytes of tensors, the routes. */
typedef struct CheckResult {
    int status;
    const char *failure; /* NULL, or a broken canary, a changed input ... */
    const char *message; /* the context's text */
    unsigned char **bytes;
    moe_route *routes;
} CheckResult;

/* The reference. bounds: by parameter, NULL entries where exact. */
typedef struct CheckReference {
    const char *error;
    double **data;
    double **bounds;
    EvalRoute *routes;
} CheckReference;

/* ---- check_load.c ---- */

/* What is compiled: nothing; the one kernel that is asked for, by the JIT; everything, by the JIT and into a .so. */
typedef enum CheckCode { CODE_NONE, CODE_OF_KERNEL, CODE_ALL } CheckCode;
/* Reads and compiles the file; prints what is wrong. A DriverStatus; check_unload() in either case. */
int check_load(Check *check, const char *path, CheckCode code);
void check_unload(Check *check);

/* ---- check.c ---- */

CheckCase check_new_case(const Check *check, Arena *a, const Kernel *k, const int64_t *dims,
                         const TestRun *run);
/* Random inputs that the kernel accepts, if there are any, and the reference on them. NULL, or an error text. */
const char *check_find_inputs(CheckCase *c, int with_bounds, CheckReference *r);
int64_t *check_default_sizes(const Module *m, Arena *a); /* by DimId */

/* ---- check_once.c ---- */

/* The kernel, sizes and routings that the command line asks for: fills check->k, dims and run, or prints what is wrong.
 * A DriverStatus. */
int check_take_run(Check *check);

/* ---- check_data.c ---- */

int64_t check_extent_value(const CheckCase *c, Extent e);    /* -1 on overflow */
const Tensor *check_tensor(const Kernel *k, uint32_t param); /* NULL: a route */
int64_t check_elements(const CheckCase *c, const Tensor *t);
/* Fills c->values with random inputs; outputs get memory full of NaN. NULL, or which sizes are out of reach. */
const char *check_fill(CheckCase *c);
/* One tensor's random values. */
void check_random(CheckCase *c, const Tensor *t, double *data, int64_t count);

/* ---- check_route.c ---- */

/* Random choices [T, K] over E groups by the routings of the case; -1 where dropped. */
void check_choices(CheckCase *c, int64_t tokens, int64_t choices, int64_t groups, double *out);
/* A random route parameter, or room for one. */
EvalRoute check_route(CheckCase *c, const Route *r);
EvalRoute check_route_room(CheckCase *c, const Route *r);
const char *check_routing_text(const TestRun *run, Arena *a);

/* ---- check_run.c ---- */

CheckReference check_reference(const CheckCase *c, EvalMode mode, int with_bounds);
CheckResult check_call(const CheckCase *c, const CheckTarget *t);
typedef struct CheckScore {
    double worst;     /* the largest error in units of its bound, or of a gradient */
    int64_t elements; /* all that were looked at; of them prove nothing: */
    int64_t doubt;    /* those without a finite bound */
    int64_t nan;      /* those that the reference says are NaN */
    int64_t turned;   /* integers in doubt that differ: choices that fell the other way */
} CheckScore;

/* NULL, or the first bad element. */
const char *check_compare(const CheckCase *c, const CheckReference *want, const CheckResult *got,
                          double tolerance, CheckScore *score);
/* NULL, or the first element whose bits differ. */
const char *check_same(const CheckCase *c, const CheckResult *a, const CheckResult *b);

/* ---- check_grad.c ---- */

uint32_t check_param_named(const Kernel *k, const char *name); /* NONE */
/* Inputs of a derived kernel from those of its origin, by name; saved values from a run of the forward in `mode`.
 * NULL or an error text. */
const char *check_fill_derived(CheckCase *derived, const CheckCase *origin, const Derive *d, EvalMode mode);
/* NULL, or what differs; *worst: the largest relative error of a gradient against finite differences. */
const char *check_gradient(CheckCase *origin, const Derive *d, double *worst);

#endif
