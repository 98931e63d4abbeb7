/* The builder of tile programs (tile_build.h). */
#include "ir/tile_build.h"

TileBuild build_begin(Kernel *k)
{
    TileBuild b = {.k = k};
    b.parent[0] = b.last[0] = NONE;
    return b;
}

/* ---- statements ---- */

StmtId build_put(TileBuild *b, Stmt s)
{
    s.first = s.next = NONE;
    StmtId id = tile_add(b->k, s);
    StmtId last = b->last[b->depth], parent = b->parent[b->depth];
    if (last != NONE)
        b->k->tiles->stmts.at[last].next = id;
    else if (parent != NONE)
        b->k->tiles->stmts.at[parent].first = id;
    else
        b->k->tiles->first = id;
    b->last[b->depth] = id;
    return id;
}

void build_open(TileBuild *b, Stmt s)
{
    if (b->depth + 1 >= TILE_NESTING)
        BUG(b->k->module->arena, "loops of kernel %s nest deeper than %d", b->k->name, TILE_NESTING);
    StmtId id = build_put(b, s);
    b->depth++;
    b->parent[b->depth] = id;
    b->last[b->depth] = NONE;
}

void build_close(TileBuild *b, uint32_t depth) { b->depth = depth; }

void build_copy(TileBuild *b, StmtId id)
{
    Stmt s = b->k->tiles->stmts.at[id]; /* the list of statements grows */
    StmtId body = s.first;
    uint32_t depth = b->depth;
    if (!tile_has_body(&s)) {
        build_put(b, s);
        return;
    }
    build_open(b, s);
    tile_each (child, b->k, body)
        build_copy(b, child);
    build_close(b, depth);
}

void build_launch(TileBuild *b, Loc loc, const char *stem)
{
    Stmt s = tile_stmt(TILE_launch, loc);
    s.name = name_of(b->k->module->names, stem);
    for (uint32_t i = 0; i < b->pool.len; i++)
        b->pool.at[i].taken = 0;
    build_close(b, 0);
    build_open(b, s);
}

void build_for(TileBuild *b, Loc loc, LoopMode mode, IndexId var, ExprId lo, ExprId hi, int64_t step)
{
    Stmt s = tile_stmt(TILE_for, loc);
    s.mode = (uint8_t)mode;
    s.var = var;
    s.lo = lo;
    s.hi = hi;
    s.step = step;
    build_open(b, s);
}

void build_if(TileBuild *b, Loc loc, ExprId condition)
{
    Stmt s = tile_stmt(TILE_if, loc);
    s.value = condition;
    build_open(b, s);
}

void build_store(TileBuild *b, Loc loc, TensorId t, const ExprId *index, ExprId value, int add)
{
    Stmt s = tile_stmt(TILE_store, loc);
    s.buffer = t;
    s.nindex = b->k->tensors.at[t].rank;
    for (uint32_t i = 0; i < s.nindex; i++)
        s.index[i] = index[i];
    s.value = value;
    s.add = (uint8_t)add;
    build_put(b, s);
    if (!b->k->tensors.at[t].both)
        return;
    if (add || x_loads_any(b->k, value))
        s.value = x_load(b->k, loc, t, index); /* as it is now: the expression may read what it was */
    s.add = 0;
    s.buffer = tile_transposed(b->k, t);
    s.index[s.nindex - 2] = index[s.nindex - 1];
    s.index[s.nindex - 1] = index[s.nindex - 2];
    build_put(b, s);
}

/* ---- buffers and variables ---- */

static TensorId fresh(TileBuild *b, const char *stem, Elem elem, Space space)
{
    Tensor t = {.elem = elem, .role = ROLE_LOCAL, .space = space, .route = NONE};
    t.name = ir_fresh_name(b->k, stem);
    return ir_tensor(b->k, t);
}

TensorId build_reg(TileBuild *b, const char *stem, Elem elem, int64_t count, uint32_t lanes)
{
    TensorId id = fresh(b, stem, elem, SPACE_REG);
    Tensor *t = &b->k->tensors.at[id];
    t->lanes = lanes;
    if (count > 0) {
        t->rank = 1;
        t->axes[0] = (Axis){ext_const(b->k->module, count), NONE};
    }
    return id;
}

TensorId build_buffer(TileBuild *b, const char *stem, Elem elem, Space space, uint32_t rank,
                      const Extent *extents)
{
    TensorId id = fresh(b, stem, elem, space);
    Tensor *t = &b->k->tensors.at[id];
    t->rank = (uint8_t)rank;
    for (uint32_t i = 0; i < rank; i++)
        t->axes[i] = (Axis){extents[i], NONE};
    return id;
}

TensorId build_thread(TileBuild *b, const char *stem, Elem elem, int64_t rows, int64_t cols, Layout layout)
{
    Module *m = b->k->module;
    Extent extents[2] = {ext_const(m, rows), ext_const(m, cols)};
    for (uint32_t i = 0; i < b->pool.len; i++) {
        const Tensor *t = &b->k->tensors.at[b->pool.at[i].buffer];
        if (b->pool.at[i].taken || t->elem != elem || t->layout != layout ||
            t->axes[0].extent != extents[0] || t->axes[1].extent != extents[1])
            continue;
        b->pool.at[i].taken = 1;
        return b->pool.at[i].buffer;
    }
    TensorId fresh_one = build_buffer(b, stem, elem, SPACE_THREAD, 2, extents);
    b->k->tensors.at[fresh_one].layout = layout;
    vec_push(m->arena, &b->pool, (ThreadMatrix){fresh_one, 1});
    return fresh_one;
}

void build_give_back(TileBuild *b, TensorId matrix)
{
    for (uint32_t i = 0; i < b->pool.len; i++)
        if (b->pool.at[i].buffer == matrix)
            b->pool.at[i].taken = 0;
}

ExprId build_let(TileBuild *b, Loc loc, const char *stem, ExprId value)
{
    TensorId reg = build_reg(b, stem, EL_I64, 0, 0);
    build_store(b, loc, reg, NULL, value, 0);
    return x_load(b->k, loc, reg, NULL);
}

IndexId build_index(TileBuild *b, const char *stem)
{
    Axis axis = {ext_const(b->k->module, 0), NONE};
    return ir_index(b->k, ir_fresh_name(b->k, stem), (Loc){0}, axis);
}

void build_parallel(TileBuild *b, Loc loc, IndexId var, ExprId hi, int64_t step)
{
    build_for(b, loc, LOOP_PARALLEL, var, x_int(b->k, loc, 0), hi, step);
}

/* ---- index arithmetic ---- */

ExprId x_add(Kernel *k, ExprId a, int64_t b)
{
    Module *m = k->module;
    if (b == 0)
        return a;
    if (x_at(k, a)->kind == X_INT)
        return x_int(k, (Loc){0}, x_at(k, a)->value.i + b);
    if (x_at(k, a)->kind == X_EXTENT) /* one node, as the text form reads it */
        return x_extent(k, (Loc){0}, ext_add(m, x_at(k, a)->sym, ext_const(m, b)));
    return x_op2(k, (Loc){0}, OP_add, a, x_int(k, (Loc){0}, b));
}

ExprId x_difference(Kernel *k, ExprId a, ExprId b)
{
    if (x_is_int(k, b, 0))
        return a;
    return a == b ? x_int(k, (Loc){0}, 0) : x_op2(k, (Loc){0}, OP_sub, a, b);
}

ExprId x_offset(Kernel *k, ExprId first, ExprId by)
{
    return x_is_int(k, first, 0) ? by : x_op2(k, (Loc){0}, OP_add, first, by);
}

ExprId x_min(Kernel *k, ExprId a, ExprId b) { return a == b ? a : x_op2(k, (Loc){0}, OP_min2, a, b); }

ExprId x_max(Kernel *k, ExprId a, ExprId b) { return a == b ? a : x_op2(k, (Loc){0}, OP_max2, a, b); }
