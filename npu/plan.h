/* What the files of npu/ share. Private to npu/. */
#ifndef NPU_PLAN_H
#define NPU_PLAN_H

#include "ir/tile_build.h"
#include "passes/passes.h"
#include "passes/query.h"

/* An on-chip buffer of the launch, [copies, x, y]. */
typedef struct Chip {
    TensorId buffer;
    TensorId panel; /* the thread's block that it stands for, or NONE */
    Space space;
    const char *role; /* in UB: PLAN_OUT, PLAN_ROW, or NULL for what moves fill */
    int64_t copies, x, y;
    int transposed; /* it holds the panel's matrix with axes exchanged */
    int taken;  /* by the loop that is being planned */
    /* of blocks of operands in L1, in the loop that is being planned */
    uint32_t packs, packed; /* how often it is filled in a trip; so far */
    ExprId slot;            /* that was filled last */
    int arrived;            /* somebody has waited for it */
    Loc loc;
} Chip;

typedef struct Planner {
    TileBuild b;
    Kernel *k;
    const Cpu *cpu; /* that runs the program of the scalar units under emulation */
    const PassContext *c;
    const Machine *m;
    Name launch;
    StmtId body; /* of it */
    Vec(Chip) chips;
    int cube;       /* the launch has products: vector work is for the cores beside the cube core */
    uint32_t nests; /* loops of vector work in the launch: without a cube core they share UB */
    /* By TensorId, of those that the launch's tiles know: */
    uint8_t
        *flushed; /* sums that one run of vector work reads, once each time the fixpipe has written them */
    uint8_t *reads, *writes; /* a statement of the launch does */
    StmtId *stored;          /* the nest that only stores these sums elsewhere, or NONE */
    int64_t copies[SPACE_COUNT];
    int64_t terms;           /* of an operand that are in L0 at a time, at most */
    Vec(TensorId) left; /* sums that a launch of the kernel has stored elsewhere */
} Planner;

/* query.c */
Stmt plan_at(const Planner *p, StmtId id); /* a copy: the list of statements grows */
int plan_is_in(const TensorId *list, uint32_t n, TensorId t);
void plan_add_buffer(TensorId *list, uint32_t *n, uint32_t max, TensorId t); /* once */
uint32_t plan_count_uses(const Planner *p, StmtId first, TensorId t); /* reads and writes in the list */
static inline int plan_is_memory(const Tensor *t)
{
    return space_is_memory(t->space) && layout_is_dense(t->layout);
}

/* Of what a core keeps of its item, a row less the item's first one: it has a place for each of them. */
int plan_is_own_row(const Kernel *k, const Tensor *t, ExprId subscript);
/* Does another scalar unit than that of a vector core, or another unit, write the buffer in this launch? */
static inline int plan_is_made(const Planner *p, TensorId t)
{
    Space s = p->k->tensors.at[t].space;
    return s == SPACE_THREAD ? p->cube : space_is_memory(s) && p->writes[t];
}

/* Memory that one unit of a core writes and another one reads in this launch: the program tells each when the other is done. */
static inline int plan_is_handed_over(const Planner *p, TensorId t)
{
    Space s = p->k->tensors.at[t].space;
    return s == SPACE_THREAD || (space_is_memory(s) && p->writes[t] && p->reads[t]);
}

/* Buffers in UB by who fills them: moves ("in"), the vector unit for moves, the vector unit for itself. */
#define PLAN_OUT "out"
#define PLAN_ROW "row"

/* plan.c */
StmtId plan_work(Planner *p, StmtId first); /* plans the run of vector work that begins here; its last statement */
int plan_is_work(Planner *p, StmtId id);

/* chip.c: places on the chip, flags. */
uint32_t plan_chip(Planner *p, Loc loc, const char *stem, Space space, Elem elem, int64_t x, int64_t y,
                   TensorId panel);
int64_t plan_ub(const Planner *p); /* bytes of UB that the loop of vector work can still have */
void plan_give_back(Planner *p, int ub); /* what was taken in UB, or elsewhere, may be taken again */
void plan_flag(Planner *p, Loc loc, TileKind kind, Unit unit, Unit other, TensorId buffer,
               ExprId slot /* or NONE */);
/* Now: what `first` did before this point of the program is over before `then` goes on. */
void plan_after(Planner *p, Loc loc, Unit first, Unit then, TensorId buffer);
/* Of blocks that do not fit: one copy of each in L1, half the terms in L0. 1: it did so, and nothing is placed now. */
int plan_shrink(Planner *p);
void plan_fit(Planner *p, Loc launch); /* reports buffers of the launch that are too large together */

/* npu/store.c: sums that go from L0C to where they are wanted. */
void plan_mark_stored(Planner *p, StmtId first);
int plan_is_stored(const Planner *p, StmtId id); /* such a nest: its product does the work */
/* The move that does what the nest does, from a buffer in L0C. */
Stmt plan_store(Planner *p, StmtId nest, TensorId chip);

/* npu/move.c: a pack becomes moves into `to`, slot `slot`. */
void plan_move(Planner *p, const Stmt *pack, const Chip *to, ExprId slot);

/* Does the pack read rows of memory that lie along the first axis of its box? */
int plan_is_transposed(const Kernel *k, const Stmt *pack);
/* Are all subscripts of the load linear in i? */
int plan_is_linear(const Kernel *k, ExprId load, IndexId i);

/* A move into `to` of rows r0..r1 and columns c0..c1; the place there and the value are still to be set. */
Stmt plan_box(Loc loc, TensorId to, IndexId row, ExprId r0, ExprId r1, IndexId column, ExprId c0, ExprId c1);
/* Sums in L0C, rows x cols of them, for a buffer that the caller says. */
Stmt plan_flush_l0c(Planner *p, Loc loc, TensorId chip, ExprId rows, ExprId cols);
/* What the vector unit reads from UB, moved in now; what it has written there, moved out. */
void plan_bring(Planner *p, const Stmt *move, ExprId slot);
void plan_take_away(Planner *p, const Stmt *move, TensorId from, ExprId slot);

/* npu/vector.c: loops over elements. */
int plan_is_vector(Planner *p, StmtId id); /* can the vector unit do it? */
/* core: NONE, or the number of the vector core beside the cube core. */
void plan_vector(Planner *p, StmtId id, ExprId core);
/* Buffers of thread space that are moved into UB for it; how many. */
uint32_t plan_vector_reads(Planner *p, StmtId id, TensorId *out, uint32_t max);

/* Is the load a value for each row, next to those of other rows? */
int plan_is_row_value(const Kernel *k, ExprId load, IndexId row);
/* This vector core's part of first..last, rows or columns: all but the last one's is a multiple of `by`. */
void plan_share(Planner *p, Loc loc, ExprId core, int64_t by, ExprId *first, ExprId *last);

/* npu/lanes.c: loops over elements that keep something in registers. */
int plan_is_lanes(Planner *p, StmtId id);
void plan_lanes(Planner *p, StmtId id, ExprId row /* NONE, or the number of the row around it */);
void plan_lanes_reads(Planner *p, StmtId id, TensorId *out, uint32_t *n, uint32_t max);

/* npu/rows.c: the same of each row beside a cube core. The functions are those of npu/vector.c. */
int plan_is_rows(Planner *p, StmtId id);
void plan_rows(Planner *p, StmtId id, ExprId core);
uint32_t plan_rows_reads(Planner *p, StmtId id, TensorId *out, uint32_t max);

/* npu/product.c: a loop with packs and products in it. */
void plan_reserve(Planner *p, const StmtId *loops, uint32_t n); /* places for all of a launch */
void plan_slabs(Planner *p, const Stmt *loop);

#endif
