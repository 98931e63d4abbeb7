/* Which equations may be one epilogue: a loop over elements that computes and stores those of all members.
 *
 * Note [Own place]. The loop runs in any order, so what one member writes another one may touch at the same
 * element only: every access to a tensor that some member writes has the writer's own subscripts and stands
 * outside reductions. Or it is apart from it: where both subscripts are numbers they differ. */
#include "passes/epilogue.h"
#include "passes/query.h"

#include <string.h>

int epilogue_space(const Kernel *k, const Equation *q, IndexId *out)
{
    int n = 0;
    if ((q->kind != EQ_ASSIGN && q->kind != EQ_ADD) || q->dead)
        return -1;
    for (uint32_t i = 0; i < q->nindex; i++) {
        const Expr *x = x_at(k, q->index[i]);
        if (x->kind == X_INDEX)
            out[n++] = x->sym;
        else if (x->kind != X_INT)
            return -1;
    }
    return n > 0 ? n : -1;
}

int epilogue_same_space(const Kernel *k, const Equation *a, const Equation *b)
{
    IndexId x[MAX_RANK], y[MAX_RANK];
    int n = epilogue_space(k, a, x);
    if (n < 0 || n != epilogue_space(k, b, y))
        return 0;
    for (int i = 0; i < n; i++) {
        Axis p = k->indices.at[x[i]].axis, q = k->indices.at[y[i]].axis;
        if (p.group != q.group || !ext_same(k->module, p.extent, q.extent))
            return 0;
    }
    return 1;
}

/* ---- variables ---- */

static int binds(const Kernel *k, ExprId root, IndexId i)
{
    each_below (n, k, root, EVERYWHERE)
        if (x_binds(k, *n, i))
            return 1;
    return 0;
}

/* Is variable `place` of the space free to be `to` in equation q? */
static int takes(const Kernel *k, const Equation *q, uint32_t place, IndexId to)
{
    IndexId own[MAX_RANK];
    int n = epilogue_space(k, q, own);
    for (int i = 0; i < n; i++)
        if (own[i] == to)
            return (uint32_t)i == place;
    return !binds(k, q->rhs, to);
}

static void rename_one(Kernel *k, Equation *q, const ExprId *to)
{
    IndexId own[MAX_RANK];
    uint32_t n = (uint32_t)epilogue_space(k, q, own);
    for (uint32_t i = 0; i < q->nindex; i++)
        q->index[i] = x_substitute(k, q->index[i], own, to, n);
    q->rhs = x_substitute(k, q->rhs, own, to, n);
}

void epilogue_rename(Kernel *k, const uint32_t *members, uint32_t n)
{
    IndexId to[MAX_RANK];
    ExprId index[MAX_RANK];
    uint32_t nvars = (uint32_t)epilogue_space(k, &k->eqs.at[members[0]], to);
    for (uint32_t v = 0; v < nvars; v++) {
        for (uint32_t m = 1; m < n; m++)
            if (!takes(k, &k->eqs.at[members[m]], v, to[v])) {
                Index like = k->indices.at[to[v]];
                to[v] = ir_index(k, like.name, like.loc, like.axis);
                break;
            }
        index[v] = x_index(k, k->eqs.at[members[0]].loc, to[v]);
    }
    for (uint32_t m = 0; m < n; m++) {
        Equation q = k->eqs.at[members[m]];
        rename_one(k, &q, index);
        k->eqs.at[members[m]] = q;
    }
}

/* ---- own places ---- */

/* Are the elements that the subscripts name never the same? */
static int is_apart(const Kernel *k, const ExprId *a, const ExprId *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (x_at(k, a[i])->kind == X_INT && x_at(k, b[i])->kind == X_INT && a[i] != b[i])
            return 1;
    return 0;
}

static int in_reduction(const Kernel *k, ExprId root, ExprId load)
{
    each_below (n, k, root, EVERYWHERE)
        if (x_at(k, *n)->kind == X_REDUCE && x_contains(k, *n, load))
            return 1;
    return 0;
}

/* Does `reader` touch what `writer` writes at its own place only? */
static int keeps_place(const Kernel *k, const Equation *writer, const Equation *reader)
{
    uint32_t rank = writer->nindex;
    if (reader->lhs == writer->lhs && !is_apart(k, writer->index, reader->index, rank) &&
        memcmp(writer->index, reader->index, sizeof *writer->index * rank) != 0)
        return 0;
    each_below (n, k, reader->rhs, EVERYWHERE) {
        if (x_at(k, *n)->kind != X_LOAD || x_at(k, *n)->sym != writer->lhs)
            continue;
        const ExprId *at = k->links.at + x_at(k, *n)->args;
        if (is_apart(k, writer->index, at, rank))
            continue;
        if (memcmp(writer->index, at, sizeof *at * rank) != 0 || in_reduction(k, reader->rhs, *n))
            return 0;
    }
    return 1;
}

const char *epilogue_blocks(const EquationOrder *o, const uint32_t *members, uint32_t n)
{
    const Kernel *k = o->k;
    if (n > EPILOGUE_MAX)
        return "too many equations for one epilogue";
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++)
            if (!keeps_place(k, &k->eqs.at[members[a]], &k->eqs.at[members[b]]))
                return arena_printf(k->module->arena, "%s reads other elements of %s",
                                    k->tensors.at[k->eqs.at[members[b]].lhs].name,
                                    k->tensors.at[k->eqs.at[members[a]].lhs].name);
    uint32_t late = order_blocks(o, members, n);
    if (late != NONE)
        return arena_printf(k->module->arena, "%s waits for what needs another reader first",
                            k->tensors.at[k->eqs.at[late].lhs].name);
    return NULL;
}

/* ---- sums ---- */

static int uses_all(const Kernel *k, ExprId e, const IndexId *vars, int n)
{
    for (int i = 0; i < n; i++)
        if (!x_uses_index(k, e, vars[i]))
            return 0;
    return 1;
}

int epilogue_is_product(const Kernel *k, const Equation *q, ExprId sum)
{
    IndexId vars[MAX_RANK];
    int n = epilogue_space(k, q, vars);
    if (n < 2 || !query_is_product_sum(k, sum))
        return 0;
    ExprId product = x_arg(k, sum, 0);
    return !uses_all(k, x_arg(k, product, 0), vars, n) && !uses_all(k, x_arg(k, product, 1), vars, n);
}

int epilogue_mixes(const Kernel *k, const PassContext *c, const uint32_t *members, uint32_t n)
{
    int products = 0, others = 0;
    for (uint32_t m = 0; m < n && pass_traits(c)->sums_apart; m++)
        each_below (e, k, k->eqs.at[members[m]].rhs, X_REDUCE) {
            int is_product = epilogue_is_product(k, &k->eqs.at[members[m]], *e);
            products |= is_product;
            others |= x_at(k, *e)->kind == X_REDUCE && !is_product;
        }
    return products && others;
}

Extent epilogue_bytes(Kernel *k, TensorId t)
{
    Module *m = k->module;
    Extent bytes = ext_const(m, (int64_t)elem_bytes(k->tensors.at[t].elem));
    for (uint32_t a = 0; a < k->tensors.at[t].rank; a++)
        bytes = ext_mul(m, bytes, k->tensors.at[t].axes[a].extent);
    return bytes;
}
