/* The plug-in's front door: kernels to an LLVM module to text, assembly or an object. */
#include "backend/emit.h"
#include "backend/jit.h"
#include "backend/target.h"

#include <stdio.h>
#include <string.h>

static void add_text(L *l, const char *name, const char *text)
{
    if (!text)
        return;
    V bytes = LLVMConstStringInContext2(l->ctx, text, strlen(text), 0);
    V global = LLVMAddGlobal(l->mod, LLVMTypeOf(bytes), name);
    LLVMSetInitializer(global, bytes);
    LLVMSetGlobalConstant(global, 1);
}

/* One kernel of every input, then the names that choose between them. */
static void add_kernel(L *l, Shared *s, Debug *debug, const BackendInput *inputs, uint32_t n, uint32_t kernel)
{
    Plan *plans[ISA_COUNT];
    Bodies bodies[ISA_COUNT];
    for (uint32_t i = 0; i < n; i++) {
        plans[i] = plan_new(l, s, debug, inputs[i].module, inputs[i].module->kernels.at[kernel], inputs[i].isa);
        emit_launches(plans[i]);
        bodies[i] = emit_entry(plans[i]);
    }
    emit_exports(s, plans, bodies, n);
}

static void build_module(L *l, const BackendInput *inputs, uint32_t n, const BackendOptions *o)
{
    Shared shared = {0};
    const Module *m = inputs[0].module;
    shared_emit(l, &shared, inputs, n);
    Debug *debug = o->debug ? debug_new(l, m) : NULL;
    for (uint32_t i = 0; i < m->kernels.len; i++)
        add_kernel(l, &shared, debug, inputs, n, i);
    if (debug)
        debug_finish(debug);
    add_text(l, "moec_manifest", o->manifest);
    add_text(l, "moec_build_id", o->build_id);
}

static const char *write_module(LLVMTargetMachineRef machine, LLVMModuleRef mod, enum BackendOutput what, Arena *a,
                                const char **bytes, size_t *len)
{
    if (what != OUTPUT_LLVM)
        return target_bytes(machine, mod, what == OUTPUT_ASM ? LLVMAssemblyFile : LLVMObjectFile, a, bytes, len);
    char *text = LLVMPrintModuleToString(mod);
    *len = strlen(text);
    *bytes = arena_strndup(a, text, *len);
    LLVMDisposeMessage(text);
    return NULL;
}

static const char *emit_inputs(const BackendInput *inputs, uint32_t n, const BackendOptions *o,
                               enum BackendOutput what, Arena *a, const char **bytes, size_t *len)
{
    LLVMTargetMachineRef machine;
    const char *error = target_open(o->level, a, &machine);
    if (error)
        return error;
    LLVMContextRef ctx = LLVMContextCreate();
    LLVMModuleRef mod = LLVMModuleCreateWithNameInContext(inputs[0].module->path ? inputs[0].module->path : "moe", ctx);
    L l;
    target_prepare(machine, mod);
    l_init(&l, a, ctx, mod);
    build_module(&l, inputs, n, o); /* leaves by arena_escape() only for a bug; then LLVM's objects are lost */
    LLVMDisposeBuilder(l.b);
    error = target_optimize(machine, mod, o->level, a);
    if (!error)
        error = write_module(machine, mod, what, a, bytes, len);
    LLVMDisposeModule(mod);
    LLVMContextDispose(ctx);
    LLVMDisposeTargetMachine(machine);
    return error;
}

static const char *emit_any(const BackendInput *inputs, uint32_t n, const BackendOptions *o, enum BackendOutput what,
                            Arena *a, const char **bytes, size_t *len)
{
    BackendInput sorted[ISA_COUNT];
    uint32_t count = 0;
    for (Isa isa = ISA_generic; isa < ISA_COUNT; isa++) /* select() wants them from the plainest up */
        for (uint32_t i = 0; i < n; i++)
            if (inputs[i].isa == isa && (!count || sorted[count - 1].isa != isa))
                sorted[count++] = inputs[i];
    if (!count)
        return "the backend was given nothing to compile";
    return emit_inputs(sorted, count, o, what, a, bytes, len);
}

__attribute__((visibility("default"))) const BackendApi *backend_entry(void)
{
    static char version[32];
    static BackendApi api = {version, emit_any, jit_load, jit_symbol, jit_free};
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    snprintf(version, sizeof version, "LLVM %u.%u.%u", major, minor, patch);
    return &api;
}
