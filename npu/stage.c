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
uint32_t stage_stored_before(const Stage *st, ExprId load, uint32_t before)
{
    const Kernel *k = st->p->k;
    for (uint32_t i = before; i-- > 0;) {
        if (is_target(k, load, &st->stores[i]))
            return i;
    }
    return before;
}

static int is_stored(const Stage *st, TensorId t)
{
    for (uint32_t i = 0; i < st->nstores; i++)
        if (st->stores[i].buffer == t)
            return 1;
    return 0;
}

static int can_load(const Stage *st, ExprId load, uint32_t store)
{
    const Kernel *k = st->p->k;
    const Tensor *t = &k->tensors.at[x_at(k, load)->sym];
    if (t->space == SPACE_REG)
        return !t->lanes;
    if (stage_stored_before(st, load, store) < store)
        return 1;
    if (is_stored(st, x_at(k, load)->sym))
        return is_target(k, load, &st->stores[store]) && plan_is_linear(k, load, st->col);
    if (!x_uses_index(k, load, st->col))
        return !plan_is_made(st->p, x_at(k, load)->sym) || plan_is_row_value(k, load, st->row);
    if (t->space != SPACE_THREAD && st->p->writes[x_at(k, load)->sym])
        return 0; /* written by this launch, by whichever unit */
    return plan_is_memory(t) && plan_is_linear(k, load, st->col);
}

/* Do the stores, or loads that are always evaluated, use the subscript for an axis of this extent? */
static int is_used(const Stage *st, ExprId subscript, Extent extent)
{
    const Kernel *k = st->p->k;
    for (uint32_t n = 0; n < st->nstores; n++) {
        const Stmt *s = &st->stores[n];
        for (uint32_t a = 0; a < s->nindex; a++)
            if (s->index[a] == subscript &&
                ext_same(k->module, k->tensors.at[s->buffer].axes[a].extent, extent))
                return 1;
        Nodes nodes = x_below(k, st->values[n], EVERYWHERE);
        for (uint32_t i = 0; i < nodes.n; i++) {
            const Expr *x = x_at(k, nodes.at[i]);
            for (uint32_t a = 0; x->kind == X_LOAD && a < x->nargs; a++)
                if (x_arg(k, nodes.at[i], a) == subscript &&
                    ext_same(k->module, k->tensors.at[x->sym].axes[a].extent, extent) &&
                    x_is_asked_for(k, st->values[n], nodes.at[i]))
                    return 1;
        }
    }
    return 0;
}

/* What is moved is moved whether it is asked for or not, so it must be there. */
static int may_move(const Stage *st, ExprId load, uint32_t store)
{
    TensorId id = x_at(st->p->k, load)->sym;
    const Tensor *t = &st->p->k->tensors.at[id];
    int moves = t->space != SPACE_REG && (x_uses_index(st->p->k, load, st->col) || plan_is_made(st->p, id));
    if (!moves || x_is_asked_for(st->p->k, st->values[store], load))
        return 1;
    for (uint32_t a = 0; a < x_at(st->p->k, load)->nargs; a++) {
        ExprId subscript = x_arg(st->p->k, load, a);
        if (!is_used(st, subscript, t->axes[a].extent) && !plan_is_own_row(st->p->k, t, subscript) &&
            ir_prove_range(st->p->k, subscript, t->axes[a], NONE) != PROOF_INSIDE)
            return 0;
    }
    return 1;
}

int stage_can_store(const Stage *st, uint32_t n)
{
    const Kernel *k = st->p->k;
    const Stmt *s = &st->stores[n];
    const Tensor *t = &k->tensors.at[s->buffer];
    if (s->kind != TILE_store || !plan_is_memory(t) || !t->rank || t->both || t->transposed ||
        !x_is_unit(k, s->index[s->nindex - 1], st->col))
        return 0;
    /* What adds to itself needs a place for each row. */
    int apart = st->row == NONE || !(s->add || x_loads(k, s->value, s->buffer));
    for (uint32_t a = 0; a + 1 < s->nindex; a++) {
        if (x_uses_index(k, s->index[a], st->col))
            return 0;
        apart |= x_is_unit(k, s->index[a], st->row);
    }
    if (!apart)
        return 0;
    Nodes nodes = x_below(k, st->values[n], EVERYWHERE);
    for (uint32_t i = 0; i < nodes.n; i++) {
        ExprId x = nodes.at[i];
        if (x_at(k, x)->kind == X_LANES ||
            (x_at(k, x)->kind == X_LOAD && (!can_load(st, x, n) || !may_move(st, x, n))))
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

int stage_open(Stage *st, StmtId id)
{
    Planner *p = st->p;
    Stmt s = plan_at(p, id);
    if (s.kind != TILE_for)
        return 0;
    if (s.mode == LOOP_ORDERED && s.step == 1 && s.first != NONE && plan_at(p, s.first).next == NONE) {
        st->row = s.var;
        st->first = s.lo;
        st->last = s.hi;
        s = plan_at(p, s.first);
    } else {
        st->row = NONE;
        st->first = x_int(p->k, s.loc, 0);
        st->last = x_int(p->k, s.loc, 1);
    }
    if (s.kind != TILE_for || s.mode != LOOP_VECTOR || s.first == NONE)
        return 0;
    if (st->row != NONE && (x_uses_index(p->k, s.lo, st->row) || x_uses_index(p->k, s.hi, st->row)))
        return 0;
    st->vector = s;
    st->col = s.var;
    st->lo = s.lo;
    st->hi = s.hi;
    tile_each (c, p->k, s.first) {
        if (st->nstores == STAGED_MAX || plan_at(p, c).kind != TILE_store)
            return 0;
        Stmt store = plan_at(p, c);
        st->values[st->nstores] = store.add ? added(p->k, &store) : store.value;
        st->stores[st->nstores++] = store;
    }
    return 1;
}

/* ---- what is moved ---- */

static PlanShape shape_of(const Stage *st, ExprId load)
{
    if (!x_uses_index(st->p->k, load, st->col))
        return SHAPE_VALUES;
    if (st->row == NONE || !x_uses_index(st->p->k, load, st->row))
        return SHAPE_LINE;
    return plan_is_linear(st->p->k, load, st->row) ? SHAPE_BOX : SHAPE_ROWS;
}

static PlanShape shape_of_target(const Stage *st, const Stmt *s)
{
    const Kernel *k = st->p->k;
    int below = s->nindex >= 2 && st->row != NONE && x_is_unit(k, s->index[s->nindex - 2], st->row);
    for (uint32_t a = 0; st->row != NONE && a < s->nindex; a++)
        if (x_uses_index(k, s->index[a], st->row))
            below &= a + 2 == s->nindex;
    return st->row == NONE ? SHAPE_LINE : below ? SHAPE_BOX : SHAPE_ROWS;
}

static int add_input(Stage *st, ExprId load)
{
    const Kernel *k = st->p->k;
    for (uint32_t i = 0; i < st->nin; i++)
        if (st->in[i].load == load)
            return 1;
    if (st->nin == STAGED_MAX)
        return 0;
    st->in[st->nin++] =
        (Staged){.load = load, .shape = shape_of(st, load), .elem = k->tensors.at[x_at(k, load)->sym].elem};
    return 1;
}

int stage_find_moves(Stage *st)
{
    const Kernel *k = st->p->k;
    for (uint32_t s = 0; s < st->nstores; s++) {
        Nodes nodes = x_below(k, st->values[s], EVERYWHERE);
        for (uint32_t i = 0; i < nodes.n; i++) {
            const Expr *x = x_at(k, nodes.at[i]);
            if (x->kind == X_LOAD && k->tensors.at[x->sym].space != SPACE_REG &&
                (x_uses_index(k, nodes.at[i], st->col) || plan_is_made(st->p, x->sym)) &&
                stage_stored_before(st, nodes.at[i], s) == s && !add_input(st, nodes.at[i]))
                return 0;
        }
        st->out[s] = (Staged){.load = NONE,
                              .store = s,
                              .shape = shape_of_target(st, &st->stores[s]),
                              .elem = k->tensors.at[st->stores[s].buffer].elem};
    }
    return 1;
}
