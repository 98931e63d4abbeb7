/* What the two halves of the verifier share: declarations and equations (verify.c), expressions (verify_expr.c).
 * Private to ir/. */
#ifndef IR_VERIFY_H
#define IR_VERIFY_H

#include "ir/ir.h"

typedef struct Verifier {
    const Kernel *k;
    const Module *m;
    Arena *arena, *scratch;
    const Equation *eq; /* being checked, or NULL */
    const char *fault;  /* NULL: none yet */
    uint8_t *written;   /* by TensorId: its whole definition stands before this equation */
    uint8_t *routed;    /* by RouteId: likewise */
    uint32_t *left;     /* by TensorId: equations still to come that define it */
    uint32_t words;     /* of one set of index variables */
    uint64_t *bound;    /* the set that the left side binds */
    uint64_t *free;     /* by ExprId: the set that is used but not bound in it */
    uint64_t *binds;    /* by ExprId: the set that reductions in it bind */
    uint8_t *reached;   /* by ExprId: scratch of one sweep */
} Verifier;

/* Notes the first fault; always 0. */
int verify_broken(Verifier *v, ExprId e, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define REQUIRE(v, e, condition, ...)                                                                        \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return verify_broken((v), (e), __VA_ARGS__);                                                     \
    } while (0)

int verify_extent(Verifier *v, Extent e, const char *of, const char *name);

/* Every expression that an equation reaches: links, types, subscripts; fills `free` and `binds`. */
int verify_nodes(Verifier *v);
/* One expression of the equation at hand: everything it uses is defined, and every index bound. */
int verify_uses(Verifier *v, ExprId e);
int verify_subscript(Verifier *v, ExprId e, ExprId subscript, Axis axis, const char *of);
int verify_rows_known(Verifier *v, ExprId e, IndexId i);

static inline void set_add(uint64_t *set, IndexId i) { set[i / 64] |= (uint64_t)1 << (i % 64); }
static inline int set_has(const uint64_t *set, IndexId i) { return (int)(set[i / 64] >> (i % 64) & 1); }

#endif
