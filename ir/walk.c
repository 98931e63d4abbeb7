/* Walks over expressions. Nodes are shared, so every walk visits each node once, in time that depends on what is
 * below the root and not on the size of the kernel. */
#include "ir/ir.h"

#include <string.h>

/* Which walk saw a node last, by ExprId. */
struct WalkState {
    Vec(uint32_t) stamp;
    uint32_t epoch;
    Vec(ExprId) stack; /* nodes whose arguments are being visited; each with the number already visited */
    Vec(uint32_t) visited;
};

static struct WalkState *begin_walk(const Kernel *k)
{
    Arena *a = k->module->arena;
    struct WalkState *w = k->walk;
    if (!w)
        ((Kernel *)k)->walk = w = arena_new_of(a, struct WalkState);
    while (w->stamp.len < k->exprs.len)
        vec_push(a, &w->stamp, 0);
    w->epoch++;
    w->stack.len = w->visited.len = 0;
    return w;
}

static void enter(const Kernel *k, struct WalkState *w, ExprId e)
{
    w->stamp.at[e] = w->epoch;
    vec_push(k->module->arena, &w->stack, e);
    vec_push(k->module->arena, &w->visited, 0);
}

/* The next node after all of its arguments, or NONE at the end. */
static ExprId next_node(const Kernel *k, struct WalkState *w, uint8_t stop)
{
    while (w->stack.len) {
        ExprId e = w->stack.at[w->stack.len - 1];
        uint32_t next = w->visited.at[w->stack.len - 1]++;
        if (next == x_at(k, e)->nargs || x_at(k, e)->kind == stop) {
            w->stack.len--;
            w->visited.len--;
            return e;
        }
        if (w->stamp.at[x_arg(k, e, next)] != w->epoch)
            enter(k, w, x_arg(k, e, next));
    }
    return NONE;
}

Nodes x_below(const Kernel *k, ExprId root, uint8_t stop)
{
    struct WalkState *w = begin_walk(k);
    Vec(ExprId) list = {0};
    enter(k, w, root);
    for (ExprId e = next_node(k, w, stop); e != NONE; e = next_node(k, w, stop))
        vec_push(k->module->scratch, &list, e);
    return (Nodes){list.at, list.len};
}

int x_binds(const Kernel *k, ExprId e, IndexId i)
{
    for (uint32_t b = 0; b < x_at(k, e)->nbound; b++)
        if (x_bound(k, e, b) == i)
            return 1;
    return 0;
}

int x_contains(const Kernel *k, ExprId e, ExprId node)
{
    if (node > e) /* arguments are older than what they are arguments of */
        return 0;
    struct WalkState *w = begin_walk(k);
    enter(k, w, e);
    for (ExprId at = next_node(k, w, EVERYWHERE); at != NONE; at = next_node(k, w, EVERYWHERE))
        if (at == node)
            return 1;
    return 0;
}

/* sym NONE: any. */
static int has_node(const Kernel *k, ExprId e, ExprKind kind, uint32_t sym)
{
    if (e == NONE)
        return 0;
    struct WalkState *w = begin_walk(k);
    enter(k, w, e);
    for (ExprId at = next_node(k, w, EVERYWHERE); at != NONE; at = next_node(k, w, EVERYWHERE))
        if (x_at(k, at)->kind == kind && (sym == NONE || x_at(k, at)->sym == sym))
            return 1;
    return 0;
}

/* Index variables are unique per kernel: a bound one never occurs outside its reduction. */
int x_uses_index(const Kernel *k, ExprId e, IndexId index)
{
    return e != NONE && x_at(k, e)->uses >> index % 64 & 1 && has_node(k, e, X_INDEX, index);
}

int x_uses_any(const Kernel *k, ExprId e, const IndexId *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (x_uses_index(k, e, list[i]))
            return 1;
    return 0;
}

int x_loads(const Kernel *k, ExprId e, TensorId t) { return t != NONE && has_node(k, e, X_LOAD, t); }

int x_loads_any(const Kernel *k, ExprId e) { return has_node(k, e, X_LOAD, NONE); }

uint32_t x_written_nodes(const Kernel *k, ExprId root, uint32_t most)
{
    if (root == NONE)
        return 0;
    ArenaMark mark = arena_mark(k->module->scratch);
    Nodes below = x_below(k, root, EVERYWHERE);
    ExprMap size = x_map(k, below.n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < below.n; i++) {
        n = 1;
        for (uint32_t a = 0; a < x_at(k, below.at[i])->nargs && n <= most; a++)
            n += x_map_get(&size, x_arg(k, below.at[i], a));
        *x_map_at(&size, below.at[i]) = n = n < most ? n : most + (n > most);
    }
    arena_release(k->module->scratch, mark);
    return n;
}

uint32_t x_factors(const Kernel *k, ExprId root)
{
    ArenaMark mark = arena_mark(k->module->scratch);
    Nodes below = x_below(k, root, EVERYWHERE);
    ExprMap count = x_map(k, below.n);
    uint32_t n = 1;
    for (uint32_t i = 0; i < below.n; i++) {
        ExprId e = below.at[i];
        n = 1;
        if (x_is_op(k, e, OP_neg) || x_is_op(k, e, OP_div))
            n = x_map_get(&count, x_arg(k, e, 0)) + (uint32_t)x_is_op(k, e, OP_div);
        else if (x_is_op(k, e, OP_mul))
            n = x_map_get(&count, x_arg(k, e, 0)) + x_map_get(&count, x_arg(k, e, 1));
        *x_map_at(&count, e) = n = n < FACTORS_MANY ? n : FACTORS_MANY;
    }
    arena_release(k->module->scratch, mark);
    return n;
}

int x_is_asked_for(const Kernel *k, ExprId root, ExprId node)
{
    Nodes nodes = x_below(k, root, EVERYWHERE);
    ExprMap asked = x_map(k, nodes.n);
    *x_map_at(&asked, root) = 1;
    for (uint32_t i = nodes.n; i-- > 0;) {
        ExprId e = nodes.at[i];
        if (x_map_get(&asked, e) == NONE)
            continue;
        if (e == node)
            return 1;
        int lazy = x_at(k, e)->kind == X_IF || x_is_op(k, e, OP_and) || x_is_op(k, e, OP_or);
        for (uint32_t a = 0; a < (lazy ? 1u : x_at(k, e)->nargs); a++)
            *x_map_at(&asked, x_arg(k, e, a)) = 1;
    }
    return 0;
}

int x_is_unit(const Kernel *k, ExprId e, IndexId i)
{
    const Expr *x = x_at(k, e);
    if (x->kind == X_INDEX)
        return x->sym == i;
    if (x->kind != X_OP || (x->op != OP_add && x->op != OP_sub))
        return 0;
    ExprId a = x_arg(k, e, 0), b = x_arg(k, e, 1);
    return (x_is_unit(k, a, i) && !x_uses_index(k, b, i)) ||
           (x->op == OP_add && x_is_unit(k, b, i) && !x_uses_index(k, a, i));
}

IndexId x_plain_index(const Kernel *k, ExprId e)
{
    return x_at(k, e)->kind == X_INDEX ? x_at(k, e)->sym : (IndexId)NONE;
}

ExprMap x_map(const Kernel *k, uint32_t n)
{
    Arena *a = k->module->scratch;
    uint32_t size = 4;
    while (size < n * 2)
        size *= 2;
    ExprMap m = {arena_array(a, ExprId, size), arena_array(a, ExprId, size), size - 1};
    memset(m.key, 0xff, sizeof *m.key * size); /* NONE */
    memset(m.value, 0xff, sizeof *m.value * size);
    return m;
}

static uint32_t map_place(const ExprMap *m, ExprId e)
{
    uint32_t at = (e * 2654435761u) & m->mask;
    while (m->key[at] != e && m->key[at] != NONE)
        at = (at + 1) & m->mask;
    return at;
}

ExprId *x_map_at(const ExprMap *m, ExprId e)
{
    uint32_t at = map_place(m, e);
    m->key[at] = e;
    return &m->value[at];
}

ExprId x_map_get(const ExprMap *m, ExprId e) { return m->key ? m->value[map_place(m, e)] : (ExprId)NONE; }

int x_is_among(const ExprId *list, uint32_t n, ExprId e)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == e)
            return 1;
    return 0;
}

uint32_t x_conjuncts(const Kernel *k, ExprId cond, ExprId *out, uint32_t max)
{
    uint32_t from = max, n = 0; /* out[from..max - 1] is still to be looked at, the last one in front */
    if (cond != NONE)
        out[--from] = cond;
    while (from < max) {
        ExprId e = out[from++];
        if (x_is_op(k, e, OP_and) && n + 2 <= from) {
            out[--from] = x_arg(k, e, 1);
            out[--from] = x_arg(k, e, 0);
        } else {
            out[n++] = e;
        }
    }
    return n;
}

ExprId x_rewrite(Kernel *k, ExprId root, XRewrite f, void *user)
{
    if (root == NONE)
        return NONE;
    ArenaMark mark = arena_mark(k->module->scratch);
    Nodes below = x_below(k, root, EVERYWHERE);
    ExprMap to = x_map(k, below.n);
    for (uint32_t i = 0; i < below.n; i++) {
        ExprId e = below.at[i], args[MAX_RANK + 2], fresh = e;
        uint32_t n = x_at(k, e)->nargs;
        int changed = 0;
        for (uint32_t a = 0; a < n; a++) {
            args[a] = *x_map_at(&to, x_arg(k, e, a));
            changed |= args[a] != x_arg(k, e, a);
        }
        if (changed)
            fresh = x_with_args(k, e, args);
        fresh = f(k, fresh, user);
        *x_map_at(&to, e) = fresh;
    }
    ExprId fresh = *x_map_at(&to, root);
    arena_release(k->module->scratch, mark);
    return fresh;
}

typedef struct Replace {
    ExprId from, to;
} Replace;

static ExprId replaced(Kernel *k, ExprId e, void *user)
{
    const Replace *r = user;
    (void)k;
    return e == r->from ? r->to : e;
}

ExprId x_replace(Kernel *k, ExprId e, ExprId from, ExprId to)
{
    return x_rewrite(k, e, replaced, &(Replace){from, to});
}

typedef struct Substitution {
    const IndexId *from;
    const ExprId *to;
    uint32_t n;
} Substitution;

static ExprId substitute(Kernel *k, ExprId e, void *user)
{
    const Substitution *s = user;
    const Expr *x = x_at(k, e);
    if (x->kind == X_INDEX)
        for (uint32_t i = 0; i < s->n; i++)
            if (x->sym == s->from[i])
                return s->to[i];
    return e;
}

ExprId x_substitute(Kernel *k, ExprId e, const IndexId *from, const ExprId *to, uint32_t n)
{
    uint64_t uses = 0;
    for (uint32_t i = 0; i < n; i++)
        uses |= (uint64_t)1 << from[i] % 64;
    if (e == NONE || !(x_at(k, e)->uses & uses))
        return e;
    return x_rewrite(k, e, substitute, &(Substitution){from, to, n});
}

static uint32_t copied_symbol(const Expr *x, const XMaps *maps)
{
    switch ((ExprKind)x->kind) {
    case X_LOAD: return maps->tensors[x->sym];
    case X_INDEX: return maps->indices[x->sym];
    case X_TOKEN:
    case X_SLOT:
    case X_ROW:
    case X_GROUP: return maps->routes[x->sym];
    case X_FLOAT:
    case X_INT:
    case X_EXTENT:
    case X_OP:
    case X_IF:
    case X_REDUCE:
    case X_LANES:
    case X_THREADS: break;
    }
    return x->sym;
}

static ExprId copy_node(Kernel *to, const Kernel *from, ExprId e, const ExprId *args, const XMaps *maps)
{
    Expr x = *x_at(from, e);
    uint32_t sym = copied_symbol(&x, maps);
    IndexId bound[UINT8_MAX];
    for (uint32_t i = 0; i < x.nbound; i++)
        bound[i] = maps->indices[x_bound(from, e, i)];
    switch ((ExprKind)x.kind) {
    case X_FLOAT: return x_float(to, x.loc, x.value.f);
    case X_INT: return x_int(to, x.loc, x.value.i);
    case X_EXTENT: return x_extent(to, x.loc, sym);
    case X_INDEX: return x_index(to, x.loc, sym);
    case X_OP:
        return x.nargs == 1 ? x_op1(to, x.loc, (ScalarOp)x.op, args[0])
                            : x_op2(to, x.loc, (ScalarOp)x.op, args[0], args[1]);
    case X_LOAD: return x_load(to, x.loc, sym, args);
    case X_IF: return x_if(to, x.loc, args[0], args[1], args[2]);
    case X_REDUCE:
        return x_reduce(to, x.loc, (ReduceKind)x.op, bound, x.nbound, args[0],
                        x.nargs > 1 ? args[1] : (ExprId)NONE);
    case X_TOKEN: return x_token(to, x.loc, sym, args[0]);
    case X_SLOT: return x_slot(to, x.loc, sym, args[0]);
    case X_ROW: return x_row(to, x.loc, sym, args[0], args[1]);
    case X_GROUP: return x_group(to, x.loc, sym, args[0]);
    case X_LANES: return x_lanes(to, x.loc, (ReduceKind)x.op, args[0]);
    case X_THREADS: return x_threads(to, x.loc);
    }
    BUG(to->module->arena, "expression kind %d cannot be copied", x.kind);
}

ExprId x_copy(Kernel *to, const Kernel *from, ExprId root, const XMaps *maps)
{
    if (root == NONE)
        return NONE;
    ArenaMark mark = arena_mark(from->module->scratch);
    Nodes below = x_below(from, root, EVERYWHERE);
    ExprMap fresh = x_map(from, below.n);
    for (uint32_t i = 0; i < below.n; i++) {
        ExprId e = below.at[i], args[MAX_RANK + 2];
        for (uint32_t a = 0; a < x_at(from, e)->nargs; a++)
            args[a] = *x_map_at(&fresh, x_arg(from, e, a));
        *x_map_at(&fresh, e) = copy_node(to, from, e, args, maps);
    }
    ExprId copy = *x_map_at(&fresh, root);
    arena_release(from->module->scratch, mark);
    return copy;
}
