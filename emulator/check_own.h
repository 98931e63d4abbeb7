/* What the files of the checker share. Private to check*.c.
 *
 * Note [Vector clocks]. A thread is a unit of the cube core (sub 0) or of a vector core beside it. Its clock counts what it has
 * told others: the sets. Each thread knows of every other one up to which count its work is over: a set writes down what the
 * setter knows, its own count included, and a wait adds that to what the waiter knows. Of each piece of memory the last write and
 * the reads since then are kept, with the count of their thread; an access is right when it knows of all that it must not
 * meet. What a thread did itself it knows: units do their work in order. A launch begins when all work is over.
 *
 * Note [Shadow of memory]. Items of a launch run in any order, on cores that do not wait for each other. So of memory that all
 * cores see is kept which item of the launch has written each piece, and which ones have read it: no item may write what
 * another one writes or reads. Within an item it is memory like a core's own. What the scalar unit does element by element is
 * not seen, nor memory in panels. */
#ifndef EMULATOR_CHECK_OWN_H
#define EMULATOR_CHECK_OWN_H

#include "emulator/box.h"
#include "emulator/check.h"

/* An access of a thread, when its clock was that; 0: there was none. */
typedef struct Mark {
    uint32_t clock, thread;
    StmtId stmt;
} Mark;

/* What is known of CELL_BYTES bytes, or of PART_BYTES of them where accesses have told them apart. */
typedef struct Cell {
    Mark write, read;    /* the last ones */
    uint32_t item;       /* the number of the item that wrote last; 0: nobody */
    uint32_t readers[2]; /* of shared memory: of the item that read last, and of another one that did, or 0 */
    TensorId buffer;     /* that was written */
    Mark *
        reads; /* by thread, since the last write, once two threads have read without knowing of each other */
    struct Cell *parts;
} Cell;
enum { CELL_BYTES = 32, PART_BYTES = 2, PARTS = CELL_BYTES / PART_BYTES };

/* Cells of a buffer or of a space, a page of them made where one is used. */
enum { PAGE_CELLS = 256 };
typedef Vec(Cell *) Pages;

/* Between whom: units of one core, or the cube core and all vector cores beside it. */
typedef enum Crossing { CROSS_NONE, CROSS_TO_VECTOR, CROSS_FROM_VECTOR } Crossing;

/* The flags of a launch about the slots of one buffer, from one unit to another. */
typedef struct FlagKind {
    Unit from, to;
    TensorId buffer;
    Crossing crossing;
    int64_t slots;
    uint32_t first; /* flag; then one for each slot and sub */
    int begins_set;
} FlagKind;

typedef struct CheckFlag {
    uint8_t set;
    StmtId by;       /* that changed it last; NONE: it is as it began */
    uint32_t *knows; /* what its setter knew, by thread */
} CheckFlag;

typedef struct CheckCore {
    uint32_t item;   /* number of the item it does */
    uint32_t *knows; /* [thread][thread] */
    Pages *on_chip;  /* by sub * SPACE_COUNT + Space */
    Pages *own;      /* of buffers in thread space, by TensorId */
    CheckFlag *flags;
    uint32_t flags_launch; /* the launch they belong to */
} CheckCore;

struct Checker {
    Arena *arena;
    const Kernel *k;
    const Machine *machine;
    const int64_t *dims;    /* by DimId */
    const BoxShape *shapes;    /* by TensorId */
    uint32_t subs, threads; /* of a core */
    void *const *on_chip;
    int64_t *dirty; /* by Space: bytes from 0 on that the item has written */
    Vec(CheckCore *) cores;
    Pages *shared; /* by TensorId */
    uint32_t nitems, nlaunches;
    uint32_t first; /* item of the launch */
    StmtId launch;
    uint32_t core; /* that does the item */
    int64_t item;
    Vec(FlagKind) flags; /* of the launch */
    uint32_t nflags;
    uint32_t *flag_of; /* by StmtId: number of its FlagKind */
    /* by TensorId: in thread space, and the scalar unit writes it in this launch, who knows where */
    uint8_t *loose;
    uint8_t *masked; /* by StmtId: check_is_masked() + 1, or 0: not looked at yet */
    Runs runs;
    const char *error;
};

typedef struct CheckAccess {
    StmtId stmt;
    TensorId buffer;
    int write, loose; /* loose: it may read what nobody has written */
    int shared;       /* of memory that all cores see */
    uint32_t thread;
    BoxShape shape;
    Box box;
    const uint32_t *knows; /* of the thread */
    Mark mark;
} CheckAccess;

typedef enum Problem {
    FINE,
    UNWRITTEN,
    OVERWRITTEN,
    RACE_WITH_WRITE,
    RACE_WITH_READ,
    MEETS_WRITE,
    MEETS_READ
} Problem;

/* What an access meets. */
typedef struct Other {
    Mark mark;
    TensorId buffer; /* OVERWRITTEN: that lies there */
    uint32_t item;   /* MEETS_...: whose access it is */
} Other;

static inline uint32_t check_thread(uint32_t sub, Unit unit) { return sub * UNIT_COUNT + (uint32_t)unit; }
static inline CheckCore *check_core(const Checker *c) { return c->cores.at[c->core]; }

/* The first error stays. */
void check_fail(Checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *check_stmt_text(const Checker *c, StmtId s);                    /* `pack left` of line 3 */
const char *check_thread_text(const Checker *c, uint32_t thread);           /* mte2 of vector core 1 */
const char *check_element_text(const Checker *c, TensorId t, const Box *b); /* left[1, 16, 0] */

/* check_flag.c */
void check_find_flags(Checker *c); /* of the launch */
void check_flags_rest(Checker *c); /* the item is over: every flag is as it began */

/* check_shared.c: memory that all cores see. */
static inline int space_is_shared(Space s) { return s == SPACE_GM || s == SPACE_WORK; }
/* Do items of the launch meet there? Then what other items did before is forgotten: they have nothing to wait for. */
Problem check_items(Checker *c, const CheckAccess *a, Cell *cell, Other *other);

/* check_mask.c: is what the move brings only looked at behind conditions? */
int check_is_masked(Checker *c, StmtId pack);

#endif
