/* The operands of a sum of products as the product of two matrices.
 *
 * The body of a sum is taken apart into factors. Those that vary with the lanes are the right operand, B[k, lane]; the
 * others are the left one, A[row, k]. A factor that varies with both leaves no such product: the sum is then computed
 * element by element. A factor may be any expression: it is evaluated once for each element while it is packed. */
#include "lower/lower.h"

typedef struct Factors {
    Lower *l;
    IndexId row, lane;
    ExprId left, right;
} Factors;

/* In the type that a factor has alone; several are multiplied in f32. */
static ExprId times(Kernel *k, ExprId a, ExprId b)
{
    return a == NONE ? b : x_op2(k, (Loc){0}, OP_mul, a, b);
}

static int is_float(const Kernel *k, ExprId e) { return e != NONE && type_is_float((Type)x_at(k, e)->type); }

/* An integer is multiplied as f32, as everywhere (language page, section 5). */
static int add_factor(Factors *f, ExprId e)
{
    Kernel *k = f->l->k;
    if (!is_float(k, e))
        e = x_op1(k, (Loc){0}, OP_f32, e);
    int by_row = query_varies(k, e, f->row), by_lane = query_varies(k, e, f->lane);
    if (by_row && by_lane)
        return 0;
    ExprId *side = by_lane ? &f->right : &f->left;
    *side = times(k, *side, e);
    return 1;
}

static int split(Factors *f, ExprId e)
{
    Kernel *k = f->l->k;
    if (x_is_op(k, e, OP_mul) && is_float(k, e))
        return split(f, x_arg(k, e, 0)) && split(f, x_arg(k, e, 1));
    if (!x_is_op(k, e, OP_neg))
        return add_factor(f, e);
    if (!split(f, x_arg(k, e, 0)))
        return 0;
    ExprId *side = f->left != NONE ? &f->left : &f->right;
    *side = x_op1(k, (Loc){0}, OP_neg, *side);
    return 1;
}

/* Without the casts of a 16-bit value to f32: products are exact in f32 all the same. */
static ExprId bare(const Kernel *k, ExprId e)
{
    ExprId from = e;
    while (x_is_op(k, from, OP_f32))
        from = x_arg(k, from, 0);
    Type t = (Type)x_at(k, from)->type;
    return t == TY_BF16 || t == TY_F16 ? from : e;
}

/* Panels hold what the product multiplies: 16-bit values as they are where both sides have one 16-bit type that the
 * target multiplies, else f32. */
static void choose_types(Lower *l, LowerProduct *p)
{
    p->left = bare(l->k, p->left);
    p->right = bare(l->k, p->right);
    Type left = (Type)x_at(l->k, p->left)->type, right = (Type)x_at(l->k, p->right)->type;
    p->right_elem = right == TY_BF16 && (left == TY_BF16 || left == TY_F32) ? EL_BF16 : EL_F32;
    p->left_elem = left == TY_BF16 && right == TY_BF16 && l->cpu->terms > 1 ? EL_BF16 : EL_F32;
}

int lower_factor(Lower *l, ExprId reduce, IndexId row, IndexId lane, LowerProduct *out)
{
    Kernel *k = l->k;
    Factors f = {.l = l, .row = row, .lane = lane, .left = NONE, .right = NONE};
    if (x_factors(k, x_arg(k, reduce, 0)) == FACTORS_MANY || !split(&f, x_arg(k, reduce, 0)) ||
        f.left == NONE || f.right == NONE || !query_varies(k, f.left, row))
        return 0;
    *out = (LowerProduct){.reduce = reduce, .left = f.left, .right = f.right};
    choose_types(l, out);
    return 1;
}

/* ---- right operands that are read where they are ---- */

/* The subscript that is i alone, where no other one varies with it; else NONE. */
static uint32_t only_at(const Kernel *k, ExprId load, IndexId i)
{
    uint32_t at = NONE;
    for (uint32_t a = 0; a < x_at(k, load)->nargs; a++) {
        if (!query_varies(k, x_arg(k, load, a), i))
            continue;
        if (at != NONE || x_plain_index(k, x_arg(k, load, a)) != i)
            return NONE;
        at = a;
    }
    return at;
}

/* Memory in rows; what a cluster places in a thread has rows of its own. */
static int is_rows(const Tensor *t)
{
    return t->layout == LAYOUT_ROWS && !t->placed && t->space != SPACE_REG;
}

Direct lower_direct(const Lower *l, const Blocking *by, LowerProduct *p)
{
    const Kernel *k = l->k;
    const Expr *x = x_at(k, p->right);
    IndexId depth = x_bound(k, p->reduce, x_at(k, p->reduce)->nbound - 1u), lane = by->lane;
    const Tensor *t = x->kind == X_LOAD && x->nargs > 1 ? &k->tensors.at[x->sym] : NULL;
    if (pass_traits(l->c)->packs_all)
        return DIRECT_NOT;
    if (!t || t->elem != p->right_elem || (t->layout != LAYOUT_PAIRS && !is_rows(t)))
        return DIRECT_NOT;
    uint32_t last = x->nargs - 1u, d = only_at(k, p->right, depth), v = only_at(k, p->right, lane);
    if (d == NONE || v == NONE || (d != last && v != last))
        return DIRECT_NOT;
    int rows = t->layout == LAYOUT_ROWS;
    p->apart = last - 1u - (d == last ? v : d);
    if (p->apart && (!rows || t->role != ROLE_IN)) /* see Note [Block products] */
        return DIRECT_NOT;
    if (d == last)
        return rows ? DIRECT_ROWS_TRANSPOSED : t->both ? DIRECT_PANELS_TRANSPOSED : DIRECT_NOT;
    return rows ? DIRECT_ROWS : DIRECT_PANELS;
}
