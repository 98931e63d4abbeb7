/* Note [Placements] of place.h, equation by equation. */
#include "ir/place.h"

#include "ir/expr.h"

#include <string.h>

enum { UNSET = -4 };

/* What the processes together hold of an expression's value, at one assignment of the index variables. */
typedef struct Joint {
    enum { V_WHOLE, V_SUM, V_PART, V_NUMBER, V_SAME } kind;
    IndexId along; /* of V_PART, V_NUMBER and V_SAME: the index variable along D that it varies with */
    IndexId
        other; /* of V_SAME: a condition that holds only where `along` and `other` are about one element, so of one process */
    Axis
        space; /* of V_NUMBER: it counts this process's elements of that axis, from 0, so it is a subscript only */
} Joint;

typedef struct Placer {
    const Kernel *k;
    Arena *a;
    uint8_t *cut;      /* by DimId: a dimension that something is in parts along */
    const char *along; /* those, for messages; NULL: there is none */
    int *tensors;      /* by TensorId: a place */
    int *routes;       /* by RouteId: 0 or PLACE_WHOLE */
    Joint *values;     /* by ExprId */
    uint8_t *needed;   /* by ExprId: the equation has it, and its value is not known yet */
    uint8_t *known;
    Name lhs; /* of the equation that is looked at */
    const char *error;
} Placer;

static const Joint whole = {.kind = V_WHOLE};
static const Joint partial = {.kind = V_SUM};
static Joint part(IndexId along) { return (Joint){.kind = V_PART, .along = along}; }
static Joint number(IndexId along, Axis space)
{
    return (Joint){.kind = V_NUMBER, .along = along, .space = space};
}

#define REFUSE(p, ...) ((p)->error = (p)->error ? (p)->error : arena_printf((p)->a, __VA_ARGS__))
#define REFUSE_EQUATION(p, ...) REFUSE(p, "equation of `%s`: %s", (p)->lhs, arena_printf((p)->a, __VA_ARGS__))

/* ---- extents ---- */

static int mentions_cut(const Placer *p, Extent e)
{
    const ExtentForm *form = &p->k->module->extents.at[e];
    for (uint32_t i = 0; i < form->nterms; i++)
        for (uint32_t j = 0; j < form->terms[i].ndims; j++)
            if (p->cut[form->terms[i].dims[j]])
                return 1;
    return 0;
}

/* The dimension that an extent is, or NONE. */
static DimId single_dim(const Placer *p, Extent e)
{
    const ExtentForm *form = &p->k->module->extents.at[e];
    const int single = form->nterms == 1 && form->terms[0].coef == 1 && form->terms[0].ndims == 1;
    return single ? form->terms[0].dims[0] : (DimId)NONE;
}

/* Do parts of D make parts of the extent? Not of `D + 1` or `D * D`. */
static int is_proportional(const Placer *p, Extent e)
{
    const ExtentForm *form = &p->k->module->extents.at[e];
    for (uint32_t i = 0; i < form->nterms; i++) {
        uint32_t times = 0;
        for (uint32_t j = 0; j < form->terms[i].ndims; j++)
            times += p->cut[form->terms[i].dims[j]];
        if (times != 1)
            return 0;
    }
    return 1;
}

static int is_along_cut(const Placer *p, IndexId i)
{
    return mentions_cut(p, p->k->indices.at[i].axis.extent);
}

/* ---- expressions ---- */

static const char *const kind_words[] = {[V_WHOLE] = "a whole value",
                                         [V_SUM] = "a partial sum",
                                         [V_PART] = "a part",
                                         [V_NUMBER] = "a number",
                                         [V_SAME] = "a condition"};

/* Of a function of both that is not linear. */
static Joint joined(Placer *p, Joint a, Joint b)
{
    if (a.kind >= V_NUMBER || b.kind >= V_NUMBER)
        REFUSE_EQUATION(p, "it depends on the number of an element along %s", p->along);
    else if (a.kind == V_SUM || b.kind == V_SUM)
        REFUSE_EQUATION(p, "it is not linear in a partial sum");
    else if (a.kind == V_PART && b.kind == V_PART && a.along != b.along)
        REFUSE_EQUATION(p, "it combines different elements along %s", p->along);
    return a.kind == V_PART ? a : b;
}

static int is_zero(const Placer *p, ExprId e)
{
    const Expr *x = x_at(p->k, e);
    return (x->kind == X_FLOAT && x->value.f == 0) || (x->kind == X_INT && x->value.i == 0);
}

/* Of the sum or difference of both, or of one or the other. */
static Joint added(Placer *p, ExprId a, ExprId b)
{
    const Joint x = p->values[a], y = p->values[b];
    if ((x.kind == V_SUM && (y.kind == V_SUM || is_zero(p, b))) || (y.kind == V_SUM && is_zero(p, a)))
        return partial;
    if ((x.kind == V_SUM || y.kind == V_SUM) && x.kind < V_NUMBER && y.kind < V_NUMBER)
        REFUSE_EQUATION(p, "it adds %s to %s", kind_words[x.kind], kind_words[y.kind]);
    return joined(p, x, y);
}

/* Is the comparison `row >= 0` or `row < 0`, which asks whether there is a row? */
static int asks_for_row(const Placer *p, const Expr *x, const ExprId *args)
{
    return (x->op == OP_ge || x->op == OP_lt) && x_at(p->k, args[0])->kind == X_ROW && is_zero(p, args[1]);
}

/* Of `a == b`, where both count elements of one axis. */
static int asks_for_same(const Placer *p, const Expr *x, Joint a, Joint b)
{
    return x->op == OP_eq && a.kind == V_NUMBER && b.kind == V_NUMBER && a.along != b.along &&
           axis_same(p->k->module, a.space, b.space);
}

/* Of a V_SAME and another conjunct or what is reduced under it. */
static Joint narrowed(Placer *p, Joint same, Joint other)
{
    if (other.kind == V_WHOLE ||
        (other.kind == V_PART && (other.along == same.along || other.along == same.other)))
        return same;
    return joined(p, same, other);
}

/* Of one operand, or of the first one: a cast rounds each process's term. */
static int is_linear(ScalarOp op)
{
    return op == OP_mul || op == OP_div || op == OP_neg || op == OP_stop || op == OP_f32 || op == OP_bf16 ||
           op == OP_f16;
}

static Joint value_of_op(Placer *p, const Expr *x)
{
    const ExprId *args = &p->k->links.at[x->args];
    const Joint a = p->values[args[0]], b = x->nargs > 1 ? p->values[args[1]] : whole;
    if (x->op == OP_add || x->op == OP_sub)
        return added(p, args[0], args[1]);
    if (a.kind == V_SUM && b.kind == V_WHOLE && is_linear((ScalarOp)x->op))
        return a;
    if (a.kind == V_WHOLE && b.kind == V_SUM && x->op == OP_mul)
        return b;
    if (a.kind == V_NUMBER && asks_for_row(p, x, args))
        return part(a.along);
    if (asks_for_same(p, x, a, b))
        return (Joint){.kind = V_SAME, .along = a.along, .other = b.along};
    if (x->op == OP_and && (a.kind == V_SAME || b.kind == V_SAME))
        return a.kind == V_SAME ? narrowed(p, a, b) : narrowed(p, b, a);
    return joined(p, a, b);
}

/* Subscript s of an axis: joins what the access varies with. */
static Joint subscript(Placer *p, Joint access, Axis axis, Joint s)
{
    const int along = mentions_cut(p, axis.extent);
    if (!along)
        return s.kind == V_WHOLE ? access : joined(p, access, s);
    if (s.kind != V_NUMBER || !axis_same(p->k->module, s.space, axis))
        REFUSE_EQUATION(p, "it reads an element along %s that another process may have", p->along);
    return joined(p, access, part(s.along));
}

static Joint value_of_load(Placer *p, const Expr *x)
{
    const Tensor *t = &p->k->tensors.at[x->sym];
    Joint access = whole;
    if (p->tensors[x->sym] == PLACE_ANY)
        REFUSE_EQUATION(p, "it reads `%s`, whose placement is not given", t->name);
    for (int i = 0; i < t->rank; i++)
        access = subscript(p, access, t->axes[i], p->values[p->k->links.at[x->args + (uint32_t)i]]);
    return p->tensors[x->sym] == PLACE_SUM ? (access.kind == V_WHOLE ? partial : joined(p, partial, access))
                                           : access;
}

static Joint value_of_if(Placer *p, const Expr *x)
{
    const ExprId *args = &p->k->links.at[x->args];
    const Joint sides = added(p, args[1], args[2]), condition = p->values[args[0]];
    return sides.kind == V_SUM && condition.kind == V_WHOLE ? sides : joined(p, sides, condition);
}

/* The bound variable along D, or NONE. */
static IndexId bound_along(Placer *p, ExprId e)
{
    IndexId found = NONE;
    for (uint32_t n = 0; n < x_at(p->k, e)->nbound; n++)
        if (is_along_cut(p, x_bound(p->k, e, n))) {
            if (found != NONE)
                REFUSE_EQUATION(p, "it reduces twice over %s", p->along);
            found = x_bound(p->k, e, n);
        }
    return found;
}

/* Of terms that each process reduces over its part. */
static Joint reduced(Placer *p, const Expr *x, IndexId bound, Joint term)
{
    if (x->op != RED_SUM)
        REFUSE_EQUATION(p, "it is a maximum or minimum over %s", p->along);
    if (term.kind == V_SUM || (term.kind == V_PART && term.along != bound))
        REFUSE_EQUATION(p, "it sums %s over %s", kind_words[term.kind], p->along);
    return partial;
}

static Joint value_of_reduce(Placer *p, ExprId e)
{
    const Expr *x = x_at(p->k, e);
    const ExprId condition = x_condition(p->k, e);
    const IndexId bound = bound_along(p, e);
    const Joint body = p->values[x_arg(p->k, e, 0)], asked = condition == NONE ? whole : p->values[condition];
    if (asked.kind == V_SAME && (asked.along == bound || asked.other == bound)) {
        narrowed(p, asked, body);
        return part(asked.along == bound ? asked.other : asked.along);
    }
    const int linear = x->op == RED_SUM && body.kind == V_SUM && asked.kind == V_WHOLE;
    const Joint term = linear ? body : joined(p, body, asked);
    return bound == NONE ? term : reduced(p, x, bound, term);
}

/* The token or the slot of a row, the row of a token, the group of a row: what of them other processes know too. */
static Joint value_of_route(Placer *p, const Expr *x)
{
    const Route *r = &p->k->routes.at[x->sym];
    const Joint of = p->values[p->k->links.at[x->args]];
    const Joint slot = x->kind == X_ROW ? p->values[p->k->links.at[x->args + 1]] : whole;
    if (p->routes[x->sym] == PLACE_WHOLE)
        return joined(p, of, slot);
    if (of.kind != V_NUMBER || slot.kind == V_NUMBER)
        REFUSE_EQUATION(p, "it reads route `%s` at a place that another process may have", r->name);
    const Axis tokens = {r->tokens, NONE}, rows = {p->k->module->groups.at[r->group].rows, r->group};
    if (x->kind == X_TOKEN || x->kind == X_ROW)
        return number(of.along, x->kind == X_TOKEN ? tokens : rows);
    return part(of.along);
}

static Joint value_of(Placer *p, ExprId e)
{
    const Expr *x = x_at(p->k, e);
    switch ((ExprKind)x->kind) {
    case X_EXTENT:
        if (mentions_cut(p, x->sym))
            REFUSE_EQUATION(p, "it uses %s as a number, of which each process has a part", p->along);
        return whole;
    case X_INDEX:
        if (is_along_cut(p, x->sym))
            return number(x->sym, p->k->indices.at[x->sym].axis);
        return whole;
    case X_OP: return value_of_op(p, x);
    case X_LOAD: return value_of_load(p, x);
    case X_IF: return value_of_if(p, x);
    case X_REDUCE: return value_of_reduce(p, e);
    case X_TOKEN:
    case X_SLOT:
    case X_ROW:
    case X_GROUP: return value_of_route(p, x);
    case X_FLOAT:
    case X_INT:
    case X_LANES:
    case X_THREADS: break;
    }
    return whole;
}

/* A node is made after its arguments, so its number is above theirs. */
static Joint evaluate(Placer *p, ExprId root)
{
    p->needed[root] = 1;
    for (ExprId e = root + 1; e-- > 0;)
        for (uint32_t i = 0; p->needed[e] && i < x_at(p->k, e)->nargs; i++)
            p->needed[x_arg(p->k, e, i)] = 1;
    for (ExprId e = 0; e <= root && !p->error; e++) {
        if (p->needed[e] && !p->known[e])
            p->values[e] = value_of(p, e), p->known[e] = 1;
        p->needed[e] = 0;
    }
    return p->values[root];
}

/* ---- equations ---- */

static const char *place_words(const Placer *p, int place)
{
    return place == PLACE_SUM     ? "a partial sum"
           : place == PLACE_WHOLE ? "whole"
                                  : arena_printf(p->a, "in parts of axis %d", place);
}

static void set_tensor(Placer *p, TensorId t, int place)
{
    int *known = &p->tensors[t];
    if (*known != UNSET && *known != PLACE_ANY && *known != place)
        REFUSE_EQUATION(p, "the tensor is %s, the value %s", place_words(p, *known), place_words(p, place));
    *known = place;
}

/* Where the left-hand side puts its elements. */
typedef struct Target {
    int axis;      /* the one along D, or PLACE_WHOLE */
    int scattered; /* a subscript is computed of a part: several processes may add to one element */
    Joint varies;  /* what the subscripts vary with */
} Target;

static Target target_of(Placer *p, const Equation *q)
{
    const Tensor *t = &p->k->tensors.at[q->lhs];
    Target to = {PLACE_WHOLE, 0, whole};
    for (int i = 0; i < q->nindex && !p->error; i++) {
        const Joint s = evaluate(p, q->index[i]);
        to.varies = subscript(p, to.varies, t->axes[i], s);
        if (mentions_cut(p, t->axes[i].extent) && to.axis != PLACE_WHOLE)
            REFUSE_EQUATION(p, "two of its axes are along %s", p->along);
        if (mentions_cut(p, t->axes[i].extent))
            to.axis = i;
        else
            to.scattered |= s.kind == V_PART;
    }
    return to;
}

static int place_of(Placer *p, const Equation *q, Joint value)
{
    const Target to = target_of(p, q);
    if (to.axis == PLACE_WHOLE && !to.scattered && value.kind != V_PART && value.kind != V_NUMBER)
        return value.kind == V_SUM ? PLACE_SUM : PLACE_WHOLE;
    if (to.axis == PLACE_WHOLE && !to.scattered)
        REFUSE_EQUATION(p, "it writes an element for each along %s into one", p->along);
    joined(p, to.varies, value);
    return to.axis == PLACE_WHOLE ? PLACE_SUM : to.axis;
}

static void place_route(Placer *p, const Equation *q)
{
    const Group *g = &p->k->module->groups.at[p->k->routes.at[q->route].group];
    const int ids = p->tensors[q->ids];
    p->lhs = p->k->routes.at[q->route].name;
    if (ids > 0 || ids == PLACE_SUM || mentions_cut(p, g->groups) || (ids == 0 && !mentions_cut(p, g->rows)))
        REFUSE_EQUATION(p, "a route in parts has parts of its tokens, and rows for them");
    p->routes[q->route] = ids;
}

static void place_equation(Placer *p, const Equation *q)
{
    if (q->kind == EQ_ROUTE) {
        place_route(p, q);
        return;
    }
    p->lhs = p->k->tensors.at[q->lhs].name;
    Joint value = evaluate(p, q->rhs);
    if (q->kind == EQ_TOP && is_along_cut(p, q->bound))
        REFUSE_EQUATION(p, "it is a top over %s", p->along);
    const IndexId rank = q->kind == EQ_TOP ? x_plain_index(p->k, q->index[q->nindex - 1]) : (IndexId)NONE;
    if (rank != NONE && is_along_cut(p, rank))
        REFUSE_EQUATION(p, "it takes as many as %s, of which each process has a part", p->along);
    if (q->kind == EQ_TOP)
        value = joined(p, value, whole);
    const int place = p->error ? PLACE_WHOLE : place_of(p, q, value);
    set_tensor(p, q->lhs, place);
    if (q->kind == EQ_TOP)
        set_tensor(p, q->ids, place);
}

/* ---- parameters ---- */

static int *state_of(Placer *p, Param param)
{
    return param.kind == PARAM_ROUTE ? &p->routes[param.id] : &p->tensors[param.id];
}

static Name param_name(const Placer *p, Param param)
{
    return param.kind == PARAM_ROUTE ? p->k->routes.at[param.id].name : p->k->tensors.at[param.id].name;
}

static int param_rank(const Placer *p, Param param)
{
    return param.kind == PARAM_ROUTE ? 1 : p->k->tensors.at[param.id].rank;
}

static Extent param_extent(const Placer *p, Param param, int axis)
{
    return param.kind == PARAM_ROUTE ? p->k->routes.at[param.id].tokens
                                     : p->k->tensors.at[param.id].axes[axis].extent;
}

static Role param_role(const Placer *p, Param param)
{
    return param.kind == PARAM_ROUTE ? p->k->routes.at[param.id].role : p->k->tensors.at[param.id].role;
}

/* Takes the dimension that a parameter is in parts along. */
static void add_cut(Placer *p, Param param, int axis)
{
    if (axis >= param_rank(p, param)) {
        REFUSE(p, "`%s` has no axis %d to be in parts of", param_name(p, param), axis);
        return;
    }
    const DimId dim = single_dim(p, param_extent(p, param, axis));
    if (dim == NONE || p->cut[dim])
        return; /* the rows of a route: check_param() */
    const Name name = p->k->module->dims.at[dim].name;
    p->cut[dim] = 1;
    p->along = p->along ? arena_printf(p->a, "%s, %s", p->along, name) : name;
}

/* All axes along D are in parts, and no others. */
static void check_param(Placer *p, Param param, int place)
{
    for (int axis = 0; axis < param_rank(p, param) && !p->error; axis++)
        if (mentions_cut(p, param_extent(p, param, axis)) && place != axis)
            REFUSE(p, "`%s` is %s, but its axis %d is along %s, of which each process has a part",
                   param_name(p, param), place_words(p, place), axis, p->along);
    if (place >= 0 && !p->error && !mentions_cut(p, param_extent(p, param, place)))
        REFUSE(p, "`%s` is in parts of axis %d, which is no dimension%s%s", param_name(p, param), place,
               p->along ? " and not along " : "", p->along ? p->along : "");
}

static void check_axis(Placer *p, Name what, Axis axis)
{
    Text extent = {.arena = p->a};
    if (!mentions_cut(p, axis.extent) || is_proportional(p, axis.extent))
        return;
    ext_print(p->k->module, axis.extent, &extent);
    REFUSE(p, "`%s` goes over %s, which parts along %s do not divide", what, text_string(&extent), p->along);
}

static void check_axes(Placer *p)
{
    for (uint32_t i = 0; i < p->k->indices.len; i++)
        check_axis(p, p->k->indices.at[i].name, p->k->indices.at[i].axis);
    for (uint32_t t = 0; t < p->k->tensors.len; t++)
        for (int i = 0; i < p->k->tensors.at[t].rank; i++)
            check_axis(p, p->k->tensors.at[t].name, p->k->tensors.at[t].axes[i]);
}

static void place_params(Placer *p, const int *places)
{
    for (uint32_t i = 0; i < p->k->params.len; i++)
        if (param_role(p, p->k->params.at[i]) != ROLE_OUT && places[i] >= 0)
            add_cut(p, p->k->params.at[i], places[i]);
    for (uint32_t i = 0; i < p->k->params.len && !p->error; i++) {
        const Param param = p->k->params.at[i];
        if (param_role(p, param) == ROLE_OUT)
            continue;
        if (places[i] < PLACE_ANY || (places[i] == PLACE_ANY && param_role(p, param) != ROLE_INOUT) ||
            (places[i] == PLACE_SUM && param.kind == PARAM_ROUTE))
            REFUSE(p, "`%s` has no such place as %d", param_name(p, param), places[i]);
        if (places[i] != PLACE_ANY)
            check_param(p, param, places[i]);
        *state_of(p, param) = places[i];
    }
}

const char *ir_place(const Kernel *k, int *places, Arena *a)
{
    Placer p = {.k = k, .a = a};
    p.cut = arena_array(a, uint8_t, k->module->dims.len + 1);
    p.tensors = arena_array(a, int, k->tensors.len + 1);
    p.routes = arena_array(a, int, k->routes.len + 1);
    p.values = arena_array(a, Joint, k->exprs.len + 1);
    p.needed = arena_array(a, uint8_t, k->exprs.len + 1);
    p.known = arena_array(a, uint8_t, k->exprs.len + 1);
    for (uint32_t t = 0; t < k->tensors.len; t++)
        p.tensors[t] = UNSET;
    for (uint32_t r = 0; r < k->routes.len; r++)
        p.routes[r] = PLACE_WHOLE;
    place_params(&p, places);
    check_axes(&p);
    for (uint32_t i = 0; i < k->eqs.len && !p.error; i++)
        place_equation(&p, &k->eqs.at[i]);
    for (uint32_t i = 0; i < k->params.len && !p.error; i++)
        places[i] = *state_of(&p, k->params.at[i]);
    return p.error;
}
