/* The function of a kernel for one instruction set: refuses or prepares a call, gets work space, runs the
 * launches on one thread or in one parallel region, and reports a failed check. */
#include "backend/emit_packed.h"

enum { THREADS_MAX = 1024 };

unsigned emit_parameters(const Plan *p, Ty *out)
{
    L *l = p->l;
    unsigned n = 0;
    out[n++] = l->ptr;
    for (uint32_t i = 0; i < p->ndims; i++)
        out[n++] = l->i64;
    for (uint32_t i = 0; i < p->k->params.len; i++) {
        Param x = p->k->params.at[i];
        int value = x.kind == PARAM_TENSOR && p->buffers.at[x.id].by_value;
        out[n++] = value ? emit_memory_type(l, p->buffers.at[x.id].elem) : l->ptr;
    }
    return n;
}

static void take_dims(Emit *e, V fn, unsigned first)
{
    for (uint32_t i = 0; i < e->p->ndims; i++)
        e->dim[e->p->dims[i]] = LLVMGetParam(fn, first + i);
}

static V internal(Plan *p, const char *what, Ty type)
{
    L *l = p->l;
    V fn = LLVMAddFunction(
        l->mod, arena_printf(l->arena, "%s.%s.%s", p->k->name, cpu_table[p->target].name, what), type);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    l_plain(l, fn);
    l_quick(l, fn);
    return fn;
}

/* ---- work space ---- */

static V emit_workspace(Plan *p)
{
    L *l = p->l;
    Ty *types = arena_array(l->arena, Ty, p->ndims + 1);
    for (uint32_t i = 0; i <= p->ndims; i++)
        types[i] = l->i64;
    V fn = internal(p, "workspace", l_fn_type(l, l->i64, types, p->ndims + 1));
    Emit *e = emit_new(p, fn, NULL);
    take_dims(e, fn, 0);
    V fits = emit_dims_fit(e);
    for (uint32_t i = 0; i < p->buffers.len; i++)
        if (plan_needs_space(&p->buffers.at[i]))
            fits = l_and(l, fits, emit_fits(e, i, 1));
    WorkSpace w = emit_work_space(e);
    V bytes = l_add(l, w.shared, l_mul(l, w.thread, LLVMGetParam(fn, p->ndims)));
    LLVMBuildRet(l->b, l_select(l, fits, bytes, l_i64(l, -1)));
    return fn;
}

static V new_memory(L *l, V bytes)
{
    Ty two[2] = {l->i64, l->i64};
    V args[2] = {l_i64(l, 64), bytes};
    return l_call(l, l_declare(l, "aligned_alloc", l_fn_type(l, l->ptr, two, 2)), args, 2);
}

static void free_memory(L *l, V memory)
{
    l_call(l, l_declare(l, "free", l_fn_type(l, l->none, &l->ptr, 1)), &memory, 1);
}

/* What a caller lends (work_bytes below 0) is enough, and begins where vectors and tiles may. */
static void require_lent(Emit *e, Gate *g, V memory, V room, V bytes)
{
    L *l = e->l;
    V zero = l_i64(l, 0), owned = l_icmp(l, LLVMIntSGE, room, zero), lent = l_sub(l, zero, room);
    V first = LLVMBuildPtrToInt(l->b, memory, l->i64, "");
    V misplaced = l_or(l, l_icmp(l, LLVMIntEQ, first, zero),
                       l_icmp(l, LLVMIntNE, l_bin(l, LLVMAnd, first, l_i64(l, 63)), zero));
    gate_require(e, g, l_or(l, owned, l_icmp(l, LLVMIntSGE, lent, bytes)), STATUS_MEMORY,
                 arena_printf(l->arena, "%s: %%lld bytes of work space are needed, the context lends %%lld",
                              e->k->name),
                 bytes, lent);
    gate_require(e, g, l_or(l, owned, l_not(l, misplaced)), STATUS_MEMORY,
                 arena_printf(l->arena,
                              "%s: the work space that the context lends is not aligned to 64 bytes",
                              e->k->name),
                 zero, zero);
}

/* The context's work space: what the caller lends, or the context's own, grown when it is too small. */
static V context_memory(Emit *e, Gate *g, V ctx, V bytes)
{
    L *l = e->l;
    Ty type = e->p->shared->context;
    V at = l_field(l, type, ctx, CTX_work), at_bytes = l_field(l, type, ctx, CTX_work_bytes);
    V old = l_load(l, l->ptr, at, 8), room = l_load(l, l->i64, at_bytes, 8);
    require_lent(e, g, old, room, bytes);
    Block before = l_here(l);
    When small =
        l_when(l, l_and(l, l_icmp(l, LLVMIntSGE, room, l_i64(l, 0)), l_icmp(l, LLVMIntSLT, room, bytes)));
    free_memory(l, old);
    V memory = new_memory(l, bytes);
    V got = l_icmp(l, LLVMIntNE, memory, LLVMConstNull(l->ptr));
    l_store(l, memory, at, 8);
    l_store(l, l_select(l, got, bytes, l_i64(l, 0)), at_bytes, 8);
    Block grown = l_here(l);
    l_end_when(l, &small);
    return l_phi(l, l->ptr, old, before, memory, grown);
}

/* Work space of the call, NULL when none is needed. */
static V get_memory(Emit *e, Gate *g, V ctx, V bytes)
{
    L *l = e->l;
    V none = LLVMConstNull(l->ptr), zero = l_i64(l, 0);
    Block start = l_here(l), some = l_block(l, "some"), owned = l_block(l, "owned"),
          lent = l_block(l, "lent"), join = l_block(l, "join");
    l_branch(l, l_icmp(l, LLVMIntSGT, bytes, zero), some, join);
    l_enter(l, some);
    l_branch(l, l_icmp(l, LLVMIntEQ, ctx, none), lent, owned);
    l_enter(l, owned);
    V kept = context_memory(e, g, ctx, bytes);
    Block from_owned = l_here(l);
    l_goto(l, join);
    l_enter(l, lent);
    V fresh = new_memory(l, bytes);
    l_goto(l, join);
    l_enter(l, join);
    V memory = l_phi(l, l->ptr, none, start, kept, from_owned);
    LLVMAddIncoming(memory, &fresh, &lent, 1);
    V got = l_or(l, l_icmp(l, LLVMIntEQ, bytes, zero), l_icmp(l, LLVMIntNE, memory, none));
    gate_require(e, g, got, STATUS_MEMORY,
                 arena_printf(l->arena, "%s: %%lld bytes of work space cannot be allocated", e->k->name),
                 bytes, zero);
    return memory;
}

/* ---- the call ---- */

/* Note [Forked]. The threads of OpenMP's pool do not follow into a process that is forked, and libgomp waits for them
 * there forever. A call therefore runs on one thread in any process but the one that loaded the module. Whether the
 * pool was used before the fork cannot be known: other modules and libraries of the process share it. */
static V usable_threads(Emit *e, V n)
{
    L *l = e->l;
    Block before = l_here(l);
    When many = l_when(l, l_icmp(l, LLVMIntSGT, n, l_i32(l, 1)));
    V loader = l_load(l, l->i32, e->p->shared->process, 4);
    V own =
        l_or(l, l_icmp(l, LLVMIntEQ, loader, emit_process_id(l)), l_icmp(l, LLVMIntEQ, loader, l_i32(l, 0)));
    V usable = l_select(l, own, n, l_i32(l, 1));
    Block asked = l_here(l);
    l_end_when(l, &many);
    return l_phi(l, l->i32, n, before, usable, asked);
}

/* As many as the context says, or one where meetings are not worth it; below 0: as many all the same. Bits do not depend on
 * it. */
static V count_threads(Emit *e, V ctx)
{
    L *l = e->l;
    V zero = l_i32(l, 0);
    Block start = l_here(l);
    When has = l_when(l, l_icmp(l, LLVMIntNE, ctx, LLVMConstNull(l->ptr)));
    V asked = l_load(l, l->i32, l_field(l, e->p->shared->context, ctx, CTX_threads), 4);
    Block from = l_here(l);
    l_end_when(l, &has);
    V n = l_phi(l, l->i32, zero, start, asked, from);
    start = l_here(l);
    V alone_below = l_real(l->f64, MEETING_WORK * (2.0 + e->p->launches.len));
    V small = l_and(l, l_icmp(l, LLVMIntSGE, n, zero),
                    l_fcmp(l, LLVMRealOLT, emit_extent_f64(e, e->p->p->work), alone_below));
    n = l_max(l, n, l_sub(l, zero, n));
    When open = l_when(l, l_icmp(l, LLVMIntEQ, n, zero));
    V most = l_call(l, l_declare(l, "omp_get_max_threads", l_fn_type(l, l->i32, NULL, 0)), NULL, 0);
    from = l_here(l);
    l_end_when(l, &open);
    n = l_phi(l, l->i32, n, start, most, from);
    n = l_max(l, l_min(l, n, l_i32(l, THREADS_MAX)), l_i32(l, 1));
    return usable_threads(e, l_select(l, small, l_i32(l, 1), n));
}

static void fill_buffers(Emit *e, V memory)
{
    L *l = e->l;
    WorkSpace w = emit_work_space(e);
    V first = l_at(l, l->i8, memory, w.shared);
    l_store(l, w.thread, emit_data_at(e, DATA_THREAD_BYTES), 8);
    for (uint32_t i = 0; i < e->p->buffers.len; i++) {
        Buffer *b = &e->p->buffers.at[i];
        if (!b->used || b->space == SPACE_REG || space_is_on_chip(b->space))
            continue;
        if (plan_needs_space(b))
            b->base = l_at(l, l->i8, b->space == SPACE_THREAD ? first : memory, w.at[i]);
        if (!b->base)
            BUG(l->arena, "backend: buffer %s of kernel %s has no memory", b->name, e->k->name);
        l_store(l, b->base, emit_data_at(e, b->at), 0);
    }
}

static void fill_data(Emit *e, V memory, V threads, V products)
{
    L *l = e->l;
    V zeros[4] = {e->data, l_int(l->i8, 0), l_i64(l, DATA_COUNTERS + 64 * (int64_t)e->p->launches.len),
                  l_false(l)};
    l_intrinsic2(l, "llvm.memset", l->ptr, l->i64, zeros, 4);
    l_store(l, threads, emit_data_at(e, DATA_THREADS), 8);
    l_store(l, products, emit_data_at(e, DATA_PRODUCTS), 8);
    for (uint32_t i = 0; i < e->p->ndims; i++)
        l_store(l, emit_dim(e, e->p->dims[i]), emit_data_at(e, e->p->dim_at[e->p->dims[i]]), 8);
    fill_buffers(e, memory);
}

/* void (ptr data): what every thread of the region runs. */
static V emit_region(Plan *p, V phases)
{
    L *l = p->l;
    V fn = internal(p, "region", l_fn_type(l, l->none, &l->ptr, 1));
    l_begin(l, fn);
    V thread = l_call(l, l_declare(l, "omp_get_thread_num", l_fn_type(l, l->i32, NULL, 0)), NULL, 0);
    V args[3] = {LLVMGetParam(fn, 0), l_cast(l, LLVMSExt, thread, l->i64), l_true(l)};
    l_call(l, phases, args, 3);
    LLVMBuildRetVoid(l->b);
    return fn;
}

static void run(Emit *e, V phases, V region, V threads)
{
    L *l = e->l;
    Block alone = l_block(l, "alone"), team = l_block(l, "team"), done = l_block(l, "done");
    l_branch(l, l_icmp(l, LLVMIntEQ, threads, l_i32(l, 1)), alone, team);
    l_enter(l, alone);
    V args[3] = {e->data, l_i64(l, 0), l_false(l)};
    l_call(l, phases, args, 3);
    l_goto(l, done);
    l_enter(l, team);
    Ty types[4] = {l->ptr, l->ptr, l->i32, l->i32};
    V call[4] = {region, e->data, threads, l_i32(l, 0)};
    l_call(l, l_declare(l, "GOMP_parallel", l_fn_type(l, l->none, types, 4)), call, 4);
    l_goto(l, done);
    l_enter(l, done);
}

/* {i32 status, ptr format} of each check, in plan order. */
static V check_table(Plan *p, Ty *row)
{
    L *l = p->l;
    Ty types[2] = {l->i32, l->ptr};
    *row = LLVMStructTypeInContext(l->ctx, types, 2, 0);
    V *all = arena_array(l->arena, V, p->checks.len + 1);
    for (uint32_t i = 0; i < p->checks.len; i++) {
        V parts[2] = {l_i32(l, p->checks.at[i].status), l_text(l, p->checks.at[i].format)};
        all[i] = LLVMConstStructInContext(l->ctx, parts, 2, 0);
    }
    return l_table(l, *row, all, p->checks.len, "checks");
}

/* Ends the function: success, or the failed check's status. */
static void finish(Emit *e, V ctx)
{
    L *l = e->l;
    Ty row;
    if (!e->p->checks.len) {
        LLVMBuildRet(l->b, l_i32(l, 0));
        return;
    }
    V failed = l_load(l, l->i32, emit_data_at(e, DATA_FAILED), 4);
    Block bad = l_block(l, "bad"), good = l_block(l, "good");
    l_branch(l, l_icmp(l, LLVMIntEQ, failed, l_i32(l, 0)), good, bad);
    l_enter(l, good);
    LLVMBuildRet(l->b, l_i32(l, 0));
    l_enter(l, bad);
    V table = check_table(e->p, &row);
    V number = l_cast(l, LLVMSExt, l_sub(l, failed, l_i32(l, 1)), l->i64), at = l_at(l, row, table, number);
    V args[5] = {ctx, l_load(l, l->i32, l_field(l, row, at, 0), 4),
                 l_load(l, l->ptr, l_field(l, row, at, 1), 8), l_load(l, l->i64, emit_data_at(e, DATA_A), 8),
                 l_load(l, l->i64, emit_data_at(e, DATA_B), 8)};
    LLVMBuildRet(l->b, l_call(l, e->p->shared->refuse, args, 5));
}

static void begin_packed_outputs(Emit *e, const V *params)
{
    const Kernel *k = e->k;
    for (uint32_t i = 0; i < k->params.len; i++)
        if (emit_is_packed(k, k->params.at[i]) && k->tensors.at[k->params.at[i].id].role == ROLE_OUT)
            emit_packed_begin(e, k->params.at[i].id, params[i]);
}

static void emit_call(Emit *e, V fn, V workspace, V phases, V region)
{
    L *l = e->l;
    V ctx = LLVMGetParam(fn, 0);
    V *params = arena_array(l->arena, V, LLVMCountParams(fn));
    for (unsigned i = 1 + e->p->ndims; i + 1 < LLVMCountParams(fn); i++)
        params[i - 1 - e->p->ndims] = LLVMGetParam(fn, i);
    Gate gate = gate_open(e);
    emit_preconditions(e, &gate, params);
    V threads = count_threads(e, ctx), wide = l_cast(l, LLVMSExt, threads, l->i64);
    V *sizes = arena_array(l->arena, V, e->p->ndims + 1);
    for (uint32_t i = 0; i < e->p->ndims; i++)
        sizes[i] = emit_dim(e, e->p->dims[i]);
    sizes[e->p->ndims] = wide;
    V memory = get_memory(e, &gate, ctx, l_call(l, workspace, sizes, e->p->ndims + 1));
    fill_data(e, memory, wide, LLVMGetParam(fn, LLVMCountParams(fn) - 1));
    begin_packed_outputs(e, params);
    run(e, phases, region, threads);
    When lent = l_when(l, l_icmp(l, LLVMIntEQ, ctx, LLVMConstNull(l->ptr)));
    free_memory(l, memory);
    l_end_when(l, &lent);
    finish(e, ctx);
    l_enter(l, gate.refuse);
    V args[5] = {ctx, gate.status, gate.format, gate.a, gate.b};
    LLVMBuildRet(l->b, l_call(l, e->p->shared->refuse, args, 5));
}

Bodies emit_entry(Plan *p)
{
    L *l = p->l;
    Ty *types = arena_array(l->arena, Ty, 2 + p->ndims + p->k->params.len);
    V phases = emit_phases(p), region = emit_region(p, phases);
    Bodies b = {.workspace = emit_workspace(p)};
    unsigned n = emit_parameters(p, types);
    types[n++] = l->ptr;
    b.entry = internal(p, "entry", l_fn_type(l, l->i32, types, n));
    Emit *e = emit_new(p, b.entry, NULL);
    take_dims(e, b.entry, 1);
    e->data = l_slot_bytes(l, p->data_bytes, "data");
    emit_call(e, b.entry, b.workspace, phases, region);
    return b;
}
