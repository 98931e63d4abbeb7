/* Linear forms over atoms, for x_affine and for the proofs of range.c. Private to ir/. */
#ifndef IR_LINEAR_H
#define IR_LINEAR_H

#include "ir/ir.h"

enum { MAX_ATOMS = 12 };

/* sum of coef[i] * atom[i] + constant. An atom is an integer expression taken as a whole: an index variable,
 * or something that is not affine. No coefficient is zero; extents are folded. */
typedef struct Linear {
    uint32_t n;
    ExprId atom[MAX_ATOMS];
    Extent coef[MAX_ATOMS];
    Extent constant;
} Linear;

/* These return 0 when there are too many atoms or terms, or numbers come near those at which extents saturate: every
 * step keeps away from them, so that sums and products are true. */
int linear_of(Kernel *k, ExprId e, Linear *out);
int linear_add(Module *m, Linear *into, const Linear *from, Extent factor); /* into += factor * from */
int linear_add_term(Module *m, Linear *l, ExprId atom, Extent coef);
Linear linear_const(Module *m, int64_t value);
int linear_small(const Module *m, Extent e);

/* ext_release() forgets the extents made since the mark, and all else that the module's arena gave since then. */
typedef struct ExtentMark {
    ArenaMark arena;
    ExtentForm *at;
    uint32_t len, cap;
    uint32_t *table, slots;
} ExtentMark;
ExtentMark ext_mark(const Module *m);
void ext_release(Module *m, ExtentMark mark);

static inline Extent linear_folded(const Module *m, Extent e) { return m->extents.at[e].folded; }

#endif
