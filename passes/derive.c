/* derive: reverse mode on equations. Each request `derive (F, B) from K` becomes two kernels: F is K that
 * also writes what is saved, B takes K's inputs, the saved values and the cotangents of K's outputs, and
 * gives those of the targets. This file makes the signatures and carries the forward over; derive.h tells the
 * rest. */
#include "passes/derive.h"

#include <ctype.h>
#include <string.h>

/* ---- builders that the files of derive share ---- */

Adjoint *derive_adjoint(Sweep *s, TensorId t)
{
    while (s->tensors.len <= t)
        vec_push(s->arena, &s->tensors, (Adjoint){.incoming = NONE, .target = NONE, .cotangent = NONE});
    return &s->tensors.at[t];
}

IndexId derive_index_like(Kernel *k, IndexId i)
{
    Index x = k->indices.at[i];
    return ir_index(k, x.name, x.loc, x.axis); /* names are hints; the printer keeps them apart */
}

/* A name for an index over axis `at` of t: as its readers or its definition call it, else after its extent.
 */
static Name index_name(Sweep *s, TensorId t, uint32_t at)
{
    Kernel *k = s->k;
    Module *m = k->module;
    const Adjoint *a = derive_adjoint(s, t);
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->lhs == t && q->kind != EQ_CHECK && x_at(k, q->index[at])->kind == X_INDEX)
            return k->indices.at[x_at(k, q->index[at])->sym].name;
    }
    for (uint32_t i = 0; i < a->contributions.len; i++) {
        const Expr *x = x_at(k, a->contributions.at[i].subscript[at]);
        if (x->kind == X_INDEX)
            return k->indices.at[x->sym].name;
    }
    Axis axis = k->tensors.at[t].axes[at];
    const ExtentForm *f = &m->extents.at[axis.extent];
    const char *name = axis.group != NONE               ? m->groups.at[axis.group].name
                       : f->nterms && f->terms[0].ndims ? m->dims.at[f->terms[0].dims[0]].name
                                                        : "i";
    char stem[2] = {(char)tolower((unsigned char)name[0]), '\0'};
    return name_of(m->names, isalpha((unsigned char)stem[0]) ? stem : "i");
}

void derive_over(Sweep *s, TensorId t, IndexId *over)
{
    const Tensor x = s->k->tensors.at[t];
    for (uint32_t i = 0; i < x.rank; i++)
        over[i] = ir_index(s->k, index_name(s, t, i), x.loc, x.axes[i]);
}

TensorId derive_local(Sweep *s, const char *stem, Loc loc, Elem elem, const Axis *axes, uint32_t rank)
{
    Tensor t = {.name = ir_fresh_name(s->k, stem),
                .loc = loc,
                .elem = elem,
                .role = ROLE_LOCAL,
                .rank = (uint8_t)rank,
                .space = SPACE_WORK,
                .route = NONE};
    if (rank)
        memcpy(t.axes, axes, sizeof *axes * rank);
    TensorId id = ir_tensor(s->k, t);
    derive_adjoint(s, id);
    return id;
}

void derive_emit(Sweep *s, EqKind kind, Loc loc, TensorId lhs, const IndexId *over, ExprId rhs)
{
    Equation q = ir_equation(kind, loc);
    q.lhs = lhs;
    q.rhs = rhs;
    q.nindex = s->k->tensors.at[lhs].rank;
    for (uint32_t i = 0; i < q.nindex; i++)
        q.index[i] = x_index(s->k, loc, over[i]);
    vec_push(s->arena, &s->k->eqs, q);
}

ExprId derive_cast(Kernel *k, ExprId e, Elem elem) { return x_as(k, e, elem_type(elem)); }

ExprId derive_sum(Kernel *k, ExprId a, ExprId b)
{
    if (a == NONE || b == NONE)
        return a == NONE ? b : a;
    return x_op2(k, x_at(k, b)->loc, OP_add, a, b);
}

ExprId derive_load(Kernel *k, TensorId t, const IndexId *over)
{
    ExprId subscripts[MAX_RANK];
    Loc loc = k->tensors.at[t].loc;
    for (uint32_t i = 0; i < k->tensors.at[t].rank; i++)
        subscripts[i] = x_index(k, loc, over[i]);
    return x_load(k, loc, t, subscripts);
}

/* ---- what depends on a target ---- */

static int active_node(Sweep *s, ExprId e)
{
    const Kernel *k = s->k;
    const Expr *x = x_at(k, e);
    if (!type_is_float((Type)x->type))
        return 0;
    switch ((ExprKind)x->kind) {
    case X_LOAD: return derive_adjoint(s, x->sym)->active;
    case X_IF: return s->active.at[x_arg(k, e, 1)] == 2 || s->active.at[x_arg(k, e, 2)] == 2;
    case X_REDUCE: return s->active.at[x_arg(k, e, 0)] == 2;
    case X_OP:
        for (uint32_t i = 0; i < x->nargs; i++)
            if (*scalar_table[x->op].gradient[i] && s->active.at[x_arg(k, e, i)] == 2)
                return 1;
        return 0;
    case X_FLOAT:
    case X_INT:
    case X_EXTENT:
    case X_INDEX:
    case X_TOKEN:
    case X_SLOT:
    case X_ROW:
    case X_GROUP:
    case X_LANES:
    case X_THREADS: break;
    }
    return 0;
}

/* The memo is by node: a tensor's `active` is set before anything loads it. */
int derive_is_active(Sweep *s, ExprId e)
{
    while (s->active.len <= e)
        vec_push(s->arena, &s->active, 0);
    if (s->active.at[e])
        return s->active.at[e] == 2;
    each_below (n, s->k, e, EVERYWHERE)
        if (!s->active.at[*n])
            s->active.at[*n] = active_node(s, *n) ? 2 : 1;
    return s->active.at[e] == 2;
}

/* ---- the forward, carried over ---- */

/* A new kernel with K's tensors, routes and indices under the same ids; no parameters and no equations yet.
 */
static Kernel *kernel_like(const Kernel *from, Name name, const Derive *d)
{
    Module *m = from->module;
    Kernel *k = ir_kernel(m, name, d->loc);
    k->derived = d;
    for (TensorId t = 0; t < from->tensors.len; t++)
        ir_tensor(k, from->tensors.at[t]);
    for (RouteId r = 0; r < from->routes.len; r++)
        vec_push(m->arena, &k->routes, from->routes.at[r]);
    for (IndexId i = 0; i < from->indices.len; i++)
        vec_push(m->arena, &k->indices, from->indices.at[i]);
    return k;
}

static uint32_t *identity(Arena *a, uint32_t n)
{
    uint32_t *map = arena_array(a, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++)
        map[i] = i;
    return map;
}

/* A local keeps its element type when what it copies was saved in another one. */
static ExprId converted(Kernel *k, const Equation *q, ExprId rhs)
{
    const Tensor *t = &k->tensors.at[q->lhs];
    Type type = (Type)x_at(k, rhs)->type;
    int keeps = t->role != ROLE_LOCAL || type == TY_INT || type == elem_type(t->elem);
    return keeps ? rhs : derive_cast(k, rhs, t->elem);
}

static void copy_equations(const Kernel *from, Kernel *to)
{
    Arena *a = to->module->arena;
    XMaps maps = {identity(a, from->tensors.len), identity(a, from->routes.len),
                  identity(a, from->indices.len)};
    for (uint32_t i = 0; i < from->eqs.len; i++) {
        Equation q = from->eqs.at[i];
        if (q.kind == EQ_CHECK)
            continue;
        for (uint32_t n = 0; n < q.nindex; n++)
            q.index[n] = x_copy(to, from, q.index[n], &maps);
        if (q.rhs != NONE)
            q.rhs = x_copy(to, from, q.rhs, &maps);
        if (q.kind == EQ_ASSIGN)
            q.rhs = converted(to, &q, q.rhs);
        vec_push(a, &to->eqs, q);
    }
}

static void add_param(Kernel *k, Param p) { vec_push(k->module->arena, &k->params, p); }

static Name prefixed(Module *m, Name name) { return name_of(m->names, arena_printf(m->arena, "d_%s", name)); }

/* ---- requests ---- */

typedef struct Request {
    Module *m;
    const Derive *d;
    Kernel *from;
    Sweep sweep;
    Vec(TensorId) targets;
} Request;

static int is_float_elem(Elem e) { return e == EL_F32 || e == EL_BF16 || e == EL_F16; }

/* ---- the forward kernel ---- */

/* X saved in another type: the local gets a second name, and X is the parameter. */
static void save_rounded(Sweep *s, TensorId t, Elem elem)
{
    Kernel *k = s->k;
    Tensor out = k->tensors.at[t];
    const char *stem = arena_printf(k->module->arena, "%s_%s", out.name, elem_name(out.elem));
    k->tensors.at[t].original = out.name;
    ir_rename(k, t, ir_fresh_name(k, stem));
    out.elem = elem;
    out.role = ROLE_OUT;
    out.space = SPACE_GM;
    TensorId id = ir_tensor(k, out);
    IndexId over[MAX_RANK];
    Equation q = ir_equation(EQ_ASSIGN, out.loc);
    q.lhs = id;
    q.nindex = out.rank;
    derive_over(s, t, over);
    for (uint32_t i = 0; i < out.rank; i++)
        q.index[i] = x_index(k, out.loc, over[i]);
    q.rhs = derive_cast(k, derive_load(k, t, over), elem);
    vec_push(k->module->arena, &k->eqs, q);
    add_param(k, (Param){PARAM_TENSOR, id});
}

static void make_forward(Request *r)
{
    const Kernel *from = r->from;
    Kernel *k = kernel_like(from, r->d->forward, r->d);
    for (uint32_t i = 0; i < from->params.len; i++)
        add_param(k, from->params.at[i]);
    copy_equations(from, k);
    Sweep sweep = {.k = k, .arena = r->m->arena};
    for (uint32_t i = 0; i < r->d->save.len; i++) {
        const struct DeriveSave *s = &r->d->save.at[i];
        TensorId t = ir_find_tensor(from, s->name);
        if (from->tensors.at[t].role != ROLE_LOCAL)
            continue; /* an output is there already */
        if (s->elem != from->tensors.at[t].elem) {
            save_rounded(&sweep, t, s->elem);
            continue;
        }
        k->tensors.at[t].role = ROLE_OUT;
        k->tensors.at[t].space = SPACE_GM;
        add_param(k, (Param){PARAM_TENSOR, t});
    }
}

/* ---- the backward kernel ---- */

/* A local that has the name of a parameter to come steps aside. */
static void make_way(Request *r, Kernel *k, Name name, Loc loc)
{
    TensorId t = ir_find_tensor(k, name);
    if (t != NONE && k->tensors.at[t].role == ROLE_LOCAL) {
        ir_rename(k, t, NULL);
        ir_rename(k, t, ir_fresh_name(k, arena_printf(r->m->arena, "%s_", name)));
        return;
    }
    if (t != NONE || ir_find_route(k, name) != NONE)
        diag_add(r->m->diags, DIAG_duplicate_name, loc, "rename the parameter of the forward kernel",
                 "%s needs a parameter `%s`, but %s has one of that name", r->d->backward, name,
                 r->d->kernel);
}

static TensorId gradient_param(Request *r, Kernel *k, TensorId of, Elem elem, Role role, Loc loc)
{
    Name name = prefixed(r->m, k->tensors.at[of].name);
    make_way(r, k, name, loc);
    Tensor t = k->tensors.at[of];
    t.name = name;
    t.elem = elem;
    t.role = role;
    t.space = SPACE_GM;
    t.layout = LAYOUT_ROWS; /* a gradient is what an optimizer reads, not what a product does */
    t.both = 0;
    TensorId id = ir_tensor(k, t);
    add_param(k, (Param){PARAM_TENSOR, id});
    return id;
}

static void take_inputs(Request *r, Kernel *k)
{
    const Kernel *from = r->from;
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (k->tensors.at[t].role == ROLE_OUT) {
            k->tensors.at[t].role = ROLE_LOCAL;
            k->tensors.at[t].space = SPACE_WORK;
            k->tensors.at[t].layout = LAYOUT_ROWS;
            k->tensors.at[t].both = 0;
        }
    for (RouteId i = 0; i < k->routes.len; i++)
        if (k->routes.at[i].role == ROLE_OUT)
            k->routes.at[i].role = ROLE_LOCAL;
    for (uint32_t i = 0; i < from->params.len; i++) {
        Param p = from->params.at[i];
        Role role = p.kind == PARAM_TENSOR ? from->tensors.at[p.id].role : from->routes.at[p.id].role;
        if (role == ROLE_IN)
            add_param(k, p);
    }
    for (uint32_t i = 0; i < r->d->save.len; i++) {
        const struct DeriveSave *s = &r->d->save.at[i];
        TensorId t = ir_find_tensor(from, s->name);
        k->tensors.at[t].elem = s->elem;
        k->tensors.at[t].role = ROLE_IN;
        k->tensors.at[t].space = SPACE_GM;
        derive_adjoint(&r->sweep, t)->saved = 1;
        add_param(k, (Param){PARAM_TENSOR, t});
    }
}

static void take_cotangents(Request *r, Kernel *k)
{
    const Kernel *from = r->from;
    for (uint32_t i = 0; i < from->params.len; i++) {
        Param p = from->params.at[i];
        if (p.kind != PARAM_TENSOR || from->tensors.at[p.id].role != ROLE_OUT ||
            !is_float_elem(from->tensors.at[p.id].elem))
            continue;
        TensorId d = gradient_param(r, k, p.id, from->tensors.at[p.id].elem, ROLE_IN, r->d->loc);
        derive_adjoint(&r->sweep, p.id)->incoming = d;
    }
    for (uint32_t i = 0; i < r->targets.len; i++) {
        const struct DeriveWrt *w = &r->d->wrt.at[i];
        TensorId t = r->targets.at[i];
        Elem elem = w->accumulate ? EL_F32 : k->tensors.at[t].elem;
        TensorId d = gradient_param(r, k, t, elem, w->accumulate ? ROLE_INOUT : ROLE_OUT, w->loc);
        Adjoint *a = derive_adjoint(&r->sweep, t);
        a->target = d;
        a->accumulate = w->accumulate;
        a->active = 1;
    }
}

/* top gives two tensors; when one of them was saved the other is found alone. */
static void drop_saved_top(Sweep *s, Equation *q)
{
    Kernel *k = s->k;
    int values = derive_adjoint(s, q->lhs)->saved, ids = derive_adjoint(s, q->ids)->saved;
    if (values && ids) {
        q->dead = 1;
    } else if (values) {
        Tensor t = k->tensors.at[q->lhs];
        q->lhs = derive_local(s, arena_printf(s->arena, "%s_again", t.name), t.loc, t.elem, t.axes, t.rank);
    } else if (ids) {
        ExprId chosen = x_load(k, q->loc, q->ids, q->index);
        q->kind = EQ_ASSIGN;
        q->rhs = derive_cast(k, x_substitute(k, q->rhs, &q->bound, &chosen, 1), k->tensors.at[q->lhs].elem);
        q->ids = q->bound = NONE;
    }
}

/* The sweep is over: equations of what came as a parameter go. */
static void drop_saved(Sweep *s, uint32_t nforward)
{
    Kernel *k = s->k;
    for (uint32_t i = 0; i < nforward; i++) {
        Equation *q = &k->eqs.at[i];
        if (q->kind == EQ_TOP)
            drop_saved_top(s, q);
        else if (q->kind == EQ_ROUTE)
            q->dead = k->routes.at[q->route].role == ROLE_IN;
        else
            q->dead = derive_adjoint(s, q->lhs)->saved;
    }
    ir_compact(k);
}

/* A target that no gradient reaches is a mistake of the request. */
static void check_reached(Request *r)
{
    for (uint32_t i = 0; i < r->targets.len; i++) {
        const struct DeriveWrt *w = &r->d->wrt.at[i];
        if (derive_adjoint(&r->sweep, r->targets.at[i])->contributions.len == 0)
            diag_add(r->m->diags, DIAG_derive_flat, w->loc, "take it out of `wrt`",
                     "no float output of kernel %s depends on `%s` in a differentiable way", r->d->kernel,
                     w->name);
    }
}

static void make_backward(Request *r)
{
    Kernel *k = kernel_like(r->from, r->d->backward, r->d);
    r->sweep = (Sweep){.k = k,
                       .arena = r->m->arena,
                       .cotangents_f32 = r->d->cotangents_f32,
                       .root = NONE,
                       .root_value = NONE};
    take_inputs(r, k);
    take_cotangents(r, k);
    copy_equations(r->from, k);
    derive_normalise(&r->sweep);
    uint32_t nforward = k->eqs.len;
    derive_sweep(&r->sweep, r->targets.at, r->targets.len);
    check_reached(r);
    drop_saved(&r->sweep, nforward);
    derive_reassociate(k);
}

/* ---- what was made ---- */

static void record_pair(Request *r)
{
    const Derive *d = r->d;
    Module *m = r->m;
    Kernel *k = r->sweep.k;
    DerivedPair pair = {.from = d->kernel, .forward = d->forward, .backward = d->backward};
    for (uint32_t i = 0; i < d->save.len; i++)
        vec_push(m->arena, &pair.saved, (struct PairSaved){d->save.at[i].name, d->save.at[i].name});
    for (uint32_t i = 0; i < r->from->params.len; i++) {
        Param p = r->from->params.at[i];
        TensorId in = p.kind == PARAM_TENSOR ? derive_adjoint(&r->sweep, p.id)->incoming : (TensorId)NONE;
        if (in != NONE)
            vec_push(m->arena, &pair.cotangents,
                     (struct PairCotangent){r->from->tensors.at[p.id].name, k->tensors.at[in].name});
    }
    for (uint32_t i = 0; i < d->wrt.len; i++) {
        TensorId target = derive_adjoint(&r->sweep, r->targets.at[i])->target;
        vec_push(m->arena, &pair.gradients,
                 (struct PairGradient){.input = d->wrt.at[i].name,
                                       .param = k->tensors.at[target].name,
                                       .mode = d->wrt.at[i].accumulate ? GRAD_ADD : GRAD_WRITE});
    }
    vec_push(m->arena, &m->pairs, pair);
}

/* The block of a kernel that was not there when the frontend read it. */
static void check_schedules(Module *m, Name kernel)
{
    for (uint32_t i = 0; i < m->schedules.len; i++)
        if (m->schedules.at[i].kernel == kernel)
            ir_check_schedule(ir_find_kernel(m, kernel), &m->schedules.at[i]);
}

/* Before:  y[t] = w[id[t]]         After, wrt w:  d_w[v] = sum(t where id[t] == v) d_y[t]
 * Requires: requests that the frontend has checked, equations as it or canonicalise leaves them. Gives: two
 * kernels and an entry of Module.pairs for each request; the list of requests is empty afterwards, Kernel.derived
 * keeps each. Reports what only the derivative shows: a target that no output depends on. Recomputed values that
 * nothing needs are left to dce. */
void pass_derive(Module *m, const PassContext *c)
{
    (void)c;
    for (uint32_t i = 0; i < m->derives.len; i++) {
        Request r = {.m = m, .d = &m->derives.at[i], .from = ir_find_kernel(m, m->derives.at[i].kernel)};
        for (uint32_t w = 0; w < r.d->wrt.len; w++)
            vec_push(m->arena, &r.targets, ir_find_tensor(r.from, r.d->wrt.at[w].name));
        make_forward(&r);
        make_backward(&r);
        record_pair(&r);
        check_schedules(m, r.d->forward);
        check_schedules(m, r.d->backward);
    }
    m->derives.len = 0;
}
