/* The verifier's half for expressions. Nodes are shared, so each is checked once, operands first; what
 * depends on the equation (bound indices, definitions before it) is checked for each equation in one sweep.
 */
#include "ir/verify.h"

#include <string.h>

/* ---- nodes ---- */

static Type type_at(const Verifier *v, ExprId e) { return (Type)x_at(v->k, e)->type; }

static int index_ok(Verifier *v, ExprId e)
{
    REQUIRE(v, e, x_at(v->k, e)->sym < v->k->indices.len, "an index has no id");
    return 1;
}

static int op_type_ok(Verifier *v, ExprId e)
{
    const Expr *x = x_at(v->k, e);
    const ScalarRow *row = &scalar_table[x->op];
    int ints = 1, floats = 1;
    for (uint32_t i = 0; i < x->nargs; i++) {
        Type t = type_at(v, x_arg(v->k, e, i));
        REQUIRE(v, e, (t == TY_BOOL) == (row->kind == SK_LOGIC), "%s on a value of type %s", row->name,
                type_name(t));
        REQUIRE(v, e, row->kind != SK_INDEX || t == TY_INT, "%s on a value of type %s", row->name,
                type_name(t));
        ints &= t == TY_INT;
        floats &= t != TY_INT;
    }
    REQUIRE(v, e, row->kind != SK_COMPARE || ints || floats, "%s of an integer and a float", row->name);
    Type want = TY_F32;
    switch (row->kind) {
    case SK_ARITH: want = ints ? TY_INT : TY_F32; break;
    case SK_FLOAT: break;
    case SK_COMPARE:
    case SK_LOGIC: want = TY_BOOL; break;
    case SK_CAST:
        want = x->op == OP_bf16 ? TY_BF16 : x->op == OP_f16 ? TY_F16 : x->op == OP_i32 ? TY_INT : TY_F32;
        break;
    case SK_SAME: want = type_at(v, x_arg(v->k, e, 0)); break;
    case SK_INDEX: want = TY_INT; break;
    }
    REQUIRE(v, e, x->type == want, "%s has type %s, not %s", row->name, type_name((Type)x->type),
            type_name(want));
    return 1;
}

static int op_ok(Verifier *v, ExprId e)
{
    const Expr *x = x_at(v->k, e);
    REQUIRE(v, e, x->op < OP_COUNT, "an operation that is not in the table");
    REQUIRE(v, e, x->nargs == scalar_table[x->op].arity, "%s with %u operands", scalar_table[x->op].name,
            x->nargs);
    return op_type_ok(v, e);
}

/* A plain index variable as subscript runs over the axis itself; everything else is some integer. */
int verify_subscript(Verifier *v, ExprId e, ExprId subscript, Axis axis, const char *of)
{
    const Expr *x = x_at(v->k, subscript);
    REQUIRE(v, e, x->type == TY_INT, "a subscript of %s is of type %s", of, type_name((Type)x->type));
    if (x->kind != X_INDEX || x->sym >= v->k->indices.len)
        return 1;
    const Index *i = &v->k->indices.at[x->sym];
    REQUIRE(v, e, i->axis.group == axis.group, "index %s and the axis of %s are of different row spaces",
            i->name, of);
    REQUIRE(v, e, ext_same(v->m, i->axis.extent, axis.extent), "index %s and the axis of %s differ in extent",
            i->name, of);
    return 1;
}

static int load_ok(Verifier *v, ExprId e)
{
    const Expr *x = x_at(v->k, e);
    REQUIRE(v, e, x->sym < v->k->tensors.len, "an access to no tensor");
    const Tensor *t = &v->k->tensors.at[x->sym];
    REQUIRE(v, e, x->nargs == t->rank, "%s has rank %u but %u subscripts", t->name, t->rank, x->nargs);
    REQUIRE(v, e, x->type == (uint8_t)elem_type(t->elem), "an access to %s has type %s", t->name,
            type_name((Type)x->type));
    for (uint32_t i = 0; i < x->nargs; i++)
        if (!verify_subscript(v, e, x_arg(v->k, e, i), t->axes[i], t->name))
            return 0;
    return 1;
}

static int route_map_ok(Verifier *v, ExprId e)
{
    const Expr *x = x_at(v->k, e);
    REQUIRE(v, e, x->sym < v->k->routes.len, "a map of no route");
    const Route *r = &v->k->routes.at[x->sym];
    REQUIRE(v, e, x->type == TY_INT && x->nargs == (x->kind == X_ROW ? 2 : 1),
            "a map of route %s is not whole", r->name);
    if (x->kind == X_ROW)
        return verify_subscript(v, e, x_arg(v->k, e, 0), (Axis){r->tokens, NONE}, r->name) &&
               verify_subscript(v, e, x_arg(v->k, e, 1), (Axis){r->choices, NONE}, r->name);
    Axis rows = {v->m->groups.at[r->group].rows, r->group};
    return verify_subscript(v, e, x_arg(v->k, e, 0), rows, r->name);
}

static int if_ok(Verifier *v, ExprId e)
{
    Type c = type_at(v, x_arg(v->k, e, 0)), a = type_at(v, x_arg(v->k, e, 1)),
         b = type_at(v, x_arg(v->k, e, 2));
    REQUIRE(v, e, c == TY_BOOL, "the condition of an if has type %s", type_name(c));
    REQUIRE(v, e, a != TY_BOOL && b != TY_BOOL, "an if chooses between conditions");
    REQUIRE(v, e, x_at(v->k, e)->type == (uint8_t)(a == b ? a : TY_F32), "an if has type %s",
            type_name((Type)x_at(v->k, e)->type));
    return 1;
}

/* A row index visits the rows that its group's one route says exist. */
int verify_rows_known(Verifier *v, ExprId e, IndexId i)
{
    GroupId g = v->k->indices.at[i].axis.group;
    if (g == NONE)
        return 1;
    RouteId r = ir_group_route(v->k, g);
    REQUIRE(v, e, r != NONE, "index %s is over group %s, which has no route", v->k->indices.at[i].name,
            v->m->groups.at[g].name);
    REQUIRE(v, e, v->routed[r], "index %s is over the rows of %s before it is defined",
            v->k->indices.at[i].name, v->k->routes.at[r].name);
    return 1;
}

static int reduce_ok(Verifier *v, ExprId e)
{
    const Expr *x = x_at(v->k, e);
    REQUIRE(v, e, x->op <= RED_MIN && x->nbound > 0 && x->nargs >= 1 && x->nargs <= 2,
            "a reduction is not whole");
    for (uint32_t b = 0; b < x->nbound; b++) {
        IndexId i = x_bound(v->k, e, b);
        REQUIRE(v, e, i < v->k->indices.len, "a reduction binds no index");
        for (uint32_t c = 0; c < b; c++)
            REQUIRE(v, e, x_bound(v->k, e, c) != i, "a reduction binds %s twice", v->k->indices.at[i].name);
        for (uint32_t a = 0; a < x->nargs; a++)
            REQUIRE(v, e, !set_has(v->binds + (size_t)x_arg(v->k, e, a) * v->words, i),
                    "a reduction binds %s, which is bound in it already", v->k->indices.at[i].name);
    }
    Type body = type_at(v, x_arg(v->k, e, 0));
    REQUIRE(v, e, body != TY_BOOL, "a reduction of conditions");
    REQUIRE(v, e, x->type == (body == TY_INT ? TY_INT : TY_F32), "a reduction has type %s",
            type_name((Type)x->type));
    REQUIRE(v, e, x->nargs < 2 || type_at(v, x_arg(v->k, e, 1)) == TY_BOOL, "a `where` is no condition");
    return 1;
}

static int kind_ok(Verifier *v, ExprId e)
{
    const Expr *x = x_at(v->k, e);
    switch ((ExprKind)x->kind) {
    case X_FLOAT:
        REQUIRE(v, e, x->type == TY_F32, "a number has type %s", type_name((Type)x->type));
        return 1;
    case X_INT:
        REQUIRE(v, e, x->type == TY_INT, "an integer has type %s", type_name((Type)x->type));
        return 1;
    case X_EXTENT: return verify_extent(v, x->sym, "an", "expression");
    case X_INDEX: return index_ok(v, e);
    case X_OP: return op_ok(v, e);
    case X_LOAD: return load_ok(v, e);
    case X_IF: return if_ok(v, e);
    case X_REDUCE: return reduce_ok(v, e);
    case X_TOKEN:
    case X_SLOT:
    case X_ROW:
    case X_GROUP: return route_map_ok(v, e);
    case X_LANES:
    case X_THREADS: return verify_broken(v, e, "lanes and threads belong to the tile level");
    }
    return verify_broken(v, e, "an expression of unknown kind %u", x->kind);
}

static int links_ok(Verifier *v, ExprId e)
{
    const Expr *x = x_at(v->k, e);
    REQUIRE(v, e,
            x->nargs <= MAX_RANK + 2 && (uint64_t)x->args + x->nargs <= v->k->links.len &&
                (uint64_t)x->bound + x->nbound <= v->k->links.len,
            "links of an expression are out of range");
    for (uint32_t i = 0; i < x->nargs; i++)
        REQUIRE(v, e, x_arg(v->k, e, i) < e, "an operand is younger than its user");
    return 1;
}

/* Operands are older than their users, so one sweep upwards meets them first. */
static void collect_sets(Verifier *v, ExprId e)
{
    const Expr *x = x_at(v->k, e);
    uint64_t *free = v->free + (size_t)e * v->words, *binds = v->binds + (size_t)e * v->words;
    for (uint32_t i = 0; i < x->nargs; i++)
        for (uint32_t w = 0; w < v->words; w++) {
            free[w] |= v->free[(size_t)x_arg(v->k, e, i) * v->words + w];
            binds[w] |= v->binds[(size_t)x_arg(v->k, e, i) * v->words + w];
        }
    for (uint32_t b = 0; b < x->nbound; b++) {
        IndexId i = x_bound(v->k, e, b);
        free[i / 64] &= ~((uint64_t)1 << (i % 64));
        set_add(binds, i);
    }
    if (x->kind == X_INDEX)
        set_add(free, x->sym);
}

static int mark_root(Verifier *v, ExprId e)
{
    if (e == NONE)
        return 1;
    REQUIRE(v, NONE, e < v->k->exprs.len, "an expression has no id");
    v->reached[e] = 1;
    return 1;
}

static int mark_down(Verifier *v, ExprId from)
{
    for (ExprId e = from; e-- > 0;) {
        if (!v->reached[e])
            continue;
        if (!links_ok(v, e))
            return 0;
        for (uint32_t i = 0; i < x_at(v->k, e)->nargs; i++)
            v->reached[x_arg(v->k, e, i)] = 1;
    }
    return 1;
}

int verify_nodes(Verifier *v)
{
    const Kernel *k = v->k;
    memset(v->reached, 0, k->exprs.len);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        v->eq = &k->eqs.at[i];
        if (v->eq->dead)
            continue;
        REQUIRE(v, NONE, v->eq->nindex <= MAX_RANK, "too many left-hand subscripts");
        for (uint32_t s = 0; s < v->eq->nindex; s++)
            REQUIRE(v, NONE, v->eq->index[s] != NONE && mark_root(v, v->eq->index[s]),
                    "a left-hand subscript is missing");
        if (!mark_root(v, v->eq->rhs) || !mark_root(v, v->eq->guard))
            return 0;
        REQUIRE(v, NONE, (v->eq->rhs == NONE) == (v->eq->kind == EQ_ROUTE), "an equation without a value");
    }
    v->eq = NULL;
    if (!mark_down(v, k->exprs.len))
        return 0;
    for (ExprId e = 0; e < k->exprs.len; e++) {
        if (!v->reached[e])
            continue;
        if (!kind_ok(v, e))
            return 0;
        collect_sets(v, e);
    }
    return 1;
}

/* ---- uses ---- */

static int use_ok(Verifier *v, ExprId e)
{
    const Expr *x = x_at(v->k, e);
    if (x->kind == X_LOAD)
        REQUIRE(v, e, v->written[x->sym], "%s is read before its definition", v->k->tensors.at[x->sym].name);
    if (x->kind == X_TOKEN || x->kind == X_SLOT || x->kind == X_ROW || x->kind == X_GROUP)
        REQUIRE(v, e, v->routed[x->sym], "route %s is used before its definition",
                v->k->routes.at[x->sym].name);
    for (uint32_t b = 0; b < x->nbound; b++) {
        IndexId i = x_bound(v->k, e, b);
        REQUIRE(v, e, !set_has(v->bound, i), "a reduction binds %s, which the left side binds",
                v->k->indices.at[i].name);
        if (!verify_rows_known(v, e, i))
            return 0;
    }
    return 1;
}

int verify_uses(Verifier *v, ExprId root)
{
    for (IndexId i = 0; i < v->k->indices.len; i++)
        REQUIRE(v, root, set_has(v->bound, i) || !set_has(v->free + (size_t)root * v->words, i),
                "index %s is not bound here", v->k->indices.at[i].name);
    memset(v->reached, 0, (size_t)root + 1);
    v->reached[root] = 1;
    if (!mark_down(v, root + 1))
        return 0;
    for (ExprId e = 0; e <= root; e++)
        if (v->reached[e] && !use_ok(v, e))
            return 0;
    return 1;
}
