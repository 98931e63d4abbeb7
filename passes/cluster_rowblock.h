/* What the files of the row-block groups share: cluster_rowblock.c chooses, cluster_rowblock_join.c knows what may be a
 * member, cluster_rowblock_worth.c what is worth being one, cluster_rowblock_form.c and cluster_rowblock_sum.c
 * rewrite the equations. */
#ifndef PASSES_CLUSTER_ROWBLOCK_H
#define PASSES_CLUSTER_ROWBLOCK_H

#include "passes/cluster.h"
#include "passes/order.h"

enum { AXIS_FREE = UINT8_MAX };

/* A load inside a float sum of products. */
typedef struct RowBlockOperand {
    ExprId sum, load;
} RowBlockOperand;

typedef struct Operands {
    Vec(RowBlockOperand) list;
} Operands;

/* Equations by their place, ascending. */
typedef struct RowBlockPlaces {
    Vec(uint32_t) list;
} RowBlockPlaces;

/* The kernel as row-block groups look at it, in Module.scratch; made once, and again when its equations change. */
typedef struct Facts {
    Kernel *k;
    EquationOrder order;
    Nodes *loads;       /* by equation: the loads on its right-hand side */
    Operands *operands; /* by equation */
    uint8_t *allowed;   /* by equation: it may be a member of a row-block group at all */
    uint64_t
        *waits; /* [b * words + a / 64], bit a % 64: b needs a value that a gives, maybe through others */
    uint32_t words;
    RowBlockPlaces
        *writers; /* by tensor: the equations that write it; by tensors + route: those that make the route */
    RowBlockPlaces *readers; /* by tensor: those that read it */
    uint8_t *stored; /* by tensor: the schedule wants it in memory */
    uint8_t *large;  /* by tensor: no parameter is as large; none where a matrix unit reads its operands either way */
} Facts;

typedef enum RowBlockPart { PART_NONE, PART_DIRECT, PART_CARRIER } RowBlockPart;

/* The key variables of an equation: what it calls the row-block group's outer variables, then its row. */
typedef struct Member {
    RowBlockPart part;
    IndexId key[MAX_RANK];
} Member;

/* Products of two matrices among the members' sums: that are products of the group's rows, or plain loops in it; of the latter
 * those that write or read what is looked at twice. */
typedef struct RowBlockProducts {
    uint32_t kept, spoilt, of_twice;
} RowBlockProducts;

/* A row-block group that is growing. */
typedef struct RowBlockGroup {
    const Facts *f;
    uint32_t at[CLUSTER_MAX], n; /* the places of its members, ascending */
    uint32_t nkeys;              /* the last one is the row */
    Extent extent[MAX_RANK];
    Member *member;              /* by equation */
    uint8_t *banned;             /* by equation: tried, and not worth it */
    uint8_t *read;               /* by tensor: some member loads it */
    uint8_t *keyed;              /* by tensor: the Part that writes it ... */
    uint8_t (*key_of)[MAX_RANK]; /* ... and for each of its axes which key it is, or AXIS_FREE */
    uint32_t lost;               /* outer keys that some equation reduces over together with the row (bits) */
    RowBlockProducts products;   /* once it is complete */
} RowBlockGroup;

/* Does `then` need a value that `first` gives? */
static inline int rowblock_waits(const Facts *f, uint32_t first, uint32_t then)
{
    return f->waits[(size_t)then * f->words + first / 64] >> first % 64 & 1;
}
static inline int rowblock_has(const RowBlockGroup *s, uint32_t at) { return s->member[at].part != PART_NONE; }
static inline Extent index_extent(const Kernel *k, IndexId i) { return k->indices.at[i].axis.extent; }

/* cluster_rowblock_join.c */
Facts rowblock_facts(Kernel *k, const PassContext *c);
int rowblock_is_product(const Kernel *k, ExprId e); /* a float sum of products */
/* What equation `at` would be with these keys. */
RowBlockPart rowblock_part(const RowBlockGroup *s, uint32_t at, const IndexId *key);
/* The keys of a tensor's axes, from the equation that writes it. */
void rowblock_axes(const RowBlockGroup *s, uint32_t at, const IndexId *key, uint8_t *axes);
/* Makes equation `at` a member, when everything that Note [Row blocks] asks for holds. */
int rowblock_join(RowBlockGroup *s, uint32_t at, const IndexId *key);
/* Does some member read what `at` writes, or write what it reads? Then its keys follow. */
int rowblock_linked(const RowBlockGroup *s, uint32_t at, IndexId *key);
/* Is it a carrier, in a row-block group without outer variables, that reads rows which a member reads? Then so do its keys. */
int rowblock_beside(const RowBlockGroup *s, uint32_t at, IndexId *key);

/* cluster_rowblock_worth.c */
int rowblock_is_placed(const RowBlockGroup *s, TensorId t);
int rowblock_is_wide(const RowBlockGroup *s, TensorId t); /* rows x columns */
int rowblock_wants(const RowBlockGroup *s, uint32_t at, const IndexId *key);
/* A member that costs more than the row-block group saves by it, or NONE. */
uint32_t rowblock_useless(const RowBlockGroup *s);
RowBlockProducts rowblock_products(const RowBlockGroup *s);
int rowblock_pays(const RowBlockGroup *s);
int rowblock_shares(const RowBlockGroup *s); /* products with an operand that all rows share */

/* cluster_rowblock_form.c: the equations of s become a cluster of the kernel. */
void rowblock_form(const RowBlockGroup *s);
/* sum(t) f(s[t, y[t]]) becomes two equations, so that s is looked at row by row. */
void rowblock_split_terms(Kernel *k);

/* cluster_rowblock_sum.c: sums that several members of the cluster hold become placed tensors. */
void rowblock_share_sums(Kernel *k, uint32_t cluster);

/* cluster_needed.c: conditions that the needed region of the cluster's placed tensors makes true leave
 * their definitions. */
void cluster_drop_guards(Kernel *k, uint32_t cluster);

/* cluster_along.c: fewer passes over the columns of a row; Note [Along]. */
void cluster_along(Kernel *k, const PassContext *c, uint32_t cluster);

#endif
