/* derive: which kernel, by which parameters, saving what. The derivative itself is made by passes/derive. */
#include "frontend/sema.h"

Kernel *sema_target(Sema *c, const AstDecl *d, int may_be_derived)
{
    if (namemap_get(&c->bad, d->name.name) != NAME_ABSENT)
        return NULL;
    Kernel *k = ir_find_kernel(c->m, d->name.name);
    if (k || (may_be_derived && namemap_get(&c->derived, d->name.name) != NAME_ABSENT) || c->broken)
        return k;
    Guess g = guess_new(d->name.name);
    for (uint32_t i = 0; i < c->m->kernels.len; i++)
        guess_try(&g, c->m->kernels.at[i]->name);
    for (uint32_t i = 0; may_be_derived && i < c->m->derives.len; i++) {
        guess_try(&g, c->m->derives.at[i].forward);
        guess_try(&g, c->m->derives.at[i].backward);
        if (c->m->derives.at[i].later)
            guess_try(&g, c->m->derives.at[i].later);
    }
    const char *help = c->m->kernels.len
                           ? arena_printf(c->arena, "name a kernel, such as %s", c->m->kernels.at[0]->name)
                           : "declare the kernel";
    diag_add(c->m->diags, DIAG_unknown_kernel, d->name.loc, guess_help(c->arena, &g, help),
             "there is no kernel %s", d->name.name);
    guess_edit(c->m->diags, &g, d->name.loc);
    return NULL;
}

static int refuse(Sema *c, DiagCode code, Loc loc, const char *help, const char *what, Name name)
{
    diag_add(c->m->diags, code, loc, help, "%s %s", name, what);
    return 0;
}

/* ---- wrt ---- */

static const char *help_inputs(Sema *c, const Kernel *k, Name wanted)
{
    Guess g = guess_new(wanted);
    Name first = NULL;
    for (uint32_t i = 0; i < k->params.len; i++) {
        const Tensor *t = k->params.at[i].kind == PARAM_TENSOR ? &k->tensors.at[k->params.at[i].id] : NULL;
        if (!t || t->role != ROLE_IN || t->elem == EL_I32)
            continue;
        first = first ? first : t->name;
        guess_try(&g, t->name);
    }
    return guess_help(c->arena, &g,
                      first ? arena_printf(c->arena, "name a float input, such as %s", first)
                            : "give the kernel a float input");
}

static int wrt_ok(Sema *c, const Kernel *k, const AstWrt *w)
{
    Name name = w->name.name;
    TensorId t = ir_find_tensor(k, name);
    if (ir_find_route(k, name) != NONE)
        return refuse(c, DIAG_derive_route, w->name.loc, help_inputs(c, k, name),
                      "is a route, whose choices are not differentiable", name);
    if (t == NONE || k->tensors.at[t].role != ROLE_IN)
        return refuse(c, DIAG_derive_not_input, w->name.loc, help_inputs(c, k, name),
                      "is not an in parameter of the kernel", name);
    if (k->tensors.at[t].elem == EL_I32)
        return refuse(c, DIAG_derive_integer, w->name.loc, help_inputs(c, k, name),
                      "holds integers, which have no gradient", name);
    return 1;
}

/* A third kernel has targets of its own behind `then`, and they need it. */
static int later_ok(Sema *c, const AstDecl *d)
{
    const AstWrt *last = &d->wrts->list.at[d->wrts->list.len - 1];
    if (last->later == (d->later.name != NULL))
        return 1;
    if (last->later)
        return refuse(c, DIAG_derive_then, last->name.loc,
                      "name a third kernel in the brackets, or write `,` for `then`",
                      "stands behind `then`, but no kernel is there for it", last->name.name);
    return refuse(c, DIAG_derive_then, d->later.loc,
                  "write `then` before the targets that it makes, or take it out", "is given no target",
                  d->later.name);
}

static int wrts_ok(Sema *c, const Kernel *k, const AstDecl *d, Derive *out)
{
    NameMap seen = {.arena = c->arena};
    for (uint32_t i = 0; i < d->wrts->list.len; i++) {
        const AstWrt *w = &d->wrts->list.at[i];
        if (!wrt_ok(c, k, w))
            return 0;
        if (namemap_get(&seen, w->name.name) != NAME_ABSENT)
            return refuse(c, DIAG_derive_not_input, w->name.loc, "name it once", "is named twice",
                          w->name.name);
        namemap_set(&seen, w->name.name, i);
        vec_push(c->arena, &out->wrt, (struct DeriveWrt){w->name.name, w->name.loc, w->mode, w->later});
    }
    return later_ok(c, d);
}

/* ---- save ---- */

/* The element type of a parameter, as the text has it. */
static Name declared_type(const Sema *c, Name kernel, Name param)
{
    for (uint32_t i = 0; i < c->decls.len; i++) {
        const AstDecl *d = c->decls.at[i];
        for (uint32_t p = 0; d->kind == DECL_KERNEL && d->name.name == kernel && p < d->params->list.len; p++)
            if (d->params->list.at[p].name.name == param)
                return d->params->list.at[p].type->elem.name;
    }
    BUG(c->arena, "kernel %s lost its parameter %s", kernel, param);
}

/* What becomes a parameter must not be called like a word of C. */
static int name_ok(Sema *c, Name name, Loc loc, const char *what)
{
    return !name_is_c_word(name) ||
           refuse(c, DIAG_reserved_name, loc,
                  arena_printf(c->arena, "give it another name in the kernel, such as %s",
                               name_for_c(c->arena, name)),
                  arena_printf(c->arena, "%s: C or C++ takes that name", what), name);
}

/* Which locals one backward kernel hands to the other is not known yet. */
static int handed_ok(Sema *c, const Kernel *k)
{
    for (TensorId t = 0; t < k->tensors.len; t++)
        if (k->tensors.at[t].role == ROLE_LOCAL && !name_ok(c, k->tensors.at[t].name, k->tensors.at[t].loc,
                                                            "may become a parameter of backward kernels"))
            return 0;
    return 1;
}

static int save_ok(Sema *c, const Kernel *k, const AstSave *s, Elem elem)
{
    Name name = s->name.name;
    TensorId id = ir_find_tensor(k, name);
    if (ir_find_route(k, name) != NONE)
        return refuse(c, DIAG_save_unknown, s->name.loc, SAVED_ROUTE_HELP, SAVED_ROUTE, name);
    if (id == NONE || k->tensors.at[id].role == ROLE_IN || k->tensors.at[id].role == ROLE_INOUT) {
        Guess g = guess_new(name);
        for (TensorId t = 0; t < k->tensors.len; t++)
            if (k->tensors.at[t].role == ROLE_LOCAL || k->tensors.at[t].role == ROLE_OUT)
                guess_try(&g, k->tensors.at[t].name);
        refuse(c, DIAG_save_unknown, s->name.loc,
               guess_help(c->arena, &g, "name a local or an out of the kernel"),
               id == NONE ? "is no local of the kernel" : "is a parameter: the backward has it anyway", name);
        guess_edit(c->m->diags, &g, s->name.loc);
        return 0;
    }
    const Tensor *t = &k->tensors.at[id];
    const char *type = t->role == ROLE_OUT ? declared_type(c, k->name, name) : elem_name(t->elem);
    int fits = t->role == ROLE_OUT ? s->elem.name == type
                                   : t->elem != EL_I64 && (elem == EL_I32) == (t->elem == EL_I32);
    if (fits)
        return 1;
    const char *help =
        t->elem == EL_I64 ? "leave it out: the backward computes it again" : "save it as what it is";
    refuse(c, DIAG_save_type, s->name.loc, help,
           arena_printf(c->arena, "is %s and cannot be saved as %s", type, s->elem.name), name);
    if (t->elem != EL_I64)
        diag_edit(c->m->diags, s->elem.loc, type);
    return 0;
}

static int has_same_axes(const Module *m, const Tensor *a, const Tensor *b)
{
    int same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = axis_same(m, a->axes[i], b->axes[i]);
    return same;
}

/* Is q out[i, j] = elem(t[i, j])? The store converts, too. */
static int copies(Kernel *k, const Equation *q, TensorId t, Elem elem)
{
    if (q->kind != EQ_ASSIGN || !has_same_axes(k->module, &k->tensors.at[q->lhs], &k->tensors.at[t]))
        return 0;
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_plain_index(k, q->index[i]) == NONE)
            return 0;
    Type stored = elem_type(elem);
    return x_as(k, q->rhs, stored) == x_as(k, x_load(k, q->loc, t, q->index), stored);
}

/* Why the local, which is saved as s says, does not stand in `out`; NULL: it does. */
static const char *not_held(Sema *c, Kernel *k, const AstSave *s, Elem elem, TensorId out)
{
    const TensorId local = ir_find_tensor(k, s->name.name);
    if (out == NONE || k->tensors.at[out].role != ROLE_OUT)
        return "is no out of the kernel";
    if (k->tensors.at[local].role == ROLE_OUT)
        return arena_printf(c->arena, "cannot stand for %s, which is an out itself", s->name.name);
    if (k->tensors.at[out].elem != elem)
        return arena_printf(c->arena, "is %s, but %s is saved as %s", elem_name(k->tensors.at[out].elem),
                            s->name.name, s->elem.name);
    if (k->tensors.at[out].layout != LAYOUT_ROWS)
        return arena_printf(c->arena, "is packed, and %s is saved in rows", s->name.name);
    for (uint32_t i = 0; i < k->eqs.len; i++)
        if (k->eqs.at[i].lhs == out && copies(k, &k->eqs.at[i], local, elem))
            return NULL;
    return arena_printf(c->arena, "is not %s(%s[...]), element by element", s->elem.name, s->name.name);
}

/* `r as act in o` */
static int save_in_ok(Sema *c, Kernel *k, const AstSave *s, Elem elem)
{
    const Name name = s->in.name;
    const char *why = name ? not_held(c, k, s, elem, ir_find_tensor(k, name)) : NULL;
    return !why ||
           refuse(c, DIAG_save_unknown, s->in.loc,
                  arena_printf(c->arena, "save %s as %s, without `in %s`", s->name.name, s->elem.name, name),
                  why, name);
}

static int saved_once(Sema *c, NameMap *seen, AstName name)
{
    if (namemap_get(seen, name.name) != NAME_ABSENT)
        return refuse(c, DIAG_save_unknown, name.loc, "name it once", "is saved twice", name.name);
    namemap_set(seen, name.name, 1);
    return 1;
}

static int saves_ok(Sema *c, Kernel *k, const AstDecl *d, Derive *out)
{
    NameMap seen = {.arena = c->arena};
    for (uint32_t i = 0; d->saves && i < d->saves->list.len; i++) {
        const AstSave *s = &d->saves->list.at[i];
        Elem elem;
        const AstName param = s->in.name ? s->in : s->name;
        if (!sema_elem(c, s->elem, &elem) || !save_ok(c, k, s, elem) || !save_in_ok(c, k, s, elem) ||
            !name_ok(c, param.name, param.loc, "becomes a parameter") || !saved_once(c, &seen, s->name) ||
            (s->in.name && !saved_once(c, &seen, s->in)))
            return 0;
        vec_push(c->arena, &out->save,
                 (struct DeriveSave){s->name.name, s->name.loc, elem, s->elem.name, s->in.name});
    }
    return 1;
}

/* Is t handed to the backward as it is? */
static const struct DeriveSave *save_of(const Derive *d, Name name)
{
    for (uint32_t i = 0; i < d->save.len; i++)
        if (d->save.at[i].name == name)
            return &d->save.at[i];
    return NULL;
}

static int is_saved(const Kernel *k, const Derive *d, TensorId t)
{
    const struct DeriveSave *s = save_of(d, k->tensors.at[t].name);
    return s ? s->elem == k->tensors.at[t].elem : k->tensors.at[t].role != ROLE_LOCAL;
}

/* The first local that x is computed from and that the backward would not have; NONE: it has x. */
static TensorId missing_of(const Kernel *k, const Derive *d, ExprId x)
{
    each_below (n, k, x, EVERYWHERE)
        if (x_at(k, *n)->kind == X_LOAD && !is_saved(k, d, x_at(k, *n)->sym))
            return x_at(k, *n)->sym;
    return NONE;
}

/* What scales with shift(x) is of use to the backward only beside x, which stands for shift(x) there. */
static int saves_known(Sema *c, Kernel *k, const Derive *d)
{
    ShiftFault fault;
    const Shift *shifts = ir_shifts(k, c->arena, &fault);
    for (uint32_t i = 0; i < d->save.len && !fault.why; i++) {
        const struct DeriveSave *s = &d->save.at[i];
        const Shift *shift = &shifts[ir_find_tensor(k, s->name)];
        TensorId missing = shift->of == NONE ? (TensorId)NONE : missing_of(k, d, shift->of);
        if (missing == NONE)
            continue;
        const Tensor *t = &k->tensors.at[missing];
        const struct DeriveSave *rounded = save_of(d, t->name);
        const char *what =
            rounded ? arena_printf(c->arena, "saved as %s", elem_name(rounded->elem)) : "not saved";
        return refuse(
            c, DIAG_shift, s->loc, arena_printf(c->arena, "save %s as %s", t->name, elem_name(t->elem)),
            arena_printf(c->arena, "is saved but scales with a shift by %s, which is %s", t->name, what),
            s->name);
    }
    return 1;
}

/* ---- derive ---- */

static int kernel_ok(Sema *c, const Kernel *k, const AstDecl *d)
{
    int floats = 0;
    for (uint32_t i = 0; i < k->params.len; i++) {
        if (k->params.at[i].kind != PARAM_TENSOR)
            continue;
        const Tensor *t = &k->tensors.at[k->params.at[i].id];
        if (t->role == ROLE_INOUT)
            return refuse(c, DIAG_derive_inout, d->name.loc, "write a kernel with in and out parameters",
                          arena_printf(c->arena, "has the inout parameter %s and cannot be derived", t->name),
                          k->name);
        floats += t->role == ROLE_OUT && t->elem != EL_I32;
    }
    return floats ? 1
                  : refuse(c, DIAG_derive_nothing, d->name.loc, "give it a float output",
                           "has no float output", k->name);
}

/* Is the name of a kernel that is to be made free? Then it is taken. */
static int take_name(Sema *c, AstName name)
{
    if (!name.name)
        return 1;
    if (!sema_kernel_name(c, name))
        return 0;
    namemap_set(&c->derived, name.name, 1);
    return 1;
}

void sema_derive(Sema *c, const AstDecl *d)
{
    if (!take_name(c, d->forward) || !take_name(c, d->backward) || !take_name(c, d->later))
        return;
    Kernel *k = sema_target(c, d, 0);
    Derive out = {.forward = d->forward.name,
                  .backward = d->backward.name,
                  .later = d->later.name,
                  .kernel = d->name.name,
                  .loc = d->loc,
                  .cotangents_f32 = d->cotangents_f32};
    if (k && kernel_ok(c, k, d) && wrts_ok(c, k, d, &out) && saves_ok(c, k, d, &out) &&
        saves_known(c, k, &out) && (!out.later || handed_ok(c, k)))
        vec_push(c->arena, &c->m->derives, out);
}
