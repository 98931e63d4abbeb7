/* Note [Placements] of place.h, equation by equation. */
#include "ir/placer.h"

enum { UNSET = -4 };

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
    Target to = {PLACE_WHOLE, 0, {.kind = V_WHOLE}};
    for (int i = 0; i < q->nindex && !p->error; i++) {
        const Joint s = place_value(p, q->index[i]);
        to.varies = place_subscript(p, to.varies, t->axes[i], s);
        if (place_is_along(p, t->axes[i].extent) && to.axis != PLACE_WHOLE)
            REFUSE_EQUATION(p, "two of its axes are along %s", p->along);
        if (place_is_along(p, t->axes[i].extent))
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
    place_joined(p, to.varies, value);
    return to.axis == PLACE_WHOLE ? PLACE_SUM : to.axis;
}

static void place_route(Placer *p, const Equation *q)
{
    const Group *g = &p->k->module->groups.at[p->k->routes.at[q->route].group];
    const int ids = p->tensors[q->ids];
    p->lhs = p->k->routes.at[q->route].name;
    if (ids > 0 || ids == PLACE_SUM || place_is_along(p, g->groups) ||
        (ids == 0 && !place_is_along(p, g->rows)))
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
    Joint value = place_value(p, q->rhs);
    if (q->kind == EQ_TOP && place_index_is_along(p, q->bound))
        REFUSE_EQUATION(p, "it is a top over %s", p->along);
    const IndexId rank = q->kind == EQ_TOP ? x_plain_index(p->k, q->index[q->nindex - 1]) : (IndexId)NONE;
    if (rank != NONE && place_index_is_along(p, rank))
        REFUSE_EQUATION(p, "it takes as many as %s, of which each process has a part", p->along);
    if (q->kind == EQ_TOP)
        value = place_joined(p, value, (Joint){.kind = V_WHOLE});
    const int place = p->error ? PLACE_WHOLE : place_of(p, q, value);
    set_tensor(p, q->lhs, place);
    if (q->kind == EQ_TOP)
        set_tensor(p, q->ids, place);
}

/* ---- parameters ---- */

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
        if (place_is_along(p, param_extent(p, param, axis)) && place != axis)
            REFUSE(p, "`%s` is %s, but its axis %d is along %s, of which each process has a part",
                   param_name(p, param), place_words(p, place), axis, p->along);
    if (place >= 0 && !p->error && !place_is_along(p, param_extent(p, param, place)))
        REFUSE(p, "`%s` is in parts of axis %d, which is no dimension%s%s", param_name(p, param), place,
               p->along ? " and not along " : "", p->along ? p->along : "");
}

static void check_axis(Placer *p, Name what, Axis axis)
{
    Text extent = {.arena = p->a};
    if (!place_is_along(p, axis.extent) || is_proportional(p, axis.extent))
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
