/* A core of a CPU: which operations its code does, and how long each takes. Private to emulator/.
 *
 * Operations of a CPU differ from those of an NPU's units (emulator.h) in that the core moves its data itself:
 *   event          memory that the next operation reads or writes (other: an AccessForm): `a` runs of `b` bytes, which begin
 *                  `c` bytes apart; gm: the first of them
 *   pack           a box of `a` x `b` elements of `bytes` goes into a panel; c: 1 where it is transposed on the way
 *   product        `a` rows, `b` columns, depth `c`; other: how the right operand stands, a RightForm; gm: elements of its rows
 *   store          `a` elements, `b` instructions for each */
#ifndef EMULATOR_CORE_H
#define EMULATOR_CORE_H

#include "emulator/emulator.h"
#include "ir/event.h"

/* LATE: read, and nothing has asked for it ahead. UNASKED: read in runs, of which nothing asks for the first byte. ACROSS: read
 * to be transposed, a line of each of many rows. PAST: written past the caches, where an ordinary store reads the line first. SUMS:
 * added to by a product, in a block of its thread, which nothing asks for. */
typedef enum AccessForm {
    ACCESS_READ,
    ACCESS_WRITE,
    ACCESS_LATE,
    ACCESS_UNASKED,
    ACCESS_ACROSS,
    ACCESS_PAST,
    ACCESS_SUMS
} AccessForm;
typedef enum RightForm { RIGHT_PANELS, RIGHT_ROWS, RIGHT_TRANSPOSED } RightForm;

/* Notes the operations that code for a CPU tells of (emulator/expand_core.c). */
void core_access(Emulator *e, StmtId id, const AccessEvent *v);
void core_pack(Emulator *e, StmtId id, const PackEvent *v);
void core_product(Emulator *e, StmtId id, const ProductEvent *v);
void core_store(Emulator *e, StmtId id, const StoreEvent *v);

static inline int core_is_access(const Op *op) { return op->kind == TILE_event; }
int64_t core_cycles(const Trace *t, const Op *op); /* with everything in the first cache */
/* Cycles that a product's multiply-adds take when nothing but them is done. */
int64_t core_product_cycles(const Trace *t, const Op *op);
int64_t core_flops(const Trace *t); /* of the best product in a cycle */

#endif
