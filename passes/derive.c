/* derive: reverse mode on equations. Each request `derive (F, B) from K` becomes two kernels: F is K that
 * also writes what is saved, B takes K's inputs, the saved values and the cotangents of K's outputs, and
 * gives those of the targets (in two kernels for `derive (F, B, L)`). This file makes the signatures and carries the forward over; derive.h tells the
 * rest. */
#include "passes/derive.h"

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

Kernel *derive_kernel_like(const Kernel *from, Name name, const Derive *d)
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

void derive_copy_equations(const Kernel *from, Kernel *to)
{
    Arena *a = to->module->arena;
    XMaps maps = {identity(a, from->tensors.len), identity(a, from->routes.len),
                  identity(a, from->indices.len)};
    for (uint32_t i = 0; i < from->eqs.len; i++) {
        Equation q = from->eqs.at[i];
        if (q.kind == EQ_CHECK || q.dead)
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

void derive_add_param(Kernel *k, Param p) { vec_push(k->module->arena, &k->params, p); }

static Name prefixed(Module *m, Name name) { return name_of(m->names, arena_printf(m->arena, "d_%s", name)); }

void derive_add_rounded(Sweep *s, TensorId t, Elem elem)
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
    derive_over(s, t, over);
    derive_emit(s, EQ_ASSIGN, out.loc, id, over, derive_cast(k, derive_load(k, t, over), elem));
    derive_add_param(k, (Param){PARAM_TENSOR, id});
}

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

static void make_forward(Request *r)
{
    const Kernel *from = r->from;
    Kernel *k = derive_kernel_like(from, r->d->forward, r->d);
    for (uint32_t i = 0; i < from->params.len; i++)
        derive_add_param(k, from->params.at[i]);
    derive_copy_equations(from, k);
    Sweep sweep = {.k = k, .arena = r->m->arena};
    for (uint32_t i = 0; i < r->d->save.len; i++) {
        const struct DeriveSave *s = &r->d->save.at[i];
        TensorId t = ir_find_tensor(from, s->name);
        if (from->tensors.at[t].role != ROLE_LOCAL || s->in)
            continue; /* an output is there already */
        if (s->elem != from->tensors.at[t].elem) {
            derive_add_rounded(&sweep, t, s->elem);
            continue;
        }
        k->tensors.at[t].role = ROLE_OUT;
        k->tensors.at[t].space = SPACE_GM;
        derive_add_param(k, (Param){PARAM_TENSOR, t});
    }
}

/* ---- the backward kernel ---- */

static ExprId settle(Kernel *k, ExprId e, void *user)
{
    (void)user;
    return x_is_op(k, e, OP_shift) ? x_op1(k, x_at(k, e)->loc, OP_stop, x_arg(k, e, 0)) : e;
}

/* What was saved scales with x itself, so in the backward shift(x) is x. */
static void settle_shifts(Kernel *k)
{
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (k->eqs.at[i].rhs != NONE)
            k->eqs.at[i].rhs = x_rewrite(k, k->eqs.at[i].rhs, settle, NULL);
}

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
    Name name = prefixed(r->m, r->from->tensors.at[of].name);
    make_way(r, k, name, loc);
    Tensor t = k->tensors.at[of];
    t.name = name;
    t.elem = elem;
    t.role = role;
    t.space = SPACE_GM;
    t.layout = LAYOUT_ROWS; /* a gradient is what an optimizer reads, not what a product does */
    t.both = 0;
    TensorId id = ir_tensor(k, t);
    derive_add_param(k, (Param){PARAM_TENSOR, id});
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
            derive_add_param(k, p);
    }
    for (uint32_t i = 0; i < r->d->save.len; i++) {
        const struct DeriveSave *s = &r->d->save.at[i];
        TensorId t = ir_find_tensor(from, s->name);
        if (s->in) {
            make_way(r, k, s->in, s->loc);
            ir_rename(k, t, NULL);
            ir_rename(k, t, s->in);
        }
        k->tensors.at[t].elem = s->elem;
        k->tensors.at[t].role = ROLE_IN;
        k->tensors.at[t].space = SPACE_GM;
        derive_adjoint(&r->sweep, t)->saved = 1;
        derive_add_param(k, (Param){PARAM_TENSOR, t});
    }
}

/* Of `wrt x pass` no parameter is made: d_x is a local, which derive_prove_pass() looks at. */
static TensorId target_of(Request *r, Kernel *k, TensorId t, const struct DeriveWrt *w)
{
    switch (w->mode) {
    case GRAD_WRITE: return gradient_param(r, k, t, k->tensors.at[t].elem, ROLE_OUT, w->loc);
    case GRAD_WRITE_F32: return gradient_param(r, k, t, EL_F32, ROLE_OUT, w->loc);
    case GRAD_ADD: return gradient_param(r, k, t, EL_F32, ROLE_INOUT, w->loc);
    case GRAD_PASS: break;
    }
    const Tensor x = k->tensors.at[t];
    return derive_local(&r->sweep, prefixed(r->m, x.name), w->loc, x.elem, x.axes, x.rank);
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
        TensorId d = target_of(r, k, t, w);
        Adjoint *a = derive_adjoint(&r->sweep, t);
        a->target = d;
        a->mode = w->mode;
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
    Kernel *k = derive_kernel_like(r->from, r->d->backward, r->d);
    r->sweep = (Sweep){.k = k,
                       .arena = r->m->arena,
                       .cotangents_f32 = r->d->cotangents_f32,
                       .root = NONE,
                       .root_value = NONE};
    take_inputs(r, k);
    take_cotangents(r, k);
    derive_copy_equations(r->from, k);
    settle_shifts(k);
    derive_normalise(&r->sweep);
    uint32_t nforward = k->eqs.len;
    derive_sweep(&r->sweep, r->targets.at, r->targets.len);
    check_reached(r);
    drop_saved(&r->sweep, nforward);
}

/* ---- what was made ---- */

static void record_pair(Request *r, DerivedPair *pair)
{
    const Derive *d = r->d;
    Arena *a = r->m->arena;
    const Kernel *k = r->sweep.k;
    *pair =
        (DerivedPair){.from = d->kernel, .forward = d->forward, .backward = d->backward, .later = d->later};
    for (uint32_t i = 0; i < d->save.len; i++) {
        const struct DeriveSave *s = &d->save.at[i];
        vec_push(a, &pair->saved, (struct PairSaved){s->name, s->in ? s->in : s->name, s->type});
    }
    for (uint32_t i = 0; i < r->from->params.len; i++) {
        Param p = r->from->params.at[i];
        TensorId in = p.kind == PARAM_TENSOR ? derive_adjoint(&r->sweep, p.id)->incoming : (TensorId)NONE;
        if (in != NONE)
            vec_push(a, &pair->cotangents,
                     (struct PairCotangent){r->from->tensors.at[p.id].name, k->tensors.at[in].name});
    }
}

static void record_gradients(Request *r, DerivedPair *pair)
{
    const Kernel *k = r->sweep.k;
    for (uint32_t i = 0; i < r->d->wrt.len; i++) {
        const struct DeriveWrt *w = &r->d->wrt.at[i];
        const Adjoint *x = derive_adjoint(&r->sweep, r->targets.at[i]);
        TensorId target = x->target;
        struct PairGradient g = {.input = w->name, .mode = w->mode, .later = w->later};
        TensorId output = w->mode == GRAD_PASS && x->contributions.len
                              ? derive_prove_pass(&r->sweep, target, w)
                              : (TensorId)NONE;
        if (w->mode != GRAD_PASS)
            g.param = k->tensors.at[target].name;
        else if (output != NONE)
            g.output = r->from->tensors.at[output].name;
        vec_push(r->m->arena, &pair->gradients, g);
    }
}

/* The second backward kernel, when the request wants one. */
static void split_backward(Request *r, DerivedPair *pair)
{
    Vec(TensorId) later = {0};
    if (!r->d->later || r->m->diags->errors)
        return;
    for (uint32_t i = 0; i < r->d->wrt.len; i++)
        if (r->d->wrt.at[i].later && r->d->wrt.at[i].mode != GRAD_PASS)
            vec_push(r->m->arena, &later, derive_adjoint(&r->sweep, r->targets.at[i])->target);
    derive_split(&r->sweep, (DeriveLater){later.at, later.len}, pair);
}

/* Before:  y[t] = w[id[t]]         After, wrt w:  d_w[v] = sum(t where id[t] == v) d_y[t]
 * Requires: requests that the frontend has checked, equations as it or canonicalise leaves them. Gives: two
 * kernels, or three, and an entry of Module.pairs for each request; the list of requests is empty afterwards,
 * Kernel.derived keeps each. Reports what only the derivative shows: a target that no output depends on, or that is
 * not a cotangent unchanged where `pass` says so. Recomputed values that nothing needs are left to dce. */
void pass_derive(Module *m, const PassContext *c)
{
    (void)c;
    for (uint32_t i = 0; i < m->derives.len; i++) {
        Request r = {.m = m, .d = &m->derives.at[i], .from = ir_find_kernel(m, m->derives.at[i].kernel)};
        for (uint32_t w = 0; w < r.d->wrt.len; w++)
            vec_push(m->arena, &r.targets, ir_find_tensor(r.from, r.d->wrt.at[w].name));
        make_forward(&r);
        make_backward(&r);
        DerivedPair pair;
        record_pair(&r, &pair);
        record_gradients(&r, &pair);
        derive_reassociate(r.sweep.k);
        split_backward(&r, &pair);
        vec_push(m->arena, &m->pairs, pair);
    }
    m->derives.len = 0;
}
