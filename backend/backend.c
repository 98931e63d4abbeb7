/* The plug-in's front door: kernels to an LLVM module to text, assembly or an object.
 *
 * Note [Parts]. Generating code takes nearly all of a compilation, and LLVM's contexts are independent: an
 * object of several launches is made in a few parts, each by a thread of its own, and merged. Entries of kernels,
 * which run once per call, are parts of their own, generated as fast as LLVM can: that takes a quarter of the time.
 * What goes where depends on the program only, so the bytes do not depend on the machine. */
#include "backend/emit_packed.h"
#include "backend/jit.h"
#include "backend/made.h"
#include "backend/target.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

enum { PARTS_MAX = 5 };

/* What is generated once: a body of launches, a helper, or everything else of a kernel. */
typedef struct Piece {
    uint32_t kernel;
    uint32_t input;
    const Launch *launch; /* NULL: the kernel's entry, for all inputs, or a helper */
    int helper;           /* its number, or -1 */
    uint64_t weight;
    uint32_t part;
} Piece;

typedef struct Job {
    const BackendInput *inputs;
    uint32_t ninputs, nkernels;
    const BackendOptions *options;
    enum BackendOutput what;
    Plan **plans;             /* [nkernels * ninputs] */
    uint32_t like[ISA_COUNT]; /* input i has the code of this one, up to helpers: see find_like() */
    Vec(Piece) pieces;
    Vec(ObjectBytes) made; /* helpers */
    uint32_t nparts;
    int has_quick; /* part: the last */
} Job;

typedef struct ModulePart {
    const Job *job;
    uint32_t number;
    Arena *arena;
    const char *error, *bytes;
    size_t len;
    pthread_t thread;
    int started;
} ModulePart;

/* moec_WHAT for others: of a program that is linked with objects of several modules it is that of the first. And moec.WHAT for the code
 * of this object (runtime/log.c). */
static void add_text(L *l, const char *what, const char *text)
{
    if (!text)
        return;
    V bytes = LLVMConstStringInContext2(l->ctx, text, strlen(text), 0);
    V own = LLVMAddGlobal(l->mod, LLVMTypeOf(bytes), arena_printf(l->arena, "moec.%s", what));
    LLVMSetInitializer(own, bytes);
    LLVMSetGlobalConstant(own, 1);
    LLVMSetVisibility(own, LLVMHiddenVisibility);
    V shown = LLVMAddAlias2(l->mod, LLVMTypeOf(bytes), 0, own, arena_printf(l->arena, "moec_%s", what));
    LLVMSetLinkage(shown, LLVMWeakAnyLinkage);
}

static void add_unit(L *l, Shared *s, Debug *debug, const Job *job, const Piece *piece)
{
    const Plan *const *plans = (const Plan *const *)job->plans + (size_t)piece->kernel * job->ninputs;
    if (piece->helper >= 0) {
        emit_helper(plan_copy(plans[piece->input], l, s, debug), (uint32_t)piece->helper);
        return;
    }
    if (piece->launch) {
        emit_launch_body(plan_copy(plans[piece->input], l, s, debug), piece->launch);
        return;
    }
    Plan *own[ISA_COUNT];
    Bodies bodies[ISA_COUNT];
    for (uint32_t i = 0; i < job->ninputs; i++) {
        own[i] = plan_copy(plans[i], l, s, debug);
        bodies[i] = job->like[i] < i ? bodies[job->like[i]] : emit_entry(own[i]);
    }
    emit_exports(s, own, bodies, job->ninputs, job->what == OUTPUT_OBJECT);
}

static int is_quick(const ModulePart *part)
{
    return part->job->has_quick && part->number + 1 == part->job->nparts;
}

static void build_module(L *l, const ModulePart *part)
{
    const Job *job = part->job;
    Shared shared = {0};
    l->split = job->nparts > 1;
    l->quick = is_quick(part);
    l->first = part->number == 0 || l->quick;
    shared_emit(l, &shared, job->inputs, job->ninputs, job->options->unforced);
    Debug *debug = job->options->debug ? debug_new(l, job->inputs[0].module) : NULL;
    for (uint32_t i = 0; i < job->pieces.len; i++)
        if (job->pieces.at[i].part == part->number)
            add_unit(l, &shared, debug, job, &job->pieces.at[i]);
    if (debug)
        debug_finish(debug);
    if (part->number == 0) {
        add_text(l, "manifest", job->options->manifest);
        add_text(l, "program", job->options->program);
        add_text(l, "build_id", job->options->build_id);
    }
}

static const char *write_module(LLVMTargetMachineRef machine, LLVMModuleRef mod, ModulePart *part)
{
    if (part->job->what != OUTPUT_LLVM)
        return target_bytes(machine, mod, part->job->what == OUTPUT_ASM ? LLVMAssemblyFile : LLVMObjectFile,
                            part->arena, &part->bytes, &part->len);
    char *text = LLVMPrintModuleToString(mod);
    part->len = strlen(text);
    part->bytes = arena_strndup(part->arena, text, part->len);
    LLVMDisposeMessage(text);
    return NULL;
}

/* Code with tiles is generated at level 1 at least: see CPU_TILES. */
static int level_of(const ModulePart *part)
{
    const Job *job = part->job;
    int tiles = 0;
    if (is_quick(part))
        return 0;
    for (uint32_t i = 0; i < job->ninputs; i++)
        tiles |= cpu_can(&cpu_table[job->inputs[i].isa], CPU_TILES);
    return tiles && job->options->level < 1 ? 1 : job->options->level;
}

/* All inputs are of one. */
static Family family_of(const ModulePart *part) { return cpu_table[part->job->inputs[0].isa].family; }

static const char *make_part(ModulePart *part)
{
    LLVMTargetMachineRef machine;
    const char *error = target_open(family_of(part), level_of(part), part->arena, &machine);
    if (error)
        return error;
    const char *path = part->job->inputs[0].module->path;
    LLVMContextRef ctx = LLVMContextCreate();
    LLVMModuleRef mod = LLVMModuleCreateWithNameInContext(path ? path : "moe", ctx);
    L l;
    target_prepare(machine, mod);
    l_init(&l, part->arena, ctx, mod);
    l.family = family_of(part);
    build_module(&l, part); /* leaves by arena_escape() only for a bug; then LLVM's objects are lost */
    LLVMDisposeBuilder(l.b);
    error = target_optimize(machine, mod, level_of(part), part->arena);
    l_optimized(&l);
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
    ModulePart *part = user;
    jmp_buf landing;
    arena_set_landing(part->arena, &landing);
    part->error = setjmp(landing) ? arena_message(part->arena) : make_part(part);
    return NULL;
}

/* ---- pieces and parts ---- */

/* The name of the body with this launch's key: an earlier piece's, or a new piece. */
static void add_body(Job *job, Arena *a, uint32_t kernel, uint32_t input, uint32_t number)
{
    Plan *p = job->plans[kernel * job->ninputs + input];
    Launch *launch = &p->launches.at[number];
    for (uint32_t i = 0; i < job->pieces.len; i++) {
        const Launch *other = job->pieces.at[i].launch;
        if (other && other->key.len == launch->key.len &&
            !memcmp(other->key.at, launch->key.at, launch->key.len)) {
            launch->body_name = other->body_name;
            return;
        }
    }
    Name name = p->p->stmts.at[launch->stmt].name;
    launch->body_name =
        arena_printf(a, "%s.%s.%u.%s", p->k->name, cpu_table[p->target].name, number, name ? name : "");
    vec_push(a, &job->pieces, (Piece){kernel, input, launch, -1, launch->weight, 0});
}

static int calls(const Job *job, uint32_t kernel, uint32_t input, uint32_t helper)
{
    return job->plans[kernel * job->ninputs + input]->helpers >> helper & 1;
}

static int multiplies(uint32_t helper) { return helper < HELPER_PACK; }

static int is_called(const Job *job, uint32_t input, uint32_t helper, uint32_t *kernel)
{
    for (*kernel = 0; *kernel < job->nkernels; ++*kernel)
        if (calls(job, *kernel, input, helper))
            return 1;
    return 0;
}

static void add_helper(Job *job, Arena *a, uint32_t kernel, uint32_t input, uint32_t helper)
{
    const uint64_t weight = multiplies(helper) ? PRODUCT_WEIGHT : PACK_WEIGHT;
    const int may_be_made = job->what == OUTPUT_OBJECT && job->options->level == MADE_LEVEL;
    ObjectBytes made = {NULL, 0};
    if (may_be_made)
        made = made_helper(helper_owner(job->inputs[input].isa, helper), helper);
    if (made.at)
        vec_push(a, &job->made, made);
    else
        vec_push(a, &job->pieces, (Piece){kernel, input, NULL, (int)helper, weight, 0});
}

/* What any kernel calls, once for each instruction set. */
static void add_helpers(Job *job, Arena *a)
{
    uint64_t has[ISA_COUNT + 1] = {0};
    for (uint32_t input = 0; input < job->ninputs; input++)
        for (uint32_t helper = 0, kernel; helper < HELPERS; helper++) {
            uint64_t *of_owner = &has[helper_owner(job->inputs[input].isa, helper)];
            if (*of_owner >> helper & 1 || !is_called(job, input, helper, &kernel))
                continue;
            *of_owner |= (uint64_t)1 << helper;
            add_helper(job, a, kernel, input, helper);
        }
}

static int same_text(const Module *a, const Module *b, Arena *arena)
{
    Text text[2] = {{.arena = arena}, {.arena = arena}};
    tile_print(a, NULL, &text[0]);
    tile_print(b, NULL, &text[1]);
    return text[0].len == text[1].len && !memcmp(text[0].at, text[1].at, text[0].len);
}

/* Inputs that are one program, and generated for one instruction set up to block products, are generated once: AMX
 * differs from AVX-512 with bf16 in its products only. */
static void find_like(Job *job, Arena *a)
{
    for (uint32_t i = 0; i < job->ninputs; i++) {
        job->like[i] = i;
        for (uint32_t j = 0; j < i && job->like[i] == i && job->nkernels; j++)
            if (job->plans[i]->isa == job->plans[j]->isa &&
                same_text(job->inputs[i].module, job->inputs[j].module, a))
                job->like[i] = j;
    }
}

static void plan_units(Job *job, Arena *a)
{
    job->plans = arena_array(a, Plan *, (size_t)job->nkernels * job->ninputs + 1);
    for (uint32_t k = 0; k < job->nkernels; k++)
        for (uint32_t i = 0; i < job->ninputs; i++) {
            const Module *m = job->inputs[i].module;
            job->plans[k * job->ninputs + i] =
                plan_new(a, m, m->kernels.at[k], job->inputs[i].isa, job->options->debug);
        }
    find_like(job, a);
    for (uint32_t k = 0; k < job->nkernels; k++) {
        uint64_t weight = KERNEL_WEIGHT;
        for (uint32_t i = 0; i < job->ninputs; i++) {
            if (job->like[i] < i)
                continue;
            Plan *p = job->plans[k * job->ninputs + i];
            weight += INPUT_WEIGHT + CALL_WEIGHT * p->launches.len + PARAMETER_WEIGHT * p->k->params.len;
            for (uint32_t j = 0; j < p->launches.len; j++)
                add_body(job, a, k, i, j);
        }
        vec_push(a, &job->pieces, (Piece){k, 0, NULL, -1, weight, 0});
    }
    add_helpers(job, a);
}

static int is_entry(const Piece *piece) { return !piece->launch && piece->helper < 0; }

/* One part for entries, others by weight: each a stretch of pieces, instruction set after instruction set, because LLVM
 * prepares itself for each that a part has. */
static void share_units(Job *job)
{
    uint64_t weight = 0, done = 0;
    uint32_t entries = 0;
    for (uint32_t i = 0; i < job->pieces.len; i++) {
        entries += (uint32_t)is_entry(&job->pieces.at[i]);
        weight += is_entry(&job->pieces.at[i]) ? 0 : job->pieces.at[i].weight;
    }
    job->has_quick = job->what == OUTPUT_OBJECT && entries && (weight || job->made.len);
    uint64_t most = job->has_quick ? PARTS_MAX - 1 : 1, n = weight / PART_WEIGHT;
    n = n < 1 ? 1 : n > most ? most : n;
    job->nparts = (uint32_t)n + (uint32_t)job->has_quick;
    for (uint32_t input = 0; input < job->ninputs; input++)
        for (uint32_t i = 0; i < job->pieces.len; i++) {
            Piece *piece = &job->pieces.at[i];
            if (is_entry(piece)) {
                piece->part = job->nparts - 1;
            } else if (piece->input == input) {
                piece->part = (uint32_t)((done + piece->weight / 2) * n / weight);
                done += piece->weight;
            }
        }
}

static void run_parts(ModulePart *parts, uint32_t n)
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

/* Text is of one part; an object is merged from all and from made helpers, and has the functions that choose an instruction set and that tvm-ffi calls. */
static const char *collect(ModulePart *parts, uint32_t n, Arena *a, const char **bytes, size_t *len)
{
    const Job *job = parts[0].job;
    uint32_t count = n + job->made.len;
    ObjectBytes *all = arena_array(a, ObjectBytes, count + 1), one;
    for (uint32_t i = 0; i < n; i++) {
        if (parts[i].error)
            return arena_printf(a, "%s", parts[i].error);
        all[i] = (ObjectBytes){parts[i].bytes, parts[i].len};
    }
    one = (ObjectBytes){arena_strndup(a, all[0].at, all[0].len), all[0].len};
    for (uint32_t i = 0; i < job->made.len; i++)
        all[n + i] = job->made.at[i];
    all[count] = (ObjectBytes){(const char *)chooser_object, chooser_object_len};
    const char *error = job->what == OUTPUT_OBJECT ? object_merge(all, count + 1, a, &one) : NULL;
    *bytes = one.at;
    *len = one.len;
    return error;
}

static const char *emit_any(const BackendInput *inputs, uint32_t n, const BackendOptions *o,
                            enum BackendOutput what, Arena *a, const char **bytes, size_t *len)
{
    BackendInput sorted[ISA_COUNT];
    uint32_t count = 0;
    for (Isa isa = 0; isa < ISA_COUNT; isa++) /* select() wants them from the plainest up */
        for (uint32_t i = 0; i < n; i++)
            if (inputs[i].isa == isa && (!count || sorted[count - 1].isa != isa))
                sorted[count++] = inputs[i];
    if (!count)
        return "the backend was given nothing to compile";
    Job job = {.inputs = sorted,
               .ninputs = count,
               .nkernels = sorted[0].module->kernels.len,
               .options = o,
               .what = what};
    ModulePart parts[PARTS_MAX] = {0};
    plan_units(&job, a);
    share_units(&job);
    uint32_t nparts = job.nparts;
    for (uint32_t i = 0; i < nparts; i++)
        parts[i] = (ModulePart){.job = &job, .number = i};
    run_parts(parts, nparts);
    const char *error = collect(parts, nparts, a, bytes, len);
    for (uint32_t i = 0; i < nparts; i++)
        if (parts[i].arena)
            arena_free(parts[i].arena);
    return error;
}

/* As the part of a job that has no other: the plan is that of no kernel. */
const char *backend_make_helper(Isa target, uint32_t helper, Arena *a, ObjectBytes *out)
{
    Diags diags = {.arena = a};
    Module *module = ir_module(a, &diags, NULL);
    Kernel *none = arena_new_of(a, Kernel);
    Plan *plan = arena_new_of(a, Plan);
    none->module = module;
    *plan =
        (Plan){.m = module, .k = none, .target = target, .isa = cpu_table[target].code, .hooks = emit_hooks};
    plan->cpu = &cpu_table[plan->isa];
    BackendInput input = {module, target};
    BackendOptions options = {.level = MADE_LEVEL};
    Job job = {.inputs = &input,
               .ninputs = 1,
               .nkernels = 1,
               .options = &options,
               .what = OUTPUT_OBJECT,
               .plans = &plan,
               .nparts = 2};
    vec_push(a, &job.pieces, (Piece){.helper = (int)helper, .part = 1});
    ModulePart part = {.job = &job, .number = 1, .arena = a}; /* the first has what all need */
    const char *error = make_part(&part);
    *out = (ObjectBytes){part.bytes, part.len};
    return error;
}

__attribute__((visibility("default"))) const BackendApi *backend_entry(void)
{
    static char version[32];
    static BackendApi api = {version, emit_any, jit_load, jit_symbol, jit_free, jit_listen};
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    snprintf(version, sizeof version, "LLVM %u.%u.%u", major, minor, patch);
    return &api;
}
