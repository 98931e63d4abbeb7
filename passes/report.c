/* Collects what the passes decided, and lists what there was to decide about. */
#include "passes/report.h"

#include "passes/query.h"

const char *origin_name(KnobOrigin o)
{
    static const char *const names[ORIGIN_COUNT] = {[ORIGIN_MACHINE] = "machine",
                                                    [ORIGIN_RULE] = "rule",
                                                    [ORIGIN_SCHEDULE] = "schedule",
                                                    [ORIGIN_SEED] = "seed"};
    return names[o];
}

Report *report_new(Arena *a)
{
    Report *r = arena_new_of(a, Report);
    r->arena = a;
    return r;
}

void report_edge(Report *r, const Kernel *k, ReportEdge e)
{
    for (uint32_t i = 0; r && i < r->edges.len; i++) {
        ReportEdge *old = &r->edges.at[i].e;
        if (r->edges.at[i].k == k && old->producer == e.producer && old->consumer == e.consumer) {
            *old = e;
            return;
        }
    }
    if (r)
        vec_push(r->arena, &r->edges, (struct EdgeOf){k, e});
}

void report_product(Report *r, const Kernel *k, ReportProduct p)
{
    if (r)
        vec_push(r->arena, &r->products, (struct ProductOf){k, p});
}

void report_nest(Report *r, const Kernel *k, ReportNest n)
{
    if (r)
        vec_push(r->arena, &r->nests, (struct NestOf){k, n});
}

void report_knob(Report *r, const Kernel *k, ReportKnob n)
{
    for (uint32_t i = 0; r && i < r->knobs.len; i++) {
        ReportKnob *old = &r->knobs.at[i].n;
        if (r->knobs.at[i].k == k && old->knob == n.knob && old->name == n.name && old->reader == n.reader) {
            *old = n;
            return;
        }
    }
    if (r)
        vec_push(r->arena, &r->knobs, (struct KnobOf){k, n});
}

void report_choice(Report *r, const Kernel *k, ReportChoice c)
{
    if (r)
        vec_push(r->arena, &r->choices, (struct ChoiceOf){k, c});
}

/* ---- sums ---- */

enum { FACTORS_MAX = 20 };

typedef struct FactorList {
    ExprId at[FACTORS_MAX];
    uint32_t n;
} FactorList;

/* Factors that hold elements of tensors. */
static void list_factors(const Kernel *k, ExprId e, FactorList *out)
{
    int is_float = type_is_float((Type)x_at(k, e)->type); /* products of integers are one factor */
    if (is_float && (x_is_op(k, e, OP_mul) || x_is_op(k, e, OP_neg))) {
        for (uint32_t i = 0; i < x_at(k, e)->nargs; i++)
            list_factors(k, x_arg(k, e, i), out);
    } else if (out->n < FACTORS_MAX && x_loads_any(k, e)) {
        out->at[out->n++] = e;
    }
}

/* Does a vary with an index that b does not vary with? The group of a row is taken as fixed. */
static int varies_more(const Kernel *k, ExprId a, ExprId b)
{
    each_below (n, k, a, X_GROUP)
        if (x_at(k, *n)->kind == X_INDEX && !query_varies(k, b, x_at(k, *n)->sym))
            return 1;
    return 0;
}

static Elem common_elem(const Kernel *k, const FactorList *f)
{
    Type type = (Type)x_at(k, f->at[0])->type;
    if (f->n != 2 || type != (Type)x_at(k, f->at[1])->type)
        return EL_F32;
    return type == TY_BF16 ? EL_BF16 : type == TY_F16 ? EL_F16 : EL_F32;
}

static int shares_nothing(const Kernel *k, const FactorList *f)
{
    for (uint32_t a = 0; a < f->n; a++)
        for (uint32_t b = 0; b < a; b++)
            if (varies_more(k, f->at[a], f->at[b]) && varies_more(k, f->at[b], f->at[a]))
                return 0;
    return 1;
}

static GroupId group_of(const Kernel *k, IndexId i)
{
    GroupId g = k->indices.at[i].axis.group;
    return g == NONE ? 0 : g + 1;
}

int report_sum(const Kernel *k, ExprId e, ReportSum *out)
{
    const Expr *x = x_at(k, e);
    FactorList f = {.n = 0};
    if (x->kind != X_REDUCE || x->op != RED_SUM || !type_is_float((Type)x->type))
        return 0;
    if (x_factors(k, x_arg(k, e, 0)) < FACTORS_MANY)
        list_factors(k, x_arg(k, e, 0), &f);
    if (f.n < 2)
        return 0;
    *out = (ReportSum){.sum = e, .loc = x->loc, .elem = common_elem(k, &f), .is_dot = shares_nothing(k, &f)};
    return 1;
}

static void find_groups(const Kernel *k, ReportSum *s)
{
    const Equation *q = s->q;
    for (uint32_t i = 0; i < q->nindex; i++)
        if (x_at(k, q->index[i])->kind == X_INDEX && !s->row_group)
            s->row_group = group_of(k, x_at(k, q->index[i])->sym);
    for (uint32_t i = 0; i < x_at(k, s->sum)->nbound && !s->depth_group; i++)
        s->depth_group = group_of(k, x_bound(k, s->sum, i));
}

static int is_known(const ReportSums *s, const Equation *q, ExprId sum)
{
    for (uint32_t i = 0; i < s->len; i++)
        if (s->at[i].sum == sum && q->cluster != NONE && s->at[i].q->cluster == q->cluster)
            return 1;
    return 0;
}

static void add_sums(const Kernel *k, const Equation *q, ReportSums *out)
{
    each_below (n, k, q->rhs, EVERYWHERE) {
        ReportSum s;
        if (is_known(out, q, *n) || !report_sum(k, *n, &s))
            continue;
        s.q = q;
        find_groups(k, &s);
        vec_push(k->module->arena, out, s);
    }
}

ReportSums report_sums(const Kernel *k)
{
    ReportSums out = {0};
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (!q->dead && q->rhs != NONE && q->kind != EQ_CHECK)
            add_sums(k, q, &out);
    }
    return out;
}

/* ---- edges ---- */

static void add_pair(const Kernel *k, ReportPairs *out, const Equation *q, TensorId producer)
{
    for (uint32_t i = 0; i < out->len; i++)
        if (out->at[i].producer == producer && out->at[i].consumer == q->lhs)
            return;
    vec_push(k->module->arena, out, (ReportPair){producer, q->lhs, q->loc});
}

ReportPairs report_pairs(const Kernel *k)
{
    ReportPairs out = {0};
    for (uint32_t i = 0; i < k->eqs.len; i++) {
        const Equation *q = &k->eqs.at[i];
        if (q->dead || q->kind == EQ_CHECK || q->rhs == NONE || q->lhs == NONE)
            continue;
        each_below (n, k, q->rhs, EVERYWHERE)
            if (x_at(k, *n)->kind == X_LOAD && k->tensors.at[x_at(k, *n)->sym].role == ROLE_LOCAL &&
                x_at(k, *n)->sym != q->lhs)
                add_pair(k, &out, q, x_at(k, *n)->sym);
    }
    return out;
}
