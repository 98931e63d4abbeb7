/* The LLVM C API as this room uses it, and the one place where its versions (19 to 22) differ. */
#ifndef BACKEND_LLVM_H
#define BACKEND_LLVM_H

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/OrcEE.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

typedef LLVMValueRef V;
typedef LLVMTypeRef Ty;
typedef LLVMBasicBlockRef Block;

/* llvm.masked.*: up to LLVM 21 the alignment is an argument, later an attribute of the pointer argument. */
static inline int llvm_masked_takes_align(V intrinsic, unsigned params_without_align)
{
    return LLVMCountParams(intrinsic) > params_without_align;
}

#endif
