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

static Name tensor_of(const Kernel *k, ExprId operand)
{
    const Expr *x = x_at(k, operand);
    return x->kind == X_LOAD ? k->tensors.at[x->sym].name : NULL;
}

static ReportOperands operands_of(const Kernel *k, const Blocking *by, const LowerProduct *p)
{
    static const char *const from[] = {[DIRECT_NOT] = "packed",
                                       [DIRECT_ROWS] = "read from rows",
                                       [DIRECT_ROWS_TRANSPOSED] = "read from rows, transposed",
                                       [DIRECT_PANELS] = "read from its panels",
                                       [DIRECT_PANELS_TRANSPOSED] = "read from its transposed panels"};
    return (ReportOperands){.left = tensor_of(k, p->left),
                            .right = tensor_of(k, p->right),
                            .left_elem = p->left_elem,
                            .right_elem = p->right_elem,
                            .right_from = p->few && by->few_depth ? "packed, read in place by few rows"
                                          : !p->hoisted           ? from[p->direct]
                                          : p->few ? "packed once for many blocks, read in place by few rows"
                                                   : "packed once for many blocks",
                            .sums = p->accumulator ? k->tensors.at[p->accumulator->lhs].name : NULL,
                            .sums_terms = p->accumulator && by->in_place_few ? GROUP_SUM_TERMS : 0};
}

static Name index_name(const Kernel *k, IndexId i) { return i == NONE ? NULL : k->indices.at[i].name; }

void lower_report_nest(Lower *l, const char *launch, const char *kind, const Blocking *by)
{
    Kernel *k = l->k;
    Arena *a = k->module->arena;
    ReportNest n = {
        .launch = launch, .kind = kind, .row = index_name(k, by->row), .lane = index_name(k, by->lane)};
    if (!l->c->report)
        return;
    for (uint32_t q = 0; q < by->m.n; q++)
        vec_push(a, &n.writes, k->tensors.at[by->m.at[q].lhs].name);
    for (uint32_t i = 0; i < by->nproducts; i++)
        if (by->product[i].left != NONE)
            vec_push(a, &n.products, operands_of(k, by, &by->product[i]));
    n.rows = by->row == NONE ? 0 : by->item_rows;
    n.part = by->mc;
    n.unrolled = by->unroll;
    n.even = by->even > 0;
    n.cols = by->nc;
    n.width = by->lane == NONE ? 0 : by->width;
    n.depth = by->kc;
    report_nest(l->c->report, k, n);
}

static Extent extent_of(const Lower *l, IndexId i)
{
    return i == NONE ? ext_const(l->k->module, 1) : lower_length(l, i);
}

/* Of panels, where many rows have fragments of all their columns (CPU_WIDE), both. */
static const char *fragment_of(const Lower *l, const LowerProduct *p, RowCount count)
{
    const Cpu *c = l->cpu;
    Arena *a = l->k->module->arena;
    uint32_t cols = c->lanes * c->vectors, many = cpu_wide_rows(c->rows, p->right_elem == EL_BF16);
    const char *usual = arena_printf(a, "%s %u x %u", c->name, c->rows, cols);
    if ((direct_is_in_rows(p->direct) && count != ROWS_FEW) || !cpu_can(c, CPU_WIDE))
        return usual;
    return arena_printf(a, "%s, from %u rows on %u x %u", usual, many, c->rows * cols / LAYOUT_EDGE,
                        LAYOUT_EDGE);
}

void lower_report(Lower *l, const Item *it, const LowerProduct *p, const char *why)
{
    Kernel *k = l->k;
    Module *m = k->module;
    const Blocking *y = it->by;
    uint32_t n = x_at(k, p->reduce)->nbound;
    ReportSum s;
    ReportProduct r = {.lhs = k->tensors.at[it->equation->lhs].name, .loc = it->equation->loc, .why = why};
    if (!l->c->report || it->in_block || it->by->count == ROWS_MANY || !report_sum(k, p->reduce, &s))
        return;
    r.cube = s.elem != EL_F32;
    r.is_scan = y->scan != NONE;
    r.fragment = r.is_scan ? "scan" : "plain loops";
    if (!why) {
        r.fragment = fragment_of(l, p, y->count);
        r.left = packing(l, p->left, x_bound(k, p->reduce, n - 1), "lines");
        r.right = p->direct == DIRECT_NOT ? packing(l, p->right, y->lane, "pairs") : "read in place";
        if (y->count == ROWS_FEW)
            r.right =
                arena_printf(m->arena, "packed first for %lld rows and more, else %s", (long long)y->many,
                             p->direct == DIRECT_NOT ? "for each block" : "read in place");
        r.rows = y->item_rows;
        r.cols = y->nc;
        r.depth = y->kc;
    }
    r.extent[0] = extent_of(l, y->row);
    r.extent[1] = extent_of(l, y->lane);
    r.extent[2] = ext_const(m, 1);
    for (uint32_t b = 0; b < n; b++)
        r.extent[2] = ext_mul(m, r.extent[2], extent_of(l, x_bound(k, p->reduce, b)));
    report_product(l->c->report, k, r);
}
