/* What a schedule says of a launch as a whole (Note [Settings] in ir/tile.h). It is asked once the launch is there, and only
 * where the answer changes something; which stores and loads these are is for the back end to say (backend/emit_stream.c). */
#include "lower/lower.h"
#include "passes/schedule.h"

/* What a launch does with memory. */
typedef struct LaunchUse {
    uint8_t *is_read; /* by TensorId */
    StmtId *loop;     /* by TensorId: the first vector loop that loads from it, or NONE */
    int has_product;
    int goes_again; /* over rows that an earlier one of its loops went over */
} LaunchUse;

static int is_vector(const Stmt *s) { return s->kind == TILE_for && s->mode == LOOP_VECTOR; }

/* The outermost vector loop around the statement, or NONE. */
static StmtId lanes_around(const TileWalk *w)
{
    for (uint32_t i = 0; i < w->depth; i++)
        if (is_vector(tile_at(w->k, w->up[i])))
            return w->up[i];
    return NONE;
}

/* Is it an element of a row of memory that a loop over rows goes over? */
static int is_of_row(const Kernel *k, const Expr *load, ExprId row)
{
    const Tensor *t = &k->tensors.at[load->sym];
    return layout_is_dense(t->layout) && (t->space == SPACE_GM || t->space == SPACE_WORK) &&
           x_at(k, row)->kind == X_INDEX;
}

static void note_loads(const Kernel *k, ExprId e, StmtId lanes, LaunchUse *use)
{
    each_below (n, k, e, EVERYWHERE) {
        const Expr *x = x_at(k, *n);
        if (x->kind != X_LOAD)
            continue;
        StmtId before = use->loop[x->sym];
        use->is_read[x->sym] = 1;
        if (before == NONE)
            use->loop[x->sym] = lanes;
        else if (lanes != NONE && before != lanes && x->nargs > 1)
            use->goes_again |= is_of_row(k, x, x_arg(k, *n, x->nargs - 2u));
    }
}

static LaunchUse use_of(const Kernel *k, StmtId launch)
{
    Arena *a = k->module->arena;
    LaunchUse use = {.is_read = arena_alloc(a, k->tensors.len + 1),
                     .loop = arena_array(a, StmtId, k->tensors.len + 1)};
    for (TensorId t = 0; t < k->tensors.len; t++)
        use.loop[t] = NONE;
    tile_walk (w, k, tile_at(k, launch)->first) {
        use.has_product |= w.s->kind == TILE_product;
        if (w.s->kind == TILE_store && w.s->add)
            use.is_read[w.s->buffer] = 1;
        tile_each_operand (o, w.s)
            if (tile_operand_is_expr(&o))
                note_loads(k, o.id, lanes_around(&w), &use);
    }
    return use;
}

/* Can results go past the caches: vectors that nothing reads here, or whole panels? */
static int may_stream(const Kernel *k, StmtId launch, const LaunchUse *use)
{
    tile_walk (w, k, tile_at(k, launch)->first) {
        const Tensor *t = w.s->buffer == NONE ? NULL : &k->tensors.at[w.s->buffer];
        int is_result = t && (t->space == SPACE_GM || (t->space == SPACE_WORK && !use->has_product));
        if (w.s->kind == TILE_store && is_result && layout_is_dense(t->layout) &&
            !use->is_read[w.s->buffer] && lanes_around(&w) != NONE)
            return 1;
        if (w.s->kind == TILE_pack && is_result && !layout_is_dense(t->layout) && !use->has_product)
            return 1;
    }
    return 0;
}

static int is_parallel(const Kernel *k, StmtId launch)
{
    StmtId first = tile_at(k, launch)->first;
    return first != NONE && tile_is_flat(tile_at(k, first));
}

/* Does it write what a member defines, or only prepare for it? */
static int writes_member(const Kernel *k, StmtId launch, const Members *m)
{
    tile_walk (w, k, tile_at(k, launch)->first)
        tile_each_operand (o, w.s)
            for (uint32_t i = 0; o.role == OPERAND_WRITTEN && i < m->n; i++)
                if (o.id == m->at[i].lhs || o.id == m->at[i].ids)
                    return 1;
    return 0;
}

void lower_settings(Lower *l, const Members *m, StmtId made)
{
    Kernel *k = l->k;
    TensorId lhs = m->at[m->n - 1].lhs;
    if (lhs == NONE || pass_traits(l->c)->packs_all)
        return;
    for (StmtId id = made; id < k->tiles->stmts.len; id++) {
        Stmt *s = &k->tiles->stmts.at[id];
        if (s->kind != TILE_launch || !writes_member(k, id, m))
            continue;
        LaunchUse use = use_of(k, id);
        if (may_stream(k, id, &use))
            s->writes = (uint8_t)schedule_writes(l->c, k, lhs);
        if (use.goes_again && !use.has_product)
            s->ahead = schedule_ahead(l->c, k, lhs);
        if (is_parallel(k, id))
            s->threads = schedule_threads(l->c, k, lhs);
    }
}
