/* What becomes of a sum of products, for `moec explain`. */
#include "lower/lower.h"

static const char *packing(const Lower *l, ExprId operand, IndexId last, const char *layout)
{
    const Kernel *k = l->k;
    const Expr *x = x_at(k, operand);
    int gathered = 0, across = 0;
    if (x->kind != X_LOAD)
        return arena_printf(k->module->arena, "computed into %s", layout);
    for (uint32_t a = 0; a < x->nargs; a++) {
        const Expr *sub = x_at(k, x_arg(k, operand, a));
        gathered |= sub->kind != X_INDEX && sub->kind != X_GROUP && sub->kind != X_INT;
        across = sub->kind != X_INDEX || sub->sym != last;
    }
    return arena_printf(k->module->arena, "%s%s%s", gathered ? "gathered into " : "", layout,
                        across ? ", transposed" : "");
}

static Extent extent_of(const Lower *l, IndexId i)
{
    return i == NONE ? ext_const(l->k->module, 1) : lower_length(l, i);
}

void lower_report(Lower *l, const Item *it, const Product *p, const char *why)
{
    Kernel *k = l->k;
    Module *m = k->module;
    const Blocking *y = it->by;
    uint32_t n = x_at(k, p->reduce)->nbound;
    ReportSum s;
    ReportProduct r = {.lhs = k->tensors.at[it->equation->lhs].name, .loc = it->equation->loc, .why = why};
    if (!l->c->report || !report_sum(k, p->reduce, &s))
        return;
    r.cube = s.elem != EL_F32;
    r.fragment = "plain loops";
    if (!why) {
        r.fragment =
            arena_printf(m->arena, "%s %u x %u", l->cpu->name, l->cpu->rows, l->cpu->lanes * l->cpu->vectors);
        r.left = packing(l, p->left, x_bound(k, p->reduce, n - 1), "lines");
        r.right = p->given != GIVEN_NOT ? "as it is" : packing(l, p->right, y->lane, "pairs");
        r.rows = y->chunk;
        r.cols = y->strip;
        r.depth = y->depth;
    }
    r.extent[0] = extent_of(l, y->row);
    r.extent[1] = extent_of(l, y->lane);
    r.extent[2] = ext_const(m, 1);
    for (uint32_t b = 0; b < n; b++)
        r.extent[2] = ext_mul(m, r.extent[2], extent_of(l, x_bound(k, p->reduce, b)));
    report_product(l->c->report, k, r);
}
