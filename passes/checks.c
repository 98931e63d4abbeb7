/* checks: every subscript that is not proved inside its tensor gets an EQ_CHECK before its equation, under
 * the conditions that stand around the access. A check of parameters alone goes to the front: a call that
 * fails it has written nothing.
 *
 * Note [Guards of an access]. An access in a branch of `if`, in the body of a reduction, or behind `and` and
 * `or` is evaluated only when what stands before it holds (or does not), so its check has that as its guard.
 */
#include "passes/canonicalise.h"
#include "passes/query.h"

#include <string.h>

typedef struct Made {
    TensorId tensor;
    uint32_t axis;
    ExprId form; /* of guard and subscript without index names */
} Made;

typedef struct Checks {
    Kernel *k;
    Arena *arena;
    Vec(uint8_t) open; /* by ExprId: 0 not known yet, 1 every access below is inside in any case, 2 not */
    Vec(Equation) entry, rest;
    Vec(Made) made;
    uint8_t *written; /* by TensorId: a parameter that an earlier equation wrote */
    uint32_t visits;
} Checks;

static int is_inside(const Checks *c, ExprId load, uint32_t axis, ExprId guard)
{
    const Kernel *k = c->k;
    Axis a = k->tensors.at[x_at(k, load)->sym].axes[axis];
    return ir_prove_range(c->k, x_arg(k, load, axis), a, guard) == PROOF_INSIDE;
}

static int is_open(const Checks *c, ExprId e)
{
    const Kernel *k = c->k;
    for (uint32_t i = 0; i < x_at(k, e)->nargs; i++)
        if (c->open.at[x_arg(k, e, i)] == 2 || (x_at(k, e)->kind == X_LOAD && !is_inside(c, e, i, NONE)))
            return 1;
    return 0;
}

/* Is there an access below e that needs its guards, or a check? */
static int needs_look(Checks *c, ExprId root)
{
    while (c->open.len <= root)
        vec_push(c->arena, &c->open, 0);
    if (c->open.at[root])
        return c->open.at[root] == 2;
    each_below (n, c->k, root, EVERYWHERE)
        if (!c->open.at[*n])
            c->open.at[*n] = is_open(c, *n) ? 2 : 1;
    return c->open.at[root] == 2;
}

/* ---- one check ---- */

enum { FREE_MAX = 32 };

static uint32_t free_indices(const Kernel *k, ExprId e, IndexId *out /* FREE_MAX places */, uint32_t n)
{
    if (e == NONE)
        return n;
    uint8_t *bound = arena_array(k->module->arena, uint8_t, k->indices.len);
    each_below (i, k, e, EVERYWHERE)
        for (uint32_t b = 0; b < x_at(k, *i)->nbound; b++)
            bound[x_bound(k, *i, b)] = 1;
    each_below (i, k, e, EVERYWHERE) {
        if (x_at(k, *i)->kind != X_INDEX || bound[x_at(k, *i)->sym])
            continue;
        uint32_t at = 0;
        while (at < n && out[at] != x_at(k, *i)->sym)
            at++;
        if (at == n && n < FREE_MAX)
            out[n++] = x_at(k, *i)->sym;
    }
    return n;
}

static ExprId form_of(Checks *c, ExprId subscript, ExprId guard)
{
    Kernel *k = c->k;
    IndexId free[FREE_MAX];
    uint32_t n = free_indices(k, subscript, free, 0);
    n = free_indices(k, guard, free, n);
    ExprId all = x_op2(k, (Loc){0}, OP_ge, subscript, x_int(k, (Loc){0}, 0));
    return alpha_form(k, x_and(k, (Loc){0}, all, guard), free, n);
}

static int is_route_made(const Kernel *k, RouteId r) { return r != NONE && k->routes.at[r].role != ROLE_IN; }

/* Does the kernel make the route whose rows i runs over? */
static int runs_over_made(const Kernel *k, IndexId i)
{
    GroupId group = k->indices.at[i].axis.group;
    return group != NONE && is_route_made(k, ir_group_route(k, group));
}

/* Does node e alone, whatever its operands are, depend on what the kernel computes? */
static int is_computed(const Checks *c, ExprId e)
{
    const Kernel *k = c->k;
    const Expr *x = x_at(k, e);
    for (uint32_t b = 0; b < x->nbound; b++)
        if (runs_over_made(k, x_bound(k, e, b)))
            return 1;
    if (x->kind == X_LOAD) {
        Role role = (Role)k->tensors.at[x->sym].role;
        return c->written[x->sym] || (role != ROLE_IN && role != ROLE_INOUT);
    }
    if (x->kind == X_INDEX)
        return runs_over_made(k, x->sym);
    int routed = x->kind == X_TOKEN || x->kind == X_SLOT || x->kind == X_ROW || x->kind == X_GROUP;
    return routed && is_route_made(k, x->sym);
}

/* Does e hold the same at the entry of the kernel? Then it depends on parameters as they came in. */
static int holds_at_entry(const Checks *c, ExprId e)
{
    if (e == NONE)
        return 1;
    each_below (i, c->k, e, EVERYWHERE)
        if (is_computed(c, *i))
            return 0;
    return 1;
}

/* The index that e makes equal to something computed without it, and that; or NONE. */
static IndexId named_index(const Kernel *k, ExprId e, ExprId *value)
{
    for (uint32_t side = 0; x_is_op(k, e, OP_eq) && side < 2; side++) {
        ExprId i = x_arg(k, e, side);
        *value = x_arg(k, e, 1 - side);
        if (x_at(k, i)->kind == X_INDEX && x_at(k, *value)->kind != X_INDEX &&
            k->indices.at[x_at(k, i)->sym].axis.group == NONE && !x_uses_index(k, *value, x_at(k, i)->sym))
            return x_at(k, i)->sym;
    }
    return NONE;
}

/* dst[e] == n and f(n)   ->   dst[e] >= 0 and dst[e] < N and f(dst[e]): a check under a key goes over terms, not over terms
 * and keys. Not where something before the key asks about n. */
static ExprId without_key(Kernel *k, ExprId guard, uint32_t key, const ExprId *list, uint32_t n,
                          ExprId *subscript)
{
    Loc loc = x_at(k, guard)->loc;
    ExprId value, made = NONE;
    IndexId i = named_index(k, list[key], &value);
    if (i == NONE)
        return guard;
    for (uint32_t a = 0; a < key; a++) {
        if (x_uses_index(k, list[a], i))
            return guard;
        made = x_and(k, loc, made, list[a]);
    }
    made = x_and(k, loc, made, x_op2(k, loc, OP_ge, value, x_int(k, loc, 0)));
    made = x_and(k, loc, made, x_op2(k, loc, OP_lt, value, x_extent(k, loc, k->indices.at[i].axis.extent)));
    for (uint32_t a = key + 1; a < n; a++)
        made = x_and(k, loc, made, x_substitute(k, list[a], &i, &value, 1));
    *subscript = x_substitute(k, *subscript, &i, &value, 1);
    return made;
}

static ExprId without_keys(Kernel *k, ExprId guard, ExprId *subscript)
{
    ExprId list[CONJUNCT_MAX];
    for (uint32_t at = 0, n; guard != NONE && x_below(k, guard, EVERYWHERE).n < CONJUNCT_MAX; at++) {
        n = x_conjuncts(k, guard, list, CONJUNCT_MAX);
        if (at >= n)
            break;
        guard = without_key(k, guard, at, list, n, subscript);
    }
    return guard;
}

static void add_check(Checks *c, Loc loc, TensorId tensor, uint32_t axis, ExprId subscript, ExprId guard)
{
    guard = without_keys(c->k, guard, &subscript);
    Made made = {tensor, axis, form_of(c, subscript, guard)};
    for (uint32_t i = 0; i < c->made.len; i++)
        if (memcmp(&c->made.at[i], &made, sizeof made) == 0)
            return;
    vec_push(c->arena, &c->made, made);
    Equation q = ir_equation(EQ_CHECK, loc);
    q.lhs = tensor;
    q.axis = (uint8_t)axis;
    q.rhs = subscript;
    q.guard = guard;
    q.at_entry = holds_at_entry(c, subscript) && holds_at_entry(c, guard);
    if (q.at_entry)
        vec_push(c->arena, &c->entry, q);
    else
        vec_push(c->arena, &c->rest, q);
}

/* ---- the walk ---- */

static void look(Checks *c, ExprId root, ExprId guard);

/* A subscript by idiv or imod that is inside wherever its divisor is at least 1: only the other case is to be checked. The guard
 * for it, which varies with no index and costs nothing in a loop. */
static ExprId small_divisor(Checks *c, ExprId e, uint32_t axis, ExprId guard)
{
    Kernel *k = c->k;
    Loc loc = x_at(k, e)->loc;
    Nodes below = x_below(k, x_arg(k, e, axis), EVERYWHERE);
    for (uint32_t n = 0; n < below.n; n++) {
        ExprId q = below.at[n];
        if ((!x_is_op(k, q, OP_idiv) && !x_is_op(k, q, OP_imod)) || x_at(k, x_arg(k, q, 1))->kind != X_EXTENT)
            continue;
        ExprId by = x_arg(k, q, 1), one = x_int(k, loc, 1);
        if (is_inside(c, e, axis, x_and(k, loc, guard, x_op2(k, loc, OP_ge, by, one))))
            return x_and(k, loc, guard, x_op2(k, loc, OP_lt, by, one));
    }
    return guard;
}

static void look_load(Checks *c, ExprId e, ExprId guard)
{
    for (uint32_t i = 0; i < x_at(c->k, e)->nargs; i++)
        if (!is_inside(c, e, i, guard))
            add_check(c, x_at(c->k, e)->loc, x_at(c->k, e)->sym, i, x_arg(c->k, e, i),
                      small_divisor(c, e, i, guard));
}

/* The body under variables of its own: the guard may hold the same reduction, whose variables stay bound. */
static void look_reduce(Checks *c, ExprId e, ExprId guard)
{
    Kernel *k = c->k;
    Expr x = *x_at(k, e);
    IndexId from[UINT8_MAX];
    ExprId to[UINT8_MAX];
    for (uint32_t i = 0; i < x.nbound; i++) {
        from[i] = x_bound(k, e, i);
        Index index = k->indices.at[from[i]];
        to[i] = x_index(k, x.loc, ir_index(k, index.name, index.loc, index.axis));
    }
    ExprId condition = x_substitute(k, x_condition(k, e), from, to, x.nbound);
    ExprId body = x_substitute(k, x_arg(k, e, 0), from, to, x.nbound);
    if (condition != NONE)
        look(c, condition, guard);
    look(c, body, x_and(k, x.loc, guard, condition));
}

/* Beyond that many guards accesses are checked without further ones: stricter, never unsafe, and it ends. */
enum { VISITS_MAX = 10000 };

/* How many arguments of e, from the first, are evaluated wherever e is. `flat`: as if all were. */
static uint32_t always(const Kernel *k, ExprId e, int flat)
{
    const Expr *x = x_at(k, e);
    if (x->kind == X_REDUCE)
        return 0;
    return !flat && (x->kind == X_IF || x_is_op(k, e, OP_and) || x_is_op(k, e, OP_or)) ? 1 : x->nargs;
}

/* What is evaluated at e only sometimes, under its own guards. */
static void look_sides(Checks *c, ExprId e, ExprId guard)
{
    Kernel *k = c->k;
    Expr x = *x_at(k, e);
    if (x.kind == X_REDUCE) {
        look_reduce(c, e, guard);
        return;
    }
    ExprId a = x_arg(k, e, 0), not_a = x_op1(k, x.loc, OP_not, a);
    look(c, x_arg(k, e, 1), x_and(k, x.loc, guard, x_is_op(k, e, OP_or) ? not_a : a));
    if (x.kind == X_IF)
        look(c, x_arg(k, e, 2), x_and(k, x.loc, guard, not_a));
}

/* Checks come in the order of evaluation: a check and its guard read only what the checks before it allow. */
static void look(Checks *c, ExprId root, ExprId guard)
{
    if (!needs_look(c, root))
        return;
    int flat = c->visits++ > VISITS_MAX;
    Nodes below = x_below(c->k, root, EVERYWHERE);
    ExprMap here = x_map(c->k, below.n); /* a node that is evaluated wherever root is: to itself */
    *x_map_at(&here, root) = root;
    for (uint32_t n = below.n; n-- > 0;)
        for (uint32_t a = 0; x_map_get(&here, below.at[n]) != NONE && a < always(c->k, below.at[n], flat);
             a++)
            *x_map_at(&here, x_arg(c->k, below.at[n], a)) = x_arg(c->k, below.at[n], a);
    for (uint32_t n = 0; n < below.n; n++) {
        ExprId e = below.at[n];
        if (x_map_get(&here, e) == NONE || !needs_look(c, e))
            continue;
        if (always(c->k, e, flat) < x_at(c->k, e)->nargs)
            look_sides(c, e, guard);
        if (x_at(c->k, e)->kind == X_LOAD)
            look_load(c, e, guard);
    }
}

/* Does e read a tensor at a row that may be dropped? */
static int reads_choice(const Kernel *k, ExprId e)
{
    each_below (n, k, e, EVERYWHERE)
        for (uint32_t a = 0; x_at(k, *n)->kind == X_LOAD && a < x_at(k, *n)->nargs; a++)
            each_below (r, k, x_arg(k, *n, a), EVERYWHERE)
                if (x_at(k, *r)->kind == X_ROW)
                    return 1;
    return 0;
}

/* Does e ask a route at a place that is known to be inside only by a guard, if at all? Of a row, any but an index: it may be dropped. */
static int asks_under_guard(Kernel *k, ExprId e)
{
    each_below (n, k, e, EVERYWHERE) {
        const Expr x = *x_at(k, *n);
        int is_row = x.kind == X_ROW;
        if (!is_row && x.kind != X_TOKEN && x.kind != X_SLOT && x.kind != X_GROUP)
            continue;
        for (uint32_t a = 0; a < x.nargs; a++) {
            ExprId at = x_arg(k, *n, a);
            Extent places = !is_row ? 0 : a ? k->routes.at[x.sym].choices : k->routes.at[x.sym].tokens;
            if (x_at(k, at)->kind != X_INDEX &&
                (!is_row || ir_prove_range(k, at, (Axis){places, NONE}, NONE) != PROOF_INSIDE))
                return 1;
        }
    }
    return 0;
}

int checks_inside(Kernel *k, ExprId e)
{
    if (reads_choice(k, e) || query_may_lack_value(k, e) || asks_under_guard(k, e))
        return 0;
    Checks c = {.k = k, .arena = k->module->arena};
    c.written = arena_array(c.arena, uint8_t, k->tensors.len + 1);
    look(&c, e, NONE);
    return !c.entry.len && !c.rest.len;
}

static void look_scatter(Checks *c, const Equation *q)
{
    Kernel *k = c->k;
    for (uint32_t i = 0; i < q->nindex; i++) {
        look(c, q->index[i], NONE);
        if (ir_prove_range(k, q->index[i], k->tensors.at[q->lhs].axes[i], NONE) != PROOF_INSIDE)
            add_check(c, q->loc, q->lhs, i, q->index[i], NONE);
    }
}

static void check_kernel(Kernel *k)
{
    Checks c = {.k = k, .arena = k->module->arena};
    c.written = arena_array(c.arena, uint8_t, k->tensors.len + 1);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        Equation q = k->eqs.at[i];
        if (q.kind == EQ_CHECK)
            continue; /* made again */
        if (q.kind == EQ_ADD || q.kind == EQ_ASSIGN)
            look_scatter(&c, &q);
        if (q.rhs != NONE)
            look(&c, q.rhs, NONE);
        vec_push(c.arena, &c.rest, q);
        if (q.lhs != NONE)
            c.written[q.lhs] = 1;
        if (q.kind == EQ_TOP)
            c.written[q.ids] = 1;
        /* values that the checks so far saw may have changed */
        if (q.kind != EQ_ROUTE && k->tensors.at[q.lhs].role == ROLE_INOUT)
            c.made.len = 0;
    }
    k->eqs.len = 0;
    for (uint32_t i = 0; i < c.entry.len; i++)
        vec_push(c.arena, &k->eqs, c.entry.at[i]);
    for (uint32_t i = 0; i < c.rest.len; i++)
        vec_push(c.arena, &k->eqs, c.rest.at[i]);
}

/* Blocks of derived kernels, which were not there when the frontend read them: they are about equations as `moec grad` prints them. */
static void check_schedules(Module *m)
{
    for (uint32_t i = 0; i < m->schedules.len; i++) {
        const Kernel *k = ir_find_kernel(m, m->schedules.at[i].kernel);
        if (k && k->derived)
            ir_check_schedule(k, &m->schedules.at[i]);
    }
}

/* Before:  y[t] = w[id[t]]       After:  check 0 <= id[t] < V
 *                                        y[t] = w[id[t]]
 * Requires nothing. Gives FACT_CHECKS: what later moves an access into another equation need not look back. Reports clauses that do not
 * fit a derived kernel.
 */
void pass_checks(Module *m, const PassContext *c)
{
    (void)c;
    check_schedules(m);
    for (uint32_t i = 0; i < m->kernels.len; i++)
        check_kernel(m->kernels.at[i]);
}
