/* Subscripts that stand in each other's place, as those of w[h, f] for w: f32[F, H]: an exchange that makes all indices fit. */
#include "frontend/sema.h"

enum { TRIALS = 64 }; /* accesses that are looked at, in long equations */

/* An access with two subscripts exchanged. */
typedef struct Trial {
    const AstExpr *access;
    const Tensor *tensor;
    uint32_t a, b;
} Trial;

static const Tensor *tensor_of(const KernelSema *c, AstName name, uint32_t rank)
{
    uint32_t id;
    int known = symbol_get(c, name.name, SYMBOL_TENSOR, &id) && rank > 0 && c->k->tensors.at[id].rank == rank;
    return known ? &c->k->tensors.at[id] : NULL;
}

static int is_name(const AstExpr *e, Name name) { return e->kind == AST_NAME && e->name.name == name; }

/* ---- does an index fit its other uses? ---- */

static int fits_left(const KernelSema *c, const AstLhs *lhs, Name name, Axis axis)
{
    uint32_t n = lhs && lhs->subscripts ? lhs->subscripts->list.len : 0;
    const Tensor *t = n ? tensor_of(c, lhs->name, n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        const AstSubscript *s = &lhs->subscripts->list.at[i];
        if (is_name(s->value, name) && (s->extent || (t && !axis_same(c->m, t->axes[i], axis))))
            return 0;
    }
    return 1;
}

static int has_extent(const AstExpr *e, Name name)
{
    for (uint32_t i = 0; e->binds && i < e->binds->list.len; i++)
        if (e->binds->list.at[i].index.name == name && e->binds->list.at[i].extent)
            return 1;
    return 0;
}

/* Do all whole subscripts of that name in e, but those of the access, range over the axis? */
static int fits_right(const KernelSema *c, const AstExpr *e, const AstExpr *access, Name name, Axis axis)
{
    const Tensor *t = e->kind == AST_ACCESS && e != access ? tensor_of(c, e->name, e->nargs) : NULL;
    if (has_extent(e, name))
        return 0;
    for (uint32_t i = 0; i < e->nargs; i++) {
        int whole = is_name(e->args[i], name);
        int row = e->kind == AST_MAP || (e->kind == AST_GROUP && axis.group == NONE);
        if (whole && (row || (t && !axis_same(c->m, t->axes[i], axis))))
            return 0;
        if (!whole && !fits_right(c, e->args[i], access, name, axis))
            return 0;
    }
    return 1;
}

static int fits(const KernelSema *c, const Trial *trial, Name name, Axis axis)
{
    return fits_left(c, c->bound->lhs, name, axis) && fits_left(c, c->bound->ids_lhs, name, axis) &&
           fits_right(c, c->bound->rhs, trial->access, name, axis);
}

static int is_index(const KernelSema *c, const AstExpr *e)
{
    uint32_t id;
    return e->kind == AST_NAME && !symbol_get(c, e->name.name, SYMBOL_TENSOR, &id) &&
           namemap_get(&c->c->dims, e->name.name) == NAME_ABSENT;
}

static int works(const KernelSema *c, const Trial *t)
{
    const AstExpr *x = t->access->args[t->a], *y = t->access->args[t->b];
    if (!is_index(c, x) || !is_index(c, y))
        return 0;
    for (uint32_t i = 0; i < t->access->nargs; i++)
        if (i != t->a && i != t->b &&
            (is_name(t->access->args[i], x->name.name) || is_name(t->access->args[i], y->name.name)))
            return 0;
    return x->name.name != y->name.name && fits(c, t, x->name.name, t->tensor->axes[t->b]) &&
           fits(c, t, y->name.name, t->tensor->axes[t->a]);
}

/* ---- which exchange ---- */

typedef struct Search {
    const KernelSema *c;
    Name name; /* the index that does not fit */
    uint32_t trials, found;
    Trial best;
} Search;

static void try_access(Search *s, const AstExpr *e, uint32_t a)
{
    const Tensor *tensor = tensor_of(s->c, e->name, e->nargs);
    for (uint32_t b = 0; tensor && b < e->nargs; b++) {
        Trial trial = {e, tensor, a, b};
        if (a == b || !works(s->c, &trial))
            continue;
        s->best = trial;
        s->found++;
    }
}

static void search(Search *s, const AstExpr *e)
{
    for (uint32_t i = 0; i < e->nargs; i++)
        if (e->kind == AST_ACCESS && is_name(e->args[i], s->name) && s->trials < TRIALS) {
            s->trials++;
            try_access(s, e, i);
        } else {
            search(s, e->args[i]);
        }
}

int find_swap(const KernelSema *c, Name index, const AstExpr **a, const AstExpr **b)
{
    Search s = {.c = c, .name = index};
    if (!c->bound)
        return 0;
    search(&s, c->bound->rhs);
    if (s.found != 1)
        return 0;
    *a = s.best.access->args[s.best.a < s.best.b ? s.best.a : s.best.b];
    *b = s.best.access->args[s.best.a < s.best.b ? s.best.b : s.best.a];
    return 1;
}
