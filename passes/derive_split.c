/* derive, two backward kernels for one: `derive (F, B, L) from K wrt x then w +=`.
 *
 * before:  d_g[r, f]      = bf16(d_a[r, f] * ...)                                  after, B: the first two, with d_g as an
 *          d_x[r, h]      = sum(f) d_g[r, f] * w[@r, h, f]                         `out` parameter
 *          d_w[e, h, f]  += sum(r where @r == e) d_g[r, f] * x[r, h]                      L: the last, with d_g as an `in`
 *
 * Note [Two kernels]. The one backward kernel is made first, with all targets, and its finished equations are dealt
 * out, so that both kernels compute the values of the one. Each takes what its own targets need. For a local that both
 * would compute there are two ways:
 *   - Recomputed: L computes it too. This is the way when it is cheap: an equation without reductions over what L has
 *     anyway, which are parameters, other cheap locals, and locals that are handed over because of another reader. A
 *     gather of an input or an activation of a saved value costs L as much memory traffic as reading it would.
 *   - Handed over: B writes it, as an `out` parameter more, and L reads it. Only the last locals on the ways to L's
 *     targets are: d_g, and not d_a of which d_g is made.
 * Routes and 64-bit integers are no tensors that a parameter could hold, and always recomputed.
 *   A local goes over in the type in which L's products read it. A cotangent that enters a product has that type as a
 * local (derive_cube_of()); an f32 local that L reads under the same cast everywhere, as in bf16(e[i, j]) * d_o[i, d],
 * is cast by B. Both keep all bits. */
#include "passes/derive.h"

#include <string.h>

typedef struct DeriveSplit {
    Sweep *sweep;
    Kernel *k;
    DeriveLater later;
    const uint8_t *first, *second; /* by equation: does B, L need it? */
    uint8_t *cheap;                /* by TensorId: L can compute it of parameters */
    uint8_t *handed;               /* by TensorId */
    Elem *elem;                    /* by TensorId: the type in which it is handed over */
} DeriveSplit;

static int is_later(const DeriveSplit *s, TensorId t)
{
    for (uint32_t i = 0; i < s->later.n; i++)
        if (s->later.params[i] == t)
            return 1;
    return 0;
}

static int is_written(const Kernel *k, TensorId t)
{
    return k->tensors.at[t].role == ROLE_OUT || k->tensors.at[t].role == ROLE_INOUT;
}

/* ---- who needs what ---- */

/* What one of the kernels needs: its targets are those for which is_later() is `later`. */
static LiveEquations needed(DeriveSplit *s, int later, const uint8_t *given)
{
    Kernel *k = s->k;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        Equation *q = &k->eqs.at[i];
        q->dead = q->lhs != NONE && is_written(k, q->lhs) && is_later(s, q->lhs) != later;
    }
    LiveEquations live = dce_live(k, given);
    for (uint32_t i = 0; i < k->eqs.len; i++)
        k->eqs.at[i].dead = 0;
    return live;
}

static int has_reduce(const Kernel *k, const Equation *q)
{
    if (q->kind != EQ_ASSIGN)
        return 1;
    each_below (e, k, q->rhs, EVERYWHERE)
        if (x_at(k, *e)->kind == X_REDUCE)
            return 1;
    return 0;
}

/* Does the equation read only locals that are marked, apart from parameters? */
static int reads_only(const Kernel *k, const Equation *q, const uint8_t *marked)
{
    each_below (e, k, q->rhs, EVERYWHERE)
        if (x_at(k, *e)->kind == X_LOAD && k->tensors.at[x_at(k, *e)->sym].role == ROLE_LOCAL &&
            !marked[x_at(k, *e)->sym])
            return 0;
    return 1;
}

/* In the order of the equations, so that what they read is marked before. */
static void find_cheap(DeriveSplit *s)
{
    const Kernel *k = s->k;
    memset(s->cheap, 1, k->tensors.len);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->kind == EQ_ROUTE || (!has_reduce(k, q) && reads_only(k, q, s->cheap)))
            continue;
        s->cheap[q->lhs] = 0;
        if (q->kind == EQ_TOP)
            s->cheap[q->ids] = 0;
    }
}

/* Could a parameter hold what the equation defines? Of `top` both or neither. */
static int can_be_handed(const Kernel *k, const Equation *q)
{
    return q->kind != EQ_ROUTE && k->tensors.at[q->lhs].role == ROLE_LOCAL &&
           k->tensors.at[q->lhs].elem != EL_I64;
}

/* Locals that B computes, L reads, and no cheap equation gives. */
static void find_handed(DeriveSplit *s)
{
    const Kernel *k = s->k;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (!s->first[i] || !can_be_handed(k, q))
            continue;
        s->handed[q->lhs] = !s->cheap[q->lhs];
        if (q->kind == EQ_TOP)
            s->handed[q->ids] = 1;
    }
    const uint8_t *read = needed(s, 1, s->handed).read;
    for (TensorId t = 0; t < k->tensors.len; t++)
        s->handed[t] &= read[t];
}

/* Does t stay dear when L has what is marked? */
static int is_dear(const Kernel *k, TensorId t, const uint8_t *there)
{
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        int defines = q->lhs == t || (q->kind == EQ_TOP && q->ids == t);
        if (defines && (has_reduce(k, q) || !reads_only(k, q, there)))
            return 1;
    }
    return 0;
}

/* L computes the others, of what is handed over because of other readers. */
static void keep_dear(DeriveSplit *s)
{
    const Kernel *k = s->k;
    uint8_t *there = arena_array(k->module->arena, uint8_t, k->tensors.len + 1);
    for (TensorId t = 0; t < k->tensors.len; t++)
        there[t] = s->cheap[t] || s->handed[t];
    for (TensorId t = 0; t < k->tensors.len; t++)
        s->handed[t] = s->handed[t] && is_dear(k, t, there);
    s->second = needed(s, 1, s->handed).equations;
}

/* ---- the type in which it goes over ---- */

/* How e reads t: elements of which type, EL_COUNT for none. `own`: not under one and the same cast. */
static Elem read_as(const Kernel *k, ExprId root, TensorId t)
{
    Elem own = k->tensors.at[t].elem, found = EL_COUNT;
    if (x_at(k, root)->kind == X_LOAD && x_at(k, root)->sym == t)
        return own;
    each_below (e, k, root, EVERYWHERE)
        for (uint32_t a = 0; a < x_at(k, *e)->nargs; a++) {
            const Expr *arg = x_at(k, x_arg(k, *e, a));
            Elem as = x_is_op(k, *e, OP_bf16) ? EL_BF16 : x_is_op(k, *e, OP_f16) ? EL_F16 : own;
            if (arg->kind == X_LOAD && arg->sym == t)
                found = found == EL_COUNT || found == as ? as : own;
        }
    return found;
}

/* The narrower type to which all equations of L cast what they read of the f32 local t, or t's own. */
static Elem handed_elem(const DeriveSplit *s, TensorId t)
{
    const Kernel *k = s->k;
    Elem own = k->tensors.at[t].elem, found = EL_COUNT;
    if (own != EL_F32)
        return own;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (!s->second[i])
            continue;
        Elem as = q->kind != EQ_ROUTE ? read_as(k, q->rhs, t) : q->ids == t ? own : EL_COUNT;
        if (as != EL_COUNT)
            found = found == EL_COUNT || found == as ? as : own;
    }
    return found == EL_COUNT ? own : found;
}

/* ---- the kernels ---- */

static void make_param(Kernel *k, TensorId t, Role role, Elem elem)
{
    Tensor *x = &k->tensors.at[t];
    x->role = role;
    x->elem = elem;
    x->space = SPACE_GM;
    derive_add_param(k, (Param){PARAM_TENSOR, t});
}

static void take_handed(const DeriveSplit *s, Kernel *to)
{
    for (TensorId t = 0; t < s->k->tensors.len; t++)
        if (s->handed[t])
            make_param(to, t, ROLE_IN, s->elem[t]);
}

/* L: B's inputs, what is handed over, its own targets. */
static void make_later(const DeriveSplit *s)
{
    Kernel *k = s->k, *to = derive_kernel_like(k, k->derived->later, k->derived);
    int taken = 0;
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param p = k->params.at[i];
        int target = p.kind == PARAM_TENSOR && is_written(k, p.id);
        if (target && !taken++)
            take_handed(s, to);
        if (!target || is_later(s, p.id))
            derive_add_param(to, p);
        else
            to->tensors.at[p.id].role = ROLE_LOCAL; /* that nothing defines */
    }
    for (uint32_t i = 0; i < k->eqs.len; i++)
        k->eqs.at[i].dead = !s->second[i];
    derive_copy_equations(k, to);
}

/* B: without the targets of L, with what it hands over. */
static void make_first(const DeriveSplit *s, DerivedPair *pair)
{
    Kernel *k = s->k;
    uint32_t kept = 0, n = k->tensors.len;
    for (uint32_t i = 0; i < k->params.len; i++) {
        Param p = k->params.at[i];
        if (p.kind != PARAM_TENSOR || !is_later(s, p.id))
            k->params.at[kept++] = p;
        else
            k->tensors.at[p.id].role = ROLE_LOCAL;
    }
    k->params.len = kept;
    for (uint32_t i = 0; i < k->eqs.len; i++)
        k->eqs.at[i].dead = !s->first[i];
    for (TensorId t = 0; t < n; t++) {
        if (!s->handed[t])
            continue;
        vec_push(k->module->arena, &pair->handed, k->tensors.at[t].name);
        if (s->elem[t] == k->tensors.at[t].elem)
            make_param(k, t, ROLE_OUT, s->elem[t]);
        else
            derive_add_rounded(s->sweep, t, s->elem[t]);
    }
    ir_compact(k);
}

void derive_split(Sweep *sweep, DeriveLater later, DerivedPair *pair)
{
    Kernel *k = sweep->k;
    Arena *a = sweep->arena;
    canonicalise_kernel(k);
    cse_kernel(k);
    dce_kernel(k);
    DeriveSplit s = {.sweep = sweep,
                     .k = k,
                     .later = later,
                     .cheap = arena_array(a, uint8_t, k->tensors.len + 1),
                     .handed = arena_array(a, uint8_t, k->tensors.len + 1),
                     .elem = arena_array(a, Elem, k->tensors.len + 1)};
    s.first = needed(&s, 0, NULL).equations;
    find_cheap(&s);
    find_handed(&s);
    keep_dear(&s);
    for (TensorId t = 0; t < k->tensors.len; t++)
        s.elem[t] = handed_elem(&s, t);
    make_later(&s);
    make_first(&s, pair);
}
