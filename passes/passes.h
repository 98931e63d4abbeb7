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
    FACT_SPLIT = 1 << 3,     /* ready for lowering: see passes/split.c */
    FACT_TILES = 1 << 4,     /* Kernel.tiles is there */
    FACT_UNREAD = 1 << 5,    /* kernels of the text know which parameters they do not read */
    FACT_INTERFACE = 1 << 6, /* signatures are complete; Module.kernels are those that become code */
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
    const char *kernels;    /* comma separated: those that become code; NULL: all */
    uint64_t schedule_seed; /* draws every knob that no schedule fixes from its space; 0: the usual values */
} PassContext;

/* What its kind of machine can and wants: the questions that passes ask instead of its name. */
static inline const Traits *pass_traits(const PassContext *c)
{
    return machine_traits(c->machine ? c->machine->kind : MACHINE_CPU);
}

#define PASS(name, level, needs, gives, breaks, doc) void pass_##name(Module *m, const PassContext *c);
#include "passes/passes.def"

/* Three of them for one kernel. */
void canonicalise_kernel(Kernel *k);
void cse_kernel(Kernel *k);
void dce_kernel(Kernel *k);

/* What the parameters that k writes need: which equations that are not dead, and which tensors these read. `given`
 * (NULL: none; by TensorId) need not be computed. */
typedef struct LiveEquations {
    uint8_t *equations; /* by place */
    uint8_t *read;      /* by TensorId */
} LiveEquations;
LiveEquations dce_live(const Kernel *k, const uint8_t *given);

/* Those of m's kernels that are not named in the list go to m->interfaces; NULL: none. An unknown name is reported. */
void interface_select(Module *m, const char *kernels);

#endif
