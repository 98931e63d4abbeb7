/* Verifies the statements that make or check lists: blocks, bucket, top, route, valid. */
#include "ir/tile_verify.h"

static void verify_list(TileVerifier *v, TensorId t, Elem elem, uint32_t rank, const char *what)
{
    if (!tile_is_buffer(v, t, what))
        return;
    const Tensor *b = &v->k->tensors.at[t];
    if (b->elem != elem || b->rank != rank)
        tile_broken(v, "%s %s must be %s of rank %u", what, b->name, elem_name(elem), rank);
}

/* They run on one thread, for a whole launch. */
static void verify_alone(TileVerifier *v)
{
    if (v->parallel || v->owned || v->vector != NONE)
        tile_broken(v, "must not stand in a parallel, owned or vector loop");
}

static void verify_route_id(TileVerifier *v, RouteId r)
{
    if (r >= v->k->routes.len)
        tile_broken(v, "its route does not exist");
}

/* Two lists made by one statement. */
static void verify_made(TileVerifier *v, const Stmt *s)
{
    if (v->error)
        return;
    tile_written(v, s->buffer);
    tile_written(v, s->second);
}

void tile_verify_blocks(TileVerifier *v, const Stmt *s)
{
    verify_alone(v);
    verify_list(v, s->buffer, EL_I64, 2, "the list of blocks");
    verify_list(v, s->second, EL_I64, 1, "the number of blocks");
    verify_route_id(v, s->route);
    if (!v->error)
        tile_verify_ready(v, s->route);
    if (!v->error) {
        v->rows[s->buffer] = s->step;
        v->listed[s->buffer] = s->route;
    }
    if (s->step < 1)
        tile_broken(v, "blocks of %lld rows", (long long)s->step);
    verify_made(v, s);
}

/* Where each bucket begins, and where the last one ends. */
static void verify_bounds_of_buckets(TileVerifier *v, const Stmt *s)
{
    TileSum missing = {.constant = 1};
    if (v->error)
        return;
    tile_sum_expr(v, &missing, s->limit, 1);
    tile_sum_extent(v, &missing, v->k->tensors.at[s->second].axes[0].extent, -1);
    if (!tile_sum_at_most_zero(v, &missing))
        tile_broken(v, "the bounds of buckets %s are not known to be one more than the buckets",
                    v->k->tensors.at[s->second].name);
}

void tile_verify_bucket(TileVerifier *v, const Stmt *s)
{
    uint32_t scope = v->scope.len;
    verify_alone(v);
    verify_list(v, s->buffer, EL_I32, 1, "the order");
    verify_list(v, s->second, EL_I64, 1, "the bounds of buckets");
    tile_verify_expr(v, s->limit, WANT_INT);
    verify_bounds_of_buckets(v, s);
    for (uint32_t i = 0; i < s->nbound; i++)
        tile_declare(v, s->bound[i]);
    tile_verify_expr(v, s->value, WANT_INT);
    if (s->guard != NONE)
        tile_verify_expr(v, s->guard, WANT_CONDITION);
    tile_leave(v, scope);
    verify_made(v, s);
}

void tile_verify_top(TileVerifier *v, const Stmt *s)
{
    uint32_t scope = v->scope.len;
    if (v->vector != NONE)
        tile_broken(v, "must not stand in a vector loop");
    if (!tile_is_buffer(v, s->buffer, "the target"))
        return;
    if (v->k->tensors.at[s->buffer].rank != s->nindex + 1)
        tile_broken(v, "%s has %u axes, one of them the places", v->k->tensors.at[s->buffer].name,
                    v->k->tensors.at[s->buffer].rank);
    verify_list(v, s->second, EL_I32, s->nindex + 1u, "the chosen places");
    tile_verify_integers(v, s);
    tile_declare(v, s->var);
    tile_verify_expr(v, s->value, WANT_VALUE);
    tile_leave(v, scope);
    if (!v->error)
        tile_verify_writing(v, s->buffer, s);
    if (!v->error)
        tile_verify_writing(v, s->second, s);
}

void tile_verify_route(TileVerifier *v, const Stmt *s)
{
    verify_alone(v);
    verify_route_id(v, s->route);
    verify_list(v, s->second, EL_I32, 2, "the choices");
    if (!v->error && v->k->routes.at[s->route].role == ROLE_IN)
        tile_broken(v, "route %s is an input", v->k->routes.at[s->route].name);
    if (!v->error)
        tile_verify_read(v, s->second);
    if (!v->error)
        v->ready[s->route] = ROUTE_READY;
}

void tile_verify_valid(TileVerifier *v, const Stmt *s)
{
    verify_alone(v);
    verify_route_id(v, s->route);
    if (!v->error && v->k->routes.at[s->route].role == ROLE_IN && !v->ready[s->route])
        v->ready[s->route] = ROUTE_CHECKED;
}
