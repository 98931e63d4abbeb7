/* Holds every access of a plan against what its units have agreed on. Private to emulator/.
 *
 * Statements run in the order of the program, but on an NPU units run side by side: an access is right only when every
 * earlier access to the same bytes by another unit, one of them writing, is known to be over, by a chain of sets and waits
 * (vector clocks). Bytes of on-chip buffers hold nothing until a statement of the item writes them. */
#ifndef EMULATOR_CHECK_H
#define EMULATOR_CHECK_H

#include "emulator/emulator.h"

typedef struct Checker Checker;
/* on_chip: by Space, the memory that stands for it, of its capacity; poisoned at the begin of each item. */
Checker *checker_new(Arena *a, const Machine *machine, const Kernel *k, const int64_t *dims,
                     void *const *on_chip);
void checker_launch(Checker *c, StmtId launch, uint32_t ncores);
void checker_item(Checker *c, uint32_t core, int64_t item);
/* A unit reads or writes the box of rows x cols elements of the buffer's last two axes whose first element has the row-major number
 * `element`. Buffers of thread space and of the chip are a core's own. */
typedef struct UnitAccess {
    StmtId stmt;
    Unit unit;
    uint32_t sub; /* the vector core whose unit it is, 0: of the cube core */
    TensorId buffer;
    int write;
    int64_t element, rows, cols;
} UnitAccess;
void checker_access(Checker *c, UnitAccess u);
/* The scalar unit runs a loop; of the buffers in thread space that it names it may read and write every element. */
void checker_loop(Checker *c, StmtId loop, uint32_t sub);
/* A unit of `sub` sets or waits for the flag about slot `slot` of the buffer; a cube core's flag towards vector units counts for
 * each of its vector cores, and one from vector units is set when all of them have set it. */
void checker_flag(Checker *c, StmtId stmt, uint32_t sub, int64_t slot);
/* The call is over: every flag is as it began. checker_launch() and checker_item() say so of the item before. */
void checker_end(Checker *c);
const char *checker_error(const Checker *c); /* the first thing that is wrong, or NULL */

/* flag.c: is the flag of this set or wait set when a launch begins? */
int flag_begins_set(const Kernel *k, const Stmt *s);

#endif
