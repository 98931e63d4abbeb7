/* What the files of the stripes share: cluster_stripe.c chooses, cluster_stripe_join.c knows what may be a
 * member, cluster_stripe_worth.c what is worth being one, cluster_stripe_form.c and cluster_stripe_sum.c
 * rewrite the equations. */
#ifndef PASSES_CLUSTER_STRIPE_H
#define PASSES_CLUSTER_STRIPE_H

#include "passes/cluster.h"
#include "passes/order.h"

enum { AXIS_FREE = UINT8_MAX };

/* A load inside a float sum of products. */
typedef struct StripeOperand {
    ExprId sum, load;
} StripeOperand;

typedef struct Operands {
    Vec(StripeOperand) list;
} Operands;

/* Equations by their place, ascending. */
typedef struct StripePlaces {
    Vec(uint32_t) list;
} StripePlaces;

/* The kernel as stripes look at it, in Module.scratch; made once, and again when its equations change. */
typedef struct Facts {
    Kernel *k;
    EquationOrder order;
    Nodes *loads;       /* by equation: the loads on its right-hand side */
    Operands *operands; /* by equation */
    uint8_t *allowed;   /* by equation: it may be a member of a stripe at all */
    uint64_t
        *waits; /* [b * words + a / 64], bit a % 64: b needs a value that a gives, maybe through others */
    uint32_t words;
    StripePlaces
        *writers; /* by tensor: the equations that write it; by tensors + route: those that make the route */
    StripePlaces *readers; /* by tensor: those that read it */
    uint8_t *stored; /* by tensor: the schedule wants it in memory */
} Facts;

typedef enum StripePart { PART_NONE, PART_DIRECT, PART_CARRIER } StripePart;

/* The key variables of an equation: what it calls the stripe's outer variables, then its row. */
typedef struct Member {
    StripePart part;
    IndexId key[MAX_RANK];
} Member;

/* A stripe that is growing. */
typedef struct Stripe {
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
} Stripe;

/* Does `then` need a value that `first` gives? */
static inline int stripe_waits(const Facts *f, uint32_t first, uint32_t then)
{
    return f->waits[(size_t)then * f->words + first / 64] >> first % 64 & 1;
}
static inline int stripe_has(const Stripe *s, uint32_t at) { return s->member[at].part != PART_NONE; }
static inline Extent index_extent(const Kernel *k, IndexId i) { return k->indices.at[i].axis.extent; }

/* cluster_stripe_join.c */
Facts stripe_facts(Kernel *k, const PassContext *c);
/* Is index variable i on the left-hand side? Its place, or -1. */
int stripe_on_left(const Kernel *k, const Equation *q, IndexId i);
int stripe_binds(const Kernel *k, ExprId reduce, IndexId i);
int stripe_is_product(const Kernel *k, ExprId e); /* a float sum of products */
/* What equation `at` would be with these keys. */
StripePart stripe_part(const Stripe *s, uint32_t at, const IndexId *key);
/* The keys of a tensor's axes, from the equation that writes it. */
void stripe_axes(const Stripe *s, uint32_t at, const IndexId *key, uint8_t *axes);
/* Makes equation `at` a member, when everything that Note [Stripes] asks for holds. */
int stripe_join(Stripe *s, uint32_t at, const IndexId *key);
/* Does some member read what `at` writes, or write what it reads? Then its keys follow. */
int stripe_linked(const Stripe *s, uint32_t at, IndexId *key);
/* Is it a carrier, in a stripe without outer variables, that reads rows which a member reads? Then so do its keys. */
int stripe_beside(const Stripe *s, uint32_t at, IndexId *key);

/* cluster_stripe_worth.c */
int stripe_is_placed(const Stripe *s, TensorId t);
int stripe_is_wide(const Stripe *s, TensorId t); /* rows x columns */
int stripe_wants(const Stripe *s, uint32_t at, const IndexId *key);
/* A member that costs more than the stripe saves by it, or NONE. */
uint32_t stripe_useless(const Stripe *s);
int stripe_pays(const Stripe *s);
int stripe_shares(const Stripe *s); /* products with an operand that all rows share */

/* cluster_stripe_form.c: the equations of s become a cluster of the kernel. */
void stripe_form(const Stripe *s);
/* sum(t) f(s[t, y[t]]) becomes two equations, so that s is looked at row by row. */
void stripe_split_terms(Kernel *k);

/* cluster_stripe_sum.c: sums that several members of the cluster hold become placed tensors. */
void stripe_share_sums(Kernel *k, uint32_t cluster);

/* cluster_needed.c: conditions that the needed region of the cluster's placed tensors makes true leave
 * their definitions. */
void cluster_drop_guards(Kernel *k, uint32_t cluster);

#endif
