/* The invariants of ir.h, checked after every pass in debug runs: a broken one is a bug of the last pass.
 *
 * Each check returns at the first fault, with the kernel, the equation and the expression as text. */
#include "ir/verify.h"

#include <stdarg.h>
#include <string.h>

int verify_broken(Verifier *v, ExprId e, const char *format, ...)
{
    if (v->fault)
        return 0;
    va_list args;
    va_start(args, format);
    const char *what = arena_vprintf(v->arena, format, args);
    va_end(args);
    Loc loc = e != NONE ? x_at(v->k, e)->loc : v->eq ? v->eq->loc : v->k->loc;
    if (v->eq)
        what = arena_printf(v->arena, "equation %u: %s", (unsigned)(v->eq - v->k->eqs.at), what);
    if (e != NONE)
        what = arena_printf(v->arena, "%s (expression %u)", what, (unsigned)e);
    v->fault = arena_printf(v->arena, "kernel %s, line %u: %s", v->k->name, (unsigned)loc.line, what);
    return 0;
}

/* ---- declarations ---- */

int verify_extent(Verifier *v, Extent e, const char *of, const char *name)
{
    REQUIRE(v, NONE, e < v->m->extents.len, "the extent of %s %s has no id", of, name);
    const ExtentForm *f = &v->m->extents.at[e];
    for (uint32_t i = 0; i < f->nterms; i++)
        REQUIRE(v, NONE, f->terms[i].coef != INT64_MAX && f->terms[i].coef != INT64_MIN,
                "a number in the extent of %s %s is too large", of, name);
    return 1;
}

static int axis_ok(Verifier *v, Axis a, const char *of, const char *name)
{
    if (!verify_extent(v, a.extent, of, name))
        return 0;
    if (a.group == NONE)
        return 1;
    REQUIRE(v, NONE, a.group < v->m->groups.len, "the row space of %s %s has no id", of, name);
    REQUIRE(v, NONE, ext_same(v->m, a.extent, v->m->groups.at[a.group].rows),
            "%s %s is over group %s but not as long as its rows", of, name, v->m->groups.at[a.group].name);
    return 1;
}

static int layout_ok(Verifier *v, const Tensor *t)
{
    REQUIRE(v, NONE, !t->both || t->layout == LAYOUT_PAIRS, "tensor %s has transposed matrices of nothing",
            t->name);
    if (t->layout == LAYOUT_ROWS || v->k->tiles)
        return 1;
    REQUIRE(v, NONE, t->layout == LAYOUT_PAIRS && t->role != ROLE_LOCAL,
            "tensor %s has a layout of the tile level", t->name);
    REQUIRE(v, NONE, type_is_float(elem_type(t->elem)), "packed tensor %s has no float elements", t->name);
    REQUIRE(v, NONE, t->rank >= 2 && t->axes[t->rank - 1].group == NONE && t->axes[t->rank - 2].group == NONE,
            "packed tensor %s has no two dense axes at its end", t->name);
    return 1;
}

static int tensor_ok(Verifier *v, const Tensor *t)
{
    REQUIRE(v, NONE, t->name && t->rank <= MAX_RANK && t->elem < EL_COUNT, "a tensor is not whole");
    REQUIRE(v, NONE, v->k->tiles || t->elem != EL_I64 || t->role == ROLE_LOCAL, "parameter %s is i64",
            t->name);
    for (uint32_t i = 0; i < t->rank; i++)
        if (!axis_ok(v, t->axes[i], "tensor", t->name))
            return 0;
    return layout_ok(v, t);
}

static int route_ok(Verifier *v, const Route *r)
{
    REQUIRE(v, NONE, r->name && r->group < v->m->groups.len, "a route is not whole");
    for (RouteId o = 0; &v->k->routes.at[o] != r; o++)
        REQUIRE(v, NONE, v->k->routes.at[o].group != r->group, "routes %s and %s are over one group",
                v->k->routes.at[o].name, r->name);
    return verify_extent(v, r->tokens, "route", r->name) && verify_extent(v, r->choices, "route", r->name);
}

static int param_ok(Verifier *v, Param p)
{
    if (p.kind == PARAM_ROUTE) {
        REQUIRE(v, NONE, p.id < v->k->routes.len, "a parameter is no route");
        REQUIRE(v, NONE, v->k->routes.at[p.id].role == ROLE_IN || v->k->routes.at[p.id].role == ROLE_OUT,
                "route %s is a parameter that is neither in nor out", v->k->routes.at[p.id].name);
        return 1;
    }
    REQUIRE(v, NONE, p.id < v->k->tensors.len, "a parameter is no tensor");
    REQUIRE(v, NONE, v->k->tensors.at[p.id].role != ROLE_LOCAL, "parameter %s is a local",
            v->k->tensors.at[p.id].name);
    return 1;
}

/* Tensors, routes and parameters share one name space; what the tile level added has names of its own. */
static int names_ok(Verifier *v)
{
    const Kernel *k = v->k;
    for (TensorId t = 0; t < k->tensors.len; t++)
        for (TensorId u = t + 1; u < k->tensors.len; u++)
            REQUIRE(v, NONE, k->tensors.at[t].name != k->tensors.at[u].name, "two tensors are called %s",
                    k->tensors.at[t].name);
    for (RouteId r = 0; r < k->routes.len; r++)
        REQUIRE(v, NONE, ir_find_tensor(k, k->routes.at[r].name) == NONE,
                "a tensor and a route are called %s", k->routes.at[r].name);
    return 1;
}

static int declarations_ok(Verifier *v)
{
    const Kernel *k = v->k;
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (!tensor_ok(v, &k->tensors.at[t]))
            return 0;
    for (RouteId r = 0; r < k->routes.len; r++)
        if (!route_ok(v, &k->routes.at[r]))
            return 0;
    for (IndexId i = 0; i < k->indices.len; i++) {
        REQUIRE(v, NONE, k->indices.at[i].name, "index %u has no name", (unsigned)i);
        if (!axis_ok(v, k->indices.at[i].axis, "index", k->indices.at[i].name))
            return 0;
    }
    for (uint32_t i = 0; i < k->params.len; i++)
        if (!param_ok(v, k->params.at[i]))
            return 0;
    return names_ok(v);
}

/* ---- equations ---- */

/* Binds the index variables of the left side: plain ones once each; in a scatter, those of its expressions.
 */
static int bind_left(Verifier *v)
{
    const Equation *q = v->eq;
    for (uint32_t i = 0; i < q->nindex; i++) {
        const Expr *x = x_at(v->k, q->index[i]);
        REQUIRE(v, q->index[i], x->kind == X_INDEX || x->kind == X_INT || q->kind == EQ_ADD,
                "a left-hand subscript is neither an index nor a constant");
        if (x->kind != X_INDEX)
            continue;
        REQUIRE(v, q->index[i], !set_has(v->bound, x->sym), "left-hand index %s repeats",
                v->k->indices.at[x->sym].name);
        set_add(v->bound, x->sym);
    }
    return 1;
}

static void bind_free(Verifier *v, ExprId e)
{
    for (uint32_t w = 0; e != NONE && w < v->words; w++)
        v->bound[w] |= v->free[(size_t)e * v->words + w];
}

static int left_ok(Verifier *v)
{
    const Equation *q = v->eq;
    const Tensor *t = &v->k->tensors.at[q->lhs];
    REQUIRE(v, NONE, q->nindex == t->rank, "%s has rank %u but %u left-hand subscripts", t->name, t->rank,
            q->nindex);
    for (uint32_t i = 0; i < q->nindex; i++) {
        const Expr *x = x_at(v->k, q->index[i]);
        if (x->kind == X_INDEX && !verify_rows_known(v, q->index[i], x->sym))
            return 0;
        int64_t extent;
        if (x->kind == X_INT)
            REQUIRE(v, q->index[i],
                    x->value.i >= 0 &&
                        (!ext_is_const(v->m, t->axes[i].extent, &extent) || x->value.i < extent),
                    "constant subscript %lld of %s is outside", (long long)x->value.i, t->name);
        if (!verify_uses(v, q->index[i]) ||
            !verify_subscript(v, q->index[i], q->index[i], t->axes[i], t->name))
            return 0;
    }
    return 1;
}

static int value_fits(Verifier *v)
{
    const Equation *q = v->eq;
    const Tensor *t = &v->k->tensors.at[q->lhs];
    Type value = (Type)x_at(v->k, q->rhs)->type, want = elem_type(t->elem);
    int fits = value == want || (want == TY_F32 && value != TY_BOOL);
    REQUIRE(v, q->rhs, fits, "a value of type %s is stored to %s, which is %s", type_name(value), t->name,
            elem_name(t->elem));
    return 1;
}

/* In the equation that writes it, an inout tensor is read at the written element only. */
static int own_reads_ok(Verifier *v)
{
    const Equation *q = v->eq;
    const Tensor *t = &v->k->tensors.at[q->lhs];
    each_below (e, v->k, q->rhs, EVERYWHERE) {
        if (x_at(v->k, *e)->kind != X_LOAD || x_at(v->k, *e)->sym != q->lhs)
            continue;
        REQUIRE(v, *e, t->role == ROLE_INOUT, "%s is read by its own definition", t->name);
        for (uint32_t i = 0; i < q->nindex; i++)
            REQUIRE(v, *e, x_arg(v->k, *e, i) == q->index[i],
                    "another element of %s is read while it is written", t->name);
    }
    return 1;
}

static int written_role_ok(Verifier *v, TensorId id)
{
    REQUIRE(v, NONE, id < v->k->tensors.len, "an equation defines no tensor");
    const Tensor *t = &v->k->tensors.at[id];
    REQUIRE(v, NONE, t->role != ROLE_IN, "in parameter %s is written", t->name);
    REQUIRE(v, NONE, v->eq->kind != EQ_ADD || t->role == ROLE_INOUT, "+= on %s, which is not inout", t->name);
    return 1;
}

static int assign_ok(Verifier *v)
{
    const Equation *q = v->eq;
    if (!written_role_ok(v, q->lhs) || !bind_left(v))
        return 0;
    for (uint32_t i = 0; q->kind == EQ_ADD && i < q->nindex; i++)
        bind_free(v, q->index[i]);
    return left_ok(v) && verify_uses(v, q->rhs) && value_fits(v) && own_reads_ok(v);
}

static int top_ok(Verifier *v)
{
    const Equation *q = v->eq;
    if (!written_role_ok(v, q->lhs) || !written_role_ok(v, q->ids))
        return 0;
    const Tensor *t = &v->k->tensors.at[q->lhs], *ids = &v->k->tensors.at[q->ids];
    REQUIRE(v, NONE, q->nindex > 0 && q->bound < v->k->indices.len, "a top is not whole");
    REQUIRE(v, NONE, ids->elem == EL_I32 && ids->rank == t->rank, "the ids of top, %s, do not match %s",
            ids->name, t->name);
    for (uint32_t i = 0; i < t->rank; i++)
        REQUIRE(v, NONE,
                t->axes[i].group == ids->axes[i].group &&
                    ext_same(v->m, t->axes[i].extent, ids->axes[i].extent),
                "the ids of top, %s, do not match %s", ids->name, t->name);
    if (!bind_left(v) || !left_ok(v))
        return 0;
    ExprId last = q->index[q->nindex - 1];
    REQUIRE(v, last, x_at(v->k, last)->kind == X_INDEX, "the last subscript of top is no index");
    REQUIRE(v, q->rhs, !set_has(v->free + (size_t)q->rhs * v->words, x_at(v->k, last)->sym),
            "the value searched by top depends on the place");
    REQUIRE(v, NONE, !set_has(v->bound, q->bound) && v->k->indices.at[q->bound].axis.group == NONE,
            "the searched index of top is bound already, or runs over rows");
    set_add(v->bound, q->bound);
    return verify_uses(v, q->rhs) && value_fits(v);
}

static int make_route_ok(Verifier *v)
{
    const Equation *q = v->eq;
    REQUIRE(v, NONE, q->route < v->k->routes.len && q->ids < v->k->tensors.len,
            "a route equation is not whole");
    const Route *r = &v->k->routes.at[q->route];
    const Tensor *ids = &v->k->tensors.at[q->ids];
    REQUIRE(v, NONE, r->role != ROLE_IN && !v->routed[q->route], "route %s is defined twice, or a parameter",
            r->name);
    REQUIRE(v, NONE, v->written[q->ids], "%s is read before its definition", ids->name);
    REQUIRE(v, NONE,
            ids->elem == EL_I32 && ids->rank == 2 && ids->axes[0].group == NONE &&
                ids->axes[1].group == NONE && ext_same(v->m, ids->axes[0].extent, r->tokens) &&
                ext_same(v->m, ids->axes[1].extent, r->choices),
            "the ids of route %s are not i32[tokens, choices]", r->name);
    return 1;
}

/* A check runs wherever its index variables do: all of them are free. */
static int check_ok(Verifier *v)
{
    const Equation *q = v->eq;
    REQUIRE(v, NONE, q->lhs < v->k->tensors.len && q->axis < v->k->tensors.at[q->lhs].rank,
            "a check is not whole");
    bind_free(v, q->rhs);
    bind_free(v, q->guard);
    REQUIRE(v, q->rhs, x_at(v->k, q->rhs)->type == TY_INT, "a checked subscript is no integer");
    REQUIRE(v, q->guard, q->guard == NONE || x_at(v->k, q->guard)->type == TY_BOOL,
            "the guard of a check is no condition");
    return verify_uses(v, q->rhs) && (q->guard == NONE || verify_uses(v, q->guard));
}

static int equation_ok(Verifier *v)
{
    memset(v->bound, 0, sizeof *v->bound * v->words);
    switch (v->eq->kind) {
    case EQ_ASSIGN:
    case EQ_ADD: return assign_ok(v);
    case EQ_TOP: return top_ok(v);
    case EQ_ROUTE: return make_route_ok(v);
    case EQ_CHECK: return check_ok(v);
    }
    return verify_broken(v, NONE, "an equation of unknown kind");
}

/* ---- definitions ---- */

static int defines(const Equation *q, TensorId t)
{
    return !q->dead &&
           ((q->kind == EQ_ASSIGN && q->lhs == t) || (q->kind == EQ_TOP && (q->lhs == t || q->ids == t)));
}

/* What this equation defines is readable once it was the last one that defines it. */
static void note_definitions(Verifier *v)
{
    const Equation *q = v->eq;
    if (q->kind == EQ_ROUTE)
        v->routed[q->route] = 1;
    if (q->kind != EQ_ASSIGN && q->kind != EQ_TOP)
        return;
    if (--v->left[q->lhs] == 0)
        v->written[q->lhs] = 1;
    if (q->kind == EQ_TOP && --v->left[q->ids] == 0)
        v->written[q->ids] = 1;
}

/* Which equation writes the slice of t that these constants choose: how many do. */
static unsigned writers_of(const Verifier *v, TensorId t, const int64_t *place, const uint8_t *fixed)
{
    unsigned writers = 0;
    for (uint32_t i = 0; i < v->k->eqs.len; i++) {
        const Equation *q = &v->k->eqs.at[i];
        int hits = defines(q, t);
        for (uint32_t a = 0; hits && a < q->nindex; a++)
            hits = !fixed[a] || x_at(v->k, q->index[a])->kind == X_INDEX ||
                   x_is_int(v->k, q->index[a], place[a]);
        writers += hits != 0;
    }
    return writers;
}

enum { MAX_SLICES = 1 << 16 };

/* Every slice that constant left-hand subscripts cut out of t is written exactly once. */
static int covered(Verifier *v, TensorId id)
{
    const Tensor *t = &v->k->tensors.at[id];
    uint8_t fixed[MAX_RANK] = {0};
    int64_t extent[MAX_RANK] = {0}, place[MAX_RANK] = {0}, slices = 1;
    for (uint32_t i = 0; i < v->k->eqs.len; i++)
        for (uint32_t a = 0; defines(&v->k->eqs.at[i], id) && a < t->rank; a++)
            fixed[a] |= x_at(v->k, v->k->eqs.at[i].index[a])->kind == X_INT;
    for (uint32_t a = 0; a < t->rank; a++) {
        if (!fixed[a])
            continue;
        REQUIRE(v, NONE,
                ext_is_const(v->m, t->axes[a].extent, &extent[a]) &&
                    !__builtin_mul_overflow(slices, extent[a], &slices) && slices <= MAX_SLICES,
                "%s is written at constant subscripts of an axis that is not a small constant", t->name);
    }
    for (int64_t s = 0; s < slices; s++) {
        int64_t rest = s;
        for (uint32_t a = 0; a < t->rank; a++)
            if (fixed[a]) {
                place[a] = rest % extent[a];
                rest /= extent[a];
            }
        unsigned writers = writers_of(v, id, place, fixed);
        REQUIRE(v, NONE, writers > 0, "%s is not fully written", t->name);
        REQUIRE(v, NONE, writers == 1, "%s is written twice", t->name);
    }
    return 1;
}

static int definitions_ok(Verifier *v)
{
    for (TensorId t = 0; t < v->k->tensors.len; t++) {
        Role role = v->k->tensors.at[t].role;
        int defined = 0;
        for (uint32_t i = 0; i < v->k->eqs.len; i++)
            defined |= defines(&v->k->eqs.at[i], t);
        if (role == ROLE_OUT || (role == ROLE_LOCAL && defined)) {
            if (!covered(v, t))
                return 0;
        }
    }
    for (RouteId r = 0; r < v->k->routes.len; r++)
        REQUIRE(v, NONE, v->k->routes.at[r].role != ROLE_OUT || v->routed[r], "route %s is not written",
                v->k->routes.at[r].name);
    return 1;
}

static void start_definitions(Verifier *v)
{
    const Kernel *k = v->k;
    for (TensorId t = 0; t < k->tensors.len; t++)
        v->written[t] = k->tensors.at[t].role == ROLE_IN || k->tensors.at[t].role == ROLE_INOUT;
    for (RouteId r = 0; r < k->routes.len; r++)
        v->routed[r] = k->routes.at[r].role == ROLE_IN;
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->dead || (q->kind != EQ_ASSIGN && q->kind != EQ_TOP))
            continue;
        if (q->lhs < k->tensors.len)
            v->left[q->lhs]++;
        if (q->kind == EQ_TOP && q->ids < k->tensors.len)
            v->left[q->ids]++;
    }
}

static int kernel_ok(Verifier *v)
{
    if (!declarations_ok(v) || !verify_nodes(v))
        return 0;
    start_definitions(v);
    for (uint32_t i = 0; i < v->k->eqs.len; i++) {
        if (v->k->eqs.at[i].dead)
            continue;
        v->eq = &v->k->eqs.at[i];
        if (!equation_ok(v))
            return 0;
        note_definitions(v);
    }
    v->eq = NULL;
    return definitions_ok(v);
}

const char *ir_verify(const Kernel *k, Arena *a)
{
    Arena *scratch = arena_new();
    if (!scratch)
        return "out of memory while verifying";
    Verifier v = {.k = k, .m = k->module, .arena = a, .scratch = scratch, .words = k->indices.len / 64 + 1};
    v.written = arena_array(scratch, uint8_t, k->tensors.len + 1);
    v.routed = arena_array(scratch, uint8_t, k->routes.len + 1);
    v.left = arena_array(scratch, uint32_t, k->tensors.len + 1);
    v.bound = arena_array(scratch, uint64_t, v.words);
    v.free = arena_array(scratch, uint64_t, (size_t)v.words * (k->exprs.len + 1));
    v.binds = arena_array(scratch, uint64_t, (size_t)v.words * (k->exprs.len + 1));
    v.reached = arena_array(scratch, uint8_t, k->exprs.len + 1);
    kernel_ok(&v);
    arena_free(scratch);
    return v.fault;
}
