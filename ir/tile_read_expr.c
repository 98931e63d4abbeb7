/* The expressions of tile text: the grammar of .moe without reductions and route maps, with lanes_sum and co.,
 * and threads(). */
#include "ir/tile_text.h"

#include <math.h>
#include <string.h>

/* Every builder call gets legal operands: after an error, this. */
static ExprId dummy(TileReader *r) { return x_int(r->k, r->token.loc, 0); }

static Type type_at(const TileReader *r, ExprId e) { return (Type)x_at(r->k, e)->type; }

static ExprId type_error(TileReader *r, Loc loc, const char *where, const char *wanted, Type got)
{
    token_fail(r, DIAG_tile_type, loc, "%s takes %s, not a value of type %s", where, wanted, type_name(got));
    return dummy(r);
}

static int takes(const TileReader *r, ScalarOp op, ExprId e)
{
    Type t = type_at(r, e);
    switch (scalar_table[op].kind) {
    case SK_LOGIC: return t == TY_BOOL;
    case SK_INDEX: return t == TY_INT;
    case SK_ARITH:
    case SK_FLOAT:
    case SK_COMPARE:
    case SK_CAST:
    case SK_SAME: break;
    }
    return t != TY_BOOL;
}

static const char *wanted_by(ScalarOp op)
{
    ScalarKind kind = scalar_table[op].kind;
    return kind == SK_LOGIC ? "conditions" : kind == SK_INDEX ? "integers" : "numbers";
}

/* An integer that is an extent already: a number or a polynomial of dimensions. */
static int as_extent(TileReader *r, ExprId e, Extent *out)
{
    const Expr *x = x_at(r->k, e);
    if (x->kind == X_EXTENT)
        *out = x->sym;
    else if (x->kind == X_INT)
        *out = ext_const(r->m, x->value.i);
    return x->kind == X_EXTENT || x->kind == X_INT;
}

/* `2*T*K` is printed for one extent node, so arithmetic on extents becomes one again. */
static int fold_extents(TileReader *r, ScalarOp op, ExprId a, ExprId b, Extent *out)
{
    Extent x, y;
    if (!as_extent(r, a, &x) || !as_extent(r, b, &y) ||
        (x_at(r->k, a)->kind == X_INT && x_at(r->k, b)->kind == X_INT))
        return 0;
    if (op == OP_add)
        *out = ext_add(r->m, x, y);
    else if (op == OP_sub)
        *out = ext_sub(r->m, x, y);
    else if (op == OP_mul)
        *out = ext_mul(r->m, x, y);
    else
        return 0;
    return 1;
}

/* `(1 / 0)` stands for infinity, which has no literal. */
static int fold_infinity(TileReader *r, ScalarOp op, ExprId a, ExprId b, double *out)
{
    const Expr *x = x_at(r->k, a);
    int folds = op == OP_div && x->kind == X_INT && x_is_int(r->k, b, 0);
    *out = x->value.i == 0 ? (double)NAN : x->value.i > 0 ? (double)INFINITY : -(double)INFINITY;
    return folds;
}

static ExprId binary(TileReader *r, Loc loc, ScalarOp op, ExprId a, ExprId b)
{
    Extent folded;
    if (!takes(r, op, a) || !takes(r, op, b))
        return type_error(r, loc, scalar_table[op].spelling, wanted_by(op),
                          type_at(r, takes(r, op, a) ? b : a));
    if (op == OP_sub && x_is_int(r->k, a, -INT64_MAX) && x_is_int(r->k, b, 1))
        return x_int(r->k, loc, INT64_MIN); /* its one spelling */
    double infinity;
    if (fold_infinity(r, op, a, b, &infinity))
        return x_float(r->k, loc, infinity);
    if (fold_extents(r, op, a, b, &folded))
        return x_extent(r->k, loc, folded);
    if (op == OP_sub && x_is_int(r->k, a, -INT64_MAX) && x_is_int(r->k, b, 1))
        return x_int(r->k, loc, INT64_MIN); /* which has no literal either */
    return x_op2(r->k, loc, op, a, b);
}

static ExprId unary(TileReader *r, Loc loc, ScalarOp op, ExprId a)
{
    if (!takes(r, op, a))
        return type_error(r, loc, scalar_table[op].spelling, wanted_by(op), type_at(r, a));
    return x_op1(r->k, loc, op, a);
}

static int enter(TileReader *r)
{
    if (++r->depth <= TILE_NESTING)
        return 1;
    token_fail(r, DIAG_tile_syntax, r->token.loc, "nesting is deeper than %d", TILE_NESTING);
    return 0;
}

RouteId tile_read_route(TileReader *r)
{
    Loc loc = r->token.loc;
    Name name = token_word(r, "the name of a route");
    RouteId route = ir_find_route(r->k, name);
    if (route == NONE)
        token_fail(r, DIAG_tile_name, loc, "there is no route named %s", name);
    return route;
}

static TensorId route_field(TileReader *r, Name route)
{
    static const char *const fields[RF_FIELDS] = {"start", "count", "slot_of", "row_of"};
    Loc loc = r->token.loc;
    RouteId id = ir_find_route(r->k, route);
    token_expect(r, ".");
    Name field = token_word(r, "a field of a route");
    for (int f = 0; id != NONE && f < RF_FIELDS; f++)
        if (strcmp(field, fields[f]) == 0)
            return tile_route_field(r->k, id, (RouteField)f);
    token_fail(r, DIAG_tile_name, loc, "there is no route field %s.%s", route, field);
    return NONE;
}

/* w.transposed */
static TensorId transposed_of(TileReader *r, TensorId t)
{
    Loc loc = r->ahead.loc;
    token_expect(r, ".");
    if (token_take(r, "transposed") && r->k->tensors.at[t].both)
        return tile_transposed(r->k, t);
    token_fail(r, DIAG_tile_name, loc, "%s has nothing but `transposed`, where it is `pairs both`",
               r->k->tensors.at[t].name);
    return NONE;
}

TensorId tile_read_buffer(TileReader *r)
{
    Loc loc = r->token.loc;
    Name name = token_word(r, "the name of a buffer");
    TensorId t = ir_find_tensor(r->k, name);
    if (token_is(r, "."))
        t = t == NONE ? route_field(r, name) : transposed_of(r, t);
    if (t == NONE)
        token_fail(r, DIAG_tile_name, loc, "there is no buffer named %s", name);
    return t;
}

uint8_t tile_read_subscripts(TileReader *r, ExprId *out, uint32_t limit)
{
    uint8_t n = 0;
    Loc loc = r->token.loc;
    if (token_take(r, "[")) {
        do {
            ExprId e = tile_read_int(r);
            if (n == limit)
                token_fail(r, DIAG_tile_type, loc, "more than %u subscripts", limit);
            else
                out[n++] = e;
        } while (!r->failed && token_take(r, ","));
        token_expect(r, "]");
    }
    return n;
}

ExprId tile_read_load(TileReader *r, Loc loc)
{
    ExprId subscripts[MAX_RANK];
    TensorId t = tile_read_buffer(r);
    uint32_t n = tile_read_subscripts(r, subscripts, MAX_RANK);
    if (!r->failed && n != r->k->tensors.at[t].rank)
        token_fail(r, DIAG_tile_type, loc, "%s has %u axes, not %u", r->k->tensors.at[t].name,
                   r->k->tensors.at[t].rank, n);
    return r->failed ? dummy(r) : x_load(r->k, loc, t, subscripts);
}

static int lanes_kind(Name name, ReduceKind *kind)
{
    static const char *const names[] = {
        [RED_SUM] = "lanes_sum", [RED_MAX] = "lanes_max", [RED_MIN] = "lanes_min"};
    for (int i = 0; i < 3; i++) {
        *kind = (ReduceKind)i;
        if (strcmp(names[i], name) == 0)
            return 1;
    }
    return 0;
}

static ExprId choice(TileReader *r, Loc loc, const ExprId *args, uint32_t n)
{
    if (n != 3)
        token_fail(r, DIAG_tile_type, loc, "if takes 3 arguments, not %u", n);
    else if (type_at(r, args[0]) != TY_BOOL)
        type_error(r, loc, "if", "a condition first", type_at(r, args[0]));
    else if (type_at(r, args[1]) == TY_BOOL || type_at(r, args[2]) == TY_BOOL)
        type_error(r, loc, "if", "two values", TY_BOOL);
    return r->failed ? dummy(r) : x_if(r->k, loc, args[0], args[1], args[2]);
}

static ExprId call(TileReader *r, Loc loc, Name name, const ExprId *args, uint32_t n)
{
    ReduceKind kind;
    if (strcmp(name, "if") == 0)
        return choice(r, loc, args, n);
    if (lanes_kind(name, &kind) && n == 1 && type_at(r, args[0]) != TY_BOOL)
        return x_lanes(r->k, loc, kind, args[0]);
    ScalarOp op = scalar_find(name);
    if (op == OP_COUNT)
        token_fail(r, DIAG_tile_name, loc, "there is no function %s of %u arguments", name, n);
    else if (n != scalar_table[op].arity)
        token_fail(r, DIAG_tile_type, loc, "%s takes %u arguments, not %u", name, scalar_table[op].arity, n);
    if (r->failed)
        return dummy(r);
    return n == 1 ? unary(r, loc, op, args[0]) : binary(r, loc, op, args[0], args[1]);
}

static ExprId read_expr(TileReader *r);

static ExprId read_call(TileReader *r, Loc loc)
{
    ExprId args[4];
    uint32_t n = 0;
    Name name = token_word(r, "a function");
    token_expect(r, "(");
    if (strcmp(name, "threads") == 0) {
        token_expect(r, ")");
        return x_threads(r->k, loc);
    }
    do {
        ExprId e = read_expr(r);
        if (n < 4)
            args[n++] = e;
    } while (!r->failed && token_take(r, ","));
    token_expect(r, ")");
    return r->failed ? dummy(r) : call(r, loc, name, args, n);
}

static ExprId read_name(TileReader *r, Loc loc)
{
    Name name = r->token.text;
    int bare = strcmp(r->ahead.text, "[") != 0 && strcmp(r->ahead.text, ".") != 0;
    if (r->ahead.kind == TOKEN_SIGN && strcmp(r->ahead.text, "(") == 0)
        return read_call(r, loc);
    for (uint32_t i = r->scope.len; bare && i-- > 0;)
        if (r->k->indices.at[r->scope.at[i]].name == name) {
            token_next(r);
            return x_index(r->k, loc, r->scope.at[i]);
        }
    for (DimId d = 0; bare && d < r->m->dims.len; d++)
        if (r->m->dims.at[d].name == name) {
            token_next(r);
            return x_extent(r->k, loc, ext_dim(r->m, d));
        }
    return tile_read_load(r, loc);
}

static ExprId read_literal(TileReader *r, int negative)
{
    TileToken t = r->token;
    token_next(r);
    if (t.kind == TOKEN_FLOAT)
        return x_float(r->k, t.loc, negative ? -t.f : t.f);
    if (!negative && t.i > INT64_MAX)
        token_fail(r, DIAG_tile_syntax, t.loc, "the number does not fit 64 bits");
    return x_int(r->k, t.loc, negative ? (int64_t)(0 - t.i) : (int64_t)t.i);
}

static int at_number(const TileReader *r)
{
    return r->token.kind == TOKEN_INT || r->token.kind == TOKEN_FLOAT;
}

static ExprId read_primary(TileReader *r)
{
    Loc loc = r->token.loc;
    if (at_number(r))
        return read_literal(r, 0);
    if (r->token.kind == TOKEN_WORD)
        return read_name(r, loc);
    token_expect(r, "(");
    ExprId e = read_expr(r);
    token_expect(r, ")");
    return e;
}

static ExprId negated(TileReader *r, Loc loc, ExprId e)
{
    if (x_at(r->k, e)->kind == X_EXTENT)
        return x_extent(r->k, loc, ext_sub(r->m, ext_const(r->m, 0), x_at(r->k, e)->sym));
    if (x_is_int(r->k, e, 0))
        return e; /* an integer has no other zero: -0 is read so, too */
    return unary(r, loc, OP_neg, e);
}

static ExprId read_unary(TileReader *r)
{
    Loc loc = r->token.loc;
    if (!token_take(r, "-"))
        return read_primary(r);
    if (at_number(r))
        return read_literal(r, 1);
    ExprId e = enter(r) ? read_unary(r) : dummy(r);
    r->depth--;
    return negated(r, loc, e);
}

static ExprId read_product(TileReader *r)
{
    ExprId e = read_unary(r);
    while (token_is(r, "*") || token_is(r, "/")) {
        Loc loc = r->token.loc;
        ScalarOp op = token_is(r, "*") ? OP_mul : OP_div;
        token_next(r);
        e = binary(r, loc, op, e, read_unary(r));
    }
    return e;
}

static ExprId read_sum(TileReader *r)
{
    ExprId e = read_product(r);
    while (token_is(r, "+") || token_is(r, "-")) {
        Loc loc = r->token.loc;
        ScalarOp op = token_is(r, "+") ? OP_add : OP_sub;
        token_next(r);
        e = binary(r, loc, op, e, read_product(r));
    }
    return e;
}

static ExprId read_comparison(TileReader *r)
{
    ExprId e = read_sum(r);
    for (ScalarOp op = 0; op < OP_COUNT; op++)
        if (scalar_table[op].kind == SK_COMPARE && token_is(r, scalar_table[op].spelling)) {
            Loc loc = r->token.loc;
            token_next(r);
            return binary(r, loc, op, e, read_sum(r));
        }
    return e;
}

static ExprId read_not(TileReader *r)
{
    Loc loc = r->token.loc;
    if (!token_take(r, "not"))
        return read_comparison(r);
    ExprId e = enter(r) ? read_not(r) : dummy(r);
    r->depth--;
    return unary(r, loc, OP_not, e);
}

static ExprId read_logic(TileReader *r, ScalarOp op)
{
    ExprId e = op == OP_or ? read_logic(r, OP_and) : read_not(r);
    while (token_is(r, scalar_table[op].spelling)) {
        Loc loc = r->token.loc;
        token_next(r);
        e = binary(r, loc, op, e, op == OP_or ? read_logic(r, OP_and) : read_not(r));
    }
    return e;
}

static ExprId read_expr(TileReader *r)
{
    ExprId e = enter(r) ? read_logic(r, OP_or) : dummy(r);
    r->depth--;
    return e;
}

ExprId tile_read_typed(TileReader *r, int condition)
{
    Loc loc = r->token.loc;
    ExprId e = read_expr(r);
    if (!r->failed && (type_at(r, e) == TY_BOOL) != condition)
        return type_error(r, loc, "this place", condition ? "a condition" : "a number", type_at(r, e));
    return e;
}

ExprId tile_read_int(TileReader *r)
{
    Loc loc = r->token.loc;
    ExprId e = read_expr(r);
    if (!r->failed && type_at(r, e) != TY_INT)
        return type_error(r, loc, "this place", "an integer", type_at(r, e));
    return e;
}
