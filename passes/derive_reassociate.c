/* derive, last step: one product for two.
 *
 * before:  o[r, h]   = sum(f) a[r, f] * w[@r, f, h]
 *          d_o[r, h] = bf16(d_y[rt.token(r), h] * p[rt.token(r), rt.slot(r)])
 *          d_a[r, f] = sum(h) d_o[r, h] * w[@r, f, h]
 *          d_p[t, k] = sum(h) d_y[t, h] * o[rt.row(t, k), h]
 * after:   s[r, f]   = sum(h) d_y[rt.token(r), h] * w[@r, f, h]
 *          d_a[r, f] = s[r, f] * p[rt.token(r), rt.slot(r)]
 *          d_p[t, k] = sum(f) a[rt.row(t, k), f] * s[rt.row(t, k), f]
 *
 * Note [Shared products]. The backward kernel recomputes o, a whole product, only to multiply it by d_y: the
 * gradient of what scales the rows of o. Put together the other way round, (d_y w) a instead of d_y (a w),
 * the inner product is the one that d_a needs anyhow, but for the scale of its rows. It pays always: o has no
 * other reader and goes, d_a's product stays one product of the same size, and the outer sum goes over f
 * where it went over h.
 *   So it is with what divides rows, as softmax's sum z does those of attention: with s = d_y v, d_z needs the sum of
 * e * s, and d_e is s / z + d_z. Where o sums under a condition (a causal mask), d_a must ask for its product
 * under the same one, and so does s. Where o is 0 but under a condition (a row that sees nothing), the reader must stand
 * under it, and d_a ask for its product under both.
 *   What rounds elsewhere: d_a's product reads d_y as it came in, where it read d_o, rounded to the product's
 * type once more; the scale is applied to the f32 sum. So a rounding goes, and none comes (a divisor's reciprocal is
 * one of f32). d_o itself stays for who else reads it (the gradient of w). Since roundings move, this is a part of
 * derive: the interpreter runs the equations that it leaves, and finite differences check them. */
#include "passes/canonicalise.h"
#include "passes/derive.h"
#include "passes/epilogue.h"
#include "passes/query.h"

#include <string.h>

/* sum(over where condition) a * b; the condition may be NONE. */
typedef struct SharedSum {
    ExprId factor[2];
    IndexId over[MAX_RANK];
    uint32_t nover;
    ExprId condition;
} SharedSum;

/* What the variables of d_a's equation, left-hand ones and then the summed ones, are called in o's. */
typedef struct Renaming {
    IndexId from[2 * MAX_RANK];
    ExprId to[2 * MAX_RANK];
    uint32_t n;
} Renaming;

/* The parts of the pattern. */
typedef struct Match {
    Kernel *k;
    uint32_t made, shared, reader; /* equations: o, d_a, d_p */
    ExprId node, other_node;       /* the sums of the reader and of d_a ... */
    SharedSum outer, inner, other; /* ... taken apart, and o's */
    uint8_t load, kept;            /* which factor of `outer` is o; which of `inner` is a */
    uint8_t at[MAX_RANK];          /* the places of what `outer` goes over in o's left-hand side */
    uint8_t common;                /* which factor of `other` is w */
    Renaming as_made;
    ExprId given;       /* o is its sum only there, else 0; or NONE: always */
    ExprId guard;       /* d_a's sum is asked for only there, or NONE: always */
    ExprId core, scale; /* d_o without rounding: core * scale, over d_a's variables; scale may be NONE */
    int whole;          /* d_a's product reads the core itself */
} Match;

static int sum_of(const Kernel *k, ExprId e, SharedSum *out)
{
    const Expr *x = x_at(k, e);
    if (x->kind != X_REDUCE || x->op != RED_SUM || x->nbound > MAX_RANK ||
        !x_is_op(k, x_arg(k, e, 0), OP_mul) || !type_is_float((Type)x->type))
        return 0;
    ExprId body = x_arg(k, e, 0);
    *out = (SharedSum){
        {x_arg(k, body, 0), x_arg(k, body, 1)}, .nover = x->nbound, .condition = x_condition(k, e)};
    for (uint32_t b = 0; b < x->nbound; b++)
        out->over[b] = x_bound(k, e, b);
    return 1;
}

static int has_plain_lhs(const Kernel *k, const Equation *q)
{
    int plain = q->kind == EQ_ASSIGN || q->kind == EQ_ADD;
    for (uint32_t i = 0; i < q->nindex; i++)
        plain &= x_at(k, q->index[i])->kind == X_INDEX;
    return plain;
}

/* The one equation that defines local t at plain indices, or NONE. */
static uint32_t definition_of(const Kernel *k, TensorId t)
{
    uint32_t at = NONE;
    for (uint32_t i = 0; k->tensors.at[t].role == ROLE_LOCAL && i < k->eqs.len; i++)
        if (k->eqs.at[i].lhs == t && k->eqs.at[i].kind != EQ_CHECK) {
            if (at != NONE || k->eqs.at[i].kind != EQ_ASSIGN || !has_plain_lhs(k, &k->eqs.at[i]))
                return NONE;
            at = i;
        }
    return at;
}

/* ---- the reader and what it reads ---- */

/* Is exactly one subscript of the load the index, and the others free of it? */
static int place_in(const Kernel *k, ExprId load, IndexId i, uint8_t *at)
{
    uint32_t found = 0;
    for (uint32_t a = 0; a < x_at(k, load)->nargs; a++) {
        const Expr *x = x_at(k, x_arg(k, load, a));
        if (x->kind == X_INDEX && x->sym == i) {
            *at = (uint8_t)a;
            found++;
        } else if (x_uses_index(k, x_arg(k, load, a), i)) {
            return 0;
        }
    }
    return found == 1;
}

/* e, which it is only where *given holds and else 0. */
static ExprId without_if(const Kernel *k, ExprId e, ExprId *given)
{
    *given = NONE;
    if (x_at(k, e)->kind != X_IF || !canon_is_zero(k, x_arg(k, e, 2)))
        return e;
    *given = x_arg(k, e, 0);
    return x_arg(k, e, 1);
}

/* Does the reader ask for o's sum only where o is its sum? */
static int is_given(const Match *m)
{
    Kernel *k = m->k;
    const Equation *made = &k->eqs.at[m->made];
    IndexId from[MAX_RANK];
    ExprId to[MAX_RANK], guard, rhs = without_if(k, k->eqs.at[m->reader].rhs, &guard);
    if (m->given == NONE)
        return 1;
    for (uint32_t i = 0; i < made->nindex; i++) {
        from[i] = x_at(k, made->index[i])->sym;
        to[i] = x_arg(k, m->outer.factor[m->load], i);
    }
    return query_is_sure(k, rhs, m->node) &&
           query_is_implied(k, x_substitute(k, m->given, from, to, made->nindex), guard);
}

static int match_made(Match *m)
{
    Kernel *k = m->k;
    ExprId load = m->outer.factor[m->load];
    IndexId h[MAX_RANK];
    uint32_t n = m->outer.nover;
    if (x_at(k, load)->kind != X_LOAD)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!place_in(k, load, m->outer.over[i], &m->at[i]))
            return 0;
    m->made = definition_of(k, x_at(k, load)->sym);
    if (m->made == NONE || m->made >= m->reader ||
        !sum_of(k, without_if(k, k->eqs.at[m->made].rhs, &m->given), &m->inner) ||
        !query_is_only_load(k, m->reader, load) || !is_given(m))
        return 0;
    for (uint32_t i = 0; i < n; i++)
        h[i] = x_at(k, k->eqs.at[m->made].index[m->at[i]])->sym;
    int first = x_uses_any(k, m->inner.factor[0], h, n), second = x_uses_any(k, m->inner.factor[1], h, n);
    m->kept = (uint8_t)first;
    return first != second && (m->inner.condition == NONE || !x_uses_any(k, m->inner.condition, h, n)) &&
           (m->given == NONE || !x_uses_any(k, m->given, h, n));
}

/* ---- the product that is there anyhow ---- */

static int is_bound(const Renaming *r, ExprId to)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->to[i] == to)
            return 1;
    return 0;
}

static int bind(Kernel *k, Renaming *r, uint32_t i, ExprId to)
{
    Axis a = k->indices.at[r->from[i]].axis, b = k->indices.at[x_at(k, to)->sym].axis;
    if (r->to[i] == to)
        return 1;
    if (r->to[i] != NONE || is_bound(r, to) || a.group != b.group || !ext_same(k->module, a.extent, b.extent))
        return 0;
    r->to[i] = to;
    return 1;
}

/* Is `to` expression `from` but for the names of variables? Then these are known. */
static int bind_all(Kernel *k, Renaming *r, ExprId from, ExprId to)
{
    const Expr *x = x_at(k, from), *y = x_at(k, to);
    if (x->kind == X_INDEX && y->kind == X_INDEX)
        for (uint32_t i = 0; i < r->n; i++)
            if (r->from[i] == x->sym)
                return bind(k, r, i, to);
    if (from == to || x->kind != y->kind || x->op != y->op || x->sym != y->sym || x->nargs != y->nargs ||
        !x->nargs || x->nbound || y->nbound)
        return from == to;
    for (uint32_t a = 0; a < x->nargs; a++)
        if (!bind_all(k, r, x_arg(k, from, a), x_arg(k, to, a)))
            return 0;
    return 1;
}

/* Does `outer` go over that variable of o? */
static int goes_over(const Match *m, ExprId variable)
{
    for (uint32_t i = 0; i < m->outer.nover; i++)
        if (m->k->eqs.at[m->made].index[m->at[i]] == variable)
            return 1;
    return 0;
}

/* Are w's variables what the sums go over: of d_a h, of o f? */
static int sums_agree(const Match *m, uint32_t nleft)
{
    const Renaming *r = &m->as_made;
    for (uint32_t i = nleft; i < r->n; i++)
        if (!goes_over(m, r->to[i]))
            return 0;
    for (uint32_t i = 0; i < m->inner.nover; i++)
        if (!is_bound(r, x_index(m->k, (Loc){0}, m->inner.over[i])))
            return 0;
    return m->other.nover == m->outer.nover;
}

/* Both equations read w: at the same variables, whatever they are called. What w does not vary with goes by order.
 * 0: they do not agree. */
static int rename_shared(Match *m)
{
    Kernel *k = m->k;
    const Equation *made = &k->eqs.at[m->made], *shared = &k->eqs.at[m->shared];
    Renaming *r = &m->as_made;
    r->n = shared->nindex + m->other.nover;
    for (uint32_t s = 0; s < r->n; s++) {
        r->from[s] = s < shared->nindex ? x_at(k, shared->index[s])->sym : m->other.over[s - shared->nindex];
        r->to[s] = NONE;
    }
    if (!bind_all(k, r, m->other.factor[m->common], m->inner.factor[1 - m->kept]) ||
        !sums_agree(m, shared->nindex))
        return 0;
    for (uint32_t s = 0, o = 0; s < shared->nindex; s++) {
        while (r->to[s] == NONE && is_bound(r, made->index[o]))
            o++;
        if (r->to[s] == NONE && !bind(k, r, s, made->index[o]))
            return 0;
    }
    return 1;
}

/* The definition of a local that is read, else the expression itself. */
static ExprId looked_up(Kernel *k, ExprId e)
{
    uint32_t at = x_at(k, e)->kind == X_LOAD ? definition_of(k, x_at(k, e)->sym) : (uint32_t)NONE;
    IndexId from[MAX_RANK];
    ExprId to[MAX_RANK];
    if (at == NONE)
        return e;
    const Equation q = k->eqs.at[at];
    for (uint32_t i = 0; i < q.nindex; i++) {
        from[i] = x_at(k, q.index[i])->sym;
        to[i] = x_arg(k, e, i);
    }
    return x_substitute(k, q.rhs, from, to, q.nindex);
}

/* Takes casts to 16 bits, conditions that d_a's guard implies, and factors and divisors that d_a's sum does not go over off e;
 * these go to m->scale. */
static void take_apart(Match *m, ExprId e)
{
    Kernel *k = m->k;
    const IndexId *over = m->other.over;
    uint32_t n = m->other.nover;
    m->scale = NONE;
    m->whole = 1;
    for (;; m->whole = 0) {
        ScalarOp cast;
        e = x_unrounded(k, e, &cast);
        if (cast != OP_COUNT)
            continue;
        ExprId condition, then = without_if(k, e, &condition);
        if (then != e && query_is_implied(k, condition, m->guard)) {
            e = then;
            continue;
        }
        int divides = x_is_op(k, e, OP_div);
        if (!divides && !x_is_op(k, e, OP_mul))
            break;
        uint32_t side = (uint32_t)(!divides && !x_uses_any(k, x_arg(k, e, 0), over, n));
        ExprId free = x_arg(k, e, 1 - side);
        if (x_uses_any(k, free, over, n))
            break;
        if (divides)
            free = x_op2(k, x_at(k, e)->loc, OP_div, x_float(k, x_at(k, e)->loc, 1), free);
        m->scale = m->scale == NONE ? free : x_op2(k, x_at(k, e)->loc, OP_mul, m->scale, free);
        e = x_arg(k, e, side);
    }
    m->core = e;
}

/* e, of d_a's equation, where the reader asks for o: o's variables are its subscripts there. */
static ExprId at_reader(const Match *m, ExprId e)
{
    Kernel *k = m->k;
    const Equation *made = &k->eqs.at[m->made];
    const Renaming *r = &m->as_made;
    ExprId load = m->outer.factor[m->load], to[2 * MAX_RANK];
    for (uint32_t s = 0; s < r->n; s++) {
        to[s] = x_index(k, (Loc){0}, r->from[s]);
        for (uint32_t o = 0; o < made->nindex; o++)
            if (r->to[s] == made->index[o])
                to[s] = x_arg(k, load, o);
    }
    return x_substitute(k, e, r->from, to, r->n);
}

/* Does e, of d_a's equation, vary with what o sums over? */
static int varies_with_terms(const Match *m, ExprId e)
{
    const Renaming *r = &m->as_made;
    for (uint32_t s = 0; s < r->n; s++)
        for (uint32_t i = 0; i < m->inner.nover; i++)
            if (x_at(m->k, r->to[s])->sym == m->inner.over[i] && x_uses_index(m->k, e, r->from[s]))
                return 1;
    return 0;
}

/* The first that will read s. */
static uint32_t first_of(const Match *m) { return m->reader < m->shared ? m->reader : m->shared; }

/* Is everything that s reads there by then? */
static int is_ready(const Match *m)
{
    const Kernel *k = m->k;
    for (uint32_t i = first_of(m); i < k->eqs.len; i++)
        for (uint32_t part = 0; part < 2; part++)
            if (x_loads(k, part ? m->core : m->other.factor[m->common], k->eqs.at[i].lhs))
                return 0;
    return 1;
}

/* Is d_a's sum asked for wherever d_a is, or wherever o has that term? */
static int match_guard(Match *m)
{
    Kernel *k = m->k;
    const Renaming *r = &m->as_made;
    ExprId rhs = without_if(k, k->eqs.at[m->shared].rhs, &m->guard);
    if (m->guard != NONE) {
        ExprId there = x_substitute(k, m->guard, r->from, r->to, r->n);
        ExprId asked = x_and(k, (Loc){0}, m->inner.condition, m->given);
        if (!query_is_implied(k, there, asked) || !query_is_implied(k, asked, there))
            return 0;
    }
    return query_is_sure(k, rhs, m->other_node);
}

static int match_factors(Match *m)
{
    Kernel *k = m->k;
    if (!rename_shared(m) || !match_guard(m))
        return 0;
    take_apart(m, looked_up(k, m->other.factor[1 - m->common]));
    if (varies_with_terms(m, m->core) ||
        x_at(k, m->core)->type != x_at(k, m->other.factor[m->common])->type || !is_ready(m))
        return 0;
    return canon_expr(k, at_reader(m, m->core)) == m->outer.factor[1 - m->load];
}

static int match_shared(Match *m)
{
    const Kernel *k = m->k;
    const Equation *q = &k->eqs.at[m->shared];
    if (m->shared == m->made || m->shared == m->reader || !has_plain_lhs(k, q) ||
        q->nindex + m->outer.nover != k->eqs.at[m->made].nindex + m->inner.nover)
        return 0;
    each_below (n, k, q->rhs, X_REDUCE) {
        m->other_node = *n;
        if (!sum_of(k, *n, &m->other) || m->other.condition != NONE)
            continue;
        for (m->common = 0; m->common < 2; m->common++)
            if (match_factors(m))
                return 1;
    }
    return 0;
}

/* Everything that follows from a sum of the reader. */
static int match_node(Match *m)
{
    if (!sum_of(m->k, m->node, &m->outer) || m->outer.condition != NONE)
        return 0;
    for (m->load = 0; m->load < 2; m->load++)
        if (match_made(m))
            for (m->shared = 0; m->shared < m->k->eqs.len; m->shared++)
                if (match_shared(m))
                    return 1;
    return 0;
}

static int match(Match *m)
{
    Kernel *k = m->k;
    for (m->reader = 0; m->reader < k->eqs.len; m->reader++) {
        if (k->eqs.at[m->reader].rhs == NONE)
            continue;
        each_below (n, k, k->eqs.at[m->reader].rhs, EVERYWHERE) {
            m->node = *n;
            if (match_node(m))
                return 1;
        }
    }
    return 0;
}

/* ---- the new equations ---- */

static TensorId new_local(Kernel *k, const Equation *like)
{
    Tensor t = {.loc = like->loc, .elem = EL_F32, .role = ROLE_LOCAL, .rank = like->nindex, .route = NONE};
    t.name = ir_fresh_name(k, arena_printf(k->module->arena, "%s_sum", k->tensors.at[like->lhs].name));
    for (uint32_t i = 0; i < like->nindex; i++)
        t.axes[i] = k->indices.at[x_at(k, like->index[i])->sym].axis;
    return ir_tensor(k, t);
}

/* Before those that read it: d_a and the reader. */
static void insert(Match *m, Equation q)
{
    Kernel *k = m->k;
    uint32_t first = first_of(m);
    vec_push(k->module->arena, &k->eqs, q);
    Equation *at = &k->eqs.at[first];
    memmove(at + 1, at, sizeof *at * (k->eqs.len - 1 - first));
    *at = q;
    m->made += m->made >= first;
    m->shared++;
    m->reader++;
}

/* s[r, f] = sum(h) core * w, before d_a, whose sum becomes s * scale. Gives s. */
static TensorId share(Match *m)
{
    Kernel *k = m->k;
    Equation q = k->eqs.at[m->shared], made = ir_equation(EQ_ASSIGN, q.loc);
    const Tensor *t = &k->tensors.at[q.lhs];
    if (m->whole && q.rhs == m->other_node && t->role == ROLE_LOCAL && t->elem == EL_F32 &&
        m->shared < m->reader)
        return q.lhs;
    made.lhs = new_local(k, &q);
    made.nindex = q.nindex;
    memcpy(made.index, q.index, sizeof made.index);
    ExprId body = x_op2(k, q.loc, OP_mul, m->core, m->other.factor[m->common]);
    made.rhs = x_reduce(k, q.loc, RED_SUM, m->other.over, m->other.nover, body, NONE);
    if (m->guard != NONE)
        made.rhs = x_if(k, q.loc, m->guard, made.rhs, x_float(k, q.loc, 0));
    ExprId value = x_load(k, q.loc, made.lhs, q.index);
    if (m->scale != NONE)
        value = x_op2(k, q.loc, OP_mul, value, m->scale);
    q.rhs = x_replace(k, q.rhs, m->other_node, value);
    k->eqs.at[m->shared] = q;
    insert(m, made);
    return made.lhs;
}

/* sum(f) a[row, f] * s[row, f] for the reader's sum. */
static ExprId reader_sum(const Match *m, TensorId s)
{
    Kernel *k = m->k;
    const Equation made = k->eqs.at[m->made];
    ExprId load = m->outer.factor[m->load], to[2 * MAX_RANK], at[MAX_RANK];
    IndexId from[2 * MAX_RANK], over[MAX_RANK];
    Loc loc = x_at(k, m->node)->loc;
    uint32_t n = 0;
    for (; n < made.nindex; n++) {
        from[n] = x_at(k, made.index[n])->sym;
        to[n] = x_arg(k, load, n);
    }
    for (uint32_t i = 0; i < m->inner.nover; i++, n++) {
        over[i] = derive_index_like(k, m->inner.over[i]);
        from[n] = m->inner.over[i];
        to[n] = x_index(k, loc, over[i]);
    }
    for (uint32_t a = 0; a < m->as_made.n - m->other.nover; a++)
        at[a] = x_substitute(k, m->as_made.to[a], from, to, n);
    ExprId kept = x_substitute(k, m->inner.factor[m->kept], from, to, n);
    ExprId condition = m->inner.condition;
    if (condition != NONE)
        condition = x_substitute(k, condition, from, to, n);
    ExprId body = x_op2(k, loc, OP_mul, kept, x_load(k, loc, s, at));
    return x_reduce(k, loc, RED_SUM, over, m->inner.nover, body, condition);
}

static void apply(Match *m)
{
    Kernel *k = m->k;
    TensorId s = share(m);
    ExprId rhs = x_replace(k, k->eqs.at[m->reader].rhs, m->node, reader_sum(m, s));
    k->eqs.at[m->reader].rhs = rhs;
    dce_kernel(k);
}

/* The pattern shows in canonical equations without dead ones; when it is not there they stay as they were. */
void derive_reassociate(Kernel *k)
{
    uint32_t n = k->eqs.len;
    Equation *before = arena_array(k->module->arena, Equation, n + 1);
    memcpy(before, k->eqs.at, sizeof *before * n);
    canonicalise_kernel(k);
    dce_kernel(k);
    Match m = {.k = k};
    int found = 0;
    for (; match(&m); found = 1)
        apply(&m);
    if (!found) {
        memcpy(k->eqs.at, before, sizeof *before * n);
        k->eqs.len = n;
    }
}
