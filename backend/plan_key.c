/* Note [One body]. Launches that do the same, in one kernel or in several (a forward pass and its backward
 * compute the same values again), are generated once: code generation is most of a compilation. The key of a
 * launch is its tree of statements and expressions written down with everything numbered by first use:
 * dimensions, buffers, loop variables, expressions. Two launches with one key run one body; a map of slots
 * tells it where in the call's data its dimensions and buffers are, and which its first check is. The texts
 * of checks are no part of the key. */
#include "backend/emit_pack.h"

typedef struct Keys {
    Plan *p;
    Arena *a;
    Launch *launch;
    uint32_t *expr, *index, *dim, *buffer; /* number + 1 */
    uint32_t nexpr, nindex;
    uint64_t times; /* copies that unroll loops make */
} Keys;

static void put(Keys *x, int64_t v) { text_add_bytes(&x->launch->key, (const char *)&v, sizeof v); }

static void put_dim(Keys *x, DimId d)
{
    if (!x->dim[d]) {
        vec_push(x->a, &x->launch->slots, (Slot){1, d});
        x->dim[d] = x->launch->slots.len;
    }
    put(x, x->dim[d]);
}

static void put_extent(Keys *x, Extent e)
{
    const Module *m = x->p->m;
    const ExtentForm *f = &m->extents.at[m->extents.at[e].folded];
    put(x, f->nterms);
    for (uint32_t i = 0; i < f->nterms; i++) {
        put(x, f->terms[i].coef);
        put(x, f->terms[i].ndims);
        for (uint32_t j = 0; j < f->terms[i].ndims; j++)
            put_dim(x, f->terms[i].dims[j]);
    }
}

static void put_buffer(Keys *x, uint32_t buffer)
{
    const Buffer *b = &x->p->buffers.at[buffer];
    if (x->buffer[buffer]) {
        put(x, x->buffer[buffer]);
        return;
    }
    vec_push(x->a, &x->launch->slots, (Slot){0, buffer});
    x->buffer[buffer] = x->launch->slots.len;
    put(x, 0);
    put(x, b->elem);
    put(x, b->space);
    put(x, b->lanes);
    put(x, b->by_value);
    put(x, b->plus);
    put(x, b->layout);
    put(x, b->place);
    put(x, b->space == SPACE_REG && b->home != NONE);
    put(x, b->rank);
    for (uint32_t i = 0; i < b->rank; i++)
        put_extent(x, b->axes[i].extent);
}

static void put_index(Keys *x, IndexId i)
{
    if (!x->index[i])
        x->index[i] = ++x->nindex;
    put(x, x->index[i]);
}

static void put_expr(Keys *x, ExprId e)
{
    const Kernel *k = x->p->k;
    if (e == NONE || x->expr[e]) {
        put(x, e == NONE ? -1 : (int64_t)x->expr[e]);
        return;
    }
    const Expr *n = x_at(k, e);
    put(x, 0);
    put(x, n->kind | n->type << 8 | n->op << 16 | n->nargs << 24);
    switch ((ExprKind)n->kind) {
    case X_FLOAT:
    case X_INT: put(x, n->value.i); break;
    case X_EXTENT: put_extent(x, n->sym); break;
    case X_INDEX: put_index(x, n->sym); break;
    case X_LOAD: put_buffer(x, n->sym); break;
    case X_OP:
    case X_IF:
    case X_LANES:
    case X_THREADS:
    case X_REDUCE:
    case X_TOKEN:
    case X_SLOT:
    case X_ROW:
    case X_GROUP: break;
    }
    for (uint32_t i = 0; i < n->nargs; i++)
        put_expr(x, x_arg(k, e, i));
    x->expr[e] = ++x->nexpr;
    x->launch->weight += x->times * (n->kind == X_OP ? 1 + scalar_table[n->op].cost / WEIGHED_COST : 1);
}

static void put_route(Keys *x, RouteId route)
{
    const Route *r = &x->p->k->routes.at[route];
    const Group *g = &x->p->m->groups.at[r->group];
    put(x, g->kind);
    put_extent(x, r->tokens);
    put_extent(x, r->choices);
    put_extent(x, g->groups);
    put_extent(x, g->size);
    put_extent(x, g->rows);
    for (RouteField f = 0; f < RF_FIELDS; f++) {
        uint32_t buffer = plan_field(x->p, route, f);
        int used = buffer != NONE && x->p->buffers.at[buffer].used;
        put(x, used);
        if (used)
            put_buffer(x, buffer);
    }
    x->launch->weight += ROUTE_WEIGHT;
}

static void add_checks(Keys *x, StmtId id)
{
    Plan *p = x->p;
    const Stmt *s = &p->p->stmts.at[id];
    p->check_of[id] = p->checks.len - x->launch->check_base;
    if (s->kind == TILE_check)
        plan_add_check(p, x->a, s->status, s->text);
    else if (s->kind == TILE_store && plan_store_may_fail(p, s))
        plan_add_check(p, x->a, STATUS_RANGE,
                       arena_printf(x->a, "%s: the value %%lld does not fit the i32 of %s", p->k->name,
                                    p->buffers.at[s->buffer].name));
    else if (s->kind == TILE_route || s->kind == TILE_valid)
        plan_add_route_checks(p, x->a, s);
}

enum { WEIGHED_TIMES_MAX = 256 }; /* of an unrolled loop: more count as once */

static uint64_t weight_of(const Plan *p, const Stmt *s)
{
    if (s->kind != TILE_pack)
        return STATEMENT_WEIGHT;
    return pack_run(p, s) == NONE ? COMPUTED_PACK_WEIGHT : PLAIN_PACK_WEIGHT;
}

/* With its number in the row, because optional operands may be absent. */
static void put_operand(Keys *x, const TileOperand *o)
{
    put(x, o->row);
    switch (o->role) {
    case OPERAND_VALUE:
    case OPERAND_CONDITION:
    case OPERAND_INTEGER:
    case OPERAND_SUBSCRIPT: put_expr(x, o->id); break;
    case OPERAND_WRITTEN:
    case OPERAND_READ:
    case OPERAND_NAMED: put_buffer(x, o->id); break;
    case OPERAND_VARIABLE: put_index(x, o->id); break;
    case OPERAND_AXIS:
        put_index(x, o->id);
        put_extent(x, x->p->k->indices.at[o->id].axis.extent);
        break;
    case OPERAND_ROUTE: put_route(x, o->id); break;
    case OPERAND_NUMBER: put(x, o->number); break;
    case OPERAND_BODY:
    case OPERAND_END: break;
    }
}

static void put_body(Keys *x, StmtId first);

static void put_stmt(Keys *x, StmtId id)
{
    const Stmt *s = &x->p->p->stmts.at[id];
    put(x, s->kind);
    tile_each_operand (o, s)
        put_operand(x, &o);
    add_checks(x, id);
    x->launch->weight += weight_of(x->p, s) * x->times;
    uint64_t outer = x->times;
    if (s->kind == TILE_for && s->mode == LOOP_UNROLL && x_at(x->p->k, s->hi)->kind == X_INT &&
        x_at(x->p->k, s->hi)->value.i < WEIGHED_TIMES_MAX)
        x->times *= (uint64_t)x_at(x->p->k, s->hi)->value.i;
    put_body(x, s->first);
    x->times = outer;
}

static void put_body(Keys *x, StmtId first)
{
    tile_each (s, x->p->k, first)
        put_stmt(x, s);
    put(x, -2);
}

/* Fills the launch's key, slots, weight and checks. With -g lines belong to one kernel, so its name joins the
 * key. */
void plan_key(Plan *p, Arena *a, Launch *launch, int debug)
{
    Keys x = {.p = p, .a = a, .launch = launch, .times = 1};
    x.expr = arena_array(a, uint32_t, p->k->exprs.len + 1);
    x.index = arena_array(a, uint32_t, p->k->indices.len + 1);
    x.dim = arena_array(a, uint32_t, p->m->dims.len + 1);
    x.buffer = arena_array(a, uint32_t, p->buffers.len + 1);
    launch->key.arena = a;
    launch->check_base = p->checks.len;
    launch->weight = LAUNCH_WEIGHT;
    put(&x, launch_is_route(p, launch) ? 0 : p->isa);
    if (debug)
        text_add(&launch->key, "%s %u", p->k->name, launch->stmt);
    put_stmt(&x, launch->stmt);
    if (launch_is_route(p, launch))
        launch->weight /= 2;
    else if (!launch_is_products(launch)) /* its instructions are to be good ones */
        launch->weight *= 2;
}
