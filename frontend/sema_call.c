/* Calls: operations of the scalar table, and functions put in where they stand.
 *
 * An argument is built once and shared. A function that was put in with the same arguments before gives the
 * same node again, so that chains of functions cost their distinct nodes only. */
#include "frontend/advice.h"
#include "frontend/sema.h"

#include <math.h>
#include <string.h>

/* ---- memo ---- */

static uint64_t call_hash(uint32_t fn, const ExprId *args, uint32_t nargs)
{
    return hash_bytes(args, sizeof *args * nargs, fn);
}

static uint32_t call_slot(const KernelSema *c, uint32_t fn, const ExprId *args, uint32_t nargs)
{
    uint32_t at = (uint32_t)call_hash(fn, args, nargs) & (c->call_size - 1);
    for (; c->call_slots[at]; at = (at + 1) & (c->call_size - 1)) {
        const InlinedCall *call = &c->calls.at[c->call_slots[at] - 1];
        if (call->fn == fn && call->nargs == nargs && memcmp(call->args, args, sizeof *args * nargs) == 0)
            break;
    }
    return at;
}

static void grow_calls(KernelSema *c)
{
    c->call_size = c->call_size ? c->call_size * 2 : 64;
    c->call_slots = arena_array(c->m->arena, uint32_t, c->call_size);
    for (uint32_t i = 0; i < c->calls.len; i++) {
        const InlinedCall *call = &c->calls.at[i];
        c->call_slots[call_slot(c, call->fn, call->args, call->nargs)] = i + 1;
    }
}

/* ---- a function put in ---- */

static ExprId put_in(KernelSema *c, uint32_t fn, const AstExpr *e, const ExprId *args)
{
    Inlined inner = {c->c->fns.at[fn].decl, args};
    const Inlined *outer = c->inlined;
    Loc loc = c->call_loc;
    if (!outer)
        c->call_loc = e->loc;
    c->inlined = &inner;
    ExprId result = build_expr(c, inner.fn->body);
    c->inlined = outer;
    c->call_loc = loc;
    return result;
}

/* What a body means depends on the guards around it only through rows and subscripts, which it has none of.
 */
static ExprId put_in_once(KernelSema *c, uint32_t fn, const AstExpr *e, const ExprId *args)
{
    uint32_t at = c->call_size ? call_slot(c, fn, args, e->nargs) : 0;
    if (c->call_size && c->call_slots[at])
        return c->calls.at[c->call_slots[at] - 1].result;
    ExprId result = put_in(c, fn, e, args);
    if (result == NONE)
        return NONE;
    if (c->calls.len * 2 >= c->call_size) /* only now: calls inside have made entries, too */
        grow_calls(c);
    at = call_slot(c, fn, args, e->nargs);
    vec_push(c->m->arena, &c->calls, (InlinedCall){fn, e->nargs, args, result});
    c->call_slots[at] = c->calls.len;
    return result;
}

/* ---- calls ---- */

/* x(t, h) -> x[t, h], where the bracket follows the name */
static void propose_access(KernelSema *c, const AstExpr *e)
{
    Loc open = {e->loc.file, e->loc.line, e->name.loc.col + e->name.loc.len, 1};
    Loc close = {e->loc.file, e->loc.line, e->loc.col + e->loc.len - 1, 1};
    if (e->loc.len >= LOC_LINES || c->inlined)
        return;
    diag_edit(c->m->diags, open, "[");
    diag_edit(c->m->diags, close, "]");
}

static ExprId refuse_call(KernelSema *c, const AstExpr *e)
{
    Name name = e->name.name;
    uint32_t id;
    if (is_pack(c, e))
        return sema_error(c, DIAG_pack, e->loc, "write the elements: wp[h, f] = ...",
                          "%s makes a whole tensor, so it is all that stands on the right", name);
    c->failed |= c->c->broken;
    if (symbol_get(c, name, SYMBOL_TENSOR, &id)) {
        sema_error(c, DIAG_unknown_function, e->loc, "write its subscripts between [ and ]",
                   "%s is a tensor, not a function", name);
        propose_access(c, e);
        return NONE;
    }
    Guess g = guess_new(name);
    for (uint32_t i = 0; i < c->c->fns.len; i++)
        guess_try(&g, c->c->fns.at[i].decl->name.name);
    for (ScalarOp op = 0; op < OP_COUNT; op++)
        if (scalar_find(scalar_table[op].spelling) == op)
            guess_try(&g, scalar_table[op].spelling);
    const char *other = habit_absent(name);
    const char *help =
        other ? other : arena_printf(c->m->arena, "declare it above, as in fn %s(x) = x", name);
    if (habit_function(name) || habit_type(name))
        g.best = habit_function(name) ? habit_function(name) : habit_type(name);
    sema_error(c, DIAG_unknown_function, e->name.loc, other ? other : guess_help(c->m->arena, &g, help),
               "there is no function %s", name);
    if (!other)
        guess_edit(c->m->diags, &g, e->name.loc);
    return NONE;
}

static int arity_ok(KernelSema *c, const AstExpr *e, uint32_t wanted)
{
    if (e->nargs != wanted)
        sema_error(c, DIAG_arity, build_loc(c, e),
                   arena_printf(c->m->arena, "give %s %s", e->name.name,
                                count_text(c->m->arena, wanted, "argument")),
                   "%s takes %s, not %u", e->name.name, count_text(c->m->arena, wanted, "argument"),
                   e->nargs);
    return !c->failed;
}

static int build_arguments(KernelSema *c, const AstExpr *e, ExprId *out)
{
    for (uint32_t i = 0; i < e->nargs; i++) {
        out[i] = build_expr(c, e->args[i]);
        if (out[i] != NONE && expr_type(c, out[i]) == TY_BOOL)
            sema_condition(c, e->args[i], sema_text(c, out[i]), "a number");
        if (c->failed)
            return 0;
    }
    return 1;
}

/* ---- quotients ---- */

const char *sema_quotient(KernelSema *c, ExprId e)
{
    if (x_is_op(c->k, e, OP_floor))
        e = x_arg(c->k, e, 0);
    if (!x_is_op(c->k, e, OP_div))
        return NULL;
    ExprId a = x_arg(c->k, e, 0), b = x_arg(c->k, e, 1);
    if (expr_type(c, a) != TY_INT || expr_type(c, b) != TY_INT)
        return NULL;
    return arena_printf(c->m->arena, "idiv(%s, %s)", sema_text(c, a), sema_text(c, b));
}

void sema_edit_integer(KernelSema *c, Loc loc, const char *quotient)
{
    if (quotient)
        diag_edit(c->m->diags, loc, quotient);
    else
        diag_wrap(c->m->diags, loc, "i32(", ")");
}

static ExprId refuse_operand(KernelSema *c, const AstExpr *e, ExprId operand, Name function)
{
    Loc loc = build_loc(c, e);
    const char *whole = sema_quotient(c, operand);
    sema_error(
        c, DIAG_quotient, loc, whole ? "divide integers by idiv" : "make an integer of it, which truncates",
        "%s is %s, but %s takes integers", sema_text(c, operand), type_name(expr_type(c, operand)), function);
    sema_edit_integer(c, loc, whole);
    return NONE;
}

/* idiv and imod. A divisor that is a polynomial of dimensions becomes one node, as it is printed. */
static ExprId build_quotient(KernelSema *c, const AstExpr *e, ScalarOp op, const ExprId *args)
{
    Affine form;
    ExprId by = args[1];
    int64_t value;
    for (uint32_t i = 0; i < 2; i++)
        if (expr_type(c, args[i]) != TY_INT)
            return refuse_operand(c, e->args[i], args[i], e->name.name);
    if (x_affine(c->k, by, &form) && form.n == 0) {
        by = x_extent(c->k, x_at(c->k, by)->loc, form.constant);
        if (ext_is_const(c->m, form.constant, &value)) {
            if (value < 1)
                return sema_error(c, DIAG_quotient, build_loc(c, e->args[1]), "divide by 1 or more",
                                  "the divisor of %s is %lld, which is below 1", e->name.name,
                                  (long long)value);
            by = x_int(c->k, x_at(c->k, by)->loc, value);
        }
    }
    return x_op2(c->k, build_loc(c, e), op, args[0], by);
}

/* ---- all ---- */

enum { PRODUCTS_TO = 4 };

/* `pow(a, 2)` up to PRODUCTS_TO are products, of any a. NONE: this is another power. */
static ExprId small_power(KernelSema *c, Loc loc, const ExprId *args)
{
    const Expr *b = x_at(c->k, args[1]);
    const double n = b->kind == X_INT ? (double)b->value.i : b->kind == X_FLOAT ? b->value.f : 0;
    if (!type_is_float(expr_type(c, args[0])) || !(n >= 2 && n <= PRODUCTS_TO) || n > floor(n))
        return NONE;
    const ExprId square = x_op2(c->k, loc, OP_mul, args[0], args[0]);
    return n < 3 ? square : x_op2(c->k, loc, OP_mul, square, n < PRODUCTS_TO ? args[0] : square);
}

ExprId build_call(KernelSema *c, const AstExpr *e)
{
    uint32_t fn = namemap_get(&c->c->functions, e->name.name);
    ScalarOp op = fn == NAME_ABSENT ? scalar_find(e->name.name) : OP_COUNT;
    if (fn == NAME_ABSENT && op == OP_COUNT)
        return refuse_call(c, e);
    if (fn != NAME_ABSENT && c->c->fns.at[fn].state != FN_GOOD) {
        c->failed = 1;
        return NONE;
    }
    if (!arity_ok(c, e, fn != NAME_ABSENT ? c->c->fns.at[fn].decl->names->list.len : scalar_table[op].arity))
        return NONE;
    ExprId *args = arena_array(c->m->arena, ExprId, e->nargs);
    if (!build_arguments(c, e, args))
        return NONE;
    if (fn != NAME_ABSENT)
        return put_in_once(c, fn, e, args);
    Loc loc = build_loc(c, e);
    if (scalar_table[op].kind == SK_INDEX)
        return build_quotient(c, e, op, args);
    if (scalar_table[op].arity == 2) {
        const ExprId product = op == OP_pow ? small_power(c, loc, args) : NONE;
        return product != NONE ? product : x_op2(c->k, loc, op, args[0], args[1]);
    }
    ExprId result = x_op1(c->k, loc, op, args[0]);
    int is_same = scalar_table[op].kind == SK_CAST && type_is_float(expr_type(c, result)) &&
                  expr_type(c, result) == expr_type(c, args[0]);
    return is_same ? args[0] : result; /* a cast of a value that has the type already */
}
