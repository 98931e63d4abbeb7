/* The parts of pass fuse: what a rule looks at. */
#ifndef PASSES_FUSE_H
#define PASSES_FUSE_H

#include "passes/epilogue.h"
#include "passes/schedule.h"

typedef struct Fuse {
    Kernel *k;
    const PassContext *c;
    EquationOrder order;
    uint32_t *peers; /* by equation: those of one number share sums and must become one epilogue; NONE: alone */
} Fuse;

/* A local with one defining equation, and who reads it. */
typedef struct Producer {
    Fuse *f;
    uint32_t at; /* its equation */
    TensorId local;
    Vec(uint32_t) readers; /* places of equations, ascending */
    FuseRequest request;         /* of the schedule */
} Producer;

/* A rule of fusion. `matches`: is the producer of the kind that the rule is about? `blocks`: NULL, or why the
 * value cannot go into all its readers by this rule. */
typedef struct FuseRule {
    const char *name;
    int (*matches)(const Producer *p);
    const char *(*blocks)(const Producer *p);
    int peers; /* the readers must become one epilogue, unless there is only one */
} FuseRule;
extern const FuseRule fuse_rules[];
extern const uint32_t fuse_rule_count;

/* Every expression of an equation: its subscripts, right-hand side and guard. */
uint32_t fuse_parts(const Equation *q, ExprId *out /* MAX_RANK + 2 places */);

#endif
