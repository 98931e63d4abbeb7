/* What emulator/expand.c and emulator/expand_core.c share: tiles become events. Private to emulator/. */
#ifndef EMULATOR_EXPAND_H
#define EMULATOR_EXPAND_H

#include "emulator/emulator.h"
#include "ir/event.h"
#include "ir/tile_build.h"

typedef struct Expander {
    TileBuild b;
    Kernel *k;
    const Cpu *cpu; /* whose code it becomes */
    int of_npu;     /* k->tiles is a plan; else tiles for a CPU */
    TensorId sum; /* a register with lanes */
} Expander;

static inline Stmt expand_at(const Expander *ex, StmtId id) { return ex->k->tiles->stmts.at[id]; }
/* An event about the statement; exprs: the struct of the kind's expressions, such as MoveExprs. */
void expand_tell(Expander *ex, EventKind kind, StmtId id, const void *exprs);
/* The place of a load's element in row-major order, whatever the layout, with other indices. */
ExprId expand_number_of_load(const Expander *ex, ExprId load, const IndexId *from, const ExprId *to,
                             uint32_t n);
/* Does a load below e depend on i? Then the element after the last one may not exist. */
int expand_looks_up(const Kernel *k, ExprId e, IndexId i);
/* Nothing but stores, and loops and conditions around them. */
int expand_is_plain(const Expander *ex, StmtId first);

/* A `top`: without data somebody else says what it finds. */
void expand_top(Expander *ex, StmtId id);

/* emulator/expand_core.c: a statement for a CPU, whose code is timed and never run. */
void expand_for_core(Expander *ex, StmtId id);

#endif
