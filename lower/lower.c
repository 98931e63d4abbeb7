/* lower: equations become launches, loops and statements on buffers (ir/tile.h).
 *
 * requires: checks explicit, sums split (passes/split.c), classes known     gives: Kernel.tiles
 * before:  y[t, f] = bf16(sum(h) x[t, h] * w[h, f])
 * after:   launch y { parallel f0 in 0..F by 256 { parallel t0 in 0..T by 128 { sums = 0
 *            for slab in 0..H by 256 { pack left over t, h = x[t, h]  pack right over h, f = w[h, f]
 *                                      product sums += left * right }
 *            for t in .. { vector f in .. { y[t, f] = bf16(sums[t - t0, f - f0]) } } } } }
 *
 * One launch per equation or cluster of them (and one for what it needs before: lower/prepare.c). All free indices
 * but the lanes' and the block's rows are parallel loops; a row index is a walk over the route's row blocks. */
#include "lower/lower.h"

#include <string.h>

static int is_scatter(const Lower *l, const Equation *q)
{
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(l->k, q->index[i])->kind != X_INDEX && x_at(l->k, q->index[i])->kind != X_INT)
            return 1;
    return 0;
}

/* An element whose target goes through a dropped row adds nothing. */
static void skip_dropped(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    for (uint32_t i = 0; i < q->nindex; i++) {
        each_below (n, k, q->index[i], EVERYWHERE)
            if (x_at(k, *n)->kind == X_ROW)
                build_if(&l->b, q->loc, x_op2(k, q->loc, OP_ge, lower_expr(l, *n), x_int(k, q->loc, 0)));
    }
}

/* acc[id[t], h] += x[t, h]: adds in index order. The plain last subscript is owned in strips, so that threads never
 * meet; every other index is an ordered loop inside. */
static void lower_scatter(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    Plan *p = &l->plan;
    lower_plan(l, &(Members){.at = {*q}, .n = 1}, NONE);
    for (uint32_t i = 0; i < q->nindex; i++)
        lower_prepare(l, q->index[i]);
    lower_prepare(l, q->rhs);
    p->row = NONE;
    p->rows = 1;
    const Expr *last = x_at(k, q->index[q->nindex - 1]);
    p->lane = last->kind == X_INDEX && !lower_is_row(l, last->sym) && p->lane == last->sym ? last->sym
                                                                                           : (IndexId)NONE;
    for (uint32_t i = 0; p->lane != NONE && i + 1 < q->nindex; i++)
        if (x_uses_index(k, q->index[i], p->lane))
            p->lane = NONE;
    build_launch(&l->b, q->loc, lower_stem(l, q));
    IndexId strip = NONE;
    if (p->lane != NONE) {
        strip = build_index(&l->b, "v0");
        p->strip = p->width = l->cpu->lanes;
        build_for(&l->b, q->loc, LOOP_OWNED, strip, x_int(k, q->loc, 0), lower_extent(l, p->lane), p->strip);
    }
    for (uint32_t f = 0; f < p->nfree; f++) {
        if (p->free[f] == p->lane)
            continue;
        if (lower_is_row(l, p->free[f])) {
            lower_open_all_rows(l, q->loc, p->free[f]);
            continue;
        }
        lower_bind(l, p->free[f], NONE, NONE);
        build_for(&l->b, q->loc, LOOP_ORDERED, p->free[f], x_int(k, q->loc, 0), lower_extent(l, p->free[f]),
                  1);
    }
    if (p->lane != NONE) {
        ExprId first = x_index(k, q->loc, strip);
        lower_bind(l, p->lane, NONE, NONE);
        build_for(&l->b, q->loc, LOOP_VECTOR, p->lane, first,
                  x_min(l->k, x_add(l->k, first, p->strip), lower_extent(l, p->lane)), p->width);
    }
    skip_dropped(l, q);
    lower_sums(l, q->rhs, NULL);
    lower_store_element(l, q, 1);
    l->done.len = 0;
}

/* Every place the guard and subscript of a check vary over. */
static void open_domain_of(Lower *l, Loc loc, ExprId e)
{
    Kernel *k = l->k;
    uint8_t *bound = arena_alloc(k->module->arena, k->indices.len + 1);
    each_below (n, k, e, EVERYWHERE)
        for (uint32_t b = 0; b < x_at(k, *n)->nbound; b++)
            bound[x_bound(k, *n, b)] = 1;
    each_below (n, k, e, EVERYWHERE) {
        if (x_at(k, *n)->kind != X_INDEX || bound[x_at(k, *n)->sym])
            continue;
        IndexId i = x_at(k, *n)->sym;
        if (lower_is_row(l, i)) {
            lower_open_all_rows(l, loc, i);
            continue;
        }
        lower_bind(l, i, NONE, NONE);
        build_for(&l->b, loc, LOOP_ORDERED, i, x_int(k, loc, 0), lower_extent(l, i), 1);
    }
}

static void check_inside(Lower *l, Loc loc, ExprId value, int64_t lo, ExprId end, int at_entry,
                         const char *what)
{
    Kernel *k = l->k;
    Stmt s = tile_stmt(TILE_check, loc);
    s.value = x_and(k, loc, x_op2(k, loc, OP_ge, value, x_int(k, loc, lo)), x_op2(k, loc, OP_lt, value, end));
    s.report = value;
    s.limit = end;
    s.status = at_entry ? STATUS_INDEX : STATUS_COMPUTED;
    s.text = what;
    build_put(&l->b, s);
}

static void lower_check(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    const Tensor t = k->tensors.at[q->lhs];
    Loc loc = q->loc;
    l->plan = (Plan){.lane = NONE, .row = NONE, .rows = 1};
    ExprId all = q->guard == NONE ? q->rhs : x_if(k, loc, q->guard, q->rhs, x_int(k, loc, 0));
    lower_prepare(l, all);
    build_launch(&l->b, loc, "check");
    open_domain_of(l, loc, all);
    ExprId parts[CONJUNCT_MAX];
    uint32_t n = x_conjuncts(k, q->guard, parts, CONJUNCT_MAX);
    for (uint32_t c = 0; c < n; c++)
        build_if(&l->b, loc, lower_value(l, parts[c]));
    const char *what = arena_printf(k->module->arena, "%s: subscript %u of %s is %%lld, its extent is %%lld",
                                    k->name, q->axis + 1u, t.name);
    check_inside(l, loc, lower_value(l, q->rhs), 0, x_extent(k, loc, t.axes[q->axis].extent), q->at_entry,
                 what);
}

void lower_put_top(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    uint32_t last = q->nindex - 1u;
    ExprId at[MAX_RANK];
    Stmt s = tile_stmt(TILE_top, q->loc);
    lower_bind(l, x_at(k, q->index[last])->sym, NONE, NONE);
    lower_bind(l, q->bound, NONE, NONE);
    for (uint32_t i = 0; i < q->nindex; i++)
        at[i] = lower_expr(l, q->index[i]);
    memcpy(s.index, at, sizeof at);
    s.second = lower_place(l, q->ids, at);
    s.buffer = lower_place(l, q->lhs, s.index);
    s.nindex = (uint8_t)(k->tensors.at[s.buffer].rank - 1u);
    s.index[s.nindex] = NONE;
    s.var = q->bound;
    s.lo = x_int(k, q->loc, 0);
    s.hi = lower_extent(l, q->bound);
    s.value = lower_expr(l, q->rhs);
    s.limit = lower_extent(l, x_at(k, q->index[last])->sym);
    build_put(&l->b, s);
}

static void lower_top(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    Loc loc = q->loc;
    uint32_t prefix = q->nindex - 1u;
    l->plan = (Plan){.lane = NONE, .row = NONE, .rows = 1};
    lower_prepare(l, q->rhs);
    build_launch(&l->b, loc, lower_stem(l, q));
    for (uint32_t i = 0; i < prefix; i++) {
        IndexId f = x_at(k, q->index[i])->sym;
        if (lower_is_row(l, f))
            continue;
        lower_bind(l, f, NONE, NONE);
        build_parallel(&l->b, loc, f, lower_extent(l, f), 1);
    }
    for (uint32_t i = 0; i < prefix; i++)
        if (lower_is_row(l, x_at(k, q->index[i])->sym))
            lower_open_all_rows(l, loc, x_at(k, q->index[i])->sym);
    lower_put_top(l, q);
}

static int is_input(const Kernel *k, TensorId t) { return k->tensors.at[t].role == ROLE_IN; }

static void lower_route(Lower *l, const Equation *q)
{
    Kernel *k = l->k;
    Module *m = k->module;
    Loc loc = q->loc;
    const Route r = k->routes.at[q->route];
    for (RouteField f = 0; f < RF_FIELDS; f++)
        tile_route_field(k, q->route, f);
    IndexId t = build_index(&l->b, "t"), s = build_index(&l->b, "k");
    ExprId at[2] = {x_index(k, loc, t), x_index(k, loc, s)};
    build_launch(&l->b, loc, "check");
    build_for(&l->b, loc, LOOP_ORDERED, t, x_int(k, loc, 0), x_extent(k, loc, r.tokens), 1);
    build_for(&l->b, loc, LOOP_ORDERED, s, x_int(k, loc, 0), x_extent(k, loc, r.choices), 1);
    const char *what = arena_printf(m->arena, "%s: route %s: choice %%lld of %s is outside -1..%%lld-1",
                                    k->name, r.name, k->tensors.at[q->ids].name);
    check_inside(l, loc, x_load(k, loc, q->ids, at), -1, x_extent(k, loc, m->groups.at[r.group].groups),
                 is_input(k, q->ids), what);
    build_launch(&l->b, loc, lower_stem(l, q));
    Stmt b = tile_stmt(TILE_route, loc);
    b.route = q->route;
    b.second = q->ids;
    build_put(&l->b, b);
}

static void lower_equation(Lower *l, const Equation *q)
{
    l->equation = q;
    switch (q->kind) {
    case EQ_ASSIGN: lower_elements(l, &(Members){.at = {*q}, .n = 1}); return;
    case EQ_ADD:
        if (is_scatter(l, q))
            lower_scatter(l, q);
        else
            lower_elements(l, &(Members){.at = {*q}, .n = 1});
        return;
    case EQ_TOP: lower_top(l, q); return;
    case EQ_ROUTE: lower_route(l, q); return;
    case EQ_CHECK: lower_check(l, q); return;
    }
}

/* ---- kernels ---- */

/* How many values the indices of expressions take together; `stop` X_GROUP: a row under `@` counts as its group. */
static Extent times_of(Kernel *k, const ExprId *e, uint32_t n, uint8_t stop)
{
    Module *m = k->module;
    Extent times = ext_const(m, 1);
    uint8_t *counted = arena_alloc(m->arena, k->indices.len + 1);
    for (uint32_t i = 0; i < n; i++) {
        each_below (below, k, e[i], stop) {
            const Expr *x = x_at(k, *below);
            if (x->kind == X_GROUP && stop == X_GROUP)
                times = ext_mul(m, times, m->groups.at[k->routes.at[x->sym].group].groups);
            if (x->kind == X_INDEX && !counted[x->sym]++)
                times = ext_mul(m, times, k->indices.at[x->sym].axis.extent);
        }
    }
    return times;
}

/* Rough operations of an equation. Terms of sums are cheap, many being added at a time; memory is not. */
static Extent work_of(Kernel *k, const Equation *q)
{
    Module *m = k->module;
    ExprId at[MAX_RANK + 1];
    if (q->rhs == NONE)
        return ext_mul(m, k->routes.at[q->route].tokens, k->routes.at[q->route].choices);
    memcpy(at, q->index, sizeof *at * q->nindex);
    Extent touched = times_of(k, at, q->nindex, EVERYWHERE), terms = ext_const(m, 0);
    each_below (n, k, q->rhs, EVERYWHERE) {
        at[q->nindex] = *n;
        if (x_at(k, *n)->kind == X_LOAD)
            touched = ext_add(m, touched, times_of(k, n, 1, X_GROUP));
        if (x_at(k, *n)->kind == X_REDUCE)
            terms = ext_add(m, terms, times_of(k, at, q->nindex + 1u, EVERYWHERE));
    }
    return ext_add(m, terms, ext_mul(m, touched, ext_const(m, TOUCH_WORK)));
}

static void validate_routes(Lower *l)
{
    Kernel *k = l->k;
    for (RouteId r = 0; r < k->routes.len; r++) {
        if (k->routes.at[r].role != ROLE_IN)
            continue;
        build_launch(&l->b, k->routes.at[r].loc, "valid");
        Stmt s = tile_stmt(TILE_valid, k->routes.at[r].loc);
        tile_route_field(k, r, RF_START);
        tile_route_field(k, r, RF_COUNT);
        s.route = r;
        build_put(&l->b, s);
    }
}

/* Whether `top` finds enough to choose from is up to the sizes, so it is known before anything is written. */
static void validate_tops(Lower *l)
{
    Kernel *k = l->k;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->kind != EQ_TOP)
            continue;
        build_launch(&l->b, q->loc, "valid");
        Stmt s = tile_stmt(TILE_check, q->loc);
        s.report = lower_extent(l, x_at(k, q->index[q->nindex - 1u])->sym);
        s.limit = lower_extent(l, q->bound);
        s.value = x_op2(k, q->loc, OP_le, s.report, s.limit);
        s.status = STATUS_SIZE;
        s.text = arena_printf(k->module->arena, "%s: top takes %%lld of only %%lld values", k->name);
        build_put(&l->b, s);
    }
}

/* The cluster that begins with equation `first`, or that equation alone. */
static Members take_members(Lower *l, uint32_t first)
{
    Kernel *k = l->k;
    Members m = {.n = 0};
    uint32_t cluster = k->eqs.at[first].cluster;
    do {
        if (m.n == CLUSTER_MAX)
            BUG(l->k->module->arena, "lower: a cluster of kernel %s has more than %d equations", k->name,
                CLUSTER_MAX);
        Equation q = k->eqs.at[first + m.n];
        k->tiles->work = ext_add(k->module, k->tiles->work, work_of(k, &q));
        m.at[m.n++] = q;
    } while (cluster != NONE && first + m.n < k->eqs.len && k->eqs.at[first + m.n].cluster == cluster);
    return m;
}

static void lower_cluster(Lower *l, const Members *m, const Cluster *c)
{
    switch (c->kind) {
    case CLUSTER_DRAIN: lower_elements(l, m); return;
    case CLUSTER_STRIPE: lower_stripe(l, m, c); return;
    case CLUSTER_SCATTER: lower_scatter_rows(l, &m->at[0], &m->at[1]); return;
    }
}

/* Locals that an equation still defines stand in work space, until a cluster keeps them elsewhere. */
static void give_spaces(Kernel *k)
{
    for (TensorId t = 0; t < k->tensors.len; t++) {
        k->tensors.at[t].space = SPACE_GM;
        k->tensors.at[t].route = NONE;
    }
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        TensorId made[2] = {k->eqs.at[i].lhs, k->eqs.at[i].ids};
        for (int n = 0; n < 2; n++)
            if (made[n] != NONE && k->eqs.at[i].kind != EQ_CHECK && k->tensors.at[made[n]].role == ROLE_LOCAL)
                k->tensors.at[made[n]].space = SPACE_WORK;
    }
}

static void lower_kernel(Kernel *k, const PassContext *c)
{
    Arena *a = k->module->arena;
    k->tiles = arena_new_of(a, TileProgram);
    k->tiles->first = NONE;
    k->tiles->work = ext_const(k->module, 0);
    Lower *l = arena_new_of(a, Lower);
    l->k = k;
    l->c = c;
    l->cpu = &cpu_table[c->isa];
    l->b = build_begin(k);
    give_spaces(k);
    l->unroll = build_index(&l->b, "u");
    l->slab = l->striped = NONE;
    validate_routes(l);
    validate_tops(l);
    for (uint32_t i = 0; i < k->eqs.len;) {
        Members m = take_members(l, i);
        i += m.n;
        const Cluster *cluster = m.n == 1 ? NULL : &k->clusters.at[m.at[0].cluster];
        lower_join(l, &m, cluster);
        if (cluster)
            lower_cluster(l, &m, cluster);
        else
            lower_equation(l, &m.at[0]);
    }
}

void pass_lower(Module *m, const PassContext *c)
{
    for (uint32_t i = 0; i < m->kernels.len; i++)
        lower_kernel(m->kernels.at[i], c);
}
