/* Routes: made from choices, checked when they come from the caller, and the search of top. */
#include "ir/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void place_rows(const int32_t *ids, int64_t limit, EvalRoute *out, int64_t *next)
{
    int64_t slots = out->tokens * out->choices;
    for (int64_t r = 0; r < out->rows && out->slot_of; r++)
        out->slot_of[r] = -1;
    for (int64_t s = 0; s < slots; s++) { /* token order, which makes the sort stable */
        int32_t row = -1;
        if (ids[s] >= 0 && next[ids[s]] - out->start[ids[s]] < limit)
            row = (int32_t)next[ids[s]]++;
        if (out->row_of)
            out->row_of[s] = row;
        if (out->slot_of && row >= 0)
            out->slot_of[row] = (int32_t)s;
    }
}

int64_t ir_make_route(const int32_t *ids, int64_t capacity, EvalRoute *out)
{
    int64_t slots = out->tokens * out->choices, limit = capacity < 0 ? INT64_MAX : capacity;
    memset(out->count, 0, sizeof *out->count * (size_t)out->groups);
    for (int64_t s = 0; s < slots; s++) {
        if (ids[s] < -1 || ids[s] >= out->groups)
            return 1 + s;
        if (ids[s] >= 0 && out->count[ids[s]] < limit)
            out->count[ids[s]]++;
    }
    out->start[0] = 0;
    for (int64_t g = 0; g < out->groups; g++)
        out->start[g + 1] = out->start[g] + (capacity < 0 ? out->count[g] : capacity);
    if (out->start[out->groups] > out->rows)
        return -1;
    int64_t *next = malloc(sizeof *next * (size_t)(out->groups + 1));
    if (!next)
        return -2;
    memcpy(next, out->start, sizeof *next * (size_t)out->groups);
    place_rows(ids, limit, out, next);
    free(next);
    return 0;
}

/* ---- routes of the caller ---- */

static const char *group_fault(const Eval *e, const EvalRoute *r, int64_t g, int64_t capacity)
{
    int64_t length = r->start[g + 1] - r->start[g];
    if (r->start[g] < 0 || length < 0 || r->start[g + 1] > r->rows)
        return arena_printf(e->arena, "start[%lld] is %lld, start[%lld] is %lld, with %lld rows",
                            (long long)g, (long long)r->start[g], (long long)g + 1,
                            (long long)r->start[g + 1], (long long)r->rows);
    if (r->count[g] < 0 || r->count[g] > length || (capacity < 0 && r->count[g] != length) ||
        (capacity >= 0 && length != capacity))
        return arena_printf(e->arena, "count[%lld] is %lld in a run of %lld", (long long)g,
                            (long long)r->count[g], (long long)length);
    return NULL;
}

static const char *row_fault(const Eval *e, const EvalRoute *r, int64_t row, int32_t group)
{
    int64_t slot = r->slot_of ? r->slot_of[row] : -1;
    if (r->slot_of && group < 0 && slot != -1)
        return arena_printf(e->arena, "slot_of[%lld] is %lld, but the row does not exist", (long long)row,
                            (long long)slot);
    if (r->slot_of && group >= 0 && (slot < 0 || slot >= r->tokens * r->choices))
        return arena_printf(e->arena, "slot_of[%lld] is %lld, outside 0..%lld", (long long)row,
                            (long long)slot, (long long)(r->tokens * r->choices - 1));
    if (r->slot_of && r->row_of && group >= 0 && r->row_of[slot] != row)
        return arena_printf(e->arena, "slot_of[%lld] is %lld, but row_of[%lld] is %d", (long long)row,
                            (long long)slot, (long long)slot, (int)r->row_of[slot]);
    return NULL;
}

static const char *slot_fault(const Eval *e, const EvalRoute *r, const int32_t *group_of, int64_t slot)
{
    int32_t row = r->row_of[slot];
    if (row == -1)
        return NULL;
    if (row < -1 || row >= r->rows || group_of[row] < 0)
        return arena_printf(e->arena, "row_of[%lld] is %d, a row that does not exist", (long long)slot,
                            (int)row);
    if (r->slot_of && r->slot_of[row] != slot)
        return arena_printf(e->arena, "row_of[%lld] is %d, but slot_of[%d] is %d", (long long)slot, (int)row,
                            (int)row, (int)r->slot_of[row]);
    return NULL;
}

int32_t *eval_group_of(Eval *e, RouteId id)
{
    const EvalRoute *r = e->routes[id].route;
    int32_t *group_of = arena_array(e->scratch, int32_t, r->rows + 1);
    for (int64_t row = 0; row < r->rows; row++)
        group_of[row] = -1;
    for (int64_t g = 0; g < r->groups; g++)
        for (int64_t i = 0; i < r->count[g]; i++)
            group_of[r->start[g] + i] = (int32_t)g;
    return group_of;
}

const char *eval_route_fault(Eval *e, RouteId id)
{
    const EvalRoute *r = e->routes[id].route;
    const Group *group = &e->m->groups.at[e->k->routes.at[id].group];
    int64_t capacity = -1;
    const char *fault = NULL;
    if (group->kind == GROUP_CAPACITY && !ext_eval(e->m, group->size, e->dims, &capacity))
        return "the capacity is too large";
    if (r->start[0] != 0)
        return "start[0] is not 0";
    for (int64_t g = 0; g < r->groups && !fault; g++)
        fault = group_fault(e, r, g, capacity);
    if (fault)
        return fault;
    int32_t *group_of = eval_group_of(e, id);
    for (int64_t row = 0; row < r->rows && !fault; row++)
        fault = row_fault(e, r, row, group_of[row]);
    for (int64_t slot = 0; r->row_of && slot < r->tokens * r->choices && !fault; slot++)
        fault = slot_fault(e, r, group_of, slot);
    return fault;
}

/* ---- route equations ---- */

void eval_make_route(Eval *e, const Equation *q)
{
    RouteData *r = &e->routes[q->route];
    const TensorData *ids = &e->tensors[q->ids];
    const Group *group = &e->m->groups.at[e->k->routes.at[q->route].group];
    int64_t capacity = group->kind == GROUP_CAPACITY ? eval_extent(e, group->size) : -1;
    int32_t *choices = arena_array(e->scratch, int32_t, ids->size + 1);
    for (int64_t i = 0; i < ids->size; i++) {
        choices[i] = (int32_t)ids->at[i];
        r->route->doubtful |= ids->error && ids->error[i] > 0;
    }
    int64_t fault = ir_make_route(choices, capacity, r->route);
    const char *name = e->k->tensors.at[q->ids].name;
    if (fault > 0)
        eval_fail(e, "%s[%lld, %lld] is %d, outside -1..%lld", name,
                  (long long)((fault - 1) / ids->extent[1]), (long long)((fault - 1) % ids->extent[1]),
                  (int)choices[fault - 1], (long long)r->route->groups - 1);
    else if (fault < 0)
        eval_fail(e, "the rows of route %s do not fit: %lld of %lld", e->k->routes.at[q->route].name,
                  (long long)r->route->start[r->route->groups], (long long)r->route->rows);
    else
        r->group_of = eval_group_of(e, q->route);
}

/* ---- top ---- */

typedef struct Candidate {
    Value value;
    int64_t at;
    double lo, hi; /* of sorted floats: the least of those up to this one, the most of those from it on */
} Candidate;

/* Descending, ties to the lower index, NaN last. */
static int float_order(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    int nan_x = isnan(x->value.n.f), nan_y = isnan(y->value.n.f);
    if (nan_x != nan_y)
        return nan_x - nan_y;
    if (!nan_x && x->value.n.f != y->value.n.f)
        return x->value.n.f > y->value.n.f ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int integer_order(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    if (x->value.n.i != y->value.n.i)
        return x->value.n.i > y->value.n.i ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The bounds of each, then of all up to it and from it on. A NaN that need not be one may be anything. */
static void find_bounds(Candidate *c, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double value = c[i].value.n.f, error = c[i].value.error;
        int any = error > 0 && (isnan(value) || isinf(error));
        c[i].lo = any || isnan(value) ? -INFINITY : value - error;
        c[i].hi = any ? INFINITY : isnan(value) ? -INFINITY : value + error;
    }
    for (int64_t i = 1; i < n; i++)
        c[i].lo = fmin(c[i].lo, c[i - 1].lo);
    for (int64_t i = n - 1; i-- > 0;)
        c[i].hi = fmax(c[i].hi, c[i + 1].hi);
}

/* Could the errors turn the order of two of which one stands up to `i` and the other one behind it? Neither of exact ones that are equal
 * nor of NaNs. */
static int may_pass(const Candidate *c, int64_t i)
{
    int exact = c[i].value.error + c[i + 1].value.error <= 0;
    int nans = isnan(c[i].value.n.f) && isnan(c[i + 1].value.n.f);
    return c[i].lo < c[i + 1].hi || (!exact && !nans && c[i].lo <= c[i + 1].hi);
}

typedef struct EvalTop {
    const Equation *q;
    Node *value;
    EvalAccess *lhs, *ids;
    Loop searched;
    Loop outer[MAX_RANK];
    uint32_t nouter;
    IndexId place;
    int64_t wanted;
    Candidate *candidates;
} EvalTop;

static void store_top(Eval *e, const EvalTop *t, double error)
{
    Candidate *c = t->candidates;
    Type type = (Type)t->value->type;
    if (type != TY_INT)
        find_bounds(c, t->searched.extent);
    for (int64_t i = 0; i < t->wanted && !e->error; i++) {
        int unused = 0;
        Value v = c[i].value, id = {{.i = c[i].at}, 0};
        id.error = type == TY_INT
                       ? error > 0
                       : (i > 0 && may_pass(c, i - 1)) || (i + 1 < t->searched.extent && may_pass(c, i));
        v.error = error;
        e->index[t->place] = i;
        eval_store(e, t->q->lhs, eval_place(e, t->lhs, &unused), v, type);
        eval_store(e, t->q->ids, eval_place(e, t->ids, &unused), id, TY_INT);
    }
}

static void run_top(Eval *e, const EvalTop *t, uint32_t level)
{
    if (level < t->nouter) {
        const Loop *l = &t->outer[level];
        const int32_t *group_of = l->route == NONE ? NULL : e->routes[l->route].group_of;
        for (int64_t i = 0; i < l->extent && !e->error; i++) {
            eval_move(e, l, i);
            if (!group_of || group_of[i] >= 0)
                run_top(e, t, level + 1);
        }
        return;
    }
    double error = 0;
    for (int64_t i = 0; i < t->searched.extent && !e->error; i++) {
        eval_move(e, &t->searched, i);
        t->candidates[i] = (Candidate){.value = eval_run(e, t->value), .at = i};
        error = fmax(error, t->candidates[i].value.error);
    }
    if (e->error)
        return;
    qsort(t->candidates, (size_t)t->searched.extent, sizeof *t->candidates,
          t->value->type == TY_INT ? integer_order : float_order);
    store_top(e, t, error);
}

void eval_top(Eval *e, const Equation *q)
{
    EvalTop t = {.q = q};
    const TensorData *lhs = &e->tensors[q->lhs], *ids = &e->tensors[q->ids];
    uint32_t last = q->nindex - 1u;
    for (uint32_t i = 0; i < last; i++)
        if (x_at(e->k, q->index[i])->kind == X_INDEX)
            t.outer[t.nouter++] = eval_loop(e, x_at(e->k, q->index[i])->sym);
    t.place = x_at(e->k, q->index[last])->sym;
    t.searched = eval_loop(e, q->bound);
    t.wanted = lhs->extent[last];
    if (e->error)
        return;
    if (t.wanted > t.searched.extent) {
        eval_fail(e, "top takes %lld of %lld values (kernel %s, line %u)", (long long)t.wanted,
                  (long long)t.searched.extent, e->k->name, (unsigned)q->loc.line);
        return;
    }
    if (t.nouter == last) { /* rows that do not exist */
        memset(lhs->at, 0, sizeof(double) * (size_t)lhs->size);
        memset(ids->at, 0, sizeof(double) * (size_t)ids->size);
    }
    t.value = eval_node(e, q->rhs, t.searched.local);
    t.lhs = eval_access(e, q->lhs, q->index, q->nindex, -1);
    t.ids = eval_access(e, q->ids, q->index, q->nindex, -1);
    t.candidates = arena_array(e->scratch, Candidate, t.searched.extent + 1);
    if (!e->error)
        run_top(e, &t, 0);
}
