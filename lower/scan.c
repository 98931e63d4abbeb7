/* Sums that go on from row to row: Note [Scans] in passes/scan.c. Registers keep them:
 *   vector d in .. { acc = 0   for t in 0..T { acc += x[t, d]   y[t, d] = acc } }
 * Rows are not parallel then; other indices are, and lanes go over them. */
#include "lower/lower.h"

/* Do all sums of the members go on along t, in one direction? */
static int all_scan(Lower *l, const Members *m, IndexId t)
{
    int down[2], found = 0;
    for (uint32_t q = 0; q < m->n; q++) {
        if (!query_has_reduce(l->k, m->at[q].rhs))
            continue;
        if (!query_is_scan(l->k, m->at[q].rhs, t, &down[found]) || down[found] != down[0])
            return 0;
        found = 1;
    }
    return found;
}

IndexId lower_scan_index(Lower *l, const Blocking *by)
{
    if (pass_traits(l->c)->long_vectors)
        return NONE;
    for (uint32_t f = 0; f < by->nfree; f++)
        if (all_scan(l, &by->m, by->free[f]))
            return by->free[f];
    return NONE;
}

/* ---- loops ---- */

/* The sums of all members, each once, and what each adds in a row. */
typedef struct Scan {
    Domain *d[REDUCE_MAX];
    ScanStep step[REDUCE_MAX];
    uint32_t n;
} Scan;

/* The terms under the conditions that are left, in a scope of their own. */
static void add_terms(Lower *l, const Item *it, Walk w, const ScanStep *s)
{
    uint32_t scope = l->env.scope;
    w.pending &= ~((uint64_t)1 << s->conjunct);
    l->env.scope = l->env.done.len;
    lower_walk(l, it, w);
    l->env.scope = scope;
}

/* Those that come before the first row, which is the last one where rows go down. */
static void add_before(Lower *l, const Item *it, const Domain *d, const ScanStep *s)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, d->reduce[0])->loc;
    uint32_t depth = l->b.depth;
    IndexId j = d->bound[s->bound];
    ExprId end = lower_extent(l, j), rows = lower_extent(l, it->by->scan), zero = x_int(k, loc, 0);
    lower_narrow(l, j, s->down ? x_max(k, zero, x_add(k, rows, s->first)) : zero,
                 s->down ? end : x_min(k, end, x_int(k, loc, s->first)));
    add_terms(l, it, lower_walk_from(d), s);
    lower_widen(l);
    build_close(&l->b, depth);
}

static void begin(Lower *l, const Item *it, Scan *r, ExprId reduce)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->d[i]->reduce[0] == reduce)
            return;
    lower_report(l, it, &(LowerProduct){.reduce = reduce}, "it goes on from row to row, by a term for each");
    Domain *d = lower_open_domain(l, it, reduce, NONE);
    query_scan_step(l->k, reduce, it->by->scan, &r->step[r->n]);
    if (d->lane == d->bound[r->step[r->n].bound])
        d->lane = NONE; /* one term has none */
    lower_begin_domain(l, it, d, NULL);
    if (r->step[r->n].before)
        add_before(l, it, d, &r->step[r->n]);
    r->d[r->n++] = d;
}

/* The term that comes with the row, where the index has it. */
static void add_next(Lower *l, const Item *it, const Domain *d, const ScanStep *s)
{
    Kernel *k = l->k;
    Loc loc = x_at(k, d->reduce[0])->loc;
    uint32_t depth = l->b.depth;
    IndexId j = d->bound[s->bound], t = it->by->scan;
    ExprId at = x_add(k, lower_expr(l, x_index(k, loc, t)), s->first);
    Walk w = lower_walk_from(d);
    if (s->first < 0)
        build_if(&l->b, loc, x_op2(k, loc, OP_ge, at, x_int(k, loc, 0)));
    if (s->first > 0 || !s->has_all)
        build_if(&l->b, loc, x_op2(k, loc, OP_lt, at, lower_extent(l, j)));
    Binding outer = lower_binding(l, j);
    lower_bind(l, j, at, NONE);
    w.open |= 1u << s->bound;
    add_terms(l, it, w, s);
    lower_bind(l, j, outer.value, outer.group);
    build_close(&l->b, depth);
}

void lower_scan(Lower *l, const Item *item, const Members *m)
{
    Kernel *k = l->k;
    Loc loc = m->at[0].loc;
    Item it = *item;
    IndexId t = it.by->scan, row = t;
    Scan r = {.n = 0};
    for (uint32_t q = 0; q < m->n; q++) {
        WantedList found = lower_wanted(l, m->at[q].rhs);
        it.equation = &m->at[q];
        for (uint32_t i = found.len; i-- > 0;)
            begin(l, &it, &r, found.at[i].reduce);
    }
    ExprId length = lower_extent(l, t);
    if (r.step[0].down)
        row = build_index(&l->b, "back");
    build_for(&l->b, loc, LOOP_ORDERED, row, x_int(k, loc, 0), length, 1);
    lower_bind(l, t, row == t ? (ExprId)NONE : x_difference(k, x_add(k, length, -1), x_index(k, loc, row)),
               NONE);
    for (uint32_t i = 0; i < r.n; i++)
        add_next(l, &it, r.d[i], &r.step[i]);
    for (uint32_t i = 0; i < r.n; i++)
        lower_finish_domain(l, r.d[i]);
    for (uint32_t q = 0; q < m->n; q++)
        lower_store_element(l, &m->at[q], m->at[q].kind == EQ_ADD);
}
