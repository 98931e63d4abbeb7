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
 *   What rounds elsewhere: d_a's product reads d_y as it came in, where it read d_o, rounded to the product's
 * type once more; the scale is applied to the f32 sum. So a rounding goes, and none comes. d_o itself stays
 * for who else reads it (the gradient of w). Since roundings move, this is a part of derive: the interpreter
 * runs the equations that it leaves, and finite differences check them. */
#include "passes/canonicalise.h"
#include "passes/derive.h"
#include "passes/drain.h"

#include <string.h>

/* sum(over) a * b, without a condition. */
typedef struct Sum {
    ExprId factor[2];
    IndexId over;
} Sum;

/* The parts of the pattern. Variables of `made` and `shared` are their left-hand ones; they agree axis by
 * axis but for the place `at` of the index that the other one sums over. */
typedef struct Match {
    Kernel *k;
    uint32_t made, shared, reader; /* equations: o, d_a, d_p */
    ExprId node, other_node;       /* the sums of the reader and of d_a ... */
    Sum outer, inner, other;       /* ... taken apart, and o's */
    uint8_t load, kept;            /* which factor of `outer` is o; which of `inner` is a */
    uint8_t at, shared_at;         /* h in o's left-hand side, f in d_a's */
    uint8_t common;                /* which factor of `other` is w */
    ExprId core, scale; /* d_o without rounding: core * scale, over d_a's variables; scale may be NONE */
    int whole;          /* d_a's product reads the core itself */
} Match;

static int sum_of(const Kernel *k, ExprId e, Sum *out)
{
    const Expr *x = x_at(k, e);
    if (x->kind != X_REDUCE || x->op != RED_SUM || x->nbound != 1 || x->nargs != 1 ||
        !x_is_op(k, x_arg(k, e, 0), OP_mul) || !type_is_float((Type)x->type))
        return 0;
    ExprId body = x_arg(k, e, 0);
    *out = (Sum){{x_arg(k, body, 0), x_arg(k, body, 1)}, x_bound(k, e, 0)};
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

/* Is `load` all that anybody reads of its tensor? */
static int is_only_load(const Kernel *k, uint32_t reader, ExprId load)
{
    TensorId t = x_at(k, load)->sym;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->ids == t)
            return 0;
        for (uint32_t s = 0; s < q->nindex; s++)
            if (x_loads(k, q->index[s], t))
                return 0;
        if (q->rhs == NONE || !x_loads(k, q->rhs, t))
            continue;
        each_below (n, k, q->rhs, EVERYWHERE)
            if (x_at(k, *n)->kind == X_LOAD && x_at(k, *n)->sym == t && (i != reader || *n != load))
                return 0;
    }
    return 1;
}

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

static int match_made(Match *m)
{
    Kernel *k = m->k;
    ExprId load = m->outer.factor[m->load];
    if (x_at(k, load)->kind != X_LOAD || !place_in(k, load, m->outer.over, &m->at))
        return 0;
    m->made = definition_of(k, x_at(k, load)->sym);
    if (m->made == NONE || m->made >= m->reader || !sum_of(k, k->eqs.at[m->made].rhs, &m->inner) ||
        !is_only_load(k, m->reader, load))
        return 0;
    IndexId h = x_at(k, k->eqs.at[m->made].index[m->at])->sym;
    int first = x_uses_index(k, m->inner.factor[0], h), second = x_uses_index(k, m->inner.factor[1], h);
    m->kept = (uint8_t)first;
    return first != second;
}

/* ---- the product that is there anyhow ---- */

/* The left-hand variables of d_a as those of o: `at` of d_a is what o sums over. 0: their axes differ. */
static int rename_shared(const Match *m, IndexId *from, ExprId *to)
{
    Kernel *k = m->k;
    const Equation *made = &k->eqs.at[m->made], *shared = &k->eqs.at[m->shared];
    uint32_t n = 0;
    for (uint32_t s = 0, o = 0; s < shared->nindex; s++) {
        from[n] = x_at(k, shared->index[s])->sym;
        if (s == m->shared_at) {
            to[n++] = x_index(k, made->loc, m->inner.over);
            continue;
        }
        o += o == m->at;
        to[n++] = made->index[o++];
    }
    from[n] = m->other.over;
    to[n++] = made->index[m->at];
    for (uint32_t i = 0; i < n; i++) {
        Axis a = k->indices.at[from[i]].axis, b = k->indices.at[x_at(k, to[i])->sym].axis;
        if (a.group != b.group || !ext_same(k->module, a.extent, b.extent))
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

/* Takes casts to 16 bits and factors free of `over` off e; the factors go to m->scale. */
static void take_apart(Match *m, ExprId e, IndexId over)
{
    Kernel *k = m->k;
    m->scale = NONE;
    m->whole = 1;
    for (;; m->whole = 0) {
        if (x_is_op(k, e, OP_bf16) || x_is_op(k, e, OP_f16)) {
            e = x_arg(k, e, 0);
            continue;
        }
        if (!x_is_op(k, e, OP_mul))
            break;
        uint32_t side = (uint32_t)!x_uses_index(k, x_arg(k, e, 0), over);
        ExprId free = x_arg(k, e, 1 - side);
        if (x_uses_index(k, free, over))
            break;
        m->scale = m->scale == NONE ? free : x_op2(k, x_at(k, e)->loc, OP_mul, m->scale, free);
        e = x_arg(k, e, side);
    }
    m->core = e;
}

/* The core where the reader asks for o: at its subscripts, and at its own summed index. */
static ExprId core_at_reader(const Match *m)
{
    Kernel *k = m->k;
    const Equation shared = k->eqs.at[m->shared];
    ExprId load = m->outer.factor[m->load];
    IndexId from[MAX_RANK + 1];
    ExprId to[MAX_RANK + 1];
    uint32_t n = 0;
    for (uint32_t s = 0, o = 0; s < shared.nindex; s++) {
        if (s == m->shared_at)
            continue;
        o += o == m->at;
        from[n] = x_at(k, shared.index[s])->sym;
        to[n++] = x_arg(k, load, o++);
    }
    from[n] = m->other.over;
    to[n++] = x_index(k, shared.loc, m->outer.over);
    return canon_expr(k, x_substitute(k, m->core, from, to, n));
}

static int match_factors(Match *m)
{
    Kernel *k = m->k;
    IndexId from[MAX_RANK + 1];
    ExprId to[MAX_RANK + 1];
    ExprId common = m->other.factor[m->common], rest = m->other.factor[1 - m->common];
    uint32_t n = k->eqs.at[m->shared].nindex + 1u;
    if (!rename_shared(m, from, to) || x_substitute(k, common, from, to, n) != m->inner.factor[1 - m->kept])
        return 0;
    take_apart(m, looked_up(k, rest), m->other.over);
    if (x_uses_index(k, m->core, x_at(k, k->eqs.at[m->shared].index[m->shared_at])->sym) ||
        x_at(k, m->core)->type != x_at(k, common)->type)
        return 0;
    return core_at_reader(m) == m->outer.factor[1 - m->load];
}

static int match_shared(Match *m)
{
    const Kernel *k = m->k;
    const Equation *q = &k->eqs.at[m->shared];
    if (m->shared == m->made || !has_plain_lhs(k, q) || q->nindex != k->eqs.at[m->made].nindex)
        return 0;
    each_below (n, k, q->rhs, X_REDUCE) {
        m->other_node = *n;
        if (!sum_of(k, *n, &m->other) || !drain_is_sure(k, k->eqs.at[m->shared].rhs, *n))
            continue;
        for (m->shared_at = 0; m->shared_at < k->eqs.at[m->shared].nindex; m->shared_at++)
            for (m->common = 0; m->common < 2; m->common++)
                if (match_factors(m))
                    return 1;
    }
    return 0;
}

/* Everything that follows from a sum of the reader. */
static int match_node(Match *m)
{
    if (!sum_of(m->k, m->node, &m->outer))
        return 0;
    for (m->load = 0; m->load < 2; m->load++)
        if (match_made(m))
            for (m->shared = 0; m->shared < m->reader; m->shared++)
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

typedef struct Exchange {
    ExprId from, to;
} Exchange;

static ExprId exchange(Kernel *k, ExprId e, void *user)
{
    (void)k;
    const Exchange *x = user;
    return e == x->from ? x->to : e;
}

static ExprId exchanged(Kernel *k, ExprId e, ExprId from, ExprId to)
{
    Exchange x = {from, to};
    return x_rewrite(k, e, exchange, &x);
}

static TensorId new_local(Kernel *k, const Equation *like)
{
    Tensor t = {.loc = like->loc, .elem = EL_F32, .role = ROLE_LOCAL, .rank = like->nindex, .route = NONE};
    t.name = ir_fresh_name(k, arena_printf(k->module->arena, "%s_sum", k->tensors.at[like->lhs].name));
    for (uint32_t i = 0; i < like->nindex; i++)
        t.axes[i] = k->indices.at[x_at(k, like->index[i])->sym].axis;
    return ir_tensor(k, t);
}

static void insert_before(Match *m, Equation q)
{
    Kernel *k = m->k;
    vec_push(k->module->arena, &k->eqs, q);
    Equation *at = &k->eqs.at[m->shared];
    memmove(at + 1, at, sizeof *at * (k->eqs.len - 1 - m->shared));
    *at = q;
    m->made += m->made >= m->shared;
    m->shared++;
    m->reader++;
}

/* s[r, f] = sum(h) core * w, before d_a, whose sum becomes s * scale. Gives s. */
static TensorId share(Match *m)
{
    Kernel *k = m->k;
    Equation q = k->eqs.at[m->shared], made = ir_equation(EQ_ASSIGN, q.loc);
    const Tensor *t = &k->tensors.at[q.lhs];
    if (m->whole && q.rhs == m->other_node && t->role == ROLE_LOCAL && t->elem == EL_F32)
        return q.lhs;
    made.lhs = new_local(k, &q);
    made.nindex = q.nindex;
    memcpy(made.index, q.index, sizeof made.index);
    ExprId body = x_op2(k, q.loc, OP_mul, m->core, m->other.factor[m->common]);
    made.rhs = x_reduce(k, q.loc, RED_SUM, &m->other.over, 1, body, NONE);
    ExprId value = x_load(k, q.loc, made.lhs, q.index);
    if (m->scale != NONE)
        value = x_op2(k, q.loc, OP_mul, value, m->scale);
    q.rhs = exchanged(k, q.rhs, m->other_node, value);
    k->eqs.at[m->shared] = q;
    insert_before(m, made);
    return made.lhs;
}

/* sum(f) a[row, f] * s[row, f] for the reader's sum. */
static ExprId reader_sum(const Match *m, TensorId s)
{
    Kernel *k = m->k;
    const Equation made = k->eqs.at[m->made];
    ExprId load = m->outer.factor[m->load], to[MAX_RANK + 1], at[MAX_RANK];
    IndexId from[MAX_RANK + 1], f = derive_index_like(k, m->inner.over);
    Loc loc = x_at(k, m->node)->loc;
    uint32_t n = 0;
    for (uint32_t o = 0; o < made.nindex; o++) {
        from[o] = x_at(k, made.index[o])->sym;
        to[o] = x_arg(k, load, o);
        n += n == m->shared_at;
        if (o != m->at)
            at[n++] = to[o];
    }
    from[made.nindex] = m->inner.over;
    to[made.nindex] = at[m->shared_at] = x_index(k, loc, f);
    ExprId kept = x_substitute(k, m->inner.factor[m->kept], from, to, made.nindex + 1u);
    ExprId body = x_op2(k, loc, OP_mul, kept, x_load(k, loc, s, at));
    return x_reduce(k, loc, RED_SUM, &f, 1, body, NONE);
}

static void apply(Match *m)
{
    Kernel *k = m->k;
    TensorId s = share(m);
    ExprId rhs = exchanged(k, k->eqs.at[m->reader].rhs, m->node, reader_sum(m, s));
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
