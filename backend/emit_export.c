/* The exported names of a kernel: each asks which instruction set runs here and goes to that body. */
#include "backend/emit_packed.h"

typedef struct Export {
    const Shared *s;
    Plan *const *plans;
    const Bodies *bodies;
    uint32_t n;
    const Plan *p; /* any of them: they share the signature */
    L *l;
} Export;

static V exported(const Export *x, const char *suffix, Ty type)
{
    V fn = LLVMAddFunction(x->l->mod, arena_printf(x->l->arena, "%s%s", x->p->k->name, suffix), type);
    l_plain(x->l, fn);
    l_quick(x->l, fn);
    l_begin(x->l, fn);
    return fn;
}

/* The names of the instruction sets that were compiled for. */
static const char *isa_list(const Export *x)
{
    Text t = {.arena = x->l->arena};
    for (uint32_t i = 0; i < x->n; i++)
        text_add(&t, "%s%s", i ? ", " : "", cpu_table[x->plans[i]->target].name);
    return text_string(&t);
}

/* refuse(ctx, MOE_ISA, ...) for the value of select() that names no input. */
static V refuse_isa(const Export *x, V selected, V ctx)
{
    L *l = x->l;
    const char *kernel = x->p->k->name, *list = isa_list(x);
    V lacks =
        l_text(l, arena_printf(l->arena, "%s: this CPU runs none of the instruction sets compiled for (%s)",
                               kernel, list));
    V forced = l_text(l, arena_printf(l->arena,
                                      "%s: MOE_ISA=%%s: this CPU lacks it, or it was not compiled for (%s)",
                                      kernel, list));
    V is_forced = l_icmp(l, LLVMIntEQ, selected, l_i32(l, CHOICE_FORCED));
    V args[5] = {ctx, l_i32(l, STATUS_ISA), l_select(l, is_forced, forced, lacks),
                 l_load(l, l->i64, x->s->forced, 8), l_i64(l, 0)};
    return l_call(l, x->s->refuse, args, 5);
}

/* Ends the function with a call of the selected body; ctx NULL: -1 when there is none. args has room for one more:
 * an entry is told the target's products. */
static void go_to_body(const Export *x, int workspace, V *args, unsigned n, V ctx)
{
    L *l = x->l;
    V selected = l_call(l, x->s->select, NULL, 0);
    Block none = l_block(l, "none");
    V choice = LLVMBuildSwitch(l->b, selected, none, x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        Block body = l_block(l, "body");
        LLVMAddCase(choice, l_i32(l, 1 + x->plans[i]->target), body);
        l_enter(l, body);
        args[n] = workspace ? NULL : emit_products(x->plans[i]);
        LLVMBuildRet(l->b, workspace ? l_call(l, x->bodies[i].workspace, args, n)
                                     : l_call(l, x->bodies[i].entry, args, n + 1));
    }
    l_enter(l, none);
    LLVMBuildRet(l->b, workspace ? l_i64(l, -1) : refuse_isa(x, selected, ctx));
}

/* ---- the log: Note [Log of calls] in runtime/log.h ---- */

static When when_logged(const Export *x)
{
    L *l = x->l;
    V listener = l_load(l, l->ptr, x->s->log, 8);
    return l_when(l, l_icmp(l, LLVMIntNE, listener, LLVMConstNull(l->ptr)));
}

/* Returns what moec_logged() does with this call of uniform(ctx, dims, args). */
static void return_logged(const Export *x, V uniform, V ctx, V dims, V given)
{
    L *l = x->l;
    Ty five[5] = {l->ptr, l->ptr, l->ptr, l->ptr, l->ptr};
    V args[5] = {l_text(l, x->p->k->name), uniform, ctx, dims, given};
    LLVMBuildRet(l->b, l_call(l, l_declare(l, "moec_logged", l_fn_type(l, l->i32, five, 5)), args, 5));
}

/* The address of memory that holds v. */
static V address_of(L *l, V v)
{
    V slot = l_slot(l, LLVMTypeOf(v), "value");
    l_store(l, v, slot, 0);
    return slot;
}

/* Sizes and arguments as arrays. */
static void log_function(const Export *x, V uniform, const V *args)
{
    L *l = x->l;
    uint32_t ndims = x->p->ndims, nparams = x->p->k->params.len;
    When logged = when_logged(x);
    V dims = l_slot(l, LLVMArrayType2(l->i64, ndims + 1), "sizes");
    V given = l_slot(l, LLVMArrayType2(l->ptr, nparams + 1), "arguments");
    for (uint32_t i = 0; i < ndims; i++)
        l_store(l, args[1 + i], l_at(l, l->i64, dims, l_i64(l, i)), 8);
    for (uint32_t i = 0; i < nparams; i++) {
        V v = args[1 + ndims + i], pointer = LLVMTypeOf(v) == l->ptr ? v : address_of(l, v);
        l_store(l, pointer, l_at(l, l->ptr, given, l_i64(l, i)), 8);
    }
    return_logged(x, uniform, args[0], dims, given);
    l_enter(l, logged.exit);
}

/* ---- the entries ---- */

static void export_function(const Export *x, const Ty *types, unsigned n, V uniform)
{
    L *l = x->l;
    V fn = exported(x, "", l_fn_type(l, l->i32, types, n));
    V *args = arena_array(l->arena, V, n + 1);
    for (unsigned i = 0; i < n; i++)
        args[i] = LLVMGetParam(fn, i);
    log_function(x, uniform, args);
    go_to_body(x, 0, args, n, args[0]);
}

static V pointer_at(L *l, Ty type, V array, unsigned i)
{
    return l_load(l, type, l_at(l, type, array, l_i64(l, i)), 0);
}

/* Refuses the call where the pointer is NULL. */
static void require_pointer(const Export *x, V pointer, V ctx, const char *what)
{
    L *l = x->l;
    When missing = l_when(l, l_icmp(l, LLVMIntEQ, pointer, LLVMConstNull(l->ptr)));
    V text = l_text(l, arena_printf(l->arena, "%s: %s is NULL", x->p->k->name, what));
    V args[5] = {ctx, l_i32(l, STATUS_NULL), text, l_i64(l, 0), l_i64(l, 0)};
    LLVMBuildRet(l->b, l_call(l, x->s->refuse, args, 5));
    l_enter(l, missing.exit);
}

static Ty uniform_type(L *l)
{
    Ty three[3] = {l->ptr, l->ptr, l->ptr};
    return l_fn_type(l, l->i32, three, 3);
}

/* The call (ctx, dims, args), which is not logged: args[i] points at data, at a route, or at a scalar's value. */
static V emit_uniform(const Export *x, const Ty *types, unsigned n)
{
    L *l = x->l;
    const Kernel *k = x->p->k;
    V fn = exported(x, ".uniform", uniform_type(l));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    V ctx = LLVMGetParam(fn, 0), dims = LLVMGetParam(fn, 1), given = LLVMGetParam(fn, 2);
    V *args = arena_array(l->arena, V, n + 1);
    unsigned at = 0;
    args[at++] = ctx;
    if (x->p->ndims)
        require_pointer(x, dims, ctx, "the array of sizes");
    if (k->params.len)
        require_pointer(x, given, ctx, "the array of arguments");
    for (uint32_t i = 0; i < x->p->ndims; i++)
        args[at++] = pointer_at(l, l->i64, dims, i);
    for (uint32_t i = 0; i < k->params.len; i++, at++) {
        args[at] = pointer_at(l, l->ptr, given, i);
        if (types[at] == l->ptr)
            continue;
        require_pointer(x, args[at], ctx, k->tensors.at[k->params.at[i].id].name);
        args[at] = l_load(l, types[at], args[at], 0);
    }
    go_to_body(x, 0, args, n, ctx);
    return fn;
}

/* NAME__call */
static V export_call(const Export *x, V uniform)
{
    L *l = x->l;
    V fn = exported(x, "__call", uniform_type(l));
    V args[3] = {LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 2)};
    When logged = when_logged(x);
    return_logged(x, uniform, args[0], args[1], args[2]);
    l_enter(l, logged.exit);
    LLVMBuildRet(l->b, l_call(l, uniform, args, 3));
    return fn;
}

static V most_threads(L *l)
{
    V n = l_call(l, l_declare(l, "omp_get_max_threads", l_fn_type(l, l->i32, NULL, 0)), NULL, 0);
    return l_cast(l, LLVMSExt, n, l->i64);
}

static void export_workspace(const Export *x, const Ty *types)
{
    L *l = x->l;
    uint32_t n = x->p->ndims;
    V *args = arena_array(l->arena, V, n + 2);
    V plain = exported(x, "_workspace", l_fn_type(l, l->i64, types + 1, n));
    for (uint32_t i = 0; i < n; i++)
        args[i] = LLVMGetParam(plain, i);
    args[n] = most_threads(l);
    go_to_body(x, 1, args, n + 1, NULL);
    V uniform = exported(x, "__workspace", l_fn_type(l, l->i64, &l->ptr, 1)), dims = LLVMGetParam(uniform, 0);
    if (n) {
        When missing = l_when(l, l_icmp(l, LLVMIntEQ, dims, LLVMConstNull(l->ptr)));
        LLVMBuildRet(l->b, l_i64(l, -1));
        l_enter(l, missing.exit);
    }
    for (uint32_t i = 0; i < n; i++)
        args[i] = pointer_at(l, l->i64, dims, i);
    args[n] = most_threads(l);
    go_to_body(x, 1, args, n + 1, NULL);
}

void emit_exports(const Shared *s, Plan *const *plans, const Bodies *bodies, uint32_t n, int is_object)
{
    Export x = {.s = s, .plans = plans, .bodies = bodies, .n = n, .p = plans[0], .l = plans[0]->l};
    Ty *types = arena_array(x.l->arena, Ty, 1 + x.p->ndims + x.p->k->params.len);
    unsigned count = emit_parameters(x.p, types);
    V uniform = emit_uniform(&x, types, count);
    export_function(&x, types, count, uniform);
    V call = export_call(&x, uniform);
    if (is_object)
        emit_tvm(x.p, call);
    export_workspace(&x, types);
    emit_pack_exports(x.p);
}
