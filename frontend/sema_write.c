/* What equations define: each element once, before it is read, and all of it. */
#include "frontend/sema.h"

#include <string.h>

/* ---- what stands ahead ---- */

static void note_ahead(KernelSema *c, const AstLhs *lhs, EqKind kind)
{
    uint32_t at = namemap_get(&c->ahead_map, lhs->name.name);
    if (at == NAME_ABSENT) {
        at = c->ahead.len;
        namemap_set(&c->ahead_map, lhs->name.name, at);
        vec_push(c->m->arena, &c->ahead, (Ahead){.name = lhs->name.name, .is_route = kind == EQ_ROUTE});
    }
    Ahead *a = &c->ahead.at[at];
    a->equations++;
    a->adds += kind == EQ_ADD ? 1 : 0;
    for (uint32_t i = 0; lhs->subscripts && i < lhs->subscripts->list.len && i < MAX_RANK; i++) {
        const AstExpr *e = lhs->subscripts->list.at[i].value;
        if (e->kind != AST_INT)
            continue;
        a->fixed[i] = 1;
        a->largest[i] = e->integer > a->largest[i] ? e->integer : a->largest[i];
    }
}

void sema_ahead_of(KernelSema *c, const AstEquations *list)
{
    for (uint32_t i = 0; i < list->list.len; i++) {
        const AstEquation *q = list->list.at[i];
        note_ahead(c, q->lhs, q->kind);
        if (q->ids_lhs)
            note_ahead(c, q->ids_lhs, q->kind);
    }
}

/* ---- reading ---- */

int sema_readable(KernelSema *c, TensorId id, Loc loc)
{
    const Tensor *t = &c->k->tensors.at[id];
    const Written *w = &c->written.at[id];
    const Ahead *ahead = sema_ahead(c, t->name);
    c->failed |= w->poisoned;
    if (c->failed || t->role == ROLE_IN)
        return !c->failed;
    if (t->role == ROLE_INOUT) {
        if (ahead && w->adds > 0 && (uint32_t)w->adds < ahead->adds)
            sema_error(c, DIAG_inout_between, loc, "read it after the last `+=`, or before the first",
                       "%s is read here between two `+=`", t->name);
        return !c->failed;
    }
    int complete = w->equations > 0 && w->left == 0;
    if (!complete && !sema_is_recurrence(c, (AstName){t->name, loc}))
        sema_error(c, DIAG_used_before, loc,
                   ahead ? "move the equations that define it above this one"
                         : "define it above with an equation",
                   "%s is read before all of it is defined", t->name);
    return !c->failed;
}

int sema_route_ready(KernelSema *c, RouteId r, Loc loc)
{
    if (namemap_get(&c->poison, c->k->routes.at[r].name) != NAME_ABSENT)
        c->failed = 1;
    else if (c->routed.at[r].line == 0)
        sema_error(c, DIAG_used_before, loc, "move the equation that makes it above this one",
                   "the route %s is used before it is made", c->k->routes.at[r].name);
    return !c->failed;
}

int sema_rows(KernelSema *c, GroupId g, Loc loc)
{
    RouteId r = ir_group_route(c->k, g);
    Name name = c->m->groups.at[g].name;
    if (r != NONE)
        return sema_route_ready(c, r, loc);
    if (c->poison.used)
        c->failed = 1;
    else
        sema_error(c, DIAG_no_route, loc,
                   arena_printf(c->m->arena, "add a parameter: in rt: route[T, K -> %s]", name),
                   "an index ranges over the rows of %s, but no route of that group is known here", name);
    return 0;
}

/* ---- slices: what constants on the left cut out ---- */

void written_add(KernelSema *c, Written w) { vec_push(c->m->arena, &c->written, w); }

/* Sets up the slices of t; 0 when an axis that is written by constants has no constant extent. */
static int open_slices(KernelSema *c, TensorId id, Written *w)
{
    const Tensor *t = &c->k->tensors.at[id];
    int64_t slices = 1, extent;
    for (uint32_t a = 0; a < t->rank; a++) {
        if (!w->fixed[a])
            continue;
        if (!ext_is_const(c->m, t->axes[a].extent, &extent) ||
            __builtin_mul_overflow(slices, extent, &slices) || slices > MAX_SLICES || slices < 0)
            return 0;
    }
    w->slice = arena_array(c->m->arena, uint8_t, slices);
    w->slices = w->left = (uint32_t)slices;
    return 1;
}

/* The constants of q at the fixed axes; -1: an index, so all. */
static int marks_slice(KernelSema *c, const Equation *q, const Written *w, const Tensor *t, uint32_t slice)
{
    for (uint32_t a = 0; a < t->rank; a++) {
        int64_t extent = 1;
        if (!w->fixed[a])
            continue;
        ext_is_const(c->m, t->axes[a].extent, &extent);
        uint32_t place = slice % (uint32_t)extent;
        slice /= (uint32_t)extent;
        if (x_at(c->k, q->index[a])->kind == X_INT && x_at(c->k, q->index[a])->value.i != (int64_t)place)
            return 0;
    }
    return 1;
}

static int overlaps(const KernelSema *c, const Equation *a, const Equation *b)
{
    for (uint32_t i = 0; i < a->nindex; i++)
        if (x_at(c->k, a->index[i])->kind == X_INT && x_at(c->k, b->index[i])->kind == X_INT &&
            a->index[i] != b->index[i])
            return 0;
    return 1;
}

/* The first equation before q that writes an element of q; NULL: there is none. */
static const Equation *written_by(const KernelSema *c, const Equation *q, TensorId id)
{
    for (uint32_t i = 0; i < c->k->eqs.len; i++) {
        const Equation *other = &c->k->eqs.at[i];
        if (other->lhs == id && other->kind != EQ_ROUTE && overlaps(c, other, q))
            return other;
    }
    return NULL;
}

/* An inout need not be written whole, so its equations are compared with each other. */
static int note_inout(KernelSema *c, const Equation *q, TensorId id, Written *w)
{
    w->equations++;
    w->adds += q->kind == EQ_ADD ? 1 : 0;
    return q->kind == EQ_ADD || !written_by(c, q, id);
}

Loc written_first(const KernelSema *c, const Equation *q, TensorId id)
{
    const Equation *by = written_by(c, q, id);
    return by ? by->loc : c->written.at[id].first;
}

int written_note(KernelSema *c, const Equation *q, TensorId id)
{
    const Tensor *t = &c->k->tensors.at[id];
    Written *w = &c->written.at[id];
    if (t->role == ROLE_INOUT)
        return note_inout(c, q, id, w);
    if (w->equations++ == 0) {
        const Ahead *ahead = sema_ahead(c, t->name);
        memcpy(w->fixed, ahead->fixed, sizeof w->fixed);
        w->first = q->loc;
        if (!open_slices(c, id, w)) {
            sema_error(c, DIAG_not_covered, q->loc,
                       "write the axis with an index, or give it a constant extent",
                       "%s is written at constants of an axis whose extent is not a small constant", t->name);
            return 1;
        }
    }
    uint32_t before = w->left;
    for (uint32_t s = 0; s < w->slices; s++) {
        if (!marks_slice(c, q, w, t, s))
            continue;
        if (w->slice[s])
            return 0;
        w->slice[s] = 1;
        w->left--;
    }
    return w->slices == 0 ? w->equations == 1 : w->left < before;
}

/* ---- the end of the kernel ---- */

static void sema_tensor_written(KernelSema *c, TensorId id)
{
    const Tensor *t = &c->k->tensors.at[id];
    const Written *w = &c->written.at[id];
    if (w->poisoned || t->role == ROLE_IN || t->role == ROLE_INOUT)
        return;
    c->failed = 0;
    if (w->equations == 0)
        sema_error(c, DIAG_out_not_written, t->loc,
                   arena_printf(c->m->arena, "add an equation %s%s = ...", t->name, t->rank ? "[...]" : ""),
                   "no equation writes the out parameter %s", t->name);
    else if (w->left > 0)
        sema_error(c, DIAG_not_covered, w->first,
                   "add the equations of the missing constants, or write an index there",
                   "%u of %u parts of %s are not written", w->left, w->slices, t->name);
}

void sema_all_written(KernelSema *c)
{
    if (c->decl->equations->broken)
        return;
    for (TensorId t = 0; t < c->k->tensors.len; t++)
        if (namemap_get(&c->poison, c->k->tensors.at[t].name) == NAME_ABSENT)
            sema_tensor_written(c, t);
    for (RouteId r = 0; r < c->k->routes.len; r++) {
        const Route *route = &c->k->routes.at[r];
        if (c->routed.at[r].line || namemap_get(&c->poison, route->name) != NAME_ABSENT)
            continue;
        c->failed = 0;
        sema_error(c, DIAG_out_not_written, route->loc,
                   arena_printf(c->m->arena, "add an equation %s = route(id)", route->name),
                   "no equation makes the out route %s", route->name);
    }
}
