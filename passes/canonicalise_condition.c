/* canonicalise: conditions and `if`. There is no constant condition in the language, so what is known to hold
 * leaves its list of conjuncts, and an `if` or reduction whose list is known goes away with it. */
#include "passes/canonicalise.h"

ExprId canon_and(Kernel *k, Loc loc, const ExprId *list, uint32_t n)
{
    ExprId all = NONE;
    for (uint32_t i = 0; i < n; i++)
        all = x_and(k, loc, all, list[i]);
    return all;
}

int canon_may_join(const Kernel *k, const Conjuncts *c, ExprId condition)
{
    ExprId list[JOINED_MAX + 1];
    return c->n + x_conjuncts(k, condition, list, JOINED_MAX + 1) <= JOINED_MAX;
}

/* The sides of `or`; 0: more than `max`. */
static uint32_t sides_of(const Kernel *k, ExprId e, ExprId *out, uint32_t max)
{
    if (!x_is_op(k, e, OP_or)) {
        *out = e;
        return max > 0;
    }
    uint32_t left = sides_of(k, x_arg(k, e, 0), out, max),
             right = left ? sides_of(k, x_arg(k, e, 1), out + left, max - left) : 0;
    return right ? left + right : 0;
}

static int known(Kernel *k, ExprId c, ExprId guard);

static int compares_integers(const Kernel *k, ExprId c)
{
    return x_at(k, c)->kind == X_OP && scalar_table[x_at(k, c)->op].kind == SK_COMPARE &&
           x_at(k, x_arg(k, c, 0))->type == TY_INT && x_at(k, x_arg(k, c, 1))->type == TY_INT;
}

/* What holds where the comparison c, of which nothing is known under `guard`, does not; NONE: nothing that a proof could use. */
static ExprId opposite(Kernel *k, ExprId c, ExprId guard)
{
    if (!compares_integers(k, c) || x_is_op(k, c, OP_ne))
        return NONE;
    Loc loc = x_at(k, c)->loc;
    ExprId a = x_arg(k, c, 0), b = x_arg(k, c, 1);
    if (!x_is_op(k, c, OP_eq))
        return x_op2(k, loc, op_negated((ScalarOp)x_at(k, c)->op), a, b);
    if (ir_prove_at_least(k, a, b, 0, guard)) /* at an end of what a can be */
        return x_op2(k, loc, OP_gt, a, b);
    return ir_prove_at_least(k, b, a, 0, guard) ? x_op2(k, loc, OP_lt, a, b) : (ExprId)NONE;
}

/* Does it hold, as `i == 0` does of an i below 1? */
static int holds(Kernel *k, ExprId c, ExprId guard)
{
    if (!x_is_op(k, c, OP_eq) || !compares_integers(k, c))
        return known(k, c, guard) == 1;
    ExprId a = x_arg(k, c, 0), b = x_arg(k, c, 1);
    return ir_prove_at_least(k, a, b, 0, guard) && ir_prove_at_least(k, b, a, 0, guard);
}

enum { SIDES_MAX = 8 };

/* Does one side of an `or` hold always? A side with one comparison that is not known is taken not to hold while the others are looked at:
 * `i < n or i >= n and i < m or i >= m`, parts of a row that gradients come back from. */
static int covers_all(Kernel *k, ExprId either, ExprId guard)
{
    ExprId side[SIDES_MAX], part[CONJUNCTS_MAX];
    uint32_t n = sides_of(k, either, side, SIDES_MAX);
    for (int more = 1; more;) {
        more = 0;
        for (uint32_t i = 0; i < n; i++) {
            ExprId open = NONE;
            uint32_t opens = 0, parts = x_conjuncts(k, side[i], part, CONJUNCTS_MAX);
            for (uint32_t p = 0; p < parts; p++)
                if (!holds(k, part[p], guard)) {
                    open = part[p];
                    opens++;
                }
            if (opens == 0)
                return 1;
            ExprId other = opens == 1 ? opposite(k, open, guard) : (ExprId)NONE;
            if (other == NONE)
                continue;
            guard = x_and(k, (Loc){0}, guard, other);
            side[i] = side[--n];
            more = 1;
            break;
        }
    }
    return 0;
}

/* 1: holds, -1: never holds, 0: not known; under `guard`. */
static int known(Kernel *k, ExprId c, ExprId guard)
{
    if (x_is_op(k, c, OP_or))
        return covers_all(k, c, guard);
    if (!compares_integers(k, c))
        return 0;
    ScalarOp op = (ScalarOp)x_at(k, c)->op;
    ExprId a = x_arg(k, c, 0), b = x_arg(k, c, 1);
    if (op == OP_gt || op == OP_ge) {
        ExprId swap = a;
        a = b;
        b = swap;
        op = op == OP_gt ? OP_lt : OP_le;
    }
    int64_t strict = op == OP_lt;
    if (op == OP_lt || op == OP_le) /* b - a >= strict holds; a - b >= 1 - strict never */
        return ir_prove_at_least(k, b, a, strict, guard) ? 1 : -ir_prove_at_least(k, a, b, 1 - strict, guard);
    int equal = a == b,
        apart = !equal && (ir_prove_at_least(k, a, b, 1, guard) || ir_prove_at_least(k, b, a, 1, guard));
    return op == OP_eq ? equal - apart : apart - equal;
}

/* What is known to hold is left out. A conjunct that never holds stays, as the last one: those after it are not evaluated,
 * and the list means the same to whoever does not look at `never`. */
static void add_conjunct(Kernel *k, Conjuncts *c, ExprId e)
{
    if (c->never || x_is_among(c->list, c->n, e))
        return;
    int truth = known(k, e, canon_and(k, (Loc){0}, c->list, c->n));
    c->never = truth < 0;
    if (truth <= 0)
        c->list[c->n++] = e;
}

/* The language (section 4) wants a guard that names an index of each affine subscript that is not known to be inside, and any
 * guard of what is outside for all values. Is e that guard for one in `body`, which `others` stand before? */
static int is_only_guard(Kernel *k, ExprId e, ExprId others, ExprId body)
{
    Affine s;
    each_below (n, k, body, EVERYWHERE)
        for (uint32_t a = 0; x_at(k, *n)->kind == X_LOAD && a < x_at(k, *n)->nargs; a++) {
            ExprId at = x_arg(k, *n, a);
            if (x_at(k, at)->kind == X_INDEX || !x_affine(k, at, &s))
                continue;
            Proof proof = ir_prove_range(k, at, k->tensors.at[x_at(k, *n)->sym].axes[a], others);
            int names = x_uses_any(k, e, s.index, s.n) && !x_uses_any(k, others, s.index, s.n);
            if (proof == PROOF_OUTSIDE ? names || others == NONE : proof == PROOF_UNKNOWN && names)
                return 1;
        }
    return 0;
}

/* Where among the conjuncts must e stand, which holds whenever they do: before the first of them, or `body` (NONE: nothing), whose only
 * guard it is; or NONE. */
static uint32_t guards_at(Kernel *k, const Conjuncts *c, ExprId e, ExprId body)
{
    for (uint32_t i = 0; i <= c->n; i++) {
        ExprId guarded = i < c->n ? c->list[i] : body;
        if (guarded != NONE && is_only_guard(k, e, canon_and(k, (Loc){0}, c->list, i), guarded))
            return i;
    }
    return NONE;
}

static void insert(Conjuncts *c, uint32_t at, ExprId e)
{
    for (uint32_t i = c->n++; i > at; i--)
        c->list[i] = c->list[i - 1];
    c->list[at] = e;
}

/* Conjuncts that do not load come first: they cost nothing and guard the others. */
Conjuncts canon_conjuncts(Kernel *k, ExprId condition, ExprId body)
{
    Conjuncts c = {.n = 0};
    ExprId list[CONJUNCTS_MAX];
    uint32_t n = x_conjuncts(k, condition, list, CONJUNCTS_MAX);
    for (int loads = 0; loads < 2; loads++)
        for (uint32_t i = 0; i < n; i++)
            if (x_loads_any(k, list[i]) == loads)
                add_conjunct(k, &c, list[i]);
    for (uint32_t i = 0; !c.never && i < n; i++) {
        uint32_t at = x_is_among(c.list, c.n, list[i]) ? NONE : guards_at(k, &c, list[i], body);
        if (at != NONE)
            insert(&c, at, list[i]);
    }
    return c;
}

ExprId canon_if(Kernel *k, ExprId e)
{
    Loc loc = x_at(k, e)->loc;
    Type type = (Type)x_at(k, e)->type;
    ExprId then = x_arg(k, e, 1), otherwise = x_arg(k, e, 2);
    Conjuncts c = canon_conjuncts(k, x_arg(k, e, 0), then);
    if (c.never)
        return x_as(k, otherwise, type);
    if (c.n == 0)
        return x_as(k, then, type);
    ExprId condition = canon_and(k, loc, c.list, c.n);
    if (x_at(k, then)->kind == X_IF && x_arg(k, then, 2) == otherwise &&
        canon_may_join(k, &c, x_arg(k, then, 0))) {
        condition = x_and(k, loc, condition, x_arg(k, then, 0));
        then = x_arg(k, then, 1);
    }
    return x_as(k, x_if(k, loc, condition, then, otherwise), type);
}
