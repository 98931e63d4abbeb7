/* A kernel's plan: which buffers its tile program uses, its launches, and the layout of a call's data.
 *
 * Note [Call data]. One struct on the caller's stack is all that threads share: the failure (lock, flag, item,
 * check, two numbers), the number of threads, one counter per launch (a cache line each), the dimensions, and one
 * field per buffer: its address, or the value of an `in` scalar. Thread buffers: the address of thread 0's. */
#include "backend/emit.h"

#include <string.h>

typedef struct Marker {
    Plan *p;
    uint32_t *seen, epoch; /* by ExprId */
    StmtId loop;           /* outermost open vector loop */
    StmtId *home;          /* by buffer: NONE - 1: not met yet */
    Launch *launch;
} Marker;

static void mark_buffer(Marker *m, uint32_t buffer, StmtId loop)
{
    Buffer *b = &m->p->buffers.at[buffer];
    if (!b->used)
        b->home = loop;
    else if (b->home != loop)
        b->home = NONE;
    b->used = 1;
}

static void mark_expr(Marker *m, ExprId x, StmtId loop)
{
    if (x == NONE || m->seen[x] == m->epoch)
        return;
    m->seen[x] = m->epoch;
    const Expr *n = x_at(m->p->k, x);
    if (n->kind == X_LOAD)
        mark_buffer(m, n->sym, loop);
    for (uint32_t i = 0; i < n->nargs; i++) {
        if (n->kind == X_LANES)
            m->seen[x_arg(m->p->k, x, i)] = 0;
        mark_expr(m, x_arg(m->p->k, x, i), n->kind == X_LANES ? (StmtId)NONE : loop);
    }
}

static void mark_field(Marker *m, RouteId r, RouteField f)
{
    static const char *const names[RF_FIELDS] = {"start", "count", "slot_of", "row_of"};
    Plan *p = m->p;
    uint32_t at = plan_field(p, r, f);
    if (at == NONE) {
        const Route *route = &p->k->routes.at[r];
        const Group *g = &p->m->groups.at[route->group];
        Buffer b = {.role = route->role, .rank = 1, .route = r, .field = (uint8_t)f, .home = NONE};
        b.name = arena_printf(p->l->arena, "%s.%s", route->name, names[f]);
        b.elem = f == RF_START || f == RF_COUNT ? EL_I64 : EL_I32;
        b.space = route->role == ROLE_LOCAL ? SPACE_WORK : SPACE_GM;
        b.plus = f == RF_START; /* no new extents: the module is shared by threads */
        b.axes[0] = (Axis){f == RF_ROW_OF ? route->tokens : f == RF_SLOT_OF ? g->rows : g->groups, NONE};
        if (f == RF_ROW_OF)
            b.axes[b.rank++] = (Axis){route->choices, NONE};
        at = p->buffers.len;
        vec_push(p->l->arena, &p->buffers, b);
    }
    mark_buffer(m, at, NONE);
}

static void mark_body(Marker *m, StmtId first);

static int is_top_parallel(const Plan *p, StmtId s)
{
    const Stmt *t = &p->p->stmts.at[s];
    return t->kind == TILE_for && (t->mode == LOOP_PARALLEL || t->mode == LOOP_OWNED) && t->next == NONE;
}

static void mark_stmt(Marker *m, StmtId id)
{
    const Stmt *s = &m->p->p->stmts.at[id];
    StmtId outer = m->loop;
    ExprId exprs[] = {s->lo, s->hi, s->value, s->guard, s->limit, s->report};
    m->epoch++;
    for (size_t i = 0; i < sizeof exprs / sizeof *exprs; i++)
        mark_expr(m, exprs[i], m->loop);
    for (uint32_t i = 0; i < s->nindex; i++)
        mark_expr(m, s->index[i], m->loop);
    if (s->buffer != NONE)
        mark_buffer(m, s->buffer, m->loop);
    if (s->second != NONE)
        mark_buffer(m, s->second, m->loop);
    if (s->route != NONE && s->kind == TILE_blocks) {
        mark_field(m, s->route, RF_START);
        mark_field(m, s->route, RF_COUNT);
    } else if (s->route != NONE) {
        for (RouteField f = 0; f < RF_FIELDS; f++)
            if (s->kind == TILE_route || f <= RF_COUNT || m->p->p->fields >> (s->route * RF_FIELDS + f) & 1)
                mark_field(m, s->route, f);
    }
    if (s->kind == TILE_check || s->kind == TILE_route || s->kind == TILE_valid ||
        (s->kind == TILE_store && m->p->buffers.at[s->buffer].elem == EL_I32) || s->kind == TILE_top)
        m->launch->may_fail = 1;
    if (s->kind == TILE_for && s->mode == LOOP_VECTOR && outer == NONE)
        m->loop = id;
    mark_body(m, s->first);
    m->loop = outer;
}

static void mark_body(Marker *m, StmtId first)
{
    for (StmtId s = first; s != NONE; s = m->p->p->stmts.at[s].next)
        mark_stmt(m, s);
}

static void plan_launch(Marker *m, StmtId id)
{
    Plan *p = m->p;
    Launch launch = {.stmt = id, .body = p->p->stmts.at[id].first};
    while (launch.body != NONE && is_top_parallel(p, launch.body) && launch.nloops < PARALLEL_MAX) {
        launch.loops[launch.nloops++] = launch.body;
        launch.body = p->p->stmts.at[launch.body].first;
    }
    m->launch = &launch;
    mark_stmt(m, id);
    vec_push(p->l->arena, &p->launches, launch);
}

static void add_buffers(Plan *p)
{
    for (TensorId t = 0; t < p->k->tensors.len; t++) {
        const Tensor *x = &p->k->tensors.at[t];
        Buffer b = {.name = x->name, .elem = x->elem, .space = x->space, .role = x->role, .rank = x->rank,
                    .lanes = x->lanes, .route = x->route, .field = x->field, .home = NONE};
        memcpy(b.axes, x->axes, sizeof b.axes);
        b.by_value = x->role == ROLE_IN && !x->rank && x->space == SPACE_GM && x->route == NONE;
        vec_push(p->l->arena, &p->buffers, b);
    }
}

static void add_scopes(Plan *p)
{
    L *l = p->l;
    const char *stem = arena_printf(l->arena, "%s.%s", p->k->name, p->cpu->name);
    LLVMMetadataRef domain = LLVMMDStringInContext2(l->ctx, stem, strlen(stem));
    domain = LLVMMDNodeInContext2(l->ctx, &domain, 1);
    for (uint32_t i = 0; i < p->buffers.len; i++) {
        const char *name = arena_printf(l->arena, "%s.%s", stem, p->buffers.at[i].name);
        LLVMMetadataRef parts[2] = {LLVMMDStringInContext2(l->ctx, name, strlen(name)), domain};
        p->buffers.at[i].scope = LLVMMDNodeInContext2(l->ctx, parts, 2);
    }
    LLVMMetadataRef *others = arena_array(l->arena, LLVMMetadataRef, p->buffers.len + 1);
    for (uint32_t i = 0; i < p->buffers.len; i++) {
        uint32_t n = 0;
        for (uint32_t j = 0; j < p->buffers.len; j++)
            if (j != i && p->buffers.at[j].used && p->buffers.at[j].space != SPACE_REG)
                others[n++] = p->buffers.at[j].scope;
        p->buffers.at[i].others = LLVMMDNodeInContext2(l->ctx, others, n);
    }
    for (uint32_t i = 0; i < p->buffers.len; i++)
        p->buffers.at[i].scope = LLVMMDNodeInContext2(l->ctx, &p->buffers.at[i].scope, 1);
}

static void add_data(Plan *p)
{
    L *l = p->l;
    Ty *fields = arena_array(l->arena, Ty, DATA_FIXED + p->ndims + p->buffers.len);
    unsigned n = DATA_FIXED;
    Ty fixed[DATA_FIXED] = {l->i32, l->i32, l->i64, l->i64, l->i64, l->i64, l->i64,
                            LLVMArrayType2(l->i64, 8 * (p->launches.len + 1))};
    memcpy(fields, fixed, sizeof fixed);
    for (uint32_t i = 0; i < p->ndims; i++) {
        p->dim_slot[p->dims[i]] = n;
        fields[n++] = l->i64;
    }
    for (uint32_t i = 0; i < p->buffers.len; i++) {
        Buffer *b = &p->buffers.at[i];
        if (!b->used || b->space == SPACE_REG)
            continue;
        b->slot = n;
        fields[n++] = b->by_value ? emit_memory_type(l, b->elem) : l->ptr;
    }
    p->data = LLVMStructTypeInContext(l->ctx, fields, n, 0);
}

uint32_t plan_field(const Plan *p, RouteId r, RouteField f)
{
    for (uint32_t i = 0; i < p->buffers.len; i++)
        if (p->buffers.at[i].route == r && p->buffers.at[i].field == f)
            return i;
    return NONE;
}

uint32_t plan_check(Plan *p, int status, const char *format)
{
    for (uint32_t i = 0; i < p->checks.len; i++)
        if (p->checks.at[i].status == status && strcmp(p->checks.at[i].format, format) == 0)
            return i;
    vec_push(p->l->arena, &p->checks, (CheckText){status, format});
    return p->checks.len - 1;
}

void plan_attributes(const Plan *p, V fn)
{
    l_attribute(p->l, fn, "nounwind");
    l_attribute_text(p->l, fn, "target-cpu", "x86-64");
    l_attribute_text(p->l, fn, "target-features", p->cpu->features);
    if (p->isa >= ISA_avx512) {
        l_attribute_text(p->l, fn, "prefer-vector-width", "512");
        l_attribute_text(p->l, fn, "min-legal-vector-width", "512");
    }
}

Plan *plan_new(L *l, Shared *shared, Debug *debug, const Module *m, const Kernel *k, Isa isa)
{
    Plan *p = arena_new_of(l->arena, Plan);
    *p = (Plan){.l = l, .shared = shared, .debug = debug, .m = m, .k = k, .p = k->tiles, .isa = isa,
                .cpu = &cpu_table[isa]};
    p->dims = arena_array(l->arena, DimId, m->dims.len + 1);
    p->ndims = ir_kernel_dims(k, p->dims);
    p->dim_slot = arena_array(l->arena, unsigned, m->dims.len + 1);
    add_buffers(p);
    Marker marker = {.p = p, .loop = NONE, .seen = arena_array(l->arena, uint32_t, k->exprs.len + 1)};
    for (StmtId s = p->p->first; s != NONE; s = p->p->stmts.at[s].next)
        plan_launch(&marker, s);
    add_scopes(p);
    add_data(p);
    return p;
}
