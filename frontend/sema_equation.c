/* One equation: from AST to an Equation of the kernel. */
#include "frontend/sema.h"

static void start(KernelSema *c)
{
    c->failed = 0;
    c->vars.len = c->scope.len = c->hints.len = c->guards.len = 0;
    c->guard = NONE;
    c->inlined = NULL;
    c->equation = c->bound = NULL;
    c->access = (Loc){0};
    c->depth = 0;
}

static uint32_t subscript_count(const AstLhs *lhs) { return lhs->subscripts ? lhs->subscripts->list.len : 0; }

/* ---- what may be written ---- */

static int local_name_ok(KernelSema *c, const AstLhs *lhs)
{
    Name name = lhs->name.name;
    uint32_t id;
    if (symbol_get(c, name, SYMBOL_ROUTE, &id))
        sema_error(c, DIAG_route_value, lhs->name.loc,
                   arena_printf(c->m->arena, "write `%s = route(id)`", name), "%s is a route, not a tensor",
                   name);
    else if (namemap_get(&c->c->dims, name) != NAME_ABSENT || namemap_get(&c->c->groups, name) != NAME_ABSENT)
        sema_error(c, DIAG_duplicate_name, lhs->name.loc,
                   arena_printf(c->m->arena, "choose another name, such as %s_", name),
                   "%s is the name of a dimension or group", name);
    else if (subscript_count(lhs) > MAX_RANK)
        sema_error(c, DIAG_too_many_axes, lhs->loc, "use fewer indices", "%s has more than %d axes", name,
                   MAX_RANK);
    return !c->failed;
}

static int may_write(KernelSema *c, TensorId id, const AstEquation *q, const AstLhs *lhs)
{
    const Tensor *t = &c->k->tensors.at[id];
    if (t->role == ROLE_IN)
        sema_error(c, DIAG_in_written, lhs->loc, "declare it as inout, or write a local",
                   "%s is an in parameter: it is only read", t->name);
    else if (q->kind == EQ_ADD && t->role != ROLE_INOUT)
        sema_error(c, DIAG_add_to_local, lhs->loc, "write one equation with =, or declare it as inout",
                   "`+=` needs an inout parameter; %s is %s", t->name,
                   t->role == ROLE_OUT ? "an out" : "a local");
    else if (t->rank != subscript_count(lhs))
        sema_error(c, DIAG_rank, lhs->loc,
                   arena_printf(c->m->arena, "write %s", count_text(c->m->arena, t->rank, "subscript")),
                   "%s has %s, but %s here", t->name, count_text(c->m->arena, t->rank, "axis"),
                   count_text(c->m->arena, subscript_count(lhs), "subscript"));
    if (c->failed)
        diag_label(c->m->diags, t->loc, "declared here");
    return !c->failed;
}

/* The tensor on the left when it exists already; NONE and not failed: a new local. */
static TensorId find_left(KernelSema *c, const AstEquation *q, const AstLhs *lhs)
{
    uint32_t id;
    if (symbol_get(c, lhs->name.name, SYMBOL_TENSOR, &id)) {
        may_write(c, id, q, lhs);
        return c->failed ? (TensorId)NONE : id;
    }
    if (namemap_get(&c->poison, lhs->name.name) != NAME_ABSENT) {
        c->failed = 1;
        return NONE;
    }
    if (q->kind == EQ_ADD) {
        Guess g = sema_guess(c, lhs->name.name, 1, 0);
        sema_error(c, DIAG_add_to_local, lhs->loc, guess_help(c->m->arena, &g, "write one equation with ="),
                   "`+=` needs an inout parameter; the kernel has none called %s", lhs->name.name);
        guess_edit(c->m->diags, &g, lhs->name.loc);
        return NONE;
    }
    local_name_ok(c, lhs);
    return NONE;
}

/* ---- left-hand subscripts ---- */

static int constant_inside(KernelSema *c, const AstLhs *lhs, const AstExpr *e, Axis axis)
{
    int64_t extent;
    if (axis.group != NONE)
        sema_error(c, DIAG_row_subscript, e->loc, "write an index over the rows",
                   "an axis of rows has no constant place");
    else if (ext_is_const(c->m, axis.extent, &extent) && e->integer >= extent)
        sema_error(c, DIAG_index_outside, e->loc,
                   arena_printf(c->m->arena, "write 0 to %lld", (long long)extent - 1),
                   "%lld lies outside the axis of %s, whose extent is %lld", (long long)e->integer,
                   lhs->name.name, (long long)extent);
    return !c->failed;
}

static int build_scatter_subscript(KernelSema *c, Equation *q, uint32_t at, const AstLhs *lhs,
                                   const AstExpr *e)
{
    ExprIds needs = {0};
    c->needs = &needs;
    c->needs_from = c->guards.len;
    q->index[at] = build_integer(c, e);
    if (c->failed ||
        !sema_subscript(c, lhs->name.name, c->k->tensors.at[q->lhs].axes[at], q->index[at], e->loc))
        return 0;
    if (needs.len)
        sema_error(c, DIAG_left_index, e->loc,
                   "write the row as an index r, and rt.token(r), rt.slot(r) on the right",
                   "a left-hand subscript cannot go through %s, which may be a dropped row",
                   sema_text(c, x_arg(c->k, needs.at[0], 0)));
    return !c->failed;
}

static int build_left(KernelSema *c, Equation *q, const AstLhs *lhs)
{
    uint32_t var;
    q->nindex = (uint8_t)subscript_count(lhs);
    for (uint32_t i = 0; i < q->nindex; i++) {
        const AstExpr *e = lhs->subscripts->list.at[i].value;
        if (e->kind == AST_INT)
            q->index[i] = x_int(c->k, e->loc, e->integer);
        else if (e->kind == AST_NAME && var_find(c, e->name.name, &var))
            q->index[i] = x_index(c->k, e->loc, c->vars.at[var].id);
        else if (!build_scatter_subscript(c, q, i, lhs, e))
            return 0;
        if (e->kind == AST_INT && q->lhs != NONE &&
            !constant_inside(c, lhs, e, c->k->tensors.at[q->lhs].axes[i]))
            return 0;
    }
    return 1;
}

/* ---- values ---- */

static ExprId zero_like(KernelSema *c, Loc loc, Type t)
{
    return t == TY_INT ? x_int(c->k, loc, 0) : x_float(c->k, loc, 0);
}

/* The element is 0 where a row that it needs was dropped; its type stays. */
static ExprId guard_value(KernelSema *c, Loc loc, ExprId value, const ExprIds *needs)
{
    if (needs->len == 0)
        return value;
    Type t = expr_type(c, value);
    ExprId rows = build_conjunction(c, loc, needs, NONE);
    ExprId guarded = x_if(c->k, loc, rows, value, zero_like(c, loc, t));
    return t == TY_BF16  ? x_op1(c->k, loc, OP_bf16, guarded)
           : t == TY_F16 ? x_op1(c->k, loc, OP_f16, guarded)
                         : guarded;
}

static ExprId build_value(KernelSema *c, const AstExpr *e)
{
    ExprIds needs = {0};
    c->needs = &needs;
    c->needs_from = c->guards.len;
    ExprId value = build_expr(c, e);
    if (value == NONE)
        return NONE;
    if (expr_type(c, value) == TY_BOOL)
        return sema_condition(c, e, sema_text(c, value), "a value that can be stored");
    return guard_value(c, e->loc, value, &needs);
}

static const char *type_text(const KernelSema *c, Type type, uint32_t param)
{
    return param == TYPE_PLAIN   ? type_name(type)
           : param == TYPE_MIXED ? "an `if` of two types"
                                 : c->m->types.at[param].name;
}

/* The value of e as it is stored into an element: converted from integer to f32, or refused. */
static ExprId build_store(KernelSema *c, const AstExpr *e, ExprId value, Name name, Elem elem)
{
    Type have = expr_type(c, value), want = elem_type(elem);
    uint32_t from = sema_type_param(c, e), into = namemap_get(&c->typed, name);
    if ((have == want && from == into) || (want == TY_F32 && into == TYPE_PLAIN && type_is_float(have)))
        return value;
    if (want == TY_F32 && into == TYPE_PLAIN)
        return build_float(c, value);
    if (want == TY_INT) {
        const char *whole = sema_quotient(c, value);
        sema_error(c, DIAG_float_to_int, e->loc,
                   whole ? "divide integers by idiv, which rounds down"
                         : "make an integer of it, which truncates and saturates",
                   "%s holds integers, but this value is %s", name, type_name(have));
        sema_edit_integer(c, e->loc, whole);
        return NONE;
    }
    const char *type = type_text(c, want, into);
    sema_error(c, DIAG_narrowing, e->loc, "write the rounding",
               "%s holds %s, but this value is %s: rounding must be written", name, type,
               type_text(c, have, from));
    diag_wrap(c->m->diags, e->loc, arena_printf(c->m->arena, "%s(", type), ")");
    return NONE;
}

static Elem elem_of(Type t)
{
    return t == TY_INT ? EL_I32 : t == TY_BF16 ? EL_BF16 : t == TY_F16 ? EL_F16 : EL_F32;
}

/* A local with the axes of an equation's indices. */
static TensorId add_local(KernelSema *c, AstName name, const Equation *q, Elem elem)
{
    const Ahead *ahead = sema_ahead(c, name.name);
    Tensor t = {.name = name.name,
                .loc = name.loc,
                .elem = elem,
                .role = ROLE_LOCAL,
                .rank = q->nindex,
                .route = NONE};
    for (uint32_t i = 0; i < q->nindex; i++) {
        const Expr *x = x_at(c->k, q->index[i]);
        if (x->kind == X_INDEX)
            t.axes[i] = c->k->indices.at[x->sym].axis;
        else
            t.axes[i] = (Axis){
                ext_const(c->m, ahead->largest[i] < INT64_MAX ? ahead->largest[i] + 1 : INT64_MAX), NONE};
    }
    return ir_tensor(c->k, t);
}

/* The local that an equation defines. */
static TensorId new_local(KernelSema *c, const AstLhs *lhs, const Equation *q, Elem elem)
{
    TensorId id = add_local(c, lhs->name, q, elem);
    written_add(c, (Written){.first = q->loc});
    symbol_set(c, lhs->name.name, SYMBOL_TENSOR, id);
    return id;
}

/* Its elements are of the value's type. */
static TensorId new_local_of(KernelSema *c, const AstLhs *lhs, const Equation *q, const AstExpr *e,
                             ExprId value)
{
    namemap_set(&c->typed, lhs->name.name, sema_type_param(c, e));
    return new_local(c, lhs, q, elem_of(expr_type(c, value)));
}

static int note(KernelSema *c, const Equation *q, TensorId id, const AstLhs *lhs)
{
    if (written_note(c, q, id))
        return !c->failed;
    const Loc first = written_first(c, q, id);
    sema_error(c, DIAG_defined_twice, lhs->loc, "give the second one another name",
               "%s is defined already, in line %u", lhs->name.name, first.line);
    diag_label(c->m->diags, first, "the first one");
    return 0;
}

/* In the equation that writes an inout, only the element that is written may be read. */
static int own_reads_ok(KernelSema *c, const Equation *q, Loc loc)
{
    if (c->k->tensors.at[q->lhs].role != ROLE_INOUT || !x_loads(c->k, q->rhs, q->lhs))
        return 1;
    each_below (n, c->k, q->rhs, EVERYWHERE) {
        ExprId e = *n;
        if (x_at(c->k, e)->kind != X_LOAD || x_at(c->k, e)->sym != q->lhs)
            continue;
        int same = 1;
        for (uint32_t i = 0; i < q->nindex; i++)
            same &= x_arg(c->k, e, i) == q->index[i] &&
                    (x_at(c->k, q->index[i])->kind == X_INDEX || x_at(c->k, q->index[i])->kind == X_INT);
        if (!same) {
            sema_error(c, DIAG_inout_other, loc, "write a local first, and this parameter from the local",
                       "%s is read here while another element of it is written", sema_text(c, e));
            return 0;
        }
    }
    return 1;
}

/* ---- assignments ---- */

static void define(KernelSema *c, const AstEquation *a, Equation q)
{
    c->equation = a;
    a = sema_pack(c, a);
    if (!a)
        return;
    c->bound = a;
    TensorId id = find_left(c, a, a->lhs);
    q.lhs = id;
    if (c->failed || !bind_left(c, a, a->lhs, id == NONE ? NULL : c->k->tensors.at[id].axes) ||
        !bind_right(c, a->rhs) || !bind_end(c) || !build_left(c, &q, a->lhs))
        return;
    ExprId value = build_value(c, a->rhs);
    if (value == NONE)
        return;
    if (id == NONE)
        q.lhs = new_local_of(c, a->lhs, &q, a->rhs, value);
    q.rhs = build_store(c, a->rhs, value, a->lhs->name.name, c->k->tensors.at[q.lhs].elem);
    if (q.rhs != NONE && own_reads_ok(c, &q, a->rhs->loc) && note(c, &q, q.lhs, a->lhs))
        vec_push(c->m->arena, &c->k->eqs, q);
}

/* ---- top ---- */

static int same_subscripts(const AstLhs *a, const AstLhs *b)
{
    if (subscript_count(a) != subscript_count(b) || subscript_count(a) == 0)
        return 0;
    for (uint32_t i = 0; i < subscript_count(a); i++) {
        const AstExpr *x = a->subscripts->list.at[i].value, *y = b->subscripts->list.at[i].value;
        if (x->kind != AST_NAME || y->kind != AST_NAME || x->name.name != y->name.name)
            return 0;
    }
    return 1;
}

static void bind_second_left(KernelSema *c, const AstLhs *lhs, TensorId id)
{
    for (uint32_t i = 0; i < subscript_count(lhs) && !c->failed; i++) {
        const AstSubscript *s = &lhs->subscripts->list.at[i];
        uint32_t var = 0;
        if (var_find(c, s->value->name.name, &var) && id != NONE)
            bind_axis(c, var, c->k->tensors.at[id].axes[i], s->value->loc, lhs->name.name);
        if (s->extent)
            bind_extent(c, var, s->extent);
    }
}

static int bind_top(KernelSema *c, const AstEquation *a, TensorId p, TensorId id, AstBind *bound)
{
    if (!same_subscripts(a->lhs, a->ids_lhs) || a->lhs->name.name == a->ids_lhs->name.name)
        return sema_error(c, DIAG_top_shape, a->ids_lhs->loc, "give both left-hand sides the same indices",
                          "%s and %s must be two tensors with the same indices", a->lhs->name.name,
                          a->ids_lhs->name.name) != NONE;
    if (!bind_left(c, a, a->lhs, p == NONE ? NULL : c->k->tensors.at[p].axes))
        return 0;
    bind_second_left(c, a->ids_lhs, id);
    if (c->failed || !bind_one(c, bound))
        return 0;
    c->vars.at[bound->var].term = a->rhs;
    scope_push(c, bound->var);
    return bind_right(c, a->rhs) && bind_end(c);
}

/* The values found among integers: a local of 64 bits, which the program names only where p is no parameter. */
static TensorId integers_found(KernelSema *c, const AstEquation *a, const Equation *q, TensorId p)
{
    if (p == NONE)
        return new_local(c, a->lhs, q, EL_I64);
    const char *stem = arena_printf(c->m->arena, "%s_top", a->lhs->name.name);
    AstName name = {.loc = a->lhs->name.loc, .name = ir_fresh_name(c->k, stem)};
    while (sema_ahead(c, name.name))
        name.name = ir_fresh_name(c->k, stem = arena_printf(c->m->arena, "%s_", stem));
    written_add(c, (Written){.first = q->loc, .equations = 1});
    return add_local(c, name, q, EL_I64);
}

/* p gets the integers of `top` as any other value. */
static void store_integers(KernelSema *c, const AstEquation *a, const Equation *top, TensorId p)
{
    Equation q = *top;
    q.kind = EQ_ASSIGN;
    q.lhs = p;
    q.ids = q.bound = NONE;
    q.rhs = build_store(c, a->rhs, x_load(c->k, q.loc, top->lhs, q.index), a->lhs->name.name,
                        c->k->tensors.at[p].elem);
    if (q.rhs != NONE && note(c, &q, p, a->lhs))
        vec_push(c->m->arena, &c->k->eqs, q);
}

static void define_top(KernelSema *c, const AstEquation *a, Equation q)
{
    TensorId p = find_left(c, a, a->lhs), id = c->failed ? (TensorId)NONE : find_left(c, a, a->ids_lhs);
    AstBind bound = a->bound;
    c->bound = a;
    q.lhs = p;
    if (c->failed || !bind_top(c, a, p, id, &bound) || !build_left(c, &q, a->lhs))
        return;
    ExprId value = build_value(c, a->rhs), k = q.index[q.nindex - 1];
    if (value == NONE)
        return;
    if (bound.in || x_uses_index(c->k, value, x_at(c->k, k)->sym)) {
        sema_error(c, DIAG_top_shape, a->rhs->loc, "use the last index on the left only",
                   "the index %s counts the results, so the values cannot depend on it", sema_text(c, k));
        return;
    }
    int ints = expr_type(c, value) == TY_INT, moved = ints && p != NONE;
    q.bound = c->vars.at[bound.var].id;
    q.lhs = ints ? integers_found(c, a, &q, p) : p != NONE ? p : new_local_of(c, a->lhs, &q, a->rhs, value);
    q.ids = id != NONE ? id : new_local(c, a->ids_lhs, &q, EL_I32);
    if (c->k->tensors.at[q.ids].elem != EL_I32)
        sema_error(c, DIAG_float_to_int, a->ids_lhs->loc, "declare it as i32",
                   "%s holds places, so its type is i32", a->ids_lhs->name.name);
    if (c->k->tensors.at[q.lhs].both)
        sema_error(c, DIAG_packed, a->lhs->loc, "define a local by top, and this parameter from the local",
                   "%s is `packed both`, which top does not write", a->lhs->name.name);
    q.rhs = c->failed ? (ExprId)NONE
                      : build_store(c, a->rhs, value, a->lhs->name.name, c->k->tensors.at[q.lhs].elem);
    if (q.rhs == NONE || !(moved || note(c, &q, q.lhs, a->lhs)) || !note(c, &q, q.ids, a->ids_lhs))
        return;
    vec_push(c->m->arena, &c->k->eqs, q);
    if (moved)
        store_integers(c, a, &q, p);
}

/* ---- after a mistake ---- */

static void poison(KernelSema *c, const AstLhs *lhs)
{
    uint32_t id;
    if (!lhs)
        return;
    if (symbol_get(c, lhs->name.name, SYMBOL_TENSOR, &id)) {
        /* an `in` was never at stake, and what other equations define stays defined */
        c->written.at[id].poisoned |= c->k->tensors.at[id].role != ROLE_IN;
        return;
    }
    namemap_set(&c->poison, lhs->name.name, 1);
}

void sema_equation(KernelSema *c, const AstEquation *a)
{
    start(c);
    Equation q = ir_equation(a->kind, a->lhs->loc);
    switch (a->kind) {
    case EQ_ASSIGN:
    case EQ_ADD: define(c, a, q); break;
    case EQ_TOP: define_top(c, a, q); break;
    case EQ_ROUTE: sema_route_equation(c, a); break;
    case EQ_CHECK: BUG(c->m->arena, "a check was parsed in kernel %s", c->k->name);
    }
    if (c->failed) {
        poison(c, a->lhs);
        poison(c, a->ids_lhs);
    }
}
