/* Equations -> better equations -> tiles. The front door of passes/. */
#ifndef PASSES_PASSES_H
#define PASSES_PASSES_H

#include "ir/ir.h"
#include "ir/tile.h"
#include "machines/machines.h"
#include "passes/report.h"

/* Facts about a module that passes need, give and break: bits of Pass.needs and so on. */
typedef enum Fact {
    FACT_CHECKS = 1 << 0,    /* every access that is not proved has its EQ_CHECK */
    FACT_CANONICAL = 1 << 1, /* canonicalise has run and nothing undid it */
    FACT_DERIVED = 1 << 2,   /* derive requests are kernels */
    FACT_CLASSES = 1 << 3,   /* Equation.class_ is true */
    FACT_SPLIT = 1 << 4,     /* ready for lowering: see passes/split.c */
    FACT_TILES = 1 << 5,     /* Kernel.tiles is there */
    FACT_PLAN = 1 << 6,      /* and is a plan, if an NPU is planned for */
} Fact;

/* The first launch that did not fit an NPU. */
typedef struct Fit {
    Name kernel, launch;   /* launch, named by what it computes; NULL: all fitted */
    const Setting *copies; /* that a clause gives for the space that is full; NULL: none does */
} Fit;

typedef struct PassContext {
    Isa isa;      /* widths of the lowering */
    const Machine
        *machine; /* whose blocks are taken; an NPU: what is lowered is planned for it. NULL: the host */
    int optimize; /* 0: no fuse */
    Report *report; /* NULL: nobody asks */
    Fit *fit;       /* NULL: nobody asks */
    uint64_t schedule_seed; /* draws every knob that no schedule fixes from its space; 0: the usual values */
} PassContext;

typedef struct Pass {
    const char *name;
    void (*run)(Module *m, const PassContext *c);
    uint32_t needs, gives, breaks;
    const char *doc;
} Pass;
extern const Pass pass_table[];
extern const uint32_t pass_count;
const Pass *pass_find(const char *name);

/* The NPU that is planned for, or NULL. */
static inline const Machine *pass_npu(const PassContext *c)
{
    return c->machine && c->machine->kind == MACHINE_NPU ? c->machine : NULL;
}

typedef struct PipelineOptions {
    PassContext context;
    const char *start_at, *stop_after; /* pass names or NULL */
    const char *dump;                  /* NULL: none; "": all; else a comma list of passes: text to dump_out */
    const char *break_in;              /* NULL, or a pass that ends in an internal error, for tests of what follows */
    int verify_each, time_passes;
    int limit;                         /* -1: none; else stop after that many passes */
    Text *dump_out, *time_out;
} PipelineOptions;

/* Runs the one pipeline (passes/pipeline.c). Errors (of derive) go to m->diags; returns 0 when there are none.
 * A broken invariant is a BUG that names pass and node. */
int pipeline_run(Module *m, const PipelineOptions *o);

#define PASS(name, needs, gives, breaks, doc) void pass_##name(Module *m, const PassContext *c);
#include "passes/passes.def"
#undef PASS

/* expand.c: a plan in place into code for the emulator: what compiled code runs tells emulator/ of every statement of the plan. */
void plan_expand(Kernel *k, const PassContext *c);

/* Two of them for one kernel. */
void canonicalise_kernel(Kernel *k);
void dce_kernel(Kernel *k);

#endif
