/* Building blocks of the lowering: statements under the open one, loops, buffers, bindings. */
#include "passes/lower.h"

StmtId lower_put(Lower *l, Stmt s)
{
    StmtId id = tile_add(l->k, s);
    StmtId last = l->last[l->depth], parent = l->parent[l->depth];
    if (last != NONE)
        l->p->stmts.at[last].next = id;
    else if (parent != NONE)
        l->p->stmts.at[parent].first = id;
    else
        l->p->first = id;
    l->last[l->depth] = id;
    return id;
}

void lower_open(Lower *l, Stmt s)
{
    if (l->depth + 1 >= OPEN_MAX)
        BUG(l->k->module->arena, "lower: loops of kernel %s nest deeper than %d", l->k->name, OPEN_MAX);
    StmtId id = lower_put(l, s);
    l->depth++;
    l->parent[l->depth] = id;
    l->last[l->depth] = NONE;
}

void lower_close(Lower *l, uint32_t depth) { l->depth = depth; }

void lower_copy(Lower *l, StmtId id)
{
    Stmt s = l->p->stmts.at[id]; /* the list of statements grows */
    StmtId child = s.first;
    uint32_t depth = l->depth;
    s.first = s.next = NONE;
    if (!tile_has_body(&s)) {
        lower_put(l, s);
        return;
    }
    lower_open(l, s);
    for (; child != NONE; child = l->p->stmts.at[child].next)
        lower_copy(l, child);
    lower_close(l, depth);
}

void lower_launch(Lower *l, Loc loc, const char *stem)
{
    Stmt s = tile_stmt(TILE_launch, loc);
    s.name = name_of(l->k->module->names, stem);
    for (uint32_t i = 0; i < l->pool.len; i++)
        l->pool.at[i].taken = 0;
    lower_close(l, 0);
    lower_open(l, s);
}

void lower_for(Lower *l, Loc loc, LoopMode mode, IndexId var, ExprId lo, ExprId hi, int64_t step)
{
    Stmt s = tile_stmt(TILE_for, loc);
    s.mode = (uint8_t)mode;
    s.var = var;
    s.lo = lo;
    s.hi = hi;
    s.step = step;
    lower_open(l, s);
}

void lower_if(Lower *l, Loc loc, ExprId condition)
{
    Stmt s = tile_stmt(TILE_if, loc);
    s.value = condition;
    lower_open(l, s);
}

void lower_store(Lower *l, Loc loc, TensorId t, const ExprId *index, ExprId value, int add)
{
    Stmt s = tile_stmt(TILE_store, loc);
    s.buffer = t;
    s.nindex = l->k->tensors.at[t].rank;
    for (uint32_t i = 0; i < s.nindex; i++)
        s.index[i] = index[i];
    s.value = value;
    s.add = (uint8_t)add;
    lower_put(l, s);
    if (!l->k->tensors.at[t].both)
        return;
    if (add || x_loads_any(l->k, value))
        s.value = x_load(l->k, loc, t, index); /* as it is now: the expression may read what it was */
    s.add = 0;
    s.buffer = tile_turned(l->k, t);
    s.index[s.nindex - 2] = index[s.nindex - 1];
    s.index[s.nindex - 1] = index[s.nindex - 2];
    lower_put(l, s);
}

static TensorId fresh(Lower *l, const char *stem, Elem elem, Space space)
{
    Tensor t = {.elem = elem, .role = ROLE_LOCAL, .space = space, .route = NONE};
    t.name = ir_fresh_name(l->k, stem);
    return ir_tensor(l->k, t);
}

TensorId lower_reg(Lower *l, const char *stem, Elem elem, int64_t count, uint32_t lanes)
{
    TensorId id = fresh(l, stem, elem, SPACE_REG);
    Tensor *t = &l->k->tensors.at[id];
    t->lanes = lanes;
    if (count > 0) {
        t->rank = 1;
        t->axes[0] = (Axis){ext_const(l->k->module, count), NONE};
    }
    return id;
}

TensorId lower_buffer(Lower *l, const char *stem, Elem elem, Space space, uint32_t rank,
                      const Extent *extents)
{
    TensorId id = fresh(l, stem, elem, space);
    Tensor *t = &l->k->tensors.at[id];
    t->rank = (uint8_t)rank;
    for (uint32_t i = 0; i < rank; i++)
        t->axes[i] = (Axis){extents[i], NONE};
    return id;
}

TensorId lower_thread(Lower *l, const char *stem, Elem elem, int64_t rows, int64_t cols, Layout layout)
{
    Module *m = l->k->module;
    Extent extents[2] = {ext_const(m, rows), ext_const(m, cols)};
    for (uint32_t i = 0; i < l->pool.len; i++) {
        const Tensor *t = &l->k->tensors.at[l->pool.at[i].buffer];
        if (l->pool.at[i].taken || t->elem != elem || t->layout != layout ||
            t->axes[0].extent != extents[0] || t->axes[1].extent != extents[1])
            continue;
        l->pool.at[i].taken = 1;
        return l->pool.at[i].buffer;
    }
    TensorId fresh_one = lower_buffer(l, stem, elem, SPACE_THREAD, 2, extents);
    l->k->tensors.at[fresh_one].layout = layout;
    vec_push(m->arena, &l->pool, (ThreadBlock){fresh_one, 1});
    return fresh_one;
}

void lower_give_back(Lower *l, TensorId matrix)
{
    for (uint32_t i = 0; i < l->pool.len; i++)
        if (l->pool.at[i].buffer == matrix)
            l->pool.at[i].taken = 0;
}

ExprId lower_let(Lower *l, Loc loc, const char *stem, ExprId value)
{
    TensorId reg = lower_reg(l, stem, EL_I64, 0, 0);
    lower_store(l, loc, reg, NULL, value, 0);
    return x_load(l->k, loc, reg, NULL);
}

static void set(Lower *l, IndexId i, ExprId value, ExprId group)
{
    while (l->value.len <= i) {
        vec_push(l->k->module->arena, &l->value, NONE);
        vec_push(l->k->module->arena, &l->group, NONE);
    }
    l->value.at[i] = value;
    l->group.at[i] = group;
}

void lower_bind(Lower *l, IndexId i, ExprId value, ExprId group) { set(l, i, value, group); }

Binding lower_binding(const Lower *l, IndexId i)
{
    return i < l->value.len ? (Binding){l->value.at[i], l->group.at[i]} : (Binding){NONE, NONE};
}

IndexId lower_index(Lower *l, const char *stem)
{
    Axis axis = {ext_const(l->k->module, 0), NONE};
    return ir_index(l->k, ir_fresh_name(l->k, stem), (Loc){0}, axis);
}

const char *lower_stem(const Lower *l, const Equation *q)
{
    if (q->kind == EQ_CHECK)
        return "check";
    return q->kind == EQ_ROUTE ? l->k->routes.at[q->route].name : l->k->tensors.at[q->lhs].name;
}

ExprId lower_extent(Lower *l, IndexId i) { return x_extent(l->k, (Loc){0}, lower_length(l, i)); }

int lower_is_row(const Lower *l, IndexId i) { return l->k->indices.at[i].axis.group != NONE; }

void lower_parallel(Lower *l, Loc loc, IndexId var, ExprId hi, int64_t step)
{
    lower_for(l, loc, LOOP_PARALLEL, var, x_int(l->k, loc, 0), hi, step);
}

/* A loop over the groups of a row index; the group. */
ExprId lower_open_groups(Lower *l, Loc loc, IndexId r)
{
    IndexId e = lower_index(l, "e");
    Extent groups = l->k->module->groups.at[l->k->indices.at[r].axis.group].groups;
    lower_for(l, loc, LOOP_ORDERED, e, x_int(l->k, loc, 0), x_extent(l->k, loc, groups), 1);
    return x_index(l->k, loc, e);
}

/* Every row of every group, for a second row index. */
void lower_open_all_rows(Lower *l, Loc loc, IndexId r)
{
    RouteId route = lower_route_of(l, r);
    ExprId group = lower_open_groups(l, loc, r);
    lower_for(l, loc, LOOP_ORDERED, r, lower_run_start(l, route, group), lower_run_end(l, route, group), 1);
    lower_bind(l, r, NONE, group);
}

TensorId lower_place(Lower *l, TensorId t, ExprId *at)
{
    for (uint32_t i = 0; i < l->places.len; i++) {
        const Place *p = &l->places.at[i];
        uint32_t n = 0;
        if (p->tensor != t)
            continue;
        ExprId row = lower_difference(l, at[p->row], l->stripe_first), from[MAX_RANK];
        for (uint32_t a = 0; a < l->k->tensors.at[t].rank; a++)
            if (p->keep >> a & 1)
                from[++n] = at[a];
        from[0] = row;
        for (uint32_t a = 0; a <= n; a++)
            at[a] = from[a];
        return p->buffer;
    }
    return t;
}

void lower_store_element(Lower *l, const Equation *q, int add)
{
    ExprId at[MAX_RANK];
    for (uint32_t i = 0; i < q->nindex; i++)
        at[i] = lower_expr(l, q->index[i]);
    ExprId value = lower_expr(l, q->rhs);
    TensorId placed = lower_place(l, q->lhs, at);
    lower_store(l, q->loc, placed, at, value, add);
}
