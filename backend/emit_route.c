/* Routes: built from choices, and checked when a caller brings one. */
#include "backend/emit.h"

typedef struct RouteView {
    const Route *route;
    const Group *group;
    uint32_t field[RF_FIELDS];     /* buffers, NONE: not used */
    uint32_t check;                /* the first of its statement */
    V groups, slots, rows, places; /* places: rows of a run of a capacity group, NULL: runs of any length */
} RouteView;

static RouteView view(Emit *e, StmtId id)
{
    RouteId r = e->p->p->stmts.at[id].route;
    const Route *route = &e->k->routes.at[r];
    RouteView v = {.route = route, .check = e->p->check_of[id], .group = &e->p->m->groups.at[route->group]};
    for (RouteField f = 0; f < RF_FIELDS; f++) {
        v.field[f] = plan_field(e->p, r, f);
        if (v.field[f] != NONE && !e->p->buffers.at[v.field[f]].used)
            v.field[f] = NONE;
    }
    v.groups = emit_extent(e, v.group->groups);
    v.rows = emit_extent(e, v.group->rows);
    v.slots = l_mul(e->l, emit_extent(e, route->tokens), emit_extent(e, route->choices));
    v.places = v.group->kind == GROUP_CAPACITY ? emit_extent(e, v.group->size) : NULL;
    return v;
}

static V get(Emit *e, const RouteView *v, RouteField f, V at) { return emit_get(e, v->field[f], at); }

static void put(Emit *e, const RouteView *v, RouteField f, V at, V value)
{
    emit_put(e, v->field[f], at, value);
}

static void fill(Emit *e, const RouteView *v, RouteField f, V n, int64_t value)
{
    For i = l_for(e->l, l_i64(e->l, 0), n, 1, "fill");
    put(e, v, f, i.var, l_i64(e->l, value));
    l_end_for(e->l, &i);
}

/* ---- the words of its checks ---- */

enum { CHOICE_BAD, CHOICE_ROWS };
static const char *const choice_texts[] = {
    [CHOICE_BAD] = "the choice %lld is not an expert; there are %lld, and -1 drops",
    [CHOICE_ROWS] = "the choices need %lld rows, the row space has %lld",
};

enum {
    VALID_START,
    VALID_PLACES,
    VALID_COUNT,
    VALID_FALLS,
    VALID_LENGTH,
    VALID_END,
    VALID_SLOT,
    VALID_ROW_OF_SLOT,
    VALID_PAD,
    VALID_ROW,
    VALID_EXISTS,
    VALID_SLOT_OF_ROW
};
static const char *const valid_texts[] = {
    [VALID_START] = "start[0] is %lld, not 0",
    [VALID_PLACES] = "run %lld has %lld places, not its capacity",
    [VALID_COUNT] = "count[%lld] is %lld: not within the capacity",
    [VALID_FALLS] = "start falls after group %lld, by %lld",
    [VALID_LENGTH] = "count[%lld] is %lld: not the length of its run",
    [VALID_END] = "the runs end at %lld, the row space at %lld",
    [VALID_SLOT] = "slot_of[%lld] is %lld: no such choice",
    [VALID_ROW_OF_SLOT] = "row_of[slot_of[%lld]] is %lld",
    [VALID_PAD] = "slot_of[%lld] is %lld, but the row does not exist",
    [VALID_ROW] = "row_of[%lld] is %lld: no such row",
    [VALID_EXISTS] = "row_of[%lld] is %lld, a row that does not exist",
    [VALID_SLOT_OF_ROW] = "slot_of[row_of[%lld]] is %lld",
};

void plan_add_route_checks(Plan *p, Arena *a, const Stmt *s)
{
    int builds = s->kind == TILE_route;
    const char *const *texts = builds ? choice_texts : valid_texts;
    size_t n = builds ? sizeof choice_texts / sizeof *texts : sizeof valid_texts / sizeof *texts;
    for (size_t i = 0; i < n; i++) {
        int status = builds && i == CHOICE_BAD ? s->status ? s->status : STATUS_COMPUTED : STATUS_ROUTE;
        plan_add_check(
            p, a, status,
            arena_printf(a, "%s: route %s: %s", p->k->name, p->k->routes.at[s->route].name, texts[i]));
    }
}

static void require(Emit *e, const RouteView *v, V ok, uint32_t text, V a, V b)
{
    emit_check(e, ok, v->check + text, a, b);
}

/* ---- building ---- */

static void count_choices(Emit *e, const RouteView *v, const Stmt *s)
{
    L *l = e->l;
    fill(e, v, RF_count, v->groups, 0);
    For i = l_for(l, l_i64(l, 0), v->slots, 1, "choice");
    V id = emit_get(e, s->second, i.var);
    V ok = l_and(l, l_icmp(l, LLVMIntSGE, id, l_i64(l, -1)), l_icmp(l, LLVMIntSLT, id, v->groups));
    require(e, v, ok, CHOICE_BAD, id, v->groups);
    When real = l_when(l, l_icmp(l, LLVMIntSGE, id, l_i64(l, 0)));
    put(e, v, RF_count, id, l_add(l, get(e, v, RF_count, id), l_i64(l, 1)));
    l_end_when(l, &real);
    l_end_for(l, &i);
}

static void place_runs(Emit *e, const RouteView *v)
{
    L *l = e->l;
    V one = l_i64(l, 1);
    put(e, v, RF_start, l_i64(l, 0), l_i64(l, 0));
    For g = l_for(l, l_i64(l, 0), v->groups, 1, "run");
    V length = v->places ? v->places : get(e, v, RF_count, g.var);
    put(e, v, RF_start, l_add(l, g.var, one), l_add(l, get(e, v, RF_start, g.var), length));
    l_end_for(l, &g);
    if (v->places)
        return;
    V rows = get(e, v, RF_start, v->groups);
    require(e, v, l_icmp(l, LLVMIntSLE, rows, v->rows), CHOICE_ROWS, rows, v->rows);
}

static void place_choices(Emit *e, const RouteView *v, const Stmt *s)
{
    L *l = e->l;
    V none = l_i64(l, -1);
    fill(e, v, RF_slot_of, v->rows, -1);
    fill(e, v, RF_count, v->groups, 0);
    For i = l_for(l, l_i64(l, 0), v->slots, 1, "choice");
    V id = emit_get(e, s->second, i.var);
    put(e, v, RF_row_of, i.var, none);
    When real = l_when(l, l_icmp(l, LLVMIntSGE, id, l_i64(l, 0)));
    V n = get(e, v, RF_count, id);
    When room = l_when(l, v->places ? l_icmp(l, LLVMIntSLT, n, v->places) : l_true(l));
    V row = l_add(l, get(e, v, RF_start, id), n);
    put(e, v, RF_count, id, l_add(l, n, l_i64(l, 1)));
    put(e, v, RF_row_of, i.var, row);
    put(e, v, RF_slot_of, row, i.var);
    l_end_when(l, &room);
    l_end_when(l, &real);
    l_end_for(l, &i);
}

/* A counting sort by expert: stable, so rows are ordered by (expert, token, slot). */
void emit_tile_route(Emit *e, StmtId id)
{
    const Stmt *s = &e->p->p->stmts.at[id];
    RouteView v = view(e, id);
    count_choices(e, &v, s);
    place_runs(e, &v);
    place_choices(e, &v, s);
}

/* ---- checking ---- */

static void check_runs(Emit *e, const RouteView *v)
{
    L *l = e->l;
    V zero = l_i64(l, 0), first = get(e, v, RF_start, zero);
    require(e, v, l_icmp(l, LLVMIntEQ, first, zero), VALID_START, first, zero);
    For g = l_for(l, zero, v->groups, 1, "run");
    V start = get(e, v, RF_start, g.var), end = get(e, v, RF_start, l_add(l, g.var, l_i64(l, 1)));
    V count = get(e, v, RF_count, g.var), length = l_sub(l, end, start);
    if (v->places) {
        require(e, v, l_icmp(l, LLVMIntEQ, length, v->places), VALID_PLACES, g.var, length);
        require(e, v, l_icmp(l, LLVMIntULE, count, v->places), VALID_COUNT, g.var, count);
    } else {
        require(e, v, l_icmp(l, LLVMIntSGE, length, zero), VALID_FALLS, g.var, l_sub(l, zero, length));
        require(e, v, l_icmp(l, LLVMIntEQ, count, length), VALID_LENGTH, g.var, count);
    }
    l_end_for(l, &g);
    V end_all = get(e, v, RF_start, v->groups);
    require(e, v, l_icmp(l, LLVMIntSLE, end_all, v->rows), VALID_END, end_all, v->rows);
}

static void check_pads(Emit *e, const RouteView *v, V from, V to)
{
    For pad = l_for(e->l, from, to, 1, "pad");
    V slot = get(e, v, RF_slot_of, pad.var);
    require(e, v, l_icmp(e->l, LLVMIntEQ, slot, l_i64(e->l, -1)), VALID_PAD, pad.var, slot);
    l_end_for(e->l, &pad);
}

static void check_slots(Emit *e, const RouteView *v)
{
    L *l = e->l;
    For g = l_for(l, l_i64(l, 0), v->groups, 1, "run");
    V start = get(e, v, RF_start, g.var);
    V stop = l_add(l, start, get(e, v, RF_count, g.var));
    For r = l_for(l, start, stop, 1, "row");
    V slot = get(e, v, RF_slot_of, r.var);
    require(e, v, l_icmp(l, LLVMIntULT, slot, v->slots), VALID_SLOT, r.var, slot);
    if (v->field[RF_row_of] != NONE) {
        V back = get(e, v, RF_row_of, slot);
        require(e, v, l_icmp(l, LLVMIntEQ, back, r.var), VALID_ROW_OF_SLOT, r.var, back);
    }
    l_end_for(l, &r);
    check_pads(e, v, stop, get(e, v, RF_start, l_add(l, g.var, l_i64(l, 1))));
    l_end_for(l, &g);
    check_pads(e, v, get(e, v, RF_start, v->groups), v->rows);
}

static void check_rows(Emit *e, const RouteView *v)
{
    L *l = e->l;
    V end = get(e, v, RF_start, v->groups);
    For i = l_for(l, l_i64(l, 0), v->slots, 1, "choice");
    V row = get(e, v, RF_row_of, i.var);
    V ok = l_and(l, l_icmp(l, LLVMIntSGE, row, l_i64(l, -1)), l_icmp(l, LLVMIntSLT, row, end));
    require(e, v, ok, VALID_ROW, i.var, row);
    When kept = l_when(l, l_icmp(l, LLVMIntSGE, row, l_i64(l, 0)));
    if (v->places) {
        V group = l_bin(l, LLVMUDiv, row, v->places);
        V place = l_sub(l, row, l_mul(l, group, v->places));
        require(e, v, l_icmp(l, LLVMIntSLT, place, get(e, v, RF_count, group)), VALID_EXISTS, i.var, row);
    }
    if (v->field[RF_slot_of] != NONE) {
        V back = get(e, v, RF_slot_of, row);
        require(e, v, l_icmp(l, LLVMIntEQ, back, i.var), VALID_SLOT_OF_ROW, i.var, back);
    }
    l_end_when(l, &kept);
    l_end_for(l, &i);
}

void emit_tile_valid(Emit *e, StmtId id)
{
    RouteView v = view(e, id);
    check_runs(e, &v);
    if (v.field[RF_slot_of] != NONE)
        check_slots(e, &v);
    if (v.field[RF_row_of] != NONE)
        check_rows(e, &v);
}
