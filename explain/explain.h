/* What `moec explain FILE` shows: what the passes decided about each kernel, put together from their reports and from the
 * program before fusion and after lowering, so that nothing is left out because nobody reported it. */
#ifndef EXPLAIN_EXPLAIN_H
#define EXPLAIN_EXPLAIN_H

#include "driver/driver.h"
#include "passes/passes.h"

typedef enum EdgeState {
    STATE_FUSED,  /* into its reader */
    STATE_PLACED, /* in a thread's memory, a block at a time */
    STATE_STORED, /* in work space */
} EdgeState;

typedef struct ExplainEdge {
    ReportEdge e;
    EdgeState state;
} ExplainEdge;

typedef struct ExplainProduct {
    ReportProduct p;
    Elem elem;      /* of both operands of a cube operation; else EL_F32 */
    int is_dot;     /* ReportSum */
    int reported;
    double padding; /* part of the multiply-adds, with sizes; -1: not known */
} ExplainProduct;

/* A setting of a schedule block that no pass asked for. */
typedef struct ExplainUnused {
    const Clause *clause;
    const Setting *setting;
} ExplainUnused;

typedef Vec(ReportKnob) ExplainKnobs;

typedef struct Explained {
    const Kernel *k;
    Vec(ExplainEdge) edges;
    Vec(ExplainProduct) products;
    ExplainKnobs knobs;   /* named as clauses name them */
    ExplainKnobs choices; /* `fuse` and `store` clauses that nothing gives and that would change the program */
    Vec(ExplainUnused) unused;
} Explained;

typedef struct Explain {
    Compilation *c;
    Module *before, *m; /* before fusion; as lowered */
    Isa isa;
    const int64_t *sizes; /* by DimId; -1: not given */
    const TestRouting *rows; /* NULL, or the exact rows of each group; else they are spread evenly */
    Vec(Explained) kernels;
} Explain;

/* Compiles up to the tiles for the first target, with reports. Under compile_guard, after compile_prepare(). */
int explain_make(Explain *e);
/* Fills e->kernels; `kernel` NULL: all. */
int explain_collect(Explain *e, const char *kernel);
/* What a fragment rounds the rows, columns and terms of a product up to. */
void explain_units(const Explain *e, int cube, int64_t units[3]);
const char *explain_target(const Explain *e); /* the instruction set, or the NPU */
/* Hints about dimensions that miss their `prefer`, with the waste, to the diagnostics. */
void explain_hints(Explain *e);
/* All that is found without machine code, to the diagnostics: errors, and warnings of names and of what makes kernels slow (sums in
 * plain loops, edges that dominate). A DriverStatus. */
int explain_check(Compilation *c);
/* The value of an extent at the given sizes, or -1. */
int64_t explain_extent(const Explain *e, Extent x);

/* text.c, json.c, decisions.c, html.c */
void explain_text(const Explain *e, Text *out);
void explain_decisions(const Explain *e, Text *out); /* how each launch is laid over loops */
void explain_space(const Explain *e, Text *out); /* the knobs that passes asked for, as schedule blocks */
/* Likewise as JSON, to be freed; NULL: no memory. most_threads: of a call; 0: not known. */
char *explain_space_json(const Explain *e, const Explained *x, int most_threads);
const char *explain_json(const Explain *e);      /* in the arena; NULL: no memory */

/* The program on all levels as one page, which needs no other file; `kernel` NULL: all. Compiles twice more: with every pass dumped, and to
 * assembly. A DriverStatus; what is wrong is in e->c's diagnostics. */
int explain_html(const Explain *e, const char *kernel, Text *out);

/* ---- shared by them ---- */

/* "tile g : M =", "fuse g -> a at", "store g": a clause without its value; and with it. */
const char *explain_clause(Arena *a, const ReportKnob *n);
const char *explain_knob(Arena *a, const ReportKnob *n);
/* What a knob may be, the value of now first; values[] has KNOB_SPACE_MAX + 1 places. How many. */
uint32_t explain_values(const ReportKnob *n, int64_t *values);
/* Is knob i a clause that schedules give or leave out, or one of several values that was not listed before? */
int explain_is_clause(const Explained *x, uint32_t i);
int explain_is_dial(const Explained *x, uint32_t i);

#endif
