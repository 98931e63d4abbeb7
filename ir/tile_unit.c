/* Units and paths of an NPU's core: the rows of unit.def, and who does a statement of a plan. */
#include "ir/tile.h"

static const char *const unit_names[UNIT_COUNT] = {
#define UNIT(name, doc) #name,
#include "ir/unit.def"
};

static const struct {
    const char *name;
    Space from, to;
    Unit unit;
} paths[PATH_COUNT] = {
#define PATH(name, from, to, unit, doc) {#name, from, to, UNIT_##unit},
#include "ir/unit.def"
};

const char *unit_name(Unit u) { return unit_names[u]; }
const char *path_name(Path p) { return paths[p].name; }
Unit path_unit(Path p) { return paths[p].unit; }

/* PATH_COUNT: there is none. */
static Path path_between(Space from, Space to)
{
    Path p = 0;
    from = space_is_memory(from) ? SPACE_GM : from;
    to = space_is_memory(to) ? SPACE_GM : to;
    while (p < PATH_COUNT && (paths[p].from != from || paths[p].to != to))
        p++;
    return p;
}

static int is_cast(const Expr *x) { return x->kind == X_OP && scalar_table[x->op].kind == SK_CAST; }

ExprId tile_read_by(const Kernel *k, const Stmt *pack)
{
    ExprId e = is_cast(x_at(k, pack->value)) ? x_arg(k, pack->value, 0) : pack->value;
    return x_at(k, e)->kind == X_LOAD ? e : (ExprId)NONE;
}

Path tile_path(const Kernel *k, const Stmt *pack)
{
    ExprId read = tile_read_by(k, pack);
    if (read == NONE)
        return PATH_COUNT;
    return path_between(k->tensors.at[x_at(k, read)->sym].space, k->tensors.at[pack->buffer].space);
}

static int uses_ub(const Kernel *k, const Stmt *store)
{
    if (k->tensors.at[store->buffer].space == SPACE_UB)
        return 1;
    each_below (x, k, store->value, EVERYWHERE)
        if (x_at(k, *x)->kind == X_LOAD && k->tensors.at[x_at(k, *x)->sym].space == SPACE_UB)
            return 1;
    return 0;
}

int tile_is_vector(const Kernel *k, StmtId first)
{
    tile_walk (w, k, first)
        if (w.s->kind == TILE_store && uses_ub(k, w.s))
            return 1;
    return 0;
}

Unit tile_unit(const Kernel *k, const Stmt *s)
{
    Path path;
    switch ((TileKind)s->kind) {
    case TILE_pack: path = tile_path(k, s); return path < PATH_COUNT ? path_unit(path) : UNIT_scalar;
    case TILE_product: return UNIT_cube;
    case TILE_store:
        return k->tensors.at[s->buffer].space == SPACE_UB    ? UNIT_vector
               : k->tensors.at[s->buffer].space == SPACE_REG ? UNIT_COUNT
                                                             : UNIT_scalar;
    case TILE_set: return (Unit)s->unit;
    case TILE_wait: return (Unit)s->other_unit;
    case TILE_check:
    case TILE_blocks:
    case TILE_bucket:
    case TILE_top:
    case TILE_route:
    case TILE_valid: return UNIT_scalar;
    case TILE_launch:
    case TILE_for:
    case TILE_if:
    case TILE_event:
    case TILE_COUNT: break;
    }
    return UNIT_COUNT;
}

int tile_is_plan(const Kernel *k)
{
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (space_is_on_chip(k->tensors.at[t].space))
            return 1;
    return 0;
}

const char *loop_word(LoopMode mode)
{
    static const char *const words[LOOP_MODES] = {"for", "parallel", "owned", "vector", "unroll", "split"};
    return words[mode];
}
