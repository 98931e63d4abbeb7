/* Expressions become nodes to walk: extents are numbers, subscripts that cannot fail are plain reads of a
 * loop variable, conditions stand at the loop that decides them, and what does not move with the innermost
 * loop keeps its value. */
#include "ir/eval.h"

#include <math.h>

enum { MAX_CONJUNCTS = 256, MAX_NODE_DEPTH = 4000 };

void eval_start_equation(Eval *e)
{
    for (ExprId x = 0; x < e->k->exprs.len; x++)
        e->nodes[x] = NULL;
    for (IndexId i = 0; i < e->k->indices.len; i++)
        e->local[i] = 0;
    e->nlocal = 0;
}

int64_t eval_extent(Eval *e, Extent x)
{
    int64_t value;
    if (!ext_eval(e->m, x, e->dims, &value)) {
        eval_fail(e, "a size of kernel %s is too large", e->k->name);
        return 0;
    }
    return value;
}

/* The equation's number of an index variable. */
static uint8_t local_number(Eval *e, IndexId i)
{
    if (!e->local[i]) {
        uint32_t number = e->nlocal < MANY_INDICES ? e->nlocal++ : MANY_INDICES;
        e->local[i] = (uint8_t)(number + 1);
    }
    return (uint8_t)(e->local[i] - 1);
}

static uint64_t bit(uint8_t local) { return (uint64_t)1 << local; }

Loop eval_loop(Eval *e, IndexId i)
{
    Axis axis = e->k->indices.at[i].axis;
    Loop l = {.index = i, .local = local_number(e, i), .extent = eval_extent(e, axis.extent), .route = NONE};
    if (axis.group == NONE)
        return l;
    l.route = ir_group_route(e->k, axis.group);
    if (l.route == NONE || !e->routes[l.route].group_of)
        eval_fail(e, "the rows of group %s are not known here", e->m->groups.at[axis.group].name);
    return l;
}

/* ---- accesses ---- */

static int is_plain(Eval *e, ExprId x, Axis axis, int64_t extent)
{
    if (x_at(e->k, x)->kind != X_INDEX)
        return 0;
    Axis own = e->k->indices.at[x_at(e->k, x)->sym].axis;
    return own.group == axis.group && eval_extent(e, own.extent) == extent;
}

static Subscript subscript(Eval *e, const TensorData *d, Axis axis, uint32_t at, ExprId x, int inner)
{
    Subscript s = {.extent = d->extent[at], .stride = d->stride[at]};
    if (is_plain(e, x, axis, s.extent)) {
        s.index = &e->index[x_at(e->k, x)->sym];
        local_number(e, x_at(e->k, x)->sym);
        return s;
    }
    s.node = eval_node(e, x, inner);
    if (axis.group != NONE) {
        RouteId r = ir_group_route(e->k, axis.group);
        s.group_of = r == NONE ? NULL : e->routes[r].group_of;
        if (!s.group_of)
            eval_fail(e, "the rows of group %s are not known here", e->m->groups.at[axis.group].name);
    }
    return s;
}

EvalAccess *eval_access(Eval *e, TensorId t, const ExprId *subscripts, uint32_t n, int inner)
{
    EvalAccess *a = arena_new_of(e->scratch, EvalAccess);
    a->tensor = t;
    a->rank = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++)
        a->subscripts[i] = subscript(e, &e->tensors[t], e->k->tensors.at[t].axes[i], i, subscripts[i], inner);
    return a;
}

static void build_load(Eval *e, Node *n, int inner)
{
    ExprId subscripts[MAX_RANK];
    const Expr *x = x_at(e->k, n->expr);
    for (uint32_t i = 0; i < x->nargs; i++)
        subscripts[i] = x_arg(e->k, n->expr, i);
    if (!e->tensors[x->sym].at) {
        eval_fail(e, "%s has no data", e->k->tensors.at[x->sym].name);
        return;
    }
    n->access = eval_access(e, x->sym, subscripts, x->nargs, inner);
    for (uint32_t i = 0; i < x->nargs; i++) {
        const Subscript *s = &n->access->subscripts[i];
        n->deps |= s->index ? bit(local_number(e, x_at(e->k, subscripts[i])->sym)) : s->node->deps;
        n->faults |= s->index == NULL;
    }
}

/* ---- reductions ---- */

/* The innermost loop that this node waits for; -1: none. */
static int level_of(const Reduce *r, const Node *n)
{
    int level = -1;
    for (uint32_t l = 0; l < r->nloops; l++)
        if (n->deps & bit(r->loops[l].local))
            level = (int)l;
    return level;
}

static int is_index(const Node *n, const Eval *e, const Loop *l)
{
    return n->kind == NODE_INDEX && n->index == &e->index[l->index];
}

/* Lets a comparison of the loop's variable (or its group) with something known before shorten the loop. */
static void narrow(Eval *e, Reduce *r, const Node *c, int level)
{
    if (level < 0 || c->kind != NODE_OP || !c->ints || scalar_table[c->op].kind != SK_COMPARE)
        return;
    Loop *l = &r->loops[level];
    for (int side = 0; side < 2; side++) {
        Node *x = c->args[side], *other = c->args[1 - side];
        if (other->faults || level_of(r, other) >= level)
            continue;
        if (l->route != NONE) {
            if (c->op == OP_eq && x->kind == NODE_GROUP && x->sym == l->route && is_index(x->args[0], e, l) &&
                !l->run)
                l->run = other;
            continue;
        }
        if (!is_index(x, e, l))
            continue;
        ScalarOp op = (ScalarOp)c->op;
        if (side) /* other OP index */
            op = op_turned(op);
        if (op == OP_ge || op == OP_eq)
            vec_push(e->scratch, &l->least, other);
        if (op == OP_le || op == OP_eq)
            vec_push(e->scratch, &l->most, other);
        if (op == OP_lt)
            vec_push(e->scratch, &l->below, other);
        if (op == OP_gt)
            vec_push(e->scratch, &l->above, other);
    }
}

static void add_condition(Eval *e, Reduce *r, Node *c, int level)
{
    if (level < 0)
        vec_push(e->scratch, &r->conditions, c);
    else
        vec_push(e->scratch, &r->loops[level].conditions, c);
}

static int larger(int a, int b) { return a > b ? a : b; }

/* May c be asked before all conjuncts to its left? It reads nothing and cannot fail (docs/language.md, section 4). */
static int comes_first(const Eval *e, const Node *c) { return !c->faults && !x_loads_any(e->k, c->expr); }

/* The others keep the order of the text: one that may fail waits for all before it, the others only for those that may
 * fail. */
static void build_conditions(Eval *e, Reduce *r, ExprId condition, int inner)
{
    ExprId parts[MAX_CONJUNCTS];
    uint32_t n = x_conjuncts(e->k, condition, parts, MAX_CONJUNCTS);
    int last = -1, risky = -1; /* levels of those before */
    for (int first = 1; first >= 0; first--)
        for (uint32_t i = 0; i < n; i++) {
            Node *c = eval_node(e, parts[i], inner);
            if (comes_first(e, c) != first)
                continue;
            int level = larger(level_of(r, c), c->faults ? last : risky);
            add_condition(e, r, c, level);
            if (!c->faults && level > risky)
                narrow(e, r, c, level);
            last = larger(last, level);
            risky = c->faults ? level : risky;
        }
}

/* Each node once: factors may be shared. */
static void find_free(const Eval *e, Reduce *r, ExprId body)
{
    Nodes below = x_below(e->k, body, EVERYWHERE);
    ExprMap factors = x_map(e->k, below.n);
    *x_map_at(&factors, body) = body;
    for (uint32_t n = below.n; n-- > 0;) {
        if (x_map_get(&factors, below.at[n]) == NONE)
            continue;
        Node *x = e->nodes[below.at[n]];
        int product =
            x->kind == NODE_OP && !x->ints && (x->op == OP_mul || x->op == OP_div || x->op == OP_neg);
        if (!product && level_of(r, x) < 0)
            vec_push(e->scratch, &r->free, x);
        for (uint32_t i = 0; product && i < x->nargs; i++)
            *x_map_at(&factors, x_arg(e->k, below.at[n], i)) = below.at[n];
    }
}

static int is_finite(const TensorData *d)
{
    for (int64_t i = 0; i < d->size; i++)
        if (!isfinite(d->at[i]))
            return 0;
    return 1;
}

/* A term that is left out by what elements say may be added as 0 times a factor (language page, section 5). Does a sum leave out
 * terms so, of tensors that are not finite everywhere? */
static int may_add_nan(const Eval *e, ExprId reduce)
{
    const Kernel *k = e->k;
    ExprId condition = x_condition(k, reduce);
    int asks = condition != NONE && x_loads_any(k, condition);
    each_below (n, k, x_arg(k, reduce, 0), EVERYWHERE)
        asks |= x_at(k, *n)->kind == X_IF && x_loads_any(k, x_arg(k, *n, 0));
    each_below (n, k, x_arg(k, reduce, 0), EVERYWHERE)
        if (asks && x_at(k, *n)->kind == X_LOAD && type_is_float((Type)x_at(k, *n)->type) &&
            !is_finite(&e->tensors[x_at(k, *n)->sym]))
            return 1;
    return 0;
}

static void build_reduce(Eval *e, Node *n)
{
    ExprId x = n->expr;
    Reduce *r = arena_new_of(e->scratch, Reduce);
    n->reduce = r;
    n->faults = n->type == TY_INT && x_at(e->k, x)->op != RED_SUM;
    r->nloops = x_at(e->k, x)->nbound;
    r->loops = arena_array(e->scratch, Loop, r->nloops);
    for (uint32_t b = 0; b < r->nloops; b++)
        r->loops[b] = eval_loop(e, x_bound(e->k, x, b));
    int inner = r->loops[r->nloops - 1].local;
    build_conditions(e, r, x_condition(e->k, x), inner);
    r->body = eval_node(e, x_arg(e->k, x, 0), inner);
    r->may_add_nan = e->track && n->type != TY_INT && x_at(e->k, x)->op == RED_SUM && may_add_nan(e, x);
    if (n->type != TY_INT)
        find_free(e, r, x_arg(e->k, x, 0));
    r->batch = n->type != TY_INT && eval_can_batch(r->body, &r->loops[r->nloops - 1]);
    n->deps = r->body->deps;
    n->faults |= r->body->faults;
    for (uint32_t i = 0; i < r->conditions.len; i++) {
        n->deps |= r->conditions.at[i]->deps;
        n->faults |= r->conditions.at[i]->faults;
    }
    for (uint32_t l = 0; l < r->nloops; l++)
        for (uint32_t i = 0; i < r->loops[l].conditions.len; i++) {
            n->deps |= r->loops[l].conditions.at[i]->deps;
            n->faults |= r->loops[l].conditions.at[i]->faults;
        }
    for (uint32_t l = 0; l < r->nloops; l++)
        if (r->loops[l].local < MANY_INDICES)
            n->deps &= ~bit(r->loops[l].local);
}

/* ---- other nodes ---- */

static void build_args(Eval *e, Node *n, const ExprId *args, uint32_t nargs, int inner)
{
    n->nargs = (uint8_t)nargs;
    n->args = arena_array(e->scratch, Node *, nargs + 1);
    for (uint32_t i = 0; i < nargs; i++) {
        n->args[i] = eval_node(e, args[i], inner);
        n->deps |= n->args[i]->deps;
        n->faults |= n->args[i]->faults;
    }
}

/* All conjuncts of a condition in one node, in the order of build_conditions. */
static void build_all(Eval *e, Node *n, int inner)
{
    ExprId parts[MAX_CONJUNCTS];
    uint32_t count = x_conjuncts(e->k, n->expr, parts, MAX_CONJUNCTS), first = 0;
    if (count > UINT8_MAX) {
        eval_fail(e, "a condition of kernel %s has too many parts", e->k->name);
        count = 1;
    }
    n->kind = NODE_ALL;
    build_args(e, n, parts, count, inner);
    for (uint32_t i = 0; i < count; i++)
        if (comes_first(e, n->args[i])) {
            Node *c = n->args[i];
            for (uint32_t j = i; j > first; j--)
                n->args[j] = n->args[j - 1];
            n->args[first++] = c;
        }
}

static int operands_are_ints(const Node *n)
{
    for (uint32_t i = 0; i < n->nargs; i++)
        if (type_is_float((Type)n->args[i]->type))
            return 0;
    return 1;
}

static void build_op(Eval *e, Node *n, int inner)
{
    ExprId args[2] = {NONE, NONE};
    const Expr *x = x_at(e->k, n->expr);
    for (uint32_t i = 0; i < x->nargs; i++)
        args[i] = x_arg(e->k, n->expr, i);
    n->op = x->op;
    n->hook = eval_hooks[x->op];
    if (x->op == OP_and) {
        build_all(e, n, inner);
        return;
    }
    n->kind = x->op == OP_or ? NODE_ANY : NODE_OP;
    build_args(e, n, args, x->nargs, inner);
    n->ints = (uint8_t)(scalar_table[x->op].kind != SK_FLOAT && operands_are_ints(n));
    for (uint32_t i = 0; i < n->nargs && !n->ints; i++)
        if (n->args[i]->type == TY_INT)
            n->lifted |= (uint8_t)(1u << i);
}

static void build_map(Eval *e, Node *n, NodeKind kind, int inner)
{
    ExprId args[3];
    const Expr *x = x_at(e->k, n->expr);
    for (uint32_t i = 0; i < x->nargs; i++)
        args[i] = x_arg(e->k, n->expr, i);
    n->kind = (uint8_t)kind;
    n->sym = x->sym;
    build_args(e, n, args, x->nargs, inner);
    if (kind != NODE_IF) {
        if (!e->routes[n->sym].group_of)
            eval_fail(e, "route %s is used before its definition", e->k->routes.at[n->sym].name);
        for (uint32_t i = 0; i < n->nargs; i++)
            n->faults |= n->args[i]->kind != NODE_INDEX;
        return;
    }
    for (uint32_t i = 1; i < 3; i++)
        if (type_is_float((Type)n->type) && n->args[i]->type == TY_INT)
            n->lifted |= (uint8_t)(1u << i);
}

static void build_number(Eval *e, Node *n)
{
    const Expr *x = x_at(e->k, n->expr);
    n->kind = NODE_NUMBER;
    if (x->kind == X_FLOAT)
        n->value.n.f = e->mode == EVAL_EXACT ? x->value.f : elem_round(EL_F32, x->value.f);
    else
        n->value.n.i = x->kind == X_INT ? x->value.i : eval_extent(e, x->sym);
}

static void build_kind(Eval *e, Node *n, int inner)
{
    const Expr *x = x_at(e->k, n->expr);
    switch ((ExprKind)x->kind) {
    case X_FLOAT:
    case X_INT:
    case X_EXTENT: build_number(e, n); break;
    case X_INDEX:
        n->kind = NODE_INDEX;
        n->index = &e->index[x->sym];
        n->deps = bit(local_number(e, x->sym));
        break;
    case X_OP: build_op(e, n, inner); break;
    case X_LOAD:
        n->kind = NODE_LOAD;
        build_load(e, n, inner);
        break;
    case X_IF: build_map(e, n, NODE_IF, inner); break;
    case X_REDUCE:
        n->kind = NODE_REDUCE;
        n->op = x->op;
        build_reduce(e, n);
        break;
    case X_TOKEN: build_map(e, n, NODE_TOKEN, inner); break;
    case X_SLOT: build_map(e, n, NODE_SLOT, inner); break;
    case X_ROW: build_map(e, n, NODE_ROW, inner); break;
    case X_GROUP: build_map(e, n, NODE_GROUP, inner); break;
    case X_LANES:
    case X_THREADS: eval_fail(e, "an expression of the tile level cannot be interpreted"); break;
    }
}

static int worth_keeping(const Node *n)
{
    return n->kind != NODE_NUMBER && n->kind != NODE_INDEX && !(n->deps & bit(MANY_INDICES));
}

Node *eval_node(Eval *e, ExprId x, int inner)
{
    Node *n = e->nodes[x];
    if (n) { /* used twice */
        n->memo = (uint8_t)worth_keeping(n);
        return n;
    }
    n = arena_new_of(e->scratch, Node);
    n->expr = x;
    n->type = x_at(e->k, x)->type;
    n->moves = e->moving && e->moving[x];
    if (++e->depth > MAX_NODE_DEPTH)
        eval_fail(e, "an expression of kernel %s is nested too deeply", e->k->name);
    if (!e->error)
        build_kind(e, n, inner);
    e->depth--;
    n->memo = (uint8_t)(inner >= 0 && worth_keeping(n) && !(n->deps & bit((uint8_t)inner)));
    e->nodes[x] = n;
    return n;
}
