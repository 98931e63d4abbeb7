/* Functions that a compiled module has once: refusing a call, finding overlaps, noting a failed check, and
 * choosing the instruction set. */
#include "backend/emit_pack.h"
#include "backend/family.h"

/* Of the parts of an object the first of the function's kind has it; the others declare it. */
static int here(const L *l, int quick) { return !l->split || (l->first && l->quick == quick); }

static V new_function(L *l, const char *name, Ty result, const Ty *params, unsigned n, int quick)
{
    V fn = LLVMAddFunction(l->mod, name, l_fn_type(l, result, params, n));
    l_shared(l, fn);
    if (!here(l, quick))
        return fn;
    l_plain(l, fn);
    if (quick)
        l_quick(l, fn);
    l_begin(l, fn);
    return fn;
}

static V libc_snprintf(L *l)
{
    Ty params[3] = {l->ptr, l->i64, l->ptr};
    return l_declare(l, "snprintf", LLVMFunctionType(l->i32, params, 3, 1));
}

static V is_null(L *l, V p) { return l_icmp(l, LLVMIntEQ, p, LLVMConstNull(l->ptr)); }

/* i32 refuse(ptr ctx, i32 status, ptr format, i64 a, i64 b) */
static V emit_refuse(L *l, const Shared *s)
{
    Ty params[5] = {l->ptr, l->i32, l->ptr, l->i64, l->i64};
    V fn = new_function(l, "moec.refuse", l->i32, params, 5, 1);
    if (LLVMIsDeclaration(fn))
        return fn;
    V ctx = LLVMGetParam(fn, 0), status = LLVMGetParam(fn, 1);
    When has = l_when(l, l_not(l, is_null(l, ctx)));
    l_store(l, status, l_field(l, s->context, ctx, CTX_status), 4);
    V message = l_load(l, l->ptr, l_field(l, s->context, ctx, CTX_message), 8);
    When text = l_when(l, l_not(l, is_null(l, message)));
    V args[5] = {message, l_i64(l, 512), LLVMGetParam(fn, 2), LLVMGetParam(fn, 3), LLVMGetParam(fn, 4)};
    l_call(l, libc_snprintf(l), args, 5);
    l_end_when(l, &text);
    l_end_when(l, &has);
    LLVMBuildRet(l->b, status);
    return fn;
}

/* i64 overlap(ptr ranges, i64 n): 1 + i * n + j of the first two that meet, one of them written; else 0. */
static V emit_overlap(L *l, const Shared *s)
{
    Ty params[2] = {l->ptr, l->i64};
    V fn = new_function(l, "moec.overlap", l->i64, params, 2, 1);
    if (LLVMIsDeclaration(fn))
        return fn;
    V table = LLVMGetParam(fn, 0), n = LLVMGetParam(fn, 1), field[2][3], one = l_i64(l, 1);
    For i = l_for(l, l_i64(l, 0), n, 1, "i");
    For j = l_for(l, l_add(l, i.var, one), n, 1, "j");
    for (int side = 0; side < 2; side++)
        for (unsigned f = 0; f < 3; f++) {
            V at = l_at(l, s->range, table, side ? j.var : i.var);
            field[side][f] = l_load(l, l->i64, l_field(l, s->range, at, f), 8);
        }
    V meet = l_icmp(l, LLVMIntNE, l_or(l, field[0][2], field[1][2]), l_i64(l, 0));
    for (int side = 0; side < 2; side++) {
        V end = l_add(l, field[!side][0], field[!side][1]);
        meet = l_and(l, meet, l_icmp(l, LLVMIntULT, field[side][0], end));
        meet = l_and(l, meet, l_icmp(l, LLVMIntSGT, field[side][1], l_i64(l, 0)));
    }
    Block found = l_block(l, "found"), next = l_block(l, "next");
    l_branch(l, meet, found, next);
    l_enter(l, found);
    LLVMBuildRet(l->b, l_add(l, one, l_add(l, l_mul(l, i.var, n), j.var)));
    l_enter(l, next);
    l_end_for(l, &j);
    l_end_for(l, &i);
    LLVMBuildRet(l->b, l_i64(l, 0));
    return fn;
}

/* i64 null(ptr ranges, i64 n) */
static V emit_null(L *l, const Shared *s)
{
    Ty params[2] = {l->ptr, l->i64};
    V fn = new_function(l, "moec.null", l->i64, params, 2, 1), zero = l_i64(l, 0);
    if (LLVMIsDeclaration(fn))
        return fn;
    For i = l_for(l, zero, LLVMGetParam(fn, 1), 1, "i");
    V at = l_at(l, s->range, LLVMGetParam(fn, 0), i.var);
    V missing = l_icmp(l, LLVMIntEQ, l_load(l, l->i64, l_field(l, s->range, at, 0), 8), zero);
    V some = l_icmp(l, LLVMIntSGT, l_load(l, l->i64, l_field(l, s->range, at, 1), 8), zero);
    Block found = l_block(l, "found"), next = l_block(l, "next");
    l_branch(l, l_and(l, missing, some), found, next);
    l_enter(l, found);
    LLVMBuildRet(l->b, l_add(l, i.var, l_i64(l, 1)));
    l_enter(l, next);
    l_end_for(l, &i);
    LLVMBuildRet(l->b, zero);
    return fn;
}

/* void items(ptr data, ptr body, ptr map, i64 items, ptr counter, i64 thread, i64 threads): takes chunks of
 * the launch's items until none is left or a check fails; many chunks for each thread, so that the last ones
 * even out. */
static V emit_items(L *l)
{
    Ty params[7] = {l->ptr, l->ptr, l->ptr, l->i64, l->ptr, l->i64, l->i64};
    Ty body[5] = {l->ptr, l->ptr, l->i64, l->i64, l->i64};
    V fn = new_function(l, "moec.items", l->none, params, 7, 1);
    if (LLVMIsDeclaration(fn))
        return fn;
    V items = LLVMGetParam(fn, 3), threads = LLVMGetParam(fn, 6), one = l_i64(l, 1);
    V team = l_icmp(l, LLVMIntSGT, threads, one);
    V chunk = l_select(l, team, l_bin(l, LLVMUDiv, items, l_mul(l, threads, l_i64(l, CHUNKS_EACH))), items);
    chunk = l_max(l, chunk, one);
    Block take = l_block(l, "take"), run = l_block(l, "run"), done = l_block(l, "done");
    l_goto(l, take);
    l_enter(l, take);
    V begin = LLVMBuildAtomicRMW(l->b, LLVMAtomicRMWBinOpAdd, LLVMGetParam(fn, 4), chunk,
                                 LLVMAtomicOrderingMonotonic, 0);
    l_branch(l, l_icmp(l, LLVMIntSLT, begin, items), run, done);
    l_enter(l, run);
    V args[5] = {LLVMGetParam(fn, 0), LLVMGetParam(fn, 2), begin, l_min(l, l_add(l, begin, chunk), items),
                 LLVMGetParam(fn, 5)};
    V failed = l_call_at(l, l_fn_type(l, l->i1, body, 5), LLVMGetParam(fn, 1), args, 5);
    l_branch(l, failed, done, take);
    l_enter(l, done);
    LLVMBuildRetVoid(l->b);
    return fn;
}

/* Of rows that stand apart, even if their n elements were f32, the beginnings are asked for; those of others the CPU foresees. (On an
 * EPYC of Zen 3 the forward of 8 x 256 positions in 4 heads of 64 takes 0.97 to 0.98 of the time; to ask for all costs products of
 * 2048 rows of 256 a fiftieth.) */
static void ask_rows(L *l, V from, V stride, V n, V count)
{
    enum { LINES = 2 };
    V apart = l_icmp(l, LLVMIntSGT, stride, l_mul(l, n, l_i64(l, (int64_t)elem_bytes(EL_F32))));
    V last = l_sub(l, stride, l_i64(l, 1)), asked = l_select(l, apart, count, l_i64(l, 0));
    For row = l_for(l, l_i64(l, 0), asked, 1, "asked");
    emit_ask_lines(l, l_byte(l, from, l_mul(l, row.var, stride)), last, LINES);
    l_end_for(l, &row);
}

/* void strided(ptr pack, ptr first, i64 stride, i64 rows, i64 n, ptr to, i64 block, i64 step): see Shared. */
static V emit_strided(L *l)
{
    Ty params[8] = {l->ptr, l->ptr, l->i64, l->i64, l->i64, l->ptr, l->i64, l->i64};
    V fn = new_function(l, "moec.strided", l->none, params, 8, 0), most = l_i64(l, PACK_ROWS);
    if (LLVMIsDeclaration(fn))
        return fn;
    V first = LLVMGetParam(fn, 1), stride = LLVMGetParam(fn, 2), rows = LLVMGetParam(fn, 3);
    V table = l_slot(l, LLVMArrayType2(l->ptr, PACK_ROWS), "rows");
    For chunk = l_for(l, l_i64(l, 0), rows, PACK_ROWS, "chunk");
    V count = l_min(l, l_sub(l, rows, chunk.var), most);
    V from = l_byte(l, first, l_mul(l, chunk.var, stride));
    ask_rows(l, from, stride, LLVMGetParam(fn, 4), count);
    For row = l_for(l, l_i64(l, 0), count, 1, "row");
    l_store(l, l_byte(l, from, l_mul(l, row.var, stride)), l_at(l, l->ptr, table, row.var), 8);
    l_end_for(l, &row);
    V done = l_mul(l, l_bin(l, LLVMUDiv, chunk.var, most), LLVMGetParam(fn, 7));
    V args[5] = {table, count, LLVMGetParam(fn, 4), l_byte(l, LLVMGetParam(fn, 5), done),
                 LLVMGetParam(fn, 6)};
    l_call_at(l, pack_type(l), LLVMGetParam(fn, 0), args, 5);
    l_end_for(l, &chunk);
    LLVMBuildRetVoid(l->b);
    return fn;
}

static V byte_at(L *l, V data, uint32_t byte) { return l_at(l, l->i8, data, l_i64(l, byte)); }

/* void fail(ptr data, i64 item, i32 check, i64 a, i64 b): keeps the failure of the lowest item, under a lock.
 */
static V emit_fail(L *l)
{
    Ty params[5] = {l->ptr, l->i64, l->i32, l->i64, l->i64};
    V fn = new_function(l, "moec.fail", l->none, params, 5, 1);
    if (LLVMIsDeclaration(fn))
        return fn;
    l_attribute(l, fn, "cold");
    V at = LLVMGetParam(fn, 0), item = LLVMGetParam(fn, 1), lock = byte_at(l, at, DATA_LOCK);
    Block spin = l_block(l, "spin"), mine = l_block(l, "mine");
    l_goto(l, spin);
    l_enter(l, spin);
    V taken =
        LLVMBuildAtomicRMW(l->b, LLVMAtomicRMWBinOpXchg, lock, l_i32(l, 1), LLVMAtomicOrderingAcquire, 0);
    l_branch(l, l_icmp(l, LLVMIntEQ, taken, l_i32(l, 0)), mine, spin);
    l_enter(l, mine);
    V failed = l_load(l, l->i32, byte_at(l, at, DATA_FAILED), 4);
    V lowest = l_load(l, l->i64, byte_at(l, at, DATA_ITEM), 8);
    V first = l_or(l, l_icmp(l, LLVMIntEQ, failed, l_i32(l, 0)), l_icmp(l, LLVMIntSLT, item, lowest));
    When keep = l_when(l, first);
    V mark = l_store(l, l_add(l, LLVMGetParam(fn, 2), l_i32(l, 1)), byte_at(l, at, DATA_FAILED), 4);
    LLVMSetOrdering(mark, LLVMAtomicOrderingMonotonic); /* leave_when_failed() looks without the lock */
    l_store(l, item, byte_at(l, at, DATA_ITEM), 8);
    l_store(l, LLVMGetParam(fn, 3), byte_at(l, at, DATA_A), 8);
    l_store(l, LLVMGetParam(fn, 4), byte_at(l, at, DATA_B), 8);
    l_end_when(l, &keep);
    V release = l_store(l, l_i32(l, 0), lock, 4);
    LLVMSetOrdering(release, LLVMAtomicOrderingRelease);
    LLVMBuildRetVoid(l->b);
    return fn;
}

/* ---- choosing the instruction set ---- */

/* moec_choose() of machines/choose.c; NULL for its second parameter: MOE_ISA does not count. */
static V choose(L *l, const Shared *s, const BackendInput *inputs, uint32_t n, int unforced)
{
    Ty two[2] = {l->i32, l->ptr};
    uint32_t isas = 0;
    for (uint32_t i = 0; i < n; i++)
        isas |= 1u << inputs[i].isa;
    V args[2] = {l_i32(l, isas), unforced ? LLVMConstNull(l->ptr) : s->forced};
    return l_call(l, l_declare(l, "moec_choose", l_fn_type(l, l->i32, two, 2)), args, 2);
}

/* i32 select(): 1 + the instruction set to run, or what moec_choose() returns for none. Remembered: of two threads that come here
 * first, both go by what one of them found. */
static V emit_select(L *l, Shared *s, const BackendInput *inputs, uint32_t n, int unforced)
{
    V fn = new_function(l, "moec.select", l->i32, NULL, 0, 1);
    if (LLVMIsDeclaration(fn))
        return fn;
    V known = LLVMAddGlobal(l->mod, l->i32, "moec.selected"), zero = l_i32(l, 0);
    LLVMSetInitializer(known, zero);
    LLVMSetLinkage(known, LLVMInternalLinkage);
    V old = l_load(l, l->i32, known, 4);
    LLVMSetOrdering(old, LLVMAtomicOrderingAcquire);
    Block done = l_block(l, "known"), find = l_block(l, "find");
    l_branch(l, l_icmp(l, LLVMIntNE, old, zero), done, find);
    l_enter(l, done);
    LLVMBuildRet(l->b, old);
    l_enter(l, find);
    V found = choose(l, s, inputs, n, unforced);
    found = l_add(l, found, l_select(l, l_icmp(l, LLVMIntSGE, found, zero), l_i32(l, 1), zero));
    V first = LLVMBuildAtomicCmpXchg(l->b, known, zero, found, LLVMAtomicOrderingAcquireRelease,
                                     LLVMAtomicOrderingAcquire, 0);
    old = LLVMBuildExtractValue(l->b, first, 0, "");
    LLVMBuildRet(l->b, l_select(l, l_icmp(l, LLVMIntNE, old, zero), old, found));
    return fn;
}

/* ---- the process that loaded the module ---- */

/* Makes `fn` a constructor: the dynamic linker calls it when it loads the .so. */
static void run_at_load(L *l, V fn)
{
    Ty types[3] = {l->i32, l->ptr, l->ptr}, type = LLVMStructTypeInContext(l->ctx, types, 3, 0);
    V parts[3] = {l_i32(l, 65535), fn, LLVMConstNull(l->ptr)};
    V row = LLVMConstStructInContext(l->ctx, parts, 3, 0);
    V list = LLVMAddGlobal(l->mod, LLVMArrayType2(type, 1), "llvm.global_ctors");
    LLVMSetLinkage(list, LLVMAppendingLinkage);
    LLVMSetInitializer(list, LLVMConstArray2(type, &row, 1));
}

V emit_process_id(L *l) { return l_call(l, l_declare(l, "getpid", l_fn_type(l, l->i32, NULL, 0)), NULL, 0); }

/* A variable of the module, zero at first, that others may set. A program may be linked with the objects of several modules; they then
 * have it together. */
static V module_variable(L *l, const char *name, Ty type)
{
    V v = LLVMAddGlobal(l->mod, type, name);
    LLVMSetVisibility(v, LLVMProtectedVisibility);
    if (here(l, 1)) {
        LLVMSetInitializer(v, LLVMConstNull(type));
        LLVMSetLinkage(v, LLVMWeakAnyLinkage);
    }
    return v;
}

/* moec_process: set when the .so is loaded, or by who loads the module otherwise. Each .so has its own. */
static V emit_process(L *l)
{
    V process = module_variable(l, "moec_process", l->i32);
    if (!here(l, 1))
        return process;
    V fn = new_function(l, "moec.load", l->none, NULL, 0, 1);
    l_store(l, emit_process_id(l), process, 4);
    LLVMBuildRetVoid(l->b);
    run_at_load(l, fn);
    return process;
}

void shared_emit(L *l, Shared *s, const BackendInput *inputs, uint32_t n, int unforced)
{
    Ty context[] = {
#define CTX(field, ctype, llvm, doc) l->llvm,
#include "moec/abi.def"
    };
    Ty route[] = {
#define ROUTE(field, ctype, llvm, doc) l->llvm,
#include "moec/abi.def"
    };
    Ty range[3] = {l->i64, l->i64, l->i64};
    s->context = LLVMStructTypeInContext(l->ctx, context, sizeof context / sizeof *context, 0);
    s->route = LLVMStructTypeInContext(l->ctx, route, sizeof route / sizeof *route, 0);
    s->range = LLVMStructTypeInContext(l->ctx, range, 3, 0);
    s->forced = LLVMAddGlobal(l->mod, l->ptr, "moec.forced");
    if (here(l, 1))
        LLVMSetInitializer(s->forced, LLVMConstNull(l->ptr));
    l_shared(l, s->forced);
    Ty zeros = LLVMArrayType2(l->i64, 8);
    s->nowhere = LLVMAddGlobal(l->mod, zeros, "moec.nowhere");
    LLVMSetInitializer(s->nowhere, LLVMConstNull(zeros));
    LLVMSetLinkage(s->nowhere, LLVMInternalLinkage);
    LLVMSetGlobalConstant(s->nowhere, 1);
    LLVMSetAlignment(s->nowhere, 64);
    s->process = emit_process(l);
    s->log = module_variable(l, "moec_log", l->ptr);
    s->refuse = emit_refuse(l, s);
    s->overlap = emit_overlap(l, s);
    s->null = emit_null(l, s);
    s->items = emit_items(l);
    s->strided = emit_strided(l);
    s->fail = emit_fail(l);
    s->select = emit_select(l, s, inputs, n, unforced);
}
