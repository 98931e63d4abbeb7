/* The walk over nodes. */
#include "ir/eval.h"

#include <math.h>

void eval_fail(Eval *e, const char *format, ...)
{
    if (e->error)
        return;
    va_list args;
    va_start(args, format);
    e->error = arena_vprintf(e->arena, format, args);
    va_end(args);
}

Value eval_lift(const Eval *e, Value v)
{
    return (Value){{.f = eval_float_of_int(e->mode, v.n.i)}, v.error > 0 ? INFINITY : 0};
}

static Value of_int(int64_t i, double error) { return (Value){{.i = i}, error}; }

/* Runs what may fail only because of a choice that is in doubt: then there is no value, and no error. */
static Value attempt(Eval *e, Node *n, int *ok)
{
    Value v = eval_run(e, n);
    *ok = e->error == NULL;
    e->error = NULL;
    return v;
}

/* ---- accesses ---- */

static void outside(Eval *e, const EvalAccess *a, uint32_t axis, int64_t value)
{
    const Tensor *t = &e->k->tensors.at[a->tensor];
    const Subscript *s = &a->subscripts[axis];
    if (value >= 0 && value < s->extent)
        eval_fail(e, "index %lld of axis %u of %s is a row of group %s that does not exist", (long long)value,
                  (unsigned)axis, t->name, e->m->groups.at[t->axes[axis].group].name);
    else
        eval_fail(e, "index %lld is outside axis %u of %s, whose extent is %lld", (long long)value,
                  (unsigned)axis, t->name, (long long)s->extent);
}

int64_t eval_place(Eval *e, const EvalAccess *a, int *doubtful)
{
    int64_t place = 0;
    for (uint32_t i = 0; i < a->rank; i++) {
        const Subscript *s = &a->subscripts[i];
        if (s->index) {
            place += *s->index * s->stride;
            continue;
        }
        Value v = eval_run(e, s->node);
        if (e->error)
            return -1;
        if (v.n.i < 0 || v.n.i >= s->extent || (s->group_of && s->group_of[v.n.i] < 0)) {
            outside(e, a, i, v.n.i);
            return -1;
        }
        *doubtful |= v.error > 0;
        place += v.n.i * s->stride;
    }
    return place;
}

static Value run_load(Eval *e, Node *n)
{
    const TensorData *d = &e->tensors[n->access->tensor];
    int doubtful = 0;
    int64_t place = eval_place(e, n->access, &doubtful);
    if (place < 0)
        return of_int(0, 0);
    double at = d->at[place], error = doubtful ? INFINITY : d->error ? d->error[place] : 0;
    if (e->k->tensors.at[n->access->tensor].elem == EL_I64)
        return (Value){{.f = at}, error > 0}; /* bits, as eval_store keeps them */
    if (n->type == TY_INT)
        return of_int(fabs(at) < 0x1p62 ? (int64_t)at : 0, error > 0);
    return (Value){{.f = at}, error};
}

/* ---- routes ---- */

static int argument_inside(Eval *e, Node *n, Value v, int64_t extent, const char *what)
{
    if (v.n.i >= 0 && v.n.i < extent)
        return 1;
    eval_fail(e, "%s %lld of route %s is outside 0..%lld", what, (long long)v.n.i,
              e->k->routes.at[n->sym].name, (long long)extent - 1);
    return 0;
}

static Value run_row(Eval *e, Node *n)
{
    const RouteData *r = &e->routes[n->sym];
    Value t = eval_run(e, n->args[0]), k = eval_run(e, n->args[1]);
    if (e->error || !argument_inside(e, n, t, r->route->tokens, "token") ||
        !argument_inside(e, n, k, r->route->choices, "slot"))
        return of_int(0, 0);
    if (!r->route->row_of) {
        eval_fail(e, "route %s has no row_of", e->k->routes.at[n->sym].name);
        return of_int(0, 0);
    }
    return of_int(r->route->row_of[t.n.i * r->route->choices + k.n.i],
                  r->route->doubtful || t.error > 0 || k.error > 0);
}

/* token, slot or group of a row */
static Value run_of_row(Eval *e, Node *n)
{
    const RouteData *r = &e->routes[n->sym];
    Value row = eval_run(e, n->args[0]);
    if (e->error || !argument_inside(e, n, row, r->route->rows, "row"))
        return of_int(0, 0);
    double error = r->route->doubtful || row.error > 0;
    if (r->group_of[row.n.i] < 0) {
        eval_fail(e, "row %lld of route %s does not exist", (long long)row.n.i, e->k->routes.at[n->sym].name);
        return of_int(0, 0);
    }
    if (n->kind == NODE_GROUP)
        return of_int(r->group_of[row.n.i], error);
    if (!r->route->slot_of) {
        eval_fail(e, "route %s has no slot_of", e->k->routes.at[n->sym].name);
        return of_int(0, 0);
    }
    int64_t slot = r->route->slot_of[row.n.i], choices = r->route->choices;
    return of_int(n->kind == NODE_TOKEN ? slot / choices : slot % choices, error);
}

/* ---- operations ---- */

static Value int_result(const Eval *e, const Node *n, Value a, Value b)
{
    Value r = {n->hook(e->mode, n->ints, a.n, b.n), 0};
    if (a.error == 0 && b.error == 0)
        return r;
    if (n->ints || scalar_table[n->op].kind == SK_LOGIC) {
        r.error = 1;
    } else if (scalar_table[n->op].kind == SK_COMPARE) {
        r.error = eval_compare_doubtful((ScalarOp)n->op, a, b);
    } else { /* i32 of a float */
        Number low = {.f = a.n.f - a.error}, high = {.f = a.n.f + a.error};
        r.error = n->hook(e->mode, 0, low, low).i != n->hook(e->mode, 0, high, high).i;
    }
    return r;
}

static Value float_result(const Eval *e, const Node *n, Value a, Value b)
{
    ScalarOp op = (ScalarOp)n->op;
    if (!e->track)
        return (Value){n->hook(e->mode, n->ints, a.n, b.n), 0};
    if (n->ints) /* a cast of an integer */
        return (Value){n->hook(e->mode, 1, a.n, b.n), a.error > 0 ? INFINITY : 0};
    Value r = {.error = 0};
    double exact = n->hook(EVAL_EXACT, 0, a.n, b.n).f;
    int is_cast = scalar_table[op].kind == SK_CAST;
    r.n.f = is_cast ? n->hook(e->mode, 0, a.n, b.n).f : (double)(float)exact;
    int as_exact = is_cast || (scalar_table[op].ulp <= 0.5 && r.n.f == exact);
    if (a.error > 0 || b.error > 0 || !as_exact)
        r.error = eval_error(op, a, b, exact, r.n.f);
    if (n->moves)
        r.error += eval_error_again(op, r.n.f);
    return r;
}

Value eval_op(Eval *e, const Node *n, Value a, Value b)
{
    if (n->lifted & 1)
        a = eval_lift(e, a);
    if (n->lifted & 2)
        b = eval_lift(e, b);
    return type_is_float((Type)n->type) ? float_result(e, n, a, b) : int_result(e, n, a, b);
}

static Value run_op(Eval *e, Node *n)
{
    Value a = eval_run(e, n->args[0]), b = {{.i = 0}, 0};
    if (n->nargs > 1)
        b = eval_run(e, n->args[1]);
    return eval_op(e, n, a, b);
}

/* Conjuncts (deciding value 0) or alternatives (1) from left to right, until one decides beyond doubt. */
static Value run_junction(Eval *e, Node *n, int64_t decides)
{
    Value r = of_int(!decides, 0);
    for (uint32_t i = 0; i < n->nargs; i++) {
        int ok = 1, decided = r.n.i == decides;
        Value v = decided ? attempt(e, n->args[i], &ok) : eval_run(e, n->args[i]);
        if (e->error || !ok)
            return r;
        if (v.n.i == decides && v.error == 0)
            return v;
        if (v.n.i == decides)
            r.n.i = decides;
        r.error = fmax(r.error, v.error);
    }
    return r;
}

static Value run_side(Eval *e, Node *n, int side, int *ok)
{
    Value v = ok ? attempt(e, n->args[side], ok) : eval_run(e, n->args[side]);
    return n->lifted >> side & 1 ? eval_lift(e, v) : v;
}

static Value run_if(Eval *e, Node *n)
{
    Value c = eval_run(e, n->args[0]);
    if (e->error)
        return c;
    int side = c.n.i ? 1 : 2, ok;
    Value v = run_side(e, n, side, NULL);
    if (c.error == 0 || e->error)
        return v;
    Value other = run_side(e, n, 3 - side, &ok);
    if (!ok)
        return v;
    if (!type_is_float((Type)n->type))
        v.error = v.error > 0 || other.error > 0 || v.n.i != other.n.i;
    else
        v.error = fmax(v.error, eval_distance(v.n.f, other.n.f) + other.error);
    return v;
}

/* ---- the walk ---- */

static int is_current(const Eval *e, const Node *n)
{
    if (!n->stamp)
        return 0;
    for (uint64_t deps = n->deps; deps; deps &= deps - 1)
        if (e->epoch[__builtin_ctzll(deps)] > n->stamp)
            return 0;
    return 1;
}

static Value run_kind(Eval *e, Node *n)
{
    switch ((NodeKind)n->kind) {
    case NODE_NUMBER: return n->value;
    case NODE_INDEX: return of_int(*n->index, 0);
    case NODE_OP: return run_op(e, n);
    case NODE_ALL: return run_junction(e, n, 0);
    case NODE_ANY: return run_junction(e, n, 1);
    case NODE_LOAD: return run_load(e, n);
    case NODE_IF: return run_if(e, n);
    case NODE_REDUCE: return eval_reduce(e, n);
    case NODE_TOKEN:
    case NODE_SLOT:
    case NODE_GROUP: return run_of_row(e, n);
    case NODE_ROW: return run_row(e, n);
    }
    return of_int(0, 0);
}

Value eval_run(Eval *e, Node *n)
{
    if (!n->memo)
        return run_kind(e, n);
    if (is_current(e, n))
        return n->value;
    Value v = run_kind(e, n);
    if (!e->error) {
        n->value = v;
        n->stamp = e->clock;
    }
    return v;
}
