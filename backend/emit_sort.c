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

/* The same of candidates in any order: of equal ones the lower index. */
static V stands_before(Emit *e, V v, V id, V w, V other)
{
    L *l = e->l;
    V tie = l_and(l, l_not(l, beats(e, w, v)), l_icmp(l, LLVMIntSLT, id, other));
    return l_or(l, beats(e, v, w), tie);
}

/* Note [Top]: the k places hold the best candidates so far. Few of them are kept in order: one that enters moves those that it
 * beats. Many are a heap while the candidates go by, so that one that enters moves as many as the heap is deep: every place
 * stands behind its children, and place 0 last of all. The places fill from the last one down, so that the children of the
 * place that is filled are always there. In the end the heap is emptied from its last place down, which sorts it. */
typedef struct Top {
    uint32_t values, ids;
    V first, first_id; /* positions of place 0 */
    V k, last;         /* places, and the number of the last one */
    V heap;            /* a condition: the places are a heap; NULL: they never are */
    V v, id;
} Top;

enum { IN_ORDER = 64 }; /* places, at most, that are kept in order */

/* Whether there are at most so many places in every call, as their extent says. */
static int is_at_most(const Emit *e, ExprId places, int64_t count)
{
    const Module *m = e->k->module;
    int64_t n = 0;
    Extent extent = x_at(e->k, places)->sym;
    if (x_at(e->k, places)->kind != X_EXTENT)
        return 0;
    if (ext_is_const(m, extent, &n))
        return n <= count;
    ExtentForm form = m->extents.at[extent];
    const Monomial *t = form.terms;
    n = form.nterms == 1 && t->ndims == 1 && t->coef == 1 ? m->dims.at[t->dims[0]].max : -1;
    return n >= 0 && n <= count;
}

static V value_at(Emit *e, const Top *t, V place)
{
    return emit_get(e, t->values, l_add(e->l, t->first, place));
}

static V id_at(Emit *e, const Top *t, V place)
{
    return emit_get(e, t->ids, l_add(e->l, t->first_id, place));
}

static void put_at(Emit *e, const Top *t, V place, V v, V id)
{
    emit_put(e, t->values, l_add(e->l, t->first, place), v);
    emit_put(e, t->ids, l_add(e->l, t->first_id, place), id);
}

/* A free place, which moves until the candidate fits: what belongs there instead leaves its own place. Blocks: is there a next
 * place; does what it holds belong here; then it comes; else the candidate does. */
typedef struct Hole {
    Block test, look, move, put;
    V place;
} Hole;

static Hole hole_at(L *l, V from)
{
    Hole h = {.test = l_block(l, "test"),
              .look = l_block(l, "look"),
              .move = l_block(l, "move"),
              .put = l_block(l, "put")};
    Block before = l_here(l);
    l_goto(l, h.test);
    l_enter(l, h.test);
    h.place = l_phi(l, l->i64, from, before, NULL, NULL);
    return h;
}

/* Goes on in block `next` if the hole may still move; else the candidate goes into it. */
static void hole_go_on(L *l, const Hole *h, V may_move, Block next)
{
    l_branch(l, may_move, next, h->put);
    l_enter(l, next);
}

/* w comes from place `next`, which becomes the hole. The end of the loop: behind it the candidate is in the hole. */
static void hole_move(Emit *e, const Top *t, const Hole *h, V next, V w, V id)
{
    Block from = h->move;
    put_at(e, t, h->place, w, id);
    LLVMAddIncoming(h->place, &next, &from, 1);
    l_goto(e->l, h->test);
    l_enter(e->l, h->put);
    put_at(e, t, h->place, t->v, t->id);
}

/* Moves what v beats one place up, from place `from` down, and puts v there. */
static void insert(Emit *e, const Top *t, V from)
{
    L *l = e->l;
    Hole h = hole_at(l, from);
    hole_go_on(l, &h, l_icmp(l, LLVMIntSGT, h.place, l_i64(l, 0)), h.look);
    V below = l_sub(l, h.place, l_i64(l, 1));
    V w = value_at(e, t, below);
    hole_go_on(l, &h, beats(e, t->v, w), h.move);
    hole_move(e, t, &h, below, w, id_at(e, t, below));
}

/* Moves what stands behind v one place up in the heap of places 0 .. n - 1, from place `from` on, and puts v there. */
static void sink(Emit *e, const Top *t, V from, V n)
{
    L *l = e->l;
    V one = l_i64(l, 1);
    Hole h = hole_at(l, from);
    V left = l_add(l, l_shl(l, h.place, 1), one);
    hole_go_on(l, &h, l_icmp(l, LLVMIntSLT, left, n), h.look);
    V right = l_min(l, l_add(l, left, one), l_sub(l, n, one));
    V v = value_at(e, t, left), w = value_at(e, t, right), id = id_at(e, t, left), other = id_at(e, t, right);
    V behind = stands_before(e, v, id, w, other);
    V child = l_select(l, behind, right, left);
    v = l_select(l, behind, w, v), id = l_select(l, behind, other, id);
    hole_go_on(l, &h, stands_before(e, t->v, t->id, v, id), h.move);
    hole_move(e, t, &h, child, v, id);
}

static void sort_heap(Emit *e, Top *t)
{
    L *l = e->l;
    V zero = l_i64(l, 0);
    if (!t->heap)
        return;
    When heap = l_when(l, t->heap);
    For f = l_for(l, zero, t->last, 1, "sorted");
    V n = l_sub(l, t->last, f.var);
    t->v = value_at(e, t, n), t->id = id_at(e, t, n);
    put_at(e, t, n, value_at(e, t, zero), id_at(e, t, zero));
    sink(e, t, zero, n);
    l_end_for(l, &f);
    l_end_when(l, &heap);
}

/* What stands last of all when every place holds something. */
static V worst(Emit *e, const Top *t)
{
    L *l = e->l;
    return value_at(e, t, t->heap ? l_select(l, t->heap, l_i64(l, 0), t->last) : t->last);
}

/* One more candidate for the places, of which `filled` hold something. It stands behind those before it that are equal. */
static void consider(Emit *e, const Top *t, V filled)
{
    L *l = e->l;
    V n = get_var(e, filled), room = l_icmp(l, LLVMIntSLT, n, t->k), place = l_min(l, n, t->last);
    Block full = l_block(l, "full"), enter = l_block(l, "enter"), done = l_block(l, "done");
    l_branch(l, room, enter, full);
    l_enter(l, full);
    l_branch(l, beats(e, t->v, worst(e, t)), enter, done);
    l_enter(l, enter);
    set_var(e, filled, l_min(l, l_add(l, n, l_i64(l, 1)), t->k));
    if (t->heap) {
        Block many = l_block(l, "sink"), few = l_block(l, "insert");
        l_branch(l, t->heap, many, few);
        l_enter(l, many);
        sink(e, t, l_sub(l, t->last, place), t->k);
        l_goto(l, done);
        l_enter(l, few);
    }
    insert(e, t, place);
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

static void consider_strip(Emit *e, const Stmt *s, Top *t, V first, V filled)
{
    L *l = e->l;
    emit_lanes_over(e, s->var, CANDIDATES);
    emit_lanes_from(e, first);
    V all = l_splat(l, candidate(e, s), CANDIDATES);
    emit_lanes_over(e, NONE, 0);
    V last = worst(e, t), room = l_icmp(l, LLVMIntSLT, get_var(e, filled), t->k);
    V better = l_or(l, l_splat(l, room, CANDIDATES), beats(e, all, l_splat(l, last, CANDIDATES)));
    V slot = l_slot(l, LLVMTypeOf(all), "candidates");
    Ty one = LLVMGetElementType(LLVMTypeOf(all));
    l_store(l, all, slot, 0);
    EachLane x = l_each_lane(l, better);
    t->v = l_load(l, one, l_at(l, one, slot, x.lane), 0);
    t->id = l_add(l, first, x.lane);
    consider(e, t, filled);
    l_end_lanes(l, &x);
}

void emit_tile_top(Emit *e, StmtId id)
{
    L *l = e->l;
    const Stmt *s = at(e, id);
    if (e->width)
        BUG(l->arena, "backend: top in a vector loop of kernel %s", e->k->name);
    V k = emit_value(e, s->limit), lo = emit_value(e, s->lo), hi = emit_value(e, s->hi);
    Top t = {.values = s->buffer, .ids = s->second, .k = k, .last = l_sub(l, k, l_i64(l, 1))};
    if (!is_at_most(e, s->limit, IN_ORDER))
        t.heap = l_icmp(l, LLVMIntSGT, k, l_i64(l, IN_ORDER));
    t.first = emit_position(e, s->buffer, s->index, s->nindex);
    t.first_id = emit_position(e, s->second, s->index, s->nindex);
    V filled = new_var(e, "filled", 0);
    emit_forget(e, 0);
    When some = l_when(l, l_icmp(l, LLVMIntSGT, k, l_i64(l, 0)));
    const char *name = e->k->indices.at[s->var].name;
    For strip = l_for(l, lo, l_sub(l, hi, l_i64(l, CANDIDATES - 1)), CANDIDATES, name);
    consider_strip(e, s, &t, strip.var, filled);
    l_end_for(l, &strip);
    V whole = l_and(l, l_max(l, l_sub(l, hi, lo), l_i64(l, 0)), l_i64(l, -CANDIDATES));
    For f = l_for(l, l_add(l, lo, whole), hi, 1, name);
    e->index[s->var] = t.id = f.var;
    t.v = candidate(e, s);
    consider(e, &t, filled);
    l_end_for(l, &f);
    sort_heap(e, &t);
    l_end_when(l, &some);
    e->index[s->var] = NULL;
}
