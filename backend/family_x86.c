/* x86: LLVM's target, and what no table says. */
#include "backend/family.h"

void family_start_x86(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

void family_fence_x86(L *l) { l_intrinsic(l, "llvm.x86.sse.sfence", NULL, NULL, 0); }
