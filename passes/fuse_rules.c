/* The rules of fusion. Bits never change, since a local of its own type is read; only where a += takes a
 * whole sum its chain begins at the old value. */
#include "passes/fuse.h"
#include "passes/query.h"

static ExprId rhs_of(const Producer *p) { return p->f->k->eqs.at[p->at].rhs; }

/* A load of the producer's local, in an expression of a reader. */
typedef struct Use {
    const Equation *q;
    ExprId root, load;
} Use;

typedef Vec(Use) Uses;

static Uses uses_of(const Producer *p)
{
    const Kernel *k = p->f->k;
    Uses out = {0};
    for (uint32_t r = 0; r < p->readers.len; r++) {
        const Equation *q = &k->eqs.at[p->readers.at[r]];
        ExprId parts[MAX_RANK + 2];
        for (uint32_t n = fuse_parts(q, parts); n-- > 0;)
            each_below (e, k, parts[n], EVERYWHERE)
                if (x_at(k, *e)->kind == X_LOAD && x_at(k, *e)->sym == p->local)
                    vec_push(k->module->scratch, &out, ((Use){q, parts[n], *e}));
    }
    return out;
}

/* Are the subscripts distinct plain index variables? */
static int is_plain(const Kernel *k, ExprId load)
{
    for (uint32_t a = 0; a < x_at(k, load)->nargs; a++) {
        if (x_at(k, x_arg(k, load, a))->kind != X_INDEX)
            return 0;
        for (uint32_t b = 0; b < a; b++)
            if (x_arg(k, load, a) == x_arg(k, load, b))
                return 0;
    }
    return 1;
}

static uint32_t left_variables(const Kernel *k, const Equation *q)
{
    uint32_t n = q->kind == EQ_TOP;
    for (uint32_t i = 0; i < q->nindex; i++)
        n += x_at(k, q->index[i])->kind == X_INDEX;
    return n;
}

/* ---- copy ---- */

/* Does the value stay as it is? */
static int is_same(const Kernel *k, ExprId e)
{
    return x_is_op(k, e, OP_f32) || x_is_op(k, e, OP_stop) || x_is_op(k, e, OP_shift);
}

/* Only an element is moved: a load, f32 of one, stop. */
static int is_copy(const Producer *p)
{
    const Kernel *k = p->f->k;
    ExprId e = rhs_of(p);
    while (is_same(k, e))
        e = x_arg(k, e, 0);
    return x_at(k, e)->kind == X_LOAD;
}

/* before:  xp[r, h] = x[rt.token(r), h]     g[r, f] = sum(h) xp[r, h] * w[@r, h, f]
 * after:   g[r, f] = sum(h) x[rt.token(r), h] * w[@r, h, f]
 * Into every reader, wherever it reads. */
static const char *copy_blocks(const Producer *p)
{
    (void)p;
    return NULL;
}

/* ---- pointwise ---- */

/* No reduction; and no integer: storing one checks its range. */
static int is_pointwise(const Producer *p)
{
    const Kernel *k = p->f->k;
    return elem_type(k->tensors.at[p->local].elem) != TY_INT && !query_has_reduce(k, rhs_of(p));
}

/* Index variables around `load`: on the left, and bound by a reduction over it. */
static uint32_t variables_around(const Kernel *k, const Use *u)
{
    uint32_t n = left_variables(k, u->q);
    each_below (e, k, u->root, EVERYWHERE)
        if (x_at(k, *e)->kind == X_REDUCE && x_contains(k, *e, u->load))
            n += x_at(k, *e)->nbound;
    return n;
}

/* before:  s[t, h] = silu(x[t, h])     y[t, h] = s[t, h] * w[h]
 * after:   y[t, h] = silu(x[t, h]) * w[h]
 * Where every reader asks for each element once, and there is one reader or little work, or the schedule wants it. */
static const char *pointwise_blocks(const Producer *p)
{
    const Kernel *k = p->f->k;
    Uses uses = uses_of(p);
    for (uint32_t i = 0; i < uses.len; i++)
        if (!is_plain(k, uses.at[i].load) ||
            variables_around(k, &uses.at[i]) != x_at(k, uses.at[i].load)->nargs)
            return "an element is read more than once";
    return uses.len == 1 || query_cost(k, rhs_of(p)) <= LITTLE_WORK || p->request == FUSE_WANTED
               ? NULL
               : "several readers, and computing it again is more than a little work";
}

/* ---- operand ---- */

/* The factor of sum e in which the load stands, or NONE: in both, or in its condition. */
static ExprId side_of(const Kernel *k, ExprId e, ExprId load)
{
    ExprId body = x_arg(k, e, 0), where = x_condition(k, e);
    uint32_t side = (uint32_t)x_contains(k, x_arg(k, body, 1), load);
    if ((where != NONE && x_contains(k, where, load)) || x_contains(k, x_arg(k, body, 1 - side), load))
        return NONE;
    return x_arg(k, body, side);
}

/* The factor of a sum of products in which the load stands, or NONE: elsewhere. */
static ExprId factor_of(const Kernel *k, const Use *u)
{
    ExprId factor = NONE;
    each_below (e, k, u->root, EVERYWHERE) {
        if (!query_is_product_sum(k, *e) || !x_contains(k, *e, u->load))
            continue;
        factor = side_of(k, *e, u->load);
        if (factor == NONE)
            return NONE;
    }
    return factor;
}

/* Index variables that e, which has no reductions, varies with. */
static uint32_t variables_of(const Kernel *k, ExprId e)
{
    uint32_t n = 0;
    each_below (i, k, e, EVERYWHERE)
        n += x_at(k, *i)->kind == X_INDEX;
    return n;
}

/* Are the subscripts index variables, or the group of a row, which is the same for all rows of a block? */
static int is_plain_of_group(const Kernel *k, ExprId load)
{
    for (uint32_t a = 0; a < x_at(k, load)->nargs; a++) {
        ExprId at = x_arg(k, load, a);
        if (x_at(k, at)->kind == X_GROUP)
            at = x_arg(k, at, 0);
        if (x_at(k, at)->kind != X_INDEX)
            return 0;
    }
    return 1;
}

/* Is each use a whole factor's worth of work: a plain read, by all variables of a factor of a product? */
static int are_factors(const Kernel *k, const Uses *uses)
{
    for (uint32_t i = 0; i < uses->len; i++) {
        ExprId factor = factor_of(k, &uses->at[i]), load = uses->at[i].load;
        if (factor == NONE || !is_plain_of_group(k, load) || variables_of(k, factor) != x_at(k, load)->nargs)
            return 0;
    }
    return 1;
}

/* Do all uses stand in the same factor, in one equation or in several that become one epilogue? */
static int one_factor(const Producer *p, const Uses *uses)
{
    const Fuse *f = p->f;
    uint32_t peers = f->peers[p->readers.at[0]];
    for (uint32_t r = 1; r < p->readers.len; r++)
        if (peers == NONE || f->peers[p->readers.at[r]] != peers)
            return 0;
    for (uint32_t i = 1; i < uses->len; i++)
        if (factor_of(f->k, &uses->at[i]) != factor_of(f->k, &uses->at[0]))
            return 0;
    return 1;
}

/* before:  n[t, h] = bf16(x[t, h] * s[t])     y[t, f] = sum(h) n[t, h] * w[h, f]
 * after:   y[t, f] = sum(h) bf16(x[t, h] * s[t]) * w[h, f]
 * A factor of a product is computed while it is packed, once for each block of columns. With little work, and
 * one product that reads it, that is less than to write and read it. A cast goes into any number, and what the schedule wants. */
static const char *operand_blocks(const Producer *p)
{
    Uses uses = uses_of(p);
    uint32_t cost = query_cost(p->f->k, rhs_of(p));
    if (!are_factors(p->f->k, &uses))
        return "not only factors of products read it";
    if (cost > schedule_operand_cost(p->f->c, p->f->k, rhs_of(p)))
        return "computing it for each block of columns is more than a little work";
    return cost <= CAST_WORK || p->request == FUSE_WANTED || one_factor(p, &uses)
               ? NULL
               : "more than one product reads it";
}

/* ---- epilogue ---- */

static int is_reduction(const Producer *p)
{
    const Kernel *k = p->f->k;
    return elem_type(k->tensors.at[p->local].elem) != TY_INT && query_has_reduce(k, rhs_of(p));
}

/* Does the use read with all left-hand variables of its equation? In their order, when several do. */
static int at_own_place(const Producer *p, const Use *u)
{
    const Kernel *k = p->f->k;
    IndexId left[MAX_RANK];
    int n = epilogue_space(k, u->q, left);
    if (n < 0 || u->root != u->q->rhs || !is_plain(k, u->load) || (uint32_t)n != x_at(k, u->load)->nargs)
        return 0;
    for (uint32_t a = 0; a < (uint32_t)n; a++) {
        uint32_t at = 0;
        while (at < (uint32_t)n && left[at] != x_at(k, x_arg(k, u->load, a))->sym)
            at++;
        if (at == (uint32_t)n || (p->readers.len > 1 && at != a))
            return 0;
    }
    return 1;
}

/* before:  g[r, f] = sum(h) x[r, h] * w[@r, h, f]
 *          a[r, f] = bf16(silu(g[r, f]) * u[r, f])     s[r, f] = bf16(g[r, f])
 * after:   a[r, f] = bf16(silu(sum(h) ...) * u[r, f])     s[r, f] = bf16(sum(h) ...)
 * What is done with a sum goes to where it is finished. Several readers must become one epilogue, which computes
 * the sum once: then the sums are products. */
static const char *epilogue_rule_blocks(const Producer *p)
{
    const Kernel *k = p->f->k;
    Uses uses = uses_of(p);
    for (uint32_t i = 0; i < uses.len; i++) {
        if (!at_own_place(p, &uses.at[i]))
            return "not every reader goes over it element by element";
        if (!query_is_sure(k, uses.at[i].root, uses.at[i].load))
            return "a reader reads it under a condition or in a reduction";
    }
    ExprId sums[REDUCE_MAX];
    uint32_t n = query_reductions(k, rhs_of(p), sums, REDUCE_MAX);
    for (uint32_t i = 0; p->readers.len > 1 && i < n && i < REDUCE_MAX; i++)
        if (!query_is_product_sum(k, sums[i]))
            return "several readers, and its reduction is not a sum of products";
    return NULL;
}

const FuseRule fuse_rules[] = {
    {"copy", is_copy, copy_blocks, 0},
    {"pointwise", is_pointwise, pointwise_blocks, 0},
    {"epilogue", is_reduction, epilogue_rule_blocks, 1},
    {"operand", is_pointwise, operand_blocks, 0},
};
const uint32_t fuse_rule_count = sizeof fuse_rules / sizeof *fuse_rules;
