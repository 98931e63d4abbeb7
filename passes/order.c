/* Which equations may change places.
 *
 * Two equations keep their order when one writes what the other reads or writes, and when the first is a
 * check of a subscript of a tensor that the second accesses. A check on a local guards everything behind it:
 * fuse may have put the access into a reader. The rows of a group are those of its route: whoever runs over
 * rows reads the route. */
#include "passes/order.h"

#include <string.h>

static void add(uint64_t *set, uint32_t bit) { set[bit / 64] |= (uint64_t)1 << bit % 64; }

static int meet(const EquationOrder *o, const uint64_t *a, const uint64_t *b)
{
    for (uint32_t w = 0; w < o->words; w++)
        if (a[w] & b[w])
            return 1;
    return 0;
}

static void unite(const EquationOrder *o, Effects *all, const Effects *e)
{
    for (uint32_t w = 0; w < o->words; w++) {
        all->reads[w] |= e->reads[w];
        all->writes[w] |= e->writes[w];
        all->guards[w] |= e->guards[w];
    }
}

static Effects no_effects(const EquationOrder *o)
{
    uint64_t *bits = arena_array(o->k->module->scratch, uint64_t, o->words * 3);
    return (Effects){bits, bits + o->words, bits + o->words * 2};
}

static void read_route(const EquationOrder *o, Effects *e, RouteId r)
{
    if (r != NONE)
        add(e->reads, o->k->tensors.len + r);
}

static void read_axis(const EquationOrder *o, Effects *e, IndexId i)
{
    GroupId g = o->k->indices.at[i].axis.group;
    read_route(o, e, g == NONE ? (RouteId)NONE : ir_group_route(o->k, g));
}

static void read_expr(const EquationOrder *o, Effects *e, ExprId root)
{
    const Kernel *k = o->k;
    if (root == NONE)
        return;
    each_below (n, k, root, EVERYWHERE) {
        const Expr *x = x_at(k, *n);
        if (x->kind == X_LOAD)
            add(e->reads, x->sym);
        else if (x->kind == X_INDEX)
            read_axis(o, e, x->sym);
        else if (x->kind == X_TOKEN || x->kind == X_SLOT || x->kind == X_ROW || x->kind == X_GROUP)
            read_route(o, e, x->sym);
        for (uint32_t b = 0; b < x->nbound; b++)
            read_axis(o, e, x_bound(k, *n, b));
    }
}

void order_refresh(EquationOrder *o, uint32_t at)
{
    const Equation *q = &o->k->eqs.at[at];
    Effects *e = &o->of[at];
    memset(e->reads, 0, sizeof *e->reads * o->words * 3);
    for (uint32_t i = 0; i < q->nindex; i++)
        read_expr(o, e, q->index[i]);
    read_expr(o, e, q->rhs);
    read_expr(o, e, q->guard);
    switch (q->kind) {
    case EQ_ADD:
        add(e->reads, q->lhs);
        add(e->writes, q->lhs);
        return;
    case EQ_ASSIGN: add(e->writes, q->lhs); return;
    case EQ_TOP:
        add(e->writes, q->lhs);
        add(e->writes, q->ids);
        return;
    case EQ_ROUTE:
        add(e->reads, q->ids);
        add(e->writes, o->k->tensors.len + q->route);
        return;
    case EQ_CHECK:
        if (o->k->tensors.at[q->lhs].role == ROLE_LOCAL)
            memset(e->guards, 0xff, sizeof *e->guards * o->words);
        else
            add(e->guards, q->lhs);
        return;
    }
}

EquationOrder order_of(Kernel *k)
{
    EquationOrder o = {.k = k, .words = (k->tensors.len + k->routes.len + 63) / 64 + 1};
    o.of = arena_array(k->module->scratch, Effects, k->eqs.len + 1);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        o.of[i] = no_effects(&o);
        order_refresh(&o, i);
    }
    return o;
}

int order_reads(const EquationOrder *o, uint32_t at, TensorId t)
{
    return o->of[at].reads[t / 64] >> t % 64 & 1;
}

int order_writes_into(const EquationOrder *o, uint32_t at, uint32_t reader)
{
    return meet(o, o->of[at].writes, o->of[reader].reads);
}

int order_shares(const EquationOrder *o, uint32_t a, uint32_t b)
{
    const Effects *x = &o->of[a], *y = &o->of[b];
    return meet(o, x->reads, y->reads) || meet(o, x->writes, y->reads) || meet(o, x->reads, y->writes);
}

static int depends(const EquationOrder *o, const Effects *first, const Effects *second)
{
    return meet(o, first->writes, second->reads) || meet(o, first->reads, second->writes) ||
           meet(o, first->writes, second->writes) || meet(o, first->guards, second->reads) ||
           meet(o, first->guards, second->writes);
}

/* How many equations from `at` on stay together: those of one cluster. */
static uint32_t run_at(const EquationOrder *o, uint32_t at)
{
    const Kernel *k = o->k;
    uint32_t end = at + 1;
    while (k->eqs.at[at].cluster != NONE && end < k->eqs.len &&
           k->eqs.at[end].cluster == k->eqs.at[at].cluster)
        end++;
    return end - at;
}

static Effects effects_of(const EquationOrder *o, uint32_t at, uint32_t n)
{
    if (n == 1)
        return o->of[at];
    Effects all = no_effects(o);
    for (uint32_t i = at; i < at + n; i++)
        unite(o, &all, &o->of[i]);
    return all;
}

/* What stands between the members, split: those that wait for a member go after all of them. Returns the
 * place of a member that waits for one of these, or NONE. */
static uint32_t part(const EquationOrder *o, const uint32_t *members, uint32_t n, uint8_t *after)
{
    Effects early = no_effects(o), late = no_effects(o);
    for (uint32_t i = members[0], next = 0, len; i <= members[n - 1]; i += len) {
        int is_member = i == members[next];
        len = is_member ? 1 : run_at(o, i);
        Effects e = effects_of(o, i, len);
        int waits_late = depends(o, &late, &e);
        if (is_member && waits_late)
            return i;
        if (is_member) {
            unite(o, &early, &e);
            next++;
        } else if (!o->k->eqs.at[i].dead && (waits_late || depends(o, &early, &e))) {
            unite(o, &late, &e);
            memset(after + i - members[0], 1, len);
        }
    }
    return NONE;
}

static uint8_t *marks(const EquationOrder *o, const uint32_t *members, uint32_t n)
{
    uint32_t len = members[n - 1] - members[0] + 1;
    return arena_array(o->k->module->scratch, uint8_t, len);
}

uint32_t order_blocks(const EquationOrder *o, const uint32_t *members, uint32_t n)
{
    ArenaMark mark = arena_mark(o->k->module->scratch);
    uint32_t late = part(o, members, n, marks(o, members, n));
    arena_release(o->k->module->scratch, mark);
    return late;
}

uint32_t order_gather(EquationOrder *o, const uint32_t *members, uint32_t n)
{
    Kernel *k = o->k;
    uint32_t from = members[0], len = members[n - 1] - from + 1, to = from, first = 0;
    ArenaMark mark = arena_mark(k->module->scratch);
    uint8_t *after = marks(o, members, n);
    Equation *eqs = arena_array(k->module->scratch, Equation, len);
    Effects *of = arena_array(k->module->scratch, Effects, len);
    part(o, members, n, after);
    memcpy(eqs, k->eqs.at + from, sizeof *eqs * len);
    memcpy(of, o->of + from, sizeof *of * len);
    for (uint32_t m = 0; m < n; m++)
        after[members[m] - from] = 2;
    /* before, members, after */
    static const uint8_t turn[] = {0, 2, 1};
    for (uint32_t t = 0; t < 3; t++) {
        if (turn[t] == 2)
            first = to;
        for (uint32_t i = 0; i < len; i++)
            if (after[i] == turn[t]) {
                k->eqs.at[to] = eqs[i];
                o->of[to++] = of[i];
            }
    }
    arena_release(k->module->scratch, mark);
    return first;
}
