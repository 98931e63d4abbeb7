/* See target.h. */
#include "backend/target.h"

#include "backend/family.h"

#include <pthread.h>
#include <string.h>

const FamilyHooks family_hooks[FAMILY_COUNT] = {
#define FAMILY(id, triple, cpu, doc) {family_start_##id, family_fence_##id, family_pin_##id},
#include "machines/cpu.def"
};

static void start_all(void)
{
    for (Family f = 0; f < FAMILY_COUNT; f++)
        family_hooks[f].start();
}

static pthread_once_t started = PTHREAD_ONCE_INIT;

static const char *kept(Arena *a, char *message)
{
    const char *copy = arena_printf(a, "LLVM: %s", message ? message : "unknown error");
    LLVMDisposeMessage(message);
    return copy;
}

const char *target_open(Family family, int level, Arena *a, LLVMTargetMachineRef *out)
{
    static const LLVMCodeGenOptLevel levels[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess,
                                                 LLVMCodeGenLevelDefault, LLVMCodeGenLevelAggressive};
    pthread_once(&started, start_all);
    const FamilyRow *row = &family_table[family];
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(row->triple, &target, &message))
        return kept(a, message);
    level = level < 0 ? 0 : level > 3 ? 3 : level;
    *out = LLVMCreateTargetMachine(target, row->triple, row->cpu, "", levels[level], LLVMRelocPIC,
                                   LLVMCodeModelDefault);
    return *out ? NULL : arena_printf(a, "LLVM: no target machine for %s", row->cpu);
}

void target_prepare(LLVMTargetMachineRef machine, LLVMModuleRef mod)
{
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    char *triple = LLVMGetTargetMachineTriple(machine);
    LLVMSetModuleDataLayout(mod, layout);
    LLVMSetTarget(mod, triple);
    LLVMDisposeMessage(triple);
    LLVMDisposeTargetData(layout);
}

/* The emitter has blocked and unrolled: registers from stack slots, common loads, invariants out of loops. */
static const char *const pipeline =
    "function(sroa,early-cse<memssa>,loop-mssa(licm),early-cse<memssa>,simplifycfg)";

/* Note [One lane]. Where only one lane of a masked store is set, and that is known when it compiles, LLVM stores the lane alone.
 * If the value was narrowed by a trunc, LLVM 22 then stores the lane as it was before, which is twice as long as the element
 * (reduceMaskedStoreToScalarStore in X86ISelLowering.cpp takes the type of the wide operand). So such a store becomes one of a
 * scalar here. */
static int only_lane(LLVMValueRef mask)
{
    int only = -1;
    for (unsigned i = 0; LLVMIsConstant(mask) && i < LLVMGetVectorSize(LLVMTypeOf(mask)); i++) {
        LLVMValueRef lane = LLVMGetAggregateElement(mask, i);
        if (!lane || !LLVMIsAConstantInt(lane) || (LLVMConstIntGetZExtValue(lane) && only >= 0))
            return -1;
        only = LLVMConstIntGetZExtValue(lane) ? (int)i : only;
    }
    return only;
}

static int is_masked_store(LLVMValueRef instruction)
{
    static const char name[] = "llvm.masked.store.";
    size_t len = 0;
    LLVMValueRef called = LLVMIsACallInst(instruction) ? LLVMGetCalledValue(instruction) : NULL;
    return called && strncmp(LLVMGetValueName2(called, &len), name, strlen(name)) == 0;
}

static void store_one_lane(LLVMBuilderRef b, LLVMValueRef instruction)
{
    int lane = is_masked_store(instruction)
                   ? only_lane(LLVMGetOperand(instruction, LLVMGetNumArgOperands(instruction) - 1))
                   : -1;
    if (lane < 0)
        return;
    LLVMTypeRef i32 = LLVMInt32TypeInContext(LLVMGetTypeContext(LLVMTypeOf(instruction)));
    LLVMValueRef at = LLVMConstInt(i32, (unsigned)lane, 0), to = LLVMGetOperand(instruction, 1);
    LLVMPositionBuilderBefore(b, instruction);
    LLVMValueRef v = LLVMBuildExtractElement(b, LLVMGetOperand(instruction, 0), at, "");
    to = LLVMBuildGEP2(b, LLVMTypeOf(v), to, &at, 1, "");
    LLVMSetAlignment(LLVMBuildStore(b, v, to), 1);
    LLVMInstructionEraseFromParent(instruction);
}

static void store_single_lanes(LLVMModuleRef mod)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(mod));
    for (LLVMValueRef f = LLVMGetFirstFunction(mod); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block; block = LLVMGetNextBasicBlock(block))
            for (LLVMValueRef at = LLVMGetFirstInstruction(block), next; at; at = next) {
                next = LLVMGetNextInstruction(at);
                store_one_lane(b, at);
            }
    LLVMDisposeBuilder(b);
}

const char *target_optimize(LLVMTargetMachineRef machine, LLVMModuleRef mod, int level, Arena *a)
{
#ifndef NDEBUG
    char *message = NULL;
    if (LLVMVerifyModule(mod, LLVMReturnStatusAction, &message))
        return kept(a, message);
    LLVMDisposeMessage(message);
#endif
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(mod, level > 0 ? pipeline : "function(sroa)", machine, o);
    LLVMDisposePassBuilderOptions(o);
    if (!error) {
        store_single_lanes(mod);
        return NULL;
    }
    char *text = LLVMGetErrorMessage(error);
    const char *copy = arena_printf(a, "LLVM: %s", text);
    LLVMDisposeErrorMessage(text);
    return copy;
}

const char *target_bytes(LLVMTargetMachineRef machine, LLVMModuleRef mod, LLVMCodeGenFileType type, Arena *a,
                         const char **bytes, size_t *len)
{
    LLVMMemoryBufferRef buffer;
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, mod, type, &message, &buffer))
        return kept(a, message);
    *len = LLVMGetBufferSize(buffer);
    char *copy = arena_alloc(a, *len + 1);
    memcpy(copy, LLVMGetBufferStart(buffer), *len);
    *bytes = copy;
    LLVMDisposeMemoryBuffer(buffer);
    return NULL;
}
