/* The plug-in's front door: kernels to an LLVM module to text, assembly or an object.
 *
 * Note [Parts]. Generating code takes nearly all of a compilation, and LLVM's contexts are independent: an object of
 * several kernels is made in up to four parts, each by a thread of its own, and merged. Which kernel goes where
 * depends on the kernels only, so the bytes do not depend on the machine. */
#include "backend/emit.h"
#include "backend/jit.h"
#include "backend/object.h"
#include "backend/target.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

enum { PARTS_MAX = 4, KERNELS_PART_WEIGHT = 60 };

typedef struct Part {
    const BackendInput *inputs;
    uint32_t ninputs;
    const BackendOptions *options;
    enum BackendOutput what;
    int first;        /* the manifest and the build id go with the first part */
    uint8_t *mine;    /* by kernel */
    uint64_t weight;
    Arena *arena;
    const char *error, *bytes;
    size_t len;
    pthread_t thread;
    int started;
} Part;

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
static void add_kernel(L *l, Shared *s, Debug *debug, const Part *part, uint32_t kernel)
{
    Plan *plans[ISA_COUNT];
    Bodies bodies[ISA_COUNT];
    for (uint32_t i = 0; i < part->ninputs; i++) {
        const BackendInput *in = &part->inputs[i];
        plans[i] = plan_new(l, s, debug, in->module, in->module->kernels.at[kernel], in->isa);
        emit_launches(plans[i]);
        bodies[i] = emit_entry(plans[i]);
    }
    emit_exports(s, plans, bodies, part->ninputs);
}

static void build_module(L *l, const Part *part)
{
    Shared shared = {0};
    const Module *m = part->inputs[0].module;
    shared_emit(l, &shared, part->inputs, part->ninputs);
    Debug *debug = part->options->debug ? debug_new(l, m) : NULL;
    for (uint32_t i = 0; i < m->kernels.len; i++)
        if (part->mine[i])
            add_kernel(l, &shared, debug, part, i);
    if (debug)
        debug_finish(debug);
    if (part->first) {
        add_text(l, "moec_manifest", part->options->manifest);
        add_text(l, "moec_build_id", part->options->build_id);
    }
}

static const char *write_module(LLVMTargetMachineRef machine, LLVMModuleRef mod, Part *part)
{
    if (part->what != OUTPUT_LLVM)
        return target_bytes(machine, mod, part->what == OUTPUT_ASM ? LLVMAssemblyFile : LLVMObjectFile, part->arena,
                            &part->bytes, &part->len);
    char *text = LLVMPrintModuleToString(mod);
    part->len = strlen(text);
    part->bytes = arena_strndup(part->arena, text, part->len);
    LLVMDisposeMessage(text);
    return NULL;
}

static const char *make_part(Part *part)
{
    LLVMTargetMachineRef machine;
    const char *error = target_open(part->options->level, part->arena, &machine);
    if (error)
        return error;
    const char *path = part->inputs[0].module->path;
    LLVMContextRef ctx = LLVMContextCreate();
    LLVMModuleRef mod = LLVMModuleCreateWithNameInContext(path ? path : "moe", ctx);
    L l;
    target_prepare(machine, mod);
    l_init(&l, part->arena, ctx, mod);
    build_module(&l, part); /* leaves by arena_escape() only for a bug; then LLVM's objects are lost */
    LLVMDisposeBuilder(l.b);
    error = target_optimize(machine, mod, part->options->level, part->arena);
    if (!error)
        error = write_module(machine, mod, part);
    LLVMDisposeModule(mod);
    LLVMContextDispose(ctx);
    LLVMDisposeTargetMachine(machine);
    return error;
}

/* A part on its own thread: its arena's escapes land here. */
static void *run_part(void *user)
{
    Part *part = user;
    jmp_buf landing;
    arena_set_landing(part->arena, &landing);
    part->error = setjmp(landing) ? arena_message(part->arena) : make_part(part);
    return NULL;
}

/* ---- several parts ---- */

static uint64_t weight_of(const Part *model, uint32_t kernel)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < model->ninputs; i++)
        sum += model->inputs[i].module->kernels.at[kernel]->tiles->stmts.len;
    return sum + 10;
}

/* Kernels go, heaviest first, to the part that has least; returns how many parts there are. */
static uint32_t share_kernels(const Part *model, uint32_t kernels, Part *parts, Arena *a)
{
    uint64_t total = 0;
    for (uint32_t k = 0; k < kernels; k++)
        total += weight_of(model, k);
    uint64_t n = model->what == OUTPUT_OBJECT ? total / KERNELS_PART_WEIGHT : 1;
    n = n > PARTS_MAX ? PARTS_MAX : n;
    n = n > kernels ? kernels : n;
    n = n ? n : 1;
    for (uint32_t i = 0; i < n; i++) {
        parts[i] = *model;
        parts[i].first = i == 0;
        parts[i].mine = arena_array(a, uint8_t, kernels + 1);
    }
    uint8_t *given = arena_array(a, uint8_t, kernels + 1);
    for (uint32_t round = 0; round < kernels; round++) {
        uint32_t heavy = NONE, light = 0;
        for (uint32_t k = 0; k < kernels; k++)
            if (!given[k] && (heavy == NONE || weight_of(model, k) > weight_of(model, heavy)))
                heavy = k;
        for (uint32_t i = 1; i < n; i++)
            light = parts[i].weight < parts[light].weight ? i : light;
        given[heavy] = parts[light].mine[heavy] = 1;
        parts[light].weight += weight_of(model, heavy);
    }
    return (uint32_t)n;
}

static void run_parts(Part *parts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        parts[i].arena = arena_new();
        if (!parts[i].arena)
            parts[i].error = "out of memory";
    }
    for (uint32_t i = 1; i < n; i++)
        parts[i].started = parts[i].arena && !pthread_create(&parts[i].thread, NULL, run_part, &parts[i]);
    for (uint32_t i = 0; i < n; i++)
        if (parts[i].arena && !parts[i].started)
            run_part(&parts[i]);
    for (uint32_t i = 1; i < n; i++)
        if (parts[i].started)
            pthread_join(parts[i].thread, NULL);
}

static const char *collect(Part *parts, uint32_t n, Arena *a, const char **bytes, size_t *len)
{
    ObjectBytes all[PARTS_MAX], one;
    for (uint32_t i = 0; i < n; i++) {
        if (parts[i].error)
            return arena_printf(a, "%s", parts[i].error);
        all[i] = (ObjectBytes){parts[i].bytes, parts[i].len};
    }
    one = all[0];
    const char *error = n > 1 ? object_merge(all, n, a, &one) : NULL;
    if (error)
        return error;
    *bytes = n > 1 ? one.at : arena_strndup(a, one.at, one.len);
    *len = one.len;
    return NULL;
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
    Part model = {.inputs = sorted, .ninputs = count, .options = o, .what = what}, parts[PARTS_MAX];
    uint32_t nparts = share_kernels(&model, sorted[0].module->kernels.len, parts, a);
    run_parts(parts, nparts);
    const char *error = collect(parts, nparts, a, bytes, len);
    for (uint32_t i = 0; i < nparts; i++)
        if (parts[i].arena)
            arena_free(parts[i].arena);
    return error;
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
