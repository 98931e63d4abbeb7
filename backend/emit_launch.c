/* Launches as functions over a range of items, and the function that runs them in order on every thread.
 *
 * Note [Failing]. A check that fails keeps its numbers in the call's data when its item is the lowest so far,
 * and ends its thread's part of the launch. Items are handed out in ascending order, so every item below a
 * failing one is run: the report does not depend on the number of threads.
 *
 * Note [Leaving]. Then the call ends, and all threads have to leave it at the same place, because a barrier waits for
 * every thread of the team. Launches form phases: a launch with items is a phase, and so are serial launches in a row,
 * which thread 0 runs until one of them fails. The threads meet after each phase, and only there does each of them
 * decide whether to leave: it does if the check that failed is one of the phases before. They all decide alike, because
 * nothing that a thread does after the barrier changes the answer: checks are numbered in the order of launches, so
 * a thread that runs ahead can only note checks of later phases, and it does so only if no earlier one has failed. */
#include "backend/emit.h"

#include <string.h>

static const Stmt *at(const Plan *p, StmtId s) { return &p->p->stmts.at[s]; }

/* Trips of a loop, at least 0. */
static V loop_items(Emit *e, StmtId loop)
{
    L *l = e->l;
    const Stmt *s = at(e->p, loop);
    V span = l_max(l, l_sub(l, emit_value(e, s->hi), emit_value(e, s->lo)), l_i64(l, 0));
    if (s->step == 1)
        return span;
    return l_bin(l, LLVMUDiv, l_add(l, span, l_i64(l, s->step - 1)), l_i64(l, s->step));
}

/* Trips of a loop in bands and of the one inside: see Note [Bands] in ir/tile.h. */
static void split_bands(Emit *e, const Stmt *s, const V *items, V *trip)
{
    L *l = e->l;
    V from = l_i64(l, 0), rows = items[0], cols = items[1], zero = from, one = l_i64(l, 1);
    V number = l_add(l, l_mul(l, trip[0], cols), trip[1]); /* of the item, in the run of rows */
    if (s->buffer != NONE) {
        V block = l_mul(l, trip[0], l_i64(l, RUN_COLUMNS));
        from = emit_get(e, s->buffer, l_add(l, block, l_i64(l, 2)));
        rows = emit_get(e, s->buffer, l_add(l, block, l_i64(l, 3)));
        number = l_sub(l, number, l_mul(l, from, cols));
    }
    V most = l_i64(l, s->band), band = l_bin(l, LLVMUDiv, number, l_mul(l, most, cols)),
      first = l_mul(l, band, most);
    V high = l_min(l, l_sub(l, rows, first), most), within = l_sub(l, number, l_mul(l, first, cols));
    V col = l_bin(l, LLVMUDiv, within, high), back = l_sub(l, l_sub(l, cols, one), col);
    V even = l_icmp(l, LLVMIntEQ, l_bin(l, LLVMAnd, band, one), zero);
    trip[0] = l_add(l, l_add(l, from, first), l_bin(l, LLVMURem, within, high));
    trip[1] = LLVMBuildSelect(l->b, even, col, back, "");
}

/* The loop variables of an item: the last loop runs fastest, but for bands. */
static void split_item(Emit *e, const Launch *launch, const V *items, const V *lo)
{
    L *l = e->l;
    V rest = e->item, trip[PARALLEL_MAX];
    for (uint32_t i = launch->nloops; i-- > 0;) {
        trip[i] = i ? l_bin(l, LLVMURem, rest, items[i]) : rest;
        rest = i ? l_bin(l, LLVMUDiv, rest, items[i]) : rest;
    }
    for (uint32_t i = 0; i < launch->nloops; i++) {
        const Stmt *s = at(e->p, launch->loops[i]);
        if (s->band && i + 1 < launch->nloops)
            split_bands(e, s, items + i, trip + i);
        e->index[s->var] = l_add(l, lo[i], l_mul(l, trip[i], l_i64(l, s->step)));
    }
}

static void items_body(Emit *e, const Launch *launch, V begin, V end)
{
    V items[PARALLEL_MAX], lo[PARALLEL_MAX];
    for (uint32_t i = 0; i < launch->nloops; i++) {
        lo[i] = emit_value(e, at(e->p, launch->loops[i])->lo);
        items[i] = loop_items(e, launch->loops[i]);
    }
    emit_forget(e, 0);
    For f = l_for(e->l, begin, end, 1, "item");
    e->item = f.var;
    split_item(e, launch, items, lo);
    emit_body(e, launch->body);
    l_end_for(e->l, &f);
}

static V body_function(Plan *p, const Launch *launch)
{
    L *l = p->l;
    Ty params[5] = {l->ptr, l->ptr, l->i64, l->i64, l->i64};
    return l_declare(l, launch->body_name, l_fn_type(l, l->i1, params, 5));
}

/* The scopes are named by slot, so that bodies do not depend on names. */
static void make_scopes(Emit *e)
{
    L *l = e->l;
    uint32_t n = e->launch->slots.len;
    LLVMMetadataRef domain = LLVMMDStringInContext2(l->ctx, "buffers", 7),
                    *all = arena_array(l->arena, LLVMMetadataRef, n + 1);
    e->scopes = arena_array(l->arena, LLVMMetadataRef, n + 1);
    e->others = arena_array(l->arena, LLVMMetadataRef, n + 1);
    domain = LLVMMDNodeInContext2(l->ctx, &domain, 1);
    for (uint32_t i = 0; i < n; i++) {
        const char *name = arena_printf(l->arena, "slot %u", i);
        LLVMMetadataRef parts[2] = {LLVMMDStringInContext2(l->ctx, name, strlen(name)), domain};
        all[i] = LLVMMDNodeInContext2(l->ctx, parts, 2);
        e->scopes[i] = LLVMMDNodeInContext2(l->ctx, &all[i], 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        LLVMMetadataRef own = all[i];
        all[i] = all[n - 1];
        e->others[i] = LLVMMDNodeInContext2(l->ctx, all, n - 1);
        all[i] = own;
    }
}

/* A body whose instructions need not be the best ones: its work is that of helpers, or little. */
static int is_plain(const Plan *p, const Launch *launch)
{
    return launch_is_products(launch) || launch_is_route(p, launch);
}

V emit_launch_body(Plan *p, const Launch *launch)
{
    L *l = p->l;
    const Stmt *s = at(p, launch->stmt);
    V fn = body_function(p, launch);
    l_shared(l, fn);
    plan_attributes(p, fn);
    Loc loc = s->loc.line ? s->loc : p->k->loc;
    if (p->debug)
        debug_function(p->debug, fn, launch->body_name, loc);
    Emit *e = emit_new(p, fn, LLVMGetParam(fn, 0));
    e->launch = launch;
    e->map = LLVMGetParam(fn, 1);
    e->thread = LLVMGetParam(fn, 4);
    e->failed = l_block(l, "failed");
    l->words = cpu_can(p->cpu, CPU_BROADCAST16);
    l->hides = 1;
    if (is_plain(p, launch))
        l_quick_later(l, fn);
    make_scopes(e);
    emit_here(e, loc);
    e->item = l_i64(l, 0);
    if (launch->nloops)
        items_body(e, launch, LLVMGetParam(fn, 2), LLVMGetParam(fn, 3));
    else
        emit_body(e, launch->body);
    emit_stream_end(e);
    LLVMBuildRet(l->b, l_false(l));
    l->hides = 0;
    l_enter(l, e->failed);
    LLVMBuildRet(l->b, l_true(l));
    LLVMSetCurrentDebugLocation2(l->b, NULL);
    return fn;
}

/* ---- in order, on all threads ---- */

typedef struct Phases {
    Emit *e;
    V team; /* i1: a team of threads runs this */
    Block leave;
} Phases;

/* The body as this module knows it, and the map that fits it to this kernel. */
static V body_of(Phases *x, const Launch *launch, V *map)
{
    L *l = x->e->l;
    const Plan *p = x->e->p;
    V *bytes = arena_array(l->arena, V, launch->slots.len + 1), fn = body_function(x->e->p, launch);
    bytes[0] = l_i32(l, launch->check_base);
    for (uint32_t i = 0; i < launch->slots.len; i++) {
        Slot s = launch->slots.at[i];
        bytes[i + 1] = l_i32(l, s.is_dim ? p->dim_at[s.id] : p->buffers.at[s.id].at);
    }
    *map = l_table(l, l->i32, bytes, launch->slots.len + 1, "map");
    if (LLVMIsDeclaration(fn))
        l_shared(l, fn);
    return fn;
}

static void run_items(Phases *x, const Launch *launch, uint32_t number)
{
    Emit *e = x->e;
    L *l = e->l;
    V items = l_i64(l, 1);
    for (uint32_t i = 0; i < launch->nloops; i++)
        items = l_mul(l, items, loop_items(e, launch->loops[i]));
    emit_forget(e, 0);
    V threads = l_load(l, l->i64, emit_data_at(e, DATA_THREADS), 8), map;
    V body = body_of(x, launch, &map), counter = emit_data_at(e, DATA_COUNTERS + 64 * number);
    int64_t most = at(e->p, launch->stmt)->threads; /* see Note [Settings] in ir/tile.h */
    if (!most) {
        V args[7] = {e->data, body, map, items, counter, e->thread, threads};
        l_call(l, e->p->shared->items, args, 7);
        return;
    }
    V args[7] = {e->data, body, map, items, counter, e->thread, l_min(l, threads, l_i64(l, most))};
    When works = l_when(l, l_icmp(l, LLVMIntSLT, e->thread, l_i64(l, most)));
    l_call(l, e->p->shared->items, args, 7);
    l_end_when(l, &works);
}

/* Thread 0 runs the serial launches from `first` until one of them fails. */
static void run_serial(Phases *x, uint32_t first, uint32_t end)
{
    L *l = x->e->l;
    When alone = l_when(l, l_icmp(l, LLVMIntEQ, x->e->thread, l_i64(l, 0)));
    for (uint32_t i = first; i < end; i++) {
        V map, body = body_of(x, &x->e->p->launches.at[i], &map);
        V args[5] = {x->e->data, map, l_i64(l, 0), l_i64(l, 1), x->e->thread};
        Block next = l_block(l, "next");
        l_branch(l, l_call(l, body, args, 5), alone.exit, next);
        l_enter(l, next);
    }
    l_end_when(l, &alone);
}

static void meet(Phases *x)
{
    L *l = x->e->l;
    When team = l_when(l, x->team);
    l_call(l, l_declare(l, "GOMP_barrier", l_fn_type(l, l->none, NULL, 0)), NULL, 0);
    l_end_when(l, &team);
}

/* Leaves if one of the checks before number `end` failed: see Note [Leaving]. */
static void leave_when_failed(Phases *x, uint32_t end)
{
    L *l = x->e->l;
    V failed = l_load(l, l->i32, emit_data_at(x->e, DATA_FAILED), 4), one = l_i32(l, 1);
    LLVMSetOrdering(failed, LLVMAtomicOrderingMonotonic);
    Block next = l_block(l, "next"); /* 0, no check, becomes the largest number */
    l_branch(l, l_icmp(l, LLVMIntULT, l_sub(l, failed, one), l_i32(l, end)), x->leave, next);
    l_enter(l, next);
}

/* The launch after the phase that begins with this one. */
static uint32_t phase_end(const Plan *p, uint32_t first)
{
    uint32_t end = first + 1;
    if (p->launches.at[first].nloops == 0)
        while (end < p->launches.len && p->launches.at[end].nloops == 0)
            end++;
    return end;
}

static void run_phase(Phases *x, uint32_t first, uint32_t end)
{
    const Launch *launch = &x->e->p->launches.at[first];
    if (launch->nloops)
        run_items(x, launch, first);
    else
        run_serial(x, first, end);
}

V emit_phases(Plan *p)
{
    L *l = p->l;
    Ty params[3] = {l->ptr, l->i64, l->i1};
    V fn =
        LLVMAddFunction(l->mod, arena_printf(l->arena, "%s.%s.phases", p->k->name, cpu_table[p->target].name),
                        l_fn_type(l, l->none, params, 3));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    l_plain(l, fn);
    l_quick(l, fn);
    Phases x = {.e = emit_new(p, fn, LLVMGetParam(fn, 0)), .team = LLVMGetParam(fn, 2)};
    x.e->thread = LLVMGetParam(fn, 1);
    x.leave = l_block(l, "leave");
    uint32_t checked = 0;
    for (uint32_t i = 0, end; i < p->launches.len; i = end) {
        uint32_t checks = p->launches.at[i].check_base; /* of the phases before */
        end = phase_end(p, i);
        if (i)
            meet(&x);
        if (checks > checked)
            leave_when_failed(&x, checks);
        checked = checks;
        run_phase(&x, i, end);
    }
    l_goto(l, x.leave);
    l_enter(l, x.leave);
    LLVMBuildRetVoid(l->b);
    return fn;
}
