/* Which elements of a placed tensor its readers look at.
 *
 * before:  d_s[b, n, i, j] = if(j <= i, d_e[b, n, i, j] * e[b, n, i, j], 0.0)
 *          d_q[b, i, n, d] = sum(j where j <= i) d_s[b, n, i, j] * k[b, j, n, d]
 * after:   d_s[b, n, i, j] = d_e[b, n, i, j] * e[b, n, i, j]
 * and cluster_needed() says j <= i of d_s, d_e and e. */
#include "passes/cluster_rowblock.h"

#include "passes/query.h"

/* ---- lists of conditions that hold together ---- */

typedef struct NeededKnown {
    Vec(ExprId) list;
} NeededKnown;

static ExprId all_of(Kernel *k, const NeededKnown *c)
{
    ExprId all = NONE;
    for (uint32_t i = 0; i < c->list.len; i++)
        all = x_and(k, (Loc){0}, all, c->list.at[i]);
    return all;
}

static int has(const NeededKnown *c, ExprId e)
{
    for (uint32_t i = 0; i < c->list.len; i++)
        if (c->list.at[i] == e)
            return 1;
    return 0;
}

/* Does e hold wherever all of c does? */
static int follows(Kernel *k, const NeededKnown *c, ExprId e)
{
    if (has(c, e))
        return 1;
    if (x_at(k, e)->kind != X_OP || c->list.len == 0)
        return 0;
    ExprId a = x_arg(k, e, 0), b = x_at(k, e)->nargs > 1 ? x_arg(k, e, 1) : a;
    if (x_at(k, a)->type != TY_INT)
        return 0;
    ExprId when = all_of(k, c);
    if (x_is_op(k, e, OP_lt) || x_is_op(k, e, OP_le))
        return ir_prove_at_least(k, b, a, x_is_op(k, e, OP_lt), when);
    if (x_is_op(k, e, OP_gt) || x_is_op(k, e, OP_ge))
        return ir_prove_at_least(k, a, b, x_is_op(k, e, OP_gt), when);
    return 0;
}

static void add(Kernel *k, NeededKnown *c, ExprId condition);
static NeededKnown either(Kernel *k, const NeededKnown *a, const NeededKnown *b);

/* What both sides of an `or` say. */
static void add_sides(Kernel *k, NeededKnown *c, ExprId e)
{
    NeededKnown a = {0}, b = {0};
    add(k, &a, x_arg(k, e, 0));
    add(k, &b, x_arg(k, e, 1));
    NeededKnown both = either(k, &a, &b);
    for (uint32_t i = 0; i < both.list.len; i++)
        add(k, c, both.list.at[i]);
}

static void add(Kernel *k, NeededKnown *c, ExprId condition)
{
    ExprId parts[CONJUNCT_MAX];
    uint32_t n = x_conjuncts(k, condition, parts, CONJUNCT_MAX);
    for (uint32_t i = 0; i < n; i++) {
        if (has(c, parts[i]))
            continue;
        vec_push(k->module->scratch, &c->list, parts[i]);
        if (x_is_op(k, parts[i], OP_or))
            add_sides(k, c, parts[i]);
    }
}

/* What holds where a or b does, as far as conditions of theirs say it. */
static NeededKnown either(Kernel *k, const NeededKnown *a, const NeededKnown *b)
{
    NeededKnown c = {0};
    for (uint32_t i = 0; i < a->list.len; i++)
        if (follows(k, b, a->list.at[i]))
            vec_push(k->module->scratch, &c.list, a->list.at[i]);
    for (uint32_t i = 0; i < b->list.len; i++)
        if (!has(&c, b->list.at[i]) && follows(k, a, b->list.at[i]))
            vec_push(k->module->scratch, &c.list, b->list.at[i]);
    return c;
}

/* ---- conditions around loads ---- */

/* What holds where a node of an expression is evaluated: the conditions of the reductions and the sides of
 * `if` around it. */
typedef struct NeededAround {
    Nodes below;
    ExprMap place;
    NeededKnown *known;
    uint8_t *reached;
} NeededAround;

static void reach(Kernel *k, NeededAround *a, ExprId e, const NeededKnown *how)
{
    uint32_t at = x_map_get(&a->place, e);
    a->known[at] = a->reached[at] ? either(k, &a->known[at], how) : *how;
    a->reached[at] = 1;
}

static NeededKnown under(Kernel *k, const NeededKnown *c, ExprId condition)
{
    NeededKnown more = {0};
    for (uint32_t i = 0; i < c->list.len; i++)
        vec_push(k->module->scratch, &more.list, c->list.at[i]);
    add(k, &more, condition);
    return more;
}

static void reach_arguments(Kernel *k, NeededAround *a, ExprId e, const NeededKnown *here)
{
    const Expr x = *x_at(k, e);
    for (uint32_t i = 0; i < x.nargs; i++) {
        ExprId condition = NONE;
        if (x.kind == X_REDUCE && i == 0)
            condition = x_condition(k, e);
        else if ((x.kind == X_IF || x_is_op(k, e, OP_and)) && i == 1)
            condition = x_arg(k, e, 0);
        NeededKnown way = under(k, here, condition);
        reach(k, a, x_arg(k, e, i), &way);
    }
}

/* From the root down: all ways to a node are known before it hands them on. */
static NeededAround around(Kernel *k, ExprId root, const NeededKnown *outside)
{
    NeededAround a = {.below = x_below(k, root, EVERYWHERE)};
    a.place = x_map(k, a.below.n);
    a.known = arena_array(k->module->scratch, NeededKnown, a.below.n);
    a.reached = arena_alloc(k->module->scratch, a.below.n);
    for (uint32_t i = 0; i < a.below.n; i++)
        *x_map_at(&a.place, a.below.at[i]) = i;
    reach(k, &a, root, outside);
    for (uint32_t i = a.below.n; i-- > 0;)
        reach_arguments(k, &a, a.below.at[i], &a.known[i]);
    return a;
}

/* ---- over the variables of the definition ---- */

typedef struct Definition {
    const Equation *q;
    IndexId from[MAX_RANK];
    ExprId to[MAX_RANK];
    uint32_t n;
} Definition;

static int is_translated(const Definition *d, IndexId i)
{
    for (uint32_t n = 0; n < d->n; n++)
        if (d->from[n] == i)
            return 1;
    return 0;
}

/* Does the condition speak of the element's place, maybe with what a parameter says of it, and of nothing else that moves? */
static int is_about_place(const Kernel *k, ExprId condition, const Definition *d)
{
    each_below (n, k, condition, EVERYWHERE) {
        const Expr *x = x_at(k, *n);
        switch ((ExprKind)x->kind) {
        case X_INDEX:
            if (!is_translated(d, x->sym))
                return 0;
            break;
        case X_LOAD:
            if (k->tensors.at[x->sym].role != ROLE_IN || query_reads_computed(k, *n))
                return 0;
            break;
        case X_REDUCE:
        case X_TOKEN:
        case X_SLOT:
        case X_ROW:
        case X_GROUP:
        case X_LANES:
        case X_THREADS: return 0;
        case X_FLOAT:
        case X_INT:
        case X_EXTENT:
        case X_OP:
        case X_IF: break;
        }
    }
    return 1;
}

/* What the readers' conditions around one load say of the element that it reads. */
static NeededKnown translated(Kernel *k, ExprId load, const NeededKnown *known, const Equation *q)
{
    Definition d = {.q = q};
    NeededKnown out = {0};
    for (uint32_t a = 0; a < x_at(k, load)->nargs; a++) {
        IndexId i = x_plain_index(k, x_arg(k, load, a));
        if (i == NONE || is_translated(&d, i))
            continue;
        d.from[d.n] = i;
        d.to[d.n++] = q->index[a];
    }
    for (uint32_t i = 0; i < known->list.len; i++)
        if (is_about_place(k, known->list.at[i], &d))
            add(k, &out, x_substitute(k, known->list.at[i], d.from, d.to, d.n));
    return out;
}

/* ---- from the last member to the first ---- */

typedef struct Needs {
    Kernel *k;
    uint32_t *definition; /* by tensor: its equation */
    NeededKnown *of;      /* by tensor */
    uint8_t *read;        /* by tensor: some reader has been looked at */
} Needs;

static void need(Needs *s, ExprId load, const NeededKnown *known)
{
    TensorId t = x_at(s->k, load)->sym;
    NeededKnown more = translated(s->k, load, known, &s->k->eqs.at[s->definition[t]]);
    s->of[t] = s->read[t] ? either(s->k, &s->of[t], &more) : more;
    s->read[t] = 1;
}

static NeededKnown needed_by_readers(const Needs *s, const Equation *q, uint32_t cluster)
{
    int counts = s->k->tensors.at[q->lhs].placed == cluster + 1 && q->kind == EQ_ASSIGN;
    return counts ? s->of[q->lhs] : (NeededKnown){0};
}

static Needs needs_of(Kernel *k, uint32_t cluster)
{
    Arena *arena = k->module->scratch;
    Needs s = {.k = k};
    s.definition = arena_array(arena, uint32_t, k->tensors.len + 1);
    s.of = arena_array(arena, NeededKnown, k->tensors.len + 1);
    s.read = arena_alloc(arena, k->tensors.len + 1);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        if (k->eqs.at[i].cluster != cluster)
            continue;
        s.definition[k->eqs.at[i].lhs] = i;
        if (k->eqs.at[i].kind == EQ_TOP)
            s.definition[k->eqs.at[i].ids] = i;
    }
    for (uint32_t i = k->eqs.len; i-- > 0;) {
        const Equation q = k->eqs.at[i];
        if (q.cluster != cluster)
            continue;
        NeededKnown outside = needed_by_readers(&s, &q, cluster);
        NeededAround a = around(k, q.rhs, &outside);
        for (uint32_t n = 0; n < a.below.n; n++)
            if (x_at(k, a.below.at[n])->kind == X_LOAD &&
                k->tensors.at[x_at(k, a.below.at[n])->sym].placed == cluster + 1)
                need(&s, a.below.at[n], &a.known[n]);
    }
    return s;
}

ExprId cluster_needed(Kernel *k, TensorId placed)
{
    ArenaMark mark = arena_mark(k->module->scratch);
    Needs s = needs_of(k, k->tensors.at[placed].placed - 1);
    ExprId all = all_of(k, &s.of[placed]);
    arena_release(k->module->scratch, mark);
    return all;
}

/* ---- guards ---- */

static ExprId drop_guard(Kernel *k, ExprId e, void *user)
{
    const NeededKnown *known = user;
    ExprId parts[CONJUNCT_MAX], left = NONE;
    if (x_at(k, e)->kind != X_IF)
        return e;
    uint32_t n = x_conjuncts(k, x_arg(k, e, 0), parts, CONJUNCT_MAX);
    for (uint32_t i = 0; i < n; i++)
        if (!follows(k, known, parts[i]))
            left = x_and(k, x_at(k, e)->loc, left, parts[i]);
    if (left == x_arg(k, e, 0) || !checks_inside(k, x_arg(k, e, 1)) ||
        (left != NONE && !checks_inside(k, left)))
        return e; /* it may guard a subscript, also one of the conditions after it */
    return left == NONE ? x_arg(k, e, 1) : x_if(k, x_at(k, e)->loc, left, x_arg(k, e, 1), x_arg(k, e, 2));
}

void cluster_drop_guards(Kernel *k, uint32_t cluster)
{
    ArenaMark mark = arena_mark(k->module->scratch);
    Needs s = needs_of(k, cluster);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        Equation q = k->eqs.at[i];
        if (q.cluster != cluster || q.kind != EQ_ASSIGN || s.of[q.lhs].list.len == 0 ||
            query_may_lack_value(k, q.rhs))
            continue; /* a guard that keeps a max from that may be of another `if`: of the terms that are counted before */
        q.rhs = x_rewrite(k, q.rhs, drop_guard, &s.of[q.lhs]);
        k->eqs.at[i] = q;
    }
    arena_release(k->module->scratch, mark);
}
