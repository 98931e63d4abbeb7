/* What the vector unit can do of a nest, and what must be moved for it (Note [Stages] in vector.c). */
#include "npu/stage.h"

/* ---- what the vector unit can do ---- */

/* Is it the element that the store writes? */
static int is_target(const Kernel *k, ExprId load, const Stmt *s)
{
    uint32_t a = 0;
    while (x_at(k, load)->sym == s->buffer && a < s->nindex && s->index[a] == x_arg(k, load, a))
        a++;
    return x_at(k, load)->sym == s->buffer && a == s->nindex;
}

/* Does an earlier store of the nest give the very element? Its number, or `before`. */
uint32_t stage_stored_before(const Stage *g, ExprId load, uint32_t before)
{
    const Kernel *k = g->p->k;
    for (uint32_t i = before; i-- > 0;) {
        if (is_target(k, load, &g->stores[i]))
            return i;
    }
    return before;
}

static int is_stored(const Stage *g, TensorId t)
{
    for (uint32_t i = 0; i < g->nstores; i++)
        if (g->stores[i].buffer == t)
            return 1;
    return 0;
}

static int can_load(const Stage *g, ExprId load, uint32_t store)
{
    const Kernel *k = g->p->k;
    const Tensor *t = &k->tensors.at[x_at(k, load)->sym];
    if (t->space == SPACE_REG)
        return !t->lanes;
    if (stage_stored_before(g, load, store) < store)
        return 1;
    if (is_stored(g, x_at(k, load)->sym))
        return is_target(k, load, &g->stores[store]) && plan_is_linear(k, load, g->col);
    if (!x_uses_index(k, load, g->col))
        return !plan_is_made(g->p, x_at(k, load)->sym) || plan_is_row_value(k, load, g->row);
    if (t->space != SPACE_THREAD && g->p->writes[x_at(k, load)->sym])
        return 0; /* written by this launch, by whichever unit */
    return plan_is_memory(t) && plan_is_linear(k, load, g->col);
}

/* Do the stores, or loads that are always evaluated, use the subscript for an axis of this extent? */
static int is_used(const Stage *g, ExprId subscript, Extent extent)
{
    const Kernel *k = g->p->k;
    for (uint32_t n = 0; n < g->nstores; n++) {
        const Stmt *s = &g->stores[n];
        for (uint32_t a = 0; a < s->nindex; a++)
            if (s->index[a] == subscript &&
                ext_same(k->module, k->tensors.at[s->buffer].axes[a].extent, extent))
                return 1;
        Nodes nodes = x_below(k, g->values[n], EVERYWHERE);
        for (uint32_t i = 0; i < nodes.n; i++) {
            const Expr *x = x_at(k, nodes.at[i]);
            for (uint32_t a = 0; x->kind == X_LOAD && a < x->nargs; a++)
                if (x_arg(k, nodes.at[i], a) == subscript &&
                    ext_same(k->module, k->tensors.at[x->sym].axes[a].extent, extent) &&
                    x_is_asked_for(k, g->values[n], nodes.at[i]))
                    return 1;
        }
    }
    return 0;
}

/* What is moved is moved whether it is asked for or not, so it must be there. */
static int may_move(const Stage *g, ExprId load, uint32_t store)
{
    TensorId id = x_at(g->p->k, load)->sym;
    const Tensor *t = &g->p->k->tensors.at[id];
    int moves = t->space != SPACE_REG && (x_uses_index(g->p->k, load, g->col) || plan_is_made(g->p, id));
    if (!moves || x_is_asked_for(g->p->k, g->values[store], load))
        return 1;
    for (uint32_t a = 0; a < x_at(g->p->k, load)->nargs; a++) {
        ExprId subscript = x_arg(g->p->k, load, a);
        if (!is_used(g, subscript, t->axes[a].extent) && !plan_is_own_row(g->p->k, t, subscript) &&
            ir_prove_range(g->p->k, subscript, t->axes[a], NONE) != PROOF_INSIDE)
            return 0;
    }
    return 1;
}

int stage_can_store(const Stage *g, uint32_t n)
{
    const Kernel *k = g->p->k;
    const Stmt *s = &g->stores[n];
    const Tensor *t = &k->tensors.at[s->buffer];
    if (s->kind != TILE_store || !plan_is_memory(t) || !t->rank || t->both || t->transposed ||
        !x_is_unit(k, s->index[s->nindex - 1], g->col))
        return 0;
    /* What adds to itself needs a place for each row. */
    int apart = g->row == NONE || !(s->add || x_loads(k, s->value, s->buffer));
    for (uint32_t a = 0; a + 1 < s->nindex; a++) {
        if (x_uses_index(k, s->index[a], g->col))
            return 0;
        apart |= x_is_unit(k, s->index[a], g->row);
    }
    if (!apart)
        return 0;
    Nodes nodes = x_below(k, g->values[n], EVERYWHERE);
    for (uint32_t i = 0; i < nodes.n; i++) {
        ExprId x = nodes.at[i];
        if (x_at(k, x)->kind == X_LANES ||
            (x_at(k, x)->kind == X_LOAD && (!can_load(g, x, n) || !may_move(g, x, n))))
            return 0;
    }
    return 1;
}

/* What a `+=` leaves in the element: the sum, rounded as a store rounds it. */
static ExprId added(Kernel *k, const Stmt *s)
{
    ExprId old = x_load(k, s->loc, s->buffer, s->index);
    return x_as(k, x_op2(k, s->loc, OP_add, old, s->value), elem_type(k->tensors.at[s->buffer].elem));
}

int stage_open(Stage *g, StmtId id)
{
    Planner *p = g->p;
    Stmt s = plan_at(p, id);
    if (s.kind != TILE_for)
        return 0;
    if (s.mode == LOOP_ORDERED && s.step == 1 && s.first != NONE && plan_at(p, s.first).next == NONE) {
        g->row = s.var;
        g->first = s.lo;
        g->last = s.hi;
        s = plan_at(p, s.first);
    } else {
        g->row = NONE;
        g->first = x_int(p->k, s.loc, 0);
        g->last = x_int(p->k, s.loc, 1);
    }
    if (s.kind != TILE_for || s.mode != LOOP_VECTOR || s.first == NONE)
        return 0;
    if (g->row != NONE && (x_uses_index(p->k, s.lo, g->row) || x_uses_index(p->k, s.hi, g->row)))
        return 0;
    g->vector = s;
    g->col = s.var;
    g->lo = s.lo;
    g->hi = s.hi;
    tile_each (c, p->k, s.first) {
        if (g->nstores == STAGED_MAX || plan_at(p, c).kind != TILE_store)
            return 0;
        Stmt store = plan_at(p, c);
        g->values[g->nstores] = store.add ? added(p->k, &store) : store.value;
        g->stores[g->nstores++] = store;
    }
    return 1;
}

/* ---- what is moved ---- */

static PlanShape shape_of(const Stage *g, ExprId load)
{
    if (!x_uses_index(g->p->k, load, g->col))
        return SHAPE_VALUES;
    if (g->row == NONE || !x_uses_index(g->p->k, load, g->row))
        return SHAPE_LINE;
    return plan_is_linear(g->p->k, load, g->row) ? SHAPE_BOX : SHAPE_ROWS;
}

static PlanShape shape_of_target(const Stage *g, const Stmt *s)
{
    const Kernel *k = g->p->k;
    int below = s->nindex >= 2 && g->row != NONE && x_is_unit(k, s->index[s->nindex - 2], g->row);
    for (uint32_t a = 0; g->row != NONE && a < s->nindex; a++)
        if (x_uses_index(k, s->index[a], g->row))
            below &= a + 2 == s->nindex;
    return g->row == NONE ? SHAPE_LINE : below ? SHAPE_BOX : SHAPE_ROWS;
}

static int add_input(Stage *g, ExprId load)
{
    const Kernel *k = g->p->k;
    for (uint32_t i = 0; i < g->nin; i++)
        if (g->in[i].load == load)
            return 1;
    if (g->nin == STAGED_MAX)
        return 0;
    g->in[g->nin++] =
        (Staged){.load = load, .shape = shape_of(g, load), .elem = k->tensors.at[x_at(k, load)->sym].elem};
    return 1;
}

int stage_find_moves(Stage *g)
{
    const Kernel *k = g->p->k;
    for (uint32_t s = 0; s < g->nstores; s++) {
        Nodes nodes = x_below(k, g->values[s], EVERYWHERE);
        for (uint32_t i = 0; i < nodes.n; i++) {
            const Expr *x = x_at(k, nodes.at[i]);
            if (x->kind == X_LOAD && k->tensors.at[x->sym].space != SPACE_REG &&
                (x_uses_index(k, nodes.at[i], g->col) || plan_is_made(g->p, x->sym)) &&
                stage_stored_before(g, nodes.at[i], s) == s && !add_input(g, nodes.at[i]))
                return 0;
        }
        g->out[s] = (Staged){.load = NONE,
                             .store = s,
                             .shape = shape_of_target(g, &g->stores[s]),
                             .elem = k->tensors.at[g->stores[s].buffer].elem};
    }
    return 1;
}
