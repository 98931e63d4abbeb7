/* A nest of vector work as it is staged (Note [Stages] in vector.c). Private to npu/. */
#ifndef NPU_STAGE_H
#define NPU_STAGE_H

#include "npu/plan.h"

enum { STAGED_MAX = 32 };

/* How a value that varies with the columns varies with the rows; or one for each row. */
typedef enum PlanShape { SHAPE_BOX, SHAPE_LINE, SHAPE_ROWS, SHAPE_VALUES } PlanShape;

typedef struct Staged {
    ExprId load; /* what it stands for, or NONE: a store's target */
    uint32_t store;
    PlanShape shape;
    Elem elem;
    TensorId buffer;
} Staged;

typedef struct Stage {
    Planner *p;
    IndexId row, col;           /* row: NONE when there is one only */
    ExprId lo, hi, first, last; /* columns; rows of this core */
    Stmt vector;
    Stmt stores[STAGED_MAX];
    ExprId values[STAGED_MAX]; /* what they store, old values included */
    uint32_t nstores;
    Staged in[STAGED_MAX], out[STAGED_MAX];
    uint32_t nin;
    int64_t rows, cols; /* of a tile */
    ExprId r0, r1, f0, f1, slot;
} Stage;

/* The number of the store before `before` that gives the very element of the load; else `before`. */
uint32_t stage_stored_before(const Stage *st, ExprId load, uint32_t before);
int stage_can_store(const Stage *st, uint32_t n); /* can the vector unit do store n? */
int stage_open(Stage *st, StmtId id); /* reads the nest; 0: it has another form */
int stage_find_moves(Stage *st); /* 0: there are too many */

#endif
