/* The reference interpreter. */
#ifndef IR_INTERPRET_H
#define IR_INTERPRET_H

#include "ir/module.h"

typedef enum EvalMode {
    EVAL_REFERENCE, /* f32 scalar arithmetic, casts round, sums in f64 rounded to f32 once */
    EVAL_EXACT,     /* everything in f64, casts do nothing: for finite differences */
} EvalMode;

typedef struct EvalRoute { /* like moe_route, owned by the caller */
    int64_t tokens, choices, groups, rows;
    int64_t *start, *count;
    int32_t *slot_of, *row_of;
    int doubtful; /* of an output: made from choices that a nearby float would change */
} EvalRoute;

typedef struct EvalArg {
    double *data;     /* tensor: row-major, one double per element, whatever its type (a scalar: one) */
    EvalRoute *route; /* route */
} EvalArg;

/* Runs the equations of k. dims by DimId of the module (constants ignored); args by parameter.
 * Returns NULL or the error text (out-of-range index with tensor and value, bad size, ...), in arena a.
 * bounds, when not NULL, by parameter: receives per element of float outputs the allowed |difference| of
 * the numeric contract (language page, section 5), or NULL entries. Of i32 outputs: 0, or INFINITY where a nearby
 * float decides (a near tie of top, say). A NaN result allows a NaN only. Nothing is written back on an error's
 * behalf: outputs are then unspecified. */
const char *ir_eval(const Kernel *k, EvalMode mode, const int64_t *dims, EvalArg *args, double *const *bounds,
                    Arena *a);
/* Rounds a double to an element type (nearest even; i32 not). */
double elem_round(Elem e, double value);
/* One scalar operation on values, as the interpreter computes it. */
double scalar_eval(ScalarOp op, EvalMode mode, Type operand_type, double a, double b);

/* Makes the route of ids (row-major [T, K], -1: dropped) into `out`, whose arrays the caller gives.
 * capacity: places per group, or -1. Returns 0, or 1 + position of a value outside -1..groups-1, or -1 when the
 * rows do not fit out->rows, or -2 without memory. slot_of and row_of may be NULL. */
int64_t ir_make_route(const int32_t *ids, int64_t capacity, EvalRoute *out);
/* NULL, or why the kernel cannot be run so at these sizes (by DimId; -1: not known, then nothing is said). */
const char *ir_run_flaw(const Kernel *k, const int64_t *sizes, const TestRun *run, Arena *a);

#endif
