/* Verifies that what is read has been written.
 *
 * Note [Written]. Statements are taken in order, buffers as a whole. Registers and thread space hold nothing when a
 * launch begins; what an `if` writes in them counts inside it only, unless the next statement is an `if` where the first does not
 * hold, `if D <= 64 { .. } if D > 64 { .. }`, that writes it too. Work space and outputs keep what an earlier
 * launch or an earlier statement wrote; `+=` and product read their
 * target, but not a product with `init`: which of its runs do is not looked at. A loop is taken to run: where it does
 * not, neither do the elements exist that it would have written. A route parameter counts as written in the launches
 * after the `valid` that checks it (a check that fails ends the kernel at the barrier), another route once `route` has
 * made it. An output that nothing writes is wrong too. So a program from which a copy, a launch or a first value was
 * taken is refused, unless another statement writes the same buffer before. */
#include "ir/tile_verify.h"

#include <string.h>

static int is_private(const Tensor *t) { return space_is_private(t->space); }

void tile_begin_program(TileVerifier *v)
{
    const Kernel *k = v->k;
    v->stores = arena_array(v->a, uint32_t, k->tensors.len + 1);
    v->written = arena_array(v->a, uint8_t, k->tensors.len + 1);
    v->ready = arena_array(v->a, uint8_t, k->routes.len + 1);
    v->rows = arena_array(v->a, int64_t, k->tensors.len + 1);
    v->listed = arena_array(v->a, RouteId, k->tensors.len + 1);
    v->known = arena_array(v->a, ExprId, k->tensors.len + 1);
    for (TensorId t = 0; t < k->tensors.len; t++) {
        Role role = k->tensors.at[t].role;
        v->written[t] = k->tensors.at[t].route == NONE && (role == ROLE_IN || role == ROLE_INOUT);
        v->known[t] = NONE;
    }
    v->variable = arena_array(v->a, ExprId, k->indices.len + 1);
    for (IndexId i = 0; i < k->indices.len; i++)
        v->variable[i] = NONE;
    for (ExprId e = 0; e < k->exprs.len; e++)
        if (x_at(k, e)->kind == X_INDEX && x_at(k, e)->sym < k->indices.len)
            v->variable[x_at(k, e)->sym] = e;
}

static void count_stores(TileVerifier *v, StmtId first)
{
    tile_walk (w, v->k, first)
        tile_each_operand (o, w.s)
            if (o.role == OPERAND_WRITTEN && o.id < v->k->tensors.len)
                v->stores[o.id]++;
}

void tile_begin_launch(TileVerifier *v, StmtId launch)
{
    v->accesses.len = 0;
    tile_forget(v, 0);
    for (RouteId r = 0; r < v->k->routes.len; r++)
        v->ready[r] = v->ready[r] != ROUTE_ABSENT;
    memset(v->stores, 0, sizeof *v->stores * v->k->tensors.len);
    count_stores(v, tile_at(v->k, launch)->first);
    for (TensorId t = 0; t < v->k->tensors.len; t++)
        if (is_private(&v->k->tensors.at[t]))
            v->written[t] = 0;
}

void tile_end_program(TileVerifier *v)
{
    const Kernel *k = v->k;
    v->at = v->launch = NONE;
    for (uint32_t i = 0; !v->error && i < k->params.len; i++) {
        Param p = k->params.at[i];
        int tensor = p.kind == PARAM_TENSOR;
        Role role = tensor ? k->tensors.at[p.id].role : k->routes.at[p.id].role;
        if (role == ROLE_OUT && !(tensor ? v->written[p.id] : v->ready[p.id]))
            tile_broken(v, "the kernel ends and nothing has written its output %s",
                        tensor ? k->tensors.at[p.id].name : k->routes.at[p.id].name);
    }
}

/* What has to happen before the route is read. */
static const char *route_waits(const TileVerifier *v, RouteId r)
{
    if (v->ready[r] == ROUTE_CHECKED)
        return "the end of the launch that checks";
    return v->k->routes.at[r].role == ROLE_IN ? "an earlier launch checks" : "a statement makes";
}

void tile_verify_ready(TileVerifier *v, RouteId r)
{
    if (v->ready[r] != ROUTE_READY)
        tile_broken(v, "route %s is read before %s it", v->k->routes.at[r].name, route_waits(v, r));
}

void tile_verify_read(TileVerifier *v, TensorId id)
{
    const Tensor *t = &v->k->tensors.at[id];
    if (t->route != NONE)
        tile_verify_ready(v, t->route);
    else if (!v->written[id])
        tile_broken(v, "%s is read before %s writes it", t->name,
                    is_private(t) ? "a statement of this launch" : "any statement");
}

void tile_written(TileVerifier *v, TensorId t) { v->written[t] = 1; }

static uint8_t *written_now(const TileVerifier *v)
{
    uint8_t *now = arena_alloc(v->a, v->k->tensors.len + 1);
    memcpy(now, v->written, v->k->tensors.len);
    return now;
}

/* Does one of the two conditions hold where the other does not, in the place of either? */
static int are_opposite(TileVerifier *v, ExprId a, ExprId b)
{
    const Kernel *k = v->k;
    return x_at(k, a)->kind == X_OP && x_at(k, a)->nargs == 2 && tile_is_stable(v, a) &&
           x_is_op(k, b, op_negated((ScalarOp)x_at(k, a)->op)) && x_arg(k, a, 0) == x_arg(k, b, 0) &&
           x_arg(k, a, 1) == x_arg(k, b, 1);
}

TileBranch tile_enter_condition(TileVerifier *v, const Stmt *s)
{
    TileBranch branch = {.condition = s->value, .next = s->next, .written = written_now(v)};
    if (!v->error && v->last.written && v->last.next == v->at && are_opposite(v, v->last.condition, s->value))
        branch.otherwise = v->last.written;
    return branch;
}

void tile_leave_condition(TileVerifier *v, TileBranch branch)
{
    uint8_t *inside = written_now(v);
    for (TensorId t = 0; t < v->k->tensors.len; t++)
        if (is_private(&v->k->tensors.at[t]))
            v->written[t] = branch.written[t] || (branch.otherwise && branch.otherwise[t] && inside[t]);
    v->last = (TileBranch){branch.condition, branch.next, inside, NULL};
}

/* ---- what registers hold ---- */

void tile_know(TileVerifier *v, const Stmt *s)
{
    const Tensor *t = &v->k->tensors.at[s->buffer];
    int single = t->space == SPACE_REG && t->rank == 0 && !t->lanes && v->stores[s->buffer] == 1 && !s->add;
    if (!single || x_at(v->k, s->value)->type != TY_INT || !tile_is_stable(v, s->value))
        return;
    v->known[s->buffer] = s->value;
    vec_push(v->a, &v->known_now, s->buffer);
}

void tile_forget(TileVerifier *v, uint32_t n)
{
    while (v->known_now.len > n)
        v->known[v->known_now.at[--v->known_now.len]] = NONE;
}

static int is_stable_load(const TileVerifier *v, const Expr *x)
{
    if (v->k->tensors.at[x->sym].space == SPACE_REG)
        return v->known[x->sym] != NONE;
    return v->stores[x->sym] == 0;
}

int tile_is_stable(TileVerifier *v, ExprId e)
{
    tile_collect(v, e, NULL);
    for (uint32_t i = 0; i < v->nodes.len; i++) {
        const Expr *x = x_at(v->k, v->nodes.at[i]);
        if (x->kind == X_LOAD && !is_stable_load(v, x))
            return 0;
    }
    return 1;
}
