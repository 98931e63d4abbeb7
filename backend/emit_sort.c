/* Row blocks, counting sorts, and the largest of a row: code of one thread, and but for a look at candidates scalar. */
#include "backend/emit.h"

static const Stmt *at(const Emit *e, StmtId s) { return &e->p->p->stmts.at[s]; }

static V get_var(Emit *e, V slot) { return l_load(e->l, e->l->i64, slot, 8); }

static void set_var(Emit *e, V slot, V v) { l_store(e->l, v, slot, 8); }

static V new_var(Emit *e, const char *name, int64_t value)
{
    V slot = l_slot(e->l, e->l->i64, name);
    set_var(e, slot, l_i64(e->l, value));
    return slot;
}

typedef enum Which { BLOCKS_ALL, BLOCKS_FULL, BLOCKS_REST } Which;

static int64_t columns_of(const Emit *e, uint32_t list)
{
    int64_t n = 0;
    return ext_is_const(e->k->module, e->p->buffers.at[list].axes[1].extent, &n) && n == RUN_COLUMNS ? n : 2;
}

/* Appends the blocks of every group: all, the full ones, or the last one where it is not full. They are a run. */
static void list_blocks(Emit *e, const Stmt *s, V n, Which which)
{
    L *l = e->l;
    uint32_t start = plan_field(e->p, s->route, RF_start), count = plan_field(e->p, s->route, RF_count);
    For g = l_for(l, l_i64(l, 0), emit_elements(e, count), 1, "group");
    V first = emit_get(e, start, g.var), rows = emit_get(e, count, g.var), step = l_i64(l, s->step);
    V full = l_add(l, first, l_mul(l, l_bin(l, LLVMUDiv, rows, step), step)), end = l_add(l, first, rows);
    V from = which == BLOCKS_REST ? full : first, to = which == BLOCKS_FULL ? full : end, run = get_var(e, n);
    V length = l_bin(l, LLVMUDiv, l_add(l, l_sub(l, to, from), l_i64(l, s->step - 1)), step);
    For r = l_for(l, from, to, s->step, "row");
    V columns[RUN_COLUMNS] = {g.var, r.var, run, length}, number = get_var(e, n);
    V place = l_mul(l, number, l_i64(l, columns_of(e, s->buffer)));
    for (int64_t i = 0; i < columns_of(e, s->buffer); i++)
        emit_put(e, s->buffer, l_add(l, place, l_i64(l, i)), columns[i]);
    set_var(e, n, l_add(l, number, l_i64(l, 1)));
    l_end_for(l, &r);
    l_end_for(l, &g);
}

void emit_tile_blocks(Emit *e, StmtId id)
{
    const Stmt *s = at(e, id);
    V n = new_var(e, "blocks", 0);
    list_blocks(e, s, n, s->full_first ? BLOCKS_FULL : BLOCKS_ALL);
    if (s->full_first)
        list_blocks(e, s, n, BLOCKS_REST);
    emit_put(e, s->second, l_i64(e->l, 0), get_var(e, n));
}

/* ---- bucket ---- */

/* One pass over the iteration space: `place` NULL counts the elements of bucket b in first[b + 1], else their
 * flat numbers go to order[first[b]++]. Keys outside the buckets belong to no bucket. */
static void bucket_pass(Emit *e, const Stmt *s, V buckets, int place)
{
    L *l = e->l;
    For loops[MAX_RANK];
    V flat = new_var(e, "flat", -1);
    for (uint32_t i = 0; i < s->nbound; i++) {
        const Index *x = &e->k->indices.at[s->bound[i]];
        loops[i] = l_for(l, l_i64(l, 0), emit_extent(e, x->axis.extent), 1, x->name);
        e->index[s->bound[i]] = loops[i].var;
    }
    V number = l_add(l, get_var(e, flat), l_i64(l, 1));
    set_var(e, flat, number);
    When counts = l_when(l, s->guard == NONE ? l_true(l) : emit_bool(e, s->guard));
    V key = emit_value(e, s->value);
    When inside = l_when(l, l_icmp(l, LLVMIntULT, key, buckets));
    V cell = place ? key : l_add(l, key, l_i64(l, 1));
    V old = emit_get(e, s->second, cell);
    if (place)
        emit_put(e, s->buffer, old, number);
    emit_put(e, s->second, cell, l_add(l, old, l_i64(l, 1)));
    l_end_when(l, &inside);
    l_end_when(l, &counts);
    emit_forget(e, 0);
    for (uint32_t i = s->nbound; i-- > 0;) {
        l_end_for(l, &loops[i]);
        e->index[s->bound[i]] = NULL;
    }
}

void emit_tile_bucket(Emit *e, StmtId id)
{
    L *l = e->l;
    const Stmt *s = at(e, id);
    V buckets = emit_value(e, s->limit), zero = l_i64(l, 0), one = l_i64(l, 1);
    emit_forget(e, 0);
    For clear = l_for(l, zero, l_add(l, buckets, one), 1, "clear");
    emit_put(e, s->second, clear.var, zero);
    l_end_for(l, &clear);
    bucket_pass(e, s, buckets, 0);
    For sum = l_for(l, zero, buckets, 1, "sum");
    V next = l_add(l, sum.var, one);
    emit_put(e, s->second, next, l_add(l, emit_get(e, s->second, sum.var), emit_get(e, s->second, next)));
    l_end_for(l, &sum);
    bucket_pass(e, s, buckets, 1);
    /* now first[b] is where bucket b ends */
    For shift = l_for(l, zero, buckets, 1, "shift");
    V to = l_sub(l, buckets, shift.var);
    emit_put(e, s->second, to, emit_get(e, s->second, l_sub(l, to, one)));
    l_end_for(l, &shift);
    emit_put(e, s->second, zero, zero);
}

/* ---- top ---- */

/* v stands before w: larger, or a number where w is NaN. */
static V beats(Emit *e, V v, V w)
{
    L *l = e->l;
    if (l_is_int(v))
        return l_icmp(l, LLVMIntSGT, v, w);
    return l_and(l, l_fcmp(l, LLVMRealORD, v, v), l_fcmp(l, LLVMRealUGT, v, w));
}

typedef struct Top {
    uint32_t values, ids;
    V first, first_id; /* positions of place 0 */
    V v, id;
} Top;

/* Moves what v beats one place up, from place `from` down, and puts v there. */
static void insert(Emit *e, const Top *t, V from)
{
    L *l = e->l;
    Block test = l_block(l, "test"), look = l_block(l, "look"), move = l_block(l, "move"),
          put = l_block(l, "put");
    Block before = l_here(l);
    V one = l_i64(l, 1);
    l_goto(l, test);
    l_enter(l, test);
    V place = l_phi(l, l->i64, from, before, NULL, NULL);
    l_branch(l, l_icmp(l, LLVMIntSGT, place, l_i64(l, 0)), look, put);
    l_enter(l, look);
    V below = l_sub(l, place, one);
    V w = emit_get(e, t->values, l_add(l, t->first, below));
    l_branch(l, beats(e, t->v, w), move, put);
    l_enter(l, move);
    emit_put(e, t->values, l_add(l, t->first, place), w);
    emit_put(e, t->ids, l_add(l, t->first_id, place), emit_get(e, t->ids, l_add(l, t->first_id, below)));
    LLVMAddIncoming(place, &below, &move, 1);
    l_goto(l, test);
    l_enter(l, put);
    emit_put(e, t->values, l_add(l, t->first, place), t->v);
    emit_put(e, t->ids, l_add(l, t->first_id, place), t->id);
}

/* One more candidate for the `k` places, of which `filled` hold something. */
static void consider(Emit *e, const Top *t, V filled, V k)
{
    L *l = e->l;
    V n = get_var(e, filled), one = l_i64(l, 1);
    V room = l_icmp(l, LLVMIntSLT, n, k), last = l_sub(l, k, one);
    Block full = l_block(l, "full"), enter = l_block(l, "insert"), done = l_block(l, "done");
    l_branch(l, room, enter, full);
    l_enter(l, full);
    l_branch(l, beats(e, t->v, emit_get(e, t->values, l_add(l, t->first, last))), enter, done);
    l_enter(l, enter);
    insert(e, t, l_min(l, n, last));
    set_var(e, filled, l_min(l, l_add(l, n, one), k));
    l_goto(l, done);
    l_enter(l, done);
}

static V candidate(Emit *e, const Stmt *s)
{
    V v = emit_value(e, s->value);
    emit_forget(e, 0);
    return elem_type(e->p->buffers.at[s->buffer].elem) == TY_INT ? v : emit_to_float(e, v);
}

/* Most candidates beat nothing: so many are compared with the last place at once, and those that beat it are considered. */
enum { CANDIDATES = 32 };

static void consider_strip(Emit *e, const Stmt *s, Top *t, V first, V filled, V k)
{
    L *l = e->l;
    emit_lanes_over(e, s->var, CANDIDATES);
    emit_lanes_from(e, first);
    V all = l_splat(l, candidate(e, s), CANDIDATES);
    emit_lanes_over(e, NONE, 0);
    V last = emit_get(e, t->values, l_add(l, t->first, l_sub(l, k, l_i64(l, 1))));
    V room = l_icmp(l, LLVMIntSLT, get_var(e, filled), k);
    V better = l_or(l, l_splat(l, room, CANDIDATES), beats(e, all, l_splat(l, last, CANDIDATES)));
    V slot = l_slot(l, LLVMTypeOf(all), "candidates");
    Ty one = LLVMGetElementType(LLVMTypeOf(all));
    l_store(l, all, slot, 0);
    EachLane x = l_each_lane(l, better);
    t->v = l_load(l, one, l_at(l, one, slot, x.lane), 0);
    t->id = l_add(l, first, x.lane);
    consider(e, t, filled, k);
    l_end_lanes(l, &x);
}

void emit_tile_top(Emit *e, StmtId id)
{
    L *l = e->l;
    const Stmt *s = at(e, id);
    if (e->width)
        BUG(l->arena, "backend: top in a vector loop of kernel %s", e->k->name);
    V k = emit_value(e, s->limit), lo = emit_value(e, s->lo), hi = emit_value(e, s->hi);
    Top t = {.values = s->buffer, .ids = s->second};
    t.first = emit_position(e, s->buffer, s->index, s->nindex);
    t.first_id = emit_position(e, s->second, s->index, s->nindex);
    V filled = new_var(e, "filled", 0);
    emit_forget(e, 0);
    When some = l_when(l, l_icmp(l, LLVMIntSGT, k, l_i64(l, 0)));
    const char *name = e->k->indices.at[s->var].name;
    For strip = l_for(l, lo, l_sub(l, hi, l_i64(l, CANDIDATES - 1)), CANDIDATES, name);
    consider_strip(e, s, &t, strip.var, filled, k);
    l_end_for(l, &strip);
    V whole = l_and(l, l_max(l, l_sub(l, hi, lo), l_i64(l, 0)), l_i64(l, -CANDIDATES));
    For f = l_for(l, l_add(l, lo, whole), hi, 1, name);
    e->index[s->var] = t.id = f.var;
    t.v = candidate(e, s);
    consider(e, &t, filled, k);
    l_end_for(l, &f);
    l_end_when(l, &some);
    e->index[s->var] = NULL;
}
