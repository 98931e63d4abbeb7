/* What a program is. The front door of ir/, which consists of
 *   type.h       element types, scalar operations, dimensions, extents, groups
 *   tensor.h     tensors, layouts, routes, index variables
 *   equation.h   nodes of expressions, equations, clusters
 *   schedule.h   knobs, clauses, the runs of tests
 *   module.h     kernels and modules
 *   expr.h       building, walking, rewriting and proving about expressions
 *   shift.h      how values move with `shift`
 *   interpret.h  the reference interpreter
 *   place.h      how results are spread over processes that each have a part
 *
 * A Module holds dimensions, groups and kernels. A Kernel is a list of equations (equation level); the
 * lowering adds a tree of tile statements (tile level, ir/tile.h). Both levels share tensors, indices and
 * expressions; they differ in what stands around the expressions.
 *
 * Expressions are small hash-consed nodes in the kernel's arrays: two expressions of a kernel are equal
 * exactly when their ExprIds are. Index variables are unique per kernel, so scoping needs no environment.
 *
 * The text form of the equation level is the .moe language itself: ir_print() writes it, frontend/ reads it.
 *
 * Note [Sugar]. What the front end removes, so that no pass meets it:
 *   sum(r in e) t             -> sum(r where @r == e) t
 *   an access through a row that may be dropped, rt.row(t, k): the nearest reduction gets the conjunct
 *                                `rt.row(t, k) >= 0`; with none, the equation's value is if(row >= 0, value, 0)
 *   fn calls                  -> inlined (arguments are shared nodes)
 *   wp = pack(w), wt = pack_t(w) -> wp[a, b] = w[a, b], wt[b, a] = w[a, b]
 *   factors free of the reduced indices are moved out of a `sum` by canonicalise (language page, section 5) */
#ifndef IR_IR_H
#define IR_IR_H

#include "ir/expr.h"
#include "ir/interpret.h"
#include "ir/place.h"
#include "ir/shift.h"

/* ---- text ---- */

/* The text form: a complete .moe file that compiles to the same module. `kernel` NULL: all. */
void ir_print(const Module *m, const Kernel *kernel, Text *out);
/* Text writes what is shared at each use, so that functions of functions may be too long for it. Reports such kernels and
 * returns 0. */
enum { PRINTED_MAX = 1 << 20 }; /* operations of a kernel: some 10 MB */
int ir_is_printable(const Module *m);
int ir_prints_within(const Module *m, uint64_t operations); /* the same question, without a report: for a kernel at most so many */
void ir_print_expr(const Kernel *k, ExprId e, Text *out);
void ir_print_saved(const Derive *d, Text *out); /* "m as f32, r as bf16 in o" */
void ir_print_equation(const Kernel *k, const Equation *q, Text *out);

/* As text; only what k still has: passes drop locals and edges. k NULL: everything. */
void ir_print_clause(const Kernel *k, const Clause *c, Text *out);
/* May a clause of the knob name it: a tensor or an index of k? */
int ir_knob_fits(const Kernel *k, Knob knob, Name name);
int ir_fuse_fits(const Kernel *k, Name producer, Name reader, int64_t at);
/* Reports names of s that k does not define or that do not fit their clause. Returns 0 when there are none. */
int ir_check_schedule(const Kernel *k, const Schedule *s);

/* Every fact of the module once, for hashing: equal digests compile to equal code. Tests and places are left out. */
void ir_digest(const Module *m, Text *out);

/* NULL when the kernel keeps every invariant of this page, else what is broken and where. */
const char *ir_verify(const Kernel *k, Arena *a);

#endif
