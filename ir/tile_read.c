/* Reads the text of the tile level: sizes, declarations, signatures, buffers. */
#include "ir/tile_text.h"

#include <string.h>

/* ---- extents, dimensions, groups ---- */

static Extent read_extent(TileReader *r);

static Extent extent_primary(TileReader *r)
{
    Loc loc = r->token.loc;
    if (r->token.kind == TOKEN_INT)
        return ext_const(r->m, token_int(r, "a size"));
    if (token_take(r, "(")) {
        Extent inner = ++r->depth <= TILE_NESTING ? read_extent(r) : ext_const(r->m, 0);
        r->depth--;
        token_expect(r, ")");
        return inner;
    }
    Name name = token_word(r, "a size");
    for (DimId d = 0; d < r->m->dims.len; d++)
        if (r->m->dims.at[d].name == name)
            return ext_dim(r->m, d);
    token_fail(r, DIAG_tile_name, loc, "there is no dimension named %s", name);
    return ext_const(r->m, 0);
}

static Extent extent_product(TileReader *r)
{
    int negative = token_take(r, "-");
    Extent e = extent_primary(r);
    while (token_take(r, "*"))
        e = ext_mul(r->m, e, extent_primary(r));
    return negative ? ext_sub(r->m, ext_const(r->m, 0), e) : e;
}

static Extent read_extent(TileReader *r)
{
    Extent e = extent_product(r);
    while (token_is(r, "+") || token_is(r, "-")) {
        int add = token_is(r, "+");
        token_next(r);
        Extent right = extent_product(r);
        e = add ? ext_add(r->m, e, right) : ext_sub(r->m, e, right);
    }
    return e;
}

static void read_dim(TileReader *r)
{
    Dim d = {.loc = r->token.loc, .constant = -1, .max = -1, .multiple = 1, .prefer = 1};
    d.name = token_word(r, "the name of a dimension");
    if (token_take(r, "<="))
        d.max = token_int(r, "a largest size");
    if (token_take(r, ":")) {
        if (token_take(r, "%"))
            d.multiple = token_int(r, "a multiple");
        if (token_take(r, "prefer"))
            d.prefer = token_int(r, "a multiple");
    }
    if (token_take(r, "="))
        d.constant = token_int(r, "a size");
    if (d.multiple < 1 || d.prefer < 1)
        token_fail(r, DIAG_tile_type, d.loc, "a multiple is at least 1");
    vec_push(r->m->arena, &r->m->dims, d);
}

static void read_group(TileReader *r)
{
    Group g = {.loc = r->token.loc};
    g.name = token_word(r, "the name of a group");
    token_expect(r, ":");
    g.groups = read_extent(r);
    g.kind = token_is(r, "capacity") ? GROUP_CAPACITY : GROUP_ROWS;
    token_expect(r, g.kind == GROUP_CAPACITY ? "capacity" : "rows");
    g.size = read_extent(r);
    g.rows = g.kind == GROUP_CAPACITY ? ext_mul(r->m, g.groups, g.size) : g.size;
    vec_push(r->m->arena, &r->m->groups, g);
}

/* ---- types, parameters, buffers ---- */

static GroupId find_group(const TileReader *r, Name name)
{
    for (GroupId g = 0; g < r->m->groups.len; g++)
        if (r->m->groups.at[g].name == name)
            return g;
    return NONE;
}

Axis tile_read_axis(TileReader *r)
{
    GroupId g = r->token.kind == TOKEN_WORD ? find_group(r, r->token.text) : (GroupId)NONE;
    if (g == NONE)
        return (Axis){read_extent(r), NONE};
    token_next(r);
    return (Axis){r->m->groups.at[g].rows, g};
}

static void read_tensor_type(TileReader *r, Tensor *t)
{
    Loc loc = r->token.loc;
    Name elem = token_word(r, "an element type");
    t->elem = EL_COUNT;
    for (Elem e = 0; e < EL_COUNT; e++)
        if (strcmp(elem_name(e), elem) == 0)
            t->elem = e;
    if (t->elem == EL_COUNT) {
        t->elem = EL_F32;
        token_fail(r, DIAG_tile_name, loc, "there is no element type %s", elem);
    }
    if (!token_take(r, "["))
        return;
    do {
        if (t->rank == MAX_RANK)
            token_fail(r, DIAG_tile_type, loc, "a tensor has at most %d axes", MAX_RANK);
        else
            t->axes[t->rank++] = tile_read_axis(r);
    } while (!r->failed && token_take(r, ","));
    token_expect(r, "]");
    for (Layout y = LAYOUT_SUMS; y < LAYOUT_COUNT; y++)
        if (t->rank >= 2 && token_take(r, layout_name(y)))
            t->layout = y;
    t->both = t->layout == LAYOUT_PAIRS && token_take(r, "both");
}

/* After `route`: [T, K -> R] */
static RouteId read_route_type(TileReader *r, Name name, Loc loc, Role role)
{
    Route route = {.name = name, .loc = loc, .role = role};
    token_expect(r, "[");
    route.tokens = read_extent(r);
    token_expect(r, ",");
    route.choices = read_extent(r);
    token_expect(r, "->");
    route.group = find_group(r, token_word(r, "the name of a group"));
    token_expect(r, "]");
    if (route.group == NONE)
        token_fail(r, DIAG_tile_name, loc, "there is no such group for route %s", name);
    if (!r->failed)
        vec_push(r->m->arena, &r->k->routes, route);
    return r->k->routes.len - 1;
}

static Role read_role(TileReader *r)
{
    if (token_take(r, "in"))
        return ROLE_IN;
    if (token_take(r, "out"))
        return ROLE_OUT;
    token_expect(r, "inout");
    return ROLE_INOUT;
}

static void read_param(TileReader *r)
{
    Role role = read_role(r);
    Loc loc = r->token.loc;
    Name name = token_word(r, "the name of a parameter");
    Param p = {.kind = PARAM_TENSOR};
    token_expect(r, ":");
    if (token_take(r, "route")) {
        p.kind = PARAM_ROUTE;
        p.id = read_route_type(r, name, loc, role);
    } else {
        Tensor t = {.name = name, .loc = loc, .role = role, .route = NONE};
        read_tensor_type(r, &t);
        p.id = ir_tensor(r->k, t);
    }
    vec_push(r->m->arena, &r->k->params, p);
}

static void read_buffer(TileReader *r, Space space)
{
    Tensor t = {.role = ROLE_LOCAL, .space = space, .route = NONE};
    token_next(r);
    t.loc = r->token.loc;
    t.name = token_word(r, "the name of a buffer");
    token_expect(r, ":");
    read_tensor_type(r, &t);
    if (space == SPACE_REG && token_take(r, "x"))
        t.lanes = (uint32_t)token_int(r, "a number of lanes");
    if (space_is_on_chip(space)) {
        token_expect(r, "at");
        t.at = token_int(r, "the first byte of a buffer");
    }
    ir_tensor(r->k, t);
}

static void read_local_route(TileReader *r)
{
    Loc loc = r->ahead.loc;
    token_next(r);
    Name name = token_word(r, "the name of a route");
    token_expect(r, ":");
    read_route_type(r, name, loc, ROLE_LOCAL);
}

static void read_fields(TileReader *r)
{
    token_next(r);
    do
        tile_read_buffer(r);
    while (!r->failed && token_take(r, ","));
}

/* ---- kernels ---- */

static void read_launches(TileReader *r)
{
    StmtId last = NONE;
    while (!r->failed && token_is(r, "launch")) {
        StmtId s = tile_read_launch(r);
        if (last == NONE)
            r->k->tiles->first = s;
        else
            r->k->tiles->stmts.at[last].next = s;
        last = s;
    }
}

static void read_locals(TileReader *r)
{
    for (;;) {
        Space space = SPACE_WORK;
        while (space < SPACE_COUNT && !token_is(r, space_name(space)))
            space++;
        if (token_is(r, "route"))
            read_local_route(r);
        else if (token_is(r, "fields"))
            read_fields(r);
        else if (space < SPACE_COUNT)
            read_buffer(r, space);
        else
            return;
    }
}

static void read_kernel(TileReader *r)
{
    Loc loc = r->token.loc;
    Name name = token_word(r, "the name of a kernel");
    r->k = ir_kernel(r->m, name, loc);
    token_expect(r, "(");
    while (!r->failed && !token_is(r, ")")) {
        read_param(r);
        if (!token_take(r, ","))
            break;
    }
    token_expect(r, ")");
    token_expect(r, "{");
    r->k->tiles = arena_new_of(r->m->arena, TileProgram);
    r->k->tiles->first = NONE;
    token_expect(r, "cost");
    r->k->tiles->work = read_extent(r);
    read_locals(r);
    read_launches(r);
    token_expect(r, "}");
}

int tile_read(Module *m, uint32_t file, const char *text, size_t len)
{
    TileReader r = {.m = m, .file = file};
    token_start(&r, text, len);
    token_expect(&r, "tiles");
    int64_t version = token_int(&r, "a version");
    if (version != 1 && !r.failed)
        token_fail(&r, DIAG_tile_syntax, r.token.loc, "version %lld of tile text is not known",
                   (long long)version);
    while (!r.failed && r.token.kind != TOKEN_END) {
        if (token_take(&r, "dim"))
            read_dim(&r);
        else if (token_take(&r, "group"))
            read_group(&r);
        else if (token_take(&r, "kernel"))
            read_kernel(&r);
        else
            token_expect(&r, "kernel");
    }
    return r.failed;
}
