/* The engine of `moec test FILE` and `moec run FILE`: random typed inputs, and the same kernel through the
 * interpreter, the JIT and a .so, compared.
 *
 * The command lines live in command/; these functions print their report to `out` and return an
 * exit code: 0 all runs passed, 1 a run failed or the input is wrong, 3 internal error. */
#ifndef TESTING_TESTING_H
#define TESTING_TESTING_H

#include "emulator/emulator.h"

#include <stdint.h>
#include <stdio.h>

typedef struct TestOptions {
    const char *kernel;  /* only this kernel; NULL: all */
    const char *tiles;   /* compiled code comes from this tile text, the reference from the file; NULL: both */
    const char *target;  /* as in moec_options.target: NULL: host */
    const char *types;   /* as in CompileOptions */
    const char *schedule, *derive; /* as in CompileOptions */
    const char *text;    /* of the file; NULL: it is read */
    int every_size;      /* a dimension of the kernel that `sizes` does not name is an error */
    const char *routing; /* `moec run`: a routing clause, e.g. "zipf(1.2), empty(40%)"; NULL: uniform */
    const char *sizes;   /* `moec run`: "T=33 K=2", maybe with commas; NULL; dimensions not named get small default sizes */
    uint64_t seed;
    uint64_t schedule_seed; /* as in CompileOptions */
    int threads;         /* `moec run`: 0: what OpenMP would take */
    int interpret;       /* `moec run`: the reference interpreter instead of compiled code */
    int no_optimize;     /* -O0 */
    const char *machine; /* as in CompileOptions */
    EmulateMode emulate; /* `moec test`: the plan for the machine is run by the emulator */
    int sweep;           /* `moec test`: besides the test blocks, every kernel at a set of awkward sizes */
    int no_time;         /* `moec run`: only what the kernel gives */
    int quiet;           /* `moec test`: only failures and the last line */
    int no_aot;          /* `moec test`: leave out the .so */
    int every_isa;       /* `moec test`: beside the target's the code for each other instruction set that this CPU runs */
    int no_gradcheck;    /* `moec test`: leave out finite differences: the interpreter alone computes them, of unrounded numbers */
} TestOptions;

/* Runs every `test` block of the file; a kernel without one gets a default set of sizes and routings. One line per
 * run: kernel, sizes, routing, largest error in units of the bound, ok or FAILED with the first bad element. */
int test_file(const char *path, const TestOptions *o, FILE *out);

/* Runs one kernel once on random data and prints a line per output: elements, smallest, largest, mean, hash of the
 * bytes, and the first few values. Errors go to stderr. */
int test_once(const char *path, const TestOptions *o, FILE *out);

typedef struct ReplayOptions {
    const char *target; /* instruction sets instead of those of the program; NULL: those */
    int no_check;       /* leave the interpreter out */
} ReplayOptions;

/* Repeats a logged call (Note [Log of calls] in runtime/log.h), or all of a folder, and compares results with the recorded bits and with
 * the interpreter's. 1: some differ. */
int test_replay(const char *path, const ReplayOptions *o, FILE *out);

/* Runs the plan of one kernel for o->machine without data, o->emulate being EMULATE_MODEL, and prints what the cycle
 * model says; also into the files `trace` and `html`, each may be NULL. Errors go to stderr. */
int test_report(const char *path, const TestOptions *o, const char *trace, const char *html, FILE *out);

#endif
