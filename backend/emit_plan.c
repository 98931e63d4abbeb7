/* A kernel's plan: which buffers its tile program uses, its launches and checks, and where a call's data
 * lies. */
#include "backend/emit_pack.h"
#include "backend/emit_packed.h"

#include <string.h>

typedef struct Marker {
    Plan *p;
    Arena *a;
    uint32_t *seen, epoch; /* by ExprId */
    StmtId loop;           /* outermost open vector loop */
    Launch *launch;
} Marker;

static void mark_buffer(Marker *m, uint32_t buffer, StmtId loop)
{
    Buffer *b = &m->p->buffers.at[buffer];
    m->launch->has_lanes |= b->lanes > 0;
    if (!b->used)
        b->home = loop;
    else if (b->home != loop)
        b->home = NONE;
    b->used = 1;
}

static void mark_loop(Marker *m, TensorId t, StmtId loop)
{
    Launch *launch = m->launch;
    if (launch->once[t] == NONE)
        launch->once[t] = loop;
    else if (loop != NONE && launch->once[t] != loop)
        launch->again[t] = loop;
}

static void mark_expr(Marker *m, ExprId x, StmtId loop)
{
    if (m->seen[x] == m->epoch)
        return;
    m->seen[x] = m->epoch;
    const Expr *n = x_at(m->p->k, x);
    if (n->kind == X_LOAD) {
        mark_buffer(m, n->sym, loop);
        m->launch->reads[n->sym] = 1;
        mark_loop(m, n->sym, loop);
    }
    for (uint32_t i = 0; i < n->nargs; i++) {
        if (n->kind == X_LANES)
            m->seen[x_arg(m->p->k, x, i)] = 0;
        mark_expr(m, x_arg(m->p->k, x, i), n->kind == X_LANES ? (StmtId)NONE : loop);
    }
}

static void mark_field(Marker *m, RouteId r, RouteField f)
{
    static const char *const names[RF_FIELDS] = {
#define ROUTE(...)
#define ROUTE_ARRAY(field, ctype, doc) #field,
#include "moec/abi.def"
    };
    Plan *p = m->p;
    uint32_t at = plan_field(p, r, f);
    if (at == NONE) {
        const Route *route = &p->k->routes.at[r];
        const Group *g = &p->m->groups.at[route->group];
        Buffer b = {.role = route->role, .rank = 1, .route = r, .field = (uint8_t)f, .home = NONE};
        b.name = arena_printf(m->a, "%s.%s", route->name, names[f]);
        b.elem = f == RF_start || f == RF_count ? EL_I64 : EL_I32;
        b.space = route->role == ROLE_LOCAL ? SPACE_WORK : SPACE_GM;
        b.plus = f == RF_start; /* no new extents: the module is shared by threads */
        b.axes[0] = (Axis){f == RF_row_of ? route->tokens : f == RF_slot_of ? g->rows : g->groups, NONE};
        if (f == RF_row_of)
            b.axes[b.rank++] = (Axis){route->choices, NONE};
        at = p->buffers.len;
        vec_push(m->a, &p->buffers, b);
    }
    mark_buffer(m, at, NONE);
}

/* blocks reads two fields of the route, route makes all, and valid checks those that the kernel reads. */
static void mark_route(Marker *m, const Stmt *s, RouteId r)
{
    for (RouteField f = 0; f < RF_FIELDS; f++) {
        int read = s->kind != TILE_blocks && tile_uses_field(m->p->p, r, f);
        if (s->kind == TILE_route || f == RF_start || f == RF_count || read)
            mark_field(m, r, f);
    }
}

static void plan_pack(Marker *m, StmtId id, const Stmt *s)
{
    m->p->lane_axis[id] = pack_lane_axis(m->p, s);
    m->p->helpers |= pack_helpers(m->p, s);
}

static void mark_body(Marker *m, StmtId first);

static int is_top_parallel(const Plan *p, StmtId s)
{
    const Stmt *t = &p->p->stmts.at[s];
    return tile_is_flat(t) && t->next == NONE;
}

static void mark_stmt(Marker *m, StmtId id)
{
    const Stmt *s = &m->p->p->stmts.at[id];
    StmtId outer = m->loop;
    m->epoch++;
    tile_each_operand (o, s)
        if (tile_operand_is_expr(&o))
            mark_expr(m, o.id, m->loop);
        else if (tile_operand_is_buffer(&o))
            mark_buffer(m, o.id, m->loop);
        else if (o.role == OPERAND_ROUTE)
            mark_route(m, s, o.id);
    if (s->kind == TILE_pack)
        plan_pack(m, id, s);
    if (s->kind == TILE_store && s->add)
        m->launch->reads[s->buffer] = 1;
    m->launch->has_product |= s->kind == TILE_product;
    if (s->kind == TILE_product)
        m->p->helpers |= product_helpers(m->p, s);
    if (s->kind == TILE_for && s->mode == LOOP_VECTOR && outer == NONE)
        m->loop = id;
    mark_body(m, s->first);
    m->loop = outer;
}

/* Is it what happens otherwise: if a < b { .. } if a >= b { .. }? */
static int is_otherwise(const Kernel *k, const Stmt *s, const Stmt *before)
{
    return before->kind == TILE_if && s->kind == TILE_if && x_is_op(k, before->value, OP_lt) &&
           x_is_op(k, s->value, OP_ge) && x_arg(k, s->value, 0) == x_arg(k, before->value, 0) &&
           x_arg(k, s->value, 1) == x_arg(k, before->value, 1);
}

/* Of two statements that exclude each other no loop goes over a row again because the other has one. */
static void mark_body(Marker *m, StmtId first)
{
    const Kernel *k = m->p->k;
    StmtId *once = m->launch->once, *before = NULL;
    size_t bytes = k->tensors.len * sizeof *once;
    tile_each (id, k, first) {
        const Stmt *s = tile_at(k, id);
        int excludes = s->next != NONE && is_otherwise(k, tile_at(k, s->next), s);
        if (before)
            memcpy(once, before, bytes);
        before = excludes ? memcpy(arena_array(m->a, StmtId, k->tensors.len + 1), once, bytes) : NULL;
        mark_stmt(m, id);
    }
}

static void plan_launch(Marker *m, StmtId id)
{
    Plan *p = m->p;
    Launch launch = {.stmt = id, .body = p->p->stmts.at[id].first};
    launch.reads = arena_alloc(m->a, p->k->tensors.len + 1);
    launch.once = arena_array(m->a, StmtId, p->k->tensors.len + 1);
    launch.again = arena_array(m->a, StmtId, p->k->tensors.len + 1);
    for (TensorId t = 0; t < p->k->tensors.len; t++)
        launch.once[t] = launch.again[t] = NONE;
    while (launch.body != NONE && is_top_parallel(p, launch.body) && launch.nloops < PARALLEL_MAX) {
        launch.loops[launch.nloops++] = launch.body;
        launch.body = p->p->stmts.at[launch.body].first;
    }
    m->launch = &launch;
    mark_stmt(m, id);
    vec_push(m->a, &p->launches, launch);
}

static void add_buffers(Plan *p, Arena *a)
{
    for (TensorId t = 0; t < p->k->tensors.len; t++) {
        const Tensor *x = &p->k->tensors.at[t];
        Buffer b = {.name = x->name,
                    .elem = x->elem,
                    .space = x->space,
                    .place = x->at,
                    .role = x->role,
                    .rank = x->rank,
                    .layout = x->layout,
                    .lanes = x->lanes,
                    .route = x->route,
                    .field = x->field,
                    .home = NONE};
        memcpy(b.axes, x->axes, sizeof b.axes);
        b.by_value = x->role == ROLE_IN && !x->rank && x->space == SPACE_GM && x->route == NONE;
        vec_push(a, &p->buffers, b);
    }
}

static void place_data(Plan *p)
{
    uint32_t at = DATA_COUNTERS + 64 * (p->launches.len + 1);
    for (uint32_t i = 0; i < p->ndims; i++, at += 8)
        p->dim_at[p->dims[i]] = at;
    for (uint32_t i = 0; i < p->buffers.len; i++) {
        Buffer *b = &p->buffers.at[i];
        if (!b->used || b->space == SPACE_REG || space_is_on_chip(b->space))
            continue;
        b->at = at;
        at += 8;
    }
    p->data_bytes = at;
}

Plan *plan_new(Arena *a, const Module *m, const Kernel *k, Isa target, int debug)
{
    Plan *p = arena_new_of(a, Plan);
    *p = (Plan){
        .m = m, .k = k, .p = k->tiles, .target = target, .isa = cpu_table[target].code, .hooks = emit_hooks};
    p->cpu = &cpu_table[p->isa];
    p->dims = arena_array(a, DimId, m->dims.len + 1);
    p->ndims = ir_kernel_dims(k, p->dims);
    p->dim_at = arena_array(a, uint32_t, m->dims.len + 1);
    p->check_of = arena_array(a, uint32_t, p->p->stmts.len + 1);
    p->lane_axis = arena_array(a, uint8_t, p->p->stmts.len + 1);
    add_buffers(p, a);
    Marker marker = {.p = p, .a = a, .loop = NONE, .seen = arena_array(a, uint32_t, k->exprs.len + 1)};
    tile_each (s, p->k, p->p->first)
        plan_launch(&marker, s);
    for (uint32_t i = 0; i < p->launches.len; i++)
        plan_key(p, a, &p->launches.at[i], debug);
    p->helpers |= packed_helpers(p);
    place_data(p);
    return p;
}

/* Walks over expressions keep their state in the kernel and their lists in the module's arena: a part has its own of both. */
static const Kernel *own_kernel(const Kernel *k, Arena *a)
{
    Module *m = arena_new_of(a, Module);
    Kernel *own = arena_new_of(a, Kernel);
    *m = *k->module;
    m->arena = a;
    m->scratch = arena_scratch(a);
    *own = *k;
    own->module = m;
    own->walk = NULL;
    return own;
}

Plan *plan_copy(const Plan *p, L *l, Shared *shared, Debug *debug)
{
    Plan *copy = arena_new_of(l->arena, Plan);
    *copy = *p;
    copy->buffers.at = arena_array(l->arena, Buffer, p->buffers.len + 1);
    if (p->buffers.len) /* the plan of a helper alone has none */
        memcpy(copy->buffers.at, p->buffers.at, sizeof *p->buffers.at * p->buffers.len);
    copy->k = own_kernel(p->k, l->arena);
    copy->m = copy->k->module;
    copy->l = l;
    copy->shared = shared;
    copy->debug = debug;
    return copy;
}
