/* Verifies the tile level: the tree, scopes, types and the form of each statement. */
#include "ir/tile_verify.h"

#include "ir/event.h"

#include <string.h>

void tile_broken(TileVerifier *v, const char *format, ...)
{
    if (v->error)
        return;
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(v->a, format, args);
    va_end(args);
    if (v->at == NONE || v->launch == NONE) {
        v->error = arena_printf(v->a, "kernel %s: %s", v->k->name, text);
        return;
    }
    const Stmt *at = tile_at(v->k, v->at);
    v->error =
        arena_printf(v->a, "kernel %s, launch %s, %s statement of line %u: %s", v->k->name,
                     tile_at(v->k, v->launch)->name, tile_name((TileKind)at->kind), at->loc.line, text);
}

/* ---- expressions ---- */

static void collect_node(TileVerifier *v, ExprId e)
{
    if (v->stamp[e] == v->now)
        return;
    v->stamp[e] = v->now;
    vec_push(v->a, &v->nodes, e);
    vec_push(v->a, &v->stack, e);
}

void tile_collect(TileVerifier *v, ExprId root, int (*prune)(const Kernel *k, const Expr *x))
{
    v->now++;
    v->nodes.len = v->stack.len = 0;
    if (root < v->k->exprs.len)
        collect_node(v, root);
    while (v->stack.len) {
        ExprId e = v->stack.at[--v->stack.len];
        if (prune && prune(v->k, x_at(v->k, e)))
            continue;
        for (uint32_t i = 0; i < x_at(v->k, e)->nargs; i++)
            collect_node(v, x_arg(v->k, e, i));
    }
}

static int in_scope(const TileVerifier *v, IndexId i)
{
    for (uint32_t s = 0; s < v->scope.len; s++)
        if (v->scope.at[s] == i)
            return 1;
    return 0;
}

static void verify_load(TileVerifier *v, const Expr *x)
{
    const Kernel *k = v->k;
    if (x->sym >= k->tensors.len) {
        tile_broken(v, "a load of tensor %u, which does not exist", x->sym);
        return;
    }
    const Tensor *t = &k->tensors.at[x->sym];
    if (x->nargs != t->rank)
        tile_broken(v, "%s has %u axes and %u subscripts", t->name, t->rank, x->nargs);
    if (t->role == ROLE_LOCAL && t->space == SPACE_GM)
        tile_broken(v, "%s is read but has no memory", t->name);
    if (t->route != NONE && !tile_uses_field(k->tiles, t->route, (RouteField)t->field))
        tile_broken(v, "%s is read but not among the fields of the program", t->name);
}

static void verify_node(TileVerifier *v, ExprId e)
{
    const Kernel *k = v->k;
    const Expr *x = x_at(k, e);
    switch ((ExprKind)x->kind) {
    case X_FLOAT:
    case X_INT:
    case X_OP:
    case X_IF:
    case X_LANES:
    case X_THREADS: break;
    case X_EXTENT:
        if (x->sym >= k->module->extents.len)
            tile_broken(v, "an extent that does not exist");
        break;
    case X_INDEX:
        if (x->sym >= k->indices.len || !in_scope(v, x->sym))
            tile_broken(v, "variable %s is used outside its loop",
                        x->sym < k->indices.len ? k->indices.at[x->sym].name : "?");
        break;
    case X_LOAD: verify_load(v, x); break;
    case X_REDUCE:
    case X_TOKEN:
    case X_SLOT:
    case X_ROW:
    case X_GROUP: tile_broken(v, "an expression of the equation level (kind %d)", x->kind); break;
    }
    for (uint32_t i = 0; i < x->nargs; i++)
        if (x_arg(k, e, i) >= e)
            tile_broken(v, "an expression that contains itself");
}

TileBox tile_box_of(const Kernel *k, ExprId load)
{
    TileBox box = {.buffer = x_at(k, load)->sym, .n = x_at(k, load)->nargs};
    for (uint32_t i = 0; i < box.n; i++)
        box.index[i] = x_arg(k, load, i);
    for (uint32_t i = 0; i < 2; i++)
        box.from[i] = box.to[i] = NONE;
    return box;
}

static void verify_subscripts(TileVerifier *v, TensorId id, const ExprId *index, uint32_t n);

/* What the node, a load, needs beyond its own form. */
static void verify_reading(TileVerifier *v, ExprId load)
{
    TileBox box = tile_box_of(v->k, load);
    verify_subscripts(v, box.buffer, box.index, box.n);
    if (!v->error)
        tile_verify_read(v, box.buffer);
    if (!v->error)
        tile_verify_access(v, &box, 0);
}

void tile_verify_expr(TileVerifier *v, ExprId e, TileWant want)
{
    const Kernel *k = v->k;
    if (v->error)
        return;
    if (e >= k->exprs.len) {
        tile_broken(v, "an expression is missing");
        return;
    }
    Type t = (Type)x_at(k, e)->type;
    int right = want == WANT_INT ? t == TY_INT : (t == TY_BOOL) == (want == WANT_CONDITION);
    if (!right)
        tile_broken(v, "a value of type %s stands where %s must", type_name(t),
                    want == WANT_INT     ? "an integer"
                    : want == WANT_VALUE ? "a number"
                                         : "a condition");
    tile_collect(v, e, NULL);
    for (uint32_t i = 0; !v->error && i < v->nodes.len; i++)
        verify_node(v, v->nodes.at[i]);
    /* register subscripts need walks of their own, which reuse v->nodes: keep a copy */
    uint32_t n = v->nodes.len;
    ExprId *nodes = arena_array(v->a, ExprId, n + 1);
    memcpy(nodes, v->nodes.at, sizeof *nodes * n);
    for (uint32_t i = 0; !v->error && i < n; i++)
        if (x_at(k, nodes[i])->kind == X_LOAD)
            verify_reading(v, nodes[i]);
}

static void verify_register(TileVerifier *v, const Tensor *t, uint32_t axis, ExprId subscript)
{
    int64_t extent, lo, hi;
    if (!ext_is_const(v->k->module, t->axes[axis].extent, &extent))
        tile_broken(v, "register buffer %s has an extent that is not constant", t->name);
    else if (!tile_unrolled_range(v, subscript, &lo, &hi))
        tile_broken(v, "a subscript of register buffer %s is not constant after unrolling", t->name);
    else if (lo < 0 || hi >= extent)
        tile_broken(v, "a subscript of register buffer %s spans %lld..%lld, outside 0..%lld", t->name,
                    (long long)lo, (long long)hi, (long long)extent - 1);
}

static void verify_subscripts(TileVerifier *v, TensorId id, const ExprId *index, uint32_t n)
{
    const Tensor *t = &v->k->tensors.at[id];
    for (uint32_t i = 0; i < n; i++) {
        if (x_at(v->k, index[i])->type != TY_INT)
            tile_broken(v, "subscript %u of %s is not an integer", i, t->name);
        if (t->space == SPACE_REG && !v->error)
            verify_register(v, t, i, index[i]);
    }
}

/* ---- statements ---- */

int tile_is_buffer(TileVerifier *v, TensorId t, const char *what)
{
    const Kernel *k = v->k;
    if (t >= k->tensors.len)
        tile_broken(v, "%s is missing", what);
    else if (k->tensors.at[t].role == ROLE_LOCAL && k->tensors.at[t].space == SPACE_GM)
        tile_broken(v, "%s %s has no memory", what, k->tensors.at[t].name);
    return !v->error;
}

static int is_zero(const Expr *x)
{
    return (x->kind == X_INT && x->value.i == 0) ||
           (x->kind == X_FLOAT && !(x->value.f < 0 || x->value.f > 0));
}

int tile_fits(Elem elem, const Expr *x)
{
    Type t = (Type)x->type;
    switch (elem) {
    case EL_F32: return t != TY_BOOL;
    case EL_BF16: return t == TY_BF16 || is_zero(x);
    case EL_F16: return t == TY_F16 || is_zero(x);
    case EL_I32:
    case EL_I64: return t == TY_INT;
    case EL_COUNT: break;
    }
    return 0;
}

void tile_verify_writing(TileVerifier *v, TensorId buffer, const Stmt *s)
{
    TileBox box = {.buffer = buffer, .n = s->nindex, .from = {NONE, NONE}, .to = {NONE, NONE}};
    memcpy(box.index, s->index, sizeof box.index);
    tile_verify_write(v, buffer, s->index, s->nindex);
    if (!v->error)
        tile_verify_access(v, &box, 1);
    tile_written(v, buffer);
}

void tile_verify_store(TileVerifier *v, const Stmt *s)
{
    if (!tile_is_buffer(v, s->buffer, "the target"))
        return;
    const Tensor *t = &v->k->tensors.at[s->buffer];
    if (t->role == ROLE_IN)
        tile_broken(v, "a store to %s, which is an input", t->name);
    if (s->nindex != t->rank)
        tile_broken(v, "%s has %u axes and %u subscripts", t->name, t->rank, s->nindex);
    for (uint32_t i = 0; !v->error && i < s->nindex; i++)
        tile_verify_expr(v, s->index[i], WANT_INT);
    if (!v->error)
        verify_subscripts(v, s->buffer, s->index, s->nindex);
    tile_verify_expr(v, s->value, WANT_VALUE);
    if (!v->error && !tile_fits(t->elem, x_at(v->k, s->value)))
        tile_broken(v, "a value of type %s is stored to %s, which is %s",
                    type_name((Type)x_at(v->k, s->value)->type), t->name, elem_name(t->elem));
    if (!v->error && s->add)
        tile_verify_read(v, s->buffer);
    if (!v->error)
        tile_verify_writing(v, s->buffer, s);
    if (!v->error)
        tile_verify_lanes(v, s);
    if (!v->error)
        tile_know(v, s);
}

void tile_verify_integers(TileVerifier *v, const Stmt *s)
{
    tile_each_operand (o, s)
        if (o.role == OPERAND_INTEGER || o.role == OPERAND_SUBSCRIPT)
            tile_verify_expr(v, o.id, WANT_INT);
}

void tile_verify_check(TileVerifier *v, const Stmt *s)
{
    tile_verify_expr(v, s->value, WANT_CONDITION);
    tile_verify_integers(v, s);
    if (!s->text)
        tile_broken(v, "a check has no text");
}

void tile_declare(TileVerifier *v, IndexId i)
{
    const Kernel *k = v->k;
    if (i >= k->indices.len) {
        tile_broken(v, "its variable does not exist");
        return;
    }
    if (in_scope(v, i))
        tile_broken(v, "variable %s is declared twice", k->indices.at[i].name);
    vec_push(v->a, &v->scope, i);
}

void tile_leave(TileVerifier *v, uint32_t scope)
{
    v->scope.len = scope;
    for (uint32_t n = v->ranges.len;
         n && v->ranges.at[n - 1].var != NONE && !in_scope(v, v->ranges.at[n - 1].var);)
        v->ranges.len = --n;
}

/* ---- the tree ---- */

static void verify_children(TileVerifier *v, StmtId first);

/* Where lo < hi holds, the range lo..hi is not empty. */
static void learn_range(TileVerifier *v, ExprId condition)
{
    if (!v->error && x_is_op(v->k, condition, OP_lt) &&
        x_at(v->k, x_arg(v->k, condition, 0))->type == TY_INT &&
        x_at(v->k, x_arg(v->k, condition, 1))->type == TY_INT)
        vec_push(v->a, &v->ranges,
                 ((TileRange){NONE, x_arg(v->k, condition, 0), x_arg(v->k, condition, 1), 1, 0}));
}

void tile_verify_if(TileVerifier *v, const Stmt *s)
{
    tile_verify_expr(v, s->value, WANT_CONDITION);
    uint32_t known = v->known_now.len, ranges = v->ranges.len;
    TileBranch branch = tile_enter_condition(v, s);
    learn_range(v, s->value);
    verify_children(v, s->first);
    tile_leave_condition(v, branch);
    tile_forget(v, known);
    v->ranges.len = ranges;
}

/* Parallel and owned loops are the only child of the launch or of another such loop. */
static void verify_flat(TileVerifier *v, const Stmt *s)
{
    StmtId parent = v->loops.len ? v->loops.at[v->loops.len - 1] : v->launch;
    const Stmt *p = tile_at(v->k, parent);
    if ((p->kind != TILE_launch && !tile_is_flat(p)) || p->first != v->at || s->next != NONE)
        tile_broken(v, "a parallel or owned loop is not directly inside the launch or another one, alone");
    for (uint32_t i = 0; !v->error && i < v->scope.len; i++)
        if (x_uses_index(v->k, s->lo, v->scope.at[i]) || x_uses_index(v->k, s->hi, v->scope.at[i]))
            tile_broken(v, "bounds of a parallel loop depend on another one");
}

/* Bands are of a loop around another one; their list is one that `blocks` has made. */
static void verify_band(TileVerifier *v, const Stmt *s)
{
    int64_t columns = 0;
    if (s->band < 0 || s->mode != LOOP_PARALLEL || s->first == NONE || !tile_is_flat(tile_at(v->k, s->first)))
        tile_broken(v, "a band of %lld values: only a parallel loop around another one has bands",
                    (long long)s->band);
    if (v->error || s->buffer == NONE || !tile_is_buffer(v, s->buffer, "the list of a band"))
        return;
    const Tensor *list = &v->k->tensors.at[s->buffer];
    if (!v->rows[s->buffer] || !ext_is_const(v->k->module, list->axes[1].extent, &columns) ||
        columns != RUN_COLUMNS)
        tile_broken(v, "%s is no list of blocks with %d columns", list->name, RUN_COLUMNS);
    tile_verify_read(v, s->buffer);
}

static void verify_bounds(TileVerifier *v, const Stmt *s)
{
    int64_t lo, hi;
    tile_verify_integers(v, s);
    if (v->error)
        return;
    if (s->step < 1)
        tile_broken(v, "a loop by %lld", (long long)s->step);
    if (tile_is_flat(s))
        verify_flat(v, s);
    if (s->band)
        verify_band(v, s);
    if (s->mode == LOOP_VECTOR && v->vector != NONE)
        tile_broken(v, "a vector loop inside a vector loop");
    if (tile_has_lanes(v, s->lo) || tile_has_lanes(v, s->hi))
        tile_broken(v, "bounds of a loop have lanes");
    if (s->mode == LOOP_UNROLL &&
        (!tile_unrolled_range(v, s->lo, &lo, &hi) || !tile_unrolled_range(v, s->hi, &lo, &hi)))
        tile_broken(v, "bounds of an unrolled loop are not constant");
}

void tile_verify_for(TileVerifier *v, const Stmt *s)
{
    TileVerifier saved = *v;
    if (s->mode >= LOOP_MODES)
        tile_broken(v, "a loop of mode %d", s->mode);
    verify_bounds(v, s);
    StmtId self = v->at;
    tile_declare(v, s->var);
    vec_push(v->a, &v->ranges, ((TileRange){s->var, s->lo, s->hi, s->step, tile_is_flat(s)}));
    vec_push(v->a, &v->loops, self);
    if (s->mode == LOOP_VECTOR)
        v->vector = self;
    if (!v->error && tile_is_flat(s)) {
        v->parallel |= s->mode == LOOP_PARALLEL ? v->index_taint[s->var] : 0;
        v->owned |= s->mode == LOOP_OWNED ? v->index_taint[s->var] : 0;
    }
    verify_children(v, s->first);
    tile_leave(v, saved.scope.len);
    tile_forget(v, saved.known_now.len);
    v->loops.len = saved.loops.len;
    v->vector = saved.vector;
    v->parallel = saved.parallel;
    v->owned = saved.owned;
}

void tile_verify_launch(TileVerifier *v, const Stmt *s)
{
    (void)s;
    tile_broken(v, "a launch inside a launch");
}

void tile_verify_event(TileVerifier *v, const Stmt *s)
{
    if (s->planned >= v->k->tiles->stmts.len)
        tile_broken(v, "statement %u, of which it tells, does not exist", s->planned);
    if (s->mode >= EVENT_COUNT || s->nindex != event_exprs((EventKind)s->mode))
        tile_broken(v, "it has %u values, which are not those of its kind", s->nindex);
    tile_verify_integers(v, s);
    verify_children(v, s->first);
}

static void (*const verifiers[TILE_COUNT])(TileVerifier *, const Stmt *) = {
#define TILE(name, doc, ...) tile_verify_##name,
#include "ir/tile.def"
};

static int enter(TileVerifier *v, StmtId id)
{
    const TileProgram *p = v->k->tiles;
    if (id >= p->stmts.len)
        tile_broken(v, "statement %u does not exist", id);
    else if (v->seen[id]++)
        tile_broken(v, "statement %u stands at two places", id);
    else if (p->stmts.at[id].kind >= TILE_COUNT)
        tile_broken(v, "statement %u has kind %d", id, p->stmts.at[id].kind);
    return !v->error;
}

/* What tile.def does not name as an operand, no reader of the table would see. */
static void verify_fields(TileVerifier *v, const Stmt *s)
{
    const char *field = tile_stray_field(s);
    if (field)
        tile_broken(v, "it has a field `%s`, which is not among its operands", field);
}

static void verify_children(TileVerifier *v, StmtId first)
{
    StmtId parent = v->at;
    tile_each (id, v->k, first) {
        if (!enter(v, id))
            return;
        v->at = id;
        verify_fields(v, tile_at(v->k, id));
        verifiers[tile_at(v->k, id)->kind](v, tile_at(v->k, id));
        if (v->error)
            return;
    }
    v->at = parent;
}

static void verify_top_level(TileVerifier *v)
{
    tile_each (id, v->k, v->k->tiles->first) {
        v->at = NONE;
        v->launch = NONE;
        if (!enter(v, id))
            return;
        v->at = id;
        if (tile_at(v->k, id)->kind != TILE_launch || !tile_at(v->k, id)->name) {
            tile_broken(v, "stands outside a launch");
            return;
        }
        v->launch = id;
        tile_mark_launch(v, id);
        tile_begin_launch(v, id);
        verify_children(v, tile_at(v->k, id)->first);
        if (v->error)
            return;
    }
}

const char *tile_verify(const Kernel *k, Arena *a)
{
    if (!k->tiles)
        return arena_printf(a, "kernel %s has no tile program", k->name);
    TileVerifier v = {.k = k, .a = a, .launch = NONE, .at = NONE, .vector = NONE};
    v.seen = arena_alloc(a, k->tiles->stmts.len + 1);
    v.stamp = arena_array(a, uint32_t, k->exprs.len + 1);
    v.index_taint = arena_array(a, uint32_t, k->indices.len + 1);
    v.tensor_taint = arena_array(a, uint32_t, k->tensors.len + 1);
    tile_begin_program(&v);
    tile_verify_layouts(&v);
    verify_top_level(&v);
    tile_end_program(&v);
    return v.error;
}
