/* Statements: loops, conditions, stores, checks. Sorts and routes: emit_sort.c, emit_route.c. */
#include "backend/emit.h"

#include <math.h>

static const Stmt *at(const Emit *e, StmtId s) { return &e->p->p->stmts.at[s]; }

void emit_here(Emit *e, Loc loc)
{
    if (e->p->debug)
        debug_line(e->p->debug, loc);
}

void emit_body(Emit *e, StmtId first)
{
    tile_each (s, e->k, first) {
        emit_here(e, at(e, s)->loc);
        e->p->hooks[at(e, s)->kind](e, s);
        emit_forget(e, 0);
    }
}

void emit_tile_launch(Emit *e, StmtId s) { emit_body(e, at(e, s)->first); }

/* ---- loops ---- */

static void loop_ordered(Emit *e, const Stmt *s)
{
    V lo = emit_value(e, s->lo), hi = emit_value(e, s->hi);
    emit_forget(e, 0);
    For f = l_for(e->l, lo, hi, s->step, e->k->indices.at[s->var].name);
    e->index[s->var] = f.var;
    IndexId outer = e->around;
    e->around = s->var;
    emit_body(e, s->first);
    e->around = outer;
    l_end_for(e->l, &f);
    e->index[s->var] = NULL;
}

static void loop_unroll(Emit *e, const Stmt *s)
{
    int64_t lo, hi;
    if (!l_constant(emit_value(e, s->lo), &lo) || !l_constant(emit_value(e, s->hi), &hi))
        BUG(e->l->arena, "backend: an unrolled loop of kernel %s has no constant bounds", e->k->name);
    emit_forget(e, 0);
    e->unrolled++;
    for (int64_t i = lo; i < hi; i += s->step) {
        e->index[s->var] = l_i64(e->l, i);
        emit_body(e, s->first);
    }
    e->unrolled--;
    e->index[s->var] = NULL;
}

static void vector_trip(Emit *e, const Stmt *s, V first, V tail)
{
    emit_lanes_from(e, first);
    e->tail = tail;
    emit_body(e, s->first);
}

/* hi is min2(lo + c, ...) with c at most the step: there is one trip at most. */
static int single_trip(const Emit *e, const Stmt *s)
{
    if (!x_is_op(e->k, s->hi, OP_min2))
        return 0;
    for (uint32_t i = 0; i < 2; i++) {
        ExprId end = x_arg(e->k, s->hi, i);
        if (!x_is_op(e->k, end, OP_add) || x_arg(e->k, end, 0) != s->lo)
            continue;
        const Expr *length = x_at(e->k, x_arg(e->k, end, 1));
        if (length->kind == X_INT && length->value.i <= s->step)
            return 1;
    }
    return 0;
}

/* The masked trip at `first`, when there is a lane left. */
static void tail_trip(Emit *e, const Stmt *s, V first, V hi)
{
    L *l = e->l;
    When w = l_when(l, l_icmp(l, LLVMIntSLT, first, hi));
    V left = l_cast(l, LLVMTrunc, l_sub(l, hi, first), l->i32);
    vector_trip(e, s, first, l_icmp(l, LLVMIntSLT, l_iota(l, l->i32, e->width), left));
    l_end_when(l, &w);
}

/* The rest one after the other. */
static void tail_trips(Emit *e, const Stmt *s, V first, V hi)
{
    L *l = e->l;
    emit_lanes_over(e, NONE, 0);
    For f = l_for(l, first, hi, 1, e->k->indices.at[s->var].name);
    e->index[s->var] = f.var;
    emit_body(e, s->first);
    l_end_for(l, &f);
}

static void masked_trips(Emit *e, const Stmt *s, V lo, V hi)
{
    L *l = e->l;
    For f = l_for(l, lo, hi, s->step, e->k->indices.at[s->var].name);
    vector_trip(e, s, f.var, emit_first_lanes(e, l_sub(l, hi, f.var)));
    l_end_for(l, &f);
}

/* Full trips, then one masked trip when lanes are left over. Loops beside block products take little of the time
 * but most of the code, which is generated once where it can be: with masks that cost nothing every trip is
 * masked; elsewhere the tail has no lanes. So is a loop of one trip with such masks. */
static void vector_trips(Emit *e, const Stmt *s, V lo, V hi)
{
    L *l = e->l;
    int free_masks = cpu_can(e->p->cpu, CPU_MASKS), beside = e->launch && launch_is_products(e->launch);
    if (free_masks && single_trip(e, s)) {
        tail_trip(e, s, lo, hi);
        return;
    }
    if (free_masks && beside) {
        masked_trips(e, s, lo, hi);
        return;
    }
    For f = l_for(l, lo, l_sub(l, hi, l_i64(l, s->step - 1)), s->step, e->k->indices.at[s->var].name);
    vector_trip(e, s, f.var, NULL);
    l_end_for(l, &f);
    V whole = l_and(l, l_max(l, l_sub(l, hi, lo), l_i64(l, 0)), l_i64(l, -s->step));
    (beside ? tail_trips : tail_trip)(e, s, l_add(l, lo, whole), hi);
}

static int is_zero(const Expr *x)
{
    return (x->kind == X_INT && x->value.i == 0) ||
           (x->kind == X_FLOAT && x->value.f == 0 && !signbit(x->value.f));
}

/* The store of the loop, when it only sets contiguous memory to zero, else NULL. */
static const Stmt *zeros_of(const Emit *e, const Stmt *loop)
{
    const Stmt *s = loop->first == NONE ? NULL : at(e, loop->first);
    if (!s || s->next != NONE || s->kind != TILE_store || s->add || !s->nindex ||
        !is_zero(x_at(e->k, s->value)))
        return NULL;
    const Buffer *b = &e->p->buffers.at[s->buffer];
    if (b->space == SPACE_REG || !layout_is_dense(b->layout) ||
        !x_is_unit(e->k, s->index[s->nindex - 1], loop->var))
        return NULL;
    for (uint32_t i = 0; i + 1 < s->nindex; i++)
        if (x_uses_index(e->k, s->index[i], loop->var))
            return NULL;
    return s;
}

static void set_zeros(Emit *e, const Stmt *loop, const Stmt *s, V lo, V hi)
{
    L *l = e->l;
    When some = l_when(l, l_icmp(l, LLVMIntSLT, lo, hi));
    e->index[loop->var] = lo;
    V at = emit_address(e, s->buffer, s->index, s->nindex);
    V bytes = l_mul(l, l_sub(l, hi, lo), l_i64(l, (int64_t)elem_bytes(e->p->buffers.at[s->buffer].elem)));
    emit_alias(e, LLVMBuildMemSet(l->b, at, l_int(l->i8, 0), bytes, 1), s->buffer);
    l_end_when(l, &some);
    emit_forget(e, 0);
    e->index[loop->var] = NULL;
}

static void loop_vector(Emit *e, StmtId id, const Stmt *s)
{
    V lo = emit_value(e, s->lo), hi = emit_value(e, s->hi);
    const Stmt *zeros = e->width ? NULL : zeros_of(e, s);
    emit_forget(e, 0);
    if (zeros) {
        set_zeros(e, s, zeros, lo, hi);
        return;
    }
    if (e->width || s->step < 2 || s->step > LANES_MAX || (s->step & (s->step - 1)))
        BUG(e->l->arena, "backend: kernel %s has a vector loop that is nested or of step %lld", e->k->name,
            (long long)s->step);
    emit_lanes_over(e, s->var, (uint32_t)s->step);
    e->loop = id;
    vector_trips(e, s, lo, hi);
    emit_lanes_over(e, NONE, 0);
    e->index[s->var] = NULL;
}

void emit_tile_for(Emit *e, StmtId id)
{
    const Stmt *s = at(e, id);
    switch ((LoopMode)s->mode) {
    case LOOP_ORDERED:
    case LOOP_PARALLEL:
    case LOOP_SPLIT:
    case LOOP_MODES:
    case LOOP_OWNED: loop_ordered(e, s); break;
    case LOOP_VECTOR: loop_vector(e, id, s); break;
    case LOOP_UNROLL: loop_unroll(e, s); break;
    }
}

/* ---- conditions ---- */

enum { GUARDS_MAX = 64 };

/* Conjuncts without lanes that are safe to evaluate come first: they become branches around the rest. */
static uint32_t order_guards(Emit *e, ExprId condition, ExprId *out)
{
    ExprId all[GUARDS_MAX];
    uint32_t n = x_conjuncts(e->k, condition, all, GUARDS_MAX), len = 0;
    for (int early = 1; early >= 0; early--)
        for (uint32_t i = 0; i < n; i++)
            if ((emit_form(e, all[i]) == FORM_UNIFORM && !emit_unsafe(e, all[i])) == early)
                out[len++] = all[i];
    return n;
}

void emit_tile_if(Emit *e, StmtId id)
{
    const Stmt *s = at(e, id);
    ExprId guards[GUARDS_MAX];
    When open[GUARDS_MAX + 1];
    uint32_t n = order_guards(e, s->value, guards), nopen = 0;
    V outer = e->cond;
    for (uint32_t i = 0; i < n; i++) {
        V c = emit_bool(e, guards[i]);
        int64_t known;
        if (l_constant(c, &known) && known)
            continue;
        if (l_width(c))
            e->cond = e->cond ? l_and(e->l, e->cond, c) : c;
        else
            open[nopen++] = l_when(e->l, c);
        emit_forget(e, 0);
    }
    if (e->cond != outer && tile_contains(e->k, s->first, TILE_for))
        open[nopen++] = l_when(e->l, l_any(e->l, emit_mask(e)));
    emit_forget(e, 0);
    emit_body(e, s->first);
    while (nopen)
        l_end_when(e->l, &open[--nopen]);
    e->cond = outer;
}

/* ---- stores ---- */

/* The product a * b of `+= a * b` in f32, added with one rounding where the target can. */
static V fused_product(Emit *e, const Stmt *s, V old)
{
    const Expr *n = x_at(e->k, s->value);
    if (n->kind != X_OP || n->op != OP_mul || !type_is_float((Type)n->type) || l_is_int(old))
        return NULL;
    return emit_fma(e, emit_float(e, x_arg(e->k, s->value, 0)), emit_float(e, x_arg(e->k, s->value, 1)), old);
}

static int fits_i32(const Plan *p, ExprId x)
{
    const Expr *n = x_at(p->k, x);
    if (n->kind == X_INT)
        return n->value.i >= INT32_MIN && n->value.i <= INT32_MAX;
    if (n->kind == X_LOAD)
        return p->buffers.at[n->sym].elem == EL_I32;
    if (n->kind == X_IF)
        return fits_i32(p, x_arg(p->k, x, 1)) && fits_i32(p, x_arg(p->k, x, 2));
    return x_is_op(p->k, x, OP_i32);
}

int plan_store_may_fail(const Plan *p, const Stmt *s)
{
    return p->buffers.at[s->buffer].elem == EL_I32 && (s->add || !fits_i32(p, s->value));
}

static void check_range(Emit *e, StmtId id, V value)
{
    L *l = e->l;
    V back = l_cast(l, LLVMSExt, l_cast(l, LLVMTrunc, value, l->i32), l->i64);
    emit_check(e, l_icmp(l, LLVMIntEQ, value, back), e->p->check_of[id], value, l_i64(l, 0));
}

void emit_tile_store(Emit *e, StmtId id)
{
    const Stmt *s = at(e, id);
    V value;
    if (s->add && emit_add_each(e, s->buffer, s->index, s->nindex, s->value))
        return;
    if (s->add) {
        V old = emit_load(e, s->buffer, s->index, s->nindex);
        value = fused_product(e, s, old);
        if (!value)
            value = emit_scalar(e, OP_add, old, emit_value(e, s->value));
    } else {
        value = emit_value(e, s->value);
    }
    if (plan_store_may_fail(e->p, s))
        check_range(e, id, value);
    emit_store(e, s->buffer, s->index, s->nindex, value);
}

/* ---- checks ---- */

void emit_check(Emit *e, V ok, uint32_t check, V a, V b)
{
    L *l = e->l;
    V bad = l_not(l, ok), mask = emit_mask(e);
    if (mask && (l_width(ok) || e->cond))
        bad = l_and(l, mask, bad);
    Block failing = l_block(l, "failing"), fine = l_block(l, "fine");
    l_branch(l, l_any(l, bad), failing, fine);
    l_enter(l, failing);
    V lane = l_i64(l, 0);
    if (l_width(bad)) {
        V args[2] = {l_lane_bits(l, bad), l_true(l)};
        lane = l_intrinsic(l, "llvm.cttz", LLVMTypeOf(args[0]), args, 2);
    }
    a = l_width(a) ? l_lane(l, a, lane) : a;
    b = l_width(b) ? l_lane(l, b, lane) : b;
    V number = l_add(l, l_load(l, l->i32, e->map, 4), l_i32(l, check));
    V args[5] = {e->data, e->item, number, a, b};
    l_call(l, e->p->shared->fail, args, 5);
    l_goto(l, e->failed);
    l_enter(l, fine);
}

void emit_tile_check(Emit *e, StmtId id)
{
    const Stmt *s = at(e, id);
    V ok = emit_bool(e, s->value);
    V a = s->report == NONE ? l_i64(e->l, 0) : emit_value(e, s->report);
    V b = s->limit == NONE ? l_i64(e->l, 0) : emit_value(e, s->limit);
    emit_check(e, ok, e->p->check_of[id], a, b);
}
