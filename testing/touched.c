/* What a call touches of its parameters: no more than its equations, sizes and routes let it reach. */
#include "testing/parts.h"
#include "passes/query.h"

/* Of the two copies of a tensor that is `packed both`, bits: 1 is read where sums go over its rows or none does, 2 where they go over
 * its columns. */
static int copies_read(const Kernel *k, TensorId t)
{
    int copies = 0;
    for (uint32_t q = 0; q < k->eqs.len; q++)
        each_below (sum, k, k->eqs.at[q].rhs, EVERYWHERE) {
            if (x_at(k, *sum)->kind != X_REDUCE)
                continue;
            IndexId term = x_bound(k, *sum, x_at(k, *sum)->nbound - 1u);
            each_below (x, k, x_arg(k, *sum, 0), EVERYWHERE)
                if (x_at(k, *x)->kind == X_LOAD && x_at(k, *x)->sym == t)
                    copies |= x_uses_index(k, x_arg(k, *x, x_at(k, *x)->nargs - 1u), term) ? 2 : 1;
        }
    return copies ? copies : 1;
}

/* ---- matrices of groups ---- */

/* The group by whose rows all matrices of t that are read are chosen, w[@r, h, f]; NONE: by something else, too. */
static GroupId group_of_matrices(const Kernel *k, TensorId t)
{
    GroupId group = NONE;
    for (uint32_t q = 0; q < k->eqs.len; q++)
        each_below (x, k, k->eqs.at[q].rhs, EVERYWHERE) {
            if (x_at(k, *x)->kind != X_LOAD || x_at(k, *x)->sym != t)
                continue;
            ExprId first = x_arg(k, *x, 0),
                   row = x_at(k, first)->kind == X_GROUP ? x_arg(k, first, 0) : (ExprId)NONE;
            if (row == NONE || x_at(k, row)->kind != X_INDEX)
                return NONE;
            group = k->indices.at[x_at(k, row)->sym].axis.group;
        }
    return group;
}

/* The share of an input's matrices whose groups have rows. */
static double share_of_groups(const TestCase *c, TensorId t)
{
    GroupId g = group_of_matrices(c->k, t);
    RouteId route = g == NONE ? (RouteId)NONE : ir_group_route(c->k, g);
    for (uint32_t i = 0; route != NONE && i < c->k->params.len; i++) {
        const EvalRoute *r = &c->values[i].route;
        if (c->k->params.at[i].kind != PARAM_ROUTE || c->k->params.at[i].id != route || !r->count ||
            !r->groups)
            continue;
        int64_t some = 0;
        for (int64_t e = 0; e < r->groups; e++)
            some += r->count[e] > 0;
        return (double)some / (double)r->groups;
    }
    return 1;
}

/* ---- elements at computed places ---- */

/* How many values the index variables of these subscripts have together. */
static double places(const TestCase *c, const ExprId *subscripts, uint32_t n)
{
    double all = 1;
    for (IndexId i = 0; i < c->k->indices.len; i++)
        for (uint32_t s = 0; s < n; s++)
            if (x_uses_index(c->k, subscripts[s], i)) {
                all *= (double)test_extent_value(c, c->k->indices.at[i].axis.extent);
                break;
            }
    return all;
}

static double places_read(const TestCase *c, const Equation *q, TensorId t)
{
    double all = 0;
    each_below (x, c->k, q->rhs, EVERYWHERE)
        if (x_at(c->k, *x)->kind == X_LOAD && x_at(c->k, *x)->sym == t)
            all += places(c, &c->k->links.at[x_at(c->k, *x)->args], x_at(c->k, *x)->nargs);
    return all;
}

/* A bucketed sum that is added touches those buckets only that have terms. */
static double places_written(const TestCase *c, const Equation *q)
{
    ExprId subscripts[MAX_RANK];
    Bucket b;
    int bucketed =
        q->kind == EQ_ADD && x_at(c->k, q->rhs)->kind == X_REDUCE && query_bucket((Kernel *)c->k, q->rhs, &b);
    for (uint32_t i = 0; i < q->nindex; i++)
        subscripts[i] =
            bucketed && x_at(c->k, q->index[i])->kind == X_INDEX && x_at(c->k, q->index[i])->sym == b.bucket
                ? b.key
                : q->index[i];
    return places(c, subscripts, q->nindex);
}

/* The share of a tensor's elements that equations can reach, w[id[t], h] no more than T x H of them. */
static double share_of_places(const TestCase *c, const Tensor *tensor, TensorId t)
{
    double all = 0, elements = (double)test_elements(c, tensor);
    for (uint32_t q = 0; q < c->k->eqs.len; q++) {
        all += places_read(c, &c->k->eqs.at[q], t);
        all += c->k->eqs.at[q].lhs == t ? places_written(c, &c->k->eqs.at[q]) : 0;
        all += c->k->eqs.at[q].ids == t ? elements : 0;
    }
    return all < elements ? all / elements : 1;
}

TestTouched test_touched(const TestCase *c, uint32_t param, int64_t bytes)
{
    const Tensor *tensor = test_tensor(c->k, param);
    if (!tensor || tensor->unread)
        return (TestTouched){0, 0};
    TensorId t = c->k->params.at[param].id;
    double share = share_of_places(c, tensor, t);
    if (tensor->role == ROLE_IN && tensor->rank > 0) {
        const double of_groups = share_of_groups(c, t);
        share = share < of_groups ? share : of_groups;
    }
    if (tensor->both && tensor->role == ROLE_IN && copies_read(c->k, t) != 3)
        share /= 2;
    bytes = (int64_t)((double)bytes * share);
    return (TestTouched){tensor->role == ROLE_OUT ? 0 : bytes, tensor->role == ROLE_IN ? 0 : bytes};
}
