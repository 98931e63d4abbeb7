/* What an expression is, where each process has a part: Note [Placements] of place.h. */
#include "ir/placer.h"

static const Joint whole = {.kind = V_WHOLE};
static const Joint partial = {.kind = V_SUM};
static Joint part(IndexId along) { return (Joint){.kind = V_PART, .along = along}; }
static Joint number(IndexId along, Axis space)
{
    return (Joint){.kind = V_NUMBER, .along = along, .space = space};
}

int place_is_along(const Placer *p, Extent e)
{
    const ExtentForm *form = &p->k->module->extents.at[e];
    for (uint32_t i = 0; i < form->nterms; i++)
        for (uint32_t j = 0; j < form->terms[i].ndims; j++)
            if (p->cut[form->terms[i].dims[j]])
                return 1;
    return 0;
}

int place_index_is_along(const Placer *p, IndexId i)
{
    return place_is_along(p, p->k->indices.at[i].axis.extent);
}

static const char *const kind_words[] = {[V_WHOLE] = "a whole value",
                                         [V_SUM] = "a partial sum",
                                         [V_PART] = "a part",
                                         [V_NUMBER] = "a number",
                                         [V_SAME] = "a condition"};

Joint place_joined(Placer *p, Joint a, Joint b)
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
    return place_joined(p, x, y);
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
    return place_joined(p, same, other);
}

/* Of one operand, or of the first one: a cast rounds each process's term. */
static int is_linear(ScalarOp op)
{
    return op == OP_mul || op == OP_div || op == OP_neg || op == OP_stop || op == OP_shift || op == OP_f32 ||
           op == OP_bf16 || op == OP_f16;
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
    return place_joined(p, a, b);
}

Joint place_subscript(Placer *p, Joint access, Axis axis, Joint s)
{
    const int along = place_is_along(p, axis.extent);
    if (!along)
        return s.kind == V_WHOLE ? access : place_joined(p, access, s);
    if (s.kind != V_NUMBER || !axis_same(p->k->module, s.space, axis))
        REFUSE_EQUATION(p, "it reads an element along %s that another process may have", p->along);
    return place_joined(p, access, part(s.along));
}

static Joint value_of_load(Placer *p, const Expr *x)
{
    const Tensor *t = &p->k->tensors.at[x->sym];
    Joint access = whole;
    if (p->tensors[x->sym] == PLACE_ANY)
        REFUSE_EQUATION(p, "it reads `%s`, whose placement is not given", t->name);
    for (int i = 0; i < t->rank; i++)
        access = place_subscript(p, access, t->axes[i], p->values[p->k->links.at[x->args + (uint32_t)i]]);
    return p->tensors[x->sym] == PLACE_SUM
               ? (access.kind == V_WHOLE ? partial : place_joined(p, partial, access))
               : access;
}

static Joint value_of_if(Placer *p, const Expr *x)
{
    const ExprId *args = &p->k->links.at[x->args];
    const Joint sides = added(p, args[1], args[2]), condition = p->values[args[0]];
    return sides.kind == V_SUM && condition.kind == V_WHOLE ? sides : place_joined(p, sides, condition);
}

/* The bound variable along D, or NONE. */
static IndexId bound_along(Placer *p, ExprId e)
{
    IndexId found = NONE;
    for (uint32_t n = 0; n < x_at(p->k, e)->nbound; n++)
        if (place_index_is_along(p, x_bound(p->k, e, n))) {
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
    const Joint term = linear ? body : place_joined(p, body, asked);
    return bound == NONE ? term : reduced(p, x, bound, term);
}

/* The token or the slot of a row, the row of a token, the group of a row: what of them other processes know too. */
static Joint value_of_route(Placer *p, const Expr *x)
{
    const Route *r = &p->k->routes.at[x->sym];
    const Joint of = p->values[p->k->links.at[x->args]];
    const Joint slot = x->kind == X_ROW ? p->values[p->k->links.at[x->args + 1]] : whole;
    if (p->routes[x->sym] == PLACE_WHOLE)
        return place_joined(p, of, slot);
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
        if (place_is_along(p, x->sym))
            REFUSE_EQUATION(p, "it uses %s as a number, of which each process has a part", p->along);
        return whole;
    case X_INDEX:
        if (place_index_is_along(p, x->sym))
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
Joint place_value(Placer *p, ExprId root)
{
    p->needed[root] = 1;
    for (ExprId e = root + 1; e-- > 0;)
        for (uint32_t i = 0; p->needed[e] && i < x_at(p->k, e)->nargs; i++) {
            if (x_arg(p->k, e, i) >= e)
                BUG(p->a, "node %u of kernel %s is older than an argument of it", e, p->k->name);
            p->needed[x_arg(p->k, e, i)] = 1;
        }
    for (ExprId e = 0; e <= root && !p->error; e++) {
        if (p->needed[e] && !p->known[e])
            p->values[e] = value_of(p, e), p->known[e] = 1;
        p->needed[e] = 0;
    }
    return p->values[root];
}
