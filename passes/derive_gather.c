/* derive, third step: the equation of a cotangent from its contributions.
 *
 * Note [Solving]. A contribution says: for all i that meet the guards, d_X[f(i)] gets the cotangent. Turned
 * around, d_X[j] = sum(i where guards and f(i) == j) cotangent. A subscript that is an index alone names i by
 * j: no sum over it. An affine one with a dense index of coefficient +-1 is solved for it, `i + k == j` gives
 * i = j - k where that is in range. Everything else stays a condition `f(i) == j`: a bucketed sum. */
#include "passes/derive.h"

enum { SPACE_MAX = 64, TERMS_MAX = 64 };

typedef struct Solver {
    Sweep *s;
    Kernel *k;
    const Contribution *c;
    Loc loc;
    uint32_t n;
    IndexId index[SPACE_MAX]; /* the space of the contribution */
    ExprId value[SPACE_MAX];  /* what each index is in terms of the target's and of unsolved ones; NONE:
                                 unsolved */
} Solver;

/* Contributions with the same conditions outside their sum share one `if`. */
typedef struct GatherTerm {
    ExprId condition; /* or NONE */
    ExprId value;
    Vec(ExprId) hard; /* conjuncts of the condition that tell where the value was used */
} GatherTerm;

static uint32_t position(const Solver *v, IndexId i)
{
    uint32_t at = 0;
    while (at < v->n && v->index[at] != i)
        at++;
    return at;
}

/* e with what is solved put in. */
static ExprId solved(Solver *v, ExprId e)
{
    IndexId from[SPACE_MAX];
    ExprId to[SPACE_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->value[i] != NONE) {
            from[n] = v->index[i];
            to[n++] = v->value[i];
        }
    return x_substitute(v->k, e, from, to, n);
}

static void solve(Solver *v, uint32_t at, ExprId value)
{
    value = solved(v, value);
    for (uint32_t i = 0; i < v->n; i++)
        if (v->value[i] != NONE)
            v->value[i] = x_substitute(v->k, v->value[i], &v->index[at], &value, 1);
    v->value[at] = value;
}

static int solve_bare(Solver *v, ExprId subscript, IndexId target)
{
    const Expr *x = x_at(v->k, subscript);
    if (x->kind != X_INDEX)
        return 0;
    uint32_t at = position(v, x->sym);
    if (at == v->n || v->value[at] != NONE)
        return 0;
    if (v->k->indices.at[x->sym].axis.group != v->k->indices.at[target].axis.group)
        return 0;
    solve(v, at, x_index(v->k, v->loc, target));
    return 1;
}

/* from + factor * e, kept free of needless signs and ones; from may be NONE. */
static ExprId add_scaled(Kernel *k, Loc loc, ExprId from, ExprId e, Extent factor, int negate)
{
    int64_t value;
    int one = ext_is_const(k->module, factor, &value) && (value == 1 || value == -1);
    if (one && value == -1)
        negate = !negate;
    if (!one)
        e = x_op2(k, loc, OP_mul, x_extent(k, loc, factor), e);
    if (from == NONE)
        return negate ? x_op1(k, loc, OP_neg, e) : e;
    return x_op2(k, loc, negate ? OP_sub : OP_add, from, e);
}

/* target == f(i): i = target - rest for coefficient 1, rest - target for -1. What is solved already is put in first: it may
 * be in terms of i, too. */
static int solve_affine(Solver *v, ExprId subscript, IndexId target)
{
    Kernel *k = v->k;
    Module *m = k->module;
    Affine f;
    if (!x_affine(k, solved(v, subscript), &f))
        return 0;
    for (uint32_t t = 0; t < f.n; t++) {
        uint32_t at = position(v, f.index[t]);
        int64_t coef;
        if (at == v->n || v->value[at] != NONE || k->indices.at[f.index[t]].axis.group != NONE ||
            !ext_is_const(m, f.coef[t], &coef) || (coef != 1 && coef != -1))
            continue;
        ExprId value = coef == 1 ? x_index(k, v->loc, target) : (ExprId)NONE;
        for (uint32_t o = 0; o < f.n; o++)
            if (o != t)
                value = add_scaled(k, v->loc, value, x_index(k, v->loc, f.index[o]), f.coef[o], coef == 1);
        int64_t constant;
        if (!ext_is_const(m, f.constant, &constant))
            value = add_scaled(k, v->loc, value, x_extent(k, v->loc, f.constant), ext_const(m, 1), coef == 1);
        else if (constant || value == NONE)
            value = add_scaled(k, v->loc, value, x_int(k, v->loc, constant < 0 ? -constant : constant),
                               ext_const(m, 1), (coef == 1) != (constant < 0));
        if (coef == -1)
            value = x_op2(k, v->loc, OP_sub, value, x_index(k, v->loc, target));
        solve(v, at, x_subscript(k, value, k->indices.at[f.index[t]].axis));
        return 1;
    }
    return 0;
}

/* ---- one contribution ---- */

static void guards(Solver *v, int soft, EvalSpace *out)
{
    for (uint32_t i = 0; i < v->c->space.guard.len; i++) {
        DeriveGuard g = v->c->space.guard.at[i];
        if (g.soft == soft)
            vec_push(v->s->arena, &out->guard, (DeriveGuard){solved(v, g.condition), soft});
    }
}

/* Conditions of the turned sum, in an order in which each is evaluated only where those before it hold:
 * ranges of what was solved, guards of the access, subscripts that were not solved. None needs a soft one: those come
 * last, as their values may be long. */
static void conditions(Solver *v, const IndexId *target, uint32_t rank, const int *done, EvalSpace *out)
{
    Kernel *k = v->k;
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->value[i] == NONE)
            continue;
        Axis axis = k->indices.at[v->index[i]].axis;
        ExprId e = v->value[i];
        if (ir_prove_range(k, e, axis, NONE) == PROOF_INSIDE)
            continue;
        ExprId low = x_op2(k, v->loc, OP_ge, e, x_int(k, v->loc, 0));
        ExprId high = x_op2(k, v->loc, OP_lt, e, x_extent(k, v->loc, axis.extent));
        vec_push(v->s->arena, &out->guard, (DeriveGuard){low, 0});
        vec_push(v->s->arena, &out->guard, (DeriveGuard){high, 0});
    }
    guards(v, 0, out);
    for (uint32_t a = 0; a < rank; a++)
        if (!done[a]) {
            ExprId f = solved(v, v->c->subscript[a]);
            ExprId same = x_op2(k, v->loc, OP_eq, f, x_index(k, v->loc, target[a]));
            vec_push(v->s->arena, &out->guard, (DeriveGuard){same, 0});
        }
    guards(v, 1, out);
}

/* Conditions free of the summed indices stand outside the sum; one that loads does so only when nothing that
 * may guard it stays inside. */
static GatherTerm make_term(Solver *v, const EvalSpace *where, const IndexId *summed, uint32_t nsummed,
                            ExprId value)
{
    Kernel *k = v->k;
    GatherTerm t = {.condition = NONE};
    ExprId inside = NONE;
    for (uint32_t i = 0; i < where->guard.len; i++) {
        DeriveGuard g = where->guard.at[i];
        int outside =
            !x_uses_any(k, g.condition, summed, nsummed) && (inside == NONE || !x_loads_any(k, g.condition));
        if (!outside) {
            inside = x_and(k, v->loc, inside, g.condition);
            continue;
        }
        t.condition = x_and(k, v->loc, t.condition, g.condition);
        if (!g.soft)
            vec_push(v->s->arena, &t.hard, g.condition);
    }
    t.value = nsummed ? x_reduce(k, v->loc, RED_SUM, summed, nsummed, value, inside) : value;
    return t;
}

static GatherTerm turn(Sweep *s, const Contribution *c, const IndexId *target, uint32_t rank)
{
    Kernel *k = s->k;
    Solver v = {.s = s, .k = k, .c = c, .loc = x_at(k, c->cotangent)->loc, .n = c->space.index.len};
    int done[MAX_RANK] = {0};
    if (v.n > SPACE_MAX)
        BUG(s->arena, "derive: %u nested indices in kernel %s", v.n, k->name);
    for (uint32_t i = 0; i < v.n; i++) {
        v.index[i] = c->space.index.at[i];
        v.value[i] = NONE;
    }
    for (uint32_t a = 0; a < rank; a++)
        done[a] = solve_bare(&v, c->subscript[a], target[a]);
    for (uint32_t a = 0; a < rank; a++)
        if (!done[a])
            done[a] = solve_affine(&v, c->subscript[a], target[a]);
    IndexId summed[SPACE_MAX];
    uint32_t nsummed = 0;
    for (uint32_t i = 0; i < v.n; i++)
        if (v.value[i] == NONE)
            summed[nsummed++] = derive_index_like(k, v.index[i]);
    for (uint32_t i = 0, n = 0; i < v.n; i++)
        if (v.value[i] == NONE)
            solve(&v, i, x_index(k, v.loc, summed[n++]));
    EvalSpace where = {0};
    conditions(&v, target, rank, done, &where);
    return make_term(&v, &where, summed, nsummed, solved(&v, c->cotangent));
}

/* ---- all contributions ---- */

static uint32_t add_term(Sweep *s, GatherTerm *terms, uint32_t n, GatherTerm t)
{
    for (uint32_t i = 0; i < n; i++)
        if (terms[i].condition == t.condition) {
            terms[i].value = derive_sum(s->k, terms[i].value, t.value);
            return n;
        }
    if (n == TERMS_MAX) {
        /* more different conditions than anyone writes: fold the first two, support stays an
         * over-approximation */
        Loc loc = x_at(s->k, t.value)->loc;
        ExprId zero = x_float(s->k, loc, 0);
        for (uint32_t i = 0; i < 2; i++)
            if (terms[i].condition != NONE)
                terms[i].value = x_if(s->k, loc, terms[i].condition, terms[i].value, zero);
        terms[0].value = derive_sum(s->k, terms[0].value, terms[1].value);
        terms[0].condition = NONE;
        terms[0].hard.len = 0;
        for (uint32_t i = 1; i + 1 < n; i++)
            terms[i] = terms[i + 1];
        n--;
    }
    terms[n] = t;
    return n + 1;
}

static int holds(const GatherTerm *t, ExprId condition)
{
    for (uint32_t i = 0; i < t->hard.len; i++)
        if (t->hard.at[i] == condition)
            return 1;
    return 0;
}

/* Where any of the terms exists: what they have in common, and one of the rest of each. */
static void find_support(Sweep *s, const GatherTerm *terms, uint32_t n, Adjoint *a)
{
    Kernel *k = s->k;
    ExprId either = NONE;
    int open = 0; /* some term has no condition beyond the common ones */
    for (uint32_t t = 0; t < n; t++) {
        ExprId rest = NONE;
        for (uint32_t i = 0; i < terms[t].hard.len; i++) {
            ExprId c = terms[t].hard.at[i];
            uint32_t in = 0;
            while (in < n && holds(&terms[in], c))
                in++;
            if (in < n)
                rest = x_and(k, (Loc){0}, rest, c);
            else if (t == 0)
                vec_push(s->arena, &a->support, c);
        }
        open |= rest == NONE;
        if (!open)
            either = either == NONE ? rest : x_op2(k, (Loc){0}, OP_or, either, rest);
    }
    if (!open && either != NONE)
        vec_push(s->arena, &a->support, either);
}

static ExprId total(Kernel *k, Loc loc, const GatherTerm *terms, uint32_t n)
{
    ExprId sum = NONE;
    for (uint32_t i = 0; i < n; i++) {
        ExprId value = terms[i].value;
        if (terms[i].condition != NONE)
            value = x_if(k, loc, terms[i].condition, value, x_float(k, loc, 0));
        sum = derive_sum(k, sum, value);
    }
    return sum == NONE ? x_float(k, loc, 0) : sum;
}

TensorId derive_gather(Sweep *s, TensorId x, TensorId into, Elem elem)
{
    Kernel *k = s->k;
    Tensor shape = k->tensors.at[x];
    Adjoint *a = derive_adjoint(s, x);
    GatherTerm terms[TERMS_MAX];
    uint32_t n = 0;
    derive_over(s, x, a->over);
    if (a->incoming != NONE)
        terms[n++] = (GatherTerm){.condition = NONE, .value = derive_load(k, a->incoming, a->over)};
    for (uint32_t i = 0; i < a->contributions.len; i++)
        n = add_term(s, terms, n, turn(s, &a->contributions.at[i], a->over, shape.rank));
    find_support(s, terms, n, a);
    ExprId value = total(k, shape.loc, terms, n);
    if (into == NONE) {
        Type type = (Type)x_at(k, value)->type;
        if (elem == EL_F32 && type != TY_F32)
            elem = type == TY_BF16 ? EL_BF16 : EL_F16; /* a bare load keeps its type */
        IndexId over[MAX_RANK];
        for (uint32_t i = 0; i < shape.rank; i++)
            over[i] = a->over[i];
        const char *stem = arena_printf(s->arena, "d_%s", shape.name);
        into = derive_local(s, stem, shape.loc, elem, shape.axes, shape.rank);
        derive_emit(s, EQ_ASSIGN, shape.loc, into, over, derive_cast(k, value, elem));
        return into;
    }
    if (a->mode == GRAD_ADD)
        derive_emit(s, EQ_ADD, shape.loc, into, a->over, value);
    else
        derive_emit(s, EQ_ASSIGN, shape.loc, into, a->over, derive_cast(k, value, k->tensors.at[into].elem));
    return into;
}
