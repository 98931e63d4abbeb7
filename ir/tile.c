/* Builders of the tile level. */
#include "ir/tile.h"

static const char *const names[TILE_COUNT] = {
#define TILE(name, doc, ...) #name,
#include "ir/tile.def"
};

const char *tile_name(TileKind k) { return names[k]; }

Stmt tile_stmt(TileKind kind, Loc loc)
{
    Stmt s = {.kind = (uint8_t)kind, .loc = loc, .step = 1, .ahead = knob_table[KNOB_ahead].otherwise};
    s.first = s.next = NONE;
    s.var = s.lo = s.hi = NONE;
    s.buffer = s.second = NONE;
    s.value = s.guard = s.limit = s.report = NONE;
    s.route = s.planned = NONE;
    s.other = s.from[0] = s.from[1] = s.to[0] = s.to[1] = NONE;
    s.size[0] = s.size[1] = s.size[2] = NONE;
    for (int i = 0; i < MAX_RANK; i++)
        s.index[i] = s.bound[i] = NONE;
    return s;
}

/* The kernel's tile program, made empty when there is none yet. */
static TileProgram *program_of(Kernel *k)
{
    if (!k->tiles) {
        k->tiles = arena_new_of(k->module->arena, TileProgram);
        k->tiles->first = NONE;
        k->tiles->work = ext_const(k->module, 0);
    }
    return k->tiles;
}

StmtId tile_add(Kernel *k, Stmt s)
{
    TileProgram *p = program_of(k);
    vec_push(k->module->arena, &p->stmts, s);
    return p->stmts.len - 1;
}

static Extent field_extent(const Kernel *k, const Route *route, RouteField f)
{
    Module *m = k->module;
    const Group *group = &m->groups.at[route->group];
    switch (f) {
    case RF_start: return ext_add(m, group->groups, ext_const(m, 1));
    case RF_count: return group->groups;
    case RF_slot_of: return group->rows;
    case RF_row_of: return ext_mul(m, route->tokens, route->choices);
    case RF_FIELDS: break;
    }
    BUG(m->arena, "tile_route_field: no route field %d", (int)f);
}

/* The axes are dense, not the group's rows: a field says which rows exist, so it is read at all of them. */
static TensorId add_field(Kernel *k, RouteId r, RouteField f)
{
    static const char *const fields[RF_FIELDS] = {
#define ROUTE(...)
#define ROUTE_ARRAY(field, ctype, doc) #field,
#include "moec/abi.def"
    };
    Module *m = k->module;
    const Route *route = &k->routes.at[r];
    Tensor t = {.loc = route->loc, .role = route->role, .rank = 1, .route = r, .field = (uint8_t)f};
    t.name = name_of(m->names, arena_printf(m->arena, "%s.%s", route->name, fields[f]));
    t.elem = f == RF_start || f == RF_count ? EL_I64 : EL_I32;
    t.space = route->role == ROLE_LOCAL ? SPACE_WORK : SPACE_GM;
    t.axes[0] = (Axis){field_extent(k, route, f), NONE};
    return ir_tensor(k, t);
}

TensorId tile_find_transposed(const Kernel *k, TensorId w)
{
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (k->tensors.at[t].transposed == w + 1)
            return t;
    return NONE;
}

TensorId tile_transposed(Kernel *k, TensorId w)
{
    TensorId known = tile_find_transposed(k, w);
    if (known != NONE)
        return known;
    Module *m = k->module;
    Tensor t = k->tensors.at[w];
    t.name = name_of(m->names, arena_printf(m->arena, "%s.transposed", t.name));
    t.axes[t.rank - 1] = k->tensors.at[w].axes[t.rank - 2];
    t.axes[t.rank - 2] = k->tensors.at[w].axes[t.rank - 1];
    t.both = 0;
    t.transposed = w + 1;
    return ir_tensor(k, t);
}

TensorId tile_route_field(Kernel *k, RouteId r, RouteField f)
{
    TileProgram *p = program_of(k);
    while (p->fields.len <= r)
        vec_push(k->module->arena, &p->fields, 0);
    p->fields.at[r] |= (uint8_t)(1u << f);
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (k->tensors.at[t].route == r && k->tensors.at[t].field == f)
            return t;
    return add_field(k, r, f);
}
