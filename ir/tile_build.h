/* Makes tile programs: statements appended under the open one, buffers, index arithmetic. Lowering, NPU planning and the
 * emulator's expansion build with it; none of it knows why a statement is made.
 *
 *     uint32_t depth = b->depth;
 *     build_for(b, loc, LOOP_ORDERED, i, lo, hi, 1);
 *     build_store(b, loc, t, index, value, 0);
 *     build_close(b, depth);                           */
#ifndef IR_TILE_BUILD_H
#define IR_TILE_BUILD_H

#include "ir/tile.h"

/* A matrix in thread memory. Launches reuse it: each takes the matrices it needs, the next one takes the same ones again. */
typedef struct ThreadMatrix {
    TensorId buffer;
    int taken;
} ThreadMatrix;

typedef struct TileBuild {
    Kernel *k;                               /* statements go into k->tiles */
    StmtId parent[TILE_NESTING], last[TILE_NESTING]; /* by depth: the open statement; its last child. [0]: the kernel itself */
    uint32_t depth;
    Vec(ThreadMatrix) pool;
} TileBuild;

TileBuild build_begin(Kernel *k); /* nothing is open; k->tiles is there and lists no launch yet */

/* ---- statements ---- */

StmtId build_put(TileBuild *b, Stmt s); /* what s was linked to is left behind */
void build_open(TileBuild *b, Stmt s);  /* without a body yet */
void build_close(TileBuild *b, uint32_t depth); /* back to that depth */
void build_copy(TileBuild *b, StmtId id);       /* a statement of the program and its body, unchanged */
void build_launch(TileBuild *b, Loc loc, const char *stem);
void build_for(TileBuild *b, Loc loc, LoopMode mode, IndexId var, ExprId lo, ExprId hi, int64_t step);
void build_parallel(TileBuild *b, Loc loc, IndexId var, ExprId hi, int64_t step); /* from 0 */
void build_if(TileBuild *b, Loc loc, ExprId condition);
/* Of a tensor that is `packed both`, the transposed copy too. */
void build_store(TileBuild *b, Loc loc, TensorId t, const ExprId *index, ExprId value, int add);

/* ---- buffers and variables ---- */

TensorId build_reg(TileBuild *b, const char *stem, Elem elem, int64_t count /* 0: one value */, uint32_t lanes);
TensorId build_buffer(TileBuild *b, const char *stem, Elem elem, Space space, uint32_t rank, const Extent *extents);
/* A matrix of the launch in thread memory, [rows, cols]. */
TensorId build_thread(TileBuild *b, const char *stem, Elem elem, int64_t rows, int64_t cols, Layout layout);
void build_give_back(TileBuild *b, TensorId matrix); /* the launch needs it no more */
ExprId build_let(TileBuild *b, Loc loc, const char *stem, ExprId value); /* an i64 register holding value */
IndexId build_index(TileBuild *b, const char *stem);

/* ---- index arithmetic, folded as far as the text form reads back ---- */

ExprId x_add(Kernel *k, ExprId a, int64_t b);
ExprId x_difference(Kernel *k, ExprId a, ExprId b);
ExprId x_offset(Kernel *k, ExprId first, ExprId by); /* first + by */
ExprId x_min(Kernel *k, ExprId a, ExprId b);
ExprId x_max(Kernel *k, ExprId a, ExprId b);

#endif
