/* What a call is refused for before anything is written: sizes, rules, NULL, routes, overlap, packed headers. */
#include "backend/emit_packed.h"

static const double limit_elements = 0x1p40, limit_rows = 2147483647.0;

Gate gate_open(Emit *e)
{
    L *l = e->l;
    Gate g = {.refuse = l_block(l, "refuse")};
    Block back = l_here(l);
    l_enter(l, g.refuse);
    g.status = LLVMBuildPhi(l->b, l->i32, "status");
    g.format = LLVMBuildPhi(l->b, l->ptr, "format");
    g.a = LLVMBuildPhi(l->b, l->i64, "a");
    g.b = LLVMBuildPhi(l->b, l->i64, "b");
    l_enter(l, back);
    return g;
}

void gate_require(Emit *e, Gate *g, V ok, int status, const char *format, V a, V b)
{
    L *l = e->l;
    int64_t known;
    if (l_constant(ok, &known) && known)
        return;
    Block next = l_block(l, "next"), from = l_here(l);
    V values[4] = {l_i32(l, status), l_text(l, format), a, b}, phis[4] = {g->status, g->format, g->a, g->b};
    for (int i = 0; i < 4; i++)
        LLVMAddIncoming(phis[i], &values[i], &from, 1);
    l_branch(l, ok, next, g->refuse);
    l_enter(l, next);
}

/* ---- sizes ---- */

static V real_dim(Emit *e, DimId d)
{
    if (!e->real_dim[d]) {
        V dim = emit_dim(e, d);
        Block back = l_to_entry(e->l);
        e->real_dim[d] = l_cast(e->l, LLVMSIToFP, dim, e->l->f64);
        l_from_entry(e->l, back);
    }
    return e->real_dim[d];
}

V emit_extent_f64(Emit *e, Extent x)
{
    L *l = e->l;
    x = e->p->m->extents.at[x].folded;
    if (e->real[x])
        return e->real[x];
    const ExtentForm *f = &e->p->m->extents.at[x];
    V sum = l_real(l->f64, 0.0);
    for (uint32_t i = 0; i < f->nterms; i++) {
        V term = l_real(l->f64, (double)f->terms[i].coef);
        for (uint32_t j = 0; j < f->terms[i].ndims; j++) {
            V dim = real_dim(e, f->terms[i].dims[j]);
            Block back = l_to_entry(l);
            term = f->terms[i].coef == 1 && !j ? dim : l_fmul(l, term, dim);
            l_from_entry(l, back);
        }
        Block back = l_to_entry(l);
        sum = i ? l_fadd(l, sum, term) : term;
        l_from_entry(l, back);
    }
    return e->real[x] = sum;
}

static V within(Emit *e, V count)
{
    L *l = e->l;
    return l_and(l, l_fcmp(l, LLVMRealOGE, count, l_real(l->f64, 0.0)),
                 l_fcmp(l, LLVMRealOLE, count, l_real(l->f64, limit_elements)));
}

static int is_dim(const Module *m, Extent x)
{
    const ExtentForm *f = &m->extents.at[m->extents.at[x].folded];
    return f->nterms == 1 && f->terms[0].coef == 1 && f->terms[0].ndims == 1;
}

static int same_shape(const Plan *p, const Buffer *a, const Buffer *b)
{
    int same = a->rank == b->rank && a->layout == b->layout;
    for (uint32_t i = 0; i < a->rank && same; i++)
        same = ext_same(p->m, a->axes[i].extent, b->axes[i].extent);
    return same;
}

static int is_sized(const Buffer *b)
{
    return b->space != SPACE_REG && !space_is_on_chip(b->space) && b->rank &&
           (b->role != ROLE_LOCAL || b->used);
}

V emit_fits(Emit *e, uint32_t buffer, int only_space)
{
    L *l = e->l;
    const Buffer *b = &e->p->buffers.at[buffer];
    for (uint32_t i = 0; i < buffer; i++) /* an earlier buffer of this shape was asked already */
        if (is_sized(&e->p->buffers.at[i]) && (!only_space || plan_needs_space(&e->p->buffers.at[i])) &&
            same_shape(e->p, &e->p->buffers.at[i], b))
            return l_true(l);
    V product = NULL, fits = l_true(l);
    for (uint32_t i = 0; i < b->rank; i++) {
        int64_t known;
        if (ext_is_const(e->p->m, b->axes[i].extent, &known) && known >= 0 && known < 1 << 20 && b->rank == 1)
            continue;
        V extent = emit_extent_f64(e, b->axes[i].extent);
        if (only_space || !is_dim(e->p->m, b->axes[i].extent)) /* each dimension was asked by itself */
            fits = l_and(l, fits, within(e, extent));
        if (b->layout != LAYOUT_ROWS && i + 2 >= b->rank)
            extent = l_fadd(l, extent, l_real(l->f64, LAYOUT_EDGE)); /* at least its padding */
        product = product ? l_fmul(l, product, extent) : extent;
    }
    return b->rank > 1 ? l_and(l, fits, within(e, product)) : fits;
}

#define SAY(e, ...) arena_printf((e)->l->arena, __VA_ARGS__)

/* What a call asks of a dimension: that it is a size, and the rules of its declaration where it has them. */
static V is_size(L *l, V v) { return l_icmp(l, LLVMIntULE, v, l_i64(l, (int64_t)1 << 40)); }

static V is_at_most(L *l, const Dim *d, V v)
{
    return d->max < 0 ? l_true(l) : l_icmp(l, LLVMIntSLE, v, l_i64(l, d->max));
}

static V is_multiple(L *l, const Dim *d, V v)
{
    if (d->multiple <= 1)
        return l_true(l);
    return l_icmp(l, LLVMIntEQ, l_bin(l, LLVMURem, v, l_i64(l, d->multiple)), l_i64(l, 0));
}

V emit_dims_fit(Emit *e)
{
    L *l = e->l;
    V fit = l_true(l);
    for (uint32_t i = 0; i < e->p->ndims; i++) {
        const Dim *d = &e->p->m->dims.at[e->p->dims[i]];
        V v = emit_dim(e, e->p->dims[i]);
        fit = l_and(l, fit, l_and(l, is_size(l, v), l_and(l, is_at_most(l, d, v), is_multiple(l, d, v))));
    }
    return fit;
}

static void require_dims(Emit *e, Gate *g)
{
    L *l = e->l;
    const char *kernel = e->k->name;
    for (uint32_t i = 0; i < e->p->ndims; i++) {
        const Dim *d = &e->p->m->dims.at[e->p->dims[i]];
        V v = emit_dim(e, e->p->dims[i]), none = l_i64(l, 0);
        gate_require(e, g, is_size(l, v), STATUS_SIZE,
                     SAY(e, "%s: %s is %%lld; a size is at least 0 and at most 2^40", kernel, d->name), v,
                     none);
        gate_require(
            e, g, is_at_most(l, d, v), STATUS_RULE,
            SAY(e, "%s: %s is %%lld; its rule is %s <= %lld", kernel, d->name, d->name, (long long)d->max), v,
            none);
        gate_require(e, g, is_multiple(l, d, v), STATUS_RULE,
                     SAY(e, "%s: %s is %%lld; its rule is %s %%%% %lld == 0", kernel, d->name, d->name,
                         (long long)d->multiple),
                     v, none);
    }
}

static void require_counts(Emit *e, Gate *g)
{
    V none = l_i64(e->l, 0);
    for (uint32_t i = 0; i < e->p->buffers.len; i++)
        if (is_sized(&e->p->buffers.at[i]))
            gate_require(e, g, emit_fits(e, i, 0), STATUS_SIZE,
                         SAY(e, "%s: the size of %s is negative or above 2^40 elements", e->k->name,
                             e->p->buffers.at[i].name),
                         none, none);
}

static void require_route_space(Emit *e, Gate *g, const Route *r)
{
    L *l = e->l;
    V none = l_i64(l, 0), zero = l_real(l->f64, 0.0), most = l_real(l->f64, limit_rows);
    V slots = l_fmul(l, emit_extent_f64(e, r->tokens), emit_extent_f64(e, r->choices));
    gate_require(e, g, l_fcmp(l, LLVMRealOLE, slots, most), STATUS_SIZE,
                 SAY(e, "%s: route %s has more than 2^31 - 1 choices", e->k->name, r->name), none, none);
    V rows = emit_extent_f64(e, e->p->m->groups.at[r->group].rows);
    V fits = l_and(l, l_fcmp(l, LLVMRealOLE, rows, most), l_fcmp(l, LLVMRealOGE, rows, zero));
    gate_require(e, g, fits, STATUS_SIZE,
                 SAY(e, "%s: the rows of route %s are negative or more than 2^31 - 1", e->k->name, r->name),
                 none, none);
}

/* ---- memory: NULL, routes, overlap ---- */

typedef struct Ranges {
    V table; /* array of Shared.range on the stack */
    uint32_t n, cap;
    int written;
    V *names;
} Ranges;

static void add_range(Emit *e, Ranges *r, const char *name, V first, V bytes, int written)
{
    L *l = e->l;
    V at = l_at(l, e->p->shared->range, r->table, l_i64(l, r->n));
    l_store(l, LLVMBuildPtrToInt(l->b, first, l->i64, ""), l_field(l, e->p->shared->range, at, 0), 8);
    l_store(l, bytes, l_field(l, e->p->shared->range, at, 1), 8);
    l_store(l, l_i64(l, written), l_field(l, e->p->shared->range, at, 2), 8);
    r->names[r->n++] = l_text(l, name);
    r->written |= written;
}

static V is_null(L *l, V pointer) { return l_icmp(l, LLVMIntEQ, pointer, LLVMConstNull(l->ptr)); }

/* The pointer to a packed tensor is that to its header; its buffer is what follows. */
static void require_tensor(Emit *e, Ranges *r, Param p, V pointer)
{
    TensorId t = p.id;
    Buffer *b = &e->p->buffers.at[t];
    int packed = emit_is_packed(e->k, p);
    V bytes = packed ? emit_packed_bytes(e, t)
                     : l_mul(e->l, emit_elements(e, t), l_i64(e->l, (int64_t)elem_bytes(b->elem)));
    if (packed)
        b->base = emit_packed_data(e->l, pointer);
    TensorId transposed = tile_find_transposed(e->k, t);
    if (transposed != NONE)
        e->p->buffers.at[transposed].base = emit_packed_transposed(e, t, pointer);
    add_range(e, r, b->name, pointer, bytes, b->role != ROLE_IN);
}

static V route_field_count(Emit *e, const Route *r, RouteField f)
{
    const Group *group = &e->p->m->groups.at[r->group];
    V groups = emit_extent(e, group->groups);
    switch (f) {
    case RF_start: return l_add(e->l, groups, l_i64(e->l, 1));
    case RF_count: return groups;
    case RF_slot_of: return emit_extent(e, group->rows);
    case RF_row_of: return l_mul(e->l, emit_extent(e, r->tokens), emit_extent(e, r->choices));
    case RF_FIELDS: break;
    }
    BUG(e->l->arena, "backend: route field %d", (int)f);
}

static void require_route_field(Emit *e, Ranges *ranges, RouteId id, RouteField f, V route)
{
    static const char *const names[RF_FIELDS] = {
#define ROUTE(...)
#define ROUTE_ARRAY(field, ctype, doc) #field,
#include "moec/abi.def"
    };
    static const unsigned fields[RF_FIELDS] = {
#define ROUTE(...)
#define ROUTE_ARRAY(field, ctype, doc) ROUTE_##field,
#include "moec/abi.def"
    };
    L *l = e->l;
    const Route *r = &e->k->routes.at[id];
    if (r->role == ROLE_IN && f > RF_count && !tile_uses_field(e->p->p, id, f))
        return;
    const char *name = SAY(e, "%s.%s", r->name, names[f]);
    V pointer = l_load(l, l->ptr, l_field(l, e->p->shared->route, route, fields[f]), 8);
    V n = route_field_count(e, r, f);
    add_range(e, ranges, name, pointer, l_mul(l, n, l_i64(l, f <= RF_count ? 8 : 4)), r->role != ROLE_IN);
    uint32_t buffer = plan_field(e->p, id, f);
    if (buffer != NONE)
        e->p->buffers.at[buffer].base = pointer;
}

static void require_route(Emit *e, Gate *g, Ranges *ranges, RouteId id, V route)
{
    static const char *const names[] = {"tokens", "choices", "groups", "rows"};
    static const unsigned fields[] = {ROUTE_tokens, ROUTE_choices, ROUTE_groups, ROUTE_rows};
    L *l = e->l;
    const Route *r = &e->k->routes.at[id];
    const Group *group = &e->p->m->groups.at[r->group];
    Extent sizes[] = {r->tokens, r->choices, group->groups, group->rows};
    V none = l_i64(l, 0);
    gate_require(e, g, l_not(l, is_null(l, route)), STATUS_NULL,
                 SAY(e, "%s: route %s is NULL", e->k->name, r->name), none, none);
    for (int i = 0; i < 4; i++) {
        V has = l_load(l, l->i64, l_field(l, e->p->shared->route, route, fields[i]), 8);
        V wants = emit_extent(e, sizes[i]);
        gate_require(e, g, l_icmp(l, LLVMIntEQ, has, wants), STATUS_ROUTE,
                     SAY(e, "%s: route %s: %s is %%lld, the call's dimensions make it %%lld", e->k->name,
                         r->name, names[i]),
                     has, wants);
    }
    for (RouteField f = 0; f < RF_FIELDS; f++)
        require_route_field(e, ranges, id, f, route);
}

static V name_table(Emit *e, const Ranges *r) { return l_table(e->l, e->l->ptr, r->names, r->n, "names"); }

/* No range is NULL unless empty. */
static void require_present(Emit *e, Gate *g, const Ranges *r, V names)
{
    L *l = e->l;
    V args[2] = {r->table, l_i64(l, r->n)}, none = l_i64(l, 0);
    V missing = l_call(l, e->p->shared->null, args, 2);
    V name = l_load(l, l->i64, l_at(l, l->i64, names, l_max(l, l_sub(l, missing, l_i64(l, 1)), none)), 8);
    gate_require(e, g, l_icmp(l, LLVMIntEQ, missing, none), STATUS_NULL,
                 SAY(e, "%s: parameter %%s is NULL", e->k->name), name, none);
}

/* Does the kernel look at what the caller put there? */
static int has_values(const Tensor *t) { return t->role != ROLE_OUT && !t->unread; }

/* Before overlap: row-major memory given for packed memory may be too short for it. */
static void require_packed(Emit *e, Gate *g, const V *params)
{
    const Kernel *k = e->k;
    for (uint32_t i = 0; i < k->params.len; i++)
        if (emit_is_packed(k, k->params.at[i]) && has_values(&k->tensors.at[k->params.at[i].id]))
            emit_packed_require(e, g, k->params.at[i].id, params[i]);
}

/* No written range meets another. */
static void require_apart(Emit *e, Gate *g, const Ranges *r, V names)
{
    L *l = e->l;
    V args[2] = {r->table, l_i64(l, r->n)};
    if (r->n < 2 || !r->written)
        return;
    V pair = l_call(l, e->p->shared->overlap, args, 2), none = l_i64(l, 0);
    V which = l_max(l, l_sub(l, pair, l_i64(l, 1)), none);
    V first = l_load(l, l->i64, l_at(l, l->i64, names, l_bin(l, LLVMUDiv, which, args[1])), 8);
    V second = l_load(l, l->i64, l_at(l, l->i64, names, l_bin(l, LLVMURem, which, args[1])), 8);
    gate_require(e, g, l_icmp(l, LLVMIntEQ, pair, none), STATUS_OVERLAP,
                 SAY(e, "%s: %%s and %%s overlap, and one of them is written", e->k->name), first, second);
}

/* params: the values of the C function's parameters, in order; leaves the buffers' addresses in the plan. */
void emit_preconditions(Emit *e, Gate *g, const V *params)
{
    L *l = e->l;
    const Kernel *k = e->k;
    require_dims(e, g);
    for (RouteId r = 0; r < k->routes.len; r++)
        require_route_space(e, g, &k->routes.at[r]);
    require_counts(e, g);
    Ranges ranges = {.cap = k->params.len * RF_FIELDS + 1};
    ranges.table = l_slot(l, LLVMArrayType2(e->p->shared->range, ranges.cap), "ranges");
    ranges.names = arena_array(l->arena, V, ranges.cap);
    for (uint32_t i = 0; i < k->params.len; i++) {
        uint32_t id = k->params.at[i].id;
        if (k->params.at[i].kind == PARAM_ROUTE) {
            require_route(e, g, &ranges, id, params[i]);
            continue;
        }
        e->p->buffers.at[id].base = params[i];
        if (!e->p->buffers.at[id].by_value && !k->tensors.at[id].unread)
            require_tensor(e, &ranges, k->params.at[i], params[i]);
    }
    if (!ranges.n)
        return;
    V names = name_table(e, &ranges);
    require_present(e, g, &ranges, names);
    require_packed(e, g, params);
    require_apart(e, g, &ranges, names);
}
