/* Whether a subscript is known to be a multiple of a number of lanes, so that a vector of them stays
 * within one line of a layout. */
#include "backend/emit.h"

/* A sum of atoms with coefficients: two that stand for one value cancel each other. */
enum {
    TERMS_MAX = 16,
    DEPTH_MAX = 16,
    DEPTH_ALONE = 4 /* of that many: each looks at two, or at all statements */
};
typedef struct MultipleSum {
    int64_t n; /* of which multiples are left out */
    ExprId atom[TERMS_MAX];
    int64_t coef[TERMS_MAX], constant;
    uint32_t len;
    int unknown;
} MultipleSum;

static void add_atom(MultipleSum *s, ExprId x, int64_t factor)
{
    uint32_t i = 0;
    while (i < s->len && s->atom[i] != x)
        i++;
    if (i == TERMS_MAX) {
        s->unknown = 1;
        return;
    }
    if (i == s->len) {
        s->coef[s->len] = 0;
        s->atom[s->len++] = x;
    }
    s->coef[i] = (s->coef[i] + factor) % s->n;
}

/* Where every loop over this variable begins (of lanes: the open one), when it goes in steps that are multiples of n; else NONE. */
static ExprId loop_begin(const Emit *e, IndexId var, int64_t n)
{
    ExprId lo = NONE;
    for (StmtId i = 0; i < e->p->p->stmts.len; i++) {
        const Stmt *s = &e->p->p->stmts.at[i];
        if (s->kind != TILE_for || s->var != var || (var == e->var && i != e->loop))
            continue;
        if (s->step % n != 0 || (lo != NONE && lo != s->lo))
            return NONE;
        lo = s->lo;
    }
    return lo;
}

static void add_terms(Emit *e, MultipleSum *s, ExprId x, int64_t factor, int depth);

static int is_multiple(Emit *e, ExprId x, int64_t n, int depth)
{
    MultipleSum s = {.n = n};
    add_terms(e, &s, x, 1, depth);
    int multiple = !s.unknown && s.constant % n == 0;
    for (uint32_t i = 0; i < s.len; i++)
        multiple &= s.coef[i] % n == 0;
    return multiple;
}

/* 1 when x is a sum, a difference or a constant times something, which were added. */
static int add_operation(Emit *e, MultipleSum *s, ExprId x, int64_t factor, int depth)
{
    const Expr *node = x_at(e->k, x);
    if (node->kind != X_OP || (node->op != OP_add && node->op != OP_sub && node->op != OP_mul))
        return 0;
    ExprId a = x_arg(e->k, x, 0), b = x_arg(e->k, x, 1);
    if (node->op != OP_mul) {
        add_terms(e, s, a, factor, depth);
        add_terms(e, s, b, node->op == OP_sub ? -factor : factor, depth);
        return 1;
    }
    if (x_at(e->k, a)->kind != X_INT) {
        ExprId other = a;
        a = b;
        b = other;
    }
    if (x_at(e->k, a)->kind != X_INT)
        return 0;
    add_terms(e, s, b, factor * (x_at(e->k, a)->value.i % s->n) % s->n, depth);
    return 1;
}

/* Is all that is stored to the register multiples? */
static int holds_multiples(Emit *e, TensorId reg, int64_t n, int depth)
{
    if (e->k->tensors.at[reg].space != SPACE_REG || e->k->tensors.at[reg].rank)
        return 0;
    for (StmtId i = 0; i < e->p->p->stmts.len; i++) {
        const Stmt *s = &e->p->p->stmts.at[i];
        if (s->buffer == reg && (s->kind != TILE_store || s->add || !is_multiple(e, s->value, n, depth)))
            return 0;
    }
    return 1;
}

/* Is it a multiple, whatever else is in the sum: a register, or the larger or smaller one of two? */
static int is_multiple_alone(Emit *e, ExprId x, int64_t n, int depth)
{
    const Expr *node = x_at(e->k, x);
    if (node->kind == X_LOAD)
        return holds_multiples(e, node->sym, n, depth);
    return (x_is_op(e->k, x, OP_max2) || x_is_op(e->k, x, OP_min2)) &&
           is_multiple(e, x_arg(e->k, x, 0), n, depth) && is_multiple(e, x_arg(e->k, x, 1), n, depth);
}

static void add_terms(Emit *e, MultipleSum *s, ExprId x, int64_t factor, int depth)
{
    const Expr *node = x_at(e->k, x);
    int64_t known;
    if (depth >= DEPTH_MAX || factor % s->n == 0) {
        s->unknown |= factor % s->n != 0;
        return;
    }
    if (node->kind == X_INT || (node->kind == X_EXTENT && ext_is_const(e->p->m, node->sym, &known))) {
        known = node->kind == X_INT ? node->value.i : known;
        s->constant = (s->constant + factor * (known % s->n)) % s->n;
        return;
    }
    if (add_operation(e, s, x, factor, depth + 1))
        return;
    ExprId lo = node->kind == X_INDEX ? loop_begin(e, node->sym, s->n) : (ExprId)NONE;
    if (lo != NONE)
        add_terms(e, s, lo, factor, depth + 1);
    else if (!is_multiple_alone(e, x, s->n, depth + DEPTH_ALONE))
        add_atom(s, x, factor);
}

int emit_multiple(Emit *e, ExprId x, int64_t n) { return is_multiple(e, x, n, 0); }
