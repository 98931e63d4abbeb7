/* What the files of the emulator share. Private to emulator*.c and core*.c. */
#ifndef EMULATOR_EMULATOR_OWN_H
#define EMULATOR_EMULATOR_OWN_H

#include "emulator/check.h"
#include "emulator/core.h"
#include "ir/event.h"

/* A loop, looked at when it first runs. */
typedef struct LoopWork {
    uint32_t instructions; /* for each element; 0: not looked at yet */
    Unit unit;
    int numbers; /* it writes some that the program goes by: it runs without data too */
} LoopWork;

/* What a `top` will find next. */
typedef struct Found {
    const int32_t *at;
    int64_t left;
} Found;

struct Emulator {
    Arena *a;
    const Machine *machine;
    const Kernel *k;
    const int64_t *dims;
    EmulateMode mode;
    Trace trace;
    Checker *check; /* in that mode, else NULL */
    void *on_chip[SPACE_COUNT];
    StmtId launch; /* that runs, or NONE */
    int64_t items; /* of it so far */
    uint32_t core, sub;
    LoopWork *work; /* by StmtId */
    const Chooser *chooser;
    Found *found; /* by StmtId */
    struct Flags *flags;
    struct Sample *sample;
    uint8_t *past;  /* of a CPU, by TensorId: 2 where the launch stores it past the caches, 1 where not, 0: not known yet */
    int64_t *given; /* of a CPU, by core: how much it has had to do in this launch */
    int transposed; /* of a CPU: what was read last lies the other way round than it is asked for */
};

static inline const Stmt *emulator_stmt(const Emulator *e, StmtId id) { return &e->k->tiles->stmts.at[id]; }
/* flag.c: a launch begins, and flags are as they were when it begins; a unit sets a flag or waits for it. */
void flags_begin(Emulator *e);
void emulator_flag(Emulator *e, StmtId id, const FlagEvent *v);
/* sample.c: a launch begins; is this item looked at?; where an operation is noted; the launch ends. */
void sample_launch(Emulator *e);
int sample_item(Emulator *e);
Op *sample_op(Emulator *e, Op op);
void sample_end(Emulator *e);
Op *emulator_op(Emulator *e, StmtId id, Unit unit); /* a new one of the core that does the item */
/* The runs of contiguous elements of a box in rows whose elements stand `down` and `right` apart: the op's a, b, c. */
void emulator_runs(Op *op, int64_t bytes, int64_t rows, int64_t cols, int64_t down, int64_t right);

#endif
