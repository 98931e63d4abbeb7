/* Passes over programs: between recording and places. They trade memory for time and keep the bits.
 *
 * After a pass the program must compute what it computed before (same.h); step_passes() checks it. */
#ifndef STEP_PASSES_H
#define STEP_PASSES_H

#include "step/step.h"

typedef enum StepPass {
#define PASS(name, doc) PASS_##name,
#include "step/passes.def"
    PASS_COUNT
} StepPass;

extern const char *const pass_names[PASS_COUNT];

/* A module in some layers. */
typedef struct ModuleRange {
    const char *module;  /* NULL: every one */
    int64_t first, last; /* layers */
} ModuleRange;
typedef struct ModuleChoice {
    Vec(ModuleRange) ranges;
} ModuleChoice;

/* Reads "mla:0-3,swiglu,norms:5", or "all". NULL: no error. */
const char *module_choice_read(Arena *a, const char *text, ModuleChoice *out);
int module_is_chosen(const ModuleChoice *c, const Task *forward);
/* Runs each pass that has a choice (its text, by StepPass; NULL: none). Gives NULL, or an error in the program's arena: a choice that
 * names no task, or a pass that is wrong. */
const char *step_passes(Program *p, const char *const choices[PASS_COUNT]);

#define PASS(name, doc) void step_pass_##name(Program *p, const ModuleChoice *c);
#include "step/passes.def"

#endif
