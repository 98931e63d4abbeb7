/* Choices that a schedule block, or else the machine or a rule, makes for a kernel: what passes ask.
 *
 * The blocks of the kernel itself count first, then, for a kernel that derive made, those of the kernel it comes from, as
 * far as they speak of tensors that both have. Every answer is also reported (report.h). With PassContext.schedule_seed
 * what no block fixes is drawn from its space, as far as that keeps bits. */
#ifndef PASSES_SCHEDULE_H
#define PASSES_SCHEDULE_H

#include "passes/passes.h"

/* The machine's block: of sums whose right operands are read where they lie, of such of many matrices in rows, of groups of many rows,
 * which pack those (rows and terms only), of sums that stand in the caller's memory, or of others. `alone`: neither groups nor other indices make many of them. `products`, at least 1, share its columns. */
typedef enum BlocksOf { BLOCKS_GIVEN, BLOCKS_GIVEN_GROUPS, BLOCKS_GROUP_PANELS, BLOCKS_IN_PLACE, BLOCKS_OTHER } BlocksOf;
Blocks schedule_usual(const PassContext *c, const Kernel *k, BlocksOf of, int alone, uint32_t products);
const Machine *schedule_machine(const PassContext *c, const Kernel *k);
/* Rows, columns and terms of the blocks of the sums in the equation of `lhs`: those given for lhs, else for a tensor that the
 * same loops compute, else for a local whose sum stands there now, else the usual. */
int64_t schedule_rows(const PassContext *c, const Kernel *k, TensorId lhs, int64_t usual);
int64_t schedule_cols(const PassContext *c, const Kernel *k, TensorId lhs, int64_t usual);
int64_t schedule_depth(const PassContext *c, const Kernel *k, TensorId lhs, int64_t usual);
const Setting *schedule_blocks_given(const Kernel *k, TensorId lhs); /* the nearest clause's; NULL: no clause gives them */
int64_t schedule_part(const PassContext *c, const Kernel *k, TensorId lhs, int64_t usual); /* rows whose left operands are packed at a time */
/* Rows from which on a right operand is packed for all of them; asked where it lies in rows. */
int64_t schedule_prepack(const PassContext *c, const Kernel *k, TensorId lhs);
/* Asked where all ways are open: where are right operands read from, are sums added up in a block of the thread's memory, and
 * is bf16 multiplied in f32, which is exact, but adds in another order? Values of KNOB_right: */
typedef enum RightFrom { RIGHT_IN_PANELS, RIGHT_IN_PLACE, RIGHT_BY_ROWS } RightFrom;
RightFrom schedule_right(const PassContext *c, const Kernel *k, TensorId lhs, RightFrom usual);
int schedule_sums_in_block(const PassContext *c, const Kernel *k, TensorId lhs);
int schedule_multiplies_f32(const PassContext *c, const Kernel *k, TensorId lhs);
int64_t schedule_band(const PassContext *c, const Kernel *k, TensorId lhs); /* of an NPU's blocks, see Note [Bands] */
/* Elements of the last index that one item of the pointwise equation of `lhs` covers; given in the same way. */
int64_t schedule_strip(const PassContext *c, const Kernel *k, TensorId lhs, int64_t usual); /* usual 0: the knob's own */
/* What is given for a launch as a whole, by any tensor that it computes: Note [Settings] in ir/tile.h. */
int64_t schedule_writes(const PassContext *c, const Kernel *k, TensorId lhs);
int64_t schedule_ahead(const PassContext *c, const Kernel *k, TensorId lhs);
int64_t schedule_threads(const PassContext *c, const Kernel *k, TensorId lhs);
/* To be called when the right-hand side of `from` is put into the equation of `to`, or a part of it taken out into `to`:
 * what is given for `from` then holds for `to` too. */
void schedule_fused(Kernel *k, TensorId from, TensorId to);

/* May the value of local `producer` go into its reader `consumer`? `store xp`: never. `fuse xp -> g`: it is wanted, also where
 * a rule alone would rather not; what a rule cannot do stays undone, and the report says why. FUSE_SCATTER: it is wanted row
 * by row in the sums that read it (cluster_scatter.c). */
typedef enum FuseRequest { FUSE_NEVER, FUSE_MAY, FUSE_WANTED, FUSE_SCATTER } FuseRequest;
FuseRequest schedule_fuses(const PassContext *c, const Kernel *k, Name producer, Name consumer);

/* Shall local `producer` stand in memory, not in that of a thread? */
int schedule_stores(const PassContext *c, const Kernel *k, Name producer);

/* Rows of a block of a row-block group over `row` (an index variable of k; NONE: any). */
int64_t schedule_rowblock_rows(const PassContext *c, const Kernel *k, const Cluster *rowblock);
/* Rows, at least, of a span of such blocks, for which right operands are packed once. */
int64_t schedule_span(const PassContext *c, const Kernel *k, IndexId row);
/* Columns of a strip of such a group, asked where strips are possible; 0: all columns at once. */
int64_t schedule_columns(const PassContext *c, const Kernel *k, IndexId row);
/* Does such a group keep a running maximum? Asked where it could. */
int schedule_keeps_running(const PassContext *c, const Kernel *k, IndexId row);
/* Copies of a block in a space of an NPU. */
int64_t schedule_copies(const PassContext *c, const Kernel *k, Knob space);
const Setting *schedule_copies_given(const Kernel *k, Knob space); /* NULL: no clause gives them */
/* Do an NPU's blocks of columns begin their sums at different terms? Note [K shuffle] in lower/slab.c. */
int schedule_shuffles(const PassContext *c, const Kernel *k);
/* Are items of large groups handed out first? Else in the order of the groups. */
int schedule_heaviest_first(const PassContext *c, const Kernel *k);

/* The most that a factor of a product costs which is computed while it is packed; one that costs more is stored in memory. */
uint32_t schedule_operand_cost(const PassContext *c, const Kernel *k, ExprId factor);

#endif
