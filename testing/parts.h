/* Shared by the files of the test engine: data (testing/data.c, testing/route.c), what an entry takes (testing/arguments.c), calls
 * and comparison (testing/run.c), gradients (testing/grad.c), compiling (testing/load.c), `moec test` (file.c), `moec run`
 * (testing/once.c). Private to testing/. */
#ifndef TESTING_PARTS_H
#define TESTING_PARTS_H

#include "testing/testing.h"
#include "driver/element.h"
#include "driver/driver.h"
#include "driver/pack.h"
#include "testing/emulate.h"
#include "emulator/simulate.h"
#include "driver/reference.h"
#include "moec/moec.h"

/* The code for one more instruction set. */
typedef struct TestOther {
    const char *name;
    Compilation *c; /* owns what the code needs */
    Loaded code;
} TestOther;

/* One file under test. */
typedef struct TestFile {
    const TestOptions *o;
    FILE *out, *errors; /* those of `moec test` are lines of its report */
    Compilation *c;                /* read and derived: signatures, tests */
    Reference reference;           /* what the interpreter runs */
    Compilation *for_jit, *for_so; /* own what the code below needs; for_so NULL: the .so is of the JIT's object, or there is none */
    Loaded jit, so;
    int has_so;
    TestOther others[ISA_COUNT];
    uint32_t other_count;
    unsigned runs, failed;
    /* of `moec run` and `moec report`: see test_take_run() */
    const Kernel *k;
    int64_t *dims; /* by DimId */
    TestRun run;
} TestFile;

/* One parameter of a call: a tensor as doubles that its element type can hold, or a route. */
typedef struct TestValue {
    double *data;
    int64_t count; /* elements */
    EvalRoute route;
} TestValue;

/* A kernel, its sizes and what goes in. values: by parameter. Everything lives in the arena of the case. */
typedef struct TestCase {
    Arena *arena;
    const Kernel *k;
    const Reference *reference;
    const int64_t *dims; /* by DimId */
    const TestRun *run;  /* routings; NULL: uniform */
    Random random;
    int positive;   /* floats are positive: for kernels that take roots and logarithms */
    int unrounded;  /* floats as drawn, so that no two of a 16-bit type are equal: for finite differences */
    int64_t shrink; /* i32 parameters stay below their extent / shrink; at least 1 */
    const TestValue *given; /* NULL, or by parameter: what is not random (data or route set) */
    TestValue *values;
} TestCase;

/* ---- testing/fence.c ---- */

/* Where a block of memory stands between two pages that nobody may touch. */
typedef enum FencePlace {
    FENCE_NONE,   /* between canaries, at an address that is a multiple of its alignment and of nothing larger */
    FENCE_AFTER,  /* ends where a page ends */
    FENCE_BEFORE, /* begins where a page begins */
} FencePlace;

enum { FENCE_CANARY = 256, FENCE_BYTE = 0xA5 };
typedef struct Fenced {
    unsigned char *at; /* the block; beside it FENCE_BYTEs */
    size_t bytes;
    unsigned char *low, *high; /* page boundaries: [low, high) is the block and its canaries */
    const char *name;
} Fenced;
Fenced fenced_memory(Arena *a, size_t bytes, size_t align, FencePlace place);
int fenced_is_intact(const Fenced *f); /* are all canaries? */

/* Between raising and lowering, one at a time, an access to a page beside a block ends the process with a message. */
typedef struct Fence {
    const char *kernel;
    const Fenced *memory;
    uint32_t n;
} Fence;
void fence_raise(const Fence *fence);
void fence_lower(const Fence *fence);

/* Where compiled code comes from, and how it is called. */
typedef struct TestTarget {
    const Loaded *code;
    int threads;                /* as in moe_ctx */
    int strict;                 /* called twice: with memory that ends at fences; then with memory that begins at fences, in a
                                   work space full of NaN */
    const Emulation *emulation; /* NULL, or code is a plan's, which is run in this mode */
    EmulateMode mode;
} TestTarget;

/* What a call left behind. by parameter: the typed bytes of tensors, the routes. */
typedef struct TestResult {
    int status;
    const char *failure; /* NULL, or a broken canary, a changed input ... */
    const char *message; /* the context's text */
    unsigned char **bytes;
    moe_route *routes;
    double seconds; /* of the call */
} TestResult;

/* The reference. bounds: by parameter, NULL entries where exact. */
typedef struct TestReference {
    const char *error;
    double **data;
    double **bounds;
    EvalRoute *routes;
} TestReference;

/* ---- testing/load.c ---- */

/* What is compiled: nothing; the one kernel that is asked for, by the JIT; everything, by the JIT and into a .so. */
typedef enum TestCode { CODE_NONE, CODE_OF_KERNEL, CODE_ALL } TestCode;
/* Reads and compiles the file; prints what is wrong. A DriverStatus; test_unload() in either case. */
int test_load(TestFile *file, const char *path, TestCode code);
typedef const char *TestWork(TestFile *file, void *user); /* NULL, or an error text */
/* Does the work under a landing place of file->c, and prints its error, or why it landed there. A DriverStatus. */
int test_guard(TestFile *file, TestWork *work, void *user);
/* The kernel's entry in the code. NULL, or an error text. */
const char *test_entry(const Loaded *code, const Kernel *k, Arena *a, moe_entry **entry);
void test_unload(TestFile *file);

/* ---- file.c ---- */

TestCase test_new_case(const TestFile *file, Arena *a, const Kernel *k, const int64_t *dims,
                         const TestRun *run);
/* Random inputs that the kernel accepts, if there are any, and the reference on them. NULL, or an error text. */
const char *test_find_inputs(TestCase *c, int with_bounds, TestReference *r);
int64_t *test_default_sizes(const Module *m, Arena *a); /* by DimId */

/* ---- testing/once.c ---- */

/* The kernel, sizes and routings that the command line asks for: fills file->k, dims and run, or prints what is wrong.
 * A DriverStatus. */
int test_take_run(TestFile *file);

/* ---- testing/data.c ---- */

int64_t test_extent_value(const TestCase *c, Extent e);    /* -1 on overflow */
const Tensor *test_tensor(const Kernel *k, uint32_t param); /* NULL: a route */
int64_t test_elements(const TestCase *c, const Tensor *t);
/* Fills c->values with random inputs; outputs get memory full of NaN. NULL, or which sizes are out of reach. */
const char *test_fill(TestCase *c);
/* One tensor's random values. */
void test_random(TestCase *c, const Tensor *t, double *data, int64_t count);

/* ---- testing/touched.c ---- */

/* Bytes that a call reads and writes, of a parameter that has so many: of an `inout` both, of an input that is packed both ways the
 * copies that are read, of one matrix for each group those whose group has rows, and of elements at computed places, w[id[t], h], no
 * more than there are places. */
typedef struct TestTouched {
    int64_t read, written;
} TestTouched;
TestTouched test_touched(const TestCase *c, uint32_t param, int64_t bytes);

/* ---- testing/arguments.c ---- */

/* Of a call to the entry: */
PackShape test_pack_shape(const TestCase *c, const Tensor *t);
size_t test_tensor_bytes(const TestCase *c, const Tensor *t, int64_t count); /* of so many elements */
moe_route test_entry_route(const EvalRoute *r);                              /* shares the lists */
int64_t *test_entry_dims(const TestCase *c);                                 /* in c->arena */

/* The arguments of the uniform entry. The case's routes and i32 are filled; floats are zero. */
typedef struct TestArguments {
    TestCase *c;
    void **at;       /* by parameter; of routes &routes[i] */
    size_t *bytes;   /* by parameter: of tensors */
    moe_route *routes;
    int64_t *dims;   /* as the entry takes them */
} TestArguments;
/* NULL, or which sizes are out of reach; test_arguments_free() in either case. */
const char *test_arguments(TestCase *c, TestArguments *out);
/* Random floats into `in` and `inout`, zeros into `out`. The same numbers for the same c->random. */
void test_arguments_fill(TestArguments *args);
void test_arguments_free(TestArguments *args);

/* ---- testing/model.c ---- */

/* What a choice of `top` was drawn as. */
typedef struct TestDrawn {
    Name ids;
    const int32_t *at;
    int64_t n;
} TestDrawn;

/* A call that the cycle model timed, without data. */
typedef struct TestModelled {
    TestArguments args;
    Vec(TestDrawn) drawn;
    const Simulated *simulated;
} TestModelled;
/* Runs the plan of file->k on c, which must be a new case. NULL or an error text; results live in c->arena. */
const char *test_model(TestFile *file, TestCase *c, TestModelled *out);

/* ---- testing/route.c ---- */

/* Random choices [T, K] over E groups by the routings of the case; -1 where dropped. */
void test_choices(TestCase *c, int64_t tokens, int64_t choices, int64_t groups, double *out);
/* A random route parameter, or room for one. */
EvalRoute test_route(TestCase *c, const Route *r);
EvalRoute test_route_room(TestCase *c, const Route *r);
const char *test_routing_text(const TestRun *run, Arena *a);

/* ---- testing/run.c ---- */

TestReference test_reference(const TestCase *c, EvalMode mode, int with_bounds);
TestResult test_call(const TestCase *c, const TestTarget *t);
typedef struct TestScore {
    double worst;     /* the largest error in units of its bound, or of a gradient */
    int64_t elements; /* all that were looked at; of them prove nothing: */
    int64_t doubt;    /* those without a finite bound */
    int64_t nan;      /* those that the reference says are NaN */
    int64_t flipped;  /* integers in doubt that differ: choices that fell the other way */
    int64_t wrong;     /* those beyond their bound; of them integers: */
    int64_t mischosen;
} TestScore;

/* NULL, or the first bad element. */
const char *test_compare(const TestCase *c, const TestReference *want, const TestResult *got,
                          double tolerance, TestScore *score);
/* NULL, or the first element whose bits differ. */
const char *test_same(const TestCase *c, const TestResult *a, const TestResult *b);

/* ---- testing/api_check.c ---- */

void test_add_score(moec_score *to, const TestScore *s);

/* ---- testing/grad.c ---- */

uint32_t test_param_named(const Kernel *k, const char *name); /* NONE */
/* Inputs of a derived kernel from those of its origin, by name; saved values from a run of the forward in `mode`, and of
 * a second backward kernel what a run of the first hands over. NULL or an error text. */
const char *test_fill_derived(TestCase *derived, const TestCase *origin, const Derive *d, EvalMode mode);
/* NULL, or what differs; *worst: the largest relative error of a gradient against finite differences. */
const char *test_gradient(TestCase *origin, const Derive *d, double *worst);

#endif
