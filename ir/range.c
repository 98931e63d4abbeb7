/* Proofs about subscripts: when an integer expression stays inside an axis.
 *
 * Note [Proof by elimination]. A claim is P >= 0, where P is linear in *atoms* (index variables, and every
 * integer expression that is not affine, each taken as a whole) with extents as coefficients. What is known
 * has the same form: G >= 0 for the range of each index variable, for what route maps give, and for each
 * conjunct of the guard. An atom with coefficient c in P and constant g of the same sign in G goes away in P'
 * = |g| P - |c| G, and P' >= 0 implies P >= 0. When only dimensions are left, the sign is read off their
 * non-negativity, their `<= MAX`, and the fact that an index variable exists only where its extent is
 * positive. `h*D + d < H*D` falls out: (H*D - 1 - h*D - d) - (D - 1 - d) - D (H - 1 - h) = 0. A claim that failed is
 * not tried again, and a search that takes too long proves nothing. */
#include "ir/linear.h"

/* What one proof may cost; beyond it nothing is proved. */
enum {
    MAX_FACTS = 64,     /* rows that each step looks at */
    MAX_DEPTH = 8,      /* eliminations one after the other */
    MAX_STEPS = 1000,   /* claims; the longest proof of the examples and tests takes 87 */
    TRIED_SLOTS = 2048, /* twice as many as there are claims */
};

/* A claim that failed: the same facts in another order lead to it again. */
typedef struct Tried {
    uint64_t
        claim; /* a hash of it and of the facts: where two meet, a proof is missed and nothing false is proved */
    int depth;
} Tried;

typedef struct Prover {
    Kernel *k;
    Module *m;
    uint8_t *positive; /* by DimId: at least 1 wherever the subscript is evaluated */
    Tried *tried;      /* TRIED_SLOTS places, or NULL */
    uint32_t steps;
    uint32_t version; /* of the facts */
    uint32_t nfacts;
    Linear facts[MAX_FACTS]; /* each >= 0 */
} Prover;

/* ---- the sign of an extent ---- */

static int64_t dim_least(const Prover *p, DimId d) { return p->positive[d] ? p->m->dims.at[d].multiple : 0; }

/* e with every dimension written as its least value plus a non-negative rest (which keeps the name); or NONE.
 */
static Extent shifted(Prover *p, Extent e)
{
    Module *m = p->m;
    Extent sum = ext_const(m, 0);
    for (uint32_t i = 0; i < m->extents.at[e].nterms; i++) {
        Monomial t = m->extents.at[e].terms[i];
        Extent product = ext_const(m, t.coef);
        for (uint32_t d = 0; d < t.ndims; d++) {
            Extent dim = ext_add(m, ext_dim(m, t.dims[d]), ext_const(m, dim_least(p, t.dims[d])));
            product = ext_mul(m, product, dim);
            if (!linear_small(m, product))
                return NONE;
        }
        sum = ext_add(m, sum, product);
        if (!linear_small(m, sum))
            return NONE;
    }
    return sum;
}

/* The largest value of a monomial after shifting; 0 when it is not bounded. */
static int monomial_max(const Prover *p, const Monomial *t, int64_t *value)
{
    int64_t product = 1;
    for (uint32_t d = 0; d < t->ndims; d++) {
        int64_t max = p->m->dims.at[t->dims[d]].max;
        int64_t rest = max - dim_least(p, t->dims[d]);
        if (max < 0 || rest < 0 || __builtin_mul_overflow(product, rest, &product))
            return 0;
    }
    return !__builtin_mul_overflow(product, t->coef, value);
}

static int ext_nonnegative(Prover *p, Extent e)
{
    Extent rest = shifted(p, linear_folded(p->m, e));
    if (rest == NONE)
        return 0;
    ExtentForm form = p->m->extents.at[rest];
    int64_t least = 0;
    for (uint32_t i = 0; i < form.nterms; i++) {
        const Monomial *t = &form.terms[i];
        int64_t value = 0;
        if (t->coef < 0 && !monomial_max(p, t, &value))
            return 0;
        if (t->coef > 0 && t->ndims == 0)
            value = t->coef;
        if (__builtin_add_overflow(least, value, &least))
            return 0;
    }
    return least >= 0;
}

static int ext_sign(Prover *p, Extent e)
{
    if (ext_nonnegative(p, e))
        return 1;
    return ext_nonnegative(p, ext_sub(p->m, ext_const(p->m, 0), e)) ? -1 : 0;
}

/* ---- what is known ---- */

static void learn(Prover *p, const Linear *fact);

static void learn_positive(Prover *p, Extent e)
{
    const ExtentForm *form = &p->m->extents.at[e];
    if (form->nterms == 1 && form->terms[0].coef > 0)
        for (uint32_t d = 0; d < form->terms[0].ndims; d++)
            p->positive[form->terms[0].dims[d]] = 1;
}

/* lo <= atom < hi */
static void learn_between(Prover *p, ExprId atom, int64_t lo, Extent hi)
{
    Module *m = p->m;
    Linear above = linear_const(m, -lo),
           below = {.constant = ext_sub(m, linear_folded(m, hi), ext_const(m, 1))};
    linear_add_term(m, &above, atom, ext_const(m, 1));
    linear_add_term(m, &below, atom, ext_const(m, -1));
    if (p->nfacts + 2 <= MAX_FACTS) {
        p->facts[p->nfacts++] = above;
        p->facts[p->nfacts++] = below;
    }
    p->version++;
}

static int is_known(const Prover *p, ExprId atom)
{
    for (uint32_t f = 0; f < p->nfacts; f++)
        for (uint32_t i = 0; i < p->facts[f].n; i++)
            if (p->facts[f].atom[i] == atom)
                return 1;
    return 0;
}

static int prove(Prover *p, const Linear *claim, int depth);
static int prove_extent(Prover *p, Extent claim);

static int is_quotient(const Kernel *k, ExprId atom)
{
    return x_is_op(k, atom, OP_idiv) || x_is_op(k, atom, OP_imod);
}

/* The divisor of idiv or imod, which is known to be at least 1 wherever the atom is evaluated; or NONE. */
static Extent divisor_of(Prover *p, ExprId atom)
{
    Linear by;
    if (!linear_of(p->k, x_arg(p->k, atom, 1), &by) || by.n)
        return NONE;
    return prove_extent(p, ext_sub(p->m, by.constant, ext_const(p->m, 1))) ? by.constant : (Extent)NONE;
}

/* A fact about an atom that is_known() is not to ask for again: what else is in it is known. */
static void add_fact(Prover *p, const Linear *fact)
{
    if (p->nfacts < MAX_FACTS)
        p->facts[p->nfacts++] = *fact;
    p->version++;
}

/* Of q = idiv(a, b), where it rounds down: 0 <= a - b*q <= b - 1. A divisor below 1 counts as 1. */
static void learn_idiv(Prover *p, ExprId atom, const Linear *a, Extent b)
{
    Module *m = p->m;
    Extent minus = ext_const(m, -1), one = ext_const(m, 1);
    Linear low = *a, high = linear_const(m, -1);
    if (b != NONE && linear_add_term(m, &low, atom, ext_mul(m, b, minus))) {
        high.constant = ext_add(m, b, high.constant);
        if (linear_add(m, &high, &low, minus)) {
            add_fact(p, &low);
            add_fact(p, &high);
        }
    }
    if (b != NONE || !prove(p, a, MAX_DEPTH))
        return;
    low = linear_const(m, 0);
    high = *a;
    if (linear_add_term(m, &low, atom, one) && linear_add_term(m, &high, atom, minus)) {
        add_fact(p, &low);
        add_fact(p, &high);
    }
}

static void learn_imod(Prover *p, ExprId atom, Extent b)
{
    Linear low = linear_const(p->m, 0);
    if (b != NONE)
        learn_between(p, atom, 0, b);
    else if (linear_add_term(p->m, &low, atom, ext_const(p->m, 1)))
        add_fact(p, &low);
}

static void learn_atoms(Prover *p, const Linear *l);

static void learn_quotient(Prover *p, ExprId atom)
{
    Linear a;
    if (!linear_of(p->k, x_arg(p->k, atom, 0), &a))
        return;
    learn_atoms(p, &a);
    Extent b = divisor_of(p, atom);
    if (x_is_op(p->k, atom, OP_idiv))
        learn_idiv(p, atom, &a, b);
    else
        learn_imod(p, atom, b);
}

static void learn_atom(Prover *p, ExprId atom)
{
    const Kernel *k = p->k;
    const Expr *x = x_at(k, atom);
    switch ((ExprKind)x->kind) {
    case X_INDEX: {
        Extent extent = linear_folded(p->m, k->indices.at[x->sym].axis.extent);
        learn_positive(p, extent);
        learn_between(p, atom, 0, extent);
        break;
    }
    case X_TOKEN: learn_between(p, atom, 0, k->routes.at[x->sym].tokens); break;
    case X_SLOT: learn_between(p, atom, 0, k->routes.at[x->sym].choices); break;
    case X_ROW: learn_between(p, atom, -1, p->m->groups.at[k->routes.at[x->sym].group].rows); break;
    case X_GROUP: learn_between(p, atom, 0, p->m->groups.at[k->routes.at[x->sym].group].groups); break;
    case X_OP:
        if (is_quotient(k, atom))
            learn_quotient(p, atom);
        break;
    case X_FLOAT:
    case X_INT:
    case X_EXTENT:
    case X_LOAD:
    case X_IF:
    case X_REDUCE:
    case X_LANES:
    case X_THREADS: break;
    }
}

static void learn_atoms(Prover *p, const Linear *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (!is_known(p, l->atom[i]))
            learn_atom(p, l->atom[i]);
}

static void learn(Prover *p, const Linear *fact)
{
    learn_atoms(p, fact);
    if (p->nfacts < MAX_FACTS)
        p->facts[p->nfacts++] = *fact;
    p->version++;
}

/* a - b - strict >= 0 */
static void learn_at_least(Prover *p, ExprId a, ExprId b, int64_t strict)
{
    Linear x, y;
    if (!linear_of(p->k, a, &x) || !linear_of(p->k, b, &y) || !linear_add(p->m, &x, &y, ext_const(p->m, -1)))
        return;
    x.constant = ext_sub(p->m, x.constant, ext_const(p->m, strict));
    learn(p, &x);
}

/* a != b excludes the end of a range whose other side is known. */
static void learn_different(Prover *p, ExprId a, ExprId b)
{
    for (int turn = 0; turn < 2; turn++) {
        ExprId hi = turn ? b : a, lo = turn ? a : b;
        Linear x, y;
        if (!linear_of(p->k, hi, &x) || !linear_of(p->k, lo, &y) ||
            !linear_add(p->m, &x, &y, ext_const(p->m, -1)))
            return;
        learn_atoms(p, &x);
        if (prove(p, &x, MAX_DEPTH))
            learn_at_least(p, hi, lo, 1);
    }
}

static int is_integer_comparison(const Kernel *k, ExprId e)
{
    const Expr *x = x_at(k, e);
    return x->kind == X_OP && scalar_table[x->op].kind == SK_COMPARE &&
           x_at(k, x_arg(k, e, 0))->type == TY_INT && x_at(k, x_arg(k, e, 1))->type == TY_INT;
}

static void learn_condition(Prover *p, ExprId e, int negated)
{
    if (x_is_op(p->k, e, OP_not)) {
        learn_condition(p, x_arg(p->k, e, 0), !negated);
        return;
    }
    if (x_is_op(p->k, e, negated ? OP_or : OP_and)) {
        learn_condition(p, x_arg(p->k, e, 0), negated);
        learn_condition(p, x_arg(p->k, e, 1), negated);
        return;
    }
    if (!is_integer_comparison(p->k, e))
        return;
    ScalarOp op = (ScalarOp)x_at(p->k, e)->op;
    if (negated)
        op = op_negated(op);
    ExprId a = x_arg(p->k, e, 0), b = x_arg(p->k, e, 1);
    if (op == OP_ge || op == OP_gt || op == OP_eq)
        learn_at_least(p, a, b, op == OP_gt);
    if (op == OP_le || op == OP_lt || op == OP_eq)
        learn_at_least(p, b, a, op == OP_lt);
    if (op == OP_ne)
        learn_different(p, a, b);
}

/* ---- the search ---- */

/* The claim without atom number `at`. */
static Linear without(const Linear *claim, uint32_t at)
{
    Linear rest = *claim;
    rest.n--;
    rest.atom[at] = claim->atom[rest.n];
    rest.coef[at] = claim->coef[rest.n];
    return rest;
}

/* claim with atom number `at` replaced by an expression. */
static int substituted(Prover *p, const Linear *claim, uint32_t at, ExprId by, Linear *out)
{
    Linear value;
    Extent coef = claim->coef[at];
    *out = without(claim, at);
    if (!linear_of(p->k, by, &value) || !linear_add(p->m, out, &value, coef))
        return 0;
    learn_atoms(p, out);
    return 1;
}

/* One side of a choice: the claim with `by` for the atom, where `condition` (or NONE) holds or does not. */
static int prove_side(Prover *p, const Linear *claim, uint32_t at, ExprId by, ExprId condition, int negated,
                      int depth)
{
    uint32_t known = p->nfacts;
    Linear side;
    if (condition != NONE)
        learn_condition(p, condition, negated);
    int ok = substituted(p, claim, at, by, &side) && prove(p, &side, depth - 1);
    p->nfacts = known;
    p->version++;
    return ok;
}

/* -1: this atom is not a choice between two values; else whether the claim holds for it. */
static int prove_choice(Prover *p, const Linear *claim, uint32_t at, int depth)
{
    ExprId atom = claim->atom[at];
    const Kernel *k = p->k;
    if (x_at(k, atom)->kind == X_IF)
        return prove_side(p, claim, at, x_arg(k, atom, 1), x_arg(k, atom, 0), 0, depth) &&
               prove_side(p, claim, at, x_arg(k, atom, 2), x_arg(k, atom, 0), 1, depth);
    if (!x_is_op(k, atom, OP_max2) && !x_is_op(k, atom, OP_min2))
        return -1;
    int sign = ext_sign(p, claim->coef[at]);
    int either = sign == (x_is_op(k, atom, OP_max2) ? 1 : -1);
    int first = prove_side(p, claim, at, x_arg(k, atom, 0), NONE, 0, depth);
    if (first == either)
        return first;
    return prove_side(p, claim, at, x_arg(k, atom, 1), NONE, 0, depth);
}

/* by * (what remains) + (0 .. by - 1) >= 0 is what remains >= 0; 0 when the claim has no such form. */
static int reduced(Prover *p, const Linear *claim, Extent by, Linear *out)
{
    Module *m = p->m;
    int64_t rest = ext_rest(m, claim->constant, by);
    if (rest < 0)
        return 0;
    *out = *claim;
    out->constant = ext_divide(m, ext_sub(m, claim->constant, ext_const(m, rest)), by);
    int exact = out->constant != NONE;
    for (uint32_t i = 0; i < claim->n && exact; i++) {
        out->coef[i] = ext_divide(m, claim->coef[i], by);
        exact = out->coef[i] != NONE;
    }
    return exact;
}

/* A remainder is at most b - 1, of a divisor that a guard may have to tell of. */
static int prove_remainder(Prover *p, const Linear *claim, uint32_t at, int depth)
{
    Module *m = p->m;
    Extent b = ext_sign(p, claim->coef[at]) < 0 ? divisor_of(p, claim->atom[at]) : (Extent)NONE;
    if (b == NONE)
        return 0;
    Linear next = without(claim, at), most = {.constant = ext_sub(m, b, ext_const(m, 1))};
    return linear_add(m, &next, &most, claim->coef[at]) && prove(p, &next, depth - 1);
}

/* R - idiv(a, b) >= 0 is b*R + b - 1 - a >= 0, and R + idiv(a, b) >= 0 is b*R + a >= 0: as it is whole, a quotient is bounded
 * by more than its facts say. The claim may be a multiple of that. */
static int prove_quotient(Prover *p, const Linear *claim, uint32_t at, int depth)
{
    Module *m = p->m;
    ExprId atom = claim->atom[at];
    if (x_is_op(p->k, atom, OP_imod))
        return prove_remainder(p, claim, at, depth);
    int sign = x_is_op(p->k, atom, OP_idiv) ? ext_sign(p, claim->coef[at]) : 0;
    Extent b = sign ? divisor_of(p, atom) : (Extent)NONE;
    Linear unit, a, next;
    if (b == NONE || !linear_of(p->k, x_arg(p->k, atom, 0), &a))
        return 0;
    Extent size = sign > 0 ? claim->coef[at] : ext_sub(m, ext_const(m, 0), claim->coef[at]);
    if (!prove_extent(p, ext_sub(m, size, ext_const(m, 1))) || !reduced(p, claim, size, &unit))
        return 0;
    unit = without(&unit, at);
    next = linear_const(m, 0);
    if (sign < 0)
        next.constant = ext_sub(m, b, ext_const(m, 1));
    return linear_add(m, &next, &unit, b) && linear_add(m, &next, &a, ext_const(m, sign)) &&
           prove(p, &next, depth - 1);
}

/* P' of Note [Proof by elimination]; 0 when the fact does not help. `sign` is that of the atom's coefficient. */
static int eliminate(Prover *p, const Linear *claim, uint32_t at, int sign, const Linear *fact, Linear *out)
{
    Module *m = p->m;
    uint32_t f = 0;
    while (f < fact->n && fact->atom[f] != claim->atom[at])
        f++;
    if (f == fact->n)
        return 0;
    Extent c = claim->coef[at];
    int64_t g;
    *out = *claim;
    if (ext_same(m, c, fact->coef[f]))
        return linear_add(m, out, fact, ext_const(m, -1));
    if (!sign || !ext_is_const(m, fact->coef[f], &g) || (g > 0) != (sign > 0))
        return 0;
    Extent minus = sign > 0 ? ext_sub(m, ext_const(m, 0), c) : c;
    if (g != 1 && g != -1) {
        *out = linear_const(m, 0);
        if (!linear_add(m, out, claim, ext_const(m, g > 0 ? g : -g)))
            return 0;
    }
    return linear_add(m, out, fact, minus);
}

/* Has the same claim failed before, from the same facts and with at least as much depth? */
static int was_tried(Prover *p, const Linear *claim, int depth)
{
    if (!p->tried)
        p->tried = arena_array(p->m->arena, Tried, TRIED_SLOTS);
    uint64_t hash = hash_bytes(&claim->constant, sizeof claim->constant, p->version);
    for (uint32_t i = 0; i < claim->n; i++) /* in whatever order */
        hash += hash_bytes((uint32_t[]){claim->atom[i], claim->coef[i]}, 2 * sizeof(uint32_t), p->version);
    Tried *t = &p->tried[hash % TRIED_SLOTS];
    if (t->claim == hash && t->depth >= depth)
        return 1;
    *t = (Tried){hash, depth};
    return 0;
}

/* Only dimensions are left: their sign, or a guard that speaks of dimensions only (`if(0 < K, ...)`). */
static int prove_extent(Prover *p, Extent claim)
{
    if (ext_nonnegative(p, claim))
        return 1;
    for (uint32_t f = 0; f < p->nfacts; f++)
        if (p->facts[f].n == 0 && ext_nonnegative(p, ext_sub(p->m, claim, p->facts[f].constant)))
            return 1;
    return 0;
}

static int prove(Prover *p, const Linear *claim, int depth)
{
    if (claim->n == 0)
        return prove_extent(p, claim->constant);
    if (depth == 0 || p->steps > MAX_STEPS || was_tried(p, claim, depth))
        return 0;
    p->steps++;
    for (uint32_t i = 0; i < claim->n; i++) {
        int choice = prove_choice(p, claim, i, depth);
        if (choice >= 0)
            return choice;
    }
    for (uint32_t i = 0; i < claim->n; i++)
        if (prove_quotient(p, claim, i, depth))
            return 1;
    for (uint32_t i = 0; i < claim->n; i++) {
        int sign = ext_sign(p, claim->coef[i]);
        for (uint32_t f = 0; f < p->nfacts; f++) {
            Linear rest;
            if (eliminate(p, claim, i, sign, &p->facts[f], &rest) && prove(p, &rest, depth - 1))
                return 1;
        }
    }
    return 0;
}

/* sign * (e - shift) >= 0 */
static int prove_sided(Prover *p, const Linear *e, int64_t sign, Extent shift)
{
    Linear claim = linear_const(p->m, 0);
    p->steps = 0;
    if (!linear_add(p->m, &claim, e, ext_const(p->m, sign)))
        return 0;
    claim.constant = ext_sub(p->m, claim.constant, ext_mul(p->m, shift, ext_const(p->m, sign)));
    return prove(p, &claim, MAX_DEPTH);
}

/* Rows of a group are places, not numbers: only something known to be such a row is inside. */
static Proof prove_row(Prover *p, ExprId e, const Linear *l, GroupId group)
{
    const Expr *x = x_at(p->k, e);
    if (x->kind == X_INDEX)
        return p->k->indices.at[x->sym].axis.group == group ? PROOF_INSIDE : PROOF_UNKNOWN;
    if (x->kind != X_ROW || p->k->routes.at[x->sym].group != group)
        return PROOF_UNKNOWN;
    return prove_sided(p, l, 1, ext_const(p->m, 0)) ? PROOF_INSIDE : PROOF_UNKNOWN;
}

/* Facts from number `first` on contradict the others: where they are conditions, nothing is evaluated under them. */
static int contradict(Prover *p, uint32_t first)
{
    Module *m = p->m;
    for (uint32_t f = first; f < p->nfacts; f++) {
        Linear negated = linear_const(m, -1);
        p->steps = 0;
        if (linear_add(m, &negated, &p->facts[f], ext_const(m, -1)) && prove(p, &negated, MAX_DEPTH))
            return 1;
    }
    return 0;
}

static Proof prove_subscript(Prover *p, ExprId e, Axis axis, ExprId guard)
{
    Module *m = p->m;
    Linear l;
    if (!linear_of(p->k, e, &l))
        return PROOF_UNKNOWN;
    learn_atoms(p, &l);
    uint32_t first = p->nfacts;
    if (guard != NONE)
        learn_condition(p, guard, 0);
    if (axis.group != NONE)
        return prove_row(p, e, &l, axis.group);
    Extent extent = linear_folded(m, axis.extent), one = ext_const(m, 1);
    if (prove_sided(p, &l, 1, ext_const(m, 0)) && prove_sided(p, &l, -1, ext_sub(m, extent, one)))
        return PROOF_INSIDE;
    if (prove_sided(p, &l, -1, ext_const(m, -1)) || prove_sided(p, &l, 1, extent))
        return contradict(p, first) ? PROOF_INSIDE : PROOF_OUTSIDE;
    return PROOF_UNKNOWN;
}

static int prove_difference(Prover *p, ExprId a, ExprId b, int64_t by, ExprId guard)
{
    Linear x, y;
    if (!linear_of(p->k, a, &x) || !linear_of(p->k, b, &y) || !linear_add(p->m, &x, &y, ext_const(p->m, -1)))
        return 0;
    learn_atoms(p, &x);
    if (guard != NONE)
        learn_condition(p, guard, 0);
    return prove_sided(p, &x, 1, ext_const(p->m, by));
}

Proof ir_prove_range(Kernel *k, ExprId e, Axis axis, ExprId guard)
{
    Module *m = k->module;
    const Expr *x = x_at(k, e);
    if (x->type != TY_INT)
        return PROOF_UNKNOWN;
    if (x->kind == X_INDEX) { /* nearly all subscripts */
        Axis own = k->indices.at[x->sym].axis;
        if (own.group == axis.group && ext_same(m, own.extent, axis.extent))
            return PROOF_INSIDE;
    }
    ExtentMark mark = ext_mark(m); /* nothing else knows the extents made on the way */
    Prover p = {.k = k, .m = m, .positive = arena_array(m->arena, uint8_t, m->dims.len + 1)};
    Proof proof = prove_subscript(&p, e, axis, guard);
    ext_release(m, mark);
    return proof;
}

int ir_prove_at_least(Kernel *k, ExprId a, ExprId b, int64_t by, ExprId guard)
{
    Module *m = k->module;
    ExtentMark mark = ext_mark(m);
    Prover p = {.k = k, .m = m, .positive = arena_array(m->arena, uint8_t, m->dims.len + 1)};
    int proof = prove_difference(&p, a, b, by, guard);
    ext_release(m, mark);
    return proof;
}

Extent ir_divisor(Kernel *k, ExprId e)
{
    Module *m = k->module;
    ExtentMark mark = ext_mark(m);
    Prover p = {.k = k, .m = m, .positive = arena_array(m->arena, uint8_t, m->dims.len + 1)};
    Linear a, b;
    if (linear_of(k, x_arg(k, e, 0), &a))
        learn_atoms(&p, &a);
    int known = divisor_of(&p, e) != NONE;
    ext_release(m, mark);
    return known && linear_of(k, x_arg(k, e, 1), &b) ? b.constant : (Extent)NONE;
}
