/* derive, first step: the forward equations in a shape whose reverse is cheap.
 *
 * Note [Normal form]. A reduction that a gradient passes through becomes a local of its own
 *   - inside another reduction, or where it does not vary with all left-hand indices: its cotangent is then
 * summed once, not once for every place that reads it;
 *   - when the cube computes it and something that is differentiated stands around it: its cotangent then has
 * a name and the product's type, and its backward is again a product of two loads;
 *   - when the backward reads its value again, as the argument of gelu or a factor of another active value: a
 * derivative text names its argument many times, and a sum inside the backward's own sums is one loop deeper.
 * What gelu and silu are taken of becomes a local, too, be it a sum or not, unless it has more indices than the left-hand side;
 *   - when it is a max or min: the choice of the backward compares with a local that has a name. The body of
 * a max or min becomes a local too, so that both comparands are the same stored value. Values do not change:
 * a local of f32 holds exactly what the expression gave.
 * What a reduction reads by a route, x[rt.token(r), h] in o[r, f] = sum(h) x[rt.token(r), h] * w[@r, h, f], becomes a local where
 * it does not vary with all left-hand indices, one for all equations that read the same: its cotangent is then a product
 * over rows, of which each token sums its own, instead of one sum over rows and f. */
#include "passes/derive.h"
#include "passes/query.h"

#include <string.h>

typedef struct DerivePlace DerivePlace;
struct DerivePlace {           /* where a node stands in its equation */
    const DerivePlace *around; /* evaluated wherever this place is; NULL: the whole equation */
    Vec(IndexId) index;        /* of the left-hand side, then of the reductions around */
    uint32_t nlhs;
    ExprId guard; /* or NONE */
    int nested;   /* inside a reduction */
    ExprMap done; /* nodes to shaped ones; made when the first one is shaped, from which all others hang */
};

typedef struct DeriveShape {
    Sweep *s;
    Kernel *k;
    Tensor lhs;
    ExprId root;   /* the value that the equation assigns, or NONE */
    ExprMap again; /* active nodes of the equation whose value the backward reads */
    Vec(Equation) out;
    Vec(Equation) gathered; /* of out, those of what is read by a route */
} DeriveShape;

static ExprId shape(DeriveShape *h, DerivePlace *p, ExprId e, int chain);

/* ---- the cube ---- */

/* Does a use an index that b does not? */
static int uses_more(const Kernel *k, ExprId a, ExprId b)
{
    each_below (n, k, a, EVERYWHERE)
        if (x_at(k, *n)->kind == X_INDEX && !x_uses_index(k, b, x_at(k, *n)->sym))
            return 1;
    return 0;
}

/* A cast pays only where the backward is a product with a sum too: one factor has an index that the other
 * lacks. */
static Elem cube_of(const Kernel *k, ExprId reduce)
{
    if (x_at(k, reduce)->kind != X_REDUCE || x_at(k, reduce)->op != RED_SUM)
        return EL_F32;
    ExprId body = x_arg(k, reduce, 0);
    if (!x_is_op(k, body, OP_mul))
        return EL_F32;
    ExprId a = x_arg(k, body, 0), b = x_arg(k, body, 1);
    Type type = (Type)x_at(k, a)->type;
    if (type != (Type)x_at(k, b)->type || (type != TY_BF16 && type != TY_F16) ||
        (!uses_more(k, a, b) && !uses_more(k, b, a)))
        return EL_F32;
    return type == TY_BF16 ? EL_BF16 : EL_F16;
}

static int is_zero(const Kernel *k, ExprId e)
{
    return x_at(k, e)->kind == X_FLOAT && x_at(k, e)->value.f == 0;
}

/* The argument of e that passes the whole cotangent on, scaled by what no gradient passes through; or NONE.
 */
static ExprId chain_next(Sweep *s, ExprId e)
{
    const Kernel *k = s->k;
    const Expr *x = x_at(k, e);
    if (x->kind == X_IF)
        return is_zero(k, x_arg(k, e, 2)) ? x_arg(k, e, 1) : (ExprId)NONE;
    if (x->kind != X_OP)
        return NONE;
    if (scalar_table[x->op].kind == SK_CAST || x->op == OP_neg)
        return x_arg(k, e, 0);
    if (x->op != OP_mul && x->op != OP_div)
        return NONE;
    ExprId a = x_arg(k, e, 0), b = x_arg(k, e, 1);
    if (!derive_is_active(s, b))
        return a;
    return x->op == OP_mul && !derive_is_active(s, a) ? b : (ExprId)NONE;
}

static Elem cube_at_root(Sweep *s, ExprId e)
{
    while (e != NONE && x_at(s->k, e)->kind != X_REDUCE)
        e = chain_next(s, e);
    return e == NONE ? EL_F32 : cube_of(s->k, e);
}

Elem derive_cube_of(Sweep *s, TensorId t)
{
    Elem elem = EL_COUNT;
    for (uint32_t i = 0; i < s->k->eqs.len && !s->cotangents_f32; i++) {
        const Equation *q = &s->k->eqs.at[i];
        if (q->lhs != t || q->kind != EQ_ASSIGN || !derive_is_active(s, q->rhs))
            continue;
        Elem one = cube_at_root(s, q->rhs);
        if (elem != EL_COUNT && elem != one)
            return EL_F32;
        elem = one;
    }
    return elem == EL_COUNT ? EL_F32 : elem;
}

/* ---- locals ---- */

/* e where the guard holds; elsewhere a value that nobody reads. A max or min stays at the root. */
static ExprId guarded(Kernel *k, ExprId e, ExprId guard)
{
    Expr x = *x_at(k, e);
    if (guard == NONE)
        return e;
    if (x.kind != X_REDUCE || x.op == RED_SUM)
        return x_if(k, x.loc, guard, e, x_float(k, x.loc, 0));
    IndexId bound[UINT8_MAX], from[UINT8_MAX];
    ExprId to[UINT8_MAX];
    for (uint32_t i = 0; i < x.nbound; i++) { /* the guard may hold the same reduction */
        from[i] = x_bound(k, e, i);
        bound[i] = derive_index_like(k, from[i]);
        to[i] = x_index(k, x.loc, bound[i]);
    }
    ExprId body = x_substitute(k, x_arg(k, e, 0), from, to, x.nbound);
    ExprId condition = x_substitute(k, x_condition(k, e), from, to, x.nbound);
    return x_reduce(k, x.loc, (ReduceKind)x.op, bound, x.nbound, body, x_and(k, x.loc, guard, condition));
}

/* A local that holds e for every value of those indices of the place that e, or the guard, varies with;
 * returns the load that stands for e. */
static ExprId hoist_as(DeriveShape *h, const DerivePlace *p, ExprId e, const char *stem)
{
    Kernel *k = h->k;
    Axis axes[MAX_RANK];
    IndexId from[MAX_RANK];
    ExprId to[MAX_RANK], here[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->index.len; i++) {
        IndexId index = p->index.at[i];
        if (!x_uses_index(k, e, index) && !x_uses_index(k, p->guard, index))
            continue;
        if (n == MAX_RANK)
            return e; /* no tensor has that many axes: leave it where it is */
        axes[n] = k->indices.at[index].axis;
        from[n] = index;
        here[n] = x_index(k, h->lhs.loc, index);
        to[n++] = x_index(k, h->lhs.loc, derive_index_like(k, index));
    }
    Loc loc = x_at(k, e)->loc;
    ExprId value = guarded(k, e, p->guard);
    Type type = (Type)x_at(k, value)->type;
    Elem elem = type == TY_BF16 ? EL_BF16 : type == TY_F16 ? EL_F16 : EL_F32;
    Equation q = ir_equation(EQ_ASSIGN, loc);
    q.lhs = derive_local(h->s, stem, loc, elem, axes, n);
    q.nindex = (uint8_t)n;
    memcpy(q.index, to, sizeof *to * n);
    q.rhs = x_substitute(k, value, from, to, n);
    derive_adjoint(h->s, q.lhs)->active = 1;
    vec_push(h->s->arena, &h->out, q);
    return x_load(k, loc, q.lhs, here);
}

static ExprId hoist(DeriveShape *h, const DerivePlace *p, ExprId e, const char *suffix)
{
    return hoist_as(h, p, e, arena_printf(h->s->arena, "%s_%s", h->lhs.name, suffix));
}

static int varies_with_all(const DeriveShape *h, const DerivePlace *p, ExprId e)
{
    for (uint32_t i = 0; i < p->nlhs; i++)
        if (!x_uses_index(h->k, e, p->index.at[i]) && !x_uses_index(h->k, p->guard, p->index.at[i]))
            return 0;
    return 1;
}

static DerivePlace place_below(const DeriveShape *h, const DerivePlace *p, ExprId guard)
{
    DerivePlace below = {
        .around = p, .nlhs = p->nlhs, .nested = p->nested, .guard = x_and(h->k, (Loc){0}, p->guard, guard)};
    for (uint32_t i = 0; i < p->index.len; i++)
        vec_push(h->s->arena, &below.index, p->index.at[i]);
    return below;
}

/* ---- what is read by a route ---- */

static int is_left(const DerivePlace *p, IndexId i)
{
    for (uint32_t n = 0; n < p->nlhs; n++)
        if (p->index.at[n] == i)
            return 1;
    return 0;
}

static int reads_by_route(const Kernel *k, const DerivePlace *p, ExprId load)
{
    for (uint32_t i = 0; i < x_at(k, load)->nargs; i++) {
        ExprId at = x_arg(k, load, i);
        if (x_at(k, at)->kind == X_TOKEN && x_at(k, x_arg(k, at, 0))->kind == X_INDEX &&
            is_left(p, x_at(k, x_arg(k, at, 0))->sym))
            return 1;
    }
    return 0;
}

/* The local that q defines, where it holds `load` for those indices of the place that load varies with; or NONE. */
static ExprId same_row(DeriveShape *h, const DerivePlace *p, ExprId load, const Equation *q)
{
    Kernel *k = h->k;
    IndexId from[MAX_RANK];
    ExprId here[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->index.len; i++) {
        if (!x_uses_index(k, load, p->index.at[i]))
            continue;
        if (n == q->nindex)
            return NONE;
        from[n] = p->index.at[i];
        here[n++] = x_index(k, h->lhs.loc, p->index.at[i]);
    }
    if (n < q->nindex || x_substitute(k, load, from, q->index, n) != q->rhs)
        return NONE;
    return x_load(k, x_at(k, load)->loc, q->lhs, here);
}

static ExprId shape_load(DeriveShape *h, const DerivePlace *p, ExprId e)
{
    if (!p->nested || p->guard != NONE || !reads_by_route(h->k, p, e) || varies_with_all(h, p, e))
        return e;
    for (uint32_t i = 0; i < h->gathered.len; i++) {
        ExprId same = same_row(h, p, e, &h->gathered.at[i]);
        if (same != NONE)
            return same;
    }
    const char *stem = arena_printf(h->s->arena, "%s_row", h->k->tensors.at[x_at(h->k, e)->sym].name);
    ExprId row = hoist_as(h, p, e, stem);
    if (row != e)
        vec_push(h->s->arena, &h->gathered, h->out.at[h->out.len - 1]);
    return row;
}

/* ---- nodes ---- */

/* Does the cotangent of an active argument of e name this value: an argument, 'a' or 'b', or the result, 'r'? */
static int is_named(Sweep *s, ExprId e, char name)
{
    const ScalarRow *op = &scalar_table[x_at(s->k, e)->op];
    for (uint32_t i = 0; i < op->arity; i++)
        if (derive_is_active(s, x_arg(s->k, e, i)) && derive_text_names(op->gradient[i], name))
            return 1;
    return 0;
}

/* Does the backward read the value of argument i of e? Those of conditions are its guards. */
static int reads_argument(Sweep *s, ExprId e, uint32_t i)
{
    const Expr *x = x_at(s->k, e);
    if (x->kind == X_IF)
        return i == 0;
    if (x->kind == X_REDUCE)
        return x->op != RED_SUM || i > 0;
    return x->kind == X_OP && (scalar_table[x->op].kind == SK_COMPARE || is_named(s, e, (char)('a' + i)));
}

/* Does the cotangent of argument i write it out, more than a load, three times or more? */
static int is_written_often(Sweep *s, ExprId e, uint32_t i)
{
    const Expr *arg = x_at(s->k, x_arg(s->k, e, i));
    return arg->kind == X_OP && scalar_table[arg->op].kind != SK_CAST &&
           derive_is_active(s, x_arg(s->k, e, i)) &&
           derive_text_names(scalar_table[x_at(s->k, e)->op].gradient[i], (char)('a' + i)) > 2;
}

/* The values below root that the backward reads, mapped to themselves; root's own is the left-hand side's. */
static ExprMap read_again(Sweep *s, ExprId root)
{
    const Kernel *k = s->k;
    Nodes below = x_below(k, root, EVERYWHERE);
    ExprMap again = x_map(k, below.n);
    for (uint32_t n = below.n; n-- > 0;) {
        ExprId e = below.at[n];
        const Expr *x = x_at(k, e);
        int all = x->kind != X_REDUCE && x_map_get(&again, e) != NONE; /* a reduction is a local itself */
        all |= x->kind == X_OP && e != root && is_named(s, e, 'r');
        for (uint32_t i = 0; i < x->nargs; i++)
            if (all || reads_argument(s, e, i))
                *x_map_at(&again, x_arg(k, e, i)) = x_arg(k, e, i);
    }
    return again;
}

static ExprId shape_reduce(DeriveShape *h, DerivePlace *p, ExprId e, int chain)
{
    Kernel *k = h->k;
    Expr x = *x_at(k, e);
    DerivePlace inner = place_below(h, p, x_condition(k, e));
    inner.nested = 1;
    for (uint32_t i = 0; i < x.nbound; i++)
        vec_push(h->s->arena, &inner.index, x_bound(k, e, i));
    ExprId args[2] = {shape(h, &inner, x_arg(k, e, 0), 0), x_condition(k, e)};
    if (x.op != RED_SUM && x_at(k, args[0])->kind != X_LOAD)
        args[0] = hoist(h, &inner, args[0], "term");
    ExprId shaped = x_with_args(k, e, args);
    int keep = x.op == RED_SUM
                   ? !p->nested && varies_with_all(h, p, shaped) && x_map_get(&h->again, e) == NONE &&
                         (chain || cube_of(k, shaped) == EL_F32)
                   : e == h->root;
    static const char *const suffix[] = {"sum", "max", "min"};
    return keep ? shaped : hoist(h, p, shaped, suffix[x.op]);
}

/* What a condition compares is evaluated before the branches, so what they share with it is shaped here,
 * once, with no guard. (The right side of `and` and `or` is not evaluated everywhere: what it reads may need the left side as a
 * guard.) A choice among it becomes a local: nested ones would otherwise be swept once for every path to them. */
static ExprId shape_condition(DeriveShape *h, DerivePlace *p, ExprId e)
{
    Kernel *k = h->k;
    if (type_is_float((Type)x_at(k, e)->type)) {
        ExprId shaped = shape(h, p, e, 0);
        if (x_at(k, shaped)->kind == X_IF && derive_is_active(h->s, e))
            shaped = *x_map_at(&p->done, e) = hoist(h, p, shaped, "if");
        return shaped;
    }
    if (x_at(k, e)->kind != X_OP)
        return e;
    ExprId args[2] = {shape_condition(h, p, x_arg(k, e, 0))};
    if (x_at(k, e)->nargs == 1)
        return x_with_args(k, e, args);
    int is_and = x_is_op(k, e, OP_and), is_or = x_is_op(k, e, OP_or);
    DerivePlace right, *at = p;
    if ((is_and || is_or) && query_reads_computed(k, x_arg(k, e, 1))) {
        right = place_below(h, p, is_and ? args[0] : x_op1(k, x_at(k, e)->loc, OP_not, args[0]));
        at = &right;
    }
    args[1] = shape_condition(h, at, x_arg(k, e, 1));
    return x_with_args(k, e, args);
}

/* What is evaluated whenever root is, mapped to itself. `below` is all that hangs from root. */
static ExprMap always(const DeriveShape *h, ExprId root, Nodes below)
{
    const Kernel *k = h->k;
    ExprMap seen = x_map(h->k, below.n);
    *x_map_at(&seen, root) = root;
    for (uint32_t n = below.n; n-- > 0;) {
        ExprId e = below.at[n];
        if (x_map_get(&seen, e) == NONE || x_at(k, e)->kind == X_REDUCE)
            continue;
        uint32_t nargs = x_at(k, e)->kind == X_IF ? 1 : x_at(k, e)->nargs;
        for (uint32_t i = 0; i < nargs; i++)
            *x_map_at(&seen, x_arg(k, e, i)) = x_arg(k, e, i);
    }
    return seen;
}

/* A choice that both branches need becomes a local: see shape_condition(). */
static void share_choices(DeriveShape *h, DerivePlace *p, ExprId then, ExprId otherwise)
{
    Nodes below = x_below(h->k, then, EVERYWHERE), others = x_below(h->k, otherwise, EVERYWHERE);
    ExprMap a = always(h, then, below), b = always(h, otherwise, others);
    for (uint32_t n = below.n; n-- > 0;) {
        ExprId e = below.at[n];
        if (x_at(h->k, e)->kind != X_IF || x_map_get(&a, e) == NONE || x_map_get(&b, e) == NONE ||
            !derive_is_active(h->s, e))
            continue;
        ExprId shaped = shape(h, p, e, 0);
        if (x_at(h->k, shaped)->kind == X_IF)
            *x_map_at(&p->done, e) = hoist(h, p, shaped, "if");
    }
}

static ExprId shape_if(DeriveShape *h, DerivePlace *p, ExprId e, int chain)
{
    Kernel *k = h->k;
    Loc loc = x_at(k, e)->loc;
    ExprId args[3] = {shape_condition(h, p, x_arg(k, e, 0)), x_arg(k, e, 1), x_arg(k, e, 2)};
    share_choices(h, p, args[1], args[2]);
    DerivePlace then = place_below(h, p, args[0]);
    DerivePlace otherwise = place_below(h, p, x_op1(k, loc, OP_not, args[0]));
    chain &= is_zero(k, args[2]);
    args[1] = shape(h, &then, args[1], chain);
    args[2] = shape(h, &otherwise, args[2], 0);
    return x_with_args(k, e, args);
}

static ExprId shape_op(DeriveShape *h, DerivePlace *p, ExprId e, int chain)
{
    Kernel *k = h->k;
    ExprId next = chain ? chain_next(h->s, e) : (ExprId)NONE, args[2];
    for (uint32_t i = 0; i < x_at(k, e)->nargs; i++) {
        args[i] = shape(h, p, x_arg(k, e, i), x_arg(k, e, i) == next);
        if (!p->nested && is_written_often(h->s, e, i))
            args[i] = *x_map_at(&p->done, x_arg(k, e, i)) = hoist(h, p, args[i], "arg");
    }
    return x_with_args(k, e, args);
}

/* Only what a gradient passes through is touched. `chain`: the root's cotangent reaches e unchanged but for
 * factors. */
static ExprId shape(DeriveShape *h, DerivePlace *p, ExprId e, int chain)
{
    if (!derive_is_active(h->s, e))
        return e;
    for (const DerivePlace *at = p; at; at = at->around)
        if (x_map_get(&at->done, e) != NONE)
            return x_map_get(&at->done, e);
    if (!p->done.key)
        p->done = x_map(h->k, x_below(h->k, e, EVERYWHERE).n);
    ExprId shaped = e;
    if (x_at(h->k, e)->kind == X_REDUCE)
        shaped = shape_reduce(h, p, e, chain);
    else if (x_at(h->k, e)->kind == X_IF)
        shaped = shape_if(h, p, e, chain);
    else if (x_at(h->k, e)->kind == X_OP)
        shaped = shape_op(h, p, e, chain);
    else if (x_at(h->k, e)->kind == X_LOAD)
        shaped = shape_load(h, p, e);
    *x_map_at(&p->done, e) = shaped;
    return shaped;
}

static void shape_equation(Sweep *s, DeriveShape *h, Equation q)
{
    Kernel *k = s->k;
    if (q.kind == EQ_ASSIGN || q.kind == EQ_TOP) {
        DerivePlace p = {.guard = NONE};
        for (uint32_t i = 0; i < q.nindex; i++)
            if (x_at(k, q.index[i])->kind == X_INDEX && (q.kind == EQ_ASSIGN || i + 1 < q.nindex))
                vec_push(s->arena, &p.index, x_at(k, q.index[i])->sym);
        if (q.kind == EQ_TOP)
            vec_push(s->arena, &p.index, q.bound);
        p.nlhs = p.index.len;
        h->lhs = k->tensors.at[q.lhs];
        h->root = q.kind == EQ_ASSIGN ? q.rhs : (ExprId)NONE; /* `top` is more than its value */
        h->again = read_again(s, q.rhs);
        q.rhs = shape(h, &p, q.rhs, q.kind == EQ_ASSIGN);
        derive_adjoint(s, q.lhs)->active |= derive_is_active(s, q.rhs);
    }
    vec_push(s->arena, &h->out, q);
}

void derive_normalise(Sweep *s)
{
    DeriveShape h = {.s = s, .k = s->k};
    for (uint32_t i = 0; i < s->k->eqs.len; i++)
        shape_equation(s, &h, s->k->eqs.at[i]);
    s->k->eqs.len = 0;
    for (uint32_t i = 0; i < h.out.len; i++)
        vec_push(s->arena, &s->k->eqs, h.out.at[i]);
}
