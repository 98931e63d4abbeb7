/* Expressions as .moe text, with the parentheses that the grammar needs and no others.
 *
 * Note [Reductions and parentheses]. A reduction takes the whole product that follows it, so it stands bare
 * at the right end of a product (`a * sum(k) b * c` multiplies the sum of b * c) and in parentheses wherever
 * `*` or `/` follows: `(sum(k) b) * c`. Printing carries one bit for that: `followed`. */
#include "ir/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(Printer *p, ExprId e, Precedence level, int followed);

/* ---- names ---- */

Printer printer_new(const Kernel *k, Text *out)
{
    return (Printer){.k = k, .out = out, .name = arena_array(out->arena, Name, k->indices.len + 1)};
}

static int name_taken(const Printer *p, Name name)
{
    const Module *m = p->k->module;
    if (ir_find_tensor(p->k, name) != NONE || ir_find_route(p->k, name) != NONE)
        return 1;
    if (ir_is_declared(m, name))
        return 1;
    for (uint32_t i = 0; i < p->scope.len; i++)
        if (p->name[p->scope.at[i]] == name)
            return 1;
    return 0;
}

Name printer_bind(Printer *p, IndexId i)
{
    Module *m = p->k->module;
    if (p->name[i])
        return p->name[i];
    Name name = p->k->indices.at[i].name;
    size_t stem = strlen(name);
    while (stem > 1 && name[stem - 1] >= '0' && name[stem - 1] <= '9')
        stem--;
    for (unsigned n = 2; name_taken(p, name); n++)
        name = name_of(m->names, arena_printf(p->out->arena, "%.*s%u", (int)stem, name, n));
    p->name[i] = name;
    vec_push(p->out->arena, &p->scope, i);
    return name;
}

void printer_leave(Printer *p, uint32_t scope_length)
{
    while (p->scope.len > scope_length)
        p->name[p->scope.at[--p->scope.len]] = NULL;
}

/* Whether this node, an access, tells the axis of index variable i. */
static int tells_axis(const Kernel *k, ExprId e, IndexId i)
{
    const Module *m = k->module;
    const Expr *x = x_at(k, e);
    Axis axis = k->indices.at[i].axis;
    for (uint32_t a = 0; a < x->nargs; a++) {
        const Expr *arg = x_at(k, x_arg(k, e, a));
        if (arg->kind != X_INDEX || arg->sym != i)
            continue;
        if (x->kind == X_LOAD && axis_same(m, axis, k->tensors.at[x->sym].axes[a]))
            return 1;
        if ((x->kind == X_TOKEN || x->kind == X_SLOT) && axis.group == k->routes.at[x->sym].group)
            return 1;
        const Route *r = x->kind == X_ROW ? &k->routes.at[x->sym] : NULL;
        if (r && axis.group == NONE && ext_same(m, axis.extent, a ? r->choices : r->tokens))
            return 1;
    }
    return 0;
}

static int is_told(const Printer *p, IndexId i, ExprId root)
{
    if (root == NONE)
        return 0;
    each_below (e, p->k, root, EVERYWHERE) {
        if (tells_axis(p->k, *e, i))
            return 1;
    }
    return 0;
}

void printer_binding(Printer *p, IndexId i, const ExprId *uses, uint32_t nuses)
{
    text_add(p->out, "%s", printer_bind(p, i));
    for (uint32_t u = 0; u < nuses; u++)
        if (is_told(p, i, uses[u]))
            return;
    text_add(p->out, ": ");
    axis_print(p->k->module, p->k->indices.at[i].axis, p->out);
}

/* ---- constants ---- */

static void put_int(Printer *p, int64_t value)
{
    if (value == INT64_MIN)
        text_add(p->out, "(-9223372036854775807 - 1)");
    else
        text_add(p->out, "%lld", (long long)value);
}

/* The shortest decimal that reads back as the same double, always with a point or an exponent. */
static void put_float(Printer *p, double value)
{
    char digits[40];
    if (!isfinite(value)) { /* no literal has this value */
        text_add(p->out, isnan(value) ? "(0 / 0)" : value > 0 ? "(1 / 0)" : "(-1 / 0)");
        return;
    }
    int precision = 1;
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, value);
    while (strtod(digits, NULL) != value && ++precision <= 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -7 || exponent > 15)
        snprintf(digits, sizeof digits, "%.*e", precision - 1, value);
    else
        snprintf(digits, sizeof digits, "%.*f", precision - 1 - exponent > 1 ? precision - 1 - exponent : 1,
                 value);
    text_add(p->out, "%s", digits);
}

static int is_negative(const Expr *x)
{
    return (x->kind == X_INT && x->value.i < 0 && x->value.i != INT64_MIN) ||
           (x->kind == X_FLOAT && x->value.f < 0 && isfinite(x->value.f));
}

static Precedence extent_level(const ExtentForm *f)
{
    if (f->nterms == 0)
        return PREC_PRIMARY;
    if (f->nterms > 1)
        return PREC_SUM;
    const Monomial *t = &f->terms[0];
    int factors = (int)t->ndims + (t->ndims == 0 || (t->coef != 1 && t->coef != -1));
    return factors > 1 ? PREC_PRODUCT : t->coef < 0 ? PREC_UNARY : PREC_PRIMARY;
}

static void put_monomial(Printer *p, const Monomial *t, int first)
{
    int64_t coef = t->coef;
    if (first)
        text_add(p->out, coef < 0 ? "-" : "");
    else
        text_add(p->out, coef < 0 ? " - " : " + ");
    unsigned long long magnitude = coef < 0 ? 0ull - (unsigned long long)coef : (unsigned long long)coef;
    if (magnitude != 1 || t->ndims == 0)
        text_add(p->out, t->ndims ? "%llu * " : "%llu", magnitude);
    for (uint32_t d = 0; d < t->ndims; d++)
        text_add(p->out, d ? " * %s" : "%s", p->k->module->dims.at[t->dims[d]].name);
}

void printer_extent(Printer *p, Extent e, Precedence level)
{
    const ExtentForm *f = &p->k->module->extents.at[e];
    int parens = extent_level(f) < level;
    text_add(p->out, parens ? "(" : "");
    for (uint32_t i = 0; i < f->nterms; i++)
        put_monomial(p, &f->terms[i], i == 0);
    text_add(p->out, f->nterms ? "" : "0");
    text_add(p->out, parens ? ")" : "");
}

/* ---- operators ---- */

static void put_list(Printer *p, ExprId e)
{
    for (uint32_t i = 0; i < x_at(p->k, e)->nargs; i++) {
        text_add(p->out, i ? ", " : "");
        put(p, x_arg(p->k, e, i), PREC_OR, 0);
    }
}

static void put_call(Printer *p, const char *name, ExprId e)
{
    text_add(p->out, "%s(", name);
    put_list(p, e);
    text_add(p->out, ")");
}

static Precedence infix_level(ScalarOp op)
{
    if (op == OP_or || op == OP_and)
        return op == OP_or ? PREC_OR : PREC_AND;
    if (op == OP_add || op == OP_sub)
        return PREC_SUM;
    if (op == OP_mul || op == OP_div)
        return PREC_PRODUCT;
    return scalar_table[op].kind == SK_COMPARE ? PREC_COMPARE : PREC_PRIMARY;
}

static void put_infix(Printer *p, ExprId e, ScalarOp op, Precedence own, int followed)
{
    Precedence left = own == PREC_COMPARE ? PREC_SUM : own;
    put(p, x_arg(p->k, e, 0), left, own == PREC_PRODUCT);
    text_add(p->out, " %s ", scalar_table[op].spelling);
    put(p, x_arg(p->k, e, 1), (Precedence)(own + 1), followed);
}

static void put_op(Printer *p, ExprId e, Precedence level, int followed)
{
    ScalarOp op = (ScalarOp)x_at(p->k, e)->op;
    Precedence own = op == OP_neg ? PREC_UNARY : op == OP_not ? PREC_NOT : infix_level(op);
    if (own == PREC_PRIMARY) {
        put_call(p, scalar_table[op].spelling, e);
        return;
    }
    int parens = own < level;
    text_add(p->out, parens ? "(" : "");
    if (op == OP_neg || op == OP_not) {
        text_add(p->out, op == OP_neg ? "-" : "not ");
        put(p, x_arg(p->k, e, 0), own, followed && !parens);
    } else {
        put_infix(p, e, op, own, followed && !parens);
    }
    text_add(p->out, parens ? ")" : "");
}

static void put_reduce(Printer *p, ExprId e, Precedence level, int followed)
{
    static const char *const names[] = {[RED_SUM] = "sum", [RED_MAX] = "max", [RED_MIN] = "min"};
    const Kernel *k = p->k;
    uint32_t scope = p->scope.len;
    int parens = followed || level > PREC_UNARY;
    ExprId uses[2] = {x_arg(k, e, 0), x_condition(k, e)};
    text_add(p->out, "%s%s(", parens ? "(" : "", names[x_at(k, e)->op]);
    for (uint32_t b = 0; b < x_at(k, e)->nbound; b++) {
        text_add(p->out, b ? ", " : "");
        printer_binding(p, x_bound(k, e, b), uses, 2);
    }
    if (uses[1] != NONE) {
        text_add(p->out, " where ");
        put(p, uses[1], PREC_OR, 0);
    }
    text_add(p->out, ") ");
    put(p, uses[0], PREC_PRODUCT, 0);
    text_add(p->out, parens ? ")" : "");
    printer_leave(p, scope);
}

static void put_load(Printer *p, ExprId e)
{
    text_add(p->out, "%s", p->k->tensors.at[x_at(p->k, e)->sym].name);
    if (x_at(p->k, e)->nargs == 0)
        return;
    text_add(p->out, "[");
    put_list(p, e);
    text_add(p->out, "]");
}

static void put_route_map(Printer *p, const char *map, ExprId e)
{
    text_add(p->out, "%s.%s(", p->k->routes.at[x_at(p->k, e)->sym].name, map);
    put_list(p, e);
    text_add(p->out, ")");
}

static void put_constant(Printer *p, const Expr *x, Precedence level)
{
    int parens = is_negative(x) && level > PREC_UNARY;
    text_add(p->out, parens ? "(" : "");
    if (x->kind == X_INT)
        put_int(p, x->value.i);
    else
        put_float(p, x->value.f);
    text_add(p->out, parens ? ")" : "");
}

static void put(Printer *p, ExprId e, Precedence level, int followed)
{
    static const char *const lanes[] = {
        [RED_SUM] = "lanes_sum", [RED_MAX] = "lanes_max", [RED_MIN] = "lanes_min"};
    const Expr *x = x_at(p->k, e);
    switch ((ExprKind)x->kind) {
    case X_FLOAT:
    case X_INT: put_constant(p, x, level); break;
    case X_EXTENT: printer_extent(p, x->sym, level); break;
    case X_INDEX: text_add(p->out, "%s", printer_bind(p, x->sym)); break;
    case X_OP: put_op(p, e, level, followed); break;
    case X_LOAD: put_load(p, e); break;
    case X_IF: put_call(p, "if", e); break;
    case X_REDUCE: put_reduce(p, e, level, followed); break;
    case X_TOKEN: put_route_map(p, "token", e); break;
    case X_SLOT: put_route_map(p, "slot", e); break;
    case X_ROW: put_route_map(p, "row", e); break;
    case X_GROUP:
        text_add(p->out, "@");
        put(p, x_arg(p->k, e, 0), PREC_PRIMARY, 0);
        break;
    case X_LANES: put_call(p, lanes[x->op], e); break;
    case X_THREADS: put_call(p, "threads", e); break;
    }
}

void printer_expr(Printer *p, ExprId e, Precedence level) { put(p, e, level, 0); }

void ir_print_expr(const Kernel *k, ExprId e, Text *out)
{
    Printer p = printer_new(k, out);
    printer_expr(&p, e, PREC_OR);
}
