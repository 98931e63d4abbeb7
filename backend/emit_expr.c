/* Expressions to values. A node is emitted once per statement and scope: see emit_forget(). */
#include "backend/emit.h"

void emit_forget(Emit *e, uint32_t mark)
{
    while (e->log.len > mark) {
        uint32_t entry = e->log.at[--e->log.len];
        e->memo[entry & 1][entry >> 1] = NULL;
    }
}

V emit_float(Emit *e, ExprId x) { return emit_to_float(e, emit_value(e, x)); }

V emit_bool(Emit *e, ExprId x) { return emit_value(e, x); }

/* ---- what is known of an expression without emitting it ---- */

static Form form_of_op(Emit *e, const Expr *n, ExprId x)
{
    Form a = emit_form(e, x_arg(e->k, x, 0));
    Form b = n->nargs > 1 ? emit_form(e, x_arg(e->k, x, 1)) : FORM_UNIFORM;
    if (a == FORM_UNIFORM && b == FORM_UNIFORM)
        return FORM_UNIFORM;
    if (n->op == OP_stop || n->op == OP_shift)
        return a;
    if ((n->op == OP_add || n->op == OP_sub) && n->type == TY_INT && a == FORM_UNIT && b == FORM_UNIFORM)
        return FORM_UNIT;
    if (n->op == OP_add && n->type == TY_INT && a == FORM_UNIFORM && b == FORM_UNIT)
        return FORM_UNIT;
    return FORM_LANES;
}

static Form find_form(Emit *e, ExprId x)
{
    const Expr *n = x_at(e->k, x);
    if (n->kind == X_INDEX)
        return n->sym == e->var ? FORM_UNIT : FORM_UNIFORM;
    if (n->kind == X_OP)
        return form_of_op(e, n, x);
    if (n->kind == X_LANES)
        return FORM_UNIFORM;
    if (n->kind == X_LOAD && e->p->buffers.at[n->sym].lanes)
        return FORM_LANES;
    for (uint32_t i = 0; i < n->nargs; i++)
        if (emit_form(e, x_arg(e->k, x, i)) != FORM_UNIFORM)
            return FORM_LANES;
    return FORM_UNIFORM;
}

Form emit_form(Emit *e, ExprId x)
{
    if (!e->form[x])
        e->form[x] = (uint8_t)(find_form(e, x) + 1);
    return (Form)(e->form[x] - 1);
}

/* Evaluating it where the program does not ask for it could fault: it touches memory. */
int emit_unsafe(Emit *e, ExprId x)
{
    if (!e->unsafe[x]) {
        const Expr *n = x_at(e->k, x);
        int found = 0;
        if (n->kind == X_LOAD)
            found = e->p->buffers.at[n->sym].space != SPACE_REG && !e->p->buffers.at[n->sym].by_value;
        for (uint32_t i = 0; i < n->nargs && !found; i++)
            found = emit_unsafe(e, x_arg(e->k, x, i));
        e->unsafe[x] = found ? 2 : 1;
    }
    return e->unsafe[x] == 2;
}

/* ---- choices: only the chosen side is evaluated ----
 *
 * Note [Loads of both sides]. What both sides of a choice load whatever else they choose is loaded before it: a word is there once for
 * all eight choices of a nibble, and no side is left that must not be evaluated. */

enum { CHOICE_NODES = 128, CHOICE_LOADS = 8 };

typedef struct Loads {
    ExprId at[CHOICE_LOADS];
    uint32_t n;
} Loads;

static void add_loads(Loads *to, Loads more)
{
    for (uint32_t i = 0; i < more.n && to->n < CHOICE_LOADS; i++)
        to->at[to->n++] = more.at[i];
}

static Loads in_both(const Loads *a, const Loads *b)
{
    Loads both = {.n = 0};
    for (uint32_t i = 0; i < a->n; i++)
        if (x_is_among(b->at, b->n, a->at[i]))
            both.at[both.n++] = a->at[i];
    return both;
}

/* The loads that an evaluation of x makes in any case; not all of them where x is large. */
static Loads sure_loads(Emit *e, ExprId x, int *nodes)
{
    const Expr *n = x_at(e->k, x);
    Loads found = {.n = 0};
    if (!emit_unsafe(e, x) || --*nodes < 0)
        return found;
    if (n->kind == X_LOAD)
        return (Loads){{x}, 1};
    int first_only = n->kind == X_IF || x_is_op(e->k, x, OP_and) || x_is_op(e->k, x, OP_or);
    for (uint32_t i = 0; i < (first_only ? 1 : n->nargs); i++)
        add_loads(&found, sure_loads(e, x_arg(e->k, x, i), nodes));
    if (n->kind != X_IF)
        return found;
    Loads a = sure_loads(e, x_arg(e->k, x, 1), nodes), b = sure_loads(e, x_arg(e->k, x, 2), nodes);
    add_loads(&found, in_both(&a, &b));
    return found;
}

/* Does evaluating x touch memory that has not been loaded? */
static int may_fault(Emit *e, ExprId x, int *nodes)
{
    const Expr *n = x_at(e->k, x);
    int lane0 = emit_form(e, x) == FORM_UNIFORM ? 0 : e->lane0;
    if (!emit_unsafe(e, x) || e->memo[lane0][x])
        return 0;
    if (n->kind == X_LOAD || --*nodes < 0)
        return 1;
    for (uint32_t i = 0; i < n->nargs; i++)
        if (may_fault(e, x_arg(e->k, x, i), nodes))
            return 1;
    return 0;
}

/* One side: an expression, or NONE for a given constant; converted to float when the choice is one. */
typedef struct ChoiceSide {
    ExprId x;
    V constant;
    int to_float;
} ChoiceSide;

static V side_value(Emit *e, ChoiceSide s)
{
    V v = s.x == NONE ? s.constant : emit_value(e, s.x);
    return s.to_float ? emit_to_float(e, v) : v;
}

static int side_may_fault(Emit *e, ChoiceSide s)
{
    int nodes = CHOICE_NODES;
    return s.x != NONE && may_fault(e, s.x, &nodes);
}

static void load_of_both(Emit *e, ChoiceSide a, ChoiceSide b)
{
    int nodes = CHOICE_NODES;
    if (!side_may_fault(e, a) || !side_may_fault(e, b))
        return; /* also where all that they load has been loaded */
    Loads of_a = sure_loads(e, a.x, &nodes), of_b = sure_loads(e, b.x, &nodes);
    Loads both = in_both(&of_a, &of_b);
    for (uint32_t i = 0; i < both.n; i++)
        emit_value(e, both.at[i]);
}

static V choose_lanes(Emit *e, V c, ChoiceSide a, ChoiceSide b)
{
    V outer = e->cond;
    V value[2];
    for (int i = 0; i < 2; i++) {
        ChoiceSide s = i ? b : a;
        V where = i ? l_not(e->l, c) : c;
        uint32_t mark = e->log.len;
        int masked = side_may_fault(e, s);
        if (masked)
            e->cond = outer ? l_and(e->l, outer, where) : where;
        value[i] = side_value(e, s);
        e->cond = outer;
        if (masked)
            emit_forget(e, mark);
    }
    return l_select(e->l, c, value[0], value[1]);
}

static V choose_branch(Emit *e, V c, ChoiceSide a, ChoiceSide b)
{
    L *l = e->l;
    Block then = l_block(l, "chosen"), otherwise = l_block(l, "other"), join = l_block(l, "join"), from[2];
    V value[2];
    l_branch(l, c, then, otherwise);
    for (int i = 0; i < 2; i++) {
        l_enter(l, i ? otherwise : then);
        uint32_t mark = e->log.len;
        value[i] = side_value(e, i ? b : a);
        /* both sides need the same type before they meet */
        if (i && l_width(value[0]) && !l_width(value[1]))
            value[1] = l_splat(l, value[1], l_width(value[0]));
        from[i] = l_here(l);
        emit_forget(e, mark);
        if (i)
            l_goto(l, join);
    }
    if (l_width(value[1]) && !l_width(value[0])) {
        l_enter(l, from[0]);
        value[0] = l_splat(l, value[0], l_width(value[1]));
    }
    l_enter(l, from[0]);
    l_goto(l, join);
    l_enter(l, join);
    return l_phi(l, LLVMTypeOf(value[0]), value[0], from[0], value[1], from[1]);
}

static V choose(Emit *e, V c, ChoiceSide a, ChoiceSide b)
{
    int64_t known;
    if (l_constant(c, &known))
        return side_value(e, known ? a : b);
    load_of_both(e, a, b);
    if (l_width(c))
        return choose_lanes(e, c, a, b);
    if (!side_may_fault(e, a) && !side_may_fault(e, b))
        return l_select(e->l, c, side_value(e, a), side_value(e, b));
    return choose_branch(e, c, a, b);
}

/* ---- kinds ---- */

static V value_of_index(Emit *e, const Expr *n)
{
    if (n->sym == e->var && !e->lane0)
        return e->var_lanes;
    if (!e->index[n->sym])
        BUG(e->l->arena, "backend: kernel %s uses index %s outside its loop", e->k->name,
            e->k->indices.at[n->sym].name);
    return e->index[n->sym];
}

/* exp(a - shift(b)) may be off by what the difference's rounding makes of it, twice over (language page, section 5). */
static int is_shifted_exp(const Kernel *k, ExprId x)
{
    return x_is_op(k, x, OP_exp) && x_is_op(k, x_arg(k, x, 0), OP_sub) &&
           x_is_op(k, x_arg(k, x_arg(k, x, 0), 1), OP_shift);
}

/* Its argument, where a is a product: rounded once. */
static V shifted_product(Emit *e, ExprId difference)
{
    const Kernel *k = e->k;
    ExprId product = x_arg(k, difference, 0);
    V a = emit_float(e, x_arg(k, product, 0)), b = emit_float(e, x_arg(k, product, 1));
    V shift = emit_float(e, x_arg(k, difference, 1));
    return emit_fma(e, a, b, LLVMBuildFNeg(e->l->b, shift, ""));
}

static V value_of_shifted(Emit *e, ExprId x)
{
    ExprId difference = x_arg(e->k, x, 0);
    int product = emit_has_fma(e) && x_is_op(e->k, x_arg(e->k, difference, 0), OP_mul);
    V a = product ? shifted_product(e, difference) : emit_value(e, difference);
    return emit_scalar(e, OP_exp, a, NULL);
}

static V value_of_op(Emit *e, const Expr *n, ExprId x)
{
    if (is_shifted_exp(e->k, x))
        return value_of_shifted(e, x);
    if (n->op == OP_bf16 && x_is_op(e->k, x_arg(e->k, x, 0), OP_exp)) /* which is never subnormal */
        return emit_flush_bf16(e, emit_value(e, x_arg(e->k, x, 0)));
    ExprId b = n->nargs > 1 ? x_arg(e->k, x, 1) : (ExprId)NONE;
    V first = emit_value(e, x_arg(e->k, x, 0));
    if ((n->op == OP_and || n->op == OP_or) && emit_unsafe(e, b)) {
        ChoiceSide second = {.x = b};
        ChoiceSide fixed = {.x = NONE, .constant = n->op == OP_or ? l_true(e->l) : l_false(e->l)};
        return n->op == OP_and ? choose(e, first, second, fixed) : choose(e, first, fixed, second);
    }
    return emit_scalar(e, (ScalarOp)n->op, first, b == NONE ? NULL : emit_value(e, b));
}

static V value_of_if(Emit *e, const Expr *n, ExprId x)
{
    V c = emit_bool(e, x_arg(e->k, x, 0));
    ChoiceSide a = {.x = x_arg(e->k, x, 1), .to_float = type_is_float((Type)n->type)};
    ChoiceSide b = {.x = x_arg(e->k, x, 2), .to_float = a.to_float};
    return choose(e, c, a, b);
}

static V find_value(Emit *e, ExprId x)
{
    const Expr *n = x_at(e->k, x);
    ExprId index[MAX_RANK];
    switch ((ExprKind)n->kind) {
    case X_FLOAT: return l_f32(e->l, n->value.f);
    case X_INT: return l_i64(e->l, n->value.i);
    case X_EXTENT: return emit_extent(e, n->sym);
    case X_INDEX: return value_of_index(e, n);
    case X_OP: return value_of_op(e, n, x);
    case X_LOAD:
        for (uint32_t i = 0; i < n->nargs; i++)
            index[i] = x_arg(e->k, x, i);
        return emit_load(e, n->sym, index, n->nargs);
    case X_IF: return value_of_if(e, n, x);
    case X_LANES: return emit_fold_lanes(e, (ReduceKind)n->op, emit_value(e, x_arg(e->k, x, 0)));
    case X_THREADS: return l_load(e->l, e->l->i64, emit_data_at(e, DATA_THREADS), 8);
    case X_REDUCE:
    case X_TOKEN:
    case X_SLOT:
    case X_ROW:
    case X_GROUP: break;
    }
    BUG(e->l->arena, "backend: kernel %s has an expression of kind %d at the tile level", e->k->name,
        n->kind);
}

V emit_value(Emit *e, ExprId x)
{
    int mode = e->lane0;
    if (mode && emit_form(e, x) == FORM_UNIFORM)
        e->lane0 = 0;
    V *memo = &e->memo[e->lane0][x];
    if (!*memo) {
        V v = find_value(e, x);
        *memo = v;
        vec_push(e->l->arena, &e->log, x << 1 | (uint32_t)e->lane0);
    }
    e->lane0 = mode;
    return *memo;
}
