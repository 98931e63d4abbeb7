/* x86: LLVM's target, and what no table says. */
#include "backend/family.h"

#include <string.h>

void family_start_x86(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

/* An empty assembly instruction that reads and writes all of them, and memory. */
void family_pin_x86(L *l, V *vectors, unsigned n)
{
    Ty *types = arena_array(l->arena, Ty, n);
    const char *outputs = "", *inputs = "";
    for (unsigned i = 0; i < n; i++) {
        types[i] = LLVMTypeOf(vectors[i]);
        outputs = arena_printf(l->arena, "%s=v,", outputs);
        inputs = arena_printf(l->arena, "%s%u,", inputs, i);
    }
    const char *constraints = arena_printf(l->arena, "%s%s~{memory}", outputs, inputs);
    Ty all = LLVMStructTypeInContext(l->ctx, types, n, 0), type = l_fn_type(l, all, types, n);
    V nothing =
        LLVMGetInlineAsm(type, "", 0, constraints, strlen(constraints), 1, 0, LLVMInlineAsmDialectATT, 0);
    V pinned = LLVMBuildCall2(l->b, type, nothing, vectors, n, "");
    for (unsigned i = 0; i < n; i++)
        vectors[i] = LLVMBuildExtractValue(l->b, pinned, i, "");
}

void family_fence_x86(L *l) { l_intrinsic(l, "llvm.x86.sse.sfence", NULL, NULL, 0); }
