/* The pipeline: which passes run, in which order, and what one may ask about them. */
#ifndef DRIVER_PIPELINE_H
#define DRIVER_PIPELINE_H

#include "passes/passes.h"

/* Levels of a program, in the order in which passes make them. */
typedef enum Level { LEVEL_EQUATIONS, LEVEL_TILES, LEVEL_PLAN } Level;

typedef struct Pass {
    const char *name;
    void (*run)(Module *m, const PassContext *c);
    Level level; /* of the program that it leaves */
    uint32_t needs, gives, breaks; /* facts */
    const char *doc;
} Pass;
extern const Pass pass_table[];
extern const uint32_t pass_count;
const Pass *pass_find(const char *name);

/* The program as a pass left it. */
typedef struct Dump {
    const Pass *pass;
    const char *text;
} Dump;
typedef Vec(Dump) DumpList;

typedef struct PipelineOptions {
    PassContext context;
    const char *start_at, *stop_after; /* pass names or NULL */
    Level below;                       /* passes of this level or a later one do not run; LEVEL_EQUATIONS: all run */
    const char *dump;                  /* NULL: none; "": all; else a comma list of passes: to dump_out */
    const char *break_in;              /* NULL, or a pass that ends in an internal error, for tests of what follows */
    int verify_each, time_passes;
    int limit;                         /* -1: none; else stop after that many passes */
    DumpList *dump_out;
    Text *time_out;
} PipelineOptions;

/* Runs the one pipeline (pipeline.c). Errors (of derive) go to m->diags; returns 0 when there are none.
 * A broken invariant is a BUG that names pass and node. */
int pipeline_run(Module *m, const PipelineOptions *o);

#endif
